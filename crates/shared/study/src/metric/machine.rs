//! A driver on a machine drawn at random, from an idle wire to a full one.

use super::offered::Offered;
use super::random;
use super::receive::Times;
use super::setting::{Setting, configuration};
use super::{Context, Values, per};
use kpps_documents::Cpu;
use kpps_frames::rate;
use kpps_methods::Load;
use kpps_profiles::{Change, To};
use kpps_sim::{Accounted, Profiled, Receiving, Setup};
use serde::Deserialize;

#[derive(Deserialize)]
struct Of {
    #[serde(flatten)]
    setting: Setting,
    seed: u64,
    /// Constants of the machine and of every driver on it, with their possible values.
    random: toml::Table,
    /// The same for the setting's driver alone.
    #[serde(default)]
    own: toml::Table,
    offered: Offered,
    /// Loads as shares of the capacity, which is the rate delivered at the last of `offered`.
    around: Vec<f64>,
    /// The same with a process that computes.
    computing: Vec<f64>,
    /// Values of the driver's burst to compare at the last of `offered`.
    bursts: Vec<i64>,
    /// Other drivers to compare with.
    against: Vec<String>,
    #[serde(flatten)]
    times: Times,
}

/// From this load on frames come closer together than any polling window: no more interrupts are needed.
const POLLED_PPS: f64 = 50e3;
/// Up to this share of the capacity a driver counts as not overloaded.
const EASY: f64 = 0.8;
/// From this share of the offered load on, a driver counts as delivering all of it.
const ALL: f64 = 0.99;

/// A trial and its load.
struct Taken {
    offered_pps: f64,
    /// Frames consumed per second: with a long ring a frame may wait longer than a trial takes.
    pps: f64,
    p99_ns: Option<u64>,
    cpu: Cpu,
    /// `None` without frames, as `tail_writes`.
    interrupts_per_frame: Option<f64>,
    process: f64,
    accounted: Accounted,
    tail_writes: Option<f64>,
}

impl Taken {
    /// CPU time of a frame that the driver accounts for as useful.
    fn useful_of_frame(&self) -> Option<f64> {
        per(self.accounted.useful, self.pps)
    }

    /// The difference between the CPU time that the driver reports and that of the machine, as a share of the
    /// latter.
    fn misstated(&self) -> Option<f64> {
        let Cpu { thread, idle_polls, hardirq, .. } = self.cpu;
        let spent = thread + idle_polls.unwrap_or(0.0) + hardirq;
        let Accounted { useful, looking, idle } = self.accounted;
        per((useful + looking + idle - spent).abs(), spent)
    }
}

/// The longest waits of a frame: a wake-up and a poll, and the frames of a burst.
const WAKE_US: f64 = 20.0;
const WAIT_FRAMES: f64 = 32.0;

struct Trials<'a> {
    of: &'a Of,
    context: &'a Context<'a>,
}

impl Trials<'_> {
    /// A change of the setting's driver alone.
    fn own(&self, change: Change) -> Change {
        Change { profile: Some(self.of.setting.driver().to_owned()), ..change }
    }

    fn take_all(&self, setup: &Setup, loads: &[f64], computing: bool) -> Result<Vec<Taken>, String> {
        loads.iter().map(|pps| self.take(setup, *pps, computing)).collect()
    }

    /// The least over the most of delivered rate and of tail writes for a frame, over all bursts; `None`
    /// where a trial shows none.
    fn bursts(&self, changes: &[Change], offered_pps: f64) -> Result<[Option<f64>; 2], String> {
        let with = |burst: &i64| {
            let change = self.own(Change::set("driver.service.self-pacing.burst", *burst)?);
            let changes: Vec<_> = changes.iter().cloned().chain([change]).collect();
            self.take(&self.of.setting.setup_with(self.context, &changes)?, offered_pps, false)
        };
        let taken = self.of.bursts.iter().map(with).collect::<Result<Vec<_>, _>>()?;
        let spread = |of: fn(&Taken) -> Option<f64>| {
            let all = taken.iter().map(of).collect::<Option<Vec<_>>>()?;
            let highest = most(all.iter().copied());
            (highest > 0.0).then(|| least(all.into_iter()) / highest)
        };
        Ok([spread(|taken| Some(taken.pps)), spread(|taken| taken.tail_writes)])
    }

    /// The least delivered rate of `taken` as a share of the best other driver's at the same load on the same
    /// machine.
    fn of_best(&self, machine: &[Change], taken: &[Taken]) -> Result<f64, String> {
        let mut worst: f64 = 1.0;
        for ours in taken.iter().filter(|ours| ours.pps < ALL * ours.offered_pps) {
            for driver in &self.of.against {
                let setup = self.of.setting.with_driver(driver).setup_with(self.context, machine)?;
                let theirs = self.take(&setup, ours.offered_pps, false)?;
                worst = worst.min(ours.pps / theirs.pps.max(1.0));
            }
        }
        Ok(worst)
    }

    fn take(&self, setup: &Setup, offered_pps: f64, computing: bool) -> Result<Taken, String> {
        let mut testbed = Receiving::new(setup.clone());
        if computing {
            testbed = testbed.computing();
        }
        let Times { warmup_ms, duration_ms } = self.of.times;
        let load = Load::of(offered_pps, self.of.setting.size())
            .lasting_ms(warmup_ms, duration_ms)
            .with_seed(self.of.seed);
        let profiled = testbed.profiled(&load, self.context.go_on).map_err(|error| error.to_string())?;
        let Profiled { trial, consumed, process, accounted, tail_writes_per_frame, .. } = profiled;
        let (Some(cpu), Some(interrupts)) = (trial.cpu, trial.interrupts()) else {
            return Err("the trial has no values of the CPU and of interrupts".into());
        };
        Ok(Taken {
            offered_pps,
            pps: consumed as f64 / trial.seconds,
            p99_ns: trial.latency_ns.p99,
            cpu,
            interrupts_per_frame: (consumed > 0).then(|| interrupts as f64 / consumed as f64),
            process,
            accounted,
            tail_writes: tail_writes_per_frame,
        })
    }
}

/// The highest value of these trials; `None` if one of them does not have it.
fn most_of<'a>(taken: impl Iterator<Item = &'a Taken>, value: impl Fn(&Taken) -> Option<f64>) -> Option<f64> {
    let all = taken.map(value).collect::<Option<Vec<_>>>()?;
    Some(most(all.into_iter()))
}

fn peak(taken: &[Taken]) -> f64 {
    most(taken.iter().map(|taken| taken.pps))
}

/// The smallest delivered rate as a share of the offered rate or of the peak, whichever is less.
fn held(taken: &[Taken]) -> f64 {
    let peak = peak(taken);
    least(taken.iter().map(|taken| taken.pps / taken.offered_pps.min(peak)))
}

fn least(numbers: impl Iterator<Item = f64>) -> f64 {
    numbers.fold(f64::INFINITY, f64::min)
}

fn most(numbers: impl Iterator<Item = f64>) -> f64 {
    numbers.fold(0.0, f64::max)
}

/// The machine's `seed`, `capacity_pps` (delivered at the last load), and each number that was drawn, by its
/// constant's name (`rx_ring`).
///
/// Overload: `peak_pps`; `held`, the least delivered rate as a share of the offered rate or of the peak,
/// whichever is less. With a computing process: `held_computing`, the same; `process`, the least share of the
/// CPU that it gets; `process_of_reserve`, that share over the driver's reserve.
///
/// Without overload (at most 0.8 of the capacity): `latency_us`, the highest 99th percentile;
/// `latency_of_bound`, that over 20 us and the time of 32 frames. `interrupts_per_frame`, the most at 50,000
/// frames/s and more; `interrupts_per_frame_idle`, the most at any load; `interrupt_load`, the most of the
/// CPU that they take.
///
/// The driver's report of its CPU time: `misstated`, the largest difference from the machine's account, at
/// 50,000 frames/s and more; `useful_ratio`, useful time of a frame at the lowest such load over that at the
/// last load.
///
/// `burst_spread`, `tail_writes_spread`: with any of `bursts` at the last load, the least over the most of
/// frames delivered, and of tail writes for a frame.
///
/// `of_best`: the least delivered rate as a share of the best of the drivers of `against`.
pub(super) fn run(of: toml::Table, context: &Context) -> Result<Values, String> {
    let of: Of = configuration(of)?;
    let trials = Trials { of: &of, context };
    let drawn = random::changes(&of.random, of.seed)?;
    let own = random::changes(&of.own, of.seed)?.into_iter().map(|change| trials.own(change));
    let own: Vec<Change> = drawn.iter().cloned().chain(own).collect();
    let setup = of.setting.setup_with(context, &own)?;

    let mut loads = of.offered.pps(rate::line_rate_pps(rate::GIGABIT, of.setting.size()));
    let last_pps = loads.pop().ok_or("'offered' names no load")?;
    let last = trials.take(&setup, last_pps, false)?;
    let capacity_pps = last.pps;
    let shares = |shares: &[f64]| {
        let pps = shares.iter().map(|share| share * capacity_pps);
        pps.filter(|pps| *pps > 0.0 && *pps < last_pps).collect::<Vec<_>>()
    };
    loads.extend(shares(&of.around));
    loads.sort_by(f64::total_cmp);
    let mut taken = trials.take_all(&setup, &loads, false)?;
    taken.push(last);
    let mut loads = shares(&of.computing);
    loads.push(last_pps);
    let computing = trials.take_all(&setup, &loads, true)?;
    let process = least(computing.iter().map(|taken| taken.process));

    let easy = || taken.iter().filter(|taken| taken.offered_pps <= EASY * capacity_pps);
    let latencies = easy().map(|taken| Some(taken.p99_ns? as f64 / 1e3)).collect::<Option<Vec<_>>>();
    let latency_us = latencies.filter(|all| !all.is_empty()).map(|all| most(all.into_iter()));
    let bound_us = per(WAIT_FRAMES * 1e6, capacity_pps).map(|wait_us| WAKE_US + wait_us);
    let polled = || taken.iter().filter(|taken| taken.offered_pps >= POLLED_PPS);
    let useful = || polled().filter_map(Taken::useful_of_frame);
    let [burst_spread, tail_writes_spread] = trials.bursts(&own, last_pps)?;

    let perhaps = [
        ("interrupts_per_frame", most_of(polled(), |taken| taken.interrupts_per_frame)),
        ("interrupts_per_frame_idle", most_of(taken.iter(), |taken| taken.interrupts_per_frame)),
        ("burst_spread", burst_spread),
        ("tail_writes_spread", tail_writes_spread),
        ("latency_us", latency_us),
        ("latency_of_bound", latency_us.zip(bound_us).and_then(|(us, bound_us)| per(us, bound_us))),
        (
            "useful_ratio",
            useful().next().zip(useful().next_back()).and_then(|(first, last)| per(first, last)),
        ),
        ("process_of_reserve", per(process, setup.reserve())),
        ("misstated", most_of(polled(), Taken::misstated)),
    ];
    let mut values: Values = [
        ("seed", of.seed as f64),
        ("capacity_pps", capacity_pps),
        ("peak_pps", peak(&taken)),
        ("held", held(&taken)),
        ("held_computing", held(&computing)),
        ("process", process),
        ("interrupt_load", most(taken.iter().map(|taken| taken.cpu.hardirq))),
        ("of_best", trials.of_best(&drawn, &taken)?),
    ]
    .into_iter()
    .map(|(name, number)| (name.to_owned(), number.into()))
    .collect();
    values.extend(perhaps.map(|(name, number)| (name.to_owned(), number.into())));
    for change in own {
        if let To::Set(toml::Value::Integer(number)) = change.to {
            values.insert(change.constant.replace(['.', '-'], "_"), (number as f64).into());
        }
    }
    Ok(values)
}
