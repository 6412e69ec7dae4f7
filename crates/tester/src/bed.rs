//! The tester as a testbed of the bench: searches and curves run on it as they do on the machine room.

use crate::trial::{Offer, Tester, Way};
use kpps_bench::{Latency, Load, Testbed, Trial, TrialError};
use kpps_frames::{Size, rate};
use kpps_ports::port::run;
use kpps_report::{Cpu, Ledger};
use std::time::Duration;

/// A tester, and what its offers have in common.
pub struct Bed {
    /// The tester.
    pub tester: Tester,
    /// How long frames may still arrive.
    pub settle: Duration,
    /// Frames go both ways.
    pub both_ways: bool,
}

impl Testbed for Bed {
    /// That of the slower link; of a gigabit wire if no speed is known.
    fn line_rate_pps(&self, size: Size) -> f64 {
        self.tester.line_rate_pps(size).unwrap_or(rate::line_rate_pps(rate::GIGABIT, size))
    }

    /// There is no warm-up: learning frames came before. Damaged frames are not delivered.
    fn trial_while(&mut self, load: &Load, go_on: &dyn Fn() -> bool) -> Result<Trial, TrialError> {
        let offer = Offer {
            load: run::Load::Pps(load.offered_pps),
            size: load.size,
            duration: Duration::from_millis(load.duration_ms.into()),
            settle: self.settle,
            both_ways: self.both_ways,
        };
        let outcome =
            self.tester.trial(&offer, go_on).map_err(|error| TrialError::Testbed(error.to_string()))?;
        if let Some(trouble) = outcome.trouble {
            return Err(TrialError::Testbed(trouble.to_string()));
        }
        if !outcome.complete {
            return Err(TrialError::Interrupted);
        }
        let sum = |count: fn(&Way) -> u64| outcome.ways.iter().map(count).sum::<u64>();
        let (sent, unsent) = (sum(|way| way.sent), sum(Way::unsent));
        let received = sum(|way| way.arrived.received);
        let mut latency = Latency::default();
        for way in &outcome.ways {
            latency.add(&way.latency);
        }
        let seconds = offer.duration.as_secs_f64();
        let (mut cpu, mut processors) = (Cpu::default(), 0.0);
        for (from, to) in outcome.before.processors.iter().zip(&outcome.after.processors) {
            let spent = to.since(from);
            cpu.hardirq += spent.irq_s;
            cpu.softirq += spent.softirq_s;
            cpu.thread += spent.user_s + spent.system_s;
            processors += spent.idle_s + spent.steal_s;
        }
        let whole = cpu.busy() + processors;
        let share = |part: f64| if whole > 0.0 { part / whole } else { 0.0 };
        let cpu = Cpu {
            hardirq: share(cpu.hardirq),
            softirq: share(cpu.softirq),
            thread: share(cpu.thread),
            empty_polls: 0.0,
        };
        Ok(Trial {
            seconds,
            sent,
            unsent,
            delivered: received.saturating_sub(sum(|way| way.arrived.corrupted)),
            taken: received,
            interrupts: 0,
            register_reads: 0,
            register_writes: 0,
            allocations: 0,
            cpu,
            bus_busy: 0.0,
            latency,
            ledger: Ledger {
                sent,
                unsent,
                delivered: received,
                in_flight: outcome.accounts.in_flight_at.values().sum(),
                dropped: outcome.accounts.dropped,
                in_flight_at: outcome.accounts.in_flight_at,
            },
        })
    }
}
