//! Stations: the devices of a configuration.

use super::Port;
use super::node::{Bad, Node};
use kpps_frames::Mac;
use kpps_frames::encap::Tags;
use kpps_frames::ethernet::TYPE_VLAN;
use kpps_frames::flows::Addresses;
use kpps_frames::headers::TYPE_SERVICE_VLAN;
use kpps_tester::neighbours;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::net::IpAddr;

/// The most pairs of stations that a flow connects.
const MOST_PAIRS: usize = 1 << 16;

/// An Ethernet interface of a device, with its IP addresses.
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
    /// Its VLANs.
    pub tags: Tags,
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
    /// The bits of the address that all stations of its network have.
    pub prefix: u8,
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
    /// Its VLANs.
    pub tags: Tags,
    /// Its IP address and its router.
    pub ip: Option<(IpAddr, IpAddr)>,
    /// The bits of the address that all stations of its network have.
    pub prefix: u8,
    /// The router's address on the link, if it is not resolved.
    pub gateway_mac: Option<Mac>,
}

impl Station {
    /// Whether its frames go to another station without a router: both are in one VLAN, and the other one's
    /// address is in its network (RFC 1122, 3.3.1.1). A router whose address on the link is given has them in
    /// any case.
    pub fn reaches(&self, other: &Self) -> bool {
        if self.gateway_mac.is_some() {
            return false;
        }
        let Some(((own, _), (ip, _))) = self.ip.zip(other.ip) else { return false };
        // The first bits of an address, behind each other at the top.
        let network = |ip: IpAddr| match ip {
            IpAddr::V4(ip) => u128::from(u32::from(ip)) << 96,
            IpAddr::V6(ip) => u128::from(ip),
        };
        let differing = (network(own) ^ network(ip)).leading_zeros();
        // The type of each tag and its VLAN, without the priority.
        let vlans =
            |station: &Self| station.tags.0.map(|tag| tag.map(|(kind, control)| (kind, control & 0xfff)));
        own.is_ipv4() == ip.is_ipv4() && vlans(self) == vlans(other) && differing >= self.prefix.into()
    }

    /// The same for the tester, which answers questions for it; `None` without an address.
    pub fn answering(&self) -> Option<neighbours::Station> {
        let ips = Addresses::from(self.ip?.0, 1);
        Some(neighbours::Station { mac: self.mac, tags: self.tags, ips })
    }
}

impl Device {
    /// Reads a device: one of these for each of its Ethernet interfaces.
    ///
    /// # Errors
    /// The place and what is wrong.
    pub fn read(node: &Node<'_>, ports: &[Port]) -> Result<Vec<Self>, Bad> {
        let name = node.needed("name")?;
        let mut all: Vec<Self> = Vec::new();
        for ethernet in node.children("ethernets") {
            let connection = ethernet.child("connection");
            let port_name = connection.needed("port_name")?;
            let port = ports.iter().position(|port| port.name == port_name);
            let port = port
                .ok_or_else(|| connection.bad_at("port_name", format!("there is no port '{port_name}'")))?;
            let mut addresses = Vec::new();
            for (list, is_v4) in [("ipv4_addresses", true), ("ipv6_addresses", false)] {
                for node in ethernet.children(list) {
                    addresses.push(address(&node, is_v4)?);
                }
            }
            all.push(Self {
                name: name.to_owned(),
                ethernet: ethernet.needed("name")?.to_owned(),
                port,
                mac: mac(&ethernet, "mac")?,
                tags: tags(&ethernet)?,
                addresses,
            });
        }
        if all.is_empty() {
            return Err(node.bad_at("ethernets", "a device without an Ethernet interface is not supported"));
        }
        Ok(all)
    }

    /// Its stations: one for each address, or one without an address.
    pub fn stations(&self) -> Vec<Station> {
        let station = |address: Option<&Address>| Station {
            port: self.port,
            mac: self.mac,
            tags: self.tags,
            ip: address.map(|address| (address.ip, address.gateway)),
            prefix: address.map_or(0, |address| address.prefix),
            gateway_mac: address.and_then(|address| address.gateway_mac),
        };
        match self.addresses.is_empty() {
            true => vec![station(None)],
            false => self.addresses.iter().map(|address| station(Some(address))).collect(),
        }
    }
}

/// The names of devices, of their interfaces and of their addresses, with the stations of each.
#[derive(Clone, Debug, Default)]
pub struct Names(BTreeMap<String, Vec<Station>>);

impl Names {
    /// Adds the interfaces of a device.
    ///
    /// # Errors
    /// A name that two of these have.
    pub fn add(&mut self, interfaces: &[Device]) -> Result<(), String> {
        let mut add = |name: &str, stations: &[Station]| match self.0.entry(name.to_owned()) {
            Entry::Occupied(_) => {
                Err(format!("'{name}' is the name of two devices, interfaces or addresses"))
            }
            Entry::Vacant(free) => {
                free.insert(stations.to_vec());
                Ok(())
            }
        };
        let all: Vec<Station> = interfaces.iter().flat_map(Device::stations).collect();
        interfaces.first().map_or(Ok(()), |device| add(&device.name, &all))?;
        for interface in interfaces {
            let stations = interface.stations();
            add(&interface.ethernet, &stations)?;
            for (address, station) in interface.addresses.iter().zip(stations) {
                add(&address.name, &[station])?;
            }
        }
        Ok(())
    }

    /// The end of a flow with this name: an address. Of a device or interface it is the first address; of
    /// IPv6 or IPv4 if the flow's packets are.
    fn end(&self, name: &str, is_v6: Option<bool>) -> Option<Station> {
        let stations = self.0.get(name)?;
        let fits = |it: &&Station| is_v6.is_none_or(|is_v6| it.ip.is_some_and(|ip| ip.0.is_ipv6() == is_v6));
        stations.iter().find(fits).or(stations.first()).copied()
    }
}

/// The VLAN tags of an interface.
fn tags(ethernet: &Node<'_>) -> Result<Tags, Bad> {
    let mut tags = Tags::default();
    let vlans = ethernet.children("vlans");
    if vlans.len() > tags.0.len() {
        return Err(ethernet.bad_at("vlans", format!("at most {} are supported", tags.0.len())));
    }
    for (tag, vlan) in tags.0.iter_mut().zip(vlans) {
        let kind = match vlan.text("tpid") {
            None | Some("x8100") => TYPE_VLAN,
            Some("x88A8") => TYPE_SERVICE_VLAN,
            Some(other) => {
                return Err(vlan.bad_at("tpid", format!("{other}: only x8100 and x88A8 are supported")));
            }
        };
        let number = |field: &str, usual: u64, most: u64| match vlan.uint(field).unwrap_or(usual) {
            number if number <= most => Ok(number as u16),
            number => Err(vlan.bad_at(field, format!("{number}: give at most {most}"))),
        };
        *tag = Some((kind, number("priority", 0, 7)? << 13 | number("id", 1, 4095)?));
    }
    Ok(tags)
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
    let (usual, width) = if is_v4 { (24, 32) } else { (64, 128) };
    Ok(Address {
        name: node.needed("name")?.to_owned(),
        ip: ip("address")?,
        prefix: match node.uint("prefix").unwrap_or(usual) {
            bits if (1..=width).contains(&bits) => bits as u8,
            bits => return Err(node.bad_at("prefix", format!("{bits}: give 1 to {width}"))),
        },
        gateway: ip("gateway")?,
        gateway_mac,
    })
}

/// The ends of a flow between stations: one pair for each sender and receiver that it connects. `is_v6`:
/// whether its packets are of IPv6, if they are of IP.
///
/// # Errors
/// The place and what is wrong.
pub fn ends(node: &Node<'_>, names: &Names, is_v6: Option<bool>) -> Result<Vec<[Station; 2]>, Bad> {
    let named = |field: &str| {
        let end = |name: &str| {
            names.end(name, is_v6).ok_or_else(|| {
                node.bad_at(field, format!("there is no device, interface or address '{name}'"))
            })
        };
        let found: Vec<Station> = node.texts(field).into_iter().map(end).collect::<Result<_, _>>()?;
        match found.is_empty() {
            true => Err(node.bad_at(field, "it is missing")),
            false => Ok(found),
        }
    };
    let (from, to) = (named("tx_names")?, named("rx_names")?);
    let ends: Vec<[Station; 2]> = match node.text("mode") {
        Some("one_to_one") if from.len() != to.len() => {
            let (from, to) = (from.len(), to.len());
            return Err(node.bad_at("mode", format!("one_to_one with {from} senders and {to} receivers")));
        }
        Some("one_to_one") => from.into_iter().zip(to).map(<[Station; 2]>::from).collect(),
        _ if from.len().saturating_mul(to.len()) > MOST_PAIRS => {
            return Err(node.bad(format!("there are more than {MOST_PAIRS} pairs of stations")));
        }
        _ => from.iter().flat_map(|from| to.iter().map(|to| [*from, *to])).collect(),
    };
    let version = |station: &Station| station.ip.map(|ip| ip.0.is_ipv4());
    let all: Vec<Option<bool>> = ends.iter().flatten().map(version).collect();
    match all.windows(2).all(|both| both.first() == both.last()) {
        true => Ok(ends),
        false => Err(node.bad("its stations have addresses of different versions of IP")),
    }
}
