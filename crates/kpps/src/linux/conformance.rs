//! `kpps conformance`: the functional suite of the driver.

use crate::error::{Failure, print};
use crate::output::{Forms, Outputs};
use clap::Args;
use kpps_conformance::{Case, Error, On, Outcome, RealOptions, Report};
use kpps_datasheet::Chip;
use kpps_ports::Spec;
use kpps_report::rows_csv;
use kpps_results::inventory::{self, SelftestResult};
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
                Ok(_) => Err("the suite tests kpps' own driver: give vfio:ADDRESS or uio:ADDRESS".into()),
                Err(why) => Err(why.to_string()),
            },
        }
    }
}

/// Arguments of `kpps conformance`.
#[derive(Args)]
#[command(after_help = "Examples:
  kpps conformance --chip 82543gc                      on the 8254x model
  kpps conformance --on qemu --chip 82540em            on QEMU's card
  kpps conformance --on uio:0000:00:10.0 --peer eth1   on a real card, connected to eth1")]
pub struct Arguments {
    /// The device: model, qemu, or a real card (vfio:ADDRESS, uio:ADDRESS)
    #[arg(long, value_name = "DEVICE", default_value = "model")]
    on: Place,
    /// With a real card: the kernel's interface at the other end of the cable
    #[arg(long, value_name = "IFACE")]
    peer: Option<String>,
    /// With a real card: write `link up` and `link down` to this file, for whatever plugs and unplugs the
    /// cable
    #[arg(long, value_name = "FILE")]
    link_control: Option<PathBuf>,
    /// The chip: 82542, 82543gc, 82544, 82540em, 82545em or 82546eb; QEMU has 82540em, 82544, 82545em and
    /// 82574l
    #[arg(long, default_value = "82540em")]
    chip: String,
    #[command(flatten)]
    outputs: Outputs,
}

/// Runs `kpps conformance`.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    let chip: Chip = arguments.chip.parse().map_err(|_| {
        let known: Vec<_> = Chip::ALL.iter().map(|chip| chip.name()).collect();
        Failure::Input(format!(
            "there is no chip called '{}': known are {}",
            arguments.chip,
            known.join(", ")
        ))
    })?;
    let mut files = arguments.outputs.open()?;
    let live = !arguments.outputs.for_machines();
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
                    "{card} needs an interface at the other end of its cable: --peer IFACE"
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
    let summary = report.summary();
    let document = document(report);
    files.publish(&document, &Forms::table(&|| summary.clone(), &|| rows_csv(&document.cases)))?;
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
