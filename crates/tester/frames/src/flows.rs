//! Many flows: ranges of addresses and ports, and the order of flows.

use crate::Mac;
use crate::build::Flow;
use alloc::string::{String, ToString};
use core::fmt;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use core::str::FromStr;

/// The most flows; each has its own headers in memory.
pub const MOST_FLOWS: u32 = 100_000;

/// The finaliser of SplitMix64 (public domain, S. Vigna).
#[inline]
pub(crate) const fn mixed(mut mix: u64) -> u64 {
    mix = (mix ^ mix >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mix = (mix ^ mix >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    mix ^ mix >> 31
}

/// The order in which the values of a range come: counting up by a step, or at random, the same in every run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Order {
    Steps(u32),
    /// With this seed.
    Random(u32),
}

impl Order {
    const ALL: Self = Self::Steps(1);

    /// The order that a text begins or ends with, and the range between: `FIRST-LAST/STEP`,
    /// `random:FIRST-LAST`, `random:FIRST-LAST/SEED`.
    fn read(text: &str) -> Option<(Self, &str)> {
        let random = text.strip_prefix("random:");
        let (range, number) = match random.unwrap_or(text).rsplit_once('/') {
            Some((range, number)) => (range, Some(number.parse().ok()?)),
            None => (random.unwrap_or(text), None),
        };
        let order = match (random, number) {
            (None, None) => Self::ALL,
            (None, Some(step)) if step > 1 && range.contains('-') => Self::Steps(step),
            (Some(_), seed) if range.contains('-') => Self::Random(seed.unwrap_or(0)),
            _ => return None,
        };
        Some((order, range))
    }

    /// The number of values within this distance of the first.
    fn count(self, distance: u128) -> u32 {
        let step = if let Self::Steps(step) = self { step } else { 1 };
        u32::try_from(distance / u128::from(step)).unwrap_or(u32::MAX).saturating_add(1)
    }

    /// The distance of the `n`th of `count` values from the first.
    fn distance(self, n: u32, count: u32) -> u32 {
        match self {
            Self::Steps(step) => n % count * step,
            Self::Random(seed) => {
                let mut mix = (u64::from(n) << 32 | u64::from(seed)).wrapping_add(1);
                mix = mix.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ u64::from(count);
                (mixed(mix) % u64::from(count)) as u32
            }
        }
    }

    fn fmt(
        self,
        f: &mut fmt::Formatter<'_>,
        first: &dyn fmt::Display,
        last: Option<&dyn fmt::Display>,
    ) -> fmt::Result {
        let Some(last) = last else { return write!(f, "{first}") };
        match self {
            Self::Random(0) => write!(f, "random:{first}-{last}"),
            Self::Random(seed) => write!(f, "random:{first}-{last}/{seed}"),
            Self::ALL => write!(f, "{first}-{last}"),
            Self::Steps(step) => write!(f, "{first}-{last}/{step}"),
        }
    }
}

/// A range of addresses of one IP version, both ends included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Addresses {
    first: IpAddr,
    last: IpAddr,
    order: Order,
}

/// A range of numbers, both ends included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Numbers {
    first: u32,
    last: u32,
    order: Order,
}

/// A range of ports, both ends included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortNumbers(Numbers);

impl Numbers {
    /// This one.
    pub const fn one(number: u32) -> Self {
        Self { first: number, last: number, order: Order::ALL }
    }

    /// Whether all are from `least` to `most`.
    pub fn within(&self, least: u32, most: u32) -> bool {
        least <= self.first && self.last <= most
    }

    /// How many there are.
    pub fn count(&self) -> u32 {
        self.order.count(u128::from(self.last - self.first))
    }

    /// The `n`th value, modulo their number.
    pub fn nth(&self, n: u32) -> u32 {
        self.first + self.order.distance(n, self.count())
    }
}

impl fmt::Display for Numbers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let last: &dyn fmt::Display = &self.last;
        self.order.fmt(f, &self.first, (self.last > self.first).then_some(last))
    }
}

impl FromStr for Numbers {
    type Err = BadRange;

    /// `46`, `0-63`, `0-63/8`, `random:0-63`.
    fn from_str(text: &str) -> Result<Self, BadRange> {
        let range = || {
            let (order, range) = Order::read(text)?;
            let [first, last] = ends(range)?;
            (first <= last && last < u32::MAX).then_some(Self { first, last, order })
        };
        range().ok_or_else(|| BadRange {
            text: text.to_string(),
            what: "range of numbers: give NUMBER, FIRST-LAST, FIRST-LAST/STEP or random:FIRST-LAST",
        })
    }
}

/// The first and the last value of `FIRST-LAST`; a single value twice.
fn ends<T: FromStr>(range: &str) -> Option<[T; 2]> {
    let (first, last) = range.split_once('-').unwrap_or((range, range));
    Some([first.trim().parse().ok()?, last.trim().parse().ok()?])
}

/// An invalid range.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadRange {
    text: String,
    what: &'static str,
}

impl fmt::Display for BadRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "'{}' is no {}", self.text, self.what)
    }
}

impl core::error::Error for BadRange {}

fn number(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => u128::from(u32::from(address)),
        IpAddr::V6(address) => address.into(),
    }
}

impl Addresses {
    /// `count` values from `first` on; fewer at the end of the number space.
    pub fn from(first: IpAddr, count: u32) -> Self {
        let more = count.saturating_sub(1);
        let last = match first {
            IpAddr::V4(address) => Ipv4Addr::from(u32::from(address).saturating_add(more)).into(),
            IpAddr::V6(address) => Ipv6Addr::from(u128::from(address).saturating_add(more.into())).into(),
        };
        Self { first, last, order: Order::ALL }
    }

    /// The first one.
    pub fn first(&self) -> IpAddr {
        self.first
    }

    /// The number of addresses, at most `u32::MAX`.
    pub fn count(&self) -> u32 {
        self.order.count(number(self.last) - number(self.first))
    }

    /// The `n`th value, modulo their number.
    pub fn nth(&self, n: u32) -> IpAddr {
        let distance = self.order.distance(n, self.count());
        match self.first {
            IpAddr::V4(first) => Ipv4Addr::from(u32::from(first) + distance).into(),
            IpAddr::V6(first) => Ipv6Addr::from(u128::from(first) + u128::from(distance)).into(),
        }
    }

    /// Whether the address is in the range.
    pub fn contains(&self, address: IpAddr) -> bool {
        address.is_ipv4() == self.first.is_ipv4() && (self.first..=self.last).contains(&address)
    }
}

impl fmt::Display for Addresses {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let last: &dyn fmt::Display = &self.last;
        self.order.fmt(f, &self.first, (self.last != self.first).then_some(last))
    }
}

impl FromStr for Addresses {
    type Err = BadRange;

    /// `198.18.0.1`, `198.18.0.1-198.18.0.200`, each fourth with `/4` behind it, at random with `random:`
    /// before it; the same with IPv6 addresses.
    fn from_str(text: &str) -> Result<Self, BadRange> {
        let range = || {
            let (order, range) = Order::read(text)?;
            let [first, last]: [IpAddr; 2] = ends(range)?;
            (first.is_ipv4() == last.is_ipv4() && first <= last).then_some(Self { first, last, order })
        };
        range().ok_or_else(|| BadRange {
            text: text.to_string(),
            what: "range of addresses: give ADDRESS, FIRST-LAST as 198.18.0.1-198.18.0.200, FIRST-LAST/STEP or random:FIRST-LAST",
        })
    }
}

impl PortNumbers {
    /// `count` values from `first` on; fewer at the end of the number space.
    pub fn from(first: u16, count: u16) -> Self {
        let last = first.saturating_add(count.saturating_sub(1)).into();
        Self(Numbers { first: first.into(), last, order: Order::ALL })
    }

    /// The number of ports.
    pub fn count(&self) -> u32 {
        self.0.count()
    }

    /// The `n`th value, modulo their number.
    pub fn nth(&self, n: u32) -> u16 {
        self.0.nth(n) as u16
    }
}

impl fmt::Display for PortNumbers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for PortNumbers {
    type Err = BadRange;

    /// `9`, `49152-65535`, `1024-2047/8`, `random:1024-65535`.
    fn from_str(text: &str) -> Result<Self, BadRange> {
        let ports = text.parse().ok().filter(|ports: &Numbers| ports.within(0, u16::MAX.into()));
        ports.map(Self).ok_or_else(|| BadRange {
            text: text.to_string(),
            what: "range of ports: give PORT, FIRST-LAST as 49152-65535, FIRST-LAST/STEP or random:FIRST-LAST",
        })
    }
}

/// Other addresses for those of a range, each at the same distance from the first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mapping {
    from: Addresses,
    to: Addresses,
}

impl Mapping {
    /// The address in place of this one; `None` outside the range.
    pub fn map(&self, address: IpAddr) -> Option<IpAddr> {
        let by = |first: IpAddr| number(address) - number(first);
        self.from
            .contains(address)
            .then(|| self.to.nth(u32::try_from(by(self.from.first)).unwrap_or(u32::MAX)))
    }
}

impl fmt::Display for Mapping {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}", self.from, self.to)
    }
}

impl FromStr for Mapping {
    type Err = BadRange;

    /// `10.0.0.5=198.18.0.1`, `10.0.0.1-10.0.0.99=198.18.0.1-198.18.0.99`: as many on both sides.
    fn from_str(text: &str) -> Result<Self, BadRange> {
        let mapping = || {
            let (from, to) = text.split_once('=')?;
            let (from, to): (Addresses, Addresses) = (from.parse().ok()?, to.parse().ok()?);
            let plain = from.order == Order::ALL && to.order == Order::ALL;
            let equal = plain && from.first.is_ipv4() == to.first.is_ipv4() && from.count() == to.count();
            (equal && from.count() < u32::MAX).then_some(Self { from, to })
        };
        mapping().ok_or_else(|| BadRange {
            text: text.to_string(),
            what: "mapping of addresses: give OLD=NEW, two addresses or two ranges of the same length and version of IP, as 10.0.0.1-10.0.0.9=198.18.0.1-198.18.0.9",
        })
    }
}

/// Flows by number. The source port varies first, then the source address, the destination address, the
/// destination port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flows {
    /// The number of flows; the first follows the last.
    pub count: u32,
    /// Source addresses.
    pub from: Addresses,
    /// Destination addresses.
    pub to: Addresses,
    /// Source ports.
    pub sports: PortNumbers,
    /// Destination ports.
    pub dports: PortNumbers,
}

impl Flows {
    /// All flows of these ranges, or the first `count`. `None` if there are fewer, none, or too many. Ranges
    /// at random have as many flows as are asked for.
    pub fn new(
        count: Option<u32>,
        [from, to]: [Addresses; 2],
        [sports, dports]: [PortNumbers; 2],
    ) -> Option<Self> {
        let all = [from.count(), to.count(), sports.count(), dports.count()]
            .into_iter()
            .fold(1_u64, |all, count| all.saturating_mul(count.into()));
        let count = count.map_or(all, u64::from);
        let count = u32::try_from(count).ok().filter(|count| (1..=MOST_FLOWS).contains(count))?;
        let is_random = |order: Order| matches!(order, Order::Random(_));
        let orders = [from.order, to.order, sports.0.order, dports.0.order];
        (u64::from(count) <= all || orders.into_iter().any(is_random)).then_some(Self {
            count,
            from,
            to,
            sports,
            dports,
        })
    }

    /// The flow of this number, from 0, between two stations.
    pub fn nth(&self, n: u32, [from_mac, to_mac]: [Mac; 2], vlan: Option<u16>) -> Flow<IpAddr> {
        let (sport, n) = (self.sports.nth(n), n / self.sports.count());
        let (from, n) = (self.from.nth(n), n / self.from.count());
        let (to, n) = (self.to.nth(n), n / self.to.count());
        Flow { from_mac, to_mac, vlan, from: (from, sport), to: (to, self.dports.nth(n)) }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use alloc::collections::BTreeSet;

    fn addresses(text: &str) -> Addresses {
        text.parse().unwrap()
    }

    #[test]
    fn ranges_parse_and_print() {
        for (text, count, last) in [
            ("10.0.0.1", 1, "10.0.0.1"),
            ("10.0.0.1-10.0.1.0", 256, "10.0.1.0"),
            ("0.0.0.0-255.255.255.255", u32::MAX, "255.255.255.254"),
            ("2001:2::1-2001:2::1:0", 65536, "2001:2::1:0"),
        ] {
            let range = addresses(text);
            assert_eq!(
                (range.count(), range.nth(range.count() - 1)),
                (count, last.parse().unwrap()),
                "{text}"
            );
            assert_eq!(range.to_string(), text);
        }
        assert!(addresses("10.0.0.1-10.0.0.9").contains([10, 0, 0, 9].into()));
        assert!(!addresses("10.0.0.1-10.0.0.9").contains([10, 0, 0, 10].into()));
        assert!(!addresses("10.0.0.1").contains("::a00:1".parse().unwrap()));
        for bad in ["", "10.0.0.2-10.0.0.1", "10.0.0.1-", "10.0.0.0/24", "10.0.0.1-::1", "a-b"] {
            assert!(bad.parse::<Addresses>().is_err(), "{bad}");
        }
        let ports: PortNumbers = "49152-65535".parse().unwrap();
        assert_eq!((ports.count(), ports.nth(16383), ports.nth(16384)), (16384, 65535, 49152));
        assert!(["", "2-1", "65536", "1-2-3"].iter().all(|bad| bad.parse::<PortNumbers>().is_err()));
    }

    #[test]
    fn steps_and_random_values_are_the_same_in_every_run() {
        let ports: PortNumbers = "1000-1010/4".parse().unwrap();
        assert_eq!([0, 1, 2, 3].map(|n| ports.nth(n)), [1000, 1004, 1008, 1000]);
        assert_eq!(addresses("10.0.0.1-10.0.0.255/100").count(), 3);
        let random = |text: &str| -> Vec<u32> {
            let numbers: Numbers = text.parse().unwrap();
            assert_eq!(numbers.to_string(), text);
            (0..1000).map(|n| numbers.nth(n)).collect()
        };
        let seen = random("random:100-199");
        assert_eq!(seen, random("random:100-199"));
        assert_ne!(seen, random("random:100-199/7"));
        // Each of 100 values comes about ten times.
        let times = |value: u32| seen.iter().filter(|it| **it == value).count();
        assert!((100..200).all(|value| (1..30).contains(&times(value))), "{seen:?}");
        let flows = Flows::new(
            Some(5000),
            [addresses("random:10.0.0.0-10.255.255.255"), addresses("10.1.0.1")],
            ["7".parse().unwrap(), "9".parse().unwrap()],
        );
        assert_eq!(flows.unwrap().count, 5000);
        for bad in ["random:5", "5/2", "1-9/1", "1-9/0", "random:9-1", "1-9/x", "-", "4294967295"] {
            assert!(bad.parse::<Numbers>().is_err(), "{bad}");
        }
    }

    #[test]
    fn mappings_keep_the_distance() {
        let mapping: Mapping = "10.0.0.1-10.0.0.9=198.18.0.101-198.18.0.109".parse().unwrap();
        let map = |text: &str| mapping.map(text.parse().unwrap()).map(|address| address.to_string());
        assert_eq!(map("10.0.0.3").as_deref(), Some("198.18.0.103"));
        assert_eq!((map("10.0.0.10"), map("::1")), (None, None));
        assert_eq!(mapping.to_string().parse(), Ok(mapping));
        for bad in ["", "10.0.0.1", "10.0.0.1=", "10.0.0.1=::1", "10.0.0.1-10.0.0.2=10.0.0.1", "a=b"] {
            assert!(bad.parse::<Mapping>().is_err(), "{bad}");
        }
    }

    #[test]
    fn all_flows_differ_and_ports_go_first() {
        let ranges = [addresses("10.0.0.1-10.0.0.3"), addresses("10.1.0.1-10.1.0.2")];
        let ports = ["7-8".parse().unwrap(), "9".parse().unwrap()];
        let flows = Flows::new(None, ranges, ports).unwrap();
        assert_eq!(flows.count, 12);
        let all: Vec<_> = (0..12).map(|n| flows.nth(n, [Mac::default(); 2], None)).collect();
        let different: BTreeSet<_> = all.iter().map(|flow| (flow.from, flow.to)).collect();
        assert_eq!(different.len(), 12);
        assert_eq!((all[1].from, all[2].from.1), ((IpAddr::from([10, 0, 0, 1]), 8), 7));
        assert_eq!(all[11].to.0, IpAddr::from([10, 1, 0, 2]));
        assert_eq!(Flows::new(Some(13), ranges, ports), None);
        assert_eq!(Flows::new(Some(0), ranges, ports), None);
        let many = [addresses("10.0.0.0-10.255.255.255"), ranges[1]];
        assert_eq!(Flows::new(None, many, ports), None);
        assert_eq!(Flows::new(Some(1000), many, ports).unwrap().count, 1000);
    }

    use alloc::vec::Vec;
}
