//! Descriptors (SDM 3.2.3, 3.3.3–3.3.7): 16 bytes, two little-endian 64-bit words.
//!
//! Each type packs into and unpacks from `[u64; 2]`. Nothing is validated: a descriptor from the device may
//! hold anything.

pub mod advanced;
pub mod extended;

/// Bytes in a descriptor.
pub const BYTES: usize = 16;

/// Receive status bits (SDM 3.2.3.1).
pub mod rx_status {
    /// Descriptor done.
    pub const DD: u8 = 1 << 0;
    /// End of packet.
    pub const EOP: u8 = 1 << 1;
    /// Ignore the checksum bits.
    pub const IXSM: u8 = 1 << 2;
    /// The frame had a VLAN tag, which is now in [`special`](super::RxWriteback::special).
    pub const VP: u8 = 1 << 3;
    /// The TCP or UDP checksum was calculated.
    pub const TCPCS: u8 = 1 << 5;
    /// The IP checksum was calculated.
    pub const IPCS: u8 = 1 << 6;
    /// The frame passed an inexact filter: software must check its address.
    pub const PIF: u8 = 1 << 7;
}

/// Receive error bits, valid with EOP (SDM 3.2.3.2).
pub mod rx_error {
    /// CRC or alignment error.
    pub const CE: u8 = 1 << 0;
    /// Symbol error.
    pub const SE: u8 = 1 << 1;
    /// Sequence error.
    pub const SEQ: u8 = 1 << 2;
    /// Carrier extension error.
    pub const CXE: u8 = 1 << 4;
    /// TCP or UDP checksum error.
    pub const TCPE: u8 = 1 << 5;
    /// IP checksum error.
    pub const IPE: u8 = 1 << 6;
    /// Data error.
    pub const RXE: u8 = 1 << 7;
    /// Any error of the frame itself, as opposed to a checksum verdict.
    pub const FRAME: u8 = CE | SE | SEQ | CXE | RXE;
}

/// A receive descriptor as the driver writes it: the buffer's address; everything else is 0.
pub const fn rx_read(buffer: u64) -> [u64; 2] {
    [buffer, 0]
}

/// A receive descriptor written back by the device (SDM table 3-1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RxWriteback {
    /// Bytes written to this buffer.
    pub length: u16,
    /// One's complement sum from RXCSUM.PCSS on; only in a frame's first descriptor.
    pub checksum: u16,
    /// [`rx_status`] bits.
    pub status: u8,
    /// [`rx_error`] bits.
    pub errors: u8,
    /// The VLAN tag, if VP is set.
    pub special: u16,
}

impl RxWriteback {
    /// The second word of the descriptor.
    #[inline]
    pub const fn pack(self) -> u64 {
        self.length as u64
            | (self.checksum as u64) << 16
            | (self.status as u64) << 32
            | (self.errors as u64) << 40
            | (self.special as u64) << 48
    }
    /// Takes the second word apart.
    #[inline]
    pub const fn unpack(word: u64) -> Self {
        Self {
            length: word as u16,
            checksum: (word >> 16) as u16,
            status: (word >> 32) as u8,
            errors: (word >> 40) as u8,
            special: (word >> 48) as u16,
        }
    }
}

/// DD of a receive descriptor, in its second word.
pub const RX_DD: u64 = (rx_status::DD as u64) << 32;

/// Transmit command bits (SDM 3.3.3.1, 3.3.6.1, 3.3.7.1), at the same place in all three formats.
pub mod tx_cmd {
    /// End of packet (legacy and data).
    pub const EOP: u8 = 1 << 0;
    /// Insert FCS (legacy and data).
    pub const IFCS: u8 = 1 << 1;
    /// Insert checksum (legacy).
    pub const IC: u8 = 1 << 2;
    /// TCP segmentation enable (context and data).
    pub const TSE: u8 = 1 << 2;
    /// Report status.
    pub const RS: u8 = 1 << 3;
    /// Report packet sent, 82544 only.
    pub const RPS: u8 = 1 << 4;
    /// Extended format: context or data.
    pub const DEXT: u8 = 1 << 5;
    /// Insert the VLAN tag (legacy and data).
    pub const VLE: u8 = 1 << 6;
    /// Delay the interrupt by TIDV.
    pub const IDE: u8 = 1 << 7;
    /// Context only: the packet is TCP (else UDP).
    pub const TCP: u8 = 1 << 0;
    /// Context only: the packet is IPv4 (else IPv6).
    pub const IP: u8 = 1 << 1;
}

/// Transmit status bits (SDM 3.3.3.2).
pub mod tx_status {
    /// Descriptor done.
    pub const DD: u8 = 1 << 0;
    /// Excess collisions.
    pub const EC: u8 = 1 << 1;
    /// Late collision.
    pub const LC: u8 = 1 << 2;
    /// Transmit underrun, 82544 only.
    pub const TU: u8 = 1 << 3;
}

/// Packet options of a data descriptor (SDM 3.3.7.3).
pub mod popts {
    /// Insert the IP checksum.
    pub const IXSM: u8 = 1 << 0;
    /// Insert the TCP or UDP checksum.
    pub const TXSM: u8 = 1 << 1;
}

/// DD of a transmit descriptor of any format, in its second word.
pub const TX_DD: u64 = 1 << 32;
/// RS of a transmit descriptor of any format, in its second word.
pub const TX_RS: u64 = (tx_cmd::RS as u64) << 24;
/// IDE of a transmit descriptor of any format, in its second word.
pub const TX_IDE: u64 = (tx_cmd::IDE as u64) << 24;
/// EOP of a legacy or data descriptor, in its second word.
pub const TX_EOP: u64 = (tx_cmd::EOP as u64) << 24;

/// The greatest length of one legacy descriptor, bytes (SDM 3.3.3).
pub const LEGACY_MAX_BYTES: u32 = 16288;
/// The greatest length of one data descriptor, bytes: 20 bits (SDM 3.3.7).
pub const DATA_MAX_BYTES: u32 = (1 << 20) - 1;

/// A legacy transmit descriptor (SDM 3.3.3).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TxLegacy {
    /// Bus address of the data.
    pub buffer: u64,
    /// Bytes of data.
    pub length: u16,
    /// Checksum offset.
    pub cso: u8,
    /// [`tx_cmd`] bits, without DEXT.
    pub cmd: u8,
    /// [`tx_status`] bits.
    pub status: u8,
    /// Checksum start.
    pub css: u8,
    /// The VLAN tag.
    pub special: u16,
}

impl TxLegacy {
    /// The descriptor's words.
    #[inline]
    pub const fn pack(self) -> [u64; 2] {
        [
            self.buffer,
            self.length as u64
                | (self.cso as u64) << 16
                | (self.cmd as u64) << 24
                | ((self.status & 0xF) as u64) << 32
                | (self.css as u64) << 40
                | (self.special as u64) << 48,
        ]
    }
    /// Takes the words apart.
    #[inline]
    pub const fn unpack(words: [u64; 2]) -> Self {
        let w = words[1];
        Self {
            buffer: words[0],
            length: w as u16,
            cso: (w >> 16) as u8,
            cmd: (w >> 24) as u8,
            status: (w >> 32) as u8 & 0xF,
            css: (w >> 40) as u8,
            special: (w >> 48) as u16,
        }
    }
}

/// A TCP/IP context descriptor (SDM 3.3.6). Offsets are bytes from the start of the frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TxContext {
    /// Where the IP checksum starts.
    pub ipcss: u8,
    /// Where the IP checksum goes.
    pub ipcso: u8,
    /// The last byte of the IP checksum; 0 = to the end.
    pub ipcse: u16,
    /// Where the TCP or UDP checksum starts.
    pub tucss: u8,
    /// Where the TCP or UDP checksum goes.
    pub tucso: u8,
    /// The last byte of the TCP or UDP checksum; 0 = to the end.
    pub tucse: u16,
    /// Payload bytes to segment, 20 bits.
    pub paylen: u32,
    /// [`tx_cmd`] bits; DEXT is added.
    pub cmd: u8,
    /// [`tx_status`] bits.
    pub status: u8,
    /// Header bytes of each segment.
    pub hdrlen: u8,
    /// Payload bytes of each segment.
    pub mss: u16,
}

impl TxContext {
    /// The descriptor's words (DTYP 0).
    #[inline]
    pub const fn pack(self) -> [u64; 2] {
        [
            self.ipcss as u64
                | (self.ipcso as u64) << 8
                | (self.ipcse as u64) << 16
                | (self.tucss as u64) << 32
                | (self.tucso as u64) << 40
                | (self.tucse as u64) << 48,
            (self.paylen & DATA_MAX_BYTES) as u64
                | ((self.cmd | tx_cmd::DEXT) as u64) << 24
                | ((self.status & 0xF) as u64) << 32
                | (self.hdrlen as u64) << 40
                | (self.mss as u64) << 48,
        ]
    }
    /// Takes the words apart.
    #[inline]
    pub const fn unpack(words: [u64; 2]) -> Self {
        let [a, b] = words;
        Self {
            ipcss: a as u8,
            ipcso: (a >> 8) as u8,
            ipcse: (a >> 16) as u16,
            tucss: (a >> 32) as u8,
            tucso: (a >> 40) as u8,
            tucse: (a >> 48) as u16,
            paylen: b as u32 & DATA_MAX_BYTES,
            cmd: (b >> 24) as u8,
            status: (b >> 32) as u8 & 0xF,
            hdrlen: (b >> 40) as u8,
            mss: (b >> 48) as u16,
        }
    }
}

/// A TCP/IP data descriptor (SDM 3.3.7).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TxData {
    /// Bus address of the data.
    pub buffer: u64,
    /// Bytes of data, 20 bits.
    pub length: u32,
    /// [`tx_cmd`] bits; DEXT is added.
    pub cmd: u8,
    /// [`tx_status`] bits.
    pub status: u8,
    /// [`popts`] bits.
    pub popts: u8,
    /// The VLAN tag.
    pub special: u16,
}

impl TxData {
    /// The descriptor's words (DTYP 1).
    #[inline]
    pub const fn pack(self) -> [u64; 2] {
        [
            self.buffer,
            (self.length & DATA_MAX_BYTES) as u64
                | 1 << 20
                | ((self.cmd | tx_cmd::DEXT) as u64) << 24
                | ((self.status & 0xF) as u64) << 32
                | (self.popts as u64) << 40
                | (self.special as u64) << 48,
        ]
    }
    /// Takes the words apart.
    #[inline]
    pub const fn unpack(words: [u64; 2]) -> Self {
        let w = words[1];
        Self {
            buffer: words[0],
            length: w as u32 & DATA_MAX_BYTES,
            cmd: (w >> 24) as u8,
            status: (w >> 32) as u8 & 0xF,
            popts: (w >> 40) as u8,
            special: (w >> 48) as u16,
        }
    }
}

/// A transmit descriptor of any format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tx {
    /// DEXT clear.
    Legacy(TxLegacy),
    /// DEXT set, DTYP 0.
    Context(TxContext),
    /// DEXT set, DTYP 1.
    Data(TxData),
}

impl Tx {
    /// Detects the format and unpacks the words; `Err` contains the DTYP if it is a reserved one.
    #[inline]
    pub const fn unpack(words: [u64; 2]) -> Result<Self, u8> {
        if words[1] >> 24 & tx_cmd::DEXT as u64 == 0 {
            return Ok(Self::Legacy(TxLegacy::unpack(words)));
        }
        match (words[1] >> 20) as u8 & 0xF {
            0 => Ok(Self::Context(TxContext::unpack(words))),
            1 => Ok(Self::Data(TxData::unpack(words))),
            other => Err(other),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn round_trips() {
        let rx =
            RxWriteback { length: 0x1234, checksum: 0x5678, status: 0x9A, errors: 0xBC, special: 0xDEF0 };
        assert_eq!(RxWriteback::unpack(rx.pack()), rx);
        assert_eq!(rx.pack(), 0xDEF0_BC9A_5678_1234);
        let legacy =
            TxLegacy { buffer: 1 << 40, length: 60, cso: 1, cmd: 0x0B, status: 1, css: 2, special: 7 };
        assert_eq!(Tx::unpack(legacy.pack()), Ok(Tx::Legacy(legacy)));
        let context = TxContext {
            ipcss: 14,
            ipcso: 24,
            ipcse: 33,
            tucss: 34,
            tucso: 50,
            tucse: 0,
            paylen: 0xF_FFFF,
            cmd: tx_cmd::DEXT | tx_cmd::TSE,
            status: 0,
            hdrlen: 54,
            mss: 1460,
        };
        assert_eq!(Tx::unpack(context.pack()), Ok(Tx::Context(context)));
        let data = TxData {
            buffer: 4096,
            length: 0x8_0001,
            cmd: tx_cmd::DEXT | tx_cmd::EOP,
            status: 1,
            popts: 3,
            special: 9,
        };
        assert_eq!(Tx::unpack(data.pack()), Ok(Tx::Data(data)));
        assert_eq!(Tx::unpack([0, 1 << 29 | 2 << 20]), Err(2));
    }

    #[test]
    fn flags_by_word_match_flags_by_byte() {
        let words = TxLegacy {
            cmd: tx_cmd::RS | tx_cmd::IDE | tx_cmd::EOP,
            status: tx_status::DD,
            ..TxLegacy::default()
        }
        .pack();
        assert_eq!(words[1], TX_DD | TX_RS | TX_IDE | TX_EOP);
        assert_eq!(RxWriteback { status: rx_status::DD, ..RxWriteback::default() }.pack(), RX_DD);
    }
}
