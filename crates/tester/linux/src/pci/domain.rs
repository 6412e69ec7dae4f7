//! Memory that several cards share.

use super::system::System;
use super::{physical, vfio};
use crate::{Backend, Error};
use kpps_platform::memory::Memory;
use std::sync::Arc;

/// Memory that every [`Card`](super::Card) in the domain can access, at the same bus addresses: a card can
/// send a frame from where another one received it.
///
/// A handle: clones are the same domain. It lives as long as any of them, or any of its cards.
#[derive(Clone, Debug)]
pub struct Domain(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    // The container is closed before the memory is freed.
    container: Option<vfio::Container>,
    memory: Memory,
}

impl Domain {
    /// A domain with at least `bytes` of memory, rounded up to huge pages of 2 MiB.
    ///
    /// # Errors
    /// [`Error::NoHugePages`], [`Error::NoPhysicalAddresses`] with UIO, and VFIO in no-IOMMU mode;
    /// [`Error::ModuleMissing`], [`Error::Permission`] with VFIO.
    pub fn new(backend: Backend, bytes: usize) -> Result<Self, Error> {
        let system = System::host();
        let inner = match backend {
            Backend::Vfio => Inner {
                container: Some(vfio::Container::new(&system)?),
                memory: vfio::memory(&system, bytes)?,
            },
            Backend::Uio => {
                let (mapping, pieces) = physical::huge_pages(&system, bytes)?;
                let memory = Memory::new(mapping, &pieces).map_err(Error::io("using huge pages"))?;
                Inner { container: None, memory }
            }
        };
        Ok(Self(Arc::new(inner)))
    }

    /// How its cards are accessed.
    pub fn backend(&self) -> Backend {
        if self.0.container.is_some() { Backend::Vfio } else { Backend::Uio }
    }

    /// The memory, for pools of buffers.
    pub fn memory(&self) -> &Memory {
        &self.0.memory
    }

    pub(crate) fn container(&self) -> Option<&vfio::Container> {
        self.0.container.as_ref()
    }
}
