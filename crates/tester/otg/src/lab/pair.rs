//! Two ports between which flows go: their tester, and the transmission if one is running.

use super::flow_state::{FlowState, Totals};
use super::report;
use super::run::{Done, Results, Run};
use super::stations::Stations;
use crate::rules::{Refusal, Rules};
use crate::translation::{Configuration, Placed, seconds, sorted};
use kpps_documents::detail::DetailedTrial;
use kpps_frames::rate::GIGABIT;
use kpps_ports::port::ready;
use kpps_ports::{Error, Spec};
use kpps_tester::{Captured, RingForm, Stream, StreamNow, Tester, Traffic};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long a transmission may take to begin.
const BEGIN: Duration = Duration::from_secs(15);
/// The rate of a stream that is paused, in frames per second: its next frame is due after the transmission.
const PAUSED_PPS: f64 = 1e-9;

/// Two ports with flows between them.
pub struct Pair {
    /// The indices of the ports in the configuration.
    pub ports: [usize; 2],
    /// The indices of its flows, in the order of their streams.
    pub flows: Vec<usize>,
    /// The states of its flows.
    pub states: Vec<FlowState>,
    /// For each of its ports, frames from there of deleted flows, and of flows before their last start.
    pub past: [Totals; 2],
    streams: Arc<[Stream]>,
    /// The stations at its ports.
    pub stations: Stations,
    /// For streams that cannot be sent: the router that did not answer when the transmission began, in words.
    silent: BTreeMap<usize, String>,
    /// The open ports. While a transmission runs, it has them.
    tester: Option<Tester>,
    run: Option<Run>,
    /// Whether the next transmission keeps the frames of its ports, and the most bytes of each frame.
    pub capture: Option<RingForm>,
    /// The frames of each port in the last transmission, if they were captured.
    captured: Vec<Captured>,
    /// The document of the last transmission.
    pub document: Option<DetailedTrial>,
    /// Why the last transmission has failed.
    failure: Option<String>,
    /// Why it ended before its flows were through.
    cut_short: Option<String>,
    /// The speed of the slower link in Mb/s, if it is known.
    pub speed_mbps: Option<u32>,
    /// The longest frame that both ports take, in bytes without FCS, if it is known.
    longest: Option<usize>,
}

impl Pair {
    /// Opens the ports of the flows between two ports of a configuration.
    ///
    /// # Errors
    /// The flows ask for too much, or a port cannot be opened.
    pub fn open(ports: [usize; 2], all: &Configuration, rules: &Rules) -> Result<Self, Refusal> {
        let flows = flows_between(ports, all);
        let mut pair = Self {
            ports,
            states: vec![FlowState::default(); flows.len()],
            flows,
            past: Default::default(),
            streams: Arc::default(),
            stations: Stations::of(ports, all),
            silent: BTreeMap::new(),
            tester: None,
            run: None,
            capture: None,
            captured: Vec::new(),
            document: None,
            failure: None,
            cut_short: None,
            speed_mbps: None,
            longest: None,
        };
        pair.tester = Some(pair.open_ports(all, rules)?);
        pair.streams = pair.planned(all, rules)?.into();
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
        self.stations.replace(&mut usual);
        let others = rules.ports.iter().map(|port| port.spec.clone());
        let others: Vec<Spec> = others.filter(|other| !specs.contains(other)).collect();
        let mut tester = Tester::new(specs, opened, usual, &rules.scopes).map_err(|e| cannot(&e))?;
        tester.leave_out(&others);
        self.stations.join(&mut tester);
        // Only the frames of flows are sent: counters of interfaces show these and nothing else.
        tester.learning = false;
        (self.speed_mbps, self.longest) = (tester.speed_mbps(), tester.longest());
        Ok(tester)
    }

    /// Closes the ports. They are opened again if flows are started.
    pub fn close(&mut self) {
        self.tester = None;
    }

    /// Opens closed ports whose stations are to answer.
    ///
    /// # Errors
    /// A port cannot be opened.
    pub fn reopen(&mut self, all: &Configuration, rules: &Rules) -> Result<(), Refusal> {
        if self.tester.is_none() && !self.is_running() && self.stations.exist() {
            self.tester = Some(self.open_ports(all, rules)?);
        }
        Ok(())
    }

    /// The streams of the flows that a configuration has between these ports.
    ///
    /// # Errors
    /// The flows ask for too much.
    fn planned(&self, all: &Configuration, rules: &Rules) -> Result<Vec<Stream>, Refusal> {
        let bits_per_s = self.speed_mbps.map_or(GIGABIT, |mbps| u64::from(mbps) * 1_000_000);
        let from = |placed: &Placed| usize::from(placed.ports[0] != self.ports[0]);
        let flows = flows_between(self.ports, all);
        let placed: Vec<&Placed> = flows.iter().filter_map(|at| all.flows.get(*at)).collect();
        let mut streams: Vec<Stream> =
            placed.iter().map(|placed| placed.flow.stream(from(placed), bits_per_s)).collect();
        [0, 1].into_iter().for_each(|side| stagger(&mut streams, side));
        for (stream, at) in streams.iter().zip(&flows) {
            if seconds(stream).is_some_and(|s| s > rules.max_duration.as_secs_f64()) {
                return Err(Refusal::wrong(format!(
                    "flows[{at}].duration: the flow lasts longer than {} s, the limit of this server",
                    rules.max_duration.as_secs_f64()
                )));
            }
            let ends = self.ports.map(|port| all.ports.get(port).map_or("", |port| port.name.as_str()));
            let ends = format!("one of the ports {} and {}", ends[0], ends[1]);
            Error::check_longest(&ends, self.longest, stream.longest())
                .map_err(|why| Refusal::wrong(format!("flows[{at}].size: {why}")))?;
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
        Ok(streams)
    }

    /// Refuses a configuration whose flows between these ports ask for too much, or differ from those that
    /// are being sent in more than their rates.
    ///
    /// # Errors
    /// The place and the reason.
    pub fn check(&self, all: &Configuration, rules: &Rules) -> Result<(), Refusal> {
        let streams = self.planned(all, rules)?;
        if !self.is_running() {
            return Ok(());
        }
        let [a, b] = self.ports.map(|port| all.ports.get(port).map_or("", |port| port.name.as_str()));
        let busy = |change: &str| {
            Err(Refusal::wrong(format!(
                "flows between {a} and {b} are being sent: stop them before {change}"
            )))
        };
        if !streams.iter().map(|stream| &stream.name).eq(self.streams.iter().map(|stream| &stream.name)) {
            return busy("flows between these ports are added or deleted");
        }
        match streams.iter().zip(&*self.streams).any(|(new, old)| new.sizes != old.sizes) {
            true => busy("sizes of flows between these ports change"),
            false => Ok(()),
        }
    }

    /// Takes the flows that a configuration has between these ports, which was [checked](Self::check). Flows
    /// of the same name keep their counts. Flows that are being sent get their new rates.
    ///
    /// # Errors
    /// [`check`](Self::check).
    pub fn adopt(&mut self, all: &Configuration, rules: &Rules) -> Result<(), Refusal> {
        let new: Arc<[Stream]> = self.planned(all, rules)?.into();
        let old = std::mem::replace(&mut self.streams, new);
        if let Some(run) = &self.run {
            for (at, (old, new)) in old.iter().zip(self.streams.iter()).enumerate() {
                let is_paused = self.states.get(at).is_some_and(|state| state.is_paused);
                if old.pps() != new.pps() && !is_paused {
                    run.control().set_pps(at, new.pps());
                }
            }
        }
        let states = std::mem::take(&mut self.states).into_iter();
        let mut states: BTreeMap<&str, (usize, FlowState)> =
            old.iter().zip(states).map(|(it, state)| (it.name.as_str(), (it.from, state))).collect();
        let kept = self.streams.iter().map(|it| states.remove(it.name.as_str()).unwrap_or_default().1);
        self.states = kept.collect();
        for (from, state) in states.into_values() {
            self.past[from] = self.past[from].and(&state.totals);
        }
        self.flows = flows_between(self.ports, all);
        Ok(())
    }

    /// The streams of a new transmission, with the addresses of their stations.
    ///
    /// # Errors
    /// The router of a flow that is to be sent does not answer, or a port failed.
    fn addressed(
        &mut self,
        chosen: &[usize],
        tester: &mut Tester,
        all: &Configuration,
    ) -> Result<Vec<Stream>, Refusal> {
        self.stations.resolve(tester)?;
        self.silent.clear();
        let mut streams = self.streams.to_vec();
        for (at, (stream, flow)) in streams.iter_mut().zip(&self.flows).enumerate() {
            let Some(placed) = all.flows.get(*flow).filter(|placed| !placed.stations.is_empty()) else {
                continue;
            };
            if let Err(why) = self.stations.address(stream.from, &placed.stations, &mut stream.stack) {
                self.silent.insert(at, format!("flows[{flow}]: {why}"));
            }
        }
        self.refuse_silent(chosen)?;
        Ok(streams)
    }

    /// Refuses streams whose routers have not answered.
    fn refuse_silent(&self, chosen: &[usize]) -> Result<(), Refusal> {
        let why = chosen.iter().find_map(|at| self.silent.get(at));
        why.map_or(Ok(()), |why| Err(Refusal::failed(why.clone())))
    }

    /// Whether a transmission is running.
    pub fn is_running(&self) -> bool {
        self.run.is_some()
    }

    /// The indices of the streams of these flows.
    fn chosen(&self, flows: &BTreeSet<usize>) -> Vec<usize> {
        (0..self.flows.len())
            .filter(|at| self.flows.get(*at).is_some_and(|flow| flows.contains(flow)))
            .collect()
    }

    /// Starts flows. Flows that send already go on. `keeps`: whether their counts go on, too.
    ///
    /// # Errors
    /// The transmission does not begin.
    pub fn start(
        &mut self,
        flows: &BTreeSet<usize>,
        keeps: bool,
        all: &Configuration,
        rules: &Rules,
    ) -> Result<(), Refusal> {
        self.sample();
        let mut chosen = self.chosen(flows);
        chosen.retain(|at| {
            let sends = |state: &FlowState| state.is_active() && !state.is_paused;
            self.run.is_none() || !self.states.get(*at).is_some_and(sends)
        });
        if chosen.is_empty() {
            return Ok(());
        }
        if self.run.is_none() {
            let mut tester = match self.tester.take() {
                Some(tester) => tester,
                None => self.open_ports(all, rules)?,
            };
            (self.failure, self.document, self.captured, self.cut_short) = (None, None, Vec::new(), None);
            tester.capture = self.capture;
            self.states.iter_mut().for_each(FlowState::rest);
            let streams = match self.addressed(&chosen, &mut tester, all) {
                Ok(streams) => streams,
                Err(why) => {
                    self.tester = Some(tester);
                    return Err(why);
                }
            };
            let run = Run::start(tester, streams.into(), rules.max_duration);
            self.run = Some(run.map_err(Refusal::failed)?);
        }
        self.refuse_silent(&chosen)?;
        let Some(run) = &self.run else { return Ok(()) };
        for at in &chosen {
            if let (Some(state), Some(stream)) = (self.states.get(*at), self.streams.get(*at))
                && state.is_paused
            {
                run.control().stop(&[*at]);
                run.control().set_pps(*at, stream.pps());
            }
        }
        let counts = run.control().snapshot();
        for at in &chosen {
            if let (Some(state), Some(now), Some(stream)) =
                (self.states.get_mut(*at), counts.get(*at), self.streams.get(*at))
            {
                if !keeps {
                    self.past[stream.from] = self.past[stream.from].and(&state.totals);
                }
                state.start(now, keeps);
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

    /// Pauses flows that send: their next frame waits until they are resumed.
    pub fn pause(&mut self, flows: &BTreeSet<usize>) {
        self.sample();
        let Some(run) = &self.run else { return };
        for at in self.chosen(flows) {
            if let Some(state) = self.states.get_mut(at).filter(|state| state.is_active()) {
                state.is_paused = true;
                run.control().set_pps(at, PAUSED_PPS);
            }
        }
        self.sample();
    }

    /// Resumes paused flows at the frame at which they were paused. Flows that do not send begin anew, and
    /// their counts go on.
    ///
    /// # Errors
    /// The transmission does not begin.
    pub fn resume(
        &mut self,
        flows: &BTreeSet<usize>,
        all: &Configuration,
        rules: &Rules,
    ) -> Result<(), Refusal> {
        let mut resumed = self.chosen(flows);
        resumed.retain(|at| self.states.get(*at).is_some_and(|state| state.is_paused));
        if let Some(run) = &self.run {
            for at in &resumed {
                self.streams.get(*at).into_iter().for_each(|stream| run.control().set_pps(*at, stream.pps()));
            }
        }
        // They count as paused until their streams send. The answer to the first question may be older than
        // the change.
        let begun = Instant::now();
        self.sample();
        loop {
            self.sample();
            let waits = |at: &usize| {
                let both = self.states.get(*at).zip(self.streams.get(*at));
                both.is_some_and(|(it, stream)| !it.is_sending() && it.is_due(Instant::now(), stream))
            };
            let is_over = self.run.as_ref().is_none_or(Run::is_over);
            if is_over || begun.elapsed() > BEGIN || !resumed.iter().any(waits) {
                break;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        for at in &resumed {
            self.states.get_mut(*at).into_iter().for_each(|state| state.is_paused = false);
        }
        let is_resumed = |flow: &usize| resumed.iter().any(|at| self.flows.get(*at) == Some(flow));
        let others = flows.iter().copied().filter(|flow| !is_resumed(flow)).collect();
        self.start(&others, true, all, rules)
    }

    /// Stops flows. With the last one the transmission ends, and its results are final.
    pub fn stop(&mut self, flows: &BTreeSet<usize>, rules: &Rules) {
        let Some(run) = &self.run else { return };
        let mut stopped = Vec::new();
        for (at, (flow, state)) in self.flows.iter().zip(&mut self.states).enumerate() {
            if flows.contains(flow) && state.is_active() {
                (state.is_stopped, state.is_paused) = (true, false);
                stopped.push(at);
            }
        }
        run.control().stop(&stopped);
        self.sample();
        if self.states.iter().all(|state| state.is_stopped || !state.is_active()) {
            self.finish(rules);
        }
    }

    /// Reads the counts of a running transmission.
    fn sample(&mut self) {
        let Some(run) = &self.run else { return };
        let counts = run.control().snapshot();
        self.take_counts(&counts);
    }

    fn take_counts(&mut self, counts: &[StreamNow]) {
        let now = Instant::now();
        for ((state, count), stream) in self.states.iter_mut().zip(counts).zip(self.streams.iter()) {
            state.sample(count, now, stream);
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
        let is_longest = run.elapsed() >= rules.max_duration;
        match run.finish() {
            None => self.failure = Some("the transmission has failed: its thread panicked".into()),
            Some(Done { tester, result }) => {
                self.tester = Some(tester);
                match result {
                    Err(why) => self.failure = Some(why),
                    Ok(Results { counts, document, captured }) => {
                        self.captured = captured;
                        self.take_counts(&counts);
                        self.failure = document.as_ref().and_then(|document| document.trouble.clone());
                        self.document = document;
                    }
                }
            }
        }
        if is_longest && self.failure.is_none() {
            self.cut_short = self.unfinished(rules);
        }
        self.states.iter_mut().for_each(FlowState::end);
        for why in self
            .failure
            .iter()
            .map(|why| format!("a transmission has failed: {why}"))
            .chain(self.cut_short.clone())
        {
            (rules.log)(&why);
        }
    }

    /// The flows that were to send longer than the server allows, in a sentence; `None` without any.
    fn unfinished(&self, rules: &Rules) -> Option<String> {
        let now = Instant::now();
        let flows = self.streams.iter().zip(&self.states).filter(|(stream, state)| state.is_due(now, stream));
        let names: Vec<&str> = flows.map(|(stream, _)| stream.name.as_str()).collect();
        let (first, rest) = names.split_first()?;
        let others = match rest.len() {
            0 => String::new(),
            1 => " and another flow".to_owned(),
            count => format!(" and {count} other flows"),
        };
        let s = rules.max_duration.as_secs_f64();
        Some(format!(
            "the transmission ended after {s} s, the limit of this server: {first}{others} had not ended"
        ))
    }

    /// The warnings about the last transmission.
    pub fn warnings(&self) -> Vec<String> {
        let failure = self.failure.iter().map(|why| format!("the transmission has failed: {why}"));
        failure.chain(self.cut_short.clone()).chain(self.document.iter().flat_map(report::warnings)).collect()
    }

    /// Why the results of the last transmission are no answer to what was asked for.
    pub fn verdict(&self, is_strict: bool) -> Option<Vec<String>> {
        if let Some(why) = &self.failure {
            return Some(vec![format!("the transmission has failed: {why}")]);
        }
        let lines: Vec<String> =
            self.cut_short.iter().cloned().chain(self.document.iter().flat_map(report::verdict)).collect();
        (is_strict && !lines.is_empty()).then_some(lines)
    }

    /// The frames that a port of this index received in the last transmission.
    pub fn captured(&self, port: usize) -> Option<&Captured> {
        let at = self.ports.iter().position(|other| *other == port)?;
        self.captured.get(at)
    }

    /// Resolves the routers of its stations, if no transmission is running.
    ///
    /// # Errors
    /// A port cannot be opened, or failed.
    pub fn resolve(&mut self, all: &Configuration, rules: &Rules) -> Result<(), Refusal> {
        if self.is_running() || !self.stations.exist() {
            return Ok(());
        }
        let mut tester = match self.tester.take() {
            Some(tester) => tester,
            None => self.open_ports(all, rules)?,
        };
        let resolved = self.stations.resolve(&mut tester);
        self.tester = Some(tester);
        resolved
    }
}

/// The indices of the flows between two ports of a configuration.
fn flows_between(ports: [usize; 2], all: &Configuration) -> Vec<usize> {
    let flows = all.flows.iter().enumerate().filter(|(_, placed)| sorted(placed.ports) == ports);
    flows.map(|(at, _)| at).collect()
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
