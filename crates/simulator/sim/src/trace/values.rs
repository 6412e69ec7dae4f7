//! A trace as values with names, for studies and tables.

use super::{Trace, regimes};
use kpps_frames::{Size, rate};
use kpps_host::bus::{Master, Transaction, What};
use kpps_host::cpu::Function;

/// Ethernet header and FCS, in bytes.
const AROUND_BYTES: u32 = 18;

/// The values of a trace for frames of `size`, by name: rates in frames per second of the first port, the
/// last and all; loss in frames; shares of the bus and of the CPUs; the regimes of the first card's
/// reception. `None` if the trace does not show a value.
pub fn values(trace: &Trace, size: Size) -> Vec<(&'static str, Option<f64>)> {
    let r = regimes(trace, 0);
    let port = trace.ports.first().copied().unwrap_or_default();
    let (before, after) = (port.card_before, port.card);
    let per_frame = |count: u64| (port.received() > 0).then(|| count as f64 / port.received() as f64);
    let busy: u64 = trace.usage.busy_ps();
    let of = |function: Function| (busy > 0).then(|| trace.profile.of(function) as f64 / busy as f64);
    let mut functions: Vec<Function> = Function::ALL.to_vec();
    functions.sort_by_key(|&function| std::cmp::Reverse(trace.profile.of(function)));
    let rank = |function: Function| {
        let at = functions.iter().position(|&other| other == function).filter(|_| busy > 0)?;
        Some(at as f64 + 1.0)
    };
    let taken = |what: What| trace.log.transactions().filter(|t| t.what == what).count() as f64;
    let (mut data_ps, mut log_ps) = (0.0, 0.0);
    for t in trace.log.transactions() {
        log_ps += (t.end_ps - t.start_ps) as f64;
        data_ps += f64::from(t.bytes.div_ceil(8)) * trace.clock_ps as f64;
    }
    let in_card = |tally: &kpps_card::Tally| (tally.in_fifo + tally.to_host) as f64;
    let background = trace.background;
    let rates = [
        ("sent_pps", port.sent as f64 / trace.seconds()),
        ("delivered_pps", trace.delivered_pps(0)),
        ("delivered_last_pps", trace.delivered_pps(trace.ports.len() - 1)),
        ("delivered_all_pps", (0..trace.ports.len()).map(|p| trace.delivered_pps(p)).sum()),
        ("line_pps", rate::line_rate_pps(rate::GIGABIT, size)),
        ("payload_bytes", f64::from(size.bytes_with_fcs() - AROUND_BYTES)),
        ("sent_gb_per_s", port.sent as f64 / trace.seconds() * f64::from(size.bytes_with_fcs()) * 8e-9),
        ("delivered_gb_per_s", trace.delivered_pps(0) * f64::from(size.bytes_with_fcs()) * 8e-9),
        ("received_pps", trace.received_pps(0)),
        ("received_last_pps", trace.received_pps(trace.ports.len() - 1)),
        ("received_all_pps", (0..trace.ports.len()).map(|p| trace.received_pps(p)).sum()),
        ("received_gb_per_s", trace.received_pps(0) * f64::from(size.bytes_with_fcs()) * 8e-9),
        ("missed", port.missed as f64),
        ("sent", port.sent as f64),
        ("delivered", port.delivered as f64),
        // Sent frames, less the frames that the card has stored or still has.
        ("lost", port.sent as f64 - (in_card(&after) - in_card(&before))),
        ("bus_busy", trace.bus_busy()),
        ("bus_mb_per_s", trace.bus_mb_per_s()),
        ("rx_data", taken(What::RxData)),
        ("interrupts_per_s", trace.counters.interrupts as f64 / trace.seconds()),
        ("cpu_busy", busy as f64 / 1e12 / trace.seconds() / trace.ports.len() as f64),
        ("stumbled", f64::from(u8::from(r.stumbled))),
        ("smooth_frames", r.smooth_frames as f64),
    ];
    let bursts = |ps: u64, of: u64| (background.bursts > 0).then(|| ps as f64 / 1e3 / of as f64);
    let perhaps = [
        ("bus_overhead", (log_ps > 0.0).then(|| 1.0 - data_ps / log_ps)),
        ("cuts_per_frame", per_frame(after.rx_fetches_cut - before.rx_fetches_cut)),
        ("allocations_per_frame", per_frame(trace.counters.allocations)),
        ("misses_per_frame", per_frame(trace.counters.cache_misses)),
        ("uncached_per_frame", per_frame(trace.counters.uncached)),
        ("allocate_share", of(Function::Allocate)),
        ("free_share", of(Function::Free)),
        ("allocate_rank", rank(Function::Allocate)),
        ("free_rank", rank(Function::Free)),
        ("background_ns", bursts(background.latency_ps, background.bursts)),
        ("background_max_ns", bursts(background.latency_max_ps, 1)),
        ("smooth_clocks", r.smooth_clocks),
        ("smooth_frames_per_us", r.smooth_frames_per_us),
        ("frame_gap_clocks", r.frame_gap_clocks),
        ("group_gap_clocks", r.group_gap_clocks),
        ("group_frames", r.group_frames),
        ("write_back_descriptors", r.write_back_descriptors),
        ("write_back_share", r.write_back_share),
        ("write_back_after_clocks", r.write_back_after_clocks),
        ("write_back_gap_clocks", r.write_back_gap_clocks),
        ("fetch_frames", r.fetch_frames),
        ("fetch_bursts", r.fetch_bursts),
        ("fetch_descriptors", r.fetch_descriptors),
        ("tail_updates", r.tail_updates),
        ("tail_descriptors", r.tail_descriptors),
        ("stumble_gap_clocks", r.stumble_gap_clocks),
        ("stumble_least_clocks", r.stumble_least_clocks),
        ("stumble_gap_median_clocks", r.stumble_gap_median_clocks),
        ("stumble_frames_per_us", r.stumble_frames_per_us),
    ];
    rates.map(|(name, rate)| (name, Some(rate))).into_iter().chain(perhaps).collect()
}

/// How many frames to the card in slot `port` had begun to cross the bus at each multiple of `every` clocks:
/// clocks since the trace began, and frames.
pub fn crossed(trace: &Trace, port: u8, every: u64) -> Vec<(f64, f64)> {
    let mine = |t: &&Transaction| t.what == What::RxData && t.master == Master::Card(port) && !t.cut;
    let mut frames = trace.log.transactions().filter(mine).map(|t| t.start_ps).peekable();
    let last = (trace.ended_ps - trace.began_ps) / trace.clock_ps / every.max(1);
    let mut count = 0.0;
    (1..=last)
        .map(|n| {
            let clock = n * every;
            while frames.next_if(|&at| at <= trace.began_ps + clock * trace.clock_ps).is_some() {
                count += 1.0;
            }
            (clock as f64, count)
        })
        .collect()
}
