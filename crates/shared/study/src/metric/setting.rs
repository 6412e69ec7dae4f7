//! The configuration that most metrics share: a machine, a chip, a driver, and changed constants.

use super::Context;
use kpps_frames::Size;
use kpps_profiles::{Change, Kind};
use kpps_sim::Setup;
use serde::Deserialize;
use serde::de::DeserializeOwned;

/// A machine, a chip and a driver.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Setting {
    machine: String,
    chip: Option<String>,
    driver: String,
    /// Changed constants, as `"driver.rx_ring" = 80`.
    #[serde(default)]
    set: toml::Table,
    /// Frame size in bytes with FCS.
    #[serde(default = "minimum")]
    pub size: u16,
}

/// The names of its entries.
pub(super) const KEYS: &[&str] = &["machine", "chip", "driver", "set", "size"];

fn minimum() -> u16 {
    Size::MIN.bytes_with_fcs() as u16
}

impl Setting {
    /// The setup, with the context's changes.
    pub fn setup(&self, context: &Context) -> Result<Setup, String> {
        self.setup_with(context, &[])
    }

    /// The same with some more changes.
    pub fn setup_with(&self, context: &Context, more: &[Change]) -> Result<Setup, String> {
        let changes = super::changes(&self.set, more, context)?;
        Setup::changed(&self.machine, self.chip.as_deref(), &self.driver, &changes)
            .map_err(|error| error.to_string())
    }

    /// The same with another driver.
    pub fn with_driver(&self, driver: &str) -> Self {
        Self { driver: driver.into(), ..self.clone() }
    }

    /// The driver preset's name.
    pub fn driver(&self) -> &str {
        &self.driver
    }

    /// Whether the profile that `change` names is one of the setup's.
    pub fn uses(&self, change: &Change) -> Result<bool, String> {
        let Some(profile) = &change.profile else { return Ok(true) };
        let setup = self.setup(&Context { changes: Vec::new(), go_on: &|| true })?;
        let name = match change.kind {
            Kind::Chip => setup.chip,
            Kind::Bus => setup.bus,
            Kind::Host => setup.host,
            Kind::Work => return Ok(true),
            Kind::Stack => setup.stack,
            Kind::Driver => setup.driver,
            Kind::Machine => setup.machine,
            Kind::Nic => return Ok(false),
        };
        Ok(name == *profile)
    }

    /// The frame size.
    pub fn size(&self) -> Size {
        Size::with_fcs(self.size)
    }
}

/// A metric's configuration as a `T`.
pub(super) fn configuration<T: DeserializeOwned>(table: toml::Table) -> Result<T, String> {
    T::deserialize(table).map_err(|error| error.message().replace('\n', "; "))
}
