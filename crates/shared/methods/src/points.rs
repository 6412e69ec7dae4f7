//! Points of curves and grids: a testbed that is measured at many sizes and loads.

use crate::trial::{AllowedLoad, Load, Testbed, TrialError};
use crate::units;
use kpps_documents::{Environment, Trial};
use kpps_frames::Mix;

/// A testbed for many points.
pub struct Points {
    testbed: Box<dyn Testbed>,
}

impl Points {
    /// Points of this testbed.
    pub fn new(testbed: Box<dyn Testbed>) -> Self {
        Self { testbed }
    }

    /// The highest load that the operators of its ports allow in each direction; `None` without a limit.
    pub fn allowed(&self) -> Option<AllowedLoad> {
        self.testbed.allowed()
    }

    /// The highest load in frames per second that the wire carries of these sizes, in each direction.
    ///
    /// # Errors
    /// [`TrialError::Load`] if the testbed cannot send these sizes.
    pub fn line_rate_pps(&self, sizes: &Mix) -> Result<f64, TrialError> {
        self.testbed.line_rate_pps(sizes)
    }

    /// The loads that later trials will have, in frames per second.
    pub fn expect(&mut self, loads_pps: &[f64]) {
        self.testbed.expect(loads_pps);
    }

    /// One trial.
    ///
    /// # Errors
    /// Errors of a trial.
    pub fn measure(&mut self, load: &Load, go_on: &dyn Fn() -> bool) -> Result<Trial, TrialError> {
        Ok(self.testbed.trial_while(load, go_on)?.rounded())
    }
}

/// The environment with the fields that depend on frame sizes and load.
pub fn of_frames(environment: Environment, load: &Load, line_rate_pps: f64) -> Environment {
    let sizes = &load.sizes;
    let warmup_ms = units::millis(load.warmup);
    let bytes_with_fcs = sizes.mean_bytes_with_fcs().round() as u32;
    // Real ports and guests draw nothing from a seed.
    let draws = ["sim", "known"].contains(&environment.testbed.as_str());
    Environment {
        mix: mix(sizes),
        size_bytes_without_fcs: u16::try_from(bytes_with_fcs).unwrap_or(u16::MAX).saturating_sub(FCS_BYTES),
        frame_bytes_with_fcs: bytes_with_fcs,
        line_rate_pps: line_rate_pps * if environment.bidirectional { 2.0 } else { 1.0 },
        duration_ms: units::millis(load.duration).into(),
        warmup_ms: (draws || warmup_ms > 0).then_some(warmup_ms.into()),
        seed: draws.then_some(load.seed),
        ..environment
    }
}

/// A mix of sizes as it is published; `None` for one size.
pub fn mix(sizes: &Mix) -> Option<kpps_documents::Mix> {
    let mean_bytes_with_fcs = (sizes.mean_bytes_with_fcs() * 1e3).round() / 1e3;
    sizes.only().is_none().then(|| kpps_documents::Mix { name: sizes.to_string(), mean_bytes_with_fcs })
}

/// Bytes of the frame check sequence.
const FCS_BYTES: u16 = 4;
