//! Where results go: the screen, standard output, files.

use crate::error::{Failure, print};
use clap::Args;
use kpps_measure::bounds::{self, Bounds};
use kpps_measure::journal::Journal;
use kpps_report::Forms;
use kpps_report::text::Look;
use kpps_results::{provenance::Published, to_json};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::fs::File;
use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Where results go. Every command that has results has these.
#[derive(Args, Clone, Default)]
pub struct Outputs {
    /// Print the results as one JSON document on standard output
    #[arg(long)]
    json: bool,
    /// Write the results as a JSON document to this file
    #[arg(long, value_name = "FILE")]
    results: Option<PathBuf>,
    /// Write the results as comma-separated values to this file; `-` is standard output
    #[arg(long, value_name = "FILE|-")]
    csv: Option<PathBuf>,
}

/// The same, with a page.
#[derive(Args, Clone, Default)]
pub struct PageOutputs {
    #[command(flatten)]
    outputs: Outputs,
    /// Write an HTML page: to this file if its name ends in .html, otherwise into this folder, which is made
    /// if missing
    #[arg(long, value_name = "FILE|FOLDER")]
    report: Option<PathBuf>,
}

/// What a result must keep, or the command ends with exit code 1.
#[derive(Args, Clone)]
pub struct BoundArguments {
    /// End with exit code 1 if a larger share of the frames is lost: 0, 0.1%
    #[arg(long, value_name = "SHARE", value_parser = bounds::loss, help_heading = "Bounds")]
    max_loss: Option<f64>,
    /// End with exit code 1 if fewer frames per second are delivered, all directions together
    #[arg(long, value_name = "RATE", value_parser = bounds::rate_pps, help_heading = "Bounds")]
    min_rate: Option<f64>,
    /// End with exit code 1 if 99 % of the frames take longer: 100us
    #[arg(long, value_name = "TIME", value_parser = bounds::latency, help_heading = "Bounds")]
    max_p99: Option<Duration>,
}

impl BoundArguments {
    /// The bounds.
    pub fn get(&self) -> Bounds {
        Bounds { max_loss: self.max_loss, min_rate_pps: self.min_rate, max_p99: self.max_p99 }
    }
}

/// Where measurements are kept, to resume from.
#[derive(Args, Clone, Default)]
pub struct Resume {
    /// Keep every measurement in this file, and do not repeat those that it has of the same command; made if
    /// missing
    #[arg(long, value_name = "FILE")]
    resume: Option<PathBuf>,
}

impl Resume {
    /// Opens the file, if one is given.
    pub fn open<T: Serialize + DeserializeOwned>(&self) -> Result<Option<Journal<T>>, Failure> {
        Ok(self.resume.as_deref().map(Journal::open).transpose()?)
    }

    /// The file in a sentence about an interrupted run.
    pub fn kept(&self) -> String {
        self.resume
            .as_ref()
            .map_or_else(String::new, |path| format!("; the same command resumes from {}", path.display()))
    }
}

impl Outputs {
    /// Whether standard output is for a program and not for a person.
    pub fn for_machines(&self) -> bool {
        self.json || self.csv_is_printed()
    }

    fn csv_is_printed(&self) -> bool {
        self.csv.as_deref() == Some(Path::new("-"))
    }

    /// Opens the files, before anything is measured: no result is lost to a bad path.
    pub fn open(&self) -> Result<Files, Failure> {
        self.open_with(Vec::new())
    }

    fn open_with(&self, pages: Vec<Output>) -> Result<Files, Failure> {
        if self.json && self.csv_is_printed() {
            return Err(Failure::Input(
                "--json and --csv - both print on standard output: give one of them a file (--results, --csv)"
                    .into(),
            ));
        }
        let open = |path: &Option<PathBuf>| path.as_deref().map(Output::open).transpose();
        Ok(Files {
            json: self.json,
            results: open(&self.results)?,
            print_csv: self.csv_is_printed(),
            csv: open(&self.csv.clone().filter(|_| !self.csv_is_printed()))?,
            pages,
        })
    }
}

impl PageOutputs {
    /// Whether standard output is for a program and not for a person.
    pub fn for_machines(&self) -> bool {
        self.outputs.for_machines()
    }

    /// Opens the files. In a folder the page is called `name`.html.
    pub fn open(&self, name: &str) -> Result<Files, Failure> {
        self.open_pages(&[name.to_owned()])
    }

    /// Opens the files, with a page for each of these names.
    pub fn open_pages(&self, names: &[String]) -> Result<Files, Failure> {
        let pages = match &self.report {
            None => Vec::new(),
            Some(file) if file.extension().is_some_and(|extension| extension == "html") => {
                if names.len() > 1 {
                    let file = file.display();
                    return Err(Failure::Input(format!(
                        "{file} is one page, and there are {}: give --report a folder",
                        names.len()
                    )));
                }
                vec![Output::open(file)?]
            }
            Some(folder) => {
                std::fs::create_dir_all(folder).map_err(|e| {
                    Failure::Input(format!("cannot make the folder {}: {e}", folder.display()))
                })?;
                let page = |name: &String| Output::open(&folder.join(format!("{name}.html")));
                names.iter().map(page).collect::<Result<_, _>>()?
            }
        };
        self.outputs.open_with(pages)
    }
}

/// The files that results go to, open.
pub struct Files {
    json: bool,
    results: Option<Output>,
    print_csv: bool,
    csv: Option<Output>,
    pages: Vec<Output>,
}

impl Files {
    /// The file of the results, in a sentence about an interrupted run.
    pub fn kept(&self) -> String {
        let kept = |results: &Output| format!(" and kept in {}", results.path().display());
        self.results.as_ref().map(kept).unwrap_or_default()
    }

    /// Writes the files, then prints what is asked for: JSON, comma-separated values, or the screen with
    /// `notes` about the run and the names of the files that were written.
    pub fn publish(&mut self, document: &impl Forms, notes: &str) -> Result<(), Failure> {
        let document = &Published { document, provenance: crate::ports::provenance() };
        let json = || to_json(document).map_err(|e| Failure::Check(format!("no JSON of the results: {e}")));
        if let Some(results) = &mut self.results {
            results.write(&json()?)?;
        }
        if let Some(csv) = &mut self.csv {
            csv.write(&document.csv())?;
        }
        for (number, page) in self.pages.iter_mut().enumerate() {
            page.write(&document.page(number).unwrap_or_default())?;
        }
        if self.json {
            return print(&json()?);
        }
        if self.print_csv {
            return print(&document.csv());
        }
        // In colour if standard output is a terminal and NO_COLOR is not set.
        let colour = std::io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none();
        let mut screen = document.screen(Look { colour, ..Look::default() }, notes);
        let files = self.results.iter().chain(&self.csv).chain(&self.pages);
        for file in files {
            screen.truncate(screen.trim_end().len());
            screen += &format!("\nwritten: {}\n", file.path().display());
        }
        print(&screen)
    }
}

/// A file that will be written. It is opened before anything is measured; an old file keeps its contents
/// until there are new ones, and a new file is removed again if nothing is written.
pub struct Output {
    path: PathBuf,
    file: File,
    is_new: bool,
}

impl Output {
    /// Opens `path` for writing.
    pub fn open(path: &Path) -> Result<Self, Failure> {
        let is_new = !path.exists();
        let file = File::options().write(true).create(true).truncate(false).open(path);
        file.map(|file| Self { path: path.to_owned(), file, is_new })
            .map_err(|e| Failure::Input(format!("cannot write {}: {e}; give another path", path.display())))
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Replaces the contents by `text`.
    pub fn write(&mut self, text: &str) -> Result<(), Failure> {
        self.write_bytes(text.as_bytes())
    }

    /// Replaces the contents by `bytes`.
    pub fn write_bytes(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        self.is_new = false;
        self.file
            .set_len(0)
            .and_then(|()| self.file.write_all(bytes))
            .map_err(|e| Failure::Check(format!("cannot write {}: {e}", self.path.display())))
    }
}

impl Drop for Output {
    fn drop(&mut self) {
        if self.is_new {
            // A file that cannot be removed is left empty; that is not worth a message.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}
