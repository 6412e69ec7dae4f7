//! Rank tests of the difference of two samples. They assume nothing about the distribution of a rate or a
//! latency, and a single disturbed trial cannot decide.
//!
//! The test is the exact permutation test of the rank sum (Wilcoxon 1945, Mann and Whitney 1947); equal
//! values share their ranks. The estimate of the shift is the median of all differences, with its confidence
//! interval (Hodges and Lehmann 1963). [`holm`] corrects the p-values of several comparisons for the
//! family-wise error rate (Holm 1979).

use std::f64::consts::SQRT_2;

/// The test is exact up to this many values of both samples together; above, the rank sum is approximated by
/// a normal distribution.
const EXACT: usize = 120;

/// The difference of two samples.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Shift {
    /// The median of all differences between a value of the second sample and one of the first.
    pub by: f64,
    /// The confidence interval of the shift; `None` if there are too few values for one.
    pub interval: Option<(f64, f64)>,
    /// The p-value: the probability that two samples of one distribution differ this much or more, two-sided.
    pub p: f64,
}

/// The shift of `b` from `a`. The confidence interval misses the true shift with probability `error`. `None`
/// if a sample is empty or a value is not finite.
pub fn shift(a: &[f64], b: &[f64], error: f64) -> Option<Shift> {
    if a.is_empty() || b.is_empty() || a.iter().chain(b).any(|value| !value.is_finite()) {
        return None;
    }
    let mut differences: Vec<f64> = b.iter().flat_map(|b| a.iter().map(move |a| b - a)).collect();
    differences.sort_by(f64::total_cmp);
    let interval = beyond(a.len(), b.len(), error).and_then(|beyond| {
        let high = differences.len().checked_sub(beyond)?;
        (beyond < high).then(|| (differences[beyond], differences[high - 1]))
    });
    Some(Shift { by: median_of_sorted(&differences), interval, p: rank_sum(a, b) })
}

/// The median of a sample; `None` if it is empty.
pub fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    (!sorted.is_empty()).then(|| median_of_sorted(&sorted))
}

/// The range in which this share of a sample is, as much of the rest below as above it: for 0.9 the 5th and
/// the 95th percentile, interpolated between values (Hyndman and Fan 1996, definition 7). `None` if the
/// sample is empty.
pub fn central(values: &[f64], share: f64) -> Option<[f64; 2]> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let last = sorted.len().checked_sub(1)?;
    let tail = (1.0 - share) / 2.0;
    Some([tail, 1.0 - tail].map(|at| {
        let place = at.clamp(0.0, 1.0) * last as f64;
        let (below, above) = (sorted[place.floor() as usize], sorted[place.ceil() as usize]);
        below + (above - below) * place.fract()
    }))
}

fn median_of_sorted(sorted: &[f64]) -> f64 {
    let (below, above) = (sorted[(sorted.len() - 1) / 2], sorted[sorted.len() / 2]);
    below + (above - below) / 2.0
}

/// The smallest p-value that samples of these sizes can have: all of one below all of the other.
pub fn least_p(first: usize, second: usize) -> f64 {
    // Ways to choose the places of the first among all.
    let ways = (1..=first).map(|k| (second + k) as f64 / k as f64).product::<f64>();
    (2.0 / ways).min(1.0)
}

/// Holm's adjusted p-values, in the same order. Compare each with the family-wise error
/// rate.
pub fn holm(chances: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..chances.len()).collect();
    order.sort_by(|&i, &j| chances[i].total_cmp(&chances[j]));
    let mut adjusted = vec![1.0; chances.len()];
    let mut most = 0.0_f64;
    for (rank, &index) in order.iter().enumerate() {
        most = most.max(chances[index] * (chances.len() - rank) as f64);
        adjusted[index] = most.min(1.0);
    }
    adjusted
}

/// Twice the rank of each value of both samples, equal ones sharing the mean of theirs: the first sample's,
/// and all.
fn doubled_ranks(a: &[f64], b: &[f64]) -> (Vec<usize>, Vec<usize>) {
    let mut all: Vec<(f64, bool)> =
        a.iter().map(|&value| (value, true)).chain(b.iter().map(|&value| (value, false))).collect();
    all.sort_by(|x, y| x.0.total_cmp(&y.0));
    let (mut first, mut ranks) = (Vec::new(), Vec::new());
    for equal in all.chunk_by(|x, y| x.0 == y.0) {
        let before = ranks.len();
        // From before + 1 to before + n.
        let doubled = 2 * before + equal.len() + 1;
        first.extend(equal.iter().filter(|(_, of_first)| *of_first).map(|_| doubled));
        ranks.extend(equal.iter().map(|_| doubled));
    }
    (first, ranks)
}

/// The probability of a rank sum at least as far from its mean as this one.
fn rank_sum(a: &[f64], b: &[f64]) -> f64 {
    let (first, ranks) = doubled_ranks(a, b);
    let sum: usize = first.iter().sum();
    // Both are whole: the mean of the doubled sum is the sample's size times one more than all values.
    let far = sum.abs_diff(a.len() * (ranks.len() + 1));
    if ranks.len() <= EXACT {
        let mean = a.len() * (ranks.len() + 1);
        let chances = chances_of_sums(&ranks, a.len());
        let all: f64 = chances.iter().sum();
        let as_far = chances.iter().enumerate().filter(|(sum, _)| sum.abs_diff(mean) >= far);
        return (as_far.map(|(_, ways)| ways).sum::<f64>() / all).min(1.0);
    }
    // The variance of the sum of `n` of these ranks, drawn without replacement.
    let (n, m, all) = (a.len() as f64, b.len() as f64, ranks.len() as f64);
    let spread: f64 = ranks.iter().map(|&rank| (rank as f64 - (all + 1.0)).powi(2)).sum();
    let deviation = (n * m * spread / (all * (all - 1.0))).sqrt();
    if deviation == 0.0 { 1.0 } else { libm::erfc((far as f64 - 1.0).max(0.0) / deviation / SQRT_2) }
}

/// For each sum, in how many ways `count` of these numbers have it.
fn chances_of_sums(numbers: &[usize], count: usize) -> Vec<f64> {
    let most: usize = numbers.iter().sum();
    let mut ways = vec![vec![0.0; most + 1]; count + 1];
    ways[0][0] = 1.0;
    let mut reached = 0;
    for &number in numbers {
        reached += number;
        for chosen in (1..=count).rev() {
            let (without, with) = ways.split_at_mut(chosen);
            let (without, with) = (&without[chosen - 1], &mut with[0]);
            for sum in number..=reached {
                with[sum] += without[sum - number];
            }
        }
    }
    ways.swap_remove(count)
}

/// How many of the ordered differences lie outside the interval on each side; `None` if there are too few
/// values for the error.
fn beyond(first: usize, second: usize, error: f64) -> Option<usize> {
    let all = first + second;
    if all > EXACT {
        let (n, m) = (first as f64, second as f64);
        let deviation = (n * m * (n + m + 1.0) / 12.0).sqrt();
        let below = (0..=first * second / 2).rev();
        // As many as a normal count falls short of in half of the error.
        let chance =
            |count: usize| libm::erfc((n * m / 2.0 - count as f64 - 0.5).max(0.0) / deviation / SQRT_2) / 2.0;
        return below.map(|count| (count, chance(count))).find(|(_, p)| *p <= error / 2.0).map(|(c, _)| c);
    }
    let ranks: Vec<usize> = (1..=all).collect();
    let chances = chances_of_sums(&ranks, first);
    let whole: f64 = chances.iter().sum();
    // The smallest rank sum leaves no pair inverted.
    let least = first * (first + 1) / 2;
    let mut below = 0.0;
    let sure = chances.iter().skip(least).take_while(|ways| {
        below += **ways;
        below / whole <= error / 2.0
    });
    sure.count().checked_sub(1)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::random::Random;

    fn near(a: f64, b: f64) -> bool {
        (a - b).abs() < 1e-6
    }

    #[test]
    fn a_central_range_leaves_out_as_much_below_as_above() {
        let values: Vec<f64> = (0..=100).rev().map(f64::from).collect();
        let [low, high] = central(&values, 0.9).unwrap_or_default();
        assert!((low - 5.0).abs() < 1e-9 && (high - 95.0).abs() < 1e-9, "{low} {high}");
        assert_eq!(central(&[3.0], 0.9), Some([3.0, 3.0]));
        assert_eq!(central(&[1.0, 2.0], 0.0), Some([1.5, 1.5]));
        assert_eq!(central(&[], 0.9), None);
    }

    #[test]
    fn two_small_samples() {
        let a = [1.1, 2.2, 3.3, 4.4, 5.5];
        let b = [4.0, 5.0, 6.0, 7.0, 8.0];
        // Three pairs of 25 are the other way round than the rest.
        let found = shift(&a, &b, 0.05).unwrap();
        assert!(near(found.p, 2.0 * count_as_far(5, 5, 3) / 252.0), "{found:?}");
        assert!(near(found.by, 2.7), "{found:?}");
        let (low, high) = found.interval.unwrap();
        assert!(low < 2.7 && high > 2.7 && low >= 4.0 - 5.5 && high <= 8.0 - 1.1);
        assert!(near(least_p(5, 5), 2.0 / 252.0) && near(least_p(1, 1), 1.0) && near(least_p(3, 3), 0.1));
    }

    /// Arrangements of `n` and `m` with at most `most` pairs inverted, counted one by one.
    fn count_as_far(n: usize, m: usize, most: usize) -> f64 {
        let mut count = 0.0;
        for set in 0_u32..1 << (n + m) {
            if set.count_ones() as usize == n {
                let places: Vec<usize> = (0..n + m).filter(|at| set >> at & 1 == 1).collect();
                let pairs: usize = places.iter().enumerate().map(|(before, at)| at - before).sum();
                count += f64::from(u8::from(pairs <= most));
            }
        }
        count
    }

    #[test]
    fn every_small_case_as_counted_one_by_one() {
        for (n, m) in [(1, 4), (3, 3), (4, 6), (6, 5)] {
            let b: Vec<f64> = (0..m).map(|k| f64::from(k as u32) + 0.5).collect();
            for below in 0..=m / 2 {
                // One value of `a` has `below` values of `b` below it, the others none.
                let mut a: Vec<f64> = (0..n - 1).map(|k| -f64::from(k as u32) - 1.0).collect();
                a.push(below as f64);
                let expected = (2.0 * count_as_far(n, m, below) / count_as_far(n, m, n * m)).min(1.0);
                let p = shift(&a, &b, 0.05).unwrap().p;
                assert!(near(p, expected), "{n} {m} {below}: {p}, {expected}");
            }
        }
    }

    #[test]
    fn equal_values_share_ranks_and_equal_samples_do_not_differ() {
        assert_eq!(doubled_ranks(&[1.0, 2.0], &[2.0, 3.0]), (vec![2, 5], vec![2, 5, 5, 8]));
        let found = shift(&[7.0; 10], &[7.0; 12], 0.05).unwrap();
        assert_eq!((found.by, found.p, found.interval), (0.0, 1.0, Some((0.0, 0.0))));
        let found = shift(&[7.0; 100], &[7.0; 120], 0.05).unwrap();
        assert_eq!((found.by, found.p), (0.0, 1.0));
        assert_eq!(shift(&[], &[1.0], 0.05), None);
        assert_eq!(shift(&[f64::NAN], &[1.0], 0.05), None);
        assert_eq!(shift(&[1.0], &[2.0], 0.05), Some(Shift { by: 1.0, interval: None, p: 1.0 }));
    }

    /// The exact and the normal test agree where both are available, and neither finds more than it should
    /// where there is nothing: with heavy tails, of samples of different sizes.
    #[test]
    fn false_findings_are_as_rare_as_promised_and_intervals_as_wide() {
        let mut random = Random::new(1);
        for (n, m, rounds) in [(5, 8, 2000), (70, 60, 400)] {
            let (mut found, mut missed) = (0, 0);
            for _ in 0..rounds {
                let mut sample =
                    |count| -> Vec<f64> { (0..count).map(|_| 1.0 / random.unit().max(1e-9)).collect() };
                let (a, b) = (sample(n), sample(m));
                let moved: Vec<f64> = b.iter().map(|b| b + 3.0).collect();
                let shift = shift(&a, &moved, 0.05).unwrap();
                let (low, high) = shift.interval.unwrap();
                missed += u32::from(!(low..=high).contains(&3.0));
                found += u32::from(super::shift(&a, &b, 0.05).unwrap().p <= 0.05);
            }
            let most = 0.05 * f64::from(rounds) + 3.0 * (0.05 * 0.95 * f64::from(rounds)).sqrt();
            assert!(f64::from(found) <= most && f64::from(missed) <= most, "{n}: {found} {missed} {most}");
            // The test has power, too.
            assert!(f64::from(found) >= 0.01 * f64::from(rounds), "{n}: {found}");
        }
    }

    #[test]
    fn a_real_difference_is_found() {
        let mut random = Random::new(2);
        for (n, m) in [(8, 8), (80, 80)] {
            let a: Vec<f64> = (0..n).map(|_| 100.0 + random.unit()).collect();
            let b: Vec<f64> = (0..m).map(|_| 98.0 + random.unit()).collect();
            let shift = shift(&a, &b, 0.05).unwrap();
            assert!(shift.p < 0.001 && (shift.by + 2.0).abs() < 0.7, "{shift:?}");
            let (low, high) = shift.interval.unwrap();
            assert!(low < shift.by && shift.by < high && high < 0.0);
        }
    }

    #[test]
    fn several_comparisons_pay_for_each_other() {
        let adjusted = holm(&[0.01, 0.04, 0.03, 0.5]);
        let expected = [0.04, 0.09, 0.09, 0.5];
        assert!(adjusted.iter().zip(expected).all(|(a, b)| near(*a, b)), "{adjusted:?}");
        assert_eq!(holm(&[]), [0.0; 0]);
        assert_eq!(holm(&[0.9, 0.9]), [1.0, 1.0]);
        assert_eq!((median(&[3.0, 1.0]), median(&[])), (Some(2.0), None));
    }
}
