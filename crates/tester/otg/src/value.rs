//! Values of messages, as they were read or will be written.

use crate::models::{Field, Kind, Message, message};
use serde::ser::{Serialize, SerializeMap, Serializer};

/// A value of a field.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// A flag.
    Bool(bool),
    /// A number without a sign.
    Uint(u64),
    /// A whole number.
    Int(i64),
    /// A number.
    Float(f64),
    /// A text.
    Text(String),
    /// Bytes.
    Bytes(Vec<u8>),
    /// A name of an enumeration.
    Choice(&'static str),
    /// A list.
    List(Vec<Self>),
    /// A message.
    Object(Object),
}

impl From<bool> for Value {
    fn from(value: bool) -> Self {
        Self::Bool(value)
    }
}

impl From<u64> for Value {
    fn from(value: u64) -> Self {
        Self::Uint(value)
    }
}

impl From<f64> for Value {
    fn from(value: f64) -> Self {
        Self::Float(value)
    }
}

impl From<&str> for Value {
    fn from(value: &str) -> Self {
        Self::Text(value.to_owned())
    }
}

impl From<Object> for Value {
    fn from(value: Object) -> Self {
        Self::Object(value)
    }
}

impl<T: Into<Self>> From<Vec<T>> for Value {
    fn from(values: Vec<T>) -> Self {
        Self::List(values.into_iter().map(Into::into).collect())
    }
}

/// A message with its fields. A field that is absent has no value.
#[derive(Clone, Debug, PartialEq)]
pub struct Object {
    /// Its message.
    pub message: &'static Message,
    /// Its fields, in the order in which they were set.
    pub fields: Vec<(&'static Field, Value)>,
}

impl Object {
    /// A message without fields.
    pub fn new(name: &str) -> Self {
        Self { message: message(name), fields: Vec::new() }
    }

    /// The value of a field.
    pub fn get(&self, name: &str) -> Option<&Value> {
        self.fields.iter().find(|(field, _)| field.name == name).map(|(_, value)| value)
    }

    /// Sets a field, in place of an earlier value. A text sets an enumeration by the name. A name that the
    /// message does not have changes nothing.
    pub fn set(&mut self, name: &str, value: impl Into<Value>) {
        let Some(field) = self.message.field(name) else {
            debug_assert!(false, "{} has no {name}", self.message.name);
            return;
        };
        let value = match (&field.kind, value.into()) {
            (Kind::Choice(all), Value::Text(text)) => match all.iter().find(|(known, _)| *known == text) {
                Some((known, _)) => Value::Choice(known),
                None => return,
            },
            (_, value) => value,
        };
        self.put(field, value);
    }

    /// The same message with a field.
    #[must_use]
    pub fn with(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.set(name, value);
        self
    }

    /// Sets a field of this message.
    pub fn put(&mut self, field: &'static Field, value: Value) {
        match self.fields.iter_mut().find(|(other, _)| other.number == field.number) {
            Some((_, old)) => *old = value,
            None => self.fields.push((field, value)),
        }
    }
}

impl Serialize for Object {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.fields.len()))?;
        for (field, value) in &self.fields {
            match (&field.kind, value) {
                // With the digits of the narrower type.
                (Kind::Float(false), Value::Float(value)) => {
                    map.serialize_entry(field.name, &(*value as f32))?;
                }
                _ => map.serialize_entry(field.name, value)?,
            }
        }
        map.end()
    }
}

impl Serialize for Value {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Bool(value) => serializer.serialize_bool(*value),
            Self::Uint(value) => serializer.serialize_u64(*value),
            Self::Int(value) => serializer.serialize_i64(*value),
            Self::Float(value) => serializer.serialize_f64(*value),
            Self::Text(value) => serializer.serialize_str(value),
            Self::Bytes(value) => serializer.collect_seq(value),
            Self::Choice(value) => serializer.serialize_str(value),
            Self::List(values) => serializer.collect_seq(values),
            Self::Object(object) => object.serialize(serializer),
        }
    }
}
