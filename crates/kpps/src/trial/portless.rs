//! A trial without ports: in the simulator, on a guest, on a system whose rate is known.

use super::{Arguments, REAL, publish};
use crate::error::Failure;
use crate::interrupt;
use crate::opened::Opened;
use crate::testbed::WARMUP_MS;
use kpps_frames::Mix;
use kpps_live::Progress;
use kpps_measure::{Load, in_words, use_sizes};
use kpps_ports::port::run::Shape;
use kpps_results::trial::{BitRates, Processor, Trial, TrialLedger};
use std::collections::BTreeMap;

/// Runs it. As in curves, what is counted belongs to the measured time, and the ledger to the whole trial: its warm-up and its
/// end, too.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    let target = &arguments.target;
    let name = target.name().join(",");
    let own = [
        ("--shape", arguments.shape != Shape::Constant),
        ("--replay", arguments.load.is_none()),
        ("--calibration", !arguments.calibration.is_empty()),
        ("--capture", arguments.capture.is_some()),
    ];
    let own = own.into_iter().find_map(|(what, asked)| asked.then_some(what));
    if let Some(what) = target.pair.given().or(own) {
        return Err(Failure::Input(format!("{name}: {what} takes two ports")));
    }
    let Opened { mut testbed, source, environment } = target.open()?;
    let sizes = arguments.size.clone().unwrap_or_else(|| Mix::fixed(target.top.size(None)));
    let (line_pps, size) = use_sizes(&mut *testbed, &sizes)?;
    let asked_pps =
        arguments.load.map_or(f64::INFINITY, |load| load.pps(line_pps, sizes.mean_bytes_with_fcs()));
    let usual = if target.is_simulated() { target.trial_time() } else { REAL };
    let load = Load {
        // As much as goes is what the wire carries.
        offered_pps: if asked_pps.is_finite() { asked_pps } else { line_pps },
        size,
        warmup_ms: WARMUP_MS,
        duration_ms: u32::try_from(arguments.duration.unwrap_or(usual).as_millis()).unwrap_or(u32::MAX),
        seed: target.seed,
    };
    let files = arguments.outputs.open("trial")?;
    interrupt::watch();
    let duration_s = f64::from(load.duration_ms) / 1e3;
    let progress = Progress::of(format!("kpps trial: {name}"));
    let view = target.options.live.view(progress.clone(), source, arguments.outputs.for_machines())?;
    progress.begins(in_words(&sizes, Some(load.offered_pps), duration_s), Some(load.offered_pps));
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
        sent_bps: BitRates { l1: sizes.l1_bits_per_s(sent_pps), l2: sizes.l2_bits_per_s(sent_pps) },
        latency_ns: trial.latency.quantiles(),
        environment,
        ledger: ledger.closed(),
        processors: processors.into_iter().collect(),
        interrupts: [("card".to_owned(), trial.interrupts)].into(),
        ..Trial::default()
    };
    publish(&document.rounded(), files)
}

/// What the processor spent its time on. Polls that find nothing are time that others could have: it counts as idle.
fn processor(cpu: &kpps_results::Cpu, seconds: f64) -> Processor {
    Processor {
        user_s: cpu.thread * seconds,
        irq_s: cpu.hardirq * seconds,
        softirq_s: cpu.softirq * seconds,
        idle_s: (1.0 - cpu.busy() + cpu.empty_polls).max(0.0) * seconds,
        ..Processor::default()
    }
}
