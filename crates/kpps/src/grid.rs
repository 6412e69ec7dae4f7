//! `kpps grid`: one trial for each combination of parameters, on all cores.

use crate::error::Failure;
use crate::interrupt;
use crate::live::Watched;
use crate::output::Resume;
use crate::output::{Forms, PageOutputs};
use crate::simulator::{OnTop, constant};
use crate::testbed::Target;
use clap::Args;
use kpps_frames::{Mix, Size};
use kpps_measure::grid::{Cells, Job, Measured, combinations};
use kpps_measure::parameter;
use kpps_measure::units;
use kpps_measure::{Load, Observer, Points, TrialError, in_words, of_frames};
use kpps_profiles::Change;
use kpps_report::grid::{csv, page, screen};
use kpps_report::live::{Progress, Source};
use kpps_results::grid::{Axis, Grid, Setting};
use kpps_results::{Environment, Trial};
use kpps_sim::Setup;
use std::cell::RefCell;
use std::time::{Duration, Instant};

/// Arguments of `kpps grid`.
#[derive(Args)]
#[command(after_help = "Examples:
  kpps grid --driver intel-5.7.6 --vary driver.weight=1..64*2 --vary load=10%..100%/10%
  kpps grid --vary driver.rx_ring=16..1024*2 --vary host.interrupt_ps=1000000..9000000/2000000 --load 100%
  kpps grid --vary driver=kpps,click-polling --vary size=64,128,256 --vary load=50%,100% --csv -
  kpps grid --ports packet:A,packet:B --vary size=64,512,imix-csit --vary load=50kpps..500kpps/50kpps --resume grid.jsonl

A parameter is a constant by its path (`kpps list KIND NAME` shows them: driver.rx_ring,
driver.moderation.rdtr or short driver.rdtr, chip.…, bus.…, host.…, stack.…, machine.…), or one of load,
size, driver, chip, machine, app. On ports, guests and known: testbeds the parameters are load and size,
mixes of sizes among them. Values: 16,32,64; 1..64 in steps of 1; 10..100/30 in steps of 30; 16..1024*2 by a
factor of 2.

With --resume FILE an interrupted grid can be continued, and a grid with more values measures only those
that are missing. A cell is reused only if kpps and all profiles are the same; on ports, if the kernel, the
drivers and their settings are.")]
pub struct Arguments {
    /// A parameter and its values; the last one given is the horizontal axis of maps
    #[arg(long, required = true, value_name = "PARAMETER=VALUES", value_parser = parameter::axis)]
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
                (path, _) => changes.push(Change::set(path, constant(value))?),
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

    /// How the cell at these values is measured.
    fn job<'t>(
        &self,
        there: Option<&'t There>,
        at: &[usize],
        observer: &'t dyn Observer,
    ) -> Result<Job<'t>, String> {
        let values = self.values(at);
        let plan = self.plan(there, &values)?;
        let key = self.key(&plan, &values);
        Ok(Job { key, measure: Box::new(move || measure(plan, observer)) })
    }

    /// Everything that a cell's result depends on: its name in the journal.
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

/// Runs `kpps grid`.
pub fn run(mut arguments: Arguments) -> Result<(), Failure> {
    arguments.target.resolve()?;
    let arguments = &arguments;
    let all = combinations(&arguments.vary).map_err(Failure::Input)?;
    crate::error::refuse_twice(arguments.vary.iter().map(|axis| axis.parameter.as_str()))?;
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
    let journal = arguments.resume.open()?;

    interrupt::watch();
    let progress = Progress::of(format!("kpps grid: {}", environment.machine));
    let view = arguments.target.options.live.view(progress.clone(), source, quiet)?;
    let began = Instant::now();
    let observer = Watched(progress);
    let cells = Cells::new(&all, journal, there.is_some(), &interrupt::goes_on, &observer);
    let measured = match there {
        Some(_) => cells.one_by_one(|at| arguments.job(there, at, &observer)),
        None => cells.on_all_cores(|at| arguments.job(None, at, &observer)),
    };
    drop(view);
    let Measured { cells, measured, failed } = measured;
    let grid = Grid::new(environment, arguments.vary.clone(), cells);
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
    match failed {
        Some(error) => Err(Failure::Check(format!("{error}: {cells}"))),
        None if grid.complete => Ok(()),
        None => Err(Failure::Interrupted(format!("interrupted: {cells}"))),
    }
}

/// Offers a cell its load.
fn measure(plan: Plan, observer: &dyn Observer) -> Result<Trial, TrialError> {
    let Plan { sizes, load, on, .. } = plan;
    match on {
        On::Simulator(top, setup) => {
            Points::new(top.testbed(*setup), false).measure(&sizes, &load, &interrupt::goes_on)
        }
        On::There(there) => {
            let seconds = f64::from(load.duration_ms) / 1e3;
            observer.begins(&in_words(&sizes, Some(load.offered_pps), seconds), Some(load.offered_pps));
            there.points.borrow_mut().measure(&sizes, &load, &interrupt::goes_on)
        }
    }
}

/// The environment of a cell; of the first one, what all cells have in common.
fn environment(plan: &Plan) -> Environment {
    let environment = match &plan.on {
        On::There(there) => there.environment.clone(),
        On::Simulator(top, setup) => top.described(setup),
    };
    of_frames(environment, &plan.sizes, &plan.load, plan.line_rate_pps)
}
