//! `kpps selftest`: the functional suite.

use crate::error::{Failure, print, print_json};
use clap::Args;
use kpps_conformance::{Case, Error, On, Outcome, RealOptions, Report};
use kpps_datasheet::Chip;
use kpps_ports::Spec;
use kpps_report::inventory::{self, SelftestResult};
use std::path::PathBuf;
use std::str::FromStr;

/// Where the suite runs.
#[derive(Clone, Debug)]
enum Place {
    /// On a card that needs no hardware.
    Emulated(On),
    /// On a card of this machine.
    Real(Spec),
}

impl FromStr for Place {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        match (text.parse(), text.contains(':')) {
            (Ok(on), _) => Ok(Self::Emulated(on)),
            (Err(_), false) => {
                Err(format!("'{text}' is neither model nor qemu, nor a card (vfio:ADDRESS, uio:ADDRESS)"))
            }
            (Err(_), true) => match text.parse() {
                Ok(spec @ Spec::Card(..)) => Ok(Self::Real(spec)),
                Ok(_) => Err("the suite tests our driver: give vfio:ADDRESS or uio:ADDRESS".into()),
                Err(why) => Err(why.to_string()),
            },
        }
    }
}

/// Arguments of `kpps selftest`.
#[derive(Args)]
pub struct Arguments {
    /// The device: the model's card, QEMU's (qemu), or a real one (vfio:ADDRESS, uio:ADDRESS)
    #[arg(long, default_value = "model")]
    on: Place,
    /// With a real card: the kernel's interface at the other end of its cable
    #[arg(long, value_name = "IFACE")]
    peer: Option<String>,
    /// With a real card: a file to which lines `link up` and `link down` are written, for whoever plugs the cable
    #[arg(long, value_name = "PATH")]
    link_control: Option<PathBuf>,
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
    let mut progress = |case: &Case| {
        if live && closed.is_ok() {
            closed = print(&case.to_string());
        }
    };
    let report: Result<Report, Error> = match &arguments.on {
        Place::Emulated(on) => kpps_conformance::run(*on, chip, &mut progress),
        Place::Real(card) => {
            let Some(peer) = arguments.peer.clone() else {
                return Err(Failure::Input(format!(
                    "{card} needs somebody at the other end of its cable: --peer IFACE"
                )));
            };
            let link_control = arguments.link_control.clone();
            kpps_conformance::run_real(&RealOptions { card: card.clone(), peer, link_control }, &mut progress)
        }
    };
    let report = report.map_err(|e| match e {
        Error::NoSuchCard(_) | Error::NotModelled(_) | Error::Real(_) => Failure::Input(e.to_string()),
        broken => Failure::Check(broken.to_string()),
    })?;
    closed?;
    let verdict = match report.is_good() {
        true => Ok(()),
        false => {
            Err(Failure::Check(format!("{} of {} cases failed", report.counts().failed, report.cases.len())))
        }
    };
    match arguments.json {
        true => print_json(&document(report))?,
        false => print(&report.summary())?,
    }
    verdict
}

fn document(report: Report) -> inventory::Selftest {
    let case = |Case { name, outcome, millis }| {
        let case = inventory::SelftestCase { name, millis, ..inventory::SelftestCase::default() };
        match outcome {
            Outcome::Pass => case,
            Outcome::Fail { reason } => {
                inventory::SelftestCase { result: SelftestResult::Fail, reason: Some(reason), ..case }
            }
            Outcome::Departure { what, reason, manual } => inventory::SelftestCase {
                result: SelftestResult::Departure,
                what: Some(what),
                reason: Some(reason),
                manual: Some(manual),
                ..case
            },
            Outcome::NotApplicable { reason } => inventory::SelftestCase {
                result: SelftestResult::NotApplicable,
                reason: Some(reason),
                ..case
            },
        }
    };
    inventory::Selftest {
        device: report.device,
        chip: report.chip,
        cases: report.cases.into_iter().map(case).collect(),
        ..inventory::Selftest::default()
    }
}
