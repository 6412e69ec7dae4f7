//! Runs cases and collects their outcomes.

use crate::case::{CaseResult, Entry, Verdict};
use crate::{Case, Departure, Fixture, Outcome, Report, cases};
use std::time::Instant;

/// Runs all cases except those that measure time.
pub fn run_on<B: Fixture>(fixture: &mut B, progress: &mut dyn FnMut(&Case)) -> Report {
    run(fixture, &cases::all(), progress)
}

/// Runs the cases that measure time.
pub fn run_timed_on<B: Fixture>(fixture: &mut B, progress: &mut dyn FnMut(&Case)) -> Report {
    run(fixture, &cases::timed(), progress)
}

/// How often a case is tried on a fixture whose events the scheduler may delay: the host may hold up QEMU
/// or an interrupt for longer than a case waits. A lasting fault fails each time; one that comes and goes
/// may pass, so the report names every case that has failed before.
const ATTEMPTS: usize = 3;

/// Runs `entries` in order; `progress` gets each case as it ends.
pub(crate) fn run<B: Fixture>(
    fixture: &mut B,
    entries: &[Entry<B>],
    progress: &mut dyn FnMut(&Case),
) -> Report {
    let attempts = if fixture.slack_ns() > 0 { ATTEMPTS } else { 1 };
    let mut report = Report {
        device: fixture.device(),
        chip: fixture.chip().name().to_owned(),
        cases: Vec::with_capacity(entries.len()),
    };
    for &(name, case) in entries {
        let since = Instant::now();
        let mut failed_before = None;
        let mut outcome = attempt(fixture, case);
        for _ in 1..attempts {
            let Outcome::Fail { reason } = outcome else { break };
            failed_before = Some(reason);
            outcome = attempt(fixture, case);
        }
        let millis = u64::try_from(since.elapsed().as_millis()).unwrap_or(u64::MAX);
        let case = Case { name: name.to_owned(), outcome, millis, failed_before };
        progress(&case);
        report.cases.push(case);
    }
    report
}

/// Runs a case once.
fn attempt<B: Fixture>(fixture: &mut B, case: fn(&mut B) -> CaseResult) -> Outcome {
    // A failed case may have left the cable unplugged or MSI-X on.
    let ready = fixture.set_link(true).and_then(|()| fixture.set_vectors(0));
    match ready.and_then(|_| case(fixture)) {
        Ok(Verdict::Pass) => Outcome::Pass,
        Ok(Verdict::NotApplicable(reason)) => Outcome::NotApplicable { reason: reason.to_owned() },
        Ok(Verdict::Departs(&Departure { what, reason, manual })) => {
            Outcome::Departure { what: what.to_owned(), reason: reason.to_owned(), manual: manual.to_owned() }
        }
        Err(failure) => Outcome::Fail { reason: failure.0 },
    }
}
