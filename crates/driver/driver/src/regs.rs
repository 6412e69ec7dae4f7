//! Registers by canonical offset, with bounded waits.

use crate::Error;
use kpps_datasheet::{Chip, reg};
use kpps_platform::{Platform, Registers};

/// The value that a vanished device reads as.
pub(crate) const ALL_ONES: u32 = u32::MAX;

/// The registers of one chip, by canonical offset.
#[derive(Clone)]
pub(crate) struct Regs<R> {
    raw: R,
    chip: Chip,
}

impl<R: Registers> Regs<R> {
    pub(crate) fn new(raw: R, chip: Chip) -> Self {
        Self { raw, chip }
    }
    #[inline]
    pub(crate) fn read(&self, register: u32) -> u32 {
        self.raw.read(self.chip.offset(register))
    }
    #[inline]
    pub(crate) fn write(&self, register: u32, value: u32) {
        self.raw.write(self.chip.offset(register), value);
    }
    /// Reads a register that never holds all ones. A device is gone if a second read of it and a read of
    /// STATUS return all ones, too: a single read may fail.
    #[inline]
    pub(crate) fn get(&self, register: u32) -> Result<u32, Error> {
        match self.read(register) {
            ALL_ONES => self.get_again(register),
            value => Ok(value),
        }
    }
    #[cold]
    #[inline(never)]
    fn get_again(&self, register: u32) -> Result<u32, Error> {
        if self.read(reg::STATUS) == ALL_ONES {
            return Err(Error::Gone);
        }
        match self.read(register) {
            ALL_ONES => Err(Error::Gone),
            value => Ok(value),
        }
    }
    /// Sets and clears bits of a register that never holds all ones.
    pub(crate) fn modify(&self, register: u32, clear: u32, set: u32) -> Result<u32, Error> {
        let value = self.get(register)? & !clear | set;
        self.write(register, value);
        Ok(value)
    }
    /// Waits until `bits` of `register` read as `want`. Reads every `step_ns`, for at most `limit_ns`.
    pub(crate) fn wait(
        &self,
        platform: &impl Platform,
        register: u32,
        (bits, want): (u32, u32),
        (step_ns, limit_ns): (u64, u64),
        what: &'static str,
    ) -> Result<u32, Error> {
        let mut waited = 0;
        loop {
            let value = self.get(register)?;
            if value & bits == want {
                return Ok(value);
            }
            if waited >= limit_ns {
                return Err(Error::Timeout(what));
            }
            platform.wait_ns(step_ns);
            waited += step_ns;
        }
    }
}
