//! The testbed of a trial: the simulator, two ports, guests in QEMU, or a system whose rate is known.
//!
//! [`TestbedArguments`] has the arguments as the user typed them. [`TestbedArguments::resolve`] reads them
//! once and returns a [`Target`], which all other code uses.

use crate::error::Failure;
use crate::guests::GuestArguments;
use crate::heading;
use crate::live::{Live, OpenTestbed};
use crate::ports::{Guests, PortOptions, PortPair, Ports};
use crate::session::Session;
use crate::simulator::{Machine, OnTop};
use crate::typed::Typed;
use clap::Args;
use kpps_documents::Environment;
use kpps_documents::lab::Clock;
use kpps_frames::rate::Rate;
use kpps_frames::{Mix, Size};
use kpps_methods::search::Known;
use kpps_methods::{Kind, Load, units};
use kpps_sim::{Choice, choice};
use std::time::Duration;

/// The arguments that choose a testbed, as they are typed.
#[derive(Args)]
#[command(
    mut_arg("machine", |machine| machine.help("The simulated machine: a name (`kpps list machines`) or a .toml file \
        [default: morris2000; with --app: lunz2003]")),
    mut_arg("driver", |driver| driver.help("The driver preset: a name (`kpps list drivers`) or a .toml file \
        [default: kpps]")),
    mut_arg("set", |set| set.help("Set a constant of a profile, as driver.rx_ring=80 (`kpps list KIND NAME` shows the \
        constants); the value *1.1 multiplies the profile's value by 1.1. With --testbed lab:…: change a setting of the \
        guest, as linux.RxIntDelay=100")),
)]
pub struct TestbedArguments {
    /// The two ports; the device under test lies between them. `kpps trial` takes up to 16 ports of this
    /// host: each sends to all others, or as a file of --streams says
    #[arg(long, value_delimiter = ',', value_name = "PORT,PORT", conflicts_with = "testbed", help_heading = heading::TESTBED)]
    ports: Vec<String>,
    /// The testbed. sim:MACHINE/DRIVER/APP is the simulator, as with --machine, --driver and --app (without
    /// DRIVER, the driver is kpps); lab:KERNEL/DEVICE/DRIVER/APP is a guest in QEMU; known:RATE is a system
    /// that delivers all frames up to this rate; PORT,PORT means two ports, as with --ports [default: the
    /// simulator]
    #[arg(long, value_delimiter = ',', value_name = "NAME,…", help_heading = heading::TESTBED)]
    testbed: Vec<String>,
    #[command(flatten)]
    machine: Typed<Machine>,
    #[command(flatten)]
    top: Typed<OnTop>,
    /// Seed of all random numbers in the simulator, or of --noise. The same seed gives the same results
    /// [default: 1]
    #[arg(long, value_parser = units::seed, help_heading = heading::TESTBED)]
    seed: Option<u64>,
    #[command(flatten)]
    guests: Typed<GuestArguments>,
    /// With --testbed known:RATE: drop 1 to 2000 additional frames in one second of twenty, chosen at random
    #[arg(long, help_heading = heading::TESTBED)]
    noise: bool,
    #[command(flatten)]
    pair: Typed<PortPair>,
    #[command(flatten)]
    options: Typed<PortOptions>,
    #[command(flatten)]
    live: Live,
}

/// The testbed that was chosen, and how a run on it is shown.
pub struct Target {
    /// The testbed.
    pub testbed: Chosen,
    /// How much is shown while a run lasts.
    pub live: Live,
}

/// A testbed with all its options. No option is a text that still has to be parsed.
pub enum Chosen {
    /// The simulator.
    Simulator(Simulated),
    /// A system whose rate is known.
    Known(KnownRate),
    /// Two ports.
    Ports(Box<Ports>),
    /// Guests in QEMU.
    Guests(Guests),
}

/// A simulated machine.
pub struct Simulated {
    /// The machine without a driver.
    pub machine: Choice,
    /// The drivers that were named; none means the default.
    pub drivers: Vec<String>,
    /// The parts that the testbed's name contains: `machine` for sim:MACHINE.
    pub named: Vec<&'static str>,
    /// The seed of everything random.
    pub seed: u64,
}

/// A system that delivers all frames up to a known rate.
pub struct KnownRate {
    name: String,
    pps: f64,
    /// The seed of the noise, if there is noise.
    noise: Option<u64>,
}

/// The kind of testbed that these names choose.
fn kind(names: &[String]) -> Result<Kind, Failure> {
    let prefix = |name: &str| name.split_once(':').map(|(prefix, _)| prefix.to_owned());
    let is_simulated = |name: &&String| name.starts_with(choice::PREFIX);
    match names {
        [] => Ok(Kind::Simulator),
        [one] if is_simulated(&one) => Ok(Kind::Simulator),
        all if all.iter().any(|name| is_simulated(&name)) => {
            let one = all.iter().find(is_simulated).map_or("", String::as_str);
            Err(Failure::Input(format!("{one} is a complete testbed, not one of several: give it alone")))
        }
        [first, ..] => Ok(match prefix(first).as_deref() {
            Some("known") => Kind::Known,
            Some("lab") => Kind::Guests,
            _ => Kind::Ports,
        }),
    }
}

impl TestbedArguments {
    /// The paths of the constants that were set.
    pub fn constants(&self) -> impl Iterator<Item = &str> {
        self.machine.constants.set.iter().map(|(path, _)| path.as_str())
    }

    /// The names of the testbed, by whichever option they were typed; none means the simulator.
    fn testbed_names(&self) -> &[String] {
        if self.ports.is_empty() { &self.testbed } else { &self.ports }
    }

    /// The testbed that these arguments choose.
    pub fn resolve(self) -> Result<Target, Failure> {
        let kind = if self.ports.is_empty() { kind(&self.testbed)? } else { Kind::Ports };
        self.refuse_options_of_others(kind)?;
        let live = self.live;
        let testbed = match kind {
            Kind::Simulator => Chosen::Simulator(self.simulated()?),
            Kind::Known => Chosen::Known(self.known()?),
            Kind::Guests => Chosen::Guests(self.guests()?),
            Kind::Ports => Chosen::Ports(Box::new(self.ports()?)),
        };
        Ok(Target { testbed, live })
    }

    /// Refuses an option that this kind of testbed does not have.
    fn refuse_options_of_others(&self, kind: Kind) -> Result<(), Failure> {
        let names = self.testbed_names();
        let here = if names.is_empty() { "the simulator".to_owned() } else { names.join(",") };
        let has_seed = kind == Kind::Simulator || kind == Kind::Known && self.noise;
        let is_set = self.machine.names().any(|name| name == "set");
        let simulated = self.machine.names().chain(self.top.names()).find(|name| *name != "set");
        let refused = if let Some(option) =
            self.pair.first().or_else(|| self.options.first()).filter(|_| kind != Kind::Ports)
        {
            format!("{option} is for two ports, not for {here}")
        } else if let Some(option) = simulated.filter(|_| kind != Kind::Simulator) {
            format!("--{option} is for the simulator, not for {here}")
        } else if is_set && [Kind::Known, Kind::Ports].contains(&kind) {
            format!("--set is for the simulator and for guests, not for {here}")
        } else if let Some(option) = self.guests.first().filter(|_| kind != Kind::Guests) {
            format!("{option} is for guests, not for {here}: give --testbed lab:KERNEL/DEVICE")
        } else if self.seed.is_some() && !has_seed {
            "--seed is for the simulator, and for known:RATE with --noise".to_owned()
        } else if self.noise && kind != Kind::Known {
            format!("--noise is for a system with a known rate, not for {here}: give --testbed known:RATE")
        } else {
            return Ok(());
        };
        Err(Failure::Input(refused))
    }

    fn simulated(self) -> Result<Simulated, Failure> {
        let mut machine = self.machine.with(None, *self.top)?;
        let mut drivers = self.machine.options().driver;
        let mut parts = Vec::new();
        if let Some(name) = self.testbed.first() {
            if machine.machine.is_some() || machine.app.is_some() || !drivers.is_empty() {
                return Err(Failure::Input(format!(
                    "{name} already chooses machine, driver and app: leave out --machine, --driver and --app"
                )));
            }
            let named: Choice = name.parse().map_err(Failure::Input)?;
            let has = [("machine", named.machine.is_some()), ("driver", named.driver.is_some())];
            let has = has.into_iter().chain([("app", named.app.is_some())]);
            parts = has.filter_map(|(part, is_named)| is_named.then_some(part)).collect();
            drivers = vec![named.driver().to_owned()];
            (machine.machine, machine.app) = (named.machine, named.app);
        }
        crate::simulator::check_one_way(&machine)?;
        Ok(Simulated { machine, drivers, named: parts, seed: self.seed.unwrap_or(1) })
    }

    fn known(self) -> Result<KnownRate, Failure> {
        let name = self.testbed.join(",");
        let rate = name.strip_prefix("known:").unwrap_or(&name).parse().map_err(Failure::Input)?;
        let units::RateSpec::Pps(pps) = rate else {
            return Err(Failure::Input("give the known rate in frames per second: known:700kpps".into()));
        };
        let noise = self.noise.then_some(self.seed.unwrap_or(1));
        Ok(KnownRate { name, pps, noise })
    }

    fn guests(self) -> Result<Guests, Failure> {
        let set = self.machine.options().constants.set;
        Guests::resolve(&self.testbed, set, self.guests.options())
    }

    fn ports(self) -> Result<Ports, Failure> {
        let names = self.testbed_names().to_vec();
        Ports::resolve(&names, self.pair.options(), self.options.options())
    }
}

impl Simulated {
    /// The machine with its one driver.
    pub fn with_one_driver(&self) -> Result<Choice, Failure> {
        crate::simulator::with_one_driver(self.machine.clone(), &self.drivers)
    }
}

impl Target {
    /// The kind of testbed.
    pub fn kind(&self) -> Kind {
        match self.testbed {
            Chosen::Simulator(_) => Kind::Simulator,
            Chosen::Known(_) => Kind::Known,
            Chosen::Ports(_) => Kind::Ports,
            Chosen::Guests(_) => Kind::Guests,
        }
    }

    /// Whether time is virtual.
    pub fn is_simulated(&self) -> bool {
        self.kind() == Kind::Simulator
    }

    /// The seed of everything random.
    pub fn seed(&self) -> u64 {
        match &self.testbed {
            Chosen::Simulator(Simulated { seed, .. }) => *seed,
            Chosen::Known(KnownRate { noise, .. }) => noise.unwrap_or(1),
            Chosen::Ports(_) | Chosen::Guests(_) => 1,
        }
    }

    /// Its name in results: two names for two ports.
    pub fn name(&self) -> Vec<String> {
        match &self.testbed {
            Chosen::Simulator(Simulated { machine, drivers, .. }) => {
                vec![Choice { driver: drivers.first().cloned(), ..machine.clone() }.name()]
            }
            Chosen::Known(known) => vec![known.name.clone()],
            Chosen::Ports(ports) => ports.names(),
            Chosen::Guests(guests) => guests.names(),
        }
    }

    /// The sizes of frames, `given` or the default.
    ///
    /// # Errors
    /// Sizes are given, and streams have their own.
    pub fn sizes(&self, given: Option<&Mix>) -> Result<Mix, Failure> {
        let of_streams = match &self.testbed {
            Chosen::Ports(ports) => ports.sizes_of_streams(),
            _ => None,
        };
        if of_streams.is_some() && given.is_some() {
            let why = "--size has no effect: the file of --streams gives the sizes of each stream";
            return Err(Failure::Input(why.into()));
        }
        Ok(of_streams.or_else(|| given.cloned()).unwrap_or_else(|| self.usual_sizes()))
    }

    /// The sizes of frames where none are given, and there are no streams.
    pub fn usual_sizes(&self) -> Mix {
        Mix::fixed(match &self.testbed {
            Chosen::Simulator(simulated) => simulated.machine.default_size(),
            Chosen::Ports(ports) => ports.size().unwrap_or(Size::MIN),
            _ => Size::MIN,
        })
    }

    /// Refuses streams, for a command that varies what a stream has itself.
    pub fn refuse_streams(&self, command: &str) -> Result<(), Failure> {
        match &self.testbed {
            Chosen::Ports(ports) if ports.has_streams() => Err(Failure::Input(format!(
                "--streams has no effect: `kpps {command}` chooses sizes and times itself; give it to `kpps trial`, `curve` or `ndr`"
            ))),
            _ => Ok(()),
        }
    }

    /// Refuses more than two ports, for a command whose tests are between two.
    pub fn refuse_several(&self, command: &str) -> Result<(), Failure> {
        match &self.testbed {
            Chosen::Ports(ports) => ports.refuse_several(&format!("`kpps {command}`")),
            _ => Ok(()),
        }
    }

    /// Refuses probes, for a search: its loads are those of all frames.
    pub fn refuse_probes(&self) -> Result<(), Failure> {
        match &self.testbed {
            Chosen::Ports(ports) if ports.has_probes() => Err(Failure::Input(
                "a file of --streams with probes is for `kpps trial` and `curve`: a search counts all frames as its \
                 load. Leave out probe = true"
                    .into(),
            )),
            _ => Ok(()),
        }
    }

    /// Opens the testbed.
    pub fn open(&self, session: &Session) -> Result<OpenTestbed, Failure> {
        match &self.testbed {
            Chosen::Simulator(simulated) => {
                let choice = simulated.with_one_driver()?;
                let setup = choice.setup()?;
                let environment = choice.environment_of_one(&setup, simulated.seed);
                Ok(OpenTestbed::plain(choice.testbed(setup), environment))
            }
            Chosen::Known(KnownRate { name, pps, noise }) => {
                let known = noise.map_or_else(|| Known::quiet(*pps), |seed| Known::noisy(*pps, seed));
                let environment = Environment { seed: *noise, ..Environment::on([name]) };
                Ok(OpenTestbed::plain(Box::new(known), environment))
            }
            Chosen::Ports(ports) => ports.testbed(session),
            Chosen::Guests(guests) => guests.open_one(),
        }
    }

    /// A load of frames of these sizes for `duration`, by default [`Self::trial_time`].
    pub fn load(&self, rate: Rate, sizes: Mix, duration: Option<Duration>) -> Load {
        // In whole milliseconds, because results and kept trials contain it in this unit.
        let duration_ms = units::millis(duration.unwrap_or(self.trial_time()));
        let load = Load::of(0.0, sizes).lasting_ms(self.kind().warmup_ms(), duration_ms);
        Load { rate, ..load.with_seed(self.seed()) }
    }

    /// The default measured time of a trial.
    pub fn trial_time(&self) -> Duration {
        let clock = match &self.testbed {
            Chosen::Guests(guests) => guests.clock(),
            _ => Clock::Instructions,
        };
        self.kind().trial_time(clock)
    }
}

/// The frame sizes of RFC 2544, 9.1, for Ethernet.
pub const SIZES: &str = "64,128,256,512,1024,1280,1518";
