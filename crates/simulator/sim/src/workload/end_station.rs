//! A machine with one card, of either kind, that receives. Its frames end in the kernel, or in a process that
//! reads them.

use super::receive::CountAndDiscard;
use super::{freebsd, netreceive};
use crate::any_setup::AnySetup;
use crate::device::e1000::Frame;
use crate::effect::Activity;
use crate::experiment::{Phases, offered_pps};
use crate::ledger::Places;
use crate::simulation::Simulation;
use crate::sink::Measured;
use crate::source::{ConstantRate, frame_to_card, phase_ps};
use crate::stack::{Running, of_freebsd, of_linux24};
use crate::stack_params::StackParams;
use kpps_documents::Trial;
use kpps_frames::{Mix, Size, rate};
use kpps_host::stack::linux22::Tally;
use kpps_host::stack::udp;
use kpps_host::wire::Count;
use kpps_host::{MS, Machine};
use kpps_methods::{AFTERWARDS_MS, Load, Testbed, TrialError, only_size};
use std::cell::{Cell, RefCell};
use std::rc::Rc;

/// The time from the setup of the machine to its first frame.
const FIRST_PS: u64 = MS;

/// A machine that receives.
pub struct EndStation {
    setup: AnySetup,
    /// Whether a process reads the frames.
    has_process: bool,
}

/// The readings besides the machine's counters.
struct Reading {
    sent: u64,
    stack: Tally,
    /// Of the process, if there is one.
    socket: Option<udp::Tally>,
}

/// A running machine.
struct Station {
    simulation: Simulation,
    /// Reads the stack, and the socket if there is one.
    read: Box<dyn Fn() -> (Tally, Option<udp::Tally>)>,
}

impl EndStation {
    /// A testbed with this set-up and this activity.
    pub fn new(setup: AnySetup, activity: Activity) -> Self {
        Self { setup, has_process: activity == Activity::ReceiveByProcess }
    }

    /// Builds the machine for frames of `size`; those that reach their end go to `measured`.
    fn build(&self, size: Size, measured: &Rc<RefCell<Measured>>) -> Result<Station, TrialError> {
        let setup = &self.setup;
        if !self.has_process {
            let sink = CountAndDiscard::new(measured);
            let (simulation, device) =
                Simulation::with_any_card(setup, size, (1, 0), Box::<Count>::default())?;
            let service = device.service();
            let params = setup.stack_params().clone();
            let stack = Running::start(simulation.machine(), params, (device, service), sink);
            return Ok(Station { simulation, read: Box::new(move || (stack.tally(), None)) });
        }
        let measured = Rc::clone(measured);
        let note = move |machine: &Machine, frame: &Frame| {
            measured.borrow_mut().note(machine.now_ps(), frame.as_ref());
        };
        Ok(match setup.stack_params() {
            StackParams::FreeBsd(_) => {
                let freebsd::Reads { simulation, stack, socket } = freebsd::Reads::build(setup, size, note)?;
                let read = move || (of_freebsd(stack.tally(0)), Some(socket.tally()));
                Station { simulation, read: Box::new(read) }
            }
            StackParams::Linux22(_) | StackParams::Linux24(_) => {
                let netreceive::Reads { simulation, stack, socket } =
                    netreceive::Reads::build(setup, size, note)?;
                let read = move || (of_linux24(stack.tally(0)), Some(socket.tally()));
                Station { simulation, read: Box::new(read) }
            }
        })
    }

    /// Where every frame is or ended.
    fn places(&self, simulation: &Simulation, reading: &Reading) -> Result<Places, TrialError> {
        let (mut places, from_driver) = (Places::default(), reading.stack.from_driver);
        simulation.machine().with_world(|world| match &self.setup {
            AnySetup::E1000(setup) => {
                let dropped = simulation.drivers().iter().map(|driver| driver.reading().dropped).sum();
                places.card(world.nic(0).tally(), (dropped, from_driver), setup.config.rx_ring)
            }
            AnySetup::RateLimited(_) => {
                places.rate_limited_nic(world.rate_limited_nic(0).tally(), from_driver)
            }
        })?;
        match &reading.socket {
            Some(socket) => places.process(&reading.stack, socket)?,
            None => places.stack(&reading.stack),
        }
        Ok(places)
    }
}

impl Testbed for EndStation {
    fn shows_all_queues(&self) -> bool {
        true
    }

    fn line_rate_pps(&self, sizes: &Mix) -> Result<f64, TrialError> {
        Ok(rate::line_rate_pps(self.setup.link_bits_per_s(), only_size(sizes)?))
    }

    fn trial_while(&mut self, load: &Load, go_on: &dyn Fn() -> bool) -> Result<Trial, TrialError> {
        let (size, most_pps) = (load.size()?, self.line_rate_pps(&load.sizes)?);
        let offered_pps = offered_pps(load.rate, most_pps, "line rate")?;
        let frame = frame_to_card(size, 0)?;
        let measured = Rc::new(RefCell::new(Measured::default()));
        let Station { simulation, read } = self.build(size, &measured)?;
        let machine = simulation.machine();
        let begin_ps = machine.now_ps() + FIRST_PS;
        let phases = Phases::of(begin_ps, load)?.draining(AFTERWARDS_MS);
        measured.replace(Measured::between(phases.measure_ps, phases.end_ps));
        let sent = Rc::new(Cell::new(0));
        let first_ps = begin_ps + phase_ps(load.seed, (1e12 / offered_pps) as u64);
        let source = ConstantRate::new(frame, offered_pps, first_ps, phases.drained_ps, Rc::clone(&sent));
        machine.with_world(|world| world.set_traffic(0, Box::new(source)));

        let reading = || {
            let (stack, socket) = read();
            Reading { sent: sent.get(), stack, socket }
        };
        let interval = simulation.measure(&phases, go_on, |_| reading())?;
        let last = reading();
        let ended = last.socket.map_or(last.stack.consumed, |socket| socket.read);
        let ledger = self.places(&simulation, &last)?.close(last.sent, ended)?;
        let measured = measured.take();
        let sent = interval.count(|s| s.own.sent);
        let taken = interval.count(|s| s.own.stack.from_driver);
        let counts = (sent, measured.delivered, taken);
        let trial = interval.trial(load, offered_pps, counts, &measured.latency, ledger)?;
        // The registers of a rate-limited NIC are not the real card's.
        let registers = trial.registers_per_frame.filter(|_| matches!(self.setup, AnySetup::E1000(_)));
        Ok(Trial { registers_per_frame: registers, ..trial }.with_queue_growth(measured.queue_growth()))
    }
}
