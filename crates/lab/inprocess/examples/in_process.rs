//! A test of a driver with raw volatile registers, without QEMU: it sends a frame, the test's card takes it,
//! and the rules of Intel's manual judge what the driver did.
//!
//! ```sh
//! cargo run -p kpps-inprocess --example in_process
//! ```
//!
//! The driver here forgets IFCS. QEMU's card does not care.

use kpps_inprocess::{Card, Dma, Options};
use std::time::Duration;

/// The driver: it sends, and does nothing else.
struct Driver {
    registers: *mut u32,
    ring: *mut [u64; 2],
    buffer: Dma,
}

impl Driver {
    fn set(&self, offset: usize, value: u32) {
        // SAFETY: `offset` is within the registers, which live as long as the card.
        unsafe { self.registers.byte_add(offset).write_volatile(value) }
    }

    fn start(registers: *mut u32, ring: Dma, buffer: Dma) -> Self {
        let it = Self { registers, ring: ring.pointer().cast(), buffer };
        it.set(0x0000, 1 << 26); // CTRL: RST; an access takes 1 µs here, as long as the reset
        it.set(0x0000, 1 << 6 | 1); // CTRL: SLU, FD
        it.set(0x3800, ring.device() as u32); // TDBAL
        it.set(0x3804, (ring.device() >> 32) as u32); // TDBAH
        it.set(0x3808, 128); // TDLEN: eight descriptors
        it.set(0x3810, 0); // TDH
        it.set(0x3818, 0); // TDT
        it.set(0x0410, 10 | 8 << 10 | 6 << 20); // TIPG
        it.set(0x0400, 1 << 1 | 1 << 3 | 0x10 << 4 | 0x40 << 12); // TCTL: EN, PSP, CT, COLD
        it
    }

    fn send(&self, frame: &[u8]) {
        let command = 0b1001; // EOP and RS, but not IFCS
        let descriptor = [self.buffer.device(), frame.len() as u64 | command << 24];
        // SAFETY: ring and buffer live as long as the card, and the frame is shorter than the buffer.
        unsafe {
            self.buffer.pointer().copy_from_nonoverlapping(frame.as_ptr(), frame.len());
            self.ring.write_volatile(descriptor);
        }
        self.set(0x3818, 1); // TDT
    }
}

fn main() -> Result<(), kpps_inprocess::Error> {
    let card = Card::new(Options::default())?;
    let (ring, buffer) = (card.memory(128, 128)?, card.memory(2048, 16)?);
    let driver = Driver::start(card.window()?.cast(), ring, buffer);
    card.advance(Duration::from_millis(10)); // the card negotiates its link
    driver.send(&[0xFF; 60]);
    card.advance(Duration::from_millis(1));
    println!("The test received {} frames.\n\n{}", card.received().len(), card.final_findings());
    Ok(())
}
