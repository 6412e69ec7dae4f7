//! The results of kpps: one schema, and everything that presents it.
//!
//! [`Curve`] is the document: how much was delivered at each offered load, what became of the
//! rest, and in which environment. Its JSON is described by `schema/kpps-1.json`. Everything else
//! is made from it: [`text::table`] and [`text::plot`] for a terminal, [`csv()`] for other tools,
//! [`html()`] for people who would rather look than read.
//!
//! Nothing here knows how results are made, and nothing asks for the time or the machine it runs
//! on: the same document gives the same bytes everywhere.
#![forbid(unsafe_code)]

pub mod certificate;
pub mod comparison;
mod csv;
mod drawing;
mod format;
pub mod grid;
mod html;
pub mod inventory;
pub mod lab;
pub mod ndr;
mod page;
mod places;
pub mod rfc2544;
pub mod room;
mod rows;
mod run;
mod schema;
mod sentences;
pub mod study;
pub mod text;
pub mod trial;

pub use csv::csv;
pub use html::html;
pub use rows::rows_csv;
pub use run::{AppRun, Offered, PortRun, ProcessorTime, Run, RunKind, Stream};
pub use schema::{
    Cpu, Curve, Environment, Kind, Latency, Ledger, NOT_SENT, Point, Registers, Schema, Series, UNEXPLAINED,
    clock_error, remarks, rounded, schema, to_json,
};
pub use sentences::two_sentences;
