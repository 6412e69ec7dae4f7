//! The classic format, as libpcap reads it (pcap-savefile(5), `sf-pcap.c`): times in µs or ns, numbers in
//! either order, the longer records of Kuznetzov's patch, and the lengths of old versions.

use super::record::{Fault, Input, MOST_CAPTURED_BYTES, Order, Record};
use std::format;

/// Times in µs, in ns, and in µs with eight more bytes in each record's header.
const MICROSECONDS: u32 = 0xa1b2_c3d4;
const NANOSECONDS: u32 = 0xa1b2_3c4d;
const KUZNETZOV: u32 = 0xa1b2_cd34;

/// Which of a record's two lengths is the captured one.
#[derive(Clone, Copy, Debug)]
enum Lengths {
    /// The first one.
    First,
    /// The second one, before version 2.3.
    Second,
    /// The smaller one, in version 2.3.
    Smaller,
}

/// A classic file behind its header.
#[derive(Debug)]
pub(super) struct Classic {
    order: Order,
    unit_ns: u32,
    /// Further bytes in the header of a record.
    more: u32,
    lengths: Lengths,
    link: u32,
    fcs: usize,
    snap: u32,
}

impl Classic {
    /// Reads the header behind its first four bytes; `None` if these begin no classic file.
    pub fn open(magic: [u8; 4], input: &mut Input<'_>) -> Result<Option<Self>, Fault> {
        let known = [Order::Little, Order::Big].into_iter().find_map(|order| {
            let (unit_ns, more) = match order.u32(&magic, 0) {
                MICROSECONDS => (1000, 0),
                NANOSECONDS => (1, 0),
                KUZNETZOV => (1000, 8),
                _ => return None,
            };
            Some((order, unit_ns, more))
        });
        let Some((order, unit_ns, more)) = known else { return Ok(None) };
        let header: [u8; 20] = input.array()?;
        let lengths = match (order.u16(&header, 0), order.u16(&header, 2)) {
            (2, 4) => Lengths::First,
            (2, 3) => Lengths::Smaller,
            // 543.0 is that of DG/UX.
            (2, 0..=2) | (543, 0) => Lengths::Second,
            (major, minor) => {
                return Err(Fault::Broken(format!("version {major}.{minor} of the format is unknown")));
            }
        };
        let snap = match order.u32(&header, 12) {
            0 => MOST_CAPTURED_BYTES,
            snap => snap.min(MOST_CAPTURED_BYTES),
        };
        let link = order.u32(&header, 16);
        // The upper six bits: whether the FCS' length is known, and that length in units of two bytes.
        let fcs = if link & 0x0400_0000 != 0 { 2 * (link >> 28) as usize } else { 0 };
        Ok(Some(Self { order, unit_ns, more, lengths, link: link & 0x03ff_ffff, fcs, snap }))
    }

    /// The next record; `None` at the end.
    pub fn next(&mut self, input: &mut Input<'_>) -> Result<Option<Record>, Fault> {
        let Some(header) = input.begin::<16>()? else { return Ok(None) };
        input.skip(self.more)?;
        let number = |at| self.order.u32(&header, at);
        let (first, second) = (number(8), number(12));
        let (captured, length) = match self.lengths {
            Lengths::Second => (second, first),
            Lengths::Smaller if first > second => (second, first),
            Lengths::First | Lengths::Smaller => (first, second),
        };
        if captured > MOST_CAPTURED_BYTES {
            return Err(Fault::Broken(format!(
                "its captured length of {captured} bytes is above {MOST_CAPTURED_BYTES}"
            )));
        }
        // Of a frame that is longer than the file's snapshot length libpcap gives that length.
        let bytes = input.bytes(captured.min(self.snap))?;
        input.skip(captured - captured.min(self.snap))?;
        let at_ns = i128::from(number(0)) * 1_000_000_000 + i128::from(number(4)) * i128::from(self.unit_ns);
        Ok(Some(Record { at_ns: Some(at_ns), link: self.link, fcs: self.fcs, bytes, length }))
    }
}
