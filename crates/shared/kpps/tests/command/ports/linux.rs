//! Router, VLAN router and NAT beside Linux doing the same job: the same frames in, the same frames out, byte
//! by byte.

use crate::net::{End, Net, document, is_arp, stop};
use etherparse::{
    Icmpv4Type, IpFragOffset, Ipv4Header, NetSlice, PacketBuilder, SlicedPacket, TransportSlice, icmpv4,
};
use kpps_namespaces::skip;
use std::net::Ipv4Addr;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// The stations of the router and of the hosts behind its two links, and their addresses.
const ROUTER: [[u8; 6]; 2] = [[2, 0, 0, 0, 1, 0], [2, 0, 0, 0, 1, 1]];
const HOST: [[u8; 6]; 2] = [[2, 0, 0, 0, 9, 0], [2, 0, 0, 0, 9, 1]];
const HERE: [Ipv4Addr; 2] = [Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(10, 0, 1, 1)];
const THERE: [Ipv4Addr; 2] = [Ipv4Addr::new(10, 0, 0, 2), Ipv4Addr::new(10, 0, 1, 2)];
/// The ports of the datagram that follows each frame, to see that it was dealt with.
const MARK: [u16; 2] = [4999, 999];

#[derive(Clone, Copy, PartialEq, Eq)]
enum Job {
    Route,
    Vlan,
    Nat,
}

/// Two links to a router, which lives in a namespace of its own.
struct Rig {
    /// Where each link is: the end of a cable, and the VLAN there.
    links: [(usize, Option<u16>); 2],
    /// The router's station at each link.
    stations: [[u8; 6]; 2],
    ends: Vec<End>,
    job: Job,
    kpps: Option<Child>,
    _wires: Net,
    router: Net,
}

impl Rig {
    /// Cables with ends `a`, `b` for us and `p`, `q` for the router.
    fn new(job: Job, links: [(usize, Option<u16>); 2]) -> Option<Self> {
        let (wires, router) = (Net::new(&[("a", "p"), ("b", "q")])?, Net::new(&[])?);
        let ends = vec![wires.end("a"), wires.end("b")];
        let trunk = links[0].0 == links[1].0;
        // Sub-interfaces have their port's address.
        let stations = if job == Job::Vlan { [ROUTER[0]; 2] } else { ROUTER };
        for (index, name) in ["p", "q"].into_iter().enumerate() {
            let station = stations[index].map(|byte| format!("{byte:02x}")).join(":");
            wires.run(&["ip", "link", "set", name, "netns", router.name()]);
            router.run(&["ip", "link", "set", name, "address", &station]);
            if !(trunk && index == 1) {
                router.run(&["ip", "link", "set", name, "up"]);
            }
        }
        Some(Self { links, stations, ends, job, kpps: None, _wires: wires, router })
    }

    fn kpps(job: Job, more: &[&str]) -> Option<Self> {
        let (links, command, inside, outside) = match job {
            Job::Route => ([(0, None), (1, None)], "route", "packet:p=10.0.0.1/24", "packet:q=10.0.1.1/24"),
            Job::Nat => ([(0, None), (1, None)], "nat", "packet:p=10.0.0.1/24", "packet:q=10.0.1.1/24"),
            Job::Vlan => (
                [(0, Some(10)), (0, Some(20))],
                "route",
                "packet:p@10=10.0.0.1/24",
                "packet:p@20=10.0.1.1/24",
            ),
        };
        let mut rig = Self::new(job, links)?;
        let ports = if job == Job::Vlan { 1 } else { 2 };
        rig.kpps = Some(rig.router.start(&[&[command, inside, outside, "--json"], more].concat(), ports));
        rig.introduce();
        Some(rig)
    }

    fn linux(job: Job, settings: &[&str], ports: &str) -> Option<Self> {
        let cables = [(0, None), (1, None)];
        let vlan = |rig: &Self, id: &str| {
            let name = format!("p.{id}");
            let words = ["ip", "link", "add", "link", "p", "name", &name, "type", "vlan", "id", id];
            let made = rig.router.command(&words).stderr(Stdio::null()).status().unwrap().success();
            made.then(|| rig.router.run(&["ip", "link", "set", &name, "up"])).map(|()| name)
        };
        let mut rig = Self::new(job, if job == Job::Vlan { [(0, Some(10)), (0, Some(20))] } else { cables })?;
        let mut names = ["p".to_owned(), "q".to_owned()];
        if job == Job::Vlan {
            match (vlan(&rig, "10"), vlan(&rig, "20")) {
                (Some(first), Some(second)) => names = [first, second],
                _ => {
                    skip::lacks("VLAN interfaces: Linux routes between two cables instead");
                    rig = Self::new(job, cables)?;
                }
            }
        }
        let router = &rig.router;
        for (index, name) in names.iter().enumerate() {
            router.run(&["ip", "address", "add", &format!("{}/24", HERE[index]), "dev", name]);
            let station = HOST[index].map(|byte| format!("{byte:02x}")).join(":");
            let host = THERE[index].to_string();
            router.run(&["ip", "neigh", "add", &host, "lladdr", &station, "dev", name, "nud", "permanent"]);
        }
        let write = |folder: &str, what: &str| {
            let (name, value) = what.split_once('=').unwrap();
            router.run(&["sh", "-c", &format!("echo {value} > /proc/sys/net/{folder}/{name}")]);
        };
        let set = |what: &&str| write("ipv4", what);
        ["ip_forward=1", "icmp_ratelimit=0", "icmp_msgs_per_sec=100000"].iter().for_each(set);
        if job == Job::Nat {
            let rules = format!(
                "add table ip t; add chain ip t c {{ type nat hook postrouting priority 100; }}; \
                 add rule ip t c oifname {} {} masquerade{ports}",
                names[1],
                if ports.is_empty() { "" } else { "meta l4proto udp" }
            );
            router.run(&["nft", &rules]);
            // There once something is translated.
            settings.iter().for_each(|what| write("netfilter", what));
        }
        Some(rig)
    }

    /// Both hosts make themselves known by ARP.
    fn introduce(&mut self) {
        for link in [0, 1] {
            self.send(link, &arp_question((HOST[link], THERE[link]), HERE[link]));
            let tag = usize::from(self.links[link].1.is_some()) * 4;
            let reply = self.ends[self.links[link].0].receive("an ARP reply", |frame| is_arp(frame, tag));
            assert_eq!(reply[22 + tag..28 + tag], self.stations[link]);
        }
    }

    /// Sends a frame, which is written for links without VLANs, to the router's station at a link.
    fn send(&mut self, link: usize, frame: &[u8]) {
        let (end, vlan) = self.links[link];
        let tag = vlan.map_or(vec![], |id| [&[0x81, 0][..], &id.to_be_bytes()].concat());
        let mut frame = [&frame[..12], &tag, &frame[12..]].concat();
        if frame[0] & 1 == 0 {
            frame[..6].copy_from_slice(&self.stations[link]);
        }
        self.ends[end].send(&frame);
    }

    /// The IPv4 packets that come out because of a frame, with their links and as long as they say; then the
    /// mark.
    fn outcome(&mut self, link: usize, frame: &[u8]) -> Vec<(usize, Vec<u8>)> {
        self.send(link, frame);
        let other = 1 - link;
        let to = if self.job == Job::Nat && link == 1 { HERE[1] } else { THERE[other] };
        let mark = udp(link, (THERE[link], MARK[link]), (to, MARK[other]), 64, b"mark");
        self.send(link, &mark);
        let (end, mut all) = (Instant::now() + Duration::from_secs(60), Vec::new());
        loop {
            // The mark is searched last: when it has arrived, all earlier frames have arrived.
            let mut marked = false;
            for at in [link, other] {
                let (end, vlan) = self.links[at];
                // On a trunk both links have one end.
                let frames =
                    if end == self.links[link].0 && at == other { vec![] } else { self.ends[end].drain() };
                for frame in frames {
                    let (at, frame) = self.untagged(end, vlan, at, frame);
                    if frame[12..14] != [8, 0] {
                        continue;
                    }
                    let total = usize::from(u16::from_be_bytes([frame[16], frame[17]]));
                    if frame.ends_with(b"mark") || frame[..14 + total].ends_with(b"mark") {
                        marked = true;
                    } else {
                        all.push((at, frame[..14 + total].to_vec()));
                    }
                }
            }
            if marked {
                // Frames that came back on the first link in the meantime.
                let (end, vlan) = self.links[link];
                for frame in self.ends[end].drain() {
                    let (at, frame) = self.untagged(end, vlan, link, frame);
                    if frame[12..14] == [8, 0] {
                        let total = usize::from(u16::from_be_bytes([frame[16], frame[17]]));
                        all.push((at, frame[..14 + total].to_vec()));
                    }
                }
                return all;
            }
            assert!(Instant::now() < end, "the router does not go on");
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// The link of a frame, and the frame without its tag.
    fn untagged(&self, end: usize, vlan: Option<u16>, at: usize, frame: Vec<u8>) -> (usize, Vec<u8>) {
        if vlan.is_none() {
            assert_ne!(frame[12..14], [0x81, 0], "a tag on a link without VLAN");
            return (at, frame);
        }
        assert_eq!(frame[12..14], [0x81, 0], "no tag on a trunk");
        let id = u16::from_be_bytes([frame[14], frame[15]]);
        let link = self.links.iter().position(|link| *link == (end, Some(id))).expect("a VLAN of the router");
        (link, [&frame[..12], &frame[16..]].concat())
    }
}

type Station = ([u8; 6], Ipv4Addr);

fn arp(operation: etherparse::ArpOperation, from: Station, to: Station, station: [u8; 6]) -> Vec<u8> {
    let (ethernet, ipv4) = (etherparse::ArpHardwareId::ETHERNET, etherparse::EtherType::IPV4);
    let (sender, target) = (from.1.octets(), to.1.octets());
    let message =
        etherparse::ArpPacket::new(ethernet, ipv4, operation, &from.0, &sender, &to.0, &target).unwrap();
    let mut frame = Vec::new();
    PacketBuilder::ethernet2(from.0, station).arp(message).write(&mut frame).unwrap();
    finish(&mut frame);
    frame
}

/// Somebody asks everybody who has an address.
fn arp_question(from: Station, wanted: Ipv4Addr) -> Vec<u8> {
    arp(etherparse::ArpOperation::REQUEST, from, ([0; 6], wanted), [0xff; 6])
}

/// Somebody tells the router on link 1 who it is.
fn arp_answer(from: Station, router: [u8; 6]) -> Vec<u8> {
    arp(etherparse::ArpOperation::REPLY, from, (router, HERE[1]), router)
}

fn finish(frame: &mut Vec<u8>) {
    frame.resize(frame.len().max(60), 0);
}

fn start(link: usize) -> etherparse::PacketBuilderStep<etherparse::Ethernet2Header> {
    PacketBuilder::ethernet2(HOST[link], ROUTER[link])
}

fn udp(link: usize, from: (Ipv4Addr, u16), to: (Ipv4Addr, u16), ttl: u8, payload: &[u8]) -> Vec<u8> {
    let mut frame = Vec::new();
    let packet = start(link).ipv4(from.0.octets(), to.0.octets(), ttl).udp(from.1, to.1);
    packet.write(&mut frame, payload).unwrap();
    finish(&mut frame);
    frame
}

/// A segment with these flags: S, A, F, R.
fn tcp(
    link: usize,
    from: (Ipv4Addr, u16),
    to: (Ipv4Addr, u16),
    numbers: (u32, u32),
    flags: &str,
    payload: &[u8],
) -> Vec<u8> {
    let mut tcp = start(link).ipv4(from.0.octets(), to.0.octets(), 64).tcp(from.1, to.1, numbers.0, 4000);
    for flag in flags.chars() {
        tcp = match flag {
            'S' => tcp.syn(),
            'A' => tcp.ack(numbers.1),
            'F' => tcp.fin(),
            _ => tcp.rst(),
        };
    }
    let mut frame = Vec::new();
    tcp.write(&mut frame, payload).unwrap();
    finish(&mut frame);
    frame
}

fn echo(link: usize, to: Ipv4Addr, id: u16, reply: bool, ttl: u8) -> Vec<u8> {
    let mut frame = Vec::new();
    let packet = start(link).ipv4(THERE[link].octets(), to.octets(), ttl);
    match reply {
        true => packet.icmpv4_echo_reply(id, 1).write(&mut frame, b"there and back").unwrap(),
        false => packet.icmpv4_echo_request(id, 1).write(&mut frame, b"there and back").unwrap(),
    }
    finish(&mut frame);
    frame
}

/// An error that the host behind a link sends about a packet that came to it.
fn refused(link: usize, to: Ipv4Addr, about: &[u8]) -> Vec<u8> {
    let mut frame = Vec::new();
    let kind = Icmpv4Type::DestinationUnreachable(icmpv4::DestUnreachableHeader::Port);
    let packet = start(link).ipv4(THERE[link].octets(), to.octets(), 64).icmpv4(kind);
    packet.write(&mut frame, &about[14..]).unwrap();
    frame
}

/// The frame with another IPv4 header.
fn with_header(frame: &[u8], change: impl FnOnce(&mut Ipv4Header)) -> Vec<u8> {
    let (mut header, rest) = Ipv4Header::from_slice(&frame[14..]).unwrap();
    change(&mut header);
    header.header_checksum = header.calc_header_checksum();
    let mut changed = frame[..14].to_vec();
    header.write(&mut changed).unwrap();
    changed.extend(rest);
    changed
}

/// The compared parts of an ICMP error, or an answer to a ping, that the router made itself. (A router may
/// choose the identification, and whether an answer may be fragmented.)
#[derive(Debug, PartialEq)]
struct RoutersOwn {
    kind: Icmpv4Type,
    ends: [[u8; 4]; 2],
    tos: u8,
    ttl: u8,
    quoted: Vec<u8>,
}

/// The router's own ICMP message, if the packet is one; all its checksums are right.
fn own(frame: &[u8]) -> Option<RoutersOwn> {
    let packet = SlicedPacket::from_ethernet(frame).unwrap();
    let Some(NetSlice::Ipv4(ip)) = packet.net else { panic!("no IPv4") };
    let header = ip.header().to_header();
    assert_eq!(header.header_checksum, header.calc_header_checksum());
    let Some(TransportSlice::Icmpv4(icmp)) = packet.transport else { return None };
    assert_eq!(icmp.checksum(), icmp.icmp_type().calc_checksum(icmp.payload()));
    let own = matches!(
        icmp.icmp_type(),
        Icmpv4Type::DestinationUnreachable(_) | Icmpv4Type::TimeExceeded(_) | Icmpv4Type::EchoReply(_)
    );
    let ours = HERE.map(|address| address.octets()).contains(&header.source);
    (own && ours).then(|| RoutersOwn {
        kind: icmp.icmp_type(),
        ends: [header.source, header.destination],
        tos: header.dscp.value() << 2 | header.ecn.value(),
        ttl: header.time_to_live,
        quoted: icmp.payload().to_vec(),
    })
}

/// Lets both do the same, and returns what came out: as many frames as expected, equal ones.
fn same(
    what: &str,
    rigs: &mut [Rig; 2],
    link: usize,
    frame: &[u8],
    expected: usize,
) -> Vec<(usize, Vec<u8>)> {
    let [ours, theirs] = rigs.each_mut().map(|rig| rig.outcome(link, frame));
    assert_eq!((ours.len(), theirs.len()), (expected, expected), "{what}: {ours:02x?} {theirs:02x?}");
    for ((link, ours), (there, theirs)) in ours.iter().zip(&theirs) {
        assert_eq!(link, there, "{what}");
        match (own(ours), own(theirs)) {
            (Some(one), Some(other)) => assert_eq!((one, &ours[..14]), (other, &theirs[..14]), "{what}"),
            _ => assert_eq!(ours, theirs, "{what}"),
        }
    }
    ours
}

fn rigs(job: Job) -> Option<[Rig; 2]> {
    Some([Rig::kpps(job, &[])?, Rig::linux(job, &[], "")?])
}

/// NATs with these settings: of kpps as arguments, of Linux's connections, and of its rule.
fn nats(ours: &[&str], theirs: &[&str], ports: &str) -> Option<[Rig; 2]> {
    if !Command::new("nft").arg("--version").stdout(Stdio::null()).status().is_ok_and(|s| s.success()) {
        kpps_namespaces::skip::needs("nft (make install-test-tools)");
        return None;
    }
    Some([Rig::kpps(Job::Nat, ours)?, Rig::linux(Job::Nat, theirs, ports)?])
}

/// Ends kpps and checks that it knows where every frame is.
fn account([mut ours, _]: [Rig; 2]) {
    let document = document(&stop(ours.kpps.take().unwrap()));
    let app = &document["app"];
    let dropped: u64 = app["dropped"].as_object().unwrap().values().map(|v| v.as_u64().unwrap()).sum();
    let count = |name: &str| app[name].as_u64().unwrap();
    assert_eq!(count("received") + count("made"), count("sent") + count("held") + dropped, "{app}");
}

/// The behaviour of any router, with VLANs or without.
fn route_the_same(mut rigs: [Rig; 2]) {
    let (a, b) = ((THERE[0], 4000), (THERE[1], 53));
    let rigs_ = &mut rigs;
    // First, because Linux's limits for this and for other errors share a bucket.
    same("no route", rigs_, 0, &udp(0, a, ([192, 168, 9, 9].into(), 1), 9, b"where?"), 1);
    for bytes in [0, 18, 19, 700, 1472] {
        let payload: Vec<u8> = (0..bytes).map(|n| n as u8).collect();
        for ttl in [255, 64, 2] {
            same("a datagram", rigs_, 0, &udp(0, a, b, ttl, &payload), 1);
            same("and back", rigs_, 1, &udp(1, b, a, ttl, &payload), 1);
        }
    }
    same("a segment", rigs_, 0, &tcp(0, a, b, (1, 2), "A", b"data"), 1);
    same("a ping", rigs_, 0, &echo(0, THERE[1], 7, false, 64), 1);
    same("the last hop", rigs_, 0, &udp(0, a, b, 1, &[5; 600]), 1);
    same("no hop", rigs_, 1, &udp(1, b, a, 0, b"late"), 1);
    let plain = udp(0, a, b, 64, &[9; 64]);
    same(
        "a class of service",
        rigs_,
        0,
        &with_header(&plain, |h| {
            h.dscp = 46.try_into().unwrap();
            h.ecn = 1.try_into().unwrap();
        }),
        1,
    );
    same(
        "a fragment",
        rigs_,
        0,
        &with_header(&plain, |h| {
            (h.dont_fragment, h.more_fragments) = (false, true);
            h.fragment_offset = IpFragOffset::try_new(3).unwrap();
            h.identification = 99;
        }),
        1,
    );
    let mut bad = plain.clone();
    bad[24] ^= 1;
    same("a wrong checksum", rigs_, 0, &bad, 0);
    for source in [[127, 0, 0, 1], [224, 0, 0, 1], [255; 4]] {
        same("an impossible source", rigs_, 0, &with_header(&plain, |h| h.source = source), 0);
    }
    // Not 240.0.0.1: Linux answers that one now and then (its limit for errors of this kind cannot be set to
    // none).
    for destination in [[127, 0, 0, 1], [10, 0, 1, 255]] {
        same("an impossible destination", rigs_, 0, &with_header(&plain, |h| h.destination = destination), 0);
    }
    let mut version = plain.clone();
    version[14] = 0x65;
    same("another version", rigs_, 0, &version, 0);
    account(rigs);
}

impl Rig {
    /// The next ARP message that comes out at a link, without tag and padding.
    fn arp(&mut self, link: usize, what: &str) -> Vec<u8> {
        let (end, vlan) = self.links[link];
        let frame = self.ends[end].receive(what, |frame| match vlan {
            None => is_arp(frame, 0),
            Some(id) => frame[12..16] == [&[0x81, 0][..], &id.to_be_bytes()].concat() && is_arp(frame, 4),
        });
        self.untagged(end, vlan, link, frame).1[..42].to_vec()
    }

    /// The next ICMP message of the router's own that comes out at a link.
    fn own(&mut self, link: usize, what: &str) -> RoutersOwn {
        let (end, vlan) = self.links[link];
        let at = if vlan.is_some() { 16 } else { 12 };
        let frame = self.ends[end].receive(what, |frame| frame[at..at + 2] == [8, 0] && frame[at + 11] == 1);
        let (_, frame) = self.untagged(end, vlan, link, frame);
        own(&frame).unwrap_or_else(|| panic!("{what}: {frame:02x?}"))
    }
}

/// The router's own messages: to hosts that ask for its address, ping it, want something else of it, or send
/// to an absent host.
fn speak_the_same(mut rigs: [Rig; 2]) {
    for link in [0, 1] {
        let stranger = ([2, 0, 0, 0, 9, 7], Ipv4Addr::from(u32::from(THERE[link]) + 5));
        let question = arp_question(stranger, HERE[link]);
        let [ours, theirs] = rigs.each_mut().map(|rig| {
            rig.send(link, &question);
            rig.arp(link, "an ARP reply")
        });
        assert_eq!(ours, theirs, "who the router is, at link {link}");
    }
    let a = (THERE[0], 4000);
    let rigs_ = &mut rigs;
    let asked_for_another = arp_question((HOST[0], THERE[0]), Ipv4Addr::new(10, 0, 0, 200));
    same("a question for somebody else", rigs_, 0, &asked_for_another, 0);
    same("a ping", rigs_, 0, &echo(0, HERE[0], 7, false, 64), 1);
    same("a ping at the last hop", rigs_, 0, &echo(0, HERE[0], 7, false, 1), 1);
    same("a ping of its other side", rigs_, 0, &echo(0, HERE[1], 7, false, 64), 1);
    same("a port of the router", rigs_, 0, &udp(0, a, (HERE[0], 9), 64, b"discard"), 1);
    // At its own side: at the other Linux answers with the address that it was asked for, ours with that of
    // the interface by which the error leaves (RFC 1812 4.3.2.4).
    same("much for a port", rigs_, 1, &udp(1, (THERE[1], 53), (HERE[1], 9), 64, &[3; 900]), 1);
    let plain = udp(0, a, (HERE[0], 9), 64, &[1; 64]);
    same("another protocol", rigs_, 0, &with_header(&plain, |h| h.protocol = 253.into()), 1);
    let mut bad = echo(0, HERE[0], 7, false, 64);
    bad[36] ^= 1;
    same("a ping with a wrong checksum", rigs_, 0, &bad, 0);
    same("an answer that nobody asked for", rigs_, 0, &echo(0, HERE[0], 7, true, 64), 0);

    // A host that does not exist: the router asks for it, and after some questions sends the sender an ICMP
    // error.
    let absent = udp(0, a, (Ipv4Addr::new(10, 0, 1, 99), 53), 64, b"anybody?");
    rigs.iter_mut().for_each(|rig| rig.send(0, &absent));
    let [ours, theirs] = rigs.each_mut().map(|rig| rig.arp(1, "a question for the host"));
    assert_eq!(ours, theirs);
    let [ours, theirs] = rigs.each_mut().map(|rig| rig.own(0, "word of the host that is not there"));
    assert_eq!(ours, theirs);
    let host = icmpv4::DestUnreachableHeader::Host;
    assert_eq!((ours.kind, ours.ends[0]), (Icmpv4Type::DestinationUnreachable(host), HERE[0].octets()));

    // A host that answers late gets the packets that waited for it.
    let late = ([2, 0, 0, 0, 9, 8], Ipv4Addr::new(10, 0, 1, 98));
    let waits = udp(0, a, (late.1, 53), 64, b"you?");
    rigs.iter_mut().for_each(|rig| rig.send(0, &waits));
    let [ours, theirs] = rigs.each_mut().map(|rig| {
        rig.arp(1, "a question for the host");
        rig.outcome(1, &arp_answer(late, rig.stations[1]))
    });
    assert_eq!((ours.len(), &ours), (1, &theirs));
    assert_eq!((ours[0].0, &ours[0].1[..6]), (1, &late.0[..]));
    account(rigs);
}

#[test]
fn the_router_routes_as_linux_does() {
    let Some(rigs) = rigs(Job::Route) else { return };
    route_the_same(rigs);
}

#[test]
fn the_vlan_router_routes_as_linux_does() {
    let Some(rigs) = rigs(Job::Vlan) else { return };
    route_the_same(rigs);
}

#[test]
fn the_router_speaks_as_linux_does() {
    let Some(rigs) = rigs(Job::Route) else { return };
    speak_the_same(rigs);
}

#[test]
fn the_vlan_router_speaks_as_linux_does() {
    let Some(rigs) = rigs(Job::Vlan) else { return };
    speak_the_same(rigs);
}

#[test]
fn the_nat_translates_as_linux_does() {
    let Some(mut rigs) = nats(&[], &[], "") else { return };
    let rigs_ = &mut rigs;
    let (a, b, outside) = ((THERE[0], 4000), (THERE[1], 53), (HERE[1], 4000));
    for bytes in [0, 18, 700, 1472] {
        let payload: Vec<u8> = (0..bytes).map(|n| n as u8).collect();
        same("a datagram", rigs_, 0, &udp(0, a, b, 64, &payload), 1);
        same("its answer", rigs_, 1, &udp(1, b, outside, 64, &payload), 1);
    }
    let mut unsummed = udp(0, a, b, 64, b"no checksum");
    unsummed[40..42].fill(0);
    same("no checksum", rigs_, 0, &unsummed, 1);
    let (near, far, shared) = ((THERE[0], 5000), (THERE[1], 80), (HERE[1], 5000));
    same("SYN", rigs_, 0, &tcp(0, near, far, (1000, 0), "S", b""), 1);
    same("SYN-ACK", rigs_, 1, &tcp(1, far, shared, (500, 1001), "SA", b""), 1);
    same("data", rigs_, 0, &tcp(0, near, far, (1001, 501), "A", b"GET /"), 1);
    same("data back", rigs_, 1, &tcp(1, far, shared, (501, 1006), "A", &[7; 1000]), 1);
    same("FIN", rigs_, 0, &tcp(0, near, far, (1006, 1501), "FA", b""), 1);
    same("a ping", rigs_, 0, &echo(0, THERE[1], 77, false, 64), 1);
    same("its answer", rigs_, 1, &echo(1, HERE[1], 77, true, 64), 1);
    same("the last hop out", rigs_, 0, &udp(0, a, b, 1, b"late"), 1);
    same("the last hop in", rigs_, 1, &udp(1, b, outside, 1, b"late"), 1);
    let left = same("out", rigs_, 0, &udp(0, a, b, 64, b"anybody?"), 1).remove(0).1;
    same("a refusal", rigs_, 1, &refused(1, HERE[1], &left), 1);
    let came = same("in", rigs_, 1, &udp(1, b, outside, 64, b"here"), 1).remove(0).1;
    same("a refusal from inside", rigs_, 0, &refused(0, THERE[1], &came), 1);
    let syn = tcp(0, (THERE[0], 5001), far, (1, 0), "S", b"");
    let left = same("SYN", rigs_, 0, &syn, 1).remove(0).1;
    same("a refused connection", rigs_, 1, &refused(1, HERE[1], &left), 1);
    account(rigs);
}

/// Two may speak, from ports 4998 and 4999 (whence the mark comes, too); a third finds all taken.
#[test]
fn a_nat_with_no_room_lets_nobody_else_out_as_linux_does() {
    let Some(mut rigs) = nats(&["--mappings", "2"], &[], " to :4998-4999") else { return };
    let (far, rigs_) = ((THERE[1], 53), &mut rigs);
    for port in [4998, 4999] {
        let left = same("one of two", rigs_, 0, &udp(0, (THERE[0], port), far, 64, b"room"), 1).remove(0);
        assert_eq!(
            (left.0, &left.1[34..36]),
            (1, &port.to_be_bytes()[..]),
            "ports are kept where they can be"
        );
    }
    let third = udp(0, (THERE[0], 5000), far, 64, b"no room");
    let [ours, theirs] = rigs.each_mut().map(|rig| rig.outcome(0, &third));
    assert_eq!(theirs, [], "Linux drops it in silence");
    // Ours tells the sender (RFC 6888, REQ-8).
    let [(0, refusal)] = &ours[..] else { panic!("{ours:02x?}") };
    let refusal = own(refusal).unwrap();
    let host = icmpv4::DestUnreachableHeader::Host;
    assert_eq!(
        (refusal.kind, &refusal.quoted[..]),
        (Icmpv4Type::DestinationUnreachable(host), &third[14..49])
    );
    // Hosts with mappings keep them.
    for port in [4998, 4999] {
        let back = udp(1, far, (HERE[1], port), 64, b"still there?");
        let came = same("an answer", &mut rigs, 1, &back, 1).remove(0);
        assert_eq!((came.0, &came.1[30..34]), (0, &THERE[0].octets()[..]));
    }
    account(rigs);
}

/// After five seconds of silence no outside host gets in; after a new packet from inside, outside hosts get
/// in again.
#[test]
fn a_nat_forgets_as_linux_does() {
    let forget = ["nf_conntrack_udp_timeout=5", "nf_conntrack_udp_timeout_stream=5"];
    let Some(mut rigs) = nats(&["--udp-timeout", "5s"], &forget, "") else { return };
    let (near, far, outside) = ((THERE[0], 4000), (THERE[1], 53), (HERE[1], 4000));
    let (question, answer) = (udp(0, near, far, 64, b"question"), udp(1, far, outside, 64, b"answer"));
    same("out", &mut rigs, 0, &question, 1);
    same("in time", &mut rigs, 1, &answer, 1);
    std::thread::sleep(Duration::from_secs(6));
    for rig in &mut rigs {
        rig.send(1, &answer);
        std::thread::sleep(Duration::from_millis(100));
        let out = rig.outcome(0, &udp(0, (THERE[0], 4100), far, 64, b"another"));
        let inside: Vec<_> = out.iter().filter(|(link, _)| *link == 0).collect();
        assert!(inside.is_empty(), "too late, and still let in: {inside:02x?}");
        assert_eq!(out.iter().filter(|(_, frame)| frame.ends_with(b"another")).count(), 1, "{out:02x?}");
    }
    for rig in &mut rigs {
        // Linux has seen the late answer, and takes another port.
        let out = rig.outcome(0, &question);
        let [(1, left)] = &out[..] else { panic!("{out:02x?}") };
        let port = u16::from_be_bytes([left[34], left[35]]);
        let came = rig.outcome(1, &udp(1, far, (HERE[1], port), 64, b"answer"));
        let [(0, came)] = &came[..] else { panic!("{came:02x?}") };
        assert_eq!((&came[30..34], &came[36..38]), (&THERE[0].octets()[..], &4000u16.to_be_bytes()[..]));
    }
    account(rigs);
}
