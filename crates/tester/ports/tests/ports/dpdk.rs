//! Ports of DPDK on its software devices. They need DPDK's packages, and no right.

use kpps_frames::build::{Flow, udp_test};
use kpps_frames::{Size, Tag, tag};
use kpps_namespaces::skip;
use kpps_platform::{Buffer, BufferSource};
use kpps_ports::Error;
use kpps_ports::port::{AnyPort, Frame, Options, Port, open};
use std::time::{Duration, Instant};

/// The longest wait for frames on a machine under load.
const FRAMES_TIMEOUT: Duration = Duration::from_secs(60);

/// Compiles the adapter; skipped without DPDK.
fn has_dpdk() -> bool {
    let built = kpps_dpdk::build();
    if matches!(built, Err(kpps_dpdk::Error::NoTool(_) | kpps_dpdk::Error::NoHeaders)) {
        skip::needs("DPDK (libdpdk-dev, pkg-config)");
        return false;
    }
    built.unwrap();
    true
}

fn one(name: &str) -> Result<AnyPort, Error> {
    Ok(open(&[name.parse()?], &Options::default())?.remove(0))
}

/// A tagged frame of this size with FCS.
fn frame(sequence: u64, bytes: u16) -> Vec<u8> {
    let mut frame = udp_test(&Flow::default(), Size::with_fcs(bytes)).unwrap();
    tag::write(&mut frame, Tag { stream: 1, sequence, sent_ps: sequence * 1000 }).unwrap();
    frame
}

/// Sends a frame; the frame itself if there is no space.
fn give(port: &mut AnyPort, bytes: &[u8]) -> bool {
    let mut buffer = port.pool().take().unwrap();
    buffer.bytes_mut()[..bytes.len()].copy_from_slice(bytes);
    port.send(Frame { buffer, bytes: bytes.len() as u16 }).is_ok()
}

/// A ring returns each frame as it was sent, in its order; a full ring refuses frames and loses none. A
/// device can be opened again, by another thread, too.
#[test]
fn a_ring_returns_frames_as_they_were() {
    if !has_dpdk() {
        return;
    }
    for name in ["dpdk:net_ring0", "dpdk:net_ring0", "dpdk:net_ring1"] {
        std::thread::spawn(|| {
            let mut port = one(name).unwrap();
            assert!(port.link().up && port.link().speed_mbps.is_none(), "its speed is made up");
            assert_eq!(port.longest(), Some(1514));
            let buffers = port.pool().available();
            let (mut sent, mut seen) = (0, 0);
            let end = Instant::now() + FRAMES_TIMEOUT;
            let size = |n: u64| 64 + (n * 37 % 1454) as u16;
            while seen < 20_000 {
                assert!(Instant::now() < end, "{seen} of {sent} frames came back");
                // Until the ring and the port are full.
                while sent < 20_000 && give(&mut port, &frame(sent, size(sent))) {
                    sent += 1;
                }
                port.flush().unwrap();
                port.receive(50, |got| {
                    assert_eq!(got.as_ref(), frame(seen, size(seen)), "frame {seen}");
                    seen += 1;
                    Some(got.buffer)
                })
                .unwrap();
            }
            let counters = port.counters().unwrap();
            assert_eq!((counters.sent, counters.received), (20_000, 20_000));
            assert_eq!(counters.sent_bytes, counters.received_bytes);
            assert_eq!((counters.tx_dropped, counters.errors, counters.missed), (0, 0, Some(0)));
            assert!(counters.full > 0, "the ring was full");
            assert!(port.pool().available() + 1 >= buffers, "at most one buffer is kept");
        })
        .join()
        .unwrap();
    }
}

/// Each core has a queue of a device, with its own counters. The device's counters are there once.
#[test]
fn each_core_has_a_queue() {
    if !has_dpdk() {
        return;
    }
    let cores = Options { cores: 3, ..Options::default() };
    let mut port = open(&["dpdk:net_ring5".parse().unwrap()], &cores).unwrap().remove(0);
    assert_eq!((port.cores(), port.longest()), (3, Some(1514)));
    let AnyPort::DpdkCores(all) = &mut port else { panic!("a port for each core") };
    std::thread::scope(|threads| {
        for (core, part) in all.parts().enumerate() {
            threads.spawn(move || {
                let (mut sent, mut seen) = (0, 0);
                let end = Instant::now() + FRAMES_TIMEOUT;
                let frames = 1000 * (core as u64 + 1);
                while seen < frames {
                    assert!(Instant::now() < end, "{seen} of {sent} frames came back");
                    if sent < frames {
                        let mut buffer = part.pool().take().unwrap();
                        let bytes = frame(sent, 64 + core as u16);
                        buffer.bytes_mut()[..bytes.len()].copy_from_slice(&bytes);
                        match part.send(Frame { buffer, bytes: bytes.len() as u16 }) {
                            Ok(()) => sent += 1,
                            Err(frame) => part.pool().give(frame.buffer),
                        }
                    }
                    part.flush().unwrap();
                    // A queue has the frames that were sent by it.
                    part.receive(50, |got| {
                        assert_eq!(
                            got.as_ref(),
                            frame(seen, 64 + core as u16),
                            "frame {seen} of core {core}"
                        );
                        seen += 1;
                        Some(got.buffer)
                    })
                    .unwrap();
                }
                let counters = part.counters().unwrap();
                assert_eq!((counters.sent, counters.received), (frames, frames));
            });
        }
    });
    let counters = port.counters().unwrap();
    assert_eq!((counters.sent, counters.received), (6000, 6000));
    assert_eq!((counters.tx_dropped, counters.errors, counters.missed), (0, 0, Some(0)));
}

/// Frames that no device sends are counted, and none of their buffers is lost.
#[test]
fn frames_that_do_not_fit_are_dropped() {
    if !has_dpdk() {
        return;
    }
    let mut port = one("dpdk:net_null7").unwrap();
    for bytes in [13, 1515, 2000] {
        assert!(give(&mut port, &vec![0; bytes]));
    }
    assert!(give(&mut port, &frame(0, 64)));
    port.flush().unwrap();
    assert_eq!(port.in_flight(), 0);
    let counters = port.counters().unwrap();
    assert_eq!((counters.sent, counters.tx_dropped), (1, 3));
}

/// A device that is open, or does not exist, is refused in one line.
#[test]
fn devices_that_cannot_be_opened() {
    if !has_dpdk() {
        return;
    }
    let _open = one("dpdk:net_null3").unwrap();
    for (name, why) in [
        ("dpdk:net_null3", "dpdk:net_null3: "),
        ("dpdk:net_nosuch0", "no driver of DPDK drives it"),
        ("dpdk:0000:ff:1f.7", "dpdk:0000:ff:1f.7: "),
        ("dpdk:net_af_packet0,iface=nosuch", "no such interface"),
    ] {
        let said = one(name).err().map(|error| error.to_string()).unwrap_or_default();
        assert!(said.contains(why) && !said.contains('\n'), "{name}: {said}");
    }
    let twice = ["dpdk:net_null4", "dpdk:net_null4,copy=1"].map(|name| name.parse().unwrap());
    let said = open(&twice, &Options::default()).err().map(|error| error.to_string()).unwrap_or_default();
    assert!(said.contains("is given twice"), "{said}");
    let cores = Options { cores: 17, ..Options::default() };
    let said = open(&["dpdk:net_ring9".parse().unwrap()], &cores).err().map(|error| error.to_string());
    assert!(said.as_ref().is_some_and(|said| said.contains("it has 16 queues at most")), "{said:?}");
}
