//! An end of connections on a port: frames in, frames out, and the answers to address resolution.

use crate::connection::Output;
use crate::endpoint::Endpoint;
use crate::segment::{Refused, Segment, Sending};
use kpps_frames::ethernet::{self, TYPE_IPV4};
use kpps_platform::memory::BufferPool;
use kpps_platform::{Buffer, BufferSource};
use kpps_ports::port::run::BUDGET;
use kpps_ports::port::{AnyPort, Frame, Port, Trouble};
use kpps_tester::neighbours::{self, Station};
use kpps_tester::send_one;
use std::net::IpAddr;
use std::time::{Duration, Instant};

/// How long a full transmit queue is waited for. After that the segment is dropped here.
const FULL_TIMEOUT: Duration = Duration::from_secs(1);
/// How often an unanswered question for a station is repeated, and how long that may take (as before a trial;
/// RFC 2544 allows 2 s).
const AGAIN: Duration = Duration::from_millis(100);
const QUESTIONS: u32 = 20;

/// An end on a port.
pub struct End {
    /// Its station and addresses.
    pub station: Station,
    /// Its connections.
    pub endpoint: Endpoint,
    /// Segments that the port had no space for, or that were too long for a buffer.
    pub unsent: u64,
    /// Received segments with a wrong checksum or length.
    pub damaged: u64,
}

/// A port as the output of an end.
pub(crate) struct PortOutput<'p> {
    pub port: &'p mut AnyPort,
    pub pool: &'p mut BufferPool,
    pub unsent: &'p mut u64,
    pub station: Station,
    /// The error of a flush in the middle of sending, which the caller returns.
    pub trouble: Option<Trouble>,
}

impl Output for PortOutput<'_> {
    #[inline]
    fn send(&mut self, segment: &Sending<'_>) {
        let Some(mut buffer) = self.pool.take() else {
            *self.unsent += 1;
            return;
        };
        match segment.write(self.station.mac, buffer.bytes_mut()) {
            Some(bytes) => self.queue(Frame { buffer, bytes: bytes as u16 }),
            None => {
                *self.unsent += 1;
                self.pool.give(buffer);
            }
        }
    }
}

impl PortOutput<'_> {
    /// Queues a frame. A full queue is waited for, in which time nothing is received: the port's receive
    /// queue counts what it loses.
    #[inline]
    fn queue(&mut self, frame: Frame) {
        let Err(frame) = self.port.send(frame) else { return };
        self.wait_to_queue(frame);
    }

    #[cold]
    fn wait_to_queue(&mut self, mut frame: Frame) {
        let until = Instant::now() + FULL_TIMEOUT;
        loop {
            if let Err(trouble) = self.port.flush() {
                self.trouble = Some(trouble);
                break;
            }
            self.port.tx_space();
            match self.port.send(frame) {
                Ok(()) => return,
                Err(refused) => frame = refused,
            }
            if Instant::now() >= until {
                break;
            }
            std::hint::spin_loop();
        }
        *self.unsent += 1;
        self.pool.give(frame.buffer);
    }
}

impl End {
    /// An end with this station and these connections.
    pub const fn new(station: Station, endpoint: Endpoint) -> Self {
        Self { station, endpoint, unsent: 0, damaged: 0 }
    }

    /// Lets the end act with this port as its output.
    pub(crate) fn act<T>(
        &mut self,
        port: &mut AnyPort,
        pool: &mut BufferPool,
        act: impl FnOnce(&mut Endpoint, &mut PortOutput<'_>) -> T,
    ) -> Result<T, Trouble> {
        let station = self.station;
        let mut out = PortOutput { port, pool, unsent: &mut self.unsent, station, trouble: None };
        let result = act(&mut self.endpoint, &mut out);
        out.trouble.map_or(Ok(result), Err)
    }

    /// Takes at most [`BUDGET`] frames of the port, and returns their number.
    #[inline]
    pub(crate) fn take_in(
        &mut self,
        port: &mut AnyPort,
        pool: &mut BufferPool,
        burst: &mut Vec<Frame>,
        now_ns: u64,
    ) -> Result<usize, Trouble> {
        let taken = port.receive(BUDGET, |frame| {
            burst.push(frame);
            pool.take()
        })?;
        let (station, mut damaged) = (self.station, 0);
        for frame in burst.drain(..) {
            let bytes = frame.as_ref();
            if is_ipv4(bytes) {
                match Segment::read(bytes) {
                    // Frames for other stations arrive, too, and the kernel may take them.
                    Ok(segment) if is_for(&station, bytes, &segment) => {
                        self.act(port, pool, |end, out| end.receive(&segment, now_ns, out))?;
                    }
                    Ok(_) | Err(Refused::Other) => {}
                    Err(Refused::Damaged) => damaged += 1,
                }
            } else if let Some(answer) = neighbours::answer(&station, bytes) {
                send_one(port, &answer)?;
            }
            pool.give(frame.buffer);
        }
        self.damaged += damaged;
        Ok(taken)
    }
}

#[inline]
fn is_ipv4(frame: &[u8]) -> bool {
    frame.get(12..ethernet::HEADER_BYTES) == Some(&TYPE_IPV4.to_be_bytes())
}

#[inline]
fn is_for(station: &Station, frame: &[u8], segment: &Segment<'_>) -> bool {
    frame.get(..6) == Some(&station.mac.0) && station.ips.contains(segment.tuple.own.0.into())
}

/// Asks by the first port for the station of `next_hop`, and answers the questions of others meanwhile. Each
/// port has one of `stations`. Returns `None` if nobody answers in 2 s.
///
/// # Errors
/// [`Trouble`].
pub fn resolve(
    ports: &mut [AnyPort],
    stations: &[Station],
    next_hop: IpAddr,
    go_on: &dyn Fn() -> bool,
) -> Result<Option<kpps_frames::Mac>, Trouble> {
    let (Some(first), Some(asking)) = (ports.first_mut(), stations.first()) else { return Ok(None) };
    let mut pool = first.pool().clone();
    let question = neighbours::question(asking, next_hop);
    let mut burst = Vec::with_capacity(2 * BUDGET);
    for _ in 0..QUESTIONS {
        if let Some(first) = ports.first_mut() {
            send_one(first, &question)?;
        }
        let asked = Instant::now();
        while asked.elapsed() < AGAIN && go_on() {
            let mut taken = 0;
            for (number, (port, station)) in ports.iter_mut().zip(stations).enumerate() {
                taken += port.receive(BUDGET, |frame| {
                    burst.push(frame);
                    pool.take()
                })?;
                let mut found = None;
                for frame in burst.drain(..) {
                    if number == 0 {
                        found = found.or_else(|| neighbours::announced_mac(frame.as_ref(), next_hop));
                    }
                    if let Some(answer) = neighbours::answer(station, frame.as_ref()) {
                        send_one(port, &answer)?;
                    }
                    pool.give(frame.buffer);
                }
                if found.is_some() {
                    return Ok(found);
                }
            }
            if taken == 0 {
                std::thread::sleep(Duration::from_millis(1));
            }
        }
    }
    Ok(None)
}
