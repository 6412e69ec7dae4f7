//! The PC around the card: memory that is shared with us, a CPU that halts, and no device but the card.

use super::{Options, Timers};
use crate::Result;
use crate::process::{Launch, Process};
use std::fs::File;
use std::os::unix::net::UnixStream;

/// The program at the reset vector: cli, hlt, and back to hlt.
const HALT: [u8; 4] = [0xfa, 0xf4, 0xeb, 0xfd];
/// Size of the ROM. The CPU starts 16 bytes before its end.
const ROM_BYTES: usize = 64 * 1024;

/// A started QEMU and the connections to it.
pub(super) struct Started {
    pub(super) process: Process,
    pub(super) ram: File,
    pub(super) qtest: UnixStream,
    pub(super) cable: UnixStream,
    pub(super) monitor: UnixStream,
}

pub(super) fn start(options: &Options) -> Result<Started> {
    let qemu = match &options.folder {
        Some(folder) => Launch::in_folder(folder, &options.program),
        None => Launch::new(&options.program),
    };
    let mut qemu = qemu.bare();
    let mut rom = vec![0xf4; ROM_BYTES];
    rom[ROM_BYTES - 16..][..HALT.len()].copy_from_slice(&HALT);
    let (_, rom) = qemu.file("rom", &rom)?;
    let (ram, ram_path) = qemu.file("ram", &[])?;
    ram.set_len(options.ram_bytes)?;
    let megabytes = options.ram_bytes >> 20;
    qemu.args(["-m", &format!("{megabytes}M"), "-bios", &rom])
        .args([
            "-object",
            &format!("memory-backend-file,id=ram,share=on,size={megabytes}M,mem-path={ram_path}"),
        ])
        // The card is the only source of interrupts.
        .args(["-machine", "q35,hpet=off,pit=off,sata=off,smbus=off,usb=off,memory-backend=ram"]);
    let qtest = qemu.chardev("qtest")?;
    qemu.args(["-qtest", "chardev:qtest", "-qtest-log", "none"]);
    let monitor = qemu.monitor()?;
    let cable = qemu.cable("cable")?;
    let mac = options.mac.map(|byte| format!("{byte:02x}")).join(":");
    qemu.args(["-device", &format!("{},id=card,netdev=cable,mac={mac}", options.model.name())]);
    if options.timers == Timers::Immediate {
        // A halted CPU's time jumps to the next timer.
        qemu.args(["-icount", "shift=0,sleep=off"]);
    }
    Ok(Started { process: qemu.start()?, ram, qtest, cable, monitor })
}
