//! Finding the card on QEMU's PCI bus and opening it, through configuration mechanism #1
//! (PCI Local Bus Specification 3.2.2.3.2: ports 0xcf8 and 0xcfc).

use crate::qtest::socket::Qtest;
use crate::{Error, Result};

/// Where BAR 0 is put: in the hole below the I/O APIC, free in QEMU's PCs.
pub(crate) const BAR0: u64 = 0xfea0_0000;
/// Where BAR 2 or 1, the I/O window, is put.
const IO_BAR: u32 = 0xc000;

/// Configuration registers (PCI 6.1).
const ID: u8 = 0x00;
const COMMAND: u8 = 0x04;
const FIRST_BAR: u8 = 0x10;
/// Command: I/O space, memory space, bus master (PCI 6.2.2).
const COMMAND_IO_MEMORY_MASTER: u32 = 0b111;

fn select(qtest: &Qtest, slot: u8, register: u8) {
    let address = 1 << 31 | u32::from(slot) << 11 | u32::from(register);
    qtest.post(&format!("outl 0xcf8 {address:#x}"));
}

fn read(qtest: &Qtest, slot: u8, register: u8) -> u32 {
    select(qtest, slot, register);
    qtest.ask("inl 0xcfc") as u32
}

fn write(qtest: &Qtest, slot: u8, register: u8, value: u32) {
    select(qtest, slot, register);
    qtest.post(&format!("outl 0xcfc {value:#x}"));
}

/// Where BAR 3, the MSI-X table of the 82574, is put.
const MSIX_BAR: u64 = 0xfeb0_0000;
/// Status: there is a list of capabilities, which begins at [`FIRST_CAPABILITY`] (PCI 6.7).
const FIRST_CAPABILITY: u8 = 0x34;
/// The capability of MSI-X (PCI 6.8.2), and its enable bit in the register of its identifier.
const MSIX: u32 = 0x11;
const MSIX_ENABLE: u32 = 1 << 31;
/// Bytes of a table entry: address, upper address, data, mask.
const ENTRY_BYTES: u64 = 16;

/// Makes vector `n` of the card in `slot` write `n + 1` to the nth of these bus addresses. Without addresses,
/// disables MSI-X.
pub(crate) fn set_messages(qtest: &Qtest, slot: u8, targets: &[u64]) -> Result<()> {
    let mut at = (read(qtest, slot, FIRST_CAPABILITY) & 0xFC) as u8;
    // A longer list would not fit into configuration space.
    for _ in 0..48 {
        let header = read(qtest, slot, at);
        if at == 0 || header & 0xFF == MSIX {
            break;
        }
        at = (header >> 8 & 0xFC) as u8;
    }
    qtest.check()?;
    if at == 0 {
        return Err(Error::NoMessages);
    }
    write(qtest, slot, FIRST_BAR + 12, MSIX_BAR as u32);
    for (target, (n, entry)) in targets.iter().zip((1_u32..).zip((MSIX_BAR..).step_by(ENTRY_BYTES as usize)))
    {
        for (offset, value) in [(0, *target as u32), (4, (*target >> 32) as u32), (8, n), (12, 0)] {
            qtest.post(&format!("writel {:#x} {value:#x}", entry + offset));
        }
    }
    let header = read(qtest, slot, at) & !MSIX_ENABLE;
    write(qtest, slot, at, header | if targets.is_empty() { 0 } else { MSIX_ENABLE });
    qtest.synchronise();
    qtest.check()
}

/// Finds the card on bus 0, maps its BARs and enables bus mastering. Returns its slot.
pub(crate) fn open(qtest: &Qtest, vendor: u16, device: u16) -> Result<u8> {
    let wanted = u32::from(device) << 16 | u32::from(vendor);
    let found = (0..32).find(|&slot| read(qtest, slot, ID) == wanted);
    qtest.check()?;
    let slot = found.ok_or(Error::NoCard { vendor, device })?;
    write(qtest, slot, FIRST_BAR, BAR0 as u32);
    write(qtest, slot, FIRST_BAR + 4, IO_BAR);
    write(qtest, slot, COMMAND, COMMAND_IO_MEMORY_MASTER);
    qtest.synchronise();
    qtest.check()?;
    Ok(slot)
}
