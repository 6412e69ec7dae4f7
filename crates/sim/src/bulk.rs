//! Bulk TCP: hosts that always have more to send, and a machine whose processes read it.
//!
//! The first CPU takes the card's interrupts, and with them does all that a softirq does; processes run on the last: with two
//! the scheduler keeps them off the one that is busy with softirqs. The senders are closed loops: what they offer depends on what is acknowledged, and on what is lost.

mod clients;
mod endpoints;

use crate::netdev::Bound;
use crate::setup::{Setup, StackParams};
use crate::simulated::{CARD, Room, cpu_time};
use crate::traffic::slot_ps;
use clients::{Clients, Hearing, Hosts, Seen, Sending};
use endpoints::Endpoints;
use kpps_frames::Size;
use kpps_frames::build::Flow;
use kpps_frames::{ipv4, tcp};
use kpps_machine::cpu::{Counters, Usage};
use kpps_machine::stack::linux24::{Attach, Stack};
use kpps_machine::{MS, NS};
use kpps_measure::TrialError;
use kpps_model::Tally;
use kpps_results::Cpu;
use std::cell::RefCell;
use std::rc::Rc;

/// Ethernet header and FCS, in bytes.
const AROUND_BYTES: u32 = 18;

/// Which checksums of a received segment the card takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Checksums {
    /// Of the IP header.
    pub ip: bool,
    /// Of the segment.
    pub tcp: bool,
}

/// Bulk transfers into a machine.
#[derive(Clone, Copy, Debug)]
pub struct Bulk {
    /// Frames that carry data.
    pub size: Size,
    /// Connections, each from a host of its own.
    pub connections: u16,
    /// From one segment of a host to its next, at least, in nanoseconds.
    pub host_segment_ns: u64,
    /// From an acknowledgement on the wire to what it lets go, in nanoseconds: switch, host and switch.
    pub host_delay_ns: u64,
    /// Who takes checksums.
    pub checksums: Checksums,
    /// Whether the chipset's engine copies to the processes, not the CPU.
    pub dma_copy: bool,
    /// Before the measurement.
    pub warmup_ms: u32,
    /// The measurement.
    pub duration_ms: u32,
}

/// What was transferred, and what it took. Counts are of the measured time.
#[derive(Clone, Copy, Debug)]
pub struct Transferred {
    /// The measured time.
    pub seconds: f64,
    /// Bytes that processes read.
    pub read_bytes: u64,
    /// Calls of `recv`.
    pub reads: u64,
    /// Frames that the clients sent, and of these, segments sent again.
    pub sent: u64,
    /// See `sent`.
    pub sent_again: u64,
    /// Retransmission timers that expired.
    pub timeouts: u64,
    /// Acknowledgements that reached the clients.
    pub acks: u64,
    /// Acknowledgements for which the transmit ring had no room, warm-up included.
    pub acks_unsent: u64,
    /// Mean time from a segment on the wire to its host hearing that it has arrived, in nanoseconds.
    pub round_trip_ns: f64,
    /// Frames that the card dropped: its FIFO was full.
    pub dropped: u64,
    /// Frames that found no free descriptor, and waited in the FIFO or were dropped.
    pub no_buffer: u64,
    /// Segments that a socket had no memory for.
    pub dropped_socket: u64,
    /// Frames that the card stored.
    pub received: u64,
    /// Writes of the receive tail.
    pub tail_writes: u64,
    /// The longest time without a free descriptor, in nanoseconds.
    pub dry_longest_ns: f64,
    /// Share of the time without a free descriptor.
    pub dry: f64,
    /// Interrupts.
    pub interrupts: u64,
    /// How the time went of the CPU that serves the card.
    pub cpu: Cpu,
    /// And of the one that runs the processes: the last, which may be the same.
    pub cpu_last: Cpu,
}

/// All counters at one instant.
struct Reading {
    at_ps: u64,
    seen: Seen,
    card: Tally,
    read_bytes: u64,
    reads: u64,
    dropped_socket: u64,
    tail_writes: u64,
    usage: Usage,
    usage_last: Usage,
    counters: Counters,
}

/// Transfers, and measures. An error if the machine has no Linux 2.4 or 2.6 or its host no cost of copying; if a frame is
/// nobody's, or the card's ledger does not close.
pub fn bulk(setup: &Setup, what: &Bulk, go_on: &dyn Fn() -> bool) -> Result<Transferred, TrialError> {
    let StackParams::Linux24(params) = setup.stack_params.clone() else {
        return Err(TrialError::Testbed(format!("{} has no TCP here: Linux 2.4 and 2.6 have", setup.stack)));
    };
    if setup.host_params.copy_byte_ps == 0 {
        return Err(TrialError::Testbed(format!("host {}: what copying costs is not known", setup.host)));
    }
    if what.dma_copy && setup.host_params.dma_copy_ps == 0 {
        return Err(TrialError::Testbed(format!(
            "host {}: its chipset copies nothing (dma_copy_ps)",
            setup.host
        )));
    }
    let headers = AROUND_BYTES + (ipv4::HEADER_BYTES + tcp::HEADER_BYTES) as u32;
    let segment_bytes = what.size.bytes_with_fcs().saturating_sub(headers);
    if segment_bytes < 6 || !(1..=256).contains(&what.connections) || what.duration_ms == 0 {
        return Err(TrialError::Load(
            "bulk TCP takes frames of 64 bytes and more and 1 to 256 connections".into(),
        ));
    }
    let setup = setup.clone().for_frames(what.size);
    let flow = Flow { to_mac: CARD, ..Flow::default() };
    let heard = Rc::new(RefCell::new(None));
    // What a socket holds is bounded by its memory: some 80 buffers of 2 KiB.
    let sockets = usize::from(what.connections) * 100;
    let (room, bound) = Room::with_spare(&setup, setup.cpus, sockets, Box::new(Hearing(Rc::clone(&heard))))?;
    let machine = &room.0;
    let signs = bound.signs();
    let endpoints = Endpoints::new(flow, params.clone(), what);
    let attach = Attach { service: bound.service(), device: bound, slot: 0, cpu: 0 };
    let stack: Rc<Stack<Bound, Endpoints>> =
        Rc::new(Stack::start(machine, params, vec![attach], endpoints.clone()));
    endpoints.start(machine, &stack);

    let hosts = Hosts {
        segment_ps: what.host_segment_ns * NS,
        delay_ps: what.host_delay_ns * NS,
        slot_ps: slot_ps(what.size),
        segment_bytes: segment_bytes.into(),
    };
    let begin = machine.now_ps() + MS;
    let clients = Clients::new(&flow, hosts, what.connections, endpoints.offered(), begin)
        .map_err(|e| TrialError::Load(e.to_string()))?;
    let clients = Rc::new(RefCell::new(clients));
    *heard.borrow_mut() = Some(Rc::clone(&clients));
    let sending = Sending { clients: Rc::clone(&clients), frame: Vec::new() };
    machine.with_world(|world| world.set_traffic(0, Box::new(sending)));

    let read = || Reading {
        at_ps: machine.now_ps(),
        seen: clients.borrow().seen(),
        card: machine.with_world(|world| *world.nic(0).tally()),
        read_bytes: endpoints.read_bytes(),
        reads: endpoints.reads(),
        dropped_socket: endpoints.tally().dropped,
        tail_writes: stack.device(0).tail_writes(),
        usage: machine.usage_of(0),
        usage_last: machine.usage_of(machine.cpus() - 1),
        counters: machine.counters(),
    };
    room.run(begin + u64::from(what.warmup_ms) * MS, go_on)?;
    machine.with_world(|world| world.nic_mut(0).forget_longest_dry());
    let from = read();
    room.run(from.at_ps + u64::from(what.duration_ms) * MS, go_on)?;
    let to = read();
    if let Some(error) = signs.error.take() {
        return Err(TrialError::Testbed(format!("the driver gave up: {error}")));
    }
    let astray = to.seen.segments != to.card.arrived || endpoints.strangers() > 0;
    if astray || !to.card.closes() || to.card.dropped.total() > no_room(&to.card) {
        return Err(TrialError::Testbed(format!("frames went astray: {:?}", to.card)));
    }
    let elapsed_ps = to.at_ps - from.at_ps;
    let round_trips = to.seen.round_trips - from.seen.round_trips;
    Ok(Transferred {
        seconds: elapsed_ps as f64 / 1e12,
        read_bytes: to.read_bytes - from.read_bytes,
        reads: to.reads - from.reads,
        sent: to.seen.segments - from.seen.segments,
        sent_again: to.seen.again - from.seen.again,
        timeouts: to.seen.timeouts - from.seen.timeouts,
        acks: to.seen.acks - from.seen.acks,
        acks_unsent: endpoints.unsent_acks(),
        round_trip_ns: (to.seen.round_trips_ps - from.seen.round_trips_ps) as f64
            / round_trips.max(1) as f64
            / NS as f64,
        dropped: no_room(&to.card) - no_room(&from.card),
        no_buffer: to.card.rx_no_buffer - from.card.rx_no_buffer,
        dropped_socket: to.dropped_socket - from.dropped_socket,
        received: to.card.to_host - from.card.to_host,
        tail_writes: to.tail_writes - from.tail_writes,
        dry_longest_ns: to.card.rx_dry_longest_ps as f64 / NS as f64,
        dry: (to.card.rx_dry_ps - from.card.rx_dry_ps) as f64 / elapsed_ps as f64,
        interrupts: to.counters.interrupts - from.counters.interrupts,
        cpu: cpu_time(&from.usage, &to.usage, elapsed_ps),
        cpu_last: cpu_time(&from.usage_last, &to.usage_last, elapsed_ps),
    })
}

/// Frames that the card's FIFO had no room for.
fn no_room(card: &Tally) -> u64 {
    card.dropped.fifo_engine + card.dropped.fifo_no_descriptor
}
