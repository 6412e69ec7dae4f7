//! Help by job, manual pages and completions, all from the definitions of the command line.

use crate::error::Failure;
use clap::{Arg, Args, Command};
use clap_complete::Shell;
use clap_mangen::roff::{Roff, bold, roman};
use kpps_report::Session;
use kpps_report::help::{self, Block, HEADINGS};
use kpps_results::file::WholeFile;
use std::path::PathBuf;

/// The command with its flags under [`HEADINGS`], and one text for the size of frames.
fn arranged(mut command: Command) -> Command {
    for (heading, names) in HEADINGS {
        for (order, name) in names.split(' ').enumerate() {
            let mut all = command.get_arguments();
            let Some(id) = all
                .find(|it| it.get_long() == Some(name) && it.get_help_heading().is_none())
                .map(|it| it.get_id().clone())
            else {
                continue;
            };
            drop(all);
            // It comes last then, so that headings stand in this order, too.
            command = command.mut_arg(id, |arg| {
                let arg = if name == "size" { with_size(arg) } else { arg };
                arg.help_heading(heading).display_order(order)
            });
        }
    }
    command.mut_subcommands(arranged)
}

/// `--size` with all that it takes, and its default.
fn with_size(arg: Arg) -> Arg {
    let help = arg.get_help().map(ToString::to_string).unwrap_or_default();
    let has_mixes = arg.get_value_names().is_some_and(|names| names.iter().any(|name| name.contains("MIX")));
    let (one, varies) = (arg.get_value_delimiter().is_none(), arg.get_default_values().is_empty());
    arg.help(help::size(help, has_mixes.then_some(one), varies))
}

/// The command with its subcommands grouped by job in its help.
pub fn grouped(command: Command) -> Command {
    let groups = groups(&command);
    let template = format!(
        "{{about-with-newline}}\n{{usage-heading}} {{usage}}\n\n{groups}Options:\n{{options}}{{after-help}}"
    );
    // A subcommand is arranged when it is used: arranging all of them would slow every start.
    let subcommand = |it: Command| it.defer(|it| arranged(with_paragraphs(it)));
    with_paragraphs(command).mut_subcommands(subcommand).help_template(template)
}

/// The command with each paragraph of its closing help in one line, so that it is wrapped at the width of the
/// terminal.
fn with_paragraphs(command: Command) -> Command {
    let Some(help) = command.get_after_help().map(ToString::to_string) else { return command };
    command.after_help(kpps_report::text::paragraphs(&help))
}

/// The names of a command's subcommands, each with its description.
fn groups(command: &Command) -> String {
    help::groups(|name| {
        let found = command.get_subcommands().find(|it| it.get_name() == name)?;
        Some(found.get_about().map(ToString::to_string).unwrap_or_default())
    })
}

/// Arguments of `kpps man`.
#[derive(Args)]
#[command(after_help = "Examples:
  kpps man | man -l -          read the page of kpps
  kpps man ~/.local/share/man/man1    install the pages of kpps and all its commands")]
pub struct ManArguments {
    /// Write the pages of kpps and of all its commands into this folder, which is created if it does not
    /// exist [default: print that of kpps]
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

/// The manual page of a command: its options by topic, its remarks and examples line by line, and the exit
/// status.
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
    for (section, blocks) in help::sections(&remarks) {
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
    for (code, what) in help::EXIT_STATUS {
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
        |line: &str| HEADINGS.into_iter().find(|(name, _)| line == format!(".SH {}", in_roff(name)));
    let lines = options.lines().map(|line| match heading(line) {
        Some((name, _)) => format!(".SS {}\n", in_roff(name)),
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
pub fn man(command: Command, arguments: &ManArguments, session: &Session) -> Result<(), Failure> {
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

/// Arguments of `kpps completions`.
#[derive(Args)]
#[command(after_help = "Examples:
  source <(kpps completions bash)
  kpps completions zsh > ~/.zfunc/_kpps")]
pub struct CompletionsArguments {
    /// The shell
    shell: Shell,
}

/// Runs `kpps completions`: prints the code with which a shell asks the command itself.
pub fn completions(arguments: &CompletionsArguments, session: &Session) -> Result<(), Failure> {
    let mut script = Vec::new();
    let name = arguments.shell.to_string();
    let shells = clap_complete::env::Shells::builtins();
    let shell = shells
        .completer(&name)
        .ok_or_else(|| Failure::Input(format!("there are no completions for {name}")))?;
    shell
        .write_registration(crate::complete::ASKED, "kpps", "kpps", "kpps", &mut script)
        .map_err(|e| Failure::Failed(format!("the completions cannot be made: {e}")))?;
    if name == "bash" {
        script.extend(COLONS.bytes());
    }
    Ok(session.print(&String::from_utf8_lossy(&script))?)
}

/// A colon ends a word for bash, unless this says otherwise (bash's FAQ, E13). The names of ports have one.
const COLONS: &str = "COMP_WORDBREAKS=${COMP_WORDBREAKS//:}\n";

#[cfg(test)]
mod tests {
    use super::*;
    use kpps_report::help::{GROUPS, OTHER};

    /// The command with all subcommands arranged, which clap puts off until they are used.
    fn built() -> Command {
        let mut command = crate::command();
        command.build();
        command
    }

    #[test]
    fn examples_fit_into_a_hundred_columns() {
        for command in built().get_subcommands() {
            let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            for line in help.lines().filter(|line| line.starts_with(' ')) {
                assert!(line.chars().count() <= 100, "{}: {line}", command.get_name());
            }
        }
    }

    #[test]
    fn flags_of_measurements_are_under_headings_and_lists_show_their_commas() {
        let (command, mut known) = (built(), Vec::new());
        let mut all: Vec<&Command> = command.get_subcommands().collect();
        all.extend(command.get_subcommands().flat_map(Command::get_subcommands));
        for command in all {
            let measures =
                ["trial", "curve", "grid", "ndr", "sizes", "rfc2544"].contains(&command.get_name());
            for arg in command.get_arguments() {
                let heading = arg.get_help_heading();
                let Some(name) = arg.get_long().filter(|name| *name != "help") else { continue };
                assert!(heading.is_some() || !measures, "{} --{name}", command.get_name());
                known.extend(heading.map(|_| name));
                if arg.get_value_delimiter().is_some() {
                    let shown = arg.get_value_names().unwrap_or_default().concat();
                    assert!(shown.contains(','), "{} --{name} <{shown}>", command.get_name());
                    let defaults = arg.get_default_values();
                    assert!(defaults.len() < 2, "{} --{name}: {defaults:?}", command.get_name());
                }
            }
        }
        if cfg!(all(target_os = "linux", feature = "ports", feature = "study")) {
            let stale =
                HEADINGS.iter().flat_map(|(_, names)| names.split(' ')).find(|name| !known.contains(name));
            assert_eq!(stale, None, "no command has it");
        }
    }

    #[test]
    fn every_command_is_in_exactly_one_group() {
        let command = crate::command();
        let all = GROUPS.into_iter().chain([OTHER]).flat_map(|(_, names)| names);
        let grouped: Vec<&str> = all.copied().collect();
        for name in command.get_subcommands().map(Command::get_name) {
            let times = grouped.iter().filter(|grouped| **grouped == name).count();
            assert_eq!(times, 1, "{name} is in {times} groups");
        }
    }
}
