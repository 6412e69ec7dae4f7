//! Loads, sizes, times and shares as text with units.

use kpps_frames::rate::Rate;
use kpps_frames::{Mix, Size};
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// The rate of a load as it is typed: absolute, a share of the line rate, or as much as possible.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum RateSpec {
    /// Frames per second.
    Pps(f64),
    /// Per cent of the line rate.
    Percent(f64),
    /// Bits per second of frames with FCS (layer 2).
    L2(f64),
    /// Bits per second of frames with FCS, preamble and gap (layer 1).
    L1(f64),
    /// As many frames as the port takes. Only [`rate_or_max`] reads it.
    Max,
}

/// Bytes between two frames on a wire: gap, preamble, start of frame.
const BETWEEN: f64 = 20.0;

/// The numbers that loads may have, in frames or bits per second or in per cent. At fewer frames per second
/// not even the longest trial, of 30 days, sends one, and no wire carries more bits.
const LOADS: std::ops::RangeInclusive<f64> = 1e-7..=5e12;

/// The smallest share: loads are rounded to 12 digits, and a search comes no closer.
const LEAST_SHARE: f64 = 1e-10;

/// Why bits of two layers do not stand together.
const TWO_LAYERS: &str = "counts bits on layer 1 and on layer 2: give all of them with L1 or all with L2";

impl RateSpec {
    /// The layer on which bits are counted, if it is a rate of bits.
    pub fn layer(self) -> Option<u8> {
        match self {
            Self::L1(_) => Some(1),
            Self::L2(_) => Some(2),
            Self::Pps(_) | Self::Percent(_) | Self::Max => None,
        }
    }

    /// The number and its unit: frames per second, per cent, bits per second.
    pub(crate) fn number_and_unit(self) -> (f64, &'static str) {
        match self {
            Self::Max => (f64::INFINITY, ""),
            Self::Pps(pps) => (pps, ""),
            Self::Percent(percent) => (percent, "%"),
            Self::L2(bps) => (bps, "bpsL2"),
            Self::L1(bps) => (bps, "bpsL1"),
        }
    }

    /// The rate, on a wire that carries `line_pps` frames per second of `bytes` bytes with FCS (the mean of a
    /// mix).
    pub fn rate(self, line_pps: f64, bytes: f64) -> Rate {
        match self {
            Self::Max => Rate::Max,
            other => Rate::Pps(other.pps(line_pps, bytes)),
        }
    }

    /// The rate in frames per second on such a wire; the most that it carries for [`Max`](Self::Max).
    pub fn pps(self, line_pps: f64, bytes: f64) -> f64 {
        match self {
            Self::Max => line_pps,
            Self::Pps(pps) => pps,
            Self::Percent(percent) => line_pps * percent / 100.0,
            Self::L2(bps) => bps / (bytes * 8.0),
            Self::L1(bps) => bps / ((bytes + BETWEEN) * 8.0),
        }
    }
}

/// Whether bits are counted on one layer in all of these, those left out that are not in bits.
fn same_layer(rates: &[RateSpec]) -> bool {
    let mut layers = rates.iter().filter_map(|rate| rate.layer());
    let first = layers.next();
    layers.all(|layer| Some(layer) == first)
}

impl fmt::Display for RateSpec {
    /// As [`FromStr`] reads it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self == &Self::Max {
            return f.write_str("max");
        }
        let (number, unit) = self.number_and_unit();
        let (number, prefix) = match (self.layer(), number) {
            (Some(_), bps) if bps >= 1e9 => (bps / 1e9, "G"),
            (Some(_), bps) if bps >= 1e6 => (bps / 1e6, "M"),
            (Some(_), bps) if bps >= 1e3 => (bps / 1e3, "k"),
            _ => (number, ""),
        };
        write!(f, "{number}{prefix}{unit}")
    }
}

/// Splits `text` into its number and its unit; `None` if it begins with no number.
pub fn number(text: &str) -> Option<(f64, &str)> {
    let text = text.trim();
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.' && c != '_').unwrap_or(text.len());
    let (digits, unit) = text.split_at(end);
    let value: f64 = digits.replace('_', "").parse().ok()?;
    Some((value, unit.trim()))
}

impl FromStr for RateSpec {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let help = || {
            format!(
                "'{text}' is not a load: give frames per second (700kpps, 1.2Mpps, 50000), a share of the line rate (80%), or bits per second with the layer that they are counted on (500MbpsL1 with preamble and gap, 400MbpsL2 without)"
            )
        };
        let (value, unit) = number(text).ok_or_else(help)?;
        let rate = match unit.to_ascii_lowercase().as_str() {
            "%" => Self::Percent(value),
            "" | "pps" => Self::Pps(value),
            "k" | "kpps" => Self::Pps(value * 1e3),
            "m" | "mpps" => Self::Pps(value * 1e6),
            "bpsl2" => Self::L2(value),
            "kbpsl2" => Self::L2(value * 1e3),
            "mbpsl2" => Self::L2(value * 1e6),
            "gbpsl2" => Self::L2(value * 1e9),
            "bpsl1" => Self::L1(value),
            "kbpsl1" => Self::L1(value * 1e3),
            "mbpsl1" => Self::L1(value * 1e6),
            "gbpsl1" => Self::L1(value * 1e9),
            _ => return Err(help()),
        };
        match rate {
            Self::Percent(0.0) | Self::Pps(0.0) | Self::L2(0.0) | Self::L1(0.0) => {
                Err(format!("a load of {text} sends no frames: give a load above 0"))
            }
            Self::Percent(percent) if percent > 100.0 => {
                Err(format!("{text} is above line rate: give at most 100%"))
            }
            rate if !LOADS.contains(&rate.number_and_unit().0) => Err(format!(
                "a load of {text} is out of range: give 1e-7 to 5e12 frames per second, bits per second or per cent"
            )),
            rate => Ok(rate),
        }
    }
}

/// A load, or `max`.
///
/// # Errors
/// The mistake in the text, in one line.
pub fn rate_or_max(text: &str) -> Result<RateSpec, String> {
    if text == "max" { Ok(RateSpec::Max) } else { text.parse() }
}

/// Loads as a list or a range: `100kpps,50%,100%`, `100kpps..100%/100kpps`, `10MbpsL1..1GbpsL1/10MbpsL1`.
/// Bits are counted on one layer in all of them.
#[derive(Clone, Debug, PartialEq)]
pub enum Loads {
    /// These.
    List(Vec<RateSpec>),
    /// From the first to the last in steps.
    Range {
        /// The lowest.
        from: RateSpec,
        /// The highest, always included.
        to: RateSpec,
        /// The step.
        step: RateSpec,
    },
}

impl Loads {
    /// The layer on which bits are counted, if a load is in bits.
    pub fn layer(&self) -> Option<u8> {
        match self {
            Self::List(rates) => rates.iter().find_map(|rate| rate.layer()),
            Self::Range { from, to, step } => [from, to, step].into_iter().find_map(|rate| rate.layer()),
        }
    }

    /// The loads in frames per second, ascending, on a wire that carries `line_pps` frames per second of
    /// `bytes` bytes with FCS.
    ///
    /// # Errors
    /// A load above line rate, or a range that goes down or has more than 10,000 loads.
    pub fn pps(&self, line_pps: f64, bytes: f64) -> Result<Vec<f64>, String> {
        let pps = |rate: &RateSpec| rate.pps(line_pps, bytes);
        let mut loads = match self {
            Self::List(rates) => rates.iter().map(pps).collect(),
            Self::Range { from, to, step } => {
                let (from, to, step) = (pps(from), pps(to), pps(step));
                if from > to {
                    return Err(format!(
                        "the range of loads goes down, from {from:.0} to {to:.0} pps: give the lower load first"
                    ));
                }
                let steps = ((to - from) / step).ceil();
                if steps > 10_000.0 {
                    return Err(format!(
                        "a step of {step:.0} pps makes {steps:.0} loads: give a step that makes at most 10000"
                    ));
                }
                let mut loads: Vec<f64> = (0..steps as u32).map(|k| from + f64::from(k) * step).collect();
                loads.push(to);
                loads
            }
        };
        loads.sort_by(f64::total_cmp);
        loads.dedup();
        match loads.last() {
            // A load typed as the rounded-up line rate is the line rate.
            Some(&most) if most > line_pps.ceil() => Err(format!(
                "a load of {most:.0} pps is above line rate: this frame size allows {:.0} pps",
                line_pps.floor()
            )),
            _ => Ok(loads.into_iter().map(|pps| pps.min(line_pps)).collect()),
        }
    }
}

impl FromStr for Loads {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Some((from, rest)) = text.split_once("..") {
            let (to, step) = rest.split_once('/').map_or((rest, None), |(to, step)| (to, Some(step)));
            let (from, to) = (from.parse()?, to.parse()?);
            let step = match (step, to) {
                (Some(step), _) => step.parse()?,
                // Ten steps: as many of 100 kpps as a gigabit has of small frames are no use for bits.
                (None, RateSpec::L1(bps)) => RateSpec::L1(bps / 10.0),
                (None, RateSpec::L2(bps)) => RateSpec::L2(bps / 10.0),
                (None, _) => RateSpec::Pps(100e3),
            };
            return match same_layer(&[from, to, step]) {
                true => Ok(Self::Range { from, to, step }),
                false => Err(format!("the range '{text}' {TWO_LAYERS}")),
            };
        }
        let rates = text.split(',').map(str::parse).collect::<Result<Vec<_>, _>>()?;
        if same_layer(&rates) { Ok(Self::List(rates)) } else { Err(format!("'{text}' {TWO_LAYERS}")) }
    }
}

/// The lowest and the highest load of a range in frames per second, on a wire that carries `line_pps` frames
/// per second of `bytes` bytes with FCS; the highest is at most that.
///
/// # Errors
/// An empty range, or bits of two layers; in one line.
pub fn between(min: RateSpec, max: RateSpec, line_pps: f64, bytes: f64) -> Result<(f64, f64), String> {
    if !same_layer(&[min, max]) {
        return Err(format!("the range from {min} to {max} {TWO_LAYERS}"));
    }
    let (min_pps, max_pps) = (min.pps(line_pps, bytes), max.pps(line_pps, bytes).min(line_pps));
    if min_pps >= max_pps {
        return Err(format!(
            "the range of loads from {min_pps:.0} to {max_pps:.0} pps is empty: give a lowest load below the highest one"
        ));
    }
    Ok((min_pps, max_pps))
}

/// A frame size: bytes with FCS, or the minimum frame's buffer of 60 bytes.
pub fn size(text: &str) -> Result<Size, String> {
    let bytes: u16 = text.trim().parse().map_err(|_| {
        format!(
            "'{text}' is not a frame size: give bytes with FCS, {} to {}",
            Size::MIN.bytes_with_fcs(),
            Size::MAX.bytes_with_fcs()
        )
    })?;
    // No frame has 60 bytes with FCS: it is the buffer of a minimum frame.
    if bytes == Size::MIN.bytes_without_fcs() {
        return Ok(Size::MIN);
    }
    let wanted = u32::from(bytes);
    if wanted < Size::MIN.bytes_with_fcs() || wanted > Size::MAX.bytes_with_fcs() {
        return Err(format!(
            "there are no frames of {bytes} bytes: a frame has {} to {} bytes with FCS (60 is taken as the 60-byte buffer of a 64-byte frame)",
            Size::MIN.bytes_with_fcs(),
            Size::MAX.bytes_with_fcs()
        ));
    }
    Ok(Size::with_fcs(bytes))
}

/// A century in seconds: more than anything takes, and less than any clock can show.
const LONGEST_S: f64 = 100.0 * 365.25 * 86_400.0;

/// A time: `50ms`, `0.5s`; a bare number is seconds.
pub fn duration(text: &str) -> Result<Duration, String> {
    let help = || format!("'{text}' is not a time: give it as 50ms, 2s, 5min or 72h");
    let (value, unit) = number(text).ok_or_else(help)?;
    let seconds = match unit {
        "" | "s" => value,
        "ms" => value / 1e3,
        "us" | "µs" => value / 1e6,
        "min" | "m" => value * 60.0,
        "h" => value * 3600.0,
        "d" => value * 86_400.0,
        _ => return Err(help()),
    };
    // Trials count milliseconds in 32 bits.
    if !(1e-3..=30.0 * 86_400.0).contains(&seconds) {
        return Err(format!("a time of {text} is out of range: give 1ms to 30d"));
    }
    Ok(Duration::from_secs_f64(seconds))
}

/// A time of `s` seconds, calculated from numbers and rates of the user.
///
/// # Errors
/// No trial lasts for `s` seconds, or `s` is not a time.
pub fn seconds(s: f64) -> Result<Duration, String> {
    match (0.0..=LONGEST_S).contains(&s) {
        true => Ok(Duration::from_secs_f64(s)),
        false => Err(format!("the trial would take {s:.0} s: give a higher load, or fewer frames")),
    }
}

/// A time in whole milliseconds, as trials take it.
pub fn millis(time: Duration) -> u32 {
    u32::try_from(time.as_millis()).unwrap_or(u32::MAX)
}

/// A time in picoseconds, up to a millisecond: `915ns`, `1.5us`.
///
/// # Errors
/// The mistake in the text, in one line.
pub fn short_time_ps(text: &str) -> Result<u64, String> {
    let ps = match number(text) {
        Some((value, "ns")) => Some((value * 1e3) as u64),
        Some((value, "us" | "µs")) => Some((value * 1e6) as u64),
        _ => None,
    };
    ps.filter(|ps| (1..=1_000_000_000).contains(ps)).ok_or_else(|| {
        format!(
            "'{text}' is not a short time: give nanoseconds or microseconds up to 1000us, as 915ns or 1.5us"
        )
    })
}

/// A range of whole numbers, both ends included: `101..200`.
///
/// # Errors
/// The mistake in the text, in one line.
pub fn range(text: &str) -> Result<(u32, u32), String> {
    let pair = text.split_once("..").and_then(|(from, to)| Some((from.parse().ok()?, to.parse().ok()?)));
    pair.filter(|(from, to)| from <= to)
        .ok_or_else(|| format!("'{text}' is not a range: give FROM..TO in whole numbers, as 101..200"))
}

/// A seed of random numbers.
///
/// # Errors
/// The message says what is allowed, in one line.
pub fn seed(text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| format!("a seed is a whole number from 0 to {}", u64::MAX))
}

/// The most seeds of a range: each is a measurement of its own.
const MOST_SEEDS: u32 = 100_000;

/// A [range] of at most 100,000 seeds.
///
/// # Errors
/// The mistake in the text, in one line.
pub fn seeds(text: &str) -> Result<(u32, u32), String> {
    let (from, to) = range(text)?;
    let most = || format!("'{text}' are more than {MOST_SEEDS} seeds: give fewer");
    if to - from < MOST_SEEDS { Ok((from, to)) } else { Err(most()) }
}

/// How many times faster: `2x`, `0.5x`.
///
/// # Errors
/// The mistake in the text, in one line.
pub fn factor(text: &str) -> Result<f64, String> {
    match number(text) {
        Some((times, "x" | "")) if times.is_finite() && times > 0.0 => Ok(times),
        _ => Err(format!("'{text}' is not a factor: give 2x, 0.5x")),
    }
}

/// A share from 10⁻¹⁰ to below one: `10%` or `0.1`.
pub fn share(text: &str) -> Result<f64, String> {
    let help = || format!("'{text}' is not a share: give 10% or 0.1, from 0.00000001% to below 100%");
    let share = match number(text).ok_or_else(help)? {
        (percent, "%") => percent / 100.0,
        (share, "") => share,
        _ => return Err(help()),
    };
    if (LEAST_SHARE..1.0).contains(&share) { Ok(share) } else { Err(help()) }
}

/// A frame size, or a mix of sizes.
pub fn sizes(text: &str) -> Result<Mix, String> {
    if text.starts_with("imix") || text.contains(':') {
        text.parse().map_err(|e| format!("{e}"))
    } else {
        Ok(Mix::fixed(size(text)?))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_time_that_nobody_waits_for_is_an_error() {
        assert_eq!(seconds(1.5), Ok(Duration::from_millis(1500)));
        assert_eq!(seconds(0.0), Ok(Duration::ZERO));
        for s in [1.0 / 1e-300, f64::INFINITY, f64::NAN, -1.0, -f64::MIN_POSITIVE, f64::MAX, 1e12] {
            assert!(seconds(s).unwrap_err().contains("give a higher load"), "{s}");
        }
    }

    #[test]
    fn loads_shares_and_seeds_have_bounds() {
        let tiny = format!("0.{}1", "0".repeat(300));
        for text in
            [tiny.clone(), tiny.clone() + "%", tiny.clone() + "MbpsL1", "9".repeat(400), "9".repeat(20)]
        {
            let error = text.parse::<RateSpec>().unwrap_err();
            assert!(error.contains("out of range"), "{text}: {error}");
        }
        assert!(
            ["0.000001", "1_000_000Mpps", "0.001%", "400GbpsL1"]
                .iter()
                .all(|it| it.parse::<RateSpec>().is_ok())
        );
        assert!(share(&tiny).is_err() && share("0.000000001%").is_err() && share("0.0000001%").is_ok());
        assert_eq!((seeds("1..100000"), seeds("7..7")), (Ok((1, 100_000)), Ok((7, 7))));
        assert!(seeds("0..100000").unwrap_err().contains("more than 100000") && seeds("9..1").is_err());
    }

    #[test]
    fn factors_and_short_times_and_ranges() {
        assert_eq!((factor("2x"), factor("0.5x"), factor("3")), (Ok(2.0), Ok(0.5), Ok(3.0)));
        assert!(["", "0x", "fast", "-1x", "2y"].iter().all(|text| factor(text).is_err()));
        assert_eq!((short_time_ps("915ns"), short_time_ps("1.5us")), (Ok(915_000), Ok(1_500_000)));
        assert!(["", "915", "0ns", "2ms", "1001us"].iter().all(|text| short_time_ps(text).is_err()));
        assert_eq!((range("101..200"), range("3..3")), (Ok((101, 200)), Ok((3, 3))));
        assert!(["", "5", "5..4", "-1..4", "a..b"].iter().all(|text| range(text).is_err()));
        assert_eq!(rate_or_max("max"), Ok(RateSpec::Max));
        assert_eq!(rate_or_max("50%"), Ok(RateSpec::Percent(50.0)));
    }

    #[test]
    fn shares_are_below_one() {
        assert_eq!((share("10%"), share("0.25")), (Ok(0.1), Ok(0.25)));
        assert!(["0", "100%", "1", "ten", "5 kpps"].iter().all(|text| share(text).is_err()));
    }

    #[test]
    fn loads_as_people_type_them() {
        for (text, pps) in [
            ("700kpps", 700e3),
            ("1.2Mpps", 1.2e6),
            ("50_000", 5e4),
            ("50%", 744_047.5),
            ("100%", 1_488_095.0),
            ("12k", 12e3),
        ] {
            assert_eq!(text.parse::<RateSpec>().unwrap().pps(1_488_095.0, 64.0), pps, "{text}");
        }
        // A gigabit on layer 1 is line rate.
        for (text, pps) in [("1GbpsL1", 1e9 / 672.0), ("512kbpsL2", 1000.0), ("67.2MbpsL1", 100_000.0)] {
            let given = text.parse::<RateSpec>().unwrap().pps(1.0, 64.0);
            assert!((given / pps - 1.0).abs() < 1e-12, "{text}: {given}");
        }
        assert!("100Mbps".parse::<RateSpec>().unwrap_err().contains("layer"));
        for text in ["", "fast", "-1", "0", "0%", "101%", "3 parsecs", "1e5", "..."] {
            assert!(text.parse::<RateSpec>().is_err(), "{text}");
        }
    }

    #[test]
    fn lists_and_ranges() {
        let loads = |text: &str| text.parse::<Loads>().unwrap().pps(1_000_000.0, 64.0);
        assert_eq!(loads("50%,100kpps,50%").unwrap(), [1e5, 5e5]);
        assert_eq!(loads("800kpps..100%").unwrap(), [8e5, 9e5, 1e6]);
        assert_eq!(loads("100kpps..350kpps/100kpps").unwrap(), [1e5, 2e5, 3e5, 3.5e5]);
        assert!(loads("2Mpps").unwrap_err().contains("above line rate"));
        assert!(loads("50%..10%").unwrap_err().contains("goes down"));
        assert!(loads("1..100%/1").unwrap_err().contains("at most"));
    }

    #[test]
    fn ranges_in_bits_keep_their_layer() {
        let loads = |text: &str| text.parse::<Loads>().unwrap().pps(1e9 / 672.0, 64.0);
        let mbps = |mbps: f64, bytes: f64| mbps * 1e6 / (bytes * 8.0);
        for (text, bytes) in
            [("100MbpsL1..300MbpsL1/100MbpsL1", 84.0), ("100MbpsL2..300MbpsL2/100MbpsL2", 64.0)]
        {
            let expected = [100.0, 200.0, 300.0].map(|rate| mbps(rate, bytes));
            assert!(loads(text).unwrap().iter().zip(expected).all(|(got, want)| (got - want).abs() < 1e-6));
        }
        // Without a step there are ten to the highest.
        assert_eq!(loads("100MbpsL1..1GbpsL1").unwrap().len(), 10);
        assert_eq!("10MbpsL2..1GbpsL2".parse::<Loads>().unwrap().layer(), Some(2));
        assert_eq!("50%,100kpps".parse::<Loads>().unwrap().layer(), None);
        for bad in ["10MbpsL1..1GbpsL2", "10MbpsL1..1GbpsL1/1MbpsL2", "10MbpsL1,10MbpsL2"] {
            assert!(bad.parse::<Loads>().unwrap_err().contains("layer 2"), "{bad}");
        }
        let rate = |text: &str| text.parse::<RateSpec>().unwrap();
        assert_eq!(between(rate("672kbpsL1"), rate("100%"), 1e6, 64.0), Ok((1000.0, 1e6)));
        assert!(between(rate("10MbpsL1"), rate("1GbpsL2"), 1e9, 64.0).unwrap_err().contains("layer 2"));
        assert!(between(rate("2kpps"), rate("1kpps"), 1e9, 64.0).unwrap_err().contains("empty"));
    }

    proptest::proptest! {
        #[test]
        fn rates_read_back_as_they_print(number in 1_u32.., unit in 0..4_usize) {
            let number = f64::from(number);
            let rate = [
                RateSpec::Pps(number), RateSpec::L1(number * 1e3), RateSpec::L2(number), RateSpec::Percent(number % 100.0 + 0.5),
            ][unit];
            let rate = match rate { RateSpec::Percent(percent) => RateSpec::Percent(percent.min(100.0)), other => other };
            let again = rate.to_string().parse::<RateSpec>().unwrap();
            let ((a, unit), (b, other)) = (rate.number_and_unit(), again.number_and_unit());
            proptest::prop_assert_eq!(unit, other);
            proptest::prop_assert!((a / b - 1.0).abs() < 1e-12);
        }

        #[test]
        fn no_text_is_too_strange(text in "[0-9.%,/LMbpskG]{0,24}") {
            if let Ok(loads) = text.parse::<Loads>() {
                let _ = loads.pps(1e6, 64.0);
            }
            let _ = crate::parameter::axis(&format!("load={text}"));
        }
    }

    #[test]
    fn a_size_says_with_or_without_fcs() {
        assert_eq!(size("64").unwrap(), Size::MIN);
        assert_eq!(size("60").unwrap(), Size::MIN);
        assert_eq!(size("1518").unwrap(), Size::MAX_STANDARD);
        for text in ["10", "61", "63", "9019", "0", "-5", "large", "70000"] {
            assert!(size(text).is_err(), "{text}");
        }
    }

    #[test]
    fn times() {
        assert_eq!(duration("50ms").unwrap(), Duration::from_millis(50));
        assert_eq!(duration("2").unwrap(), Duration::from_secs(2));
        assert_eq!(duration("1h").unwrap(), duration("60min").unwrap());
        assert_eq!(duration("72h").unwrap(), duration("3d").unwrap());
        for text in ["0", "1us", "31d", "", "soon", "1y"] {
            assert!(duration(text).is_err(), "{text}");
        }
    }

    #[test]
    fn sizes_and_mixes() {
        assert_eq!(sizes("64").unwrap().only(), Some(Size::MIN));
        assert_eq!(sizes("60").unwrap().only(), Some(Size::MIN), "as the buffer of a minimum frame");
        assert_eq!(sizes("64:7,570:4").unwrap().parts().len(), 2);
        assert!(sizes("imix-csit").is_ok() && sizes("imix").is_err());
        assert!(sizes("9018").is_ok() && sizes("64:1,9000:1").is_ok());
        assert!(sizes("9019").is_err() && sizes("64:1,9019:1").is_err() && sizes("large").is_err());
    }
}
