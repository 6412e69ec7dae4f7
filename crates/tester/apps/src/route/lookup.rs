//! Click's `RadixIPLookup`: the route by longest matching prefix.

use super::{Interface, Misconfigured, Route};
use ipnet::Ipv4Net;
use prefix_trie::PrefixMap;
use std::net::Ipv4Addr;

/// The next hop of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Hop {
    /// The interface that it leaves by.
    pub(super) interface: usize,
    /// The next router, or the destination itself.
    pub(super) next: Ipv4Addr,
}

/// The route to a network.
#[derive(Clone, Copy, Debug)]
struct Way {
    interface: usize,
    /// The next router; `None`: the hosts are on the link.
    via: Option<Ipv4Addr>,
}

#[derive(Debug)]
pub(super) struct RadixIpLookup {
    table: PrefixMap<Ipv4Net, Way>,
}

impl RadixIpLookup {
    pub(super) fn new(interfaces: &[Interface], routes: &[Route]) -> Result<Self, Misconfigured> {
        let mut table = PrefixMap::new();
        for (index, interface) in interfaces.iter().enumerate() {
            let net = interface.net;
            let no_host =
                net.prefix_len() < 31 && (net.addr() == net.network() || net.addr() == net.broadcast());
            if super::class_of(net.addr()) == super::Destination::Never || no_host || net.prefix_len() == 0 {
                return Err(Misconfigured::Address(net));
            }
            let overlaps =
                |other: &&Interface| other.net.contains(&net.trunc()) || net.contains(&other.net.trunc());
            if let Some(other) = interfaces[..index].iter().find(overlaps) {
                return Err(Misconfigured::Overlap(other.net, net));
            }
            table.insert(net.trunc(), Way { interface: index, via: None });
        }
        for route in routes {
            let on_link = |interface: &Interface| {
                interface.net.contains(&route.via) && interface.net.addr() != route.via
            };
            let interface =
                interfaces.iter().position(on_link).ok_or(Misconfigured::Unreachable(route.via))?;
            if table.insert(route.to.trunc(), Way { interface, via: Some(route.via) }).is_some() {
                return Err(Misconfigured::Twice(route.to.trunc()));
            }
        }
        Ok(Self { table })
    }

    /// The next hop towards `destination`.
    #[inline]
    pub(super) fn find(&self, destination: Ipv4Addr) -> Option<Hop> {
        let (_, way) = self.table.get_lpm(&Ipv4Net::from(destination))?;
        Some(Hop { interface: way.interface, next: way.via.unwrap_or(destination) })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use kpps_frames::Mac;
    use proptest::prelude::*;

    fn interface(net: &str) -> Interface {
        Interface { port: 0, vlan: None, mac: Mac([2; 6]), net: net.parse().unwrap(), mtu: 1500 }
    }

    #[test]
    fn invalid_tables_are_refused() {
        let one = [interface("10.0.0.1/24"), interface("10.0.1.1/24")];
        let route = |to: &str, via: &str| Route { to: to.parse().unwrap(), via: via.parse().unwrap() };
        assert!(RadixIpLookup::new(&one, &[route("0.0.0.0/0", "10.0.1.2")]).is_ok());
        let net = |text: &str| text.parse::<Ipv4Net>().unwrap();
        for (interfaces, routes, error) in [
            (vec![interface("127.0.0.1/8")], vec![], Misconfigured::Address(net("127.0.0.1/8"))),
            (vec![interface("10.0.0.255/24")], vec![], Misconfigured::Address(net("10.0.0.255/24"))),
            (vec![interface("10.0.0.0/24")], vec![], Misconfigured::Address(net("10.0.0.0/24"))),
            (
                vec![one[0], interface("10.0.0.200/25")],
                vec![],
                Misconfigured::Overlap(net("10.0.0.1/24"), net("10.0.0.200/25")),
            ),
            (
                one.to_vec(),
                vec![route("10.9.0.0/16", "10.0.2.1")],
                Misconfigured::Unreachable([10, 0, 2, 1].into()),
            ),
            (
                one.to_vec(),
                vec![route("10.9.0.0/16", "10.0.0.1")],
                Misconfigured::Unreachable([10, 0, 0, 1].into()),
            ),
            (one.to_vec(), vec![route("10.0.0.9/24", "10.0.1.2")], Misconfigured::Twice(net("10.0.0.0/24"))),
        ] {
            assert_eq!(RadixIpLookup::new(&interfaces, &routes).err(), Some(error));
        }
    }

    proptest! {
        /// By definition: of all networks that contain the address, the one with the longest prefix.
        #[test]
        fn the_longest_prefix_wins(
            nets in prop::collection::btree_map((0u32..64, 1u8..=32), Just(()), 0..20),
            addresses in prop::collection::vec(0u32..64, 20),
        ) {
            // Few different high bits, so that prefixes overlap.
            let spread = |bits: u32| Ipv4Addr::from(0x4000_0000 | (bits & 0x38) << 13 | (bits & 7) << 1);
            let port = interface("192.168.0.1/30");
            let mut routes: Vec<Route> = nets
                .keys()
                .enumerate()
                .map(|(i, &(bits, length))| Route {
                    to: Ipv4Net::new(spread(bits), length).unwrap().trunc(),
                    via: Ipv4Addr::from([192, 168, 0, if i % 2 == 0 { 2 } else { 3 }]),
                })
                .collect();
            routes.sort_by_key(|route| route.to);
            routes.dedup_by_key(|route| route.to);
            let table = RadixIpLookup::new(&[port], &routes).unwrap();
            for address in addresses.into_iter().map(spread) {
                let matching = routes.iter().filter(|route| route.to.contains(&address));
            let best = matching.max_by_key(|route| route.to.prefix_len());
                prop_assert_eq!(table.find(address).map(|hop| hop.next), best.map(|route| route.via));
            }
        }
    }
}
