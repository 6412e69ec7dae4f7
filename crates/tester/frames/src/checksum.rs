//! The Internet checksum (RFC 1071), and its incremental update (RFC 1624).

use core::net::Ipv4Addr;

/// A running ones' complement sum of 16-bit words.
///
/// Every part that is added starts on a word boundary; only the last may have an odd length.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sum(u64);

impl Sum {
    /// An empty sum.
    pub const fn new() -> Self {
        Self(0)
    }

    /// The sum of the pseudo-header of TCP and UDP over IPv4. `length` is that of header and payload in
    /// bytes; 0 gives the seed for TCP segmentation by the 8254x (SDM 3.5.7).
    pub fn pseudo_header(source: Ipv4Addr, destination: Ipv4Addr, protocol: u8, length: u16) -> Self {
        Self::new()
            .with(&source.octets())
            .with(&destination.octets())
            .with(&[0, protocol])
            .with(&length.to_be_bytes())
    }

    /// The sum with `bytes` added.
    #[must_use]
    pub fn with(self, bytes: &[u8]) -> Self {
        let mut sum = self.0;
        let mut words = bytes.chunks_exact(4);
        for word in words.by_ref() {
            // 2^32 is 1 modulo 2^16 - 1, so 32-bit words fold into the same sum.
            sum += u64::from(u32::from_be_bytes([word[0], word[1], word[2], word[3]]));
        }
        let mut tail = [0; 4];
        tail[..words.remainder().len()].copy_from_slice(words.remainder());
        Self(sum + u64::from(u32::from_be_bytes(tail)))
    }

    /// The sum, folded to 16 bits and *not* complemented: the seed for hardware.
    pub fn folded(self) -> u16 {
        let mut sum = self.0;
        while sum > 0xffff {
            sum = (sum & 0xffff) + (sum >> 16);
        }
        sum as u16
    }

    /// The checksum: the complement of the sum. It is 0 over data that includes a good checksum.
    pub fn checksum(self) -> u16 {
        !self.folded()
    }
}

/// The checksum of `bytes`.
pub fn checksum(bytes: &[u8]) -> u16 {
    Sum::new().with(bytes).checksum()
}

/// The checksum after one 16-bit word of its data changed from `old` to `new` (RFC 1624, equation 3).
pub fn updated(checksum: u16, old: u16, new: u16) -> u16 {
    let mut sum = u32::from(!checksum) + u32::from(!old) + u32::from(new);
    sum = (sum & 0xffff) + (sum >> 16);
    sum = (sum & 0xffff) + (sum >> 16);
    !(sum as u16)
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;
    use proptest::prelude::*;

    #[test]
    fn the_example_of_rfc_1071() {
        let bytes = [0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7];
        assert_eq!(Sum::new().with(&bytes).folded(), 0xddf2);
        assert_eq!(checksum(&bytes), 0x220d);
    }

    /// By definition: 16-bit words with end-around carry.
    fn reference(bytes: &[u8]) -> u16 {
        let mut sum = 0u32;
        for pair in bytes.chunks(2) {
            sum += u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0));
            sum = (sum & 0xffff) + (sum >> 16);
        }
        !(sum as u16)
    }

    proptest! {
        #[test]
        fn agrees_with_the_definition(bytes: Vec<u8>) {
            prop_assert_eq!(checksum(&bytes), reference(&bytes));
        }

        #[test]
        fn data_with_its_checksum_sums_to_zero(mut bytes in proptest::collection::vec(any::<u8>(), 2..99)) {
            bytes[..2].fill(0);
            let sum = checksum(&bytes);
            bytes[..2].copy_from_slice(&sum.to_be_bytes());
            prop_assert_eq!(checksum(&bytes), 0);
        }

        #[test]
        fn updating_equals_computing_anew(
            mut bytes in proptest::collection::vec(any::<u8>(), 4..64),
            new: u16,
        ) {
            // A header is never all zero, where 0 and 0xffff are both right.
            bytes[0] = 0x45;
            let old = u16::from_be_bytes([bytes[2], bytes[3]]);
            let before = checksum(&bytes);
            bytes[2..4].copy_from_slice(&new.to_be_bytes());
            prop_assert_eq!(updated(before, old, new), checksum(&bytes));
        }
    }
}
