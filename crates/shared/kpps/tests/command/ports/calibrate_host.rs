//! `kpps calibrate-host` on a device between two ports.

use crate::net::{Net, document};
use kpps_namespaces::until_undisturbed;
use serde_json::Value;
use std::process::Output;

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn a_bridge_on_this_host_is_measured_beside_a_bare_cable() {
    let Some(net) = Net::bridge() else { return };
    let folder = tempfile::tempdir().unwrap();
    let mine = folder.path().join("mine");
    let to = mine.to_str().unwrap();
    let words =
        ["calibrate-host", "--ports", "packet:a,packet:b", "--duration", "100ms", "--save", to, "--json"];
    let mut found = Value::Null;
    // Where the CPUs do other work, the difference may be lost in it. Then the command says so.
    until_undisturbed("the rounds agree", || {
        let output = net.kpps(&words);
        if !output.status.success() && said(&output).contains("the CPU time of a frame cannot be found") {
            return false;
        }
        found = document(&output);
        true
    });
    let schema: Value = serde_json::from_slice(&net.kpps(&["schema"]).stdout).unwrap();
    jsonschema::validate(&schema, &found).unwrap();
    let points = found["points"].as_array().unwrap();
    let curves: Vec<_> =
        points.iter().map(|point| (point["curve"].as_str(), point["checks"].as_bool())).collect();
    assert_eq!(
        curves,
        [(Some("64 B"), Some(false)), (Some("1518 B"), Some(false)), (Some("512 B"), Some(true))]
    );
    for point in points {
        let ns = |name: &str| point[name].as_f64().unwrap();
        let range = |at: usize| point["measured_range_ns"][at].as_f64().unwrap();
        assert!(range(0) > 0.0 && range(0) <= ns("measured_ns") && ns("measured_ns") <= range(1), "{point}");
        // With the tester's time it is the time between frames. All three are medians of five rounds.
        let whole_ns = 1e9 / ns("offered_pps");
        assert!(ns("tester_ns") > 0.0 && ns("tester_ns") < whole_ns + range(1), "{point}");
    }
    assert_eq!(found["check"]["points"], 1);
    assert_eq!(found["background"], Value::Null, "the CPU that was seen is the tester's");
    assert_eq!(found["environment"]["app"], "bridge one way");
    assert_eq!(found["environment"]["testbed"], serde_json::json!(["packet:a", "packet:b"]));
    let machine = mine.join("machine.toml");
    let machine = machine.to_str().unwrap();
    let curve = ["curve", "--machine", machine, "--app", "bridge", "--one-way", "--load", "50kpps", "--json"];
    let predicted = document(&net.kpps(&curve));
    assert_eq!(predicted["series"][0]["points"][0]["delivered_pps"], 50e3);
    let left = net.command(&["sh", "-c", "ip -brief link | grep -c '^k[0-9]*x'"]).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&left.stdout).trim(), "0", "the cable is gone");
}

#[test]
fn a_limit_that_is_no_cpu_is_no_cost_of_a_frame() {
    let Some(net) = Net::bridge() else { return };
    net.run(&[
        "tc", "qdisc", "add", "dev", "pb", "root", "tbf", "rate", "5mbit", "burst", "5kb", "limit", "20kb",
    ]);
    let output = net.kpps(&["calibrate-host", "--ports", "packet:a,packet:b", "--duration", "50ms"]);
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    assert!(said(&output).contains("of the frames, most at pb tbf"), "{}", said(&output));
    for (words, says) in [
        ("--bidirectional", "--bidirectional has no effect on this measurement"),
        ("--machine morris2000", "has no NAPI"),
        ("--size 64 --check-size 64", "size 64"),
    ] {
        let words: Vec<_> = words.split(' ').collect();
        let all = [&["calibrate-host", "--ports", "packet:a,packet:b"], &words[..]].concat();
        let output = net.kpps(&all);
        assert_eq!(output.status.code(), Some(2), "{words:?}: {}", said(&output));
        assert!(said(&output).contains(says), "{}", said(&output));
    }
    // Nor is the tester's CPU that of the device: a curve between ports without an overload gives nothing.
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("curve.json");
    let file = file.to_str().unwrap();
    document(&net.kpps(&[
        "curve",
        "--ports",
        "packet:a,packet:b",
        "--load",
        "2kpps,50kpps",
        "--duration",
        "100ms",
        "--json",
        "--results",
        file,
    ]));
    let output =
        net.kpps(&["calibrate-host", file, "--machine", "xeon-8375c", "--driver", "linux-6.1-e1000e"]);
    assert_eq!(output.status.code(), Some(2), "{}", said(&output));
    assert!(said(&output).contains("no point determines the CPU time"), "{}", said(&output));
}
