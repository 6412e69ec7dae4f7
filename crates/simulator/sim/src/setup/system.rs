//! The system around the card of a set-up: host, bus and stack.

use super::{COMMON, MachineProfile, SetupError};
use crate::stack_params::StackParams;
use kpps_host::{bus, host};
use kpps_profiles::{Change, Kind, Profile};

/// A machine without its card.
pub(super) struct System {
    pub host_profile: Profile,
    pub bus_profile: Profile,
    pub stack_profile: Profile,
    work_profile: Profile,
    host: host::Host,
    work: host::Work,
    pub bus_params: bus::Params,
    pub stack_params: StackParams,
}

impl System {
    /// The host and the stack of a machine, with this bus.
    pub fn named(place: &MachineProfile, bus: &str, changes: &[Change]) -> Result<Self, SetupError> {
        let named = |kind, name: &str| Profile::named(kind, name)?.changed(changes);
        let host_profile = named(Kind::Host, &place.host)?;
        let bus_profile = named(Kind::Bus, bus)?;
        let stack_profile = named(Kind::Stack, &place.stack)?;
        let host = host_profile.get()?;
        let work_profile = named(Kind::Work, COMMON)?;
        let work = work_profile.get()?;
        let bus_params = bus_profile.get()?;
        let stack_params = StackParams::of(&stack_profile)?;
        Ok(Self {
            host_profile,
            bus_profile,
            stack_profile,
            work_profile,
            host,
            work,
            bus_params,
            stack_params,
        })
    }

    /// Refuses constants that cannot be.
    pub fn check(&self) -> Result<(), SetupError> {
        for (kind, profile, checked) in [
            (Kind::Host, &self.host_profile, self.host.check()),
            (Kind::Work, &self.work_profile, self.work.check()),
            (Kind::Bus, &self.bus_profile, self.bus_params.check()),
            (Kind::Stack, &self.stack_profile, self.stack_params.check()),
        ] {
            checked.map_err(|problem| SetupError::of(kind, profile, &problem))?;
        }
        Ok(())
    }

    /// The host with the work of its stack.
    pub fn host_params(&self) -> host::Params {
        host::Params::new(&self.host, &self.stack_params.work(self.work.clone()))
    }

    /// The profiles of host, bus and stack. The work is common to all machines.
    pub fn profiles(&self) -> [&Profile; 3] {
        [&self.host_profile, &self.bus_profile, &self.stack_profile]
    }
}
