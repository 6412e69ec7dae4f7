//! Results over frame sizes on a terminal.

use super::rates::{kpps, mbps};
use crate::clock_error;
use crate::ndr::{at_least, tester_limits};
use crate::remarks;
use kpps_documents::rfc2544::{Rfc2544, Sizes};
use kpps_documents::words::in_us;
use kpps_documents::{Latency, SHORTFALL};
use std::fmt::Write;

/// The searches at all frame sizes, a line for each.
pub fn sizes(document: &Sizes) -> String {
    let mut text = String::new();
    let Some(first) = document.sizes.first() else { return "nothing was measured\n".into() };
    let _ = writeln!(text, "{}\n", first.environment.testbed_name());
    let limits = document.sizes.iter().flat_map(|search| {
        tester_limits(search)
            .into_iter()
            .map(|limit| format!("{} B, {limit}\n", search.environment.sizes_name()))
    });
    let limits: String = limits.collect();
    if !limits.is_empty() {
        let _ = writeln!(text, "{limits}");
    }
    let _ = writeln!(
        text,
        "{:>9} {:>22} {:>22} {:>10} {:>10} {:>10} {:>10}",
        "size", "NDR, kpps", "PDR, kpps", "MRR, kpps", "of most, %", "L2, Mb/s", "L1, Mb/s"
    );
    for search in &document.sizes {
        let bounds = |name: &str| {
            let goal = search.goals.iter().find(|goal| goal.name == name);
            let (lower, upper) = goal.map_or((None, None), |goal| (goal.lower_pps, goal.upper_pps));
            match upper {
                Some(_) => format!("{} to {}", kpps(lower), kpps(upper)),
                None if goal.is_some_and(|goal| goal.limited_by.is_some()) => {
                    format!("at least {}", kpps(lower))
                }
                None => kpps(lower),
            }
        };
        let ndr = search.lower_pps("NDR");
        let [l2, l1] = mbps(ndr, search.environment.mean_bytes_with_fcs());
        // A share of a load that the tester cannot send says nothing of the device under test.
        let share = ndr.filter(|_| search.goals.iter().all(|goal| goal.limited_by.is_none()));
        let _ = writeln!(
            text,
            "{:>9} {:>22} {:>22} {:>10} {:>10} {l2:>10} {l1:>10}{}",
            search.environment.sizes_name(),
            bounds("NDR"),
            bounds("PDR"),
            kpps(search.mrr_pps),
            share.map_or("–".into(), |ndr| format!("{:.1}", 100.0 * ndr / search.max_pps)),
            if search.complete { "" } else { "  not finished" }
        );
    }
    let trials: usize = document.sizes.iter().map(|search| search.trials.len()).sum();
    let seconds: f64 = document.sizes.iter().map(|search| search.measured_s).sum();
    let _ = writeln!(
        text,
        "\nsizes in bytes with FCS; Mb/s at the NDR; {trials} trials, {seconds:.1} s of load{}",
        if first.environment.bidirectional { ", per direction" } else { "" }
    );
    let timed = document.sizes.iter().flat_map(|search| &search.trials);
    if let Some(clocks) = clock_error(timed.map(|trial| trial.latency_ns)) {
        let _ = writeln!(text, "{clocks}");
    }
    if let Some(resumed) = remarks::resumed(document.sizes.iter().flat_map(|search| &search.trials)) {
        let _ = writeln!(text, "{resumed}");
    }
    text
}

/// The tests of RFC 2544, each with its result at each frame size.
pub fn rfc2544(document: &Rfc2544) -> String {
    let mut text = format!("{}\n", document.environment.testbed_name());
    for tests in &document.sizes {
        let size = tests.sizes_name();
        let _ = writeln!(text, "\nframes of {size} B with FCS, at most {} kpps", kpps(Some(tests.max_pps)));
        if let Some(search) = &tests.throughput {
            let found = search.lower_pps("throughput");
            let [l2, l1] = mbps(found, search.environment.mean_bytes_with_fcs());
            if !search.complete {
                // The bounds so far: a load without loss, and a load with loss.
                let upper = search.goals.first().and_then(|goal| goal.upper_pps);
                let known = match (found, upper) {
                    (Some(_), Some(_)) => format!("{} to {} kpps", kpps(found), kpps(upper)),
                    (Some(_), None) => format!("at least {} kpps", kpps(found)),
                    (None, Some(_)) => format!("below {} kpps", kpps(upper)),
                    (None, None) => "nothing known".into(),
                };
                let _ = writeln!(text, "  throughput    {known} so far: not finished");
                continue;
            }
            let rate = found.map_or("- kpps".into(), |pps| at_least(pps, search.limited_by()));
            let _ =
                writeln!(text, "  throughput    {rate}; {l2} Mb/s on layer 2, {l1} with preamble and gap");
        }
        for at in &tests.latency {
            let Latency { p50, p99, p999, max, .. } = at.latency_ns;
            let _ = writeln!(
                text,
                "  latency       at {:>3.0} %: p50 {} us, p99 {}, p99.9 {}, max {}; mean of {} trials",
                at.share * 100.0,
                in_us(p50),
                in_us(p99),
                in_us(p999),
                in_us(max),
                at.trials.len()
            );
        }
        let directions = document.environment.directions();
        for trial in &tests.frame_loss {
            let apart = |frames: u64, what: &str| match frames {
                0 => String::new(),
                frames => format!("; {frames} {what}"),
            };
            let _ = writeln!(
                text,
                "  frame loss    {:>8.1} kpps: {} of {} lost, {:.4} %{}{}",
                trial.offered_pps / directions / 1e3,
                trial.sent.saturating_sub(trial.came_through()),
                trial.sent,
                trial.loss_ratio * 100.0,
                apart(trial.shortfall, SHORTFALL),
                apart(trial.overflow.unwrap_or(0), "receive overflow (tester)")
            );
        }
        if let Some(found) = &tests.back_to_back {
            let (least, most) = (found.frames.iter().min(), found.frames.iter().max());
            let bound = if most == Some(&found.most_frames) { " (the longest tried)" } else { "" };
            let _ = writeln!(
                text,
                "  back-to-back  {:.0} frames at {} kpps{bound}, {} to {} in {} tests; buffer {:.3} ms, corrected {:.3} ms",
                found.mean_frames,
                kpps(Some(found.pps)),
                least.copied().unwrap_or(0),
                most.copied().unwrap_or(0),
                found.frames.len(),
                found.implied_s * 1e3,
                found.corrected_s * 1e3
            );
        }
        for (name, times) in [("recovery", &tests.recovery), ("reset", &tests.reset)] {
            if let Some(times) = times {
                let _ = writeln!(
                    text,
                    "  {name:<12}  {:.3} ms from {} kpps, mean of {}",
                    times.mean_s * 1e3,
                    kpps(Some(times.load_pps)),
                    times.seconds.len()
                );
            }
        }
    }
    let timed = document.sizes.iter().flat_map(|tests| &tests.latency);
    if let Some(clocks) = clock_error(timed.map(|at| at.latency_ns)) {
        let _ = write!(text, "\n{clocks}\n");
    }
    let searched = document.sizes.iter().flat_map(|tests| tests.throughput.iter().flat_map(|it| &it.trials));
    let rated = document.sizes.iter().flat_map(|tests| &tests.frame_loss);
    if let Some(resumed) = remarks::resumed(searched.chain(rated)) {
        let _ = write!(text, "\n{resumed}\n");
    }
    for departure in &document.departures {
        let _ = write!(text, "\n{departure}");
    }
    if !document.departures.is_empty() {
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use kpps_documents::ndr::{Ndr, SearchGoal};
    use kpps_documents::rfc2544::SizeTests;
    use kpps_documents::{Environment, Limit, Trial};

    /// The tester's limit is no rate of the device under test, and generator shortfall and receive overflow
    /// are no loss.
    #[test]
    fn the_testers_limits_are_said() {
        let limited = SearchGoal {
            name: "throughput".into(),
            lower_pps: Some(64e4),
            limited_by: Some(Limit::Generator),
            ..SearchGoal::default()
        };
        let search = Ndr {
            goals: vec![limited.clone()],
            environment: Environment { frame_bytes_with_fcs: Some(64), ..Environment::default() },
            max_pps: 1.4e6,
            complete: true,
            ..Ndr::default()
        };
        let short = Trial { sent: 900, shortfall: 100, delivered: 800, ..Trial::default() };
        let tests = SizeTests {
            throughput: Some(search.clone()),
            frame_loss: vec![short.with_overflow(Some(60))],
            ..SizeTests::default()
        };
        let text = rfc2544(&Rfc2544 { sizes: vec![tests], ..Rfc2544::default() });
        assert!(text.contains("throughput    at least 640.0 kpps: the generator's limit;"), "{text}");
        let lost = "40 of 900 lost, 4.4444 %; 100 shortfall; 60 receive overflow (tester)";
        assert!(text.contains(lost), "{text}");
        let ndr = Ndr { goals: vec![SearchGoal { name: "NDR".into(), ..limited }], ..search };
        let text = sizes(&Sizes { sizes: vec![ndr], ..Sizes::default() });
        assert!(text.contains("64 B, NDR: at least 640.0 kpps: the generator's limit. The device"), "{text}");
        assert!(text.contains(" at least 640.0 "), "{text}");
    }

    /// An interrupted search has no throughput yet, but bounds.
    #[test]
    fn an_interrupted_search_shows_its_bounds() {
        let goal = |lower_pps, upper_pps| SearchGoal {
            name: "throughput".into(),
            lower_pps,
            upper_pps,
            ..SearchGoal::default()
        };
        let shown = |goal, complete| {
            let throughput = Ndr { goals: vec![goal], max_pps: 9e5, complete, ..Ndr::default() };
            let sizes = vec![SizeTests { throughput: Some(throughput), ..SizeTests::default() }];
            rfc2544(&Rfc2544 { sizes, ..Rfc2544::default() })
        };
        assert!(shown(goal(Some(5e4), Some(6e4)), false).contains("50.0 to 60.0 kpps so far: not finished"));
        assert!(shown(goal(Some(5e4), None), false).contains("at least 50.0 kpps so far"));
        assert!(shown(goal(None, Some(6e4)), false).contains("below 60.0 kpps so far"));
        assert!(shown(goal(None, None), false).contains("nothing known so far"));
        assert!(shown(goal(Some(5e4), Some(6e4)), true).contains("throughput    50.0 kpps;"));
    }
}
