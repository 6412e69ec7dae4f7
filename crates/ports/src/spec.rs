//! The names of ports, as on the command line.

use crate::{Error, pci::Address};
use std::fmt;
use std::str::FromStr;

/// How user space accesses a card.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Backend {
    /// `vfio-pci`: behind an IOMMU, with memory of any kind; needs no privilege where the
    /// system gives the group's device file to the user.
    Vfio,
    /// `uio_pci_generic`: no IOMMU; needs huge pages and root.
    Uio,
}

impl Backend {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Vfio, Self::Uio];

    /// Its name on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Vfio => "vfio",
            Self::Uio => "uio",
        }
    }

    /// The kernel driver that a card must have, by its name in sysfs.
    pub const fn driver(self) -> &'static str {
        match self {
            Self::Vfio => "vfio-pci",
            Self::Uio => "uio_pci_generic",
        }
    }
}

impl fmt::Display for Backend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Backend {
    type Err = Error;
    fn from_str(text: &str) -> Result<Self, Error> {
        let found = Self::ALL.into_iter().find(|backend| backend.name() == text);
        found.ok_or_else(|| Error::BadSpec(text.to_owned()))
    }
}

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

/// An interface's name, if it is valid: at most 15 bytes (IFNAMSIZ without the terminator).
fn interface(name: &str) -> Option<String> {
    let good = (1..=15).contains(&name.len()) && !name.contains(['/', ' ', ':', '\0']);
    good.then(|| name.to_owned())
}

impl FromStr for Spec {
    type Err = Error;
    fn from_str(text: &str) -> Result<Self, Error> {
        let bad = || Error::BadSpec(text.to_owned());
        let (kind, rest) = text.split_once(':').ok_or_else(bad)?;
        match kind {
            "auto" => interface(rest).map(Self::Auto).ok_or_else(bad),
            "udp" => {
                let (host, port) = rest.rsplit_once(':').ok_or_else(bad)?;
                // An IPv6 address has brackets around it.
                let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
                match port.parse() {
                    Ok(port) if port > 0 && !host.contains(['/', ' ', '[', ']']) => {
                        Ok(Self::Udp { host: host.into(), port })
                    }
                    _ => Err(bad()),
                }
            }
            "packet" => interface(rest).map(Self::Packet).ok_or_else(bad),
            "xdp" => {
                let (name, queue) = match rest.split_once(':') {
                    Some((name, queue)) => (name, Some(queue.parse().map_err(|_| bad())?)),
                    None => (rest, None),
                };
                Ok(Self::Xdp { interface: interface(name).ok_or_else(bad)?, queue })
            }
            _ => Ok(Self::Card(kind.parse().map_err(|_| bad())?, rest.parse()?)),
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
    fn what_is_shown_is_read() {
        for text in [
            "vfio:0000:00:10.0",
            "uio:0001:3a:1f.7",
            "packet:eth0",
            "packet:br-lan.7",
            "xdp:eth0",
            "xdp:eth0:0",
            "xdp:eth0:3",
        ] {
            assert_eq!(text.parse::<Spec>().unwrap().to_string(), text);
        }
        assert_eq!("uio:00:10.0".parse::<Spec>().unwrap().to_string(), "uio:0000:00:10.0");
    }

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

    #[test]
    fn others_are_refused() {
        for text in [
            "",
            "eth0",
            "xdp:",
            "xdp:eth0:",
            "xdp:eth0:-1",
            "xdp:a:1:2",
            "packet:",
            "packet:a:1",
            "packet:a-name-too-long-for-it",
            "packet:a/b",
            "00:10.0",
            "udp:host:0",
            "udp:host:65536",
        ] {
            assert!(matches!(text.parse::<Spec>(), Err(Error::BadSpec(_))), "{text}");
        }
        assert!(matches!("uio:eth0".parse::<Spec>(), Err(Error::BadAddress(_))));
    }
}
