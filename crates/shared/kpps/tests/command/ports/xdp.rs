//! AF_XDP ports on interfaces with one queue and with several.

use crate::net::{Net, document, is_short_of_cpu, stop};
use kpps_namespaces::until_undisturbed;
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::process::{Output, Stdio};
use std::time::Duration;

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// A user who asks for one queue of several gets a message with the reason if that queue is not available.
#[test]
fn what_is_to_be_said_about_queues_is() {
    let Some(net) = Net::with_queues(&[("a", "b")], 3) else { return };
    for (port, word) in [("xdp:a:1", "queue 1 of 3"), ("xdp:a", ""), ("xdp:a:2", "xdp:a receives all")] {
        let output = net.kpps(&["send", port, "--count", "1"]);
        let said = said(&output);
        assert!(output.status.success(), "{said}");
        assert!(said.contains(word) && (word.is_empty() != said.contains("queue")), "{port}: {said}");
    }
    let refused = net.kpps(&["send", "xdp:a:3", "--count", "1"]);
    assert!(said(&refused).contains("no such queue: a has 3, numbered from 0"), "{}", said(&refused));
}

/// A user who may not lock the memory gets a message, which also says that one queue of several takes less.
#[test]
fn memory_that_may_not_be_locked_is_named() {
    let Some(net) = Net::with_queues(&[("a", "b")], 3) else { return };
    let kpps = assert_cmd::cargo::cargo_bin("kpps");
    let limit = ["prlimit", "--memlock=1048576", "setpriv", "--bounding-set=-ipc_lock"];
    for port in ["xdp:a", "xdp:a:0"] {
        let words = [&limit[..], &[kpps.to_str().unwrap(), "send", port, "--count", "1"]].concat();
        let output = net.command(&words).output().unwrap();
        let said = said(&output);
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains("may not lock the memory that it needs") && said.contains("prlimit"), "{said}");
        assert_eq!(said.contains("xdp:a:0 is one queue"), port == "xdp:a", "{said}");
    }
}

/// How many queues of an interface have handed frames over.
fn used(net: &Net, interface: &str) -> usize {
    let text = net.command(&["ethtool", "-S", interface]).output().unwrap().stdout;
    let text = String::from_utf8(text).unwrap();
    let counts = text.lines().filter_map(|line| line.trim().split_once(": "));
    counts.filter(|(name, count)| name.ends_with("_xdp_redirect") && *count != "0").count()
}

/// Whether a command could not have the queues: a busy kernel takes its time to let go of those of a program
/// that has ended.
fn are_held(said: &str) -> bool {
    let are = said.contains("is in use");
    if are {
        std::thread::sleep(Duration::from_secs(2));
    }
    are
}

/// A bridge spreads flows over the queues of its ports: none of their frames is missed, and none comes out of
/// its order. All would find room at once, so that it does not matter whether anybody has time for them.
#[test]
fn trials_account_for_the_frames_of_all_queues() {
    for queues in [1, 4] {
        let Some(net) = Net::bridge_of_queues(queues) else { return };
        let schema: Value = serde_json::from_slice(&net.kpps(&["schema"]).stdout).unwrap();
        for both in [&[][..], &["--bidirectional"]] {
            let words = ["trial", "--ports", "xdp:a,xdp:b", "--load", "2kpps", "--duration", "1s"];
            let more = ["--shape", "bursts:200", "--flows", "50", "--json"];
            until_undisturbed("a burst is sent, and the kernel hands each on before the next", || {
                let output = net.kpps(&[&words[..], &more, both].concat());
                if are_held(&String::from_utf8_lossy(&output.stderr)) {
                    return false;
                }
                let trial = document(&output);
                assert!(output.status.success() || is_short_of_cpu(&output), "{trial}");
                jsonschema::validate(&schema, &trial).unwrap();
                for name in ["duplicated", "reordered", "corrupted"] {
                    assert_eq!(trial[name], 0, "{name}: {trial}");
                }
                assert_eq!(trial["ledger"]["unexplained"], 0, "{trial}");
                let count = |name: &str| trial[name].as_u64().unwrap();
                assert_eq!(count("sent"), count("received") + count("lost") + count("overflow"), "{trial}");
                count("sent") >= 200 && count("received") == count("sent")
            });
        }
        assert_eq!((used(&net, "a"), used(&net, "b")), (queues as usize, queues as usize));
    }
}

/// Frames of flows that overtook each other between queues are in order for `kpps count`, too.
#[test]
fn flows_are_counted_in_order_whatever_their_queue() {
    let Some(net) = Net::bridge_of_queues(4) else { return };
    let kpps = assert_cmd::cargo::cargo_bin("kpps");
    let words = [kpps.to_str().unwrap(), "count", "xdp:b", "--duration", "600s", "--json", "--every", "50ms"];
    until_undisturbed("bursts are sent, and the kernel hands each on before the next", || {
        let mut count = net.command(&words).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        // It counts when it first says how much.
        let mut said = BufReader::new(count.stderr.take().unwrap()).lines();
        let first = said.next().unwrap().unwrap();
        if are_held(&first) {
            count.wait().unwrap();
            return false;
        }
        assert!(first.starts_with('{'), "{first}");
        let said = std::thread::spawn(move || said.count());
        let words =
            ["send", "xdp:a", "--count", "2000", "--load", "2kpps", "--shape", "bursts:200", "--json"];
        let sent = net.kpps(&[&words[..], &["--flows", "50"]].concat());
        let counted = document(&stop(count));
        said.join().unwrap();
        if are_held(&String::from_utf8_lossy(&sent.stderr)) {
            return false;
        }
        let sent = document(&sent);
        let stream = &counted["streams"][0];
        assert_eq!(stream["reordered"], 0, "{counted}");
        let (sent, received) =
            (sent["ports"][0]["sent"].as_u64().unwrap(), stream["received"].as_u64().unwrap());
        assert!(received <= sent, "{received} of {sent}: {counted}");
        sent >= 200 && received == sent
    });
    assert_eq!(used(&net, "b"), 4);
}
