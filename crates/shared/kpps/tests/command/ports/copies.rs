//! Packet sockets on the path: the kernel drops a copy of each frame that they get, and that is no loss. An
//! app of kpps reports its own losses. The interfaces' counters and the packet filter's are the truth.

use crate::net::document;
use kpps_namespaces::{Net, signal, skip};
use serde_json::Value;
use std::process::{Child, Output, Stdio};
use std::time::{Duration, Instant};

const EVENT_TIMEOUT: Duration = Duration::from_secs(60);

fn kpps(net: &Net, words: &str) -> std::process::Command {
    let kpps = assert_cmd::cargo::cargo_bin("kpps");
    let mut command = net.command(kpps);
    command.args(words.split_whitespace());
    command
}

/// A program in the background, which is ended when this is dropped.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts a program that opens this many packet sockets.
fn start(net: &Net, mut command: std::process::Command, sockets: usize) -> Running {
    let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let running = Running(child);
    await_true("packet sockets are open", || {
        let table = net.output("cat /proc/net/packet");
        table.lines().filter(|line| line.split_whitespace().nth(3) == Some("0003")).count() >= sockets
    });
    running
}

fn await_true(what: &str, mut test: impl FnMut() -> bool) {
    let end = Instant::now() + EVENT_TIMEOUT;
    while !test() {
        assert!(Instant::now() < end, "{what}: not within {EVENT_TIMEOUT:?}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn count(net: &Net, interface: &str, counter: &str) -> u64 {
    let text = net.output(&format!("cat /sys/class/net/{interface}/statistics/{counter}"));
    text.trim().parse().unwrap()
}

fn trial(ends: &Net, router: &Net, words: &str) -> Output {
    let trial = "trial --ports packet:a,packet:b --drain 3s --retries 0 --json --max-unexplained 0";
    kpps(ends, &format!("{trial} --watch {}/ {words}", router.name())).output().unwrap()
}

/// The places of loss, without those of a busy machine.
fn places(trial: &Value) -> Vec<(String, u64)> {
    let dropped = trial["ledger"]["dropped"].as_object().unwrap();
    let all = dropped.iter().map(|(place, frames)| (place.clone(), frames.as_u64().unwrap()));
    all.filter(|(place, _)| !place.ends_with("backlog")).collect()
}

fn closes(output: &Output) -> Value {
    let trial = document(output);
    assert_eq!(trial["ledger"]["unexplained"], 0, "{trial:#}");
    trial
}

#[test]
fn what_the_kernel_drops_of_frames_that_an_app_forwards_is_not_lost() {
    let Some((ends, router)) = Net::with_router() else { return };
    router.run("echo 0 > /proc/sys/net/ipv4/ip_forward");
    let to_app = "--gateway 198.18.0.253,198.19.0.253";
    for (app, words) in [
        ("bridge packet:ra packet:rb", ""),
        ("forward packet:ra packet:rb", ""),
        ("route packet:ra=198.18.0.253/24 packet:rb=198.19.0.253/24", to_app),
    ] {
        let _app = start(&router, kpps(&router, app), 2);
        let trial = closes(&trial(&ends, &router, &format!("--load 4kpps --duration 500ms {words}")));
        assert!(places(&trial).iter().all(|(place, _)| place.ends_with("missed")), "{app}: {trial:#}");
        let missed: u64 = places(&trial).iter().map(|(_, frames)| frames).sum();
        let lost = trial["sent"].as_u64().unwrap() - trial["received"].as_u64().unwrap();
        assert!(missed <= lost, "{app}: {trial:#}");
    }
}

/// An app that stands still for longer than its sockets have room for says so itself.
#[test]
fn what_an_app_missed_is_lost_there() {
    let Some((ends, router)) = Net::with_router() else { return };
    let app = start(&router, kpps(&router, "bridge packet:ra packet:rb"), 2);
    let (came, went) = (count(&router, "ra", "rx_packets"), count(&router, "rb", "tx_packets"));
    // A busy machine sends fewer: enough come in any case.
    let words = "--load 20kpps --duration 8s";
    let output = std::thread::scope(|scope| {
        let done = scope.spawn(|| trial(&ends, &router, words));
        // Learning frames are few.
        await_true("frames come", || count(&router, "ra", "rx_packets") > came + 2000);
        signal(&app.0, "-STOP");
        let from = count(&router, "ra", "rx_packets");
        await_true("more frames come", || {
            count(&router, "ra", "rx_packets") > from + 40_000 || done.is_finished()
        });
        signal(&app.0, "-CONT");
        done.join().unwrap()
    });
    let trial = closes(&output);
    let lost = (count(&router, "ra", "rx_packets") - came) - (count(&router, "rb", "tx_packets") - went);
    let at = |name: &str| {
        let place = format!("{}/{name}", router.name());
        places(&trial).iter().find(|(other, _)| *other == place).map_or(0, |(_, frames)| *frames)
    };
    let missed = at("ra kpps missed");
    assert!(missed > 1000, "{trial:#}");
    // The interfaces' counters may include messages of address resolution.
    assert!(lost.abs_diff(missed + at("rb kpps full")) < 20, "{lost}: {trial:#}");
}

/// A sniffer beside a router of the kernel: packets that the kernel drops are lost, with their place.
#[test]
fn a_sniffer_takes_no_place_away() {
    let Some((ends, router)) = Net::with_router() else { return };
    if !router.can("command -v tcpdump > /dev/null") {
        return skip::lacks("tcpdump");
    }
    let mut sniffer = router.command("tcpdump");
    sniffer.args(["-i", "ra", "-w", "/dev/null"]);
    let _sniffer = start(&router, sniffer, 1);
    // Without a gateway the frames are for b's station.
    let lost = closes(&trial(&ends, &router, "--load 4kpps --duration 500ms"));
    let before = lost["sent"].as_u64().unwrap();
    let elsewhere: u64 =
        places(&lost).iter().filter(|(place, _)| !place.contains("otherhost")).map(|(_, n)| n).sum();
    assert_eq!((elsewhere, &lost["lost"]), (0, &before.into()), "{lost:#}");
    let rule = "nft 'add table ip f; add chain ip f c { type filter hook forward priority 0; }; \
                add rule ip f c numgen inc mod 5 0 counter drop'";
    if !router.can(rule) {
        return skip::lacks("the kernel's packet filter, or nft");
    }
    let gateways = "--gateway 198.18.0.254,198.19.0.254 --load 4kpps --duration 500ms";
    let trial = closes(&trial(&ends, &router, gateways));
    if trial["environment"]["system"]["drop reasons"].is_string() {
        return skip::lacks("the kernel's drop reasons");
    }
    let rules = router.output("nft list chain ip f c");
    let (_, counted) = rules.split_once("counter packets ").unwrap();
    let counted: u64 = counted.split(' ').next().unwrap().parse().unwrap();
    let [(place, frames)] = &places(&trial)[..] else { panic!("{trial:#}") };
    // The rule has also dropped learning frames.
    assert!(
        place.contains("netfilter drop") && (*frames..frames + 40).contains(&counted),
        "{counted}: {trial:#}"
    );
}
