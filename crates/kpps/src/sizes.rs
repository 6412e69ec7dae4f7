//! `kpps sizes`: what is delivered at each frame size.

use crate::error::Failure;
use crate::interrupt;
use crate::ndr::Goals;
use crate::output::{Forms, PageOutputs};
use crate::search::{Bench, Range};
use crate::testbed::{SIZES, Target, distinct};
use clap::Args;
use kpps_frames::Mix;
use kpps_report::rfc2544::{sizes_page, sizes_screen};
use kpps_report::rows_csv;
use kpps_results::ndr::{Ndr, SearchGoal};
use kpps_results::rfc2544::Sizes;

/// Arguments of `kpps sizes`.
#[derive(Args)]
#[command(after_help = "Examples:
  kpps sizes                                                  in the simulator
  kpps sizes --ports packet:A,packet:B --resume sizes.jsonl   an interrupted run can be resumed
  kpps sizes --ports packet:A,packet:B --size 64,1518 --bidirectional --json

For each size the search of `kpps ndr`: NDR, PDR, and the rate delivered at the highest load (MRR).")]
pub struct Arguments {
    /// Frame sizes in bytes with FCS; on two ports also imix-csit, imix-trex and imix-linux
    #[arg(long, value_name = "SIZE,…", value_delimiter = ',', default_values = SIZES, value_parser = crate::units::sizes)]
    size: Vec<Mix>,
    #[command(flatten)]
    outputs: PageOutputs,
    #[command(flatten)]
    goals: Goals,
    #[command(flatten)]
    range: Range,
    #[command(flatten)]
    target: Target,
}

/// A line of the comma-separated values: a goal at a size.
#[derive(serde::Serialize)]
struct Row {
    size: String,
    #[serde(flatten)]
    goal: SearchGoal,
}

/// Runs `kpps sizes`.
pub fn run(mut arguments: Arguments) -> Result<(), Failure> {
    arguments.target.resolve()?;
    let arguments = &arguments;
    distinct(&arguments.size)?;
    let goals = arguments.goals.both(&arguments.target, &arguments.range);
    let mut files = arguments.outputs.open("sizes")?;
    let quiet = arguments.outputs.for_machines();
    let mut bench = Bench::open("sizes", &arguments.target, &arguments.range, quiet)?;
    interrupt::watch();
    let mut document = Sizes { kpps_version: env!("CARGO_PKG_VERSION").into(), ..Sizes::default() };
    let mut end = Ok(());
    for sizes in &arguments.size {
        let (found, ended) = bench.search(sizes, &goals, &arguments.range)?;
        document.sizes.push(found);
        match ended {
            // A size that meets no goal is a result; the next one may.
            Err(Failure::Check(_)) | Ok(()) if !interrupt::asked() => {}
            stopped => {
                end = stopped;
                break;
            }
        }
    }
    drop(bench);
    let finished = document.sizes.iter().filter(|search| search.complete).count();
    document.complete = finished == arguments.size.len();
    let rows = || {
        let row = |size: &Ndr| -> Vec<Row> {
            let (size, goals) = (size.sizes_name(), size.goals.iter().cloned());
            goals.map(|goal| Row { size: size.clone(), goal }).collect()
        };
        document.sizes.iter().flat_map(row).collect::<Vec<_>>()
    };
    files.publish(
        &document,
        &Forms {
            screen: &|| sizes_screen(&document),
            csv: &|| rows_csv(&rows()),
            page: &|_| sizes_page(&document),
        },
    )?;
    end?;
    let first = document.sizes.iter().find_map(|search| search.trouble.clone());
    match first {
        None => Ok(()),
        Some(why) => {
            Err(Failure::Check(format!("{finished} of {} sizes have a result: {why}", arguments.size.len())))
        }
    }
}
