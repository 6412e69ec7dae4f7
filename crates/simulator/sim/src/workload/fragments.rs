//! A UDP datagram in one frame or in several fragments, received by a bare card, and the bytes that a stack
//! has to sum itself to check it.
//!
//! The card checks UDP checksums of whole packets (SDM table 3-5). Of each frame, fragments among them, it
//! reports the packet checksum: the complement of the sum from RXCSUM.PCSS on (SDM 3.2.9). From the IP header
//! on, that is the sum of the frame's part of the datagram, because the sum of a right IP header is zero in
//! one's complement, and padding adds nothing. So the sums of all fragments make that of the datagram. Cards
//! after the 82547 report the sum of the IP payload alone, and Intel's driver hands it to the stack
//! (`e1000_rx_checksum`, public source): the same number.
//!
//! The stack here checks a datagram as Linux 2.6 does (`ip_frag_reasm`, public source): it adds one sum for
//! each frame, the card's or its own, and the pseudo-header.

use kpps_card::{BurstKind, Host, Nic, Params, Purpose};
use kpps_datasheet::bit::{ctrl, rctl, rxcsum, txcw};
use kpps_datasheet::desc::{RxWriteback, rx_error, rx_status};
use kpps_datasheet::{Chip, Media, reg};
use kpps_frames::checksum::Sum;
use kpps_frames::{ipv4, udp};
use std::net::Ipv4Addr;

const ETHERNET_BYTES: usize = 14;
/// The longest IP packet in a frame (IEEE 802.3).
const MTU_BYTES: usize = 1500;
/// The shortest frame without FCS.
const LEAST_BYTES: usize = 60;
/// The longest payload of a UDP datagram over IPv4.
pub const LONGEST_PAYLOAD_BYTES: u16 = 65_507;
/// Copies of a datagram with one bit wrong, spread over its payload.
const DAMAGED: usize = 16;

const STATION: [u8; 6] = [2, 0, 0, 0, 0, 1];
const FROM: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 9);
const TO: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);

/// The fate of a datagram, and of copies with one bit wrong.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Checked {
    /// Frames that the datagram came in.
    pub frames: usize,
    /// Of these, frames whose UDP checksum the card has checked (TCPCS).
    pub checked_by_card: usize,
    /// Frames whose packet checksum took the place of the stack's own sum.
    pub helped: usize,
    /// Bytes of UDP header and payload that the stack summed.
    pub summed_bytes: usize,
    /// Whether the stack accepted the datagram, which is right.
    pub accepted: bool,
    /// Copies of it with one bit of the payload wrong.
    pub damaged: usize,
    /// Of these, copies that the stack refused.
    pub refused: usize,
}

/// Receives a datagram of `payload_bytes`, with a UDP checksum or with none (RFC 768: 0), on a card of
/// `chip`; and copies of it with one bit wrong.
///
/// # Errors
/// If the payload is empty or longer than [`LONGEST_PAYLOAD_BYTES`], or the card loses a frame.
pub fn receive(chip: Chip, payload_bytes: u16, udp_checksum: bool) -> Result<Checked, String> {
    if !(1..=LONGEST_PAYLOAD_BYTES).contains(&payload_bytes) {
        return Err(format!("a payload of {payload_bytes} bytes is not within 1 to {LONGEST_PAYLOAD_BYTES}"));
    }
    let right = datagram(payload_bytes.into(), udp_checksum);
    let of = check(chip, &right)?;
    let mut checked = Checked { damaged: DAMAGED, ..of };
    for copy in 0..DAMAGED {
        let mut wrong = right.clone();
        let at = udp::HEADER_BYTES + copy * usize::from(payload_bytes) / DAMAGED;
        if let Some(byte) = wrong.get_mut(at) {
            *byte ^= 1 << (copy % 8);
        }
        checked.refused += usize::from(!check(chip, &wrong)?.accepted);
    }
    Ok(checked)
}

/// A datagram: UDP header and payload.
pub(super) fn datagram(payload_bytes: usize, udp_checksum: bool) -> Vec<u8> {
    let length = ((udp::HEADER_BYTES + payload_bytes) as u16).to_be_bytes();
    let mut datagram = [[0x13, 0x88], [0x13, 0x89], length, [0, 0]].concat();
    datagram.extend((0..payload_bytes).map(|at| (at * 7 + at / 256) as u8));
    if udp_checksum {
        // 0 would mean that there is none (RFC 768).
        let sum = match pseudo_header(datagram.len()).with(&datagram).checksum() {
            0 => 0xFFFF,
            sum => sum,
        };
        datagram[6..8].copy_from_slice(&sum.to_be_bytes());
    }
    datagram
}

fn pseudo_header(bytes: usize) -> Sum {
    Sum::pseudo_header(FROM, TO, ipv4::PROTOCOL_UDP, bytes as u16)
}

/// The frames that carry a datagram, without FCS: one, or fragments of a multiple of 8 bytes (RFC 791).
pub(super) fn frames(datagram: &[u8]) -> Vec<Vec<u8>> {
    let most = (MTU_BYTES - ipv4::HEADER_BYTES) / 8 * 8;
    let pieces = datagram.chunks(most).enumerate();
    let frame = |(index, piece): (usize, &[u8])| {
        let offset = (index * most / 8) as u16;
        let more = index * most + piece.len() < datagram.len();
        let fragment = (offset | u16::from(more) << 13).to_be_bytes();
        let total = ((ipv4::HEADER_BYTES + piece.len()) as u16).to_be_bytes();
        let mut header = [0x45, 0, total[0], total[1], 0, 1, fragment[0], fragment[1]].to_vec();
        header.extend([64, ipv4::PROTOCOL_UDP, 0, 0]);
        header.extend([FROM.octets(), TO.octets()].concat());
        let sum = Sum::new().with(&header).checksum().to_be_bytes();
        header[10..12].copy_from_slice(&sum);
        let mut frame = [&STATION[..], &[2, 0, 0, 0, 0, 9, 8, 0], &header, piece].concat();
        frame.resize(frame.len().max(LEAST_BYTES), 0);
        frame
    };
    pieces.map(frame).collect()
}

/// Receives a datagram and checks it.
fn check(chip: Chip, datagram: &[u8]) -> Result<Checked, String> {
    let frames = frames(datagram);
    let reports = Card::new(chip).receive(&frames)?;
    let checks = |report: &&RxWriteback| report.status & rx_status::TCPCS != 0;
    let mut checked = Checked {
        frames: frames.len(),
        checked_by_card: reports.iter().filter(checks).count(),
        ..Checked::default()
    };
    let none = datagram.get(6..8) == Some(&[0, 0]);
    checked.accepted = match reports[..] {
        _ if none => true,
        [whole] if checks(&&whole) => whole.errors & rx_error::TCPE == 0,
        _ => {
            let mut sum = pseudo_header(datagram.len());
            for (frame, report) in frames.iter().zip(&reports) {
                let packet = &frame[ETHERNET_BYTES..];
                // The field is reserved on the 82544 and before (SDM table 3-1).
                if chip > Chip::I82544 && report.status & rx_status::IPCS != 0 {
                    sum = sum.with(&(!report.checksum).to_be_bytes());
                    checked.helped += 1;
                } else {
                    let own = &packet[ipv4::HEADER_BYTES..];
                    sum = sum.with(own);
                    checked.summed_bytes += own.len();
                }
            }
            sum.checksum() == 0
        }
    };
    Ok(checked)
}

const RING_BYTES: usize = 4096;
const DESCRIPTORS: usize = RING_BYTES / 16;
const BUFFER_BYTES: usize = 2048;

/// Memory that a card reaches at once: first its receive ring, then a buffer for each descriptor.
struct Memory(Vec<u8>);

impl Memory {
    fn range(&mut self, address: u64, bytes: usize) -> Option<&mut [u8]> {
        let at = usize::try_from(address).ok()?;
        self.0.get_mut(at..at.checked_add(bytes)?)
    }
}

impl Host for Memory {
    fn burst(&mut self, now_ps: u64, _: BurstKind, _: Purpose, _: u64, _: u32) -> u64 {
        now_ps
    }
    fn load(&mut self, address: u64, into: &mut [u8]) -> bool {
        self.range(address, into.len()).map(|from| into.copy_from_slice(from)).is_some()
    }
    fn store(&mut self, address: u64, from: &[u8]) -> bool {
        self.range(address, from.len()).map(|to| to.copy_from_slice(from)).is_some()
    }
    fn transmitted(&mut self, _: u64, _: &[u8]) {}
}

/// A card with its link up, a ring of buffers, and checksums of IP, UDP and of packets on.
struct Card {
    nic: Nic,
    memory: Memory,
    now_ps: u64,
}

/// Time for a frame to be received and reported, in picoseconds: a millisecond.
const FRAME_PS: u64 = 1_000_000_000;

impl Card {
    fn new(chip: Chip) -> Self {
        let params = Params { link_ps: 0, ..Params::of(chip) };
        let fibre = params.media == Media::Fibre;
        let memory = Memory(vec![0; RING_BYTES + DESCRIPTORS * BUFFER_BYTES]);
        let mut card = Self { nic: Nic::new(params, STATION), memory, now_ps: 0 };
        for index in 0..DESCRIPTORS {
            let buffer = (RING_BYTES + index * BUFFER_BYTES) as u64;
            card.memory.store(16 * index as u64, &buffer.to_le_bytes());
        }
        if fibre {
            card.set(reg::TXCW, txcw::ANE | txcw::FD);
        }
        card.set(reg::CTRL, ctrl::SLU | ctrl::FD);
        card.pass();
        card.set(reg::RXCSUM, rxcsum::IPOFLD | rxcsum::TUOFLD | ETHERNET_BYTES as u32);
        card.set(reg::RDLEN, RING_BYTES as u32);
        card.set(reg::RDT, DESCRIPTORS as u32 - 1);
        card.set(reg::RCTL, rctl::EN | rctl::SECRC);
        card.pass();
        card
    }

    fn set(&mut self, register: u32, value: u32) {
        let offset = self.nic.params().chip.offset(register);
        self.nic.write(self.now_ps, offset, value, &mut self.memory);
    }

    fn pass(&mut self) {
        self.now_ps += FRAME_PS;
        self.nic.run(self.now_ps, &mut self.memory);
    }

    /// Receives frames; returns their descriptors.
    fn receive(mut self, frames: &[Vec<u8>]) -> Result<Vec<RxWriteback>, String> {
        for frame in frames {
            self.nic.frame_arrives(self.now_ps, frame, &mut self.memory);
            self.pass();
        }
        let report = |index: usize| {
            let mut word = [0; 8];
            self.memory.load(16 * index as u64 + 8, &mut word);
            RxWriteback::unpack(u64::from_le_bytes(word))
        };
        let reports: Vec<_> = (0..frames.len()).map(report).collect();
        match reports.iter().all(|report| report.status & rx_status::DD != 0) {
            true => Ok(reports),
            false => Err("the card has lost a frame".into()),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn fragments_are_cut_at_multiples_of_eight() {
        let of = |payload| frames(&datagram(payload, true));
        let lengths = |payload| of(payload).iter().map(Vec::len).collect::<Vec<_>>();
        assert_eq!(lengths(1), [60]);
        assert_eq!(lengths(1472), [1514]);
        assert_eq!(lengths(1473), [1514, 60]);
        assert_eq!(lengths(4000), [1514, 1514, 34 + 4008 - 2960]);
        // More fragments, and the offset in units of 8 bytes.
        let flags: Vec<_> = of(4000).iter().map(|frame| u16::from_be_bytes([frame[20], frame[21]])).collect();
        assert_eq!(flags, [0x2000, 0x2000 | 185, 370]);
    }

    #[test]
    fn packet_checksums_stand_for_the_stacks_own_sum() {
        for payload in [1473, 1474, 2000, 4001, 65_507] {
            let with = receive(Chip::I82546eb, payload, true).unwrap();
            assert_eq!((with.helped, with.summed_bytes, with.checked_by_card), (with.frames, 0, 0));
            assert!(with.accepted && with.refused == with.damaged, "{payload}: {with:?}");
            // This one has no such field, and the stack finds the same.
            let without = receive(Chip::I82543gc, payload, true).unwrap();
            assert_eq!((without.helped, without.refused), (0, DAMAGED));
            assert!(without.accepted && without.summed_bytes >= usize::from(payload) + 8, "{without:?}");
        }
    }

    #[test]
    fn a_whole_datagram_is_checked_by_the_card_and_one_without_a_checksum_by_nobody() {
        let whole = receive(Chip::I82546eb, 1472, true).unwrap();
        assert_eq!((whole.frames, whole.checked_by_card, whole.helped, whole.summed_bytes), (1, 1, 0, 0));
        assert!(whole.accepted && whole.refused == DAMAGED, "{whole:?}");
        let none = receive(Chip::I82546eb, 4000, false).unwrap();
        assert_eq!((none.checked_by_card, none.helped, none.summed_bytes, none.refused), (0, 0, 0, 0));
        assert!(receive(Chip::I82546eb, 0, true).is_err());
    }
}
