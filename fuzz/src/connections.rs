//! The ends of TCP connections against arbitrary segments, as frames and near the expected sequence numbers:
//! no panic, and each opened connection is in exactly one place.
#![allow(clippy::unwrap_used)]

use arbitrary::Arbitrary;
use kpps_connections::{Content, Endpoint, Role, Rules, Segment, Sockets, Until, fuzzing};
use kpps_frames::Mac;
use std::net::Ipv4Addr;

const SERVER: (Ipv4Addr, u16) = (Ipv4Addr::new(10, 0, 0, 2), 80);
const NS_PER_S: u64 = 1_000_000_000;

/// An end, and the segments that it gets.
#[derive(Arbitrary, Debug)]
pub struct Input<'b> {
    serves: bool,
    http: bool,
    holds: bool,
    bytes: [u16; 2],
    frame: &'b [u8],
    segments: Vec<([u32; 2], [u8; 5])>,
}

/// Runs the target.
pub fn run(input: Input<'_>) {
    let _ = Segment::read(input.frame);
    let (role, sockets) = if input.serves {
        (Role::Server, Sockets::At(SERVER.1))
    } else {
        let addresses = "10.0.0.9".parse().unwrap();
        (Role::Client, Sockets::From { addresses, to: SERVER, station: Mac::default() })
    };
    let receives = match (input.http, input.serves) {
        (true, true) => Until::HeadEnd,
        (true, false) => Until::Close,
        (false, _) => Until::Message { content: Content::of_bytes(input.bytes[1].into()), is_known: true },
    };
    let rules = Rules {
        role,
        sends: Content::of_bytes(input.bytes[0].into()),
        receives,
        mss: 1460,
        tries: 3,
        idle_ns: 60 * NS_PER_S,
        time_wait_ns: 60 * NS_PER_S,
        holds: input.holds && !input.serves,
    };
    let mut end = Endpoint::new(rules, sockets, 4, 0);
    fuzzing::feed(&mut end, SERVER, input.segments.into_iter());
}
