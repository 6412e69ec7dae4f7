//! The live view on a terminal: what it shows, how it ends, and that the terminal is as it was.

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};
use std::fs::File;
use std::io::{Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// The longest wait for anything on a machine under load.
const SCREEN_TIMEOUT: Duration = Duration::from_secs(300);

/// kpps on a terminal of 80 columns and 24 rows.
struct Terminal {
    child: std::process::Child,
    keys: File,
    screen: Arc<Mutex<vt100::Parser>>,
    /// Whether the reader is to end and let go of the terminal.
    closes: Arc<AtomicBool>,
    reader: JoinHandle<Vec<u8>>,
}

impl Terminal {
    fn start(words: &[&str], set: &[(&str, &str)]) -> Self {
        let pty = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
        grantpt(&pty).unwrap();
        unlockpt(&pty).unwrap();
        tcsetwinsize(&pty, Winsize { ws_row: 24, ws_col: 80, ws_xpixel: 0, ws_ypixel: 0 }).unwrap();
        let name = ptsname(&pty, Vec::new()).unwrap().into_string().unwrap();
        // Not this process's own terminal.
        let user = File::options()
            .read(true)
            .write(true)
            .custom_flags(OpenptFlags::NOCTTY.bits().cast_signed())
            .open(name)
            .unwrap();
        let end = || Stdio::from(user.try_clone().unwrap());
        // In a session of its own, whose terminal this is and not ours.
        let child = Command::new("setsid")
            // Whoever runs the tests may ignore hang-ups.
            .args(["--ctty", "env", "--default-signal=HUP"])
            .arg(assert_cmd::cargo::cargo_bin("kpps"))
            .args(words)
            .env("TERM", "xterm-256color")
            .env_remove("NO_COLOR")
            .envs(set.iter().copied())
            .stdin(end())
            .stdout(end())
            .stderr(end())
            .spawn()
            .unwrap();
        drop(user);
        let keys = File::from(pty);
        let mut output = keys.try_clone().unwrap();
        let screen = Arc::new(Mutex::new(vt100::Parser::new(24, 80, 200)));
        let closes = Arc::new(AtomicBool::new(false));
        let (shown, is_closed) = (screen.clone(), closes.clone());
        let reader = std::thread::spawn(move || {
            let (mut all, mut bytes) = (Vec::new(), [0; 4096]);
            // The other side is closed when the command has ended: that reads as an error.
            while let Ok(count @ 1..) = output.read(&mut bytes) {
                shown.lock().unwrap().process(&bytes[..count]);
                all.extend_from_slice(&bytes[..count]);
                if is_closed.load(Ordering::Relaxed) {
                    break;
                }
            }
            all
        });
        Self { child, keys, screen, closes, reader }
    }

    fn waits_for(&self, what: &str, wanted: impl Fn(&vt100::Screen) -> bool) {
        let end = Instant::now() + SCREEN_TIMEOUT;
        loop {
            let parser = self.screen.lock().unwrap();
            if wanted(parser.screen()) {
                return;
            }
            let contents = parser.screen().contents();
            drop(parser);
            assert!(Instant::now() < end, "no {what}: {contents}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Waits until the command catches the signal of a closed terminal, the first in proc_pid(5)'s set.
    fn waits_for_hang_up_to_be_caught(&self) {
        let file = format!("/proc/{}/status", self.child.id());
        let end = Instant::now() + SCREEN_TIMEOUT;
        let catches = || {
            let status = std::fs::read_to_string(&file).unwrap();
            let set = status.lines().find_map(|line| line.strip_prefix("SigCgt:")).unwrap();
            u64::from_str_radix(set.trim(), 16).unwrap() & 1 != 0
        };
        while !catches() {
            assert!(Instant::now() < end, "it does not begin");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn press(&mut self, keys: &[u8]) {
        self.keys.write_all(keys).unwrap();
    }

    /// Closes the terminal, as the end of a connection does, and waits for the command's end. Returns its
    /// exit code.
    fn hang_up(self) -> Option<i32> {
        let Self { mut child, keys, closes, reader, .. } = self;
        closes.store(true, Ordering::Relaxed);
        drop(keys);
        reader.join().unwrap();
        // The shell of a closed terminal sends the signal, too.
        let pid = rustix::process::Pid::from_child(&child);
        rustix::process::kill_process(pid, rustix::process::Signal::HUP).unwrap();
        ended(&mut child).expect("it does not end").code()
    }

    /// Waits for the command's end. The terminal must be as it was then; returns the exit code, the screen's
    /// last contents and all that was written.
    fn end(mut self) -> (Option<i32>, String, Vec<u8>) {
        let Some(status) = ended(&mut self.child) else {
            panic!("it does not end: {}", self.screen.lock().unwrap().screen().contents());
        };
        let all = self.reader.join().unwrap();
        let parser = self.screen.lock().unwrap();
        let screen = parser.screen();
        assert!(!screen.alternate_screen() && !screen.hide_cursor(), "{}", screen.contents());
        (status.code(), screen.contents(), all)
    }
}

/// Waits for the end of a command; `None` if it does not come. Then the command is killed.
fn ended(child: &mut std::process::Child) -> Option<std::process::ExitStatus> {
    let end = Instant::now() + SCREEN_TIMEOUT;
    loop {
        match child.try_wait().unwrap() {
            Some(status) => return Some(status),
            None if Instant::now() > end => {
                child.kill().unwrap();
                return None;
            }
            None => std::thread::sleep(Duration::from_millis(20)),
        }
    }
}

/// The bytes that take the whole screen.
fn takes_screen(all: &[u8]) -> bool {
    all.windows(8).any(|bytes| bytes == b"\x1b[?1049h")
}

/// A search that would take hours of this machine's time.
const LONG: [&str; 7] = ["ndr", "--duration", "60s", "--max-time", "1h", "--precision", "0.01%"];

#[test]
fn a_run_shows_how_it_goes_and_leaves_the_screen_as_it_was() {
    let here = tempfile::tempdir().unwrap();
    let results = here.path().join("results.json");
    let report = here.path().join("report.html");
    let files = ["--results", results.to_str().unwrap(), "--report", report.to_str().unwrap()];
    let words = ["curve", "--live", "--driver", "kpps,click-polling", "--duration", "200ms"];
    let terminal = Terminal::start(&[&words[..], &files].concat(), &[]);
    terminal.waits_for("view", |screen| {
        screen.alternate_screen() && screen.hide_cursor() && screen.contents().contains("kpps curve")
    });
    terminal.waits_for("trial in the view", |screen| screen.contents().contains("of 30 done"));
    let (code, screen, all) = terminal.end();
    assert_eq!(code, Some(0), "{screen}");
    assert!(screen.contains("30 trials in") && screen.contains("report.html"), "{screen}");
    assert!(takes_screen(&all) && results.exists());
}

/// A closed window or a lost connection ends the run, too, and the measurements are kept.
#[test]
fn a_closed_terminal_ends_the_run_and_keeps_what_was_measured() {
    let here = tempfile::tempdir().unwrap();
    for live in ["--live", "--no-live"] {
        let (results, kept) = (here.path().join(live), here.path().join(format!("kept{live}")));
        let words = ["curve", live, "--driver", "kpps,click-polling", "--duration", "1s", "--results"];
        let files = [results.to_str().unwrap(), "--resume", kept.to_str().unwrap()];
        let terminal = Terminal::start(&[&words[..], &files].concat(), &[]);
        if live == "--live" {
            terminal.waits_for("trial in the view", |screen| screen.contents().contains("of 30 done"));
        } else {
            terminal.waits_for_hang_up_to_be_caught();
        }
        let end = Instant::now() + Duration::from_secs(60);
        while !std::fs::read(&kept).is_ok_and(|text| text.contains(&b'\n')) {
            assert!(Instant::now() < end, "nothing is measured");
            std::thread::sleep(Duration::from_millis(5));
        }
        // Its output can no longer be written.
        assert_eq!(terminal.hang_up(), Some(1), "{live}");
        let curve: serde_json::Value = serde_json::from_slice(&std::fs::read(&results).unwrap()).unwrap();
        assert_eq!(curve["complete"], false, "{curve}");
    }
}

/// Under `nohup` a command outlives its terminal.
#[test]
fn a_hang_up_that_is_ignored_does_not_end_the_run() {
    let here = tempfile::tempdir().unwrap();
    let kept = here.path().join("kept");
    let mut child = Command::new("env")
        .arg("--ignore-signal=HUP")
        .arg(assert_cmd::cargo::cargo_bin("kpps"))
        .args(["curve", "--driver", "kpps,click-polling", "--duration", "200ms", "--resume"])
        .arg(&kept)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let end = Instant::now() + SCREEN_TIMEOUT;
    while !std::fs::read(&kept).is_ok_and(|text| text.contains(&b'\n')) {
        assert!(Instant::now() < end, "nothing is measured");
        std::thread::sleep(Duration::from_millis(5));
    }
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::HUP).unwrap();
    assert_eq!(ended(&mut child).expect("it does not end").code(), Some(0));
}

#[test]
fn a_key_ends_the_run_and_keeps_what_was_measured() {
    for key in [b"q", b"\x03"] {
        let mut terminal = Terminal::start(&[&LONG[..], &["--live"]].concat(), &[]);
        terminal.waits_for("view", |screen| screen.contents().contains("q ends the run"));
        terminal.press(key);
        let (code, screen, _) = terminal.end();
        assert_eq!(code, Some(130), "{screen}");
        assert!(screen.contains("kpps: interrupted") && screen.contains("not finished"), "{screen}");
    }
}

/// The load of a trial between two ports is changed by keys, and the result says when and to what.
#[test]
fn keys_change_the_load_of_a_running_trial() {
    let Some(net) = kpps_namespaces::Net::with_bridge() else { return };
    net.enter();
    let here = tempfile::tempdir().unwrap();
    let results = here.path().join("results.json");
    let words = [
        "trial",
        "--ports",
        "packet:a,packet:b",
        "--load",
        "2kpps",
        "--duration",
        "1h",
        "--live",
        "--results",
    ];
    let mut terminal = Terminal::start(&[&words[..], &[results.to_str().unwrap()]].concat(), &[]);
    let says = |terminal: &Terminal, what: &str| {
        terminal.waits_for(what, |screen| screen.contents().contains(what));
    };
    says(&terminal, "+ and - change the load");
    // A load that is changed before the first frame is no change in the result.
    terminal.waits_for("sent frames", |screen| {
        let is_sent =
            |line: &str| line.starts_with("sent ") && line.contains(" kpps") && !line.contains(" 0.0 ");
        screen.contents().lines().any(is_sent)
    });
    terminal.press(b"+");
    says(&terminal, "2.2 kpps from now on");
    // Shown as the offered load, too.
    terminal.waits_for("offered load", |screen| {
        screen.contents().lines().any(|line| line.starts_with("offered ") && line.contains(" 2.2 kpps"))
    });
    terminal.press(b"4kp");
    says(&terminal, "load: 4kp");
    terminal.press(b"ps\r");
    says(&terminal, "4.0 kpps from now on");
    terminal.press(b"99kbps\r");
    says(&terminal, "'99kbps' is not a load");
    terminal.press(b"q");
    let (code, screen, _) = terminal.end();
    assert_eq!(code, Some(130), "{screen}");
    let trial: serde_json::Value = serde_json::from_slice(&std::fs::read(&results).unwrap()).unwrap();
    let way = &trial["directions"][0];
    let changes = way["rate_changes"].as_array().unwrap();
    let rates: Vec<_> = changes.iter().map(|change| change["offered_pps"].as_f64().unwrap()).collect();
    assert_eq!(trial["load_pps"].as_f64(), Some(2000.0), "{way}");
    // A sender that gets no CPU between the two changes takes notice of the second one.
    assert!(rates == [2200.0, 4000.0] || rates == [4000.0], "{way}");
    let mean = way["intended"].as_f64().unwrap() / trial["seconds"].as_f64().unwrap();
    let offered = trial["offered_pps"].as_f64().unwrap();
    assert!((offered / mean - 1.0).abs() < 0.01 && offered > 2000.0 && offered < 4000.0, "{trial}");
}

#[test]
fn a_killed_run_leaves_the_screen_as_it_was() {
    let terminal = Terminal::start(&[&LONG[..], &["--live"]].concat(), &[]);
    terminal.waits_for("view", |screen| screen.contents().contains("q ends the run"));
    let pid = terminal.child.id().to_string();
    assert!(Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());

    let (code, screen, _) = terminal.end();
    assert_eq!(code, Some(130), "{screen}");
}

#[test]
fn a_short_run_and_one_for_machines_have_no_view() {
    let short = ["ndr", "--testbed", "known:700kpps"];
    let long = ["ndr", "--duration", "5s", "--max-time", "5s", "--json"];
    for (words, set) in [(&short[..], ("X", "")), (&long[..], ("X", "")), (&short[..], ("TERM", "dumb"))] {
        let begin = Instant::now();
        let (_, screen, all) = Terminal::start(words, &[set]).end();
        // On a busy host even a short run may take long enough to be shown.
        let is_long = words == short && begin.elapsed() >= Duration::from_secs(2);
        assert!(is_long || !takes_screen(&all), "{words:?} {set:?}: {screen}");
    }
    // Nobody looks: not a byte is written but the results.
    let kpps = |words: &[&str]| -> Output {
        Command::new(assert_cmd::cargo::cargo_bin("kpps")).args(words).output().unwrap()
    };
    let output = kpps(&short);
    assert!(output.status.success() && output.stderr.is_empty() && !output.stdout.contains(&0x1b));
    let output = kpps(&["ndr", "--testbed", "known:700kpps", "--live"]);
    let message = String::from_utf8(output.stderr).unwrap();
    assert_eq!((output.status.code(), message.lines().count()), (Some(2), 1), "{message}");
    assert!(message.contains("--live draws on standard error"), "{message}");
}
