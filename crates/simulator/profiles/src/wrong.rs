//! Mistakes in an entry of a profile, in words: the entry, the value found, and the allowed values.

use serde_path_to_error::{Path, Segment};
use toml::{Table, Value};

/// The mistake.
pub(crate) enum Wrong {
    /// An unknown entry.
    Unknown(String),
    /// Something else.
    Bad(String),
}

/// The longest value that a message repeats.
const LONGEST: usize = 60;

/// A word that no entry allows.
const NO_WORD: &str = "?";

/// The readers of a profile, beside its entries.
pub(crate) struct Reader<'r> {
    /// serde's message about another table of entries; `None` if it takes that.
    pub again: &'r dyn Fn(Table) -> Option<String>,
    /// The values that entries had before they were set.
    pub before: &'r [(String, Value)],
}

/// A message of serde in words, with the entry that it is about.
pub(crate) fn explain(table: Table, path: &Path, message: &str, reader: &Reader) -> Wrong {
    let mut steps: Vec<String> = path.iter().filter_map(step).collect();
    let mut entry = steps.join(".");
    let message = message.replace('\n', "; ");
    if let Some((name, known)) = message.strip_prefix("unknown field ").and_then(|rest| rest.split_once(", "))
    {
        let name = name.trim_matches('`');
        let within = entry.strip_suffix(name).map_or(&*entry, |within| within.trim_end_matches('.'));
        let whole = if within.is_empty() { name.to_owned() } else { format!("{within}.{name}") };
        // Entries of an entry, or those of the profile.
        let known = match within.is_empty() {
            true => listed(known, "it may be", "there are none"),
            false => listed(known, &format!("the entries of {within} are"), &format!("{within} has none")),
        };
        return Wrong::Unknown(format!("there is no entry '{whole}'; {known}"));
    }
    if let Some(name) = message.strip_prefix("missing field ") {
        let name = name.trim_matches('`');
        let whole = if entry.is_empty() { name.to_owned() } else { format!("{entry}.{name}") };
        return Wrong::Bad(format!("the entry '{whole}' is missing"));
    }
    let found = find(Value::Table(table.clone()), &steps).filter(|_| !steps.is_empty());
    // For a value that is no word, serde does not list the valid words; it does for a wrong word.
    let words = || {
        let mut whole = Value::Table(table);
        *place(&mut whole, &steps)? = NO_WORD.into();
        let Value::Table(other) = whole else { return None };
        let message = (reader.again)(other)?;
        Some(message.strip_prefix("unknown variant ")?.split_once(", ")?.1.to_owned())
    };
    match &found {
        Some(Value::Table(several)) if message.contains("exactly 1 element") => {
            if let Some(words) = words() {
                return one_of(&entry, several, &words, reader.before);
            }
        }
        Some(found) if !found.is_str() && message.contains("unit variant") => {
            if let Some(words) = words() {
                let allowed = listed(&words, "allowed are", "nothing is allowed");
                return Wrong::Bad(format!("{entry}: found {}, {allowed}", short(found)));
            }
        }
        _ => (),
    }
    let allowed = match (message.strip_prefix("unknown variant "), message.split_once(", expected ")) {
        (Some(rest), _) => match rest.split_once(", ") {
            Some((_, known)) => listed(known, "allowed are", "nothing is allowed"),
            None => message.clone(),
        },
        // The last step is the word that was found.
        (None, Some((found, _))) if found.contains("unit variant") => {
            let word = steps.pop().unwrap_or_default();
            entry = steps.join(".");
            format!("which takes entries of its own: {{ {word} = {{ … }} }}")
        }
        (None, Some((_, expected))) => format!("allowed is {}", kind_of(expected)),
        (None, None) => message.clone(),
    };
    Wrong::Bad(match (entry.is_empty(), found) {
        (true, _) => message,
        (false, Some(found)) => format!("{entry}: found {}, {allowed}", short(&found)),
        (false, None) => format!("{entry}: {message}"),
    })
}

/// The mistake in an entry that must have exactly one of several forms. `before` are the values that entries
/// had before some were set.
fn one_of(entry: &str, found: &Table, words: &str, before: &[(String, Value)]) -> Wrong {
    let names: Vec<_> = names(words).collect();
    if let Some(unknown) = found.keys().find(|key| !names.contains(&key.as_str())) {
        let known = listed(words, &format!("the entries of {entry} are"), "");
        return Wrong::Unknown(format!("there is no entry '{entry}.{unknown}'; {known}"));
    }
    let takes = format!("{entry} takes one of {}", names.join(", "));
    let old = before.iter().find(|(name, _)| name == entry).and_then(|(_, old)| old.as_table());
    let old: Vec<_> = old.into_iter().flat_map(Table::keys).cloned().collect();
    match found.keys().find(|key| !old.contains(key)) {
        Some(new) if !old.is_empty() => Wrong::Bad(format!(
            "{takes}; the base has {}: replace it with {entry} = {{ value = {{ {new} = {{ … }} }} }} \
             in a profile of your own",
            old.join(", ")
        )),
        _ => Wrong::Bad(format!("{takes}: found {}", short(&Value::Table(found.clone())))),
    }
}

fn step(segment: &Segment) -> Option<String> {
    match segment {
        Segment::Map { key } => Some(key.clone()),
        Segment::Enum { variant } => Some(variant.clone()),
        Segment::Seq { index } => Some(index.to_string()),
        Segment::Unknown => None,
    }
}

/// The value at a path.
fn find(value: Value, steps: &[String]) -> Option<Value> {
    steps.iter().try_fold(value, |value, step| match value {
        Value::Table(mut table) => table.remove(step),
        Value::Array(mut list) => {
            let index = step.parse().ok().filter(|&index: &usize| index < list.len())?;
            Some(list.swap_remove(index))
        }
        // The name of a variant that has no entries.
        other => (other.as_str() == Some(step)).then_some(other),
    })
}

/// The place of an entry.
fn place<'v>(value: &'v mut Value, steps: &[String]) -> Option<&'v mut Value> {
    steps.iter().try_fold(value, |value, step| match value {
        Value::Table(table) => table.get_mut(step),
        Value::Array(list) => list.get_mut(step.parse::<usize>().ok()?),
        _ => None,
    })
}

/// A value, cut off where it is long.
fn short(value: &Value) -> String {
    let text = value.to_string().replace('\n', " ");
    match text.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

/// The names in backticks.
fn names(known: &str) -> impl Iterator<Item = &str> {
    known.split('`').skip(1).step_by(2)
}

/// serde's "expected one of `a`, `b`" as a list.
fn listed(known: &str, before: &str, none: &str) -> String {
    let names: Vec<_> = names(known).collect();
    if names.is_empty() { none.to_owned() } else { format!("{before} {}", names.join(", ")) }
}

/// The values of a type of Rust, in words.
fn kind_of(expected: &str) -> String {
    let whole = |most: u64| format!("a whole number from 0 to {most}");
    match expected {
        "u8" => whole(u8::MAX.into()),
        "u16" => whole(u16::MAX.into()),
        "u32" => whole(u32::MAX.into()),
        "u64" | "usize" => "a whole number from 0 up".to_owned(),
        "i64" => "a whole number".to_owned(),
        "f64" => "a number".to_owned(),
        "a boolean" => "true or false".to_owned(),
        "a string" => "text in quotes".to_owned(),
        "a sequence" => "a list".to_owned(),
        "a map" => "a table of entries".to_owned(),
        other => match other.strip_prefix("struct ") {
            Some(_) => "a table of entries".to_owned(),
            None => other.to_owned(),
        },
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use crate::{Kind, Profile};
    use serde::Deserialize;

    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    #[expect(dead_code)]
    struct Inner {
        short: u8,
        on: bool,
        #[serde(default)]
        list: Vec<u16>,
    }

    #[derive(Deserialize)]
    #[serde(deny_unknown_fields, rename_all = "kebab-case")]
    #[expect(dead_code)]
    enum Sort {
        Plain,
        Of(u32),
        Deep { inner: Inner },
        Slow { turns: u16 },
    }

    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    #[expect(dead_code)]
    struct All {
        ring: u16,
        sort: Sort,
    }
    crate::read_as!(All);

    #[test]
    fn a_message_has_entry_value_and_what_is_allowed() {
        let read = |ring: &str, sort: &str| {
            let text = format!(
                "description = 'x'\nring = {{ value = {ring}, source = 's' }}\n\
                 sort = {{ value = {sort}, source = 's' }}"
            );
            Profile::parse(Kind::Bus, "t.toml", &text).unwrap().get::<All>()
        };
        assert!(read("1", "'plain'").is_ok() && read("1", "{ of = 3 }").is_ok());
        for (ring, sort, says) in [
            ("'many'", "'plain'", "ring: found \"many\", allowed is a whole number from 0 to 65535"),
            ("70000", "'plain'", "ring: found 70000, allowed is a whole number from 0 to 65535"),
            ("-1", "'plain'", "ring: found -1, allowed is a whole number from 0 to 65535"),
            ("1.5", "'plain'", "ring: found 1.5, allowed is a whole number from 0 to 65535"),
            ("1", "'other'", "sort: found \"other\", allowed are plain, of, deep, slow"),
            ("1", "{ other = 3 }", "allowed are plain, of, deep, slow"),
            ("1", "7", "sort: found 7, allowed are plain, of, deep, slow"),
            ("1", "true", "sort: found true, allowed are plain, of, deep, slow"),
            ("1", "['plain']", "sort: found [\"plain\"], allowed are plain, of, deep, slow"),
            ("1", "{}", "sort takes one of plain, of, deep, slow: found {}"),
            (
                "1",
                // Tables have the order of the alphabet or of the file.
                "{ deep = 4, of = 3 }",
                "sort takes one of plain, of, deep, slow: found { deep = 4, of = 3 }",
            ),
            (
                "1",
                "{ of = 3, off = 4 }",
                "there is no entry 'sort.off'; the entries of sort are plain, of, deep, slow",
            ),
            ("1", "{ slow = { turns = '8' } }", "sort.slow.turns: found \"8\", allowed is a whole number"),
            ("1", "'of'", "sort: found \"of\", which takes entries of its own: { of = { … } }"),
            ("1", "{ of = 'x' }", "sort.of: found \"x\", allowed is a whole number from 0 to 4294967295"),
            (
                "1",
                "{ deep = { inner = { short = 300, on = true } } }",
                "sort.deep.inner.short: found 300, allowed is a whole number from 0 to 255",
            ),
            (
                "1",
                "{ deep = { inner = { short = 3, on = 1 } } }",
                "sort.deep.inner.on: found 1, allowed is true or false",
            ),
            (
                "1",
                "{ deep = { inner = { short = 3, on = true, list = [1, 'x'] } } }",
                "sort.deep.inner.list.1: found \"x\", allowed is a whole number from 0 to 65535",
            ),
            ("1", "{ deep = { inner = { short = 3 } } }", "the entry 'sort.deep.inner.on' is missing"),
            (
                "1",
                "{ deep = { inner = { short = 3, on = true, no = 1 } } }",
                "there is no entry 'sort.deep.inner.no'; the entries of sort.deep.inner are short, on, list",
            ),
        ] {
            let error = read(ring, sort).err().unwrap().to_string();
            assert!(error.starts_with("bus profile 't.toml': ") && error.contains(says), "{says}: {error}");
            assert!(!error.contains('\n'), "{error}");
        }
    }
}
