//! Frames that a kernel has merged (GRO), or that a host leaves to its interface to be cut (TSO). The
//! counters of interfaces and nftables are the truth.

use crate::net::{Net, document, is_short_of_cpu, stop};
use etherparse::{IpHeaders, IpNumber, Ipv4Header, PacketBuilder};
use kpps_namespaces::until_undisturbed;
use pcap_file::pcap::{PcapPacket, PcapWriter};
use serde_json::Value;
use std::fs::File;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::time::Duration;

/// Has the kernel merge the frames that come to an interface, and counts the superpackets that it hands on,
/// at its ingress hook. It waits for more to be merged for longer than the time between two bursts. Its peer
/// must not offer to cut, or a veth does not merge.
fn merge_at(net: &Net, [from, interface]: [&str; 2], how: &str) {
    let line = format!(
        "ethtool -K {from} tso off > /dev/null && ethtool -K {interface} gro on {how} on > /dev/null &&
         echo 2000000 > /sys/class/net/{interface}/gro_flush_timeout &&
         echo 1 > /sys/class/net/{interface}/napi_defer_hard_irqs &&
         nft 'add table netdev t; add chain netdev t {interface} {{ type filter hook ingress device {interface} priority 0; }};
              add counter netdev t {interface}; add rule netdev t {interface} meta protocol {{ ip, ip6, vlan }} counter name {interface}'"
    );
    net.run(&["sh", "-c", &line]);
}

/// The frames that an interface has handed on since the last call.
fn handed_on(net: &Net, interface: &str) -> u64 {
    let output = net.command(&["nft", "-j", "reset", "counter", "netdev", "t", interface]).output().unwrap();
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
    answer["nftables"][1]["counter"]["packets"].as_u64().unwrap()
}

/// A trial from `a` to `b`.
fn trial(net: &Net, more: &[&str]) -> Value {
    let words = ["trial", "--ports", "packet:a,packet:b", "--duration", "400ms", "--retries", "0", "--json"];
    let output = net.kpps(&[&words, more].concat());
    let trial = document(&output);
    assert!(matches!(output.status.code(), Some(0 | 1)) || is_short_of_cpu(&output), "{trial}");
    trial
}

/// All arrive that the sender's interface has sent, each as it was, although the kernel has merged them.
#[test]
fn what_the_kernel_has_merged_has_arrived() {
    let Some(net) = Net::new(&[("a", "b")]) else { return };
    merge_at(&net, ["a", "b"], "rx-udp-gro-forwarding");
    let bursts = ["--load", "20kpps", "--shape", "bursts:16"];
    let kinds: [&[&str]; 3] = [
        &["--ipv6", "--size", "128"],
        // Superpackets that fit no slot of the ring.
        &["--ipv6", "--size", "1400"],
        &["--ipv6", "--flows", "4"],
    ];
    for how in ["rx-udp-gro-forwarding", "rx-gro-list"] {
        net.run(&["sh", "-c", &format!("ethtool -K b {how} on > /dev/null")]);
        for kind in kinds {
            until_undisturbed(&format!("the kernel merges frames ({how}, {kind:?})"), || {
                let (before, _) = (net.sent("a"), handed_on(&net, "b"));
                let trial = trial(&net, &[&bursts, kind].concat());
                let (sent, handed_on) = (net.sent("a") - before, handed_on(&net, "b"));
                let of = |name: &str| trial[name].as_u64().unwrap();
                // A few more are ARP's and neighbour discovery's.
                assert!((of("sent")..of("sent") + 20).contains(&sent), "{sent} {trial}");
                let overflow = trial["overflow"].as_u64().unwrap();
                assert_eq!((of("received") + overflow, of("lost")), (of("sent"), 0), "{trial}");
                let direction = &trial["directions"][0];
                assert_eq!(
                    (&direction["corrupted"], &direction["reordered"]),
                    (&0.into(), &0.into()),
                    "{trial}"
                );
                // If the sender was as slow as that, there was nothing to be merged.
                of("sent") > 4000 && handed_on < sent / 3
            });
        }
    }
}

/// Flows that overtake each other because one was merged are in order each.
#[test]
fn merged_flows_are_counted_in_order() {
    let Some(net) = Net::new(&[("a", "b")]) else { return };
    merge_at(&net, ["a", "b"], "rx-udp-gro-forwarding");
    until_undisturbed("the kernel merges frames", || {
        handed_on(&net, "b");
        let count = net.start(&["count", "packet:b", "--duration", "60s", "--expect", "6400", "--json"], 1);
        let sent = net.kpps(&[
            "send",
            "packet:a",
            "--ipv6",
            "--size",
            "100",
            "--flows",
            "2",
            "--load",
            "20kpps",
            "--shape",
            "bursts:16",
            "--count",
            "6400",
        ]);
        assert!(sent.status.success(), "{sent:?}");
        let document = document(&count.wait_with_output().unwrap());
        let stream = &document["streams"][0];
        assert_eq!((&stream["lost"], &stream["reordered"]), (&0.into(), &0.into()), "{document}");
        assert_eq!((&stream["received"], &document["corrupted"]), (&6400.into(), &0.into()), "{document}");
        handed_on(&net, "b") < 3200
    });
}

/// A capture in bursts of 16 UDP packets of one flow, which all have this identification.
fn capture(path: &Path, identification: u16, dont_fragment: bool) {
    let mut writer = PcapWriter::new(File::create(path).unwrap()).unwrap();
    for n in 0..320_u32 {
        let payload = [n.to_be_bytes(), [7; 4], [8; 4], [9; 4], [1; 4]].concat();
        let mut ip = Ipv4Header::new(0, 64, IpNumber::UDP, [10, 0, 0, 1], [10, 0, 0, 2]).unwrap();
        (ip.identification, ip.dont_fragment) = (identification, dont_fragment);
        let mut frame = Vec::new();
        PacketBuilder::ethernet2([2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2])
            .ip(IpHeaders::Ipv4(ip, Default::default()))
            .udp(1000, 2000)
            .write(&mut frame, &payload)
            .unwrap();
        let at = Duration::from_millis((n / 16).into());
        writer.write_packet(&PcapPacket::new(at, frame.len() as u32, &frame)).unwrap();
    }
}

/// The kernel does not keep the identifications of packets that it merges: a replay knows them nevertheless.
#[test]
fn replayed_frames_that_were_merged_are_known() {
    let Some(net) = Net::new(&[("a", "b")]) else { return };
    merge_at(&net, ["a", "b"], "rx-udp-gro-forwarding");
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("bursts.pcap");
    for (identification, dont_fragment) in [(0x1234, true), (0x1234, false), (0, true), (0, false)] {
        capture(&path, identification, dont_fragment);
        until_undisturbed("the kernel merges frames", || {
            handed_on(&net, "b");
            let words =
                ["trial", "--ports", "packet:a,packet:b", "--replay", path.to_str().unwrap(), "--json"];
            let output = net.kpps(&[&words[..], &["--retries", "0"]].concat());
            let trial = document(&output);
            let of = |name: &str| trial[name].as_u64().unwrap();
            assert!(output.status.success() || is_short_of_cpu(&output), "{trial}");
            assert_eq!((of("received"), of("lost")), (of("sent"), 0), "{identification}: {trial}");
            of("sent") > 160 && handed_on(&net, "b") < of("sent") / 2
        });
    }
}

/// A firewall that drops superpackets has dropped all frames in them: each has one place.
#[test]
fn a_dropped_superpacket_is_all_of_its_frames() {
    let Some(net) = Net::bridge() else { return };
    merge_at(&net, ["a", "pa"], "rx-udp-gro-forwarding");
    net.run(&["nft", "add rule netdev t pa meta protocol ip6 udp dport 9 numgen inc mod 5 == 0 drop"]);
    until_undisturbed("the kernel merges frames", || {
        handed_on(&net, "pa");
        let trial =
            trial(&net, &["--ipv6", "--load", "20kpps", "--shape", "bursts:16", "--watch", "pa,pb,br"]);
        let of = |name: &str| trial[name].as_u64().unwrap();
        let handed_on = handed_on(&net, "pa");
        assert_eq!(trial["directions"][0]["corrupted"], 0, "{trial}");
        assert!(of("lost") > 0, "{trial}");
        // A kernel that does not report its drops leaves them unexplained.
        let ledger = &trial["ledger"];
        let places = ledger["dropped"].as_object().unwrap();
        let all: u64 = places.values().map(|frames| frames.as_u64().unwrap()).sum();
        let is_recorded = places.keys().any(|place| place.contains('('));
        if is_recorded && all < of("lost") {
            // A drop in an interrupt of the program that counts drops is not counted: on a busy machine.
            assert_eq!(ledger["unexplained"], of("lost") - all, "{trial}");
            return false;
        }
        let expected = if is_recorded { of("lost") } else { all };
        // A busy machine's own queue may be full, too.
        let named = places.keys().filter(|place| !place.ends_with("backlog")).count();
        assert_eq!((all, named < 2), (expected, true), "{trial}");
        of("sent") > 4000 && handed_on < of("sent") / 3
    });
}

/// TCP between two hosts with all their offloads on passes a bridge of packet sockets.
#[test]
fn tcp_passes_a_bridge_with_the_offloads_of_its_hosts() {
    const BYTES: usize = 4 << 20;
    let Some(net) = Net::new(&[("a", "pa"), ("b", "pb")]) else { return };
    let hosts = [kpps_namespaces::Net::new().unwrap(), kpps_namespaces::Net::new().unwrap()];
    for (host, (end, number)) in hosts.iter().zip([("a", 1), ("b", 2)]) {
        net.run(&["ip", "link", "set", "dev", end, "netns", host.name()]);
        host.run(&format!("ip address add 10.0.0.{number}/24 dev {end} && ip link set dev {end} up"));
        assert!(host.output(&format!("ethtool -k {end}")).contains("tcp-segmentation-offload: on"));
    }
    let bridge = net.start(&["bridge", "packet:pa", "packet:pb", "--json"], 2);
    let [client, server] = hosts;
    let data: Vec<u8> =
        (0..BYTES as u32).flat_map(|n| n.wrapping_mul(0x9e37_79b9).to_le_bytes()).take(BYTES).collect();
    server.enter();
    let listening = TcpListener::bind("10.0.0.2:7").unwrap();
    let came = std::thread::spawn(move || {
        let (mut stream, _) = listening.accept().unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        let mut came = Vec::new();
        stream.read_to_end(&mut came).unwrap();
        came
    });
    client.enter();
    let address = "10.0.0.2:7".parse().unwrap();
    let mut stream = TcpStream::connect_timeout(&address, Duration::from_secs(60)).unwrap();
    stream.set_write_timeout(Some(Duration::from_secs(60))).unwrap();
    stream.write_all(&data).unwrap();
    drop(stream);
    assert!(came.join().unwrap() == data);
    let app = document(&stop(bridge));
    assert_eq!(
        (&app["ports"][0]["drops"]["errors"], &app["ports"][1]["drops"]["errors"]),
        (&0.into(), &0.into())
    );
    // It was cut: no frame is longer than the links' MTU allows.
    let [bytes, frames] = ["received_bytes", "received"].map(|name| app["ports"][0][name].as_u64().unwrap());
    assert!(bytes / frames <= 1514 && frames as usize > BYTES / 1500, "{app}");
}
