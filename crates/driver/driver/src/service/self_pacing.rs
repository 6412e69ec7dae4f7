//! Self-pacing: interrupts while the device is idle, polling while it is not. Pace and length of polling are
//! measured.
//!
//! **How long to poll an idle device.** Sleeping and waking up costs one interrupt. An idle poll takes a
//! ninth of the time, pauses take the rest. Polling for as long as an interrupt costs is at most twice as
//! expensive as the best choice in hindsight (the ski rental problem). The idle window starts at that length.
//! It doubles when an interrupt came within one window, and shrinks by an eighth otherwise. Its ceiling is
//! [`OVERHEAD`] interrupts, which bounds the share of CPU time that interrupts take. A frame that arrives
//! while the driver falls asleep counts as too soon: [`SelfPacing::near_miss`].
//!
//! **How long to pause between polls.** At least the time of [`PAUSE`] idle polls, so they take a small share
//! of the CPU. Longer while polls find few frames, up to the cost of an interrupt: latency is never worse
//! than with interrupts. A pause ends before a quarter of the ring fills at line rate.
//!
//! **How many frames to take.** At most a burst, and at most the `budget` of the caller, which is the space
//! that its consumers have. Without space, frames stay in the device, which drops them at no cost to the CPU.
//! Receiving cannot starve the consumers at any load.
//!
//! **How much CPU time to leave to others.** A configured share, the reserve. After a poll, others are owed
//! time in proportion to what the poll took. The next poll waits that long, or until the CPU is idle
//! ([`NextPoll::Yield`]), so an unused reserve costs nothing. The same clock readings give the time spent on
//! frames, on the fixed cost of polls, and on idle polls ([`SelfPacing::spent`]). The time to get to a poll
//! is measured by how late it begins.
//!
//! **How to wait for sent frames.** Not by polling, because a free buffer is less urgent than a frame. This
//! needs a caller whose timers the interrupt can cut short ([`SelfPacing::sleeping_while_sending`]). After an
//! idle window without a received frame the driver sleeps with receive interrupts on and transmit interrupts
//! off. It wakes up about when the next [`BATCH`] is reported: after three quarters of the last interval, and
//! a quarter later if that was too early. This ends when nothing was sent for an idle window.
//!
//! **When the device reports received frames.** At once while its interrupt wakes the driver. While polls
//! find several frames, RDTR lets the device gather a cache line of descriptors before it writes them back.
//! That leaves more of the bus to frames. It ends after an idle window without such a poll.
//!
//! Before sleeping, the driver reads ICR: it holds causes of frames that were polled already, which would
//! interrupt at once. Then it examines the rings a last time. Any later frame is a new cause and interrupts
//! when unmasked.

use super::{Exclusive, Polled};
use crate::{Control, Error, Received, RxQueue, TxQueue, config::MOST_RESERVED};
use kpps_platform::{BufferSource, Platform};

/// The ceiling of the idle window, in costs of an interrupt.
const OVERHEAD: u64 = 16;
/// The shortest pause, in costs of an empty poll.
const PAUSE: u64 = 8;
/// The cost of an interrupt, in costs of its register accesses. The rest is entry, exit and cold caches.
const WHOLE_INTERRUPT: u64 = 4;
/// The longest delay between a timer and its poll, in costs of an interrupt (an estimate).
const LATE: u64 = 4;
/// The lower bound of any measured cost in ns, for coarse clocks.
const LEAST_NS: u64 = 50;
/// The time of a frame of 64 bytes at 1 Gb/s, in ns.
const SLOT_NS: u64 = 672;
/// Sent frames that are reported at once, about; in small rings a quarter of them.
const BATCH: u64 = 32;
/// Descriptors in a cache line of 64 bytes.
const LINE: usize = 4;
/// The longest sleep while frames are being sent, in ns: how long a sent buffer may wait to be reclaimed.
const MOST_SEND_SLEEP_NS: u64 = 500_000;
/// The most CPU time that others can be owed, in ns. A poll that took longer than this implies was
/// interrupted.
const MOST_OWED_NS: u64 = 2_000_000;

/// When to call [`SelfPacing::poll`] again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NextPoll {
    /// As soon as other work had a turn: more frames wait.
    Now,
    /// At this time, in ns of the platform's clock.
    At(u64),
    /// When the CPU is idle, and at the latest at this time, in ns of the platform's clock.
    Yield(u64),
    /// After the next interrupt.
    Asleep,
}

/// CPU time that a [`SelfPacing`] service has used so far, in ns: its calls, whatever interrupted them, and
/// the measured time to get to them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Spent {
    /// Interrupts, and the variable cost of polls that received or reclaimed something.
    pub useful_ns: u64,
    /// The fixed cost of these polls: as much as an empty poll takes.
    pub overhead_ns: u64,
    /// Idle polls, which found nothing.
    pub idle_ns: u64,
}

/// Interrupts when idle, otherwise polling at its own pace.
#[derive(Clone, Debug)]
pub struct SelfPacing {
    burst: u16,
    /// Time owed to others for each ns used, in 1/1024; a sixty-fourth more, for what these clock readings
    /// miss.
    rate: u64,
    /// Time owed for interrupts since the last poll, in ns.
    owed_ns: u64,
    spent: Spent,
    /// When the next poll is due, in ns; 0 if at no set time.
    due_ns: u64,
    /// Measured time from when a poll is due to its start, in ns.
    start_delay_ns: u64,
    asleep: bool,
    /// The idle window: how long polling goes on without work, in ns.
    window_ns: u64,
    /// The pause between polls, in ns.
    pause_ns: u64,
    /// Measured cost of an interrupt and of an empty poll, in ns; 0 before the first.
    interrupt_ns: u64,
    empty_ns: u64,
    slept_at_ns: u64,
    worked_at_ns: u64,
    /// RDTR while polls find several frames, in 1.024 µs; whether it is set; and when a poll last found a
    /// cache line.
    polling_rdtr: u16,
    rdtr_set: bool,
    line_at_ns: u64,
    /// Whether the caller allows sleeping while frames are being sent, and whether this is such a sleep.
    may_send_sleep: bool,
    send_sleep: bool,
    /// Frames queued to send at the last poll, and when that number last grew.
    sent: u64,
    sent_at_ns: u64,
    /// When frames were last reported, and how long a [`BATCH`] takes, in ns.
    reported_at_ns: u64,
    batch_ns: u64,
}

impl SelfPacing {
    /// See [`Service::SelfPacing`](crate::config::Service::SelfPacing); `reserve` in percent. The service
    /// starts asleep: call [`Control::unmask`] after [`probe`](crate::probe).
    pub fn new(burst: u16, reserve: u8) -> Self {
        let reserve = u64::from(reserve.min(MOST_RESERVED));
        Self {
            burst,
            rate: (1024 * reserve * 65).div_ceil(64 * (100 - reserve)),
            owed_ns: 0,
            spent: Spent::default(),
            due_ns: 0,
            start_delay_ns: 0,
            asleep: true,
            window_ns: 0,
            pause_ns: 0,
            interrupt_ns: 0,
            empty_ns: 0,
            slept_at_ns: 0,
            worked_at_ns: 0,
            polling_rdtr: 0,
            rdtr_set: false,
            line_at_ns: 0,
            may_send_sleep: false,
            send_sleep: false,
            sent: 0,
            sent_at_ns: 0,
            reported_at_ns: 0,
            batch_ns: 0,
        }
    }

    /// Sleeps, with receive interrupts on, while only sent frames are outstanding. The caller must call
    /// [`poll`](Self::poll) at once when [`interrupt`](Self::interrupt) returns true, even if the poll was
    /// due [`At`](NextPoll::At) a later time.
    pub fn sleeping_while_sending(self) -> Self {
        Self { may_send_sleep: true, ..self }
    }

    /// Sets RDTR to `units` of 1.024 µs while polls find several frames, on chips that allow it; see
    /// [`Service::SelfPacing`](crate::config::Service::SelfPacing). This must be the only service of the
    /// device.
    pub fn with_polling_rdtr(self, units: u16) -> Self {
        Self { polling_rdtr: units, ..self }
    }

    /// CPU time used so far.
    pub fn spent(&self) -> Spent {
        self.spent
    }

    /// Whether the service waits for an interrupt.
    pub fn is_asleep(&self) -> bool {
        self.asleep
    }

    /// (idle window, pause between polls) as measured so far, in ns.
    pub fn pacing_ns(&self) -> (u64, u64) {
        (self.window_ns, self.pause_ns)
    }

    /// Handles an interrupt: reads ICR and masks. True: start calling [`poll`](Self::poll). False: the
    /// interrupt was another device's.
    ///
    /// # Errors
    /// [`Error::Gone`] if the device has vanished.
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
        (self.asleep, self.send_sleep) = (false, false);
        Ok(true)
    }

    /// One poll: reclaims sent frames, and receives at most a burst and at most `budget`, the space that the
    /// consumers of `sink` have. Goes to sleep (unmasks) at the end of the idle window. Others may lock `tx`
    /// while `sink` runs.
    ///
    /// # Errors
    /// [`Error::Gone`] if the device has vanished.
    pub fn poll<P: Platform, S: BufferSource>(
        &mut self,
        control: &mut Control<P>,
        rx: &mut RxQueue<P, S>,
        mut tx: impl Exclusive<TxQueue<P, S>>,
        budget: usize,
        mut sink: impl FnMut(Received<S::Buf>) -> Option<S::Buf>,
    ) -> Result<(Polled, NextPoll), Error> {
        if self.send_sleep {
            return Ok(self.wake_from_send_sleep(control, rx, tx, budget, sink));
        }
        if self.asleep {
            return Ok((Polled { done: true, ..Polled::default() }, NextPoll::Asleep));
        }
        let burst = usize::from(self.burst);
        let limit = budget.min(burst);
        let start = control.platform().now_ns();
        let delay_ns = self.start_delay(start);
        let mut reclaimed = tx.with(|tx| {
            tx.set_polled(true);
            tx.reclaim(usize::MAX)
        });
        let mut received = rx.receive(limit, &mut sink);
        let sent = request_report_if_idle(&mut tx);
        let mut now = control.platform().now_ns();
        self.note_sent(sent, now);
        let idle = received == 0 && limit > 0 && (reclaimed == 0 || self.may_send_sleep);
        if idle {
            if reclaimed == 0 {
                learn(&mut self.empty_ns, (now - start).max(LEAST_NS));
            }
            if now.saturating_sub(self.worked_at_ns) >= self.window_ns {
                // Before the causes are read, because it raises one.
                self.set_polling_rdtr(control, false);
                // The only register read outside interrupts. Sleep or another window follows.
                control.causes()?;
                reclaimed += tx.with(|tx| tx.reclaim(usize::MAX));
                received = rx.receive(limit, &mut sink);
                now = control.platform().now_ns();
                if self.may_send_sleep
                    && received == 0
                    && (self.is_sending(now) || tx.with(|tx| tx.pending() > 0))
                {
                    (self.asleep, self.send_sleep, self.slept_at_ns) = (true, true, now);
                    (self.reported_at_ns, self.batch_ns) = (now, 0);
                    control.unmask_receive();
                    self.account(delay_ns + (now - start), reclaimed > 0);
                    return Ok((
                        Polled { received, reclaimed, done: false },
                        NextPoll::At(now + self.interrupt_ns),
                    ));
                }
                if received == 0 && (reclaimed == 0 || self.may_send_sleep) {
                    tx.with(|tx| {
                        tx.set_polled(false);
                        tx.request_report();
                    });
                    self.asleep = true;
                    self.slept_at_ns = now;
                    control.unmask();
                    self.account(delay_ns + (now - start), reclaimed > 0);
                    return Ok((Polled { received, reclaimed, done: true }, NextPoll::Asleep));
                }
                self.near_miss();
            }
        }
        if received >= LINE {
            self.line_at_ns = now;
            self.set_polling_rdtr(control, true);
        } else if now.saturating_sub(self.line_at_ns) >= self.window_ns {
            self.set_polling_rdtr(control, false);
        }
        // With a budget of 0 nothing shows whether the device is idle.
        if received > 0 || (reclaimed > 0 && !self.may_send_sleep) || limit == 0 {
            self.worked_at_ns = now;
        }
        self.adapt_pause(received, control.config().rx_ring);
        let owed_ns = self.account(delay_ns + (now - start), received + reclaimed > 0);
        let pause_ns = if received == burst { 0 } else { self.pause_ns };
        let next = if owed_ns > pause_ns {
            NextPoll::Yield(now + owed_ns)
        } else if received == burst {
            NextPoll::Now
        } else {
            NextPoll::At(now + pause_ns)
        };
        self.due_ns = if next == NextPoll::Now { 0 } else { now + owed_ns.max(pause_ns) };
        Ok((Polled { received, reclaimed, done: false }, next))
    }

    /// The end of a sleep while sending: reclaims sent frames, and receives what came without an interrupt.
    fn wake_from_send_sleep<P: Platform, S: BufferSource>(
        &mut self,
        control: &mut Control<P>,
        rx: &mut RxQueue<P, S>,
        mut tx: impl Exclusive<TxQueue<P, S>>,
        budget: usize,
        sink: impl FnMut(Received<S::Buf>) -> Option<S::Buf>,
    ) -> (Polled, NextPoll) {
        let start = control.platform().now_ns();
        let reclaimed = tx.with(|tx| tx.reclaim(usize::MAX));
        let received = rx.receive(budget.min(self.burst.into()), sink);
        let sent = request_report_if_idle(&mut tx);
        let now = control.platform().now_ns();
        self.note_sent(sent, now);
        self.account(self.start_delay_ns + (now - start), received + reclaimed > 0);
        if received > 0 {
            control.mask();
            (self.asleep, self.send_sleep, self.worked_at_ns) = (false, false, now);
            return (Polled { received, reclaimed, done: false }, NextPoll::Now);
        }
        let over = !self.is_sending(now)
            && tx.with(|tx| {
                let over = tx.pending() == 0;
                tx.set_polled(!over);
                over
            });
        if over {
            self.send_sleep = false;
            control.unmask();
            return (Polled { received, reclaimed, done: true }, NextPoll::Asleep);
        }
        // An interrupt may have seemed to take longer than that: the device decides how long a read takes.
        let batch = BATCH.min(u64::from(control.config().tx_ring) / 4);
        let sleep_ns =
            self.send_sleep_ns(reclaimed as u64, batch, now).max(self.interrupt_ns).min(MOST_SEND_SLEEP_NS);
        (Polled { received, reclaimed, done: false }, NextPoll::At(now + sleep_ns))
    }

    /// Sets RDTR so that the device gathers a cache line of descriptors, or clears it.
    fn set_polling_rdtr<P: Platform>(&mut self, control: &Control<P>, gather: bool) {
        if self.rdtr_set != gather && self.polling_rdtr > 0 && control.may_set_rdtr() {
            self.rdtr_set = gather;
            control.set_rdtr(if gather { self.polling_rdtr } else { 0 });
        }
    }

    /// Time until the device is expected to report `batch` more sent frames, in ns.
    fn send_sleep_ns(&mut self, reclaimed: u64, batch: u64, now: u64) -> u64 {
        let waited_ns = now - self.reported_at_ns;
        if reclaimed == 0 {
            return if self.batch_ns > 0 { self.batch_ns } else { waited_ns } / 4;
        }
        let batch_ns = waited_ns * batch / reclaimed;
        self.reported_at_ns = now;
        self.batch_ns = if self.batch_ns > 0 { (3 * self.batch_ns + batch_ns) / 4 } else { batch_ns };
        self.batch_ns / 4 * 3
    }

    /// Notes the number of frames queued to send.
    fn note_sent(&mut self, frames: u64, now: u64) {
        if frames != self.sent {
            (self.sent, self.sent_at_ns) = (frames, now);
        }
    }

    /// Whether frames were queued to send within the last idle window.
    fn is_sending(&self, now: u64) -> bool {
        now.saturating_sub(self.sent_at_ns) < self.window_ns
    }

    /// Accounts for the time of a poll. Returns the time owed to others for it and for earlier interrupts, in
    /// ns.
    fn account(&mut self, took_ns: u64, useful: bool) -> u64 {
        if useful {
            let overhead_ns = (self.start_delay_ns + self.empty_ns).min(took_ns);
            self.spent.overhead_ns += overhead_ns;
            self.spent.useful_ns += took_ns - overhead_ns;
        } else {
            self.spent.idle_ns += took_ns;
        }
        let owed_ns = core::mem::take(&mut self.owed_ns) + self.owed_for(took_ns);
        owed_ns.min(MOST_OWED_NS)
    }

    /// The time owed to others for `took_ns` of work, in ns.
    fn owed_for(&self, took_ns: u64) -> u64 {
        (took_ns * self.rate) >> 10
    }

    /// The time to get to a poll, in ns: how late it starts after its due time. Without a due time, or if it
    /// starts early because the CPU was idle, the average counts. Delays beyond [`LATE`] interrupts are other
    /// work's.
    fn start_delay(&mut self, start: u64) -> u64 {
        let due_ns = core::mem::take(&mut self.due_ns);
        if due_ns == 0 || start < due_ns {
            return self.start_delay_ns;
        }
        let late_ns = (start - due_ns).min(self.interrupt_ns * LATE);
        average(&mut self.start_delay_ns, late_ns);
        late_ns
    }

    /// The idle window within its limits.
    fn bounded(&self, window_ns: u64) -> u64 {
        window_ns.clamp(self.interrupt_ns * (1 + PAUSE), self.interrupt_ns * OVERHEAD)
    }

    /// Work arrived while falling asleep: the gap between frames is about one idle window. The window
    /// doubles, beyond the ceiling if necessary, to be clearly longer than the gap. From beyond the ceiling
    /// it goes back to the ceiling, to be clearly shorter. A window as long as the gap would read ICR for
    /// each frame.
    fn near_miss(&mut self) {
        let ceiling = self.interrupt_ns * OVERHEAD;
        self.window_ns = if self.window_ns > ceiling { ceiling } else { self.window_ns * 2 };
    }

    /// Lengthens the pause after few frames, shortens it after many.
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

/// [`TxQueue::request_report_if_idle`]. Returns the number of frames queued to send so far.
fn request_report_if_idle<P: Platform, S: BufferSource>(tx: &mut impl Exclusive<TxQueue<P, S>>) -> u64 {
    tx.with(|tx| {
        tx.request_report_if_idle();
        tx.counters().frames
    })
}

/// As [`average`], but the first measurement sets the value: a rarely measured cost would be slow to leave a
/// guess.
fn learn(cost: &mut u64, measured: u64) {
    if *cost == 0 {
        *cost = measured;
    }
    average(cost, measured);
}

/// Raises an average by an eighth of the difference, and lowers it at once: a measurement may contain an
/// interruption, so it can be too high but not too low.
fn average(average: &mut u64, measured: u64) {
    *average = if measured < *average { measured } else { *average + (measured - *average) / 8 };
}
