//! Help by job, manual pages and completions, all from the definitions of the command line.

use crate::error::Failure;
use clap::{Arg, Args, Command};
use clap_complete::Shell;
use kpps_report::Session;
use kpps_report::help::{self, HEADINGS};
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

/// The names of a command's subcommands, each with what it does.
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
    /// Write the pages of kpps and of all its commands into this folder, which is made if missing [default:
    /// print that of kpps]
    folder: Option<PathBuf>,
}

/// The pages of a command and of all below it, with the names of their files.
fn render_all(command: &Command, pages: &mut Vec<(String, Vec<u8>)>) -> std::io::Result<()> {
    let mut shown = command.get_subcommands().filter(|below| !below.is_hide_set());
    shown.try_for_each(|below| render_all(below, pages))?;
    let page = clap_mangen::Man::new(command.clone());
    let mut text = Vec::new();
    page.render(&mut text)?;
    pages.push((page.get_filename(), text));
    Ok(())
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
    let mut page = Vec::new();
    clap_mangen::Man::new(command).render(&mut page).map_err(failed)?;
    Ok(session.print(&String::from_utf8_lossy(&page))?)
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

/// Runs `kpps completions`.
pub fn completions(
    mut command: Command,
    arguments: &CompletionsArguments,
    session: &Session,
) -> Result<(), Failure> {
    let mut script = Vec::new();
    clap_complete::generate(arguments.shell, &mut command, "kpps", &mut script);
    Ok(session.print(&String::from_utf8_lossy(&script))?)
}

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
