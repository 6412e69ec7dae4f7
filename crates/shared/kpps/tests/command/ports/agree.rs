//! All commands that search say the same of one device under test.

use crate::net::{Net, document};
use kpps_namespaces::until_undisturbed;
use serde_json::Value;

/// Frames of 60 B per second through a throttled exit, whatever the machine does: 1 Mb/s. It is little, so
/// that a generator that is held up for some milliseconds can still send it.
const SUSTAINED_PPS: f64 = 1e6 / (60.0 * 8.0);
/// The length of a trial in s, and how many of these frames its bucket and its queue hold: some are delivered
/// beside the sustained rate while the bucket is full at first, and out of the queue after the last one was
/// sent. A machine may stall for as long as the queue holds frames, 72 ms, and no more.
const SECONDS: f64 = 0.3;
const HELD: f64 = (1600.0 + 9000.0) / 60.0;

#[test]
fn rfc2544_ndr_sizes_and_curve_agree() {
    let Some(net) = Net::bridge() else { return };
    if !net.can("tc qdisc add dev pb root tbf rate 1mbit burst 1600 limit 9000") {
        return kpps_namespaces::skip::lacks("the queueing discipline tbf");
    }
    let run = |words: &str| {
        let words = format!("{words} --ports packet:a,packet:b --duration {SECONDS}s --drain 200ms --json");
        let output = net.kpps(&words.split_whitespace().collect::<Vec<_>>());
        // On a busy machine a search may find nothing, and says so.
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(matches!(output.status.code(), Some(0 | 1)), "{words}: {said}");
        document(&output)
    };
    let ndr_pps = |search: &Value| search["goals"][0]["lower_pps"].as_f64();
    let sizes = "--size 64 --precision 5% --min 1kpps --max 30kpps";
    let delivered_pps = |curve: &Value| {
        let points = curve["series"][0]["points"].as_array().unwrap().iter();
        points.filter_map(|it| it["delivered_pps"].as_f64()).reduce(f64::max)
    };
    let measure = |command: &str| match command {
        "ndr" => ndr_pps(&run(&format!("ndr {sizes}"))),
        "sizes" => ndr_pps(&run(&format!("sizes {sizes}"))["sizes"][0]),
        "rfc2544" => ndr_pps(&run(&format!("rfc2544 --test throughput {sizes}"))["sizes"][0]["throughput"]),
        _ => delivered_pps(&run("curve --load 2kpps,15kpps")),
    };
    let overloaded_pps = SUSTAINED_PPS + HELD / SECONDS;
    for (command, near) in [
        ("ndr", 0.9 * SUSTAINED_PPS..=1.1 * SUSTAINED_PPS),
        ("sizes", 0.9 * SUSTAINED_PPS..=1.1 * SUSTAINED_PPS),
        ("rfc2544", 0.9 * SUSTAINED_PPS..=1.1 * SUSTAINED_PPS),
        ("curve", 0.9 * overloaded_pps..=1.02 * overloaded_pps),
    ] {
        // If the machine stalls for longer than the queue holds, frames are lost, and a search finds less.
        let mut found = Vec::new();
        until_undisturbed(&format!("{command} finds {near:?} pps"), || {
            found.push(measure(command));
            eprintln!("{command}: {found:?}");
            found.last().is_some_and(|pps| pps.is_some_and(|pps| near.contains(&pps)))
        });
    }
}
