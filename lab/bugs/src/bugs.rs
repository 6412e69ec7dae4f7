//! The bugs that can be planted.

/// Where a bug is planted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// Between the driver of kpps and the card ([`shim`](crate::shim)).
    Registers,
    /// In the loop that serves the card ([`run`](crate::run)), beside the driver of kpps.
    Loop,
    /// In the queues written for this guest ([`plain`](crate::plain)), which replace those of kpps.
    Queues,
}

/// A bug that can be planted.
pub struct Bug {
    /// Its name, for `run`.
    pub name: &'static str,
    /// The mistake, in one sentence.
    pub mistake: &'static str,
    /// The kind of public bug report that it stands for.
    pub report: &'static str,
    /// The change that plants it.
    pub plant: Plant,
    /// The part of the guest that is changed.
    pub place: Place,
}

/// The change of the guest that plants a bug.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Plant {
    /// PCI bus mastering stays off.
    BusMasterForgotten,
    /// CTRL.SLU is not set.
    SluMissing,
    /// RCTL.BAM is not set.
    BamMissing,
    /// RCTL.MPE is set, and BAM is not.
    MpeForBam,
    /// RAH.AV is not set.
    RahAvMissing,
    /// The multicast table is not written.
    MtaNotCleared,
    /// TIPG is not written.
    TipgMissing,
    /// CTRL forces 1000 Mb/s in full duplex.
    SpeedForced,
    /// TCTL.CT is 0.
    CollisionsMissing,
    /// TIPG has only IPGT.
    GapOfFullDuplex,
    /// RDBAH and TDBAH are not written.
    BaseHighMissing,
    /// Bits of RCTL and RXDCTL that must be 0 are written as 1.
    ReservedBits,
    /// Tails are written with 16 bits.
    WordWrite,
    /// STATUS is read with 8 bits.
    ByteRead,
    /// The driver goes on at once after CTRL.RST.
    ResetNotAwaited,
    /// RCTL.EN is set before the ring's registers are written.
    ReceiverFirst,
    /// TCTL.EN is set before the ring's registers are written.
    TransmitterFirst,
    /// RCTL.SECRC is not set, and the FCS counts as data.
    FcsCounted,
    /// Interrupts are enabled, and ICR is never read.
    IcrNeverRead,
    /// ICR is read without end.
    IcrWithoutEnd,
    /// Interrupts are masked in the handler, and not unmasked.
    StaysMasked,
    /// An interrupt takes one frame.
    OneFrame,
    /// An overrun turns the receiver off.
    DeadAfterOverrun,
    /// Loss of the link turns the transmitter off.
    DeadAfterLinkFlap,
    /// Interrupts without a cause turn the receiver off.
    DeadAfterSpurious,
    /// The interrupt of a sent frame is awaited for 20 ms, and without it the transmitter is turned off.
    ReportAwaited,
    /// The link counts as lost if any bit of STATUS changes.
    StatusCompared,
    /// STATUS.SPEED = 00b counts as no link.
    SpeedZeroIsDown,
    /// The receive ring has one descriptor.
    RingOfOne,
    /// Both rings have four descriptors.
    RingOfFour,
    /// The receive ring begins 8 bytes behind a multiple of 16.
    RingUnaligned,
    /// A second initialisation without a reset.
    RingChanged,
    /// RDT = RDH at the start.
    TailEqualsHead,
    /// RDT = the number of descriptors at the start.
    TailBeyondRing,
    /// RDT is never written after the start.
    TailNeverMoved,
    /// Transmit descriptors are written without a check whether the card still has them.
    TailPassesHead,
    /// Receive descriptors are taken without DD.
    DdNotChecked,
    /// Receive descriptors are given back with DD.
    DdNotCleared,
    /// Descriptors before RDH count as done.
    HeadForDd,
    /// All receive descriptors have the same buffer.
    OneBuffer,
    /// A receive buffer lies over the ring.
    BufferOverRing,
    /// Receive buffers are shorter than RCTL.BSIZE.
    BufferTooShort,
    /// Addresses of receive buffers are not physical.
    DmaToNowhere,
    /// All frames are sent from one buffer, without waiting.
    BufferReused,
    /// IFCS is not set.
    IfcsMissing,
    /// EOP is not set.
    EopMissing,
    /// RS is not set, but DD awaited.
    NoRs,
    /// Neither the driver nor the card pads short frames.
    PspMissing,
    /// A descriptor of length 0 precedes each frame.
    LengthZero,
    /// Each frame has a length of 16,384.
    LengthTooLong,
    /// Each receive descriptor counts as a frame.
    EopIgnored,
    /// Damaged frames are stored and taken.
    BadFramesTaken,
    /// After each frame the driver waits for DD, without a limit.
    WaitWithoutEnd,
    /// Frames are copied to an array that has no room for a VLAN tag.
    CopyTooLong,
    /// No watchdog.
    NoWatchdog,
}

/// All bugs.
pub const BUGS: [Bug; 55] = {
    use Place::{Loop, Queues, Registers};
    const fn bug(
        place: Place,
        name: &'static str,
        plant: Plant,
        mistake: &'static str,
        report: &'static str,
    ) -> Bug {
        Bug { name, mistake, report, plant, place }
    }
    [
        bug(
            Registers,
            "bus-master-forgotten",
            Plant::BusMasterForgotten,
            "The bus master bit of the PCI command register is not set.",
            "works with the firmware of one machine, neither sends nor receives on another",
        ),
        bug(
            Registers,
            "slu-missing",
            Plant::SluMissing,
            "CTRL.SLU (set link up) is not set.",
            "works in an emulator, no link on a real card",
        ),
        bug(
            Registers,
            "bam-missing",
            Plant::BamMissing,
            "RCTL.BAM is not set, so broadcasts such as ARP requests are dropped.",
            "can ping others, but nobody can ping it",
        ),
        bug(
            Registers,
            "mpe-for-bam",
            Plant::MpeForBam,
            "RCTL.MPE is set for broadcasts in the place of RCTL.BAM.",
            "a bit of RCTL that is off by some places",
        ),
        bug(
            Registers,
            "rah-av-missing",
            Plant::RahAvMissing,
            "RAH[0] is written without AV, so the station address is not valid.",
            "receives broadcasts, but no frame to its own address",
        ),
        bug(
            Registers,
            "mta-not-cleared",
            Plant::MtaNotCleared,
            "The multicast table, which a reset leaves undefined, is not written.",
            "receives multicast frames that nobody asked for on a real card",
        ),
        bug(
            Registers,
            "tipg-missing",
            Plant::TipgMissing,
            "TIPG, which a reset leaves undefined, is not written.",
            "frames sent back to back are lost on a real network",
        ),
        bug(
            Registers,
            "speed-forced",
            Plant::SpeedForced,
            "CTRL forces the speed to 1000 Mb/s, whatever the PHY has negotiated.",
            "the link is up at an older switch, but nothing passes",
        ),
        bug(
            Registers,
            "collisions-missing",
            Plant::CollisionsMissing,
            "TCTL.CT is 0, so in half duplex a frame is given up after a collision.",
            "frames are lost on a hub",
        ),
        bug(
            Registers,
            "gap-of-full-duplex",
            Plant::GapOfFullDuplex,
            "TIPG has only IPGT: the fields for half duplex are 0.",
            "many collisions on a hub",
        ),
        bug(
            Registers,
            "base-high-missing",
            Plant::BaseHighMissing,
            "RDBAH and TDBAH, which a reset leaves undefined, are not written.",
            "works after a cold start, not after another system used the card",
        ),
        bug(
            Registers,
            "reserved-bits",
            Plant::ReservedBits,
            "Bit 0 of RCTL and bit 25 of RXDCTL are written as 1.",
            "magic numbers copied from the driver of another card",
        ),
        bug(
            Registers,
            "word-register-write",
            Plant::WordWrite,
            "Tails are written with 16-bit accesses.",
            "the tail was declared as a 16-bit integer",
        ),
        bug(
            Registers,
            "byte-register-read",
            Plant::ByteRead,
            "STATUS is read with 8-bit accesses.",
            "the link bit was read through a pointer to bytes",
        ),
        bug(
            Registers,
            "reset-not-awaited",
            Plant::ResetNotAwaited,
            "Registers are accessed at once after CTRL.RST.",
            "initialisation fails now and then on a real card",
        ),
        bug(
            Registers,
            "rx-enabled-before-ring",
            Plant::ReceiverFirst,
            "RCTL.EN is set before the ring's address and length are written.",
            "the order of initialisation differs from the manual's",
        ),
        bug(
            Registers,
            "tx-enabled-before-ring",
            Plant::TransmitterFirst,
            "TCTL.EN is set before the ring's address and length are written.",
            "the order of initialisation differs from the manual's",
        ),
        bug(
            Registers,
            "fcs-counted",
            Plant::FcsCounted,
            "RCTL.SECRC is not set, and the four bytes of FCS count as data.",
            "each echo is four bytes too long",
        ),
        bug(
            Loop,
            "icr-never-read",
            Plant::IcrNeverRead,
            "Interrupts are enabled, but ICR is never read, so the line stays raised.",
            "an interrupt storm after the first frame",
        ),
        bug(
            Loop,
            "icr-polled-without-end",
            Plant::IcrWithoutEnd,
            "ICR is read in a tight loop, also when nothing happens.",
            "one core at 100 % while the network is idle",
        ),
        bug(
            Loop,
            "interrupts-stay-masked",
            Plant::StaysMasked,
            "The handler masks interrupts with IMC, and nothing unmasks them.",
            "answers the first ping only",
        ),
        bug(
            Loop,
            "one-frame-per-interrupt",
            Plant::OneFrame,
            "Each interrupt takes one frame out of the ring, however many there are.",
            "answers lag behind, each ping gets the reply to an earlier one",
        ),
        bug(
            Loop,
            "dead-after-overrun",
            Plant::DeadAfterOverrun,
            "The handler turns the receiver off after an overrun (RXO), and nothing turns it on again.",
            "the network hangs under load",
        ),
        bug(
            Loop,
            "dead-after-link-flap",
            Plant::DeadAfterLinkFlap,
            "The transmitter is turned off when the link is lost, and nothing turns it on again.",
            "the network is dead after the cable was pulled",
        ),
        bug(
            Loop,
            "dead-after-spurious",
            Plant::DeadAfterSpurious,
            "Ten interrupts in a row for which ICR is 0 turn the receiver off, and nothing turns it on again.",
            "the network hangs on machines where another device shares the interrupt",
        ),
        bug(
            Loop,
            "status-compared-whole",
            Plant::StatusCompared,
            "The driver gives the card up if STATUS is not what it was at the start, except for the bit LU.",
            "the network is dead after a switch was overloaded",
        ),
        bug(
            Loop,
            "speed-zero-is-down",
            Plant::SpeedZeroIsDown,
            "The driver takes the value 0 of STATUS.SPEED, which means 10 Mb/s, for a missing link.",
            "works at every port but an old one",
        ),
        bug(
            Queues,
            "ring-of-one",
            Plant::RingOfOne,
            "The receive ring has one descriptor, so RDLEN is no multiple of 128.",
            "received nothing, or every frame over the last one",
        ),
        bug(
            Queues,
            "ring-of-four",
            Plant::RingOfFour,
            "Both rings have four descriptors, so their lengths are no multiples of 128.",
            "works in an emulator, hangs on a real card",
        ),
        bug(
            Queues,
            "ring-unaligned",
            Plant::RingUnaligned,
            "The receive ring begins 8 bytes behind a multiple of 16.",
            "works or not, depending on where the allocator places the ring",
        ),
        bug(
            Queues,
            "ring-changed-while-enabled",
            Plant::RingChanged,
            "A second initialisation writes new rings while both units are enabled.",
            "the network is dead after the interface was opened again",
        ),
        bug(
            Queues,
            "tail-equals-head",
            Plant::TailEqualsHead,
            "All receive descriptors are handed over with RDT = RDH, which means none.",
            "never receives a frame",
        ),
        bug(
            Queues,
            "tail-beyond-ring",
            Plant::TailBeyondRing,
            "RDT is the number of descriptors, one more than the last index.",
            "works in an emulator, memory is overwritten on a real card",
        ),
        bug(
            Queues,
            "tail-never-moved",
            Plant::TailNeverMoved,
            "RDT is never written after the start, so the card runs out of descriptors.",
            "receives as many frames as the ring has descriptors, and then no more",
        ),
        bug(
            Queues,
            "tail-passes-head",
            Plant::TailPassesHead,
            "Transmit descriptors are written again without a check that the card is done with them.",
            "frames are lost or sent twice under load",
        ),
        bug(
            Queues,
            "dd-not-checked-rx",
            Plant::DdNotChecked,
            "Each receive interrupt takes the next descriptor, whether DD is set or not.",
            "frames come late or twice after several shared an interrupt",
        ),
        bug(
            Queues,
            "dd-not-cleared",
            Plant::DdNotCleared,
            "Receive descriptors are given back with DD set, and the next lap takes old frames.",
            "old frames come again when the ring has wrapped",
        ),
        bug(
            Queues,
            "head-for-dd",
            Plant::HeadForDd,
            "The driver takes descriptors up to RDH, which the card moves before it writes them back.",
            "now and then a frame has the contents of an earlier one",
        ),
        bug(
            Queues,
            "one-buffer-for-all",
            Plant::OneBuffer,
            "All receive descriptors have the address of the same buffer.",
            "frames are damaged when several arrive together",
        ),
        bug(
            Queues,
            "buffer-over-ring",
            Plant::BufferOverRing,
            "The buffer of one receive descriptor lies over the end of the ring.",
            "the ring is destroyed after some frames",
        ),
        bug(
            Queues,
            "buffer-shorter-than-bsize",
            Plant::BufferTooShort,
            "Receive buffers lie 1,024 bytes apart, but RCTL.BSIZE is 2,048.",
            "long frames damage the next buffer",
        ),
        bug(
            Queues,
            "dma-to-nowhere",
            Plant::DmaToNowhere,
            "Addresses of receive buffers are virtual, where there is no memory on the bus.",
            "frames are received, but all their bytes are 0",
        ),
        bug(
            Queues,
            "buffer-reused-early",
            Plant::BufferReused,
            "All frames are sent from one buffer, which is overwritten before the card has read it.",
            "of several frames in a row, only the last is sent, several times",
        ),
        bug(
            Queues,
            "ifcs-missing",
            Plant::IfcsMissing,
            "Transmit descriptors have no IFCS, so frames leave without their FCS.",
            "works in an emulator, every frame is damaged on a real network",
        ),
        bug(
            Queues,
            "eop-missing",
            Plant::EopMissing,
            "Transmit descriptors have no EOP, so no frame ends.",
            "never sends a frame",
        ),
        bug(
            Queues,
            "no-rs",
            Plant::NoRs,
            "Transmit descriptors have no RS, but the driver waits for DD.",
            "sends as many frames as the ring has descriptors, and then no more",
        ),
        bug(
            Queues,
            "psp-missing-and-no-pad",
            Plant::PspMissing,
            "TCTL.PSP is not set, and frames shorter than 60 bytes are not padded.",
            "ARP replies are dropped by a switch",
        ),
        bug(
            Queues,
            "length-zero",
            Plant::LengthZero,
            "A transmit descriptor of length 0 precedes each frame.",
            "the transmitter hangs after an empty write",
        ),
        bug(
            Queues,
            "length-too-long",
            Plant::LengthTooLong,
            "Transmit descriptors have the length of the buffer, 16,384, which is above the limit.",
            "the size of the buffer was passed for the frame's",
        ),
        bug(
            Queues,
            "eop-ignored",
            Plant::EopIgnored,
            "Receive buffers have 256 bytes, and each descriptor counts as a whole frame.",
            "long frames arrive in pieces",
        ),
        bug(
            Queues,
            "bad-frames-taken",
            Plant::BadFramesTaken,
            "RCTL.SBP stores damaged frames, and the error bits are not read.",
            "damaged frames reach the stack",
        ),
        bug(
            Queues,
            "tx-wait-without-end",
            Plant::WaitWithoutEnd,
            "After each frame the driver waits for DD, without a limit.",
            "the system hangs when the cable is pulled",
        ),
        bug(
            Queues,
            "copy-without-length-check",
            Plant::CopyTooLong,
            "Frames are copied to an array of 1,514 bytes without a check, so a VLAN tag overwrites what follows.",
            "crashes on a network with VLANs",
        ),
        bug(
            Queues,
            "interrupt-awaited-briefly",
            Plant::ReportAwaited,
            "The interrupt of each sent frame is awaited for 20 ms; without it the transmitter is turned off.",
            "works until the machine is busy, then never sends again",
        ),
        bug(
            Queues,
            "no-watchdog",
            Plant::NoWatchdog,
            "Nothing notices that the card has not reported a frame for seconds, so it is never reset.",
            "the network hangs after days, until the machine is started again",
        ),
    ]
};

/// How the guest runs.
#[derive(Clone, Copy)]
pub struct Mode {
    /// The planted bug, if there is one.
    pub plant: Option<Plant>,
    /// Where it is planted; without a bug, [`Place::Queues`] chooses the queues of this guest.
    pub place: Place,
}

impl Mode {
    /// The mode for the argument of `run`: nothing, `plain`, or the name of a bug.
    pub fn parse(name: &str) -> Option<Self> {
        match name {
            "" => Some(Self { plant: None, place: Place::Registers }),
            "plain" => Some(Self { plant: None, place: Place::Queues }),
            _ => {
                let bug = BUGS.iter().find(|bug| bug.name == name)?;
                Some(Self { plant: Some(bug.plant), place: bug.place })
            }
        }
    }

    /// Whether this bug is planted.
    pub fn has(self, plant: Plant) -> bool {
        self.plant == Some(plant)
    }
}
