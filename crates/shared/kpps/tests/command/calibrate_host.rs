//! A machine calibrated on curves: the measured values are reproduced, and predictions from them are right.

use assert_cmd::Command;
use serde_json::Value;
use std::path::Path;
use std::process::Output;

fn kpps(folder: &Path, words: &str) -> Output {
    Command::cargo_bin("kpps").unwrap().current_dir(folder).args(words.split(' ')).output().unwrap()
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn document(output: &Output) -> Value {
    assert_eq!(output.status.code(), Some(0), "{}", said(output));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Delivered frames per second of a curve's last point.
fn last_pps(curve: &Value) -> f64 {
    curve["series"][0]["points"].as_array().unwrap().last().unwrap()["delivered_pps"].as_f64().unwrap()
}

#[test]
fn a_calibrated_machine_predicts_another_setting() {
    let here = tempfile::tempdir().unwrap();
    let here = here.path();
    // The machine that is measured: frames cost half as much again as in its profile.
    let curve = "curve --json --driver linux-6.1-e1000 --load 50kpps,100kpps,150kpps,400kpps";
    let real = "--machine lab-e1000 --set stack.receive_cycles=3000";
    for (file, set) in
        [("w64.json", ""), ("w8.json", " --set driver.weight=8"), ("w16.json", " --set driver.weight=16")]
    {
        let output = kpps(here, &format!("{curve} {real}{set}"));
        document(&output);
        std::fs::write(here.join(file), output.stdout).unwrap();
    }
    let base = "--machine lab-e1000 --driver linux-6.1-e1000";
    let words = format!("calibrate-host w64.json w8.json,driver.weight=8 {base} --save mine");
    let found = document(&kpps(here, &format!("{words} --check w16.json,driver.weight=16 --json")));
    let schema: Value = serde_json::from_slice(&kpps(here, "schema").stdout).unwrap();
    jsonschema::validator_for(&schema).unwrap().validate(&found).unwrap();
    assert!(found["median_error"].as_f64().unwrap() < 0.01, "{found}");
    let check = |field: &str| found["check"][field].as_f64().unwrap();
    assert_eq!(check("points"), 4.0, "{found}");
    assert!(check("largest_error") < 0.02, "{found}");
    assert!(check("null_median_error") > 3.0 * check("median_error"), "{found}");
    let words = format!("calibrate-host w64.json {base} --check w8.json,machine.stack=freebsd-5.4");
    let output = kpps(here, &words);
    assert_eq!(output.status.code(), Some(2), "{}", said(&output));
    assert!(said(&output).starts_with("kpps: w8.json,machine.stack=freebsd-5.4: "), "{}", said(&output));
    let output = kpps(here, &format!("calibrate-host w64.json {base} --save w8.json"));
    assert!(said(&output).starts_with("kpps: cannot write w8.json: "), "{}", said(&output));
    // Weight 16 had no part in the calibration. Without the calibration it is far off.
    let weight = "--set driver.weight=16";
    let pps = |machine: &str| last_pps(&document(&kpps(here, &format!("{curve} {machine} {weight}"))));
    let (predicted, real) = (pps("--machine mine/machine.toml"), pps(real));
    assert!((predicted / real - 1.0).abs() < 0.02, "{predicted} {real}");
    assert!(pps("--machine lab-e1000") > 1.2 * real, "{real}");
}

#[test]
fn what_cannot_be_calibrated_is_said_in_one_line() {
    let here = tempfile::tempdir().unwrap();
    let here = here.path();
    std::fs::write(here.join("no.json"), "{}").unwrap();
    for (words, says) in [
        ("calibrate-host nothing.json", "kpps: nothing.json: No such file"),
        ("calibrate-host no.json", "kpps: no.json: this is no document of `kpps curve`"),
        ("calibrate-host no.json --driver kpps,rdr", "kpps: this command takes one driver"),
    ] {
        let output = kpps(here, words);
        assert_eq!(output.status.code(), Some(2), "{words}");
        assert!(said(&output).starts_with(says), "{}", said(&output));
        assert_eq!(said(&output).lines().count(), 1, "{}", said(&output));
    }
}
