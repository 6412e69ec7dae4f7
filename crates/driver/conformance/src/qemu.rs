//! A fixture with a card of QEMU.

use crate::{Departure, Failure, Fixture, departure};
use kpps_datasheet::Chip;
use kpps_qemu::lab::{self, Cache, newer};
use kpps_qemu::qtest::{BufferPool, Model, Options, Qemu, QtestPlatform, Timers};

/// A fixture with a card of QEMU.
#[derive(Debug)]
pub struct QemuFixture {
    qemu: Qemu,
    chip: Chip,
    options: Options,
    version: String,
}

/// QEMU's card of this chip, if it has one.
pub const fn model(chip: Chip) -> Option<Model> {
    match chip {
        Chip::I82540em => Some(Model::I82540Em),
        Chip::I82544 => Some(Model::I82544Gc),
        Chip::I82545em => Some(Model::I82545Em),
        Chip::I82574l => Some(Model::I82574L),
        Chip::I82576 => Some(Model::I82576),
        Chip::I82542 | Chip::I82543gc | Chip::I82546eb => None,
    }
}

impl QemuFixture {
    /// Starts QEMU with that card: the host's QEMU, or the lab's for an 82576, which Debian 12's QEMU lacks.
    ///
    /// # Errors
    /// If QEMU is not installed or does not start.
    pub fn start(chip: Chip, model: Model, timers: Timers) -> Result<Self, lab::Error> {
        let folder = match model {
            Model::I82576 => Some(newer::get(&Cache::open()?)?),
            _ => None,
        };
        let options = Options { timers, folder, ..Options::new(model) };
        let qemu = Qemu::start(&options)?;
        let version = qemu.version()?;
        Ok(Self { qemu, chip, options, version })
    }
}

impl Fixture for QemuFixture {
    type Platform = QtestPlatform;
    type Source = BufferPool;

    fn device(&self) -> String {
        format!("QEMU {} {}", self.version, self.options.model.name())
    }
    fn chip(&self) -> Chip {
        self.chip
    }
    fn address(&self) -> [u8; 6] {
        self.options.mac
    }
    fn departures(&self) -> &'static [&'static Departure] {
        departure::of_qemu(self.chip, &self.version)
    }
    fn platform(&self) -> QtestPlatform {
        self.qemu.platform()
    }
    fn buffers(&mut self, count: usize, bytes: usize) -> Result<BufferPool, Failure> {
        Ok(self.qemu.ram().pool(count, bytes, Some(1 << 16))?)
    }
    fn inject(&mut self, frame: &[u8]) -> Result<(), Failure> {
        Ok(self.qemu.inject(frame)?)
    }
    fn inject_bad_fcs(&mut self, _: &[u8]) -> Result<bool, Failure> {
        Ok(false)
    }
    fn collect(&mut self) -> Result<Option<Vec<u8>>, Failure> {
        Ok(self.qemu.collect()?)
    }
    fn advance(&mut self, ns: u64) -> Result<(), Failure> {
        Ok(self.qemu.advance(ns)?)
    }
    fn set_link(&mut self, up: bool) -> Result<(), Failure> {
        Ok(self.qemu.set_link(up)?)
    }
    fn interrupt_line(&mut self) -> Result<bool, Failure> {
        let asserted = self.qemu.interrupt_line();
        self.qemu.check()?;
        Ok(asserted)
    }
    fn slack_ns(&self) -> u64 {
        // The scheduler may delay QEMU's process.
        20_000_000
    }
    fn set_vectors(&mut self, vectors: u8) -> Result<bool, Failure> {
        // Cards without MSI-X have none to give back.
        if self.chip.vectors() > 0 {
            self.qemu.set_vectors(vectors)?;
        }
        Ok(true)
    }
    fn take_message(&mut self, vector: u8) -> Result<bool, Failure> {
        let fired = self.qemu.take_message(vector);
        self.qemu.check()?;
        Ok(fired)
    }
    fn interrupts(&mut self) -> Result<u64, Failure> {
        let raised = self.qemu.interrupts();
        self.qemu.check()?;
        Ok(raised)
    }
}
