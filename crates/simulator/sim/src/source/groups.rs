//! A source that sends in groups, as hardware that works on several frames at a time does.

use kpps_frames::{Tag, tag};
use kpps_host::wire::FrameSource;
use std::cell::{Cell, RefCell};
use std::rc::Rc;

/// How a source spaces its frames.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Groups {
    /// Frames in a group, at least 1.
    pub frames: u32,
    /// From one frame of a group to the next, in picoseconds. Groups are spaced so that the rate is the
    /// offered one; if that is impossible, all frames are evenly spaced.
    pub spacing_ps: u64,
}

impl Groups {
    /// Frames evenly spaced.
    pub const EVEN: Self = Self { frames: 1, spacing_ps: 0 };
}

/// The most frames that a capture holds, and its frames.
type Capture = (usize, Rc<RefCell<Vec<(u64, Vec<u8>)>>>);

/// The source.
pub(crate) struct PacedGroups {
    frame: Vec<u8>,
    groups: Groups,
    period_ps: f64,
    first_ps: u64,
    last_ps: u64,
    sequence: u64,
    next_ps: u64,
    sent: Rc<Cell<u64>>,
    capture: Capture,
}

impl PacedGroups {
    pub(crate) fn new(
        frame: Vec<u8>,
        pps: f64,
        groups: Groups,
        (first_ps, last_ps): (u64, u64),
        sent: Rc<Cell<u64>>,
        capture: Capture,
    ) -> Self {
        let period_ps = 1e12 / pps;
        let fits = groups.frames > 1 && (groups.spacing_ps as f64) < period_ps;
        let groups = if fits { groups } else { Groups::EVEN };
        Self { frame, groups, period_ps, first_ps, last_ps, sequence: 0, next_ps: first_ps, sent, capture }
    }

    fn due_ps(&self, sequence: u64) -> u64 {
        let frames = u64::from(self.groups.frames);
        let group = ((sequence / frames * frames) as f64 * self.period_ps) as u64;
        self.first_ps.saturating_add(group).saturating_add(sequence % frames * self.groups.spacing_ps)
    }
}

impl FrameSource for PacedGroups {
    fn next_ps(&self) -> u64 {
        if self.next_ps > self.last_ps { u64::MAX } else { self.next_ps }
    }

    fn frame(&mut self) -> &[u8] {
        let at = self.next_ps;
        // A test frame is long enough for its tag.
        let _ = tag::write(&mut self.frame, Tag { stream: 0, sequence: self.sequence, sent_ps: at });
        self.sequence += 1;
        self.sent.set(self.sequence);
        self.next_ps = self.due_ps(self.sequence);
        let (most, frames) = &self.capture;
        let mut frames = frames.borrow_mut();
        if frames.len() < *most {
            frames.push((at, self.frame.clone()));
        }
        &self.frame
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use kpps_frames::Size;
    use kpps_frames::build::{Flow, udp_test};

    fn times(pps: f64, groups: Groups, frames: usize) -> Vec<u64> {
        let frame = udp_test(&Flow::default(), Size::MIN).unwrap();
        let capture = (frames, Rc::new(RefCell::new(Vec::new())));
        let mut wire =
            PacedGroups::new(frame, pps, groups, (0, u64::MAX - 1), Rc::default(), capture.clone());
        for _ in 0..frames {
            wire.frame();
        }
        capture.1.take().into_iter().map(|(at, _)| at).collect()
    }

    #[test]
    fn groups_keep_the_rate() {
        let groups = Groups { frames: 4, spacing_ps: 900_000 };
        let at = times(1e6, groups, 9);
        assert_eq!(
            at,
            [0, 900_000, 1_800_000, 2_700_000, 4_000_000, 4_900_000, 5_800_000, 6_700_000, 8_000_000]
        );
        // Too fast for groups: even.
        assert_eq!(times(1.25e6, groups, 3), [0, 800_000, 1_600_000]);
        assert_eq!(times(1e6, Groups::EVEN, 3), [0, 1_000_000, 2_000_000]);
    }
}
