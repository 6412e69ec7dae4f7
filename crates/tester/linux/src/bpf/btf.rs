//! The kernel's description of its own types (Documentation/bpf/btf.rst): where a member is in a structure,
//! and the names of an enumeration.

use std::io;

const FILE: &str = "/sys/kernel/btf/vmlinux";
const MAGIC: u16 = 0xeb9f;

/// Kinds of types that are read.
const STRUCTURE: u32 = 4;
const UNION: u32 = 5;
const ENUMERATION: u32 = 6;
const DEFINITION: u32 = 8;
/// The last of the qualifiers, which follow definitions.
const RESTRICT: u32 = 11;

/// All types of a kernel.
#[derive(Debug)]
pub(crate) struct Btf {
    bytes: Vec<u8>,
    /// Where the descriptions of types begin; the first has the number 1.
    types: Vec<usize>,
    /// Where the strings begin.
    strings: usize,
}

/// A member of a structure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Member {
    /// Where it begins, in bits.
    bit: u32,
    /// The number of its type.
    kind: u32,
}

impl Btf {
    /// The types of the running kernel.
    ///
    /// # Errors
    /// The kernel does not describe itself.
    pub(crate) fn of_kernel() -> io::Result<Self> {
        let damaged = || io::Error::new(io::ErrorKind::InvalidData, format!("{FILE} is not understood"));
        Self::parse(std::fs::read(FILE)?).ok_or_else(damaged)
    }

    pub(crate) fn parse(bytes: Vec<u8>) -> Option<Self> {
        let head = word(&bytes, 0)?;
        let header = word(&bytes, 4)? as usize;
        let part = |at| Some(word(&bytes, at)? as usize);
        let [from, length, strings] = [part(8)?, part(12)?, header + part(16)?];
        if head as u16 != MAGIC {
            return None;
        }
        let (mut at, end) = (header + from, header + from + length);
        let mut types = Vec::new();
        while at < end {
            types.push(at);
            let (kind, count, _) = about(word(&bytes, at + 4)?);
            // Bytes after the first three words.
            at += 12
                + match kind {
                    // An integer, a variable, a tag of a declaration.
                    1 | 14 | 17 => 4,
                    // An array.
                    3 => 12,
                    // Structures, unions, 64-bit enumerations, sections.
                    STRUCTURE | UNION | 15 | 19 => 12 * count,
                    // Enumerations, parameters of functions.
                    ENUMERATION | 13 => 8 * count,
                    // A pointer, a name for another type, a qualifier, a function, a number.
                    2 | 7..=12 | 16 | 18 => 0,
                    _ => return None,
                };
        }
        Some(Self { bytes, types, strings })
    }

    fn word(&self, at: usize) -> Option<u32> {
        word(&self.bytes, at)
    }

    fn text(&self, at: u32) -> Option<&str> {
        let text = self.bytes.get(self.strings + at as usize..)?;
        std::str::from_utf8(text.split(|&byte| byte == 0).next()?).ok()
    }

    /// Where the type of this number is described.
    fn place(&self, number: u32) -> Option<usize> {
        self.types.get((number as usize).checked_sub(1)?).copied()
    }

    /// The number of a type by its kind and its name.
    fn number(&self, kind: u32, name: &str) -> Option<u32> {
        let is_it = |&at: &usize| {
            self.word(at + 4).is_some_and(|info| about(info).0 == kind)
                && self.word(at).and_then(|text| self.text(text)) == Some(name)
        };
        Some(self.types.iter().position(is_it)? as u32 + 1)
    }

    /// The number of a type definition.
    pub(crate) fn definition(&self, name: &str) -> Option<u32> {
        self.number(DEFINITION, name)
    }

    /// How many parameters a defined function type has: a definition of a pointer to it.
    pub(crate) fn parameters(&self, definition: &str) -> Option<usize> {
        let pointer = self.word(self.place(self.definition(definition)?)? + 8)?;
        let function = self.place(self.word(self.place(pointer)? + 8)?)?;
        Some(about(self.word(function + 4)?).1)
    }

    /// Where a member is in a structure, in bytes. Members of members are named with dots; those of members
    /// without a name need not be.
    pub(crate) fn offset(&self, structure: &str, path: &str) -> Option<i16> {
        let mut kind = self.number(STRUCTURE, structure)?;
        let mut bits = 0;
        for name in path.split('.') {
            let member = self.member(kind, name, 0)?;
            (bits, kind) = (bits + member.bit, member.kind);
        }
        i16::try_from(bits / 8).ok()
    }

    /// The type behind definitions and qualifiers.
    fn behind(&self, mut number: u32) -> Option<u32> {
        for _ in 0..8 {
            let at = self.place(number)?;
            if !matches!(about(self.word(at + 4)?).0, DEFINITION..=RESTRICT) {
                return Some(number);
            }
            number = self.word(at + 8)?;
        }
        None
    }

    fn member(&self, of: u32, name: &str, depth: u32) -> Option<Member> {
        let at = self.place(self.behind(of)?)?;
        let (kind, count, has_sizes) = about(self.word(at + 4)?);
        if !matches!(kind, STRUCTURE | UNION) || depth > 8 {
            return None;
        }
        (0..count).find_map(|index| {
            let at = at + 12 + 12 * index;
            let (text, kind, bit) = (self.word(at)?, self.word(at + 4)?, self.word(at + 8)?);
            // With sizes of bit fields, their offsets have 24 bits.
            let bit = if has_sizes { bit & 0xff_ffff } else { bit };
            match self.text(text)? {
                "" => {
                    let inner = self.member(kind, name, depth + 1)?;
                    Some(Member { bit: bit + inner.bit, ..inner })
                }
                found => (found == name).then_some(Member { bit, kind }),
            }
        })
    }

    /// The values of an enumeration, with their names.
    pub(crate) fn values(&self, enumeration: &str) -> Vec<(u32, String)> {
        let read = || {
            let at = self.place(self.number(ENUMERATION, enumeration)?)?;
            let count = about(self.word(at + 4)?).1;
            let one = |index| {
                let at = at + 12 + 8 * index;
                Some((self.word(at + 4)?, self.text(self.word(at)?)?.to_owned()))
            };
            (0..count).map(one).collect::<Option<Vec<_>>>()
        };
        read().unwrap_or_default()
    }
}

/// Kind of a type, count of its parts, and its flag.
fn about(info: u32) -> (u32, usize, bool) {
    (info >> 24 & 0x1f, (info & 0xffff) as usize, info >> 31 == 1)
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    /// Types as the kernel would describe them: `struct s { int a; struct { int b; }; };` and
    /// `enum e { ONE = 1, TWO };`.
    fn described() -> Vec<u8> {
        let strings = b"\0int\0s\0a\0b\0e\0ONE\0TWO\0d\0o\0";
        let types: &[u32] = &[
            // 1: int
            1,
            1 << 24,
            4,
            32, //
            // 2: struct { int b; }
            0,
            4 << 24 | 1,
            4,
            9,
            1,
            0, //
            // 3: struct s { int a; struct …; }
            5,
            4 << 24 | 2,
            8,
            7,
            1,
            0,
            0,
            2,
            32, //
            // 4: enum e
            11,
            6 << 24 | 2,
            4,
            13,
            1,
            17,
            2, //
            // 5: typedef struct s d;
            21,
            8 << 24,
            3, //
            // 6: struct o { d d; }
            23,
            4 << 24 | 1,
            8,
            21,
            5,
            0,
        ];
        let length = types.len() as u32 * 4;
        let header = [u32::from(MAGIC) | 1 << 16, 24, 0, length, length, strings.len() as u32];
        let mut bytes: Vec<u8> = header.iter().chain(types).flat_map(|word| word.to_ne_bytes()).collect();
        bytes.extend_from_slice(strings);
        bytes
    }

    #[test]
    fn members_and_values_are_found() {
        let btf = Btf::parse(described()).unwrap();
        assert_eq!((btf.offset("s", "a"), btf.offset("s", "b")), (Some(0), Some(4)));
        assert_eq!((btf.offset("o", "d.b"), btf.definition("d")), (Some(4), Some(5)));
        assert_eq!((btf.offset("s", "c"), btf.offset("t", "a")), (None, None));
        assert_eq!(btf.values("e"), [(1, "ONE".to_owned()), (2, "TWO".to_owned())]);
        assert!(btf.values("s").is_empty() && btf.definition("s").is_none());
    }

    #[test]
    fn what_is_cut_short_is_refused() {
        let whole = described();
        for length in 0..whole.len() {
            // It must not panic; a shorter string is no fault.
            let _ = Btf::parse(whole[..length].to_vec()).map(|btf| (btf.offset("s", "b"), btf.values("e")));
        }
        assert!(Btf::parse(vec![0; 64]).is_none());
    }
}
