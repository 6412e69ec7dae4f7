//! How much verdicts depend on fitted constants: each constant is moved a little, and the claims whose
//! verdict changes are listed.

use crate::{Context, Outcomes, Progress, Study, Values, measure_or_find, metric};
use kpps_documents::rounded;
use kpps_documents::study::{ChangedVerdict, MovedConstant, Perturbation, Verdict};
use kpps_methods::Finished;
use kpps_profiles::{Change, Error, Kind, Profile, To, names};
use std::collections::BTreeMap;

/// A fitted constant, moved.
#[derive(Clone, Debug, PartialEq)]
pub struct Nudge {
    /// The change.
    pub change: Change,
    /// The factor by which it changes the constant.
    pub factor: f64,
    /// The claims that the constant was fitted on.
    pub fitted: Vec<String>,
    /// Whether it moves at all: a small whole number may be rounded to its old value.
    pub moves: bool,
}

impl Nudge {
    /// The same for a document, with the changed verdicts.
    fn published(&self, changed: &[ChangedVerdict]) -> MovedConstant {
        let change = &self.change;
        MovedConstant {
            constant: format!(
                "{}.{}.{}",
                change.kind.word(),
                change.profile.as_deref().unwrap_or("*"),
                change.constant
            ),
            change: rounded(self.factor - 1.0),
            is_moved: self.moves,
            fitted: self.fitted.clone(),
            changed: changed.to_vec(),
        }
    }
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
                    factor,
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

/// Moves each fitted constant down and up by `share`, one at a time, and finds the claims of `studies` whose
/// verdict changes. Ends early when `context` says so; measurements that are `kept` are not taken again.
///
/// # Errors
/// If a profile is bad.
pub fn perturb(
    studies: &[Study],
    share: f64,
    context: &Context,
    progress: Progress,
    kept: &Finished<Values>,
) -> Result<Perturbation, Error> {
    let mut nudges = fitted_constants(1.0 - share)?;
    nudges.extend(fitted_constants(1.0 + share)?);
    let mut rows = Vec::new();
    // The verdicts without a change are one additional part of the work.
    let parts = nudges.len() + 1;
    progress(0, parts);
    turns(studies, &nudges, context, kept, |nudge, changed| {
        rows.push(nudge.published(changed));
        progress(rows.len() + 1, parts);
    });
    Ok(Perturbation {
        kpps_version: env!("CARGO_PKG_VERSION").into(),
        profiles_hash: kpps_profiles::hash([]),
        share,
        complete: rows.len() == nudges.len(),
        requested: nudges.len(),
        rows,
        ..Perturbation::default()
    })
}

type Verdicts = BTreeMap<(String, String), Verdict>;

/// The verdicts of `studies`, as far as they could be measured.
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
    kept: &Finished<Values>,
    mut report: impl FnMut(&Nudge, &[ChangedVerdict]),
) {
    let claims = || studies.iter().flat_map(|study| study.claims.values());
    let wanted: Vec<_> = claims().flat_map(|claim| claim.measure.values()).collect();
    let outcomes = measure_or_find(wanted.iter().copied(), context, &|_, _| (), kept);
    let before = verdicts(studies, &outcomes);
    for nudge in nudges {
        let touched = wanted.iter().filter(|m| nudge.moves && metric::depends(m, &nudge.change));
        let changed = Context { changes: vec![nudge.change.clone()], go_on: context.go_on };
        let moved = measure_or_find(touched.copied(), &changed, &|_, _| (), kept);
        let after = verdicts(studies, &moved.or(&outcomes));
        if !(context.go_on)() {
            return;
        }
        let turns: Vec<ChangedVerdict> = before
            .iter()
            .filter_map(|((study, id), &from)| {
                let to = *after.get(&(study.clone(), id.clone()))?;
                (from != to).then(|| ChangedVerdict { study: study.clone(), claim: id.clone(), from, to })
            })
            .collect();
        report(nudge, &turns);
    }
}
