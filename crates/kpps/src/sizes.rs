//! `kpps sizes`: what is delivered at each frame size.

use crate::error::{Failure, print};
use crate::interrupt;
use crate::ndr::Goals;
use crate::output::Output;
use crate::search::{Bench, Range};
use crate::testbed::{SIZES, Target, distinct};
use clap::Args;
use kpps_frames::Mix;
use kpps_report::rfc2544::{Sizes, sizes_page};
use std::path::PathBuf;

/// Arguments of `kpps sizes`.
#[derive(Args)]
#[command(after_help = "Examples:
  kpps sizes                                                  in the machine room
  kpps sizes --testbed packet:A,packet:B --trials sizes.jsonl goes on there if it is interrupted
  kpps sizes --testbed packet:A,packet:B --size 64,1518 --both --json

For each size the search of `kpps ndr`: NDR, PDR, and what is delivered at the highest load (MRR).")]
pub struct Arguments {
    /// Frame sizes in bytes with FCS: those of RFC 2544, if no others are given; between two ports imix-csit, imix-trex and
    /// imix-linux, too
    #[arg(long, value_delimiter = ',', default_values = SIZES, value_parser = crate::traffic::sizes)]
    size: Vec<Mix>,
    /// Write a page to look at, too
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
    #[command(flatten)]
    goals: Goals,
    #[command(flatten)]
    range: Range,
    #[command(flatten)]
    target: Target,
}

/// Runs `kpps sizes`.
pub fn run(mut arguments: Arguments) -> Result<(), Failure> {
    arguments.target.resolve()?;
    let arguments = &arguments;
    distinct(&arguments.size)?;
    let goals = arguments.goals.both(&arguments.target, &arguments.range);
    let mut report = arguments.report.as_deref().map(Output::open).transpose()?;
    let mut bench = Bench::open("sizes", &arguments.target, &arguments.range)?;
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
    if let Some(report) = &mut report {
        report.write(&sizes_page(&document))?;
    }
    if arguments.target.elsewhere.common.json {
        let json = document.to_json().map_err(|e| Failure::Check(format!("no JSON of the results: {e}")))?;
        print(&json)?;
    } else {
        print(&document.screen())?;
    }
    end?;
    let first = document.sizes.iter().find_map(|search| search.trouble.clone());
    match first {
        None => Ok(()),
        Some(why) => {
            Err(Failure::Check(format!("{finished} of {} sizes have a result: {why}", arguments.size.len())))
        }
    }
}
