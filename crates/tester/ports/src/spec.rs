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
    /// `dpdk:DEVICE`, `dpdk:DEVICE,ARGUMENT=VALUE…`: a device that DPDK drives, by the name and the arguments
    /// that DPDK takes for it.
    Dpdk(String),
    /// `auto:INTERFACE`: the fastest kind for an interface ([`choose`](crate::port::choose)).
    Auto(String),
}

/// The drivers of DPDK that use an interface of the kernel.
const ON_INTERFACES: [&str; 3] = ["net_af_packet", "net_af_xdp", "net_pcap"];

/// The name of a device of DPDK, without its arguments.
pub(crate) fn device_name(device: &str) -> &str {
    device.split(',').next().unwrap_or(device)
}

impl Spec {
    /// Whether both are the same port, or one is a queue of the other.
    pub fn includes(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Xdp { interface, queue: None }, Self::Xdp { interface: same, .. }) => interface == same,
            _ => self == other,
        }
    }

    /// Whether both cannot be open at the same time: one includes the other, or both are the same device of
    /// DPDK.
    pub fn overlaps(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Dpdk(device), Self::Dpdk(other)) => device_name(device) == device_name(other),
            _ => self.includes(other) || other.includes(self),
        }
    }

    /// The kernel's interface through which it sends and receives, if there is one.
    pub fn interface(&self) -> Option<&str> {
        match self {
            Self::Packet(interface) | Self::Auto(interface) | Self::Xdp { interface, .. } => Some(interface),
            Self::Dpdk(device) => {
                // Of other devices the argument is another interface: of `net_tap`, the other end.
                ON_INTERFACES.iter().any(|driver| device.starts_with(driver)).then_some(())?;
                device.split(',').find_map(|argument| argument.strip_prefix("iface="))
            }
            Self::Card(..) | Self::Udp { .. } => None,
        }
    }
}

impl fmt::Display for Spec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Card(backend, address) => write!(f, "{backend}:{address}"),
            Self::Packet(interface) => write!(f, "packet:{interface}"),
            Self::Auto(interface) => write!(f, "auto:{interface}"),
            Self::Dpdk(device) => write!(f, "dpdk:{device}"),
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
            ("dpdk:net_null0", "dpdk:net_null0", true),
            ("dpdk:net_null0", "dpdk:net_null0,copy=1", false),
        ] {
            assert_eq!(includes(a, b), expected, "{a} {b}");
        }
    }

    #[test]
    fn a_device_has_one_port_whatever_its_arguments() {
        let overlaps = |a: &str, b: &str| a.parse::<Spec>().unwrap().overlaps(&b.parse().unwrap());
        assert!(overlaps("dpdk:net_null0", "dpdk:net_null0,copy=1"));
        assert!(!overlaps("dpdk:net_null0", "dpdk:net_null1"));
        assert!(overlaps("xdp:a", "xdp:a:1") && overlaps("xdp:a:1", "xdp:a"));
    }

    #[test]
    fn some_ports_use_an_interface_of_the_kernel() {
        for (name, interface) in [
            ("packet:a", Some("a")),
            ("xdp:a:1", Some("a")),
            ("udp:h:9", None),
            ("dpdk:0000:3b:00.0", None),
            ("dpdk:net_af_packet0,iface=a,blocksz=4096", Some("a")),
            ("dpdk:net_af_xdp0,start_queue=1,iface=a", Some("a")),
            ("dpdk:net_tap0,iface=a", None),
        ] {
            assert_eq!(name.parse::<Spec>().unwrap().interface(), interface, "{name}");
        }
    }
}
