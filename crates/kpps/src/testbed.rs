//! What is measured: two ports, a guest, the machine room, or a system whose rate is known.

use crate::error::Failure;
#[cfg(target_os = "linux")]
use crate::linux::guests;
use crate::live::Trials;
use crate::room::Room;
use crate::run::Common;
use crate::trial::Bench;
use crate::units::Rate;
use clap::Args;
use kpps_frames::Mix;
use kpps_live::Source;
use kpps_measure::Testbed;
use kpps_measure::search::Known;
use kpps_ports::Spec;
use kpps_report::Environment;
use kpps_sim::{Forwarder, Setup};
use std::collections::BTreeMap;
use std::str::FromStr;
use std::time::Duration;

/// A testbed other than the machine room.
#[derive(Args)]
pub struct Elsewhere {
    /// The two ports; lab:KERNEL/DEVICE for a guest in QEMU; sim:MACHINE/DRIVER/APP for the machine room, as --machine, --driver and
    /// --app; known:RATE for a system that delivers so much [default: the machine room]
    #[arg(long, value_delimiter = ',', value_name = "PORT,PORT", conflicts_with_all = ["app", "machine", "driver"])]
    pub testbed: Vec<String>,
    /// With known:RATE: one second in twenty loses up to 2000 frames more
    #[arg(long, requires = "testbed")]
    noise: bool,
    #[command(flatten)]
    pub bench: Bench,
    #[command(flatten)]
    pub common: Common,
}

/// A machine room by its name as a testbed: `sim:`, then what its usual parts are not to be.
struct Named {
    machine: Option<String>,
    driver: Option<String>,
    app: Option<Forwarder>,
}

/// What such a name begins with.
const SIM: &str = "sim:";

impl FromStr for Named {
    type Err = Failure;
    fn from_str(text: &str) -> Result<Self, Failure> {
        let rest = text.strip_prefix(SIM).unwrap_or(text);
        let mut parts = rest.split('/').map(|part| (!part.is_empty()).then(|| part.to_owned()));
        let mut part = || parts.next().flatten();
        let (machine, driver, app) = (part(), part(), part());
        if parts.next().is_some() {
            return Err(Failure::Input(format!("{text}: a machine room is sim:MACHINE/DRIVER/APP")));
        }
        let app = app.map(|app| app.parse().map_err(Failure::Input)).transpose()?;
        Ok(Self { machine, driver, app })
    }
}

/// What is measured.
#[derive(Args)]
pub struct Target {
    #[command(flatten)]
    pub elsewhere: Elsewhere,
    #[command(flatten)]
    pub room: Room,
    /// The machine of the machine room [default: morris2000; with --app lunz2003]
    #[arg(long)]
    machine: Option<String>,
    /// The driver preset in the machine room
    #[arg(long, default_value = DRIVER)]
    driver: String,
    /// Seed of what is random in the machine room, and of the noise
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
}

/// A testbed that is set up.
pub struct Opened {
    pub testbed: Box<dyn Testbed>,
    /// What can be asked while a trial goes on.
    pub source: Box<dyn Source>,
    /// What there is to say of it, by name.
    pub environment: BTreeMap<String, String>,
}

impl Elsewhere {
    /// If the machine room was asked for by name that is what `machine` and `room` are, and nothing else is asked for, from now on.
    /// Returns the driver, if one was named.
    pub fn take_room(
        &mut self,
        machine: &mut Option<String>,
        room: &mut Room,
    ) -> Result<Option<String>, Failure> {
        let named: Named = match &self.testbed[..] {
            [one] if is_virtual(one) => one.parse()?,
            [.., one] if is_virtual(one) => {
                return Err(Failure::Input(format!("{one} is a testbed by itself, not one of two ports")));
            }
            _ => return Ok(None),
        };
        self.testbed.clear();
        (*machine, room.app) = (named.machine, named.app);
        Ok(named.driver)
    }

    /// Whether it is asked for.
    pub fn is_given(&self) -> bool {
        !self.testbed.is_empty()
    }

    /// Sets it up.
    pub fn open(&self, seed: u64) -> Result<Opened, Failure> {
        if let Some(opened) = without_ports(&self.testbed, self.noise, seed)? {
            return Ok(opened);
        }
        let specs = ports(&self.testbed)?;
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
        self.bench.names(&self.testbed)
    }

    /// What kind of testbed it is, in results.
    fn kind(&self) -> &'static str {
        match self.testbed.first().and_then(|name| name.split_once(':')) {
            Some(("known", _)) => "known",
            Some(("lab", _)) => "lab",
            _ => "ports",
        }
    }

    /// How long a load is on before measuring begins, in ms: only a guest needs that.
    pub fn warmup_ms(&self) -> u32 {
        if self.kind() == "lab" { WARMUP_MS } else { 0 }
    }

    /// What there is to say of it in curves and grids, but for their frames.
    pub fn described(&self, opened: &Opened) -> Environment {
        Environment {
            kpps_version: env!("CARGO_PKG_VERSION").into(),
            testbed: self.kind().into(),
            machine: self.name().join(" and "),
            measured_on: opened.environment.clone(),
            both_ways: self.kind() == "ports" && self.bench.both,
            traffic: self.bench.unusual(),
            ..Environment::default()
        }
    }
}

/// Whether time is virtual on the testbed with this name.
pub fn is_virtual(name: &str) -> bool {
    name.starts_with(SIM)
}

/// The ports with these names.
pub fn ports(names: &[String]) -> Result<Vec<Spec>, Failure> {
    let parse = |text: &String| text.parse().map_err(|e: kpps_ports::Error| Failure::Input(e.to_string()));
    names.iter().map(parse).collect()
}

/// The testbed with this name, if it is one by itself and not two ports.
pub fn without_ports(names: &[String], noise: bool, seed: u64) -> Result<Option<Opened>, Failure> {
    let [one] = names else { return Ok(None) };
    if let Some(pps) = one.strip_prefix("known:") {
        let Rate::Pps(pps) = pps.parse().map_err(Failure::Input)? else {
            return Err(Failure::Input("give the known rate in frames per second: known:700kpps".into()));
        };
        let known = if noise { Known::noisy(pps, seed) } else { Known::quiet(pps) };
        return Ok(Some(Opened::quiet(Box::new(known), &[])));
    }
    #[cfg(target_os = "linux")]
    if guests::are_meant(names) {
        let (guests, environment) = guests::open(names, &[])?;
        let what = guests.into_iter().zip(environment.presets.values()).next();
        return Ok(what.map(|((_, testbed), what)| Opened::quiet(testbed, &[("guest in QEMU", what)])));
    }
    if is_virtual(one) {
        let Named { machine, driver, app } = one.parse()?;
        let room = Room { app };
        return Opened::simulated(
            room,
            room.machine(machine.as_deref()),
            driver.as_deref().unwrap_or(DRIVER),
        )
        .map(Some);
    }
    Ok(None)
}

impl Opened {
    /// The machine room.
    fn simulated(room: Room, machine: &str, driver: &str) -> Result<Self, Failure> {
        let setup = Setup::named(machine, None, driver)?;
        let parts = [
            ("machine", setup.machine.clone()),
            ("card", setup.chip.clone()),
            ("bus", setup.bus.clone()),
            ("host", setup.host.clone()),
            ("stack", setup.stack.clone()),
            ("driver", format!("{}: {}", setup.driver, setup.driver_description)),
        ];
        let parts = parts.each_ref().map(|(name, what)| (*name, &**what));
        Ok(Self::quiet(room.testbed(setup), &parts))
    }

    /// One of which nothing can be asked while a trial goes on.
    fn quiet(testbed: Box<dyn Testbed>, environment: &[(&str, &str)]) -> Self {
        Self {
            testbed,
            source: Box::new(()),
            environment: environment.iter().map(|&(name, what)| (name.to_owned(), what.to_owned())).collect(),
        }
    }
}

impl Target {
    /// What a machine room's name says becomes its parts.
    pub fn resolve(&mut self) -> Result<(), Failure> {
        if let Some(driver) = self.elsewhere.take_room(&mut self.machine, &mut self.room)? {
            self.driver = driver;
        }
        Ok(())
    }

    /// Sets it up.
    pub fn open(&self) -> Result<Opened, Failure> {
        if !self.is_simulated() {
            return self.elsewhere.open(self.seed);
        }
        Opened::simulated(self.room, self.room.machine(self.machine.as_deref()), &self.driver)
    }

    /// Its name in results.
    pub fn name(&self) -> Vec<String> {
        match self.is_simulated() {
            true => {
                let machine = self.room.machine(self.machine.as_deref());
                let app = self.room.app.map(|app| format!(", {app}")).unwrap_or_default();
                vec![format!("sim: {machine}, {}{app}", self.driver)]
            }
            false => self.elsewhere.name(),
        }
    }

    /// Whether time is virtual.
    pub fn is_simulated(&self) -> bool {
        !self.elsewhere.is_given()
    }

    /// The length of a trial if none is asked for: virtual time is cheap to wait for, but not to compute.
    pub fn usual_trial(&self) -> Duration {
        if self.is_simulated() { VIRTUAL_TRIAL } else { REAL_TRIAL }
    }
}

/// The driver preset that is measured if none is named.
const DRIVER: &str = "kpps";

/// Time under load before measuring begins, in ms: enough for a slight overload to fill a card's FIFO, which hides it until then.
pub const WARMUP_MS: u32 = 50;

/// How long a trial is measured if nothing else is asked for: in virtual time, and in real time.
pub const VIRTUAL_TRIAL: Duration = Duration::from_millis(50);
pub const REAL_TRIAL: Duration = Duration::from_secs(1);

/// The frame sizes of RFC 2544, 9.1, for Ethernet.
pub const SIZES: [&str; 7] = ["64", "128", "256", "512", "1024", "1280", "1518"];

/// Refuses a size that is given twice.
pub fn distinct(sizes: &[Mix]) -> Result<(), Failure> {
    crate::error::refuse_twice(sizes.iter().map(Mix::name))
}
