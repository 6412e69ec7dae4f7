//! One trial: a load for a time, and what became of every frame.

use hdrhistogram::Histogram;
use kpps_frames::{Mix, Size};
use kpps_results::Trial;

/// How long after the measured time its frames may still arrive, in milliseconds.
pub const AFTERWARDS_MS: u32 = 20;

/// What a testbed is asked to offer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Load {
    /// Frames per second, open loop at a constant rate.
    pub offered_pps: f64,
    /// Size of the frames.
    pub size: Size,
    /// How long the load is on before measuring begins, in milliseconds.
    pub warmup_ms: u32,
    /// How long is measured, in milliseconds.
    pub duration_ms: u32,
    /// Whatever is random in a trial follows from this.
    pub seed: u64,
}

/// Times from a frame's last bit on the wire to its consumption, in nanoseconds.
pub struct Latency {
    times: Histogram<u64>,
    /// How wrong all of them may be, up or down, if they are by two clocks.
    pub error_ns: Option<u64>,
}

impl Default for Latency {
    fn default() -> Self {
        // Bounds and precision that the crate accepts: 1 ns to 100 s, three digits.
        match Histogram::new_with_bounds(1, 100_000_000_000, 3) {
            Ok(times) => Self { times, error_ns: None },
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
    /// Adds the frames of another.
    pub fn add(&mut self, other: &Self) {
        self.times += &other.times;
        self.error_ns = self.error_ns.max(other.error_ns);
    }
    /// Adds so many frames of the same time.
    pub fn record_times(&mut self, ns: u64, frames: u64) {
        self.times.saturating_record_n(ns.max(1), frames);
    }
    /// The times that there were, within the histogram's three digits, and how many frames had each.
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
    pub fn quantiles(&self) -> kpps_results::Latency {
        let any = self.frames() > 0;
        let quantile = |share| any.then(|| self.quantile_ns(share));
        kpps_results::Latency {
            p50: quantile(0.5),
            p99: quantile(0.99),
            p999: quantile(0.999),
            max: any.then(|| self.max_ns()),
            error_ns: self.error_ns.filter(|_| any),
        }
    }
    /// The longest time in nanoseconds, within the histogram's three digits.
    pub fn max_ns(&self) -> u64 {
        self.times.max()
    }
}

/// Why a trial has no result.
#[derive(Debug, thiserror::Error)]
pub enum TrialError {
    /// The load cannot be offered.
    #[error("{0}")]
    Load(String),
    /// Whoever waits for it had enough.
    #[error("interrupted")]
    Interrupted,
    /// The testbed does not work.
    #[error("the testbed failed: {0}")]
    Testbed(String),
}

impl TrialError {
    /// No frame was due in the measured time: there is neither a rate nor a loss.
    pub fn nothing_due(load: &Load) -> Self {
        let Load { offered_pps, duration_ms, .. } = load;
        Self::Load(format!("a load of {offered_pps} pps sends no frame in {duration_ms} ms: measure longer"))
    }
}

/// Something that takes a load.
///
/// A frame belongs to the measured time if it was *sent* in it, whenever it arrives: the load stays on for
/// [`AFTERWARDS_MS`] more, and a measured frame that has not arrived by then is lost. So nothing is delivered
/// that was not sent, and batches at the edges count once. Interrupts, CPU time and register accesses are
/// those of the measured time itself. The ledger covers all of the trial, from the first frame of the warm-up
/// to the last one sent, because only then does every frame have a beginning. A quantity that a testbed
/// cannot observe is `None`.
pub trait Testbed {
    /// The highest load in frames per second that its wire carries.
    fn line_rate_pps(&self, size: Size) -> f64;
    /// From now on frames are of these sizes, whatever a load asks for; or of its size again.
    ///
    /// # Errors
    /// [`TrialError::Load`] from a testbed whose frames are all of one size.
    fn use_mix(&mut self, mix: Option<&Mix>) -> Result<(), TrialError> {
        match mix {
            None => Ok(()),
            Some(mix) => Err(TrialError::Load(format!(
                "{mix}: this testbed sends frames of one size; mixes are for two ports"
            ))),
        }
    }
    /// Offers a load and accounts for it. Asks every now and then whether to `go_on`; otherwise the
    /// trial ends as [`TrialError::Interrupted`].
    fn trial_while(&mut self, load: &Load, go_on: &dyn Fn() -> bool) -> Result<Trial, TrialError>;
    /// The highest rate in frames per second that the sender can send here in each direction; `None` if it
    /// can send whatever its wire carries.
    ///
    /// # Errors
    /// Those of a trial.
    fn ceiling_pps(&mut self, size: Size, go_on: &dyn Fn() -> bool) -> Result<Option<f64>, TrialError> {
        let _ = (size, go_on);
        Ok(None)
    }
    /// Sends so many frames at the load's rate, whatever its duration, and then nothing.
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
        Err(TrialError::Load("this testbed sends no single bursts".into()))
    }
    /// Offers a load, and then for as long another, in frames per second. Returns how long after that change
    /// a frame was sent last that did not arrive, in s; 0 if there was none.
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
        Err(TrialError::Load("this testbed does not change its load within a trial".into()))
    }
    /// Offers a load and accounts for it.
    fn trial(&mut self, load: &Load) -> Result<Trial, TrialError> {
        self.trial_while(load, &|| true)
    }
}
