//! Interrupts when idle, polling when not, and no knobs.
//!
//! Three questions, each answered from what the machine measures on line:
//!
//! *How long to go on polling an idle device?* Going to sleep and being woken costs an interrupt.
//! As in renting or buying skis, waiting about as long as that cost is never much worse than
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
//! Before it sleeps it reads ICR, which holds the causes of the frames that were polled: they
//! would interrupt at once for nothing. Then it looks at the rings a last time. What comes later
//! is a new cause and interrupts when unmasked.

use super::Polled;
use crate::{Control, Error, Received, RxQueue, TxQueue};
use kpps_platform::{BufferSource, Platform};

/// The ceiling of the window, in interrupts' costs.
const OVERHEAD: u64 = 16;
/// The least pause, in empty polls' costs.
const PAUSE: u64 = 8;
/// An interrupt costs about this many times its register accesses: entry, exit, cold caches.
const WHOLE_INTERRUPT: u64 = 4;
/// What any cost is at least, for clocks too coarse to tell.
const LEAST_NS: u64 = 50;
/// A frame of 64 bytes at 1 Gb/s.
const SLOT_NS: u64 = 672;

/// When to call [`SelfPacing::poll`] again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// As soon as others have had their turn: there is more.
    Now,
    /// At this time, in nanoseconds of the platform's clock.
    At(u64),
    /// Not before the next interrupt.
    Asleep,
}

/// Interrupts when idle, otherwise polling at its own pace.
#[derive(Clone, Debug)]
pub struct SelfPacing {
    burst: u16,
    asleep: bool,
    /// How long to go on polling without work.
    window_ns: u64,
    /// The pause between polls.
    pause_ns: u64,
    /// Measured cost of an interrupt, and of an empty poll.
    interrupt_ns: u64,
    empty_ns: u64,
    slept_at_ns: u64,
    worked_at_ns: u64,
}

impl SelfPacing {
    /// See [`Service::SelfPacing`](crate::config::Service::SelfPacing). It starts asleep:
    /// [`Control::unmask`] after [`probe`](crate::probe).
    pub fn new(burst: u16) -> Self {
        Self {
            burst,
            asleep: true,
            window_ns: 0,
            pause_ns: 0,
            interrupt_ns: LEAST_NS * WHOLE_INTERRUPT,
            empty_ns: LEAST_NS,
            slept_at_ns: 0,
            worked_at_ns: 0,
        }
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
        average(&mut self.interrupt_ns, (now - start).max(LEAST_NS) * WHOLE_INTERRUPT);
        let slept = start.saturating_sub(self.slept_at_ns);
        self.window_ns = self.bounded(if slept < self.window_ns {
            self.window_ns * 2
        } else {
            self.window_ns - self.window_ns / 8
        });
        self.worked_at_ns = now;
        self.asleep = false;
        Ok(true)
    }

    /// One poll: reclaims what was sent, receives at most a burst and at most `budget`, the room
    /// that the consumers of `sink` have. Goes to sleep (unmasks) when its window is over.
    pub fn poll<P: Platform, S: BufferSource>(
        &mut self,
        control: &mut Control<P>,
        rx: &mut RxQueue<P, S>,
        tx: &mut TxQueue<P, S>,
        budget: usize,
        mut sink: impl FnMut(Received<S::Buf>) -> Option<S::Buf>,
    ) -> Result<(Polled, Next), Error> {
        if self.asleep {
            return Ok((Polled { done: true, ..Polled::default() }, Next::Asleep));
        }
        let burst = usize::from(self.burst);
        let limit = budget.min(burst);
        let start = control.platform().now_ns();
        tx.attend(true);
        let mut reclaimed = tx.reclaim(usize::MAX);
        let mut received = rx.receive(limit, &mut sink);
        tx.settle_if_idle();
        let mut now = control.platform().now_ns();
        let idle = received + reclaimed == 0 && limit > 0;
        if idle {
            average(&mut self.empty_ns, (now - start).max(LEAST_NS));
            if now.saturating_sub(self.worked_at_ns) >= self.window_ns {
                // The only register read outside interrupts. It ends in sleep, or in another window.
                control.causes()?;
                reclaimed = tx.reclaim(usize::MAX);
                received = rx.receive(limit, &mut sink);
                now = control.platform().now_ns();
                if received + reclaimed == 0 {
                    tx.attend(false);
                    tx.settle();
                    self.asleep = true;
                    self.slept_at_ns = now;
                    control.unmask();
                    return Ok((Polled { done: true, ..Polled::default() }, Next::Asleep));
                }
                self.near_miss();
            }
        }
        // Without room for frames there is no telling whether the device is idle.
        if received + reclaimed > 0 || limit == 0 {
            self.worked_at_ns = now;
        }
        self.adapt_pause(received, control.config().rx_ring);
        let next = if received == burst { Next::Now } else { Next::At(now + self.pause_ns) };
        Ok((Polled { received, reclaimed, done: false }, next))
    }

    /// A window within its limits.
    fn bounded(&self, window_ns: u64) -> u64 {
        window_ns.clamp(self.interrupt_ns, self.interrupt_ns * OVERHEAD)
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

/// Moves an average an eighth of the way, and at once when it is too high: a measured cost may
/// contain an interruption, never the lack of one.
fn average(average: &mut u64, measured: u64) {
    *average = if measured < *average { measured } else { *average + (measured - *average) / 8 };
}
