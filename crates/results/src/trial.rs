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
    /// Packets per second that arrived at the consumer undamaged.
    pub delivered_pps: f64,
    /// The loss of the device under test, 0 to 1: packets that were sent and not delivered, over packets that
    /// were sent. Neither the generator's shortfall nor the tester's receive overflow is in it, if the
    /// overflow is known.
    pub loss_ratio: f64,
    /// Length of the measured time, in s.
    pub seconds: f64,
    /// Packets that were sent in the measured time.
    pub sent: u64,
    /// Packets that were due in the measured time and that the generator could not send.
    pub shortfall: u64,
    /// Packets that came through and that the tester could not take in: its receive overflow. Absent where
    /// no tester receives, as in the simulator, and where it is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub overflow: Option<u64>,
    /// Whether the tester's port did not count its receive overflow, as a UDP port on other systems than
    /// Linux, or the port of an agent that was lost. Then each lost packet may be one that came through.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub overflow_unknown: bool,
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
    /// The age of a result that was not measured now but resumed from a file, in s. Absent in the simulator.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub age_s: Option<u64>,
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
            loss_ratio: ratio(sent.saturating_sub(delivered), sent),
            seconds,
            sent,
            shortfall,
            delivered,
            ledger: ledger.closed(),
            ..Self::default()
        })
    }

    /// The same with the receive overflow of the tester, which is no loss of the device under test; `None` if
    /// its port cannot count it.
    #[must_use]
    pub fn with_overflow(self, packets: Option<u64>) -> Self {
        let trial = Self { overflow: packets, overflow_unknown: packets.is_none(), ..self };
        Self { loss_ratio: trial.exact_loss_ratio(), ..trial }
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
        ratio(self.sent.saturating_sub(self.came_through()), self.sent)
    }

    /// Packets that came through the device under test: delivered ones, and the receive overflow of the
    /// tester as far as it is known.
    pub fn came_through(&self) -> u64 {
        self.delivered + self.overflow.unwrap_or(0)
    }

    /// What the tester itself kept from the measurement, over packets that were due: 0 to 1. The generator's
    /// shortfall, and the tester's receive overflow; what was lost, if the overflow is not known.
    pub fn tester_ratio(&self) -> f64 {
        ratio(self.shortfall + self.most_overflow(), self.due())
    }

    /// The receive overflow of the tester; if it is not known, the most that it may be.
    fn most_overflow(&self) -> u64 {
        match self.overflow_unknown {
            true => self.sent.saturating_sub(self.came_through()),
            false => self.overflow.unwrap_or(0),
        }
    }

    /// Whether the tester did its part well enough for this to be a measurement of the device under test:
    /// [`tester_ratio`](Self::tester_ratio) is at most 0.1 %.
    pub fn is_of_the_device(&self) -> bool {
        self.tester_ratio() <= TESTER_RATIO
    }

    /// What limits a trial that is no measurement of the device under test.
    pub fn limit(&self) -> Option<Limit> {
        let receiver = self.most_overflow() > self.shortfall;
        (!self.is_of_the_device()).then_some(if receiver { Limit::Receiver } else { Limit::Generator })
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
        let idle_polls = self.cpu.and_then(|cpu| cpu.idle_polls).unwrap_or(0.0);
        self.cpu_busy.map(|busy| (1.0 - busy + idle_polls).clamp(0.0, 1.0))
    }

    /// The trial with every value rounded as it is published: rates to 0.1 per second, ratios to 6 decimals,
    /// accesses for each packet to 4. A quantity that is not a finite number becomes `None`.
    #[must_use]
    pub fn rounded(self) -> Self {
        let optional = |value: Option<f64>, scale| value.and_then(|value| finite(value, scale));
        Self {
            offered_pps: rounded_to(self.offered_pps, TENTHS),
            sent_pps: rounded_to(self.sent_pps, TENTHS),
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

/// With at most this loss ratio a system keeps up with its load: a last packet may be late.
pub const KEEPS_UP_LOSS: f64 = 0.001;
/// The largest share of what was due that the tester may keep from a measurement of the device under test.
const TESTER_RATIO: f64 = 0.001;

/// The part of the tester that limits a measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Limit {
    /// The generator could not send more.
    Generator,
    /// The receiver could not take in more.
    Receiver,
    /// The operator of a port does not allow more.
    Operator,
}

impl Limit {
    /// Its name in a sentence, as "the generator's limit".
    pub fn words(self) -> &'static str {
        match self {
            Self::Generator => "the generator's limit",
            Self::Receiver => "the limit of the tester's receiver",
            Self::Operator => "the limit that a port's operator has set",
        }
    }
}

/// A part of a whole; 0 of nothing.
fn ratio(part: u64, whole: u64) -> f64 {
    part as f64 / whole.max(1) as f64
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
        assert_eq!((trial.sent_pps, trial.delivered_pps, trial.loss_ratio), (800.0, 600.0, 0.25));
        assert_eq!((trial.due(), trial.interrupts(), trial.cpu_left()), (500, None, None));
        let json = serde_json::to_value(trial.clone().rounded()).unwrap();
        for field in ["cpu", "cpu_busy", "bus_busy", "interrupts_per_s", "registers_per_packet", "taken"] {
            assert!(json[field].is_null() && json.as_object().unwrap().contains_key(field), "{field}");
        }
        assert!(json["allocations_per_packet"].is_null() && json["latency_ns"]["p50"].is_null());
        assert_eq!(serde_json::from_value::<Trial>(json).unwrap(), trial);
    }

    /// 1000 were due; 100 were not sent, 60 found the tester's queue full, and the device lost 40.
    #[test]
    fn loss_is_that_of_the_device_under_test() {
        let trial = Trial::new(1000.0, 1.0, [900, 100, 800], Ledger::default()).unwrap();
        let trial = trial.with_overflow(Some(60));
        assert_eq!((trial.loss_ratio, trial.tester_ratio()), (40.0 / 900.0, 0.16));
        assert_eq!((trial.is_of_the_device(), trial.limit()), (false, Some(Limit::Generator)));
        let of = |counts, overflow| {
            Trial::new(1e6, 1.0, counts, Ledger::default()).unwrap().with_overflow(Some(overflow))
        };
        assert_eq!(of([999_000, 1000, 500_000], 0).limit(), None, "0.1 % is little enough");
        assert_eq!(of([999_500, 500, 500_000], 501).limit(), Some(Limit::Receiver));
        let nothing_sent = of([0, 1000, 0], 0);
        assert_eq!((nothing_sent.loss_ratio, nothing_sent.is_of_the_device()), (0.0, false));
    }

    /// A loss that the tester's own receiver may have caused is not claimed to be the device's.
    #[test]
    fn an_overflow_that_is_not_known_may_be_all_that_was_lost() {
        let of = |counts| Trial::new(1e6, 1.0, counts, Ledger::default()).unwrap().with_overflow(None);
        let trial = of([1000, 0, 900]);
        assert_eq!((trial.overflow, trial.loss_ratio, trial.tester_ratio()), (None, 0.1, 0.1));
        assert_eq!(trial.limit(), Some(Limit::Receiver));
        assert_eq!(of([10_000, 0, 9990]).limit(), None, "0.1 % is little enough");
        assert_eq!(of([900, 100, 850]).limit(), Some(Limit::Generator));
        let json = serde_json::to_value(&trial).unwrap();
        assert_eq!((json.get("overflow"), &json["overflow_unknown"]), (None, &true.into()));
        let known = serde_json::to_value(trial.with_overflow(Some(0))).unwrap();
        assert_eq!((&known["overflow"], known.get("overflow_unknown")), (&0.into(), None));
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
