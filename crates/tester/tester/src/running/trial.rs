//! One trial: ports, threads, and the fate of every frame.

use crate::accounting::counted::{Counted, Counts};
use crate::accounting::ledger::{PortCount, missed};
use crate::accounting::observe::Place;
use crate::accounting::provenance;
use crate::clock::{Clocks, Reading};
use crate::error::Error;
use crate::judging::arrivals::{Arrived, Findings, OfFlow};
use crate::judging::kept::Kept;
use crate::judging::recognised::Classes;
use crate::judging::timeline::{self, Timeline, Whole};
use crate::running::learn::{self, End, FlowPlan};
use crate::running::local::{LocalHost, LocalPort, SLOW, interface};
use crate::running::neighbours::Station;
use crate::running::test_port::{Done, Expect, Host, Received, Task, TestPort};
use crate::watching::gauges::{Gauges, LiveRate, LiveSystem, Running};
use crate::watching::metrics::Metrics;
use crate::watching::state::TrialState;
use kpps_documents::detail::{Arrival, Interval, RateChange};
use kpps_documents::{Disturbance, LINK_CHANGES};
use kpps_frames::build::Flow;
use kpps_frames::flows::Addresses;
use kpps_frames::{Encap, Look, Mac, Mix, RawPacket, Size, Tag, Templates, rate, tag};
use kpps_methods::units::Rate;
use kpps_methods::{AllowedLoad, Latency};
use kpps_ports::Spec;
use kpps_ports::port::run::{Aside, Gaps, Load, Plan, Shape, Times, Timetable};
use kpps_ports::port::{AnyPort, Trouble};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::hash::{BuildHasher, RandomState};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A load and its duration.
#[derive(Clone, Debug)]
pub struct Offer {
    /// The rate in each direction.
    pub load: Load,
    /// The distribution of the gaps.
    pub shape: Shape,
    /// A limit of the frames in each direction.
    pub count: Option<u64>,
    /// Sizes of the frames.
    pub sizes: Mix,
    /// How long frames are sent.
    pub duration: Duration,
    /// How long frames may still arrive after the last one was sent.
    pub drain: Duration,
    /// Whether frames go from the second port to the first, too.
    pub bidirectional: bool,
    /// Whether frames with anomalies are kept.
    pub keep: bool,
    /// Frames of a capture, in place of test frames.
    pub replay: Option<Replay>,
    /// The length of the intervals that are counted by themselves, if any are.
    pub every: Option<Duration>,
}

/// Frames of a capture, sent without tags.
#[derive(Clone, Debug)]
pub struct Replay {
    /// The frames.
    pub frames: Arc<Templates>,
    /// The time of each, in place of load and shape.
    pub times: Option<Arc<Times>>,
    /// The classes by which they are recognised.
    pub classes: Arc<Classes>,
}

/// The result of one direction.
pub struct DirectionOutcome {
    /// The port that sends: 0 or 1.
    pub from: usize,
    /// Frames that were due.
    pub intended: u64,
    /// Frames that were sent.
    pub sent: u64,
    /// The time of sending.
    pub elapsed: Duration,
    /// The gaps between frames, if they were paced.
    pub gaps: Option<Gaps>,
    /// The reasons that kept the sender from its CPU, if they were observed.
    pub disturbance: Option<Disturbance>,
    /// The arrivals.
    pub arrived: Arrived,
    /// Frames that may be damaged frames of this direction, or other traffic. Up to this number of the
    /// corrupted frames of `arrived` may be lost frames, and of its other traffic may belong to this
    /// direction.
    pub either: u64,
    /// By how many frames queues grew while they were sent, if that is known.
    pub queue_growth: Option<u64>,
    /// Why frames arrive in another way than they should.
    pub findings: Findings,
    /// Frames that came through and that the receiving port could not take in: its receive overflow, if the
    /// port counts it.
    pub overflow: Option<u64>,
    /// When frames were lost last (`Arrivals::last_gap`).
    pub last_gap: Option<Duration>,
    /// Times from sending to receiving.
    pub latency: Latency,
    /// The clock of the arrivals.
    pub arrival: Arrival,
    /// The fate of each flow, if there are several.
    pub flows: Vec<OfFlow>,
    /// For each size of a mix, frames sent and frames that arrived.
    pub sizes: Vec<(u64, u64)>,
    /// Frames with anomalies, if they were kept.
    pub kept: Kept,
    /// The changes of the load while frames were sent.
    pub rate_changes: Vec<RateChange>,
    /// The length of intervals in s, and their results, if they were asked for.
    pub series: Option<(f64, Vec<Interval>)>,
}

impl DirectionOutcome {
    /// The generator's shortfall: frames that could not be sent at their time.
    pub fn shortfall(&self) -> u64 {
        self.intended.saturating_sub(self.sent)
    }
    /// Frames that were sent and did not come through, as far as is known: an overflow that the port does not
    /// count is among them.
    pub fn lost(&self) -> u64 {
        self.sent.saturating_sub(self.arrived.received.saturating_add(self.overflow.unwrap_or(0)))
    }
}

/// Raw counts of a trial's threads. The [document](crate::document()) is made of them. It leaves out what
/// only the testbed needs ([`DirectionOutcome::last_gap`], a [`Trouble`] as an error), captured frames, and
/// full histograms.
pub struct Outcome {
    /// One or both directions.
    pub directions: Vec<DirectionOutcome>,
    /// Whether it ran to its end.
    pub complete: bool,
    /// The failure, if any.
    pub trouble: Option<Trouble>,
    /// Whether the path was open before it began.
    pub learned: bool,
    /// The counts of the systems around the ports, frames that did not arrive among them.
    pub counted: Counted,
    /// The clocks of latencies, if there is more than one.
    pub clocks: Option<kpps_documents::detail::Clocks>,
    /// The largest permitted share of the tester's own losses in the due frames; `None`: the usual one.
    pub max_shortfall: Option<f64>,
    /// How many times it was repeated, because something had disturbed the trial before.
    pub retries: u32,
}

impl Outcome {
    /// The interfaces whose links went down or up during the trial, and how often.
    pub fn link_changes(&self) -> impl Iterator<Item = (String, u64)> {
        let changes = |(name, counts): (&String, &Counts)| Some((name.clone(), *counts.get(LINK_CHANGES)?));
        self.counted.interfaces.iter().filter_map(changes)
    }

    /// The reasons that kept the senders from their CPUs, all together; `None` if they were not observed for
    /// each sender.
    pub fn disturbance(&self) -> Option<Disturbance> {
        let each = self.directions.iter().map(|direction| direction.disturbance.clone());
        each.reduce(|all, next| Some(all?.and(next?))).flatten()
    }
}

/// Two ports with a device under test between them.
pub struct Tester {
    ports: [Box<dyn TestPort>; 2],
    ends: [End; 2],
    sites: Vec<Site>,
    /// The station addresses of the routers that the ends send to, as far as they have answered.
    routers: [Option<Mac>; 2],
    gauges: Arc<Gauges>,
    metrics: Option<Metrics>,
    /// The flows of each direction.
    pub flows: FlowPlan,
    /// The limit of the senders, in frames per second, if that is known: a changed rate is not above it.
    pub ceiling_pps: Option<f64>,
    /// The largest permitted share of the tester's own losses in the due frames; `None`: the usual one.
    pub max_shortfall: Option<f64>,
    /// How often a disturbed trial is repeated ([`undisturbed`](crate::undisturbed)); `None`: a few times, if
    /// it is short.
    pub retries: Option<u32>,
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
    /// A tester with these open ports of this process and their addresses. It observes their surroundings and
    /// `places`.
    ///
    /// # Errors
    /// [`Error::Observe`].
    pub fn new(
        specs: [Spec; 2],
        ports: [AnyPort; 2],
        addresses: [Address; 2],
        places: &[Place],
    ) -> Result<Self, Error> {
        let own: Vec<_> = specs.iter().filter_map(interface).collect();
        let host = LocalHost::around(&own, places)?;
        let [a, b] = ports;
        let ports: [Box<dyn TestPort>; 2] =
            [Box::new(LocalPort::new(&specs[0], a)?), Box::new(LocalPort::new(&specs[1], b)?)];
        Ok(Self::with(ports, addresses, vec![Site { name: None, host: Box::new(host), ports: vec![0, 1] }]))
    }

    /// With these ports, on any host, their addresses and systems.
    pub fn with(ports: [Box<dyn TestPort>; 2], addresses: [Address; 2], sites: Vec<Site>) -> Self {
        let ends = [0, 1].map(|at| {
            let Address { ips, gateway, to, encap } = addresses[at];
            // A tunnel's end is the station, and the other one its next hop if no router is.
            let tunnel = encap.tunnel();
            let station = Station {
                mac: ports[at].mac(),
                tags: encap.tags(),
                ips: tunnel.map_or(ips, |[own, _]| Addresses::from(own, 1)),
            };
            let gateway = gateway.or(tunnel.map(|[_, other]| other).filter(|_| to.is_none()));
            End { station, gateway, to, ips, encap }
        });
        let (gauges, flows) = (Arc::default(), FlowPlan::default());
        let (routers, metrics) = ([None; 2], None);
        let tester = Self {
            ports,
            ends,
            sites,
            routers,
            gauges,
            metrics,
            flows,
            ceiling_pps: None,
            max_shortfall: None,
            retries: None,
        };
        let names = tester.names();
        // Routers are noted when they have answered.
        let is_port =
            |name: &String| names.iter().any(|port| name.ends_with(port)) && !name.starts_with(GATEWAY_OF);
        provenance::note_ports(tester.environment().into_iter().filter(|(name, _)| is_port(name)));
        tester
    }

    /// The ports' names.
    pub fn names(&self) -> [&str; 2] {
        [self.ports[0].name(), self.ports[1].name()]
    }

    /// The counters of a running trial.
    pub fn gauges(&self) -> Arc<Gauges> {
        self.gauges.clone()
    }

    /// Serves the counters of its trials over HTTP ([`Metrics::serve`]) as long as it lives.
    ///
    /// # Errors
    /// In one line: the address is in use, or is none of this host.
    pub fn serve_metrics(&mut self, address: &str) -> Result<(), String> {
        self.metrics = Some(Metrics::serve(address, self.gauges())?);
        Ok(())
    }

    /// Resolves the routers that the ends send to, so that the environment has them.
    ///
    /// # Errors
    /// A port failed.
    pub fn resolve_gateways(&mut self, go_on: &dyn Fn() -> bool) -> Result<(), Error> {
        self.routers = learn::resolve(&mut self.ports, &self.ends, go_on)?;
        Ok(())
    }

    /// The environment of trials, by name.
    pub fn environment(&self) -> BTreeMap<String, String> {
        let of = |site: &Site| {
            let ports = site.ports.iter().map(|&at| (self.ports[at].name(), self.ports[at].interface()));
            let all = site.host.environment(&ports.collect::<Vec<_>>());
            let place = site.name.as_ref().map_or_else(String::new, |name| format!("{name}: "));
            all.into_iter().map(move |(name, what)| (format!("{place}{name}"), what)).collect::<Vec<_>>()
        };
        let gateways = (0..2).filter_map(|at| {
            let router = self.routers[at].map_or("no answer".into(), |mac| mac.to_string());
            let gateway = self.ends[at].gateway?;
            Some((format!("{GATEWAY_OF} {}", self.ports[at].name()), format!("{gateway} ({router})")))
        });
        self.sites.iter().flat_map(of).chain(gateways).collect()
    }

    /// The speed of the slower link in Mb/s, if it is known.
    pub fn speed_mbps(&self) -> Option<u32> {
        self.ports.iter().filter_map(|port| port.speed_mbps()).min()
    }

    /// The line rate of the slower link for these sizes, in frames per second, if its speed is known.
    pub fn line_rate_pps(&self, sizes: &Mix) -> Option<f64> {
        self.speed_mbps().map(|mbps| sizes.line_rate_pps(u64::from(mbps) * 1_000_000))
    }

    /// An offer in one direction, with the usual drain. A share of line rate is one of the slower link's, or
    /// of a gigabit if that is unknown.
    pub fn offer(&self, load: Rate, shape: Shape, sizes: &Mix, duration: Duration) -> Offer {
        let line_pps = self.line_rate_pps(sizes).unwrap_or_else(|| sizes.line_rate_pps(rate::GIGABIT));
        let pps = load.pps(line_pps, sizes.mean_bytes_with_fcs());
        Offer {
            load: if pps.is_finite() { Load::Pps(pps) } else { Load::Max },
            shape,
            count: None,
            sizes: sizes.clone(),
            duration,
            drain: Duration::from_secs(1),
            bidirectional: false,
            keep: false,
            replay: None,
            every: None,
        }
    }

    /// The name of a flow of the direction from this port. A reply has that with which it arrives.
    pub fn flow_name(&self, from: usize, flow: u32) -> String {
        let initiator = if self.flows.replies { 0 } else { from };
        let flows = self.flows.between(&self.ends[initiator], &self.ends[1 - initiator]);
        let flow = flows.map(|flows| flows.nth(flow, [Mac::default(); 2], None));
        flow.map_or_else(String::new, |flow| {
            let flow = if initiator == from { flow } else { reply(&flow) };
            format!("{} to {}", SocketAddr::from(flow.from), SocketAddr::from(flow.to))
        })
    }

    /// The flows of one direction as they leave their port, to these next hops.
    fn flows_from(&self, from: usize, macs: [Mac; 2]) -> Result<Vec<Flow<IpAddr>>, Error> {
        let count = self.flows.count;
        let flows =
            self.flows.between(&self.ends[from], &self.ends[1 - from]).ok_or(Error::Flows { count })?;
        let macs = [self.ends[from].station.mac, macs[from]];
        Ok((0..flows.count).map(|n| flows.nth(n, macs, None)).collect())
    }

    /// The form of frames from one end at the end `at`.
    fn look(&self, from: usize, at: usize) -> Look<'_> {
        self.look_at(from, at, self.flows.packet.as_deref())
    }

    /// The same with a packet from elsewhere.
    fn look_at<'p>(&self, from: usize, at: usize, packet: Option<&'p RawPacket>) -> Look<'p> {
        let FlowPlan { dscp, hops, .. } = self.flows;
        let encap = self.ends[at].encap;
        Look {
            encap: if at == from { encap } else { encap.reversed() },
            inside: [from, 1 - from].map(|end| self.ends[end].station.mac),
            dscp,
            hops,
            balanced: !self.ends.iter().all(|end| end.encap.is_plain()),
            packet,
        }
    }

    /// The frames of these flows from one end, as they are at the end `at`.
    fn frames(
        &self,
        flows: &[Flow<IpAddr>],
        from: usize,
        at: usize,
        sizes: &Mix,
    ) -> Result<Templates, Error> {
        let [before, now] = [from, at].map(|end| self.ends[end].encap.bytes() as i16);
        self.look(from, at)
            .templates(flows.iter().copied(), &sizes.resized(now - before), 0)
            .map_err(|why| Error::frame(sizes, why))
    }

    /// Where the frames that arrive at each port have their tags.
    fn places(&self) -> Result<learn::Places, Error> {
        let mut places = learn::Places::default();
        for (from, at) in BOTH {
            let flows = self.flows_from(from, [Mac::default(); 2])?;
            let least = flows.first().map_or(Size::MIN, |flow| self.look(from, from).least(flow));
            let some = &flows[..flows.len().min(1)];
            // A device that takes layers away may leave less than the smallest frame.
            let size = if self.flows.packet.is_some() { least } else { least.max(Size::with_fcs(256)) };
            let frames = self.frames(some, from, at, &Mix::fixed(size))?;
            places[at] = (frames.tag(), frames.inner());
        }
        Ok(places)
    }

    /// Before a trial: the next hops, whether the paths are open, and for replies how flows arrive.
    fn learn(&mut self, bidirectional: bool, go_on: &dyn Fn() -> bool) -> Result<Paths, Error> {
        let replies = bidirectional && self.flows.replies;
        let directions = if bidirectional && !replies { &BOTH[..] } else { &BOTH[..1] };
        let (mut ends, plan, mut places) = (self.ends, self.flows.clone(), self.places()?);
        // A number of their own: late learning frames are other traffic in the trial.
        let trial = new_trial();
        places.iter_mut().for_each(|(place, _)| *place = place.of_trial(trial));
        let packet = plan.packet.as_deref();
        let looks = [0, 1].map(|from| self.look_at(from, from, packet));
        let probe = |from: usize, to_mac: Mac, destination: u32, tag: (u32, Tag)| {
            let macs = [ends[from].station.mac, to_mac];
            let mut flow = plan.between(&ends[from], &ends[1 - from])?.nth(0, macs, None);
            flow.to.0 = ends[1 - from].ips.nth(destination);
            looks[from].frame(&flow, 0, tag)
        };
        let known = (&ends, &places);
        let (mut to, open) = learn::learn(&mut self.ports, known, (directions, &probe), trial, go_on)?;
        let Some(mac) = to[0].filter(|_| replies && open) else {
            return Ok(Paths { to, open: open && !replies, flows: None });
        };
        let sent = self.flows_from(0, [mac; 2])?;
        let learned = learn::learn_flows(&mut self.ports, &ends, (&sent, &looks[0], &places), trial, go_on)?;
        let arrived: Vec<_> = learned.iter().flatten().copied().collect();
        let missing = sent.len() - arrived.len();
        if let (Some(first), 0) = (arrived.first(), missing) {
            // Without a router of its own the second end answers whoever the frames came from.
            if ends[1].gateway.is_none() {
                ends[1].to.get_or_insert(first.from_mac);
            }
        } else if go_on() {
            return Err(Error::Unanswerable { missing, flows: sent.len() });
        } else {
            return Ok(Paths { to, open: false, flows: None });
        }
        // A reply to each address, so that the device under test resolves it.
        let mut known = BTreeSet::new();
        let firsts: Vec<_> =
            sent.iter().zip(&arrived).filter(|(sent, _)| known.insert(sent.from.0)).collect();
        let probe = |from: usize, to_mac: Mac, destination: u32, tag: (u32, Tag)| {
            let (_, arrived) = firsts.get(destination as usize)?;
            let from_mac = ends[from].station.mac;
            looks[from].frame(&Flow { from_mac, to_mac, ..reply(arrived) }, 0, tag)
        };
        let known = (&ends, &places);
        let (back, open) = learn::learn(&mut self.ports, known, (&BOTH[1..], &probe), trial, go_on)?;
        to[1] = back[1];
        Ok(Paths { to, open, flows: Some([sent, arrived]) })
    }

    /// The flows of one direction as they leave their port, and as they arrive.
    fn flows_of(&self, from: usize, macs: [Mac; 2], paths: &Paths) -> Result<[Vec<Flow<IpAddr>>; 2], Error> {
        let Some([sent, arrived]) = &paths.flows else {
            let flows = self.flows_from(from, macs)?;
            return Ok([flows.clone(), flows]);
        };
        if from == 0 {
            return Ok([sent.clone(), arrived.clone()]);
        }
        let from_mac = self.ends[1].station.mac;
        let answer = |flow: &Flow<IpAddr>| Flow { from_mac, to_mac: macs[1], ..reply(flow) };
        Ok([arrived.iter().map(answer).collect(), sent.iter().map(reply).collect()])
    }

    /// Offers a load and counts its frames. Asks some times a second whether to go on. The result so far is
    /// returned in any case.
    ///
    /// # Errors
    /// [`Error`], if there is no trial.
    pub fn trial(&mut self, offer: &Offer, go_on: &dyn Fn() -> bool) -> Result<Outcome, Error> {
        if let (Load::Pps(offered_pps), Some(mbps)) = (offer.load, self.speed_mbps()) {
            let most = offer.sizes.line_rate_pps(u64::from(mbps) * 1_000_000);
            // A load typed as the rounded-up line rate is the line rate.
            if offered_pps > most.ceil() {
                return Err(Error::AboveLineRate { offered_pps, size: offer.sizes.to_string(), mbps, most });
            }
        }
        let directions: &[(usize, usize)] = if offer.bidirectional { &BOTH } else { &BOTH[..1] };
        for &(from, _) in directions {
            let allowed = self.ports[from].allowed().check(offer.load, offer.shape, offer.duration);
            allowed.map_err(|what| Error::NotAllowed { port: self.ports[from].name().to_owned(), what })?;
        }
        if offer.replay.is_some()
            && let Some(port) = self.ports.iter().find(|port| !port.can_replay())
        {
            return Err(Error::NoReplay(port.name().to_owned()));
        }
        let FlowPlan { replies, dscp, hops, packet, .. } = &self.flows;
        let plain = self.ends.iter().all(|end| end.encap.is_plain()) && packet.is_none();
        if !plain || dscp.or(*hops).is_some() || *replies {
            let is_socket =
                |name: &&str| name.rsplit('/').next().is_some_and(|name| name.starts_with("udp:"));
            if let Some(port) = self.names().iter().find(|name| is_socket(name)) {
                return Err(Error::PayloadOnly((*port).to_owned()));
            }
        }
        for &(from, to) in directions {
            // Before anything is sent.
            if let Some(replay) = &offer.replay {
                for port in [&self.ports[from], &self.ports[to]] {
                    kpps_ports::Error::check_each(&port.name(), port.longest(), replay.frames.lengths())?;
                }
                continue;
            }
            let flows = self.flows_from(from, [Mac::default(); 2])?;
            for at in [from, to] {
                let frames = self.frames(&flows, from, at, &offer.sizes)?;
                let port = &self.ports[at];
                kpps_ports::Error::check_longest(&port.name(), port.longest(), frames.longest())?;
            }
        }
        let trial = new_trial();
        let paths = self.learn(offer.bidirectional, go_on)?;
        let (macs, learned) = (paths.to, paths.open);
        if let Some(&(from, _)) = directions.iter().find(|(from, _)| macs[*from].is_none() && go_on())
            && let Some(gateway) = self.ends[from].gateway
        {
            return Err(Error::Silent { port: self.ports[from].name().to_owned(), gateway });
        }
        self.routers = macs;
        for (at, mac) in macs.iter().enumerate() {
            if let Some(gateway) = self.ends[at].gateway {
                let mac = mac.map(|mac| mac.to_string());
                provenance::note_gateway(self.ports[at].name(), gateway.to_string(), mac);
            }
        }
        let macs = [0, 1].map(|at| macs[at].unwrap_or(self.ends[1 - at].station.mac));
        let expected = match offer.load {
            Load::Pps(pps) => {
                let timetable = match offer.replay.as_ref().and_then(|replay| replay.times.clone()) {
                    Some(times) => Timetable::of(times),
                    None => Timetable::new(pps, offer.shape),
                };
                // If chance decides, only the sender knows.
                let due = timetable.until(offer.duration.as_secs_f64());
                due.map(|due| due.min(offer.count.unwrap_or(u64::MAX)))
            }
            Load::Max => offer.count,
        };
        let mut clocks = Clocks::before(self.read_clocks()?);
        let length = offer.duration + offer.drain;
        let (margin_ns, parts) = clocks.margin(length);
        let mut tasks = [0, 1].map(|at| Task {
            at,
            station: self.ends[at].station,
            plan: None,
            expect: None,
            duration: offer.duration,
            drain: offer.drain,
            epoch_ns: 0,
            every: offer.every,
            follower: None,
        });
        for &(from, to) in directions {
            let (sent, frames) = match &offer.replay {
                Some(replay) => {
                    let End { gateway, to, station, .. } = &self.ends[from];
                    // With a next hop, frames are sent from this station to the next hop's.
                    let sent = match gateway.is_some() || to.is_some() {
                        true => Arc::new((*replay.frames).clone().between([station.mac, macs[from]])),
                        false => replay.frames.clone(),
                    };
                    (sent, replay.frames.clone())
                }
                None => {
                    let [leave, arrive] = self.flows_of(from, macs, &paths)?;
                    let sent = Arc::new(self.frames(&leave, from, from, &offer.sizes)?.of_trial(trial));
                    let frames = match self.ends[from].encap == self.ends[to].encap.reversed()
                        && paths.flows.is_none()
                    {
                        true => sent.clone(),
                        // The device under test adds layers to each frame, removes some, or translates
                        // addresses.
                        false => Arc::new(self.frames(&arrive, from, to, &offer.sizes)?.of_trial(trial)),
                    };
                    (sent, frames)
                }
            };
            let recognise = offer.replay.as_ref().map(|replay| replay.classes.clone());
            let stream = if from == 0 { 0 } else { tag::BACK };
            let count = expected.unwrap_or(1 << 20);
            tasks[to].expect =
                Some(Expect { stream, frames, count, margin_ns, parts, keep: offer.keep, recognise });
            tasks[from].plan = Some(Plan {
                load: offer.load,
                shape: offer.shape,
                times: offer.replay.as_ref().and_then(|replay| replay.times.clone()),
                as_they_are: offer.replay.is_some(),
                frames: sent,
                // The pool is shared: a buffer may hold a frame of the other port.
                rewrite: true,
                count: expected.or(offer.count),
                stream,
                epoch: None,
            });
        }
        for site in &mut self.sites {
            // In a user's own packet the tag is at another place than the kernel's observation expects.
            let known = offer.replay.is_none() && self.flows.packet.is_none();
            site.host.before(known.then_some(trial))?;
        }
        let mut counts = [0, 1].map(|at| PortCount {
            port: self.ports[at].name().to_owned(),
            interface: self.ports[at].interface().map(ToOwned::to_owned),
            sent: tasks[at].plan.as_ref().map(|_| 0),
            receives: tasks[at].expect.is_some(),
            ..PortCount::default()
        });
        learn::clear(&mut self.ports, &self.ends)?;
        let state = Arc::new(TrialState::new(directions.len()));
        let wait = offer.every.map_or(Duration::ZERO, |_| LEAD);
        clocks.begin(wait);
        for task in &mut tasks {
            (task.epoch_ns, task.follower) = (clocks.epoch_ns(task.at), clocks.follower(task.at, length));
        }
        self.gauges.begin(self.running(Instant::now() + wait, offer, &state, &counts));
        let mut results = run(&mut self.ports, &tasks, &state, go_on);
        for (count, done) in counts.iter_mut().zip(&results) {
            count.sent = count.sent.map(|_| done.sent);
            (count.missed, count.errors) = (done.missed, done.errors);
            count.taken = done.taken.filter(|_| done.trouble.is_none());
        }
        let lost = [0, 1].map(|at| results[at].trouble.is_some());
        let mut trouble = None;
        for result in &mut results {
            trouble = trouble.or(result.trouble.take());
        }
        let mut counted = Counted::default();
        for site in &mut self.sites {
            let there: Vec<_> = site.ports.iter().map(|&at| counts[at].clone()).collect();
            match site.host.after(&there) {
                Ok(more) => counted.add(site.name.as_deref(), more),
                // An agent's counts are lost with it, but not the other measurements.
                Err(Error::Trouble(lost)) => trouble = trouble.or(Some(lost)),
                Err(error) => return Err(error),
            }
        }
        for (at, done) in results.iter_mut().enumerate() {
            let values = done.unbelievable.drain(..).map(|what| format!("{}: {what}", self.ports[at].name()));
            counted.unbelievable.extend(values);
        }
        results.iter_mut().enumerate().for_each(|(at, done)| clocks.followed(at, done.follower.take()));
        if trouble.is_none() {
            match self.read_clocks() {
                Ok(after) => clocks.after(after),
                Err(lost) => trouble = Some(lost),
            }
        }

        let document = clocks.document();
        let complete = !state.is_abandoned() && trouble.is_none();
        let mut done = Vec::with_capacity(directions.len());
        for &(from, to) in directions {
            let Done { mut sent, intended, elapsed, gaps, .. } = results[from];
            let reached = results[to].received.arrived.received;
            if lost[from] {
                // The last report is old: frames received or dropped since then were also sent.
                let dropped = if directions.len() == 1 { counted.accounts.total() } else { 0 };
                sent = sent.max(reached + dropped);
            }
            if lost[to] {
                // Its last report is old, too: whether later frames arrived is unknown.
                let place = format!("{} not reported", self.ports[to].name());
                counted.accounts.possible.push((place, sent.saturating_sub(reached)));
            }
            let rate_changes = std::mem::take(&mut results[from].rate_changes);
            let disturbance = results[from].disturbance.take();
            let intended = match expected {
                // Only the sender knows which frames were due at which moment.
                _ if !rate_changes.is_empty() => intended.max(sent),
                Some(all) if complete => all,
                Some(all) => intended.min(all).max(sent),
                None if offer.load != Load::Max => intended.max(sent),
                None => sent,
            };
            let mut received = std::mem::take(&mut results[to].received);
            let mut latency =
                clocks.correct(to, std::mem::take(&mut received.latency), offer.duration, margin_ns);
            latency.error_ns = document.as_ref().map(|_| clocks.latency_error_ns(margin_ns));
            if let Some(replay) = &offer.replay {
                let Received { arrived, classes, .. } = &mut received;
                (arrived.received, arrived.duplicated) =
                    replay.classes.tally(classes, results[from].given, &results[from].skipped);
            }
            let Received { arrived, last_gap, queue_growth, flows, sizes, kept, findings, arrival, .. } =
                received;
            done.push(DirectionOutcome {
                from,
                intended,
                sent,
                elapsed,
                gaps,
                disturbance,
                arrived,
                either: 0,
                queue_growth,
                findings,
                overflow: None,
                last_gap,
                latency,
                arrival,
                flows,
                sizes,
                kept,
                rate_changes,
                series: None,
            });
        }
        let missing = |it: &DirectionOutcome| it.sent.saturating_sub(it.arrived.received);
        let all: u64 = done.iter().map(missing).sum();
        // Frames with a damaged tag may be the missing frames that were not dropped.
        let mut room = all.saturating_sub(counted.accounts.total());
        for direction in &mut done {
            let own = room.min(missing(direction)).min(direction.arrived.nameless);
            direction.kept.settle(own, direction.arrived.nameless);
            direction.arrived.settle(own);
            room -= own;
        }
        // Those without anything like a tag may also be frames of others: places come first.
        let all: u64 = done.iter().map(missing).sum();
        let (dropped, in_flight) = counted.accounts.explaining(all);
        let explained: u64 = dropped.values().chain(in_flight.values()).sum();
        let mut room = all.saturating_sub(explained);
        for direction in &mut done {
            let own = room.min(missing(direction));
            direction.either = direction.arrived.settle_tagless(own);
            direction.kept.settle_tagless(direction.either);
            room -= direction.either;
        }
        let all: u64 = done.iter().map(missing).sum();
        for direction in &mut done {
            let to = 1 - direction.from;
            // In frames: the port counts a message of several frames once.
            let frames = counted.accounts.at(&missed(self.ports[to].name()), all);
            direction.overflow = counts[to].missed.map(|_| frames.min(missing(direction)));
            let DirectionOutcome { from, intended, elapsed, overflow, .. } = *direction;
            let whole = Whole { begun: results[from].begun, elapsed, intended, overflow };
            if clocks.is_set() {
                results[to].line.iter_mut().for_each(Timeline::forget_latencies);
            }
            let lines = results[from].line.as_ref().zip(results[to].line.as_ref());
            direction.series = lines.map(|(sender, receiver)| timeline::series(sender, receiver, &whole));
        }
        Ok(Outcome {
            directions: done,
            complete,
            trouble,
            learned,
            counted,
            clocks: document,
            max_shortfall: self.max_shortfall,
            retries: 0,
        })
    }

    /// Begins the counters of a new trial.
    fn running(
        &self,
        begun: Instant,
        offer: &Offer,
        state: &Arc<TrialState>,
        ports: &[PortCount; 2],
    ) -> Running {
        let seen = |site: &Site| {
            Some(LiveSystem {
                name: site.name.clone(),
                live_counts: site.host.live_counts()?,
                ports: site.ports.clone(),
            })
        };
        Running {
            number: 0,
            begun,
            rate: self.rate(offer),
            state: state.clone(),
            ports: ports.clone(),
            systems: self.sites.iter().filter_map(seen).collect(),
        }
    }

    /// The load of an offer, and the permitted new loads.
    fn rate(&self, offer: &Offer) -> Option<LiveRate> {
        let Load::Pps(pps) = offer.load else { return None };
        let has_times = offer.replay.as_ref().is_some_and(|replay| replay.times.is_some());
        let line_pps = self.line_rate_pps(&offer.sizes);
        let mut limits = vec![(line_pps.unwrap_or(f64::INFINITY), "line rate".to_owned())];
        limits.extend(self.ceiling_pps.map(|pps| (pps, "what the sender can send".to_owned())));
        let senders = if offer.bidirectional { &self.ports[..] } else { &self.ports[..1] };
        limits.extend(
            senders.iter().map(|port| {
                (port.allowed().load_pps, format!("what the operator of {} allows", port.name()))
            }),
        );
        let limit = limits.into_iter().min_by(|a, b| a.0.total_cmp(&b.0)).unwrap_or_default();
        Some(LiveRate {
            pps,
            can_change: !has_times && offer.count.is_none(),
            line_pps: line_pps.unwrap_or_else(|| offer.sizes.line_rate_pps(rate::GIGABIT)),
            mean_bytes: offer.sizes.mean_bytes_with_fcs(),
            limit,
        })
    }

    /// The highest load in each direction that operators of the sending ports allow. That of an agent is for
    /// all of its ports together.
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

    fn read_clocks(&mut self) -> Result<[Reading; 2], Trouble> {
        let [a, b] = &mut self.ports;
        Ok([a.read_clock()?, b.read_clock()?])
    }

    /// Whether frames arrive now, in all directions of an offer.
    ///
    /// # Errors
    /// [`Error::Trouble`].
    pub fn is_open(&mut self, bidirectional: bool, go_on: &dyn Fn() -> bool) -> Result<bool, Error> {
        match self.learn(bidirectional, go_on) {
            Err(Error::Unanswerable { .. }) => Ok(false),
            paths => Ok(paths?.open),
        }
    }
}

/// Both directions: the ports that send and receive.
const BOTH: [(usize, usize); 2] = [(0, 1), (1, 0)];

/// A frame that takes longer counts as lost in the reports of a running trial.
const UNDER_WAY: Duration = Duration::from_secs(1);

/// How long senders take to be ready, with a margin. The intervals of a series begin when all are.
const LEAD: Duration = Duration::from_millis(200);

/// The paths that are learned before a trial.
struct Paths {
    /// The next hop of each end; `None` of a router that did not answer.
    to: [Option<Mac>; 2],
    /// Whether frames arrive in all directions.
    open: bool,
    /// Each flow from the first end as it leaves, and as it arrives, if the second end replies to them.
    flows: Option<[Vec<Flow<IpAddr>>; 2]>,
}

/// The flow of replies to a flow.
fn reply(to: &Flow<IpAddr>) -> Flow<IpAddr> {
    Flow { from: to.to, to: to.from, from_mac: to.to_mac, to_mac: to.from_mac, ..*to }
}

/// How the name of a router begins in an environment.
const GATEWAY_OF: &str = "gateway of";

/// The number of a new trial: late frames of one are other traffic in the next.
fn new_trial() -> u32 {
    tag::trial(RandomState::new().hash_one(()))
}

/// Runs a thread for each port, until all is sent and received.
fn run(
    ports: &mut [Box<dyn TestPort>; 2],
    tasks: &[Task; 2],
    state: &TrialState,
    go_on: &dyn Fn() -> bool,
) -> [Done; 2] {
    let mut results = [Done::default(), Done::default()];
    let near = ports.iter().find_map(|port| port.near()).cloned().unwrap_or_default();
    std::thread::scope(|scope| {
        let mut threads = Vec::new();
        for (at, (port, task)) in ports.iter_mut().zip(tasks).enumerate() {
            let work = move || port.work(task, state);
            match std::thread::Builder::new().name("port".into()).spawn_scoped(scope, work) {
                Ok(thread) => threads.push((at, thread)),
                Err(source) => {
                    let trouble = Trouble::System { what: "the system has no thread for a port", source };
                    results[at] = Done::failed(task, state, trouble);
                }
            }
        }
        let _aside = Aside::now(&near);
        let mut sent = VecDeque::new();
        while !threads.iter().all(|(_, thread)| thread.is_finished()) {
            if !go_on() {
                state.abandon();
            }
            let now = Instant::now();
            if sent.back().is_none_or(|(then, _)| now - *then >= UNDER_WAY / 8) {
                sent.push_back((now, [0, 1].map(|from| state.of_sender(from))));
            }
            while let Some(&(then, sent_then)) = sent.front()
                && now - then >= UNDER_WAY
            {
                state.note_lost(sent_then);
                sent.pop_front();
            }
            std::thread::sleep(SLOW / 4);
        }
        for (at, thread) in threads {
            match thread.join() {
                Ok(done) => results[at] = done,
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
    });
    results
}
