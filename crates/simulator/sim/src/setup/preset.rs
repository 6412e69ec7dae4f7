//! The driver of a set-up: a preset, with the calling program's service policy if it has one.

use super::system::System;
use super::{OWN, SetupError, cannot_copy};
use crate::device::e1000::{DriverModel, Kernel};
use crate::device::policy::OwnPolicy;
use crate::stack_params::StackParams;
use kpps_datasheet::Chip;
use kpps_driver::Config;
use kpps_driver::config::{RxFormat, Service};
use kpps_host::host;
use kpps_profiles::{Change, Constant, Kind, Profile};

/// The name of the driver's constant for its longest frame.
pub(super) const MOST_BYTES: &str = "max_frame_bytes";

/// A driver preset.
pub(super) struct Preset<'n> {
    /// The name that the user gave.
    driver: &'n str,
    pub profile: Profile,
    /// The driver's behaviour towards the operating system; `config` has its other choices.
    pub model: DriverModel,
    pub config: Config,
    pub policy: Option<OwnPolicy>,
}

impl<'n> Preset<'n> {
    /// The preset of this name, or the base of the policy of this name.
    pub fn named(driver: &'n str, changes: &[Change]) -> Result<Self, SetupError> {
        let policy = OwnPolicy::named(driver);
        let base = policy.as_ref().map_or(driver, |policy| &policy.base);
        let profile = Profile::named(Kind::Driver, base)?.changed(changes)?;
        let (model, own) = profile.split(&DriverModel::CONSTANTS);
        let model = model.get()?;
        let mut config = own.get::<Config>().map_err(|error| error.also_known(&DriverModel::CONSTANTS))?;
        if let Some(OwnPolicy { budget: burst, .. }) = policy {
            // A thread polls when the policy says so, and sleeps until an interrupt otherwise.
            config.service = Service::SelfPacing { burst, reserve: 0, polling_rdtr: 0 };
        }
        Ok(Self { driver, profile, model, config, policy })
    }

    /// Refuses a chip that the driver cannot drive, or whose model lacks a feature that the driver uses.
    pub fn check_chip(&self, chip: Chip) -> Result<(), SetupError> {
        let Self { driver, config, .. } = self;
        config.validate(chip).map_err(|e| {
            SetupError::Mismatch(format!("driver preset '{driver}' cannot drive the {}: {e}", chip.name()))
        })?;
        let lacks = match config.rx_format {
            _ if config.queues > 1 => Some("has one queue in each direction: set driver.queues=1"),
            RxFormat::Split { .. } => Some("does not split headers: set driver.rx_format=extended"),
            _ => None,
        };
        match lacks.filter(|_| chip.is_pci_express()) {
            Some(lacks) => {
                let name = chip.name();
                Err(SetupError::Mismatch(format!(
                    "driver preset '{driver}': the model of the {name} {lacks}"
                )))
            }
            None => Ok(()),
        }
    }

    /// Refuses a system on which the driver cannot run.
    pub fn check_system(&self, system: &System, host_params: &host::Params) -> Result<(), SetupError> {
        let Self { driver, config, .. } = self;
        if let (StackParams::FreeBsd(_), Service::Napi { .. }) = (&system.stack_params, config.service) {
            return Err(SetupError::Mismatch(format!(
                "driver preset '{driver}' uses NAPI, which FreeBSD's stack '{}' does not have: \
                 choose a driver that works in its interrupt handler, is only polled, or paces itself",
                system.stack_profile.name()
            )));
        }
        if config.rx_copybreak_bytes > 0 && host_params.copy_byte_ps == 0 {
            return Err(SetupError::Mismatch(cannot_copy(system.host_profile.name())));
        }
        Ok(())
    }

    /// The name of the policy, or of the preset if there is no policy.
    pub fn name(&self) -> &str {
        self.policy.as_ref().map_or(self.profile.name(), |policy| &policy.name)
    }

    /// The description of the driver on a machine with this kernel, in one sentence.
    pub fn description(&self, kernel: Kernel) -> String {
        let described = self.policy.as_ref().map_or(self.profile.description(), |it| &it.description);
        if self.model.existed_for(kernel) {
            return described.to_owned();
        }
        let own = self.model.kernels.iter().map(Kernel::to_string).collect::<Vec<_>>().join(" and ");
        format!("{described} (written for {own}: with {kernel} it runs only in this simulator)")
    }

    /// The longest frame that the driver accepts, if the user has chosen it, by a change or in a profile of
    /// their own; `None` if it is a built-in preset's.
    pub fn set_frame_bytes(&self, changes: &[Change]) -> Option<u16> {
        let is_set = |change: &Change| {
            change.profile.is_none() && change.kind == Kind::Driver && change.constant == MOST_BYTES
        };
        let is_own = |constant: &Constant| constant.name == MOST_BYTES && constant.source == OWN;
        (changes.iter().any(is_set) || self.profile.constants().iter().any(is_own))
            .then_some(self.config.max_frame_bytes)
    }
}
