//! The results of kpps: one type for each published document, and their schema.
//!
//! [`Curve`] is the document that most commands make: the delivered rate at each offered load, the
//! places of losses, and the environment. [`Trial`] is the result of one trial on any testbed;
//! documents contain it. The modules have one kind of document each. `schema/kpps-3.json` describes the JSON
//! of all of them.
//!
//! The crate `methods` makes documents, the crate `rendering` shows them. Nothing here reads a clock or the
//! state of the machine: equal results give equal bytes. [`mod@file`] keeps them, and other files that are
//! written as a whole.
//!
//! ```
//! use kpps_documents::Ledger;
//!
//! let dropped = [("fifo".to_owned(), 3)].into();
//! let ledger = Ledger { sent: 10, delivered: 7, dropped, ..Ledger::default() };
//! assert!(ledger.closes());
//! assert_eq!(ledger.losses(), [("fifo", 3)]);
//! ```
#![forbid(unsafe_code)]

pub mod audit;
pub mod calibration;
pub mod comparison;
pub mod connections;
mod cpu;
mod curve;
pub mod detail;
mod disturbance;
mod document;
mod doubt;
mod environment;
pub mod faults;
pub mod file;
mod finite;
pub mod grid;
pub mod guest_audit;
pub mod host;
pub mod inventory;
mod json;
pub mod lab;
mod latency;
mod ledger;
mod mix;
pub mod ndr;
pub mod places;
pub mod provenance;
pub mod queues;
mod registers;
pub mod rfc2544;
mod round;
pub mod run;
mod schema;
mod series;
pub mod simulation;
pub mod study;
mod summary;
mod trial;
pub mod words;

pub use cpu::Cpu;
pub use curve::{Curve, Kind};
pub use disturbance::{Disturbance, Pause, PausedBy};
pub use document::schema;
pub use doubt::{Doubt, LINK_CHANGES};
pub use environment::Environment;
pub use json::to_json;
pub use latency::{FlowLatency, Latency};
pub use ledger::{Ledger, SHORTFALL, UNEXPLAINED};
pub use mix::Mix;
pub use registers::Registers;
pub use round::{known, rounded};
pub use schema::Schema;
pub use series::Series;
pub use trial::{KEEPS_UP_LOSS, Limit, Probe, TESTER_RATIO, Trial, limited};
