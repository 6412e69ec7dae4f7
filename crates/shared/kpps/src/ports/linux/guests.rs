//! Guests in QEMU as testbeds.

use crate::error::Failure;
use crate::guests::GuestArguments;
use crate::live::OpenTestbed;
use kpps_documents::{Environment, grid, lab::Clock};
use kpps_qemu::lab::workload::{Setting, Settings};
use kpps_qemu::lab::{self, GuestSpec};
use std::path::PathBuf;

/// Guests with all their settings.
pub struct Guests {
    names: Vec<String>,
    clock: Clock,
    specs: Vec<GuestSpec>,
    settings: Settings,
    driver_module: Option<PathBuf>,
}

impl Guests {
    /// The guests with these names and settings.
    pub fn resolve(
        names: &[String],
        set: Vec<(String, grid::Setting)>,
        arguments: GuestArguments,
    ) -> Result<Self, Failure> {
        let GuestArguments { clock, driver_module } = arguments;
        let settings = set.into_iter().map(|(path, value)| Setting::new(&path, &value.to_string()));
        Ok(Self {
            names: names.to_vec(),
            clock: clock.unwrap_or(Clock::Instructions),
            specs: GuestSpec::all(names).map_err(Failure::Input)?,
            settings: Settings(settings.collect::<Result<_, _>>().map_err(Failure::Input)?),
            driver_module,
        })
    }

    /// Their names, as they were typed.
    pub fn names(&self) -> Vec<String> {
        self.names.clone()
    }

    /// The clock of all.
    pub fn clock(&self) -> Clock {
        self.clock
    }

    /// Opens all, each with its name, and returns their common properties.
    pub fn open(&self) -> Result<lab::GuestTestbeds, Failure> {
        kpps_tester::provenance::begin();
        let module = self.driver_module.as_deref();
        lab::open(self.specs.clone(), &self.settings, self.clock, module).map_err(Failure::Input)
    }

    /// Opens the only one.
    pub fn open_one(&self) -> Result<OpenTestbed, Failure> {
        let (guests, environment) = self.open()?;
        if guests.len() > 1 {
            return Err(Failure::Input(
                "this command takes one guest: give one, or compare several with `kpps curve`".into(),
            ));
        }
        let guest = guests.into_iter().next();
        let (name, testbed) = guest.ok_or_else(|| Failure::Input("there is no guest".into()))?;
        Ok(OpenTestbed::plain(
            testbed,
            Environment { testbed: vec![name], machine: String::new(), ..environment },
        ))
    }
}
