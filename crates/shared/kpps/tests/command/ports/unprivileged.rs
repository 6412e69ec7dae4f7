//! The abilities of an ordinary user, and the messages of all other commands.

use crate::net::document;
use kpps_namespaces::{own_port, until_undisturbed};
use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::{TcpStream, UdpSocket};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::time::Duration;

/// `nobody` and `nogroup`, as every Linux has them.
const NOBODY: u32 = 65534;

/// The command where everybody may run it, run by nobody. Only root can become somebody else; nobody is
/// somebody else already.
struct Nobody {
    folder: tempfile::TempDir,
}

impl Nobody {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::set_permissions(folder.path(), PermissionsExt::from_mode(0o755)).unwrap();
        // By another process: what this one has open for writing, a test beside may just be passing on to a
        // child, and nobody can run it.
        let program = assert_cmd::cargo::cargo_bin("kpps");
        assert!(Command::new("cp").arg(program).arg(folder.path()).status().unwrap().success());
        Self { folder }
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(self.folder.path().join("kpps"));
        command.args(words).current_dir("/").stdout(Stdio::piped()).stderr(Stdio::piped());
        if rustix::process::geteuid().is_root() {
            // All capabilities go with it.
            command.gid(NOBODY).uid(NOBODY);
        }
        command
    }
}

#[test]
fn sockets_and_the_machine_room_are_for_everybody() {
    let nobody = Nobody::new();
    let port = own_port();
    let here = format!("udp::{port}");
    let count =
        nobody.command(&["count", &here, "--expect", "200", "--duration", "120s", "--json"]).spawn().unwrap();
    // Until it listens, nothing is sent to it.
    let table = format!(":{port:04X} ");
    let end = std::time::Instant::now() + Duration::from_secs(60);
    let listens = || {
        ["udp", "udp6"].iter().any(|file| {
            std::fs::read_to_string(format!("/proc/net/{file}")).is_ok_and(|text| text.contains(&table))
        })
    };
    while !listens() && std::time::Instant::now() < end {
        std::thread::sleep(Duration::from_millis(10));
    }
    let there = format!("udp:127.0.0.1:{port}");
    let sent =
        nobody.command(&["send", &there, "--count", "200", "--load", "5kpps", "--json"]).output().unwrap();
    assert!(sent.status.success(), "{}", String::from_utf8_lossy(&sent.stderr));
    let counted = count.wait_with_output().unwrap();
    assert!(counted.status.success(), "{}", String::from_utf8_lossy(&counted.stderr));
    assert_eq!(document(&counted)["streams"][0]["received"], 200);
    let curve = nobody
        .command(&["curve", "--driver", "kpps", "--load", "100kpps", "--duration", "2ms", "--json"])
        .output();
    assert_eq!(document(&curve.unwrap())["complete"], true);
}

#[test]
fn what_needs_a_privilege_says_which() {
    let nobody = Nobody::new();
    for (port, says) in [
        ("packet:lo", "cap_net_raw"),
        ("xdp:lo", "cap_net_raw,cap_net_admin,cap_bpf"),
        ("auto:lo", "cap_net_raw"),
    ] {
        let output = nobody.command(&["send", port, "--count", "1"]).output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{port}: {said}");
        let lines: Vec<_> = said.lines().filter(|line| line.starts_with("kpps: ")).collect();
        assert!(lines.len() == 1 && lines[0].contains(says), "{port}: {said}");
    }
    let two = nobody.command(&["trial", "--ports", "packet:lo,udp::9", "--load", "1kpps"]).output().unwrap();
    assert!(String::from_utf8_lossy(&two.stderr).contains("cap_net_raw"), "{two:?}");
}

/// Nothing is sent if the metrics cannot be served.
#[test]
fn an_address_of_metrics_that_is_in_use_is_an_error() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let there = UdpSocket::bind("127.0.0.1:0").unwrap();
    there.set_nonblocking(true).unwrap();
    let free = own_port();
    let ports = format!("udp:{},udp::{free}", there.local_addr().unwrap());
    let nobody = Nobody::new();
    for words in [
        &["trial", "--load", "1kpps"][..],
        &["curve", "--load", "1kpps"],
        &["ndr"],
        &["sizes"],
        &["grid", "--vary", "load=1kpps,2kpps"],
        &["rfc2544", "--quick"],
    ] {
        let words = [words, &["--ports", &ports, "--metrics", &address]].concat();
        let said = nobody.command(&words).output().unwrap();
        let error = String::from_utf8(said.stderr).unwrap();
        assert!(said.status.code() == Some(2) && error.contains("in use"), "{words:?}: {error}");
        assert!(there.recv(&mut [0; 100]).is_err(), "{words:?}: a frame was sent");
    }
}

/// One server for all trials of a command, with the load of the running trial.
#[test]
fn a_curve_serves_the_counters_of_the_trial_that_runs() {
    let nobody = Nobody::new();
    until_undisturbed("each trial is seen while it runs", || {
        loads_served(&nobody) == (true, [1000, 2000, 3000].into(), 3)
    });
}

/// Whether a curve ends well, and the loads and the number of trials that it served.
fn loads_served(nobody: &Nobody) -> (bool, BTreeSet<u64>, u64) {
    let (address, port) = (format!("127.0.0.1:{}", own_port()), own_port());
    let ports = format!("udp:127.0.0.1:{port},udp::{port}");
    let mut words = vec!["curve", "--load", "1kpps..3kpps/1kpps", "--duration", "700ms", "--ports", &ports];
    // A repeated or disturbed trial is not examined here.
    words.extend(["--metrics", &address, "--retries", "0", "--max-shortfall", "99%"]);
    let mut child = nobody.command(&words).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let (mut loads, mut trials) = (BTreeSet::new(), 0);
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return (status.success(), loads, trials);
        }
        let mut said = String::new();
        if let Ok(mut stream) = TcpStream::connect(&address) {
            let asked = stream.write_all(b"GET /metrics HTTP/1.1\r\n\r\n");
            let _ = asked.and_then(|()| stream.read_to_string(&mut said));
        }
        let value = |name: &str| said.lines().find(|line| line.starts_with(name))?.rsplit_once(' ');
        loads.extend(value("kpps_offered_frames_per_second{").map(|(_, pps)| pps.parse::<u64>().unwrap()));
        trials = value("kpps_trials_total ").map_or(trials, |(_, count)| trials.max(count.parse().unwrap()));
        std::thread::sleep(Duration::from_millis(20));
    }
}
