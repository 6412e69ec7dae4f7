//! The ports of a configuration: their tester, and the transmission if one is running.

use super::flow_state::{FlowState, Totals};
use super::member::Member;
use super::planned::{Limits, Planned, PortLimits};
use super::report;
use super::run::{Done, Results, Run};
use super::stations::{Stations, router_between};
use crate::rules::{Refusal, Rules};
use crate::translation::{Configuration, Leg, Port};
use kpps_documents::detail::DetailedTrial;
use kpps_ports::Spec;
use kpps_ports::port::ready;
use kpps_tester::{Address, Captured, RingForm, Stream, StreamNow, Tester, Traffic};
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::time::{Duration, Instant};

/// How long a transmission may take to begin.
const BEGIN: Duration = Duration::from_secs(15);

/// The ports of a configuration and their flows.
#[derive(Default)]
pub struct Transmitter {
    /// The flows.
    pub members: Vec<Member>,
    /// Flows that were deleted, and frames of flows before their sizes changed, while they are still sent or
    /// arrive.
    pub gone: Vec<Member>,
    /// From one port to another, frames of deleted flows, and of flows before their last start.
    pub past: BTreeMap<(usize, usize), Totals>,
    /// The stations at the ports.
    pub stations: Stations,
    /// For streams of the transmission that cannot be sent: the router that did not answer when it began, in
    /// words.
    pub(super) silent: BTreeMap<usize, String>,
    /// The open ports. While a transmission runs, it has them.
    tester: Option<Tester>,
    pub(super) run: Option<Run>,
    /// The ports whose frames the next transmission keeps, and the form in which it does.
    pub captures: BTreeMap<usize, RingForm>,
    /// The frames of these ports in the last transmission.
    captured: BTreeMap<usize, Captured>,
    /// The document of the last transmission.
    pub document: Option<DetailedTrial>,
    /// Why the last transmission has failed.
    failure: Option<String>,
    /// Why it ended before its flows were through.
    cut_short: Option<String>,
    /// The limits of the ports.
    pub limits: Limits,
}

impl Transmitter {
    /// Opens the ports of a configuration.
    ///
    /// # Errors
    /// The flows ask for too much, or a port cannot be opened.
    pub fn open(all: &Configuration, rules: &Rules) -> Result<Self, Refusal> {
        let mut transmitter = Self { stations: Stations::of(all), ..Self::default() };
        if !all.ports.is_empty() {
            transmitter.tester = Some(transmitter.open_ports(all, rules)?);
        }
        let planned = transmitter.limits.planned(all, rules)?.into_iter();
        transmitter.members = planned.map(|planned| Member::new(planned, 0)).collect();
        Ok(transmitter)
    }

    fn open_ports(&mut self, all: &Configuration, rules: &Rules) -> Result<Tester, Refusal> {
        let spec = |(at, port): (usize, &Port)| -> Result<Spec, Refusal> {
            let found = rules.ports.iter().find(|known| known.location == port.location);
            Ok(found.ok_or_else(|| unknown(at, &port.location, rules))?.spec.clone())
        };
        let specs: Vec<Spec> = all.ports.iter().enumerate().map(spec).collect::<Result<_, _>>()?;
        let cannot = |error: &dyn std::fmt::Display| Refusal::failed(error.to_string());
        let opened = ready(&specs, &rules.options, &|line| (rules.log)(line)).map_err(|e| cannot(&e))?;
        let mut usual = addresses(specs.len()).map_err(|e| cannot(&e))?;
        self.stations.replace(&mut usual);
        let others = rules.ports.iter().map(|port| port.spec.clone());
        let others: Vec<Spec> = others.filter(|other| !specs.contains(other)).collect();
        let mut tester = Tester::new(specs, opened, usual, &rules.scopes).map_err(|e| cannot(&e))?;
        tester.leave_out(&others);
        self.stations.join(&mut tester);
        // Only the frames of flows are sent: counters of interfaces show these and nothing else.
        tester.learning = false;
        let limits = |at: usize| {
            let (speed_mbps, longest) = tester.limits_of(at);
            PortLimits { speed_mbps, longest }
        };
        self.limits = Limits((0..all.ports.len()).map(limits).collect());
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
        let mut wanted = BTreeSet::new();
        for member in &self.members {
            let ends = leg_of(member.flow, member.leg, all).map(|leg| leg.stations.iter());
            wanted.extend(ends.into_iter().flatten().filter_map(router_between));
        }
        self.stations.resolve(tester, |router| wanted.contains(router))?;
        self.silent.clear();
        let mut streams = Vec::new();
        for (place, member) in self.members.iter().enumerate() {
            let mut stream = member.stream.clone();
            if let Err(why) = self.address((member.flow, member.leg), &mut stream, all) {
                self.silent.insert(place, why);
            }
            streams.push(stream);
        }
        for (place, member) in self.members.iter_mut().enumerate() {
            (member.place, member.rest) = (place, None);
            member.state.rest();
        }
        self.refuse_silent(chosen)?;
        Ok(streams)
    }

    /// Gives the stream of a flow's leg the addresses of its stations.
    ///
    /// # Errors
    /// A router that has not answered, in words.
    pub(super) fn address(
        &self,
        (flow, leg): (usize, usize),
        stream: &mut Stream,
        all: &Configuration,
    ) -> Result<(), String> {
        let leg = leg_of(flow, leg, all).filter(|leg| !leg.stations.is_empty());
        let Some(leg) = leg else { return Ok(()) };
        let addressed = self.stations.address(&leg.stations, &mut stream.stack);
        addressed.map_err(|why| format!("flows[{flow}]: {why}"))
    }

    /// Refuses streams whose routers have not answered.
    fn refuse_silent(&self, chosen: &[usize]) -> Result<(), Refusal> {
        let chosen = chosen.iter().filter_map(|at| self.members.get(*at));
        let why = chosen.filter_map(|member| self.silent.get(&member.place)).next();
        why.map_or(Ok(()), |why| Err(Refusal::failed(why.clone())))
    }

    /// Whether a transmission is running.
    pub fn is_running(&self) -> bool {
        self.run.is_some()
    }

    /// The counts of a flow.
    pub fn totals(&self, member: &Member) -> Totals {
        let is_its = |gone: &&Member| gone.state.is_counted && gone.stream.name == member.stream.name;
        let earlier = self.gone.iter().filter(is_its).map(|gone| gone.state.totals);
        earlier.fold(member.state.totals, |sum, totals| sum.and(&totals))
    }

    /// The indices of the members for which this holds, among those with these flows.
    fn chosen(&self, flows: &BTreeSet<usize>, holds: impl Fn(&FlowState) -> bool) -> Vec<usize> {
        let members = self.members.iter().enumerate();
        let chosen = members.filter(|(_, member)| flows.contains(&member.flow) && holds(&member.state));
        chosen.map(|(at, _)| at).collect()
    }

    /// The streams of these members in the transmission.
    fn places(&self, members: &[usize]) -> Vec<usize> {
        members.iter().filter_map(|at| Some(self.members.get(*at)?.place)).collect()
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
        let is_idle = self.run.is_none();
        // A flow goes on if one of its legs sends.
        let sends = |member: &&Member| member.state.is_active() && !member.state.is_paused;
        let going_on: BTreeSet<usize> = match is_idle {
            true => BTreeSet::new(),
            false => self.members.iter().filter(sends).map(|member| member.flow).collect(),
        };
        let others = flows.difference(&going_on).copied().collect();
        let chosen = self.chosen(&others, |_| true);
        if chosen.is_empty() {
            return Ok(());
        }
        if is_idle {
            let mut tester = match self.tester.take() {
                Some(tester) => tester,
                None => self.open_ports(all, rules)?,
            };
            (self.failure, self.document, self.captured, self.cut_short) =
                (None, None, BTreeMap::new(), None);
            tester.captures.clone_from(&self.captures);
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
        for at in &chosen {
            self.make_whole(*at, all)?;
        }
        let Some(run) = &self.run else { return Ok(()) };
        let places = self.places(&chosen);
        let counts = run.control().snapshot();
        for at in &chosen {
            let Some(member) = self.members.get_mut(*at) else { continue };
            let Some(now) = counts.get(member.place) else { continue };
            if !keeps {
                let past = self.past.entry((member.stream.from, member.stream.to)).or_default();
                *past = past.and(&member.state.totals);
                let earlier = self.gone.iter_mut().filter(|gone| gone.stream.name == member.stream.name);
                earlier.for_each(|gone| gone.state.is_counted = false);
            }
            member.state.start(now, keeps);
        }
        run.control().start(&places);
        // A load that is refused, or a port that fails, shows at once.
        let begun = Instant::now();
        loop {
            self.sample();
            let has_begun = |at: &usize| self.members.get(*at).is_none_or(|it| it.state.has_begun());
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

    /// A member whose stream is added to the transmission, as it is sent there.
    pub(super) fn added(
        &mut self,
        planned: Planned,
        sent: &Stream,
        all: &Configuration,
    ) -> Result<Member, Refusal> {
        let (mut sent, flow) = (sent.clone(), planned.flow);
        let silent = self.address((flow, planned.leg), &mut sent, all);
        let Some(run) = &self.run else { return Ok(Member::new(planned, 0)) };
        let place =
            run.control().add(&sent).map_err(|why| Refusal::failed(format!("flows[{flow}]: {why}")))?;
        self.silent.extend(silent.err().map(|why| (place, why)));
        Ok(Member::new(planned, place))
    }

    /// The frames of a member's stream are no longer those of a flow, or are earlier frames of the flow with
    /// the same name (`is_counted`). They still arrive while the transmission goes on.
    pub(super) fn retire(&mut self, mut member: Member, is_counted: bool) {
        if !self.is_running() {
            self.leave(&member);
            return;
        }
        member.state.is_stopped = true;
        member.state.is_counted = is_counted;
        self.gone.push(member);
    }

    /// The frames of a flow are only those of its ports from now on.
    fn leave(&mut self, member: &Member) {
        let past = self.past.entry((member.stream.from, member.stream.to)).or_default();
        *past = past.and(&member.state.totals);
    }

    /// Replaces the stream of a member in the transmission by the planned one, if it was only its rest.
    fn make_whole(&mut self, at: usize, all: &Configuration) -> Result<(), Refusal> {
        let Some(member) = self.members.get(at).filter(|member| member.rest.is_some()) else { return Ok(()) };
        let (flow, leg, stream) = (member.flow, member.leg, member.stream.clone());
        let new = self.added(Planned { flow, leg, stream: stream.clone() }, &stream, all)?;
        if let Some(member) = self.members.get_mut(at) {
            let old = std::mem::replace(member, new);
            self.retire(old, true);
        }
        Ok(())
    }

    /// Pauses flows that send: their next frame waits until they are resumed.
    pub fn pause(&mut self, flows: &BTreeSet<usize>) {
        self.sample();
        let chosen = self.chosen(flows, |state| state.is_active());
        if let Some(run) = &self.run {
            run.control().pause(&self.places(&chosen));
            for at in &chosen {
                let Some(member) = self.members.get_mut(*at) else { continue };
                member.state.is_paused = true;
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
        let resumed = self.chosen(flows, |state| state.is_paused);
        if let Some(run) = self.run.as_ref().filter(|_| !resumed.is_empty()) {
            run.control().resume(&self.places(&resumed));
            // They count as paused until it is known which of them send. The answer to the first question may
            // be older than the change.
            self.sample();
            self.sample();
        }
        for at in &resumed {
            let Some(member) = self.members.get_mut(*at) else { continue };
            member.state.is_paused = false;
        }
        let is_resumed = |flow: &usize| {
            resumed.iter().any(|at| self.members.get(*at).is_some_and(|member| member.flow == *flow))
        };
        let others = flows.iter().copied().filter(|flow| !is_resumed(flow)).collect();
        self.start(&others, true, all, rules)
    }

    /// Stops flows. With the last one the transmission ends, and its results are final.
    pub fn stop(&mut self, flows: &BTreeSet<usize>, rules: &Rules) {
        let chosen = self.chosen(flows, |state| state.is_active());
        let Some(run) = &self.run else { return };
        run.control().stop(&self.places(&chosen));
        for at in &chosen {
            let Some(member) = self.members.get_mut(*at) else { continue };
            (member.state.is_stopped, member.state.is_paused) = (true, false);
        }
        self.sample();
        if self.members.iter().all(|member| member.state.is_stopped || !member.state.is_active()) {
            self.finish(rules);
        }
    }

    /// Reads the counts of a running transmission.
    pub(super) fn sample(&mut self) {
        let Some(run) = &self.run else { return };
        let counts = run.control().snapshot();
        self.take_counts(&counts);
    }

    fn take_counts(&mut self, counts: &[StreamNow]) {
        let now = Instant::now();
        self.members.iter_mut().chain(&mut self.gone).for_each(|member| member.sample(counts, now));
    }

    /// The frames of streams that are gone have all arrived.
    fn forget_gone(&mut self) {
        for gone in std::mem::take(&mut self.gone) {
            let same = |member: &&mut Member| member.stream.name == gone.stream.name;
            match self.members.iter_mut().find(same).filter(|_| gone.state.is_counted) {
                Some(member) => member.state.add(&gone.state.totals),
                None => self.leave(&gone),
            }
        }
    }

    /// Ends the transmission if all of its flows are through, or if it ended by itself.
    pub fn tick(&mut self, rules: &Rules) {
        self.sample();
        let is_over = self.run.as_ref().is_some_and(Run::is_over);
        if is_over || self.is_running() && self.members.iter().all(|member| !member.state.is_active()) {
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
        self.forget_gone();
        self.members.iter_mut().for_each(|member| member.state.end());
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
        let flows = self.members.iter().filter(|member| member.state.is_due(now, &member.stream));
        let names: Vec<&str> = flows.map(|member| member.stream.name.as_str()).collect();
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
        self.captured.get(&port)
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
        let resolved = self.stations.resolve(&mut tester, |_| true);
        self.tester = Some(tester);
        resolved
    }
}

/// A leg of a flow.
fn leg_of(flow: usize, leg: usize, all: &Configuration) -> Option<&Leg> {
    all.flows.get(flow)?.legs.get(leg)
}

/// The addresses of ports that have no stations.
fn addresses(ports: usize) -> Result<Vec<Address>, String> {
    let traffic = Traffic::default();
    if ports == 2 {
        return Ok(traffic.ends(&[], None)?.to_vec());
    }
    // One in each network of 198.18.0.0/15 (RFC 2544, C.2.2).
    let ip = |n: usize| IpAddr::from([198, 18 + (n >> 8) as u8, n as u8, 2]);
    traffic.ends_of_mesh(ports, &(1..=ports).map(ip).collect::<Vec<_>>(), &[])
}

/// A location that the server does not have.
pub fn unknown(port: usize, location: &str, rules: &Rules) -> Refusal {
    let known: Vec<_> = rules.ports.iter().map(|port| port.location.as_str()).collect();
    Refusal::wrong(format!(
        "ports[{port}].location: there is no '{location}' here: give one of {}",
        known.join(", ")
    ))
}
