//! The time of a connection in the state machine alone: both ends, with frames in memory, and no port.
//! `cargo bench --package kpps-connections` prints it for several messages. Without `--bench` there is one
//! burst.
#![allow(clippy::unwrap_used)]

use kpps_connections::{Content, Endpoint, Output, Role, Rules, Segment, Sending, Sockets, Until};
use kpps_frames::Mac;
use std::net::Ipv4Addr;
use std::time::Instant;

const SERVER: (Ipv4Addr, u16) = (Ipv4Addr::new(10, 0, 0, 2), 80);
const CONNECTIONS: u64 = 300_000;
/// Connections that are opened together.
const BURST: u32 = 32;

/// Frames in buffers that are used again.
#[derive(Default)]
struct Frames {
    buffers: Vec<Vec<u8>>,
    used: usize,
}

impl Output for Frames {
    fn send(&mut self, segment: &Sending<'_>) {
        if self.used == self.buffers.len() {
            self.buffers.push(vec![0; 1514]);
        }
        let buffer = &mut self.buffers[self.used];
        buffer.resize(1514, 0);
        let length = segment.write(Mac::default(), buffer).unwrap();
        buffer.truncate(length);
        self.used += 1;
    }
}

fn rules(role: Role, sends: u64, receives: u64) -> Rules {
    Rules {
        role,
        sends: Content::of_bytes(sends),
        receives: Until::Message { content: Content::of_bytes(receives), is_known: true },
        mss: 1460,
        tries: 5,
        idle_ns: 60_000_000_000,
        time_wait_ns: 60_000_000_000,
        holds: false,
    }
}

/// The time of one connection with these messages in ns, and its segments.
fn measure(connections: u64, request: u64, answer: u64) -> (f64, f64) {
    let addresses = "10.1.0.1-10.1.0.8".parse().unwrap();
    let sockets = Sockets::From { addresses, to: SERVER, station: Mac::default() };
    let mut ends = [
        Endpoint::new(rules(Role::Client, request, answer), sockets, 1 << 20, 1),
        Endpoint::new(rules(Role::Server, answer, request), Sockets::At(SERVER.1), 1 << 18, 1),
    ];
    let mut frames = [Frames::default(), Frames::default()];
    let begun = Instant::now();
    let mut now_ns = 0;
    while ends[0].counts().opened < connections {
        for _ in 0..BURST {
            ends[0].open(now_ns, &mut frames[0]).unwrap();
        }
        while frames[0].used > 0 || frames[1].used > 0 {
            now_ns += 10_000;
            // The frames of the client first.
            for from in 0..2 {
                let mut taken = std::mem::take(&mut frames[from]);
                let (end, out) = (&mut ends[1 - from], &mut frames[1 - from]);
                for frame in &taken.buffers[..taken.used] {
                    end.receive(&Segment::read(frame).unwrap(), now_ns, out);
                }
                end.pass(now_ns);
                end.expire(now_ns, out);
                taken.used = 0;
                frames[from] = taken;
            }
        }
    }
    let ns = begun.elapsed().as_nanos() as f64;
    let counts = ends.map(|end| *end.counts());
    assert!(counts.iter().all(|counts| counts.closed == counts.opened));
    let number = counts[0].opened as f64;
    (ns / number, (counts[0].sent + counts[1].sent) as f64 / number)
}

fn main() {
    let connections = if std::env::args().any(|word| word == "--bench") { CONNECTIONS } else { 1 };
    for (request, answer) in [(0, 0), (1, 1), (128, 1024), (128, 14_600)] {
        let (ns, segments) = measure(connections, request, answer);
        println!(
            "request {request} B, answer {answer} B: {ns:.0} ns a connection, both ends, {segments:.1} segments"
        );
    }
}
