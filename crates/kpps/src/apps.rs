//! `kpps bridge` and `kpps route`: apps on ports.

use crate::error::Failure;
use crate::run::{self, Common, Start};
use crate::units;
use clap::Args;
use kpps_apps::{App, EtherSwitch, Interface, Ipv4Net, Route, Router};
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
packet:INTERFACE (the kernel's, with its offloads off: ethtool -K eth1 tx off tso off gso off gro off).")]
pub struct BridgeArguments {
    /// The ports: uio:ADDRESS, vfio:ADDRESS or packet:INTERFACE
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

An IPv4 router: longest prefix, ARP, answers to pings, ICMP errors (at most 1000 a second). It does
not cut packets into fragments and does not look at IP options. The addresses must not be the
kernel's too, or both answer.

Ports: uio:ADDRESS and vfio:ADDRESS (our driver; `kpps device list` shows cards),
packet:INTERFACE (the kernel's, with its offloads off: ethtool -K eth1 tx off tso off gso off gro off).")]
pub struct RouteArguments {
    /// The ports with their addresses: PORT=ADDRESS/BITS
    #[arg(required = true, num_args = 1.., value_parser = interface)]
    ports: Vec<(Spec, Ipv4Net)>,
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

fn interface(text: &str) -> Result<(Spec, Ipv4Net), String> {
    let help = || format!("'{text}' is not a port with its address, like packet:eth1=10.0.0.1/24");
    let (port, net) = text.split_once('=').ok_or_else(help)?;
    let spec = port.parse().map_err(|e: kpps_ports::Error| e.to_string())?;
    // Without its length a network would be a single host.
    let net = net.contains('/').then(|| net.parse().ok()).flatten().ok_or_else(help)?;
    Ok((spec, net))
}

fn route_to(text: &str) -> Result<Route, String> {
    let parsed = text.split_once('=').and_then(|(to, via)| {
        Some(Route { to: to.parse::<Ipv4Net>().ok()?, via: via.parse::<Ipv4Addr>().ok()? })
    });
    parsed.ok_or_else(|| format!("'{text}' is not a route like 10.9.0.0/16=10.0.1.2"))
}

/// Runs `kpps route`.
pub fn route(arguments: &RouteArguments) -> Result<(), Failure> {
    let specs: Vec<Spec> = arguments.ports.iter().map(|(spec, _)| spec.clone()).collect();
    let plan = |macs: &[Mac]| {
        let interfaces = arguments.ports.iter().zip(macs);
        let interfaces = interfaces.map(|((_, net), mac)| Interface { mac: *mac, net: *net, mtu: MTU });
        Router::<Frame>::new(interfaces.collect(), &arguments.route)
            .map_err(|e| Failure::Input(e.to_string()))
    };
    // What is wrong with the addresses is said before any port is touched.
    plan(&vec![Mac::default(); specs.len()])?;
    let mut ports = arguments.common.open(&specs, false)?;
    let macs: Result<Vec<Mac>, _> = ports.iter().map(|port| port.address().map(Mac)).collect();
    let mut router = plan(&macs.map_err(|e| Failure::Check(e.to_string()))?)?;
    let more = |router: &Router<Frame>| {
        let (sent, limited) = router.icmp_errors();
        format!(
            "{} neighbours known; ICMP errors: {sent} sent, {limited} held back by the limit\n",
            router.neighbours()
        )
    };
    run_app("route", &arguments.common, &specs, &mut ports, arguments.duration, &mut router, more)
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
    let mut ends = common.ends(duration);
    let elapsed = app(ports, program, &mut ends);
    ends.clear();
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
