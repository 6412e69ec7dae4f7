//! A program that sends frames with the exact gaps of a schedule: it polls the driver, and queues fillers
//! between the frames, so that the card sends back to back and is never early or late.

use crate::device::e1000::E1000;
use crate::experiment::{Phases, check_load};
use crate::setup::Setup;
use crate::simulation::Simulation;
use crate::source::frame_to_card;
use crate::workload::transmit::Transmit;
use kpps_driver::TxQueue;
use kpps_frames::fillers::{Fillers, Wire};
use kpps_frames::{Size, rate};
use kpps_host::cpu::Level;
use kpps_host::platform::{Allocator, Card};
use kpps_host::wire::Receiver;
use kpps_methods::TrialError;
use kpps_methods::random::Random;
use kpps_platform::{Buffer, BufferSource};
use serde::{Deserialize, Serialize};
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::fmt;
use std::rc::Rc;
use std::str::FromStr;

/// A byte time of a gigabit wire, in ps.
const BYTE_PS: u64 = 8_000;
/// The same, per second.
const BYTES_PER_S: f64 = rate::GIGABIT as f64 / 8.0;
/// Preamble and start-of-frame delimiter, in bytes.
const PREAMBLE_BYTES: u64 = 8;

/// How the frames of a schedule are distributed over time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Shape {
    /// All gaps are equal.
    #[default]
    Constant,
    /// Gaps are exponentially distributed: a Poisson process with this seed.
    Poisson(u64),
    /// This many frames at once, then a pause.
    Bursts(u64),
}

impl FromStr for Shape {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong =
            || format!("'{text}' is no shape of a load: give constant, poisson:SEED or bursts:FRAMES");
        let number = |digits: &str| digits.parse::<u64>().map_err(|_| wrong());
        match text.split_once(':') {
            None if text == "constant" => Ok(Self::Constant),
            None if text == "poisson" => Ok(Self::Poisson(1)),
            Some(("poisson", seed)) => Ok(Self::Poisson(number(seed)?)),
            Some(("bursts", frames)) => match number(frames)? {
                0 => Err(wrong()),
                frames => Ok(Self::Bursts(frames)),
            },
            _ => Err(wrong()),
        }
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Self::Constant => f.write_str("constant"),
            Self::Poisson(seed) => write!(f, "poisson:{seed}"),
            Self::Bursts(frames) => write!(f, "bursts:{frames}"),
        }
    }
}

/// A load whose gaps are to be exact.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ExactLoad {
    /// Its rate in frames per second.
    pub pps: f64,
    /// Its shape.
    pub shape: Shape,
}

/// When each frame of a load is due, in byte times from the first one.
struct Times {
    /// From one frame to the next, on average.
    mean: f64,
    shape: Shape,
    frames: u64,
    /// A Poisson process: frames that would be due at the mean rate.
    drawn: f64,
    random: Random,
}

impl Times {
    fn of(load: ExactLoad) -> Self {
        let seed = if let Shape::Poisson(seed) = load.shape { seed } else { 0 };
        Self {
            mean: BYTES_PER_S / load.pps,
            shape: load.shape,
            frames: 0,
            drawn: 0.0,
            random: Random::new(seed),
        }
    }

    fn next(&mut self) -> u64 {
        let frame = self.frames;
        self.frames += 1;
        let at = match self.shape {
            Shape::Constant => frame as f64,
            Shape::Bursts(frames) => (frame / frames * frames) as f64,
            Shape::Poisson(_) => {
                let at = self.drawn;
                self.drawn -= (1.0 - self.random.unit()).ln();
                at
            }
        };
        // Each time is rounded for itself, so no error adds up.
        (at * self.mean).round() as u64
    }
}

/// The plan for a frame, in byte times from the first one.
#[derive(Clone, Copy)]
struct Planned {
    /// When it begins.
    start: u64,
    /// When it would begin on a wire that can be idle for any time.
    ideal: u64,
}

/// How exact the gaps on the wire were, since the first frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ExactGaps {
    /// Fillers for each frame.
    pub fillers_per_frame: f64,
    /// Share of the frames that no filler could bring to their exact time.
    pub rounded: f64,
    /// The longest distance between the planned start of a frame and its time in the schedule, in ns.
    pub most_rounded_ns: f64,
    /// The longest distance between the start of a frame on the wire and the planned one, in ns; 0 if the
    /// card always had something to send.
    pub most_deviation_ns: f64,
}

/// The frames and fillers at the far end of the wire.
#[derive(Default)]
struct Seen {
    /// The plan of frames that are on their way.
    planned: RefCell<VecDeque<Planned>>,
    /// The start of the first frame, in ps.
    first_ps: Cell<Option<u64>>,
    frames: Cell<u64>,
    wrong: Cell<u64>,
    fillers: Cell<u64>,
    rounded: Cell<u64>,
    most_rounded: Cell<u64>,
    most_deviation_ps: Cell<u64>,
}

impl Seen {
    /// A frame of the schedule began to arrive.
    fn note(&self, start_ps: u64) {
        let Some(planned) = self.planned.borrow_mut().pop_front() else {
            self.wrong.set(self.wrong.get() + 1);
            return;
        };
        let first_ps = self.first_ps.get().unwrap_or(start_ps);
        self.first_ps.set(Some(first_ps));
        let deviation_ps = start_ps.abs_diff(first_ps + planned.start * BYTE_PS);
        let rounded = planned.start.abs_diff(planned.ideal);
        self.frames.set(self.frames.get() + 1);
        self.rounded.set(self.rounded.get() + u64::from(rounded > 0));
        self.most_rounded.set(self.most_rounded.get().max(rounded));
        self.most_deviation_ps.set(self.most_deviation_ps.get().max(deviation_ps));
    }

    fn gaps(&self) -> ExactGaps {
        let share = |count: u64| count as f64 / self.frames.get().max(1) as f64;
        ExactGaps {
            fillers_per_frame: share(self.fillers.get()),
            rounded: share(self.rounded.get()),
            most_rounded_ns: (self.most_rounded.get() * BYTE_PS) as f64 / 1e3,
            most_deviation_ns: self.most_deviation_ps.get() as f64 / 1e3,
        }
    }
}

/// The far end of the wire: a device that drops frames with a wrong FCS.
struct FarEnd {
    seen: Rc<Seen>,
    right: Vec<u8>,
}

impl Receiver for FarEnd {
    fn receive(&mut self, now_ps: u64, frame: &[u8]) {
        let bytes = PREAMBLE_BYTES + frame.len() as u64 + u64::from(Size::FCS_BYTES);
        self.seen.note(now_ps - bytes * BYTE_PS);
        if frame != self.right {
            self.seen.wrong.set(self.seen.wrong.get() + 1);
        }
    }

    fn receive_bad(&mut self, _now_ps: u64, _frame: &[u8]) {
        self.seen.fillers.set(self.seen.fillers.get() + 1);
    }
}

/// The frames of a schedule, and the fillers between them.
struct Generator {
    times: Times,
    wire: Wire,
    frame: Vec<u8>,
    /// Fillers before the next frame that are not queued yet.
    fillers: Fillers,
    next: Planned,
    source: Allocator,
    seen: Rc<Seen>,
}

impl Generator {
    fn new(load: ExactLoad, frame: Vec<u8>, gap_bytes: u16, source: Allocator, seen: Rc<Seen>) -> Self {
        let mut generator = Self {
            times: Times::of(load),
            wire: Wire::with_gap(gap_bytes),
            frame,
            fillers: Fillers::NONE,
            next: Planned { start: 0, ideal: 0 },
            source,
            seen,
        };
        generator.plan();
        generator.fillers = generator.wire.lead();
        generator
    }

    /// Plans the next frame.
    fn plan(&mut self) {
        let (due, bytes) = (self.times.next(), self.frame.len() as u16 + Size::FCS_BYTES);
        let place = self.wire.place(due, bytes);
        self.fillers = place.fillers;
        self.next = Planned { start: place.start, ideal: place.ideal };
    }

    /// Queues fillers and frames until the ring is full. Returns their number.
    fn fill(&mut self, tx: &mut TxQueue<Card, Allocator>) -> usize {
        tx.reclaim(usize::MAX);
        let mut queued = 0;
        while self.queue(tx) {
            queued += 1;
        }
        tx.flush();
        tx.request_report_if_idle();
        queued
    }

    /// Queues the next filler or frame. False: the ring is full.
    fn queue(&mut self, tx: &mut TxQueue<Card, Allocator>) -> bool {
        let mut later = self.fillers;
        if let Some(bytes) = later.next() {
            let is_queued = tx.send_filler(bytes).is_ok();
            if is_queued {
                self.fillers = later;
            }
            return is_queued;
        }
        let Some(mut buffer) = (tx.free() > 0).then(|| self.source.take()).flatten() else { return false };
        let bytes = self.frame.len();
        if let Some(place) = buffer.bytes_mut().get_mut(..bytes) {
            place.copy_from_slice(&self.frame);
        }
        match tx.send(buffer, bytes as u16) {
            Ok(()) => {
                self.seen.planned.borrow_mut().push_back(self.next);
                self.plan();
                true
            }
            Err(refused) => {
                self.source.give(refused.frame.buffer);
                false
            }
        }
    }
}

/// Sends frames of `size` with exact gaps; the times are in milliseconds: warm-up and measurement.
///
/// # Errors
/// A load above the line rate, or frames that the machine cannot send; or `go_on` ended the run.
pub fn send_exactly(
    setup: &Setup,
    size: Size,
    load: ExactLoad,
    times_ms: (u32, u32),
    go_on: &dyn Fn() -> bool,
) -> Result<(Transmit, ExactGaps), TrialError> {
    setup.check_size(size)?;
    let setup = setup.clone().for_frames(size);
    let gap_bytes = gap_bytes(&setup);
    let slot_bytes = size.bytes_on_wire() - u32::from(Size::PREAMBLE_AND_GAP_BYTES)
        + PREAMBLE_BYTES as u32
        + u32::from(gap_bytes);
    check_load(load.pps, BYTES_PER_S / f64::from(slot_bytes), "line rate")?;
    let frame = frame_to_card(size, 1)?;
    let seen = Rc::<Seen>::default();
    let far_end = FarEnd { seen: Rc::clone(&seen), right: frame.clone() };
    let (simulation, device) = Simulation::with_one_card(&setup, 1, 0, Box::new(far_end))?;
    let machine = simulation.machine();
    let generator = Generator::new(load, frame, gap_bytes, device.source(), Rc::clone(&seen));
    start(device, generator, machine);
    let phases = Phases::of_ms(machine.now_ps(), times_ms)?;
    let interval = simulation.measure(&phases, go_on, |_| seen.frames.get())?;
    crate::sink::check(seen.wrong.get())?;
    Ok((Transmit::of_e1000(&interval, |s| s.own), seen.gaps()))
}

/// The gap that the card leaves between frames, in byte times.
fn gap_bytes(setup: &Setup) -> u16 {
    let (gap, throttle) = (setup.config.tx_gap_bytes, setup.config.tx_throttle_bytes);
    // SDM table 13-78.
    if setup.card.chip == kpps_driver::Chip::I82544 { gap + throttle } else { gap.max(throttle) }
}

/// Starts the program on the machine's CPU.
fn start(device: E1000, mut generator: Generator, machine: &kpps_host::Machine) {
    machine.spawn(Level::Thread, move |machine| {
        loop {
            let began_ps = machine.now_ps();
            let queued = device.with_tx(|tx| {
                tx.set_polled(true);
                generator.fill(tx)
            });
            if queued == 0 {
                machine.count_idle_poll(began_ps);
            }
        }
    });
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn sent(machine: &str, pps: f64, shape: &str) -> (Transmit, ExactGaps) {
        let setup = Setup::named(machine, None, "kpps").unwrap();
        let load = ExactLoad { pps, shape: shape.parse().unwrap() };
        send_exactly(&setup, Size::MIN, load, (1, 10), &|| true).unwrap()
    }

    /// At rates whose gaps fillers can fill, each frame is at its byte time: on a card of 2005, which can
    /// send 1220 kpps, and on one that has no limit.
    #[test]
    fn frames_of_a_constant_rate_are_at_their_byte_times() {
        for (machine, pps) in
            [("ols2005", 10e3), ("ols2005", 333_333.0), ("ols2005", 500e3), ("lab-e1000", 744e3)]
        {
            let (transmit, gaps) = sent(machine, pps, "constant");
            assert_eq!((gaps.most_deviation_ns, gaps.rounded), (0.0, 0.0), "{machine} {pps} {gaps:?}");
            assert!((transmit.pps / pps - 1.0).abs() < 0.02, "{transmit:?}");
            assert_eq!(transmit.wire_idle, Some(0.0));
        }
    }

    /// With a filler for each frame, this card would have to send more frames than it can.
    #[test]
    fn a_card_that_cannot_send_back_to_back_is_off_the_plan() {
        let (transmit, gaps) = sent("ols2005", 740e3, "constant");
        assert!(gaps.most_deviation_ns > 1e6 && transmit.pps < 700e3, "{transmit:?} {gaps:?}");
    }

    /// Gaps of 1 to 83 byte times cannot be filled: frames are off by half of that at most.
    #[test]
    fn gaps_that_cannot_be_filled_are_rounded_by_at_most_42_byte_times() {
        for (pps, shape) in [(1e6, "constant"), (400e3, "poisson:7"), (1e6, "poisson:8"), (300e3, "bursts:9")]
        {
            let (transmit, gaps) = sent("lab-e1000", pps, shape);
            assert_eq!(gaps.most_deviation_ns, 0.0, "{pps} {shape} {gaps:?}");
            assert!(gaps.most_rounded_ns <= 336.0, "{gaps:?}");
            assert_eq!(gaps.rounded > 0.0, shape != "bursts:9", "{gaps:?}");
            assert!((transmit.pps / pps - 1.0).abs() < 0.05, "{pps} {shape} {transmit:?}");
        }
    }

    #[test]
    fn a_load_that_no_wire_carries_is_refused() {
        let setup = Setup::named("ols2005", None, "kpps").unwrap();
        for pps in [0.0, 1.5e6, f64::NAN] {
            let load = ExactLoad { pps, shape: Shape::Constant };
            let error = send_exactly(&setup, Size::MIN, load, (1, 1), &|| true).unwrap_err().to_string();
            assert!(error.contains("at most line rate, 1488095 pps"), "{error}");
        }
    }

    #[test]
    fn shapes_as_people_type_them() {
        for text in ["constant", "poisson:7", "bursts:32"] {
            assert_eq!(text.parse::<Shape>().unwrap().to_string(), text);
        }
        for bad in ["", "bursts", "bursts:0", "poisson:x", "ramp:1/2"] {
            assert!(bad.parse::<Shape>().unwrap_err().contains("constant, poisson:SEED"), "{bad}");
        }
    }
}
