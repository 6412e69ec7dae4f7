//! A port: the driver on a card, the operating system that calls it, and the operator who looks after it.

use crate::buffers::{Buf, Pool};
use crate::card::{Card, Slot};
use crate::check::{Breach, Check};
use crate::fault::{Dice, Fault};
use crate::host_faults::{Disturbed, change_moderation};
use crate::plan::{SMALL_RING, Use, WorldPlan};
use crate::send::{Sender, Sent};
use crate::traffic::{self, Looks};
use fastrand::Rng;
use kpps_driver::config::Service;
use kpps_driver::service::{InterruptLoop, Napi, NextPoll, Polling, SelfPacing};
use kpps_driver::{Checksum, Config, Device, Error, Health, Received, RxCounters, probe};
use kpps_host::{MS, US};
use kpps_platform::{Buffer, BufferSource};
use std::cell::{Cell, RefCell};
use std::rc::Rc;

/// How often the driver's watchdog is called, in ps.
const WATCHDOG_PS: u64 = 2000 * MS;
/// How long after a failed start the next one is tried, in ps.
pub(crate) const RETRY_PS: u64 = 100 * MS;
/// The pause after an empty poll without interrupts, and the longest one, in ps: under load, and while frames
/// come one at a time.
const PAUSE_PS: u64 = 10 * US;
const MOST_PAUSE_PS: u64 = 200 * US;
const MOST_QUIET_PAUSE_PS: u64 = 2 * MS;
/// The longest that a call of the driver may take, in virtual time: on the packet path, and to start a
/// device or to look after it (resets, PHY and EEPROM have waits of their own, each bounded).
pub(crate) const LONGEST_CALL_PS: u64 = 200 * MS;
pub(crate) const LONGEST_START_PS: u64 = 2000 * MS;

/// A multicast address to which some frames go.
pub(crate) const GROUP: [u8; 6] = [1, 0, 0x5E, 0, 0, 0xFE];

/// The driver's service, made for its configuration.
enum Runner {
    Loop(InterruptLoop),
    Napi(Napi),
    Polling(Polling),
    Pacing(Box<SelfPacing>),
}

impl Runner {
    fn new(service: &Service, sleeps: bool) -> Self {
        match *service {
            Service::InterruptLoop { max_loops, mask, again } => {
                Self::Loop(InterruptLoop::new(max_loops, mask, again))
            }
            Service::Napi { weight, exit, mask } => Self::Napi(Napi::new(weight, exit, mask)),
            Service::Polling { burst } => Self::Polling(Polling::new(burst)),
            Service::SelfPacing { burst, reserve, polling_rdtr } => {
                let pacing = SelfPacing::new(burst, reserve).with_polling_rdtr(polling_rdtr);
                Self::Pacing(Box::new(if sleeps { pacing.sleeping_while_sending() } else { pacing }))
            }
        }
    }
}

/// Places reached in the driver, and actions of watchdog and operator.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reached {
    /// Starts of a device, the first included.
    pub starts: u64,
    /// Starts that failed.
    pub failed_starts: u64,
    /// Resets because the transmitter hung.
    pub hung: u64,
    /// Resets because the receiver was off or did not follow its ring.
    pub lost_receiver: u64,
    /// Resets because a call of the driver failed.
    pub errors: u64,
    /// Resets by the operator.
    pub by_operator: u64,
    /// Watchdog calls that found the link down.
    pub link_down: u64,
    /// Received descriptors that made no sense.
    pub nonsense: u64,
    /// Received frames with errors.
    pub frame_errors: u64,
    /// Frames that were copied into a small buffer.
    pub copied: u64,
    /// Slots that stayed empty for want of a buffer.
    pub no_buffer: u64,
    /// Frames refused because the transmit ring was full.
    pub full: u64,
    /// Descriptors written only to get a report.
    pub report_requests: u64,
    /// Frames in the transmit ring at a reset.
    pub abandoned: u64,
}

impl Reached {
    /// All of them, with their names.
    pub fn all(&self) -> [(&'static str, u64); 14] {
        [
            ("driver: a call returned an error", self.errors),
            ("driver: descriptors only to get a report", self.report_requests),
            ("driver: descriptors that made no sense", self.nonsense),
            ("driver: frames copied into a small buffer", self.copied),
            ("driver: frames in the transmit ring at a reset", self.abandoned),
            ("driver: frames with errors", self.frame_errors),
            ("driver: no buffer for a slot", self.no_buffer),
            ("driver: transmit ring full", self.full),
            ("operator: resets and changes", self.by_operator),
            ("starts of a device", self.starts),
            ("starts that failed", self.failed_starts),
            ("watchdog: link down", self.link_down),
            ("watchdog: receiver lost", self.lost_receiver),
            ("watchdog: transmitter hangs", self.hung),
        ]
    }
}

/// The counts of driver and user.
#[derive(Clone, Copy, Default)]
struct Counted {
    /// Descriptors, and whole frames with their bytes.
    taken: u64,
    got: u64,
    frames: [(u64, u64); 2],
    sent: [Sent; 2],
    /// Tail writes, contexts and requests for a report as the card saw them, and as the driver counts them.
    writes: [[u64; 4]; 2],
    /// Frames that were copied, as the user and as the driver counts them; and buffers that do not fit.
    copied: [u64; 2],
    unfit: [u64; 2],
    /// Receive descriptors that the card has written back.
    written: u64,
}

/// See [`Port::before`].
struct Before {
    empty: usize,
    bells: u64,
    written: u64,
    unfilled: u64,
}

/// A port.
pub(crate) struct Port {
    number: usize,
    pub(crate) card: Rc<RefCell<Card>>,
    pub(crate) slot: Slot,
    pub(crate) pool: Pool,
    pub(crate) device: Option<Device<Slot, Pool>>,
    config: Config,
    runner: Runner,
    chip: kpps_datasheet::Chip,
    level: bool,
    sleeps: bool,
    call_ps: u64,
    interrupt_ps: u64,
    /// When the interrupt handler runs, and a poll.
    interrupt_at: Option<u64>,
    poll_at: Option<u64>,
    pause_ps: u64,
    most_pause_ps: u64,
    watch_at: u64,
    /// When a start is tried again; the device does not run until then.
    retry_at: Option<u64>,
    /// The operator starts the stopped device then.
    start_at: Option<u64>,
    disturbed: Disturbed,
    edges: u64,
    /// Descriptors taken from all receive queues so far; frames that former drivers counted; and frames that
    /// resets dropped.
    taken: u64,
    got_before: u64,
    dropped: u64,
    /// The counts at the last start of the device.
    begun: Counted,
    /// Buffers of sent frames go straight back into the receive ring.
    returns: bool,
    least_rings: [u16; 2],
    uncrossed_bytes: Option<usize>,
    small_rings: bool,
    all_multicast: bool,
    /// Some frames go to [`GROUP`].
    groups: bool,
    /// There was no fault yet.
    pub(crate) calm: bool,
    sender: Sender,
    pub(crate) reached: Reached,
    pub(crate) sink: Sink,
    random: Rng,
    dice: Rc<Dice>,
    pub(crate) check: Rc<Check>,
    now_ps: Rc<Cell<u64>>,
}

/// The surroundings of all ports.
pub(crate) struct Around<'a> {
    pub(crate) plan: &'a WorldPlan,
    pub(crate) pool: &'a Pool,
    pub(crate) dice: &'a Rc<Dice>,
    pub(crate) check: &'a Rc<Check>,
    pub(crate) now_ps: &'a Rc<Cell<u64>>,
}

impl Port {
    pub(crate) fn new(
        number: usize,
        card: Card,
        slot: impl FnOnce(&Rc<RefCell<Card>>) -> Slot,
        around: &Around<'_>,
    ) -> Self {
        let Around { plan, pool, dice, check, now_ps } = *around;
        let card = Rc::new(RefCell::new(card));
        Self {
            number,
            slot: slot(&card),
            card,
            pool: pool.clone(),
            device: None,
            config: plan.config.clone(),
            runner: Runner::new(&plan.config.service, plan.sleeps),
            chip: plan.chip,
            level: plan.level,
            sleeps: plan.sleeps,
            call_ps: plan.call_ps,
            interrupt_ps: plan.interrupt_ps,
            interrupt_at: None,
            poll_at: None,
            pause_ps: PAUSE_PS,
            most_pause_ps: MOST_PAUSE_PS,
            watch_at: u64::MAX,
            retry_at: Some(0),
            start_at: None,
            disturbed: Disturbed::default(),
            edges: 0,
            taken: 0,
            got_before: 0,
            dropped: 0,
            begun: Counted::default(),
            returns: plan.returns,
            least_rings: plan.least_rings(),
            uncrossed_bytes: plan.uncrossed_bytes(),
            small_rings: plan.small_rings,
            all_multicast: false,
            groups: plan.groups,
            calm: true,
            sender: Sender::new(plan, plan.seed ^ (0x5E0D + number as u64), pool, check),
            reached: Reached::default(),
            sink: Sink {
                kept: Vec::new(),
                long: None,
                frames: (0, 0),
                pool: pool.clone(),
                checksums: plan.config.rx_checksum && plan.chip.has_checksum_offload(),
                tags: plan.tagged && plan.config.vlan,
                copybreak: plan.config.rx_copybreak_bytes,
                copied: 0,
                refused: 0,
                inexact: Cell::new(None),
                looks: Looks { routed: false, tagged: plan.tagged && !plan.config.vlan },
                at_once: matches!(plan.usage, Use::Receive | Use::Send),
                cost_ps: plan.frame_ps,
                check: check.clone(),
                now_ps: now_ps.clone(),
            },
            random: Rng::with_seed(plan.seed ^ (0x0F0F + number as u64)),
            dice: dice.clone(),
            check: check.clone(),
            now_ps: now_ps.clone(),
        }
    }

    fn now(&self) -> u64 {
        self.now_ps.get()
    }

    fn note(&self, event: impl FnOnce() -> String) {
        self.check.note(|| format!("port {}: {}", self.number, event()));
    }

    /// When the processor has something to do for this port, in ps.
    pub(crate) fn next_ps(&self) -> u64 {
        let at = [self.interrupt_at, self.poll_at].into_iter().flatten().min().unwrap_or(u64::MAX);
        let at = at.max(self.disturbed.starved_until);
        at.min(self.watch_at).min(self.retry_at.unwrap_or(u64::MAX)).min(self.start_at.unwrap_or(u64::MAX))
    }

    /// Looks at the interrupt: schedules its handler if it rose. Returns whether it is raised.
    pub(crate) fn look(&mut self) -> bool {
        let (line, edges) = self.card.borrow().interrupts();
        let rose = edges != self.edges;
        self.edges = edges;
        let now = self.now();
        let raised = rose || self.level && (line || now < self.disturbed.neighbour_until);
        if raised {
            self.hear();
        }
        raised
    }

    /// An interrupt has come for this port, or for another device on its line.
    pub(crate) fn hear(&mut self) {
        if self.interrupt_at.is_some() || self.retry_at.is_some() {
            return;
        }
        let now = self.now();
        let mut at = now + self.interrupt_ps;
        if self.dice.throws(Fault::InterruptLost) {
            self.note(|| "interrupt lost".to_owned());
            if !self.level {
                return;
            }
            // A level is seen again when something else makes the host look.
            at = now + MS;
        }
        for fault in [Fault::InterruptLate, Fault::HandlerLate] {
            if self.dice.throws(fault) {
                at += self.dice.below(fault, 5 * MS);
            }
        }
        self.interrupt_at = Some(at);
    }

    /// Performs the due actions. Returns whether the driver ran.
    pub(crate) fn run(&mut self) -> bool {
        let now = self.now();
        if self.retry_at.is_some_and(|at| at <= now) {
            self.start();
        } else if self.start_at.is_some_and(|at| at <= now) {
            self.start_at = None;
            self.reset("the operator starts it again");
        } else if self.watch_at <= now {
            self.watch();
        } else if self.disturbed.starved_until > now {
            return false;
        } else if self.interrupt_at.is_some_and(|at| at <= now) {
            self.interrupt_at = None;
            self.interrupt();
        } else if self.poll_at.is_some_and(|at| at <= now) {
            self.poll_at = None;
            self.poll();
        } else {
            return false;
        }
        true
    }

    /// Starts the driver on the card.
    fn start(&mut self) {
        self.retry_at = None;
        self.leave();
        self.reached.starts += 1;
        let begun = self.now();
        self.slot.misfits.set(false);
        let started = probe(self.slot.clone(), self.chip, self.config.clone(), self.pool.clone());
        self.check.bounded(begun, LONGEST_START_PS);
        match started {
            Ok(_) if self.slot.misfits.get() => {
                self.check.breach(Breach::DriverCounters("memory outside of the rings"));
            }
            Ok(device) => {
                self.note(|| "started".to_owned());
                self.all_multicast = false;
                self.device = Some(device);
                self.begin();
            }
            Err(error) => self.failed(error),
        }
    }

    /// Begins anew after a successful start or reset.
    fn begin(&mut self) {
        self.runner = Runner::new(&self.config.service, self.sleeps);
        (self.interrupt_at, self.poll_at, self.pause_ps) = (None, None, PAUSE_PS);
        self.watch_at = self.now() + self.random.u64(MS..WATCHDOG_PS);
        if let Some(device) = &mut self.device {
            if self.groups {
                device.control.set_multicast(&[GROUP]);
            }
            match self.runner {
                Runner::Polling(_) => self.poll_at = Some(self.now_ps.get() + PAUSE_PS),
                _ => device.control.unmask(),
            }
        }
        self.drop_unread();
        self.sink.long = None;
        self.begun = self.counted();
        self.look();
    }

    /// The counts so far.
    fn counted(&mut self) -> Counted {
        let Some(device) = &mut self.device else { return Counted::default() };
        let unfit = device.rx.source_mut().unfit();
        let card = self.card.borrow();
        let (rx, tx) = (device.rx.counters(), device.tx.counters());
        let sent = Sent { frames: tx.frames, bytes: tx.bytes, full: tx.full };
        Counted {
            taken: self.taken,
            got: got(&rx),
            frames: [self.sink.frames, (rx.frames, rx.bytes)],
            sent: [self.sender.sent, sent],
            writes: [
                [card.doorbells[0], card.doorbells[1], card.audit.contexts, card.audit.report_requests],
                [rx.doorbells, tx.doorbells, tx.contexts, tx.report_requests],
            ],
            copied: [self.sink.copied, rx.copied],
            unfit: [unfit, rx.unfit_buffers],
            written: card.written(),
        }
    }

    /// The driver's counters say what its user has seen, and it keeps no more descriptors from the card than
    /// it says.
    pub(crate) fn check_counters(&mut self) {
        if self.start_at.is_some() || self.device.is_none() {
            return;
        }
        let now = self.counted();
        let (Some(device), begun) = (&self.device, &self.begun) else { return };
        let wrong = |which| self.check.breach(Breach::DriverCounters(which));
        let since = |now: (u64, u64), begun: (u64, u64)| (now.0 - begun.0, now.1 - begun.1);
        if since(now.frames[0], begun.frames[0]) != since(now.frames[1], begun.frames[1]) {
            wrong("received frames and their bytes");
        }
        // A descriptor without the end of a frame may belong to the next one's frame; each other one counts.
        let unended = self.card.borrow().unended();
        if !explains(now.taken - begun.taken, now.got - begun.got, unended) {
            wrong("received descriptors");
        }
        if now.copied[0] - begun.copied[0] != now.copied[1] - begun.copied[1] {
            wrong("copied frames");
        }
        if now.unfit[0] - begun.unfit[0] != now.unfit[1] - begun.unfit[1] {
            wrong("buffers that do not fit");
        }
        let since = |which: usize| {
            let (now, begun) = (now.sent[which], begun.sent[which]);
            [now.frames - begun.frames, now.bytes - begun.bytes, now.full - begun.full]
        };
        if since(0) != since(1) {
            wrong("sent frames, their bytes, and frames without room");
        }
        let since = |which: usize| {
            let (now, begun) = (&now.writes[which], &begun.writes[which]);
            std::array::from_fn::<_, 4, _>(|of| now[of] - begun[of])
        };
        // Frames that were queued and not handed over are not seen yet.
        let (seen, counted) = (since(0), since(1));
        if seen[..2] != counted[..2] || seen[2] > counted[2] || seen[3] != counted[3] {
            wrong("tail writes, contexts, and requests for a report");
        }
        if device.tx.free() + device.tx.pending() + 1 != usize::from(device.control.config().tx_ring) {
            wrong("free transmit descriptors");
        }
        let size = usize::from(device.control.config().rx_ring);
        let filled = size - device.rx.empty_slots();
        let fill = (now.taken - begun.taken) as usize + filled;
        let held = (fill + size - self.card.borrow().tail as usize) % size;
        let group = usize::from(device.control.config().refill.group);
        if device.rx.held_back() > group.saturating_sub(1) {
            wrong("descriptors that are held back");
        }
        // A full ring holds its last slot back, until the next one is filled or the card has none.
        let most = device.rx.held_back() + 1;
        if held > most {
            self.check.breach(Breach::HeldBack { held, most });
        }
        if held == 0 && filled == size {
            wrong("a full ring that looks empty");
        }
    }

    /// Queues frames to send; those for which there is no room go back to the pool.
    pub(crate) fn send(&mut self, frames: impl Iterator<Item = (Buf, u16)>) {
        match &mut self.device {
            Some(device) => self.sender.send(&mut device.tx, frames),
            None => frames.for_each(|(buffer, _)| self.pool.give(buffer)),
        }
    }

    /// Queues up to `most` frames like `template`, and hands them to the card. Returns how many; fewer if
    /// there is no room, or no buffer.
    pub(crate) fn send_own(&mut self, template: &[u8], most: u64) -> u64 {
        let Some(device) = &mut self.device else { return 0 };
        let queue = &mut device.tx;
        if queue.free() == 0 {
            // The interrupt or the next poll reclaims; some services do so only here.
            queue.reclaim(usize::MAX);
        }
        let first = self.check.next(0);
        let count = self.sender.send_own(queue, template, most, first);
        for _ in 0..count {
            self.check.send(0, 1);
        }
        if self.random.u8(..4) > 0 {
            queue.flush();
        } else {
            let free = queue.free();
            let asked = queue.request_report();
            if asked != (self.card.borrow().audit.unreported() == 0) || !asked && free > 0 {
                self.check.breach(Breach::DriverCounters("frames without a report"));
            }
            queue.flush();
        }
        count
    }

    /// Takes some buffers of sent frames back before the service does: at most as many as were asked for.
    fn reclaim_some(&mut self) {
        let Some(Device { tx, .. }) = self.device.as_mut() else { return };
        let most = self.random.usize(..8);
        let outside = self.pool.outside();
        let count = tx.reclaim(most);
        if count > most || self.pool.outside() + count != outside {
            self.check.breach(Breach::DriverCounters("reclaimed buffers"));
        }
    }

    /// Buffers of sent frames go straight back into the receive ring.
    fn return_buffers(&mut self) {
        if self.random.u8(..8) == 0 {
            self.reclaim_some();
        }
        let Some(Device { rx, tx, .. }) = self.device.as_mut().filter(|_| self.returns) else { return };
        let most = if self.random.bool() { usize::MAX } else { self.random.usize(..16) };
        let mut count = 0;
        let reported = tx.reclaim_with(most, |mut buffer| {
            count += 1;
            buffer.sends = false;
            let empty = rx.empty_slots();
            if let Some(back) = rx.provide(buffer) {
                if empty > 0 && self.uncrossed_bytes.is_none() {
                    self.check.breach(Breach::DriverCounters("a buffer that was not accepted"));
                }
                self.pool.give(back);
            } else if rx.empty_slots() + 1 != empty {
                self.check.breach(Breach::DriverCounters("empty slots"));
            }
        });
        if reported != count || count > most {
            self.check.breach(Breach::DriverCounters("reclaimed buffers"));
        }
    }

    fn failed(&mut self, error: Error) {
        self.note(|| format!("not started: {error}"));
        self.reached.failed_starts += 1;
        self.leave();
        self.retry_at = Some(self.now() + RETRY_PS);
    }

    /// Takes the driver away.
    pub(crate) fn leave(&mut self) {
        if let Some(device) = self.device.take() {
            let (rx, tx) = (device.rx.counters(), device.tx.counters());
            self.got_before += got(&rx);
            self.reached.nonsense += rx.nonsense;
            self.reached.frame_errors += rx.frame_errors;
            self.reached.copied += rx.copied;
            self.reached.no_buffer += rx.no_buffer;
            self.reached.full += tx.full;
            self.reached.report_requests += tx.report_requests;
            self.reached.abandoned += tx.abandoned;
            let dropped = self.pool.dropped();
            drop(device);
            if self.pool.dropped() != dropped {
                self.check
                    .breach(Breach::DriverCounters("buffers that a driver did not give back at its end"));
            }
        }
        (self.interrupt_at, self.poll_at, self.watch_at) = (None, None, u64::MAX);
        self.drop_unread();
    }

    /// Frames that were handed over and that will not be taken: the rings were emptied.
    fn drop_unread(&mut self) {
        let handed_over = self.card.borrow().handed_over();
        self.dropped = handed_over.saturating_sub(self.got());
    }

    /// Frames that the driver says it got, good or not.
    fn got(&self) -> u64 {
        self.got_before + self.device.as_ref().map_or(0, |device| got(&device.rx.counters()))
    }

    /// Resets the device.
    pub(crate) fn reset(&mut self, why: &str) {
        self.note(|| format!("reset: {why}"));
        let Some(device) = &mut self.device else { return };
        let begun = self.now_ps.get();
        let in_ring = |device: &Device<Slot, Pool>| {
            self.pool.outside() + device.rx.empty_slots() + device.tx.counters().abandoned as usize
        };
        let before = in_ring(device);
        let done = device.reset();
        // Only buffers that were being sent have left the rings.
        if done.is_ok() && before != in_ring(device) {
            self.check.breach(Breach::DriverCounters("buffers abandoned by a reset"));
        }
        self.check.bounded(begun, LONGEST_START_PS);
        match done {
            Ok(()) => self.begin(),
            Err(error) => self.failed(error),
        }
    }

    /// The watchdog of every two seconds.
    fn watch(&mut self) {
        self.watch_at = self.now() + WATCHDOG_PS;
        let Some(device) = &mut self.device else { return };
        if self.start_at.is_some() {
            return;
        }
        let begun = self.now_ps.get();
        let now_ns = (begun + self.slot.ahead_ps.get()) / 1000;
        let health = device.control.watchdog(now_ns, device.tx.look_after());
        let lost = device.control.has_lost_receiver(&mut device.rx);
        self.check.bounded(begun, LONGEST_START_PS);
        self.note(|| format!("watchdog: {health:?}, receiver lost: {lost:?}"));
        match (health, lost) {
            (Ok(Health::Hung), _) => {
                self.reached.hung += 1;
                self.reset("the transmitter hangs");
            }
            (Ok(health), Ok(lost)) => {
                self.reached.link_down += u64::from(health == Health::LinkDown);
                if lost {
                    self.reached.lost_receiver += 1;
                    self.reset("the receiver is lost");
                }
            }
            (Err(error), _) | (_, Err(error)) => {
                self.reached.errors += 1;
                self.reset(&format!("the watchdog says: {error}"));
            }
        }
        // A lost interrupt costs at most the time to here: the handler runs once without one.
        if self.device.is_some() && self.interrupt_at.is_none() && !matches!(self.runner, Runner::Polling(_))
        {
            self.interrupt_at = Some(self.now());
        }
    }

    /// The interrupt handler.
    fn interrupt(&mut self) {
        self.return_buffers();
        let before = self.before();
        let Some(Device { control, rx, tx }) = &mut self.device else { return };
        let begun = self.now_ps.get();
        self.now_ps.set(begun + self.call_ps);
        let budget = usize::from(control.config().rx_ring);
        let sink = &mut self.sink;
        let (mut taken, mut looked) = (0, false);
        let writes = self.card.borrow().writes;
        let keep = |frame| sink.take(frame);
        let result = match &mut self.runner {
            Runner::Loop(service) => service.interrupt(control, rx, tx, keep).map(|handled| {
                taken = handled.received;
                looked = handled.turns > 0;
                None
            }),
            Runner::Napi(service) => service.interrupt(control).map(|poll| poll.then_some(US)),
            Runner::Pacing(service) => service.interrupt(control).map(|poll| poll.then_some(US)),
            Runner::Polling(_) => Ok(None),
        };
        // The interrupt of another device, or an interrupt that is handled already: the driver must not write
        // a register for it.
        if !looked && matches!(result, Ok(None)) && self.card.borrow().writes != writes {
            self.check.breach(Breach::DriverCounters("a register written though nothing was to do"));
        }
        if looked {
            self.received(before, taken, budget);
        } else if let Some(device) = self.device.as_mut().filter(|_| self.returns) {
            device.rx.flush();
        }
        self.check.bounded(begun, LONGEST_CALL_PS);
        match result {
            Ok(poll) => {
                if let Some(after_ps) = poll {
                    self.poll_at = Some(self.now() + after_ps);
                }
                self.link_event();
            }
            Err(error) => {
                self.reached.errors += 1;
                self.reset(&format!("the interrupt handler says: {error}"));
            }
        }
        self.look();
    }

    /// The state before the driver is asked to receive: empty slots, tail writes, and descriptors that the
    /// card has written back.
    fn before(&self) -> Before {
        let device = self.device.as_ref();
        Before {
            empty: device.map_or(0, |device| device.rx.empty_slots()),
            bells: device.map_or(0, |device| device.rx.counters().doorbells),
            unfilled: device.map_or(0, |device| unfilled(&device.rx.counters())),
            written: self.card.borrow().written(),
        }
    }

    /// Checks a receive call with a limit of `most` descriptors, which took `taken`: all that there were,
    /// within the limit. If there was nothing to do, the driver has not touched the card.
    fn received(&mut self, before: Before, taken: usize, most: usize) {
        self.taken += taken as u64;
        let Some(Device { rx, .. }) = &mut self.device else { return };
        if taken == 0 && before.empty == 0 && rx.counters().doorbells != before.bells {
            self.check.breach(Breach::DriverCounters("a tail write without a reason"));
        }
        if rx.empty_slots() > 0 && unfilled(&rx.counters()) == before.unfilled {
            self.check.breach(Breach::DriverCounters("slots without a buffer"));
        }
        let left = before.written.saturating_sub(self.begun.written + self.taken - self.begun.taken);
        if taken < most && left > 0 && self.calm {
            self.check.breach(Breach::DriverCounters("frames that were left in the ring"));
        }
        if self.returns {
            rx.flush();
        }
    }

    fn link_event(&mut self) {
        let Some(device) = &mut self.device else { return };
        if !device.control.take_link_event() {
            return;
        }
        let begun = self.now_ps.get();
        let link = device.control.update_link();
        self.check.bounded(begun, LONGEST_START_PS);
        if let Err(error) = link {
            self.reached.errors += 1;
            self.reset(&format!("the link cannot be read: {error}"));
        }
    }

    fn poll(&mut self) {
        self.return_buffers();
        let before = self.before();
        let Some(Device { control, rx, tx }) = &mut self.device else { return };
        let begun = self.now_ps.get();
        self.now_ps.set(begun + self.call_ps);
        let budget =
            if self.dice.throws(Fault::PollCut) { self.dice.below(Fault::PollCut, 4) as usize } else { 64 };
        let sink = &mut self.sink;
        let keep = |frame| sink.take(frame);
        let (polled, next) = match &mut self.runner {
            Runner::Napi(service) => {
                let polled = service.poll(control, rx, tx, budget, keep);
                (polled, (!polled.done).then_some(0))
            }
            Runner::Polling(service) => {
                let polled = service.poll(rx, tx, budget, keep);
                let busy = polled.received > 0 || polled.reclaimed > 0;
                self.pause_ps = if busy { PAUSE_PS } else { (2 * self.pause_ps).min(self.most_pause_ps) };
                (polled, Some(self.pause_ps))
            }
            Runner::Pacing(service) => match service.poll(control, rx, tx, budget, keep) {
                Ok((polled, next)) => {
                    let ahead = self.slot.ahead_ps.get();
                    let after = |ns: u64| (ns * 1000).saturating_sub(self.now_ps.get() + ahead);
                    let next = match next {
                        NextPoll::Now => Some(0),
                        NextPoll::At(ns) | NextPoll::Yield(ns) => Some(after(ns)),
                        NextPoll::Asleep => None,
                    };
                    (polled, next)
                }
                Err(error) => {
                    self.reached.errors += 1;
                    self.reset(&format!("the poll says: {error}"));
                    return;
                }
            },
            Runner::Loop(_) => return,
        };
        let most = match self.config.service {
            Service::Napi { weight: most, .. }
            | Service::Polling { burst: most }
            | Service::SelfPacing { burst: most, .. } => most.into(),
            Service::InterruptLoop { .. } => usize::MAX,
        };
        if polled.received > budget.min(most) {
            self.check.breach(Breach::DriverCounters("more frames than asked for"));
        }
        self.received(before, polled.received, budget.min(most));
        self.check.bounded(begun, LONGEST_CALL_PS);
        self.poll_at = next.map(|after_ps| self.now() + after_ps);
        self.look();
    }

    /// Opportunities for faults of host and operator.
    pub(crate) fn tick(&mut self) {
        use Fault::*;
        let now = self.now();
        if self.dice.throws(InterruptSpurious) && self.device.is_some() && self.interrupt_at.is_none() {
            self.interrupt_at = Some(now);
        }
        self.disturbed.tick(&self.dice, now, self.level, &self.slot);
        if self.device.is_none() || self.start_at.is_some() {
            return;
        }
        if self.dice.throws(Restart) {
            self.reached.by_operator += 1;
            self.reset("requested by the operator");
        }
        if self.dice.throws(OtherRings) {
            self.reached.by_operator += 1;
            let sizes = [8, 16, 64, 256];
            let most = if self.small_rings { SMALL_RING } else { u16::MAX };
            let size = |at: u64| most.min(sizes[at as usize]);
            self.config.rx_ring = size(self.dice.below(OtherRings, 4)).max(self.least_rings[0]);
            self.config.tx_ring = size(self.dice.below(OtherRings, 4)).max(self.least_rings[1]);
            let every = self.config.completion.report_every.min(4);
            self.config.completion.report_every = every;
            self.card.borrow_mut().audit.set_report_every(every);
            self.start();
        }
        if self.dice.throws(StopStart)
            && let Some(device) = &mut self.device
        {
            self.reached.by_operator += 1;
            device.control.stop();
            self.interrupt_at = None;
            self.start_at = Some(self.now() + self.dice.below(StopStart, 5 * MS));
        }
        let Some(Device { control, .. }) = &mut self.device else { return };
        change_moderation(&self.dice, control);
        if self.dice.throws(OtherFilters) {
            let group = [1, 0, 0x5E, 0, 0, self.dice.below(OtherFilters, 250) as u8];
            control.set_multicast(&[group, [3, 0, 0, 0, 0, 1], GROUP]);
            control.set_promiscuous(false);
            self.all_multicast = self.dice.below(OtherFilters, 2) == 1;
            control.set_all_multicast(self.all_multicast);
            control.set_promiscuous(self.config.promiscuous);
            // A failure here shows up as an error of the driver's next call; a chip without tags refuses
            // their filter.
            let _ = control.set_vlans(Some(&[5, 7]));
            let _ = control.set_vlans(None);
            let _ = control.set_unicast(3, Some([2, 0, 0, 0, 0, 0x77]));
            let _ = control.set_unicast(3, None);
            let address = control.address();
            let _ = control.set_address(address);
            let _ = control.update_stats();
        }
        if self.random.u8(..16) == 0
            && let Some(Device { rx, .. }) = &mut self.device
            && rx.refill() != rx.empty_slots()
        {
            self.check.breach(Breach::DriverCounters("empty slots"));
        }
        self.look();
    }

    /// Whether all is quiet, so that it is known which filter a frame has passed.
    pub(crate) fn set_judges_filters(&mut self, judges: bool) {
        let open = self.config.promiscuous || self.all_multicast;
        self.sink.inexact.set(judges.then_some(!open));
    }

    /// Frames that the card handed over, and frames that the driver or a reset has taken.
    pub(crate) fn account(&self) -> (u64, u64) {
        (self.card.borrow().handed_over(), self.got() + self.dropped)
    }

    /// Writes down what card and driver have counted.
    pub(crate) fn tell_counters(&self) {
        self.note(|| {
            let dropped = self.card.borrow().dropped();
            let driver = self.device.as_ref().map(|device| (device.rx.counters(), device.tx.counters()));
            format!("{dropped}, driver: {driver:?}")
        });
    }

    /// Resets of a device that watchdog or driver found faulty, and starts that failed.
    pub(crate) fn troubles(&self) -> u64 {
        let Reached { hung, lost_receiver, errors, failed_starts, .. } = self.reached;
        hung + lost_receiver + errors + failed_starts
    }

    /// Few frames come from now on, or many: that limits the pauses of a driver without interrupts.
    pub(crate) fn set_quiet(&mut self, quiet: bool) {
        self.most_pause_ps = if quiet { MOST_QUIET_PAUSE_PS } else { MOST_PAUSE_PS };
        self.pause_ps = self.pause_ps.min(self.most_pause_ps);
        let latest = self.now() + self.most_pause_ps;
        self.poll_at = self.poll_at.map(|at| at.min(latest));
    }

    /// After the last fault: the driver gets its processor back.
    pub(crate) fn settle(&mut self) {
        self.disturbed = Disturbed::default();
        self.look();
    }
}

/// Frames that the driver got, good or not.
pub(crate) fn got(counters: &RxCounters) -> u64 {
    counters.frames + counters.frame_errors + counters.nonsense
}

/// Whether a driver may have got `got` frames, good or not, from `taken` descriptors. The card wrote at most
/// `unended` descriptors without the end of a frame. Such a descriptor holds a part of a longer frame, or,
/// after the head has jumped, it is a null descriptor (SDM 3.2.5.2). The descriptors after it, up to the next
/// end, belong to the same frame.
fn explains(taken: u64, got: u64, unended: u64) -> bool {
    got <= taken && taken - got <= unended
}

/// How often a slot stayed empty, for want of a buffer, or of a buffer that the device can use.
fn unfilled(counters: &RxCounters) -> u64 {
    counters.no_buffer + counters.unfit_buffers
}

/// Handles received frames while the driver runs.
pub(crate) struct Sink {
    /// Frames for the application, with their bytes.
    pub(crate) kept: Vec<(Buf, u16)>,
    /// The first parts of a long frame.
    long: Option<Vec<u8>>,
    /// Whole frames so far, and their bytes.
    frames: (u64, u64),
    /// The card checks checksums.
    checksums: bool,
    /// The card takes VLAN tags out.
    tags: bool,
    /// The longest frame that is copied, in bytes, unless there is no buffer; and the frames that were
    /// copied.
    copybreak: u16,
    copied: u64,
    /// How often there was no buffer until now.
    refused: u64,
    /// Whether frames to a group pass only the inexact filter, when that is known.
    inexact: Cell<Option<bool>>,
    looks: Looks,
    /// Frames are checked at once, and their buffers go back.
    at_once: bool,
    cost_ps: u64,
    pool: Pool,
    check: Rc<Check>,
    now_ps: Rc<Cell<u64>>,
}

impl Sink {
    /// Takes a received frame, or a part of one; returns a buffer that is not kept.
    fn take(&mut self, frame: Received<Buf>) -> Option<Buf> {
        self.now_ps.set(self.now_ps.get() + self.cost_ps);
        if frame.first == self.long.is_some() {
            self.check.breach(Breach::Parts);
        }
        if frame.error {
            self.long = None;
            return Some(frame.buffer);
        }
        if !frame.buffer.shows(frame.bytes.into()) {
            self.check.breach(Breach::NotVisible);
        }
        let Some(bytes) = frame.buffer.bytes().get(..frame.bytes.into()) else {
            self.check.breach(Breach::NotVisible);
            return Some(frame.buffer);
        };
        self.judge(&frame, bytes);
        if frame.first && frame.last {
            self.count(bytes.len());
            self.judge_copy(&frame);
            if !self.at_once {
                let tag = frame.vlan();
                let mut buffer = frame.buffer;
                buffer.tag = tag;
                self.kept.push((buffer, frame.bytes));
                return None;
            }
            traffic::arrived(&self.check, bytes, self.looks);
            return Some(frame.buffer);
        }
        let tag = frame.vlan();
        let mut long = self.long.take().unwrap_or_default();
        long.truncate(long.len().saturating_sub(frame.excess.into()));
        long.extend_from_slice(bytes);
        if frame.last {
            self.long_frame(&long, tag);
        } else {
            self.long = Some(long);
        }
        Some(frame.buffer)
    }

    /// Judges the driver's verdicts on a frame, which are known with its last part; `bytes` are those of that
    /// part.
    fn judge(&self, frame: &Received<Buf>, bytes: &[u8]) {
        let (ip, transport) = (frame.ip_checksum(), frame.transport_checksum());
        let right = if frame.last {
            let start = self.long.as_deref().unwrap_or(bytes);
            let sums = match traffic::ip_checksum(start).filter(|_| self.checksums) {
                Some(true) => ip == Checksum::Good && transport != Checksum::Bad,
                Some(false) => ip != Checksum::Good,
                None => (ip, transport) == (Checksum::Unknown, Checksum::Unknown),
            };
            let sums = sums && (transport == Checksum::Unknown || traffic::has_transport(start));
            let tag = if self.tags { traffic::expected_tag(start) } else { None };
            let to_group = start.first_chunk() == Some(&GROUP);
            let inexact =
                self.inexact.get().is_none_or(|inexact| frame.is_inexact() == (inexact && to_group));
            sums && frame.vlan() == tag && inexact
        } else {
            (ip, transport) == (Checksum::Unknown, Checksum::Unknown)
                && frame.vlan().is_none()
                && !frame.is_inexact()
        };
        if !right || frame.hash().is_some() {
            self.check.harm(Breach::Verdict);
        }
    }

    /// Whether the frame was copied if it had to be.
    fn judge_copy(&mut self, frame: &Received<Buf>) {
        let copied = !frame.buffer.was_given();
        self.copied += u64::from(copied);
        let refused = std::mem::replace(&mut self.refused, self.pool.refused());
        if copied != (frame.bytes <= self.copybreak) && (copied || refused == self.refused) {
            self.check
                .breach(Breach::DriverCounters("a frame that was copied, or not, against the configuration"));
        }
    }

    fn count(&mut self, bytes: usize) {
        self.frames.0 += 1;
        self.frames.1 += bytes as u64;
    }

    /// A frame that filled several buffers. The application gets it in one.
    fn long_frame(&mut self, bytes: &[u8], tag: Option<u16>) {
        self.count(bytes.len());
        if self.at_once {
            traffic::arrived(&self.check, bytes, self.looks);
        } else if let Some(mut buffer) = self.pool.take()
            && let Some(to) = buffer.bytes_mut().get_mut(..bytes.len())
        {
            to.copy_from_slice(bytes);
            buffer.tag = tag;
            self.kept.push((buffer, bytes.len() as u16));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_descriptors_without_an_end_are_not_counted_by_themselves() {
        assert!(explains(59, 59, 0));
        // A null descriptor and the frame after it form one nonsensical frame (seed 700012391).
        assert!(explains(60, 59, 1));
        assert!(!explains(60, 59, 0) && !explains(60, 58, 1) && !explains(59, 60, 1));
    }
}
