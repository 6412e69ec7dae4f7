//! When the frames of a schedule were sent that several cores send.

/// Frames that a core notes at most.
const MOST: usize = 1 << 18;
/// Frames are noted by windows of `2^WINDOW_BITS` ns (17 ms), by their due times.
const WINDOW_BITS: u32 = 24;

/// When the frames of one of several cores were due, and when its port got them, in ns since the common
/// beginning.
///
/// Memory is limited: of a long load one of each 2, 4, 8, … windows of time is noted, the same windows on all
/// cores.
#[derive(Clone, Debug)]
pub struct SendLog {
    /// The intended gap of the whole schedule in ns; `None` if gaps are to differ.
    intended_ns: Option<f64>,
    frames: Vec<(u64, u64)>,
    most: usize,
    /// One of each `2^shift` windows is noted.
    shift: u32,
}

impl SendLog {
    /// For a schedule with this gap in ns; `None` if gaps are to differ.
    pub fn new(intended_ns: Option<f64>) -> Self {
        Self::with_room(intended_ns, MOST)
    }

    fn with_room(intended_ns: Option<f64>, most: usize) -> Self {
        Self { intended_ns, frames: Vec::with_capacity(most), most, shift: 0 }
    }

    /// From now on gaps are to differ from those before.
    pub fn change(&mut self) {
        self.intended_ns = None;
    }

    /// Whether the frames that are due at this time are noted.
    #[inline]
    fn has(&self, due_ns: u64) -> bool {
        (due_ns >> WINDOW_BITS).trailing_zeros() >= self.shift
    }

    /// Notes a frame.
    #[inline]
    pub fn note(&mut self, due_ns: u64, sent_ns: u64) {
        while self.has(due_ns) {
            if self.frames.len() < self.most {
                self.frames.push((due_ns, sent_ns));
                return;
            }
            if self.shift == u64::BITS {
                return;
            }
            self.thin(self.shift + 1);
        }
    }

    /// Keeps one of each `2^shift` windows.
    #[cold]
    fn thin(&mut self, shift: u32) {
        self.shift = shift;
        let mut frames = std::mem::take(&mut self.frames);
        frames.retain(|(due_ns, _)| self.has(*due_ns));
        self.frames = frames;
    }

    /// The intended gap of the whole schedule in ns, if all gaps are equal.
    pub fn intended_ns(&self) -> Option<f64> {
        self.intended_ns
    }

    /// The frames of all cores that were due one after the other: each with the next one. A frame is the time
    /// at which it was due, and the time at which its port got it.
    pub fn neighbours(mut logs: Vec<Self>) -> Vec<[(u64, u64); 2]> {
        let shift = logs.iter().map(|log| log.shift).max().unwrap_or(0);
        logs.iter_mut().for_each(|log| log.thin(shift));
        let mut all: Vec<_> = logs.into_iter().flat_map(|log| log.frames).collect();
        all.sort_unstable();
        // Frames between two windows were not noted.
        let is_near =
            |[last, next]: &[(u64, u64); 2]| shift == 0 || last.0 >> WINDOW_BITS == next.0 >> WINDOW_BITS;
        all.array_windows().copied().filter(is_near).collect()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// However many frames there are and however they are shared out, the noted windows are complete.
        #[test]
        fn a_long_load_is_noted_in_the_same_windows_on_all_cores(
            gap_ns in 500_000..20_000_000_u64,
            cores in prop::collection::vec(0..3_usize, 1..2000),
            room in 40..200_usize,
        ) {
            let mut logs = vec![SendLog::with_room(None, room); 3];
            for (frame, core) in (0..).zip(&cores) {
                logs[*core].note(frame * gap_ns, frame * gap_ns + 5);
            }
            let shift = logs.iter().map(|log| log.shift).max().unwrap();
            prop_assert!(logs.iter().all(|log| log.frames.len() <= room));
            let windows: Vec<_> = (0..cores.len() as u64).map(|frame| (frame * gap_ns) >> WINDOW_BITS).collect();
            let kept = |window: &u64| window.trailing_zeros() >= shift;
            let pairs = windows.windows(2).filter(|pair| {
                pair.iter().all(kept) && (shift == 0 || pair[0] == pair[1])
            });
            let count = pairs.count();
            let found = SendLog::neighbours(logs);
            prop_assert_eq!(found.len(), count);
            prop_assert!(found.iter().all(|[last, next]| next.0 - last.0 == gap_ns && next.1 == next.0 + 5));
        }
    }
}
