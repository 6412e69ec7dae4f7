//! The result of one trial.

use crate::round::{MILLIONTHS, TEN_THOUSANDTHS, TENTHS, finite, rounded_to};
use crate::{Cpu, Latency, Ledger, Registers};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The result of one trial: a load and the places where its packets ended.
///
/// Testbeds make it; curves, grids, searches, journals and documents carry it. Loads and rates are those of
/// all directions together. A quantity that the testbed cannot observe is `None`: null in JSON, never 0.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Trial {
    /// The requested load in packets per second.
    pub offered_pps: f64,
    /// The load that the generator sent, in packets per second.
    pub sent_pps: f64,
    /// The highest load that the generator can send here, in packets per second, measured before; absent if
    /// the wire alone limits it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ceiling_pps: Option<f64>,
    /// Packets per second that arrived at the consumer undamaged.
    pub delivered_pps: f64,
    /// Packets that were due and not delivered, over packets that were due: 0 to 1. Those that the generator
    /// could not send are among them.
    pub loss_ratio: f64,
    /// Length of the measured time, in s.
    pub seconds: f64,
    /// Packets that were sent in the measured time.
    pub sent: u64,
    /// Packets that were due in the measured time and that the generator could not send.
    pub shortfall: u64,
    /// Packets of those sent that were delivered undamaged, whenever they arrived.
    pub delivered: u64,
    /// Packets that the driver took from its device in the measured time, delivered or not.
    pub taken: Option<u64>,
    /// Share of time that the CPU was not idle, 0 to 1: the sum of `cpu`, to rounding.
    pub cpu_busy: Option<f64>,
    /// The CPU time by kind.
    pub cpu: Option<Cpu>,
    /// Share of time that the bus was occupied, 0 to 1.
    pub bus_busy: Option<f64>,
    /// Interrupts that were taken, per second.
    pub interrupts_per_s: Option<f64>,
    /// Time from sending to delivery.
    pub latency_ns: Latency,
    /// Register accesses of the driver for each packet that it took from the device.
    pub registers_per_packet: Option<Registers>,
    /// Packet buffers allocated for each packet that the driver took from the device.
    pub allocations_per_packet: Option<f64>,
    /// Time from the end of an overload until the last packet was lost, in s, if it was requested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recovery_s: Option<f64>,
    /// Where each packet of the whole trial ended, those of a warm-up among them.
    pub ledger: Ledger,
}

impl Trial {
    /// A trial with counts of packets only: `sent`, `shortfall` and `delivered` ones in `seconds`.
    /// `None` if no packet was due in that time, for then there is neither a rate nor a loss.
    pub fn new(
        offered_pps: f64,
        seconds: f64,
        [sent, shortfall, delivered]: [u64; 3],
        ledger: Ledger,
    ) -> Option<Self> {
        let due = sent + shortfall;
        (due > 0 && seconds > 0.0).then(|| Self {
            offered_pps,
            sent_pps: sent as f64 / seconds,
            delivered_pps: delivered as f64 / seconds,
            loss_ratio: due.saturating_sub(delivered) as f64 / due as f64,
            seconds,
            sent,
            shortfall,
            delivered,
            ledger: ledger.closed(),
            ..Self::default()
        })
    }

    /// The same with shares of the CPU's time.
    #[must_use]
    pub fn with_cpu(self, cpu: Cpu) -> Self {
        Self { cpu_busy: Some(cpu.busy()), cpu: Some(cpu), ..self }
    }

    /// The same with what a driver did to take `taken` packets: interrupts, register reads and writes, and
    /// allocations of packet buffers, each `None` if it was not counted.
    #[must_use]
    pub fn with_driver(self, taken: u64, interrupts: Option<u64>, registers: Option<[u64; 2]>) -> Self {
        Self {
            taken: Some(taken),
            interrupts_per_s: interrupts.map(|times| times as f64 / self.seconds),
            registers_per_packet: registers.and_then(|[reads, writes]| {
                Some(Registers { read: per(reads, taken)?, write: per(writes, taken)? })
            }),
            ..self
        }
    }

    /// The same with allocations of packet buffers while the driver took its packets.
    #[must_use]
    pub fn with_allocations(self, allocations: u64) -> Self {
        let each = self.taken.and_then(|taken| per(allocations, taken));
        Self { allocations_per_packet: each, ..self }
    }

    /// Packets that were due in the measured time.
    pub fn due(&self) -> u64 {
        self.sent + self.shortfall
    }

    /// [`loss_ratio`](Self::loss_ratio) as exactly as packets were counted, also of a trial that was rounded.
    pub fn exact_loss_ratio(&self) -> f64 {
        self.due().saturating_sub(self.delivered) as f64 / self.due().max(1) as f64
    }

    /// Interrupts in the measured time, if they were observed.
    pub fn interrupts(&self) -> Option<u64> {
        self.interrupts_per_s.map(|each| (each * self.seconds).round() as u64)
    }

    /// Register reads and writes of the driver in the measured time, if they were observed.
    pub fn register_accesses(&self) -> Option<[u64; 2]> {
        let (each, taken) = (self.registers_per_packet?, self.taken? as f64);
        Some([each.read, each.write].map(|accesses| (accesses * taken).round() as u64))
    }

    /// Share of time that the CPU had left for other work, 0 to 1, if the CPU was observed.
    pub fn cpu_left(&self) -> Option<f64> {
        let empty_polls = self.cpu.and_then(|cpu| cpu.empty_polls).unwrap_or(0.0);
        self.cpu_busy.map(|busy| (1.0 - busy + empty_polls).clamp(0.0, 1.0))
    }

    /// The trial with every value rounded as it is published: rates to 0.1 per second, ratios to 6 decimals,
    /// accesses for each packet to 4. A quantity that is not a finite number becomes `None`.
    #[must_use]
    pub fn rounded(self) -> Self {
        let optional = |value: Option<f64>, scale| value.and_then(|value| finite(value, scale));
        Self {
            offered_pps: rounded_to(self.offered_pps, TENTHS),
            sent_pps: rounded_to(self.sent_pps, TENTHS),
            ceiling_pps: optional(self.ceiling_pps, TENTHS),
            delivered_pps: rounded_to(self.delivered_pps, TENTHS),
            loss_ratio: share(self.loss_ratio),
            seconds: rounded_to(self.seconds, MILLIONTHS),
            cpu_busy: optional(self.cpu_busy, MILLIONTHS),
            cpu: self.cpu.and_then(Cpu::rounded),
            bus_busy: optional(self.bus_busy, MILLIONTHS),
            interrupts_per_s: optional(self.interrupts_per_s, TENTHS),
            registers_per_packet: self.registers_per_packet.and_then(Registers::rounded),
            allocations_per_packet: optional(self.allocations_per_packet, TEN_THOUSANDTHS),
            recovery_s: optional(self.recovery_s, MILLIONTHS),
            ..self
        }
    }
}

/// Times for each packet; `None` without packets.
fn per(times: u64, packets: u64) -> Option<f64> {
    (packets > 0).then(|| times as f64 / packets as f64)
}

/// A loss ratio to 6 decimals; to 12 if it would be rounded to 0.
fn share(loss_ratio: f64) -> f64 {
    match rounded_to(loss_ratio, MILLIONTHS) {
        0.0 => rounded_to(loss_ratio, 1e12),
        rounded => rounded,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_quantity_that_was_not_observed_is_null() {
        let trial = Trial::new(1000.0, 0.5, [400, 100, 300], Ledger::default()).unwrap();
        assert_eq!((trial.sent_pps, trial.delivered_pps, trial.loss_ratio), (800.0, 600.0, 0.4));
        assert_eq!((trial.due(), trial.interrupts(), trial.cpu_left()), (500, None, None));
        let json = serde_json::to_value(trial.clone().rounded()).unwrap();
        for field in ["cpu", "cpu_busy", "bus_busy", "interrupts_per_s", "registers_per_packet", "taken"] {
            assert!(json[field].is_null() && json.as_object().unwrap().contains_key(field), "{field}");
        }
        assert!(json["allocations_per_packet"].is_null() && json["latency_ns"]["p50"].is_null());
        assert_eq!(serde_json::from_value::<Trial>(json).unwrap(), trial);
    }

    #[test]
    fn without_a_packet_there_is_neither_rate_nor_loss() {
        assert_eq!(Trial::new(1000.0, 0.5, [0, 0, 0], Ledger::default()), None);
        assert_eq!(Trial::new(1000.0, 0.0, [1, 0, 0], Ledger::default()), None);
        assert_eq!(Trial::new(1000.0, f64::NAN, [1, 0, 0], Ledger::default()), None);
        let nothing_taken = Trial::new(10.0, 1.0, [10, 0, 0], Ledger::default()).unwrap();
        let nothing_taken = nothing_taken.with_driver(0, Some(3), Some([4, 5])).with_allocations(6);
        assert_eq!(nothing_taken.registers_per_packet, None);
        assert_eq!((nothing_taken.allocations_per_packet, nothing_taken.interrupts()), (None, Some(3)));
    }

    #[test]
    fn what_is_no_number_is_unknown_and_not_0() {
        let cpu = Cpu { hardirq: f64::NAN, ..Cpu::default() };
        let trial = Trial {
            bus_busy: Some(f64::NAN),
            interrupts_per_s: Some(f64::INFINITY),
            registers_per_packet: Some(Registers { read: f64::NAN, write: 1.0 }),
            allocations_per_packet: Some(f64::NAN),
            ..Trial::default().with_cpu(cpu)
        };
        let rounded = trial.rounded();
        assert_eq!((rounded.cpu, rounded.cpu_busy, rounded.bus_busy), (None, None, None));
        assert_eq!((rounded.interrupts_per_s, rounded.registers_per_packet), (None, None));
        assert_eq!(rounded.allocations_per_packet, None);
        let rate = Trial { sent_pps: f64::NAN, ..Trial::default() }.rounded();
        assert!(rate.sent_pps.is_nan() && crate::to_json(&rate).is_err());
    }

    #[test]
    fn counts_are_found_again_and_a_little_loss_is_not_none() {
        let trial = Trial::new(1e6, 0.05, [50_000, 0, 49_999], Ledger::default()).unwrap();
        let trial = trial.with_driver(49_999, Some(777), Some([12_345, 7]));
        assert_eq!((trial.interrupts(), trial.register_accesses()), (Some(777), Some([12_345, 7])));
        let rare = Trial::new(1e6, 100.0, [100_000_000, 0, 99_999_999], Ledger::default()).unwrap().rounded();
        assert_eq!((rare.loss_ratio, rare.exact_loss_ratio()), (1e-8, 1e-8));
    }
}
