//! The free ports of one address.

/// Ports in a word of the map.
const WORD: usize = 64;
/// Ports of a word that are even: its bits 0, 2, 4 …
const EVEN: u64 = 0x5555_5555_5555_5555;
/// Words of the privileged ports, 0 to 1023.
const PRIVILEGED: usize = 1024 / WORD;
/// Words of all ports.
const ALL: usize = 65536 / WORD;

/// The ports, or identifiers, of one protocol.
#[derive(Debug)]
pub(super) struct PortPool {
    /// A bit for each taken port.
    taken: Vec<u64>,
    /// The word to search next, so that a freed port is not reused at once.
    next: usize,
    /// Whether privileged ports map to privileged ports.
    ranges: bool,
}

impl PortPool {
    /// All ports are free except 0, which is invalid. `ranges`: privileged ports map to privileged ones,
    /// others to others (RFC 4787, REQ-3).
    pub(super) fn new(ranges: bool) -> Self {
        let mut taken = vec![0; ALL];
        taken[0] = 1;
        Self { taken, next: PRIVILEGED, ranges }
    }

    /// Takes the port `wanted`, or another of its range, of the same parity if possible (RFC 4787, REQ-4).
    /// `None` if all are taken.
    pub(super) fn take(&mut self, wanted: u16) -> Option<u16> {
        let (at, bit) = (usize::from(wanted) / WORD, 1 << (usize::from(wanted) % WORD));
        if self.taken[at] & bit == 0 {
            self.taken[at] |= bit;
            return Some(wanted);
        }
        let range = match self.ranges {
            true if at < PRIVILEGED => 0..PRIVILEGED,
            true => PRIVILEGED..ALL,
            false => 0..ALL,
        };
        let alike = if wanted.is_multiple_of(2) { EVEN } else { !EVEN };
        let start = if range.contains(&self.next) { self.next } else { range.start };
        for mask in [alike, !alike] {
            for at in (start..range.end).chain(range.start..start) {
                let free = !self.taken[at] & mask;
                if free != 0 {
                    let bit = free.trailing_zeros() as usize;
                    self.taken[at] |= 1 << bit;
                    self.next = at + 1;
                    return Some((at * WORD + bit) as u16);
                }
            }
        }
        None
    }

    /// Frees a port.
    pub(super) fn give(&mut self, port: u16) {
        self.taken[usize::from(port) / WORD] &= !(1 << (usize::from(port) % WORD));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn each_port_is_taken_once_and_from_its_range() {
        let mut ports = PortPool::new(true);
        assert_eq!(ports.take(5001), Some(5001), "as wanted");
        let others: HashSet<u16> = std::iter::from_fn(|| ports.take(5001)).collect();
        assert_eq!(others.len(), 65536 - 1024 - 1);
        assert!(others.iter().all(|&port| port >= 1024 && port != 5001));
        assert_eq!(ports.take(5001), None);
        ports.give(40_000);
        assert_eq!(ports.take(5001), Some(40_000), "even rather than none");
        let few: HashSet<u16> = std::iter::from_fn(|| ports.take(53)).collect();
        assert_eq!(few.len(), 1023);
        assert!(few.iter().all(|port| (1..1024).contains(port)));
    }

    #[test]
    fn parity_is_kept_and_freed_ports_are_not_reused_at_once() {
        let mut ports = PortPool::new(true);
        for wanted in [2000, 2001] {
            ports.take(wanted);
            for _ in 0..1000 {
                let got = ports.take(wanted).unwrap_or(wanted + 1);
                assert_eq!(got % 2, wanted % 2);
            }
        }
        let port = ports.take(2000).unwrap_or(0);
        ports.give(port);
        assert_ne!(ports.take(2000), Some(port));
    }

    #[test]
    fn identifiers_have_no_ranges() {
        let mut ids = PortPool::new(false);
        assert_eq!(std::iter::from_fn(|| ids.take(1)).count(), 65535);
    }
}
