//! The summary of a curve in two sentences.

use crate::trial::limited;
use crate::words::{list, percent};
use crate::{Environment, KEEPS_UP_LOSS, Series, Trial, places};
use std::collections::BTreeMap;

/// Below this share of its peak, a series does not hold its rate: it falls.
const HOLDS: f64 = 0.9;
/// Below this share of its peak, and with no CPU time left, a series is in livelock.
const LIVELOCK: f64 = 0.5;
/// A smaller share of CPU time left counts as no CPU time left.
const CPU_LEFT: f64 = 0.05;
/// A dip is a rate below this share of the rates before and after it…
const DIP: f64 = 0.8;
/// … unless the difference is less than this share of the peak.
const NOISE: f64 = 0.02;
/// Rates that differ by less than this are reported as one.
const ALIKE: f64 = 0.01;
/// A place is mentioned if it takes at least this share of the losses of a series.
const WORTH_A_WORD: f64 = 0.1;

/// The reaction of a series to rising load.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Shape {
    KeepsUp,
    Holds,
    Falls,
    Livelock,
}

/// A series with the points that matter. Only series with points have one.
struct Seen<'a> {
    name: &'a str,
    peak: &'a Trial,
    last: &'a Trial,
    /// The lowest point between two higher ones.
    dip: Option<&'a Trial>,
    shape: Shape,
}

/// The points of `series` that matter. `cpu`: the trials observed the CPUs of the device under test.
fn seen<'a>(name: &'a str, series: &'a Series, cpu: bool) -> Option<Seen<'a>> {
    let last = series.points.last()?;
    let peak = series.peak()?;
    // While queues grow, the delivered rate is not sustained.
    let keeps_up = |p: &Trial| {
        p.is_steady() && p.loss_ratio <= KEEPS_UP_LOSS && p.sustained_pps() >= HOLDS * p.offered_pps
    };
    let left = last.sustained_pps();
    let shape = if series.points.iter().all(keeps_up) {
        Shape::KeepsUp
    } else if left >= HOLDS * peak.sustained_pps() {
        Shape::Holds
    } else if left < LIVELOCK * peak.sustained_pps()
        && cpu
        && last.cpu_left().is_some_and(|left| left < CPU_LEFT)
    {
        Shape::Livelock
    } else {
        Shape::Falls
    };
    Some(Seen { name, peak, last, dip: dip(&series.points, peak), shape })
}

/// The lowest point from which a series recovers.
fn dip<'a>(points: &'a [Trial], peak: &Trial) -> Option<&'a Trial> {
    let most = |points: &[Trial]| points.iter().map(|p| p.sustained_pps()).fold(0.0, f64::max);
    let recovers = |&(at, p): &(usize, &Trial)| {
        let around = most(&points[..at]).min(most(&points[at + 1..]));
        p.sustained_pps() < DIP * around && around - p.sustained_pps() > NOISE * peak.sustained_pps()
    };
    let dips = points.iter().enumerate().filter(recovers).map(|(_, p)| p);
    dips.min_by(|a, b| a.sustained_pps().total_cmp(&b.sustained_pps()))
}

/// The summary of a curve: which series keep up with the load, hold a rate or fall; and where frames are
/// lost, and why. Both sentences are derived from the points only.
pub(crate) fn two_sentences(environment: &Environment, series: &[Series], complete: bool) -> [String; 2] {
    // Between two ports, the series has the ports' names, and the CPUs are those of the tester's host.
    let on_ports = environment.is_between_ports();
    let name = |series: &Series| match on_ports {
        true => format!("the device between {}", series.name),
        false => series.name.clone(),
    };
    let names: Vec<String> = series.iter().map(name).collect();
    // Generator shortfall and receive overflow are no results of the device under test.
    let of_the_device: Vec<Series> = series.iter().map(of_the_device).collect();
    let seen = names.iter().zip(&of_the_device).filter_map(|(name, series)| seen(name, series, !on_ports));
    let mut seen: Vec<Seen> = seen.collect();
    let unjudged = unjudged(series);
    if seen.is_empty() {
        let why = unjudged.map_or(String::new(), |(_, limit)| {
            format!(" of the device under test: every load was above {limit}")
        });
        return [format!("Nothing was measured{why}."), "There is nothing to explain.".to_owned()];
    }
    // The best first: by shape, and by the rate at the highest load.
    seen.sort_by(|a, b| {
        let best_first = |s: &Seen| -s.last.sustained_pps();
        a.shape.cmp(&b.shape).then(best_first(a).total_cmp(&best_first(b)))
    });
    let mut first = carried(environment, complete, &seen);
    if let Some((loads, limit)) = unjudged {
        first += &format!(" Not judged because of {limit}: {loads}.");
    }
    [first, lost(&seen, on_ports)]
}

/// The points of a series that are measurements of the device under test.
fn of_the_device(series: &Series) -> Series {
    let points = series.points.iter().filter(|point| point.is_of_the_device()).cloned().collect();
    Series { name: series.name.clone(), points }
}

/// Loads at which a point is no measurement of the device under test, and the tester's limit at the lowest.
fn unjudged(series: &[Series]) -> Option<(String, &'static str)> {
    let limited = limited(series.iter().flat_map(|series| &series.points));
    let (_, limit) = *limited.first()?;
    let mut loads: Vec<String> = limited.iter().map(|point| kpps(point.0.offered_pps)).collect();
    loads.dedup();
    let loads = match &loads[..] {
        [least, .., last] if loads.len() > 3 => format!("{} loads between {least} and {last}", loads.len()),
        few => list(few),
    };
    Some((format!("{loads} kpps"), limit.words()))
}

/// A rate in kpps, without insignificant decimals.
fn kpps(pps: f64) -> String {
    match pps / 1e3 {
        k if k >= 9.95 || k <= 0.0 => format!("{k:.0}"),
        k if k >= 0.05 => format!("{k:.1}"),
        _ => crate::words::kpps(pps),
    }
}

/// Names as the subject of `verb`: "a holds", "a and b hold".
fn subject(names: &[&str], verb: &str) -> String {
    format!("{} {verb}{}", list(names), if names.len() == 1 { "s" } else { "" })
}

/// The first sentence.
fn carried(environment: &Environment, complete: bool, seen: &[Seen]) -> String {
    let highest = seen.iter().map(|s| s.last.offered_pps).fold(0.0, f64::max);
    let of_line_rate = environment.line_rate_pps.map_or(f64::INFINITY, |line_pps| highest / line_pps);
    let (rate, bytes) = (kpps(highest), environment.bytes_with_fcs());
    let load = if (0.999..1.001).contains(&of_line_rate) {
        format!("line rate ({rate} kpps of {bytes}-byte frames)")
    } else if of_line_rate.is_finite() {
        format!("{rate} kpps ({} of line rate, {bytes}-byte frames)", percent(of_line_rate))
    } else {
        format!("{rate} kpps of {bytes}-byte frames")
    };

    let of = |shape| seen.iter().filter(move |s| s.shape == shape).collect::<Vec<_>>();
    // A series that ends at a lower load has its own highest load.
    let until = |s: &Seen| match s.last.offered_pps < 0.999 * highest {
        true => format!(" (measured to {})", kpps(s.last.offered_pps)),
        false => String::new(),
    };
    let after =
        |s: &Seen| s.dip.map(|p| format!("a dip to {} at {}", kpps(p.sustained_pps()), kpps(p.offered_pps)));
    let mut clauses = vec![];
    let up = of(Shape::KeepsUp);
    if !up.is_empty() {
        let names: Vec<String> = up.iter().map(|s| s.name.to_owned() + &until(s)).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        clauses.push(subject(&names, "keep") + " up");
    }

    let held: Vec<String> = alike(of(Shape::Holds), |s| after(s).is_none() && until(s).is_empty())
        .into_iter()
        .enumerate()
        .map(|(index, group)| {
            let names: Vec<&str> = group.iter().map(|s| s.name).collect();
            let rates: Vec<String> = group.iter().map(|s| kpps(s.last.sustained_pps())).collect();
            let mean = group.iter().map(|s| s.last.sustained_pps()).sum::<f64>() / group.len() as f64;
            let about = if rates.iter().all(|r| *r == rates[0]) { "" } else { "about " };
            let whom = if index == 0 { subject(&names, "hold") } else { list(&names) };
            let dip = after(group[0]).map_or_else(String::new, |dip| format!(" but for {dip}"));
            format!("{whom} {about}{}{dip}{}", kpps(mean), until(group[0]))
        })
        .collect();
    if !held.is_empty() {
        clauses.push(held.join(", ") + " kpps");
    }

    for (shape, cause) in [(Shape::Falls, ""), (Shape::Livelock, "in receive livelock, ")] {
        let fallen: Vec<String> = of(shape)
            .into_iter()
            .enumerate()
            .map(|(index, s)| {
                let verb = if index == 0 { " falls" } else { "" };
                let peak = kpps(s.peak.sustained_pps());
                // Without loss, the load of the peak is the peak.
                let lossless = s.peak.sustained_pps() >= (1.0 - ALIKE) * s.peak.offered_pps;
                let at = if lossless { String::new() } else { format!(" (at {})", kpps(s.peak.offered_pps)) };
                let dip = after(s).map_or_else(String::new, |dip| format!(" after {dip}"));
                format!(
                    "{}{verb} from {peak}{at} to {}{dip}{}",
                    s.name,
                    kpps(s.last.sustained_pps()),
                    until(s)
                )
            })
            .collect();
        if !fallen.is_empty() {
            clauses.push(cause.to_owned() + &fallen.join(", "));
        }
    }
    format!(
        "{} up to {load}, {}.",
        if complete { "Offered" } else { "Not all was measured; offered" },
        clauses.join("; ")
    )
}

/// Groups of neighbours whose rates at the highest load are as good as equal. A curve for which `plain` is
/// false is a group of its own.
fn alike<'a, 'b>(seen: Vec<&'a Seen<'b>>, plain: impl Fn(&Seen) -> bool) -> Vec<Vec<&'a Seen<'b>>> {
    let mut groups: Vec<Vec<&Seen>> = vec![];
    for s in seen {
        match groups.last_mut() {
            Some(group)
                if plain(group[0])
                    && plain(s)
                    && s.last.sustained_pps() >= (1.0 - ALIKE) * group[0].last.sustained_pps() =>
            {
                group.push(s);
            }
            _ => groups.push(vec![s]),
        }
    }
    groups
}

/// The places and reasons of losses at the highest load, in words that follow "loses frames", each with
/// its series, the largest loss first.
fn causes<'a>(losing: &[&Seen<'a>]) -> Vec<(String, Vec<&'a str>)> {
    let mut causes: Vec<(String, Vec<&str>, f64)> = vec![];
    for s in losing {
        let losses = s.last.losses_of_device();
        let all: f64 = losses.iter().map(|&(_, n)| n as f64).sum();
        let mut shares: BTreeMap<String, f64> = BTreeMap::new();
        for (name, n) in losses {
            let phrase =
                places::known(name).map_or_else(|| format!("at \u{201c}{name}\u{201d}"), |p| p.phrase.into());
            *shares.entry(phrase).or_default() += n as f64 / all;
        }
        for (phrase, share) in shares.into_iter().filter(|&(_, share)| share >= WORTH_A_WORD) {
            match causes.iter_mut().find(|c| c.0 == phrase) {
                Some((_, who, weight)) => {
                    who.push(s.name);
                    *weight += share;
                }
                None => causes.push((phrase, vec![s.name], share)),
            }
        }
    }
    causes.sort_by(|a, b| b.2.total_cmp(&a.2));
    causes.into_iter().map(|(phrase, who, _)| (phrase, who)).collect()
}

/// The second sentence.
fn lost(seen: &[Seen], on_ports: bool) -> String {
    let (losing, without): (Vec<&Seen>, Vec<&Seen>) =
        seen.iter().partition(|s| !s.last.losses_of_device().is_empty());
    let highest = seen[0].last.offered_pps;
    let at = match seen.iter().all(|s| s.last.offered_pps == highest) {
        true => "At the highest load",
        false => "At the highest load of each",
    };
    if losing.is_empty() {
        let who = if let [one] = seen { one.name } else { "none" };
        let frame = if seen.len() == 1 { "no frame" } else { "a frame" };
        return format!("{at}, {who} loses {frame}{}.", grew(&without));
    }
    let mut named: Vec<&str> = vec![];
    let mut clauses = vec![];
    for (phrase, who) in causes(&losing) {
        let whom = if who.len() < losing.len() || who.len() == 1 {
            list(&who)
        } else if without.is_empty() {
            everyone(who.len())
        } else {
            "all others".to_owned()
        };
        let verb = match (clauses.is_empty(), who.len()) {
            (true, 1) => " loses frames",
            (true, _) => " lose frames",
            (false, _) if who.iter().all(|name| named.contains(name)) => " also",
            _ => "",
        };
        clauses.push(format!("{whom}{verb} {phrase}"));
        named.extend(who);
    }
    let mut sentence = format!("{at}, ");
    if !without.is_empty() {
        let names: Vec<&str> = without.iter().map(|s| s.name).collect();
        sentence += &format!(
            "{} nothing; ",
            if let [one] = names[..] { format!("{one} loses") } else { list(&names) + " lose" }
        );
    }
    sentence += &clauses.join(", ");
    sentence += &grew(&without);
    // The sentence does not mention a CPU that was not observed.
    let seen = losing.iter().filter_map(|s| Some((s.name, s.last.cpu_left()?)));
    let left: Vec<String> = seen
        .clone()
        .filter(|(_, left)| *left >= CPU_LEFT)
        .map(|(name, left)| format!("{name} ({})", percent(left)))
        .collect();
    sentence += &match (seen.count(), left.is_empty()) {
        (0, _) => String::new(),
        (_, true) if on_ports => "; the tester's host has no CPU time left".to_owned(),
        (_, true) => "; no CPU time is left".to_owned(),
        (_, false) if on_ports => "; the tester's host has CPU time left".to_owned(),
        (_, false) => format!("; CPU time is left with {}", list(&left)),
    };
    sentence + "."
}

/// The sentence about members of `lossless` whose queues grew at the highest load: they lose frames later.
/// Queues that are long may hold frames until after the trial, and hide their growth: these frames did not
/// arrive, and were lost at no place.
fn grew(lossless: &[&Seen]) -> String {
    let has_grown = |s: &&&Seen| !s.last.is_steady() || s.last.exact_loss_ratio() > 0.0;
    let names: Vec<&str> = lossless.iter().filter(has_grown).map(|s| s.name).collect();
    match names[..] {
        [] => String::new(),
        [one] if lossless.len() == 1 => {
            format!(" yet, but queues grew: {one} loses frames in a longer trial")
        }
        [one] => format!("; but the queues of {one} grew: it loses frames in a longer trial"),
        _ => format!("; but the queues of {} grew: they lose frames in a longer trial", list(&names)),
    }
}

/// "both", "all three", "all 12".
fn everyone(count: usize) -> String {
    const WORDS: [&str; 11] =
        ["both", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"];
    match WORDS.get(count.wrapping_sub(2)) {
        Some(&"both") => "both".to_owned(),
        Some(word) => format!("all {word}"),
        None => format!("all {count}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Cpu, Ledger};

    /// A series of (offered kpps, delivered kpps), losing the rest at `place`.
    fn series(name: &str, place: &str, cpu_busy: f64, points: &[(u64, u64)]) -> Series {
        let point = |&(offered, delivered): &(u64, u64)| Trial {
            offered_pps: offered as f64 * 1e3,
            sent_pps: offered as f64 * 1e3,
            delivered_pps: delivered as f64 * 1e3,
            loss_ratio: (offered - delivered) as f64 / offered as f64,
            cpu_busy: Some(cpu_busy),
            ledger: Ledger {
                sent: offered,
                delivered,
                dropped: [(place.to_owned(), offered - delivered)].into(),
                ..Ledger::default()
            },
            ..Trial::default()
        };
        Series { name: name.to_owned(), points: points.iter().map(point).collect() }
    }

    fn sentences(series: Vec<Series>, complete: bool) -> [String; 2] {
        sentences_on(&[], &series, complete)
    }

    fn sentences_on(testbed: &[&str], series: &[Series], complete: bool) -> [String; 2] {
        let environment = Environment {
            frame_bytes_with_fcs: Some(64),
            line_rate_pps: Some(1488e3),
            ..Environment::on(testbed.iter().copied())
        };
        two_sentences(&environment, series, complete)
    }

    const TO_LINE_RATE: &str = "Offered up to line rate (1488 kpps of 64-byte frames), ";

    /// The first sentence of one series `a`, without its beginning.
    fn first(points: &[(u64, u64)]) -> String {
        let [first, _] = sentences(vec![series("a", "queue", 1.0, points)], true);
        first.strip_prefix(TO_LINE_RATE).unwrap_or(&first).to_owned()
    }

    #[test]
    fn one_that_keeps_up() {
        let [first, second] = sentences(vec![series("a", "ring", 1.0, &[(100, 100), (1488, 1488)])], true);
        assert_eq!(first, TO_LINE_RATE.to_owned() + "a keeps up.");
        assert_eq!(second, "At the highest load, a loses no frame.");
    }

    #[test]
    fn two_that_keep_up_below_line_rate() {
        let up = [(100, 100), (744, 744)];
        let [first, second] = sentences(vec![series("a", "x", 1.0, &up), series("b", "x", 1.0, &up)], true);
        assert_eq!(first, "Offered up to 744 kpps (50 % of line rate, 64-byte frames), a and b keep up.");
        assert_eq!(second, "At the highest load, none loses a frame.");
    }

    #[test]
    fn a_low_load_has_its_digits() {
        let mut slow = series("a", "ring", 1.0, &[(1, 1)]);
        (slow.points[0].offered_pps, slow.points[0].delivered_pps) = (20.0, 20.0);
        let [first, _] = sentences(vec![slow], true);
        assert_eq!(first, "Offered up to 0.02 kpps (under 1 % of line rate, 64-byte frames), a keeps up.");
    }

    /// A driver is not lossless because its ring absorbs an unsustained load for a while.
    #[test]
    fn one_whose_queues_grow_does_not_keep_up() {
        let grows = |name| {
            let mut series = series(name, "ring", 1.0, &[(100, 100), (1150, 1150), (1488, 1488)]);
            for (point, growth) in series.points.iter_mut().zip([0, 21_000, 359_000]) {
                (point.seconds, point.queue_growth) = (1.0, Some(growth));
            }
            series
        };
        let [first, second] = sentences(vec![grows("a")], true);
        assert_eq!(first, TO_LINE_RATE.to_owned() + "a holds 1129 kpps.");
        let later =
            "At the highest load, a loses no frame yet, but queues grew: a loses frames in a longer trial.";
        assert_eq!(second, later);
        // A queue whose frames come only after the trial.
        let mut long = series("a", "ring", 1.0, &[(100, 100), (1488, 1488)]);
        if let Some(last) = long.points.last_mut() {
            (last.sent, last.delivered, last.delivered_pps, last.loss_ratio) = (1488, 900, 900e3, 0.395);
        }
        let [_, second] = sentences(vec![long], true);
        assert_eq!(second, later);
        let up = series("b", "ring", 1.0, &[(100, 100), (1488, 1488)]);
        let [first, second] = sentences(vec![grows("a"), up], true);
        assert_eq!(first, TO_LINE_RATE.to_owned() + "b keeps up; a holds 1129 kpps.");
        let later = "none loses a frame; but the queues of a grew: it loses frames in a longer trial.";
        assert_eq!(second, "At the highest load, ".to_owned() + later);
    }

    #[test]
    fn livelock_is_named_only_when_the_cpu_has_nothing_left() {
        let falling = [(100, 100), (300, 300), (1488, 10)];
        let busy = sentences(vec![series("a", "queue", 1.0, &falling)], true);
        assert_eq!(busy[0], TO_LINE_RATE.to_owned() + "in receive livelock, a falls from 300 to 10.");
        assert_eq!(
            busy[1],
            "At the highest load, a loses frames after receiving them (wasted work); no CPU time is left."
        );
        let idle = sentences(vec![series("a", "queue", 0.4, &falling)], true);
        assert_eq!(idle[0], TO_LINE_RATE.to_owned() + "a falls from 300 to 10.");
        assert!(idle[1].ends_with("; CPU time is left with a (60 %)."), "{}", idle[1]);
        // Idle polls do not count as busy.
        let mut polling = series("a", "fifo", 1.0, &falling);
        for point in &mut polling.points {
            point.cpu = Some(Cpu { thread: 0.4, idle_polls: Some(0.6), ..Cpu::default() });
        }
        assert_eq!(sentences(vec![polling], true)[0], idle[0]);
        // Half of the peak is a fall, not yet livelock.
        assert_eq!(first(&[(300, 300), (1488, 150)]), "a falls from 300 to 150.");
    }

    #[test]
    fn between_ports_the_cpu_is_that_of_the_testers_host() {
        let on_ports = |cpu_busy, points| {
            sentences_on(&["packet:a", "packet:b"], &[series("p:a and p:b", "ring", cpu_busy, points)], true)
        };
        let [first, second] = on_ports(1.0, &[(300, 300), (1488, 10)]);
        assert_eq!(first, TO_LINE_RATE.to_owned() + "the device between p:a and p:b falls from 300 to 10.");
        let lost = "At the highest load, the device between p:a and p:b loses frames at the ring (no descriptors in time)";
        assert_eq!(second, format!("{lost}; the tester's host has no CPU time left."));
        let [first, second] = on_ports(0.4, &[(300, 300), (1488, 1400)]);
        assert!(first.ends_with("p:a and p:b holds 1400 kpps."), "{first}");
        assert_eq!(second, format!("{lost}; the tester's host has CPU time left."));
    }

    /// Generator shortfall and receive overflow are the tester's: neither a fall nor a loss of the device.
    #[test]
    fn loads_above_the_testers_limit_are_not_judged() {
        // It sends 700 kpps and no more, and its port misses some of those.
        let mut limited = series("a and b", "b missed", 1.0, &[(500, 500), (700, 699)]);
        for offered in [800, 1488] {
            let sent = limited.points[0].clone();
            let (shortfall, overflow) = (offered - 500, Some(0));
            let point = Trial { offered_pps: offered as f64 * 1e3, sent: 500, shortfall, overflow, ..sent };
            limited.points.push(point);
        }
        let sends = |trial: Trial| Trial { sent: 100_000, delivered: 99_990, ..trial };
        limited.points[1] = sends(limited.points[1].clone()).with_overflow(Some(10));
        let [first, second] = sentences_on(&["packet:a", "packet:b"], &[limited.clone()], true);
        assert_eq!(
            first,
            "Offered up to 700 kpps (47 % of line rate, 64-byte frames), the device between a and b keeps up. Not judged because of the generator's limit: 800 and 1488 kpps."
        );
        assert_eq!(second, "At the highest load, the device between a and b loses no frame.");
        limited.points.drain(..2);
        let [first, _] = sentences_on(&["packet:a", "packet:b"], &[limited], true);
        assert_eq!(
            first,
            "Nothing was measured of the device under test: every load was above the generator's limit."
        );
    }

    #[test]
    fn a_cpu_that_was_not_observed_is_not_mentioned() {
        let mut falling = series("a", "queue", 1.0, &[(100, 100), (300, 300), (1488, 10)]);
        falling.points.iter_mut().for_each(|point| point.cpu_busy = None);
        let [first, second] = sentences(vec![falling], true);
        assert_eq!(first, TO_LINE_RATE.to_owned() + "a falls from 300 to 10.");
        assert_eq!(second, "At the highest load, a loses frames after receiving them (wasted work).");
    }

    #[test]
    fn a_peak_with_loss_says_at_which_load() {
        assert_eq!(first(&[(300, 300), (500, 450), (1488, 300)]), "a falls from 450 (at 500) to 300.");
    }

    #[test]
    fn dips_are_named_wherever_they_recover() {
        let held = first(&[(300, 300), (600, 90), (900, 500), (1488, 490)]);
        assert_eq!(held, "a holds 490 but for a dip to 90 at 600 kpps.");
        let low = first(&[(300, 300), (400, 131), (600, 15), (700, 32), (1488, 32)]);
        assert_eq!(low, "in receive livelock, a falls from 300 to 32 after a dip to 15 at 600.");
        // The end of a fall is no dip, and neither is a difference within the uncertainty of a measurement.
        assert!(!first(&[(300, 300), (600, 15), (1488, 15)]).contains("dip"));
        assert!(!first(&[(300, 300), (600, 0), (900, 5), (1488, 0)]).contains("dip"));
        assert!(!first(&[(300, 300), (600, 280), (1488, 300)]).contains("dip"));
    }

    #[test]
    fn rates_that_are_alike_are_told_as_one() {
        let at = |name, left| series(name, "fifo", 1.0, &[(300, 300), (1488, left)]);
        let [first, second] = sentences(vec![at("b", 674), at("c", 598), at("a", 676), at("d", 598)], true);
        assert_eq!(first, TO_LINE_RATE.to_owned() + "a and b hold about 675, c and d 598 kpps.");
        assert_eq!(
            second,
            "At the highest load, all four lose frames in the card's FIFO (it cannot take them faster); no CPU \
             time is left."
        );
    }

    #[test]
    fn every_kind_together_is_still_short() {
        let all = vec![
            series("stock", "backlog", 1.0, &[(300, 300), (1488, 0)]),
            series("tuned", "ring", 1.0, &[(400, 400), (1488, 290)]),
            series("napi", "queue", 1.0, &[(500, 500), (1488, 490)]),
            series("polling", "fifo", 0.6, &[(680, 680), (1488, 680)]),
            series("best", "fifo", 1.0, &[(680, 680), (1488, 1488)]),
            Series { name: "nothing".to_owned(), points: vec![] },
        ];
        let [first, second] = sentences(all, true);
        assert_eq!(
            first,
            TO_LINE_RATE.to_owned()
                + "best keeps up; polling holds 680, napi 490 kpps; tuned falls from 400 to 290; in receive \
                   livelock, stock falls from 300 to 0."
        );
        assert_eq!(
            second,
            "At the highest load, best loses nothing; napi and stock lose frames after receiving them (wasted \
             work), polling in the card's FIFO (it cannot take them faster), tuned at the ring (no descriptors \
             in time); CPU time is left with polling (40 %)."
        );
        for sentence in [first, second] {
            assert!(sentence.split_whitespace().count() <= 48, "{sentence}");
        }
    }

    #[test]
    fn an_interrupted_run_claims_no_more_than_it_measured() {
        let all = vec![
            series("a", "fifo", 1.0, &[(680, 680), (1488, 680)]),
            series("b", "fifo", 1.0, &[(300, 300)]),
        ];
        let [first, second] = sentences(all, false);
        assert_eq!(
            first,
            "Not all was measured; offered up to line rate (1488 kpps of 64-byte frames), b \
             (measured to 300) keeps up; a holds 680 kpps."
        );
        assert_eq!(
            second,
            "At the highest load of each, b loses nothing; a loses frames in the card's FIFO (it cannot take \
             them faster); no CPU time is left."
        );
    }

    #[test]
    fn nothing_measured() {
        let [first, second] = sentences(vec![], true);
        assert_eq!((&first[..], &second[..]), ("Nothing was measured.", "There is nothing to explain."));
    }

    #[test]
    fn unexplained_packets_are_lost_and_a_shortfall_is_not() {
        let mut it = series("a", "attic", 0.5, &[(1000, 500)]);
        it.points[0].ledger.shortfall = 300;
        it.points[0].ledger.dropped.insert("attic".to_owned(), 200);
        let [_, second] = sentences(vec![it], true);
        assert_eq!(
            second,
            "At the highest load, a loses frames in unknown places (the ledger does not close), a also at “attic”; CPU \
             time is left with a (50 %)."
        );
    }
}
