//! Bounds that a result must keep: how a run in CI fails.

use crate::Error;
use kpps_documents::detail::{DetailedTrial, Direction};
use kpps_documents::ndr::Ndr;
use kpps_documents::{Curve, Doubt, KEEPS_UP_LOSS, Limit, Trial};
use std::time::Duration;

/// The bounds of a result. A bound on a value that was not observed is broken.
#[derive(Clone, Copy, Debug, Default)]
pub struct Bounds {
    /// The largest loss of the device under test, 0 to 1.
    pub max_loss: Option<f64>,
    /// The least rate that is delivered, in frames per second of all directions together.
    pub min_rate_pps: Option<f64>,
    /// The longest time that 99 % of the frames may take.
    pub max_p99: Option<Duration>,
    /// The largest share of the frames that no place accounts for, 0 to 1.
    pub max_unexplained: Option<f64>,
}

impl Bounds {
    /// Checks a trial. A direction between two ports through which no frame came is an error without any
    /// bound; in the simulator a livelock is a result.
    ///
    /// # Errors
    /// [`Error::Broken`]: the broken bounds, and by how much, in one line. [`Error::Invalid`] for a trial
    /// that keeps all bounds and is no valid measurement.
    pub fn trial(&self, trial: &DetailedTrial) -> Result<(), Error> {
        let dead = trial.directions.iter().filter_map(|direction| {
            let Direction { from, to, sent, received, corrupted, .. } = direction;
            match received.saturating_sub(corrupted.unwrap_or(0)) {
                0 if *sent == 0 => None,
                0 if *received > 0 => Some(format!(
                    "total loss from {from} to {to}: {sent} frames were sent, and the {received} that arrived are damaged"
                )),
                0 => Some(format!("total loss from {from} to {to}: {sent} frames were sent and none arrived")),
                _ => None,
            }
        });
        let mut broken: Vec<_> = dead.collect();
        let p99 = match &trial.directions[..] {
            [] => trial.result.latency_ns.p99,
            // The slowest direction; not observed if one of them was not.
            directions => directions
                .iter()
                .map(|direction| direction.latency_ns.p99)
                .collect::<Option<Vec<_>>>()
                .and_then(slowest),
        };
        let loss = self.loss("", Some(trial.result.sustained_loss_ratio()));
        broken.extend(loss.map(|loss| as_known(loss, &trial.result)));
        let rate = self.rate("delivered", Some(trial.result.delivered_pps));
        broken.extend(rate.map(|rate| with_limit(rate, trial.result.limit())));
        broken.extend(self.p99("", p99));
        broken.extend(self.unexplained("", &[&trial.result]));
        all_kept(&broken)?;
        let invalid = trial.doubts.iter().filter(|doubt| doubt.is_invalid()).map(Doubt::words);
        let invalid: Vec<_> = invalid.collect();
        if invalid.is_empty() { Ok(()) } else { Err(Error::Invalid(invalid.join("; "))) }
    }

    /// Checks a search: the NDR is the rate; loss and p99 are those of the trials at the NDR. No frame of all
    /// trials arriving is an error without any bound.
    ///
    /// # Errors
    /// As those of [`trial`](Self::trial).
    pub fn search(&self, ndr: &Ndr) -> Result<(), Error> {
        let mut broken: Vec<_> = total_loss("", &ndr.trials).into_iter().collect();
        let goal = ndr.goals.first();
        let lower_pps = goal.and_then(|goal| goal.lower_pps);
        let load_pps = goal.and_then(|goal| goal.lower_load_pps).or(lower_pps);
        let is_at = |trial: &&Trial| load_pps.is_some_and(|pps| (ndr.load_pps(trial) - pps).abs() < 0.2);
        let at: Vec<_> = ndr.trials.iter().filter(is_at).collect();
        let sum = |count: fn(&Trial) -> u64| at.iter().map(|trial| count(trial)).sum::<u64>();
        let sent = sum(|trial| trial.sent);
        let arrived = sum(Trial::came_through);
        let loss = (sent > 0).then(|| sent.saturating_sub(arrived) as f64 / sent as f64);
        let p99 = at.iter().map(|trial| trial.latency_ns.p99).collect::<Option<Vec<_>>>().and_then(slowest);
        broken.extend(self.loss(" at the NDR", loss));
        let directions = if ndr.bidirectional { 2.0 } else { 1.0 };
        let rate = self.rate("the NDR", lower_pps.map(|pps| pps * directions));
        broken.extend(rate.map(|rate| with_limit(rate, ndr.limited_by())));
        broken.extend(self.p99(" at the NDR", p99));
        broken.extend(self.unexplained(" at the NDR", &at));
        all_kept(&broken)
    }

    /// Checks curves: loss and p99 at each load, and the best rate of each series. A series without a
    /// delivered frame at any load is an error without any bound, but in the simulator.
    ///
    /// # Errors
    /// As those of [`trial`](Self::trial).
    pub fn curve(&self, curve: &Curve) -> Result<(), Error> {
        let mut broken = Vec::new();
        for series in &curve.series {
            let of = if curve.series.len() > 1 { format!(" of {}", series.name) } else { String::new() };
            if curve.environment.testbed != "sim" {
                broken.extend(total_loss(&of, &series.points));
            }
            let best = series.points.iter().map(Trial::sustained_pps).max_by(f64::total_cmp);
            let rate = self.rate(&format!("the best rate{of}"), best);
            broken.extend(rate.map(|rate| with_limit(rate, testers_limit(&series.points))));
            for point in &series.points {
                let at = format!(" at {:.1} kpps{of}", point.offered_pps / 1e3);
                let loss = self.loss(&at, Some(point.sustained_loss_ratio()));
                broken.extend(loss.map(|loss| as_known(loss, point)));
                broken.extend(self.p99(&at, point.latency_ns.p99));
                broken.extend(self.unexplained(&at, &[point]));
            }
        }
        all_kept(&broken)
    }

    fn loss(&self, at: &str, loss: Option<f64>) -> Option<String> {
        let most = self.max_loss?;
        let percent = |share: f64| format!("{} %", kpps_documents::rounded(share * 100.0));
        match loss {
            None => Some(format!("loss bound {}: the loss{at} was not observed", percent(most))),
            Some(loss) if loss > most => Some(format!(
                "loss bound {}: the loss{at} is {}, above the bound by {} of the frames",
                percent(most),
                percent(loss),
                percent(loss - most)
            )),
            Some(_) => None,
        }
    }

    /// Of frames that were sent in these trials.
    fn unexplained(&self, at: &str, trials: &[&Trial]) -> Option<String> {
        let most = self.max_unexplained?;
        let frames: u64 = trials.iter().map(|trial| trial.ledger.unexplained.unsigned_abs()).sum();
        let sent: u64 = trials.iter().map(|trial| trial.ledger.sent).sum();
        (frames as f64 > most * sent as f64).then(|| {
            let bound = kpps_documents::rounded(most * 100.0);
            format!(
                "bound of unexplained frames {bound} %: no place accounts for {frames} of {sent} frames{at}"
            )
        })
    }

    fn rate(&self, what: &str, pps: Option<f64>) -> Option<String> {
        let least = self.min_rate_pps?;
        // As many digits as it takes to tell them apart.
        let digits = (1..=6).find(|digits| {
            let shown = |pps: f64| format!("{:.digits$}", pps / 1e3);
            pps.is_none_or(|pps| shown(pps) != shown(least))
        });
        let kpps = |pps: f64| format!("{:.*} kpps", digits.unwrap_or(6), pps / 1e3);
        match pps {
            None => Some(format!("rate bound {}: {what} was not observed", kpps(least))),
            Some(pps) if pps < least => Some(format!(
                "rate bound {}: {what} is {}, {} ({:.1} %) below",
                kpps(least),
                kpps(pps),
                kpps(least - pps),
                (least - pps) / least * 100.0
            )),
            Some(_) => None,
        }
    }

    fn p99(&self, at: &str, p99_ns: Option<u64>) -> Option<String> {
        let most_ns = self.max_p99?.as_nanos() as f64;
        let us = |ns: f64| format!("{:.1} µs", ns / 1e3);
        match p99_ns.map(|ns| ns as f64) {
            None => Some(format!("p99 bound {}: the latency{at} was not observed", us(most_ns))),
            Some(ns) if ns > most_ns => {
                let (bound, over) = (us(most_ns), us(ns - most_ns));
                Some(format!("p99 bound {bound}: p99{at} is {}, {over} above", us(ns)))
            }
            Some(_) => None,
        }
    }
}

/// A broken bound on loss, with a note if the tester's own overflow is unknown, or if it is not yet a loss.
fn as_known(loss: String, trial: &Trial) -> String {
    match (trial.overflow_unknown, trial.queue_growth.filter(|frames| *frames > 0)) {
        (true, _) => {
            format!(
                "{loss}; the lost frames may be the tester's own receive overflow, which its port did not count"
            )
        }
        (false, Some(frames)) => {
            format!(
                "{loss}; it includes {frames} frames that still waited in growing queues, because a longer trial loses them"
            )
        }
        (false, None) => loss,
    }
}

/// The tester's limit, if the device under test keeps up at the highest load at which it was measured.
fn testers_limit(points: &[Trial]) -> Option<Limit> {
    let of_the_device = points.iter().filter(|point| point.is_of_the_device());
    let highest = of_the_device.max_by(|a, b| a.offered_pps.total_cmp(&b.offered_pps));
    let keeps_up = highest.is_none_or(|point| point.exact_loss_ratio() <= KEEPS_UP_LOSS);
    points.iter().find_map(Trial::limit).filter(|_| keeps_up)
}

/// A broken bound on the rate, with the tester's limit, if that may be the reason.
fn with_limit(rate: String, limit: Option<Limit>) -> String {
    match limit {
        Some(limit) => {
            format!("{rate}; the reason may be {}, and the device under test may do better", limit.words())
        }
        None => rate,
    }
}

fn slowest(p99_ns: Vec<u64>) -> Option<u64> {
    p99_ns.into_iter().max()
}

/// Total loss: frames were sent in these trials, and none arrived.
fn total_loss(of: &str, trials: &[Trial]) -> Option<String> {
    let sent: u64 = trials.iter().map(|trial| trial.sent).sum();
    let arrived: u64 = trials.iter().map(Trial::came_through).sum();
    (sent > 0 && arrived == 0).then(|| format!("total loss{of}: {sent} frames were sent and none arrived"))
}

fn all_kept(broken: &[String]) -> Result<(), Error> {
    if broken.is_empty() { Ok(()) } else { Err(Error::Broken(broken.join("; "))) }
}

/// A largest loss: 0 to below 1, or per cent.
///
/// # Errors
/// The message shows the form of a loss.
pub fn loss(text: &str) -> Result<f64, String> {
    match text {
        "0" | "0%" => Ok(0.0),
        other => {
            crate::units::share(other).map_err(|_| format!("'{text}' is not a loss: give 0, 0.1% or 0.001"))
        }
    }
}

/// A rate in frames per second, not relative to a line.
///
/// # Errors
/// The message shows the form of a rate.
pub fn rate_pps(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(crate::units::RateSpec::Pps(pps)) if pps.is_finite() => Ok(pps),
        _ => Err(format!("'{text}' is not a rate in frames per second: give 700kpps, 1.2Mpps or 50000")),
    }
}

/// A latency: 1 ns to 1 h, as 100us.
///
/// # Errors
/// The message shows the form of a latency.
pub fn latency(text: &str) -> Result<Duration, String> {
    let help = || format!("'{text}' is not a latency: give it as 100us, 2.5ms or 1s");
    let (value, unit) = crate::units::number(text).ok_or_else(help)?;
    let ns = match unit {
        "ns" => value,
        "us" | "µs" => value * 1e3,
        "ms" => value * 1e6,
        "s" => value * 1e9,
        _ => return Err(help()),
    };
    if (1.0..=3.6e12).contains(&ns) { Ok(Duration::from_nanos(ns as u64)) } else { Err(help()) }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use kpps_documents::detail::Direction;
    use kpps_documents::ndr::SearchGoal;
    use kpps_documents::{Environment, Latency, Ledger, Limit, Series};

    fn trial(offered_pps: f64, delivered: u64, p99: Option<u64>) -> Trial {
        let trial = Trial::new(offered_pps, 1.0, [1000, 0, delivered], Ledger::default()).unwrap();
        Trial { latency_ns: Latency { p99, ..Latency::default() }, ..trial }
    }

    fn detailed(result: Trial) -> DetailedTrial {
        DetailedTrial { received: result.delivered, result, ..DetailedTrial::default() }
    }

    fn said(result: Result<(), Error>) -> String {
        result.map_or_else(|error| error.to_string(), |()| String::new())
    }

    const ALL: Bounds = Bounds {
        max_loss: Some(0.01),
        min_rate_pps: Some(900.0),
        max_p99: Some(Duration::from_micros(100)),
        max_unexplained: None,
    };

    /// A user who watches the whole path may ask for a ledger that closes.
    #[test]
    fn what_no_place_accounts_for_has_a_bound() {
        let dropped = [("somewhere".to_owned(), 7)].into();
        let ledger = Ledger { sent: 1000, delivered: 990, dropped, ..Ledger::default() };
        let trial = detailed(Trial::new(1e3, 1.0, [1000, 0, 990], ledger).unwrap());
        let bound = |share| Bounds { max_unexplained: Some(share), ..Bounds::default() };
        assert_eq!(
            said(bound(0.0).trial(&trial)),
            "bound of unexplained frames 0 %: no place accounts for 3 of 1000 frames"
        );
        assert!(bound(0.003).trial(&trial).is_ok() && Bounds::default().trial(&trial).is_ok());
    }

    #[test]
    fn a_trial_within_its_bounds_is_right_and_the_bound_itself_is_within() {
        assert!(ALL.trial(&detailed(trial(1e3, 990, Some(100_000)))).is_ok());
        assert!(Bounds::default().trial(&detailed(trial(1e3, 1, None))).is_ok(), "nothing is asked");
    }

    #[test]
    fn a_broken_bound_is_named_with_its_distance() {
        let broken = said(ALL.trial(&detailed(trial(1e3, 800, Some(150_000)))));
        assert!(
            broken.contains("loss bound 1 %: the loss is 20 %, above the bound by 19 % of the frames"),
            "{broken}"
        );
        assert!(
            broken.contains("rate bound 0.9 kpps: delivered is 0.8 kpps, 0.1 kpps (11.1 %) below"),
            "{broken}"
        );
        assert!(broken.contains("p99 bound 100.0 µs: p99 is 150.0 µs, 50.0 µs above"), "{broken}");
        assert_eq!(broken.lines().count(), 1);
        let unseen = said(ALL.trial(&detailed(trial(1e3, 1000, None))));
        assert_eq!(unseen, "p99 bound 100.0 µs: the latency was not observed");
        let none = Bounds { max_loss: Some(0.0), ..Bounds::default() };
        assert!(
            said(none.trial(&detailed(trial(1e3, 999, None)))).contains("loss bound 0 %: the loss is 0.1 %")
        );
    }

    /// The tester is named as the reason only where the device under test keeps up as far as it was measured.
    #[test]
    fn a_rate_that_the_tester_did_not_reach_says_so() {
        let bound = Bounds { min_rate_pps: Some(700.0), ..Bounds::default() };
        let curve = |points: &[(u64, u64)]| {
            let point = |&(sent, delivered): &(u64, u64)| {
                let ledger = kpps_documents::Ledger::default();
                Trial::new(sent as f64, 1.0, [sent, 0, delivered], ledger).unwrap()
            };
            let mut points: Vec<_> = points.iter().map(point).collect();
            points.push(Trial { offered_pps: 1488.0, shortfall: 900, ..points[0].clone() });
            let series = vec![kpps_documents::Series { name: "a".into(), points }];
            Curve::new(kpps_documents::Environment::default(), series, true)
        };
        assert!(bound.curve(&curve(&[(699, 699), (701, 700)])).is_ok(), "the best, not one near it");
        let limited = said(bound.curve(&curve(&[(300, 300), (500, 500)])));
        assert!(limited.contains("the best rate is 0.5 kpps") && limited.contains("generator"), "{limited}");
        let full = said(bound.curve(&curve(&[(300, 300), (500, 300)])));
        assert!(full.contains("the best rate is 0.3 kpps") && !full.contains("generator"), "{full}");
    }

    /// The overflow of the tester is no loss of the device under test.
    #[test]
    fn the_loss_is_that_of_the_device() {
        let none = Bounds { max_loss: Some(0.0), ..Bounds::default() };
        assert!(none.trial(&detailed(trial(1e3, 900, None).with_overflow(Some(100)))).is_ok());
        let unknown = said(none.trial(&detailed(trial(1e3, 900, None).with_overflow(None))));
        assert!(
            unknown.contains("the loss is 10 %") && unknown.contains("may be the tester's own"),
            "{unknown}"
        );
    }

    #[test]
    fn total_loss_in_any_direction_is_an_error() {
        let livelock = Bounds::default().trial(&detailed(trial(1e3, 0, None)));
        assert!(livelock.is_ok(), "without ports it is a result");
        let direction = |from: &str, to: &str, received| Direction {
            from: from.into(),
            to: to.into(),
            sent: 500,
            received,
            latency_ns: Latency { p99: (received > 0).then_some(10), ..Latency::default() },
            ..Direction::default()
        };
        let both = DetailedTrial {
            directions: vec![direction("a", "b", 500), direction("b", "a", 0)],
            ..detailed(trial(1e3, 500, Some(10)))
        };
        let said = said(Bounds { max_p99: ALL.max_p99, ..Bounds::default() }.trial(&both));
        assert!(
            said.starts_with("total loss from b to a: 500 frames were sent and none arrived; "),
            "{said}"
        );
        assert!(said.ends_with("the latency was not observed"), "{said}");
    }

    #[test]
    fn of_a_search_the_ndr_counts() {
        let goal = |lower_pps, limited_by| SearchGoal {
            name: "NDR".into(),
            lower_pps,
            limited_by,
            ..SearchGoal::default()
        };
        let ndr = |goal| Ndr {
            goals: vec![goal],
            trials: vec![
                trial(2000.0, 10, None),
                trial(1000.0, 999, Some(90_000)),
                trial(1000.0, 1000, Some(1)),
            ],
            ..Ndr::default()
        };
        assert!(
            ALL.search(&ndr(goal(Some(1000.0), None))).is_ok(),
            "the overload at 2000 pps does not count"
        );
        let strict = Bounds { max_loss: Some(0.0001), min_rate_pps: Some(1500.0), ..ALL };
        let broken = said(strict.search(&ndr(goal(Some(1000.0), Some(Limit::Generator)))));
        assert!(broken.contains("the loss at the NDR is 0.05 %"), "{broken}");
        assert!(
            broken.contains(
                "the NDR is 1.0 kpps, 0.5 kpps (33.3 %) below; the reason may be the generator's limit"
            ),
            "{broken}"
        );
        let nothing = said(ALL.search(&ndr(goal(None, None))));
        assert_eq!(nothing.matches("not observed").count(), 3, "{nothing}");
        let dead = Ndr { trials: vec![trial(1000.0, 0, None)], ..ndr(goal(None, None)) };
        assert!(said(Bounds::default().search(&dead)).starts_with("total loss: 1000 frames"));
    }

    /// A livelock at some loads is a result; nothing at any load is a failure.
    #[test]
    fn of_a_curve_each_load_counts() {
        let series = |name: &str, points| Series { name: name.into(), points };
        let curve = |series| Curve::new(Environment::default(), series, true);
        let good = || series("good", vec![trial(500.0, 1000, Some(5)), trial(1000.0, 1000, Some(6))]);
        assert!(ALL.curve(&curve(vec![good()])).is_ok());
        let bad = series("bad", vec![trial(500.0, 700, Some(5)), trial(1000.0, 0, None)]);
        let of_both = curve(vec![good(), bad]);
        assert!(Bounds::default().curve(&of_both).is_ok());
        let broken = said(ALL.curve(&of_both));
        for says in [
            "the best rate of bad is 0.7 kpps",
            "the loss at 0.5 kpps of bad is 30 %",
            "the loss at 1.0 kpps of bad is 100 %",
            "the latency at 1.0 kpps of bad was not observed",
        ] {
            assert!(broken.contains(says), "{says}: {broken}");
        }
        assert!(!broken.contains("good"), "{broken}");
        let dead = curve(vec![series("dead", vec![trial(500.0, 0, None), trial(1000.0, 0, None)])]);
        assert_eq!(
            said(Bounds::default().curve(&dead)),
            "total loss: 2000 frames were sent and none arrived"
        );
    }

    #[test]
    fn bounds_are_read_with_their_units() {
        assert_eq!((loss("0"), loss("0%"), loss("0.1%")), (Ok(0.0), Ok(0.0), Ok(0.001)));
        assert!(loss("100%").is_err() && loss("x").is_err());
        assert_eq!(rate_pps("1.2Mpps"), Ok(1.2e6));
        assert!(rate_pps("50%").is_err() && rate_pps("100MbpsL1").is_err());
        assert_eq!(latency("2.5us"), Ok(Duration::from_nanos(2500)));
        assert!(latency("100").is_err() && latency("0us").is_err());
    }
}
