//! All commands that search say the same of one device under test.

use crate::net::{Net, document};
use kpps_namespaces::in_six_tries;
use serde_json::Value;

/// What a throttled exit carries in a trial does not depend on how busy the machine is: 1 Mb/s are so many
/// frames of 60 B in 100 ms, and bucket and queue hold what goes out in 60 ms and in 140 ms. It is little, so
/// that a generator that is held up for some milliseconds can still send it.
const CARRIED_PPS: f64 = 1e6 / (60.0 * 8.0) * (0.1 + 0.06 + 0.14) / 0.1;

#[test]
fn rfc2544_ndr_sizes_and_curve_agree() {
    let Some(net) = Net::bridge() else { return };
    let throttled = "tc qdisc add dev pb root tbf rate 1mbit burst 7500 limit 17500";
    if !net.command(&throttled.split(' ').collect::<Vec<_>>()).status().unwrap().success() {
        return kpps_namespaces::skip::lacks("the queueing discipline tbf");
    }
    let run = |words: &str| {
        let words = format!("{words} --ports packet:a,packet:b --duration 100ms --drain 300ms --json");
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
        _ => delivered_pps(&run("curve --load 3kpps,15kpps")),
    };
    for command in ["ndr", "sizes", "rfc2544", "curve"] {
        let near = 0.9 * CARRIED_PPS..=1.02 * CARRIED_PPS;
        // If the machine stalls for longer than the queues hold, frames are lost, and a search finds less.
        let mut found = Vec::new();
        in_six_tries(&format!("{command} finds {CARRIED_PPS} pps"), || {
            found.push(measure(command));
            eprintln!("{command} of {CARRIED_PPS}: {found:?}");
            found.last().is_some_and(|pps| pps.is_some_and(|pps| near.contains(&pps)))
        });
    }
}
