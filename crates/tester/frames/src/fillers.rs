//! Exact gaps: frames that keep the wire busy between the frames of a schedule.
//!
//! A card sends what is in its ring back to back. If the time between two frames of a schedule is filled with
//! *fillers* (frames with a wrong FCS, which every receiver drops), the card keeps the schedule by itself, to
//! a byte time of the wire. [`Wire::place`] says which fillers come before a frame.
//!
//! ```
//! use kpps_frames::fillers::Wire;
//!
//! // Frames of 64 bytes at 500,000 per second: one every 250 byte times of a gigabit link.
//! let mut wire = Wire::default();
//! assert_eq!(wire.place(0, 64).fillers.count(), 0);
//! let next = wire.place(250, 64);
//! // The frame before takes 84 byte times, with preamble and gap, and the filler takes the other 166.
//! assert_eq!((next.start, next.fillers.collect::<Vec<_>>()), (250, vec![146]));
//! ```
//!
//! # Gaps that cannot be filled
//!
//! The shortest filler takes [`Wire::shortest`] byte times: 84 with the usual gap. The wire can be idle for
//! none of them, or for 84 and more. A frame that would begin 1 to 83 byte times after the wire is free
//! begins at once, or after the shortest filler, whichever is nearer. The next frame's place is computed from
//! its own due time, so no error adds up, and the mean rate is exact. The longest deviation is
//! [`Wire::most_deviation`]: 42 byte times, 336 ns at 1 Gb/s. At a constant rate of 64-byte frames it occurs
//! between half of line rate and line rate.
//!
//! A frame that is due before the wire is free begins as soon as it is free: such frames queue, as they do
//! before any wire.
//!
//! # The limit
//!
//! The card must be able to send back to back. Fillers cost it and its bus as much as frames do: with one
//! filler for each frame, half of the frames that it can send in a second can have exact gaps.

use crate::Size;

/// The shortest filler, in bytes with FCS. Cards pad shorter frames.
pub const MIN_BYTES: u16 = 64;
/// The longest filler, in bytes with FCS: each receiver takes it for a frame with a wrong FCS, and not for
/// one that is too long.
pub const MAX_BYTES: u16 = 1518;

/// Preamble and start-of-frame delimiter, in bytes.
const PREAMBLE_BYTES: u16 = 8;

/// Fillers before the first frame: 12 KB, which fit into the transmit FIFO of cards.
const LEAD: u64 = 8;

/// A wire that fillers keep busy. Its times are in byte times since the start of the first frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wire {
    /// Preamble and gap, in byte times.
    around: u16,
    /// When it is free for the next frame.
    free: u64,
    /// When it would be free if it could be idle for any time.
    ideal_free: u64,
}

impl Default for Wire {
    /// With the shortest gap of IEEE 802.3.
    fn default() -> Self {
        Self { around: Size::PREAMBLE_AND_GAP_BYTES, free: 0, ideal_free: 0 }
    }
}

/// The place of a frame on a wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The fillers before it.
    pub fillers: Fillers,
    /// The start of its preamble.
    pub start: u64,
    /// Its start on a wire that can be idle for any time: when it is due, or when the frames before it have
    /// left.
    pub ideal: u64,
}

impl Wire {
    /// With a card that leaves this number of byte times free between two frames.
    pub fn with_gap(gap_bytes: u16) -> Self {
        Self { around: gap_bytes.saturating_add(PREAMBLE_BYTES), ..Self::default() }
    }

    /// The time of a frame or filler of `bytes` bytes with FCS, with preamble and gap.
    pub fn time_of(&self, bytes: u16) -> u64 {
        u64::from(bytes) + u64::from(self.around)
    }

    /// The time of the shortest filler.
    pub fn shortest(&self) -> u64 {
        self.time_of(MIN_BYTES)
    }

    /// The time of the longest filler.
    fn longest(&self) -> u64 {
        self.time_of(MAX_BYTES)
    }

    /// When it is free for the next frame.
    pub fn free(&self) -> u64 {
        self.free
    }

    /// Fillers to be sent before the first frame. While they leave, the card reads the next frames: otherwise
    /// it would have only one of them, and the second could be late.
    pub fn lead(&self) -> Fillers {
        Fillers { count: LEAD, filled: LEAD * self.longest(), around: self.around }
    }

    /// The longest time between [`start`](Place::start) and [`ideal`](Place::ideal) of a frame.
    pub fn most_deviation(&self) -> u64 {
        self.shortest() / 2
    }

    /// Places the next frame, which is due at `due`, and takes `bytes` bytes with FCS.
    pub fn place(&mut self, due: u64, bytes: u16) -> Place {
        let (idle, shortest, longest) = (due.saturating_sub(self.free), self.shortest(), self.longest());
        let filled = match idle {
            _ if idle >= shortest => idle,
            _ if idle > shortest / 2 => shortest,
            _ => 0,
        };
        let start = self.free + filled;
        let ideal = due.max(self.ideal_free);
        let time = self.time_of(bytes);
        (self.free, self.ideal_free) = (start + time, ideal + time);
        let fillers = Fillers { count: filled.div_ceil(longest), filled, around: self.around };
        Place { fillers, start, ideal }
    }
}

/// Fillers of nearly equal lengths: the length of each in bytes with FCS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fillers {
    /// The number of fillers.
    count: u64,
    /// Their time together.
    filled: u64,
    /// Preamble and gap, in byte times.
    around: u16,
}

impl Fillers {
    /// No filler.
    pub const NONE: Self = Self { count: 0, filled: 0, around: 0 };

    /// Their time together, with preamble and gap of each.
    pub fn time(&self) -> u64 {
        self.filled
    }
}

impl Iterator for Fillers {
    type Item = u16;

    #[inline]
    fn next(&mut self) -> Option<u16> {
        let time = self.filled.checked_div(self.count)?;
        self.count -= 1;
        self.filled -= time;
        // At most that of the longest filler.
        Some(time as u16 - self.around)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;
    use alloc::vec::Vec;
    use proptest::prelude::*;

    /// The lengths of fillers before a frame that is due when the wire has been free for this time.
    fn after(idle: u64) -> Vec<u16> {
        let mut wire = Wire::default();
        wire.place(0, 64);
        wire.place(84 + idle, 64).fillers.collect()
    }

    #[test]
    fn gaps_by_hand() {
        for (idle, fillers) in [
            (0, vec![]),
            (1, vec![]),
            (42, vec![]),
            (43, vec![64]),
            (84, vec![64]),
            (85, vec![65]),
            (1538, vec![1518]),
            (1539, vec![749, 750]),
            (3 * 1538 + 1, vec![1133, 1134, 1134, 1134]),
        ] {
            assert_eq!(after(idle), fillers, "{idle}");
        }
    }

    /// 1 Mpps of 64-byte frames is one every 125 byte times, and frames are 84 or 168 apart.
    #[test]
    fn a_rate_whose_gaps_cannot_be_filled_is_exact_on_average() {
        let mut wire = Wire::default();
        let starts: Vec<_> = (0..1001).map(|frame| wire.place(frame * 125, 64).start).collect();
        let gaps: Vec<_> = starts.iter().zip(&starts[1..]).map(|(one, next)| next - one).collect();
        assert!(gaps.iter().all(|gap| [84, 168].contains(gap)), "{gaps:?}");
        assert!(starts[1000].abs_diff(125_000) <= 42, "{}", starts[1000]);
    }

    /// The time that a filler of this length takes.
    fn time(wire: &Wire, bytes: u16) -> u64 {
        u64::from(bytes) + u64::from(wire.around)
    }

    proptest! {
        /// Whatever is due when: fillers and frames fill the wire without a hole, fillers have possible and
        /// nearly equal lengths, and each frame is as near to its time as stated. A time that can be filled
        /// is exact.
        #[test]
        fn each_frame_has_its_place(
            gaps in proptest::collection::vec((0_u64..4000, 64_u16..=1518), 1..200),
            gap_bytes in 12_u16..200,
        ) {
            let mut wire = Wire::with_gap(gap_bytes);
            let (mut due, mut free, mut ideal_free) = (0, 0, 0);
            for (since, bytes) in gaps {
                due += since;
                let idle = due.saturating_sub(free);
                let Place { fillers, start, ideal } = wire.place(due, bytes);
                let lengths: Vec<_> = fillers.collect();
                prop_assert!(lengths.iter().all(|bytes| (MIN_BYTES..=MAX_BYTES).contains(bytes)));
                if let (Some(least), Some(most)) = (lengths.iter().min(), lengths.iter().max()) {
                    prop_assert!(most - least <= 1);
                    prop_assert_eq!(lengths.len() as u64, (start - free).div_ceil(wire.longest()));
                }
                let filled: u64 = lengths.iter().map(|&bytes| time(&wire, bytes)).sum();
                prop_assert_eq!(start, free + filled);
                if idle >= wire.shortest() {
                    prop_assert_eq!(start, due);
                }
                prop_assert_eq!(ideal, due.max(ideal_free));
                prop_assert!(start.abs_diff(ideal) <= wire.most_deviation(), "{} for {}", start, ideal);
                free = start + time(&wire, bytes);
                ideal_free = ideal + time(&wire, bytes);
            }
        }

        /// At a constant rate the frames of any time are as many as are due, to one.
        #[test]
        fn a_constant_rate_is_exact(step in 84_u64..100_000, frames in 1_u64..2000) {
            let mut wire = Wire::default();
            let last = (0..=frames).map(|frame| wire.place(frame * step, 64).start).last().unwrap_or(0);
            prop_assert!(last.abs_diff(frames * step) <= wire.most_deviation());
        }
    }
}
