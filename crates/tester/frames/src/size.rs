//! The size of a frame, which always says whether the FCS counts.

/// The size of one frame.
///
/// Software sees a frame *without* its frame check sequence (a buffer of 60 bytes). Standards and testers
/// count it *with* those 4 bytes (a 64-byte frame). So constructors and accessors name which one they mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Size {
    bytes_without_fcs: u16,
}

impl Size {
    /// Bytes of the frame check sequence.
    pub const FCS_BYTES: u16 = 4;
    /// Preamble (7), start delimiter (1) and least gap (12): the bytes of wire time beside frame and FCS.
    pub const PREAMBLE_AND_GAP_BYTES: u16 = 20;
    /// The smallest Ethernet frame: 60 bytes without FCS, 64 with it. Shorter ones are padded.
    pub const MIN: Self = Self::without_fcs(60);
    /// The largest frame without jumbo support and VLAN: 1514 bytes without FCS, 1518 with it.
    pub const MAX_STANDARD: Self = Self::without_fcs(1514);
    /// The largest frame built here, an IP MTU of 9000: 9014 bytes without FCS, 9018 with it.
    pub const MAX: Self = Self::without_fcs(9014);

    /// A frame whose buffer has `bytes` bytes: FCS not counted.
    pub const fn without_fcs(bytes: u16) -> Self {
        Self { bytes_without_fcs: bytes }
    }

    /// A frame of `bytes` bytes including the FCS of 4 bytes, as in "64-byte frames". Below 4 it is an empty
    /// frame.
    pub const fn with_fcs(bytes: u16) -> Self {
        Self { bytes_without_fcs: bytes.saturating_sub(Self::FCS_BYTES) }
    }

    /// The frame's length in a buffer, in bytes: FCS not counted.
    pub const fn bytes_without_fcs(self) -> u16 {
        self.bytes_without_fcs
    }

    /// The frame's length in bytes, FCS counted.
    pub const fn bytes_with_fcs(self) -> u32 {
        self.bytes_without_fcs as u32 + Self::FCS_BYTES as u32
    }

    /// Bytes of wire time that the frame takes: padded to [`Size::MIN`], with FCS, preamble and gap.
    pub const fn bytes_on_wire(self) -> u32 {
        let least = Self::MIN.bytes_without_fcs;
        let buffer = if self.bytes_without_fcs < least { least } else { self.bytes_without_fcs };
        buffer as u32 + (Self::FCS_BYTES + Self::PREAMBLE_AND_GAP_BYTES) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::Size;

    #[test]
    fn a_60_byte_buffer_is_a_64_byte_frame() {
        assert_eq!(Size::without_fcs(60), Size::with_fcs(64));
        assert_eq!(Size::MIN.bytes_with_fcs(), 64);
        assert_eq!(Size::MIN.bytes_on_wire(), 84);
        assert_eq!(Size::without_fcs(42).bytes_on_wire(), 84, "short frames are padded");
        assert_eq!(Size::MAX_STANDARD.bytes_on_wire(), 1538);
        assert_eq!(Size::with_fcs(0), Size::without_fcs(0));
    }
}
