//! The experiment that every workload goes through: check the load, warm up, measure, drain.
//!
//! A workload builds a [`Simulation`], puts its source on the wire and its sink on the stack, and has its own
//! readings besides the counters of machine, cards and drivers. [`Simulation::measure`] runs the [`Phases`]
//! and reads all of them at the same two instants; the results are made from the [`Interval`] between them.

use crate::device::e1000::DriverReading;
use crate::per_frame::PerFrame;
use crate::simulation::Simulation;
use kpps_documents::{Cpu, Ledger, Trial};
use kpps_frames::rate::Rate;
use kpps_host::cpu::{Counters, Profile, Usage};
use kpps_host::{MS, Machine};
use kpps_methods::{Latency, Load, TrialError};
use std::time::Duration;

/// How far a load may exceed the line rate, relative to it: rates are worked out in floating point.
const ROUNDING: f64 = 1e-6;

/// The rate of a load in frames per second, checked by [`check_load`].
pub(crate) fn offered_pps(rate: Rate, most_pps: f64, wire: &str) -> Result<f64, TrialError> {
    let offered_pps = rate.pps_of(most_pps);
    check_load(offered_pps, most_pps, wire).map(|()| offered_pps)
}

/// Fails unless `offered_pps` is above 0 and at most `most_pps`, which is what `wire` carries.
pub(crate) fn check_load(offered_pps: f64, most_pps: f64, wire: &str) -> Result<(), TrialError> {
    if offered_pps > 0.0 && offered_pps <= most_pps * (1.0 + ROUNDING) {
        return Ok(());
    }
    Err(TrialError::Load(format!(
        "a load of {offered_pps:.0} pps cannot be offered: give a load above 0 and at most {wire}, {most_pps:.0} pps"
    )))
}

/// When the phases of an experiment end, in picoseconds of virtual time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Phases {
    /// The machine is set up, and the warm-up begins.
    pub begin_ps: u64,
    /// The warm-up ends, and the measurement begins.
    pub measure_ps: u64,
    /// The measurement ends. Frames sent in it may still arrive.
    pub end_ps: u64,
    /// They have had their time.
    pub drained_ps: u64,
}

impl Phases {
    /// A warm-up that begins at `begin_ps`, and a measurement. An error if nothing would be measured.
    pub fn new(begin_ps: u64, warmup_ps: u64, duration_ps: u64) -> Result<Self, TrialError> {
        if duration_ps == 0 {
            return Err(TrialError::Load("the duration is 0: nothing would be measured".into()));
        }
        let measure_ps = begin_ps + warmup_ps;
        let end_ps = measure_ps + duration_ps;
        Ok(Self { begin_ps, measure_ps, end_ps, drained_ps: end_ps })
    }

    /// The same for times in milliseconds: warm-up and measurement.
    pub fn of_ms(begin_ps: u64, (warmup_ms, duration_ms): (u32, u32)) -> Result<Self, TrialError> {
        Self::new(begin_ps, u64::from(warmup_ms) * MS, u64::from(duration_ms) * MS)
    }

    /// The same for the times of a load.
    pub fn of(begin_ps: u64, load: &Load) -> Result<Self, TrialError> {
        let ps = |time: Duration| u64::try_from(time.as_nanos() * 1000).unwrap_or(u64::MAX);
        Self::new(begin_ps, ps(load.warmup), ps(load.duration))
    }

    /// The same times with `drain_ms` milliseconds after the measurement.
    pub fn draining(self, drain_ms: u32) -> Self {
        Self { drained_ps: self.end_ps + u64::from(drain_ms) * MS, ..self }
    }
}

/// All counters at one instant.
pub(crate) struct Snapshot<R> {
    /// The instant.
    pub at_ps: u64,
    /// How the CPUs' time has gone, all together.
    pub usage: Usage,
    /// The same for each CPU.
    pub cpus: Vec<Usage>,
    /// Where it has gone, by level and function.
    pub profile: Profile,
    /// The machine's counters.
    pub counters: Counters,
    /// Time for which the bus was occupied.
    pub bus_busy_ps: u64,
    /// Bursts on the bus, register accesses among them.
    pub bus_transactions: u64,
    /// Bytes that CPUs and cards have moved to and from memory.
    pub memory_bytes: u64,
    /// The e1000 cards, by slot.
    pub cards: Vec<kpps_card::Tally>,
    /// Their drivers.
    pub drivers: Vec<DriverReading>,
    /// The workload's own readings.
    pub own: R,
}

/// The interval between two snapshots.
pub(crate) struct Interval<R> {
    pub from: Snapshot<R>,
    pub to: Snapshot<R>,
}

impl Simulation {
    /// Reads all counters; `own` has the workload's readings.
    pub fn snapshot<R>(&self, own: R) -> Snapshot<R> {
        let machine = self.machine();
        let drivers = self.drivers();
        let (bus_busy_ps, bus_transactions, cards) = machine.with_world(|world| {
            let cards = (0..drivers.len()).map(|slot| *world.nic(slot).tally()).collect();
            (world.bus().busy_ps(), world.bus().transactions(), cards)
        });
        Snapshot {
            at_ps: machine.now_ps(),
            usage: machine.usage(),
            cpus: (0..machine.cpus()).map(|cpu| machine.usage_of(cpu)).collect(),
            profile: machine.profile(),
            counters: machine.counters(),
            bus_busy_ps,
            bus_transactions,
            memory_bytes: machine.memory().channel().bytes(),
            cards,
            drivers: drivers.iter().map(|driver| driver.reading()).collect(),
            own,
        }
    }

    /// Warms up, measures and drains; then checks cards and drivers. `read` is called at the beginning and at
    /// the end of the measurement.
    pub fn measure<R>(
        &self,
        phases: &Phases,
        go_on: &dyn Fn() -> bool,
        read: impl Fn(&Machine) -> R,
    ) -> Result<Interval<R>, TrialError> {
        self.run(phases.measure_ps, go_on)?;
        let from = self.snapshot(read(self.machine()));
        self.run(phases.end_ps, go_on)?;
        let to = self.snapshot(read(self.machine()));
        self.run(phases.drained_ps, go_on)?;
        self.check()?;
        Ok(Interval { from, to })
    }
}

impl<R> Interval<R> {
    /// How long it is, in picoseconds.
    pub fn elapsed_ps(&self) -> u64 {
        self.to.at_ps - self.from.at_ps
    }

    /// How long it is, in seconds.
    pub fn seconds(&self) -> f64 {
        self.elapsed_ps() as f64 / 1e12
    }

    /// How much a counter has grown.
    pub fn count(&self, of: impl Fn(&Snapshot<R>) -> u64) -> u64 {
        of(&self.to) - of(&self.from)
    }

    /// The same per second.
    pub fn per_second(&self, of: impl Fn(&Snapshot<R>) -> u64) -> f64 {
        self.count(of) as f64 * 1e12 / self.elapsed_ps() as f64
    }

    /// How much a clock in picoseconds has advanced, as a share of the time.
    pub fn share(&self, of: impl Fn(&Snapshot<R>) -> u64) -> f64 {
        self.count(of) as f64 / self.elapsed_ps() as f64
    }

    /// How the time of all CPUs went, as shares of the time of one.
    pub fn cpu(&self) -> Cpu {
        self.cpu_of(|snapshot| &snapshot.usage)
    }

    /// How the time of each CPU went.
    pub fn cpus(&self) -> Vec<Cpu> {
        (0..self.from.cpus.len()).map(|cpu| self.cpu_of(|snapshot| &snapshot.cpus[cpu])).collect()
    }

    fn cpu_of(&self, usage: impl Fn(&Snapshot<R>) -> &Usage) -> Cpu {
        let share = |of: fn(&Usage) -> u64| self.share(|snapshot| of(usage(snapshot)));
        let idle_polls = share(|usage| usage.empty_poll_ps);
        Cpu {
            hardirq: share(|usage| usage.hardirq_ps),
            softirq: share(|usage| usage.softirq_ps),
            thread: share(|usage| usage.thread_ps) - idle_polls,
            idle_polls: Some(idle_polls),
        }
    }

    /// Where CPU time went, by level and function.
    pub fn profile(&self) -> Profile {
        self.to.profile.since(&self.from.profile)
    }

    /// How much a counter has grown for each of `frames`; `None` without frames.
    pub fn per(&self, frames: u64, of: impl Fn(&Snapshot<R>) -> u64) -> Option<f64> {
        (frames > 0).then(|| self.count(of) as f64 / frames as f64)
    }

    /// The machine's counts for each of `frames`; `None` without frames.
    pub fn per_frame(&self, frames: u64) -> Option<PerFrame> {
        let per = |of: fn(&Snapshot<R>) -> u64| self.per(frames, of);
        Some(PerFrame {
            interrupts: per(|s| s.counters.interrupts)?,
            register_reads: per(|s| s.counters.register_reads)?,
            register_writes: per(|s| s.counters.register_writes)?,
            mask_writes: per(|s| s.counters.mask_writes)?,
            bus_transactions: per(|s| s.bus_transactions)?,
            allocations: per(|s| s.counters.allocations)?,
            allocated_bytes: per(|s| s.counters.allocated_bytes)?,
            cache_misses: per(|s| s.counters.cache_misses)?,
            line_transfers: per(|s| s.counters.line_transfers)?,
        })
    }

    /// The result of a trial: of `sent` frames `delivered` arrived; the drivers took `taken` meanwhile. An
    /// error if no frame was due.
    pub fn trial(
        &self,
        load: &Load,
        offered_pps: f64,
        (sent, delivered, taken): (u64, u64, u64),
        latency: &Latency,
        ledger: Ledger,
    ) -> Result<Trial, TrialError> {
        let registers =
            [self.count(|s| s.counters.register_reads), self.count(|s| s.counters.register_writes)];
        let trial = Trial::new(offered_pps, self.seconds(), [sent, 0, delivered], ledger)
            .ok_or_else(|| TrialError::nothing_due(load))?
            .with_cpu(mean(&self.cpus()))
            .with_driver(taken, Some(self.count(|s| s.counters.interrupts)), Some(registers))
            .with_allocations(self.count(|s| s.counters.allocations));
        let bus_busy = Some(self.share(|s| s.bus_busy_ps));
        Ok(Trial { bus_busy, latency_ns: latency.quantiles(), ..trial })
    }
}

/// How the time of several CPUs went on average.
fn mean(cpus: &[Cpu]) -> Cpu {
    let share = |of: fn(&Cpu) -> f64| cpus.iter().map(of).sum::<f64>() / cpus.len().max(1) as f64;
    Cpu {
        hardirq: share(|cpu| cpu.hardirq),
        softirq: share(|cpu| cpu.softirq),
        thread: share(|cpu| cpu.thread),
        idle_polls: Some(share(|cpu| cpu.idle_polls.unwrap_or(0.0))),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_load_is_above_nothing_and_at_most_what_the_wire_carries() {
        let line = 1e9 / 672.0;
        for offered in [1e-6, 1.0, line, line * (1.0 + 1e-7)] {
            assert_eq!(offered_pps(Rate::Pps(offered), line, "line rate").unwrap(), offered);
        }
        for offered in [0.0, -1.0, line * 1.001, f64::INFINITY, f64::NAN] {
            let error = offered_pps(Rate::Pps(offered), line, "line rate").unwrap_err().to_string();
            assert!(error.contains("at most line rate, 1488095 pps"), "{error}");
        }
        assert_eq!(offered_pps(Rate::Max, line, "line rate").unwrap(), line);
    }

    #[test]
    fn phases_follow_each_other() {
        let phases = Phases::of_ms(7, (2, 3)).unwrap().draining(4);
        let Phases { begin_ps, measure_ps, end_ps, drained_ps } = phases;
        assert_eq!([begin_ps, measure_ps, end_ps, drained_ps], [7, 7 + 2 * MS, 7 + 5 * MS, 7 + 9 * MS]);
        assert!(matches!(Phases::of_ms(0, (5, 0)), Err(TrialError::Load(_))));
        let load = Load::of(1.0, kpps_frames::Size::MIN).lasting_ms(2, 3);
        assert_eq!(Phases::of(7, &load).unwrap().draining(4), phases);
    }
}
