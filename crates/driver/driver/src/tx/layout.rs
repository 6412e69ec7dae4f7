//! Layouts of transmit descriptors: those of the 8254x, and the advanced ones of the 82576.
//!
//! They differ in the second word of a frame in one descriptor ([`Layout`]), and in how a frame with offloads
//! is described ([`Pattern`]). EOP, RS and DD are at the same places. The packet paths are generic over the
//! layout, so that none pays for the other.

use super::{Abilities, FIFO_SPARE_BYTES, Refusal};
use crate::offload::{Checksums, Offload, Segmentation, Sum, TxMeta};
use kpps_datasheet::desc::{
    self,
    advanced::{self, Context, Offloads},
    tx_cmd,
};

/// The second word of a frame in one descriptor.
pub(super) trait Layout {
    /// That of a frame of `bytes` bytes, without a request for a report.
    fn whole(bytes: u16) -> u64;
}

/// The legacy descriptor of the 8254x and the 82574.
pub(super) struct Legacy;

impl Layout for Legacy {
    #[inline]
    fn whole(bytes: u16) -> u64 {
        const WHOLE: u64 = ((tx_cmd::EOP | tx_cmd::IFCS) as u64) << 24;
        u64::from(bytes) | WHOLE
    }
}

/// The advanced data descriptor.
pub(super) struct Advanced;

impl Layout for Advanced {
    #[inline]
    fn whole(bytes: u16) -> u64 {
        advanced::data(bytes) | advanced::length(bytes.into()) | desc::TX_EOP
    }
}

/// The description of a frame of several descriptors, or with offloads.
pub(super) struct Pattern {
    /// Format, command and options of each data descriptor, in place in the second word.
    pub(super) bits: u64,
    /// The most bytes in one descriptor.
    pub(super) limit: u32,
    /// The context descriptor that must be in force.
    pub(super) context: Option<[u64; 2]>,
    /// The device keeps the context, so that the next frame with an equal one needs none.
    pub(super) keeps: bool,
}

impl Pattern {
    /// For `meta` on a chip with these abilities, or the reason for a refusal.
    pub(super) fn new(meta: &TxMeta, abilities: Abilities) -> Result<Self, Refusal> {
        let lacks = match meta.offload {
            Offload::None => false,
            Offload::Checksum(_) => !abilities.checksum,
            Offload::Segment(_) => !abilities.segment,
        };
        if lacks || meta.vlan.is_some() && !abilities.vlan {
            return Err(Refusal::Unsupported);
        }
        if let Offload::Segment(s) = meta.offload {
            let frame = u32::from(s.mss) + u32::from(s.header_bytes);
            let most = if abilities.advanced { advanced::PAYLEN_MOST } else { desc::DATA_MAX_BYTES };
            if s.mss == 0
                || s.header_bytes == 0
                || s.payload_bytes == 0
                || s.payload_bytes > most
                || frame + FIFO_SPARE_BYTES > abilities.fifo_bytes
            {
                return Err(Refusal::Invalid);
            }
        }
        if abilities.advanced { Self::advanced(meta) } else { Ok(Self::legacy(meta)) }
    }

    /// With the descriptors of the 8254x (SDM 3.3.3, 3.3.6, 3.3.7).
    fn legacy(meta: &TxMeta) -> Self {
        const DATA: u64 = 1 << 20 | ((tx_cmd::DEXT | tx_cmd::IFCS) as u64) << 24;
        const LEGACY: u64 = (tx_cmd::IFCS as u64) << 24;
        let vlan = meta.vlan.map_or(0, |tag| (tx_cmd::VLE as u64) << 24 | u64::from(tag) << 48);
        let (bits, limit, context, keeps) = match meta.offload {
            Offload::None => (LEGACY, desc::LEGACY_MAX_BYTES, None, true),
            Offload::Checksum(sums) => {
                let bits = DATA | u64::from(sums.options()) << 40;
                (bits, desc::LEGACY_MAX_BYTES, Some(sums.context().pack()), true)
            }
            Offload::Segment(s) => (
                DATA | (tx_cmd::TSE as u64) << 24 | u64::from(s.options()) << 40,
                // A buffer is at most four segments long (erratum).
                4 * u32::from(s.mss),
                Some(s.context().pack()),
                false,
            ),
        };
        Self { bits: bits | vlan, limit, context, keeps }
    }

    /// With advanced descriptors. The chip finds checksums by the lengths of the headers, so it refuses sums
    /// over other bytes than those of IP, TCP and UDP.
    fn advanced(meta: &TxMeta) -> Result<Self, Refusal> {
        let mut offloads = Offloads { vlan: meta.vlan.is_some(), ..Offloads::default() };
        let mut context = match meta.offload {
            Offload::None => Context { mac_bytes: MAC_BYTES, ..Context::default() },
            Offload::Checksum(Checksums { ip, transport }) => {
                (offloads.ip, offloads.transport) = (ip.is_some(), transport.is_some());
                let found = headers(ip, transport).ok_or(Refusal::Unsupported)?;
                if ip.is_some_and(|sum| !is_ipv4_sum(sum, found.ip_bytes)) {
                    return Err(Refusal::Unsupported);
                }
                found
            }
            Offload::Segment(Segmentation { ip, transport, is_ipv4, is_tcp, header_bytes, mss, .. }) => {
                offloads = Offloads { ip: is_ipv4, transport: true, segment: true, ..offloads };
                let found = headers(Some(ip), Some(transport)).ok_or(Refusal::Unsupported)?;
                let transport_bytes = header_bytes.checked_sub(transport.start).ok_or(Refusal::Invalid)?;
                if found.is_tcp != is_tcp || is_ipv4 && !is_ipv4_sum(ip, found.ip_bytes) {
                    return Err(Refusal::Unsupported);
                }
                Context { is_ipv4, transport_bytes, mss, ..found }
            }
        };
        context.vlan = meta.vlan.unwrap_or(0);
        Ok(Self {
            bits: advanced::data(0) | offloads.pack(),
            limit: desc::LEGACY_MAX_BYTES,
            context: (offloads != Offloads::default()).then(|| context.pack()),
            keeps: true,
        })
    }
}

/// The offset of the checksum of IPv4 in its header, and the lengths of such headers, in bytes.
const IP_FIELD: u8 = 10;
const IP_BYTES: core::ops::RangeInclusive<u16> = 20..=60;
/// The most bytes of a MAC header, and of an IP header, that a context can have.
const MOST_MAC_BYTES: u8 = 0x7F;
const MOST_IP_BYTES: u16 = 0x1FF;
/// Offsets of the checksums of TCP and UDP in their headers.
const TCP_FIELD: u8 = 16;
const UDP_FIELD: u8 = 6;
/// Bytes of a MAC header without tag.
const MAC_BYTES: u8 = 14;

/// The headers in which these are the checksums; `None` if there are none such.
fn headers(ip: Option<Sum>, transport: Option<Sum>) -> Option<Context> {
    let mac_bytes = ip.map_or(MAC_BYTES, |sum| sum.start);
    // Behind the IP header.
    let end = match (ip, transport) {
        (_, Some(sum)) if sum.end == 0 => sum.start.into(),
        (Some(sum), None) if sum.end > 0 => sum.end.checked_add(1)?,
        _ => return None,
    };
    let is_tcp = match transport.map(|sum| sum.field.checked_sub(sum.start)) {
        None | Some(Some(UDP_FIELD)) => false,
        Some(Some(TCP_FIELD)) => true,
        Some(_) => return None,
    };
    let ip_bytes = end.checked_sub(mac_bytes.into())?;
    if mac_bytes > MOST_MAC_BYTES || ip_bytes > MOST_IP_BYTES {
        return None;
    }
    Some(Context { mac_bytes, ip_bytes, is_ipv4: ip.is_some(), is_tcp, ..Context::default() })
}

/// Whether this is the checksum of an IPv4 header with this number of bytes.
fn is_ipv4_sum(sum: Sum, ip_bytes: u16) -> bool {
    sum.field.checked_sub(sum.start) == Some(IP_FIELD) && IP_BYTES.contains(&ip_bytes)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    const IP: Sum = Sum { start: 14, field: 24, end: 33 };
    const TCP: Sum = Sum { start: 34, field: 50, end: 0 };

    #[test]
    fn a_frame_in_one_descriptor() {
        assert_eq!(Legacy::whole(60), 0x0300_003C);
        assert_eq!(Advanced::whole(60), 0x000F_0000_2330_003C);
    }

    #[test]
    fn headers_by_the_places_of_checksums() {
        let context = headers(Some(IP), Some(TCP)).unwrap();
        assert_eq!(
            (context.mac_bytes, context.ip_bytes, context.is_ipv4, context.is_tcp),
            (14, 20, true, true)
        );
        let udp6 = headers(None, Some(Sum { start: 54, field: 60, end: 0 })).unwrap();
        assert_eq!((udp6.mac_bytes, udp6.ip_bytes, udp6.is_ipv4, udp6.is_tcp), (14, 40, false, false));
        assert_eq!(headers(Some(IP), None).unwrap().ip_bytes, 20);
        let elsewhere = [Sum { field: 44, ..TCP }, Sum { field: 33, ..TCP }, Sum { end: 80, ..TCP }];
        for sum in elsewhere {
            assert_eq!(headers(Some(IP), Some(sum)), None, "{sum:?}");
        }
        assert_eq!(headers(Some(IP), Some(Sum { start: 10, field: 26, end: 0 })), None);
        assert_eq!(headers(Some(Sum { end: u16::MAX, ..IP }), None), None);
        assert!(is_ipv4_sum(IP, 20) && !is_ipv4_sum(Sum { field: 20, ..IP }, 20) && !is_ipv4_sum(IP, 7));
        let far = Sum { start: 200, field: 210, end: 219 };
        assert_eq!(headers(Some(far), None), None, "a context has no such length");
        assert_eq!(headers(None, None), None);
    }

    #[test]
    fn a_tag_needs_a_context_of_advanced_descriptors() {
        let all =
            Abilities { checksum: true, segment: true, vlan: true, advanced: false, fifo_bytes: 40_960 };
        let tagged = TxMeta { vlan: Some(5), offload: Offload::None };
        assert!(Pattern::new(&tagged, all).unwrap().context.is_none());
        let pattern = Pattern::new(&tagged, Abilities { advanced: true, ..all }).unwrap();
        assert_eq!(pattern.context.unwrap()[0], 5 << 16 | 14 << 9);
        let plain = Pattern::new(&TxMeta::default(), Abilities { advanced: true, ..all }).unwrap();
        assert!(plain.context.is_none());
    }
}
