//! The console: a 16550 serial port on both machines.

use crate::arch;
use alloc::string::String;
use core::fmt;

const DATA: u8 = 0;
const LINE_STATUS: u8 = 5;
const RECEIVED: u8 = 1 << 0;
const MAY_SEND: u8 = 1 << 5;

/// Where the output goes.
struct Serial;

impl fmt::Write for Serial {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for byte in text.bytes() {
            if byte == b'\n' {
                send(b'\r');
            }
            send(byte);
        }
        Ok(())
    }
}

/// Prints to the console.
#[macro_export]
macro_rules! print {
    ($($what:tt)*) => {
        $crate::serial::write(format_args!($($what)*))
    };
}

/// Prints a line to the console.
#[macro_export]
macro_rules! println {
    ($($what:tt)*) => {
        $crate::print!("{}\n", format_args!($($what)*))
    };
}

/// Writes to the console, which takes everything.
pub fn write(what: fmt::Arguments) {
    let _ = fmt::Write::write_fmt(&mut Serial, what);
}

/// Sets the port up: 115200 bits a second, FIFOs on, no interrupts.
pub fn start() {
    for (register, value) in [(1, 0), (3, 0x80), (0, 1), (1, 0), (3, 3), (2, 7), (4, 3)] {
        arch::serial_write(register, value);
    }
}

fn send(byte: u8) {
    while arch::serial_read(LINE_STATUS) & MAY_SEND == 0 {}
    arch::serial_write(DATA, byte);
}

/// The lines that are typed.
#[derive(Default)]
pub struct Input {
    line: String,
}

impl Input {
    /// The next line, if it is complete. Typed characters are echoed.
    pub fn poll(&mut self) -> Option<String> {
        while arch::serial_read(LINE_STATUS) & RECEIVED != 0 {
            match arch::serial_read(DATA) {
                b'\r' | b'\n' => {
                    println!("");
                    return Some(core::mem::take(&mut self.line));
                }
                8 | 127 if self.line.pop().is_some() => print!("\x08 \x08"),
                byte @ b' '..127 => {
                    self.line.push(byte.into());
                    print!("{}", char::from(byte));
                }
                _ => {}
            }
        }
        None
    }
}
