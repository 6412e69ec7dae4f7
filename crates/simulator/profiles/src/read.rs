//! The types that profiles are read as.

use kpps_driver::config::Config;
use kpps_host::host::{Host, Work};
use kpps_host::stack::{freebsd, linux22, linux24};
use serde::de::DeserializeOwned;

/// The entries of a profile, or some of them.
pub use toml::Table as Entries;

/// A type that the entries of a profile, or some of them, are read as.
pub trait FromEntries: Sized {
    /// Reads the entries, usually by [`read`].
    ///
    /// # Errors
    /// The first entry that does not fit.
    fn from_entries(entries: Entries) -> Result<Self, Mistake>;
}

/// The first entry of a table that does not fit its type.
pub struct Mistake {
    pub(crate) path: serde_path_to_error::Path,
    /// serde's message.
    pub(crate) message: String,
}

/// Entries as a `T`.
///
/// # Errors
/// The first entry that does not fit.
pub fn read<T: DeserializeOwned>(entries: Entries) -> Result<T, Mistake> {
    serde_path_to_error::deserialize(entries)
        .map_err(|error| Mistake { path: error.path().clone(), message: error.inner().message().to_owned() })
}

/// Implements [`FromEntries`] for types that serde reads.
#[macro_export]
macro_rules! read_as {
    ($($of:ty),+) => {
        $(impl $crate::FromEntries for $of {
            fn from_entries(entries: $crate::Entries) -> ::std::result::Result<Self, $crate::Mistake> {
                $crate::read(entries)
            }
        })+
    };
}

// These are read here, and not where a profile is used, because this crate is compiled without optimisation
// in tests: code to read them was a third of the simulator.
read_as!(kpps_card::Params, kpps_host::bus::Params, Host, Work, Config);
read_as!(linux22::Params, linux24::Params, freebsd::Params);
