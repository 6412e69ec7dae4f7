//! The statistics registers (SDM 13.7): cleared by reading, stuck at all ones when full.

/// One statistics register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Statistic {
    /// The manual's abbreviation.
    pub name: &'static str,
    /// Byte offset; of the low half for a 64-bit one.
    pub offset: u32,
    /// A pair of registers, low half first; reading the high half clears both.
    pub is_64_bit: bool,
    /// Exists only on the 82543 and later.
    pub since_82543: bool,
}

/// The statistics register at `offset`, or the pair of which one half is there; `None` if there is none.
pub fn at(offset: u32) -> Option<&'static Statistic> {
    ALL.iter().find(|it| offset == it.offset || it.is_64_bit && offset == it.offset + 4)
}

macro_rules! table {
    ($($(#[doc = $doc:literal])* $name:ident $offset:literal $bits:literal $since:literal;)*) => {
        $($(#[doc = $doc])* pub const $name: u32 = $offset;)*
        /// Every statistics register, by rising offset.
        pub const ALL: &[Statistic] = &[$(Statistic {
            name: stringify!($name), offset: $offset, is_64_bit: $bits == 64, since_82543: $since == 82543,
        },)*];
    };
}

table! {
    /// Frames with a bad FCS (SDM 13.7.1).
    CRCERRS 0x4000 32 82542;
    /// Frames with an alignment error, 10/100 Mb/s (SDM 13.7.2).
    ALGNERRC 0x4004 32 82543;
    /// Symbol errors, fibre (SDM 13.7.3).
    SYMERRS 0x4008 32 82542;
    /// Frames with RX_ER asserted (SDM 13.7.4).
    RXERRC 0x400C 32 82543;
    /// Frames missed because the receive FIFO had no room (SDM 13.7.5).
    MPC 0x4010 32 82542;
    /// Frames sent after one collision (SDM 13.7.6).
    SCC 0x4014 32 82542;
    /// Frames abandoned after 16 collisions (SDM 13.7.7).
    ECOL 0x4018 32 82542;
    /// Frames sent after several collisions (SDM 13.7.8).
    MCC 0x401C 32 82542;
    /// Late collisions (SDM 13.7.9).
    LATECOL 0x4020 32 82542;
    /// Collisions (SDM 13.7.10).
    COLC 0x4028 32 82542;
    /// Deferrals (SDM 13.7.11).
    DC 0x4030 32 82542;
    /// Transmissions without carrier sense (SDM 13.7.12).
    TNCRS 0x4034 32 82543;
    /// Sequence errors, fibre (SDM 13.7.13).
    SEC 0x4038 32 82542;
    /// Carrier extension errors (SDM 13.7.14).
    CEXTERR 0x403C 32 82543;
    /// Frames whose length is wrong (SDM 13.7.15).
    RLEC 0x4040 32 82542;
    /// XON frames received (SDM 13.7.16).
    XONRXC 0x4048 32 82542;
    /// XON frames sent (SDM 13.7.17).
    XONTXC 0x404C 32 82542;
    /// XOFF frames received (SDM 13.7.18).
    XOFFRXC 0x4050 32 82542;
    /// XOFF frames sent (SDM 13.7.19).
    XOFFTXC 0x4054 32 82542;
    /// Unsupported flow control frames received (SDM 13.7.20).
    FCRUC 0x4058 32 82542;
    /// Frames of 64 bytes received, with FCS (SDM 13.7.21).
    PRC64 0x405C 32 82542;
    /// Frames of 65–127 bytes received (SDM 13.7.22).
    PRC127 0x4060 32 82542;
    /// Frames of 128–255 bytes received (SDM 13.7.23).
    PRC255 0x4064 32 82542;
    /// Frames of 256–511 bytes received (SDM 13.7.24).
    PRC511 0x4068 32 82542;
    /// Frames of 512–1023 bytes received (SDM 13.7.25).
    PRC1023 0x406C 32 82542;
    /// Frames of 1024 bytes and more received (SDM 13.7.26).
    PRC1522 0x4070 32 82542;
    /// Good frames received (SDM 13.7.27).
    GPRC 0x4074 32 82542;
    /// Broadcast frames received (SDM 13.7.28).
    BPRC 0x4078 32 82542;
    /// Multicast frames received (SDM 13.7.29).
    MPRC 0x407C 32 82542;
    /// Good frames sent (SDM 13.7.30).
    GPTC 0x4080 32 82542;
    /// Good octets received, DA to FCS (SDM 13.7.31).
    GORC 0x4088 64 82542;
    /// Good octets sent, DA to FCS (SDM 13.7.32).
    GOTC 0x4090 64 82542;
    /// Times that a frame came and no receive descriptor was free; it may still get in (SDM 13.7.33).
    RNBC 0x40A0 32 82542;
    /// Undersize frames (SDM 13.7.34).
    RUC 0x40A4 32 82542;
    /// Fragments (SDM 13.7.35).
    RFC 0x40A8 32 82542;
    /// Oversize frames (SDM 13.7.36).
    ROC 0x40AC 32 82542;
    /// Jabber (SDM 13.7.37).
    RJC 0x40B0 32 82542;
    /// Octets received, good or not (SDM 13.7.41).
    TOR 0x40C0 64 82542;
    /// Octets sent, good or not (SDM 13.7.42).
    TOT 0x40C8 64 82542;
    /// Frames received, good or not, missed ones included (SDM 13.7.43).
    TPR 0x40D0 32 82542;
    /// Frames sent, good or not (SDM 13.7.44).
    TPT 0x40D4 32 82542;
    /// Frames of 64 bytes sent, with FCS (SDM 13.7.45).
    PTC64 0x40D8 32 82542;
    /// Frames of 65–127 bytes sent (SDM 13.7.46).
    PTC127 0x40DC 32 82542;
    /// Frames of 128–255 bytes sent (SDM 13.7.47).
    PTC255 0x40E0 32 82542;
    /// Frames of 256–511 bytes sent (SDM 13.7.48).
    PTC511 0x40E4 32 82542;
    /// Frames of 512–1023 bytes sent (SDM 13.7.49).
    PTC1023 0x40E8 32 82542;
    /// Frames of 1024 bytes and more sent (SDM 13.7.50).
    PTC1522 0x40EC 32 82542;
    /// Multicast frames sent (SDM 13.7.51).
    MPTC 0x40F0 32 82542;
    /// Broadcast frames sent (SDM 13.7.52).
    BPTC 0x40F4 32 82542;
    /// TCP segmentation contexts sent (SDM 13.7.53).
    TSCTC 0x40F8 32 82543;
    /// TCP segmentation contexts that failed (SDM 13.7.54).
    TSCTFC 0x40FC 32 82543;
}

/// The place of a register in [`ALL`].
pub const fn index(offset: u32) -> Option<usize> {
    let mut i = 0;
    while i < ALL.len() {
        if ALL[i].offset == offset {
            return Some(i);
        }
        i += 1;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table_is_sorted_and_does_not_overlap() {
        for pair in ALL.windows(2) {
            let bytes = if pair[0].is_64_bit { 8 } else { 4 };
            assert!(pair[0].offset + bytes <= pair[1].offset, "{} and {}", pair[0].name, pair[1].name);
        }
        assert_eq!(index(MPC), Some(4));
        assert_eq!(index(0x4024), None);
    }
}
