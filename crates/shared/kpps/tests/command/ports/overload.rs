//! Router, VLAN router and NAT in an overload: every frame is somewhere, and the kernel's counters say the
//! same.

use crate::net::{Net, document, is_arp, stop};
use serde_json::Value;
use std::process::Command;

const HOST: [[u8; 6]; 2] = [[2, 0, 0, 0, 9, 0], [2, 0, 0, 0, 9, 1]];
/// Frames of each flood.
const FRAMES: u64 = 60_000;

/// The kernel's count at an interface.
fn packets(net: &Net, interface: &str, what: &str) -> u64 {
    let file = format!("/sys/class/net/{interface}/statistics/{what}");
    let output = net.command(&["cat", &file]).output().unwrap();
    String::from_utf8(output.stdout).unwrap().trim().parse().unwrap()
}

/// A host behind a cable makes itself known; returns the router's station there.
fn introduce(net: &Net, end: &str, side: u8, vlan: Option<u8>) -> String {
    let station = HOST[usize::from(side)];
    let message = etherparse::ArpPacket::new(
        etherparse::ArpHardwareId::ETHERNET,
        etherparse::EtherType::IPV4,
        etherparse::ArpOperation::REQUEST,
        &station,
        &[10, 0, side, 2],
        &[0; 6],
        &[10, 0, side, 1],
    );
    let mut frame = Vec::new();
    let start = etherparse::PacketBuilder::ethernet2(station, [0xff; 6]);
    start.arp(message.unwrap()).write(&mut frame).unwrap();
    let tag = vlan.map_or(vec![], |id| vec![0x81, 0, 0, id]);
    let frame = [&frame[..12], &tag, &frame[12..]].concat();
    let mut end = net.end(end);
    end.send(&frame);
    let reply = end.receive("an ARP reply", |frame| is_arp(frame, tag.len()));
    reply[6..12].iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().join(":")
}

fn signal(name: &str, process: u32) {
    let kill = Command::new("kill").args([name, &process.to_string()]).status();
    assert!(kill.unwrap().success());
}

/// Floods a router, first while it stands still, so that its ring overflows. Returns its output, and the
/// frames that came out.
fn flood(words: &[&str], vlans: Option<[u8; 2]>, more: &[&str]) -> Option<[Value; 2]> {
    let net = Net::new(&[("a", "p"), ("q", "b")])?;
    let before = ["p", "q"].map(|interface| packets(&net, interface, "rx_packets"));
    let count = net.start(&["count", "packet:b", "--duration", "600s", "--json"], 1);
    let router = net.start(&[words, &["--json"]].concat(), 3);
    let to = introduce(&net, "a", 0, vlans.map(|vlans| vlans[0]));
    introduce(&net, "b", 1, vlans.map(|vlans| vlans[1]));

    let vlan = vlans.map(|vlans| vlans[0].to_string());
    let vlan: Vec<_> = vlan.iter().flat_map(|vlan| ["--vlan", vlan.as_str(), "--size", "68"]).collect();
    let send = |stream: &str| {
        let frames = FRAMES.to_string();
        let load = ["send", "packet:a", "--load", "max", "--count", &frames, "--stream", stream, "--json"];
        let ends = ["--dst-mac", &to, "--src", "10.0.0.2", "--dst", "10.0.1.2"];
        let sent = document(&net.kpps(&[&load[..], &ends, &vlan[..], more].concat()));
        assert_eq!(sent["ports"][0]["sent"], FRAMES);
    };
    // While it stands still its ring overflows; then it is flooded at work.
    signal("-STOP", router.id());
    send("0");
    signal("-CONT", router.id());
    send("1");
    // Both still take what waits for them.
    let (routed, counted) = (document(&stop(router)), document(&stop(count)));

    let number = |value: &Value| value.as_u64().unwrap_or(0);
    let sum = |places: &Value| places.as_object().unwrap().values().map(number).sum::<u64>();
    let ports = routed["ports"].as_array().unwrap();
    // The router has received or missed all frames that the kernel brought to each port.
    for (port, (interface, before)) in ports.iter().zip(["p", "q"].into_iter().zip(before)) {
        let came = packets(&net, interface, "rx_packets") - before;
        assert_eq!(came, number(&port["received"]) + number(&port["drops"]["missed"]), "{interface}: {port}");
    }
    let app = &routed["app"];
    assert_eq!(number(&app["received"]), ports.iter().map(|port| number(&port["received"])).sum::<u64>());
    let ended = sum(&app["dropped"]);
    assert_eq!(
        number(&app["received"]) + number(&app["made"]),
        number(&app["sent"]) + number(&app["held"]) + ended,
        "{app}"
    );
    // Frames that the app sent have left by a port, or are among its drops. Frames that left are at the other
    // end of the cable.
    let left = |port: &Value| number(&port["sent"]) + sum(&port["drops"]) - number(&port["drops"]["missed"]);
    assert_eq!(number(&app["sent"]), ports.iter().map(left).sum::<u64>(), "{app} {ports:?}");
    let came_out = number(&counted["ports"][0]["received"]) + number(&counted["ports"][0]["drops"]["missed"]);
    assert_eq!(
        number(&ports[1]["sent"]),
        came_out + number(&packets(&net, "q", "tx_dropped").into()),
        "{ports:?}"
    );
    let streams = counted["streams"].as_array().unwrap();
    assert!(streams.iter().all(|stream| stream["duplicated"] == 0) && counted["corrupted"] == 0, "{counted}");
    // It was an overload, and no standstill.
    assert!(number(&ports[0]["drops"]["missed"]) > 1000, "nothing was missed: {ports:?}");
    assert!(streams.iter().map(|stream| number(&stream["received"])).sum::<u64>() > 1000, "{counted}");
    Some([routed, counted])
}

#[test]
fn a_flooded_router_knows_where_every_frame_is() {
    let Some([routed, _]) = flood(&["route", "packet:p=10.0.0.1/24", "packet:q=10.0.1.1/24"], None, &[])
    else {
        return;
    };
    // It announces its two addresses, and 2 s later once more.
    let made = routed["app"]["made"].as_u64();
    assert!([Some(2), Some(4)].contains(&made), "{made:?}");
}

#[test]
fn so_does_one_between_vlans() {
    flood(&["route", "packet:p@10=10.0.0.1/24", "packet:q@20=10.0.1.1/24"], Some([10, 20]), &[]);
}

/// Of two hundred flows half find room in the table. Senders of the others get an ICMP error, a thousand
/// times a second at most.
#[test]
fn so_does_a_nat_whose_table_is_full() {
    let words = ["nat", "packet:p=10.0.0.1/24", "packet:q=10.0.1.1/24", "--mappings", "100"];
    let Some([routed, counted]) = flood(&words, None, &["--flows", "200"]) else { return };
    let app = &routed["app"];
    let full = app["dropped"]["table_full"].as_u64().unwrap();
    assert!(full > 1000 && app["made"].as_u64().unwrap() > 0, "{app}");
    assert!(app["made"].as_u64().unwrap() <= full, "{app}");
    let received =
        counted["streams"].as_array().unwrap().iter().map(|stream| stream["received"].as_u64().unwrap());
    assert!(received.sum::<u64>() <= FRAMES, "{counted}");
}
