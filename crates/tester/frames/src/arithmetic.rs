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

/// The numbers of some frames in what repeats after `count` frames: of those with the numbers `turns` of each
/// `all` frames, in their order until they repeat. `all` and `count` are more than 0.
pub fn numbers_of_turns(turns: &[usize], all: usize, count: u64) -> impl Iterator<Item = u64> {
    let all = all as u64;
    let rounds = count / common_divisor(count, all).max(1);
    (0..rounds).flat_map(move |round| turns.iter().map(move |turn| (*turn as u64 + round * all) % count))
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    #[test]
    fn some_frames_have_their_numbers() {
        let numbers: Vec<u64> = numbers_of_turns(&[0, 3], 4, 6).collect();
        assert_eq!(numbers, [0, 3, 4, 1, 2, 5]);
        assert_eq!(numbers_of_turns(&[1], 2, 2).collect::<Vec<_>>(), [1]);
    }

    #[test]
    fn divisors_and_multiples_are_common() {
        assert_eq!((common_divisor(12, 18), common_multiple(12, 18)), (6, 36));
        assert_eq!((common_divisor(0, 7), common_multiple(0, 7), common_multiple(0, 0)), (7, 0, 0));
        assert_eq!(common_multiple(u64::MAX, 2), u64::MAX);
    }
}
