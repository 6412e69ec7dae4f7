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
    /// The environment of its results.
    pub(crate) fn environment(&self) -> Environment {
        Environment {
            machine: self.machine.clone(),
            chip: self.chip.clone(),
            bus: self.bus.clone(),
            host: self.host.clone(),
            stack: self.stack.clone(),
            driver: self.driver.clone(),
            system: system(&self.set),
            profiles_hash: kpps_profiles::hash(&self.own_profiles),
            presets: BTreeMap::from([(self.driver.clone(), self.driver_description.clone())]),
            ..Environment::on(["sim"])
        }
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
