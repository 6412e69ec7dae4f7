//! An open card.

use crate::config::Config;
use crate::interrupts::{Interrupts, Lines};
use crate::system::{self, System};
use crate::window::{Bar, Window};
use crate::{Backend, Domain, Error, devices, pci, pci::Address, vfio::ioctl};
use kpps_datasheet::{Chip, reg};
use kpps_platform::memory::RingMemory;
use kpps_platform::{DmaSpec, OutOfMemory, Platform};
use std::fs::File;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};
use vfio_bindings::bindings::vfio as abi;

/// How long transfers under way may take after a card has been told to stop.
const SETTLE: Duration = Duration::from_millis(10);

/// A card that this process has to itself. A handle: clones are the same card, which is closed
/// with the last of them, of its [`Place`]s, [`Window`]s and [`Interrupts`].
#[derive(Clone, Debug)]
pub struct Card(Arc<Inner>);

/// What closes with the last handle.
#[derive(Debug)]
pub(crate) struct Inner {
    pub(crate) bar: Bar,
    pub(crate) config: Config,
    pub(crate) lines: Lines,
    pub(crate) address: Address,
    chip: Chip,
    reset: Reset,
    // The memory outlives the card's mastery of the bus, and the lock all of it.
    domain: Domain,
    _lock: File,
}

/// How the card is reset as a PCI function.
#[derive(Debug)]
enum Reset {
    /// Not at all.
    No,
    /// By writing to this file.
    File(PathBuf),
    /// By asking VFIO.
    Vfio,
}

impl Card {
    /// Opens the card at `address`, which must be bound to the domain's backend
    /// ([`devices::bind`]).
    ///
    /// It is quiet afterwards: receiver, transmitter and interrupts are off, whatever an earlier
    /// user may have left.
    ///
    /// # Errors
    /// [`Error::NoDevice`], [`Error::NotE1000`], [`Error::NotBound`], [`Error::InUse`],
    /// [`Error::Permission`], [`Error::NoIommuGroup`], [`Error::GroupNotViable`],
    /// [`Error::IommuInTheWay`], [`Error::LockedMemory`], [`Error::Gone`].
    pub fn open(domain: &Domain, address: Address) -> Result<Self, Error> {
        let system = System::host();
        let device = devices::device(&system, address)?;
        let chip = device.e1000()?;
        let backend = domain.backend();
        if device.driver.as_deref() != Some(backend.driver()) {
            return Err(Error::NotBound { address, driver: device.driver, backend });
        }
        let lock = system.lock(address)?;
        let (bar, config, lines, reset) = match domain.container() {
            None if devices::is_translated(&system, &device) => return Err(Error::IommuInTheWay(address)),
            None => open_uio(&system, address)?,
            Some(container) => {
                let group = device.iommu_group.ok_or(Error::NoIommuGroup(address))?;
                let file = container.open(&system, address, group, domain.memory())?;
                open_vfio(address, file)?
            }
        };
        let inner = Inner { bar, config, lines, address, chip, reset, domain: domain.clone(), _lock: lock };
        inner.quiet()?;
        inner.config.command(0, pci::COMMAND_MASTER)?;
        Ok(Self(Arc::new(inner)))
    }

    /// Where it is.
    pub fn address(&self) -> Address {
        self.0.address
    }

    /// Which chip it is.
    pub fn chip(&self) -> Chip {
        self.0.chip
    }

    /// How it is reached.
    pub fn backend(&self) -> Backend {
        self.0.domain.backend()
    }

    /// The domain that it is in.
    pub fn domain(&self) -> &Domain {
        &self.0.domain
    }

    /// The place in which a driver can run it; as many as wanted.
    pub fn platform(&self) -> Place {
        Place { card: self.0.clone(), since: Instant::now() }
    }

    /// The card's one interrupt: the line if it has one, else a message (MSI).
    ///
    /// # Errors
    /// [`Error::Unsupported`] if it has neither, or its interrupts are in use already.
    pub fn interrupts(&self) -> Result<Interrupts, Error> {
        Interrupts::one(&self.0)
    }

    /// `count` interrupts of their own (MSI-X), in the order of the card's vectors. To be called
    /// before the driver probes the card: it then sees them ([`Platform::vectors`]) and sends
    /// causes to them.
    ///
    /// # Errors
    /// [`Error::Unsupported`] through UIO, if the card has fewer, or if its interrupts are in
    /// use already.
    pub fn vectors(&self, count: usize) -> Result<Vec<Interrupts>, Error> {
        Interrupts::vectors(&self.0, count)
    }

    /// How many MSI-X vectors there are to have; 0 through UIO.
    pub fn vector_count(&self) -> usize {
        self.0.lines.vector_count()
    }

    /// Whether the card wants its interrupt line asserted just now, be it enabled or not
    /// (PCI 2.3, status register, bit 3).
    ///
    /// # Errors
    /// If configuration space cannot be read.
    pub fn interrupt_pending(&self) -> Result<bool, Error> {
        Ok(self.0.config.read(pci::STATUS)? & pci::STATUS_INTERRUPT != 0)
    }

    /// Resets the PCI function, which loses all that a driver has set; `false` if the system
    /// offers no way to.
    ///
    /// # Errors
    /// If it does and fails.
    pub fn reset(&self) -> Result<bool, Error> {
        match &self.0.reset {
            Reset::No => return Ok(false),
            Reset::File(path) => System::host().write(path, "1")?,
            Reset::Vfio => {
                let Some(device) = self.0.lines.vfio_device() else { return Ok(false) };
                ioctl::reset(device).map_err(Error::io("VFIO: resetting the card"))?;
            }
        }
        // Whatever state of the command register the kernel has restored.
        self.0.config.command(0, 0)?;
        Ok(true)
    }
}

fn open_uio(system: &System, address: Address) -> Result<(Bar, Config, Lines, Reset), Error> {
    let read_write =
        |path: &PathBuf| File::options().read(true).write(true).open(path).map_err(Error::file(path));
    let folder = system.device(address, "uio");
    let names = system::names(&folder);
    let name = names.first().ok_or(Error::NotBound { address, driver: None, backend: Backend::Uio })?;
    let events = read_write(&system.path("dev").join(name))?;
    let seen = system::text(&folder.join(name).join("event")).and_then(|text| text.parse().ok());
    let has_line = system::text(&system.device(address, "irq")).is_some_and(|irq| irq != "0");
    let lines = Lines::uio(events, seen.unwrap_or(0), has_line);

    let config = Config::new(read_write(&system.device(address, "config"))?, 0)?;
    config.command(pci::COMMAND_MASTER, pci::COMMAND_MEMORY | pci::COMMAND_INTX_DISABLE)?;
    let path = system.device(address, "resource0");
    let file = read_write(&path)?;
    let bytes = file.metadata().map_err(Error::file(&path))?.len();
    let bar = Bar::map(&file, 0, bytes).map_err(Error::file(&path))?;
    let reset = system.device(address, "reset");
    let reset = if reset.exists() { Reset::File(reset) } else { Reset::No };
    Ok((bar, config, lines, reset))
}

fn open_vfio(address: Address, device: File) -> Result<(Bar, Config, Lines, Reset), Error> {
    let failed = |what: &str| Error::io(format!("VFIO: {what} of {address}"));
    let region = ioctl::region(&device, abi::VFIO_PCI_CONFIG_REGION_INDEX);
    let region = region.map_err(failed("configuration space"))?;
    let file = device.try_clone().map_err(failed("file"))?;
    let config = Config::new(file, region.offset)?;
    config.command(pci::COMMAND_MASTER, pci::COMMAND_MEMORY)?;
    let region = ioctl::region(&device, abi::VFIO_PCI_BAR0_REGION_INDEX).map_err(failed("BAR 0"))?;
    if !region.mappable {
        return Err(Error::Unsupported { address, what: "BAR 0 cannot be mapped" });
    }
    let bar = Bar::map(&device, region.offset, region.bytes).map_err(failed("BAR 0"))?;
    let reset = if ioctl::can_reset(&device).unwrap_or(false) { Reset::Vfio } else { Reset::No };
    Ok((bar, config, Lines::vfio(device), reset))
}

impl Inner {
    /// Stops whatever an earlier user left running, before the card may touch memory again.
    fn quiet(&self) -> Result<(), Error> {
        let write = |register, value| self.bar.write(self.chip.offset(register), value);
        write(reg::IMC, u32::MAX);
        write(reg::RCTL, 0);
        write(reg::TCTL, 0);
        if self.bar.read(self.chip.offset(reg::STATUS)) == u32::MAX {
            return Err(Error::Gone(self.address));
        }
        std::thread::sleep(SETTLE);
        Ok(())
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        // The driver has stopped the card, if it could; this makes sure that it touches no
        // memory which is about to be somebody else's. Nobody is left to tell of a failure.
        let _ = self.config.command(pci::COMMAND_MASTER, 0);
    }
}

/// Registers, memory and clock of an open [`Card`].
#[derive(Clone, Debug)]
pub struct Place {
    card: Arc<Inner>,
    since: Instant,
}

impl Platform for Place {
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
