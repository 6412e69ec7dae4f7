//! The few registers of configuration space that are used here, and their bits.

/// Command register (PCI 2.3, 6.2.2), 16 bits.
pub(crate) const COMMAND: u64 = 0x04;
/// Command: respond to I/O accesses.
pub(crate) const COMMAND_IO: u16 = 1 << 0;
/// Command: respond to memory accesses.
pub(crate) const COMMAND_MEMORY: u16 = 1 << 1;
/// Command: bus master, for DMA and MSI.
pub(crate) const COMMAND_MASTER: u16 = 1 << 2;
/// Command: the interrupt line is disabled.
pub(crate) const COMMAND_INTX_DISABLE: u16 = 1 << 10;
/// Status register (PCI 2.3, 6.2.3), 16 bits.
pub(crate) const STATUS: u64 = 0x06;
/// Status: the device requests an interrupt, even if the line is disabled.
pub(crate) const STATUS_INTERRUPT: u16 = 1 << 3;
