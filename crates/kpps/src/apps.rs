//! `kpps bridge`, `kpps route` and `kpps nat`: apps on ports.

use crate::error::Failure;
use crate::run::{self, Common, Start};
use crate::units;
use clap::Args;
use kpps_apps::{App, EtherSwitch, Interface, Ipv4Net, Misconfigured, Nat, Route, Router, Timeouts};
use kpps_frames::Mac;
use kpps_ports::Spec;
use kpps_ports::port::run::app;
use kpps_ports::port::{AnyPort, Frame};
use kpps_report::AppRun;
use std::fmt::Write;
use std::net::Ipv4Addr;
use std::time::Duration;

/// Arguments of `kpps bridge`.
#[derive(Args)]
#[command(after_help = "Examples:
  kpps bridge uio:0000:00:10.0 uio:0000:00:11.0           until Ctrl-C
  kpps bridge uio:0000:00:10.0 packet:veth0 packet:veth1 --duration 10s

It learns behind which port each station is (4096 of them, for 300 s) and floods frames to unknown
stations and groups. No spanning tree: a loop of cables makes a storm.

Ports: uio:ADDRESS and vfio:ADDRESS (our driver; `kpps device list` shows cards),
xdp:INTERFACE[:QUEUE] (AF_XDP: its frames are taken from the kernel), packet:INTERFACE (packet sockets: the kernel
has them too; with its offloads off: ethtool -K eth1 tx off tso off gso off gro off),
auto:INTERFACE (the better of these two, with a word on why), udp:HOST:PORT (a socket; needs no privilege) and
udp::PORT (one that listens).")]
pub struct BridgeArguments {
    /// The ports: uio:ADDRESS, vfio:ADDRESS, auto:INTERFACE, xdp:INTERFACE[:QUEUE],
    /// packet:INTERFACE, udp:HOST:PORT or udp::PORT
    #[arg(required = true, num_args = 2..)]
    ports: Vec<Spec>,
    /// Stop after this time [default: with Ctrl-C]
    #[arg(long, value_parser = units::duration)]
    duration: Option<Duration>,
    #[command(flatten)]
    common: Common,
}

/// Runs `kpps bridge`.
pub fn bridge(arguments: &BridgeArguments) -> Result<(), Failure> {
    let mut ports = arguments.common.open(&arguments.ports, true)?;
    let mut bridge = EtherSwitch::new(ports.len());
    let more = |bridge: &EtherSwitch| {
        format!(
            "{} stations known, {} frames flooded, {} not learned for lack of room\n",
            bridge.stations(),
            bridge.flooded(),
            bridge.unlearned()
        )
    };
    run_app("bridge", &arguments.common, &arguments.ports, &mut ports, arguments.duration, &mut bridge, more)
}

/// Arguments of `kpps route`.
#[derive(Args)]
#[command(after_help = "Examples:
  kpps route uio:0000:00:10.0=10.0.0.1/24 uio:0000:00:11.0=10.0.1.1/24
  kpps route packet:a=10.0.0.1/24 packet:b=10.0.1.1/24 --route 0.0.0.0/0=10.0.1.2
  kpps route packet:a@10=10.0.0.1/24 packet:a@20=10.0.1.1/24       between the VLANs 10 and 20 of a trunk

An IPv4 router: longest prefix, ARP, answers to pings, ICMP errors (at most 1000 a second). It does
not cut packets into fragments and does not look at IP options. The addresses must not be the
kernel's too, or both answer.

Ports: uio:ADDRESS and vfio:ADDRESS (our driver; `kpps device list` shows cards),
xdp:INTERFACE[:QUEUE] (AF_XDP: its frames are taken from the kernel), packet:INTERFACE (packet sockets: the kernel
has them too; with its offloads off: ethtool -K eth1 tx off tso off gso off gro off),
auto:INTERFACE (the better of these two, with a word on why), udp:HOST:PORT (a socket; needs no privilege) and
udp::PORT (one that listens).")]
pub struct RouteArguments {
    /// The interfaces with their addresses: PORT=ADDRESS/BITS, or PORT@VLAN=ADDRESS/BITS for a VLAN of the port
    #[arg(required = true, num_args = 1.., value_parser = link)]
    interfaces: Vec<Link>,
    /// A route beside those to the ports' networks: NETWORK/BITS=NEXT_ROUTER
    #[arg(long, value_parser = route_to)]
    route: Vec<Route>,
    /// Stop after this time [default: with Ctrl-C]
    #[arg(long, value_parser = units::duration)]
    duration: Option<Duration>,
    #[command(flatten)]
    common: Common,
}

/// The longest packet that a port sends, in bytes from the IP header on.
const MTU: u16 = 1500;

/// An interface as on the command line.
#[derive(Clone)]
struct Link {
    port: Spec,
    vlan: Option<u16>,
    net: Ipv4Net,
}

fn link(text: &str) -> Result<Link, String> {
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
    let port = port.parse().map_err(|e: kpps_ports::Error| e.to_string())?;
    // Without its length a network would be a single host.
    let net = net.contains('/').then(|| net.parse().ok()).flatten().ok_or_else(help)?;
    Ok(Link { port, vlan, net })
}

/// The ports of these interfaces, each once.
fn ports_of(links: &[Link]) -> Vec<Spec> {
    let mut ports: Vec<Spec> = Vec::new();
    for link in links {
        if !ports.contains(&link.port) {
            ports.push(link.port.clone());
        }
    }
    ports
}

/// The interfaces, with ports that have these station addresses.
fn interfaces(links: &[Link], ports: &[Spec], macs: &[Mac]) -> Vec<Interface> {
    let interface = |link: &Link| {
        let port = ports.iter().position(|port| *port == link.port).unwrap_or(0);
        Interface {
            port,
            vlan: link.vlan,
            mac: macs.get(port).copied().unwrap_or_default(),
            net: link.net,
            mtu: MTU,
        }
    };
    links.iter().map(interface).collect()
}

fn route_to(text: &str) -> Result<Route, String> {
    let parsed = text.split_once('=').and_then(|(to, via)| {
        Some(Route { to: to.parse::<Ipv4Net>().ok()?, via: via.parse::<Ipv4Addr>().ok()? })
    });
    parsed.ok_or_else(|| format!("'{text}' is not a route like 10.9.0.0/16=10.0.1.2"))
}

/// Runs `kpps route`.
pub fn route(arguments: &RouteArguments) -> Result<(), Failure> {
    run_router("route", &arguments.common, &arguments.interfaces, arguments.duration, |interfaces| {
        Router::new(interfaces, &arguments.route)
    })
}

/// Arguments of `kpps nat`.
#[derive(Args)]
#[command(after_help = "Examples:
  kpps nat packet:lan=192.168.1.1/24 packet:wan=203.0.113.2/24 --route 0.0.0.0/0=203.0.113.1
  kpps nat packet:lan@10=10.0.10.1/24 packet:lan@20=10.0.20.1/24 packet:wan=203.0.113.2/24

The hosts of all interfaces but the last share the last one's address: UDP, TCP and ICMP by ports and
identifiers (RFC 4787, 5382, 5508). Without a mapping nobody gets in; when the table or the ports are
exhausted a packet is refused, and its sender told. Otherwise it is the router of `kpps route`.")]
pub struct NatArguments {
    /// The interfaces inside and, last, the one outside: PORT=ADDRESS/BITS or PORT@VLAN=ADDRESS/BITS
    #[arg(required = true, num_args = 2.., value_parser = link)]
    interfaces: Vec<Link>,
    /// A route beside those to the ports' networks: NETWORK/BITS=NEXT_ROUTER
    #[arg(long, value_parser = route_to)]
    route: Vec<Route>,
    /// The most mappings
    #[arg(long, default_value_t = 65536)]
    mappings: usize,
    /// How long a UDP mapping is kept after the last packet from inside
    #[arg(long, value_parser = units::duration, default_value = "300s")]
    udp_timeout: Duration,
    /// Stop after this time [default: with Ctrl-C]
    #[arg(long, value_parser = units::duration)]
    duration: Option<Duration>,
    #[command(flatten)]
    common: Common,
}

/// Runs `kpps nat`.
pub fn nat(arguments: &NatArguments) -> Result<(), Failure> {
    let udp_ns = u64::try_from(arguments.udp_timeout.as_nanos()).unwrap_or(u64::MAX);
    let plan = Nat {
        outside: arguments.interfaces.len() - 1,
        mappings: arguments.mappings,
        timeouts: Timeouts { udp_ns, ..Timeouts::default() },
    };
    run_router("nat", &arguments.common, &arguments.interfaces, arguments.duration, |interfaces| {
        Router::new(interfaces, &arguments.route)?.with_nat(plan)
    })
}

/// Runs the router that `plan` makes of interfaces.
fn run_router(
    command: &str,
    common: &Common,
    links: &[Link],
    duration: Option<Duration>,
    plan: impl Fn(Vec<Interface>) -> Result<Router<Frame>, Misconfigured>,
) -> Result<(), Failure> {
    let specs = ports_of(links);
    let plan =
        |macs: &[Mac]| plan(interfaces(links, &specs, macs)).map_err(|e| Failure::Input(e.to_string()));
    // What is wrong with the addresses is said before any port is touched.
    plan(&[])?;
    let mut ports = common.open(&specs, false)?;
    let macs: Result<Vec<Mac>, _> = ports.iter().map(|port| port.address().map(Mac)).collect();
    let mut router = plan(&macs.map_err(|e| Failure::Check(e.to_string()))?)?;
    let more = |router: &Router<Frame>| {
        let (sent, limited) = router.icmp_errors();
        let mappings =
            if command == "nat" { format!("{} mappings; ", router.mappings()) } else { String::new() };
        format!(
            "{mappings}{} neighbours known; ICMP errors: {sent} sent, {limited} held back by the limit\n",
            router.neighbours()
        )
    };
    run_app(command, common, &specs, &mut ports, duration, &mut router, more)
}

/// Runs an app on ports and shows what it did.
fn run_app<A: App<Frame>>(
    command: &str,
    common: &Common,
    specs: &[Spec],
    ports: &mut [AnyPort],
    duration: Option<Duration>,
    program: &mut A,
    more: impl Fn(&A) -> String,
) -> Result<(), Failure> {
    let start = Start::now(ports)?;
    let (meter, view) = common.show(format!("kpps {command}"), None)?;
    let mut ends = common.ends(duration, &meter);
    let elapsed = app(ports, program, &mut ends);
    drop(view);
    let elapsed = elapsed.map_err(run::broken)?;
    let mut results = start.results(command, common, specs, ports, elapsed)?;
    let ledger = program.ledger();
    results.app = Some(AppRun {
        received: ledger.received,
        made: ledger.made,
        sent: ledger.sent,
        held: ledger.held,
        dropped: ledger.reasons().map(|(reason, count)| (reason.name().to_owned(), count)).collect(),
    });
    let mut words = more(program);
    let ended: Vec<_> =
        ledger.reasons().map(|(reason, count)| format!("{count} {}", reason.name())).collect();
    if !ended.is_empty() {
        let _ = writeln!(words, "ended here: {}", ended.join(", "));
    }
    run::finish(&results, common, &words, duration.is_none())
}
