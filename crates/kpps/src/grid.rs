//! `kpps grid`: one trial for each combination of parameters, on all cores.

use crate::error::Failure;
use crate::interrupt;
use crate::live::ProgressObserver;
use crate::output::{Outputs, Resume};
use crate::testbed::Target;
use clap::Args;
use kpps_frames::Mix;
use kpps_measure::grid::{Cells, Job, Measured, Plan, combinations};
use kpps_measure::{Observer, Points, TrialError, in_words, parameter, units};
use kpps_report::live::{Progress, Source};
use kpps_results::grid::{Axis, Grid};
use kpps_results::{Environment, Trial};
use kpps_sim::{Choice, Setup, choice};
use std::cell::RefCell;
use std::time::{Duration, Instant};

/// Arguments of `kpps grid`.
#[derive(Args)]
#[command(after_help = "Examples:
  kpps grid --driver intel-5.7.6 --vary driver.weight=1..64*2 --vary load=10%..100%/10%
  kpps grid --vary driver.rx_ring=16..1024*2 --vary host.interrupt_ps=1000000,5000000,9000000
  kpps grid --vary driver=kpps,click-polling --vary size=64,128,256 --vary load=50%,100% --csv -
  kpps grid --ports packet:A,packet:B --vary size=64,imix-csit --vary load=50kpps,100kpps

A parameter is a constant by its path (`kpps list KIND NAME` shows them: driver.rx_ring,
driver.moderation.rdtr or short driver.rdtr, chip.…, bus.…, host.…, stack.…, machine.…), or one of load,
size, driver, chip, machine, app. On ports, guests and known: testbeds the parameters are load and size,
mixes of sizes among them. Values: 16,32,64; 1..64 in steps of 1; 10..100/30 in steps of 30; 16..1024*2 by a
factor of 2.

With --resume FILE an interrupted grid can be continued, and a grid with more values measures only those
that are missing. A cell is reused only if kpps and all profiles are the same; on ports, if all that is known
of the ports and the device under test is. One kept cell is measured again before the others are used.")]
pub struct Arguments {
    /// A parameter and its values; the last one given is the horizontal axis of maps
    #[arg(long, required = true, value_name = "PARAMETER=VALUES", value_parser = parameter::axis)]
    vary: Vec<Axis>,
    /// Frame size in bytes with FCS
    #[arg(long, value_name = "SIZE|MIX", value_parser = units::sizes)]
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
    outputs: Outputs,
    #[command(flatten)]
    target: Target,
}

/// A testbed that all cells share.
struct Shared {
    points: RefCell<Points>,
    environment: Environment,
}

/// What a cell is measured on.
enum On<'t> {
    /// A simulated machine of its own.
    Simulator(Choice, Box<Setup>),
    /// A testbed that all cells share.
    Shared(&'t Shared),
}

impl Arguments {
    /// What the cell with these values offers, and to what.
    fn plan<'t>(&self, shared: Option<&'t Shared>, at: &[usize]) -> Result<(Plan, On<'t>), String> {
        let mut choice = self.target.choice().map_err(|e| e.to_string())?;
        let (mut sizes, mut offered) = (self.size.clone(), self.load);
        for (axis, value) in
            self.vary.iter().zip(at).filter_map(|(axis, &at)| Some((axis, axis.values.get(at)?)))
        {
            match (&*axis.parameter, shared) {
                ("size", _) => sizes = Some(units::sizes(&value.to_string())?),
                ("load", _) => offered = value.to_string().parse()?,
                (other, Some(_)) => return Err(format!("{other} is not of this testbed: load and size are")),
                (part, None) => choice.change(part, value)?,
            }
        }
        let default = self.target.pair.size().unwrap_or(choice.default_size());
        let sizes = sizes.unwrap_or_else(|| Mix::fixed(default));
        let (on, line_pps, environment) = match shared {
            None => {
                let size = sizes.only();
                let size = size.ok_or_else(|| format!("{sizes}: mixes are for two ports (--ports)"))?;
                let setup = choice.setup().map_err(|error| error.to_string())?;
                let environment = choice.environment(std::slice::from_ref(&setup));
                let line_pps = choice.line_rate_pps(size);
                (On::Simulator(choice, Box::new(setup)), line_pps, environment)
            }
            Some(shared) => {
                let line_pps = shared.points.borrow_mut().line_rate_pps(&sizes);
                let line_pps = line_pps.map_err(|error| error.to_string())?;
                (On::Shared(shared), line_pps, shared.environment.clone())
            }
        };
        let load = self.target.load(&sizes, line_pps, self.duration);
        Ok((Plan::new(sizes, offered, line_pps, load, environment), on))
    }

    /// The testbed that all cells share, if it is not the simulator, and what the live view reads of it.
    fn shared(&self) -> Result<(Option<Shared>, Box<dyn Source>), Failure> {
        if self.target.is_simulated() {
            return Ok((None, Box::new(())));
        }
        let opened = self.target.open()?;
        let environment = self.target.described(&opened);
        let points = RefCell::new(Points::new(opened.testbed));
        Ok((Some(Shared { points, environment }), opened.source))
    }

    /// How the cell with these values is measured.
    fn job<'t>(
        &self,
        shared: Option<&'t Shared>,
        at: &[usize],
        observer: &'t dyn Observer,
    ) -> Result<Job<'t>, String> {
        let (plan, on) = self.plan(shared, at)?;
        let set = if let On::Simulator(choice, _) = &on { choice::words(&choice.set) } else { Vec::new() };
        Ok(Job { key: plan.key(&set), measure: Box::new(move || measure(&plan, &on, observer)) })
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
    let (shared, source) = arguments.shared()?;
    let shared = shared.as_ref();
    // A problem that all cells share is reported before anything is measured.
    let mut plans = all.iter().map(|at| arguments.plan(shared, at));
    let first = match plans.next() {
        Some(Err(problem)) => plans.find_map(Result::ok).ok_or(problem),
        Some(plan) => plan,
        None => Err("there are no values".into()),
    };
    let environment = first.map_err(Failure::Input)?.0.environment;
    let resume = arguments.resume.trials(arguments.target.is_simulated())?;

    interrupt::watch();
    let progress = Progress::of(format!("kpps grid: {}", environment.machine));
    let view = arguments.target.options.live.view(progress.clone(), source, quiet)?;
    let began = Instant::now();
    let observer = ProgressObserver(progress);
    let cells = Cells::new(&all, resume, shared.is_some(), &interrupt::goes_on, &observer);
    let measured = match shared {
        Some(_) => cells.one_by_one(|at| arguments.job(shared, at, &observer)),
        None => cells.on_all_cores(|at| arguments.job(None, at, &observer)),
    };
    drop(view);
    let Measured { cells, measured, failed } = measured;
    let grid = Grid::new(environment, arguments.vary.clone(), cells);
    let points = grid.cells.iter().filter(|cell| cell.point.is_some()).count();
    let found = points.saturating_sub(measured);
    let found = if found > 0 { format!(", {found} resumed") } else { String::new() };
    let took = began.elapsed().as_secs_f64();
    files.publish(&grid, &format!("{measured} cells measured in {took:.1} s{found}\n"))?;
    let cells =
        format!("{} of {} cells{}{}", grid.cells.len(), all.len(), files.kept(), arguments.resume.kept());
    match failed {
        Some(error) => Err(Failure::Check(format!("{error}: {cells}"))),
        None if grid.complete => Ok(()),
        None => Err(Failure::Interrupted(format!("interrupted: {cells}"))),
    }
}

/// Offers a cell its load.
fn measure(plan: &Plan, on: &On<'_>, observer: &dyn Observer) -> Result<Trial, TrialError> {
    let Plan { sizes, load, .. } = plan;
    match on {
        On::Simulator(choice, setup) => {
            Points::new(choice.testbed(Setup::clone(setup))).measure(sizes, load, &interrupt::goes_on)
        }
        On::Shared(shared) => {
            let seconds = f64::from(load.duration_ms) / 1e3;
            observer.begins(&in_words(sizes, Some(load.offered_pps), seconds), Some(load.offered_pps));
            shared.points.borrow_mut().measure(sizes, load, &interrupt::goes_on)
        }
    }
}
