//! Which machine is simulated: arguments of everything that runs in the simulator.

use crate::error::Failure;
use crate::heading;
use clap::Args;
use kpps_documents::grid::Setting;
use kpps_methods::parameter;
use kpps_profiles::Change;
use kpps_sim::error_bars::DRAWS;
use kpps_sim::{AppKind, Choice, choice};

/// The help of `--driver` where several are compared.
pub const COMPARED: &str = "Driver presets to compare: names (`kpps list drivers`) or .toml files [default: of the \
    drivers in the machine's profile, all that fit its chip and stack]";

/// Constants that are not as the profiles have them.
#[derive(Args, Clone, Default)]
pub struct Constants {
    /// Set a constant of a profile, as driver.rx_ring=80 or host.ring_offset_bytes=16 (`kpps list KIND NAME`
    /// shows the constants); the value *1.1 multiplies the profile's value by 1.1
    #[arg(long, value_name = "PATH=VALUE", value_parser = parameter::change, help_heading = heading::MACHINE)]
    pub set: Vec<(String, Setting)>,
}

impl Constants {
    /// The constants as changes of profiles.
    pub fn changes(&self) -> Result<Vec<Change>, Failure> {
        let changes = self.set.iter().map(|(path, value)| choice::change(path, value));
        Ok(changes.collect::<Result<_, _>>()?)
    }
}

/// Error bars of simulated results.
#[derive(Args, Clone, Copy, Default)]
pub struct ErrorBars {
    /// Show how far the simulator's uncertain constants make its results uncertain: draw all of them at
    /// random N times (20 to 10000), and give the 5th and the 95th percentile of each result
    #[arg(long = "error-bars", value_name = "N", value_parser = draws, help_heading = heading::MACHINE)]
    pub draws: Option<usize>,
}

fn draws(text: &str) -> Result<usize, String> {
    let draws = text.parse().ok().filter(|draws| DRAWS.contains(draws));
    draws.ok_or_else(|| format!("give the number of draws, {} to {}", DRAWS.start(), DRAWS.end()))
}

/// The parts of a machine. Each command says what its defaults are.
#[derive(Args, Clone)]
pub struct Machine {
    /// The machine: a name (`kpps list machines`) or a .toml file
    #[arg(long, help_heading = heading::MACHINE)]
    pub machine: Option<String>,
    /// Another chip for the machine: a name (`kpps list chips`) or a .toml file
    #[arg(long, help_heading = heading::MACHINE)]
    pub chip: Option<String>,
    /// The driver preset: a name (`kpps list drivers`) or a .toml file
    #[arg(long, value_delimiter = ',', value_name = "DRIVER,…", help_heading = heading::MACHINE)]
    pub driver: Vec<String>,
    #[command(flatten)]
    pub constants: Constants,
}

impl Machine {
    /// The machine with a driver preset, and what runs on top.
    pub fn with(&self, driver: Option<String>, top: OnTop) -> Result<Choice, Failure> {
        let (machine, chip) = (self.machine.clone(), self.chip.clone());
        let OnTop { app, one_way } = top;
        let set = self.constants.changes()?;
        Ok(Choice { machine, chip, driver, app, one_way, set, ..Choice::default() })
    }

    /// The machine with the one driver preset, and what runs on top.
    pub fn with_one_driver(&self, top: OnTop) -> Result<Choice, Failure> {
        let machine = self.with(None, top)?;
        check_one_way(&machine)?;
        with_one_driver(machine, &self.driver)
    }
}

/// Refuses a load on one card only where there is no app.
pub fn check_one_way(machine: &Choice) -> Result<(), Failure> {
    match machine.one_way && machine.app.is_none() {
        true => Err(Failure::Input("--one-way is for an app between two simulated cards: give --app".into())),
        false => Ok(()),
    }
}

/// The machine with the one driver preset of these, or with the default if none is named.
pub fn with_one_driver(machine: Choice, drivers: &[String]) -> Result<Choice, Failure> {
    match drivers {
        [] => Ok(machine),
        [one] => Ok(Choice { driver: Some(one.clone()), ..machine }),
        _ => Err(Failure::Input(
            "this command takes one driver: give one, or compare several with `kpps curve`".into(),
        )),
    }
}

/// A rate-limited NIC as the card of a machine.
#[derive(Args, Clone)]
pub struct Nic {
    /// A rate-limited NIC with its own driver, in place of --chip and --driver: a name (`kpps list nics`) or
    /// a .toml file
    #[arg(long, conflicts_with_all = ["chip", "driver"], help_heading = heading::MACHINE)]
    pub nic: Option<String>,
}

/// The program on top of the driver in the simulator: a receiver, or an app between two cards.
#[derive(Args, Clone, Copy, Default)]
pub struct OnTop {
    /// Simulate an app that forwards between two cards: bridge, route (IPv4), vlan-route or nat. The load is
    /// then the sum of both directions [default: a receiver on one card]
    #[arg(long, help_heading = heading::MACHINE)]
    pub app: Option<AppKind>,
    /// With --app: offer the whole load to the first card, and nothing to the second
    #[arg(long, help_heading = heading::MACHINE)]
    pub one_way: bool,
}
