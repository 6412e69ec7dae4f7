//! How much verdicts depend on fitted constants: each constant is moved a little, and the claims whose
//! verdict changes are listed.

use crate::{Context, Outcomes, Study, measure, metric};
use kpps_profiles::{Change, Error, Kind, Profile, To, names};
use kpps_results::study::Verdict;
use std::collections::BTreeMap;

/// A fitted constant, moved.
#[derive(Clone, Debug, PartialEq)]
pub struct Nudge {
    /// The change.
    pub change: Change,
    /// The claims that the constant was fitted on.
    pub fitted: Vec<String>,
    /// Whether it moves at all: a small whole number may be rounded to its old value.
    pub moves: bool,
}

impl Nudge {
    /// The constant, the change, and the verdicts that change with it, in a line.
    fn line(&self, turns: &[Turn]) -> String {
        let change = &self.change;
        let by = match &change.to {
            kpps_profiles::To::Scale(factor) => format!("{:+.0} %", (factor - 1.0) * 100.0),
            kpps_profiles::To::Set(value) => value.to_string(),
        };
        let name =
            format!("{} {}.{}", change.kind, change.profile.as_deref().unwrap_or("*"), change.constant);
        let list: Vec<_> = turns.iter().map(|t| format!("{} {} -> {}", t.id, t.from, t.to)).collect();
        let list = match (self.moves, list.is_empty()) {
            (false, _) => "a small whole number: the change rounds to nothing".to_owned(),
            (true, true) => "no verdict changes".to_owned(),
            (true, false) => list.join(", "),
        };
        format!("{name:<48} {by:>6}  {list}")
    }
}

/// A claim whose verdict changes with a constant.
#[derive(Clone, Debug, PartialEq)]
pub struct Turn {
    /// The study.
    pub study: String,
    /// The claim.
    pub id: String,
    /// Its verdict without the change.
    pub from: Verdict,
    /// Its verdict with the constant moved.
    pub to: Verdict,
}

/// Every constant of the built-in profiles that was fitted, moved by `factor`.
///
/// # Errors
/// If a profile is bad.
pub fn fitted_constants(factor: f64) -> Result<Vec<Nudge>, Error> {
    let mut nudges = Vec::new();
    for kind in Kind::ALL {
        for name in names(kind) {
            let profile = Profile::named(kind, &name)?;
            for constant in profile.constants().iter().filter(|constant| !constant.fitted.is_empty()) {
                nudges.push(Nudge {
                    change: Change {
                        kind,
                        profile: Some(name.clone()),
                        constant: constant.name.clone(),
                        to: To::Scale(factor),
                    },
                    fitted: constant.fitted.clone(),
                    moves: constant
                        .value
                        .as_integer()
                        .is_none_or(|whole| (whole as f64 * factor).round() != whole as f64),
                });
            }
        }
    }
    Ok(nudges)
}

/// What [`perturb`] did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Perturbed {
    /// Changes in all.
    pub changes: usize,
    /// Changes that were tried: fewer if `context` ended it.
    pub tried: usize,
    /// Verdicts that changed.
    pub turned: usize,
}

/// Moves each fitted constant up and down by `share`, and calls `report` with a line for each change as it
/// ends.
///
/// # Errors
/// If a profile is bad.
pub fn perturb(
    studies: &[Study],
    share: f64,
    context: &Context,
    mut report: impl FnMut(&str),
) -> Result<Perturbed, Error> {
    let mut nudges = fitted_constants(1.0 - share)?;
    nudges.extend(fitted_constants(1.0 + share)?);
    let mut done = Perturbed { changes: nudges.len(), ..Perturbed::default() };
    turns(studies, &nudges, context, |nudge, turns| {
        done.tried += 1;
        done.turned += turns.len();
        report(&nudge.line(turns));
    });
    Ok(done)
}

type Verdicts = BTreeMap<(String, String), Verdict>;

/// The verdicts of `studies`, those that could be measured.
fn verdicts(studies: &[Study], outcomes: &Outcomes) -> Verdicts {
    let all = studies.iter().flat_map(|study| study.claims.iter().map(move |(id, claim)| (study, id, claim)));
    all.filter_map(|(study, id, claim)| {
        let judged = outcomes.verdict(study, id, claim)?;
        Some(((study.name.clone(), id.clone()), judged.verdict))
    })
    .collect()
}

/// Finds the claims of `studies` whose verdict changes with each of `nudges`, and calls `report` for each
/// nudge as it ends. Measurements that use no profile with the constant are not taken again. Ends early when
/// `context` says so.
pub fn turns(
    studies: &[Study],
    nudges: &[Nudge],
    context: &Context,
    mut report: impl FnMut(&Nudge, &[Turn]),
) {
    let claims = || studies.iter().flat_map(|study| study.claims.values());
    let wanted: Vec<_> = claims().flat_map(|claim| claim.measure.values()).collect();
    let outcomes = measure(wanted.iter().copied(), context, &|_, _| ());
    let before = verdicts(studies, &outcomes);
    for nudge in nudges {
        let touched = wanted.iter().filter(|m| nudge.moves && metric::depends(m, &nudge.change));
        let changed = Context { changes: vec![nudge.change.clone()], go_on: context.go_on };
        let after = verdicts(studies, &measure(touched.copied(), &changed, &|_, _| ()).or(&outcomes));
        if !(context.go_on)() {
            return;
        }
        let turns: Vec<Turn> = before
            .iter()
            .filter_map(|((study, id), &from)| {
                let to = *after.get(&(study.clone(), id.clone()))?;
                (from != to).then(|| Turn { study: study.clone(), id: id.clone(), from, to })
            })
            .collect();
        report(nudge, &turns);
    }
}
