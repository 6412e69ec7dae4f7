//! How many frames a driver sends when its application always has another one.

use crate::any_setup::AnySetup;
use crate::device::e1000::{By, Features, Frame, Pieces, VLAN};
use crate::experiment::{Interval, Phases, Snapshot};
use crate::setup::{RateLimitedSetup, Setup, cannot_copy};
use crate::simulation::Simulation;
use crate::sink::Checked;
use crate::stack::{ReceivesNothing, Running};
use crate::stack_params::StackParams;
use kpps_apps::{InfiniteSource, Pull};
use kpps_card::Tally;
use kpps_documents::Cpu;
use kpps_frames::build::{self, Flow, udp_test};
use kpps_frames::checksum::Sum;
use kpps_frames::{Size, ethernet, ipv4, tcp};
use kpps_host::Machine;
use kpps_host::platform::Buf;
use kpps_host::stack::{Netdev, Producer, Service};
use kpps_methods::TrialError;
use serde::{Deserialize, Serialize};

/// The result of a sending driver.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Transmit {
    /// Frames per second on the wire.
    pub pps: f64,
    /// Share of the time in which the card had nothing to send: its ring was empty or waited for the driver.
    pub card_idle: f64,
    /// Share of the time in which the wire carried nothing; `None` for a rate-limited NIC.
    pub wire_idle: Option<f64>,
    /// Interrupts per second.
    pub interrupts_per_s: f64,
    /// Device registers read and written by the CPU, for each frame; `None` if none was sent, and for a
    /// rate-limited NIC, whose registers are not the real card's.
    pub registers_per_frame: Option<(f64, f64)>,
    /// Share of the time in which the bus was occupied.
    pub bus_busy: f64,
    /// Bursts in which the card read data, for each frame; `None` if none was sent, and for a rate-limited
    /// NIC.
    pub data_bursts_per_frame: Option<f64>,
    /// How the CPU's time went.
    pub cpu: Cpu,
}

impl Transmit {
    /// The result of an e1000; `frames` reads how many it has sent.
    pub(crate) fn of_e1000<R>(interval: &Interval<R>, frames: impl Fn(&Snapshot<R>) -> u64) -> Self {
        let sent = interval.count(&frames);
        let card = |of: fn(&Tally) -> u64| move |s: &Snapshot<R>| s.cards.iter().map(of).sum();
        let without_work = interval.share(card(|card| card.wire_idle_without_work_ps));
        let with_work = interval.share(card(|card| card.wire_idle_with_work_ps));
        let registers = interval.per_frame(sent).map(|each| (each.register_reads, each.register_writes));
        Self {
            wire_idle: Some(without_work + with_work),
            registers_per_frame: registers,
            data_bursts_per_frame: interval.per(sent, card(|card| card.tx_data_bursts)),
            ..Self::of_machine(interval, frames, without_work)
        }
    }

    /// The result of a rate-limited NIC; `idle_ps` reads the time in which it had nothing to send.
    pub(crate) fn of_nic<R>(
        interval: &Interval<R>,
        frames: impl Fn(&Snapshot<R>) -> u64,
        idle_ps: impl Fn(&Snapshot<R>) -> u64,
    ) -> Self {
        Self::of_machine(interval, frames, interval.share(idle_ps))
    }

    /// The result of any card; without the quantities that only an e1000 has.
    fn of_machine<R>(interval: &Interval<R>, frames: impl Fn(&Snapshot<R>) -> u64, card_idle: f64) -> Self {
        Self {
            pps: interval.per_second(frames),
            card_idle,
            wire_idle: None,
            interrupts_per_s: interval.per_second(|s| s.counters.interrupts),
            registers_per_frame: None,
            bus_busy: interval.share(|s| s.bus_busy_ps),
            data_bursts_per_frame: None,
            cpu: interval.cpu(),
        }
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

/// The expected form of a frame on the wire.
enum Right {
    /// Exactly this.
    Frame(Vec<u8>),
    /// A TCP segment of this length with good checksums.
    Segment(usize),
}

impl Right {
    fn is(&self, frame: &[u8]) -> bool {
        match self {
            Self::Frame(right) => frame == right,
            Self::Segment(bytes) => frame.len() == *bytes && is_good_segment(frame),
        }
    }
}

fn is_good_segment(frame: &[u8]) -> bool {
    let Ok(frame) = ethernet::Frame::new_checked(frame) else { return false };
    let Ok(packet) = ipv4::Packet::new_checked(frame.payload()) else { return false };
    let segment = tcp::Segment::new_checked(packet.payload());
    packet.checksum_ok() && segment.is_ok_and(|tcp| tcp.checksum_ok(packet.source(), packet.destination()))
}

/// The frame that the stack hands to the driver, and its expected form on the wire.
fn frames(features: &Features, size: Size) -> Result<(Vec<u8>, Right), TrialError> {
    let vlan = (features.vlan != By::Nobody).then_some(VLAN);
    let flow = Flow { vlan, ..Flow::default() };
    let impossible = |e: kpps_frames::Error| TrialError::Load(format!("such frames cannot be built: {e}"));
    let ethernet = ethernet::HEADER_BYTES + if vlan.is_some() { ethernet::VLAN_BYTES } else { 0 };
    // The sum over the pseudo-header of the segment or datagram, as the card wants it.
    let pseudo = |protocol, length: usize| {
        Sum::pseudo_header(flow.from.0, flow.to.0, protocol, length as u16).folded().to_be_bytes()
    };
    let (mut frame, right) = if features.segments > 1 {
        let (bytes, at) = (usize::from(size.bytes_without_fcs()), ethernet + ipv4::HEADER_BYTES);
        let mss = bytes.saturating_sub(at + tcp::HEADER_BYTES);
        let fields = tcp::Fields { sequence: 1, acknowledgement: 1, flags: tcp::ACK, window: 65535 };
        let mut frame =
            build::tcp(&flow, fields, &vec![0; mss * usize::from(features.segments)]).map_err(impossible)?;
        frame[ethernet + 2..ethernet + 4].fill(0);
        frame[ethernet + 10..ethernet + 12].fill(0);
        frame[at + 16..at + 18].copy_from_slice(&pseudo(ipv4::PROTOCOL_TCP, 0));
        (frame, Right::Segment(bytes))
    } else {
        let mut frame = udp_test(&flow, size).map_err(impossible)?;
        let at = ethernet + ipv4::HEADER_BYTES;
        let length = frame.len() - at;
        let mut right = frame.clone();
        if features.checksum != By::Nobody {
            let seed = Sum::pseudo_header(flow.from.0, flow.to.0, ipv4::PROTOCOL_UDP, length as u16);
            let sum = seed.with(&right[at..]).checksum();
            right[at + 6..at + 8].copy_from_slice(&sum.to_be_bytes());
        }
        match features.checksum {
            By::Nobody => {}
            By::Cpu => frame.clone_from(&right),
            By::Card => frame[at + 6..at + 8].copy_from_slice(&pseudo(ipv4::PROTOCOL_UDP, length)),
        }
        (frame, Right::Frame(right))
    };
    if features.vlan == By::Card {
        frame.drain(ethernet::HEADER_BYTES - 2..ethernet::HEADER_BYTES + 2);
    }
    Ok((frame, right))
}

/// Checks that chip and host support the features; the error names a missing one.
fn check(setup: &Setup, features: &Features) -> Result<(), TrialError> {
    let (chip, host) = (setup.card.chip, &setup.host_params);
    let by_cpu = features.checksum == By::Cpu || features.vlan == By::Cpu;
    let name = chip.name();
    for (cannot, problem) in [
        (
            features.checksum == By::Card && !chip.has_checksum_offload(),
            format!("the {name} cannot compute checksums"),
        ),
        (features.vlan == By::Card && !chip.has_vlan(), format!("the {name} cannot insert VLAN tags")),
        (
            features.segments > 1 && !chip.has_tso(),
            format!("the {name} cannot cut superpackets into segments (TSO)"),
        ),
        (features.segments == 0, "a superpacket has at least one segment".into()),
        (
            by_cpu && host.copy_cached_byte_ps == 0,
            format!(
                "host profile '{}' has no cost of moving a byte in the cache: set host.copy_cached_byte_ps",
                setup.host
            ),
        ),
        (features.pieces == Pieces::Coalesced && host.copy_byte_ps == 0, cannot_copy(&setup.host)),
    ] {
        if cannot {
            return Err(TrialError::Load(problem));
        }
    }
    Ok(())
}

/// The longest buffer that a card fills, and so the longest of the pool.
const MOST_BUFFER_BYTES: usize = 16384;

/// Sends frames of `size` for `warmup_ms`, then measures for `duration_ms`.
pub fn transmit(setup: &Setup, size: Size, warmup_ms: u32, duration_ms: u32) -> Result<Transmit, TrialError> {
    transmit_with(setup, size, &Features::default(), (warmup_ms, duration_ms), &|| true)
}

/// The same with features of stack, driver and card; the times are in milliseconds: warm-up and measurement.
pub fn transmit_with(
    setup: &Setup,
    size: Size,
    features: &Features,
    times_ms: (u32, u32),
    go_on: &dyn Fn() -> bool,
) -> Result<Transmit, TrialError> {
    check(setup, features)?;
    setup.check_size(size)?;
    let (frame, right) = frames(features, size)?;
    if frame.len() > MOST_BUFFER_BYTES {
        return Err(TrialError::Load(format!(
            "{} segments of this size take {} bytes, and a buffer has {MOST_BUFFER_BYTES}: give fewer segments",
            features.segments,
            frame.len()
        )));
    }
    let mut setup = setup.clone().for_frames(size);
    setup.config.vlan |= features.vlan == By::Card;
    let buffer = frame.len().next_power_of_two() as u16;
    setup.config.rx_buffer_bytes = setup.config.rx_buffer_bytes.max(buffer);
    let arrived = Checked::default();
    let receiver = arrived.receiver(move |frame| right.is(frame));
    let (simulation, device) = Simulation::with_one_card(&setup, 1, 0, receiver)?;
    let device = device.sending(*features);
    let service = device.service();
    let phases = start(&simulation, setup.stack_params, (device, service), (frame, times_ms))?;
    let interval = simulation.measure(&phases, go_on, |_| arrived.frames())?;
    arrived.check()?;
    Ok(Transmit::of_e1000(&interval, |s| s.own))
}

/// The same with a rate-limited NIC and its driver, on whichever stack.
pub fn transmit_by_nic(
    setup: &RateLimitedSetup,
    size: Size,
    times_ms: (u32, u32),
    go_on: &dyn Fn() -> bool,
) -> Result<Transmit, TrialError> {
    let frame = udp_test(&Flow::default(), size).map_err(|e| TrialError::Load(e.to_string()))?;
    let arrived = Checked::default();
    let right = frame.clone();
    let receiver = arrived.receiver(move |frame| frame == right);
    let stack = setup.stack_params.clone();
    let setup = AnySetup::from(setup.clone());
    let (simulation, device) = Simulation::with_any_card(&setup, size, (1, 0), receiver)?;
    let service = device.service();
    let phases = start(&simulation, stack, (device, service), (frame, times_ms))?;
    let read = |machine: &Machine| (arrived.frames(), nic_idle_ps(machine));
    let interval = simulation.measure(&phases, go_on, read)?;
    arrived.check()?;
    Ok(Transmit::of_nic(&interval, |s| s.own.0, |s| s.own.1))
}

/// Starts a stack whose application always has another `frame` to send.
fn start<N: Netdev<Frame = Frame, Buffer = Buf>>(
    simulation: &Simulation,
    stack: StackParams,
    device: (N, Service),
    (frame, times_ms): (Vec<u8>, (u32, u32)),
) -> Result<Phases, TrialError> {
    let machine = simulation.machine();
    let stack = Running::start(machine, stack, device, ReceivesNothing);
    stack.send_forever(machine, Source(InfiniteSource::new(frame)));
    Phases::of_ms(machine.now_ps(), times_ms)
}

/// The time up to now in which the rate-limited NIC of a machine had nothing to send and its wire carried
/// nothing.
pub(crate) fn nic_idle_ps(machine: &Machine) -> u64 {
    let now_ps = machine.now_ps();
    machine.with_world(|world| world.rate_limited_nic(0).tx_idle_ps(now_ps))
}
