//! A stimulus: frames that a station should drop, or bear, among those of other stimuli.
//!
//! A cable, a switch or another station makes such frames. The guest answers none of them, or those of
//! [`Disturbance::OddFrames`] that are right: its other traffic goes on.

use super::path::{Answer, Path, SECOND_PS, pattern};
use super::wire;
use crate::cards::Coming;
use kpps_frames::{Mac, checksum::checksum, ethernet, icmp, ipv4};

/// The time from one frame to the next, in ps. PAUSE frames follow each other before the pause of the last
/// one is over.
const EVERY_PS: u64 = SECOND_PS / 200;
const PAUSE_EVERY_PS: u64 = SECOND_PS / 50;
/// Data of an echo request in bytes.
const DATA_BYTES: usize = 48;
/// The destination and the type of PAUSE frames, their opcode, and the longest pause in slots of 64 byte
/// times (SDM 8.7.3): 33.6 ms at 1 Gb/s.
const PAUSE_TO: Mac = Mac([0x01, 0x80, 0xC2, 0x00, 0x00, 0x01]);
const PAUSE_TYPE: u16 = 0x8808;
const PAUSE: u16 = 1;
const LONGEST_PAUSE: u16 = 0xFFFF;
/// Lengths without FCS: runts, and frames longer than 1,514 bytes.
const RUNTS: u32 = 40;
const LEAST_RUNT: usize = 20;
const LONG: [usize; 2] = [1600, 9000];
/// The VLAN of tagged frames.
const VLAN: u16 = 5;
/// Where the IPv4 header begins, and its options: four that mean nothing (RFC 791).
const IP: usize = ethernet::HEADER_BYTES;
const OPTIONS: [u8; 4] = [1, 1, 1, 0];

/// The frames of a disturbance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Disturbance {
    /// Echo requests with a bad FCS. Two words of their data are exchanged: the checksums of IPv4 and ICMP do
    /// not show it.
    BadFcs,
    /// PAUSE frames, so that a card that obeys them sends nothing.
    Pause,
    /// Echo requests that are cut off (20 to 59 bytes), or are too long (1,600 and 9,000 bytes), or have a
    /// VLAN tag (up to the 1,518 bytes that are allowed with it), or IP options. All have a right FCS.
    OddFrames,
}

/// The result of a disturbance.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Disturbed {
    /// When the stimulus began, in ps.
    pub started_ps: u64,
    /// When it ended, in ps; `None` before.
    pub ended_ps: Option<u64>,
    /// Frames so far.
    pub sent: u64,
    /// Echo replies of the guest to these frames so far.
    pub answered: u64,
}

/// The frames.
#[derive(Debug)]
pub struct Disturb {
    kind: Disturbance,
    id: u16,
    until_ps: u64,
    due_ps: u64,
    result: Disturbed,
}

impl Disturb {
    /// Frames from `now_ps` on for `ps`, with this ICMP identifier.
    pub fn new(now_ps: u64, id: u16, kind: Disturbance, ps: u64) -> Self {
        let result = Disturbed { started_ps: now_ps, ..Disturbed::default() };
        Self { kind, id, until_ps: now_ps.saturating_add(ps), due_ps: now_ps, result }
    }

    /// The result so far.
    pub fn result(&self) -> Disturbed {
        self.result
    }

    /// When the next frame is due, in ps.
    pub fn due_ps(&self) -> u64 {
        if self.result.ended_ps.is_some() { u64::MAX } else { self.due_ps }
    }

    /// The next frame. There is none while the guest's station address is unknown.
    pub fn next(&mut self, now_ps: u64, path: &Path) -> Option<Coming> {
        if self.due_ps() > now_ps {
            return None;
        }
        if now_ps >= self.until_ps {
            self.result.ended_ps = Some(now_ps);
            return None;
        }
        let every_ps = if self.kind == Disturbance::Pause { PAUSE_EVERY_PS } else { EVERY_PS };
        self.due_ps = now_ps.saturating_add(every_ps);
        let number = self.result.sent as u32;
        let frame = match self.kind {
            Disturbance::BadFcs => {
                let mut data = pattern(number, DATA_BYTES);
                data[4..].rotate_left(2);
                self.request(number, &data, path)
            }
            Disturbance::Pause => pause(path),
            Disturbance::OddFrames => self.odd(number, path),
        }?;
        self.result.sent += 1;
        Some(Coming { frame, good_fcs: self.kind != Disturbance::BadFcs })
    }

    fn request(&self, number: u32, data: &[u8], path: &Path) -> Option<Vec<u8>> {
        path.echo_request([self.id, number as u16], data)
    }

    /// Runts, long frames, tags and options in turns.
    fn odd(&self, number: u32, path: &Path) -> Option<Vec<u8>> {
        let (kind, lap) = (number % 4, number / 4);
        let data_bytes = if kind == 2 && lap % 2 == 1 { wire::MOST_DATA_BYTES } else { DATA_BYTES };
        let mut frame = self.request(number, &pattern(number, data_bytes), path)?;
        match kind {
            0 => frame.truncate(LEAST_RUNT + (lap % RUNTS) as usize),
            1 => {
                let bytes = LONG[lap as usize % LONG.len()] - (frame.len() - DATA_BYTES);
                return wire::long_echo(
                    path.own,
                    path.end()?,
                    icmp::ECHO,
                    [self.id, number as u16],
                    &pattern(number, bytes),
                );
            }
            2 => {
                let [high, low] = ethernet::TYPE_VLAN.to_be_bytes();
                let [vlan_high, vlan_low] = VLAN.to_be_bytes();
                frame.splice(12..12, [high, low, vlan_high, vlan_low]);
            }
            _ => add_options(&mut frame),
        }
        Some(frame)
    }

    /// Takes an answer of the guest.
    pub fn take(&mut self, answer: &Answer<'_>) {
        if let Answer::Echo { id: [id, _], .. } = *answer
            && id == self.id
        {
            self.result.answered += 1;
        }
    }
}

/// A frame that asks for the longest pause.
fn pause(path: &Path) -> Option<Vec<u8>> {
    let [[a, b], [c, d]] = [PAUSE.to_be_bytes(), LONGEST_PAUSE.to_be_bytes()];
    kpps_frames::build::frame(PAUSE_TO, path.own.mac, None, PAUSE_TYPE, &[a, b, c, d]).ok()
}

/// Adds options to the IPv4 header of an echo request.
fn add_options(frame: &mut Vec<u8>) {
    let end = IP + ipv4::HEADER_BYTES;
    frame.splice(end..end, OPTIONS);
    let ip = &mut frame[IP..end + OPTIONS.len()];
    let total = u16::from_be_bytes([ip[2], ip[3]]) + OPTIONS.len() as u16;
    ip[0] += 1;
    ip[2..4].copy_from_slice(&total.to_be_bytes());
    ip[10..12].fill(0);
    let sum = checksum(ip);
    ip[10..12].copy_from_slice(&sum.to_be_bytes());
}
