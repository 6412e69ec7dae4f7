//! Conditions and figures of a claim: expressions over measured values.

use crate::{Value, Values};
use rhai::{Array, Dynamic, Engine, EvalAltResult, FLOAT, INT, Map, Scope};
use std::collections::BTreeMap;

/// An engine with arithmetic and these functions:
///
/// - `within(x, of, share)`, `between(x, low, high)`;
/// - `min(list)`, `max(list)`, `first(list)`, `last(list)`, `falling(list, slack)`, `rising(list, slack)`;
/// - `peaks(list, n)`: the highest of each `n`;
/// - `below(list, x)`, `above(list, x)`: how many are;
/// - `at_min(list, other)`, `at_max(list, other)`: the value of `other` where `list` is lowest or highest;
/// - `ratio(a, b)`: an error if `b` is 0.
fn engine() -> Engine {
    let mut engine = Engine::new();
    engine.set_max_operations(1_000_000).set_fail_on_invalid_map_property(true);
    // A study may be anybody's file: its expressions only calculate.
    engine.register_fn("sleep", |_: INT| waits()).register_fn("sleep", |_: FLOAT| waits());
    engine.on_print(|_| ()).on_debug(|_, _, _| ());
    engine.set_max_string_size(10_000).set_max_array_size(1_000_000).set_max_map_size(10_000);
    engine.register_fn("within", |x: FLOAT, of: FLOAT, share: FLOAT| (x - of).abs() <= of.abs() * share);
    engine.register_fn("between", |x: FLOAT, low: FLOAT, high: FLOAT| (low..=high).contains(&x));
    engine.register_fn("ratio", |a: FLOAT, b: FLOAT| match b {
        0.0 => Err(Box::<EvalAltResult>::from(format!("{a} has no ratio to 0"))),
        _ => Ok(a / b),
    });
    engine.register_fn("min", |list: Array| numbers(&list).into_iter().fold(FLOAT::INFINITY, FLOAT::min));
    engine.register_fn("max", |list: Array| numbers(&list).into_iter().fold(FLOAT::NEG_INFINITY, FLOAT::max));
    engine.register_fn("first", |list: Array| numbers(&list).first().copied().unwrap_or(FLOAT::NAN));
    engine.register_fn("last", |list: Array| numbers(&list).last().copied().unwrap_or(FLOAT::NAN));
    engine.register_fn("below", |list: Array, x: FLOAT| {
        numbers(&list).into_iter().filter(|number| *number < x).count() as FLOAT
    });
    engine.register_fn("above", |list: Array, x: FLOAT| {
        numbers(&list).into_iter().filter(|number| *number > x).count() as FLOAT
    });
    let at = |list: &Array, other: &Array, sign: FLOAT| {
        let pairs = numbers(list).into_iter().zip(numbers(other));
        pairs.min_by(|a, b| (sign * a.0).total_cmp(&(sign * b.0))).map_or(FLOAT::NAN, |pair| pair.1)
    };
    engine.register_fn("at_min", move |list: Array, other: Array| at(&list, &other, 1.0));
    engine.register_fn("at_max", move |list: Array, other: Array| at(&list, &other, -1.0));
    engine.register_fn("falling", |list: Array, slack: FLOAT| {
        numbers(&list).windows(2).all(|pair| pair[1] <= pair[0] * (1.0 + slack))
    });
    engine.register_fn("rising", |list: Array, slack: FLOAT| {
        numbers(&list).windows(2).all(|pair| pair[1] >= pair[0] * (1.0 - slack))
    });
    engine.register_fn("peaks", |list: Array, n: INT| {
        let peak =
            |each: &[FLOAT]| Dynamic::from_float(each.iter().copied().fold(FLOAT::NEG_INFINITY, FLOAT::max));
        numbers(&list).chunks(usize::try_from(n).unwrap_or(1).max(1)).map(peak).collect::<Array>()
    });
    engine
}

fn numbers(list: &Array) -> Vec<FLOAT> {
    list.iter().filter_map(|item| item.as_float().ok()).collect()
}

/// A value as expressions have it; `None` if anything of it was not observed.
fn dynamic(value: &Value) -> Option<Dynamic> {
    Some(match value {
        Value::Number(number) => Dynamic::from_float((*number)?),
        Value::List(list) => {
            list.iter().map(|number| number.map(Dynamic::from_float)).collect::<Option<Array>>()?.into()
        }
    })
}

/// The refusal of an expression that waits.
fn waits() -> Result<(), Box<EvalAltResult>> {
    Err("an expression cannot wait".into())
}

/// The observed values, by the name of their measurement. Other values are no variables, so that an
/// expression that uses them is an error.
fn scope(measured: &BTreeMap<String, Values>) -> Scope<'static> {
    let mut scope = Scope::new();
    for (name, values) in measured {
        let map: Map =
            values.iter().filter_map(|(name, value)| Some((name.as_str().into(), dynamic(value)?))).collect();
        scope.push(name.clone(), map);
    }
    scope
}

/// The reason why an expression has no result: it uses a value that was not observed, or the engine's
/// `error`.
fn problem(
    what: &str,
    expression: &str,
    measured: &BTreeMap<String, Values>,
    error: &EvalAltResult,
) -> String {
    let names = measured.iter().flat_map(|(measurement, values)| {
        let unobserved = values.iter().filter(|(_, value)| !value.is_observed());
        unobserved.map(move |(name, _)| format!("{measurement}.{name}"))
    });
    match names.into_iter().find(|name| expression.contains(name)) {
        Some(name) => format!("the {what} `{expression}` has no answer: {name} was not observed"),
        None => match measured.iter().find_map(|(name, values)| unknown(expression, name, values)) {
            Some(unknown) => format!("the {what} `{expression}` has no answer: {unknown}"),
            None => format!("the {what} `{expression}` makes no sense: {error}"),
        },
    }
}

/// The first value of a measurement that an expression names and that does not exist, with those that do.
fn unknown(expression: &str, measurement: &str, values: &Values) -> Option<String> {
    let is_of_name = |c: char| c.is_alphanumeric() || c == '_';
    let prefix = format!("{measurement}.");
    let mut named = expression.match_indices(&prefix).filter_map(|(at, prefix)| {
        let is_whole = !expression[..at].ends_with(is_of_name);
        let value = &expression[at + prefix.len()..];
        is_whole.then(|| value.find(|c| !is_of_name(c)).map_or(value, |end| &value[..end]))
    });
    let unknown = named.find(|value| !value.is_empty() && !values.contains_key(*value))?;
    let known = values.keys().map(String::as_str).collect::<Vec<_>>().join(", ");
    Some(format!("there is no {measurement}.{unknown}; {measurement} has {known}"))
}

/// Whether all of `conditions` hold for the measured values, each measurement by its name.
///
/// # Errors
/// If a condition is malformed, or uses a value that was not measured; the message names it.
pub fn judge(conditions: &[String], measured: &BTreeMap<String, Values>) -> Result<bool, String> {
    let (engine, mut scope) = (engine(), scope(measured));
    for condition in conditions {
        match engine.eval_expression_with_scope::<bool>(&mut scope, condition) {
            Ok(true) => {}
            Ok(false) => return Ok(false),
            Err(error) => return Err(problem("condition", condition, measured, &error)),
        }
    }
    Ok(true)
}

/// The figure that `expression` gives.
///
/// # Errors
/// If the expression is no number, or uses a value that was not measured; the message names it.
pub fn figure(expression: &str, measured: &BTreeMap<String, Values>) -> Result<f64, String> {
    let value: Dynamic = engine()
        .eval_expression_with_scope(&mut scope(measured), expression)
        .map_err(|error| problem("value", expression, measured, &error))?;
    match (value.as_float(), value.as_int(), value.as_bool()) {
        (Ok(number), _, _) => Ok(number),
        (_, Ok(whole), _) => Ok(whole as f64),
        (_, _, Ok(truth)) => Ok(f64::from(u8::from(truth))),
        _ => Err(format!("the value `{expression}` is no number")),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn measured() -> BTreeMap<String, Values> {
        let values = [
            ("pps".to_owned(), Value::from(680e3)),
            ("curve".to_owned(), Value::from(vec![3.0, 2.0, 2.01])),
            ("unseen".to_owned(), Value::from(None)),
            ("latency".to_owned(), Value::List(vec![Some(5.0), None])),
        ];
        [("a".to_owned(), values.into_iter().collect())].into()
    }

    #[test]
    fn conditions_hold_or_do_not() {
        let holds = |condition: &str| judge(&[condition.to_owned()], &measured());
        assert_eq!(holds("within(a.pps, 700e3, 0.05) && a.pps > 1"), Ok(true));
        assert_eq!(holds("between(a.pps, 690e3, 700e3)"), Ok(false));
        assert_eq!(holds("falling(a.curve, 0.01) && max(a.curve) == 3.0"), Ok(true));
        assert_eq!(holds("falling(a.curve, 0.0)"), Ok(false));
        assert_eq!(holds("max(peaks(a.curve, 2)) == 3.0 && min(peaks(a.curve, 2)) == 2.01"), Ok(true));
        assert_eq!(holds("below(a.curve, 2.5) == 2.0 && above(a.curve, 3.0) == 0.0"), Ok(true));
        assert_eq!(holds("at_min(a.curve, [7.0, 8.0, 9.0]) == 8.0"), Ok(true));
        assert_eq!(holds("at_max(a.curve, [7.0, 8.0, 9.0]) == 7.0"), Ok(true));
        assert_eq!(holds("last(a.curve) >= 2.0 && a.curve[0] == 3.0"), Ok(true));
    }

    #[test]
    fn what_was_not_observed_is_no_number() {
        for condition in
            ["a.unseen < 1.0", "max(a.latency) > 1.0", "a.latency[1] < 1.0", "below(a.latency, 1.0) == 0.0"]
        {
            let error = judge(&[condition.to_owned()], &measured()).unwrap_err();
            assert!(error.contains("not observed") && error.contains(condition), "{error}");
            let first = format!("a.pps > 1.0 || {condition}");
            assert_eq!(judge(&[first], &measured()), Ok(true), "{condition}");
        }
        assert!(figure("last(a.latency)", &measured()).unwrap_err().contains("a.latency was not observed"));
    }

    #[test]
    fn nonsense_is_named() {
        let error = judge(&["a.nothing > 1".to_owned()], &measured()).unwrap_err();
        assert!(error.contains("there is no a.nothing; a has curve, latency, pps, unseen"), "{error}");
        for nonsense in [
            "sleep(9000) == ()",
            "sleep(9e3) == ()",
            "a.nothing > 1",
            "b.pps > 1",
            "a.pps",
            "within(1)",
            "((",
        ] {
            let error = judge(&[nonsense.to_owned()], &measured()).unwrap_err();
            assert!(error.contains(nonsense), "{error}");
        }
        assert_eq!(figure("a.pps / 2", &measured()), Ok(340e3));
        assert_eq!(figure("ratio(a.pps, 2.0)", &measured()), Ok(340e3));
        assert!(figure("ratio(a.pps, 0.0)", &measured()).unwrap_err().contains("no ratio to 0"));
        assert!(figure("a.zz", &measured()).unwrap_err().contains("a.zz"));
    }
}
