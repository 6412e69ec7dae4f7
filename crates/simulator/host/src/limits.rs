//! Limits of the constants in profiles. A user may write any number, and a machine whose clock stands still
//! never ends.

use std::fmt::Display;
use std::ops::RangeInclusive;

/// Picoseconds that one step may cost: far above any real machine, far below an overflow.
pub const STEP_PS: RangeInclusive<u64> = 0..=crate::MS;
/// Frames that a queue may hold.
pub const QUEUE: RangeInclusive<usize> = 1..=16_384;

/// Whether each named value is within its range; the error names the first that is not.
pub fn check<T: PartialOrd + Display>(values: &[(&str, T, RangeInclusive<T>)]) -> Result<(), String> {
    match values.iter().find(|(_, value, range)| !range.contains(value)) {
        Some((name, value, range)) => {
            Err(format!("{name} = {value} is out of range: {} to {}", range.start(), range.end()))
        }
        None => Ok(()),
    }
}
