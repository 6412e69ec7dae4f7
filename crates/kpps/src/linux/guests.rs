//! Guests in QEMU as testbeds: `lab:KERNEL/DEVICE`.

use super::lab::program;
use crate::error::Failure;
use crate::simulator::Constants;
use kpps_measure::Testbed;
use kpps_qemu::lab::workload::{Setting, Settings};
use kpps_qemu::lab::{Bed, BedSpec};
use kpps_results::Environment;
use std::collections::BTreeSet;

/// What their names begin with.
const PREFIX: &str = "lab:";

/// The testbeds, each with its name, and the environment of all.
pub type Guests = (Vec<(String, Box<dyn Testbed>)>, Environment);

/// The guests with these names, with these settings of their kernels and drivers.
pub fn open(names: &[String], constants: &Constants) -> Result<Guests, Failure> {
    let kpps = program()?;
    let spec = |name: &String| {
        let name = name.strip_prefix(PREFIX);
        let name = name.ok_or_else(|| Failure::Input("guests cannot be mixed with other testbeds".into()))?;
        name.parse().map_err(Failure::Input)
    };
    let specs: Vec<BedSpec> = names.iter().map(spec).collect::<Result<_, _>>()?;
    let parse = |word: String| word.parse().map_err(Failure::Input);
    let settings: Vec<Setting> = constants.words().into_iter().map(parse).collect::<Result<_, _>>()?;
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
        host: "QEMU (TCG, one CPU, no wire limit)".into(),
        stack: names(|spec| &spec.kernel),
        measured_on: (!set.is_empty()).then(|| ("set".to_owned(), set.join(", "))).into_iter().collect(),
        presets: specs.iter().map(|spec| (spec.name(), spec.description())).collect(),
        ..Environment::default()
    };
    let settings = Settings(settings);
    let testbed = |spec: &BedSpec| -> (String, Box<dyn Testbed>) {
        (spec.name(), Box::new(Bed::new(spec.clone(), settings.clone(), kpps.clone())))
    };
    Ok((specs.iter().map(testbed).collect(), environment))
}
