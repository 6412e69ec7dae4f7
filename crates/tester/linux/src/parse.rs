//! Reads the names of cards and backends.

use crate::pci::{Address, parse};
use crate::{Backend, Error};
use std::str::FromStr;

impl FromStr for Address {
    type Err = Error;

    /// Reads "0000:00:10.0", or "00:10.0" for domain 0.
    fn from_str(text: &str) -> Result<Self, Error> {
        parse(text).ok_or_else(|| Error::BadAddress(text.to_owned()))
    }
}

impl FromStr for Backend {
    type Err = Error;
    fn from_str(text: &str) -> Result<Self, Error> {
        let found = Self::ALL.into_iter().find(|backend| backend.name() == text);
        found.ok_or_else(|| Error::BadBackend(text.to_owned()))
    }
}
