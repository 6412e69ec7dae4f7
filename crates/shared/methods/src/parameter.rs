//! Parameters and their values as people type them: `driver.rx_ring=16..1024*2`.

use crate::units::{Loads, RateSpec};
use kpps_documents::grid::{Axis, Setting};

/// The most values that one parameter may have.
const MOST_VALUES: usize = 100_000;

/// Numbers of something, each above 0, in rising order and each once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Counts(pub Vec<usize>);

/// Numbers of something: `1,2,4` or `1..8`.
///
/// # Errors
/// The error in the text, in one line.
pub fn counts(text: &str) -> Result<Counts, String> {
    let number = |value: &Setting| match value {
        Setting::Whole(whole) => usize::try_from(*whole).ok().filter(|count| *count > 0),
        _ => None,
    };
    let axis = axis(&format!("counts={text}"))?;
    let numbers: Option<Vec<_>> = axis.values.iter().map(number).collect();
    let mut numbers = numbers
        .ok_or_else(|| format!("'{text}' is no list of numbers above 0: give for example 1..8 or 1,2,4"))?;
    numbers.sort_unstable();
    numbers.dedup();
    Ok(Counts(numbers))
}

/// A parameter with its values: `driver.rx_ring=16..1024*2`.
///
/// # Errors
/// The error in the text, in one line.
pub fn axis(text: &str) -> Result<Axis, String> {
    let help = || {
        format!(
            "'{text}' is not a parameter with values: give them as driver.rx_ring=16,32,64 or load=10%..100%/10%"
        )
    };
    let (parameter, values) = text.split_once('=').ok_or_else(help)?;
    let values = if parameter == "load" { loads(values)? } else { values_of(values)? };
    if parameter.is_empty() || values.is_empty() {
        return Err(help());
    }
    Ok(Axis { parameter: parameter.to_owned(), values })
}

/// A constant with one value: `driver.rx_ring=80`.
///
/// # Errors
/// The error in the text, in one line.
pub fn change(text: &str) -> Result<(String, Setting), String> {
    let (path, value) =
        text.split_once('=').ok_or_else(|| format!("'{text}' is not PATH=VALUE, as driver.rx_ring=80"))?;
    Ok((path.to_owned(), word(value)))
}

fn word(text: &str) -> Setting {
    let plain = text.replace('_', "");
    match text {
        "true" => Setting::Switch(true),
        "false" => Setting::Switch(false),
        _ => plain
            .parse()
            .map(Setting::Whole)
            .or_else(|_| plain.parse().map(Setting::Number))
            .unwrap_or_else(|_| Setting::Word(text.to_owned())),
    }
}

/// Loads keep their text: a share of the line rate depends on the frame size.
fn loads(text: &str) -> Result<Vec<Setting>, String> {
    if !text.contains("..") {
        text.parse::<Loads>()?;
        return Ok(text.split(',').map(word).collect());
    }
    let Loads::Range { from, to, step } = text.parse()? else {
        return Err(format!(
            "'{text}' is not a range of loads: give FROM..TO/STEP, as 100kpps..1Mpps/100kpps"
        ));
    };
    let [(from, unit), (to, other), (step, third)] = [from, to, step].map(RateSpec::number_and_unit);
    if unit != other || unit != third {
        return Err(format!(
            "the range '{text}' has two units: give all in kpps, all in %, or all in bits of one layer"
        ));
    }
    let numbers = steps(from, to, |n| from + f64::from(n) * step)?;
    Ok(numbers.into_iter().map(|number| Setting::Word(format!("{number}{unit}"))).collect())
}

fn values_of(text: &str) -> Result<Vec<Setting>, String> {
    let Some((from, rest)) = text.split_once("..") else { return Ok(text.split(',').map(word).collect()) };
    let by = |text: &str| match word(text) {
        Setting::Whole(whole) => Ok((whole as f64, true)),
        Setting::Number(number) => Ok((number, false)),
        _ => Err(format!("'{text}' is not a number: a range needs numbers")),
    };
    let (to, by_step, by_factor) = match (rest.split_once('/'), rest.split_once('*')) {
        (Some((to, step)), _) => (to, by(step)?, None),
        (_, Some((to, factor))) => (to, (1.0, true), Some(by(factor)?)),
        _ => (rest, (1.0, true), None),
    };
    let ((from, whole_from), (to, whole_to)) = (by(from)?, by(to)?);
    let numbers = match by_factor {
        Some((factor, _)) if factor > 1.0 && from > 0.0 => steps(from, to, |n| from * factor.powi(n as i32))?,
        Some(_) => {
            return Err(format!(
                "the range '{text}' never ends: give a factor above 1 and a first value above 0"
            ));
        }
        None if by_step.0 > 0.0 => steps(from, to, |n| from + f64::from(n) * by_step.0)?,
        None => return Err(format!("the range '{text}' never ends: give a step above 0")),
    };
    let whole = whole_from && whole_to && by_step.1 && by_factor.is_none_or(|(_, whole)| whole);
    let setting =
        |number: f64| if whole { Setting::Whole(number.round() as i64) } else { Setting::Number(number) };
    Ok(numbers.into_iter().map(setting).collect())
}

/// The values from the first one up to the last one, in steps.
fn steps(from: f64, to: f64, at: impl Fn(u32) -> f64) -> Result<Vec<f64>, String> {
    if from > to {
        return Err(format!("the range from {from} to {to} descends: give the lower value first"));
    }
    let within = |number: &f64| *number <= to * (1.0 + 1e-9);
    let numbers: Vec<f64> = (0..).map(at).take_while(within).take(MOST_VALUES + 1).collect();
    if numbers.len() > MOST_VALUES {
        Err(format!("the range from {from} to {to} has more than {MOST_VALUES} values: give a larger step"))
    } else {
        Ok(numbers)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn values_as_people_type_them() {
        for (text, values) in [
            ("x=1..4", "1 2 3 4"),
            ("x=16..100*2", "16 32 64"),
            ("x=10..100/30", "10 40 70 100"),
            ("x=0.5..1/0.25", "0.5 0.75 1"),
            ("x=true,false", "true false"),
            ("driver=kpps,intel-5.7.6", "kpps intel-5.7.6"),
            ("load=10%..30%/10%", "10% 20% 30%"),
            ("load=100kpps..300kpps/100kpps", "100000 200000 300000"),
            ("load=100kpps,80%", "100kpps 80%"),
            ("load=1MbpsL1..3MbpsL1/1MbpsL1", "1000000bpsL1 2000000bpsL1 3000000bpsL1"),
        ] {
            let axis = axis(text).unwrap();
            let got: Vec<_> = axis.values.iter().map(ToString::to_string).collect();
            assert_eq!(got.join(" "), values, "{text}");
        }
        assert!(matches!(axis("x=1..2").unwrap().values[0], Setting::Whole(1)));
        for text in [
            "x",
            "=1",
            "x=4..1",
            "x=1..9*1",
            "x=1..9/0",
            "x=a..b",
            "load=fast",
            "load=10%..1Mpps",
            "load=10MbpsL1..1GbpsL2/1MbpsL1",
            "x=1..9000000",
        ] {
            assert!(axis(text).is_err(), "{text}");
        }
    }
}
