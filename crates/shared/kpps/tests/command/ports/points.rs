//! Curves and grids between two ports.

use super::interrupted::{believed, lines, measured, without_age};
use crate::net::{Net, document, stop};
use kpps_namespaces::until_undisturbed;
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::{Child, Output, Stdio};

const PORTS: [&str; 4] = ["--ports", "packet:a,packet:b", "--drain", "500ms"];

fn start(net: &Net, words: &[&str], here: &Path) -> Child {
    let kpps = assert_cmd::cargo::cargo_bin("kpps");
    // No shell and no `ip` between: the process that gets the signal is kpps.
    let mut command = net.command(&[kpps.to_str().unwrap()]);
    command.args([words, &PORTS].concat()).current_dir(here);
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

fn ended(net: &Net, words: &[&str], here: &Path) -> Output {
    let output = start(net, words, here).wait_with_output().unwrap();
    assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
    output
}

fn results(net: &Net, words: &[&str], here: &Path) -> Value {
    document(&ended(net, words, here))
}

/// The results of a command that goes on from those in a file, as soon as it believes them.
fn resumed(net: &Net, words: &[&str], here: &Path, file: &str) -> Value {
    let (kept, mut found) = (fs::read(here.join(file)).unwrap(), Value::Null);
    until_undisturbed("the kept results are believed", || {
        fs::write(here.join(file), &kept).unwrap();
        let output = ended(net, words, here);
        found = document(&output);
        believed(&output)
    });
    found
}

/// All frames are accounted for, and most have come.
fn closes(point: &Value) {
    let of = |name: &str| point["ledger"][name].as_u64().unwrap();
    let sum = |name: &str| -> u64 {
        point["ledger"][name].as_object().unwrap().values().map(|frames| frames.as_u64().unwrap()).sum()
    };
    assert_eq!(of("sent"), of("delivered") + sum("dropped") + sum("in_flight_at"), "{point}");
    assert!(of("delivered") > 0 && point["latency_ns"]["p50"].as_u64() > Some(0), "{point}");
    assert!(point["overflow"].is_u64() && point["shortfall"].is_u64(), "{point}");
}

#[test]
fn a_curve_between_two_ports_goes_on_where_it_was() {
    let Some(net) = Net::bridge() else { return };
    let here = tempfile::tempdir().unwrap();
    let here = here.path();
    let trials = here.join("curve.jsonl");
    let words = "curve --load 1kpps..8kpps/1kpps --duration 1s --size 64:3,570:1 --flows 10 --bidirectional --json --report page.html --resume curve.jsonl";
    let words: Vec<_> = words.split(' ').collect();
    // The trials that are left take seconds.
    let mut child = start(&net, &words, here);
    assert!(measured(&mut child, &trials, 2));
    let output = stop(child);
    assert_eq!(output.status.code(), Some(130), "{}", String::from_utf8_lossy(&output.stderr));
    let part = document(&output);
    assert_eq!(part["complete"], false);
    let kept = lines(&trials);
    assert_eq!(part["series"][0]["points"].as_array().unwrap()[..], kept[..], "what was measured is there");

    let curve = resumed(&net, &words, here, "curve.jsonl");
    let schema: Value = serde_json::from_slice(&net.kpps(&["schema"]).stdout).unwrap();
    jsonschema::validate(&schema, &curve).unwrap();
    let series = &curve["series"][0];
    let points = series["points"].as_array().unwrap();
    assert_eq!((curve["complete"].as_bool(), points.len()), (Some(true), 8));
    assert_eq!(without_age(&points[..kept.len()]), kept, "nothing is measured twice");
    assert_eq!(lines(&trials).len(), 8);
    // Both directions together.
    assert_eq!((&points[0]["offered_pps"], &points[7]["offered_pps"]), (&2e3.into(), &16e3.into()));
    points.iter().for_each(closes);
    // Values that two ports cannot observe are null.
    for point in points {
        for unobserved in
            ["interrupts_per_s", "bus_busy", "registers_per_frame", "allocations_per_frame", "taken"]
        {
            assert_eq!(point[unobserved], Value::Null, "{unobserved}: {point}");
        }
        assert_eq!(point["cpu"]["idle_polls"], Value::Null, "{point}");
        assert!(point["cpu_busy"].as_f64().is_some() && point["latency_ns"]["p50"].as_u64().is_some());
    }
    let environment = &curve["environment"];
    assert_eq!(series["name"], "packet:a and packet:b");
    assert_eq!(environment["testbed"], serde_json::json!(["packet:a", "packet:b"]));
    assert!(environment["system"]["packet:a"].as_str().unwrap().contains("driver veth"), "{environment}");
    assert_eq!((&environment["bidirectional"], &environment["traffic"]), (&true.into(), &"10 flows".into()));
    assert_eq!(environment["mix"]["mean_bytes_with_fcs"], 190.5);
    let page = fs::read_to_string(here.join("page.html")).unwrap();
    assert!(page.contains("driver veth") && page.contains("64:3,570:1"));
}

#[test]
fn a_grid_between_two_ports_goes_on_where_it_was() {
    let Some(net) = Net::bridge() else { return };
    let here = tempfile::tempdir().unwrap();
    let here = here.path();
    let words = "grid --vary size=64,imix-csit --vary load=2kpps,4kpps --duration 200ms --json \
                 --report page.html --resume grid.jsonl";
    let words: Vec<_> = words.split(' ').collect();
    let grid = results(&net, &words, here);
    let schema: Value = serde_json::from_slice(&net.kpps(&["schema"]).stdout).unwrap();
    jsonschema::validate(&schema, &grid).unwrap();
    let cells = grid["cells"].as_array().unwrap();
    assert_eq!((cells.len(), &grid["complete"]), (4, &true.into()));
    assert_eq!(cells[3]["point"]["offered_pps"], 4e3);
    cells.iter().for_each(|cell| closes(&cell["point"]));
    let points = |grid: &Value| -> Vec<Value> {
        grid["cells"].as_array().unwrap().iter().map(|cell| cell["point"].clone()).collect()
    };
    let again = resumed(&net, &words, here, "grid.jsonl");
    assert_eq!(without_age(&points(&again)), points(&grid), "one is measured again, and all are as before");
    assert_eq!(lines(&here.join("grid.jsonl")).len(), 4);
    assert!(
        grid["provenance"].is_object() && grid["provenance"] != again["provenance"],
        "each run has its time"
    );
    // Another device under test: its name is part of each result's.
    let output = start(&net, &[&words[..], &["--dut", "another"]].concat(), here).wait_with_output().unwrap();
    assert!(points(&document(&output)).iter().all(|point| point.get("age_s").is_none()));
    assert_eq!(lines(&here.join("grid.jsonl")).len(), 8);
    // Other frames are another measurement. The cell of a load that cannot be sent says so.
    let more =
        [&words[..3], &["--vary", "load=2kpps,90Mpps", "--duration", "200ms", "--flows", "5", "--json"]]
            .concat();
    let more = [&more[..], &["--resume", "grid.jsonl"]].concat();
    let other = results(&net, &more, here);
    let cells = other["cells"].as_array().unwrap();
    assert!(cells[1]["problem"].as_str().unwrap().contains("above line rate"), "{other}");
    assert_ne!(cells[0]["point"], grid["cells"][0]["point"]);
    // With the bridge gone there is nothing to measure.
    net.run(&["ip", "link", "del", "dev", "br"]);
    let words = [&["grid", "--vary", "load=1kpps,3kpps", "--duration", "200ms", "--json"][..]].concat();
    let output = start(&net, &words, here).wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("no frame comes through") && said.contains("0 of 2 cells"), "{said}");
    assert_eq!(document(&output)["complete"], false);
    for (words, says) in [
        (&["grid", "--vary", "driver.rx_ring=64"][..], "this testbed has no parameter driver.rx_ring"),
        (&["curve", "--load", "1kpps", "--size", "9018"], "do not fit"),
        (&["curve", "--load", "1kpps", "--chip", "82542"], "--chip is for the simulator, not for packet:"),
    ] {
        let output = start(&net, words, here).wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!((output.status.code(), said.lines().count()), (Some(2), 1), "{words:?}: {said}");
        assert!(said.contains(says), "{words:?}: {said}");
    }
}

/// A device that was throttled without a trace in its name: the kept rates are not believed.
#[test]
fn kept_results_of_another_system_are_not_used() {
    let Some(net) = Net::bridge() else { return };
    let here = tempfile::tempdir().unwrap();
    let here = here.path();
    let words = "grid --vary load=1kpps,4kpps --duration 300ms --json --resume kept.jsonl";
    let words: Vec<_> = words.split(' ').collect();
    until_undisturbed("the generator sends what it is to send, and all of it comes through", || {
        let _ = fs::remove_file(here.join("kept.jsonl"));
        let before = results(&net, &words, here);
        let point = &before["cells"][1]["point"];
        point["loss_ratio"] == 0.0 && point["shortfall"] == 0
    });
    // The bridge drops half of the frames: nothing in the interfaces' settings shows it.
    net.run(&["nft", "add table bridge t; add chain bridge t c { type filter hook forward priority 0 ; }"]);
    net.run(&["nft", "add rule bridge t c numgen inc mod 2 0 drop"]);
    let kept = fs::read(here.join("kept.jsonl")).unwrap();
    // A generator that got no CPU can confirm nothing, and says so. Nothing is used in either case.
    let mut last = None;
    until_undisturbed("the generator can send 4 kpps", || {
        fs::write(here.join("kept.jsonl"), &kept).unwrap();
        let output = start(&net, &words, here).wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(said.contains("kept.jsonl is used, because") && said.contains("4.0 kpps"), "{said}");
        let is_confirmed = !said.contains("none could be confirmed");
        last = Some((output, said));
        is_confirmed
    });
    let (output, said) = last.unwrap();
    assert!(said.contains("it is of another system"), "{said}");
    let after = document(&output);
    for cell in after["cells"].as_array().unwrap() {
        let point = &cell["point"];
        assert!(point.get("age_s").is_none() && point["loss_ratio"].as_f64() > Some(0.4), "{point}");
    }
    let resumed = resumed(&net, &words, here, "kept.jsonl");
    assert!(resumed["cells"][0]["point"]["age_s"].is_u64(), "the new ones are kept: {resumed}");
}
