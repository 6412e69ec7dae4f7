//! What a frame and an interrupt cost on a machine that was measured: constants of host and stack with which
//! the simulator takes the CPU time that the machine took.
//!
//! Of each measured point only the CPU time for a delivered frame counts: the share of time that the CPU was
//! busy over the delivered rate. Where the CPU was not observed, a point tells it only if its load was more
//! than the machine could take: then it was busy all the time. The sum of squares of the logarithms of
//! simulated over measured time is minimized by Gauss and Newton's method, with derivatives from a step of a
//! tenth, on the constants' logarithms. A small weight holds each constant at its profile's value, so one that
//! the points do not tell stays there. Nothing is random.

use crate::{Choice, Forwarder, SetupError, StackParams};
use kpps_frames::Size;
use kpps_measure::statistics::median;
use kpps_measure::{Load, TrialError, parameter};
use kpps_profiles::{Kind, Profile};
use kpps_results::grid::Setting;
use kpps_results::host::{CalibratedConstant, CalibratedPoint, HostCalibration};
use kpps_results::{Curve, Trial};

/// Rounds, at most.
pub const ROUNDS: usize = 8;
/// The step of a derivative: a constant is multiplied by this.
const STEP: f64 = 1.1;
/// The most that a constant is changed by in a round: it is multiplied or divided by this.
const LEAP: f64 = 3.0;
/// The weight that holds a constant where it is.
const HOLD: f64 = 1e-4;
/// A round that changes no constant by this share is the last.
const END: f64 = 0.002;
/// A constant is told by a point whose CPU time changes by this share with [`STEP`].
const TOLD: f64 = 0.001;
/// Loss from which on a point without a CPU share shows the most that the machine can do.
const OVERLOAD: f64 = 0.05;
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
    /// The points that tell a CPU time: load, and time for a delivered frame in ns.
    points: Vec<(Load, f64)>,
}

/// The CPU time for a delivered frame in ns, if the point tells it.
fn cpu_ns(point: &Trial) -> Option<f64> {
    let busy = point.cpu_busy.or_else(|| (point.loss_ratio > OVERLOAD).then_some(1.0))?;
    let ns = busy * 1e9 / point.delivered_pps;
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
        let curve: Curve = serde_json::from_str(&document)
            .map_err(|error| input(format!("no document of `kpps curve --results`: {error}")))?;
        let settings = parts.map(|part| parameter::change(part).map_err(input));
        Self::new(file, &curve, base, &settings.collect::<Result<Vec<_>, CalibrateError>>()?)
    }

    /// The first series of `curve`, measured with these settings beside those of `base`. An app that the
    /// document names is taken from it.
    ///
    /// # Errors
    /// A setting that the simulator does not know, or no point that tells a CPU time.
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
            return Err(input("its frames have several sizes: the simulator takes one".into()));
        }
        let size = Size::without_fcs(curve.environment.size_bytes_without_fcs);
        let series = curve.series.first().ok_or_else(|| input("no series".into()))?;
        let (warmup_ms, duration_ms) = TIMES_MS;
        let most_pps = choice.line_rate_pps(size);
        let points: Vec<_> = (series.points.iter())
            .filter(|point| point.offered_pps <= most_pps)
            .filter_map(|point| {
                let load = Load { offered_pps: point.offered_pps, size, warmup_ms, duration_ms, seed: 1 };
                Some((load, cpu_ns(point)?))
            })
            .collect();
        if points.is_empty() {
            return Err(input(
                "no point tells what the CPU did: it was not observed, and no load was too much".into(),
            ));
        }
        let name = std::iter::once(name.to_owned())
            .chain(settings.iter().map(|(path, value)| format!("{path}={value}")))
            .collect::<Vec<_>>()
            .join(",");
        Ok(Self { name, choice, points })
    }
}

/// A constant that is looked for.
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

/// The constants that these curves can tell, with their values before.
fn free(measured: &[Measured]) -> Result<Vec<Free>, CalibrateError> {
    let first = measured.first().ok_or_else(|| CalibrateError::Input("no curve was given".into()))?;
    let setup = first.choice.setup()?;
    if !matches!(setup.stack_params, StackParams::Linux24(_)) {
        return Err(CalibrateError::Input(format!(
            "the stack '{}' is none with NAPI: take a machine with one of Linux, 2.4 or later",
            setup.stack
        )));
    }
    let runs = |app| measured.iter().any(|it| it.choice.app == Some(app));
    let names = [
        (Kind::Host, "interrupt_cycles", true),
        (Kind::Stack, "tick_cycles", true),
        (Kind::Stack, "poll_cycles", true),
        (Kind::Stack, "receive_cycles", true),
        (Kind::Stack, "forward_cycles", runs(Forwarder::Route) || runs(Forwarder::VlanRoute)),
        (Kind::Stack, "bridge_cycles", runs(Forwarder::Bridge)),
        (Kind::Stack, "nat_cycles", runs(Forwarder::Nat)),
    ];
    let changes = crate::choice::changes(&first.choice.set)?;
    let mut all = Vec::new();
    for (kind, name, _) in names.into_iter().filter(|(.., used)| *used) {
        let profile = match kind {
            Kind::Host => &setup.host,
            _ => &setup.stack,
        };
        let profile = Profile::named(kind, profile)
            .and_then(|profile| profile.changed(&changes))
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
        for (load, _) in &it.points {
            let trial = testbed.trial_while(load, go_on)?;
            times.push(cpu_ns(&trial).ok_or_else(|| {
                CalibrateError::Input(format!("{}: the simulated machine delivers nothing", it.name))
            })?);
        }
    }
    Ok(times)
}

/// The same for several sets of values, each on a thread of its own.
fn all_simulated(
    measured: &[Measured],
    free: &[Free],
    sets: &[Vec<f64>],
    go_on: &(dyn Fn() -> bool + Sync),
) -> Result<Vec<Vec<f64>>, CalibrateError> {
    std::thread::scope(|scope| {
        let threads: Vec<_> =
            sets.iter().map(|values| scope.spawn(move || simulated(measured, free, values, go_on))).collect();
        let failed = || CalibrateError::Input("a simulation has failed".into());
        threads.into_iter().map(|thread| thread.join().map_err(|_| failed())?).collect()
    })
}

/// The least squares of `slopes` · x + `errors`, each x being held at its `rest` with [`HOLD`]: by Gauss and
/// Seidel's method, which converges as the matrix is positive definite.
fn least_squares(slopes: &[Vec<f64>], errors: &[f64], rest: &[f64]) -> Vec<f64> {
    let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
    let mut x = vec![0.0; slopes.len()];
    for _ in 0..2000 {
        for (j, slope) in slopes.iter().enumerate() {
            let others: f64 =
                (0..slopes.len()).filter(|k| *k != j).map(|k| dot(slope, &slopes[k]) * x[k]).sum();
            x[j] = (HOLD * rest[j] - dot(slope, errors) - others) / (dot(slope, slope) + HOLD);
        }
    }
    x
}

/// Finds the constants. `progress` is told how many rounds are done, of how many at most.
///
/// # Errors
/// No curve, a stack whose costs are others, or a point that cannot be simulated.
pub fn calibrate(
    measured: &[Measured],
    go_on: &(dyn Fn() -> bool + Sync),
    progress: &(dyn Fn(usize, usize) + Sync),
) -> Result<HostCalibration, CalibrateError> {
    let free = free(measured)?;
    let wanted: Vec<f64> = measured.iter().flat_map(|it| it.points.iter().map(|(_, ns)| *ns)).collect();
    let start: Vec<f64> = free.iter().map(|free| (free.before as f64).ln()).collect();
    let mut values = start.clone();
    let mut told = vec![false; free.len()];
    let mut complete = false;
    for round in 0..ROUNDS {
        progress(round, ROUNDS);
        let mut sets = vec![values.clone()];
        for at in 0..free.len() {
            let mut set = values.clone();
            set[at] += STEP.ln();
            sets.push(set);
        }
        let times = match all_simulated(measured, &free, &sets, go_on) {
            Err(CalibrateError::Trial(TrialError::Interrupted)) => break,
            times => times?,
        };
        let logs: Vec<Vec<f64>> = times
            .iter()
            .map(|times| times.iter().zip(&wanted).map(|(t, w)| (t / w).ln()).collect())
            .collect();
        let changes: Vec<Vec<f64>> = logs[1..]
            .iter()
            .map(|logs_of| logs_of.iter().zip(&logs[0]).map(|(a, b)| a - b).collect())
            .collect();
        told = changes.iter().map(|of| of.iter().any(|change: &f64| change.abs() >= TOLD)).collect();
        let slopes: Vec<Vec<f64>> =
            changes.iter().map(|of| of.iter().map(|change| change / STEP.ln()).collect()).collect();
        let rest: Vec<f64> = start.iter().zip(&values).map(|(start, value)| start - value).collect();
        let steps = least_squares(&slopes, &logs[0], &rest);
        let mut moved = 0.0f64;
        for (at, step) in steps.into_iter().enumerate() {
            let to = (values[at] + step.clamp(-LEAP.ln(), LEAP.ln())).clamp(0.0, 1e6f64.ln());
            moved = moved.max((to - values[at]).abs());
            values[at] = if told[at] { to } else { start[at] };
        }
        if moved < END {
            complete = true;
            break;
        }
    }
    let simulated = match simulated(measured, &free, &values, go_on) {
        Err(CalibrateError::Trial(TrialError::Interrupted)) => Vec::new(),
        times => times?,
    };
    let named = measured.iter().flat_map(|it| it.points.iter().map(move |(load, ns)| (it, load, *ns)));
    let points: Vec<CalibratedPoint> = named
        .zip(simulated)
        .map(|((it, load, measured_ns), simulated_ns)| CalibratedPoint {
            curve: it.name.clone(),
            offered_pps: load.offered_pps,
            measured_ns,
            simulated_ns,
            error: simulated_ns / measured_ns - 1.0,
        })
        .collect();
    let errors: Vec<f64> = points.iter().map(|point| point.error.abs()).collect();
    Ok(HostCalibration {
        kpps_version: env!("CARGO_PKG_VERSION").into(),
        machine: measured.first().map(|it| it.choice.machine().to_owned()).unwrap_or_default(),
        constants: free
            .iter()
            .zip(&values)
            .zip(told)
            .map(|((free, value), told)| CalibratedConstant {
                constant: free.path(),
                before: free.before,
                value: value.exp().round() as u64,
                told,
            })
            .collect(),
        median_error: median(&errors),
        largest_error: errors.iter().copied().reduce(f64::max),
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
                false => format!("as {base}: the curves do not tell it"),
            };
            let source = serde_json::Value::from(source);
            Some(format!("{name} = {{ value = {}, source = {source} }}\n", constant.value))
        });
        format!("base = \"{base}\"\ndescription = \"{base}, calibrated\"\n{}", lines.collect::<String>())
    };
    let machine = choice.machine();
    Ok(vec![
        ("host.toml", of(Kind::Host, &setup.host)),
        ("stack.toml", of(Kind::Stack, &setup.stack)),
        (
            "machine.toml",
            format!(
                "base = \"{machine}\"\ndescription = \"{machine}, calibrated\"\nhost = \"host.toml\"\nstack = \"stack.toml\"\n"
            ),
        ),
    ])
}
