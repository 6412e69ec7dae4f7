//! The two ways to a card from user space.

use std::fmt;

/// How user space accesses a card.
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
