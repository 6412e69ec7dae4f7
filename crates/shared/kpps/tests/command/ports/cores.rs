//! `--cores`: trials and searches on several cores.

use crate::net::{Net, document, is_short_of_cpu};
use serde_json::Value;

/// The work of each core is in the document, which has the schema, and on the screen.
#[test]
fn a_trial_reports_each_core() {
    let Some(net) = Net::bridge() else { return };
    let words = ["trial", "--ports", "packet:a,packet:b", "--load", "8kpps", "--duration", "400ms"];
    let words = [&words[..], &["--cores", "2", "--flows", "8"]].concat();
    let output = net.kpps(&[&words[..], &["--json"]].concat());
    let trial = document(&output);
    let schema: Value = serde_json::from_slice(&net.kpps(&["schema"]).stdout).unwrap();
    jsonschema::validate(&schema, &trial).unwrap();
    assert!(output.status.success() || is_short_of_cpu(&output), "{trial}");
    assert_eq!((&trial["intended"], &trial["reordered"]), (&3200.into(), &0.into()), "{trial}");
    assert_eq!(trial["environment"]["system"]["cores of packet:a"], "2", "{trial}");
    let way = &trial["directions"][0];
    for (count, all) in [("sent", "sent"), ("shortfall", "shortfall"), ("received", "received")] {
        let cores = way["cores"].as_array().unwrap().iter().map(|core| core[count].as_u64().unwrap());
        assert_eq!(Some(cores.sum()), way[all].as_u64(), "{way}");
    }
    let shown = net.kpps(&words);
    let shown = String::from_utf8_lossy(&shown.stdout);
    for said in ["2 cores from packet:a to packet:b:", "  core 0", "  core 1"] {
        assert!(shown.contains(said), "{said}: {shown}");
    }
}

/// A search has the cores, too; and a list of CPUs is a core for each.
#[test]
fn a_curve_runs_on_cores_and_a_list_of_cpus_is_one() {
    let Some(net) = Net::bridge() else { return };
    let words = ["curve", "--ports", "packet:a,packet:b", "--load", "4kpps,8kpps", "--duration", "300ms"];
    let output = net.kpps(&[&words[..], &["--cores", "2", "--flows", "4", "--json"]].concat());
    let curve = document(&output);
    let points = curve["series"][0]["points"].as_array().unwrap();
    assert_eq!(points.len(), 2, "{curve}");
    for (point, due) in points.iter().zip([1200, 2400]) {
        let ledger = &point["ledger"];
        let all = ledger["sent"].as_u64().unwrap() + ledger["shortfall"].as_u64().unwrap();
        assert_eq!((all, &ledger["unexplained"]), (due, &0.into()), "{point}");
    }
    let words = ["trial", "--ports", "packet:a,packet:b", "--load", "4kpps", "--duration", "300ms"];
    let output = net.kpps(&[&words[..], &["--cores", "0,", "--flows", "4"]].concat());
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("give a number of cores from 1 to 64, or a list of CPUs"), "{said}");
}

/// Whatever several cores cannot do is refused in one line, before a frame is sent.
#[test]
fn cores_without_work_are_refused() {
    let Some(net) = Net::bridge() else { return };
    let trial = ["trial", "--load", "1kpps", "--duration", "100ms", "--cores"];
    let ports = |ports| ["--ports", ports];
    let of = |cores, pair: &'static str, more: &'static [&'static str]| {
        [&trial[..], &[cores], &ports(pair), more].concat()
    };
    const PAIR: &str = "packet:a,packet:b";
    for (words, said) in [
        (of("2", PAIR, &[]), "--flows 2, or more"),
        (of("0", PAIR, &["--flows", "8"]), "from 1 to 64"),
        (of("65", PAIR, &["--flows", "100"]), "from 1 to 64"),
        (of("99999999999999999999", PAIR, &["--flows", "8"]), "from 1 to 64"),
        (of("0-4095", PAIR, &["--flows", "8"]), "from 1 to 64"),
        (of("0,4095", PAIR, &["--flows", "8"]), "CPU 4095 may not be used"),
        (of("2", "xdp:a:0,packet:b", &["--flows", "8"]), "xdp:a:0 has one core"),
        (of("2", "udp::7001,udp:127.0.0.1:7001", &["--flows", "8"]), "has one core"),
        (of("2", "xdp:a,packet:b", &["--flows", "8"]), "receive queues"),
        (of("2", PAIR, &["--flows", "8", "--from", "127.0.0.1"]), "ports of other hosts have one core each"),
        (of("2", PAIR, &["--flows", "8", "--capture", "f"]), "not possible on several cores"),
    ] {
        let output = net.kpps(&words);
        let told = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success(), "{words:?}: {told}");
        assert!(told.contains(said), "{words:?}: {told}");
        assert!(!told.contains("panicked"), "{words:?}: {told}");
    }
}
