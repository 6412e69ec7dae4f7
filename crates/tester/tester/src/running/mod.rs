//! How a trial is run: the traffic, the ports, the threads of a run, and the tester that has them.

pub(crate) mod attend;
pub(crate) mod building;
pub(crate) mod calibrate;
pub(crate) mod cores;
pub(crate) mod generator;
pub(crate) mod learn;
pub(crate) mod local;
pub mod neighbours;
pub(crate) mod retry;
pub(crate) mod run;
pub(crate) mod sending;
pub(crate) mod shape;
#[cfg(target_os = "linux")]
pub(crate) mod spreading;
pub(crate) mod streams;
pub(crate) mod template;
pub(crate) mod test_port;
pub(crate) mod testbed;
pub(crate) mod traffic;
pub(crate) mod trial;

pub use attend::send_one;
pub use calibrate::calibrate;
pub use learn::FlowPlan;
pub use local::{LocalHost, LocalPort, is_link_up};
pub use retry::undisturbed;
pub use run::{RunStart, all_arrived, app_run, offered, streams};
pub use sending::{PortSent, send, streams_plan};
pub use shape::{check as check_shape, shape};
pub use streams::{
    MOST_PORTS, MOST_STREAMS, MOST_STREAMS_OF_TRIAL, Stream, full_mesh, parse_streams, read_streams,
    sizes_of_streams, streams_pps,
};
pub use template::{Template, template};
pub use test_port::{
    Allowed, Done, Expect, ExpectedStream, Host, LiveCounts, OfCore, OfSender, SentFrames, Task, TestPort,
};
pub use testbed::PortsTestbed;
pub use traffic::{Traffic, numbers};
pub use trial::{Address, DirectionOutcome, Offer, Outcome, Replay, Site, Tester};
