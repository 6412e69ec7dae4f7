//! The command as its users meet it.
#![allow(clippy::unwrap_used)]

#[cfg(target_os = "linux")]
mod agents;
mod calibrate_host;
#[cfg(target_os = "linux")]
mod circles;
mod cli;
mod compare;
mod documents;
mod error_bars;
#[cfg(target_os = "linux")]
mod files;
mod forms;
mod grid;
#[cfg(target_os = "linux")]
mod guide;
#[cfg(target_os = "linux")]
mod hostile;
#[cfg(target_os = "linux")]
mod live;
#[cfg(target_os = "linux")]
mod net;
#[cfg(target_os = "linux")]
mod pages;
#[cfg(target_os = "linux")]
mod ports;
mod programs;
mod rfc2544;
mod scale;
mod steady;
mod study;
mod trace;

/// The results in a journal, a line each, if there is one. Its first line is none.
fn kept(path: &std::path::Path) -> Vec<String> {
    std::fs::read_to_string(path).unwrap_or_default().lines().skip(1).map(str::to_owned).collect()
}

/// Runs a command in this folder with `--resume kept`, and interrupts it, as Ctrl-C would, as soon as it has
/// kept a measurement.
#[cfg(unix)]
fn interrupt_after_a_measurement(folder: &std::path::Path, words: &[&str]) -> std::process::Output {
    let child = std::process::Command::new(assert_cmd::cargo::cargo_bin("kpps"))
        .current_dir(folder)
        .args(words)
        .args(["--resume", "kept"])
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let end = std::time::Instant::now() + std::time::Duration::from_secs(60);
    while !std::fs::read_to_string(folder.join("kept")).is_ok_and(|text| text.matches('\n').count() > 1) {
        assert!(std::time::Instant::now() < end, "nothing is measured");
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    let kill = std::process::Command::new("kill").args(["-INT", &child.id().to_string()]).status();
    assert!(kill.unwrap().success());
    child.wait_with_output().unwrap()
}
