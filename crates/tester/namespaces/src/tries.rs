//! Repeats attempts that a busy machine may prevent.

/// Tries something up to six times, until it happens: a program that gets no CPU for a while sends too
/// little, or looks too late. Conditions that must hold in any case are asserted by `once` itself, in every
/// try.
///
/// # Panics
/// If it does not happen.
pub fn in_six_tries(what: &str, mut once: impl FnMut() -> bool) {
    assert!((0..6).any(|_| once()), "not once in six tries: {what}");
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
