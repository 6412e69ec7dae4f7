//! What is measured: two ports, a guest, the machine room, or a system whose rate is known.

use crate::error::Failure;
use crate::room::Room;
use crate::run::Common;
use crate::trial::Bench;
use crate::units::Rate;
use clap::Args;
use kpps_bench::Testbed;
use kpps_bench::search::Known;
use kpps_frames::Size;
use kpps_lab::workload::Settings;
use kpps_lab::{Bed, BedSpec};
use kpps_ports::Spec;
use kpps_testbed::Setup;
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

impl Target {
    /// Sets it up.
    pub fn open(&self) -> Result<Box<dyn Testbed>, Failure> {
        if self.is_simulated() {
            let setup = Setup::named(self.room.machine(self.machine.as_deref()), None, &self.driver)?;
            return Ok(self.room.testbed(setup));
        }
        if let [one] = &self.testbed[..] {
            if let Some(pps) = one.strip_prefix("known:") {
                let Rate::Pps(pps) = pps.parse().map_err(Failure::Input)? else {
                    return Err(Failure::Input(
                        "give the known rate in frames per second: known:700kpps".into(),
                    ));
                };
                let known = if self.noise { Known::noisy(pps, self.seed) } else { Known::quiet(pps) };
                return Ok(Box::new(known));
            }
            if let Some(guest) = one.strip_prefix("lab:") {
                let spec: BedSpec = guest.parse().map_err(Failure::Input)?;
                return Ok(Box::new(Bed::new(spec, Settings(Vec::new()), crate::lab::program()?)));
            }
        }
        let specs: Vec<Spec> = self
            .testbed
            .iter()
            .map(|text| text.parse().map_err(|e: kpps_ports::Error| Failure::Input(e.to_string())))
            .collect::<Result<_, _>>()?;
        let tester = self.bench.open(&specs, &self.common)?;
        let (settle, both_ways) = (self.bench.settle, self.bench.both);
        Ok(Box::new(kpps_tester::Bed { tester, settle, both_ways }))
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
pub fn distinct(sizes: &[Size]) -> Result<(), Failure> {
    let names: Vec<_> = sizes.iter().map(|size| size.bytes_with_fcs().to_string()).collect();
    crate::error::refuse_twice(names.iter().map(String::as_str))
}
