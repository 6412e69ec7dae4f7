//! `kpps scale` as a user meets it.

use assert_cmd::Command;
use serde_json::Value;

fn kpps(arguments: &[&str]) -> std::process::Output {
    Command::cargo_bin("kpps").unwrap().arg("scale").args(arguments).output().unwrap()
}

fn json(arguments: &[&str]) -> Value {
    let output = kpps(&[arguments, &["--json", "--duration", "10ms"]].concat());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn it_says_where_more_cpus_bring_nothing_and_why() {
    let wire = json(&["--cpu-counts", "1,2,4"]);
    assert_eq!((&wire["stops_at_cpus"], &wire["rows"][2]["stopped_by"]), (&2.into(), &"the wire".into()));
    assert_eq!(wire["rows"][0]["stopped_by"], "the CPUs");
    assert!(wire["summary"].as_str().unwrap().contains("More than 2 CPUs do not raise the rate"));
    let on = json(&["--cpu-counts", "1,2", "--nic", "82598", "--load", "2000kpps"]);
    assert_eq!(on["rows"].as_array().unwrap().len(), 2);
    let slow = json(&["--cpu-counts", "1,8", "--set", "nic.rx_engine_ps=5_000_000"]);
    assert_eq!(slow["summary"], "More than one CPU does not raise the rate: the limit is the card.");
    let text = String::from_utf8(kpps(&["--cpu-counts", "1", "--duration", "1ms"]).stdout).unwrap();
    assert!(text.contains("Only one CPU was tried") && text.contains("82576 on pcie-x4"), "{text}");
}

#[test]
fn bad_input_is_one_clear_line_and_exit_code_2() {
    for (arguments, says) in [
        (&["--cpu-counts", "9"][..], "1 to 8"),
        (&["--cpu-counts", "0"], "no list of numbers above 0"),
        (&["--cpu-counts", "many"], "no list of numbers above 0"),
        (&["--nic", "8139"], "known are 82576"),
        (&["--machine", "evans2005-xp"], "Linux 2.4 or 2.6"),
        (&["--machine", "morris2000"], "no rate-limited NIC"),
        (&["--set", "nic.rx_queues=99"], "rx_queues"),
        (&["--set", "nic.colour=1"], "colour"),
        (&["--load", "110%"], "line rate"),
        (&["--size", "9018"], "2048"),
        (&["--flows", "0"], "0"),
    ] {
        let output = kpps(arguments);
        let message = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {message}");
        assert!(message.contains(says), "{arguments:?} says: {message}");
        assert_eq!(message.trim_end().lines().count(), 1, "{arguments:?}: {message}");
    }
}

/// Measurements are found again, an interrupted run reports its results so far, and the end equals the end of
/// a run that was not interrupted.
#[cfg(unix)]
#[test]
fn an_interrupted_run_is_resumed() {
    for (words, what) in [
        (&["scale", "--json", "--duration", "10ms"][..], "of 8 trials measured"),
        (&["transmit", "--json", "--duration", "50ms"], "of 4 drivers measured"),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let interrupted = crate::interrupt_after_a_measurement(folder.path(), words);
        let said = String::from_utf8(interrupted.stderr).unwrap();
        assert_eq!(interrupted.status.code(), Some(130), "{said}");
        assert!(said.contains(what) && said.contains("resumes from kept"), "{said}");
        let part: Value = serde_json::from_slice(&interrupted.stdout).unwrap();
        assert_eq!(part["complete"], false);
        let kept = crate::kept(&folder.path().join("kept")).len();
        assert_eq!(part["rows"].as_array().unwrap().len(), kept);
        let run = |more: &[&str]| {
            let mut command = Command::cargo_bin("kpps").unwrap();
            let output = command.current_dir(folder.path()).args(words).args(more).output().unwrap();
            assert!(output.status.success(), "{output:?}");
            output.stdout
        };
        let whole = run(&[]);
        assert_eq!(run(&["--resume", "kept"]), whole, "the same bytes");
        assert_eq!(run(&["--resume", "kept"]), whole);
        let lines = crate::kept(&folder.path().join("kept")).len();
        let rows = serde_json::from_slice::<Value>(&whole).unwrap()["rows"].as_array().unwrap().len();
        assert_eq!(lines, rows, "each is measured once");
    }
}
