//! The PC that a guest runs on: CPUs, memory, cards and their cables.

use crate::lab::load::Rate;
use kpps_results::lab::Clock;
use std::path::PathBuf;
use std::str::FromStr;

/// The first slot of paced cards, which have a function each: behind the virtual functions of four igb cards.
const FIRST_PACED_SLOT: usize = 0x1a;

/// A card that QEMU emulates.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Model {
    /// 82540EM.
    E1000,
    /// 82574L.
    E1000e,
    /// 82576.
    Igb,
    /// QEMU's own (Virtio 1.2, 5.1).
    VirtioNet,
    /// VMware's.
    Vmxnet3,
}

impl Model {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::E1000, Self::E1000e, Self::Igb, Self::VirtioNet, Self::Vmxnet3];
    /// Those that the driver of kpps drives.
    pub const OURS: [Self; 2] = [Self::E1000, Self::E1000e];

    /// Its name in the lab.
    pub const fn name(self) -> &'static str {
        match self {
            Self::E1000 => "e1000",
            Self::E1000e => "e1000e",
            Self::Igb => "igb",
            Self::VirtioNet => "virtio-net",
            Self::Vmxnet3 => "vmxnet3",
        }
    }

    /// QEMU's name for it.
    pub(crate) const fn device(self) -> &'static str {
        match self {
            Self::VirtioNet => "virtio-net-pci",
            other => other.name(),
        }
    }

    /// Linux's module for it.
    pub const fn module(self) -> &'static str {
        match self {
            Self::VirtioNet => "virtio_net",
            other => other.name(),
        }
    }

    /// Linux's driver for it on the PCI bus.
    pub(crate) const fn pci_driver(self) -> &'static str {
        match self {
            Self::VirtioNet => "virtio-pci",
            other => other.name(),
        }
    }

    /// Whether the driver of kpps drives it.
    pub fn is_ours(self) -> bool {
        Self::OURS.contains(&self)
    }

    /// Whether it counts frames in registers that are where those of the 8254x are (SDM 13.7).
    pub(crate) const fn has_statistics(self) -> bool {
        matches!(self, Self::E1000 | Self::E1000e | Self::Igb)
    }
}

impl FromStr for Model {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        let known = Self::ALL.into_iter().find(|model| model.name() == text);
        known.ok_or_else(|| {
            let names = Self::ALL.map(Self::name).join(", ");
            format!("there is no device called '{text}': known are {names}")
        })
    }
}

/// The other end of a card's cable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cable {
    /// None: sent frames are dropped.
    Open,
    /// A hub of the PC, with all other cards that name it.
    Hub(u8),
    /// The host: a [`Wire`](crate::Wire).
    Host,
}

/// A card of the PC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Card {
    /// Its model.
    pub model: Model,
    /// Its cable.
    pub cable: Cable,
}

/// Whether there is an IOMMU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Machine {
    /// None: for the kernel's drivers and UIO.
    Plain,
    /// Intel's, for VFIO. The kernel's own drivers bypass it.
    Iommu,
}

/// Frames from within the guest's own time: virtio cards that send by a timer ([`source`](super::source)).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Paced {
    /// The hub that they send to.
    pub hub: u8,
    /// Their rate, which is that of the PC: it cannot be changed later.
    pub rate: Rate,
}

/// The rate of a flood in frames per second: one for 83 instructions, more than any driver takes.
const FLOOD_PPS: f64 = 12e6;

/// Places of a virtio card's queue, and the most cards: three slots with eight functions each.
const PLACES: f64 = 256.0;
const MOST: u32 = 24;
/// How long all queues together are to last.
const RESERVE_S: f64 = 0.02;

impl Paced {
    /// The number of cards. With more of them, less often their queues are refilled.
    pub(crate) fn cards(self) -> u32 {
        ((self.pps() * RESERVE_S / PLACES).ceil() as u32).clamp(1, MOST)
    }

    /// Frames per second.
    pub(crate) fn pps(self) -> f64 {
        match self.rate {
            Rate::Flood => FLOOD_PPS,
            Rate::Pps(pps) => pps,
        }
    }

    /// The time in ns from one frame to the next.
    pub(crate) fn apart_ns(self) -> f64 {
        1e9 / self.pps()
    }

    /// The time in ns from one frame of a card to its next, which QEMU takes as a whole number.
    pub(crate) fn period_ns(self) -> u32 {
        (self.apart_ns() * f64::from(self.cards())).round().max(1.0) as u32
    }

    /// The PCI address of the `index`-th card.
    pub(crate) fn slot(index: u32) -> (usize, u32) {
        (FIRST_PACED_SLOT + index as usize / 8, index % 8)
    }
}

/// A PC to boot.
#[derive(Clone, Debug)]
pub struct Options {
    /// Whether there is an IOMMU.
    pub machine: Machine,
    /// CPUs.
    pub vcpus: u8,
    /// Memory in MiB.
    pub memory_mib: u32,
    /// Huge pages of 2 MiB each, which are part of the memory.
    pub huge_pages: u32,
    /// Cards: the first is 0000:00:02.0, the next 0000:00:04.0, and so on.
    pub cards: Vec<Card>,
    /// Sockets of cards that are served by vfio-user, after the others. They need a QEMU that can.
    pub served: Vec<PathBuf>,
    /// The folder of a QEMU to use in place of the host's ([`newer`](super::newer)).
    pub qemu: Option<PathBuf>,
    /// Where frames come from within the guest's time, if they do.
    pub paced: Option<Paced>,
    /// What its time is.
    pub clock: Clock,
    /// Additional words of the kernel's command line.
    pub append: String,
}

impl Options {
    /// One CPU, 768 MiB, 64 huge pages, real time.
    pub fn new(machine: Machine, cards: Vec<Card>) -> Self {
        Self {
            machine,
            vcpus: 1,
            memory_mib: 768,
            huge_pages: 64,
            cards,
            served: Vec::new(),
            qemu: None,
            paced: None,
            clock: Clock::Wall,
            append: String::new(),
        }
    }

    /// The kernel's command line. On a busy host the kernel considers the CPU's clock unstable and uses
    /// another one, which costs microseconds for each reading and jumps: `tsc=reliable` prevents that.
    /// `no_timer_check` prevents a check of timer interrupts, which may come too late. `iomem=relaxed` lets
    /// `devmem` read registers.
    pub(crate) fn command_line(&self) -> String {
        // Pass-through for the kernel's own drivers: they work as without an IOMMU.
        let iommu = if self.machine == Machine::Iommu { " intel_iommu=on iommu=pt" } else { "" };
        // What is random would be so in each boot.
        let fixed = if self.clock == Clock::Instructions { " nokaslr norandmaps" } else { "" };
        format!(
            "console=ttyS0 quiet panic=-1 mitigations=off ipv6.disable=1 net.ifnames=0 iomem=relaxed tsc=reliable no_timer_check \
             hugepagesz=2M hugepages={}{iommu}{fixed} {}",
            self.huge_pages, self.append
        )
    }
}

/// The `index`-th card's slot on the PCI bus. The virtual functions of an igb take two slots, 16 further on.
pub(super) const fn slot(index: usize) -> usize {
    2 + 2 * index
}

/// The PCI address of the `index`-th card.
pub fn address(index: usize) -> String {
    address_of(slot(index), 0)
}

/// The PCI address of a slot's function.
pub(crate) fn address_of(slot: usize, function: u32) -> String {
    format!("0000:00:{slot:02x}.{function}")
}

/// The station address of the `index`-th card.
pub fn mac(index: usize) -> [u8; 6] {
    [0x52, 0x54, 0, 0, 0, index as u8]
}
