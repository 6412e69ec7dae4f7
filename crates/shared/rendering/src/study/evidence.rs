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
/// bars. A figure that no draw moves says nothing, and is counted apart.
fn inside(evidence: &[&Claim]) -> Option<String> {
    let pairs = evidence.iter().flat_map(|claim| {
        let bar = |name| claim.values_p5_p95.get(name);
        claim.value_document.iter().filter_map(move |(name, stated)| Some((bar(name)?, *stated)))
    });
    let (still, moved): (Vec<_>, Vec<_>) = pairs.partition(|([low, high], _)| high <= low);
    let inside = moved.iter().filter(|([low, high], stated)| (*low..=*high).contains(stated)).count();
    let still = match still.len() {
        0 => String::new(),
        1 => "; 1 more is the same in all draws".to_owned(),
        more => format!("; {more} more are the same in all draws"),
    };
    (!moved.is_empty()).then(|| {
        format!(
            "Error bars (in parentheses, the 5th and the 95th percentile of draws of the uncertain constants): \
             {inside} of {} figures that a document states, and on which no constant was fitted, are inside{still}.",
            moved.len()
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

    #[test]
    fn a_figure_that_no_draw_moves_is_not_inside() {
        let figures =
            |names: &[(&str, f64)]| names.iter().map(|(name, v)| ((*name).to_owned(), *v)).collect();
        let claim = Claim {
            values: figures(&[("a", 2.0), ("b", 2.0), ("c", 0.0)]),
            value_document: figures(&[("a", 2.5), ("b", 3.5), ("c", 0.0)]),
            values_p5_p95: [("a", [1.0, 3.0]), ("b", [1.0, 3.0]), ("c", [0.0, 0.0])]
                .map(|(name, range)| (name.to_owned(), range))
                .into(),
            ..claim("order", Verdict::Pass, &[])
        };
        let said = inside(&[&claim]).unwrap_or_default();
        assert!(said.contains("1 of 2 figures") && said.contains("1 more is the same"), "{said}");
        assert_eq!(inside(&[&Claim { values_p5_p95: BTreeMap::new(), ..claim.clone() }]), None);
    }
}
