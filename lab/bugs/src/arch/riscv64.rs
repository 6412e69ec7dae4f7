//! QEMU's machine `virt` for RISC-V, without firmware: the guest runs in machine mode.

use core::arch::{asm, global_asm};
use core::ptr::with_exposed_provenance_mut as address;

global_asm!(
    r#"
.section .text.boot, "ax"
.globl _start
_start:
    csrr t0, mhartid
    bnez t0, 2f
    la sp, stack_top
    la t0, on_trap
    csrw mtvec, t0
    li t0, 0x2000               # floating point is on: the compiler may use its registers
    csrs mstatus, t0
    la t0, bss_start
    la t1, bss_end
1:  bgeu t0, t1, 3f
    sd zero, 0(t0)
    addi t0, t0, 8
    j 1b
3:  call start
2:  wfi
    j 2b
.balign 4
on_trap:
    la sp, stack_top
    call fault
    j 2b
"#
);

/// The window of 32-bit PCI memory.
pub const MMIO_WINDOW: u32 = 0x4000_0000;

const POWER: usize = 0x10_0000;
const TIMER_COMPARE: usize = 0x200_4000;
const TIMER: usize = 0x200_BFF8;
/// The interrupt controller (PLIC): priorities of interrupts; for this processor, the enabled ones of 32 to
/// 63, and the register that claims and completes one. The four lines of PCI are 32 to 35.
const PRIORITY: usize = 0xC00_0000;
const ENABLED: usize = 0xC00_2004;
const CLAIM: usize = 0xC20_0004;
const FIRST_LINE: u8 = 32;
const SERIAL: usize = 0x1000_0000;
const CONFIG_SPACE: usize = 0x3000_0000;
/// The timer ticks at 10 MHz.
const TICK_NS: u64 = 100;

#[unsafe(no_mangle)]
extern "C" fn start() -> ! {
    crate::main()
}

#[unsafe(no_mangle)]
extern "C" fn fault() -> ! {
    panic!("the processor raised an exception")
}

/// Reads a register of a device of the machine.
fn load<T>(at: usize) -> T {
    // SAFETY: `at` is one of the addresses above, where the machine has a register of this size.
    unsafe { address::<T>(at).read_volatile() }
}

/// Writes a register of a device of the machine.
fn store<T>(at: usize, value: T) {
    // SAFETY: as in `load`. No Rust memory is there.
    unsafe { address::<T>(at).write_volatile(value) }
}

/// Nanoseconds of a clock that never decreases.
pub fn now_ns() -> u64 {
    load::<u64>(TIMER) * TICK_NS
}

/// Waits for a millisecond.
pub fn idle() {
    store::<u64>(TIMER_COMPARE, load::<u64>(TIMER) + 1_000_000 / TICK_NS);
    // SAFETY: interrupts are globally disabled, so the timer's only ends the wait.
    unsafe { asm!("csrs mie, {0}", "wfi", "csrc mie, {0}", in(reg) 0x80, options(nostack)) }
}

/// The interrupt line of a card.
pub struct Line {
    /// The interrupt that was claimed and not yet completed; 0: none.
    claimed: u32,
}

impl Line {
    /// The line of the card in `slot`, whose interrupt pin is INTA.
    pub fn new(slot: u8, _number: u8) -> Self {
        let pin = slot % 4;
        store::<u32>(PRIORITY + 4 * usize::from(FIRST_LINE + pin), 1);
        store::<u32>(ENABLED, 1 << pin);
        Self { claimed: 0 }
    }

    /// Whether the card has asserted its interrupt. The controller latches it, so it is claimed here, and
    /// completed by the next call, when the card has been served. The processor itself is not interrupted.
    pub fn is_raised(&mut self) -> bool {
        if self.claimed != 0 {
            store::<u32>(CLAIM, self.claimed);
        }
        self.claimed = load::<u32>(CLAIM);
        self.claimed != 0
    }
}

/// Reads a register of the serial port.
pub fn serial_read(register: u8) -> u8 {
    load(SERIAL + usize::from(register))
}

/// Writes a register of the serial port.
pub fn serial_write(register: u8, value: u8) {
    store(SERIAL + usize::from(register), value);
}

fn config_space(function: u32, offset: u32) -> usize {
    CONFIG_SPACE + ((function << 12) | offset & 0xFFC) as usize
}

/// Reads the configuration space of a PCI function: bus, device and function in 16 bits.
pub fn config_read(function: u32, offset: u32) -> u32 {
    load(config_space(function, offset))
}

/// Writes the configuration space of a PCI function.
pub fn config_write(function: u32, offset: u32, value: u32) {
    store(config_space(function, offset), value);
}

/// Orders accesses to memory and to registers.
#[inline]
pub fn order() {
    // SAFETY: the instruction changes no register and no memory.
    unsafe { asm!("fence iorw, iorw", options(nostack, preserves_flags)) }
}

/// Turns the machine off.
pub fn power_off() -> ! {
    store::<u32>(POWER, 0x5555);
    loop {
        // SAFETY: waits for an interrupt, which nothing enables.
        unsafe { asm!("wfi", options(nomem, nostack)) }
    }
}
