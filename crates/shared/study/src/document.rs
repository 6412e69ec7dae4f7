//! Judged studies as published.

use crate::{Outcomes, Study};
use kpps_documents::Schema;
use kpps_documents::study::{self as documents, Verdict};

/// The results of the claims of these studies, with figures unless `claims_only`.
pub fn document(studies: &[Study], outcomes: &Outcomes, claims_only: bool) -> documents::Study {
    let claimed: usize = studies.iter().map(|study| study.claims.len()).sum();
    let claims: Vec<_> = studies
        .iter()
        .flat_map(|study| study.claims.iter().filter_map(|(id, claim)| outcomes.verdict(study, id, claim)))
        .collect();
    let article = |study: &Study| documents::Article {
        name: study.name.clone(),
        title: study.title.clone(),
        question: study.question.clone(),
        setting: study.setting.clone(),
        figures: match claims_only {
            true => Vec::new(),
            false => study.figures.iter().map(|figure| outcomes.figure(figure)).collect(),
        },
        // A claim about a map makes the same measurements, so the document has the map if only the claim was
        // asked for.
        maps: study.maps.iter().filter_map(|map| outcomes.map(map)).collect(),
    };
    documents::Study {
        schema: Schema::default(),
        kind: documents::Kind::Study,
        kpps_version: env!("CARGO_PKG_VERSION").into(),
        profiles_hash: kpps_profiles::hash([]),
        articles: studies.iter().map(article).collect(),
        draws: None,
        complete: claims.len() == claimed,
        claims,
    }
}

/// The names of the pages of a [`document`]: those of its studies, and one of all if there are several. If
/// one of `others` was asked for, which have a page each, it is the only one.
pub fn pages(studies: &[Study], others: &[(bool, &str)]) -> Vec<String> {
    if let Some((_, name)) = others.iter().find(|(is_wanted, _)| *is_wanted) {
        return vec![(*name).to_owned()];
    }
    let names = studies.iter().map(|study| study.name.clone());
    names.chain((studies.len() > 1).then(|| "studies".to_owned())).collect()
}

/// How many claims were judged, in words.
pub fn judged(studies: &[Study], results: &documents::Study) -> String {
    let requested: usize = studies.iter().map(|study| study.claims.len()).sum();
    format!("{} of {requested} claims judged", results.claims.len())
}

/// The claims that were missed although they are arithmetic or constants are fitted on them, and the claims
/// that could not be judged; in words, if there are any. Of built-in studies the profiles say on which claims
/// constants are fitted; of others the kind does.
pub fn bad(study: &documents::Study) -> Option<String> {
    let constants = crate::fit::free_constants().unwrap_or_default();
    let built_in = crate::names();
    let is_fitted = |claim: &documents::Claim| match built_in.contains(&claim.study) {
        true => constants.iter().any(|constant| constant.claims.contains(&claim.id)),
        false => claim.kind == "fit",
    };
    let bad = study.claims.iter().filter(|claim| match claim.verdict {
        Verdict::Failed => true,
        Verdict::Miss => claim.kind == "exact" || is_fitted(claim),
        Verdict::Pass | Verdict::Predicted => false,
    });
    let bad: Vec<_> = bad.map(|claim| claim.id.as_str()).collect();
    (!bad.is_empty()).then(|| format!("claims missed or failed: {}", bad.join(", ")))
}
