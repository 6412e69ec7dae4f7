//! An app between the two ports of a tester, full duplex: a bridge, a router, a NAT. Each frame that comes
//! out of the other port is compared with the expected frame.

use crate::app::{AppHandler, AppKind};
use crate::device::e1000::E1000;
use crate::experiment::{Phases, offered_pps};
use crate::ledger::{Places, remaining};
use crate::per_frame::PerFrame;
use crate::setup::{Setup, SetupError};
use crate::simulation::Simulation;
use crate::sink::{TesterPort, TesterReceiver, check};
use crate::source::{ConstantRate, phase_ps, slot_ps};
use crate::stack_params::StackParams;
use kpps_datasheet::Chip;
use kpps_documents::{Cpu, Ledger, Trial};
use kpps_frames::{Mix, Size, rate};
use kpps_host::cpu::Profile;
use kpps_host::stack::linux24::{Stall, Tally};
use kpps_host::stack::{freebsd, linux22, linux24};
use kpps_host::wire::{FrameSource, Receiver};
use kpps_host::{MS, Machine};
use kpps_methods::{AFTERWARDS_MS, Latency, Load, Testbed, TrialError, only_size};
use std::cell::{Cell, RefCell};
use std::rc::Rc;

/// One direction.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Direction {
    /// Frames sent in the measured time.
    pub sent: u64,
    /// Of these, frames that came out at the other end.
    pub forwarded: u64,
}

/// The result of an app at a load.
pub struct Forwarded {
    /// Both directions together.
    pub trial: Trial,
    /// From port 0 to port 1, and back.
    pub directions: [Direction; 2],
    /// Frames that came out twice, changed, where they came in, or that were never sent. Always 0: otherwise
    /// the trial fails.
    pub wrong: u64,
    /// Frames that came out later than ones sent after them.
    pub overtaken: u64,
    /// Counts for each frame that the drivers took in the measured time; `None` if they took none.
    pub per_frame: Option<PerFrame>,
    /// Mask writes in the measured time.
    pub mask_writes: u64,
    /// How each simulated CPU's time went.
    pub cpus: Vec<Cpu>,
    /// Where it went, by level and function.
    pub profile: Profile,
    /// The state of the two transmit queues at the end.
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

/// The result of an app for frames that came in one after the other.
pub struct Conversation {
    /// For each of them, the frames that left because of it.
    pub left: Vec<Vec<AtPort>>,
    /// The app's ledger.
    pub ledger: kpps_apps::Ledger,
}

/// Keeps the frames that come out of a port.
struct Recorder {
    port: usize,
    frames: Rc<RefCell<Vec<AtPort>>>,
}

impl Receiver for Recorder {
    fn receive(&mut self, _now_ps: u64, frame: &[u8]) {
        self.frames.borrow_mut().push((self.port, frame.to_vec()));
    }
}

/// One frame, whose last bit arrives at `at_ps`.
struct Once {
    frame: Vec<u8>,
    at_ps: u64,
}

impl FrameSource for Once {
    fn next_ps(&self) -> u64 {
        self.at_ps
    }
    fn frame(&mut self) -> &[u8] {
        self.at_ps = u64::MAX;
        &self.frame
    }
}

/// The findings of the transmit watchdog.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Watchdogs {
    /// Transmit queues that were stopped, with nothing sent, for longer than the kernel's limit: one timeout
    /// each.
    pub timeouts: u32,
    /// The longest time a queue was stopped with nothing sent, in milliseconds.
    pub longest_stop_ms: f64,
    /// Virtual time under load, in milliseconds.
    pub simulated_ms: u32,
}

/// How long the load is on before a transmit queue is suspected to stay stopped.
const WATCH_MS: u32 = 300;
/// A queue that has been stopped for less than this after [`WATCH_MS`] goes on and stops again by itself.
const SUSPECT_MS: u64 = 100;

/// The app on a running stack, whichever that is.
enum Running {
    Linux22(linux22::Stack<E1000, AppHandler>),
    Linux24(linux24::Stack<E1000, AppHandler>),
    FreeBsd(freebsd::Stack<E1000, AppHandler>),
}

impl Running {
    /// Starts the stack for cards in slots 0, 1, …, whose interrupts go to `cpus` CPUs in turn.
    fn start(
        machine: &Machine,
        params: &StackParams,
        devices: Vec<E1000>,
        cpus: usize,
        handler: AppHandler,
    ) -> Self {
        let devices = devices.into_iter().enumerate().map(|(slot, device)| (slot, device.service(), device));
        match params.clone() {
            StackParams::Linux22(params) => {
                let attach = devices.map(|(slot, service, device)| linux22::Attach { device, slot, service });
                Self::Linux22(linux22::Stack::start(machine, params, attach.collect(), handler))
            }
            StackParams::Linux24(params) => {
                let attach = devices.map(|(slot, service, device)| linux24::Attach {
                    device,
                    slot,
                    service,
                    cpu: slot % cpus,
                });
                Self::Linux24(linux24::Stack::start(machine, params, attach.collect(), handler))
            }
            StackParams::FreeBsd(params) => {
                let attach = devices.map(|(slot, service, device)| freebsd::Attach { device, slot, service });
                Self::FreeBsd(freebsd::Stack::start(machine, params, attach.collect(), handler))
            }
        }
    }

    fn start_timers(&self, machine: &Machine, first_ps: u64) {
        match self {
            Self::Linux22(stack) => stack.start_timers(machine, first_ps),
            Self::Linux24(stack) => stack.start_timers(machine, first_ps),
            Self::FreeBsd(stack) => stack.start_timers(machine, first_ps),
        }
    }

    /// Where the frames of a port are or ended, in the words of Linux 2.4.
    fn tally(&self, port: usize) -> Tally {
        match self {
            Self::Linux24(stack) => stack.tally(port),
            Self::Linux22(stack) => {
                let t = stack.tally(port);
                Tally {
                    from_driver: t.from_driver,
                    dropped_backlog: t.dropped_backlog,
                    in_backlog: t.in_backlog,
                    dropped_app_queue: t.dropped_queue,
                    in_app_queue: t.in_queue,
                    in_hand: t.in_hand,
                    ended: t.consumed,
                    to_queue: t.to_device,
                    dropped_queue: t.dropped_device,
                    in_queue: t.in_device,
                    to_card: t.to_card,
                }
            }
            Self::FreeBsd(stack) => {
                let t = stack.tally(port);
                Tally {
                    from_driver: t.from_driver,
                    dropped_backlog: t.dropped_input,
                    in_backlog: t.in_input,
                    in_hand: t.in_hand,
                    ended: t.ended,
                    to_queue: t.queued + t.dropped_transmit,
                    dropped_queue: t.dropped_transmit,
                    in_queue: t.queued - t.to_card,
                    to_card: t.to_card,
                    ..Tally::default()
                }
            }
        }
    }

    /// The state of a port's transmit queue. Only Linux 2.4 and 2.6 stop one.
    fn stall(&self, port: usize) -> Stall {
        match self {
            Self::Linux24(stack) => stack.stall(port),
            Self::Linux22(_) | Self::FreeBsd(_) => Stall::default(),
        }
    }

    fn with_handler<R>(&self, read: impl FnOnce(&AppHandler) -> R) -> R {
        match self {
            Self::Linux22(stack) => stack.with_handler(read),
            Self::Linux24(stack) => stack.with_handler(read),
            Self::FreeBsd(stack) => stack.with_handler(read),
        }
    }
}

/// A machine with the app on it, before anything has come in.
type Assembled = (Simulation, Running);

impl ForwardingTestbed {
    /// Builds the machine: `far` receives the frames of each port, and `connections` have been made.
    fn assemble(
        &self,
        size: Size,
        far: [Box<dyn Receiver>; 2],
        connections: &[Vec<u8>],
    ) -> Result<Assembled, TrialError> {
        let Self { setup, app, .. } = self;
        let mut setup = setup.clone().for_frames(size);
        setup.config.promiscuous |= app.is_promiscuous();
        let mut cards = Vec::with_capacity(far.len());
        for (index, far) in far.into_iter().enumerate() {
            let mut card = setup.card.clone();
            // The two ports of one card, or a card each.
            card.port = if card.chip == Chip::I82546eb { index as u8 } else { 0 };
            cards.push((card, far));
        }
        let cpus = if setup.spreads_interrupts() { 2 } else { 1 };
        let (simulation, devices) = Simulation::build(&setup, cpus, 0, cards)?;
        let connections = connections.iter().map(Vec::as_slice);
        let now_ps = simulation.machine().now_ps();
        let handler = AppHandler::new(*app, size, &devices[0], connections, now_ps)?;
        let stack = Running::start(simulation.machine(), &setup.stack_params, devices, cpus, handler);
        Ok((simulation, stack))
    }
}

/// The app between the ports of its tester.
struct Rig {
    simulation: Simulation,
    stack: Running,
    ports: [Rc<TesterPort>; 2],
    /// The frames that the tester sends into each port, in turn.
    frames: [Vec<Vec<u8>>; 2],
    sent: [Rc<Cell<u64>>; 2],
    rx_ring: u16,
}

/// The readings besides the machine's counters.
struct Reading {
    sent: [u64; 2],
    /// Frames that the drivers have handed up.
    taken: u64,
}

impl Rig {
    fn build(testbed: &ForwardingTestbed, size: Size) -> Result<Self, TrialError> {
        let app = testbed.app;
        let pairs = [app.frames(0, size)?, app.frames(1, size)?];
        let [(there, there_out), (back, back_out)] = pairs.map(|pairs| {
            pairs.into_iter().map(|[came, leaves]| (came, leaves)).unzip::<_, _, Vec<_>, Vec<_>>()
        });
        let ports = [Rc::new(TesterPort::default()), Rc::new(TesterPort::default())];
        // Frames that port 1 sent come out of port 0, and vice versa.
        let far = |index: usize, flows| {
            let receiver = TesterReceiver::new(Rc::clone(&ports[index]), flows, 1 - index as u16);
            Box::new(receiver) as Box<dyn Receiver>
        };
        let far = [far(0, back_out), far(1, there_out)];
        let connections = if app == AppKind::Nat { &there[..] } else { &[] };
        let (simulation, stack) = testbed.assemble(size, far, connections)?;
        let rx_ring = testbed.setup.config.rx_ring;
        Ok(Self { simulation, stack, ports, frames: [there, back], sent: Default::default(), rx_ring })
    }

    /// Puts the load on from `begin_ps` to `end_ps`.
    fn load(&self, offered_pps: f64, seed: u64, ways: u8, (begin_ps, end_ps): (u64, u64)) {
        let pps = offered_pps / f64::from(ways);
        for (index, frames) in self.frames.iter().enumerate().take(ways.into()) {
            let first_ps = begin_ps + phase_ps(seed + index as u64, (1e12 / pps) as u64);
            let sent = Rc::clone(&self.sent[index]);
            let source = ConstantRate::of_flows(frames.clone(), pps, first_ps, end_ps, sent);
            let source = source.in_stream(index as u16);
            self.simulation.machine().with_world(|world| world.set_traffic(index, Box::new(source)));
        }
    }

    fn tallies(&self) -> [Tally; 2] {
        [0, 1].map(|port| self.stack.tally(port))
    }

    fn read(&self) -> Reading {
        Reading {
            sent: [0, 1].map(|index| self.sent[index].get()),
            taken: self.tallies().iter().map(|t| t.from_driver).sum(),
        }
    }

    /// Where every frame is or ended.
    fn ledger(&self) -> Result<Ledger, TrialError> {
        let now = self.simulation.snapshot(());
        let mut places = Places::default();
        let (mut delivered, mut ended) = (0, 0);
        for (port, (card, driver)) in now.cards.iter().zip(&now.drivers).enumerate() {
            let tally = self.stack.tally(port);
            places.card(card, (driver.dropped, tally.from_driver), self.rx_ring)?;
            places.dropped("backlog", tally.dropped_backlog);
            places.dropped_if_any("app-queue", tally.dropped_app_queue);
            places.dropped("queue", tally.dropped_queue);
            places.in_flight("backlog", tally.in_backlog);
            places.in_flight("app", tally.in_app_queue + tally.in_hand);
            places.in_flight("queue", tally.in_queue);
            let sent = card.transmitted + card.tx_discarded;
            places.in_flight("transmit", remaining("given to the card", tally.to_card, sent)?);
            ended += tally.ended;
            let arrived = self.ports[port].frames();
            if arrived != card.transmitted {
                return Err(TrialError::Testbed(format!(
                    "port {port}: the tester received {arrived} of {} frames",
                    card.transmitted
                )));
            }
            delivered += arrived;
        }
        let (reasons, held) = self.stack.with_handler(AppHandler::account);
        let accounted = reasons.iter().map(|(_, frames)| frames).sum::<u64>();
        if accounted != ended {
            return Err(TrialError::Testbed(format!(
                "{ended} frames ended in the app, which accounts for {accounted}"
            )));
        }
        for (reason, frames) in reasons {
            places.dropped_if_any(reason.name(), frames);
        }
        places.in_flight("app", held);
        places.close(self.sent.iter().map(|sent| sent.get()).sum(), delivered)
    }
}

/// A setup of two cards with an app between them. A load is that of both directions together, half of it
/// each.
pub struct ForwardingTestbed {
    setup: Setup,
    app: AppKind,
    /// How many of the two cards get a load.
    ways: u8,
}

impl ForwardingTestbed {
    /// The app on this set-up.
    pub fn new(setup: Setup, app: AppKind) -> Self {
        Self { setup, app, ways: 2 }
    }

    /// The same with the whole load on the first card.
    pub fn one_way(self) -> Self {
        Self { ways: 1, ..self }
    }

    /// The set-up that it is made of.
    pub fn setup(&self) -> &Setup {
        &self.setup
    }

    /// Sends frames into a port each, one every `every_ms`, and returns what leaves because of each: the app
    /// in its machine without any load, with its own ARP requests and ICMP errors. An error if a frame is
    /// lost on its way to the app or from it.
    pub fn conversation(
        &self,
        size: Size,
        frames: &[AtPort],
        every_ms: u32,
        go_on: &dyn Fn() -> bool,
    ) -> Result<Conversation, TrialError> {
        if let Some((port, _)) = frames.iter().find(|(port, _)| *port > 1) {
            return Err(TrialError::Load(format!("there is no port {port}: 0 and 1")));
        }
        let came_out = Rc::new(RefCell::new(Vec::new()));
        let far =
            [0, 1].map(|port| Box::new(Recorder { port, frames: Rc::clone(&came_out) }) as Box<dyn Receiver>);
        let (simulation, stack) = self.assemble(size, far, &[])?;
        let machine = simulation.machine();
        let mut left = Vec::with_capacity(frames.len());
        for (port, frame) in frames {
            let now_ps = machine.now_ps();
            let once = Once { frame: frame.clone(), at_ps: now_ps + slot_ps(size) };
            machine.with_world(|world| world.set_traffic(*port, Box::new(once)));
            simulation.run(now_ps + u64::from(every_ms) * MS, go_on)?;
            left.push(came_out.take());
        }
        simulation.check()?;
        let ledger = stack.with_handler(AppHandler::ledger);
        let sent = left.iter().map(Vec::len).sum::<usize>() as u64;
        if !ledger.closes() || ledger.received != frames.len() as u64 || ledger.sent != sent {
            let (came, ledger) = (frames.len(), format!("{ledger:?}"));
            return Err(TrialError::Testbed(format!(
                "{came} frames came and {sent} left, but the app's ledger is {ledger}"
            )));
        }
        Ok(Conversation { left, ledger })
    }

    /// The rate of a load in frames per second, and the size of its frames.
    fn offered(&self, load: &Load) -> Result<(f64, Size), TrialError> {
        let (size, most_pps) = (load.size()?, self.line_rate_pps(&load.sizes)?);
        let wires = if self.ways == 1 { "line rate" } else { "two line rates" };
        let pps = offered_pps(load.rate, most_pps, wires)?;
        self.setup.check_size(size)?;
        Ok((pps, size))
    }

    /// Forwards a load. The drivers' timers tick once, in the middle of the warm-up, so that throttling that
    /// follows the traffic is as this load makes it.
    pub fn forwarded(&self, load: &Load, go_on: &dyn Fn() -> bool) -> Result<Forwarded, TrialError> {
        let (offered_pps, size) = self.offered(load)?;
        let rig = Rig::build(self, size)?;
        let machine = rig.simulation.machine();
        let begin_ps = machine.now_ps() + slot_ps(size);
        let phases = Phases::of(begin_ps, load)?.draining(AFTERWARDS_MS);
        for (port, frames) in rig.ports.iter().zip(rig.frames.iter().rev()) {
            port.measure(phases.measure_ps, phases.end_ps, frames.len());
        }
        rig.stack.start_timers(machine, begin_ps + (phases.measure_ps - begin_ps) / 2);
        rig.load(offered_pps, load.seed, self.ways, (begin_ps, phases.drained_ps));

        let interval = rig.simulation.measure(&phases, go_on, |_| rig.read())?;
        let wrong = rig.ports.iter().map(|port| port.wrong()).sum();
        check(wrong)?;
        let mut latency = Latency::default();
        rig.ports.iter().for_each(|port| port.add_latency(&mut latency));
        let directions = [0, 1].map(|index| Direction {
            sent: interval.count(|s| s.own.sent[index]),
            forwarded: rig.ports[1 - index].measured(),
        });
        let sent = directions.iter().map(|d| d.sent).sum();
        let delivered = directions.iter().map(|d| d.forwarded).sum();
        let taken = interval.count(|s| s.own.taken);
        // A direction without a load has no queue.
        let with_load = rig.ports.iter().rev().take(self.ways.into());
        let queue_growth = with_load.map(|port| port.queue_growth()).sum();
        Ok(Forwarded {
            directions,
            wrong,
            overtaken: rig.ports.iter().map(|port| port.overtaken()).sum(),
            per_frame: interval.per_frame(taken),
            mask_writes: interval.count(|s| s.counters.mask_writes),
            cpus: interval.cpus(),
            profile: interval.profile(),
            stalls: [0, 1].map(|port| rig.stack.stall(port)),
            trial: interval
                .trial(load, offered_pps, (sent, delivered, taken), &latency, rig.ledger()?)?
                .with_queue_growth(queue_growth),
        })
    }

    /// Whether a load (its times aside) makes transmit queues time out: stopped, with nothing sent, for
    /// longer than the kernel's limit of seconds.
    ///
    /// Nothing is scaled. The load is on for `WATCH_MS`. If no queue has then been stopped for
    /// `SUSPECT_MS` or more, stops end by themselves, many times within that time, and none will last for
    /// seconds. Otherwise the machine runs on until the limit is over, or the queue goes on.
    pub fn watchdogs(&self, load: &Load, go_on: &dyn Fn() -> bool) -> Result<Watchdogs, TrialError> {
        let (offered_pps, size) = self.offered(load)?;
        let rig = Rig::build(self, size)?;
        let limit_ps = match &self.setup.stack_params {
            StackParams::Linux24(linux24::Params { watchdog_ps, .. }) => *watchdog_ps,
            StackParams::Linux22(_) | StackParams::FreeBsd(_) => u64::MAX,
        };
        let machine = rig.simulation.machine();
        let begin_ps = machine.now_ps() + slot_ps(size);
        rig.stack.start_timers(machine, begin_ps + u64::from(WATCH_MS) * MS / 2);
        rig.load(offered_pps, load.seed, self.ways, (begin_ps, u64::MAX));
        rig.simulation.run(begin_ps + u64::from(WATCH_MS) * MS, go_on)?;
        let stopped_ps = |stall: Stall| {
            if stall.stopped { machine.now_ps() - stall.last_sent_ps } else { 0 }
        };
        let stalls = || [0, 1].map(|port| rig.stack.stall(port));
        // As long as a queue stays in a long stop, until the kernel's limit is over for all of them.
        while stalls().iter().any(|&stall| (SUSPECT_MS * MS..=limit_ps).contains(&stopped_ps(stall))) {
            rig.simulation.run(machine.now_ps() + SUSPECT_MS * MS, go_on)?;
        }
        rig.simulation.check()?;
        rig.ledger()?;
        let longest = stalls().iter().map(|&stall| stall.longest_ps.max(stopped_ps(stall))).max();
        Ok(Watchdogs {
            timeouts: stalls().iter().filter(|&&stall| stopped_ps(stall) > limit_ps).count() as u32,
            longest_stop_ms: longest.unwrap_or(0) as f64 / MS as f64,
            simulated_ms: ((machine.now_ps() - begin_ps) / MS) as u32,
        })
    }
}

impl Testbed for ForwardingTestbed {
    fn shows_all_queues(&self) -> bool {
        true
    }

    fn line_rate_pps(&self, sizes: &Mix) -> Result<f64, TrialError> {
        Ok(line_pps(only_size(sizes)?) * f64::from(self.ways) / 2.0)
    }

    fn trial_while(&mut self, load: &Load, go_on: &dyn Fn() -> bool) -> Result<Trial, TrialError> {
        self.forwarded(load, go_on).map(|forwarded| forwarded.trial)
    }
}

/// The highest rate that both wires carry together.
pub fn line_pps(size: Size) -> f64 {
    2.0 * rate::line_rate_pps(rate::GIGABIT, size)
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

/// A variant of [`VARIANTS`], or any preset, on the machine `lunz2003`, with rings of `ring` (80: set 1, 256:
/// set 2) and receive checksum offload on or off.
pub fn lunz2003(preset: &str, ring: u16, rx_checksum: bool) -> Result<Setup, SetupError> {
    let mut setup = Setup::named("lunz2003", None, preset)?;
    (setup.config.rx_ring, setup.config.tx_ring) = (ring, ring);
    setup.config.rx_checksum = rx_checksum;
    Ok(setup)
}
