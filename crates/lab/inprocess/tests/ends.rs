//! Faults that are no access of a driver to its card end the process, as without a window. Each is tested in
//! a process of its own: this program, which runs one of its ignored tests.
#![cfg(all(target_os = "linux", target_arch = "x86_64"))]
#![allow(clippy::unwrap_used)]

use kpps_inprocess::{Card, Options};
use std::arch::asm;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Output};

/// Signals (signal(7)).
const SIGABRT: i32 = 6;
const SIGSEGV: i32 = 11;

fn run(test: &str) -> Output {
    let program = std::env::current_exe().unwrap();
    Command::new(program).args(["--exact", test, "--ignored", "--nocapture"]).output().unwrap()
}

fn read(address: usize) -> u32 {
    let pointer: *const u32 = std::ptr::with_exposed_provenance(address);
    // SAFETY: none: the process ends here, or the address is in a window.
    unsafe { pointer.read_volatile() }
}

/// A card, and the address of its registers. An access to them works.
fn card() -> (Card, usize) {
    let card = Card::new(Options::default()).unwrap();
    let window = card.window().unwrap().addr();
    assert_ne!(read(window + 8), 0);
    (card, window)
}

#[test]
#[ignore = "it ends the process"]
fn reads_elsewhere() {
    let (_card, window) = card();
    read(window - 4);
}

#[test]
#[ignore = "it ends the process"]
fn reads_after_the_card() {
    let (card, window) = card();
    drop(card);
    read(window + 8);
}

#[test]
#[ignore = "it ends the process"]
fn copies_registers() {
    let (_card, window) = card();
    // SAFETY: within the window. The process ends here.
    unsafe { asm!("movups xmm0, [{}]", in(reg) window, out("xmm0") _) };
}

#[test]
#[ignore = "it ends the process"]
fn gets_the_signal_of_another_process() {
    let (_card, _window) = card();
    let own = std::process::id().to_string();
    // Rust's own handler takes the first one for a fault and returns, and the second one ends the process.
    for _ in 0..2 {
        Command::new("kill").args(["-SEGV", &own]).status().unwrap();
    }
}

#[test]
fn a_fault_elsewhere_is_a_fault() {
    for test in ["reads_elsewhere", "reads_after_the_card"] {
        let output = run(test);
        assert_eq!(output.status.signal(), Some(SIGSEGV), "{test}: {output:?}");
        assert!(!String::from_utf8_lossy(&output.stderr).contains("kpps:"), "{test}: {output:?}");
    }
}

#[test]
fn an_unknown_instruction_is_named() {
    let output = run("copies_registers");
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.signal(), Some(SIGABRT), "{error}");
    assert!(error.contains("kpps: the instruction `movups xmm0,["), "{error}");
}

#[test]
fn a_signal_of_another_process_ends_the_process() {
    let output = run("gets_the_signal_of_another_process");
    assert_eq!(output.status.signal(), Some(SIGSEGV), "{output:?}");
}
