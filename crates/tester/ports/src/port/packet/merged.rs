//! Superpackets: frames that the kernel has merged (GRO, LRO), or that a host left to be cut (TSO).
//!
//! The port passes on the frames that were on the wire, or would be. A superpacket that fits into a slot of
//! the ring comes there; the kernel puts a longer one into the socket's queue.

use super::super::attached::{ADDRESSES, HEADER, VLAN};
use kpps_frames::Superpacket;
use kpps_linux::rings::packet::{Arrived, CUT};
use rustix::net::{RecvFlags, recv};
use std::os::fd::BorrowedFd;

/// Where a packet begins: behind room for a VLAN tag, and for what the kernel writes before it.
const START: usize = VLAN + CUT;
/// The longest packet with its Ethernet header and inner VLAN tags. Longer ones (BIG TCP) are not cut.
const LONGEST: usize = (1 << 16) + HEADER + 4 * VLAN;

/// The last superpacket, as far as its frames are still to be passed on.
#[derive(Debug)]
pub(super) struct Merged {
    bytes: Box<[u8]>,
    /// Where the superpacket is.
    from: usize,
    to: usize,
    shape: Option<Superpacket>,
    /// The next frame.
    next: usize,
    stamp: u64,
    /// Whether there was one since the port was opened.
    pub(super) seen: bool,
}

impl Merged {
    pub(super) fn new() -> Self {
        let bytes = vec![0; START + LONGEST].into();
        Self { bytes, from: START, to: START, shape: None, next: 0, stamp: 0, seen: false }
    }

    /// Takes in a superpacket. If it cannot be cut, or the kernel had no room for all of it, the error is the
    /// number of its frames if that is known.
    #[inline(never)]
    pub(super) fn load(&mut self, arrived: &Arrived<'_>, socket: BorrowedFd<'_>) -> Result<(), Option<u64>> {
        let Arrived { bytes, length, cut, tag, stamp, queued, whole } = *arrived;
        self.seen = true;
        let is_whole = match self.bytes.get_mut(START..START + bytes.len()) {
            _ if queued => self.fetch(socket) == Some(length),
            Some(place) if whole => {
                place.copy_from_slice(bytes);
                true
            }
            _ => false,
        };
        self.from = START;
        let shape = cut.shape(bytes, length).ok_or(None)?;
        let frames = Some(shape.frames() as u64);
        if !is_whole {
            return Err(frames);
        }
        self.to = START + length;
        let shape = match tag {
            None => shape,
            Some(tag) => {
                self.from = START - VLAN;
                self.bytes.copy_within(START..START + ADDRESSES, self.from);
                self.bytes[self.from + ADDRESSES..START + ADDRESSES].copy_from_slice(&tag);
                let packet = &self.bytes[self.from..self.to];
                cut.shape(packet, packet.len()).ok_or(frames)?
            }
        };
        (self.shape, self.next, self.stamp) = (Some(shape), 0, stamp);
        Ok(())
    }

    /// Takes the next packet from the socket's queue. Returns its length, if it fits.
    pub(super) fn fetch(&mut self, socket: BorrowedFd<'_>) -> Option<usize> {
        let place = &mut self.bytes[VLAN..];
        let room = place.len();
        let (_, bytes) = recv(socket, place, RecvFlags::DONTWAIT | RecvFlags::TRUNC).ok()?;
        (bytes <= room).then(|| bytes.checked_sub(CUT))?
    }

    /// Writes the next frame, if one is left. Returns its length, or `None` if it is too long; and the time
    /// when the kernel received the superpacket.
    #[inline]
    pub(super) fn take(&mut self, into: &mut [u8]) -> Option<Option<(u16, u64)>> {
        let shape = self.shape?;
        let bytes = shape.write(&self.bytes[self.from..self.to], self.next, into);
        self.next += 1;
        if self.next >= shape.frames() {
            self.shape = None;
        }
        Some(bytes.and_then(|bytes| Some((u16::try_from(bytes).ok()?, self.stamp))))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use kpps_frames::build::{Flow, udp_test};
    use kpps_frames::headers::Headers;
    use kpps_frames::{Size, Tag, tag};
    use kpps_linux::rings::packet::Cut;
    use std::os::fd::AsFd;

    /// Frames of a flow with a UDP checksum, behind a VLAN tag or not.
    fn frames(vlan: Option<u16>) -> Vec<Vec<u8>> {
        let frame = |sequence: u16| {
            let mut frame = udp_test(&Flow { vlan, ..Flow::default() }, Size::without_fcs(100)).unwrap();
            tag::write(&mut frame, Tag { stream: 1, sequence: sequence.into(), sent_ps: 7 }).unwrap();
            let headers = Headers::of(&frame).unwrap();
            frame[headers.identification().unwrap() + 1] = sequence as u8;
            frame[headers.checksum().unwrap()] = 1;
            headers.put_checksums(&mut frame);
            frame
        };
        (0..3).map(frame).collect()
    }

    /// The kernel takes one VLAN tag out of a superpacket; each of its frames has it.
    #[test]
    fn each_frame_has_the_tag_that_was_taken_out() {
        // Loading from a slot reads nothing from a socket; any descriptor will do.
        let socket = std::fs::File::open("/dev/null").unwrap();
        for vlan in [None, Some(7)] {
            let wire = frames(vlan);
            let start = Headers::of(&wire[0]).unwrap().payload(&wire[0]);
            let mut packet = wire[0].clone();
            wire[1..].iter().for_each(|frame| packet.extend_from_slice(&frame[start..]));
            let ip = Headers::of(&packet).unwrap().ip;
            let length = ((packet.len() - ip) as u16).to_be_bytes();
            packet[ip + 2..ip + 4].copy_from_slice(&length);
            let tag = vlan.map(|_| packet.drain(ADDRESSES..ADDRESSES + VLAN).collect::<Vec<u8>>());
            let from = start - tag.as_ref().map_or(0, Vec::len);
            let arrived = Arrived {
                bytes: &packet,
                whole: true,
                length: packet.len(),
                queued: false,
                cut: Cut::datagrams(packet.len(), wire[0].len() - start, from - 8, 6),
                tag: tag.map(|tag| tag.try_into().unwrap()),
                stamp: 9,
            };
            let mut merged = Merged::new();
            merged.load(&arrived, socket.as_fd()).unwrap();
            let mut buffer = [0; 2048];
            for expected in &wire {
                assert_eq!(merged.take(&mut buffer), Some(Some((expected.len() as u16, 9))), "{vlan:?}");
                assert_eq!(&buffer[..expected.len()], expected, "{vlan:?}");
            }
            assert_eq!(merged.take(&mut buffer), None);
            // A tunnel: the checksum is that of a packet inside.
            let cut = Cut::datagrams(packet.len(), 50, from + 30, 6);
            assert_eq!(merged.load(&Arrived { cut, ..arrived }, socket.as_fd()), Err(None));
            // There was no room for all of it beside the ring: what is lost is known.
            let cropped = Arrived { bytes: &packet[..80], whole: false, ..arrived };
            assert_eq!(merged.load(&cropped, socket.as_fd()), Err(Some(3)));
            assert_eq!(merged.take(&mut buffer), None);
        }
    }
}
