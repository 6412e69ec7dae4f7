//! Separates the claims of a study that are evidence for the model from the others.

use kpps_documents::study::{Claim, Verdict};

/// The kinds of claims that are no evidence, each with the reason.
const APART: [(&str, &str); 4] = [
    ("fit", "constants were chosen so that they hold"),
    ("exact", "arithmetic"),
    ("setup", "facts about the set-up"),
    ("wish", "asked for by the documents, and built in this project"),
];

/// How many of these claims hold: "64 of 75".
pub(crate) fn held<'a>(claims: impl Iterator<Item = &'a Claim>) -> String {
    let (all, held) = claims
        .fold((0, 0), |(all, held), claim| (all + 1, held + usize::from(claim.verdict == Verdict::Pass)));
    format!("{held} of {all}")
}

/// The claims that are evidence, and the other claims, each in their order.
pub(crate) fn parts<'a>(claims: &[&'a Claim]) -> [Vec<&'a Claim>; 2] {
    let (evidence, apart) = claims.iter().copied().partition(|claim| claim.is_evidence());
    [evidence, apart]
}

/// The findings, in sentences: the evidence, the blind predictions, and the claims that are counted apart.
pub(crate) fn sentences(claims: &[&Claim]) -> Vec<String> {
    let [evidence, apart] = parts(claims);
    let count = |verdict| evidence.iter().filter(|claim| claim.verdict == verdict).count();
    let [predicted, failed] = [Verdict::Predicted, Verdict::Failed].map(count);
    let mut sentences = Vec::new();
    if !evidence.is_empty() {
        let mut said = format!(
            "Evidence: {} claims hold that no constant was fitted on",
            held(evidence.iter().copied())
        );
        for (verdict, number) in [("predicted, with a result not known yet", predicted), ("failed", failed)] {
            if number > 0 {
                said += &format!("; {number} {verdict}");
            }
        }
        sentences.push(said + ".");
    }
    sentences.extend(inside(&evidence));
    let results: Vec<_> = claims.iter().flat_map(|claim| &claim.results).collect();
    if !results.is_empty() {
        let count = |is: fn(&kpps_documents::study::Foretold) -> bool| {
            results.iter().filter(|result| is(result)).count()
        };
        sentences.push(format!(
            "Predicted blind: {} of {} results were right; the model that was revised afterwards has {}.",
            count(|result| result.blind),
            results.len(),
            count(|result| result.revised)
        ));
    }
    let kinds = APART.iter().filter_map(|(kind, why)| {
        let of_kind: Vec<_> = apart.iter().copied().filter(|claim| claim.kind == *kind).collect();
        (!of_kind.is_empty()).then(|| format!("{kind} {} ({why})", held(of_kind.into_iter())))
    });
    let kinds = kinds.collect::<Vec<_>>().join(", ");
    if !kinds.is_empty() {
        sentences.push(format!("No evidence, and counted apart: {kinds}."));
    }
    sentences
}

/// How many figures of documents are within the model's error bars, in a sentence; nothing without error
/// bars.
fn inside(evidence: &[&Claim]) -> Option<String> {
    let pairs = evidence.iter().flat_map(|claim| {
        claim
            .value_document
            .iter()
            .filter_map(|(name, stated)| Some((claim.values_p5_p95.get(name)?, *stated)))
    });
    let (all, inside) = pairs.fold((0, 0), |(all, inside), ([low, high], stated)| {
        (all + 1, inside + usize::from((*low..=*high).contains(&stated)))
    });
    (all > 0).then(|| {
        format!(
            "Error bars: {inside} of {all} figures that a document states, and on which no constant was fitted, are \
             between the 5th and the 95th percentile of the draws."
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use kpps_documents::study::Foretold;
    use std::collections::BTreeMap;

    fn claim(kind: &str, verdict: Verdict, blind: &[bool]) -> Claim {
        let result =
            |&blind: &bool| Foretold { name: String::new(), holds: String::new(), blind, revised: true };
        Claim {
            study: "s".into(),
            id: "S1".into(),
            says: String::new(),
            kind: kind.into(),
            expected: String::new(),
            verdict,
            values: BTreeMap::new(),
            values_p5_p95: BTreeMap::new(),
            value_document: BTreeMap::new(),
            values_blind: BTreeMap::new(),
            results: blind.iter().map(result).collect(),
            why: String::new(),
        }
    }

    #[test]
    fn what_was_fitted_is_no_evidence() {
        let claims = [
            claim("fit", Verdict::Pass, &[]),
            claim("order", Verdict::Pass, &[]),
            claim("setup", Verdict::Pass, &[]),
            claim("kept-back", Verdict::Miss, &[true, false]),
            claim("exact", Verdict::Pass, &[]),
            claim("wish", Verdict::Miss, &[]),
            claim("order", Verdict::Failed, &[]),
        ];
        let claims: Vec<&Claim> = claims.iter().collect();
        assert_eq!(
            sentences(&claims),
            [
                "Evidence: 1 of 3 claims hold that no constant was fitted on; 1 failed.",
                "Predicted blind: 1 of 2 results were right; the model that was revised afterwards has 2.",
                "No evidence, and counted apart: fit 1 of 1 (constants were chosen so that they hold), exact 1 of 1 \
                 (arithmetic), setup 1 of 1 (facts about the set-up), wish 0 of 1 (asked for by the documents, and \
                 built in this project).",
            ]
        );
        let only_fit = [claims[0]];
        assert_eq!(sentences(&only_fit).len(), 1, "nothing is said of evidence where there is none");
    }

    /// A kind that this page does not know would be left out of all sentences.
    #[test]
    fn each_kind_is_counted_once() {
        for kind in ["fit", "exact", "order", "setup", "wish", "kept-back"] {
            let one = claim(kind, Verdict::Pass, &[]);
            let said = sentences(&[&one]);
            assert!(said.len() == 1 && said[0].contains("1 of 1"), "{kind}: {said:?}");
        }
    }
}
