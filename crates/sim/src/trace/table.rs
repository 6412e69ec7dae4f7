//! A trace as text: a table of transactions, a time line of registers and interrupts, a summary.

use super::{Regimes, Trace};
use kpps_machine::bus::{EventKind, Master, What};
use std::fmt::Write;

fn master(master: Master) -> String {
    match master {
        Master::Bridge => "cpu".into(),
        Master::Card(slot) => format!("card{slot}"),
        Master::Background => "background".into(),
    }
}

/// The transactions as comma-separated values: `clock,clocks,master,what,address,bytes,cut`. Clocks are bus
/// clocks since the trace began, with the fraction that the first has.
pub fn csv(trace: &Trace) -> String {
    let mut text = String::from("clock,clocks,master,what,address,bytes,cut\n");
    let clock = trace.clock_ps as f64;
    for t in trace.log.transactions() {
        let at = (t.start_ps as f64 - trace.began_ps as f64) / clock;
        let _ = writeln!(
            text,
            "{at:.2},{},{},{},{:#x},{},{}",
            (t.end_ps - t.start_ps).div_ceil(trace.clock_ps),
            master(t.master),
            t.what.name(),
            t.address,
            t.bytes,
            u8::from(t.cut),
        );
    }
    text
}

/// Interrupts and register accesses as comma-separated values: `clock,ns,card,event,register,value`.
pub fn timeline(trace: &Trace) -> String {
    let mut text = String::from("clock,ns,card,event,register,value\n");
    for event in trace.log.events() {
        let since = event.at_ps.saturating_sub(trace.began_ps);
        let (clock, ns, slot) = (since / trace.clock_ps, since / 1000, event.slot);
        let _ = match event.kind {
            EventKind::Interrupt => writeln!(text, "{clock},{ns},{slot},interrupt,,"),
            EventKind::Read { offset, value } => {
                writeln!(text, "{clock},{ns},{slot},read,{offset:#06x},{value:#x}")
            }
            EventKind::Write { offset, value } => {
                writeln!(text, "{clock},{ns},{slot},write,{offset:#06x},{value:#x}")
            }
        };
    }
    text
}

/// What crossed the bus by kind, and what the regimes of the first card were.
pub fn summary(trace: &Trace, regimes: &Regimes) -> String {
    let mut text = String::new();
    let _ =
        writeln!(text, "{:16} {:>9} {:>10} {:>10} {:>7}", "on the bus", "number", "bytes", "clocks", "cut");
    for what in What::ALL {
        let (mut number, mut bytes, mut busy, mut cut) = (0u64, 0u64, 0u64, 0u64);
        for t in trace.log.transactions().filter(|t| t.what == what) {
            number += 1;
            bytes += u64::from(t.bytes);
            busy += t.end_ps - t.start_ps;
            cut += u64::from(t.cut);
        }
        if number > 0 {
            let _ = writeln!(
                text,
                "{:16} {number:>9} {bytes:>10} {:>10} {cut:>7}",
                what.name(),
                busy / trace.clock_ps
            );
        }
    }
    if trace.log.lost() > 0 {
        let _ = writeln!(text, "({} earlier transactions and events were not kept)", trace.log.lost());
    }
    for (index, port) in trace.ports.iter().enumerate() {
        let (before, after) = (&port.card_before, &port.card);
        let _ = writeln!(
            text,
            "port {index}: {} of its fetches were cut short by the tail",
            after.rx_fetches_cut - before.rx_fetches_cut
        );
    }
    let r = regimes;
    let _ = writeln!(text, "\nsmooth for {:.0} clocks, {} frames", r.smooth_clocks, r.smooth_frames);
    let rows = [
        ("frames per us", r.smooth_frames_per_us),
        ("clocks between frames, mean", r.frame_gap_clocks),
        ("  within a group, median", r.group_gap_clocks),
        ("frames to a write-back", r.group_frames),
        ("clocks to the write-back, from the start of the last frame", r.write_back_after_clocks),
        ("  from its end", r.write_back_gap_clocks),
        ("descriptors written back together", r.write_back_descriptors),
        ("frames from fetch to fetch", r.fetch_frames),
        ("bursts of a fetch", r.fetch_bursts),
        ("descriptors of a burst", r.fetch_descriptors),
        ("tail updates in a row", r.tail_updates),
        ("descriptors of a tail update", r.tail_descriptors),
    ];
    for (name, value) in rows {
        let _ = writeln!(text, "  {name:58} {value:>10.2}");
    }
    if r.stumbled {
        let _ = writeln!(text, "then it stumbles");
        for (name, value) in [
            ("frames per us", r.stumble_frames_per_us),
            ("clocks without a frame, the longest of 64, mean", r.stumble_gap_clocks),
            ("clocks between frames that wait, the least", r.stumble_least_clocks),
            ("  the median", r.stumble_gap_median_clocks),
        ] {
            let _ = writeln!(text, "  {name:58} {value:>10.2}");
        }
    }
    text
}
