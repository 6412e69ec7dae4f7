//! `kpps bridge`, `kpps route` and `kpps nat`: apps on ports.

use super::KINDS;
use super::options::{Job, RunOptions, finish};
use crate::error::Failure;
use crate::heading;
use crate::session::Session;
use clap::Args;
use kpps_apps::{App, EtherSwitch, Interface, Misconfigured, Nat, Route, Router, Timeouts};
use kpps_documents::run::Run;
use kpps_frames::Mac;
use kpps_methods::units;
use kpps_ports::port::run::app;
use kpps_ports::port::{AnyPort, Frame};
use kpps_ports::{RoutedSpec, Spec};
use std::time::Duration;

/// Arguments of `kpps bridge`.
#[derive(Args)]
#[command(after_help = format!("Examples:
  kpps bridge uio:0000:00:10.0 uio:0000:00:11.0           until Ctrl-C
  kpps bridge uio:0000:00:10.0 packet:veth0 packet:veth1 --duration 10s

The bridge learns up to 4096 MAC addresses and keeps each for 300 s. It floods frames to unknown and group
addresses. It has no spanning tree: a loop in the network makes a broadcast storm.

{}", KINDS))]
pub struct BridgeArguments {
    /// The ports, two or more
    #[arg(required = true, num_args = 2.., value_name = "PORT")]
    ports: Vec<Spec>,
    #[command(flatten)]
    app: AppOptions,
}

/// Runs `kpps bridge`.
pub fn bridge(arguments: &BridgeArguments, session: &Session) -> Result<(), Failure> {
    let mut files = arguments.app.run.outputs.open(session, "bridge")?;
    let mut ports = arguments.app.run.ports.open(session, &arguments.ports, true)?;
    let mut bridge = EtherSwitch::new(ports.len());
    let run = arguments.app.run(session, "bridge", &arguments.ports, &mut ports, &mut bridge)?;
    let learned = format!(
        "{} MAC addresses known, {} frames flooded, {} addresses not learned (table full)\n",
        bridge.stations(),
        bridge.flooded(),
        bridge.unlearned()
    );
    finish(&run, &mut files, &learned, arguments.app.duration.is_none())
}

/// Arguments of `kpps route`.
#[derive(Args)]
#[command(after_help = format!("Examples:
  kpps route uio:0000:00:10.0=10.0.0.1/24 uio:0000:00:11.0=10.0.1.1/24
  kpps route packet:a=10.0.0.1/24 packet:b=10.0.1.1/24 --route 0.0.0.0/0=10.0.1.2
  kpps route packet:a@10=10.0.0.1/24 packet:a@20=10.0.1.1/24       between two VLANs of a trunk

An IPv4 router: longest prefix match, ARP, echo replies, ICMP errors (at most 1000 per second). It does not
fragment packets and ignores IP options. Give it addresses that the kernel does not have: otherwise both the
kernel and kpps answer.

{}", KINDS))]
pub struct RouteArguments {
    /// The interfaces with their addresses: PORT=ADDRESS/BITS, or PORT@VLAN=ADDRESS/BITS for a VLAN of the
    /// port
    #[arg(required = true, num_args = 1.., value_name = "INTERFACE")]
    interfaces: Vec<RoutedSpec>,
    /// Add a route: NETWORK/BITS=NEXT_HOP
    #[arg(long, value_name = "ROUTE")]
    route: Vec<Route>,
    #[command(flatten)]
    app: AppOptions,
}

/// Runs `kpps route`.
pub fn route(arguments: &RouteArguments, session: &Session) -> Result<(), Failure> {
    let RouteArguments { interfaces, route, app } = arguments;
    app.router(session, "route", interfaces, |interfaces| Router::new(interfaces, route))
}

/// Arguments of `kpps nat`.
#[derive(Args)]
#[command(after_help = format!("Examples:
  kpps nat packet:lan=192.168.1.1/24 packet:wan=203.0.113.2/24 --route 0.0.0.0/0=203.0.113.1
  kpps nat packet:lan@10=10.0.10.1/24 packet:lan@20=10.0.20.1/24 packet:wan=203.0.113.2/24

The router of `kpps route` with NAT: the hosts behind the other interfaces share the address of the
last interface. It translates UDP, TCP and ICMP (RFC 4787, 5382, 5508). A packet from outside without a mapping is
dropped. When the mapping table or the ports are exhausted, a packet from inside is refused with an ICMP
error.

{}", KINDS))]
pub struct NatArguments {
    /// The inside interfaces and, as the last one, the outside interface: PORT=ADDRESS/BITS or
    /// PORT@VLAN=ADDRESS/BITS
    #[arg(required = true, num_args = 2.., value_name = "INTERFACE")]
    interfaces: Vec<RoutedSpec>,
    /// Add a route: NETWORK/BITS=NEXT_HOP
    #[arg(long, value_name = "ROUTE")]
    route: Vec<Route>,
    /// Highest number of mappings in the table
    #[arg(long, value_name = "MAPPINGS", default_value_t = 65536)]
    mappings: usize,
    /// Highest number of mappings of one inside host
    #[arg(long, value_name = "MAPPINGS", default_value_t = 8192)]
    per_host: usize,
    /// How long a UDP mapping lives after the last packet from inside
    #[arg(long, value_name = "TIME", value_parser = units::duration, default_value = "300s")]
    udp_timeout: Duration,
    #[command(flatten)]
    app: AppOptions,
}

/// Runs `kpps nat`.
pub fn nat(arguments: &NatArguments, session: &Session) -> Result<(), Failure> {
    let udp_ns = u64::try_from(arguments.udp_timeout.as_nanos()).unwrap_or(u64::MAX);
    let plan = Nat {
        outside: arguments.interfaces.len() - 1,
        mappings: arguments.mappings,
        per_host: arguments.per_host,
        timeouts: Timeouts { udp_ns, ..Timeouts::default() },
    };
    let NatArguments { interfaces, route, app, .. } = arguments;
    app.router(session, "nat", interfaces, |interfaces| Router::new(interfaces, route)?.with_nat(plan))
}

/// Options of all apps.
#[derive(Args)]
struct AppOptions {
    /// Stop after this time [default: run until Ctrl-C]
    #[arg(long, value_name = "TIME", value_parser = units::duration, help_heading = heading::TIME)]
    duration: Option<Duration>,
    #[command(flatten)]
    run: RunOptions,
}

impl AppOptions {
    /// Runs the router that `plan` makes of interfaces.
    fn router(
        &self,
        session: &Session,
        command: &str,
        links: &[RoutedSpec],
        plan: impl Fn(Vec<Interface>) -> Result<Router<Frame>, Misconfigured>,
    ) -> Result<(), Failure> {
        let specs = RoutedSpec::ports(links);
        let plan = |macs: &[Mac]| {
            plan(RoutedSpec::interfaces(links, macs)).map_err(|e| Failure::Input(e.to_string()))
        };
        // Wrong addresses are reported before any port is opened.
        plan(&[])?;
        let mut files = self.run.outputs.open(session, command)?;
        let mut ports = self.run.ports.open(session, &specs, false)?;
        let macs: Result<Vec<Mac>, _> = ports.iter().map(|port| port.address().map(Mac)).collect();
        let mut router = plan(&macs?)?;
        let run = self.run(session, command, &specs, &mut ports, &mut router)?;
        finish(&run, &mut files, &format!("{}\n", router.in_words()), self.duration.is_none())
    }

    /// Runs an app on ports.
    fn run<A: App<Frame>>(
        &self,
        session: &Session,
        command: &str,
        specs: &[Spec],
        ports: &mut [AnyPort],
        program: &mut A,
    ) -> Result<Run, Failure> {
        let job = Job { command, specs, offered_pps: None, duration: self.duration };
        let (_, run) = self.run.run(session, &job, ports, |ports, watch| {
            watch.tell(specs);
            Ok(((), app(ports, program, watch)?))
        })?;
        Ok(Run { app: Some(kpps_tester::app_run(&program.ledger())), ..run })
    }
}
