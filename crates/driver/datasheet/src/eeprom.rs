//! The serial EEPROM: 64 or 256 words of 16 bits (SDM 5.3, 5.6).

/// Words 0–2: the station address, byte-swapped (SDM 5.6.1).
pub const ADDRESS: u8 = 0x00;
/// Software compatibility (SDM 5.6.2).
pub const COMPATIBILITY: u8 = 0x03;
/// SerDes configuration (SDM 5.6.3).
pub const SERDES: u8 = 0x04;
/// Words 8–9: the printed board assembly number (SDM 5.6.6).
pub const PBA_NUMBER: u8 = 0x08;
/// Initialisation control word 1 (SDM 5.6.7).
pub const INIT_CONTROL_1: u8 = 0x0A;
/// Subsystem identifier (SDM 5.6.8).
pub const SUBSYSTEM_ID: u8 = 0x0B;
/// Subsystem vendor identifier (SDM 5.6.9).
pub const SUBSYSTEM_VENDOR: u8 = 0x0C;
/// Device identifier (SDM 5.6.10).
pub const DEVICE_ID: u8 = 0x0D;
/// Vendor identifier (SDM 5.6.11).
pub const VENDOR_ID: u8 = 0x0E;
/// Initialisation control word 2 (SDM 5.6.12).
pub const INIT_CONTROL_2: u8 = 0x0F;
/// The word that completes the checksum (SDM 5.6.35).
pub const CHECKSUM: u8 = 0x3F;
/// The sum of words 00h–3Fh (SDM 5.6.35).
pub const SUM: u16 = 0xBABA;
/// Words under the check sum.
pub const SUMMED_WORDS: usize = 0x40;

/// Microwire opcode: read, with its start bit (NM93C46).
pub const OPCODE_READ: u32 = 0b110;
/// Bits in an opcode.
pub const OPCODE_BITS: u32 = 3;

/// Whether the sum of words 00h–3Fh is [`SUM`].
pub const fn is_valid(words: &[u16; SUMMED_WORDS]) -> bool {
    sum(words) == SUM
}

/// The value for word 3Fh; its present value is ignored.
pub const fn checksum(words: &[u16; SUMMED_WORDS]) -> u16 {
    SUM.wrapping_sub(sum(words).wrapping_sub(words[CHECKSUM as usize]))
}

const fn sum(words: &[u16; SUMMED_WORDS]) -> u16 {
    let mut sum = 0u16;
    let mut i = 0;
    while i < SUMMED_WORDS {
        sum = sum.wrapping_add(words[i]);
        i += 1;
    }
    sum
}

/// The station address, in wire order, of words 0–2.
pub const fn address(words: [u16; 3]) -> [u8; 6] {
    let [a, b, c] = words;
    let ([a0, a1], [b0, b1], [c0, c1]) = (a.to_le_bytes(), b.to_le_bytes(), c.to_le_bytes());
    [a0, a1, b0, b1, c0, c1]
}

/// An image with this station address and a good checksum; everything else is 0 except the signature.
pub const fn image(address: [u8; 6]) -> [u16; SUMMED_WORDS] {
    let mut words = [0; SUMMED_WORDS];
    words[0] = u16::from_le_bytes([address[0], address[1]]);
    words[1] = u16::from_le_bytes([address[2], address[3]]);
    words[2] = u16::from_le_bytes([address[4], address[5]]);
    words[INIT_CONTROL_1 as usize] = 0x4000;
    words[CHECKSUM as usize] = checksum(&words);
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn address_of_the_manual() {
        // SDM 5.6.1: 12-34-56-78-90-AB is 3412h, 7856h, AB90h.
        let image = image([0x12, 0x34, 0x56, 0x78, 0x90, 0xAB]);
        assert_eq!(image[..3], [0x3412, 0x7856, 0xAB90]);
        assert_eq!(address([image[0], image[1], image[2]]), [0x12, 0x34, 0x56, 0x78, 0x90, 0xAB]);
        assert!(is_valid(&image));
        assert!(!is_valid(&[0; SUMMED_WORDS]));
    }
}
