//! The reports of a port in a trial, whose work is done by one core or by several.
//!
//! Each core records its own counts, in memory that no other core writes. The other threads of a trial read
//! their sum.

use crate::watching::state::TrialState;
use crate::watching::sync::{AtomicU64, Mutex, Ordering};
use std::sync::PoisonError;
use std::time::Duration;

/// The counts of a core so far; `u64::MAX` means none. Cores write in different cache lines.
#[derive(Debug)]
#[repr(align(128))]
struct CoreCounts {
    sent: AtomicU64,
    received: AtomicU64,
    shortfall: AtomicU64,
    missed: AtomicU64,
    p50_ns: AtomicU64,
    p99_ns: AtomicU64,
}

impl CoreCounts {
    fn new() -> Self {
        let [sent, received] = [(); 2].map(|()| AtomicU64::new(0));
        let [shortfall, missed, p50_ns, p99_ns] = [(); 4].map(|()| AtomicU64::new(u64::MAX));
        Self { sent, received, shortfall, missed, p50_ns, p99_ns }
    }
}

/// The frames of the cores that have sent all.
#[derive(Debug, Default)]
struct Ended {
    /// Cores that still send.
    sending: usize,
    frames: u64,
    /// The frames of each stream; empty if there is only one.
    of_streams: Vec<u64>,
    /// The frames that each core has sent of the only stream, if that is divided.
    of_cores: Vec<u64>,
}

/// The cores of a port in a trial.
#[derive(Debug)]
pub(crate) struct PortCores<'s> {
    state: &'s TrialState,
    at: usize,
    counts: Vec<CoreCounts>,
    ended: Mutex<Ended>,
}

/// The frames that a core has sent.
#[derive(Clone, Debug, Default)]
pub(crate) struct CoreSent {
    /// Frames that were sent.
    pub frames: u64,
    /// The frames of each stream of the plan; empty if there is only one.
    pub of_streams: Vec<u64>,
    /// The frames of this core that were given to the port, if the only stream is divided.
    pub of_core: Option<u64>,
}

impl<'s> PortCores<'s> {
    /// Of the port `at` with this number of cores, of which the first `senders` send.
    pub fn new(state: &'s TrialState, at: usize, cores: usize, senders: usize) -> Self {
        let ended = Ended { sending: senders, ..Ended::default() };
        let counts: Vec<_> = (0..cores).map(|_| CoreCounts::new()).collect();
        for other in counts.iter().skip(senders) {
            other.shortfall.store(0, Ordering::Relaxed);
        }
        Self { state, at, counts, ended: Mutex::new(ended) }
    }

    /// The reports of a core.
    pub fn core(&self, core: usize) -> Report<'_> {
        Report { all: self, core }
    }

    /// The sum of a count of all cores; `None` if a core does not have it.
    fn sum(&self, count: fn(&CoreCounts) -> &AtomicU64) -> Option<u64> {
        let each = self.counts.iter().map(|counts| count(counts).load(Ordering::Relaxed));
        each.map(|value| Some(value).filter(|value| *value != u64::MAX)).sum()
    }

    /// The highest value of all cores that have one.
    fn highest(&self, value: fn(&CoreCounts) -> &AtomicU64) -> Option<u64> {
        let each = self.counts.iter().map(|counts| value(counts).load(Ordering::Relaxed));
        each.filter(|value| *value != u64::MAX).max()
    }
}

/// The reports of a core of a port in a trial.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Report<'a> {
    all: &'a PortCores<'a>,
    core: usize,
}

impl<'a> Report<'a> {
    /// The state of the trial.
    pub fn state(&self) -> &'a TrialState {
        self.all.state
    }

    /// The port's index.
    pub fn at(&self) -> usize {
        self.all.at
    }

    /// Whether the port has only this core.
    fn is_alone(&self) -> bool {
        self.all.counts.len() == 1
    }

    fn set(&self, count: fn(&CoreCounts) -> &AtomicU64, value: u64) {
        if let Some(counts) = self.all.counts.get(self.core) {
            count(counts).store(value, Ordering::Relaxed);
        }
    }

    /// Records the frames that the core has sent so far.
    pub fn sends(&self, frames: u64) {
        self.set(|core| &core.sent, frames);
        self.state().sends(self.at(), self.all.sum(|core| &core.sent).unwrap_or(frames));
    }

    /// Records the frames that the core has received so far. The first core reports the sum.
    #[inline]
    pub fn receives(&self, frames: u64) {
        if self.is_alone() {
            self.state().receives(self.at(), frames);
            return;
        }
        self.set(|core| &core.received, frames);
        if self.core == 0 {
            self.state().receives(self.at(), self.all.sum(|core| &core.received).unwrap_or(frames));
        }
    }

    /// Records the core's shortfall so far.
    pub fn falls_short(&self, frames: u64) {
        self.set(|core| &core.shortfall, frames);
        if let Some(all) = self.all.sum(|core| &core.shortfall) {
            self.state().falls_short(self.at(), all);
        }
    }

    /// Records the core's receive overflow so far, and p50 and p99 of the last whole interval in ns. Of
    /// several cores, the longest times are reported.
    pub fn overflows(&self, missed: Option<u64>, quantiles: Option<(u64, u64)>) {
        let (p50, p99) = quantiles.unzip();
        self.set(|core| &core.missed, missed.unwrap_or(u64::MAX));
        self.set(|core| &core.p50_ns, p50.unwrap_or(u64::MAX));
        self.set(|core| &core.p99_ns, p99.unwrap_or(u64::MAX));
        let longest = self.all.highest(|core| &core.p50_ns).zip(self.all.highest(|core| &core.p99_ns));
        self.state().overflows(self.at(), self.all.sum(|core| &core.missed), longest);
    }

    /// Records the frames that were sent to the port before an arrived frame, and have not arrived so far.
    /// One core of several does not know them.
    pub fn lacks(&self, frames: u64) {
        if self.is_alone() {
            self.state().lacks(self.at(), frames);
        }
    }

    /// Records that the core has sent all its frames. The last core reports it.
    pub fn has_sent(&self, sent: CoreSent) {
        let mut ended = self.all.ended.lock().unwrap_or_else(PoisonError::into_inner);
        ended.sending = ended.sending.saturating_sub(1);
        ended.frames += sent.frames;
        if ended.of_streams.len() < sent.of_streams.len() {
            ended.of_streams.resize(sent.of_streams.len(), 0);
        }
        ended.of_streams.iter_mut().zip(&sent.of_streams).for_each(|(sum, frames)| *sum += frames);
        if let Some(frames) = sent.of_core {
            let cores = self.core + 1;
            let room = ended.of_cores.len().max(cores);
            ended.of_cores.resize(room, 0);
            ended.of_cores.get_mut(self.core).into_iter().for_each(|of_core| *of_core = frames);
        }
        if ended.sending == 0 {
            let Ended { frames, of_streams, of_cores, .. } = std::mem::take(&mut *ended);
            self.state().has_sent_of(self.at(), of_streams);
            self.state().has_sent_on_cores(self.at(), of_cores);
            self.state().has_sent(self.at(), frames);
        }
    }

    /// Whether the core need not wait any longer: it has received `received` frames, the last one `quiet`
    /// ago.
    pub fn is_over(&self, received: u64, quiet: Duration, drain: Duration) -> bool {
        let all = match self.is_alone() {
            true => received,
            false => self.all.sum(|core| &core.received).unwrap_or(0).max(received),
        };
        self.state().is_over(self.at(), all, quiet, drain)
    }
}

#[cfg(all(test, not(kpps_loom)))]
mod tests {
    use super::*;

    #[test]
    fn the_reports_of_cores_are_added_up() {
        let state = TrialState::new(1);
        let cores = PortCores::new(&state, 0, 2, 2);
        let [first, second] = [0, 1].map(|core| cores.core(core));
        first.sends(5);
        second.sends(7);
        second.receives(3);
        first.receives(2);
        assert_eq!(state.so_far(0), (12, 5));
        first.falls_short(1);
        first.overflows(Some(4), Some((10, 90)));
        assert_eq!((state.reported(0).shortfall, state.reported(0).missed), (None, None));
        second.falls_short(2);
        second.overflows(Some(0), Some((20, 50)));
        let all = state.reported(0);
        assert_eq!(
            (all.shortfall, all.missed, all.p50_ns, all.p99_ns),
            (Some(3), Some(4), Some(20), Some(90))
        );
        second.has_sent(CoreSent { frames: 9, of_streams: vec![9], of_core: Some(9) });
        assert_eq!(state.sent(0), None);
        first.has_sent(CoreSent { frames: 6, of_streams: vec![6], of_core: Some(7) });
        assert_eq!(
            (state.sent(0), state.sent_of(0), state.sent_on_cores(0)),
            (Some(15), vec![15], vec![7, 9])
        );
        assert!(!first.is_over(2, Duration::ZERO, Duration::from_secs(9)));
    }
}
