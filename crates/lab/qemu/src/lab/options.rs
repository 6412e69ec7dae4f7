//! The PC that a guest runs on: CPUs, memory, cards and their cables.

use kpps_documents::lab::Clock;
use kpps_frames::rate::Rate;
use std::path::PathBuf;

/// The first slot of paced cards, which have a function each: behind the virtual functions of four igb cards.
const FIRST_PACED_SLOT: usize = 0x1a;

kpps_methods::names! {
    /// A card that QEMU emulates.
    pub enum Model("device") {
        /// 82540EM.
        E1000 = "e1000",
        /// 82574L.
        E1000e = "e1000e",
        /// 82576.
        Igb = "igb",
        /// QEMU's own (Virtio 1.2, 5.1).
        VirtioNet = "virtio-net",
        /// VMware's.
        Vmxnet3 = "vmxnet3",
    }
}

impl Model {
    /// The models that the driver of kpps drives.
    pub const OURS: [Self; 2] = [Self::E1000, Self::E1000e];

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

/// Frames from within the guest's own time: virtio cards that send by a timer (`source`).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Paced {
    /// The hub that they send to.
    pub hub: u8,
    /// Their number.
    cards: u32,
    /// The time in ns from one frame of a card to its next. It is the PC's, cannot be changed later, and QEMU
    /// takes it as a whole number.
    period_ns: u32,
}

/// The rate of a flood in frames per second: one for 83 instructions, more than any driver takes.
const FLOOD_PPS: f64 = 12e6;

/// Slots of a virtio card's queue, and the most cards: three PCI slots with eight functions each.
const QUEUE_SLOTS: f64 = 256.0;
const MOST_CARDS: u32 = 24;
/// How long all queues together are to last.
const RESERVE_S: f64 = 0.02;
/// How long they must last where one PC serves several loads: they are refilled when half of them is used,
/// and that takes the guest's CPU.
const LEAST_RESERVE_S: f64 = 0.002;
/// How far a load may be from the rate of some of the cards, as a share of the load.
const TOLERANCE: f64 = 1e-4;

impl Paced {
    /// Cards for one rate. With more cards, each queue is refilled less often.
    pub fn of(hub: u8, rate: Rate) -> Self {
        let pps = match rate {
            Rate::Max => FLOOD_PPS,
            Rate::Pps(pps) => pps,
        };
        let cards = ((pps * RESERVE_S / QUEUE_SLOTS).ceil() as u32).clamp(1, MOST_CARDS);
        Self { hub, cards, period_ns: (1e9 / pps * f64::from(cards)).round().max(1.0) as u32 }
    }

    /// Cards for these loads, in frames per second: a subset of the cards sends each load. `None` if no
    /// period of at most 24 cards fits all loads.
    pub fn for_loads(hub: u8, loads_pps: &[f64]) -> Option<Self> {
        let most = loads_pps.iter().copied().reduce(f64::max).filter(|most| *most > 0.0)?;
        let lasts_s = |paced: &Self| f64::from(paced.period_ns) * QUEUE_SLOTS / 1e9;
        let does = |cards: u32| {
            let period_ns = (1e9 / most * f64::from(cards)).round();
            let whole = (1.0..=f64::from(u32::MAX)).contains(&period_ns).then_some(period_ns as u32)?;
            let paced = Self { hub, cards, period_ns: whole };
            let is_good = lasts_s(&paced) >= LEAST_RESERVE_S && loads_pps.iter().all(|pps| paced.fits(*pps));
            is_good.then_some(paced)
        };
        // No more cards than necessary: each card is offered the frames of the others. The last candidate has
        // the longest queues.
        let good: Vec<Self> = (1..=MOST_CARDS).filter_map(does).collect();
        good.iter().find(|paced| lasts_s(paced) >= RESERVE_S).or(good.last()).copied()
    }

    /// The subset of the cards whose joint rate comes closest to `rate`.
    pub(crate) fn at(self, rate: Rate) -> Self {
        let Rate::Pps(pps) = rate else { return self };
        let cards = (pps * f64::from(self.period_ns) / 1e9).round() as u32;
        Self { cards: cards.clamp(1, self.cards), ..self }
    }

    /// Whether some of the cards send this load.
    pub(crate) fn fits(self, pps: f64) -> bool {
        (self.at(Rate::Pps(pps)).pps() / pps - 1.0).abs() <= TOLERANCE
    }

    /// Their number.
    pub(crate) fn cards(self) -> u32 {
        self.cards
    }

    /// Frames per second that all of them send.
    pub(crate) fn pps(self) -> f64 {
        1e9 / self.apart_ns()
    }

    /// The time in ns from one frame to the next.
    pub(crate) fn apart_ns(self) -> f64 {
        f64::from(self.period_ns) / f64::from(self.cards)
    }

    /// The time in ns from one frame of a card to its next.
    pub(crate) fn period_ns(self) -> u32 {
        self.period_ns
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
    /// Its clock.
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
        // Random addresses would differ in each boot.
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn one_pc_serves_loads_that_are_multiples_of_one_rate() {
        let loads = [50e3, 150e3, 300e3, 600e3];
        let paced = Paced::for_loads(2, &loads).unwrap();
        assert_eq!((paced.cards, paced.period_ns), (24, 40_000));
        let cards = loads.map(|pps| paced.at(Rate::Pps(pps)).cards);
        assert_eq!(cards, [2, 6, 12, 24]);
        assert!((paced.at(Rate::Pps(50e3)).pps() - 50e3).abs() < 1e-6);
        assert!(loads.iter().all(|pps| paced.fits(*pps)) && !paced.fits(140e3) && !paced.fits(1e6));
        // Shares of a wire's rate. None is a whole number.
        let line = 1e9 / 672.0;
        let shares: Vec<f64> = (1..=20).map(|share| line * f64::from(share) / 20.0).collect();
        let paced = Paced::for_loads(2, &shares).unwrap();
        assert_eq!((paced.cards, paced.period_ns), (20, 13_440));
        // Queues that last 20 ms are long enough.
        let paced = Paced::for_loads(2, &[1000.0, 2000.0]).unwrap();
        assert_eq!((paced.cards, paced.period_ns), (2, 1_000_000));
        assert_eq!(Paced::for_loads(2, &[10e3, 250e3]), None, "that takes 25 cards");
        assert_eq!(Paced::for_loads(2, &[1e6, 1e6 + 1000.0]), None, "two loads that are no multiples");
        assert_eq!(Paced::for_loads(2, &[4e6]), None, "the queues would be empty after 1.5 ms");
        assert_eq!(Paced::for_loads(2, &[]), None);
    }

    #[test]
    fn a_pc_of_one_rate_uses_all_its_cards() {
        for (rate, cards, period_ns) in
            [(Rate::Max, 24, 2000), (Rate::Pps(50e3), 4, 80_000), (Rate::Pps(7e6), 24, 3429)]
        {
            let paced = Paced::of(2, rate);
            assert_eq!((paced.cards, paced.period_ns, paced.at(rate)), (cards, period_ns, paced));
        }
    }
}
