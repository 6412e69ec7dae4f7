//! The set-up of a machine with a card of either kind: an e1000 with a driver preset, or a rate-limited NIC
//! with its own driver.

use crate::effect::Activity;
use crate::setup::{RateLimitedSetup, Setup, SetupError};
use crate::stack_params::StackParams;
use kpps_documents::Environment;
use kpps_frames::rate;
use kpps_profiles::Change;
use std::collections::BTreeMap;

/// The set-up of a machine with one card.
#[derive(Clone, Debug)]
pub enum AnySetup {
    /// With an e1000.
    E1000(Box<Setup>),
    /// With a rate-limited NIC.
    RateLimited(Box<RateLimitedSetup>),
}

impl From<Setup> for AnySetup {
    fn from(setup: Setup) -> Self {
        Self::E1000(Box::new(setup))
    }
}

impl From<RateLimitedSetup> for AnySetup {
    fn from(setup: RateLimitedSetup) -> Self {
        Self::RateLimited(Box::new(setup))
    }
}

impl AnySetup {
    /// Its name among others on the same machine: the driver preset, or the NIC.
    pub fn name(&self) -> &str {
        match self {
            Self::E1000(setup) => &setup.driver,
            Self::RateLimited(setup) => &setup.nic,
        }
    }

    /// The host's name.
    pub fn host(&self) -> &str {
        match self {
            Self::E1000(setup) => &setup.host,
            Self::RateLimited(setup) => &setup.host,
        }
    }

    /// The stack's name.
    pub fn stack(&self) -> &str {
        match self {
            Self::E1000(setup) => &setup.stack,
            Self::RateLimited(setup) => &setup.stack,
        }
    }

    /// The stack.
    pub fn stack_params(&self) -> &StackParams {
        match self {
            Self::E1000(setup) => &setup.stack_params,
            Self::RateLimited(setup) => &setup.stack_params,
        }
    }

    /// CPUs of the machine.
    pub fn cpus(&self) -> usize {
        match self {
            Self::E1000(setup) => setup.cpus,
            Self::RateLimited(setup) => setup.cpus,
        }
    }

    /// Bits per second of its wire.
    pub fn link_bits_per_s(&self) -> u64 {
        match self {
            Self::E1000(_) => rate::GIGABIT,
            Self::RateLimited(setup) => setup.link_bits_per_s(),
        }
    }

    /// Refuses changes that would change nothing, because nothing of this activity reads them.
    ///
    /// # Errors
    /// The constant, and the reason.
    pub fn check_effects(&self, changes: &[Change], activity: Activity) -> Result<(), SetupError> {
        match self {
            Self::E1000(setup) => setup.check_effects(changes, activity),
            Self::RateLimited(setup) => setup.check_effects(changes, activity),
        }
    }

    fn environment(&self) -> Environment {
        match self {
            Self::E1000(setup) => setup.environment(),
            Self::RateLimited(setup) => Environment {
                presets: BTreeMap::from([(setup.nic.clone(), setup.nic_description.clone())]),
                ..setup.environment()
            },
        }
    }

    fn own_profiles(&self) -> &[String] {
        match self {
            Self::E1000(setup) => &setup.own_profiles,
            Self::RateLimited(setup) => &setup.own_profiles,
        }
    }

    /// The environment of results of set-ups that differ in their drivers only; the driver's name, if there
    /// is one set-up.
    pub(crate) fn environment_of(setups: &[Self]) -> Environment {
        let environments = setups.iter().map(Self::environment);
        let presets = environments.flat_map(|environment| environment.presets).collect();
        match setups {
            [] => Environment::default(),
            [one] => one.environment(),
            [first, ..] => Environment {
                driver: String::new(),
                profiles_hash: kpps_profiles::hash(setups.iter().flat_map(Self::own_profiles)),
                presets,
                ..first.environment()
            },
        }
    }
}
