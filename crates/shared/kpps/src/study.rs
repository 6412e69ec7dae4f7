//! `kpps study`: the claims of papers, checked in the simulator.

use crate::error::Failure;
use crate::output::{Outputs, Resume};
use crate::session::Session;
use crate::simulator::{Constants, ErrorBars};
use clap::Args;
use kpps_methods::units;
use kpps_rendering::live::Progress;
use kpps_study::{Context, bad, choose, cross_validate, document, drawn, fit, judged, measure_or_find};
use kpps_study::{add_error_bars, pages, perturb, wanted};

/// Arguments of `kpps study`.
#[derive(Args)]
#[command(mut_arg("set", |set| set.conflicts_with_all(["perturb", "drawn", "fit", "cross_validate"])),
mut_arg("draws", |draws| draws.conflicts_with_all(["perturb", "drawn", "fit", "cross_validate"])), after_help = "Examples:
  kpps study                              all claims of all papers
  kpps study beyond                       kpps' driver on machines drawn at random
  kpps study --report pages               a page of each, and one of all: studies.html
  kpps study --perturb 10%                which verdicts change when fitted constants change
  kpps study morris2000 --error-bars 20   how uncertain is the model?
  kpps study --fit                        find the fitted constants again
  kpps study rdr2007 --set 'host.cache_miss_ps=*1.1'
  kpps study ./mine.toml                  a study of your own (see the guide)

Verdicts: pass, miss, predicted (the result is not known yet), failed (could not be judged).
The exit code is 1 if a claim failed, or if a claim was missed that is arithmetic or was used for fitting.")]
pub struct Arguments {
    /// Names of studies, or .toml files with studies of your own [default: all studies of papers]
    #[arg(value_name = "NAME")]
    studies: Vec<String>,
    /// Judge only the claims with these ids
    #[arg(long, value_delimiter = ',', value_name = "ID,…")]
    claim: Vec<String>,
    /// Change each fitted constant up and down by this share and list the verdicts that change
    #[arg(long, value_name = "SHARE", value_parser = units::share)]
    perturb: Option<f64>,
    /// Find the fitted constants again, from the claims of kind fit
    #[arg(long, conflicts_with_all = ["perturb", "seeds", "resume"])]
    fit: bool,
    /// For each claim of kind fit: find the constants without this claim, and predict the claim
    #[arg(long, conflicts_with_all = ["perturb", "fit", "seeds", "resume"])]
    cross_validate: bool,
    #[command(flatten)]
    resume: Resume,
    /// Draw the random machines from these seeds [default: the seeds of the study]
    #[arg(long, value_name = "FIRST..LAST", value_parser = units::seeds, conflicts_with = "perturb")]
    seeds: Option<(u32, u32)>,
    /// Only print the constants of the random machine with this seed
    #[arg(long, value_name = "SEED", conflicts_with_all = ["perturb", "seeds", "resume"])]
    drawn: Option<u32>,
    #[command(flatten)]
    error_bars: ErrorBars,
    #[command(flatten)]
    constants: Constants,
    #[command(flatten)]
    outputs: Outputs,
}

/// Runs `kpps study`.
pub fn run(arguments: &Arguments, session: &Session) -> Result<(), Failure> {
    kpps_methods::refuse_twice(arguments.studies.iter().map(String::as_str))?;
    let mut studies =
        choose(&arguments.studies, &arguments.claim).map_err(|e| Failure::Input(e.to_string()))?;
    if let Some(seed) = arguments.drawn {
        let constants = drawn(&studies, seed).map_err(Failure::Input)?;
        return Ok(arguments.outputs.open(session, "drawn")?.publish(&constants, "")?);
    }
    if let Some((first, last)) = arguments.seeds {
        drawn(&studies, first).map_err(Failure::Input)?;
        studies.iter_mut().for_each(|study| study.reseed(first.into(), last.into()));
    }
    session.watch();
    let go_on = || session.goes_on();
    let context = Context { changes: arguments.constants.changes()?, go_on: &go_on };
    let kept = arguments.resume.finished(session)?;
    let Arguments { fit: is_fit, cross_validate: is_cross, perturb: share, .. } = *arguments;
    let alone = [(is_fit, "fit"), (is_cross, "cross-validation"), (share.is_some(), "perturbation")];
    let mut files = arguments.outputs.open_pages(session, &pages(&studies, &alone))?;
    let progress = Progress::default();
    let show = |done, of| progress.stands_at(done, of);
    let view = session.line(progress.clone());
    if is_fit {
        let found = fit(&studies, &go_on, &show)?;
        drop(view);
        files.publish(&found, "")?;
        return arguments.resume.end(kept, session, "not all constants found");
    } else if is_cross {
        let found = cross_validate(&studies, &go_on, &show)?;
        drop(view);
        files.publish(&found, "")?;
        return arguments.resume.end(kept, session, "not all claims predicted");
    } else if let Some(share) = share {
        let found = perturb(&studies, share, &context, &show, &kept)?;
        drop(view);
        files.publish(&found, "")?;
        let tried = format!("{} of {} changes tried", found.rows.len(), found.requested);
        return arguments.resume.end(kept, session, &tried);
    }
    let outcomes = measure_or_find(wanted(&studies, !arguments.claim.is_empty()), &context, &show, &kept);
    drop(view);
    let mut results = document(&studies, &outcomes, !arguments.claim.is_empty());
    let mut without = None;
    if let (Some(draws), true) = (arguments.error_bars.draws, results.complete) {
        let progress = Progress::default();
        let view = session.line(progress.clone());
        let show = |done, of| progress.stands_at(done, of);
        without = add_error_bars(&mut results, &studies, draws, &context, &show, &kept).err();
        drop(view);
    }
    let is_bare = arguments.error_bars.draws.is_some() && results.draws.is_none();
    let bare = if is_bare { ", without error bars" } else { "" };
    files.publish(&results, "")?;
    arguments.resume.end(kept, session, &format!("{}{bare}", judged(&studies, &results)))?;
    if let Some(why) = without {
        return Err(Failure::Failed(format!("no error bars: {why}")));
    }
    bad(&results).map_or(Ok(()), |bad| Err(Failure::Check(bad)))
}
