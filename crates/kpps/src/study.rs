//! `kpps study`: the claims of papers, checked in the simulator.

use crate::error::Failure;
use crate::output::{Outputs, Resume};
use crate::simulator::Constants;
use clap::Args;
use kpps_measure::units;
use kpps_report::Session;
use kpps_report::live::Progress;
use kpps_study::{Context, InJournal, Kept, Study};
use kpps_study::{Question, bad, choose, document, drawn, explore, measure_or_find, pages, wanted};

/// Arguments of `kpps study`.
#[derive(Args)]
#[command(mut_arg("set", |set| set.conflicts_with_all(["perturb", "drawn", "resume"])), after_help = "Examples:
  kpps study                              all claims of all papers
  kpps study beyond                       kpps' driver on machines drawn at random
  kpps study morris2000 --report .        also a page, morris2000.html
  kpps study --report pages               a page of each, and one of all: studies.html
  kpps study beyond --resume beyond.jsonl can be resumed
  kpps study beyond --seeds 101..200      other machines
  kpps study beyond --drawn 44            the constants of one of them, as arguments of kpps grid
  kpps study --claim M14                  one claim
  kpps study --perturb 10%                which verdicts change when fitted constants change
  kpps study --perturb 10% --claim R16
  kpps study --fit                        find the fitted constants again; --cross-validate tests that
  kpps study rdr2007 --set 'host.cache_miss_ps=*1.1'

Verdicts: pass, miss, predicted (the result is not known yet), failed (could not be judged).
Exit code 1 if a claim is missed that is arithmetic or was used for fitting, or if any claim failed.")]
pub struct Arguments {
    /// Studies, by name [default: those of papers]
    #[arg(value_name = "NAME")]
    studies: Vec<String>,
    /// Only these claims, by id
    #[arg(long, value_delimiter = ',', value_name = "ID,…")]
    claim: Vec<String>,
    /// Change each fitted constant up and down by this share and list the verdicts that change
    #[arg(long, value_name = "SHARE", value_parser = units::share, conflicts_with_all = ["json", "results", "csv", "report"])]
    perturb: Option<f64>,
    /// Find the fitted constants from the claims of kind fit alone, and print them
    #[arg(long, conflicts_with_all = ["perturb", "json", "results", "csv", "report", "seeds"])]
    fit: bool,
    /// Leave out each claim of kind fit in turn, fit on the others, and print the error of its prediction
    #[arg(long, conflicts_with_all = ["perturb", "fit", "json", "results", "csv", "report", "seeds"])]
    cross_validate: bool,
    #[command(flatten)]
    resume: Resume,
    /// Draw the random machines with these seeds instead
    #[arg(long, value_name = "FIRST..LAST", value_parser = units::seeds, conflicts_with = "perturb")]
    seeds: Option<(u32, u32)>,
    /// Print the constants of the random machine with this seed; nothing is measured
    #[arg(long, value_name = "SEED", conflicts_with_all = ["perturb", "seeds", "json", "results", "csv", "report", "resume"])]
    drawn: Option<u32>,
    #[command(flatten)]
    constants: Constants,
    #[command(flatten)]
    outputs: Outputs,
}

/// Runs `kpps study`.
pub fn run(arguments: &Arguments, session: &Session) -> Result<(), Failure> {
    kpps_measure::refuse_twice(arguments.studies.iter().map(String::as_str))?;
    let mut studies =
        choose(&arguments.studies, &arguments.claim).map_err(|e| Failure::Input(e.to_string()))?;
    if let Some(seed) = arguments.drawn.or(arguments.seeds.map(|(first, _)| first)) {
        let lines = drawn(&studies, seed).map_err(Failure::Input)?;
        let nothing = "nothing is drawn at random in these studies; only in study beyond";
        match (lines.is_empty(), arguments.drawn) {
            (true, _) => return Err(Failure::Input(nothing.into())),
            (false, Some(_)) => return Ok(session.print(&lines.join("\n"))?),
            (false, None) => (),
        }
    }
    if let Some((first, last)) = arguments.seeds {
        studies.iter_mut().for_each(|study| study.reseed(first.into(), last.into()));
    }
    session.watch();
    if let Some(question) = Question::asked(arguments.perturb, arguments.fit, arguments.cross_validate) {
        return answer(&studies, question, session);
    }
    let mut files = arguments.outputs.open_pages(session, &pages(&studies))?;
    let go_on = || session.goes_on();
    let context = Context { changes: arguments.constants.changes()?, go_on: &go_on };
    let wanted = wanted(&studies, !arguments.claim.is_empty());
    let journal = arguments.resume.open(session)?.map(InJournal::new);
    let kept = journal.as_ref().map_or(&() as &dyn Kept, |journal| journal);
    let progress = Progress::default();
    let view = session.line(progress.clone());
    let show = |done, of| {
        progress.wants(of);
        progress.stands_at(done);
    };
    let outcomes = measure_or_find(wanted, &context, &show, kept);
    drop(view);
    let results = document(&studies, &outcomes, !arguments.claim.is_empty());
    files.publish(&results, "")?;
    journal.map_or(Ok(()), InJournal::close).map_err(kpps_measure::Error::from)?;
    if session.is_interrupted() {
        let requested: usize = studies.iter().map(|study| study.claims.len()).sum();
        let done = results.claims.len();
        let kept = arguments.resume.kept();
        return Err(Failure::Interrupted(format!("interrupted: {done} of {requested} claims judged{kept}")));
    }
    match bad(&results) {
        bad if bad.is_empty() => Ok(()),
        bad => Err(Failure::Check(format!("missed or failed: {}", bad.join(", ")))),
    }
}

fn answer(studies: &[Study], question: Question, session: &Session) -> Result<(), Failure> {
    let mut printed = Ok(());
    let last = explore(studies, question, &|| session.goes_on(), |line| {
        if printed.is_ok() {
            printed = session.print(line);
        }
    })?;
    printed.and_then(|()| session.print(&format!("{last}\n")))?;
    let whole = (!session.is_interrupted()).then_some(());
    whole.ok_or_else(|| Failure::Interrupted(format!("interrupted: {last}")))
}
