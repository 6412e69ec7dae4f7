//! Manual pages, from the definitions of the command line.

use crate::error::Failure;
use crate::heading;
use crate::session::Session;
use clap::{Args, Command};
use clap_mangen::roff::{Roff, bold, roman};
use kpps_documents::file::WholeFile;
use std::path::PathBuf;

/// The exit codes of all commands.
const EXIT_STATUS: [(&str, &str); 5] = [
    ("0", "Done."),
    (
        "1",
        "A check failed: a claim, a conformance case, a regression or a bound such as --max-loss; or all frames were lost; or a file could not be written.",
    ),
    ("2", "Bad input: one line names the mistake and the valid values."),
    (
        "3",
        "A trial between two ports is no valid measurement of the device under test. If the trial also breaks a bound, the exit code is 1.",
    ),
    ("130", "Interrupted; what was measured is kept."),
];

/// Arguments of `kpps man`.
#[derive(Args)]
#[command(after_help = "Examples:
  kpps man | man -l -          read the page of kpps
  kpps man ~/.local/share/man/man1    install the pages of kpps and all its commands")]
pub struct Arguments {
    /// Write the pages of kpps and of all its commands into this folder, which is created if it does not
    /// exist [default: print the page of kpps]
    folder: Option<PathBuf>,
}

/// The pages of a command and of all below it, with the names of their files.
fn render_all(command: &Command, pages: &mut Vec<(String, Vec<u8>)>) -> std::io::Result<()> {
    let mut shown = command.get_subcommands().filter(|below| !below.is_hide_set());
    shown.try_for_each(|below| render_all(below, pages))?;
    let name = clap_mangen::Man::new(command.clone()).get_filename();
    pages.push((name, page(command)?));
    Ok(())
}

/// The manual page of a command: its options by what they are about, its remarks and examples line by line,
/// and the exit status.
fn page(command: &Command) -> std::io::Result<Vec<u8>> {
    let man = clap_mangen::Man::new(command.clone());
    let mut text = Vec::new();
    man.render_title(&mut text)?;
    man.render_name_section(&mut text)?;
    let usage = command.clone().render_usage().to_string();
    let remarks = command.get_after_help().map(ToString::to_string).unwrap_or_default();
    let mut roff = Roff::new();
    roff.control("SH", ["SYNOPSIS"]);
    roff.control("nf", []);
    for line in usage.trim_start_matches("Usage:").lines() {
        roff.text([bold(line.trim())]);
    }
    roff.control("fi", []);
    roff.to_writer(&mut text)?;
    man.render_description_section(&mut text)?;
    let mut options = Vec::new();
    man.render_options_section(&mut options)?;
    text.extend(with_groups(&String::from_utf8_lossy(&options)).bytes());
    if command.has_subcommands() {
        man.render_subcommands_section(&mut text)?;
    }
    let mut roff = Roff::new();
    for (section, blocks) in sections(&remarks) {
        roff.control("SH", [section.to_uppercase().as_str()]);
        for block in blocks {
            match block {
                Block::Words(words) => {
                    roff.control("PP", []);
                    roff.text([roman(words)]);
                }
                Block::Lines(lines) => {
                    roff.control("PP", []);
                    roff.control("nf", []);
                    lines.iter().for_each(|line| _ = roff.text([roman(*line)]));
                    roff.control("fi", []);
                }
            }
        }
    }
    roff.control("SH", ["EXIT STATUS"]);
    for (code, what) in EXIT_STATUS {
        roff.control("TP", []);
        roff.text([bold(code)]);
        roff.text([roman(what)]);
    }
    roff.to_writer(&mut text)?;
    Ok(text)
}

/// A section of options with the headings of their groups as headings within it.
fn with_groups(options: &str) -> String {
    let heading =
        |line: &str| heading::ORDER.into_iter().find(|name| line == format!(".SH {}", in_roff(name)));
    let lines = options.lines().map(|line| match heading(line) {
        Some(name) => format!(".SS {}\n", in_roff(name)),
        None => format!("{line}\n"),
    });
    lines.collect()
}

/// The name of a section as clap's pages have it.
fn in_roff(name: &str) -> String {
    let name = name.to_uppercase();
    if name.contains(' ') { format!("\"{name}\"") } else { name }
}

/// Runs `kpps man`.
pub fn run(command: Command, arguments: &Arguments, session: &Session) -> Result<(), Failure> {
    let failed = |e: std::io::Error| Failure::Failed(format!("the manual pages cannot be written: {e}"));
    if let Some(folder) = &arguments.folder {
        std::fs::create_dir_all(folder)
            .map_err(|e| Failure::Input(format!("cannot make the folder {}: {e}", folder.display())))?;
        let (mut command, mut pages) = (command.disable_help_subcommand(true), Vec::new());
        command.build();
        render_all(&command, &mut pages).map_err(failed)?;
        // An installed page is replaced as a whole.
        let write = |(name, page): &(String, Vec<u8>)| WholeFile::open(&folder.join(name))?.write(page);
        return pages.iter().try_for_each(write).map_err(failed);
    }
    let text = page(&command).map_err(failed)?;
    Ok(session.print(&String::from_utf8_lossy(&text))?)
}

/// A part of a section of remarks.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Block<'h> {
    /// Words that may be broken into lines anywhere.
    Words(&'h str),
    /// Lines that stay as they are: commands, tables.
    Lines(Vec<&'h str>),
}

/// The remarks after a command's options in sections with their names: the examples, each table under its own
/// heading, and the rest as notes. The exit codes are left out: [`EXIT_STATUS`] has them.
fn sections(remarks: &str) -> Vec<(String, Vec<Block<'_>>)> {
    let mut sections: Vec<(String, Vec<Block<'_>>)> = Vec::new();
    let mut add = |name: &str, block| match sections.iter_mut().find(|(known, _)| known == name) {
        Some((_, blocks)) => blocks.push(block),
        None => sections.push((name.to_owned(), vec![block])),
    };
    let paragraphs = remarks.split("\n\n").filter(|paragraph| !paragraph.trim().is_empty());
    let mut last = "Notes".to_owned();
    for paragraph in paragraphs.filter(|paragraph| !paragraph.starts_with("Exit codes:")) {
        let (words, lines): (Vec<&str>, Vec<&str>) =
            paragraph.lines().partition(|line| !line.starts_with(' '));
        let heading = words.first().map(|heading| heading.trim_end_matches(':'));
        let has_commands = lines.iter().any(|line| line.trim_start().starts_with("kpps "));
        match heading {
            _ if lines.is_empty() => words.into_iter().for_each(|line| add("Notes", Block::Words(line))),
            Some("Examples") => add("Examples", Block::Lines(lines)),
            // The purpose of an example.
            Some(_) if has_commands => {
                words.into_iter().for_each(|line| add("Examples", Block::Words(line)));
                add("Examples", Block::Lines(lines));
            }
            Some(heading) => {
                heading.clone_into(&mut last);
                add(heading, Block::Lines(lines));
                words[1..].iter().for_each(|line| add(heading, Block::Words(line)));
            }
            None => add(&last, Block::Lines(lines)),
        }
    }
    // Examples come last, as in all manuals.
    sections.sort_by_key(|(name, _)| name == "Examples");
    sections
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn remarks_are_in_sections_of_their_own() {
        let remarks = "Examples:
  kpps a           first
      second line

Through a router:
  kpps b

Words that may be broken.

Ports:
  uio:ADDRESS      a card
  packet:NAME      an interface

Exit codes: 0 done";
        let examples = vec![
            Block::Lines(vec!["  kpps a           first", "      second line"]),
            Block::Words("Through a router:"),
            Block::Lines(vec!["  kpps b"]),
        ];
        let ports = vec![Block::Lines(vec!["  uio:ADDRESS      a card", "  packet:NAME      an interface"])];
        let notes = vec![Block::Words("Words that may be broken.")];
        let expected = [("Notes", notes), ("Ports", ports), ("Examples", examples)]
            .map(|(name, it)| (name.to_owned(), it));
        assert_eq!(sections(remarks), expected);
        assert!(sections("").is_empty());
    }
}
