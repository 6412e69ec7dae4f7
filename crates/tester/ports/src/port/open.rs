//! Opening ports by their names.

use super::any::{AnyPort, BUFFER_BYTES, Options, RING, SPARE_BUFFERS, ServiceKind};
use super::attached::{HEADER, VLAN};
use super::card::{CardPort, Line};
use super::choice::{CHUNK_BYTES, XDP_CAPABILITIES, choose, refused};
use super::run::BUDGET;
use super::{CoresPort, DpdkPort, JUMBO_BUFFER_BYTES, PacketPort, UdpPort, XdpPort, dpdk, xdp};
use crate::{Error, Spec};
use kpps_driver::Chip;
use kpps_driver::config::{Config, NapiExit, Refill, RefillWhen, Service};
use kpps_linux::{Backend, Card, Domain, Error as SystemError, Interface, Interrupts, devices};
use kpps_platform::OutOfMemory;
use kpps_platform::memory::{BufferPool, Memory};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

/// Capabilities that packet sockets need, as `setcap` writes them.
const PACKET_CAPABILITIES: &str = "cap_net_raw";
/// Bytes of a chunk for a card and `AF_XDP`: the card's buffer and the headroom before it.
const CARD_CHUNK_BYTES: usize = 4096;
/// The boundary that no buffer may cross: an erratum of the 82545 and 82546.
const BOUNDARY: u64 = 1 << 16;

impl ServiceKind {
    /// The driver's service.
    fn service(self) -> Service {
        match self {
            Self::Polling => Service::Polling { burst: BUDGET as u16 },
            Self::Napi => Service::Napi { weight: 64, exit: NapiExit::BothIdle, mask: true },
            // RDTR other than 0 was not tried on silicon: public drivers warn that it may hang a card
            // (e1000.rst, RxIntDelay).
            Self::Kpps => Service::SelfPacing { burst: BUDGET as u16, reserve: 0, polling_rdtr: 0 },
        }
    }
}

impl Options {
    /// The driver's configuration, with rings of at most `most` descriptors by default.
    fn config(&self, chip: Chip, most: u16) -> Config {
        let ring = self.ring.unwrap_or(most.min(chip.max_ring()));
        // A tail write is an exit of a virtual machine, and in QEMU it wakes the main loop: half a ring makes
        // up for one.
        let refill = Refill { when: RefillWhen::EachFrame, group: ring / 2, aligned: false };
        Config {
            refill,
            rx_ring: ring,
            tx_ring: ring,
            service: self.service.service(),
            promiscuous: self.promiscuous,
            // A port does not report checksums; an emulated card would compute one for each frame.
            rx_checksum: false,
            ..Config::kpps()
        }
    }

    /// Checks that `chip` can have such rings.
    fn check_ring(&self, chip: Chip) -> Result<(), Error> {
        let suits = |ring: &u16| {
            let options = Self { ring: Some(*ring), ..*self };
            options.config(chip, RING).validate(chip).is_ok()
        };
        let Some(ring) = self.ring.filter(|ring| !suits(ring)) else { return Ok(()) };
        let mut all = (1..=chip.max_ring()).filter(suits);
        match (all.next(), all.next_back()) {
            (Some(least), Some(most)) => Err(Error::Ring { ring, chip, least, most }),
            // Not because of the rings: the driver reports the cause.
            _ => Ok(()),
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

/// How buffers lie in memory.
#[derive(Clone, Copy)]
enum Layout {
    /// One after the other, of this many bytes.
    Buffers(usize),
    /// At the ends of chunks of this many bytes.
    Chunks(usize),
}

/// Whether frames of a port may be longer than an ordinary buffer: its interface has such an MTU, or the path
/// of a UDP socket may have one.
fn takes_jumbo(spec: &Spec) -> bool {
    match spec {
        // Opening the port reports the error.
        Spec::Packet(name) => Interface::find(name)
            .and_then(|interface| interface.mtu())
            .is_ok_and(|mtu| mtu + HEADER + VLAN > BUFFER_BYTES),
        Spec::Udp { .. } => true,
        _ => false,
    }
}

impl Layout {
    fn of(specs: &[Spec]) -> Self {
        let any = |kind: fn(&Spec) -> bool| specs.iter().any(kind);
        match any(|spec| matches!(spec, Spec::Xdp { .. })) {
            false => {
                Self::Buffers(if specs.iter().any(takes_jumbo) { JUMBO_BUFFER_BYTES } else { BUFFER_BYTES })
            }
            true if any(|spec| matches!(spec, Spec::Card(..))) => Self::Chunks(CARD_CHUNK_BYTES),
            true => Self::Chunks(CHUNK_BYTES),
        }
    }
    fn bytes(self) -> usize {
        match self {
            Self::Buffers(bytes) | Self::Chunks(bytes) => bytes,
        }
    }
    fn pool(self, memory: &Memory, count: usize) -> Result<BufferPool, OutOfMemory> {
        match self {
            Self::Buffers(bytes) => memory.pool(count, bytes, Some(BOUNDARY)),
            Self::Chunks(bytes) => memory.chunks(count, bytes, xdp::HEADROOM),
        }
    }
}

/// Opens ports that share one pool of buffers.
///
/// # Errors
/// [`Error`], in one line with the remedy.
pub fn open(specs: &[Spec], options: &Options) -> Result<Vec<AnyPort>, Error> {
    let is_again = |(i, spec): &(usize, &Spec)| specs[..*i].iter().any(|other| other.overlaps(spec));
    if let Some((_, twice)) = specs.iter().enumerate().find(is_again) {
        let why = io::Error::other("a port is one end of one link: give different ports");
        return Err(Error::io(format!("{twice} is given twice"))(why));
    }
    let specs = &specs.iter().map(|spec| Ok(choose(spec)?.0)).collect::<Result<Vec<_>, Error>>()?[..];
    if let Some(spec) = specs.iter().find(|spec| options.cores > 1 && !can_share(spec)) {
        return Err(Error::OneCore(spec.to_string()));
    }
    let chips = check_cards(specs, options)?;
    if let Some(spec) = specs.first().filter(|_| options.ring.is_some() && chips.is_empty()) {
        return Err(Error::NoRing(spec.to_string()));
    }
    let possible = |most| chips.iter().all(|&chip| options.config(chip, most).validate(chip).is_ok());
    let mut most = RING;
    loop {
        match open_all(specs, options, most) {
            // By default a user may lock 8 MiB.
            Err(Error::System(SystemError::LockedMemory(_)))
                if options.ring.is_none() && possible(most / 2) =>
            {
                most /= 2;
            }
            Err(Error::System(SystemError::LockedMemory(bytes)))
                if options.ring > Some(Config::kpps().rx_ring) =>
            {
                return Err(Error::LockedMemory { bytes, smaller: Config::kpps().rx_ring });
            }
            other => return other,
        }
    }
}

/// Whether a port can have several cores.
fn can_share(spec: &Spec) -> bool {
    matches!(spec, Spec::Packet(_) | Spec::Xdp { queue: None, .. } | Spec::Dpdk(_))
}

/// Opens ports, with rings of at most `most` descriptors by default.
fn open_all(specs: &[Spec], options: &Options, most: u16) -> Result<Vec<AnyPort>, Error> {
    let in_rings = specs.iter().map(|spec| match spec {
        Spec::Card(..) => 2 * usize::from(options.ring.unwrap_or(most)),
        Spec::Xdp { interface, queue } => xdp::buffers(interface, *queue, options.cores),
        _ => 0,
    });
    let buffers = in_rings.sum::<usize>() + specs.len() * options.cores * SPARE_BUFFERS / 2 + SPARE_BUFFERS;
    let layout = Layout::of(specs);
    // Room for rings, and for alignment.
    let bytes = buffers * layout.bytes() + specs.len() * (1 << 18) + (2 << 20);
    let mut backends = specs.iter().filter_map(|spec| match spec {
        Spec::Card(backend, _) => Some(*backend),
        _ => None,
    });
    let domain = match backends.next() {
        None => None,
        Some(backend) if backends.all(|other| other == backend) => Some(Domain::new(backend, bytes)?),
        Some(_) => {
            let why = "cards that exchange frames share memory: bind all to vfio or all to uio";
            return Err(Error::io("vfio: and uio: ports together")(io::Error::other(why)));
        }
    };
    let memory = match &domain {
        Some(domain) => domain.memory().clone(),
        None => Memory::private(bytes).map_err(Error::io("memory for frames"))?,
    };
    let no_memory = |_| Error::io("memory for frames")(io::ErrorKind::OutOfMemory.into());
    let pool = layout.pool(&memory, buffers).map_err(no_memory)?;
    let supplies =
        Supplies { domain: domain.as_ref(), memory: &memory, chunk: layout.bytes(), pool: &pool, most };
    specs.iter().map(|spec| open_one(spec, options, &supplies)).collect()
}

/// Checks that the cards exist, are bound and can do what is asked, before memory is allocated. Returns their
/// chips.
fn check_cards(specs: &[Spec], options: &Options) -> Result<Vec<Chip>, Error> {
    let cards = specs.iter().filter_map(|spec| match spec {
        Spec::Card(backend, address) => Some((*backend, *address)),
        _ => None,
    });
    let mut devices = None;
    let mut chips = Vec::new();
    for (backend, address) in cards {
        let devices = devices.get_or_insert_with(devices::list);
        let device = devices.iter().find(|device| device.address == address);
        let device = device.ok_or(SystemError::NoDevice(address))?;
        let chip = device.e1000()?;
        if device.backend() != Some(backend) {
            return Err(SystemError::NotBound { address, driver: device.driver.clone(), backend }.into());
        }
        options.check_ring(chip)?;
        chips.push(chip);
    }
    Ok(chips)
}

/// The resources that all ports share when they are opened.
struct Supplies<'s> {
    domain: Option<&'s Domain>,
    memory: &'s Memory,
    chunk: usize,
    pool: &'s BufferPool,
    most: u16,
}

fn open_one(spec: &Spec, options: &Options, supplies: &Supplies<'_>) -> Result<AnyPort, Error> {
    let pool = supplies.pool.clone();
    match (spec, supplies.domain) {
        (Spec::Card(_, address), Some(domain)) => {
            let card = Card::open(domain, *address)?;
            let line = match options.service {
                ServiceKind::Polling => None,
                ServiceKind::Napi | ServiceKind::Kpps => Some(card.interrupts()?),
            };
            let config = options.config(card.chip(), supplies.most);
            let port = CardPort::open(card.platform(), line, card.chip(), config, pool);
            let port = port.map_err(|trouble| Error::io(spec.to_string())(io::Error::other(trouble)))?;
            Ok(AnyPort::Card(Box::new(port)))
        }
        (Spec::Packet(name), _) if options.cores > 1 => {
            let ports = PacketPort::open_shared(name, options.cores, &pool).and_then(CoresPort::of);
            let ports = ports.map_err(refused(spec, PACKET_CAPABILITIES))?;
            Ok(AnyPort::PacketCores(Box::new(ports)))
        }
        (Spec::Xdp { interface, .. }, _) if options.cores > 1 => {
            let Supplies { memory, chunk, .. } = supplies;
            let ports = XdpPort::open_shared(interface, options.cores, memory, *chunk, &pool);
            let ports = ports.and_then(CoresPort::of).map_err(refused(spec, XDP_CAPABILITIES))?;
            Ok(AnyPort::XdpCores(Box::new(ports)))
        }
        (Spec::Packet(name), _) => {
            let port = PacketPort::open(name, pool).map_err(refused(spec, PACKET_CAPABILITIES))?;
            Ok(AnyPort::Packet(Box::new(port)))
        }
        (Spec::Xdp { interface, queue }, _) => {
            let port = XdpPort::open(interface, *queue, supplies.memory, supplies.chunk, pool);
            Ok(AnyPort::Xdp(Box::new(port.map_err(refused(spec, XDP_CAPABILITIES))?)))
        }
        (Spec::Udp { host, port }, _) => {
            let port = UdpPort::open(host, *port, pool).map_err(Error::io(spec.to_string()))?;
            Ok(AnyPort::Udp(Box::new(port)))
        }
        (Spec::Dpdk(device), _) => {
            let ports = DpdkPort::open(spec, options.cores, options.promiscuous, &pool);
            let mut ports = ports.map_err(|why| match why {
                dpdk::Refused::Dpdk(why @ kpps_dpdk::Error::Device { .. }) => Error::Dpdk(why.to_string()),
                dpdk::Refused::Dpdk(why) => Error::Dpdk(format!("{device}: {why}")),
                dpdk::Refused::System(why) => refused(spec, "")(why),
            })?;
            match ports.pop() {
                Some(port) if ports.is_empty() => Ok(AnyPort::Dpdk(Box::new(port))),
                last => {
                    let ports = CoresPort::of(ports.into_iter().chain(last).collect());
                    Ok(AnyPort::DpdkCores(Box::new(ports.map_err(refused(spec, ""))?)))
                }
            }
        }
        (Spec::Auto(_), _) => Err(Error::BadSpec(spec.to_string())),
        (Spec::Card(backend, _), None) => Err(Error::BadSpec(Backend::name(*backend).into())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rings_that_no_chip_can_have_are_refused_with_those_it_can() {
        for chip in Chip::ALL {
            let of = |ring| Options { ring, ..Options::default() };
            let check = |ring| of(Some(ring)).check_ring(chip);
            assert!(of(None).check_ring(chip).is_ok());
            assert!(of(None).config(chip, RING).validate(chip).is_ok());
            for wrong in [0, 1, 8, chip.max_ring() - 4, chip.max_ring() + 8, u16::MAX] {
                let Err(Error::Ring { ring, least, most, .. }) = check(wrong) else {
                    panic!("{chip} {wrong}")
                };
                assert_eq!((ring, most), (wrong, chip.max_ring()));
                assert!(check(least).is_ok() && check(least - 8).is_err() && check(most).is_ok());
                assert!((least..=most).step_by(8).all(|ring| check(ring).is_ok()));
            }
        }
    }
}
