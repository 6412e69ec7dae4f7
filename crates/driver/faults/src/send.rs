//! How frames get into a transmit queue: all the ways that the driver has for it.

use crate::buffers::{Buf, Pool};
use crate::card::Slot;
use crate::check::{Breach, Check};
use crate::plan::{Sending, Use, WorldPlan};
use crate::traffic::{self, PAYLOAD};
use fastrand::Rng;
use kpps_datasheet::{Chip, Erratum, desc};
use kpps_driver::{Checksums, Fragment, Offload, Refusal, Segmentation, Sum, TxMeta, TxQueue};
use kpps_frames::{checksum, ipv4, udp};
use kpps_platform::{Buffer, BufferSource};
use std::cell::Cell;
use std::iter;
use std::net::Ipv4Addr;
use std::rc::Rc;

/// The driver pads shorter frames, in bytes without FCS.
const LEAST_BYTES: u64 = 60;
/// The longest frame that the driver sends, in bytes without FCS (SDM 3.3.3).
const MOST_BYTES: u16 = 16_288;
/// The most frames that are sent as one, in segments.
const SEGMENTS: u64 = 16;
/// Parts of the longest frame without segmentation that [`Sender::send_nonsense`] makes.
const NONSENSE_PARTS: usize = 9;
/// Where the headers begin, and their checksum fields.
const IP: usize = 14;
const UDP: usize = IP + ipv4::HEADER_BYTES;
const IP_SUM: Sum = Sum { start: IP as u8, field: IP as u8 + 10, end: UDP as u16 - 1 };
const UDP_SUM: Sum = Sum { start: UDP as u8, field: UDP as u8 + 6, end: 0 };

/// The counts that are expected.
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
    /// A sender's own frames get tags from the card.
    tags: bool,
    chip: Chip,
    pcix: bool,
    /// The transmit part of the packet buffer.
    fifo_bytes: u32,
    pool: Pool,
    pub(crate) sent: Sent,
    random: Rng,
    check: Rc<Check>,
}

type Queue = TxQueue<Slot, Pool>;

impl Sender {
    pub(crate) fn new(plan: &WorldPlan, seed: u64, pool: &Pool, check: &Rc<Check>) -> Self {
        let headers = matches!(plan.usage, Use::Send | Use::Route | Use::Nat);
        Self {
            sending: plan.sending,
            offloads: headers && plan.chip.has_checksum_offload(),
            tags: plan.tagged && plan.sending == Sending::Parts,
            chip: plan.chip,
            pcix: plan.pcix,
            fifo_bytes: plan.chip.packet_buffer_bytes()
                - plan
                    .config
                    .rx_fifo_kb
                    .map_or(plan.chip.default_rx_buffer_bytes(), |kb| u32::from(kb) * 1024),
            pool: pool.clone(),
            sent: Sent::default(),
            random: Rng::with_seed(seed),
            check: check.clone(),
        }
    }

    fn wrong(&self, what: &'static str) {
        self.check.breach(Breach::DriverCounters(what));
    }

    /// The most descriptors that a frame in `parts` parts may need. The parts have `bytes` bytes together,
    /// and a descriptor has at most `limit`.
    fn most_descriptors(&self, parts: usize, bytes: u32, limit: u32) -> usize {
        let has = |erratum| self.chip.has(erratum);
        let crossing = if has(Erratum::No64KCrossing) { 2 } else { 1 };
        let ends = if self.pcix && has(Erratum::DwordEndPcix) { 2 } else { 1 };
        let first = usize::from(self.pcix && has(Erratum::FirstDescriptor2015));
        (parts * crossing + (bytes / limit) as usize + first) * ends
    }

    /// The most descriptors that a frame in `parts` parts may need.
    fn most_of(&self, parts: usize, meta: &TxMeta) -> usize {
        match meta.offload {
            Offload::None => self.most_descriptors(parts, 0, 1),
            Offload::Checksum(_) => self.most_descriptors(parts, 0, 1) + 1,
            Offload::Segment(s) => {
                let bytes = u32::from(s.header_bytes) + s.payload_bytes;
                let last = usize::from(self.chip.has(Erratum::SegmentationSentinel));
                self.most_descriptors(parts, bytes, 4 * u32::from(s.mss.max(1))) + 1 + last
            }
        }
    }

    /// A frame for which there is room is not refused, and a refused one changes nothing. `most`: the most
    /// descriptors that it may need.
    fn judge(&self, queue: &Queue, free: usize, most: usize, sent: Result<(), Refusal>) {
        let used = free.wrapping_sub(queue.free());
        match sent {
            Ok(()) if used == 0 || used > most => self.wrong("descriptors of a frame"),
            Err(Refusal::Full) if most <= free => self.wrong("a full ring that has room"),
            Err(_) if used != 0 => self.wrong("descriptors of a refused frame"),
            _ => {}
        }
    }

    /// Queues frames; those for which there is no room go back to the pool.
    pub(crate) fn send(&mut self, queue: &mut Queue, mut frames: impl Iterator<Item = (Buf, u16)>) {
        if self.sending == Sending::Bursts {
            self.send_burst(queue, &mut frames);
            return frames.for_each(|(buffer, _)| self.pool.give(buffer));
        }
        for (buffer, bytes) in frames {
            self.send_one(queue, buffer, bytes);
        }
    }

    /// Queues a frame; returns whether it was queued.
    fn send_one(&mut self, queue: &mut Queue, buffer: Buf, bytes: u16) -> bool {
        let sent = if self.sending == Sending::Parts {
            if self.random.u8(..16) == 0 {
                self.send_nonsense(queue);
            }
            self.send_parts(queue, buffer, bytes)
        } else {
            let free = queue.free();
            let sent = queue.send(buffer, bytes).map_err(|refused| {
                // A short one may have been padded.
                if refused.frame.bytes != bytes && refused.frame.bytes > LEAST_BYTES as u16 {
                    self.wrong("a refused frame");
                }
                self.pool.give(refused.frame.buffer);
                refused.reason
            });
            self.judge(queue, free, self.most_descriptors(1, 0, 1), sent);
            sent
        };
        self.count(bytes, sent);
        sent.is_ok()
    }

    /// Queues as many frames as there is room for. Returns how many. Frames that were not drawn stay in
    /// `frames`.
    fn send_burst(&mut self, queue: &mut Queue, frames: &mut impl Iterator<Item = (Buf, u16)>) -> u64 {
        let drawn = Cell::new((0, 0, 0));
        let mut fragments = iter::from_fn(|| {
            let (buffer, bytes) = frames.next()?;
            let (frames, sum, _) = drawn.get();
            let counted = LEAST_BYTES.max(bytes.into());
            drawn.set((frames + 1, sum + counted, counted));
            Some(Fragment { buffer, bytes })
        });
        let free = queue.free();
        let sent = queue.send_burst(&mut fragments);
        let more = fragments.next();
        let (mut drawn, mut bytes, last) = drawn.get();
        if let Some(Fragment { buffer, .. }) = more {
            (drawn, bytes) = (drawn - 1, bytes - last);
            self.pool.give(buffer);
            if sent.is_ok() && queue.free() > 0 {
                self.wrong("a burst that has room");
            }
        }
        match sent {
            Ok(sent) if sent as u64 == drawn => {}
            Ok(_) => self.wrong("frames of a burst"),
            // The last one that it took needed more descriptors than there were.
            Err(refused) => {
                let last = LEAST_BYTES.max(refused.frame.bytes.into());
                (drawn, bytes) = (drawn - 1, bytes - last);
                self.pool.give(refused.frame.buffer);
                match refused.reason {
                    Refusal::Full if queue.free() < self.most_descriptors(1, 0, 1) => self.sent.full += 1,
                    reason => self.check.breach(Breach::Refused(reason)),
                }
            }
        }
        if free - queue.free() < drawn as usize {
            self.wrong("descriptors of a burst");
        }
        self.sent.frames += drawn;
        self.sent.bytes += bytes;
        drawn
    }

    /// Sends a frame in up to three buffers.
    fn send_parts(&mut self, queue: &mut Queue, mut buffer: Buf, bytes: u16) -> Result<(), Refusal> {
        let sums =
            if self.offloads && self.random.bool() { self.checksums(&mut buffer, bytes) } else { None };
        let meta = TxMeta { vlan: buffer.tag.take(), offload: sums.map_or(Offload::None, Offload::Checksum) };
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
        self.enqueue(queue, parts.into_iter().rev(), &meta)
    }

    /// Tries to send impossible frames: they are refused, and nothing has changed.
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
        let capacity = self.pool.buffer_bytes() as u16;
        let right = PAYLOAD as u16 + 100;
        let most = capacity.min(2000);
        let plain = TxMeta::default();
        let vlan = TxMeta { vlan: Some(7), ..plain };
        let segment = |segmentation| TxMeta { vlan: None, offload: Offload::Segment(segmentation) };
        let many = vec![most; NONSENSE_PARTS];
        // The longest payload of a segmented frame (SDM 3.3.6), and the longest segment: beside it 80 bytes
        // of the FIFO stay free.
        let longest = Segmentation { payload_bytes: desc::DATA_MAX_BYTES, ..all };
        let widest = Segmentation { mss: (self.fifo_bytes - 80 - PAYLOAD as u32) as u16, ..longest };
        // Some mistakes are seen only while the parts are drawn: after the question for room.
        let (parts, meta, late): (&[u16], _, _) = match self.random.u8(..15) {
            0 => (&[], plain, false),
            1 => (&[60, 0], plain, true),
            2 => (&[capacity + 1], plain, true),
            3 => (&many, plain, true),
            4 => (&[60], vlan, false),
            5 => (&[right - 50, 49], segment(all), true),
            6 => (&[right - 50, 51], segment(all), true),
            7 => (&[right], segment(Segmentation { mss: 0, ..all }), false),
            8 => {
                let all = Segmentation { header_bytes: 0, payload_bytes: right.into(), ..all };
                (&[right], segment(all), false)
            }
            9 => (&[PAYLOAD as u16], segment(Segmentation { payload_bytes: 0, ..all }), false),
            10 => (&[right, 1], segment(all), true),
            11 => (&[right], segment(longest), true),
            12 => {
                let all = Segmentation { payload_bytes: desc::DATA_MAX_BYTES + 1, ..all };
                (&[right], segment(all), false)
            }
            13 => (&[right], segment(widest), true),
            _ => (&[right], segment(Segmentation { mss: widest.mss + 1, ..longest }), false),
        };
        let unsupported = match meta.offload {
            Offload::Segment(_) => !self.chip.has_tso(),
            _ => meta.vlan.is_some(),
        };
        if meta.vlan.is_some() && self.tags {
            return; // It can be sent.
        }
        let mut fragments = Vec::with_capacity(parts.len());
        for &bytes in parts {
            let Some(mut buffer) = self.pool.take() else { return };
            buffer.sends = true;
            fragments.push(Fragment { buffer, bytes });
        }
        let expected = if unsupported {
            Refusal::Unsupported
        } else if late && queue.free() < self.most_of(parts.len(), &meta) {
            self.sent.full += 1;
            Refusal::Full
        } else {
            Refusal::Invalid
        };
        let outside = self.pool.outside() - fragments.len();
        match self.enqueue(queue, fragments.into_iter(), &meta) {
            Err(reason) if reason == expected => {}
            Err(reason) => self.check.breach(Breach::Refused(reason)),
            Ok(()) => self.wrong("a frame that cannot be sent"),
        }
        if self.pool.outside() != outside {
            self.wrong("buffers of a frame that cannot be sent");
        }
        let Some(buffer) = self.pool.take() else { return };
        let bytes = [0, capacity + 1, MOST_BYTES + 1, u16::MAX][self.random.usize(..4)];
        let free = queue.free();
        let sent = queue.send(buffer, bytes).map_err(|refused| {
            self.pool.give(refused.frame.buffer);
            refused.reason
        });
        self.judge(queue, free, 1, sent);
        match sent {
            Ok(()) => self.wrong("a frame that cannot be sent"),
            Err(reason) => self.sent.full += u64::from(reason == Refusal::Full),
        }
    }

    /// Queues a frame in parts. The parts of a refused one go back to the pool.
    fn enqueue(
        &mut self,
        queue: &mut Queue,
        parts: impl ExactSizeIterator<Item = Fragment<Buf>>,
        meta: &TxMeta,
    ) -> Result<(), Refusal> {
        let (free, many) = (queue.free(), parts.len());
        let most = self.most_of(many, meta);
        let sent = queue.enqueue(parts, meta).map_err(|refused| {
            if refused.reason != Refusal::Invalid && refused.frame.len() != many {
                self.wrong("the parts of a refused frame");
            }
            for Fragment { buffer, .. } in refused.frame {
                self.pool.give(buffer);
            }
            refused.reason
        });
        self.judge(queue, free, most, sent);
        sent
    }

    /// Prepares a frame of IPv4 so that the card inserts its checksums.
    fn checksums(&mut self, buffer: &mut Buf, bytes: u16) -> Option<Checksums> {
        let frame = buffer.bytes_mut().get_mut(..bytes.into())?;
        if frame.get(12..14) != Some(&[8, 0]) {
            return None;
        }
        frame.get_mut(IP_SUM.field.into()..)?.get_mut(..2)?.fill(0);
        let is_udp = frame.get(IP + 9) == Some(&ipv4::PROTOCOL_UDP) && self.random.bool();
        let mut transport = None;
        if is_udp {
            let length = frame.get(UDP + 4..UDP + 6)?.try_into().map(u16::from_be_bytes).ok()?;
            put_pseudo_header(frame, length)?;
            transport = Some(datagram_sum(length, bytes));
        }
        Some(Checksums { ip: Some(IP_SUM), transport })
    }

    /// Queues up to `most` frames like `template` whose numbers begin with `first`, until the ring is full.
    /// Returns how many.
    pub(crate) fn send_own(&mut self, queue: &mut Queue, template: &[u8], most: u64, first: u64) -> u64 {
        let (mut pool, tags) = (self.pool.clone(), self.tags);
        let next = move |number| {
            let mut buffer = pool.take()?;
            let bytes = fill(&mut buffer, template, number);
            buffer.sends = true;
            buffer.tag = traffic::tag_of(number).filter(|_| tags);
            Some((buffer, bytes))
        };
        let mut next = next;
        let mut count = match self.sending {
            Sending::Again => self.send_again(queue, template, most, first),
            _ => 0,
        };
        match self.sending {
            Sending::Bursts => {
                let frames = (first..first + most).map_while(next);
                count = self.send_burst(queue, &mut frames.fuse());
            }
            Sending::Segments if self.chip.has_tso() => {
                while count < most {
                    match self.send_segments(queue, template, most - count, first + count) {
                        0 => break,
                        sent => count += sent,
                    }
                }
            }
            _ => {
                while count < most
                    && let Some((buffer, bytes)) = next(first + count)
                    && self.send_one(queue, buffer, bytes)
                {
                    count += 1;
                }
            }
        }
        count
    }

    /// Queues up to `most` frames like `template` that the card makes of one, with its payload in two
    /// buffers. Returns how many were queued.
    fn send_segments(&mut self, queue: &mut Queue, template: &[u8], most: u64, first: u64) -> u64 {
        let each = template.len() - PAYLOAD;
        let fit = (self.pool.buffer_bytes() / each) as u64;
        let many = most.min(self.random.u64(1..=SEGMENTS)).min(fit).max(1) as usize;
        let (Some(mut header), Some(mut payload)) = (self.pool.take(), self.pool.take()) else { return 0 };
        let mut frame = template.to_vec();
        frame[IP + 2..IP + 4].fill(0);
        frame[usize::from(IP_SUM.field)..][..2].fill(0);
        if put_pseudo_header(&mut frame, 0).is_none() {
            return 0;
        }
        let bytes = payload.bytes_mut();
        for (segment, number) in (0..many).zip(first..) {
            traffic::write(&mut frame, 0, number);
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
        if sent.is_ok() { many as u64 } else { 0 }
    }

    /// Sends up to `most` frames in the buffers of frames that were sent. Now and then one of a length that
    /// cannot be sent comes: it ends the call, and its buffer goes to the pool. Returns how many were queued.
    fn send_again(&mut self, queue: &mut Queue, template: &[u8], most: u64, first: u64) -> u64 {
        let (mut asked, mut unfit) = (0, 0);
        let before = (self.pool.outside(), queue.free());
        let random = &mut self.random;
        let sent = queue.send_again(most as usize, |buffer| {
            let bytes = fill(buffer, template, first + asked - unfit);
            asked += 1;
            if random.u8(..64) == 0 {
                unfit += 1;
                return [0, 59, buffer.capacity() as u16 + 1, MOST_BYTES + 1][random.usize(..4)];
            }
            bytes
        }) as u64;
        if sent + unfit != asked || sent > most || unfit > 1 {
            self.wrong("frames sent again");
        }
        // Each other frame has got the buffer of a sent frame.
        if self.pool.outside() + unfit as usize != before.0 || queue.free() < before.1 {
            self.wrong("buffers of frames sent again");
        }
        self.sent.frames += sent;
        self.sent.bytes += sent * template.len() as u64;
        sent
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

/// Writes frame `number` into a buffer; returns its bytes.
fn fill(buffer: &mut Buf, template: &[u8], number: u64) -> u16 {
    let frame = buffer.bytes_mut().get_mut(..template.len()).unwrap_or_default();
    frame.copy_from_slice(template);
    traffic::write(frame, 0, number);
    template.len() as u16
}

/// Puts the sum of the pseudo-header into a frame's UDP checksum.
fn put_pseudo_header(frame: &mut [u8], length: u16) -> Option<()> {
    let address = |at: usize| Some(Ipv4Addr::from(<[u8; 4]>::try_from(frame.get(at..at + 4)?).ok()?));
    let (from, to) = (address(IP + 12)?, address(IP + 16)?);
    let sum = checksum::Sum::pseudo_header(from, to, ipv4::PROTOCOL_UDP, length).folded();
    frame.get_mut(UDP_SUM.field.into()..)?.get_mut(..2)?.copy_from_slice(&sum.to_be_bytes());
    Some(())
}

/// The sum of a UDP datagram of `length` bytes, in a frame of `bytes` bytes. It ends with the datagram: the
/// rest of the frame does not count (RFC 768).
fn datagram_sum(length: u16, bytes: u16) -> Sum {
    let end = (UDP as u16).saturating_add(length.max(udp::HEADER_BYTES as u16));
    Sum { end: if end < bytes { end - 1 } else { 0 }, ..UDP_SUM }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sum_of_a_datagram_ends_with_it() {
        // A datagram of 26 bytes at the beginning of a frame that is as long as a card lets pass.
        assert_eq!(datagram_sum(26, 1522), Sum { end: 59, ..UDP_SUM });
        assert_eq!(
            [(26, 60), (8, 42), (u16::MAX, 60)].map(|(length, bytes)| datagram_sum(length, bytes).end),
            [0; 3]
        );
        assert_eq!(datagram_sum(0, 60).end, 41);
    }
}
