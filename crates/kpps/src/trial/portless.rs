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
use kpps_results::detail::{BitRates, DetailedTrial};

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
    // Places that lost nothing have nothing to say.
    let mut result = trial;
    for places in [&mut result.ledger.dropped, &mut result.ledger.in_flight_at] {
        places.retain(|_, frames| *frames > 0);
    }
    let document = DetailedTrial {
        kpps_version: env!("CARGO_PKG_VERSION").into(),
        testbed: vec![name],
        frame_bytes_with_fcs: size.bytes_with_fcs(),
        load_pps: Some(load.offered_pps),
        line_rate_pps: Some(line_pps),
        duration_s,
        complete: true,
        intended: result.due(),
        received: result.delivered,
        lost: result.sent.saturating_sub(result.delivered),
        received_pps: result.delivered_pps,
        sent_bps: BitRates {
            l1: sizes.l1_bits_per_s(result.sent_pps),
            l2: sizes.l2_bits_per_s(result.sent_pps),
        },
        environment,
        result,
        ..DetailedTrial::default()
    };
    publish(&document.rounded(), files)
}
