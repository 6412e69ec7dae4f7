//! A card driven from user space, real or of a virtual machine. The other end of its cable is an interface of
//! the kernel.
//!
//! The interface must be up, with an MTU of at least 9000 and without IP addresses (IPv6 off, too). Its
//! offloads that change frames (GRO, stripped tags) are turned off here. Frames of other senders are ignored,
//! but count in statistics.

use crate::oracle::PEER;
use crate::{Departure, Failure, Fixture, departure};
use kpps_datasheet::{Chip, reg};
use kpps_driver::{Config, probe};
use kpps_linux::{Card, CardPlatform, Domain, Interrupts, Window};
use kpps_platform::memory::RingMemory;
use kpps_platform::memory::{BufferPool, Memory};
use kpps_platform::{Buffer, BufferSource, DmaSpec, OutOfMemory, Platform, Registers};
use kpps_ports::Spec;
use kpps_ports::port::{Frame, PacketPort, Port, Trouble};
use std::cell::Cell;
use std::collections::VecDeque;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::{Duration, Instant};

/// Memory for rings and buffers, in bytes: 1024 buffers of 16 KiB, and the rings.
const DOMAIN_BYTES: usize = 24 << 20;
/// Frames on their way to or from the peer, and bytes of each.
const WIRE_FRAMES: usize = 256;
const WIRE_BYTES: usize = 16384;
/// How long the peer may take to see its link, or to take a frame.
const PEER_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a device with [`departure::RECEIVE_PAUSE_AFTER_RCTL`] receives nothing: one second of QEMU, and a
/// margin between its clock and the guest's.
const RECEIVE_PAUSE: Duration = Duration::from_millis(1020);
/// How late a busy host may be, in ns.
const SLACK_NS: u64 = 40_000_000;

/// The card and its surroundings.
#[derive(Clone, Debug)]
pub struct RealOptions {
    /// The card: `vfio:ADDRESS` or `uio:ADDRESS`, bound already.
    pub card: Spec,
    /// The kernel's interface at the other end of the cable.
    pub peer: String,
    /// A file that controls the cable: the fixture writes lines `link up` and `link down` to it. Without it,
    /// cases that unplug the cable are not applicable.
    pub link_control: Option<PathBuf>,
}

/// A card in user space, cabled to an interface of the kernel.
#[derive(Debug)]
pub struct RealFixture {
    name: String,
    card: Card,
    platform: RealPlatform,
    /// MSI-X vectors that are on.
    vectors: Vec<Interrupts>,
    address: [u8; 6],
    departures: &'static [&'static Departure],
    peer: PacketPort,
    /// Buffers for frames at the peer's side of the wire.
    wire: BufferPool,
    link: Option<File>,
    link_up: bool,
    arrived: VecDeque<Vec<u8>>,
    asserted: bool,
    raised: u64,
}

impl From<Trouble> for Failure {
    fn from(trouble: Trouble) -> Self {
        Self(format!("the peer: {trouble}"))
    }
}

impl RealFixture {
    /// Opens card and peer and waits until the peer has a link.
    ///
    /// # Errors
    /// If either cannot be opened; the message has the reason and a remedy.
    pub fn open(options: &RealOptions) -> Result<Self, Failure> {
        let Spec::Card(backend, address) = &options.card else {
            return Err(format!("{} is no card; expected vfio:ADDRESS or uio:ADDRESS", options.card).into());
        };
        let domain = Domain::new(*backend, DOMAIN_BYTES)?;
        let card = Card::open(&domain, *address)?;
        let io = |what: &str| {
            let what = what.to_owned();
            move |error: std::io::Error| Failure(format!("{what}: {error}"))
        };
        let memory = Memory::private(2 * WIRE_FRAMES * WIRE_BYTES).map_err(io("memory for frames"))?;
        let wire = memory.pool(WIRE_FRAMES, WIRE_BYTES, None)?;
        // The peer receives into buffers of the same pool and returns sent ones to it.
        let peer = PacketPort::open(&options.peer, wire.clone()).map_err(io(&options.peer))?;
        peer.as_on_the_wire().map_err(io(&format!("{}: turning off its offloads", options.peer)))?;
        let link = match &options.link_control {
            Some(path) => {
                let file = File::options().write(true).open(path);
                Some(file.map_err(io(&path.display().to_string()))?)
            }
            None => None,
        };
        let mut fixture = Self {
            name: options.card.to_string(),
            address: station_address(&card)?,
            platform: RealPlatform {
                platform: card.platform(),
                rctl: card.chip().offset(reg::RCTL),
                written: Rc::default(),
            },
            vectors: Vec::new(),
            departures: if is_qemu(&address.to_string()) {
                departure::of_qemu_on_a_hub(card.chip())
            } else {
                &[]
            },
            card,
            peer,
            wire,
            link,
            link_up: true,
            arrived: VecDeque::new(),
            asserted: false,
            raised: 0,
        };
        fixture.await_peer()?;
        Ok(fixture)
    }

    fn await_peer(&mut self) -> Result<(), Failure> {
        let since = Instant::now();
        loop {
            self.peer.maintain()?;
            if self.peer.link().up {
                return Ok(());
            }
            if since.elapsed() > PEER_TIMEOUT {
                return Err("the peer has no link: is the interface up?".into());
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Takes received frames from the peer.
    fn pump(&mut self) -> Result<(), Failure> {
        let Self { peer, arrived, .. } = self;
        while peer.receive(64, |frame| {
            if source(frame.as_ref()) == Some(&PEER) {
                arrived.push_back(frame.as_ref().to_vec());
            }
            Some(frame.buffer)
        })? > 0
        {}
        Ok(())
    }

    /// Samples the interrupt line, and counts its rising edges.
    fn sample(&mut self) -> Result<bool, Failure> {
        let now = self.card.interrupt_pending()?;
        self.raised += u64::from(now && !self.asserted);
        self.asserted = now;
        Ok(now)
    }
}

/// The platform of the driver. It remembers the last write of RCTL, after which some devices receive nothing
/// for a while.
#[derive(Clone, Debug)]
pub struct RealPlatform {
    platform: CardPlatform,
    /// RCTL's offset.
    rctl: u32,
    written: Rc<Cell<Option<Instant>>>,
}

/// Registers of a [`RealPlatform`].
#[derive(Clone, Debug)]
pub struct RealRegisters {
    window: Window,
    rctl: u32,
    written: Rc<Cell<Option<Instant>>>,
}

impl Registers for RealRegisters {
    #[inline]
    fn read(&self, offset: u32) -> u32 {
        self.window.read(offset)
    }
    #[inline]
    fn write(&self, offset: u32, value: u32) {
        self.window.write(offset, value);
        if offset == self.rctl {
            self.written.set(Some(Instant::now()));
        }
    }
}

impl Platform for RealPlatform {
    type Regs = RealRegisters;
    type Mem = RingMemory;

    fn registers(&self) -> RealRegisters {
        let Self { platform, rctl, written } = self;
        RealRegisters { window: platform.registers(), rctl: *rctl, written: written.clone() }
    }
    fn allocate(&self, spec: DmaSpec) -> Result<RingMemory, OutOfMemory> {
        self.platform.allocate(spec)
    }
    fn now_ns(&self) -> u64 {
        self.platform.now_ns()
    }
    fn vectors(&self) -> u8 {
        self.platform.vectors()
    }
    fn wait_ns(&self, ns: u64) {
        self.platform.wait_ns(ns);
    }
}

/// The sender of a frame.
fn source(frame: &[u8]) -> Option<&[u8; 6]> {
    frame.get(6..)?.first_chunk()
}

/// The station address that the driver reads in the card's EEPROM.
fn station_address(card: &Card) -> Result<[u8; 6], Failure> {
    let config = Config { rx_ring: 8, tx_ring: 8, ..Config::kpps() };
    let config = Config {
        completion: kpps_driver::config::Completion { report_every: 1, ..config.completion },
        ..config
    };
    let pool = card.domain().memory().pool(32, 2048, Some(1 << 16))?;
    Ok(probe(card.platform(), card.chip(), config, pool)?.control.address())
}

/// Whether QEMU emulates the card at `address`, by its subsystem identifiers: Red Hat's vendor, or Intel's
/// with device 0, which no real card has.
fn is_qemu(address: &str) -> bool {
    let folder = Path::new("/sys/bus/pci/devices").join(address);
    let read = |name: &str| std::fs::read_to_string(folder.join(name)).unwrap_or_default();
    match read("subsystem_vendor").trim() {
        "0x1af4" => true,
        "0x8086" => read("subsystem_device").trim() == "0x0000",
        _ => false,
    }
}

impl Fixture for RealFixture {
    type Platform = RealPlatform;
    type Source = BufferPool;

    fn device(&self) -> String {
        self.name.clone()
    }
    fn chip(&self) -> Chip {
        self.card.chip()
    }
    fn address(&self) -> [u8; 6] {
        self.address
    }
    fn departures(&self) -> &'static [&'static Departure] {
        self.departures
    }
    fn platform(&self) -> RealPlatform {
        // The same for all: they have one clock.
        self.platform.clone()
    }
    fn buffers(&mut self, count: usize, bytes: usize) -> Result<BufferPool, Failure> {
        Ok(self.card.domain().memory().pool(count, bytes, Some(1 << 16))?)
    }
    fn inject(&mut self, frame: &[u8]) -> Result<(), Failure> {
        if self.departs(&departure::RECEIVE_PAUSE_AFTER_RCTL)
            && let Some(written) = self.platform.written.take()
        {
            std::thread::sleep(RECEIVE_PAUSE.saturating_sub(written.elapsed()));
        }
        self.inject_at_once(frame)
    }
    fn inject_at_once(&mut self, frame: &[u8]) -> Result<(), Failure> {
        let mut buffer = self.wire.take().ok_or("no buffer for a frame to the card")?;
        let bytes = buffer.bytes_mut().get_mut(..frame.len());
        bytes.ok_or("a frame that is longer than a buffer")?.copy_from_slice(frame);
        let mut frame = Frame { buffer, bytes: frame.len() as u16 };
        let since = Instant::now();
        while let Err(back) = self.peer.send(frame) {
            if since.elapsed() > PEER_TIMEOUT {
                return Err("the peer takes no frames".into());
            }
            frame = back;
            self.peer.flush()?;
            std::thread::sleep(Duration::from_micros(100));
        }
        self.peer.flush()?;
        Ok(())
    }
    fn inject_bad_fcs(&mut self, _: &[u8]) -> Result<bool, Failure> {
        Ok(false)
    }
    fn collect(&mut self) -> Result<Option<Vec<u8>>, Failure> {
        self.pump()?;
        Ok(self.arrived.pop_front())
    }
    fn advance(&mut self, ns: u64) -> Result<(), Failure> {
        self.peer.flush()?;
        self.pump()?;
        self.platform.wait_ns(ns);
        self.pump()
    }
    fn set_link(&mut self, up: bool) -> Result<(), Failure> {
        if up == self.link_up {
            return Ok(());
        }
        let control = self.link.as_mut().ok_or("there is no link control")?;
        let line: &[u8] = if up { b"link up\n" } else { b"link down\n" };
        let written = control.write_all(line).and_then(|()| control.flush());
        written.map_err(|error| Failure(format!("link control: {error}")))?;
        self.link_up = up;
        Ok(())
    }
    fn interrupt_line(&mut self) -> Result<bool, Failure> {
        self.sample()
    }
    fn interrupts(&mut self) -> Result<u64, Failure> {
        self.sample()?;
        Ok(self.raised)
    }
    fn keeps_order(&self) -> bool {
        // Linux delivers a batch of received frames by protocol, to packet sockets too: frames that are not
        // IP come after the others.
        false
    }
    fn is_padded(&self) -> bool {
        // The peer's card pads them.
        true
    }
    fn has_cable(&self) -> bool {
        self.link.is_some()
    }
    fn is_noise(&self, frame: &[u8]) -> bool {
        source(frame) != Some(&PEER)
    }
    fn set_vectors(&mut self, vectors: u8) -> Result<bool, Failure> {
        self.vectors.clear();
        if usize::from(vectors) > self.card.vector_count() {
            return Ok(false);
        }
        if vectors > 0 {
            self.vectors = self.card.vectors(vectors.into())?;
        }
        Ok(true)
    }
    fn take_message(&mut self, vector: u8) -> Result<bool, Failure> {
        match self.vectors.get_mut(usize::from(vector)) {
            Some(vector) => Ok(vector.wait(Duration::ZERO)?),
            None => Ok(false),
        }
    }
    fn slack_ns(&self) -> u64 {
        SLACK_NS
    }
}
