//! Two ports between which flows go: their tester, and the transmission if one is running.

use super::flow_state::FlowState;
use super::report;
use super::run::{Done, Results, Run};
use crate::rules::{Refusal, Rules};
use crate::translation::{Configuration, Placed, Station, seconds};
use kpps_documents::detail::DetailedTrial;
use kpps_frames::flows::Addresses;
use kpps_frames::rate::GIGABIT;
use kpps_frames::{Encap, Mac};
use kpps_ports::Spec;
use kpps_ports::port::ready;
use kpps_tester::{Address, Captured, RingForm, Stream, Tester, Traffic};
use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long a transmission may take to begin.
const BEGIN: Duration = Duration::from_secs(15);
/// How long a stream without a due frame is waited for.
const SLACK: Duration = Duration::from_secs(2);

/// Two ports with flows between them.
pub struct Pair {
    /// The indices of the ports in the configuration.
    pub ports: [usize; 2],
    /// The indices of its flows, in the order of their streams.
    pub flows: Vec<usize>,
    /// The states of its flows.
    pub states: Vec<FlowState>,
    streams: Arc<[Stream]>,
    stations: [Option<Station>; 2],
    tester: Option<Tester>,
    run: Option<Run>,
    /// The station addresses of the routers of both ports.
    pub routers: [Option<Mac>; 2],
    /// Whether the next transmission keeps the frames of its ports, and the most bytes of each frame.
    pub capture: Option<RingForm>,
    /// The frames of each port in the last transmission, if they were captured.
    captured: Vec<Captured>,
    /// The document of the last transmission.
    pub document: Option<DetailedTrial>,
    /// Why the last transmission has failed.
    failure: Option<String>,
    /// The speed of the slower link in Mb/s, if it is known.
    pub speed_mbps: Option<u32>,
}

impl Pair {
    /// Opens the ports of the flows between two ports of a configuration.
    ///
    /// # Errors
    /// The flows ask for too much, or a port cannot be opened.
    pub fn open(ports: [usize; 2], all: &Configuration, rules: &Rules) -> Result<Self, Refusal> {
        let is_here = |placed: &Placed| crate::translation::sorted(placed.ports) == ports;
        let flows: Vec<usize> =
            all.flows.iter().enumerate().filter(|(_, placed)| is_here(placed)).map(|(at, _)| at).collect();
        let mut pair = Self {
            ports,
            states: vec![FlowState::default(); flows.len()],
            flows,
            streams: Arc::default(),
            stations: stations(ports, all)?,
            tester: None,
            run: None,
            routers: [None; 2],
            capture: None,
            captured: Vec::new(),
            document: None,
            failure: None,
            speed_mbps: None,
        };
        pair.tester = Some(pair.open_ports(all, rules)?);
        pair.plan(all, rules)?;
        Ok(pair)
    }

    fn open_ports(&mut self, all: &Configuration, rules: &Rules) -> Result<Tester, Refusal> {
        let spec = |at: usize| -> Result<Spec, Refusal> {
            let location = all.ports.get(at).map_or("", |port| port.location.as_str());
            let found = rules.ports.iter().find(|port| port.location == location);
            Ok(found.ok_or_else(|| unknown(at, location, rules))?.spec.clone())
        };
        let specs = [spec(self.ports[0])?, spec(self.ports[1])?];
        let cannot = |error: &dyn std::fmt::Display| Refusal::failed(error.to_string());
        let opened = ready(&specs, &rules.options, &|line| (rules.log)(line)).map_err(|e| cannot(&e))?;
        let opened = opened.try_into().map_err(|_| Refusal::failed("a port is missing"))?;
        let mut usual = Traffic::default().ends(&[], None).map_err(|e| cannot(&e))?;
        for (end, station) in usual.iter_mut().zip(&self.stations) {
            if let Some(Station { ip: Some((ip, gateway)), gateway_mac, .. }) = station {
                let gateway = gateway_mac.is_none().then_some(*gateway);
                let ips = Addresses::from(*ip, 1);
                *end = Address { ips, gateway, to: *gateway_mac, encap: Encap::default() };
            }
        }
        let mut tester = Tester::new(specs, opened, usual, &rules.scopes).map_err(|e| cannot(&e))?;
        for (at, station) in self.stations.iter().enumerate() {
            station.iter().for_each(|station| tester.set_station(at, station.mac));
        }
        // Only the frames of flows are sent: counters of interfaces show these and nothing else.
        tester.learning = false;
        self.speed_mbps = tester.speed_mbps();
        Ok(tester)
    }

    /// The streams of the flows, as the configuration describes them now.
    ///
    /// # Errors
    /// The flows ask for too much.
    fn plan(&mut self, all: &Configuration, rules: &Rules) -> Result<(), Refusal> {
        let bits_per_s = self.speed_mbps.map_or(GIGABIT, |mbps| u64::from(mbps) * 1_000_000);
        let from = |placed: &Placed| usize::from(placed.ports[0] != self.ports[0]);
        let placed: Vec<&Placed> = self.flows.iter().filter_map(|at| all.flows.get(*at)).collect();
        let mut streams: Vec<Stream> =
            placed.iter().map(|placed| placed.flow.stream(from(placed), bits_per_s)).collect();
        [0, 1].into_iter().for_each(|side| stagger(&mut streams, side));
        for (stream, at) in streams.iter().zip(&self.flows) {
            if seconds(stream).is_some_and(|s| s > rules.max_duration.as_secs_f64()) {
                return Err(Refusal::wrong(format!(
                    "flows[{at}].duration: the flow lasts longer than {} s, the limit of this server",
                    rules.max_duration.as_secs_f64()
                )));
            }
        }
        for (side, port) in self.ports.iter().enumerate() {
            let of_side = |stream: &&Stream| stream.from == side;
            let pps: f64 = streams.iter().filter(of_side).map(Stream::pps).sum();
            let name = all.ports.get(*port).map_or("", |port| port.name.as_str());
            if pps > rules.max_pps {
                return Err(Refusal::wrong(format!(
                    "ports[{port}]: the flows from {name} send {pps:.0} frames per second together, and this server allows {:.0}",
                    rules.max_pps
                )));
            }
            let bits: f64 = streams.iter().filter(of_side).map(|it| it.sizes.l1_bits_per_s(it.pps())).sum();
            if let Some(mbps) = self.speed_mbps
                && bits > f64::from(mbps) * 1e6 * (1.0 + 1e-9)
            {
                return Err(Refusal::wrong(format!(
                    "ports[{port}]: the flows from {name} need {:.3} Mb/s together with preambles and gaps, and the link has {mbps} Mb/s",
                    bits / 1e6
                )));
            }
        }
        self.streams = streams.into();
        Ok(())
    }

    /// Whether a transmission is running.
    pub fn is_running(&self) -> bool {
        self.run.is_some()
    }

    /// Starts flows. Flows that send already go on.
    ///
    /// # Errors
    /// The transmission does not begin.
    pub fn start(
        &mut self,
        flows: &BTreeSet<usize>,
        all: &Configuration,
        rules: &Rules,
    ) -> Result<(), Refusal> {
        self.sample();
        let chosen: Vec<usize> = (0..self.flows.len())
            .filter(|at| self.flows.get(*at).is_some_and(|flow| flows.contains(flow)))
            .filter(|at| self.run.is_none() || self.states.get(*at).is_some_and(|it| !it.is_active()))
            .collect();
        if chosen.is_empty() {
            return Ok(());
        }
        if self.run.is_none() {
            self.plan(all, rules)?;
            let mut tester = match self.tester.take() {
                Some(tester) => tester,
                None => self.open_ports(all, rules)?,
            };
            (self.failure, self.document, self.captured) = (None, None, Vec::new());
            tester.capture = self.capture;
            self.states.iter_mut().for_each(FlowState::rest);
            let run = Run::start(tester, self.streams.clone(), rules.max_duration);
            self.run = Some(run.map_err(Refusal::failed)?);
        }
        let Some(run) = &self.run else { return Ok(()) };
        let counts = run.control().snapshot();
        for at in &chosen {
            if let (Some(state), Some(now)) = (self.states.get_mut(*at), counts.get(*at)) {
                state.start(now);
            }
        }
        run.control().start(&chosen);
        // A load that is refused, or a port that fails, shows at once.
        let begun = Instant::now();
        loop {
            self.sample();
            let has_begun = |at: &usize| self.states.get(*at).is_none_or(FlowState::has_begun);
            if self.run.as_ref().is_none_or(Run::is_over) {
                self.finish(rules);
                return match &self.failure {
                    Some(why) => Err(Refusal::failed(why.clone())),
                    None => Ok(()),
                };
            }
            if chosen.iter().all(has_begun) || begun.elapsed() > BEGIN {
                return Ok(());
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Stops flows. With the last one the transmission ends, and its results are final.
    pub fn stop(&mut self, flows: &BTreeSet<usize>, rules: &Rules) {
        let Some(run) = &self.run else { return };
        let mut stopped = Vec::new();
        for (at, (flow, state)) in self.flows.iter().zip(&mut self.states).enumerate() {
            if flows.contains(flow) && state.is_active() {
                state.is_stopped = true;
                stopped.push(at);
            }
        }
        run.control().stop(&stopped);
        self.sample();
        if self.states.iter().all(|state| state.is_stopped || !state.is_active()) {
            self.finish(rules);
        }
    }

    /// Gives flows the rates that the configuration has now, if they are sent.
    ///
    /// # Errors
    /// The flows ask for too much.
    pub fn change_rates(&mut self, all: &Configuration, rules: &Rules) -> Result<(), Refusal> {
        let before = self.streams.clone();
        self.plan(all, rules)?;
        if let Some(run) = &self.run {
            for (at, (old, new)) in before.iter().zip(self.streams.iter()).enumerate() {
                if old.pps() != new.pps() {
                    run.control().set_pps(at, new.pps());
                }
            }
        }
        Ok(())
    }

    /// Reads the counts of a running transmission.
    pub fn sample(&mut self) {
        let Some(run) = &self.run else { return };
        let counts = run.control().snapshot();
        let now = Instant::now();
        for ((state, count), stream) in self.states.iter_mut().zip(&counts).zip(self.streams.iter()) {
            // A stream may have no frame that is due.
            let longest = seconds(stream).and_then(|s| Duration::try_from_secs_f64(s).ok());
            state.sample(count, now, longest.map(|longest| longest + SLACK));
        }
    }

    /// Ends the transmission if all of its flows are through, or if it ended by itself.
    pub fn tick(&mut self, rules: &Rules) {
        self.sample();
        let is_over = self.run.as_ref().is_some_and(Run::is_over);
        if is_over || self.is_running() && self.states.iter().all(|state| !state.is_active()) {
            self.finish(rules);
        }
    }

    /// Ends the transmission, and keeps its results.
    pub fn finish(&mut self, rules: &Rules) {
        let Some(run) = self.run.take() else { return };
        match run.finish() {
            None => self.failure = Some("the transmission has failed: its thread panicked".into()),
            Some(Done { tester, result }) => {
                self.routers = tester.routers();
                self.tester = Some(tester);
                match result {
                    Err(why) => self.failure = Some(why),
                    Ok(Results { counts, document, captured }) => {
                        self.captured = captured;
                        let now = Instant::now();
                        for (state, count) in self.states.iter_mut().zip(&counts) {
                            state.sample(count, now, None);
                        }
                        self.failure = document.as_ref().and_then(|document| document.trouble.clone());
                        self.document = document;
                    }
                }
            }
        }
        self.states.iter_mut().for_each(FlowState::end);
        if let Some(why) = &self.failure {
            (rules.log)(&format!("a transmission has failed: {why}"));
        }
    }

    /// The warnings about the last transmission.
    pub fn warnings(&self) -> Vec<String> {
        let failure = self.failure.iter().map(|why| format!("the transmission has failed: {why}"));
        failure.chain(self.document.iter().flat_map(report::warnings)).collect()
    }

    /// Why the results of the last transmission are no answer to what was asked for.
    pub fn verdict(&self, is_strict: bool) -> Option<Vec<String>> {
        if let Some(why) = &self.failure {
            return Some(vec![format!("the transmission has failed: {why}")]);
        }
        let lines = self.document.as_ref().map(report::verdict).filter(|_| is_strict)?;
        (!lines.is_empty()).then_some(lines)
    }

    /// The frames that a port of this index received in the last transmission.
    pub fn captured(&self, port: usize) -> Option<&Captured> {
        let at = self.ports.iter().position(|other| *other == port)?;
        self.captured.get(at)
    }

    /// Resolves the routers of its stations, if no transmission is running.
    ///
    /// # Errors
    /// A port failed.
    pub fn resolve(&mut self) -> Result<(), Refusal> {
        if let Some(tester) = &mut self.tester {
            tester.resolve_gateways(&|| true).map_err(|error| Refusal::failed(error.to_string()))?;
            self.routers = tester.routers();
        }
        Ok(())
    }

    /// The routers of a station of its ports: their IP addresses with their station addresses.
    pub fn router(&self, port: usize) -> Option<(IpAddr, Mac)> {
        let at = self.ports.iter().position(|other| *other == port)?;
        let station = self.stations.get(at).copied().flatten()?;
        let mac = station.gateway_mac.or(self.routers.get(at).copied().flatten())?;
        Some((station.ip?.1, mac))
    }
}

/// The stations of both ports.
fn stations(ports: [usize; 2], all: &Configuration) -> Result<[Option<Station>; 2], Refusal> {
    let mut found = [None; 2];
    for (at, placed) in all.flows.iter().enumerate() {
        for station in placed.stations.iter().flatten() {
            let Some(side) = ports.iter().position(|port| *port == station.port) else { continue };
            match found.get_mut(side) {
                Some(known @ None) => *known = Some(*station),
                Some(Some(known)) if known != station => {
                    return Err(Refusal::wrong(format!(
                        "flows[{at}].tx_rx.device: flows use both IP addresses of a station, which is not supported"
                    )));
                }
                _ => {}
            }
        }
    }
    Ok(found)
}

/// A location that the server does not have.
pub fn unknown(port: usize, location: &str, rules: &Rules) -> Refusal {
    let known: Vec<_> = rules.ports.iter().map(|port| port.location.as_str()).collect();
    Refusal::wrong(format!(
        "ports[{port}].location: there is no '{location}' here: give one of {}",
        known.join(", ")
    ))
}

/// The time in which the flows of a port begin, if they are started together.
const BEGINNING: Duration = Duration::from_millis(50);

/// The streams from a port begin one after the other, in the order of the flows: streams of one rate are no
/// burst then.
fn stagger(streams: &mut [Stream], side: usize) {
    let of_side = |stream: &Stream| stream.from == side;
    let count = streams.iter().filter(|stream| of_side(stream)).count().max(1) as f64;
    let pps: f64 = streams.iter().filter(|stream| of_side(stream)).map(Stream::pps).sum();
    let step_s = (1.0 / pps.max(f64::MIN_POSITIVE)).min(BEGINNING.as_secs_f64() / count);
    for (place, stream) in streams.iter_mut().filter(|stream| of_side(stream)).enumerate() {
        stream.start = stream.start.saturating_add(Duration::from_secs_f64(step_s * place as f64));
    }
}
