//! QEMU's e1000 cards as a device behind [`kpps_platform`]: a card that nobody here wrote, so
//! that driver and model can be held against something other than each other.
//!
//! [`Qemu::start`] runs `qemu-system-x86_64` with one card and a halted processor. The guest's
//! memory is mapped here ([`Memory`]), so rings and buffers cost nothing; each register access is
//! a message on QEMU's test socket (a read some 10–50 µs, a write a few, as it is posted). The
//! cable ends here too: [`Qemu::inject`], [`Qemu::collect`], [`Qemu::set_link`].
//!
//! It works with QEMUs whose qtest *accelerator* has been left out (Debian): the processor is
//! emulated and stands still in a ROM of four bytes.
//!
//! Everything has a bounded wait. A QEMU that ends, hangs or talks nonsense is a device that
//! reads as all ones; [`Qemu::check`] says why.

mod error;
mod pci;
mod process;
mod qmp;
mod socket;
mod wire;

pub use error::Error;
pub use kpps_dma::{BufferPool, Memory, PoolBuffer, RingMemory};

use kpps_platform::{DmaMemory, DmaSpec, OutOfMemory, Platform, Registers};
use socket::Qtest;
use std::cell::RefCell;
use std::fs::File;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::{Duration, Instant};

/// MSI-X vectors that can be told apart; the 82574 has five.
const MOST_VECTORS: usize = 8;

/// Intel's PCI vendor id (SDM 4.1).
const INTEL: u16 = 0x8086;

/// The cards that QEMU's `e1000` and `e1000e` emulations offer.
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
}

impl Model {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::I82540Em, Self::I82544Gc, Self::I82545Em, Self::I82574L];

    /// QEMU's name of the card.
    pub const fn name(self) -> &'static str {
        match self {
            Self::I82540Em => "e1000",
            Self::I82544Gc => "e1000-82544gc",
            Self::I82545Em => "e1000-82545em",
            Self::I82574L => "e1000e",
        }
    }

    /// The PCI device id (SDM 5.2; the 82574's from its data sheet).
    pub const fn device_id(self) -> u16 {
        match self {
            Self::I82540Em => 0x100e,
            Self::I82544Gc => 0x100c,
            Self::I82545Em => 0x100f,
            Self::I82574L => 0x10d3,
        }
    }
}

/// How QEMU's timers run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Timers {
    /// As time passes on the wall.
    Wall,
    /// A timer that is set expires at once: QEMU's virtual time jumps to it, as its processor
    /// has nothing to do. Delays of the emulation (1 s of deafness after a write of RCTL)
    /// are then over as soon as QEMU's main loop comes round.
    Immediate,
}

/// How to run QEMU.
#[derive(Clone, Debug)]
pub struct Options {
    /// The program.
    pub program: String,
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
            program: "qemu-system-x86_64".to_owned(),
            model,
            mac: [0x52, 0x54, 0x00, 0x12, 0x34, 0x56],
            timers: Timers::Immediate,
            ram_bytes: 64 << 20,
        }
    }
}

/// One card in a QEMU of its own, which is killed when this is dropped, and when the thread that
/// started it ends.
#[derive(Debug)]
pub struct Qemu {
    place: Place,
    slot: u8,
    /// Where MSI-X messages arrive.
    messages: RingMemory,
    wire: RefCell<wire::Wire>,
    monitor: RefCell<qmp::Monitor>,
    process: RefCell<process::Process>,
}

impl Qemu {
    /// Starts QEMU, finds the card and opens it.
    ///
    /// # Errors
    /// [`Error::NotInstalled`] if there is no QEMU here; others if it does not start or its
    /// bus lacks the card.
    pub fn start(options: &Options) -> Result<Self, Error> {
        let process::Started { mut process, ram, qtest, wire, monitor, directory } = process::start(options)?;
        let (place, slot, wire, monitor) =
            Self::open(options, &ram, qtest, wire, monitor).map_err(|error| process.reason(error))?;
        // QEMU answers only when it has set up everything: its files are open by now.
        directory.close()?;
        let spec =
            DmaSpec { bytes: 8 * MOST_VECTORS, align: 64, boundary: None, max_address: u32::MAX.into() };
        let messages =
            place.allocate(spec).map_err(|_| std::io::Error::from(std::io::ErrorKind::OutOfMemory))?;
        Ok(Self {
            place,
            slot,
            messages,
            wire: RefCell::new(wire),
            monitor: RefCell::new(monitor),
            process: RefCell::new(process),
        })
    }

    fn open(
        options: &Options,
        ram: &File,
        qtest: UnixStream,
        wire: UnixStream,
        monitor: UnixStream,
    ) -> Result<(Place, u8, wire::Wire, qmp::Monitor), Error> {
        let qtest = Qtest::new(qtest)?;
        qtest.ask("irq_intercept_in ioapic");
        qtest.check()?;
        let slot = pci::open(&qtest, INTEL, options.model.device_id())?;
        let place = Place {
            qtest: Arc::new(qtest),
            ram: Memory::shared(ram)?,
            since: Instant::now(),
            vectors: Arc::default(),
        };
        let mut monitor = qmp::Monitor::new(monitor)?;
        monitor.await_wire()?;
        Ok((place, slot, wire::Wire::new(wire)?, monitor))
    }

    /// The place in which a driver can run this card; as many handles as wanted.
    pub fn platform(&self) -> Place {
        self.place.clone()
    }

    /// The memory that the card sees.
    pub fn ram(&self) -> &Memory {
        &self.place.ram
    }

    /// QEMU's version, as "7.2.22".
    ///
    /// # Errors
    /// If the monitor does not answer.
    pub fn version(&self) -> Result<String, Error> {
        self.monitor.borrow_mut().version()
    }

    /// Puts `frame`, without FCS, on the wire towards the card. QEMU keeps it until the card
    /// can receive.
    ///
    /// # Errors
    /// If the connection is broken.
    pub fn inject(&self, frame: &[u8]) -> Result<(), Error> {
        // The wire is another socket: a frame must not overtake the register writes before it.
        self.place.qtest.settle_posted();
        self.wire.borrow_mut().inject(frame)
    }

    /// The next frame that the card sent, without FCS.
    ///
    /// # Errors
    /// If the connection is broken.
    pub fn collect(&self) -> Result<Option<Vec<u8>>, Error> {
        self.wire.borrow_mut().collect()
    }

    /// Lets `ns` nanoseconds pass, at least one turn of QEMU's main loop, and keeps the wire
    /// moving.
    ///
    /// # Errors
    /// Whatever has gone wrong since the last look.
    pub fn settle(&self, ns: u64) -> Result<(), Error> {
        let until = Instant::now() + Duration::from_nanos(ns);
        loop {
            self.place.qtest.synchronise();
            self.wire.borrow_mut().pump()?;
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return self.check();
            }
            std::thread::sleep(left.min(Duration::from_micros(500)));
        }
    }

    /// Whether frames for the card have not been taken by QEMU yet.
    pub fn backlog(&self) -> bool {
        self.wire.borrow().backlog()
    }

    /// Plugs the cable in or pulls it.
    ///
    /// # Errors
    /// If the monitor does not answer.
    pub fn set_link(&self, up: bool) -> Result<(), Error> {
        self.monitor.borrow_mut().set_link("card", up)
    }

    /// Whether the card asserts its interrupt line, after all register accesses so far.
    pub fn interrupt_line(&self) -> bool {
        self.place.qtest.line()
    }

    /// How often the card has raised its interrupt line.
    pub fn interrupts(&self) -> u64 {
        self.place.qtest.raised()
    }

    /// Gives the card so many MSI-X vectors instead of its interrupt line; 0 gives it the line back.
    ///
    /// # Errors
    /// [`Error::NoMessages`] if the card has no MSI-X.
    pub fn set_vectors(&self, vectors: u8) -> Result<(), Error> {
        let vectors = usize::from(vectors).min(MOST_VECTORS);
        let targets: Vec<u64> = (0..vectors as u64).map(|n| self.messages.bus() + 8 * n).collect();
        self.messages.words().iter().for_each(|word| word.store(0, Ordering::SeqCst));
        pci::set_messages(&self.place.qtest, self.slot, &targets)?;
        self.place.vectors.store(vectors as u8, Ordering::Relaxed);
        Ok(())
    }

    /// Whether `vector` has fired since this was last asked, after all register accesses so far.
    pub fn take_message(&self, vector: u8) -> bool {
        self.place.qtest.synchronise();
        let word = self.messages.words().get(usize::from(vector));
        word.is_some_and(|word| word.swap(0, Ordering::SeqCst) != 0)
    }

    /// Whether QEMU is alive and has answered sensibly since the last call.
    ///
    /// # Errors
    /// What was wrong.
    pub fn check(&self) -> Result<(), Error> {
        self.process.borrow_mut().check()?;
        self.place.qtest.check()
    }
}

/// Registers, memory and clock of a [`Qemu`]. Once that is dropped, the card has vanished:
/// its registers read as all ones.
#[derive(Clone, Debug)]
pub struct Place {
    qtest: Arc<Qtest>,
    ram: Memory,
    since: Instant,
    vectors: Arc<AtomicU8>,
}

impl Platform for Place {
    type Regs = Window;
    type Mem = RingMemory;

    fn registers(&self) -> Window {
        Window { qtest: self.qtest.clone() }
    }
    fn allocate(&self, spec: DmaSpec) -> Result<RingMemory, OutOfMemory> {
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
