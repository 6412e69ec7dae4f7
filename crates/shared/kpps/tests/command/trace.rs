//! `kpps trace` as a user meets it.

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
    for says in [
        "enough descriptors for",
        "then frames wait for descriptors",
        "rx-write-back |",
        "tail-write |",
        "1000 sent",
    ] {
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

/// After the trace Ctrl-C is no longer polled: its document must not take longer than the trace.
#[test]
#[cfg(unix)]
fn a_trace_of_four_times_the_time_takes_about_four_times_the_work() {
    let kpps = assert_cmd::cargo::cargo_bin("kpps");
    let cpu_s = |duration: &str| {
        let script = format!("'{}' trace --duration {duration} >/dev/null && times", kpps.display());
        let output = std::process::Command::new("sh").args(["-c", &script]).output().unwrap();
        let said = String::from_utf8(output.stdout).unwrap();
        // The second line is of the children: 0m1.23s in user space, and in the kernel.
        let user = said.lines().nth(1).and_then(|line| line.split(' ').next()).unwrap();
        let (minutes, seconds) = user.trim_end_matches('s').split_once('m').unwrap();
        60.0 * minutes.parse::<f64>().unwrap() + seconds.parse::<f64>().unwrap()
    };
    let (one, four) = (cpu_s("400ms"), cpu_s("1600ms"));
    assert!(four < 10.0 * one, "{one} s and {four} s of CPU time");
}

#[test]
#[cfg(target_os = "linux")]
fn one_interrupt_ends_a_long_trace() {
    use std::process::{Command, Stdio};
    let mut command = Command::new(assert_cmd::cargo::cargo_bin("kpps"));
    command.args(["trace", "--duration", "10s"]).stdout(Stdio::null()).stderr(Stdio::piped());
    let process = command.spawn().unwrap();
    // Until it handles the signal (SIGINT is the second one), it would just end.
    let handles = || {
        let status = std::fs::read_to_string(format!("/proc/{}/status", process.id())).unwrap();
        let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:")).unwrap();
        u64::from_str_radix(caught.trim(), 16).unwrap() & 2 != 0
    };
    while !handles() {
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    let sent = Command::new("kill").args(["-INT", &process.id().to_string()]).status().unwrap();
    let output = process.wait_with_output().unwrap();
    assert!(sent.success());
    assert_eq!(output.status.code(), Some(130), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn what_cannot_be_watched_is_said_in_one_line() {
    let directory = tempfile::tempdir().unwrap();
    for (arguments, says) in [
        (&["--machine", "morris2000"][..], "Linux 2.4 or 2.6"),
        (&["--load", "2Mpps"][..], "line rate"),
        (&["--cards", "9"][..], "1 to 8"),
        (&["--window", "9..3"][..], "FROM..TO"),
        (&["--set", "bus.colour=1"][..], "colour"),
        (&["--spacing", "soon"][..], "spacing"),
        (&["--csv", "no/where.csv"][..], "no/where.csv"),
    ] {
        let output = trace(&directory, arguments);
        let error = String::from_utf8(output.stderr).unwrap();
        assert!(!output.status.success() && error.contains(says), "{arguments:?}: {error}");
        assert_eq!(error.trim_end().lines().count(), 1, "{error}");
    }
}

fn profile(arguments: &[&str]) -> serde_json::Value {
    let mut command = Command::cargo_bin("kpps").unwrap();
    let output = command.args(["profile", "--duration", "10ms", "--json"]).args(arguments).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn a_profile_tells_where_the_time_goes_and_what_a_frame_costs() {
    let each = |document: &serde_json::Value, name: &str| document["per_frame"][name].as_f64().unwrap();
    let stock = profile(&["--load", "300kpps", "--driver", "linux-2.6.12-e1000"]);
    let recycled = profile(&["--load", "300kpps", "--driver", "rdr"]);
    let shares = stock["functions"].as_array().unwrap().iter().map(|row| row["share"].as_f64().unwrap());
    assert!((shares.sum::<f64>() - 1.0).abs() < 1e-3, "all of the time: {stock}");
    let first: Vec<_> = (0..3).map(|k| stock["functions"][k]["function"].as_str().unwrap()).collect();
    assert!(first.contains(&"allocate a buffer") && first[0] == "free a buffer", "{first:?}");
    assert!((each(&stock, "allocations") - 1.0).abs() < 0.05, "{stock}");
    assert_eq!(each(&recycled, "allocations"), 0.0);
    // The misses of frame and descriptor, which the card has written. The allocator's lines are in the cache:
    // a buffer that was freed just now is taken first.
    assert!(
        (each(&stock, "cache_misses") - each(&recycled, "cache_misses")).abs() < 0.1,
        "{stock} {recycled}"
    );
    assert!((1.0..1.5).contains(&each(&stock, "cache_misses")), "{stock}");
    // A frame crosses the bus, and at this pace each descriptor goes back alone; they come in bursts. Few
    // registers.
    assert!((2.0..2.5).contains(&each(&stock, "bus_transactions")), "{stock}");
    for name in ["interrupts", "register_reads", "register_writes"] {
        assert!(each(&stock, name) > 0.0 && each(&stock, name) < 2.0, "{name}: {stock}");
    }
    let bridged = profile(&["--app", "bridge", "--machine", "lunz2003", "--load", "100kpps"]);
    assert!(each(&bridged, "bus_transactions") > 2.0, "in and out: {bridged}");
}
