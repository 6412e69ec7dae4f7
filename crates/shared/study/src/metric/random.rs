//! Constants drawn at random from a seed.

use kpps_methods::random::Random;
use kpps_profiles::Change;
use serde::Deserialize;

/// The values that a constant may have.
#[derive(Deserialize)]
#[serde(untagged)]
enum Choice {
    /// One of these.
    Of(Vec<toml::Value>),
    /// A multiple of `step` between these, equally likely in each octave.
    #[serde(rename_all = "kebab-case")]
    Between {
        from: u32,
        to: u32,
        #[serde(default = "one")]
        step: u32,
    },
}

fn one() -> u32 {
    1
}

/// A number from 0 to below 1, which depends on the seed and the constant's name only.
fn share(seed: u64, name: &str) -> f64 {
    let mut random = Random::new(seed);
    for byte in name.bytes() {
        random = Random::new(random.word() ^ u64::from(byte));
    }
    random.unit()
}

impl Choice {
    fn draw(&self, share: f64) -> Option<toml::Value> {
        match self {
            Self::Of(values) => values.get((share * values.len() as f64) as usize).cloned(),
            Self::Between { from, to, step } => {
                let (low, high) = (f64::from((*from).max(1)), f64::from(*to));
                let drawn = low * (high / low).powf(share) / f64::from((*step).max(1));
                Some(toml::Value::Integer(drawn.round() as i64 * i64::from(*step)))
            }
        }
    }
}

/// Draws each constant of `of` from its values: a list, or `{ from = 64, to = 4096, step = 8 }`.
pub(super) fn changes(of: &toml::Table, seed: u64) -> Result<Vec<Change>, String> {
    let change = |(path, choice): (&String, &toml::Value)| {
        let choice: Choice = choice.clone().try_into().map_err(|_| {
            format!("'{path}' has no values to draw from: give a list, or {{ from = …, to = … }}")
        })?;
        let value =
            choice.draw(share(seed, path)).ok_or_else(|| format!("'{path}' has no values to choose from"))?;
        Change::set(path, value)
    };
    of.iter().map(change).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use kpps_profiles::To;

    fn drawn(text: &str, seed: u64) -> Vec<toml::Value> {
        let changes = changes(&text.parse().unwrap(), seed).unwrap();
        let value = |change: Change| match change.to {
            To::Set(value) => value,
            To::Scale(_) | To::Draw(_) => panic!("a value"),
        };
        changes.into_iter().map(value).collect()
    }

    #[test]
    fn draws_stay_within_their_ranges_and_reach_their_ends() {
        let rings: Vec<_> = (1..=2000)
            .map(|seed| {
                drawn("'driver.rx_ring' = { from = 64, to = 4096, step = 8 }", seed)[0].as_integer().unwrap()
            })
            .collect();
        assert!(rings.iter().all(|ring| (64..=4096).contains(ring) && ring % 8 == 0));
        assert!(rings.contains(&64) && rings.iter().any(|ring| *ring > 4000));
        let low = rings.iter().filter(|ring| **ring < 512).count();
        assert!((900..1100).contains(&low), "half of the octaves: {low}");
        let hosts: std::collections::BTreeSet<_> =
            (1..=50).map(|seed| drawn("'machine.host' = ['a', 'b', 'c']", seed)[0].to_string()).collect();
        assert_eq!(hosts.len(), 3);
    }

    #[test]
    fn a_draw_depends_on_its_seed_and_its_name_only() {
        let both = "'host.a' = { from = 1, to = 1000000 }\n'host.b' = { from = 1, to = 1000000 }";
        let alone = "'host.b' = { from = 1, to = 1000000 }";
        assert_eq!(drawn(both, 7)[1], drawn(alone, 7)[0]);
        assert_ne!(drawn(both, 7)[0], drawn(both, 7)[1]);
        assert_ne!(drawn(alone, 7), drawn(alone, 8));
    }

    #[test]
    fn what_cannot_be_drawn_is_named() {
        for text in ["'host.a' = 3", "'host.a' = []", "'a' = [1]"] {
            assert!(changes(&text.parse().unwrap(), 1).unwrap_err().contains("'"), "{text}");
        }
    }
}
