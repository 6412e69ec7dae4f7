//! Common divisors and multiples: when things that repeat begin together again.

/// The greatest common divisor; of 0 and a number, the number.
pub const fn common_divisor(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { common_divisor(b, a % b) }
}

/// The least common multiple of two numbers above 0; the largest number if it is larger.
pub const fn common_multiple(a: u64, b: u64) -> u64 {
    match common_divisor(a, b) {
        0 => 0,
        divisor => (a / divisor).saturating_mul(b),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn divisors_and_multiples_are_common() {
        assert_eq!((common_divisor(12, 18), common_multiple(12, 18)), (6, 36));
        assert_eq!((common_divisor(0, 7), common_multiple(0, 7), common_multiple(0, 0)), (7, 0, 0));
        assert_eq!(common_multiple(u64::MAX, 2), u64::MAX);
    }
}
