//! Studies: the claims of a document as data, and the simulator's results for them.
//!
//! A study is a file of `studies/`: its question and setting in words, its figures, and its claims. A claim
//! names the *measurements* that it needs, each a [metric](metric::METRICS) with a configuration, and
//! conditions on their values. A new claim needs no code unless its metric is new.
//!
//! ```toml
//! [claims.M9]
//! kind = "fit"
//! says = "the driver as shipped receives at most about 300,000 frames/s"
//! expected = "300,000 ± 10 %"
//! measure.stock = { metric = "receive", chip = "82543gc", driver = "intel-2.5.11", offered = [1e5, 3e5] }
//! holds = ["within(stock.peak_pps, 300e3, 0.10)"]
//! values = { peak_pps = "stock.peak_pps" }
//! ```
//!
//! A result that a document reports, and that was kept from this project when it was first predicted
//! ([`Kind::KeptBack`]), stands there three times: as it was predicted blind, as the document has it, and as
//! the model has it now. The last is revised in knowledge of the document, and never called a prediction.
//!
//! ```
//! let study = kpps_study::named("morris2000").unwrap();
//! let claim = &study.claims["M9"];
//! println!("{}: {}", study.title, claim.says);
//! assert_eq!(claim.kind, kpps_study::Kind::Fit);
//! ```
#![forbid(unsafe_code)]

mod choose;
mod data;
mod document;
mod error_bars;
mod fit;
mod judge;
pub mod metric;
mod perturb;
mod run;

pub use choose::{choose, drawn};
pub use data::{Claim, Error, Figure, Kind, Line, Map, Measurement, Study, documents, named, names};
pub use document::{bad, document, judged, pages};
pub use error_bars::add_error_bars;
pub use fit::{cross_validate, fit};
pub use judge::judge;
pub use metric::{Context, Value, Values};
pub use perturb::{Nudge, fitted_constants, perturb, turns};
pub use run::{Outcomes, Progress, judge_blind, measure, measure_or_find, wanted};
