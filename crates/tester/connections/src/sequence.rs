//! Sequence numbers of TCP, which wrap (RFC 9293, 3.4).

use std::ops::Add;

/// A sequence number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sequence(pub u32);

impl Sequence {
    /// How far this one is behind `other`, modulo 2^32.
    #[inline]
    pub fn since(self, other: Self) -> u32 {
        self.0.wrapping_sub(other.0)
    }

    /// Whether this one is after `other`: it is at most 2^31 - 1 further on.
    #[inline]
    pub fn is_after(self, other: Self) -> bool {
        self.since(other) as i32 > 0
    }

    /// The later one of both.
    #[inline]
    pub fn max(self, other: Self) -> Self {
        if self.is_after(other) { self } else { other }
    }
}

impl Add<u32> for Sequence {
    type Output = Self;
    #[inline]
    fn add(self, by: u32) -> Self {
        Self(self.0.wrapping_add(by))
    }
}

#[cfg(test)]
mod tests {
    use super::Sequence;

    #[test]
    fn numbers_wrap() {
        let (before, after) = (Sequence(u32::MAX), Sequence(u32::MAX) + 3);
        assert_eq!((after, after.since(before)), (Sequence(2), 3));
        assert!(after.is_after(before) && !before.is_after(after) && !before.is_after(before));
        assert_eq!((before.max(after), after.max(before)), (after, after));
        assert!(!Sequence(1 << 31).is_after(Sequence(0)));
        assert!(Sequence((1 << 31) - 1).is_after(Sequence(0)));
    }
}
