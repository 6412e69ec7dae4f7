//! `--streams`: a file of streams in `kpps trial` and in searches.

use crate::net::{Net, document, is_short_of_cpu};
use serde_json::Value;
use std::path::{Path, PathBuf};

fn file(folder: &Path, text: &str) -> PathBuf {
    let path = folder.join("streams.toml");
    std::fs::write(&path, text).unwrap();
    path
}

const STREAMS: &str = r#"
[[stream]]
name = "voice"
load = "1kpps"
headers = "ethernet/vlan/ipv4/udp"
fields = { "vlan.id" = [7, 8], "ipv4.dscp" = 46 }
[[stream]]
name = "bulk"
copies = 3
load = "500pps"
size = "imix-csit"
from = 2
each = { "udp.sport" = "1000-1002" }
"#;

/// Results of each stream, which add up; the schema has them, and the screen shows them.
#[test]
fn a_trial_reports_each_stream() {
    let Some(net) = Net::bridge() else { return };
    let folder = tempfile::tempdir().unwrap();
    let file = file(folder.path(), STREAMS);
    let words = ["trial", "--ports", "packet:a,packet:b", "--duration", "400ms", "--streams"];
    let words = [&words[..], &[file.to_str().unwrap()]].concat();
    let output = net.kpps(&[&words[..], &["--json"]].concat());
    let trial = document(&output);
    let schema: Value = serde_json::from_slice(&net.kpps(&["schema"]).stdout).unwrap();
    jsonschema::validate(&schema, &trial).unwrap();
    assert!(output.status.success() || is_short_of_cpu(&output), "{trial}");
    assert_eq!(trial["environment"]["traffic"], "4 streams of a file", "{trial}");
    let names = |way: usize| -> Vec<String> {
        let streams = trial["directions"][way]["streams"].as_array().unwrap();
        streams.iter().map(|stream| stream["stream"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(
        (names(0), names(1)),
        (vec!["voice".into()], ["bulk 1", "bulk 2", "bulk 3"].map(String::from).into())
    );
    assert_eq!(trial["intended"], 400 + 3 * 200, "{trial}");
    for way in trial["directions"].as_array().unwrap() {
        let sent = way["streams"].as_array().unwrap().iter().map(|stream| stream["sent"].as_u64().unwrap());
        assert_eq!(sent.sum::<u64>(), way["sent"].as_u64().unwrap(), "{way}");
    }
    let shown = net.kpps(&words);
    let shown = String::from_utf8_lossy(&shown.stdout);
    for said in ["1 stream from packet:a: ", "3 streams from packet:b: ", "  bulk 2 "] {
        assert!(shown.contains(said), "{said}: {shown}");
    }
}

/// A curve of streams: each load is that of the streams from the first port, and all keep their proportions.
#[test]
fn a_curve_scales_streams() {
    let Some(net) = Net::bridge() else { return };
    let folder = tempfile::tempdir().unwrap();
    let file = file(folder.path(), STREAMS);
    let words =
        ["curve", "--ports", "packet:a,packet:b", "--load", "2kpps,4kpps", "--duration", "300ms", "--json"];
    let output = net.kpps(&[&words[..], &["--streams", file.to_str().unwrap()]].concat());
    let curve = document(&output);
    let points = curve["series"][0]["points"].as_array().unwrap();
    // 1 and 1.5 kpps in the file.
    for (point, due) in points.iter().zip([600 + 900, 1200 + 1800]) {
        let frames =
            point["ledger"]["sent"].as_u64().unwrap() + point["ledger"]["shortfall"].as_u64().unwrap();
        assert_eq!(frames, due, "{point}");
    }
    assert_eq!(points.len(), 2, "{curve}");
}

/// Options that have no effect on streams are refused, and so is a file with a mistake, with its place.
#[test]
fn options_without_effect_on_streams_are_refused() {
    let Some(net) = Net::bridge() else { return };
    let folder = tempfile::tempdir().unwrap();
    let good = file(folder.path(), STREAMS);
    let good = good.to_str().unwrap();
    let bad = folder.path().join("bad.toml");
    std::fs::write(&bad, "[[stream]]\nload = \"1kpps\"\nfields = { \"ipv4.dest\" = 1 }").unwrap();
    let trial = ["trial", "--ports", "packet:a,packet:b", "--streams"];
    let of_sizes = ["sizes", "--ports", "packet:a,packet:b", "--streams", good];
    let of_grid = ["grid", "--vary", "load=1kpps,2kpps", "--ports", "packet:a,packet:b", "--streams", good];
    for (words, said) in [
        ([&trial[..], &[good, "--size", "128"]].concat(), "--size has no effect"),
        ([&trial[..], &[good, "--flows", "5"]].concat(), "--flows has no effect"),
        ([&trial[..], &[good, "--vlan", "5"]].concat(), "--vlan has no effect"),
        ([&trial[..], &[good, "--dscp", "5"]].concat(), "--dscp has no effect"),
        ([&trial[..], &[good, "--bidirectional"]].concat(), "--bidirectional has no effect"),
        ([&trial[..], &[good, "--shape", "poisson"]].concat(), "--shape"),
        (
            [&trial[..], &[good, "--capture-all", "f"]].concat(),
            "--capture-all and --streams exclude each other",
        ),
        ([&trial[..], &["/nowhere"]].concat(), "cannot read /nowhere"),
        (
            [&trial[..], &[bad.to_str().unwrap()]].concat(),
            "stream 1 (stream 1): fields: there is no field 'ipv4.dest'",
        ),
        (of_sizes.to_vec(), "--streams has no effect"),
        (of_grid.to_vec(), "--streams has no effect"),
        (["trial", "--streams", good].to_vec(), "--streams is for two ports"),
    ] {
        let output = net.kpps(&words);
        let why = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(2) && why.contains(said), "{words:?}: {why}");
    }
}

/// With `--late send` each stream sends exactly its number of frames, even if the port is far too slow for
/// the load, and the result says how late they were.
#[test]
fn late_frames_of_streams_are_sent_late_where_that_is_asked_for() {
    let Some(net) = Net::bridge() else { return };
    let folder = tempfile::tempdir().unwrap();
    // Frames become due ten times as fast as any of these ports can send, for 2 ms.
    let text = r#"
        [[stream]]
        load = "5Mpps"
        count = 10000
        [[stream]]
        load = "2Mpps"
        count = 3000
    "#;
    let file = file(folder.path(), text);
    let words = ["trial", "--ports", "packet:a,packet:b", "--duration", "10ms", "--json", "--streams"];
    let trial = |late: &[&str]| document(&net.kpps(&[&words[..], &[file.to_str().unwrap()], late].concat()));
    let all = trial(&["--late", "send"]);
    let way = &all["directions"][0];
    let sent = [0, 1].map(|stream| way["streams"][stream]["sent"].as_u64().unwrap());
    assert_eq!((sent, way["shortfall"].as_u64()), ([10_000, 3000], Some(0)), "{all}");
    assert!(way["lateness"]["frames"].as_u64().unwrap() > 0, "{all}");
    assert_eq!(trial(&[])["directions"][0]["lateness"], Value::Null);
    for words in [&["--load", "max", "--late", "send"][..], &["--late", "never"]] {
        let refused = net.kpps(&[&["trial", "--ports", "packet:a,packet:b"], words].concat());
        assert_eq!(refused.status.code(), Some(2), "{words:?}");
    }
}

/// Probes are sent at their own rate beside each load, and alone first.
#[test]
fn a_curve_shows_the_latencies_of_probes_at_each_load() {
    let Some(net) = Net::bridge() else { return };
    let folder = tempfile::tempdir().unwrap();
    let text = r#"
        [[stream]]
        name = "bulk"
        load = "100pps"
        size = 1024
        [[stream]]
        name = "probe"
        load = "500pps"
        probe = true
        [[stream]]
        name = "back"
        load = "250pps"
        from = 2
        probe = true
    "#;
    let file = file(folder.path(), text);
    let file = file.to_str().unwrap();
    let words = ["--ports", "packet:a,packet:b", "--streams", file];
    let times = ["--load", "2kpps,4kpps", "--duration", "400ms"];
    let output = net.kpps(&[&["curve"], &words[..], &times, &["--json"]].concat());
    let curve = document(&output);
    let points = curve["series"][0]["points"].as_array().unwrap();
    let due = |point: &Value| point["sent"].as_u64().unwrap() + point["shortfall"].as_u64().unwrap();
    assert_eq!(points.iter().map(due).collect::<Vec<_>>(), [300, 300 + 800, 300 + 1600], "{curve}");
    for point in points {
        let probes = point["probes"].as_array().unwrap();
        assert_eq!((&probes[0]["stream"], &probes[1]["stream"]), (&"probe".into(), &"back".into()));
        assert_eq!((&probes[0]["from"], &probes[1]["from"]), (&1.into(), &2.into()));
        for (probe, due) in probes.iter().zip([200, 100]) {
            let sent = probe["sent"].as_u64().unwrap();
            assert!(sent > 0 && sent <= due && probe["lost"].as_u64() <= Some(sent), "{probe}");
            assert!(probe["latency_ns"]["p99"].as_u64() > Some(0), "{probe}");
        }
    }
    let shown = net.kpps(&[&["curve"], &words[..], &times].concat());
    let shown = String::from_utf8_lossy(&shown.stdout);
    assert!(shown.contains("Latency of probes beside the load"), "{shown}");
    let refused = net.kpps(&[&["ndr"], &words[..]].concat());
    assert_eq!(refused.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&refused.stderr).contains("probe"), "{refused:?}");
}

/// `kpps send` sends streams by itself, on one core and on two: each stream its count, every frame once, as
/// the receiver counts them by the streams' numbers.
#[test]
fn send_sends_streams_on_one_core_and_on_two() {
    let Some(net) = Net::bridge() else { return };
    let folder = tempfile::tempdir().unwrap();
    let text = r#"
        [[stream]]
        name = "voice"
        load = "4kpps"
        fields = { "udp.dport" = "100-199" }
        count = 500
        [[stream]]
        name = "bulk"
        copies = 3
        load = "1kpps"
        count = 200
    "#;
    let file = file(folder.path(), text);
    let file = file.to_str().unwrap();
    for cores in ["1", "2"] {
        let words = ["count", "packet:b", "--expect", "1100", "--duration", "60s", "--json"];
        let counter = net.start(&words, 1);
        let words = ["send", "packet:a", "--streams", file, "--late", "send", "--cores", cores, "--json"];
        let output = net.kpps(&words);
        let sent = document(&output);
        assert!(output.status.success(), "{sent}");
        let load = &sent["load"];
        let streams = load["streams"].as_array().unwrap();
        let of = |key: &str| -> Vec<Option<u64>> { streams.iter().map(|it| it[key].as_u64()).collect() };
        assert_eq!(of("sent"), [500, 200, 200, 200].map(Some), "{sent}");
        assert_eq!(of("shortfall"), [Some(0); 4], "{sent}");
        assert_eq!((&load["intended"], &load["offered_pps"]), (&1100.into(), &7000.0.into()), "{sent}");
        assert_eq!(sent["ports"][0]["sent"], 1100, "{sent}");
        let rows = load["cores"].as_array().map_or(0, Vec::len);
        assert_eq!(rows, if cores == "1" { 0 } else { 2 }, "{sent}");
        let counted = document(&counter.wait_with_output().unwrap());
        let all = counted["streams"].as_array().unwrap();
        let fate = |it: &Value| ["stream", "received", "lost"].map(|key| it[key].as_u64().unwrap());
        let fates: Vec<_> = all.iter().map(fate).collect();
        assert_eq!(fates, [[0, 500, 0], [1, 200, 0], [2, 200, 0], [3, 200, 0]], "{counted}");
    }
}

/// `kpps send` refuses streams of other ports, and options that have no effect, with the reason.
#[test]
fn send_refuses_streams_of_other_ports() {
    let Some(net) = Net::bridge() else { return };
    let folder = tempfile::tempdir().unwrap();
    let file = file(folder.path(), STREAMS);
    let file = file.to_str().unwrap();
    let own = folder.path().join("own.toml");
    std::fs::write(&own, "[[stream]]\nload = \"1kpps\"\n").unwrap();
    let own = own.to_str().unwrap();
    let socket = net.kpps(&["send", "udp:127.0.0.1:9", "--streams", own]);
    let why = String::from_utf8_lossy(&socket.stderr);
    assert!(socket.status.code() == Some(2) && why.contains("udp:127.0.0.1:9 cannot send several"), "{why}");
    for (words, said) in [
        (&["--streams", file][..], "is from port 2, and `kpps send` has one port"),
        (&["--streams", file, "--size", "128"], "cannot be used with"),
        (&["--streams", file, "--count", "7"], "cannot be used with"),
        (&["--cores", "2"], "cores take flows in turn, and there are 1"),
        (&["--cores", "0"], "give a number of cores"),
    ] {
        let output = net.kpps(&[&["send", "packet:a"], words].concat());
        let why = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(2) && why.contains(said), "{words:?}: {why}");
    }
}
