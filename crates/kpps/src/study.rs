//! `kpps study`: the claims of papers, checked in the simulator.

use crate::error::{Failure, print};
use crate::interrupt;
use crate::live;
use crate::output::Resume;
use crate::output::{Forms, PageOutputs, look};
use clap::Args;
use kpps_measure::units;
use kpps_report::live::Progress;
use kpps_report::{rows_csv, study as report};
use kpps_results::Schema;
use kpps_results::study::{self as document, Verdict};
use kpps_study::{
    Context, Error, InJournal, Kept, Study, choose, drawn, fitted_constants, measure_or_find, turns,
};

/// Arguments of `kpps study`.
#[derive(Args)]
#[command(after_help = "Examples:
  kpps study                              all claims of all papers
  kpps study beyond                       kpps' driver on machines drawn at random
  kpps study morris2000 --report .        also a page, morris2000.html
  kpps study beyond --resume beyond.jsonl can be resumed
  kpps study beyond --seeds 101..200      other machines
  kpps study beyond --drawn 44            the constants of one of them, as arguments of kpps grid
  kpps study --claim M14                  one claim
  kpps study --perturb 10%                which verdicts change when fitted constants change
  kpps study --perturb 10% --claim R16

Verdicts: pass, miss, predicted (the paper's result is not known here), failed (could not be judged).
Exit code 1 if a claim is missed that is arithmetic or was used for fitting, or if any claim failed.")]
pub struct Arguments {
    /// Studies, by name [default: those of papers]
    #[arg(value_name = "NAME")]
    studies: Vec<String>,
    /// Only these claims, by id
    #[arg(long, value_delimiter = ',', value_name = "ID")]
    claim: Vec<String>,
    /// Change each fitted constant up and down by this share and list the verdicts that change
    #[arg(long, value_name = "SHARE", value_parser = units::share, conflicts_with_all = ["json", "results", "csv", "report"])]
    perturb: Option<f64>,
    #[command(flatten)]
    resume: Resume,
    /// Draw the random machines with these seeds instead
    #[arg(long, value_name = "FIRST..LAST", value_parser = seeds, conflicts_with = "perturb")]
    seeds: Option<(i64, i64)>,
    /// Print the constants that are drawn with this seed, and measure nothing
    #[arg(long, value_name = "SEED", conflicts_with_all = ["perturb", "seeds", "json", "results", "csv", "report", "resume"])]
    drawn: Option<u32>,
    #[command(flatten)]
    outputs: PageOutputs,
}

/// Seeds as they are typed.
fn seeds(text: &str) -> Result<(i64, i64), String> {
    let pair =
        text.split_once("..").and_then(|(first, last)| Some((first.parse().ok()?, last.parse().ok()?)));
    pair.filter(|(first, last): &(u32, u32)| first <= last)
        .map(|(first, last)| (first.into(), last.into()))
        .ok_or_else(|| "give FIRST..LAST, as 101..200".into())
}

/// Runs `kpps study`.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    let input = |error: Error| Failure::Input(error.to_string());
    crate::error::refuse_twice(arguments.studies.iter().map(String::as_str))?;
    let mut studies = choose(&arguments.studies, &arguments.claim).map_err(input)?;
    if let Some(seed) = arguments.drawn {
        let lines = drawn(&studies, seed).map_err(Failure::Input)?;
        return match lines.is_empty() {
            true => Err(Failure::Input(
                "nothing is drawn at random in these studies; only in study beyond".into(),
            )),
            false => print(&lines.join("\n")),
        };
    }
    if let Some((first, last)) = arguments.seeds {
        studies.iter_mut().for_each(|study| study.reseed(first, last));
    }
    interrupt::watch();
    if let Some(share) = arguments.perturb {
        return perturb(&studies, share);
    }
    let names: Vec<String> = studies.iter().map(|study| study.name.clone()).collect();
    let mut files = arguments.outputs.open_pages(&names)?;
    let go_on = || !interrupt::asked();
    let context = Context { changes: Vec::new(), go_on: &go_on };
    let wanted = studies.iter().flat_map(|study| match arguments.claim.is_empty() {
        true => study.measurements(None),
        false => study.claims.values().flat_map(|claim| claim.measure.values()).collect(),
    });
    let journal = arguments.resume.open()?.map(InJournal::new);
    let kept: &dyn Kept = match &journal {
        Some(journal) => journal,
        None => &(),
    };
    let progress = Progress::default();
    let view = live::line(progress.clone());
    let show = |done, of| {
        progress.wants(of);
        progress.stands_at(done);
    };
    let outcomes = measure_or_find(wanted, &context, &show, kept);
    drop(view);
    journal.map_or(Ok(()), InJournal::close)?;

    let asked: usize = studies.iter().map(|study| study.claims.len()).sum();
    let claims: Vec<_> = studies
        .iter()
        .flat_map(|study| study.claims.iter().filter_map(|(id, claim)| outcomes.verdict(study, id, claim)))
        .collect();
    let articles = studies.iter().map(|study| document::Article {
        name: study.name.clone(),
        title: study.title.clone(),
        asked: study.asked.clone(),
        setting: study.setting.clone(),
        figures: match arguments.claim.is_empty() {
            true => study.figures.iter().map(|figure| outcomes.figure(figure)).collect(),
            false => Vec::new(),
        },
        // A claim about a map measures the same, so it is there if only the claim was asked for.
        maps: study.maps.iter().filter_map(|map| outcomes.map(map)).collect(),
    });
    let results = document::Study {
        schema: Schema::default(),
        kind: document::Kind::Study,
        kpps_version: env!("CARGO_PKG_VERSION").into(),
        profiles_hash: kpps_profiles::hash([]),
        articles: articles.collect(),
        complete: claims.len() == asked,
        claims,
    };
    files.publish(
        &results,
        &Forms {
            screen: &|| report::screen(&results, look()),
            csv: &|| rows_csv(&results.claims),
            page: &|number| {
                results.articles.get(number).map_or_else(String::new, |it| report::page(&results, it))
            },
        },
    )?;
    if interrupt::asked() {
        let done = results.claims.len();
        let kept = arguments.resume.kept();
        return Err(Failure::Interrupted(format!("interrupted: {done} of {asked} claims judged{kept}")));
    }
    verdict(&results)
}

/// What the claims say as an exit code.
fn verdict(results: &document::Study) -> Result<(), Failure> {
    let bad: Vec<&str> = results
        .claims
        .iter()
        .filter(|claim| match claim.verdict {
            Verdict::Failed => true,
            Verdict::Miss => matches!(claim.kind.as_str(), "exact" | "fit"),
            Verdict::Pass | Verdict::Predicted => false,
        })
        .map(|claim| claim.id.as_str())
        .collect();
    match bad.is_empty() {
        true => Ok(()),
        false => Err(Failure::Check(format!("missed or failed: {}", bad.join(", ")))),
    }
}

fn perturb(studies: &[Study], share: f64) -> Result<(), Failure> {
    let input = |error: kpps_profiles::Error| Failure::Input(error.to_string());
    let mut nudges = fitted_constants(1.0 - share).map_err(input)?;
    nudges.extend(fitted_constants(1.0 + share).map_err(input)?);
    let go_on = || !interrupt::asked();
    let context = Context { changes: Vec::new(), go_on: &go_on };
    let (mut turned, mut done) = (0, 0);
    let mut result = Ok(());
    turns(studies, &nudges, &context, |nudge, turns| {
        done += 1;
        turned += turns.len();
        if result.is_ok() {
            result = print(&nudge.line(turns));
        }
    });
    result?;
    print(&format!("{done} of {} changes tried, {turned} verdicts changed\n", nudges.len()))?;
    match interrupt::asked() {
        true => Err(Failure::Interrupted(format!("interrupted: {done} of {} changes tried", nudges.len()))),
        false => Ok(()),
    }
}
