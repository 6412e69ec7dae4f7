//! What the verdicts owe to fitted constants: each is moved a little, and the claims that turn are listed.

use crate::{Context, Study, measure};
use kpps_profiles::{Change, Error, Kind, Profile, To, names};
use kpps_report::study::Verdict;
use std::collections::BTreeMap;

/// A fitted constant, moved.
#[derive(Clone, Debug, PartialEq)]
pub struct Nudge {
    /// The change.
    pub change: Change,
    /// The claims that the constant was fitted on.
    pub fitted: Vec<String>,
}

/// A claim that turns with a constant.
#[derive(Clone, Debug, PartialEq)]
pub struct Turn {
    /// The study.
    pub study: String,
    /// The claim.
    pub id: String,
    /// Its verdict as things are.
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
                });
            }
        }
    }
    Ok(nudges)
}

/// The verdicts of `studies` under `context`, those that could be measured.
fn verdicts(studies: &[Study], context: &Context) -> BTreeMap<(String, String), Verdict> {
    let wanted =
        studies.iter().flat_map(|study| study.claims.values()).flat_map(|claim| claim.measure.values());
    let outcomes = measure(wanted, context, &|_, _| ());
    let mut verdicts = BTreeMap::new();
    for study in studies {
        for (id, claim) in &study.claims {
            if let Some(judged) = outcomes.verdict(study, id, claim) {
                verdicts.insert((study.name.clone(), id.clone()), judged.verdict);
            }
        }
    }
    verdicts
}

/// For each of `nudges` the claims of `studies` whose verdict turns; `told` of each as it ends. Ends early when
/// `context` says so.
pub fn turns(studies: &[Study], nudges: &[Nudge], context: &Context, mut told: impl FnMut(&Nudge, &[Turn])) {
    let before = verdicts(studies, context);
    for nudge in nudges {
        let context = Context { changes: vec![nudge.change.clone()], go_on: context.go_on };
        let after = verdicts(studies, &context);
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
        told(nudge, &turns);
    }
}
