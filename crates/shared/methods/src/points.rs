//! Points of curves and grids: a testbed that is measured at many sizes and loads.

use crate::trial::{AllowedLoad, Load, Testbed, TrialError};
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

    /// The same if the testbed knows it.
    ///
    /// # Errors
    /// [`TrialError::Load`] if the testbed cannot send these sizes.
    pub fn known_line_rate_pps(&self, sizes: &Mix) -> Result<Option<f64>, TrialError> {
        self.testbed.known_line_rate_pps(sizes)
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

/// The environment with the fields that depend on frame sizes and load. The line rate is not among them: see
/// [`Environment::with_line_rate`].
pub fn of_frames(environment: Environment, load: &Load) -> Environment {
    let warmup_s = load.warmup.as_secs_f64();
    // Where the seed matters, the warm-up does, too.
    let has_warmup = environment.seed.is_some() || warmup_s > 0.0;
    Environment {
        duration_s: Some(load.seconds()),
        warmup_s: has_warmup.then_some(warmup_s),
        ..of_sizes(environment, &load.sizes)
    }
}

/// The environment with the fields that depend on frame sizes.
pub fn of_sizes(environment: Environment, sizes: &Mix) -> Environment {
    Environment {
        mix: mix(sizes),
        frame_bytes_with_fcs: Some(sizes.mean_bytes_with_fcs().round() as u32),
        ..environment
    }
}

/// A mix of sizes as it is published; `None` for one size.
fn mix(sizes: &Mix) -> Option<kpps_documents::Mix> {
    let mean_bytes_with_fcs = (sizes.mean_bytes_with_fcs() * 1e3).round() / 1e3;
    sizes.only().is_none().then(|| kpps_documents::Mix { name: sizes.to_string(), mean_bytes_with_fcs })
}
