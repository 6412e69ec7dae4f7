//! Worlds drawn at random: everything that a run needs follows from its seed.

use crate::fault::Fault;
use crate::host::{Costs, Layout};
use fastrand::Rng;
use kpps_datasheet::{Chip, Erratum};
use kpps_driver::Config;
use kpps_driver::config::{
    Again, Buffers, Completion, Delay, FlowControl, Itr, Moderation, NapiExit, Refill, RefillWhen, RxLow,
    Service,
};
use kpps_frames::ethernet::VLAN_BYTES;
use kpps_host::MS;
use std::fmt;

/// Buffers for each port; few, which suffice for small rings.
const BUFFERS: usize = 2200;
const FEW_BUFFERS: usize = 480;
/// Without interrupts, as many frames of a proof may come for a port between two of its polls: one each
/// 100 µs, in a pause of 200 µs and in one of the port that they come from.
const BETWEEN_POLLS: u16 = 6;
/// As many frames of a proof may come for a port in 2 ms: a port was seen without an interrupt, or without a
/// poll, for 0.9 ms, while its watchdog looked.
const IN_A_PAUSE: u16 = 22;
pub(crate) const SMALL_RING: u16 = 128;

/// The user's way to handle frames.
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
    /// An end station: the stack smoltcp.
    Station,
}

impl Use {
    /// All of them.
    pub const ALL: [Self; 7] =
        [Self::Receive, Self::Send, Self::Echo, Self::Bridge, Self::Route, Self::Nat, Self::Station];

    /// Its name on screens.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Receive => "receive",
            Self::Send => "send",
            Self::Echo => "echo",
            Self::Bridge => "bridge",
            Self::Route => "route",
            Self::Nat => "nat",
            Self::Station => "station",
        }
    }

    /// How many ports it has.
    pub const fn ports(self) -> usize {
        match self {
            Self::Receive | Self::Send | Self::Echo | Self::Station => 1,
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
pub struct WorldPlan {
    /// The seed from which all this was drawn.
    pub seed: u64,
    /// The chip of all ports.
    pub chip: Chip,
    /// The driver's configuration.
    pub config: Config,
    /// The driver's use.
    pub usage: Use,
    /// The interrupt is a level that is sampled again, as on PCI; otherwise a message for each rise.
    pub level: bool,
    /// How it sends.
    pub sending: Sending,
    /// Buffers of sent frames go straight back into the receive ring.
    pub returns: bool,
    /// Caches are coherent with the card's writes.
    pub coherent: bool,
    /// How buffers lie in memory.
    pub layout: Layout,
    /// Rings are never larger than [`SMALL_RING`].
    pub(crate) small_rings: bool,
    /// Buffers for each port.
    pub buffers: usize,
    /// Two of three frames have a VLAN tag.
    pub tagged: bool,
    /// The card stores frames with a wrong FCS, though its registers do not ask for that.
    pub stores_bad: bool,
    /// Some frames go to a multicast address, which the driver is configured to receive.
    pub groups: bool,
    /// The time of autonegotiation, in ps.
    pub(crate) link_ps: u64,
    /// The highest speed that link partners offer at first, in Mb/s.
    pub speed_mbps: u16,
    /// All ports share one interrupt line.
    pub shares_line: bool,
    /// Self-pacing drivers sleep while only sent frames are outstanding.
    pub sleeps: bool,
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

impl WorldPlan {
    /// The world of this seed. Of the kinds of faults, some are left out, others are more or less frequent.
    pub fn random(seed: u64) -> Self {
        let mut random = Rng::with_seed(seed);
        let chip = Chip::PCI[random.usize(..Chip::PCI.len())];
        let usage = Use::ALL[random.usize(..6)];
        let config = loop {
            let config = config(&mut random, usage);
            if config.validate(chip).is_ok() {
                break config;
            }
        };
        let mut rarity = [0; Fault::COUNT];
        // One world in eight has all kinds. The others have each kind with a probability of their own.
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
            buffers: BUFFERS,
            small_rings: false,
            tagged: false,
            stores_bad: false,
            groups: false,
            link_ps: 0,
            speed_mbps: 1000,
            shares_line: false,
            sleeps: false,
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
                miss_ps: 0,
                uneven: false,
            },
            frame_ps: random.u64(50_000..2_000_000),
            call_ps: random.u64(50_000..1_000_000),
            interrupt_ps: random.u64(500_000..10_000_000),
        };
        plan.with_memory_and_sizes(&mut random)
            .with_kinds_of_frames(&mut random)
            .with_links_and_costs(&mut random)
    }

    /// The layout of frames in memory, and how they are sent. Later additions are drawn last, so that the
    /// rest of a world stays as it was before.
    fn with_memory_and_sizes(mut self, random: &mut Rng) -> Self {
        self.sending = Sending::ALL[random.usize(..Sending::ALL.len())];
        (self.returns, self.coherent) = (random.bool(), random.bool());
        self.pcix = self.chip.has_pcix() && random.bool();
        self.layout = [Layout::Apart, Layout::Chunks, Layout::Anywhere][random.usize(..3)];
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
        self
    }

    /// Large frames, frames with tags, frames to groups, frames of the greatest length, and frames that just
    /// fill a buffer.
    fn with_kinds_of_frames(mut self, random: &mut Rng) -> Self {
        let only_here = matches!(self.usage, Use::Receive | Use::Echo);
        if random.u8(..8) == 0 {
            self.layout = Layout::Large;
            self.config.rx_buffer_bytes = [2048, 4096, 8192, 16384][random.usize(..4)];
            if only_here {
                self.config.max_frame_bytes = [4022, 9018, 16110][random.usize(..3)];
                self.sizes.push(random.u16(1515..4000));
            }
        }
        let least = self.least_rings();
        self.config.rx_ring = self.config.rx_ring.max(least[0]);
        self.config.tx_ring = self.config.tx_ring.max(least[1]);
        self.small_rings = self.config.rx_ring.max(self.config.tx_ring) <= SMALL_RING;
        if self.layout == Layout::Large || self.small_rings && random.bool() {
            // Pools of fewer than 512 have no stacks.
            (self.buffers, self.small_rings) = (FEW_BUFFERS, true);
            self.config.rx_ring = self.config.rx_ring.min(SMALL_RING);
            self.config.tx_ring = self.config.tx_ring.min(SMALL_RING);
        } else {
            self.small_rings = false;
        }
        self.tagged = self.chip.has_vlan() && random.u8(..3) == 0 && (only_here || self.usage == Use::Send);
        self.config.vlan = self.tagged && (self.usage == Use::Send || random.u8(..3) > 0);
        self.stores_bad = random.bool();
        self.groups = self.usage == Use::Receive && random.bool();
        self.config.rx_fifo_kb = [None, None, Some(40)][random.usize(..3)];
        let (config, strips) = (&self.config, self.config.strip_fcs && self.chip.has_fcs_strip());
        let tag = if self.tagged { VLAN_BYTES as u16 } else { 0 };
        // Without FCS; a router's frames may be no longer.
        let longest = match self.usage {
            Use::Receive | Use::Echo => config.max_frame_bytes - 4 - tag,
            _ => 1514,
        };
        if random.bool() {
            self.sizes.push(longest);
        }
        if random.bool() {
            let edges = longest / config.rx_buffer_bytes;
            let edge = config.rx_buffer_bytes * random.u16(1..=edges.max(1));
            let stored = edge + random.u16(..8) - 5 - if strips { 0 } else { 4 };
            self.sizes.push((stored - if self.config.vlan { 0 } else { tag }).clamp(60, longest));
        }
        if config.rx_copybreak_bytes > 0 && random.bool() {
            self.sizes.push(config.rx_copybreak_bytes + random.u16(..2));
        }
        self
    }

    /// Slow links, slow and fast machines, shared interrupts.
    fn with_links_and_costs(mut self, random: &mut Rng) -> Self {
        self.link_ps = [20 * MS, 100 * MS, 1500 * MS][random.usize(..3)];
        self.speed_mbps = [1000, 1000, 1000, 1000, 100, 10][random.usize(..6)];
        self.shares_line = self.level && self.usage.ports() > 1 && random.bool();
        self.sleeps = random.bool();
        // Each of them may be a tenth of the usual value, or ten times that value.
        let mut scaled = |ps: &mut u64, least: f64, most: f64| {
            *ps = (*ps as f64 * least * (most / least).powf(random.f64())) as u64;
        };
        scaled(&mut self.costs.read_ps, 0.2, 2.0);
        scaled(&mut self.costs.write_ps, 0.2, 2.0);
        scaled(&mut self.costs.burst_ps, 0.2, 4.0);
        scaled(&mut self.costs.byte_ps, 0.1, 3.0);
        scaled(&mut self.frame_ps, 0.1, 4.0);
        scaled(&mut self.call_ps, 0.1, 4.0);
        scaled(&mut self.interrupt_ps, 0.1, 4.0);
        self.costs.miss_ps = random.u64(..300_000);
        self.costs.uneven = random.bool();
        let becomes = matches!(self.usage, Use::Receive | Use::Echo) && random.u8(..4) == 0;
        if becomes { self.into_station() } else { self }
    }

    /// The same with the stack smoltcp, which takes frames of one buffer, without tags.
    fn into_station(mut self) -> Self {
        self.usage = Use::Station;
        self.config.rx_buffer_bytes = self.config.rx_buffer_bytes.max(2048);
        (self.config.max_frame_bytes, self.config.vlan, self.tagged, self.groups) =
            (1522, false, false, false);
        self.config.tx_ring = self.config.tx_ring.max(16);
        self.sizes.iter_mut().for_each(|bytes| *bytes = (*bytes).min(1514));
        self
    }

    /// How many bytes of a buffer may not cross 64 KiB when the card receives into it, if some buffers do.
    pub(crate) fn uncrossed_bytes(&self) -> Option<usize> {
        let crosses = matches!(self.layout, Layout::Anywhere | Layout::Large);
        (crosses && self.chip.has(Erratum::No64KCrossing)).then_some(self.config.rx_buffer_bytes.into())
    }

    /// The smallest rings, so that frames of many descriptors keep their pace.
    pub(crate) fn least_rings(&self) -> [u16; 2] {
        let chip = self.chip.min_ring();
        // Four of the longest frames, and the slots that a full ring holds back: smaller rings lose frames by
        // a short delay of the driver.
        let receive = 4 * self.config.max_frame_bytes.div_ceil(self.config.rx_buffer_bytes) + 2;
        let parts = matches!(self.sending, Sending::Parts | Sending::Segments);
        // On PCI-X its errata may split each buffer into four; elsewhere into two.
        let splits = self.pcix && self.chip == Chip::I82544;
        let pieces = if self.chip.has(Erratum::No64KCrossing) { 2 } else { 1 };
        let send = if parts {
            64
        } else if splits || matches!(self.config.service, Service::SelfPacing { .. }) {
            // While it sleeps, frames to send wait.
            32
        } else {
            let forwards = matches!(self.usage, Use::Echo | Use::Bridge | Use::Route | Use::Nat);
            let polls = matches!(self.config.service, Service::Polling { .. });
            // Frames for another port are sent all at once after a pause.
            let at_once = match (forwards, polls) {
                (true, _) => IN_A_PAUSE,
                (false, true) => BETWEEN_POLLS,
                (false, false) => 0,
            };
            // Beside them, frames for which no report was asked, a request for a report, and the slots that a
            // full ring keeps.
            let unreported = if polls { self.config.completion.report_every.min(8) - 1 } else { 0 };
            (at_once * pieces + unreported + 2).next_multiple_of(8)
        };
        [chip.max(receive.next_multiple_of(8)), chip.max(send)]
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

impl fmt::Display for WorldPlan {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_polled_transmit_ring_has_room_for_what_comes_between_two_polls() {
        // In a ring of 8 descriptors that are reported by fours, three waited for a fourth one, one asked for
        // a report, and four frames came (82544, and 82545EM).
        for seed in [700_061_453, 700_093_899] {
            let mut plan = WorldPlan::random(seed);
            plan.config.completion.report_every = 4;
            let [_, least] = plan.least_rings();
            assert!(least > 3 + 1 + 4, "{plan}: {least}");
            assert!(plan.config.tx_ring >= least);
        }
    }

    #[test]
    fn a_transmit_ring_has_room_for_what_comes_in_a_pause() {
        // In the last two nine frames came in 0.9 ms, for a ring of 8 descriptors.
        for seed in [900_006_766, 900_027_333, 900_035_438, 4_000_019_376] {
            let mut plan = WorldPlan::random(seed);
            let [_, least] = plan.least_rings();
            assert!(least > 20 && plan.config.tx_ring >= least, "{plan}: {least}");
            plan.usage = Use::Receive;
            assert_eq!(plan.least_rings()[1], plan.chip.min_ring().max(8));
        }
    }
}
