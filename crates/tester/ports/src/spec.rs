//! The names of ports, as on the command line.

use kpps_linux::Backend;
use kpps_linux::pci::Address;
use std::fmt;

/// The name of a port.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Spec {
    /// `vfio:ADDRESS`, `uio:ADDRESS`: our driver on a card.
    Card(Backend, Address),
    /// `packet:INTERFACE`: an interface of the kernel, through packet sockets.
    Packet(String),
    /// `xdp:INTERFACE`, `xdp:INTERFACE:QUEUE`: all queues of an interface or one, through `AF_XDP` sockets.
    Xdp {
        /// The interface.
        interface: String,
        /// The queue, if it is one; the first is 0.
        queue: Option<u32>,
    },
    /// `udp:HOST:PORT`, `udp::PORT`: a UDP socket that sends there, or one that listens.
    Udp {
        /// The other end's name or address; empty for a socket that listens.
        host: String,
        /// The other end's port, or our own.
        port: u16,
    },
    /// `auto:INTERFACE`: the fastest kind for an interface ([`choose`](crate::port::choose)).
    Auto(String),
}

impl Spec {
    /// Whether both are the same port, or one is a queue of the other.
    pub fn includes(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Xdp { interface, queue: None }, Self::Xdp { interface: same, .. }) => interface == same,
            _ => self == other,
        }
    }
}

impl fmt::Display for Spec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Card(backend, address) => write!(f, "{backend}:{address}"),
            Self::Packet(interface) => write!(f, "packet:{interface}"),
            Self::Auto(interface) => write!(f, "auto:{interface}"),
            Self::Udp { host, port } if host.contains(':') => write!(f, "udp:[{host}]:{port}"),
            Self::Udp { host, port } => write!(f, "udp:{host}:{port}"),
            Self::Xdp { interface, queue: None } => write!(f, "xdp:{interface}"),
            Self::Xdp { interface, queue: Some(queue) } => write!(f, "xdp:{interface}:{queue}"),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn all_queues_include_each() {
        let includes = |a: &str, b: &str| a.parse::<Spec>().unwrap().includes(&b.parse().unwrap());
        for (a, b, expected) in [
            ("xdp:a", "xdp:a", true),
            ("xdp:a", "xdp:a:1", true),
            ("xdp:a:1", "xdp:a", false),
            ("xdp:a:1", "xdp:a:1", true),
            ("xdp:a:0", "xdp:a:1", false),
            ("xdp:a", "xdp:b", false),
            ("xdp:a", "xdp:b:1", false),
            ("packet:a", "packet:a", true),
            ("packet:a", "xdp:a", false),
        ] {
            assert_eq!(includes(a, b), expected, "{a} {b}");
        }
    }
}
