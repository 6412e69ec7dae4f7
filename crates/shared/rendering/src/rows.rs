//! The rows of any document, as comma-separated values and as a table.

use kpps_documents::grid::Setting;
use maud::{Markup, html as markup};
use serde::de::{IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;
use std::collections::HashMap;
use std::fmt;

/// The rows of a document: what its comma-separated values and the table of its page are made of.
pub struct Rows {
    /// The columns.
    pub columns: Vec<Column>,
    /// The fields of each row, one for each column.
    pub rows: Vec<Vec<Field>>,
}

/// A column.
#[derive(Clone, Debug, PartialEq)]
pub struct Column {
    /// Its name, with its unit.
    pub name: String,
    /// The kind of its values, if it is known without them.
    pub kind: Option<Kind>,
}

impl<T: Into<String>> From<T> for Column {
    fn from(name: T) -> Self {
        Self { name: name.into(), kind: None }
    }
}

/// A kind of values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// On or off.
    Switch,
    /// Whole numbers.
    Whole,
    /// Numbers.
    Number,
    /// Anything, as text.
    Text,
}

impl Kind {
    /// The narrowest kind that all of these values have; `None` if there are none.
    pub fn of<'f>(fields: impl IntoIterator<Item = &'f Field>) -> Option<Self> {
        fields.into_iter().fold(None, |kind, field| match (kind, field) {
            (kind, Field::Empty) => kind,
            (None | Some(Self::Switch), Field::Switch(_)) => Some(Self::Switch),
            (None | Some(Self::Whole), Field::Whole(_)) => Some(Self::Whole),
            (Some(Self::Number), Field::Whole(_)) => Some(Self::Number),
            (None | Some(Self::Whole | Self::Number), Field::Number(_)) => Some(Self::Number),
            _ => Some(Self::Text),
        })
    }
}

/// A value of a row.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Field {
    /// There is no such value.
    #[default]
    Empty,
    /// On or off.
    Switch(bool),
    /// A whole number.
    Whole(i64),
    /// Any other number.
    Number(f64),
    /// Anything else.
    Text(String),
}

impl fmt::Display for Field {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => Ok(()),
            Self::Switch(on) => on.fmt(f),
            Self::Whole(whole) => whole.fmt(f),
            Self::Number(number) => number.fmt(f),
            Self::Text(text) => text.fmt(f),
        }
    }
}

impl From<bool> for Field {
    fn from(on: bool) -> Self {
        Self::Switch(on)
    }
}

impl From<i64> for Field {
    fn from(whole: i64) -> Self {
        Self::Whole(whole)
    }
}

impl From<u64> for Field {
    fn from(whole: u64) -> Self {
        i64::try_from(whole).map_or(Self::Number(whole as f64), Self::Whole)
    }
}

impl From<f64> for Field {
    fn from(number: f64) -> Self {
        Self::Number(number)
    }
}

impl From<String> for Field {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl<T: Into<Field>> From<Option<T>> for Field {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Empty, Into::into)
    }
}

impl From<Setting> for Field {
    fn from(setting: Setting) -> Self {
        match setting {
            Setting::Switch(on) => on.into(),
            Setting::Whole(whole) => whole.into(),
            Setting::Number(number) => number.into(),
            Setting::Word(word) => word.into(),
        }
    }
}

impl Rows {
    /// The rows of serialised values. A column has the name that its values have in the JSON: those of a
    /// nested object have a column each, `object.field`. A list stands in one field, as JSON.
    pub fn of<'r, T: Serialize + 'r>(rows: impl IntoIterator<Item = &'r T>) -> Self {
        Self::new(None, rows.into_iter().filter_map(flat).collect())
    }

    /// The same with all columns of an example, and their kinds, whatever is absent from the rows.
    pub(crate) fn like<'r, T: Serialize + 'r>(
        example: &impl Serialize,
        rows: impl IntoIterator<Item = &'r T>,
    ) -> Self {
        Self::new(flat(example), rows.into_iter().filter_map(flat).collect())
    }

    fn new(example: Option<Vec<Named>>, rows: Vec<Vec<Named>>) -> Self {
        let mut columns: Vec<String> = Vec::new();
        for row in example.iter().chain(&rows) {
            let mut at = 0;
            for (name, _) in row {
                match columns.iter().position(|column| column == name) {
                    Some(found) => at = found + 1,
                    // A new field comes after its neighbour.
                    None => {
                        columns.insert(at, name.clone());
                        at += 1;
                    }
                }
            }
        }
        // An object that one of the rows does not have is null there. Its fields are empty then.
        let all = columns.clone();
        columns.retain(|it| {
            !all.iter().any(|other| other.strip_prefix(it).is_some_and(|rest| rest.starts_with('.')))
        });
        let kind = |column: &str| {
            let (_, value) = example.as_ref()?.iter().find(|(name, _)| name == column)?;
            Kind::of([value])
        };
        let fields = |row: Vec<Named>| {
            let mut row: HashMap<String, Field> = row.into_iter().collect();
            columns.iter().map(|column| row.remove(column).unwrap_or_default()).collect()
        };
        Self {
            rows: rows.into_iter().map(fields).collect(),
            columns: columns.iter().map(|it| Column { name: it.clone(), kind: kind(it) }).collect(),
        }
    }

    /// One line for each row, under a header of the columns' names (RFC 4180).
    pub fn csv(&self) -> String {
        let rows = self.rows.iter().map(|fields| line(fields.iter().map(ToString::to_string)));
        std::iter::once(line(self.columns.iter().map(|column| column.name.clone()))).chain(rows).collect()
    }

    /// A table for a page.
    pub(crate) fn html(&self) -> Markup {
        markup! {
            div.scroll tabindex="0" role="region" aria-label="Every value" {
                table {
                    thead { tr { @for column in &self.columns { th scope="col" { (column.name) } } } }
                    tbody { @for row in &self.rows { tr { @for field in row { td { (field) } } } } }
                }
            }
        }
    }
}

/// A field with its name.
type Named = (String, Field);

/// The fields of a serialised value with their names; `None` if JSON cannot represent the value.
fn flat(row: &impl Serialize) -> Option<Vec<Named>> {
    // The text has the fields in their order. A number that is read from it may differ in its last digit.
    let order: Json = serde_json::from_str(&serde_json::to_string(row).ok()?).ok()?;
    let mut fields = Vec::new();
    order.flatten("", &serde_json::to_value(row).ok()?, &mut fields);
    Some(fields)
}

/// One line with its fields quoted where they must be, ending in a newline.
fn line(fields: impl Iterator<Item = String>) -> String {
    let quoted = |field: String| {
        let special = field.contains(['"', ',', '\n', '\r']);
        if special { format!("\"{}\"", field.replace('"', "\"\"")) } else { field }
    };
    fields.map(quoted).collect::<Vec<_>>().join(",") + "\n"
}

/// A JSON value that keeps the order of an object's fields.
enum Json {
    Scalar(Field),
    List,
    Object(Vec<(String, Json)>),
}

impl Json {
    /// Adds the fields of this value, which is `exact`, under its name.
    fn flatten(self, name: &str, exact: &Value, fields: &mut Vec<Named>) {
        match self {
            Self::Object(inner) => {
                for (inner, value) in inner {
                    let dot = if name.is_empty() { "" } else { "." };
                    value.flatten(&format!("{name}{dot}{inner}"), &exact[&inner], fields);
                }
            }
            Self::Scalar(Field::Number(read)) => {
                fields.push((name.to_owned(), exact.as_f64().unwrap_or(read).into()));
            }
            Self::Scalar(value) => fields.push((name.to_owned(), value)),
            Self::List => fields.push((name.to_owned(), exact.to_string().into())),
        }
    }
}

impl<'de> Deserialize<'de> for Json {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Any;
        impl<'de> Visitor<'de> for Any {
            type Value = Json;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("JSON")
            }
            fn visit_bool<E>(self, value: bool) -> Result<Json, E> {
                Ok(Json::Scalar(value.into()))
            }
            fn visit_i64<E>(self, value: i64) -> Result<Json, E> {
                Ok(Json::Scalar(value.into()))
            }
            fn visit_u64<E>(self, value: u64) -> Result<Json, E> {
                Ok(Json::Scalar(value.into()))
            }
            fn visit_f64<E>(self, value: f64) -> Result<Json, E> {
                Ok(Json::Scalar(value.into()))
            }
            fn visit_str<E>(self, value: &str) -> Result<Json, E> {
                Ok(Json::Scalar(value.to_owned().into()))
            }
            fn visit_unit<E>(self) -> Result<Json, E> {
                Ok(Json::Scalar(Field::Empty))
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Json, A::Error> {
                while seq.next_element::<IgnoredAny>()?.is_some() {}
                Ok(Json::List)
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Json, A::Error> {
                let mut fields = Vec::new();
                while let Some(field) = map.next_entry()? {
                    fields.push(field);
                }
                Ok(Json::Object(fields))
            }
        }
        deserializer.deserialize_any(Any)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_line_for_each_row_and_a_column_for_each_field() {
        let rows = [
            json!({"a": "x, \"y\"", "b": {"c": 1.5, "d": null}, "e": [1, 2], "o": null}),
            json!({"a": true, "b": {"c": 2, "d": "z", "more": [{"f": 1}]}, "e": [], "o": {"p": 7}}),
        ];
        let lines =
            ["a,b.c,b.d,b.more,e,o.p", r#""x, ""y""",1.5,,,"[1,2]","#, r#"true,2,z,"[{""f"":1}]",[],7"#];
        assert_eq!(Rows::of(&rows).csv(), lines.join("\n") + "\n");
        assert_eq!(Rows::of::<u8>(&[]).csv(), "\n");
    }

    #[test]
    fn a_number_has_all_of_its_digits() {
        // serde_json reads its text as 944.5666666666668.
        let number = 944.566_666_666_666_7_f64;
        let rows = Rows::of(&[json!({"a": number, "b": [number]})]);
        assert_eq!(rows.rows[0], [Field::Number(number), Field::Text("[944.5666666666667]".into())]);
    }

    #[test]
    fn an_example_has_the_columns_and_kinds_of_what_is_absent() {
        let example = json!({"a": 1, "b": {"c": 0.5}, "d": "x"});
        let rows = Rows::like(&example, &[json!({"a": null, "b": null, "more": null})]);
        let columns = [("a", Some(Kind::Whole)), ("more", None), ("b.c", Some(Kind::Number))];
        let columns = columns.into_iter().chain([("d", Some(Kind::Text))]);
        let found: Vec<_> = rows.columns.iter().map(|it| (it.name.as_str(), it.kind)).collect();
        let mut expected: Vec<_> = columns.collect();
        expected.sort_by_key(|it| found.iter().position(|other| other.0 == it.0));
        assert_eq!(found, expected);
        assert!(rows.rows[0].iter().all(|field| *field == Field::Empty));
    }
}
