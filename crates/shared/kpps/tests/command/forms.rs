//! The forms of a document say the same: each column of the comma-separated values is a name of the JSON,
//! with the same value for the same run, and each value of a row has its column.

use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Output};

/// A row of the table: values by column.
type Row = BTreeMap<String, String>;

/// The values of an object by their names; those of an object in it have its name before theirs.
fn flat(value: &Value, name: &str, all: &mut BTreeMap<String, Value>) {
    match value {
        Value::Object(fields) if name.is_empty() || !fields.is_empty() => {
            for (inner, value) in fields {
                let dot = if name.is_empty() { "" } else { "." };
                flat(value, &format!("{name}{dot}{inner}"), all);
            }
        }
        // An object without fields has no column.
        Value::Object(_) => {}
        value => drop(all.insert(name.to_owned(), value.clone())),
    }
}

fn table(path: &Path) -> Vec<Row> {
    csv::Reader::from_path(path).unwrap().deserialize().map(Result::unwrap).collect()
}

/// Whether a field has this value.
fn says(field: &str, value: &Value) -> bool {
    match value {
        Value::Null => field.is_empty(),
        Value::String(text) => field == text,
        Value::Number(number) => field.parse::<f64>().is_ok_and(|it| Some(it) == number.as_f64()),
        Value::Bool(value) => field.parse() == Ok(*value),
        Value::Array(_) | Value::Object(_) => {
            serde_json::from_str::<Value>(field).is_ok_and(|it| it == *value)
        }
    }
}

/// The objects that rows stand for, each with the objects that contain it, by the names of their columns.
fn objects(document: &Value) -> Vec<(Value, Vec<(String, Value)>)> {
    let list = |value: &Value, name: &str| value[name].as_array().unwrap_or(&Vec::new()).clone();
    let alone = |name: &str| list(document, name).into_iter().map(|it| (it, Vec::new())).collect();
    // The objects of a list in each object of another list, with these fields of the outer object.
    let within = |outer: &str, inner: &str, fields: &[&str]| {
        let mut all = Vec::new();
        for it in list(document, outer) {
            let at = |field: &str| it.pointer(&format!("/{}", field.replace('.', "/"))).cloned();
            let around: Vec<_> = fields
                .iter()
                .map(|field| (format!("{outer}.{field}"), at(field).unwrap_or_default()))
                .collect();
            all.extend(list(&it, inner).into_iter().map(|object| (object, around.clone())));
        }
        all
    };
    match document["kind"].as_str().unwrap() {
        "curve" => within("series", "points", &["name"]),
        "grid" => {
            let axes = list(document, "axes");
            let cell = |cell: Value| {
                let at = list(&cell, "at");
                let values = axes.iter().zip(&at).map(|(axis, at)| {
                    let name = axis["parameter"].as_str().unwrap().to_owned();
                    (name, axis["values"][at.as_u64().unwrap() as usize].clone())
                });
                let problem = ("problem".to_owned(), cell["problem"].clone());
                (cell["point"].clone(), values.chain([problem]).collect())
            };
            list(document, "cells").into_iter().map(cell).collect()
        }
        "trial" if document.get("interval_s").is_some() => within("directions", "series", &["from", "to"]),
        "trial" if list(document, "directions").is_empty() => vec![(document.clone(), Vec::new())],
        "trial" => alone("directions"),
        "ndr" => alone("goals"),
        "sizes" => within("sizes", "goals", &["environment.frame_bytes_with_fcs"]),
        "rfc2544" => alone("sizes"),
        "study" => alone("claims"),
        "transmit" | "profile" | "scale" | "comparison" | "perturbation" | "drawn" | "fit" => alone("rows"),
        "trace" => alone("transactions"),
        "profiles" if list(document, "profiles").len() == 1 => {
            list(&document["profiles"][0], "constants").into_iter().map(|it| (it, Vec::new())).collect()
        }
        "profiles" => alone("profiles"),
        "devices" => alone("devices"),
        "conformance" => alone("cases"),
        "faults" => alone("faults"),
        "run" => alone("ports"),
        "calibration" => alone("paced"),
        kind => panic!("no rows are known of {kind}"),
    }
}

/// The fields of a document that the row of a trial without ports leaves out: they are not of its result.
const OF_THE_DOCUMENT: &str = "schema kind environment load_pps complete doubts learned duplicated reordered \
    corrupted other_traffic sent_bps clocks directions interfaces ip cpus softnet interrupts softirqs provenance";

/// The mistakes in a table.
fn differences(document: &Value, rows: &[Row]) -> Vec<String> {
    let objects = objects(document);
    let mut wrong = Vec::new();
    if objects.len() != rows.len() {
        wrong.push(format!("{} rows for {} objects", rows.len(), objects.len()));
    }
    for (number, ((object, around), row)) in objects.iter().zip(rows).enumerate() {
        let mut values = BTreeMap::new();
        flat(object, "", &mut values);
        values.extend(around.iter().cloned());
        for (column, field) in row {
            let value = values.get(column).unwrap_or(&Value::Null);
            if !says(field, value) {
                wrong.push(format!("row {number}: {column} is '{field}', and in JSON {value}"));
            }
        }
        let is_document = object.get("schema").is_some();
        let first = |name: &str| name.split('.').next().unwrap().to_owned();
        let left_out =
            |name: &str| is_document && OF_THE_DOCUMENT.split(' ').any(|field| field == first(name));
        for (name, value) in &values {
            if !value.is_null() && !row.contains_key(name) && !left_out(name) {
                wrong.push(format!("row {number}: no column has {name}, {value}"));
            }
        }
    }
    wrong.dedup();
    wrong
}

/// Runs a command for both forms, and compares them.
fn compare(words: &str, kind: &str, run: impl Fn(&[&str]) -> Output) {
    let here = tempfile::tempdir().unwrap();
    let [json, table_] = ["results.json", "table.csv"].map(|name| here.path().join(name));
    let files = ["--results", json.to_str().unwrap(), "--csv", table_.to_str().unwrap()];
    let output = run(&[&words.split(' ').collect::<Vec<_>>()[..], &files].concat());
    assert!(json.exists(), "{words}: {}", String::from_utf8_lossy(&output.stderr));
    let document: Value = serde_json::from_str(&std::fs::read_to_string(&json).unwrap()).unwrap();
    assert_eq!(document["kind"], kind, "{words}");
    let rows = table(&table_);
    assert!(!rows.is_empty(), "{words}: no rows");
    let wrong = differences(&document, &rows);
    assert!(wrong.is_empty(), "{words}:\n{}", wrong.join("\n"));
}

#[test]
fn a_column_is_a_name_of_the_json_with_its_value() {
    let here = tempfile::tempdir().unwrap();
    let run = |words: &[&str]| {
        let kpps = assert_cmd::cargo::cargo_bin("kpps");
        Command::new(kpps).args(words).current_dir(here.path()).output().unwrap()
    };
    let trial = "trial --load 300kpps --duration 2ms --no-live --json";
    for name in ["a.json", "b.json"] {
        std::fs::write(here.path().join(name), run(&trial.split(' ').collect::<Vec<_>>()).stdout).unwrap();
    }
    for (words, kind) in [
        ("curve --load 300kpps,1400kpps --driver kpps,intel-2.5.11 --duration 5ms", "curve"),
        ("curve --testbed known:700kpps --load 1Mpps", "curve"),
        // Its ledger is of more than the measured time.
        ("trial --driver intel-2.5.11 --load 700kpps --duration 5ms", "trial"),
        ("trial --testbed known:700kpps --load 1Mpps", "trial"),
        ("grid --vary driver.rx_ring=12,64 --vary load=30%,100% --duration 2ms", "grid"),
        ("ndr --testbed known:700kpps", "ndr"),
        ("sizes --testbed known:700kpps --size 64,512", "sizes"),
        ("rfc2544 --size 64 --duration 2ms --repeat 1 --precision 20%", "rfc2544"),
        ("transmit --driver kpps,click-polling --duration 1ms", "transmit"),
        ("profile --duration 1ms", "profile"),
        ("scale --cpu-counts 1,2 --duration 1ms", "scale"),
        ("trace --duration 1ms", "trace"),
        ("list", "profiles"),
        ("list chips 82542", "profiles"),
        ("conformance --on model --chip 82542", "conformance"),
        ("compare a.json b.json", "comparison"),
    ] {
        compare(words, kind, run);
    }
}

#[cfg(target_os = "linux")]
#[test]
fn so_it_is_of_ports() {
    let Some(net) = crate::net::Net::new(&[("a", "b")]) else { return };
    let trial = "trial --ports packet:a,packet:b --load 5kpps --duration 200ms --no-live";
    for (words, kind) in [
        (trial.to_owned(), "trial"),
        (format!("{trial} --bidirectional --size imix-csit --flows 4"), "trial"),
        (format!("{trial} --bidirectional --interval 50ms"), "trial"),
        ("curve --ports packet:a,packet:b --load 5kpps --duration 100ms --no-live".into(), "curve"),
        ("send packet:a --load 5kpps --duration 100ms --no-live".into(), "run"),
    ] {
        compare(&words, kind, |words| net.kpps(words));
    }
}
