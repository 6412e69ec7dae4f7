//! The parts of a document that the metrics of the models do not have: whether the load was sent, and where
//! frames were lost.

use kpps_documents::detail::DetailedTrial;
use kpps_documents::{TESTER_RATIO, places};

/// The reasons why a trial does not show what the device under test does with the load that was asked for.
pub fn verdict(trial: &DetailedTrial) -> Vec<String> {
    let mut lines = Vec::new();
    for way in &trial.directions {
        let due = way.sent.saturating_add(way.shortfall);
        let (from, to) = (&way.from, &way.to);
        if way.shortfall as f64 > TESTER_RATIO * due as f64 {
            lines.push(format!(
                "generator shortfall: {} of {due} due frames from {from} to {to} were not sent",
                way.shortfall
            ));
        }
    }
    lines.extend(trial.trouble.clone());
    lines.extend(trial.doubts.iter().filter(|doubt| doubt.is_invalid()).map(|doubt| doubt.words()));
    lines
}

/// All that a client should know: the verdict, remarks, and the places of lost frames.
pub fn warnings(trial: &DetailedTrial) -> Vec<String> {
    let mut lines = verdict(trial);
    lines.extend(trial.doubts.iter().filter(|doubt| !doubt.is_invalid()).map(|doubt| doubt.words()));
    for (place, frames) in trial.result.losses_of_device() {
        let why = places::known(place).map_or_else(String::new, |it| format!(" ({})", it.why));
        lines.push(format!("{frames} frames were lost at {place}{why}"));
    }
    if let Some(overflow) = trial.result.overflow.filter(|frames| *frames > 0) {
        lines.push(format!(
            "the tester's receive overflow: {overflow} frames came through and were not taken in"
        ));
    }
    lines
}
