//! The messages of the Open Traffic Generator models that kpps knows, as a table.
//!
//! `models.txt` has the names and numbers of the models (github.com/open-traffic-generator/models, version
//! 1.62), and which of the fields kpps supports. JSON and protobuf are read and written by this one table.

use std::collections::BTreeMap;
use std::sync::LazyLock;

/// The type of a field's values.
#[derive(Clone, Debug, PartialEq)]
pub enum Kind {
    /// `bool`.
    Bool,
    /// `uint32` and `uint64`: the largest value.
    Uint(u64),
    /// `int32` and `int64`.
    Int,
    /// `float`, and `double` if the flag is set.
    Float(bool),
    /// `string`.
    Text,
    /// `bytes`. A refused field may have another type in the models: it is not read.
    Bytes,
    /// An enumeration: its names with their numbers.
    Choice(Vec<(&'static str, u32)>),
    /// Another message, by its name.
    Message(&'static str),
}

/// Whether kpps supports a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Support {
    /// It has its effect.
    Full,
    /// It is accepted with a warning, and has no effect.
    Noted,
    /// It is refused.
    None,
}

/// A field of a message.
#[derive(Clone, Debug, PartialEq)]
pub struct Field {
    /// Its name, in JSON and in the definition of the protocol.
    pub name: &'static str,
    /// Its number in protobuf.
    pub number: u32,
    /// The type of its values.
    pub kind: Kind,
    /// Whether it is a list.
    pub is_repeated: bool,
    /// Whether kpps supports it.
    pub support: Support,
}

/// A message.
#[derive(Debug, PartialEq)]
pub struct Message {
    /// Its name.
    pub name: &'static str,
    /// Its fields.
    pub fields: Vec<Field>,
}

impl Message {
    /// The field with this name.
    pub fn field(&self, name: &str) -> Option<&Field> {
        self.fields.iter().find(|field| field.name == name)
    }
}

/// All messages by their names.
pub static ALL: LazyLock<BTreeMap<&'static str, Message>> = LazyLock::new(|| {
    let mut all = BTreeMap::new();
    let mut lines = include_str!("models.txt").lines().filter(|line| !line.starts_with('#')).peekable();
    while let Some(name) = lines.next() {
        let mut fields = Vec::new();
        while let Some(field) = lines.next_if(|line| line.starts_with(' ')) {
            fields.extend(parse(field));
        }
        all.insert(name, Message { name, fields });
    }
    all
});

/// A message without fields, in place of an unknown one.
static EMPTY: Message = Message { name: "", fields: Vec::new() };

/// The message with this name.
pub fn message(name: &str) -> &'static Message {
    ALL.get(name).unwrap_or(&EMPTY)
}

/// A line of a field: mark, name, number, `repeated`, type.
fn parse(line: &'static str) -> Option<Field> {
    let rest = line.strip_prefix(' ')?;
    let support = match rest.get(..1)? {
        "-" => Support::None,
        "~" => Support::Noted,
        _ => Support::Full,
    };
    let words: Vec<&'static str> = rest.get(1..)?.split(' ').collect();
    let (name, number, is_repeated, kind) = match words[..] {
        [name, number, "repeated", kind] => (name, number, true, kind),
        [name, number, kind] => (name, number, false, kind),
        _ => return None,
    };
    let kind = match kind {
        "bool" => Kind::Bool,
        "uint32" => Kind::Uint(u32::MAX.into()),
        "uint64" => Kind::Uint(u64::MAX),
        "int32" | "int64" => Kind::Int,
        "float" => Kind::Float(false),
        "double" => Kind::Float(true),
        "string" => Kind::Text,
        "bytes" => Kind::Bytes,
        choices if choices.contains('=') => Kind::Choice(
            choices
                .split(',')
                .filter_map(|one| {
                    let (name, number) = one.split_once('=')?;
                    Some((name, number.parse().ok()?))
                })
                .collect(),
        ),
        message => Kind::Message(message),
    };
    Some(Field { name, number: number.parse().ok()?, kind, is_repeated, support })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn the_table_is_complete() {
        let lines = include_str!("models.txt").lines().filter(|line| line.starts_with(' ')).count();
        assert_eq!(ALL.values().map(|message| message.fields.len()).sum::<usize>(), lines);
        for message in ALL.values() {
            let numbers: HashSet<_> = message.fields.iter().map(|field| field.number).collect();
            assert_eq!(numbers.len(), message.fields.len(), "{}", message.name);
            for field in &message.fields {
                match &field.kind {
                    Kind::Message(name) => assert!(ALL.contains_key(name), "{name}"),
                    Kind::Choice(all) => assert!(!all.is_empty(), "{}", field.name),
                    _ => {}
                }
            }
        }
    }

    /// The depth of a message's tree is finite: readers recurse into it.
    #[test]
    fn no_message_contains_itself() {
        fn depth(message: &Message) -> usize {
            let of = |field: &Field| match field.kind {
                Kind::Message(name) => depth(super::message(name)),
                _ => 0,
            };
            1 + message.fields.iter().map(of).max().unwrap_or(0)
        }
        assert!(ALL.values().map(depth).max().unwrap() < 12);
    }
}
