//! Errors of the driver.

use core::fmt;

/// Why the driver cannot continue. [`Device::reset`](crate::Device::reset) may recover the device, except
/// after [`Error::Config`] and [`Error::Unsupported`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// A register reads as all ones: the device has vanished from the bus.
    Gone,
    /// The device did not finish an operation in time; the text names it.
    Timeout(&'static str),
    /// The EEPROM's checksum is wrong, and the configuration has no station address.
    Eeprom,
    /// There is no PHY, or it does not answer.
    Phy,
    /// The platform has no suitable ring memory.
    OutOfMemory,
    /// The configuration is invalid for this chip.
    Config(Invalid),
    /// The chip lacks this feature.
    Unsupported,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Gone => f.write_str("the device has vanished from the bus"),
            Self::Timeout(what) => write!(f, "the device did not finish in time: {what}"),
            Self::Eeprom => {
                f.write_str("the EEPROM's checksum is wrong and no station address is configured")
            }
            Self::Phy => f.write_str("the PHY does not answer"),
            Self::OutOfMemory => f.write_str("no suitable ring memory"),
            Self::Config(refused) => write!(f, "configuration: {refused}"),
            Self::Unsupported => f.write_str("the chip lacks this feature"),
        }
    }
}

impl core::error::Error for Error {}

/// The mistake in an entry of a configuration: the entry's name, the value found, and the allowed values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Invalid {
    /// A value outside its limits.
    Outside {
        /// The entry.
        entry: &'static str,
        /// Its value.
        found: u32,
        /// The least value that this chip, with the other entries, allows.
        least: u32,
        /// The greatest.
        most: u32,
    },
    /// A value that is no multiple of another.
    NoMultiple {
        /// The entry.
        entry: &'static str,
        /// Its value.
        found: u32,
        /// The value must be a multiple of this.
        of: u32,
    },
    /// Another rule; the text names the entry and the rule.
    Rule(&'static str),
}

impl Invalid {
    /// Refuses a value outside these limits.
    pub(crate) fn outside(
        entry: &'static str,
        found: impl Into<u32>,
        (least, most): (impl Into<u32>, impl Into<u32>),
    ) -> Result<(), Error> {
        let (found, least, most) = (found.into(), least.into(), most.into());
        match (least..=most).contains(&found) {
            true => Ok(()),
            false => Err(Error::Config(Self::Outside { entry, found, least, most })),
        }
    }

    /// Refuses a value that is no multiple of another.
    pub(crate) fn no_multiple(entry: &'static str, found: impl Into<u32>, of: u32) -> Result<(), Error> {
        let found = found.into();
        match found.is_multiple_of(of) {
            true => Ok(()),
            false => Err(Error::Config(Self::NoMultiple { entry, found, of })),
        }
    }

    /// Refuses what breaks a rule.
    pub(crate) fn unless(good: bool, rule: &'static str) -> Result<(), Error> {
        if good { Ok(()) } else { Err(Error::Config(Self::Rule(rule))) }
    }
}

impl fmt::Display for Invalid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Outside { entry, found, least, most } => {
                write!(f, "{entry}: {found} is not within {least} to {most}")
            }
            Self::NoMultiple { entry, found, of } => write!(f, "{entry}: {found} is not a multiple of {of}"),
            Self::Rule(rule) => f.write_str(rule),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    #[test]
    fn errors_say_what_is_wrong() {
        for (error, text) in [
            (Error::Gone, "the device has vanished from the bus"),
            (Error::Timeout("reset"), "the device did not finish in time: reset"),
            (Error::Eeprom, "the EEPROM's checksum is wrong and no station address is configured"),
            (Error::Phy, "the PHY does not answer"),
            (Error::OutOfMemory, "no suitable ring memory"),
            (Error::Config(Invalid::Rule("rx_ring: odd")), "configuration: rx_ring: odd"),
            (Error::Unsupported, "the chip lacks this feature"),
        ] {
            assert_eq!(error.to_string(), text);
        }
    }
}
