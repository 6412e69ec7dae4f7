//! The highest rate of a port, and the regularity of its gaps below that.

use crate::accounting::document::gaps;
use kpps_documents::calibration::{Calibration, Paced};
use kpps_frames::Templates;
use kpps_frames::rate::Rate;
use kpps_methods::ndr::tenths;
use kpps_ports::port::run::{SendPlan, Sent, StreamPlan, Watch, send};
use kpps_ports::port::{AnyPort, Trouble};
use std::sync::Arc;

/// Times that the ceiling is measured; the lowest counts.
const ROUNDS: usize = 3;
/// Paced loads, as shares of the ceiling.
const SHARES: [f64; 4] = [0.1, 0.5, 0.8, 0.95];

/// Measures the ceiling of a port with this frame, and the gaps at shares of it. Each rate is sent as long as
/// a new `watch` says. The document lacks the port's name, the frame size and the duration.
///
/// # Errors
/// The port failed.
pub fn calibrate<W: Watch>(
    port: &mut AnyPort,
    frame: &[u8],
    mut watch: impl FnMut() -> W,
) -> Result<Calibration, Trouble> {
    let frames = Arc::new(Templates::one(frame));
    let mut measure = |load| -> Result<(Sent, f64), Trouble> {
        // As trials send.
        let plan = SendPlan { rewrite: true, ..SendPlan::one(load, StreamPlan::of(frames.clone())) };
        let mut watch = watch();
        let sent = match &mut *port {
            #[cfg(target_os = "linux")]
            AnyPort::Card(card) => send(&mut **card, &plan, &mut watch),
            port => send(port, &plan, &mut watch),
        }?;
        let pps = sent.sent as f64 / sent.elapsed.as_secs_f64().max(1e-9);
        Ok((sent, pps))
    };
    let mut rounds_pps = Vec::new();
    for _ in 0..ROUNDS {
        rounds_pps.push(tenths(measure(Rate::Max)?.1));
    }
    let ceiling_pps = rounds_pps.iter().copied().fold(f64::INFINITY, f64::min);
    let mut paced = Vec::new();
    for share in SHARES {
        let (sent, sent_pps) = measure(Rate::Pps(ceiling_pps * share))?;
        paced.push(Paced {
            offered_pps: tenths(ceiling_pps * share),
            sent_pps: tenths(sent_pps),
            shortfall: sent.shortfall,
            gaps: sent.gaps.as_ref().map(gaps),
        });
    }
    Ok(Calibration { ceiling_pps, rounds_pps, paced, ..Calibration::default() })
}
