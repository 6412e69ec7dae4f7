//! Where devices are known to leave the manual. A case that meets one checks that the device
//! still leaves it in the same way: should that change, the case fails and says so.

use kpps_datasheet::Chip;

/// A known difference between a device and the manual.
#[derive(Debug, PartialEq, Eq)]
pub struct Departure {
    /// What the device does.
    pub what: &'static str,
    /// Why.
    pub reason: &'static str,
    /// Where the manual says otherwise.
    pub manual: &'static str,
}

macro_rules! departures {
    ($($(#[doc = $doc:literal])* $name:ident { $what:literal, $reason:literal, $manual:literal })*) => {
        $($(#[doc = $doc])* pub static $name: Departure =
            Departure { what: $what, reason: $reason, manual: $manual };)*
    };
}

departures! {
    /// CTRL.RST is ignored.
    RESET_IGNORED {
        "CTRL.RST resets nothing",
        "QEMU clears the bit and leaves every register as it is",
        "SDM 13.4.1"
    }
    /// Registers that exist but read as zero.
    REGISTERS_READ_ZERO {
        "RXDCTL, TIDV, RXCSUM, TIPG, FCRTL, FCTTV and RSRPD read as 0",
        "QEMU does not implement them; writes are lost",
        "SDM 13.4.46, 13.4.41, 13.4.47, 13.4.34, 13.4.23, 13.4.12, 13.4.32"
    }
    /// RCTL writes deafen the card.
    DEAF_AFTER_RCTL {
        "nothing is received for 1 s after a write of RCTL",
        "QEMU waits so that guests with interrupts still masked are not flooded",
        "SDM 13.4.22"
    }
    /// RDTR has no effect by itself.
    NO_RECEIVE_DELAY {
        "RDTR without RADV does not delay the receive interrupt",
        "QEMU has no relative timers",
        "SDM 13.4.30"
    }
    /// TIDV has no effect by itself.
    NO_TRANSMIT_DELAY {
        "TIDV does not delay the transmit interrupt",
        "QEMU has no relative timers",
        "SDM 13.4.41"
    }
    /// TXQE without anything sent.
    TXQE_ALWAYS {
        "every write of TDT sets TXQE, even with nothing to send",
        "QEMU empties the ring within the write and reports it in any case",
        "SDM 13.4.17"
    }
    /// The low threshold cause does not exist.
    NO_TXD_LOW {
        "TXD_LOW is never set",
        "QEMU's ring is never low: it is empty after each write of TDT",
        "SDM 13.4.43"
    }
    /// No receive checksum verdicts.
    NO_RECEIVE_CHECKSUM {
        "received frames carry IXSM: no checksum was looked at",
        "QEMU leaves checksums to the guest",
        "SDM 3.2.3.1, 13.4.47"
    }
    /// The packet checksum stays zero.
    NO_PACKET_CHECKSUM {
        "the packet checksum in the receive descriptor is 0",
        "QEMU leaves checksums to the guest",
        "SDM 3.2.9"
    }
    /// TCTL.PSP is ignored.
    NO_PADDING {
        "short frames leave unpadded: TCTL.PSP has no effect",
        "QEMU's networks carry frames without padding",
        "SDM 13.4.33"
    }
    /// One segment too many.
    EMPTY_LAST_SEGMENT {
        "a payload that is a multiple of the MSS is followed by a segment without payload",
        "QEMU sends what it has at the end of the last buffer, even if that is only the header",
        "SDM 3.5.4"
    }
    /// IPv6 length of segments.
    IPV6_LENGTH_WITH_HEADER {
        "the payload length of IPv6 segments counts the IPv6 header, too",
        "QEMU computes it as it does IPv4's total length",
        "SDM 3.5.10"
    }
    /// Broadcasts count as multicasts when these are all accepted.
    BROADCAST_AS_MULTICAST {
        "with RCTL.MPE set, broadcasts are counted in MPRC and not in BPRC",
        "QEMU counts by the filter that let a frame in, and asks that one first",
        "SDM 13.7.28, 13.7.29"
    }
    /// The limit of long frames leaves the FCS out.
    LONG_WITHOUT_FCS {
        "without LPE, frames of up to 1526 B with FCS are received",
        "QEMU compares the length without FCS with the limit of 1522 B",
        "SDM 13.4.22"
    }
    /// No loopback without a link.
    LOOPBACK_NEEDS_LINK {
        "frames are looped back only while the cable is in",
        "QEMU receives nothing without STATUS.LU, whoever sent it",
        "SDM 15.1.3.1"
    }
    /// Short frames are padded.
    SHORT_PADDED {
        "received frames of less than 64 B with FCS are padded instead of refused",
        "QEMU's networks carry frames without padding",
        "SDM 13.7.34"
    }
    /// The size classes leave the stripped FCS out.
    SIZE_CLASSES_WITHOUT_FCS {
        "PRC64 to PRC1522 count sizes without FCS when RCTL.SECRC is set",
        "QEMU adds the FCS only if it is kept",
        "SDM 13.7.21"
    }
    /// Octet counters leave VLAN tags out.
    OCTETS_WITHOUT_VLAN {
        "octets of inserted and stripped VLAN tags are missing in GOTC and GORC",
        "QEMU counts the frame as it is in memory",
        "SDM 13.7.31, 13.7.32"
    }
    /// A frame that needs more descriptors than are free is lost, and the loss is counted for ever.
    DROPPED_NOT_WAITING {
        "a frame that needs more descriptors than are free is dropped; MPC and RNBC count it and do not clear",
        "QEMU has no FIFO in which it could wait, and keeps these two as plain registers",
        "SDM 3.2.6, 13.7"
    }
    /// An empty ring loses nothing yet.
    MISSED_LATE {
        "frames that meet an empty receive ring wait on the wire; when it is refilled, those beyond its room are dropped and counted then",
        "QEMU's network holds them back, and lets all of them go at once",
        "SDM 13.7.5, 13.4.17"
    }
    /// No TCP segmentation.
    SEGMENTS_ARE_FRAGMENTS {
        "a large send over IPv4 leaves as IP fragments of one TCP segment; over IPv6 cut up, but without fragment headers",
        "QEMU up to 8.0 has no TCP segmentation for networks without offloads and cuts at the IP layer",
        "82574 data sheet 7.3.6"
    }
    /// The length field follows the padding.
    LENGTH_WITH_PADDING {
        "inserting the IP checksum sets the IPv4 total length, padding included",
        "QEMU builds the IP header anew from the bytes that it was given",
        "82574 data sheet 7.3.5"
    }
    /// What looks like IP must be IP.
    NONSENSE_NOT_SENT {
        "frames with an IP EtherType and an impossible IP header are not sent",
        "QEMU parses each frame before it sends it and forgets those that it cannot parse",
        "82574 data sheet 7.2"
    }
    /// A limit of the emulation.
    MANY_BUFFERS_NOT_SENT {
        "a frame of more than 64 buffers is not sent",
        "QEMU has room for 64 and forgets the frame",
        "82574 data sheet 7.2"
    }
    /// The FCS has a descriptor of its own.
    FCS_APART {
        "without RCTL.SECRC the FCS comes in a descriptor of its own",
        "QEMU 7.2 ends the frame's descriptor before it adds the FCS",
        "82574 data sheet 7.1.4"
    }
    /// A register that does not read back.
    TIDV_READS_ZERO {
        "TIDV works, but reads as 0",
        "QEMU has no read access to it",
        "82574 data sheet 10.2.6"
    }
    /// Transmit octets leave the FCS out.
    SENT_WITHOUT_FCS {
        "GOTC, TOT and the size classes of frames sent leave the FCS out",
        "QEMU up to 8.0 counts what the driver gave",
        "82574 data sheet 10.2.7"
    }
    /// A frame that waits is overtaken.
    OVERTAKEN {
        "a frame that needs more descriptors than are free is overtaken by shorter ones",
        "QEMU's hub keeps what a card does not take and offers it the next frame meanwhile",
        "82574 data sheet 7.1"
    }
    /// Multicasts count twice.
    MULTICAST_TWICE {
        "multicasts that pass the hash filter are counted twice in MPRC",
        "QEMU counts them in the filter and again when it has stored them",
        "82574 data sheet 10.2.7"
    }
}

/// Everything in which QEMU's e1000 differs, as far as this suite looks.
pub static QEMU: &[&Departure] = &[
    &RESET_IGNORED,
    &REGISTERS_READ_ZERO,
    &DEAF_AFTER_RCTL,
    &NO_RECEIVE_DELAY,
    &NO_TRANSMIT_DELAY,
    &TXQE_ALWAYS,
    &NO_TXD_LOW,
    &NO_RECEIVE_CHECKSUM,
    &NO_PACKET_CHECKSUM,
    &NO_PADDING,
    &EMPTY_LAST_SEGMENT,
    &IPV6_LENGTH_WITH_HEADER,
    &BROADCAST_AS_MULTICAST,
    &LONG_WITHOUT_FCS,
    &LOOPBACK_NEEDS_LINK,
    &SHORT_PADDED,
    &SIZE_CLASSES_WITHOUT_FCS,
    &OCTETS_WITHOUT_VLAN,
    &DROPPED_NOT_WAITING,
    &MISSED_LATE,
];

/// Everything in which QEMU's e1000e differs.
pub static QEMU_E1000E: &[&Departure] = &[
    &RESET_IGNORED,
    &TXQE_ALWAYS,
    &NO_TXD_LOW,
    &NO_PACKET_CHECKSUM,
    &LONG_WITHOUT_FCS,
    &LOOPBACK_NEEDS_LINK,
    &SHORT_PADDED,
    &SIZE_CLASSES_WITHOUT_FCS,
    &OCTETS_WITHOUT_VLAN,
    &MISSED_LATE,
    &SEGMENTS_ARE_FRAGMENTS,
    &LENGTH_WITH_PADDING,
    &NONSENSE_NOT_SENT,
    &MANY_BUFFERS_NOT_SENT,
    &FCS_APART,
    &TIDV_READS_ZERO,
    &SENT_WITHOUT_FCS,
    &MULTICAST_TWICE,
];

/// As [`QEMU_E1000E`], behind a hub of QEMU's.
pub static QEMU_E1000E_ON_A_HUB: &[&Departure] = &[
    &RESET_IGNORED,
    &TXQE_ALWAYS,
    &NO_TXD_LOW,
    &NO_PACKET_CHECKSUM,
    &LONG_WITHOUT_FCS,
    &LOOPBACK_NEEDS_LINK,
    &SHORT_PADDED,
    &SIZE_CLASSES_WITHOUT_FCS,
    &OCTETS_WITHOUT_VLAN,
    &MISSED_LATE,
    &SEGMENTS_ARE_FRAGMENTS,
    &LENGTH_WITH_PADDING,
    &NONSENSE_NOT_SENT,
    &MANY_BUFFERS_NOT_SENT,
    &FCS_APART,
    &TIDV_READS_ZERO,
    &SENT_WITHOUT_FCS,
    &MULTICAST_TWICE,
    &OVERTAKEN,
];

/// What QEMU's card of this chip is known for whose cable ends in a hub (`hubport`).
pub fn of_qemu_on_a_hub(chip: Chip) -> &'static [&'static Departure] {
    if chip.is_pci_express() { QEMU_E1000E_ON_A_HUB } else { QEMU }
}

/// What QEMU's card of this chip is known for.
pub fn of_qemu(chip: Chip) -> &'static [&'static Departure] {
    if chip.is_pci_express() { QEMU_E1000E } else { QEMU }
}
