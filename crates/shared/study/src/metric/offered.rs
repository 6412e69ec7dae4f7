//! Entries of a study that are one value or a list: of loads, or of any type.

use serde::Deserialize;

/// Loads in frames per second: one, a list, or a range in steps; `"line"` is the line rate.
#[derive(Clone, Deserialize)]
#[serde(untagged)]
pub(super) enum Offered {
    Loads(OneOrMany<Load>),
    Range { from: f64, to: f64, step: f64 },
}

#[derive(Clone, Copy, Deserialize)]
#[serde(untagged)]
pub(super) enum Load {
    Pps(f64),
    Word(Word),
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Word {
    /// The line rate.
    Line,
}

impl Offered {
    /// The loads in frames per second, if the line rate is `line` frames per second.
    pub fn pps(&self, line: f64) -> Vec<f64> {
        match self {
            Self::Loads(loads) => {
                let pps = |load| match load {
                    Load::Pps(pps) => pps,
                    Load::Word(Word::Line) => line,
                };
                loads.list().into_iter().map(pps).collect()
            }
            Self::Range { from, to, step } => {
                let steps = if *step > 0.0 { ((to - from) / step + 1e-6).floor() as u32 } else { 0 };
                (0..=steps).map(|k| from + f64::from(k) * step).collect()
            }
        }
    }
}

/// A value, or a list of them.
#[derive(Clone, Deserialize)]
#[serde(untagged)]
pub(super) enum OneOrMany<T> {
    One(T),
    Many(Vec<T>),
}

impl<T: Copy> OneOrMany<T> {
    pub fn list(&self) -> Vec<T> {
        match self {
            Self::One(one) => vec![*one],
            Self::Many(many) => many.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn loads_are_one_a_list_or_a_range() {
        #[derive(Deserialize)]
        struct Of {
            offered: Offered,
        }
        let pps = |text: &str| toml::from_str::<Of>(text).unwrap().offered.pps(7.0);
        assert_eq!(pps("offered = 1e3"), [1e3]);
        assert_eq!(pps("offered = 'line'"), [7.0]);
        assert_eq!(pps("offered = [2.0, 'line']"), [2.0, 7.0]);
        assert_eq!(pps("offered = { from = 1.0, to = 2.0, step = 0.5 }"), [1.0, 1.5, 2.0]);
        assert_eq!(pps("offered = { from = 1.0, to = 2.0, step = 0.0 }"), [1.0]);
    }
}
