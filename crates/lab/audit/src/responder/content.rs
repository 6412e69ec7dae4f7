//! The file that TFTP and HTTP serve.
//!
//! Its 32-bit words are little-endian: word `n`, from 0, is `n * 0x9E37_79B1` modulo 2^32. So no two words
//! of a file of less than 16 GiB are equal, and a guest can check any part of it.

/// The multiplier: 2^32 divided by the golden ratio, odd, as in Knuth's multiplicative hashing (The Art of
/// Computer Programming, volume 3, 6.4).
const FACTOR: u32 = 0x9E37_79B1;

/// Fills `bytes` with the file's contents from `offset` on, in bytes. The file's end is not considered.
pub fn fill(offset: u64, bytes: &mut [u8]) {
    for (at, byte) in (offset..).zip(bytes) {
        let word = ((at / 4) as u32).wrapping_mul(FACTOR).to_le_bytes();
        *byte = word[(at % 4) as usize];
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_the_file_fit_together() {
        let mut whole = [0; 64];
        fill(0, &mut whole);
        assert_eq!(whole[..8], [0, 0, 0, 0, 0xB1, 0x79, 0x37, 0x9E]);
        let mut part = [0; 21];
        fill(7, &mut part);
        assert_eq!(part, whole[7..28]);
    }
}
