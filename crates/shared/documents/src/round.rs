//! Numbers as they are published: rounded, so that equal runs give equal bytes.

pub(crate) const TENTHS: f64 = 1e1;
pub(crate) const TEN_THOUSANDTHS: f64 = 1e4;
pub(crate) const MILLIONTHS: f64 = 1e6;

/// Rounds to one part in `scale`, half away from zero. Only correctly rounded operations are used, so every
/// machine gets the same. A value that is not finite is unchanged: [`to_json`](crate::to_json) refuses it.
pub(crate) fn rounded_to(value: f64, scale: f64) -> f64 {
    // Adding 0.0 turns -0.0, which prints with its sign, into 0.0.
    (value * scale).round() / scale + 0.0
}

/// The same of a quantity that may be unknown: `None` if the value is not finite.
pub(crate) fn finite(value: f64, scale: f64) -> Option<f64> {
    Some(rounded_to(value, scale)).filter(|rounded| rounded.is_finite())
}

/// The value to 6 decimals. A value that is not finite is unchanged: [`to_json`](crate::to_json) refuses it.
pub fn rounded(value: f64) -> f64 {
    rounded_to(value, MILLIONTHS)
}

/// The value to 6 decimals; `None` if it is not finite: an unknown value.
pub fn known(value: f64) -> Option<f64> {
    finite(value, MILLIONTHS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn rounding_twice_changes_nothing(
            value in -1e7f64..1e7,
            scale in prop::sample::select(&[TENTHS, TEN_THOUSANDTHS, MILLIONTHS]),
        ) {
            let once = rounded_to(value, scale);
            prop_assert_eq!(rounded_to(once, scale), once);
            prop_assert!((once - value).abs() <= 0.51 / scale);
        }
    }

    #[test]
    fn what_is_no_number_never_becomes_0() {
        for value in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
            assert!(!rounded(value).is_finite() && finite(value, TENTHS).is_none());
        }
        assert_eq!((rounded(-0.0).is_sign_positive(), finite(0.25, TENTHS)), (true, Some(0.3)));
    }
}
