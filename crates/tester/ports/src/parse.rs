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
        ] {
            assert_eq!(text.parse::<Spec>().unwrap().to_string(), text);
        }
        assert_eq!("uio:00:10.0".parse::<Spec>().unwrap().to_string(), "uio:0000:00:10.0");
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
