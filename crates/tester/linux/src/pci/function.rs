//! An open PCI function: its registers, configuration space and interrupt sources, and the lock on it.

use super::bar::Bar;
use super::config::Config;
use super::lines::Lines;
use super::registers::{COMMAND_INTX_DISABLE, COMMAND_MASTER, COMMAND_MEMORY};
use super::system::{self, System};
use super::vfio::ioctl;
use super::{Address, Domain, devices};
use crate::{Backend, Error};
use kpps_datasheet::{Chip, reg};
use std::fs::File;
use std::path::PathBuf;
use std::time::Duration;
use vfio_bindings::bindings::vfio as abi;

/// How long transfers under way may take after the card was stopped.
const QUIESCE: Duration = Duration::from_millis(10);

/// An open PCI function: what is closed with the last handle to the card.
#[derive(Debug)]
pub(crate) struct Function {
    pub(crate) bar: Bar,
    pub(crate) config: Config,
    pub(crate) lines: Lines,
    pub(crate) address: Address,
    pub(crate) chip: Chip,
    reset: Reset,
    // Dropped in this order: the memory outlives bus mastering, and the lock outlives both.
    pub(crate) domain: Domain,
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
    config.command(COMMAND_MASTER, COMMAND_MEMORY | COMMAND_INTX_DISABLE)?;
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
    config.command(COMMAND_MASTER, COMMAND_MEMORY)?;
    let region = ioctl::region(&device, abi::VFIO_PCI_BAR0_REGION_INDEX).map_err(failed("BAR 0"))?;
    if !region.mappable {
        return Err(Error::Unsupported { address, what: "BAR 0 cannot be mapped" });
    }
    let bar = Bar::map(&device, region.offset, region.bytes).map_err(failed("BAR 0"))?;
    let reset = if ioctl::can_reset(&device).unwrap_or(false) { Reset::Vfio } else { Reset::No };
    Ok((bar, config, Lines::vfio(device), reset))
}

impl Function {
    /// Opens the card at `address` as [`Card::open`](super::Card::open) says.
    pub(crate) fn open(domain: &Domain, address: Address) -> Result<Self, Error> {
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
        let function = Self { bar, config, lines, address, chip, reset, domain: domain.clone(), _lock: lock };
        function.quiet()?;
        function.config.command(0, COMMAND_MASTER)?;
        Ok(function)
    }

    /// Resets the function; false if the system has no way to.
    pub(crate) fn reset(&self) -> Result<bool, Error> {
        match &self.reset {
            Reset::No => return Ok(false),
            Reset::File(path) => System::host().write(path, "1")?,
            Reset::Vfio => {
                let Some(device) = self.lines.vfio_device() else { return Ok(false) };
                ioctl::reset(device).map_err(Error::io("VFIO: resetting the card"))?;
            }
        }
        // The kernel may have restored another command register.
        self.config.command(0, 0)?;
        Ok(true)
    }

    /// Stops what an earlier user left running, before the card may access memory again.
    fn quiet(&self) -> Result<(), Error> {
        let write = |register, value| self.bar.write(self.chip.offset(register), value);
        write(reg::IMC, u32::MAX);
        write(reg::RCTL, 0);
        write(reg::TCTL, 0);
        if self.bar.read(self.chip.offset(reg::STATUS)) == u32::MAX {
            return Err(Error::Gone(self.address));
        }
        std::thread::sleep(QUIESCE);
        Ok(())
    }
}

impl Drop for Function {
    fn drop(&mut self) {
        // The driver may not have stopped the card. This keeps it from memory that is about to be freed. A
        // failure cannot be reported.
        let _ = self.config.command(COMMAND_MASTER, 0);
    }
}
