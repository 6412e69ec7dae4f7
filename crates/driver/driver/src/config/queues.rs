//! Several queues, the descriptor formats that they need, and receive side scaling.

use super::Config;
use crate::error::{Error, Invalid};
use kpps_datasheet::{Chip, express::psrctl, reg};

#[cfg(feature = "serde")]
pub(super) const fn one() -> u8 {
    1
}
#[cfg(feature = "serde")]
pub(super) const fn is_one(queues: &u8) -> bool {
    *queues == 1
}

/// The format of receive descriptors. On chips without the others it is [`RxFormat::Legacy`]. On the 82576 it
/// is [`RxFormat::Extended`], because its advanced descriptors are written back in that format.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(deny_unknown_fields, rename_all = "kebab-case")
)]
pub enum RxFormat {
    /// Extended, on chips that have it.
    #[default]
    Best,
    /// The format of the 8254x, which every chip has.
    Legacy,
    /// With the RSS hash, on the 82574.
    Extended,
    /// Packet split, on the 82574: the headers of an IP frame come in a header buffer, as the first part of
    /// the frame.
    Split {
        /// Bytes of a header buffer that the device may fill, a multiple of 128. A frame without such
        /// headers, or with longer ones, fills the header buffer first.
        header_bytes: u16,
    },
}

impl RxFormat {
    #[cfg(feature = "serde")]
    pub(super) fn is_best(&self) -> bool {
        *self == Self::Best
    }
    /// The format in use on `chip`.
    pub(crate) const fn on(self, chip: Chip) -> Self {
        match self {
            _ if chip.has_advanced() => Self::Extended,
            _ if !chip.has_extended_rx() => Self::Legacy,
            Self::Best => Self::Extended,
            other => other,
        }
    }
}

/// Receive side scaling. The low seven bits of the Toeplitz hash of addresses (and TCP ports) choose an entry
/// of the table, which names the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rss {
    /// The random key.
    pub key: [u8; reg::RSSRK_BYTES],
    /// The queue for each value of the hash's low seven bits, modulo the number of queues.
    pub table: [u8; reg::RETA_ENTRIES],
}

impl Rss {
    /// The key of Microsoft's verification suite for RSS; both queues in turn.
    pub const DEFAULT: Self = Self {
        key: [
            0x6d, 0x5a, 0x56, 0xda, 0x25, 0x5b, 0x0e, 0xc2, 0x41, 0x67, 0x25, 0x3d, 0x43, 0xa3, 0x8f, 0xb0,
            0xd0, 0xca, 0x2b, 0xcb, 0xae, 0x7b, 0x30, 0xb4, 0x77, 0xcb, 0x2d, 0xa3, 0x80, 0x30, 0xf2, 0x0c,
            0x6a, 0x42, 0xb7, 0x3b, 0xbe, 0xac, 0x01, 0xfa,
        ],
        table: Self::IN_TURN,
    };
    /// A key with a period of 16 bits: both directions of a flow have the same hash.
    pub const SYMMETRIC: Self = {
        let mut key = [0x5a; reg::RSSRK_BYTES];
        let mut i = 0;
        while i < key.len() {
            key[i] = 0x6d;
            i += 2;
        }
        Self { key, table: Self::IN_TURN }
    };
    /// Both queues in turn.
    const IN_TURN: [u8; reg::RETA_ENTRIES] = {
        let mut table = [0; reg::RETA_ENTRIES];
        let mut i = 1;
        while i < table.len() {
            table[i] = 1;
            i += 2;
        }
        table
    };
}

impl Config {
    /// The checks of [`validate`](Self::validate) that concern queues.
    pub(super) fn validate_queues(&self, chip: Chip) -> Result<(), Error> {
        Invalid::outside("queues", self.queues, (1_u8, chip.queues()))?;
        let format = self.rx_format.on(chip);
        Invalid::unless(self.rss.is_none() || !chip.has_advanced(), "rss: not on the 82576")?;
        Invalid::unless(
            format != RxFormat::Legacy || self.queues == 1,
            "rx_format: several queues need extended descriptors",
        )?;
        if let RxFormat::Split { header_bytes } = format {
            let entry = "rx_format.split.header_bytes";
            Invalid::no_multiple(entry, header_bytes, psrctl::HEADER_UNIT)?;
            Invalid::outside(entry, header_bytes, (psrctl::HEADER_UNIT, psrctl::HEADER_MOST))?;
            // As header split needs.
            Invalid::no_multiple("rx_buffer_bytes", self.rx_buffer_bytes, psrctl::DATA_UNIT)?;
            // A descriptor is 32 bytes, and RDT counts 16.
            Invalid::outside("rx_ring", self.rx_ring, (chip.min_ring(), chip.max_ring() / 2))?;
        }
        Ok(())
    }
}
