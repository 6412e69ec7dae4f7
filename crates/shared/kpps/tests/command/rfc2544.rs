//! Searches over frame sizes, and RFC 2544, on a system whose rate is known: their results, and that a run
//! goes on where another ended.

use assert_cmd::Command;
use serde_json::Value;
use std::path::Path;
use std::process::Output;

fn kpps(folder: &Path, words: &[&str]) -> Output {
    Command::cargo_bin("kpps").unwrap().current_dir(folder).args(words).output().unwrap()
}

/// A document that is as the schema says.
fn document(output: &Output) -> Value {
    let document: Value = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|e| panic!("{e}: {}", String::from_utf8_lossy(&output.stderr)));
    let schema: Value = serde_json::from_slice(&kpps(Path::new("."), &["schema"]).stdout).unwrap();
    jsonschema::validator_for(&schema).unwrap().validate(&document).unwrap();
    document
}

/// Cuts a file in the middle of a line, as the end of a program does, and returns how many whole lines are
/// left.
fn cut(path: &Path) -> usize {
    let text = std::fs::read_to_string(path).unwrap();
    let whole = text.lines().count() / 2;
    let start: usize = text.lines().take(whole).map(|line| line.len() + 1).sum();
    std::fs::write(path, &text[..start + 15]).unwrap();
    whole
}

/// A document without the ages of results that were resumed.
fn without_age(mut document: Value) -> Value {
    match &mut document {
        Value::Object(fields) => {
            fields.remove("age_s");
            fields.values_mut().for_each(|value| *value = without_age(value.take()));
        }
        Value::Array(items) => items.iter_mut().for_each(|item| *item = without_age(item.take())),
        _ => {}
    }
    document
}

#[test]
fn each_size_is_found_and_a_second_run_measures_what_is_missing() {
    let here = tempfile::tempdir().unwrap();
    let words = ["sizes", "--testbed", "known:200kpps", "--noise", "--size", "64,512,1518", "--json"];
    let words = [&words[..], &["--resume", "sizes.jsonl"]].concat();
    let found = document(&kpps(here.path(), &words));
    assert_eq!(found["complete"], true);
    let sizes = found["sizes"].as_array().unwrap();
    let bounds = |size: &Value| ["lower_pps", "upper_pps"].map(|name| size["goals"][0][name].as_f64());
    let [lower, upper] = bounds(&sizes[0]);
    assert!(lower.unwrap() <= 200_001.0 && upper.unwrap() >= 200_000.0 && lower.unwrap() > 198_000.0);
    // A wire carries 81,274 of these: all are delivered.
    let [lower, upper] = bounds(&sizes[2]);
    assert!((lower.unwrap() - 81_274.0).abs() < 1.0 && upper.is_none());

    let path = here.path().join("sizes.jsonl");
    let trials: usize = sizes.iter().map(|size| size["trials"].as_array().unwrap().len()).sum();
    assert_eq!(crate::kept(&path).len(), trials);
    let kept = cut(&path);
    assert!(kept > 20);
    let again = document(&kpps(here.path(), &words));
    // Kept results are unchanged, and the findings are the same; noise is drawn anew.
    let all = |document: &Value| -> Vec<Value> {
        let sizes = document["sizes"].as_array().unwrap().iter();
        sizes.flat_map(|size| size["trials"].as_array().unwrap().clone()).map(without_age).collect()
    };
    assert_eq!(all(&again)[..kept], all(&found)[..kept]);
    let lower = again["sizes"][0]["goals"][0]["lower_pps"].as_f64().unwrap();
    assert!((198_000.0..200_001.0).contains(&lower), "{lower}");
    // A third run has nothing left to measure.
    let lines = || std::fs::read_to_string(&path).unwrap().lines().count();
    let before = lines();
    assert_eq!(all(&document(&kpps(here.path(), &words))), all(&again));
    assert_eq!(lines(), before);
}

#[test]
fn rfc2544_says_what_it_found_and_what_it_could_not_do() {
    let here = tempfile::tempdir().unwrap();
    let words = ["rfc2544", "--testbed", "known:700kpps", "--quick", "--size", "64,1518", "--json"];
    let words = [&words[..], &["--resume", "rfc.jsonl"]].concat();
    let found = document(&kpps(here.path(), &words));
    assert_eq!(found["complete"], true, "{found}");
    let small = &found["sizes"][0];
    let throughput = small["throughput"]["goals"][0]["lower_pps"].as_f64().unwrap();
    assert!((696_000.0..700_001.0).contains(&throughput), "{throughput}");
    let losses: Vec<f64> =
        small["frame_loss"].as_array().unwrap().iter().map(|it| it["loss_ratio"].as_f64().unwrap()).collect();
    // 100 % to 50 % lose something, 40 % and 30 % nothing.
    assert_eq!(losses.len(), 8, "{losses:?}");
    assert!(losses.windows(2).all(|pair| pair[0] >= pair[1]) && losses[5] > 0.0 && losses[6..] == [0.0, 0.0]);
    assert!((losses[0] - (1.0 - 700_000.0 / 1_488_095.2)).abs() < 1e-4);
    assert_eq!(small["latency"].as_array().unwrap().len(), 4);
    assert_eq!(small["latency"][0]["trials"].as_array().unwrap().len(), 3);
    // There is no buffer: not even a burst of two frames passes at line rate.
    let burst = &small["back_to_back"];
    assert!(burst["mean_frames"].as_f64().unwrap() < 2.0 && burst["corrected_s"].as_f64().unwrap() < 1e-6);
    let large = &found["sizes"][1];
    assert_eq!(large["throughput"]["goals"][0]["upper_pps"], Value::Null);
    assert_eq!(large["back_to_back"], Value::Null);
    let departures = found["departures"].to_string();
    for said in [
        "trials of 1 s: RFC 2544 asks for 60 s",
        "64 B: no recovery: this testbed cannot change its load",
        "64 B: no reset: no command was given",
        "1518 B: no back-to-back frames: nothing is lost at the highest load",
    ] {
        assert!(departures.contains(said), "{said}: {departures}");
    }
    cut(&here.path().join("rfc.jsonl"));
    assert_eq!(without_age(document(&kpps(here.path(), &words))), found, "a quiet system is the same again");

    // A size without a throughput has no result.
    let words =
        "rfc2544 --testbed known:2kpps --min 5kpps --max 10kpps --duration 10ms --size 64 --test throughput";
    let words: Vec<_> = words.split(' ').chain(["--json"]).collect();
    let output = kpps(here.path(), &words);
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.code() == Some(1) && told.contains("only 0 of 1 sizes have a throughput"),
        "{told}"
    );
    assert_eq!(document(&output)["complete"], false);

    // A reset takes as long as frames are lost: no time with a command that does nothing. A command that
    // fails is reported.
    let words =
        ["rfc2544", "--testbed", "known:700kpps", "--quick", "--size", "64", "--test", "reset", "--reset"];
    let output = kpps(here.path(), &[&words[..], &["false"]].concat());
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("cannot reset by 'false'"));
}
