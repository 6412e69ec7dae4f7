//! Guests in QEMU as testbeds: `lab:KERNEL/DEVICE`.

use crate::error::Failure;
use crate::simulator::Constants;
use kpps_measure::Testbed;
use kpps_qemu::lab::workload::Settings;
use kpps_qemu::lab::{Clock, GuestSpec, GuestTestbed, environment, program};
use kpps_results::Environment;

/// The testbeds, each with its name, and the environment of all.
pub type Guests = (Vec<(String, Box<dyn Testbed>)>, Environment);

/// The guests with these names, with these settings of their kernels and drivers.
pub fn open(names: &[String], constants: &Constants, clock: Clock) -> Result<Guests, Failure> {
    let specs = GuestSpec::all(names).map_err(Failure::Input)?;
    let settings = Settings::parse(kpps_sim::choice::words(&constants.set)).map_err(Failure::Input)?;
    let kpps = program()?;
    kpps_tester::provenance::begin();
    let environment = environment(&specs, &settings, clock);
    let testbed = |spec: GuestSpec| -> (String, Box<dyn Testbed>) {
        (spec.name(), Box::new(GuestTestbed::new(spec, settings.clone(), clock, kpps.clone())))
    };
    Ok((specs.into_iter().map(testbed).collect(), environment))
}
