//! The steps of a guest: those that it makes by itself, and those that kpps asks for.

use super::faults::{Act, FaultKind};
use super::wire::seconds;
use crate::responder::{EchoPlan, Echoed, Event, Handle, ProbeBy, Responder, SECOND_PS};
use kpps_documents::guest_audit::{Fault, Reached, Step};
use std::collections::VecDeque;

/// Pings, and the frames of a flood; how many of these may be outstanding. 8 is less than the smallest ring
/// that a card can have.
const PINGS: u32 = 20;
const FLOOD: u32 = 500;
const OUTSTANDING: usize = 7;
/// Data of echo requests in bytes.
const PING_BYTES: [u16; 1] = [56];
const FLOOD_BYTES: [u16; 5] = [18, 56, 200, 512, 1472];
/// How long is probed before a fault, and after it at least.
const PROBED_PS: u64 = SECOND_PS;
/// How long a guest may take to answer ARP, to return after a fault, and for all echo requests.
const PATIENCE_PS: u64 = 20 * SECOND_PS;
/// An echo request is lost after this time: an emulated guest on a busy host may be slow.
const ECHO_TIMEOUT_PS: u64 = 4 * SECOND_PS;

kpps_methods::names! {
    /// Something that a guest is to do, or to bear, in the order in which it is tried.
    pub enum Stimulus("stimulus") {
        /// Only the link.
        Link = "link",
        /// Answer an ARP request.
        Arp = "arp",
        /// Answer pings.
        Ping = "ping",
        /// Answer many pings of all sizes.
        Flood = "flood",
        /// Return UDP datagrams to its port 7 (RFC 862).
        Udp = "udp",
        /// Get an address by DHCP, by itself.
        Dhcp = "dhcp",
        /// Load a file by TFTP, by itself.
        Tftp = "tftp",
        /// Load a file by HTTP, by itself.
        Http = "http",
        /// Answer again after more frames than its ring holds.
        Overrun = "overrun",
        /// Answer again after its cable was unplugged.
        LinkFlap = "link-flap",
    }
}

impl Stimulus {
    /// Whether kpps acts. Otherwise the guest does.
    const fn is_active(self) -> bool {
        matches!(self, Self::Arp | Self::Ping | Self::Flood | Self::Udp | Self::Overrun | Self::LinkFlap)
    }
}

/// The state of the guest's card, as far as it is known.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct CardState {
    /// The link is up; unknown on QEMU's card.
    pub(crate) link: Option<bool>,
    /// The receiver is enabled; unknown on QEMU's card.
    pub(crate) receives: Option<bool>,
}

/// Something that a guest is to do, or to bear, in its turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Task {
    Stimulus(Stimulus),
    Fault(FaultKind),
}

impl Task {
    const fn name(self) -> &'static str {
        match self {
            Self::Stimulus(stimulus) => stimulus.name(),
            Self::Fault(fault) => fault.name(),
        }
    }

    /// The fault that is probed, if it is one.
    const fn fault(self) -> Option<FaultKind> {
        match self {
            Self::Stimulus(Stimulus::Overrun) => Some(FaultKind::Overrun),
            Self::Stimulus(Stimulus::LinkFlap) => Some(FaultKind::LinkFlap),
            Self::Stimulus(_) => None,
            Self::Fault(fault) => Some(fault),
        }
    }
}

/// The task in progress.
#[derive(Debug)]
struct Current {
    task: Task,
    since_ps: u64,
    /// When the fault began and ended, if it is one.
    fault_ps: Option<u64>,
    over_ps: Option<u64>,
}

/// The steps of one run.
pub(crate) struct Steps {
    wanted: Vec<Stimulus>,
    /// Faults after the stimuli, but those that are among them.
    troubles: Vec<FaultKind>,
    /// Tasks that are to begin.
    next: VecDeque<Task>,
    current: Option<Current>,
    link_ps: Option<u64>,
    /// The last state of the card.
    card: CardState,
    results: Vec<(Task, Reached)>,
    faults: Vec<Fault>,
}

impl Steps {
    /// The steps of a guest that is to do `wanted`, then to bear `faults`, if its card can have them.
    pub(crate) fn new(wanted: &[Stimulus], faults: &[FaultKind], can: impl Fn(FaultKind) -> bool) -> Self {
        let mut wanted = wanted.to_vec();
        wanted.sort_unstable();
        wanted.dedup();
        let is_among = |fault: &FaultKind| wanted.iter().any(|it| it.name() == fault.name());
        let troubles: Vec<_> = faults.iter().copied().filter(|fault| !is_among(fault)).collect();
        let active = wanted.iter().copied().filter(|it| it.is_active()).map(Task::Stimulus);
        let possible = troubles.iter().copied().filter(|fault| can(*fault)).map(Task::Fault);
        Self {
            next: active.chain(possible).collect(),
            results: troubles
                .iter()
                .filter(|fault| !can(**fault))
                .map(|fault| (Task::Fault(*fault), unknown("this card cannot have it")))
                .collect(),
            wanted,
            troubles,
            current: None,
            link_ps: None,
            card: CardState::default(),
            faults: Vec::new(),
        }
    }

    /// Goes on at `now_ps`. Returns what to do with card or cable.
    pub(crate) fn advance(&mut self, now_ps: u64, card: CardState, responder: &Handle) -> Option<Act> {
        self.card = card;
        if card.link == Some(true) {
            self.link_ps.get_or_insert(now_ps);
        }
        responder.with(|responder| {
            if self.current.is_none() {
                self.begin(now_ps, card, responder);
            }
            let current = self.current.as_mut()?;
            let act = current.go_on(now_ps, responder);
            if let Some((reached, fault)) = current.end(now_ps, responder) {
                self.results.push((current.task, reached));
                if fault.as_ref().is_some_and(|fault| !fault.came_back) {
                    // A guest that does not answer bears every fault alike.
                    let left = self.next.drain(..).filter(|task| task.fault().is_some());
                    let after =
                        format!("not tried: the guest had not come back after {}", current.task.name());
                    self.results.extend(left.map(|task| (task, unknown(&after))));
                }
                self.faults.extend(fault);
                self.current = None;
            }
            act
        })
    }

    /// Begins the next stimulus if the guest is ready for it.
    fn begin(&mut self, now_ps: u64, card: CardState, responder: &mut Responder) {
        let Some(&task) = self.next.front() else { return };
        // A guest that cannot receive is not there yet. QEMU's card does not say so: the guest has sent then.
        let heard = responder.seen().frames.count > 0;
        let ready = card.link.unwrap_or(true)
            && card.receives.unwrap_or(task == Task::Stimulus(Stimulus::Arp) || heard);
        if !ready {
            return;
        }
        match task {
            Task::Stimulus(Stimulus::Arp) => responder.start_arp(now_ps),
            Task::Stimulus(Stimulus::Ping) => {
                responder.start_ping(now_ps, patient(EchoPlan::ping(PINGS, &PING_BYTES)))
            }
            Task::Stimulus(Stimulus::Flood) => {
                responder.start_flood(now_ps, patient(EchoPlan::flood(FLOOD, OUTSTANDING, &FLOOD_BYTES)));
            }
            Task::Stimulus(Stimulus::Udp) => {
                responder.start_udp(now_ps, patient(EchoPlan::ping(PINGS, &PING_BYTES)))
            }
            _ => responder.start_probe(now_ps, ProbeBy::Echo),
        }
        self.next.pop_front();
        self.current = Some(Current { task, since_ps: now_ps, fault_ps: None, over_ps: None });
    }

    /// Whether nothing is left to be tried, and the guest has done what it was to do by itself.
    pub(crate) fn are_over(&self, responder: &Handle) -> bool {
        let seen = |stimulus: &Stimulus| match stimulus {
            Stimulus::Link => self.link_ps.is_some(),
            other if other.is_active() => true,
            other => responder.with(|responder| by_itself(*other, responder).0),
        };
        self.next.is_empty() && self.current.is_none() && self.wanted.iter().all(seen)
    }

    /// The name of the awaited stimulus.
    pub(crate) fn awaits(&self, responder: &Handle) -> Option<&'static str> {
        let current = self.current.as_ref().map(|current| current.task);
        let passive = |it: &&Stimulus| {
            !it.is_active()
                && **it != Stimulus::Link
                && !responder.with(|responder| by_itself(**it, responder).0)
        };
        current
            .or(self.next.front().copied())
            .or_else(|| self.wanted.iter().find(passive).copied().map(Task::Stimulus))
            .map(Task::name)
    }

    /// The results; times are in seconds since `begin_ps`.
    pub(crate) fn results(
        &self,
        begin_ps: u64,
        card: CardState,
        responder: &Handle,
    ) -> Vec<(String, bool, Reached)> {
        let at = |ps: u64| seconds(ps, begin_ps);
        let shift = |reached: &Reached| Reached {
            at_s: reached.at_s.map(|s| s - at_zero(begin_ps)),
            ..reached.clone()
        };
        let link = Reached {
            reached: card.link.map(|up| up || self.link_ps.is_some()),
            at_s: self.link_ps.map(at),
            detail: String::new(),
        };
        let mut all = vec![("link".to_owned(), true, link)];
        responder.with(|responder| {
            let seen = responder.seen();
            let sent = |event: &Event, what: &str| Reached {
                reached: Some(event.count > 0),
                at_s: event.first_ps.map(at),
                detail: if event.count > 0 { format!("{} {what}", event.count) } else { String::new() },
            };
            all.push(("first frame".to_owned(), true, sent(&seen.frames, "frames sent")));
            for stimulus in Stimulus::ALL.into_iter().filter(|it| *it != Stimulus::Link) {
                let wanted = self.wanted.contains(&stimulus);
                let reached = if stimulus.is_active() {
                    shift(&self.tried(Task::Stimulus(stimulus)))
                } else {
                    let (done, first_ps, detail) = by_itself(stimulus, responder);
                    Reached { reached: Some(done), at_s: first_ps.map(at), detail }
                };
                if wanted || reached.reached == Some(true) {
                    all.push((stimulus.name().to_owned(), wanted, reached));
                }
            }
        });
        let troubles = self.troubles.iter();
        all.extend(
            troubles.map(|fault| (fault.name().to_owned(), true, shift(&self.tried(Task::Fault(*fault))))),
        );
        all
    }

    /// The result of a task.
    fn tried(&self, task: Task) -> Reached {
        if let Some((_, reached)) = self.results.iter().find(|(of, _)| *of == task) {
            return reached.clone();
        }
        let detail = match &self.current {
            Some(current) if current.task == task => "the run ended before",
            _ => match (self.card.link, self.card.receives) {
                (Some(false), _) => "not tried: the link is down",
                (_, Some(false)) => "not tried: the receiver is off",
                (None, None) => "not tried: the guest sent nothing",
                _ => "not tried: the run ended before",
            },
        };
        Reached { reached: Some(false), at_s: None, detail: detail.to_owned() }
    }

    /// The faults so far; times are in seconds since `begin_ps`.
    pub(crate) fn faults(&self, begin_ps: u64) -> Vec<Fault> {
        let shift = |fault: &Fault| Fault { at_s: fault.at_s - at_zero(begin_ps), ..fault.clone() };
        self.faults.iter().map(shift).collect()
    }
}

/// A time of the cards in seconds of their clock.
fn at_zero(ps: u64) -> f64 {
    seconds(ps, 0)
}

/// The result of a task that cannot be tried.
fn unknown(detail: &str) -> Reached {
    Reached { reached: None, at_s: None, detail: detail.to_owned() }
}

fn patient(plan: EchoPlan) -> EchoPlan {
    EchoPlan { timeout_ps: ECHO_TIMEOUT_PS, ..plan }
}

/// Whether the guest has done something by itself, when first, and numbers about it.
fn by_itself(stimulus: Stimulus, responder: &Responder) -> (bool, Option<u64>, String) {
    let seen = responder.seen();
    let (done, begun, detail) = match stimulus {
        Stimulus::Dhcp => {
            let address = responder.guest().ip;
            (seen.dhcp_acks, seen.dhcp_discovers.count, format!("{address}"))
        }
        Stimulus::Tftp => {
            (seen.tftp_completed, seen.tftp_started.count, format!("{} bytes", seen.tftp_bytes))
        }
        _ => (seen.http_completed, seen.http_started.count, format!("{} bytes", seen.http_bytes)),
    };
    let detail = match (done.count, begun) {
        (0, 0) => String::new(),
        (0, begun) => format!("begun {begun} times, never completed"),
        _ => detail,
    };
    (done.count > 0, done.first_ps, detail)
}

impl Current {
    /// Acts while the task is in progress: begins and ends a fault.
    fn go_on(&mut self, now_ps: u64, responder: &mut Responder) -> Option<Act> {
        let fault = self.task.fault()?;
        match (self.fault_ps, self.over_ps) {
            (None, _) if now_ps.saturating_sub(self.since_ps) >= PROBED_PS => {
                self.fault_ps = Some(now_ps);
                fault.begin(now_ps, responder)
            }
            (Some(begin_ps), None) => {
                let (over_ps, act) = fault.end(begin_ps, now_ps, responder)?;
                self.over_ps = Some(over_ps);
                act
            }
            _ => None,
        }
    }

    /// The result, if the stimulus is over.
    fn end(&self, now_ps: u64, responder: &mut Responder) -> Option<(Reached, Option<Fault>)> {
        let is_late = now_ps.saturating_sub(self.since_ps) >= PATIENCE_PS;
        let Task::Stimulus(stimulus) = self.task else { return self.fault_ended(now_ps, responder) };
        match stimulus {
            Stimulus::Arp => {
                let resolved = responder.arp()?;
                (resolved.answer.is_some() || is_late).then(|| {
                    let at_s = resolved.answer.map(|(at, _)| at_zero(at));
                    let detail = match resolved.answer {
                        Some((_, mac)) => format!("{} is at {mac}", responder.guest().ip),
                        None => format!("{} requests for {}", resolved.sent, responder.guest().ip),
                    };
                    (Reached { reached: Some(resolved.answer.is_some()), at_s, detail }, None)
                })
            }
            Stimulus::Ping => echoed(responder.ping()?, is_late),
            Stimulus::Flood => {
                echoed(responder.flood()?, now_ps.saturating_sub(self.since_ps) >= 3 * PATIENCE_PS)
            }
            Stimulus::Udp => echoed(responder.udp()?, is_late),
            _ => self.fault_ended(now_ps, responder),
        }
    }

    /// The result of a fault: whether the guest answered after it.
    fn fault_ended(&self, now_ps: u64, responder: &mut Responder) -> Option<(Reached, Option<Fault>)> {
        let (fault, begin_ps, over_ps) = (self.task.fault()?, self.fault_ps?, self.over_ps?);
        let probed = responder.probe(now_ps)?;
        let answered_before = probed.first_answer_ps.is_some_and(|at| at < begin_ps);
        let after_ps = now_ps.saturating_sub(over_ps);
        let back_ps = probed.last_answer_ps.filter(|at| *at > over_ps);
        let is_over = match back_ps {
            Some(_) => after_ps >= PROBED_PS && !probed.is_deaf,
            None => after_ps >= PATIENCE_PS,
        };
        if !is_over {
            return None;
        }
        responder.stop_probe(now_ps);
        let came_back = back_ps.is_some();
        let deaf_s =
            came_back.then(|| match probed.longest.from_ps.saturating_add(probed.longest.ps) > begin_ps {
                true => at_zero(probed.longest.ps),
                false => 0.0,
            });
        let mut detail = match (answered_before, deaf_s) {
            (false, _) => "the guest did not answer before it".to_owned(),
            (true, Some(deaf)) => format!("answered again; silent for {deaf:.1} s"),
            (true, None) => "never answered again".to_owned(),
        };
        let is_too_deaf = deaf_s.is_some_and(|deaf_s| deaf_s > at_zero(fault.most_deaf_ps()));
        let wrong = match fault {
            FaultKind::BadFcs => responder.disturbance().map_or(0, |it| it.answered),
            _ => 0,
        };
        if wrong > 0 {
            detail = format!("answered {wrong} damaged frames");
        }
        let is_borne = came_back && !is_too_deaf && wrong == 0;
        // A guest that was silent before is not silent because of the fault.
        let is_known = answered_before || came_back && !is_too_deaf;
        let reached = is_known.then_some(is_borne);
        let at_s = back_ps.filter(|_| is_borne).map(at_zero);
        let fault = Fault { name: self.task.name().to_owned(), at_s: at_zero(begin_ps), deaf_s, came_back };
        Some((Reached { reached, at_s, detail }, Some(fault)))
    }
}

/// The result of echo requests, if they are over. Its time is in seconds of the cards' clock.
fn echoed(result: Echoed, is_late: bool) -> Option<(Reached, Option<Fault>)> {
    (result.ended_ps.is_some() || is_late).then(|| {
        let mut detail = format!("{} of {} answered", result.answered, result.sent);
        if result.changed > 0 {
            detail += &format!(", {} with other contents", result.changed);
        }
        let all = result.sent > 0 && result.answered == result.sent;
        (Reached { reached: Some(all), at_s: result.ended_ps.filter(|_| all).map(at_zero), detail }, None)
    })
}

/// The steps on our model, with those on QEMU's card beside them.
pub(crate) fn beside(
    ours: Vec<(String, bool, Reached)>,
    qemus: Option<Vec<(String, bool, Reached)>>,
) -> Vec<Step> {
    let mut steps: Vec<Step> =
        ours.into_iter().map(|(name, wanted, ours)| Step { name, wanted, ours, qemu: None }).collect();
    for (name, wanted, reached) in qemus.into_iter().flatten() {
        match steps.iter_mut().find(|step| step.name == name) {
            Some(step) => step.qemu = Some(reached),
            None => steps.push(Step { name, wanted, ours: Reached::default(), qemu: Some(reached) }),
        }
    }
    steps
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::cards::Partner;
    use crate::responder::Options;
    use crate::responder::tests::answer;

    /// The results of a guest that answers the good frames which `hears` lets through; with `all`, also
    /// damaged ones. `hears` gets the fault's acts that are in force.
    fn results(
        faults: &[FaultKind],
        all: bool,
        hears: impl Fn(Option<Act>) -> bool,
    ) -> (Vec<(String, bool, Reached)>, Vec<Fault>) {
        let mut responder = Handle::new(Responder::new(Options::default()).unwrap());
        let mut steps = Steps::new(&[Stimulus::Arp], faults, |fault| fault != FaultKind::PauseFlood);
        let card = CardState { link: Some(true), receives: Some(true) };
        let mut act = None;
        for now_ps in (0..200 * SECOND_PS).step_by(SECOND_PS as usize / 1000) {
            act = steps.advance(now_ps, card, &responder).or(act);
            while let Some(coming) = responder.next(now_ps) {
                if (all || coming.good_fcs)
                    && hears(act)
                    && coming.frame.len() >= 60
                    && let Some(reply) = answer(&coming.frame)
                {
                    responder.take(now_ps, &reply, true);
                }
            }
            if steps.are_over(&responder) {
                break;
            }
        }
        assert!(steps.are_over(&responder));
        (steps.results(0, card, &responder), steps.faults(0))
    }

    #[test]
    fn a_right_guest_bears_all_faults() {
        let (results, faults) = results(&FaultKind::ALL, false, |act| act != Some(Act::Unplug));
        for (name, wanted, reached) in results.iter().filter(|(name, ..)| name != "pause-flood") {
            assert!(*wanted && reached.reached == Some(true), "{name}: {reached:?}");
        }
        let skipped = results.iter().find(|(name, ..)| name == "pause-flood").unwrap();
        assert_eq!((skipped.2.reached, &*skipped.2.detail), (None, "this card cannot have it"));
        assert_eq!(faults.len(), FaultKind::ALL.len() - 1);
        for fault in faults {
            let deaf_s = if fault.name == "link-flap" { 2.5..3.5 } else { 0.0..0.3 };
            assert!(fault.came_back && deaf_s.contains(&fault.deaf_s.unwrap()), "{fault:?}");
        }
    }

    #[test]
    fn wrong_guests_do_not() {
        let reached = |results: &[(String, bool, Reached)], name: &str| {
            results.iter().find(|(it, ..)| it == name).map(|(.., it)| it.clone()).unwrap()
        };
        let (all, _) = results(&[FaultKind::BadFcs], true, |_| true);
        let bad = reached(&all, "bad-fcs");
        assert_eq!((bad.reached, &*bad.detail), (Some(false), "answered 400 damaged frames"));
        // Deaf while write-backs are late, and well after.
        let late = Act::WriteBacksLateBy(5_000_000_000);
        let (all, faults) = results(&[FaultKind::LateWriteBack], false, |act| act != Some(late));
        let deaf = reached(&all, "late-write-back");
        assert_eq!((deaf.reached, faults[0].came_back), (Some(false), true), "{deaf:?}");
        assert!(deaf.detail.contains("silent for 2."), "{deaf:?}");
        // Dead from then on: the other faults are not tried.
        let kinds = [FaultKind::SpuriousInterrupts, FaultKind::BadFcs];
        let (all, faults) = results(&kinds, false, |act| act.is_none());
        assert_eq!((reached(&all, "spurious-interrupts").reached, faults.len()), (Some(false), 1));
        let untried = reached(&all, "bad-fcs");
        assert_eq!((untried.reached, faults[0].deaf_s), (None, None));
        assert!(untried.detail.contains("not come back after spurious-interrupts"), "{untried:?}");
    }

    #[test]
    fn a_fault_is_not_blamed_for_silence_before_it() {
        let (results, faults) = results(&[FaultKind::BadFcs], false, |act| act == Some(Act::Plug));
        let (.., reached) = results.iter().find(|(name, ..)| name == "bad-fcs").unwrap();
        assert_eq!((reached.reached, &*reached.detail), (None, "the guest did not answer before it"));
        assert!(!faults[0].came_back);
    }

    #[test]
    fn a_fault_among_the_stimuli_is_not_repeated() {
        let steps = Steps::new(&[Stimulus::Overrun], &[FaultKind::Overrun, FaultKind::BadFcs], |_| true);
        assert_eq!(steps.troubles, [FaultKind::BadFcs]);
        assert_eq!(steps.next, [Task::Stimulus(Stimulus::Overrun), Task::Fault(FaultKind::BadFcs)]);
    }
}
