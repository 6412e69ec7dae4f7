//! Ports are stations between trials, too: a router's neighbours that answer.

use super::{await_routers, offer, tester, trial};
use kpps_frames::{Mac, ethernet::TYPE_IPV4};
use kpps_frames::{build, checksum, icmp};
use kpps_namespaces::Net;
use kpps_platform::{Buffer, BufferSource};
use kpps_ports::port::{AnyPort, Frame, Options, Port, open, wait};
use std::net::UdpSocket;
use std::time::{Duration, Instant};

/// How long to wait for an event.
const PATIENCE: Duration = Duration::from_secs(60);

/// Calls a function until it returns something.
fn until<T>(what: &str, mut get: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + PATIENCE;
    loop {
        if let Some(value) = get() {
            return value;
        }
        assert!(Instant::now() < end, "{what}");
    }
}

/// A ping from one station to another, with this identifier.
fn ping(macs: [Mac; 2], ips: [[u8; 4]; 2], identifier: u8) -> Vec<u8> {
    let mut packet = [&[0x45, 0, 0, 48, 0, 0, 0, 0, 64, 1, 0, 0][..], &ips.concat(), &[3; 28]].concat();
    let sum = checksum::checksum(&packet[..20]);
    packet[10..12].copy_from_slice(&sum.to_be_bytes());
    packet[20..28].copy_from_slice(&[icmp::ECHO, 0, 0, 0, 0, identifier, 0, 1]);
    icmp::put_checksum(&mut packet[20..]);
    build::frame(macs[1], macs[0], None, TYPE_IPV4, &packet).unwrap()
}

fn send(port: &mut AnyPort, bytes: &[u8]) {
    let mut buffer = port.pool().take().unwrap();
    buffer.bytes_mut()[..bytes.len()].copy_from_slice(bytes);
    port.send(Frame { buffer, bytes: bytes.len() as u16 }).ok().unwrap();
    port.flush().unwrap();
}

/// The router resolves both stations anew, and pings them from its own interfaces.
fn router_knows_its_neighbours(ends: &Net, router: &Net, identifier: u8) {
    router.run("ip neigh flush all");
    std::thread::scope(|scope| {
        scope.spawn(|| {
            router.enter();
            for (end, own, network, last) in [("a", "ra", 18, 1), ("b", "rb", 19, 2)] {
                let ips = [[198, network, 0, 254], [198, network, 0, last]];
                let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
                let whom = format!("198.{network}.0.{last}");
                until("the kernel resolves the station", || {
                    let _ = socket.send_to(b"?", (&*whom, 9));
                    let known = router.output(&format!("ip neigh show to {whom} dev {own}"));
                    known.contains("lladdr").then_some(())
                });
                let spec = format!("packet:{own}").parse().unwrap();
                let mut port = open(&[spec], &Options::default()).unwrap().pop().unwrap();
                let text = ends.output(&format!("cat /sys/class/net/{end}/address"));
                let station: Mac = text.trim().parse().unwrap();
                let macs = [Mac(port.address().unwrap()), station];
                until("the station answers a ping", || {
                    send(&mut port, &ping(macs, ips, identifier));
                    wait(&[&port], Duration::from_millis(20)).unwrap();
                    port.woken().unwrap();
                    let mut answered = false;
                    port.receive(64, |frame| {
                        let bytes = frame.as_ref();
                        let is_answer = bytes.get(34..40).is_some_and(|it| it[0] == icmp::ECHO_REPLY)
                            && bytes[23] == 1
                            && bytes[26..34] == [ips[1], ips[0]].concat()
                            && bytes[39] == identifier;
                        answered |= is_answer;
                        Some(frame.buffer)
                    })
                    .unwrap();
                    answered.then_some(())
                });
            }
        });
    });
}

/// Nobody uses the tester meanwhile: its ports answer by themselves.
#[test]
fn between_trials_stations_answer() {
    let Some((ends, router)) = Net::with_router() else { return };
    ends.enter();
    let mut tester = tester([Some("198.18.0.254"), Some("198.19.0.254")], &[]);
    await_routers(&mut tester);
    router_knows_its_neighbours(&ends, &router, 1);
    for round in 2..4 {
        trial(&mut tester, &offer(1000.0, 64, true));
        router_knows_its_neighbours(&ends, &router, round);
    }
    // The ports' threads end with it.
    drop(tester);
}

/// They go on answering in a trial, and their answers are no frames of it.
#[test]
fn in_a_trial_stations_answer() {
    let Some((ends, router)) = Net::with_router() else { return };
    ends.enter();
    let mut tester = tester([Some("198.18.0.254"), Some("198.19.0.254")], &[]);
    await_routers(&mut tester);
    let (ends, router) = (&ends, &router);
    std::thread::scope(|scope| {
        let asks = scope.spawn(move || router_knows_its_neighbours(ends, router, 1));
        // Until the router has asked, one trial follows the other.
        while !asks.is_finished() {
            trial(&mut tester, &offer(1000.0, 64, true));
        }
        asks.join().unwrap();
    });
}
