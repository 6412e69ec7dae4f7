//! A system with a known rate, to test searches on.

use crate::random::Random;
use crate::trial::{Load, Testbed, TrialError, only_size};
use kpps_documents::{Ledger, Trial};
use kpps_frames::{Mix, rate};

/// Share of seconds that lose frames whatever the load.
const NOISY_SECONDS: f64 = 0.05;
/// The most frames that such a second loses.
const NOISE_FRAMES: u64 = 2000;

/// Delivers up to a rate in frames per second, and drops the rest. A noisy one loses up to 2000 frames more
/// in one second of twenty.
pub struct Known {
    pps: f64,
    noise: Option<Random>,
}

impl Known {
    /// A system that delivers all up to its rate.
    pub fn quiet(pps: f64) -> Self {
        Self { pps, noise: None }
    }

    /// A noisy one; the seed determines the noise.
    pub fn noisy(pps: f64, seed: u64) -> Self {
        Self { pps, noise: Some(Random::new(seed)) }
    }

    /// Frames that are lost by noise in a time.
    fn disturbed(&mut self, seconds: f64) -> u64 {
        let Some(random) = &mut self.noise else { return 0 };
        let mut lost = 0;
        let mut left = seconds;
        while left > 0.0 {
            // A part of a second is noisy in proportion.
            if random.unit() < NOISY_SECONDS * left.min(1.0) {
                lost += (random.unit() * NOISE_FRAMES as f64) as u64 + 1;
            }
            left -= 1.0;
        }
        lost
    }
}

impl Known {
    /// Counts frames only: this system has no CPU, bus or driver.
    fn offer(&mut self, load: &Load, seconds: f64, go_on: &dyn Fn() -> bool) -> Result<Trial, TrialError> {
        if !go_on() {
            return Err(TrialError::Interrupted);
        }
        let pps = load.rate.pps_of(self.line_rate_pps(&load.sizes)?);
        let sent = (pps * seconds).round() as u64;
        let carried = sent.min((self.pps * seconds).round() as u64);
        let delivered = carried.saturating_sub(self.disturbed(seconds));
        let dropped = [("overload".to_owned(), sent - carried), ("noise".to_owned(), carried - delivered)];
        let ledger = Ledger { sent, delivered, dropped: dropped.into(), ..Ledger::default() };
        Trial::new(pps, seconds, [sent, 0, delivered], ledger).ok_or_else(|| TrialError::nothing_due(load))
    }
}

impl Testbed for Known {
    fn line_rate_pps(&self, sizes: &Mix) -> Result<f64, TrialError> {
        Ok(rate::line_rate_pps(rate::GIGABIT, only_size(sizes)?))
    }

    fn trial_while(&mut self, load: &Load, go_on: &dyn Fn() -> bool) -> Result<Trial, TrialError> {
        self.offer(load, load.seconds(), go_on)
    }

    /// It has no buffer: frames above the rate are lost.
    fn burst_while(
        &mut self,
        load: &Load,
        frames: u64,
        go_on: &dyn Fn() -> bool,
    ) -> Result<Trial, TrialError> {
        let pps = load.rate.pps_of(self.line_rate_pps(&load.sizes)?);
        self.offer(load, frames as f64 / pps, go_on)
    }
}
