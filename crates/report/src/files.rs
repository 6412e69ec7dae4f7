//! Documents written to files and to standard output.

use crate::Forms;
use crate::text::Look;
use kpps_results::provenance::{Provenance, Published};
use kpps_results::to_json;
use std::fmt;
use std::fs::File;
use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};

/// Where a document is to go.
#[derive(Clone, Debug, Default)]
pub struct Destinations {
    /// Print it as JSON.
    pub json: bool,
    /// A file for the JSON.
    pub results: Option<PathBuf>,
    /// A file for the comma-separated values; `-` is standard output.
    pub csv: Option<PathBuf>,
    /// A file for the page if its name ends in .html, otherwise a folder for all pages, which is made if
    /// missing.
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

    /// Opens the files, with a page for each of these names. To be called before anything is measured: then
    /// no result is lost to a bad path.
    ///
    /// # Errors
    /// [`PublishError::Destination`].
    pub fn open(&self, pages: &[String]) -> Result<Files, PublishError> {
        if self.json && self.csv_is_printed() {
            return Err(PublishError::Destination(
                "--json and --csv - both print on standard output: give one of them a file (--results, --csv)"
                    .into(),
            ));
        }
        let open = |path: &Option<PathBuf>| path.as_deref().map(Output::open).transpose();
        Ok(Files {
            pages: self.open_pages(pages)?,
            json: self.json,
            results: open(&self.results)?,
            print_csv: self.csv_is_printed(),
            csv: open(&self.csv.clone().filter(|_| !self.csv_is_printed()))?,
        })
    }

    fn open_pages(&self, names: &[String]) -> Result<Vec<Output>, PublishError> {
        match &self.report {
            None => Ok(Vec::new()),
            Some(file) if file.extension().is_some_and(|extension| extension == "html") => {
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

/// The files that a document goes to, open.
pub struct Files {
    json: bool,
    results: Option<Output>,
    print_csv: bool,
    csv: Option<Output>,
    pages: Vec<Output>,
}

impl Files {
    /// The file of the JSON, if there is one.
    pub fn results(&self) -> Option<&Path> {
        self.results.as_ref().map(Output::path)
    }

    /// Writes the files, then prints what is asked for: JSON, comma-separated values, or the screen with
    /// `notes` about the run and the names of the files that were written.
    ///
    /// # Errors
    /// A file or standard output cannot be written.
    pub fn publish(
        &mut self,
        document: &impl Forms,
        provenance: Option<Provenance>,
        notes: &str,
    ) -> Result<(), PublishError> {
        let document = &Published { document, provenance };
        let json =
            || to_json(document).map_err(|e| PublishError::Write(format!("no JSON of the results: {e}")));
        if let Some(results) = &mut self.results {
            results.write(json()?.as_bytes())?;
        }
        if let Some(csv) = &mut self.csv {
            csv.write(document.rows().csv().as_bytes())?;
        }
        for (number, page) in self.pages.iter_mut().enumerate() {
            page.write(document.page(number).unwrap_or_default().as_bytes())?;
        }
        if self.json {
            return print(&json()?);
        }
        if self.print_csv {
            return print(&document.rows().csv());
        }
        // In colour if standard output is a terminal and NO_COLOR is not set.
        let colour = io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none();
        let mut screen = document.screen(Look { colour, ..Look::default() }, notes);
        for file in self.results.iter().chain(&self.csv).chain(&self.pages) {
            screen.truncate(screen.trim_end().len());
            screen += &format!("\nwritten: {}\n", file.path().display());
        }
        print(&screen)
    }
}

/// Prints to standard output.
///
/// # Errors
/// [`PublishError::OutputClosed`] if its reader has gone (`| head`), which is no error worth a message;
/// otherwise [`PublishError::Write`].
pub fn print(text: &str) -> Result<(), PublishError> {
    let mut out = io::stdout().lock();
    writeln!(out, "{}", text.trim_end()).and_then(|()| out.flush()).map_err(|e| match e.kind() {
        io::ErrorKind::BrokenPipe => PublishError::OutputClosed,
        _ => PublishError::Write(format!("cannot write to standard output: {e}")),
    })
}

/// Prints a line to standard error. If that is gone, as a closed terminal is, nobody reads it.
pub fn tell(line: &str) {
    let _ = writeln!(io::stderr(), "{line}");
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
    ///
    /// # Errors
    /// [`PublishError::Destination`].
    pub fn open(path: &Path) -> Result<Self, PublishError> {
        let is_new = !path.exists();
        let file = File::options().write(true).create(true).truncate(false).open(path);
        file.map(|file| Self { path: path.to_owned(), file, is_new }).map_err(|e| {
            PublishError::Destination(format!("cannot write {}: {e}; give another path", path.display()))
        })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Replaces the contents.
    ///
    /// # Errors
    /// [`PublishError::Write`].
    pub fn write(&mut self, contents: &[u8]) -> Result<(), PublishError> {
        self.is_new = false;
        self.file
            .set_len(0)
            .and_then(|()| self.file.write_all(contents))
            .map_err(|e| PublishError::Write(format!("cannot write {}: {e}", self.path.display())))
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
