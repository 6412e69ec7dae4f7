//! `kpps compare`: whether results differ, by a statistical test.

use crate::error::Failure;
use crate::output::Outputs;
use crate::session::Session;
use clap::Args;
use kpps_methods::compare::{Criteria, Results, compare};
use kpps_methods::units;

/// Arguments of `kpps compare`.
#[derive(Args)]
#[command(after_help = "Examples:
  for i in 1 2 3 4 5 6 7 8; do                 take turns, because a system drifts
      kpps trial --ports packet:a,packet:b --load 200kpps --json >> before.json
      kpps trial --ports packet:a,packet:c --load 200kpps --json >> after.json
  done
  kpps compare before.json after.json --threshold 2%   exit code 1 if something is worse by more

Each side is a file, several files with commas between them, or a folder of .json files. A file may hold
several documents, one after the other. kpps compares trials, curves, grids, searches (ndr, sizes) and rows
of the lab that have the same sizes, loads and durations on all sides. If each side has measured one system
only, their names may differ.

Quantities: delivered frames per second, latency (p50 and p99), CPU time per delivered frame (without idle
polls), NDR, PDR and MRR. The test is the exact rank-sum test (Wilcoxon, Mann and Whitney) with Holm's
correction for all comparisons made: the more quantities are compared, the more repetitions it takes. A
single value never decides, except for counts of `kpps lab --clock instructions`, which repeat within 2 %.")]
pub struct Arguments {
    /// The results to compare: the first side is the reference
    #[arg(required = true, num_args = 2.., value_name = "RESULTS")]
    sides: Vec<String>,
    /// Ignore a change of at most this share of the first side's median [default: 0]
    #[arg(long, value_name = "SHARE", value_parser = units::share)]
    threshold: Option<f64>,
    /// Significance level: the probability of finding any difference although there is none
    #[arg(long, value_name = "SHARE", default_value = "5%", value_parser = units::share)]
    significance: f64,
    /// Compare only quantities whose name contains this: fewer comparisons need fewer repetitions
    #[arg(long, value_delimiter = ',', value_name = "NAME,…")]
    quantity: Vec<String>,
    #[command(flatten)]
    outputs: Outputs,
}

/// Runs `kpps compare`.
pub fn run(arguments: &Arguments, session: &Session) -> Result<(), Failure> {
    let sides: Result<Vec<_>, _> = arguments.sides.iter().map(|side| Results::read(side)).collect();
    let criteria = Criteria {
        threshold: arguments.threshold.unwrap_or(0.0),
        significance: arguments.significance,
        quantities: arguments.quantity.clone(),
    };
    let comparison = sides.and_then(|sides| compare(&sides, &criteria)).map_err(Failure::Input)?;
    arguments.outputs.open(session, "compare")?.publish(&comparison, "")?;
    match comparison.regressions() {
        0 => Ok(()),
        count => Err(Failure::Check(format!("{count} of {} quantities are worse", comparison.rows.len()))),
    }
}
