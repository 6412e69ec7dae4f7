//! Settings of the kernel's driver (module parameters, sysctls, NAPI's deferral of interrupts), and the rings
//! of the other two drivers.

use crate::lab::{Error, Guest, Model, Result};
use std::fmt;
use std::str::FromStr;

/// Descriptors in each ring of kpps and DPDK. They are equal, so that drivers are compared and not their
/// defaults.
const RING: u16 = 2048;

/// Ring sizes that both programs accept on both cards.
const RINGS: std::ops::RangeInclusive<u16> = 80..=4096;

/// Settings, in the order in which they were given.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings(pub Vec<Setting>);

/// One setting: `linux.RxDescriptors=80`, `sysctl.net.core.netdev_budget=64`, `napi.defer_hard_irqs=2`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting {
    location: Location,
    name: String,
    value: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Location {
    /// A parameter of the driver's module.
    Linux,
    /// A sysctl.
    Sysctl,
    /// A file of the interface: `napi_defer_hard_irqs`, `gro_flush_timeout`.
    Napi,
    /// The rings of kpps.
    Kpps,
    /// The rings of testpmd.
    Dpdk,
}

const HELP: &str = "give linux.PARAMETER=VALUE (a parameter of the driver's module, as RxDescriptors), sysctl.NAME=VALUE \
    (as net.core.netdev_budget), napi.defer_hard_irqs=COUNT, napi.gro_flush_timeout=NS, kpps.ring=DESCRIPTORS or dpdk.ring=DESCRIPTORS";

impl FromStr for Setting {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        let (path, value) =
            text.split_once('=').ok_or_else(|| format!("'{text}' is not a setting: {HELP}"))?;
        Self::new(path, value)
    }
}

impl Setting {
    /// A setting by its path, as `linux.RxDescriptors`.
    ///
    /// # Errors
    /// There is no such setting, or it cannot have this value.
    pub fn new(path: &str, value: &str) -> std::result::Result<Self, String> {
        let help = || format!("'{path}={value}' is not a setting: {HELP}");
        let (location, name) = path.split_once('.').ok_or_else(help)?;
        let location = match location {
            "linux" => Location::Linux,
            "sysctl" => Location::Sysctl,
            "napi" => Location::Napi,
            "kpps" => Location::Kpps,
            "dpdk" => Location::Dpdk,
            _ => return Err(help()),
        };
        let plain = |text: &str| {
            !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || "_.-,".contains(c))
        };
        if !plain(name) || !plain(value) {
            return Err(help());
        }
        let name = match (location, name) {
            (Location::Napi, _) if value.parse::<u32>().is_err() => return Err(help()),
            (Location::Napi, "defer_hard_irqs") => "napi_defer_hard_irqs",
            (Location::Napi, "gro_flush_timeout") => name,
            (Location::Kpps | Location::Dpdk, "ring") => {
                let length = value.parse::<u16>().ok();
                length.filter(|n| n % 8 == 0 && RINGS.contains(n)).ok_or_else(|| {
                    let (least, most) = (RINGS.start(), RINGS.end());
                    format!("'{path}={value}': a ring has a multiple of 8 of descriptors, {least} to {most}")
                })?;
                name
            }
            (Location::Napi | Location::Kpps | Location::Dpdk, _) => return Err(help()),
            _ => name,
        };
        Ok(Self { location, name: name.to_owned(), value: value.to_owned() })
    }
}

impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let location = match self.location {
            Location::Linux => "linux",
            Location::Sysctl => "sysctl",
            Location::Napi => "napi",
            Location::Kpps => "kpps",
            Location::Dpdk => "dpdk",
        };
        write!(f, "{location}.{}={}", self.name, self.value)
    }
}

impl Settings {
    fn of(&self, location: Location) -> impl Iterator<Item = &Setting> {
        self.0.iter().filter(move |setting| setting.location == location)
    }

    /// Descriptors in each ring of kpps.
    pub(crate) fn kpps_ring(&self) -> u16 {
        self.ring(Location::Kpps)
    }

    /// Descriptors in each ring of testpmd.
    pub(crate) fn dpdk_ring(&self) -> u16 {
        self.ring(Location::Dpdk)
    }

    /// The last one given.
    fn ring(&self, location: Location) -> u16 {
        self.of(location).filter_map(|setting| setting.value.parse().ok()).last().unwrap_or(RING)
    }

    /// Loads the driver of `model` with its parameters. A value counts for all of the `cards` cards.
    ///
    /// # Errors
    /// If the driver has no such parameter.
    pub(crate) fn load_driver(&self, guest: &mut Guest, model: Model, cards: usize) -> Result<()> {
        let module = model.module();
        let known = guest.kernel().parameters(module)?;
        let mut parameters = String::new();
        for Setting { name, value, .. } in self.of(Location::Linux) {
            let Some(of_each_card) = known.get(name) else {
                let names: Vec<_> = known.keys().map(String::as_str).collect();
                return Err(Error::Input(format!(
                    "the driver {module} of {} has no parameter {name}: it has {}",
                    guest.kernel().name,
                    names.join(", ")
                )));
            };
            let times = if *of_each_card && !value.contains(',') { cards } else { 1 };
            parameters += &format!(" {name}={}", vec![value.as_str(); times].join(","));
        }
        guest.load(module, parameters.trim())
    }

    /// Sets the settings that are not of the module, on `interface`.
    ///
    /// # Errors
    /// If the kernel has no such setting or refuses the value.
    pub(crate) fn apply(&self, guest: &mut Guest, interface: &str) -> Result<()> {
        for Setting { name, value, .. } in self.of(Location::Sysctl) {
            guest.run(&format!("sysctl -w {name}={value}"))?;
        }
        for Setting { name, value, .. } in self.of(Location::Napi) {
            guest.run(&format!("echo {value} > /sys/class/net/{interface}/{name}"))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn settings_as_people_type_them() {
        let setting: Setting = "linux.RxDescriptors=80".parse().unwrap();
        assert_eq!(
            (setting.location, &*setting.name, &*setting.value),
            (Location::Linux, "RxDescriptors", "80")
        );
        assert_eq!("napi.defer_hard_irqs=2".parse::<Setting>().unwrap().name, "napi_defer_hard_irqs");
        "sysctl.net.core.netdev_budget=64".parse::<Setting>().unwrap();
        let rings = Settings(vec!["dpdk.ring=256".parse().unwrap(), "dpdk.ring=512".parse().unwrap()]);
        assert_eq!((rings.kpps_ring(), rings.dpdk_ring()), (RING, 512));
        for text in [
            "",
            "x",
            "linux.",
            "linux.a=",
            "bsd.a=1",
            "napi.x=1",
            "linux.a=1;reboot",
            "sysctl.a b=1",
            "dpdk.a=1",
        ] {
            let error = text.parse::<Setting>().unwrap_err();
            assert!(error.contains("is not a setting"), "{error}");
        }
        for text in ["kpps.ring=x", "kpps.ring=72", "dpdk.ring=100", "dpdk.ring=8192"] {
            let error = text.parse::<Setting>().unwrap_err();
            assert!(error.contains("80 to 4096"), "{error}");
        }
    }
}
