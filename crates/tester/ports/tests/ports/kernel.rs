//! Ports on interfaces of the kernel, over a veth in a network namespace of the test's own. That
//! takes root; without it these tests are skipped.

use kpps_frames::build::{Flow, udp_test};
use kpps_frames::{Size, Tag, ipv4, tag, udp};
use kpps_namespaces::{skip, until_undisturbed};
use kpps_platform::{Buffer, BufferSource};
use kpps_ports::Spec;
use kpps_ports::port::{AnyPort, Frame, Options, Port, choose, open, wait};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// The longest wait for frames on a machine under load.
const FRAMES_TIMEOUT: Duration = Duration::from_secs(120);

/// The ends of the cable.
const ENDS: [&str; 2] = ["near0", "far0"];

/// Runs `test` in a namespace with a cable; skipped if there is no right to make one.
fn with_cable(test: impl FnOnce() + Send + 'static) {
    with_queues(1, test);
}

/// The same with a cable of several queues. The n-th queues of both ends belong together.
fn with_queues(queues: u32, test: impl FnOnce() + Send + 'static) {
    let thread = std::thread::spawn(move || {
        // Sockets and threads of this thread are in the new namespace from now on. It vanishes with the last
        // of them.
        if kpps_namespaces::unshare().is_err() {
            skip::needs("root, to make a network namespace");
            return;
        }
        stay_on_one_cpu();
        // Or neighbour discovery would send frames of its own.
        run("sysctl -qw net.ipv6.conf.default.disable_ipv6=1 || true");
        let several = format!("numtxqueues {queues} numrxqueues {queues}");
        let [near, far] = ENDS;
        run(&format!("ip link add name {near} {several} type veth peer name {far} {several}"));
        for end in ENDS {
            run(&format!("ip link set {end} up"));
        }
        test();
    });
    if let Err(panic) = thread.join() {
        std::panic::resume_unwind(panic);
    }
}

/// The kernel hands frames over on the CPU that sent them. On two CPUs some could overtake others.
fn stay_on_one_cpu() {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    let all = sched_getaffinity(None).unwrap();
    let all: Vec<usize> = (0..CpuSet::MAX_CPU).filter(|&cpu| all.is_set(cpu)).collect();
    let mut one = CpuSet::new();
    one.set(all[NEXT.fetch_add(1, Ordering::Relaxed) % all.len()]);
    sched_setaffinity(None, &one).unwrap();
}

fn run(command: &str) {
    assert!(
        Command::new("sh").args(["-c", command]).stderr(Stdio::null()).status().unwrap().success(),
        "{command}"
    );
}

fn ports(kinds: [&str; 2]) -> [AnyPort; 2] {
    let names = [0, 1].map(|end| format!("{}:{}", kinds[end], ENDS[end]));
    named(names.each_ref().map(String::as_str))
}

fn named<const N: usize>(names: [&str; N]) -> [AnyPort; N] {
    let specs = names.map(|name| name.parse::<Spec>().unwrap());
    open(&specs, &Options::default()).unwrap().try_into().unwrap_or_else(|_| panic!("{N} ports"))
}

/// A frame of this length without FCS that is like no other.
fn frame(bytes: usize, sequence: u64, vlan: bool) -> Vec<u8> {
    let flow = Flow { vlan: vlan.then_some(7), ..Flow::default() };
    let mut frame = udp_test(&flow, Size::with_fcs(bytes as u16 + 4)).unwrap();
    tag::write(&mut frame, Tag { stream: 3, sequence, sent_ps: sequence << 20 }).unwrap();
    let start = frame.len().min(tag::offset(&frame) + tag::BYTES);
    for (at, byte) in frame[start..].iter_mut().enumerate() {
        *byte = (at as u32).wrapping_mul((sequence | 1) as u32) as u8;
    }
    frame
}

/// Sends all of `frames`, and takes what comes at the other end meanwhile and until nothing is missing.
fn pass(from: &mut AnyPort, to: &mut AnyPort, frames: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let end = Instant::now() + FRAMES_TIMEOUT;
    let mut arrived = Vec::new();
    let mut waiting = frames.iter();
    let mut next = waiting.next();
    while arrived.len() < frames.len() && Instant::now() < end {
        for _ in 0..from.tx_space().min(64) {
            let Some(bytes) = next else { break };
            let mut buffer = from.pool().take().unwrap();
            buffer.bytes_mut()[..bytes.len()].copy_from_slice(bytes);
            from.send(Frame { buffer, bytes: bytes.len() as u16 }).unwrap();
            next = waiting.next();
        }
        from.flush().unwrap();
        to.receive(64, |frame| {
            arrived.push(frame.as_ref().to_vec());
            Some(frame.buffer)
        })
        .unwrap();
    }
    // Nothing comes twice.
    arrived.extend(all_that_come(to, 0));
    arrived
}

/// Waits for `least` frames, and then briefly for more.
fn all_that_come(to: &mut AnyPort, least: usize) -> Vec<Vec<u8>> {
    let (begun, mut arrived) = (Instant::now(), Vec::new());
    let mut take = |arrived: &mut Vec<Vec<u8>>| {
        to.receive(64, |frame| {
            arrived.push(frame.as_ref().to_vec());
            Some(frame.buffer)
        })
        .unwrap()
    };
    while arrived.len() < least && begun.elapsed() < FRAMES_TIMEOUT {
        take(&mut arrived);
    }
    std::thread::sleep(Duration::from_millis(50));
    while take(&mut arrived) > 0 {}
    arrived
}

/// Every frame arrives once, unchanged and in order, both ways, whatever its length; and is counted.
fn each_arrives(kinds: [&'static str; 2], queues: u32) {
    with_queues(queues, move || {
        let [mut near, mut far] = ports(kinds);
        let pool = near.pool().clone();
        let lengths = (60..1515).step_by(7).chain([60, 61, 1513, 1514]);
        let mut frames: Vec<_> =
            lengths.enumerate().map(|(i, bytes)| frame(bytes, i as u64, bytes >= 64 && i % 5 == 0)).collect();
        // More than any ring holds, several times over.
        frames.extend((0..20_000).map(|i| frame(60, 1000 + i, false)));
        for _ in 0..2 {
            let arrived = pass(&mut near, &mut far, &frames);
            assert_eq!(arrived.len(), frames.len());
            for (index, (sent, got)) in frames.iter().zip(&arrived).enumerate() {
                assert_eq!(sent, got, "frame {index} of {} bytes", sent.len());
            }
            let (sent, received) = (near.counters().unwrap(), far.counters().unwrap());
            let bytes: usize = frames.iter().map(Vec::len).sum();
            assert_eq!((sent.sent, sent.sent_bytes), (frames.len() as u64, bytes as u64));
            assert_eq!((received.received, received.received_bytes), (frames.len() as u64, bytes as u64));
            assert_eq!((received.missed, received.errors, sent.tx_dropped), (Some(0), 0, 0));
            std::mem::swap(&mut near, &mut far);
        }
        assert_eq!((near.in_flight(), far.in_flight()), (0, 0));
        drop((near, far));
        assert_eq!(pool.available(), pool.count(), "all buffers come back");
    });
}

/// Frames that do not fit the interface are counted instead of sent.
fn too_long_is_told(kinds: [&'static str; 2]) {
    with_cable(move || {
        let [mut near, mut far] = ports(kinds);
        let frames = [frame(60, 0, false), frame(1515, 1, false), vec![7; 13], frame(60, 2, false)];
        for bytes in &frames {
            let mut buffer = near.pool().take().unwrap();
            buffer.bytes_mut()[..bytes.len()].copy_from_slice(bytes);
            near.send(Frame { buffer, bytes: bytes.len() as u16 }).unwrap();
        }
        near.flush().unwrap();
        let arrived = all_that_come(&mut far, 2);
        let counters = near.counters().unwrap();
        assert_eq!((counters.sent, counters.tx_dropped), (2, 2));
        assert_eq!(arrived, [frames[0].clone(), frames[3].clone()]);
    });
}

/// More frames than there is room for are missed, not corrupted; the account closes.
fn overflow_is_counted(kinds: [&'static str; 2]) {
    with_cable(move || {
        let [mut near, mut far] = ports(kinds);
        let all = 30_000;
        let mut sent = 0;
        while sent < all {
            for _ in 0..near.tx_space().min(64) {
                let bytes = frame(60, sent, false);
                let mut buffer = near.pool().take().unwrap();
                buffer.bytes_mut()[..bytes.len()].copy_from_slice(&bytes);
                near.send(Frame { buffer, bytes: bytes.len() as u16 }).unwrap();
                sent += 1;
            }
            near.flush().unwrap();
        }
        let all = u64::from(near.counters().unwrap().sent as u32);
        let (begun, mut received, mut expected, mut missed) = (Instant::now(), 0, 0, 0);
        while received + missed < all && begun.elapsed() < FRAMES_TIMEOUT {
            far.receive(64, |frame| {
                let tag = tag::read(frame.as_ref()).unwrap();
                assert!(tag.sequence >= expected);
                expected = tag.sequence + 1;
                received += 1;
                Some(frame.buffer)
            })
            .unwrap();
            missed = far.counters().unwrap().missed.unwrap();
        }
        assert!(missed > 0, "{received} of {sent} fit");
        assert_eq!(received + missed, all);
    });
}

#[test]
fn xdp_each_arrives() {
    each_arrives(["xdp", "xdp"], 1);
    each_arrives(["xdp", "xdp"], 3);
}

/// Sends a hundred frames to `to` by each queue of the peer. The frames that arrive of each are as
/// `expected`, and no other frame arrives.
fn by_each_queue(to: &str, expected: [u16; 4]) {
    let [mut to, from @ ..] = named([to, "xdp:near0:0", "xdp:near0:1", "xdp:near0:2", "xdp:near0:3"]);
    for (stream, mut from) in from.into_iter().enumerate() {
        for sequence in 0..100 {
            send_one(&mut from, &frame_of(stream as u16, sequence));
        }
    }
    let all: u16 = expected.iter().sum();
    let mut streams = [0; 4];
    for frame in all_that_come(&mut to, all.into()) {
        let tag = tag::read(&frame).unwrap();
        let next = &mut streams[usize::from(tag.stream)];
        assert_eq!(tag.sequence, u64::from(*next), "in order within a queue");
        *next += 1;
    }
    assert_eq!((streams, to.counters().unwrap().received), (expected, all.into()));
}

/// A frame of a stream.
fn frame_of(stream: u16, sequence: u64) -> Vec<u8> {
    let mut frame = udp_test(&Flow::default(), Size::MIN).unwrap();
    tag::write(&mut frame, Tag { stream, sequence, sent_ps: 0 }).unwrap();
    frame
}

#[test]
fn xdp_sees_all_queues_or_the_one_that_is_named() {
    with_queues(4, || {
        by_each_queue("xdp:far0", [100; 4]);
        by_each_queue("xdp:far0:2", [0, 0, 100, 0]);
        // Closed ports have given the queues back, and no frame of theirs is left.
        by_each_queue("auto:far0", [100; 4]);
        let word = |name: &str| choose(&name.parse().unwrap()).unwrap();
        assert_eq!((word("auto:near0").0.to_string(), word("xdp:near0").1), ("xdp:near0".into(), None));
        assert!(word("xdp:near0:3").1.unwrap().contains("queue 3 of 4"));
    });
}

/// A flood of one queue leaves the others their turn, however small the budget.
#[test]
fn xdp_queues_take_turns() {
    with_queues(3, || {
        let [mut flood, mut other, mut to] = named(["xdp:near0:1", "xdp:near0:2", "xdp:far0"]);
        for round in 0..10 {
            // A queue whose frames the kernel has not handed over yet has no turn.
            until_undisturbed(&format!("all queues have their turn in round {round}"), || {
                for sequence in 0..2000 {
                    send_one(&mut flood, &frame_of(1, sequence));
                }
                for sequence in 0..40 {
                    send_one(&mut other, &frame_of(2, sequence));
                }
                // Each time a queue has the budget at most.
                let mut found = 0;
                for _ in 0..3 * 40 / 8 {
                    let taken = to.receive(8, |frame| {
                        found += u32::from(tag::read(frame.as_ref()).unwrap().stream == 2);
                        Some(frame.buffer)
                    });
                    assert!(taken.unwrap() <= 8);
                }
                all_that_come(&mut to, 0);
                found == 40
            });
        }
    });
}

/// A flood of waiting frames leaves senders their buffers.
#[test]
fn xdp_floods_leave_buffers_to_send() {
    with_queues(3, || {
        let [mut far, mut from @ ..] = named(["xdp:far0", "xdp:near0:0", "xdp:near0:1", "xdp:near0:2"]);
        for _ in 0..3 {
            for _ in 0..40 {
                // All queues are full, but a few frames are taken each time.
                for from in &mut from {
                    for sequence in 0..200 {
                        send_one(from, &frame_of(0, sequence));
                    }
                }
                far.receive(64, |frame| Some(frame.buffer)).unwrap();
            }
            assert!(far.counters().unwrap().missed > Some(0), "they are full");
            while far.receive(64, |frame| Some(frame.buffer)).unwrap() > 0 {}
        }
        // The kernel has 3 × 2048 at one end, a queue's for each port at the other, and those to send. The
        // rest is free, except for buffers in the stacks of other handles.
        let mut pool = far.pool().clone();
        let rest = pool.count() - 6 * 2048 - 4 * 512;
        let free: Vec<_> = std::iter::from_fn(|| pool.take()).collect();
        assert!(free.len() > rest / 2, "{} of {rest} are free", free.len());
    });
}

/// A sleeper wakes up with a frame of any queue, and not without a frame.
#[test]
fn xdp_wakes_for_each_queue() {
    with_queues(3, || {
        let [mut to, mut from @ ..] = named(["xdp:far0", "xdp:near0:0", "xdp:near0:1", "xdp:near0:2"]);
        let pause = Duration::from_millis(100);
        for _ in 0..3 {
            for from in &mut from {
                assert_eq!(to.receive(64, |frame| Some(frame.buffer)).unwrap(), 0);
                let start = Instant::now();
                wait(&[&to], pause).unwrap();
                assert!(start.elapsed() > pause / 2, "nothing has come: {:?}", start.elapsed());
                send_one(from, &frame(60, 0, false));
                let start = Instant::now();
                wait(&[&to], 600 * pause).unwrap();
                assert!(start.elapsed() < 300 * pause, "something has: {:?}", start.elapsed());
                assert_eq!(to.receive(64, |frame| Some(frame.buffer)).unwrap(), 1);
            }
        }
    });
}

#[test]
fn xdp_refusals_say_why() {
    with_queues(4, || {
        let open = |names: &[&str]| {
            let specs: Vec<Spec> = names.iter().map(|name| name.parse().unwrap()).collect();
            open(&specs, &Options::default())
        };
        let refused = |names: &[&str]| open(names).map(drop).unwrap_err().to_string();
        assert!(refused(&["xdp:near0:4"]).contains("no such queue: near0 has 4, numbered from 0"));
        assert!(refused(&["xdp:near0", "xdp:near0:1"]).contains("xdp:near0:1 is given twice"));
        assert!(refused(&["xdp:nothere0"]).contains("no such interface"));
        let one = open(&["xdp:near0:3"]).unwrap();
        let said = refused(&["xdp:near0"]);
        assert!(said.contains("in use"), "{said}");
        drop(one);
        assert_eq!(open(&["xdp:near0"]).unwrap()[0].queues(), 4);
    });
}

#[test]
fn xdp_too_long() {
    too_long_is_told(["xdp", "packet"]);
}

#[test]
fn xdp_overflow() {
    overflow_is_counted(["packet", "xdp"]);
}

#[test]
fn auto_chooses() {
    with_cable(|| {
        let (spec, why) = choose(&"auto:near0".parse().unwrap()).unwrap();
        // veths have XDP in their driver, and one queue.
        assert_eq!(spec.to_string(), "xdp:near0", "{why:?}");
        assert!(why.unwrap().contains("driver"));
        let [mut near, mut far] = ports(["auto", "auto"]);
        let frames = [frame(60, 0, false)];
        assert_eq!(pass(&mut near, &mut far, &frames), frames);
        assert_eq!(choose(&"xdp:near0".parse().unwrap()).unwrap().1, None);
        let none = choose(&"auto:nothere0".parse().unwrap()).unwrap_err();
        assert!(none.to_string().contains("no such interface"), "{none}");
    });
}

#[test]
fn packet_each_arrives() {
    each_arrives(["packet", "packet"], 1);
}

#[test]
fn packet_too_long() {
    too_long_is_told(["packet", "packet"]);
}

#[test]
fn packet_overflow() {
    overflow_is_counted(["packet", "packet"]);
}

/// A packet socket knows when the kernel had a frame, long before it is read.
#[test]
fn packet_stamps_are_of_the_arrival() {
    stamps_are_of_the_arrival(["packet", "packet"]);
}

/// So does an XDP program.
#[test]
fn xdp_stamps_are_of_the_arrival() {
    stamps_are_of_the_arrival(["packet", "xdp"]);
}

fn stamps_are_of_the_arrival(kinds: [&'static str; 2]) {
    with_cable(move || {
        let [mut near, mut far] = ports(kinds);
        let now = || std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap().as_nanos() as u64;
        let begin = now();
        send_one(&mut near, &frame(60, 0, false));
        std::thread::sleep(Duration::from_millis(200));
        let read = now();
        let mut stamps = Vec::new();
        let patience = Instant::now();
        while stamps.is_empty() && patience.elapsed() < FRAMES_TIMEOUT {
            let see = |frame: Frame, stamp: Option<u64>| {
                stamps.push(stamp.unwrap());
                Some(frame.buffer)
            };
            far.receive_stamped(64, see).unwrap();
        }
        assert_eq!(stamps.len(), 1);
        assert!((begin..read).contains(&stamps[0]), "{begin} {stamps:?} {read}");
    });
}

/// Sends a frame and does not wait for it.
fn send_one(near: &mut AnyPort, bytes: &[u8]) {
    let mut buffer = near.pool().take().unwrap();
    buffer.bytes_mut()[..bytes.len()].copy_from_slice(bytes);
    near.send(Frame { buffer, bytes: bytes.len() as u16 }).unwrap();
    near.flush().unwrap();
}

/// Messages that UDP sockets of this namespace have sent (proc_pid_net(5)).
fn messages_sent() -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/net/snmp").unwrap();
    let lines: Vec<Vec<_>> = text
        .lines()
        .filter_map(|line| line.strip_prefix("Udp: "))
        .map(|line| line.split(' ').collect())
        .collect();
    let column = lines[0].iter().position(|name| *name == "OutDatagrams").unwrap();
    lines[1][column].parse().unwrap()
}

/// Has the kernel cut messages before the interface, and complete checksums, as of a card that cannot.
const CUT: &str = "ethtool -K near0 tx off > /dev/null";

/// Where it is the kernel that cuts messages, datagrams of equal length go as one, and arrive as they would
/// otherwise: each is a frame of the interface. An interface that would hand on the whole is not given any.
#[test]
fn datagrams_that_the_kernel_cuts_are_frames_each() {
    for cut in [true, false] {
        with_cable(move || {
            run("ip link set lo up && ip addr add 198.18.0.1/24 dev near0 && ip link set far0 arp off");
            run("ip neigh replace 198.18.0.2 lladdr 02:00:00:00:00:02 dev near0");
            if cut {
                run(CUT);
            }
            let [mut near] = open(&["udp:198.18.0.2:9".parse().unwrap()], &Options::default())
                .unwrap()
                .try_into()
                .ok()
                .unwrap();
            let [mut far] = open(&["packet:far0".parse().unwrap()], &Options::default())
                .unwrap()
                .try_into()
                .ok()
                .unwrap();
            // Runs of one length, of two lengths in turns, and one alone.
            let lengths = std::iter::repeat_n(60, 300)
                .chain((0..100).map(|i| if i % 2 == 0 { 64 } else { 1514 }))
                .chain(std::iter::repeat_n(1514, 200))
                .chain([100]);
            let frames: Vec<_> =
                lengths.enumerate().map(|(i, bytes)| frame(bytes, i as u64, false)).collect();
            let arrived = pass(&mut near, &mut far, &frames);
            assert_eq!(arrived.len(), frames.len());
            for (index, (sent, got)) in frames.iter().zip(&arrived).enumerate() {
                assert_eq!(sent[tag::OFFSET..], got[tag::OFFSET..], "datagram {index}");
            }
            let counters = near.counters().unwrap();
            assert_eq!((counters.sent, counters.tx_dropped), (frames.len() as u64, 0));
            assert_eq!(near.in_flight(), 0);
            let messages = messages_sent();
            if cut {
                assert!(
                    (100..200).contains(&messages),
                    "one for each that has another length, a few for each run: {messages}"
                );
            } else {
                assert_eq!(messages, frames.len() as u64);
            }
        });
    }
}

/// Test frames that are alike are one message where the kernel cuts them apart again, and are the same frames
/// at the other end, with what cutting adds to them; all others are as they were.
#[test]
fn test_frames_that_the_kernel_cuts_arrive_as_frames() {
    for cut in [true, false] {
        with_cable(move || {
            if cut {
                run(CUT);
            }
            let [mut near, mut far] = ports(["packet"; 2]);
            let lengths = std::iter::repeat_n(60, 3000)
                .chain((0..100).map(|i| if i % 2 == 0 { 64 } else { 1514 }))
                .chain(std::iter::repeat_n(300, 500))
                .chain(std::iter::repeat_n(1514, 300));
            let mut frames: Vec<_> =
                lengths.enumerate().map(|(i, bytes)| frame(bytes, i as u64, false)).collect();
            frames.extend((0..100).map(|i| frame(100, 5000 + i, true)));
            let mut waiting = frames.iter();
            let (mut arrived, end) = (Vec::new(), Instant::now() + FRAMES_TIMEOUT);
            while arrived.len() < frames.len() && Instant::now() < end {
                let most = waiting.len().min(40);
                let taken = near.send_again(most, |buffer| {
                    let bytes = waiting.next().unwrap();
                    buffer[..bytes.len()].copy_from_slice(bytes);
                    bytes.len() as u16
                });
                assert!(taken <= most);
                near.flush().unwrap();
                let mut keep = |frame: Frame| {
                    arrived.push(frame.as_ref().to_vec());
                    Some(frame.buffer)
                };
                far.receive(64, &mut keep).unwrap();
            }
            assert_eq!((arrived.len(), near.in_flight()), (frames.len(), 0));
            let counters = near.counters().unwrap();
            let bytes: usize = frames.iter().map(Vec::len).sum();
            assert_eq!(
                (counters.sent, counters.sent_bytes, counters.tx_dropped),
                (frames.len() as u64, bytes as u64, 0)
            );
            let mut joined = 0;
            for (index, (sent, got)) in frames.iter().zip(&mut arrived).enumerate() {
                if sent != got {
                    joined += 1;
                    let packet = ipv4::Packet::new_checked(&got[14..]).unwrap();
                    let datagram = udp::Datagram::new_checked(packet.payload()).unwrap();
                    assert!(packet.checksum_ok() && datagram.checksum() != 0);
                    assert!(datagram.checksum_ok(packet.source(), packet.destination()), "frame {index}");
                    // Identification, checksum of the header, and that of the datagram.
                    for place in [18..20, 24..26, 40..42] {
                        got[place.clone()].copy_from_slice(&sent[place]);
                    }
                }
                assert_eq!(sent, got, "frame {index} of {} bytes", sent.len());
            }
            // Frames of a run, 40 at once; none of two lengths in turns, none that fills a slot, none that is
            // tagged.
            assert_eq!(joined > 0, cut);
            assert!(!cut || (3400..=3500).contains(&joined), "{joined}");
        });
    }
}

/// An interface that `ip` does not show as Ethernet is refused with the name of its link layer; an interface
/// with Ethernet headers is a port. A kernel lacks some kinds.
#[test]
fn interfaces_without_ethernet_headers_are_refused_by_name() {
    let shown = |command: &str| {
        let output = Command::new("sh").args(["-c", command]).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    with_cable(move || {
        let kinds = [
            ("x-tun", "ip tuntap add name x-tun mode tun"),
            ("x-tap", "ip tuntap add name x-tap mode tap"),
            ("x-wg", "ip link add x-wg type wireguard"),
            ("x-ipip", "ip link add x-ipip type ipip local 192.0.2.1 remote 192.0.2.2"),
            ("x-gre", "ip link add x-gre type gre local 192.0.2.1 remote 192.0.2.2"),
            ("x-gretap", "ip link add x-gretap type gretap local 192.0.2.1 remote 192.0.2.2"),
            ("x-sit", "ip link add x-sit type sit local 192.0.2.1 remote 192.0.2.2"),
            ("x-can", "ip link add x-can type vcan"),
            ("x-nlmon", "ip link add x-nlmon type nlmon"),
            ("x-dummy", "ip link add x-dummy type dummy"),
            ("lo", "true"),
            ("near0", "true"),
        ];
        let mut refused = 0;
        for (name, make) in kinds {
            if !Command::new("sh").args(["-c", make]).stderr(Stdio::null()).status().unwrap().success() {
                continue;
            }
            let line = shown(&format!("ip -oneline link show dev {name}"));
            let link = line.split_whitespace().find(|word| word.starts_with("link/")).unwrap().to_owned();
            for port in ["packet", "xdp", "auto"] {
                let port = format!("{port}:{name}");
                let spec = port.parse::<Spec>().unwrap();
                match &*link {
                    "link/ether" | "link/loopback" if !port.starts_with("packet") => {}
                    "link/ether" | "link/loopback" => drop(open(&[spec], &Options::default()).unwrap()),
                    _ => {
                        let said = open(&[spec], &Options::default()).map(drop).unwrap_err().to_string();
                        assert!(said.starts_with(&format!("{port} cannot be a port: ")), "{said}");
                        assert!(said.contains(&format!("({link}")) && !said.contains('\n'), "{link}: {said}");
                        assert!(said.contains("use "), "{said}");
                        refused += 1;
                    }
                }
            }
        }
        if refused == 0 {
            skip::lacks("interfaces without Ethernet headers");
        }
    });
}

/// A link that goes down ends one wait. If it ended each of them, the thread that waits would keep its CPU
/// busy.
#[test]
fn a_link_that_goes_down_ends_one_wait() {
    const WAIT: Duration = Duration::from_millis(20);
    with_cable(|| {
        let [mut near, _far] = ports(["packet"; 2]);
        run("ip link set near0 down");
        let ended_early = || {
            while near.receive(64, |frame| Some(frame.buffer)).unwrap() > 0 {}
            let begun = Instant::now();
            wait(&[&near], WAIT).unwrap();
            near.woken().unwrap();
            begun.elapsed() < WAIT / 2
        };
        let early = std::iter::repeat_with(ended_early).take(100).take_while(|is_early| *is_early).count();
        assert!(early < 100, "no wait lasts");
    });
}

/// Where a driver has no XDP, the kernel merges packets before AF_XDP gets them, which cannot cut them.
#[test]
fn xdp_behind_merging_is_refused() {
    with_cable(|| {
        run("ip link add x-br type bridge && ip link set x-br up");
        let open = |name: &str| open(&[name.parse::<Spec>().unwrap()], &Options::default());
        run("ethtool -K x-br gro on rx-udp-gro-forwarding on > /dev/null");
        let said = open("xdp:x-br").map(drop).unwrap_err().to_string();
        assert!(said.contains("`ethtool -K x-br gro off`, or use packet:x-br"), "{said}");
        let (spec, why) = choose(&"auto:x-br".parse().unwrap()).unwrap();
        assert_eq!(spec.to_string(), "packet:x-br", "{why:?}");
        run("ethtool -K x-br rx-udp-gro-forwarding off > /dev/null");
        assert!(open("xdp:x-br").is_ok());
        // A driver with XDP hands frames over before anything is merged.
        run("ethtool -K far0 gro on rx-udp-gro-forwarding on > /dev/null");
        assert!(open("xdp:far0").is_ok());
    });
}
