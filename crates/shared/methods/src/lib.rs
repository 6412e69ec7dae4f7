//! Methodology: curves, grids, searches, RFC 2544 and comparisons, the same on any testbed.
//!
//! A [`Testbed`] takes a [`Load`] and returns a [`Trial`](kpps_documents::Trial). Everything above a trial is
//! here. It does not depend on the kind of testbed, on presentation, or on the command line: it gets a
//! testbed, settings, a function that returns whether to go on, and an [`Observer`]. A
//! [`Journal`](journal::Journal) keeps trials, and [`Resume`](resume::Resume) decides which of them a later
//! run may use.
//!
//! ```
//! use kpps_frames::Size;
//! use kpps_methods::search::{Goal, Known, Search};
//! use kpps_methods::{Load, Testbed};
//!
//! // A search between 1 kpps and 1 Mpps, on a testbed that delivers 700 kpps and drops the rest.
//! let mut testbed = Known::quiet(700e3);
//! let mut search = Search::new(vec![Goal::NDR], 1e3, 1e6);
//! while let Some(offered_pps) = search.next() {
//!     let load = Load::of(offered_pps, Size::MIN);
//!     search.add(offered_pps, testbed.trial(&load).unwrap());
//! }
//! let lower_pps = search.found(&Goal::NDR).lower_pps.unwrap();
//! assert!((690e3..=700e3).contains(&lower_pps));
//! ```
#![forbid(unsafe_code)]

pub mod bounds;
pub mod compare;
pub mod cost;
mod curve;
mod detail;
mod error;
pub mod finished;
pub mod grid;
pub mod journal;
mod kind;
pub mod names;
pub mod ndr;
mod observer;
pub mod parameter;
mod points;
pub mod random;
pub mod resume;
pub mod rfc2544;
mod runner;
pub mod search;
mod series;
mod standing;
pub mod statistics;
mod trial;
pub mod units;
pub mod workers;

pub use curve::{curve, default_loads, real_loads};
pub use detail::detailed;
pub use error::{Error, refuse_twice};
pub use finished::Finished;
pub use kind::{Kind, WARMUP_MS};
pub use observer::{Observer, in_words};
pub use points::{Points, of_frames};
pub use runner::{Pattern, Runner};
pub use series::{NamedTestbed, Sweep, sweep};
pub use standing::StandingQueue;
pub use trial::{
    AFTERWARDS_MS, AllowedLoad, Latency, LatestOfFlow, Load, Testbed, TrialError, Variation, only_size,
};
