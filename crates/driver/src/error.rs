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
    /// The configuration is invalid for this chip; the text names the field.
    Config(&'static str),
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
            Self::Config(what) => write!(f, "configuration: {what}"),
            Self::Unsupported => f.write_str("the chip lacks this feature"),
        }
    }
}

impl core::error::Error for Error {}

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
            (Error::Config("rx_ring: odd"), "configuration: rx_ring: odd"),
            (Error::Unsupported, "the chip lacks this feature"),
        ] {
            assert_eq!(error.to_string(), text);
        }
    }
}
