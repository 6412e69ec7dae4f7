//! Registers, descriptors, chips and errata of the Intel PRO/1000 family, 82542 to 82546.
//!
//! Facts only: nothing here reads or writes a device. Each item names its section in the
//! *PCI/PCI-X Family of Gigabit Ethernet Controllers Software Developer's Manual* (317453,
//! "SDM"). That manual begins with the 82544; what the 82542 and 82543 do differently comes
//! from the public Intel drivers of their time and from the 82543GC Specification Update, and
//! is said so where it stands.
//!
//! - [`reg`]: register offsets; [`bit`](mod@bit): the bits inside them; [`mii`]: the PHY's registers
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
pub mod mii;
pub mod reg;
pub mod stat;

pub use chip::{Chip, Media};
pub use erratum::Erratum;
