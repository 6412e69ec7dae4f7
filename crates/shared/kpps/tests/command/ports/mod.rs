//! The commands on ports, over virtual cables in network namespaces. That takes root; without, these tests
//! say so and pass.

mod agree;
mod calibrate_host;
mod capture;
mod capture_all;
mod conflict;
mod connections;
mod copies;
mod cores;
mod diagnosis;
mod dpdk;
mod interrupted;
mod linux;
mod merged;
mod mesh;
mod otg;
mod overload;
mod points;
mod priority;
mod replay;
mod rfc2544;
mod streams;
mod trial;
mod unprivileged;
mod validity;
mod xdp;

use crate::net::{Net, document, is_arp, stop};
use etherparse::{NetSlice, PacketBuilder, SlicedPacket, TransportSlice};
use kpps_frames::build::{Flow, udp_test};
use kpps_frames::{Size, Tag, tag};
use kpps_namespaces::until_undisturbed;
use serde_json::Value;
use std::process::Command;

#[test]
fn what_is_sent_is_counted() {
    let Some(net) = Net::new(&[("a", "b")]) else { return };
    let schema: Value = serde_json::from_slice(&net.kpps(&["schema"]).stdout).unwrap();
    for size in ["64", "imix-linux"] {
        until_undisturbed("the sender is not held up at its last frames", || {
            let words = ["count", "packet:b", "--expect", "3000", "--duration", "120s", "--json"];
            let count = net.start(&words, 1);
            let words = ["send", "packet:a", "--load", "20kpps", "--count", "3000", "--size", size, "--json"];
            let sent = net.kpps(&words);
            let (sent, counted) = (document(&sent), count.wait_with_output().unwrap());
            assert!(counted.status.success(), "{}", String::from_utf8_lossy(&counted.stderr));
            let counted = document(&counted);
            for document in [&sent, &counted] {
                jsonschema::validate(&schema, document).unwrap();
                assert_eq!((&document["kind"], &document["complete"]), (&"run".into(), &true.into()));
            }
            assert_eq!(sent["ports"][0]["sent"], 3000);
            assert_eq!(sent["load"]["offered_pps"], 20_000.0);
            let stream = &counted["streams"][0];
            for (name, expected) in
                [("received", 3000), ("lost", 0), ("duplicated", 0), ("reordered", 0), ("corrupted", 0)]
            {
                assert_eq!(stream[name], expected, "{name}");
            }
            let seconds = sent["seconds"].as_f64().unwrap();
            let due = (3000.0 + sent["load"]["shortfall"].as_f64().unwrap()) / 20e3;
            assert!(seconds > due - 0.001, "{seconds} s for frames that take {due} s");
            seconds < due + 0.02
        });
    }
}

#[test]
fn mishaps_are_counted_and_an_interrupted_count_keeps_them() {
    let Some(net) = Net::new(&[("a", "b")]) else { return };
    let count = net.start(&["count", "packet:b", "--duration", "600s", "--json"], 1);
    let mut a = net.end("a");
    let frame = |sequence| {
        let mut frame = udp_test(&Flow::default(), Size::MIN).unwrap();
        tag::write(&mut frame, Tag { stream: 7, sequence, sent_ps: 0 }).unwrap();
        frame
    };
    for sequence in [0, 1, 3, 2, 2, 6] {
        a.send(&frame(sequence));
    }
    let mut bad = frame(4);
    bad[50] ^= 1;
    a.send(&bad);
    a.send(&[&[0xff; 12][..], &[0x88, 0xb5], &[0; 46]].concat());
    // Frames that have arrived by now wait, and are taken.
    let output = stop(count);
    assert_eq!(output.status.code(), Some(130));
    let document = document(&output);
    assert_eq!(document["complete"], false);
    let stream = &document["streams"][0];
    for (name, expected) in
        [("stream", 7), ("received", 6), ("lost", 2), ("duplicated", 1), ("reordered", 1), ("corrupted", 1)]
    {
        assert_eq!(stream[name], expected, "{name}");
    }
    assert_eq!((&document["corrupted"], &document["others"]), (&1.into(), &1.into()));
}

#[test]
fn frames_are_forwarded_in_both_directions_as_they_are() {
    let Some(net) = Net::new(&[("a", "p"), ("q", "b")]) else { return };
    let forward = net.start(&["forward", "packet:p", "packet:q", "--json"], 2);
    let (mut a, mut b) = (net.end("a"), net.end("b"));
    for bytes in [60, 61, 1514] {
        let mut frame = vec![0x5a; bytes];
        frame[12..14].copy_from_slice(&[0x81, 0]);
        a.send(&frame);
        assert_eq!(b.receive("a frame", |_| true), frame, "{bytes} B with a VLAN tag");
        frame[12] = 0x08;
        b.send(&frame);
        assert_eq!(a.receive("a frame", |_| true), frame);
    }
    drop((a, b));
    // No more than rings hold: on a busy machine the forwarder may not run while the sender does.
    let count = net.start(&["count", "packet:b", "--expect", "4000", "--duration", "120s", "--json"], 3);
    assert!(net.kpps(&["send", "packet:a", "--count", "4000", "--load", "20kpps"]).status.success());
    let (counted, output) = (count.wait_with_output().unwrap(), stop(forward));
    assert_eq!(output.status.code(), Some(0), "Ctrl-C is how an endless run ends");
    let document = document(&output);
    assert!(counted.status.success(), "{} {document}", String::from_utf8_lossy(&counted.stderr));
    let ports = document["ports"].as_array().unwrap();
    assert_eq!((&ports[0]["received"], &ports[1]["sent"]), (&4003.into(), &4003.into()));
    assert_eq!((&ports[1]["received"], &ports[0]["sent"]), (&3.into(), &3.into()));
    let busy = document["cpu"]["user_s"].as_f64().unwrap() + document["cpu"]["system_s"].as_f64().unwrap();
    assert!(busy < 0.5 * document["seconds"].as_f64().unwrap(), "it sleeps when idle: {}", document["cpu"]);
}

#[test]
fn a_bridge_learns_and_floods() {
    let Some(net) = Net::new(&[("a", "p0"), ("b", "p1"), ("c", "p2")]) else { return };
    let bridge = net.start(&["bridge", "packet:p0", "packet:p1", "packet:p2", "--json"], 3);
    let (mut a, mut b, mut c) = (net.end("a"), net.end("b"), net.end("c"));
    let frame = |to: u8, from: u8| {
        let mut frame = Vec::new();
        PacketBuilder::ethernet2([2, 0, 0, 0, 0, from], [2, 0, 0, 0, 0, to])
            .ipv4([10, 0, 0, from], [10, 0, 0, to], 64)
            .udp(1, 2)
            .write(&mut frame, &[from; 30])
            .unwrap();
        frame
    };
    a.send(&frame(2, 1));
    assert_eq!(b.receive("the flooded frame", |_| true), frame(2, 1));
    let copy = c.receive("its copy", |_| true);
    let parsed = SlicedPacket::from_ethernet(&copy).unwrap();
    let Some(TransportSlice::Udp(udp)) = parsed.transport else { panic!("no UDP") };
    assert_eq!((udp.destination_port(), udp.payload()), (2, &[1; 30][..]));
    b.send(&frame(1, 2));
    assert_eq!(a.receive("the answer", |_| true), frame(1, 2));
    assert!(c.is_silent(), "who is not meant hears nothing");
    let output = stop(bridge);
    let document = document(&output);
    assert_eq!(
        (&document["app"]["received"], &document["app"]["sent"], &document["app"]["made"]),
        (&2.into(), &3.into(), &1.into())
    );
}

#[test]
fn a_router_routes_and_a_kernel_behind_it_answers() {
    let Some(net) = Net::new(&[("a", "p"), ("q", "host")]) else { return };
    // The kernel is a host in the second network; all else goes by the router.
    let inside = Net::new(&[]).unwrap();
    net.run(&["ip", "link", "set", "host", "netns", inside.name()]);
    inside.run(&["ip", "link", "set", "host", "up"]);
    inside.run(&["ip", "address", "add", "10.0.1.2/24", "dev", "host"]);
    inside.run(&["ip", "route", "add", "default", "via", "10.0.1.1"]);
    let router = net.start(&["route", "packet:p=10.0.0.1/24", "packet:q=10.0.1.1/24", "--json"], 2);
    let mut a = net.end("a");
    let me = [2, 0, 0, 0, 0, 9];
    let ask = |to: [u8; 4]| {
        let message = etherparse::ArpPacket::new(
            etherparse::ArpHardwareId::ETHERNET,
            etherparse::EtherType::IPV4,
            etherparse::ArpOperation::REQUEST,
            &me,
            &[10, 0, 0, 2],
            &[0; 6],
            &to,
        );
        let mut frame = Vec::new();
        PacketBuilder::ethernet2(me, [0xff; 6]).arp(message.unwrap()).write(&mut frame).unwrap();
        frame
    };
    let reply = a.answer(&ask([10, 0, 0, 1]), "an ARP reply", |frame| is_arp(frame, 0));
    let Some(NetSlice::Arp(arp)) = SlicedPacket::from_ethernet(&reply).unwrap().net else { panic!("no ARP") };
    assert_eq!((arp.sender_protocol_addr(), arp.target_hw_addr()), (&[10, 0, 0, 1][..], &me[..]));
    let router_mac: [u8; 6] = arp.sender_hw_addr().try_into().unwrap();

    // Through the router to the kernel, which it must ask for by ARP, and back.
    let mut ping = Vec::new();
    PacketBuilder::ethernet2(me, router_mac)
        .ipv4([10, 0, 0, 2], [10, 0, 1, 2], 64)
        .icmpv4_echo_request(5, 6)
        .write(&mut ping, b"there and back")
        .unwrap();
    let pong = a.answer(&ping, "the kernel's answer", |frame| frame[12..14] == [8, 0]);
    let packet = SlicedPacket::from_ethernet(&pong).unwrap();
    let Some(NetSlice::Ipv4(ip)) = packet.net else { panic!("no IPv4") };
    let header = ip.header().to_header();
    assert_eq!(header.header_checksum, header.calc_header_checksum());
    assert_eq!((header.source, header.time_to_live), ([10, 0, 1, 2], 63));
    let Some(TransportSlice::Icmpv4(icmp)) = packet.transport else { panic!("no ICMP") };
    assert_eq!(icmp.payload(), b"there and back");

    // The last hop of a packet: its sender gets an ICMP error.
    let mut last = ping.clone();
    last[22] = 1;
    let sum = etherparse::Ipv4Header::from_slice(&last[14..]).unwrap().0.calc_header_checksum();
    last[24..26].copy_from_slice(&sum.to_be_bytes());
    let exceeded = |frame: &[u8]| match SlicedPacket::from_ethernet(frame).unwrap().transport {
        Some(TransportSlice::Icmpv4(icmp)) => {
            matches!(icmp.icmp_type(), etherparse::Icmpv4Type::TimeExceeded(_))
        }
        _ => false,
    };
    let told = a.answer(&last, "time exceeded", exceeded);
    let Some(TransportSlice::Icmpv4(icmp)) = SlicedPacket::from_ethernet(&told).unwrap().transport else {
        panic!("no ICMP")
    };
    assert_eq!(icmp.payload(), &last[14..]);

    let document = document(&stop(router));
    let app = &document["app"];
    let dropped: u64 = app["dropped"].as_object().unwrap().values().map(|v| v.as_u64().unwrap()).sum();
    let count = |name: &str| app[name].as_u64().unwrap();
    assert_eq!(count("received") + count("made"), count("sent") + count("held") + dropped, "{app}");
    assert!(app["dropped"]["expired"].as_u64().unwrap() >= 1, "{app}");
}

#[test]
fn a_port_that_goes_away_is_said_in_one_line() {
    until_undisturbed("the port is open before its interface goes away", || {
        let Some(net) = Net::new(&[("a", "b")]) else { return true };
        let count = net.start(&["count", "packet:b", "--duration", "120s"], 1);
        net.run(&["ip", "link", "del", "dev", "a"]);
        let output = count.wait_with_output().unwrap();
        let message = String::from_utf8(output.stderr).unwrap();
        if message.contains("there is no such interface") {
            return false;
        }
        assert_eq!((output.status.code(), message.lines().count()), (Some(1), 1), "{message}");
        assert!(message.contains("has gone"), "{message}");
        true
    });
}

#[test]
fn bad_input_is_one_line() {
    let kpps =
        |words: &[&str]| Command::new(assert_cmd::cargo::cargo_bin("kpps")).args(words).output().unwrap();
    for (words, says) in [
        (&["send", "eth0"][..], "not a port"),
        (&["send", "packet:no-such"], "no such interface"),
        (&["send", "packet:lo", "--size", "9019"], "9018"),
        (&["send", "packet:lo", "--load", "0"], "above 0"),
        (&["count", "uio:ffff:1f:1f.7"], "no PCI device ffff:1f:1f.7"),
        (&["count", "uio:eth0"], "not a PCI address"),
        (&["forward", "packet:lo", "packet:lo"], "given twice"),
        (&["bridge", "packet:lo"], "2"),
        (&["route", "packet:lo"], "10.0.0.1/24"),
        (&["route", "packet:lo=10.0.0.1"], "10.0.0.1/24"),
        (&["route", "packet:lo=10.0.0.1/24", "packet:x=10.0.0.9/25"], "overlap"),
        (
            &["route", "packet:lo=10.0.0.1/24", "--route", "10.9.0.0/16=10.1.1.1"],
            "no interface is in the network",
        ),
        (&["route", "packet:lo@ten=10.0.0.1/24"], "eth1@10"),
        (&["route", "packet:lo@4095=10.0.0.1/24"], "1 to 4094"),
        (&["route", "packet:lo@7=10.0.0.1/24", "packet:lo@7=10.0.1.1/24"], "the same port and VLAN"),
        (&["nat", "packet:lo=10.0.0.1/24"], "2"),
        (&["device", "bind", "ffff:1f:1f.7"], "no PCI device"),
        (&["device", "bind", "00:10.0", "--backend", "uoi"], "uoi"),
    ] {
        let output = kpps(words);
        let message = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{words:?}: {message}");
        assert!(message.contains(says), "{words:?} says: {message}");
        assert_eq!(message.trim_end().lines().count(), 1, "{words:?}: {message}");
    }
}

#[test]
fn a_certificate_is_measured_kept_and_held_against_a_load() {
    let Some(net) = Net::new(&[("a", "b")]) else { return };
    let schema: Value = serde_json::from_slice(&net.kpps(&["schema"]).stdout).unwrap();
    let certificate = document(&net.kpps(&["calibrate", "packet:a", "--duration", "100ms", "--json"]));
    jsonschema::validate(&schema, &certificate).unwrap();
    let ceiling = certificate["ceiling_pps"].as_f64().unwrap();
    let rounds: Vec<f64> =
        certificate["rounds_pps"].as_array().unwrap().iter().map(|pps| pps.as_f64().unwrap()).collect();
    assert!(rounds.len() == 3 && rounds.iter().all(|pps| *pps >= ceiling) && ceiling > 0.0, "{rounds:?}");
    assert_eq!(certificate["paced"].as_array().unwrap().len(), 4);
    let of = &certificate["provenance"];
    assert!(of["ports"]["packet:a"].as_str().unwrap().contains("driver veth"), "{of}");
    assert!(of["command"].as_str().unwrap().contains("calibrate packet:a"), "{of}");
    let gaps = &certificate["paced"][0]["gaps"];
    assert!(gaps["count"].as_u64().unwrap() > 0 && gaps["p50_ns"].as_u64() <= gaps["max_ns"].as_u64());

    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("a.json");
    std::fs::write(&file, certificate.to_string()).unwrap();
    let file = file.to_str().unwrap();
    let trial = |more: &[&str]| {
        let words = ["trial", "--ports", "packet:a,packet:b", "--duration", "200ms", "--json"];
        net.kpps(&[&words[..], more].concat())
    };
    let below = document(&trial(&["--load", "1kpps", "--calibration", file]));
    jsonschema::validate(&schema, &below).unwrap();
    assert_eq!(below["sender"]["ceilings_pps"][0], certificate["ceiling_pps"]);
    assert_eq!((&below["sender"]["source"], &below["sender"]["exceeded"]), (&file.into(), &false.into()));
    assert_eq!(below["directions"][0]["gaps"]["intended_ns"], 1e6);
    // More than anything here can send, and still below the ten gigabits that the kernel reports for a
    // virtual cable. The first line reports this as a generator shortfall; it is no loss of the cable.
    let output = trial(&["--load", "14Mpps"]);
    let above = document(&output);
    assert!(above["sender"].is_null() && above["shortfall"].as_u64() > Some(0), "{above}");
    let sent = above["sent"].as_f64().unwrap();
    let ratio = above["loss_ratio"].as_f64().unwrap();
    assert!((ratio * sent - above["lost"].as_f64().unwrap()).abs() <= 1.0, "{above}");
    let other = trial(&["--load", "1kpps", "--size", "128", "--calibration", file]);
    assert_eq!(other.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&other.stderr).contains("not of packet:a with 128 B"));
}

#[test]
fn shapes_flows_and_vlans_are_sent() {
    let Some(net) = Net::new(&[("a", "b")]) else { return };
    let mut b = net.end("b");
    let words = ["send", "packet:a", "--load", "2kpps", "--count", "60", "--shape", "bursts:20"];
    let more = ["--flows", "3", "--vlan", "7", "--size", "68:2,100:1", "--json"];
    let sent = document(&net.kpps(&[&words[..], &more].concat()));
    assert_eq!(sent["ports"][0]["sent"], 60);
    let frames: Vec<Vec<u8>> = std::iter::from_fn(|| Some(b.drain())).take(4).flatten().collect();
    assert_eq!(frames.len(), 60);
    for (number, frame) in frames.iter().enumerate() {
        let sliced = SlicedPacket::from_ethernet(frame).unwrap();
        let vlan = sliced.vlan_ids()[0];
        let Some(TransportSlice::Udp(udp)) = &sliced.transport else { panic!("{sliced:?}") };
        // Flows take turns frame by frame.
        assert_eq!((vlan.value(), udp.source_port()), (7, 49152 + (number % 3) as u16), "{number}");
    }
    assert_eq!(frames.iter().filter(|frame| frame.len() == 96).count(), 20);
    for shape in ["poisson", "ramp:100/500ms"] {
        let words =
            ["send", "packet:a", "--load", "2kpps", "--duration", "500ms", "--shape", shape, "--json"];
        let sent = document(&net.kpps(&words));
        let told = sent["environment"]["shape"].as_str().unwrap();
        assert!(told.starts_with(&shape[..6]) && sent["load"]["gaps"]["intended_ns"].is_null(), "{told}");
        let intended = sent["load"]["intended"].as_f64().unwrap();
        // 1000 within five standard deviations; a ramp from 100 to 2000 has half of it and a little more.
        let (mean, off) = if shape == "poisson" { (1000.0, 160.0) } else { (525.0, 2.0) };
        assert!((intended - mean).abs() <= off, "{shape}: {intended}");
    }
}

#[test]
fn the_list_of_cards_says_what_document_it_is() {
    let kpps = Command::new(assert_cmd::cargo::cargo_bin("kpps")).args(["device", "list", "--json"]).output();
    let document: serde_json::Value = serde_json::from_slice(&kpps.unwrap().stdout).unwrap();
    assert_eq!((&document["schema"], &document["kind"]), (&"kpps/3".into(), &"devices".into()));
    assert!(document["devices"].is_array(), "{document}");
}

#[test]
fn a_capture_is_sent_again_as_it_was() {
    let Some(net) = Net::new(&[("a", "b")]) else { return };
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("seen.pcap");
    // Frames of others, 20 ms apart, of different sizes.
    let frames: Vec<Vec<u8>> =
        (0..5_u8).map(|n| [&[n; 14][..], &vec![n + 1; 46 + 100 * usize::from(n)]].concat()).collect();
    let mut writer = kpps_frames::pcap::Writer::new(Vec::new()).unwrap();
    for (n, frame) in (0..).zip(&frames) {
        writer.write(n * 20_000_000, frame).unwrap();
    }
    std::fs::write(&file, writer.into_inner()).unwrap();
    let file = file.to_str().unwrap();
    for (more, times, least_s) in
        [(&[][..], 1, 0.08), (&["--speed", "2x", "--loop", "3"], 3, 0.14), (&["--load", "1kpps"], 1, 0.004)]
    {
        until_undisturbed("the sender is not held up", || {
            let mut b = net.end("b");
            let words = [&["send", "packet:a", "--replay", file, "--json"], more].concat();
            let sent = document(&net.kpps(&words));
            assert_eq!(
                (&sent["ports"][0]["sent"], &sent["load"]["shortfall"]),
                (&(5 * times).into(), &0.into()),
                "{sent}"
            );
            for _ in 0..times {
                for frame in &frames {
                    assert_eq!(&b.receive("a frame of the capture", |_| true), frame);
                }
            }
            assert!(b.is_silent());
            let seconds = sent["seconds"].as_f64().unwrap();
            assert!(seconds >= least_s, "{seconds}");
            seconds < least_s + 1.0
        });
    }
    for other in [["--src", "10.0.0.1"], ["--vlan", "7"], ["--stream", "3"]] {
        let output = net.kpps(&[&["send", "packet:a", "--replay", file][..], &other].concat());
        assert_eq!((output.status.code(), output.stdout.is_empty()), (Some(2), true), "{other:?}");
    }
    let output = net.kpps(&["send", "packet:a", "--replay", "/etc/hostname"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("neither pcap nor pcapng"));
}
