//! Remarks that come before the results, in sentences.

use kpps_documents::words::rate;
use kpps_documents::{Disturbance, Latency, Trial, limited};

/// The remarks on points: points that are no measurement of the device under test, results of an earlier run,
/// clocks that differ.
pub fn remarks<'p>(points: impl Iterator<Item = &'p Trial> + Clone) -> Vec<String> {
    with(points.clone(), not_steady(points))
}

/// The same, with this remark on points at which queues grew.
pub(crate) fn with<'p>(points: impl Iterator<Item = &'p Trial> + Clone, grew: Option<String>) -> Vec<String> {
    let clocks = clock_error(points.clone().map(|point| point.latency_ns));
    let about = [not_of_the_device(points.clone()), disturbed(points.clone()), grew];
    about.into_iter().flatten().chain(resumed(points)).chain(clocks).collect()
}

/// The results that an earlier run measured, with their ages.
pub fn resumed<'p>(points: impl Iterator<Item = &'p Trial> + Clone) -> Option<String> {
    /// The most points that are listed; the JSON document has the age of each.
    const LISTED: usize = 12;
    let all = points.clone().count();
    let kept: Vec<_> = points.filter_map(|point| Some((point.offered_pps, point.age_s?))).collect();
    let oldest = kept.iter().map(|(_, age_s)| *age_s).max()?;
    let listed = kept.iter().take(LISTED);
    let mut ages: Vec<_> = listed.map(|(pps, age_s)| format!("{} ({})", rate(*pps), age(*age_s))).collect();
    if kept.len() > LISTED {
        ages.push(format!("the oldest {}", age(oldest)));
    }
    Some(format!("{} of {all} results were measured by an earlier run: {}.", kept.len(), ages.join(", ")))
}

/// An age as people say it.
fn age(s: u64) -> String {
    match s {
        0..120 => format!("{s} s ago"),
        120..7200 => format!("{} min ago", s / 60),
        7200..172_800 => format!("{} h ago", s / 3600),
        _ => format!("{} days ago", s / 86400),
    }
}

/// A remark on the points in which the tester itself was the limit.
fn not_of_the_device<'p>(points: impl Iterator<Item = &'p Trial>) -> Option<String> {
    let limited = limited(points);
    let (_, limit) = limited.first()?;
    let loads = loads(limited.iter().map(|(point, _)| *point))?;
    let unknown = match limited.iter().any(|(point, _)| point.overflow_unknown) {
        true => {
            " The tester's port did not count its receive overflow: the lost frames may be its own overflow."
        }
        false => "",
    };
    Some(format!(
        "{loads} the tester itself could not send or receive more than 0.1 % of the frames: the results there show {}.{unknown}",
        limit.words()
    ))
}

/// Some points by their loads: "At 3 loads from 10.0 kpps on". `None` without points.
fn loads<'p>(points: impl Iterator<Item = &'p Trial>) -> Option<String> {
    let mut loads: Vec<_> = points.map(|point| point.offered_pps).collect();
    loads.sort_by(f64::total_cmp);
    let from = rate(*loads.first()?);
    Some(match loads.len() {
        1 => format!("At {from}"),
        several => format!("At {several} loads from {from} on"),
    })
}

/// A remark on the points in which something else had the generator's CPU.
pub fn disturbed<'p>(points: impl Iterator<Item = &'p Trial> + Clone) -> Option<String> {
    let disturbed = points.filter(|point| point.is_disturbed());
    let at = loads(disturbed.clone())?;
    let all = disturbed.filter_map(|point| point.disturbance.clone()).reduce(Disturbance::and);
    let how = all.map(|all| all.words()).unwrap_or_default();
    Some(format!(
        "{at} the generator was disturbed ({how}) and sent fewer frames than were due. The lost frames are the loss of the device under test."
    ))
}

/// A remark on the points at which queues grew.
fn not_steady<'p>(points: impl Iterator<Item = &'p Trial>) -> Option<String> {
    let at = loads(points.filter(|point| !point.is_steady()))?;
    Some(format!(
        "{at} queues grew during the measurement: the device under test cannot sustain the rate delivered there. Measure longer."
    ))
}

/// The error of latencies by two clocks; of several the largest.
pub fn clock_error(latencies: impl Iterator<Item = Latency>) -> Option<String> {
    let worst = latencies.filter_map(|latency| latency.error_ns).max()?;
    Some(format!(
        "Latencies use the clocks of two hosts, which kpps compares before and after each trial: their error is at most {:.1} µs.",
        worst as f64 / 1e3
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use kpps_documents::Pause;

    #[test]
    fn kept_results_show_their_age() {
        let point = |offered_pps, age_s| Trial { offered_pps, age_s, ..Trial::default() };
        assert_eq!(resumed([point(1e4, None)].iter()), None);
        let points =
            [point(1e4, Some(119)), point(2e4, Some(7199)), point(4e4, None), point(8e4, Some(300_000))];
        let said = resumed(points.iter());
        let whole = "3 of 4 results were measured by an earlier run: 10.0 kpps (119 s ago), 20.0 kpps (119 min ago), 80.0 kpps (3 days ago).";
        assert_eq!(said.as_deref(), Some(whole));
    }

    #[test]
    fn a_disturbance_and_queues_that_grew_are_told() {
        let pause = Pause { at_ns: 610_000_000, lasted_ns: 4_300_000, cpu: Some(0), ..Pause::default() };
        let disturbance = Disturbance { frames: 80, pauses: 1, longest: Some(pause) };
        let point = |shortfall, queue_growth| Trial {
            offered_pps: 2e4,
            sent: 20_000,
            shortfall,
            delivered: 20_000,
            disturbance: Some(disturbance.clone()),
            queue_growth,
            ..Trial::default()
        };
        let [disturbed, grew] = &remarks([point(80, None), point(0, Some(9)), point(0, Some(0))].iter())[..]
        else {
            panic!("two remarks")
        };
        let how = "At 20.0 kpps the generator was disturbed (other programs had CPU 0 for 4.3 ms at 0.61 s)";
        assert!(disturbed.starts_with(how) && !disturbed.contains("limit"), "{disturbed}");
        assert!(grew.starts_with("At 20.0 kpps queues grew"), "{grew}");
    }

    #[test]
    fn readers_are_told_what_limits_points() {
        let point = |offered_pps, shortfall, error_ns| Trial {
            offered_pps,
            sent: 1000 - shortfall,
            shortfall,
            latency_ns: Latency { error_ns, ..Latency::default() },
            ..Trial::default()
        };
        let points = [point(1e5, 0, None), point(1e5, 1, None)];
        assert_eq!(remarks(points.iter()), [""; 0]);
        let points = [point(4e5, 20, Some(9000)), point(3e5, 2, Some(1500)), points[0].clone()];
        let lost = Trial { sent: 100, delivered: 90, ..Trial::default() };
        assert_eq!(remarks([lost.clone().with_overflow(Some(0))].iter()), [""; 0]);
        let unknown = &remarks([lost.with_overflow(None)].iter())[0];
        assert!(unknown.contains("receiver. The tester's port did not count"), "{unknown}");
        let [sender, clocks] = &remarks(points.iter())[..] else { panic!("two remarks") };
        assert!(sender.contains("At 2 loads from 300.0 kpps on") && sender.contains("generator"), "{sender}");
        assert!(clocks.contains("at most 9.0 µs"), "{clocks}");
    }
}
