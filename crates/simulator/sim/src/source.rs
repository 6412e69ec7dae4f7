//! Sources: tagged frames at an exact rate, whatever becomes of them (open loop).

mod groups;

pub use groups::Groups;
pub(crate) use groups::PacedGroups;

use crate::simulation::station;
use kpps_frames::build::{Flow, udp_test};
use kpps_frames::{Size, Tag, tag};
use kpps_host::wire::FrameSource;
use kpps_methods::TrialError;
use kpps_methods::random::Random;
use std::cell::Cell;
use std::rc::Rc;

/// UDP frames at a constant rate, of one flow or of several in turn. Each has a tag: sequence number and time
/// of its last bit.
///
/// The times are exact: frame *k* arrives at `first + ⌊k · 10¹² / pps⌋` ps, so rounding never accumulates.
pub struct ConstantRate {
    /// Each flow's frame, and where its tag is.
    frames: Vec<(Vec<u8>, usize)>,
    /// The next of these.
    turn: usize,
    last_ps: u64,
    /// The rate in frames per million seconds.
    micro_pps: u64,
    /// From one frame to the next: whole picoseconds, and the rest in units of 1 / `micro_pps`.
    step: (u64, u64),
    stream: u16,
    sequence: u64,
    /// When the next frame's last bit arrives, if there is one, in the same units.
    due: (u64, u64),
    sent: Rc<Cell<u64>>,
}

/// Picoseconds in a million seconds.
const MEGASECOND_PS: u64 = 1_000_000_000_000_000_000;

impl ConstantRate {
    /// Frames of `size` at `pps` (more than 0) from `first_ps` on, none after `last_ps`; `sent` counts them.
    pub fn new(frame: Vec<u8>, pps: f64, first_ps: u64, last_ps: u64, sent: Rc<Cell<u64>>) -> Self {
        Self::of_flows(vec![frame], pps, first_ps, last_ps, sent)
    }

    /// The same with several flows, a frame of each in turn.
    pub fn of_flows(
        frames: Vec<Vec<u8>>,
        pps: f64,
        first_ps: u64,
        last_ps: u64,
        sent: Rc<Cell<u64>>,
    ) -> Self {
        let micro_pps = ((pps * 1e6).round() as u64).max(1);
        let step = (MEGASECOND_PS / micro_pps, MEGASECOND_PS % micro_pps);
        let due = (first_ps, 0);
        let with_place = |frame: Vec<u8>| {
            let at = tag::offset(&frame);
            (frame, at)
        };
        let frames = frames.into_iter().map(with_place).collect();
        Self { frames, turn: 0, last_ps, micro_pps, step, stream: 0, sequence: 0, due, sent }
    }

    /// The same with another stream in its tags than 0.
    pub fn in_stream(self, stream: u16) -> Self {
        Self { stream, ..self }
    }

    /// Works out when the next frame's last bit arrives.
    #[inline]
    fn schedule(&mut self) {
        let ((whole, rest), to_next) = (self.step, self.micro_pps - self.due.1);
        self.due.0 = self.due.0.saturating_add(whole + u64::from(rest >= to_next));
        self.due.1 = if rest >= to_next { rest - to_next } else { self.due.1 + rest };
    }
}

impl FrameSource for ConstantRate {
    #[inline]
    fn next_ps(&self) -> u64 {
        if self.due.0 > self.last_ps { u64::MAX } else { self.due.0 }
    }

    #[inline]
    fn frame(&mut self) -> &[u8] {
        let tag = Tag { stream: self.stream, sequence: self.sequence, sent_ps: self.due.0 };
        self.sequence += 1;
        self.sent.set(self.sequence);
        self.schedule();
        let turn = self.turn;
        self.turn = if turn + 1 >= self.frames.len() { 0 } else { turn + 1 };
        let Some((frame, at)) = self.frames.get_mut(turn) else { return &[] };
        // A test frame is long enough for its tag.
        let _ = tag::write_at(frame, *at, tag);
        frame
    }
}

/// A test frame of `size` for the card in `slot`.
pub(crate) fn frame_to_card(size: Size, slot: usize) -> Result<Vec<u8>, TrialError> {
    let flow = Flow { to_mac: station(slot), ..Flow::default() };
    udp_test(&flow, size).map_err(|e| TrialError::Load(e.to_string()))
}

/// Where in its period the first frame falls: the one thing that depends on a seed.
pub(crate) fn phase_ps(seed: u64, period_ps: u64) -> u64 {
    Random::new(seed).word() % period_ps.max(1)
}

/// The time from one frame to the next on a gigabit wire that carries nothing else, in picoseconds.
pub fn slot_ps(size: Size) -> u64 {
    kpps_frames::rate::slot_ps(kpps_frames::rate::GIGABIT, size)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use proptest::prelude::*;

    fn source(pps: f64, last_ps: u64) -> (ConstantRate, Rc<Cell<u64>>) {
        let sent = Rc::new(Cell::new(0));
        let frame = udp_test(&Flow::default(), Size::MIN).unwrap();
        (ConstantRate::new(frame, pps, 1000, last_ps, Rc::clone(&sent)), sent)
    }

    proptest! {
        #[test]
        fn times_are_exact(pps in 1.0f64..1_488_095.0) {
            let (mut source, _) = source(pps, 1000 + 1_000_000_000);
            let micro_pps = (pps * 1e6).round() as u128;
            for k in 0..2000u128 {
                let at = 1000 + (k * u128::from(MEGASECOND_PS) / micro_pps) as u64;
                prop_assert_eq!(source.next_ps(), if at > 1_000_001_000 { u64::MAX } else { at });
                source.frame();
            }
        }

        #[test]
        fn as_many_frames_as_the_rate_says(pps in 1.0f64..1_488_095.0, ms in 1u64..20) {
            let (mut source, sent) = source(pps, 1000 + ms * 1_000_000_000);
            let mut last = 0;
            while source.next_ps() != u64::MAX {
                prop_assert!(source.next_ps() > last || last == 0);
                last = source.next_ps();
                let read = tag::read(source.frame()).unwrap();
                prop_assert_eq!(read.sent_ps, last);
                prop_assert_eq!(read.sequence + 1, sent.get());
            }
            let expected = pps * ms as f64 / 1e3;
            let sent = sent.get() as f64;
            prop_assert!((sent - expected).abs() <= 1.0 + 1e-6 * expected, "{sent} of {expected}");
        }
    }
}
