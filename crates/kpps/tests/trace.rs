//! `kpps trace` as a user meets it.
#![allow(clippy::unwrap_used)]

use assert_cmd::Command;

fn trace(directory: &tempfile::TempDir, arguments: &[&str]) -> std::process::Output {
    let mut command = Command::cargo_bin("kpps").unwrap();
    command.current_dir(directory).arg("trace").args(arguments).output().unwrap()
}

#[test]
fn both_regimes_are_told_and_drawn_and_the_files_hold_what_was_seen() {
    let directory = tempfile::tempdir().unwrap();
    let files = ["--csv", "bus.csv", "--timeline", "registers.csv", "--pcap", "wire.pcap"];
    let output = trace(&directory, &[&["--duration", "1ms", "--group", "4"], &files[..]].concat());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    for says in ["smooth for", "then it stumbles", "rx-write-back |", "tail-write |", "1000 sent"] {
        assert!(text.contains(says), "{says} is missing:\n{text}");
    }
    let read = |name: &str| std::fs::read(directory.path().join(name)).unwrap();
    let bus = String::from_utf8(read("bus.csv")).unwrap();
    assert!(bus.starts_with("clock,clocks,master,what,address,bytes,cut\n"));
    assert!(bus.lines().filter(|line| line.contains("rx-data")).count() > 500);
    assert!(String::from_utf8(read("registers.csv")).unwrap().contains("interrupt"));
    // A header of 24 bytes, and 16 beside the 60 of each frame.
    assert_eq!(read("wire.pcap").len(), 24 + 1000 * (16 + 60));
}

#[test]
fn what_cannot_be_watched_is_said_in_one_line() {
    let directory = tempfile::tempdir().unwrap();
    for (arguments, says) in [
        (&["--machine", "morris2000"][..], "Linux 2.4 or 2.6"),
        (&["--load", "2Mpps"][..], "line rate"),
        (&["--ports", "9"][..], "1 to 8"),
        (&["--spacing", "soon"][..], "spacing"),
        (&["--csv", "no/where.csv"][..], "no/where.csv"),
    ] {
        let output = trace(&directory, arguments);
        let error = String::from_utf8(output.stderr).unwrap();
        assert!(!output.status.success() && error.contains(says), "{arguments:?}: {error}");
        assert_eq!(error.trim_end().lines().count(), 1, "{error}");
    }
}
