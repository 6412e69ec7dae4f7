//! Mixes of frame sizes, with the names that testers use.

use crate::Size;
use crate::arithmetic::common_divisor;
use alloc::borrow::Cow;
use alloc::collections::BTreeMap;
use alloc::string::{String, ToString};
use alloc::vec;
use alloc::vec::Vec;
use core::fmt;
use core::str::FromStr;

/// Frame sizes and their weights.
///
/// "IMIX" alone is ambiguous: [CSIT's](Mix::imix_csit), [TRex's](Mix::imix_trex) and
/// [Linux's](Mix::imix_linux) differ in sizes, in weights and even in whether the FCS counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mix {
    name: Cow<'static, str>,
    parts: Vec<(Size, u32)>,
}

impl From<Size> for Mix {
    fn from(size: Size) -> Self {
        Self::fixed(size)
    }
}

impl Mix {
    /// All frames of one size. Its name is the size *with* FCS, as testers use it ("64").
    pub fn fixed(size: Size) -> Self {
        Self { name: Cow::Owned(size.bytes_with_fcs().to_string()), parts: vec![(size, 1)] }
    }

    fn named(name: &'static str, parts: &[(Size, u32)]) -> Self {
        Self { name: Cow::Borrowed(name), parts: parts.to_vec() }
    }

    /// `imix-csit`: frames of 64, 570 and 1518 bytes with FCS, 28 : 16 : 4 (FD.io CSIT's IMIX).
    pub fn imix_csit() -> Self {
        Self::named(
            "imix-csit",
            &[(Size::with_fcs(64), 28), (Size::with_fcs(570), 16), (Size::with_fcs(1518), 4)],
        )
    }

    /// `imix-trex`: frames of 64, 594 and 1518 bytes with FCS, 28 : 16 : 4 (TRex's `stl/imix.py`).
    pub fn imix_trex() -> Self {
        Self::named(
            "imix-trex",
            &[(Size::with_fcs(64), 28), (Size::with_fcs(594), 16), (Size::with_fcs(1518), 4)],
        )
    }

    /// `imix-linux`: the example of Linux's pktgen (`imix_weights 40,7 576,4 1500,1`), which
    /// counts buffers *without* FCS; its 40 is below the smallest frame and is sent as 60.
    pub fn imix_linux() -> Self {
        Self::named(
            "imix-linux",
            &[(Size::without_fcs(60), 7), (Size::without_fcs(576), 4), (Size::without_fcs(1500), 1)],
        )
    }

    /// `imix-routers`: frames of 64, 576 and 1518 bytes with FCS, 20 : 4 : 1. Packets of routers and NATs
    /// have about 200 bytes on average (Robert Morris, *Intel Pro/1000 Small Packet Performance*, 2000), and
    /// so have these, 204. The sizes are those of other mixes; the weights are chosen for the mean.
    pub fn imix_routers() -> Self {
        Self::named(
            "imix-routers",
            &[(Size::with_fcs(64), 20), (Size::with_fcs(576), 4), (Size::with_fcs(1518), 1)],
        )
    }

    /// The mix of these frames, with a name; `None` without frames, or with one below the smallest size.
    /// Their order is not kept.
    pub fn of_frames(name: String, sizes: impl IntoIterator<Item = Size>) -> Option<Self> {
        let mut counts = BTreeMap::new();
        for size in sizes {
            if size < Size::MIN {
                return None;
            }
            *counts.entry(size).or_insert(0_u32) += 1;
        }
        (!counts.is_empty()).then(|| Self { name: Cow::Owned(name), parts: counts.into_iter().collect() })
    }

    /// One frame of each of these sizes, in this order, with a name; `None` without frames, with one below
    /// the smallest size, or with a size twice.
    pub fn in_order(name: String, sizes: Vec<Size>) -> Option<Self> {
        let mut sorted = sizes.clone();
        sorted.sort();
        sorted.dedup();
        let is_good = sorted.first().is_some_and(|least| *least >= Size::MIN) && sorted.len() == sizes.len();
        let parts = sizes.into_iter().map(|size| (size, 1)).collect();
        is_good.then_some(Self { name: Cow::Owned(name), parts })
    }

    /// The mix's name, which [`FromStr`] reads back (not that of a capture).
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Sizes and weights; never empty, all weights above 0.
    pub fn parts(&self) -> &[(Size, u32)] {
        &self.parts
    }

    /// One period of the mix: each size as often as its weight, spread evenly, the same in every run (smooth
    /// weighted round robin). A stream repeats it.
    pub fn period(&self) -> Vec<Size> {
        if self.parts.iter().all(|part| part.1 == 1) {
            return self.parts.iter().map(|part| part.0).collect();
        }
        let total: u32 = self.parts.iter().map(|part| part.1).sum();
        let mut credit: Vec<i64> = vec![0; self.parts.len()];
        (0..total)
            .map(|_| {
                let mut best = 0;
                for (i, part) in self.parts.iter().enumerate() {
                    credit[i] += i64::from(part.1);
                    if credit[i] > credit[best] {
                        best = i;
                    }
                }
                credit[best] -= i64::from(total);
                self.parts[best].0
            })
            .collect()
    }

    /// The mix of these sizes of its frames, under its name. They keep their order if each of them comes
    /// once. It is the whole mix without sizes.
    #[must_use]
    pub fn some_of(&self, sizes: Vec<Size>) -> Self {
        let name = self.name.clone().into_owned();
        let in_order = Self::in_order(name.clone(), sizes.clone());
        let mut some = in_order.or_else(|| Self::of_frames(name, sizes)).unwrap_or_else(|| self.clone());
        let divisor = some.parts.iter().fold(0, |divisor, part| common_divisor(divisor, part.1.into()));
        some.parts.iter_mut().for_each(|part| part.1 /= divisor.max(1) as u32);
        some
    }

    /// The mix with each size larger by `by` bytes, as behind a switch that adds or removes a tag.
    #[must_use]
    pub fn resized(&self, by: i16) -> Self {
        let resize = |size: Size| Size::without_fcs(size.bytes_without_fcs().saturating_add_signed(by));
        Self {
            name: self.name.clone(),
            parts: self.parts.iter().map(|&(size, weight)| (resize(size), weight)).collect(),
        }
    }

    /// The only size, if there is one.
    pub fn only(&self) -> Option<Size> {
        match self.parts[..] {
            [(size, _)] => Some(size),
            _ => None,
        }
    }

    fn mean(&self, bytes: impl Fn(Size) -> u32) -> f64 {
        let total: u64 = self.parts.iter().map(|part| u64::from(part.1)).sum();
        let sum: u64 =
            self.parts.iter().map(|&(size, weight)| u64::from(bytes(size)) * u64::from(weight)).sum();
        sum as f64 / total as f64
    }

    /// The mean size of a frame in bytes, with FCS.
    pub fn mean_bytes_with_fcs(&self) -> f64 {
        self.mean(Size::bytes_with_fcs)
    }

    /// The L1 rate in bit/s of `pps` frames per second: with FCS, preamble and gap.
    pub fn l1_bits_per_s(&self, pps: f64) -> f64 {
        pps * self.mean(Size::bytes_on_wire) * 8.0
    }

    /// The L2 rate in bit/s of `pps` frames per second: with FCS, without preamble and gap.
    pub fn l2_bits_per_s(&self, pps: f64) -> f64 {
        pps * self.mean_bytes_with_fcs() * 8.0
    }

    /// Frames per second on a full link of `bits_per_s`.
    pub fn line_rate_pps(&self, bits_per_s: u64) -> f64 {
        bits_per_s as f64 / (self.mean(Size::bytes_on_wire) * 8.0)
    }
}

impl fmt::Display for Mix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

/// An unknown mix.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownMix(
    /// The name.
    pub String,
);

impl fmt::Display for UnknownMix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:?} is no frame size and no mix: give a size of 64 to 9018 bytes with FCS, imix-csit, imix-trex, imix-linux, imix-routers, or \
             sizes with weights as 64:7,570:4,1518:1",
            self.0
        )
    }
}

impl core::error::Error for UnknownMix {}

/// The largest weight; a period holds each size that often.
const MOST_WEIGHT: u32 = 10_000;
/// The longest list of sizes, and the longest period in frames: working out a period takes their product.
const MOST_PARTS: usize = 100;
const MOST_PERIOD: u32 = 100_000;

impl FromStr for Mix {
    type Err = UnknownMix;

    /// A frame size with FCS ("64"), the name of a mix, or sizes with FCS and their weights
    /// ("64:7,570:4,1518:1").
    fn from_str(text: &str) -> Result<Self, UnknownMix> {
        let unknown = || UnknownMix(text.to_string());
        if text.contains(':') {
            let part = |part: &str| {
                let (size, weight) = part.split_once(':')?;
                let size = Size::with_fcs(size.parse().ok()?);
                let weight = weight.parse().ok().filter(|weight| (1..=MOST_WEIGHT).contains(weight))?;
                (Size::MIN..=Size::MAX).contains(&size).then_some((size, weight))
            };
            let parts: Option<Vec<_>> = text.split(',').take(MOST_PARTS + 1).map(part).collect();
            let period = |parts: &[(Size, u32)]| parts.iter().map(|part| part.1).sum::<u32>();
            let parts = parts.filter(|all| all.len() <= MOST_PARTS && period(all) <= MOST_PERIOD);
            return Ok(Self { name: Cow::Owned(text.to_string()), parts: parts.ok_or_else(unknown)? });
        }
        match text {
            "imix-csit" => Ok(Self::imix_csit()),
            "imix-trex" => Ok(Self::imix_trex()),
            "imix-linux" => Ok(Self::imix_linux()),
            "imix-routers" => Ok(Self::imix_routers()),
            _ => {
                let size = Size::with_fcs(text.parse().map_err(|_| unknown())?);
                let good = (Size::MIN..=Size::MAX).contains(&size);
                good.then(|| Self::fixed(size)).ok_or_else(unknown)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::rate::{GIGABIT, line_rate_pps};

    #[test]
    fn names_read_back() {
        for mix in [
            Mix::imix_csit(),
            Mix::imix_trex(),
            Mix::imix_linux(),
            Mix::imix_routers(),
            Mix::fixed(Size::MIN),
        ] {
            assert_eq!(mix.name().parse::<Mix>().unwrap(), mix);
        }
        assert_eq!(Mix::fixed(Size::without_fcs(60)).name(), "64");
        let own: Mix = "64:7,570:4,1518:1".parse().unwrap();
        assert_eq!(own.name().parse::<Mix>().unwrap(), own);
        assert_eq!((own.parts().len(), own.period().len()), (3, 12));
        for bad in
            ["", "imix", "63", "60", "9019", "65536", "-64", "64 ", "64:0", "64:1,", ":", "63:1", "64:1:1"]
        {
            assert!(bad.parse::<Mix>().is_err(), "{bad:?}");
        }
    }

    #[test]
    fn a_mix_that_nobody_can_wait_for_is_unknown() {
        let mix = |sizes: u16, weight: u32| {
            let parts: Vec<_> = (64..64 + sizes).map(|size| alloc::format!("{size}:{weight}")).collect();
            parts.join(",").parse::<Mix>()
        };
        assert!(mix(100, 1000).is_ok_and(|mix| mix.parts().len() == 100));
        assert!(mix(101, 1).is_err() && mix(11, 10_000).is_err() && mix(8000, 10_000).is_err());
    }

    #[test]
    fn a_period_has_each_size_as_often_as_its_weight() {
        for mix in [Mix::imix_csit(), Mix::imix_trex(), Mix::imix_linux()] {
            let period = mix.period();
            for &(size, weight) in mix.parts() {
                assert_eq!(period.iter().filter(|&&s| s == size).count(), weight as usize);
            }
            let mean =
                period.iter().map(|s| f64::from(s.bytes_with_fcs())).sum::<f64>() / period.len() as f64;
            assert!((mean - mix.mean_bytes_with_fcs()).abs() < 1e-9);
        }
    }

    #[test]
    fn some_sizes_of_a_mix_keep_their_numbers() {
        let mix: Mix = "64:7,570:4,1518:1".parse().unwrap();
        let some = mix.some_of([64, 570, 64].map(Size::with_fcs).into());
        assert_eq!(
            (some.name(), some.parts()),
            (mix.name(), &[(Size::with_fcs(64), 2), (Size::with_fcs(570), 1)][..])
        );
        assert_eq!(mix.some_of([64, 64, 570, 570].map(Size::with_fcs).into()).period().len(), 2);
        let ordered = mix.some_of([1518, 64].map(Size::with_fcs).into());
        assert_eq!(ordered.period(), [1518, 64].map(Size::with_fcs));
        assert_eq!(mix.some_of(Vec::new()), mix);
    }

    #[test]
    fn sizes_are_spread_evenly() {
        let big = Size::without_fcs(1500);
        let period = Mix::imix_linux().period();
        assert_eq!(period.len(), 12);
        // 7 : 4 : 1 needs no more than two small frames in a row.
        let twice: Vec<Size> = period.iter().chain(&period).copied().collect();
        assert!(!twice.windows(3).any(|w| w.iter().all(|&s| s == Size::MIN)), "{period:?}");
        assert_eq!(period.iter().filter(|&&s| s == big).count(), 1);
    }

    #[test]
    fn known_means_and_rates() {
        assert!((Mix::imix_csit().mean_bytes_with_fcs() - 353.833_333).abs() < 1e-3);
        assert!((Mix::imix_routers().mean_bytes_with_fcs() - 204.08).abs() < 1e-3);
        assert!((Mix::imix_trex().mean_bytes_with_fcs() - 361.833_333).abs() < 1e-3);
        let fixed = Mix::fixed(Size::MIN);
        assert_eq!(fixed.line_rate_pps(GIGABIT), line_rate_pps(GIGABIT, Size::MIN));
        assert!((Mix::imix_csit().line_rate_pps(GIGABIT) - 334_374.0).abs() < 1.0);
        for mix in [Mix::imix_csit(), Mix::imix_trex(), fixed] {
            let pps = mix.line_rate_pps(GIGABIT);
            assert!((mix.l1_bits_per_s(pps) - 1e9).abs() < 1e-3);
            // 20 bytes of preamble and gap are all that is between the layers.
            assert!((mix.l1_bits_per_s(pps) - mix.l2_bits_per_s(pps) - pps * 160.0).abs() < 1e-3);
        }
    }
}
