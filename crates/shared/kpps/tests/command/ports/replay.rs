//! Captures that are hard to replay: each frame is sent once or counted as generator shortfall, and a frame
//! that cannot be sent is refused before the first frame.

use crate::net::{End, Middle, Net, document};
use kpps_namespaces::{signal, until_undisturbed};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Output;
use std::time::Duration;

/// The n-th frame, of `bytes` bytes, with its number at the beginning of its payload.
fn frame(n: u16, bytes: usize) -> Vec<u8> {
    [&[2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 0x88, 0xb5][..], &n.to_be_bytes(), &vec![7; bytes - 16]].concat()
}

fn number(frame: &[u8]) -> Option<u16> {
    (frame.get(12..14)? == [0x88, 0xb5]).then(|| u16::from_be_bytes([frame[14], frame[15]]))
}

/// A capture of these frames, a millisecond apart.
fn capture(folder: &Path, frames: impl IntoIterator<Item = Vec<u8>>) -> PathBuf {
    let mut writer = kpps_frames::pcap::Writer::new(Vec::new()).unwrap();
    for (n, frame) in (0..).zip(frames) {
        writer.write(n * 1_000_000, &frame).unwrap();
    }
    let path = folder.join("seen.pcap");
    std::fs::write(&path, writer.into_inner()).unwrap();
    path
}

/// Notes the numbers of all frames that come to an interface.
fn listener(net: &Net, interface: &str, idle: &str) -> Middle<Vec<u16>> {
    let note = |all: &mut Vec<u16>, frame: Option<Vec<u8>>, _: &mut End| {
        all.extend(frame.and_then(|it| number(&it)))
    };
    Middle::between(net.end(interface), net.end(idle), Vec::new(), note)
}

fn refused(output: &Output, says: &str) {
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains(says) && said.trim_end().lines().count() == 1, "{says}: {said}");
    assert_eq!((output.status.code(), output.stdout.is_empty()), (Some(2), true), "{said}");
}

/// A process that does not run for a while, at a rate and at the times of the capture.
#[test]
fn a_stalled_replay_sends_no_frame_twice() {
    const FRAMES: u16 = 1000;
    let Some(net) = Net::new(&[("a", "b"), ("c", "d")]) else { return };
    let folder = tempfile::tempdir().unwrap();
    let file = capture(folder.path(), (0..FRAMES).map(|n| frame(n, 60)));
    for more in [&["--load", "1kpps"][..], &["--speed", "1x"]] {
        until_undisturbed("it is stopped while it sends", || {
            let listener = listener(&net, "b", "c");
            let before = net.sent("a");
            let words = [&["send", "packet:a", "--replay", file.to_str().unwrap(), "--json"], more].concat();
            let mut child = net.start(&words, 1);
            // It has begun: the stall is within the replay, unless this thread does not run either.
            while net.sent("a") < before + 50 && child.try_wait().unwrap().is_none() {
                std::thread::sleep(Duration::from_millis(1));
            }
            signal(&child, "-STOP");
            std::thread::sleep(Duration::from_millis(300));
            signal(&child, "-CONT");
            let sent = document(&child.wait_with_output().unwrap());
            let arrived = net.sent("a") - before;
            std::thread::sleep(Duration::from_millis(100));
            let numbers = listener.stop();
            let load = &sent["load"];
            let shortfall = load["shortfall"].as_u64().unwrap();
            assert_eq!(load["intended"], FRAMES, "{sent}");
            // The frames that the interface has sent, by its own counter.
            assert_eq!(arrived + shortfall, u64::from(FRAMES), "{sent}");
            assert!(numbers.windows(2).all(|pair| pair[0] < pair[1]), "{numbers:?}");
            // The listener's queue may have been full on a busy machine.
            numbers.len() as u64 == arrived && shortfall > 0
        });
    }
}

/// The first frame that is too long for the port is named, at any load, and nothing is sent.
#[test]
fn a_frame_that_is_too_long_is_refused_by_its_number() {
    let Some(net) = Net::new(&[("a", "b")]) else { return };
    let folder = tempfile::tempdir().unwrap();
    let long = [60, 1514, 3000, 60, 4000];
    let file = capture(folder.path(), (0..).zip(long).map(|(n, bytes)| frame(n, bytes)));
    let file = file.to_str().unwrap();
    let before = (net.sent("a"), net.sent("b"));
    for load in [&[][..], &["--load", "1kpps"], &["--load", "max", "--duration", "100ms"]] {
        for words in
            [&["send", "packet:a"][..], &["send", "xdp:a"], &["trial", "--ports", "packet:a,packet:b"]]
        {
            let output = net.kpps(&[words, &["--replay", file], load].concat());
            refused(&output, "frame 3 of the capture has 3004 B with FCS and does not fit ");
        }
    }
    // One port of the two takes them.
    net.run(&["ip", "link", "set", "dev", "a", "mtu", "9000"]);
    let output = net.kpps(&["trial", "--ports", "packet:a,packet:b", "--replay", file]);
    refused(&output, "does not fit packet:b, which sends at most 1518 B: `ip link set dev b mtu 2986`");
    assert_eq!((net.sent("a"), net.sent("b")), before);
    // A VLAN tag may exceed the MTU.
    let tagged = [&frame(1, 60)[..12], &[0x81, 0, 0, 7, 8, 0], &[7; 1500]].concat();
    let file = capture(folder.path(), [frame(0, 60), tagged]);
    let words = ["send", "packet:b", "--replay", file.to_str().unwrap(), "--load", "max", "--json"];
    let sent = document(&net.kpps(&words));
    assert_eq!((net.sent("b") - before.1, &sent["load"]["shortfall"]), (2, &0.into()), "{sent}");
}

/// Frames with short snapshots, of another link layer, compressed, and cut off: the result names the changes.
#[test]
fn what_changes_in_a_capture_is_said() {
    let Some(net) = Net::new(&[("a", "b")]) else { return };
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("seen");
    let file = |snap: u32, link: u32, records: &[(u32, u32, &[u8])]| {
        let words = |words: &[u32]| words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<u8>>();
        let head = words(&[0xa1b2_c3d4, 0x0004_0002, 0, 0, snap, link]);
        let records = records.iter().map(|(at, length, bytes)| {
            [&words(&[1_700_000_000 + at, 0, bytes.len() as u32, *length]), *bytes].concat()
        });
        [head, records.collect::<Vec<_>>().concat()].concat()
    };
    let ip = [&[0x45, 0, 0, 60, 0, 1, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2][..], &[9; 40]].concat();
    let ethernet = [&[2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0][..], &ip].concat();
    let cut = [&frame(1, 96), &vec![0; 1418][..]].concat();
    let (whole, short) = (frame(0, 60), frame(1, 96));
    let two: [(u32, u32, &[u8]); 2] = [(0, 60, &whole), (1, 1514, &short)];
    let mut ends = file(0, 1, &[(0, 60, &whole), (1, 60, &whole)]);
    ends.truncate(ends.len() - 5);
    let again: [(u32, u32, &[u8]); 2] = [(9, 60, &whole), (5, 60, &whole)];
    for (contents, frames, departures) in [
        (file(96, 1, &two), vec![&whole, &cut], vec!["cut off in the capture, filled with zeros: frame 2"]),
        (
            file(0, 101, &[(0, 60, &ip)]),
            vec![&ethernet],
            vec!["without Ethernet addresses in the capture, sent to 02:00:00:00:00:02: frame 1"],
        ),
        (ends, vec![&whole], vec!["the capture ends within frame 2"]),
        (file(0, 1, &again), vec![&whole, &whole], vec![]),
    ] {
        std::fs::write(&path, contents).unwrap();
        let mut b = net.end("b");
        let words = ["send", "packet:a", "--load", "1kpps", "--json", "--replay", path.to_str().unwrap()];
        let output = net.kpps(&words);
        let sent = document(&output);
        for expected in &frames {
            assert_eq!(&&b.receive("a frame of the capture", |_| true), expected);
        }
        let said: Vec<_> =
            sent["load"]["departures"].as_array().into_iter().flatten().map(Value::to_string).collect();
        assert_eq!(said.len(), departures.len(), "{said:?}");
        assert!(said.iter().zip(&departures).all(|(said, begin)| said.contains(begin)), "{said:?}");
    }
    // A capture of a clock that was set by 54 years, at its own times.
    std::fs::write(&path, file(0, 1, &[(0, 60, &whole), (1, 60, &whole), (1_704_067_200, 60, &whole)]))
        .unwrap();
    let words = ["send", "packet:a", "--replay", path.to_str().unwrap()];
    refused(&net.kpps(&words), "frame 3 is due 54.0 years after the frame before it");
    let sent = document(&net.kpps(&[&words[..], &["--duration", "1500ms", "--json"]].concat()));
    assert!(
        sent["load"]["departures"][0].as_str().unwrap().starts_with("frame 3 is due 54.0 years"),
        "{sent}"
    );
}

/// A file of 20 GB with nothing but a beginning takes neither memory nor time.
#[test]
fn a_file_with_a_hole_is_refused_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("holes.pcap");
    let header = [0xa1b2_c3d4_u32, 0x0004_0002, 0, 0, 0, 1].map(u32::to_le_bytes).concat();
    let section = [0x0a0d_0d0a_u32, 28, 0x1a2b_3c4d, 1, 0, 0, 28].map(u32::to_le_bytes).concat();
    for (head, says) in [
        (header, "frame 1 has 0 bytes"),
        (section, "is broken at frame 1: a block has 0 bytes"),
        (vec![], "is no capture"),
    ] {
        std::fs::write(&path, head).unwrap();
        std::fs::File::options().write(true).open(&path).unwrap().set_len(20 << 30).unwrap();
        let name = path.to_str().unwrap();
        let kpps = assert_cmd::cargo::cargo_bin("kpps");
        // With less memory than the file is long.
        for words in [
            format!("send udp:127.0.0.1:9 --replay {name} --load 1kpps"),
            format!("send udp:127.0.0.1:9 --template {name}"),
        ] {
            let limited = format!("ulimit -v 2000000; exec {} {words}", kpps.display());
            let output = std::process::Command::new("sh").args(["-c", &limited]).output().unwrap();
            let says =
                if words.contains("--replay") || !says.starts_with("frame") { says } else { "the frame of " };
            refused(&output, says);
        }
    }
}
