//! Bulk TCP: hosts that always have more to send, and a machine whose processes read it; or the other way
//! round; or both.
//!
//! The first CPU takes the card's interrupts and runs the softirqs. Processes run on that CPU or on the last
//! one. The senders are closed loops: their load depends on acknowledgements and on losses.

mod clients;
mod endpoints;
mod outgoing;

use crate::device::e1000::E1000;
use crate::experiment::{Interval, Phases, Snapshot};
use crate::setup::{Setup, cannot_copy};
use crate::simulation::{CARD, Simulation};
use crate::source::slot_ps;
use crate::stack_params::StackParams;
use clients::{AckReceiver, Clients, Hosts, Seen, Segments};
use endpoints::Endpoints;
use kpps_card::Tally;
use kpps_documents::Cpu;
use kpps_frames::Size;
use kpps_frames::build::Flow;
use kpps_frames::{ethernet, ipv4, tcp};
use kpps_host::stack::linux24::{Attach, Params, Stack};
use kpps_host::stack::tcp::Sent;
use kpps_host::{MS, NS};
use kpps_methods::TrialError;
use serde::Deserialize;
use std::cell::RefCell;
use std::rc::Rc;

/// Ethernet header and FCS, in bytes.
const AROUND_BYTES: u32 = 18;
/// How long an acknowledgement may wait for another segment (Linux 2.4 and 2.6 TCP_DELACK_MIN).
const LATER_PS: u64 = 40 * MS;

/// Which checksums of a received segment the card takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Checksums {
    /// The sum of the IP header.
    pub ip: bool,
    /// The sum of the segment.
    pub tcp: bool,
}

/// Where the processes run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Processes {
    /// On the CPU of the softirqs, which wakes them.
    FirstCpu,
    /// On the last CPU: with two CPUs, the scheduler keeps the processes off the CPU that is busy with
    /// softirqs.
    LastCpu,
}

/// Bulk transfers into a machine and out of it.
#[derive(Clone, Copy, Debug)]
pub struct TcpBulk {
    /// Frames that carry data.
    pub size: Size,
    /// Connections into the machine, each from a host of its own.
    pub connections: u16,
    /// Connections out of it, each to a host of its own.
    pub sending: u16,
    /// Where the processes run.
    pub processes: Processes,
    /// The least time from one segment of a host to its next, in nanoseconds.
    pub host_segment_ns: u64,
    /// From an acknowledgement on the wire to the segments that it releases, in nanoseconds: switch, host,
    /// switch.
    pub host_delay_ns: u64,
    /// The checksums that the card takes.
    pub checksums: Checksums,
    /// Whether the chipset's engine copies to the processes instead of the CPU.
    pub dma_copy: bool,
    /// Whether the kernel hands the card superpackets, by the rules of Linux 2.6.11 (`tcp_output.c`, public
    /// source).
    pub tso: bool,
    /// Warm-up, in milliseconds.
    pub warmup_ms: u32,
    /// Measurement, in milliseconds.
    pub duration_ms: u32,
}

/// The longest superpacket, which is also that of the card's buffers: nothing here needs more.
const SUPERPACKET_BYTES: u16 = 16_384;

impl TcpBulk {
    /// The most segments of a superpacket.
    fn most_together(&self, segment_bytes: u64) -> u16 {
        let headers = (ethernet::HEADER_BYTES + ipv4::HEADER_BYTES + tcp::HEADER_BYTES) as u64;
        let most = (u64::from(SUPERPACKET_BYTES) - headers) / segment_bytes.max(1);
        if self.tso { (most as u16).clamp(1, 64) } else { 1 }
    }
}

/// The transferred data, and their costs, in the measured time.
#[derive(Clone, Copy, Debug)]
pub struct Transferred {
    /// The measured time.
    pub seconds: f64,
    /// Bytes that processes read.
    pub read_bytes: u64,
    /// Bytes that the machine sent, and their hosts got.
    pub sent_bytes: u64,
    /// Calls of `recv`.
    pub reads: u64,
    /// Segments that the hosts sent, and of these, segments sent again.
    pub sent: u64,
    /// See `sent`.
    pub sent_again: u64,
    /// Their retransmission timers that expired.
    pub timeouts: u64,
    /// Acknowledgements that reached them.
    pub acks: u64,
    /// Segments that the machine sent, and of these, segments sent again.
    pub out: u64,
    /// See `out`.
    pub out_again: u64,
    /// The packets in which it handed them to the card: segments, and superpackets.
    pub out_packets: u64,
    /// Segments that left in superpackets.
    pub out_together: u64,
    /// Frames that its transmit queue dropped: it was full.
    pub dropped_queue: u64,
    /// Mean time from a segment on the wire to its acknowledgement at its host, in nanoseconds.
    pub round_trip_ns: f64,
    /// Frames that the card dropped for want of a descriptor: its FIFO was full.
    pub dropped: u64,
    /// Frames that found no free descriptor, and waited in the FIFO or were dropped.
    pub no_buffer: u64,
    /// Segments dropped because a socket's memory was full.
    pub dropped_socket: u64,
    /// Frames that the card stored, acknowledgements included.
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
    /// And of the last CPU, which may be the same.
    pub cpu_last: Cpu,
}

/// The readings besides the machine's counters.
struct Reading {
    seen: Seen,
    out: Sent,
    dropped_queue: u64,
    read_bytes: u64,
    reads: u64,
    dropped_socket: u64,
    /// The longest time without a free descriptor since the last reading, in picoseconds.
    dry_longest_ps: u64,
}

impl Transferred {
    /// From the readings before and after.
    fn of(interval: &Interval<Reading>) -> Self {
        let card = |of: fn(&Tally) -> u64| move |s: &Snapshot<Reading>| s.cards.iter().map(of).sum();
        let round_trips = interval.count(|s| s.own.seen.sent.round_trips);
        let cpus = interval.cpus();
        Self {
            seconds: interval.seconds(),
            read_bytes: interval.count(|s| s.own.read_bytes),
            reads: interval.count(|s| s.own.reads),
            sent_bytes: interval.count(|s| s.own.seen.got_bytes),
            sent: interval.count(|s| s.own.seen.sent.segments),
            sent_again: interval.count(|s| s.own.seen.sent.again),
            timeouts: interval.count(|s| s.own.seen.sent.timeouts),
            acks: interval.count(|s| s.own.seen.acks),
            out: interval.count(|s| s.own.out.segments),
            out_again: interval.count(|s| s.own.out.again),
            out_packets: interval.count(|s| s.own.out.packets),
            out_together: interval.count(|s| s.own.out.together),
            dropped_queue: interval.count(|s| s.own.dropped_queue),
            round_trip_ns: interval.count(|s| s.own.seen.sent.round_trips_ps) as f64
                / round_trips.max(1) as f64
                / NS as f64,
            dropped: interval.count(card(|card| card.dropped.fifo_no_descriptor)),
            no_buffer: interval.count(card(|card| card.rx_no_buffer)),
            dropped_socket: interval.count(|s| s.own.dropped_socket),
            received: interval.count(card(|card| card.to_host)),
            tail_writes: interval.count(|s| s.drivers.iter().map(|driver| driver.tail_writes).sum()),
            dry_longest_ns: interval.to.own.dry_longest_ps as f64 / NS as f64,
            dry: interval.share(card(|card| card.rx_dry_ps)),
            interrupts: interval.count(|s| s.counters.interrupts),
            cpu: cpus[0],
            cpu_last: cpus[cpus.len() - 1],
        }
    }
}

/// Refuses transfers that are not possible here, or whose costs are not known. Returns the machine's stack
/// and the bytes of a segment.
fn check(setup: &Setup, what: &TcpBulk) -> Result<(Params, u32), TrialError> {
    let StackParams::Linux24(params) = setup.stack_params.clone() else {
        return Err(TrialError::Testbed(format!(
            "the stack {} has no TCP in the simulator: choose a machine with Linux 2.4 or 2.6",
            setup.stack
        )));
    };
    if setup.host_params.copy_byte_ps == 0 {
        return Err(TrialError::Testbed(cannot_copy(&setup.host)));
    }
    if what.dma_copy && setup.host_params.dma_copy_ps == 0 {
        return Err(TrialError::Testbed(format!(
            "host {}: its chipset copies nothing (dma_copy_ps)",
            setup.host
        )));
    }
    if what.tso && !setup.card.chip.has_tso() {
        return Err(TrialError::Testbed(format!(
            "the {} cannot cut superpackets into segments (TSO)",
            setup.card.chip.name()
        )));
    }
    let headers = AROUND_BYTES + (ipv4::HEADER_BYTES + tcp::HEADER_BYTES) as u32;
    let segment_bytes = what.size.bytes_with_fcs().saturating_sub(headers);
    let connections = what.connections.saturating_add(what.sending);
    if segment_bytes < 6 || !(1..=256).contains(&connections) {
        return Err(TrialError::Load(
            "bulk TCP needs frames of at least 64 bytes, and 1 to 256 connections".into(),
        ));
    }
    Ok((params, segment_bytes))
}

/// Transfers, and measures. An error if the machine has no Linux 2.4 or 2.6, or its host no cost of copying;
/// or if a frame is unaccounted for.
pub fn tcp_bulk(setup: &Setup, what: &TcpBulk, go_on: &dyn Fn() -> bool) -> Result<Transferred, TrialError> {
    let (params, segment_bytes) = check(setup, what)?;
    let connections = what.connections + what.sending;
    let mut setup = setup.clone().for_frames(what.size);
    let flow = Flow { to_mac: CARD, ..Flow::default() };
    let receiver = AckReceiver::default();
    // The buffers of a socket are bounded by its memory: some 80 buffers of 2 KiB that it has kept, and as
    // many that wait for its process. The card has no more than the windows let through.
    let held = usize::from(connections) * 200;
    let each_bytes = u32::from(setup.config.rx_buffer_bytes) + params.buffer_overhead_bytes;
    if what.tso {
        // All buffers are of one pool.
        setup.config.rx_buffer_bytes = SUPERPACKET_BYTES;
    }
    let (simulation, mut device) =
        Simulation::with_one_card(&setup, setup.cpus, held, Box::new(receiver.clone()))?;
    if what.tso {
        device = device.segmenting(segment_bytes as u16, what.most_together(segment_bytes.into()));
    }
    let machine = simulation.machine();
    let endpoints = Endpoints::new(flow, params.clone(), what, (segment_bytes.into(), each_bytes))
        .map_err(|e| TrialError::Load(e.to_string()))?;
    let attach = Attach { service: device.service(), device, slot: 0, cpu: 0 };
    let stack: Rc<Stack<E1000, Endpoints>> =
        Rc::new(Stack::start(machine, params, vec![attach], endpoints.clone()));
    endpoints.start(machine, &stack);

    let hosts = Hosts {
        segment_ps: what.host_segment_ns * NS,
        delay_ps: what.host_delay_ns * NS,
        slot_ps: slot_ps(what.size),
        segment_bytes: segment_bytes.into(),
    };
    let phases = Phases::of_ms(machine.now_ps() + MS, (what.warmup_ms, what.duration_ms))?;
    let clients =
        Clients::new(&flow, hosts, (what.connections, what.sending), endpoints.offered(), phases.begin_ps)
            .map_err(|e| TrialError::Load(e.to_string()))?;
    let clients = Rc::new(RefCell::new(clients));
    receiver.connect(&clients);
    let segments = Segments::of(&clients);
    machine.with_world(|world| world.set_traffic(0, Box::new(segments)));

    let interval = simulation.measure(&phases, go_on, |machine| Reading {
        seen: clients.borrow().seen(),
        out: endpoints.sent(),
        dropped_queue: stack.tally(0).dropped_queue,
        read_bytes: endpoints.read_bytes(),
        reads: endpoints.reads(),
        dropped_socket: endpoints.tally().dropped,
        dry_longest_ps: machine.with_world(|world| {
            let longest_ps = world.nic(0).tally().rx_dry_longest_ps;
            world.nic_mut(0).forget_longest_dry();
            longest_ps
        }),
    })?;
    let end = &interval.to;
    let lost = end
        .cards
        .iter()
        .any(|card| end.own.seen.frames != card.arrived || card.dropped.total() > fifo_full(card));
    if lost || endpoints.strangers() > 0 {
        return Err(TrialError::Testbed(format!("frames are unaccounted for: {:?}", end.cards)));
    }
    Ok(Transferred::of(&interval))
}

/// A segment as either end gets it.
struct Parsed {
    from_port: u16,
    to_port: u16,
    fields: tcp::Fields,
    /// Its data.
    bytes: u32,
}

fn parsed(frame: &[u8]) -> Option<Parsed> {
    let frame = ethernet::Frame::new_checked(frame).ok()?;
    let packet = ipv4::Packet::new_checked(frame.payload()).ok()?;
    let segment = tcp::Segment::new_checked(packet.payload()).ok()?;
    Some(Parsed {
        from_port: segment.source(),
        to_port: segment.destination(),
        fields: segment.fields(),
        bytes: segment.payload().len() as u32,
    })
}

/// The way back to the host at `to` (address and port).
fn back_to(flow: &Flow, to: (std::net::Ipv4Addr, u16)) -> Flow {
    Flow { from_mac: flow.to_mac, to_mac: flow.from_mac, from: flow.to, to, ..*flow }
}

/// Frames dropped because the card's FIFO was full.
fn fifo_full(card: &Tally) -> u64 {
    card.dropped.fifo_engine + card.dropped.fifo_no_descriptor
}
