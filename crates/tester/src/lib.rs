//! The open tester: two ports of a real system with a device under test between them.
//!
//! A [`Tester`] offers a load by one port or both, each with a thread of its own, and accounts for every
//! frame: tags show what arrived ([`Arrivals`]), and counters of the system before and after the trial tell
//! where missing frames went ([`ledger`]). It knows nothing of presentation or searches.
//!
//! This sends 10,000 frames of 64 bytes a second over two interfaces, with the device under test between
//! them:
//!
//! ```no_run
//! use kpps_ports::port::{Options, open, run::{Load, Shape}};
//! use kpps_tester::{Address, Offer, Tester};
//! use std::time::Duration;
//!
//! let specs = ["packet:eth1".parse()?, "packet:eth2".parse()?];
//! let ports: [_; 2] = open(&specs, &Options::default())?.try_into().map_err(|_| "two ports")?;
//! let encap = kpps_frames::Encap::default();
//! let address = |ips: &str| ips.parse().map(|ips| Address { ips, gateway: None, to: None, encap });
//! let mut tester = Tester::new(specs, ports, [address("198.18.0.1")?, address("198.19.0.1")?], &[])?;
//! let offer = Offer {
//!     load: Load::Pps(10_000.0),
//!     shape: Shape::default(),
//!     count: None,
//!     sizes: "64".parse()?,
//!     duration: Duration::from_secs(1),
//!     drain: Duration::from_millis(200),
//!     bidirectional: false,
//!     keep: false,
//!     replay: None,
//!     every: None,
//! };
//! let outcome = tester.trial(&offer, &|| true)?;
//! println!("{} of {} frames arrived", outcome.directions[0].arrived.received, outcome.directions[0].sent);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![forbid(unsafe_code)]

mod anomalies;
mod arrivals;
mod calibrate;
pub mod clock;
mod counted;
#[cfg(target_os = "linux")]
mod devices;
mod document;
mod error;
mod gauges;
mod generator;
mod header;
#[cfg(target_os = "linux")]
mod host;
mod kept;
mod learn;
pub mod ledger;
pub mod live;
mod local;
mod metrics;
pub mod neighbours;
pub mod observe;
mod playback;
pub mod provenance;
mod recognised;
mod retry;
mod run;
mod shape;
mod state;
mod sync;
mod template;
mod test_port;
mod testbed;
pub mod timeline;
mod traffic;
mod trial;

pub use anomalies::pcapng;
pub use arrivals::{Arrivals, Arrived, Findings, OfFlow};
pub use calibrate::calibrate;
pub use counted::{Counted, Counts};
#[cfg(target_os = "linux")]
pub use devices::devices;
pub use document::{capture, document, gaps};
pub use error::Error;
pub use gauges::{Gauges, NewRate};
pub use kept::{Kept, Offender};
pub use learn::FlowPlan;
pub use local::{LocalHost, LocalPort, interface};
pub use metrics::Metrics;
pub use playback::Playback;
pub use recognised::{Classes, Skipped};
pub use retry::undisturbed;
pub use run::{RunStart, all_arrived, app_run, offered, streams};
pub use shape::{check as check_shape, shape};
pub use state::{Reported, TrialState};
pub use template::{Template, template};
pub use test_port::{Allowed, Done, Expect, Host, LiveCounts, Received, Task, TestPort};
pub use testbed::PortsTestbed;
pub use traffic::{Traffic, numbers};
pub use trial::{Address, DirectionOutcome, Offer, Outcome, Replay, Site, Tester};
