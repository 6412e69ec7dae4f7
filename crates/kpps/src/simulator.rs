//! Arguments of everything that runs in the simulator, and simulated testbeds.

use crate::error::Failure;
use clap::Args;
use kpps_frames::{Size, rate};
use kpps_measure::Testbed;
use kpps_measure::parameter;
use kpps_profiles::Change;
use kpps_results::Environment;
use kpps_results::grid::Setting;
use kpps_sim::workload::forward::line_pps;
use kpps_sim::{Forwarder, Forwarding, Receiving, Setup};

/// Constants that are not as the profiles have them.
#[derive(Args, Clone, Default)]
pub struct Constants {
    /// Give a constant another value, as driver.rx_ring=80 or host.ring_offset_bytes=16 (`kpps list KIND
    /// NAME` shows them)
    #[arg(long, value_name = "PATH=VALUE", value_parser = parameter::change)]
    pub set: Vec<(String, Setting)>,
}

impl Constants {
    /// The constants as changes of profiles.
    pub fn changes(&self) -> Result<Vec<Change>, Failure> {
        let change = |(path, value): &(String, Setting)| Change::set(path, constant(value));
        self.set.iter().map(change).collect::<Result<_, _>>().map_err(Failure::Input)
    }

    /// The constants as they were typed.
    pub fn words(&self) -> Vec<String> {
        self.set.iter().map(|(path, value)| format!("{path}={value}")).collect()
    }
}

/// A value as profiles have it.
pub fn constant(value: &Setting) -> toml::Value {
    match value {
        Setting::Switch(on) => (*on).into(),
        Setting::Whole(whole) => (*whole).into(),
        Setting::Number(number) => (*number).into(),
        Setting::Word(word) => word.clone().into(),
    }
}

/// What runs on top of the driver in the simulator: a receiver, or an app between two cards.
#[derive(Args, Clone, Copy)]
pub struct OnTop {
    /// Simulate an app between two cards: bridge, route (IPv4), vlan-route or nat. A load is then that of
    /// both directions together [default: a receiver on one card]
    #[arg(long)]
    pub app: Option<Forwarder>,
}

impl OnTop {
    /// The machine if none is given: its stack must be able to run the app.
    pub fn machine(self, given: Option<&str>) -> &str {
        given.unwrap_or(if self.app.is_some() { "lunz2003" } else { "morris2000" })
    }

    /// The size of frames if none is given: the smallest test frame.
    pub fn size(self, given: Option<Size>) -> Size {
        given.unwrap_or(self.app.map_or(Size::MIN, Forwarder::least_size))
    }

    /// The highest load in frames per second: what one wire carries, or with an app two.
    pub fn line_rate_pps(self, size: Size) -> f64 {
        match self.app {
            Some(_) => line_pps(size),
            None => rate::line_rate_pps(rate::GIGABIT, size),
        }
    }

    /// The testbed of this machine.
    pub fn testbed(self, setup: Setup) -> Box<dyn Testbed> {
        match self.app {
            Some(app) => Box::new(Forwarding::new(setup, app)),
            None => Box::new(Receiving::new(setup)),
        }
    }

    /// The name of the app, for results.
    pub fn app_name(self) -> Option<String> {
        self.app.map(|app| app.to_string())
    }

    /// The environment of curves and grids on this machine, without what their frames determine.
    pub fn described(self, setup: &Setup) -> Environment {
        Environment {
            kpps_version: env!("CARGO_PKG_VERSION").into(),
            testbed: "sim".into(),
            machine: setup.machine.clone(),
            chip: setup.chip.clone(),
            bus: setup.bus.clone(),
            host: setup.host.clone(),
            stack: setup.stack.clone(),
            app: self.app_name(),
            profiles_hash: kpps_profiles::hash(&setup.own_profiles),
            presets: [(setup.driver.clone(), setup.driver_description.clone())].into(),
            ..Environment::default()
        }
    }
}
