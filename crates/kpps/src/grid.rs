//! `kpps grid`: any parameter over ranges, on all cores, continued where it was left.

pub(crate) mod range;

use crate::error::{Failure, print};
use crate::interrupt;
use crate::journal::Journal;
use crate::live;
use crate::output::Output;
use crate::points::{Points, of_frames};
use crate::room::Room;
use crate::search;
use crate::testbed::{Elsewhere, REAL_TRIAL, VIRTUAL_TRIAL, WARMUP_MS};
use crate::traffic;
use crate::units;
use clap::Args;
use kpps_frames::{Mix, Size};
use kpps_live::{Progress, Source};
use kpps_measure::{Load, TrialError};
use kpps_profiles::Change;
use kpps_report::grid::{Axis, Cell, Grid, Setting, page, screen};
use kpps_report::{Environment, Point};
use kpps_sim::Setup;
use std::cell::RefCell;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The most cells.
const MOST: usize = 1_000_000;

/// Arguments of `kpps grid`.
#[derive(Args)]
#[command(after_help = "Examples:
  kpps grid --driver intel-5.7.6 --vary driver.weight=1..64*2 --vary load=10%..100%/10%
  kpps grid --vary driver.rx_ring=16..1024*2 --vary host.interrupt_ps=1000000..9000000/2000000 --load 100%
  kpps grid --vary driver=kpps,click-polling --vary size=64,128,256 --vary load=50%,100% --csv
  kpps grid --testbed packet:A,packet:B --vary size=64,512,imix-csit --vary load=50kpps..500kpps/50kpps

What varies is a constant by its path (`kpps list KIND NAME` shows them: driver.rx_ring,
driver.moderation.rdtr or short driver.rdtr, chip.…, bus.…, host.…, stack.…, machine.…), or load, size, driver, chip, machine, app.
Between two ports, and on other testbeds than the machine room: load and size, a mix of sizes among them.
Values: 16,32,64; 1..64 in steps of 1; 10..100/30 in steps; 16..1024*2 by a factor.

Finished cells are kept in a file. The same command goes on after an interruption; one with more values
measures those that are missing. A cell is found again only if kpps and all profiles are the same; between two ports, if kernel,
drivers and their settings are.")]
pub struct Arguments {
    /// A parameter and its values; the last one given goes to the right in maps
    #[arg(long, required = true, value_name = "PARAMETER=VALUES", value_parser = range::axis)]
    vary: Vec<Axis>,
    /// Another value for a constant
    #[arg(long, value_name = "CONSTANT=VALUE", value_parser = range::change, conflicts_with = "testbed")]
    set: Vec<(String, Setting)>,
    #[command(flatten)]
    room: Room,
    /// The machine: a name (`kpps list machines`) or a .toml file [default: morris2000; with --app lunz2003]
    #[arg(long)]
    machine: Option<String>,
    /// The chip, if not the machine's own: a name (`kpps list chips`) or a .toml file
    #[arg(long, conflicts_with = "testbed")]
    chip: Option<String>,
    /// The driver preset: a name (`kpps list drivers`) or a .toml file
    #[arg(long, default_value = "kpps")]
    driver: String,
    /// Frame size in bytes with FCS, or between two ports a mix [default: 64; with --app vlan-route 68]
    #[arg(long, value_parser = traffic::any_sizes)]
    size: Option<Mix>,
    /// The offered load
    #[arg(long, default_value = "100%")]
    load: units::Rate,
    /// How long each trial is measured [default: 50ms of virtual time after as much of warm-up; with --testbed 1s]
    #[arg(long, value_parser = units::duration)]
    duration: Option<Duration>,
    /// Shifts the frames against the machine's clock; equal seeds give equal results
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Where finished cells are kept
    #[arg(long, value_name = "FILE", default_value = "grid.cells")]
    cells: PathBuf,
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
    elsewhere: Elsewhere,
}

/// A testbed on which cells are measured one after the other.
struct There {
    points: RefCell<Points>,
    environment: Environment,
}

/// What a cell is measured on.
enum On<'t> {
    /// A machine room of its own.
    Room(Room, Box<Setup>),
    There(&'t There),
}

/// What one cell is to measure.
struct Plan<'t> {
    sizes: Mix,
    load: Load,
    line_rate_pps: f64,
    on: On<'t>,
}

impl Arguments {
    /// The plan of the cell with these values.
    fn plan<'t>(&self, there: Option<&'t There>, values: &[(&str, &Setting)]) -> Result<Plan<'t>, String> {
        let (mut machine, mut chip, mut driver) =
            (self.machine.clone(), self.chip.clone(), self.driver.clone());
        let (mut room, mut sizes, mut offered, mut changes) =
            (self.room, self.size.clone(), self.load, Vec::new());
        let own = self.set.iter().map(|(path, value)| (path.as_str(), value));
        for (parameter, value) in own.chain(values.iter().copied()) {
            let text = value.to_string();
            match (parameter, there) {
                ("size", _) => sizes = Some(traffic::any_sizes(&text)?),
                ("load", _) => offered = text.parse()?,
                (other, Some(_)) => return Err(format!("{other} is not of this testbed: load and size are")),
                ("app", _) => room.app = Some(text.parse()?),
                ("machine", _) => machine = Some(text),
                ("chip", _) => chip = Some(text),
                ("driver", _) => driver = text,
                (path, _) => changes.push(Change::set(path, range::value(value))?),
            }
        }
        let sizes = sizes.unwrap_or_else(|| Mix::fixed(room.size(None)));
        let (on, line_rate_pps) = match there {
            None => {
                let size = sizes.only();
                let size = size.ok_or_else(|| format!("{sizes}: mixes are for two ports (--testbed)"))?;
                let machine = room.machine(machine.as_deref());
                let setup = Setup::changed(machine, chip.as_deref(), &driver, &changes);
                let setup = setup.map_err(|error| error.to_string())?;
                (On::Room(room, Box::new(setup)), room.line_rate_pps(size))
            }
            Some(there) => {
                let line_pps = there.points.borrow_mut().line_rate_pps(&traffic::fits(sizes.clone())?);
                (On::There(there), line_pps.map_err(|error| error.to_string())?)
            }
        };
        let (usual, warmup_ms) = match there {
            Some(_) => (REAL_TRIAL, self.elsewhere.warmup_ms()),
            None => (VIRTUAL_TRIAL, WARMUP_MS),
        };
        let load = Load {
            offered_pps: offered.pps(line_rate_pps, sizes.mean_bytes_with_fcs()),
            size: sizes.only().unwrap_or(Size::MIN),
            warmup_ms,
            duration_ms: u32::try_from(self.duration.unwrap_or(usual).as_millis()).unwrap_or(u32::MAX),
            seed: self.seed,
        };
        Ok(Plan { sizes, load, line_rate_pps, on })
    }

    /// The testbed, if it is not the machine room, and what can be asked of it while a trial goes on.
    fn there(&self) -> Result<(Option<There>, Box<dyn Source>), Failure> {
        if !self.elsewhere.is_given() {
            return Ok((None, Box::new(())));
        }
        let opened = self.elsewhere.open(self.seed)?;
        let environment = self.elsewhere.described(&opened);
        let points = RefCell::new(Points::new(opened.testbed, environment.both_ways));
        Ok((Some(There { points, environment }), opened.source))
    }

    /// The values of a cell, by name.
    fn values(&self, at: &[usize]) -> Vec<(&str, &Setting)> {
        let each = self.vary.iter().zip(at);
        each.filter_map(|(axis, &at)| Some((axis.parameter.as_str(), axis.values.get(at)?))).collect()
    }

    /// What a cell's result depends on, beside the profiles: its name in the file.
    fn key(&self, plan: &Plan, values: &[(&str, &Setting)]) -> String {
        let load = plan.load.offered_pps;
        let On::Room(_, setup) = &plan.on else {
            return format!("{} {load}", serde_json::to_string(&environment(plan)).unwrap_or_default());
        };
        let mut settings: Vec<_> = self.set.iter().map(|(path, value)| format!("{path}={value}")).collect();
        settings.extend(values.iter().map(|(path, value)| format!("{path}={value}")));
        settings.extend(self.room.app.map(|app| format!("app={app}")));
        settings.sort_unstable();
        format!(
            "{} {} {} {} {} {} {load} {} {} {}",
            env!("CARGO_PKG_VERSION"),
            kpps_profiles::hash(&setup.own_profiles),
            setup.machine,
            setup.chip,
            setup.driver,
            plan.load.size.bytes_with_fcs(),
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
fn measure(plan: Plan, progress: &Progress) -> Result<Point, TrialError> {
    let Plan { sizes, load, on, .. } = plan;
    match on {
        On::Room(room, setup) => Points::new(room.testbed(*setup), false).measure(&sizes, &load),
        On::There(there) => {
            let seconds = f64::from(load.duration_ms) / 1e3;
            progress
                .begins(search::in_words(&sizes, Some(load.offered_pps), seconds), Some(load.offered_pps));
            there.points.borrow_mut().measure(&sizes, &load)
        }
    }
}

/// Runs `kpps grid`.
pub fn run(mut arguments: Arguments) -> Result<(), Failure> {
    if let Some(driver) = arguments.elsewhere.take_room(&mut arguments.machine, &mut arguments.room)? {
        arguments.driver = driver;
    }
    let arguments = &arguments;
    let lengths: Vec<usize> = arguments.vary.iter().map(|axis| axis.values.len()).collect();
    let count = lengths.iter().try_fold(1_usize, |product, &length| product.checked_mul(length));
    if count.is_none_or(|count| count > MOST) {
        return Err(Failure::Input(format!("that is more than {MOST} cells")));
    }
    crate::error::refuse_twice(arguments.vary.iter().map(|axis| axis.parameter.as_str()))?;
    let all = combinations(&lengths);
    let quiet = arguments.elsewhere.common.json || arguments.csv;
    let open = |path: &Option<PathBuf>, default: &str| {
        let path = path.clone().or_else(|| (!quiet).then(|| default.into()));
        path.map(|path| Output::open(&path)).transpose()
    };
    let mut results = open(&arguments.results, "grid.json")?;
    let mut report = open(&arguments.report, "grid.html")?;
    let (there, source) = arguments.there()?;
    let there = there.as_ref();
    // What is wrong with all of them is said before anything is measured.
    let plans = all.iter().map(|at| arguments.plan(there, &arguments.values(at)));
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
    let kept = Mutex::new(Journal::open(&arguments.cells)?);

    interrupt::watch();
    let progress = Progress::of(format!("kpps grid: {}", environment.machine));
    progress.wants(all.len());
    let view = arguments.elsewhere.common.live.view(progress.clone(), source, quiet)?;
    let began = Instant::now();
    let (next, measured) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let done: Mutex<Vec<Cell>> = Mutex::default();
    let broken: Mutex<Option<Failure>> = Mutex::default();
    let breaks = |failure| *broken.lock().unwrap_or_else(PoisonError::into_inner) = Some(failure);
    let work = |there: Option<&There>| {
        while !interrupt::asked() {
            let Some(at) = all.get(next.fetch_add(1, Ordering::Relaxed)) else { break };
            let values = arguments.values(at);
            let outcome = arguments.plan(there, &values).and_then(|plan| {
                let key = arguments.key(&plan, &values);
                if let Some(point) = kept.lock().ok().and_then(|kept| kept.of(&key).last().cloned()) {
                    return Ok(Some(point));
                }
                match measure(plan, &progress) {
                    Ok(point) => {
                        measured.fetch_add(1, Ordering::Relaxed);
                        if let Some(Err(failure)) = kept.lock().ok().map(|mut kept| kept.keep(&key, &point)) {
                            breaks(failure);
                        }
                        Ok(Some(point))
                    }
                    Err(TrialError::Interrupted) => Ok(None),
                    // A testbed that is gone would say the same of every other cell.
                    Err(error @ TrialError::Testbed(_)) if there.is_some() => {
                        breaks(error.into());
                        Ok(None)
                    }
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
    match there {
        Some(_) => work(there),
        None => std::thread::scope(|scope| {
            let threads = std::thread::available_parallelism().map_or(1, |n| n.get()).min(all.len());
            for _ in 0..threads {
                scope.spawn(|| work(None));
            }
        }),
    }
    drop(view);
    let grid = Grid::new(environment, arguments.vary.clone(), done.into_inner().unwrap_or_default());
    let json =
        grid.to_json().map_err(|e| Failure::Check(format!("the results cannot be written as JSON: {e}")))?;
    if let Some(results) = &mut results {
        results.write(&json)?;
    }
    if let Some(report) = &mut report {
        report.write(&page(&grid))?;
    }
    if arguments.elsewhere.common.json {
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
    let cells = format!("{} of {} cells; the same command goes on", grid.cells.len(), all.len());
    match broken.into_inner().unwrap_or_else(PoisonError::into_inner) {
        Some(failure) => Err(Failure::Check(format!("{failure}: {cells}"))),
        None if grid.complete => Ok(()),
        None => Err(Failure::Interrupted(format!("interrupted: {cells}"))),
    }
}

/// What is known of a cell but its load; of the first one, what the cells have in common.
fn environment(plan: &Plan) -> Environment {
    let environment = match &plan.on {
        On::There(there) => there.environment.clone(),
        On::Room(room, setup) => room.described(setup),
    };
    of_frames(environment, &plan.sizes, &plan.load, plan.line_rate_pps)
}
