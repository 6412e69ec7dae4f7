//! The values of header fields.

use super::node::{Bad, Node};
use kpps_frames::arithmetic::common_multiple;
use kpps_frames::pattern::{Format, MOST_VALUES, Pattern};
use std::sync::Arc;

/// The most values of a field that is made of several patterns.
const MOST_COMBINED: u64 = 1 << 16;

/// The values that a node describes; `None` if the frame decides: it is absent, or `auto`.
///
/// # Errors
/// The place and what is wrong.
pub fn pattern(node: &Node<'_>, format: Format) -> Result<Option<Pattern>, Bad> {
    if !node.is_present() {
        return Ok(None);
    }
    let read = |node: &Node<'_>, field: &str, default: u128| match format {
        Format::Number => Ok(node.uint(field).map_or(default, u128::from)),
        _ => match node.text(field) {
            Some(text) => format
                .read(text)
                .ok_or_else(|| node.bad_at(field, format!("'{text}' is no address of this kind"))),
            None => Ok(default),
        },
    };
    let count = |node: &Node<'_>| match node.uint("count") {
        Some(count) if !(1..=u64::from(MOST_VALUES)).contains(&count) => {
            Err(node.bad_at("count", format!("{count}: give 1 to {MOST_VALUES}")))
        }
        count => Ok(count.unwrap_or(1) as u32),
    };
    match node.choice("auto")? {
        "auto" if node.text("choice") == Some("auto") && matches!(format, Format::Ipv4 | Format::Ipv6) => {
            Err(node.bad_at("choice", "auto is for addresses by DHCP, which is not supported"))
        }
        "auto" => Ok(None),
        "value" => match node.has("value") {
            true => Ok(Some(Pattern::one(read(node, "value", 0)?))),
            false => Ok(None),
        },
        "values" => {
            let values: Vec<u128> = match format {
                Format::Number => node.uints("values").into_iter().map(u128::from).collect(),
                _ => {
                    let bad =
                        |text: &str| node.bad_at("values", format!("'{text}' is no address of this kind"));
                    let texts = node.texts("values").into_iter();
                    texts.map(|text| format.read(text).ok_or_else(|| bad(text))).collect::<Result<_, _>>()?
                }
            };
            if values.is_empty() {
                return Err(node.bad_at("values", "the list is empty"));
            }
            Ok(Some(Pattern::List(values.into())))
        }
        choice @ ("increment" | "decrement") => {
            let counter = node.child(choice);
            let (first, step) = (read(&counter, "start", 0)?, read(&counter, "step", 1)?);
            let step = if choice == "increment" { step } else { step.wrapping_neg() };
            Ok(Some(Pattern::Steps { first, step, count: count(&counter)? }))
        }
        "random" => {
            let random = node.child("random");
            let most = match format {
                Format::Ipv4 => u128::from(u32::MAX),
                _ => 0,
            };
            let (least, most) = (read(&random, "min", 0)?, read(&random, "max", most)?);
            if least > most {
                return Err(random.bad("min is larger than max"));
            }
            let seed = random.uint("seed").unwrap_or(1);
            Ok(Some(Pattern::Random { least, most, seed, count: Some(count(&random)?) }))
        }
        other => Err(node.bad_at("choice", format!("'{other}' is not supported"))),
    }
}

/// One pattern of parts, each shifted to its bits: the values of frame n are those of its parts.
///
/// # Errors
/// There are too many combinations.
pub fn combined(node: &Node<'_>, parts: &[(Pattern, u32)]) -> Result<Pattern, Bad> {
    let many = || node.bad(format!("there are more than {MOST_COMBINED} combinations of its values"));
    let mut period = 1;
    for (pattern, _) in parts {
        let count = pattern.count().map(u64::from).ok_or_else(many)?;
        period = common_multiple(period, count);
        if period > MOST_COMBINED {
            return Err(many());
        }
    }
    let value = |n: u64| parts.iter().map(|(pattern, shift)| pattern.value(n) << shift).sum();
    let values: Arc<[u128]> = (0..period).map(value).collect();
    Ok(Pattern::List(values))
}

/// The bits from `shift` on, `bits` of them, of each value.
///
/// # Errors
/// There are too many values.
pub fn part(node: &Node<'_>, pattern: &Pattern, shift: u32, bits: u32) -> Result<Pattern, Bad> {
    let count = pattern.count().map(u64::from).filter(|count| *count <= MOST_COMBINED);
    let count = count.ok_or_else(|| node.bad(format!("there are more than {MOST_COMBINED} values")))?;
    let mask = (1_u128 << bits) - 1;
    Ok(Pattern::List((0..count).map(|n| pattern.value(n) >> shift & mask).collect()))
}
