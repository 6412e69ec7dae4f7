//! A trial where there are no ports: the machine room, a guest, a system whose rate is known.

use super::{Arguments, REAL, publish};
use crate::error::Failure;
use crate::interrupt;
use crate::output::Output;
use crate::points::use_sizes;
use crate::search::in_words;
use crate::testbed::{self, Opened};
use kpps_live::Progress;
use kpps_measure::Load;
use kpps_ports::port::run::Shape;
use kpps_report::trial::{BitRates, Processor, Trial, TrialLedger};
use std::collections::BTreeMap;

/// Runs it. As in curves, what is counted belongs to the measured time, and the ledger to the whole trial: its warm-up and its
/// end, too.
pub fn run(arguments: &Arguments, opened: Opened) -> Result<(), Failure> {
    let name = arguments.testbed.join(",");
    let own = [
        ("--shape", arguments.shape != Shape::Constant),
        ("--replay", arguments.load.is_none()),
        ("--certificate", !arguments.certificate.is_empty()),
        ("--capture", arguments.capture.is_some()),
    ];
    let own = own.into_iter().find_map(|(what, asked)| asked.then_some(what));
    if let Some(what) = arguments.bench.asked().or(own) {
        return Err(Failure::Input(format!("{name}: {what} takes two ports")));
    }
    let Opened { mut testbed, source, environment } = opened;
    let (line_pps, size) = use_sizes(&mut *testbed, &arguments.size)?;
    let asked_pps =
        arguments.load.map_or(f64::INFINITY, |load| load.pps(line_pps, arguments.size.mean_bytes_with_fcs()));
    let usual = if testbed::is_virtual(&name) { testbed::VIRTUAL_TRIAL } else { REAL };
    let load = Load {
        // As much as goes is what the wire carries.
        offered_pps: if asked_pps.is_finite() { asked_pps } else { line_pps },
        size,
        warmup_ms: testbed::WARMUP_MS,
        duration_ms: u32::try_from(arguments.duration.unwrap_or(usual).as_millis()).unwrap_or(u32::MAX),
        seed: 1,
    };
    let report = arguments.report.as_deref().map(Output::open).transpose()?;
    interrupt::watch();
    let duration_s = f64::from(load.duration_ms) / 1e3;
    let progress = Progress::of(format!("kpps trial: {name}"));
    let view = arguments.common.live.view(progress.clone(), source, arguments.common.json)?;
    progress.begins(in_words(&arguments.size, Some(load.offered_pps), duration_s), Some(load.offered_pps));
    let trial = testbed.trial_while(&load, &|| !interrupt::asked())?;
    drop(view);
    let intended = trial.sent + trial.unsent;
    let seconds = trial.seconds;
    let (sent_pps, received_pps) = (trial.sent as f64 / seconds, trial.delivered as f64 / seconds);
    // Places that lost nothing have nothing to say.
    let kept = |places: &BTreeMap<String, u64>| {
        places
            .iter()
            .filter(|&(_, &frames)| frames > 0)
            .map(|(place, &frames)| (place.clone(), frames))
            .collect()
    };
    let ledger = TrialLedger {
        intended: trial.ledger.sent + trial.ledger.unsent,
        sent: trial.ledger.sent,
        unsent: trial.ledger.unsent,
        delivered: trial.ledger.delivered,
        dropped: kept(&trial.ledger.dropped),
        in_flight_at: kept(&trial.ledger.in_flight_at),
        ..TrialLedger::default()
    };
    // A system whose rate is known has no processor.
    let processors = (trial.cpu.busy() > 0.0).then(|| processor(&trial.cpu, seconds));
    let document = Trial {
        kpps_version: env!("CARGO_PKG_VERSION").into(),
        testbed: vec![name],
        frame_bytes_with_fcs: size.bytes_with_fcs(),
        offered_pps: Some(load.offered_pps),
        line_rate_pps: Some(line_pps),
        duration_s,
        seconds,
        complete: true,
        learned: true,
        intended,
        sent: trial.sent,
        unsent: trial.unsent,
        received: trial.delivered,
        lost: trial.sent.saturating_sub(trial.delivered),
        loss_ratio: trial.loss_ratio(),
        sent_pps,
        received_pps,
        sent_bps: BitRates {
            l1: arguments.size.l1_bits_per_s(sent_pps),
            l2: arguments.size.l2_bits_per_s(sent_pps),
        },
        latency_ns: trial.latency.quantiles(),
        environment,
        ledger: ledger.closed(),
        processors: processors.into_iter().collect(),
        interrupts: [("card".to_owned(), trial.interrupts)].into(),
        ..Trial::default()
    };
    publish(arguments, &document.rounded(), report)
}

/// What the processor spent its time on. Polls that find nothing are time that others could have: it counts as idle.
fn processor(cpu: &kpps_report::Cpu, seconds: f64) -> Processor {
    Processor {
        user_s: cpu.thread * seconds,
        irq_s: cpu.hardirq * seconds,
        softirq_s: cpu.softirq * seconds,
        idle_s: (1.0 - cpu.busy() + cpu.empty_polls).max(0.0) * seconds,
        ..Processor::default()
    }
}
