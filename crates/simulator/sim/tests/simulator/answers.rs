//! The messages of routers in the simulator: ARP, echoes, ICMP errors. They are byte by byte the messages of
//! the same app alone, and etherparse reads them.

use etherparse::{
    ArpHardwareId, ArpOperation, ArpPacket, EtherType, IcmpEchoHeader, Icmpv4Type, NetSlice, PacketBuilder,
    SlicedPacket, TransportSlice, icmpv4,
};
use kpps_apps::{App, Outputs, Router};
use kpps_frames::Size;
use kpps_sim::workload::forward::lunz2003;
use kpps_sim::{AppKind, Conversation, ForwardingTestbed};
use std::net::Ipv4Addr;

type Frame = Vec<u8>;

/// From one frame to the next, in ms: longer than a neighbour has for its answer.
const EVERY_MS: u32 = 1100;
const STATION: [[u8; 6]; 2] = [[2, 0, 0, 0, 7, 0], [2, 0, 0, 0, 7, 1]];
const HERE: [Ipv4Addr; 2] = [Ipv4Addr::new(198, 18, 0, 1), Ipv4Addr::new(198, 19, 0, 1)];
const HOST: [Ipv4Addr; 2] = [Ipv4Addr::new(198, 18, 0, 9), Ipv4Addr::new(198, 19, 0, 9)];
/// Answers when it is asked, and never.
const LATE: Ipv4Addr = Ipv4Addr::new(198, 19, 0, 77);
const NEVER: Ipv4Addr = Ipv4Addr::new(198, 19, 0, 78);
const NOWHERE: Ipv4Addr = Ipv4Addr::new(203, 0, 113, 5);

fn tagged(app: AppKind, port: usize, frame: Frame) -> Frame {
    match app {
        AppKind::VlanRoute => {
            let tag = [0x81, 0, 0, [10, 20][port]];
            [&frame[..12], &tag, &frame[12..]].concat()
        }
        _ => frame,
    }
}

fn untagged(app: AppKind, port: usize, frame: &[u8]) -> Frame {
    match app {
        AppKind::VlanRoute => {
            assert_eq!(frame[12..16], [0x81, 0, 0, [10, 20][port]]);
            [&frame[..12], &frame[16..]].concat()
        }
        _ => frame.to_vec(),
    }
}

fn padded(mut frame: Frame) -> Frame {
    frame.resize(frame.len().max(60), 0);
    frame
}

fn arp(
    operation: ArpOperation,
    from: ([u8; 6], Ipv4Addr),
    to: ([u8; 6], Ipv4Addr),
    station: [u8; 6],
) -> Frame {
    let (ethernet, ipv4) = (ArpHardwareId::ETHERNET, EtherType::IPV4);
    let (sender, target) = (from.1.octets(), to.1.octets());
    let message = ArpPacket::new(ethernet, ipv4, operation, &from.0, &sender, &to.0, &target).unwrap();
    let mut frame = Vec::new();
    PacketBuilder::ethernet2(from.0, station).arp(message).write(&mut frame).unwrap();
    padded(frame)
}

fn asks(port: usize) -> Frame {
    arp(ArpOperation::REQUEST, (STATION[port], HOST[port]), ([0; 6], HERE[port]), [0xff; 6])
}

/// The answers of the router alone, at the same times.
#[derive(Default)]
struct Wires(Vec<(usize, Frame)>);

impl Outputs<Frame> for Wires {
    fn send(&mut self, port: usize, frame: Frame) {
        self.0.push((port, frame));
    }
    fn make(&mut self, bytes: &[u8]) -> Option<Frame> {
        Some(bytes.to_vec())
    }
    fn discard(&mut self, _: Frame) {}
}

fn alone(app: AppKind, frames: &[(usize, Frame)]) -> (Vec<Vec<(usize, Frame)>>, kpps_apps::Ledger) {
    let mut router: Router<Frame> = app.router(Size::MAX_STANDARD).unwrap();
    let left = frames.iter().enumerate().map(|(turn, (port, frame))| {
        let (mut wires, now_ns) = (Wires::default(), turn as u64 * u64::from(EVERY_MS) * 1_000_000);
        router.tick(now_ns, &mut wires);
        router.push(*port, frame.clone(), now_ns, &mut wires);
        wires.0.into_iter().map(|(port, frame)| (port, padded(frame))).collect()
    });
    (left.collect(), router.ledger())
}

fn in_the_room(app: AppKind, driver: &str, frames: &[(usize, Frame)]) -> Conversation {
    let setup = lunz2003(driver, 256, true).unwrap();
    ForwardingTestbed::new(setup, app).conversation(Size::MAX_STANDARD, frames, EVERY_MS, &|| true).unwrap()
}

/// The ICMP message of a frame whose checksums are right, from one to the other.
fn icmp(frame: &[u8], from: Ipv4Addr, to: Ipv4Addr) -> (Icmpv4Type, Frame) {
    let packet = SlicedPacket::from_ethernet(frame).unwrap();
    let Some(NetSlice::Ipv4(ip)) = packet.net else { panic!("no IPv4: {frame:02x?}") };
    let header = ip.header().to_header();
    assert_eq!(header.header_checksum, header.calc_header_checksum());
    assert_eq!((header.source, header.destination), (from.octets(), to.octets()));
    let Some(TransportSlice::Icmpv4(icmp)) = packet.transport else { panic!("no ICMP: {frame:02x?}") };
    assert_eq!(icmp.checksum(), icmp.icmp_type().calc_checksum(icmp.payload()));
    (icmp.icmp_type(), icmp.payload().to_vec())
}

fn converses(app: AppKind, driver: &str) {
    // The router itself answers requests for its address.
    let questions: Vec<_> = [0, 1].map(|port| (port, tagged(app, port, asks(port)))).into();
    let answers = in_the_room(app, driver, &questions).left;
    let router = [0, 1].map(|port| {
        let [(by, answer)] = &answers[port][..] else { panic!("{app}: {:?}", answers[port]) };
        assert_eq!(*by, port);
        let answer = untagged(app, port, answer);
        let Some(NetSlice::Arp(arp)) = SlicedPacket::from_ethernet(&answer).unwrap().net else {
            panic!("no ARP: {answer:02x?}")
        };
        assert_eq!(arp.operation(), ArpOperation::REPLY);
        assert_eq!(arp.sender_protocol_addr(), HERE[port].octets());
        assert_eq!((arp.target_hw_addr(), &answer[..6]), (&STATION[port][..], &STATION[port][..]));
        <[u8; 6]>::try_from(arp.sender_hw_addr()).unwrap()
    });

    let start = |ttl, to: Ipv4Addr| {
        PacketBuilder::ethernet2(STATION[0], router[0]).ipv4(HOST[0].octets(), to.octets(), ttl)
    };
    let udp = |ttl, to, payload: &[u8]| {
        let mut frame = Vec::new();
        start(ttl, to).udp(4000, 53).write(&mut frame, payload).unwrap();
        padded(frame)
    };
    let (mut echo, mut tcp) = (Vec::new(), Vec::new());
    start(64, HERE[0]).icmpv4_echo_request(5, 6).write(&mut echo, b"there and back").unwrap();
    start(64, HERE[0]).tcp(4000, 80, 1, 1000).syn().write(&mut tcp, &[]).unwrap();
    let late = arp(ArpOperation::REPLY, (STATION[1], LATE), (router[1], HERE[1]), router[1]);
    let said = [
        (0, asks(0)),
        (1, asks(1)),
        (0, udp(1, HOST[1], &[7; 700])),
        (0, udp(9, NOWHERE, b"where?")),
        (0, udp(9, HOST[1], b"there")),
        (0, udp(9, HERE[0], b"you?")),
        (0, padded(echo)),
        (0, padded(tcp)),
        (0, udp(9, LATE, b"anybody?")),
        (1, late),
        (0, udp(9, NEVER, b"nobody?")),
        (0, udp(9, HOST[1], b"a second")),
        (0, udp(9, HOST[1], b"another")),
        (0, udp(9, HOST[1], b"a third")),
        (0, udp(9, HOST[1], b"and one more")),
    ];
    let frames: Vec<_> =
        said.iter().map(|(port, frame)| (*port, tagged(app, *port, frame.clone()))).collect();
    let Conversation { mut left, ledger } = in_the_room(app, driver, &frames);
    let (mut right, right_ledger) = alone(app, &frames);
    for (turn, (left, right)) in left.iter_mut().zip(&mut right).enumerate() {
        // Two ports are two wires: which of them was quicker does not matter.
        left.sort_by_key(|(port, _)| *port);
        right.sort_by_key(|(port, _)| *port);
        assert_eq!(left, right, "{app} with {driver}, frame {turn}");
    }
    assert_eq!(ledger, right_ledger, "{app} with {driver}");

    let only = |turn: usize| {
        let [(port, frame)] = &left[turn][..] else { panic!("{app}, frame {turn}: {:02x?}", left[turn]) };
        (*port, untagged(app, *port, frame))
    };
    let told = |turn: usize| {
        let (port, frame) = only(turn);
        assert_eq!((port, &frame[..12]), (0, &[STATION[0], router[0]].concat()[..]));
        icmp(&frame, HERE[0], HOST[0])
    };
    let refused = |why| Icmpv4Type::DestinationUnreachable(why);
    use icmpv4::DestUnreachableHeader::{Host, Network, Port, Protocol};
    let expired = Icmpv4Type::TimeExceeded(icmpv4::TimeExceededCode::TtlExceededInTransit);
    for (turn, kind) in [(2, expired), (3, refused(Network)), (5, refused(Port)), (7, refused(Protocol))] {
        let (found, quoted) = told(turn);
        assert_eq!(found, kind, "{app}, frame {turn}");
        // As much of the packet as an error has room for, without padding.
        let packet = &said[turn].1[14..];
        let total = usize::from(u16::from_be_bytes([packet[2], packet[3]])).min(576 - 28);
        assert_eq!(quoted, packet[..total], "{app}, frame {turn}");
    }
    let (kind, data) = told(6);
    assert_eq!(kind, Icmpv4Type::EchoReply(IcmpEchoHeader { id: 5, seq: 6 }));
    assert_eq!(data, b"there and back");
    // A question, and what waited for its answer.
    let (port, question) = only(8);
    let Some(NetSlice::Arp(question)) = SlicedPacket::from_ethernet(&question).unwrap().net else {
        panic!("no ARP")
    };
    assert_eq!((port, question.operation()), (1, ArpOperation::REQUEST));
    assert_eq!(
        (question.sender_hw_addr(), question.target_protocol_addr()),
        (&router[1][..], &LATE.octets()[..])
    );
    let (port, late) = left[9].last().unwrap();
    assert_eq!((port, &late[..6]), (&1, &STATION[1][..]));
    // A host that never answers is asked again, and then abandoned.
    let given_up = left[10..].iter().flatten().filter(|(port, _)| *port == 0);
    let given_up: Vec<_> = given_up.map(|(port, frame)| untagged(app, *port, frame)).collect();
    let [error] = &given_up[..] else { panic!("{app}: {given_up:02x?}") };
    assert_eq!(icmp(error, HERE[0], HOST[0]).0, refused(Host));
    // Five errors, two questions at least.
    assert!(ledger.made >= 7 && ledger.held == 0, "{ledger:?}");
}

#[test]
fn a_router_answers_asks_and_tells() {
    converses(AppKind::Route, "intel-5.7.6");
    converses(AppKind::Route, "kpps");
}

#[test]
fn so_does_one_between_vlans() {
    converses(AppKind::VlanRoute, "intel-5.7.6");
}

/// Nobody outside sees who is inside.
#[test]
fn so_does_a_nat() {
    converses(AppKind::Nat, "kpps");
}
