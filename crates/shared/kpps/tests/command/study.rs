//! `kpps study` as a user meets it. Its findings are tested in `crates/shared/study`.

use assert_cmd::Command;
use kpps_methods::journal::Journal;
use serde_json::Value;

fn kpps(directory: &tempfile::TempDir, arguments: &[&str]) -> std::process::Output {
    Command::cargo_bin("kpps").unwrap().current_dir(directory).args(arguments).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

fn schema(directory: &tempfile::TempDir) -> Value {
    serde_json::from_slice(&kpps(directory, &["schema"]).stdout).unwrap()
}

#[test]
fn claims_are_one_document_that_the_schema_allows() {
    let here = tempfile::tempdir().unwrap();
    let output = kpps(&here, &["study", "--claim", "M2,M4,L6,R2", "--json"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    jsonschema::validate(&schema(&here), &document).unwrap();
    assert_eq!((&document["schema"], &document["kind"]), (&"kpps/3".into(), &"study".into()));
    assert_eq!(document["profiles_hash"].as_str().unwrap().len(), 16);
    assert_eq!(document["complete"], true);
    let claims = document["claims"].as_array().unwrap();
    let told: Vec<_> = claims
        .iter()
        .map(|c| ["study", "id", "kind", "verdict"].map(|name| c[name].as_str().unwrap()).join(" "))
        .collect();
    assert_eq!(
        told,
        [
            "lunz2003 L6 order pass",
            "morris2000 M2 fit pass",
            "morris2000 M4 kept-back pass",
            "rdr2007 R2 exact pass"
        ]
    );
    // A blind prediction is a record; the document's value stands beside it.
    assert_eq!(claims[2]["values_blind"]["tx_pps_82542"], 260_700.0);
    assert_eq!(claims[2]["value_document"]["tx_pps_82542"], 260e3);
    assert_eq!(claims[2]["results"][0]["blind"], true);
    let sent = claims[2]["values"]["tx_pps_82542"].as_f64().unwrap();
    assert!(sent > 100e3 && claims[1]["expected"].as_str().unwrap().contains("523,000"), "{document}");
    assert!(std::fs::read_dir(&here).unwrap().next().is_none(), "nothing is written that was not asked for");

    // The schema distinguishes kinds: a study is no curve, and a verdict is one of four.
    let mut other = document.clone();
    other["claims"][0]["verdict"] = "maybe".into();
    assert!(jsonschema::validate(&schema(&here), &other).is_err());
    let mut other = document;
    other["kind"] = "curve".into();
    assert!(jsonschema::validate(&schema(&here), &other).is_err());
}

#[test]
fn claims_are_told_and_a_page_is_written() {
    let here = tempfile::tempdir().unwrap();
    std::fs::write(here.path().join("file"), "").unwrap();
    let output = kpps(&here, &["study", "--claim", "M2,M4", "--report", "file/pages"]);
    assert!(output.status.code() == Some(2), "a folder that cannot be made: {}", text(&output.stderr));
    let output = kpps(&here, &["study", "--claim", "M2,M4", "--report", "pages"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let shown = text(&output.stdout);
    for words in [
        "M2    pass",
        "M4    pass",
        "tx_pps_82542",
        "260700      260000",
        "Evidence: 1 of 1 claims hold that no constant was fitted on.",
        "Predicted blind: 2 of 2 results were right",
        "No evidence, and counted apart: fit 1 of 1",
        "pages/morris2000.html",
    ] {
        assert!(shown.contains(words), "no '{words}' in:\n{shown}");
    }
    let page = std::fs::read_to_string(here.path().join("pages/morris2000.html")).unwrap();
    for words in ["<!DOCTYPE html>", "Question", "minimum-size packets", "id=\"M2\"", "profiles <code>"] {
        assert!(page.contains(words), "no '{words}'");
    }
    let at = |words: &str| page.find(words).unwrap_or_else(|| panic!("no '{words}'"));
    assert!(
        at("Evidence: 1 of 1") < at("fit 1 of 1") && at("id=\"M4\"") < at("id=\"M2\""),
        "evidence is first"
    );
    assert!(!page.contains("<script") && !page.contains("http://") && !page.contains("src="));
    assert_eq!(std::fs::read_dir(here.path().join("pages")).unwrap().count(), 1);

    let output = kpps(&here, &["study", "--claim", "M4,B16", "--report", "all"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let page = std::fs::read_to_string(here.path().join("all/studies.html")).unwrap();
    for words in [
        "Reproduced and missed claims",
        "href=\"evans2005.html\"",
        "Predicted blind: 2 of 2 results were right",
        "id=\"M4\"",
    ] {
        assert!(page.contains(words), "no '{words}' in {page}");
    }
}

#[test]
fn what_is_not_there_is_one_line() {
    let here = tempfile::tempdir().unwrap();
    for (arguments, says) in [
        (
            &["study", "evans1066"][..],
            "known are beyond, evans2005, gilbert2004, lab2026, lunz2003, morris2000, napi2002, ols2005, rdr2007",
        ),
        (&["study", "--claim", "X1"], "no claim 'X1'"),
        (&["study", "rdr2007", "--claim", "M2"], "no claim 'M2' in rdr2007"),
        (&["study", "rdr2007", "rdr2007"], "given twice"),
        (&["study", "--perturb", "much"], "much"),
        (&["study", "beyond", "--seeds", "9..3"], "FIRST..LAST"),
        (&["study", "rdr2007", "--drawn", "44"], "draw no random machines"),
    ] {
        let output = kpps(&here, arguments);
        let message = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {message}");
        assert!(message.contains(says), "{arguments:?} says: {message}");
        assert_eq!(message.trim_end().lines().count(), 1, "{arguments:?} says more than a line: {message}");
    }
}

/// The constants that are drawn for a machine are those that `grid` uses, and another seed has another
/// machine.
#[test]
fn machines_that_are_drawn_can_be_looked_at() {
    let here = tempfile::tempdir().unwrap();
    let drawn = |seed: &str| {
        let output = kpps(&here, &["study", "beyond", "--claim", "W11", "--drawn", seed]);
        assert!(output.status.success(), "{}", text(&output.stderr));
        text(&output.stdout)
    };
    // A chip's name may be a number.
    let chip = (1..20).find(|seed| drawn(&seed.to_string()).contains("machine.chip=82544 ")).unwrap();
    let shown = drawn(&chip.to_string());
    assert_ne!(shown, drawn("44"));
    let constants = shown.trim().strip_prefix("machines: ").unwrap();
    let grid = "grid --vary load=100% --duration 5ms --no-live --csv -";
    let arguments: Vec<_> = grid.split(' ').chain(constants.split(' ')).collect();
    let output = kpps(&here, &arguments);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert_eq!(text(&output.stdout).trim().lines().count(), 2);
    // One sender in place of a hundred.
    let output = kpps(&here, &["study", "beyond", "--claim", "W4", "--seeds", "101..101", "--json"]);
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(json["claims"][0]["values"]["interrupts_seed"], 101.0);
}

#[test]
fn a_few_claims_can_be_perturbed() {
    let here = tempfile::tempdir().unwrap();
    let output = kpps(&here, &["study", "--perturb", "50%", "--claim", "M2,M19"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let shown = text(&output.stdout);
    for line in ["chip.82542.tx_engine_ps", "nic.tigon-2.tx_descriptor_ps"] {
        let turned = shown.lines().filter(|told| told.starts_with(line) && told.contains("pass -> miss"));
        assert_eq!(turned.count(), 2, "{line}, down and up:\n{shown}");
    }
    let other =
        shown.lines().filter(|told| told.starts_with("chip.82543gc") && told.contains("no verdict changes"));
    assert_eq!(other.count(), 4, "{shown}");

    // As a document, resumed from a file, with the same result.
    let words = ["study", "--perturb", "50%", "--claim", "M2,M19", "--json", "--resume", "kept"];
    let [first, again] = [(); 2].map(|()| kpps(&here, &words));
    assert!(first.status.success() && first.stdout == again.stdout, "{}", text(&again.stderr));
    // Two measurements without a change, and each again with each constant that it depends on.
    let kept = crate::kept(&here.path().join("kept"));
    let name = |line: &String| serde_json::from_str::<(String, String, Value, u64)>(line).unwrap().1;
    let names: std::collections::BTreeSet<_> = kept.iter().map(name).collect();
    assert_eq!(kept.len(), names.len(), "nothing is measured twice");
    let document: Value = serde_json::from_slice(&first.stdout).unwrap();
    jsonschema::validate(&schema(&here), &document).unwrap();
    let rows = document["rows"].as_array().unwrap();
    assert_eq!(
        (document["requested"].as_u64(), &document["complete"]),
        (Some(rows.len() as u64), &true.into())
    );
    let turned = rows.iter().filter(|row| row["constant"] == "chip.82542.tx_engine_ps");
    let turned: Vec<_> = turned.map(|row| (&row["change"], &row["changed"][0]["claim"])).collect();
    assert_eq!(turned, [(&(-0.5).into(), &"M2".into()), (&0.5.into(), &"M2".into())]);
    let csv = kpps(&here, &["study", "beyond", "--claim", "W11", "--drawn", "44", "--csv", "-"]);
    assert!(text(&csv.stdout).starts_with("measurement,arguments\n"), "{}", text(&csv.stdout));
}

#[test]
#[cfg(unix)]
fn an_interrupted_study_keeps_what_it_has() {
    let here = tempfile::tempdir().unwrap();
    let output = crate::interrupt_after_a_measurement(here.path(), &["study", "lunz2003", "--json"]);
    assert_eq!(output.status.code(), Some(130), "{}", text(&output.stderr));
    assert!(text(&output.stderr).contains("claims judged"), "{}", text(&output.stderr));
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(document["complete"], false);
    jsonschema::validate(&schema(&here), &document).unwrap();
}

#[test]
fn what_was_kept_is_not_measured_again() {
    let here = tempfile::tempdir().unwrap();
    let arguments = ["study", "--claim", "M2,R2", "--resume", "kept", "--json"];
    let first = kpps(&here, &arguments);
    assert!(first.status.success(), "{}", text(&first.stderr));
    let path = here.path().join("kept");
    let lines = std::fs::read_to_string(&path).unwrap();
    assert_eq!(kpps(&here, &arguments).stdout, first.stdout, "the same results, to the last digit");
    assert_eq!(std::fs::read_to_string(&path).unwrap(), lines, "and nothing was measured");

    // The study prints the value from the file, so it was not measured. A value of another version is not
    // found.
    let document: Value = serde_json::from_slice(&first.stdout).unwrap();
    let pps = document["claims"][0]["values"]["tx_pps"].as_f64().unwrap();
    let told = format!("\"pps\":{pps:?}");
    assert!(lines.contains(&told), "{told} in {lines}");
    let keep_changed = |change: &dyn Fn(&str) -> String| {
        std::fs::remove_file(&path).unwrap();
        let mut journal = Journal::open(&path).unwrap();
        for line in lines.lines().skip(1) {
            let (_, name, values, _) =
                serde_json::from_str::<(String, String, Value, u64)>(&change(line)).unwrap();
            journal.keep(&name, &values).unwrap();
        }
    };
    keep_changed(&|line| line.replace(&told, "\"pps\":123.0"));
    let document: Value = serde_json::from_slice(&kpps(&here, &arguments).stdout).unwrap();
    assert_eq!(document["claims"][0]["values"]["tx_pps"], 123.0);
    keep_changed(&|line| line.replacen("\",\"", "\",\"other ", 1));
    assert_eq!(kpps(&here, &arguments).stdout, first.stdout);

    // A number that was changed in the file is no measurement.
    let changed = lines.replace(&told, "\"pps\":123.0");
    std::fs::write(&path, &changed).unwrap();
    let output = kpps(&here, &arguments);
    let said = text(&output.stderr);
    let number = 1 + lines.lines().position(|line| line.contains(&told)).unwrap();
    assert_eq!((output.status.code(), said.lines().count()), (Some(2), 1), "{said}");
    assert!(said.contains(&format!("line {number} of kept was changed")), "{said}");
    assert_eq!(std::fs::read_to_string(&path).unwrap(), changed);
}
