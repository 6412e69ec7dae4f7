//! Rings of slots that are shared by the kernel and a packet socket: packet_mmap.rst, version 2.
//!
//! A slot is a header, whose first word names the slot's owner, and a frame. All `unsafe` of the rings is
//! here. It rests on one rule: the side that finds the status of its own owns the slot until it writes the
//! other status.

use crate::sys::options::set;
use crate::sys::packet::{self as abi, tpacket2_hdr};
use kpps_frames::Superpacket;
use kpps_frames::checksum::checksum;
use kpps_frames::ethernet::VLAN_BYTES;
use memmap2::{MmapOptions, MmapRaw};
use std::borrow::Borrow;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicU32, Ordering};

/// Bytes of a slot, header and frame: minimum and maximum.
const SLOT: usize = 2048;
const LARGEST_SLOT: usize = 1 << 14;
/// Bytes that the kernel allocates at once: several pages of any architecture, several slots.
const BLOCK: usize = 1 << 16;
/// Bytes of a slot beside the frame at most: the kernel puts 66 to 80 bytes before a received one.
const HEADERS: usize = 128;
/// Where the [`Cut`] begins in a transmit slot.
const TO_SEND: usize = size_of::<tpacket2_hdr>();

/// Bytes of a [`Cut`].
pub const CUT: usize = 10;
/// Values of a [`Cut`] (linux/virtio_net.h): the checksum must be completed; the message is cut into TCP
/// segments of both versions of IP, or into UDP datagrams. A bit says that the first segment reports
/// congestion.
const NEEDS_CHECKSUM: u8 = 1;
const SEGMENTS: [u8; 2] = [1, 4];
const DATAGRAMS: u8 = 5;
const CONGESTED: u8 = 1 << 7;
/// Any value but 0: the kernel puts a frame that is longer than its slot into the socket's queue as a whole.
const QUEUED: i32 = 1;

/// A ring. Tests play the kernel, over memory that both sides have.
#[derive(Debug)]
struct Ring<M = MmapRaw> {
    map: M,
    /// A power of two.
    slots: usize,
    /// Bytes of a slot, a power of two.
    slot: usize,
    /// The next slot, not wrapped.
    next: usize,
}

impl Ring {
    /// A ring of this kind for frames of up to `longest` bytes. It has `slots` slots, or fewer of long frames
    /// in the same memory. The socket must not have a ring of this kind yet.
    fn new(socket: BorrowedFd<'_>, kind: i32, slots: usize, longest: usize) -> io::Result<Self> {
        let slot = (longest + HEADERS).next_power_of_two().clamp(SLOT, LARGEST_SLOT);
        let slots = (slots * SLOT / slot).next_power_of_two().max(BLOCK / slot);
        set(socket, abi::SOL_PACKET, abi::PACKET_VERSION, &abi::VERSION_2)?;
        let request = abi::tpacket_req {
            tp_block_size: BLOCK as _,
            tp_block_nr: (slots * slot / BLOCK) as _,
            tp_frame_size: slot as _,
            tp_frame_nr: slots as _,
        };
        set(socket, abi::SOL_PACKET, kind, &request)?;
        let map = MmapOptions::new().len(slots * slot).populate().map_raw(&socket.as_fd())?;
        Ok(Self { map, slots, slot, next: 0 })
    }
}

impl<M: Borrow<MmapRaw>> Ring<M> {
    /// The longest frame that fits into a slot.
    fn longest(&self) -> usize {
        self.slot - HEADERS
    }

    /// The first byte of a slot. All of the slot is within the mapping.
    #[inline]
    fn slot(&self, index: usize) -> *mut u8 {
        // SAFETY: the index is below `slots`, a power of two, and `slots` slots are mapped.
        unsafe { self.map.borrow().as_mut_ptr().add((index & (self.slots - 1)) * self.slot) }
    }

    /// The status of a slot, which names its owner.
    #[inline]
    fn status(&self, index: usize) -> &AtomicU32 {
        // SAFETY: within the mapping, aligned, and accessed by both sides as one word.
        unsafe { &*self.slot(index).cast::<AtomicU32>() }
    }
}

/// Received frames.
#[derive(Debug)]
pub struct Arrivals<M = MmapRaw>(Ring<M>);

/// A received frame in its slot.
#[derive(Clone, Copy, Debug)]
pub struct Arrived<'r> {
    /// The frame's bytes, as far as they fit into a slot.
    pub bytes: &'r [u8],
    /// Whether these are all.
    pub whole: bool,
    /// The length of the frame.
    pub length: usize,
    /// Whether all of it is in the socket's queue, too.
    pub queued: bool,
    /// How the kernel has merged the frame, and what it has left incomplete.
    pub cut: Cut,
    /// The VLAN tag that the kernel took out, as it was on the wire.
    pub tag: Option<[u8; 4]>,
    /// When the kernel received it, in ns since 1970.
    pub stamp: u64,
}

impl Arrivals {
    /// For frames of up to `longest` bytes.
    pub(super) fn new(socket: BorrowedFd<'_>, slots: usize, longest: usize) -> io::Result<Self> {
        set(socket, abi::SOL_PACKET, abi::PACKET_VNET_HDR, &1)?;
        set(socket, abi::SOL_PACKET, abi::PACKET_COPY_THRESH, &QUEUED)?;
        Ring::new(socket, abi::PACKET_RX_RING, slots, longest).map(Self)
    }
}

impl<M: Borrow<MmapRaw>> Arrivals<M> {
    /// Shows the next frame, if there is one, and gives its slot back.
    #[inline]
    pub fn take<T>(&mut self, look: impl FnOnce(Arrived<'_>) -> T) -> Option<T> {
        let status = self.0.status(self.0.next).load(Ordering::Acquire);
        if status & abi::TP_STATUS_USER == 0 {
            return None;
        }
        let slot = self.0.slot(self.0.next);
        // SAFETY: the slot is ours, so its header is written; it is at the slot's start, and aligned as that.
        let header = unsafe { slot.cast::<tpacket2_hdr>().read() };
        let from = usize::from(header.tp_mac).min(self.0.slot);
        let length = (header.tp_snaplen as usize).min(self.0.slot - from);
        // SAFETY: within the slot, which is ours until its status is written below.
        let bytes = unsafe { std::slice::from_raw_parts(slot.add(from), length) };
        let cut = from.checked_sub(CUT).map_or_else(Cut::default, |before| {
            // SAFETY: within the slot, before the frame. Any bytes are a valid value.
            Cut::from_bytes(unsafe { slot.add(before).cast::<[u8; CUT]>().read() })
        });
        let tag = (status & abi::TP_STATUS_VLAN_VALID != 0).then(|| {
            let kind =
                if status & abi::TP_STATUS_VLAN_TPID_VALID != 0 { header.tp_vlan_tpid } else { 0x8100 };
            let ([a, b], [c, d]) = (kind.to_be_bytes(), header.tp_vlan_tci.to_be_bytes());
            [a, b, c, d]
        });
        let stamp = u64::from(header.tp_sec) * 1_000_000_000 + u64::from(header.tp_nsec);
        let (whole, queued) = (header.tp_len as usize == length, status & abi::TP_STATUS_COPY != 0);
        let seen = look(Arrived { bytes, whole, length: header.tp_len as usize, queued, cut, tag, stamp });
        self.0.status(self.0.next).store(abi::TP_STATUS_KERNEL, Ordering::Release);
        self.0.next = self.0.next.wrapping_add(1);
        Some(seen)
    }
}

/// The header before a frame or message, for the kernel or from it: `struct virtio_net_hdr`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cut {
    flags: u8,
    kind: u8,
    /// Bytes that the kernel copies behind its own headers. It refers to the rest by page, which costs more
    /// for small frames, on both ends.
    copied: u16,
    /// Payload of each frame, in bytes.
    each: u16,
    /// Where the checksum's range begins, and the place of the checksum in it.
    sum_from: u16,
    sum_at: u16,
}

impl Cut {
    /// For a frame as it is.
    #[inline]
    pub fn none(bytes: usize) -> Self {
        Self { copied: bytes as u16, ..Self::default() }
    }

    /// For a message of datagrams with `each` bytes of payload. The checksum's range begins at `sum_from`;
    /// the checksum is `sum_at` bytes behind that.
    #[inline]
    pub fn datagrams(bytes: usize, each: usize, sum_from: usize, sum_at: usize) -> Self {
        Self {
            flags: NEEDS_CHECKSUM,
            kind: DATAGRAMS,
            copied: bytes as u16,
            each: each as u16,
            sum_from: sum_from as u16,
            sum_at: sum_at as u16,
        }
    }

    /// Reads it from the bytes before a frame.
    #[inline]
    pub fn from_bytes(bytes: [u8; CUT]) -> Self {
        let [flags, kind, a, b, c, d, e, f, g, h] = bytes;
        let [copied, each, sum_from, sum_at] = [[a, b], [c, d], [e, f], [g, h]].map(u16::from_ne_bytes);
        Self { flags, kind, copied, each, sum_from, sum_at }
    }

    /// Whether it stands before a superpacket.
    #[inline]
    pub fn is_merged(self) -> bool {
        self.kind != 0
    }

    /// The shape of the superpacket of `bytes` bytes that begins so. `None` if it cannot be cut: it is in a
    /// tunnel, or neither TCP nor UDP.
    #[inline]
    pub fn shape(self, beginning: &[u8], bytes: usize) -> Option<Superpacket> {
        let kind = self.kind & !CONGESTED;
        let shape = Superpacket::of(beginning, bytes, self.each.into())
            .filter(|_| kind == DATAGRAMS || SEGMENTS.contains(&kind))?;
        // The checksum is that of the innermost packet. The kernel may have taken a VLAN tag out.
        let inner = usize::from(self.sum_from);
        let is_inner = [inner, inner + VLAN_BYTES].contains(&shape.transport());
        (self.flags & NEEDS_CHECKSUM == 0 || is_inner).then_some(shape)
    }

    /// Completes the checksum of a frame from which `taken_out` bytes were taken out before the packet, if
    /// that was left to hardware.
    #[inline]
    pub fn complete(self, frame: &mut [u8], taken_out: usize) {
        if self.flags & NEEDS_CHECKSUM == 0 {
            return;
        }
        let Some(covered) = frame.get_mut(usize::from(self.sum_from) + taken_out..) else { return };
        // The place of the checksum has the sum of the pseudo-header.
        let sum = checksum(covered);
        let at = usize::from(self.sum_at);
        if let Some(place) = covered.get_mut(at..at + 2) {
            place.copy_from_slice(&if sum == 0 { u16::MAX } else { sum }.to_be_bytes());
        }
    }

    /// Its bytes, as they are before a frame.
    #[inline]
    pub fn to_bytes(self) -> [u8; CUT] {
        let [a, b] = self.copied.to_ne_bytes();
        let [c, d] = self.each.to_ne_bytes();
        let [e, f] = self.sum_from.to_ne_bytes();
        let [g, h] = self.sum_at.to_ne_bytes();
        [self.flags, self.kind, a, b, c, d, e, f, g, h]
    }
}

/// Frames to send.
#[derive(Debug)]
pub struct Departures<M = MmapRaw> {
    ring: Ring<M>,
    /// The contents of each slot.
    contents: Box<[Taken]>,
    /// The oldest slot that the kernel is not known to have taken.
    oldest: usize,
    /// Frames in that slot and later ones.
    waiting: usize,
}

/// Frames that the kernel has taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Taken {
    /// Their number.
    pub frames: u64,
    /// Their bytes.
    pub bytes: u64,
}

impl Departures {
    /// For frames of up to `longest` bytes.
    pub(super) fn new(socket: BorrowedFd<'_>, slots: usize, longest: usize) -> io::Result<Self> {
        set(socket, abi::SOL_PACKET, abi::PACKET_VNET_HDR, &1)?;
        Ring::new(socket, abi::PACKET_TX_RING, slots, longest).map(Self::over)
    }
}

impl<M: Borrow<MmapRaw>> Departures<M> {
    fn over(ring: Ring<M>) -> Self {
        Self { contents: vec![Taken::default(); ring.slots].into(), oldest: ring.next, waiting: 0, ring }
    }

    /// The longest frame that can be sent, in bytes.
    pub fn longest(&self) -> usize {
        self.ring.longest()
    }

    /// Frames that the kernel is not known to have taken.
    #[inline]
    pub fn waiting(&self) -> usize {
        self.waiting
    }

    /// Free slots in a row from the next one on, at most `most`.
    pub fn free(&self, most: usize) -> usize {
        let most = most.min(self.ring.slots - self.ring.next.wrapping_sub(self.oldest));
        let free = |ahead: &usize| {
            let status = self.ring.status(self.ring.next.wrapping_add(*ahead));
            status.load(Ordering::Acquire) == abi::TP_STATUS_AVAILABLE
        };
        // Slots are given back nearly in order: if the last one is free, the ones before are nearly always,
        // too.
        if most > 0 && free(&(most - 1)) && free(&0) {
            return most;
        }
        (0..most).take_while(free).count()
    }

    /// Puts a frame of at most [`longest`](Self::longest) bytes into the next slot. Returns false if the ring
    /// is full.
    #[inline]
    pub fn put(&mut self, frame: &[u8]) -> bool {
        self.put_message(frame, Cut::none(frame.len()), Taken { frames: 1, bytes: frame.len() as u64 })
    }

    /// Puts a message into the next slot, which the kernel cuts into frames.
    #[inline]
    pub fn put_message(&mut self, bytes: &[u8], cut: Cut, contents: Taken) -> bool {
        let status = self.ring.status(self.ring.next);
        if bytes.len() > self.ring.longest() || status.load(Ordering::Acquire) != abi::TP_STATUS_AVAILABLE {
            return false;
        }
        let slot = self.ring.slot(self.ring.next);
        // SAFETY: the slot is ours. Header, cut and frame lie within it, one after the other, and the length
        // is aligned. `bytes` is a slice of other memory; no slice of a transmit slot is ever formed.
        unsafe {
            (&raw mut (*slot.cast::<tpacket2_hdr>()).tp_len).write((CUT + bytes.len()) as u32);
            let before = slot.add(TO_SEND);
            before.cast::<[u8; CUT]>().write(cut.to_bytes());
            before.add(CUT).copy_from_nonoverlapping(bytes.as_ptr(), bytes.len());
        }
        status.store(abi::TP_STATUS_SEND_REQUEST, Ordering::Release);
        self.contents[self.ring.next & (self.ring.slots - 1)] = contents;
        self.waiting += contents.frames as usize;
        self.ring.next = self.ring.next.wrapping_add(1);
        true
    }

    /// Takes back the slots of frames that the kernel has taken, and counts them.
    ///
    /// # Errors
    /// The kernel refused a frame (`TP_STATUS_WRONG_FORMAT`).
    pub fn reclaim(&mut self) -> io::Result<Taken> {
        let mut taken = Taken::default();
        while self.oldest != self.ring.next {
            match self.ring.status(self.oldest).load(Ordering::Acquire) {
                abi::TP_STATUS_SEND_REQUEST => break,
                abi::TP_STATUS_WRONG_FORMAT => return Err(io::ErrorKind::InvalidData.into()),
                _ => {
                    let Taken { frames, bytes } = self.contents[self.oldest & (self.ring.slots - 1)];
                    taken.frames += frames;
                    taken.bytes += bytes;
                    self.waiting -= frames as usize;
                    self.oldest = self.oldest.wrapping_add(1);
                }
            }
        }
        Ok(taken)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use std::sync::Arc;
    use std::thread::{spawn, yield_now};

    const SLOTS: usize = 4;
    const FRAMES: usize = if cfg!(miri) { 24 } else { 50_000 };
    /// Where the kernel puts a received frame in its slot.
    const FRAME_AT: u16 = 82;

    /// Two rings in the same memory: ours, and the kernel's view of it.
    fn rings() -> [Ring<Arc<MmapRaw>>; 2] {
        let map = Arc::new(MmapRaw::from(MmapOptions::new().len(SLOTS * SLOT).map_anon().unwrap()));
        [map.clone(), map].map(|map| Ring { map, slots: SLOTS, slot: SLOT, next: usize::MAX - 1 })
    }

    /// A frame of each length in turn, with its number in each byte.
    fn frame(number: usize) -> Vec<u8> {
        vec![number as u8; 14 + number % 100]
    }

    fn wait(ring: &Ring<Arc<MmapRaw>>, slot: usize, status: u32) {
        while ring.status(slot).load(Ordering::Acquire) != status {
            yield_now();
        }
    }

    /// The kernel: it puts a frame into each slot that is its own.
    fn deliver(ring: &Ring<Arc<MmapRaw>>, first: usize) {
        for number in 0..FRAMES {
            let at = first.wrapping_add(number);
            wait(ring, at, abi::TP_STATUS_KERNEL);
            let bytes = frame(number);
            // SAFETY: the slot is the kernel's, and all is written within it.
            unsafe {
                let slot = ring.slot(at);
                let header = slot.cast::<tpacket2_hdr>();
                (&raw mut (*header).tp_len).write(bytes.len() as u32);
                (&raw mut (*header).tp_snaplen).write(bytes.len() as u32);
                (&raw mut (*header).tp_mac).write(FRAME_AT);
                (&raw mut (*header).tp_sec).write(number as u32);
                (&raw mut (*header).tp_nsec).write(7);
                slot.add(usize::from(FRAME_AT) - CUT).cast::<[u8; CUT]>().write([number as u8; CUT]);
                slot.add(FRAME_AT.into()).copy_from_nonoverlapping(bytes.as_ptr(), bytes.len());
            }
            ring.status(at).store(abi::TP_STATUS_USER, Ordering::Release);
        }
    }

    /// Miri sees a race if one side does not wait for the other.
    #[test]
    fn frames_arrive_whole_and_in_order() {
        let [ours, kernel] = rings();
        let first = ours.next;
        let kernel = spawn(move || deliver(&kernel, first));
        let mut arrivals = Arrivals(ours);
        for number in 0..FRAMES {
            let seen = |it: Arrived<'_>| {
                assert_eq!(it.cut, Cut::from_bytes([it.bytes[0]; CUT]));
                assert_eq!((it.length, it.cut.to_bytes()), (it.bytes.len(), [it.bytes[0]; CUT]));
                (it.bytes.to_vec(), it.whole, it.tag, it.stamp)
            };
            let seen = loop {
                match arrivals.take(seen) {
                    Some(seen) => break seen,
                    None => yield_now(),
                }
            };
            assert_eq!(seen, (frame(number), true, None, number as u64 * 1_000_000_000 + 7));
        }
        kernel.join().unwrap();
        assert!(arrivals.take(|_| ()).is_none());
    }

    /// Whatever the kernel writes into a header, no byte outside of the slot is read.
    #[test]
    fn a_frame_ends_with_its_slot() {
        let [ours, kernel] = rings();
        let mut arrivals = Arrivals(ours);
        for (from, length) in [(0, u32::MAX), (u16::MAX, u32::MAX), (SLOT as u16, 1), (SLOT as u16 - 1, 2)] {
            let at = arrivals.0.next;
            // SAFETY: the slot is the kernel's, and all is written within it.
            unsafe {
                let header = kernel.slot(at).cast::<tpacket2_hdr>();
                (&raw mut (*header).tp_len).write(length);
                (&raw mut (*header).tp_snaplen).write(length);
                (&raw mut (*header).tp_mac).write(from);
            }
            kernel.status(at).store(abi::TP_STATUS_USER | abi::TP_STATUS_VLAN_VALID, Ordering::Release);
            let seen = arrivals.take(|it| (it.bytes.len(), it.whole, it.tag)).unwrap();
            let left = SLOT - usize::from(from).min(SLOT);
            assert_eq!(seen, (left, left == length as usize, Some([0x81, 0, 0, 0])), "{from} {length}");
        }
    }

    #[test]
    fn frames_depart_whole_and_in_order() {
        let [ours, kernel] = rings();
        let first = ours.next;
        let kernel = spawn(move || {
            for number in 0..FRAMES {
                let at = first.wrapping_add(number);
                wait(&kernel, at, abi::TP_STATUS_SEND_REQUEST);
                let mut bytes = vec![0; CUT + frame(number).len()];
                // SAFETY: the slot is the kernel's, and the frame within it.
                unsafe {
                    let header = kernel.slot(at).cast::<tpacket2_hdr>();
                    assert_eq!((&raw const (*header).tp_len).read() as usize, bytes.len());
                    let from = kernel.slot(at).add(TO_SEND);
                    from.copy_to_nonoverlapping(bytes.as_mut_ptr(), bytes.len());
                }
                assert_eq!(bytes[CUT..], frame(number));
                kernel.status(at).store(abi::TP_STATUS_AVAILABLE, Ordering::Release);
            }
        });
        let mut departures = Departures::over(ours);
        let (mut put, mut taken) = (0, Taken::default());
        while taken.frames < FRAMES as u64 {
            if put < FRAMES && departures.free(1) == 1 {
                assert!(departures.put(&frame(put)));
                put += 1;
            } else {
                yield_now();
            }
            let Taken { frames, bytes } = departures.reclaim().unwrap();
            taken = Taken { frames: taken.frames + frames, bytes: taken.bytes + bytes };
            assert_eq!(departures.waiting() as u64, put as u64 - taken.frames);
        }
        kernel.join().unwrap();
        assert_eq!(taken.bytes, (0..FRAMES).map(|number| frame(number).len() as u64).sum::<u64>());
        assert_eq!((departures.free(9), departures.put(&vec![0; SLOT - HEADERS + 1])), (SLOTS, false));
    }
}
