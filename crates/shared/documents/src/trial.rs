//! The result of one trial.

use crate::round::{MILLIONTHS, TEN_THOUSANDTHS, TENTHS, finite, rounded_to};
use crate::{Cpu, Disturbance, Latency, Ledger, Registers, SHORTFALL};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The result of one trial: a load and the places where its frames ended.
///
/// Testbeds make it; curves, grids, searches, journals and documents carry it. Loads and rates are those of
/// all directions together. A quantity that the testbed cannot observe is `None`: null in JSON, never 0.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Trial {
    /// The requested load in frames per second.
    pub offered_pps: f64,
    /// The load that the generator sent, in frames per second.
    pub sent_pps: f64,
    /// Frames per second that arrived at the consumer undamaged.
    pub delivered_pps: f64,
    /// The 5th and the 95th percentile of `delivered_pps` when the uncertain constants of the simulated
    /// machine are drawn at random, if that was requested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delivered_pps_p5: Option<f64>,
    /// See `delivered_pps_p5`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delivered_pps_p95: Option<f64>,
    /// The loss of the device under test, 0 to 1: frames that were sent and not delivered, over frames that
    /// were sent. Neither the generator's shortfall nor the tester's receive overflow is in it, if the
    /// overflow is known.
    pub loss_ratio: f64,
    /// Length of the measured time, in s.
    pub seconds: f64,
    /// Frames that were sent in the measured time.
    pub sent: u64,
    /// Frames that were due in the measured time and that the generator could not send.
    pub shortfall: u64,
    /// The reasons that kept the generator from its CPU, and the part of the shortfall that they explain;
    /// absent where they were not observed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disturbance: Option<Disturbance>,
    /// The largest permitted share of the tester's own losses in the due frames, if it was requested: 0 to 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_shortfall: Option<f64>,
    /// Frames that reached the tester and that it could not receive: its receive overflow. Absent where no
    /// tester receives, as in the simulator, and where it is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub overflow: Option<u64>,
    /// Whether the tester's port did not count its receive overflow, as a UDP port on other systems than
    /// Linux, or the port of an agent that was lost. Then each lost frame may have been delivered by the
    /// device under test.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub overflow_unknown: bool,
    /// Frames that were sent in the measured time and delivered undamaged, even after it.
    pub delivered: u64,
    /// Frames by which queues on the path grew in the measured time: the load is above the sustained rate,
    /// and in a longer trial they are lost. 0 if the queues were steady; absent where that is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue_growth: Option<u64>,
    /// Frames that the driver took from its device in the measured time, delivered or not.
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
    /// The streams that were sent beside the load to measure latencies.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub probes: Vec<Probe>,
    /// Register accesses of the driver for each frame that it took from the device.
    pub registers_per_frame: Option<Registers>,
    /// Buffers allocated for each frame that the driver took from the device.
    pub allocations_per_frame: Option<f64>,
    /// Time from the end of an overload until the last frame was lost, in s, if it was requested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recovery_s: Option<f64>,
    /// The age of a result that was not measured now but resumed from a file, in s. Absent in the simulator.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub age_s: Option<u64>,
    /// Where each frame of the whole trial ended, frames of the warm-up included. A damaged frame that
    /// arrived is delivered here, and lost in the counts above.
    pub ledger: Ledger,
}

/// A stream whose rate is the same whatever the load. Its latencies are those that others have beside the
/// load: working latencies.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Probe {
    /// Its name.
    pub stream: String,
    /// The port that sends it: 1 or 2, as in the file of streams; absent in older documents.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<u8>,
    /// Its frames that were sent.
    pub sent: u64,
    /// Its frames that were sent and did not arrive.
    pub lost: u64,
    /// Its frames that could not be sent at their time; absent if that is unknown, as in older documents.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shortfall: Option<u64>,
    /// Time from sending to delivery.
    pub latency_ns: Latency,
}

impl Trial {
    /// A trial with counts of frames only: `sent`, `shortfall` and `delivered` ones in `seconds`. `None` if
    /// no frame was due in that time: then there is neither a rate nor a loss.
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
    pub fn with_overflow(self, frames: Option<u64>) -> Self {
        let trial = Self { overflow: frames, overflow_unknown: frames.is_none(), ..self };
        Self { loss_ratio: trial.exact_loss_ratio(), ..trial }
    }

    /// The same with the disturbance of the generator, if it was observed, and with the largest permitted
    /// share of the tester's own losses in the due frames; `None` for the usual one.
    #[must_use]
    pub fn with_disturbance(self, disturbance: Option<Disturbance>, max_shortfall: Option<f64>) -> Self {
        Self { disturbance, max_shortfall, ..self }
    }

    /// The same with the growth of queues in the measured time, in frames, if it is known.
    #[must_use]
    pub fn with_queue_growth(self, frames: Option<u64>) -> Self {
        Self { queue_growth: frames, ..self }
    }

    /// The same with shares of the CPU's time.
    #[must_use]
    pub fn with_cpu(self, cpu: Cpu) -> Self {
        Self { cpu_busy: Some(cpu.busy()), cpu: Some(cpu), ..self }
    }

    /// The same with the work of a driver for `taken` frames: interrupts, register reads and writes, and
    /// allocations of buffers, each `None` if it was not counted.
    #[must_use]
    pub fn with_driver(self, taken: u64, interrupts: Option<u64>, registers: Option<[u64; 2]>) -> Self {
        Self {
            taken: Some(taken),
            interrupts_per_s: interrupts.map(|times| times as f64 / self.seconds),
            registers_per_frame: registers.and_then(|[reads, writes]| {
                Some(Registers { read: per(reads, taken)?, write: per(writes, taken)? })
            }),
            ..self
        }
    }

    /// The same with allocations of buffers while the driver took its frames.
    #[must_use]
    pub fn with_allocations(self, allocations: u64) -> Self {
        let each = self.taken.and_then(|taken| per(allocations, taken));
        Self { allocations_per_frame: each, ..self }
    }

    /// Frames that were due in the measured time.
    pub fn due(&self) -> u64 {
        self.sent + self.shortfall
    }

    /// [`loss_ratio`](Self::loss_ratio) as exactly as frames were counted, also of a trial that was rounded.
    pub fn exact_loss_ratio(&self) -> f64 {
        ratio(self.sent.saturating_sub(self.came_through()), self.sent)
    }

    /// Whether queues did not grow in the measured time, as far as is known.
    pub fn is_steady(&self) -> bool {
        self.queue_growth.is_none_or(|frames| frames == 0)
    }

    /// The loss ratio that the load has in the long run: frames by which queues grew are lost when these are
    /// full. The trial's own loss ratio if it was steady.
    pub fn sustained_loss_ratio(&self) -> f64 {
        let carried = self.came_through().saturating_sub(self.queue_growth.unwrap_or(0));
        ratio(self.sent.saturating_sub(carried), self.sent)
    }

    /// The rate at which frames are delivered in the long run, in frames per second:
    /// [`delivered_pps`](Self::delivered_pps) without the frames by which queues grew.
    pub fn sustained_pps(&self) -> f64 {
        match self.queue_growth {
            None | Some(0) => self.delivered_pps,
            Some(frames) => (self.delivered_pps - frames as f64 / self.seconds).max(0.0),
        }
    }

    /// Frames that passed the device under test: delivered frames, and the receive overflow of the tester if
    /// it is known.
    pub fn came_through(&self) -> u64 {
        self.delivered + self.overflow.unwrap_or(0)
    }

    /// The frames that the device under test lost, by place. Generator shortfall is no loss, and frames that
    /// the tester's port missed had passed the device.
    pub fn losses_of_device(&self) -> Vec<(&str, u64)> {
        let mut losses = self.ledger.losses();
        let is_testers =
            |place: &str| place == SHORTFALL || self.overflow.is_some() && place.ends_with(" missed");
        losses.retain(|(place, _)| !is_testers(place));
        losses
    }

    /// The tester's own losses over frames that were due: 0 to 1. They are the generator shortfall and the
    /// tester's receive overflow; if the overflow is not known, the lost frames take its place.
    pub fn tester_ratio(&self) -> f64 {
        ratio(self.shortfall + self.most_overflow(), self.due())
    }

    /// The receive overflow of the tester; if it is not known, its largest possible value.
    fn most_overflow(&self) -> u64 {
        match self.overflow_unknown {
            true => self.sent.saturating_sub(self.came_through()),
            false => self.overflow.unwrap_or(0),
        }
    }

    /// Whether the tester's own losses are small enough for a measurement of the device under test:
    /// [`tester_ratio`](Self::tester_ratio) is at most 0.1 %, or the requested share.
    pub fn is_of_the_device(&self) -> bool {
        self.is_enough(self.shortfall)
    }

    /// Whether a shortfall and the receive overflow are small enough.
    fn is_enough(&self, shortfall: u64) -> bool {
        ratio(shortfall + self.most_overflow(), self.due()) <= self.max_shortfall.unwrap_or(TESTER_RATIO)
    }

    /// Frames of the shortfall that are the generator's own: nothing disturbed it when they were due.
    fn own_shortfall(&self) -> u64 {
        self.shortfall - self.disturbance.as_ref().map_or(0, |it| it.frames.min(self.shortfall))
    }

    /// The limit of a trial that is no measurement of the device under test; `None` also for a trial that was
    /// only [disturbed](Self::is_disturbed).
    pub fn limit(&self) -> Option<Limit> {
        let shortfall = self.own_shortfall();
        let receiver = self.most_overflow() > shortfall;
        (!self.is_enough(shortfall)).then_some(if receiver { Limit::Receiver } else { Limit::Generator })
    }

    /// Whether a trial is no measurement of the device under test because something else had the generator's
    /// CPU: the same load may succeed when it is tried again.
    pub fn is_disturbed(&self) -> bool {
        !self.is_of_the_device() && self.limit().is_none()
    }

    /// The share of the load that was really sent, 0 to 1; 1 if the tester did its part.
    pub fn sent_share(&self) -> f64 {
        if self.is_of_the_device() { 1.0 } else { ratio(self.sent, self.due()) }
    }

    /// The share of the load that was sent while the generator ran: pauses do not lower it. 1 if pauses were
    /// not observed.
    pub fn running_share(&self) -> f64 {
        match self.disturbance {
            Some(_) if !self.is_of_the_device() => 1.0 - ratio(self.own_shortfall(), self.due()),
            _ => 1.0,
        }
    }

    /// Interrupts in the measured time, if they were observed.
    pub fn interrupts(&self) -> Option<u64> {
        self.interrupts_per_s.map(|each| (each * self.seconds).round() as u64)
    }

    /// Register reads and writes of the driver in the measured time, if they were observed.
    pub fn register_accesses(&self) -> Option<[u64; 2]> {
        let (each, taken) = (self.registers_per_frame?, self.taken? as f64);
        Some([each.read, each.write].map(|accesses| (accesses * taken).round() as u64))
    }

    /// Share of time that the CPU had left for other work, 0 to 1, if the CPU was observed.
    pub fn cpu_left(&self) -> Option<f64> {
        let idle_polls = self.cpu.and_then(|cpu| cpu.idle_polls).unwrap_or(0.0);
        self.cpu_busy.map(|busy| (1.0 - busy + idle_polls).clamp(0.0, 1.0))
    }

    /// The trial with every value rounded as it is published: rates to 0.1 per second, ratios to 6 decimals,
    /// accesses for each frame to 4. A quantity that is not a finite number becomes `None`.
    #[must_use]
    pub fn rounded(self) -> Self {
        let optional = |value: Option<f64>, scale| value.and_then(|value| finite(value, scale));
        Self {
            offered_pps: rounded_to(self.offered_pps, TENTHS),
            sent_pps: rounded_to(self.sent_pps, TENTHS),
            delivered_pps: rounded_to(self.delivered_pps, TENTHS),
            delivered_pps_p5: optional(self.delivered_pps_p5, TENTHS),
            delivered_pps_p95: optional(self.delivered_pps_p95, TENTHS),
            loss_ratio: share(self.loss_ratio),
            seconds: rounded_to(self.seconds, MILLIONTHS),
            cpu_busy: optional(self.cpu_busy, MILLIONTHS),
            cpu: self.cpu.and_then(Cpu::rounded),
            bus_busy: optional(self.bus_busy, MILLIONTHS),
            interrupts_per_s: optional(self.interrupts_per_s, TENTHS),
            registers_per_frame: self.registers_per_frame.and_then(Registers::rounded),
            allocations_per_frame: optional(self.allocations_per_frame, TEN_THOUSANDTHS),
            recovery_s: optional(self.recovery_s, MILLIONTHS),
            ..self
        }
    }
}

/// A system with at most this loss ratio keeps up with its load: the last frame may be late.
pub const KEEPS_UP_LOSS: f64 = 0.001;
/// The largest permitted share of the tester's own losses in the due frames of a measurement of the device
/// under test, unless another share was requested.
pub const TESTER_RATIO: f64 = 0.001;

/// The part of the tester that limits a measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Limit {
    /// The generator could not send more.
    Generator,
    /// The receiver could not receive more.
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

/// Times for each frame; `None` without frames.
fn per(times: u64, frames: u64) -> Option<f64> {
    (frames > 0).then(|| times as f64 / frames as f64)
}

/// A loss ratio to 6 decimals; to 12 if it would be rounded to 0.
fn share(loss_ratio: f64) -> f64 {
    match rounded_to(loss_ratio, MILLIONTHS) {
        0.0 => rounded_to(loss_ratio, 1e12),
        rounded => rounded,
    }
}

/// The points in which the tester itself was the limit, by load, with the limiting part of the tester.
pub fn limited<'p>(points: impl Iterator<Item = &'p Trial>) -> Vec<(&'p Trial, Limit)> {
    let mut limited: Vec<_> = points.filter_map(|point| Some((point, point.limit()?))).collect();
    limited.sort_by(|a, b| a.0.offered_pps.total_cmp(&b.0.offered_pps));
    limited
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
        for field in ["cpu", "cpu_busy", "bus_busy", "interrupts_per_s", "registers_per_frame", "taken"] {
            assert!(json[field].is_null() && json.as_object().unwrap().contains_key(field), "{field}");
        }
        assert!(json["allocations_per_frame"].is_null() && json["latency_ns"]["p50"].is_null());
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

    /// 100 of 10,000 were not sent: as far as something else had the CPU, that is no limit of the generator.
    #[test]
    fn a_disturbance_is_no_limit_of_the_generator() {
        let of = |frames: Option<u64>| {
            let trial = Trial::new(1e4, 1.0, [9900, 100, 9000], Ledger::default()).unwrap();
            let disturbance =
                frames.map(|frames| Disturbance { frames, pauses: 1, ..Disturbance::default() });
            trial.with_disturbance(disturbance, None)
        };
        for (frames, limit, is_disturbed, running_share) in [
            (None, Some(Limit::Generator), false, 1.0),
            (Some(0), Some(Limit::Generator), false, 0.99),
            (Some(89), Some(Limit::Generator), false, 0.9989),
            (Some(90), None, true, 0.999),
            (Some(1000), None, true, 1.0),
        ] {
            let trial = of(frames);
            assert_eq!((trial.limit(), trial.is_disturbed()), (limit, is_disturbed), "{frames:?}");
            assert_eq!((trial.sent_share(), trial.running_share()), (0.99, running_share), "{frames:?}");
        }
        // With a lower precision the same trial is a measurement.
        let allowed = Trial { max_shortfall: Some(0.01), ..of(None) };
        assert!(allowed.is_of_the_device() && allowed.limit().is_none() && allowed.sent_share() == 1.0);
        assert!(!Trial { max_shortfall: Some(0.0), ..of(Some(100)) }.is_of_the_device());
    }

    /// 50 of 1000 frames that arrived had waited in a queue that grew: in the long run these are lost.
    #[test]
    fn what_queues_took_up_is_lost_in_the_long_run() {
        let trial = Trial::new(1000.0, 1.0, [1000, 0, 990], Ledger::default()).unwrap();
        assert!(trial.is_steady() && trial.sustained_loss_ratio() == 0.01);
        let grew = trial.clone().with_queue_growth(Some(50));
        assert_eq!((grew.is_steady(), grew.loss_ratio, grew.sustained_loss_ratio()), (false, 0.01, 0.06));
        assert_eq!(grew.sustained_pps(), 940.0);
        let json = |trial: &Trial| serde_json::to_value(trial).unwrap().get("queue_growth").cloned();
        assert_eq!((json(&grew), json(&trial)), (Some(50.into()), None), "absent where it is not known");
        assert_eq!(json(&trial.with_queue_growth(Some(0))), Some(0.into()));
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
        assert_eq!(nothing_taken.registers_per_frame, None);
        assert_eq!((nothing_taken.allocations_per_frame, nothing_taken.interrupts()), (None, Some(3)));
    }

    #[test]
    fn what_is_no_number_is_unknown_and_not_0() {
        let cpu = Cpu { hardirq: f64::NAN, ..Cpu::default() };
        let trial = Trial {
            bus_busy: Some(f64::NAN),
            interrupts_per_s: Some(f64::INFINITY),
            registers_per_frame: Some(Registers { read: f64::NAN, write: 1.0 }),
            allocations_per_frame: Some(f64::NAN),
            ..Trial::default().with_cpu(cpu)
        };
        let rounded = trial.rounded();
        assert_eq!((rounded.cpu, rounded.cpu_busy, rounded.bus_busy), (None, None, None));
        assert_eq!((rounded.interrupts_per_s, rounded.registers_per_frame), (None, None));
        assert_eq!(rounded.allocations_per_frame, None);
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
