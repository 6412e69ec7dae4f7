//! Receives frames with the driver on QEMU's e1000 card, as `receive.rs` does on a card without hardware.
//!
//!     cargo run --example qemu [FRAMES]
//!
//! `qemu-system-x86_64` must be installed (Debian: `qemu-system-x86`). The platform is QEMU's test protocol,
//! qtest: a command for each register access, and the guest's memory as a file. The guest's CPU halts.

use kpps_driver::{Chip, Config, probe};
use kpps_platform::memory::{Memory, RingMemory};
use kpps_platform::{Buffer, DmaSpec, OutOfMemory, Platform, Registers};
use std::cell::RefCell;
use std::error::Error;
use std::io::{BufRead, BufReader, Write};
use std::net::UdpSocket;
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::rc::Rc;
use std::time::{Duration, Instant};

/// Where the card's registers (BAR 0) are put: a hole in the address space of QEMU's PC.
const BAR0: u32 = 0xfea0_0000;
/// The card's slot on the PCI bus.
const SLOT: u32 = 4;

/// A connection to QEMU's test protocol: commands, and an answer to each.
#[derive(Clone)]
struct Qtest(Rc<RefCell<(ChildStdin, BufReader<ChildStdout>)>>);

impl Qtest {
    /// The value of the answer: "OK 0x7", or "OK", which is 0. All ones without an answer, as a card that has
    /// vanished.
    fn ask(&self, command: &str) -> u32 {
        let (input, output) = &mut *self.0.borrow_mut();
        let mut line = String::new();
        let _ = writeln!(input, "{command}").and_then(|()| output.read_line(&mut line));
        match line.trim().split_once(" 0x") {
            Some(("OK", value)) => u64::from_str_radix(value, 16).map_or(u32::MAX, |value| value as u32),
            None if line.trim() == "OK" => 0,
            _ => u32::MAX,
        }
    }
}

impl Registers for Qtest {
    fn read(&self, offset: u32) -> u32 {
        self.ask(&format!("readl {:#x}", BAR0 + offset))
    }
    fn write(&self, offset: u32, value: u32) {
        self.ask(&format!("writel {:#x} {value:#x}", BAR0 + offset));
    }
}

/// The environment of the driver.
struct Guest {
    qtest: Qtest,
    memory: Memory,
    started: Instant,
}

impl Platform for Guest {
    type Regs = Qtest;
    type Mem = RingMemory;
    fn registers(&self) -> Qtest {
        self.qtest.clone()
    }
    fn allocate(&self, spec: DmaSpec) -> Result<RingMemory, OutOfMemory> {
        self.memory.ring(spec)
    }
    fn now_ns(&self) -> u64 {
        self.started.elapsed().as_nanos() as u64
    }
    fn wait_ns(&self, ns: u64) {
        std::thread::sleep(Duration::from_nanos(ns));
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let frames: u8 = std::env::args().nth(1).map_or(Ok(10), |text| text.parse())?;
    let (mut qemu, memory, cable) = start()?;
    let (Some(input), Some(output)) = (qemu.process.stdin.take(), qemu.process.stdout.take()) else {
        unreachable!()
    };
    let qtest = Qtest(Rc::new(RefCell::new((input, BufReader::new(output)))));
    // The task of a PCI bus driver: BAR 0, then the command register (memory accesses, bus master).
    for (register, value) in [(0x10, BAR0), (0x04, 0b110)] {
        qtest.ask(&format!("outl 0xcf8 {:#x}", 1 << 31 | SLOT << 11 | register));
        qtest.ask(&format!("outl 0xcfc {value:#x}"));
    }
    // No buffer crosses 64 KiB: an erratum of the 82545 and 82546.
    let pool = memory.pool(600, 2048, Some(1 << 16))?;
    let guest = Guest { qtest, memory, started: Instant::now() };
    let config = Config { promiscuous: true, ..Config::kpps() };
    let mut device = probe(guest, Chip::I82540em, config, pool)?;
    let deadline = Instant::now() + Duration::from_secs(20);
    while !device.control.update_link()?.up && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(10));
    }
    for number in 0..frames {
        cable.send(&[number; 60])?; // without FCS
    }
    while device.rx.counters().frames < frames.into() && Instant::now() < deadline {
        // Reaps at most 32 completed descriptors, refills their slots, and rings the doorbell once.
        let reaped = device.rx.receive(32, |frame| {
            println!("received {} bytes: {:?} …", frame.bytes, &frame.buffer.bytes()[..4]);
            Some(frame.buffer)
        });
        if reaped == 0 {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
    let counters = device.rx.counters();
    println!("{} of {frames} frames, doorbell rung {} times", counters.frames, counters.doorbells);
    if counters.frames < frames.into() { Err("frames are missing".into()) } else { Ok(()) }
}

/// A running QEMU and its folder of files. Both end when this is dropped.
struct Qemu {
    process: Child,
    folder: PathBuf,
}

impl Drop for Qemu {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// Starts QEMU with one card. Returns the memory that the card sees, and the other end of the card's cable,
/// on which a frame is a datagram.
fn start() -> Result<(Qemu, Memory, UdpSocket), Box<dyn Error>> {
    let folder = std::env::temp_dir().join(format!("kpps-qemu-{}", std::process::id()));
    std::fs::create_dir(&folder)?;
    let (rom, ram) = (folder.join("rom"), folder.join("ram"));
    // The CPU starts 16 bytes before the end of the ROM: cli, hlt, and back to hlt.
    let mut program = vec![0xf4; 64 << 10];
    program[(64 << 10) - 16..][..4].copy_from_slice(&[0xfa, 0xf4, 0xeb, 0xfd]);
    std::fs::write(&rom, program)?;
    let file = std::fs::File::options().read(true).write(true).create_new(true).open(&ram)?;
    file.set_len(64 << 20)?;
    let cable = UdpSocket::bind("127.0.0.1:0")?;
    let card = UdpSocket::bind("127.0.0.1:0")?.local_addr()?; // a free port, for QEMU
    cable.connect(card)?;
    let process = Command::new("qemu-system-x86_64")
        .args(["-nodefaults", "-display", "none", "-m", "64M", "-machine", "pc,memory-backend=ram", "-bios"])
        .arg(&rom)
        .args([
            "-object",
            &format!("memory-backend-file,id=ram,share=on,size=64M,mem-path={}", ram.display()),
        ])
        .args(["-netdev", &format!("socket,id=cable,udp={},localaddr={card}", cable.local_addr()?)])
        .args(["-device", &format!("e1000,netdev=cable,addr={SLOT}")])
        // Timers of the emulation expire at once, because the CPU is idle.
        .args(["-icount", "shift=0,sleep=off", "-qtest", "stdio", "-qtest-log", "none"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|error| {
            let _ = std::fs::remove_dir_all(&folder);
            format!("qemu-system-x86_64: {error}")
        })?;
    Ok((Qemu { process, folder }, Memory::shared(&file)?, cable))
}
