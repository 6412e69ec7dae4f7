//! Devices whose limits are known.

use kpps_methods::random::Random;

/// Random numbers, and the number of trials so far.
pub struct Chance {
    random: Random,
    trials: u64,
}

impl Chance {
    pub fn new(seed: u64) -> Self {
        Self { random: Random::new(seed), trials: 0 }
    }

    /// A loss of up to 2000 frames a second, with this probability.
    fn noise(&mut self, probability: f64) -> f64 {
        if self.random.unit() < probability { self.random.unit() * 2000.0 + 1.0 } else { 0.0 }
    }
}

/// The rate that a device carries of a load.
type Carries = fn(&mut Chance, f64) -> f64;

pub struct Device {
    pub name: &'static str,
    /// The highest load at which half of the trials or more lose nothing.
    pub ndr_pps: f64,
    /// How far off our NDR may be at worst, as a share.
    pub allowed: f64,
    /// Our search must take fewer trials than the library.
    pub must_be_fewer: bool,
    carries: Carries,
}

impl Device {
    /// Frames that are sent in a trial, and delivered.
    pub fn trial(&self, chance: &mut Chance, load_pps: f64, seconds: f64) -> [u64; 2] {
        chance.trials += 1;
        let sent = (load_pps * seconds).round() as u64;
        let carried_pps = (self.carries)(chance, load_pps).max(0.0);
        [sent, sent.min((carried_pps * seconds).round() as u64)]
    }
}

pub const LOWEST_PPS: f64 = 10_000.0;
pub const HIGHEST_PPS: f64 = 1_488_095.2;

const fn with_fewer_trials(name: &'static str, ndr_pps: f64, allowed: f64, carries: Carries) -> Device {
    Device { name, ndr_pps, allowed, must_be_fewer: true, carries }
}

const fn other(name: &'static str, ndr_pps: f64, allowed: f64, carries: Carries) -> Device {
    Device { name, ndr_pps, allowed, must_be_fewer: false, carries }
}

/// The limits on errors: the width of the goals where trials agree on the limit.
pub const DEVICES: [Device; 11] = [
    with_fewer_trials("sharp", 700e3, 0.005, |_, load| load.min(700e3)),
    with_fewer_trials("gradual loss", 500e3, 0.005, |_, load| {
        load.min(500e3 + 0.9 * (load - 500e3).max(0.0))
    }),
    with_fewer_trials("noise, one in twenty", 700e3, 0.005, |chance, load| {
        load.min(700e3) - chance.noise(0.05)
    }),
    with_fewer_trials("two modes", 700e3, 0.005, |chance, load| {
        load.min(if chance.random.unit() < 0.2 { 528e3 } else { 700e3 })
    }),
    with_fewer_trials("loss depends on load", 588_627.0, 0.082, |chance, load| {
        load.min(700e3) - chance.noise((load / 700e3).powi(4))
    }),
    other("noise, one in five", 700e3, 0.0055, |chance, load| load.min(700e3) - chance.noise(0.2)),
    other("loss grows slowly", 700e3, 0.005, |_, load| load * (1.0 - 0.05 * (load / 700e3 - 1.0).max(0.0))),
    other("plateau, then livelock", 500e3, 0.005, |_, load| {
        if load > 900e3 { (1.4e6 - load).max(0.0) } else { load.min(500e3) }
    }),
    other("slow", 10_400.0, 0.005, |_, load| load.min(10_400.0)),
    other("no loss", HIGHEST_PPS, 0.0, |_, load| load),
    other("loss in each seventh trial", 700e3, 0.0055, |chance, load| {
        load.min(700e3) * if chance.trials.is_multiple_of(7) { 0.99 } else { 1.0 }
    }),
];
