//! Error bars in words: their meaning, and their limits.

/// The meaning of the error bars of these draws, and their limits, in a sentence each; nothing without draws.
pub(crate) fn error_bars(draws: Option<usize>) -> Option<[String; 2]> {
    let draws = draws?;
    Some([
        format!(
            "p5 to p95: of {draws} draws of the model's uncertain constants, nine of ten are between these rates."
        ),
        "What the model leaves out is not in them.".to_owned(),
    ])
}
