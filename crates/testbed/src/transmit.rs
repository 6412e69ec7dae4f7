//! The other direction: how many frames a driver gets out when its application always has another.

use crate::netdev::Pieces;
use crate::running::{Deaf, Running};
use crate::setup::Setup;
use crate::simulated::{Room, cpu_time, share};
use kpps_apps::{InfiniteSource, Pull};
use kpps_bench::TrialError;
use kpps_frames::Size;
use kpps_frames::build::{Flow, udp_test};
use kpps_machine::MS;
use kpps_machine::stack::Producer;
use kpps_machine::wire::Receiver;
use kpps_report::Cpu;
use std::cell::Cell;
use std::rc::Rc;

/// What a driver sent.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Transmit {
    /// Frames per second on the wire.
    pub pps: f64,
    /// Share of the time in which the card had nothing to send: its ring was empty or waited for the driver.
    pub card_idle: f64,
    /// Share of the time in which the wire carried nothing.
    pub wire_idle: f64,
    /// Interrupts per second.
    pub interrupts_per_s: f64,
    /// Device registers read and written by the CPU, for each frame.
    pub registers_per_packet: (f64, f64),
    /// Bursts in which the card read data, for each frame.
    pub data_bursts_per_packet: f64,
    /// How the CPU's time went.
    pub cpu: Cpu,
}

/// Counts whole frames of the expected length at the far end.
struct FarEnd {
    bytes: usize,
    frames: Rc<Cell<u64>>,
    wrong: Rc<Cell<u64>>,
}

impl Receiver for FarEnd {
    fn receive(&mut self, _now_ps: u64, frame: &[u8]) {
        let counter = if frame.len() == self.bytes { &self.frames } else { &self.wrong };
        counter.set(counter.get() + 1);
    }
}

struct Source(InfiniteSource);

impl Producer for Source {
    fn elements(&self) -> u32 {
        self.0.elements()
    }
    fn produce(&mut self, _now_ps: u64, buffer: &mut [u8]) -> usize {
        self.0.pull(buffer).unwrap_or(0)
    }
}

/// Sends frames of `size` for `warmup_ms`, then measures for `duration_ms`.
pub fn transmit(setup: &Setup, size: Size, warmup_ms: u32, duration_ms: u32) -> Result<Transmit, TrialError> {
    transmit_pieces(setup, size, Pieces::One, warmup_ms, duration_ms)
}

/// The same with frames that the stack hands over in `pieces`.
pub fn transmit_pieces(
    setup: &Setup,
    size: Size,
    pieces: Pieces,
    warmup_ms: u32,
    duration_ms: u32,
) -> Result<Transmit, TrialError> {
    let frame = udp_test(&Flow::default(), size).map_err(|e| TrialError::Load(e.to_string()))?;
    let (frames, wrong) = (Rc::new(Cell::new(0)), Rc::new(Cell::new(0)));
    let far_end = FarEnd { bytes: frame.len(), frames: Rc::clone(&frames), wrong: Rc::clone(&wrong) };
    let setup = setup.clone().for_frames(size);
    let (room, bound) = Room::build(&setup, Box::new(far_end))?;
    let machine = &room.0;
    let stack = Running::start(machine, setup.stack_params.clone(), bound.sending(pieces), Deaf);
    stack.send_forever(machine, Source(InfiniteSource::new(frame)));

    let read = || {
        let card = machine.with_world(|world| *world.nic(0).tally());
        (frames.get(), card, machine.usage(), machine.counters(), machine.now_ps())
    };
    machine.run(machine.now_ps() + u64::from(warmup_ms) * MS);
    let (frames_from, card_from, usage_from, counters_from, began) = read();
    machine.run(machine.now_ps() + u64::from(duration_ms) * MS);
    let (frames_to, card_to, usage_to, counters_to, ended) = read();
    if wrong.get() > 0 {
        return Err(TrialError::Testbed(format!("{} frames left the card with a wrong length", wrong.get())));
    }
    let elapsed_ps = ended - began;
    let per_second = |events: u64| events as f64 * 1e12 / elapsed_ps as f64;
    let sent = (frames_to - frames_from) as f64;
    let without_work =
        share(card_from.wire_idle_without_work_ps, card_to.wire_idle_without_work_ps, elapsed_ps);
    let with_work = share(card_from.wire_idle_with_work_ps, card_to.wire_idle_with_work_ps, elapsed_ps);
    let per_frame = |after: u64, before: u64| (after - before) as f64 / sent.max(1.0);
    Ok(Transmit {
        pps: per_second(frames_to - frames_from),
        card_idle: without_work,
        wire_idle: without_work + with_work,
        interrupts_per_s: per_second(counters_to.interrupts - counters_from.interrupts),
        registers_per_packet: (
            per_frame(counters_to.register_reads, counters_from.register_reads),
            per_frame(counters_to.register_writes, counters_from.register_writes),
        ),
        data_bursts_per_packet: per_frame(card_to.tx_data_bursts, card_from.tx_data_bursts),
        cpu: cpu_time(&usage_from, &usage_to, elapsed_ps),
    })
}
