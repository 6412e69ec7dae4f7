//! Every presentation of one realistic document: a livelock study of five presets.

use kpps_documents::{Cpu, Curve, Environment, Ledger, Series, Trial, schema};
use kpps_rendering::text::{TextStyle, plot, table};
use kpps_rendering::{csv, html};
use std::path::{Path, PathBuf};

fn fixture() -> Curve {
    Curve::from_json(include_str!("fixtures/livelock.json")).unwrap()
}

/// Compares a committed file with the expected contents; `UPDATE=1` rewrites it instead.
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
    current(&here().join("../../../schema/kpps-3.json"), &schema());
}

#[test]
fn the_fixture_is_as_this_version_writes_it() {
    let read = fixture();
    let again = Curve::new(read.environment, read.series, read.complete);
    current(&here().join("tests/report/fixtures/livelock.json"), &again.to_json().unwrap());
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
        let cpu = point.cpu.unwrap();
        let busy = cpu.hardirq + cpu.softirq + cpu.thread + cpu.idle_polls.unwrap();
        assert!((busy - point.cpu_busy.unwrap()).abs() < 3e-6, "{point:?}");
    }
    // A schema that lets everything pass would be no use.
    for (pointer, bad) in [
        ("/schema", serde_json::json!("kpps/1")),
        ("/kind", serde_json::json!("circle")),
        ("/summary", serde_json::json!(["one sentence"])),
        ("/series/0/points/0/ledger/sent", serde_json::json!(-1)),
        ("/series/0/points/0/latency_ns", serde_json::json!(null)),
        ("/series/0/points/0/cpu", serde_json::json!({"hardirq": 0.5})),
        ("/series/0/points/0/bus_busy", serde_json::json!("none")),
        ("/series/0/points/0/delivered_pps", serde_json::json!(null)),
    ] {
        let good = std::mem::replace(document.pointer_mut(pointer).unwrap(), bad);
        assert!(!validator.is_valid(&document), "{pointer}");
        *document.pointer_mut(pointer).unwrap() = good;
    }
    // Values that were not observed are null.
    for field in ["bus_busy", "cpu", "cpu_busy", "interrupts_per_s", "registers_per_frame"] {
        *document.pointer_mut(&format!("/series/0/points/0/{field}")).unwrap() = serde_json::json!(null);
        assert!(validator.is_valid(&document), "{field}");
    }
    document.as_object_mut().unwrap().remove("series");
    assert!(!validator.is_valid(&document));
}

#[test]
fn sentences() {
    insta::assert_snapshot!(fixture().summary.join("\n"));
}

#[test]
fn tables() {
    insta::assert_snapshot!(table(&fixture(), TextStyle::default()));
}

#[test]
fn narrow_tables_in_ascii() {
    let mut curve = fixture();
    curve.series.truncate(1);
    curve.environment.presets.clear();
    let text = table(&curve, TextStyle { width: 72, ascii: true, colour: false });
    assert!(text.is_ascii() && text.lines().all(|line| line.len() <= 72), "{text}");
    insta::assert_snapshot!(text);
}

#[test]
fn plots() {
    insta::assert_snapshot!(plot(&fixture(), TextStyle::default()));
}

#[test]
fn narrow_plots_in_ascii() {
    let text = plot(&fixture(), TextStyle { width: 80, ascii: true, colour: false });
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
    let colour = TextStyle { colour: true, ..TextStyle::default() };
    for draw in [plot, table] {
        let text = draw(&fixture(), colour);
        assert!(text.contains('\x1b'));
        assert_eq!(strip(text), draw(&fixture(), TextStyle::default()));
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
    assert!(lines.next().unwrap().starts_with("\"with, \"\"quotes\"\"\",100000,"));
    insta::assert_snapshot!(csv(&fixture()).lines().take(16).collect::<Vec<_>>().join("\n"));
}

#[test]
fn the_page_says_everything_and_asks_nobody() {
    let curve = fixture();
    let page = html(&curve);
    assert_eq!(page, html(&curve), "the same document gives the same page");
    assert!(page.len() < 250_000, "{} bytes", page.len());
    for sentence in &curve.summary {
        // Numbers stay with their per cent sign.
        assert!(page.contains(&sentence.replace(" %", "\u{a0}%")));
    }
    for point in curve.series.iter().flat_map(|s| &s.points) {
        assert!(page.contains(&format!("<td>{}</td>", point.ledger.delivered)));
    }
    // Resources that a browser would fetch; addresses in comments and namespaces are none.
    for fetched in ["src=", "<link", "href=\"", "@import", "url(", "fetch(", "XMLHttpRequest"] {
        assert!(!page.contains(fetched), "{fetched}");
    }
    assert!(page.contains("default-src 'none'"));
    assert!(page.contains("Permission is hereby granted"), "the plot library's licence");
}

#[test]
fn the_page_says_why_packets_are_lost() {
    let mut curve = fixture();
    let attic = [("attic".to_owned(), 1), ("fifo".to_owned(), 2)].into();
    curve.series[0].points[0].ledger.dropped = attic;
    let page = html(&curve);
    let words = page
        .split_once("id=\"words\" type=\"application/json\">")
        .unwrap()
        .1
        .split_once("</script>")
        .unwrap()
        .0;
    let words: std::collections::BTreeMap<String, String> = serde_json::from_str(words).unwrap();
    assert_eq!(words["fifo"], "card's FIFO: the card cannot take frames faster");
    assert!(!words.contains_key("attic"), "what is not known is shown by its name only");
    let column = "<th scope=\"col\" title=\"card's FIFO: the card cannot take frames faster\">fifo</th>";
    assert!(page.contains(column) && page.contains("<th scope=\"col\">attic</th>"));
}

fn without_idle_polls(cpu: Cpu) -> Cpu {
    Cpu { idle_polls: Some(0.0), ..cpu }
}

/// A curve of a testbed that counts packets and nothing else.
fn unobserved() -> Curve {
    let point = |pps: u64| {
        let (sent, delivered) = (pps, pps.min(600));
        let dropped = [("overload".to_owned(), sent - delivered)].into();
        let ledger = Ledger { sent, delivered, dropped, ..Ledger::default() };
        Trial::new(pps as f64, 1.0, [sent, 0, delivered], ledger).unwrap()
    };
    let series = Series { name: "known".into(), points: [100, 1000].map(point).into() };
    let environment = Environment { line_rate_pps: Some(1000.0), ..Environment::default() };
    Curve::new(environment, vec![series], true)
}

#[test]
fn a_table_has_dashes_for_what_nobody_observed() {
    let text = table(&unobserved(), TextStyle { ascii: true, ..TextStyle::default() });
    let last = text.lines().find(|line| line.contains("40.00")).unwrap();
    // Offered, delivered, loss, loss by place; then CPU, interrupts and two latencies.
    let fields: Vec<_> = last.split_whitespace().collect();
    assert_eq!(fields, ["1.0", "0.6", "40.00", "40.00", "-", "-", "-", "-"], "{text}");
    assert!(!text.contains("polls %"), "{text}");
}

#[test]
fn csv_has_empty_fields_for_what_nobody_observed() {
    let text = csv(&unobserved());
    let mut lines = text.lines().map(|line| line.split(',').collect::<Vec<_>>());
    let (header, first) = (lines.next().unwrap(), lines.next().unwrap());
    let value = |name: &str| first[header.iter().position(|it| *it == name).unwrap()];
    for name in ["cpu_busy", "cpu.hardirq", "cpu.idle_polls", "bus_busy", "interrupts_per_s"] {
        assert_eq!(value(name), "", "{name}");
    }
    for name in ["registers_per_frame.read", "registers_per_frame.write", "allocations_per_frame"] {
        assert_eq!(value(name), "", "{name}");
    }
    assert_eq!((value("sent_pps"), value("loss_ratio"), value("latency_ns.p50")), ("100", "0", ""));
}

#[test]
fn a_page_draws_nothing_that_nobody_observed() {
    let (full, bare) = (html(&fixture()), html(&unobserved()));
    for id in ["cpu", "kinds", "interrupts", "latency", "reads", "writes", "bus", "allocations"] {
        let place = format!(" id=\"{id}\"");
        assert!(full.contains(&place) && !bare.contains(&place), "{id}");
    }
    assert!(bare.contains(" id=\"delivered\"") && bare.contains("<td>–</td>"));
    assert!(!bare.contains("CPU time"), "the summary says nothing of a CPU");
}

#[test]
fn idle_polls_have_a_column_where_there_are_any() {
    let text = table(&fixture(), TextStyle::default());
    assert_eq!(text.matches("polls %").count(), 1, "of the five, one polls idly");
    let mut curve = fixture();
    curve.series.iter_mut().flat_map(|s| &mut s.points).for_each(|p| p.cpu = p.cpu.map(without_idle_polls));
    assert!(!table(&curve, TextStyle::default()).contains("polls %"));
}

#[test]
fn names_cannot_break_out_of_the_page() {
    let mut curve = fixture();
    let name = "</script><script>alert('&')</script><!--";
    curve.series[0].name = name.to_owned();
    curve.environment.machine = name.to_owned();
    curve.complete = false;
    let page = html(&curve);
    assert!(!page.contains("<script>alert"));
    assert!(page.contains("&lt;script&gt;alert") && page.contains("interrupted"));
    let data = page.split_once("type=\"application/json\">").unwrap().1.split_once("</script>").unwrap().0;
    assert_eq!(Curve::from_json(data).unwrap(), curve, "the page holds the document itself");
}

#[test]
fn nothing_measured_is_presented_too() {
    let curve = Curve::new(Environment::default(), vec![Series::default()], false);
    assert!(html(&curve).contains("Nothing was measured."));
    assert!(plot(&curve, TextStyle::default()).contains("Nothing to draw"));
    assert!(table(&curve, TextStyle::default()).contains("Not finished"));
    assert_eq!(csv(&curve).lines().count(), 1);
}

#[test]
fn no_width_and_no_number_makes_presenting_fail() {
    let mut curve = fixture();
    let point = &mut curve.series[1].points[3];
    (point.offered_pps, point.delivered_pps) = (1e300, -5.0);
    point.ledger.dropped.insert("a rather long place with many words".to_owned(), u64::MAX);
    curve.series[2].name = "長い名前".repeat(20);
    for width in [0, 1, 7, 39, 80, 500, usize::MAX] {
        for ascii in [true, false] {
            let style = TextStyle { width, ascii, colour: true };
            assert!(!plot(&curve, style).is_empty() && !table(&curve, style).is_empty());
        }
    }
    assert!(!html(&curve).is_empty() && !curve.summary[1].is_empty());
}
