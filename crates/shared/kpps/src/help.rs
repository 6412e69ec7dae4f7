//! The help: commands by job, options under their headings.

use crate::heading;
use clap::{Arg, Command};
use std::fmt::Write;

/// The jobs, and the commands that do them. Every command is in exactly one group.
const GROUPS: [(&str, &[&str]); 5] = [
    (
        "Simulate",
        &["curve", "grid", "transmit", "scale", "profile", "trace", "calibrate-host", "simulate-faults"],
    ),
    (
        "Measure",
        &[
            "trial",
            "ndr",
            "sizes",
            "rfc2544",
            "compare",
            "merge",
            "calibrate",
            "send",
            "count",
            "connections",
            "agent",
            "otg",
            "lab",
            "audit",
        ],
    ),
    ("Cards", &["device", "dpdk", "conformance"]),
    ("Studies", &["study", "list"]),
    ("Apps", &["forward", "bridge", "route", "nat"]),
];

/// Commands that belong to no job.
const OTHER: (&str, &[&str]) = ("Other", &["schema", "man", "completions"]);

/// The command with its options in the order of their headings, and one text for the size of frames.
fn arranged(mut command: Command) -> Command {
    for heading in heading::ORDER {
        let of_heading = command.get_arguments().filter(|arg| arg.get_help_heading() == Some(heading));
        let ids: Vec<_> = of_heading.map(|arg| arg.get_id().clone()).collect();
        for id in ids {
            // It comes last then, so that headings stand in this order, too.
            let is_size = id == "size";
            command = command.mut_arg(id, |arg| if is_size { with_size(arg) } else { arg });
        }
    }
    command.mut_subcommands(arranged)
}

/// `--size` with all that it takes, and its default.
fn with_size(arg: Arg) -> Arg {
    let mut help = arg.get_help().map(ToString::to_string).unwrap_or_default();
    let has_mixes = arg.get_value_names().is_some_and(|names| names.iter().any(|name| name.contains("MIX")));
    if has_mixes {
        help += "; on ports also a mix: imix-csit, imix-trex, imix-linux, imix-routers";
        let takes_one = arg.get_value_delimiter().is_none();
        help += if takes_one { ", or sizes with weights as 64:7,570:4,1518:1" } else { "" };
    }
    // The default depends on the app, if the option does not name another.
    let names_default = help.contains("[default:") || !arg.get_default_values().is_empty();
    help += if names_default { "" } else { " [default: 64; with --app vlan-route: 68]" };
    arg.help(help)
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
    command.after_help(kpps_rendering::text::paragraphs(&help))
}

/// One paragraph for each group that has commands, each command with what it does.
fn groups(command: &Command) -> String {
    let about = |name: &str| {
        let found = command.get_subcommands().find(|it| it.get_name() == name)?;
        Some(found.get_about().map(ToString::to_string).unwrap_or_default())
    };
    let mut text = String::new();
    for (heading, names) in GROUPS.into_iter().chain([OTHER]) {
        let commands: Vec<_> = names.iter().filter_map(|name| Some((name, about(name)?))).collect();
        if !commands.is_empty() {
            let _ = writeln!(text, "{heading}:");
            for (name, about) in commands {
                let _ = writeln!(text, "  {name:<15} {about}");
            }
            text.push('\n');
        }
    }
    text
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use std::collections::BTreeSet;
    use std::path::Path;

    /// The root of the workspace.
    fn root() -> &'static Path {
        Path::new(env!("CARGO_MANIFEST_DIR"))
            .ancestors()
            .find(|folder| folder.join("Cargo.lock").is_file())
            .unwrap()
    }

    /// The command with all subcommands arranged, which clap puts off until they are used.
    fn built() -> Command {
        let mut command = crate::command();
        command.build();
        command
    }

    /// The subcommands of a command, and those below them.
    fn subcommands(command: &Command) -> impl Iterator<Item = &Command> {
        command.get_subcommands().chain(command.get_subcommands().flat_map(Command::get_subcommands))
    }

    #[test]
    fn a_group_without_commands_is_left_out() {
        let command = Command::new("kpps").subcommand(Command::new("lab").about("Compare drivers"));
        assert_eq!(groups(&command), "Measure:\n  lab             Compare drivers\n\n");
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
        for command in subcommands(&command) {
            let measures =
                ["trial", "curve", "grid", "ndr", "sizes", "rfc2544"].contains(&command.get_name());
            for arg in command.get_arguments() {
                let heading = arg.get_help_heading();
                let Some(name) = arg.get_long().filter(|name| *name != "help") else { continue };
                assert!(heading.is_some() || !measures, "{} --{name}", command.get_name());
                known.extend(heading);
                if arg.get_value_delimiter().is_some() {
                    let shown = arg.get_value_names().unwrap_or_default().concat();
                    assert!(shown.contains(','), "{} --{name} <{shown}>", command.get_name());
                    let defaults = arg.get_default_values();
                    assert!(defaults.len() < 2, "{} --{name}: {defaults:?}", command.get_name());
                }
            }
        }
        if cfg!(all(target_os = "linux", feature = "ports")) {
            known.sort_unstable();
            known.dedup();
            let mut all = heading::ORDER.to_vec();
            all.sort_unstable();
            assert_eq!(known, all, "headings of options, and those that have a place in the order");
        }
    }

    /// The string literals of Rust code without comments, up to the tests of the file.
    fn literals(code: &str) -> Vec<String> {
        let end = code.find("#[cfg(test)]\nmod tests").unwrap_or(code.len());
        let is_code = |line: &&str| !line.trim_start().starts_with("//");
        let code = code[..end].lines().filter(is_code).collect::<Vec<_>>().join("\n");
        let (mut found, mut chars) = (Vec::new(), code.chars());
        while let Some(c) = chars.next() {
            match c {
                // The characters '"' and '\'' begin no string.
                '\'' => drop(chars.clone().nth(1).filter(|c| *c == '\'').map(|_| chars.nth(1))),
                '"' => {
                    let mut literal = String::new();
                    while let Some(c) = chars.next().filter(|c| *c != '"') {
                        literal.extend((c == '\\').then(|| chars.next()).flatten().or(Some(c)));
                    }
                    found.push(literal);
                }
                _ => {}
            }
        }
        found
    }

    /// The part of a text that stands outside of whole command lines: those in backticks, and those that
    /// begin with the name of this command.
    fn outside_commands(text: &str) -> String {
        let outside: String = text.split('`').step_by(2).collect();
        outside.lines().map(|line| line.split("kpps ").next().unwrap_or(line)).collect()
    }

    /// Libraries know no option of the command, but in whole commands that are to be typed.
    #[test]
    fn no_library_names_an_option() {
        let command = built();
        let options: BTreeSet<_> = subcommands(&command)
            .flat_map(Command::get_arguments)
            .filter_map(|arg| Some(format!("--{}", arg.get_long()?)))
            .collect();
        // These files start other programs, or kpps in a guest, or make arguments that repeat a
        // measurement.
        let starts =
            ["qemu/src/process.rs", "qemu/src/lab/apt.rs", "qemu/src/lab/workload", "study/src/choose.rs"];
        let (mut files, mut found, mut folders) = (0, Vec::new(), vec![root().join("crates")]);
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                let name = path.to_string_lossy().into_owned();
                let is_left_out = starts.iter().any(|it| name.contains(it));
                if path.is_dir() && !path.ends_with("crates/shared/kpps") && !is_left_out {
                    folders.push(path);
                } else if name.contains("/src/") && name.ends_with(".rs") && !is_left_out {
                    files += 1;
                    for text in literals(&std::fs::read_to_string(&path).unwrap()) {
                        let text = outside_commands(&text);
                        let mut words = text.split(|c: char| !c.is_alphanumeric() && c != '-');
                        let option = words.find(|word| options.contains(*word));
                        found.extend(option.map(|_| format!("{name}: {text}")));
                    }
                }
            }
        }
        assert!(files > 300 && found.is_empty(), "{files} files; {found:#?}");
    }

    #[test]
    fn options_are_found_in_strings_only() {
        let code =
            "// \"--json\"\nlet x = ('\"', \"give \\\"--json\\\"\", 'a);\nf(\"`kpps a --csv` and --csv\")";
        let found: Vec<_> = literals(code).iter().map(|text| outside_commands(text)).collect();
        assert_eq!(found, ["give \"--json\"", " and --csv"]);
        assert_eq!(outside_commands("again: kpps a --csv"), "again: ");
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
