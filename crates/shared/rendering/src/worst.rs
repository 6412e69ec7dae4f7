//! The streams, or directions, that a screen shows: all of them, or the worst ones.

use std::cmp::Reverse;

/// The most that are shown.
const SHOWN: usize = 16;

/// All of these in their order, or the worst ones first, if there are more than are shown: those whose key is
/// the greatest. Returns also how many are left out.
pub(crate) fn worst<T, K: Ord>(all: &[T], key: impl Fn(&T) -> K) -> (Vec<&T>, usize) {
    let mut shown: Vec<&T> = all.iter().collect();
    if all.len() > SHOWN {
        shown.sort_by_key(|one| Reverse(key(one)));
        shown.truncate(SHOWN);
    }
    let left_out = all.len() - shown.len();
    (shown, left_out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worst_come_first_only_if_not_all_are_shown() {
        let few: Vec<usize> = (0..SHOWN).collect();
        assert_eq!(worst(&few, |one| *one), (few.iter().collect(), 0));
        let many: Vec<usize> = (0..SHOWN + 3).collect();
        let (shown, left_out) = worst(&many, |one| *one);
        assert_eq!((shown.len(), shown[0], shown[1], left_out), (SHOWN, &(SHOWN + 2), &(SHOWN + 1), 3));
    }
}
