//! How a received header differs from the sent one.

use kpps_frames::checksum::{Sum, checksum};
use kpps_frames::{ipv4, tag, udp};

/// Bytes of the longest headers: Ethernet with a VLAN tag, IPv6, UDP.
pub(crate) const LONGEST: usize = 66;
/// Where the checksums are: so far before the tag.
pub(crate) const IP_CHECKSUM: usize = udp::HEADER_BYTES + 10;
pub(crate) const UDP_CHECKSUM: usize = 2;
/// Where the identification of IPv4 is: so far before the tag.
pub(crate) const IDENTIFICATION: usize = udp::HEADER_BYTES + 16;

/// How headers differ from what was sent, bit by bit.
pub(crate) type Change = [u8; LONGEST];

/// How a header differs from the sent one. A right checksum does not differ; a wrong one differs in all bits.
/// The identification never differs: if it was damaged, the checksum is wrong.
#[inline]
pub(crate) fn change(frame: &[u8], header: &[u8], sent: &[u8]) -> Change {
    let mut change = [0; LONGEST];
    for ((change, came), sent) in change.iter_mut().zip(header).zip(sent) {
        *change = came ^ sent;
    }
    let end = header.len();
    let set = |change: &mut Change, before: usize, right: bool| {
        change[end - before..][..2].fill(if right { 0 } else { 0xff });
    };
    // IPv6 has no header checksum, but UDP over it must have one. Each tag has another.
    if end >= tag::OFFSET_IPV6 {
        set(&mut change, UDP_CHECKSUM, udp_checksum_is_right(frame, end));
        return change;
    }
    let ip = end - udp::HEADER_BYTES - ipv4::HEADER_BYTES..end - udp::HEADER_BYTES;
    if change[ip].iter().any(|&bits| bits != 0) {
        set(&mut change, IP_CHECKSUM, ip_checksum_is_right(header));
        set(&mut change, IDENTIFICATION, true);
    }
    if change[end - UDP_CHECKSUM..end] != [0; 2] {
        set(&mut change, UDP_CHECKSUM, udp_checksum_is_right(frame, end));
    }
    change
}

fn ip_checksum_is_right(header: &[u8]) -> bool {
    let end = header.len() - udp::HEADER_BYTES;
    checksum(&header[end - ipv4::HEADER_BYTES..end]) == 0
}

/// Whether the UDP checksum is right, of a frame with a tag at `at` and zeros behind the tag. The
/// pseudo-header has the received addresses.
fn udp_checksum_is_right(frame: &[u8], at: usize) -> bool {
    let (ip, datagram) = frame.split_at(at - udp::HEADER_BYTES);
    let addresses = if at >= tag::OFFSET_IPV6 { 2 * 16 } else { 2 * 4 };
    let length = (datagram.len() as u32).to_be_bytes();
    let pseudo_header =
        Sum::new().with(&ip[ip.len() - addresses..]).with(&length).with(&[0, 0, 0, ipv4::PROTOCOL_UDP]);
    pseudo_header.with(&datagram[..udp::HEADER_BYTES + tag::BYTES]).checksum() == 0
}
