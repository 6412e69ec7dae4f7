//! A client's end and a server's, through a channel that loses, repeats and reorders segments, in virtual
//! time.
#![allow(clippy::unwrap_used)]

use crate::{Content, Counts, Endpoint, NoFreePort, Output, Role, Rules, Segment, Sending, Sockets, Until};
use kpps_frames::Mac;
use kpps_frames::tcp::{ACK, FIN, RST, SYN};
use proptest::prelude::*;
use std::net::Ipv4Addr;

const MACS: [Mac; 2] = [Mac([2, 0, 0, 0, 0, 1]), Mac([2, 0, 0, 0, 0, 2])];
const SERVER: (Ipv4Addr, u16) = (Ipv4Addr::new(10, 0, 0, 2), 80);
const MS: u64 = 1_000_000;
const SECOND: u64 = 1000 * MS;

/// Frames that an end has sent.
struct Sent(Mac, Vec<Vec<u8>>);

impl Output for Sent {
    fn send(&mut self, segment: &Sending<'_>) {
        let mut frame = vec![0xaa; 9000];
        let length = segment.write(self.0, &mut frame).unwrap();
        frame.truncate(length);
        self.1.push(frame);
    }
}

/// The faults of the channel, of 256 segments.
#[derive(Clone, Copy, Debug, Default)]
struct Faults {
    lost: u8,
    repeated: u8,
    late: u8,
}

struct World {
    ends: [Endpoint; 2],
    /// Frames on their way: when they arrive, at which end.
    channel: Vec<(u64, usize, Vec<u8>)>,
    faults: Faults,
    random: fastrand::Rng,
    now_ns: u64,
}

fn rules(role: Role, sends: Content, receives: Until) -> Rules {
    Rules {
        role,
        sends,
        receives,
        mss: 1460,
        tries: 15,
        idle_ns: 300 * SECOND,
        time_wait_ns: 60 * SECOND,
        holds: false,
    }
}

fn client_sockets() -> Sockets {
    Sockets::From { addresses: "10.0.0.1".parse().unwrap(), to: SERVER, station: MACS[1] }
}

/// Both ends of raw messages.
fn raw(request: u64, answer: u64) -> [Rules; 2] {
    let [request, answer] = [request, answer].map(Content::of_bytes);
    let known = |content: &Content| Until::Message { content: content.clone(), is_known: true };
    [
        rules(Role::Client, request.clone(), known(&answer)),
        rules(Role::Server, answer.clone(), known(&request)),
    ]
}

/// Both ends of HTTP, where the server closes first.
fn http(answer: u64) -> [Rules; 2] {
    [
        rules(Role::Client, Content::http_request("a", "/"), Until::Close),
        rules(Role::Server, Content::http_answer(answer), Until::HeadEnd),
    ]
}

impl World {
    fn new([client, server]: [Rules; 2], most: usize, faults: Faults, seed: u64) -> Self {
        let first = seed as u32;
        let ends = [
            Endpoint::new(client, client_sockets(), most, first),
            Endpoint::new(server, Sockets::At(SERVER.1), most, !first),
        ];
        let random = fastrand::Rng::with_seed(seed);
        Self { ends, channel: Vec::new(), faults, random, now_ns: 0 }
    }

    fn counts(&self) -> [Counts; 2] {
        [0, 1].map(|end: usize| *self.ends[end].counts())
    }

    /// Lets an end do something, and puts what it sends on the channel.
    fn act<T>(&mut self, end: usize, act: impl FnOnce(&mut Endpoint, u64, &mut Sent) -> T) -> T {
        let mut sent = Sent(MACS[end], Vec::new());
        let result = act(&mut self.ends[end], self.now_ns, &mut sent);
        for frame in sent.1 {
            let Faults { lost, repeated, late } = self.faults;
            if self.random.u8(..) < lost {
                continue;
            }
            let copies = 1 + u32::from(self.random.u8(..) < repeated);
            for _ in 0..copies {
                let delay = if self.random.u8(..) < late { self.random.u64(0..900 * MS) } else { MS };
                self.channel.push((self.now_ns + delay, 1 - end, frame.clone()));
            }
        }
        result
    }

    fn step(&mut self) {
        self.now_ns += MS;
        // In the order of sending, where the times are equal.
        self.channel.sort_by_key(|frame| frame.0);
        let due = self.channel.iter().take_while(|frame| frame.0 <= self.now_ns).count();
        for (_, end, frame) in self.channel.drain(..due).collect::<Vec<_>>() {
            let segment = Segment::read(&frame).unwrap();
            self.act(end, |end, now_ns, out| end.receive(&segment, now_ns, out));
        }
        for end in 0..2 {
            self.ends[end].pass(self.now_ns);
            self.act(end, Endpoint::expire);
            assert!(self.ends[end].counts().closes(), "{:?}", self.ends[end].counts());
        }
    }

    fn open(&mut self) -> Result<(), NoFreePort> {
        self.act(0, Endpoint::open)
    }

    /// Until no connection is open and nothing is in TIME-WAIT.
    fn run_until_empty(&mut self) {
        let until = self.now_ns + 2000 * SECOND;
        while self.ends.iter().any(|end| end.counts().open > 0 || end.waiting() > 0) {
            assert!(self.now_ns < until, "{:?}", self.counts());
            self.step();
        }
    }
}

#[test]
fn a_connection_takes_seven_segments() {
    let mut world = World::new(raw(100, 200), 8, Faults::default(), 1);
    world.open().unwrap();
    world.run_until_empty();
    let [client, server] = world.counts();
    assert_eq!((client.sent, server.sent), (4, 3));
    assert_eq!((client.closed, server.closed), (1, 1));
    assert_eq!((client.received_bytes, server.received_bytes), (200, 100));
    for times in [world.ends[0].times()].map(|times| [&times.connect, &times.first_byte, &times.close]) {
        assert_eq!(times.map(|time| (time.frames(), time.max_ns() / MS)), [(1, 2); 3]);
    }
}

#[test]
fn messages_of_any_size_arrive_in_both_kinds_of_closing() {
    for rules in
        [raw(0, 0), raw(0, 1), raw(1, 0), raw(1460, 1461), raw(200_000, 300_000), http(0), http(99_999)]
    {
        let sizes = [rules[0].sends.bytes(), rules[1].sends.bytes()];
        let mut world = World::new(rules, 8, Faults::default(), 2);
        for _ in 0..8 {
            world.open().unwrap();
        }
        assert_eq!(world.open(), Err(NoFreePort), "there is space for eight");
        world.run_until_empty();
        let [client, server] = world.counts();
        assert_eq!((client.closed, server.closed), (8, 8), "{sizes:?}");
        assert_eq!([server.received_bytes, client.received_bytes], sizes.map(|bytes| 8 * bytes));
        assert_eq!(client.retransmitted, Default::default());
        assert_eq!(server.retransmitted, Default::default());
    }
}

/// The ports of a client are used again while both ends, or one, are in TIME-WAIT.
#[test]
fn ports_are_used_again() {
    for rules in [raw(1, 1), http(1)] {
        let mut world = World::new(rules, 1, Faults::default(), 3);
        for number in 1..=5 {
            // The same port, and not only the same place.
            world.ends[0].rewind();
            world.open().unwrap();
            for _ in 0..20 {
                world.step();
            }
            let [client, server] = world.counts();
            assert_eq!((client.closed, server.closed), (number, number), "{client:?} {server:?}");
            assert_eq!((client.retransmitted.syn, client.recycled, server.recycled), (0, 0, 0));
        }
        world.run_until_empty();
    }
}

#[test]
fn held_connections_stay_open_and_are_used_later() {
    let [client, server] = raw(10, 10);
    let mut world = World::new([Rules { holds: true, ..client }, server], 100, Faults::default(), 4);
    for _ in 0..100 {
        world.open().unwrap();
    }
    for _ in 0..5000 {
        world.step();
    }
    assert_eq!(world.counts().map(|counts| (counts.established_now, counts.closed)), [(100, 0); 2]);
    let mut released = 0;
    while world.act(0, Endpoint::release) {
        released += 1;
    }
    assert_eq!(released, 100);
    world.run_until_empty();
    assert_eq!(world.counts().map(|counts| (counts.most_established, counts.closed)), [(100, 100); 2]);
}

#[test]
fn a_dead_peer_is_given_up_after_the_tries() {
    let [client, server] = raw(10, 10);
    let client = Rules { tries: 3, ..client };
    let mut world = World::new([client, server], 8, Faults { lost: 255, ..Faults::default() }, 5);
    // 255 of 256 are lost; with this seed all.
    world.open().unwrap();
    world.run_until_empty();
    let [client, _] = world.counts();
    assert_eq!((client.timeouts.connect, client.retransmitted.syn, client.sent), (1, 3, 4));
    // 1, 2, 4 and 8 s (RFC 6298, 5.5).
    assert!((15 * SECOND..15 * SECOND + 100 * MS).contains(&world.now_ns), "{}", world.now_ns);
}

#[test]
fn an_end_without_a_listener_resets() {
    let mut world = World::new(raw(10, 10), 8, Faults::default(), 6);
    let [_, server] = raw(10, 10);
    world.ends[1] = Endpoint::new(server, Sockets::At(81), 8, 0);
    world.open().unwrap();
    world.run_until_empty();
    let [client, server] = world.counts();
    assert_eq!((client.resets.connect, server.resets_sent, server.opened), (1, 1, 0));
}

/// A segment as the client's peer sends it.
fn segment<'p>(from: &Segment<'_>, sequence: u32, ack: u32, flags: u8, payload: &'p [u8]) -> Segment<'p> {
    Segment {
        tuple: crate::Tuple { own: from.tuple.peer, peer: from.tuple.own },
        station: MACS[1],
        sequence: crate::Sequence(sequence),
        acknowledgement: (flags & ACK != 0).then_some(crate::Sequence(ack)),
        flags,
        window: 1000,
        mss: 1460,
        payload,
    }
}

/// Established, with the client's next sequence number.
fn established() -> (Endpoint, Sent, Vec<u8>, u32) {
    let [client, _] = raw(0, 100);
    let mut end = Endpoint::new(client, client_sockets(), 8, 1000);
    let mut sent = Sent(MACS[0], Vec::new());
    end.open(0, &mut sent).unwrap();
    let syn = sent.1.pop().unwrap();
    let read = Segment::read(&syn).unwrap();
    let next = read.sequence.0 + 1;
    end.receive(&segment(&read, 500, next, SYN | ACK, &[]), MS, &mut sent);
    assert_eq!((end.counts().established, sent.1.len()), (1, 1));
    sent.1.clear();
    (end, sent, syn, next)
}

/// RFC 5961: only a reset with exactly the expected number resets; another one in the window, and a SYN, are
/// answered with an acknowledgement.
#[test]
fn resets_and_syns_in_a_connection_are_confirmed() {
    let (mut end, mut sent, syn, next) = established();
    let from = Segment::read(&syn).unwrap();
    end.receive(&segment(&from, 502, next, RST, &[]), 2 * MS, &mut sent);
    assert_eq!((end.counts().challenges, end.counts().established_now, sent.1.len()), (1, 1, 1));
    // Not twice at once.
    end.receive(&segment(&from, 900, 0, SYN, &[]), 3 * MS, &mut sent);
    end.receive(&segment(&from, 900, 0, SYN, &[]), 600 * MS, &mut sent);
    assert_eq!((end.counts().challenges, end.counts().established_now, sent.1.len()), (2, 1, 2));
    let challenge = Segment::read(&sent.1[0]).unwrap();
    assert_eq!((challenge.sequence.0, challenge.acknowledgement.unwrap().0), (next, 501));
    // Outside the window nothing happens.
    end.receive(&segment(&from, 501 - 10, 0, RST, &[]), 2 * SECOND, &mut sent);
    assert_eq!((end.counts().challenges, sent.1.len(), end.counts().open), (2, 2, 1));
    end.receive(&segment(&from, 501, 0, RST, &[]), 2 * SECOND, &mut sent);
    assert_eq!((end.counts().resets.using, end.counts().open, end.waiting()), (1, 0, 0));
    assert!(end.counts().closes());
}

/// An acknowledgement of what was never sent changes nothing.
#[test]
fn impossible_acknowledgements_are_not_believed() {
    let (mut end, mut sent, syn, next) = established();
    let from = Segment::read(&syn).unwrap();
    end.receive(&segment(&from, 501, next + 1, ACK, &[0, 1]), 2 * MS, &mut sent);
    assert_eq!((end.counts().received_bytes, end.counts().unexpected), (0, 1));
    // The data again, with an earlier part, and a gap after it.
    end.receive(&segment(&from, 501, next, ACK, &[0, 1]), 3 * MS, &mut sent);
    end.receive(&segment(&from, 501, next, ACK, &[0, 1]), 3 * MS, &mut sent);
    end.receive(&segment(&from, 502, next, ACK, &[1, 2, 3]), 3 * MS, &mut sent);
    end.receive(&segment(&from, 506, next, ACK, &[5]), 3 * MS, &mut sent);
    let counts = end.counts();
    assert_eq!(
        (counts.received_bytes, counts.repeated, counts.out_of_order, counts.wrong_data),
        (4, 1, 1, 0)
    );
    let last = Segment::read(sent.1.last().unwrap()).unwrap();
    assert_eq!(last.acknowledgement.unwrap().0, 505);
    // The peer closes before its message is complete.
    end.receive(&segment(&from, 505, next, ACK | FIN, &[]), 4 * MS, &mut sent);
    end.receive(&segment(&from, 506, next + 1, ACK, &[]), 5 * MS, &mut sent);
    assert_eq!((end.counts().incomplete, end.counts().open, end.waiting()), (1, 0, 0));
}

/// A server that has forgotten a connection, and one that still has an old one (half-open, RFC 9293, 3.5.1).
#[test]
fn half_open_connections_are_found() {
    let [client, _] = raw(0, 100);
    let mut end = Endpoint::new(client, client_sockets(), 8, 1000);
    let mut sent = Sent(MACS[0], Vec::new());
    end.open(0, &mut sent).unwrap();
    let syn = sent.1.pop().unwrap();
    let from = Segment::read(&syn).unwrap();
    // The acknowledgement of an old connection is answered with a reset of that.
    end.receive(&segment(&from, 77, 4711, ACK, &[]), MS, &mut sent);
    let reset = Segment::read(&sent.1[0]).unwrap();
    assert_eq!((reset.flags, reset.sequence.0), (RST, 4711));
    assert_eq!((end.counts().open, end.counts().unexpected), (1, 1));
    // A reset that does not acknowledge our SYN is not believed.
    end.receive(&segment(&from, 0, 4711, RST | ACK, &[]), MS, &mut sent);
    assert_eq!((end.counts().open, sent.1.len()), (1, 1));
    end.receive(&segment(&from, 0, from.sequence.0 + 1, RST | ACK, &[]), MS, &mut sent);
    assert_eq!((end.counts().open, end.counts().resets.connect), (0, 1));
}

#[test]
fn a_full_server_drops_syns_and_recycles_time_wait() {
    let [client, server] = http(10);
    let mut world = World::new([client, server], 4, Faults::default(), 7);
    let [client, _] = http(10);
    world.ends[0] = Endpoint::new(client, client_sockets(), 64, 1);
    for number in 1..=12 {
        world.open().unwrap();
        for _ in 0..20 {
            world.step();
        }
        assert_eq!(world.counts()[0].closed, number);
    }
    assert_eq!((world.counts()[1].recycled, world.ends[1].waiting()), (8, 4));
    for _ in 0..5 {
        world.open().unwrap();
    }
    for _ in 0..3 {
        world.step();
    }
    assert_eq!(world.counts()[1].refused, 1);
    world.run_until_empty();
    assert_eq!((world.counts()[0].closed, world.counts()[0].retransmitted.syn), (17, 1));
}

#[test]
fn what_is_open_at_the_end_is_reset() {
    let [client, server] = raw(10, 10);
    let mut world = World::new([Rules { holds: true, ..client }, server], 9, Faults::default(), 8);
    for _ in 0..9 {
        world.open().unwrap();
    }
    for _ in 0..10 {
        world.step();
    }
    let mut aborted = 0;
    while world.act(0, Endpoint::abort) {
        aborted += 1;
    }
    world.run_until_empty();
    let [client, server] = world.counts();
    assert_eq!((aborted, client.aborted, server.resets.using), (9, 9, 9));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]

    /// Whatever is lost, repeated or late: each connection ends, each byte arrives once, and the tables are
    /// empty at the end.
    #[test]
    fn connections_survive_a_bad_channel(
        seed: u64,
        (lost, repeated, late) in (0_u8..60, 0_u8..60, 0_u8..60),
        (request, answer) in (0_u64..9000, 0_u64..20_000),
        is_http: bool,
        holds: bool,
    ) {
        let [client, server] = if is_http { http(answer) } else { raw(request, answer) };
        let sizes = [client.sends.bytes(), server.sends.bytes()];
        let faults = Faults { lost, repeated, late };
        let mut world = World::new([Rules { holds, ..client }, server], 40, faults, seed);
        for _ in 0..30 {
            world.open().unwrap();
            world.step();
        }
        if holds {
            for _ in 0..3000 {
                world.step();
            }
            while world.act(0, Endpoint::release) {}
        }
        world.run_until_empty();
        let [client, server] = world.counts();
        prop_assert_eq!((client.wrong_data, server.wrong_data), (0, 0));
        // No connection is given up at this loss. The server's end may fail where its last acknowledgement
        // was lost for ever.
        prop_assert_eq!((client.opened, client.closed), (30, 30), "{:?} {:?}", client, server);
        prop_assert_eq!(client.received_bytes, 30 * sizes[1]);
        prop_assert_eq!(server.received_bytes, 30 * sizes[0], "{:?} {:?}", client, server);
    }

    /// A channel that loses nearly everything: connections fail, and still all tables become empty.
    #[test]
    fn tables_become_empty_even_if_all_fails(seed: u64, lost in 100_u8..=255, tries in 0_u8..4) {
        let ends = raw(3000, 3000).map(|end| Rules { tries, idle_ns: 30 * SECOND, ..end });
        let mut world = World::new(ends, 40, Faults { lost, repeated: 30, late: 30 }, seed);
        for _ in 0..30 {
            world.open().unwrap();
            world.step();
        }
        world.run_until_empty();
        let [client, _] = world.counts();
        prop_assert_eq!(client.opened, 30);
        prop_assert_eq!(client.opened, client.closed + client.failed());
    }

    /// Any segments at any time: no panic, and the counters close.
    #[test]
    fn any_segments_are_survived(
        segments in proptest::collection::vec((any::<[u32; 2]>(), any::<[u8; 5]>()), 1..200),
        serves: bool,
    ) {
        let [client, server] = raw(3000, 3000);
        let mut end = if serves {
            Endpoint::new(server, Sockets::At(SERVER.1), 8, 0)
        } else {
            Endpoint::new(client, client_sockets(), 8, 0)
        };
        crate::fuzzing::feed(&mut end, SERVER, segments.into_iter());
        prop_assert!(end.counts().closes(), "{:?}", end.counts());
    }
}
