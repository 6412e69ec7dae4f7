//! The statistics registers (SDM 13.7): cleared when read, stuck at all ones.

use kpps_datasheet::stat;

const FIRST: u32 = stat::CRCERRS;
const LAST: u32 = stat::TSCTFC;
const WORDS: usize = ((LAST - FIRST) / 4 + 1) as usize;

/// The kind of a counter's word.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    None,
    Narrow,
    WideLow,
    WideHigh,
}

const KINDS: [Kind; WORDS] = {
    let mut kinds = [Kind::None; WORDS];
    let mut i = 0;
    while i < stat::ALL.len() {
        let s = stat::ALL[i];
        let word = ((s.offset - FIRST) / 4) as usize;
        if s.is_64_bit {
            kinds[word] = Kind::WideLow;
            kinds[word + 1] = Kind::WideHigh;
        } else {
            kinds[word] = Kind::Narrow;
        }
        i += 1;
    }
    kinds
};

/// The counters.
#[derive(Clone, Debug)]
pub(crate) struct Statistics {
    /// One per register; a wide one lives in its low word.
    counts: [u64; WORDS],
}

impl Statistics {
    pub(crate) fn new() -> Self {
        Self { counts: [0; WORDS] }
    }

    /// Whether `offset` is in the block of statistics registers.
    pub(crate) fn holds(offset: u32) -> bool {
        (FIRST..=LAST).contains(&offset)
    }

    /// Adds to the counter at `offset`.
    #[inline]
    pub(crate) fn add(&mut self, offset: u32, n: u64) {
        let word = ((offset - FIRST) / 4) as usize;
        if let Some(c) = self.counts.get_mut(word) {
            *c = c.saturating_add(n);
        }
    }

    /// Counts one.
    #[inline]
    pub(crate) fn bump(&mut self, offset: u32) {
        self.add(offset, 1);
    }

    /// Counts a frame of `total` bytes (with FCS) in the size classes that begin with `first`
    /// (PRC64 or PTC64).
    #[inline]
    pub(crate) fn bump_size(&mut self, first: u32, total: u64) {
        let class = match total {
            ..=64 => 0,
            65..=127 => 1,
            128..=255 => 2,
            256..=511 => 3,
            512..=1023 => 4,
            _ => 5,
        };
        self.bump(first + 4 * class);
    }

    /// Reads a register, which clears it (a wide one when its high half is read, SDM 13.7).
    pub(crate) fn read(&mut self, offset: u32) -> u32 {
        if !Self::holds(offset) {
            return 0;
        }
        let word = ((offset - FIRST) / 4) as usize;
        match KINDS[word] {
            Kind::None => 0,
            Kind::Narrow => {
                let n = core::mem::take(&mut self.counts[word]);
                n.min(u64::from(u32::MAX)) as u32
            }
            Kind::WideLow => self.counts[word] as u32,
            Kind::WideHigh => (core::mem::take(&mut self.counts[word - 1]) >> 32) as u32,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reading_clears_and_counters_stick() {
        let mut s = Statistics::new();
        s.add(stat::GPRC, 5);
        assert_eq!((s.read(stat::GPRC), s.read(stat::GPRC)), (5, 0));
        s.add(stat::MPC, u64::MAX);
        s.bump(stat::MPC);
        assert_eq!(s.read(stat::MPC), u32::MAX);
        s.add(stat::TOR, 0x1_2345_6789);
        assert_eq!(s.read(stat::TOR), 0x2345_6789);
        assert_eq!(s.read(stat::TOR), 0x2345_6789);
        assert_eq!((s.read(stat::TOR + 4), s.read(stat::TOR), s.read(stat::TOR + 4)), (1, 0, 0));
        assert_eq!(s.read(0x4024), 0);
        assert_eq!(s.read(0), 0);
    }

    #[test]
    fn sizes() {
        let mut s = Statistics::new();
        for total in [64, 65, 127, 128, 255, 256, 511, 512, 1023, 1024, 16384] {
            s.bump_size(stat::PRC64, total);
        }
        let counts: Vec<u32> = (0..6).map(|i| s.read(stat::PRC64 + 4 * i)).collect();
        assert_eq!(counts, [1, 2, 2, 2, 2, 2]);
    }
}
