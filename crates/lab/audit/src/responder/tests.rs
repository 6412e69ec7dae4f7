//! The responder between frames and time.

#![allow(clippy::unwrap_used)]
use super::*;
use kpps_documents::guest_audit::Severity;
use proptest::prelude::*;
use smoltcp::iface::{Config, Interface, SocketSet};
use smoltcp::socket::tcp::{Socket, SocketBuffer, State};
use smoltcp::time::Instant;
use smoltcp::wire::{EthernetAddress, HardwareAddress, IpCidr};

const MS: u64 = 1_000_000_000;
const GUEST: End = End { mac: Mac([2, 0, 0, 0, 0, 9]), ip: Ipv4Addr::new(10, 0, 2, 15) };
/// How long a guest of these tests takes for an answer.
const ANSWER_PS: u64 = 50_000_000;

/// A responder on a cable, and the guest's frames on their way with their times of arrival.
struct Bench {
    responder: Responder,
    now_ps: u64,
    coming: VecDeque<(u64, Vec<u8>)>,
}

impl Bench {
    fn new(options: Options) -> Self {
        Self { responder: Responder::new(options).unwrap(), now_ps: 0, coming: VecDeque::new() }
    }

    fn own(&self) -> End {
        self.responder.own
    }

    /// Lets the guest send a frame now, and gives the frames that the responder has for it.
    fn exchange(&mut self, frame: &[u8]) -> Vec<Vec<u8>> {
        self.responder.take(self.now_ps, frame, true);
        let mut frames = Vec::new();
        while let Some(coming) = self.responder.next(self.now_ps) {
            assert!(coming.good_fcs && (60..=1514).contains(&coming.frame.len()));
            frames.push(coming.frame);
        }
        assert!(self.responder.due_ps() > self.now_ps);
        frames
    }

    /// Runs for `ps`; `guest` gives the answer to each frame.
    fn run(&mut self, ps: u64, mut guest: impl FnMut(u64, &[u8]) -> Option<Vec<u8>>) {
        let end_ps = self.now_ps + ps;
        let mut wire_free_ps = 0;
        loop {
            let due_ps = self.responder.due_ps().max(wire_free_ps);
            let coming_ps = self.coming.front().map_or(u64::MAX, |(at_ps, _)| *at_ps);
            if due_ps.min(coming_ps) > end_ps {
                break;
            }
            if coming_ps <= due_ps {
                let (at_ps, frame) = self.coming.pop_front().unwrap();
                self.responder.take(at_ps, &frame, true);
                continue;
            }
            let Some(Coming { frame, .. }) = self.responder.next(due_ps) else {
                assert!(self.responder.due_ps() > due_ps);
                continue;
            };
            wire_free_ps = due_ps + (frame.len() as u64 + 24) * 8_000;
            if let Some(answer) = guest(due_ps, &frame) {
                self.coming.push_back((due_ps + ANSWER_PS, answer));
            }
        }
        self.now_ps = end_ps;
    }
}

/// The answer of a guest that knows ARP, echo and UDP echo.
pub(crate) fn answer(frame: &[u8]) -> Option<Vec<u8>> {
    let received = Received::read(frame).unwrap();
    let from = received.ip.map(|[ip, _]| End { mac: received.from, ip });
    match received.contents {
        Contents::Arp(message) if message.is_request() && message.target == GUEST.ip => {
            wire::arp(message.sender_mac, &message.reply(GUEST.mac))
        }
        Contents::Echo { id, data } => wire::echo(GUEST, from.unwrap(), icmp::ECHO_REPLY, id, data),
        Contents::Udp { ports: [a, b], data } => {
            wire::udp(GUEST, &Datagram { to: from.unwrap(), ports: [b, a], data: data.to_vec() })
        }
        _ => None,
    }
}

#[test]
fn arp_and_echoes_are_answered_to_the_station_that_asked() {
    let mut bench = Bench::new(Options::default());
    let own = bench.own();
    // A guest without an address may ask, too.
    for sender in [GUEST.ip, Ipv4Addr::UNSPECIFIED] {
        let request = arp::Message::request(GUEST.mac, sender, own.ip);
        let frames = bench.exchange(&wire::arp(Mac::BROADCAST, &request).unwrap());
        let read = Received::read(&frames[0]).unwrap();
        assert_eq!((frames.len(), read.to, read.from), (1, GUEST.mac, own.mac));
        assert_eq!(read.contents, Contents::Arp(request.reply(own.mac)));
    }
    let other = arp::Message::request(GUEST.mac, GUEST.ip, Ipv4Addr::new(10, 0, 2, 3));
    assert!(bench.exchange(&wire::arp(Mac::BROADCAST, &other).unwrap()).is_empty());
    for bytes in [0, 56, 1472] {
        let data = vec![7; bytes];
        let frames = bench.exchange(&wire::echo(GUEST, own, icmp::ECHO, [4, 5], &data).unwrap());
        let read = Received::read(&frames[0]).unwrap();
        assert_eq!(read.contents, Contents::EchoReply { id: [4, 5], data: &data });
        for (port, count) in [(7, 1), (7007, 1), (9, 0)] {
            let datagram = Datagram { to: own, ports: [40_000, port], data: data.clone() };
            let frames = bench.exchange(&wire::udp(GUEST, &datagram).unwrap());
            assert_eq!(frames.len(), count);
            if let Some(frame) = frames.first() {
                let read = Received::read(frame).unwrap();
                assert_eq!(read.contents, Contents::Udp { ports: [port, 40_000], data: &data });
            }
        }
    }
    let from_echo = Datagram { to: own, ports: [7, 7], data: vec![1] };
    assert!(bench.exchange(&wire::udp(GUEST, &from_echo).unwrap()).is_empty(), "it would never stop");
    let seen = bench.responder.seen();
    assert_eq!((seen.arp_requests.count, seen.pings.count, seen.udp_echoes.count), (3, 3, 7));
    let guest = Guest { mac: Some(GUEST.mac), ip: GUEST.ip, is_used: true };
    assert_eq!(bench.responder.guest(), guest);
}

#[test]
fn damaged_short_and_foreign_frames_are_only_counted() {
    let mut bench = Bench::new(Options::default());
    let own = bench.own();
    let ping = wire::echo(GUEST, own, icmp::ECHO, [4, 5], &[7; 56]).unwrap();
    bench.now_ps = 5;
    bench.responder.take(5, &ping, false);
    assert!(bench.exchange(&ping[..59]).is_empty());
    assert!(bench.exchange(&[0; 1515]).is_empty());
    assert!(bench.exchange(&[]).is_empty());
    let mut changed = ping.clone();
    changed[70] ^= 1;
    assert!(bench.exchange(&changed).is_empty());
    let mut foreign = ping.clone();
    foreign[..6].copy_from_slice(&GUEST.mac.0);
    assert!(bench.exchange(&foreign).is_empty());
    let seen = bench.responder.seen();
    let counts = [seen.bad_fcs, seen.runts, seen.oversized, seen.malformed, seen.frames, seen.pings];
    assert_eq!(counts.map(|it| it.count), [1, 2, 1, 1, 5, 0]);
    assert_eq!((seen.bad_fcs.first_ps, seen.pings.first_ps), (Some(5), None));
    assert_eq!(seen.faults[&Malformed::Icmp].count, 1);
    assert_eq!(seen.protocols[&Protocol::Icmp].count, 1);
    assert_eq!(bench.exchange(&ping).len(), 1);
}

#[test]
fn a_lease_and_a_boot_file_over_the_wire() {
    let mut bench = Bench::new(Options { learns: false, file_bytes: 2000, ..Options::default() });
    let nobody = End { mac: GUEST.mac, ip: Ipv4Addr::UNSPECIFIED };
    let mut lease = |kind: u8, options: &[u8]| {
        let mut data = vec![0; 240];
        data[..3].copy_from_slice(&[1, 1, 6]);
        data[10] = 0x80;
        data[28..34].copy_from_slice(&GUEST.mac.0);
        data[236..].copy_from_slice(&[0x63, 0x82, 0x53, 0x63]);
        data.extend([&[53, 1, kind][..], options, &[255]].concat());
        let datagram = Datagram { to: End::BROADCAST, ports: [68, 67], data };
        let frames = bench.exchange(&wire::udp(nobody, &datagram).unwrap());
        assert_eq!(frames.len(), 1);
        let read = Received::read(&frames[0]).unwrap();
        assert_eq!((read.to, read.ip.unwrap()[1]), (Mac::BROADCAST, Ipv4Addr::BROADCAST));
        let Contents::Udp { ports: [67, 68], data } = read.contents else { panic!("{read:?}") };
        assert_eq!(data[16..20], GUEST.ip.octets());
        data[242]
    };
    assert_eq!(lease(1, &[]), 2);
    assert_eq!(lease(3, &[50, 4, 10, 0, 2, 15, 54, 4, 10, 0, 2, 2]), 5);
    let seen = bench.responder.seen();
    assert_eq!((seen.dhcp_discovers.count, seen.dhcp_requests.count, seen.dhcp_acks.count), (1, 1, 1));
    assert!(bench.responder.guest().is_used);
    let own = bench.own();
    let mut load = |ports, data: &[u8]| {
        let datagram = Datagram { to: own, ports, data: data.to_vec() };
        let frames = bench.exchange(&wire::udp(GUEST, &datagram).unwrap());
        let read = Received::read(frames.first()?).unwrap();
        assert_eq!((read.to, frames.len()), (GUEST.mac, 1));
        let Contents::Udp { ports, data } = read.contents else { panic!("{read:?}") };
        Some((ports, data.len()))
    };
    let ([server, client], bytes) = load([1069, 69], b"\0\x01kpps.bin\0octet\0blksize\x001468\0").unwrap();
    assert_eq!((client, bytes), (1069, 15));
    assert_eq!(load([1069, server], &[0, 4, 0, 0]), Some(([server, 1069], 1472)));
    assert_eq!(load([1069, server], &[0, 4, 0, 1]), Some(([server, 1069], 536)));
    assert_eq!(load([1069, server], &[0, 4, 0, 2]), None);
    assert_eq!(bench.responder.seen().tftp_bytes, 2000);
}

/// A client of HTTP on smoltcp. `lost` decides whether a frame is lost. The result is its answers.
fn browse(bench: &mut Bench, ports: &[u16], request: &str, mut lost: impl FnMut() -> bool) -> Vec<Vec<u8>> {
    let mut device = device::Ends::new(None);
    let config = Config::new(HardwareAddress::Ethernet(EthernetAddress(GUEST.mac.0)));
    let mut client = Interface::new(config, &mut device, Instant::ZERO);
    client.update_ip_addrs(|list| list.push(IpCidr::new(GUEST.ip.into(), 24)).unwrap());
    let mut sockets = SocketSet::new(Vec::new());
    let buffer = || SocketBuffer::new(vec![0; 16 << 10]);
    let handles: Vec<_> = ports.iter().map(|_| sockets.add(Socket::new(buffer(), buffer()))).collect();
    let server = bench.own().ip;
    // Each connection has a port that no connection had before.
    let first = 50_000 + (bench.now_ps / MS % 10_000) as u16;
    for ((port, handle), local) in ports.iter().zip(&handles).zip(first..) {
        let socket = sockets.get_mut::<Socket>(*handle);
        socket.connect(client.context(), (server, *port), local).unwrap();
    }
    let mut is_asked = vec![false; handles.len()];
    let mut answers: Vec<Vec<u8>> = vec![Vec::new(); handles.len()];
    for _ in 0..200_000 {
        let now = Instant::from_micros((bench.now_ps / 1_000_000) as i64);
        let mut arrived = vec![None];
        while let Some(Coming { frame, .. }) = bench.responder.next(bench.now_ps) {
            assert_eq!(frame[20] & 0x40, 0, "DF is clear");
            if !lost() {
                arrived.push(Some(frame));
            }
        }
        for frame in arrived {
            let mut device = device::Ends::new(frame);
            client.poll(now, &mut device, &mut sockets);
            for frame in device.sent {
                if !lost() {
                    bench.responder.take(bench.now_ps, &frame, true);
                }
            }
        }
        let mut open = 0;
        for (index, (handle, answer)) in handles.iter().zip(&mut answers).enumerate() {
            let socket = sockets.get_mut::<Socket>(*handle);
            if socket.can_send() && !is_asked[index] {
                is_asked[index] = true;
                socket.send_slice(request.as_bytes()).unwrap();
            }
            while socket.can_recv() {
                socket.recv(|bytes| (bytes.len(), answer.extend_from_slice(bytes))).unwrap();
            }
            if !socket.may_recv() && socket.state() == State::CloseWait {
                socket.close();
            }
            open += usize::from(!matches!(socket.state(), State::Closed | State::TimeWait));
        }
        bench.now_ps += 100_000_000;
        if open == 0 {
            break;
        }
    }
    answers
}

/// A device of smoltcp with one frame to receive.
mod device {
    use smoltcp::phy::{Device, DeviceCapabilities, Medium, RxToken, TxToken};
    use smoltcp::time::Instant;

    pub struct Ends {
        arrived: Option<Vec<u8>>,
        pub sent: Vec<Vec<u8>>,
    }

    impl Ends {
        pub fn new(arrived: Option<Vec<u8>>) -> Self {
            Self { arrived, sent: Vec::new() }
        }
    }

    pub struct Frame(Vec<u8>);
    pub struct Room<'a>(&'a mut Vec<Vec<u8>>);

    impl RxToken for Frame {
        fn consume<R, F: FnOnce(&[u8]) -> R>(self, look: F) -> R {
            look(&self.0)
        }
    }

    impl TxToken for Room<'_> {
        fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, bytes: usize, write: F) -> R {
            let mut frame = vec![0; bytes];
            let result = write(&mut frame);
            frame.resize(bytes.max(60), 0);
            self.0.push(frame);
            result
        }
    }

    impl Device for Ends {
        type RxToken<'a> = Frame;
        type TxToken<'a> = Room<'a>;

        fn receive(&mut self, _: Instant) -> Option<(Frame, Room<'_>)> {
            Some((Frame(self.arrived.take()?), Room(&mut self.sent)))
        }

        fn transmit(&mut self, _: Instant) -> Option<Room<'_>> {
            Some(Room(&mut self.sent))
        }

        fn capabilities(&self) -> DeviceCapabilities {
            let mut capabilities = DeviceCapabilities::default();
            capabilities.medium = Medium::Ethernet;
            capabilities.max_transmission_unit = 1514;
            capabilities
        }
    }
}

#[test]
fn a_file_is_read_over_http() {
    let mut bench = Bench::new(Options::default());
    let mut file = vec![0; 1 << 20];
    content::fill(0, &mut file);
    let get = "GET /kpps.bin HTTP/1.1\r\nHost: 10.0.2.2\r\n\r\n";
    for answer in browse(&mut bench, &[80, 8080], get, || false) {
        assert!(answer.starts_with(b"HTTP/1.1 200 OK\r\n"), "{}", answer.len());
        assert!(answer.ends_with(&file));
    }
    let head = browse(&mut bench, &[80], "HEAD / HTTP/1.0\r\n\r\n", || false);
    assert!(head[0].ends_with(b"Content-Length: 1048576\r\nConnection: close\r\n\r\n"));
    let seen = bench.responder.seen();
    assert_eq!((seen.http_started.count, seen.http_completed.count, seen.http_failed.count), (3, 3, 0));
    assert_eq!((seen.http_bytes, seen.overflow.count), (2 << 20, 0));
    // More connections than there are places, one after the other: those in TIME-WAIT give way.
    for _ in 0..20 {
        assert_eq!(browse(&mut bench, &[80], get, || false)[0].len(), head[0].len() + 1024 * 1024);
    }
}

#[test]
fn http_survives_lost_frames() {
    let mut bench = Bench::new(Options { file_bytes: 200_000, ..Options::default() });
    let mut turn = 0;
    let lost = || {
        turn += 1;
        turn % 23 == 7
    };
    let answers = browse(&mut bench, &[8080], "GET / HTTP/1.0\r\n\r\n", lost);
    let mut file = vec![0; 200_000];
    content::fill(0, &mut file);
    assert!(answers[0].ends_with(&file), "{}", answers[0].len());
    assert_eq!(bench.responder.seen().http_completed.count, 1);
}

#[test]
fn a_guest_that_answers_arp_late() {
    let mut bench = Bench::new(Options::default());
    assert_eq!(bench.responder.arp(), None);
    bench.responder.start_arp(0);
    bench.run(10_000 * MS, |now_ps, frame| answer(frame).filter(|_| now_ps > 2500 * MS));
    let result = bench.responder.arp().unwrap();
    assert_eq!((result.sent, result.answer), (4, Some((3000 * MS + ANSWER_PS, GUEST.mac))));
    assert_eq!(bench.responder.guest().mac, Some(GUEST.mac));
}

/// A guest that answers the echo request with number `n` as `fate(n)` says: unchanged, changed, or not.
fn unreliable(fate: impl Fn(u64) -> Fate) -> impl FnMut(u64, &[u8]) -> Option<Vec<u8>> {
    let mut number = 0;
    move |_, frame| {
        let received = Received::read(frame).unwrap();
        let mut data = match received.contents {
            Contents::Echo { data, .. } | Contents::Udp { data, .. } => data.to_vec(),
            _ => return answer(frame),
        };
        number += 1;
        match fate(number - 1) {
            Fate::Whole => return answer(frame),
            Fate::Lost => return None,
            Fate::Changed => {}
        }
        *data.last_mut()? ^= 1;
        let to = End { mac: received.from, ip: received.ip?[0] };
        match received.contents {
            Contents::Echo { id, .. } => wire::echo(GUEST, to, icmp::ECHO_REPLY, id, &data),
            Contents::Udp { ports: [a, b], .. } => wire::udp(GUEST, &Datagram { to, ports: [b, a], data }),
            _ => None,
        }
    }
}

enum Fate {
    Whole,
    Changed,
    Lost,
}

#[test]
fn pings_are_paced_and_matched() {
    let mut bench = Bench::new(Options::default());
    bench.responder.start_ping(0, EchoPlan::ping(10, &[18, 1472, 5]));
    bench.run(500 * MS, |_, _| None);
    let result = bench.responder.ping().unwrap();
    assert_eq!((result.asked, result.sent), (1, 0), "the station address is unknown");
    let mut guest = unreliable(|number| match number {
        1 => Fate::Lost,
        4 => Fate::Changed,
        _ => Fate::Whole,
    });
    let mut sizes = Vec::new();
    bench.run(20_000 * MS, |now_ps, frame| {
        if let Contents::Echo { data, .. } = Received::read(frame).unwrap().contents {
            sizes.push(data.len());
        }
        guest(now_ps, frame)
    });
    assert_eq!(sizes, [18, 1472, 5, 18, 1472, 5, 18, 1472, 5, 18]);
    let result = bench.responder.ping().unwrap();
    assert_eq!((result.asked, result.sent, result.answered), (2, 10, 8));
    assert_eq!((result.changed, result.lost, result.outstanding, result.stray), (1, 1, 0, 0));
    let trips = result.round_trips.unwrap();
    assert_eq!([trips.least_ps, trips.median_ps, trips.most_ps], [ANSWER_PS; 3]);
    // The first goes out after the ARP reply of the second 1, the last 900 ms later.
    assert_eq!(result.ended_ps.unwrap() / MS, 1000 + 1000 + 100);
}

#[test]
fn a_flood_has_few_requests_outstanding() {
    let mut bench = Bench::new(Options::default());
    let sizes: Vec<u16> = (18..=1472).collect();
    bench.responder.start_flood(0, EchoPlan::flood(70_000, 32, &sizes));
    let mut guest = unreliable(|number| match number % 30_000 {
        7 => Fate::Lost,
        8 => Fate::Changed,
        _ => Fate::Whole,
    });
    bench.run(60_000 * MS, &mut guest);
    let result = bench.responder.flood().unwrap();
    assert_eq!((result.sent, result.answered, result.changed, result.lost), (70_000, 69_994, 3, 3));
    assert!(result.ended_ps.is_some() && bench.responder.due_ps() == u64::MAX);
    // A deaf guest: at most 32 requests in each second.
    bench.responder.start_flood(bench.now_ps, EchoPlan::flood(100, 32, &[]));
    bench.run(1500 * MS, |_, _| None);
    let result = bench.responder.flood().unwrap();
    assert_eq!((result.sent, result.lost, result.outstanding, result.round_trips), (64, 32, 32, None));
}

#[test]
fn late_and_repeated_answers_are_strays() {
    let mut bench = Bench::new(Options::default());
    bench
        .exchange(&wire::arp(Mac::BROADCAST, &arp::Message::request(GUEST.mac, GUEST.ip, GUEST.ip)).unwrap());
    bench.responder.start_ping(0, EchoPlan::ping(2, &[56]));
    let frames: Vec<_> = [0, 100 * MS].iter().map(|at| bench.responder.next(*at).unwrap().frame).collect();
    let replies: Vec<_> = frames.iter().map(|frame| answer(frame).unwrap()).collect();
    bench.responder.take(200 * MS, &replies[1], true);
    bench.responder.take(201 * MS, &replies[1], true);
    bench.responder.take(1000 * MS, &replies[0], true);
    let result = bench.responder.ping().unwrap();
    assert_eq!((result.sent, result.answered, result.lost, result.stray), (2, 1, 1, 2));
    assert_eq!(result.ended_ps, Some(1000 * MS));
    // A later ping has another identifier.
    bench.responder.start_ping(1000 * MS, EchoPlan::ping(2, &[56]));
    bench.responder.next(1000 * MS).unwrap();
    bench.responder.take(1001 * MS, &replies[0], true);
    assert_eq!(bench.responder.ping().unwrap().answered, 0);
}

#[test]
fn datagrams_come_back() {
    let mut bench = Bench::new(Options::default());
    bench.responder.start_udp(0, EchoPlan::flood(500, 8, &[0, 18, 1472]));
    let mut guest = unreliable(|number| match number {
        3 => Fate::Lost,
        5 => Fate::Changed,
        _ => Fate::Whole,
    });
    bench.run(5_000 * MS, &mut guest);
    let result = bench.responder.udp().unwrap();
    assert_eq!((result.sent, result.answered, result.changed, result.lost), (500, 498, 1, 1));
    assert!(bench.responder.ping().is_none() && bench.responder.flood().is_none());
}

#[test]
fn a_burst_is_back_to_back() {
    let mut bench = Bench::new(Options::default());
    bench.responder.start_overrun(0, 10);
    bench.run(1000 * MS, |_, _| None);
    let result = bench.responder.overrun().unwrap();
    assert_eq!((result.asked, result.sent), (10, 0), "the station address is unknown");
    bench
        .exchange(&wire::arp(Mac::BROADCAST, &arp::Message::request(GUEST.mac, GUEST.ip, GUEST.ip)).unwrap());
    let start_ps = bench.now_ps;
    bench.responder.start_overrun(start_ps, 10_001);
    let mut times = Vec::new();
    bench.run(1000 * MS, |now_ps, frame| {
        times.push(now_ps);
        // The ring has room for 100 frames.
        answer(frame).filter(|_| times.len() <= 100)
    });
    assert!(times.windows(2).all(|pair| pair[1] - pair[0] == 84 * 8_000), "gigabit: 672 ns for a frame");
    let result = bench.responder.overrun().unwrap();
    assert_eq!((result.asked, result.sent, result.answered), (5_001, 5_000, 50));
    assert_eq!(result.ended_ps, Some(start_ps + 10_000 * 672_000));
}

#[test]
fn a_probe_shows_when_the_guest_was_deaf() {
    for by in [ProbeBy::Arp, ProbeBy::Echo] {
        let mut bench = Bench::new(Options::default());
        bench.responder.start_probe(0, by);
        let hears = |now_ps| !(2_000 * MS..4_000 * MS).contains(&now_ps) && now_ps < 6_000 * MS;
        bench.run(3_000 * MS, |now_ps, frame| answer(frame).filter(|_| hears(now_ps)));
        let result = bench.responder.probe(bench.now_ps).unwrap();
        let from_ps = 1_900 * MS + ANSWER_PS;
        assert!(result.is_deaf && result.returns == 0);
        assert_eq!(result.longest, Gap { from_ps, ps: 3_000 * MS - from_ps, has_ended: false });
        bench.run(2_000 * MS, |now_ps, frame| answer(frame).filter(|_| hears(now_ps)));
        let result = bench.responder.probe(bench.now_ps).unwrap();
        assert!(!result.is_deaf && result.returns == 1);
        assert_eq!(result.longest, Gap { from_ps, ps: 2_100 * MS, has_ended: true });
        bench.run(1_500 * MS, |now_ps, frame| answer(frame).filter(|_| hears(now_ps)));
        bench.responder.stop_probe(bench.now_ps);
        bench.run(9_000 * MS, |_, _| panic!("the probe has ended"));
        let result = bench.responder.probe(bench.now_ps).unwrap();
        assert!(result.is_deaf && result.returns == 1 && result.longest.ps == 2_100 * MS);
        assert_eq!((result.sent, result.answered, result.ended_ps), (66, 40, Some(6_500 * MS)));
    }
}

/// The frames of a disturbance of a second, with their times. The guest's station address is known.
fn disturbed(bench: &mut Bench, kind: Disturbance) -> Vec<(u64, Coming)> {
    bench.responder.start_arp(0);
    bench.run(100 * MS, |_, frame| answer(frame));
    let start_ps = bench.now_ps;
    bench.responder.start_disturbance(start_ps, kind, 1000 * MS);
    let mut frames = Vec::new();
    while bench.responder.disturbance().unwrap().ended_ps.is_none() {
        let at_ps = bench.responder.due_ps();
        frames.extend(bench.responder.next(at_ps).map(|coming| (at_ps - start_ps, coming)));
    }
    assert_eq!(bench.responder.disturbance().unwrap().sent, frames.len() as u64);
    frames
}

#[test]
fn only_the_fcs_shows_the_damage() {
    let mut bench = Bench::new(Options::default());
    let frames = disturbed(&mut bench, Disturbance::BadFcs);
    assert_eq!(frames.len(), 200);
    for (number, (at_ps, coming)) in frames.iter().enumerate() {
        assert_eq!((*at_ps, coming.good_fcs), (number as u64 * 5 * MS, false));
        let Contents::Echo { data, .. } = Received::read(&coming.frame).unwrap().contents else { panic!() };
        assert!(data.len() == 48 && data != path::pattern(number as u32, 48));
    }
    // A guest that does not look at errors answers; another request's answer does not count.
    let reply = answer(&frames[3].1.frame).unwrap();
    bench.responder.take(bench.now_ps, &reply, true);
    let other = wire::echo(GUEST, bench.own(), icmp::ECHO_REPLY, [1, 2], &[0; 48]).unwrap();
    bench.responder.take(bench.now_ps, &other, true);
    assert_eq!(bench.responder.disturbance().unwrap().answered, 1);
}

#[test]
fn pauses_overlap() {
    let frames = disturbed(&mut Bench::new(Options::default()), Disturbance::Pause);
    let head = [1, 0x80, 0xC2, 0, 0, 1, 0x52, 0x55, 10, 0, 2, 2, 0x88, 8, 0, 1, 0xFF, 0xFF];
    assert!(frames.iter().all(|(_, it)| it.good_fcs && it.frame.len() == 60 && it.frame[..18] == head));
    let pause_ps = 0xFFFF * 512 * 1_000;
    assert!(frames.windows(2).all(|pair| pair[1].0 - pair[0].0 < pause_ps));
}

#[test]
fn a_card_that_obeys_pauses_sends_after_them() {
    use crate::{Access, Cable, Cards};
    use kpps_datasheet::bit::{ctrl, rctl, tctl};
    use kpps_datasheet::{Chip, reg};
    use kpps_profiles::{Kind, Profile};
    use std::os::unix::fs::FileExt;
    let bus = Profile::named(Kind::Bus, "pci-32-33").unwrap().get().unwrap();
    let params = kpps_card::Params { link_ps: MS, ..kpps_card::Params::of(Chip::I82540em) };
    for (obeys, sent_during) in [(0, 1), (ctrl::RFCE, 0)] {
        let mut cards = Cards::new(&params, &bus, &[(Cable::Open, GUEST.mac.0)]);
        let memory = tempfile::tempfile().unwrap();
        memory.set_len(1 << 20).unwrap();
        memory.write_all_at(&0x4000u64.to_le_bytes(), 0x1000).unwrap();
        memory.write_all_at(&[60, 0, 0, 0b1011, 0, 0, 0, 0], 0x1008).unwrap();
        cards.map(0, 0, 1 << 20, memory, 0);
        let handle = Handle::new(Responder::new(Options::default()).unwrap());
        cards.attach(0, Box::new(handle.clone()));
        cards.write(0, 0, Access::Configuration, 4, &[0x06, 0]);
        let set = |cards: &mut Cards, now_ps, register: u32, value: u32| {
            cards.write(0, now_ps, Access::Registers, register.into(), &value.to_le_bytes());
        };
        // SDM 13.4.8 to 13.4.10: the address and the type of PAUSE frames.
        for (register, value) in [
            (reg::CTRL, ctrl::SLU | ctrl::FD | obeys),
            (reg::FCAL, 0x00C2_8001),
            (reg::FCAH, 0x0100),
            (reg::FCT, 0x8808),
            (reg::TDBAL, 0x1000),
            (reg::TDLEN, 128),
            (reg::TCTL, tctl::EN),
            (reg::RCTL, rctl::EN),
        ] {
            set(&mut cards, 0, register, value);
        }
        cards.advance(99 * MS);
        handle.with(|responder| responder.start_disturbance(100 * MS, Disturbance::Pause, 1000 * MS));
        cards.advance(110 * MS);
        set(&mut cards, 110 * MS, reg::TDT, 1);
        assert_eq!(cards.counts(1050 * MS).sent, sent_during);
        assert_eq!(cards.counts(1200 * MS).sent, 1);
    }
}

#[test]
fn odd_frames_are_as_they_claim() {
    let frames = disturbed(&mut Bench::new(Options::default()), Disturbance::OddFrames);
    let frames: Vec<_> = frames.into_iter().map(|(_, coming)| coming).collect();
    assert!(frames.iter().all(|coming| coming.good_fcs));
    let lengths =
        |bytes: std::ops::Range<usize>| frames.iter().filter(move |it| bytes.contains(&it.frame.len()));
    assert_eq!((lengths(20..60).count(), lengths(0..20).count()), (50, 0));
    assert_eq!((lengths(1600..1601).count(), lengths(9000..9001).count()), (25, 25));
    let is_echo = |frame: &[u8]| matches!(Received::read(frame).unwrap().contents, Contents::Echo { .. });
    assert!(lengths(1600..9001).all(|it| is_echo(&it.frame)));
    let with = |at: usize, bytes: &[u8]| {
        let has = |it: &&Coming| it.frame.get(at..at + bytes.len()) == Some(bytes);
        frames.iter().filter(has).map(|it| it.frame.clone()).collect::<Vec<_>>()
    };
    let (tagged, options) = (with(12, &[0x81, 0, 0, 5]), with(14, &[0x46]));
    assert_eq!((tagged.len(), options.len(), lengths(1518..1519).count()), (50, 50, 25));
    assert!(options.iter().all(|frame| is_echo(frame)), "the options' checksum is right");
    assert!(tagged.iter().all(|frame| is_echo(&[&frame[..12], &frame[16..]].concat())));
}

#[test]
fn stimuli_and_services_share_the_wire() {
    let mut bench = Bench::new(Options::default());
    bench
        .exchange(&wire::arp(Mac::BROADCAST, &arp::Message::request(GUEST.mac, GUEST.ip, GUEST.ip)).unwrap());
    bench.responder.start_flood(0, EchoPlan::flood(50_000, 1024, &[18]));
    bench.responder.start_ping(0, EchoPlan::ping(5, &[56]));
    bench.responder.start_probe(0, ProbeBy::Arp);
    bench.responder.start_overrun(0, 1_000);
    let own = bench.own();
    bench.coming.push_back((1, wire::echo(GUEST, own, icmp::ECHO, [4, 5], &[7; 56]).unwrap()));
    let mut served_ps = None;
    bench.run(3_000 * MS, |now_ps, frame| {
        if matches!(Received::read(frame).unwrap().contents, Contents::EchoReply { .. }) {
            served_ps = Some(now_ps);
        }
        answer(frame)
    });
    assert!(served_ps.is_some_and(|at_ps| at_ps < 2_000_000), "a service does not wait for stimuli");
    assert_eq!(bench.responder.flood().unwrap().answered, 50_000);
    assert_eq!(bench.responder.ping().unwrap().answered, 5);
    assert_eq!(bench.responder.overrun().unwrap().answered, 500);
    assert!(!bench.responder.probe(bench.now_ps).unwrap().is_deaf);
}

#[test]
fn the_queue_is_bounded() {
    let mut bench = Bench::new(Options::default());
    let ping = wire::echo(GUEST, bench.own(), icmp::ECHO, [4, 5], &[7; 1472]).unwrap();
    for _ in 0..MOST_QUEUED + 10 {
        bench.responder.take(0, &ping, true);
    }
    assert_eq!((bench.responder.queue.len(), bench.responder.seen().overflow.count), (MOST_QUEUED, 10));
}

#[test]
fn a_handle_shares_the_responder() {
    let handle = Handle::new(Responder::new(Options::default()).unwrap());
    let mut partner: Box<dyn Partner> = Box::new(handle.clone());
    handle.with(|responder| responder.start_arp(5));
    assert_eq!(partner.due_ps(), 5);
    assert!(partner.next(5).is_some() && partner.next(5).is_none());
    assert_eq!(handle.with(|responder| responder.arp().unwrap().sent), 1);
}

#[test]
fn impossible_options_are_refused() {
    let good = Options::default;
    for bad in [
        Options { mac: Mac([1, 0, 0, 0, 0, 0]), ..good() },
        Options { ip: Ipv4Addr::new(10, 0, 2, 255), ..good() },
        Options { ip: Ipv4Addr::new(10, 0, 2, 0), ..good() },
        Options { ip: Ipv4Addr::new(224, 0, 2, 2), guest: Ipv4Addr::new(224, 0, 2, 3), ..good() },
        Options { guest: Ipv4Addr::new(10, 0, 3, 15), ..good() },
        Options { guest: good().ip, ..good() },
        Options { boot_file: "n".repeat(128), ..good() },
    ] {
        assert!(Responder::new(bad.clone()).is_err(), "{bad:?}");
    }
}

#[test]
fn a_card_of_the_model_talks_with_the_responder() {
    use crate::{Access, Cable, Cards};
    use kpps_datasheet::bit::{ctrl, rctl, tctl};
    use kpps_datasheet::{Chip, reg};
    use kpps_profiles::{Kind, Profile};
    use std::os::unix::fs::FileExt;
    let bus = Profile::named(Kind::Bus, "pci-32-33").unwrap().get().unwrap();
    let params = kpps_card::Params { link_ps: MS, ..kpps_card::Params::of(Chip::I82540em) };
    let mut cards = Cards::new(&params, &bus, &[(Cable::Open, GUEST.mac.0)]);
    let memory = tempfile::tempfile().unwrap();
    memory.set_len(1 << 20).unwrap();
    cards.map(0, 0, 1 << 20, memory.try_clone().unwrap(), 0);
    let handle = Handle::new(Responder::new(Options::default()).unwrap());
    cards.attach(0, Box::new(handle.clone()));
    cards.write(0, 0, Access::Configuration, 4, &[0x06, 0]);
    // Rings of 64 descriptors at 0x1000 (receive) and 0x2000 (transmit), with buffers of 2 KiB.
    for place in 0..64u64 {
        memory.write_all_at(&(0x8000 + place * 2048).to_le_bytes(), 0x1000 + place * 16).unwrap();
    }
    let set = |cards: &mut Cards, now_ps, register: u32, value: u32| {
        cards.write(0, now_ps, Access::Registers, register.into(), &value.to_le_bytes());
    };
    for (register, value) in [
        (reg::CTRL, ctrl::SLU | ctrl::FD),
        (reg::RDBAL, 0x1000),
        (reg::RDLEN, 1024),
        (reg::TDBAL, 0x2000),
        (reg::TDLEN, 1024),
        (reg::TCTL, tctl::EN),
        (reg::RCTL, rctl::EN | rctl::UPE | rctl::BAM),
        (reg::RDT, 63),
    ] {
        set(&mut cards, 0, register, value);
    }
    // The guest's driver: it answers each received frame.
    handle.with(|responder| responder.start_ping(100 * MS, EchoPlan::ping(5, &[56])));
    let (mut received, mut sent) = (0u64, 0u64);
    for now_ps in (100 * MS..2_500 * MS).step_by(MS as usize) {
        cards.advance(now_ps);
        let mut descriptor = [0; 16];
        memory.read_exact_at(&mut descriptor, 0x1000 + received % 64 * 16).unwrap();
        if descriptor[12] & 1 == 0 {
            continue;
        }
        let mut frame = vec![0; usize::from(u16::from_le_bytes([descriptor[8], descriptor[9]]))];
        memory.read_exact_at(&mut frame, 0x8000 + received % 64 * 2048).unwrap();
        received += 1;
        let Some(reply) = answer(&frame) else { continue };
        memory.write_all_at(&reply, 0x80000).unwrap();
        memory.write_all_at(&0x80000u64.to_le_bytes(), 0x2000 + sent * 16).unwrap();
        // End of packet, insert FCS, report status.
        let command = [reply.len() as u8, (reply.len() >> 8) as u8, 0, 0b1011, 0, 0, 0, 0];
        memory.write_all_at(&command, 0x2008 + sent * 16).unwrap();
        sent += 1;
        set(&mut cards, now_ps, reg::TDT, sent as u32);
    }
    let (ping, seen) = handle.with(|responder| (responder.ping().unwrap(), responder.seen().clone()));
    assert_eq!((ping.asked, ping.sent, ping.answered, ping.lost), (1, 5, 5, 0));
    assert_eq!((seen.frames.count, seen.arp_replies.count, seen.bad_fcs.count), (6, 1, 0));
    // The set-up above has only what frames need, without a reset and TIPG.
    let musts = cards.breaches().into_iter().filter(|breach| breach.severity() == Severity::Must);
    assert_eq!(musts.collect::<Vec<_>>(), []);
}

/// A frame with a TCP segment and good checksums. `numbers` are sequence and acknowledgement, `flags` the
/// byte of the header's length and that of the flags.
fn segment(own: End, ports: [u16; 2], numbers: [u8; 8], flags: [u8; 2], data: &[u8]) -> Vec<u8> {
    let mut segment = ports.map(u16::to_be_bytes).concat();
    segment.extend(numbers.into_iter().chain(flags).chain([16, 0, 0, 0, 0, 0]).chain(data.iter().copied()));
    let length = segment.len() as u16;
    let sum = kpps_frames::checksum::Sum::pseudo_header(GUEST.ip, own.ip, 6, length).with(&segment);
    segment[16..18].copy_from_slice(&sum.checksum().to_be_bytes());
    let mut frame = [&own.mac.0[..], &GUEST.mac.0, &[8, 0, 0x45, 0]].concat();
    frame.extend((length + 20).to_be_bytes());
    frame.extend([0, 0, 0, 0, 64, 6, 0, 0]);
    frame.extend(GUEST.ip.octets().into_iter().chain(own.ip.octets()).chain(segment));
    frame.resize(frame.len().max(60), 0);
    wire::identify(&mut frame, 1);
    frame
}

#[test]
fn connections_that_are_left_open_end() {
    let mut bench = Bench::new(Options { file_bytes: 100_000, ..Options::default() });
    let own = bench.own();
    // Some are only opened, and some ask for the file and acknowledge nothing more.
    for from in 1000..1020 {
        let replies = bench.exchange(&segment(own, [from, 80], [0; 8], [0x50, 2], &[]));
        let reply = replies.first().unwrap();
        assert_eq!(reply[47], if from < 1006 { 0x12 } else { 0x14 }, "SYN and ACK, or RST and ACK");
        if from % 2 == 0 && from < 1006 {
            let number = u32::from_be_bytes([reply[38], reply[39], reply[40], reply[41]]) + 1;
            let mut numbers = [0, 0, 0, 1, 0, 0, 0, 0];
            numbers[4..].copy_from_slice(&number.to_be_bytes());
            bench.exchange(&segment(own, [from, 80], numbers, [0x50, 0x18], b"GET / HTTP/1.0\n\n"));
        }
    }
    assert_eq!(bench.responder.seen().http_started.count, 3);
    let (mut calls, mut frames) = (0, 0);
    while bench.responder.due_ps() < u64::MAX {
        bench.now_ps = bench.responder.due_ps();
        frames += u64::from(bench.responder.next(bench.now_ps).is_some());
        calls += 1;
        assert!(calls < 2_000 && bench.now_ps < 200_000 * MS, "{calls} at {}", bench.now_ps);
    }
    assert!(frames > 6, "{frames}");
    assert_eq!(bench.responder.seen().http_failed.count, 3);
    let answers = browse(&mut bench, &[80], "GET / HTTP/1.0\r\n\r\n", || false);
    assert!(answers[0].len() > 100_000);
}

/// The start of a frame of the guest that a hostile one continues.
fn hostile_frame() -> impl Strategy<Value = Vec<u8>> {
    let own = Responder::new(Options::default()).unwrap().own;
    let bytes = || prop::collection::vec(any::<u8>(), 0..200);
    let raw = prop::collection::vec(any::<u8>(), 0..1600);
    let message = bytes().prop_map(move |bytes| {
        let mut frame = [&own.mac.0[..], &GUEST.mac.0, &[8, 6, 0, 1, 8, 0, 6, 4, 0], &bytes].concat();
        frame.resize(60, 1);
        frame
    });
    let ports = prop::sample::select(vec![7, 67, 69, 7007, 49_152, 49_153, 60_001]);
    let datagram = (ports, prop::sample::select(vec![1u8, 2, 3, 4, 5, 6]), bytes()).prop_map(
        move |(port, code, bytes)| {
            let data = [&[0, code], &bytes[..]].concat();
            wire::udp(GUEST, &Datagram { to: own, ports: [1069, port], data }).unwrap()
        },
    );
    // The least significant bytes of ports and numbers are enough to hit a connection now and then.
    let ports = (0u16..4, prop::sample::select(vec![80, 8080]));
    let sequence = (0u8..4).prop_map(|number| [0, 0, 0, number, 0, 0, 0, 0]);
    let parts = (ports, sequence, any::<u8>(), prop_oneof![Just(0x50), any::<u8>()], bytes());
    let segment = parts.prop_map(move |((from, to), numbers, flags, length, bytes)| {
        segment(own, [50_000 + from, to], numbers, [length, flags & 0x1f], &bytes)
    });
    prop_oneof![raw, message, datagram, segment]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]
    #[test]
    fn hostile_frames_do_no_harm(
        frames in prop::collection::vec((hostile_frame(), 0u64..3_000, 0usize..4, 0usize..1600), 0..60)
    ) {
        let mut bench = Bench::new(Options::default());
        bench.responder.start_flood(0, EchoPlan::flood(1000, 4, &[18]));
        bench.responder.start_probe(0, ProbeBy::Echo);
        for (mut frame, ms, damage, at) in frames {
            bench.now_ps += ms * MS;
            match damage {
                0 => frame.truncate(at.max(60)),
                1 => if let Some(byte) = frame.get_mut(at) { *byte ^= 0x5a },
                _ => {}
            }
            bench.responder.take(bench.now_ps, &frame, true);
            for _ in 0..20 {
                if let Some(Coming { frame, .. }) = bench.responder.next(bench.now_ps) {
                    prop_assert!((60..=1514).contains(&frame.len()));
                } else {
                    prop_assert!(bench.responder.due_ps() > bench.now_ps);
                }
            }
            prop_assert!(bench.responder.queue.len() <= MOST_QUEUED);
        }
    }
}
