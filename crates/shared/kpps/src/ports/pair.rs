//! Two ports with a device under test between them: how they are opened, addressed and observed.

use super::agent::Credentials;
use super::options::first;
use super::traffic::{Traffic, at_most};
use super::{PortOptions, specs};
use crate::error::Failure;
use crate::heading;
use crate::live::OpenTestbed;
use crate::session::Session;
use clap::Args;
use kpps_frames::{Mac, Mix, Size};
use kpps_methods::units::{self, Rate};
use kpps_ports::Spec;
use kpps_ports::port::run::Shape;
use kpps_tester::live::Trials;
use kpps_tester::observe::Place;
use kpps_tester::{Offer, Tester};
use std::net::IpAddr;
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
    traffic: Traffic,
    /// VLAN of the frames: one for both ports, or one for each, the first port's first; 0 for none
    #[arg(long, value_delimiter = ',', value_name = "ID[,ID]", value_parser = clap::value_parser!(u16).range(..=4094), help_heading = heading::TRAFFIC)]
    vlan: Vec<u16>,
    /// Routers that the ports send to, the first port's first; kpps resolves them by ARP or neighbour
    /// discovery [default: the other port]
    #[arg(long, value_delimiter = ',', value_name = "ADDRESS[,ADDRESS]", help_heading = heading::TRAFFIC)]
    gateway: Vec<IpAddr>,
    /// MAC address that the first port sends to [default: the second port's, or the gateway's]
    #[arg(long, value_name = "MAC", conflicts_with = "gateway", help_heading = heading::TRAFFIC)]
    dst_mac: Option<Mac>,
    /// Observe this interface of the device under test too: IFACE; NAMESPACE/IFACE in another network
    /// namespace (`ip netns`); NAMESPACE/ for all of them. kpps finds the other ends of veth pairs and
    /// bridges of its own namespace by itself
    #[arg(long, value_delimiter = ',', value_name = "PLACE,…", help_heading = heading::DEVICE_UNDER_TEST)]
    watch: Vec<Place>,
    /// The name of the device under test, for the results
    #[arg(long, value_name = "NAME", help_heading = heading::DEVICE_UNDER_TEST)]
    dut: Option<String>,
    /// Serve the counters of the running trial over HTTP at this address, as 127.0.0.1:9464: OpenMetrics
    /// text, for Prometheus. `kpps trial` adds shortfall and latency of the last interval, by default of 1 s
    #[arg(long, value_name = "ADDRESS", help_heading = heading::RESULTS)]
    pub metrics: Option<String>,
    /// How long to wait for frames after the last one was sent; less if none is missing [default: 1s]
    #[arg(long, value_name = "TIME", value_parser = units::duration, help_heading = heading::TIME)]
    drain: Option<Duration>,
    /// How often to repeat a trial in which other programs had the generator's CPU, or its quota was used up
    /// [default: 2, and 0 for trials of more than 1min]
    #[arg(long, value_name = "TIMES", help_heading = heading::BOUNDS)]
    retries: Option<u32>,
    /// A trial is no measurement of the device under test if the tester did not send in time, or did not take
    /// in, more than this share of the frames [default: 0.1%]
    #[arg(long, value_name = "SHARE", value_parser = kpps_methods::bounds::loss, help_heading = heading::BOUNDS)]
    max_shortfall: Option<f64>,
    /// Offer the same load from the second port to the first, too
    #[arg(long, help_heading = heading::LOAD)]
    pub bidirectional: bool,
    /// As --bidirectional, and the second port replies: it sends to the addresses and ports from which each
    /// flow arrives there, as a NAT or a stateful firewall between them needs
    #[arg(long, help_heading = heading::LOAD)]
    replies: bool,
}

impl PortPair {
    /// Opens the ports.
    pub fn open(&self, session: &Session, ports: &[Spec], options: &PortOptions) -> Result<Tester, Failure> {
        options.check(ports)?;
        let two = || Failure::Input("a trial takes two ports: --ports packet:A,packet:B".into());
        let specs: [Spec; 2] = ports.to_vec().try_into().map_err(|_| two())?;
        at_most(2, "--vlan", self.vlan.len())?;
        at_most(2, "--encap", self.traffic.encap.len())?;
        at_most(2, "--gateway", self.gateway.len())?;
        // No port is opened for flows that do not exist.
        let traffic = self.traffic();
        traffic.flows().map_err(Failure::Input)?;
        let addresses = traffic.ends(&self.gateway, self.dst_mac).map_err(Failure::Input)?;
        let hosts = self.hosts();
        let mut tester = if hosts.iter().any(Option::is_some) {
            let security = self.credentials.security(session)?;
            let here =
                match hosts.iter().position(Option::is_none) {
                    Some(at) => options.beside(&specs[1 - at]).open(session, &specs[at..=at], true)?.pop(),
                    None if options.cpus.is_some() => return Err(Failure::Input(
                        "--cpus is of this host, and both ports are on others: give it to `kpps agent` there"
                            .into(),
                    )),
                    None => None,
                };
            let how = options.options(true);
            let (ports, sites) = kpps_agent::pair(&specs, hosts, here, &how, &security, &self.watch)?;
            session.watch();
            Tester::with(ports, addresses, sites)
        } else if self.credentials.are_given() {
            return Err(Failure::Input(
                "--token-file and --tls-ca are for agents on other hosts: give --from or --to".into(),
            ));
        } else {
            let ports = options.open(session, &specs, true)?.try_into().map_err(|_| two())?;
            Tester::new(specs, ports, addresses, &self.watch)?
        };
        self.metrics.iter().try_for_each(|at| tester.serve_metrics(at)).map_err(Failure::Input)?;
        tester.flows = traffic.plan();
        (tester.retries, tester.max_shortfall) = (self.retries, self.max_shortfall);
        self.dut.iter().for_each(|name| kpps_tester::provenance::note_dut(name));
        Ok(tester)
    }

    /// The size of frames, if a given packet or its encapsulation determines it.
    pub fn size(&self) -> Option<Size> {
        self.traffic().least_size()
    }

    /// The form of frames.
    fn traffic(&self) -> kpps_tester::Traffic {
        kpps_tester::Traffic { replies: self.replies, ..self.traffic.chosen(&self.vlan) }
    }

    /// The ports with these names as a testbed.
    pub fn testbed(
        &self,
        session: &Session,
        names: &[String],
        options: &PortOptions,
    ) -> Result<OpenTestbed, Failure> {
        let mut tester = self.open(session, &specs(names)?, options)?;
        tester.resolve_gateways(&|| session.goes_on())?;
        let mut environment = tester.environment();
        environment.extend(self.dut.iter().map(|name| ("device under test".to_owned(), name.clone())));
        let (drain, bidirectional) = (self.drain(), self.is_bidirectional());
        Ok(OpenTestbed {
            source: Box::new(Trials { gauges: tester.gauges(), can_change: false }),
            environment,
            testbed: Box::new(kpps_tester::PortsTestbed { tester, drain, bidirectional, mix: None }),
        })
    }

    /// How frames differ from the default ones, in words.
    pub fn unusual(&self) -> Option<String> {
        Some(self.traffic().unusual(&self.vlan)).filter(|text| !text.is_empty())
    }

    /// A given option about the headers of frames, other than addresses and VLANs, which stations have, too.
    pub fn shapes(&self) -> Option<&'static str> {
        self.traffic.shapes()
    }

    /// How long frames are waited for.
    pub fn drain(&self) -> Duration {
        self.drain.unwrap_or(Duration::from_secs(1))
    }

    /// Whether frames go in both directions.
    pub fn is_bidirectional(&self) -> bool {
        self.bidirectional || self.replies
    }

    /// An option that was given and that only two ports have.
    pub fn given(&self) -> Option<&'static str> {
        let given = [
            ("--bidirectional", self.bidirectional),
            ("--replies", self.replies),
            ("--from and --to", self.hosts().iter().any(Option::is_some)),
            ("--token-file and --tls-ca", self.credentials.are_given()),
            ("--gateway", !self.gateway.is_empty()),
            ("--dst-mac", self.dst_mac.is_some()),
            ("--dut", self.dut.is_some()),
            ("--metrics", self.metrics.is_some()),
            ("--retries", self.retries.is_some()),
            ("--max-shortfall", self.max_shortfall.is_some()),
            ("--watch", !self.watch.is_empty()),
            ("--drain", self.drain.is_some()),
            ("--vlan", !self.vlan.is_empty()),
        ];
        first(given).or_else(|| self.traffic.given())
    }

    /// The hosts of both ports, if they are others.
    fn hosts(&self) -> [Option<&kpps_agent::Host>; 2] {
        [self.from.as_ref(), self.to.as_ref()]
    }

    /// The ports' names in results.
    pub fn names(&self, ports: &[String]) -> Vec<String> {
        let mut hosts = self.hosts().into_iter();
        let name = |port: &String| match hosts.next().flatten() {
            Some(host) => format!("{host}/{port}"),
            None => port.clone(),
        };
        ports.iter().map(name).collect()
    }

    /// The load as an offer.
    pub fn offer(&self, tester: &Tester, load: Rate, shape: Shape, sizes: &Mix, duration: Duration) -> Offer {
        let (drain, bidirectional) = (self.drain(), self.is_bidirectional());
        Offer { drain, bidirectional, ..tester.offer(load, shape, sizes, duration) }
    }
}
