//! Fields whose values change from frame to frame, and the checksums over them.

use crate::arithmetic::common_divisor;
use crate::checksum::{Sum, updated};
use crate::field;
use crate::pattern::{Pattern, most_of};
use alloc::vec::Vec;
use core::ops::Range;

/// A field of a frame: which bits of which bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The first byte.
    pub at: u16,
    /// Bytes that have a part of it, at most 16.
    pub bytes: u8,
    /// Bits behind it in the last byte.
    pub shift: u8,
    /// Its width in bits.
    pub bits: u8,
}

/// The most checksums over a field.
pub const MOST_SUMS: usize = 16;

/// A checksum that covers a field, or another checksum over the field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Covering {
    /// Where the checksum is.
    pub at: u16,
    /// Its changed parts: 0 for the field, n for the n-th checksum before this one. And whether the last byte
    /// of the part is the first byte of a 16-bit word of the sum: the words of the part are swapped then.
    pub parts: Vec<(usize, bool)>,
    /// Whether a checksum of 0 means that there is none, so that it is written as 0xffff (UDP, RFC 768).
    pub is_udp: bool,
}

/// A field that changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Edit {
    /// Where it is.
    pub place: Place,
    /// Its values.
    pub pattern: Pattern,
    /// The number of frames with the same value, one after the other.
    pub each: u64,
    /// The checksums over it, from inside out; at most [`MOST_SUMS`].
    pub sums: Vec<Covering>,
}

/// All fields of a frame that change. Checksums are updated by the difference of old and new values (RFC
/// 1624).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Edits(Vec<Edit>);

/// The order in which the values of several fields come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Combine {
    /// Frame `i` takes value `i` of each field.
    #[default]
    Lockstep,
    /// Each combination of values comes once. The first field changes from frame to frame.
    Product,
}

impl Place {
    /// A field of `bits` bits, at most 128 in at most 16 bytes, `offset` bits behind byte `from`.
    pub const fn new(from: usize, offset: u32, bits: u32) -> Self {
        let end = offset + bits;
        Self {
            at: (from + offset as usize / 8) as u16,
            bytes: (end.div_ceil(8) - offset / 8) as u8,
            shift: (end.div_ceil(8) * 8 - end) as u8,
            bits: bits as u8,
        }
    }

    /// The bytes that have a part of it.
    pub fn range(&self) -> Range<usize> {
        usize::from(self.at)..usize::from(self.at) + usize::from(self.bytes)
    }

    /// Writes the lowest bits of a value. Returns the bytes before and after, as numbers.
    #[inline]
    pub fn write(&self, frame: &mut [u8], value: u128) -> Option<(u128, u128)> {
        let place = frame.get_mut(self.range())?;
        let mut word = [0; 16];
        let begin = word.len().checked_sub(place.len())?;
        word[begin..].copy_from_slice(place);
        let (old, most) = (u128::from_be_bytes(word), most_of(self.bits.into()));
        let new = old & !(most << self.shift) | (value & most) << self.shift;
        place.copy_from_slice(&new.to_be_bytes()[begin..]);
        Some((old, new))
    }
}

impl Edit {
    /// Writes the value of this frame.
    #[inline]
    fn write(&self, n: u64, frame: &mut [u8]) {
        let Some((old, new)) = self.place.write(frame, self.pattern.value(n / self.each.max(1))) else {
            return;
        };
        if old == new {
            return;
        }
        // The changes so far: of the field, and of each checksum.
        let mut changes = [(0, 0); MOST_SUMS + 1];
        let folded = |words: u128| Sum::new().with(&words.to_be_bytes()).folded();
        changes[0] = (folded(old), folded(new));
        for (sum, n) in self.sums.iter().zip(1..=MOST_SUMS) {
            let at = usize::from(sum.at);
            if at + 2 > frame.len() {
                continue;
            }
            let before = field::u16(frame, at);
            let mut value = before;
            for (part, is_swapped) in &sum.parts {
                // A sum of swapped words is the swapped sum (RFC 1071, 2).
                let swap = |value: u16| if *is_swapped { value.swap_bytes() } else { value };
                let (old, new) = changes.get(*part).copied().unwrap_or_default();
                value = updated(value, swap(old), swap(new));
            }
            let value = if sum.is_udp && value == 0 { 0xffff } else { value };
            field::put_u16(frame, at, value);
            changes[n] = (before, value);
        }
    }
}

impl Edits {
    /// These fields, whose values are combined like this.
    pub fn new(mut all: Vec<Edit>, combine: Combine) -> Self {
        let mut each = 1_u64;
        for edit in &mut all {
            edit.each = each;
            if combine == Combine::Product {
                each = each.saturating_mul(edit.pattern.count().map_or(u64::MAX, u64::from));
            }
        }
        Self(all)
    }

    /// Whether no field changes.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The number of frames after which all values repeat; `None` if they do not, or not within 2⁶⁴ frames.
    pub fn period(&self) -> Option<u64> {
        let mut period = 1_u64;
        for edit in &self.0 {
            let own = edit.each.checked_mul(edit.pattern.count()?.into())?;
            period = (period / common_divisor(period, own)).checked_mul(own)?;
        }
        Some(period)
    }

    /// Writes the values of frame `n` into a frame of the same kind.
    #[inline]
    pub fn write(&self, n: u64, frame: &mut [u8]) {
        for edit in &self.0 {
            edit.write(n, frame);
        }
    }

    /// The bytes that change: fields and checksums.
    pub fn places(&self) -> impl Iterator<Item = Range<usize>> {
        let of_sum = |sum: &Covering| usize::from(sum.at)..usize::from(sum.at) + 2;
        let fields = self.0.iter().map(|edit| edit.place.range());
        fields.chain(self.0.iter().flat_map(|edit| &edit.sums).map(of_sum))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn edits(texts: &[&str], combine: Combine) -> Edits {
        let edit = |(n, text): (usize, &&str)| Edit {
            place: Place::new(n, 0, 8),
            pattern: Pattern::read(text, crate::pattern::Format::Number).unwrap(),
            each: 1,
            sums: Vec::new(),
        };
        Edits::new(texts.iter().enumerate().map(edit).collect(), combine)
    }

    fn frames(edits: &Edits, count: u64) -> Vec<[u8; 2]> {
        let frame = |n| {
            let mut bytes = [9; 2];
            edits.write(n, &mut bytes);
            bytes
        };
        (0..count).map(frame).collect()
    }

    #[test]
    fn values_come_in_lockstep_or_as_a_product() {
        let lockstep = edits(&["1-2", "5-7"], Combine::Lockstep);
        assert_eq!(frames(&lockstep, 4), [[1, 5], [2, 6], [1, 7], [2, 5]]);
        assert_eq!(lockstep.period(), Some(6));
        let product = edits(&["1-2", "5-7"], Combine::Product);
        assert_eq!(frames(&product, 6), [[1, 5], [2, 5], [1, 6], [2, 6], [1, 7], [2, 7]]);
        assert_eq!(product.period(), Some(6));
        assert_eq!(edits(&["random:1-9", "5-7"], Combine::Lockstep).period(), None);
        assert_eq!(edits(&["0-255", "random:1-9"], Combine::Product).0[1].each, 256);
    }

    #[test]
    fn bits_beside_a_field_stay() {
        for (offset, bits, value, expect) in [
            (0, 8, 0x12, [0x12, 0xff, 0xff]),
            (4, 12, 0x123, [0xf1, 0x23, 0xff]),
            (3, 1, 0, [0xef, 0xff, 0xff]),
            (6, 13, 0, [0xfc, 0, 0x1f]),
        ] {
            let mut bytes = [0xff; 3];
            Place::new(0, offset, bits).write(&mut bytes, value).unwrap();
            assert_eq!(bytes, expect, "{offset} {bits}");
        }
        assert_eq!(Place::new(2, 0, 8).write(&mut [0; 2], 1), None);
    }
}
