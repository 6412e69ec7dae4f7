//! A system with a known rate, to test searches on.

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
    noise: Option<u64>,
}

impl Known {
    /// A system that delivers all up to its rate.
    pub fn quiet(pps: f64) -> Self {
        Self { pps, noise: None }
    }

    /// A noisy one; the seed determines the noise.
    pub fn noisy(pps: f64, seed: u64) -> Self {
        Self { pps, noise: Some(seed) }
    }

    /// Frames that are lost by noise in a time.
    fn disturbed(&mut self, seconds: f64) -> u64 {
        let Some(state) = &mut self.noise else { return 0 };
        // SplitMix64 (Steele et al., OOPSLA 2014).
        let mut random = || {
            *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut z = *state;
            z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            z ^ (z >> 31)
        };
        let mut unit = || (random() >> 11) as f64 / (1_u64 << 53) as f64;
        let mut lost = 0;
        let mut left = seconds;
        while left > 0.0 {
            // A part of a second is noisy in proportion.
            if unit() < NOISY_SECONDS * left.min(1.0) {
                lost += (unit() * NOISE_FRAMES as f64) as u64 + 1;
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
