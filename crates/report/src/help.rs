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

/// What flags are about, in the order of a command's help. The rest are its own, and stand first.
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
    ("Bounds", "max-loss min-rate max-p99 max-unexplained calibration strict expect"),
    ("Cards and CPUs", "service ring cpus"),
    ("Agents", "from to token-file tls-ca tls-cert tls-key"),
    ("View", "live no-live every"),
];

/// One paragraph for each group, with the commands of which `about` says what they do.
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

/// The help of `--size`: its own text, and what all commands have in common. `mix`: it also takes mixes, and
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
    fn a_group_without_commands_is_left_out() {
        let text = groups(|name| (name == "lab").then(|| "Compare drivers".into()));
        assert_eq!(text, "Measure:\n  lab             Compare drivers\n\n");
    }
}
