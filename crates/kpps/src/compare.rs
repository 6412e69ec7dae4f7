//! `kpps compare`: whether results differ, by a statistical test.

use crate::error::Failure;
use crate::output::Outputs;
use clap::Args;
use kpps_measure::compare::{Criteria, Results, compare};
use kpps_measure::units;
use kpps_report::Session;

/// Arguments of `kpps compare`.
#[derive(Args)]
#[command(after_help = kpps_report::examples::COMPARE)]
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
