//! Ethernet frames from packets that were captured above another link layer (the link types of tcpdump.org).

use super::record::Record;
use crate::Mac;
use crate::build::Flow;
use crate::ethernet::{HEADER_BYTES, TYPE_IPV4, TYPE_IPV6};
use pcap_file::DataLink;
use std::format;
use std::string::{String, ToString};

/// The link types.
const NULL: u32 = 0;
const ETHERNET: u32 = 1;
/// The values of OpenBSD, and of other systems, beside that of files.
const RAW: [u32; 3] = [101, 12, 14];
const LOOP: u32 = 108;
const COOKED: u32 = 113;
const IPV4: u32 = 228;
const IPV6: u32 = 229;
const COOKED_2: u32 = 276;
/// The number of IPv4 as an address family, and those of IPv6 on Linux, Windows, the BSDs and macOS.
const FAMILY_IPV4: u32 = 2;
const FAMILY_IPV6: [u32; 5] = [10, 23, 24, 28, 30];
/// The kind of a cooked packet that was sent to all.
const BROADCAST: u16 = 1;
/// Devices (`ARPHRD_`) whose packets use the protocol field otherwise: netlink, GRE, wireless with its
/// headers, CAN.
const NOT_ETHERNET: [u16; 6] = [824, 778, 801, 802, 803, 280];
/// Protocols of cooked captures below those of Ethernet: frames with a length in place of a type.
const WITH_LENGTH: [u16; 2] = [1, 4];

/// Removes the FCS, and makes the record an Ethernet frame. Returns whether that took a new header.
///
/// # Errors
/// Why there is no such frame.
pub(super) fn to_ethernet(record: &mut Record) -> Result<bool, String> {
    let whole = (record.length as usize).max(record.bytes.len()).saturating_sub(record.fcs);
    record.bytes.truncate(whole);
    record.length = whole as u32;
    let bytes = &record.bytes[..];
    let number = |at: usize| bytes.get(at..at + 2).map(|it| u16::from_be_bytes([it[0], it[1]]));
    let short = || "is cut off within its first headers".to_string();
    let family = |family: u32| match family {
        FAMILY_IPV4 => Ok(TYPE_IPV4),
        other if FAMILY_IPV6.contains(&other) => Ok(TYPE_IPV6),
        other => Err(format!("is of address family {other}, neither IPv4 nor IPv6")),
    };
    let Flow { from_mac: from, to_mac: mut to, .. } = Flow::default();
    let (removed, from, kind) = match record.link {
        ETHERNET => return Ok(false),
        NULL | LOOP => {
            let bytes = bytes.first_chunk().ok_or_else(short)?;
            let big = u32::from_be_bytes(*bytes);
            // In the order of the machine that captured it.
            (4, from, family(if big > 0xffff { big.swap_bytes() } else { big })?)
        }
        IPV4 => (0, from, TYPE_IPV4),
        IPV6 => (0, from, TYPE_IPV6),
        link if RAW.contains(&link) => match bytes.first().map(|byte| byte >> 4) {
            Some(4) => (0, from, TYPE_IPV4),
            Some(6) => (0, from, TYPE_IPV6),
            Some(version) => return Err(format!("is IP of version {version}, neither 4 nor 6")),
            None => return Err(short()),
        },
        link @ (COOKED | COOKED_2) => {
            let (header, device_at, length_at, address_at, kind_at) =
                if link == COOKED { (16, 2, 4, 6, 14) } else { (20, 8, 11, 12, 0) };
            let (device, kind) = number(device_at).zip(number(kind_at)).ok_or_else(short)?;
            let address = bytes.get(address_at..address_at + 8).ok_or_else(short)?;
            let seen_as = if link == COOKED { number(0) } else { Some(bytes[10].into()) };
            if seen_as == Some(BROADCAST) {
                to = Mac::BROADCAST;
            }
            let octets = if link == COOKED { number(length_at) } else { Some(bytes[length_at].into()) };
            let from = match (octets, address.first_chunk()) {
                (Some(6), Some(address)) if *address != [0; 6] => Mac(*address),
                _ => from,
            };
            let kind = match kind {
                _ if NOT_ETHERNET.contains(&device) => {
                    return Err(format!("is of a device of type {device}, not of Ethernet"));
                }
                kind if WITH_LENGTH.contains(&kind) => {
                    u16::try_from(whole.saturating_sub(header)).unwrap_or(u16::MAX).min(1500)
                }
                kind if kind < 0x600 => return Err(format!("is of protocol {kind}, which Ethernet has not")),
                kind => kind,
            };
            (header, from, kind)
        }
        other => {
            return Err(format!(
                "is of another link layer ({:?}), not of Ethernet: capture on an Ethernet interface",
                DataLink::from(other)
            ));
        }
    };
    if bytes.len() < removed {
        return Err(short());
    }
    let mut header = [0; HEADER_BYTES];
    header[..6].copy_from_slice(&to.0);
    header[6..12].copy_from_slice(&from.0);
    header[12..].copy_from_slice(&kind.to_be_bytes());
    record.bytes.splice(..removed, header);
    record.length = (whole - removed + HEADER_BYTES) as u32;
    Ok(true)
}
