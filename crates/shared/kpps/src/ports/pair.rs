//! Ports with a device under test between them: how they are opened, addressed and observed.

use super::agent::Credentials;
use super::cores::Cores;
use super::traffic::{TrafficArguments, at_most};
use super::{PortOptions, specs};
use crate::error::Failure;
use crate::heading;
use crate::live::OpenTestbed;
use crate::session::Session;
use clap::Args;
#[cfg(target_os = "linux")]
use kpps_documents::Trial;
use kpps_frames::rate::GIGABIT;
use kpps_frames::{Mac, Mix, Size};
use kpps_methods::Testbed;
use kpps_methods::units::{self, RateSpec};
#[cfg(target_os = "linux")]
use kpps_methods::{Load, TrialError};

use kpps_ports::Spec;
use kpps_ports::port::run::Shape;
use kpps_tester::live::Trials;
use kpps_tester::observe::Scope;
use kpps_tester::{
    Address, MOST_PORTS, Offer, PortsTestbed, Stream, Tester, full_mesh, read_streams, sizes_of_streams,
};
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

/// Options of two ports.
#[derive(Args)]
pub struct PortPair {
    /// Host of the first port, where `kpps agent` runs [default: this host]
    #[arg(long, value_name = "HOST[:PORT]", help_heading = heading::AGENTS)]
    from: Option<kpps_agent::Host>,
    /// Host of the second port [default: this host]
    #[arg(long, value_name = "HOST[:PORT]", help_heading = heading::AGENTS)]
    to: Option<kpps_agent::Host>,
    #[command(flatten)]
    credentials: Credentials,
    #[command(flatten)]
    traffic: TrafficArguments,
    /// VLAN ID of the frames: one for both ports, or one for the first port and one for the second; 0 is no
    /// VLAN
    #[arg(long, value_delimiter = ',', value_name = "ID[,ID]", value_parser = clap::value_parser!(u16).range(..=4094), help_heading = heading::TRAFFIC)]
    vlan: Vec<u16>,
    /// Addresses of the routers to which the ports send, the first port's first. kpps resolves the addresses
    /// by ARP or neighbour discovery [default: the other port]
    #[arg(long, value_delimiter = ',', value_name = "ADDRESS[,ADDRESS]", help_heading = heading::TRAFFIC)]
    gateway: Vec<IpAddr>,
    /// IP addresses of the ports in a trial of more than two, one for each, in the order of --ports [default:
    /// 198.18.1.2, 198.18.2.2 and so on; with --ipv6: 2001:2:0:1::2, 2001:2:0:2::2 and so on]
    #[arg(long, value_delimiter = ',', value_name = "ADDRESS,…", help_heading = heading::TRAFFIC)]
    ips: Vec<IpAddr>,
    /// MAC address that the first port sends to [default: the second port's, or the gateway's]
    #[arg(long, value_name = "MAC", conflicts_with = "gateway", help_heading = heading::TRAFFIC)]
    dst_mac: Option<Mac>,
    /// Also read the counters of this interface of the device under test: IFACE, NAMESPACE/IFACE in another
    /// network namespace (`ip netns`), or NAMESPACE/ for all interfaces of the namespace. In its own
    /// namespace kpps finds bridges and the other ends of veth pairs without this option
    #[arg(long, value_delimiter = ',', value_name = "PLACE,…", help_heading = heading::DEVICE_UNDER_TEST)]
    watch: Vec<Scope>,
    /// The name of the device under test, for the results
    #[arg(long, value_name = "NAME", help_heading = heading::DEVICE_UNDER_TEST)]
    dut: Option<String>,
    /// Serve the counters of the running trial over HTTP at this address, as 127.0.0.1:9464, in the text
    /// format of OpenMetrics, for Prometheus. `kpps trial` adds shortfall and latency of the last interval,
    /// by default of 1 s
    #[arg(long, value_name = "ADDRESS", help_heading = heading::RESULTS)]
    metrics: Option<String>,
    /// How long to wait for missing frames after the last frame was sent [default: 1s]
    #[arg(long, value_name = "TIME", value_parser = units::duration, help_heading = heading::TIME)]
    drain: Option<Duration>,
    /// How often to repeat a trial if other programs used the generator's CPU, or the generator's CPU quota
    /// was used up [default: 2; for trials of more than 1min: 0]
    #[arg(long, value_name = "TIMES", help_heading = heading::BOUNDS)]
    retries: Option<u32>,
    /// The highest share of frames that the tester itself may fail to send in time or to receive. Above it, a
    /// trial is no valid measurement of the device under test [default: 0.1%]
    #[arg(long, value_name = "SHARE", value_parser = kpps_methods::bounds::loss, help_heading = heading::BOUNDS)]
    max_shortfall: Option<f64>,
    /// Send no learning frames before a trial. The device under test may lose or flood the first frames,
    /// until it knows the stations. With --gateway, ARP or neighbour discovery still comes before the trial
    #[arg(long, conflicts_with = "replies", help_heading = heading::TRAFFIC)]
    no_learning: bool,
    /// Send the streams of this file (TOML) in place of flows: each with its own headers, sizes, rate and
    /// time, and its own results. --load scales all streams, so that those from the first port have this
    /// load together [default load of `kpps trial`: the rates in the file]. The guide describes the file
    #[arg(long, value_name = "FILE", help_heading = heading::TRAFFIC)]
    streams: Option<PathBuf>,
    /// Send and receive on this number of cores at each port, or on these CPUs, as 0,2. Flows take turns:
    /// one core sends all frames of a flow, and one receives them. The ports are packet:IFACE, or xdp:IFACE
    /// with a queue for each core; there are at least as many flows, or streams, as cores [default: 1]
    #[arg(long, value_name = "N|LIST", value_parser = Cores::read, help_heading = heading::CARDS_AND_CPUS)]
    cores: Option<Cores>,
    /// Steer flows to the receiving cores in turn, by a rule of the interface for each flow (as `ethtool -N`
    /// adds them), until the command ends. The receiving ports are xdp:IFACE with several cores, or
    /// xdp:IFACE:QUEUE. Without this option the card's hash chooses the queue of a flow
    #[arg(long, help_heading = heading::CARDS_AND_CPUS)]
    steer: bool,
    /// Also offer the same load from the second port to the first
    #[arg(long, help_heading = heading::LOAD)]
    bidirectional: bool,
    /// As --bidirectional, but the second port answers the flows of the first: it sends to the addresses and
    /// UDP ports from which a flow arrives. A NAT or a stateful firewall between the ports needs this
    #[arg(long, help_heading = heading::LOAD)]
    replies: bool,
}

impl PortPair {
    /// The first option that was given of those that determine the headers of flows.
    fn headers_of_flows(&self) -> Option<String> {
        (!self.vlan.is_empty()).then(|| "--vlan".to_owned()).or_else(|| self.traffic.headers.first())
    }
}

/// Whether a port is an end of a veth.
#[cfg(target_os = "linux")]
fn is_veth(spec: &Spec) -> bool {
    let driver = spec.interface().and_then(|name| kpps_linux::ethtool::driver(name).ok());
    driver.as_deref() == Some("veth")
}

#[cfg(not(target_os = "linux"))]
fn is_veth(_: &Spec) -> bool {
    false
}

/// Two ports with a cable of their own between them.
#[cfg(target_os = "linux")]
struct Bare {
    /// Closed before the cable goes.
    testbed: PortsTestbed,
    _cable: kpps_linux::Cable,
}

#[cfg(target_os = "linux")]
impl Testbed for Bare {
    fn line_rate_pps(&self, sizes: &Mix) -> Result<f64, TrialError> {
        self.testbed.line_rate_pps(sizes)
    }
    fn trial_while(&mut self, load: &Load, go_on: &dyn Fn() -> bool) -> Result<Trial, TrialError> {
        self.testbed.trial_while(load, go_on)
    }
}

/// Ports with all that is to be known before they are opened.
pub struct Ports {
    specs: Vec<Spec>,
    /// The form of frames.
    traffic: kpps_tester::Traffic,
    /// The ends of the flows, one for each port.
    ends: Vec<Address>,
    /// Streams in place of flows, if there are any.
    streams: Vec<Stream>,
    pair: PortPair,
    options: PortOptions,
}

impl Ports {
    /// The ports with these names.
    pub fn resolve(names: &[String], pair: PortPair, options: PortOptions) -> Result<Self, Failure> {
        let specs = specs(&kpps_ports::join_arguments(names.iter().map(String::as_str)))?;
        options.check(&specs)?;
        match specs.len() {
            0 | 1 => {
                return Err(Failure::Input("a trial needs two ports: give --ports packet:A,packet:B".into()));
            }
            2 => {}
            3..=MOST_PORTS => return Self::of_mesh(specs, pair, options),
            count => {
                return Err(Failure::Input(format!("a trial has at most {MOST_PORTS} ports, not {count}")));
            }
        }
        if !pair.ips.is_empty() {
            return Err(Failure::Input(
                "--ips is for more than two ports: give the addresses of two with --src and --dst".into(),
            ));
        }
        at_most(2, "--vlan", pair.vlan.len())?;
        at_most(2, "--encap", pair.traffic.headers.encap.len())?;
        at_most(2, "--gateway", pair.gateway.len())?;
        let replies = pair.replies;
        let traffic = kpps_tester::Traffic { replies, ..pair.traffic.chosen(&pair.vlan) };
        // No port is opened for flows that do not exist.
        let flows = traffic.flows().map_err(Failure::Input)?;
        let ends = traffic.ends(&pair.gateway, pair.dst_mac).map_err(Failure::Input)?.into();
        let read = |path| read_streams(path, 2);
        let streams = pair.streams.as_deref().map(read).transpose().map_err(Failure::Input)?;
        if let Some(cores) = &pair.cores {
            let are_here = pair.from.is_none() && pair.to.is_none();
            cores.check(flows.count as usize, streams.as_ref().map(Vec::len), are_here)?;
        }
        let refused = match &streams {
            None => None,
            Some(_) if pair.bidirectional => Some(
                "--bidirectional has no effect: `from` in the file is the port that sends a stream".into(),
            ),
            Some(_) if pair.replies => {
                Some("--replies has no effect: a stream has the addresses that the file gives it".into())
            }
            Some(_) => (pair.traffic.of_flows().or_else(|| pair.headers_of_flows())).map(|option| {
                format!("{option} has no effect: the file of --streams gives the headers of each stream")
            }),
        };
        match refused {
            Some(why) => Err(Failure::Input(why)),
            None => Ok(Self { specs, traffic, ends, streams: streams.unwrap_or_default(), pair, options }),
        }
    }

    /// More than two ports, each of which sends to all others, or the streams of a file.
    fn of_mesh(specs: Vec<Spec>, pair: PortPair, options: PortOptions) -> Result<Self, Failure> {
        let only_two = [
            ("--from", pair.from.is_some()),
            ("--to", pair.to.is_some()),
            ("--dst-mac", pair.dst_mac.is_some()),
            ("--cores", pair.cores.is_some()),
            ("--replies", pair.replies),
        ];
        if let Some((option, _)) = only_two.into_iter().find(|(_, is_given)| *is_given) {
            return Err(Failure::Input(format!("{option} is for two ports, and {} were given", specs.len())));
        }
        if pair.credentials.are_given() {
            return Err(Failure::Input("--token-file and --tls-ca are for two ports".into()));
        }
        if pair.bidirectional {
            return Err(Failure::Input(
                "--bidirectional has no effect: of more than two ports, each sends to all others, or as the file of --streams says".into(),
            ));
        }
        if let Some(option) = pair.traffic.addresses() {
            return Err(Failure::Input(format!(
                "{option} is for two ports: give --ips, an address for each"
            )));
        }
        if let Some(option) = pair.traffic.of_flows().or_else(|| pair.headers_of_flows()) {
            return Err(Failure::Input(format!(
                "{option} is for two ports: a file of --streams gives the headers of each stream between more"
            )));
        }
        let ports = specs.len();
        at_most(ports, "--gateway", pair.gateway.len())?;
        let traffic = pair.traffic.chosen(&[]);
        let ends = traffic.ends_of_mesh(ports, &pair.ips, &pair.gateway);
        let ends = ends.map_err(|why| Failure::Input(format!("--ips: {why}")))?;
        let is_ipv4 = ends.iter().all(|end| end.ips.first().is_ipv4());
        if traffic.ipv6 && is_ipv4 {
            return Err(Failure::Input(
                "--ipv6 chooses usual addresses: with --ips give IPv6 ones there".into(),
            ));
        }
        if let Some(other) = pair.gateway.iter().find(|gateway| gateway.is_ipv4() != is_ipv4) {
            return Err(Failure::Input(format!(
                "--gateway: {other} is of another IP version than the ports' addresses: give one version"
            )));
        }
        let read = |path| read_streams(path, ports);
        let streams = pair.streams.as_deref().map(read).transpose().map_err(Failure::Input)?;
        Ok(Self { specs, traffic, ends, streams: streams.unwrap_or_default(), pair, options })
    }

    /// Whether there are more than two ports.
    pub fn are_several(&self) -> bool {
        self.specs.len() > 2
    }

    /// Refuses more than two ports, for what only two do.
    pub fn refuse_several(&self, what: &str) -> Result<(), Failure> {
        match self.are_several() {
            true => {
                let count = self.specs.len();
                Err(Failure::Input(format!("{what} is for two ports, and {count} were given")))
            }
            false => Ok(()),
        }
    }

    /// Gives a tester of more than two ports the streams of a full mesh, with frames of these sizes, unless a
    /// file describes others.
    pub fn mesh(&self, tester: &mut Tester, sizes: &Mix) {
        if let Some(is_ipv4) = self.full_mesh() {
            tester.streams = full_mesh(self.specs.len(), sizes, is_ipv4).into();
        }
    }

    /// Whether the frames of a full mesh are IPv4; `None` if there are two ports, or a file says where
    /// streams go.
    fn full_mesh(&self) -> Option<bool> {
        let is_mesh = self.are_several() && self.streams.is_empty();
        is_mesh.then(|| self.ends.iter().all(|end| end.ips.first().is_ipv4()))
    }

    /// Whether a file describes streams.
    pub fn has_streams(&self) -> bool {
        !self.streams.is_empty()
    }

    /// Whether streams are sent beside the load to measure latencies.
    pub fn has_probes(&self) -> bool {
        self.streams.iter().any(|stream| stream.probe)
    }

    /// The sizes of the frames of the streams whose rates add up to the load; `None` without streams.
    pub fn sizes_of_streams(&self) -> Option<Mix> {
        sizes_of_streams(&self.streams)
    }

    /// Opens the ports.
    pub fn open(&self, session: &Session) -> Result<Tester, Failure> {
        let Self { specs, traffic, ends, pair, options, .. } = self;
        let hosts = self.hosts();
        let mut tester = if hosts.iter().any(Option::is_some) {
            let security = pair.credentials.security(session)?;
            let here =
                match hosts.iter().position(Option::is_none) {
                    Some(at) => options.beside(&specs[1 - at]).open(session, &specs[at..=at], true)?.pop(),
                    None if options.cpus.is_some() => return Err(Failure::Input(
                        "--cpus chooses CPUs of this host, and both ports are on other hosts: give --cpus to `kpps agent` there"
                            .into(),
                    )),
                    None => None,
                };
            let how = options.options(true);
            let (ports, sites) = kpps_agent::pair(specs, &hosts, here, &how, &security, &pair.watch)?;
            session.watch();
            Tester::with(ports, &ends[..], sites)
        } else if pair.credentials.are_given() {
            return Err(Failure::Input(
                "--token-file and --tls-ca are for agents on other hosts: give --from or --to".into(),
            ));
        } else {
            self.open_here(session, specs.clone(), ends.clone(), &pair.watch)?
        };
        pair.metrics.iter().try_for_each(|at| tester.serve_metrics(at)).map_err(Failure::Input)?;
        tester.flows = traffic.plan();
        let speed = tester.speed_mbps().map_or(GIGABIT, |mbps| u64::from(mbps) * 1_000_000);
        tester.streams = self.streams.iter().map(|stream| stream.clone().on_link(speed)).collect();
        (tester.learning, tester.steer) = (!pair.no_learning, pair.steer);
        (tester.retries, tester.max_shortfall) = (pair.retries, pair.max_shortfall);
        pair.dut.iter().for_each(|name| kpps_tester::provenance::note_dut(name));
        Ok(tester)
    }

    /// Opens ports of this host.
    fn open_here(
        &self,
        session: &Session,
        specs: Vec<Spec>,
        ends: Vec<Address>,
        watch: &[Scope],
    ) -> Result<Tester, Failure> {
        let ports = self.options.open_on(session, &specs, true, self.pair.cores.as_ref())?;
        Ok(Tester::new(specs, ports, ends, watch)?)
    }

    /// Opens the ports as a testbed.
    pub fn testbed(&self, session: &Session) -> Result<OpenTestbed, Failure> {
        if self.are_several() && self.has_streams() {
            return Err(Failure::Input(
                "--streams between more than two ports is for `kpps trial`: curves and searches send a full mesh there"
                    .into(),
            ));
        }
        let mut tester = self.open(session)?;
        tester.resolve_gateways(&|| session.goes_on())?;
        let mut environment = tester.environment();
        let dut = self.pair.dut.iter().map(|name| ("device under test".to_owned(), name.clone()));
        environment.system.extend(dut);
        environment.bidirectional = !self.are_several() && self.is_bidirectional();
        environment.traffic = self.traffic_differences();
        let (drain, bidirectional) = (self.drain(), self.is_bidirectional());
        Ok(OpenTestbed {
            source: Box::new(Trials { gauges: tester.gauges(), can_change: false }),
            environment,
            testbed: Box::new(PortsTestbed { tester, drain, bidirectional, mesh: self.full_mesh() }),
        })
    }

    /// Whether both ports are ends of veths on this host: a device between them works on this host's CPUs.
    pub fn are_veths_here(&self) -> bool {
        self.hosts().iter().all(Option::is_none) && self.specs.iter().all(is_veth)
    }

    /// A cable without a device, with ports of the same kinds and the same frames.
    #[cfg(target_os = "linux")]
    pub fn bare(&self, session: &Session) -> Result<Box<dyn Testbed>, Failure> {
        let cable = kpps_linux::Cable::lay()?;
        let mut specs = self.specs.clone();
        for (spec, end) in specs.iter_mut().zip(cable.ends()) {
            if let Spec::Packet(interface) | Spec::Auto(interface) | Spec::Xdp { interface, .. } = spec {
                interface.clone_from(end);
            }
        }
        let ends = self.traffic.ends(&[], None).map_err(Failure::Input)?;
        let mut tester = self.open_here(session, specs, ends.into(), &[])?;
        tester.flows = self.traffic.plan();
        let testbed = PortsTestbed { tester, drain: self.drain(), bidirectional: false, mesh: None };
        Ok(Box::new(Bare { testbed, _cable: cable }))
    }

    /// There are no veths.
    #[cfg(not(target_os = "linux"))]
    pub fn bare(&self, _: &Session) -> Result<Box<dyn Testbed>, Failure> {
        Err(Failure::Input("only Linux has veths".into()))
    }

    /// The size of frames, if a given packet or its encapsulation determines it.
    pub fn size(&self) -> Option<Size> {
        self.traffic.least_size()
    }

    /// How frames differ from the default ones, in words.
    pub fn traffic_differences(&self) -> Option<String> {
        let learning = self.pair.no_learning.then(|| "no learning frames".to_owned());
        let streams = match self.streams.len() {
            0 => None,
            1 => Some("one stream of a file".to_owned()),
            count => Some(format!("{count} streams of a file")),
        };
        let mesh = self.full_mesh().map(|_| "a full mesh".to_owned());
        let own = match self.are_several() {
            true => self.addresses_of_mesh(),
            false => self.traffic.differences(&self.pair.vlan),
        };
        let all = [own].into_iter().chain(mesh).chain(streams).chain(learning);
        let all: Vec<_> = all.filter(|text| !text.is_empty()).collect();
        (!all.is_empty()).then(|| all.join(", "))
    }

    /// The addresses of more than two ports, if they are not the usual ones, in words.
    fn addresses_of_mesh(&self) -> String {
        let is_usual = self.pair.ips.is_empty() && !self.traffic.ipv6;
        let ips = self.ends.iter().map(|end| end.ips.to_string());
        if is_usual { String::new() } else { ips.collect::<Vec<_>>().join(", ") }
    }

    /// The first option about headers that was typed. Addresses and VLANs do not count: stations have both.
    pub fn headers(&self) -> Option<String> {
        self.pair.traffic.headers.first()
    }

    /// Whether the running trial's counters are served over HTTP.
    pub fn has_metrics(&self) -> bool {
        self.pair.metrics.is_some()
    }

    /// How long frames are waited for.
    fn drain(&self) -> Duration {
        self.pair.drain.unwrap_or(Duration::from_secs(1))
    }

    /// Whether frames go in both directions.
    pub fn is_bidirectional(&self) -> bool {
        self.pair.bidirectional || self.pair.replies || self.streams.iter().any(|stream| stream.from == 1)
    }

    /// The hosts of the ports, if they are others.
    fn hosts(&self) -> Vec<Option<&kpps_agent::Host>> {
        let both = [self.pair.from.as_ref(), self.pair.to.as_ref()];
        both.into_iter().chain(std::iter::repeat(None)).take(self.specs.len()).collect()
    }

    /// The name of the first port on another host, if there is one.
    pub fn first_elsewhere(&self) -> Option<String> {
        let at = self.hosts().iter().position(Option::is_some)?;
        self.names().into_iter().nth(at)
    }

    /// The ports' names in results.
    pub fn names(&self) -> Vec<String> {
        let name = |(port, host): (&Spec, Option<&kpps_agent::Host>)| match host {
            Some(host) => format!("{host}/{port}"),
            None => port.to_string(),
        };
        self.specs.iter().zip(self.hosts()).map(name).collect()
    }

    /// The load as an offer.
    pub fn offer(
        &self,
        tester: &Tester,
        rate: RateSpec,
        shape: Shape,
        sizes: Mix,
        duration: Duration,
    ) -> Offer {
        let (drain, bidirectional) = (self.drain(), self.is_bidirectional());
        Offer { drain, bidirectional, ..tester.offer(rate, shape, sizes, duration) }
    }
}
