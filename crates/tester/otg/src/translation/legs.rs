//! The legs of a flow: from which port to which other one its frames go.

use super::devices::Station;
use kpps_frames::arithmetic::common_divisor;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The frames of a flow that go from one port to another. A flow between two ports has one leg, and a flow
/// between stations one for each two ports, in each direction.
#[derive(Clone, Debug, PartialEq)]
pub struct Leg {
    /// The indices of the sending and the receiving port.
    pub ports: [usize; 2],
    /// The stations at both ends, if the flow is between stations: the frames take turns of these pairs.
    pub stations: Arc<[[Station; 2]]>,
    /// Whether it goes from the flow's receivers to its senders.
    pub is_back: bool,
    /// The turns of this leg among all turns of its direction, from 0 on, in their order.
    turns: Arc<[usize]>,
    /// The number of turns of its direction.
    all_turns: usize,
    /// Of a flow with metric tags: the leg has each `tags`-th frame of its two ports, from `tag` on.
    pub tag: usize,
    /// The number of frames after which the values of tagged fields repeat; 1 without tags.
    tags: usize,
}

impl Leg {
    /// The only leg between two ports.
    pub fn only(ports: [usize; 2]) -> Self {
        Self {
            ports,
            stations: Arc::default(),
            is_back: false,
            turns: [0].into(),
            all_turns: 1,
            tag: 0,
            tags: 1,
        }
    }

    /// The legs of one direction of a flow between stations, whose frames take turns of these pairs.
    pub fn of_pairs(pairs: &[[Station; 2]], is_back: bool) -> Vec<Self> {
        let mut by_ports: BTreeMap<[usize; 2], Vec<usize>> = BTreeMap::new();
        for (turn, pair) in pairs.iter().enumerate() {
            by_ports.entry(pair.map(|station| station.port)).or_default().push(turn);
        }
        let leg = |(ports, turns): ([usize; 2], Vec<usize>)| Self {
            ports,
            stations: turns.iter().filter_map(|turn| pairs.get(*turn).copied()).collect(),
            is_back,
            turns: turns.into(),
            all_turns: pairs.len(),
            tag: 0,
            tags: 1,
        };
        by_ports.into_iter().map(leg).collect()
    }

    /// The legs of the same ports, one for each frame after which the values of tagged fields repeat.
    pub fn tagged(&self, tags: usize) -> Vec<Self> {
        let leg = |tag: usize| {
            let pairs = self.stations.len();
            // The pairs of its frames, until they repeat.
            let repeat = pairs / (common_divisor(pairs as u64, tags as u64) as usize).max(1);
            let pair = |n: usize| self.stations.get((tag + n * tags) % pairs).copied();
            Self { stations: (0..repeat).filter_map(pair).collect(), tag, tags, ..self.clone() }
        };
        (0..tags).map(leg).collect()
    }

    /// Its share of the frames of its direction.
    pub fn share(&self) -> f64 {
        self.turns.len() as f64 / (self.all_turns * self.tags).max(1) as f64
    }

    /// Its frames among the first `frames` ones of its direction.
    pub fn frames(&self, frames: u64) -> u64 {
        let (all, tags) = (self.all_turns.max(1) as u64, self.tags.max(1) as u64);
        let begun = (frames % all) as usize;
        let rest = self.turns.partition_point(|turn| *turn < begun) as u64;
        let of_ports = (frames / all).saturating_mul(self.turns.len() as u64).saturating_add(rest);
        of_ports / tags + u64::from(of_ports % tags > self.tag as u64)
    }

    /// Whether each of its bursts has the same number of frames, if those of its direction have this many.
    pub fn divides(&self, burst: u64) -> bool {
        let whole = |frames: u64, parts: usize| frames.is_multiple_of(parts.max(1) as u64);
        let has_all = self.turns.len() == self.all_turns;
        let of_ports = burst / self.all_turns.max(1) as u64 * self.turns.len() as u64;
        (has_all || whole(burst, self.all_turns)) && whole(if has_all { burst } else { of_ports }, self.tags)
    }

    /// The number of its first frame among those of its direction.
    pub fn first_turn(&self) -> usize {
        let turns = self.turns.len().max(1);
        let turn = self.turns.get(self.tag % turns).copied().unwrap_or(0);
        turn + self.tag / turns * self.all_turns
    }
}

#[cfg(test)]
mod tests {
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
        let legs = Leg::of_pairs(&pairs, false);
        assert_eq!(legs.iter().map(|leg| leg.ports).collect::<Vec<_>>(), [[0, 2], [0, 3], [1, 2], [1, 3]]);
        for frames in 0..23 {
            let each: Vec<u64> = legs.iter().map(|leg| leg.frames(frames)).collect();
            let turns =
                |leg: &Leg| (0..frames).filter(|n| leg.turns.contains(&((n % 5) as usize))).count() as u64;
            assert_eq!(each, legs.iter().map(turns).collect::<Vec<_>>(), "{frames} frames");
        }
        // With tags whose values repeat after three frames of two ports.
        let tagged: Vec<Leg> = legs.iter().flat_map(|leg| leg.tagged(3)).collect();
        for frames in 0..40 {
            assert_eq!(tagged.iter().map(|leg| leg.frames(frames)).sum::<u64>(), frames);
            for leg in &tagged {
                assert_eq!(leg.frames(frames) > 0, leg.first_turn() < frames as usize, "{frames} {leg:?}");
            }
        }
        assert!((tagged.iter().map(Leg::share).sum::<f64>() - 1.0).abs() < 1e-12);
        assert!(tagged.iter().all(|leg| leg.divides(15) && !leg.divides(10)));
        assert_eq!(legs.iter().map(Leg::first_turn).collect::<Vec<_>>(), [0, 1, 2, 4]);
        assert!((legs.iter().map(Leg::share).sum::<f64>() - 1.0).abs() < 1e-12);
        assert!(legs[0].divides(10) && !legs[0].divides(9) && Leg::only([0, 1]).divides(9));
    }
}
