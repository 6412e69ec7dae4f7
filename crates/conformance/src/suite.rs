//! The list of cases, and running them.

use crate::case::{CaseResult, Verdict};
use crate::{Bench, Case, Departure, Outcome, Report, cases};
use std::time::Instant;

/// A case: its name and what it does.
pub(crate) type Entry<B> = (&'static str, fn(&mut B) -> CaseResult);

/// Runs all cases that do not need the device's timers to run in the bench's time.
pub fn run_on<B: Bench>(bench: &mut B, progress: &mut dyn FnMut(&Case)) -> Report {
    run(bench, &cases::all(), progress)
}

/// Runs the cases that measure time.
pub fn run_timed_on<B: Bench>(bench: &mut B, progress: &mut dyn FnMut(&Case)) -> Report {
    run(bench, &cases::timed(), progress)
}

/// Runs these cases in this order.
pub(crate) fn run<B: Bench>(bench: &mut B, entries: &[Entry<B>], progress: &mut dyn FnMut(&Case)) -> Report {
    let mut report = Report {
        device: bench.device(),
        chip: bench.chip().name().to_owned(),
        cases: Vec::with_capacity(entries.len()),
    };
    for &(name, case) in entries {
        let since = Instant::now();
        // A case that failed may have left the cable out, or vectors on.
        let ready = bench.set_link(true).and_then(|()| bench.set_vectors(0));
        let outcome = match ready.and_then(|_| case(bench)) {
            Ok(Verdict::Pass) => Outcome::Pass,
            Ok(Verdict::NotApplicable(reason)) => Outcome::NotApplicable { reason: reason.to_owned() },
            Ok(Verdict::Departs(&Departure { what, reason, manual })) => Outcome::Departure {
                what: what.to_owned(),
                reason: reason.to_owned(),
                manual: manual.to_owned(),
            },
            Err(failure) => Outcome::Fail { reason: failure.0 },
        };
        let millis = u64::try_from(since.elapsed().as_millis()).unwrap_or(u64::MAX);
        let case = Case { name: name.to_owned(), outcome, millis };
        progress(&case);
        report.cases.push(case);
    }
    report
}
