//! `kpps grid`: one trial for each combination of parameters, on all cores.

pub(crate) mod range;

use crate::error::Failure;
use crate::interrupt;
use crate::journal::Resume;
use crate::live;
use crate::output::{Forms, PageOutputs};
use crate::points::{Points, of_frames};
use crate::search;
use crate::simulator::OnTop;
use crate::testbed::Target;
use crate::units;
use clap::Args;
use kpps_frames::{Mix, Size};
use kpps_live::{Progress, Source};
use kpps_measure::{Load, TrialError};
use kpps_profiles::Change;
use kpps_report::grid::{csv, page, screen};
use kpps_results::grid::{Axis, Cell, Grid, Setting};
use kpps_results::{Environment, Point};
use kpps_sim::Setup;
use std::cell::RefCell;
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
  kpps grid --vary driver=kpps,click-polling --vary size=64,128,256 --vary load=50%,100% --csv -
  kpps grid --ports packet:A,packet:B --vary size=64,512,imix-csit --vary load=50kpps..500kpps/50kpps --resume grid.jsonl

A parameter is a constant by its path (`kpps list KIND NAME` shows them: driver.rx_ring, driver.moderation.rdtr or short
driver.rdtr, chip.…, bus.…, host.…, stack.…, machine.…), or one of load, size, driver, chip, machine, app. On ports, guests and
known: testbeds the parameters are load and size, mixes of sizes among them.
Values: 16,32,64; 1..64 in steps of 1; 10..100/30 in steps of 30; 16..1024*2 by a factor of 2.

With --resume FILE an interrupted grid can be continued, and a grid with more values measures only those that are missing. A cell is
reused only if kpps and all profiles are the same; on ports, if the kernel, the drivers and their settings are.")]
pub struct Arguments {
    /// A parameter and its values; the last one given is the horizontal axis of maps
    #[arg(long, required = true, value_name = "PARAMETER=VALUES", value_parser = range::axis)]
    vary: Vec<Axis>,
    /// Frame size in bytes with FCS; on two ports also a mix [default: 64; with --app vlan-route: 68]
    #[arg(long, value_name = "SIZE|MIX", value_parser = units::any_sizes)]
    size: Option<Mix>,
    /// The offered load
    #[arg(long, default_value = "100%")]
    load: units::Rate,
    /// How long each trial is measured [default: 1s; in the simulator 50ms of virtual time]
    #[arg(long, value_name = "TIME", value_parser = units::duration)]
    duration: Option<Duration>,
    #[command(flatten)]
    resume: Resume,
    #[command(flatten)]
    outputs: PageOutputs,
    #[command(flatten)]
    target: Target,
}

/// A testbed on which cells are measured one after the other.
struct There {
    points: RefCell<Points>,
    environment: Environment,
}

/// What a cell is measured on.
enum On<'t> {
    /// A simulated machine of its own.
    Simulator(OnTop, Box<Setup>),
    /// A testbed that all cells share.
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
            (self.target.machine.clone(), self.target.chip.clone(), self.driver()?.to_owned());
        let (mut top, mut sizes, mut offered, mut changes) =
            (self.target.top, self.size.clone(), self.load, Vec::new());
        let own = self.target.constants.set.iter().map(|(path, value)| (path.as_str(), value));
        for (parameter, value) in own.chain(values.iter().copied()) {
            let text = value.to_string();
            match (parameter, there) {
                ("size", _) => sizes = Some(units::any_sizes(&text)?),
                ("load", _) => offered = text.parse()?,
                (other, Some(_)) => return Err(format!("{other} is not of this testbed: load and size are")),
                ("app", _) => top.app = Some(text.parse()?),
                ("machine", _) => machine = Some(text),
                ("chip", _) => chip = Some(text),
                ("driver", _) => driver = text,
                (path, _) => changes.push(Change::set(path, range::value(value))?),
            }
        }
        let sizes = sizes.unwrap_or_else(|| Mix::fixed(top.size(None)));
        let (on, line_rate_pps) = match there {
            None => {
                let size = sizes.only();
                let size = size.ok_or_else(|| format!("{sizes}: mixes are for two ports (--ports)"))?;
                let machine = top.machine(machine.as_deref());
                let setup = Setup::changed(machine, chip.as_deref(), &driver, &changes);
                let setup = setup.map_err(|error| error.to_string())?;
                (On::Simulator(top, Box::new(setup)), top.line_rate_pps(size))
            }
            Some(there) => {
                let line_pps = there.points.borrow_mut().line_rate_pps(&units::fits(sizes.clone())?);
                (On::There(there), line_pps.map_err(|error| error.to_string())?)
            }
        };
        let duration = self.duration.unwrap_or(self.target.trial_time());
        let load = Load {
            offered_pps: offered.pps(line_rate_pps, sizes.mean_bytes_with_fcs()),
            size: sizes.only().unwrap_or(Size::MIN),
            warmup_ms: self.target.warmup_ms(),
            duration_ms: u32::try_from(duration.as_millis()).unwrap_or(u32::MAX),
            seed: self.target.seed,
        };
        Ok(Plan { sizes, load, line_rate_pps, on })
    }

    fn driver(&self) -> Result<&str, String> {
        self.target.one_driver().map_err(|e| e.to_string())
    }

    /// The testbed that all cells share, if it is not the simulator, and what the live view reads of it.
    fn there(&self) -> Result<(Option<There>, Box<dyn Source>), Failure> {
        if self.target.is_simulated() {
            return Ok((None, Box::new(())));
        }
        let opened = self.target.open()?;
        let environment = self.target.described(&opened);
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
        let On::Simulator(_, setup) = &plan.on else {
            return format!("{} {load}", serde_json::to_string(&environment(plan)).unwrap_or_default());
        };
        let mut settings = self.target.constants.words();
        settings.extend(values.iter().map(|(path, value)| format!("{path}={value}")));
        settings.extend(self.target.top.app.map(|app| format!("app={app}")));
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
        On::Simulator(top, setup) => Points::new(top.testbed(*setup), false).measure(&sizes, &load),
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
    arguments.target.resolve()?;
    let arguments = &arguments;
    let lengths: Vec<usize> = arguments.vary.iter().map(|axis| axis.values.len()).collect();
    let count = lengths.iter().try_fold(1_usize, |product, &length| product.checked_mul(length));
    if count.is_none_or(|count| count > MOST) {
        return Err(Failure::Input(format!("that is more than {MOST} cells")));
    }
    crate::error::refuse_twice(arguments.vary.iter().map(|axis| axis.parameter.as_str()))?;
    let all = combinations(&lengths);
    let quiet = arguments.outputs.for_machines();
    let mut files = arguments.outputs.open("grid")?;
    let (there, source) = arguments.there()?;
    let there = there.as_ref();
    // A problem that all cells share is reported before anything is measured.
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
    let kept = Mutex::new(arguments.resume.open()?);

    interrupt::watch();
    let progress = Progress::of(format!("kpps grid: {}", environment.machine));
    progress.wants(all.len());
    let view = arguments.target.options.live.view(progress.clone(), source, quiet)?;
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
                if let Some(point) = kept.lock().ok().and_then(|kept| kept.as_ref()?.of(&key).last().cloned())
                {
                    return Ok(Some(point));
                }
                match measure(plan, &progress) {
                    Ok(point) => {
                        measured.fetch_add(1, Ordering::Relaxed);
                        if let Ok(mut kept) = kept.lock()
                            && let Some(kept) = kept.as_mut()
                            && let Err(failure) = kept.keep(&key, &point)
                        {
                            breaks(failure);
                        }
                        Ok(Some(point))
                    }
                    Err(TrialError::Interrupted) => Ok(None),
                    // A testbed that has failed would fail for every other cell, too.
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
    let measured = measured.into_inner();
    let found = grid.cells.iter().filter(|cell| cell.point.is_some()).count() - measured;
    let found = if found > 0 { format!(", {found} resumed") } else { String::new() };
    files.publish(
        &grid,
        &Forms {
            screen: &|| {
                let took = began.elapsed().as_secs_f64();
                format!("{}\n{measured} cells measured in {took:.1} s{found}\n", screen(&grid))
            },
            csv: &|| csv(&grid),
            page: &|_| page(&grid),
        },
    )?;
    let cells =
        format!("{} of {} cells{}{}", grid.cells.len(), all.len(), files.kept(), arguments.resume.kept());
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
        On::Simulator(top, setup) => top.described(setup),
    };
    of_frames(environment, &plan.sizes, &plan.load, plan.line_rate_pps)
}
