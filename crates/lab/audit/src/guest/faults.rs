//! The faults of card, cable and network that a guest is given, chosen by name or drawn from a seed.

use crate::cards::Cards;
use crate::responder::{Disturbance, EchoPlan, Responder, SECOND_PS};
use kpps_card::Params;
use kpps_documents::guest_audit::Fault;
use kpps_methods::random::Random;
use std::str::FromStr;

/// Faults that a seed draws.
const DRAWN: usize = 5;
/// How long a fault lasts that has no length of its own.
const LASTS_PS: u64 = 2 * SECOND_PS;
/// How long a cable is unplugged.
const UNPLUGGED_PS: u64 = 3 * SECOND_PS;
/// Frames of an overrun: more than any ring and FIFO hold.
const OVERRUN: u32 = 4000;
/// How long a slow card does not respond after CTRL.RST. SDM 13.4.1 demands about 1 µs. A guest here may need
/// a millisecond for one access, and public drivers wait for 5 ms or more.
const RESET_PS: u64 = 4 * SECOND_PS / 1000;
/// How much longer than silicon slow accesses to EEPROM and PHY take. Public drivers wait for at least 10 ms.
const SLOWER: u64 = 20;
/// How late write-backs come.
const LATE_PS: u64 = SECOND_PS / 200;
/// How long no sent frame is reported. A ring of eight bears it at the rate of the probe, and Linux takes a
/// transmitter for hung after a second.
const HELD_PS: u64 = 9 * SECOND_PS / 10;
/// A driver that waits for a report is silent for longer.
const HELD_DEAF_PS: u64 = 6 * SECOND_PS / 10;
/// The time between two interrupts without a cause.
const SPURIOUS_EVERY_PS: u64 = SECOND_PS / 200;
/// How late an interrupt is: as on a CPU that does something else first, and far below what a guest may need.
const LATE_INTERRUPT_PS: u64 = SECOND_PS / 20;
/// How long the card has another link partner: longer than any guest may be silent then, which has to notice
/// a link that is down for 1.5 s.
const PARTNER_PS: u64 = 8 * SECOND_PS;
const PARTNER_DEAF_PS: u64 = 5 * SECOND_PS;
/// Pings after a master abort: more than a transmit ring has descriptors, so they fill one of which a
/// descriptor is never reported. And for how long at most.
const PINGS: u32 = 1000;
const PINGS_OUTSTANDING: usize = 7;
const PINGED_PS: u64 = 6 * SECOND_PS;
/// Under a fault that a right driver does not notice, the guest may be silent for this time: the emulation
/// stalls now and then.
const MOST_DEAF_PS: u64 = SECOND_PS;

kpps_methods::names! {
    /// A fault.
    pub enum FaultKind("fault", "or give a number as a seed") {
        /// More frames than the guest's ring holds.
        Overrun = "overrun",
        /// The cable is unplugged for three seconds.
        LinkFlap = "link-flap",
        /// Frames with a bad FCS.
        BadFcs = "bad-fcs",
        /// The card does not respond for 4 ms after CTRL.RST, from the guest's start until this fault ends.
        SlowReset = "slow-reset",
        /// EEPROM and PHY are slow, from the guest's start on.
        SlowAccess = "slow-access",
        /// Descriptors are written back 5 ms late.
        LateWriteBack = "late-write-back",
        /// Sent frames are reported late: none for 0.9 s.
        LateReports = "late-reports",
        /// Interrupts without a cause.
        SpuriousInterrupts = "spurious-interrupts",
        /// Interrupts come late.
        LateInterrupts = "late-interrupts",
        /// PAUSE frames.
        PauseFlood = "pause-flood",
        /// Frames that are too short or too long, have a VLAN tag or IP options.
        OddFrames = "odd-frames",
        /// The link partner comes back with 100 Mb/s for some seconds.
        Partner100 = "partner-100",
        /// It comes back with 10 Mb/s.
        Partner10 = "partner-10",
        /// It comes back with 100 Mb/s in half duplex.
        PartnerHalf = "partner-half",
        /// A report of a sent frame ends with a master abort.
        MasterAbort = "master-abort",
    }
}

/// An action of a fault on the guest's card or cable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Act {
    /// The cable is unplugged.
    Unplug,
    /// It is plugged in.
    Plug,
    /// Write-backs are late by this time in ps.
    WriteBacksLateBy(u64),
    /// No sent frame is reported for this time in ps.
    HoldReports(u64),
    /// The card responds as soon as silicon after CTRL.RST.
    EndSlowReset,
    /// Interrupts without a cause, one each period in ps; `None` ends them.
    Spurious(Option<u64>),
    /// Interrupts are late by this time in ps.
    InterruptsLateBy(u64),
    /// Another link partner: its highest speed in Mb/s, and whether it has full duplex.
    Partner(u16, bool),
    /// The next report of sent frames ends with a master abort.
    AbortReport,
}

impl Act {
    /// Acts on the first card.
    pub(crate) fn on(self, cards: &mut Cards, now_ps: u64) {
        match self {
            Self::Unplug => cards.set_link(0, now_ps, false),
            Self::Plug => cards.set_link(0, now_ps, true),
            Self::WriteBacksLateBy(ps) => cards.set_write_back_delay(0, now_ps, ps),
            Self::HoldReports(ps) => cards.hold_transmit_reports(0, now_ps, ps),
            Self::EndSlowReset => cards.set_slow_reset(0, 0),
            Self::Spurious(every_ps) => cards.set_spurious_interrupts(0, now_ps, every_ps),
            Self::InterruptsLateBy(ps) => cards.set_interrupt_delay(0, now_ps, ps),
            Self::Partner(mbps, full_duplex) => cards.set_partner(0, now_ps, mbps, full_duplex),
            Self::AbortReport => cards.abort_report(0, now_ps),
        }
    }
}

impl FaultKind {
    /// Whether QEMU's card can have it, which kpps reaches by frames and cable only. A frame in QEMU has no
    /// FCS, and QEMU's card knows no PAUSE.
    pub(crate) const fn is_of_cable(self) -> bool {
        matches!(self, Self::Overrun | Self::LinkFlap | Self::OddFrames)
    }

    /// Whether only a copper card can have it.
    pub(crate) const fn is_of_copper(self) -> bool {
        matches!(self, Self::Partner100 | Self::Partner10 | Self::PartnerHalf)
    }

    /// Whether the card has it from the guest's start on.
    const fn is_lasting(self) -> bool {
        matches!(self, Self::SlowReset | Self::SlowAccess)
    }

    /// The longest silence with which a guest still bears this fault, in ps. Frames are lost, or cannot be
    /// sent, under some faults.
    pub(crate) const fn most_deaf_ps(self) -> u64 {
        match self {
            Self::Overrun | Self::LinkFlap | Self::PauseFlood | Self::MasterAbort => u64::MAX,
            _ if self.is_of_copper() => PARTNER_DEAF_PS,
            Self::LateReports => HELD_DEAF_PS,
            _ => MOST_DEAF_PS,
        }
    }

    /// Gives a card the parameters of this fault, before the guest starts.
    pub(crate) const fn apply(self, params: &mut Params) {
        if matches!(self, Self::SlowAccess) {
            params.eeprom_ps = params.eeprom_ps.saturating_mul(SLOWER);
            params.mdi_ps = params.mdi_ps.saturating_mul(SLOWER);
        }
    }

    /// Gives the first card this fault, before the guest starts.
    pub(crate) fn prepare(self, cards: &mut Cards) {
        if self == Self::SlowReset {
            cards.set_slow_reset(0, RESET_PS);
        }
    }

    /// Begins.
    pub(crate) fn begin(self, now_ps: u64, responder: &mut Responder) -> Option<Act> {
        match self {
            Self::Overrun => responder.start_overrun(now_ps, OVERRUN),
            Self::BadFcs => responder.start_disturbance(now_ps, Disturbance::BadFcs, LASTS_PS),
            Self::PauseFlood => responder.start_disturbance(now_ps, Disturbance::Pause, LASTS_PS),
            Self::OddFrames => responder.start_disturbance(now_ps, Disturbance::OddFrames, LASTS_PS),
            Self::LinkFlap => return Some(Act::Unplug),
            Self::LateWriteBack => return Some(Act::WriteBacksLateBy(LATE_PS)),
            Self::LateReports => return Some(Act::HoldReports(HELD_PS)),
            Self::SpuriousInterrupts => return Some(Act::Spurious(Some(SPURIOUS_EVERY_PS))),
            Self::LateInterrupts => return Some(Act::InterruptsLateBy(LATE_INTERRUPT_PS)),
            Self::Partner100 => return Some(Act::Partner(100, true)),
            Self::Partner10 => return Some(Act::Partner(10, true)),
            Self::PartnerHalf => return Some(Act::Partner(100, false)),
            Self::MasterAbort => {
                responder.start_flood(now_ps, EchoPlan::flood(PINGS, PINGS_OUTSTANDING, &[56]));
                return Some(Act::AbortReport);
            }
            Self::SlowReset | Self::SlowAccess => {}
        }
        None
    }

    /// Whether the fault that began at `begin_ps` is over, and what ends it.
    pub(crate) fn end(self, begin_ps: u64, now_ps: u64, responder: &Responder) -> Option<(u64, Option<Act>)> {
        let lasted_ps = now_ps.saturating_sub(begin_ps);
        let after = |lasts_ps: u64, act| (lasted_ps >= lasts_ps).then_some((now_ps, act));
        match self {
            Self::Overrun => responder.overrun().and_then(|burst| Some((burst.ended_ps?, None))),
            Self::BadFcs | Self::PauseFlood | Self::OddFrames => {
                responder.disturbance().and_then(|it| Some((it.ended_ps?, None)))
            }
            Self::LinkFlap => after(UNPLUGGED_PS, Some(Act::Plug)),
            Self::LateWriteBack => after(LASTS_PS, Some(Act::WriteBacksLateBy(0))),
            Self::LateReports => after(HELD_PS, None),
            Self::SpuriousInterrupts => after(LASTS_PS, Some(Act::Spurious(None))),
            Self::LateInterrupts => after(LASTS_PS, Some(Act::InterruptsLateBy(0))),
            Self::Partner100 | Self::Partner10 | Self::PartnerHalf => {
                after(PARTNER_PS, Some(Act::Partner(1000, true)))
            }
            Self::MasterAbort => {
                let has_ended = responder.flood().is_some_and(|flood| flood.ended_ps.is_some());
                after(if has_ended { 0 } else { PINGED_PS }, None)
            }
            // A later fault may lead to a reset, which is not to fail by two faults at a time.
            Self::SlowReset => after(0, Some(Act::EndSlowReset)),
            Self::SlowAccess => after(0, None),
        }
    }
}

/// The faults of a run, in their order; none twice.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Faults {
    /// The seed from which they were drawn; `None` if they were chosen.
    pub seed: Option<u64>,
    /// The faults.
    pub kinds: Vec<FaultKind>,
}

impl Faults {
    /// Draws five faults and their order. The same seed gives the same faults.
    pub fn drawn(seed: u64) -> Self {
        let mut left = FaultKind::ALL.to_vec();
        let mut random = Random::new(seed);
        let kinds = (0..DRAWN).map(|_| left.swap_remove((random.word() % left.len() as u64) as usize));
        let kinds = kinds.collect();
        Self { seed: Some(seed), kinds }
    }

    /// These faults in their order; one that comes again is left out.
    pub fn chosen(given: impl IntoIterator<Item = FaultKind>) -> Self {
        let mut kinds = Vec::new();
        for kind in given {
            if !kinds.contains(&kind) {
                kinds.push(kind);
            }
        }
        Self { seed: None, kinds }
    }

    /// Until when, in s since its start, the guest on our model had only faults that QEMU's card has, too.
    /// `faults`: those that it was given.
    pub(crate) fn alike_until_s(&self, faults: &[Fault]) -> f64 {
        if self.kinds.iter().any(|kind| kind.is_lasting()) {
            return 0.0;
        }
        let differs = |fault: &&Fault| fault.name.parse().is_ok_and(|kind: FaultKind| !kind.is_of_cable());
        faults.iter().filter(differs).map(|fault| fault.at_s).fold(f64::INFINITY, f64::min)
    }

    /// The faults in words: `7: overrun, bad-fcs` with the seed 7.
    pub(crate) fn words(&self) -> String {
        let names = self.kinds.iter().map(|kind| kind.name()).collect::<Vec<_>>().join(", ");
        self.seed.map(|seed| format!("seed {seed}: {names}")).unwrap_or(names)
    }
}

impl FromStr for Faults {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Ok(seed) = text.parse() {
            return Ok(Self::drawn(seed));
        }
        let kinds = text.split(',').map(|kind| kind.trim().parse());
        Ok(Self::chosen(kinds.collect::<Result<Vec<_>, _>>()?))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn the_same_seed_gives_the_same_faults() {
        let faults = |text: &str| text.parse::<Faults>().unwrap();
        assert_eq!(faults("7"), Faults::drawn(7));
        assert_eq!(faults("7").words(), faults("7").words());
        let mut all = BTreeSet::new();
        for seed in 0..100 {
            let kinds = Faults::drawn(seed).kinds;
            assert_eq!(kinds.iter().collect::<BTreeSet<_>>().len(), DRAWN, "{seed}");
            all.extend(kinds);
        }
        assert_eq!(all.len(), FaultKind::ALL.len(), "each fault is drawn");
        let sequences: BTreeSet<_> = (0..100).map(|seed| Faults::drawn(seed).kinds).collect();
        assert!(sequences.len() > 90);
    }

    #[test]
    fn some_faults_make_the_two_cards_differ() {
        let fault = |name: &str, at_s| Fault { name: name.into(), at_s, ..Fault::default() };
        let given = [fault("overrun", 1.0), fault("bad-fcs", 2.0), fault("late-reports", 3.0)];
        let until = |text: &str, given: &[Fault]| text.parse::<Faults>().unwrap().alike_until_s(given);
        assert_eq!(until("overrun,bad-fcs,late-reports", &given), 2.0);
        assert_eq!(until("overrun", &given[..1]), f64::INFINITY);
        assert_eq!(until("overrun,slow-reset", &given[..1]), 0.0);
    }

    #[test]
    fn faults_have_names() {
        for kind in FaultKind::ALL {
            assert_eq!(kind.name().parse(), Ok(kind));
        }
        let chosen: Faults = "link-flap, bad-fcs,link-flap".parse().unwrap();
        assert_eq!((chosen.kinds.len(), chosen.words()), (2, "link-flap, bad-fcs".to_owned()));
        for bad in ["", "fire", "bad-fcs,", "-1"] {
            assert!(bad.parse::<Faults>().unwrap_err().contains("bad-fcs"), "{bad}");
        }
    }
}
