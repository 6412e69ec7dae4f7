//! The choices for a card.

use kpps_audit::Quirk;
use kpps_datasheet::Chip;
use std::time::Duration;

/// The clock of a card.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clock {
    /// Each access to a register takes this time; with 0 a driver that polls a register may wait for ever.
    /// Otherwise the card's time passes only when the test lets it pass. Results are deterministic.
    Accesses(Duration),
    /// The card lives by the host's clock, on a thread of its own: for drivers that wait for a status in
    /// memory without any access. Five seconds take five seconds, unless the test advances the clock.
    Host,
}

/// The memory that a card reaches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// Memory that the test has given it ([`Card::memory`](crate::Card::memory)). A burst to any other
    /// address breaks the rule `dma-to-nowhere`.
    Given,
    /// All memory of the process, at its virtual addresses, through `/proc/self/mem`: for drivers whose rings
    /// and buffers are statics or on the heap. A card that gets a wrong address writes there, also into code,
    /// as on a machine without an IOMMU.
    Process,
}

/// The choices for a [`Card`](crate::Card).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// The chip: 82543GC, 82544, 82540EM (QEMU's `e1000`), 82545EM or 82546EB.
    pub chip: Chip,
    /// The station address in the EEPROM.
    pub mac: [u8; 6],
    /// The profile of the bus, by its name or by the path of a `.toml` file.
    pub bus: String,
    /// Properties of the card beyond the manual.
    pub quirks: Vec<Quirk>,
    /// The clock.
    pub clock: Clock,
    /// The time of autonegotiation. A real card takes 1.5 s for it.
    pub link: Duration,
    /// Firmware has enabled the card's memory space and made it a bus master. Otherwise the driver must do
    /// so through [`Card::configuration_write`](crate::Card::configuration_write).
    pub is_configured: bool,
    /// The memory that it reaches.
    pub reach: Reach,
}

impl Default for Options {
    /// A configured 82540EM on a PCI bus of 32 bits and 33 MHz. An access to a register takes 1 µs, and
    /// autonegotiation 1 ms, so that a driver that polls the link makes hundreds of accesses, not millions.
    fn default() -> Self {
        Self {
            chip: Chip::I82540em,
            mac: [0x52, 0x54, 0x00, 0x12, 0x34, 0x56],
            bus: "pci-32-33".into(),
            quirks: Vec::new(),
            clock: Clock::Accesses(Duration::from_micros(1)),
            link: Duration::from_millis(1),
            is_configured: true,
            reach: Reach::Given,
        }
    }
}
