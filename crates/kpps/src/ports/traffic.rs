//! Options of what frames look like: their addresses, ports and flows.

use clap::Args;
use kpps_frames::flows::{Addresses, MOST_FLOWS, Ports};

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

impl Traffic {
    /// What they say.
    pub fn chosen(&self) -> kpps_tester::Traffic {
        let &Self { src, dst, ipv6, sport, dport, flows } = self;
        kpps_tester::Traffic { src, dst, ipv6, sport, dport, flows, ..Default::default() }
    }
}
