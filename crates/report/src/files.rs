//! Documents written to files and to standard output.

use crate::text::Look;
use crate::{Caller, Document, Forms};
use kpps_results::file::WholeFile;
use kpps_results::provenance::{Provenance, Published};
use std::fmt;
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
#[derive(Debug)]
pub enum PublishError {
    /// The destinations contradict each other, or cannot be opened.
    Destination(String),
    /// It could not be written.
    Write(String),
    /// Standard output was closed by its reader.
    OutputClosed,
}

impl fmt::Display for PublishError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Destination(what) | Self::Write(what) => f.write_str(what),
            Self::OutputClosed => f.write_str("standard output was closed"),
        }
    }
}

impl std::error::Error for PublishError {}

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
            return Err(PublishError::Destination(
                "--json and --csv - both print on standard output: give one of them a file (--results, --csv)"
                    .into(),
            ));
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
                    return Err(PublishError::Destination(format!(
                        "{} is one page, and there are {}: give --report a folder",
                        file.display(),
                        names.len()
                    )));
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

/// Options that name a file which is replaced at the end.
const REPLACED: [&str; 6] = ["results", "csv", "report", "pcap", "timeline", "capture"];

/// Refuses a file that is to be replaced at the end and that another argument names, too: a journal, a
/// capture to replay, results to compare. `given` are the names of options and their values. Two results in
/// one file are refused when they are opened.
///
/// # Errors
/// [`PublishError::Destination`] with the file.
pub fn refuse_overwriting(given: &[(&str, PathBuf)]) -> Result<(), PublishError> {
    let replaced = |id: &str| REPLACED.contains(&id);
    for (id, path) in given.iter().filter(|(id, _)| replaced(id)) {
        let Some(file) = place(path) else { continue };
        let mut others = given.iter().filter(|(other, _)| !replaced(other));
        if others.any(|(_, other)| place(other).as_ref() == Some(&file)) {
            return Err(PublishError::Destination(format!(
                "{} is given twice: --{id} would replace it; give the results a file of their own",
                path.display()
            )));
        }
    }
    Ok(())
}

/// The one path of the file that would be replaced here, whatever the name it is given by; `None` of a
/// folder, a device, or in a folder that does not exist.
pub fn place(path: &Path) -> Option<PathBuf> {
    match path.canonicalize() {
        Ok(path) => path.is_file().then_some(path),
        Err(_) => {
            let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
            Some(folder.unwrap_or(Path::new(".")).canonicalize().ok()?.join(path.file_name()?))
        }
    }
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
        print(&Forms::screen(document, Look { colour, ..Look::default() }, notes))
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
pub(crate) fn tell_caller(caller: Option<&dyn Caller>, line: &str) {
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
