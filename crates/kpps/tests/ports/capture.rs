//! Frames to which something happened, in a file that others can read.

use crate::net::{Net, document};
use kpps_frames::tag;
use pcap_file::pcapng::blocks::enhanced_packet::EnhancedPacketOption;
use pcap_file::pcapng::blocks::interface_description::InterfaceDescriptionOption;
use pcap_file::pcapng::{Block, PcapNgReader};
use serde_json::Value;
use std::fs::File;
use std::path::Path;
use std::time::Duration;

/// The interfaces of a capture; and its frames: interface, time since 1970, bytes, comment.
type Contents = (Vec<String>, Vec<(u32, Duration, Vec<u8>, String)>);

fn read(path: &Path) -> Contents {
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
    let words = ["trial", "--testbed", "packet:a,packet:b", "--load", "4kpps", "--capture", file, "--json"];
    let trial = document(&net.kpps(&[&words[..], more].concat()));
    let schema: Value = serde_json::from_slice(&net.kpps(&["schema"]).stdout).unwrap();
    jsonschema::validate(&schema, &trial).unwrap();
    assert_eq!(trial["capture"]["file"], file);
    trial
}

#[test]
fn frames_that_something_happened_to_are_in_the_file() {
    let words =
        ["netem", "duplicate", "4%", "corrupt", "4%", "delay", "1ms", "reorder", "2%", "limit", "10000"];
    let Some(net) = Net::bridge(&words) else { return };
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("odd.pcapng");
    let begin = std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap();
    let trial = trial(&net, &file, &["--duration", "500ms"]);
    let (names, frames) = read(&file);
    assert_eq!(names, ["packet:a", "packet:b"]);
    assert_eq!(trial["capture"]["frames"], frames.len());
    assert_eq!(trial["capture"]["not_kept"], 0);
    for kind in ["duplicated", "reordered", "corrupted", "foreign"] {
        let here = frames.iter().filter(|(.., why)| why.contains(kind)).count();
        assert_eq!(trial[kind], here, "{kind}: {trial}");
    }
    assert!(trial["duplicated"].as_u64() > Some(10) && trial["corrupted"].as_u64() > Some(10), "{trial}");
    let now = std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap();
    for (interface, at, frame, why) in &frames {
        assert_eq!(*interface, 1, "frames went to b only");
        assert!(*at > begin && *at < now, "{at:?}");
        match why.strip_prefix("number ").and_then(|rest| rest.split_once(": ")) {
            Some((number, _)) => assert_eq!(tag::read(frame).unwrap().sequence.to_string(), number),
            None => assert!(why == "foreign" || why == "corrupted" && tag::read(frame).is_none(), "{why}"),
        }
    }
    assert!(frames.is_sorted_by_key(|(_, at, ..)| *at));
}

#[test]
fn a_trial_without_mishaps_has_an_empty_file() {
    let Some(net) = Net::bridge(&[]) else { return };
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("none.pcapng");
    let trial = trial(&net, &file, &["--duration", "100ms", "--both"]);
    let mishaps: u64 = ["duplicated", "reordered", "corrupted", "foreign"]
        .iter()
        .map(|kind| trial[*kind].as_u64().unwrap())
        .sum();
    let (names, frames) = read(&file);
    assert_eq!((names.len(), frames.len() as u64), (2, mishaps), "{frames:?}");
}
