//! What stands on the driver in the machine room: a receiver, or an app between two cards.

use clap::Args;
use kpps_frames::{Size, rate};
use kpps_measure::Testbed;
use kpps_report::Environment;
use kpps_sim::forwarding::line_pps;
use kpps_sim::{Forwarder, Forwarding, Setup, Simulated};

/// What stands on the driver.
#[derive(Args, Clone, Copy)]
pub struct Room {
    /// An app between two cards instead of a receiver on one: bridge, route (IPv4), vlan-route or nat. Loads are then
    /// those of both directions together
    #[arg(long)]
    pub app: Option<Forwarder>,
}

impl Room {
    /// The machine if none is given: its stack must be able to do the job.
    pub fn machine(self, given: Option<&str>) -> &str {
        given.unwrap_or(if self.app.is_some() { "lunz2003" } else { "morris2000" })
    }

    /// The size of frames if none is given: the smallest test frames.
    pub fn size(self, given: Option<Size>) -> Size {
        given.unwrap_or(self.app.map_or(Size::MIN, Forwarder::least_size))
    }

    /// The highest load: what one wire carries, or with an app two.
    pub fn line_rate_pps(self, size: Size) -> f64 {
        match self.app {
            Some(_) => line_pps(size),
            None => rate::line_rate_pps(rate::GIGABIT, size),
        }
    }

    /// The testbed with this set-up.
    pub fn testbed(self, setup: Setup) -> Box<dyn Testbed> {
        match self.app {
            Some(app) => Box::new(Forwarding::new(setup, app)),
            None => Box::new(Simulated::new(setup)),
        }
    }

    /// The name of the app, for results.
    pub fn app_name(self) -> Option<String> {
        self.app.map(|app| app.to_string())
    }

    /// What there is to say of this set-up in curves and grids, but for their frames.
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
