#![doc = include_str!("../README.md")]
//!
//! # Sources
//!
//! Sections are those of the *PCI/PCI-X Family of Gigabit Ethernet Controllers Software Developer's Manual*
//! (317453, "SDM"). That manual begins with the 82544. Facts about the 82542 and 82543 come from the public
//! Intel drivers of their time and the 82543GC Specification Update, and say so. Facts about the 82574 come
//! from the *Intel 82574 GbE Controller Family Datasheet* ("82574 data sheet") and its public drivers; those
//! about the 82576 from its public drivers (Linux's igb, DPDK's e1000) and QEMU's igb.
//!
//! # Modules
//!
//! - [`reg`]: register offsets; [`bit`](mod@bit): the bits in them; [`mii`]: the registers of the PHY.
//! - [`express`]: the bits that came with PCI Express, on the 82574.
//! - [`igb`]: the registers and bits of the 82576.
//! - [`stat`]: the statistics registers as a table.
//! - [`desc`]: receive and transmit descriptors as typed views of two 64-bit words.
//! - [`eeprom`]: the word map and the checksum.
//! - [`chip`]: the features of each chip; [`erratum`]: its errata.
#![no_std]
#![forbid(unsafe_code)]

pub mod bit;
pub mod chip;
pub mod desc;
pub mod eeprom;
pub mod erratum;
pub mod express;
pub mod igb;
pub mod mii;
pub mod reg;
pub mod stat;

pub use chip::{Chip, Media};
pub use erratum::Erratum;
