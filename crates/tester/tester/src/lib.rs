//! The open tester: ports of a real system with a device under test between them.
//!
//! A [`Tester`] offers a load by some or all of its ports, each with a thread of its own, and accounts for
//! every frame: tags show what arrived ([`Arrivals`]), and counters of the system before and after the trial
//! tell where missing frames went ([`ledger`]). It knows nothing of presentation or searches.
//!
//! This sends 10,000 frames of 64 bytes a second over two interfaces, with the device under test between
//! them:
//!
//! ```no_run
//! use kpps_frames::Mix;
//! use kpps_methods::Load;
//! use kpps_ports::port::{Options, open, run::{Late, Shape}};
//! use kpps_tester::{Address, Offer, Tester};
//! use std::time::Duration;
//!
//! let specs = ["packet:eth1".parse()?, "packet:eth2".parse()?];
//! let ports = open(&specs, &Options::default())?;
//! let encap = kpps_frames::Encap::default();
//! let address = |ips: &str| ips.parse().map(|ips| Address { ips, gateway: None, to: None, encap });
//! let mut tester = Tester::new(specs, ports, [address("198.18.0.1")?, address("198.19.0.1")?], &[])?;
//! let offer = Offer {
//!     load: Load::of(10_000.0, "64".parse::<Mix>()?),
//!     shape: Shape::default(),
//!     count: None,
//!     drain: Duration::from_millis(200),
//!     bidirectional: false,
//!     keep: false,
//!     replay: None,
//!     streams: [].into(),
//!     every: None,
//!     late: Late::Skip,
//!     control: None,
//! };
//! let outcome = tester.trial(&offer, &|| true)?;
//! let way = &outcome.directions[0];
//! println!("{} of {} frames arrived", way.received.arrived.received, way.sent.frames);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![forbid(unsafe_code)]

mod accounting;
mod capturing;
pub mod clock;
mod error;
mod judging;
mod running;
mod watching;

#[cfg(target_os = "linux")]
pub use accounting::devices;
pub use accounting::{Counted, Counts, capture, document, gaps, ledger, observe, provenance};
pub use capturing::{Captured, RingForm, capture_all, pcapng_of_all, received_of};
pub use error::Error;
pub use judging::{
    AnomalousFrame, Arrivals, Arrived, Classes, Findings, Kept, Losses, Lost, OfFlow, OfStream, Playback,
    Received, SequenceGap, Skipped, pcapng, queues, timeline,
};
pub use running::{
    Address, Allowed, DirectionOutcome, Done, Expect, ExpectedStream, FlowPlan, Host, LiveCounts, LocalHost,
    LocalPort, MOST_PORTS, MOST_STREAMS, MOST_STREAMS_OF_TRIAL, OfCore, OfSender, Offer, Outcome, PortSent,
    PortsTestbed, Replay, RunStart, SentFrames, Site, Stream, Task, Template, TestPort, Tester, Traffic,
    all_arrived, app_run, calibrate, check_shape, full_mesh, is_link_up, neighbours, numbers, offered,
    parse_streams, read_streams, send, send_one, shape, sizes_of_streams, streams, streams_plan, streams_pps,
    template, undisturbed,
};
pub use watching::{Gauges, Metrics, NewRate, Reported, StreamControl, StreamNow, TrialState, live};
