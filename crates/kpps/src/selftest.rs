//! `kpps selftest`: the functional suite.

use crate::error::{Failure, print};
use clap::Args;
use kpps_datasheet::Chip;
use kpps_selftest::{Error, On};

/// Arguments of `kpps selftest`.
#[derive(Args)]
pub struct Arguments {
    /// The device: the model's card, or QEMU's
    #[arg(long, default_value = "model")]
    on: On,
    /// The chip: 82542, 82543gc, 82544, 82540em, 82545em or 82546eb; QEMU has 82540em, 82544 and 82545em
    #[arg(long, default_value = "82540em")]
    chip: String,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Runs `kpps selftest`.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    let chip: Chip = arguments.chip.parse().map_err(|_| {
        let known: Vec<_> = Chip::ALL.iter().map(|chip| chip.name()).collect();
        Failure::Input(format!(
            "there is no chip called '{}': known are {}",
            arguments.chip,
            known.join(", ")
        ))
    })?;
    let live = !arguments.json;
    let mut closed = Ok(());
    let report = kpps_selftest::run(arguments.on, chip, &mut |case| {
        if live && closed.is_ok() {
            closed = print(&case.to_string());
        }
    })
    .map_err(|e| match e {
        Error::NoSuchCard(_) => Failure::Input(e.to_string()),
        broken => Failure::Check(broken.to_string()),
    })?;
    closed?;
    print(&if arguments.json { json(&report) } else { report.summary() })?;
    match report.is_good() {
        true => Ok(()),
        false => {
            Err(Failure::Check(format!("{} of {} cases failed", report.counts().failed, report.cases.len())))
        }
    }
}

fn json(report: &kpps_selftest::Report) -> String {
    let document = serde_json::json!({
        "kind": "selftest", "device": report.device, "chip": report.chip, "cases": report.cases,
    });
    format!("{document:#}")
}
