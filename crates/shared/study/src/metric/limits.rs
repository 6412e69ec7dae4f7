//! The values that entries of a measurement may have, in whichever metric: a study may be anybody's file.

use crate::data::MOST_VALUES;
use std::ops::RangeInclusive;
use toml::Value;

/// The most moments of a timeline.
const MOST_MOMENTS: f64 = 1e6;

/// The numbers that an entry may have, alone or in a list, by its name.
const LIMITS: &[(&str, RangeInclusive<f64>)] = &[
    ("background.bytes", 1.0..=4096.0),
    ("background.period_ns", 10.0..=1e9),
    ("bursts", 1.0..=4096.0),
    ("computing", 0.0..=1e6),
    ("connections", 1.0..=256.0),
    ("cpus", 1.0..=64.0),
    ("duration_ms", 1.0..=600_000.0),
    ("duration_us", 1.0..=10_000_000.0),
    ("every_clocks", 1.0..=1e9),
    ("every_us", 1.0..=1e9),
    ("flows", 1.0..=65_535.0),
    ("fragments", 1.0..=16.0),
    ("groups.frames", 1.0..=1e6),
    ("groups.spacing_ns", 0.0..=1e9),
    ("host_delay_ns", 0.0..=1e9),
    ("host_segment_ns", 0.0..=1e9),
    ("offered", 1.0..=1e9),
    // Of other metrics a frame has the whole payload.
    ("payload", 0.0..=16_000.0),
    ("payload of fragments", 1.0..=65_507.0),
    ("ports", 1.0..=8.0),
    ("pps", 1.0..=1e9),
    ("shared_lines", 0.0..=1000.0),
    ("size", 64.0..=16_110.0),
    ("sizes", 64.0..=16_110.0),
    ("sleep_us", 0.0..=1e6),
    ("warmup_ms", 0.0..=600_000.0),
    ("warmup_us", 0.0..=10_000_000.0),
    ("weights", 1.0..=65_535.0),
];

/// Refuses an entry that no measurement of this metric can have.
pub(super) fn check(metric: &str, of: &toml::Table) -> Result<(), String> {
    of.iter().try_for_each(|(key, value)| match (metric, key.as_str()) {
        ("fragments", "payload") => check_entry("payload of fragments", value),
        _ => check_entry(key, value),
    })?;
    // In the unit of `every` a duration has this number of units: the fastest bus has 133 clocks in 1 us.
    for (every, duration, unit) in
        [("every_us", "duration_ms", 1000.0), ("every_clocks", "duration_us", 133.0)]
    {
        let number = |key: &str| of.get(key).and_then(as_number);
        if let (Some(each), Some(whole)) = (number(every), number(duration))
            && whole * unit / each > MOST_MOMENTS
        {
            return Err(format!("{every} = {each} in {duration} = {whole}: give a greater {every}"));
        }
    }
    if let Some(Value::Table(offered)) = of.get("offered") {
        let number = |name: &str| offered.get(name).and_then(as_number);
        if let (Some(from), Some(to), Some(step)) = (number("from"), number("to"), number("step"))
            && !(step > 0.0 && to >= from && (to - from) / step < MOST_VALUES as f64)
        {
            return Err(format!(
                "offered goes from {from} to {to} in steps of {step}: give at most {MOST_VALUES} rising loads"
            ));
        }
    }
    let counts = ["offered", "sizes"].map(|key| of.get(key).map_or(1, count));
    let trials = counts[0].saturating_mul(counts[1]);
    match trials {
        0..=MOST_VALUES => Ok(()),
        _ => Err(format!("there are {trials} pairs of loads and sizes: give at most {MOST_VALUES}")),
    }
}

/// The number of values of a list, or of a range whose limits have been checked; 1 for one value.
fn count(value: &Value) -> usize {
    match value {
        Value::Array(list) => list.len(),
        Value::Table(range) => {
            let number = |name: &str| range.get(name).and_then(as_number).unwrap_or(0.0);
            (((number("to") - number("from")) / number("step")) as usize).saturating_add(1)
        }
        _ => 1,
    }
}

fn as_number(value: &Value) -> Option<f64> {
    value.as_float().or(value.as_integer().map(|whole| whole as f64))
}

fn check_entry(key: &str, value: &Value) -> Result<(), String> {
    match value {
        Value::Array(list) if list.len() > MOST_VALUES || list.is_empty() && key == "offered" => {
            Err(format!("{key} has {} values: give 1 to {MOST_VALUES}", list.len()))
        }
        Value::Array(list) => list.iter().try_for_each(|value| check_entry(key, value)),
        // Constants of profiles have limits of their own.
        Value::Table(_) if ["set", "random", "own", "vary"].contains(&key) => Ok(()),
        Value::Table(table) => table.iter().try_for_each(|(name, value)| {
            let name = match (key, name.as_str()) {
                ("offered", "from" | "to") => key.to_owned(),
                _ => format!("{key}.{name}"),
            };
            check_entry(&name, value)
        }),
        _ => {
            let Some(number) = as_number(value) else { return Ok(()) };
            let limit = LIMITS.iter().find(|(name, _)| *name == key).map(|(_, range)| range);
            match limit {
                Some(range) if !range.contains(&number) => {
                    Err(format!("{key} = {number} is not within {} to {}", range.start(), range.end()))
                }
                None if !number.is_finite() => Err(format!("{key} = {number} is no finite number")),
                _ => Ok(()),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn what_no_measurement_can_have_is_refused() {
        let checked = |text: &str| check("receive", &toml::from_str(text).unwrap());
        for possible in [
            "offered = [1e5, 'line']\nsize = 64\nset = { 'driver.rx_ring' = 80 }",
            "offered = { from = 1e5, to = 2e5, step = 1e4 }\nwarmup_ms = 0",
            "groups = { frames = 4, spacing_ns = 915 }\ncomputing = []",
        ] {
            assert_eq!(checked(possible), Ok(()), "{possible}");
        }
        for (wrong, says) in [
            ("offered = nan", "offered = NaN is not within 1"),
            ("offered = []", "offered has 0 values"),
            ("offered = [1e5, -1]", "offered = -1 is not"),
            ("offered = { from = 1.0, to = 1e9, step = 0.001 }", "in steps of 0.001"),
            ("offered = { from = 2.0, to = 1.0, step = 1.0 }", "from 2 to 1"),
            ("offered = { from = 1.0, to = 2.0, step = 0.0 }", "in steps of 0"),
            ("payload = 65507", "payload = 65507 is not within 0 to 16000"),
            ("size = 3", "size = 3 is not within 64"),
            ("duration_ms = 0", "duration_ms = 0 is not"),
            ("ports = 1000000", "ports = 1000000 is not"),
            ("groups = { frames = 0 }", "groups.frames = 0 is not"),
            (
                "offered = { from = 1.0, to = 9e3, step = 1.0 }\nsizes = [64, 128]",
                "there are 18000 pairs of loads and sizes",
            ),
            ("every_us = 1\nduration_ms = 600000", "give a greater every_us"),
            ("tolerance = inf", "tolerance = inf is no finite number"),
        ] {
            assert!(checked(wrong).unwrap_err().contains(says), "{wrong}: {:?}", checked(wrong));
        }
        // A range without its step is for its reader to refuse.
        let _ = checked("offered = { to = 5.0 }");
        assert_eq!(check("fragments", &toml::from_str("payload = [1473, 65507]").unwrap()), Ok(()));
    }
}
