//! The help of the command: its jobs, and what its flags are about.

use std::fmt::Write;

/// The jobs, and the commands that do them. Every command is in exactly one group.
pub const GROUPS: [(&str, &[&str]); 5] = [
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
            "agent",
            "lab",
            "audit",
        ],
    ),
    ("Cards", &["device", "conformance"]),
    ("Studies", &["study", "list"]),
    ("Apps", &["forward", "bridge", "route", "nat"]),
];

/// Commands that belong to no job.
pub const OTHER: (&str, &[&str]) = ("Other", &["schema", "man", "completions"]);

/// The topics of flags, in the order of a command's help. The remaining flags are the command's own, and
/// stand first.
pub const HEADINGS: [(&str, &str); 13] = [
    ("Testbed", "ports testbed clock driver-module noise seed"),
    ("Machine", "machine chip nic driver app one-way set cpu-counts shared-lines"),
    ("Load", "load shape vary shard on bidirectional replies count rewrite stream"),
    ("Traffic", "size src dst ipv6 sport dport flows dscp ttl vlan encap template gateway dst-mac"),
    ("Replay", "replay speed loop map"),
    ("Search", "min max precision pdr-loss bisection max-time test repeat quick"),
    ("Time", "duration drain interval"),
    ("Device under test", "dut watch reset"),
    ("Results", "json results csv report resume capture metrics timeline pcap"),
    ("Bounds", "max-loss min-rate max-p99 max-unexplained max-shortfall retries calibration strict expect"),
    ("Cards and CPUs", "service ring cpus priority"),
    ("Agents", "from to token-file tls-ca tls-cert tls-key"),
    ("View", "live no-live every"),
];

/// The exit codes of all commands.
pub const EXIT_STATUS: [(&str, &str); 5] = [
    ("0", "Done."),
    (
        "1",
        "A check failed: a claim, a conformance case, a regression, a bound as of --max-loss, or all frames were lost; or a file could not be written.",
    ),
    ("2", "Bad input: one line says what is wrong and what is possible."),
    (
        "3",
        "A trial between two ports that is no valid measurement of the device under test. If a bound is broken as well, it is 1.",
    ),
    ("130", "Interrupted; what was measured is kept."),
];

/// A part of a section of remarks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Block<'h> {
    /// Words that may be broken into lines anywhere.
    Words(&'h str),
    /// Lines that stay as they are: commands, tables.
    Lines(Vec<&'h str>),
}

/// The remarks after a command's options in sections with their names: the examples, each table under its own
/// heading, and the rest as notes. The exit codes are left out: [`EXIT_STATUS`] has them.
pub fn sections(remarks: &str) -> Vec<(String, Vec<Block<'_>>)> {
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

/// One paragraph for each group, with the commands that `about` describes.
pub fn groups(about: impl Fn(&str) -> Option<String>) -> String {
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

/// The help of `--size`: its own text, and the text that all commands share. `mix`: it also takes mixes, and
/// whether it takes one value only. `varies`: its default depends on the app.
pub fn size(mut help: String, mix: Option<bool>, varies: bool) -> String {
    if let Some(one) = mix {
        help += "; on ports also a mix: imix-csit, imix-trex, imix-linux, imix-routers";
        help += if one { ", or sizes with weights as 64:7,570:4,1518:1" } else { "" };
    }
    help + if varies { " [default: 64; with --app vlan-route: 68]" } else { "" }
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

    #[test]
    fn a_group_without_commands_is_left_out() {
        let text = groups(|name| (name == "lab").then(|| "Compare drivers".into()));
        assert_eq!(text, "Measure:\n  lab             Compare drivers\n\n");
    }
}
