//! The bits inside the registers, one module a register. Values are masks unless they say *shift*.

/// Device Control (SDM 13.4.1).
pub mod ctrl {
    /// Full duplex.
    pub const FD: u32 = 1 << 0;
    /// Link reset, fibre: 1 halts the link; clearing it starts autonegotiation.
    pub const LRST: u32 = 1 << 3;
    /// Auto-speed detection enable.
    pub const ASDE: u32 = 1 << 5;
    /// Set link up.
    pub const SLU: u32 = 1 << 6;
    /// Invert loss of signal.
    pub const ILOS: u32 = 1 << 7;
    /// Speed field, two bits.
    pub const SPEED_MASK: u32 = 3 << 8;
    /// Speed 10 Mb/s.
    pub const SPEED_10: u32 = 0 << 8;
    /// Speed 100 Mb/s.
    pub const SPEED_100: u32 = 1 << 8;
    /// Speed 1000 Mb/s.
    pub const SPEED_1000: u32 = 2 << 8;
    /// Force speed.
    pub const FRCSPD: u32 = 1 << 11;
    /// Force duplex.
    pub const FRCDPLX: u32 = 1 << 12;
    /// Software-defined pin 0, data.
    pub const SWDPIN0: u32 = 1 << 18;
    /// Software-defined pin 1, data: loss of signal on fibre cards.
    pub const SWDPIN1: u32 = 1 << 19;
    /// Software-defined pin 2, data: the 82543's management data (MDIO).
    pub const SWDPIN2: u32 = 1 << 20;
    /// Software-defined pin 3, data: the 82543's management clock (MDC).
    pub const SWDPIN3: u32 = 1 << 21;
    /// Software-defined pin 0, direction (1 = out).
    pub const SWDPIO0: u32 = 1 << 22;
    /// Software-defined pin 1, direction.
    pub const SWDPIO1: u32 = 1 << 23;
    /// Software-defined pin 2, direction.
    pub const SWDPIO2: u32 = 1 << 24;
    /// Software-defined pin 3, direction.
    pub const SWDPIO3: u32 = 1 << 25;
    /// Device reset, clears itself.
    pub const RST: u32 = 1 << 26;
    /// Receive flow control enable: obey PAUSE.
    pub const RFCE: u32 = 1 << 27;
    /// Transmit flow control enable: send PAUSE.
    pub const TFCE: u32 = 1 << 28;
    /// VLAN mode enable: strip on receive, allow insertion on transmit.
    pub const VME: u32 = 1 << 30;
    /// PHY reset.
    pub const PHY_RST: u32 = 1 << 31;
}

/// Device Status (SDM 13.4.2).
pub mod status {
    /// Full duplex.
    pub const FD: u32 = 1 << 0;
    /// Link up.
    pub const LU: u32 = 1 << 1;
    /// Function (port) number, two bits.
    pub const FUNC_MASK: u32 = 3 << 2;
    /// Shift of the function number.
    pub const FUNC_SHIFT: u32 = 2;
    /// Transmission paused by a PAUSE frame.
    pub const TXOFF: u32 = 1 << 4;
    /// TBI (fibre) mode.
    pub const TBIMODE: u32 = 1 << 5;
    /// Speed field, two bits.
    pub const SPEED_MASK: u32 = 3 << 6;
    /// Speed 100 Mb/s.
    pub const SPEED_100: u32 = 1 << 6;
    /// Speed 1000 Mb/s.
    pub const SPEED_1000: u32 = 2 << 6;
    /// The bus runs at 66 MHz.
    pub const PCI66: u32 = 1 << 11;
    /// The bus is 64 bits wide.
    pub const BUS64: u32 = 1 << 12;
    /// PCI-X mode.
    pub const PCIX_MODE: u32 = 1 << 13;
    /// PCI-X speed field, two bits.
    pub const PCIXSPD_MASK: u32 = 3 << 14;
}

/// EEPROM control (SDM 13.4.3).
pub mod eecd {
    /// Clock.
    pub const SK: u32 = 1 << 0;
    /// Chip select.
    pub const CS: u32 = 1 << 1;
    /// Data into the EEPROM.
    pub const DI: u32 = 1 << 2;
    /// Data out of the EEPROM.
    pub const DO: u32 = 1 << 3;
    /// Flash write enable, two bits: only the two values below are allowed.
    pub const FWE_MASK: u32 = 3 << 4;
    /// Flash writes disabled.
    pub const FWE_DIS: u32 = 1 << 4;
    /// Flash writes enabled.
    pub const FWE_EN: u32 = 2 << 4;
    /// Request access, 82540 and later.
    pub const REQ: u32 = 1 << 6;
    /// Access granted, 82540 and later.
    pub const GNT: u32 = 1 << 7;
    /// EEPROM present, 82540 and later.
    pub const PRES: u32 = 1 << 8;
    /// 256 words instead of 64, 82540 and later.
    pub const SIZE: u32 = 1 << 9;
}

/// EEPROM read (SDM 13.4.4).
pub mod eerd {
    /// Start a read.
    pub const START: u32 = 1 << 0;
    /// The read is done.
    pub const DONE: u32 = 1 << 4;
    /// Shift of the 8-bit word address.
    pub const ADDR_SHIFT: u32 = 8;
    /// Shift of the 16-bit data.
    pub const DATA_SHIFT: u32 = 16;
}

/// Extended device control (SDM 13.4.6).
pub mod ctrl_ext {
    /// Software-defined pin 4, data: the 82543's PHY reset.
    pub const SWDPIN4: u32 = 1 << 4;
    /// Software-defined pin 4, direction.
    pub const SWDPIO4: u32 = 1 << 8;
    /// Read the EEPROM again.
    pub const EE_RST: u32 = 1 << 13;
    /// Relaxed ordering disabled.
    pub const RO_DIS: u32 = 1 << 17;
    /// Link mode field, two bits: 0 internal PHY, 2 internal SerDes, 3 TBI.
    pub const LINK_MODE_MASK: u32 = 3 << 22;
}

/// PHY access (SDM 13.4.7).
pub mod mdic {
    /// The 16-bit data.
    pub const DATA_MASK: u32 = 0xFFFF;
    /// Shift of the PHY register number.
    pub const REG_SHIFT: u32 = 16;
    /// Shift of the PHY address.
    pub const PHY_SHIFT: u32 = 21;
    /// Opcode: write.
    pub const OP_WRITE: u32 = 1 << 26;
    /// Opcode: read.
    pub const OP_READ: u32 = 2 << 26;
    /// The access is complete.
    pub const READY: u32 = 1 << 28;
    /// Interrupt when complete.
    pub const INTERRUPT: u32 = 1 << 29;
    /// A read failed.
    pub const ERROR: u32 = 1 << 30;
    /// The address of the internal PHY.
    pub const INTERNAL_PHY: u32 = 1;
}

/// Interrupt causes: ICR, ICS, IMS and IMC (SDM 13.4.17–21).
pub mod cause {
    /// Transmit descriptor written back.
    pub const TXDW: u32 = 1 << 0;
    /// Transmit queue empty.
    pub const TXQE: u32 = 1 << 1;
    /// Link status change.
    pub const LSC: u32 = 1 << 2;
    /// Receive sequence error.
    pub const RXSEQ: u32 = 1 << 3;
    /// Free receive descriptors fell to the minimum threshold (RCTL.RDMTS).
    pub const RXDMT0: u32 = 1 << 4;
    /// Receiver overrun.
    pub const RXO: u32 = 1 << 6;
    /// Receiver timer: a packet was received (RDTR, RADV).
    pub const RXT0: u32 = 1 << 7;
    /// MDI access complete.
    pub const MDAC: u32 = 1 << 9;
    /// Receiving /C/ ordered sets, fibre.
    pub const RXCFG: u32 = 1 << 10;
    /// PHY interrupt, not on the 82544.
    pub const PHYINT: u32 = 1 << 12;
    /// Transmit descriptors fell to TXDCTL.LWTHRESH, 82540 and later.
    pub const TXD_LOW: u32 = 1 << 15;
    /// Small receive packet detected (RSRPD), 82540 and later.
    pub const SRPD: u32 = 1 << 16;
    /// Everything, for IMC.
    pub const ALL: u32 = 0xFFFF_FFFF;
}

/// Receive control (SDM 13.4.22).
pub mod rctl {
    /// Receiver reset, 82542 only (reserved later).
    pub const RST: u32 = 1 << 0;
    /// Receiver enable.
    pub const EN: u32 = 1 << 1;
    /// Store bad packets.
    pub const SBP: u32 = 1 << 2;
    /// Unicast promiscuous.
    pub const UPE: u32 = 1 << 3;
    /// Multicast promiscuous.
    pub const MPE: u32 = 1 << 4;
    /// Long packets: up to 16384 bytes instead of 1522.
    pub const LPE: u32 = 1 << 5;
    /// Loopback mode field, two bits.
    pub const LBM_MASK: u32 = 3 << 6;
    /// MAC loopback (82540 and later in QEMU; undefined in the SDM).
    pub const LBM_MAC: u32 = 1 << 6;
    /// PHY or external SerDes (TBI) loopback.
    pub const LBM_TRANSCEIVER: u32 = 3 << 6;
    /// Minimum threshold at half the ring.
    pub const RDMTS_HALF: u32 = 0 << 8;
    /// Minimum threshold at a quarter of the ring.
    pub const RDMTS_QUARTER: u32 = 1 << 8;
    /// Minimum threshold at an eighth of the ring.
    pub const RDMTS_EIGHTH: u32 = 2 << 8;
    /// Minimum threshold field.
    pub const RDMTS_MASK: u32 = 3 << 8;
    /// Shift of the multicast offset field, two bits.
    pub const MO_SHIFT: u32 = 12;
    /// Accept broadcast.
    pub const BAM: u32 = 1 << 15;
    /// Buffer size field, two bits.
    pub const BSIZE_MASK: u32 = 3 << 16;
    /// Shift of the buffer size field.
    pub const BSIZE_SHIFT: u32 = 16;
    /// VLAN filter enable.
    pub const VFE: u32 = 1 << 18;
    /// Canonical form indicator enable.
    pub const CFIEN: u32 = 1 << 19;
    /// Canonical form indicator.
    pub const CFI: u32 = 1 << 20;
    /// Discard PAUSE frames.
    pub const DPF: u32 = 1 << 22;
    /// Pass MAC control frames.
    pub const PMCF: u32 = 1 << 23;
    /// Buffer sizes times 16.
    pub const BSEX: u32 = 1 << 25;
    /// Strip the FCS.
    pub const SECRC: u32 = 1 << 26;

    /// The buffer size bits for receive buffers of `bytes` bytes, if there are any.
    pub const fn buffer_size(bytes: u32) -> Option<u32> {
        Some(match bytes {
            2048 => 0,
            1024 => 1 << BSIZE_SHIFT,
            512 => 2 << BSIZE_SHIFT,
            256 => 3 << BSIZE_SHIFT,
            16384 => BSEX | 1 << BSIZE_SHIFT,
            8192 => BSEX | 2 << BSIZE_SHIFT,
            4096 => BSEX | 3 << BSIZE_SHIFT,
            _ => return None,
        })
    }

    /// The receive buffer size in bytes that a register value selects; `None` for the reserved code.
    pub const fn buffer_bytes(rctl: u32) -> Option<u32> {
        let code = (rctl & BSIZE_MASK) >> BSIZE_SHIFT;
        match (rctl & BSEX != 0, code) {
            (false, code) => Some(2048 >> code),
            (true, 0) => None,
            (true, code) => Some(32768 >> code),
        }
    }
}

/// Transmit control (SDM 13.4.33).
pub mod tctl {
    /// Transmit enable.
    pub const EN: u32 = 1 << 1;
    /// Pad short packets.
    pub const PSP: u32 = 1 << 3;
    /// Shift of the collision threshold, eight bits.
    pub const CT_SHIFT: u32 = 4;
    /// Shift of the collision distance, ten bits.
    pub const COLD_SHIFT: u32 = 12;
    /// Collision distance field.
    pub const COLD_MASK: u32 = 0x3FF << COLD_SHIFT;
    /// Send one XOFF.
    pub const SWXOFF: u32 = 1 << 22;
    /// Retransmit on late collision.
    pub const RTLC: u32 = 1 << 24;
    /// The recommended collision threshold.
    pub const CT_DEFAULT: u32 = 0x0F;
    /// Collision distance in full duplex, and in half duplex below 1 Gb/s.
    pub const COLD_FULL: u32 = 0x40;
    /// Collision distance in half duplex at 1 Gb/s.
    pub const COLD_HALF_1000: u32 = 0x200;
}

/// Receive delay timer (SDM 13.4.30).
pub mod rdtr {
    /// The delay in 1.024 µs. The receive interrupt waits this long after the last packet, or after the first
    /// on the 82542 and 82544 ([`DelayTimer`](crate::chip::DelayTimer)); at 0 it comes with each write-back
    /// of a packet.
    pub const DELAY_MASK: u32 = 0xFFFF;
    /// Flush partial descriptor block: write back now and interrupt.
    pub const FPD: u32 = 1 << 31;
}

/// Descriptor control: RXDCTL (SDM 13.4.46) and TXDCTL (SDM 13.4.43).
pub mod dctl {
    /// Prefetch threshold field, six bits.
    pub const PTHRESH_MASK: u32 = 0x3F;
    /// Shift of the host threshold, six bits.
    pub const HTHRESH_SHIFT: u32 = 8;
    /// Shift of the write-back threshold, six bits.
    pub const WTHRESH_SHIFT: u32 = 16;
    /// Thresholds count descriptors instead of cache lines.
    pub const GRAN: u32 = 1 << 24;
    /// TXDCTL only: shift of the low threshold in units of 8 descriptors, seven bits.
    pub const LWTHRESH_SHIFT: u32 = 25;

    /// A register value with thresholds in descriptors (each at most 63).
    pub const fn descriptors(pthresh: u8, hthresh: u8, wthresh: u8) -> u32 {
        (pthresh as u32 & 0x3F)
            | (hthresh as u32 & 0x3F) << HTHRESH_SHIFT
            | (wthresh as u32 & 0x3F) << WTHRESH_SHIFT
            | GRAN
    }
    /// (PTHRESH, HTHRESH, WTHRESH) in descriptors of a register value, for a cache line of
    /// `line_bytes` bytes where the thresholds count lines.
    pub const fn thresholds(value: u32, line_bytes: u32) -> (u32, u32, u32) {
        let unit = if value & GRAN != 0 { 1 } else { line_bytes / 16 };
        (
            (value & 0x3F) * unit,
            (value >> HTHRESH_SHIFT & 0x3F) * unit,
            (value >> WTHRESH_SHIFT & 0x3F) * unit,
        )
    }
}

/// Receive checksum control (SDM 13.4.47).
pub mod rxcsum {
    /// Start of the packet checksum in bytes, eight bits.
    pub const PCSS_MASK: u32 = 0xFF;
    /// IP checksum offload.
    pub const IPOFLD: u32 = 1 << 8;
    /// TCP and UDP checksum offload.
    pub const TUOFLD: u32 = 1 << 9;
    /// Parse IPv6, not on the 82544.
    pub const IPV6OFL: u32 = 1 << 10;
}

/// Receive Address High (SDM 13.5.3).
pub mod rah {
    /// The upper 16 bits of the address.
    pub const ADDRESS_MASK: u32 = 0xFFFF;
    /// Address select: compare with the source address instead.
    pub const AS_SOURCE: u32 = 1 << 16;
    /// Address valid.
    pub const AV: u32 = 1 << 31;
}

/// Transmit configuration word (SDM 13.4.13).
pub mod txcw {
    /// Advertise full duplex.
    pub const FD: u32 = 1 << 5;
    /// Advertise half duplex.
    pub const HD: u32 = 1 << 6;
    /// Advertise symmetric PAUSE.
    pub const PAUSE: u32 = 1 << 7;
    /// Advertise asymmetric PAUSE.
    pub const ASM_DIR: u32 = 1 << 8;
    /// Transmit /C/ ordered sets.
    pub const TX_CONFIG: u32 = 1 << 30;
    /// Autonegotiation in hardware.
    pub const ANE: u32 = 1 << 31;
}

/// Receive configuration word (SDM 13.4.14).
pub mod rxcw {
    /// The partner's configuration word.
    pub const WORD_MASK: u32 = 0xFFFF;
    /// No carrier.
    pub const NC: u32 = 1 << 26;
    /// Invalid symbol.
    pub const IV: u32 = 1 << 27;
    /// The word changed.
    pub const CC: u32 = 1 << 28;
    /// /C/ ordered sets are being received.
    pub const C: u32 = 1 << 29;
    /// Synchronised.
    pub const SYNCH: u32 = 1 << 30;
    /// Autonegotiation complete.
    pub const ANC: u32 = 1 << 31;
}

/// Register values for flow control (SDM 13.4.8–10).
pub mod flow {
    /// FCAL: 01:80:C2:00 in wire order.
    pub const ADDRESS_LOW: u32 = 0x00C2_8001;
    /// FCAH: 00:01.
    pub const ADDRESS_HIGH: u32 = 0x0100;
    /// FCT.
    pub const TYPE: u32 = 0x8808;
    /// FCRTL bit: send XON when the FIFO falls below the low mark.
    pub const XONE: u32 = 1 << 31;
}

/// The VLAN EtherType for VET (SDM 13.4.11).
pub const VLAN_ETHERTYPE: u32 = 0x8100;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffer_sizes_round_trip() {
        for bytes in [256, 512, 1024, 2048, 4096, 8192, 16384] {
            assert_eq!(rctl::buffer_size(bytes).and_then(rctl::buffer_bytes), Some(bytes));
        }
        assert_eq!(rctl::buffer_bytes(rctl::BSEX), None);
        assert_eq!(rctl::buffer_size(1500), None);
    }

    #[test]
    fn thresholds_in_lines_and_descriptors() {
        assert_eq!(dctl::thresholds(dctl::descriptors(32, 8, 4), 64), (32, 8, 4));
        assert_eq!(dctl::thresholds(1 << dctl::WTHRESH_SHIFT | 2, 64), (8, 0, 4));
    }
}
