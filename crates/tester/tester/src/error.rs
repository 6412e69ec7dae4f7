//! Why there is no trial.

use kpps_frames::Mix;
use kpps_ports::port::Trouble;

/// Why there is no trial.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The ports cannot be opened.
    #[error(transparent)]
    Port(#[from] kpps_ports::Error),
    /// A port failed before the trial.
    #[error(transparent)]
    Trouble(#[from] Trouble),
    /// The counters of a system cannot be read.
    #[error("cannot read counters: {0}")]
    Observe(#[from] std::io::Error),
    /// The frames cannot be built.
    #[error(
        "cannot build test frames of {size} B with FCS: {why}; they need 64 B (84 B with IPv6, 4 B more with a VLAN) to 9018 B"
    )]
    Frame {
        /// The size, or mix of sizes.
        size: String,
        /// The mistake.
        why: kpps_frames::Error,
    },
    /// A router does not answer when it is asked for its MAC address.
    #[error(
        "{port}: the router {gateway} does not answer: check that it is up and has this address on this side"
    )]
    Silent {
        /// The port that asked.
        port: String,
        /// The router's address.
        gateway: std::net::IpAddr,
    },
    /// This number of flows is not possible.
    #[error("cannot make {} flows between these addresses and ports: give 1 to {}, and no more than the ranges have",
        count.map_or("more than 4294967295".into(), |count| count.to_string()), kpps_frames::flows::MOST_FLOWS)]
    Flows {
        /// How many were asked for.
        count: Option<u32>,
    },
    /// A UDP socket has the system's headers.
    #[error(
        "the system makes the headers of frames that {0} sends: encapsulations, templates, DSCP, TTL and replies \
        need ports on interfaces, as packet:IFACE"
    )]
    PayloadOnly(String),
    /// Replies need to know each flow as it arrives.
    #[error(
        "{missing} of {flows} flows did not come through before the trial, so nothing can reply to them: give fewer \
        flows, or check what lies between the ports"
    )]
    Unanswerable {
        /// Flows without an arrived frame.
        missing: usize,
        /// All flows.
        flows: usize,
    },
    /// The operator of a port's host does not allow it.
    #[error("the operator of {port} does not allow {what}")]
    NotAllowed {
        /// The port.
        port: String,
        /// The request, and the allowed values.
        what: String,
    },
    /// A port cannot send frames without tags and recognise them.
    #[error("{0} cannot take part in a replay: only ports of this host recognise frames without tags")]
    NoReplay(String),
    /// A stream cannot be added to a trial.
    #[error(
        "{0}: no stream can be added: its port or the trial has the most possible streams, or the trial has not \
        begun or has ended"
    )]
    NoMoreStreams(String),
    /// A stream has no frames.
    #[error("{name}: {why}")]
    Stream {
        /// The name of the stream.
        name: String,
        /// Why there are none.
        why: kpps_frames::stack::BadStack,
    },
    /// A port cannot send several streams.
    #[error("{0} cannot send several streams: only packet, AF_XDP, DPDK and card ports of this host can")]
    NoStreams(String),
    /// Probes have no rate of their own where frames are sent as fast as possible.
    #[error("probes keep their rate beside a load that is a rate, not beside as many frames as possible")]
    NoProbes,
    /// A port cannot send late frames late.
    #[error("{0} leaves out late frames: only ports of this host send them late")]
    NoLate(String),
    /// Streams are sent as fast as possible, and cannot be started and stopped one by one.
    #[error("streams are started and stopped one by one only at a rate, not with as many frames as possible")]
    NoControl,
    /// A port cannot capture all of its frames.
    #[error("{0} cannot capture all of its frames: only ports of this host do")]
    NoCapture(String),
    /// Ports on several cores do not do this.
    #[error("{0} is not possible on several cores: use one core")]
    SeveralCores(&'static str),
    /// Flows cannot be steered to the receive queues of a port.
    #[error("{port}: flows cannot be steered to its receive queues: {why}")]
    NoSteering {
        /// The port.
        port: String,
        /// The reason.
        why: String,
    },
    /// More than two ports do not do this.
    #[error("{0} is not possible between more than two ports")]
    SeveralPorts(&'static str),
    /// A stream goes from a port to itself, or there is no such port.
    #[error(
        "{name} goes from port {from} to port {to}, and there are {ports} ports: give two different ones"
    )]
    NoSuchPorts {
        /// The name of the stream.
        name: String,
        /// The number of the port that sends, from 1.
        from: usize,
        /// The number of the port that receives.
        to: usize,
        /// How many ports there are.
        ports: usize,
    },
    /// There is not enough memory for the captured frames.
    #[error("{port}: there is not enough memory for the frames to capture: give the ring a smaller size")]
    NoMemory {
        /// The port.
        port: String,
    },
    /// A calibration cannot be used.
    #[error("{0}")]
    Calibration(String),
    /// An agent cannot be reached, or refuses.
    #[error("{0}")]
    Agent(String),
    /// The load is above the line rate.
    #[error("a load of {offered_pps:.0} pps is above line rate: {size} B at {mbps} Mb/s are {most:.0} pps")]
    AboveLineRate {
        /// Frames per second that were asked for.
        offered_pps: f64,
        /// Bytes with FCS, or the mix.
        size: String,
        /// The link's speed in Mb/s.
        mbps: u32,
        /// Frames per second that it carries.
        most: f64,
    },
}

impl Error {
    /// Frames of these sizes cannot be built.
    pub fn frame(sizes: &Mix, why: kpps_frames::Error) -> Self {
        Self::Frame { size: sizes.to_string(), why }
    }
}
