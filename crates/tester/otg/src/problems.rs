//! The mistakes of a message, with the places of its fields.

use std::fmt;

/// The most lines that an answer has about one message.
const MOST_LINES: usize = 100;

/// The place of a field: `flows[3].rate.pps`.
#[derive(Clone, Copy)]
pub struct Path<'p> {
    before: Option<&'p Path<'p>>,
    part: Part<'p>,
}

#[derive(Clone, Copy)]
enum Part<'p> {
    Root,
    Name(&'p str),
    Index(usize),
    Number(u32),
}

impl<'p> Path<'p> {
    /// The message itself.
    pub const ROOT: Self = Self { before: None, part: Part::Root };

    /// A field of what is here.
    pub const fn field(&'p self, name: &'p str) -> Self {
        Self { before: Some(self), part: Part::Name(name) }
    }

    /// A field of which only the number in protobuf is known.
    pub const fn number(&'p self, number: u32) -> Self {
        Self { before: Some(self), part: Part::Number(number) }
    }

    /// A value of the list that is here.
    pub const fn index(&'p self, index: usize) -> Self {
        Self { before: Some(self), part: Part::Index(index) }
    }
}

impl fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(before) = self.before {
            before.fmt(f)?;
            if !matches!(before.part, Part::Root) && !matches!(self.part, Part::Index(_)) {
                f.write_str(".")?;
            }
        }
        match self.part {
            Part::Root => Ok(()),
            Part::Name(name) => f.write_str(name),
            Part::Index(index) => write!(f, "[{index}]"),
            Part::Number(number) => write!(f, "#{number}"),
        }
    }
}

/// The problems of a message.
#[derive(Clone, Debug, Default)]
pub struct Problems {
    /// Whether fields without support are left out with a warning.
    pub is_lenient: bool,
    /// Why the message is refused; empty if it is not.
    pub refused: Vec<String>,
    /// Lines for the client although the message is accepted.
    pub warnings: Vec<String>,
}

impl Problems {
    /// No problems yet.
    pub fn new(is_lenient: bool) -> Self {
        Self { is_lenient, ..Self::default() }
    }

    /// A field is unknown or without support.
    pub fn unsupported(&mut self, path: impl fmt::Display, what: &str) {
        match self.is_lenient {
            true => self.note(format!("{path}: {what}: left out")),
            false => self.wrong(format!("{path}: {what}")),
        }
    }

    /// Something is wrong.
    pub fn wrong(&mut self, line: String) {
        push(&mut self.refused, line);
    }

    /// The client should know something.
    pub fn note(&mut self, line: String) {
        push(&mut self.warnings, line);
    }
}

fn push(lines: &mut Vec<String>, line: String) {
    match lines.len() {
        0..MOST_LINES => lines.push(line),
        MOST_LINES => lines.push(format!("there are more than {MOST_LINES} such lines")),
        _ => {}
    }
}
