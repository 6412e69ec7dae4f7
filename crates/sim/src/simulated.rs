//! The machine room as a testbed: a card, its driver, a host and its stack, under a load from the wire.

use crate::netdev::{Bound, Frame};
use crate::per_frame::PerFrame;
use crate::running::{Running, Sink};
use crate::setup::Setup;
use crate::traffic::{ConstantRate, slot_ps};
use kpps_apps::{Counter, Discard, Push};
use kpps_driver::service::Spent;
use kpps_frames::build::{Flow, udp_test};
use kpps_frames::{Mac, Size, rate, tag};
use kpps_machine::cpu::{Counters, Function, Level, Profile, Usage};
use kpps_machine::memory::Memory;
use kpps_machine::platform::{Allocator, Buf, Card, SMALL_BYTES, memory_bytes};
use kpps_machine::stack::IntoBuffer;
use kpps_machine::stack::linux22::Tally;
use kpps_machine::wire::{Receiver, Silence};
use kpps_machine::{MS, Machine, NS, World};
use kpps_measure::{AFTERWARDS_MS, Latency, Load, Testbed, Trial, TrialError};
use kpps_model::Nic;
use kpps_results::{Cpu, Ledger};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

/// The card's station address.
pub(crate) const CARD: Mac = Mac([2, 0, 0, 0, 0, 2]);
/// Bytes of a packet buffer at least: any frame without jumbo can be sent from one.
const LEAST_BUFFER_BYTES: usize = 2048;
/// How long a trial runs, in virtual time, before it asks whether anybody still wants it.
const PATIENCE_PS: u64 = 100 * MS;

/// A machine with its contexts, taken apart when it goes out of scope.
pub(crate) struct Room(pub Machine);

impl Drop for Room {
    fn drop(&mut self) {
        self.0.halt();
    }
}

impl Room {
    /// Runs until `until_ps`, asking every [`PATIENCE_PS`] of virtual time whether to go on.
    pub fn run(&self, until_ps: u64, go_on: &dyn Fn() -> bool) -> Result<(), TrialError> {
        while self.0.now_ps() < until_ps {
            if !go_on() {
                return Err(TrialError::Interrupted);
            }
            self.0.run(until_ps.min(self.0.now_ps() + PATIENCE_PS));
        }
        Ok(())
    }

    /// Builds the machine, with the card in slot 0 and `receiver` at the far end of its wire, probes the driver and waits
    /// for the link. Of the machine's CPUs only the one that serves the card is simulated: the others idle.
    pub fn build(setup: &Setup, receiver: Box<dyn Receiver>) -> Result<(Self, Bound), TrialError> {
        Self::with_spare(setup, 1, 0, receiver)
    }

    /// The same with `cpus` CPUs, and so many buffers more than what driver and stack hold.
    pub fn with_spare(
        setup: &Setup,
        cpus: usize,
        spare: usize,
        receiver: Box<dyn Receiver>,
    ) -> Result<(Self, Bound), TrialError> {
        let (room, bound) = Self::with_cards_and(setup, cpus, vec![(setup.card.clone(), receiver)], spare)?;
        let bound = bound.into_iter().next();
        Ok((room, bound.ok_or_else(|| TrialError::Testbed("a machine without a card".into()))?))
    }

    /// The same with several cards, in slots 0, 1 …, each with what is at the far end of its wire, and `cpus` CPUs.
    pub fn with_cards(
        setup: &Setup,
        cpus: usize,
        cards: Vec<(kpps_model::Params, Box<dyn Receiver>)>,
    ) -> Result<(Self, Vec<Bound>), TrialError> {
        Self::with_cards_and(setup, cpus, cards, 0)
    }

    fn with_cards_and(
        setup: &Setup,
        cpus: usize,
        cards: Vec<(kpps_model::Params, Box<dyn Receiver>)>,
        spare: usize,
    ) -> Result<(Self, Vec<Bound>), TrialError> {
        let rings = usize::from(setup.config.rx_ring.max(setup.config.tx_ring));
        // Every place that can hold a frame is full, and then some: the allocator never runs dry.
        let buffers = cards.len() * (2 * rings + setup.stack_params.most_frames() + 512) + spare;
        let buffer_bytes = usize::from(setup.config.rx_buffer_bytes).max(LEAST_BUFFER_BYTES);
        let small = if setup.config.rx_copybreak_bytes > 0 { buffers } else { 0 };
        let bytes =
            memory_bytes(2 * cards.len(), buffers, buffer_bytes) + memory_bytes(0, small, SMALL_BYTES);
        let memory = Memory::new(bytes, setup.host_params.cache_line_bytes);
        let mut world = World::new(memory, setup.bus_params.clone());
        let mut slots = Vec::with_capacity(cards.len());
        for (index, (card, receiver)) in cards.into_iter().enumerate() {
            let mut address = CARD.0;
            // In the EEPROM of a card with two ports is the first one's address, of which drivers make the other's.
            address[5] = (address[5] + index as u8) ^ card.port;
            let chip = card.chip;
            slots.push((world.plug(Nic::new(card, address), Box::new(Silence), receiver), chip));
        }
        let room = Self(Machine::with_cpus(setup.host_params.clone(), world, cpus));
        let allocator = Allocator::new(&room.0, buffers, buffer_bytes).with_small(small);
        let bound = slots.into_iter().map(|(slot, chip)| {
            Bound::probe(Card::new(&room.0, slot), chip, &setup.config, allocator.clone()).map_err(|e| {
                TrialError::Testbed(format!("the driver does not start on the {}: {e}", setup.chip))
            })
        });
        let bound = bound.collect::<Result<_, _>>()?;
        Ok((room, bound))
    }
}

/// What is seen of the frames that were sent after `from_ps` and until `to_ps`.
pub(crate) struct Measured {
    from_ps: u64,
    to_ps: u64,
    pub delivered: u64,
    pub latency: Latency,
}

impl Measured {
    pub fn between(from_ps: u64, to_ps: u64) -> Self {
        Self { from_ps, to_ps, delivered: 0, latency: Latency::default() }
    }

    /// A frame has reached its end at `now_ps`.
    #[inline]
    pub fn note(&mut self, now_ps: u64, frame: &[u8]) {
        if let Some(tag) = tag::read(frame)
            && tag.sent_ps > self.from_ps
            && tag.sent_ps <= self.to_ps
        {
            self.delivered += 1;
            self.latency.record((now_ps - tag.sent_ps) / NS);
        }
    }
}

/// `Counter -> Discard`, with an instrument at its end that costs no simulated time.
struct CountAndDiscard {
    chain: Counter<Discard>,
    measured: Rc<RefCell<Measured>>,
}

impl Sink for CountAndDiscard {
    fn elements(&self) -> u32 {
        Push::<Frame>::elements(&self.chain)
    }
    #[inline]
    fn consume(&mut self, now_ps: u64, frame: Frame) -> Option<Buf> {
        self.measured.borrow_mut().note(now_ps, frame.as_ref());
        self.chain.push(frame).map(IntoBuffer::into_buffer)
    }
}

/// All counters at one instant.
struct Reading {
    sent: u64,
    card: kpps_model::Tally,
    stack: Tally,
    usage: Usage,
    profile: Profile,
    counters: Counters,
    bus_busy_ps: u64,
    transactions: u64,
    driver_dropped: u64,
    spent: Spent,
    tail_writes: u64,
}

impl Reading {
    /// Frames lost, by place.
    fn places(&self) -> BTreeMap<String, u64> {
        let card = &self.card.dropped;
        let other = card.total() - card.fifo_engine - card.fifo_no_descriptor - card.filtered;
        [
            ("fifo", card.fifo_engine),
            ("ring", card.fifo_no_descriptor),
            ("filter", card.filtered),
            ("card_other", other),
            ("driver", self.driver_dropped),
            ("backlog", self.stack.dropped_backlog),
            ("queue", self.stack.dropped_queue),
        ]
        .into_iter()
        .filter(|(place, frames)| *frames > 0 || matches!(*place, "fifo" | "ring" | "backlog" | "queue"))
        .map(|(place, frames)| (place.to_owned(), frames))
        .collect()
    }

    /// Frames on their way, by place. `ring` is a difference: stored by the card, not yet taken up by the driver.
    fn in_flight(&self, setup: &Setup) -> Result<BTreeMap<String, u64>, TrialError> {
        let taken = self.stack.from_driver + self.driver_dropped;
        let ring = self.card.to_host.checked_sub(taken).ok_or_else(|| {
            TrialError::Testbed(format!(
                "the driver took {taken} frames, the card stored only {}",
                self.card.to_host
            ))
        })?;
        if ring > u64::from(setup.config.rx_ring) {
            return Err(TrialError::Testbed(format!("{ring} frames in a ring of {}", setup.config.rx_ring)));
        }
        Ok([
            ("fifo", self.card.in_fifo),
            ("ring", ring),
            ("backlog", self.stack.in_backlog),
            ("queue", self.stack.in_queue),
            ("app", self.stack.in_hand),
        ]
        .into_iter()
        .map(|(place, frames)| (place.to_owned(), frames))
        .collect())
    }
}

/// What share of `elapsed_ps` lies between two readings of a clock.
pub(crate) fn share(from_ps: u64, to_ps: u64, elapsed_ps: u64) -> f64 {
    (to_ps - from_ps) as f64 / elapsed_ps as f64
}

/// How the CPU's time went between two readings.
pub(crate) fn cpu_time(from: &Usage, to: &Usage, elapsed_ps: u64) -> Cpu {
    let empty_polls = share(from.empty_poll_ps, to.empty_poll_ps, elapsed_ps);
    Cpu {
        hardirq: share(from.hardirq_ps, to.hardirq_ps, elapsed_ps),
        softirq: share(from.softirq_ps, to.softirq_ps, elapsed_ps),
        thread: share(from.thread_ps, to.thread_ps, elapsed_ps) - empty_polls,
        empty_polls,
    }
}

/// A simulated testbed.
pub struct Simulated {
    setup: Setup,
    computes: bool,
}

impl Simulated {
    /// A testbed with this set-up.
    pub fn new(setup: Setup) -> Self {
        Self { setup, computes: false }
    }

    /// The same with a process that computes all the time that is left to it.
    pub fn computing(self) -> Self {
        Self { computes: true, ..self }
    }

    /// What it is made of.
    pub fn setup(&self) -> &Setup {
        &self.setup
    }
}

/// What a driver's books say, as shares of the CPU's time: [`Spent`].
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Accounted {
    /// Interrupts and frames.
    pub useful: f64,
    /// Looking for them.
    pub looking: f64,
    /// Polls that found nothing.
    pub vain: f64,
}

/// A trial, and what the CPU's time went for in it.
pub struct Profiled {
    /// The trial.
    pub trial: Trial,
    /// CPU time by level and function, in the measured time.
    pub profile: Profile,
    /// Counts for each frame that the driver took in the measured time.
    pub per_frame: PerFrame,
    /// Frames that the application consumed in the measured time, whenever they were sent.
    pub consumed: u64,
    /// Share of the CPU that a process got which computes.
    pub process: f64,
    /// Shares of the CPU that the driver says it took, if its service keeps books.
    pub accounted: Accounted,
    /// Writes of the receive tail for each frame that the driver took.
    pub tail_writes_per_frame: f64,
}

/// Where in its period the first frame falls: the one thing that a seed changes.
pub(crate) fn phase_ps(seed: u64, period_ps: u64) -> u64 {
    // The finaliser of SplitMix64 (Steele et al., OOPSLA 2014).
    let mut z = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    (z ^ (z >> 31)) % period_ps.max(1)
}

impl Testbed for Simulated {
    fn line_rate_pps(&self, size: Size) -> f64 {
        rate::line_rate_pps(rate::GIGABIT, size)
    }

    fn trial_while(&mut self, load: &Load, go_on: &dyn Fn() -> bool) -> Result<Trial, TrialError> {
        self.profiled(load, go_on).map(|profiled| profiled.trial)
    }
}

impl Simulated {
    /// Offers a load, accounts for it, and says what the CPU's time went for.
    pub fn profiled(&mut self, load: &Load, go_on: &dyn Fn() -> bool) -> Result<Profiled, TrialError> {
        let line_pps = self.line_rate_pps(load.size);
        if !(load.offered_pps > 0.0 && load.offered_pps <= line_pps) {
            return Err(TrialError::Load(format!(
                "a load of {:.0} pps cannot be offered: above 0 and at most line rate, {line_pps:.0} pps",
                load.offered_pps
            )));
        }
        let flow = Flow { to_mac: CARD, ..Flow::default() };
        let frame = udp_test(&flow, load.size).map_err(|e| TrialError::Load(e.to_string()))?;

        let setup = self.setup.clone().for_frames(load.size);
        let (room, bound) = Room::build(&setup, Box::new(kpps_machine::wire::Count::default()))?;
        let machine = &room.0;
        // One slot of silence, and the first frame begins.
        let begin = machine.now_ps() + slot_ps(load.size);
        let measure = begin + u64::from(load.warmup_ms) * MS;
        let end = measure + u64::from(load.duration_ms) * MS;
        let afterwards = end + u64::from(AFTERWARDS_MS) * MS;
        let measured = Rc::new(RefCell::new(Measured::between(measure, end)));
        let consumer = CountAndDiscard { chain: Counter::new(Discard), measured: Rc::clone(&measured) };
        let signs = bound.signs();
        // Neither element asks what the card says of a checksum.
        let stack = Running::start(machine, setup.stack_params.clone(), bound.unasked(), consumer);

        if self.computes {
            machine.spawn(Level::Process, |machine| {
                loop {
                    machine.spend_on(Function::Element, MS);
                }
            });
        }
        let sent = Rc::new(Cell::new(0));
        let first = begin + phase_ps(load.seed, (1e12 / load.offered_pps) as u64);
        let source = ConstantRate::new(frame, load.offered_pps, first, afterwards, Rc::clone(&sent));
        machine.with_world(|world| world.set_traffic(0, Box::new(source)));

        let read = || Reading {
            sent: sent.get(),
            card: machine.with_world(|world| *world.nic(0).tally()),
            stack: stack.tally(),
            usage: machine.usage(),
            profile: machine.profile(),
            counters: machine.counters(),
            bus_busy_ps: machine.with_world(|world| world.bus().busy_ps()),
            transactions: machine.with_world(|world| world.bus().transactions()),
            driver_dropped: signs.dropped.get(),
            spent: signs.spent.get(),
            tail_writes: signs.tail_writes.get(),
        };
        room.run(measure, go_on)?;
        let from = read();
        room.run(end, go_on)?;
        let to = read();
        room.run(afterwards, go_on)?;
        let last = read();
        if let Some(error) = signs.error.take() {
            return Err(TrialError::Testbed(format!("the driver gave up: {error}")));
        }

        let in_flight_at = last.in_flight(&setup)?;
        let ledger = Ledger {
            sent: last.sent,
            unsent: 0,
            delivered: last.stack.consumed,
            dropped: last.places(),
            in_flight: in_flight_at.values().sum(),
            in_flight_at,
        };
        if !ledger.closes() {
            return Err(TrialError::Testbed(format!("the ledger does not close: {ledger:?}")));
        }
        let elapsed_ps = end - measure;
        let mut measured = measured.borrow_mut();
        let trial = Trial {
            seconds: elapsed_ps as f64 / 1e12,
            sent: to.sent - from.sent,
            unsent: 0,
            delivered: measured.delivered,
            taken: to.stack.from_driver - from.stack.from_driver,
            interrupts: to.counters.interrupts - from.counters.interrupts,
            register_reads: to.counters.register_reads - from.counters.register_reads,
            register_writes: to.counters.register_writes - from.counters.register_writes,
            allocations: to.counters.allocations - from.counters.allocations,
            cpu: cpu_time(&from.usage, &to.usage, elapsed_ps),
            bus_busy: share(from.bus_busy_ps, to.bus_busy_ps, elapsed_ps),
            latency: std::mem::take(&mut measured.latency),
            ledger,
        };
        let per_frame = PerFrame::between(
            (from.counters, from.transactions),
            (to.counters, to.transactions),
            trial.taken,
        );
        Ok(Profiled {
            profile: to.profile.since(&from.profile),
            per_frame,
            consumed: to.stack.consumed - from.stack.consumed,
            process: share(from.usage.process_ps, to.usage.process_ps, elapsed_ps),
            accounted: {
                let of =
                    |part: fn(&Spent) -> u64| share(part(&from.spent) * NS, part(&to.spent) * NS, elapsed_ps);
                Accounted {
                    useful: of(|spent| spent.useful_ns),
                    looking: of(|spent| spent.overhead_ns),
                    vain: of(|spent| spent.idle_ns),
                }
            },
            tail_writes_per_frame: (to.tail_writes - from.tail_writes) as f64 / trial.taken.max(1) as f64,
            trial,
        })
    }
}
