//! One trial: ports, threads, and the fate of every frame.

mod check;
mod frames;
mod live;
mod offer;
mod outcome;
mod paths;
mod prepare;
mod run;
mod settle;
mod shares;

pub use offer::{Offer, Replay};
pub use outcome::{DirectionOutcome, Outcome};

use crate::accounting::observe::Scope;
use crate::accounting::provenance;
use crate::capturing::ring::RingForm;
use crate::error::Error;
use crate::running::learn::{self, End, FlowPlan};
use crate::running::local::{LocalHost, LocalPort};
use crate::running::neighbours::Station;
use crate::running::streams::{Stream, streams_line_pps};
use crate::running::test_port::{Host, TestPort};
use crate::watching::gauges::Gauges;
use crate::watching::metrics::Metrics;
use kpps_documents::Environment;
use kpps_frames::flows::Addresses;
use kpps_frames::{Encap, Mac, Mix};
use kpps_methods::AllowedLoad;
use kpps_ports::Spec;
use kpps_ports::port::AnyPort;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

/// The begin of a router's name in an environment.
const GATEWAY_OF: &str = "gateway of";
/// The begin of the name of a port's number of cores there.
const CORES_OF: &str = "cores of";

/// Ports with a device under test between them.
pub struct Tester {
    ports: Vec<Box<dyn TestPort>>,
    ends: Vec<End>,
    sites: Vec<Site>,
    /// The station addresses of the routers that the ends send to; `None` for a router that has not answered.
    routers: Vec<Option<Mac>>,
    gauges: Arc<Gauges>,
    metrics: Option<Metrics>,
    /// The flows of each direction.
    pub flows: FlowPlan,
    /// Streams in place of these flows, if there are any.
    pub streams: Arc<[Stream]>,
    /// Whether learning frames open the paths before a trial. Without them only routers are asked for their
    /// station addresses. After a trial whose last frames did not arrive, learning frames show in any case
    /// whether the device under test still works.
    pub learning: bool,
    /// The highest rate that the senders reach, in frames per second, if it is known. It limits changes of
    /// the rate during a trial.
    pub ceiling_pps: Option<f64>,
    /// The largest permitted share of the tester's own losses in the due frames; `None`: the usual one.
    pub max_shortfall: Option<f64>,
    /// How often a disturbed trial is repeated ([`undisturbed`](crate::undisturbed)); `None`: a few times, if
    /// it is short.
    pub retries: Option<u32>,
    /// Whether flows are steered to the receive queues of their cores, by rules of the interfaces.
    pub steer: bool,
    /// The rings in which a trial keeps all frames that ports send and receive, by the indices of the ports.
    pub captures: BTreeMap<usize, RingForm>,
}

/// A system with ports.
pub struct Site {
    /// Its name, if it is not this host.
    pub name: Option<String>,
    /// Its counters.
    pub host: Box<dyn Host>,
    /// The indices of its ports.
    pub ports: Vec<usize>,
}

/// The addresses of an end.
#[derive(Clone, Copy, Debug)]
pub struct Address {
    /// Its IP addresses.
    pub ips: Addresses,
    /// The router that its frames go to.
    pub gateway: Option<IpAddr>,
    /// The station address of its next hop, if it need not be resolved.
    pub to: Option<Mac>,
    /// The encapsulation of its frames.
    pub encap: Encap,
}

impl Tester {
    /// A tester with these open ports of this process and their addresses, at least two of each. It observes
    /// their surroundings and `scopes`.
    ///
    /// # Errors
    /// [`Error::Observe`].
    pub fn new(
        specs: impl Into<Vec<Spec>>,
        ports: Vec<AnyPort>,
        addresses: impl Into<Vec<Address>>,
        scopes: &[Scope],
    ) -> Result<Self, Error> {
        let specs = specs.into();
        let own: Vec<_> = specs.iter().filter_map(Spec::interface).map(str::to_owned).collect();
        let host = LocalHost::around(&own, scopes)?;
        let open =
            |(spec, port)| -> Result<Box<dyn TestPort>, Error> { Ok(Box::new(LocalPort::new(spec, port)?)) };
        let ports: Vec<_> = specs.iter().zip(ports).map(open).collect::<Result<_, _>>()?;
        let here = Site { name: None, host: Box::new(host), ports: (0..ports.len()).collect() };
        Ok(Self::with(ports, addresses, vec![here]))
    }

    /// A tester with these ports of any hosts, at least two, with their addresses and systems.
    pub fn with(ports: Vec<Box<dyn TestPort>>, addresses: impl Into<Vec<Address>>, sites: Vec<Site>) -> Self {
        let addresses = addresses.into();
        let ends = ports.iter().zip(&addresses).map(|(port, address)| {
            let Address { ips, gateway, to, encap } = *address;
            // With a tunnel, the station is the tunnel's own end. The tunnel's other end is the next hop,
            // unless the end has a router or the address of a next hop.
            let tunnel = encap.tunnel();
            let station = Station {
                mac: port.mac(),
                tags: encap.tags(),
                ips: tunnel.map_or(ips, |[own, _]| Addresses::from(own, 1)),
            };
            let gateway = gateway.or(tunnel.map(|[_, other]| other).filter(|_| to.is_none()));
            End { station, others: Arc::default(), gateway, to, ips, encap }
        });
        let ends: Vec<_> = ends.collect();
        let (gauges, flows) = (Arc::default(), FlowPlan::default());
        let (routers, metrics) = (vec![None; ports.len()], None);
        let tester = Self {
            ports,
            ends,
            sites,
            routers,
            gauges,
            metrics,
            flows,
            streams: Arc::default(),
            learning: true,
            ceiling_pps: None,
            max_shortfall: None,
            retries: None,
            steer: false,
            captures: BTreeMap::new(),
        };
        let names = tester.names();
        // Routers are not noted here, but when they have answered.
        let is_other = |name: &String| [GATEWAY_OF, CORES_OF].iter().any(|begin| name.starts_with(begin));
        let is_port = |name: &String| names.iter().any(|port| name.ends_with(port)) && !is_other(name);
        provenance::note_ports(tester.system().into_iter().filter(|(name, _)| is_port(name)));
        tester
    }

    /// Gives an end another station address than that of its port.
    pub fn set_station(&mut self, at: usize, mac: Mac) {
        self.ends.iter_mut().skip(at).take(1).for_each(|end| end.station.mac = mac);
    }

    /// These stations at the port of an end answer questions in place of its own station, each in its own
    /// VLANs, unless there are none. Only ports of this process have them.
    pub fn set_stations(&mut self, at: usize, stations: Vec<Station>) {
        self.ends.iter_mut().skip(at).take(1).for_each(|end| end.others = stations.clone().into());
    }

    /// The station addresses of routers, each for a station at the port of an end; `None` for a router that
    /// does not answer.
    ///
    /// # Errors
    /// A port failed.
    pub fn resolve_for(
        &mut self,
        questions: &[(usize, Station, IpAddr)],
        go_on: &dyn Fn() -> bool,
    ) -> Result<Vec<Option<Mac>>, Error> {
        let found = learn::resolve_for(&mut self.ports, &self.ends, questions, go_on);
        self.attend();
        Ok(found?)
    }

    /// Leaves the interfaces of these ports out of what is observed: copies of frames that a bridge floods
    /// there go to other trials, and are not lost there.
    pub fn leave_out(&mut self, others: &[Spec]) {
        let interfaces: Vec<String> = others.iter().filter_map(Spec::interface).map(str::to_owned).collect();
        self.sites.iter_mut().for_each(|site| site.host.leave_out(&interfaces));
    }

    /// The station addresses of the routers that the ends send to, as far as they are resolved.
    pub fn routers(&self) -> &[Option<Mac>] {
        &self.routers
    }

    /// The ports' names.
    pub fn names(&self) -> Vec<&str> {
        self.ports.iter().map(|port| port.name()).collect()
    }

    /// The counters of a running trial.
    pub fn gauges(&self) -> Arc<Gauges> {
        self.gauges.clone()
    }

    /// Serves the counters of its trials over HTTP ([`Metrics::serve`]) as long as the tester exists.
    ///
    /// # Errors
    /// The reason, in one line: the address is in use, or does not belong to this host.
    pub fn serve_metrics(&mut self, address: &str) -> Result<(), String> {
        self.metrics = Some(Metrics::serve(address, self.gauges())?);
        Ok(())
    }

    /// Resolves the routers that the ends send to, so that the environment has them.
    ///
    /// # Errors
    /// A port failed.
    pub fn resolve_gateways(&mut self, go_on: &dyn Fn() -> bool) -> Result<(), Error> {
        let routers = learn::resolve(&mut self.ports, &self.ends, go_on);
        self.attend();
        self.routers = routers?;
        Ok(())
    }

    /// Until the next trial the ports answer for their stations, so that routers do not forget them.
    pub fn attend(&mut self) {
        for (port, end) in self.ports.iter_mut().zip(&self.ends) {
            port.attend(&end.station, &end.others);
        }
    }

    /// The environment of trials, without what an offer determines.
    pub fn environment(&self) -> Environment {
        Environment { system: self.system(), ..Environment::on(self.names()) }
    }

    /// The system by name: kernels, CPUs, ports with their cores if there are several, routers.
    fn system(&self) -> BTreeMap<String, String> {
        let of = |site: &Site| {
            let ports = site.ports.iter().map(|&at| (self.ports[at].name(), self.ports[at].interface()));
            let all = site.host.environment(&ports.collect::<Vec<_>>());
            let place = site.name.as_ref().map_or_else(String::new, |name| format!("{name}: "));
            all.into_iter().map(move |(name, what)| (format!("{place}{name}"), what)).collect::<Vec<_>>()
        };
        let gateways = (0..self.ports.len()).filter_map(|at| {
            let router = self.routers[at].map_or("no answer".into(), |mac| mac.to_string());
            let gateway = self.ends[at].gateway?;
            Some((format!("{GATEWAY_OF} {}", self.ports[at].name()), format!("{gateway} ({router})")))
        });
        let cores = self.ports.iter().filter(|port| port.cores() > 1);
        let cores = cores.map(|port| (format!("{CORES_OF} {}", port.name()), port.cores().to_string()));
        self.sites.iter().flat_map(of).chain(gateways).chain(cores).collect()
    }

    /// The speed of a port's link in Mb/s, and its longest frame in bytes without FCS; `None` if unknown.
    pub fn limits_of(&self, at: usize) -> (Option<u32>, Option<usize>) {
        self.ports.get(at).map_or((None, None), |port| (port.speed_mbps(), port.longest()))
    }

    /// The longest frame that all ports send and receive, in bytes without FCS, if that is known.
    pub fn longest(&self) -> Option<usize> {
        self.ports.iter().filter_map(|port| port.longest()).min()
    }

    /// The speed of the slowest link in Mb/s, if it is known.
    pub fn speed_mbps(&self) -> Option<u32> {
        self.ports.iter().filter_map(|port| port.speed_mbps()).min()
    }

    /// The line rate of the slowest link for these sizes, in frames per second, if its speed is known.
    pub fn line_rate_pps(&self, sizes: &Mix) -> Option<f64> {
        self.speed_mbps().map(|mbps| self.line_rate_at(sizes, u64::from(mbps) * 1_000_000))
    }

    /// The line rate for these sizes of a link of this speed in bit/s. Of streams, it is the load at which
    /// one direction is full.
    pub(crate) fn line_rate_at(&self, sizes: &Mix, bits_per_s: u64) -> f64 {
        match self.streams.is_empty() {
            true => sizes.line_rate_pps(bits_per_s),
            false => streams_line_pps(&self.streams, bits_per_s),
        }
    }

    /// The highest load in each direction that operators of the sending ports allow. The limit of an agent
    /// holds for all of its ports together, so each sending port gets a share.
    pub(crate) fn allowed(&self, bidirectional: bool) -> Option<AllowedLoad> {
        let senders = if bidirectional { &self.ports[..] } else { &self.ports[..1] };
        let host = |port: &dyn TestPort| port.name().rsplit_once('/').map(|(host, _)| host.to_owned());
        let share = |port: &dyn TestPort| {
            senders.iter().filter(|other| host(other.as_ref()) == host(port)).count().max(1) as f64
        };
        senders
            .iter()
            .map(|port| AllowedLoad {
                pps: port.allowed().load_pps / share(port.as_ref()),
                port: port.name().to_owned(),
            })
            .filter(|allowed| allowed.pps.is_finite())
            .min_by(|a, b| a.pps.total_cmp(&b.pps))
    }

    /// The longest trial that operators of the sending ports allow; `None` without a limit.
    pub(crate) fn longest_trial(&self, bidirectional: bool) -> Option<Duration> {
        let senders = if bidirectional { &self.ports[..] } else { &self.ports[..1] };
        let longest = senders.iter().map(|port| port.allowed().duration).min();
        longest.filter(|longest| *longest < Duration::MAX)
    }

    /// Offers a load and counts its frames. Calls `go_on` several times a second. If it returns false, the
    /// trial ends early, and its result so far is returned.
    ///
    /// # Errors
    /// [`Error`], if the trial has no result.
    pub fn trial(&mut self, offer: &Offer, go_on: &dyn Fn() -> bool) -> Result<Outcome, Error> {
        let outcome = self.attempt(offer, go_on);
        self.attend();
        outcome
    }

    fn attempt(&mut self, offer: &Offer, go_on: &dyn Fn() -> bool) -> Result<Outcome, Error> {
        // Refusals come before the first frame.
        self.check(offer)?;
        for (at, port) in self.ports.iter_mut().enumerate() {
            port.capture(self.captures.get(&at).copied())?;
        }
        let paths = self.open_paths(offer, go_on)?;
        let prepared = self.prepare(offer, &paths)?;
        // Nothing but the trial happens between the two readings of the counters.
        let started = self.start(offer, prepared)?;
        let done = started.run(&mut self.ports, go_on);
        let offer = offer.with_added();
        let ended = self.end(&offer, started, done)?;
        Ok(self.settle(&offer, ended))
    }
}
