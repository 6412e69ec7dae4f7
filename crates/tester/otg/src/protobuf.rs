//! Reading and writing messages in protobuf (protobuf.dev, Encoding).

use crate::models::{Field, Kind, Message, Support, message};
use crate::problems::{Path, Problems};
use crate::value::{Object, Value};

/// The most values of a message, as in JSON.
const MOST_VALUES: usize = 3_000_000;

/// The bytes are no protobuf.
struct Malformed;

/// The part of a message that is still to be read.
struct Input<'i>(&'i [u8]);

/// A value as it is encoded.
enum Wire<'i> {
    Varint(u64),
    Fixed64(u64),
    Bytes(&'i [u8]),
    Fixed32(u32),
}

impl<'i> Input<'i> {
    fn varint(&mut self) -> Result<u64, Malformed> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let (&byte, rest) = self.0.split_first().ok_or(Malformed)?;
            self.0 = rest;
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(Malformed)
    }

    fn bytes(&mut self, count: u64) -> Result<&'i [u8], Malformed> {
        let count = usize::try_from(count).map_err(|_| Malformed)?;
        let (bytes, rest) = self.0.split_at_checked(count).ok_or(Malformed)?;
        self.0 = rest;
        Ok(bytes)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        let (bytes, rest) = self.0.split_first_chunk::<N>().ok_or(Malformed)?;
        self.0 = rest;
        Ok(*bytes)
    }

    fn wire(&mut self, kind: u64) -> Result<Wire<'i>, Malformed> {
        match kind {
            0 => Ok(Wire::Varint(self.varint()?)),
            1 => Ok(Wire::Fixed64(u64::from_le_bytes(self.array()?))),
            2 => {
                let count = self.varint()?;
                Ok(Wire::Bytes(self.bytes(count)?))
            }
            5 => Ok(Wire::Fixed32(u32::from_le_bytes(self.array()?))),
            _ => Err(Malformed),
        }
    }
}

/// Reads a message. Mistakes are added to `problems`; `None` if the bytes are no such message.
pub fn read(name: &str, bytes: &[u8], problems: &mut Problems) -> Option<Object> {
    let mut values = 0;
    let object = object(message(name), bytes, &Path::ROOT, problems, &mut values);
    if object.is_none() && problems.refused.is_empty() {
        problems.wrong("the message is no protobuf of this type".into());
    }
    object
}

/// Reads the message in the only field of another, as requests of gRPC have theirs. Mistakes are added to
/// `problems`; `None` if the bytes are no such message.
pub fn read_within(name: &str, bytes: &[u8], problems: &mut Problems) -> Option<Object> {
    let outer = message(name).fields.first()?;
    let Kind::Message(inner) = outer.kind else { return None };
    let (mut input, mut found) = (Input(bytes), &[][..]);
    while !input.0.is_empty() {
        let part = input.varint().and_then(|key| Ok((key >> 3, input.wire(key & 7)?)));
        match part {
            Ok((number, Wire::Bytes(bytes))) if number == u64::from(outer.number) => found = bytes,
            Ok((number, _)) => problems.unsupported(format!("#{number}"), "there is no such field"),
            Err(Malformed) => {
                problems.wrong("the message is no protobuf of this type".into());
                return None;
            }
        }
    }
    read(inner, found, problems)
}

fn object(
    message: &'static Message,
    bytes: &[u8],
    path: &Path<'_>,
    problems: &mut Problems,
    values: &mut usize,
) -> Option<Object> {
    let mut object = Object { message, fields: Vec::new() };
    let mut input = Input(bytes);
    while !input.0.is_empty() {
        *values += 1;
        if *values > MOST_VALUES {
            problems.wrong(format!("the message has more than {MOST_VALUES} values"));
            return None;
        }
        let key = input.varint().ok()?;
        let (number, wire) = (u32::try_from(key >> 3).ok()?, input.wire(key & 7).ok()?);
        let Some(field) = message.fields.iter().find(|field| field.number == number) else {
            problems.unsupported(path.number(number), "there is no such field");
            continue;
        };
        let path = path.field(field.name);
        match field.support {
            Support::None if matches!(wire, Wire::Varint(0)) => continue,
            Support::None => {
                problems.unsupported(path, "not supported");
                continue;
            }
            Support::Noted if matches!(wire, Wire::Varint(0)) => {}
            Support::Noted => problems.note(format!("{path}: it has no effect")),
            Support::Full => {}
        }
        if !field.is_repeated {
            let value = value(field, wire, &path, problems, values)?;
            object.put(field, value);
            continue;
        }
        let at = object.fields.iter().position(|(other, _)| other.number == number);
        let at = at.unwrap_or_else(|| {
            object.fields.push((field, Value::List(Vec::new())));
            object.fields.len() - 1
        });
        let Some((_, Value::List(list))) = object.fields.get_mut(at) else { return None };
        match (packed(&field.kind), wire) {
            (Some(kind), Wire::Bytes(packed)) => {
                let mut input = Input(packed);
                while !input.0.is_empty() {
                    *values += 1;
                    if *values > MOST_VALUES {
                        problems.wrong(format!("the message has more than {MOST_VALUES} values"));
                        return None;
                    }
                    let wire = input.wire(kind).ok()?;
                    list.push(value(field, wire, &path.index(list.len()), problems, values)?);
                }
            }
            (_, wire) => list.push(value(field, wire, &path.index(list.len()), problems, values)?),
        }
    }
    Some(object)
}

/// The encoding of a list's values one after the other, if they can be so.
const fn packed(kind: &Kind) -> Option<u64> {
    match kind {
        Kind::Bool | Kind::Uint(_) | Kind::Int | Kind::Choice(_) => Some(0),
        Kind::Float(true) => Some(1),
        Kind::Float(false) => Some(5),
        Kind::Text | Kind::Bytes | Kind::Message(_) => None,
    }
}

fn value(
    field: &'static Field,
    wire: Wire<'_>,
    path: &Path<'_>,
    problems: &mut Problems,
    values: &mut usize,
) -> Option<Value> {
    let value = match (&field.kind, wire) {
        (Kind::Bool, Wire::Varint(value)) => Value::Bool(value != 0),
        (Kind::Uint(most), Wire::Varint(value)) => Value::Uint(value & most),
        (Kind::Int, Wire::Varint(value)) => Value::Int(value.cast_signed()),
        (Kind::Float(true), Wire::Fixed64(bits)) => Value::Float(f64::from_bits(bits)),
        (Kind::Float(false), Wire::Fixed32(bits)) => Value::Float(f32::from_bits(bits).into()),
        (Kind::Text, Wire::Bytes(bytes)) => Value::Text(str::from_utf8(bytes).ok()?.to_owned()),
        (Kind::Bytes, Wire::Bytes(bytes)) => Value::Bytes(bytes.to_vec()),
        (Kind::Choice(all), Wire::Varint(number)) => {
            let Some((name, _)) = all.iter().find(|(_, known)| u64::from(*known) == number) else {
                problems.wrong(format!("{path}: there is no choice with the number {number}"));
                return None;
            };
            Value::Choice(name)
        }
        (Kind::Message(name), Wire::Bytes(bytes)) => {
            Value::Object(object(message(name), bytes, path, problems, values)?)
        }
        _ => {
            problems.wrong(format!("{path}: the value has another type"));
            return None;
        }
    };
    if let Value::Float(number) = value
        && !number.is_finite()
    {
        problems.wrong(format!("{path}: {number} is no number"));
        return None;
    }
    Some(value)
}

/// Writes a message.
pub fn write(object: &Object) -> Vec<u8> {
    let mut out = Vec::new();
    write_object(object, &mut out);
    out
}

fn write_object(object: &Object, out: &mut Vec<u8>) {
    for (field, value) in &object.fields {
        match value {
            Value::List(values) => values.iter().for_each(|value| write_value(field, value, out)),
            value => write_value(field, value, out),
        }
    }
}

fn varint(mut value: u64, out: &mut Vec<u8>) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// A field with one value. Lists are not packed: readers accept both.
fn write_value(field: &Field, value: &Value, out: &mut Vec<u8>) {
    let key = |kind: u64, out: &mut Vec<u8>| varint(u64::from(field.number) << 3 | kind, out);
    let bytes = |bytes: &[u8], out: &mut Vec<u8>| {
        varint(bytes.len() as u64, out);
        out.extend_from_slice(bytes);
    };
    match (&field.kind, value) {
        (_, Value::Bool(value)) => {
            key(0, out);
            varint((*value).into(), out);
        }
        (_, Value::Uint(value)) => {
            key(0, out);
            varint(*value, out);
        }
        (_, Value::Int(value)) => {
            key(0, out);
            varint(value.cast_unsigned(), out);
        }
        (Kind::Float(false), Value::Float(value)) => {
            key(5, out);
            out.extend_from_slice(&(*value as f32).to_le_bytes());
        }
        (_, Value::Float(value)) => {
            key(1, out);
            out.extend_from_slice(&value.to_le_bytes());
        }
        (Kind::Choice(all), Value::Choice(name)) => {
            let number = all.iter().find(|(known, _)| known == name).map_or(0, |(_, number)| *number);
            key(0, out);
            varint(number.into(), out);
        }
        (_, Value::Text(text)) => {
            key(2, out);
            bytes(text.as_bytes(), out);
        }
        (_, Value::Bytes(all)) => {
            key(2, out);
            bytes(all, out);
        }
        (_, Value::Object(object)) => {
            let inner = write(object);
            key(2, out);
            bytes(&inner, out);
        }
        (_, Value::Choice(_) | Value::List(_)) => {}
    }
}
