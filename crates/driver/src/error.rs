//! What can go wrong.

use core::fmt;

/// Why the driver cannot go on. After any of these except [`Error::Config`] and
/// [`Error::Unsupported`], [`Device::reset`](crate::Device::reset) may bring the device back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// The device answers with all ones: it has vanished from the bus.
    Gone,
    /// The device did not do something in time; the text says what.
    Timeout(&'static str),
    /// The EEPROM's check sum is wrong, and the configuration has no station address either.
    Eeprom,
    /// There is no PHY, or it does not answer.
    Phy,
    /// No ring memory was to be had, or not what was asked for.
    OutOfMemory,
    /// The configuration makes no sense, or not for this chip; the text says where.
    Config(&'static str),
    /// The chip cannot do that.
    Unsupported,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Gone => f.write_str("the device has vanished from the bus"),
            Self::Timeout(what) => write!(f, "the device did not finish in time: {what}"),
            Self::Eeprom => {
                f.write_str("the EEPROM's check sum is wrong and no station address is configured")
            }
            Self::Phy => f.write_str("the PHY does not answer"),
            Self::OutOfMemory => f.write_str("no suitable ring memory"),
            Self::Config(what) => write!(f, "configuration: {what}"),
            Self::Unsupported => f.write_str("the chip cannot do that"),
        }
    }
}

impl core::error::Error for Error {}
