//! `kpps trial` between more than two ports.

use crate::net::{Net, document, is_short_of_cpu};
use serde_json::Value;
use std::process::Stdio;
use std::time::{Duration, Instant};

const TRIAL: [&str; 5] = ["trial", "--ports", "packet:a,packet:b,packet:c", "--duration", "300ms"];

/// Each of three ports sends to both others; the schema has all directions, and the screen shows them.
#[test]
fn three_ports_are_a_full_mesh() {
    let Some(net) = Net::bridge_of_ports(3) else { return };
    let schema: Value = serde_json::from_slice(&net.kpps(&["schema"]).stdout).unwrap();
    for words in [&[][..], &["--ipv6"], &["--ips", "10.0.0.1,10.0.0.2,10.0.0.3", "--size", "200"]] {
        let words = [&TRIAL[..], &["--load", "2kpps"], words].concat();
        let output = net.kpps(&[&words[..], &["--json"]].concat());
        let trial = document(&output);
        jsonschema::validate(&schema, &trial).unwrap();
        assert!(output.status.success() || is_short_of_cpu(&output), "{trial}");
        let ways = trial["directions"].as_array().unwrap();
        let name = |way: &Value| format!("{} {}", way["from"].as_str().unwrap(), way["to"].as_str().unwrap());
        let names: Vec<_> = ways.iter().map(name).map(|name| name.replace("packet:", "")).collect();
        assert_eq!(names, ["a b", "a c", "b a", "b c", "c a", "c b"]);
        // 2 kpps from each port.
        assert_eq!((&trial["intended"], &trial["load_pps"]), (&1800.into(), &2000.0.into()), "{trial}");
        assert_eq!(trial["ledger"]["unexplained"], 0, "{trial}");
        let traffic = trial["environment"]["traffic"].as_str().unwrap();
        assert!(traffic.contains("a full mesh"), "{traffic}");
        assert_eq!(trial["environment"]["bidirectional"], Value::Null);
    }
    let shown = net.kpps(&[&TRIAL[..], &["--load", "max"]].concat());
    let shown = String::from_utf8_lossy(&shown.stdout).into_owned();
    for said in ["6 directions: ", "  packet:a to packet:b  ", "  packet:c to packet:b  "] {
        assert!(shown.contains(said), "{said}: {shown}");
    }
}

/// A curve and a search have the load of each port, and the frames of all directions.
#[test]
fn a_full_mesh_has_a_curve_and_a_rate() {
    let Some(net) = Net::bridge_of_ports(3) else { return };
    let ports = ["--ports", "packet:a,packet:b,packet:c", "--json", "--max-shortfall", "99%"];
    let words =
        [&["curve", "--load", "1kpps,2kpps", "--duration", "300ms", "--size", "imix-csit"], &ports[..]];
    let curve = document(&net.kpps(&words.concat()));
    assert!(curve["environment"]["traffic"].as_str().unwrap().contains("a full mesh"), "{curve}");
    assert_eq!(curve["environment"]["bidirectional"], Value::Null, "{curve}");
    let points = curve["series"][0]["points"].as_array().unwrap();
    // Three ports for 300 ms.
    let due = |trial: &Value| trial["sent"].as_u64().unwrap() + trial["shortfall"].as_u64().unwrap();
    assert_eq!(points.iter().map(due).collect::<Vec<_>>(), [900, 1800], "{curve}");
    let range = ["ndr", "--min", "1kpps", "--max", "2kpps", "--duration", "200ms", "--size", "100"];
    let output = net.kpps(&[&range[..], &ports].concat());
    let search = document(&output);
    let trials = search["trials"].as_array().unwrap();
    assert!(!trials.is_empty(), "{search}");
    // 1 to 2 kpps from each port.
    let offered = |trial: &Value| trial["offered_pps"].as_f64().unwrap();
    assert!(trials.iter().all(|trial| (2990.0..=6010.0).contains(&offered(trial))), "{search}");
    let goal = &search["goals"][0];
    let rate_pps = goal["lower_pps"].as_f64().or(goal["upper_pps"].as_f64()).unwrap();
    assert!((1000.0..=2000.0).contains(&rate_pps), "{goal}");
}

/// A file says where each stream goes.
#[test]
fn streams_go_where_a_file_says() {
    let Some(net) = Net::bridge_of_ports(3) else { return };
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("streams.toml");
    let words = [&TRIAL[..], &["--streams", path.to_str().unwrap(), "--json"]].concat();
    let text = "[[stream]]\nload = \"1kpps\"\nto = 3\n[[stream]]\nload = \"500pps\"\nfrom = 2\nto = 3\n";
    std::fs::write(&path, text).unwrap();
    let trial = document(&net.kpps(&words));
    let ways = trial["directions"].as_array().unwrap();
    let due: Vec<_> = ways.iter().map(|way| way["intended"].as_u64().unwrap()).collect();
    assert_eq!((due.iter().sum::<u64>(), due.len()), (450, 2), "{trial}");
    std::fs::write(&path, text.replace("to = 3\n", "")).unwrap();
    let output = net.kpps(&words);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("stream 1 (stream 1): to: give 1 to 3, the port that receives"), "{said}");
}

/// The counters of directions and streams are served while a trial runs.
#[test]
fn the_counters_of_streams_are_served() {
    let Some(net) = Net::bridge_of_ports(3) else { return };
    net.run(&["ip", "link", "set", "dev", "lo", "up"]);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("streams.toml");
    let text = "[[stream]]\nname = \"voice\"\nload = \"500pps\"\nto = 2\n[[stream]]\nname = \"bulk\"\nload = \"300pps\"\nfrom = 2\nto = 3\n";
    std::fs::write(&path, text).unwrap();
    let kpps = assert_cmd::cargo::cargo_bin("kpps");
    let ports = ["trial", "--ports", "packet:a,packet:b,packet:c", "--duration", "1h", "--json", "--streams"];
    let words =
        [&[kpps.to_str().unwrap()], &ports[..], &[path.to_str().unwrap(), "--metrics", "127.0.0.1:9464"]];
    let command = net.command(&words.concat()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let value = |said: &str, name: &str| -> u64 {
        let line = said.lines().find(|line| line.starts_with(name));
        line.map_or(0, |line| line.rsplit_once(' ').unwrap().1.parse().unwrap())
    };
    let of = |what: &str, stream: &str, ends: [&str; 2]| {
        let [from, to] = ends;
        format!(
            "kpps_stream_{what}_frames_total{{stream=\"{stream}\",from=\"packet:{from}\",to=\"packet:{to}\"}}"
        )
    };
    let voice = ["sent", "received"].map(|what| of(what, "voice", ["a", "b"]));
    let bulk = ["sent", "received"].map(|what| of(what, "bulk", ["b", "c"]));
    let begun = Instant::now();
    let said = loop {
        let said = net.metrics("127.0.0.1:9464");
        if voice.iter().chain(&bulk).all(|name| value(&said, name) > 50) {
            break said;
        }
        assert!(begun.elapsed() < Duration::from_secs(300), "{said}");
        std::thread::sleep(Duration::from_millis(50));
    };
    for [sent, received] in [&voice, &bulk] {
        assert!(value(&said, sent) >= value(&said, received), "{said}");
    }
    // Between more ports a direction has the frames of its streams, and what is unknown is absent.
    let direction = |what: &str| format!("kpps_{what}_frames_total{{from=\"packet:a\",to=\"packet:b\"}}");
    assert!(value(&said, &direction("received")) > 50 && !said.contains("kpps_lost_frames_total{"), "{said}");
    kpps_namespaces::signal(&command, "-INT");
    let trial = document(&command.wait_with_output().unwrap());
    let way = &trial["directions"][0];
    assert!(way["streams"][0]["sent"].as_u64().unwrap() >= value(&said, &voice[0]), "{trial}");
}

/// An option that only two ports have is refused in one line.
#[test]
fn options_of_two_ports_are_refused() {
    let Some(net) = Net::bridge_of_ports(3) else { return };
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file").display().to_string();
    for (words, said) in [
        (&["--bidirectional"][..], "--bidirectional has no effect"),
        (&["--replies"], "--replies is for two ports, and 3 were given"),
        (&["--from", "h1"], "--from is for two ports"),
        (&["--cores", "2"], "--cores is for two ports"),
        (&["--interval", "100ms"], "--interval is for two ports"),
        (&["--shape", "poisson"], "--shape is for two ports"),
        (&["--capture", &path], "--capture is for two ports"),
        (&["--capture-all", &path], "--capture-all is for two ports"),
        (&["--calibration", &path], "--calibration is for two ports"),
        (&["--src", "10.0.0.1"], "--src is for two ports: give --ips"),
        (&["--flows", "3"], "--flows is for two ports: a file of --streams"),
        (&["--vlan", "7"], "--vlan is for two ports"),
        (&["--dscp", "7"], "--dscp is for two ports"),
        (&["--ips", "10.0.0.1,10.0.0.2"], "--ips: 2 addresses for 3 ports"),
        (&["--ips", "10.0.0.1,10.0.0.2,10.0.0.1"], "--ips: two ports have the address 10.0.0.1"),
        (&["--ips", "10.0.0.1,10.0.0.2,::1"], "--ips: ::1 is of another IP version"),
        (&["--gateway", "10.0.0.1,10.0.0.2,10.0.0.3,10.0.0.4"], "--gateway takes at most 3"),
        (&["--gateway", "::1"], "--gateway: ::1 is of another IP version"),
        (&["--ipv6", "--ips", "10.0.0.1,10.0.0.2,10.0.0.3"], "--ipv6 chooses usual addresses"),
    ] {
        let output = net.kpps(&[&TRIAL[..], &["--load", "1kpps"], words].concat());
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && error.contains(said), "{words:?}: {error}");
        assert_eq!(error.trim_end().lines().count(), 1, "{error}");
    }
    for command in ["rfc2544", "calibrate-host"] {
        let output = net.kpps(&[command, "--ports", "packet:a,packet:b,packet:c"]);
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(error.contains(&format!("`kpps {command}` is for two ports, and 3 were given")), "{error}");
    }
    let many: Vec<_> = (0..17).map(|n| format!("packet:x{n}")).collect();
    let output = net.kpps(&["trial", "--ports", &many.join(","), "--load", "1kpps"]);
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(error.contains("a trial has at most 16 ports, not 17"), "{error}");
    let output = net.kpps(&["trial", "--ports", "packet:a,packet:b", "--load", "1kpps", "--ips", "10.0.0.1"]);
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(error.contains("--ips is for more than two ports"), "{error}");
}
