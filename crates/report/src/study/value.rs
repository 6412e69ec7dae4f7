//! Values as text.

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
