//! scapy, an independent program, must read frames of any stack of headers as they were meant, and compute
//! the same lengths and checksums.
#![allow(clippy::unwrap_used)]
#![cfg(target_os = "linux")]

use kpps_frames::edits::Combine;
use kpps_frames::pcap::Writer;
use kpps_frames::stack::Between;
use kpps_frames::tag::Tag;
use kpps_frames::{Mac, Mix, Size, Stack};
use serde_json::{Value, json};
use std::path::Path;
use std::process::Command;

/// Frames of each stack.
const FRAMES: u64 = 40;

/// The frames of a stack whose fields follow these patterns, with tags, as a capture.
fn capture(path: &Path, headers: &str, fields: &[(&str, &str)], size: u16, combine: Combine) {
    let mut stack = Stack::read(headers).unwrap();
    fields.iter().for_each(|(name, pattern)| stack.set_text(name, pattern).unwrap());
    let macs = [Mac([2, 0, 0, 0, 0, 1]), Mac([2, 0, 0, 0, 0, 2])];
    let between = Between { macs, ips: [[198, 18, 0, 1].into(), [198, 19, 0, 1].into()] };
    let mix = Mix::fixed(Size::with_fcs(size));
    let templates = stack.combined(combine).templates(&between, &mix).unwrap().of_trial(7);
    let mut writer = Writer::new(std::fs::File::create(path).unwrap()).unwrap();
    for sequence in 0..FRAMES {
        let mut frame = vec![0; 2048];
        let bytes = templates.write(sequence, &mut frame).unwrap();
        frame.truncate(bytes.into());
        let tag = Tag { stream: 3, sequence, sent_ps: sequence * 1_000_000 };
        templates.tag().write(&mut frame, tag).unwrap();
        writer.write(sequence * 1000, &frame).unwrap();
    }
}

/// Headers, fields with their patterns, the size with FCS, and what scapy is to find.
type Case = (&'static str, &'static [(&'static str, &'static str)], u16, Value);

fn cases() -> Vec<Case> {
    let up = |from: u64, count: u64| (from..from + count).collect::<Vec<_>>();
    let down = |from: u64, count: u64| (0..count).map(|n| from - n).collect::<Vec<_>>();
    vec![
        (
            "ethernet/ipv4/udp",
            &[("ipv4.src", "10.0.0.1-10.0.0.3"), ("udp.sport", "30000-30006"), ("ipv4.dscp", "46")],
            100,
            json!({
                "headers": ["Ether", "IP", "UDP"],
                "fields": [
                    ["IP", 0, "src", ["10.0.0.1", "10.0.0.2", "10.0.0.3"]],
                    ["UDP", 0, "sport", up(30_000, 7)],
                    ["IP", 0, "tos", [46 << 2]],
                ],
            }),
        ),
        (
            "ethernet/svlan/vlan/ipv4/tcp",
            &[
                ("svlan.id", "100-104"),
                ("vlan.id", "4095-4090"),
                ("tcp.sport", "30009-30000/3"),
                ("tcp.sequence", "7"),
            ],
            200,
            json!({
                "headers": ["Ether", "Dot1AD", "Dot1Q", "IP", "TCP"],
                "fields": [
                    ["Dot1AD", 0, "vlan", up(100, 5)],
                    ["Dot1Q", 0, "vlan", down(4095, 6)],
                    ["TCP", 0, "sport", [30_009, 30_006, 30_003, 30_000]],
                    ["TCP", 0, "seq", [7]],
                ],
            }),
        ),
        (
            "ethernet/mpls/mpls/ipv4/udp",
            &[("mpls.label", "16-19"), ("mpls.2.label", "1048575"), ("ipv4.ttl", "9-1")],
            300,
            json!({
                "headers": ["Ether", "MPLS", "MPLS", "IP", "UDP"],
                "fields": [
                    ["MPLS", 0, "label", up(16, 4)],
                    ["MPLS", 1, "label", [1_048_575]],
                    ["MPLS", 0, "s", [0]],
                    ["MPLS", 1, "s", [1]],
                    ["IP", 0, "ttl", down(9, 9)],
                ],
            }),
        ),
        (
            "ethernet/vlan/ipv6/udp",
            &[("ipv6.dst", "2001:2::fffe-2001:2::1:1"), ("ipv6.label", "0-20")],
            128,
            json!({
                "headers": ["Ether", "Dot1Q", "IPv6", "UDP"],
                "fields": [
                    ["IPv6", 0, "dst", ["2001:2::fffe", "2001:2::ffff", "2001:2::1:0", "2001:2::1:1"]],
                    ["IPv6", 0, "fl", up(0, 21)],
                ],
            }),
        ),
        (
            "ethernet/ipv6/tcp",
            &[("tcp.dport", "30000-30012"), ("ipv6.src", "2001:2::5")],
            1518,
            json!({
                "headers": ["Ether", "IPv6", "TCP"],
                "fields": [["TCP", 0, "dport", up(30_000, 13)], ["IPv6", 0, "src", ["2001:2::5"]]],
            }),
        ),
        (
            "ethernet/ipv4/icmp",
            &[("ipv4.id", "65530-65535")],
            90,
            json!({"headers": ["Ether", "IP", "ICMP"], "fields": [["IP", 0, "id", up(65_530, 6)]]}),
        ),
        (
            "ethernet/ipv4/gre/ipv4/udp",
            &[("ipv4.2.dst", "10.9.0.1-10.9.0.2"), ("udp.dport", "30000-30100")],
            150,
            json!({
                "headers": ["Ether", "IP", "GRE", "IP", "UDP"],
                "fields": [
                    ["IP", 1, "dst", ["10.9.0.1", "10.9.0.2"]],
                    ["UDP", 0, "dport", up(30_000, 101)],
                    ["GRE", 0, "proto", [0x0800]],
                ],
            }),
        ),
        (
            "ethernet/ipv4/udp/vxlan/ethernet/ipv4/udp",
            &[
                ("vxlan.network", "5000-5002"),
                ("udp.2.sport", "30000-30030"),
                ("ethernet.2.src", "02:00:00:00:00:10-02:00:00:00:00:11"),
            ],
            256,
            json!({
                "headers": ["Ether", "IP", "UDP", "VXLAN", "Ether", "IP", "UDP"],
                "fields": [
                    ["VXLAN", 0, "vni", up(5000, 3)],
                    ["UDP", 0, "dport", [4789]],
                    ["UDP", 1, "sport", up(30_000, 31)],
                    ["Ether", 1, "src", ["02:00:00:00:00:10", "02:00:00:00:00:11"]],
                ],
            }),
        ),
    ]
}

#[test]
fn scapy_reads_each_frame_and_computes_the_same_checksums() {
    let Some(python) = kpps_namespaces::python("scapy.all") else {
        return kpps_namespaces::skip::needs("Python with scapy (make install-python)");
    };
    let folder = tempfile::tempdir().unwrap();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/scapy/judge.py");
    let product = (
        "ethernet/ipv4/udp",
        &[("ipv4.src", "10.0.0.1-10.0.0.3"), ("udp.sport", "30000-30001")][..],
        64,
        json!({
            "headers": ["Ether", "IP", "UDP"],
            "fields": [
                ["IP", 0, "src", ["10.0.0.1", "10.0.0.2", "10.0.0.3"]],
                ["UDP", 0, "sport", [30_000, 30_000, 30_000, 30_001, 30_001, 30_001]],
            ],
        }),
    );
    let lockstep = cases().into_iter().map(|case| (case, Combine::Lockstep));
    for ((headers, fields, size, expected), combine) in lockstep.chain([(product, Combine::Product)]) {
        let file = folder.path().join("frames.pcap");
        capture(&file, headers, fields, size, combine);
        let judged =
            Command::new(&python).arg(&script).arg(&file).arg(expected.to_string()).output().unwrap();
        let said = String::from_utf8_lossy(&judged.stdout);
        let complained = String::from_utf8_lossy(&judged.stderr);
        assert!(
            judged.status.success() && said.trim() == format!("{FRAMES} frames"),
            "{headers}: {complained}"
        );
    }
}

/// The judge finds a frame that is wrong.
#[test]
fn scapy_refuses_a_wrong_checksum() {
    let Some(python) = kpps_namespaces::python("scapy.all") else {
        return kpps_namespaces::skip::needs("Python with scapy (make install-python)");
    };
    let folder = tempfile::tempdir().unwrap();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/scapy/judge.py");
    let file = folder.path().join("frames.pcap");
    capture(&file, "ethernet/ipv4/tcp", &[("tcp.checksum", "77")], 100, Combine::Lockstep);
    let expected = json!({"headers": ["Ether", "IP", "TCP"], "fields": []}).to_string();
    let judged = Command::new(&python).arg(&script).arg(&file).arg(expected).output().unwrap();
    let complained = String::from_utf8_lossy(&judged.stderr);
    assert!(!judged.status.success() && complained.contains("scapy builds another one"), "{complained}");
}
