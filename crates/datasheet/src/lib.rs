//! Registers, descriptors, chips and errata of the Intel PRO/1000 family, 82542 to 82546 and 82574.
//!
//! Facts only: nothing here accesses a device. Each item names its section in the *PCI/PCI-X Family of
//! Gigabit Ethernet Controllers Software Developer's Manual* (317453, "SDM"). That manual begins with the
//! 82544. Facts about the 82542 and 82543 come from the public Intel drivers of their time and the 82543GC
//! Specification Update, and say so. Facts about the 82574 come from the *Intel 82574 GbE Controller Family
//! Datasheet* ("82574 data sheet") and its public drivers.
//!
//! - [`reg`]: register offsets; [`bit`](mod@bit): the bits in them; [`mii`]: the registers of the PHY.
//! - [`express`]: the bits that came with PCI Express, on the 82574.
//! - [`stat`]: the statistics registers as a table.
//! - [`desc`]: receive and transmit descriptors as typed views of two 64-bit words.
//! - [`eeprom`]: the word map and the checksum.
//! - [`chip`]: the features of each chip; [`erratum`]: its errata.
//!
//! ```
//! use kpps_datasheet::desc::{RxWriteback, rx_status};
//! use kpps_datasheet::{Chip, Erratum, reg};
//!
//! // The 82542 has its receive tail at another offset.
//! assert_ne!(Chip::I82542.offset(reg::RDT), reg::RDT);
//! assert!(Chip::I82543gc.has(Erratum::ReceiveDelayLockUp));
//! // The second word of a written-back receive descriptor: 60 bytes, DD and EOP.
//! let status = rx_status::DD | rx_status::EOP;
//! let written = RxWriteback { length: 60, status, ..RxWriteback::default() };
//! assert_eq!(RxWriteback::unpack(written.pack()), written);
//! ```
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
