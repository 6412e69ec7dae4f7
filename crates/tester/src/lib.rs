//! The open tester: two ports of a real system with a device under test between them.
//!
//! A [`Tester`] offers a load by one port or both, each on a thread of its own, and accounts for every frame: what its tag
//! says ([`Arrivals`]), and where the missing ones went, by what the system counted before and after ([`ledger`]). It
//! does not know how its results are shown, nor which search asks for them.
#![forbid(unsafe_code)]

mod arrivals;
mod bed;
pub mod clock;
mod counted;
mod document;
mod error;
mod gauges;
mod header;
#[cfg(target_os = "linux")]
mod host;
mod kept;
mod learn;
pub mod ledger;
mod local;
pub mod look;
pub mod neighbours;
mod recognised;
mod run;
mod stage;
mod test_port;
mod trial;

pub use arrivals::{Arrivals, Arrived, OfFlow};
pub use bed::Bed;
pub use counted::{Counted, Counts};
pub use document::{document, gaps};
pub use error::Error;
pub use gauges::Gauges;
pub use kept::{Kept, Offender};
pub use learn::FlowPlan;
pub use local::{LocalHost, LocalPort, interface};
pub use recognised::{Classes, Skipped};
pub use run::RunStart;
pub use stage::Stage;
pub use test_port::{Allowed, Done, Duty, Expect, Host, Peek, Received, TestPort};
pub use trial::{Address, Offer, Outcome, Replay, Site, Tester, Way};
