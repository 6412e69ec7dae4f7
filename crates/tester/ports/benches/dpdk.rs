//! Compares our port of a DPDK device with DPDK's own generator, `dpdk-testpmd` in mode `txonly`, in one run
//! and in turns: 64-byte frames, one core sending, to a device that drops all frames. `make peers`; needs
//! DPDK.
//!
//! Our frames are tagged, with sequence and time; testpmd's are equal. A rate is the number of sent frames
//! for each second of CPU time of the sending thread, so that other programs on the host have little
//! influence. The output is the median of all rounds, with the lowest and the highest ratio. The exit code
//! is 1 if the median is below its limit.
#![allow(clippy::unwrap_used)]

mod shared;

use kpps_frames::build::{Flow, udp_test};
use kpps_frames::rate::Rate;
use kpps_frames::{Size, Templates};
use kpps_ports::port::run::{SendPlan, StreamPlan, send_any};
use kpps_ports::port::{Options, open};
use rustix::process::{Pid, Signal, kill_process};
use rustix::thread::gettid;
use shared::For;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The device. With `no-rx=1` it does not receive, and so costs nothing else.
const DEVICE: &str = "net_null0,no-rx=1";
/// The measured time.
const MEASURED: Duration = Duration::from_secs(1);
/// The least ratio of our rate to that of testpmd.
const LEAST: f64 = 0.9;
/// How long testpmd may take to begin.
const START_TIMEOUT: Duration = Duration::from_secs(20);

/// The processor time that a thread has had.
fn time_of(thread: &str) -> Duration {
    let text = std::fs::read_to_string(format!("{thread}/schedstat")).unwrap_or_default();
    Duration::from_nanos(text.split(' ').next().and_then(|word| word.parse().ok()).unwrap_or(0))
}

/// Million frames for each second of CPU time that our port sends.
fn ours(port: &str) -> f64 {
    let plan = || {
        let frames = Arc::new(Templates::one(&udp_test(&Flow::default(), Size::MIN).unwrap()));
        SendPlan::one(Rate::Max, StreamPlan::of(frames))
    };
    let mut ports = open(&[port.parse().unwrap()], &Options::default()).unwrap();
    let thread = format!("/proc/self/task/{}", gettid().as_raw_nonzero());
    send_any(&mut ports[0], &plan(), &mut For(Some(MEASURED / 10))).unwrap();
    let idle = time_of(&thread);
    let sent = send_any(&mut ports[0], &plan(), &mut For(Some(MEASURED))).unwrap();
    let busy = time_of(&thread).saturating_sub(idle);
    sent.sent as f64 / 1e6 / busy.as_secs_f64()
}

/// The same of testpmd with this device; `None` if there is no testpmd.
fn theirs(device: &str) -> Option<f64> {
    let child = Command::new("dpdk-testpmd")
        .args(["--lcores", "0@0,1@1", "--no-huge", "-m", "512", "--no-pci", "--no-telemetry", "--no-shconf"])
        .args([
            "--file-prefix",
            "kpps-bench",
            "--vdev",
            device,
            "--",
            "--forward-mode=txonly",
            "--auto-start",
        ])
        .args(["--total-num-mbufs=16384", "--no-lsc-interrupt", "--burst=32", "--stats-period", "100"])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn();
    let child = child.ok()?;
    let tasks = format!("/proc/{}/task", child.id());
    let sender = || {
        let threads = std::fs::read_dir(&tasks).into_iter().flatten().flatten().map(|entry| entry.path());
        let path = |path: std::path::PathBuf| path.to_string_lossy().into_owned();
        threads.map(path).find(|thread| {
            let name = std::fs::read_to_string(format!("{thread}/comm")).unwrap_or_default();
            name.contains("worker") && time_of(thread) > MEASURED / 5
        })
    };
    let begin = Instant::now();
    let mut thread = None;
    while thread.is_none() && begin.elapsed() < START_TIMEOUT {
        std::thread::sleep(Duration::from_millis(20));
        thread = sender();
    }
    std::thread::sleep(MEASURED);
    let _ = kill_process(Pid::from_child(&child), Signal::INT);
    // It sends for a moment more. The time of a thread that has ended cannot be read.
    let reader = std::thread::spawn(move || child.wait_with_output());
    let (thread, mut busy) = (thread?, Duration::ZERO);
    while !reader.is_finished() {
        busy = busy.max(time_of(&thread));
        std::thread::sleep(Duration::from_millis(1));
    }
    let said = reader.join().ok()?.ok()?;
    let said = String::from_utf8_lossy(&said.stdout).into_owned();
    // The statistics at the end: `TX-packets: 123    TX-dropped: 0`.
    let sent = said.lines().rev().find_map(|line| {
        line.trim().strip_prefix("TX-packets:")?.split_whitespace().next()?.parse::<f64>().ok()
    });
    Some(sent? / 1e6 / busy.as_secs_f64())
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<_> = values.collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(0.0)
}

fn main() {
    // Without it this is `cargo test`, which only asks whether it builds.
    if !std::env::args().any(|word| word == "--bench") {
        return;
    }
    // `cargo bench` passes flags of its own.
    let rounds = std::env::args().skip(1).find_map(|word| word.parse().ok()).unwrap_or(3);
    if let Err(why) = kpps_dpdk::build() {
        eprintln!("skipped: {why}");
        return;
    }
    println!(
        "{:17} {:>7} {:>10}   {:>6}  lowest  highest   (M frames for each second of CPU time)",
        "device", "ours", "testpmd", "ratio"
    );
    let turns: Vec<_> =
        (0..rounds).filter_map(|_| Some((ours(&format!("dpdk:{DEVICE}")), theirs(DEVICE)?))).collect();
    if turns.is_empty() {
        eprintln!("skipped: there is no dpdk-testpmd");
        return;
    }
    let ratios = turns.iter().map(|(ours, theirs)| ours / theirs);
    let ratio = median(ratios.clone());
    println!(
        "{DEVICE:17} {:>7.1} {:>10.1}   {ratio:>6.2}  {:>6.2}  {:>7.2}{}",
        median(turns.iter().map(|turn| turn.0)),
        median(turns.iter().map(|turn| turn.1)),
        ratios.clone().fold(f64::INFINITY, f64::min),
        ratios.fold(0.0, f64::max),
        if ratio < LEAST { format!("  below {LEAST}") } else { String::new() },
    );
    std::process::exit((ratio < LEAST).into());
}
