//! Reads the names of ports.

use crate::{Error, Spec};
use kpps_linux::Backend;
use kpps_linux::pci::Address;
use std::str::FromStr;

/// An interface's name, if the kernel takes it (`dev_valid_name`): at most 15 bytes (IFNAMSIZ without the
/// terminator), and the name of a file.
fn interface(name: &str) -> Option<String> {
    let good = (1..=15).contains(&name.len())
        && ![".", ".."].contains(&name)
        && !name.contains(|c: char| c == '/' || c == ':' || c == '\0' || c.is_whitespace());
    good.then(|| name.to_owned())
}

/// The name of a device of DPDK, with its arguments.
fn device(name: &str) -> Option<String> {
    let good = name.starts_with(|c: char| c.is_ascii_alphanumeric())
        && !name.contains(|c: char| c.is_whitespace() || c.is_control());
    good.then(|| name.to_owned())
}

/// Whether this part of a list, which has commas between its ports, begins a port. If not, it is an argument
/// of the device of DPDK before it: `dpdk:net_af_packet0,iface=eth1` is one port.
fn begins_port(part: &str) -> bool {
    part.split_once(':').is_some_and(|(kind, _)| !kind.contains('='))
}

/// The names of ports of a list that was cut at its commas.
pub fn join_arguments<'p>(parts: impl IntoIterator<Item = &'p str>) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for part in parts {
        match names.last_mut() {
            Some(device) if is_dpdk(device) && !begins_port(part) => *device = format!("{device},{part}"),
            _ => names.push(part.to_owned()),
        }
    }
    names
}

/// Whether a name is that of a device of DPDK, of this host or of another one.
fn is_dpdk(name: &str) -> bool {
    name.starts_with("dpdk:") || name.split_once('/').is_some_and(|(_, port)| port.starts_with("dpdk:"))
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
            "dpdk" => device(rest).map(Self::Dpdk).ok_or_else(bad),
            "packet" => interface(rest).map(Self::Packet).ok_or_else(bad),
            "xdp" => {
                let (name, queue) = match rest.split_once(':') {
                    Some((name, queue)) => (name, Some(queue.parse().map_err(|_| bad())?)),
                    None => (rest, None),
                };
                Ok(Self::Xdp { interface: interface(name).ok_or_else(bad)?, queue })
            }
            _ => Ok(Self::Card(kind.parse::<Backend>().map_err(|_| bad())?, rest.parse::<Address>()?)),
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
            "dpdk:0000:3b:00.0",
            "dpdk:net_af_packet0,iface=eth1",
        ] {
            assert_eq!(text.parse::<Spec>().unwrap().to_string(), text);
        }
        assert_eq!("uio:00:10.0".parse::<Spec>().unwrap().to_string(), "uio:0000:00:10.0");
    }

    #[test]
    fn a_list_of_ports_may_have_devices_with_arguments() {
        for (list, names) in [
            ("packet:a,packet:b", &["packet:a", "packet:b"][..]),
            ("packet:a,b", &["packet:a", "b"]),
            (
                "dpdk:net_af_packet0,iface=a,blocksz=4096,dpdk:net_tap0,mac=02:00:00:00:00:01,udp::9",
                &[
                    "dpdk:net_af_packet0,iface=a,blocksz=4096",
                    "dpdk:net_tap0,mac=02:00:00:00:00:01",
                    "udp::9",
                ],
            ),
            ("dpdk:0000:3b:00.0,dpdk:0000:3b:00.1", &["dpdk:0000:3b:00.0", "dpdk:0000:3b:00.1"]),
        ] {
            assert_eq!(join_arguments(list.split(',')), names);
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
            "packet:.",
            "packet:..",
            "packet:a\nb",
            "dpdk:",
            "dpdk:,iface=a",
            "dpdk:net_null0 net_null1",
            "xdp:..:0",
            "auto:../x",
            "00:10.0",
            "udp:host:0",
            "udp:host:65536",
        ] {
            assert!(matches!(text.parse::<Spec>(), Err(Error::BadSpec(_))), "{text}");
        }
        assert!(matches!("uio:eth0".parse::<Spec>(), Err(Error::System(kpps_linux::Error::BadAddress(_)))));
    }
}
