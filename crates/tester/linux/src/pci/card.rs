//! An open card.

use super::function::Function;
use super::interrupts::Interrupts;
use super::registers::{STATUS, STATUS_INTERRUPT};
use super::{Address, Domain, Window};
use crate::{Backend, Error};
use kpps_datasheet::Chip;
use kpps_platform::memory::RingMemory;
use kpps_platform::{DmaSpec, OutOfMemory, Platform};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A card that only this process uses. A handle: clones are the same card. It is closed with the last of
/// them, of its [`CardPlatform`]s, [`Window`]s and [`Interrupts`].
#[derive(Clone, Debug)]
pub struct Card(Arc<Function>);

impl Card {
    /// Opens the card at `address`, which must be bound to the domain's backend
    /// (`devices::bind`).
    ///
    /// Receiver, transmitter and interrupts are off afterwards.
    ///
    /// # Errors
    /// [`Error::NoDevice`], [`Error::NotE1000`], [`Error::NotBound`], [`Error::InUse`],
    /// [`Error::Permission`], [`Error::NoIommuGroup`], [`Error::GroupNotViable`],
    /// [`Error::IommuInTheWay`], [`Error::LockedMemory`], [`Error::Gone`].
    pub fn open(domain: &Domain, address: Address) -> Result<Self, Error> {
        Ok(Self(Arc::new(Function::open(domain, address)?)))
    }

    /// Its PCI address.
    pub fn address(&self) -> Address {
        self.0.address
    }

    /// Its chip.
    pub fn chip(&self) -> Chip {
        self.0.chip
    }

    /// How it is accessed.
    pub fn backend(&self) -> Backend {
        self.0.domain.backend()
    }

    /// Its domain.
    pub fn domain(&self) -> &Domain {
        &self.0.domain
    }

    /// The platform for a driver of this card.
    pub fn platform(&self) -> CardPlatform {
        CardPlatform { card: self.0.clone(), since: Instant::now() }
    }

    /// The card's only interrupt: the line if it has one, else a message (MSI).
    ///
    /// # Errors
    /// [`Error::Unsupported`] if it has neither, or its interrupts are in use already.
    pub fn interrupts(&self) -> Result<Interrupts, Error> {
        Interrupts::one(&self.0)
    }

    /// `count` MSI-X vectors. Call this before the driver probes the card: it then sees them
    /// ([`Platform::vectors`]) and distributes the interrupt causes.
    ///
    /// # Errors
    /// [`Error::Unsupported`] through UIO, if the card has fewer, or if its interrupts are in
    /// use already.
    pub fn vectors(&self, count: usize) -> Result<Vec<Interrupts>, Error> {
        Interrupts::vectors(&self.0, count)
    }

    /// The number of MSI-X vectors of the card; 0 through UIO.
    pub fn vector_count(&self) -> usize {
        self.0.lines.vector_count()
    }

    /// Whether the card requests an interrupt, even if the line is disabled (PCI 2.3, status register, bit
    /// 3).
    ///
    /// # Errors
    /// If configuration space cannot be read.
    pub fn interrupt_pending(&self) -> Result<bool, Error> {
        Ok(self.0.config.read(STATUS)? & STATUS_INTERRUPT != 0)
    }

    /// Resets the PCI function, with all that a driver has set. Returns `false` if the system has no way to.
    ///
    /// # Errors
    /// If the reset fails.
    pub fn reset(&self) -> Result<bool, Error> {
        self.0.reset()
    }
}

/// Registers, memory and clock of an open [`Card`].
#[derive(Clone, Debug)]
pub struct CardPlatform {
    card: Arc<Function>,
    since: Instant,
}

impl Platform for CardPlatform {
    type Regs = Window;
    type Mem = RingMemory;

    fn registers(&self) -> Window {
        Window::new(self.card.clone())
    }
    fn allocate(&self, spec: DmaSpec) -> Result<RingMemory, OutOfMemory> {
        self.card.domain.memory().ring(spec)
    }
    #[inline]
    fn now_ns(&self) -> u64 {
        u64::try_from(self.since.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }
    fn vectors(&self) -> u8 {
        self.card.lines.vectors()
    }
    fn wait_ns(&self, ns: u64) {
        std::thread::sleep(Duration::from_nanos(ns));
    }
}
