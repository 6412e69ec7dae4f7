//! A trial on any testbed as a document of its own.

use crate::points::of_frames;
use crate::trial::Load;
use kpps_documents::detail::{BitRates, DetailedTrial, Fate};
use kpps_documents::{Doubt, Environment, Trial};

/// The document of a trial of this load on the testbed with this environment. As in curves, the counts belong
/// to the measured time, and the ledger to the whole trial with its warm-up and its end.
pub fn detailed(environment: Environment, load: &Load, mut result: Trial) -> DetailedTrial {
    let sizes = &load.sizes;
    // Places without losses are left out.
    for places in [&mut result.ledger.dropped, &mut result.ledger.in_flight_at] {
        places.retain(|_, frames| *frames > 0);
    }
    DetailedTrial {
        environment: of_frames(environment, load),
        load_pps: load.rate.pps(),
        complete: true,
        doubts: Doubt::about(&result, []),
        fate: Fate {
            intended: result.due(),
            received: result.delivered,
            lost: result.sent.saturating_sub(result.delivered),
            ..Fate::default()
        },
        received_pps: result.delivered_pps,
        sent_bps: BitRates {
            l1: sizes.l1_bits_per_s(result.sent_pps),
            l2: sizes.l2_bits_per_s(result.sent_pps),
        },
        result,
        ..DetailedTrial::default()
    }
}
