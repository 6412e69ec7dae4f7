//! Ports by name.

use super::card::{CardPort, Line};
use super::run::BUDGET;
use super::{Counters, Frame, Link, Next, PacketPort, Port, Trouble, Wake};
use crate::{Backend, Card, Domain, Error, Interrupts, Place, Spec, devices};
use kpps_dma::{BufferPool, Memory, PoolBuffer};
use kpps_driver::Chip;
use kpps_driver::config::{Config, NapiExit, Refill, RefillWhen, Service};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

/// Bytes of a buffer; a frame is in one buffer. The card uses 2048 of them. One cache line more lets the first lines of
/// the buffers fall into all sets of a cache, instead of every thirty-second one.
const BUFFER_BYTES: usize = 2048 + 64;
/// Buffers that apps hold, and that lie in the stacks of the pool's handles.
const SPARE_BUFFERS: usize = 1024;
/// The boundary that no buffer crosses: an erratum of the 82545 and 82546.
const BOUNDARY: u64 = 1 << 16;

/// How a card is served.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ServiceKind {
    /// Always looking, never sleeping.
    Polling,
    /// An interrupt starts polling, which ends when the rings are empty, as in Linux.
    Napi,
    /// Our own: as NAPI, but it finds itself how long to go on polling and how long to pause.
    #[default]
    Kpps,
}

impl ServiceKind {
    /// Its name on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Polling => "polling",
            Self::Napi => "napi",
            Self::Kpps => "kpps",
        }
    }
    fn service(self) -> Service {
        match self {
            Self::Polling => Service::Polling { burst: BUDGET as u16 },
            Self::Napi => Service::Napi { weight: 64, exit: NapiExit::BothIdle, mask: true },
            Self::Kpps => Service::SelfPacing { burst: BUDGET as u16 },
        }
    }
}

/// How ports are opened.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// How cards are served.
    pub service: ServiceKind,
    /// Descriptors in each ring of a card.
    pub ring: u16,
    /// Take frames for any station.
    pub promiscuous: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self { service: ServiceKind::default(), ring: 256, promiscuous: true }
    }
}

impl Options {
    fn config(&self) -> Config {
        // A tail write is an exit of a virtual machine, and in QEMU it wakes the main loop: half a ring pays for one.
        // The other half, 128 descriptors of 256, is 86 us of line rate, more than a poll takes to come round.
        let refill = Refill { when: RefillWhen::EachFrame, group: self.ring / 2 };
        Config {
            refill,
            rx_ring: self.ring,
            tx_ring: self.ring,
            service: self.service.service(),
            promiscuous: self.promiscuous,
            // Nobody asks a port for its verdict; what emulates the card would sum every frame for it.
            rx_checksum: false,
            ..Config::kpps()
        }
    }
}

impl Line for Option<Interrupts> {
    fn wait(&mut self, at_most: Duration) -> io::Result<bool> {
        self.as_mut().map_or(Ok(false), |line| line.wait(at_most).map_err(io::Error::other))
    }
    fn enable(&self) -> io::Result<()> {
        self.as_ref().map_or(Ok(()), |line| line.enable().map_err(io::Error::other))
    }
    fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.as_ref().map(AsFd::as_fd)
    }
}

/// A port of any kind.
pub enum AnyPort {
    /// Our driver on a card.
    Card(Box<CardPort<Place, Option<Interrupts>>>),
    /// An interface of the kernel.
    Packet(Box<PacketPort>),
}

/// Opens ports that share one pool of buffers.
///
/// # Errors
/// [`Error`] in one line, with what helps.
pub fn open(specs: &[Spec], options: &Options) -> Result<Vec<AnyPort>, Error> {
    if let Some(twice) = specs.iter().enumerate().find(|(i, spec)| specs[..*i].contains(spec)) {
        return Err(Error::Io {
            what: format!("{} is given twice", twice.1),
            source: io::Error::other("each port is one end of one wire"),
        });
    }
    check_cards(specs)?;
    let per_port = 2 * usize::from(options.ring) + SPARE_BUFFERS / 2;
    let buffers = specs.len() * per_port + SPARE_BUFFERS;
    // Rings and what alignment wastes.
    let bytes = buffers * BUFFER_BYTES + specs.len() * (1 << 18) + (1 << 20);
    let mut backends = specs.iter().filter_map(|spec| match spec {
        Spec::Card(backend, _) => Some(*backend),
        Spec::Packet(_) => None,
    });
    let domain = match backends.next() {
        None => None,
        Some(backend) if backends.all(|other| other == backend) => Some(Domain::new(backend, bytes)?),
        Some(_) => {
            return Err(Error::Io {
                what: "vfio: and uio: ports together".into(),
                source: io::Error::other("cards that exchange frames share memory: bind all to one of them"),
            });
        }
    };
    let memory = match &domain {
        Some(domain) => domain.memory().clone(),
        None => Memory::private(bytes).map_err(Error::io("memory for frames"))?,
    };
    let pool = memory.pool(buffers, BUFFER_BYTES, Some(BOUNDARY)).map_err(|_| Error::Io {
        what: "memory for frames".into(),
        source: io::ErrorKind::OutOfMemory.into(),
    })?;
    specs.iter().map(|spec| open_one(spec, options, domain.as_ref(), pool.clone())).collect()
}

/// Whether the cards are there and ready: said before memory is asked for.
fn check_cards(specs: &[Spec]) -> Result<(), Error> {
    let cards = specs.iter().filter_map(|spec| match spec {
        Spec::Card(backend, address) => Some((*backend, *address)),
        Spec::Packet(_) => None,
    });
    let mut devices = None;
    for (backend, address) in cards {
        let devices = devices.get_or_insert_with(devices::list);
        let device = devices.iter().find(|device| device.address == address);
        let device = device.ok_or(Error::NoDevice(address))?;
        let (vendor, device_id) = (device.vendor, device.device_id);
        if device.chip.is_none() {
            return Err(Error::NotE1000 { address, vendor, device_id });
        }
        if device.backend() != Some(backend) {
            return Err(Error::NotBound { address, driver: device.driver.clone(), backend });
        }
    }
    Ok(())
}

fn open_one(
    spec: &Spec,
    options: &Options,
    domain: Option<&Domain>,
    pool: BufferPool,
) -> Result<AnyPort, Error> {
    match (spec, domain) {
        (Spec::Card(_, address), Some(domain)) => {
            let card = Card::open(domain, *address)?;
            let line = match options.service {
                ServiceKind::Polling => None,
                ServiceKind::Napi | ServiceKind::Kpps => Some(card.interrupts()?),
            };
            let port = CardPort::open(card.platform(), line, card.chip(), options.config(), pool);
            let port = port
                .map_err(|trouble| Error::Io { what: spec.to_string(), source: io::Error::other(trouble) })?;
            Ok(AnyPort::Card(Box::new(port)))
        }
        (Spec::Packet(name), _) => {
            let port = PacketPort::open(name, pool).map_err(|source| packet_error(name, source))?;
            Ok(AnyPort::Packet(Box::new(port)))
        }
        (Spec::Card(backend, _), None) => Err(Error::BadSpec(Backend::name(*backend).into())),
    }
}

fn packet_error(name: &str, source: io::Error) -> Error {
    let source = match source.raw_os_error() {
        Some(libc::ENODEV) => io::Error::other("there is no such interface: `ip -brief link` shows them"),
        Some(libc::EPERM | libc::EACCES) => io::Error::other(
            "no right to open packet sockets: run as root, or `sudo setcap cap_net_raw+ep $(command -v kpps)`",
        ),
        _ => source,
    };
    Error::Io { what: format!("packet:{name}"), source }
}

impl AnyPort {
    /// The chip, if it is a card.
    pub fn chip(&self) -> Option<Chip> {
        match self {
            Self::Card(card) => Some(card.chip()),
            Self::Packet(_) => None,
        }
    }

    /// The station address.
    ///
    /// # Errors
    /// Those of the system.
    pub fn address(&self) -> io::Result<[u8; 6]> {
        match self {
            Self::Card(card) => Ok(card.address()),
            Self::Packet(packet) => packet.address(),
        }
    }
}

/// Does the same with either kind.
macro_rules! either {
    ($self:ident, $port:ident => $what:expr) => {
        match $self {
            AnyPort::Card($port) => $what,
            AnyPort::Packet($port) => $what,
        }
    };
}

impl Wake for AnyPort {
    #[inline]
    fn next(&self) -> Next {
        either!(self, port => port.next())
    }
    fn now_ns(&self) -> u64 {
        either!(self, port => port.now_ns())
    }
    fn fd(&self) -> Option<BorrowedFd<'_>> {
        either!(self, port => port.fd())
    }
    fn wants_to_send(&self) -> bool {
        either!(self, port => port.wants_to_send())
    }
}

impl Port for AnyPort {
    #[inline]
    fn receive(
        &mut self,
        budget: usize,
        sink: impl FnMut(Frame) -> Option<PoolBuffer>,
    ) -> Result<usize, Trouble> {
        either!(self, port => port.receive(budget, sink))
    }
    #[inline]
    fn send(&mut self, frame: Frame) -> Result<(), Frame> {
        either!(self, port => port.send(frame))
    }
    #[inline]
    fn send_burst(&mut self, frames: &mut impl Iterator<Item = Frame>) -> usize {
        either!(self, port => port.send_burst(frames))
    }
    #[inline]
    fn send_again(&mut self, most: usize, write: impl FnMut(&mut PoolBuffer) -> u16) -> usize {
        either!(self, port => port.send_again(most, write))
    }
    #[inline]
    fn flush(&mut self) -> Result<(), Trouble> {
        either!(self, port => port.flush())
    }
    #[inline]
    fn room(&mut self) -> usize {
        either!(self, port => port.room())
    }
    fn in_flight(&mut self) -> usize {
        either!(self, port => port.in_flight())
    }
    fn woken(&mut self) -> Result<(), Trouble> {
        either!(self, port => port.woken())
    }
    fn look_after(&mut self) -> Result<(), Trouble> {
        either!(self, port => port.look_after())
    }
    fn counters(&mut self) -> Result<Counters, Trouble> {
        either!(self, port => port.counters())
    }
    fn frames(&self) -> (u64, u64) {
        either!(self, port => port.frames())
    }
    fn refresh_link(&mut self) -> Result<(), Trouble> {
        either!(self, port => port.refresh_link())
    }
    fn link(&self) -> Link {
        either!(self, port => port.link())
    }
    #[inline]
    fn pool(&mut self) -> &mut BufferPool {
        either!(self, port => port.pool())
    }
}
