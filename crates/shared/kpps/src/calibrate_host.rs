//! `kpps calibrate-host`: the costs of a frame and an interrupt on a machine, from curves measured on it.

use crate::error::Failure;
use crate::heading;
use crate::output::Outputs;
use crate::session::Session;
use crate::simulator::{Machine, OnTop};
use clap::Args;
use kpps_rendering::live::Progress;
use kpps_sim::calibrate::{CalibrateError, Measured, calibrate, profiles};
use std::path::{Path, PathBuf};

/// Arguments of `kpps calibrate-host`.
#[derive(Args)]
#[command(after_help = "Examples:
  kpps curve --testbed lab:linux-6.1/e1000 --results w64.json
  kpps curve --testbed lab:linux-6.1/e1000 --driver-module e1000-w8.ko --results w8.json
  kpps curve --testbed lab:linux-6.1/e1000 --set linux.RxDescriptors=80 --results ring80.json
  kpps calibrate-host w64.json w8.json,driver.weight=8 --to mine \\
      --machine lab-e1000 --driver linux-6.1-e1000 \\
      --check ring80.json,driver.rx_ring=80
  kpps curve --machine mine/machine.toml --set driver.rx_ring=80

kpps uses the CPU time for a delivered frame at each point. If the CPU was not observed, kpps uses only points
with a loss of more than 5 %, and assumes that the CPU was busy all the time. So leave out curves with another
cause of loss, such as a short ring. Measure light and heavy loads, and two settings that give the CPU different
work.")]
pub struct Arguments {
    /// Documents of `kpps curve`, each with the settings that the machine had
    #[arg(required = true, value_name = "FILE[,PATH=VALUE…]")]
    curves: Vec<String>,
    /// Also predict this curve of `kpps curve`, which has no part in finding the constants, and show how
    /// far off the prediction is. May be given several times
    #[arg(long, value_name = "FILE[,PATH=VALUE…]")]
    check: Vec<String>,
    /// Write host.toml, stack.toml and machine.toml into this folder, which is created if it does not exist
    #[arg(long, value_name = "FOLDER", help_heading = heading::RESULTS)]
    to: Option<PathBuf>,
    #[command(flatten)]
    machine: Machine,
    #[command(flatten)]
    outputs: Outputs,
}

/// Runs `kpps calibrate-host`.
pub fn run(arguments: &Arguments, session: &Session) -> Result<(), Failure> {
    let input = |error: CalibrateError| Failure::Input(error.to_string());
    let base = arguments.machine.with_one_driver(OnTop::default())?;
    let read = |files: &[String]| -> Result<Vec<_>, Failure> {
        files.iter().map(|it| Measured::read(it, &base).map_err(input)).collect()
    };
    let (curves, checks) = (read(&arguments.curves)?, read(&arguments.check)?);
    let mut files = arguments.outputs.open(session, "calibrate-host")?;
    session.watch();
    let progress = Progress::default();
    let view = session.line(progress.clone());
    let found = calibrate(&curves, &checks, &|| session.goes_on(), &|done, of| progress.stands_at(done, of));
    drop(view);
    let found = found.map_err(input)?;
    files.publish(&found, "")?;
    if !session.goes_on() {
        return Err(Failure::Interrupted("interrupted: these constants are the best so far".into()));
    }
    if let Some(folder) = &arguments.to {
        let failed = |path: &Path, why| Failure::Failed(format!("cannot write {}: {why}", path.display()));
        std::fs::create_dir_all(folder).map_err(|why| failed(folder, why))?;
        for (name, text) in profiles(&found, &base, &arguments.curves.join(" "))? {
            let path = folder.join(name);
            std::fs::write(&path, text).map_err(|why| failed(&path, why))?;
        }
    }
    match found.complete {
        true => Ok(()),
        false => Err(Failure::Check("the search did not end: these constants are the best so far".into())),
    }
}
