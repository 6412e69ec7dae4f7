//! Worlds drawn at random: everything that a run needs follows from its seed.

use crate::buffers::Layout;
use crate::card::Costs;
use crate::fault::Fault;
use fastrand::Rng;
use kpps_datasheet::Chip;
use kpps_driver::Config;
use kpps_driver::config::{
    Again, Buffers, Completion, Delay, FlowControl, Itr, Moderation, NapiExit, Refill, RefillWhen, RxLow,
    Service,
};
use std::fmt;

/// What the driver's user does with frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Use {
    /// Receives frames.
    Receive,
    /// Sends frames.
    Send,
    /// Sends each received frame back.
    Echo,
    /// A learning bridge between two ports.
    Bridge,
    /// An IPv4 router between two ports.
    Route,
    /// A router with address translation, from port 0 to port 1.
    Nat,
}

impl Use {
    /// All of them.
    pub const ALL: [Self; 6] = [Self::Receive, Self::Send, Self::Echo, Self::Bridge, Self::Route, Self::Nat];

    /// Its name on screens.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Receive => "receive",
            Self::Send => "send",
            Self::Echo => "echo",
            Self::Bridge => "bridge",
            Self::Route => "route",
            Self::Nat => "nat",
        }
    }

    /// How many ports it has.
    pub const fn ports(self) -> usize {
        match self {
            Self::Receive | Self::Send | Self::Echo => 1,
            Self::Bridge | Self::Route | Self::Nat => 2,
        }
    }
}

/// How frames are queued to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Sending {
    /// One at a time.
    Each,
    /// As many as there are in one call.
    Bursts,
    /// In several buffers, and the card inserts checksums.
    Parts,
    /// A sender's own frames in buffers that were just sent.
    Again,
    /// A sender's own frames several at once, which the card separates.
    Segments,
}

impl Sending {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Each, Self::Bursts, Self::Parts, Self::Again, Self::Segments];
}

/// A world: card, driver, use, traffic, faults.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The seed from which all this was drawn.
    pub seed: u64,
    /// The chip of all ports.
    pub chip: Chip,
    /// The driver's configuration.
    pub config: Config,
    /// What it is used for.
    pub usage: Use,
    /// The interrupt is a level that is looked at again, as on PCI; otherwise a message for each rise.
    pub level: bool,
    /// How it sends.
    pub sending: Sending,
    /// Buffers of sent frames go straight back into the receive ring.
    pub returns: bool,
    /// Caches follow what the card writes by themselves.
    pub coherent: bool,
    /// How buffers lie in memory.
    pub layout: Layout,
    /// The bus is PCI-X.
    pub pcix: bool,
    /// Size of a sender's own frames in bytes without FCS.
    pub own_bytes: u16,
    /// Frame sizes in bytes without FCS.
    pub sizes: Vec<u16>,
    /// Frames to each port while faults happen, in each episode.
    pub frames: u64,
    /// Episodes: faults, then quiet, then a check that all frames arrive.
    pub episodes: u32,
    /// At most this many faults happen.
    pub most_faults: u64,
    /// One fault of each kind in this many opportunities; 0: none.
    pub rarity: [u32; Fault::COUNT],
    /// Longest burst at line rate, and the mean time between bursts in ps.
    pub(crate) burst: (u16, u64),
    pub(crate) costs: Costs,
    /// The CPU time for a frame, a call of the driver, and from an interrupt to its handler, in ps.
    pub(crate) frame_ps: u64,
    pub(crate) call_ps: u64,
    pub(crate) interrupt_ps: u64,
}

impl Plan {
    /// The world of this seed. Of the kinds of faults, some are left out, others are more or less frequent.
    pub fn random(seed: u64) -> Self {
        let mut random = Rng::with_seed(seed);
        let chips: Vec<Chip> = Chip::ALL.into_iter().filter(|chip| !chip.is_pci_express()).collect();
        let chip = chips[random.usize(..chips.len())];
        let usage = Use::ALL[random.usize(..Use::ALL.len())];
        let config = loop {
            let config = config(&mut random, usage);
            if config.validate(chip).is_ok() {
                break config;
            }
        };
        let mut rarity = [0; Fault::COUNT];
        // Of all worlds, one in eight has all kinds; the others have each with a probability of their own.
        let share = [8, 1, 2, 3, 4, 5, 6, 7][random.usize(..8)];
        for (&fault, rarity) in Fault::ALL.iter().zip(&mut rarity) {
            if random.u32(..8) < share {
                let times = [1, 1, 2, 5, 20][random.usize(..5)];
                *rarity = fault.rarity() * times;
            }
        }
        let sizes = (0..random.usize(1..4)).map(|_| match random.u8(..3) {
            0 => 60,
            1 => random.u16(60..1515),
            _ => [61, 64, 128, 256, 512, 1024, 1514][random.usize(..7)],
        });
        let sizes: Vec<_> = sizes.collect();
        let plan = Self {
            seed,
            chip,
            config,
            usage,
            sending: Sending::Each,
            returns: false,
            coherent: true,
            layout: Layout::Apart,
            pcix: false,
            own_bytes: 60,
            level: random.bool(),
            sizes,
            frames: random.u64(500..4000),
            episodes: random.u32(2..8),
            most_faults: u64::MAX,
            rarity,
            burst: (1 << random.u8(..8), 1 << random.u8(20..27)),
            costs: Costs {
                read_ps: random.u64(200_000..2_000_000),
                write_ps: random.u64(50_000..300_000),
                burst_ps: random.u64(30_000..200_000),
                byte_ps: random.u64(1_000..4_000),
            },
            frame_ps: random.u64(50_000..2_000_000),
            call_ps: random.u64(50_000..1_000_000),
            interrupt_ps: random.u64(500_000..10_000_000),
        };
        plan.with_memory_and_sizes(&mut random)
    }

    /// How frames lie in memory, and how they are sent. Drawn last, so that all else is as it was before this
    /// was drawn at all.
    fn with_memory_and_sizes(mut self, random: &mut Rng) -> Self {
        self.sending = Sending::ALL[random.usize(..Sending::ALL.len())];
        (self.returns, self.coherent) = (random.bool(), random.bool());
        self.pcix = self.chip.has_pcix() && random.bool();
        // Chips with the erratum cannot receive into buffers across 64 KiB.
        let layouts = if self.usage == Use::Send { 3 } else { 2 };
        self.layout = [Layout::Apart, Layout::Chunks, Layout::Anywhere][random.usize(..layouts)];
        self.own_bytes = self.sizes.first().copied().unwrap_or(60);
        if self.own_bytes == 60 && !matches!(self.sending, Sending::Again | Sending::Segments) {
            self.own_bytes = random.u16(52..=60);
        }
        if random.u8(..3) == 0 {
            self.config.rx_buffer_bytes = [256, 512, 1024][random.usize(..3)];
        }
        if self.usage == Use::Receive && random.bool() {
            self.config.max_frame_bytes = 4022;
            self.sizes.push(random.u16(1515..4000));
        }
        self.config.rx_ring = self.config.rx_ring.max(self.least_rings()[0]);
        self.config.tx_ring = self.config.tx_ring.max(self.least_rings()[1]);
        self
    }

    /// The smallest rings, so that frames of many descriptors keep their pace.
    pub(crate) fn least_rings(&self) -> [u16; 2] {
        let chip = self.chip.min_ring();
        let long = self.config.rx_buffer_bytes < 2048 || self.config.max_frame_bytes > 1522;
        let parts = matches!(self.sending, Sending::Parts | Sending::Segments);
        // On PCI-X its errata may split each buffer into four.
        let splits = self.pcix && self.chip == Chip::I82544;
        let send = if parts {
            64
        } else if splits {
            32
        } else {
            8
        };
        [if long { chip.max(64) } else { chip }, chip.max(send)]
    }

    /// The same world without this kind of fault.
    #[must_use]
    pub(crate) fn without(&self, fault: Fault) -> Self {
        let mut plan = self.clone();
        plan.rarity[fault as usize] = 0;
        plan
    }
}

fn config(random: &mut Rng, usage: Use) -> Config {
    let ring = |random: &mut Rng| [8, 16, 64, 80, 256, 1024][random.usize(..6)];
    let service = match random.u8(..4) {
        0 => Service::InterruptLoop {
            max_loops: random.u16(1..12),
            mask: random.bool(),
            again: if random.bool() { Again::Cause } else { Again::Work },
        },
        1 => {
            let exit = [NapiExit::BothIdle, NapiExit::EitherIdle, NapiExit::ReceiveFirst][random.usize(..3)];
            // With EitherIdle, frames beyond the weight wait for the next interrupt: there it was 64.
            let weight = if exit == NapiExit::EitherIdle { 64 } else { [1, 8, 64, 300][random.usize(..4)] };
            Service::Napi { weight, exit, mask: random.bool() }
        }
        2 => Service::Polling { burst: [1, 8, 32, 256][random.usize(..4)] },
        _ => Service::SelfPacing {
            burst: [4, 32, 64][random.usize(..3)],
            reserve: [0, 0, 10, 50][random.usize(..4)],
            polling_rdtr: [0, 4, 20][random.usize(..3)],
        },
    };
    let report_every = [1, 2, 8, 32][random.usize(..4)];
    let rdtr = [0, 0, 8, 50][random.usize(..4)];
    let itr = match random.u8(..4) {
        0 => Itr::Fixed(random.u32(4_000..100_000)),
        1 => Itr::Dynamic,
        _ => Itr::Off,
    };
    let promiscuous = matches!(usage, Use::Bridge | Use::Echo);
    let pauses = [FlowControl::Off, FlowControl::Off, FlowControl::Receive, FlowControl::Full];
    Config {
        rx_ring: ring(random),
        tx_ring: ring(random),
        rx_copybreak_bytes: [0, 0, 100][random.usize(..3)],
        service,
        buffers: if random.bool() { Buffers::Fresh } else { Buffers::Recycled },
        refill: Refill {
            when: if random.bool() { RefillWhen::EachFrame } else { RefillWhen::AfterBurst },
            group: [0, 1, 4, 32][random.usize(..4)],
            aligned: false,
        },
        completion: Completion {
            report_every,
            delay: [Delay::Never, Delay::Always, Delay::ExceptEvery(8)][random.usize(..3)],
        },
        moderation: Moderation {
            rdtr,
            radv: if rdtr > 0 { 100 } else { 0 },
            tidv: random.u16(1..64),
            tadv: random.u16(1..128),
            itr,
        },
        flush_unmask: random.bool(),
        rx_low: [RxLow::Half, RxLow::Quarter, RxLow::Eighth][random.usize(..3)],
        rx_checksum: random.bool(),
        strip_fcs: random.bool(),
        promiscuous: promiscuous || random.bool(),
        flow_control: pauses[random.usize(..4)],
        ..Config::kpps()
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { seed, chip, config, usage, sending, frames, episodes, .. } = self;
        let Config { rx_ring, tx_ring, rx_buffer_bytes, service, .. } = config;
        let line = if self.level { "level" } else { "messages" };
        let kinds = self.rarity.iter().filter(|rarity| **rarity > 0).count();
        write!(
            f,
            "seed {seed}: {chip}, {}, {service:?}, rings {rx_ring}/{tx_ring}, buffers of {rx_buffer_bytes} bytes, \
             sends {sending:?}, interrupts as {line}, {episodes} episodes of {frames} frames, {kinds} kinds of faults",
            usage.name()
        )
    }
}
