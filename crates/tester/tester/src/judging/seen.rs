//! Which sequence numbers have arrived: a bit for each of the latest.

/// Sequence numbers that have a bit: the last 2³⁰, 72 s at 14.88 million frames a second. A frame that is
/// further behind counts as a duplicate: its bit is in use for another frame.
pub const WINDOW: u64 = 1 << 30;

/// The sequence numbers that have arrived. After [`WINDOW`] of them the oldest bits are used again, so that
/// memory stays constant however long a trial is.
pub struct Seen {
    /// By the low bits of the sequence number.
    bits: Vec<u64>,
    /// Sequence numbers that have a bit: [`WINDOW`].
    window: u64,
    highest: Option<u64>,
}

impl Seen {
    /// With room for about `expected` numbers.
    pub fn new(expected: u64) -> Self {
        Self::in_window(WINDOW, expected)
    }

    /// The same, if only the last `window` numbers have a bit.
    fn in_window(window: u64, expected: u64) -> Self {
        let words = (expected.min(window - 1) / 64 + 1) as usize;
        Self { bits: vec![0; words], window, highest: None }
    }

    /// Numbers for which there is room.
    pub fn room(&self) -> u64 {
        self.bits.len() as u64 * 64
    }

    /// The highest number that has arrived.
    #[inline]
    pub fn highest(&self) -> Option<u64> {
        self.highest
    }

    /// One more than the highest number: at least this number of frames has been sent.
    #[inline]
    pub fn end(&self) -> u64 {
        self.highest.map_or(0, |highest| highest + 1)
    }

    /// Whether a number needs [room](Self::make_room) before it is marked.
    #[inline]
    pub fn needs_room(&self, number: u64) -> bool {
        self.highest.is_none_or(|highest| number / 64 > highest / 64)
    }

    /// Marks a number. Returns whether it is new.
    #[inline]
    pub fn mark(&mut self, number: u64) -> bool {
        let (word, bit) = self.place(number);
        if self.is_forgotten(number) || self.bits[word] & bit != 0 {
            return false;
        }
        self.bits[word] |= bit;
        if self.highest.is_none_or(|highest| number > highest) {
            self.highest = Some(number);
        }
        true
    }

    /// Marks the numbers of another record, too; `again` gets each number that both have. Returns false, and
    /// marks nothing, if bits of one of them have been used again.
    pub fn add(&mut self, other: &Self, mut again: impl FnMut(u64)) -> bool {
        if self.end().max(other.end()) > self.window.min(other.window) {
            return false;
        }
        if self.bits.len() < other.bits.len() {
            self.bits.resize(other.bits.len(), 0);
        }
        for (word, (bits, more)) in (0..).zip(self.bits.iter_mut().zip(&other.bits)) {
            let mut both = *bits & more;
            while both != 0 {
                again(word * 64 + u64::from(both.trailing_zeros()));
                both &= both - 1;
            }
            *bits |= more;
        }
        self.highest = self.highest.max(other.highest);
        true
    }

    /// The first number from `from` on, before `end`, that has arrived (or that has not); `end` if there is
    /// none. Forgotten numbers have not.
    pub fn next(&self, from: u64, end: u64, arrived: bool) -> u64 {
        // Numbers without a bit have not arrived. There may be very many of them.
        let kept = self.first_kept(self.highest.unwrap_or(0));
        if !arrived && from < kept {
            return from.min(end);
        }
        let mut number = from.max(kept);
        while number < end.min(self.end()) {
            let (word, _) = self.place(number);
            let bits = self.bits.get(word).copied().unwrap_or(0);
            let wanted = (if arrived { bits } else { !bits }) >> (number % 64);
            if wanted != 0 {
                return (number + u64::from(wanted.trailing_zeros())).min(end);
            }
            number = (number / 64 + 1) * 64;
        }
        if arrived { end } else { self.end().max(from).min(end) }
    }

    /// The first number that still has a bit once `number` has one.
    #[inline]
    pub fn first_kept(&self, number: u64) -> u64 {
        (number / 64 + 1).saturating_sub(self.window / 64) * 64
    }

    /// Makes room for a number in a new word: the words from the highest number so far on are zero.
    #[cold]
    pub fn make_room(&mut self, number: u64) {
        let words = self.window / 64;
        let first = self.highest.map_or(0, |highest| highest / 64 + 1);
        let last = number / 64;
        if (self.bits.len() as u64) < words && last >= self.bits.len() as u64 {
            let grown = last.saturating_add(1).next_power_of_two().min(words);
            self.bits.resize(grown as usize, 0);
        }
        if last >= words {
            for word in first.max(last.saturating_sub(words - 1))..=last {
                self.bits[(word % words) as usize] = 0;
            }
        }
    }

    /// The word with the bit of a number, and the bit.
    #[inline]
    fn place(&self, number: u64) -> (usize, u64) {
        ((number % self.window / 64) as usize, 1 << (number % 64))
    }

    /// Whether the bit of a number stands for a later one. Words are cleared as a whole, so the oldest word
    /// of the window counts as forgotten.
    #[inline]
    fn is_forgotten(&self, number: u64) -> bool {
        self.highest.is_some_and(|highest| (highest / 64).saturating_sub(number / 64) >= self.window / 64)
    }
}

#[cfg(test)]
impl Seen {
    /// With bits for the last `window` numbers only.
    pub fn remembering(window: u64) -> Self {
        Self::in_window(window, 0)
    }

    /// As if all up to `highest` had been marked.
    pub fn skip_to(&mut self, highest: u64) {
        self.make_room(highest + 1);
        self.highest = Some(highest);
    }

    /// Words in use.
    pub fn words(&self) -> usize {
        self.bits.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Numbers far away cost nothing.
    #[test]
    fn the_end_may_be_far_away() {
        let mut seen = Seen::new(10);
        assert!(seen.mark(7));
        assert_eq!([false, true].map(|arrived| seen.next(8, u64::MAX, arrived)), [8, u64::MAX]);
        assert_eq!([false, true].map(|arrived| seen.next(7, u64::MAX, arrived)), [8, 7]);
    }

    proptest! {
        /// Numbers of two records are those of both sets.
        #[test]
        fn two_records_are_one(numbers in prop::collection::vec((0_u64..900, any::<bool>()), 0..200)) {
            let (mut seen, mut sets) = ([Seen::new(10), Seen::new(600)], [const { std::collections::BTreeSet::new() }; 2]);
            for &(number, which) in &numbers {
                let seen = &mut seen[usize::from(which)];
                if seen.needs_room(number) {
                    seen.make_room(number);
                }
                seen.mark(number);
                sets[usize::from(which)].insert(number);
            }
            let ([mut all, other], mut again) = (seen, Vec::new());
            prop_assert!(all.add(&other, |number| again.push(number)));
            prop_assert_eq!(again, sets[0].intersection(&sets[1]).copied().collect::<Vec<_>>());
            for number in 0..900 {
                let is_marked = all.next(number, number + 1, true) == number;
                prop_assert_eq!(is_marked, sets.iter().any(|set| set.contains(&number)), "{}", number);
            }
        }

        /// As a set of the numbers would say.
        #[test]
        fn runs_are_those_of_a_set(numbers in prop::collection::vec(0_u64..700, 0..300), from in 0_u64..700, end in 0_u64..900) {
            let mut seen = Seen::new(10);
            let mut set = std::collections::BTreeSet::new();
            for number in numbers {
                if seen.needs_room(number) {
                    seen.make_room(number);
                }
                prop_assert_eq!(seen.mark(number), set.insert(number));
            }
            prop_assert_eq!(seen.highest(), set.last().copied());
            for arrived in [false, true] {
                let expected = (from..end).find(|number| set.contains(number) == arrived);
                prop_assert_eq!(seen.next(from, end, arrived), expected.unwrap_or(end));
            }
        }
    }
}
