//! Guests in QEMU as testbeds: `lab:KERNEL/DEVICE`.

use super::lab::program;
use crate::error::Failure;
use kpps_measure::Testbed;
use kpps_qemu::lab::workload::Settings;
use kpps_qemu::lab::{Bed, BedSpec};
use kpps_report::Environment;
use std::collections::BTreeSet;

pub use kpps_qemu::lab::workload::Setting;

/// What their names begin with.
const PREFIX: &str = "lab:";

/// Whether all of these testbeds are guests.
pub fn are_meant(names: &[String]) -> bool {
    !names.is_empty() && names.iter().all(|name| name.starts_with(PREFIX))
}

/// The testbeds, each with its name, and what there is to say of them.
pub type Guests = (Vec<(String, Box<dyn Testbed>)>, Environment);

/// The guests with these names, their kernels set so.
pub fn open(names: &[String], settings: &[Setting]) -> Result<Guests, Failure> {
    let kpps = program()?;
    let specs = names.iter().filter_map(|name| name.strip_prefix(PREFIX));
    let specs: Vec<BedSpec> =
        specs.map(|name| name.parse().map_err(Failure::Input)).collect::<Result<_, _>>()?;
    let names = |each: fn(&BedSpec) -> &str| {
        let names: BTreeSet<_> = specs.iter().map(each).collect();
        names.into_iter().collect::<Vec<_>>().join(", ")
    };
    let set: Vec<_> = settings.iter().map(ToString::to_string).collect();
    let environment = Environment {
        kpps_version: env!("CARGO_PKG_VERSION").into(),
        testbed: "lab".into(),
        machine: "guest".into(),
        chip: names(|spec| spec.model.name()),
        bus: "QEMU's PCI".into(),
        host: "QEMU (TCG, one processor, no wire limit)".into(),
        stack: names(|spec| &spec.kernel),
        measured_on: (!set.is_empty()).then(|| ("set".to_owned(), set.join(", "))).into_iter().collect(),
        presets: specs.iter().map(|spec| (spec.name(), spec.description())).collect(),
        ..Environment::default()
    };
    let settings = Settings(settings.to_vec());
    let testbed = |spec: &BedSpec| -> (String, Box<dyn Testbed>) {
        (spec.name(), Box::new(Bed::new(spec.clone(), settings.clone(), kpps.clone())))
    };
    Ok((specs.iter().map(testbed).collect(), environment))
}
