//! The costs of a frame and an interrupt on a measured machine: constants of host and stack with which the
//! simulator takes the CPU time that the machine took.
//!
//! Each measured point gives the CPU time for a delivered frame: the share of time that the CPU was busy,
//! over the delivered rate. Where the CPU was not observed, a point gives it only if more than 5 % of the
//! frames were lost, and not at a place that limits rates: the CPU is then assumed to have been busy all the
//! time. Between two ports the observed CPUs are those of the tester, and say nothing about the device.
//!
//! The sum of squares of the logarithms of simulated over measured time is made small by Gauss and Newton's
//! method, with derivatives from a step of a tenth, on the constants' logarithms. The CPU's other work is one
//! more unknown, a share of its time. A small weight holds each constant at its profile's value, so a
//! constant that the points do not determine stays there. Nothing is random.

use crate::{AppKind, Choice, SetupError, StackParams};
use kpps_documents::grid::Setting;
use kpps_documents::host::{CalibratedConstant, CalibratedPoint, CalibrationCheck, HostCalibration};
use kpps_documents::{Curve, Trial};
use kpps_frames::Size;
use kpps_methods::cost::{FrameCost, OVERLOAD, lost_elsewhere};
use kpps_methods::statistics::median;
use kpps_methods::workers::on_all_cpus;
use kpps_methods::{Load, TrialError, parameter};
use kpps_profiles::{Kind, Profile};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Rounds, at most.
pub const ROUNDS: usize = 30;
/// The step of a derivative: a constant is multiplied by this.
const STEP: f64 = 1.1;
/// The most that a constant is changed by in a round: it is multiplied or divided by this.
const LEAP: f64 = 3.0;
/// The weight that holds a constant where it is.
const HOLD: f64 = 1e-4;
/// The step of the background's derivative.
const SMALL: f64 = 1e-3;
/// Turns of Gauss and Seidel's method.
const TURNS: usize = 2000;
/// The most cycles that a constant may have.
const MOST_CYCLES: f64 = 1e6;
/// The search ends after this number of rounds in a row without a smaller sum of squares. The constants with
/// the smallest sum are the result: a simulation does not change smoothly with its constants.
const END: usize = 4;
/// A point determines a constant if a change of [`STEP`] changes the point's CPU time by this share.
const TOLD: f64 = 0.001;
/// Simulated time: warm-up and measurement, in ms.
const TIMES_MS: (u32, u32) = (20, 60);

/// Why nothing can be calibrated.
#[derive(Debug, thiserror::Error)]
pub enum CalibrateError {
    /// The input does not do.
    #[error("{0}")]
    Input(String),
    /// A profile is missing or bad.
    #[error(transparent)]
    Setup(#[from] SetupError),
    /// A point cannot be simulated.
    #[error("{0}")]
    Trial(#[from] TrialError),
}

/// A measured curve, and the machine as it was set then.
#[derive(Clone, Debug)]
pub struct Measured {
    /// Its name.
    pub name: String,
    /// The simulated machine with the same settings.
    pub choice: Choice,
    points: Vec<Point>,
}

/// A measured point that gives a CPU time.
#[derive(Clone, Debug)]
struct Point {
    load: Load,
    offered_pps: f64,
    /// CPU time for a delivered frame in ns.
    cpu_ns: f64,
    /// Time from one delivered frame to the next in ns.
    apart_ns: f64,
    /// Whether the CPU was observed.
    observed: bool,
    /// The shortest and the longest time of several measurements in ns.
    range_ns: Option<[f64; 2]>,
    /// The tester's time for each frame in ns, if it had the same CPU. The device has no interrupts then.
    tester_ns: Option<f64>,
}

impl Point {
    /// The share of time in this trial of the simulator that the point's CPU time is compared with.
    fn busy(&self, trial: &Trial) -> Option<f64> {
        let interrupts = self.tester_ns.and(trial.cpu).map_or(0.0, |cpu| cpu.hardirq);
        Some(trial.cpu_busy? - interrupts)
    }
}

/// The CPU time for a delivered frame in ns, if the point gives it. `busy` is the observed share of time.
fn cpu_ns(point: &Trial, busy: Option<f64>) -> Option<f64> {
    let is_overloaded = || point.loss_ratio > OVERLOAD && lost_elsewhere(point).is_none();
    let busy = busy.or_else(|| is_overloaded().then_some(1.0))?;
    // Frames that the tester could not take in have passed the device.
    let ns = busy * 1e9 * point.seconds / point.came_through() as f64;
    (ns.is_finite() && ns > 0.0).then_some(ns)
}

impl Measured {
    /// Reads a curve: a file, or `FILE,PATH=VALUE,…` with the settings that the machine had beside those of
    /// `base`.
    ///
    /// # Errors
    /// A file that is no curve, and those of [`new`](Self::new).
    pub fn read(text: &str, base: &Choice) -> Result<Self, CalibrateError> {
        let mut parts = text.split(',');
        let file = parts.next().unwrap_or_default();
        let input = |why: String| CalibrateError::Input(format!("{file}: {why}"));
        let document = std::fs::read_to_string(file).map_err(|error| input(error.to_string()))?;
        let curve = Curve::from_json(&document)
            .map_err(|error| input(format!("this is no document of `kpps curve`: {error}")))?;
        let settings = parts.map(|part| parameter::change(part).map_err(input));
        Self::new(file, &curve, base, &settings.collect::<Result<Vec<_>, CalibrateError>>()?)
    }

    /// The one series of `curve`, measured with these settings beside those of `base`. An app that the
    /// document names is taken from it.
    ///
    /// # Errors
    /// A setting that the simulator does not know, or no point that gives a CPU time.
    pub fn new(
        name: &str,
        curve: &Curve,
        base: &Choice,
        settings: &[(String, Setting)],
    ) -> Result<Self, CalibrateError> {
        let input = |what: String| CalibrateError::Input(format!("{name}: {what}"));
        let mut choice = base.clone();
        if let Some(app) = &curve.environment.app {
            let (app, one_way) = match app.strip_suffix(Choice::ONE_WAY) {
                Some(app) => (app, true),
                None => (app.as_str(), false),
            };
            choice.app = Some(app.parse().map_err(input)?);
            choice.one_way = one_way;
        }
        for (path, value) in settings {
            choice.change(path, value).map_err(input)?;
        }
        if curve.environment.mix.is_some() {
            return Err(input("its frames have several sizes: give a curve of one size".into()));
        }
        let [series] = &curve.series[..] else {
            return Err(input(format!(
                "the curve has {} series: give curves of one system each",
                curve.series.len()
            )));
        };
        let bytes = curve.environment.frame_bytes_with_fcs.and_then(|bytes| u16::try_from(bytes).ok());
        let size = bytes.map(Size::with_fcs).ok_or_else(|| input("its frames have no size".into()))?;
        let (warmup_ms, duration_ms) = TIMES_MS;
        let most_pps = choice.line_rate_pps(size);
        let points: Vec<_> = (series.points.iter())
            .filter(|point| point.offered_pps <= most_pps)
            .filter_map(|point| {
                let load = Load::of(point.offered_pps, size).lasting_ms(warmup_ms, duration_ms);
                let busy = point.cpu_busy.filter(|_| !curve.environment.is_between_ports());
                Some(Point {
                    load,
                    offered_pps: point.offered_pps,
                    cpu_ns: cpu_ns(point, busy)?,
                    apart_ns: 1e9 / point.delivered_pps,
                    observed: busy.is_some(),
                    range_ns: None,
                    tester_ns: None,
                })
            })
            .collect();
        if points.is_empty() {
            return Err(input(
                "no point determines the CPU time: the device's CPU was not observed, and no load exceeded its capacity"
                    .into(),
            ));
        }
        let name = std::iter::once(name.to_owned())
            .chain(settings.iter().map(|(path, value)| format!("{path}={value}")))
            .collect::<Vec<_>>()
            .join(",");
        Ok(Self { name, choice, points })
    }

    /// Frames of one size, whose CPU time was found by as many frames as the tester could send.
    ///
    /// `choice` is simulated at that load, as far as a wire of a gigabit carries it. A device on the tester's
    /// host has neither interrupts nor a wire. It is compared with the time outside of interrupts that a
    /// simulated CPU takes for the smallest frames, at half the load that the device could carry alone: the
    /// simulated CPU then polls, and no card is the limit. A CPU that forwards frames does not touch their
    /// payload, so their size makes no difference.
    pub fn of_cost(size: Size, cost: &FrameCost, choice: Choice) -> Self {
        let (simulated, most_pps) = match cost.tester_ns {
            Some(_) => (choice.default_size(), 0.5e9 / cost.ns),
            None => (size.max(choice.default_size()), cost.offered_pps),
        };
        let offered_pps = most_pps.min(choice.line_rate_pps(simulated));
        let (warmup_ms, duration_ms) = TIMES_MS;
        let point = Point {
            load: Load::of(offered_pps, simulated).lasting_ms(warmup_ms, duration_ms),
            offered_pps: cost.offered_pps,
            cpu_ns: cost.ns,
            apart_ns: cost.ns,
            observed: false,
            range_ns: Some(cost.range_ns),
            tester_ns: cost.tester_ns,
        };
        Self { name: format!("{} B", size.bytes_with_fcs()), choice, points: vec![point] }
    }

    /// Whether frames of this size can be measured to calibrate `choice`. It simulates a few frames.
    ///
    /// # Errors
    /// The reason why not.
    pub fn check(size: Size, choice: &Choice) -> Result<(), CalibrateError> {
        let cost = FrameCost { offered_pps: 1e4, ns: 1e5, range_ns: [1e5, 1e5], tester_ns: None };
        let one = [Self::of_cost(size, &cost, choice.clone())];
        let free = free(&one)?;
        simulated(&one, &free, &start(&free), &|| true).map(drop)
    }
}

/// A constant to find.
struct Free {
    kind: Kind,
    name: &'static str,
    before: u64,
}

impl Free {
    fn path(&self) -> String {
        format!("{}.{}", self.kind.word(), self.name)
    }
}

/// The logarithms of the constants before the search.
fn start(free: &[Free]) -> Vec<f64> {
    free.iter().map(|free| (free.before as f64).ln()).collect()
}

/// The constants that these curves can determine, with their values before.
fn free(measured: &[Measured]) -> Result<Vec<Free>, CalibrateError> {
    let first = measured.first().ok_or_else(|| CalibrateError::Input("no curve was given".into()))?;
    let machine = first.choice.machine();
    if machine.ends_with(".toml") {
        return Err(CalibrateError::Input(format!(
            "{machine} is a file: begin with a built-in machine (`kpps list machines`)"
        )));
    }
    let setup = first.choice.setup()?;
    if !matches!(setup.stack_params, StackParams::Linux24(_)) {
        return Err(CalibrateError::Input(format!(
            "the stack '{}' has no NAPI: take a machine with Linux 2.4 or later",
            setup.stack
        )));
    }
    // If the same app forwards all frames, its cost can be distinguished from that of reception only by the
    // observed CPU at light loads.
    let is_split = measured.iter().any(|it| it.choice.app != first.choice.app)
        || measured.iter().flat_map(|it| &it.points).any(|point| point.observed);
    let runs = |app| is_split && measured.iter().any(|it| it.choice.app == Some(app));
    // Between veths there are neither interrupts nor polls of a card.
    let has_card = measured.iter().flat_map(|it| &it.points).any(|point| point.tester_ns.is_none());
    let names = [
        (Kind::Host, "interrupt_cycles", has_card),
        (Kind::Stack, "poll_cycles", has_card),
        (Kind::Stack, "receive_cycles", true),
        (Kind::Stack, "forward_cycles", runs(AppKind::Route) || runs(AppKind::VlanRoute)),
        (Kind::Stack, "bridge_cycles", runs(AppKind::Bridge)),
        (Kind::Stack, "nat_cycles", runs(AppKind::Nat)),
    ];
    let mut all = Vec::new();
    for (kind, name, _) in names.into_iter().filter(|(.., used)| *used) {
        let profile = match kind {
            Kind::Host => &setup.host,
            _ => &setup.stack,
        };
        let profile = Profile::named(kind, profile)
            .and_then(|profile| profile.changed(&first.choice.set))
            .map_err(SetupError::Profile)?;
        let constant = profile.constants().iter().find(|constant| constant.name == name);
        let before = constant.and_then(|constant| constant.value.as_integer()).unwrap_or(1);
        all.push(Free { kind, name, before: u64::try_from(before).unwrap_or(1).max(1) });
    }
    Ok(all)
}

/// The simulated CPU times of all points in ns, with these values.
fn simulated(
    measured: &[Measured],
    free: &[Free],
    values: &[f64],
    go_on: &dyn Fn() -> bool,
) -> Result<Vec<f64>, CalibrateError> {
    let mut times = Vec::new();
    for it in measured {
        let mut choice = it.choice.clone();
        for (free, value) in free.iter().zip(values) {
            let value = Setting::Whole(value.exp().round() as i64);
            choice.change(&free.path(), &value).map_err(CalibrateError::Input)?;
        }
        let mut testbed = choice.testbed(choice.setup()?);
        for point in &it.points {
            let trial = testbed.trial_while(&point.load, go_on)?;
            times.push(cpu_ns(&trial, point.busy(&trial)).ok_or_else(|| {
                CalibrateError::Input(format!("{}: the simulated machine delivers nothing", it.name))
            })?);
        }
    }
    Ok(times)
}

/// The same for several sets of values, on all CPUs.
fn all_simulated(
    measured: &[Measured],
    free: &[Free],
    sets: &[Vec<f64>],
    go_on: &(dyn Fn() -> bool + Sync),
) -> Result<Vec<Vec<f64>>, CalibrateError> {
    let results: Vec<_> = sets.iter().map(|_| OnceLock::new()).collect();
    let next = AtomicUsize::new(0);
    on_all_cpus(sets.len(), || {
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            let (Some(values), Some(result)) = (sets.get(at), results.get(at)) else { break };
            // Each number is taken once.
            let _ = result.set(simulated(measured, free, values, go_on));
        }
    });
    let missing = || Err(CalibrateError::Input("a simulation has no result".into()));
    results.into_iter().map(|result| result.into_inner().unwrap_or_else(missing)).collect()
}

/// The least squares of `slopes` · x + `errors`, each x being held at its `rest` with [`HOLD`]: by Gauss and
/// Seidel's method, which converges as the matrix is positive definite.
fn least_squares(slopes: &[Vec<f64>], errors: &[f64], rest: &[f64]) -> Vec<f64> {
    let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
    let mut x = vec![0.0; slopes.len()];
    for _ in 0..TURNS {
        for (j, slope) in slopes.iter().enumerate() {
            let others: f64 =
                (0..slopes.len()).filter(|k| *k != j).map(|k| dot(slope, &slopes[k]) * x[k]).sum();
            x[j] = (HOLD * rest[j] - dot(slope, errors) - others) / (dot(slope, slope) + HOLD);
        }
    }
    x
}

/// The unknowns of the search.
#[derive(Clone, Debug)]
struct Unknowns {
    /// The logarithms of the constants.
    values: Vec<f64>,
    /// The share of time that goes into something other than frames.
    background: f64,
}

/// A search.
struct Search<'a> {
    measured: &'a [Measured],
    points: Vec<Point>,
    free: Vec<Free>,
    /// The logarithms of the constants at first.
    start: Vec<f64>,
}

/// The result of a round for the unknowns that it begins with.
struct Round {
    /// The sum of squares.
    squares: f64,
    /// Whether the points determine each constant.
    told: Vec<bool>,
    /// The unknowns to try next.
    next: Unknowns,
}

impl Search<'_> {
    /// Whether the CPU was observed. With an overload alone, the background cannot be distinguished from the
    /// cost of frames.
    fn is_observed(&self) -> bool {
        self.points.iter().any(|point| point.observed)
    }

    /// The logarithm of simulated over measured time, for each point.
    fn errors(&self, times_ns: &[f64], background: f64) -> Vec<f64> {
        let error = |(point, ns): (&Point, &f64)| ((ns + background * point.apart_ns) / point.cpu_ns).ln();
        self.points.iter().zip(times_ns).map(error).collect()
    }

    /// A round: all points, and a step.
    fn round(&self, now: &Unknowns, go_on: &(dyn Fn() -> bool + Sync)) -> Result<Round, CalibrateError> {
        let Unknowns { values, background } = now;
        let mut sets = vec![values.clone(); self.free.len() + 1];
        // The first set is without a step.
        sets.iter_mut().skip(1).enumerate().for_each(|(at, set)| set[at] += STEP.ln());
        let times = all_simulated(self.measured, &self.free, &sets, go_on)?;
        let (now_ns, stepped) = (&times[0], &times[1..]);
        let errors = self.errors(now_ns, *background);
        let slope = |errors_then: Vec<f64>, step: f64| -> Vec<f64> {
            errors_then.iter().zip(&errors).map(|(then, now)| (then - now) / step).collect()
        };
        let mut slopes: Vec<Vec<f64>> =
            stepped.iter().map(|ns| slope(self.errors(ns, *background), STEP.ln())).collect();
        let tells = |slope: &Vec<f64>| slope.iter().any(|change| (change * STEP.ln()).abs() >= TOLD);
        let told: Vec<bool> = slopes.iter().map(tells).collect();
        let mut rest: Vec<f64> = self.start.iter().zip(values).map(|(start, now)| start - now).collect();
        if self.is_observed() {
            slopes.push(slope(self.errors(now_ns, background + SMALL), SMALL));
            rest.push(-background);
        }
        let steps = least_squares(&slopes, &errors, &rest);
        let values = values.iter().enumerate().map(|(at, value)| match told[at] {
            true => (value + steps[at].clamp(-LEAP.ln(), LEAP.ln())).clamp(0.0, MOST_CYCLES.ln()),
            false => self.start[at],
        });
        let step = steps.get(self.free.len()).copied().unwrap_or_default();
        let next = Unknowns { values: values.collect(), background: (background + step).clamp(0.0, 0.5) };
        Ok(Round { squares: errors.iter().map(|error| error * error).sum(), told, next })
    }
}

/// The measured points of these curves beside the simulated times, with the background.
fn compared(
    measured: &[Measured],
    times_ns: &[f64],
    background: f64,
    checks: bool,
) -> impl Iterator<Item = CalibratedPoint> {
    let points = measured.iter().flat_map(|it| it.points.iter().map(move |point| (&it.name, point)));
    points.zip(times_ns).map(move |((curve, point), ns)| {
        let simulated_ns = ns + background * point.apart_ns;
        CalibratedPoint {
            curve: curve.clone(),
            offered_pps: point.offered_pps,
            measured_ns: point.cpu_ns,
            measured_range_ns: point.range_ns,
            tester_ns: point.tester_ns,
            simulated_ns,
            error: simulated_ns / point.cpu_ns - 1.0,
            checks,
        }
    })
}

/// How well the points that check were predicted, beside the median of the times at the others.
fn checked(points: &[CalibratedPoint]) -> Option<CalibrationCheck> {
    let (checks, found): (Vec<_>, Vec<_>) = points.iter().partition(|point| point.checks);
    let typical_ns = median(&found.iter().map(|point| point.measured_ns).collect::<Vec<_>>())?;
    let errors: Vec<f64> = checks.iter().map(|point| point.error.abs()).collect();
    let null = checks.iter().map(|point| (typical_ns / point.measured_ns - 1.0).abs());
    Some(CalibrationCheck {
        points: checks.len(),
        median_error: median(&errors)?,
        largest_error: errors.iter().copied().reduce(f64::max)?,
        null_median_error: median(&null.collect::<Vec<_>>())?,
    })
}

/// Finds the constants from the curves `measured`, and what they predict for the curves `checks`, which have
/// no part in the search. `progress` receives the number of rounds that are done, and the most that there
/// will be.
///
/// # Errors
/// No curve, a stack whose costs are others, or a point that cannot be simulated.
pub fn calibrate(
    measured: &[Measured],
    checks: &[Measured],
    go_on: &(dyn Fn() -> bool + Sync),
    progress: &(dyn Fn(usize, usize) + Sync),
) -> Result<HostCalibration, CalibrateError> {
    let free = free(measured)?;
    let start = start(&free);
    // A curve that cannot be predicted is refused before the search, which takes long.
    for it in checks {
        let first = Measured { points: it.points.iter().take(1).cloned().collect(), ..it.clone() };
        match simulated(&[first], &free, &start, go_on) {
            Ok(_) | Err(CalibrateError::Trial(TrialError::Interrupted)) => {}
            Err(why) => return Err(CalibrateError::Input(format!("{}: {why}", it.name))),
        }
    }
    let points = measured.iter().flat_map(|it| it.points.iter().cloned()).collect();
    let mut next = Unknowns { values: start.clone(), background: 0.0 };
    let mut best = (f64::INFINITY, 0, next.clone(), vec![false; free.len()]);
    let search = Search { measured, points, free, start };
    let mut complete = false;
    for round in 0..ROUNDS {
        progress(round, ROUNDS);
        let found = match search.round(&next, go_on) {
            Err(CalibrateError::Trial(TrialError::Interrupted)) => break,
            found => found?,
        };
        let now = std::mem::replace(&mut next, found.next);
        if found.squares < best.0 {
            best = (found.squares, round, now, found.told);
        }
        complete = round >= best.1 + END;
        if complete {
            break;
        }
    }
    let (_, _, Unknowns { mut values, background }, told) = best;
    for (at, value) in values.iter_mut().enumerate().filter(|(at, _)| !told[*at]) {
        *value = search.start[at];
    }
    let is_observed = search.is_observed();
    let free = search.free;
    let times_ns = |curves| match simulated(curves, &free, &values, go_on) {
        Err(CalibrateError::Trial(TrialError::Interrupted)) => Ok(Vec::new()),
        times => times,
    };
    let mut points: Vec<CalibratedPoint> =
        compared(measured, &times_ns(measured)?, background, false).collect();
    let errors: Vec<f64> = points.iter().map(|point| point.error.abs()).collect();
    let predicted = times_ns(checks)?;
    // An interruption leaves the curves that check without a prediction.
    complete &= checks.is_empty() || !predicted.is_empty();
    points.extend(compared(checks, &predicted, background, true));
    let constant = |((free, value), told): ((&Free, &f64), bool)| CalibratedConstant {
        constant: free.path(),
        before: free.before,
        value: value.exp().round() as u64,
        told,
    };
    Ok(HostCalibration {
        kpps_version: env!("CARGO_PKG_VERSION").into(),
        machine: measured.first().map(|it| it.choice.machine().to_owned()).unwrap_or_default(),
        constants: free.iter().zip(&values).zip(told).map(constant).collect(),
        background: is_observed.then_some(background),
        median_error: median(&errors),
        largest_error: errors.iter().copied().reduce(f64::max),
        check: checked(&points),
        points,
        complete,
        ..HostCalibration::default()
    })
}

/// The files of a machine with these constants, each with its name: based on the profiles of `choice`.
///
/// # Errors
/// A profile that is missing or bad.
pub fn profiles(
    found: &HostCalibration,
    choice: &Choice,
    on: &str,
) -> Result<Vec<(&'static str, String)>, SetupError> {
    let setup = choice.setup()?;
    let of = |kind: Kind, base: &str| {
        let lines = found.constants.iter().filter_map(|constant| {
            let name = constant.constant.strip_prefix(kind.word())?.strip_prefix('.')?;
            let source = match constant.told {
                true => format!("kpps calibrate-host, from {on}"),
                false => format!("as {base}: the curves do not determine it"),
            };
            let source = serde_json::Value::from(source);
            Some(format!("{name} = {{ value = {}, source = {source} }}\n", constant.value))
        });
        format!("base = \"{base}\"\ndescription = \"{base}, calibrated\"\n{}", lines.collect::<String>())
    };
    let machine = choice.machine();
    // The files of the caller are named by their whole paths, as they are not beside these.
    let quoted = |name: &str| {
        let file = name.ends_with(".toml").then(|| std::path::absolute(name).ok()).flatten();
        serde_json::Value::from(file.map_or(name.to_owned(), |file| file.display().to_string()))
    };
    let chip = choice.chip.as_ref().map(|chip| format!("chip = {}\n", quoted(chip))).unwrap_or_default();
    let driver = format!("drivers = [{}]\n", quoted(choice.driver()));
    Ok(vec![
        ("host.toml", of(Kind::Host, &setup.host)),
        ("stack.toml", of(Kind::Stack, &setup.stack)),
        (
            "machine.toml",
            format!(
                "base = \"{machine}\"\ndescription = \"{machine}, calibrated\"\nhost = \"host.toml\"\nstack = \"stack.toml\"\n{chip}{driver}"
            ),
        ),
    ])
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use kpps_documents::{Environment, Series};

    fn base() -> Choice {
        Choice {
            machine: Some("lab-e1000".into()),
            driver: Some("linux-6.1-e1000".into()),
            ..Choice::default()
        }
    }

    /// A machine with other costs than its profile, measured in the simulator, with a background.
    fn measured(background: f64, has_cpu: bool) -> Vec<Measured> {
        let base = base();
        let mut truly = base.clone();
        truly.change("host.interrupt_cycles", &Setting::Whole(700)).unwrap();
        truly.change("stack.receive_cycles", &Setting::Whole(3000)).unwrap();
        let curve = |weight: i64| {
            let mut choice = truly.clone();
            choice.change("driver.weight", &Setting::Whole(weight)).unwrap();
            let mut testbed = choice.testbed(choice.setup().unwrap());
            let point = |kpps: u32| {
                let load = Load::of(f64::from(kpps) * 1e3, Size::MIN).lasting_ms(20, 60);
                let trial = testbed.trial_while(&load, &|| true).unwrap();
                let busy = trial.cpu_busy.map(|busy| (busy + background).min(1.0)).filter(|_| has_cpu);
                Trial { cpu_busy: busy, ..trial }
            };
            let points = [20, 50, 100, 150, 400].map(point).into();
            let environment = Environment { frame_bytes_with_fcs: Some(64), ..Environment::default() };
            let series = Series { name: "it".into(), points };
            let settings = [("driver.weight".to_owned(), Setting::Whole(weight))];
            Measured::new("it", &Curve::new(environment, vec![series], true), &base, &settings)
        };
        [64, 8].map(|weight| curve(weight).unwrap()).into()
    }

    fn value(found: &HostCalibration, constant: &str) -> f64 {
        found.constants.iter().find(|it| it.constant == constant).unwrap().value as f64
    }

    #[test]
    fn the_costs_of_a_machine_are_found_again() {
        let found = calibrate(&measured(0.01, true), &[], &|| true, &|_, _| ()).unwrap();
        assert!(found.complete && found.median_error.unwrap() < 0.01, "{found:?}");
        assert!((value(&found, "stack.receive_cycles") / 3000.0 - 1.0).abs() < 0.02, "{found:?}");
        // At light loads QEMU's card interrupts 7812 times a second, whatever the load: only the sum of the
        // interrupts' time and of the CPU's other work can be determined.
        let besides = |interrupt_ns: f64, background: f64| 7812.5 * interrupt_ns / 1e9 + background;
        let [host, stack, machine] =
            &profiles(&found, &Choice { chip: Some("82540em".into()), ..base() }, "it.json").unwrap()[..]
        else {
            panic!("three files");
        };
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in [host, stack, machine] {
            std::fs::write(folder.path().join(name), text).unwrap();
        }
        let mine =
            Choice { machine: Some(folder.path().join("machine.toml").display().to_string()), ..base() };
        assert_eq!(mine.drivers(&[]).unwrap(), [base().driver()]);
        let preset = "../../../profiles/drivers/linux-6.1-e1000.toml";
        let with_file = Choice { driver: Some(preset.into()), chip: Some("82540em".into()), ..base() };
        for (name, text) in profiles(&found, &with_file, "it.json").unwrap() {
            std::fs::write(folder.path().join(name), text).unwrap();
        }
        let drivers = mine.drivers(&[]).unwrap();
        let whole = std::path::absolute(preset).unwrap().display().to_string();
        assert_eq!(drivers, [whole], "a file is named by its whole path");
        let mine = mine.setup().unwrap();
        let StackParams::Linux24(stack) = &mine.stack_params else { panic!("Linux") };
        assert_eq!(
            (stack.receive_cycles as f64, &*mine.chip),
            (value(&found, "stack.receive_cycles"), "82540em")
        );
        let found_besides = besides(value(&found, "host.interrupt_cycles"), found.background.unwrap());
        assert!((found_besides / besides(700.0, 0.01) - 1.0).abs() < 0.05, "{found:?}");
    }

    #[test]
    fn a_curve_that_is_left_out_checks_the_others() {
        let mut all = measured(0.01, true);
        let other = all.split_off(1);
        let found = calibrate(&all, &other, &|| true, &|_, _| ()).unwrap();
        assert_eq!(
            found.points.iter().map(|point| point.checks).collect::<Vec<_>>(),
            [[false; 5], [true; 5]].concat()
        );
        let check = found.check.clone().unwrap();
        assert!(check.points == 5 && check.median_error < 0.05, "{found:?}");
        assert!(check.null_median_error > 3.0 * check.median_error, "{found:?}");
        let without = calibrate(&all, &[], &|| true, &|_, _| ()).unwrap();
        assert_eq!((&without.constants, without.median_error), (&found.constants, found.median_error));
        assert_eq!(without.check, None);
    }

    #[test]
    fn without_the_cpu_an_overload_tells_the_frame_and_nothing_the_interrupt() {
        let found = calibrate(&measured(0.0, false), &[], &|| true, &|_, _| ()).unwrap();
        assert_eq!((found.points.len(), found.background), (2, None), "only what was too much");
        assert!((value(&found, "stack.receive_cycles") / 3000.0 - 1.0).abs() < 0.05, "{found:?}");
        let interrupt = found.constants.iter().find(|it| it.constant == "host.interrupt_cycles").unwrap();
        assert_eq!((interrupt.told, interrupt.value), (false, interrupt.before));
    }

    #[test]
    fn between_veths_only_reception_is_found() {
        let base = Choice { app: Some(AppKind::Bridge), one_way: true, ..base() };
        let truth = {
            let mut truly = base.clone();
            truly.change("stack.receive_cycles", &Setting::Whole(3000)).unwrap();
            let load = Load::of(1e5, Size::MIN).lasting_ms(20, 60);
            let trial = truly.testbed(truly.setup().unwrap()).trial_while(&load, &|| true).unwrap();
            let outside = trial.cpu_busy.unwrap() - trial.cpu.unwrap().hardirq;
            outside * 1e9 / trial.delivered_pps
        };
        let cost = |ns: f64| FrameCost {
            offered_pps: 2e5,
            ns,
            range_ns: [0.9 * ns, 1.1 * ns],
            tester_ns: Some(2500.0),
        };
        // At half the load that the device could carry alone.
        let measured = [Measured::of_cost(Size::MIN, &cost(truth), base.clone())];
        let check = [Measured::of_cost(Size::with_fcs(512), &cost(1.1 * truth), base.clone())];
        let found = calibrate(&measured, &check, &|| true, &|_, _| ()).unwrap();
        let names: Vec<_> = found.constants.iter().map(|it| it.constant.as_str()).collect();
        assert_eq!(names, ["stack.receive_cycles"]);
        assert!(found.median_error.unwrap() < 0.01, "{found:?}");
        assert!((value(&found, "stack.receive_cycles") / 3000.0 - 1.0).abs() < 0.1, "{found:?}");
        // The same is predicted for another size, of which a tenth more was measured.
        assert!((found.check.unwrap().largest_error - 0.1 / 1.1).abs() < 0.01);
        Measured::check(Size::with_fcs(1518), &base).unwrap();
        let other = Choice { machine: Some("morris2000".into()), driver: None, ..base };
        assert!(Measured::check(Size::MIN, &other).unwrap_err().to_string().contains("has no NAPI"));
    }

    #[test]
    fn what_cannot_be_calibrated_is_refused() {
        let none = calibrate(&[], &[], &|| true, &|_, _| ()).unwrap_err();
        assert!(none.to_string().contains("no curve"), "{none}");
        let missing = Measured::read("/nowhere.json,driver.weight=8", &Choice::default()).unwrap_err();
        assert!(missing.to_string().starts_with("/nowhere.json: "), "{missing}");
        let nothing = Curve::new(Environment::default(), vec![], true);
        let nothing = Measured::new("it", &nothing, &Choice::default(), &[]).unwrap_err();
        assert!(nothing.to_string().contains("0 series"), "{nothing}");
        let own =
            Choice { machine: Some("mine/machine.toml".into()), ..measured(0.0, true)[0].choice.clone() };
        let own = Measured { choice: own, ..measured(0.0, true).remove(0) };
        let own = calibrate(&[own], &[], &|| true, &|_, _| ()).unwrap_err();
        assert!(own.to_string().contains("is a file: begin with a built-in machine"), "{own}");
    }
}
