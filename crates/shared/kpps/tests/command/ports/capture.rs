//! Frames to which something happened, in a file that others can read.

use crate::net::{End, Middle, Net, document, tag_of};
use pcap_file::pcapng::blocks::enhanced_packet::EnhancedPacketOption;
use pcap_file::pcapng::blocks::interface_description::InterfaceDescriptionOption;
use pcap_file::pcapng::{Block, PcapNgReader};
use serde_json::Value;
use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::path::Path;
use std::time::{Duration, SystemTime};

/// The interfaces of a capture; and its frames: interface, time since 1970, bytes, comment.
pub(super) type Contents = (Vec<String>, Vec<(u32, Duration, Vec<u8>, String)>);

pub(super) fn read(path: &Path) -> Contents {
    let mut reader = PcapNgReader::new(File::open(path).unwrap()).unwrap();
    let (mut names, mut frames) = (Vec::new(), Vec::new());
    while let Some(block) = reader.next_block() {
        match block.unwrap() {
            Block::InterfaceDescription(interface) => {
                names.extend(interface.options.iter().filter_map(|option| match option {
                    InterfaceDescriptionOption::IfName(name) => Some(name.to_string()),
                    _ => None,
                }));
            }
            Block::EnhancedPacket(packet) => {
                let comment = packet.options.iter().find_map(|option| match option {
                    EnhancedPacketOption::Comment(comment) => Some(comment.to_string()),
                    _ => None,
                });
                let bytes = packet.data.into_owned();
                assert_eq!(packet.original_len as usize, bytes.len());
                frames.push((packet.interface_id, packet.timestamp, bytes, comment.unwrap()));
            }
            other => panic!("{other:?}"),
        }
    }
    (names, frames)
}

/// A trial that keeps frames, with whatever else is asked for.
fn trial(net: &Net, file: &Path, more: &[&str]) -> Value {
    let file = file.to_str().unwrap();
    let words = ["trial", "--ports", "packet:a,packet:b", "--load", "4kpps", "--capture", file, "--json"];
    let trial = document(&net.kpps(&[&words[..], more].concat()));
    let schema: Value = serde_json::from_slice(&net.kpps(&["schema"]).stdout).unwrap();
    jsonschema::validate(&schema, &trial).unwrap();
    assert_eq!(trial["capture"]["file"], file);
    trial
}

/// How often something was done to the frames of each stream, and a frame that is held back.
pub(super) type Done = (HashMap<u32, BTreeMap<&'static str, u64>>, Option<Vec<u8>>);

/// A frame of no trial.
fn stray() -> Vec<u8> {
    [&[0xff; 6][..], &[2, 9, 9, 9, 9, 9], &[0x88, 0xb5], &[7; 46]].concat()
}

/// Passes a frame on, and does something to some of them.
pub(super) fn mangle((done, held): &mut Done, frame: Option<Vec<u8>>, to: &mut End) {
    let Some(mut frame) = frame else { return };
    let Some((trial, tag)) = tag_of(&frame) else { return to.send(&frame) };
    let what = match tag.sequence % 20 {
        3 => "duplicated",
        5 | 6 => "corrupted",
        9 => "reordered",
        12 => "other traffic",
        _ => "",
    };
    *done.entry(trial).or_default().entry(what).or_default() += 1;
    match what {
        "duplicated" => to.send(&frame),
        // The tag of every second frame cannot be read any longer: its time was changed.
        "corrupted" => frame[if tag.sequence % 20 == 5 { 15 } else { 53 }] ^= 4,
        "other traffic" => to.send(&stray()),
        "reordered" => return *held = Some(frame),
        _ => {}
    }
    to.send(&frame);
    held.take().iter().for_each(|frame| to.send(frame));
}

#[test]
fn frames_that_something_happened_to_are_in_the_file() {
    let Some(net) = Net::new(&[("a", "pa"), ("b", "pb")]) else { return };
    let mangler = Middle::between(net.end("pa"), net.end("pb"), Done::default(), mangle);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("odd.pcapng");
    let begin = SystemTime::UNIX_EPOCH.elapsed().unwrap();
    // A busy machine gives the mangler little time.
    let trial = trial(&net, &file, &["--duration", "500ms", "--drain", "10s"]);
    let now = SystemTime::UNIX_EPOCH.elapsed().unwrap();
    let (done, _) = mangler.stop();
    let (names, frames) = read(&file);
    assert_eq!(names, ["packet:a", "packet:b"]);
    assert_eq!(
        (&trial["capture"]["frames"], &trial["capture"]["not_kept"]),
        (&frames.len().into(), &0.into())
    );
    let sent = trial["sent"].as_u64().unwrap();
    let ours = frames.iter().find(|(.., why)| why.ends_with("duplicated")).unwrap();
    let (ours, _) = tag_of(&ours.2).unwrap();
    for kind in ["duplicated", "reordered", "corrupted", "other traffic"] {
        let here = frames.iter().filter(|(.., why)| why.ends_with(kind)).count() as u64;
        assert_eq!(trial[kind.replace(" ", "_")], here, "{kind}: {trial}");
        // Behind the last frame that is held back there may be no frame to overtake it.
        let alone = u64::from(kind == "reordered" && sent % 20 == 10);
        assert_eq!(here + alone, done[&ours][kind], "{kind}: {trial}");
        assert!(here + 1 >= sent / 20, "{kind}: {here} of {sent}");
    }
    for (interface, at, frame, why) in &frames {
        assert_eq!(*interface, 1, "frames went to b only");
        assert!(*at > begin && *at < now, "{at:?}");
        let number = why.strip_prefix("number ").and_then(|rest| rest.split_once(": "));
        let known = tag_of(frame).filter(|(trial, _)| *trial == ours).map(|(_, tag)| tag);
        match (number, why.as_str()) {
            (Some((number, _)), _) => assert_eq!(known.unwrap().sequence.to_string(), number),
            (None, "corrupted") => assert_eq!(known.unwrap().sequence % 20, 6, "{frame:02x?}"),
            (None, why) => assert!(why == "other traffic" && known.is_none(), "{why}"),
        }
    }
    assert!(frames.iter().any(|(_, _, frame, _)| *frame == stray()));
    assert!(frames.is_sorted_by_key(|(_, at, ..)| *at));
    assert_eq!(trial["directions"][0]["arrival"], serde_json::json!({ "by": "kernel" }));
}

#[test]
fn a_trial_without_mishaps_has_an_empty_file() {
    let Some(net) = Net::bridge() else { return };
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("none.pcapng");
    let trial = trial(&net, &file, &["--duration", "100ms", "--bidirectional"]);
    let mishaps: u64 = ["duplicated", "reordered", "corrupted", "other traffic"]
        .iter()
        .map(|kind| trial[kind.replace(" ", "_")].as_u64().unwrap())
        .sum();
    let (names, frames) = read(&file);
    assert_eq!((names.len(), frames.len() as u64), (2, mishaps), "{frames:?}");
}
