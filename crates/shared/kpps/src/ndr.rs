//! `kpps ndr`: the highest load without loss (NDR), and with little loss (PDR).

use crate::error::Failure;
use crate::heading;
use crate::output::{BoundArguments, Outputs};
use crate::search::SearchArguments;
use crate::session::Session;
use crate::testbed::{Target, TestbedArguments};
use clap::Args;
use kpps_frames::Mix;
use kpps_methods::ndr::{bisect, search};
use kpps_methods::search::Goal;
use kpps_methods::units;
use std::time::Duration;

/// Arguments of `kpps ndr`.
#[derive(Args)]
#[command(after_help = "Examples:
  kpps ndr --ports packet:A,packet:B --resume a-b.jsonl       an interrupted search can be resumed
  kpps ndr --driver intel-2.5.11-tuned                        in the simulator
  kpps ndr --testbed known:700kpps --noise --bisection        a known rate, with noise

NDR is the highest load without loss, PDR the highest load with at most 0.5 % loss. kpps judges a load by
several trials, which together take up to 21 times --duration. Trials of at least half of that time must agree,
so one disturbed second does not decide (MLRsearch, RFC 9971). On ports and in guests the last trial takes 11
times --duration, because the bucket of a traffic shaper hides the loss in short trials. If the tester itself
could not send or receive all frames of a trial, the trial does not count, and the search continues below that
load. A load is that of one direction; with --app, the sum of both directions. --min-rate bounds the NDR,
--max-loss and --max-p99 the trials at the NDR.")]
pub struct Arguments {
    /// Frame size in bytes with FCS
    #[arg(long, value_name = "SIZE|MIX", value_parser = units::sizes, help_heading = heading::TRAFFIC)]
    size: Option<Mix>,
    /// Also search by plain bisection, for comparison
    #[arg(long, help_heading = heading::SEARCH)]
    bisection: bool,
    #[command(flatten)]
    outputs: Outputs,
    #[command(flatten)]
    bounds: BoundArguments,
    #[command(flatten)]
    goals: Goals,
    #[command(flatten)]
    search: SearchArguments,
    #[command(flatten)]
    target: TestbedArguments,
}

/// The goals of the search.
#[derive(Args)]
pub struct Goals {
    /// Length of one trial [default: 1s; in the simulator 50ms of virtual time]
    #[arg(long, value_name = "TIME", value_parser = units::duration, help_heading = heading::TIME)]
    duration: Option<Duration>,
    /// Loss ratio of the PDR
    #[arg(long, value_name = "SHARE", default_value = "0.5%", value_parser = units::share, help_heading = heading::SEARCH)]
    pdr_loss: f64,
}

impl Goals {
    /// NDR and PDR.
    pub fn both(&self, target: &Target, search: &SearchArguments) -> [(&'static str, Goal); 2] {
        search.range().goals(self.duration.unwrap_or(target.trial_time()), self.pdr_loss)
    }
}

/// Runs `kpps ndr`.
pub fn run(arguments: Arguments, session: &Session) -> Result<(), Failure> {
    let Arguments { size, bisection, outputs, bounds, goals, search: range, target } = arguments;
    let target = target.resolve()?;
    target.refuse_probes()?;
    let goals = goals.both(&target, &range);
    let sizes = target.sizes(size.as_ref())?;
    let mut files = outputs.open(session, "ndr")?;
    let (document, end) = range.run(session, "ndr", &target, None, outputs.for_machines(), |runner| {
        let (mut document, mut end) = search(runner, &sizes, &goals, &range.range())?;
        if end.is_ok() && bisection {
            end = bisect(runner, &sizes, &goals[0].1, range.range().max_time, &mut document);
        }
        Ok((document, end))
    })?;
    files.publish(&document, "")?;
    end.map_err(|error| range.ended(error, &format!("{} trials measured", document.trials.len())))?;
    Ok(bounds.get().search(&document)?)
}
