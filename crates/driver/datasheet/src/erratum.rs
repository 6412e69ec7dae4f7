//! Errata of the chips, and a driver's remedies.
//!
//! Sources: the SDM where named, the 82543GC Specification Update, and the public Intel drivers.

/// A defect or restriction that concerns a driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Erratum {
    /// The receiver must be reset (RCTL.RST) around changes of the filter tables on revision 2
    /// of the 82542, and Memory Write and Invalidate switched off meanwhile.
    ReceiverResetForFilters,
    /// TXDCTL.WTHRESH other than 0 corrupts transmit write-backs (82543GC Specification Update).
    TransmitWriteBackThreshold,
    /// RDTR counts from the last receive and can lock up (82543GC Specification Update, 37):
    /// leave RDTR 0, or expect packets without an interrupt.
    ReceiveDelayLockUp,
    /// TCP segmentation does not work: do not use it.
    NoSegmentation,
    /// The management interface to an external PHY is bit-banged over CTRL's software-defined pins.
    BitBangedMdio,
    /// A carrier extension after a good frame is reported as an error in fibre mode (TBI_ACCEPT):
    /// accept such frames when the FCS is good.
    TbiAccept,
    /// On PCI-X no transmit buffer may end on an evenly aligned dword: such a buffer must be split.
    DwordEndPcix,
    /// A write of one MTA register can disturb its predecessor: write the predecessor again.
    MulticastWrite,
    /// A device reset through a 64-bit memory write is not acknowledged: the public drivers reset
    /// through I/O space. A 32-bit write as [`Registers::write`] makes is not affected.
    ///
    /// [`Registers::write`]: https://docs.rs/kpps-platform
    ResetThroughIo,
    /// No descriptor ring or buffer may cross a 64 KiB boundary (revision 1).
    No64KCrossing,
    /// PCI-X: a frame's first descriptor covers at most 2015 bytes.
    FirstDescriptor2015,
    /// TCP segmentation: the last 4 bytes of the last buffer need a descriptor of their own, or
    /// the transmitter may hang ("sentinel"); a buffer is at most four segments long.
    SegmentationSentinel,
    /// Frames below 60 bytes (without FCS) must be padded by software: TCTL.PSP is unreliable.
    PadInSoftware,
    /// Unreliable PCI Express completions, above all with ASPM on, end in transmit time-outs: set
    /// GCR bit 22 and GCR2 bit 0 (public Linux driver e1000e, after the 82574 Specification Update).
    CompletionTimeout,
    /// The link must not use the ASPM states L0s and L1: the device may vanish from the bus. The
    /// *system* switches them off in the Link Control registers (public Linux driver e1000e,
    /// flags DISABLE_ASPM_L0S and _L1 of the 82574).
    NoLinkPowerStates,
    /// The receiver must not be disabled only to change its timers and thresholds: write them
    /// before it is first enabled (public Linux driver e1000e, flag NO_DISABLE_RX of the 82574).
    ReceiverStaysEnabled,
    /// The PHY can stall: its receive error counter and the idle error count of MII register 10
    /// both stand at their ends. Only a reset of the PHY ends it (public Linux driver e1000e, flag
    /// CHECK_PHY_HANG of the 82574).
    PhyStall,
}

impl Erratum {
    /// A stable name, for reports and profiles.
    pub const fn name(self) -> &'static str {
        match self {
            Self::ReceiverResetForFilters => "receiver-reset-for-filters",
            Self::TransmitWriteBackThreshold => "transmit-write-back-threshold",
            Self::ReceiveDelayLockUp => "receive-delay-lock-up",
            Self::NoSegmentation => "no-segmentation",
            Self::BitBangedMdio => "bit-banged-mdio",
            Self::TbiAccept => "tbi-accept",
            Self::DwordEndPcix => "dword-end-pcix",
            Self::MulticastWrite => "multicast-write",
            Self::ResetThroughIo => "reset-through-io",
            Self::No64KCrossing => "no-64k-crossing",
            Self::FirstDescriptor2015 => "first-descriptor-2015",
            Self::SegmentationSentinel => "segmentation-sentinel",
            Self::PadInSoftware => "pad-in-software",
            Self::CompletionTimeout => "completion-timeout",
            Self::NoLinkPowerStates => "no-link-power-states",
            Self::ReceiverStaysEnabled => "receiver-stays-enabled",
            Self::PhyStall => "phy-stall",
        }
    }
}
