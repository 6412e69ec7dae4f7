//! The stations at the ports of a configuration, and their routers.

use crate::rules::Refusal;
use crate::translation::{Configuration, Station};
use kpps_frames::Mac;
use kpps_frames::flows::Addresses;
use kpps_frames::pattern::Pattern;
use kpps_frames::stack::Stack;
use kpps_tester::{Address, Tester, neighbours};
use std::collections::BTreeMap;
use std::net::IpAddr;

/// A router: the port, the VLANs and the IP address.
pub type Router = (usize, Vec<u16>, IpAddr);

/// The router of a station.
fn router_of(station: &Station) -> Option<Router> {
    Some((station.port, station.tags.ids().collect(), station.ip?.1))
}

/// The router that the frames from a station to another one need.
pub fn router_between([from, to]: &[Station; 2]) -> Option<Router> {
    router_of(from).filter(|_| !from.reaches(to))
}

/// The stations at the ports of a configuration.
#[derive(Clone, Debug, Default)]
pub struct Stations {
    /// The stations of each port.
    at: Vec<Vec<Station>>,
    /// The addresses on the link of routers.
    routers: BTreeMap<Router, Mac>,
}

impl Stations {
    /// The stations of a configuration.
    pub fn of(all: &Configuration) -> Self {
        let mut at = vec![Vec::new(); all.ports.len()];
        for device in &all.devices {
            at.get_mut(device.port).into_iter().for_each(|there| there.extend(device.stations()));
        }
        Self { at, routers: BTreeMap::new() }
    }

    /// Whether there are any.
    pub fn exist(&self) -> bool {
        self.at.iter().any(|stations| !stations.is_empty())
    }

    /// Ports with stations have the address of a station in place of these.
    pub fn replace(&self, addresses: &mut [Address]) {
        for (address, stations) in addresses.iter_mut().zip(&self.at) {
            if let Some((ip, _)) = stations.iter().find_map(|station| station.ip) {
                address.ips = Addresses::from(ip, 1);
            }
        }
    }

    /// A tester answers for the stations from now on.
    pub fn join(&self, tester: &mut Tester) {
        for (at, stations) in self.at.iter().enumerate() {
            let with_ip = stations.iter().position(|station| station.ip.is_some());
            let first = with_ip.unwrap_or(0);
            stations.get(first).into_iter().for_each(|station| tester.set_station(at, station.mac));
            tester.set_stations(at, stations.iter().filter_map(Station::answering).collect());
        }
        if self.exist() {
            tester.attend();
        }
    }

    /// Resolves the routers that are not known, of those for which `is_wanted` holds. Some may not answer.
    ///
    /// # Errors
    /// A port failed.
    pub fn resolve(
        &mut self,
        tester: &mut Tester,
        is_wanted: impl Fn(&Router) -> bool,
    ) -> Result<(), Refusal> {
        let mut open: BTreeMap<Router, neighbours::Station> = BTreeMap::new();
        for station in self.at.iter().flatten().filter(|station| station.gateway_mac.is_none()) {
            if let (Some(router), Some(asking)) = (router_of(station), station.answering())
                && !self.routers.contains_key(&router)
                && is_wanted(&router)
            {
                open.entry(router).or_insert(asking);
            }
        }
        if open.is_empty() {
            return Ok(());
        }
        let question = |((port, _, ip), asking): (&Router, &neighbours::Station)| (*port, *asking, *ip);
        let questions: Vec<_> = open.iter().map(question).collect();
        let found = tester.resolve_for(&questions, &|| true);
        let found = found.map_err(|error| Refusal::failed(error.to_string()))?;
        self.routers.extend(open.into_keys().zip(found).filter_map(|(router, mac)| Some((router, mac?))));
        Ok(())
    }

    /// The router of a station: its IP address and its address on the link, if that is known.
    pub fn router(&self, station: &Station) -> Option<(IpAddr, Mac)> {
        let router = router_of(station)?;
        let mac = station.gateway_mac.or_else(|| self.routers.get(&router).copied())?;
        Some((router.2, mac))
    }

    /// Gives the frames of a flow the addresses of its ends where the flow has none.
    ///
    /// # Errors
    /// A router that has not answered, in words.
    pub fn address(&self, ends: &[[Station; 2]], stack: &mut Stack) -> Result<(), String> {
        let next_hop = |[from, to]: &[Station; 2]| match from.ip {
            None => Ok(to.mac),
            Some(_) if from.reaches(to) => Ok(to.mac),
            Some((ip, router)) => match self.router(from) {
                Some((_, mac)) => Ok(mac),
                None => Err(format!("the router {router} of {ip} does not answer")),
            },
        };
        let hops = ends.iter().map(next_hop).collect::<Result<Vec<Mac>, _>>()?;
        set(stack, "ethernet.src", ends.iter().map(|[from, _]| from.mac.to_string()))?;
        set(stack, "ethernet.dst", hops.iter().map(Mac::to_string))?;
        for (end, field) in ["src", "dst"].into_iter().enumerate() {
            let ips: Vec<IpAddr> = ends.iter().filter_map(|both| Some(both.get(end)?.ip?.0)).collect();
            let Some(first) = ips.first().filter(|_| ips.len() == ends.len()) else { continue };
            let kind = if first.is_ipv4() { "ipv4" } else { "ipv6" };
            set(stack, &format!("{kind}.{field}"), ips.iter().map(IpAddr::to_string))?;
        }
        Ok(())
    }
}

/// Sets a field of a stack to these values, if the stack has the field and the flow has not set it.
fn set(stack: &mut Stack, name: &str, values: impl Iterator<Item = String>) -> Result<(), String> {
    if stack.is_set(name) != Some(false) {
        return Ok(());
    }
    let format = stack.format(name).map_err(|why| why.to_string())?;
    let mut values: Vec<u128> = values.filter_map(|text| format.read(&text)).collect();
    if values.windows(2).all(|both| both.first() == both.last()) {
        values.truncate(1);
    }
    let pattern = match values[..] {
        [only] => Pattern::one(only),
        _ => Pattern::List(values.into()),
    };
    stack.set(name, pattern).map_err(|why| why.to_string())
}
