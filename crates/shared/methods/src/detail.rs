//! A trial on any testbed as a document of its own.

use crate::points::mix;
use crate::trial::Load;
use kpps_documents::detail::{BitRates, DetailedTrial};
use kpps_documents::{Doubt, Trial};

/// The document of a trial of this load, without the testbed's name and environment. As in
/// curves, the counts belong to the measured time, and the ledger to the whole trial with its warm-up and its
/// end.
pub fn detailed(load: &Load, line_pps: f64, mut result: Trial) -> DetailedTrial {
    let sizes = &load.sizes;
    // Places without losses are left out.
    for places in [&mut result.ledger.dropped, &mut result.ledger.in_flight_at] {
        places.retain(|_, frames| *frames > 0);
    }
    DetailedTrial {
        kpps_version: env!("CARGO_PKG_VERSION").into(),
        frame_bytes_with_fcs: sizes.mean_bytes_with_fcs().round() as u32,
        mix: mix(sizes),
        load_pps: load.rate.pps(),
        line_rate_pps: Some(line_pps),
        duration_s: load.seconds(),
        complete: true,
        doubts: Doubt::about(&result, []),
        intended: result.due(),
        received: result.delivered,
        lost: result.sent.saturating_sub(result.delivered),
        received_pps: result.delivered_pps,
        sent_bps: BitRates {
            l1: sizes.l1_bits_per_s(result.sent_pps),
            l2: sizes.l2_bits_per_s(result.sent_pps),
        },
        result,
        ..DetailedTrial::default()
    }
}
