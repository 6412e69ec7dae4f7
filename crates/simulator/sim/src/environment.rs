//! The environments of simulations, without what frames and load determine.

use crate::{RateLimitedSetup, Setup};
use kpps_documents::Environment;
use kpps_profiles::Change;
use std::collections::BTreeMap;

/// The constants that somebody changed, in words, as `driver.rx_ring=80`.
pub(crate) fn words(set: &[Change]) -> Vec<String> {
    set.iter().filter(|change| change.is_named()).map(ToString::to_string).collect()
}

/// The changed constants as a fact about the system; no fact if there are none.
pub(crate) fn system(set: &[Change]) -> BTreeMap<String, String> {
    let set = words(set).join(", ");
    (!set.is_empty()).then(|| ("set".to_owned(), set)).into_iter().collect()
}

impl Setup {
    /// The environment of results of set-ups that differ in their drivers only; the driver's name, if there
    /// is one set-up.
    pub(crate) fn environment_of(setups: &[Self]) -> Environment {
        let Some(setup) = setups.first() else { return Environment::default() };
        let preset = |setup: &Self| (setup.driver.clone(), setup.driver_description.clone());
        Environment {
            machine: setup.machine.clone(),
            chip: setup.chip.clone(),
            bus: setup.bus.clone(),
            host: setup.host.clone(),
            stack: setup.stack.clone(),
            driver: if setups.len() == 1 { setup.driver.clone() } else { String::new() },
            system: system(&setup.set),
            profiles_hash: kpps_profiles::hash(setups.iter().flat_map(|setup| &setup.own_profiles)),
            presets: setups.iter().map(preset).collect(),
            ..Environment::on(["sim"])
        }
    }

    /// The environment of its results.
    pub(crate) fn environment(&self) -> Environment {
        Self::environment_of(std::slice::from_ref(self))
    }
}

impl RateLimitedSetup {
    /// The environment of its results.
    pub(crate) fn environment(&self) -> Environment {
        Environment {
            machine: self.machine.clone(),
            nic: self.nic.clone(),
            bus: self.bus.clone(),
            host: self.host.clone(),
            stack: self.stack.clone(),
            system: system(&self.set),
            profiles_hash: kpps_profiles::hash(&self.own_profiles),
            ..Environment::on(["sim"])
        }
    }
}
