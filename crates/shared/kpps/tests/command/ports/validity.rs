//! Whether a trial is a valid measurement: under hostile frames it is, with a link that went down it is not.

use crate::net::{Net, document, is_short_of_cpu};
use kpps_namespaces::until_undisturbed;
use serde_json::Value;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const TRIAL: [&str; 4] = ["trial", "--ports", "packet:a,packet:b", "--json"];

/// Ends a thread when it is dropped, after a failed assertion, too.
struct End<'a>(&'a AtomicBool);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// A station beside the path sends five copies of every frame that it sees, most of them changed. All frames
/// of the trial arrived, and the result says so.
#[test]
fn copies_of_hostile_stations_take_nothing_from_what_arrived() {
    let Some(net) = Net::bridge() else { return };
    for line in [
        "ip link add name c type veth peer name pc",
        "ip link set dev pc master br",
        "ip link set dev pc up",
        "ip link set dev c up",
        // A hub: it forgets where stations are, and sends each frame everywhere.
        "ip link set dev br type bridge ageing_time 0",
    ] {
        net.run(&line.split(' ').collect::<Vec<_>>());
    }
    let (hostile, ended) = (net.end("c"), AtomicBool::new(false));
    let sent = std::thread::scope(|scope| {
        let copies = scope.spawn(|| {
            let (mut hostile, mut random, mut sent) = (hostile, fastrand::Rng::with_seed(17), 0);
            while !ended.load(Ordering::Relaxed) {
                for frame in hostile.drain().iter().filter(|frame| frame.len() >= 60) {
                    for _ in 0..5 {
                        let mut copy = frame.clone();
                        for _ in 0..random.usize(0..4) {
                            let bit = random.usize(12 * 8..copy.len() * 8);
                            copy[bit / 8] ^= 1 << (bit % 8);
                        }
                        hostile.send(&copy);
                        sent += 1;
                    }
                }
                std::thread::sleep(Duration::from_micros(200));
            }
            sent
        });
        let end = End(&ended);
        until_undisturbed("machine and ports manage the copies, too", || {
            let output = net.kpps(&[&TRIAL[..], &["--load", "2kpps", "--duration", "1s"]].concat());
            let trial = document(&output);
            if is_short_of_cpu(&output) {
                return false;
            }
            assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
            for (name, expected) in [("intended", 2000), ("corrupted", 0)] {
                assert_eq!(trial[name], expected, "{name}: {trial}");
            }
            assert_eq!(trial["ledger"]["unexplained"], 0, "{trial}");
            let number = |name: &str| trial[name].as_u64().unwrap();
            assert_eq!(number("sent"), number("received") + number("lost"), "{trial}");
            let seen = number("other_traffic") + number("duplicated");
            seen > 5000 && trial["loss_ratio"] == 0.0 && number("received") == 2000
        });
        drop(end);
        copies.join().unwrap()
    });
    assert!(sent > 5000, "{sent}");
}

/// A trial in which the bridge's port at this end goes down for a while, after 1000 frames: an invalid one.
/// Returns its document and its messages; `None` unless both changes fell into the trial.
fn with_a_flap(net: &Net, end: &str, down: Duration, words: &[&str]) -> Option<(Value, String)> {
    let port = format!("p{end}");
    let before = net.sent("a");
    let output = std::thread::scope(|scope| {
        let flap = scope.spawn(|| {
            let since = Instant::now();
            while net.sent("a") < before + 1000 {
                assert!(since.elapsed() < Duration::from_secs(60), "no trial begins");
                std::thread::sleep(Duration::from_millis(20));
            }
            net.run(&["ip", "link", "set", "dev", &port, "down"]);
            std::thread::sleep(down);
            net.run(&["ip", "link", "set", "dev", &port, "up"]);
        });
        let output = net.kpps(&[&TRIAL[..], words].concat());
        flap.join().unwrap();
        output
    });
    let (trial, said) = (document(&output), String::from_utf8_lossy(&output.stderr).into_owned());
    let twice = format!("the link of {end} went down or up 2 times during the trial");
    if !said.contains(&twice) {
        return None;
    }
    assert_eq!(output.status.code(), Some(3), "{said}");
    Some((trial, said))
}

/// A link that goes down and comes up again: the result is printed and says so, and the exit code is 3.
#[test]
fn a_link_that_changes_makes_a_trial_invalid() {
    let Some(net) = Net::bridge() else { return };
    until_undisturbed("the link changes within the trial", || {
        let words = ["--load", "1kpps", "--duration", "8s"];
        let Some((trial, said)) = with_a_flap(&net, "b", Duration::from_millis(200), &words) else {
            return false;
        };
        assert!(said.contains("no valid measurement of the device under test: "), "{said}");
        let doubts = trial["doubts"].as_array().unwrap();
        let is_b = |doubt: &&Value| doubt["what"] == "link-changed" && doubt["interface"] == "b";
        assert_eq!(doubts.iter().find(is_b).unwrap()["times"], 2, "{trial}");
        assert!(trial["lost"].as_u64().unwrap() > 0, "{trial}");
        true
    });
    // Afterwards it is valid again.
    until_undisturbed("the machine manages the load", || {
        let output = net.kpps(&[&TRIAL[..], &["--load", "1kpps", "--duration", "500ms"]].concat());
        let trial = document(&output);
        assert!(output.status.code() == Some(0) || is_short_of_cpu(&output), "{trial}");
        trial["doubts"].is_null()
    });
}

/// The sender's own link goes down and comes up again: frames that were due meanwhile are generator shortfall
/// and no loss, the sender goes on at its rate afterwards, and the result says why it is invalid.
#[test]
fn a_sender_whose_link_was_down_goes_on() {
    let Some(net) = Net::bridge() else { return };
    until_undisturbed("the machine manages the load", || {
        let words = ["--load", "5kpps", "--duration", "6s"];
        let Some((trial, _)) = with_a_flap(&net, "a", Duration::from_millis(400), &words) else {
            return false;
        };
        let number = |name: &str| trial[name].as_u64().unwrap();
        assert_eq!(number("intended"), number("sent") + number("shortfall"), "{trial}");
        assert_eq!(number("sent"), number("received") + number("lost"), "{trial}");
        assert!(number("shortfall") > 0, "{trial}");
        // 400 ms are 2000 frames; the kernel takes a moment to bring the bridge's port back. A sender that
        // stops at the flap would be short of 29,000.
        number("shortfall") < 12_000 && number("received") > 15_000
    });
}
