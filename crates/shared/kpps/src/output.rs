//! Options for the destinations of results, and for their bounds.

use crate::error::Failure;
use crate::heading;
use crate::session::Session;
use clap::parser::ValueSource;
use clap::{ArgMatches, Args, Id};
use kpps_methods::bounds::{self, Bounds};
use kpps_methods::journal::Journal;
use kpps_methods::{Finished, resume};
use kpps_rendering::files::Destinations;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::path::{Path, PathBuf};
use std::time::Duration;

pub use kpps_rendering::files::Files;

/// Where results go. Every command that has results has these.
#[derive(Args, Clone, Default)]
pub struct Outputs {
    /// Print the results as one JSON document on standard output
    #[arg(long, help_heading = heading::RESULTS)]
    json: bool,
    /// Write the results as a JSON document to this file
    #[arg(long, value_name = "FILE", help_heading = heading::RESULTS)]
    results: Option<PathBuf>,
    /// Write the results as comma-separated values to this file; `-` is standard output
    #[arg(long, value_name = "FILE|-", help_heading = heading::RESULTS)]
    csv: Option<PathBuf>,
    /// Write an HTML page: to this file if its name ends in .html, otherwise into this folder, which is
    /// created if it does not exist
    #[arg(long, value_name = "FILE|FOLDER", help_heading = heading::RESULTS)]
    report: Option<PathBuf>,
}

impl Outputs {
    fn destinations(&self, session: &Session) -> Destinations {
        let Self { json, results, csv, report } = self.clone();
        Destinations { caller: session.caller.clone(), json, results, csv, report }
    }

    /// Whether standard output is for a program and not for a person.
    pub fn for_machines(&self) -> bool {
        self.destinations(&Session::default()).for_machines()
    }

    /// Opens the files. In a folder the page is called `name`.html.
    pub fn open(&self, session: &Session, name: &str) -> Result<Files, Failure> {
        self.open_pages(session, &[name.to_owned()])
    }

    /// Opens the files, with a page for each of these names.
    pub fn open_pages(&self, session: &Session, names: &[String]) -> Result<Files, Failure> {
        Ok(self.destinations(session).open(names, crate::ports::provenance)?)
    }
}

/// Options that name a file which is replaced at the end.
const REPLACED: [&str; 8] =
    ["results", "csv", "report", "pcap", "timeline", "capture", "capture_all", "junit"];

/// Refuses a file that the command would replace at its end and that another argument names, too: a journal,
/// a capture to replay, results to compare. Two results in one file are refused when they are opened.
pub fn refuse_overwriting(command: &ArgMatches) -> Result<(), Failure> {
    if let Some((_, below)) = command.subcommand() {
        return refuse_overwriting(below);
    }
    let is_given = |id: &&Id| command.value_source(id.as_str()) == Some(ValueSource::CommandLine);
    let values = |id| command.try_get_raw(id).ok().flatten().into_iter().flatten().map(PathBuf::from);
    let given = command.ids().filter(is_given).map(Id::as_str);
    let given: Vec<_> = given.flat_map(|id| values(id).map(move |value| (id, value))).collect();
    let replaced = |id: &str| REPLACED.contains(&id);
    for (id, path) in given.iter().filter(|(id, _)| replaced(id)) {
        let Some(file) = replaced_file(path) else { continue };
        let mut others = given.iter().filter(|(other, _)| !replaced(other));
        if others.any(|(_, other)| replaced_file(other).as_ref() == Some(&file)) {
            let option = id.replace('_', "-");
            return Err(Failure::Input(format!(
                "{} is given twice, and --{option} would replace it: give --{option} another file",
                path.display()
            )));
        }
    }
    Ok(())
}

/// The canonical path of the file that would be replaced here; `None` of a folder, a device, or a file in a
/// folder that does not exist.
fn replaced_file(path: &Path) -> Option<PathBuf> {
    match path.canonicalize() {
        Ok(path) => path.is_file().then_some(path),
        Err(_) => {
            let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
            Some(folder.unwrap_or(Path::new(".")).canonicalize().ok()?.join(path.file_name()?))
        }
    }
}

/// The bounds of a result. If the result breaks one, the command ends with exit code 1.
#[derive(Args, Clone)]
pub struct BoundArguments {
    /// End with exit code 1 if more than this share of the frames is lost: 0, 0.1%
    #[arg(long, value_name = "SHARE", value_parser = bounds::loss, help_heading = heading::BOUNDS)]
    max_loss: Option<f64>,
    /// End with exit code 1 if fewer frames per second than this are delivered, all directions together
    #[arg(long, value_name = "RATE", value_parser = bounds::rate_pps, help_heading = heading::BOUNDS)]
    min_rate: Option<f64>,
    /// End with exit code 1 if the 99th percentile of the latency is above this time: 100us
    #[arg(long, value_name = "TIME", value_parser = bounds::latency, help_heading = heading::BOUNDS)]
    max_p99: Option<Duration>,
    /// End with exit code 1 if more than this share of the frames is lost at unknown places. For 0, --watch
    /// must cover the whole path
    #[arg(long, value_name = "SHARE", value_parser = bounds::loss, help_heading = heading::BOUNDS)]
    max_unexplained: Option<f64>,
}

impl BoundArguments {
    /// The bounds.
    pub fn get(&self) -> Bounds {
        let Self { max_loss, min_rate, max_p99, max_unexplained } = *self;
        Bounds { max_loss, min_rate_pps: min_rate, max_p99, max_unexplained }
    }
}

/// Where measurements are kept, to resume from.
#[derive(Args, Clone, Default)]
pub struct Resume {
    /// Store every measurement in this file, which is created if it does not exist. Measurements of the same
    /// system that the file already contains are not repeated
    #[arg(long, value_name = "FILE", help_heading = heading::RESULTS)]
    resume: Option<PathBuf>,
}

impl Resume {
    /// Opens the file, if one is given.
    pub fn open<T: Serialize + DeserializeOwned>(
        &self,
        session: &Session,
    ) -> Result<Option<Journal<T>>, Failure> {
        let journal =
            self.resume.as_deref().map(Journal::open).transpose().map_err(kpps_methods::Error::from)?;
        journal.iter().filter_map(Journal::torn).for_each(|torn| session.tell(&torn));
        Ok(journal)
    }

    /// Opens it for trials, whose time may be virtual.
    pub fn trials(&self, session: &Session, is_simulated: bool) -> Result<Option<resume::Resume>, Failure> {
        Ok(self.open(session)?.map(|journal| resume::Resume::new(journal, is_simulated)))
    }

    /// Opens it for simulations: equal simulations have equal results.
    pub fn finished<T>(&self, session: &Session) -> Result<Finished<T>, Failure>
    where
        T: Clone + Serialize + DeserializeOwned,
    {
        Ok(Finished::new(self.open(session)?, &kpps_profiles::program()))
    }

    /// Ends the use of the file; `so_far` names the results so far if the user interrupted the run.
    pub fn end<T>(&self, finished: Finished<T>, session: &Session, so_far: &str) -> Result<(), Failure>
    where
        T: Clone + Serialize,
    {
        finished.close()?;
        match session.is_interrupted() {
            true => Err(Failure::Interrupted(format!("interrupted: {so_far}{}", self.kept()))),
            false => Ok(()),
        }
    }

    /// The file in a sentence about an interrupted run.
    pub fn kept(&self) -> String {
        self.resume
            .as_ref()
            .map_or_else(String::new, |path| format!("; the same command resumes from {}", path.display()))
    }
}
