//! Changes of the flows, some of which may be being sent.

use super::member::Member;
use super::planned::Planned;
use super::transmitter::Transmitter;
use crate::rules::{Refusal, Rules};
use crate::translation::Configuration;
use kpps_tester::{MOST_STREAMS, MOST_STREAMS_OF_TRIAL, Stream};
use std::collections::{BTreeMap, BTreeSet};
use std::mem::take;

impl Transmitter {
    /// Refuses a configuration whose flows ask for too much, or that a transmission cannot take.
    ///
    /// # Errors
    /// The place and the reason.
    pub fn check(&self, all: &Configuration, rules: &Rules) -> Result<(), Refusal> {
        let planned = self.limits.planned(all, rules)?;
        if !self.is_running() {
            return Ok(());
        }
        let refused = |at: usize, why: &str| {
            Err(Refusal::wrong(format!("flows[{at}]: flows are being sent, and {why}: stop them before")))
        };
        let known: BTreeMap<&str, &Member> =
            self.members.iter().map(|member| (member.stream.name.as_str(), member)).collect();
        let mut counts: BTreeMap<usize, usize> = BTreeMap::new();
        let sent = self.members.iter().chain(&self.gone);
        sent.for_each(|member| *counts.entry(member.stream.from).or_default() += 1);
        for Planned { flow: at, stream, .. } in &planned {
            let member = known.get(stream.name.as_str());
            if member.is_some_and(|member| is_alike(&member.stream, stream)) {
                continue;
            }
            if member.is_some_and(|member| member.state.is_paused) {
                return refused(*at, "this one is paused while its sizes change");
            }
            *counts.entry(stream.from).or_default() += 1;
            let is_full = counts.get(&stream.from).is_some_and(|count| *count > MOST_STREAMS);
            if is_full || counts.values().sum::<usize>() > MOST_STREAMS_OF_TRIAL {
                return refused(*at, "too many were added or changed");
            }
        }
        Ok(())
    }

    /// Takes the flows of a configuration, which was [checked](Self::check). Flows of the same name keep
    /// their counts. Flows that are being sent go on, with their new rates and sizes, and deleted ones stop.
    ///
    /// # Errors
    /// [`check`](Self::check), or the transmission ends at this moment.
    pub fn adopt(&mut self, all: &Configuration, rules: &Rules) -> Result<(), Refusal> {
        let planned = self.limits.planned(all, rules)?;
        // Flows that are being sent, and go on with other frames.
        let mut going_on = BTreeSet::new();
        if self.is_running() {
            let new: BTreeMap<&str, &Stream> =
                planned.iter().map(|it| (it.stream.name.as_str(), &it.stream)).collect();
            let mut stopped = Vec::new();
            for member in &self.members {
                let new = new.get(member.stream.name.as_str());
                let is_changed = new.is_some_and(|new| !is_alike(new, &member.stream));
                if is_changed && member.state.is_active() {
                    going_on.insert(member.stream.name.clone());
                }
                if new.is_none() || is_changed && member.state.is_active() {
                    stopped.push(member.place);
                }
            }
            if let Some(run) = self.run.as_ref().filter(|_| !stopped.is_empty()) {
                run.control().stop(&stopped);
            }
            // The answer to the first question may be older than the change.
            self.sample();
            self.sample();
        }
        let old = take(&mut self.members).into_iter();
        let mut old: BTreeMap<String, Member> =
            old.map(|member| (member.stream.name.clone(), member)).collect();
        let mut begins = Vec::new();
        let mut failed = None;
        for planned in planned {
            let known = old.remove(&planned.stream.name);
            let stream = planned.stream.clone();
            let member = match known {
                _ if !self.is_running() => {
                    let mut member = known.unwrap_or_else(|| Member::new(planned.clone(), 0));
                    member.become_planned(planned);
                    Ok(member)
                }
                None => self.added(planned, &stream, all),
                Some(mut member) if is_alike(&member.stream, &stream) => {
                    if let Some(run) = self.run.as_ref().filter(|_| member.stream.pps() != stream.pps()) {
                        run.control().set_pps(member.place, stream.pps());
                    }
                    member.become_planned(planned);
                    Ok(member)
                }
                Some(member) => {
                    let rest = member.rest_of(&stream);
                    let goes_on = going_on.contains(&stream.name) && rest.count != Some(0);
                    let sent = if goes_on { rest.clone() } else { stream.clone() };
                    match self.added(planned, &sent, all) {
                        Ok(mut new) => {
                            if goes_on {
                                new.rest = Some(rest);
                                begins.push(new.place);
                                new.state.begin();
                            }
                            self.retire(member, true);
                            Ok(new)
                        }
                        Err(why) => {
                            failed = Some(why);
                            Ok(member)
                        }
                    }
                }
            };
            match member {
                Ok(member) => self.members.push(member),
                Err(why) => failed = Some(why),
            }
        }
        for member in old.into_values() {
            self.retire(member, false);
        }
        if let Some(run) = self.run.as_ref().filter(|_| !begins.is_empty()) {
            // Receivers expect the new streams before these begin.
            run.control().snapshot();
            run.control().start(&begins);
        }
        failed.map_or(Ok(()), Err)
    }
}

/// Whether two streams of a flow differ in their rates only.
fn is_alike(one: &Stream, other: &Stream) -> bool {
    (&one.sizes, one.shape) == (&other.sizes, other.shape)
}
