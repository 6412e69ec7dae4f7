//! `kpps grid`: one trial for each combination of parameters, on all cores.

use crate::error::Failure;
use crate::interrupt;
use crate::live::ProgressObserver;
use crate::output::{Outputs, Resume};
use crate::testbed::Target;
use clap::Args;
use kpps_frames::Mix;
use kpps_measure::grid::{Cells, Job, Measured, Shared, combinations};
use kpps_measure::units::{self, Rate};
use kpps_measure::{Observer, parameter};
use kpps_report::live::{Progress, Source};
use kpps_results::grid::{Axis, Grid, Setting};
use kpps_sim::Choice;
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
    load: Rate,
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

/// What cells offer, and to which machine if it is a simulated one.
#[derive(Clone)]
struct Values {
    choice: Choice,
    sizes: Option<Mix>,
    offered: Rate,
}

impl Values {
    fn set(&mut self, parameter: &str, value: &Setting, is_simulated: bool) -> Result<(), String> {
        match parameter {
            "size" => self.sizes = Some(units::sizes(&value.to_string())?),
            "load" => self.offered = value.to_string().parse()?,
            part if is_simulated => self.choice.change(part, value)?,
            other => return Err(format!("{other} is not of this testbed: load and size are")),
        }
        Ok(())
    }
}

impl Arguments {
    /// The values that all cells have.
    fn values(&self) -> Result<Values, Failure> {
        Ok(Values { choice: self.target.choice()?, sizes: self.size.clone(), offered: self.load })
    }

    /// Refuses values that no cell can have.
    fn check(&self) -> Result<(), Failure> {
        let (all, is_simulated) = (self.values()?, self.target.is_simulated());
        for Axis { parameter, values } in &self.vary {
            for value in values {
                let set = all.clone().set(parameter, value, is_simulated);
                let is_part = is_simulated && !["size", "load"].contains(&parameter.as_str());
                let checked =
                    set.and_then(|()| if is_part { all.choice.check(parameter, value) } else { Ok(()) });
                checked.map_err(|why| Failure::Input(format!("--vary {parameter}={value}: {why}")))?;
            }
        }
        if is_simulated {
            let refuse = |why| Failure::Input(format!("--vary {why}"));
            all.choice.check_constants(&self.vary).map_err(refuse)?;
        }
        Ok(())
    }

    /// How the cell with these values is measured.
    fn job<'j>(
        &self,
        shared: Option<&'j Shared>,
        at: &[usize],
        observer: &'j dyn Observer,
    ) -> Result<Job<'j>, String> {
        let mut values = self.values().map_err(|error| error.to_string())?;
        for (axis, &at) in self.vary.iter().zip(at) {
            axis.values
                .get(at)
                .map_or(Ok(()), |value| values.set(&axis.parameter, value, shared.is_none()))?;
        }
        let Values { choice, sizes, offered } = values;
        let default = self.target.pair.size().unwrap_or(choice.default_size());
        let sizes = sizes.unwrap_or_else(|| Mix::fixed(default));
        let load = self.target.load(&sizes, 0.0, self.duration);
        match shared {
            None => choice.job((sizes, offered, load), &interrupt::goes_on),
            Some(shared) => shared.job((sizes, offered, load), &interrupt::goes_on, observer),
        }
    }

    /// The testbed that all cells share, if it is not the simulator, and what the live view reads of it.
    fn shared(&self) -> Result<(Option<Shared>, Box<dyn Source>), Failure> {
        if self.target.is_simulated() {
            return Ok((None, Box::new(())));
        }
        let opened = self.target.open()?;
        let environment = self.target.described(&opened);
        Ok((Some(Shared::new(opened.testbed, environment)), opened.source))
    }
}

/// Runs `kpps grid`.
pub fn run(mut arguments: Arguments) -> Result<(), Failure> {
    arguments.target.resolve()?;
    let arguments = &arguments;
    let all = combinations(&arguments.vary).map_err(Failure::Input)?;
    kpps_measure::refuse_twice(arguments.vary.iter().map(|axis| axis.parameter.as_str()))?;
    arguments.check()?;
    let quiet = arguments.outputs.for_machines();
    let mut files = arguments.outputs.open("grid")?;
    let (shared, source) = arguments.shared()?;
    let shared = shared.as_ref();
    // A problem that all cells share is reported before anything is measured.
    let mut jobs = all.iter().map(|at| arguments.job(shared, at, &()));
    let first = match jobs.next() {
        Some(Err(problem)) => jobs.find_map(Result::ok).ok_or(problem),
        Some(job) => job,
        None => Err("there are no values".into()),
    };
    let environment = first.map_err(Failure::Input)?.environment;
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
    let problem = grid.cells.iter().find_map(|cell| cell.problem.as_ref()).filter(|_| points == 0);
    match failed {
        None if grid.complete
            && let Some(problem) = problem =>
        {
            Err(Failure::Check(format!("no cell could be measured: {problem}: {cells}")))
        }
        Some(error) => Err(Failure::Check(format!("{error}: {cells}"))),
        None if grid.complete => Ok(()),
        None => Err(Failure::Interrupted(format!("interrupted: {cells}"))),
    }
}
