//! An end station: the stack smoltcp on the driver, and another one at the far end of the cable.
//!
//! The far end sends numbered datagrams, which must arrive as in other worlds. It also sends bytes over TCP,
//! which the station sends back.

use crate::buffers::Pool;
use crate::card::{Card, Slot};
use crate::check::{Breach, Check};
use crate::fault::{Dice, Fault};
use crate::host_faults::{Disturbed, change_moderation};
use crate::plan::{SMALL_RING, WorldPlan};
use crate::port::{LONGEST_CALL_PS, LONGEST_START_PS, RETRY_PS, Reached, got};
use crate::traffic;
use kpps_driver::{Config, Error, probe};
use kpps_host::{MS, US};
use kpps_netstack::smoltcp::Nic;
use kpps_netstack::{Offload, buffers_needed};
use kpps_platform::Platform;
use smoltcp::iface::{Config as InterfaceConfig, Interface, SocketHandle, SocketSet};
use smoltcp::phy::{self, Device, DeviceCapabilities, Medium};
use smoltcp::socket::{tcp, udp};
use smoltcp::time::{Duration, Instant};
use smoltcp::wire::{EthernetAddress, HardwareAddress, IpAddress, IpCidr, Ipv4Address};
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;

/// Addresses of the station and of the far end, with this prefix; the ports of echo and discard (RFC 862,
/// 863).
pub(crate) const HERE: Ipv4Address = Ipv4Address::new(198, 18, 0, 1);
pub(crate) const THERE: Ipv4Address = Ipv4Address::new(198, 18, 0, 2);
const PREFIX: u8 = 16;
const ECHO_PORT: u16 = 7;
pub(crate) const DISCARD_PORT: u16 = 9;
/// The longest time between two calls of the stack for the device, in ps.
const LOOK_PS: u64 = 100 * MS;
/// How long after a refused connection the next one is tried.
const RECONNECT_PS: u64 = 10 * MS;
/// Bytes of a socket's buffer. A proof echoes the same number of bytes.
const SOCKET_BYTES: usize = 32 << 10;
const ECHOED_BYTES: u64 = 100_000;
/// Connections that the station can have.
const SERVERS: usize = 3;
/// The most datagrams in a socket's buffer.
const DATAGRAMS: usize = 512;

/// Frames between the far end's stack and the cable.
pub(crate) type Letters = Rc<RefCell<VecDeque<Vec<u8>>>>;

/// The cable, as the far end's device.
struct FarDevice {
    arrived: Letters,
    sent: VecDeque<Vec<u8>>,
}

struct FarReceived(Vec<u8>);
struct FarSpace<'a>(&'a mut VecDeque<Vec<u8>>);

impl phy::RxToken for FarReceived {
    fn consume<R, F: FnOnce(&[u8]) -> R>(self, look: F) -> R {
        look(&self.0)
    }
}

impl phy::TxToken for FarSpace<'_> {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, bytes: usize, write: F) -> R {
        // Every sender pads frames to 60 bytes.
        let mut frame = vec![0; bytes.max(60)];
        let result = write(&mut frame[..bytes]);
        self.0.push_back(frame);
        result
    }
}

impl Device for FarDevice {
    type RxToken<'a> = FarReceived;
    type TxToken<'a> = FarSpace<'a>;
    fn receive(&mut self, _: Instant) -> Option<(FarReceived, FarSpace<'_>)> {
        let frame = self.arrived.borrow_mut().pop_front()?;
        Some((FarReceived(frame), FarSpace(&mut self.sent)))
    }
    fn transmit(&mut self, _: Instant) -> Option<FarSpace<'_>> {
        Some(FarSpace(&mut self.sent))
    }
    fn capabilities(&self) -> DeviceCapabilities {
        let mut capabilities = DeviceCapabilities::default();
        capabilities.medium = Medium::Ethernet;
        capabilities.max_transmission_unit = 1514;
        capabilities
    }
}

fn at(ps: u64) -> Instant {
    Instant::from_micros((ps / US) as i64)
}

/// An interface with its address.
fn interface(device: &mut impl Device, hardware: HardwareAddress, address: Ipv4Address) -> Interface {
    let mut config = InterfaceConfig::new(hardware);
    config.random_seed = 1;
    let mut interface = Interface::new(config, device, Instant::ZERO);
    interface.update_ip_addrs(|list| {
        // The list is empty, so there is room.
        let _ = list.push(IpCidr::new(IpAddress::Ipv4(address), PREFIX));
    });
    interface
}

fn tcp_socket() -> tcp::Socket<'static> {
    let buffer = || tcp::SocketBuffer::new(vec![0; SOCKET_BYTES]);
    tcp::Socket::new(buffer(), buffer())
}

/// The far end: a client of the station's echo server.
struct FarEnd {
    interface: Interface,
    sockets: SocketSet<'static>,
    client: SocketHandle,
    device: FarDevice,
    next_port: u16,
    /// Whether the client should have a connection.
    connects: bool,
    /// Bytes of this connection that were sent, and that have come back.
    sent: u64,
    echoed: u64,
    next_ps: u64,
}

impl FarEnd {
    fn new(arrived: Letters) -> Self {
        let mut device = FarDevice { arrived, sent: VecDeque::new() };
        let address = EthernetAddress([2, 0, 0, 0, 0, 0x99]);
        let interface = interface(&mut device, HardwareAddress::Ethernet(address), THERE);
        let mut sockets = SocketSet::new(Vec::with_capacity(1));
        let client = sockets.add(tcp_socket());
        Self {
            interface,
            sockets,
            client,
            device,
            next_port: 49_152,
            connects: false,
            sent: 0,
            echoed: 0,
            next_ps: u64::MAX,
        }
    }

    /// Ends the connection.
    fn hang_up(&mut self, now_ps: u64) {
        self.sockets.get_mut::<tcp::Socket<'_>>(self.client).abort();
        self.interface.poll(at(now_ps), &mut self.device, &mut self.sockets);
        (self.connects, self.next_ps) = (false, now_ps);
    }

    /// Ends the connection, and opens another one.
    fn connect(&mut self, now_ps: u64) {
        self.hang_up(now_ps);
        let socket = self.sockets.get_mut::<tcp::Socket<'_>>(self.client);
        self.next_port = self.next_port.wrapping_add(1).max(49_152);
        let remote = (IpAddress::Ipv4(HERE), ECHO_PORT);
        // A closed socket connects anywhere.
        let _ = socket.connect(self.interface.context(), remote, self.next_port);
        (self.sent, self.echoed, self.connects) = (0, 0, true);
        self.next_ps = now_ps;
    }

    fn byte(&self, at: u64) -> u8 {
        (at.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 56) as u8 ^ self.next_port as u8
    }

    fn poll(&mut self, now_ps: u64, check: &Check) {
        self.interface.poll(at(now_ps), &mut self.device, &mut self.sockets);
        let mut chunk = [0; 1024];
        let mut come = 0;
        let socket = self.sockets.get_mut::<tcp::Socket<'_>>(self.client);
        if !socket.is_open() && self.connects && self.echoed < ECHOED_BYTES {
            // The connection was refused or reset.
            return self.connect(now_ps + RECONNECT_PS);
        }
        while let Ok(taken @ 1..) = socket.recv_slice(&mut chunk[come..]) {
            come += taken;
            if come == chunk.len() {
                break;
            }
        }
        for (byte, at) in chunk[..come].iter().zip(self.echoed..) {
            if *byte != self.byte(at) {
                check.harm(Breach::Changed);
            }
        }
        self.echoed += come as u64;
        let most = (ECHOED_BYTES - self.sent).min(chunk.len() as u64) as usize;
        for (byte, at) in chunk[..most].iter_mut().zip(self.sent..) {
            *byte = self.byte(at);
        }
        let socket = self.sockets.get_mut::<tcp::Socket<'_>>(self.client);
        let went = if most > 0 { socket.send_slice(&chunk[..most]).unwrap_or(0) } else { 0 };
        self.sent += went as u64;
        self.interface.poll(at(now_ps), &mut self.device, &mut self.sockets);
        let delay = self.interface.poll_delay(at(now_ps), &self.sockets);
        let more = come == chunk.len() || went > 0;
        self.next_ps = if more { now_ps + 10 * US } else { later(now_ps, delay) };
    }
}

/// The time of a stack's next call, in ps.
fn later(now_ps: u64, delay: Option<Duration>) -> u64 {
    delay.map_or(u64::MAX, |delay| now_ps + (delay.total_micros() * US).max(10 * US))
}

/// The station.
pub(crate) struct Station {
    pub(crate) card: Rc<RefCell<Card>>,
    slot: Slot,
    pool: Pool,
    nic: Option<Nic<Slot, Pool>>,
    interface: Interface,
    sockets: SocketSet<'static>,
    echo: [SocketHandle; SERVERS],
    discard: SocketHandle,
    far: FarEnd,
    config: Config,
    plan: WorldPlan,
    /// The stack runs then.
    poll_at: u64,
    interrupt_at: u64,
    edges: u64,
    disturbed: Disturbed,
    /// The driver is started then; the operator starts the stopped device then.
    retry_at: u64,
    start_at: u64,
    /// The counts of card and driver at the driver's start.
    begun: [u64; 4],
    /// Frames that earlier drivers received, and frames that the rings lost.
    got_before: u64,
    dropped: u64,
    pub(crate) reached: Reached,
    dice: Rc<Dice>,
    check: Rc<Check>,
    now_ps: Rc<Cell<u64>>,
}

impl Station {
    pub(crate) fn new(
        plan: &WorldPlan,
        card: Card,
        slot: impl FnOnce(&Rc<RefCell<Card>>) -> Slot,
        pool: &Pool,
        arrived: Letters,
        (dice, check, now_ps): (&Rc<Dice>, &Rc<Check>, &Rc<Cell<u64>>),
    ) -> Self {
        let card = Rc::new(RefCell::new(card));
        let mut far = FarEnd::new(arrived);
        let mut sockets = SocketSet::new(Vec::with_capacity(SERVERS + 1));
        let echo = std::array::from_fn(|_| {
            let mut socket = tcp_socket();
            // A client whose reset was lost is forgotten.
            socket.set_keep_alive(Some(Duration::from_secs(1)));
            socket.set_timeout(Some(Duration::from_secs(3)));
            sockets.add(socket)
        });
        let buffer =
            |many| udp::PacketBuffer::new(vec![udp::PacketMetadata::EMPTY; many], vec![0; many << 8]);
        let mut discard = udp::Socket::new(buffer(DATAGRAMS), buffer(1));
        // A new socket can be bound.
        let _ = discard.bind(DISCARD_PORT);
        let discard = sockets.add(discard);
        let address = EthernetAddress(card.borrow().address());
        let interface = interface(&mut far.device, HardwareAddress::Ethernet(address), HERE);
        Self {
            slot: slot(&card),
            card,
            pool: pool.clone(),
            nic: None,
            interface,
            sockets,
            echo,
            discard,
            far,
            config: plan.config.clone(),
            plan: plan.clone(),
            poll_at: u64::MAX,
            interrupt_at: u64::MAX,
            edges: 0,
            disturbed: Disturbed::default(),
            retry_at: 0,
            start_at: u64::MAX,
            begun: [0; 4],
            got_before: 0,
            dropped: 0,
            reached: Reached::default(),
            dice: dice.clone(),
            check: check.clone(),
            now_ps: now_ps.clone(),
        }
    }

    fn now(&self) -> u64 {
        self.now_ps.get()
    }

    /// The time of the next action, in ps.
    pub(crate) fn next_ps(&self) -> u64 {
        let own = self.poll_at.min(self.interrupt_at).max(self.disturbed.starved_until);
        own.min(self.retry_at).min(self.start_at).min(self.far.next_ps)
    }

    /// Checks the interrupt, and the data that has arrived at the far end.
    pub(crate) fn look(&mut self) {
        if !self.far.device.arrived.borrow().is_empty() {
            self.far.next_ps = self.far.next_ps.min(self.now() + US);
        }
        let (line, edges) = self.card.borrow().interrupts();
        let line = line || self.now() < self.disturbed.neighbour_until;
        let rose = edges != self.edges;
        self.edges = edges;
        if self.interrupt_at != u64::MAX || self.nic.is_none() || !(rose || self.plan.level && line) {
            return;
        }
        let mut at = self.now() + self.plan.interrupt_ps;
        if self.dice.throws(Fault::InterruptLost) {
            if !self.plan.level {
                return;
            }
            at += MS;
        }
        for fault in [Fault::InterruptLate, Fault::HandlerLate] {
            if self.dice.throws(fault) {
                at += self.dice.below(fault, 5 * MS);
            }
        }
        self.interrupt_at = at;
    }

    /// Performs the due actions.
    pub(crate) fn run(&mut self) {
        let now = self.now();
        if self.retry_at <= now {
            self.start();
        } else if self.start_at <= now {
            self.start_at = u64::MAX;
            self.reset("the operator starts it again");
        } else if self.far.next_ps <= now {
            self.far.poll(now, &self.check);
            let mut card = self.card.borrow_mut();
            for frame in self.far.device.sent.drain(..) {
                card.cable.post(now, frame);
            }
        } else if self.disturbed.starved_until > now {
            return;
        } else if self.interrupt_at <= now {
            self.interrupt_at = u64::MAX;
            if let Some(nic) = &self.nic {
                nic.endpoint.control().mask();
                self.poll_at = self.now();
            }
        } else if self.poll_at <= now {
            self.poll_at = u64::MAX;
            self.poll();
        }
        self.look();
        self.checks();
    }

    fn start(&mut self) {
        self.retry_at = u64::MAX;
        self.leave();
        self.reached.starts += 1;
        let begun = self.now();
        self.slot.misfits.set(false);
        let started = probe(self.slot.clone(), self.plan.chip, self.config.clone(), self.pool.clone());
        self.check.bounded(begun, LONGEST_START_PS);
        match started {
            Ok(_) if self.slot.misfits.get() => {
                self.check.breach(Breach::DriverCounters("memory outside of the rings"))
            }
            Ok(mut device) => {
                self.check.note(|| "started".to_owned());
                device.tx.source_mut().set_sends();
                let offload = if self.plan.sleeps { Offload::ALL } else { Offload::NONE };
                self.nic = Some(Nic::new(device, offload));
                self.begin();
            }
            Err(error) => self.failed(&error),
        }
    }

    fn begin(&mut self) {
        let handed_over = self.card.borrow().handed_over();
        self.dropped = handed_over.saturating_sub(self.got());
        self.begun = self.counted();
        self.poll_at = self.now() + US;
    }

    fn failed(&mut self, error: &Error) {
        self.check.note(|| format!("failed: {error}"));
        self.reached.failed_starts += 1;
        self.leave();
        self.retry_at = self.now() + RETRY_PS;
    }

    /// Removes the driver.
    pub(crate) fn leave(&mut self) {
        self.got_before = self.got();
        self.nic = None;
        (self.poll_at, self.interrupt_at, self.start_at) = (u64::MAX, u64::MAX, u64::MAX);
    }

    pub(crate) fn reset(&mut self, why: &str) {
        self.check.note(|| format!("reset: {why}"));
        let Some(nic) = &mut self.nic else { return };
        let begun = self.now_ps.get();
        let done = nic.endpoint.reset();
        self.check.bounded(begun, LONGEST_START_PS);
        match done {
            Ok(()) => self.begin(),
            Err(error) => self.failed(&error),
        }
    }

    /// The stack calls the watchdog of the device, which may reset the device. Returns whether the device
    /// works.
    fn look_after(&mut self) -> bool {
        let Some(nic) = self.nic.as_mut().filter(|_| self.start_at == u64::MAX) else { return false };
        let (begun, set_up) = (self.now_ps.get(), self.card.borrow().set_up);
        let looked = nic.endpoint.look_after();
        self.check.bounded(begun, LONGEST_START_PS);
        if let Err(error) = looked {
            self.reached.errors += 1;
            self.failed(&error);
            return false;
        }
        if self.card.borrow().set_up != set_up {
            self.check.note(|| "reset by the stack".to_owned());
            self.reached.lost_receiver += 1;
            self.begin();
        }
        true
    }

    /// Runs the stack until it has no more work.
    fn poll(&mut self) {
        if !self.look_after() {
            return;
        }
        if self.dice.throws(Fault::PollCut) {
            self.poll_at = self.now() + US;
            return;
        }
        let Some(nic) = &mut self.nic else { return };
        let begun = self.now_ps.get();
        self.now_ps.set(begun + self.plan.call_ps);
        let frames = |nic: &Nic<Slot, Pool>| {
            let (rx, tx) = nic.endpoint.driver_counters();
            rx.frames + tx.frames
        };
        let before = frames(nic);
        let time = Instant::from_micros(self.slot.now_ns() as i64 / 1000);
        nic.poll(time, &mut self.interface, &mut self.sockets);
        let sockets = &mut self.sockets;
        let moved = self.echo.iter().filter(|server| echo(sockets.get_mut(**server))).count() > 0;
        let discarded = discard(self.sockets.get_mut(self.discard), &self.check);
        let worked = frames(nic) - before;
        self.check.bounded(begun, LONGEST_CALL_PS);
        self.now_ps.set(self.now_ps.get() + worked * self.plan.frame_ps);
        if moved || discarded {
            self.poll_at = self.now();
            return;
        }
        let Some(nic) = &mut self.nic else { return };
        match nic.endpoint.may_sleep() {
            Ok(sleeps) => {
                let delay = self.interface.poll_delay(time, &self.sockets);
                let latest = later(self.now_ps.get(), delay).min(self.now_ps.get() + LOOK_PS);
                self.poll_at = if sleeps { latest } else { self.now_ps.get() };
            }
            Err(error) => {
                self.reached.errors += 1;
                self.failed(&error);
            }
        }
    }

    /// Frames that the driver received, good or not.
    fn got(&self) -> u64 {
        self.got_before + self.nic.as_ref().map_or(0, |nic| got(&nic.endpoint.driver_counters().0))
    }

    /// Tail writes: the number that the card saw, and the number that the driver counted.
    fn counted(&self) -> [u64; 4] {
        let [rx, tx] = self.card.borrow().doorbells;
        let Some(nic) = &self.nic else { return [rx, tx, 0, 0] };
        let (own_rx, own_tx) = nic.endpoint.driver_counters();
        [rx, tx, own_rx.doorbells, own_tx.doorbells]
    }

    /// Checks the invariants after each step.
    fn checks(&self) {
        if !self.card.borrow().closes() {
            self.check.breach(Breach::CardLedger);
        }
        let now = self.counted();
        let since = |which: usize| now[which] - self.begun[which];
        if self.nic.is_some() && (since(0), since(1)) != (since(2), since(3)) {
            self.check.breach(Breach::DriverCounters("tail writes"));
        }
        let (outside, known) = (self.pool.outside(), buffers_needed(&self.config));
        if outside > if self.nic.is_some() { known } else { 0 } {
            self.check.breach(Breach::Buffers { outside, known });
        }
    }

    /// Opportunities for faults of host and operator.
    pub(crate) fn tick(&mut self) {
        use Fault::*;
        let now = self.now();
        if self.dice.throws(InterruptSpurious) && self.nic.is_some() {
            self.interrupt_at = self.interrupt_at.min(now);
        }
        self.disturbed.tick(&self.dice, now, self.plan.level, &self.slot);
        if self.nic.is_none() || self.start_at != u64::MAX {
            return;
        }
        if self.dice.throws(Restart) {
            self.reached.by_operator += 1;
            self.reset("requested by the operator");
        }
        if self.dice.throws(OtherRings) {
            self.reached.by_operator += 1;
            let size = |at: u64| SMALL_RING.min([8, 16, 64, 128][at as usize]);
            self.config.rx_ring = size(self.dice.below(OtherRings, 4));
            self.config.tx_ring = size(self.dice.below(OtherRings, 4)).max(16);
            let every = self.config.completion.report_every.min(8);
            self.config.completion.report_every = every;
            self.card.borrow_mut().audit.set_report_every(every);
            self.start();
        }
        let Some(nic) = &mut self.nic else { return };
        let control = nic.endpoint.control_mut();
        if self.dice.throws(StopStart) {
            self.reached.by_operator += 1;
            control.stop();
            self.start_at = now + self.dice.below(StopStart, 5 * MS);
        }
        change_moderation(&self.dice, control);
        if self.dice.throws(OtherFilters) {
            control.set_promiscuous(self.dice.below(OtherFilters, 2) == 1);
            control.set_promiscuous(self.config.promiscuous);
        }
        self.look();
    }

    /// Frames that the card handed over, and frames that the driver received or a reset dropped.
    pub(crate) fn account(&self) -> (u64, u64) {
        (self.card.borrow().handed_over(), self.got() + self.dropped)
    }

    /// Frames for which the card had no room, because the bus was too slow.
    pub(crate) fn overruns(&self) -> u64 {
        self.card.borrow().overruns()
    }

    /// Records the progress of the connections.
    pub(crate) fn tell_connections(&self) {
        self.check.note(|| {
            let state = |socket: &tcp::Socket<'_>| {
                format!("{} ({} to send, {} received)", socket.state(), socket.send_queue(), socket.recv_queue())
            };
            let echo = self.echo.map(|socket| state(self.sockets.get(socket)));
            let client = state(self.far.sockets.get(self.far.client));
            let FarEnd { sent, echoed, .. } = self.far;
            let dropped = self.card.borrow().dropped();
            let driver = self.nic.as_ref().map(|nic| nic.endpoint.driver_counters());
            format!("client: {client}, sent {sent}, echoed {echoed}; servers: {echo:?}; {dropped}, driver: {driver:?}")
        });
    }

    /// After the last fault: the driver gets its processor back.
    pub(crate) fn settle(&mut self) {
        self.disturbed.starved_until = 0;
        self.look();
    }

    /// The far end begins a new connection.
    pub(crate) fn connect(&mut self) {
        self.far.connect(self.now());
    }

    /// The far end ends the connection: no more data is sent.
    pub(crate) fn hang_up(&mut self) {
        self.far.hang_up(self.now());
    }

    /// Whether all bytes of the connection have come back.
    pub(crate) fn has_echoed(&self) -> bool {
        self.far.echoed == ECHOED_BYTES
    }
}

/// Sends all received data back. Returns whether there was any.
fn echo(socket: &mut tcp::Socket<'_>) -> bool {
    if !socket.is_open() {
        // A closed socket can listen.
        let _ = socket.listen(ECHO_PORT);
    }
    let mut moved = false;
    let mut chunk = [0; 2048];
    while socket.can_recv() && socket.can_send() {
        let room = (socket.send_capacity() - socket.send_queue()).min(chunk.len());
        let taken = socket.recv_slice(&mut chunk[..room]).unwrap_or(0);
        moved |= socket.send_slice(&chunk[..taken]).is_ok_and(|sent| sent > 0);
    }
    if socket.state() == tcp::State::CloseWait && socket.recv_queue() == 0 {
        socket.close();
    }
    moved
}

/// Receives datagrams, and checks that each was sent. Returns whether there was one.
fn discard(socket: &mut udp::Socket<'_>, check: &Check) -> bool {
    let mut any = false;
    while let Ok((payload, _)) = socket.recv() {
        traffic::payload_arrived(check, payload);
        any = true;
    }
    any
}
