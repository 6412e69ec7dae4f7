//! A card's PCI configuration space.

use super::registers::COMMAND;
use crate::Error;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::{Mutex, PoisonError};

/// Configuration space, as a part of a file.
#[derive(Debug)]
pub(crate) struct Config {
    file: File,
    /// Where in the file it begins.
    offset: u64,
    /// The intended command register. The kernel disables the interrupt line by itself; writing without
    /// reading first halves the cost of enabling it again.
    command: Mutex<u16>,
}

impl Config {
    /// Uses the configuration space that begins at `offset` of `file`.
    pub(crate) fn new(file: File, offset: u64) -> Result<Self, Error> {
        let config = Self { file, offset, command: Mutex::new(0) };
        *config.command.lock().unwrap_or_else(PoisonError::into_inner) = config.read(COMMAND)?;
        Ok(config)
    }

    /// Reads 16 bits.
    pub(crate) fn read(&self, register: u64) -> Result<u16, Error> {
        let mut bytes = [0; 2];
        let read = self.file.read_exact_at(&mut bytes, self.offset + register);
        read.map_err(Error::io("reading PCI configuration space"))?;
        Ok(u16::from_le_bytes(bytes))
    }

    /// Clears and sets bits of the command register, and writes it.
    pub(crate) fn command(&self, clear: u16, set: u16) -> Result<(), Error> {
        let mut command = self.command.lock().unwrap_or_else(PoisonError::into_inner);
        *command = *command & !clear | set;
        let written = self.file.write_all_at(&command.to_le_bytes(), self.offset + COMMAND);
        written.map_err(Error::io("writing PCI configuration space"))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::super::registers::{COMMAND_INTX_DISABLE, COMMAND_MASTER, STATUS};
    use super::*;

    #[test]
    fn only_the_command_register_changes() {
        let file = tempfile::tempfile().unwrap();
        file.write_all_at(&[0xee; 64], 0).unwrap();
        file.write_all_at(&[0x03, 0x00, 0x18, 0x02], 16 + 4).unwrap();
        let config = Config::new(file.try_clone().unwrap(), 16).unwrap();
        // The kernel's write at an interrupt.
        file.write_all_at(&[0x04], 16 + 5).unwrap();
        config.command(COMMAND_INTX_DISABLE, COMMAND_MASTER).unwrap();
        assert_eq!(config.read(COMMAND).unwrap(), 0x0007);
        assert_eq!(config.read(STATUS).unwrap(), 0x0218);
        let mut all = [0; 64];
        file.read_exact_at(&mut all, 0).unwrap();
        assert_eq!((all[19], all[20], all[21], all[24]), (0xee, 0x07, 0x00, 0xee));
        assert!(config.read(64).is_err());
    }
}
