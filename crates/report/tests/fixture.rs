//! Every presentation of one realistic document: a livelock study of five presets.
#![allow(clippy::unwrap_used)]

use kpps_report::text::{Look, plot, table};
use kpps_report::{Curve, csv, schema, two_sentences};
use std::path::{Path, PathBuf};

fn fixture() -> Curve {
    Curve::from_json(include_str!("fixtures/livelock.json")).unwrap()
}

/// Compares a committed file with what it should hold; `UPDATE=1` rewrites it instead.
fn current(path: &Path, text: &str) {
    if std::env::var_os("UPDATE").is_some() {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    let committed = std::fs::read_to_string(path).unwrap_or_default();
    assert!(committed == text, "{} is not current: run the tests with UPDATE=1", path.display());
}

fn here() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

#[test]
fn the_committed_schema_is_current() {
    current(&here().join("../../schema/kpps-1.json"), &schema());
}

#[test]
fn the_fixture_is_as_this_version_writes_it() {
    let read = fixture();
    let again = Curve::new(read.environment, read.series, read.complete);
    current(&here().join("tests/fixtures/livelock.json"), &again.to_json().unwrap());
}

#[test]
fn the_fixture_is_valid_and_its_ledgers_close() {
    let schema = serde_json::from_str(&schema()).unwrap();
    let validator = jsonschema::validator_for(&schema).unwrap();
    let mut document: serde_json::Value =
        serde_json::from_str(include_str!("fixtures/livelock.json")).unwrap();
    validator.validate(&document).unwrap();
    for point in fixture().series.iter().flat_map(|s| &s.points) {
        assert!(point.ledger.closes(), "{point:?}");
    }
    // A schema that lets everything pass would be no use.
    for (pointer, bad) in [
        ("/schema", serde_json::json!("kpps/2")),
        ("/kind", serde_json::json!("circle")),
        ("/summary", serde_json::json!(["one sentence"])),
        ("/series/0/points/0/ledger/sent", serde_json::json!(-1)),
        ("/series/0/points/0/latency_ns", serde_json::json!({"p50": 1})),
    ] {
        let good = std::mem::replace(document.pointer_mut(pointer).unwrap(), bad);
        assert!(!validator.is_valid(&document), "{pointer}");
        *document.pointer_mut(pointer).unwrap() = good;
    }
    document.as_object_mut().unwrap().remove("series");
    assert!(!validator.is_valid(&document));
}

#[test]
fn sentences() {
    insta::assert_snapshot!(two_sentences(&fixture()).join("\n"));
}

#[test]
fn tables() {
    insta::assert_snapshot!(table(&fixture(), Look::default()));
}

#[test]
fn narrow_tables_in_ascii() {
    let mut curve = fixture();
    curve.series.truncate(1);
    curve.environment.presets.clear();
    let text = table(&curve, Look { width: 72, ascii: true, colour: false });
    assert!(text.is_ascii() && text.lines().all(|line| line.len() <= 72), "{text}");
    insta::assert_snapshot!(text);
}

#[test]
fn plots() {
    insta::assert_snapshot!(plot(&fixture(), Look::default()));
}

#[test]
fn narrow_plots_in_ascii() {
    let text = plot(&fixture(), Look { width: 80, ascii: true, colour: false });
    assert!(text.is_ascii() && text.lines().all(|line| line.len() <= 80), "{text}");
    insta::assert_snapshot!(text);
}

#[test]
fn colour_changes_nothing_but_colour() {
    let strip = |text: String| {
        let mut plain = String::new();
        for (i, piece) in text.split('\x1b').enumerate() {
            plain += if i == 0 { piece } else { piece.split_once('m').unwrap().1 };
        }
        // Spaces before a coloured end of line cannot be trimmed.
        plain.lines().map(|line| line.trim_end().to_owned() + "\n").collect::<String>()
    };
    let colour = Look { colour: true, ..Look::default() };
    for draw in [plot, table] {
        let text = draw(&fixture(), colour);
        assert!(text.contains('\x1b'));
        assert_eq!(strip(text), draw(&fixture(), Look::default()));
    }
}

#[test]
fn comma_separated_values_are_a_grid() {
    let mut curve = fixture();
    curve.series[0].name = "with, \"quotes\"".to_owned();
    let text = csv(&curve);
    let mut lines = text.lines();
    let columns = lines.next().unwrap().split(',').count();
    assert_eq!(text.lines().count(), 1 + 5 * 15);
    assert!(
        lines.clone().all(|l| l.trim_start_matches("\"with, \"\"quotes\"\"\"").split(',').count() == columns)
    );
    assert!(lines.next().unwrap().starts_with("\"with, \"\"quotes\"\"\",50000,"));
    insta::assert_snapshot!(csv(&fixture()).lines().take(16).collect::<Vec<_>>().join("\n"));
}
