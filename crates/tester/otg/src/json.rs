//! Reading messages in JSON.

use crate::models::{Field, Kind, Message, Support, message};
use crate::problems::{Path, Problems};
use crate::value::{Object, Value};
use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use std::cell::RefCell;
use std::fmt;

/// The most values of a message. Each takes some tens of bytes of memory.
const MOST_VALUES: usize = 3_000_000;

/// Reads a message. Mistakes are added to `problems`; `None` if the text is no such message.
pub fn read(name: &str, text: &[u8], problems: &mut Problems) -> Option<Object> {
    let reading = RefCell::new(Reading { problems: std::mem::take(problems), values: 0, failed: None });
    let mut deserializer = serde_json::Deserializer::from_slice(text);
    let path = Path::ROOT;
    let seed = ObjectSeed { message: message(name), path: &path, reading: &reading };
    let object = seed.deserialize(&mut deserializer).and_then(|it| deserializer.end().map(|()| it));
    let Reading { problems: found, failed, .. } = reading.into_inner();
    *problems = found;
    object
        .map_err(|error| {
            let place =
                failed.filter(|place| !place.is_empty()).map_or_else(String::new, |at| format!("{at}: "));
            problems.wrong(format!("{place}{error}"));
        })
        .ok()
}

/// The state of reading.
struct Reading {
    problems: Problems,
    values: usize,
    /// The place of the first error.
    failed: Option<String>,
}

impl Reading {
    fn count<E: Error>(&mut self) -> Result<(), E> {
        self.values += 1;
        match self.values > MOST_VALUES {
            true => Err(E::custom(format!("the message has more than {MOST_VALUES} values"))),
            false => Ok(()),
        }
    }

    fn fails_at(&mut self, path: &Path<'_>) {
        self.failed.get_or_insert_with(|| path.to_string());
    }
}

/// Reads a message.
struct ObjectSeed<'s> {
    message: &'static Message,
    path: &'s Path<'s>,
    reading: &'s RefCell<Reading>,
}

impl<'de> DeserializeSeed<'de> for ObjectSeed<'_> {
    type Value = Object;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Object, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for ObjectSeed<'_> {
    type Value = Object;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Object, A::Error> {
        let Self { message, path, reading } = self;
        let mut object = Object { message, fields: Vec::new() };
        while let Some(key) = map.next_key::<String>()? {
            let path = path.field(&key);
            reading.borrow_mut().count()?;
            let Some(field) = message.field(&key) else {
                map.next_value::<IgnoredAny>()?;
                reading.borrow_mut().problems.unsupported(path, "there is no such field");
                continue;
            };
            if field.support == Support::None {
                if !map.next_value::<Emptiness>()?.0 {
                    reading.borrow_mut().problems.unsupported(path, "not supported");
                }
                continue;
            }
            let seed = ValueSeed { field, in_list: false, path: &path, reading };
            let value = map.next_value_seed(seed).inspect_err(|_| reading.borrow_mut().fails_at(&path))?;
            if let Some(value) = value {
                if field.support == Support::Noted && value != Value::Bool(false) {
                    reading.borrow_mut().problems.note(format!("{path}: it has no effect"));
                }
                object.put(field, value);
            }
        }
        Ok(object)
    }
}

/// Reads a value; `None` is null.
struct ValueSeed<'s> {
    field: &'static Field,
    /// Whether it is a value of the field's list.
    in_list: bool,
    path: &'s Path<'s>,
    reading: &'s RefCell<Reading>,
}

impl ValueSeed<'_> {
    fn number<E: Error>(&self, wide: i128, value: f64) -> Result<Option<Value>, E> {
        let is_whole = wide as f64 == value;
        match self.field.kind {
            Kind::Uint(most) if is_whole && (0..=i128::from(most)).contains(&wide) => {
                Ok(Some(Value::Uint(wide as u64)))
            }
            Kind::Uint(most) => Err(E::custom(format!("{value} is not a whole number from 0 to {most}"))),
            Kind::Int if is_whole && i64::try_from(wide).is_ok() => Ok(Some(Value::Int(wide as i64))),
            Kind::Float(is_wide) if is_wide && value.is_finite() || (value as f32).is_finite() => {
                Ok(Some(Value::Float(value)))
            }
            _ => Err(E::custom(format!("{value}: expected {}", Expected(&self.field.kind)))),
        }
    }
}

/// The expected form of values.
struct Expected<'e>(&'e Kind);

impl fmt::Display for Expected<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Kind::Bool => f.write_str("true or false"),
            Kind::Uint(_) | Kind::Int | Kind::Float(_) => f.write_str("a number"),
            Kind::Text => f.write_str("a text"),
            Kind::Bytes => f.write_str("bytes"),
            Kind::Choice(all) => {
                let names: Vec<_> = all.iter().map(|(name, _)| *name).collect();
                write!(f, "one of {}", names.join(", "))
            }
            Kind::Message(_) => f.write_str("an object"),
        }
    }
}

impl<'de> DeserializeSeed<'de> for ValueSeed<'_> {
    type Value = Option<Value>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for ValueSeed<'_> {
    type Value = Option<Value>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.field.is_repeated && !self.in_list {
            true => write!(f, "a list"),
            false => fmt::Display::fmt(&Expected(&self.field.kind), f),
        }
    }

    fn visit_unit<E: Error>(self) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Self::Value, E> {
        match self.field.kind {
            Kind::Bool if self.in_list || !self.field.is_repeated => Ok(Some(Value::Bool(value))),
            _ => Err(E::invalid_type(serde::de::Unexpected::Bool(value), &self)),
        }
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Self::Value, E> {
        match self.field.is_repeated && !self.in_list {
            true => Err(E::invalid_type(serde::de::Unexpected::Unsigned(value), &self)),
            false => self.number(value.into(), value as f64),
        }
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Self::Value, E> {
        match self.field.is_repeated && !self.in_list {
            true => Err(E::invalid_type(serde::de::Unexpected::Signed(value), &self)),
            false => self.number(value.into(), value as f64),
        }
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Self::Value, E> {
        match self.field.is_repeated && !self.in_list {
            true => Err(E::invalid_type(serde::de::Unexpected::Float(value), &self)),
            false => self.number(value as i128, value),
        }
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Self::Value, E> {
        if self.field.is_repeated && !self.in_list {
            return Err(E::invalid_type(serde::de::Unexpected::Str(text), &self));
        }
        let wrong = || Err(E::invalid_value(serde::de::Unexpected::Str(text), &self));
        match &self.field.kind {
            Kind::Text => Ok(Some(Value::Text(text.to_owned()))),
            Kind::Choice(all) => match all.iter().find(|(name, _)| *name == text) {
                Some((name, _)) => Ok(Some(Value::Choice(name))),
                None => wrong(),
            },
            // Protobuf's JSON has numbers of 64 bits as texts.
            Kind::Uint(_) | Kind::Int => match text.parse::<i64>().map(i128::from) {
                Ok(number) => self.number(number, number as f64),
                Err(_) => match text.parse::<u64>() {
                    Ok(number) => self.number(number.into(), number as f64),
                    Err(_) => wrong(),
                },
            },
            _ => wrong(),
        }
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
        let Self { field, in_list, path, reading } = self;
        if in_list || !field.is_repeated {
            return Err(A::Error::invalid_type(serde::de::Unexpected::Seq, &self));
        }
        let mut values = Vec::new();
        loop {
            let path = path.index(values.len());
            let seed = ValueSeed { field, in_list: true, path: &path, reading };
            let next = seq.next_element_seed(seed).inspect_err(|_| reading.borrow_mut().fails_at(&path))?;
            let Some(value) = next else { break };
            reading.borrow_mut().count()?;
            values.extend(value);
        }
        Ok((!values.is_empty()).then_some(Value::List(values)))
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
        let Self { field, in_list, path, reading } = self;
        match field.kind {
            Kind::Message(name) if in_list || !field.is_repeated => {
                let object = ObjectSeed { message: message(name), path, reading }.visit_map(map)?;
                Ok(Some(Value::Object(object)))
            }
            _ => Err(A::Error::invalid_type(serde::de::Unexpected::Map, &self)),
        }
    }
}

/// Whether a value is null, false or an empty list: the same as an absent field.
struct Emptiness(bool);

impl<'de> serde::Deserialize<'de> for Emptiness {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Any;
        impl<'de> Visitor<'de> for Any {
            type Value = Emptiness;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("any value")
            }
            fn visit_unit<E: Error>(self) -> Result<Emptiness, E> {
                Ok(Emptiness(true))
            }
            fn visit_bool<E: Error>(self, value: bool) -> Result<Emptiness, E> {
                Ok(Emptiness(!value))
            }
            fn visit_u64<E: Error>(self, _: u64) -> Result<Emptiness, E> {
                Ok(Emptiness(false))
            }
            fn visit_i64<E: Error>(self, _: i64) -> Result<Emptiness, E> {
                Ok(Emptiness(false))
            }
            fn visit_f64<E: Error>(self, _: f64) -> Result<Emptiness, E> {
                Ok(Emptiness(false))
            }
            fn visit_str<E: Error>(self, _: &str) -> Result<Emptiness, E> {
                Ok(Emptiness(false))
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Emptiness, A::Error> {
                let mut is_empty = true;
                while seq.next_element::<IgnoredAny>()?.is_some() {
                    is_empty = false;
                }
                Ok(Emptiness(is_empty))
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Emptiness, A::Error> {
                while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
                Ok(Emptiness(false))
            }
        }
        deserializer.deserialize_any(Any)
    }
}
