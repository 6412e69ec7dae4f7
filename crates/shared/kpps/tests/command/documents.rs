//! The output of commands with `--json` follows the schema of `kpps schema`.

use assert_cmd::Command;
use serde_json::Value;

fn json(words: &[&str]) -> Value {
    let output = Command::cargo_bin("kpps").unwrap().args(words).output().unwrap();
    assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn every_document_is_one_that_the_schema_allows() {
    let schema = json(&["schema"]);
    let validator = jsonschema::validator_for(&schema).unwrap();
    for (words, kind) in [
        (&["curve", "--load", "100kpps", "--driver", "kpps", "--duration", "1ms"][..], "curve"),
        (&["transmit", "--duration", "1ms"], "transmit"),
        (&["transmit", "--machine", "ols2005", "--driver", "kpps", "--fragments", "4"], "transmit"),
        (&["profile", "--duration", "1ms"], "profile"),
        (&["profile", "--app", "nat", "--driver", "kpps", "--load", "100kpps"], "profile"),
        (&["scale", "--cpu-counts", "1,2", "--duration", "1ms"], "scale"),
        (&["scale", "--nic", "82598", "--cpu-counts", "1", "--load", "1Mpps", "--flows", "1"], "scale"),
        (&["trace", "--duration", "1ms"], "trace"),
        (&["list"], "profiles"),
        (&["list", "stacks", "freebsd-5.4"], "profiles"),
        (&["device", "list"], "devices"),
        (&["conformance", "--on", "model", "--chip", "82542"], "conformance"),
    ] {
        let document = json(&[words, &["--json"]].concat());
        assert_eq!((&document["schema"], &document["kind"]), (&"kpps/3".into(), &kind.into()), "{words:?}");
        if let Err(error) = validator.validate(&document) {
            panic!("{words:?}: {error}");
        }
        // It is no other kind of document, and nothing that it must have may be left out.
        let mut other = document.clone();
        other["kind"] = if kind == "curve" { "grid" } else { "curve" }.into();
        assert!(!validator.is_valid(&other), "{words:?}: another kind");
        let fields = document.as_object().unwrap();
        let optional = ["stops_at_cpus", "short_of_descriptors", "provenance"];
        assert_eq!(fields.contains_key("provenance"), kind == "devices", "{words:?}: of this host");
        for field in fields.keys().filter(|field| !optional.contains(&field.as_str())) {
            let mut less = fields.clone();
            less.remove(field);
            assert!(!validator.is_valid(&less.into()), "{words:?}: without {field}");
        }
    }
}

#[test]
fn a_case_that_did_not_pass_has_its_reason() {
    let document = json(&["conformance", "--on", "model", "--chip", "82542", "--json"]);
    let cases = document["cases"].as_array().unwrap();
    let with = |result: &str| cases.iter().filter(|case| case["result"] == result).collect::<Vec<_>>();
    assert!(with("pass").len() > 10 && with("fail").is_empty());
    let absent = with("not-applicable");
    assert!(!absent.is_empty(), "an 82542 has no checksum offload");
    assert!(absent.iter().all(|case| !case["reason"].as_str().unwrap().is_empty()));
    assert!(with("pass").iter().all(|case| case.get("reason").is_none()));
}
