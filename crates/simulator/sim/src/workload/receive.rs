//! A card, its driver, a host and its stack receive frames, which an application counts: `Counter ->
//! Discard`.

use crate::device::e1000::Frame;
use crate::experiment::{Interval, Phases, Snapshot, offered_pps};
use crate::ledger::Places;
use crate::per_frame::PerFrame;
use crate::setup::Setup;
use crate::simulation::Simulation;
use crate::sink::Measured;
use crate::source::{ConstantRate, frame_to_card, phase_ps, slot_ps};
use crate::stack::{Running, Sink};
use kpps_apps::{Counter, Discard, Push};
use kpps_documents::{Ledger, Trial};
use kpps_driver::service::Spent;
use kpps_frames::{Mix, rate};
use kpps_host::cpu::{Function, Level, Profile};
use kpps_host::platform::Buf;
use kpps_host::stack::IntoBuffer;
use kpps_host::stack::linux22::Tally;
use kpps_host::wire::Count;
use kpps_host::{MS, NS};
use kpps_methods::{AFTERWARDS_MS, Load, Testbed, TrialError, only_size};
use std::cell::{Cell, RefCell};
use std::rc::Rc;

/// `Counter -> Discard`, and a measurement that takes no simulated time.
pub(super) struct CountAndDiscard {
    chain: Counter<Discard>,
    measured: Rc<RefCell<Measured>>,
}

impl CountAndDiscard {
    /// The application, whose frames `measured` notes.
    pub fn new(measured: &Rc<RefCell<Measured>>) -> Self {
        Self { chain: Counter::new(Discard), measured: Rc::clone(measured) }
    }
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

/// The readings besides the machine's counters.
struct Reading {
    sent: u64,
    stack: Tally,
}

/// Where every frame of the trial is or ended.
fn ledger(last: &Snapshot<Reading>, rx_ring: u16) -> Result<Ledger, TrialError> {
    let (mut places, stack) = (Places::default(), &last.own.stack);
    for (card, driver) in last.cards.iter().zip(&last.drivers) {
        places.card(card, (driver.dropped, stack.from_driver), rx_ring)?;
    }
    places.stack(stack);
    places.close(last.own.sent, stack.consumed)
}

/// The CPU time that a driver reports ([`Spent`]), as shares of the time.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Accounted {
    /// Interrupts and frames.
    pub useful: f64,
    /// Looking for frames.
    pub looking: f64,
    /// Idle polls.
    pub idle: f64,
}

impl Accounted {
    fn between(interval: &Interval<Reading>) -> Self {
        let share = |part: fn(&Spent) -> u64| {
            interval.share(|s| s.drivers.iter().map(|driver| part(&driver.spent) * NS).sum())
        };
        Self {
            useful: share(|spent| spent.useful_ns),
            looking: share(|spent| spent.overhead_ns),
            idle: share(|spent| spent.idle_ns),
        }
    }
}

/// A trial, and where the CPU's time went in it.
pub struct Profiled {
    /// The trial.
    pub trial: Trial,
    /// CPU time by level and function, in the measured time.
    pub profile: Profile,
    /// Counts for each frame that the driver took in the measured time; `None` if it took none.
    pub per_frame: Option<PerFrame>,
    /// Frames that the application consumed in the measured time, whenever they were sent.
    pub consumed: u64,
    /// Share of the CPU that a computing process got.
    pub process: f64,
    /// Shares of the CPU that the driver says it took, if its service keeps account.
    pub accounted: Accounted,
    /// Writes of the receive tail for each frame that the driver took; `None` if it took none.
    pub tail_writes_per_frame: Option<f64>,
}

/// A simulated machine that receives.
pub struct Receiving {
    setup: Setup,
    computes: bool,
}

impl Receiving {
    /// A testbed with this set-up.
    pub fn new(setup: Setup) -> Self {
        Self { setup, computes: false }
    }

    /// The same with a process that computes in all the time that is left to it.
    pub fn computing(self) -> Self {
        Self { computes: true, ..self }
    }

    /// The set-up that it is made of.
    pub fn setup(&self) -> &Setup {
        &self.setup
    }

    /// Offers a load, accounts for its frames, and says where the CPU's time went.
    pub fn profiled(&mut self, load: &Load, go_on: &dyn Fn() -> bool) -> Result<Profiled, TrialError> {
        let (size, most_pps) = (load.size()?, self.line_rate_pps(&load.sizes)?);
        let offered_pps = offered_pps(load.rate, most_pps, "line rate")?;
        self.setup.check_size(size)?;
        let frame = frame_to_card(size, 0)?;
        let setup = self.setup.clone().for_frames(size);
        let (simulation, device) = Simulation::with_one_card(&setup, 1, 0, Box::<Count>::default())?;
        let machine = simulation.machine();
        // One slot of silence, and the first frame begins.
        let begin_ps = machine.now_ps() + slot_ps(size);
        let phases = Phases::of(begin_ps, load)?.draining(AFTERWARDS_MS);
        let measured = Rc::new(RefCell::new(Measured::between(phases.measure_ps, phases.end_ps)));
        let sink = CountAndDiscard::new(&measured);
        // Neither element asks for a frame's checksum status.
        let device = device.without_checksum_readers();
        let service = device.service();
        let stack = Running::start(machine, setup.stack_params.clone(), (device, service), sink);
        if self.computes {
            machine.spawn(Level::Process, |machine| {
                loop {
                    machine.spend_on(Function::Element, MS);
                }
            });
        }
        let sent = Rc::new(Cell::new(0));
        let first_ps = begin_ps + phase_ps(load.seed, (1e12 / offered_pps) as u64);
        let source = ConstantRate::new(frame, offered_pps, first_ps, phases.drained_ps, Rc::clone(&sent));
        machine.with_world(|world| world.set_traffic(0, Box::new(source)));

        let read = || Reading { sent: sent.get(), stack: stack.tally() };
        let interval = simulation.measure(&phases, go_on, |_| read())?;
        let ledger = ledger(&simulation.snapshot(read()), setup.config.rx_ring)?;
        let sent = interval.count(|s| s.own.sent);
        let taken = interval.count(|s| s.own.stack.from_driver);
        let measured = measured.take();
        Ok(Profiled {
            profile: interval.profile(),
            per_frame: interval.per_frame(taken),
            consumed: interval.count(|s| s.own.stack.consumed),
            process: interval.share(|s| s.usage.process_ps),
            accounted: Accounted::between(&interval),
            tail_writes_per_frame: interval
                .per(taken, |s| s.drivers.iter().map(|driver| driver.tail_writes).sum()),
            trial: interval
                .trial(load, offered_pps, (sent, measured.delivered, taken), &measured.latency, ledger)?
                .with_queue_growth(measured.queue_growth()),
        })
    }
}

impl Testbed for Receiving {
    fn shows_all_queues(&self) -> bool {
        true
    }

    fn line_rate_pps(&self, sizes: &Mix) -> Result<f64, TrialError> {
        Ok(rate::line_rate_pps(rate::GIGABIT, only_size(sizes)?))
    }

    fn trial_while(&mut self, load: &Load, go_on: &dyn Fn() -> bool) -> Result<Trial, TrialError> {
        self.profiled(load, go_on).map(|profiled| profiled.trial)
    }
}
