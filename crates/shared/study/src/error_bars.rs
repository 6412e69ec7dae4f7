//! Error bars of the claims that test the model: how far its uncertain constants make their figures
//! uncertain.

use crate::{Context, Outcomes, Progress, Study, Values, measure_or_find};
use kpps_documents::study as documents;
use kpps_methods::Finished;
use kpps_methods::statistics::central;
use kpps_profiles::{Change, Draw, SHARE};
use std::collections::BTreeMap;

/// The seed of the draws.
const SEED: u64 = 1;

/// Adds error bars to the judged claims that are evidence: the 5th and the 95th percentile of each figure
/// when all uncertain constants are drawn at random, this many times. A figure that some draw does not have
/// gets none. Each draw changes all studies in the same way. Draws that are `kept` are not measured again.
/// If `context` ends the run before all draws are measured, there are no error bars, and the document is
/// not complete.
pub fn add_error_bars(
    judged: &mut documents::Study,
    studies: &[Study],
    draws: usize,
    context: &Context,
    progress: Progress,
    kept: &Finished<Values>,
) {
    let evidence: Vec<_> = judged
        .claims
        .iter()
        .filter(|claim| claim.is_evidence())
        .filter_map(|claim| {
            let study = studies.iter().find(|study| study.name == claim.study)?;
            Some((study, claim.id.clone(), study.claims.get(&claim.id)?))
        })
        .collect();
    let wanted = || evidence.iter().flat_map(|(_, _, claim)| claim.measure.values());
    let mut figures: BTreeMap<(String, String, String), Vec<f64>> = BTreeMap::new();
    progress(0, draws);
    for number in 0..draws {
        let drawn = Change::drawn(Draw { seed: SEED, number: number as u64 });
        let changes = drawn.into_iter().chain(context.changes.iter().cloned()).collect();
        let outcomes: Outcomes =
            measure_or_find(wanted(), &Context { changes, go_on: context.go_on }, &|_, _| (), kept);
        if !(context.go_on)() {
            judged.complete = false;
            return;
        }
        for (study, id, claim) in &evidence {
            let values = outcomes.verdict(study, id, claim).map(|drawn| drawn.values).unwrap_or_default();
            for (name, value) in values {
                figures.entry((study.name.clone(), id.clone(), name)).or_default().push(value);
            }
        }
        progress(number + 1, draws);
    }
    judged.draws = Some(draws);
    for claim in &mut judged.claims {
        for name in claim.values.keys() {
            let drawn = figures.get(&(claim.study.clone(), claim.id.clone(), name.clone()));
            let all = drawn.filter(|values| values.len() == draws);
            if let Some(range) = all.and_then(|values| central(values, SHARE)) {
                claim.values_p5_p95.insert(name.clone(), range);
            }
        }
    }
}
