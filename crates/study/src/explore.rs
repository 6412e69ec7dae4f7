//! What hangs on constants that were fitted: which verdicts turn with them, what a fit finds, how well
//! claims are predicted without them. Each is told line by line.

use crate::fit::{cross_validate, fit, median};
use crate::{Context, Study, perturb};
use kpps_profiles::Error;

/// What to find out.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Question {
    /// Which verdicts change when each constant moves up and down by this share.
    Perturb(f64),
    /// What a fit finds.
    Fit,
    /// How well each *fit* claim is predicted by constants that were fitted on the others.
    CrossValidate,
}

impl Question {
    /// The one that these options ask, if any.
    pub fn asked(perturb: Option<f64>, fit: bool, cross_validate: bool) -> Option<Self> {
        match perturb {
            Some(share) => Some(Self::Perturb(share)),
            None if fit => Some(Self::Fit),
            None => cross_validate.then_some(Self::CrossValidate),
        }
    }
}

/// Answers a question, a line at a time, and returns the last line. Ends early when `go_on` says so.
///
/// # Errors
/// If a profile is bad.
pub fn explore(
    studies: &[Study],
    question: Question,
    go_on: &(dyn Fn() -> bool + Sync),
    mut report: impl FnMut(&str),
) -> Result<String, Error> {
    Ok(match question {
        Question::Perturb(share) => {
            let context = Context { changes: Vec::new(), go_on };
            let done = perturb(studies, share, &context, report)?;
            format!("{} of {} changes tried, {} verdicts changed", done.tried, done.changes, done.turned)
        }
        Question::Fit => {
            let found = fit(studies, go_on, |group| group.iter().for_each(|found| report(&found.line())))?;
            let other = found.iter().filter(|found| !found.is_committed()).count();
            format!("{} constants found, {other} of them not as in the profiles", found.len())
        }
        Question::CrossValidate => {
            let all = cross_validate(studies, go_on, |of| {
                let without = of.without.iter().map(|(name, value)| format!("{name} {value}"));
                let untold = match of.untold {
                    0 => String::new(),
                    count => format!(", {count} in the middle of their bounds"),
                };
                let without = without.collect::<Vec<_>>().join(", ");
                report(&format!("{:<4} {:>6.1} %  {without}{untold}", of.id, of.error * 100.0));
            })?;
            match median(&all) {
                Some(error) => format!("{} claims predicted, median error {:.1} %", all.len(), error * 100.0),
                None => "no claims to predict".to_owned(),
            }
        }
    })
}
