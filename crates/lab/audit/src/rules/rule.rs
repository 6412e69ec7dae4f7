//! The rules for drivers: the manual's sections, and how a real card reacts to a breach.
use kpps_documents::guest_audit::Severity;

/// A direction of the card.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Side {
    Receive,
    Transmit,
}

impl Side {
    /// For sentences.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Receive => "receive",
            Self::Transmit => "transmit",
        }
    }

    /// The part for this direction.
    pub(super) const fn of<T: Copy>(self, receive: T, transmit: T) -> T {
        match self {
            Self::Receive => receive,
            Self::Transmit => transmit,
        }
    }
}

/// The facts about a rule.
struct About {
    name: &'static str,
    severity: Severity,
    words: &'static str,
    silicon: &'static str,
    advice: &'static str,
}

const fn about(
    severity: Severity,
    name: &'static str,
    words: &'static str,
    silicon: &'static str,
    advice: &'static str,
) -> About {
    About { name, severity, words, silicon, advice }
}

/// A rule for drivers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rule {
    /// CTRL.SLU is clear five seconds after a unit is enabled (SDM 13.4.1, 8.6.2). An EEPROM with wake-up
    /// enabled may set it, so on some cards its absence is not seen.
    SluMissing,
    /// A frame left with a wrong FCS, because its descriptor did not ask for one (SDM 3.3.3.1).
    IfcsMissing,
    /// The receiver is used without BAM, or lost a broadcast for want of it (SDM 14.4).
    BamMissing,
    /// A frame to the address in RAL0 and RAH0 was filtered, because RAH0.AV is clear (SDM 13.5.3).
    RahAvMissing,
    /// The driver is another station by ARP than the card by RAL0 and RAH0 (SDM 13.5.2).
    StationAddress,
    /// The receiver is used and not all of the MTA was written; MPE is clear (SDM 14.4).
    MtaNotCleared,
    /// RCTL.VFE is set and not all of the VFTA was written (SDM 13.5.4).
    VftaNotWritten,
    /// The receiver is used and not all of FCAL, FCAH, FCT and FCTTV were written (SDM 14.3).
    FlowControlUnset,
    /// RCTL.LBM is not 00b while the receiver is used (SDM 14.4).
    Loopback,
    /// RCTL selects the reserved buffer size (SDM 13.4.22).
    BufferSizeReserved,
    /// A tail is not in its ring while the unit is enabled (SDM 3.2.6, 3.4). The manual has no "must" for it,
    /// but the card never reaches such a tail.
    TailBeyondRing,
    /// The tail passed descriptors that the card is not done with (SDM 3.2.6, 3.4). The manual says "should
    /// not"; their frames are lost.
    TailPassesHead,
    /// The tail equals the head although descriptors were handed over (SDM 3.2.6, 3.4).
    RingLooksEmpty,
    /// The length of a ring is 0 five seconds after it is used (SDM 13.4.27, 13.4.38).
    RingEmpty,
    /// The length of a ring is no multiple of 128 bytes (SDM 13.4.27, 13.4.38).
    RingLengthUnaligned,
    /// The address of a ring is no multiple of 16 bytes (SDM 13.4.25, 13.4.36).
    RingBaseUnaligned,
    /// The upper half of a ring's address was never written. It has no initial value (SDM 13.4.26, 13.4.37).
    /// The manual asks for it only if addresses have 64 bits (SDM 14.4), so it is information.
    RingHighUnset,
    /// The driver reads a head about as often as it moves the tail, to know which descriptors are done. The
    /// manual calls that unreliable (SDM 13.4.28, 3.4).
    HeadForDone,
    /// A ring is longer than the public drivers make it. The manual permits 64 Ki descriptors (SDM 3.2.6,
    /// 3.4), so it is information.
    RingLong,
    /// The receiver was enabled before it had a ring (SDM 14.4).
    ReceiverBeforeRing,
    /// The transmitter was enabled before it had a ring. The manual gives only the order of its steps (SDM
    /// 14.5), so it is information.
    TransmitterBeforeRing,
    /// A ring's address, length or head was changed while its unit was enabled. The manual says "should" of
    /// the head (SDM 13.4.28, 13.4.39); the registers for address and length restart the ring in the same
    /// way.
    RingWhileEnabled,
    /// The receiver was enabled again without a reset (SDM 13.4.22).
    ReEnabled,
    /// A register was written while the card did not respond after CTRL.RST. Only cards that are slower
    /// than the manual says do so (SDM 13.4.1).
    AccessInReset,
    /// The card was never reset before it was used. The manual asks for a reset only before heads are written
    /// (SDM 13.4.28), so it is information.
    NoReset,
    /// A descriptor in memory changed while the card owned it (SDM 3.2.6, 3.4).
    DescriptorChanged,
    /// A transmit descriptor with RS was used again before the card reported it (SDM 3.3.3.2).
    ReportNotAwaited,
    /// A descriptor was handed over with its status set. For the card that is harmless (SDM 3.2.6).
    StatusSet,
    /// A receive buffer overlaps another one that the card has, or a ring (SDM 14.4), with the bytes that the
    /// card may write: BSIZE, but 1522 if longer frames are discarded (SDM 13.4.22).
    BuffersOverlap,
    /// The receive ring is full for five seconds while frames wait, and RDT does not move. A driver may
    /// stop on purpose (SDM 3.2.6).
    FramesNotTaken,
    /// A receive descriptor has the address 0. The manual defines it as a descriptor without a buffer (SDM
    /// 3.2.5.2).
    NullBuffer,
    /// A received frame filled more than one buffer (SDM 3.2.3.1): permitted, but drivers must join them.
    FrameOverBuffers,
    /// More than 16,288 bytes in a transmit descriptor or frame (SDM 3.3.3).
    TransmitLong,
    /// A frame of fewer than 48 bytes before padding (SDM 3.3.3).
    TransmitShort,
    /// A frame without EOP for five seconds (SDM 3.3.3.1): it does not end.
    EopMissing,
    /// A transmit descriptor without address or length. Software "must" supply them, but the manual also
    /// defines that no data is transferred then (SDM 3.3.3).
    ///
    /// The card finds such descriptors if the tail passes them before they are filled.
    TransmitEmpty,
    /// A frame left with fewer than 64 bytes: TCTL.PSP is clear (SDM 14.5).
    Runt,
    /// The checksum of a legacy descriptor begins or lies outside of the frame (SDM 3.3.3).
    ChecksumRange,
    /// A reserved bit or type in a transmit descriptor (SDM 3.3.3, 3.3.7).
    DescriptorReserved,
    /// A delayed report (IDE) while TIDV is 0 (SDM 13.4.41).
    TidvZero,
    /// Three quarters of a ring were sent without RS, and nothing else shows what was sent (SDM 3.4).
    NoReport,
    /// TIPG gives a gap below the minimum of IEEE 802.3 (SDM 13.4.34).
    GapTooShort,
    /// TCTL.COLD is not the value that the manual recommends in full duplex, where the card only pads by it
    /// (SDM 13.4.33).
    CollisionDistance,
    /// TCTL.CT or COLD is not as recommended, and the link has half duplex (SDM 13.4.33, 14.5).
    HalfDuplexCollisions,
    /// TIPG's IPGR1 or IPGR2 is too small, and the link has half duplex (SDM 13.4.34).
    HalfDuplexGap,
    /// The card may send PAUSE frames, and the link has half duplex (SDM 8.7.5).
    HalfDuplexPause,
    /// The card was to use memory that the machine does not have.
    NoMemory,
    /// The card was to use memory before it was a bus master (SDM 4.1).
    NotMaster,
    /// An interrupt was signalled, and the driver neither read nor wrote ICR in five seconds (SDM 13.4.17).
    IcrNeverRead,
    /// The interrupt line was asserted for five seconds. The handler may begin late, so it is no "must" (SDM
    /// 13.4.17).
    InterruptHeld,
    /// After interrupts the driver masked all causes, and for five seconds neither enabled one, nor read ICR,
    /// nor gave back descriptors, although frames were stored. A driver may stop on purpose, so it is no
    /// "must" (SDM 13.4.20).
    LeftMasked,
    /// ICR is read all the time, mostly as 0. The manual permits it.
    IcrPolled,
    /// EECD.FWE is 00b or 11b, which is not allowed (SDM 13.4.3).
    FlashWriteEnable,
    /// CTRL.ILOS is set on a card with a PHY of its own (SDM 13.4.1).
    IlosSet,
    /// A register that is read-only was written (SDM table 13-2).
    ReadOnly,
    /// An access was not of 32 bits at a multiple of four bytes (SDM 13.2).
    Width,
    /// A bit that should be written as 0 was 1 (SDM 13.2).
    ReservedBits,
    /// An address without a register was written (SDM 13.2).
    NoRegister,
    /// An address without a register was read. The manual only warns about the value (SDM 13.2).
    NoRegisterRead,
}

impl Rule {
    /// All rules.
    pub const ALL: [Self; 59] = [
        Self::SluMissing,
        Self::IfcsMissing,
        Self::BamMissing,
        Self::RahAvMissing,
        Self::StationAddress,
        Self::MtaNotCleared,
        Self::VftaNotWritten,
        Self::FlowControlUnset,
        Self::Loopback,
        Self::BufferSizeReserved,
        Self::TailBeyondRing,
        Self::TailPassesHead,
        Self::RingLooksEmpty,
        Self::RingEmpty,
        Self::RingLengthUnaligned,
        Self::RingBaseUnaligned,
        Self::RingHighUnset,
        Self::HeadForDone,
        Self::RingLong,
        Self::ReceiverBeforeRing,
        Self::TransmitterBeforeRing,
        Self::RingWhileEnabled,
        Self::ReEnabled,
        Self::AccessInReset,
        Self::NoReset,
        Self::DescriptorChanged,
        Self::ReportNotAwaited,
        Self::StatusSet,
        Self::BuffersOverlap,
        Self::FramesNotTaken,
        Self::NullBuffer,
        Self::FrameOverBuffers,
        Self::TransmitLong,
        Self::TransmitShort,
        Self::EopMissing,
        Self::TransmitEmpty,
        Self::Runt,
        Self::ChecksumRange,
        Self::DescriptorReserved,
        Self::TidvZero,
        Self::NoReport,
        Self::GapTooShort,
        Self::CollisionDistance,
        Self::HalfDuplexCollisions,
        Self::HalfDuplexGap,
        Self::HalfDuplexPause,
        Self::NoMemory,
        Self::NotMaster,
        Self::IcrNeverRead,
        Self::InterruptHeld,
        Self::LeftMasked,
        Self::IcrPolled,
        Self::FlashWriteEnable,
        Self::IlosSet,
        Self::ReadOnly,
        Self::Width,
        Self::ReservedBits,
        Self::NoRegister,
        Self::NoRegisterRead,
    ];

    /// Its stable name.
    pub const fn name(self) -> &'static str {
        self.about().name
    }

    /// How strongly the manual puts it.
    pub const fn severity(self) -> Severity {
        self.about().severity
    }

    /// Whether it judges the set-up, some seconds after it. The driver need not run in this time.
    pub const fn is_of_set_up(self) -> bool {
        matches!(
            self,
            Self::SluMissing
                | Self::BamMissing
                | Self::MtaNotCleared
                | Self::VftaNotWritten
                | Self::FlowControlUnset
                | Self::Loopback
                | Self::RingEmpty
                | Self::RingHighUnset
        )
    }

    /// A description of the breach, for people.
    pub const fn words(self) -> &'static str {
        self.about().words
    }

    /// How a real card reacts.
    pub const fn silicon(self) -> &'static str {
        self.about().silicon
    }

    /// A remedy in the driver.
    pub const fn advice(self) -> &'static str {
        self.about().advice
    }

    const fn about(self) -> About {
        use Severity::{Info, Must, Should};
        match self {
            Self::SluMissing => about(
                Must,
                "slu-missing",
                "CTRL.SLU is not set",
                "STATUS.LU stays 0: the card sends and receives nothing, even with a good cable. (On some cards the \
                 EEPROM sets SLU.)",
                "Set CTRL.SLU (bit 6) after the reset, usually with CTRL.ASDE (bit 5). The quirk slu shows what else \
                 there is.",
            ),
            Self::IfcsMissing => about(
                Must,
                "ifcs-missing",
                "sent with a wrong FCS",
                "The card takes the last four bytes of the data as the FCS. Every receiver drops such a frame.",
                "Set IFCS (bit 1 of the command) in the descriptor with EOP.",
            ),
            Self::BamMissing => about(
                Should,
                "bam-missing",
                "the receiver does not accept broadcasts",
                "The card filters every broadcast frame. ARP requests and DHCP replies do not arrive.",
                "Set RCTL.BAM (bit 15).",
            ),
            Self::RahAvMissing => about(
                Must,
                "rah-av-missing",
                "the station address is not marked as valid",
                "The card does not compare the address, and filters every frame to it.",
                "Write RAL0 first, then RAH0 with AV (bit 31).",
            ),
            Self::StationAddress => about(
                Should,
                "station-address",
                "the driver uses another station address than the card",
                "The card filters the frames that others send to the address of the driver.",
                "Write the address to RAL0 and RAH0, or read it from them or from the EEPROM.",
            ),
            Self::MtaNotCleared => about(
                Should,
                "mta-not-cleared",
                "the multicast table is not initialised",
                "The table has no defined value after power-up and no reset clears it: the card passes \
                 multicast frames at random.",
                "Write 0 to the 128 registers from 5200h on.",
            ),
            Self::VftaNotWritten => about(
                Should,
                "vfta-not-written",
                "the VLAN filter is on without its table",
                "The table has no defined value after power-up: the card drops or passes VLAN frames at random.",
                "Write all 128 registers from 5600h on, or clear RCTL.VFE (bit 18).",
            ),
            Self::FlowControlUnset => about(
                Should,
                "flow-control-unset",
                "registers of flow control are not written",
                "They have no defined value after power-up. With CTRL.RFCE set, the card takes frames to this \
                 address for PAUSE, and stops sending.",
                "Write FCAL, FCAH, FCT and FCTTV: the values of 13.4.8 to 13.4.12, or 0 without flow control.",
            ),
            Self::Loopback => about(
                Should,
                "loopback",
                "the receiver is in loopback",
                "The card receives its own frames, or none: 01b and 10b are not defined.",
                "Write 00b to RCTL.LBM (bits 7:6).",
            ),
            Self::BufferSizeReserved => about(
                Should,
                "buffer-size-reserved",
                "the reserved buffer size is selected",
                "The size that the card uses is not defined: it may write beyond the buffers.",
                "With RCTL.BSEX set, BSIZE must be 1, 2 or 3.",
            ),
            Self::TailBeyondRing => about(
                Must,
                "tail-beyond-ring",
                "tail beyond the ring",
                "The head never reaches this tail. The card stops, or runs through the ring without an end.",
                "The tail is an index below the number of descriptors; the last one is followed by 0.",
            ),
            Self::TailPassesHead => about(
                Must,
                "tail-passes-head",
                "the tail passed descriptors that the card still has",
                "The card takes only those between head and tail: the descriptors in between are lost, or are \
                 sent twice.",
                "Wait for DD of the descriptor before it is used again.",
            ),
            Self::RingLooksEmpty => about(
                Must,
                "ring-full-looks-empty",
                "the ring is empty for the card, because tail equals head",
                "The card stops until the tail moves again.",
                "Hand over at most one descriptor less than the ring has.",
            ),
            Self::RingEmpty => about(
                Must,
                "ring-empty",
                "the ring has no descriptors",
                "The card fetches no descriptor.",
                "Write the ring's bytes, at least 128, to the length.",
            ),
            Self::RingLengthUnaligned => about(
                Must,
                "ring-length-unaligned",
                "the ring's length is not a multiple of 128 bytes",
                "The card ignores the low seven bits: its ring is shorter than that of the driver.",
                "Make the number of descriptors a multiple of 8.",
            ),
            Self::RingBaseUnaligned => about(
                Must,
                "ring-base-unaligned",
                "the ring's address is not a multiple of 16 bytes",
                "The card ignores the low four bits: it reads every descriptor from a place before it.",
                "Align the ring to 16 bytes.",
            ),
            Self::RingHighUnset => about(
                Info,
                "ring-high-unset",
                "the upper half of the ring's address was never written",
                "It has no defined initial value: the ring may be anywhere.",
                "Write 0 to RDBAH and TDBAH if addresses have 32 bits.",
            ),
            Self::HeadForDone => about(
                Should,
                "head-for-done",
                "the head is read to know which descriptors are done",
                "The read can overtake the card's writes to memory: descriptor and data are still old then.",
                "Read DD in the descriptor. It also saves the read, which takes about a microsecond.",
            ),
            Self::RingLong => about(
                Info,
                "ring-long",
                "the ring is longer than those of public drivers",
                "The manual permits 65,536 descriptors. Public drivers have at most 256 on the 82543, and 4096 \
                 on later chips.",
                "Use a shorter ring.",
            ),
            Self::ReceiverBeforeRing => about(
                Should,
                "receiver-before-ring",
                "the receiver is enabled before its ring is set up",
                "Address and length have no defined value after power-up: the card may use any memory as soon \
                 as the tail is not equal to the head.",
                "Write RDBAL, RDBAH and RDLEN before RCTL.EN.",
            ),
            Self::TransmitterBeforeRing => about(
                Info,
                "transmitter-before-ring",
                "the transmitter is enabled before its ring is set up",
                "Nothing happens as long as tail equals head.",
                "Write TDBAL, TDBAH and TDLEN before TCTL.EN.",
            ),
            Self::RingWhileEnabled => about(
                Should,
                "ring-while-enabled",
                "changed while its unit is enabled",
                "The descriptors on chip can become invalid, and other results are indeterminate.",
                "Reset the card, set up the ring, then enable the unit.",
            ),
            Self::ReEnabled => about(
                Must,
                "re-enabled-without-reset",
                "the receiver is enabled again without a reset",
                "The filter logic can lose the borders of frames in the FIFO.",
                "Leave the receiver enabled, or reset the card with CTRL.RST before.",
            ),
            Self::AccessInReset => about(
                Info,
                "access-in-reset",
                "a register is written before the reset has ended",
                "The write has no effect.",
                "Wait until CTRL.RST reads as 0, with a limit in time.",
            ),
            Self::NoReset => about(
                Info,
                "no-reset",
                "the card is used without a reset",
                "The firmware's settings stay: its ring, its filters, its interrupts.",
                "Set CTRL.RST, wait 1 µs, then set up the card.",
            ),
            Self::DescriptorChanged => about(
                Should,
                "descriptor-changed",
                "a descriptor was changed while the card owned it",
                "The card may have fetched it already and uses the old contents, or writes its own over it.",
                "Fill descriptors before the tail passes them, and use them again only after DD.",
            ),
            Self::ReportNotAwaited => about(
                Should,
                "report-not-awaited",
                "a transmit descriptor is used again before DD",
                "The card may not have sent the frame yet: it is lost, or its data is that of the next one.",
                "Take a descriptor again only when DD is set in it, or in a later one with RS.",
            ),
            Self::StatusSet => about(
                Should,
                "status-set-on-handover",
                "a descriptor is handed over with its status set",
                "The card ignores it, but the driver sees DD at once and takes the descriptor as done.",
                "Write 0 to the status before the tail passes the descriptor.",
            ),
            Self::BuffersOverlap => about(
                Should,
                "buffers-overlap",
                "a receive buffer overlaps other memory that the card uses",
                "A frame can overwrite another one, or descriptors.",
                "Give each descriptor a buffer of its own, as large as RCTL's BSIZE and BSEX say.",
            ),
            Self::FramesNotTaken => about(
                Info,
                "frames-not-taken",
                "received frames are not taken from the ring",
                "The card keeps what its FIFO holds and drops all others.",
                "Take frames in the handler of RXT0 and RXDMT0, and write RDT afterwards.",
            ),
            Self::NullBuffer => about(
                Info,
                "null-receive-buffer",
                "a receive descriptor without a buffer",
                "The card stores nothing and sets DD.",
                "Write the buffer's address before the tail passes the descriptor.",
            ),
            Self::FrameOverBuffers => about(
                Info,
                "frame-over-buffers",
                "a frame fills more than one buffer",
                "The frame's other parts are in the next descriptors; only the last one has EOP.",
                "Join the parts up to EOP, or use larger buffers.",
            ),
            Self::TransmitLong => about(
                Must,
                "transmit-too-long",
                "more than 16,288 bytes to send",
                "The frame does not fit into the transmit FIFO: the transmitter may hang.",
                "Send smaller frames, or use TCP segmentation.",
            ),
            Self::TransmitShort => about(
                Must,
                "transmit-too-short",
                "a frame of fewer than 48 bytes to send",
                "The card can damage such a frame while it pads it.",
                "Pad frames to 60 bytes in software.",
            ),
            Self::EopMissing => about(
                Must,
                "eop-missing",
                "no descriptor ends a frame",
                "The card takes all descriptors as one frame and sends nothing.",
                "Set EOP (bit 0 of the command) in the last descriptor of a frame.",
            ),
            Self::TransmitEmpty => about(
                Should,
                "transmit-empty",
                "a transmit descriptor without data",
                "The card sends nothing for it.",
                "Write address and length before the tail passes the descriptor.",
            ),
            Self::Runt => about(
                Should,
                "runt",
                "a frame shorter than 64 bytes was sent",
                "Receivers and switches drop such frames.",
                "Pad frames to 60 bytes in software, or set TCTL.PSP (bit 3).",
            ),
            Self::ChecksumRange => about(
                Must,
                "checksum-range",
                "the checksum is outside of the frame",
                "The card ignores IC: the frame leaves without the checksum.",
                "CSS must be below the length, and CSO below the length less one.",
            ),
            Self::DescriptorReserved => about(
                Should,
                "descriptor-reserved",
                "reserved bits of a transmit descriptor are set",
                "The card of today ignores them, or the result is not defined.",
                "Write 0 to reserved bits. RPS (bit 4 of the command) exists only on the 82544.",
            ),
            Self::TidvZero => about(
                Must,
                "tidv-zero",
                "a delayed report without a delay",
                "The value is not allowed: the interrupt may be missing.",
                "Write TIDV with at least 1, or leave IDE clear.",
            ),
            Self::NoReport => about(
                Should,
                "no-report",
                "nothing shows the driver which frames were sent",
                "The card writes DD only if RS is set. The driver uses descriptors again that may be unsent.",
                "Set RS in the descriptor with EOP, and wait for DD.",
            ),
            Self::GapTooShort => about(
                Should,
                "gap-too-short",
                "the gap between frames is below the minimum of Ethernet",
                "Receivers and switches can miss frames that follow closely.",
                "Write TIPG with IPGT 10 and, for half duplex, IPGR1 8 and IPGR2 6 (0060200Ah).",
            ),
            Self::CollisionDistance => about(
                Info,
                "collision-distance",
                "TCTL.COLD is not as recommended",
                "In full duplex the card can make short frames longer by it.",
                "Use 40h in full duplex.",
            ),
            Self::HalfDuplexCollisions => about(
                Should,
                "half-duplex-collisions",
                "collisions are not set up, and the link has half duplex",
                "With a small CT the card gives a frame up after few collisions, and with a wrong COLD it detects \
                 late ones wrongly: frames are lost on a hub.",
                "Write TCTL.CT with 0Fh (or 10h) and COLD with 40h, also for full duplex.",
            ),
            Self::HalfDuplexGap => about(
                Should,
                "half-duplex-gap",
                "the gap after other stations' frames is too short",
                "The card starts to send too soon after the frame of another station, and collides more often.",
                "Write TIPG with IPGR1 8 and IPGR2 6 (0060200Ah), also for full duplex.",
            ),
            Self::HalfDuplexPause => about(
                Should,
                "half-duplex-pause",
                "the card may send PAUSE frames in half duplex",
                "PAUSE frames exist in full duplex only (IEEE 802.3).",
                "Clear CTRL.TFCE while STATUS.FD is clear.",
            ),
            Self::NoMemory => about(
                Must,
                "dma-to-nowhere",
                "the card was sent to memory that is not there",
                "The transfer ends in a master abort. Where other devices answer, it damages them.",
                "Give the card bus addresses, not virtual ones, and check the upper 32 bits.",
            ),
            Self::NotMaster => about(
                Must,
                "not-bus-master",
                "the card is not yet a bus master",
                "The card cannot read or write memory at all.",
                "Set bit 2 of the command register in the configuration space.",
            ),
            Self::IcrNeverRead => about(
                Should,
                "icr-never-read",
                "interrupts are masked, but ICR is never read",
                "The causes stay set: the same interrupt comes again as soon as IMS permits it.",
                "Read ICR once in the handler.",
            ),
            Self::InterruptHeld => about(
                Should,
                "interrupt-held",
                "the interrupt line was asserted for five seconds",
                "The line is level-triggered: the handler is called without an end, or never.",
                "Read ICR in the handler, and enable the interrupt in the controller before IMS.",
            ),
            Self::LeftMasked => about(
                Should,
                "left-masked",
                "interrupts were masked and not enabled again",
                "No interrupt comes any more: received frames stay in memory until the ring is full.",
                "Write IMS at the end of the handler, or after the last frame was taken.",
            ),
            Self::IcrPolled => about(
                Info,
                "icr-polled",
                "ICR is read again and again as 0",
                "Each read takes about a microsecond of the CPU and occupies the bus.",
                "Look for DD in memory, or wait for the interrupt.",
            ),
            Self::FlashWriteEnable => about(
                Must,
                "flash-write-enable",
                "EECD.FWE has a value that is not allowed",
                "Accesses to the flash memory are not defined.",
                "Read EECD, change the bits that you need, and keep FWE (bits 5:4) at 01b.",
            ),
            Self::IlosSet => about(
                Should,
                "ilos-set",
                "CTRL.ILOS is set",
                "The card takes a good link for a lost one.",
                "Write 0 to CTRL.ILOS (bit 7).",
            ),
            Self::ReadOnly => about(
                Info,
                "read-only",
                "a read-only register is written",
                "The write has no effect.",
                "Compare the offset with table 13-2 of the manual.",
            ),
            Self::Width => about(
                Should,
                "width",
                "not accessed as 32 bits",
                "The card ignores shorter writes. A shorter read has the effects of a read of 32 bits.",
                "Access registers as aligned 32-bit words, through a volatile pointer.",
            ),
            Self::ReservedBits => about(
                Should,
                "reserved-bits",
                "reserved bits written as 1",
                "The card ignores them, or a test function begins: the manual does not say.",
                "Write 0 to reserved bits.",
            ),
            Self::NoRegister => about(
                Should,
                "no-register",
                "written where there is no register",
                "The result is indeterminate.",
                "Compare the offset with table 13-2 of the manual.",
            ),
            Self::NoRegisterRead => about(
                Info,
                "no-register-read",
                "read where there is no register",
                "The value is indeterminate.",
                "Compare the offset with table 13-2 of the manual.",
            ),
        }
    }

    /// The section of the manual, for the receive or the transmit side.
    pub(super) const fn section(self, side: Side) -> &'static str {
        match self {
            Self::SluMissing => "13.4.1",
            Self::FlowControlUnset => "14.3",
            Self::IfcsMissing => "3.3.3.1",
            Self::BamMissing | Self::MtaNotCleared | Self::ReceiverBeforeRing | Self::BuffersOverlap => {
                "14.4"
            }
            Self::RahAvMissing => "13.5.3",
            Self::BufferSizeReserved | Self::ReEnabled => "13.4.22",
            Self::TailBeyondRing
            | Self::TailPassesHead
            | Self::RingLooksEmpty
            | Self::DescriptorChanged
            | Self::RingLong => side.of("3.2.6", "3.4"),
            Self::RingEmpty | Self::RingLengthUnaligned => side.of("13.4.27", "13.4.38"),
            Self::RingBaseUnaligned => side.of("13.4.25", "13.4.36"),
            Self::RingHighUnset => side.of("13.4.26", "13.4.37"),
            Self::HeadForDone => side.of("13.4.28", "3.4"),
            Self::LeftMasked => "13.4.20",
            Self::TransmitterBeforeRing | Self::Runt => "14.5",
            Self::RingWhileEnabled => side.of("13.4.28", "13.4.39"),
            Self::NoReset => side.of("13.4.28", "13.4.39"),
            Self::ReportNotAwaited => "3.3.3.2",
            Self::StatusSet => side.of("3.2.6", "3.3.3.2"),
            Self::NullBuffer => "3.2.5.2",
            Self::FrameOverBuffers => "3.2.3.1",
            Self::TransmitLong | Self::TransmitShort | Self::TransmitEmpty | Self::ChecksumRange => "3.3.3",
            Self::DescriptorReserved | Self::EopMissing => "3.3.3.1",
            Self::TidvZero => "13.4.41",
            Self::NoReport => "3.4",
            Self::GapTooShort => "13.4.34",
            Self::CollisionDistance => "13.4.33",
            Self::HalfDuplexCollisions => "13.4.33, 14.5",
            Self::HalfDuplexGap => "13.4.34",
            Self::HalfDuplexPause => "8.7.5",
            Self::VftaNotWritten => "13.5.4",
            Self::Loopback => "14.4",
            Self::StationAddress => "13.5.2",
            Self::FramesNotTaken => "3.2.6",
            Self::AccessInReset => "13.4.1",
            Self::FlashWriteEnable => "13.4.3",
            Self::IlosSet => "13.4.1",
            Self::ReadOnly => "13.3",
            Self::NoMemory | Self::NotMaster => "4.1",
            Self::IcrNeverRead | Self::InterruptHeld | Self::IcrPolled => "13.4.17",
            Self::Width | Self::ReservedBits | Self::NoRegister | Self::NoRegisterRead => "13.2",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn names_are_unique_and_kebab_case_and_all_rules_are_listed() {
        let names: BTreeSet<_> = Rule::ALL.iter().map(|rule| rule.name()).collect();
        assert_eq!(names.len(), Rule::ALL.len());
        assert!(names.iter().all(|name| name.chars().all(|c| c.is_ascii_lowercase() || c == '-')));
        assert!(Rule::ALL.windows(2).all(|pair| pair[0] < pair[1]), "in order, each once");
        assert_eq!(Rule::ALL.last().map(|rule| *rule as usize), Some(Rule::ALL.len() - 1));
        for rule in Rule::ALL {
            assert!(!rule.words().is_empty() && !rule.silicon().is_empty() && !rule.advice().is_empty());
        }
    }
}
