//! Many worlds on all cores, and their document.

use crate::fault::{Fault, Site};
use crate::plan::{Use, WorldPlan};
use crate::port::Reached;
use crate::smaller::smallest;
use crate::world::{Outcome, live};
use kpps_documents::faults::{FaultCount, FaultFailure, Faults};
use kpps_driver::config::Service;
use kpps_methods::workers::on_all_cpus;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// At most this many failures are shrunk; further ones are only counted and listed.
const MADE_SMALL: usize = 3;

/// The sum of what came of some worlds.
struct Sum {
    worlds: u64,
    /// The number of the last one, from 0 on.
    last: u64,
    document: Faults,
    /// The worlds that failed, by their numbers.
    outcomes: Vec<(u64, Outcome)>,
}

/// Runs `worlds` worlds, from the one with seed `first` on, on all cores, while `go_on` returns true, but at
/// least one on each core. `ended` receives the number of worlds that have ended. After the highest seed
/// comes 0. Then the first failures are made smaller, one after the other, while `shrinks` is true.
pub fn campaign(
    first: u64,
    worlds: u64,
    go_on: &(dyn Fn() -> bool + Sync),
    shrinks: &dyn Fn() -> bool,
    ended: &(dyn Fn(usize) + Sync),
) -> Faults {
    let next = AtomicU64::new(0);
    let sum = Mutex::new(Sum { worlds: 0, last: 0, document: empty(), outcomes: Vec::new() });
    let work = || {
        loop {
            let number = next.fetch_add(1, Relaxed);
            if number >= worlds {
                break;
            }
            let seed = first.wrapping_add(number);
            let plan = WorldPlan::random(seed);
            let outcome = live(&plan, false);
            // A panic in `live` is part of its outcome; one here would be a defect of this file.
            let Ok(mut sum) = sum.lock() else { break };
            sum.worlds += 1;
            sum.last = sum.last.max(number);
            add(&mut sum.document, &plan, &outcome);
            if outcome.breach.is_some() {
                sum.outcomes.push((number, outcome));
            }
            ended(sum.worlds as usize);
            drop(sum);
            if !go_on() {
                break;
            }
        }
    };
    on_all_cpus(usize::MAX, work);
    let Ok(Sum { worlds: lived, last: reached, mut document, mut outcomes }) = sum.into_inner() else {
        return empty();
    };
    outcomes.sort_by_key(|(number, _)| *number);
    document.seeds = [first, first.wrapping_add(reached)];
    document.worlds = lived;
    document.complete = lived == worlds;
    document.failures = outcomes
        .iter()
        .enumerate()
        .filter_map(|(at, (number, outcome))| {
            let plan = WorldPlan::random(first.wrapping_add(*number));
            let small = (at < MADE_SMALL && shrinks()).then(|| smallest(&plan));
            failure(&plan, outcome, small.map(|small| (small.to_string(), Vec::new())))
        })
        .collect();
    document
}

/// Lives through one world and keeps its last events: those of the smallest world with the same failure, or
/// its own if it does not fail.
pub fn traced(seed: u64) -> Faults {
    let plan = WorldPlan::random(seed);
    let outcome = live(&plan, false);
    let small = smallest(&plan);
    let events = live(&small, true).events;
    let mut document = empty();
    add(&mut document, &plan, &outcome);
    (document.seeds, document.worlds, document.complete) = ([seed, seed], 1, true);
    let failed = failure(&plan, &outcome, Some((small.to_string(), events.clone())));
    let quiet = FaultFailure { seed, world: plan.to_string(), events, ..FaultFailure::default() };
    document.failures = vec![failed.unwrap_or(quiet)];
    document
}

fn empty() -> Faults {
    let rows = Fault::ALL.iter().map(|fault| FaultCount {
        fault: fault.name().to_owned(),
        place: match fault.site() {
            Site::Device => "device",
            Site::Bus => "bus",
            Site::Host => "host",
            Site::Wire => "wire",
            Site::Operator => "operator",
        }
        .to_owned(),
        ..FaultCount::default()
    });
    Faults { kpps_version: env!("CARGO_PKG_VERSION").to_owned(), faults: rows.collect(), ..Faults::default() }
}

fn failure(
    plan: &WorldPlan,
    outcome: &Outcome,
    small: Option<(String, Vec<String>)>,
) -> Option<FaultFailure> {
    let (at_ps, breach) = outcome.breach.as_ref()?;
    let (smallest, events) = small.unzip();
    Some(FaultFailure {
        seed: plan.seed,
        what: Some(breach.to_string()),
        at_ms: Some(*at_ps as f64 / 1e9),
        world: plan.to_string(),
        smallest,
        events: events.unwrap_or_default(),
    })
}

/// Adds the outcome of a world.
fn add(document: &mut Faults, plan: &WorldPlan, outcome: &Outcome) {
    document.frames += outcome.offered;
    document.arrived += outcome.arrived;
    document.harmed += outcome.harmed;
    document.virtual_s += outcome.ps as f64 / 1e12;
    for (row, fired) in document.faults.iter_mut().zip(outcome.fired) {
        *match plan.config.service {
            _ if plan.usage == Use::Station => &mut row.station,
            Service::InterruptLoop { .. } => &mut row.interrupt_loop,
            Service::Napi { .. } => &mut row.napi,
            Service::Polling { .. } => &mut row.polling,
            Service::SelfPacing { .. } => &mut row.self_pacing,
        } += fired;
    }
    for (what, times) in outcome.reached.iter().flat_map(Reached::all) {
        *document.reached.entry(what.to_owned()).or_default() += times;
    }
}
