//! The numbers of the frames of a stream that one core of several sends.

/// The numbers of the frames of a stream that one core of several sends. Flows take turns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Numbers {
    core: u64,
    cores: u64,
    flows: u64,
    /// The flows of this core.
    own: u64,
}

impl Numbers {
    /// The numbers of this core, of a stream with this number of flows. `core` is less than `cores`.
    pub fn of(core: usize, cores: usize, flows: u32) -> Self {
        let (core, cores, flows) = (core as u64, cores.max(1) as u64, u64::from(flows.max(1)));
        Self { core, cores, flows, own: own_before(flows, core, cores) }
    }

    /// Whether the core has no frames.
    pub fn is_empty(&self) -> bool {
        self.own == 0
    }

    /// The number of the core's `n`th frame; the first one is the 0th. The largest number without frames.
    #[inline]
    pub fn nth(&self, n: u64) -> u64 {
        match (n.checked_div(self.own), n.checked_rem(self.own)) {
            (Some(round), Some(turn)) => {
                round.saturating_mul(self.flows).saturating_add(self.core + turn * self.cores)
            }
            _ => u64::MAX,
        }
    }

    /// The number of the core's frames among the first `frames` of the stream.
    #[inline]
    pub fn before(&self, frames: u64) -> u64 {
        let (rounds, rest) = (frames / self.flows, frames % self.flows);
        rounds * self.own + own_before(rest, self.core, self.cores)
    }

    /// The frames of a flow among the first `frames` of the core.
    fn of_flow(&self, flow: u32, frames: u64) -> u64 {
        let flow = u64::from(flow);
        let Some(own) = flow.checked_sub(self.core).filter(|own| own % self.cores == 0) else { return 0 };
        let turn = own / self.cores;
        let is_later = frames.checked_rem(self.own).is_some_and(|rest| turn < rest);
        frames.checked_div(self.own).unwrap_or(0) + u64::from(is_later)
    }
}

/// The number of the flows before `flow` that belong to a core.
#[inline]
fn own_before(flow: u64, core: u64, cores: u64) -> u64 {
    flow.saturating_sub(core).div_ceil(cores)
}

/// The frames of a stream that several cores have sent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SentNumbers {
    /// The numbers of each core, and how many of its frames it sent.
    parts: Vec<(Numbers, u64)>,
}

impl SentNumbers {
    /// For a stream with this number of flows, of which each core has sent this number of frames.
    pub fn of(flows: u32, sent: &[u64]) -> Self {
        let cores = sent.len();
        let part = |(core, sent): (usize, &u64)| (Numbers::of(core, cores, flows), *sent);
        Self { parts: sent.iter().enumerate().map(part).collect() }
    }

    /// All sent frames.
    pub fn all(&self) -> u64 {
        self.parts.iter().map(|(_, sent)| sent).sum()
    }

    /// One more than the highest number that was sent.
    pub fn end(&self) -> u64 {
        let last = self.parts.iter().filter_map(|(numbers, sent)| Some(numbers.nth(sent.checked_sub(1)?)));
        last.max().map_or(0, |last| last + 1)
    }

    /// The numbers before the [end](Self::end) that were not sent: a core could not keep up.
    pub fn unsent(&self) -> impl Iterator<Item = u64> {
        let end = self.end();
        self.parts.iter().flat_map(move |(numbers, sent)| {
            let number = move |n: u64| Some(numbers.nth(n)).filter(|number| *number < end);
            (*sent..).map_while(number)
        })
    }

    /// How many numbers before `end` were not sent.
    pub fn unsent_before(&self, end: u64) -> u64 {
        self.parts.iter().map(|(numbers, sent)| numbers.before(end).saturating_sub(*sent)).sum()
    }

    /// The sent frames of a flow.
    pub fn of_flow(&self, flow: u32) -> u64 {
        self.parts.iter().map(|(numbers, sent)| numbers.of_flow(flow, *sent)).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        /// The cores' numbers are those of all flows, each once, and rise.
        #[test]
        fn the_numbers_of_all_cores_add_up(cores in 1..9_usize, flows in 1..40_u32, frames in 0..300_u64) {
            let all: Vec<_> = (0..cores).map(|core| Numbers::of(core, cores, flows)).collect();
            let mut found = BTreeSet::new();
            for (core, numbers) in all.iter().enumerate() {
                let own: Vec<_> = (0..numbers.before(frames)).map(|n| numbers.nth(n)).collect();
                prop_assert!(own.is_sorted() && own.iter().all(|number| *number < frames));
                let flow = |number: &u64| (number % u64::from(flows)) as usize;
                prop_assert!(own.iter().all(|number| flow(number) % cores == core));
                prop_assert_eq!(numbers.is_empty(), core >= flows as usize);
                prop_assert!(numbers.is_empty() || numbers.nth(own.len() as u64) >= frames);
                prop_assert!(own.into_iter().all(|number| found.insert(number)));
            }
            prop_assert_eq!(found.len() as u64, frames);
        }

        /// Whatever number of frames each core has sent.
        #[test]
        fn sent_numbers_are_a_set(flows in 1..20_u32, sent in prop::collection::vec(0..60_u64, 1..5)) {
            let sent = &sent[..sent.len().min(flows as usize)];
            let numbers = SentNumbers::of(flows, sent);
            let part = |core: usize| Numbers::of(core, sent.len(), flows);
            let of = |core: usize| (0..sent[core]).map(move |n| part(core).nth(n));
            let set: BTreeSet<u64> = (0..sent.len()).flat_map(of).collect();
            prop_assert_eq!(numbers.all(), set.len() as u64);
            prop_assert_eq!(numbers.end(), set.last().map_or(0, |last| last + 1));
            let unsent: BTreeSet<u64> = numbers.unsent().collect();
            let others: BTreeSet<u64> = (0..numbers.end()).filter(|number| !set.contains(number)).collect();
            prop_assert_eq!(&unsent, &others);
            for end in [0, numbers.end() / 2, numbers.end()] {
                prop_assert_eq!(numbers.unsent_before(end), others.range(..end).count() as u64);
            }
            for flow in 0..flows {
                let own = set.iter().filter(|number| *number % u64::from(flows) == u64::from(flow)).count();
                prop_assert_eq!(numbers.of_flow(flow), own as u64);
            }
        }
    }
}
