//! A trial that something disturbed is tried again.

use crate::accounting::document::result;
use crate::error::Error;
use crate::running::trial::{Offer, Outcome, Tester};
use std::time::Duration;

/// How often a trial is repeated, if nothing else was asked for.
const RETRIES: u32 = 2;
/// A longer trial is not repeated by itself.
const LONG: Duration = Duration::from_secs(60);

/// Runs a trial. Repeats it while something else than the device under test and the tester disturbs it
/// ([`Tester::retries`]). Returns the outcome with the least shortfall.
///
/// # Errors
/// Errors of [`Tester::trial`].
pub fn undisturbed(tester: &mut Tester, offer: &Offer, go_on: &dyn Fn() -> bool) -> Result<Outcome, Error> {
    let usual = if offer.load.duration > LONG { 0 } else { RETRIES };
    let most = tester.retries.unwrap_or(usual);
    let shortfall = |outcome: &Outcome| result(offer, outcome).map_or(0.0, |trial| trial.tester_ratio());
    let mut best = tester.trial(offer, go_on)?;
    for retries in 1..=most {
        let is_changed = best.directions.iter().any(|direction| !direction.sent.rate_changes.is_empty());
        let is_disturbed = result(offer, &best).is_some_and(|trial| trial.is_disturbed());
        if !is_disturbed || is_changed || !best.complete || !go_on() {
            break;
        }
        let next = tester.trial(offer, go_on)?;
        if !next.complete {
            // Interrupted, or a port has failed: that matters more than the earlier measurement.
            return Ok(next);
        }
        if shortfall(&next) < shortfall(&best) {
            best = next;
        }
        best.retries = retries;
    }
    Ok(best)
}
