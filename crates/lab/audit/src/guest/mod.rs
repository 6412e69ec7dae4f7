//! Foreign guests: any operating system with an e1000 driver, on our model, and on QEMU's card beside it.
//!
//! - [`Typed`]: a line that is typed on the guest's console (`script`).
//! - [`Stimulus`]: a task or a fault for the guest (`steps`).
//! - [`Faults`]: faults after the stimuli, chosen or drawn from a seed (`faults`).
//! - [`Quirk`]: a property of the card beyond the manual.
//! - `linux`: Linux's driver under the same stimuli, to compare with.
//! - [`SetupFile`]: all of this as a file (`file`).
//! - [`GuestPlan`]: a run; its result is the document [`GuestAudit`].

mod card;
mod faults;
mod file;
mod linux;
mod quirk;
mod script;
mod steps;
mod wire;

pub use faults::{FaultKind, Faults};
pub use file::{Beside, SetupFile};
pub use quirk::Quirk;
#[cfg(feature = "fuzzing")]
pub use script::Script;
pub use script::Typed;
pub use steps::Stimulus;

use crate::cards::{Cable, Cards};
use crate::responder::{Handle, Options, Responder};
use crate::rules::Breach;
use crate::serve::Server;
use card::{Emulated, LOOK, Model, Wired};
use kpps_datasheet::Chip;
use kpps_documents::Environment;
use kpps_documents::guest_audit::{Finding, GuestAudit, LinuxWork, Reached};
use kpps_host::bus;
use kpps_methods::Observer;
use kpps_qemu::lab::foreign::{Card, Foreign, Program, Setup};
use kpps_qemu::lab::{Error, Result};
#[cfg(not(feature = "fuzzing"))]
use script::Script;
use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::time::{Duration, Instant};
use steps::{CardState, Steps};

/// The longest that a run goes on for rules that allow some seconds.
const JUDGED: Duration = Duration::from_secs(6);
/// The longest that a run goes on after a driver has not set CTRL.SLU in time.
const NO_LINK: Duration = Duration::from_secs(10);
/// The station address of the guest's card: that of QEMU's first card.
const MAC: [u8; 6] = [0x52, 0x54, 0x00, 0x12, 0x34, 0x56];
/// QEMU's card beside ours, by its chip.
const fn qemus_card(chip: Chip) -> &'static str {
    if chip.is_pci_express() { "e1000e" } else { "e1000" }
}
/// Reads of a console whose QEMU has ended, of some kilobytes each.
const LAST_READS: usize = 100;

/// The audit of a guest.
#[derive(Clone, Debug)]
pub struct GuestPlan {
    /// Its QEMU.
    pub setup: Setup,
    /// The chip's profile.
    pub chip: String,
    /// The bus's profile.
    pub bus: String,
    /// Properties of the card beyond the manual.
    pub quirks: Vec<Quirk>,
    /// The tasks and faults for the guest.
    pub stimuli: Vec<Stimulus>,
    /// Faults after them.
    pub faults: Faults,
    /// Its address, unless it shows another one.
    pub address: Ipv4Addr,
    /// Lines that are typed on its console.
    pub typed: Vec<Typed>,
    /// The text on its console before which the run does not end.
    pub until: Option<String>,
    /// The longest run.
    pub at_most: Duration,
    /// Whether the guest runs on QEMU's card, too.
    pub beside_qemu: bool,
    /// Whether Linux's driver is measured under the same stimuli.
    pub beside_linux: bool,
}

/// The course of a guest on one card.
struct Outcome {
    version: String,
    steps: Vec<(String, bool, Reached)>,
    faults: Vec<kpps_documents::guest_audit::Fault>,
    console: Vec<String>,
    seconds: f64,
    ended: Ended,
}

impl Outcome {
    /// Why the run says little, with the console's last words. `silent_card` is the card whose registers the
    /// guest never accessed.
    fn failure(&self, silent_card: Option<&str>) -> Option<String> {
        let is_failure = match self.ended {
            Ended::NoText(_) | Ended::Gone(_) => true,
            Ended::TimeOver(_) => silent_card.is_some(),
            Ended::Done | Ended::NoLink | Ended::Interrupted => false,
        };
        if !is_failure {
            return None;
        }
        let mut what = self.ended.words();
        if let Some(chip) = silent_card {
            what += ", and the guest never accessed the card";
            if let Ended::TimeOver(_) = self.ended {
                let seconds = self.seconds;
                what += &format!(": does it boot within {seconds:.1} s, with a driver for the {chip}?");
            }
        }
        let words = match self.console.last() {
            None => "the console is empty".to_owned(),
            Some(last) => format!("the console's last words: {last}"),
        };
        Some(format!("{what}; {words}"))
    }
}

/// Why a run ended.
enum Ended {
    /// Everything was tried.
    Done,
    /// Time was over before this text appeared on the console.
    NoText(String),
    /// Time was over while this stimulus was in progress.
    TimeOver(&'static str),
    /// The driver left the link down.
    NoLink,
    /// The guest or QEMU ended, or a connection broke.
    Gone(String),
    /// The user interrupted.
    Interrupted,
}

impl Ended {
    fn words(&self) -> String {
        match self {
            Self::Done => "everything was tried".to_owned(),
            Self::NoText(text) => format!("'{text}' did not appear on the console in time"),
            Self::TimeOver(awaited) => format!("its time was over while it waited for {awaited}"),
            Self::NoLink => "the driver left the link down: CTRL.SLU is not set".to_owned(),
            Self::Gone(how) => how.clone(),
            Self::Interrupted => "it was interrupted".to_owned(),
        }
    }
}

impl GuestPlan {
    /// The longest run if none is chosen: a guest boots and has done its tasks in 60 s, and a fault takes up
    /// to 15 s.
    pub fn usual_time(faults: &Faults) -> Duration {
        Duration::from_secs(60 + 15 * faults.kinds.len() as u64)
    }

    /// Runs the guest on our model, and on QEMU's card if that is wanted.
    ///
    /// # Errors
    /// If the options are wrong, QEMU cannot be fetched, or does not start the guest.
    pub fn run(&self, observer: &dyn Observer, go_on: impl Fn() -> bool + Send + Sync) -> Result<GuestAudit> {
        self.setup.check()?;
        let (params, bus) = crate::plan::profiles(&self.chip, &self.bus)?;
        let mut card = params.clone();
        self.quirks.iter().for_each(|quirk| quirk.apply(&mut card));
        self.faults.kinds.iter().for_each(|fault| fault.apply(&mut card));
        let responder = || {
            let options = Options { guest: self.address, ..Options::default() };
            Responder::new(options).map(Handle::new).map_err(|error| Error::Input(error.to_string()))
        };
        let (ours, qemus) = (responder()?, responder()?);
        observer.trials(1 + usize::from(self.beside_qemu) + usize::from(self.beside_linux));
        observer.begins("fetching a QEMU with vfio-user", None);
        let qemu = self.setup.fetch(true)?;
        observer.begins(&format!("the guest on our model of the {}", card.chip.name()), None);
        let mut audit = self.on_model(&qemu, &card, &bus, &ours, &go_on)?;
        observer.done();
        if self.beside_qemu && go_on() {
            observer.begins("the guest on QEMU's own card", None);
            match self.on_qemus_card(&qemu, card.chip, &qemus, &go_on) {
                Ok(beside) => {
                    if let Ended::Interrupted = beside.ended {
                        audit.complete = false;
                        audit.ended = format!("{}, on QEMU's card", beside.ended.words());
                    }
                    let steps = std::mem::take(&mut audit.steps);
                    let ours = steps.into_iter().map(|step| (step.name, step.wanted, step.ours)).collect();
                    audit.steps = steps::beside(ours, Some(beside.steps));
                }
                // The audit on our model is not lost.
                Err(error) => {
                    audit.complete = false;
                    audit.failure.get_or_insert(format!("the guest did not run on QEMU's card: {error}"));
                }
            }
            observer.done();
        } else if self.beside_qemu {
            audit.complete = false;
            audit.ended = Ended::Interrupted.words();
        }
        if self.beside_linux && go_on() {
            observer.begins("Linux's driver on our model", None);
            let responder = responder()?;
            match linux::measure((&params, &bus), (MAC, self.address), &self.stimuli, &responder, &go_on) {
                Ok(measured) => {
                    audit.linux = Some(LinuxWork {
                        kernel: measured.kernel,
                        stimuli: measured.stimuli.iter().map(|it| it.name().to_owned()).collect(),
                        work: measured.work,
                    });
                }
                // The audit of the guest is not lost.
                Err(Error::Interrupted) => audit.complete = false,
                Err(error) => {
                    audit.complete = false;
                    audit.failure.get_or_insert(format!("Linux's driver was not measured: {error}"));
                }
            }
            observer.done();
        }
        let works = audit.works_on_qemu();
        let alike_until_s = self.faults.alike_until_s(&audit.faults);
        for finding in &mut audit.findings {
            // A fault that QEMU's card cannot have may be the reason for later ones.
            finding.qemu_does_not_care = works.filter(|_| finding.first_s < alike_until_s);
        }
        Ok(audit)
    }

    /// The guest on QEMU's own card.
    fn on_qemus_card(
        &self,
        qemu: &Program,
        chip: Chip,
        responder: &Handle,
        go_on: &dyn Fn() -> bool,
    ) -> Result<Outcome> {
        let mut guest = qemu.start(&self.setup, Card::Emulated(qemus_card(chip), MAC))?;
        let mut wired = Emulated::new(responder);
        Ok(self.accompany(&mut guest, &mut wired, responder, go_on))
    }

    /// The guest on our model.
    fn on_model(
        &self,
        qemu: &Program,
        card: &kpps_card::Params,
        bus: &bus::Params,
        responder: &Handle,
        go_on: &dyn Fn() -> bool,
    ) -> Result<GuestAudit> {
        let mut cards = Cards::new(card, bus, &[(Cable::Open, MAC)]);
        cards.attach(0, Box::new(responder.clone()));
        self.faults.kinds.iter().for_each(|fault| fault.prepare(&mut cards));
        let server = Server::start(cards)?;
        let socket = server.sockets().into_iter().next().unwrap_or_default();
        let mut guest = qemu.start(&self.setup, Card::Served(&socket))?;
        let begin_ps = server.with(|_, now_ps| now_ps);
        let mut model = Model::new(&server);
        let outcome = self.accompany(&mut guest, &mut model, responder, go_on);
        let (work, breaches) = (model.work(), server.with(|cards, _| cards.breaches()));
        drop(guest);
        let is_silent = work.reads.is_empty() && work.writes.is_empty();
        let quirks = self.quirks.iter().map(|quirk| quirk.name()).collect::<Vec<_>>().join(", ");
        let mut system: BTreeMap<_, _> = [
            ("arch".to_owned(), self.setup.arch.name().to_owned()),
            ("QEMU".to_owned(), outcome.version.clone()),
            ("options".to_owned(), self.setup.options.join(" ")),
        ]
        .into();
        if !quirks.is_empty() {
            system.insert("quirks".to_owned(), quirks);
        }
        if !self.faults.kinds.is_empty() {
            system.insert("faults".to_owned(), self.faults.words());
        }
        Ok(GuestAudit {
            environment: Environment {
                chip: card.chip.name().into(),
                bus: self.bus.clone(),
                system,
                ..Environment::on(["guest"])
            },
            complete: matches!(outcome.ended, Ended::Done),
            ended: outcome.ended.words(),
            failure: outcome.failure(is_silent.then(|| card.chip.name())),
            seconds: outcome.seconds,
            steps: steps::beside(outcome.steps, None),
            findings: findings(breaches, card.chip, responder, begin_ps),
            work,
            faults: outcome.faults,
            console: outcome.console,
            ..GuestAudit::default()
        })
    }

    /// Accompanies a guest to the end of its run. A connection that breaks ends the run.
    fn accompany(
        &self,
        guest: &mut Foreign,
        wired: &mut dyn Wired,
        responder: &Handle,
        go_on: &dyn Fn() -> bool,
    ) -> Outcome {
        let mut course = Course {
            plan: self,
            since: Instant::now(),
            script: Script::new(&self.typed, self.until.as_deref()),
            steps: Steps::new(&self.stimuli, &self.faults.kinds, |fault| wired.can(fault)),
            begin_ps: None,
            tried: None,
            down: None,
            card: CardState::default(),
        };
        let ended = loop {
            match course.go_on(guest, wired, responder, go_on) {
                Ok(None) => {}
                Ok(Some(ended)) => break ended,
                Err(error) => {
                    let how = guest.ended_soon();
                    break Ended::Gone(how.unwrap_or_else(|| format!("a connection to QEMU broke: {error}")));
                }
            }
        };
        let seconds = course.since.elapsed().as_secs_f64();
        if let Ended::Gone(_) = ended {
            course.hear_the_last_words(guest);
        }
        let Course { script, steps, begin_ps, card, .. } = course;
        let begin_ps = begin_ps.unwrap_or_default();
        Outcome {
            version: guest.version().to_owned(),
            steps: steps.results(begin_ps, card, responder),
            faults: steps.faults(begin_ps),
            console: script.last_lines(),
            seconds,
            ended,
        }
    }
}

/// A guest's run in progress.
struct Course<'p> {
    plan: &'p GuestPlan,
    since: Instant,
    script: Script,
    steps: Steps,
    /// The card's time at the begin in ps.
    begin_ps: Option<u64>,
    /// When everything was tried.
    tried: Option<Instant>,
    /// Since when the driver leaves the link down.
    down: Option<Instant>,
    card: CardState,
}

impl Course<'_> {
    /// Goes on until now. Returns why the run ends, if it does.
    fn go_on(
        &mut self,
        guest: &mut Foreign,
        wired: &mut dyn Wired,
        responder: &Handle,
        go_on: &dyn Fn() -> bool,
    ) -> Result<Option<Ended>> {
        let mut heard = Vec::new();
        guest.listen(&mut heard)?;
        let typed = self.script.hear(&heard);
        guest.say(&typed)?;
        if let Some(how) = guest.ended() {
            return Ok(Some(Ended::Gone(how)));
        }
        let now_ps;
        (now_ps, self.card) = wired.turn(guest)?;
        self.begin_ps.get_or_insert(now_ps);
        if let Some(act) = self.steps.advance(now_ps, self.card, responder) {
            wired.act(guest, act)?;
        }
        if self.script.is_over() && self.steps.are_over(responder) {
            let since = self.tried.get_or_insert_with(Instant::now);
            if !wired.is_judging() || since.elapsed() > JUDGED {
                return Ok(Some(Ended::Done));
            }
        }
        if !go_on() {
            return Ok(Some(Ended::Interrupted));
        }
        // While lines are to be typed, it may be that of a firmware, and the system's own driver comes later.
        let is_left = self.script.is_over() && wired.lacks_link();
        let down = is_left.then(|| self.down.unwrap_or_else(Instant::now));
        self.down = down;
        if down.is_some_and(|since| since.elapsed() > NO_LINK) {
            return Ok(Some(Ended::NoLink));
        }
        if self.since.elapsed() > self.plan.at_most {
            if self.tried.is_some() {
                return Ok(Some(Ended::Done));
            }
            return Ok(Some(match self.script.awaits() {
                Some(text) => Ended::NoText(text.to_owned()),
                None => Ended::TimeOver(self.steps.awaits(responder).unwrap_or("link")),
            }));
        }
        if heard.is_empty() {
            std::thread::sleep(LOOK);
        }
        Ok(None)
    }

    /// Hears the rest of a console whose QEMU has ended.
    fn hear_the_last_words(&mut self, guest: &mut Foreign) {
        for _ in 0..LAST_READS {
            let mut heard = Vec::new();
            // Nothing can be typed, so that fails; the words are heard nevertheless.
            let _ = guest.listen(&mut heard);
            if heard.is_empty() {
                break;
            }
            self.script.hear(&heard);
        }
    }
}

/// The breaches of the manual, and of the standards for frames, the gravest first.
fn findings(breaches: Vec<Breach>, chip: Chip, responder: &Handle, begin_ps: u64) -> Vec<Finding> {
    // The sections are those of the manual of the 8254x, also for what the 82574 has in common with them.
    let manual = if chip.is_pci_express() { "8254x manual" } else { "manual" };
    let finding = |breach: Breach| Finding {
        rule: breach.rule.name().to_owned(),
        severity: breach.severity(),
        section: format!("{manual} {}", breach.section),
        silicon: breach.rule.silicon().to_owned(),
        advice: breach.rule.advice().to_owned(),
        place: breach.register,
        sentence: breach.sentence,
        count: breach.count,
        first_s: wire::seconds(breach.at_ps, begin_ps),
        first: breach.access,
        qemu_does_not_care: None,
    };
    let mut findings: Vec<_> = breaches.into_iter().map(finding).collect();
    findings.extend(responder.with(|responder| wire::findings(responder.seen(), begin_ps)));
    findings.sort_by(|a, b| a.severity.cmp(&b.severity).then(a.first_s.total_cmp(&b.first_s)));
    findings
}
