//! Studies: what a document claims, as data, and what the machine room says to it.
//!
//! A study is a file of `studies/`: its question and setting in words, its figures, and its claims. A claim names
//! the *measurements* that it needs, each a [metric](metric::METRICS) with a configuration, and conditions on what they
//! give. A new claim needs no code unless its metric is new.
//!
//! ```toml
//! [claims.M9]
//! kind = "fit"
//! says = "the driver as shipped receives at most about 300,000 frames/s"
//! expected = "300,000 ± 10 %"
//! measure.stock = { metric = "receive", chip = "82543gc", driver = "intel-2.5.11", offered = { from = 1e5, to = 6e5, step = 1e4 } }
//! holds = ["within(stock.peak_pps, 300e3, 0.10)"]
//! values = { peak_pps = "stock.peak_pps" }
//! ```
//!
//! What a document reports but this project was not told ([`Kind::KeptBack`]) is never judged: it is *predicted*.
#![forbid(unsafe_code)]

mod data;
mod journal;
mod judge;
pub mod metric;
mod perturb;
mod run;

pub use data::{Claim, Error, Figure, Kind, Line, Map, Measurement, Study, documents, named, names};
pub use journal::InJournal;
pub use judge::judge;
pub use metric::{Context, Value, Values};
pub use perturb::{Nudge, Turn, fitted_constants, turns};
pub use run::{Kept, Outcomes, Progress, measure, measure_or_find};
