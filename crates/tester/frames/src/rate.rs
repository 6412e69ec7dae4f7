//! Rates of frames, and line-rate arithmetic (terms of RFC 2544 and RFC 1242): the time of a frame on the
//! wire, frames per second, and bit rates.
//!
//! *L2* rates count frames with FCS. *L1* rates also count preamble and gap, so the L1 rate at line rate is
//! the speed of the link.

use crate::Size;

/// 10BASE-T, in bit/s.
pub const ETHERNET: u64 = 10_000_000;
/// Fast Ethernet, in bit/s.
pub const FAST_ETHERNET: u64 = 100_000_000;
/// Gigabit Ethernet, in bit/s.
pub const GIGABIT: u64 = 1_000_000_000;

/// The rate at which frames are offered.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Rate {
    /// Frames per second, each at its own time whatever happened to earlier ones (an open loop).
    Pps(f64),
    /// As many as the port takes.
    Max,
}

impl Rate {
    /// Frames per second; `None` for as many as the port takes.
    pub const fn pps(self) -> Option<f64> {
        match self {
            Self::Pps(pps) => Some(pps),
            Self::Max => None,
        }
    }

    /// Frames per second where a port takes `most_pps`.
    pub fn pps_of(self, most_pps: f64) -> f64 {
        self.pps().unwrap_or(most_pps)
    }
}

const PS_PER_S: u128 = 1_000_000_000_000;

/// The time from the start of one frame to the earliest start of the next, in ps: 672,000 for a
/// minimum frame at 1 Gb/s. Exact for every speed whose bit time is a whole number of ps,
/// otherwise rounded up. `u64::MAX` for a link of 0 bit/s.
pub const fn slot_ps(bits_per_s: u64, size: Size) -> u64 {
    wire_ps(bits_per_s, size.bytes_on_wire() as u64)
}

/// The same for a frame of `bytes` bytes without FCS that is not padded, so it may be shorter than
/// [`Size::MIN`].
pub const fn unpadded_slot_ps(bits_per_s: u64, bytes: usize) -> u64 {
    wire_ps(bits_per_s, bytes as u64 + (Size::FCS_BYTES + Size::PREAMBLE_AND_GAP_BYTES) as u64)
}

/// The time of `bytes` bytes of the wire, in ps.
const fn wire_ps(bits_per_s: u64, bytes: u64) -> u64 {
    if bits_per_s == 0 {
        return u64::MAX;
    }
    (bytes as u128 * 8 * PS_PER_S).div_ceil(bits_per_s as u128) as u64
}

/// Frames of `size` per second on a full link: 1,488,095.2 for a minimum frame at 1 Gb/s.
pub fn line_rate_pps(bits_per_s: u64, size: Size) -> f64 {
    bits_per_s as f64 / (f64::from(size.bytes_on_wire()) * 8.0)
}

/// The L1 rate in bit/s of `pps` frames of `size` per second: with FCS, preamble and gap.
pub fn l1_bits_per_s(pps: f64, size: Size) -> f64 {
    pps * f64::from(size.bytes_on_wire()) * 8.0
}

/// The L2 rate in bit/s of `pps` frames of `size` per second: with FCS, without preamble and gap.
pub fn l2_bits_per_s(pps: f64, size: Size) -> f64 {
    pps * f64::from(size.bytes_with_fcs()) * 8.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_well_known_numbers() {
        assert_eq!(slot_ps(GIGABIT, Size::MIN), 672_000);
        assert_eq!(slot_ps(FAST_ETHERNET, Size::MIN), 6_720_000);
        assert_eq!([60, 1518].map(|bytes| unpadded_slot_ps(GIGABIT, bytes)), [672_000, 12_336_000]);
        assert_eq!(unpadded_slot_ps(ETHERNET, 14), 30_400_000);
        assert_eq!(slot_ps(GIGABIT, Size::with_fcs(1518)), 12_304_000);
        assert_eq!(line_rate_pps(GIGABIT, Size::MIN).floor(), 1_488_095.0);
        assert_eq!(line_rate_pps(10 * GIGABIT, Size::with_fcs(64)).floor(), 14_880_952.0);
        assert_eq!(line_rate_pps(GIGABIT, Size::with_fcs(1518)).floor(), 81_274.0);
    }

    #[test]
    fn line_rate_fills_the_link() {
        for size in [Size::MIN, Size::MAX_STANDARD, Size::MAX] {
            let pps = line_rate_pps(GIGABIT, size);
            assert!((l1_bits_per_s(pps, size) - 1e9).abs() < 1e-3);
            assert!(l2_bits_per_s(pps, size) < 1e9);
        }
        // 64 of 84 bytes.
        assert!((l2_bits_per_s(line_rate_pps(GIGABIT, Size::MIN), Size::MIN) - 761_904_761.9).abs() < 0.1);
    }

    #[test]
    fn uneven_speeds_round_up_and_a_link_of_0_never_sends() {
        assert_eq!(slot_ps(3, Size::MIN), 224_000_000_000_000);
        assert_eq!(slot_ps(7, Size::MIN), 96_000_000_000_000);
        assert_eq!(slot_ps(11, Size::MIN), 61_090_909_090_910);
        assert_eq!(slot_ps(0, Size::MIN), u64::MAX);
    }
}
