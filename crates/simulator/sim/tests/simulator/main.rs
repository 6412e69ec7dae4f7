//! Tests of the simulator, by measurement.
#![allow(clippy::unwrap_used)]

mod answers;
mod effects;
mod features;
mod forwarding;
mod limits;
mod lunz2003;
mod morris2000;
mod ols2005;
mod profiles;
mod rdr2007;
mod scale;
mod snapshots;
