//! Before a trial: what is between the ports learns where its stations are, and the way is seen to be open.

use crate::arp::{self, Station};
use crate::test_port::TestPort;
use kpps_frames::build::{Flow, udp_test};
use kpps_frames::{Mac, Size, Tag, tag};
use kpps_ports::port::Trouble;
use std::net::Ipv4Addr;
use std::time::{Duration, Instant};

/// How often what was not answered is asked again.
const AGAIN: Duration = Duration::from_millis(100);
/// How long learning may take (RFC 2544 allows 2 s).
const AT_MOST: Duration = Duration::from_secs(2);

/// An end of the way: a port's address, and who takes its frames on.
#[derive(Clone, Copy, Debug)]
pub struct End {
    /// The port as a station.
    pub station: Station,
    /// The router that its frames go to; to the other end if there is none.
    pub gateway: Option<Ipv4Addr>,
    /// The station that its frames go to, if it is known beforehand.
    pub to: Option<Mac>,
}

/// The flow of the trial from one end to the other.
pub(crate) fn flow(from: &End, to: &End, to_mac: Mac) -> Flow {
    Flow {
        from_mac: from.station.mac,
        to_mac,
        vlan: None,
        from: (from.station.ip, 49152),
        to: (to.station.ip, 9),
    }
}

/// Makes both ends known, finds out whom each must send to, and sends frames of `stream` until one has come through each
/// `way` (from, to). Returns the stations, and whether all ways are open.
pub(crate) fn learn(
    ports: &mut [Box<dyn TestPort>; 2],
    ends: &[End; 2],
    ways: &[(usize, usize)],
    stream: u16,
    go_on: &dyn Fn() -> bool,
) -> Result<([Mac; 2], bool), Trouble> {
    let mut to: [Option<Mac>; 2] = [0, 1].map(|at| match (ends[at].to, ends[at].gateway) {
        (Some(mac), _) => Some(mac),
        (None, None) => Some(ends[1 - at].station.mac),
        (None, Some(_)) => None,
    });
    let mut through = [false; 2];
    let begin = Instant::now();
    let mut next = begin;
    while begin.elapsed() < AT_MOST && go_on() {
        if Instant::now() >= next {
            next += AGAIN;
            for (at, port) in ports.iter_mut().enumerate() {
                let station = ends[at].station;
                port.send_one(&arp::question(station, station.ip))?;
                if let (None, Some(gateway)) = (to[at], ends[at].gateway) {
                    port.send_one(&arp::question(station, gateway))?;
                }
            }
            for &(from, other) in ways {
                if let Some(mac) = to[from]
                    && let Ok(mut frame) = udp_test(&flow(&ends[from], &ends[other], mac), Size::MIN)
                    && tag::write(&mut frame, Tag { stream, sequence: from as u32, sent_ps: 0 }).is_ok()
                {
                    ports[from].send_one(&frame)?;
                }
            }
        }
        for (at, port) in ports.iter_mut().enumerate() {
            let mut answers = Vec::new();
            port.receive(&mut |bytes| {
                if let Some(tag) = tag::read(bytes) {
                    if tag.stream == stream && tag.sequence as usize == 1 - at {
                        through[at] = true;
                    }
                } else {
                    answers.extend(arp::answer(ends[at].station, bytes));
                    to[at] = to[at].or_else(|| arp::said(bytes, ends[at].gateway?));
                }
            })?;
            for answer in answers {
                port.send_one(&answer)?;
            }
        }
        if ways.iter().all(|&(_, other)| through[other]) {
            // What else is under way, copies of a flood among it, arrives before the trial.
            std::thread::sleep(Duration::from_millis(20));
            for port in ports.iter_mut() {
                while port.receive(&mut |_| {})? > 0 {}
            }
            break;
        }
        std::thread::sleep(Duration::from_micros(200));
    }
    let known = [0, 1].map(|at| to[at].unwrap_or(ends[1 - at].station.mac));
    Ok((known, ways.iter().all(|&(_, other)| through[other])))
}
