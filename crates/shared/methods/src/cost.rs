//! The CPU time that a device takes for a frame, found from outside: from the rate at which it passes on
//! frames when it gets as many as the tester can send.
//!
//! A device on a host of its own loses frames then, because its CPU is busy all the time: the CPU time of a
//! frame is the time over the frames that it passed on. A device on the tester's host works on the sender's
//! CPU, and slows the sender down instead: the CPU time of a frame is the time over the frames sent, less the
//! same over a cable without a device.

use crate::observer::Observer;
use crate::statistics::median;
use crate::trial::{Load, Testbed, TrialError};
use kpps_documents::{Trial, UNEXPLAINED};
use kpps_frames::rate::Rate;

/// Loss ratio above which a device cannot take what it is offered.
pub const OVERLOAD: f64 = 0.05;

/// The last words of places in which frames are lost because a CPU has no time for them: on a host, and in
/// the simulator. Frames that no place explains count, too: of a device on another host no place is known.
const NO_CPU_TIME: [&str; 7] =
    ["backlog", "rx_dropped", "rx_missed_errors", "rx_fifo_errors", "ring", "queue", UNEXPLAINED];
/// The share of the wire's frames from which on the wire is the limit.
const FULL: f64 = 0.9;

/// The CPU time of a frame in a device.
#[derive(Clone, Debug, PartialEq)]
pub struct FrameCost {
    /// The load that the device got, in frames per second: the median of the rounds.
    pub offered_pps: f64,
    /// The CPU time of a frame in the device, in ns: the median of the rounds.
    pub ns: f64,
    /// The shortest and the longest of the rounds, in ns.
    pub range_ns: [f64; 2],
    /// The CPU time of a frame in the tester, in ns, which is not in `ns`; `None` if the device has a CPU of
    /// its own.
    pub tester_ns: Option<f64>,
}

/// The rounds of a measurement of [`FrameCost`].
pub struct Rounds<'a> {
    /// How many there are.
    pub rounds: usize,
    /// The frames, and how long each trial lasts. Its rate is not used.
    pub load: Load,
    /// Whether to go on.
    pub go_on: &'a dyn Fn() -> bool,
    /// Sees each trial.
    pub observer: &'a dyn Observer,
}

/// The place in which the device lost most frames; `None` if it lost none.
fn most_lost(trial: &Trial) -> Option<&str> {
    let most = trial.losses_of_device().into_iter().max_by_key(|(_, frames)| *frames);
    most.map(|(place, _)| place)
}

/// The place in which the device lost most frames, if it is one that says nothing about its CPU: a rate
/// limit, a filter.
pub fn lost_elsewhere(trial: &Trial) -> Option<&str> {
    let is_no_time = |place: &&str| place.rsplit(' ').next().is_some_and(|last| NO_CPU_TIME.contains(&last));
    most_lost(trial).filter(|place| !is_no_time(place))
}

impl Rounds<'_> {
    /// A trial with as many frames as the tester can send.
    fn flood(&self, testbed: &mut dyn Testbed, doing: &str) -> Result<Trial, TrialError> {
        self.observer.begins(doing, None);
        let trial = testbed.trial_while(&Load { rate: Rate::Max, ..self.load.clone() }, self.go_on)?;
        self.observer.ended(&trial);
        Ok(trial)
    }

    /// The CPU time of a frame in `device`. `bare` is a cable without a device, if device and tester share
    /// the CPUs of a host.
    ///
    /// # Errors
    /// An error of a trial; a device that does not fit this measurement: see the messages; and rounds that
    /// differ too much.
    pub fn measure(
        &self,
        device: &mut dyn Testbed,
        bare: Option<&mut (dyn Testbed + 'static)>,
    ) -> Result<FrameCost, TrialError> {
        match bare {
            Some(bare) => self.shared(device, bare),
            None => self.overloaded(device),
        }
    }

    /// The cost in a device whose own CPU is busy all the time.
    fn overloaded(&self, device: &mut dyn Testbed) -> Result<FrameCost, TrialError> {
        let wire_pps = device.known_line_rate_pps(&self.load.sizes)?;
        let mut rounds = Vec::new();
        for _ in 0..self.rounds {
            let trial = self.flood(device, "all that can be sent")?;
            if trial.loss_ratio <= OVERLOAD {
                let full = wire_pps.is_some_and(|wire_pps| trial.sent_pps > FULL * wire_pps);
                return Err(no_cost(format!(
                    "the device loses {:.1} % of {:.1} kpps, {}, and is overloaded only above {:.0} %: {}",
                    trial.loss_ratio * 100.0,
                    trial.sent_pps / 1e3,
                    if full { "which fill the wire" } else { "the most that the tester can send" },
                    OVERLOAD * 100.0,
                    if full { "take smaller frames" } else { "take a faster tester" },
                )));
            }
            if let Some(place) = lost_elsewhere(&trial) {
                return Err(no_cost(format!(
                    "most frames are lost at {place}, which does not show how busy the CPU is: remove that limit"
                )));
            }
            rounds.push((trial.sent_pps, trial.seconds * 1e9 / trial.came_through() as f64));
        }
        cost(&rounds, None)
    }

    /// The cost in a device that works on the sender's CPU.
    fn shared(&self, device: &mut dyn Testbed, bare: &mut dyn Testbed) -> Result<FrameCost, TrialError> {
        let each_ns = |trial: &Trial| trial.seconds * 1e9 / trial.sent as f64;
        let (mut rounds, mut testers_ns) = (Vec::new(), Vec::new());
        for _ in 0..self.rounds {
            let through = self.flood(device, "through the device")?;
            if through.loss_ratio > OVERLOAD {
                let place = most_lost(&through).unwrap_or_default();
                return Err(no_cost(format!(
                    "the device loses {:.1} % of the frames, most at {place}, so it does not work on the sender's CPU \
                    alone: remove rate limits, let the interfaces' softirqs run on the sender's CPU, or measure when \
                    the host is idle",
                    through.loss_ratio * 100.0
                )));
            }
            let tester_ns = each_ns(&self.flood(bare, "over a bare cable")?);
            testers_ns.push(tester_ns);
            rounds.push((through.sent_pps, each_ns(&through) - tester_ns));
        }
        cost(&rounds, median(&testers_ns))
    }
}

/// The cost from the load and the time in ns of each round.
fn cost(rounds: &[(f64, f64)], tester_ns: Option<f64>) -> Result<FrameCost, TrialError> {
    let times_ns: Vec<f64> = rounds.iter().map(|(_, ns)| *ns).collect();
    let least_ns = times_ns.iter().copied().fold(f64::INFINITY, f64::min);
    let most_ns = times_ns.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    if !most_ns.is_finite() {
        return Err(no_cost("no frame comes through".into()));
    }
    let loads: Vec<f64> = rounds.iter().map(|(pps, _)| *pps).collect();
    match (median(&loads), median(&times_ns)) {
        (Some(offered_pps), Some(ns)) if least_ns > 0.0 => {
            Ok(FrameCost { offered_pps, ns, range_ns: [least_ns, most_ns], tester_ns })
        }
        _ => Err(no_cost(format!(
            "the rounds give {least_ns:.0} to {most_ns:.0} ns for a frame: other programs use the CPUs, or the device \
            takes hardly any time; measure longer, or when the host is idle"
        ))),
    }
}

fn no_cost(why: String) -> TrialError {
    TrialError::Testbed(format!("the CPU time of a frame cannot be found: {why}"))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use kpps_documents::Ledger;
    use kpps_frames::{Mix, Size};
    use std::sync::Mutex;

    /// A system to which a frame is sent in `sender_ns`. It passes on at most one frame in `device_ns`.
    struct Flooded {
        sender_ns: Vec<f64>,
        device_ns: f64,
        place: &'static str,
        trials: usize,
    }

    impl Flooded {
        fn new(sender_ns: &[f64], device_ns: f64, place: &'static str) -> Self {
            Self { sender_ns: sender_ns.into(), device_ns, place, trials: 0 }
        }
    }

    impl Testbed for Flooded {
        fn line_rate_pps(&self, _: &Mix) -> Result<f64, TrialError> {
            Ok(1e6)
        }
        fn trial_while(&mut self, load: &Load, _: &dyn Fn() -> bool) -> Result<Trial, TrialError> {
            assert_eq!(load.rate, Rate::Max);
            let sender_ns = self.sender_ns[self.trials % self.sender_ns.len()];
            self.trials += 1;
            let ns = load.seconds() * 1e9;
            let sent = (ns / sender_ns) as u64;
            let delivered = sent.min((ns / self.device_ns) as u64);
            let dropped = [(self.place.to_owned(), sent - delivered)].into();
            let ledger = Ledger { sent, delivered, dropped, ..Ledger::default() };
            Trial::new(sent as f64 / load.seconds(), load.seconds(), [sent, 0, delivered], ledger)
                .ok_or_else(|| TrialError::nothing_due(load))
        }
    }

    /// The trials, by what they were.
    #[derive(Default)]
    struct Seen(Mutex<Vec<String>>);

    impl Observer for Seen {
        fn begins(&self, what: &str, _: Option<f64>) {
            self.0.lock().unwrap().push(what.into());
        }
    }

    fn measured(
        mut device: Flooded,
        bare: Option<Flooded>,
        seen: &dyn Observer,
    ) -> Result<FrameCost, TrialError> {
        let load = Load::of(0.0, Size::MIN);
        let rounds = Rounds { rounds: 3, load, go_on: &|| true, observer: seen };
        match bare {
            Some(mut bare) => rounds.measure(&mut device, Some(&mut bare)),
            None => rounds.measure(&mut device, None),
        }
    }

    fn close(a: f64, b: f64) -> bool {
        (a / b - 1.0).abs() < 1e-3
    }

    #[test]
    fn an_overloaded_device_takes_the_time_of_what_it_passes_on() {
        let seen = Seen::default();
        let cost = measured(Flooded::new(&[1000.0], 2500.0, "d1 backlog"), None, &seen).unwrap();
        assert!(close(cost.ns, 2500.0) && close(cost.offered_pps, 1e6), "{cost:?}");
        assert_eq!((cost.tester_ns, seen.0.lock().unwrap().len()), (None, 3));
    }

    #[test]
    fn a_device_on_the_senders_cpu_takes_what_a_bare_cable_does_not() {
        let seen = Seen::default();
        let device = Flooded::new(&[3500.0, 3900.0, 3600.0], 1.0, "");
        let bare = Flooded::new(&[2000.0, 2100.0, 2050.0], 1.0, "");
        let cost = measured(device, Some(bare), &seen).unwrap();
        assert!(close(cost.ns, 1550.0) && close(cost.range_ns[0], 1500.0), "{cost:?}");
        assert!(close(cost.range_ns[1], 1800.0) && close(cost.tester_ns.unwrap(), 2050.0), "{cost:?}");
        let seen = seen.0.into_inner().unwrap();
        let over_cable = seen.iter().filter(|doing| *doing == "over a bare cable").count();
        assert_eq!(
            (seen.len(), over_cable),
            (6, 3),
            "a round is one trial through the device, and one over the cable"
        );
    }

    #[test]
    fn what_says_nothing_about_the_cpu_is_no_cost() {
        let refused = |device, bare| measured(device, bare, &()).unwrap_err().to_string();
        let bare = || Some(Flooded::new(&[1950.0], 1.0, ""));
        for place in ["d1 tbf", "pb pfifo", "r/r0 netfilter drop (nft_do_chain)"] {
            let limited = refused(Flooded::new(&[1000.0], 5000.0, place), None);
            assert!(limited.contains(&format!("most frames are lost at {place},")), "{limited}");
            let limited = refused(Flooded::new(&[1000.0], 5000.0, place), bare());
            assert!(limited.contains(&format!("80.0 % of the frames, most at {place}")), "{limited}");
        }
        let fast = refused(Flooded::new(&[1020.0], 1040.0, "ring"), None);
        assert!(fast.contains("loses 1.9 % of 980.4 kpps, which fill the wire"), "{fast}");
        let slow = refused(Flooded::new(&[2000.0], 1.0, ""), None);
        assert!(slow.contains("loses 0.0 % of 500.0 kpps, the most that the tester can send"), "{slow}");
        let fast_at_last = refused(Flooded::new(&[1000.0, 2000.0], 1500.0, "d1 backlog"), None);
        assert!(fast_at_last.contains("loses 0.0 % of 500.0 kpps"), "{fast_at_last}");
        let noisy = refused(Flooded::new(&[2000.0, 1900.0], 1.0, ""), bare());
        assert!(noisy.contains("the rounds give -50 to 50 ns for a frame"), "{noisy}");
        let none = refused(Flooded::new(&[1000.0], 1e12, "d1 backlog"), None);
        assert!(none.contains("no frame comes through"), "{none}");
    }

    #[test]
    fn frames_that_the_tester_missed_were_not_lost_in_the_device() {
        let lost = |places: &[(&str, u64)]| {
            let dropped = places.iter().map(|(place, frames)| ((*place).to_owned(), *frames)).collect();
            let ledger = Ledger { sent: 100, delivered: 10, dropped, ..Ledger::default() };
            let trial = Trial::new(100.0, 1.0, [100, 0, 10], ledger).unwrap().with_overflow(Some(60));
            lost_elsewhere(&trial).map(str::to_owned)
        };
        assert_eq!(lost(&[("packet:b missed", 60), ("d1 backlog", 30)]), None);
        assert_eq!(lost(&[("packet:b missed", 60), ("d1 fq_codel", 30)]), Some("d1 fq_codel".into()));
        assert_eq!(lost(&[("d1 backlog", 10)]), None, "most frames are unexplained");
    }
}
