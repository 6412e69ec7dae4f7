//! The document of `kpps calibrate-host`: the costs of a frame and an interrupt on a measured machine.

use crate::{Environment, Schema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The kind of the document.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum HostCalibrationKind {
    /// A calibration of a host.
    #[default]
    HostCalibration,
}

/// Constants of a simulated host and stack, found from curves that were measured on a real machine.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HostCalibration {
    /// The version of this document.
    pub schema: Schema,
    /// The kind of this document.
    pub kind: HostCalibrationKind,
    /// The version of kpps.
    pub kpps_version: String,
    /// The environment of the measurements that this command made itself; absent if all of them are from
    /// files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub environment: Option<Environment>,
    /// The machine that the search began with.
    pub machine: String,
    /// The constants.
    pub constants: Vec<CalibratedConstant>,
    /// The share of time in which the measured CPU did other work than that for frames, such as reading its
    /// counters. No constant includes this work, so a prediction of CPU time lacks it. Null if no curve
    /// observed the CPU.
    pub background: Option<f64>,
    /// The measured points, and the simulated values with these constants.
    pub points: Vec<CalibratedPoint>,
    /// The median of the relative errors, without their signs, of the points that the constants were found
    /// from.
    pub median_error: Option<f64>,
    /// The largest of these errors.
    pub largest_error: Option<f64>,
    /// How well the constants predict the points that they were not found from; absent without such points,
    /// and after an interruption.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub check: Option<CalibrationCheck>,
    /// Whether the search came to its end; false after an interruption.
    pub complete: bool,
}

/// How well calibrated constants predict measured points that they were not found from.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CalibrationCheck {
    /// The number of points.
    pub points: usize,
    /// The median of their relative errors, without their signs.
    pub median_error: f64,
    /// The largest of these errors.
    pub largest_error: f64,
    /// The median error on the same points of a rule without a simulator: each frame takes the median of the
    /// CPU times that were measured at the points that the constants were found from.
    pub null_median_error: f64,
}

/// A constant that was calibrated.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CalibratedConstant {
    /// Its path, as `--set` takes it.
    pub constant: String,
    /// Its value in the profile that the search began with.
    pub before: u64,
    /// Its value now.
    pub value: u64,
    /// Whether the points determine the constant: if the constant changes by a tenth, the CPU time of a frame
    /// changes by a thousandth or more at some point. Otherwise the constant keeps its value.
    pub told: bool,
}

/// A point of a measured curve.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CalibratedPoint {
    /// The curve's file, with its settings; the frame size of a point that this command measured.
    pub curve: String,
    /// The offered load in frames per second.
    pub offered_pps: f64,
    /// CPU time for each delivered frame in ns, as measured.
    pub measured_ns: f64,
    /// The shortest and the longest such time of several rounds; absent for points of files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub measured_range_ns: Option<[f64; 2]>,
    /// CPU time for each frame in the tester, in ns, where the device works on the tester's CPU. It is not in
    /// `measured_ns`. Absent where the device has a CPU of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tester_ns: Option<f64>,
    /// The same in the simulator, with the background.
    pub simulated_ns: f64,
    /// (simulated − measured) / measured.
    pub error: f64,
    /// Whether the point was left out when the constants were found, to check them.
    #[serde(default)]
    pub checks: bool,
}
