//! The register bits that came with PCI Express, on the 82574 (its data sheet, chapter 10, and the public
//! drivers). Values are masks unless they say *shift*.

/// Causes of queues, with MSI-X: ICR, ICS, IMS, IMC and EIAC (82574 data sheet 10.2.4.1).
pub mod cause {
    /// Small ACK frame received.
    pub const ACK: u32 = 1 << 17;
    /// Manageability event.
    pub const MNG: u32 = 1 << 18;
    /// Receive queue 0 was written back.
    pub const RXQ0: u32 = 1 << 20;
    /// Receive queue 1 was written back.
    pub const RXQ1: u32 = 1 << 21;
    /// Transmit queue 0 was written back.
    pub const TXQ0: u32 = 1 << 22;
    /// Transmit queue 1 was written back.
    pub const TXQ1: u32 = 1 << 23;
    /// Any cause that belongs to no queue: LSC, RXO, RXDMT0, MDAC …
    pub const OTHER: u32 = 1 << 24;
    /// An interrupt is asserted; ICR only.
    pub const ASSERTED: u32 = 1 << 31;

    /// The receive cause of `queue`.
    pub const fn receive(queue: u8) -> u32 {
        RXQ0 << (queue & 1)
    }
    /// The transmit cause of `queue`.
    pub const fn transmit(queue: u8) -> u32 {
        TXQ0 << (queue & 1)
    }
}

/// Device Control (beside [`ctrl`](crate::bit::ctrl)).
pub mod ctrl {
    /// No new requests as bus master; STATUS shows when pending ones have ended.
    pub const MASTER_DISABLE: u32 = 1 << 2;
    /// Reserved bit that must be 0 (public drivers: cleared on 82573 and 82574).
    pub const CLEAR_29: u32 = 1 << 29;
}

/// Device Status (beside [`status`](crate::bit::status)).
pub mod status {
    /// Requests as bus master are pending or allowed.
    pub const MASTER_ENABLE: u32 = 1 << 19;
}

/// Extended Device Control (beside [`ctrl_ext`](crate::bit::ctrl_ext)).
pub mod ctrl_ext {
    /// Reserved bit that must be 1 (public drivers).
    pub const SET_22: u32 = 1 << 22;
    /// Reserved bit that must be 0 (public drivers).
    pub const CLEAR_23: u32 = 1 << 23;
    /// Auto mask by EIAC causes: IAM applies to each vector.
    pub const EIAME: u32 = 1 << 24;
    /// Reading or writing ICR masks the causes in IAM.
    pub const IAME: u32 = 1 << 27;
    /// A driver is loaded, for the firmware to know.
    pub const DRV_LOAD: u32 = 1 << 28;
    /// Writing IMS with all bits expires the timers.
    pub const INT_TIMERS_CLEAR: u32 = 1 << 29;
    /// MSI-X pending bits clear when their cause is unmasked.
    pub const PBA_CLR: u32 = 1 << 31;
}

/// EEPROM read of the 82571 and later (beside [`eerd`](crate::bit::eerd)).
pub mod eerd {
    /// The read is done.
    pub const DONE: u32 = 1 << 1;
    /// Shift of the 14-bit word address.
    pub const ADDR_SHIFT: u32 = 2;
}

/// EEPROM control (beside [`eecd`](crate::bit::eecd)).
pub mod eecd {
    /// The settings to load after a reset have been loaded.
    pub const AUTO_RD: u32 = 1 << 9;
}

/// Extended configuration control: who may use the PHY.
pub mod extcnf {
    /// Software owns MDIO: written 1 until it reads back as 1.
    pub const MDIO_SW_OWNERSHIP: u32 = 1 << 5;
}

/// Software semaphore (public drivers).
pub mod swsm {
    /// Semaphore of the drivers: a read that returns 0 takes it, writing 0 releases it.
    pub const SMBI: u32 = 1 << 0;
    /// Semaphore between driver and firmware: written 1 until it reads back as 1.
    pub const SWESMBI: u32 = 1 << 1;
}

/// Interrupt vector allocation (82574 data sheet 10.2.4.9): a field of four bits for each cause,
/// the vector and, above it, a valid bit.
pub mod ivar {
    /// Shift of receive queue 0's field; queue 1's is four bits up.
    pub const RX_SHIFT: u32 = 0;
    /// Shift of transmit queue 0's field; queue 1's is four bits up.
    pub const TX_SHIFT: u32 = 8;
    /// Shift of the field of all other causes.
    pub const OTHER_SHIFT: u32 = 16;
    /// A field is valid.
    pub const VALID: u32 = 1 << 3;
    /// Each transmit write-back raises its cause, RS or not.
    pub const EACH_WRITE_BACK: u32 = 1 << 31;

    /// A field that names `vector`.
    pub const fn field(vector: u8) -> u32 {
        (vector & 7) as u32 | VALID
    }
}

/// Receive filter control (82574 data sheet 10.2.5.15).
pub mod rfctl {
    /// Frames with IPv6 extension headers are not parsed (public drivers: malformed ones can hang
    /// the receiver of the 82573 and before).
    pub const IPV6_EX_DIS: u32 = 1 << 16;
    /// The same for the newer extension headers.
    pub const NEW_IPV6_EXT_DIS: u32 = 1 << 17;
    /// No causes for ACK frames.
    pub const ACK_DIS: u32 = 1 << 12;
    /// IP fragments are not split.
    pub const IPFRSP_DIS: u32 = 1 << 14;
    /// Extended descriptors.
    pub const EXSTEN: u32 = 1 << 15;
}

/// Receive control (beside [`rctl`](crate::bit::rctl)).
pub mod rctl {
    /// Descriptor type field: packet split instead of one buffer a descriptor; needs RFCTL.EXSTEN.
    pub const DTYP_SPLIT: u32 = 1 << 10;
}

/// Packet split receive control (82574 data sheet 10.2.5.4): the sizes of a descriptor's buffers.
pub mod psrctl {
    /// Unit of buffer 0, the headers', in bytes.
    pub const HEADER_UNIT: u32 = 128;
    /// The largest buffer 0, in bytes.
    pub const HEADER_MOST: u32 = 127 * HEADER_UNIT;
    /// Unit of buffers 1 to 3, in bytes.
    pub const DATA_UNIT: u32 = 1024;

    /// The register for buffers of these many bytes, rounded down to units; 0: no such buffer.
    pub const fn sizes(header: u32, data: [u32; 3]) -> u32 {
        let [a, b, c] = data;
        (header / HEADER_UNIT) & 0x7F
            | ((a / DATA_UNIT) & 0x3F) << 8
            | ((b / DATA_UNIT) & 0x3F) << 16
            | ((c / DATA_UNIT) & 0x3F) << 24
    }
}

/// Receive checksum control (beside [`rxcsum`](crate::bit::rxcsum)).
pub mod rxcsum {
    /// Packet checksum disabled: its field carries the RSS hash.
    pub const PCSD: u32 = 1 << 13;
}

/// Multiple receive queues command (82574 data sheet 10.2.5.18).
pub mod mrqc {
    /// RSS on.
    pub const RSS: u32 = 1;
    /// Hash IPv4 addresses and TCP ports.
    pub const TCP_IPV4: u32 = 1 << 16;
    /// Hash IPv4 addresses.
    pub const IPV4: u32 = 1 << 17;
    /// Hash IPv6 addresses and TCP ports.
    pub const TCP_IPV6: u32 = 1 << 18;
    /// Hash IPv6 addresses, those of extension headers included.
    pub const IPV6_EX: u32 = 1 << 19;
    /// Hash IPv6 addresses.
    pub const IPV6: u32 = 1 << 20;
}

/// Bit of a redirection table entry that holds its queue.
pub const RETA_QUEUE_SHIFT: u32 = 7;

/// Transmit arbitration count.
pub mod tarc {
    /// The queue may send.
    pub const ENABLE: u32 = 1 << 10;
    /// Bits that must be 0 on queue 0 (public drivers).
    pub const CLEAR: u32 = 0xF << 27;
    /// Bit that must be 1 on queue 0 of the 82574 (public drivers).
    pub const SET: u32 = 1 << 26;
}

/// TXDCTL (beside [`dctl`](crate::bit::dctl)): reserved bit that must be 1 (public drivers).
pub const TXDCTL_SET: u32 = 1 << 22;

/// PCI Express control.
pub mod gcr {
    /// Must be 1 (erratum [`CompletionTimeout`](crate::Erratum::CompletionTimeout)).
    pub const SET_22: u32 = 1 << 22;
    /// In [`GCR2`](crate::reg::GCR2): must be 1 (the same erratum).
    pub const GCR2_SET: u32 = 1;
}
