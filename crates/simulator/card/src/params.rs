//! The parameters of a card: everything that the manual does not fix.

use kpps_datasheet::bit::ctrl;
use kpps_datasheet::{Chip, Media, chip::DelayTimer};

/// Picoseconds in a microsecond.
const US: u64 = 1_000_000;
/// Picoseconds in a millisecond.
const MS: u64 = 1_000 * US;

/// How a card delays its interrupts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Deserialize), serde(rename_all = "kebab-case"))]
pub enum Moderation {
    /// By RDTR, RADV, TIDV, TADV and ITR, each as the manual says.
    #[default]
    Manual,
    /// As QEMU's 82540EM (hw/net/e1000.c, `set_interrupt_cause`). No timer delays a cause, and a descriptor
    /// is written back at once. After an interrupt the line stays low for the shortest of the delays that
    /// are set: ITR; RADV if RDTR is not 0 and the cause is RXT0; TADV if a delayed report (IDE) is due. It
    /// is 500 units of ITR, 128 µs, at least, and also if none is set.
    Qemu,
}

/// A card: its chip, its place on the bus, and the constants of its timing.
///
/// [`Params::of`] gives the chip's defaults. With the feature `serde` a table names the `chip` and the fields
/// to change; unknown fields are errors.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Deserialize), serde(try_from = "read::Table"))]
pub struct Params {
    /// The chip; everything that the manual fixes follows from it.
    pub chip: Chip,
    /// Copper with a PHY, or fibre.
    pub media: Media,
    /// The shortest time from the start of a frame in the receive engine to the start of the next, in ps; the
    /// end of the data burst may be later. 82542 and 82543: fitted to 680,000 frames/s (Morris 2000, claims
    /// M1 and M7).
    pub rx_engine_ps: u64,
    /// Internal time of the transmit engine after the last data burst of a frame, before the next burst may
    /// start, in ps. 82542 and 82543: a prior, to be fitted so that a frame takes 1912 and 1190 ns in total
    /// (Morris 2000, claims M2 and M3).
    pub tx_engine_ps: u64,
    /// Internal time of a context descriptor, in ps; the transmit pipeline drains first.
    pub tx_context_ps: u64,
    /// Overhead of a frame in the receive FIFO, in bytes, beside its length (with FCS, rounded up to 8).
    pub rx_fifo_overhead_bytes: u32,
    /// Overhead of a frame in the transmit FIFO, in bytes (SDM 3.3.6 reserves 80 for the longest; assumed 16
    /// per frame).
    pub tx_fifo_overhead_bytes: u32,
    /// The cache line size in the card's PCI configuration, 16 to 128 bytes: the unit of write-backs, fetches
    /// and thresholds.
    pub cache_line_bytes: u32,
    /// The most descriptors in one fetch burst, 1 to 64.
    pub fetch_max_descriptors: u32,
    /// The most receive descriptors in one bus burst, 1 to 64. A larger fetch takes several bursts, until the
    /// on-chip memory is full or the tail is reached.
    pub rx_burst_descriptors: u32,
    /// Descriptor fetches move whole cache lines (SDM 4.2), not only the needed descriptors.
    pub fetch_whole_lines: bool,
    /// Bytes in the report of one transmit descriptor with TXDCTL.WTHRESH 0 (SDM 3.4.2: the status byte), 1
    /// to 16.
    pub tx_status_bytes: u32,
    /// With RDTR 0: how long after the last frame an incomplete cache line of descriptors is written back, in
    /// ps. 0: at once if no frame follows (SDM 3.2.7.1).
    pub rx_idle_report_ps: u64,
    /// Whether RDTR starts again with each packet, or runs from the first (SDM 3.2.7.1).
    pub rdtr_from: DelayTimer,
    /// Whether TIDV starts again with each packet (SDM 3.3.3.1), or runs from the first (SDM 3.4.2).
    pub tidv_from: DelayTimer,
    /// How interrupts are delayed.
    pub moderation: Moderation,
    /// The transmit command bit RPS works: the report waits until the frame has left. The manual has it only
    /// for the 82544; the public drivers also use it on the 82542 and 82543.
    pub report_packet_sent: bool,
    /// RCTL.MPE passes broadcasts, too. The manual does not settle it. For `false`, the strict reading:
    /// without BAM a broadcast passes only by the perfect or the imperfect filter (SDM 13.4.22, BAM), MPE is
    /// described for multicasts alone (SDM 3.2.1, 13.4.22), and a filter of broadcasts can be disabled (SDM
    /// 13.7.28). For `true`: a broadcast address has the group bit, and on the 82544 broadcasts may pass
    /// another perfect or multicast filter (SDM 6.4.3.1.4), of which promiscuity may be one. QEMU's e1000 has
    /// `true` before version 8.1, and `false` since.
    pub mpe_passes_broadcasts: bool,
    /// The software semaphore SWSM (5B50h). The 82574 has it. The manual of the 8254x does not name it, but
    /// QEMU's 82540EM has it, and U-Boot's driver does not start a card without it.
    pub swsm: bool,
    /// CTRL.SLU is set after each reset: the EEPROM does so if it has APM or SMBus enabled (SDM 13.4.1).
    pub slu_at_reset: bool,
    /// The time of autonegotiation, in ps.
    pub link_ps: u64,
    /// The time of an MDI access, in ps.
    pub mdi_ps: u64,
    /// The time of an EEPROM word through EERD, in ps.
    pub eeprom_ps: u64,
    /// The bus runs at 66 MHz (STATUS.PCI66).
    pub bus_66mhz: bool,
    /// The bus is 64 bits wide (STATUS.BUS64).
    pub bus_64bit: bool,
    /// PCI-X mode (STATUS.PCIX_MODE).
    pub bus_pcix: bool,
    /// PCI-X speed code 0 to 2: 66, 100, 133 MHz (STATUS.PCIXSPD).
    pub bus_pcix_speed: u8,
    /// Port of a dual-port chip, 0 or 1 (STATUS, function ID).
    pub port: u8,
}

impl Params {
    /// CTRL after a reset, as loaded from the EEPROM (SDM 13.4.1, 5.6.7). On fibre the link is held in reset
    /// until the driver releases it.
    pub const fn control_at_reset(&self) -> u32 {
        let slu = if self.slu_at_reset { ctrl::SLU } else { 0 };
        let lrst = if matches!(self.media, Media::Fibre) { ctrl::LRST } else { 0 };
        ctrl::FD | ctrl::SPEED_1000 | slu | lrst
    }

    /// The defaults for `chip`, which is one of [`Chip::E1000`]: the model has no other.
    pub const fn of(chip: Chip) -> Self {
        let (rx_engine_ps, tx_engine_ps) = match chip {
            Chip::I82542 => (1_470_000, 1_450_000),
            Chip::I82543gc => (1_470_000, 930_000),
            // No figures are known: below the shortest frame time on the wire, so the bus is the limit.
            _ => (500_000, 400_000),
        };
        let media = chip.media();
        Self {
            chip,
            media,
            rx_engine_ps,
            tx_engine_ps,
            tx_context_ps: 200_000,
            rx_fifo_overhead_bytes: 16,
            tx_fifo_overhead_bytes: 16,
            cache_line_bytes: 64,
            fetch_max_descriptors: 64,
            rx_burst_descriptors: 64,
            fetch_whole_lines: true,
            tx_status_bytes: 1,
            rx_idle_report_ps: 0,
            rdtr_from: chip.delay_timer(),
            tidv_from: DelayTimer::EachPacket,
            moderation: Moderation::Manual,
            report_packet_sent: matches!(chip, Chip::I82542 | Chip::I82543gc | Chip::I82544),
            mpe_passes_broadcasts: false,
            swsm: chip.is_pci_express(),
            slu_at_reset: false,
            link_ps: match media {
                // Clause 37: two link timers of 10 ms.
                Media::Fibre => 20 * MS,
                // Clauses 28 and 40: one to two seconds for drivers.
                Media::Copper => 1_500 * MS,
            },
            // 64 bits at 2.5 MHz (IEEE 802.3 clause 22).
            mdi_ps: 25_600_000,
            eeprom_ps: 30 * US,
            bus_66mhz: !matches!(chip, Chip::I82542),
            bus_64bit: !matches!(chip, Chip::I82540em),
            bus_pcix: false,
            bus_pcix_speed: 0,
            port: 0,
        }
    }

    /// Clamps all values into their ranges.
    pub(crate) fn sane(mut self) -> Self {
        self.cache_line_bytes = self.cache_line_bytes.clamp(16, 128).next_power_of_two();
        self.fetch_max_descriptors = self.fetch_max_descriptors.clamp(1, 64);
        self.rx_burst_descriptors = self.rx_burst_descriptors.clamp(1, 64);
        self.tx_status_bytes = self.tx_status_bytes.clamp(1, 16);
        self
    }
}

#[cfg(feature = "serde")]
mod read {
    use super::*;

    /// A table of overrides.
    #[derive(serde::Deserialize)]
    #[serde(deny_unknown_fields)]
    pub(super) struct Table {
        chip: String,
        media: Option<MediaName>,
        rx_engine_ps: Option<u64>,
        tx_engine_ps: Option<u64>,
        tx_context_ps: Option<u64>,
        rx_fifo_overhead_bytes: Option<u32>,
        tx_fifo_overhead_bytes: Option<u32>,
        cache_line_bytes: Option<u32>,
        fetch_max_descriptors: Option<u32>,
        rx_burst_descriptors: Option<u32>,
        fetch_whole_lines: Option<bool>,
        tx_status_bytes: Option<u32>,
        rx_idle_report_ps: Option<u64>,
        rdtr_from: Option<DelayName>,
        tidv_from: Option<DelayName>,
        moderation: Option<Moderation>,
        report_packet_sent: Option<bool>,
        mpe_passes_broadcasts: Option<bool>,
        swsm: Option<bool>,
        slu_at_reset: Option<bool>,
        link_ps: Option<u64>,
        mdi_ps: Option<u64>,
        eeprom_ps: Option<u64>,
        bus_66mhz: Option<bool>,
        bus_64bit: Option<bool>,
        bus_pcix: Option<bool>,
        bus_pcix_speed: Option<u8>,
        port: Option<u8>,
    }

    #[derive(serde::Deserialize)]
    #[serde(rename_all = "kebab-case")]
    enum MediaName {
        Copper,
        Fibre,
    }

    #[derive(serde::Deserialize)]
    #[serde(rename_all = "kebab-case")]
    enum DelayName {
        EachPacket,
        FirstPacket,
    }

    impl From<DelayName> for DelayTimer {
        fn from(name: DelayName) -> Self {
            match name {
                DelayName::EachPacket => Self::EachPacket,
                DelayName::FirstPacket => Self::FirstPacket,
            }
        }
    }

    impl TryFrom<Table> for Params {
        type Error = String;
        fn try_from(t: Table) -> Result<Self, String> {
            let chip: Chip = t.chip.parse().map_err(|e| format!("chip {:?}: {e}", t.chip))?;
            if !Chip::E1000.contains(&chip) {
                return Err(format!("chip {:?}: the model has no such chip", t.chip));
            }
            let mut p = Self::of(chip);
            if let Some(media) = t.media {
                p.media = match media {
                    MediaName::Copper => Media::Copper,
                    MediaName::Fibre => Media::Fibre,
                };
            }
            macro_rules! take {
                ($($field:ident)*) => { $(if let Some(value) = t.$field { p.$field = value.into(); })* };
            }
            take!(rx_engine_ps tx_engine_ps tx_context_ps rx_fifo_overhead_bytes tx_fifo_overhead_bytes
                cache_line_bytes fetch_max_descriptors rx_burst_descriptors fetch_whole_lines tx_status_bytes
                rx_idle_report_ps rdtr_from tidv_from moderation report_packet_sent mpe_passes_broadcasts swsm
                slu_at_reset link_ps mdi_ps eeprom_ps bus_66mhz bus_64bit bus_pcix bus_pcix_speed port);
            for (name, value, range) in [
                ("cache_line_bytes", p.cache_line_bytes, 16..=128),
                ("fetch_max_descriptors", p.fetch_max_descriptors, 1..=64),
                ("rx_burst_descriptors", p.rx_burst_descriptors, 1..=64),
                ("tx_status_bytes", p.tx_status_bytes, 1..=16),
                ("bus_pcix_speed", p.bus_pcix_speed.into(), 0..=2),
                ("port", p.port.into(), 0..=1),
            ] {
                if !range.contains(&value) {
                    return Err(format!("{name} = {value} is not in {range:?}"));
                }
            }
            if !p.cache_line_bytes.is_power_of_two() {
                return Err(format!("cache_line_bytes = {} is not a power of two", p.cache_line_bytes));
            }
            Ok(p)
        }
    }

    #[cfg(test)]
    mod tests {
        #![allow(clippy::unwrap_used)]
        use super::*;

        #[test]
        fn a_table_overrides_its_fields() {
            let p: Params =
                toml::from_str("chip = '82543gc'\nrx_engine_ps = 1\nrdtr_from = 'first-packet'").unwrap();
            let want =
                Params { rx_engine_ps: 1, rdtr_from: DelayTimer::FirstPacket, ..Params::of(Chip::I82543gc) };
            assert_eq!(p, want);
        }

        #[test]
        fn options_are_off_unless_a_table_sets_them() {
            let read = |text| toml::from_str::<Params>(text).unwrap();
            let plain = read("chip = '82540em'");
            assert_eq!((plain.mpe_passes_broadcasts, plain.swsm, plain.slu_at_reset), (false, false, false));
            let all =
                read("chip = '82540em'\nmpe_passes_broadcasts = true\nswsm = true\nslu_at_reset = true");
            assert_eq!((all.mpe_passes_broadcasts, all.swsm, all.slu_at_reset), (true, true, true));
            assert!(read("chip = '82574l'").swsm);
        }

        #[test]
        fn mistakes_are_errors() {
            for bad in
                ["", "chip = '8139'", "chip = '82542'\nspeed = 1", "chip = '82542'\ncache_line_bytes = 48"]
            {
                assert!(toml::from_str::<Params>(bad).is_err(), "{bad}");
            }
        }
    }
}
