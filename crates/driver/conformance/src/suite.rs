//! Runs cases and collects their outcomes.

use crate::case::{CaseResult, Entry, Verdict};
use crate::{Case, Departure, Fixture, Outcome, Report, cases};
use std::time::{Duration, Instant};

/// Runs all cases except those that measure time.
pub fn run_on<B: Fixture>(fixture: &mut B, progress: &mut dyn FnMut(&Case)) -> Report {
    run(fixture, &cases::all(), Duration::ZERO, progress)
}

/// Runs the cases that measure time.
pub fn run_timed_on<B: Fixture>(fixture: &mut B, progress: &mut dyn FnMut(&Case)) -> Report {
    run(fixture, &cases::timed(), PATIENCE, progress)
}

/// How often a case is tried on a fixture whose events the scheduler may delay: the host may hold up QEMU
/// or an interrupt for longer than a case waits. A lasting fault fails each time; one that comes and goes
/// may pass, so the report names every case that has failed before.
const ATTEMPTS: usize = 3;
/// A case that measures time is tried for this long there, even after these attempts: other programs may use
/// the host's CPUs for longer.
const PATIENCE: Duration = Duration::from_secs(60);

/// Runs `entries` in order; `progress` gets each case as it ends. Failed cases are tried again for `patience`
/// at least, where the scheduler may be the reason.
pub(crate) fn run<B: Fixture>(
    fixture: &mut B,
    entries: &[Entry<B>],
    patience: Duration,
    progress: &mut dyn FnMut(&Case),
) -> Report {
    let (attempts, patience) = match fixture.slack_ns() {
        0 => (1, Duration::ZERO),
        _ => (ATTEMPTS, patience),
    };
    let mut report = Report {
        device: fixture.device(),
        chip: fixture.chip().name().to_owned(),
        cases: Vec::with_capacity(entries.len()),
    };
    for &(name, case) in entries {
        let since = Instant::now();
        let mut failed_before = None;
        let mut outcome = attempt(fixture, case);
        let mut made = 1;
        while let Outcome::Fail { reason } = &outcome
            && (made < attempts || since.elapsed() < patience)
        {
            failed_before = Some(reason.clone());
            outcome = attempt(fixture, case);
            made += 1;
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
