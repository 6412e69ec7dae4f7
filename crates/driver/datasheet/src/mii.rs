//! Registers of the copper PHY, read and written through MDIC (SDM 13.4.7.1).

/// Control (SDM 13.4.7.1.1).
pub const CONTROL: u32 = 0;
/// Status (SDM 13.4.7.1.2).
pub const STATUS: u32 = 1;
/// Identifier, first half (SDM 13.4.7.1.3).
pub const ID1: u32 = 2;
/// Identifier, second half (SDM 13.4.7.1.4).
pub const ID2: u32 = 3;
/// Autonegotiation advertisement (SDM 13.4.7.1.5).
pub const ADVERTISE: u32 = 4;
/// Link partner ability (SDM 13.4.7.1.6).
pub const PARTNER: u32 = 5;
/// Autonegotiation expansion (SDM 13.4.7.1.7).
pub const EXPANSION: u32 = 6;
/// 1000BASE-T control (SDM 13.4.7.1.10).
pub const GIGABIT_CONTROL: u32 = 9;
/// 1000BASE-T status (SDM 13.4.7.1.11).
pub const GIGABIT_STATUS: u32 = 10;
/// PHY specific control (SDM 13.4.7.1.13).
pub const SPECIFIC_CONTROL: u32 = 16;
/// PHY specific status: the resolved speed and duplex (SDM 13.4.7.1.14).
pub const SPECIFIC_STATUS: u32 = 17;

/// Bits of [`CONTROL`].
pub mod control {
    /// Speed selection, high bit; with the low bit clear: 1000 Mb/s.
    pub const SPEED_1000: u16 = 1 << 6;
    /// Full duplex.
    pub const FULL_DUPLEX: u16 = 1 << 8;
    /// Restart autonegotiation, clears itself.
    pub const RESTART: u16 = 1 << 9;
    /// Electrically isolate the PHY.
    pub const ISOLATE: u16 = 1 << 10;
    /// Power down.
    pub const POWER_DOWN: u16 = 1 << 11;
    /// Autonegotiation enable.
    pub const AUTONEGOTIATE: u16 = 1 << 12;
    /// Speed selection, low bit; with the high bit clear: 100 Mb/s.
    pub const SPEED_100: u16 = 1 << 13;
    /// Loopback inside the PHY.
    pub const LOOPBACK: u16 = 1 << 14;
    /// Software reset, clears itself.
    pub const RESET: u16 = 1 << 15;
}

/// Bits of [`STATUS`].
pub mod status {
    /// The link is up. Latched low: after a link failure the bit reads 0 once.
    pub const LINK: u16 = 1 << 2;
    /// Autonegotiation is complete.
    pub const COMPLETE: u16 = 1 << 5;
}

/// Bits of [`ADVERTISE`] and [`PARTNER`].
pub mod advertise {
    /// The selector field: IEEE 802.3.
    pub const SELECTOR: u16 = 1;
    /// 10BASE-T.
    pub const HALF_10: u16 = 1 << 5;
    /// 10BASE-T full duplex.
    pub const FULL_10: u16 = 1 << 6;
    /// 100BASE-TX.
    pub const HALF_100: u16 = 1 << 7;
    /// 100BASE-TX full duplex.
    pub const FULL_100: u16 = 1 << 8;
    /// PAUSE.
    pub const PAUSE: u16 = 1 << 10;
    /// Asymmetric PAUSE.
    pub const ASYMMETRIC: u16 = 1 << 11;
}

/// Bits of [`GIGABIT_CONTROL`].
pub mod gigabit {
    /// Advertise 1000BASE-T half duplex.
    pub const HALF: u16 = 1 << 8;
    /// Advertise 1000BASE-T full duplex.
    pub const FULL: u16 = 1 << 9;
}

/// Bits of [`SPECIFIC_STATUS`].
pub mod specific {
    /// The link is up at this moment (not latched).
    pub const LINK: u16 = 1 << 10;
    /// Speed and duplex are resolved.
    pub const RESOLVED: u16 = 1 << 11;
    /// Full duplex.
    pub const FULL_DUPLEX: u16 = 1 << 13;
    /// The first bit of the speed field, which has two bits: 0 = 10, 1 = 100, 2 = 1000 Mb/s.
    pub const SPEED_SHIFT: u32 = 14;
}

/// The identifier of the Marvell PHY inside the 82540, 82545 and 82546, without its revision.
pub const ID_M88E1011: u32 = 0x0141_0C20;
/// The identifier of the PHY inside the 82574, without its revision (source: public drivers).
pub const ID_82574: u32 = 0x0141_0CB0;
/// The identifier of the PHY inside the 82576, without its revision (source: public drivers).
pub const ID_82576: u32 = 0x02A8_0390;
