//! The e1000 driver with its card, as an operating-system stack sees it. This is where a simulation reaches
//! the project's driver: [`E1000::probe`] starts it, and the stack calls it through [`Netdev`].

use super::policy::{Next, ServicePolicy};
use kpps_driver::config::{self, Buffers};
use kpps_driver::service::{self, Exclusive, InterruptLoop, Napi, Polling, SelfPacing, Spent};
use kpps_driver::{
    Checksums, Chip, Config, Control, Device, Error, Fragment, Offload, Received, RxQueue, Segmentation, Sum,
    TxMeta, TxQueue, TxQueueLimit, probe,
};
use kpps_host::cpu::{Function, Lock};
use kpps_host::platform::{Allocator, Buf, Card};
use kpps_host::stack::{self, IntoBuffer, Netdev, NextPoll, Polled, Raised};
use kpps_host::{Machine, NS};
use kpps_platform::{Buffer, BufferSource, Platform};
use serde::Deserialize;
use std::cell::{Cell, RefCell};
use std::fmt;
use std::rc::Rc;

/// How long a link may take to come up: twice the slowest autonegotiation.
const LINK_PATIENCE_NS: u64 = 5_000_000_000;

/// A received frame.
pub struct Frame(Received<Buf>);

impl AsRef<[u8]> for Frame {
    fn as_ref(&self) -> &[u8] {
        let bytes = self.0.buffer.bytes();
        bytes.get(..usize::from(self.0.bytes)).unwrap_or(bytes)
    }
}

impl Frame {
    /// A frame that is made here.
    pub(crate) fn made(buffer: Buf, bytes: u16) -> Self {
        Self(Received::made(buffer, bytes))
    }

    /// Its bytes, to change them.
    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        let bytes = usize::from(self.0.bytes);
        self.0.buffer.bytes_mut().get_mut(..bytes).unwrap_or_default()
    }

    /// Sets its length; `false`, with nothing changed, if its buffer is too small.
    pub(crate) fn set_bytes(&mut self, bytes: usize) -> bool {
        let fits = u16::try_from(bytes).ok().filter(|_| bytes <= self.0.buffer.bytes().len());
        self.0.bytes = fits.unwrap_or(self.0.bytes);
        fits.is_some()
    }

    /// Its buffer, and its length in bytes without FCS.
    pub(crate) fn into_parts(self) -> (Buf, u16) {
        (self.0.buffer, self.0.bytes)
    }
}

/// Takes empty frames out of `source` at no cost, before the machine is started.
pub(crate) fn set_aside(source: &Allocator, frames: usize) -> Vec<Frame> {
    source.set_aside(frames).into_iter().map(|buffer| Frame::made(buffer, 0)).collect()
}

impl IntoBuffer<Buf> for Frame {
    fn into_buffer(self) -> Buf {
        self.0.buffer
    }
}

/// The service policy of the driver.
enum Policy {
    InterruptLoop(InterruptLoop),
    Napi(Napi),
    Polling(Polling),
    SelfPacing(SelfPacing),
    Own(Box<dyn ServicePolicy>),
}

/// A line of kernels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub enum Kernel {
    /// Linux 2.2: no softirqs, no NAPI.
    #[serde(rename = "linux-2.2")]
    Linux22,
    /// Linux 2.4, from 2.4.20 on with NAPI.
    #[serde(rename = "linux-2.4")]
    Linux24,
    /// Linux 2.6.
    #[serde(rename = "linux-2.6")]
    Linux26,
    /// Linux 6.
    #[serde(rename = "linux-6")]
    Linux6,
    /// FreeBSD 4 to 6.
    #[serde(rename = "freebsd")]
    FreeBsd,
}

impl fmt::Display for Kernel {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(match self {
            Self::Linux22 => "Linux 2.2",
            Self::Linux24 => "Linux 2.4",
            Self::Linux26 => "Linux 2.6",
            Self::Linux6 => "Linux 6",
            Self::FreeBsd => "FreeBSD",
        })
    }
}

/// A driver preset's description of the operating system, and of the driver's behaviour towards it. Only the
/// simulator uses it: the driver's own code leaves it to its caller.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DriverModel {
    /// The kernels that the driver existed for; empty: any.
    #[serde(default)]
    pub kernels: Vec<Kernel>,
    /// When the checksum status of a received frame is worked out.
    #[serde(default)]
    pub checksum_status: ChecksumStatus,
    /// How the length of the transmit queue is chosen where a sender waits for space in it.
    #[serde(default)]
    pub transmit_queue: TransmitQueue,
    /// When the transmit tail is written; `None`: as drivers with this service do.
    #[serde(default)]
    pub transmit_tail: Option<TransmitTail>,
}

impl DriverModel {
    /// The names of these constants in a driver preset; all others are the driver's own ([`Config`]).
    pub const CONSTANTS: [&str; 4] = ["kernels", "checksum_status", "transmit_queue", "transmit_tail"];

    /// Whether the driver existed for this kernel.
    pub fn existed_for(&self, kernel: Kernel) -> bool {
        self.kernels.is_empty() || self.kernels.contains(&kernel)
    }
}

/// When a driver rings the transmit doorbell.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TransmitTail {
    /// For each frame. Without a choice, drivers that work in interrupts and softirqs do so.
    EachFrame,
    /// At the end of each poll, and wherever else a series of frames ends.
    EachPoll,
}

/// When a driver works out the checksum status of a received frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ChecksumStatus {
    /// For each frame: it is written into the packet structure, whether or not anybody reads it.
    #[default]
    EachFrame,
    /// On request ([`Received::transport_checksum`]).
    OnDemand,
}

/// Length policy of the transmit queue when senders block on it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TransmitQueue {
    /// As long as the system's queue.
    #[default]
    Fixed,
    /// As long as it has to be, as measured while it is in use ([`TxQueueLimit`]).
    SelfSizing,
}

/// A driver's state besides frames, as of the end of its last turn.
#[derive(Default)]
pub struct DriverState {
    /// Frames that it has dropped.
    pub dropped: Cell<u64>,
    /// How often it has written the receive tail.
    pub tail_writes: Cell<u64>,
    /// CPU time that it says it has taken, if its service keeps account.
    pub spent: Cell<Spent>,
    /// Why it cannot go on.
    pub error: Cell<Option<Error>>,
    /// Why a policy of the calling program cannot.
    pub policy_error: RefCell<Option<String>>,
}

impl DriverState {
    /// Its counters now.
    pub(crate) fn reading(&self) -> DriverReading {
        DriverReading {
            dropped: self.dropped.get(),
            tail_writes: self.tail_writes.get(),
            spent: self.spent.get(),
        }
    }

    /// The answer of the calling program's policy. None after an error: it is kept, and the policy is not
    /// asked again.
    fn answer<T>(&self, ask: impl FnOnce() -> Result<T, String>) -> Option<T> {
        let mut failed = self.policy_error.borrow_mut();
        if failed.is_some() {
            return None;
        }
        ask().map_err(|error| *failed = Some(error)).ok()
    }
}

/// A driver's counters at one instant.
pub(crate) struct DriverReading {
    pub dropped: u64,
    pub tail_writes: u64,
    pub spent: Spent,
}

/// The part of the system that does a piece of the work of sending.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum By {
    /// None: the work is left out.
    #[default]
    Nobody,
    /// The host's CPU.
    Cpu,
    /// The card, as its descriptors say.
    Card,
}

impl std::str::FromStr for By {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "none" => Ok(Self::Nobody),
            "cpu" => Ok(Self::Cpu),
            "card" => Ok(Self::Card),
            other => Err(format!("'{other}' is not none, cpu or card")),
        }
    }
}

/// The features that stack, driver and card use for a frame to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Features {
    /// The buffers that it comes in.
    pub pieces: Pieces,
    /// The part that computes the checksum of the datagram or segment.
    pub checksum: By,
    /// The part that inserts VLAN tags.
    pub vlan: By,
    /// TCP segments that the stack hands over as one, for the card to split (TSO); 1: each by itself.
    pub segments: u16,
}

impl Features {
    /// Free descriptors needed before a frame is tried: one; with offloads, the most that a context, errata
    /// and segments may take.
    fn least_descriptors(&self) -> usize {
        let plain = Self { pieces: self.pieces, ..Self::default() };
        if *self == plain || self.checksum == By::Cpu && self.vlan != By::Card && self.segments == 1 {
            return 1;
        }
        8 + usize::from(self.segments) / 2
    }
}

impl Default for Features {
    fn default() -> Self {
        Self { pieces: Pieces::One, checksum: By::Nobody, vlan: By::Nobody, segments: 1 }
    }
}

/// Bytes before a VLAN tag, of an Ethernet header without one, and of the tag.
const ADDRESSES: usize = 12;
const ETHERNET: usize = 14;
const VLAN_TAG: u8 = 4;

/// Headers of IP and TCP, without options.
const TCP_HEADERS: usize = 40;

/// The offload for a superpacket of `bytes`, of which the Ethernet header has `ethernet`.
fn segmentation(ethernet: u8, bytes: usize, mss: u16) -> Offload {
    let (tcp, header_bytes) = (ethernet + 20, ethernet + TCP_HEADERS as u8);
    Offload::Segment(Segmentation {
        ip: Sum { start: ethernet, field: ethernet + 10, end: u16::from(tcp) - 1 },
        transport: Sum { start: tcp, field: tcp + 16, end: 0 },
        is_ipv4: true,
        is_tcp: true,
        header_bytes,
        payload_bytes: bytes.saturating_sub(header_bytes.into()) as u32,
        mss,
    })
}

/// The VLAN of frames with a tag.
pub(crate) const VLAN: u16 = 10;

/// How a stack hands a frame to the driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pieces {
    /// In one buffer.
    One,
    /// In this number of buffers.
    Many(usize),
    /// In several buffers, which the driver copies into one.
    Coalesced,
}

impl Pieces {
    /// The form of a frame in `buffers` buffers; `coalesced`: the driver copies several into one.
    pub fn of(buffers: usize, coalesced: bool) -> Self {
        match (buffers, coalesced) {
            (0 | 1, _) => Self::One,
            (_, true) => Self::Coalesced,
            (many, false) => Self::Many(many),
        }
    }
}

/// Driver and card. An interrupt may come while it is served, and another CPU may send meanwhile.
pub struct E1000 {
    machine: Machine,
    slot: usize,
    control: RefCell<Control<Card>>,
    rx: RefCell<RxQueue<Card, Allocator>>,
    tx: Lock<TxQueue<Card, Allocator>>,
    /// The CPU whose poll holds the transmit queue from beginning to end. A frame that is to be forwarded
    /// from within that poll has to wait.
    polls_on: Cell<Option<usize>>,
    policy: RefCell<Policy>,
    source: Allocator,
    /// The card checks checksums, and the driver works out each frame's status.
    checksum: bool,
    model: DriverModel,
    /// The tail is written for each frame, as under Linux.
    doorbell_each_frame: bool,
    features: Features,
    /// A source in the kernel sends one packet again and again: it clones it.
    clones: bool,
    /// The payload of a TCP segment: a longer packet that is forwarded is a superpacket, which the card cuts.
    /// 0: there are none.
    mss: u16,
    /// Finds the length of the transmit queue, if it is self-sizing.
    gate: Option<RefCell<TxQueueLimit>>,
    state: Rc<DriverState>,
}

/// The control half, held with interrupts off: their handler uses it, too, on the same CPU.
struct Controls<'a>(&'a E1000);

impl Exclusive<Control<Card>> for Controls<'_> {
    fn with<R>(&mut self, access: impl FnOnce(&mut Control<Card>) -> R) -> R {
        self.0.machine.without_interrupts(|| access(&mut self.0.control.borrow_mut()))
    }
}

/// The transmit queue, held under its lock.
struct Transmitter<'a>(&'a E1000);

impl Exclusive<TxQueue<Card, Allocator>> for Transmitter<'_> {
    fn with<R>(&mut self, access: impl FnOnce(&mut TxQueue<Card, Allocator>) -> R) -> R {
        self.0.tx.with(&self.0.machine, access)
    }
}

impl E1000 {
    /// Probes the card and waits for its link. Interrupts are enabled unless the policy uses none.
    pub fn probe(
        card: Card,
        chip: Chip,
        config: &Config,
        model: DriverModel,
        allocator: Allocator,
    ) -> Result<Self, Error> {
        let source = match config.buffers {
            Buffers::Fresh => allocator,
            Buffers::Recycled => allocator.recycling(),
        };
        let Device { mut control, rx, tx } = probe(card.clone(), chip, config.clone(), source.clone())?;
        let give_up_ns = card.now_ns() + LINK_PATIENCE_NS;
        while !control.update_link()?.up {
            if card.now_ns() > give_up_ns {
                return Err(Error::Timeout("the link"));
            }
            card.wait_ns(1_000_000);
        }
        let policy = match config.service {
            config::Service::InterruptLoop { max_loops, mask, again } => {
                Policy::InterruptLoop(InterruptLoop::new(max_loops, mask, again))
            }
            config::Service::Napi { weight, exit, mask } => Policy::Napi(Napi::new(weight, exit, mask)),
            config::Service::Polling { burst } => Policy::Polling(Polling::new(burst)),
            config::Service::SelfPacing { burst, reserve, polling_rdtr } => Policy::SelfPacing(
                SelfPacing::new(burst, reserve).with_polling_rdtr(polling_rdtr).sleeping_while_sending(),
            ),
        };
        if !matches!(policy, Policy::Polling(_)) {
            control.unmask();
        }
        // Click calls a polling driver and ends a burst explicitly; the kernel calls others frame by frame.
        let doorbell_each_frame = match model.transmit_tail {
            Some(when) => when == TransmitTail::EachFrame,
            None => matches!(policy, Policy::InterruptLoop(_) | Policy::Napi(_)),
        };
        let (machine, slot) = (card.machine().clone(), card.slot());
        let ring_lines = machine.host().ring_lines;
        Ok(Self {
            control: RefCell::new(control),
            rx: RefCell::new(rx),
            tx: Lock::new(tx, ring_lines),
            polls_on: Cell::new(None),
            policy: RefCell::new(policy),
            source,
            checksum: config.rx_checksum && chip.has_checksum_offload(),
            doorbell_each_frame,
            model,
            features: Features::default(),
            clones: false,
            mss: 0,
            gate: None,
            state: Rc::default(),
            slot,
            machine,
        })
    }

    /// The same below an application that reads no frame's checksum status.
    pub fn without_checksum_readers(self) -> Self {
        let each_frame = self.model.checksum_status == ChecksumStatus::EachFrame;
        Self { checksum: self.checksum && each_frame, ..self }
    }

    /// The card's slot.
    pub fn slot(&self) -> usize {
        self.slot
    }

    /// The same with a policy of the calling program, which replaces a [`SelfPacing`] one.
    pub fn served_by(self, policy: Box<dyn ServicePolicy>) -> Self {
        Self { policy: RefCell::new(Policy::Own(policy)), ..self }
    }

    /// A poll whose successor the policy chooses.
    fn poll_for(
        &self,
        policy: &mut dyn ServicePolicy,
        budget: usize,
        sink: impl FnMut(Received<Buf>) -> Option<Buf>,
    ) -> (service::Polled, NextPoll) {
        let mut tx = Transmitter(self);
        let reclaimed = tx.with(|tx| {
            tx.set_polled(true);
            tx.reclaim(usize::MAX)
        });
        let received = self.rx.borrow_mut().receive(budget, sink);
        let now_ps = self.machine.now_ps();
        let next =
            self.state.answer(|| policy.on_poll(received, reclaimed, now_ps / NS)).unwrap_or(Next::Interrupt);
        tx.with(TxQueue::request_report_if_idle);
        let next = match next {
            Next::PollIn(0) => NextPoll::Now,
            Next::PollIn(ns) => NextPoll::At(now_ps.saturating_add(ns.saturating_mul(NS))),
            Next::Interrupt => {
                tx.with(|tx| {
                    tx.set_polled(false);
                    tx.request_report();
                });
                Controls(self).with(|control| control.unmask());
                NextPoll::Interrupt
            }
        };
        (service::Polled { received, reclaimed, done: next == NextPoll::Interrupt }, next)
    }

    /// An interrupt that the policy decides about. True: poll.
    fn ask(&self, policy: &mut dyn ServicePolicy, control: &mut Control<Card>) -> Result<bool, Error> {
        if !control.causes()?.any() {
            return Ok(false);
        }
        let answer = self.state.answer(|| policy.on_interrupt(self.machine.now_ps() / NS));
        let polls = answer.unwrap_or(false);
        if polls {
            control.mask();
        }
        Ok(polls)
    }

    /// Where it is to be served.
    pub fn service(&self) -> stack::Service {
        match self.control.borrow().config().service {
            config::Service::InterruptLoop { .. } => stack::Service::Interrupt,
            config::Service::Napi { weight, .. } => stack::Service::Softirq { weight: weight.into() },
            config::Service::Polling { burst } => stack::Service::Polling { burst: burst.into() },
            config::Service::SelfPacing { burst, .. } => stack::Service::Paced { burst: burst.into() },
        }
    }

    /// The same for a source in the kernel that sends one packet again and again, with these features.
    pub fn sending(self, features: Features) -> Self {
        Self { features, clones: true, ..self }
    }

    /// The same below a TCP that hands down superpackets of up to `most` segments, each with `mss` bytes of
    /// payload.
    pub fn segmenting(self, mss: u16, most: u16) -> Self {
        Self { features: Features { segments: most, ..self.features }, mss, ..self }
    }

    /// A clone of a packet of `bytes` that its protocol keeps until it is acknowledged. `None` if there is no
    /// buffer, or the packet is longer than one.
    pub fn clone_of(&self, bytes: &[u8]) -> Option<Frame> {
        let mut buffer = self.source.take_clone()?;
        buffer.bytes_mut().get_mut(..bytes.len())?.copy_from_slice(bytes);
        Some(Frame::made(buffer, bytes.len() as u16))
    }

    /// Charges the CPU's work on a frame's bytes before the driver has the frame.
    fn prepare(&self, bytes: usize) {
        let host = self.machine.host();
        let copied =
            if self.features.pieces == Pieces::Coalesced { bytes as u64 * host.copy_byte_ps } else { 0 };
        // Bytes that it has just written are in its cache.
        let summed = if self.features.checksum == By::Cpu { bytes - ETHERNET } else { 0 };
        let moved = if self.features.vlan == By::Cpu { ADDRESSES } else { 0 };
        let cached = (summed + moved) as u64 * host.copy_cached_byte_ps;
        if copied + cached > 0 {
            self.machine.spend_on(Function::Copy, copied + cached);
        }
    }

    /// The offloads for a frame of `bytes` bytes.
    fn meta(&self, bytes: usize) -> TxMeta {
        let Features { checksum, vlan, segments, .. } = self.features;
        let ethernet = ETHERNET as u8 + if vlan == By::Cpu { VLAN_TAG } else { 0 };
        let udp = ethernet + 20;
        let offload = if segments > 1 {
            let payload_bytes = bytes.saturating_sub(usize::from(ethernet) + TCP_HEADERS);
            segmentation(ethernet, bytes, (payload_bytes / usize::from(segments)) as u16)
        } else if checksum == By::Card {
            Offload::Checksum(Checksums {
                ip: None,
                transport: Some(Sum { start: udp, field: udp + 6, end: 0 }),
            })
        } else {
            Offload::None
        };
        TxMeta { vlan: (vlan == By::Card).then_some(VLAN), offload }
    }

    /// The same for senders that wait for space in the transmit queue, before which the system keeps `queue`
    /// frames.
    pub fn with_waiting_senders(self, queue: usize) -> Self {
        let most = usize::from(self.control.borrow().config().tx_ring) - 1 + queue;
        let gate = match self.model.transmit_queue {
            TransmitQueue::Fixed => None,
            TransmitQueue::SelfSizing => Some(RefCell::new(TxQueueLimit::new(most))),
        };
        Self { gate, ..self }
    }

    /// The limit of the transmit queue in frames, and the descriptors in use.
    pub fn transmit_queue(&self) -> (usize, usize) {
        let (pending, free) = self.tx.peek(|tx| (tx.pending(), tx.free())).unwrap_or_default();
        (self.gate.as_ref().map_or(pending + free, |gate| gate.borrow().limit()), pending)
    }

    /// Frames that wait to be sent, `queued` of them before the ring.
    fn waiting(&self, queued: usize) -> usize {
        queued + self.tx.peek(|tx| tx.pending()).unwrap_or(0)
    }

    /// Sends a frame in several buffers: `first` holds it whole, and `pieces` share it.
    fn send_pieces(&self, mut first: Buf, bytes: usize, pieces: usize) -> bool {
        let mut source = self.source.clone();
        let each = bytes.div_ceil(pieces);
        let mut fragments = Vec::with_capacity(pieces);
        for from in (each..bytes).step_by(each) {
            let Some(mut buffer) = source.take() else { break };
            let part = from..bytes.min(from + each);
            let length = part.len();
            buffer.bytes_mut()[..length].copy_from_slice(&first.bytes_mut()[part]);
            fragments.push(Fragment { buffer, bytes: length as u16 });
        }
        let meta = self.meta(bytes);
        fragments.insert(0, Fragment { buffer: first, bytes: each.min(bytes) as u16 });
        let refused = self.tx.with(&self.machine, |tx| {
            let sent = tx.enqueue(fragments.into_iter(), &meta);
            if sent.is_ok() && self.doorbell_each_frame {
                tx.flush();
            }
            sent.err()
        });
        let Some(refused) = refused else { return true };
        refused.frame.for_each(|fragment| source.give(fragment.buffer));
        false
    }

    /// Takes empty frames at no cost, before the machine is started.
    pub(crate) fn set_aside(&self, frames: usize) -> Vec<Frame> {
        set_aside(&self.source, frames)
    }

    /// A handle of the driver's state.
    pub fn state(&self) -> Rc<DriverState> {
        Rc::clone(&self.state)
    }

    /// The source of its buffers.
    pub(crate) fn source(&self) -> Allocator {
        self.source.clone()
    }

    /// Uses the transmit queue under its lock, for a program that sends without a stack.
    pub(crate) fn with_tx<R>(&self, access: impl FnOnce(&mut TxQueue<Card, Allocator>) -> R) -> R {
        self.tx.with(&self.machine, access)
    }

    /// Runs a poll that holds the transmit queue from beginning to end.
    #[inline]
    fn with_own_tx<R>(&self, poll: impl FnOnce(&mut TxQueue<Card, Allocator>) -> R) -> R {
        self.tx.with(&self.machine, |tx| {
            self.polls_on.set(Some(self.machine.cpu()));
            let result = poll(tx);
            self.polls_on.set(None);
            result
        })
    }

    /// Updates the driver's reported state, at the end of a turn.
    fn note(&self, error: Option<Error>) {
        if let Ok(rx) = self.rx.try_borrow() {
            let counters = rx.counters();
            self.state.tail_writes.set(counters.doorbells);
            self.state.dropped.set(counters.frame_errors + counters.nonsense);
        }
        if error.is_some() {
            self.state.error.set(error);
        }
    }

    /// The driver's last step with a frame.
    #[inline]
    fn frame(&self, received: Received<Buf>) -> Frame {
        if self.checksum {
            self.machine.spend_on(Function::Checksum, self.machine.host().checksum_ps);
        }
        Frame(received)
    }
}

impl Netdev for E1000 {
    type Frame = Frame;
    type Buffer = Buf;

    fn interrupt(&self, up: &mut dyn FnMut(Frame) -> Option<Buf>) -> Raised {
        let mut control = self.control.borrow_mut();
        let sink = |received| up(self.frame(received));
        let result = match self.policy.try_borrow_mut().as_deref_mut() {
            Ok(Policy::InterruptLoop(service)) => self.tx.with(&self.machine, |tx| {
                service.interrupt(&mut control, &mut self.rx.borrow_mut(), tx, sink).map(|_| false)
            }),
            Ok(Policy::Napi(service)) => service.interrupt(&mut control),
            Ok(Policy::SelfPacing(service)) => service.interrupt(&mut control),
            Ok(Policy::Polling(_)) => Ok(false),
            Ok(Policy::Own(policy)) => self.ask(&mut **policy, &mut control),
            // A poll is under way: nothing needs to be scheduled.
            Err(_) => control.causes().map(|_| false),
        };
        drop(control);
        self.note(result.err());
        let poll = result.unwrap_or(false);
        if poll { Raised::Poll } else { Raised::Nothing }
    }

    fn poll(&self, budget: usize, up: &mut dyn FnMut(Frame) -> Option<Buf>) -> Polled {
        let sink = |received| up(self.frame(received));
        let mut policy = self.policy.borrow_mut();
        if let Policy::Own(policy) = &mut *policy {
            let (polled, next) = self.poll_for(&mut **policy, budget, sink);
            self.note(None);
            return Polled { frames: polled.received, completed: polled.reclaimed, next };
        }
        let mut rx = self.rx.borrow_mut();
        let (polled, next) = match &mut *policy {
            Policy::Own(_) => (service::Polled::default(), NextPoll::Interrupt),
            Policy::InterruptLoop(_) => (service::Polled::default(), NextPoll::Interrupt),
            Policy::Napi(service) => {
                let polled = service.poll(Controls(self), &mut rx, Transmitter(self), budget, sink);
                (polled, if polled.done { NextPoll::Interrupt } else { NextPoll::Now })
            }
            Policy::Polling(service) => {
                (self.with_own_tx(|tx| service.poll(&mut rx, tx, budget, sink)), NextPoll::Now)
            }
            Policy::SelfPacing(service) => {
                let mut control = self.control.borrow_mut();
                let result = service.poll(&mut control, &mut rx, Transmitter(self), budget, sink);
                self.state.spent.set(service.spent());
                match result {
                    Ok((polled, service::NextPoll::Now)) => (polled, NextPoll::Now),
                    Ok((polled, service::NextPoll::At(ns))) => (polled, NextPoll::At(ns * NS)),
                    Ok((polled, service::NextPoll::Yield(ns))) => (polled, NextPoll::Yield(ns * NS)),
                    Ok((polled, service::NextPoll::Asleep)) => (polled, NextPoll::Interrupt),
                    Err(error) => {
                        self.note(Some(error));
                        return Polled { frames: 0, completed: 0, next: NextPoll::Interrupt };
                    }
                }
            }
        };
        drop(rx);
        self.note(None);
        Polled { frames: polled.received, completed: polled.reclaimed, next }
    }

    fn has_tx_space(&self) -> bool {
        self.tx.peek(|tx| tx.free()).unwrap_or_default() >= self.features.least_descriptors()
    }

    fn admits(&self, queued: usize, most: usize) -> bool {
        let Some(gate) = &self.gate else { return queued < most };
        let waiting = self.waiting(queued);
        let back = || {
            let owes = self.tx.with(&self.machine, |tx| {
                tx.reclaim(usize::MAX);
                tx.progress().waiting
            });
            (self.machine.now_ps() / NS, owes || queued > 0)
        };
        gate.borrow_mut().admits(if queued < most { waiting } else { usize::MAX }, back)
    }

    fn readmits(&self, queued: usize, most: usize) -> bool {
        let Some(gate) = &self.gate else { return queued <= most / 2 };
        let (waiting, mut gate) = (self.waiting(queued), gate.borrow_mut());
        gate.wakes(waiting, || self.machine.now_ps() / NS);
        !gate.is_stopped()
    }

    fn send(&self, fill: &mut dyn FnMut(&mut [u8]) -> usize) -> bool {
        let mut source = self.source.clone();
        let taken = if self.clones { source.take_clone() } else { source.take() };
        let Some(mut buffer) = taken else { return false };
        let bytes = fill(buffer.bytes_mut());
        if self.features != Features::default() {
            self.prepare(bytes);
            let pieces = if let Pieces::Many(pieces) = self.features.pieces { pieces.max(1) } else { 1 };
            if pieces > 1 || self.meta(bytes) != TxMeta::default() {
                return self.send_pieces(buffer, bytes, pieces);
            }
        }
        let sent = self.tx.with(&self.machine, |tx| {
            let sent = tx.send(buffer, bytes as u16);
            if sent.is_ok() && self.doorbell_each_frame {
                tx.flush();
            }
            sent
        });
        match sent {
            Ok(()) => true,
            Err(refused) => {
                source.give(refused.frame.buffer);
                false
            }
        }
    }

    fn forward(&self, frame: Frame) -> Result<(), Frame> {
        if self.polls_on.get() == Some(self.machine.cpu()) {
            return Err(frame);
        }
        let Frame(mut received) = frame;
        let (buffer, bytes) = (received.buffer, received.bytes);
        let is_superpacket =
            self.mss > 0 && usize::from(bytes) > ETHERNET + TCP_HEADERS + usize::from(self.mss);
        let refused = self.tx.with(&self.machine, |tx| {
            let refused = if is_superpacket {
                let offload = segmentation(ETHERNET as u8, bytes.into(), self.mss);
                let whole = std::iter::once(Fragment { buffer, bytes });
                let sent = tx.enqueue(whole, &TxMeta { vlan: None, offload });
                // A full ring has drawn nothing, and this packet is valid.
                sent.err().and_then(|mut refused| refused.frame.next())
            } else {
                tx.send(buffer, bytes).err().map(|refused| refused.frame)
            };
            if refused.is_none() && self.doorbell_each_frame {
                tx.flush();
            }
            refused
        });
        let Some(Fragment { buffer, .. }) = refused else { return Ok(()) };
        received.buffer = buffer;
        Err(Frame(received))
    }

    fn make(&self, fill: &mut dyn FnMut(&mut [u8]) -> usize) -> Option<Frame> {
        let mut buffer = self.source.clone().take()?;
        let bytes = fill(buffer.bytes_mut());
        Some(Frame::made(buffer, bytes as u16))
    }

    fn check_status(&self) {
        self.note(self.control.borrow_mut().causes().err());
    }

    fn flush(&self) {
        // Otherwise the tail is where it should be, and nothing asks for the lock.
        if !self.doorbell_each_frame {
            self.tx.with(&self.machine, TxQueue::flush);
        }
    }

    /// Checks the link, and recomputes throttling that follows the traffic.
    fn tick(&self) {
        let progress = self.tx.with(&self.machine, |tx| tx.look_after());
        let now_ns = self.machine.now_ps() / NS;
        // The stack's own watchdog checks whether the transmit queue hangs.
        self.note(Controls(self).with(|control| control.watchdog(now_ns, progress)).err());
    }

    fn free(&self, buffer: Buf) {
        self.source.clone().give(buffer);
    }
}
