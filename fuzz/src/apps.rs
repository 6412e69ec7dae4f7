//! Bridge, router with VLANs, and NAT against arbitrary frames: no panic, every frame accounted for and none
//! leaked, bounded work and memory, and only valid frames leave. The corpus starts with the frames in
//! `crates/tester/apps/tests/corpus`.
#![allow(clippy::unwrap_used)]

use arbitrary::Arbitrary;
use kpps_apps::{App, EtherSwitch, Interface, Ipv4Net, Nat, Outputs, Resize, Route, Router};
use kpps_frames::{Mac, checksum, ethernet, ipv4};
use std::cell::Cell;
use std::net::Ipv4Addr;
use std::rc::Rc;
use std::sync::{LazyLock, Once};

const PORTS: usize = 3;
const MTU: u16 = 576;
/// Room for a frame that becomes longer.
const MOST_BYTES: usize = 600;
/// Stations that the bridge remembers.
const STATIONS: usize = 8;
/// The most frames that one frame causes: itself, a reply, an ARP request, and four that waited for it; a
/// first fragment causes that for each of four others, and an error for each.
const MOST_SENT: usize = 16;
/// The longest time of one step, in ns: longer than any timeout.
const LONGEST_NS: u64 = 400_000_000_000;
/// Unknown next hops times waiting packets for each, and as many fragments.
const MOST_HELD: u64 = 2 * 256 * 4;
/// Mappings of the NAT.
const MAPPINGS: usize = 16;
const NEIGHBOURS: usize = 1024;

/// Station addresses: groups, reserved ones, the router's own, and others.
const MACS: [[u8; 6]; 8] = [
    [0xff; 6],
    [0x01, 0x80, 0xc2, 0, 0, 0x0e],
    [0x01, 0, 0x5e, 0, 0, 1],
    [2, 0, 0, 0, 1, 0],
    [2, 0, 0, 0, 1, 1],
    [2, 0, 0, 0, 1, 2],
    [2, 0, 0, 0, 9, 0],
    [0; 6],
];

/// Host addresses: the router's, its neighbours', those behind routes, unused and invalid ones.
const HOSTS: [[u8; 4]; 16] = [
    [10, 0, 0, 1],
    [10, 0, 1, 1],
    [10, 0, 2, 1],
    [10, 0, 0, 2],
    [10, 0, 1, 2],
    [10, 0, 2, 2],
    [10, 0, 0, 255],
    [10, 0, 1, 0],
    [10, 9, 8, 7],
    [10, 9, 200, 7],
    [192, 168, 1, 1],
    [127, 0, 0, 1],
    [224, 0, 0, 5],
    [255; 4],
    [0; 4],
    [203, 0, 113, 5],
];

/// The invalid frames of the tests, in the order of their names.
static CORPUS: LazyLock<Vec<Vec<u8>>> = LazyLock::new(|| {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../crates/tester/apps/tests/corpus");
    let mut paths: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    let frame = |path| {
        let text = std::fs::read_to_string(path).unwrap();
        let hex = text.split_once("\n\n").map_or("", |(_, hex)| hex);
        hex.split_whitespace().map(|byte| u8::from_str_radix(byte, 16).unwrap()).collect()
    };
    paths.into_iter().map(frame).collect()
});

#[derive(Arbitrary, Debug)]
enum Content {
    /// Anything.
    Raw(Vec<u8>),
    /// A frame of the corpus, sometimes with a changed byte or cut off.
    Known { which: u8, spoilt: Rarely<(u8, u8)>, cut: Rarely<u8> },
    /// An Ethernet header and arbitrary bytes.
    Ethernet { to: Rarely<u8>, from: u8, ethertype: u16, rest: Vec<u8> },
    /// An IPv4 packet, valid except for the given fields.
    Ip {
        to: Rarely<u8>,
        from: u8,
        source: Host,
        destination: Host,
        header: Header,
        payload: Vec<u8>,
        padding: u8,
    },
    /// An ARP message for IPv4, valid except for the given fields.
    Arp {
        to: Rarely<u8>,
        from: u8,
        operation: u8,
        sender_mac: u8,
        sender: Host,
        target: Host,
        wrong: Rarely<(u8, u8)>,
    },
}

/// A rare fault: most frames must be valid to get far.
#[derive(Arbitrary, Clone, Copy, Debug)]
struct Rarely<T> {
    when: u8,
    what: T,
}

impl<T: Copy> Rarely<T> {
    fn get(self) -> Option<T> {
        (self.when % 8 == 7).then_some(self.what)
    }
}

#[derive(Arbitrary, Clone, Copy, Debug)]
struct Header {
    ttl: u8,
    protocol: u8,
    fragment: Rarely<u16>,
    /// Words of options.
    options: Rarely<u8>,
    /// Errors of total length and checksum.
    length_error: Rarely<i8>,
    checksum_error: Rarely<u16>,
    /// ICMP type and code, with a right checksum.
    icmp: Option<(u8, u8)>,
}

#[derive(Arbitrary, Clone, Copy, Debug)]
enum Host {
    Known(u8),
    /// One of many in a network of the router.
    Neighbour {
        port: u8,
        host: u8,
    },
    Any([u8; 4]),
}

impl Host {
    fn address(self) -> [u8; 4] {
        match self {
            Self::Known(which) => HOSTS[usize::from(which) % HOSTS.len()],
            Self::Neighbour { port, host } => [10, 0, port % PORTS as u8, host],
            Self::Any(address) => address,
        }
    }
}

fn mac(which: u8) -> [u8; 6] {
    MACS[usize::from(which) % MACS.len()]
}

/// From one of the stations to the router's, or sometimes to another.
fn header(port: usize, to: Rarely<u8>, from: u8, ethertype: u16) -> Vec<u8> {
    let to = to.get().map_or(interface(port as u8).mac.0, mac);
    [&to[..], &mac(from), &ethertype.to_be_bytes()].concat()
}

impl Content {
    /// The frame that arrives at this port.
    fn bytes(self, port: usize) -> Vec<u8> {
        match self {
            Self::Raw(bytes) => bytes,
            Self::Known { which, spoilt, cut } => {
                let mut frame = CORPUS[usize::from(which) % CORPUS.len()].clone();
                if let Some((at, value)) = spoilt.get()
                    && let Some(byte) = frame.get_mut(usize::from(at))
                {
                    *byte = value;
                }
                frame.truncate(cut.get().map_or(frame.len(), usize::from));
                frame
            }
            Self::Ethernet { to, from, ethertype, rest } => {
                [header(port, to, from, ethertype), rest].concat()
            }
            Self::Ip { to, from, source, destination, header: h, mut payload, padding } => {
                let options = usize::from(h.options.get().unwrap_or(0) % 11) * 4;
                if let (Some((kind, code)), 4..) = (h.icmp, payload.len()) {
                    payload[..4].copy_from_slice(&[kind, code, 0, 0]);
                    let sum = checksum::checksum(&payload);
                    payload[2..4].copy_from_slice(&sum.to_be_bytes());
                }
                let total =
                    (20 + options + payload.len()) as i32 + i32::from(h.length_error.get().unwrap_or(0));
                let mut ip = vec![0; 20 + options];
                ip[0] = 0x45 + (options / 4) as u8;
                ip[2..4].copy_from_slice(&(total as u16).to_be_bytes());
                ip[6..8].copy_from_slice(&h.fragment.get().unwrap_or(0x4000).to_be_bytes());
                ip[8] = [64, 1, 2, 0, 255][usize::from(h.ttl) % 5];
                ip[9] = if h.icmp.is_some() { 1 } else { h.protocol };
                ip[12..16].copy_from_slice(&source.address());
                ip[16..20].copy_from_slice(&destination.address());
                let sum = checksum::checksum(&ip) ^ h.checksum_error.get().unwrap_or(0);
                ip[10..12].copy_from_slice(&sum.to_be_bytes());
                let padding = vec![0x5a; usize::from(padding)];
                [header(port, to, from, ethernet::TYPE_IPV4), ip, payload, padding].concat()
            }
            Self::Arp { to, from, operation, sender_mac, sender, target, wrong } => {
                let mut message = vec![0, 1, 8, 0, 6, 4, 0, operation % 4];
                message.extend(mac(sender_mac));
                message.extend(sender.address());
                message.extend([0; 6]);
                message.extend(target.address());
                if let Some((at, value)) = wrong.get() {
                    let at = usize::from(at) % message.len();
                    message[at] = value;
                }
                [header(port, to, from, ethernet::TYPE_ARP), message, vec![0; 18]].concat()
            }
        }
    }
}

#[derive(Arbitrary, Debug)]
enum Step {
    Frame {
        port: u8,
        /// The control field of a VLAN tag.
        tag: Option<u16>,
        content: Content,
    },
    Pass {
        ns: u64,
    },
    Tick,
    /// Sets the number of available buffers.
    Buffers {
        count: u8,
    },
}

/// The input that is drawn from the bytes.
#[derive(Arbitrary, Debug)]
pub struct Input {
    steps: Vec<Step>,
}

/// A frame whose leak or loss is noticed.
struct Frame {
    bytes: Vec<u8>,
    alive: Rc<Cell<i64>>,
}

impl Frame {
    fn new(bytes: Vec<u8>, alive: &Rc<Cell<i64>>) -> Self {
        alive.set(alive.get() + 1);
        Self { bytes, alive: alive.clone() }
    }
}

impl Resize for Frame {
    fn resize(&mut self, bytes: usize) -> bool {
        let fits = bytes <= MOST_BYTES;
        if fits {
            self.bytes.resize(bytes, 0);
        }
        fits
    }
}

impl Drop for Frame {
    fn drop(&mut self) {
        self.alive.set(self.alive.get() - 1);
    }
}

impl AsRef<[u8]> for Frame {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl AsMut<[u8]> for Frame {
    fn as_mut(&mut self) -> &mut [u8] {
        &mut self.bytes
    }
}

struct PortNumbers {
    alive: Rc<Cell<i64>>,
    buffers: u8,
    sent: Vec<(usize, Frame)>,
}

impl Outputs<Frame> for PortNumbers {
    fn send(&mut self, port: usize, frame: Frame) {
        self.sent.push((port, frame));
    }
    fn make(&mut self, bytes: &[u8]) -> Option<Frame> {
        self.buffers = self.buffers.checked_sub(1)?;
        Some(Frame::new(bytes.to_vec(), &self.alive))
    }
    fn discard(&mut self, frame: Frame) {
        drop(frame);
    }
}

/// A step with its frame built.
enum Event {
    Frame(usize, Vec<u8>),
    Pass(u64),
    Tick,
    Buffers(u8),
}

/// Runs one app; `check` gets the sent frames after a frame (`Some` port and bytes) or a tick.
fn feed<A: App<Frame>>(
    events: &[Event],
    app: &mut A,
    mut check: impl FnMut(&A, Option<(usize, &[u8])>, &[(usize, Frame)]),
) {
    let alive = Rc::new(Cell::new(0));
    let mut out = PortNumbers { alive: alive.clone(), buffers: u8::MAX, sent: Vec::new() };
    let mut now_ns = 0;
    for event in events {
        match event {
            Event::Frame(port, bytes) => {
                drop(app.push(*port, Frame::new(bytes.clone(), &alive), now_ns, &mut out));
                assert!(out.sent.len() <= MOST_SENT, "{} frames for one", out.sent.len());
                check(app, Some((*port, bytes)), &out.sent);
            }
            Event::Pass(ns) => now_ns += ns,
            Event::Tick => {
                app.tick(now_ns, &mut out);
                check(app, None, &out.sent);
            }
            Event::Buffers(count) => out.buffers = *count,
        }
        out.sent.clear();
        let ledger = app.ledger();
        assert!(ledger.closes(), "{ledger:?}");
        assert_eq!(alive.get(), ledger.held as i64, "frames that nobody has");
        assert!(ledger.held <= MOST_HELD);
    }
}

fn interface(port: u8) -> Interface {
    let net = Ipv4Net::new_assert(Ipv4Addr::new(10, 0, port, 1), 24);
    Interface { port: port.into(), vlan: None, mac: Mac([2, 0, 0, 0, 1, port]), net, mtu: MTU }
}

/// A neighbour behind each port announces itself.
fn introductions() -> impl Iterator<Item = Event> {
    (0..PORTS).map(|port| {
        let neighbour = |host| Host::Neighbour { port: port as u8, host };
        let never = Rarely { when: 0, what: 0 };
        let wrong = Rarely { when: 0, what: (0, 0) };
        let (sender, target) = (neighbour(2), neighbour(1));
        let arp = Content::Arp { to: never, from: 6, operation: 1, sender_mac: 6, sender, target, wrong };
        Event::Frame(port, arp.bytes(port))
    })
}

fn check_bridge(bridge: &EtherSwitch, came: Option<(usize, &[u8])>, sent: &[(usize, Frame)]) {
    let Some((from, bytes)) = came else { return assert!(sent.is_empty()) };
    assert!(bridge.stations() <= STATIONS);
    assert!(sent.len() < PORTS);
    for (index, (port, frame)) in sent.iter().enumerate() {
        assert!(*port < PORTS && *port != from, "sent back to its own port");
        assert!(!sent[..index].iter().any(|(other, _)| other == port), "twice by one port");
        assert_eq!(frame.bytes, bytes, "a bridge changes nothing");
    }
}

fn check_router(router: &Router<Frame>, came: Option<(usize, &[u8])>, sent: &[(usize, Frame)]) {
    assert!(router.neighbours() <= NEIGHBOURS);
    for (port, frame) in sent {
        assert!(*port < PORTS);
        let view = ethernet::Frame::new_checked(&frame.bytes[..]).unwrap();
        assert_eq!(view.source(), interface(*port as u8).mac);
        assert!(!view.source().is_multicast());
        match view.ethertype() {
            ethernet::TYPE_ARP => assert!(frame.bytes.len() >= 42),
            ethernet::TYPE_IPV4 => {
                let packet = ipv4::Packet::new_checked(view.payload()).unwrap();
                assert!(packet.checksum_ok(), "a wrong checksum");
                assert!(packet.ttl() > 0, "no hop left");
                // Same addresses and payload: this is the frame that arrived, one hop on.
                if let Some((_, came)) = came
                    && came.get(26..) == frame.bytes.get(26..)
                {
                    assert_eq!(packet.ttl(), came[22] - 1, "the TTL decreases by one");
                }
                assert!(packet.total_bytes() <= usize::from(MTU) || packet.ttl() == 64, "too big");
                let destination = packet.destination().octets();
                assert!(!matches!(destination[0], 0 | 127 | 224..=255), "to {destination:?}");
                assert!(!view.destination().is_multicast(), "a packet to one host for all");
            }
            other => panic!("a router sends no {other:#06x}"),
        }
    }
}

fn check_nat(nat: &Router<Frame>, _: Option<(usize, &[u8])>, sent: &[(usize, Frame)]) {
    assert!(nat.mappings() <= MAPPINGS);
    for (port, frame) in sent {
        let view = ethernet::Frame::new_checked(&frame.bytes[..]).unwrap();
        assert!(view.vlan().is_none_or(|id| (*port, id) == (1, 1)), "a VLAN of another port");
        if view.ethertype() == ethernet::TYPE_IPV4 {
            let packet = ipv4::Packet::new_checked(view.payload()).unwrap();
            assert!(packet.checksum_ok() && packet.ttl() > 0);
            assert!(*port != 2 || packet.source().octets() == [10, 0, 2, 1], "a host inside is seen");
        }
    }
}

/// Runs all apps.
fn run_all(events: &[Event]) {
    feed(events, &mut EtherSwitch::with_table(PORTS, STATIONS, 1_000_000_000), check_bridge);
    let routes = [
        Route { to: "10.9.0.0/16".parse().unwrap(), via: [10, 0, 1, 2].into() },
        Route { to: "10.9.128.0/17".parse().unwrap(), via: [10, 0, 2, 2].into() },
    ];
    let mut router = Router::new((0..PORTS as u8).map(interface).collect(), &routes).unwrap();
    feed(events, &mut router, check_router);

    // Each port's network again, in a VLAN: ports 0 and 1 are inside, in two each.
    let vlan = |port: u8| Interface {
        vlan: Some(port.into()),
        net: Ipv4Net::new_assert(Ipv4Addr::new(10, 1, port, 1), 24),
        ..interface(port)
    };
    let interfaces = [interface(0), interface(1), vlan(1), interface(2)];
    let plan = Nat { mappings: MAPPINGS, ..Nat::new(3) };
    let mut nat = Router::new(interfaces.to_vec(), &routes).unwrap().with_nat(plan).unwrap();
    feed(events, &mut nat, check_nat);
}

/// Runs the frames of the tests unchanged, each at each port.
fn run_corpus() {
    for port in 0..PORTS {
        let second = || Event::Pass(1_000_000_000);
        let steps = |frame: &Vec<u8>| [Event::Frame(port, frame.clone()), second(), Event::Tick];
        let frames = CORPUS.iter().flat_map(steps);
        run_all(&introductions().chain(frames).collect::<Vec<_>>());
    }
}

/// Runs the apps on the frames and steps of an input.
pub fn run(input: Input) {
    static KNOWN: Once = Once::new();
    KNOWN.call_once(run_corpus);
    let event = |step| match step {
        Step::Frame { port, tag, content } => {
            let port = usize::from(port) % PORTS;
            let mut bytes = content.bytes(port);
            if let (Some(control), 12..) = (tag, bytes.len()) {
                let [a, b] = (control & 0xf007).to_be_bytes();
                bytes.splice(12..12, [0x81, 0, a, b]);
            }
            Event::Frame(port, bytes)
        }
        Step::Pass { ns } => Event::Pass(ns % LONGEST_NS),
        Step::Tick => Event::Tick,
        Step::Buffers { count } => Event::Buffers(count),
    };
    run_all(&introductions().chain(input.steps.into_iter().map(event)).collect::<Vec<_>>());
}
