//! Lists of CPUs.

use std::str::FromStr;

/// CPUs have lower numbers.
const END: usize = 1 << 16;

/// CPUs by their numbers, as the kernel and its tools write them: `0-3,8`. There is at least one, and none
/// twice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CpuList(Vec<usize>);

impl CpuList {
    /// Their numbers, in the order in which they were written.
    pub fn numbers(&self) -> &[usize] {
        &self.0
    }
}

impl FromStr for CpuList {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let range = |part: &str| {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let (first, last) = (first.parse::<usize>().ok()?, last.parse::<usize>().ok()?);
            (first <= last && last < END).then_some(first..=last)
        };
        let ranges = text.trim().split(',').map(range).collect::<Option<Vec<_>>>();
        let wrong = || format!("'{text}' is no list of CPUs: give their numbers, as 2,3 or 0-3");
        let mut numbers = Vec::new();
        for cpu in ranges.ok_or_else(wrong)?.into_iter().flatten() {
            if numbers.contains(&cpu) {
                return Err(format!("CPU {cpu} is given twice in '{text}'"));
            }
            numbers.push(cpu);
        }
        Ok(Self(numbers))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn lists_as_the_kernel_and_people_write_them() {
        let numbers = |text: &str| text.parse::<CpuList>().map(|list| list.0);
        assert_eq!(numbers("0-2,5,8-9\n").unwrap(), [0, 1, 2, 5, 8, 9]);
        assert_eq!(numbers("3,1").unwrap(), [3, 1], "senders take the first ones");
        for wrong in ["", "x", "2-1", "1,", "-1", "0-99999999", "1;2"] {
            assert!(numbers(wrong).unwrap_err().contains("is no list of CPUs"), "{wrong}");
        }
        assert!(numbers("0-3,2").unwrap_err().contains("CPU 2 is given twice"));
    }
}
