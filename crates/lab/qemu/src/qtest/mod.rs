//! QEMU's e1000 cards behind [`kpps_platform`]: devices by other authors, against which driver and model
//! are tested.
//!
//! [`Qemu::start`] runs `qemu-system-x86_64` with one card and a halted CPU. The guest's memory is mapped
//! here ([`Memory`]), so rings and buffers cost nothing. Each register access is a message on QEMU's test
//! socket: a read takes some 10 to 50 µs, a write a few, because it is posted. The card's cable ends here
//! too: [`Qemu::inject`], [`Qemu::collect`], [`Qemu::set_link`].
//!
//! Debian's QEMU lacks the qtest *accelerator*. It is not needed: the CPU is emulated and halts in a ROM of
//! four bytes.
//!
//! Every wait is bounded. If QEMU ends, hangs or breaks the protocol, the card's registers read as all ones,
//! and [`Qemu::check`] returns the reason.
//!
//! ```no_run
//! use kpps_platform::{Platform, Registers};
//! use kpps_qemu::qtest::{Model, Options, Qemu};
//!
//! let qemu = Qemu::start(&Options::new(Model::I82540Em))?;
//! let status = qemu.platform().registers().read(0x0008);
//! assert_ne!(status & 1 << 1, 0, "the link is up");
//! # Ok::<(), kpps_qemu::Error>(())
//! ```

mod cable;
mod machine;
mod pci;
mod socket;

pub use kpps_platform::memory::{BufferPool, Memory, PoolBuffer, RingMemory};

use crate::Result;
use crate::process::{PROGRAM, Process};
use crate::qmp::Monitor;
use cable::Cable;
use kpps_platform::{DmaMemory, DmaSpec, OutOfMemory, Platform, Registers};
use machine::Started;
pub(crate) use socket::Qtest;
use std::cell::RefCell;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::{Duration, Instant};

/// MSI-X vectors at most; the 82574 has five.
const MOST_VECTORS: usize = 8;

/// Intel's PCI vendor id (SDM 4.1).
const INTEL: u16 = 0x8086;

/// The cards that QEMU's `e1000`, `e1000e` and `igb` emulations offer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Model {
    /// 82540EM, QEMU's default.
    I82540Em,
    /// 82544GC.
    I82544Gc,
    /// 82545EM.
    I82545Em,
    /// 82574L.
    I82574L,
    /// 82576, since QEMU 8.0.
    I82576,
}

impl Model {
    /// The cards with the descriptors of the 8254x: all but igb.
    pub const E1000: [Self; 4] = [Self::I82540Em, Self::I82544Gc, Self::I82545Em, Self::I82574L];

    /// QEMU's name of the card.
    pub const fn name(self) -> &'static str {
        match self {
            Self::I82540Em => "e1000",
            Self::I82544Gc => "e1000-82544gc",
            Self::I82545Em => "e1000-82545em",
            Self::I82574L => "e1000e",
            Self::I82576 => "igb",
        }
    }

    /// The PCI device id (SDM 5.2; the 82574's from its data sheet, the 82576's from the public drivers).
    pub const fn device_id(self) -> u16 {
        match self {
            Self::I82540Em => 0x100e,
            Self::I82544Gc => 0x100c,
            Self::I82545Em => 0x100f,
            Self::I82574L => 0x10d3,
            Self::I82576 => 0x10c9,
        }
    }
}

/// How QEMU's timers run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Timers {
    /// In real time.
    Wall,
    /// A timer expires as soon as it is set: QEMU's virtual time jumps to it, because the CPU is idle. Delays
    /// of the emulation (no reception for 1 s after a write of RCTL) end with the next turn of QEMU's main
    /// loop.
    Immediate,
}

/// How to run QEMU.
#[derive(Clone, Debug)]
pub struct Options {
    /// The program.
    pub program: String,
    /// The folder of the unpacked packages with the program (`lab::newer`); `None`: the host's QEMU.
    pub folder: Option<PathBuf>,
    /// The card.
    pub model: Model,
    /// Its MAC address, which QEMU also puts into its EEPROM.
    pub mac: [u8; 6],
    /// How its timers run.
    pub timers: Timers,
    /// The guest's memory in bytes, a multiple of 1 MiB.
    pub ram_bytes: u64,
}

impl Options {
    /// A card with immediate timers and 64 MiB of memory.
    pub fn new(model: Model) -> Self {
        Self {
            program: PROGRAM.to_owned(),
            folder: None,
            model,
            mac: [0x52, 0x54, 0x00, 0x12, 0x34, 0x56],
            timers: Timers::Immediate,
            ram_bytes: 64 << 20,
        }
    }
}

/// One card in a QEMU of its own. QEMU is killed when this is dropped, and when the thread that started it
/// ends.
#[derive(Debug)]
pub struct Qemu {
    platform: QtestPlatform,
    slot: u8,
    /// Where MSI-X messages arrive.
    messages: RingMemory,
    cable: RefCell<Cable>,
    monitor: RefCell<Monitor>,
    process: RefCell<Process>,
}

impl Qemu {
    /// Starts QEMU, finds the card and opens it.
    ///
    /// # Errors
    /// [`Error::NotInstalled`] without QEMU; [`Error::Ended`] if it does not start; [`Error::NoCard`] if its
    /// bus lacks the card.
    ///
    /// [`Error::NotInstalled`]: crate::Error::NotInstalled
    /// [`Error::Ended`]: crate::Error::Ended
    /// [`Error::NoCard`]: crate::Error::NoCard
    pub fn start(options: &Options) -> Result<Self> {
        let Started { mut process, ram, qtest, cable, monitor } = machine::start(options)?;
        let open = || {
            let qtest = Qtest::new(qtest)?;
            qtest.ask("irq_intercept_in ioapic");
            qtest.check()?;
            let slot = pci::open(&qtest, INTEL, options.model.device_id())?;
            let (qtest, since) = (Arc::new(qtest), Instant::now());
            let platform =
                QtestPlatform { qtest, ram: Memory::shared(&ram)?, since, vectors: Arc::default() };
            let mut monitor = Monitor::new(monitor)?;
            monitor.await_cable()?;
            Ok((platform, slot, monitor))
        };
        let (platform, slot, monitor) = open().map_err(|error| process.cause(error))?;
        let spec =
            DmaSpec { bytes: 8 * MOST_VECTORS, align: 64, boundary: None, max_address: u32::MAX.into() };
        let messages =
            platform.allocate(spec).map_err(|_| std::io::Error::from(std::io::ErrorKind::OutOfMemory))?;
        Ok(Self {
            platform,
            slot,
            messages,
            cable: RefCell::new(Cable::new(cable)?),
            monitor: RefCell::new(monitor),
            process: RefCell::new(process),
        })
    }

    /// The platform for a driver of this card. All handles are of the same card.
    pub fn platform(&self) -> QtestPlatform {
        self.platform.clone()
    }

    /// The memory that the card sees.
    pub fn ram(&self) -> &Memory {
        &self.platform.ram
    }

    /// QEMU's version, as "7.2.22".
    ///
    /// # Errors
    /// If the monitor does not answer.
    pub fn version(&self) -> Result<String> {
        self.monitor.borrow_mut().version()
    }

    /// Sends `frame`, without FCS, to the card. QEMU keeps it until the card can receive.
    ///
    /// # Errors
    /// If the connection is broken.
    pub fn inject(&self, frame: &[u8]) -> Result<()> {
        // The cable is another socket: a frame must not overtake the register writes before it.
        self.platform.qtest.flush();
        self.cable.borrow_mut().inject(frame)
    }

    /// The next frame that the card sent, without FCS.
    ///
    /// # Errors
    /// If the connection is broken.
    pub fn collect(&self) -> Result<Option<Vec<u8>>> {
        self.cable.borrow_mut().collect()
    }

    /// Waits `ns` nanoseconds, at least one turn of QEMU's main loop, and moves the cable's frames meanwhile.
    ///
    /// # Errors
    /// The first failure since the last [`check`](Self::check).
    pub fn advance(&self, ns: u64) -> Result<()> {
        let until = Instant::now() + Duration::from_nanos(ns);
        loop {
            self.platform.qtest.synchronise();
            self.cable.borrow_mut().pump()?;
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return self.check();
            }
            std::thread::sleep(left.min(Duration::from_micros(500)));
        }
    }

    /// Plugs the cable in or pulls it.
    ///
    /// # Errors
    /// If the monitor does not answer.
    pub fn set_link(&self, up: bool) -> Result<()> {
        self.monitor.borrow_mut().set_link("card", up)
    }

    /// Whether the card asserts its interrupt line, after all register accesses so far.
    pub fn interrupt_line(&self) -> bool {
        self.platform.qtest.line()
    }

    /// How often the card has raised its interrupt line.
    pub fn interrupts(&self) -> u64 {
        self.platform.qtest.raised()
    }

    /// Enables this number of MSI-X vectors instead of the card's interrupt line; 0 enables the line again.
    ///
    /// # Errors
    /// [`Error::NoMessages`](crate::Error::NoMessages) if the card has no MSI-X.
    pub fn set_vectors(&self, vectors: u8) -> Result<()> {
        let vectors = usize::from(vectors).min(MOST_VECTORS);
        let targets: Vec<u64> = (0..vectors as u64).map(|n| self.messages.bus() + 8 * n).collect();
        self.messages.words().iter().for_each(|word| word.store(0, Ordering::SeqCst));
        pci::set_messages(&self.platform.qtest, self.slot, &targets)?;
        self.platform.vectors.store(vectors as u8, Ordering::Relaxed);
        Ok(())
    }

    /// Whether `vector` has fired since the last call, after all register accesses so far.
    pub fn take_message(&self, vector: u8) -> bool {
        self.platform.qtest.synchronise();
        let word = self.messages.words().get(usize::from(vector));
        word.is_some_and(|word| word.swap(0, Ordering::SeqCst) != 0)
    }

    /// Checks that QEMU runs and that its answers since the last call were valid.
    ///
    /// # Errors
    /// The first failure since the last call.
    pub fn check(&self) -> Result<()> {
        self.process.borrow_mut().check()?;
        self.platform.qtest.check()
    }
}

/// Registers, memory and clock of a [`Qemu`]. Once that is dropped, the card's registers read as all ones.
#[derive(Clone, Debug)]
pub struct QtestPlatform {
    qtest: Arc<Qtest>,
    ram: Memory,
    since: Instant,
    vectors: Arc<AtomicU8>,
}

impl Platform for QtestPlatform {
    type Regs = Window;
    type Mem = RingMemory;

    fn registers(&self) -> Window {
        Window { qtest: self.qtest.clone() }
    }
    fn allocate(&self, spec: DmaSpec) -> std::result::Result<RingMemory, OutOfMemory> {
        self.ram.ring(spec)
    }
    fn now_ns(&self) -> u64 {
        u64::try_from(self.since.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }
    fn vectors(&self) -> u8 {
        self.vectors.load(Ordering::Relaxed)
    }
    fn wait_ns(&self, ns: u64) {
        std::thread::sleep(Duration::from_nanos(ns));
    }
}

/// The card's BAR 0, seen through QEMU's test socket.
#[derive(Clone, Debug)]
pub struct Window {
    qtest: Arc<Qtest>,
}

impl Registers for Window {
    fn read(&self, offset: u32) -> u32 {
        self.qtest.ask(&format!("readl {:#x}", pci::BAR0 + u64::from(offset))) as u32
    }
    fn write(&self, offset: u32, value: u32) {
        self.qtest.post(&format!("writel {:#x} {value:#x}", pci::BAR0 + u64::from(offset)));
    }
}
