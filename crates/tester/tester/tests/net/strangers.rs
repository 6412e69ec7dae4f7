//! Trials beside frames of others. Some of these frames look like the trial's. A rule of the bridge drops
//! every fifth frame of the trial. Its counter is the truth: it is the number of lost frames, and none is
//! corrupted.

use super::places::{OURS, backlog_of, counted};
use super::{offer, tester, with_bridge};
use kpps_documents::Doubt;
use kpps_frames::build::{Flow, udp_test};
use kpps_frames::tag::{self, TagFormat};
use kpps_frames::{Mac, Size, Tag};
use kpps_namespaces::{Net, skip};
use kpps_platform::{Buffer, BufferSource};
use kpps_ports::port::{Frame, Options, Port, open};
use kpps_tester::document;
use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicBool, Ordering};

/// The station address of an interface.
fn mac(net: &Net, interface: &str) -> Mac {
    let text = net.output(&format!("cat /sys/class/net/{interface}/address"));
    let octets: Vec<u8> = text.trim().split(':').map(|hex| u8::from_str_radix(hex, 16).unwrap()).collect();
    Mac(octets.try_into().unwrap())
}

/// Sends such frames from `c`, about 20 of them each millisecond, while it is asked to.
fn flood(frame: &mut dyn FnMut(u64) -> Vec<u8>, ended: &AtomicBool) -> u64 {
    let mut port = open(&["packet:c".parse().unwrap()], &Options::default()).unwrap().pop().unwrap();
    let mut sent = 0;
    while !ended.load(Ordering::Relaxed) {
        port.tx_space();
        for _ in 0..20 {
            let bytes = frame(sent);
            let Some(mut buffer) = port.pool().take() else { break };
            buffer.bytes_mut()[..bytes.len()].copy_from_slice(&bytes);
            match port.send(Frame { buffer, bytes: bytes.len() as u16 }) {
                Ok(()) => sent += 1,
                Err(refused) => port.pool().give(refused.buffer),
            }
        }
        port.flush().unwrap();
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    sent
}

#[test]
fn lost_frames_are_lost_whatever_others_send() {
    let Some(net) = with_bridge() else { return };
    net.run(
        "ip link add name c type veth peer name pc && ip link set dev pc master br &&
         ip link set dev pc up && ip link set dev c up",
    );
    let rule = format!(
        "nft 'add table bridge f; add chain bridge f c {{ type filter hook forward priority 0; }}; \
         add rule bridge f c iifname pa {OURS} numgen inc mod 5 0 counter drop'"
    );
    if !net.can(&rule) {
        return skip::lacks("the kernel's packet filter for bridges, or nft");
    }
    let [a, b, c] = ["a", "b", "c"].map(|interface| mac(&net, interface));
    let of = |from_mac, to_mac| {
        let (from, to) = ((Ipv4Addr::new(198, 18, 0, 1), 49152), (Ipv4Addr::new(198, 19, 0, 2), 9));
        udp_test(&Flow { from_mac, to_mac, vlan: None, from, to }, Size::MIN).unwrap()
    };
    let tagged = |trial: u32, stream: u16| {
        let mut frame = of(c, b);
        move |sequence| {
            let tag = Tag { stream, sequence, sent_ps: sequence };
            TagFormat::default().of_trial(trial).write(&mut frame, tag).unwrap();
            frame.clone()
        }
    };
    // A payload of others.
    let foreign = |mut frame: Vec<u8>| {
        frame[tag::OFFSET..].fill(0x55);
        move |n: u64| {
            frame[tag::OFFSET + 5] = n as u8;
            frame.clone()
        }
    };
    let storm = foreign(of(c, Mac([0xff; 6])));
    type Frames<'f> = Box<dyn FnMut(u64) -> Vec<u8> + Send + 'f>;
    let others: [(&str, Frames<'_>); 6] = [
        ("kpps send", Box::new(tagged(0, 0))),
        ("a trial of another tester", Box::new(tagged(0x4_5678, 0))),
        ("a trial in the other direction", Box::new(tagged(0x4_5678, tag::BACK))),
        ("another tool with the same IP addresses", Box::new(foreign(of(c, b)))),
        ("a broadcast storm", Box::new(storm)),
        ("another tool with all of the addresses", Box::new(foreign(of(a, b)))),
    ];
    let mut tester = tester([None, None], &[]);
    for (who, mut frames) in others {
        let ended = AtomicBool::new(false);
        let before = counted(&net, "chain bridge f c");
        let (outcome, sent) = std::thread::scope(|scope| {
            let stranger = scope.spawn(|| flood(&mut frames, &ended));
            let outcome = tester.trial(&offer(4000.0, 64, false), &|| true);
            ended.store(true, Ordering::Relaxed);
            (outcome.unwrap(), stranger.join().unwrap())
        });
        let trial = document(&tester, &offer(4000.0, 64, false), &outcome).unwrap();
        let dropped = counted(&net, "chain bridge f c") - before;
        let is_told = trial.doubts.iter().any(|doubt| matches!(doubt, Doubt::Either { .. }));
        assert!(sent > 0 && dropped > 0, "{who}: {sent} sent, {dropped} dropped");
        // Frames that this machine's own queues had no room for are lost, too.
        let lost = trial.fate.lost - backlog_of(&trial, "");
        assert!(
            (lost, trial.fate.corrupted) == (dropped, Some(0)) || is_told,
            "{who}: {dropped}: {trial:#?}"
        );
        // Where the kernel reports its drops, no doubt is left.
        let tells = !trial.environment.system.contains_key("drop reasons");
        let sure = !is_told && lost == dropped && trial.result.ledger.unexplained == 0;
        assert!(!tells || sure, "{who}: {dropped}: {trial:#?}");
        assert!(trial.fate.other_traffic.is_some_and(|frames| frames > 0), "{who}: {trial:#?}");
    }
}
