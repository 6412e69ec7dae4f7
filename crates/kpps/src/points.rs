//! Points of curves and grids, on any testbed.

use crate::interrupt;
use kpps_frames::{Mix, Size};
use kpps_measure::{Load, Testbed, TrialError, point};
use kpps_results::{Environment, Point};

/// A testbed that is measured at many points.
pub struct Points {
    testbed: Box<dyn Testbed>,
    /// Directions in which frames are offered: loads are those of each, points of all together.
    ways: f64,
    /// What the sender can send of the latest sizes in each direction.
    ceiling: Option<(Mix, Option<f64>)>,
}

impl Points {
    /// Of this testbed, with frames in one direction, or in both.
    pub fn new(testbed: Box<dyn Testbed>, both_ways: bool) -> Self {
        Self { testbed, ways: if both_ways { 2.0 } else { 1.0 }, ceiling: None }
    }

    /// The highest load of frames of these sizes that the wire carries in each direction.
    pub fn line_rate_pps(&mut self, sizes: &Mix) -> Result<f64, TrialError> {
        Ok(use_sizes(&mut *self.testbed, sizes)?.0)
    }

    /// The highest load that the sender can send in each direction, if the wire alone does not limit it. Measured once.
    pub fn ceiling_pps(&mut self, sizes: &Mix) -> Result<Option<f64>, TrialError> {
        if let Some((of, ceiling)) = &self.ceiling
            && of == sizes
        {
            return Ok(*ceiling);
        }
        let (_, size) = use_sizes(&mut *self.testbed, sizes)?;
        let ceiling = self.testbed.ceiling_pps(size, &|| !interrupt::asked())?;
        self.ceiling = Some((sizes.clone(), ceiling));
        Ok(ceiling)
    }

    /// One trial with frames of these sizes.
    pub fn measure(&mut self, sizes: &Mix, load: &Load) -> Result<Point, TrialError> {
        let ceiling_pps = self.ceiling_pps(sizes)?.map(|pps| pps * self.ways);
        let (_, size) = use_sizes(&mut *self.testbed, sizes)?;
        let load = Load { size, ..*load };
        let trial = self.testbed.trial_while(&load, &|| !interrupt::asked())?;
        let load = Load { offered_pps: load.offered_pps * self.ways, ..load };
        Ok(Point { ceiling_pps, ..point(&load, &trial) }.rounded())
    }
}

/// Frames are of these sizes from now on. Returns the highest load in frames per second that the wire carries, and the size to
/// ask for.
pub fn use_sizes(testbed: &mut dyn Testbed, sizes: &Mix) -> Result<(f64, Size), TrialError> {
    testbed.use_mix(sizes.only().is_none().then_some(sizes))?;
    let size = sizes.only().unwrap_or(Size::MIN);
    Ok((testbed.line_rate_pps(size), size))
}

/// What there is to say of frames of these sizes under such a load.
pub fn of_frames(environment: Environment, sizes: &Mix, load: &Load, line_rate_pps: f64) -> Environment {
    let bytes_with_fcs = sizes.mean_bytes_with_fcs().round() as u32;
    Environment {
        mix: kpps_measure::mix(sizes),
        size_bytes_without_fcs: u16::try_from(bytes_with_fcs).unwrap_or(u16::MAX).saturating_sub(FCS_BYTES),
        frame_bytes_with_fcs: bytes_with_fcs,
        line_rate_pps: line_rate_pps * if environment.both_ways { 2.0 } else { 1.0 },
        duration_ms: load.duration_ms.into(),
        warmup_ms: load.warmup_ms.into(),
        seed: load.seed,
        ..environment
    }
}

/// Bytes of the frame check sequence.
const FCS_BYTES: u16 = 4;
