//! What frames look like: their sizes, addresses and flows.

use crate::error::Failure;
use clap::Args;
use kpps_frames::Mac;
use kpps_frames::flows::{Addresses, Flows, MOST_FLOWS, Ports};
use kpps_measure::units::Rate;
use kpps_tester::FlowPlan;
use std::fmt::Write;
use std::net::{IpAddr, Ipv6Addr};

/// Addresses and ports of frames.
#[derive(Args)]
pub struct Traffic {
    /// Source addresses, which the first port answers for: one, or FIRST-LAST as 10.0.0.1-10.0.0.200; IPv4 or
    /// IPv6 [default: 198.18.0.1]
    #[arg(long, value_name = "ADDRESSES")]
    src: Option<Addresses>,
    /// Destination addresses, which the second port answers for [default: 198.19.0.2]
    #[arg(long, value_name = "ADDRESSES")]
    dst: Option<Addresses>,
    /// Use IPv6, between the benchmark addresses 2001:2:0:1::1 and 2001:2:0:2::2 if no others are given;
    /// frames have at least 84 bytes with FCS
    #[arg(long)]
    ipv6: bool,
    /// UDP source ports: one, or FIRST-LAST [default: 49152; with --flows from there up]
    #[arg(long, value_name = "PORTS")]
    sport: Option<Ports>,
    /// UDP destination ports: one, or FIRST-LAST [default: 9]
    #[arg(long, value_name = "PORTS")]
    dport: Option<Ports>,
    /// Number of UDP flows, in turns: source ports count up first, then source addresses, destination
    /// addresses, destination ports [default: all flows of the given ranges]
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=i64::from(MOST_FLOWS)))]
    flows: Option<u32>,
}

/// The first dynamic port (RFC 6335), and how many there are.
const DYNAMIC: u16 = 49152;
const DYNAMIC_PORTS: u16 = 16384;

impl Traffic {
    /// The addresses of both ends.
    pub fn addresses(&self) -> [Addresses; 2] {
        let ipv6 = |net: u16, host: u16| IpAddr::from(Ipv6Addr::new(0x2001, 2, 0, net, 0, 0, 0, host));
        let usual = match self.ipv6 {
            // RFC 5180, 8; RFC 2544, C.2.2.
            true => [ipv6(1, 1), ipv6(2, 2)],
            false => [[198, 18, 0, 1], [198, 19, 0, 2]].map(IpAddr::from),
        };
        let [from, to] = usual.map(|address| Addresses::from(address, 1));
        let mut from = self.src.unwrap_or(from);
        // More flows than one address has ports come from several.
        if let (Some(flows), None, 1) = (self.flows, self.sport, from.count()) {
            let others = self
                .dst
                .map_or(1, |to| to.count())
                .saturating_mul(self.dport.map_or(1, |ports| ports.count()));
            from = Addresses::from(
                from.first(),
                flows.div_ceil(u32::from(DYNAMIC_PORTS).saturating_mul(others)),
            );
        }
        [from, self.dst.unwrap_or(to)]
    }

    /// How many flows there are, and their ports.
    pub fn plan(&self) -> FlowPlan {
        let sports = if self.flows.is_some() { DYNAMIC_PORTS } else { 1 };
        FlowPlan {
            count: self.flows,
            sports: self.sport.unwrap_or(Ports::from(DYNAMIC, sports)),
            dports: self.dport.unwrap_or(Ports::from(9, 1)),
        }
    }

    /// The flows from the first end to the second.
    pub fn flows(&self) -> Result<Flows, Failure> {
        let [from, to] = self.addresses();
        if from.first().is_ipv4() != to.first().is_ipv4() {
            return Err(Failure::Input(format!("{from} and {to} are of two versions of IP")));
        }
        let FlowPlan { count, sports, dports } = self.plan();
        Flows::new(count, [from, to], [sports, dports]).ok_or_else(|| {
            Failure::Input(format!(
                "from {from} port {sports} to {to} port {dports} there are fewer flows than that, or more than {MOST_FLOWS}: give --flows"
            ))
        })
    }

    /// How the traffic differs from the default, in words; empty if it does not.
    pub fn unusual(&self, vlans: &[u16]) -> String {
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
        if !vlans.is_empty() {
            let vlans: Vec<_> = vlans.iter().map(ToString::to_string).collect();
            say(format_args!("VLAN {}", vlans.join(" and ")));
        }
        text
    }
}

/// A MAC address.
pub fn mac(text: &str) -> Result<Mac, String> {
    let parts: Vec<_> = text.split(':').map(|part| u8::from_str_radix(part, 16)).collect();
    let bytes: Result<Vec<u8>, _> = parts.into_iter().collect();
    bytes
        .ok()
        .and_then(|bytes| bytes.try_into().ok())
        .map(Mac)
        .ok_or_else(|| format!("'{text}' is not a MAC address like 02:00:00:00:00:02"))
}

/// A load, or `max`.
pub fn load(text: &str) -> Result<Rate, String> {
    // `max` is above whatever any port can do.
    if text == "max" { Ok(Rate::Pps(f64::INFINITY)) } else { text.parse() }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Only {
        #[command(flatten)]
        traffic: Traffic,
    }

    fn traffic(words: &str) -> Traffic {
        Only::parse_from(std::iter::once("x").chain(words.split_whitespace())).traffic
    }

    #[test]
    fn flows_as_people_ask_for_them() {
        for (words, count, last) in [
            ("", 1, "198.18.0.1:49152 > 198.19.0.2:9"),
            ("--flows 3", 3, "198.18.0.1:49154 > 198.19.0.2:9"),
            ("--flows 16385", 16385, "198.18.0.2:49152 > 198.19.0.2:9"),
            ("--src 10.0.0.1-10.0.0.200 --dst 10.1.0.1-10.1.0.2", 400, "10.0.0.200:49152 > 10.1.0.2:9"),
            ("--src 10.0.0.1-10.0.0.2 --sport 5-6 --flows 3", 3, "10.0.0.2:5 > 198.19.0.2:9"),
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
        assert_eq!(traffic("").unusual(&[]), "");
        assert_eq!(
            traffic("--flows 5 --src 10.0.0.1").unusual(&[7]),
            "10.0.0.1 to 198.19.0.2, 5 flows, VLAN 7"
        );
    }
}
