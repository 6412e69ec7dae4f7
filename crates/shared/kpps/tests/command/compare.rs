//! Whether results differ: by the same statistics whoever made them.

use assert_cmd::Command;
use serde_json::Value;
use std::path::Path;
use std::process::Output;

fn kpps(folder: &Path, words: &[&str]) -> Output {
    Command::cargo_bin("kpps").unwrap().current_dir(folder).args(words).output().unwrap()
}

/// Curves of a driver with these seeds, one document after the other.
fn curves(folder: &Path, file: &str, driver: &str, size: &str, seeds: std::ops::Range<u32>) {
    let mut all = Vec::new();
    for seed in seeds {
        let seed = seed.to_string();
        let words = ["curve", "--json", "--driver", driver, "--size", size, "--seed", &seed];
        let more = ["--load", "200kpps,800kpps", "--duration", "5ms"];
        let output = kpps(folder, &[&words[..], &more].concat());
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        all.extend(output.stdout);
    }
    std::fs::write(folder.join(file), all).unwrap();
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn a_worse_driver_ends_with_1_and_the_same_one_with_0() {
    let here = tempfile::tempdir().unwrap();
    let here = here.path();
    curves(here, "ours.json", "kpps", "64", 1..7);
    curves(here, "again.json", "kpps", "64", 7..13);
    curves(here, "old.json", "intel-2.5.11", "64", 1..7);

    let output = kpps(here, &["compare", "ours.json", "old.json", "--json"]);
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    assert!(said(&output).contains("are worse"), "{}", said(&output));
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    let schema = kpps(here, &["schema"]).stdout;
    let schema: Value = serde_json::from_slice(&schema).unwrap();
    jsonschema::validator_for(&schema).unwrap().validate(&document).unwrap();
    let rows = document["rows"].as_array().unwrap();
    let row = |what: &str, quantity: &str| {
        let is_it = |row: &&Value| {
            row["what"].as_str().unwrap().contains(what) && row["quantity"].as_str().unwrap() == quantity
        };
        rows.iter().find(is_it).unwrap()
    };
    let livelock = row("800.0 kpps", "delivered");
    assert_eq!((&livelock["finding"], &livelock["other"]["count"]), (&"worse".into(), &6.into()));
    assert!(livelock["change"].as_f64().unwrap() < -0.9, "{livelock}");
    assert_eq!(row("200.0 kpps", "delivered")["finding"], "no-difference", "both deliver all of it");

    // Other seeds make no other driver.
    let output = kpps(here, &["compare", "ours.json", "again.json"]);
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(text.contains("0 worse, 0 better"), "{text}");
    let only = ["compare", "ours.json", "old.json", "--quantity", "delivered"];
    assert_eq!(kpps(here, &only).status.code(), Some(1));
    let within = kpps(here, &[&only[..], &["--threshold", "99.999%"]].concat());
    assert_eq!(within.status.code(), Some(i32::from(livelock["change"] == -1.0)));
    let one = kpps(here, &["compare", "ours.json", "ours.json,again.json", "old.json", "--json"]);
    let document: Value = serde_json::from_slice(&one.stdout).unwrap();
    assert_eq!(document["sides"][1]["documents"], 12);
    assert_eq!(
        document["rows"].as_array().unwrap().len(),
        8 + rows.len(),
        "where nothing comes there is no latency"
    );
}

#[test]
fn one_value_never_decides_and_what_cannot_be_compared_is_said() {
    let here = tempfile::tempdir().unwrap();
    let here = here.path();
    curves(here, "ours.json", "kpps", "64", 1..2);
    curves(here, "old.json", "intel-2.5.11", "64", 1..2);
    let output = kpps(here, &["compare", "ours.json", "old.json", "--json"]);
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    let findings = document["rows"].as_array().unwrap().iter().map(|row| &row["finding"]);
    assert!(findings.clone().all(|finding| finding == "too-few") && findings.count() > 4);

    curves(here, "large.json", "kpps", "128", 1..2);
    let ndr = kpps(here, &["ndr", "--testbed", "known:700kpps", "--json"]);
    std::fs::write(here.join("ndr.json"), ndr.stdout).unwrap();
    std::fs::write(here.join("poem.json"), "roses are red").unwrap();
    std::fs::write(here.join("list.json"), "{\"schema\":\"kpps/3\",\"kind\":\"study\"}").unwrap();
    std::fs::create_dir(here.join("empty")).unwrap();
    let ours: Value = serde_json::from_slice(&std::fs::read(here.join("ours.json")).unwrap()).unwrap();
    for (name, field, value) in [("loss.json", "loss_ratio", 7), ("rate.json", "delivered_pps", -5)] {
        let mut changed = ours.clone();
        changed["series"][0]["points"][0][field] = value.into();
        std::fs::write(here.join(name), changed.to_string()).unwrap();
    }
    for (other, says) in [
        ("large.json", "no common quantity"),
        ("ndr.json", "kind ndr"),
        ("poem.json", "poem.json"),
        ("list.json", "cannot be compared"),
        ("empty", "has no results"),
        ("nowhere.json", "nowhere.json"),
        ("loss.json", "loss_ratio is 7, and a share is 0 to 1"),
        ("rate.json", "delivered_pps is -5, below 0"),
    ] {
        let output = kpps(here, &["compare", "ours.json", other]);
        assert_eq!(output.status.code(), Some(2), "{other}: {}", said(&output));
        let message = said(&output);
        assert!(message.contains(says) && message.trim_end().lines().count() == 1, "{other}: {message}");
    }
}
