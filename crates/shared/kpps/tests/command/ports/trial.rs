//! Options of `kpps trial` beside a load: captures in place of test frames, a sender that must keep up, a
//! drain time.

use crate::net::{End, Middle, Net, backlog, document, is_short_of_cpu, tag_of};
use kpps_documents::Environment;
use kpps_documents::calibration::Calibration;
use kpps_frames::build::{Flow, udp_test};
use kpps_frames::{Size, tag};
use kpps_namespaces::until_undisturbed;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Output;
use std::time::{Duration, Instant};

/// Frames of each pass; of the last hundred each has 24 equals.
const FRAMES: u16 = 400;
const EQUAL: u16 = 100;

/// The n-th frame of a capture: of two flows in turns, known by two bytes.
fn frame(n: u16) -> Vec<u8> {
    let flow = Flow { from: ([10, 0, 0, 1].into(), 1 + n % 2), ..Flow::default() };
    let mut frame = udp_test(&flow, Size::with_fcs(80)).unwrap();
    let name = if n < FRAMES - EQUAL { n } else { FRAMES + n % 4 };
    frame[70..72].copy_from_slice(&name.to_be_bytes());
    frame
}

/// Of a frame of the capture, its name.
fn name(frame: &[u8]) -> Option<u16> {
    let is_one = frame.len() == 76 && frame[26..30] == [10, 0, 0, 1] && tag::read(frame).is_none();
    is_one.then(|| u16::from_be_bytes([frame[70], frame[71]]))
}

/// A capture of 0.1 s.
fn capture(folder: &Path) -> PathBuf {
    let mut writer = kpps_frames::pcap::Writer::new(Vec::new()).unwrap();
    for n in 0..FRAMES {
        writer.write(u64::from(n) * 250_000, &frame(n)).unwrap();
    }
    let path = folder.join("seen.pcap");
    std::fs::write(&path, writer.into_inner()).unwrap();
    path
}

fn kpps_trial(net: &Net, more: &[&str]) -> Output {
    net.kpps(&[&["trial", "--ports", "packet:a,packet:b", "--json"], more].concat())
}

fn trial(net: &Net, more: &[&str]) -> Value {
    let output = kpps_trial(net, more);
    let trial = document(&output);
    let schema: Value = serde_json::from_slice(&net.kpps(&["schema"]).stdout).unwrap();
    jsonschema::validate(&schema, &trial).unwrap();
    assert!(output.status.success() || is_short_of_cpu(&output), "{trial}");
    trial
}

fn number(trial: &Value, name: &str) -> u64 {
    trial[name].as_u64().unwrap()
}

#[test]
fn a_capture_comes_through_a_bridge() {
    let Some(net) = Net::bridge() else { return };
    let folder = tempfile::tempdir().unwrap();
    let file = capture(folder.path());
    let file = file.to_str().unwrap();
    for (more, passes) in [(&[][..], 1), (&["--speed", "0.5x", "--loop", "2"], 2), (&["--load", "2kpps"], 1)]
    {
        let trial = trial(&net, &[&["--replay", file], more].concat());
        assert_eq!(number(&trial, "intended"), passes * u64::from(FRAMES), "{trial}");
        assert_eq!(number(&trial, "sent"), number(&trial, "received") + number(&trial, "lost"), "{trial}");
        assert_eq!(number(&trial, "lost"), backlog(&trial), "{trial}");
        for name in ["duplicated", "reordered"] {
            assert_eq!(trial[name], 0, "{name}: {trial}");
        }
        // Damage cannot be recognised.
        assert!(trial["corrupted"].is_null(), "{trial}");
        let replay =
            serde_json::json!({ "file": file, "frames": FRAMES, "with_equals": EQUAL, "departures": [] });
        assert_eq!((&trial["replay"], &trial["latency_ns"]["p50"]), (&replay, &Value::Null));
    }
}

/// Senders take the first of the CPUs that a user gives. The message names CPUs that do not exist.
#[test]
fn the_user_chooses_the_cpus() {
    let Some(net) = Net::bridge() else { return };
    let refused = |list: &str| {
        let output = kpps_trial(&net, &["--load", "1kpps", "--cpus", list]);
        assert_eq!(output.status.code(), Some(2), "{list}");
        String::from_utf8(output.stderr).unwrap()
    };
    assert!(refused("all").contains("'all' is no list of CPUs: give their numbers, as 2,3 or 0-3"));
    assert!(refused("4095").contains("CPU 4095 may not be used by this program, only "));
    if std::thread::available_parallelism().unwrap().get() < 2 {
        return kpps_namespaces::skip::lacks("two CPUs");
    }
    for (list, first) in [("0,1", 0), ("1,0", 1)] {
        let trial = trial(&net, &["--load", "1kpps", "--duration", "100ms", "--cpus", list]);
        assert_eq!(trial["directions"][0]["gaps"]["cpu"], first, "{trial}");
    }
    let shared = trial(&net, &["--load", "1kpps", "--duration", "100ms", "--cpus", "1"]);
    assert_eq!(shared["directions"][0]["gaps"]["cpu"], Value::Null, "{shared}");
}

/// A result has its provenance: when, where, by which command, and on which system.
#[test]
fn a_result_says_what_it_is_of() {
    let Some(net) = Net::bridge() else { return };
    let folder = tempfile::tempdir().unwrap();
    let page = folder.path().join("trial.html");
    let more =
        ["--load", "1kpps", "--duration", "50ms", "--dut", "bridge 7", "--report", page.to_str().unwrap()];
    let of = &trial(&net, &more)["provenance"];
    assert_eq!((&of["dut"], &of["kpps_version"]), (&"bridge 7".into(), &env!("CARGO_PKG_VERSION").into()));
    assert!(of["command"].as_str().unwrap().contains("--dut 'bridge 7'"), "{of}");
    assert!(of["ports"]["packet:a"].as_str().unwrap().contains("driver veth"), "{of}");
    assert!(of["ports"]["packet:b"].as_str().unwrap().contains("offloads"), "{of}");
    assert!(of["time"].as_str().unwrap().ends_with('Z') && !of["host"].as_str().unwrap().is_empty(), "{of}");
    let page = std::fs::read_to_string(page).unwrap();
    assert!(page.contains("bridge 7") && page.contains(of["time"].as_str().unwrap()));
}

/// The device under test lets nothing through: there is a result, and the exit code is 1.
#[test]
fn total_loss_is_exit_code_1() {
    let Some(net) = Net::new(&[("a", "pa"), ("b", "pb")]) else { return };
    let output = kpps_trial(&net, &["--load", "1kpps", "--duration", "50ms", "--drain", "100ms"]);
    let (trial, said) = (document(&output), String::from_utf8_lossy(&output.stderr));
    assert_eq!((number(&trial, "received"), output.status.code()), (0, Some(1)), "{said}");
    let sent = number(&trial, "sent");
    assert_eq!(sent + number(&trial, "shortfall"), 50, "{trial}");
    assert!(
        said.contains(&format!("total loss from packet:a to packet:b: {sent} frames were sent")),
        "{said}"
    );
}

/// The damage to some frames of the capture, always the same frames.
fn mischief(held: &mut Option<Vec<u8>>, frame: Option<Vec<u8>>, to: &mut End) {
    let Some(mut frame) = frame else { return };
    let name = name(&frame);
    match name {
        // The last but one is one of 25 equal ones.
        Some(10 | 11 | 200 | 400) => return,
        Some(20 | 21 | 401) => to.send(&frame),
        Some(30) => frame[65] ^= 1,
        Some(50) => return *held = Some(frame),
        _ => {}
    }
    to.send(&frame);
    // Behind the next of its own flow.
    if name == Some(52) {
        held.take().iter().for_each(|frame| to.send(frame));
    }
}

#[test]
fn what_happens_to_a_capture_is_told_frame_by_frame() {
    let Some(net) = Net::new(&[("a", "pa"), ("b", "pb")]) else { return };
    let middle = Middle::between(net.end("pa"), net.end("pb"), None, mischief);
    let folder = tempfile::tempdir().unwrap();
    let (file, odd) = (capture(folder.path()), folder.path().join("odd.pcapng"));
    // The program in the middle may get no CPU for as long as the drain time.
    let words =
        ["--drain", "5s", "--replay", file.to_str().unwrap(), "--capture", odd.to_str().unwrap(), "--loop"];
    for passes in [1, 3] {
        let trial = trial(&net, &[&words[..], &[&passes.to_string()]].concat());
        assert_eq!(number(&trial, "intended"), passes * 400, "{trial}");
        let unsent = number(&trial, "shortfall");
        // Three frames, a damaged frame, and one kind of equal frames. Frames that were not sent could not be
        // lost.
        for (name, each) in [("lost", 3 + 1 + 25), ("duplicated", 2 + 25), ("reordered", 1)] {
            let least = (passes * each).saturating_sub(unsent);
            assert!((least..=passes * each).contains(&number(&trial, name)), "{name}: {trial}");
        }
        assert!(
            number(&trial, "other_traffic") + unsent >= passes,
            "damaged frames are other traffic: {trial}"
        );
        assert!(trial["corrupted"].is_null(), "damage is not recognised: {trial}");
        let kept = kpps_frames::capture::Capture::new(std::fs::File::open(&odd).unwrap()).unwrap();
        let kept: Vec<_> = kept.map(Result::unwrap).collect();
        let count = |what: &[u8]| kept.iter().filter(|it| it.bytes == what).count() as u64;
        let mut damaged = frame(30);
        damaged[65] ^= 1;
        assert!(count(&damaged) + unsent >= passes && count(&damaged) <= passes, "{}", kept.len());
        assert!(count(&frame(50)) + unsent >= passes && count(&frame(10)) == 0, "{}", kept.len());
    }
    middle.stop();
}

#[test]
fn a_frame_that_a_port_cannot_send_is_unsent_and_no_other_is_missed_for_it() {
    let Some(net) = Net::bridge() else { return };
    let folder = tempfile::tempdir().unwrap();
    let mut writer = kpps_frames::pcap::Writer::new(Vec::new()).unwrap();
    for n in 0..FRAMES {
        let long = || udp_test(&Flow::default(), Size::MAX_STANDARD).unwrap();
        let frame = if n % 20 == 7 { long() } else { frame(n) };
        writer.write(u64::from(n) * 5_000_000, &frame).unwrap();
    }
    let file = folder.path().join("long.pcap");
    std::fs::write(&file, writer.into_inner()).unwrap();
    let words = ["--replay", file.to_str().unwrap()];
    let words = [&["trial", "--ports", "packet:a,packet:b", "--json"][..], &words].concat();
    until_undisturbed("the MTU is lowered while frames are sent", || {
        net.run(&["ip", "link", "set", "dev", "a", "mtu", "1500"]);
        let before = net.sent("a");
        let mut child = net.start(&words, 2);
        // Before the first frame it would be refused.
        while net.sent("a") < before + 20 && child.try_wait().unwrap().is_none() {
            std::thread::sleep(Duration::from_millis(1));
        }
        net.run(&["ip", "link", "set", "dev", "a", "mtu", "1000"]);
        let trial = document(&child.wait_with_output().unwrap());
        let shortfall = number(&trial, "shortfall");
        assert_eq!((number(&trial, "intended"), number(&trial, "sent") + shortfall), (400, 400), "{trial}");
        assert_eq!(number(&trial, "received") + number(&trial, "lost"), number(&trial, "sent"), "{trial}");
        assert_eq!((number(&trial, "lost"), number(&trial, "duplicated")), (backlog(&trial), 0), "{trial}");
        shortfall > 0 && number(&trial, "received") > 0
    });
    let output = net.kpps(&words);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(2) && said.contains("frame 8 of the capture has 1518 B"), "{said}");
}

#[test]
fn replays_that_make_no_sense_are_refused() {
    let Some(net) = Net::bridge() else { return };
    let folder = tempfile::tempdir().unwrap();
    let file = capture(folder.path());
    for (more, why) in [
        (&["--bidirectional"][..], "one direction"),
        (&["--size", "128"], "--size"),
        (&["--flows", "3"], "--flows"),
        (&["--load", "max"], "needs a duration"),
        (&["--load", "1kpps", "--speed", "2x"], "--speed"),
    ] {
        let output = kpps_trial(&net, &[&["--replay", file.to_str().unwrap()], more].concat());
        assert_eq!(output.status.code(), Some(2), "{more:?}");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(said.contains(why) && output.stdout.is_empty(), "{more:?}: {said}");
    }
    let output = kpps_trial(&net, &[]);
    assert!(String::from_utf8_lossy(&output.stderr).contains("--load"), "a load is needed without a capture");
}

/// A calibration of the first port.
fn calibration(folder: &Path, ceiling_pps: f64) -> PathBuf {
    let environment = Environment { frame_bytes_with_fcs: Some(64), ..Environment::on(["packet:a"]) };
    let calibration = Calibration { environment, ceiling_pps, ..Calibration::default() };
    let file = folder.join("calibration.json");
    std::fs::write(&file, serde_json::to_string(&calibration).unwrap()).unwrap();
    file
}

#[test]
fn a_strict_trial_sends_nothing_above_what_the_sender_can_send() {
    let Some(net) = Net::bridge() else { return };
    let folder = tempfile::tempdir().unwrap();
    let file = calibration(folder.path(), 1000.0);
    let words = ["--calibration", file.to_str().unwrap(), "--duration", "100ms", "--load"];
    let before = net.sent("a");
    let refused = kpps_trial(&net, &[&words[..], &["2kpps", "--strict"]].concat());
    assert_eq!((refused.status.code(), refused.stdout.is_empty()), (Some(1), true));
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(said.contains("2.0 kpps is above the generator's calibrated limit of 1.0 kpps"), "{said}");
    assert_eq!(net.sent("a"), before);
    // Without it is tried and flagged; below the ceiling it says nothing.
    let flagged = trial(&net, &[&words[..], &["2kpps"]].concat());
    assert_eq!((&flagged["sender"]["exceeded"], &flagged["intended"]), (&true.into(), &200.into()));
    let below = trial(&net, &[&words[..], &["900pps", "--strict"]].concat());
    assert_eq!((&below["sender"]["exceeded"], &below["intended"]), (&false.into(), &90.into()));
    let refused = kpps_trial(&net, &["--load", "2kpps", "--strict"]);
    assert_eq!((refused.status.code(), refused.stdout.is_empty()), (Some(2), true), "strict against what?");
}

/// Whatever has no calibration sends nothing to learn its own limit: a load may not be exceeded unasked.
#[test]
fn no_more_frames_are_sent_than_asked_for() {
    let Some(net) = Net::bridge() else { return };
    for words in [&["--load", "2kpps"][..], &["--load", "2kpps", "--bidirectional"]] {
        let before = [net.sent("a"), net.sent("b")];
        let trial = trial(&net, &[words, &["--duration", "250ms", "--retries", "0"]].concat());
        let both = words.len() > 2;
        assert_eq!(trial["intended"], if both { 1000 } else { 500 });
        for way in trial["directions"].as_array().unwrap() {
            let ranges = way["latency_histogram"].as_array().unwrap();
            let frames: u64 = ranges.iter().map(|range| number(range, "frames")).sum();
            assert_eq!(frames, number(way, "received"), "each frame is in one range: {way}");
        }
        let left = [net.sent("a") - before[0], net.sent("b") - before[1]];
        let said = [0, 1].map(|way| trial["directions"].get(way).map_or(0, |way| number(way, "sent")));
        // Beside the load: a few frames that learn the way, and neighbour discovery.
        for (left, said) in left.into_iter().zip(said) {
            assert!((said..=said + 100).contains(&left) && said <= 500, "{left} left, {said} said");
        }
        assert!(said[0] > 0 && both == (said[1] > 0), "{said:?}");
    }
}

#[test]
fn frames_that_are_late_are_lost_or_waited_for_as_asked() {
    let Some(net) = Net::new(&[("a", "pa"), ("b", "pb")]) else { return };
    // The fiftieth frame of each trial is held for 1.5 s.
    let hold = |held: &mut Option<(Instant, Vec<u8>)>, frame: Option<Vec<u8>>, to: &mut End| {
        if held.as_ref().is_some_and(|(since, _)| since.elapsed() > Duration::from_millis(1500)) {
            held.take().iter().for_each(|(_, frame)| to.send(frame));
        }
        match frame {
            Some(frame) if tag_of(&frame).is_some_and(|(_, tag)| tag.sequence == 50) => {
                *held = Some((Instant::now(), frame));
            }
            Some(frame) => to.send(&frame),
            None => {}
        }
    };
    let middle = Middle::between(net.end("pa"), net.end("pb"), None, hold);
    let folder = tempfile::tempdir().unwrap();
    let page = folder.path().join("page.html");
    let words = ["--load", "1kpps", "--shape", "bursts:10", "--duration", "100ms"];
    let words = [&words[..], &["--report", page.to_str().unwrap(), "--drain"]].concat();
    for (drain, late) in [("500ms", 0), ("8s", 1)] {
        until_undisturbed("the frame is sent, and all look in time", || {
            let trial = trial(&net, &[&words[..], &[drain]].concat());
            assert_eq!(
                (&trial["intended"], &trial["environment"]["shape"]),
                (&100.into(), &"bursts:10".into()),
                "{trial}"
            );
            assert_eq!(
                number(&trial, "sent"),
                number(&trial, "received") + number(&trial, "lost"),
                "{trial}"
            );
            let html = std::fs::read_to_string(&page).unwrap();
            assert!(
                html.contains("packet:a and packet:b") && html.contains("by the kernel"),
                "{}",
                &html[..500]
            );
            // A held frame arrives before the next trial.
            std::thread::sleep(Duration::from_millis(1500));
            (number(&trial, "lost"), number(&trial, "reordered")) == (1 - late, late)
        });
    }
    middle.stop();
}

/// Loses three runs of frames of a trial of 2,000, the last ones among them, and lets frame 700 arrive behind
/// frame 704 of its flow.
fn lossy(held: &mut Option<Vec<u8>>, frame: Option<Vec<u8>>, to: &mut End) {
    let Some(frame) = frame else { return };
    let number = tag_of(&frame).map(|(_, tag)| tag.sequence);
    match number {
        Some(400 | 1000..1100 | 1990..2000) => return,
        Some(700) => return *held = Some(frame),
        _ => to.send(&frame),
    }
    if number == Some(704) {
        held.take().iter().for_each(|frame| to.send(frame));
    }
}

#[test]
fn when_frames_were_lost_and_how_latencies_vary_is_told_of_each_direction_and_flow() {
    let Some(net) = Net::new(&[("a", "pa"), ("b", "pb")]) else { return };
    let middle = Middle::between(net.end("pa"), net.end("pb"), None, lossy);
    let words = ["--load", "2kpps", "--duration", "1s", "--flows", "4", "--drain", "2s"];
    until_undisturbed("all frames are sent in time, and all that are not lost arrive", || {
        let output = kpps_trial(&net, &words);
        let trial = document(&output);
        let way = &trial["directions"][0];
        if number(&trial, "shortfall") > 0 || number(&trial, "lost") != 111 {
            return false;
        }
        let loss = |name: &str| way["loss"][name].as_f64().unwrap();
        assert_eq!((loss("longest_frames"), number(&trial, "reordered")), (100.0, 1), "{way}");
        let latency = |of: &Value, name: &str| of["latency_ns"][name].as_u64().unwrap();
        let [min, mean, max, jitter] = ["min", "mean", "max", "jitter"].map(|name| latency(way, name));
        assert!(0 < min && min <= mean && mean <= max && 0 < jitter && jitter <= max - min, "{way}");
        let flows = way["flows"]["worst"].as_array().unwrap();
        assert_eq!(flows.len(), 4, "{way}");
        for flow in flows {
            let [least, most] = ["min", "max"].map(|name| latency(flow, name));
            assert!(least <= latency(flow, "mean") && latency(flow, "mean") <= most, "{flow}");
            // A histogram has three digits.
            assert!(least as f64 > 0.998 * min as f64 && (most as f64) < 1.002 * max as f64, "{way}");
            assert!(latency(flow, "jitter") <= most - least, "{flow}");
        }
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{said}");
        // A sender that pauses sends later, and catches up.
        let near = |name: &str, s: f64| (loss(name) - s).abs() < 0.01;
        near("first_s", 0.2) && near("longest_at_s", 0.5) && near("longest_s", 0.05)
    });
    middle.stop();
}

/// Without learning frames the trial's frames are all that leaves the ports.
#[test]
fn learning_frames_can_be_left_out() {
    let Some(net) = Net::new(&[("a", "b")]) else { return };
    let words = ["--load", "5kpps", "--duration", "100ms"];
    let sent = || [net.sent("a"), net.sent("b")];
    let before = sent();
    let alone = trial(&net, &[&words[..], &["--no-learning"]].concat());
    let frames = number(&alone["ledger"], "sent");
    assert!(frames > 0 && number(&alone["ledger"], "delivered") == frames, "{alone}");
    assert_eq!((&alone["learned"], sent()), (&Value::Null, [before[0] + frames, before[1]]));
    assert_eq!(alone["environment"]["traffic"], "no learning frames");
    // The same as usual.
    let before = sent();
    let usual = trial(&net, &words);
    let frames = number(&usual["ledger"], "sent");
    let [a, b] = sent();
    assert_eq!(usual["learned"], true);
    assert!(a > before[0] + frames && b > before[1], "announcements and a learning frame");
    let output = kpps_trial(&net, &["--load", "5kpps", "--duration", "100ms", "--no-learning", "--replies"]);
    assert_eq!(output.status.code(), Some(2), "a second port that replies must learn the flows");
}

/// Late frames are sent late where that is asked for: those of a count, and those of a capture.
#[test]
fn frames_that_are_late_are_sent_late_where_that_is_asked_for() {
    let Some(net) = Net::new(&[("a", "b")]) else { return };
    let folder = tempfile::tempdir().unwrap();
    let seen = capture(folder.path());
    let seen = seen.to_str().unwrap();
    // Ten times as fast as any of these ports can send.
    let loads: [(&[&str], u64); 2] =
        [(&["--load", "14Mpps", "--count", "20000"], 20_000), (&["--replay", seen, "--speed", "1000x"], 400)];
    for (words, frames) in loads {
        let send = |late| {
            let output = net.kpps(&[&["send", "packet:a", "--json", "--late", late], words].concat());
            document(&output)["load"].clone()
        };
        let all = send("send");
        assert_eq!((number(&all, "intended"), number(&all, "shortfall")), (frames, 0), "{all}");
        let lateness = &all["lateness"];
        assert!(number(lateness, "frames") <= frames, "{all}");
        assert_eq!(send("skip")["lateness"], Value::Null);
    }
    let refused = net.kpps(&["send", "packet:a", "--load", "1kpps", "--late", "send"]);
    assert_eq!(refused.status.code(), Some(2), "nothing would end it");
}
