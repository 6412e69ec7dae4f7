//! Frames that say who they are, and the cable on which they come.
//!
//! The payload of a frame has its stream, its number, and bytes that follow from both. So whoever receives it
//! can tell which frame it is, and whether anything in it was changed.

use crate::check::{Breach, Check};
use crate::fault::{Dice, Fault};
use crate::plan::WorldPlan;
use fastrand::Rng;
use kpps_frames::build::{Flow, udp_test};
use kpps_frames::ethernet::VLAN_BYTES;
use kpps_frames::{Size, ipv4, rate};
use std::collections::VecDeque;
use std::rc::Rc;

/// Frames of a rush.
const RUSH_FRAMES: u64 = 1000;

/// The time of a frame on a cable, in ps.
pub(crate) fn frame_ps(bytes: usize, mbps: u16) -> u64 {
    rate::unpadded_slot_ps(u64::from(mbps) * 1_000_000, bytes)
}

/// Where the payload begins: behind Ethernet, IPv4 and UDP headers.
pub(crate) const PAYLOAD: usize = 42;
/// Bytes of number and stream at the beginning of the payload.
const IDENTITY: usize = 10;
/// The Ethernet type of PAUSE frames (IEEE 802.3, 31B), and that of VLAN tags.
pub(crate) const PAUSE_TYPE: [u8; 2] = [0x88, 0x08];
const VLAN_TYPE: [u8; 2] = [0x81, 0];
/// Where the Ethernet type is.
const TYPE: usize = 12;
/// A protocol of IPv4 for experiments (RFC 3692).
const OTHER_PROTOCOL: u8 = 253;
/// The most bytes by which a frame that is too long exceeds the limit.
pub(crate) const TOO_LONG_BYTES: usize = 2500;

/// A frame of `bytes` bytes without FCS to send. It may be a short one, which the driver pads.
pub(crate) fn template(bytes: u16) -> Vec<u8> {
    let mut frame = udp_test(&Flow::default(), Size::without_fcs(bytes.max(60))).unwrap_or_default();
    if bytes < 60 {
        frame.truncate(bytes.into());
        frame[16..18].copy_from_slice(&(bytes - 14).to_be_bytes());
        frame[38..40].copy_from_slice(&(bytes - 34).to_be_bytes());
        frame[24..26].fill(0);
        let sum = kpps_frames::checksum::checksum(&frame[14..34]);
        frame[24..26].copy_from_slice(&sum.to_be_bytes());
    }
    frame
}

/// Bytes of the VLAN tag before the Ethernet type.
fn tag_bytes(frame: &[u8]) -> usize {
    if frame.get(TYPE..TYPE + 2) == Some(&VLAN_TYPE) { VLAN_BYTES } else { 0 }
}

/// Writes the payload of frame `number` of `stream` into a frame.
pub(crate) fn write(frame: &mut [u8], stream: usize, number: u64) {
    let at = PAYLOAD + tag_bytes(frame);
    let Some(payload) = frame.get_mut(at..) else { return };
    let Some((identity, rest)) = payload.split_at_mut_checked(IDENTITY) else { return };
    identity[..8].copy_from_slice(&number.to_be_bytes());
    identity[8..].copy_from_slice(&(stream as u16).to_be_bytes());
    let mut word = mixed(number, stream);
    for chunk in rest.chunks_mut(8) {
        let bytes = word.to_le_bytes();
        chunk.copy_from_slice(&bytes[..chunk.len()]);
        word = word.wrapping_add(0x9E37_79B9_7F4A_7C15);
    }
}

/// The stream and the number of a frame; `None` if its payload was not made by [`write`].
pub(crate) fn read(frame: &[u8]) -> Option<(usize, u64)> {
    let (stream, number, rest) = identity(frame)?;
    is_right(stream, number, rest)
}

/// The stream and the number, if `rest` is the payload of that frame.
fn is_right(stream: usize, number: u64, rest: &[u8]) -> Option<(usize, u64)> {
    let mut word = mixed(number, stream);
    for chunk in rest.chunks(8) {
        if *chunk != word.to_le_bytes()[..chunk.len()] {
            return None;
        }
        word = word.wrapping_add(0x9E37_79B9_7F4A_7C15);
    }
    Some((stream, number))
}

/// The stream and the number that a frame says it has, and the rest of its payload.
fn identity(frame: &[u8]) -> Option<(usize, u64, &[u8])> {
    split(frame.get(PAYLOAD + tag_bytes(frame)..)?)
}

/// The stream and the number in a payload, and the rest of it.
fn split(payload: &[u8]) -> Option<(usize, u64, &[u8])> {
    let (identity, rest) = payload.split_at_checked(IDENTITY)?;
    let number = u64::from_be_bytes(identity[..8].try_into().ok()?);
    let stream = u16::from_be_bytes(identity[8..].try_into().ok()?);
    Some((stream.into(), number, rest))
}

/// The VLAN tag that a frame of this number has, where frames have tags: two of three have one.
pub(crate) fn tag_of(number: u64) -> Option<u16> {
    (!number.is_multiple_of(3)).then_some((number % 7) as u16 * 0x2000 + (number % 4094) as u16 + 1)
}

/// The VLAN tag that must have come with this frame, which may begin with it or not; `None` for PAUSE frames.
pub(crate) fn expected_tag(frame: &[u8]) -> Option<u16> {
    let (_, number, _) = identity(frame).filter(|_| frame.get(TYPE..TYPE + 2) != Some(&PAUSE_TYPE))?;
    tag_of(number)
}

fn mixed(number: u64, stream: usize) -> u64 {
    (number ^ (stream as u64 + 1) << 56).wrapping_mul(0xBF58_476D_1CE4_E5B9)
}

/// The form of frames where they arrive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Looks {
    /// Their IPv4 header must be good.
    pub(crate) routed: bool,
    /// Two of three have their VLAN tag in them.
    pub(crate) tagged: bool,
}

/// Checks a frame that has arrived where it should against the sent frame. PAUSE frames are ignored: a card
/// that is not configured to obey them receives them.
pub(crate) fn arrived(check: &Check, frame: &[u8], looks: Looks) {
    if frame.get(TYPE..TYPE + 2) == Some(&PAUSE_TYPE) {
        return;
    }
    let changed = |why: &str| {
        check.note(|| format!("{why}: {:02x?}", &frame[..frame.len().min(80)]));
        check.harm(Breach::Changed);
    };
    let at = TYPE + tag_bytes(frame);
    let tag = (at > TYPE).then(|| frame.get(TYPE + 2..at)).flatten();
    let packet = if looks.routed { without_padding(check, frame) } else { frame };
    let Some((stream, number)) = read(packet) else { return changed("changed") };
    let expected = tag_of(number).filter(|_| looks.tagged).map(u16::to_be_bytes);
    if tag != expected.as_ref().map(|tag| &tag[..]) {
        changed("wrong tag");
    }
    if looks.routed {
        let packet = &packet[at + 2..];
        let header = packet.get(..ipv4::HEADER_BYTES).unwrap_or_default();
        if kpps_frames::checksum::checksum(header) != 0 || !udp_is_good(packet) {
            changed("wrong checksum");
        }
    }
    check.arrive(stream, number);
}

/// The payload of a frame has arrived where it should.
pub(crate) fn payload_arrived(check: &Check, payload: &[u8]) {
    let known = split(payload).and_then(|(stream, number, rest)| is_right(stream, number, rest));
    match known {
        Some((stream, number)) => check.arrive(stream, number),
        None => check.harm(Breach::Changed),
    }
}

/// A frame without the zeros behind its packet that made it long enough.
fn without_padding<'f>(check: &Check, frame: &'f [u8]) -> &'f [u8] {
    let bytes = |two: &[u8]| Some(usize::from(u16::from_be_bytes(two.try_into().ok()?)));
    let at = 14 + tag_bytes(frame);
    let length = frame.get(at + 2..at + 4).and_then(bytes).map_or(0, |bytes| at + bytes);
    match frame.split_at_checked(length) {
        // A tag comes on top.
        Some((packet, padding)) if frame.len() == 46 + at => {
            if padding.iter().any(|byte| *byte != 0) {
                check.harm(Breach::Changed);
            }
            packet
        }
        _ => frame,
    }
}

/// Whether the header checksum of IPv4 is good; `None` without such a header.
pub(crate) fn ip_checksum(frame: &[u8]) -> Option<bool> {
    let at = TYPE + tag_bytes(frame);
    let packet = frame.get(at + 2..).filter(|_| frame[at..at + 2] == [8, 0])?;
    let header_bytes = usize::from(packet.first()? & 15) * 4;
    let header = packet.get(..header_bytes).filter(|header| header.len() >= 20 && header[0] >> 4 == 4)?;
    Some(kpps_frames::checksum::checksum(header) == 0)
}

/// Whether a packet of IPv4 in a frame is whole and of UDP or TCP, so that the card knows its checksum.
pub(crate) fn has_transport(frame: &[u8]) -> bool {
    let packet = frame.get(TYPE + tag_bytes(frame) + 2..).unwrap_or_default();
    packet
        .get(..10)
        .is_some_and(|header| header[6] & 0x3F == 0 && header[7] == 0 && matches!(header[9], 6 | 17))
}

/// Gives an untagged frame with an IPv4 header another protocol.
fn set_protocol(frame: &mut [u8], protocol: u8) {
    let Some(header) = frame.get_mut(TYPE + 2..TYPE + 2 + ipv4::HEADER_BYTES) else { return };
    header[9] = protocol;
    header[10..12].fill(0);
    let sum = kpps_frames::checksum::checksum(header);
    header[10..12].copy_from_slice(&sum.to_be_bytes());
}

/// Whether the UDP checksum in a packet of IPv4 is right, if it has one.
fn udp_is_good(packet: &[u8]) -> bool {
    let Ok(packet) = ipv4::Packet::new_checked(packet) else { return false };
    let datagram = kpps_frames::udp::Datagram::new_checked(packet.payload());
    datagram.is_ok_and(|datagram| {
        datagram.checksum() == 0 || datagram.checksum_ok(packet.source(), packet.destination())
    })
}

/// How frames follow each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pace {
    /// None come.
    Silent,
    /// Bursts of at most `burst` frames at line rate; the next one begins `gap_ps` after the last bit.
    Bursts { burst: u16, gap_ps: u64 },
    /// One frame every `gap_ps`.
    Every { gap_ps: u64 },
}

/// The event at the end of the cable.
pub(crate) enum Arrival {
    /// A frame with a good FCS.
    Good,
    /// A frame with a wrong FCS.
    Bad,
    /// The cable is plugged in again.
    Plugged,
    /// Nothing: the frame was lost on the way.
    Nothing,
}

/// The far end of a port's cable: it makes frames, and loses, repeats and spoils them.
pub(crate) struct Cable {
    stream: usize,
    templates: Vec<Vec<u8>>,
    pace: Pace,
    /// Frames still to come.
    left: u64,
    /// Frames left of the burst.
    in_burst: u16,
    next_ps: u64,
    random: Rng,
    mbps: u16,
    /// The frame that comes next, and how often more.
    frame: Vec<u8>,
    again: u8,
    /// A frame that was held back, and whether a later one has passed it.
    held: Option<Vec<u8>>,
    passed: bool,
    pauses: u16,
    /// Two of three frames have a VLAN tag.
    tags: bool,
    /// The longest frame that is allowed, in bytes without FCS.
    longest: usize,
    /// Frames that are too short have a wrong FCS too, like the remains of a collision.
    wrecks: bool,
    /// Frames of a stack, and when the next one comes.
    posted: VecDeque<Vec<u8>>,
    posted_ps: u64,
    /// When the cable is plugged in again.
    plug_ps: Option<u64>,
    dice: Rc<Dice>,
    check: Rc<Check>,
}

impl Cable {
    /// A cable whose far end sends frames of these flows and sizes (in bytes without FCS).
    pub(crate) fn new(
        stream: usize,
        flows: &[Flow],
        plan: &WorldPlan,
        seed: u64,
        dice: &Rc<Dice>,
        check: &Rc<Check>,
    ) -> Self {
        let sizes = &plan.sizes;
        let templates = flows
            .iter()
            .flat_map(|flow| sizes.iter().filter_map(|bytes| udp_test(flow, Size::without_fcs(*bytes)).ok()));
        Self {
            stream,
            templates: templates.collect(),
            pace: Pace::Silent,
            left: 0,
            in_burst: 0,
            next_ps: u64::MAX,
            random: Rng::with_seed(seed),
            mbps: plan.speed_mbps,
            frame: Vec::new(),
            again: 0,
            held: None,
            passed: false,
            pauses: 0,
            tags: plan.tagged,
            longest: usize::from(plan.config.max_frame_bytes - Size::FCS_BYTES),
            wrecks: plan.stores_bad,
            posted: VecDeque::new(),
            posted_ps: u64::MAX,
            plug_ps: None,
            dice: dice.clone(),
            check: check.clone(),
        }
    }

    /// Sends `frames` frames from now on.
    pub(crate) fn start(&mut self, now_ps: u64, pace: Pace, frames: u64) {
        (self.pace, self.left, self.in_burst) = (pace, frames, 0);
        (self.held, self.passed, self.again) = (None, false, 0);
        self.next_ps = if frames > 0 && pace != Pace::Silent { now_ps + 1_000_000 } else { u64::MAX };
    }

    /// Whether all frames were sent.
    pub(crate) fn is_done(&self) -> bool {
        self.left == 0 || self.pace == Pace::Silent
    }

    /// When the next thing happens, in ps; `u64::MAX` if nothing does.
    #[inline]
    pub(crate) fn next_ps(&self) -> u64 {
        self.next_ps.min(self.posted_ps).min(self.plug_ps.unwrap_or(u64::MAX))
    }

    /// Unplugs the cable until `until_ps`.
    pub(crate) fn unplug(&mut self, until_ps: u64) {
        self.plug_ps = Some(until_ps);
    }

    /// A hundred PAUSE frames come next.
    pub(crate) fn pause(&mut self, now_ps: u64) {
        self.pauses = 100;
        self.next_ps = self.next_ps.min(now_ps);
    }

    /// Whether frames come, or will.
    pub(crate) fn is_going(&self) -> bool {
        !self.is_done()
    }

    /// A stack at the far end sends this frame.
    pub(crate) fn post(&mut self, now_ps: u64, frame: Vec<u8>) {
        if self.posted.is_empty() {
            self.posted_ps = now_ps + frame_ps(frame.len(), self.mbps);
        }
        self.posted.push_back(frame);
    }

    /// The next frame of the stack, with the faults on its way.
    fn posted(&mut self, now_ps: u64) -> Arrival {
        self.frame = self.posted.pop_front().unwrap_or_default();
        let next = self.posted.front();
        self.posted_ps = next.map_or(u64::MAX, |frame| now_ps + frame_ps(frame.len(), self.mbps));
        let dice = self.dice.clone();
        if dice.throws(Fault::FrameLost) {
            return Arrival::Nothing;
        }
        if dice.throws(Fault::FrameTwice) {
            self.post(now_ps, self.frame.clone());
        }
        if dice.throws(Fault::FrameCorrupt) {
            let at = self.random.usize(..self.frame.len().max(1));
            if let Some(byte) = self.frame.get_mut(at) {
                *byte ^= 1;
            }
            return Arrival::Bad;
        }
        Arrival::Good
    }

    /// Frames come without gaps, as far as there are any.
    pub(crate) fn rush(&mut self, now_ps: u64) {
        self.in_burst = self.left.min(RUSH_FRAMES) as u16;
        self.next_ps = self.next_ps.min(now_ps);
    }

    /// Performs the event at `now_ps`, the time of [`next_ps`](Self::next_ps), on a cable of this speed; the
    /// frame is [`bytes`](Self::bytes).
    pub(crate) fn happen(&mut self, now_ps: u64, mbps: u16) -> Arrival {
        self.mbps = mbps;
        if self.plug_ps.is_some_and(|plug_ps| plug_ps <= now_ps) {
            self.plug_ps = None;
            return Arrival::Plugged;
        }
        if self.posted_ps <= now_ps {
            return self.posted(now_ps);
        }
        loop {
            if let Some(arrival) = self.frame(now_ps) {
                return arrival;
            }
            if self.next_ps > now_ps {
                return Arrival::Nothing;
            }
        }
    }

    /// The frame of [`happen`](Self::happen), without FCS.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.frame
    }

    fn frame(&mut self, now_ps: u64) -> Option<Arrival> {
        if self.again > 0 {
            self.again -= 1;
            self.advance(now_ps);
            return Some(Arrival::Good);
        }
        if self.pauses > 0 {
            self.pauses -= 1;
            self.frame.clear();
            self.frame.extend([1, 0x80, 0xC2, 0, 0, 1, 2, 0, 0, 0, 9, 9]);
            self.frame.extend(PAUSE_TYPE);
            self.frame.extend([0, 1, 0xFF, 0xFF]);
            self.frame.resize(60, 0);
            self.next_ps = now_ps + frame_ps(60, self.mbps);
            if self.pauses == 0 && self.is_done() {
                self.next_ps = u64::MAX;
            }
            return Some(Arrival::Good);
        }
        if self.left == 0 {
            self.next_ps = u64::MAX;
            return None;
        }
        if self.passed
            && let Some(held) = self.held.take()
        {
            (self.frame, self.passed) = (held, false);
            self.left -= 1;
            self.advance(now_ps);
            return Some(Arrival::Good);
        }
        if self.left > 1 || self.held.is_none() {
            self.left -= 1;
        }
        let template = &self.templates[self.random.usize(..self.templates.len())];
        self.frame.clear();
        self.frame.extend_from_slice(template);
        let dice = self.dice.clone();
        let throws = |fault| dice.throws(fault);
        let copies = 1 + u8::from(throws(Fault::FrameTwice));
        let number = self.check.send(self.stream, copies);
        write(&mut self.frame, self.stream, number);
        self.again = copies - 1;
        if throws(Fault::Malformed) {
            // Anything in the headers of IPv4 and UDP, or another protocol; but no tag.
            let from = [TYPE, TYPE + 2][self.random.usize(..2)];
            if self.random.u8(..4) == 0 {
                set_protocol(&mut self.frame, OTHER_PROTOCOL);
            } else {
                for byte in &mut self.frame[from..PAYLOAD] {
                    *byte = self.random.u8(..);
                }
            }
            self.frame[TYPE] &= !1;
        }
        if let Some(tag) = tag_of(number).filter(|_| self.tags) {
            let [high, low] = tag.to_be_bytes();
            self.frame.splice(TYPE..TYPE, [VLAN_TYPE[0], VLAN_TYPE[1], high, low]);
        }
        let mut corrupt = false;
        if throws(Fault::Runt) {
            let bytes = self.random.usize(14..60);
            self.frame.truncate(bytes);
            corrupt = self.wrecks;
        } else if throws(Fault::Giant) {
            self.frame.resize(self.longest + self.random.usize(1..TOO_LONG_BYTES), 0);
            write(&mut self.frame, self.stream, number);
        }
        if throws(Fault::FrameLost) {
            self.advance(now_ps);
            return None;
        }
        if self.held.is_none() && self.left > 1 && !corrupt && throws(Fault::FrameLater) {
            // It counts when it comes, after the next one.
            self.left += 1;
            self.held = Some(self.frame.clone());
            return None;
        }
        self.passed = self.held.is_some();
        if throws(Fault::FrameCorrupt) {
            corrupt = true;
            let at = self.random.usize(..self.frame.len());
            self.frame[at] ^= 1 << self.random.u8(..8);
        }
        self.again = if corrupt { 0 } else { self.again };
        self.advance(now_ps);
        Some(if corrupt { Arrival::Bad } else { Arrival::Good })
    }

    /// Sets the time of the next frame.
    fn advance(&mut self, now_ps: u64) {
        let bytes_ps = frame_ps(self.frame.len(), self.mbps);
        if self.left == 0 && self.again == 0 {
            self.next_ps = u64::MAX;
            return;
        }
        self.next_ps = now_ps
            + match self.pace {
                Pace::Silent => bytes_ps,
                Pace::Every { gap_ps } => gap_ps.max(bytes_ps),
                Pace::Bursts { burst, gap_ps } => {
                    if self.in_burst == 0 {
                        self.in_burst = self.random.u16(1..=burst.max(1));
                    }
                    self.in_burst -= 1;
                    bytes_ps + if self.in_burst == 0 { self.random.u64(..=2 * gap_ps) } else { 0 }
                }
            };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_says_who_it_is_and_shows_each_change() {
        let mut frame = udp_test(&Flow::default(), Size::without_fcs(71)).expect("a frame");
        write(&mut frame, 3, 0x1234_5678_9ABC);
        assert_eq!(read(&frame), Some((3, 0x1234_5678_9ABC)));
        for at in PAYLOAD..frame.len() {
            frame[at] ^= 0x10;
            assert_ne!(read(&frame), Some((3, 0x1234_5678_9ABC)), "{at}");
            frame[at] ^= 0x10;
        }
        assert_eq!(read(&frame[..PAYLOAD + 9]), None);
    }
}
