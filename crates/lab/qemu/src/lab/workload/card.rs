//! A card's own counters, read without its driver.

use crate::lab::options::address;
use crate::lab::{Error, Guest, Result};

/// Frames without a descriptor (RNBC, SDM 13.7.5). QEMU does not clear the register on reads as Linux's
/// driver expects, so the driver's sum is wrong.
const MPC: u64 = 0x4010;
/// Frames received (TPR, SDM 13.7.43), in which QEMU counts only stored frames, and frames sent (TPT, SDM
/// 13.7.44). A read clears them.
pub(super) const STORED: u64 = 0x40d0;
pub(super) const SENT: u64 = 0x40d4;
/// How the packet buffer is divided (PBA, SDM 13.4.13), which no driver reads while it works.
pub(crate) const PBA: u64 = 0x1000;

/// A statistics register of a card.
pub(crate) struct Register {
    address: String,
}

impl Register {
    /// The register at `offset` of the `index`-th card.
    pub(crate) fn of(guest: &mut Guest, index: usize, offset: u64) -> Result<Self> {
        let resource = guest.run(&format!("head -1 /sys/bus/pci/devices/{}/resource", address(index)))?;
        let base = resource.split_whitespace().next().and_then(|word| word.strip_prefix("0x"));
        let base = base.and_then(|digits| u64::from_str_radix(digits, 16).ok());
        let address = base.and_then(|base| base.checked_add(offset));
        let address =
            address.ok_or(Error::Protocol { what: "a card's registers".into(), answer: resource })?;
        Ok(Self { address: format!("{address:#x}") })
    }

    /// Its physical address in hexadecimal.
    pub(crate) fn address(&self) -> &str {
        &self.address
    }

    /// The command that prints it.
    pub(crate) fn command(&self) -> String {
        format!("devmem {}", self.address)
    }

    /// Its value, as that command prints it.
    pub(crate) fn parse(answer: &str) -> Result<u64> {
        u64::from_str_radix(answer.trim().trim_start_matches("0x"), 16)
            .map_err(|_| Error::Protocol { what: "a card's counter".into(), answer: answer.into() })
    }

    fn read(&self, guest: &mut Guest) -> Result<u64> {
        Self::parse(&guest.at_once(&self.command())?)
    }
}

/// Frames that a card has stored in memory.
pub(crate) struct StoredFrames(Register);

impl StoredFrames {
    /// Counts from now on. Nobody else may read the register.
    pub(crate) fn of(guest: &mut Guest, index: usize) -> Result<Self> {
        let register = Register::of(guest, index, STORED)?;
        register.read(guest)?;
        Ok(Self(register))
    }

    /// Frames since the last call.
    pub(crate) fn take(&self, guest: &mut Guest) -> Result<u64> {
        self.0.read(guest)
    }
}

/// Frames that found a card's ring full.
pub(crate) struct MissedFrames {
    register: Register,
    before: u64,
}

impl MissedFrames {
    /// Counts from now on.
    pub(crate) fn of(guest: &mut Guest, index: usize) -> Result<Self> {
        let register = Register::of(guest, index, MPC)?;
        let before = register.read(guest)?;
        Ok(Self { register, before })
    }

    /// Frames since then.
    pub(crate) fn now(&self, guest: &mut Guest) -> Result<u64> {
        let now = self.register.read(guest)?;
        // A reset clears it.
        Ok(if now < self.before { now } else { now - self.before })
    }
}
