//! Results as people see them: text, HTML, CSV, and the files that they go to.
//!
//! The documents are those of the crate `documents`. [`text::table`] and [`text::plot`] show a curve on a
//! terminal, [`csv()`] serves other tools, [`html()`] makes a page. The other kinds of documents have a
//! module each; [`Forms`] gives all forms of any document.
//!
//! Nothing here measures, and no form of a document asks for the time or for the machine it runs on: the same
//! document gives the same bytes everywhere.
//!
//! ```
//! use kpps_documents::{Curve, Environment};
//!
//! // A curve without any points, as a page.
//! let curve = Curve::new(Environment::default(), Vec::new(), true);
//! assert!(kpps_rendering::html(&curve).starts_with("<!DOCTYPE html>"));
//! ```
#![forbid(unsafe_code)]

pub mod audit;
pub mod bus;
mod calibration;
mod caller;
mod comparison;
mod connections;
mod csv;
mod curve;
mod drawing;
mod environment;
mod error_bars;
mod faults;
pub mod files;
mod flame;
mod forms;
pub mod grid;
pub mod guest_audit;
mod host;
mod html;
mod inventory;
pub mod lab;
pub mod live;
mod ndr;
mod page;
mod remarks;
mod rfc2544;
mod rows;
mod run;
mod simulation;
mod study;
pub mod text;
mod trial;
mod worst;

pub use caller::{Caller, Document};
pub use csv::csv;
pub use forms::Forms;
pub use html::html;
pub use inventory::WithConstants;
pub use remarks::{clock_error, remarks};
pub use rows::{Column, Field, Kind, Rows};
