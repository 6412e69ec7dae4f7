//! A world: ports, the application of their frames, time, and the invariants.

use crate::audit::Audit;
use crate::buffers::{Buf, Pool};
use crate::card::{Card, Leaving, Parts, Slot};
use crate::check::{Breach, Check};
use crate::exam::exam;
use crate::fault::{Dice, Fault};
use crate::plan::{Sending, Use, WorldPlan};
use crate::port::{Around, GROUP, Port, Reached};
use crate::resets::resets;
use crate::station::{self, Letters, Station};
use crate::traffic::{self, Cable, Looks, Pace};
use kpps_apps::{App, EtherSwitch, Interface, Ipv4Net, Ledger, Nat, Outputs, Resize, Route, Router};
use kpps_driver::Device;
use kpps_frames::Mac;
use kpps_frames::build::Flow;
use kpps_host::{MS, US};
use kpps_platform::memory::Memory;
use kpps_platform::{Buffer, BufferSource};
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::net::Ipv4Addr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;

/// How often faults that take time have an opportunity, in ps.
const TICK_PS: u64 = 100 * US;
/// Faults happen for at most this long in an episode.
const FAULTS_PS: u64 = 200 * MS;
/// Bursts without faults come for at most this long.
const CALM_PS: u64 = 50 * MS;
/// Within this time after the last fault, traffic must have resumed. A port that hangs is found by the second
/// call of the watchdog, 4 s later at most, and its link takes 1.5 s. If another port sends to a port that
/// hangs, this time begins when the other port has recovered.
pub const RECOVERY_PS: u64 = 15_000 * MS;
/// The same time for a link of 10 Mb/s: there a transmitter counts as hung only after 16 s without a sent
/// frame.
pub const SLOW_RECOVERY_PS: u64 = 50_000 * MS;
/// The proof that a port works: the number of frames to each port, their distance for each buffer of a frame,
/// and the longest time for the last frame. Some historical policies leave a frame in the ring until the next
/// frame or the watchdog comes.
const PROOF_FRAMES: u64 = 200;
const PROOF_GAP_PS: u64 = 100 * US;
const PROOF_END_PS: u64 = 2500 * MS;
/// The rate under full load is measured over [`RATE_FRAMES`] frames, in steps of [`RATE_STEP_PS`], and for at
/// most [`RATE_MOST_PS`] on a link of 1 Gb/s.
const RATE_FRAMES: u64 = 3000;
const RATE_STEP_PS: u64 = 5 * MS;
const RATE_MOST_PS: u64 = 100 * MS;
/// After a fresh start some moderation lets more frames through at first than later. The smallest of this
/// number of measurements counts, unless an earlier measurement is good enough.
const FRESH_WINDOWS: u32 = 64;
/// A start, with the link, takes less than this.
const START_PS: u64 = 5000 * MS;
/// A full transmit ring of 1024 on a link of 10 Mb/s is sent in less than this.
const UNLOAD_PS: u64 = 2000 * MS;
/// Time for the last frames of a connection that has ended: RDTR may delay one by 67 ms.
const HANG_UP_PS: u64 = 200 * MS;
/// The distance of the frames that come meanwhile.
const TRICKLE_GAP_PS: u64 = 20 * MS;
/// The most steps at one moment of simulated time.
const STEPS: u32 = 100_000;
/// The memory of a world.
const MEMORY_BYTES: usize = 32 << 20;

/// The router's and its neighbours' addresses, in networks for benchmarks (RFC 2544 C.2.2).
const HERE: [Ipv4Addr; 2] = [Ipv4Addr::new(198, 18, 0, 1), Ipv4Addr::new(198, 19, 0, 1)];
const NEXT: [Ipv4Addr; 2] = [Ipv4Addr::new(198, 18, 0, 2), Ipv4Addr::new(198, 19, 0, 2)];
const STATIONS: [Mac; 2] = [Mac([2, 0, 0, 0, 1, 0]), Mac([2, 0, 0, 0, 1, 1])];

fn address(port: usize) -> Mac {
    Mac([2, 0, 0, 0, 0, 0x10 + port as u8])
}

/// Whether a port is as fast after the last fault as after a fresh start. In such measurements, equal rates
/// differed by up to 30 %, because drivers with interrupts serve many frames at once. So half of the rate is
/// enough.
fn is_full_rate(recovered_pps: u64, fresh_pps: u64) -> bool {
    recovered_pps >= fresh_pps.div_ceil(2)
}

/// The outcome of a world.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// The breach, if there was one: its time in virtual ps, and its kind.
    pub breach: Option<(u64, Breach)>,
    /// Frames that were offered to the ports or by their senders.
    pub offered: u64,
    /// Frames that arrived where they should.
    pub arrived: u64,
    /// Frames that were harmed by false information from the card, which is allowed.
    pub harmed: u64,
    /// Virtual time in ps.
    pub ps: u64,
    /// How often each kind of fault happened.
    pub fired: [u64; Fault::COUNT],
    /// Places reached in the driver of each port, and actions of watchdog and operator.
    pub reached: Vec<Reached>,
    /// The last events, if they were requested.
    pub events: Vec<String>,
}

/// A received frame in its buffer.
struct Frame {
    buffer: Buf,
    bytes: usize,
}

impl AsRef<[u8]> for Frame {
    fn as_ref(&self) -> &[u8] {
        self.buffer.bytes().get(..self.bytes).unwrap_or_default()
    }
}

impl AsMut<[u8]> for Frame {
    fn as_mut(&mut self) -> &mut [u8] {
        self.buffer.bytes_mut().get_mut(..self.bytes).unwrap_or_default()
    }
}

impl Resize for Frame {
    fn resize(&mut self, bytes: usize) -> bool {
        let fits = bytes <= self.buffer.capacity();
        self.bytes = if fits { bytes } else { self.bytes };
        fits
    }
}

/// The destination of an application's frames.
struct Out<'a> {
    frames: &'a mut VecDeque<(usize, Frame)>,
    pool: &'a mut Pool,
}

impl Outputs<Frame> for Out<'_> {
    fn send(&mut self, port: usize, frame: Frame) {
        self.frames.push_back((port, frame));
    }
    fn make(&mut self, bytes: &[u8]) -> Option<Frame> {
        let mut buffer = self.pool.take()?;
        buffer.bytes_mut().get_mut(..bytes.len())?.copy_from_slice(bytes);
        Some(Frame { buffer, bytes: bytes.len() })
    }
    fn discard(&mut self, frame: Frame) {
        // A dropped buffer returns to its pool by itself.
        drop(frame);
    }
}

/// The application for received frames.
enum Program {
    Receive,
    Send,
    Station,
    Echo,
    Switch(Box<EtherSwitch>),
    Router(Box<Router<Frame>>),
}

impl Program {
    fn new(usage: Use) -> Self {
        let router = || {
            let interface = |port: usize| Interface {
                port,
                vlan: None,
                mac: address(port),
                net: Ipv4Net::new_assert(HERE[port], 16),
                mtu: 1500,
            };
            let route = |port: usize| Route {
                to: Ipv4Net::new_assert(Ipv4Addr::new(10, port as u8, 0, 0), 16),
                via: NEXT[port],
            };
            Router::new([0, 1].map(interface).into(), &[0, 1].map(route))?
                .with_neighbour(NEXT[0], STATIONS[0])?
                .with_neighbour(NEXT[1], STATIONS[1])
        };
        match usage {
            Use::Receive => Self::Receive,
            Use::Send => Self::Send,
            Use::Station => Self::Station,
            Use::Echo => Self::Echo,
            Use::Bridge => Self::Switch(Box::new(EtherSwitch::new(2))),
            Use::Route | Use::Nat => {
                let router = router().and_then(|router| match usage {
                    Use::Nat => router.with_nat(Nat::new(1)),
                    _ => Ok(router),
                });
                // The addresses are constants of this file.
                router.map_or(Self::Receive, |router| Self::Router(Box::new(router)))
            }
        }
    }

    fn ledger(&self) -> Option<Ledger> {
        match self {
            Self::Switch(app) => Some(App::<Frame>::ledger(&**app)),
            Self::Router(app) => Some(app.ledger()),
            _ => None,
        }
    }
}

/// Slots of a receive ring that have a buffer.
fn filled_slots(device: &Device<Slot, Pool>) -> usize {
    usize::from(device.control.config().rx_ring) - device.rx.empty_slots()
}

/// The flows of the frames that come to a port.
fn flows(plan: &WorldPlan, port: usize) -> Vec<Flow> {
    let other = 1 - port.min(1);
    let to_group = |host: u16| plan.groups && host == 0;
    let flow = |host: u16| match plan.usage {
        Use::Station => Flow {
            from_mac: STATIONS[port],
            to_mac: address(port),
            vlan: None,
            from: (Ipv4Addr::new(198, 18, 1, 1 + host as u8), 49152 + host),
            to: (station::HERE, station::DISCARD_PORT),
        },
        Use::Bridge => Flow { from_mac: STATIONS[port], to_mac: STATIONS[other], ..Flow::default() },
        _ => Flow {
            from_mac: STATIONS[port],
            to_mac: if to_group(host) { Mac(GROUP) } else { address(port) },
            vlan: None,
            from: (Ipv4Addr::new(10, port as u8, 0, 1 + host as u8), 49152 + host),
            to: (Ipv4Addr::new(10, other as u8, 0, 1 + host as u8), 9),
        },
    };
    (0..4).map(flow).collect()
}

struct World<'p> {
    plan: &'p WorldPlan,
    /// Ports with an application, or an end station.
    ports: Vec<Port>,
    station: Option<Station>,
    program: Program,
    /// The ports' own pools, and the application's handle.
    pools: Vec<Pool>,
    pool: Pool,
    memory: Memory,
    out: VecDeque<(usize, Frame)>,
    /// Frames that a sender still has to send, and the time of the next one.
    to_send: u64,
    send_gap_ps: u64,
    send_at: u64,
    template: Vec<u8>,
    dice: Rc<Dice>,
    check: Rc<Check>,
    now_ps: Rc<Cell<u64>>,
    app_tick_at: u64,
}

impl<'p> World<'p> {
    /// `None` if the machine has no memory for it.
    fn new(plan: &'p WorldPlan, trace: bool) -> Option<Self> {
        let now_ps = Rc::new(Cell::new(0));
        let check = Rc::new(Check::new(plan.usage.ports(), trace, now_ps.clone()));
        let dice = Rc::new(Dice::new(plan.seed, plan.rarity, plan.most_faults, &check));
        let memory = Memory::private(MEMORY_BYTES).ok()?;
        let pools = Pool::new(&memory, plan, &dice, &check, &now_ps)?;
        let pool = pools.first()?.clone();
        let routed = matches!(plan.usage, Use::Send | Use::Route | Use::Nat);
        let in_bytes = plan.usage == Use::Echo && !plan.config.vlan;
        let tagged = plan.tagged && (in_bytes || plan.sending == Sending::Parts);
        let letters = Letters::default();
        let leaving = match plan.usage {
            Use::Receive => Leaving::Nothing,
            Use::Station => Leaving::Stack(letters.clone()),
            _ => Leaving::Arrives(Looks { routed, tagged }),
        };
        let card = |number: usize, pool: &Pool| {
            let flows = flows(plan, number);
            let seed = plan.seed ^ (number as u64 + 77) << 16;
            Card::new(Parts {
                plan,
                audit: Audit::new(plan, pool.rights(), &check),
                address: address(number).0,
                memory: memory.clone(),
                rights: pool.rights(),
                cable: Cable::new(number, &flows, plan, seed, &dice, &check),
                leaving: leaving.clone(),
                dice: dice.clone(),
                check: check.clone(),
                now_ps: now_ps.clone(),
            })
        };
        let slot = |card: &_| Slot::new(card, (&memory, plan.coherent), &dice, &now_ps);
        let (mut ports, mut station) = (Vec::new(), None);
        for (number, pool) in pools.iter().enumerate() {
            let card = card(number, pool);
            if plan.usage == Use::Station {
                let around = (&dice, &check, &now_ps);
                station = Some(Station::new(plan, card, slot, pool, letters.clone(), around));
            } else {
                let around = Around { plan, pool, dice: &dice, check: &check, now_ps: &now_ps };
                ports.push(Port::new(number, card, slot, &around));
            }
        }
        Some(Self {
            plan,
            ports,
            station,
            program: Program::new(plan.usage),
            pool,
            pools,
            memory,
            out: VecDeque::new(),
            to_send: 0,
            send_gap_ps: 0,
            send_at: u64::MAX,
            template: traffic::template(plan.own_bytes),
            dice,
            check,
            now_ps,
            app_tick_at: 0,
        })
    }

    /// Runs until `until_ps`.
    fn run(&mut self, until_ps: u64) {
        let mut tick_at = if self.dice.is_active() { self.now_ps.get() + TICK_PS } else { u64::MAX };
        let (mut last, mut steps) = (0, 0);
        loop {
            let now = self.now_ps.get();
            if now >= until_ps || self.check.is_broken() {
                return;
            }
            steps = if now == last { steps + 1 } else { 0 };
            last = now;
            if steps > STEPS {
                self.check.breach(Breach::Endless { took_ps: 0 });
            }
            if tick_at <= now {
                tick_at = now + TICK_PS;
                self.tick();
                continue;
            }
            let soonest =
                |(at, which), (next, port): (u64, usize)| if next < at { (next, port) } else { (at, which) };
            let ports = self.ports.iter().enumerate();
            let (cpu_at, cpu) =
                ports.map(|(which, port)| (port.next_ps(), which)).fold((u64::MAX, 0), soonest);
            let cpu_at = cpu_at.max(now);
            let ports = self.ports.iter().enumerate();
            let card_at = ports.map(|(which, port)| (port.card.borrow().next_ps(), which));
            let (card_at, card) = card_at.fold((u64::MAX, 0), soonest);
            let (stack_at, far_at) = self.station.as_ref().map_or((u64::MAX, u64::MAX), |station| {
                (station.next_ps().max(now), station.card.borrow().next_ps())
            });
            let next = cpu_at
                .min(card_at)
                .min(stack_at.min(far_at))
                .min(self.send_at)
                .min(tick_at)
                .min(self.app_tick_at)
                .min(until_ps)
                .max(now);
            self.now_ps.set(next);
            if card_at <= next {
                self.ports[card].card.borrow_mut().advance(next);
                if self.ports[card].look() && self.plan.shares_line {
                    self.ports.iter_mut().for_each(Port::hear);
                }
            } else if let Some(station) = self.station.as_mut().filter(|_| stack_at.min(far_at) <= next) {
                if far_at <= next {
                    station.card.borrow_mut().advance(next);
                    station.look();
                } else {
                    station.run();
                }
            } else if cpu_at <= next {
                if self.ports[cpu].run() {
                    self.use_frames(cpu);
                    self.step_checks(cpu);
                }
            } else if self.send_at <= next {
                self.send_frames();
            } else if self.app_tick_at <= next {
                self.app_tick_at = next + 100 * MS;
                let mut out = Out { frames: &mut self.out, pool: &mut self.pool };
                match &mut self.program {
                    Program::Switch(app) => app.tick(next / 1000, &mut out),
                    Program::Router(app) => app.tick(next / 1000, &mut out),
                    _ => {}
                }
                self.send_out();
            }
        }
    }

    /// Runs while at most one frame comes at a time. Drivers without interrupts poll less often then, which
    /// saves a third of the time of a world.
    fn run_quietly(&mut self, until_ps: u64) {
        self.ports.iter_mut().for_each(|port| port.set_quiet(true));
        self.run(until_ps);
        self.ports.iter_mut().for_each(|port| port.set_quiet(false));
    }

    fn tick(&mut self) {
        self.pool.tick();
        for port in &mut self.ports {
            port.card.borrow_mut().tick();
            port.tick();
        }
        if let Some(station) = &mut self.station {
            station.card.borrow_mut().tick();
            station.tick();
        }
    }

    /// Gives the frames that a port received to the application.
    fn use_frames(&mut self, from: usize) {
        let now_ns = self.now_ps.get() / 1000;
        let mut received = std::mem::take(&mut self.ports[from].sink.kept);
        for (buffer, bytes) in received.drain(..) {
            let frame = Frame { buffer, bytes: bytes.into() };
            let mut out = Out { frames: &mut self.out, pool: &mut self.pool };
            let ended = match &mut self.program {
                // The frames of these applications end in the driver's call.
                Program::Receive | Program::Send | Program::Station => Some(frame),
                Program::Echo => {
                    out.send(from, frame);
                    None
                }
                Program::Switch(app) => app.push(from, frame, now_ns, &mut out),
                Program::Router(app) => app.push(from, frame, now_ns, &mut out),
            };
            if let Some(frame) = ended {
                self.pool.give(frame.buffer);
            }
        }
        self.ports[from].sink.kept = received;
        self.send_out();
    }

    /// Sends the application's frames.
    fn send_out(&mut self) {
        for (number, port) in self.ports.iter_mut().enumerate() {
            let frames = self.out.iter().filter(|(to, _)| *to == number).count();
            let out = &mut self.out;
            let next = || {
                let at = out.iter().position(|(to, _)| *to == number)?;
                let (_, Frame { mut buffer, bytes }) = out.remove(at)?;
                buffer.sends = true;
                Some((buffer, bytes as u16))
            };
            port.send(std::iter::from_fn(next).take(frames));
        }
        for port in &mut self.ports {
            if let Some(device) = &mut port.device {
                device.tx.flush();
            }
        }
    }

    /// A sender's own frames.
    fn send_frames(&mut self) {
        let now = self.now_ps.get();
        self.send_at = if self.to_send > 0 { now + self.send_gap_ps } else { u64::MAX };
        let port = &mut self.ports[0];
        if port.device.is_none() {
            self.send_at = now + MS;
            return;
        }
        // A sender without a pace of its own sends as many frames as the ring has slots.
        let many = if self.send_gap_ps < 10 * US { 32 } else { 1 };
        let many = many.min(self.to_send);
        let sent = port.send_own(&self.template, many);
        self.to_send -= sent;
        if sent < many {
            self.send_at = now + self.send_gap_ps.max(50 * US);
        }
        port.look();
    }

    /// The far end of a station's cable ends its connection. Otherwise the connection could send a frame at
    /// any time, and a frame under way is counted by the card and not yet by the driver.
    fn hang_up(&mut self) {
        let Some(station) = &mut self.station else { return };
        station.hang_up();
        self.run(self.now_ps.get() + HANG_UP_PS);
    }

    /// The far end of a station's cable begins a new connection.
    fn connect(&mut self) {
        if let Some(station) = &mut self.station {
            station.connect();
        }
    }

    /// Begins to offer frames.
    fn offer(&mut self, pace: Pace, frames: u64) {
        let now = self.now_ps.get();
        if self.plan.usage == Use::Send {
            self.to_send = frames;
            self.send_gap_ps = match pace {
                Pace::Every { gap_ps } => gap_ps,
                Pace::Bursts { .. } => US,
                Pace::Silent => u64::MAX,
            };
            self.send_at = now;
            return;
        }
        let receiving = if self.plan.usage == Use::Nat { 1 } else { usize::MAX };
        for card in self.cards().take(receiving) {
            card.borrow_mut().cable.start(now, pace, frames);
        }
    }

    fn is_offered(&self) -> bool {
        self.to_send == 0 && self.cards().all(|card| card.borrow().cable.is_done())
    }

    fn cards(&self) -> impl Iterator<Item = &Rc<RefCell<Card>>> {
        self.ports.iter().map(|port| &port.card).chain(self.station.as_ref().map(|station| &station.card))
    }

    /// The speed of the slowest link in Mb/s.
    fn mbps(&self) -> u16 {
        self.cards().map(|card| card.borrow().mbps()).min().unwrap_or(1000)
    }

    /// Checks the invariants after each step.
    fn step_checks(&mut self, which: usize) {
        let port = &mut self.ports[which];
        port.check_counters();
        if !port.card.borrow().closes() {
            self.check.breach(Breach::CardLedger);
        }
        if self.program.ledger().is_some_and(|ledger| !ledger.closes()) {
            self.check.breach(Breach::AppLedger);
        }
        self.check_owners();
    }

    /// Each buffer has one owner. The buffers outside of the pool are in a ring of the driver, or belong to
    /// the application. In a receive ring each buffer has a slot of its own.
    fn check_owners(&self) {
        let [receiving, sending] = self.pool.rights().in_rings();
        let devices = || self.ports.iter().filter_map(|port| port.device.as_ref());
        let filled: usize = devices().map(filled_slots).sum();
        let pending: usize = devices().map(|device| device.tx.pending()).sum();
        if receiving != filled || sending > pending {
            self.check.breach(Breach::Owners { receiving, filled, sending, pending });
        }
        let (outside, known) = (self.pool.outside(), self.held() + sending);
        if outside != known {
            self.check.breach(Breach::Buffers { outside, known });
        }
    }

    /// Buffers that are in receive rings, and with the application.
    fn held(&self) -> usize {
        let devices = self.ports.iter().filter_map(|port| port.device.as_ref());
        let rings: usize = devices.map(filled_slots).sum();
        rings + self.program.ledger().map_or(0, |ledger| ledger.held as usize)
    }

    /// No other buffer is outside of the pool.
    fn check_buffers(&self) {
        let (outside, known) = (self.pool.outside(), self.held());
        if outside != known {
            self.check.breach(Breach::Buffers { outside, known });
        }
    }

    /// Checks the invariants of quiet times.
    fn quiet_checks(&mut self) {
        for port in &mut self.ports {
            let Some(device) = &mut port.device else { continue };
            device.tx.request_report();
        }
        let later = self.now_ps.get() + 10 * MS;
        self.run(later);
        for port in &mut self.ports {
            let Some(device) = &mut port.device else { continue };
            device.tx.reclaim(usize::MAX);
            let pending = device.tx.pending();
            if pending > 0 {
                self.check.breach(Breach::Buffers { outside: pending, known: 0 });
            }
        }
        if self.station.is_none() {
            self.check_buffers();
        }
    }

    /// Drops everything: memory must be free again.
    fn end(self) -> Rc<Check> {
        let Self { ports, station, program, mut pools, pool, memory, out, check, .. } = self;
        drop((ports, station, program, pool, out));
        pools.iter_mut().for_each(Pool::empty_stack);
        let missing: usize = pools.iter().map(Pool::missing).sum();
        drop(pools);
        let free = memory.pool(1, MEMORY_BYTES - (1 << 20), None).is_ok();
        if missing > 0 {
            check.breach(Breach::Buffers { outside: missing, known: 0 });
        } else if !free {
            check.breach(Breach::MemoryLost);
        }
        check
    }

    /// Records the counters of ports, application and station.
    fn tell_counters(&self) {
        self.ports.iter().for_each(Port::tell_counters);
        self.station.iter().for_each(Station::tell_connections);
        if let Some(ledger) = self.program.ledger() {
            let ended: Vec<_> = ledger.reasons().collect();
            self.check.note(|| format!("application: {ledger:?}, ended: {ended:?}"));
        }
    }

    /// Checks that each frame to each port arrives, at a rate that every driver can receive. A station also
    /// receives the data of a connection, which may be too fast for its bus: frames may be missing if the
    /// card had no space for them.
    fn prove(&mut self) {
        self.check.begin_proof();
        let troubles: Vec<_> = self.ports.iter().map(Port::troubles).collect();
        let accounts = |world: &Self| -> Vec<_> {
            let station = world.station.as_ref().map(Station::account);
            world.ports.iter().map(Port::account).chain(station).collect()
        };
        let overruns = |world: &Self| world.station.as_ref().map_or(0, Station::overruns);
        self.hang_up();
        let (before, overruns_before) = (accounts(self), overruns(self));
        self.tell_counters();
        self.connect();
        self.ports.iter_mut().for_each(|port| port.set_judges_filters(true));
        let longest = self.plan.sizes.iter().copied().fold(self.plan.own_bytes, u16::max);
        let parts = u64::from(longest.div_ceil(self.plan.config.rx_buffer_bytes));
        let gap_ps = (parts * PROOF_GAP_PS).max(2 * traffic::frame_ps(longest.into(), self.mbps()));
        self.offer(Pace::Every { gap_ps }, PROOF_FRAMES);
        let offered = self.now_ps.get() + PROOF_FRAMES * gap_ps + 100 * MS;
        self.run(offered);
        self.run_quietly(offered + PROOF_END_PS);
        self.tell_counters();
        for port in 0..self.plan.usage.ports() {
            let (sent, arrived) = self.check.proof(port);
            let least = sent.saturating_sub(overruns(self) - overruns_before);
            if !(least..=sent).contains(&arrived) && !self.check.is_broken() {
                self.check.breach(Breach::NotResumed { port, sent, arrived });
            }
        }
        if self.station.as_ref().is_some_and(|station| !station.has_echoed()) {
            self.check.breach(Breach::NotEchoed);
        }
        self.hang_up();
        for (now, before) in accounts(self).into_iter().zip(before) {
            let (card, driver) = (now.0 - before.0, now.1 - before.1);
            if card != driver {
                self.check.breach(Breach::DriverLedger { card, driver });
            }
        }
        if self.ports.iter().map(Port::troubles).ne(troubles) {
            self.check.breach(Breach::Reset);
        }
        self.ports.iter_mut().for_each(|port| port.set_judges_filters(false));
        self.quiet_checks();
    }

    /// Checks the rate under full load against that after a fresh start.
    fn prove_rate(&mut self) {
        self.load();
        let recovered_pps = self.carried_pps();
        self.unload();
        self.ports.iter_mut().for_each(|port| port.reset("a fresh start"));
        self.station.iter_mut().for_each(|station| station.reset("a fresh start"));
        self.run_quietly(self.now_ps.get() + START_PS);
        self.load();
        let mut fresh_pps = u64::MAX;
        for _ in 0..FRESH_WINDOWS {
            fresh_pps = fresh_pps.min(self.carried_pps());
            if is_full_rate(recovered_pps, fresh_pps) {
                break;
            }
        }
        self.unload();
        if !is_full_rate(recovered_pps, fresh_pps) {
            self.check.breach(Breach::Slower { recovered_pps, fresh_pps });
        }
    }

    /// Offers frames as often as the slowest link takes the shortest ones, until [`unload`](Self::unload).
    fn load(&mut self) {
        let gap_ps = traffic::frame_ps(60, self.mbps());
        self.offer(Pace::Every { gap_ps }, u64::MAX);
        self.run(self.now_ps.get() + RATE_STEP_PS);
    }

    /// Offers nothing until all frames that are under way have arrived.
    fn unload(&mut self) {
        self.offer(Pace::Silent, 0);
        self.run_quietly(self.now_ps.get() + UNLOAD_PS);
    }

    /// Frames/s that arrive under load: over [`RATE_FRAMES`], or over the longest time if they are fewer.
    fn carried_pps(&mut self) -> u64 {
        let arrived =
            |world: &Self| (0..world.plan.usage.ports()).map(|port| world.check.counts(port).1).sum::<u64>();
        let (before, begun) = (arrived(self), self.now_ps.get());
        let most_ps = RATE_MOST_PS * (1000 / u64::from(self.mbps().max(1))).clamp(1, 5);
        loop {
            self.run(self.now_ps.get() + RATE_STEP_PS);
            let (frames, ps) = (arrived(self) - before, self.now_ps.get() - begun);
            if frames >= RATE_FRAMES || ps >= most_ps || self.check.is_broken() {
                // No time passes in a world in which something already failed.
                return frames * 1000 * MS / ps.max(1);
            }
        }
    }

    fn live(&mut self) {
        // The link comes up.
        self.run_quietly(START_PS);
        self.prove();
        if self.ports.iter().any(|port| port.troubles() > 0) {
            self.check.breach(Breach::Reset);
        }
        let (burst, gap_ps) = self.plan.burst;
        // Bursts without faults, and time to send the rest.
        self.offer(Pace::Bursts { burst, gap_ps }, self.plan.frames / 4);
        self.run(self.now_ps.get() + CALM_PS);
        self.offer(Pace::Silent, 0);
        self.run_quietly(self.now_ps.get() + CALM_PS);
        self.ports.iter_mut().for_each(|port| port.calm = false);
        for _ in 0..self.plan.episodes {
            if self.check.is_broken() {
                break;
            }
            self.check.note(|| "faults begin".to_owned());
            self.dice.activate(true);
            self.connect();
            self.offer(Pace::Bursts { burst, gap_ps }, self.plan.frames);
            let end = self.now_ps.get() + FAULTS_PS;
            while !self.is_offered() && !self.check.is_broken() && self.now_ps.get() < end {
                self.run(self.now_ps.get() + MS);
            }
            // Frames that are not offered by the end of this time are never offered.
            self.offer(Pace::Silent, 0);
            self.dice.activate(false);
            self.check.note(|| "faults end".to_owned());
            self.ports.iter_mut().for_each(Port::settle);
            self.station.iter_mut().for_each(Station::settle);
            // A port that sends nothing does not see that it cannot send.
            self.connect();
            let now = self.now_ps.get();
            let recovery_ps = if self.mbps() > 10 { RECOVERY_PS } else { SLOW_RECOVERY_PS };
            self.offer(Pace::Every { gap_ps: TRICKLE_GAP_PS }, recovery_ps / TRICKLE_GAP_PS - 50);
            self.run_quietly(now + recovery_ps);
            self.check.set_lied(false);
            self.check.note(|| "the proof begins".to_owned());
            self.prove();
        }
        if !self.check.is_broken() {
            self.prove_rate();
        }
        for (number, port) in self.ports.iter_mut().enumerate() {
            let hears = match self.plan.usage {
                Use::Send => false,
                Use::Nat => number == 0,
                _ => true,
            };
            if !self.check.is_broken() {
                exam(port, hears, self.plan);
            }
            if !self.check.is_broken() {
                resets(port, self.plan);
            }
            port.leave();
        }
        self.station.iter_mut().for_each(Station::leave);
        if !self.check.is_broken() {
            self.check_buffers();
        }
    }
}

/// Runs a world from its start to its end. `trace`: keeps the last events.
///
/// # Panics
/// Without memory for a world.
pub fn live(plan: &WorldPlan, trace: bool) -> Outcome {
    let Some(mut world) = World::new(plan, trace) else {
        panic!("no memory for a world of {MEMORY_BYTES} bytes")
    };
    let lived = catch_unwind(AssertUnwindSafe(|| world.live()));
    if let Err(panic) = lived {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("without a message");
        world.check.breach(Breach::Panic(text.to_owned()));
    }
    let counts = (0..plan.usage.ports()).map(|stream| world.check.counts(stream));
    let (offered, arrived) = counts.fold((0, 0), |all, each| (all.0 + each.0, all.1 + each.1));
    let station = world.station.as_ref().map(|station| station.reached);
    let outcome = Outcome {
        breach: None,
        offered,
        arrived,
        harmed: world.check.harmed(),
        ps: world.now_ps.get(),
        fired: world.dice.fired(),
        reached: world.ports.iter().map(|port| port.reached).chain(station).collect(),
        events: Vec::new(),
    };
    let check = world.end();
    Outcome { breach: check.first_breach(), events: check.events(), ..outcome }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kpps_datasheet::reg;
    use kpps_driver::config::Service;

    #[test]
    fn no_frame_of_a_station_is_under_way_when_accounts_are_compared() {
        // 82545EM at 10 Mb/s with RDTR.
        let plan = WorldPlan::random(700_057_638);
        assert_eq!(plan.usage, Use::Station);
        let mut world = World::new(&plan, false).expect("memory");
        let agree = |world: &World<'_>| {
            let (card, driver) = world.station.as_ref().map(Station::account).expect("a station");
            card == driver
        };
        world.run_quietly(5000 * MS);
        world.connect();
        for _ in 0..10_000 {
            world.run(world.now_ps.get() + 10 * US);
            if !agree(&world) {
                break;
            }
        }
        assert!(!agree(&world), "no frame is under way");
        world.hang_up();
        assert!(agree(&world));
        assert_eq!(world.check.first_breach(), None);
    }

    #[test]
    fn a_port_that_carries_less_than_after_a_fresh_start_is_found() {
        let fits = |plan: &WorldPlan| {
            plan.usage == Use::Receive
                && plan.speed_mbps == 1000
                && plan.config.rx_ring < 100
                && plan.chip.has_radv_tadv_itr()
                && matches!(plan.config.service, Service::Napi { .. })
        };
        let plan = (1..).map(WorldPlan::random).find(fits).expect("one of the first worlds");
        let mut world = World::new(&plan, false).expect("memory");
        world.run_quietly(START_PS);
        world.prove_rate();
        assert_eq!(world.check.first_breach(), None);
        // 60 interrupts a second, which the driver does not know; a start sets the driver's own value.
        world.ports[0].card.borrow_mut().poke(reg::ITR, 0xFFFF);
        world.prove_rate();
        let breach = world.check.first_breach().map(|(_, breach)| breach);
        assert!(matches!(breach, Some(Breach::Slower { .. })), "{breach:?}");
    }
}
