//! Random values of the constants that are not known exactly.

use sha2::{Digest, Sha256};
use std::f64::consts::TAU;

/// The share of cases in which the true value of a constant is within its spread.
pub const SHARE: f64 = 0.9;
/// The distance from the median within which this share of a normal distribution is, in standard deviations.
const DEVIATIONS: f64 = 1.644_853_626_951_472_2;

/// One draw: a random value for each constant that has a spread. The factors of different estimates are
/// independent. A factor is log-normal, with a median of 1, and depends only on the seed, the number, and the
/// estimate's name and value: another constant more or less does not change it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Draw {
    /// The seed of all draws.
    pub seed: u64,
    /// Which of them, from 0.
    pub number: u64,
}

impl Draw {
    /// Draw `number` of `draws` with this seed, and then those to make in its place if it is of no use. All
    /// are different, and no other of the `draws` has them.
    pub fn candidates(seed: u64, number: usize, draws: usize) -> impl Iterator<Item = Self> {
        (number as u64..).step_by(draws.max(1)).map(move |number| Self { seed, number })
    }

    /// The factor of this estimate, which is within 1 / `spread` and `spread` in nine of ten draws.
    pub fn factor(self, constant: &str, spread: f64) -> f64 {
        (self.normal(constant) / DEVIATIONS * spread.ln()).exp()
    }

    /// A number from the standard normal distribution (Box and Muller, 1958).
    fn normal(self, constant: &str) -> f64 {
        let digest = Sha256::new()
            .chain_update(self.seed.to_le_bytes())
            .chain_update(self.number.to_le_bytes())
            .chain_update(constant)
            .finalize();
        // Two numbers above 0 and below 1, from 52 bits each.
        let uniform = |bytes: &[u8]| {
            let bits = bytes.iter().fold(0u64, |bits, byte| bits << 8 | u64::from(*byte)) >> 12;
            (bits as f64 + 0.5) / (1u64 << 52) as f64
        };
        let (radius, angle) = (uniform(&digest[..8]), uniform(&digest[8..16]));
        (-2.0 * radius.ln()).sqrt() * (TAU * angle).cos()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::{Change, Kind, Profile};

    #[test]
    fn nine_of_ten_factors_are_within_the_spread_and_half_above_1() {
        let factors: Vec<_> =
            (0..2000).map(|number| Draw { seed: 1, number }.factor("host.x.cache_miss_ps", 1.5)).collect();
        let share = |holds: &dyn Fn(f64) -> bool| {
            factors.iter().filter(|factor| holds(**factor)).count() as f64 / factors.len() as f64
        };
        let within = share(&|factor| (1.0 / 1.5..=1.5).contains(&factor));
        assert!((within - SHARE).abs() < 0.02, "{within}");
        let above = share(&|factor| factor > 1.0);
        assert!((above - 0.5).abs() < 0.03, "{above}");
    }

    #[test]
    fn no_two_draws_have_a_candidate_in_common() {
        let of = |number| Draw::candidates(7, number, 20).take(100).map(|draw| draw.number);
        let all: std::collections::BTreeSet<_> = (0..20).flat_map(of).collect();
        assert_eq!(all, (0..2000).collect());
        assert_eq!(Draw::candidates(7, 3, 20).next(), Some(Draw { seed: 7, number: 3 }));
    }

    #[test]
    fn a_draw_changes_what_has_a_spread_and_nothing_else() {
        let text = "description = 'x'\na = { value = 1000, source = 's', spread = 2.0 }\n\
            b = { value = 1.5, source = 's', spread = 2 }\nc = { value = 1000, source = 's' }";
        let drawn = |number, text: &str| {
            let changes = Change::drawn(Draw { seed: 7, number });
            let profile = Profile::parse(Kind::Bus, "t", text).unwrap().changed(&changes).unwrap();
            profile.constants().iter().map(|it| it.value.to_string()).collect::<Vec<_>>()
        };
        let first = drawn(0, text);
        assert_eq!(first, drawn(0, text), "the same draw");
        assert_ne!(first, drawn(1, text), "another draw");
        assert!(first[0] != "1000" && first[1] != "1.5" && first[2] == "1000", "{first:?}");
        let parts = format!("{text}\np = {{ value = 100, source = 's', part_of = 'a' }}");
        let parts = drawn(0, &parts);
        assert_eq!(
            parts[3].parse::<i64>().unwrap(),
            (parts[0].parse::<i64>().unwrap() + 5) / 10,
            "{parts:?}"
        );
        let more = format!("{text}\nd = {{ value = 5, source = 's', spread = 3 }}");
        assert_eq!(first[..], drawn(0, &more)[..3], "another constant changes no factor");
    }

    /// The value of `a` in a draw of these changes, and without the draw.
    #[test]
    fn what_is_set_is_known_and_what_is_multiplied_is_drawn_wherever_the_draw_stands() {
        let text = "description = 'x'\na = { value = 1000000, source = 's', spread = 2.0 }";
        let value = |changes: &[Change]| {
            let profile = Profile::parse(Kind::Bus, "t", text).unwrap().changed(changes).unwrap();
            profile.constants()[0].value.as_integer().unwrap()
        };
        let draw = Change::drawn(Draw { seed: 7, number: 0 });
        let set = [Change::set("bus.a", 500).unwrap()];
        let half = [Change { to: crate::To::Scale(0.5), ..set[0].clone() }];
        for changed in [&set, &half] {
            let after = [&draw[..], changed].concat();
            assert_eq!(value(&after), value(&[changed, &draw[..]].concat()));
        }
        assert_eq!(value(&[&draw[..], &set].concat()), 500);
        assert_eq!(value(&[&draw[..], &half].concat()), (value(&draw) + 1) / 2);
    }

    #[test]
    fn equal_estimates_of_several_profiles_have_one_factor() {
        let drawn = |name: &str, text: &str| {
            let changes = Change::drawn(Draw { seed: 3, number: 1 });
            let profile = Profile::parse(Kind::Bus, name, text).unwrap().changed(&changes).unwrap();
            profile.constants()[0].value.clone()
        };
        let text = "description = 'x'\na = { value = 1000, source = 's', spread = 2 }";
        assert_eq!(drawn("one", text), drawn("two", &text.replace("'s'", "'as one'")));
        assert_ne!(drawn("one", text), drawn("two", &text.replace("a =", "b =")));
    }

    /// Numbers that are estimates and have no spread: sizes, limits and choices, which draws leave alone.
    const CHOSEN: [&str; 9] = [
        "posted_writes",
        "rx_burst_descriptors",
        "rx_buffer_bytes",
        "rx_fifo_bytes",
        "rx_fetch",
        "moderation_us",
        "tx_descriptors",
        "buffer_overhead_bytes",
        "thread_slice_ps",
    ];

    /// Each number that is an estimate says how well it is known, and a part names a whole that does.
    #[test]
    fn every_estimate_has_a_spread() {
        let (mut lacking, mut parts) = (Vec::new(), 0);
        for kind in Kind::ALL {
            for name in crate::names(kind) {
                let profile = Profile::named(kind, &name).unwrap();
                let spread = |name: &str| profile.constants().iter().find(|it| it.name == name)?.spread;
                for it in profile.constants() {
                    let is_estimate = it.source.contains("a prior") || !it.fitted.is_empty();
                    let is_number = it.value.is_integer() || it.value.is_float();
                    let is_chosen = CHOSEN.contains(&it.name.as_str());
                    let is_known = match &it.part_of {
                        Some(whole) => spread(whole).is_some(),
                        None => it.spread.is_some() || !is_estimate || !is_number || is_chosen,
                    };
                    parts += usize::from(it.part_of.is_some());
                    if !is_known {
                        lacking.push(format!("{kind} {name}: {}", it.name));
                    }
                }
            }
        }
        assert_eq!(lacking, Vec::<String>::new());
        assert!(parts > 0);
    }
}
