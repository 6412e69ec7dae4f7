//! The tester's side of the wire: an open-loop source of tagged frames at an exact rate.

use kpps_frames::{Size, Tag, tag};
use kpps_machine::wire::Traffic;
use std::cell::Cell;
use std::rc::Rc;

/// Constant-rate UDP frames, each with a tag: sequence and the time of its last bit.
///
/// The times are exact: frame *k* arrives at `first + ⌊k · 10¹² / pps⌋` ps, so rounding never accumulates.
pub struct ConstantRate {
    frame: Vec<u8>,
    first_ps: u64,
    last_ps: u64,
    /// Frames in a million seconds: a rate with six decimals.
    micro_pps: u128,
    sequence: u64,
    next_ps: u64,
    sent: Rc<Cell<u64>>,
}

impl ConstantRate {
    /// Frames of `size` at `pps` (more than 0) from `first_ps` on, none after `last_ps`; `sent` counts them.
    pub fn new(frame: Vec<u8>, pps: f64, first_ps: u64, last_ps: u64, sent: Rc<Cell<u64>>) -> Self {
        let micro_pps = ((pps * 1e6).round() as u128).max(1);
        let mut source = Self { frame, first_ps, last_ps, micro_pps, sequence: 0, next_ps: 0, sent };
        source.schedule();
        source
    }

    /// Works out when the next frame's last bit arrives.
    fn schedule(&mut self) {
        let after = u128::from(self.sequence) * 1_000_000_000_000_000_000 / self.micro_pps;
        let at = self.first_ps.saturating_add(u64::try_from(after).unwrap_or(u64::MAX));
        self.next_ps = if at > self.last_ps { u64::MAX } else { at };
    }
}

impl Traffic for ConstantRate {
    #[inline]
    fn next_ps(&self) -> u64 {
        self.next_ps
    }

    #[inline]
    fn frame(&mut self) -> &[u8] {
        let tag = Tag { stream: 0, sequence: self.sequence as u32, sent_ps: self.next_ps };
        // A test frame has room for its tag by construction.
        let _ = tag::write(&mut self.frame, tag);
        self.sequence += 1;
        self.sent.set(self.sequence);
        self.schedule();
        &self.frame
    }
}

/// The time from one frame to the next on a gigabit wire that carries nothing else, in picoseconds.
pub fn slot_ps(size: Size) -> u64 {
    kpps_frames::rate::slot_ps(kpps_frames::rate::GIGABIT, size)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use kpps_frames::build::{Flow, udp_test};
    use proptest::prelude::*;

    fn source(pps: f64, last_ps: u64) -> (ConstantRate, Rc<Cell<u64>>) {
        let sent = Rc::new(Cell::new(0));
        let frame = udp_test(&Flow::default(), Size::MIN).unwrap();
        (ConstantRate::new(frame, pps, 1000, last_ps, Rc::clone(&sent)), sent)
    }

    proptest! {
        #[test]
        fn as_many_frames_as_the_rate_says(pps in 1.0f64..1_488_095.0, ms in 1u64..20) {
            let (mut source, sent) = source(pps, 1000 + ms * 1_000_000_000);
            let mut last = 0;
            while source.next_ps() != u64::MAX {
                prop_assert!(source.next_ps() > last || last == 0);
                last = source.next_ps();
                let read = tag::read(source.frame()).unwrap();
                prop_assert_eq!(read.sent_ps, last);
                prop_assert_eq!(u64::from(read.sequence) + 1, sent.get());
            }
            let expected = pps * ms as f64 / 1e3;
            prop_assert!((sent.get() as f64 - expected).abs() <= 1.0 + 1e-6 * expected, "{} of {expected}", sent.get());
        }
    }
}
