//! Others that want an address which kpps has: they ask first (RFC 5227, RFC 4862), and must hear that it is
//! taken. Ground truth is what asks: arping and the kernel.

use crate::net::{Net, document, stop};
use etherparse::{ArpHardwareId, ArpOperation, ArpPacket, EtherType, PacketBuilder};
use kpps_namespaces::skip;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const HERE: [u8; 4] = [10, 0, 0, 1];
const STRANGER: [u8; 6] = [2, 0, 0, 0, 0, 9];
/// The longest wait on a busy machine. A kernel's probes took more than a minute while other tests made and
/// removed namespaces: the kernel does both under one lock.
const WAIT_TIMEOUT: Duration = Duration::from_secs(600);

/// Whether no host answers a probe for an address, as arping finds.
fn is_free(net: &Net, address: &str) -> bool {
    let words = ["arping", "-q", "-D", "-c", "2", "-I", "a", address];
    net.command(&words).status().unwrap().success()
}

#[test]
fn nobody_else_takes_the_address_of_a_router() {
    if !Command::new("arping").arg("-V").stdout(Stdio::null()).status().is_ok_and(|s| s.success()) {
        return skip::needs("arping (make install-test-tools)");
    }
    for command in ["route", "nat"] {
        let Some(net) = Net::new(&[("a", "p"), ("q", "b")]) else { return };
        let mut a = net.end("a");
        let announced = |frame: &[u8]| {
            frame[12..14] == [8, 6]
                && frame[20..22] == [0, 1]
                && frame[28..32] == HERE
                && frame[38..42] == HERE
        };
        let router = net.start(&[command, "packet:p=10.0.0.1/24", "packet:q=10.0.1.1/24"], 2);
        let first = a.receive("the router's announcement", announced);
        assert_eq!((&first[..6], &first[32..38]), (&[0xff; 6][..], &[0; 6][..]));

        assert!(!is_free(&net, "10.0.0.1"), "the router does not answer a probe for its address");
        assert!(is_free(&net, "10.0.0.7"), "nobody has this address");

        // A host that uses it without asking gets one answer.
        let claim = ArpPacket::new(
            ArpHardwareId::ETHERNET,
            EtherType::IPV4,
            ArpOperation::REPLY,
            &STRANGER,
            &HERE,
            &[0xff; 6],
            &[10, 0, 0, 2],
        );
        let mut frame = Vec::new();
        PacketBuilder::ethernet2(STRANGER, [0xff; 6]).arp(claim.unwrap()).write(&mut frame).unwrap();
        frame.resize(60, 0);
        // The second announcement of the start is older than arping's questions, which took longer.
        a.drain();
        a.send(&frame);
        let defence = a.receive("the router's defence", announced);
        assert_eq!(defence[6..12], first[6..12]);
        let output = stop(router);
        let text = String::from_utf8_lossy(&output.stdout);
        let said = "address conflicts: 1 ARP messages, the last from 02:00:00:00:00:09 as 10.0.0.1";
        assert!(text.contains(said), "{text}");
    }
}

/// A host on the segment of a trial wants the address of the tester's station. Its kernel probes first, and
/// does not use the address when a host answers.
#[test]
fn a_kernel_does_not_take_the_address_of_a_testers_station() {
    let Some(net) = Net::bridge() else { return };
    let host = Net::new(&[]).unwrap();
    let line = format!(
        "ip link add name c type veth peer name pc && ip link set dev c netns {} &&
         ip link set dev pc master br && ip link set dev pc up",
        host.name()
    );
    net.run(&["sh", "-c", &line]);
    // It probes five times, once a second: a busy machine may answer only the second one.
    let line = "echo 0 > /proc/sys/net/ipv6/conf/c/disable_ipv6 &&
        echo 5 > /proc/sys/net/ipv6/conf/c/dad_transmits && ip link set dev c up";
    if !host.command(&["sh", "-c", line]).status().unwrap().success() {
        return skip::lacks("IPv6");
    }
    // It runs until it is stopped.
    let words = ["trial", "--ports", "packet:a,packet:b", "--ipv6", "--load", "1kpps", "--duration", "1h"];
    let ends = ["--src", "2001:2::1", "--dst", "2001:2:0:8000::1", "--json"];
    let trial = net.start(&[&words[..], &ends].concat(), 2);
    // Before that the station announces itself, and a kernel receives that as well.
    let until = Instant::now() + WAIT_TIMEOUT;
    while net.sent("a") < 500 {
        assert!(Instant::now() < until, "the trial does not send");
        std::thread::sleep(Duration::from_millis(10));
    }
    let state = |address: &str| {
        host.run(&["ip", "address", "add", &format!("{address}/48"), "dev", "c"]);
        let until = Instant::now() + WAIT_TIMEOUT;
        loop {
            let output =
                host.command(&["ip", "-6", "-oneline", "address", "show", "dev", "c"]).output().unwrap();
            let text = String::from_utf8(output.stdout).unwrap();
            let line = text.lines().find(|line| line.contains(&format!(" {address}/"))).unwrap_or_default();
            if line.contains("dadfailed") {
                return "taken";
            } else if !line.contains("tentative") {
                return "free";
            }
            assert!(Instant::now() < until, "{line}");
            std::thread::sleep(Duration::from_millis(50));
        }
    };
    let states = ["2001:2::1", "2001:2::77"].map(state);
    assert_eq!(states, ["taken", "free"]);
    assert_eq!(document(&stop(trial))["kind"], "trial");
}
