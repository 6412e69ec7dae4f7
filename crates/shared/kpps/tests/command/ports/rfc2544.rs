//! Back-to-back frames between two ports: a buffer whose length is known is found.

use crate::net::{Net, document};
use kpps_namespaces::until_undisturbed;
use serde_json::Value;

/// The rate at which frames leave the bridge: 10 Mb/s in frames of 60 B per second.
const CARRIED_PPS: f64 = 1e7 / (60.0 * 8.0);
/// Frames that may go out at once, 1600 B, with one that is under way.
const AT_ONCE: f64 = 27.0;
/// Frames that a sender which has been held up may still send then: those of the last millisecond, and a
/// handful.
const LATE: f64 = 132.0;

/// The tests at 64 B, if the machine let kpps find a longest burst. It sends no burst that it cannot send in
/// time, and says so; and a busy machine may send no more than goes out of the bridge.
fn found(net: &Net) -> Option<Value> {
    let words = "rfc2544 --ports packet:a,packet:b --test back-to-back --size 64 --min 1kpps --max 100kpps --duration 50ms \
        --precision 20% --drain 200ms --repeat 1 --json";
    let output = net.kpps(&words.split_whitespace().collect::<Vec<_>>());
    let mut found = document(&output);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let departures = found["departures"].to_string();
    let found = found["sizes"][0].take();
    let is_there = !found["back_to_back"].is_null();
    let reasons = ["generator cannot sustain", "no throughput", "nothing is lost at the highest load"];
    assert!(is_there || reasons.iter().any(|reason| departures.contains(reason)), "{departures}");
    is_there.then_some(found)
}

#[test]
fn the_longest_burst_is_what_the_buffer_holds_and_what_goes_on_meanwhile() {
    let Some(net) = Net::bridge() else { return };
    for held in [100_u32, 400] {
        let bound = format!("tc qdisc replace dev pb root tbf rate 10mbit burst 1600 limit {}", 60 * held);
        if !net.can(&bound) {
            return kpps_namespaces::skip::lacks("the queueing discipline tbf");
        }
        until_undisturbed("a burst is sent in time, and its frames meet the buffer as it is", || {
            let Some(found) = found(&net) else { return false };
            let burst = &found["back_to_back"];
            let [longest] = &burst["frames"].as_array().unwrap()[..] else { panic!("{burst}") };
            let longest = longest.as_f64().unwrap();
            let pps = burst["pps"].as_f64().unwrap();
            // RFC 9004: what went on meanwhile was not in the buffer.
            let seconds = |name: &str| burst[name].as_f64().unwrap();
            let throughput = found["throughput"]["goals"][0]["lower_pps"].as_f64().unwrap();
            assert!((seconds("implied_s") - longest / pps).abs() < 1e-7, "{burst}");
            let corrected_s = longest / pps * (1.0 - throughput / pps);
            assert!((seconds("corrected_s") - corrected_s).abs() < 1e-7, "{burst}");
            // Frames that fit go through, and more do not. On a busy machine the tester's limit is below the
            // asked 100 kpps, and bursts have that rate.
            let most = (f64::from(held) + AT_ONCE) / (1.0 - CARRIED_PPS / pps) + LATE;
            eprintln!("{held} held: {longest}, at most {most}");
            (f64::from(held)..=most).contains(&longest)
        });
    }
}
