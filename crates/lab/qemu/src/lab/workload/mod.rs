//! Workloads of a guest: a driver with a kind of work, observed while it runs.

mod card;
mod dpdk;
mod kpps;
mod linux;
mod settings;

pub(crate) use card::{PBA, Register};
pub use settings::{Setting, Settings};

use crate::lab::counters::Snapshot;
use crate::lab::options::{self, Cable, Card, Paced, address};
use crate::lab::{Clock, Error, Guest, Machine, Model, Options, Result};
use kpps_frames::build::{Flow, udp_test};
use kpps_frames::rate::Rate;
use kpps_frames::{Mac, Size};
use std::collections::BTreeMap;

kpps_methods::names! {
    /// A driver.
    pub enum Driver("driver") {
        /// kpps.
        Kpps = "kpps",
        /// The kernel's own.
        Linux = "linux",
        /// testpmd's.
        Dpdk = "dpdk",
    }
}

kpps_methods::names! {
    /// How a driver accesses its card.
    pub enum Backend("backend") {
        /// From user space, by physical addresses.
        Uio = "uio",
        /// From user space, through the IOMMU.
        Vfio = "vfio",
        /// From inside the kernel.
        Kernel = "kernel",
    }
}

kpps_methods::names! {
    /// The work of a driver with the cards.
    pub enum Work("workload") {
        /// Send as fast as possible, over an open cable.
        Transmit = "transmit",
        /// Receive the host's frames, and drop them as early as possible.
        Receive = "receive",
        /// Forward frames between two cards on one hub, in a circle.
        Loop = "loop",
        /// Forward the host's frames from one card to another. Linux routes them.
        Forward = "forward",
        /// As forward, but as a learning bridge.
        Bridge = "bridge",
    }
}

impl Work {
    /// All of them, as they are named on the command line.
    pub const NAMES: &str = "transmit,receive,loop,forward,bridge";

    /// Whether the host sends.
    pub const fn is_loaded(self) -> bool {
        matches!(self, Self::Receive | Self::Forward | Self::Bridge)
    }
}

impl Backend {
    /// One by which user space reaches a card.
    ///
    /// # Errors
    /// A name that is of none.
    pub fn of_user_space(text: &str) -> std::result::Result<Self, String> {
        match text.parse() {
            Ok(Self::Kernel) => {
                Err("kernel is the backend of the driver linux only: give uio or vfio".into())
            }
            other => other,
        }
    }

    /// The PC that it needs.
    pub const fn machine(self) -> Machine {
        match self {
            Self::Vfio => Machine::Iommu,
            Self::Uio | Self::Kernel => Machine::Plain,
        }
    }
}

/// The card with an open cable: for transmit, and the output of forward and bridge.
pub const OPEN: usize = 0;
/// The two cards on one hub.
pub const PAIR: [usize; 2] = [1, 2];
/// The card that frames are offered to: with a cable to the host, or on a hub with the source.
pub const LOADED: usize = 3;
/// Cards of the PC.
const CARDS: usize = 4;
/// The hub of the source.
pub const SOURCE_HUB: u8 = 2;

/// The PC for all workloads: its cards and, on the clock of instructions, a source of frames at this rate.
pub fn pc(machine: Machine, model: Model, clock: Clock, rate: Rate) -> Options {
    pc_with(machine, model, (clock == Clock::Instructions).then(|| Paced::of(SOURCE_HUB, rate)))
}

/// The same on the clock of instructions with this source, or on the wall clock without one.
pub fn pc_with(machine: Machine, model: Model, paced: Option<Paced>) -> Options {
    let clock = if paced.is_some() { Clock::Instructions } else { Clock::Wall };
    let offered = if paced.is_some() { Cable::Hub(SOURCE_HUB) } else { Cable::Host };
    let cables: [Cable; CARDS] = [Cable::Open, Cable::Hub(1), Cable::Hub(1), offered];
    let cards = cables.map(|cable| Card { model, cable });
    Options { clock, paced, ..Options::new(machine, cards.into()) }
}

/// The frame that the host sends for a workload, without FCS. A bridge gets frames for a station behind it;
/// all others get frames for their own card.
///
/// # Errors
/// If no frame of this size can be built.
pub fn frame(work: Work, size: Size) -> Result<Vec<u8>> {
    let mac = if work == Work::Bridge { Flow::default().to_mac } else { Mac(options::mac(LOADED)) };
    udp_test(&Flow { to_mac: mac, ..Flow::default() }, size).map_err(|e| Error::Input(e.to_string()))
}

/// A running workload.
pub trait Running {
    /// A command that prints what [`frames`](Self::frames) reads.
    fn counter(&self) -> String;
    /// The frames processed so far, with the time in ns if the program has a better clock than the one it was
    /// asked by.
    ///
    /// # Errors
    /// If the text is not valid.
    fn frames(&self, snapshot: &Snapshot) -> Result<Count>;
    /// Frames lost so far, by place.
    ///
    /// # Errors
    /// If the guest does not answer.
    fn drops(&self, guest: &mut Guest) -> Result<BTreeMap<String, u64>>;
    /// Frames that the card has stored in memory since the start, by its own count. Called once, after the
    /// last frame; of no meaning without a load.
    ///
    /// # Errors
    /// If the guest does not answer.
    fn stored(&self, guest: &mut Guest) -> Result<u64>;
    /// Ends the workload. Returns the losses, by place.
    ///
    /// # Errors
    /// If it does not end.
    fn finish(self: Box<Self>, guest: &mut Guest) -> Result<BTreeMap<String, u64>>;
}

/// The progress of a workload.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Count {
    /// The time in ns of any clock.
    pub at_ns: u64,
    /// Frames processed: sent, received, or forwarded in both directions.
    pub frames: u64,
}

/// Whether a combination exists: testpmd is no bridge, Linux has no loop, and kpps no driver for some cards.
pub fn exists(model: Model, driver: Driver, backend: Backend, work: Work) -> bool {
    match (driver, backend) {
        (Driver::Linux, Backend::Kernel) => !matches!(work, Work::Loop),
        (Driver::Linux, _) | (_, Backend::Kernel) => false,
        (Driver::Dpdk, _) => !matches!(work, Work::Bridge),
        (Driver::Kpps, _) => model.is_ours(),
    }
}

/// Starts `driver` with `work` in a guest with the [PC](pc) for it.
///
/// # Errors
/// If it does not start, or the combination does not exist (see [`exists`]).
pub fn start(
    guest: &mut Guest,
    model: Model,
    driver: Driver,
    backend: Backend,
    work: Work,
    settings: &Settings,
) -> Result<Box<dyn Running>> {
    if !exists(model, driver, backend, work) {
        let [card, driver, backend, work] = [model.name(), driver.name(), backend.name(), work.name()];
        return Err(Error::Input(format!("{driver} cannot do {work} on {card} through {backend}")));
    }
    match driver {
        Driver::Linux => linux::start(guest, model, work, settings),
        Driver::Dpdk => dpdk::start(guest, model, backend, work, settings.dpdk_ring()),
        Driver::Kpps => kpps::start(guest, backend, work, settings.kpps_ring()),
    }
}

/// The cards that take part in a workload.
fn involved(work: Work) -> Vec<usize> {
    match work {
        Work::Transmit => vec![OPEN],
        Work::Receive => vec![LOADED],
        Work::Loop => PAIR.into(),
        Work::Forward | Work::Bridge => vec![LOADED, OPEN],
    }
}

/// Loads the modules of a backend.
///
/// # Errors
/// If the kernel does not have them.
pub fn load_backend(guest: &mut Guest, backend: Backend) -> Result<()> {
    match backend {
        Backend::Uio => guest.load("uio_pci_generic", ""),
        Backend::Vfio => {
            // Part of vfio in later kernels.
            if guest.kernel().has("vfio_virqfd") {
                guest.load("vfio_virqfd", "")?;
            }
            // The emulated IOMMU does not remap interrupts.
            guest.load("vfio_iommu_type1", "allow_unsafe_interrupts=1")?;
            guest.load("vfio_pci", "")
        }
        Backend::Kernel => Ok(()),
    }
}

/// Binds the `index`-th card to the kernel driver `driver` of the PCI bus ("e1000", "uio_pci_generic",
/// "vfio-pci"), if it is not.
///
/// # Errors
/// If that driver does not take it.
pub fn bind(guest: &mut Guest, index: usize, driver: &str) -> Result<()> {
    let address = address(index);
    let device = format!("/sys/bus/pci/devices/{address}");
    let command = format!(
        "now=$(readlink {device}/driver); now=${{now##*/}}; \
         if [ \"$now\" != {driver} ]; then \
         if [ -n \"$now\" ]; then echo {address} > {device}/driver/unbind; fi; \
         echo {driver} > {device}/driver_override; echo {address} > /sys/bus/pci/drivers_probe; \
         now=$(readlink {device}/driver); [ \"${{now##*/}}\" = {driver} ]; fi"
    );
    guest.run(&command).map(drop).map_err(|error| match error {
        Error::Command { output, .. } => {
            Error::Input(format!("the driver {driver} does not take the card {address}: {output}"))
        }
        other => other,
    })
}

/// The kernel driver that makes a card available to a program.
fn stand_in(backend: Backend) -> &'static str {
    match backend {
        Backend::Vfio => "vfio-pci",
        Backend::Uio | Backend::Kernel => "uio_pci_generic",
    }
}
