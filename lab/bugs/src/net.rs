//! A host on Ethernet that answers: ARP, ICMP echo requests, and UDP datagrams to port 7.

/// The guest's address.
const ADDRESS: [u8; 4] = [10, 0, 2, 15];
/// The address that is asked for at the start.
const GATEWAY: [u8; 4] = [10, 0, 2, 2];

const ARP: [u8; 2] = [0x08, 0x06];
const IP: [u8; 2] = [0x08, 0x00];
/// Ethernet, IPv4, lengths of addresses.
const ARP_HEAD: [u8; 6] = [0, 1, 8, 0, 6, 4];
const ARP_REQUEST: [u8; 2] = [0, 1];
const ARP_REPLY: [u8; 2] = [0, 2];
const ARP_BYTES: usize = 42;
const ICMP: u8 = 1;
const UDP: u8 = 17;
const ECHO_PORT: [u8; 2] = [0, 7];
const ETHERNET_BYTES: usize = 14;

/// An ARP request for the gateway, from the station with this address.
pub fn ask(station: [u8; 6]) -> [u8; ARP_BYTES] {
    let mut frame = [0; ARP_BYTES];
    frame[..6].fill(0xFF);
    frame[6..12].copy_from_slice(&station);
    frame[12..14].copy_from_slice(&ARP);
    frame[14..20].copy_from_slice(&ARP_HEAD);
    frame[20..22].copy_from_slice(&ARP_REQUEST);
    frame[22..28].copy_from_slice(&station);
    frame[28..32].copy_from_slice(&ADDRESS);
    frame[38..42].copy_from_slice(&GATEWAY);
    frame
}

/// Turns a received frame of `bytes` bytes into the answer, in place. Returns the length of the answer, if
/// there is one. With `whole` the answer is as long as the received frame, otherwise as long as its headers
/// say.
pub fn answer(frame: &mut [u8], bytes: usize, station: [u8; 6], whole: bool) -> Option<usize> {
    let received = frame.get_mut(..bytes)?;
    if received.len() < ARP_BYTES {
        return None;
    }
    let length = match [received[12], received[13]] {
        ARP => answer_arp(received, station)?,
        IP if received[..6] == station => answer_ip(received)?,
        _ => return None,
    };
    received.copy_within(6..12, 0);
    received[6..12].copy_from_slice(&station);
    Some(if whole { bytes } else { length })
}

fn answer_arp(frame: &mut [u8], station: [u8; 6]) -> Option<usize> {
    if frame[14..20] != ARP_HEAD || frame[20..22] != ARP_REQUEST || frame[38..42] != ADDRESS {
        return None;
    }
    frame[20..22].copy_from_slice(&ARP_REPLY);
    frame.copy_within(22..32, 32);
    frame[22..28].copy_from_slice(&station);
    frame[28..32].copy_from_slice(&ADDRESS);
    Some(ARP_BYTES)
}

fn answer_ip(frame: &mut [u8]) -> Option<usize> {
    let packet = &mut frame[ETHERNET_BYTES..];
    let header = usize::from(packet[0] & 0xF) * 4;
    let total = usize::from(u16::from_be_bytes([packet[2], packet[3]]));
    // Fragments are not put together.
    let fragment = u16::from_be_bytes([packet[6], packet[7]]) & 0x3FFF;
    if packet[0] >> 4 != 4 || header < 20 || total < header + 8 || fragment != 0 {
        return None;
    }
    let protocol = packet[9];
    let (head, payload) = packet.get_mut(..total)?.split_at_mut(header);
    if head[16..20] != ADDRESS || sum(head, 0) != 0xFFFF {
        return None;
    }
    // Exchanging the two addresses changes no checksum.
    let mut addresses = [0; 8];
    addresses.copy_from_slice(&head[12..20]);
    match protocol {
        ICMP if payload[..2] == [8, 0] && sum(payload, 0) == 0xFFFF => {
            payload[0] = 0;
            payload[2..4].fill(0);
            let checksum = !sum(payload, 0);
            payload[2..4].copy_from_slice(&checksum.to_be_bytes());
        }
        UDP if payload[2..4] == ECHO_PORT && is_intact(payload, addresses) => {
            for at in 0..2 {
                payload.swap(at, at + 2);
            }
        }
        _ => return None,
    }
    head[12..16].copy_from_slice(&addresses[4..]);
    head[16..20].copy_from_slice(&addresses[..4]);
    Some(ETHERNET_BYTES + total)
}

/// Whether a datagram has the checksum of its bytes, or none.
fn is_intact(datagram: &[u8], addresses: [u8; 8]) -> bool {
    let pseudo = u32::from(sum(&addresses, 0)) + u32::from(UDP) + datagram.len() as u32;
    let length = usize::from(u16::from_be_bytes([datagram[4], datagram[5]]));
    length == datagram.len() && (datagram[6..8] == [0, 0] || sum(datagram, pseudo) == 0xFFFF)
}

/// The one's complement sum of 16-bit words, from `start` on.
fn sum(bytes: &[u8], start: u32) -> u16 {
    let mut sum = start;
    for word in bytes.chunks(2) {
        sum += u32::from(word[0]) << 8 | word.get(1).map_or(0, |low| u32::from(*low));
    }
    while sum > 0xFFFF {
        sum = (sum & 0xFFFF) + (sum >> 16);
    }
    sum as u16
}
