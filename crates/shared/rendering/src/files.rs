//! Documents written to files and to standard output.

use crate::text::TextStyle;
use crate::{Caller, Document, Forms};
use kpps_documents::file::WholeFile;
use kpps_documents::provenance::{Provenance, Published};
use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Where a document is to go.
#[derive(Clone, Default)]
pub struct Destinations {
    /// The program that called kpps, if one did: it gets the document itself, and nothing is printed.
    pub caller: Option<Arc<dyn Caller>>,
    /// Print it as JSON.
    pub json: bool,
    /// A file for the JSON.
    pub results: Option<PathBuf>,
    /// A file for the comma-separated values; `-` is standard output.
    pub csv: Option<PathBuf>,
    /// A file for the page if its name ends in .html, otherwise a folder for all pages, which is created if
    /// it does not exist.
    pub report: Option<PathBuf>,
}

/// Why a document cannot be published.
#[derive(Debug, thiserror::Error)]
pub enum PublishError {
    /// Two documents are to be printed on standard output.
    #[error("JSON and comma-separated values both print on standard output: give one of them a file")]
    PrintedTwice,
    /// Several pages are to be written to one file.
    #[error("{} is one file, and there are {pages} pages: give a folder", path.display())]
    OnePage {
        /// The file.
        path: PathBuf,
        /// How many pages there are.
        pages: usize,
    },
    /// A destination cannot be opened; in one line.
    #[error("{0}")]
    Destination(String),
    /// It could not be written.
    #[error("{0}")]
    Write(String),
    /// Standard output was closed by its reader.
    #[error("standard output was closed")]
    OutputClosed,
}

impl Destinations {
    /// Whether standard output is for a program and not for a person.
    pub fn for_machines(&self) -> bool {
        self.json || self.csv_is_printed()
    }

    fn csv_is_printed(&self) -> bool {
        self.csv.as_deref() == Some(Path::new("-"))
    }

    /// Opens the files, with a page for each of these names; `provenance` says where a document is from, once
    /// it is made. To be called before anything is measured, so that a bad path fails at once.
    ///
    /// # Errors
    /// [`PublishError::Destination`].
    pub fn open(
        &self,
        pages: &[String],
        provenance: fn() -> Option<Provenance>,
    ) -> Result<Files, PublishError> {
        if self.json && self.csv_is_printed() {
            return Err(PublishError::PrintedTwice);
        }
        if self.caller.is_none() && self.for_machines() {
            // Nothing is written, and the system says whether it could be.
            output().and_then(|mut out| out.write(&[])).map_err(|e| {
                PublishError::Destination(format!(
                    "cannot write to standard output: {e}; open it, or give a file"
                ))
            })?;
        }
        let pages = self.open_pages(pages)?;
        let mut files = Files {
            caller: self.caller.clone(),
            taken: pages.iter().filter_map(|page| page.0.place()).collect(),
            pages,
            json: self.json,
            results: None,
            print_csv: self.csv_is_printed(),
            csv: None,
            attached: Vec::new(),
            provenance,
            results_are_kept: false,
        };
        files.results = files.open(self.results.as_deref())?;
        files.csv = files.open(self.csv.as_deref().filter(|_| !self.csv_is_printed()))?;
        Ok(files)
    }

    fn open_pages(&self, names: &[String]) -> Result<Vec<Output>, PublishError> {
        match &self.report {
            None => Ok(Vec::new()),
            Some(file) if is_page(file) => {
                if names.len() > 1 {
                    return Err(PublishError::OnePage { path: file.clone(), pages: names.len() });
                }
                Ok(vec![Output::open(file)?])
            }
            Some(folder) => {
                std::fs::create_dir_all(folder).map_err(|e| {
                    PublishError::Destination(format!("cannot make the folder {}: {e}", folder.display()))
                })?;
                names.iter().map(|name| Output::open(&folder.join(format!("{name}.html")))).collect()
            }
        }
    }
}

/// Whether a page is to be written here, and not a folder of pages. A device such as /dev/null is no folder.
fn is_page(path: &Path) -> bool {
    let is_device = || path.metadata().is_ok_and(|found| !found.is_dir() && !found.is_file());
    path.extension().is_some_and(|extension| extension == "html") || is_device()
}

/// The files that a document goes to, open.
pub struct Files {
    caller: Option<Arc<dyn Caller>>,
    json: bool,
    results: Option<Output>,
    print_csv: bool,
    csv: Option<Output>,
    pages: Vec<Output>,
    attached: Vec<(Output, Result<Vec<u8>, String>)>,
    /// The places of all that are open.
    taken: Vec<PathBuf>,
    provenance: fn() -> Option<Provenance>,
    results_are_kept: bool,
}

impl Files {
    /// The file of the JSON, if it has been written, in a sentence about an interrupted run.
    pub fn kept(&self) -> String {
        let results = self.results.as_ref().filter(|_| self.results_are_kept);
        results.map(|file| format!(" and kept in {}", file.path().display())).unwrap_or_default()
    }

    /// Opens one more file, if there is a path.
    ///
    /// # Errors
    /// [`PublishError::Destination`]: it cannot be written, or is one of the other files.
    pub fn open(&mut self, path: Option<&Path>) -> Result<Option<Output>, PublishError> {
        let Some(file) = path.map(Output::open).transpose()? else { return Ok(None) };
        let place = file.0.place();
        if place.iter().any(|place| self.taken.contains(place)) {
            let path = file.path().display();
            return Err(PublishError::Destination(format!(
                "{path} is given twice: give each result its own"
            )));
        }
        self.taken.extend(place);
        Ok(Some(file))
    }

    /// Attaches another file, which is written with the document, or the reason why it has no contents.
    pub fn attach(&mut self, file: Output, contents: Result<Vec<u8>, String>) {
        self.attached.push((file, contents));
    }

    /// Prints the requested form: JSON, comma-separated values, or the screen with `notes` about the run.
    /// Then writes the files and names them. It prints first, so that results are not lost if a file cannot
    /// be written. A document in which nothing was measured replaces no file.
    ///
    /// # Errors
    /// A file or standard output cannot be written. The others have been.
    pub fn publish(&mut self, document: &impl Forms, notes: &str) -> Result<(), PublishError> {
        let document = &Published { document, provenance: (self.provenance)() };
        let printed = self.print(document, notes);
        if document.is_empty() {
            for file in self.results.iter().chain(&self.csv).chain(&self.pages) {
                let kept = format!("{} is left as it was: nothing was measured", file.path().display());
                tell_caller(self.caller.as_deref(), &kept);
            }
            return printed;
        }
        let (mut written, mut problems) = (String::new(), Vec::new());
        let mut write = |file: &Output, contents: Result<Vec<u8>, String>| {
            let done = contents.map_err(PublishError::Write).and_then(|contents| file.write(&contents));
            match &done {
                Ok(()) => written += &format!("written: {}\n", file.path().display()),
                Err(problem) => problems.push(problem.to_string()),
            }
            done.is_ok()
        };
        if let Some(results) = &self.results {
            self.results_are_kept = write(results, document.json().map(String::into_bytes));
        }
        if let Some(csv) = &self.csv {
            write(csv, Ok(Forms::rows(document).csv().into_bytes()));
        }
        for (number, page) in self.pages.iter().enumerate() {
            write(page, Ok(Forms::page(document, number).unwrap_or_default().into_bytes()));
        }
        for (file, contents) in self.attached.drain(..) {
            write(&file, contents);
        }
        let for_program = self.json || self.print_csv || self.caller.is_some();
        let line = match for_program || written.is_empty() {
            true => printed,
            false => printed.and_then(|()| print(&written)),
        };
        match (problems.is_empty(), line) {
            (true, line) => line,
            (false, Err(PublishError::Write(why))) => {
                Err(PublishError::Write(format!("{}; {why}", problems.join("; "))))
            }
            (false, _) => Err(PublishError::Write(problems.join("; "))),
        }
    }

    fn print(&self, document: &impl Forms, notes: &str) -> Result<(), PublishError> {
        if let Some(caller) = &self.caller {
            caller.takes(document);
            return Ok(());
        }
        if self.json {
            return print(&document.json().map_err(PublishError::Write)?);
        }
        if self.print_csv {
            return print(&Forms::rows(document).csv());
        }
        // In colour if standard output is a terminal and NO_COLOR is not set.
        let colour = io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none();
        print(&Forms::screen(document, TextStyle { colour, ..TextStyle::default() }, notes))
    }
}

/// Prints to standard output.
///
/// # Errors
/// [`PublishError::OutputClosed`] if its reader has gone (`| head`), which is no error worth a message;
/// otherwise [`PublishError::Write`].
pub fn print(text: &str) -> Result<(), PublishError> {
    let text = format!("{}\n", text.trim_end());
    output().and_then(|mut out| out.write_all(text.as_bytes())).map_err(|e| match e.kind() {
        io::ErrorKind::BrokenPipe => PublishError::OutputClosed,
        _ => PublishError::Write(format!("cannot write to standard output: {e}")),
    })
}

/// Standard output with all its errors: to [`io::stdout`] a descriptor that takes nothing is no error.
#[cfg(unix)]
fn output() -> io::Result<impl Write> {
    use std::os::fd::AsFd;
    Ok(std::fs::File::from(io::stdout().as_fd().try_clone_to_owned()?))
}

#[cfg(not(unix))]
fn output() -> io::Result<impl Write> {
    Ok(io::stdout())
}

/// Sends a line to the program that called kpps, or without such a program to the user ([`tell`]).
pub fn tell_caller(caller: Option<&dyn Caller>, line: &str) {
    caller.map_or_else(|| tell(line), |caller| caller.is_told(line));
}

/// Prints a line to standard error. If standard error is gone, like a closed terminal, the line is lost.
pub fn tell(line: &str) {
    let _ = writeln!(io::stderr(), "{}", in_one_line(line));
}

/// The most characters of a line for people.
const LONGEST: usize = 2000;

/// A line as it is fit for a terminal, whatever names and values it quotes: control characters are escaped,
/// and the middle of a very long one is left out.
fn in_one_line(line: &str) -> String {
    let escaped = |c: char| if c.is_control() { c.escape_default().collect() } else { String::from(c) };
    let line: String = line.trim_end().chars().map(escaped).collect();
    let length = line.chars().count();
    if length <= LONGEST {
        return line;
    }
    let part = |from: usize| line.chars().skip(from).take(LONGEST / 2).collect::<String>();
    format!("{} […] {}", part(0), part(length - LONGEST / 2))
}

/// A file that will be written as a whole. It is opened before anything is measured.
pub struct Output(WholeFile);

impl Output {
    /// Opens `path` for writing, and changes nothing.
    ///
    /// # Errors
    /// [`PublishError::Destination`].
    pub fn open(path: &Path) -> Result<Self, PublishError> {
        WholeFile::open(path).map(Self).map_err(|e| {
            PublishError::Destination(format!("cannot write {}: {e}; give another path", path.display()))
        })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        self.0.path()
    }

    /// Replaces the contents.
    fn write(&self, contents: &[u8]) -> Result<(), PublishError> {
        self.0.write(contents).map_err(|e| {
            PublishError::Write(format!(
                "cannot write {}: {e}; the results are printed: make room, or give another path",
                self.path().display()
            ))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_is_told_is_one_line_that_fits_a_screen() {
        assert_eq!(in_one_line("no file 'a\nb\u{1b}[2Jµ'\n"), "no file 'a\\nb\\u{1b}[2Jµ'");
        let long = in_one_line(&format!("begin {} end", "x".repeat(1_000_000)));
        assert!(
            long.starts_with("begin x") && long.ends_with("x end") && long.chars().count() < 2010,
            "{long}"
        );
    }
}
