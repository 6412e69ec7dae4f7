//! The names of ports, as on the command line.

use crate::{Error, pci::Address};
use std::fmt;
use std::str::FromStr;

/// How user space gets at a card.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Backend {
    /// `vfio-pci`: behind an IOMMU, with memory of any kind; needs no privilege where the
    /// system gives the group's device file to the user.
    Vfio,
    /// `uio_pci_generic`: no IOMMU; needs huge pages and root.
    Uio,
}

impl Backend {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Vfio, Self::Uio];

    /// Its name on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Vfio => "vfio",
            Self::Uio => "uio",
        }
    }

    /// The kernel driver that a card must have, by its name in sysfs.
    pub const fn driver(self) -> &'static str {
        match self {
            Self::Vfio => "vfio-pci",
            Self::Uio => "uio_pci_generic",
        }
    }
}

impl fmt::Display for Backend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Backend {
    type Err = Error;
    fn from_str(text: &str) -> Result<Self, Error> {
        let found = Self::ALL.into_iter().find(|backend| backend.name() == text);
        found.ok_or_else(|| Error::BadSpec(text.to_owned()))
    }
}

/// Which port.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Spec {
    /// `vfio:ADDRESS`, `uio:ADDRESS`: our driver on a card.
    Card(Backend, Address),
    /// `packet:INTERFACE`: an interface of the kernel.
    Packet(String),
}

impl FromStr for Spec {
    type Err = Error;
    fn from_str(text: &str) -> Result<Self, Error> {
        let bad = || Error::BadSpec(text.to_owned());
        let (kind, rest) = text.split_once(':').ok_or_else(bad)?;
        match kind {
            // 15 bytes is what the kernel allows (IFNAMSIZ less the terminator).
            "packet" if (1..=15).contains(&rest.len()) && !rest.contains(['/', ' ']) => {
                Ok(Self::Packet(rest.to_owned()))
            }
            _ => Ok(Self::Card(kind.parse().map_err(|_| bad())?, rest.parse()?)),
        }
    }
}

impl fmt::Display for Spec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Card(backend, address) => write!(f, "{backend}:{address}"),
            Self::Packet(interface) => write!(f, "packet:{interface}"),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn what_is_shown_is_read() {
        for text in ["vfio:0000:00:10.0", "uio:0001:3a:1f.7", "packet:eth0", "packet:br-lan.7"] {
            assert_eq!(text.parse::<Spec>().unwrap().to_string(), text);
        }
        assert_eq!("uio:00:10.0".parse::<Spec>().unwrap().to_string(), "uio:0000:00:10.0");
    }

    #[test]
    fn others_are_refused() {
        for text in
            ["", "eth0", "xdp:eth0", "packet:", "packet:a-name-too-long-for-it", "packet:a/b", "00:10.0"]
        {
            assert!(matches!(text.parse::<Spec>(), Err(Error::BadSpec(_))), "{text}");
        }
        assert!(matches!("uio:eth0".parse::<Spec>(), Err(Error::BadAddress(_))));
    }
}
