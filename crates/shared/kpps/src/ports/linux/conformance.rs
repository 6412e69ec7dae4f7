//! `kpps conformance`: the functional suite of the driver.

use crate::error::Failure;
use crate::heading;
use crate::output::Outputs;
use crate::session::Session;
use clap::Args;
use kpps_conformance::{Case, Error, On, TestedCard};
use kpps_datasheet::Chip;
use std::path::PathBuf;

/// Arguments of `kpps conformance`.
#[derive(Args)]
#[command(after_help = "Examples:
  kpps conformance --chip 82543gc                      on the model
  kpps conformance --on qemu --chip 82540em            on QEMU's card
  kpps conformance --on uio:0000:00:10.0 --peer eth1   on a real card, connected to eth1")]
pub struct Arguments {
    /// The device: model, qemu, or a real card (vfio:ADDRESS, uio:ADDRESS)
    #[arg(long, value_name = "DEVICE", default_value = "model", help_heading = heading::LOAD)]
    on: TestedCard,
    /// With a real card: the kernel's interface at the other end of the cable
    #[arg(long, value_name = "IFACE", requires = "on")]
    peer: Option<String>,
    /// With a real card: write `link up` and `link down` to this file, from which another program learns when
    /// to plug or unplug the cable
    #[arg(long, value_name = "FILE", requires = "on")]
    link_control: Option<PathBuf>,
    /// The chip: 82542, 82543gc, 82544, 82540em, 82545em, 82546eb, 82574l or 82576; QEMU has 82540em, 82544,
    /// 82545em, 82574l and 82576, the model all but 82576
    #[arg(long, default_value = "82540em", help_heading = heading::MACHINE)]
    chip: Chip,
    #[command(flatten)]
    outputs: Outputs,
}

/// Runs `kpps conformance`.
pub fn run(arguments: &Arguments, session: &Session) -> Result<(), Failure> {
    let mut files = arguments.outputs.open(session, "conformance")?;
    let live = !arguments.outputs.for_machines();
    let mut closed = Ok(());
    let mut progress = |case: &Case| {
        if live && closed.is_ok() {
            closed = session.print(&case.to_string());
        }
    };
    // On the model equal commands give equal bytes.
    if arguments.on != TestedCard::Emulated(On::Model) {
        kpps_tester::provenance::begin();
    }
    let Arguments { on, chip, peer, link_control, .. } = arguments;
    let report = kpps_conformance::run_at(on, *chip, (peer.as_deref(), link_control.clone()), &mut progress);
    let report = report.map_err(|e| match e {
        Error::NoSuchCard(_) | Error::NotModelled(_) | Error::Real(_) => Failure::Input(e.to_string()),
        broken => Failure::Check(broken.to_string()),
    })?;
    closed?;
    files.publish(&report.document(), &report.summary())?;
    report.verdict().map_err(Failure::Check)
}
