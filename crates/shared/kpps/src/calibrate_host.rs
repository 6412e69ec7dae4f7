//! `kpps calibrate-host`: the costs of a frame and an interrupt on a machine, from curves measured on it, or
//! measured here on a device between two ports.

use crate::error::Failure;
use crate::heading;
use crate::live::OpenTestbed;
use crate::output::Outputs;
use crate::ports::{PortOptions, PortPair, Ports};
use crate::session::Session;
use crate::simulator::{Machine, OnTop};
use crate::typed::Typed;
use clap::Args;
use kpps_documents::Environment;
use kpps_documents::host::HostCalibration;
use kpps_frames::Size;
use kpps_methods::cost::{FrameCost, Rounds};
use kpps_methods::{Error, Load, units};
use kpps_rendering::live::Progress;
use kpps_sim::calibrate::{CalibrateError, Measured, calibrate, profiles};
use kpps_sim::{AppKind, Choice};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Arguments of `kpps calibrate-host`.
#[derive(Args)]
#[command(
    mut_arg("machine", |machine| machine.help("The machine to begin with: a name (`kpps list machines`) or a .toml \
        file [default: morris2000; with --ports the server of today with a CPU like this host's]")),
    mut_arg("driver", |driver| driver.help("The driver preset: a name (`kpps list drivers`) or a .toml file [default: \
        kpps; with --ports the first of the machine's]")),
    after_help = "Examples:
  kpps calibrate-host --ports packet:A,packet:B --app bridge --save mine
  kpps curve --machine mine/machine.toml --app bridge

  kpps curve --testbed lab:linux-6.1/e1000 --results w64.json
  kpps curve --testbed lab:linux-6.1/e1000 --driver-module e1000-w8.ko --results w8.json
  kpps curve --testbed lab:linux-6.1/e1000 --set linux.RxDescriptors=80 --results ring80.json
  kpps calibrate-host w64.json w8.json,driver.weight=8 --save mine \\
      --machine lab-e1000 --driver linux-6.1-e1000 \\
      --check ring80.json,driver.rx_ring=80
  kpps curve --machine mine/machine.toml --set driver.rx_ring=80

With --ports kpps sends as fast as it can through the device between the ports. A device on a host of its own
must lose more than 5 % of the frames then: kpps takes one CPU of it for busy all the time. A device on this host,
between two veths, works on the CPU of the sender: kpps also sends over a cable that it lays for this, without a
device, and the difference is the device's.

Of files kpps uses the CPU time for a delivered frame at each point. If the device's CPU was not observed, as
between two ports, kpps uses only points with a loss of more than 5 %, and assumes that the CPU was busy all the
time. So leave out curves with another cause of loss, such as a short ring. Measure light and heavy loads, and
two settings that give the CPU different work."
)]
pub struct Arguments {
    /// Documents of `kpps curve`, each with the settings that the machine had
    #[arg(required_unless_present = "ports", value_name = "FILE[,PATH=VALUE…]")]
    curves: Vec<String>,
    /// Also predict this curve of `kpps curve`, which has no part in finding the constants, and show how
    /// far off the prediction is. May be given several times
    #[arg(long, value_name = "FILE[,PATH=VALUE…]")]
    check: Vec<String>,
    /// Measure here: two ports; the device whose costs are wanted lies between them
    #[arg(long, value_delimiter = ',', value_name = "PORT,PORT", conflicts_with_all = ["curves", "check"], help_heading = heading::TESTBED)]
    ports: Vec<String>,
    #[command(flatten)]
    here: Typed<Here>,
    /// Write host.toml, stack.toml and machine.toml into this folder, which is created if it does not exist
    #[arg(long, value_name = "FOLDER", help_heading = heading::RESULTS)]
    save: Option<PathBuf>,
    #[command(flatten)]
    machine: Machine,
    #[command(flatten)]
    outputs: Outputs,
}

/// Options of a measurement between two ports.
#[derive(Args)]
struct Here {
    /// The app that the device runs: bridge, route (IPv4), vlan-route or nat
    #[arg(long, default_value = "bridge", help_heading = heading::DEVICE_UNDER_TEST)]
    app: AppKind,
    /// Frame sizes from which the costs are found, in bytes with FCS [default: 64 and 1518 between veths,
    /// otherwise 64]
    #[arg(long, value_name = "SIZE,…", value_delimiter = ',', value_parser = units::size, help_heading = heading::TRAFFIC)]
    size: Vec<Size>,
    /// Frame size that has no part in finding the costs; kpps shows how far off its prediction is [default:
    /// 512 between veths, otherwise 96]
    #[arg(long, value_name = "SIZE", value_parser = units::size, help_heading = heading::TRAFFIC)]
    check_size: Option<Size>,
    /// How long each of the five trials of a size lasts
    #[arg(long, value_name = "TIME", default_value = "500ms", value_parser = units::duration, help_heading = heading::TIME)]
    duration: Duration,
    #[command(flatten)]
    pair: PortPair,
    #[command(flatten)]
    options: PortOptions,
}

/// Options of two ports that have no effect here.
const WITHOUT_EFFECT: [&str; 5] = ["bidirectional", "replies", "metrics", "retries", "max-shortfall"];
/// Trials of a size, of which the median counts.
const ROUNDS: usize = 5;

/// The measurements, and how they are named in the files of the machine.
struct Given {
    base: Choice,
    curves: Vec<Measured>,
    checks: Vec<Measured>,
    environment: Option<Environment>,
    on: String,
}

/// Runs `kpps calibrate-host`.
pub fn run(arguments: Arguments, session: &Session) -> Result<(), Failure> {
    let Arguments { curves, check, ports, here, save, machine, outputs } = arguments;
    let input = |error: CalibrateError| Failure::Input(error.to_string());
    let base = machine.with_one_driver(OnTop::default())?;
    let (mut files, given) = match ports.is_empty() {
        false => {
            if let Some(option) = here.names().find(|name| WITHOUT_EFFECT.contains(name)) {
                return Err(Failure::Input(format!(
                    "--{option} has no effect on this measurement, which floods the device in one direction: leave it out"
                )));
            }
            let files = outputs.open(session, "calibrate-host")?;
            (files, measured_here(&ports, here.options(), base, session)?)
        }
        true => {
            if let Some(option) = here.first() {
                return Err(Failure::Input(format!(
                    "{option} is for a measurement on two ports: give --ports"
                )));
            }
            let read = |files: &[String]| -> Result<Vec<_>, Failure> {
                files.iter().map(|it| Measured::read(it, &base).map_err(input)).collect()
            };
            let (on, curves, checks) = (curves.join(" "), read(&curves)?, read(&check)?);
            let given = Given { base, curves, checks, environment: None, on };
            (outputs.open(session, "calibrate-host")?, given)
        }
    };
    session.watch();
    let progress = Progress::default();
    let view = session.line(progress.clone());
    let done = |done, of| progress.stands_at(done, of);
    let found = calibrate(&given.curves, &given.checks, &|| session.goes_on(), &done);
    drop(view);
    let found = HostCalibration { environment: given.environment, ..found.map_err(input)? };
    files.publish(&found, "")?;
    if !session.goes_on() {
        return Err(Failure::Interrupted("interrupted: these constants are the best so far".into()));
    }
    if let Some(folder) = &save {
        let failed = |path: &Path, why| Failure::Failed(format!("cannot write {}: {why}", path.display()));
        std::fs::create_dir_all(folder).map_err(|why| failed(folder, why))?;
        for (name, text) in profiles(&found, &given.base, &given.on)? {
            let path = folder.join(name);
            std::fs::write(&path, text).map_err(|why| failed(&path, why))?;
        }
    }
    match found.complete {
        true => Ok(()),
        false => Err(Failure::Check("the search did not end: these constants are the best so far".into())),
    }
}

/// Measures the cost of a frame of each size in the device between these ports.
fn measured_here(names: &[String], here: Here, base: Choice, session: &Session) -> Result<Given, Failure> {
    let Here { app, size: sizes, check_size, duration, pair, options } = here;
    let machine = base.machine.clone().unwrap_or_else(|| like_this_host().into());
    let base = Choice { machine: Some(machine), app: Some(app), one_way: true, ..base };
    let base = base.with_machines_driver()?;
    let ports = Ports::resolve(names, pair, options)?;
    if ports.has_streams() {
        return Err(Failure::Input(
            "--streams has no effect: kpps calibrate-host chooses the sizes of frames itself".into(),
        ));
    }
    ports.refuse_several("`kpps calibrate-host`")?;
    let between_veths = ports.are_veths_here();
    let bytes =
        |bytes: u16| Size::with_fcs(bytes).max(ports.size().unwrap_or(Size::MIN)).max(base.default_size());
    let (usual, usual_check): (&[u16], u16) = if between_veths { (&[64, 1518], 512) } else { (&[64], 96) };
    let sizes = if sizes.is_empty() { usual.iter().map(|size| bytes(*size)).collect() } else { sizes };
    let check_size = check_size.unwrap_or_else(|| bytes(usual_check));
    let all: Vec<Size> = sizes.iter().copied().chain([check_size]).collect();
    let in_words: Vec<String> = all.iter().map(|size| format!("size {}", size.bytes_with_fcs())).collect();
    kpps_methods::refuse_twice(in_words.iter().map(String::as_str))?;
    // A machine that cannot be calibrated is refused before anything is measured.
    let check =
        |size: &Size| Measured::check(*size, &base).map_err(|error| Failure::Input(error.to_string()));
    all.iter().try_for_each(check)?;
    let OpenTestbed { mut testbed, environment, .. } = ports.testbed(session)?;
    let mut bare = if between_veths { Some(ports.bare(session)?) } else { None };
    session.watch();
    let progress = Progress::of(format!("kpps calibrate-host: {}", names.join(",")));
    progress.wants(all.len() * ROUNDS * if between_veths { 2 } else { 1 });
    let view = session.line(progress.clone());
    let mut measured = Vec::new();
    for size in all {
        let load = Load::of(0.0, size).lasting_ms(0, units::millis(duration));
        let rounds = Rounds { rounds: ROUNDS, load, go_on: &|| session.goes_on(), observer: &progress };
        let cost = rounds.measure(&mut *testbed, bare.as_deref_mut());
        let cost = cost.map_err(|error| match (Error::from(error), so_far(&measured)) {
            (error, None) => error.into(),
            (Error::Interrupted, Some(costs)) => Failure::Interrupted(format!("interrupted; {costs}")),
            (error, Some(costs)) => error.with(&costs).into(),
        })?;
        measured.push((size, cost));
    }
    drop(view);
    let of_cost = |(size, cost): &(Size, FrameCost)| Measured::of_cost(*size, cost, base.clone());
    let mut curves: Vec<Measured> = measured.iter().map(of_cost).collect();
    let checks = curves.split_off(sizes.len());
    let environment =
        Environment { duration_s: Some(duration.as_secs_f64()), app: base.app_name(), ..environment };
    Ok(Given { base, curves, checks, environment: Some(environment), on: names.join(",") })
}

/// The costs so far, in words.
fn so_far(measured: &[(Size, FrameCost)]) -> Option<String> {
    let costs =
        measured.iter().map(|(size, cost)| format!("{:.0} ns for {} B", cost.ns, size.bytes_with_fcs()));
    let costs = costs.collect::<Vec<_>>().join(", ");
    (!costs.is_empty()).then(|| format!("measured before: a frame takes {costs}"))
}

/// The built-in server of today whose CPU is of the same maker as this host's.
fn like_this_host() -> &'static str {
    if cfg!(target_arch = "aarch64") {
        return "graviton2";
    }
    let cpus = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    if cpus.contains("AuthenticAMD") { "epyc-7r13" } else { "xeon-8375c" }
}
