//! One trial: a load for a time, and the fate of every frame.

use crate::units;
use hdrhistogram::Histogram;
use kpps_documents::Trial;
use kpps_documents::detail::LatencyRange;
use kpps_frames::rate::Rate;
use kpps_frames::{Mix, Size};
use std::time::Duration;

/// The time after the measured time in which frames of the measured time may still arrive, in ms; in the
/// simulator and in guests.
pub const AFTERWARDS_MS: u32 = 20;

/// The load of a trial, on any testbed.
#[derive(Clone, Debug, PartialEq)]
pub struct Load {
    /// The rate. In the simulator and on a testbed of a known rate, [`Rate::Max`] is the line rate.
    pub rate: Rate,
    /// The sizes of the frames.
    pub sizes: Mix,
    /// The warm-up: time under load before the measured time.
    pub warmup: Duration,
    /// The measured time.
    pub duration: Duration,
    /// The seed of everything random.
    pub seed: u64,
}

impl Load {
    /// Frames of these sizes at a constant rate in frames per second, for a second without a warm-up.
    pub fn of(pps: f64, sizes: impl Into<Mix>) -> Self {
        let (warmup, duration) = (Duration::ZERO, Duration::from_secs(1));
        Self { rate: Rate::Pps(pps), sizes: sizes.into(), warmup, duration, seed: 1 }
    }

    /// The same load with these times in ms.
    #[must_use]
    pub fn lasting_ms(self, warmup_ms: u32, duration_ms: u32) -> Self {
        let [warmup, duration] = [warmup_ms, duration_ms].map(|ms| Duration::from_millis(ms.into()));
        Self { warmup, duration, ..self }
    }

    /// The same load with this seed.
    #[must_use]
    pub fn with_seed(self, seed: u64) -> Self {
        Self { seed, ..self }
    }

    /// The same load at this rate in frames per second.
    #[must_use]
    pub fn at(&self, pps: f64) -> Self {
        Self { rate: Rate::Pps(pps), ..self.clone() }
    }

    /// The measured time in s.
    pub fn seconds(&self) -> f64 {
        self.duration.as_secs_f64()
    }

    /// The size of all frames.
    ///
    /// # Errors
    /// [`TrialError::Load`] for a mix: the refusal of a testbed whose frames are all of one size.
    pub fn size(&self) -> Result<Size, TrialError> {
        only_size(&self.sizes)
    }

    /// Refuses a rate at which no frame is sent in this load's time.
    ///
    /// # Errors
    /// The first such rate, in one line.
    pub fn check(&self, rates_pps: &[f64]) -> Result<(), String> {
        let millis = units::millis(self.duration);
        match rates_pps.iter().find(|pps| *pps * self.seconds() < 1.0) {
            Some(pps) => Err(format!("a load of {pps} pps sends no frame in {millis} ms: measure longer")),
            None => Ok(()),
        }
    }
}

/// The size of a mix of one size.
///
/// # Errors
/// [`TrialError::Load`] if there are several: the refusal of a testbed whose frames are all of one size.
pub fn only_size(sizes: &Mix) -> Result<Size, TrialError> {
    sizes.only().ok_or_else(|| {
        TrialError::Load(format!(
            "this testbed cannot send the mix {sizes}: give one frame size, or measure between two ports"
        ))
    })
}

/// Times from a frame's last bit on the wire to its consumption, in nanoseconds.
pub struct Latency {
    times: Histogram<u64>,
    /// How much the latency changes from one frame of a flow to the next.
    pub variation: Variation,
    /// The greatest error of all times, in both directions, if two clocks measured them.
    pub error_ns: Option<u64>,
}

impl Default for Latency {
    fn default() -> Self {
        // Bounds and precision that the crate accepts: 1 ns to 100 s, three digits.
        match Histogram::new_with_bounds(1, 100_000_000_000, 3) {
            Ok(times) => Self { times, variation: Variation::default(), error_ns: None },
            Err(_) => unreachable!("constant bounds"),
        }
    }
}

impl Latency {
    /// Adds one frame's time.
    #[inline]
    pub fn record(&mut self, ns: u64) {
        self.times.saturating_record(ns.max(1));
    }
    /// Adds the frames of another record.
    pub fn add(&mut self, other: &Self) {
        self.times += &other.times;
        self.variation.add(&other.variation);
        self.error_ns = self.error_ns.max(other.error_ns);
    }
    /// Adds `frames` frames of the same time.
    pub fn record_times(&mut self, ns: u64, frames: u64) {
        self.times.saturating_record_n(ns.max(1), frames);
    }
    /// The distinct times, to three digits, with the number of frames of each.
    pub fn recorded(&self) -> impl Iterator<Item = (u64, u64)> {
        self.times.iter_recorded().map(|value| (value.value_iterated_to(), value.count_at_value()))
    }
    /// Frames so far.
    pub fn frames(&self) -> u64 {
        self.times.len()
    }
    /// The time that a share of all frames did not exceed, in nanoseconds; 0 if there were none.
    pub fn quantile_ns(&self, share: f64) -> u64 {
        self.times.value_at_quantile(share)
    }
    /// The percentiles that are published.
    pub fn quantiles(&self) -> kpps_documents::Latency {
        let any = self.frames() > 0;
        let quantile = |share| any.then(|| self.quantile_ns(share));
        kpps_documents::Latency {
            min: any.then(|| self.times.min()),
            mean: any.then(|| self.times.mean().round() as u64),
            p50: quantile(0.5),
            p99: quantile(0.99),
            p999: quantile(0.999),
            max: any.then(|| self.max_ns()),
            jitter: self.variation.mean_ns().filter(|_| any),
            error_ns: self.error_ns.filter(|_| any),
        }
    }
    /// The distribution of the times: the number of frames in each range. Ranges end at preferred numbers,
    /// ten for each power of ten.
    pub fn ranges(&self) -> Vec<LatencyRange> {
        /// The series R10 of ISO 3.
        const ENDS: [u64; 10] = [100, 125, 160, 200, 250, 315, 400, 500, 630, 800];
        let mut ranges: Vec<LatencyRange> = Vec::new();
        let ends = (0..).flat_map(|power| ENDS.map(|end| end * 10_u64.pow(power)));
        let mut ends = ends.take_while(|end| *end < 1_000_000_000_000).peekable();
        for (ns, frames) in self.recorded() {
            while ends.next_if(|end| *end < ns).is_some() {}
            let Some(&up_to_ns) = ends.peek() else { break };
            match ranges.last_mut().filter(|last| last.up_to_ns == up_to_ns) {
                Some(last) => last.frames += frames,
                None => ranges.push(LatencyRange { up_to_ns, frames }),
            }
        }
        ranges
    }
    /// The longest time in nanoseconds, within the histogram's three digits.
    pub fn max_ns(&self) -> u64 {
        self.times.max()
    }
}

/// The differences between the latencies of two frames of a flow that were sent one after the other (IPDV of
/// RFC 3393), up or down.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Variation {
    /// Pairs of frames.
    pub pairs: u64,
    /// The sum of their differences, in ns.
    pub sum_ns: u64,
}

impl Variation {
    /// Adds a pair.
    #[inline]
    pub fn record(&mut self, before_ns: u64, ns: u64) {
        self.pairs += 1;
        self.sum_ns = self.sum_ns.saturating_add(ns.abs_diff(before_ns));
    }
    /// Adds the pairs of another record.
    pub fn add(&mut self, other: &Self) {
        self.pairs = self.pairs.saturating_add(other.pairs);
        self.sum_ns = self.sum_ns.saturating_add(other.sum_ns);
    }
    /// The mean difference, in ns; `None` without a pair.
    pub fn mean_ns(&self) -> Option<u64> {
        self.sum_ns.saturating_add(self.pairs / 2).checked_div(self.pairs)
    }
}

/// The latest frame of a flow whose latency is known.
#[derive(Clone, Copy, Debug, Default)]
pub struct LatestOfFlow(Option<(u64, u64)>);

impl LatestOfFlow {
    /// Takes the flow's frame with this number and this latency in ns. `flows` flows take turns, so the frame
    /// that was sent just before it has a number that is less by `flows`. If that is the latest frame, they
    /// are a pair.
    #[inline]
    pub fn take(&mut self, number: u64, flows: u64, ns: u64, variation: &mut Variation) {
        match self.0 {
            Some((latest, before_ns)) if latest + flows == number => variation.record(before_ns, ns),
            Some((latest, _)) if latest > number => return,
            _ => {}
        }
        self.0 = Some((number, ns));
    }
}

/// A limit that the operator of a port has set.
#[derive(Clone, Debug, PartialEq)]
pub struct AllowedLoad {
    /// Frames per second in each direction.
    pub pps: f64,
    /// The port.
    pub port: String,
}

/// The reason why a trial has no result.
#[derive(Debug, thiserror::Error)]
pub enum TrialError {
    /// The load cannot be offered.
    #[error("{0}")]
    Load(String),
    /// The user interrupted it.
    #[error("interrupted")]
    Interrupted,
    /// The testbed failed.
    #[error("the testbed failed: {0}")]
    Testbed(String),
}

impl TrialError {
    /// No frame was due in the measured time: there is neither a rate nor a loss.
    pub fn nothing_due(load: &Load) -> Self {
        let rate = load.rate.pps().map(|pps| format!(" of {pps} pps")).unwrap_or_default();
        let ms = units::millis(load.duration);
        Self::Load(format!("a load{rate} sends no frame in {ms} ms: give a longer duration or a higher load"))
    }
}

/// A system to which a load can be offered.
///
/// A frame belongs to the measured time if it was *sent* in this time, even if it arrives later. In the
/// simulator and in guests the load continues for [`AFTERWARDS_MS`], on ports the receiver waits after the
/// last frame; a measured frame that has not arrived by then is lost. So a trial never delivers more frames
/// than were sent, and a batch that arrives across an edge of the measured time is counted once. Interrupts,
/// CPU time and register accesses are those of the measured time itself. The ledger covers all of the trial,
/// from the first frame of the warm-up to the last one sent, so that each frame is counted from its start. A
/// quantity that a testbed cannot observe is `None`.
pub trait Testbed {
    /// The highest load of frames of these sizes that the wire carries in each direction, in frames per
    /// second.
    ///
    /// # Errors
    /// [`TrialError::Load`] for a mix, from a testbed whose frames are all of one size.
    fn line_rate_pps(&self, sizes: &Mix) -> Result<f64, TrialError>;
    /// Whether it knows that load. Links of unknown speed are taken for links of 1 Gb/s.
    fn knows_line_rate(&self) -> bool {
        true
    }

    /// The same load; `None` if the testbed does not know it.
    ///
    /// # Errors
    /// [`TrialError::Load`] if the testbed cannot send these sizes.
    fn known_line_rate_pps(&self, sizes: &Mix) -> Result<Option<f64>, TrialError> {
        Ok(Some(self.line_rate_pps(sizes)?).filter(|_| self.knows_line_rate()))
    }
    /// The highest load that the operators of its ports allow in each direction; `None` without a limit.
    fn allowed(&self) -> Option<AllowedLoad> {
        None
    }
    /// Whether its trials report the growth of every queue and buffer of the device under test. A search then
    /// needs no long trials to recognise a load that passes only because buffers fill.
    fn shows_all_queues(&self) -> bool {
        false
    }
    /// The longest trial that the operators of its ports allow; `None` without a limit.
    fn longest_trial(&self) -> Option<Duration> {
        None
    }
    /// Announces the loads of later trials, in frames per second, so that a testbed can prepare for them.
    /// Later trials may also have other loads.
    fn expect(&mut self, loads_pps: &[f64]) {
        let _ = loads_pps;
    }
    /// Offers a load and accounts for its frames. Calls `go_on` at intervals; if it returns false, the trial
    /// ends as [`TrialError::Interrupted`].
    fn trial_while(&mut self, load: &Load, go_on: &dyn Fn() -> bool) -> Result<Trial, TrialError>;
    /// Sends a burst of `frames` frames at the rate of the load, whose duration is not used.
    ///
    /// # Errors
    /// [`TrialError::Load`] from a testbed that cannot.
    fn burst_while(
        &mut self,
        load: &Load,
        frames: u64,
        go_on: &dyn Fn() -> bool,
    ) -> Result<Trial, TrialError> {
        let _ = (load, frames, go_on);
        Err(TrialError::Load("this testbed cannot send single bursts".into()))
    }
    /// Offers a load, and then `then_pps` frames per second for the same duration. Returns the time from the
    /// change of load until the last lost frame was sent, in s; 0 without loss.
    ///
    /// # Errors
    /// [`TrialError::Load`] from a testbed that cannot.
    fn recovery_while(
        &mut self,
        load: &Load,
        then_pps: f64,
        go_on: &dyn Fn() -> bool,
    ) -> Result<(Trial, f64), TrialError> {
        let _ = (load, then_pps, go_on);
        Err(TrialError::Load("this testbed cannot change its load within a trial".into()))
    }
    /// Offers a load and accounts for its frames.
    fn trial(&mut self, load: &Load) -> Result<Trial, TrialError> {
        self.trial_while(load, &|| true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_hold_each_frame_once_and_end_at_preferred_numbers() {
        let mut latency = Latency::default();
        assert_eq!(latency.ranges(), []);
        for (ns, frames) in [(1, 1), (100, 1), (101, 2), (3999, 3), (99_000_000_000, 4)] {
            latency.record_times(ns, frames);
        }
        let ranges: Vec<_> = latency.ranges().iter().map(|range| (range.up_to_ns, range.frames)).collect();
        assert_eq!(ranges, [(100, 2), (125, 2), (4000, 3), (100_000_000_000, 4)]);
    }
}
