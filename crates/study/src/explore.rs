//! What a fit of the constants finds, and how well claims are predicted without them, line by line.

use crate::Study;
use crate::fit::{Found, cross_validate, fit, median};
use kpps_profiles::Error;

/// Finds the fitted constants again, if `is_fit`; otherwise tells how well each *fit* claim is predicted by
/// constants that were fitted on the others. Ends early when `go_on` says so.
///
/// # Errors
/// If a profile is bad.
pub fn explore(studies: &[Study], is_fit: bool, go_on: &(dyn Fn() -> bool + Sync)) -> Result<String, Error> {
    let mut lines = Vec::new();
    if is_fit {
        let found = fit(studies, go_on, |group| lines.extend(group.iter().map(Found::line)))?;
        let other = found.iter().filter(|found| !found.is_committed()).count();
        lines.push(format!("{} constants found, {other} of them not as in the profiles\n", found.len()));
        return Ok(lines.join("\n"));
    }
    let all = cross_validate(studies, go_on, |of| {
        let without = of.without.iter().map(|(name, value)| format!("{name} {value}"));
        let untold = match of.untold {
            0 => String::new(),
            count => format!(", {count} in the middle of their bounds"),
        };
        let without = without.collect::<Vec<_>>().join(", ");
        lines.push(format!("{:<4} {:>6.1} %  {without}{untold}", of.id, of.error * 100.0));
    })?;
    lines.push(match median(&all) {
        Some(error) => format!("{} claims predicted, median error {:.1} %\n", all.len(), error * 100.0),
        None => "no claims to predict\n".to_owned(),
    });
    Ok(lines.join("\n"))
}
