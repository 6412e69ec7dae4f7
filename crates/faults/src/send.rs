//! How frames get into a transmit queue: all the ways that the driver has for it.

use crate::buffers::{BUFFER_BYTES, Buf, Pool};
use crate::card::Slot;
use crate::check::{Breach, Check};
use crate::plan::Sending;
use crate::traffic::{self, PAYLOAD};
use fastrand::Rng;
use kpps_datasheet::Chip;
use kpps_driver::{Checksums, Fragment, Offload, Refusal, Segmentation, Sum, TxMeta, TxQueue};
use kpps_frames::{checksum, ipv4};
use kpps_platform::{Buffer, BufferSource};
use std::cell::Cell;
use std::net::Ipv4Addr;
use std::rc::Rc;

/// The driver pads shorter frames, in bytes without FCS.
const LEAST_BYTES: u64 = 60;
/// The number of segments of the longest frame.
const SEGMENTS: u64 = 4;
/// Where the headers begin, and their checksum fields.
const IP: usize = 14;
const UDP: usize = IP + ipv4::HEADER_BYTES;
const IP_SUM: Sum = Sum { start: IP as u8, field: IP as u8 + 10, end: UDP as u16 - 1 };
const UDP_SUM: Sum = Sum { start: UDP as u8, field: UDP as u8 + 6, end: 0 };

/// What should have been counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sent {
    pub(crate) frames: u64,
    pub(crate) bytes: u64,
    pub(crate) full: u64,
}

/// Queues frames as the plan says.
pub(crate) struct Sender {
    sending: Sending,
    /// Checksums of IPv4 and UDP may be left to the card: all frames have good headers.
    offloads: bool,
    chip: Chip,
    pool: Pool,
    pub(crate) sent: Sent,
    random: Rng,
    check: Rc<Check>,
}

type Queue = TxQueue<Slot, Pool>;

impl Sender {
    pub(crate) fn new(
        (sending, offloads): (Sending, bool),
        chip: Chip,
        seed: u64,
        pool: &Pool,
        check: &Rc<Check>,
    ) -> Self {
        let offloads = offloads && chip.has_checksum_offload();
        let (pool, check) = (pool.clone(), check.clone());
        Self { sending, offloads, chip, pool, sent: Sent::default(), random: Rng::with_seed(seed), check }
    }

    /// How many frames there is room for.
    pub(crate) fn room(&self, queue: &Queue) -> u64 {
        let each = match self.sending {
            // Chips whose errata split a buffer need two descriptors for it; with two such errata, four.
            Sending::Each | Sending::Bursts | Sending::Again if self.chip == Chip::I82544 => 4,
            Sending::Each | Sending::Bursts | Sending::Again => 2,
            // Three fragments, each of which may need four, and a context.
            Sending::Parts | Sending::Segments => 14,
        };
        (queue.free() / each) as u64
    }

    /// Queues frames; those for which there is no room go back to the pool.
    pub(crate) fn send(&mut self, queue: &mut Queue, frames: impl Iterator<Item = (Buf, u16)>) {
        if self.sending == Sending::Bursts {
            return self.send_burst(queue, frames);
        }
        for (buffer, bytes) in frames {
            let refused = if self.sending == Sending::Parts {
                if self.random.u8(..16) == 0 {
                    self.send_nonsense(queue);
                }
                self.send_parts(queue, buffer, bytes)
            } else {
                let sent = queue.send(buffer, bytes);
                sent.map_err(|refused| {
                    self.pool.give(refused.frame.buffer);
                    refused.reason
                })
            };
            self.count(bytes, refused);
        }
    }

    fn send_burst(&mut self, queue: &mut Queue, frames: impl Iterator<Item = (Buf, u16)>) {
        let drawn = Cell::new((0, 0, 0));
        let mut frames = frames.map(|(buffer, bytes)| {
            let (frames, sum, _) = drawn.get();
            let counted = LEAST_BYTES.max(bytes.into());
            drawn.set((frames + 1, sum + counted, counted));
            Fragment { buffer, bytes }
        });
        let sent = queue.send_burst(&mut frames);
        let (mut drawn, mut bytes, last) = drawn.get();
        match sent {
            Ok(sent) if sent as u64 == drawn => {}
            Ok(_) => self.check.breach(Breach::DriverCounters("frames of a burst")),
            // The last one that it took needed more descriptors than there were.
            Err(refused) => {
                (drawn, bytes) = (drawn - 1, bytes - last);
                self.pool.give(refused.frame.buffer);
                match refused.reason {
                    Refusal::Full => self.sent.full += 1,
                    reason => self.check.breach(Breach::Refused(reason)),
                }
            }
        }
        self.sent.frames += drawn;
        self.sent.bytes += bytes;
        for Fragment { buffer, .. } in frames {
            self.pool.give(buffer);
        }
    }

    /// Sends a frame in up to three buffers.
    fn send_parts(&mut self, queue: &mut Queue, mut buffer: Buf, bytes: u16) -> Result<(), Refusal> {
        let meta =
            if self.offloads && self.random.bool() { self.checksums(&mut buffer, bytes) } else { None };
        let bytes = usize::from(bytes);
        let mut parts = Vec::with_capacity(3);
        let mut end = bytes;
        while parts.len() < 2 && end > PAYLOAD && self.random.bool() {
            let Some(mut part) = self.pool.take() else { break };
            let from = self.random.usize(1..end);
            let Some(to) = part.bytes_mut().get_mut(..end - from) else { break };
            to.copy_from_slice(&buffer.bytes()[from..end]);
            part.sends = true;
            parts.push(Fragment { buffer: part, bytes: (end - from) as u16 });
            end = from;
        }
        parts.push(Fragment { buffer, bytes: end as u16 });
        self.enqueue(queue, parts.into_iter().rev(), &meta.unwrap_or_default())
    }

    /// Tries to send what cannot be sent: it is refused, and nothing has changed.
    fn send_nonsense(&mut self, queue: &mut Queue) {
        let all = Segmentation {
            ip: IP_SUM,
            transport: UDP_SUM,
            is_ipv4: true,
            is_tcp: false,
            header_bytes: PAYLOAD as u8,
            payload_bytes: 100,
            mss: 50,
        };
        let capacity = BUFFER_BYTES as u16 + 1024;
        let right = PAYLOAD as u16 + 100;
        let plain = TxMeta::default();
        let vlan = TxMeta { vlan: Some(7), ..plain };
        let segment = |segmentation| TxMeta { vlan: None, offload: Offload::Segment(segmentation) };
        let (parts, meta): (&[u16], _) = match self.random.u8(..11) {
            0 => (&[], plain),
            1 => (&[60, 0], plain),
            2 => (&[capacity + 1], plain),
            3 => (&[2000; 9], plain),
            4 => (&[60], vlan),
            5 => (&[right - 50, 49], segment(all)),
            6 => (&[right - 50, 51], segment(all)),
            7 => (&[right], segment(Segmentation { mss: 0, ..all })),
            8 => (&[right], segment(Segmentation { header_bytes: 0, payload_bytes: right.into(), ..all })),
            9 => (&[PAYLOAD as u16], segment(Segmentation { payload_bytes: 0, ..all })),
            _ => (&[right], segment(Segmentation { mss: u16::MAX, ..all })),
        };
        let unsupported = match meta.offload {
            Offload::Segment(_) => !self.chip.has_tso(),
            _ => meta.vlan.is_some(),
        };
        let expected = if unsupported { Refusal::Unsupported } else { Refusal::Invalid };
        let mut fragments = Vec::with_capacity(parts.len());
        for &bytes in parts {
            let Some(mut buffer) = self.pool.take() else { return };
            buffer.sends = true;
            fragments.push(Fragment { buffer, bytes });
        }
        let free = queue.free();
        match self.enqueue(queue, fragments.into_iter(), &meta) {
            Err(Refusal::Full) => self.sent.full += 1,
            Err(reason) if reason == expected && queue.free() == free => {}
            Err(reason) => self.check.breach(Breach::Refused(reason)),
            Ok(()) => self.check.breach(Breach::DriverCounters("a frame that cannot be sent")),
        }
        let Some(buffer) = self.pool.take() else { return };
        let bytes = if self.random.bool() { 0 } else { capacity + 1 };
        match queue.send(buffer, bytes) {
            Ok(()) => self.check.breach(Breach::DriverCounters("a frame that cannot be sent")),
            Err(refused) => {
                self.sent.full += u64::from(refused.reason == Refusal::Full);
                self.pool.give(refused.frame.buffer);
            }
        }
    }

    fn enqueue(
        &mut self,
        queue: &mut Queue,
        parts: impl ExactSizeIterator<Item = Fragment<Buf>>,
        meta: &TxMeta,
    ) -> Result<(), Refusal> {
        queue.enqueue(parts, meta).map_err(|refused| {
            for Fragment { buffer, .. } in refused.frame {
                self.pool.give(buffer);
            }
            refused.reason
        })
    }

    /// Prepares a frame of IPv4 so that the card inserts its checksums.
    fn checksums(&mut self, buffer: &mut Buf, bytes: u16) -> Option<TxMeta> {
        let frame = buffer.bytes_mut().get_mut(..bytes.into())?;
        if frame.get(12..14) != Some(&[8, 0]) {
            return None;
        }
        frame.get_mut(IP_SUM.field.into()..)?.get_mut(..2)?.fill(0);
        let is_udp = frame.get(IP + 9) == Some(&ipv4::PROTOCOL_UDP) && self.random.bool();
        if is_udp {
            let length = frame.get(UDP + 4..UDP + 6)?.try_into().map(u16::from_be_bytes).ok()?;
            put_pseudo_header(frame, length)?;
        }
        let transport = is_udp.then_some(UDP_SUM);
        Some(TxMeta { vlan: None, offload: Offload::Checksum(Checksums { ip: Some(IP_SUM), transport }) })
    }

    /// Sends up to `most` frames like `template` that the card makes of one, with its payload in two buffers.
    /// `number` gives each its number. Returns how many were queued.
    pub(crate) fn send_segments(
        &mut self,
        queue: &mut Queue,
        template: &[u8],
        most: u64,
        mut number: impl FnMut() -> u64,
    ) -> u64 {
        let each = template.len() - PAYLOAD;
        let many = most.min(SEGMENTS).min((BUFFER_BYTES / each) as u64).max(1) as usize;
        let (Some(mut header), Some(mut payload)) = (self.pool.take(), self.pool.take()) else { return 0 };
        let mut frame = template.to_vec();
        frame[IP + 2..IP + 4].fill(0);
        frame[usize::from(IP_SUM.field)..][..2].fill(0);
        if put_pseudo_header(&mut frame, 0).is_none() {
            return 0;
        }
        let bytes = payload.bytes_mut();
        for segment in 0..many {
            traffic::write(&mut frame, 0, number());
            bytes[segment * each..][..each].copy_from_slice(&frame[PAYLOAD..]);
        }
        // The first buffer has the headers and part of the payload.
        let cut = self.random.usize(0..each);
        let head = header.bytes_mut();
        head[..PAYLOAD].copy_from_slice(&frame[..PAYLOAD]);
        head[PAYLOAD..PAYLOAD + cut].copy_from_slice(&bytes[..cut]);
        bytes.copy_within(cut..many * each, 0);
        (header.sends, payload.sends) = (true, true);
        let all = many * each;
        let parts = [
            Fragment { buffer: header, bytes: (PAYLOAD + cut) as u16 },
            Fragment { buffer: payload, bytes: (all - cut) as u16 },
        ];
        let segmentation = Segmentation {
            ip: IP_SUM,
            transport: UDP_SUM,
            is_ipv4: true,
            is_tcp: false,
            header_bytes: PAYLOAD as u8,
            payload_bytes: all as u32,
            mss: each as u16,
        };
        let meta = TxMeta { vlan: None, offload: Offload::Segment(segmentation) };
        let sent = self.enqueue(queue, parts.into_iter(), &meta);
        self.count((PAYLOAD + all) as u16, sent);
        many as u64
    }

    /// Whether frames are sent in segments.
    pub(crate) fn segments(&self) -> bool {
        self.sending == Sending::Segments && self.chip.has_tso()
    }

    /// Sends up to `most` frames in the buffers of frames that were sent; `write` writes one and returns its
    /// length. Returns how many were queued.
    pub(crate) fn send_again(
        &mut self,
        queue: &mut Queue,
        most: u64,
        mut write: impl FnMut(&mut Buf) -> u16,
    ) -> u64 {
        if self.sending != Sending::Again {
            return 0;
        }
        let mut written = 0;
        let sent = queue.send_again(most as usize, |buffer| {
            let bytes = write(buffer);
            written += 1;
            self.sent.frames += 1;
            self.sent.bytes += u64::from(bytes);
            bytes
        });
        if sent as u64 != written || written > most {
            self.check.breach(Breach::DriverCounters("frames sent again"));
        }
        written
    }

    fn count(&mut self, bytes: u16, sent: Result<(), Refusal>) {
        match sent {
            Ok(()) => {
                self.sent.frames += 1;
                self.sent.bytes += LEAST_BYTES.max(bytes.into());
            }
            Err(Refusal::Full) => self.sent.full += 1,
            Err(reason) => self.check.breach(Breach::Refused(reason)),
        }
    }
}

/// Puts the sum of the pseudo-header into a frame's UDP checksum.
fn put_pseudo_header(frame: &mut [u8], length: u16) -> Option<()> {
    let address = |at: usize| Some(Ipv4Addr::from(<[u8; 4]>::try_from(frame.get(at..at + 4)?).ok()?));
    let (from, to) = (address(IP + 12)?, address(IP + 16)?);
    let sum = checksum::Sum::pseudo_header(from, to, ipv4::PROTOCOL_UDP, length).folded();
    frame.get_mut(UDP_SUM.field.into()..)?.get_mut(..2)?.copy_from_slice(&sum.to_be_bytes());
    Some(())
}
