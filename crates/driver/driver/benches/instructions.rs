//! The driver's instructions per packet: `cargo bench -p kpps-driver`.
//!
//! The device is flat memory: it marks a descriptor done with one store, and its registers are plain
//! variables. For each number the program runs itself under callgrind four times: N and 2N bursts, with and
//! without the driver. The difference of N and 2N is the loop alone. The difference of with and without
//! removes the loop itself, the device's stores, and the stack of free buffers. The rest is the driver.
//!
//! It fails when a packet costs more than [`LIMIT`] instructions at the largest burst, or without valgrind.
//! Without `--bench` (as `cargo test` calls it) it only runs each loop once.

use kpps_datasheet::{Chip, bit, desc, reg};
use kpps_driver::{Config, Device, Fragment, config::*, probe};
use kpps_platform::{Buffer, BufferSource, DmaMemory, DmaSpec, OutOfMemory, Platform, Registers};
use std::{
    cell::{Cell, RefCell},
    hint::black_box,
    process::{Command, ExitCode},
    rc::Rc,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
};

const BURSTS: [u64; 3] = [1, 8, 32];
const DIRECTIONS: [&str; 4] = ["receive", "transmit", "send_burst", "send_again"];
/// The most instructions per packet at burst 32, in each direction.
const LIMIT: f64 = 60.0;
/// Packets in the shorter of the two runs.
const PACKETS: u64 = 20_000;
const RING: usize = 256;
const FRAME: u16 = 60;

type Words = &'static [AtomicU64];

#[derive(Clone)]
struct Flat {
    last_write: Rc<Cell<u32>>,
    rings: Rc<RefCell<Vec<Words>>>,
}

impl Registers for Flat {
    fn read(&self, offset: u32) -> u32 {
        // The fibre link is up.
        if offset == reg::STATUS { bit::status::TBIMODE | bit::status::LU | bit::status::FD } else { 0 }
    }
    #[inline]
    fn write(&self, _: u32, value: u32) {
        self.last_write.set(value);
    }
}

struct Memory(Words);

impl DmaMemory for Memory {
    fn bus(&self) -> u64 {
        0x1000
    }
    #[inline]
    fn words(&self) -> &[AtomicU64] {
        self.0
    }
}

impl Platform for Flat {
    type Regs = Self;
    type Mem = Memory;
    fn registers(&self) -> Self {
        self.clone()
    }
    fn allocate(&self, spec: DmaSpec) -> Result<Memory, OutOfMemory> {
        let words = Vec::leak((0..spec.bytes / 8).map(|_| AtomicU64::new(0)).collect());
        self.rings.borrow_mut().push(words);
        Ok(Memory(words))
    }
    fn now_ns(&self) -> u64 {
        0
    }
    fn wait_ns(&self, _: u64) {}
}

/// A buffer is only an address.
struct Buf(u64);

impl Buffer for Buf {
    #[inline]
    fn bus(&self) -> u64 {
        self.0
    }
    #[inline]
    fn capacity(&self) -> usize {
        2048
    }
    fn bytes(&self) -> &[u8] {
        &[]
    }
    fn bytes_mut(&mut self) -> &mut [u8] {
        &mut []
    }
}

/// Free buffers. Each direction has its own type, so that the driver is compiled for each alone, as in a
/// program with only one direction.
#[derive(Clone)]
struct Stack<const DIRECTION: usize>(Rc<RefCell<Vec<Buf>>>);

impl<const DIRECTION: usize> BufferSource for Stack<DIRECTION> {
    type Buf = Buf;
    #[inline]
    fn take(&mut self) -> Option<Buf> {
        self.0.borrow_mut().pop()
    }
    #[inline]
    fn give(&mut self, buffer: Buf) {
        self.0.borrow_mut().push(buffer);
    }
}

/// The device's side of a ring: marks the next `burst` descriptors done.
#[inline]
fn device(ring: Words, head: &mut usize, burst: u64, word: u64) {
    for _ in 0..burst {
        ring[*head * 2 + 1].store(word, Relaxed);
        *head = if *head + 1 == RING { 0 } else { *head + 1 };
    }
}

const RECEIVED: u64 = desc::RxWriteback {
    length: FRAME,
    checksum: 0,
    status: desc::rx_status::DD | desc::rx_status::EOP,
    errors: 0,
    special: 0,
}
.pack();

#[inline(never)]
fn receive(device_: &mut Device<Flat, Stack<0>>, ring: Words, bursts: u64, burst: u64, driver: bool) {
    let mut head = 0;
    let mut bytes = 0;
    for _ in 0..bursts {
        device(ring, &mut head, burst, RECEIVED);
        if driver {
            let taken = device_.rx.receive(burst as usize, |r| {
                bytes += u64::from(r.bytes);
                Some(r.buffer)
            });
            assert_eq!(taken as u64, burst);
        }
    }
    black_box(bytes);
}

/// Direction 1: `send` for each frame; 2: `send_burst`; 3: `send_again`.
#[inline(never)]
fn transmit<const DIRECTION: usize>(
    device_: &mut Device<Flat, Stack<DIRECTION>>,
    ring: Words,
    bursts: u64,
    burst: u64,
    driver: bool,
) {
    let mut head = 0;
    let mut stack = Stack::<DIRECTION>(device_.tx.source_mut().0.clone());
    for turn in 0..bursts {
        if driver && DIRECTION == 3 && turn > 0 {
            let sent = device_.tx.send_again(burst as usize, |_| black_box(FRAME));
            assert_eq!(sent as u64, burst);
        } else if driver && DIRECTION >= 2 {
            let mut frames =
                (0..burst).map_while(|_| Some(Fragment { buffer: stack.take()?, bytes: black_box(FRAME) }));
            assert!(device_.tx.send_burst(&mut frames).is_ok_and(|sent| sent as u64 == burst));
        } else if driver {
            for _ in 0..burst {
                let sent =
                    stack.take().is_some_and(|buffer| device_.tx.send(buffer, black_box(FRAME)).is_ok());
                assert!(sent);
            }
        }
        if driver {
            device_.tx.flush();
        }
        device(ring, &mut head, burst, desc::TX_DD);
        if driver && DIRECTION == 3 {
            // `send_again` reclaims buffers.
        } else if driver {
            assert_eq!(device_.tx.reclaim(burst as usize) as u64, burst);
        } else {
            for _ in 0..burst {
                let buffer = stack.take();
                stack.give(black_box(buffer).unwrap_or(Buf(0)));
            }
        }
    }
}

type OpenDevice<const DIRECTION: usize> = (Device<Flat, Stack<DIRECTION>>, Vec<Words>);

fn open<const DIRECTION: usize>() -> Result<OpenDevice<DIRECTION>, kpps_driver::Error> {
    let flat = Flat { last_write: Rc::default(), rings: Rc::default() };
    let buffers = (0..1024).map(|i| Buf(0x10_0000 + i * 2048)).collect();
    let config = Config {
        rx_ring: RING as u16,
        tx_ring: RING as u16,
        completion: Completion { report_every: 32, delay: Delay::Always },
        address: Some([2, 0, 0, 0, 0, 1]),
        ..Config::kpps()
    };
    let device = probe(flat.clone(), Chip::I82543gc, config, Stack(Rc::new(RefCell::new(buffers))))?;
    let rings = flat.rings.borrow().clone();
    black_box(flat.last_write);
    Ok((device, rings))
}

/// The measured process.
fn run(direction: &str, burst: u64, bursts: u64, driver: bool) -> Result<(), kpps_driver::Error> {
    match direction {
        "receive" => {
            let (mut device, rings) = open()?;
            receive(&mut device, rings[0], bursts, burst, driver);
        }
        "transmit" => {
            let (mut device, rings) = open::<1>()?;
            transmit(&mut device, rings[1], bursts, burst, driver);
        }
        "send_burst" => {
            let (mut device, rings) = open::<2>()?;
            transmit(&mut device, rings[1], bursts, burst, driver);
        }
        _ => {
            let (mut device, rings) = open::<3>()?;
            transmit(&mut device, rings[1], bursts, burst, driver);
        }
    }
    Ok(())
}

/// Instructions of a whole run, counted by callgrind.
fn count(direction: &str, burst: u64, bursts: u64, driver: bool) -> Result<u64, String> {
    let program = std::env::current_exe().map_err(|e| e.to_string())?;
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .arg(program)
        .args(["run", direction, &burst.to_string(), &bursts.to_string(), &driver.to_string()])
        .output()
        .map_err(|e| format!("cannot run valgrind ({e}); it is needed to count instructions"))?;
    let report = String::from_utf8_lossy(&output.stderr);
    let collected = report.lines().find_map(|line| line.split_once("Collected : "));
    match collected.and_then(|(_, number)| number.trim().parse().ok()) {
        Some(number) if output.status.success() => Ok(number),
        _ => Err(format!("valgrind failed:\n{report}")),
    }
}

/// The driver's instructions per packet.
fn measure(direction: &str, burst: u64) -> Result<f64, String> {
    let bursts = PACKETS / burst;
    let slope = |driver| -> Result<f64, String> {
        let (once, twice) =
            (count(direction, burst, bursts, driver)?, count(direction, burst, 2 * bursts, driver)?);
        Ok((twice as f64 - once as f64) / (bursts * burst) as f64)
    };
    Ok(slope(true)? - slope(false)?)
}

fn table() -> Result<bool, String> {
    println!("instructions of the driver per packet (callgrind; fake device and loop subtracted)\n");
    println!("{:<11}{}", "burst", BURSTS.map(|b| format!("{b:>8}")).concat());
    let mut good = true;
    for direction in DIRECTIONS {
        let mut line = format!("{direction:<11}");
        let mut last = 0.0;
        for burst in BURSTS {
            last = measure(direction, burst)?;
            line += &format!("{last:>8.1}");
        }
        println!("{line}");
        good &= last <= LIMIT;
    }
    if !good {
        println!("\nabove the limit of {LIMIT} at burst {}", BURSTS[BURSTS.len() - 1]);
    }
    Ok(good)
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let strings: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let result = match strings[..] {
        ["run", direction, burst, bursts, driver] => match (burst.parse(), bursts.parse(), driver.parse()) {
            (Ok(burst), Ok(bursts), Ok(driver)) => {
                run(direction, burst, bursts, driver).map(|()| true).map_err(|e| e.to_string())
            }
            _ => Err("run DIRECTION BURST BURSTS DRIVER".into()),
        },
        _ if strings.contains(&"--bench") => table(),
        _ => DIRECTIONS
            .iter()
            .try_for_each(|direction| run(direction, 8, 100, true))
            .map(|()| true)
            .map_err(|e| e.to_string()),
    };
    match result {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(message) => {
            eprintln!("{message}");
            ExitCode::FAILURE
        }
    }
}
