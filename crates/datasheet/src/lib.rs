//! Registers, descriptors, chips and errata of the Intel PRO/1000 family, 82542 to 82546 and 82574.
//!
//! Facts only: nothing here reads or writes a device. Each item names its section in the
//! *PCI/PCI-X Family of Gigabit Ethernet Controllers Software Developer's Manual* (317453,
//! "SDM"). That manual begins with the 82544; what the 82542 and 82543 do differently comes
//! from the public Intel drivers of their time and from the 82543GC Specification Update, and
//! is said so where it stands. What the 82574 adds is from the *Intel 82574 GbE Controller Family
//! Datasheet* ("82574 data sheet") and from the public drivers for it.
//!
//! - [`reg`]: register offsets; [`bit`](mod@bit): the bits inside them; [`mii`]: the PHY's registers
//! - [`express`]: the bits of what came with PCI Express, on the 82574
//! - [`stat`]: the statistics registers as a table
//! - [`desc`]: receive and transmit descriptors as typed views of two 64-bit words
//! - [`eeprom`]: the word map and the check sum
//! - [`chip`]: what each chip has, and [`erratum`]: what it gets wrong
#![no_std]
#![forbid(unsafe_code)]

pub mod bit;
pub mod chip;
pub mod desc;
pub mod eeprom;
pub mod erratum;
pub mod express;
pub mod mii;
pub mod reg;
pub mod stat;

pub use chip::{Chip, Media};
pub use erratum::Erratum;
