//! Error bars of the claims that test the model: how far its uncertain constants make their figures
//! uncertain.

use crate::{Claim, Context, Progress, Study, Values, measure_or_find};
use kpps_documents::study as documents;
use kpps_documents::study::Verdict;
use kpps_methods::Finished;
use kpps_methods::statistics::central;
use kpps_profiles::{Change, Draw, SHARE};
use std::collections::BTreeMap;

/// The seed of the draws.
const SEED: u64 = 1;

/// How often a draw with which a claim cannot be judged is drawn again.
const ATTEMPTS: usize = 10;

/// Adds error bars to the judged claims that are evidence: the 5th and the 95th percentile of each figure
/// when all uncertain constants are drawn at random, this many times. Each draw changes all studies in the
/// same way; one with which a claim cannot be judged that could be before is drawn again. Draws that are
/// `kept` are not measured again. If `context` ends the run before all draws are measured, there are no error
/// bars, and the document is not complete.
///
/// # Errors
/// A draw, and all that were tried in its place, leave a claim without a verdict.
pub fn add_error_bars(
    judged: &mut documents::Study,
    studies: &[Study],
    draws: usize,
    context: &Context,
    progress: Progress,
    kept: &Finished<Values>,
) -> Result<(), String> {
    let can_be_judged = |claim: &&documents::Claim| claim.is_evidence() && claim.verdict != Verdict::Failed;
    let evidence: Vec<_> = judged
        .claims
        .iter()
        .filter(can_be_judged)
        .filter_map(|claim| {
            let study = studies.iter().find(|study| study.name == claim.study)?;
            Some((study, claim.id.clone(), study.claims.get(&claim.id)?))
        })
        .collect();
    let mut figures: BTreeMap<(String, String, String), Vec<f64>> = BTreeMap::new();
    progress(0, draws);
    for number in 0..draws {
        let mut found = Err(String::new());
        for draw in Draw::candidates(SEED, number, draws).take(ATTEMPTS) {
            found = with_draw(&evidence, draw, context, kept);
            if found.is_ok() || !(context.go_on)() {
                break;
            }
        }
        if !(context.go_on)() {
            judged.complete = false;
            return Ok(());
        }
        for claim in found.map_err(|why| format!("none of {ATTEMPTS} draws can be judged: {why}"))? {
            for (name, value) in claim.values {
                figures.entry((claim.study.clone(), claim.id.clone(), name)).or_default().push(value);
            }
        }
        progress(number + 1, draws);
    }
    judged.draws = Some(draws);
    for claim in &mut judged.claims {
        for name in claim.values.keys() {
            let drawn = figures.get(&(claim.study.clone(), claim.id.clone(), name.clone()));
            if let Some(range) = drawn.and_then(|values| central(values, SHARE)) {
                claim.values_p5_p95.insert(name.clone(), range);
            }
        }
    }
    Ok(())
}

/// These claims, judged with the constants of one draw. An interrupted run judges none.
fn with_draw(
    evidence: &[(&Study, String, &Claim)],
    draw: Draw,
    context: &Context,
    kept: &Finished<Values>,
) -> Result<Vec<documents::Claim>, String> {
    let changes = context.changes.iter().cloned().chain(Change::drawn(draw)).collect();
    let context = Context { changes, go_on: context.go_on };
    let wanted = evidence.iter().flat_map(|(_, _, claim)| claim.measure.values());
    let outcomes = measure_or_find(wanted, &context, &|_, _| (), kept);
    let claims: Vec<_> =
        evidence.iter().filter_map(|(study, id, claim)| outcomes.verdict(study, id, claim)).collect();
    match claims.iter().find(|claim| claim.verdict == Verdict::Failed) {
        Some(failed) => Err(format!("{}: {}", failed.id, failed.why)),
        None => Ok(claims),
    }
}
