//! `kpps calibrate-host`: the costs of a frame and an interrupt on a machine, from curves measured on it.

use crate::error::Failure;
use crate::output::Outputs;
use crate::simulator::{Machine, OnTop};
use clap::Args;
use kpps_report::Session;
use kpps_report::live::Progress;
use kpps_sim::calibrate::{CalibrateError, Measured, calibrate, profiles};
use std::path::{Path, PathBuf};

/// Arguments of `kpps calibrate-host`.
#[derive(Args)]
#[command(after_help = kpps_report::examples::CALIBRATE_HOST)]
pub struct Arguments {
    /// Documents of `kpps curve`, each with the settings that the machine had
    #[arg(required = true, value_name = "FILE[,PATH=VALUE…]")]
    curves: Vec<String>,
    /// Write host.toml, stack.toml and machine.toml into this folder, which is created if it does not exist
    #[arg(long, value_name = "FOLDER")]
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
    let curves: Result<Vec<_>, _> = arguments.curves.iter().map(|it| Measured::read(it, &base)).collect();
    let curves = curves.map_err(input)?;
    let mut files = arguments.outputs.open(session, "calibrate-host")?;
    session.watch();
    let progress = Progress::default();
    let view = session.line(progress.clone());
    let found = calibrate(&curves, &|| session.goes_on(), &|done, of| progress.stands_at(done, of));
    drop(view);
    let found = found.map_err(input)?;
    files.publish(&found, "")?;
    if !session.goes_on() {
        return Err(Failure::Interrupted("interrupted: the constants are those found so far".into()));
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
