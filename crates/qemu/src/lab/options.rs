//! The PC that a guest runs on: CPUs, memory, cards and their cables.

use std::str::FromStr;

/// The first card's slot on the PCI bus. Cards are 0000:00:10.0, 0000:00:11.0, and so on.
pub(super) const FIRST_SLOT: usize = 0x10;

/// A card that QEMU emulates.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Model {
    /// 82540EM.
    E1000,
    /// 82574L.
    E1000e,
}

impl Model {
    /// Both.
    pub const ALL: [Self; 2] = [Self::E1000, Self::E1000e];

    /// QEMU's name for it, which is also that of Linux's driver.
    pub const fn name(self) -> &'static str {
        match self {
            Self::E1000 => "e1000",
            Self::E1000e => "e1000e",
        }
    }
}

impl FromStr for Model {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        let known = Self::ALL.into_iter().find(|model| model.name() == text);
        known.ok_or_else(|| format!("there is no device called '{text}': known are e1000 and e1000e"))
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
    /// Cards: the first is 0000:00:10.0, the next 0000:00:11.0, and so on.
    pub cards: Vec<Card>,
    /// Additional words of the kernel's command line.
    pub append: String,
}

impl Options {
    /// One CPU, 768 MiB, 64 huge pages.
    pub fn new(machine: Machine, cards: Vec<Card>) -> Self {
        Self { machine, vcpus: 1, memory_mib: 768, huge_pages: 64, cards, append: String::new() }
    }

    /// The kernel's command line. On a busy host the kernel considers the CPU's clock unstable and uses
    /// another one, which costs microseconds for each reading and jumps: `tsc=reliable` prevents that.
    /// `no_timer_check` prevents a check of timer interrupts, which may come too late. `iomem=relaxed` lets
    /// `devmem` read registers.
    pub(crate) fn command_line(&self) -> String {
        // Pass-through for the kernel's own drivers: they work as without an IOMMU.
        let iommu = if self.machine == Machine::Iommu { " intel_iommu=on iommu=pt" } else { "" };
        format!(
            "console=ttyS0 quiet panic=-1 mitigations=off ipv6.disable=1 net.ifnames=0 iomem=relaxed tsc=reliable no_timer_check \
             hugepagesz=2M hugepages={}{iommu} {}",
            self.huge_pages, self.append
        )
    }
}

/// The PCI address of the `index`-th card.
pub fn address(index: usize) -> String {
    format!("0000:00:{:02x}.0", FIRST_SLOT + index)
}

/// The station address of the `index`-th card.
pub fn mac(index: usize) -> [u8; 6] {
    [0x52, 0x54, 0, 0, 0, index as u8]
}
