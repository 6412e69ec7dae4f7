//! What a trial runs on: the simulator, two ports, a guest in QEMU, or a system whose rate is known.

use crate::error::Failure;
#[cfg(all(target_os = "linux", feature = "ports"))]
use crate::linux::guests;
use crate::opened::Opened;
use crate::ports::{self, PortOptions, PortPair};
use crate::simulator::{Constants, OnTop};
use clap::Args;
use kpps_frames::Mix;
use kpps_measure::search::Known;
use kpps_measure::units::Rate;
use kpps_results::Environment;
use kpps_sim::{Forwarder, Setup};
use std::time::Duration;

/// What is measured.
#[derive(Args)]
pub struct Target {
    /// The two ports, with the device under test between them
    #[arg(
        long,
        value_delimiter = ',',
        value_name = "PORT,PORT",
        conflicts_with_all = ["testbed", "app", "machine", "chip", "driver"],
        help_heading = "Testbed"
    )]
    ports: Vec<String>,
    /// Another testbed: sim:MACHINE/DRIVER/APP, the simulator (as --machine, --driver, --app);
    /// lab:KERNEL/DEVICE, a guest in QEMU; known:RATE, a system that delivers this rate; PORT,PORT as --ports
    /// [default: the simulator]
    #[arg(
        long,
        value_delimiter = ',',
        value_name = "NAME",
        conflicts_with_all = ["app", "machine", "chip", "driver"],
        help_heading = "Testbed"
    )]
    pub testbed: Vec<String>,
    #[command(flatten)]
    pub top: OnTop,
    /// The simulated machine: a name (`kpps list machines`) or a .toml file [default: morris2000; with --app:
    /// lunz2003]
    #[arg(long)]
    pub machine: Option<String>,
    /// The chip, if not the machine's own: a name (`kpps list chips`) or a .toml file
    #[arg(long)]
    pub chip: Option<String>,
    /// The driver preset: a name (`kpps list drivers`) or a .toml file [default: kpps]
    #[arg(long, value_delimiter = ',')]
    pub driver: Vec<String>,
    #[command(flatten)]
    pub constants: Constants,
    /// Seed of everything random in the simulator and of --noise; equal seeds give equal results
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// With known:RATE: one second in twenty loses up to 2000 frames more
    #[arg(long, requires = "testbed")]
    noise: bool,
    #[command(flatten, next_help_heading = "Ports")]
    pub pair: PortPair,
    #[command(flatten)]
    pub options: PortOptions,
}

/// The kinds of testbeds.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// The simulator.
    Simulator,
    /// Two ports.
    Ports,
    /// Guests in QEMU.
    Guests,
    /// A system whose rate is known.
    Known,
}

/// What the name of the simulator begins with.
const SIMULATOR: &str = "sim:";

impl Target {
    /// Resolves the names of the command line: from now on `ports` are the testbed, and what
    /// sim:MACHINE/DRIVER/APP says is in the fields that the single options have.
    pub fn resolve(&mut self) -> Result<(), Failure> {
        if !self.ports.is_empty() {
            self.testbed = std::mem::take(&mut self.ports);
            ports::check(&self.testbed)?;
            return Ok(());
        }
        match &self.testbed[..] {
            [one] if one.starts_with(SIMULATOR) => {
                let one = one.clone();
                self.testbed.clear();
                self.simulate(&one)
            }
            [.., one] if one.starts_with(SIMULATOR) => {
                Err(Failure::Input(format!("{one} is a testbed by itself, not one of two ports")))
            }
            _ => Ok(()),
        }
    }

    /// Takes machine, driver and app from a name: `sim:MACHINE/DRIVER/APP`, each of them optional.
    fn simulate(&mut self, name: &str) -> Result<(), Failure> {
        let parts = name.strip_prefix(SIMULATOR).unwrap_or(name).split('/');
        let mut parts = parts.map(|part| (!part.is_empty()).then(|| part.to_owned()));
        let mut part = || parts.next().flatten();
        let (machine, driver, app) = (part(), part(), part());
        if parts.next().is_some() {
            return Err(Failure::Input(format!("{name}: the simulator's name is sim:MACHINE/DRIVER/APP")));
        }
        self.top.app = app.map(|app| app.parse::<Forwarder>().map_err(Failure::Input)).transpose()?;
        self.machine = machine;
        self.driver = vec![driver.unwrap_or_else(|| DRIVER.to_owned())];
        Ok(())
    }

    /// What kind of testbed it is.
    pub fn kind(&self) -> Kind {
        match self.testbed.first().and_then(|name| name.split_once(':')) {
            None if self.testbed.is_empty() => Kind::Simulator,
            Some(("known", _)) => Kind::Known,
            Some(("lab", _)) => Kind::Guests,
            _ => Kind::Ports,
        }
    }

    /// Whether time is virtual.
    pub fn is_simulated(&self) -> bool {
        self.kind() == Kind::Simulator
    }

    /// Its name in results.
    pub fn name(&self) -> Vec<String> {
        if !self.is_simulated() {
            return self.pair.names(&self.testbed);
        }
        let machine = self.top.machine(self.machine.as_deref());
        let app = self.top.app.map(|app| format!(", {app}")).unwrap_or_default();
        let driver = self.driver.first().map_or(DRIVER, String::as_str);
        vec![format!("sim: {machine}, {driver}{app}")]
    }

    /// The driver preset, if it must be one.
    pub fn one_driver(&self) -> Result<&str, Failure> {
        match &self.driver[..] {
            [] => Ok(DRIVER),
            [one] => Ok(one),
            _ => Err(Failure::Input("give one driver here; kpps curve compares several".into())),
        }
    }

    /// The machine with a driver preset in the simulator.
    pub fn setup(&self, driver: &str) -> Result<Setup, Failure> {
        let machine = self.top.machine(self.machine.as_deref());
        Ok(Setup::changed(machine, self.chip.as_deref(), driver, &self.constants.changes()?)?)
    }

    /// Opens it.
    pub fn open(&self) -> Result<Opened, Failure> {
        let no_constants = || match self.constants.set.is_empty() {
            true => Ok(()),
            false => Err(Failure::Input("--set is for the simulator and for guests".into())),
        };
        match self.kind() {
            Kind::Simulator => Ok(Opened::simulated(self.top, self.setup(self.one_driver()?)?)),
            Kind::Known => {
                no_constants()?;
                let rate = self.testbed.first().and_then(|name| name.strip_prefix("known:")).unwrap_or("");
                let Rate::Pps(pps) = rate.parse().map_err(Failure::Input)? else {
                    return Err(Failure::Input(
                        "give the known rate in frames per second: known:700kpps".into(),
                    ));
                };
                let known = if self.noise { Known::noisy(pps, self.seed) } else { Known::quiet(pps) };
                Ok(Opened::plain(Box::new(known), &[]))
            }
            Kind::Guests => self.open_guest(),
            Kind::Ports => {
                no_constants()?;
                self.pair.testbed(&self.testbed, &self.options)
            }
        }
    }

    #[cfg(all(target_os = "linux", feature = "ports"))]
    fn open_guest(&self) -> Result<Opened, Failure> {
        let (guests, environment) = self.open_guests()?;
        if guests.len() > 1 {
            return Err(Failure::Input("give one guest here; kpps curve compares several".into()));
        }
        let guest = guests.into_iter().zip(environment.presets.values()).next();
        let guest = guest.map(|((_, testbed), what)| Opened::plain(testbed, &[("guest in QEMU", what)]));
        guest.ok_or_else(|| Failure::Input("there is no guest".into()))
    }

    #[cfg(not(all(target_os = "linux", feature = "ports")))]
    fn open_guest(&self) -> Result<Opened, Failure> {
        Err(Failure::Input("guests in QEMU need Linux, and a kpps that was built with ports".into()))
    }

    /// Opens all guests, each with its name, and says what they have in common.
    #[cfg(all(target_os = "linux", feature = "ports"))]
    pub fn open_guests(&self) -> Result<guests::Guests, Failure> {
        guests::open(&self.testbed, &self.constants)
    }

    /// The environment of curves and grids on it, without what their frames determine.
    pub fn described(&self, opened: &Opened) -> Environment {
        let kind = match self.kind() {
            Kind::Simulator => "sim",
            Kind::Known => "known",
            Kind::Guests => "lab",
            Kind::Ports => "ports",
        };
        Environment {
            kpps_version: env!("CARGO_PKG_VERSION").into(),
            testbed: kind.into(),
            machine: self.name().join(" and "),
            measured_on: opened.environment.clone(),
            both_ways: self.kind() == Kind::Ports && self.pair.bidirectional,
            traffic: self.pair.unusual(),
            ..Environment::default()
        }
    }

    /// Time under load before measuring begins, in ms. Ports need none: test frames have come through before.
    pub fn warmup_ms(&self) -> u32 {
        match self.kind() {
            Kind::Simulator | Kind::Guests => WARMUP_MS,
            Kind::Ports | Kind::Known => 0,
        }
    }

    /// How long a trial is measured by default: virtual time passes fast but takes computing.
    pub fn trial_time(&self) -> Duration {
        if self.is_simulated() { VIRTUAL_TRIAL } else { REAL_TRIAL }
    }
}

/// The driver preset that is measured if none is named.
pub const DRIVER: &str = "kpps";

/// Time under load before measuring begins, in ms: a slight overload fills a card's FIFO in that time.
pub const WARMUP_MS: u32 = 50;

/// How long a trial is measured by default, in virtual time and in real time.
const VIRTUAL_TRIAL: Duration = Duration::from_millis(50);
const REAL_TRIAL: Duration = Duration::from_secs(1);

/// The frame sizes of RFC 2544, 9.1, for Ethernet.
pub const SIZES: [&str; 7] = ["64", "128", "256", "512", "1024", "1280", "1518"];

/// Refuses a size that is given twice.
pub fn distinct(sizes: &[Mix]) -> Result<(), Failure> {
    crate::error::refuse_twice(sizes.iter().map(Mix::name))
}
