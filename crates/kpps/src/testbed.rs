//! What is measured: two ports, a guest, the machine room, or a system whose rate is known.

use crate::error::Failure;
use crate::live::Trials;
use crate::room::Room;
use crate::run::Common;
use crate::trial::Bench;
use crate::units::Rate;
use clap::Args;
use kpps_bench::Testbed;
use kpps_bench::search::Known;
use kpps_frames::Mix;
use kpps_lab::workload::Settings;
use kpps_lab::{Bed, BedSpec};
use kpps_live::Source;
use kpps_ports::Spec;
use kpps_testbed::Setup;
use std::collections::BTreeMap;
use std::time::Duration;

/// What is measured.
#[derive(Args)]
pub struct Target {
    /// The two ports; lab:KERNEL/DEVICE for a guest in QEMU; known:RATE for a system that delivers so much [default: the
    /// machine room]
    #[arg(long, value_delimiter = ',', value_name = "PORT,PORT")]
    testbed: Vec<String>,
    /// With known:RATE: one second in twenty loses up to 2000 frames more
    #[arg(long)]
    noise: bool,
    #[command(flatten)]
    pub room: Room,
    /// The machine of the machine room [default: morris2000; with --app lunz2003]
    #[arg(long)]
    machine: Option<String>,
    /// The driver preset in the machine room
    #[arg(long, default_value = "kpps")]
    driver: String,
    /// Seed of what is random in the machine room, and of the noise
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    #[command(flatten)]
    pub bench: Bench,
    #[command(flatten)]
    pub common: Common,
}

/// A testbed that is set up.
pub struct Opened {
    pub testbed: Box<dyn Testbed>,
    /// What can be asked while a trial goes on.
    pub source: Box<dyn Source>,
    /// What there is to say of it, by name.
    pub environment: BTreeMap<String, String>,
}

impl Target {
    /// Sets it up.
    pub fn open(&self) -> Result<Opened, Failure> {
        let quiet = |testbed: Box<dyn Testbed>, environment: &[(&str, &str)]| Opened {
            testbed,
            source: Box::new(()),
            environment: environment.iter().map(|&(name, what)| (name.to_owned(), what.to_owned())).collect(),
        };
        if self.is_simulated() {
            let setup = Setup::named(self.room.machine(self.machine.as_deref()), None, &self.driver)?;
            let parts = [
                ("machine", setup.machine.clone()),
                ("card", setup.chip.clone()),
                ("bus", setup.bus.clone()),
                ("host", setup.host.clone()),
                ("stack", setup.stack.clone()),
                ("driver", format!("{}: {}", setup.driver, setup.driver_description)),
            ];
            let parts = parts.each_ref().map(|(name, what)| (*name, &**what));
            return Ok(quiet(self.room.testbed(setup), &parts));
        }
        if let [one] = &self.testbed[..] {
            if let Some(pps) = one.strip_prefix("known:") {
                let Rate::Pps(pps) = pps.parse().map_err(Failure::Input)? else {
                    return Err(Failure::Input(
                        "give the known rate in frames per second: known:700kpps".into(),
                    ));
                };
                let known = if self.noise { Known::noisy(pps, self.seed) } else { Known::quiet(pps) };
                return Ok(quiet(Box::new(known), &[]));
            }
            if let Some(guest) = one.strip_prefix("lab:") {
                let spec: BedSpec = guest.parse().map_err(Failure::Input)?;
                let what = spec.description();
                let bed = Bed::new(spec, Settings(Vec::new()), crate::lab::program()?);
                return Ok(quiet(Box::new(bed), &[("guest in QEMU", &what)]));
            }
        }
        let specs: Vec<Spec> = self
            .testbed
            .iter()
            .map(|text| text.parse().map_err(|e: kpps_ports::Error| Failure::Input(e.to_string())))
            .collect::<Result<_, _>>()?;
        let tester = self.bench.open(&specs, &self.common)?;
        let (settle, both_ways) = (self.bench.settle, self.bench.both);
        Ok(Opened {
            source: Box::new(Trials(tester.gauges())),
            environment: tester.environment(),
            testbed: Box::new(kpps_tester::Bed { tester, settle, both_ways, mix: None }),
        })
    }

    /// Its name in results.
    pub fn name(&self) -> Vec<String> {
        match self.is_simulated() {
            true => {
                let machine = self.room.machine(self.machine.as_deref());
                let app = self.room.app.map(|app| format!(", {app}")).unwrap_or_default();
                vec![format!("sim: {machine}, {}{app}", self.driver)]
            }
            false => self.bench.names(&self.testbed),
        }
    }

    /// Whether time is virtual.
    pub fn is_simulated(&self) -> bool {
        self.testbed.is_empty()
    }

    /// The length of a trial if none is asked for: virtual time is cheap to wait for, but not to compute.
    pub fn usual_trial(&self) -> Duration {
        Duration::from_millis(if self.is_simulated() { 50 } else { 1000 })
    }
}

/// The frame sizes of RFC 2544, 9.1, for Ethernet.
pub const SIZES: [&str; 7] = ["64", "128", "256", "512", "1024", "1280", "1518"];

/// Refuses a size that is given twice.
pub fn distinct(sizes: &[Mix]) -> Result<(), Failure> {
    crate::error::refuse_twice(sizes.iter().map(Mix::name))
}
