//! Patterns: the values that a header field takes from frame to frame.

use crate::Mac;
use crate::arithmetic::{common_multiple, numbers_of_turns};
use crate::flows::mixed;
use alloc::string::{String, ToString};
use alloc::sync::Arc;
use core::fmt;
use core::net::{Ipv4Addr, Ipv6Addr};

/// The most values of a pattern that come in turn. A list holds each of them in memory.
pub const MOST_VALUES: u32 = 1 << 24;

/// The most values that [`Pattern::of_turns`] lists for all parts together.
pub const MOST_LISTED: u64 = 1 << 16;

/// The values of a field, by number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Pattern {
    /// These values in turn; a single one is the same in all frames. Never empty.
    List(Arc<[u128]>),
    /// Values from `first` on, each larger than the one before by `step`. They wrap at the field's width, so
    /// a step down is a large number. After `count` values, which are more than 0, the first follows.
    Steps {
        /// The first value.
        first: u128,
        /// The difference of a value from the one before.
        step: u128,
        /// The number of values.
        count: u32,
    },
    /// Values from `least` to `most`, drawn at random, the same in every run. After `count` values, if it is
    /// given, the first follows.
    Random {
        /// The smallest value.
        least: u128,
        /// The largest value.
        most: u128,
        /// Other seeds give other values.
        seed: u64,
        /// The number of values after which they repeat, more than 0.
        count: Option<u32>,
    },
}

impl Pattern {
    /// The same value in all frames.
    pub fn one(value: u128) -> Self {
        Self::List([value].into())
    }

    /// The number of values after which they repeat; `None` if they do not.
    pub fn count(&self) -> Option<u32> {
        match self {
            Self::List(values) => Some(values.len().max(1) as u32),
            Self::Steps { count, .. } => Some((*count).max(1)),
            Self::Random { count, .. } => *count,
        }
    }

    /// Whether all frames have the same value.
    pub fn is_one(&self) -> bool {
        self.count() == Some(1)
    }

    /// The value of this number. A field takes as many of its lowest bits as it has.
    #[inline]
    pub fn value(&self, n: u64) -> u128 {
        let turn = |count: u32| n % u64::from(count.max(1));
        match self {
            Self::List(values) => {
                let turn = turn(values.len() as u32) as usize;
                values.get(turn).copied().unwrap_or(0)
            }
            Self::Steps { first, step, count } => {
                first.wrapping_add(step.wrapping_mul(u128::from(turn(*count))))
            }
            Self::Random { least, most, seed, count } => {
                let n = count.map_or(n, turn);
                let range = (most - least).wrapping_add(1);
                let drawn = random(n, *seed);
                // All values of 128 bits.
                if range == 0 { drawn } else { least + drawn % range }
            }
        }
    }

    /// The values of some frames: those with the numbers `turns` of each `all` frames, which is more than 0.
    /// `None` if all parts of the frames together would list more than [`MOST_LISTED`] values, or if the
    /// values never repeat.
    pub fn of_turns(&self, turns: &[usize], all: usize) -> Option<Self> {
        let count = u64::from(self.count()?);
        if let (Self::Steps { first, step, .. }, &[turn]) = (self, turns)
            && count.is_multiple_of(all as u64)
        {
            return Some(Self::Steps {
                first: first.wrapping_add(step.wrapping_mul(turn as u128)),
                step: step.wrapping_mul(all as u128),
                count: (count / all as u64) as u32,
            });
        }
        if self.is_one() || turns.is_empty() {
            return Some(self.clone());
        }
        let is_listed = common_multiple(count, all as u64) <= MOST_LISTED;
        let values = || numbers_of_turns(turns, all, count).map(|n| self.value(n)).collect();
        is_listed.then(|| Self::List(values()))
    }

    /// The number of values that it keeps in memory.
    pub fn listed(&self) -> usize {
        if let Self::List(values) = self { values.len() } else { 0 }
    }

    /// Whether all values fit into a field of `bits` bits. Steps wrap at the field's width.
    pub fn fits(&self, bits: u32) -> bool {
        let most = most_of(bits);
        match self {
            Self::List(values) => values.iter().all(|value| *value <= most),
            Self::Steps { first, .. } => *first <= most,
            Self::Random { most: largest, .. } => *largest <= most,
        }
    }

    /// Reads a pattern: `VALUE`, `FIRST-LAST` (up or down), `FIRST-LAST/STEP`, `random:FIRST-LAST` or
    /// `random:FIRST-LAST/SEED`, with values in this format.
    ///
    /// # Errors
    /// [`BadPattern`].
    pub fn read(text: &str, format: Format) -> Result<Self, BadPattern> {
        let bad = || BadPattern { text: text.to_string(), format };
        let random = text.strip_prefix("random:");
        let range = random.unwrap_or(text);
        let (range, number) = match range.rsplit_once('/') {
            Some((range, number)) => (range, Some(number.trim().parse::<u64>().map_err(|_| bad())?)),
            None => (range, None),
        };
        let Some((first, last)) = range.split_once('-') else {
            let only = random.is_none() && number.is_none();
            return format.read(range).filter(|_| only).map(Self::one).ok_or_else(bad);
        };
        let [first, last] = [first, last].map(|value| format.read(value));
        let (first, last) = first.zip(last).ok_or_else(bad)?;
        if random.is_some() {
            return match first <= last {
                true => Ok(Self::Random { least: first, most: last, seed: number.unwrap_or(0), count: None }),
                false => Err(bad()),
            };
        }
        let step = u128::from(number.unwrap_or(1));
        if step == 0 {
            return Err(bad());
        }
        let count = first.abs_diff(last) / step + 1;
        let count = u32::try_from(count).ok().filter(|count| *count <= MOST_VALUES).ok_or_else(bad)?;
        let step = if first <= last { step } else { step.wrapping_neg() };
        Ok(Self::Steps { first, step, count })
    }
}

/// The largest number of `bits` bits.
pub const fn most_of(bits: u32) -> u128 {
    if bits >= u128::BITS { u128::MAX } else { (1 << bits) - 1 }
}

/// 128 random bits of a number.
#[inline]
fn random(n: u64, seed: u64) -> u128 {
    // As SplitMix64 steps.
    let mix = |value: u64| mixed(value.wrapping_add(0x9e37_79b9_7f4a_7c15));
    let low = mix(n ^ mix(seed));
    u128::from(mix(low)) << 64 | u128::from(low)
}

/// How the values of a field are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// A number, decimal or hexadecimal with `0x` before it.
    Number,
    /// A MAC address.
    Mac,
    /// An IPv4 address.
    Ipv4,
    /// An IPv6 address.
    Ipv6,
}

impl Format {
    /// The value that a text says; `None` if it is none of this format.
    pub fn read(self, text: &str) -> Option<u128> {
        let text = text.trim();
        match self {
            Self::Number => match text.strip_prefix("0x") {
                Some(digits) => u128::from_str_radix(digits, 16).ok(),
                None => text.parse().ok(),
            },
            Self::Mac => text
                .parse()
                .ok()
                .map(|Mac([a, b, c, d, e, f])| u64::from_be_bytes([0, 0, a, b, c, d, e, f]).into()),
            Self::Ipv4 => text.parse::<Ipv4Addr>().ok().map(|it| u32::from(it).into()),
            Self::Ipv6 => text.parse::<Ipv6Addr>().ok().map(u128::from),
        }
    }

    /// The format with an example.
    const fn words(self) -> &'static str {
        match self {
            Self::Number => "a number as 7 or 0x1f",
            Self::Mac => "a MAC address as 02:00:00:00:00:01",
            Self::Ipv4 => "an IPv4 address as 198.18.0.1",
            Self::Ipv6 => "an IPv6 address as 2001:2::1",
        }
    }
}

/// A text that is no pattern of its format.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadPattern {
    text: String,
    format: Format,
}

impl fmt::Display for BadPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "'{}' is no pattern: give {}, FIRST-LAST, FIRST-LAST/STEP or random:FIRST-LAST (at most {MOST_VALUES} values, except at random)",
            self.text,
            self.format.words()
        )
    }
}

impl core::error::Error for BadPattern {}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use alloc::vec::Vec;
    use proptest::prelude::*;

    fn values(text: &str, format: Format, most: u64) -> Vec<u128> {
        let pattern = Pattern::read(text, format).unwrap();
        (0..most).map(|n| pattern.value(n)).collect()
    }

    #[test]
    fn patterns_are_read_and_have_their_values() {
        assert_eq!(values("7", Format::Number, 3), [7, 7, 7]);
        assert_eq!(values("0x10-18", Format::Number, 4), [16, 17, 18, 16]);
        assert_eq!(values("9-3/3", Format::Number, 4), [9, 6, 3, 9]);
        assert_eq!(values("1-10/4", Format::Number, 4), [1, 5, 9, 1]);
        assert_eq!(values("10.0.0.255-10.0.1.0", Format::Ipv4, 2), [0x0a00_00ff, 0x0a00_0100]);
        assert_eq!(values("02:00:00:00:00:01", Format::Mac, 1), [0x0200_0000_0001]);
        assert_eq!(values("::5-::4", Format::Ipv6, 3), [5, 4, 5]);
        let drawn = values("random:5-9", Format::Number, 500);
        assert!((5..=9).all(|value| drawn.iter().filter(|it| **it == value).count() > 50), "{drawn:?}");
        assert_eq!(drawn, values("random:5-9/0", Format::Number, 500));
        assert_ne!(drawn, values("random:5-9/1", Format::Number, 500));
        for bad in ["", "-", "7-", "x", "1-9/0", "random:7", "random:9-7", "5/2", "0-99999999"] {
            assert!(Pattern::read(bad, Format::Number).is_err(), "{bad}");
        }
        assert!(Pattern::read("10.0.0.1", Format::Number).is_err());
        let endless = Pattern::Random { least: 0, most: 9, seed: 1, count: None };
        assert_eq!(endless.of_turns(&[0], 2), None);
        assert_eq!(Pattern::one(7).of_turns(&[3], 5), Some(Pattern::one(7)));
        let all = Pattern::Random { least: 0, most: u128::MAX, seed: 1, count: Some(2) };
        assert!(all.value(0) != all.value(1) && all.value(0) == all.value(2));
    }

    proptest! {
        /// Some frames of a pattern have the values that they have in the whole one.
        #[test]
        fn values_of_turns_are_those_of_the_whole(
            kind in 0..3, count in 1u32..50, turns in prop::collection::btree_set(0usize..20, 1..6), more in 0usize..5, n in 0usize..200,
        ) {
            let pattern = match kind {
                0 => Pattern::List((0..count).map(|it| u128::from(it * 7 % 13)).collect()),
                1 => Pattern::Steps { first: 3, step: 5_u128.wrapping_neg(), count },
                _ => Pattern::Random { least: 1, most: 9, seed: 4, count: Some(count) },
            };
            let turns: Vec<usize> = turns.into_iter().collect();
            let all = turns[turns.len() - 1] + 1 + more;
            let some = pattern.of_turns(&turns, all).unwrap();
            let whole = turns[n % turns.len()] + n / turns.len() * all;
            prop_assert_eq!(some.value(n as u64), pattern.value(whole as u64));
        }

        /// Every value of a range comes once in a turn, and stays in the range.
        #[test]
        fn a_range_has_each_value_once(first in 0u64..500, last in 0u64..500) {
            let text = alloc::format!("{first}-{last}");
            let count = first.abs_diff(last) + 1;
            let mut all = values(&text, Format::Number, count);
            prop_assert_eq!((all[0], all[count as usize - 1]), (first.into(), last.into()));
            all.sort_unstable();
            all.dedup();
            prop_assert_eq!(all.len() as u64, count);
            let range = u128::from(first.min(last))..=u128::from(first.max(last));
            prop_assert!(all.iter().all(|value| range.contains(value)));
        }
    }
}
