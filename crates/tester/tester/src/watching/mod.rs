//! Readings of a trial that runs: gauges, the live view, metrics, and the state that its threads share.

pub(crate) mod control;
pub(crate) mod cores;
pub(crate) mod gauges;
pub mod live;
pub(crate) mod metrics;
#[cfg(target_os = "linux")]
pub(crate) mod run_cores;
pub(crate) mod state;
pub(crate) mod sync;

pub use control::{StreamControl, StreamNow};
pub use gauges::{Gauges, NewRate};
pub use metrics::Metrics;
pub use state::{Reported, TrialState};
