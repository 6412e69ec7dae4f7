//! The loops of the commands: send, count, forward, and an app on several ports.
//!
//! Each runs until its [`Watch`] ends it, maintains its ports, and waits when there is nothing to do.

mod any;
mod app;
mod beginning;
mod count;
mod cpu_list;
#[cfg(target_os = "linux")]
mod cpus;
mod forward;
mod gaps;
mod numbers;
mod part;
mod pauses;
mod plan;
mod schedule;
mod send;
mod send_log;
#[cfg(target_os = "linux")]
mod session;
mod shape;
#[cfg(target_os = "linux")]
mod steady;
#[cfg(not(target_os = "linux"))]
#[path = "unsteady.rs"]
mod steady;
mod tally;
mod waiting;

pub use any::{count_any, forward_any, send_any};
pub use app::app;
pub use beginning::{Beginning, Starter};
pub use count::count;
pub use cpu_list::CpuList;
pub use forward::{forward, prime};
pub use gaps::{Filled, Gaps, Got, Recorder, TOLERANCE, bucket, longest};
pub use numbers::{Numbers, SentNumbers};
pub use part::{PartTimetables, PlanPart};
pub use plan::{Change, Late, SendPlan, StreamPlan, Timetables};
pub use schedule::{FEW, LATE, Lateness};
pub use send::{Sent, send, send_and_listen, send_part_and_listen};
pub use send_log::SendLog;
pub use shape::{Shape, Times, Timetable};
pub use steady::{
    Aside, Near, Pinned, Steady, left_raised, pin_core, prefer, restore_priority, use_cores, use_cpus,
    use_priority, waited,
};
pub use tally::{Streams, Tally};
pub use waiting::PRIORITIES;

use super::{AnyPort, Counters, Port, Trouble, Wake, wait};
use std::time::{Duration, Instant};

/// Frames that are received at once, and that a forwarder sends with one tail write or system call.
pub const BUDGET: usize = 64;

/// Frames that a generator sends with one tail write or system call. It is less than [`BUDGET`]: the device
/// begins to send them while the next ones are written.
pub const BURST: usize = 32;

/// How often ports are maintained and the watch is asked.
pub const SLOW: Duration = Duration::from_millis(20);
/// Frames that are taken at most when a run has ended: what came in time waits in the ports' queues, if this
/// thread has not run for a while.
const AT_END: usize = 1 << 16;
/// Busy turns of a loop between two checks of anything but frames.
const BUSY_LOOPS: u32 = 32;

/// The state of a run.
#[derive(Clone, Copy, Debug, Default)]
pub struct Glance {
    /// Since the start.
    pub elapsed: Duration,
    /// Frames received by all ports.
    pub received: u64,
    /// Frames sent by all ports.
    pub sent: u64,
}

/// Decides when a run ends.
pub trait Watch {
    /// The longest time.
    fn at_most(&self) -> Option<Duration>;
    /// Whether to go on. It is asked some times a second.
    fn go_on(&mut self, glance: &Glance) -> bool;
    /// Whether it wants to know the counters of the ports, each time before it is asked whether to go on.
    fn wants_counters(&self) -> bool {
        false
    }
    /// The counters of a port, by its place among the ports of the run.
    fn counted(&mut self, port: usize, counters: &Counters) {
        let _ = (port, counters);
    }
    /// Sending begins, `since_epoch` after the plan's epoch.
    fn begins(&mut self, since_epoch: Duration) {
        let _ = since_epoch;
    }
    /// The changes of a paced load at this time since the start, in their order. Called often.
    #[inline]
    fn changes(&mut self, elapsed: Duration) -> Vec<Change> {
        let _ = elapsed;
        Vec::new()
    }
    /// Whether it wants to know [the state](Self::streams) of the streams. Called often.
    #[inline]
    fn wants_streams(&mut self) -> bool {
        false
    }
    /// The frames of each stream of the plan that were given to the port so far, and whether each has frames
    /// that were not.
    fn streams(&mut self, frames: &[u64], are_sending: &[bool]) {
        let _ = (frames, are_sending);
    }
    /// This many frames had been given to the port at this time since the start. Also called with 0.
    #[inline]
    fn sent(&mut self, elapsed: Duration, frames: usize) {
        let _ = (elapsed, frames);
    }
}

impl<W: Watch + ?Sized> Watch for &mut W {
    fn at_most(&self) -> Option<Duration> {
        (**self).at_most()
    }
    fn go_on(&mut self, glance: &Glance) -> bool {
        (**self).go_on(glance)
    }
    fn wants_counters(&self) -> bool {
        (**self).wants_counters()
    }
    fn counted(&mut self, port: usize, counters: &Counters) {
        (**self).counted(port, counters);
    }
    fn begins(&mut self, since_epoch: Duration) {
        (**self).begins(since_epoch);
    }
    fn changes(&mut self, elapsed: Duration) -> Vec<Change> {
        (**self).changes(elapsed)
    }
    fn wants_streams(&mut self) -> bool {
        (**self).wants_streams()
    }
    fn streams(&mut self, frames: &[u64], are_sending: &[bool]) {
        (**self).streams(frames, are_sending);
    }
    fn sent(&mut self, elapsed: Duration, frames: usize) {
        (**self).sent(elapsed, frames);
    }
}

/// Maintains ports, and asks a watch whether to go on, at this time since the start.
///
/// # Errors
/// [`Trouble`].
pub fn go_on<'p, P: Port + 'p>(
    ports: impl IntoIterator<Item = &'p mut P>,
    watch: &mut impl Watch,
    elapsed: Duration,
) -> Result<bool, Trouble> {
    let mut glance = Glance { elapsed, ..Glance::default() };
    for (at, port) in ports.into_iter().enumerate() {
        port.maintain()?;
        if watch.wants_counters() {
            watch.counted(at, &port.counters()?);
        }
        let (received, sent) = port.frames();
        glance.received += received;
        glance.sent += sent;
    }
    Ok(watch.go_on(&glance))
}

/// Maintains the ports of a loop in time.
struct Shift<'w, W> {
    watch: &'w mut W,
    started: Instant,
    next: Instant,
    end: Option<Instant>,
    busy: u32,
}

impl<'w, W: Watch> Shift<'w, W> {
    fn start(watch: &'w mut W) -> Self {
        Self::since(watch, Instant::now())
    }

    /// Times count from `started`.
    fn since(watch: &'w mut W, started: Instant) -> Self {
        let end = watch.at_most().map(|most| started + most);
        Self { watch, started, next: started, end, busy: 0 }
    }

    fn elapsed(&self) -> Duration {
        self.started.elapsed()
    }

    /// Whether to check anything but frames now: not after each of many busy turns.
    #[inline]
    fn is_due(&mut self, worked: bool) -> bool {
        self.busy += 1;
        if worked && self.busy < BUSY_LOOPS {
            return false;
        }
        self.busy = 0;
        true
    }

    /// Maintains the ports if that is due. Returns false at the end.
    fn go_on<P: Port>(&mut self, ports: &mut [&mut P]) -> Result<bool, Trouble> {
        let now = Instant::now();
        if self.end.is_some_and(|end| now >= end) {
            return Ok(false);
        }
        if now < self.next {
            return Ok(true);
        }
        self.next = now + SLOW;
        go_on(ports.iter_mut().map(|port| &mut **port), self.watch, now - self.started)
    }

    /// Waits until a port must be polled or maintained, or for `at_most`.
    fn wait<P: Port>(&self, ports: &mut [&mut P], at_most: Option<Duration>) -> Result<(), Trouble> {
        let now = Instant::now();
        let mut left = self.next.saturating_duration_since(now);
        if let Some(end) = self.end {
            left = left.min(end.saturating_duration_since(now));
        }
        if let Some(most) = at_most {
            left = left.min(most);
        }
        {
            let waiting: Vec<&dyn Wake> = ports.iter().map(|port| &**port as &dyn Wake).collect();
            wait(&waiting, left).map_err(Trouble::system("cannot wait"))?;
        }
        for port in ports {
            port.woken()?;
        }
        Ok(())
    }
}

/// Waits until the links of all ports are up, for this long at most. Returns whether they are.
///
/// # Errors
/// [`Trouble`].
pub fn wait_for_links(ports: &mut [AnyPort], at_most: Duration) -> Result<bool, Trouble> {
    let end = Instant::now() + at_most;
    loop {
        for port in ports.iter_mut() {
            port.refresh_link()?;
        }
        if ports.iter().all(|port| port.link().up) {
            return Ok(true);
        }
        if Instant::now() >= end {
            return Ok(false);
        }
        std::thread::sleep(SLOW);
    }
}
