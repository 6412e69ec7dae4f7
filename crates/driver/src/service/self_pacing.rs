//! Interrupts when idle, polling when not, and no knobs.
//!
//! Three questions, each answered from what the machine measures on line:
//!
//! *How long to go on polling an idle device?* Going to sleep and being woken costs an interrupt; polling in vain costs a
//! ninth of the time, the rest being pauses. As in renting or buying skis, polling until that has cost an interrupt is never much worse than
//! knowing the future. The window starts there; it doubles when the device woke us sooner than it
//! lasts (we should have waited), and shrinks by an eighth when it did not. Its ceiling is
//! [`OVERHEAD`] times the cost of an interrupt, so interrupts take at most that share of the CPU.
//! A frame that comes just while it falls asleep is the same news; see [`SelfPacing::near_miss`].
//!
//! *How long to pause between polls?* At least [`PAUSE`] times what an empty poll costs, so that
//! polling in vain takes a small share of the CPU; longer while polls find only few frames, up to
//! the cost of an interrupt, so that latency is never worse than interrupts would make it; and
//! never so long that a quarter of the ring fills at line rate.
//!
//! *How much to take?* At most a burst, and at most the `budget` that the caller gives: the room
//! that its consumers have. With none, frames are left to the device, which drops them for free:
//! receiving cannot starve the consumers, whatever the load.
//!
//! *How much to leave to others?* A set share of the CPU, the reserve, if they want it. For what a poll took others are owed
//! time in proportion; the next poll waits that long, or for an idle CPU: [`Next::Yield`]. So a reserve that nobody wants
//! costs nothing. The same clock readings tell what frames take, what looking for them takes, and what is polled in vain
//! ([`SelfPacing::spent`]), which a system's own accounts do not. What it takes to get to a poll shows in how late one begins.
//!
//! *How to wait for sent frames?* Not by polling as for received ones: nobody waits for a buffer as for a frame. Where the caller's timers can be
//! cut short by the interrupt ([`SelfPacing::napping`]) it sleeps as soon as nothing was received for a window, lets received frames
//! interrupt but not sent ones, and wakes up about when the next [`BATCH`] of them is reported: after three quarters of the time that the
//! last took, and, if it was too early, a quarter later. It goes on like that until nothing was sent for a window.
//!
//! *When shall the device report?* At once while it is what wakes us. While polls find several frames nobody waits for the single one: from
//! then until none has done so for a window the device may gather a cache line of descriptors first, which leaves more of the bus to frames.
//!
//! Before it sleeps it reads ICR, which holds the causes of the frames that were polled: they
//! would interrupt at once for nothing. Then it looks at the rings a last time. What comes later
//! is a new cause and interrupts when unmasked.

use super::{Exclusive, Polled};
use crate::{Control, Error, Received, RxQueue, TxQueue, config::MOST_RESERVED};
use kpps_platform::{BufferSource, Platform};

/// The ceiling of the window, in interrupts' costs.
const OVERHEAD: u64 = 16;
/// The least pause, in empty polls' costs.
const PAUSE: u64 = 8;
/// An interrupt costs about this many times its register accesses: entry, exit, cold caches.
const WHOLE_INTERRUPT: u64 = 4;
/// A timer's interrupt and the way from there to a poll take no longer than so many interrupts' costs, which are estimates.
const LATE: u64 = 4;
/// What any cost is at least, for clocks too coarse to tell.
const LEAST_NS: u64 = 50;
/// A frame of 64 bytes at 1 Gb/s.
const SLOT_NS: u64 = 672;
/// About as many frames as are reported at once.
const BATCH: u64 = 32;
/// Descriptors of a cache line of 64 bytes.
const LINE: usize = 4;
/// The longest nap: how long a sent frame may wait to be taken back.
const NAP_NS: u64 = 500_000;
/// The longest debt: what took longer than this makes was interrupted.
const MOST_OWED_NS: u64 = 2_000_000;

/// When to call [`SelfPacing::poll`] again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// As soon as others have had their turn: there is more.
    Now,
    /// At this time, in nanoseconds of the platform's clock.
    At(u64),
    /// As soon as nobody else wants the CPU, and at this time in any case.
    Yield(u64),
    /// Not before the next interrupt.
    Asleep,
}

/// What a [`SelfPacing`] service has taken of its CPU so far, in nanoseconds: its calls, with whatever interrupts them, and what
/// it takes to get there, as far as that shows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Spent {
    /// Interrupts, and what polls that received or reclaimed something took for that.
    pub useful_ns: u64,
    /// What looking took in these polls: as much as in one that finds nothing.
    pub looking_ns: u64,
    /// Polls that found nothing.
    pub vain_ns: u64,
}

/// Interrupts when idle, otherwise polling at its own pace.
#[derive(Clone, Debug)]
pub struct SelfPacing {
    burst: u16,
    /// Time owed to others for each nanosecond taken, in 1/1024, and a sixty-fourth more for what no clock here shows.
    rate: u64,
    /// Owed for interrupts since the last poll.
    owed_ns: u64,
    spent: Spent,
    /// When the next poll is due; 0 if at no certain time.
    due_ns: u64,
    /// Measured time from when a poll is due to its beginning.
    turn_ns: u64,
    asleep: bool,
    /// How long to go on polling without work.
    window_ns: u64,
    /// The pause between polls.
    pause_ns: u64,
    /// Measured cost of an interrupt, and of an empty poll; 0 before the first.
    interrupt_ns: u64,
    empty_ns: u64,
    slept_at_ns: u64,
    worked_at_ns: u64,
    /// How long the device may gather its reports, in units of RDTR; whether it does; and when a poll last found a line of them.
    gather: u16,
    gathers: bool,
    line_at_ns: u64,
    /// Whether it may nap, and whether it does.
    naps: bool,
    napping: bool,
    /// Frames taken to send when last looked at, and when there were more than before.
    sent: u64,
    sent_at_ns: u64,
    /// When frames were last reported, and how long a [`BATCH`] takes.
    reported_at_ns: u64,
    batch_ns: u64,
}

impl SelfPacing {
    /// See [`Service::SelfPacing`](crate::config::Service::SelfPacing); `reserve` in percent. It starts asleep:
    /// [`Control::unmask`] after [`probe`](crate::probe).
    pub fn new(burst: u16, reserve: u8) -> Self {
        let reserve = u64::from(reserve.min(MOST_RESERVED));
        Self {
            burst,
            rate: (1024 * reserve * 65).div_ceil(64 * (100 - reserve)),
            owed_ns: 0,
            spent: Spent::default(),
            due_ns: 0,
            turn_ns: 0,
            asleep: true,
            window_ns: 0,
            pause_ns: 0,
            interrupt_ns: 0,
            empty_ns: 0,
            slept_at_ns: 0,
            worked_at_ns: 0,
            gather: 0,
            gathers: false,
            line_at_ns: 0,
            naps: false,
            napping: false,
            sent: 0,
            sent_at_ns: 0,
            reported_at_ns: 0,
            batch_ns: 0,
        }
    }

    /// The same for a caller that calls [`poll`](Self::poll) at once when [`interrupt`](Self::interrupt) says so, even
    /// if it was to be called [`At`](Next::At) some time: sent frames are waited for with interrupts enabled.
    pub fn napping(self) -> Self {
        Self { naps: true, ..self }
    }

    /// The same that has the device gather its reports for up to `units` of 1.024 µs while polls find several frames, where the chip
    /// can; see [`Service::SelfPacing`](crate::config::Service::SelfPacing). It must be the only service of the device.
    pub fn gathering(self, units: u16) -> Self {
        Self { gather: units, ..self }
    }

    /// What it has taken of its CPU so far.
    pub fn spent(&self) -> Spent {
        self.spent
    }

    /// Whether it waits for an interrupt.
    pub fn is_asleep(&self) -> bool {
        self.asleep
    }

    /// How long it goes on polling without work, and its pause between polls, both as found so far.
    pub fn found_ns(&self) -> (u64, u64) {
        (self.window_ns, self.pause_ns)
    }

    /// Handles an interrupt: reads ICR, masks. True: start calling [`poll`](Self::poll). False: not
    /// ours. [`Error::Gone`] if the device has vanished.
    pub fn interrupt<P: Platform>(&mut self, control: &mut Control<P>) -> Result<bool, Error> {
        let start = control.platform().now_ns();
        if !control.causes()?.any() || !self.asleep {
            return Ok(false);
        }
        control.mask();
        let now = control.platform().now_ns();
        learn(&mut self.interrupt_ns, (now - start).max(LEAST_NS) * WHOLE_INTERRUPT);
        self.spent.useful_ns += self.interrupt_ns;
        self.owed_ns = self.owed_for(self.interrupt_ns);
        let slept = start.saturating_sub(self.slept_at_ns);
        self.window_ns = self.bounded(if slept < self.window_ns {
            self.window_ns * 2
        } else {
            self.window_ns - self.window_ns / 8
        });
        self.worked_at_ns = now;
        (self.asleep, self.napping) = (false, false);
        Ok(true)
    }

    /// One poll: reclaims what was sent, receives at most a burst and at most `budget`, the room
    /// that the consumers of `sink` have. Goes to sleep (unmasks) when its window is over. Others may have `tx` while
    /// `sink` runs.
    pub fn poll<P: Platform, S: BufferSource>(
        &mut self,
        control: &mut Control<P>,
        rx: &mut RxQueue<P, S>,
        mut tx: impl Exclusive<TxQueue<P, S>>,
        budget: usize,
        mut sink: impl FnMut(Received<S::Buf>) -> Option<S::Buf>,
    ) -> Result<(Polled, Next), Error> {
        if self.napping {
            return Ok(self.wake_from_nap(control, rx, tx, budget, sink));
        }
        if self.asleep {
            return Ok((Polled { done: true, ..Polled::default() }, Next::Asleep));
        }
        let burst = usize::from(self.burst);
        let limit = budget.min(burst);
        let start = control.platform().now_ns();
        let turn_ns = self.turn(start);
        let mut reclaimed = tx.with(|tx| {
            tx.attend(true);
            tx.reclaim(usize::MAX)
        });
        let mut received = rx.receive(limit, &mut sink);
        let sent = settle_if_idle(&mut tx);
        let mut now = control.platform().now_ns();
        self.note_sent(sent, now);
        let idle = received == 0 && limit > 0 && (reclaimed == 0 || self.naps);
        if idle {
            if reclaimed == 0 {
                learn(&mut self.empty_ns, (now - start).max(LEAST_NS));
            }
            if now.saturating_sub(self.worked_at_ns) >= self.window_ns {
                // Before the causes are read, for it raises one.
                self.gather(control, false);
                // The only register read outside interrupts. It ends in sleep, or in another window.
                control.causes()?;
                reclaimed += tx.with(|tx| tx.reclaim(usize::MAX));
                received = rx.receive(limit, &mut sink);
                now = control.platform().now_ns();
                if self.naps && received == 0 && (self.is_sending(now) || tx.with(|tx| tx.pending() > 0)) {
                    (self.asleep, self.napping, self.slept_at_ns) = (true, true, now);
                    (self.reported_at_ns, self.batch_ns) = (now, 0);
                    control.unmask_receive();
                    self.account(turn_ns + (now - start), reclaimed > 0);
                    return Ok((
                        Polled { received, reclaimed, done: false },
                        Next::At(now + self.interrupt_ns),
                    ));
                }
                if received == 0 && (reclaimed == 0 || self.naps) {
                    tx.with(|tx| {
                        tx.attend(false);
                        tx.settle();
                    });
                    self.asleep = true;
                    self.slept_at_ns = now;
                    control.unmask();
                    self.account(turn_ns + (now - start), false);
                    return Ok((Polled { done: true, ..Polled::default() }, Next::Asleep));
                }
                self.near_miss();
            }
        }
        if received >= LINE {
            self.line_at_ns = now;
            self.gather(control, true);
        } else if now.saturating_sub(self.line_at_ns) >= self.window_ns {
            self.gather(control, false);
        }
        // Without room for frames there is no telling whether the device is idle.
        if received > 0 || (reclaimed > 0 && !self.naps) || limit == 0 {
            self.worked_at_ns = now;
        }
        self.adapt_pause(received, control.config().rx_ring);
        let owed_ns = self.account(turn_ns + (now - start), received + reclaimed > 0);
        let pause_ns = if received == burst { 0 } else { self.pause_ns };
        let next = if owed_ns > pause_ns {
            Next::Yield(now + owed_ns)
        } else if received == burst {
            Next::Now
        } else {
            Next::At(now + pause_ns)
        };
        self.due_ns = if next == Next::Now { 0 } else { now + owed_ns.max(pause_ns) };
        Ok((Polled { received, reclaimed, done: false }, next))
    }

    /// A nap is over: takes back what was sent, and looks for received frames nevertheless.
    fn wake_from_nap<P: Platform, S: BufferSource>(
        &mut self,
        control: &mut Control<P>,
        rx: &mut RxQueue<P, S>,
        mut tx: impl Exclusive<TxQueue<P, S>>,
        budget: usize,
        sink: impl FnMut(Received<S::Buf>) -> Option<S::Buf>,
    ) -> (Polled, Next) {
        let start = control.platform().now_ns();
        let reclaimed = tx.with(|tx| tx.reclaim(usize::MAX));
        let received = rx.receive(budget.min(self.burst.into()), sink);
        let sent = settle_if_idle(&mut tx);
        let now = control.platform().now_ns();
        self.note_sent(sent, now);
        self.account(self.turn_ns + (now - start), received + reclaimed > 0);
        if received > 0 {
            control.mask();
            (self.asleep, self.napping, self.worked_at_ns) = (false, false, now);
            return (Polled { received, reclaimed, done: false }, Next::Now);
        }
        let over = !self.is_sending(now)
            && tx.with(|tx| {
                let over = tx.pending() == 0;
                tx.attend(!over);
                over
            });
        if over {
            self.napping = false;
            control.unmask();
            return (Polled { received, reclaimed, done: true }, Next::Asleep);
        }
        let nap_ns = self.nap_ns(reclaimed as u64, now).clamp(self.interrupt_ns, NAP_NS);
        (Polled { received, reclaimed, done: false }, Next::At(now + nap_ns))
    }

    /// Has the device gather its reports, or not.
    fn gather<P: Platform>(&mut self, control: &Control<P>, gather: bool) {
        if self.gathers != gather && self.gather > 0 && control.can_gather() {
            self.gathers = gather;
            control.gather_reports(if gather { self.gather } else { 0 });
        }
    }

    /// When to expect the next report.
    fn nap_ns(&mut self, reclaimed: u64, now: u64) -> u64 {
        let waited_ns = now - self.reported_at_ns;
        if reclaimed == 0 {
            return if self.batch_ns > 0 { self.batch_ns } else { waited_ns } / 4;
        }
        let batch_ns = waited_ns * BATCH / reclaimed;
        self.reported_at_ns = now;
        self.batch_ns = if self.batch_ns > 0 { (3 * self.batch_ns + batch_ns) / 4 } else { batch_ns };
        self.batch_ns / 4 * 3
    }

    /// Takes note of frames that were taken to send.
    fn note_sent(&mut self, frames: u64, now: u64) {
        if frames != self.sent {
            (self.sent, self.sent_at_ns) = (frames, now);
        }
    }

    /// Whether frames were sent within a window.
    fn is_sending(&self, now: u64) -> bool {
        now.saturating_sub(self.sent_at_ns) < self.window_ns
    }

    /// Enters what a poll took in the books. Returns what others are owed for it, and for interrupts before it.
    fn account(&mut self, took_ns: u64, useful: bool) -> u64 {
        if useful {
            let looking_ns = (self.turn_ns + self.empty_ns).min(took_ns);
            self.spent.looking_ns += looking_ns;
            self.spent.useful_ns += took_ns - looking_ns;
        } else {
            self.spent.vain_ns += took_ns;
        }
        let owed_ns = core::mem::take(&mut self.owed_ns) + self.owed_for(took_ns);
        owed_ns.min(MOST_OWED_NS)
    }

    /// What others are owed for so much time.
    fn owed_for(&self, took_ns: u64) -> u64 {
        (took_ns * self.rate) >> 10
    }

    /// What it took to get to a poll: how late it begins, if it was due at some time, otherwise as much as usual. One that begins early was
    /// not waited with: others did not want the CPU. What is later than [`LATE`] was somebody else's.
    fn turn(&mut self, start: u64) -> u64 {
        let due_ns = core::mem::take(&mut self.due_ns);
        if due_ns == 0 || start < due_ns {
            return self.turn_ns;
        }
        let late_ns = (start - due_ns).min(self.interrupt_ns * LATE);
        average(&mut self.turn_ns, late_ns);
        late_ns
    }

    /// A window within its limits.
    fn bounded(&self, window_ns: u64) -> u64 {
        window_ns.clamp(self.interrupt_ns * (1 + PAUSE), self.interrupt_ns * OVERHEAD)
    }

    /// Work was found on the way to sleep: frames come about a window apart. It doubles, if need be
    /// beyond the ceiling, to be clear of the gap. From there it goes back to the ceiling, to sleep
    /// before the next one. A window as long as the gap would read ICR for each frame.
    fn near_miss(&mut self) {
        let ceiling = self.interrupt_ns * OVERHEAD;
        self.window_ns = if self.window_ns > ceiling { ceiling } else { self.window_ns * 2 };
    }

    /// Few frames: pause longer. Many: shorter.
    fn adapt_pause(&mut self, received: usize, rx_ring: u16) {
        let burst = usize::from(self.burst);
        let least = self.empty_ns * PAUSE;
        let most = least.max(self.interrupt_ns);
        if received > 0 && received < burst / 4 {
            self.pause_ns += self.pause_ns / 4 + 1;
        } else if received >= burst / 2 {
            self.pause_ns /= 2;
        }
        self.pause_ns = self.pause_ns.clamp(least, most).min(u64::from(rx_ring / 4) * SLOT_NS);
    }
}

/// [`TxQueue::settle_if_idle`]; the frames taken to send so far.
fn settle_if_idle<P: Platform, S: BufferSource>(tx: &mut impl Exclusive<TxQueue<P, S>>) -> u64 {
    tx.with(|tx| {
        tx.settle_if_idle();
        tx.counters().frames
    })
}

/// As [`average`], and the first measurement counts whole: any other beginning would be a guess, from which a
/// cost that is rarely measured gets away slowly.
fn learn(cost: &mut u64, measured: u64) {
    if *cost == 0 {
        *cost = measured;
    }
    average(cost, measured);
}

/// Moves an average an eighth of the way, and at once when it is too high: a measured cost may
/// contain an interruption, never the lack of one.
fn average(average: &mut u64, measured: u64) {
    *average = if measured < *average { measured } else { *average + (measured - *average) / 8 };
}
