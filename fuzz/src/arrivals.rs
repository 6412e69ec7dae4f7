//! Streams of test frames among arbitrary other frames, most of them changed copies of it: what arrived
//! whole counts once, and nothing takes it away.

use kpps_frames::build::Flow;
use kpps_frames::stack::Between;
use kpps_frames::{Mix, Size, Stack, Tag, TemplateOptions};
use kpps_tester::Arrivals;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Instant;

const TRIAL: u32 = 0xbdef0;

/// Gives the tester the frames that the bytes describe, of one stream, and of several ones.
pub fn run(bytes: &[u8]) {
    one(bytes);
    several(bytes);
}

/// The headers of several streams, and a field that changes.
const STREAMS: [(&str, &str, &str); 4] = [
    ("ethernet/ipv4/udp", "udp.sport", "1-9"),
    ("ethernet/vlan/ipv4/tcp", "ipv4.src", "random:10.0.0.1-10.9.9.9"),
    ("ethernet/ipv6/udp", "ipv6.label", "0-99999"),
    ("ethernet/ipv4/udp/vxlan/ethernet/ipv4/icmp", "icmp.sequence", "9-0"),
];

fn several(bytes: &[u8]) {
    let between = Between { macs: Default::default(), ips: [[10, 0, 0, 1].into(), [10, 0, 0, 2].into()] };
    let stream = |(text, field, pattern): &(&str, &str, &str)| {
        let mut stack = Stack::read(text).ok()?;
        stack.set_text(field, pattern).ok()?;
        let templates = stack.templates(&between, &Mix::fixed(Size::with_fcs(140))).ok()?;
        Some(Arc::new(templates.of_trial(TRIAL)))
    };
    let Some(streams) = STREAMS.iter().map(stream).collect::<Option<Vec<_>>>() else { return };
    let numbered = (0..).zip(&streams).map(|(number, templates)| (number, templates.clone(), 16));
    let mut all = Arrivals::of(numbered, true, Instant::now());
    let frame = |stream: usize, sequence| {
        let mut frame = vec![0; 136];
        streams[stream].write(sequence, &mut frame);
        let tag = Tag { stream: stream as u16, sequence, sent_ps: 1 };
        streams[stream].tag().write(&mut frame, tag).expect("room for a tag");
        frame
    };
    let (mut rest, mut sent) = (bytes, [0_u64; STREAMS.len()]);
    while let [what, more @ ..] = rest {
        let (piece, later) = more.split_at(more.len().min(usize::from(*what >> 4)));
        let stream = usize::from(what >> 2) % STREAMS.len();
        match what & 3 {
            0 | 1 => {
                all.take(&frame(stream, sent[stream]), None);
                sent[stream] += 1;
            }
            2 if sent[stream] > 0 => {
                let mut copy = frame(stream, sent[stream] - 1);
                for change in piece.chunks_exact(2) {
                    copy[usize::from(change[0]) % 136] ^= change[1];
                }
                all.take(&copy, None);
            }
            _ => drop(all.take(piece, None)),
        }
        rest = later;
    }
    let (received, _) = all.finish(&sent);
    for (stream, sent) in received.streams.iter().zip(sent) {
        let mut arrived = stream.arrived;
        assert_eq!((arrived.received, arrived.corrupted), (sent, 0));
        arrived.settle(0);
        assert_eq!(arrived.received, sent);
    }
}

fn one(bytes: &[u8]) {
    let flow = Flow::default();
    let ends = [flow.from, flow.to].map(|(address, port)| (IpAddr::from(address), port));
    let flow = Flow { from: ends[0], to: ends[1], from_mac: flow.from_mac, to_mac: flow.to_mac, vlan: None };
    let mix = Mix::fixed(Size::with_fcs(80));
    let Ok(templates) = TemplateOptions::default().templates(std::iter::once(flow), &mix, 0) else { return };
    let templates = Arc::new(templates.of_trial(TRIAL));
    let mut all = Arrivals::new(7, templates.clone(), Instant::now(), 16);
    let frame = |sequence| {
        let mut frame = vec![0; 76];
        templates.at(sequence).expect("every number has a frame").write(&mut frame);
        let tag = Tag { stream: 7, sequence, sent_ps: 1 };
        templates.tag().write(&mut frame, tag).expect("room for a tag");
        frame
    };
    // Each piece chooses the next frame: a good frame, a changed copy of one, or anything.
    let (mut rest, mut sent) = (bytes, 0u64);
    while let [what, more @ ..] = rest {
        let (piece, later) = more.split_at(more.len().min(usize::from(*what >> 2)));
        match what & 3 {
            0 | 1 => {
                all.take(&frame(sent), None);
                sent += 1;
            }
            2 if sent > 0 => {
                // After a good one: the usual header is known.
                let mut copy = frame(sent - 1);
                for change in piece.chunks_exact(2) {
                    copy[usize::from(change[0]) % 76] ^= change[1];
                }
                all.take(&copy, None);
            }
            _ => drop(all.take(piece, None)),
        }
        rest = later;
    }
    let mut arrived = all.arrived();
    assert_eq!((arrived.received, arrived.corrupted), (sent, 0));
    arrived.settle(0);
    assert_eq!(arrived.received, sent);
}
