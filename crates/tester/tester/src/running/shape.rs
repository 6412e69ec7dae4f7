//! The shape of a load as people type it.

use kpps_methods::units::{self, RateSpec};
use kpps_ports::port::run::Shape;

/// The distribution of the gaps: `constant`, `poisson`, `bursts:32`, `ramp:10kpps/2s`.
///
/// # Errors
/// The mistake in the text, in one line.
pub fn shape(text: &str) -> Result<Shape, String> {
    let help = || {
        format!(
            "'{text}' is not a shape: give constant, poisson or poisson:SEED, bursts:FRAMES, or ramp:FROM/TIME as ramp:10kpps/2s"
        )
    };
    let (name, rest) = text.split_once(':').unwrap_or((text, ""));
    match (name, rest) {
        ("constant", "") => Ok(Shape::Constant),
        ("poisson", "") => Ok(Shape::Poisson { seed: 1 }),
        ("poisson", seed) => seed.parse().map(|seed| Shape::Poisson { seed }).map_err(|_| help()),
        ("bursts", frames) => match frames.parse() {
            Ok(frames) if (1..=1_000_000).contains(&frames) => Ok(Shape::Bursts(frames)),
            _ => Err(help()),
        },
        ("ramp", rest) => {
            let (from, over) = rest.split_once('/').ok_or_else(help)?;
            match from.parse()? {
                RateSpec::Pps(from) => Ok(Shape::Ramp(from, units::duration(over)?)),
                _ => Err(help()),
            }
        }
        _ => Err(help()),
    }
}

/// Refuses a shape for a load that has none, because frames follow each other as fast as possible.
///
/// # Errors
/// The message says which value to give instead.
pub fn check(shape: Shape, load: Option<RateSpec>) -> Result<(), String> {
    match load {
        Some(RateSpec::Max) if shape != Shape::Constant => Err(
            "the distribution of gaps needs a rate, and the load max has none: give a load such as 100kpps"
                .into(),
        ),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn the_highest_load_has_no_shape() {
        let bursts = shape("bursts:32").unwrap();
        assert!(check(bursts, Some(kpps_methods::units::rate_or_max("max").unwrap())).is_err());
        assert_eq!(check(bursts, Some("50%".parse().unwrap())), Ok(()));
        assert_eq!(check(bursts, None), Ok(()));
        assert_eq!(check(Shape::Constant, Some(RateSpec::Max)), Ok(()));
    }
    use std::time::Duration;

    #[test]
    fn shapes_as_people_type_them() {
        assert_eq!(shape("constant"), Ok(Shape::Constant));
        assert_eq!(
            (shape("poisson"), shape("poisson:7")),
            (Ok(Shape::Poisson { seed: 1 }), Ok(Shape::Poisson { seed: 7 }))
        );
        assert_eq!(shape("bursts:32"), Ok(Shape::Bursts(32)));
        assert_eq!(shape("ramp:10kpps/2s"), Ok(Shape::Ramp(1e4, Duration::from_secs(2))));
        for text in ["poisson:7", "bursts:32", "ramp:10000/2s"] {
            assert_eq!(shape(text).unwrap().name_unless_default().as_deref(), Some(text));
        }
        for text in
            ["", "sine", "bursts", "bursts:0", "ramp:10%/2s", "ramp:10kpps", "poisson:x", "constant:1"]
        {
            assert!(shape(text).is_err(), "{text}");
        }
    }
}
