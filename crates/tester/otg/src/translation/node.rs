//! A part of a configuration with its place, for messages about it.

use crate::value::{Object, Value};
use std::fmt;

/// A mistake of a configuration: place and reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bad(pub String);

impl fmt::Display for Bad {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A message of a configuration. A message that is absent has no fields: its values are the models' defaults.
#[derive(Clone)]
pub struct Node<'o> {
    object: Option<&'o Object>,
    path: String,
}

impl<'o> Node<'o> {
    /// The outermost message.
    pub fn new(object: &'o Object) -> Self {
        Self { object: Some(object), path: String::new() }
    }

    /// Its place in the configuration.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Whether the configuration has this message.
    pub fn is_present(&self) -> bool {
        self.object.is_some()
    }

    /// Its name in an error.
    fn place(&self, field: &str) -> String {
        match (self.path.is_empty(), field.is_empty()) {
            (true, _) => field.to_owned(),
            (false, true) => self.path.clone(),
            (false, false) => format!("{}.{field}", self.path),
        }
    }

    /// An error at this message.
    pub fn bad(&self, what: impl fmt::Display) -> Bad {
        self.bad_at("", what)
    }

    /// An error at a field of this message.
    pub fn bad_at(&self, field: &str, what: impl fmt::Display) -> Bad {
        Bad(format!("{}: {what}", self.place(field)))
    }

    fn get(&self, field: &str) -> Option<&'o Value> {
        self.object?.get(field)
    }

    /// Whether a field has a value.
    pub fn has(&self, field: &str) -> bool {
        self.get(field).is_some()
    }

    /// The message of a field.
    pub fn child(&self, field: &str) -> Self {
        let object = match self.get(field) {
            Some(Value::Object(object)) => Some(object),
            _ => None,
        };
        Self { object, path: self.place(field) }
    }

    /// The messages of a list.
    pub fn children(&self, field: &str) -> Vec<Self> {
        let Some(Value::List(values)) = self.get(field) else { return Vec::new() };
        let child = |(at, value): (usize, &'o Value)| match value {
            Value::Object(object) => {
                Some(Self { object: Some(object), path: format!("{}[{at}]", self.place(field)) })
            }
            _ => None,
        };
        values.iter().enumerate().filter_map(child).collect()
    }

    /// The messages of all lists with this name, in this message and in those within it.
    pub fn descendants(&self, field: &str) -> Vec<Self> {
        let mut all = self.children(field);
        for (inner, value) in self.object.iter().flat_map(|object| &object.fields) {
            match value {
                Value::Object(_) => all.extend(self.child(inner.name).descendants(field)),
                Value::List(_) if inner.name != field => {
                    all.extend(self.children(inner.name).iter().flat_map(|child| child.descendants(field)));
                }
                _ => {}
            }
        }
        all
    }

    /// A text.
    pub fn text(&self, field: &str) -> Option<&'o str> {
        match self.get(field)? {
            Value::Text(text) => Some(text),
            Value::Choice(name) => Some(name),
            _ => None,
        }
    }

    /// A text that must be there.
    ///
    /// # Errors
    /// It is absent or empty.
    pub fn needed(&self, field: &str) -> Result<&'o str, Bad> {
        let text = self.text(field).filter(|text| !text.is_empty());
        text.ok_or_else(|| self.bad_at(field, "it is missing"))
    }

    /// The texts of a list.
    pub fn texts(&self, field: &str) -> Vec<&'o str> {
        let Some(Value::List(values)) = self.get(field) else { return Vec::new() };
        let text = |value: &'o Value| match value {
            Value::Text(text) => Some(text.as_str()),
            Value::Choice(name) => Some(*name),
            _ => None,
        };
        values.iter().filter_map(text).collect()
    }

    /// The numbers of a list.
    pub fn uints(&self, field: &str) -> Vec<u64> {
        let Some(Value::List(values)) = self.get(field) else { return Vec::new() };
        let number = |value: &Value| if let Value::Uint(number) = value { Some(*number) } else { None };
        values.iter().filter_map(number).collect()
    }

    /// A whole number.
    pub fn uint(&self, field: &str) -> Option<u64> {
        match self.get(field)? {
            Value::Uint(number) => Some(*number),
            _ => None,
        }
    }

    /// A number.
    pub fn float(&self, field: &str) -> Option<f64> {
        match self.get(field)? {
            Value::Float(number) => Some(*number),
            Value::Uint(number) => Some(*number as f64),
            _ => None,
        }
    }

    /// A flag; false if it is absent.
    pub fn flag(&self, field: &str) -> bool {
        matches!(self.get(field), Some(Value::Bool(true)))
    }

    /// The chosen one of several fields: `choice` names it. Without `choice` it is the one that is present,
    /// and else this one.
    ///
    /// # Errors
    /// `choice` names another field than one that is present, or several are present without it.
    pub fn choice(&self, default: &'static str) -> Result<&'o str, Bad> {
        let Some(object) = self.object else { return Ok(default) };
        let names = object.message.field("choice").map(|field| &field.kind);
        let is_choice = |name: &str| match names {
            Some(crate::models::Kind::Choice(all)) => all.iter().any(|(known, _)| *known == name),
            _ => false,
        };
        let mut present = object.fields.iter().map(|(field, _)| field.name).filter(|name| is_choice(name));
        match (self.text("choice"), present.next(), present.next()) {
            (Some(choice), Some(other), _) if other != choice => {
                Err(self.bad_at(other, format!("it is given, and choice is {choice}")))
            }
            (Some(choice), Some(_), Some(other)) => {
                Err(self.bad_at(other, format!("it is given, and choice is {choice}")))
            }
            (Some(choice), ..) => Ok(choice),
            (None, Some(only), None) => Ok(only),
            (None, Some(one), Some(other)) => {
                Err(self.bad_at("choice", format!("it is missing, and both {one} and {other} are given")))
            }
            (None, None, _) => Ok(default),
        }
    }
}
