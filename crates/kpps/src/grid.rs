//! `kpps grid`: any parameter over ranges, on all cores, continued where it was left.

pub(crate) mod range;

use crate::error::{Failure, print};
use crate::interrupt;
use crate::journal::Journal;
use crate::live::{self, Live};
use crate::output::Output;
use crate::room::Room;
use crate::units;
use clap::Args;
use kpps_bench::{Load, TrialError, point};
use kpps_frames::Size;
use kpps_live::Progress;
use kpps_profiles::Change;
use kpps_report::grid::{Axis, Cell, Grid, Setting, page, screen};
use kpps_report::{Environment, Point};
use kpps_testbed::Setup;
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Time under load before measuring begins.
const WARMUP_MS: u32 = 50;
/// The most cells.
const MOST: usize = 1_000_000;

/// Arguments of `kpps grid`.
#[derive(Args)]
#[command(after_help = "Examples:
  kpps grid --driver intel-5.7.6 --vary driver.weight=1..64*2 --vary load=10%..100%/10%
  kpps grid --vary driver.rx_ring=16..1024*2 --vary host.interrupt_ps=1000000..9000000/2000000 --load 100%
  kpps grid --vary driver=kpps,click-polling --vary size=64,128,256 --vary load=50%,100% --csv

What varies is a constant by its path (`kpps list KIND NAME` shows them: driver.rx_ring,
driver.moderation.rdtr or short driver.rdtr, chip.…, bus.…, host.…, stack.…, machine.…), or load, size, driver, chip, machine, app.
Values: 16,32,64; 1..64 in steps of 1; 10..100/30 in steps; 16..1024*2 by a factor.

Finished cells are kept in a file. The same command goes on after an interruption; one with more values
measures those that are missing. A cell is found again only if kpps and all profiles are the same.")]
pub struct Arguments {
    /// A parameter and its values; the last one given goes to the right in maps
    #[arg(long, required = true, value_name = "PARAMETER=VALUES", value_parser = range::axis)]
    vary: Vec<Axis>,
    /// Another value for a constant
    #[arg(long, value_name = "CONSTANT=VALUE", value_parser = range::change)]
    set: Vec<(String, Setting)>,
    #[command(flatten)]
    room: Room,
    /// The machine: a name (`kpps list machines`) or a .toml file [default: morris2000; with --app lunz2003]
    #[arg(long)]
    machine: Option<String>,
    /// The chip, if not the machine's own: a name (`kpps list chips`) or a .toml file
    #[arg(long)]
    chip: Option<String>,
    /// The driver preset: a name (`kpps list drivers`) or a .toml file
    #[arg(long, default_value = "kpps")]
    driver: String,
    /// Frame size in bytes with FCS [default: 64; with --app vlan-route 68]
    #[arg(long, value_parser = units::size)]
    size: Option<Size>,
    /// The offered load
    #[arg(long, default_value = "100%")]
    load: units::Rate,
    /// How long each trial is measured, after 50 ms of warm-up
    #[arg(long, default_value = "50ms", value_parser = units::duration)]
    duration: Duration,
    /// Shifts the frames against the machine's clock; equal seeds give equal results
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Where finished cells are kept
    #[arg(long, value_name = "FILE", default_value = "grid.cells")]
    cells: PathBuf,
    /// Print the results as one JSON document, and write files only where asked to
    #[arg(long)]
    json: bool,
    /// Print the results as CSV, and write files only where asked to
    #[arg(long, conflicts_with = "json")]
    csv: bool,
    /// Where to write the results [default: grid.json]
    #[arg(long, value_name = "FILE")]
    results: Option<PathBuf>,
    /// Where to write the HTML report [default: grid.html]
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
    #[command(flatten)]
    live: Live,
}

/// What one cell is to measure.
struct Plan {
    room: Room,
    setup: Setup,
    load: Load,
}

impl Arguments {
    /// The plan of the cell with these values.
    fn plan(&self, values: &[(&str, &Setting)]) -> Result<Plan, String> {
        let (mut machine, mut chip, mut driver) =
            (self.machine.clone(), self.chip.clone(), self.driver.clone());
        let (mut room, mut size, mut offered, mut changes) = (self.room, self.size, self.load, Vec::new());
        let own = self.set.iter().map(|(path, value)| (path.as_str(), value));
        for (parameter, value) in own.chain(values.iter().copied()) {
            let text = value.to_string();
            match parameter {
                "app" => room.app = Some(text.parse()?),
                "machine" => machine = Some(text),
                "chip" => chip = Some(text),
                "driver" => driver = text,
                "size" => size = Some(units::size(&text)?),
                "load" => offered = text.parse()?,
                path => changes.push(Change::set(path, range::value(value))?),
            }
        }
        let machine = room.machine(machine.as_deref());
        let setup =
            Setup::changed(machine, chip.as_deref(), &driver, &changes).map_err(|error| error.to_string())?;
        let size = room.size(size);
        let load = Load {
            offered_pps: offered.pps(room.line_rate_pps(size), size.bytes_with_fcs().into()),
            size,
            warmup_ms: WARMUP_MS,
            duration_ms: u32::try_from(self.duration.as_millis()).unwrap_or(u32::MAX),
            seed: self.seed,
        };
        Ok(Plan { room, setup, load })
    }

    /// The values of a cell, by name.
    fn values(&self, at: &[usize]) -> Vec<(&str, &Setting)> {
        let each = self.vary.iter().zip(at);
        each.filter_map(|(axis, &at)| Some((axis.parameter.as_str(), axis.values.get(at)?))).collect()
    }

    /// What a cell's result depends on, beside the profiles: its name in the file.
    fn key(&self, plan: &Plan, values: &[(&str, &Setting)]) -> String {
        let setup = &plan.setup;
        let mut settings: Vec<_> = self.set.iter().map(|(path, value)| format!("{path}={value}")).collect();
        settings.extend(values.iter().map(|(path, value)| format!("{path}={value}")));
        settings.extend(self.room.app.map(|app| format!("app={app}")));
        settings.sort_unstable();
        let (size, load) = (plan.load.size.bytes_with_fcs(), plan.load.offered_pps);
        format!(
            "{} {} {} {} {} {size} {load} {} {} {}",
            env!("CARGO_PKG_VERSION"),
            kpps_profiles::hash(&setup.own_profiles),
            setup.machine,
            setup.chip,
            setup.driver,
            plan.load.duration_ms,
            plan.load.seed,
            settings.join(" ")
        )
    }
}

/// Every combination of indices below these lengths, the last fastest.
fn combinations(lengths: &[usize]) -> Vec<Vec<usize>> {
    lengths.iter().fold(vec![Vec::new()], |all, &length| {
        let longer =
            |at: &Vec<usize>| (0..length).map(|next| [&at[..], &[next]].concat()).collect::<Vec<_>>();
        all.iter().flat_map(longer).collect()
    })
}

/// Offers a cell its load.
fn measure(plan: Plan) -> Result<Point, TrialError> {
    let trial = plan.room.testbed(plan.setup).trial_while(&plan.load, &|| !interrupt::asked())?;
    Ok(point(&plan.load, &trial).rounded())
}

/// Runs `kpps grid`.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    let lengths: Vec<usize> = arguments.vary.iter().map(|axis| axis.values.len()).collect();
    let count = lengths.iter().try_fold(1_usize, |product, &length| product.checked_mul(length));
    if count.is_none_or(|count| count > MOST) {
        return Err(Failure::Input(format!("that is more than {MOST} cells")));
    }
    crate::error::refuse_twice(arguments.vary.iter().map(|axis| axis.parameter.as_str()))?;
    let all = combinations(&lengths);
    // What is wrong with all of them is said before anything is measured.
    let plans = all.iter().map(|at| arguments.plan(&arguments.values(at)));
    let mut first = None;
    for plan in plans {
        match plan {
            Ok(plan) => {
                first = Some(Ok(plan));
                break;
            }
            Err(problem) => first = first.or(Some(Err(problem))),
        }
    }
    let first = match first {
        Some(Ok(plan)) => plan,
        Some(Err(problem)) => return Err(Failure::Input(problem)),
        None => return Err(Failure::Input("there are no values".into())),
    };
    let environment = environment(&first);
    let quiet = arguments.json || arguments.csv;
    let open = |path: &Option<PathBuf>, default: &str| {
        let path = path.clone().or_else(|| (!quiet).then(|| default.into()));
        path.map(|path| Output::open(&path)).transpose()
    };
    let mut results = open(&arguments.results, "grid.json")?;
    let mut report = open(&arguments.report, "grid.html")?;
    let kept = Mutex::new(Journal::open(&arguments.cells)?);

    interrupt::watch();
    let progress = Progress::of(format!("kpps grid: {}", environment.machine));
    progress.wants(all.len());
    let view = arguments.live.view(progress.clone(), Box::new(()), quiet)?;
    let began = Instant::now();
    let (next, measured) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let done: Mutex<Vec<Cell>> = Mutex::default();
    let broken: Mutex<Option<Failure>> = Mutex::default();
    let work = || {
        while !interrupt::asked() {
            let Some(at) = all.get(next.fetch_add(1, Ordering::Relaxed)) else { break };
            let values = arguments.values(at);
            let outcome = arguments.plan(&values).and_then(|plan| {
                let key = arguments.key(&plan, &values);
                if let Some(point) = kept.lock().ok().and_then(|kept| kept.of(&key).last().cloned()) {
                    return Ok(Some(point));
                }
                match measure(plan) {
                    Ok(point) => {
                        measured.fetch_add(1, Ordering::Relaxed);
                        if let Some(Err(failure)) = kept.lock().ok().map(|mut kept| kept.keep(&key, &point))
                            && let Ok(mut broken) = broken.lock()
                        {
                            *broken = Some(failure);
                        }
                        Ok(Some(point))
                    }
                    Err(TrialError::Interrupted) => Ok(None),
                    Err(error) => Err(error.to_string()),
                }
            });
            let at = at.clone();
            let cell = match outcome {
                Ok(None) => break,
                Ok(point) => Cell { at, point, problem: None },
                Err(problem) => Cell { at, point: None, problem: Some(problem) },
            };
            match &cell.point {
                Some(point) => progress.ended(live::ended(point)),
                None => progress.done(),
            }
            if let Ok(mut done) = done.lock() {
                done.push(cell);
            }
        }
    };
    let threads = std::thread::available_parallelism().map_or(1, |n| n.get()).min(all.len());
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(work);
        }
    });
    drop(view);
    if let Ok(Some(failure)) = broken.into_inner() {
        return Err(failure);
    }
    let grid = Grid::new(environment, arguments.vary.clone(), done.into_inner().unwrap_or_default());
    let json =
        grid.to_json().map_err(|e| Failure::Check(format!("the results cannot be written as JSON: {e}")))?;
    if let Some(results) = &mut results {
        results.write(&json)?;
    }
    if let Some(report) = &mut report {
        report.write(&page(&grid))?;
    }
    if arguments.json {
        print(&json)?;
    } else if arguments.csv {
        print(&grid.csv())?;
    } else {
        let measured = measured.into_inner();
        let found = grid.cells.iter().filter(|cell| cell.point.is_some()).count() - measured;
        let files: String = [&results, &report]
            .into_iter()
            .flatten()
            .map(|file| format!("\n  {}", file.path().display()))
            .collect();
        print(&format!(
            "{}\n{measured} cells measured in {:.1} s, {found} were in {}{files}\n",
            screen(&grid),
            began.elapsed().as_secs_f64(),
            arguments.cells.display()
        ))?;
    }
    if grid.complete {
        return Ok(());
    }
    Err(Failure::Interrupted(format!(
        "interrupted: {} of {} cells; the same command goes on",
        grid.cells.len(),
        all.len()
    )))
}

/// What the cells have in common, as far as the first one tells.
fn environment(first: &Plan) -> Environment {
    let (setup, load) = (&first.setup, &first.load);
    Environment {
        kpps_version: env!("CARGO_PKG_VERSION").into(),
        testbed: "sim".into(),
        machine: setup.machine.clone(),
        chip: setup.chip.clone(),
        bus: setup.bus.clone(),
        host: setup.host.clone(),
        stack: setup.stack.clone(),
        app: first.room.app_name(),
        size_bytes_without_fcs: load.size.bytes_without_fcs(),
        frame_bytes_with_fcs: load.size.bytes_with_fcs(),
        line_rate_pps: first.room.line_rate_pps(load.size),
        duration_ms: load.duration_ms.into(),
        warmup_ms: load.warmup_ms.into(),
        seed: load.seed,
        profiles_hash: kpps_profiles::hash(&setup.own_profiles),
        presets: [(setup.driver.clone(), setup.driver_description.clone())].into(),
    }
}
