//! Values as text.

use kpps_documents::study::Claim;
use std::collections::BTreeMap;

/// A value as text: "680000", "0.513", "1.02e-6".
pub(crate) fn value(number: f64) -> String {
    match number.abs() {
        0.0 => "0".to_owned(),
        size if size >= 1000.0 => format!("{number:.0}"),
        size if size >= 100.0 => format!("{number:.1}"),
        size if size >= 1.0 => format!("{number:.2}"),
        size if size >= 0.001 => format!("{number:.4}"),
        _ => format!("{number:.2e}"),
    }
}

/// A measured figure of a claim as text, with its error bar if it has one: "507200 (431000 to 583000)".
pub(crate) fn figure(claim: &Claim, name: &str, number: f64) -> String {
    match claim.values_p5_p95.get(name) {
        Some([low, high]) => format!("{} ({} to {})", value(number), value(*low), value(*high)),
        None => value(number),
    }
}

/// Whether a prediction was right, in a word.
pub(crate) fn hit(hit: bool) -> &'static str {
    if hit { "hit" } else { "miss" }
}

/// The figures of a claim, if the document states any or if any was predicted: a name, the value predicted
/// blind, the document's value, and today's; and whether any was predicted. No rows for other claims.
pub(crate) fn columns(claim: &Claim) -> (bool, Vec<[String; 4]>) {
    let cell = |of: &BTreeMap<String, f64>, name: &str| of.get(name).map_or("–".into(), |v| value(*v));
    let row = |(name, now): (&String, &f64)| {
        let now = figure(claim, name, *now);
        [name.clone(), cell(&claim.values_blind, name), cell(&claim.value_document, name), now]
    };
    let with_blind = !claim.values_blind.is_empty();
    let any = with_blind || !claim.value_document.is_empty();
    (with_blind, claim.values.iter().filter(|_| any).map(row).collect())
}

/// Above this share of 1 a cell is worse, below its inverse better.
const WORSE: f64 = 1.02;

/// "worse", "same" or "better", of a ratio that is better when smaller.
pub(crate) fn side(value: f64) -> &'static str {
    match value {
        more if more > WORSE => "worse",
        less if less * WORSE < 1.0 => "better",
        _ => "same",
    }
}
