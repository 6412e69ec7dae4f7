//! The legs of a flow: the parts of its frames that are counted apart.

use super::devices::Station;
use kpps_frames::Mix;
use kpps_frames::arithmetic::{common_multiple, numbers_of_turns};
use kpps_frames::stack::Stack;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The most turns of a direction: the frames of a flow after which its pairs of stations and the values of
/// its metric tags repeat together.
pub const MOST_TURNS: u64 = 1 << 16;

/// The frames of a flow that go from one port to another and have the same values of tagged fields. A flow
/// between two ports without tags has one leg.
#[derive(Clone, Debug, PartialEq)]
pub struct Leg {
    /// The indices of the sending and the receiving port.
    pub ports: [usize; 2],
    /// The stations at both ends, if the flow is between stations: the leg's frames take turns of them.
    pub stations: Arc<[[Station; 2]]>,
    /// Whether it goes from the flow's receivers to its senders.
    pub is_back: bool,
    /// The number of its values of tagged fields among those of the flow.
    pub tag: usize,
    /// The turns of this leg among all turns of its direction, from 0 on, in their order.
    turns: Arc<[usize]>,
    /// The number of turns of its direction.
    all_turns: usize,
}

impl Leg {
    /// The legs of one direction of a flow from one port to another whose tagged fields have this number of
    /// values; `None` with more than [`MOST_TURNS`] of them.
    pub fn between(ports: [usize; 2], tags: usize) -> Option<Vec<Self>> {
        Self::of(tags as u64, |_| ports, tags, &[], false)
    }

    /// The legs of one direction of a flow between stations, whose frames take turns of these pairs; `None`
    /// if pairs and values of tagged fields repeat together after more than [`MOST_TURNS`] frames.
    pub fn of_pairs(pairs: &[[Station; 2]], tags: usize, is_back: bool) -> Option<Vec<Self>> {
        let ports = |turn: usize| pairs.get(turn % pairs.len()).map_or([0; 2], |pair| pair.map(|it| it.port));
        Self::of(common_multiple(pairs.len() as u64, tags as u64), ports, tags, pairs, is_back)
    }

    fn of(
        turns: u64,
        ports: impl Fn(usize) -> [usize; 2],
        tags: usize,
        pairs: &[[Station; 2]],
        is_back: bool,
    ) -> Option<Vec<Self>> {
        if !(1..=MOST_TURNS).contains(&turns) {
            return None;
        }
        let all_turns = turns as usize;
        let mut legs: BTreeMap<([usize; 2], usize), Vec<usize>> = BTreeMap::new();
        for turn in 0..all_turns {
            legs.entry((ports(turn), turn % tags.max(1))).or_default().push(turn);
        }
        let leg = |((ports, tag), turns): (([usize; 2], usize), Vec<usize>)| Self {
            ports,
            stations: turns
                .iter()
                .filter_map(|turn| pairs.get(turn.checked_rem(pairs.len())?).copied())
                .collect(),
            is_back,
            tag,
            turns: turns.into(),
            all_turns,
        };
        Some(legs.into_iter().map(leg).collect())
    }

    /// The number of frames of its direction after which the legs of these repeat.
    pub fn all_turns(&self) -> u64 {
        self.all_turns as u64
    }

    /// Whether it has all frames of its direction.
    fn is_whole(&self) -> bool {
        self.turns.len() == self.all_turns
    }

    /// Its share of the frames of its direction.
    pub fn share(&self) -> f64 {
        self.turns.len() as f64 / self.all_turns.max(1) as f64
    }

    /// Its frames among the first `frames` ones of its direction.
    pub fn frames(&self, frames: u64) -> u64 {
        let all = self.all_turns.max(1) as u64;
        let begun = (frames % all) as usize;
        let rest = self.turns.partition_point(|turn| *turn < begun);
        (frames / all).saturating_mul(self.turns.len() as u64).saturating_add(rest as u64)
    }

    /// Whether each of its bursts has the same number of frames, if those of its direction have this many.
    pub fn divides(&self, burst: u64) -> bool {
        self.is_whole() || burst.is_multiple_of(self.all_turns.max(1) as u64)
    }

    /// The number of its first frame among those of its direction.
    pub fn first_turn(&self) -> usize {
        self.turns.first().copied().unwrap_or(0)
    }

    /// The frames of the leg, of a flow with this stack and with sizes in this order (`period`); `None` if a
    /// field has too many values for that.
    pub fn part(&self, stack: &Stack, (sizes, period): (&Mix, &[kpps_frames::Size])) -> Option<(Stack, Mix)> {
        if self.is_whole() {
            return Some((stack.clone(), sizes.clone()));
        }
        let own = stack.of_turns(&self.turns, self.all_turns)?;
        if sizes.only().is_some() {
            return Some((own, sizes.clone()));
        }
        let numbers = numbers_of_turns(&self.turns, self.all_turns, period.len().max(1) as u64);
        Some((own, sizes.some_of(numbers.filter_map(|n| period.get(n as usize).copied()).collect())))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use kpps_frames::Mac;
    use kpps_frames::encap::Tags;

    fn station(port: usize) -> Station {
        let mac = Mac([2, 0, 0, 0, 0, port as u8]);
        Station { port, mac, tags: Tags::default(), ip: None, prefix: 0, gateway_mac: None }
    }

    #[test]
    fn the_frames_of_all_legs_are_those_of_the_flow() {
        let pairs: Vec<[Station; 2]> =
            [(0, 2), (0, 3), (1, 2), (0, 2), (1, 3)].map(|(from, to)| [station(from), station(to)]).into();
        for tags in [1, 3, 5, 10] {
            let legs = Leg::of_pairs(&pairs, tags, false).unwrap();
            for frames in 0..63_u64 {
                let each: Vec<u64> = legs.iter().map(|leg| leg.frames(frames)).collect();
                let is_its = |leg: &Leg, n: u64| {
                    let pair = pairs[(n % 5) as usize].map(|station| station.port);
                    (pair, (n % tags as u64) as usize) == (leg.ports, leg.tag)
                };
                let turns = |leg: &Leg| (0..frames).filter(|n| is_its(leg, *n)).count() as u64;
                assert_eq!(each, legs.iter().map(turns).collect::<Vec<_>>(), "{frames} frames, {tags} tags");
                let has_begun = |leg: &Leg| (leg.frames(frames) > 0) == (leg.first_turn() < frames as usize);
                assert!(legs.iter().all(has_begun));
            }
            assert!((legs.iter().map(Leg::share).sum::<f64>() - 1.0).abs() < 1e-12);
            // The stations of each leg are those of its turns.
            for leg in &legs {
                assert_eq!(leg.stations.len(), leg.turns.len());
            }
        }
        let legs = Leg::of_pairs(&pairs, 1, false).unwrap();
        assert_eq!(legs.iter().map(|leg| leg.ports).collect::<Vec<_>>(), [[0, 2], [0, 3], [1, 2], [1, 3]]);
        assert_eq!(legs.iter().map(Leg::first_turn).collect::<Vec<_>>(), [0, 1, 2, 4]);
        assert!(legs[0].divides(10) && !legs[0].divides(9));
        let only = Leg::between([0, 1], 1).unwrap();
        assert!(only.len() == 1 && only[0].divides(9) && only[0].stations.is_empty());
        // Many pairs and tags that repeat late are refused before memory is taken.
        let many = vec![[station(0), station(1)]; 1 << 14];
        assert!(Leg::of_pairs(&many, 999, false).is_none() && Leg::of_pairs(&[], 1, false).is_none());
    }
}
