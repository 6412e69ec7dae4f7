//! The format pcapng (draft-ietf-opsawg-pcapng), as Wireshark reads it: sections in either order of bytes,
//! each with its interfaces; packets in three kinds of blocks; other blocks are skipped.

use super::record::{Fault, Input, MOST_CAPTURED_BYTES, Order, Record};
use std::format;
use std::string::ToString;
use std::vec::Vec;

/// The first bytes of a section, in any order of bytes.
pub(super) const SECTION: [u8; 4] = [0x0a, 0x0d, 0x0d, 0x0a];
const BYTE_ORDER: u32 = 0x1a2b_3c4d;
/// Kinds of blocks.
const INTERFACE: u32 = 1;
const OBSOLETE_PACKET: u32 = 2;
const SIMPLE_PACKET: u32 = 3;
const ENHANCED_PACKET: u32 = 6;
/// The longest block in bytes, as in Wireshark: more is a sign of damage.
const LONGEST: u32 = 134_348_832;
/// Bytes of a block around its contents.
const AROUND: u32 = 12;
/// Bytes before the data of a packet's block, with times and without.
const PACKET: usize = 20;
const SIMPLE: usize = 4;

/// An interface of a section.
#[derive(Clone, Copy, Debug)]
struct Interface {
    link: u32,
    /// The most bytes captured of a frame; 0 if there is no limit.
    snap: u32,
    /// Units of time per second. 0 stands for more than any number holds: no time passes.
    units: u128,
    offset_s: i64,
    fcs: usize,
}

/// A pcapng file.
#[derive(Debug)]
pub(super) struct Blocks {
    order: Order,
    interfaces: Vec<Interface>,
}

impl Blocks {
    /// Reads the first section's block behind its first four bytes, [`SECTION`].
    pub fn open(input: &mut Input<'_>) -> Result<Self, Fault> {
        let mut file = Self { order: Order::Little, interfaces: Vec::new() };
        let length = input.array()?;
        file.section(input, length)?;
        Ok(file)
    }

    /// Begins a section behind the length of its block.
    fn section(&mut self, input: &mut Input<'_>, length: [u8; 4]) -> Result<(), Fault> {
        let magic: [u8; 4] = input.array()?;
        let order = [Order::Little, Order::Big].into_iter().find(|it| it.u32(&magic, 0) == BYTE_ORDER);
        self.order = order.ok_or_else(|| Fault::Broken("a section's order of bytes is unknown".into()))?;
        self.interfaces.clear();
        let body = self.contents(input, length, 4)?;
        match (self.order.u16(&body, 0), self.order.u16(&body, 2)) {
            // Some writers call the same format 1.2.
            (1, 0 | 2) if body.len() >= 12 => Ok(()),
            (major, minor) => Err(Fault::Broken(format!("version {major}.{minor} of pcapng is unknown"))),
        }
    }

    /// The next packet; `None` at the end.
    pub fn next(&mut self, input: &mut Input<'_>) -> Result<Option<Record>, Fault> {
        loop {
            let Some(kind) = input.begin()? else { return Ok(None) };
            let length: [u8; 4] = input.array()?;
            if kind == SECTION {
                self.section(input, length)?;
                continue;
            }
            match self.order.u32(&kind, 0) {
                INTERFACE => {
                    let body = self.contents(input, length, 0)?;
                    let interface = self.interface(&body)?;
                    self.interfaces.push(interface);
                }
                ENHANCED_PACKET => {
                    let body = self.contents(input, length, 0)?;
                    return self.packet(self.order.u32(&body, 0), &body).map(Some);
                }
                OBSOLETE_PACKET => {
                    let body = self.contents(input, length, 0)?;
                    return self.packet(self.order.u16(&body, 0).into(), &body).map(Some);
                }
                SIMPLE_PACKET => {
                    let body = self.contents(input, length, 0)?;
                    return self.simple(&body).map(Some);
                }
                _ => {
                    let bytes = self.length(length)?;
                    input.skip(bytes)?;
                    self.end(input, bytes)?;
                }
            }
        }
    }

    /// The length of a block's contents. Writers that forget to count the padding are forgiven, as Wireshark
    /// does.
    fn length(&self, length: [u8; 4]) -> Result<u32, Fault> {
        let length = self.order.u32(&length, 0);
        let whole = length.checked_next_multiple_of(4).filter(|whole| (AROUND..=LONGEST).contains(whole));
        whole.map(|whole| whole - AROUND).ok_or_else(|| Fault::Broken(format!("a block has {length} bytes")))
    }

    /// The contents of a block. `read` bytes of it have been read.
    fn contents(&self, input: &mut Input<'_>, length: [u8; 4], read: u32) -> Result<Vec<u8>, Fault> {
        let bytes = self.length(length)?;
        let rest = bytes.checked_sub(read).ok_or_else(|| Fault::Broken("a section is too short".into()))?;
        let body = input.bytes(rest)?;
        self.end(input, bytes)?;
        Ok(body)
    }

    /// A block ends with its length again.
    fn end(&self, input: &mut Input<'_>, bytes: u32) -> Result<(), Fault> {
        let again = self.length(input.array()?);
        match again {
            Ok(again) if again == bytes => Ok(()),
            _ => Err(Fault::Broken("a block's two lengths differ".to_string())),
        }
    }

    fn interface(&self, body: &[u8]) -> Result<Interface, Fault> {
        let options =
            body.get(8..).ok_or_else(|| Fault::Broken("an interface's block is too short".into()))?;
        let options = self.options(options)?;
        // Of several equal options Wireshark takes the first. One of another length is none.
        let option = |code, bytes| {
            options.iter().find(|(it, value)| *it == code && value.len() == bytes).map(|(_, value)| *value)
        };
        let units = match option(9, 1) {
            None => 1_000_000,
            Some(&[code]) if code & 0x80 != 0 => 1 << (code & 0x7f),
            Some(code) => 10_u128.checked_pow(code[0].into()).unwrap_or(0),
        };
        Ok(Interface {
            link: self.order.u16(body, 0).into(),
            snap: self.order.u32(body, 4),
            units,
            offset_s: option(14, 8).map_or(0, |value| self.order.i64(value, 0)),
            // In bits, says the draft; some write bytes.
            fcs: option(13, 1).map_or(0, |value| match usize::from(value[0]) {
                bits if bits % 8 == 0 => bits / 8,
                bytes => bytes,
            }),
        })
    }

    /// The options at the end of a block, by their codes. The option that ends them may be missing.
    fn options<'b>(&self, mut bytes: &'b [u8]) -> Result<Vec<(u16, &'b [u8])>, Fault> {
        let mut options = Vec::new();
        while bytes.len() >= 4 {
            let (code, length) = (self.order.u16(bytes, 0), usize::from(self.order.u16(bytes, 2)));
            if code == 0 {
                break;
            }
            let value = bytes.get(4..4 + length);
            let value = value.ok_or_else(|| Fault::Broken("an option ends behind its block".into()))?;
            options.push((code, value));
            bytes = bytes.get(4 + length.next_multiple_of(4)..).unwrap_or_default();
        }
        Ok(options)
    }

    /// A packet with the time and the lengths at the same offsets: an enhanced or an obsolete one.
    fn packet(&self, interface: u32, body: &[u8]) -> Result<Record, Fault> {
        let interface = *self
            .interfaces
            .get(interface as usize)
            .ok_or_else(|| Fault::Broken(format!("there is no interface {interface} in its section")))?;
        let number = |at| self.order.u32(body, at);
        let (time, captured) = (u64::from(number(4)) << 32 | u64::from(number(8)), number(12));
        let (bytes, rest) = data(body, PACKET, captured)?;
        let since = (u128::from(time) * 1_000_000_000).checked_div(interface.units).unwrap_or(0);
        let flags = self.options(rest)?.into_iter().find(|(code, value)| *code == 2 && value.len() == 4);
        // The FCS' length in bytes is in the bits from 5 on; 0 is unknown.
        let fcs = flags.map(|(_, flags)| (self.order.u32(flags, 0) >> 5 & 0xf) as usize);
        Ok(Record {
            at_ns: Some(since as i128 + i128::from(interface.offset_s) * 1_000_000_000),
            link: interface.link,
            fcs: fcs.filter(|bytes| *bytes > 0).unwrap_or(interface.fcs),
            bytes: bytes.to_vec(),
            length: number(16),
        })
    }

    /// A packet of the first interface without a time.
    fn simple(&self, body: &[u8]) -> Result<Record, Fault> {
        let interface = self.interfaces.first();
        let Interface { link, snap, fcs, .. } =
            *interface.ok_or_else(|| Fault::Broken("its section has no interface".into()))?;
        let length = self.order.u32(body, 0);
        let captured = if snap == 0 { length } else { length.min(snap) };
        let (bytes, _) = data(body, SIMPLE, captured)?;
        Ok(Record { at_ns: None, link, fcs, bytes: bytes.to_vec(), length })
    }
}

/// The data of a packet's block, and its options.
fn data(body: &[u8], at: usize, captured: u32) -> Result<(&[u8], &[u8]), Fault> {
    if captured > MOST_CAPTURED_BYTES {
        return Err(Fault::Broken(format!(
            "its captured length of {captured} bytes is above {MOST_CAPTURED_BYTES}"
        )));
    }
    let captured = captured as usize;
    let bytes = body.get(at..).and_then(|data| data.get(..captured));
    let bytes = bytes.ok_or_else(|| Fault::Broken("its block is too short".into()))?;
    Ok((bytes, body.get(at + captured.next_multiple_of(4)..).unwrap_or_default()))
}
