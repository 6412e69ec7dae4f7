//! Stations: the devices of a configuration.

use super::Port;
use super::node::{Bad, Node};
use kpps_frames::Mac;
use std::net::IpAddr;

/// A station with one or two IP addresses.
#[derive(Clone, Debug)]
pub struct Device {
    /// The device's name.
    pub name: String,
    /// The name of its Ethernet interface.
    pub ethernet: String,
    /// The index of its port.
    pub port: usize,
    /// Its address on the link.
    pub mac: Mac,
    /// Its IP addresses.
    pub addresses: Vec<Address>,
}

/// An IP address of a station.
#[derive(Clone, Debug)]
pub struct Address {
    /// Its name.
    pub name: String,
    /// The address.
    pub ip: IpAddr,
    /// The router of the station.
    pub gateway: IpAddr,
    /// The router's address on the link, if it is not resolved.
    pub gateway_mac: Option<Mac>,
}

/// An end of a flow.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Station {
    /// The index of its port.
    pub port: usize,
    /// Its address on the link.
    pub mac: Mac,
    /// Its IP address and its router.
    pub ip: Option<(IpAddr, IpAddr)>,
    /// The router's address on the link, if it is not resolved.
    pub gateway_mac: Option<Mac>,
}

impl Device {
    /// Reads a device: a station for each of its Ethernet interfaces.
    ///
    /// # Errors
    /// The place and what is wrong.
    pub fn read(node: &Node<'_>, ports: &[Port], others: &[Self]) -> Result<Vec<Self>, Bad> {
        let name = node.needed("name")?;
        let mut all: Vec<Self> = Vec::new();
        for ethernet in node.children("ethernets") {
            let connection = ethernet.child("connection");
            let port_name = connection.needed("port_name")?;
            let port = ports.iter().position(|port| port.name == port_name);
            let port = port
                .ok_or_else(|| connection.bad_at("port_name", format!("there is no port '{port_name}'")))?;
            if others.iter().chain(&all).any(|other| other.port == port) {
                return Err(ethernet.bad(format!(
                    "port '{port_name}' has a station already: several stations of a port are not supported"
                )));
            }
            let mut addresses = Vec::new();
            for (list, is_v4) in [("ipv4_addresses", true), ("ipv6_addresses", false)] {
                let nodes = ethernet.children(list);
                if let Some(second) = nodes.get(1) {
                    return Err(second.bad("several addresses of a station are not supported"));
                }
                for node in nodes {
                    addresses.push(address(&node, is_v4)?);
                }
            }
            all.push(Self {
                name: name.to_owned(),
                ethernet: ethernet.needed("name")?.to_owned(),
                port,
                mac: mac(&ethernet, "mac")?,
                addresses,
            });
        }
        if all.is_empty() {
            return Err(node.bad_at("ethernets", "a device without an Ethernet interface is not supported"));
        }
        Ok(all)
    }

    /// The end of a flow with this name: that of the device, of its interface or of one of its addresses.
    fn end(&self, name: &str) -> Option<Station> {
        let named = self.addresses.iter().find(|address| address.name == name);
        let is_this = self.name == name || self.ethernet == name;
        if !is_this && named.is_none() {
            return None;
        }
        let address = named.or(self.addresses.first());
        Some(Station {
            port: self.port,
            mac: self.mac,
            ip: address.map(|address| (address.ip, address.gateway)),
            gateway_mac: address.and_then(|address| address.gateway_mac),
        })
    }
}

fn mac(node: &Node<'_>, field: &str) -> Result<Mac, Bad> {
    let text = node.needed(field)?;
    text.parse().map_err(|_| node.bad_at(field, format!("'{text}' is no MAC address")))
}

fn address(node: &Node<'_>, is_v4: bool) -> Result<Address, Bad> {
    let ip = |field: &str| {
        let text = node.needed(field)?;
        let ip = text.parse::<IpAddr>().ok().filter(|ip| ip.is_ipv4() == is_v4);
        ip.ok_or_else(|| node.bad_at(field, format!("'{text}' is no address of this kind")))
    };
    let router = node.child("gateway_mac");
    let gateway_mac = match router.choice("auto")? {
        "value" => Some(mac(&router, "value")?),
        _ => None,
    };
    Ok(Address {
        name: node.needed("name")?.to_owned(),
        ip: ip("address")?,
        gateway: ip("gateway")?,
        gateway_mac,
    })
}

/// The ends of a flow between stations.
///
/// # Errors
/// The place and what is wrong.
pub fn ends(node: &Node<'_>, devices: &[Device]) -> Result<[Station; 2], Bad> {
    if node.flag("bidirectional") {
        return Err(node.bad_at("bidirectional", "not supported: give a flow for each direction"));
    }
    let end = |field: &str| match node.texts(field)[..] {
        [name] => {
            let found = devices.iter().find_map(|device| device.end(name));
            found.ok_or_else(|| {
                node.bad_at(field, format!("there is no device, interface or address '{name}'"))
            })
        }
        _ => Err(node.bad_at(field, "give one name: several ends of a flow are not supported")),
    };
    Ok([end("tx_names")?, end("rx_names")?])
}
