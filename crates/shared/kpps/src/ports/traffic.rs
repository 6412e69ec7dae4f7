//! Options for the form of frames: their addresses, ports and flows.

use crate::error::Failure;
use crate::heading;
use crate::typed::Typed;
use clap::Args;
use kpps_frames::Encap;
use kpps_frames::flows::{Addresses, MOST_FLOWS, Numbers, PortNumbers};
use kpps_tester::Template;

/// Addresses and ports of frames.
#[derive(Args)]
pub struct TrafficArguments {
    /// Source addresses: one, or FIRST-LAST as 10.0.0.1-10.0.0.200; IPv4 or IPv6. In a trial the sending port
    /// answers for them [default: 198.18.0.1]
    #[arg(long, value_name = "ADDRESSES", help_heading = heading::TRAFFIC)]
    src: Option<Addresses>,
    /// Destination addresses. In a trial the receiving port answers for them [default: 198.19.0.2]
    #[arg(long, value_name = "ADDRESSES", help_heading = heading::TRAFFIC)]
    dst: Option<Addresses>,
    /// Use IPv6, between the benchmark addresses 2001:2:0:1::1 and 2001:2:0:2::2 if no others are given;
    /// frames have at least 84 bytes with FCS
    #[arg(long, help_heading = heading::TRAFFIC)]
    ipv6: bool,
    /// UDP source ports: one, or FIRST-LAST [default: 49152; with --flows: 49152 and the next ports]
    #[arg(long, value_name = "PORTS", help_heading = heading::TRAFFIC)]
    sport: Option<PortNumbers>,
    /// UDP destination ports: one, or FIRST-LAST [default: 9]
    #[arg(long, value_name = "PORTS", help_heading = heading::TRAFFIC)]
    dport: Option<PortNumbers>,
    /// Number of UDP flows, which send in turn. From flow to flow the source port counts up first, then the
    /// source address, the destination address and the destination port [default: all flows of the given
    /// ranges]
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=i64::from(MOST_FLOWS)), help_heading = heading::TRAFFIC)]
    flows: Option<u32>,
    #[command(flatten)]
    pub headers: Typed<Headers>,
}

/// Headers of frames, other than their addresses and ports.
#[derive(Args)]
pub struct Headers {
    /// Differentiated services code point of the frames, 0 to 63: a number, or a range whose numbers the
    /// flows use in turn. Each range, also of other options, may have a step (FIRST-LAST/STEP) or a random
    /// order (random:FIRST-LAST, random:FIRST-LAST/SEED), which is the same in every run
    #[arg(long, value_name = "NUMBERS", value_parser = kpps_tester::numbers::<0, 63>, help_heading = heading::TRAFFIC)]
    dscp: Option<Numbers>,
    /// TTL or hop limit of the frames [default: 64]
    #[arg(long, value_name = "NUMBERS", value_parser = kpps_tester::numbers::<1, 255>, help_heading = heading::TRAFFIC)]
    ttl: Option<Numbers>,
    /// Encapsulation of the frames of both ports, or one value for each port, the first port's first: none,
    /// vlan:ID, qinq:ID, mpls:LABEL, vxlan:NETWORK/OWN/OTHER (the tunnel's ends), joined by + from outside
    /// in, as qinq:100+vlan:7; numbers may be ranges
    #[arg(long, value_delimiter = ',', value_name = "LAYERS[,LAYERS]", conflicts_with = "vlan", help_heading = heading::TRAFFIC)]
    pub encap: Vec<Encap>,
    /// Make all frames from this packet: packet N of a capture (FILE[:N]), or bytes in hexadecimal (a file,
    /// or the text itself). kpps writes its tag to the end of the payload and corrects the checksums. --src,
    /// --dst, --sport and --dport replace addresses and ports of the packet
    #[arg(long, value_name = "PACKET", value_parser = kpps_tester::template, conflicts_with_all = ["size", "ipv6"], help_heading = heading::TRAFFIC)]
    template: Option<Template>,
}

/// Refuses more than `most` values of a flag that has one for each port.
pub fn at_most(most: usize, flag: &str, values: usize) -> Result<(), Failure> {
    let many =
        || Err(Failure::Input(format!("{flag} takes at most {most} values here, and {values} were given")));
    if values > most { many() } else { Ok(()) }
}

impl TrafficArguments {
    /// The first option that was given about the addresses of two ports.
    pub fn addresses(&self) -> Option<&'static str> {
        let options = [("--src", self.src.is_some()), ("--dst", self.dst.is_some())];
        options.into_iter().find(|(_, given)| *given).map(|(name, _)| name)
    }

    /// The first option that was given about ports and the number of flows.
    pub fn of_flows(&self) -> Option<String> {
        let options = [("--sport", self.sport.is_some()), ("--dport", self.dport.is_some())];
        let options = options.into_iter().chain([("--flows", self.flows.is_some())]);
        options.into_iter().find(|(_, given)| *given).map(|(name, _)| name.to_owned())
    }

    /// The traffic that the arguments choose, on ports with these VLANs (0 for none).
    pub fn chosen(&self, vlans: &[u16]) -> kpps_tester::Traffic {
        let &Self { src, dst, ipv6, sport, dport, flows, .. } = self;
        let Headers { dscp, ttl: hops, encap, template } = &*self.headers;
        let of = |at: usize| match (encap.get(at).or(encap.first()), vlans.get(at).or(vlans.first())) {
            (Some(own), _) if at == 1 && encap.len() == 1 => own.reversed(),
            (Some(own), _) => *own,
            (None, vlan) => Encap::vlan(vlan.copied().unwrap_or(0)),
        };
        let (dscp, hops, encap) = (*dscp, *hops, [of(0), of(1)]);
        let (template, replies) = (template.clone(), false);
        kpps_tester::Traffic { src, dst, ipv6, sport, dport, flows, dscp, hops, encap, template, replies }
    }
}
