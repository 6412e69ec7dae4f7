//! The completions of a value in a shell: names of profiles and studies, interfaces, ports. The shell asks
//! the command itself, so the values are those of this build and of this host.

use clap::{Arg, Command};
use clap_complete::engine::{ArgValueCompleter, CompletionCandidate};
use kpps_profiles::Kind;
use std::ffi::OsStr;

/// The variable by which a shell asks for completions.
pub const ASKED: &str = "COMPLETE";

/// Where a system has its interfaces.
const INTERFACES: &str = "/sys/class/net";

/// The argument of this command with the completions of its values, if they are known.
fn with_values(command: &str, arg: Arg) -> Arg {
    let name = arg.get_long().unwrap_or(arg.get_id().as_str());
    let Some(values) = of_guests(command, name).or_else(|| of_any(name)) else { return arg };
    arg.add(ArgValueCompleter::new(move |typed: &OsStr| offered(values(), typed)))
}

/// The values of an argument, by its name.
fn of_any(name: &str) -> Option<fn() -> Vec<String>> {
    Some(match name {
        "machine" => || kpps_profiles::names(Kind::Machine),
        "chip" => || kpps_profiles::names(Kind::Chip),
        "nic" => || kpps_profiles::names(Kind::Nic),
        "driver" => || kpps_profiles::names(Kind::Driver),
        #[cfg(feature = "study")]
        "studies" => kpps_study::names,
        "name" => || Kind::ALL.into_iter().flat_map(kpps_profiles::names).collect(),
        "ports" | "port" | "from_port" | "to_port" => ports,
        "watch" => interfaces,
        "app" => || kpps_sim::AppKind::ALL.map(|app| app.name().to_owned()).to_vec(),
        "service" => || ["kpps", "napi", "polling"].map(str::to_owned).to_vec(),
        "testbed" => || {
            let machines = kpps_profiles::names(Kind::Machine).into_iter();
            machines.map(|machine| format!("sim:{machine}")).collect()
        },
        _ => return None,
    })
}

/// The values of an argument of `kpps lab` or `kpps audit`, whose drivers run in a guest and are no presets.
#[cfg(all(target_os = "linux", feature = "ports"))]
fn of_guests(command: &str, name: &str) -> Option<fn() -> Vec<String>> {
    use kpps_qemu::lab::{
        Model,
        workload::{Driver, Work},
    };
    Some(match name {
        _ if !["lab", "audit"].contains(&command) => return None,
        "driver" => || Driver::ALL.iter().map(|it| it.name().to_owned()).collect(),
        "workload" => || Work::ALL.iter().map(|it| it.name().to_owned()).collect(),
        "device" => || Model::ALL.iter().map(|it| it.name().to_owned()).collect(),
        _ => return None,
    })
}

#[cfg(not(all(target_os = "linux", feature = "ports")))]
fn of_guests(_: &str, _: &str) -> Option<fn() -> Vec<String>> {
    None
}

/// The values that begin as what was typed. Of several with commas between them, the last one is completed.
fn offered(values: Vec<String>, typed: &OsStr) -> Vec<CompletionCandidate> {
    let typed = typed.to_string_lossy();
    let (before, begun) = typed.rfind(',').map_or(("", &*typed), |comma| typed.split_at(comma + 1));
    let fits = values.into_iter().filter(|value| value.starts_with(begun));
    fits.map(|value| CompletionCandidate::new(format!("{before}{value}"))).collect()
}

/// The interfaces of this host; none if it does not say.
fn interfaces() -> Vec<String> {
    let folder = std::fs::read_dir(INTERFACES).into_iter().flatten().flatten();
    let mut names: Vec<_> = folder.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    names.sort();
    names
}

/// The ports that this host's interfaces can be.
fn ports() -> Vec<String> {
    let kinds = ["auto", "packet", "xdp"];
    kinds.iter().flat_map(|kind| interfaces().into_iter().map(move |name| format!("{kind}:{name}"))).collect()
}

/// Answers a shell that asks for completions, and ends the process then.
pub fn answer() {
    if std::env::var_os(ASKED).is_some() {
        clap_complete::CompleteEnv::with_factory(commands).var(ASKED).bin("kpps").complete();
    }
}

/// The command with the completions for the values of all its commands.
fn commands() -> Command {
    let mut command = crate::command();
    command.build();
    values_of_all(command)
}

fn values_of_all(command: Command) -> Command {
    let name = command.get_name().to_owned();
    command.mut_args(|arg| with_values(&name, arg)).mut_subcommands(values_of_all)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(values: &[&str], typed: &str) -> Vec<String> {
        let values = values.iter().map(|value| (*value).to_owned()).collect();
        let all = offered(values, OsStr::new(typed));
        all.iter().map(|it| it.get_value().to_string_lossy().into_owned()).collect()
    }

    #[test]
    fn the_last_of_several_values_is_completed() {
        assert_eq!(of(&["kpps", "rdr", "rdr2"], "rd"), ["rdr", "rdr2"]);
        assert_eq!(of(&["kpps", "rdr"], "kpps,"), ["kpps,kpps", "kpps,rdr"]);
        assert_eq!(of(&["packet:lo", "xdp:lo"], "packet:a,x"), ["packet:a,xdp:lo"]);
        assert!(of(&["kpps"], "x").is_empty());
    }
}
