//! The testbed of a trial: the simulator, two ports, a guest in QEMU, or a system whose rate is known.

use crate::error::Failure;
use crate::heading;
use crate::live::OpenTestbed;
use crate::ports::{self, PortOptions, PortPair};
use crate::session::Session;
use crate::simulator::{Machine, OnTop};
use clap::Args;
use kpps_documents::Environment;
use kpps_documents::lab::Clock;
use kpps_frames::{Mix, Size};
use kpps_methods::search::Known;
use kpps_methods::{Kind, Load, units};
use kpps_sim::{Choice, choice};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

/// The arguments that choose a testbed.
#[derive(Args)]
#[command(
    mut_arg("machine", |machine| machine.help("The simulated machine: a name (`kpps list machines`) or a .toml file \
        [default: morris2000; with --app: lunz2003]")),
    mut_arg("driver", |driver| driver.help("The driver preset: a name (`kpps list drivers`) or a .toml file \
        [default: kpps]")),
    mut_arg("set", |set| set.help("Give a constant another value, as driver.rx_ring=80 (`kpps list KIND NAME` shows \
        them); with lab: a setting of the guest, as linux.RxIntDelay=100")),
)]
pub struct Target {
    /// The two ports, with the device under test between them
    #[arg(
        long,
        value_delimiter = ',',
        value_name = "PORT,PORT",
        conflicts_with_all = ["testbed", "app", "machine", "chip", "driver", "seed"], help_heading = heading::TESTBED)]
    ports: Vec<String>,
    /// Another testbed: sim:MACHINE/DRIVER/APP, the simulator (as --machine, --driver, --app; the driver is
    /// kpps if none is named); lab:KERNEL/DEVICE/DRIVER/APP, a guest in QEMU; known:RATE, a system that
    /// delivers this rate; PORT,PORT as --ports [default: the simulator]
    #[arg(
        long,
        value_delimiter = ',',
        value_name = "NAME,…",
        conflicts_with_all = ["app", "machine", "chip", "driver"], help_heading = heading::TESTBED)]
    pub testbed: Vec<String>,
    #[command(flatten)]
    pub machine: Machine,
    #[command(flatten)]
    pub top: OnTop,
    /// Seed of everything random in the simulator and of --noise; equal seeds give equal results [default: 1]
    #[arg(long, value_parser = units::seed, help_heading = heading::TESTBED)]
    seed: Option<u64>,
    /// With lab: the guest's clock: instructions, a nanosecond for each one that it executes, or wall
    /// [default: instructions]
    #[arg(long, value_name = "CLOCK", requires = "testbed", help_heading = heading::TESTBED)]
    clock: Option<Clock>,
    /// With lab: load this module in place of the kernel's own driver
    #[arg(long, value_name = "FILE.ko", requires = "testbed", help_heading = heading::TESTBED)]
    driver_module: Option<PathBuf>,
    /// With known:RATE: one second in twenty loses up to 2000 frames more
    #[arg(long, requires = "testbed", help_heading = heading::TESTBED)]
    noise: bool,
    #[command(flatten)]
    pub pair: PortPair,
    #[command(flatten)]
    pub options: PortOptions,
}

impl Target {
    /// Resolves the names of the command line: from now on `ports` are the testbed, and what
    /// sim:MACHINE/DRIVER/APP says is in the fields that the single options have.
    pub fn resolve(&mut self) -> Result<(), Failure> {
        if !self.ports.is_empty() {
            self.testbed = std::mem::take(&mut self.ports);
            ports::specs(&self.testbed)?;
        }
        match &self.testbed[..] {
            [one] if one.starts_with(choice::PREFIX) => {
                let choice: Choice = one.parse().map_err(Failure::Input)?;
                self.testbed.clear();
                self.top.app = choice.app;
                self.machine.driver = vec![choice.driver().to_owned()];
                self.machine.machine = choice.machine;
            }
            [.., one] if one.starts_with(choice::PREFIX) => {
                return Err(Failure::Input(format!("{one} is a testbed by itself, not one of two ports")));
            }
            _ => (),
        }
        let (kind, is_set) = (self.kind(), !self.machine.constants.set.is_empty());
        match self.pair.given().or(self.options.given()) {
            Some(what) if kind != Kind::Ports => {
                Err(Failure::Input(format!("{}: {what} takes two ports", self.name().join(","))))
            }
            _ if is_set && [Kind::Known, Kind::Ports].contains(&kind) => {
                Err(Failure::Input("--set is for the simulator and for guests".into()))
            }
            _ if self.driver_module.is_some() && kind != Kind::Guests => {
                Err(Failure::Input("--driver-module is for guests: --testbed lab:KERNEL/DEVICE".into()))
            }
            _ if self.clock.is_some() && kind != Kind::Guests => {
                Err(Failure::Input("--clock is for guests: --testbed lab:KERNEL/DEVICE".into()))
            }
            _ if self.seed.is_some() && !(kind == Kind::Simulator || kind == Kind::Known && self.noise) => {
                Err(Failure::Input("--seed is for the simulator, and for known:RATE with --noise".into()))
            }
            _ if self.top.one_way && self.top.app.is_none() => {
                Err(Failure::Input("--one-way is for an app between two simulated cards: give --app".into()))
            }
            _ if self.noise && kind != Kind::Known => {
                Err(Failure::Input("--noise is for a known rate: --testbed known:RATE".into()))
            }
            _ => Ok(()),
        }
    }

    /// The seed of everything random.
    pub fn seed(&self) -> u64 {
        self.seed.unwrap_or(1)
    }

    /// The clock of a guest.
    fn clock(&self) -> Clock {
        self.clock.unwrap_or(Clock::Instructions)
    }

    /// The kind of testbed.
    pub fn kind(&self) -> Kind {
        Kind::of(&self.testbed)
    }

    /// Whether time is virtual.
    pub fn is_simulated(&self) -> bool {
        self.kind() == Kind::Simulator
    }

    /// The simulated machine with its one driver.
    pub fn choice(&self) -> Result<Choice, Failure> {
        self.machine.with_one_driver(self.top)
    }

    /// Its name in results.
    pub fn name(&self) -> Vec<String> {
        match self.is_simulated() {
            true => vec![self.machine.with(self.machine.driver.first().cloned(), self.top).name()],
            false => self.pair.names(&self.testbed),
        }
    }

    /// The sizes of frames, `given` or the default.
    pub fn sizes(&self, given: Option<&Mix>) -> Mix {
        let own = self.machine.with(None, self.top).default_size();
        given.cloned().unwrap_or_else(|| Mix::fixed(self.pair.size().unwrap_or(own)))
    }

    /// Opens it.
    pub fn open(&self, session: &Session) -> Result<OpenTestbed, Failure> {
        match self.kind() {
            Kind::Simulator => {
                let choice = self.choice()?;
                let setup = choice.setup()?;
                let environment = setup.parts();
                Ok(OpenTestbed::plain(choice.testbed(setup), environment))
            }
            Kind::Known => {
                let seed = self.noise.then_some(self.seed());
                let known = Known::named(&self.testbed.join(","), seed).map_err(Failure::Input)?;
                Ok(OpenTestbed::plain(Box::new(known), BTreeMap::new()))
            }
            Kind::Guests => self.open_guest(),
            Kind::Ports => self.pair.testbed(session, &self.testbed, &self.options),
        }
    }

    #[cfg(all(target_os = "linux", feature = "ports"))]
    fn open_guest(&self) -> Result<OpenTestbed, Failure> {
        let (guests, environment) = self.open_guests()?;
        if guests.len() > 1 {
            return Err(Failure::Input("give one guest here; kpps curve compares several".into()));
        }
        let mut guest = guests.into_iter().zip(environment.presets.into_values());
        let ((_, testbed), what) = guest.next().ok_or_else(|| Failure::Input("there is no guest".into()))?;
        Ok(OpenTestbed::plain(testbed, [("guest in QEMU".to_owned(), what)].into()))
    }

    #[cfg(not(all(target_os = "linux", feature = "ports")))]
    fn open_guest(&self) -> Result<OpenTestbed, Failure> {
        Err(Failure::Input("guests in QEMU need Linux, and a kpps that was built with ports".into()))
    }

    /// Opens all guests, each with its name, and returns their common properties.
    #[cfg(all(target_os = "linux", feature = "ports"))]
    pub fn open_guests(&self) -> Result<kpps_qemu::lab::Guests, Failure> {
        kpps_tester::provenance::begin();
        let (set, module) = (choice::words(&self.machine.constants.set), self.driver_module.as_deref());
        kpps_qemu::lab::open(&self.testbed, &set, self.clock(), module).map_err(Failure::Input)
    }

    /// The environment of curves and grids on it, without what their frames determine.
    pub fn described(&self, opened: &OpenTestbed) -> Environment {
        Environment {
            kpps_version: env!("CARGO_PKG_VERSION").into(),
            testbed: self.kind().name().into(),
            machine: self.name().join(" and "),
            measured_on: opened.environment.clone(),
            bidirectional: self.kind() == Kind::Ports && self.pair.is_bidirectional(),
            traffic: self.pair.unusual(),
            ..Environment::default()
        }
    }

    /// A load of these frames for this long, by default as long as a trial takes on it.
    pub fn load(&self, sizes: &Mix, offered_pps: f64, duration: Option<Duration>) -> Load {
        Load {
            offered_pps,
            size: sizes.only().unwrap_or(Size::MIN),
            warmup_ms: self.kind().warmup_ms(),
            duration_ms: units::millis(duration.unwrap_or(self.trial_time())),
            seed: self.seed(),
        }
    }

    /// How long a trial is measured by default.
    pub fn trial_time(&self) -> Duration {
        self.kind().trial_time(self.clock())
    }
}

/// The frame sizes of RFC 2544, 9.1, for Ethernet.
pub const SIZES: &str = "64,128,256,512,1024,1280,1518";
