//! Numbers as they are published: rounded, so that equal runs give equal bytes.

pub(crate) const TENTHS: f64 = 1e1;
pub(crate) const TEN_THOUSANDTHS: f64 = 1e4;
pub(crate) const MILLIONTHS: f64 = 1e6;

/// Rounds to one part in `scale`, half away from zero. Only correctly rounded operations are used,
/// so every machine gets the same.
pub(crate) fn rounded_to(value: f64, scale: f64) -> f64 {
    let rounded = (value * scale).round() / scale;
    // Adding 0.0 turns -0.0, which prints with its sign, into 0.0.
    if rounded.is_finite() { rounded + 0.0 } else { 0.0 }
}

/// The value to 6 decimals; 0 if it is not finite.
pub fn rounded(value: f64) -> f64 {
    rounded_to(value, MILLIONTHS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn rounding_twice_changes_nothing(value in -1e7f64..1e7, scale in prop::sample::select(&[TENTHS, TEN_THOUSANDTHS, MILLIONTHS])) {
            let once = rounded_to(value, scale);
            prop_assert_eq!(rounded_to(once, scale), once);
            prop_assert!((once - value).abs() <= 0.51 / scale);
        }
    }
}
