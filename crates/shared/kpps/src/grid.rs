//! `kpps grid`: one trial for each combination of parameters, on all cores.

use crate::error::Failure;
use crate::heading;
use crate::live::OpenTestbed;
use crate::output::{Outputs, Resume};
use crate::package;
use crate::session::Session;
use crate::testbed::{Chosen, Simulated, Target, TestbedArguments};
use crate::typed::Typed;
use clap::Args;
use kpps_documents::Environment;
use kpps_documents::grid::{Axis, Grid};
use kpps_frames::{Mix, rate};
use kpps_methods::grid::{self, CellResults, Cells, Combinations, Job, Outcome, Shard, Shared};
use kpps_methods::units::{self, RateSpec};
use kpps_methods::{Observer, parameter};
use kpps_rendering::live::{Progress, Source};
use kpps_sim::{Cell, Choice};
use std::time::{Duration, Instant};

/// Arguments of `kpps grid`.
#[derive(Args)]
#[command(after_help = "Examples:
  kpps grid --machine ols2005 --driver intel-5.7.6 --vary driver.weight=1..64*2 --vary load=50%,100%
  kpps grid --vary driver.rx_ring=16..1024*2 --vary host.interrupt_cycles=150,1500,3000
  kpps grid --vary driver=kpps,click-polling --vary size=64,128,256 --vary load=50%,100% --csv -
  kpps grid --ports packet:A,packet:B --vary size=64,imix-csit --vary load=50kpps,100kpps

A parameter is the path of a constant (driver.rx_ring, driver.moderation.rdtr or short driver.rdtr, chip.…,
bus.…, host.…, stack.…, machine.…; `kpps list KIND NAME` shows all), or one of load, size, driver, chip,
machine, app and one-way. On ports, guests and known: testbeds the only parameters are load and size; on ports
a size may be a mix. Values are a list (16,32,64), a range in steps of 1 (1..64) or of another number
(10..100/30), or a range by a factor (16..1024*2).

With --resume FILE an interrupted grid can be continued, and a grid with more values measures only the missing
cells. A cell is reused only if kpps and all profiles are the same, or, on ports, if all known facts about the
ports and the device under test are the same. Before kpps uses kept cells, it measures one of them again.")]
pub struct Arguments {
    /// A parameter and its values. The last --vary is the horizontal axis of maps
    #[arg(long, required = true, value_name = "PARAMETER=VALUES", value_parser = parameter::axis, help_heading = heading::LOAD)]
    vary: Vec<Axis>,
    /// Frame size in bytes with FCS
    #[arg(long, value_name = "SIZE|MIX", value_parser = units::sizes, help_heading = heading::TRAFFIC)]
    size: Option<Mix>,
    /// The offered load [default: 100%]
    #[arg(long, help_heading = heading::LOAD)]
    load: Option<RateSpec>,
    /// How long each trial is measured [default: 1s; in the simulator 50ms of virtual time]
    #[arg(long, value_name = "TIME", value_parser = units::duration, help_heading = heading::TIME)]
    duration: Option<Duration>,
    /// Measure only this share of the cells: 2/8 is the second of eight shares, for one of eight jobs
    #[arg(long, value_name = "NUMBER/OF", help_heading = heading::LOAD)]
    shard: Option<Shard>,
    /// Distribute the cells with an engine: processes, dask, dask://HOST:PORT, ray or slurm. This needs the
    /// Python package of kpps
    #[arg(long, value_name = "ENGINE", help_heading = heading::LOAD)]
    on: Option<String>,
    #[command(flatten)]
    resume: Resume,
    #[command(flatten)]
    outputs: Outputs,
    #[command(flatten)]
    target: TestbedArguments,
}

/// Axes, and outcomes of some of their cells.
pub type Outcomes = (Vec<Axis>, Vec<Outcome>);

/// The common settings of all cells, and their axes.
struct GridPlan {
    axes: Vec<Axis>,
    sizes: Option<Mix>,
    load: RateSpec,
    duration: Option<Duration>,
    target: Target,
}

/// Refuses an option that was typed and whose value an axis replaces in all cells. Parameters that no grid
/// has are refused elsewhere.
fn check_options(arguments: &Typed<Arguments>) -> Result<(), Failure> {
    let axes = arguments.vary.iter().map(|axis| axis.parameter.as_str());
    let set = arguments.target.constants().map(|path| ("--set ", path));
    let parts = arguments.names().filter(|name| kpps_sim::Cell::PARTS.contains(name));
    let typed: Vec<_> = set.chain(parts.map(|name| ("--", name))).collect();
    let mut replaced = axes.filter_map(|axis| typed.iter().find(|(_, name)| *name == axis));
    match replaced.next() {
        Some((option, name)) => Err(Failure::Input(format!(
            "{option}{name} has no effect: --vary {name} gives each cell another value"
        ))),
        None => Ok(()),
    }
}

impl GridPlan {
    /// Refuses an axis whose parameter is in the testbed's name.
    fn check_name(&self) -> Result<(), Failure> {
        let Chosen::Simulator(Simulated { named, .. }) = &self.target.testbed else { return Ok(()) };
        match self.axes.iter().find(|axis| named.contains(&axis.parameter.as_str())) {
            Some(Axis { parameter, .. }) => Err(Failure::Input(format!(
                "the {parameter} in --testbed has no effect: --vary {parameter} gives each cell another value"
            ))),
            None => Ok(()),
        }
    }

    /// The settings that all cells have.
    fn base(&self) -> Result<Cell, Failure> {
        let choice = match &self.target.testbed {
            Chosen::Simulator(simulated) => simulated.with_one_driver()?,
            _ => Choice::default(),
        };
        Ok(Cell { choice, sizes: self.sizes.clone(), offered: self.load })
    }

    /// How the cell at these places of the axes is measured.
    fn job<'j>(
        &self,
        base: &Cell,
        shared: Option<&'j Shared>,
        at: &[usize],
        go_on: &'j dyn Fn() -> bool,
        observer: &'j dyn Observer,
    ) -> Result<Job<'j>, String> {
        let Cell { choice, sizes, offered } = base.at(&self.axes, at, shared.is_none())?;
        let of_machine = Mix::fixed(choice.default_size());
        let sizes = sizes.unwrap_or_else(|| shared.map_or(of_machine, |_| self.target.usual_sizes()));
        let load = self.target.load(rate::Rate::Max, sizes, self.duration);
        match shared {
            None => choice.job((offered, load), go_on),
            Some(shared) => shared.job((offered, load), go_on, observer),
        }
    }

    /// The testbed that all cells share, if it is not the simulator, and its source for the live view.
    fn shared(&self, session: &Session) -> Result<(Option<Shared>, Box<dyn Source>), Failure> {
        if self.target.is_simulated() {
            return Ok((None, Box::new(())));
        }
        let OpenTestbed { testbed, source, environment } = self.target.open(session)?;
        Ok((Some(Shared::new(testbed, environment)), source))
    }
}

impl Arguments {
    /// The plan, and the options that are of this run and not of its cells.
    fn resolve(self) -> Result<(GridPlan, Run), Failure> {
        let Self { vary: axes, size: sizes, load, duration, shard, on: _, resume, outputs, target } = self;
        let load = load.unwrap_or(RateSpec::Percent(100.0));
        let target = target.resolve()?;
        target.refuse_streams("grid")?;
        Ok((GridPlan { axes, sizes, load, duration, target }, Run { shard, resume, outputs }))
    }
}

/// Which cells a run measures, and where their results go.
struct Run {
    shard: Option<Shard>,
    resume: Resume,
    outputs: Outputs,
}

/// Measures some cells of the simulated grid with these arguments, on this thread.
pub fn cells(arguments: Typed<Arguments>, cells: &[usize], session: &Session) -> Result<Outcomes, Failure> {
    let (plan, _) = arguments.options().resolve()?;
    let (base, all) = (plan.base()?, Combinations::of(&plan.axes).map_err(Failure::Input)?);
    let go_on = || session.goes_on();
    let outcomes = grid::outcomes(&all, cells, |at| plan.job(&base, None, at, &go_on, &()));
    Ok((plan.axes, outcomes))
}

/// Runs `kpps grid`.
pub fn run(arguments: Typed<Arguments>, session: &Session) -> Result<(), Failure> {
    if let (Some(engine), None) = (&arguments.on, &session.engine) {
        return Err(Failure::Input(package::hand_over(engine)));
    }
    kpps_methods::refuse_twice(arguments.vary.iter().map(|axis| axis.parameter.as_str()))?;
    check_options(&arguments)?;
    let (plan, Run { shard, resume, outputs }) = arguments.options().resolve()?;
    plan.check_name()?;
    let is_simulated = plan.target.is_simulated();
    if session.engine.is_some() && !is_simulated {
        return Err(Failure::Input("only a grid of the simulator can be distributed: leave out --on".into()));
    }
    let all = Combinations::of(&plan.axes).map_err(Failure::Input)?;
    let base = plan.base()?;
    base.check(&plan.axes, is_simulated).map_err(Failure::Input)?;
    let quiet = outputs.for_machines();
    let mut files = outputs.open(session, "grid")?;
    let (shared, source) = plan.shared(session)?;
    let shared = shared.as_ref();
    let go_on = || session.goes_on();
    // A problem that all cells share is reported before anything is measured.
    let environment = all.environment(|at| plan.job(&base, shared, at, &go_on, &()));
    let environment = environment.map_err(Failure::Input)?;
    // In the simulator only: the other constants of a cell are values of the axes.
    let environment = match is_simulated {
        true => Environment { system: base.choice.system(), ..environment },
        false => environment,
    };
    let journal = resume.trials(session, is_simulated)?;
    let wanted = shard.map_or_else(|| all.numbers().collect(), |shard| shard.of(all.numbers()));

    session.watch();
    let progress = Progress::of(format!("kpps grid: {}", environment.machine_name()));
    let view = plan.target.live.view(session, progress.clone(), source, quiet)?;
    let (began, count) = (Instant::now(), wanted.len());
    let job = |at: &[usize]| plan.job(&base, None, at, &go_on, &progress);
    let cells = Cells::new(&all, wanted, journal, shared.is_some(), &go_on, &progress);
    let measured = match (shared, &session.engine) {
        (Some(_), _) => cells.one_by_one(|at| plan.job(&base, shared, at, &go_on, &progress)),
        (None, Some(engine)) => cells.on_engine(&**engine, job),
        (None, None) => cells.on_all_cores(job),
    };
    drop(view);
    let CellResults { cells, measured, failed } = measured;
    let grid = Grid::new(environment, plan.axes.clone(), cells);
    let points = grid.cells.iter().filter(|cell| cell.point.is_some()).count();
    let found = points.checked_sub(measured).filter(|&found| found > 0);
    let found = found.map_or_else(String::new, |found| format!(", {found} resumed"));
    let took = began.elapsed().as_secs_f64();
    files.publish(&grid, &format!("{measured} cells measured in {took:.1} s{found}\n"))?;
    let done = grid.cells.len();
    let cells = format!("{done} of {count} cells{}{}", files.kept(), resume.kept());
    let problem =
        grid.cells.iter().find_map(|cell| cell.problem.as_ref()).filter(|_| points == 0 && done == count);
    let failed = failed
        .map(|error| error.to_string())
        .or_else(|| Some(format!("no cell could be measured: {}", problem?)));
    match failed {
        Some(error) => Err(Failure::Failed(format!("{error}: {cells}"))),
        None if done == count => Ok(()),
        None => Err(Failure::Interrupted(format!("interrupted: {cells}"))),
    }
}
