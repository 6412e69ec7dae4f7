//! Guests in QEMU as testbeds: `lab:KERNEL/DEVICE`.

use crate::error::Failure;
use crate::simulator::Constants;
use kpps_measure::Testbed;
use kpps_qemu::lab::workload::Settings;
use kpps_qemu::lab::{Clock, GuestSpec, GuestTestbed, environment, program};
use kpps_results::Environment;
use std::path::Path;

/// The testbeds, each with its name, and the environment of all.
pub type Guests = (Vec<(String, Box<dyn Testbed>)>, Environment);

/// The guests with these names, with these settings of their kernels and drivers, and this module of a driver.
pub fn open(
    names: &[String],
    constants: &Constants,
    clock: Clock,
    module: Option<&Path>,
) -> Result<Guests, Failure> {
    let specs = GuestSpec::all(names).map_err(Failure::Input)?;
    let settings = Settings::parse(kpps_sim::choice::words(&constants.set)).map_err(Failure::Input)?;
    let kpps = program()?;
    kpps_tester::provenance::begin();
    let environment = environment(&specs, &settings, clock, module);
    let testbed = |spec: GuestSpec| -> (String, Box<dyn Testbed>) {
        let guest = GuestTestbed::new(spec, settings.clone(), clock, kpps.clone());
        (guest.spec().name(), Box::new(guest.with_driver_module(module.map(Path::to_owned))))
    };
    Ok((specs.into_iter().map(testbed).collect(), environment))
}
