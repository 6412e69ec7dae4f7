//! The network of the tests: two ports, each with a network of the router and a host in it.

use kpps_apps::Interface;
use kpps_frames::Mac;
use std::net::Ipv4Addr;

pub const S: u64 = 1_000_000_000;
pub const OURS: [Mac; 2] = [Mac([2, 0, 0, 0, 1, 0]), Mac([2, 0, 0, 0, 1, 1])];
pub const HOST: [Mac; 2] = [Mac([2, 0, 0, 0, 9, 0]), Mac([2, 0, 0, 0, 9, 1])];
pub const HERE: [Ipv4Addr; 2] = [Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(10, 0, 1, 1)];
pub const THERE: [Ipv4Addr; 2] = [Ipv4Addr::new(10, 0, 0, 2), Ipv4Addr::new(10, 0, 1, 2)];

/// An interface with this address.
pub fn interface(port: usize, vlan: Option<u16>, address: Ipv4Addr) -> Interface {
    Interface { port, vlan, mac: OURS[port], net: format!("{address}/24").parse().unwrap(), mtu: 1500 }
}

/// The router's interfaces, one for each port.
pub fn interfaces() -> Vec<Interface> {
    vec![interface(0, None, HERE[0]), interface(1, None, HERE[1])]
}
