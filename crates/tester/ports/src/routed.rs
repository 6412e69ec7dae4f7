//! A router's interfaces as people name them: a port, perhaps a VLAN, and an address.

use crate::{Error, Spec};
use kpps_apps::{Interface, Ipv4Net};
use kpps_frames::Mac;
use std::str::FromStr;

/// The longest packet that a port sends, in bytes from the IP header on.
const MTU: u16 = 1500;

/// An interface of a router: `packet:eth1=10.0.0.1/24`, or `packet:eth1@10=10.0.0.1/24` for VLAN 10.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RoutedSpec {
    /// The port.
    pub port: Spec,
    /// Its VLAN; `None` for untagged frames.
    pub vlan: Option<u16>,
    /// The router's address there, with the length of the network's prefix.
    pub net: Ipv4Net,
}

impl FromStr for RoutedSpec {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let help = || {
            format!(
                "'{text}' is not a port with its address, like packet:eth1=10.0.0.1/24 or packet:eth1@10=10.0.0.1/24"
            )
        };
        let (port, net) = text.split_once('=').ok_or_else(help)?;
        let (port, vlan) = match port.rsplit_once('@') {
            Some((port, vlan)) => (port, Some(vlan.parse().map_err(|_| help())?)),
            None => (port, None),
        };
        let port = port.parse().map_err(|e: Error| e.to_string())?;
        // Without its length a network would be a single host.
        let net = net.contains('/').then(|| net.parse().ok()).flatten().ok_or_else(help)?;
        Ok(Self { port, vlan, net })
    }
}

impl RoutedSpec {
    /// The ports of these interfaces, each once.
    pub fn ports(all: &[Self]) -> Vec<Spec> {
        let mut ports: Vec<Spec> = Vec::new();
        for Self { port, .. } in all {
            if !ports.contains(port) {
                ports.push(port.clone());
            }
        }
        ports
    }

    /// The interfaces of a router; `macs` are the station addresses of its [ports](Self::ports), all zeros
    /// where they are missing.
    pub fn interfaces(all: &[Self], macs: &[Mac]) -> Vec<Interface> {
        let ports = Self::ports(all);
        let interface = |it: &Self| {
            let port = ports.iter().position(|port| *port == it.port).unwrap_or(0);
            let mac = macs.get(port).copied().unwrap_or_default();
            Interface { port, vlan: it.vlan, mac, net: it.net, mtu: MTU }
        };
        all.iter().map(interface).collect()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn interfaces_share_their_ports() {
        let specs: Vec<RoutedSpec> =
            ["packet:a@10=10.0.0.1/24", "packet:b=10.0.2.1/24", "packet:a@20=10.0.1.1/24"]
                .map(|text| text.parse().unwrap())
                .into();
        assert_eq!(RoutedSpec::ports(&specs), ["packet:a".parse().unwrap(), "packet:b".parse().unwrap()]);
        let interfaces = RoutedSpec::interfaces(&specs, &[Mac([1; 6]), Mac([2; 6])]);
        let seen: Vec<_> = interfaces.iter().map(|it| (it.port, it.vlan, it.mac)).collect();
        assert_eq!(seen, [(0, Some(10), Mac([1; 6])), (1, None, Mac([2; 6])), (0, Some(20), Mac([1; 6]))]);
        for bad in
            ["packet:a", "packet:a=10.0.0.1", "packet:a@x=10.0.0.1/24", "a=10.0.0.1/24", "=10.0.0.1/24"]
        {
            assert!(bad.parse::<RoutedSpec>().is_err(), "{bad}");
        }
    }
}
