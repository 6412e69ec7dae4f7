//! Finding the card on QEMU's PCI bus and opening it, through configuration mechanism #1
//! (PCI Local Bus Specification 3.2.2.3.2: ports 0xcf8 and 0xcfc).

use crate::Error;
use crate::socket::Qtest;

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

/// Finds the card on bus 0, gives it its windows and lets it master the bus.
pub(crate) fn open(qtest: &Qtest, vendor: u16, device: u16) -> Result<(), Error> {
    let wanted = u32::from(device) << 16 | u32::from(vendor);
    let found = (0..32).find(|&slot| read(qtest, slot, ID) == wanted);
    qtest.check()?;
    let slot = found.ok_or(Error::NoCard { vendor, device })?;
    write(qtest, slot, FIRST_BAR, BAR0 as u32);
    write(qtest, slot, FIRST_BAR + 4, IO_BAR);
    write(qtest, slot, COMMAND, COMMAND_IO_MEMORY_MASTER);
    qtest.synchronise();
    qtest.check()
}
