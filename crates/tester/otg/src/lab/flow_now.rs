//! The counts of a flow: those of its legs together.

use super::flow_state::Totals;
use super::member::Member;
use kpps_documents::FlowLatency;

/// The counts of a flow, or of some of its legs.
#[derive(Clone, Debug, Default)]
pub struct FlowNow {
    /// Frames and bytes.
    pub totals: Totals,
    /// Frames per second, sent and received.
    pub rates_pps: [f64; 2],
    /// Bytes per second, with FCS, sent and received.
    pub byte_rates: [f64; 2],
    /// The rate at which its frames were due, in frames per second.
    pub offered_pps: f64,
    /// Whether a leg sends, or will.
    pub is_active: bool,
    /// Whether all of its legs that send are paused.
    pub is_paused: bool,
    /// Times from sending to receiving; `None` if they are unknown for a leg with received frames.
    pub latency: Option<FlowLatency>,
    /// When the first and the last frame arrived, in ns since 1970. The first one may be unknown.
    pub arrivals_ns: Option<(Option<u64>, u64)>,
}

impl FlowNow {
    /// The counts of these legs, each with its frames and bytes.
    pub fn of<'m>(legs: impl Iterator<Item = (&'m Member, Totals)>) -> Self {
        let mut all = Self { is_paused: true, ..Self::default() };
        let mut latencies = Some(Vec::new());
        for (Member { state, .. }, totals) in legs {
            all.totals = all.totals.and(&totals);
            for (way, pps) in state.rates_pps.into_iter().enumerate() {
                all.rates_pps[way] += pps;
                all.byte_rates[way] += pps * state.mean_bytes;
            }
            all.offered_pps += state.offered_pps;
            all.is_active |= state.is_active();
            all.is_paused &= state.is_paused || !state.is_active();
            match state.latency {
                Some(latency) => latencies.iter_mut().for_each(|all| all.push((totals.frames[1], latency))),
                None if totals.frames[1] > 0 => latencies = None,
                None => {}
            }
            all.arrivals_ns = match (all.arrivals_ns, state.arrivals_ns) {
                (Some((first, last)), Some((other, later))) => {
                    Some((first.zip(other).map(|(a, b)| a.min(b)), last.max(later)))
                }
                (one, other) => one.or(other),
            };
        }
        all.is_paused &= all.is_active;
        all.latency = latencies.and_then(|all| together(&all));
        all
    }
}

/// The latencies of several numbers of frames together. Their jitter is of frames in a row, and unknown for
/// frames of several legs.
fn together(all: &[(u64, FlowLatency)]) -> Option<FlowLatency> {
    if let [(_, only)] = all {
        return Some(*only);
    }
    let frames: u128 = all.iter().map(|(frames, _)| u128::from(*frames)).sum();
    let sum: u128 = all.iter().map(|(frames, it)| u128::from(*frames) * u128::from(it.mean)).sum();
    Some(FlowLatency {
        min: all.iter().map(|(_, it)| it.min).min()?,
        mean: u64::try_from(sum.checked_div(frames)?).ok()?,
        max: all.iter().map(|(_, it)| it.max).max()?,
        jitter: None,
    })
}
