//! The free address ranges of a memory: first fit; returned ranges join their neighbours.

use crate::DmaSpec;
use std::ops::Range;

/// Free ranges in order of address; no two are adjacent.
#[derive(Debug)]
pub(super) struct FreeRanges {
    free: Vec<Range<u64>>,
}

impl FreeRanges {
    pub(super) fn new(all: Range<u64>) -> Self {
        Self { free: if all.is_empty() { Vec::new() } else { vec![all] } }
    }

    /// Takes the lowest range that meets `spec`.
    pub(super) fn take(&mut self, spec: DmaSpec) -> Option<Range<u64>> {
        let bytes = spec.bytes as u64;
        if bytes == 0 || !spec.align.is_power_of_two() {
            return None;
        }
        let (index, start) = self.free.iter().enumerate().find_map(|(index, free)| {
            let start = place(free.start, spec)?;
            let end = start.checked_add(bytes)?;
            (end <= free.end && end - 1 <= spec.max_address).then_some((index, start))
        })?;
        let taken = start..start + bytes;
        let hole = self.free.remove(index);
        let left = [hole.start..taken.start, taken.end..hole.end];
        self.free.splice(index..index, left.into_iter().filter(|range| !range.is_empty()));
        Some(taken)
    }

    /// Frees `range`, which was taken before.
    pub(super) fn give(&mut self, mut range: Range<u64>) {
        let mut index = self.free.partition_point(|free| free.start < range.start);
        if self.free.get(index).is_some_and(|next| next.start == range.end) {
            range.end = self.free.remove(index).end;
        }
        if index > 0 && self.free[index - 1].end == range.start {
            index -= 1;
            range.start = self.free.remove(index).start;
        }
        self.free.insert(index, range);
    }
}

/// The lowest address from `from` on that meets alignment and boundary of `spec`.
fn place(from: u64, spec: DmaSpec) -> Option<u64> {
    let align = spec.align as u64;
    let start = from.checked_next_multiple_of(align)?;
    let Some(boundary) = spec.boundary else { return Some(start) };
    let bytes = spec.bytes as u64;
    if boundary == 0 || bytes > boundary {
        return None;
    }
    let crosses = start / boundary != start.checked_add(bytes - 1)? / boundary;
    if !crosses {
        return Some(start);
    }
    start.checked_next_multiple_of(boundary.max(align))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The address from which a range is searched, its specification, and where it starts.
    #[test]
    fn the_lowest_place_that_will_do() {
        let spec = |bytes, align, boundary| DmaSpec { bytes, align, boundary, max_address: u64::MAX };
        for (from, spec, start) in [
            (5, spec(10, 1, None), Some(5)),
            (5, spec(10, 8, None), Some(8)),
            // Up to the boundary, and one byte more.
            (0x1F00, spec(0x100, 16, Some(0x1000)), Some(0x1F00)),
            (0x1F00, spec(0x101, 16, Some(0x1000)), Some(0x2000)),
            // All between two boundaries, and more than that.
            (0x1000, spec(0x1000, 16, Some(0x1000)), Some(0x1000)),
            (0x1010, spec(0x1000, 16, Some(0x1000)), Some(0x2000)),
            (0x1000, spec(0x1001, 16, Some(0x1000)), None),
            (0x1F00, spec(0x101, 0x4000, Some(0x1000)), Some(0x4000)),
            (0x1000, spec(8, 8, Some(0)), None),
        ] {
            assert_eq!(place(from, spec), start, "{spec:?} from {from:#x}");
        }
    }

    #[test]
    fn the_highest_address_can_be_used() {
        let spec = DmaSpec { bytes: 16, align: 16, boundary: None, max_address: 0x2F };
        let of = |spec: DmaSpec| FreeRanges::new(0x10..0x100).take(spec);
        assert_eq!(of(spec), Some(0x10..0x20));
        assert_eq!(of(DmaSpec { bytes: 32, ..spec }), Some(0x10..0x30));
        assert_eq!(of(DmaSpec { bytes: 33, ..spec }), None);
        for impossible in
            [DmaSpec { bytes: 0, ..spec }, DmaSpec { align: 24, ..spec }, DmaSpec { align: 0, ..spec }]
        {
            assert_eq!(of(impossible), None, "{impossible:?}");
        }
    }

    proptest! {
        /// Taken ranges are disjoint, inside the memory, and meet their spec. When all are returned, there is
        /// one free range.
        #[test]
        fn disjoint_and_whole_again(
            wants in prop::collection::vec(
                (1_usize..5000, 0_u32..13, prop::option::of(12_u32..17), any::<bool>()), 1..60),
        ) {
            let all = 4096..(1 << 20);
            let mut ranges = FreeRanges::new(all.clone());
            let mut taken: Vec<Range<u64>> = Vec::new();
            for (bytes, align, boundary, give) in wants {
                let spec = DmaSpec {
                    bytes, align: 1 << align,
                    boundary: boundary.map(|b| 1 << b), max_address: 1 << 19,
                };
                if let Some(range) = ranges.take(spec) {
                    prop_assert!(range.start >= all.start && range.end <= (1 << 19) + 1);
                    prop_assert_eq!(range.end - range.start, bytes as u64);
                    prop_assert_eq!(range.start % (1 << align), 0);
                    if let Some(b) = boundary {
                        prop_assert_eq!(range.start >> b, (range.end - 1) >> b);
                    }
                    prop_assert!(taken.iter().all(|t| t.end <= range.start || range.end <= t.start));
                    taken.push(range);
                }
                if give && !taken.is_empty() {
                    ranges.give(taken.swap_remove(bytes % taken.len()));
                }
            }
            for range in taken {
                ranges.give(range);
            }
            prop_assert_eq!(ranges.free, vec![all]);
        }
    }
}
