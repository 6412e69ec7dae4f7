//! Internet checksums: verified on receive (SDM 3.2.9), inserted on transmit (SDM 3.6).

use kpps_datasheet::Chip;
use kpps_datasheet::bit::rxcsum;
use kpps_datasheet::desc::{rx_error, rx_status};

const IPV4: u16 = 0x0800;
const IPV6: u16 = 0x86DD;
const TCP: u8 = 6;
const UDP: u8 = 17;
/// IPv6 extension headers that the card parses (SDM 3.2.9.4).
const HOP_BY_HOP: u8 = 0;
const ROUTING: u8 = 43;
const DESTINATION: u8 = 60;
const IPV6_HEADER_BYTES: usize = 40;
/// The longest extension header that the card parses, in bytes (SDM 3.2.9.4).
const LONGEST_EXTENSION_BYTES: usize = 64;

/// The one's complement sum of big-endian 16-bit words, an odd last byte padded with 0.
#[inline]
pub(crate) fn sum(bytes: &[u8]) -> u16 {
    // The sum of little-endian words is the byte-swapped sum of big-endian ones (RFC 1071).
    let mut total = 0u64;
    let mut quads = bytes.chunks_exact(4);
    for q in &mut quads {
        total += u64::from(u32::from_le_bytes([q[0], q[1], q[2], q[3]]));
    }
    let mut last = [0; 4];
    let rest = quads.remainder();
    last[..rest.len()].copy_from_slice(rest);
    total += u64::from(u32::from_le_bytes(last));
    fold(total).swap_bytes()
}

#[inline]
fn fold(mut total: u64) -> u16 {
    total = (total & 0xFFFF_FFFF) + (total >> 32);
    total = (total & 0xFFFF) + (total >> 16);
    total = (total & 0xFFFF) + (total >> 16);
    total = (total & 0xFFFF) + (total >> 16);
    total as u16
}

#[inline]
fn add(a: u16, b: u16) -> u16 {
    fold(u64::from(a) + u64::from(b))
}

/// The card's checksum results for a received frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Verdict {
    /// The packet checksum of the descriptor.
    pub(crate) packet: u16,
    /// IXSM, IPCS, TCPCS.
    pub(crate) status: u8,
    /// IPE, TCPE.
    pub(crate) errors: u8,
}

/// Checks a received frame in its form in memory, whose last `fcs_bytes` are its FCS, with RXCSUM =
/// `control`. Only the packet checksum covers the FCS (SDM 3.2.9).
#[inline]
pub(crate) fn receive(frame: &[u8], fcs_bytes: usize, control: u32, vet: u32, chip: Chip) -> Verdict {
    let mut packet = 0;
    // The field is reserved on the 82544 (SDM table 3-1), and assumed so on the 82543.
    if chip > Chip::I82544 {
        let start = (control & rxcsum::PCSS_MASK) as usize;
        packet = !sum(frame.get(start..).unwrap_or(&[]));
    }
    let mut checked = Checked::default();
    if control & (rxcsum::IPOFLD | rxcsum::TUOFLD) != 0 {
        let packet = &frame[..frame.len().saturating_sub(fcs_bytes)];
        checked = network(packet, control, vet, chip).unwrap_or_default();
    }
    let status = if checked.status == 0 { rx_status::IXSM } else { checked.status };
    Verdict { packet, status, errors: checked.errors }
}

/// Status and errors of the checksums that were checked. Functions return `None` where a frame is shorter
/// than its headers say, or has no such header: then this checksum is not checked.
#[derive(Clone, Copy, Debug, Default)]
struct Checked {
    status: u8,
    errors: u8,
}

#[inline]
fn word(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes([*bytes.get(at)?, *bytes.get(at + 1)?]))
}

#[inline]
fn network(frame: &[u8], control: u32, vet: u32, chip: Chip) -> Option<Checked> {
    let mut at = 12;
    let mut kind = word(frame, at)?;
    if u32::from(kind) == vet {
        at += 4;
        kind = word(frame, at)?;
    }
    at += 2;
    if kind <= 1500 && frame.get(at..at + 6)? == [0xAA, 0xAA, 3, 0, 0, 0] {
        // SNAP (SDM 3.2.9.2).
        kind = word(frame, at + 6)?;
        at += 8;
    }
    let packet = frame.get(at..)?;
    match kind {
        IPV4 if control & rxcsum::IPOFLD != 0 => ipv4(packet, control),
        // The 82574 has no bit for it: TUOFLD is enough (so does QEMU's).
        IPV6 if chip.is_pci_express() => ipv6(packet, control),
        IPV6 if control & rxcsum::IPV6OFL != 0 && chip > Chip::I82544 => ipv6(packet, control),
        _ => None,
    }
}

#[inline]
fn ipv4(packet: &[u8], control: u32) -> Option<Checked> {
    let first = *packet.first()?;
    let header_bytes = usize::from(first & 15) * 4;
    if first >> 4 != 4 || header_bytes < 20 {
        return None;
    }
    let header = packet.get(..header_bytes)?;
    let errors = if sum(header) == 0xFFFF { 0 } else { rx_error::IPE };
    let whole = control & rxcsum::TUOFLD != 0 && word(header, 6)? & 0x3FFF == 0;
    let payload = packet.get(header_bytes..usize::from(word(header, 2)?)).filter(|_| whole);
    let above = payload.and_then(|payload| transport(payload, header[9], sum(&header[12..20])));
    let above = above.unwrap_or_default();
    Some(Checked { status: rx_status::IPCS | above.status, errors: errors | above.errors })
}

fn ipv6(packet: &[u8], control: u32) -> Option<Checked> {
    if packet.first()? >> 4 != 6 || control & rxcsum::TUOFLD == 0 {
        return None;
    }
    let length = usize::from(word(packet, 4)?);
    let addresses = packet.get(8..IPV6_HEADER_BYTES)?;
    let mut payload = packet.get(IPV6_HEADER_BYTES..IPV6_HEADER_BYTES + length)?;
    let mut next = packet[6];
    while matches!(next, HOP_BY_HOP | ROUTING | DESTINATION) {
        let bytes = 8 + 8 * usize::from(*payload.get(1)?);
        if bytes > LONGEST_EXTENSION_BYTES {
            return None;
        }
        next = payload[0];
        payload = payload.get(bytes..)?;
    }
    transport(payload, next, sum(addresses))
}

fn transport(payload: &[u8], protocol: u8, addresses: u16) -> Option<Checked> {
    let at = match protocol {
        TCP => 16,
        UDP => 6,
        _ => return None,
    };
    let field = word(payload, at)?;
    if protocol == UDP && field == 0 {
        // The sender computed no checksum.
        return None;
    }
    let pseudo = add(addresses, add(u16::from(protocol), payload.len() as u16));
    let errors = if add(pseudo, sum(payload)) == 0xFFFF { 0 } else { rx_error::TCPE };
    Some(Checked { status: rx_status::TCPCS, errors })
}

/// Puts the complement of the sum of bytes `start..=end` (`end` 0: to the end) at `offset`.
/// No effect if a position is outside the packet (SDM 3.3.3.1, 3.3.6).
fn insert(packet: &mut [u8], start: u8, offset: u8, end: u16, avoid_zero: bool) {
    let (start, offset) = (usize::from(start), usize::from(offset));
    let end = if end == 0 { packet.len() } else { (usize::from(end) + 1).min(packet.len()) };
    let Some(range) = packet.get(start..end) else { return };
    if range.is_empty() || offset + 2 > packet.len() {
        return;
    }
    let mut value = !sum(range);
    if avoid_zero && value == 0 {
        value = 0xFFFF;
    }
    packet[offset..offset + 2].copy_from_slice(&value.to_be_bytes());
}

/// The checksum of a legacy descriptor (SDM 3.3.3): from `start` to the end.
pub(crate) fn insert_legacy(packet: &mut [u8], start: u8, offset: u8) {
    insert(packet, start, offset, 0, true);
}

/// The IP checksum of a context (SDM 3.6).
pub(crate) fn insert_ip(packet: &mut [u8], start: u8, offset: u8, end: u16) {
    insert(packet, start, offset, end, false);
}

/// The TCP or UDP checksum of a context; never 0, which means "none" in UDP.
pub(crate) fn insert_transport(packet: &mut [u8], start: u8, offset: u8, end: u16) {
    insert(packet, start, offset, end, true);
}

/// Adds `length` to the partial pseudo-header sum at `offset` (SDM 3.5.7).
pub(crate) fn add_length(packet: &mut [u8], offset: u8, length: usize) {
    let at = usize::from(offset);
    if let Some(partial) = word(packet, at) {
        packet[at..at + 2].copy_from_slice(&add(partial, length as u16).to_be_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn slow_sum(bytes: &[u8]) -> u16 {
        let mut total = 0u32;
        for pair in bytes.chunks(2) {
            total += u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0));
            total = (total & 0xFFFF) + (total >> 16);
        }
        total as u16
    }

    proptest! {
        #[test]
        fn the_fast_sum_equals_the_simple_one(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let (fast, slow) = (sum(&bytes), slow_sum(&bytes));
            // Both zeros of one's complement are zero.
            prop_assert!(fast == slow || fast ^ slow == 0xFFFF && (fast == 0 || slow == 0));
        }

        #[test]
        fn no_frame_makes_the_parser_panic(
            bytes in prop::collection::vec(any::<u8>(), 0..120),
            at in 12usize..24,
            ip in prop::sample::select(vec![0x0800u16, 0x86DD, 0x8100]),
        ) {
            let mut bytes = bytes;
            if bytes.len() >= at + 2 {
                bytes[at..at + 2].copy_from_slice(&ip.to_be_bytes());
            }
            let all = rxcsum::IPOFLD | rxcsum::TUOFLD | rxcsum::IPV6OFL;
            receive(&bytes, 4, all | 14, 0x8100, Chip::I82546eb);
        }
    }

    /// Ethernet, IPv4, UDP, ten bytes; made by hand, checksums right.
    fn udp() -> Vec<u8> {
        let mut f = vec![0u8; 14];
        f[12..14].copy_from_slice(&[8, 0]);
        f.extend([0x45, 0, 0, 38, 0, 1, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
        f.extend([0, 7, 0, 9, 0, 18, 0, 0]);
        f.extend(b"ten bytes!");
        let header = !sum(&f[14..34]);
        f[24..26].copy_from_slice(&header.to_be_bytes());
        let pseudo = add(sum(&f[26..34]), add(17, 18));
        let transport = !add(pseudo, sum(&f[34..]));
        f[40..42].copy_from_slice(&transport.to_be_bytes());
        f
    }

    #[test]
    fn verdicts() {
        let both = rxcsum::IPOFLD | rxcsum::TUOFLD;
        let look = |f: &[u8], control| {
            let v = receive(f, 0, control, 0x8100, Chip::I82546eb);
            (v.status, v.errors)
        };
        let good = udp();
        assert_eq!(look(&good, 0), (rx_status::IXSM, 0));
        assert_eq!(look(&good, rxcsum::IPOFLD), (rx_status::IPCS, 0));
        assert_eq!(look(&good, both), (rx_status::IPCS | rx_status::TCPCS, 0));
        let mut bad = good.clone();
        bad[45] ^= 1;
        assert_eq!(look(&bad, both), (rx_status::IPCS | rx_status::TCPCS, rx_error::TCPE));
        let mut bad = good.clone();
        bad[22] ^= 1;
        assert_eq!(look(&bad, both), (rx_status::IPCS | rx_status::TCPCS, rx_error::IPE));
        // A fragment: only the IP checksum.
        let mut fragment = good.clone();
        fragment[20] = 0x20;
        assert_eq!(look(&fragment, both).0, rx_status::IPCS);
        // With a tag left in.
        let mut tagged = good.clone();
        tagged.splice(12..12, [0x81, 0, 0, 5]);
        assert_eq!(look(&tagged, both), (rx_status::IPCS | rx_status::TCPCS, 0));
    }

    #[test]
    fn headers_do_not_reach_into_the_fcs() {
        // A header of 48 bytes in a frame of 60 bytes without FCS.
        let mut f = vec![0; 64];
        f[12..14].copy_from_slice(&[8, 0]);
        f[14] = 0x4C;
        let status = |fcs_bytes| receive(&f, fcs_bytes, rxcsum::IPOFLD, 0x8100, Chip::I82546eb).status;
        assert_eq!((status(0), status(4)), (rx_status::IPCS, rx_status::IXSM));
    }

    #[test]
    fn inserted_checksums_verify() {
        let good = udp();
        let mut f = good.clone();
        f[24..26].copy_from_slice(&[0, 0]);
        let pseudo = add(sum(&f[26..34]), 17);
        f[40..42].copy_from_slice(&pseudo.to_be_bytes());
        insert_ip(&mut f, 14, 24, 33);
        add_length(&mut f, 40, 18);
        insert_transport(&mut f, 34, 40, 0);
        assert_eq!(f, good);
        // Out of range: untouched (CVE-2022-23087).
        let before = f.clone();
        insert_transport(&mut f, 34, 255, 0);
        insert_transport(&mut f, 200, 40, 0);
        insert_ip(&mut f, 40, 24, 20);
        insert_legacy(&mut f, 14, 51);
        add_length(&mut f, 51, 1);
        assert_eq!(f, before);
    }
}
