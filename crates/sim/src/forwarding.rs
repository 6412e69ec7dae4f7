//! An app between the two ports of a tester, full duplex: a bridge, a router, a NAT. What comes out of the other port is
//! compared with what must, and counted exactly.

use crate::forwarder::{Forwarder, Forwards};
use crate::netdev::Bound;
use crate::per_frame::PerFrame;
use crate::setup::{Setup, SetupError, StackParams};
use crate::simulated::{Room, cpu_time, phase_ps, share};
use crate::tester::{Far, Port, check};
use crate::traffic::{ConstantRate, slot_ps};
use kpps_frames::{Size, rate};
use kpps_machine::cpu::{Counters, Profile, Usage};
use kpps_machine::stack::linux24::{self, Attach, Stack, Stall, Tally};
use kpps_machine::wire::{Receiver, Traffic};
use kpps_machine::{MS, Machine};
use kpps_measure::{AFTERWARDS_MS, Latency, Load, Testbed, Trial, TrialError};
use kpps_results::{Cpu, Ledger};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

/// Which CPU takes the interrupts of which card.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Affinity {
    /// The first takes all.
    Bound,
    /// Each card has its own, as far as they go.
    Spread,
}

/// One direction.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Direction {
    /// Frames sent into it in the measured time.
    pub sent: u64,
    /// Of these, frames that came out at the other end.
    pub forwarded: u64,
}

/// What an app did with a load.
pub struct Forwarded {
    /// Both directions together.
    pub trial: Trial,
    /// From port 0 to port 1, and back.
    pub directions: [Direction; 2],
    /// Frames that came out twice, not as they should, where they came in, or that nobody had sent. None, or the trial
    /// fails.
    pub wrong: u64,
    /// Frames that came out later than ones sent after them.
    pub overtaken: u64,
    /// Counts for each frame that the drivers took in the measured time.
    pub per_frame: PerFrame,
    /// Mask writes in the measured time.
    pub mask_writes: u64,
    /// How each simulated CPU's time went.
    pub cpus: Vec<Cpu>,
    /// Where it went, by level and function.
    pub profile: Profile,
    /// How the two transmit queues stood at the end.
    pub stalls: [Stall; 2],
}

impl Forwarded {
    /// Frames forwarded each second, both directions together.
    pub fn pps(&self) -> f64 {
        self.trial.delivered as f64 / self.trial.seconds
    }
}

/// A frame without FCS, and the port that it came in or left by.
pub type AtPort = (usize, Vec<u8>);

/// What an app did with frames that came in one after the other.
pub struct Conversation {
    /// For each of them what left because of it.
    pub left: Vec<Vec<AtPort>>,
    /// The app's account.
    pub ledger: kpps_apps::Ledger,
}

/// Keeps what comes out of a port.
struct Hearing {
    port: usize,
    heard: Rc<RefCell<Vec<AtPort>>>,
}

impl Receiver for Hearing {
    fn receive(&mut self, _now_ps: u64, frame: &[u8]) {
        self.heard.borrow_mut().push((self.port, frame.to_vec()));
    }
}

/// One frame, whose last bit arrives at `at_ps`.
struct Once {
    frame: Vec<u8>,
    at_ps: u64,
}

impl Traffic for Once {
    fn next_ps(&self) -> u64 {
        self.at_ps
    }
    fn frame(&mut self) -> &[u8] {
        self.at_ps = u64::MAX;
        &self.frame
    }
}

/// What the transmit watchdog saw.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Watchdogs {
    /// Transmit queues that had been stopped, with nothing sent, for longer than the kernel bears: one time-out each.
    pub timeouts: u32,
    /// The longest time a queue was stopped with nothing sent, in milliseconds.
    pub longest_stop_ms: f64,
    /// Virtual time under load, in milliseconds.
    pub simulated_ms: u32,
}

/// Under load for this long, a queue that will stay stopped has stopped.
const WATCH_MS: u32 = 300;
/// A queue that has been stopped for less than this at [`WATCH_MS`] is one that goes on and stops again.
const SUSPECT_MS: u64 = 100;

/// The app with its tester.
struct Rig {
    room: Room,
    stack: Stack<Bound, Forwards>,
    ports: [Rc<Port>; 2],
    /// What the tester sends into each port, in turn.
    frames: [Vec<Vec<u8>>; 2],
    sent: [Rc<Cell<u64>>; 2],
    errors: Vec<Rc<crate::netdev::Signs>>,
}

/// All counters at one instant.
struct Reading {
    sent: [u64; 2],
    usage: Vec<Usage>,
    profile: Profile,
    counters: Counters,
    taken: u64,
    transactions: u64,
    bus_busy_ps: u64,
}

/// A machine with the app on it, before anything has come in.
type Assembled = (Room, Stack<Bound, Forwards>, Vec<Rc<crate::netdev::Signs>>);

impl Forwarding {
    /// Puts it together: `far` hears what comes out of each port, and `connections` have been made.
    fn assemble(
        &self,
        size: Size,
        far: [Box<dyn Receiver>; 2],
        connections: &[Vec<u8>],
    ) -> Result<Assembled, TrialError> {
        let Self { setup, app, affinity } = self;
        let StackParams::Linux24(params) = &setup.stack_params else {
            return Err(TrialError::Testbed(format!(
                "the stack '{}' does not forward between two cards: use a machine with Linux 2.4 or 2.6, as lunz2003",
                setup.stack
            )));
        };
        let mut setup = setup.clone().for_frames(size);
        setup.config.promiscuous |= app.is_promiscuous();
        let mut cards = Vec::with_capacity(far.len());
        for (index, far) in far.into_iter().enumerate() {
            let mut card = setup.card.clone();
            card.port = index as u8;
            cards.push((card, far));
        }
        let cpus = match affinity {
            Affinity::Bound => 1,
            Affinity::Spread => setup.cpus.clamp(1, 2),
        };
        let (room, bound) = Room::with_cards(&setup, cpus, cards)?;
        let errors = bound.iter().map(Bound::signs).collect();
        let connections = connections.iter().map(Vec::as_slice);
        let forwards = Forwards::new(*app, size, &bound[0], connections, room.0.now_ps())?;
        let attach = bound.into_iter().enumerate().map(|(slot, device)| {
            let service = device.service();
            Attach { device, slot, service, cpu: slot % cpus }
        });
        let stack = Stack::start(&room.0, params.clone(), attach.collect(), forwards);
        Ok((room, stack, errors))
    }
}

impl Rig {
    fn build(testbed: &Forwarding, size: Size) -> Result<Self, TrialError> {
        let app = testbed.app;
        let pairs = [app.frames(0, size)?, app.frames(1, size)?];
        let [(there, there_out), (back, back_out)] = pairs.map(|pairs| {
            pairs.into_iter().map(|[came, leaves]| (came, leaves)).unzip::<_, _, Vec<_>, Vec<_>>()
        });
        let ports = [Rc::new(Port::default()), Rc::new(Port::default())];
        // What port 1 sent comes out of port 0, and the other way round.
        let far = |index: usize, flows| {
            Box::new(Far::new(Rc::clone(&ports[index]), flows, 1 - index as u16)) as Box<dyn Receiver>
        };
        let far = [far(0, back_out), far(1, there_out)];
        let connections = if app == Forwarder::Nat { &there[..] } else { &[] };
        let (room, stack, errors) = testbed.assemble(size, far, connections)?;
        Ok(Self { room, stack, ports, frames: [there, back], sent: Default::default(), errors })
    }

    fn machine(&self) -> &Machine {
        &self.room.0
    }

    /// Puts the load on from `begin_ps` to `end_ps`.
    fn load(&self, load: &Load, begin_ps: u64, end_ps: u64) {
        let pps = load.offered_pps / 2.0;
        for (index, frames) in self.frames.iter().enumerate() {
            let first = begin_ps + phase_ps(load.seed + index as u64, (1e12 / pps) as u64);
            let sent = Rc::clone(&self.sent[index]);
            let source = ConstantRate::of_flows(frames.clone(), pps, first, end_ps, sent);
            let source = source.in_stream(index as u16);
            self.machine().with_world(|world| world.set_traffic(index, Box::new(source)));
        }
    }

    fn tallies(&self) -> [Tally; 2] {
        [0, 1].map(|port| self.stack.tally(port))
    }

    fn read(&self) -> Reading {
        let machine = self.machine();
        Reading {
            sent: [0, 1].map(|index| self.sent[index].get()),
            usage: (0..machine.cpus()).map(|cpu| machine.usage_of(cpu)).collect(),
            profile: machine.profile(),
            counters: machine.counters(),
            taken: self.tallies().iter().map(|t| t.from_driver).sum(),
            transactions: machine.with_world(|world| world.bus().transactions()),
            bus_busy_ps: machine.with_world(|world| world.bus().busy_ps()),
        }
    }

    /// Where every frame is or ended.
    fn ledger(&self) -> Result<Ledger, TrialError> {
        let (mut dropped, mut in_flight_at) = (BTreeMap::new(), BTreeMap::new());
        let add = |places: &mut BTreeMap<String, u64>, place: &str, frames: u64, always: bool| {
            if frames > 0 || always {
                *places.entry(place.to_owned()).or_default() += frames;
            }
        };
        let (mut delivered, mut ended) = (0, 0);
        for port in 0..2 {
            let card = self.machine().with_world(|world| *world.nic(port).tally());
            let tally = self.stack.tally(port);
            let driver = self.errors[port].dropped.get();
            let lost = &card.dropped;
            let other = lost.total() - lost.fifo_engine - lost.fifo_no_descriptor - lost.filtered;
            add(&mut dropped, "fifo", lost.fifo_engine, true);
            add(&mut dropped, "ring", lost.fifo_no_descriptor, true);
            add(&mut dropped, "filter", lost.filtered, false);
            add(&mut dropped, "card_other", other + card.tx_discarded, false);
            add(&mut dropped, "driver", driver, false);
            add(&mut dropped, "backlog", tally.dropped_backlog, true);
            ended += tally.ended;
            add(&mut dropped, "queue", tally.dropped_queue, true);
            let missing = |more: u64, less: u64| {
                more.checked_sub(less).ok_or_else(|| {
                    TrialError::Testbed(format!("port {port}: {less} frames where only {more} came"))
                })
            };
            add(&mut in_flight_at, "fifo", card.in_fifo, true);
            add(&mut in_flight_at, "ring", missing(card.to_host, tally.from_driver + driver)?, true);
            add(&mut in_flight_at, "backlog", tally.in_backlog, true);
            add(&mut in_flight_at, "app", tally.in_hand, true);
            add(&mut in_flight_at, "queue", tally.in_queue, true);
            let on_wire = missing(tally.to_card, card.transmitted + card.tx_discarded)?;
            add(&mut in_flight_at, "transmit", on_wire, true);
            let came = self.ports[port].frames();
            if came != card.transmitted {
                return Err(TrialError::Testbed(format!(
                    "port {port}: the tester heard {came} of {} frames",
                    card.transmitted
                )));
            }
            delivered += came;
        }
        let (reasons, held) = self.stack.with_handler(Forwards::account);
        let told = reasons.iter().map(|(_, frames)| frames).sum::<u64>();
        if told != ended {
            return Err(TrialError::Testbed(format!(
                "{ended} frames ended in the app, which knows of {told}"
            )));
        }
        for (reason, frames) in reasons {
            add(&mut dropped, reason.name(), frames, false);
        }
        add(&mut in_flight_at, "app", held, false);
        let ledger = Ledger {
            sent: self.sent.iter().map(|sent| sent.get()).sum(),
            unsent: 0,
            delivered,
            dropped,
            in_flight: in_flight_at.values().sum(),
            in_flight_at,
        };
        if ledger.closes() {
            Ok(ledger)
        } else {
            Err(TrialError::Testbed(format!("the ledger does not close: {ledger:?}")))
        }
    }

    fn check(&self) -> Result<(), TrialError> {
        match self.errors.iter().find_map(|signs| signs.error.take()) {
            Some(error) => Err(TrialError::Testbed(format!("a driver gave up: {error}"))),
            None => Ok(()),
        }
    }
}

/// A setup of two cards with an app between them. A load is that of both directions together, half of it each.
pub struct Forwarding {
    setup: Setup,
    app: Forwarder,
    affinity: Affinity,
}

impl Forwarding {
    /// The app on this set-up; all interrupts go to the first CPU.
    pub fn new(setup: Setup, app: Forwarder) -> Self {
        Self { setup, app, affinity: Affinity::Bound }
    }

    /// The same with interrupts otherwise.
    pub fn with(self, affinity: Affinity) -> Self {
        Self { affinity, ..self }
    }

    /// What it is made of.
    pub fn setup(&self) -> &Setup {
        &self.setup
    }

    /// Frames come in by a port each, one every `every_ms`, and what leaves because of each is heard: the app in its machine, beside any
    /// load, with ARP questions and ICMP errors of its own. An error if a frame is lost on its way to the app or from it.
    pub fn conversation(
        &self,
        size: Size,
        frames: &[AtPort],
        every_ms: u32,
        go_on: &dyn Fn() -> bool,
    ) -> Result<Conversation, TrialError> {
        let heard = Rc::new(RefCell::new(Vec::new()));
        let far =
            [0, 1].map(|port| Box::new(Hearing { port, heard: Rc::clone(&heard) }) as Box<dyn Receiver>);
        let (room, stack, errors) = self.assemble(size, far, &[])?;
        let mut left = Vec::with_capacity(frames.len());
        if let Some((port, _)) = frames.iter().find(|(port, _)| *port > 1) {
            return Err(TrialError::Load(format!("there is no port {port}: 0 and 1")));
        }
        for (port, frame) in frames {
            let now_ps = room.0.now_ps();
            let once = Once { frame: frame.clone(), at_ps: now_ps + slot_ps(size) };
            room.0.with_world(|world| world.set_traffic(*port, Box::new(once)));
            room.run(now_ps + u64::from(every_ms) * MS, go_on)?;
            left.push(heard.take());
        }
        if let Some(error) = errors.iter().find_map(|signs| signs.error.take()) {
            return Err(TrialError::Testbed(format!("a driver gave up: {error}")));
        }
        let ledger = stack.with_handler(Forwards::ledger);
        let came_out = left.iter().map(Vec::len).sum::<usize>() as u64;
        if !ledger.closes() || ledger.received != frames.len() as u64 || ledger.sent != came_out {
            let (came, ledger) = (frames.len(), format!("{ledger:?}"));
            return Err(TrialError::Testbed(format!(
                "{came} frames came, {came_out} left, the app says {ledger}"
            )));
        }
        Ok(Conversation { left, ledger })
    }

    fn check(&self, load: &Load) -> Result<(), TrialError> {
        let line_pps = line_pps(load.size);
        if load.offered_pps > 0.0 && load.offered_pps <= line_pps {
            return Ok(());
        }
        Err(TrialError::Load(format!(
            "a load of {:.0} pps cannot be offered: above 0 and at most two line rates, {line_pps:.0} pps",
            load.offered_pps
        )))
    }

    /// Forwards a load. The drivers' timers tick once within the warm-up, whose moment is as good as any: throttling that
    /// follows the traffic is then as this load makes it.
    pub fn forwarded(&self, load: &Load, go_on: &dyn Fn() -> bool) -> Result<Forwarded, TrialError> {
        self.check(load)?;
        let rig = Rig::build(self, load.size)?;
        let (room, machine) = (&rig.room, rig.machine());
        let begin = machine.now_ps() + slot_ps(load.size);
        let measure = begin + u64::from(load.warmup_ms) * MS;
        let end = measure + u64::from(load.duration_ms) * MS;
        let afterwards = end + u64::from(AFTERWARDS_MS) * MS;
        rig.ports.iter().for_each(|port| port.measure(measure, end));
        rig.stack.start_timers(machine, begin + (measure - begin) / 2);
        rig.load(load, begin, afterwards);

        room.run(measure, go_on)?;
        let from = rig.read();
        room.run(end, go_on)?;
        let to = rig.read();
        room.run(afterwards, go_on)?;
        rig.check()?;
        let wrong = rig.ports.iter().map(|port| port.wrong()).sum();
        check(wrong)?;

        let elapsed_ps = end - measure;
        let mut latency = Latency::default();
        rig.ports.iter().for_each(|port| port.add_latency(&mut latency));
        let directions = [0, 1].map(|index| Direction {
            sent: to.sent[index] - from.sent[index],
            forwarded: rig.ports[1 - index].measured(),
        });
        let cpus: Vec<_> =
            from.usage.iter().zip(&to.usage).map(|(a, b)| cpu_time(a, b, elapsed_ps)).collect();
        let trial = Trial {
            seconds: elapsed_ps as f64 / 1e12,
            sent: directions.iter().map(|d| d.sent).sum(),
            unsent: 0,
            delivered: directions.iter().map(|d| d.forwarded).sum(),
            taken: to.taken - from.taken,
            interrupts: to.counters.interrupts - from.counters.interrupts,
            register_reads: to.counters.register_reads - from.counters.register_reads,
            register_writes: to.counters.register_writes - from.counters.register_writes,
            allocations: to.counters.allocations - from.counters.allocations,
            cpu: mean(&cpus),
            bus_busy: share(from.bus_busy_ps, to.bus_busy_ps, elapsed_ps),
            latency,
            ledger: rig.ledger()?,
        };
        Ok(Forwarded {
            directions,
            wrong,
            overtaken: rig.ports.iter().map(|port| port.overtaken()).sum(),
            per_frame: PerFrame::between(
                (from.counters, from.transactions),
                (to.counters, to.transactions),
                trial.taken,
            ),
            mask_writes: to.counters.mask_writes - from.counters.mask_writes,
            cpus,
            profile: to.profile.since(&from.profile),
            stalls: [0, 1].map(|port| rig.stack.stall(port)),
            trial,
        })
    }

    /// Whether a load (its times aside) makes transmit queues time out: stopped, with nothing sent, for longer than the
    /// kernel's limit of seconds.
    ///
    /// Nothing is scaled. The load is on for [`WATCH_MS`]; if no queue is then in a stop of [`SUSPECT_MS`] or more, stops end
    /// by themselves, many times within that time, and none will last for seconds. Otherwise the machine runs on until
    /// the limit is over, or the queue goes on.
    pub fn watchdogs(&self, load: &Load, go_on: &dyn Fn() -> bool) -> Result<Watchdogs, TrialError> {
        self.check(load)?;
        let rig = Rig::build(self, load.size)?;
        let limit_ps = match &self.setup.stack_params {
            StackParams::Linux24(linux24::Params { watchdog_ps, .. }) => *watchdog_ps,
            StackParams::Linux22(_) | StackParams::FreeBsd(_) => u64::MAX,
        };
        let machine = rig.machine();
        let begin = machine.now_ps() + slot_ps(load.size);
        rig.stack.start_timers(machine, begin + u64::from(WATCH_MS) * MS / 2);
        rig.load(load, begin, u64::MAX);
        rig.room.run(begin + u64::from(WATCH_MS) * MS, go_on)?;
        let stopped_ps = |stall: Stall| {
            if stall.stopped { machine.now_ps() - stall.last_sent_ps } else { 0 }
        };
        let stalls = || [0, 1].map(|port| rig.stack.stall(port));
        // As long as a queue stays in a long stop, until the kernel would have had enough of all of them.
        while stalls().iter().any(|&stall| (SUSPECT_MS * MS..=limit_ps).contains(&stopped_ps(stall))) {
            rig.room.run(machine.now_ps() + SUSPECT_MS * MS, go_on)?;
        }
        rig.check()?;
        rig.ledger()?;
        let longest = stalls().iter().map(|&stall| stall.longest_ps.max(stopped_ps(stall))).max();
        Ok(Watchdogs {
            timeouts: stalls().iter().filter(|&&stall| stopped_ps(stall) > limit_ps).count() as u32,
            longest_stop_ms: longest.unwrap_or(0) as f64 / MS as f64,
            simulated_ms: ((machine.now_ps() - begin) / MS) as u32,
        })
    }
}

impl Testbed for Forwarding {
    fn line_rate_pps(&self, size: Size) -> f64 {
        line_pps(size)
    }

    fn trial_while(&mut self, load: &Load, go_on: &dyn Fn() -> bool) -> Result<Trial, TrialError> {
        self.forwarded(load, go_on).map(|forwarded| forwarded.trial)
    }
}

/// The highest rate that both wires carry together.
pub fn line_pps(size: Size) -> f64 {
    2.0 * rate::line_rate_pps(rate::GIGABIT, size)
}

/// How the time of several CPUs went on average.
fn mean(cpus: &[Cpu]) -> Cpu {
    let share = |of: fn(&Cpu) -> f64| cpus.iter().map(of).sum::<f64>() / cpus.len().max(1) as f64;
    Cpu {
        hardirq: share(|cpu| cpu.hardirq),
        softirq: share(|cpu| cpu.softirq),
        thread: share(|cpu| cpu.thread),
        empty_polls: share(|cpu| cpu.empty_polls),
    }
}

/// The variants of Lunz 2003 by the names of the study, with their presets.
pub const VARIANTS: [(&str, &str); 6] = [
    ("4.4.x", "intel-4.4.x"),
    ("5.0.43-k1", "intel-5.0.43-k1"),
    ("ro1", "ro1"),
    ("ro2", "ro2"),
    ("ro3", "ro3"),
    ("sf1", "sf1"),
];

/// A variant of [`VARIANTS`], or any preset, on the machine `lunz2003`, with rings of `ring` (80: set 1, 256: set 2) and
/// receive checksum offload on or off.
pub fn lunz2003(preset: &str, ring: u16, rx_checksum: bool) -> Result<Setup, SetupError> {
    let mut setup = Setup::named("lunz2003", None, preset)?;
    (setup.config.rx_ring, setup.config.tx_ring) = (ring, ring);
    setup.config.rx_checksum = rx_checksum;
    Ok(setup)
}
