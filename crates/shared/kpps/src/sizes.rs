//! `kpps sizes`: NDR and PDR at each of several frame sizes.

use crate::error::Failure;
use crate::heading;
use crate::ndr::Goals;
use crate::output::Outputs;
use crate::search::SearchArguments;
use crate::session::Session;
use crate::testbed::{SIZES, TestbedArguments};
use clap::Args;
use kpps_frames::Mix;
use kpps_methods::ndr::sizes;

/// Arguments of `kpps sizes`.
#[derive(Args)]
#[command(after_help = "Examples:
  kpps sizes                                                  in the simulator
  kpps sizes --ports packet:A,packet:B --resume sizes.jsonl   an interrupted run can be resumed
  kpps sizes --ports packet:A,packet:B --size 64,1518 --bidirectional --json

kpps runs the search of `kpps ndr` for each size. The results are NDR, PDR, and the rate delivered at the highest
load (MRR).")]
pub struct Arguments {
    /// Frame sizes in bytes with FCS
    #[arg(long, value_name = "SIZE|MIX,…", value_delimiter = ',', default_value = SIZES, value_parser = kpps_methods::units::sizes, help_heading = heading::TRAFFIC)]
    size: Vec<Mix>,
    #[command(flatten)]
    outputs: Outputs,
    #[command(flatten)]
    goals: Goals,
    #[command(flatten)]
    search: SearchArguments,
    #[command(flatten)]
    target: TestbedArguments,
}

/// Runs `kpps sizes`.
pub fn run(arguments: Arguments, session: &Session) -> Result<(), Failure> {
    let Arguments { size, outputs, goals, search, target } = arguments;
    let target = target.resolve()?;
    target.refuse_streams("sizes")?;
    kpps_methods::refuse_twice(size.iter().map(Mix::name))?;
    let goals = goals.both(&target, &search);
    let mut files = outputs.open(session, "sizes")?;
    let (document, end) = search.run(session, "sizes", &target, None, outputs.for_machines(), |runner| {
        sizes(runner, &size, &goals, &search.range())
    })?;
    files.publish(&document, "")?;
    let trials: usize = document.sizes.iter().map(|found| found.trials.len()).sum();
    end.map_err(|error| search.ended(error, &format!("{trials} trials measured")))
}
