//! All commands that search say the same of one device under test.

use crate::net::{Net, document};
use serde_json::Value;

/// What a throttled exit carries in a trial does not depend on how busy the machine is: 5 Mb/s are so many
/// frames of 60 B in 100 ms, and bucket and queue hold what goes out in 60 ms each.
const CARRIED_PPS: f64 = 5e6 / (60.0 * 8.0) * (0.1 + 0.12) / 0.1;

#[test]
fn rfc2544_ndr_sizes_and_curve_agree() {
    let Some(net) = Net::bridge() else { return };
    let throttled = "tc qdisc add dev pb root tbf rate 5mbit burst 37500 limit 37500";
    if !net.command(&throttled.split(' ').collect::<Vec<_>>()).status().unwrap().success() {
        return kpps_namespaces::skip::lacks("the queueing discipline tbf");
    }
    let run = |words: &str| {
        let words = format!("{words} --ports packet:a,packet:b --duration 100ms --drain 100ms --json");
        let output = net.kpps(&words.split_whitespace().collect::<Vec<_>>());
        assert!(output.status.success(), "{words}: {}", String::from_utf8_lossy(&output.stderr));
        document(&output)
    };
    let ndr_pps = |search: &Value| search["goals"][0]["lower_pps"].as_f64();
    let sizes = "--size 64 --precision 5%";
    let delivered_pps = |curve: &Value| {
        let points = curve["series"][0]["points"].as_array().unwrap().iter();
        points.filter_map(|it| it["delivered_pps"].as_f64()).reduce(f64::max)
    };
    let measure = |command: &str| match command {
        "ndr" => ndr_pps(&run(&format!("ndr {sizes}"))),
        "sizes" => ndr_pps(&run(&format!("sizes {sizes}"))["sizes"][0]),
        "rfc2544" => ndr_pps(&run(&format!("rfc2544 --test throughput {sizes}"))["sizes"][0]["throughput"]),
        _ => delivered_pps(&run("curve --load 10kpps,50kpps")),
    };
    for command in ["ndr", "sizes", "rfc2544", "curve"] {
        let near = 0.9 * CARRIED_PPS..=1.02 * CARRIED_PPS;
        // If the machine stalls for longer than the queues hold, frames are lost, and a search finds less.
        let mut found = Vec::new();
        while !found.last().is_some_and(|pps: &Option<f64>| pps.is_some_and(|pps| near.contains(&pps))) {
            assert!(found.len() < 4, "{command} of {CARRIED_PPS}: {found:?}");
            found.push(measure(command));
        }
        assert!(found.iter().flatten().all(|pps| pps < near.end()), "{command} of {CARRIED_PPS}: {found:?}");
    }
}
