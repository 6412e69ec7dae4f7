//! A port: the driver on a card, the operating system that calls it, and the operator who looks after it.

use crate::buffers::{Buf, Pool};
use crate::card::{Card, Slot};
use crate::check::{Breach, Check};
use crate::fault::{Dice, Fault};
use crate::plan::{Plan, Use};
use crate::send::{Sender, Sent};
use crate::traffic;
use fastrand::Rng;
use kpps_driver::config::{Itr, Service};
use kpps_driver::service::{InterruptLoop, Napi, NextPoll, Polling, SelfPacing};
use kpps_driver::{Checksum, Config, Device, Error, Health, Received, RxCounters, probe};
use kpps_machine::{MS, US};
use kpps_platform::{Buffer, BufferSource};
use std::cell::{Cell, RefCell};
use std::rc::Rc;

/// How often the driver's watchdog is called, in ps.
const WATCHDOG_PS: u64 = 2000 * MS;
/// How long after a failed start the next one is tried, in ps.
const RETRY_PS: u64 = 100 * MS;
/// The pause after an empty poll without interrupts, and the longest one, in ps: under load, and while frames
/// come one at a time.
const PAUSE_PS: u64 = 10 * US;
const MOST_PAUSE_PS: u64 = 200 * US;
const MOST_QUIET_PAUSE_PS: u64 = 2 * MS;
/// The longest that a call of the driver may take, in virtual time: on the packet path, and to start a
/// device or to look after it (resets, PHY and EEPROM have waits of their own, each bounded).
const LONGEST_CALL_PS: u64 = 200 * MS;
const LONGEST_START_PS: u64 = 2000 * MS;

/// The driver's service, made for its configuration.
enum Runner {
    Loop(InterruptLoop),
    Napi(Napi),
    Polling(Polling),
    Pacing(Box<SelfPacing>),
}

impl Runner {
    fn new(service: &Service) -> Self {
        match *service {
            Service::InterruptLoop { max_loops, mask, again } => {
                Self::Loop(InterruptLoop::new(max_loops, mask, again))
            }
            Service::Napi { weight, exit, mask } => Self::Napi(Napi::new(weight, exit, mask)),
            Service::Polling { burst } => Self::Polling(Polling::new(burst)),
            Service::SelfPacing { burst, reserve, polling_rdtr } => {
                Self::Pacing(Box::new(SelfPacing::new(burst, reserve).with_polling_rdtr(polling_rdtr)))
            }
        }
    }
}

/// What was reached in the driver, and what watchdog and operator did.
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
    pub nudges: u64,
    /// Frames in the transmit ring at a reset.
    pub abandoned: u64,
}

impl Reached {
    /// All of them, with their names.
    pub fn all(&self) -> [(&'static str, u64); 14] {
        [
            ("driver: a call returned an error", self.errors),
            ("driver: descriptors only to get a report", self.nudges),
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

/// What driver and user have counted.
#[derive(Clone, Copy, Default)]
struct Counted {
    /// Descriptors, and whole frames with their bytes.
    taken: u64,
    got: u64,
    frames: [(u64, u64); 2],
    sent: [Sent; 2],
    /// Tail writes as the card saw them, and as the driver counts them.
    doorbells: [[u64; 2]; 2],
}

/// A port.
pub(crate) struct Port {
    number: usize,
    pub(crate) card: Rc<RefCell<Card>>,
    slot: Slot,
    pool: Pool,
    pub(crate) device: Option<Device<Slot, Pool>>,
    config: Config,
    runner: Runner,
    chip: kpps_datasheet::Chip,
    level: bool,
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
    /// The driver gets no processor until then.
    starved_until: u64,
    edges: u64,
    /// Descriptors taken from all receive queues so far; frames that former drivers counted; and those that
    /// resets dropped.
    taken: u64,
    got_before: u64,
    dropped: u64,
    /// What had been counted when the device was last started.
    begun: Counted,
    /// Buffers of sent frames go straight back into the receive ring.
    returns: bool,
    least_rings: [u16; 2],
    /// Each frame has one descriptor.
    single: bool,
    sender: Sender,
    pub(crate) reached: Reached,
    pub(crate) sink: Sink,
    random: Rng,
    dice: Rc<Dice>,
    check: Rc<Check>,
    now_ps: Rc<Cell<u64>>,
}

/// The surroundings of all ports.
pub(crate) struct Around<'a> {
    pub(crate) plan: &'a Plan,
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
            runner: Runner::new(&plan.config.service),
            chip: plan.chip,
            level: plan.level,
            call_ps: plan.call_ps,
            interrupt_ps: plan.interrupt_ps,
            interrupt_at: None,
            poll_at: None,
            pause_ps: PAUSE_PS,
            most_pause_ps: MOST_PAUSE_PS,
            watch_at: u64::MAX,
            retry_at: Some(0),
            start_at: None,
            starved_until: 0,
            edges: 0,
            taken: 0,
            got_before: 0,
            dropped: 0,
            begun: Counted::default(),
            returns: plan.returns,
            least_rings: plan.least_rings(),
            single: plan.config.rx_buffer_bytes >= plan.config.max_frame_bytes,
            sender: Sender::new(
                (plan.sending, matches!(plan.usage, Use::Send | Use::Route | Use::Nat)),
                plan.chip,
                plan.seed ^ (0x5E0D + number as u64),
                pool,
                check,
            ),
            reached: Reached::default(),
            sink: Sink {
                kept: Vec::new(),
                long: None,
                frames: (0, 0),
                pool: pool.clone(),
                checksums: plan.config.rx_checksum && plan.chip.has_checksum_offload(),
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
        let at = at.max(self.starved_until);
        at.min(self.watch_at).min(self.retry_at.unwrap_or(u64::MAX)).min(self.start_at.unwrap_or(u64::MAX))
    }

    /// Looks at the interrupt: schedules its handler if it rose.
    pub(crate) fn look(&mut self) {
        let (line, edges) = self.card.borrow().interrupts();
        let rose = edges != self.edges;
        self.edges = edges;
        if self.interrupt_at.is_some() || self.retry_at.is_some() || !(rose || self.level && line) {
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

    /// Does what is due. Returns whether the driver ran.
    pub(crate) fn run(&mut self) -> bool {
        let now = self.now();
        if self.retry_at.is_some_and(|at| at <= now) {
            self.start();
        } else if self.start_at.is_some_and(|at| at <= now) {
            self.start_at = None;
            self.reset("the operator starts it again");
        } else if self.watch_at <= now {
            self.watch();
        } else if self.starved_until > now {
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
        let started = probe(self.slot.clone(), self.chip, self.config.clone(), self.pool.clone());
        self.bounded(begun, LONGEST_START_PS);
        match started {
            Ok(device) => {
                self.note(|| "started".to_owned());
                self.device = Some(device);
                self.begin();
            }
            Err(error) => self.failed(error),
        }
    }

    /// What follows a start or a reset that succeeded.
    fn begin(&mut self) {
        self.runner = Runner::new(&self.config.service);
        (self.interrupt_at, self.poll_at, self.pause_ps) = (None, None, PAUSE_PS);
        self.watch_at = self.now() + self.random.u64(MS..WATCHDOG_PS);
        if let Some(device) = &mut self.device {
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

    /// What has been counted so far.
    fn counted(&self) -> Counted {
        let Some(device) = &self.device else { return Counted::default() };
        let (rx, tx) = (device.rx.counters(), device.tx.counters());
        let sent = Sent { frames: tx.frames, bytes: tx.bytes, full: tx.full };
        Counted {
            taken: self.taken,
            got: got(&rx),
            frames: [self.sink.frames, (rx.frames, rx.bytes)],
            sent: [self.sender.sent, sent],
            doorbells: [self.card.borrow().doorbells, [rx.doorbells, tx.doorbells]],
        }
    }

    /// The driver's counters say what its user has seen, and it keeps no more descriptors from the card than
    /// it says.
    pub(crate) fn check_counters(&self) {
        let Some(device) = &self.device else { return };
        if self.start_at.is_some() {
            return;
        }
        let (begun, now) = (&self.begun, self.counted());
        let wrong = |which| self.check.breach(Breach::DriverCounters(which));
        let since = |now: (u64, u64), begun: (u64, u64)| (now.0 - begun.0, now.1 - begun.1);
        if since(now.frames[0], begun.frames[0]) != since(now.frames[1], begun.frames[1]) {
            wrong("received frames and their bytes");
        }
        if self.single && now.taken - begun.taken != now.got - begun.got {
            wrong("received descriptors");
        }
        let since = |which: usize| {
            let (now, begun) = (now.sent[which], begun.sent[which]);
            [now.frames - begun.frames, now.bytes - begun.bytes, now.full - begun.full]
        };
        if since(0) != since(1) {
            wrong("sent frames, their bytes, and frames without room");
        }
        let since = |which: usize| {
            let (now, begun) = (now.doorbells[which], begun.doorbells[which]);
            [now[0] - begun[0], now[1] - begun[1]]
        };
        if since(0) != since(1) {
            wrong("tail writes");
        }
        let size = usize::from(device.control.config().rx_ring);
        let filled = size - device.rx.empty_slots();
        let fill = (now.taken - begun.taken) as usize + filled;
        let held = (fill + size - self.card.borrow().tail as usize) % size;
        // A full ring holds its last slot back, until the next one is filled or the card has none.
        let most = device.rx.held_back() + 1;
        if held > most {
            self.check.breach(Breach::HeldBack { held, most });
        }
    }

    /// Queues frames to send; those for which there is no room go back to the pool.
    pub(crate) fn send(&mut self, frames: impl Iterator<Item = (Buf, u16)>) {
        match &mut self.device {
            Some(device) => self.sender.send(&mut device.tx, frames),
            None => frames.for_each(|(buffer, _)| self.pool.give(buffer)),
        }
    }

    /// Queues up to `most` frames like `template`, with numbers of `number`, and hands them to the card.
    /// Returns how many; fewer if there is no room, or no buffer.
    pub(crate) fn send_own(&mut self, template: &[u8], most: u64, mut number: impl FnMut() -> u64) -> u64 {
        let Some(device) = &mut self.device else { return 0 };
        let queue = &mut device.tx;
        if queue.free() == 0 {
            // The interrupt or the next poll reclaims; some services do so only here.
            queue.reclaim(usize::MAX);
        }
        let write = |buffer: &mut Buf, number: u64| {
            let frame = buffer.bytes_mut().get_mut(..template.len()).unwrap_or_default();
            frame.copy_from_slice(template);
            traffic::write(frame, 0, number);
            template.len() as u16
        };
        let mut count = self.sender.send_again(queue, most, |buffer| write(buffer, number()));
        let most = most.min(count + self.sender.room(queue));
        if self.sender.segments() {
            while count < most && self.sender.room(queue) > 0 {
                let sent = self.sender.send_segments(queue, template, most - count, &mut number);
                if sent == 0 {
                    break;
                }
                count += sent;
            }
        } else {
            let (pool, room) = (&mut self.pool, (most - count) as usize);
            let frames = std::iter::from_fn(|| {
                let mut buffer = pool.take()?;
                let bytes = write(&mut buffer, number());
                buffer.sends = true;
                count += 1;
                Some((buffer, bytes))
            });
            self.sender.send(queue, frames.take(room));
        }
        queue.flush();
        count
    }

    /// Buffers of sent frames go straight back into the receive ring.
    fn return_buffers(&mut self) {
        let Some(Device { rx, tx, .. }) = self.device.as_mut().filter(|_| self.returns) else { return };
        tx.reclaim_with(usize::MAX, |mut buffer| {
            buffer.sends = false;
            if let Some(back) = rx.provide(buffer) {
                self.pool.give(back);
            }
        });
        rx.flush();
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
            self.reached.nudges += tx.nudges;
            self.reached.abandoned += tx.abandoned;
        }
        (self.interrupt_at, self.poll_at, self.watch_at) = (None, None, u64::MAX);
        self.drop_unread();
    }

    /// Frames that were handed over and that nobody will take: the rings were emptied.
    fn drop_unread(&mut self) {
        let handed_over = self.card.borrow().handed_over();
        self.dropped = handed_over.saturating_sub(self.got());
    }

    /// Frames that the driver says it got, good or not.
    fn got(&self) -> u64 {
        self.got_before + self.device.as_ref().map_or(0, |device| got(&device.rx.counters()))
    }

    /// Resets the device.
    fn reset(&mut self, why: &str) {
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
        self.bounded(begun, LONGEST_START_PS);
        match done {
            Ok(()) => self.begin(),
            Err(error) => self.failed(error),
        }
    }

    fn bounded(&self, begun: u64, most_ps: u64) {
        let took_ps = self.now() - begun;
        if took_ps > most_ps {
            self.check.breach(Breach::Endless { took_ps });
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
        let health = device.control.watchdog(now_ns, device.tx.progress());
        let lost = device.control.has_lost_receiver(&mut device.rx);
        self.bounded(begun, LONGEST_START_PS);
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
        let Some(Device { control, rx, tx }) = &mut self.device else { return };
        let begun = self.now_ps.get();
        self.now_ps.set(begun + self.call_ps);
        let sink = &mut self.sink;
        let mut taken = 0;
        let keep = |frame| sink.take(frame);
        let result = match &mut self.runner {
            Runner::Loop(service) => service.interrupt(control, rx, tx, keep).map(|handled| {
                taken = handled.received;
                None
            }),
            Runner::Napi(service) => service.interrupt(control).map(|poll| poll.then_some(US)),
            Runner::Pacing(service) => service.interrupt(control).map(|poll| poll.then_some(US)),
            Runner::Polling(_) => Ok(None),
        };
        self.taken += taken as u64;
        self.bounded(begun, LONGEST_CALL_PS);
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

    fn link_event(&mut self) {
        let Some(device) = &mut self.device else { return };
        if !device.control.take_link_event() {
            return;
        }
        let begun = self.now_ps.get();
        let link = device.control.update_link();
        self.bounded(begun, LONGEST_START_PS);
        if let Err(error) = link {
            self.reached.errors += 1;
            self.reset(&format!("the link cannot be read: {error}"));
        }
    }

    fn poll(&mut self) {
        self.return_buffers();
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
        self.taken += polled.received as u64;
        self.bounded(begun, LONGEST_CALL_PS);
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
        if self.dice.throws(Starved) {
            self.starved_until = now + self.dice.below(Starved, 20 * MS);
        }
        if self.dice.throws(ClockStep) {
            let ahead = self.slot.ahead_ps.get();
            self.slot.ahead_ps.set(ahead + self.dice.below(ClockStep, 3000 * MS));
        }
        if self.device.is_none() || self.start_at.is_some() {
            return;
        }
        if self.dice.throws(Restart) {
            self.reached.by_operator += 1;
            self.reset("the operator's wish");
        }
        if self.dice.throws(OtherRings) {
            self.reached.by_operator += 1;
            let sizes = [8, 16, 64, 256];
            let size = |at: u64| sizes[at as usize];
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
        if self.dice.throws(OtherModeration) {
            let rate = self.dice.below(OtherModeration, 100_000) as u32;
            // Chips without ITR refuse.
            let _ = control.set_itr(if rate < 60 { Itr::Off } else { Itr::Fixed(rate.max(4_000)) });
        }
        if self.dice.throws(OtherFilters) {
            let group = [1, 0, 0x5E, 0, 0, self.dice.below(OtherFilters, 250) as u8];
            control.set_multicast(&[group, [3, 0, 0, 0, 0, 1]]);
            control.set_promiscuous(false);
            control.set_all_multicast(self.dice.below(OtherFilters, 2) == 1);
            control.set_promiscuous(self.config.promiscuous);
        }
        self.look();
    }

    /// Frames that the card handed over, and those that the driver or a reset has taken.
    pub(crate) fn account(&self) -> (u64, u64) {
        (self.card.borrow().handed_over(), self.got() + self.dropped)
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
        self.starved_until = 0;
        self.look();
    }
}

/// Frames that the driver got, good or not.
fn got(counters: &RxCounters) -> u64 {
    counters.frames + counters.frame_errors + counters.nonsense
}

/// What is done with received frames while the driver runs.
pub(crate) struct Sink {
    /// Frames for the application, with their bytes.
    pub(crate) kept: Vec<(Buf, u16)>,
    /// The first parts of a long frame.
    long: Option<Vec<u8>>,
    /// Whole frames so far, and their bytes.
    frames: (u64, u64),
    /// The card checks checksums.
    checksums: bool,
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
        if frame.last {
            let start = self.long.as_deref().unwrap_or(bytes);
            let (ip, transport) = (frame.ip_checksum(), frame.transport_checksum());
            let right = match traffic::ip_checksum(start).filter(|_| self.checksums) {
                Some(true) => ip == Checksum::Good && transport != Checksum::Bad,
                Some(false) => ip != Checksum::Good,
                None => ip == Checksum::Unknown,
            };
            if !right || frame.vlan().is_some() || frame.hash().is_some() {
                self.check.harm(Breach::Verdict);
            }
        }
        if frame.first && frame.last {
            self.count(bytes.len());
            if !self.at_once {
                self.kept.push((frame.buffer, frame.bytes));
                return None;
            }
            traffic::arrived(&self.check, bytes, false);
            return Some(frame.buffer);
        }
        let mut long = self.long.take().unwrap_or_default();
        long.truncate(long.len().saturating_sub(frame.excess.into()));
        long.extend_from_slice(bytes);
        if frame.last {
            self.long_frame(&long);
        } else {
            self.long = Some(long);
        }
        Some(frame.buffer)
    }

    fn count(&mut self, bytes: usize) {
        self.frames.0 += 1;
        self.frames.1 += bytes as u64;
    }

    /// A frame that filled several buffers. The application gets it in one.
    fn long_frame(&mut self, bytes: &[u8]) {
        self.count(bytes.len());
        if self.at_once {
            traffic::arrived(&self.check, bytes, false);
        } else if let Some(mut buffer) = self.pool.take()
            && let Some(to) = buffer.bytes_mut().get_mut(..bytes.len())
        {
            to.copy_from_slice(bytes);
            self.kept.push((buffer, bytes.len() as u16));
        }
    }
}
