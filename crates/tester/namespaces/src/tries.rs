//! Repeats attempts that a busy machine may prevent.

use std::time::{Duration, Instant};

/// Attempts are given up after this time, but not before the sixth.
const TRYING: Duration = Duration::from_secs(180);

/// Repeats an attempt until it succeeds: a program that gets no CPU for a while sends too little, or looks
/// too late. Conditions that must hold in any case are asserted by `once` itself, in every attempt.
///
/// # Panics
/// If it does not succeed in six attempts and three minutes.
pub fn until_undisturbed(what: &str, mut once: impl FnMut() -> bool) {
    let begun = Instant::now();
    let mut attempts = 1;
    while !once() {
        assert!(attempts < 6 || begun.elapsed() < TRYING, "not once in {attempts} attempts: {what}");
        attempts += 1;
    }
}

/// Whether these words of `kpps` say that a trial is no measurement, and that the only reason is a tester
/// that got too little CPU.
pub fn says_short_of_cpu(said: &str) -> bool {
    let is_slow = |reason: &str| {
        ["the generator could not send all due frames in time", "the tester's receive overflow is too high"]
            .contains(&reason)
            || reason.contains(", and the generator could not send ") && reason.ends_with(" frames in time")
    };
    let reasons = said.trim_end().rsplit_once("no valid measurement of the device under test: ");
    reasons.is_some_and(|(_, all)| all.split("; ").all(is_slow))
}
