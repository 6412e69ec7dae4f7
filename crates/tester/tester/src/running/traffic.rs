//! The traffic of a trial as people choose it: addresses, UDP ports, the number of flows.

use crate::error::Error;
use crate::running::learn::FlowPlan;
use crate::running::template::Template;
use crate::running::trial::Address;
use kpps_frames::flows::{Addresses, Flows, MOST_FLOWS, Numbers, PortNumbers};
use kpps_frames::{Encap, Mac, Mix, Size, TemplateOptions, Templates, headers};
use std::fmt::Write;
use std::net::{IpAddr, Ipv6Addr};

/// Addresses, UDP ports and the number of flows; a value that is `None` has a default.
#[derive(Clone, Debug, Default)]
pub struct Traffic {
    /// Source addresses, by default one of the benchmark network.
    pub src: Option<Addresses>,
    /// Destination addresses, by default one of the benchmark network.
    pub dst: Option<Addresses>,
    /// Whether the default addresses are of IPv6.
    pub ipv6: bool,
    /// Source ports, by default 49152, or with `flows` all from there up.
    pub sport: Option<PortNumbers>,
    /// Destination ports, by default the discard port 9.
    pub dport: Option<PortNumbers>,
    /// The number of flows, by default all combinations.
    pub flows: Option<u32>,
    /// The differentiated services code point, 0 to 63.
    pub dscp: Option<Numbers>,
    /// TTL or hop limit, 1 to 255.
    pub hops: Option<Numbers>,
    /// The encapsulation of the frames of each end.
    pub encap: [Encap; 2],
    /// The packet that all frames are made of. Its addresses and ports are the default ones.
    pub template: Option<Template>,
    /// Whether the second end replies to the flows as they arrive there.
    pub replies: bool,
}

/// The first dynamic port (RFC 6335), and how many there are.
const DYNAMIC: u16 = 49152;
const DYNAMIC_PORTS: u16 = 16384;

impl Traffic {
    /// Both ends with their gateways, as far as there are any; the first end sends to the station `to`, if it
    /// is given.
    ///
    /// # Errors
    /// A gateway of another version of IP.
    pub fn ends(&self, gateways: &[IpAddr], to: Option<Mac>) -> Result<[Address; 2], String> {
        let ips = self.addresses();
        if gateways.iter().any(|gateway| gateway.is_ipv4() != ips[0].first().is_ipv4()) {
            return Err(format!(
                "the gateway and {} have different IP versions: give both as IPv4 or both as IPv6",
                ips[0]
            ));
        }
        Ok([0, 1].map(|at: usize| Address {
            ips: ips[at],
            gateway: gateways.get(at).copied(),
            to: to.filter(|_| at == 0),
            encap: self.encap[at],
        }))
    }

    /// More than two ends, with these IP addresses or those of the benchmark network, and with their
    /// gateways, as far as there are any.
    ///
    /// # Errors
    /// Too few addresses, two equal ones, or different versions of IP; in one line. The versions of gateways
    /// are not checked.
    pub fn ends_of_mesh(
        &self,
        ports: usize,
        ips: &[IpAddr],
        gateways: &[IpAddr],
    ) -> Result<Vec<Address>, String> {
        let usual = |port: u16| match self.ipv6 {
            true => IpAddr::from(Ipv6Addr::new(0x2001, 2, 0, port, 0, 0, 0, 2)),
            false => IpAddr::from([198, 18, port as u8, 2]),
        };
        let ips = match ips.len() {
            0 => (1..=ports as u16).map(usual).collect(),
            count if count == ports => ips.to_vec(),
            count => return Err(format!("{count} addresses for {ports} ports: give one for each port")),
        };
        let first_is_v4 = ips.first().is_some_and(IpAddr::is_ipv4);
        if let Some(other) = ips.iter().find(|ip| ip.is_ipv4() != first_is_v4) {
            return Err(format!(
                "{other} is of another IP version than the first port's address: give one version"
            ));
        }
        if let Some(twice) = ips.iter().enumerate().find(|(at, ip)| ips.iter().take(*at).any(|it| it == *ip))
        {
            return Err(format!("two ports have the address {}: give each its own", twice.1));
        }
        let address = |(at, ip): (usize, &IpAddr)| Address {
            ips: Addresses::from(*ip, 1),
            gateway: gateways.get(at).copied(),
            to: None,
            encap: Encap::default(),
        };
        Ok(ips.iter().enumerate().map(address).collect())
    }

    /// The addresses of both ends.
    pub fn addresses(&self) -> [Addresses; 2] {
        let ipv6 = |net: u16, host: u16| IpAddr::from(Ipv6Addr::new(0x2001, 2, 0, net, 0, 0, 0, host));
        let usual = match self.ipv6 {
            // RFC 5180, 8; RFC 2544, C.2.2.
            true => [ipv6(1, 1), ipv6(2, 2)],
            false => [[198, 18, 0, 1], [198, 19, 0, 2]].map(IpAddr::from),
        };
        let own = self.template.as_ref().and_then(|it| headers::addresses(&it.packet.bytes));
        let [from, to] = own.unwrap_or(usual).map(|address| Addresses::from(address, 1));
        let mut from = self.src.unwrap_or(from);
        // More flows than one address has ports come from several.
        if let (Some(flows), None, 1) = (self.flows, self.sport, from.count()) {
            let (to, ports) = (self.dst.map_or(1, |to| to.count()), self.dport.map_or(1, |it| it.count()));
            let of_one_source = u32::from(DYNAMIC_PORTS).saturating_mul(to.saturating_mul(ports));
            from = Addresses::from(from.first(), flows.div_ceil(of_one_source));
        }
        [from, self.dst.unwrap_or(to)]
    }

    /// How many flows there are, and their ports.
    pub fn plan(&self) -> FlowPlan {
        let sports = if self.flows.is_some() { DYNAMIC_PORTS } else { 1 };
        let own = self.template.as_ref().and_then(|it| headers::flow(&it.packet.bytes));
        let own = own.map(|flow| [flow.from.1, flow.to.1].map(|port| PortNumbers::from(port, 1)));
        let [sport, dport] = own.unwrap_or([PortNumbers::from(DYNAMIC, sports), PortNumbers::from(9, 1)]);
        let turns = [self.dscp, self.hops].into_iter().flatten().map(|numbers| numbers.count());
        let layers = self.encap.iter().map(Encap::turn);
        FlowPlan {
            count: self.flows,
            sports: self.sport.unwrap_or(sport),
            dports: self.dport.unwrap_or(dport),
            turn: turns.chain(layers).max().unwrap_or(1),
            replies: self.replies,
            dscp: self.dscp,
            hops: self.hops,
            packet: self.template.as_ref().map(|it| it.packet.clone()),
        }
    }

    /// The flows from the first end to the second.
    ///
    /// # Errors
    /// Addresses of two IP versions, or too few or too many flows; in one line.
    pub fn flows(&self) -> Result<Flows, String> {
        let [from, to] = self.addresses();
        if from.first().is_ipv4() != to.first().is_ipv4() {
            return Err(format!(
                "{from} and {to} have different IP versions: give both as IPv4 or both as IPv6"
            ));
        }
        let plan = self.plan();
        plan.over([from, to]).ok_or_else(|| {
            let FlowPlan { sports, dports, .. } = plan;
            format!(
                "the ranges from {from} port {sports} to {to} port {dports} have fewer flows than requested, or more than {MOST_FLOWS}: give a number of flows that the ranges have"
            )
        })
    }

    /// The size of the frames of the first end, if a packet says it.
    pub fn size(&self) -> Option<Size> {
        let bytes = self.template.as_ref()?.packet.bytes.len() + self.encap[0].bytes();
        Some(Size::without_fcs(u16::try_from(bytes).unwrap_or(u16::MAX)))
    }

    /// The size of frames where none is given, if it is not the usual one: that of a packet, or the smallest
    /// that the version of IP and the encapsulations of both ends allow.
    pub fn least_size(&self) -> Option<Size> {
        let layers = self.encap.iter().map(Encap::bytes).max().unwrap_or(0);
        // In layers, two more bytes keep the checksum of the tag the same.
        let balance = if self.encap.iter().all(Encap::is_plain) { 0 } else { 2 };
        let ip = if self.addresses()[0].first().is_ipv4() { 64 } else { 84 };
        let least = Size::with_fcs((ip + layers + balance) as u16);
        self.size().or_else(|| (least > Size::MIN).then_some(least))
    }

    /// The frames of the first end between two stations.
    ///
    /// # Errors
    /// As [`flows`](Self::flows); sizes that are not possible.
    pub fn frames(&self, macs: [Mac; 2], sizes: &Mix) -> Result<Templates, String> {
        let flows = self.flows()?;
        let plan = self.plan();
        let options = TemplateOptions {
            encap: self.encap[0],
            inside: macs,
            dscp: plan.dscp,
            hops: plan.hops,
            balanced: false,
            packet: plan.packet.as_deref(),
        };
        let flows: Vec<_> = (0..flows.count).map(|n| flows.nth(n, macs, None)).collect();
        options.templates(flows.into_iter(), sizes, 0).map_err(|why| Error::frame(sizes, why).to_string())
    }

    /// How the traffic differs from the default, in words; empty if it does not.
    pub fn differences(&self, vlans: &[u16]) -> String {
        let mut text = String::new();
        let mut say = |what: std::fmt::Arguments<'_>| {
            let _ = write!(text, "{}{what}", if text.is_empty() { "" } else { ", " });
        };
        if self.src.is_some() || self.dst.is_some() || self.ipv6 {
            let [from, to] = self.addresses();
            say(format_args!("{from} to {to}"));
        }
        if let Some(flows) = self.flows {
            say(format_args!("{flows} flows"));
        }
        if let Some(sport) = self.sport {
            say(format_args!("source ports {sport}"));
        }
        if let Some(dport) = self.dport {
            say(format_args!("destination ports {dport}"));
        }
        for (name, numbers) in [("DSCP", self.dscp), ("TTL", self.hops)] {
            if let Some(numbers) = numbers {
                say(format_args!("{name} {numbers}"));
            }
        }
        if let Some(template) = &self.template {
            say(format_args!("packets of {}", template.name));
            let more = template.packet.extended;
            if more > 0 {
                say(format_args!("{more} B longer for the tag"));
            }
        }
        if vlans.is_empty() && self.encap.iter().any(|encap| !encap.is_none()) {
            let [one, other] = self.encap;
            match one == other.reversed() {
                true => say(format_args!("in {one}")),
                false => say(format_args!("in {one} and {other}")),
            }
        }
        if self.replies {
            say(format_args!("the second port replies"));
        }
        if vlans.iter().any(|vlan| *vlan != 0) {
            let number = |vlan: &u16| if *vlan == 0 { "none".to_owned() } else { vlan.to_string() };
            let vlans: Vec<_> = vlans.iter().map(number).collect();
            say(format_args!("VLAN {}", vlans.join(" and ")));
        }
        text
    }
}

/// Numbers from `LEAST` to `MOST`, as people give them.
///
/// # Errors
/// The mistake in the text, in one line.
pub fn numbers<const LEAST: u32, const MOST: u32>(text: &str) -> Result<Numbers, String> {
    let numbers: Numbers = text.parse().map_err(|error: kpps_frames::flows::BadRange| error.to_string())?;
    match numbers.within(LEAST, MOST) {
        true => Ok(numbers),
        false => Err(format!("{text} is out of range: give {LEAST} to {MOST}")),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    /// Traffic as the command's options say it.
    fn traffic(words: &str) -> Traffic {
        let mut traffic = Traffic::default();
        let mut words = words.split_whitespace();
        while let Some(option) = words.next() {
            let mut value = || words.next().unwrap();
            match option {
                "--src" => traffic.src = Some(value().parse().unwrap()),
                "--dst" => traffic.dst = Some(value().parse().unwrap()),
                "--sport" => traffic.sport = Some(value().parse().unwrap()),
                "--dport" => traffic.dport = Some(value().parse().unwrap()),
                "--flows" => traffic.flows = Some(value().parse().unwrap()),
                "--ipv6" => traffic.ipv6 = true,
                "--dscp" => traffic.dscp = Some(value().parse().unwrap()),
                "--encap" => traffic.encap = [value().parse().unwrap(); 2],
                other => panic!("{other}"),
            }
        }
        traffic
    }

    #[test]
    fn flows_as_people_ask_for_them() {
        for (words, count, last) in [
            ("", 1, "198.18.0.1:49152 > 198.19.0.2:9"),
            ("--flows 3", 3, "198.18.0.1:49154 > 198.19.0.2:9"),
            ("--flows 16385", 16385, "198.18.0.2:49152 > 198.19.0.2:9"),
            ("--src 10.0.0.1-10.0.0.200 --dst 10.1.0.1-10.1.0.2", 400, "10.0.0.200:49152 > 10.1.0.2:9"),
            ("--src 10.0.0.1-10.0.0.2 --sport 5-6 --flows 3", 3, "10.0.0.2:5 > 198.19.0.2:9"),
            ("--dscp 0-7", 8, "198.18.0.1:49152 > 198.19.0.2:9"),
            ("--flows 20 --sport 5-6 --encap vlan:1-10", 20, "198.18.0.1:6 > 198.19.0.2:9"),
            ("--sport 100-200/50 --dst 10.1.0.1-10.1.0.2", 6, "198.18.0.1:200 > 10.1.0.2:9"),
            ("--ipv6 --dport 7-8", 2, "[2001:2:0:1::1]:49152 > [2001:2:0:2::2]:8"),
        ] {
            let flows = traffic(words).flows().unwrap();
            let flow = flows.nth(flows.count - 1, Default::default(), None);
            let name = format!(
                "{} > {}",
                std::net::SocketAddr::from(flow.from),
                std::net::SocketAddr::from(flow.to)
            );
            assert_eq!((flows.count, &name[..]), (count, last), "{words}");
        }
        for bad in ["--src 10.0.0.1 --dst ::1", "--sport 5 --flows 2", "--src 10.0.0.0-10.255.255.255"] {
            assert!(traffic(bad).flows().is_err(), "{bad}");
        }
        let least = |words| traffic(words).least_size().map(Size::bytes_with_fcs);
        assert_eq!([least(""), least("--ipv6"), least("--encap vlan:7")], [None, Some(84), Some(68)]);
        assert_eq!(least("--encap mpls:16"), Some(70));
        assert_eq!(traffic("").differences(&[]), "");
        assert_eq!(traffic("--dscp 46 --encap mpls:16").differences(&[]), "DSCP 46, in mpls:16");
        assert_eq!(
            traffic("--flows 5 --src 10.0.0.1").differences(&[7]),
            "10.0.0.1 to 198.19.0.2, 5 flows, VLAN 7"
        );
    }
}
