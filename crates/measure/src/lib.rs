//! Trials, the ledger, curves, searches, comparisons: what is measured and how, the same for every testbed.
//!
//! A [`Testbed`] takes a [`Load`] and returns a [`Trial`]. Everything above a trial is here and does not know
//! whether the testbed is simulated or real.
#![forbid(unsafe_code)]

pub mod compare;
mod curve;
pub mod rfc2544;
pub mod search;
mod trial;

pub use curve::{curve, default_loads, point};
pub use trial::{AFTERWARDS_MS, Latency, Load, Testbed, Trial, TrialError};

/// A mix of frame sizes as it is published; `None` for a single size.
pub fn mix(sizes: &kpps_frames::Mix) -> Option<kpps_results::Mix> {
    let mean_bytes_with_fcs = (sizes.mean_bytes_with_fcs() * 1e3).round() / 1e3;
    sizes.only().is_none().then(|| kpps_results::Mix { name: sizes.to_string(), mean_bytes_with_fcs })
}
