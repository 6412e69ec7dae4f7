//! A PC: QEMU's machines `pc` and `q35`.

use core::arch::{asm, global_asm};
use core::cell::UnsafeCell;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

global_asm!(include_str!("x86_64.s"), options(att_syntax));

unsafe extern "C" {
    fn on_timer();
    fn on_fault();
}

/// The firmware has assigned addresses to the cards; this is for one that has none.
pub const MMIO_WINDOW: u32 = 0xE000_0000;

/// The first serial port.
const SERIAL: u16 = 0x3F8;
/// The frequency of the timer's input (PIT) in Hz.
const PIT_HZ: u64 = 1_193_182;

/// Ticks of the time stamp counter in 10 ms.
static TICKS: AtomicU64 = AtomicU64::new(10_000_000);

#[unsafe(no_mangle)]
extern "C" fn start() -> ! {
    calibrate();
    set_up_interrupts();
    crate::main()
}

#[unsafe(no_mangle)]
extern "C" fn fault() -> ! {
    panic!("the processor raised an exception")
}

fn out8(port: u16, value: u8) {
    // SAFETY: the ports are those of devices of this machine that access no memory.
    unsafe { asm!("out dx, al", in("dx") port, in("al") value, options(nomem, nostack, preserves_flags)) }
}

fn in8(port: u16) -> u8 {
    let value;
    // SAFETY: as in `out8`.
    unsafe { asm!("in al, dx", in("dx") port, out("al") value, options(nomem, nostack, preserves_flags)) }
    value
}

fn out16(port: u16, value: u16) {
    // SAFETY: as in `out8`.
    unsafe { asm!("out dx, ax", in("dx") port, in("ax") value, options(nomem, nostack, preserves_flags)) }
}

fn out32(port: u16, value: u32) {
    // SAFETY: as in `out8`. A write to a card's command register lets the card access memory, which only
    // addresses in its rings make it do.
    unsafe { asm!("out dx, eax", in("dx") port, in("eax") value, options(nostack, preserves_flags)) }
}

fn in32(port: u16) -> u32 {
    let value;
    // SAFETY: as in `out8`.
    unsafe { asm!("in eax, dx", in("dx") port, out("eax") value, options(nomem, nostack, preserves_flags)) }
    value
}

fn ticks() -> u64 {
    // SAFETY: every processor with 64-bit mode has this instruction, which changes only two registers.
    unsafe { core::arch::x86_64::_rdtsc() }
}

/// Measures the time stamp counter against channel 2 of the timer, for 10 ms.
fn calibrate() {
    let count = (PIT_HZ / 100) as u16;
    out8(0x61, in8(0x61) & !2 | 1); // the channel counts, the speaker is off
    out8(0x43, 0xB0); // channel 2, both bytes, one shot
    out8(0x42, count as u8);
    out8(0x42, (count >> 8) as u8);
    let begin = ticks();
    while in8(0x61) & 0x20 == 0 {}
    TICKS.store((ticks() - begin).max(1), Relaxed);
}

/// Nanoseconds of a clock that never decreases.
pub fn now_ns() -> u64 {
    (u128::from(ticks()) * 10_000_000 / u128::from(TICKS.load(Relaxed))) as u64
}

/// The interrupt descriptor table. Only the processor reads it once it is loaded.
struct Gates(UnsafeCell<[[u64; 2]; 48]>);
// SAFETY: there is one processor, and only `set_up_interrupts` writes the table, before it is loaded.
unsafe impl Sync for Gates {}
static GATES: Gates = Gates(UnsafeCell::new([[0; 2]; 48]));

/// Handlers of exceptions and of the timer, which ticks a thousand times a second. All other interrupt lines
/// stay masked: they are only read.
fn set_up_interrupts() {
    let gate = |handler: unsafe extern "C" fn()| {
        let at = handler as usize as u64;
        [at & 0xFFFF | 8 << 16 | 0x8E00 << 32 | (at >> 16 & 0xFFFF) << 48, at >> 32]
    };
    let mut gates = [gate(on_fault); 48];
    gates[32] = gate(on_timer);
    // SAFETY: nothing else accesses the table yet.
    unsafe { *GATES.0.get() = gates };
    #[repr(C, packed)]
    struct Pointer(u16, u64);
    let pointer = Pointer((size_of_val(&gates) - 1) as u16, GATES.0.get() as u64);
    // SAFETY: the table is filled and lives for ever.
    unsafe { asm!("lidt [{}]", in(reg) &pointer, options(readonly, nostack, preserves_flags)) }
    // The two interrupt controllers: vectors 32 and 40, all lines but the timer's masked.
    for (port, value) in [
        (0x20, 0x11),
        (0xA0, 0x11),
        (0x21, 32),
        (0xA1, 40),
        (0x21, 4),
        (0xA1, 2),
        (0x21, 1),
        (0xA1, 1),
        (0x21, 0xFE),
        (0xA1, 0xFF),
    ] {
        out8(port, value);
    }
    let count = (PIT_HZ / 1000) as u16;
    out8(0x43, 0x34); // channel 0, both bytes, periodic
    out8(0x40, count as u8);
    out8(0x40, (count >> 8) as u8);
}

/// Waits until the next tick of the timer, at most a millisecond.
pub fn idle() {
    // SAFETY: the handlers are set up. Interrupts are enabled only for the halt.
    unsafe { asm!("sti", "hlt", "cli", options(nostack)) }
}

/// The interrupt line of a card.
pub struct Line(u8);

impl Line {
    /// The line of the card in `slot` whose configuration space has `number` as its interrupt line.
    pub fn new(_slot: u8, number: u8) -> Self {
        Self(number)
    }

    /// Whether the card asserts its interrupt: the request register of the interrupt controller.
    pub fn is_raised(&mut self) -> bool {
        let port = match self.0 {
            0..8 => 0x20,
            8..16 => 0xA0,
            _ => return false,
        };
        out8(port, 0x0A);
        in8(port) & 1 << (self.0 % 8) != 0
    }
}

/// Reads a register of the serial port.
pub fn serial_read(register: u8) -> u8 {
    in8(SERIAL + u16::from(register))
}

/// Writes a register of the serial port.
pub fn serial_write(register: u8, value: u8) {
    out8(SERIAL + u16::from(register), value);
}

fn select(function: u32, offset: u32) {
    out32(0xCF8, 1 << 31 | function << 8 | offset & 0xFC);
}

/// Reads the configuration space of a PCI function: bus, device and function in 16 bits.
pub fn config_read(function: u32, offset: u32) -> u32 {
    select(function, offset);
    in32(0xCFC)
}

/// Writes the configuration space of a PCI function.
pub fn config_write(function: u32, offset: u32, value: u32) {
    select(function, offset);
    out32(0xCFC, value);
}

/// Orders accesses to memory and to registers: this processor does so itself.
#[inline]
pub fn order() {}

/// Turns the machine off.
pub fn power_off() -> ! {
    out16(0x604, 0x2000); // ACPI, where QEMU's firmware places it
    out8(0xF4, 0); // isa-debug-exit
    loop {
        // SAFETY: interrupts are off, so the processor stops here.
        unsafe { asm!("cli", "hlt", options(nomem, nostack)) }
    }
}
