//! The expected frames, from sources independent of driver and device: headers and checksums by `etherparse`,
//! segmentation by [`Large::segments`].

use etherparse::{IpNumber, Ipv4Header, Ipv6Header, PacketBuilder, SlicedPacket, TcpHeader};
use etherparse::{NetSlice, TransportSlice};
use std::sync::LazyLock;

mod rss;

pub use rss::{Hashed, hash};

/// A locally administered station that is not the card.
pub const PEER: [u8; 6] = [0x02, 0, 0, 0, 0, 0xbe];
/// The broadcast address.
pub const BROADCAST: [u8; 6] = [0xff; 6];

const ETHERNET_BYTES: usize = 14;

/// Pseudo-random bytes (xorshift32). Every payload is a part of them. The suite needs ten thousands of long
/// payloads, and copying is cheap.
static NOISE: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let mut state = 0x9e37_79b9_u32;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        state.to_le_bytes()
    };
    (0..NOISE_BYTES / 4).flat_map(|_| next()).collect()
});
const NOISE_BYTES: usize = 1 << 16;

/// Payload that differs by position and `seed`, so that misplaced bytes are noticed.
pub fn pattern(seed: usize, bytes: usize) -> Vec<u8> {
    // Odd: no two of 65,536 seeds in a row begin at the same place.
    let begin = seed.wrapping_mul(40_503) % NOISE_BYTES;
    let mut payload = Vec::with_capacity(bytes);
    let mut rest = &NOISE[begin..];
    while payload.len() < bytes {
        let take = rest.len().min(bytes - payload.len());
        payload.extend_from_slice(&rest[..take]);
        rest = &NOISE;
    }
    payload
}

/// A frame of `bytes` without FCS (at least 14), of an experimental protocol that no offload parses.
pub fn plain(to: [u8; 6], from: [u8; 6], bytes: usize, seed: usize) -> Vec<u8> {
    let mut frame = Vec::with_capacity(bytes);
    frame.extend(to);
    frame.extend(from);
    // IEEE 802: local experimental EtherType 1.
    frame.extend([0x88, 0xb5]);
    frame.extend(pattern(seed, bytes.saturating_sub(ETHERNET_BYTES)));
    frame
}

/// `frame` with an 802.1Q tag after the addresses.
pub fn tagged(frame: &[u8], tag: u16) -> Vec<u8> {
    let mut tagged = frame[..12].to_vec();
    tagged.extend([0x81, 0x00]);
    tagged.extend(tag.to_be_bytes());
    tagged.extend(&frame[12..]);
    tagged
}

/// The contents of an IP packet for a checksum test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Inside {
    /// TCP over IPv4.
    Tcp4,
    /// UDP over IPv4.
    Udp4,
    /// TCP over IPv6.
    Tcp6,
    /// UDP over IPv6.
    Udp6,
}

impl Inside {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Tcp4, Self::Udp4, Self::Tcp6, Self::Udp6];

    /// Whether the packet is IPv4.
    pub const fn is_v4(self) -> bool {
        matches!(self, Self::Tcp4 | Self::Udp4)
    }
    /// Whether it holds TCP.
    pub const fn is_tcp(self) -> bool {
        matches!(self, Self::Tcp4 | Self::Tcp6)
    }
}

/// An IP frame with good checksums.
pub fn ip(inside: Inside, to: [u8; 6], from: [u8; 6], payload: &[u8]) -> Vec<u8> {
    let link = PacketBuilder::ethernet2(from, to);
    let net = if inside.is_v4() {
        link.ipv4([198, 18, 0, 1], [198, 19, 0, 2], 64)
    } else {
        let address = |last| [0x20, 0x01, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, last];
        link.ipv6(address(1), address(2), 64)
    };
    let mut frame = Vec::new();
    let written = if inside.is_tcp() {
        net.tcp(49152, 9, 0x0102_0304, 8192).ack(7).write(&mut frame, payload)
    } else {
        net.udp(49152, 9).write(&mut frame, payload)
    };
    // Writing to a vector fails only for payloads above 64 KiB. Such a frame stays empty, and every test of
    // it fails.
    if written.is_err() {
        frame.clear();
    }
    frame
}

/// The one's complement sum of `bytes` as big-endian words (RFC 1071), not complemented.
pub fn sum(bytes: &[u8]) -> u16 {
    let mut total: u32 = 0;
    for pair in bytes.chunks(2) {
        total += u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0));
        total = (total & 0xffff) + (total >> 16);
    }
    total as u16
}

/// The sum of the pseudo header of `frame`'s TCP or UDP with this length, not complemented
/// (RFC 793, RFC 8200 8.1). The frame is Ethernet, without VLAN tag, options and extensions.
pub fn pseudo_sum(frame: &[u8], length: u32) -> u16 {
    let v4 = frame[12] == 0x08;
    let (addresses, protocol) = if v4 { (26..34, frame[23]) } else { (22..54, frame[20]) };
    let mut pseudo = frame[addresses].to_vec();
    pseudo.extend(length.to_be_bytes());
    pseudo.extend([0, protocol]);
    sum(&pseudo)
}

/// `checksum` after a word under it grew by `more` (RFC 1624).
pub fn checksum_after(checksum: u16, more: u16) -> u16 {
    let total = u32::from(!checksum) + u32::from(more);
    !((total & 0xffff) + (total >> 16)) as u16
}

/// Adjusts the checksum at byte `field` of a frame after a word under it grew by `more`.
pub fn adjust(frame: &mut [u8], field: usize, more: u16) {
    let old = u16::from_be_bytes([frame[field], frame[field + 1]]);
    frame[field..field + 2].copy_from_slice(&checksum_after(old, more).to_be_bytes());
}

/// Whether all checksums of `frame` are good by `etherparse`.
pub fn checksums_are_good(frame: &[u8]) -> Result<(), String> {
    let packet = SlicedPacket::from_ethernet(frame).map_err(|error| error.to_string())?;
    let transport = packet.transport.ok_or("no transport header")?;
    match packet.net.ok_or("no IP header")? {
        NetSlice::Ipv4(slice) => {
            let ip = slice.header().to_header();
            let good = ip.calc_header_checksum();
            if ip.header_checksum != good {
                return Err(format!("IP checksum {:#06x}, not {good:#06x}", ip.header_checksum));
            }
            transport_checksum(&transport, |tcp, payload| match tcp {
                Some(tcp) => tcp.calc_checksum_ipv4(&ip, payload).ok(),
                None => udp_of(&transport)?.calc_checksum_ipv4(&ip, payload).ok(),
            })
        }
        NetSlice::Ipv6(slice) => {
            let ip = slice.header().to_header();
            transport_checksum(&transport, |tcp, payload| match tcp {
                Some(tcp) => tcp.calc_checksum_ipv6(&ip, payload).ok(),
                None => udp_of(&transport)?.calc_checksum_ipv6(&ip, payload).ok(),
            })
        }
        _ => Err("neither IPv4 nor IPv6".to_owned()),
    }
}

fn udp_of(transport: &TransportSlice<'_>) -> Option<etherparse::UdpHeader> {
    match transport {
        TransportSlice::Udp(udp) => Some(udp.to_header()),
        _ => None,
    }
}

fn transport_checksum(
    transport: &TransportSlice<'_>,
    calculate: impl Fn(Option<TcpHeader>, &[u8]) -> Option<u16>,
) -> Result<(), String> {
    let (found, good) = match transport {
        TransportSlice::Tcp(tcp) => (tcp.checksum(), calculate(Some(tcp.to_header()), tcp.payload())),
        TransportSlice::Udp(udp) => (udp.checksum(), calculate(None, udp.payload())),
        _ => return Err("neither TCP nor UDP".to_owned()),
    };
    if Some(found) == good { Ok(()) } else { Err(format!("checksum {found:#06x}, not {good:#06x?}")) }
}

/// A large send, as a network stack passes it down for segmentation: one TCP frame with the whole payload.
/// The headers are those of the first segment, except lengths and checksums, which the hardware fills in.
#[derive(Clone, Debug)]
pub struct Large {
    /// Station addresses.
    pub to: [u8; 6],
    /// Station addresses.
    pub from: [u8; 6],
    /// IPv4 identification of the first segment; ignored for IPv6.
    pub identification: u16,
    /// Over IPv4 (else IPv6).
    pub v4: bool,
    /// TCP sequence number of the first byte.
    pub sequence: u32,
    /// FIN on the last segment, as well as PSH.
    pub fin: bool,
    /// The 802.1Q tag that the hardware shall insert into each segment.
    pub vlan: Option<u16>,
    /// The payload to segment.
    pub payload: Vec<u8>,
}

impl Large {
    /// Bytes of headers before the payload, without VLAN tag.
    pub const fn header_bytes(&self) -> usize {
        ETHERNET_BYTES + if self.v4 { Ipv4Header::MIN_LEN } else { Ipv6Header::LEN } + TcpHeader::MIN_LEN
    }

    /// The frame for the driver: headers of the first segment (zero lengths and zero IP
    /// checksum; in the TCP checksum the sum of the pseudo header without its length, SDM
    /// 3.5.7), then the whole payload.
    pub fn frame(&self) -> Vec<u8> {
        let mut frame = self.segment(0, 0, &[], true, None);
        let ip = ETHERNET_BYTES;
        if self.v4 {
            frame[ip + 2..ip + 4].fill(0);
            frame[ip + 10..ip + 12].fill(0);
        } else {
            frame[ip + 4..ip + 6].fill(0);
        }
        let tcp = self.header_bytes() - TcpHeader::MIN_LEN;
        let pseudo = pseudo_sum(&frame, 0);
        frame[tcp + 16..tcp + 18].copy_from_slice(&pseudo.to_be_bytes());
        frame.extend(&self.payload);
        frame
    }

    /// The frames that the wire should carry for segments of `mss` payload bytes (SDM 3.5.7,
    /// 3.5.10): sequence numbers and identifications that count on, PSH and FIN on the last
    /// only, good lengths and checksums, each segment tagged.
    pub fn segments(&self, mss: usize) -> Vec<Vec<u8>> {
        let count = self.payload.len().div_ceil(mss);
        let segment = |(index, part): (usize, &[u8])| {
            self.segment(index, index * mss, part, index + 1 == count, self.vlan)
        };
        self.payload.chunks(mss).enumerate().map(segment).collect()
    }

    fn segment(&self, index: usize, at: usize, part: &[u8], last: bool, vlan: Option<u16>) -> Vec<u8> {
        let mut tcp = TcpHeader::new(49152, 5001, self.sequence.wrapping_add(at as u32), 65000);
        tcp.acknowledgment_number = 0x0a0b_0c0d;
        tcp.ack = true;
        tcp.psh = last;
        tcp.fin = last && self.fin;
        let bytes = (TcpHeader::MIN_LEN + part.len()) as u16;
        let mut frame = Vec::new();
        frame.extend(self.to);
        frame.extend(self.from);
        if let Some(tag) = vlan {
            frame.extend([0x81, 0x00]);
            frame.extend(tag.to_be_bytes());
        }
        if self.v4 {
            frame.extend([0x08, 0x00]);
            let mut ip = Ipv4Header {
                total_len: Ipv4Header::MIN_LEN as u16 + bytes,
                identification: self.identification.wrapping_add(index as u16),
                dont_fragment: true,
                time_to_live: 64,
                protocol: IpNumber::TCP,
                source: [198, 18, 0, 1],
                destination: [198, 19, 0, 2],
                ..Ipv4Header::default()
            };
            ip.header_checksum = ip.calc_header_checksum();
            tcp.checksum = tcp.calc_checksum_ipv4(&ip, part).unwrap_or_default();
            frame.extend(&ip.to_bytes()[..]);
        } else {
            frame.extend([0x86, 0xdd]);
            let address = |last| [0x20, 0x01, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, last];
            let ip = Ipv6Header {
                payload_length: bytes,
                next_header: IpNumber::TCP,
                hop_limit: 64,
                source: address(1),
                destination: address(2),
                ..Ipv6Header::default()
            };
            tcp.checksum = tcp.calc_checksum_ipv6(&ip, part).unwrap_or_default();
            frame.extend(ip.to_bytes());
        }
        frame.extend(&tcp.to_bytes()[..]);
        frame.extend(part);
        frame
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn its_own_frames_have_good_checksums_and_spoiled_ones_do_not() {
        for inside in Inside::ALL {
            for bytes in [1, 2, 25, 1000] {
                let mut frame = ip(inside, PEER, BROADCAST, &pattern(bytes, bytes));
                checksums_are_good(&frame).unwrap();
                let last = frame.len() - 1;
                frame[last] ^= 1;
                checksums_are_good(&frame).unwrap_err();
            }
        }
    }

    #[test]
    fn segments_hold_all_payload_in_order() {
        for v4 in [true, false] {
            let large = Large {
                to: PEER,
                from: BROADCAST,
                identification: 0xffff,
                v4,
                sequence: u32::MAX - 500,
                fin: true,
                vlan: None,
                payload: pattern(1, 3001),
            };
            let segments = large.segments(1000);
            assert_eq!(segments.len(), 4);
            let header = large.header_bytes();
            let payload: Vec<u8> = segments.iter().flat_map(|s| s[header..].to_vec()).collect();
            assert_eq!(payload, large.payload);
            for (index, segment) in segments.iter().enumerate() {
                checksums_are_good(segment).unwrap();
                assert_eq!(segment[header - 7] & 0x09 != 0, index == 3);
            }
            assert_eq!(large.frame().len(), header + 3001);
        }
    }

    #[test]
    fn patterns_differ() {
        assert_ne!(pattern(1, 64), pattern(2, 64));
        assert_eq!(pattern(1, 64), pattern(1, 64));
    }
}
