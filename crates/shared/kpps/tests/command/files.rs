//! Files after failures: no result is lost, neither an old one nor a new one.

use kpps_methods::journal::Journal;
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

const CURVE: &str = "curve --testbed known:700kpps --load 100kpps..1Mpps/100kpps --duration 10ms";

fn kpps(folder: &Path, words: &str) -> Output {
    let mut command = Command::new(assert_cmd::cargo::cargo_bin("kpps"));
    command.current_dir(folder).args(words.split(' ')).output().unwrap()
}

/// kpps on a disk that accepts at most `blocks` blocks of each file; a block has 512 or 1024 bytes.
fn with_little_space(folder: &Path, blocks: u32, words: &str) -> Output {
    let kpps = assert_cmd::cargo::cargo_bin("kpps");
    let script = format!("trap '' XFSZ; ulimit -f {blocks}; exec '{}' {words}", kpps.display());
    Command::new("sh").current_dir(folder).args(["-c", &script]).output().unwrap()
}

fn said(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

fn document(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {}", said(output)))
}

fn names(folder: &Path) -> Vec<String> {
    let names = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<_> = names.collect();
    names.sort();
    names
}

/// Starts kpps, waits until it handles Ctrl-C, and interrupts it as Ctrl-C would.
fn interrupted(folder: &Path, words: &str) -> Output {
    signalled(folder, words, "-INT")
}

/// Starts kpps and sends it a signal.
fn signalled(folder: &Path, words: &str, signal: &str) -> Output {
    // The tests may run with hang-ups ignored (nohup).
    let child = Command::new("env")
        .current_dir(folder)
        .arg("--default-signal")
        .arg(assert_cmd::cargo::cargo_bin("kpps"))
        .args(words.split(' '))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let status = format!("/proc/{}/status", child.id());
    let is_watching = || {
        let status = fs::read_to_string(&status).unwrap();
        let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:")).unwrap();
        u64::from_str_radix(caught.trim(), 16).unwrap() & 1 << (2 - 1) != 0
    };
    let end = Instant::now() + Duration::from_secs(60);
    while !is_watching() {
        assert!(Instant::now() < end, "{words}: it does not watch for Ctrl-C");
        std::thread::sleep(Duration::from_millis(2));
    }
    std::thread::sleep(Duration::from_millis(50));
    kpps_namespaces::signal(&child, signal);
    child.wait_with_output().unwrap()
}

/// kpps keeps its measurements at every signal by which users and shells end programs.
#[test]
fn whatever_ends_it_what_was_measured_is_kept() {
    let folder = tempfile::tempdir().unwrap();
    for signal in ["-INT", "-QUIT", "-TERM", "-HUP", "-XCPU"] {
        let words = "curve --driver kpps --load 100% --duration 10min --json";
        let output = signalled(folder.path(), words, signal);
        assert_eq!(output.status.code(), Some(130), "{signal}: {output:?}");
        assert_eq!(document(&output)["complete"], false, "{signal}");
    }
}

/// kpps fails if its standard output is closed, or open for reading only, as other programs do.
#[test]
fn an_output_that_takes_nothing_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let kpps = assert_cmd::cargo::cargo_bin("kpps");
    let run = |words: &str, redirections: &str| {
        let line = format!("exec {} {words} {redirections}", kpps.display());
        Command::new("sh").current_dir(folder.path()).args(["-c", &line]).output().unwrap()
    };
    for redirections in [">&-", "1</dev/null", "<&- >&-", ">/dev/full"] {
        for words in [
            format!("{CURVE} --json"),
            format!("{CURVE} --csv -"),
            "schema".into(),
            "--help".into(),
            "curve -h".into(),
            "--version".into(),
        ] {
            let output = run(&words, redirections);
            assert!(!output.status.success(), "{words} {redirections}: {output:?}");
            let said = said(&output);
            assert!(
                said.contains("cannot write to standard output: ") && said.lines().count() == 1,
                "{said}"
            );
        }
    }
    // Output for a person may have files beside it.
    let output = run(&format!("{CURVE} --results file.json"), ">&-");
    assert!(output.status.code() == Some(1) && folder.path().join("file.json").exists(), "{output:?}");
    for redirections in [">/dev/null", "<&- >/dev/null", "<>/dev/null >&0", "2>&-"] {
        assert!(run(&format!("{CURVE} --json"), redirections).status.success(), "{redirections}");
    }
}

#[test]
fn a_result_that_no_file_takes_is_printed() {
    let folder = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink("/dev/full", folder.path().join("page.html")).unwrap();
    for flag in ["results /dev/full", "csv /dev/full", "report /dev/full", "report page.html"] {
        for json in ["", " --json"] {
            let output = kpps(folder.path(), &format!("{CURVE} --{flag}{json}"));
            let (_, path) = flag.split_once(' ').unwrap();
            assert_eq!((output.status.code(), said(&output).lines().count()), (Some(1), 1), "{output:?}");
            assert!(said(&output).contains(&format!("cannot write {path}: No space left")), "{output:?}");
            let printed = String::from_utf8_lossy(&output.stdout);
            assert!(printed.contains("1000.0") || printed.contains("1000000"), "{flag}: {printed}");
            assert!(!printed.contains("written"), "{printed}");
        }
    }
    // The files that can be written are written.
    let output = kpps(folder.path(), &format!("{CURVE} --results /dev/full --csv curve.csv"));
    assert_eq!((output.status.code(), names(folder.path()).contains(&"curve.csv".into())), (Some(1), true));
    assert!(String::from_utf8_lossy(&output.stdout).ends_with("\nwritten: curve.csv\n"), "{output:?}");
    let output = kpps(folder.path(), "trace --duration 1ms --pcap /dev/full --json");
    assert_eq!((output.status.code(), &document(&output)["kind"]), (Some(1), &"trace".into()));
}

#[test]
fn a_full_disk_leaves_the_old_file() {
    let folder = tempfile::tempdir().unwrap();
    for file in ["results.json", "curve.html"] {
        fs::write(folder.path().join(file), "years of work").unwrap();
    }
    let words = format!("{CURVE} --results results.json --report curve.html --json");
    let output = with_little_space(folder.path(), 2, &words);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(said(&output).contains("cannot write results.json") && said(&output).contains("make room"));
    assert_eq!(document(&output)["series"][0]["points"].as_array().unwrap().len(), 10);
    for file in names(folder.path()) {
        assert_eq!(fs::read_to_string(folder.path().join(&file)).unwrap(), "years of work", "{file}");
    }
    assert_eq!(names(folder.path()), ["curve.html", "results.json"]);
}

#[test]
fn devices_are_written() {
    let folder = tempfile::tempdir().unwrap();
    for flag in ["results", "csv", "report"] {
        let output = kpps(folder.path(), &format!("{CURVE} --{flag} /dev/null"));
        assert!(output.status.success(), "{flag}: {output:?}");
    }
    // Standard output in a file: printed text and written documents follow each other.
    let out = fs::File::create(folder.path().join("out")).unwrap();
    let words = format!("{CURVE} --results /dev/stdout");
    let mut command = Command::new(assert_cmd::cargo::cargo_bin("kpps"));
    assert!(command.args(words.split(' ')).stdout(out).status().unwrap().success());
    let text = fs::read_to_string(folder.path().join("out")).unwrap();
    let (screen, rest) = text.split_once("\n{").unwrap();
    assert!(screen.contains("kpps") && rest.ends_with("}\nwritten: /dev/stdout\n"), "{text}");
    assert_eq!(names(folder.path()), ["out"]);
}

#[test]
fn an_empty_result_replaces_nothing() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("results.json"), "years of work").unwrap();
    let words =
        "curve --driver kpps --load 100% --duration 10min --json --results results.json --csv new.csv";
    let output = interrupted(folder.path(), words);
    assert_eq!(output.status.code(), Some(130), "{output:?}");
    assert_eq!(document(&output)["complete"], false);
    let said = said(&output);
    assert!(said.contains("results.json is left as it was: nothing was measured"), "{said}");
    assert!(said.contains("interrupted: 0 of 1 points measured\n"), "nothing is kept there: {said}");
    assert_eq!(fs::read_to_string(folder.path().join("results.json")).unwrap(), "years of work");
    assert_eq!(names(folder.path()), ["results.json"]);
}

#[test]
fn a_journal_on_a_full_disk_loses_no_result() {
    for (words, results) in [
        (CURVE, "/series/0/points"),
        ("grid --testbed known:700kpps --vary load=100kpps..1Mpps/100kpps --duration 10ms", "/cells"),
        ("ndr --testbed known:700kpps", "/trials"),
        ("study --claim M2,M4,R2", "/claims"),
        ("transmit --duration 1ms", "/rows"),
        ("scale --duration 1ms", "/rows"),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let little = match words.split(' ').next().unwrap() {
            "study" => 0,
            // The journal of this command has 1,503 bytes.
            "transmit" => 2,
            _ => 3,
        };
        let words = format!("{words} --json --resume kept");
        let output = with_little_space(folder.path(), little, &words);
        assert_eq!(output.status.code(), Some(1), "{words}: {output:?}");
        assert!(said(&output).contains("cannot write kept: "), "{words}: {output:?}");
        let document = document(&output);
        assert_eq!(document["complete"], true, "{words}");
        let found = document.pointer(results).unwrap().as_array().unwrap().len();
        // With space on the disk again, kpps finds the kept results and measures the rest.
        let again = kpps(folder.path(), &words);
        assert!(again.status.success(), "{words}: {again:?}");
        let whole = fs::read_to_string(folder.path().join("kept")).unwrap();
        assert!(whole.ends_with('\n') && whole.lines().count() >= found.min(3), "{words}: {whole}");
    }
}

#[test]
fn a_journal_has_one_writer() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("kept");
    let journal = Journal::<Value>::open(&path).unwrap();
    let output = kpps(folder.path(), &format!("{CURVE} --resume kept"));
    assert_eq!((output.status.code(), said(&output).lines().count()), (Some(2), 1), "{output:?}");
    let holder = format!("kept is in use by process {}", std::process::id());
    assert!(said(&output).contains(&holder), "{output:?}");
    drop(journal);
    assert!(kpps(folder.path(), &format!("{CURVE} --resume kept")).status.success());
}
