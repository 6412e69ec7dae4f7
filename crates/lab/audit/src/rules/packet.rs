//! The transmit descriptors of a frame (SDM 3.3.3, 3.3.7).

use super::rule::Rule;
use kpps_datasheet::Chip;
use kpps_datasheet::bit::ctrl;
use kpps_datasheet::desc::{LEGACY_MAX_BYTES, Tx, tx_cmd, tx_status};

/// The least bytes of a frame before padding (SDM 3.3.3), and on the 82574 (public drivers).
const LEAST_BYTES: u64 = 48;
const LEAST_EXPRESS_BYTES: u64 = 17;

/// The settings by which a descriptor is judged.
#[derive(Clone, Copy, Debug)]
pub(super) struct Setting {
    pub(super) chip: Chip,
    pub(super) ctrl: u32,
    pub(super) tidv: u32,
}

/// A frame of which descriptors are being fetched.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Packet {
    is_open: bool,
    bytes: u64,
    checksum_start: u8,
    is_segmented: bool,
}

/// A descriptor that was judged.
#[derive(Clone, Debug, Default)]
pub(super) struct Judged {
    /// The broken rules, each with a sentence.
    pub(super) broken: Vec<(Rule, String)>,
    /// The address and length of the data.
    pub(super) data: u64,
    pub(super) bytes: u64,
    /// The card reads all of the data.
    pub(super) is_read: bool,
    /// It is a part of a frame, not a context.
    pub(super) is_part: bool,
    /// It ends a frame.
    pub(super) ends: bool,
    /// It ends a frame, and software has to append the FCS.
    pub(super) is_unsealed: bool,
    /// A report is requested.
    pub(super) reports: bool,
}

impl Packet {
    /// The next descriptor.
    pub(super) fn next(&mut self, words: [u64; 2], setting: &Setting) -> Judged {
        // RPS is of the 82544 (SDM 3.3.3.1); the public drivers also use it on the 82543.
        let has_rps = matches!(setting.chip, Chip::I82542 | Chip::I82543gc | Chip::I82544);
        let report = tx_cmd::RS | if has_rps { tx_cmd::RPS } else { 0 };
        let mut judged = Judged { reports: words[1] >> 24 & u64::from(report) != 0, ..Judged::default() };
        let (buffer, length, cmd, status, is_legacy) = match Tx::unpack(words) {
            Ok(Tx::Context(_)) => return judged,
            Err(kind) => {
                let sentence =
                    format!("The driver handed over a descriptor of type (DTYP) {kind}, which is reserved.");
                judged.broken.push((Rule::DescriptorReserved, sentence));
                return judged;
            }
            Ok(Tx::Legacy(it)) => (it.buffer, u64::from(it.length), it.cmd, it.status, true),
            Ok(Tx::Data(it)) => (it.buffer, u64::from(it.length), it.cmd, it.status, false),
        };
        let is_set = |bit: u8| cmd & bit != 0;
        let mut broken = |rule: Rule, sentence: String| judged.broken.push((rule, sentence));
        if !self.is_open {
            let checksum_start = (words[1] >> 40) as u8;
            let is_segmented = !is_legacy && is_set(tx_cmd::TSE);
            *self = Self { is_open: true, bytes: 0, checksum_start, is_segmented };
        }
        let before = self.bytes;
        self.bytes = self.bytes.saturating_add(length);

        if length == 0 || buffer == 0 {
            let what = if length == 0 { "length" } else { "address" };
            broken(
                Rule::TransmitEmpty,
                format!("The driver handed over a transmit descriptor with the {what} 0."),
            );
        }
        let is_express = setting.chip.is_pci_express();
        let reserved = match is_legacy {
            true => words[1] >> 36 & 0xF,
            // The reserved status bits, and those of POPTS (SDM 3.3.7, 3.3.7.3).
            false => words[1] >> 36 & 0xFCF,
        };
        // Bit 36 asks the 82574 for a time stamp (public drivers).
        let reserved = if is_express { reserved & !1 } else { reserved };
        if reserved != 0 || !has_rps && is_set(tx_cmd::RPS) {
            let which = if reserved != 0 { "reserved bits" } else { "RPS (bit 4 of the command)" };
            let sentence =
                format!("The driver set {which} in a transmit descriptor; the {} has none.", setting.chip);
            broken(Rule::DescriptorReserved, sentence);
        }
        if judged.reports && status & tx_status::DD != 0 {
            let sentence = "The driver handed over a transmit descriptor in which DD is already set.".into();
            broken(Rule::StatusSet, sentence);
        }
        if judged.reports && is_set(tx_cmd::IDE) && setting.tidv & 0xFFFF == 0 && !is_express {
            let sentence = "The driver set IDE in a transmit descriptor while TIDV is 0.".into();
            broken(Rule::TidvZero, sentence);
        }
        let most = u64::from(LEGACY_MAX_BYTES);
        if !self.is_segmented && self.bytes > most && before <= most {
            let sentence = format!(
                "The driver handed over a frame of {} bytes or more; this descriptor has {length} of them.",
                self.bytes
            );
            broken(Rule::TransmitLong, sentence);
        }
        let ends = is_set(tx_cmd::EOP);
        if ends && !self.is_segmented {
            let bytes = self.bytes;
            let least = if is_express { LEAST_EXPRESS_BYTES } else { LEAST_BYTES };
            if (1..least).contains(&bytes) {
                let sentence = format!(
                    "The driver handed over a frame of {bytes} bytes; {least} are the least before padding."
                );
                broken(Rule::TransmitShort, sentence);
            }
            let (start, offset) = (u64::from(self.checksum_start), words[1] >> 16 & 0xFF);
            if is_legacy && is_set(tx_cmd::IC) && (start >= bytes || offset + 1 >= bytes) {
                let sentence = format!(
                    "The driver set IC with CSS {start} and CSO {offset} for a frame of {bytes} bytes."
                );
                broken(Rule::ChecksumRange, sentence);
            }
        }
        let tagged = is_set(tx_cmd::VLE) && setting.ctrl & ctrl::VME != 0;
        judged.is_unsealed = ends && !is_set(tx_cmd::IFCS) && !tagged;
        (judged.data, judged.bytes) = (buffer, if buffer == 0 { 0 } else { length });
        judged.is_read = judged.bytes > 0 && !self.is_segmented && self.bytes <= most;
        judged.is_part = true;
        judged.ends = ends;
        if ends {
            *self = Self::default();
        }
        judged
    }
}
