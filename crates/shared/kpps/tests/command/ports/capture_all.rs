//! The capture of all frames of both ports: `kpps trial --capture-all`.

use super::capture::{Done, mangle, read};
use crate::net::{Middle, Net, document};
use kpps_frames::capture::Capture;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs::File;
use std::path::Path;
use std::process::Command;

/// A trial that captures all frames.
fn trial(net: &Net, file: &Path, ports: &str, more: &[&str]) -> Value {
    let file = file.to_str().unwrap();
    let words = ["trial", "--ports", ports, "--load", "4kpps", "--capture-all", file, "--json"];
    let trial = document(&net.kpps(&[&words[..], more].concat()));
    let schema: Value = serde_json::from_slice(&net.kpps(&["schema"]).stdout).unwrap();
    jsonschema::validate(&schema, &trial).unwrap();
    assert_eq!(trial["capture_all"]["file"], file);
    trial
}

/// A count of each port of the capture, all together.
fn sum(trial: &Value, what: &str) -> u64 {
    trial["capture_all"]["ports"].as_array().unwrap().iter().map(|port| port[what].as_u64().unwrap()).sum()
}

/// The frames of a capture whose comments contain these words, at this port.
fn count(frames: &[(u32, std::time::Duration, Vec<u8>, String)], port: u32, words: &[&str]) -> u64 {
    let has = |why: &str| words.iter().all(|word| why.contains(word));
    frames.iter().filter(|(at, .., why)| *at == port && has(why)).count() as u64
}

#[test]
fn every_frame_of_both_ports_is_in_the_file() {
    let Some(net) = Net::bridge() else { return };
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("all.pcapng");
    let more = ["--duration", "250ms", "--drain", "10s", "--bidirectional", "--flows", "3"];
    let trial = trial(&net, &file, "packet:a,packet:b", &more);
    let (names, frames) = read(&file);
    assert_eq!(names, ["packet:a", "packet:b"]);
    assert_eq!(sum(&trial, "overwritten"), 0);
    assert_eq!(frames.len() as u64, sum(&trial, "sent") + sum(&trial, "received"), "{trial}");
    assert_eq!(trial["capture_all"]["frames"], frames.len());
    assert!(frames.is_sorted_by_key(|(_, at, ..)| *at));
    for (port, direction) in trial["directions"].as_array().unwrap().iter().enumerate() {
        let of = format!("of direction {}, flow ", port + 1);
        let (from, to) = (port as u32, 1 - port as u32);
        assert_eq!(count(&frames, from, &[&of]), direction["sent"], "{trial}");
        assert_eq!(count(&frames, to, &[&of, ": in order"]), direction["received"], "{trial}");
        assert_eq!(count(&frames, to, &["other traffic: "]), direction["other_traffic"], "{trial}");
        assert!(
            count(&frames, from, &["learning frame"]) > 0 && count(&frames, to, &["ARP announcement"]) > 0
        );
        // Flows take turns.
        for flow in 0..3 {
            let frames = count(&frames, from, &[&format!("{of}{flow}")]);
            assert!(frames.abs_diff(direction["sent"].as_u64().unwrap() / 3) <= 1, "{of}{flow}: {frames}");
        }
    }
    // Our own reader finds the same frames.
    let again: Vec<_> = Capture::new(File::open(&file).unwrap()).unwrap().map(Result::unwrap).collect();
    let same = again.iter().zip(&frames).all(|(one, (_, at, bytes, _))| {
        one.at_ns == Some(at.as_nanos() as i128) && one.bytes == *bytes && one.length == bytes.len()
    });
    assert!(same && again.len() == frames.len());
    are_read_by_tshark(&file, &trial);
}

/// An independent reader finds the frames of each port and direction.
fn are_read_by_tshark(file: &Path, trial: &Value) {
    let mut command = Command::new("tshark");
    command.arg("-r").arg(file).args(["-T", "fields"]);
    for field in ["interface_name", "packet_flags_direction", "comment"] {
        command.args(["-e", &format!("frame.{field}")]);
    }
    let Ok(output) = command.output() else { return kpps_namespaces::skip::needs("tshark") };
    let mut counts = BTreeMap::<_, u64>::new();
    for line in String::from_utf8(output.stdout).unwrap().lines() {
        let [name, direction, why] = line.split('\t').collect::<Vec<_>>()[..] else { panic!("{line}") };
        let is_test_frame = why.starts_with("test frame");
        *counts.entry((name.to_owned(), direction.ends_with('1'), is_test_frame)).or_default() += 1;
    }
    for (at, name) in ["packet:a", "packet:b"].into_iter().enumerate() {
        let of = |is_in, is_test| counts.get(&(name.to_owned(), is_in, is_test)).copied().unwrap_or(0);
        let all = |is_in| of(is_in, true) + of(is_in, false);
        let port = &trial["capture_all"]["ports"][at];
        assert_eq!((&port["received"], &port["sent"]), (&all(true).into(), &all(false).into()), "{counts:?}");
        assert_eq!(of(false, true), trial["directions"][at]["sent"]);
    }
}

/// The comments of frames that something happened to are as many as the document counts, and name the frames
/// that `--capture` has.
#[test]
fn the_verdicts_are_those_of_the_document() {
    let Some(net) = Net::new(&[("a", "pa"), ("b", "pb")]) else { return };
    let _mangler = Middle::between(net.end("pa"), net.end("pb"), Done::default(), mangle);
    let folder = tempfile::tempdir().unwrap();
    let [file, odd] = ["all.pcapng", "odd.pcapng"].map(|name| folder.path().join(name));
    let more = ["--duration", "500ms", "--drain", "10s", "--capture", odd.to_str().unwrap()];
    let trial = trial(&net, &file, "packet:a,packet:b", &more);
    let (_, frames) = read(&file);
    assert_eq!(frames.len() as u64, sum(&trial, "sent") + sum(&trial, "received"), "{trial}");
    for kind in ["duplicated", "reordered", "corrupted", "other traffic"] {
        let here = count(&frames, 1, &[kind]);
        assert_eq!(trial[kind.replace(' ', "_")], here, "{kind}: {trial}");
        assert!(here > 0, "{kind}");
    }
    // A frame that was held back came after the next one.
    let late = frames.iter().find(|(.., why)| why.contains("reordered")).unwrap();
    let number = late.3.split(' ').nth(2).unwrap().parse::<u64>().unwrap();
    assert!(
        late.3.ends_with(&format!("of direction 1: reordered, after frame {}", number + 1)),
        "{}",
        late.3
    );
    let (_, odd) = read(&odd);
    let all: Vec<_> =
        frames.iter().filter(|(port, .., why)| *port == 1 && !why.contains("in order")).collect();
    for (_, at, bytes, why) in &odd {
        let kind = why.rsplit(": ").next().unwrap();
        let same = |(_, when, frame, why): &&&(u32, _, Vec<u8>, String)| {
            frame == bytes && when == at && why.contains(kind)
        };
        assert!(all.iter().any(|frame| same(&frame)), "{why}");
    }
}

#[test]
fn the_newest_frames_stay_in_a_small_ring() {
    let Some(net) = Net::bridge() else { return };
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("all.pcapng");
    let more = ["--duration", "1s", "--drain", "10s", "--size", "1518", "--capture-ring", "2MB"];
    let trial = trial(&net, &file, "packet:a,packet:b", &more);
    let (_, frames) = read(&file);
    let (kept, overwritten) = (frames.len() as u64, sum(&trial, "overwritten"));
    assert_eq!(kept + overwritten, sum(&trial, "sent") + sum(&trial, "received"), "{trial}");
    assert!(overwritten > 0 && kept > 2000, "{trial}");
    let sent = trial["sent"].as_u64().unwrap();
    let last = format!("test frame {} of direction 1", sent - 1);
    assert_eq!(count(&frames, 0, &[&last]), 1, "the last one is there");
    let numbers: Vec<u64> = frames
        .iter()
        .filter(|(port, .., why)| *port == 0 && why.starts_with("test frame"))
        .map(|(.., why)| why.split(' ').nth(2).unwrap().parse().unwrap())
        .collect();
    assert!(
        numbers.windows(2).all(|pair| pair[1] == pair[0] + 1),
        "no frame between the newest ones is missing"
    );
}
