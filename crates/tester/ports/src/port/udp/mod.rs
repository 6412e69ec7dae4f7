//! A UDP socket as a port: for every user, on any system, without privileges.
//!
//! The payload of a frame is sent as a datagram. A received datagram is given headers, so that its tag is
//! where a test frame has it, and its size is that of its frame with Ethernet and IPv4. The addresses in
//! these headers are not real. Datagrams are never fragmented. They are never given to an interface as one
//! message: over a virtual link that would be one frame. Where the kernel cuts messages before the interface
//! (`tx-udp-segmentation` is off), datagrams pass the stack together, in a third of the time.

#[cfg(target_os = "linux")]
mod batch;
#[cfg(any(test, not(target_os = "linux")))]
mod single;

use super::{Counters, Descriptor, Frame, Link, NextPoll, Port, Trouble, Wake};
#[cfg(target_os = "linux")]
use batch as system;
use ipnet::IpNet;
use kpps_frames::build::{Flow, udp_test};
use kpps_frames::{Size, ipv4, ipv6, tag, udp};
use kpps_platform::memory::{BufferPool, PoolBuffer};
use kpps_platform::{Buffer, BufferSource};
#[cfg(not(target_os = "linux"))]
use single as system;
use std::io;
use std::net::{SocketAddr, ToSocketAddrs, UdpSocket};
use std::time::Instant;
use system::BATCH;

/// Bytes of the headers before a received datagram.
pub(super) const HEADERS: usize = tag::OFFSET;

/// A received datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Datagram {
    bytes: usize,
    /// When the kernel received it, in ns since 1970, if it says so.
    stamp: Option<u64>,
}

/// A UDP socket.
#[derive(Debug)]
pub struct UdpPort {
    socket: UdpSocket,
    /// The peer. A listening port takes the first sender, if that is in one of these networks.
    peer: Option<SocketAddr>,
    peers: Option<Vec<IpNet>>,
    /// Whether the kernel cuts messages into datagrams before the interface.
    cuts: bool,
    pool: BufferPool,
    /// Receive buffers.
    slots: Vec<PoolBuffer>,
    /// Filled receive buffers, while their frames are passed on.
    filled: Vec<PoolBuffer>,
    arrived: [Option<Datagram>; BATCH],
    /// Whether the kernel stamps datagrams; `None` until stamps are requested.
    stamps: Option<bool>,
    /// Headers of a frame with the length of the last one.
    headers: Vec<u8>,
    /// Queued frames, and where the payload of each begins.
    waiting: Vec<(Frame, usize)>,
    next_poll: NextPoll,
    epoch: Instant,
    counters: Counters,
}

impl UdpPort {
    /// A port that exchanges datagrams with `host`. With an empty host it listens, and answers the first
    /// sender.
    ///
    /// # Errors
    /// Errors of the system: no such host, the port is in use.
    pub fn open(host: &str, port: u16, pool: BufferPool) -> io::Result<Self> {
        let (socket, peer) = if host.is_empty() {
            (UdpSocket::bind(("0.0.0.0", port))?, None)
        } else {
            let peer = (host, port).to_socket_addrs()?.next().ok_or(io::ErrorKind::AddrNotAvailable)?;
            let any = if peer.is_ipv4() { "0.0.0.0" } else { "::" };
            let socket = UdpSocket::bind((any, 0))?;
            socket.connect(peer)?;
            (socket, Some(peer))
        };
        socket.set_nonblocking(true)?;
        system::prepare(&socket)?;
        Ok(Self {
            socket,
            cuts: peer.is_some_and(system::cuts),
            peer,
            peers: None,
            pool,
            slots: Vec::with_capacity(BATCH),
            filled: Vec::with_capacity(BATCH),
            arrived: [None; BATCH],
            stamps: None,
            headers: Vec::new(),
            waiting: Vec::with_capacity(BATCH),
            next_poll: NextPoll::Now,
            epoch: Instant::now(),
            counters: Counters::default(),
        })
    }

    /// From now on the port accepts only a peer in one of these networks. If another peer sends first, that
    /// is an error: a port sends to the address of the last sender, and the address of a datagram may be
    /// forged.
    pub fn meets_only(&mut self, networks: Vec<IpNet>) {
        self.peers = Some(networks);
    }

    /// The longest frame whose payload the path takes as one datagram, in bytes without FCS; `None` without a
    /// peer, or if the system does not report it.
    pub fn longest(&self) -> Option<usize> {
        let peer = self.peer?;
        let headers =
            udp::HEADER_BYTES + if peer.is_ipv4() { ipv4::HEADER_BYTES } else { ipv6::HEADER_BYTES };
        Some(system::path_mtu(&self.socket, peer)?.checked_sub(headers)? + HEADERS)
    }

    /// Gives a listening port its peer, once a datagram has come.
    fn meet(&mut self) -> io::Result<bool> {
        if self.peer.is_none() {
            match self.socket.peek_from(&mut [0]) {
                Ok((_, peer)) => {
                    let ip = peer.ip().to_canonical();
                    if self.peers.as_ref().is_some_and(|all| !all.iter().any(|network| network.contains(&ip)))
                    {
                        let why = format!(
                            "it received a datagram from {ip}, which is in none of the allowed networks"
                        );
                        return Err(io::Error::new(io::ErrorKind::PermissionDenied, why));
                    }
                    self.socket.connect(peer)?;
                    self.peer = Some(peer);
                    self.cuts = system::cuts(peer);
                }
                Err(error) if is_passing(&error) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(self.peer.is_some())
    }

    /// Writes headers before a datagram. Returns the length of the frame, if that is possible.
    fn complete(headers: &mut Vec<u8>, buffer: &mut PoolBuffer, datagram: usize) -> Option<u16> {
        let shortest = usize::from(Size::MIN.bytes_without_fcs());
        let bytes = (HEADERS + datagram).max(shortest);
        let place = buffer.bytes_mut().get_mut(..bytes)?;
        if headers.len() != bytes {
            *headers = udp_test(&Flow::default(), Size::without_fcs(u16::try_from(bytes).ok()?)).ok()?;
        }
        place[..HEADERS].copy_from_slice(headers.get(..HEADERS)?);
        place[HEADERS + datagram..].fill(0);
        u16::try_from(bytes).ok()
    }
}

/// No datagram has arrived yet, or an earlier datagram was refused, which says nothing about the next one.
fn is_passing(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionRefused, ConnectionReset, Interrupted, WouldBlock};
    matches!(error.kind(), WouldBlock | Interrupted | ConnectionRefused | ConnectionReset)
}

impl Wake for UdpPort {
    #[inline]
    fn next_poll(&self) -> NextPoll {
        self.next_poll
    }
    fn now_ns(&self) -> u64 {
        self.epoch.elapsed().as_nanos() as u64
    }
    fn fd(&self) -> Option<Descriptor<'_>> {
        #[cfg(unix)]
        use std::os::fd::AsFd;
        #[cfg(windows)]
        use std::os::windows::io::AsSocket;
        #[cfg(unix)]
        return Some(self.socket.as_fd());
        #[cfg(windows)]
        return Some(self.socket.as_socket());
    }
    fn wants_to_send(&self) -> bool {
        !self.waiting.is_empty() && self.peer.is_some()
    }
}

impl UdpPort {
    /// Receives datagrams, with the kernel's times if it has them.
    fn take_in(
        &mut self,
        budget: usize,
        mut sink: impl FnMut(Frame, Option<u64>) -> Option<PoolBuffer>,
    ) -> Result<usize, Trouble> {
        let limit = budget.min(BATCH);
        while self.slots.len() < limit {
            let Some(buffer) = self.pool.take() else { break };
            self.slots.push(buffer);
        }
        let limit = limit.min(self.slots.len());
        self.counters.system_calls += 1;
        let result = self.meet().and_then(|met| match met {
            true => {
                let stamped = self.stamps == Some(true);
                system::receive(&self.socket, &mut self.slots[..limit], &mut self.arrived, stamped)
            }
            false => Ok(0),
        });
        let count = match result {
            Ok(count) => count,
            Err(error) if is_passing(&error) => 0,
            Err(error) => return Err(Trouble::system("cannot receive")(error)),
        };
        self.next_poll = if count < limit { NextPoll::Asleep } else { NextPoll::Now };
        let mut taken = 0;
        let Self { slots, filled, arrived, headers, counters, .. } = self;
        filled.extend(slots.drain(..count));
        for (mut buffer, datagram) in filled.drain(..).zip(arrived.iter()) {
            let complete = |it: &Datagram| Some((Self::complete(headers, &mut buffer, it.bytes)?, it.stamp));
            let Some((bytes, stamp)) = datagram.as_ref().and_then(complete) else {
                counters.errors += 1;
                slots.push(buffer);
                continue;
            };
            taken += 1;
            counters.received += 1;
            counters.received_bytes += u64::from(bytes);
            slots.extend(sink(Frame { buffer, bytes }, stamp));
        }
        Ok(taken)
    }
}

impl Port for UdpPort {
    fn receive(
        &mut self,
        budget: usize,
        mut sink: impl FnMut(Frame) -> Option<PoolBuffer>,
    ) -> Result<usize, Trouble> {
        self.take_in(budget, |frame, _| sink(frame))
    }

    /// From the first call on the kernel stamps datagrams.
    fn receive_stamped(
        &mut self,
        budget: usize,
        sink: impl FnMut(Frame, Option<u64>) -> Option<PoolBuffer>,
    ) -> Result<usize, Trouble> {
        let Self { stamps, socket, .. } = self;
        stamps.get_or_insert_with(|| system::stamp(socket).is_ok());
        self.take_in(budget, sink)
    }

    #[inline]
    fn send(&mut self, frame: Frame) -> Result<(), Frame> {
        if self.waiting.len() == BATCH {
            self.counters.full += 1;
            return Err(frame);
        }
        let start = tag::offset(frame.as_ref());
        if start > frame.as_ref().len() {
            self.counters.tx_dropped += 1;
            self.pool.give(frame.buffer);
        } else {
            self.waiting.push((frame, start));
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<(), Trouble> {
        if self.waiting.is_empty() || !self.meet().map_err(Trouble::system("cannot send"))? {
            return Ok(());
        }
        let mut gone = 0;
        // A refusal is of an earlier datagram. Each is reported once.
        let mut refusals = 0;
        while let Some(left) = self.waiting.get(gone..).filter(|left| !left.is_empty()) {
            self.counters.system_calls += 1;
            match system::send(&self.socket, left, self.cuts) {
                Ok(count) => {
                    let bytes = left.iter().take(count).map(|(frame, _)| u64::from(frame.bytes));
                    self.counters.sent_bytes += bytes.sum::<u64>();
                    self.counters.sent += count as u64;
                    gone += count;
                }
                Err(error) if is_passing(&error) && error.kind() != io::ErrorKind::WouldBlock => {
                    refusals += 1;
                    if refusals > BATCH {
                        break;
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                // This path does not allow messages, or one of the datagrams is at fault, which shows when
                // they are sent singly.
                Err(_) if self.cuts => self.cuts = false,
                // It is too long for the path, or there is no route: this one is lost.
                Err(error) if is_lost(&error) => {
                    self.counters.tx_dropped += 1;
                    gone += 1;
                }
                Err(error) => return Err(Trouble::system("cannot send")(error)),
            }
        }
        for (frame, _) in self.waiting.drain(..gone) {
            self.pool.give(frame.buffer);
        }
        Ok(())
    }

    #[inline]
    fn tx_space(&mut self) -> usize {
        BATCH - self.waiting.len()
    }

    fn in_flight(&mut self) -> usize {
        self.waiting.len()
    }

    fn woken(&mut self) -> Result<(), Trouble> {
        self.next_poll = NextPoll::Now;
        Ok(())
    }

    fn maintain(&mut self) -> Result<(), Trouble> {
        Ok(())
    }

    fn counters(&mut self) -> Result<Counters, Trouble> {
        Ok(Counters { missed: system::dropped(&self.socket), ..self.counters })
    }

    fn frames(&self) -> (u64, u64) {
        (self.counters.received, self.counters.sent)
    }

    fn refresh_link(&mut self) -> Result<(), Trouble> {
        Ok(())
    }

    fn link(&self) -> Link {
        Link { up: true, speed_mbps: None }
    }

    fn pool(&mut self) -> &mut BufferPool {
        &mut self.pool
    }
}

/// Whether an error concerns one datagram only.
fn is_lost(error: &io::Error) -> bool {
    use io::ErrorKind::{HostUnreachable, InvalidInput, NetworkDown, NetworkUnreachable};
    system::is_refused(error)
        || matches!(error.kind(), HostUnreachable | InvalidInput | NetworkDown | NetworkUnreachable)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use kpps_frames::Tag;
    use kpps_platform::memory::Memory;

    fn pool() -> BufferPool {
        Memory::private(4 << 20).unwrap().pool(600, 2048, None).unwrap()
    }

    fn frame(pool: &mut BufferPool, bytes: usize, sequence: u64) -> (Frame, Vec<u8>) {
        let mut content = udp_test(&Flow::default(), Size::without_fcs(bytes as u16)).unwrap();
        tag::write(&mut content, Tag { stream: 1, sequence, sent_ps: 5 }).unwrap();
        let mut buffer = pool.take().unwrap();
        buffer.bytes_mut()[..bytes].copy_from_slice(&content);
        (Frame { buffer, bytes: bytes as u16 }, content)
    }

    /// A listening port and a port that sends to it.
    fn pair() -> (UdpPort, UdpPort) {
        let listening = UdpPort::open("", 0, pool()).unwrap();
        let port = listening.socket.local_addr().unwrap().port();
        (UdpPort::open("127.0.0.1", port, pool()).unwrap(), listening)
    }

    #[test]
    fn a_port_meets_only_whom_it_may() {
        let (mut sending, mut listening) = pair();
        listening.meets_only(vec!["198.18.0.0/15".parse().unwrap()]);
        let (first, _) = frame(&mut sending.pool.clone(), 60, 1);
        sending.send(first).unwrap();
        sending.flush().unwrap();
        let end = Instant::now() + std::time::Duration::from_secs(10);
        let trouble = loop {
            match listening.receive(1, |frame| Some(frame.buffer)) {
                Err(trouble) => break trouble.to_string(),
                Ok(taken) => assert!(taken == 0 && Instant::now() < end, "{taken}"),
            }
        };
        assert!(trouble.contains("127.0.0.1, which is in none of the allowed networks"), "{trouble}");
        listening.meets_only(vec!["127.0.0.0/8".parse().unwrap()]);
        assert!(!next(&mut listening).is_empty());
    }

    fn next(port: &mut UdpPort) -> Vec<u8> {
        let end = Instant::now() + std::time::Duration::from_secs(60);
        let mut found = None;
        while found.is_none() && Instant::now() < end {
            port.receive(1, |frame| {
                found = Some(frame.as_ref().to_vec());
                Some(frame.buffer)
            })
            .unwrap();
        }
        found.unwrap()
    }

    #[test]
    fn frames_arrive_unchanged_and_are_answered() {
        let (mut near, mut far) = pair();
        for (sequence, bytes) in (60..1400).step_by(33).enumerate() {
            let (frame, content) = frame(&mut pool(), bytes, sequence as u64);
            near.send(frame).unwrap();
            near.flush().unwrap();
            assert_eq!(next(&mut far), content);
        }
        let (frame, content) = frame(&mut pool(), 60, 99);
        far.send(frame).unwrap();
        far.flush().unwrap();
        assert_eq!(next(&mut near), content);
        let (sent, received) = (near.counters().unwrap(), far.counters().unwrap());
        assert_eq!((sent.sent, sent.sent_bytes), (received.received, received.received_bytes));
        // Linux counts what a full socket drops, and no system has a card's counters of it.
        let counted = if cfg!(target_os = "linux") { Some(0) } else { None };
        assert_eq!((received.missed, received.no_buffer), (counted, None));
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn the_kernel_says_when_datagrams_came_once_somebody_asks() {
        let (mut near, mut far) = pair();
        let now = || std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap().as_nanos() as u64;
        let mut next = |far: &mut UdpPort| {
            let before = now();
            near.send(frame(&mut pool(), 64, 1).0).unwrap();
            near.flush().unwrap();
            let sent = now();
            // A receiver that does not run.
            std::thread::sleep(std::time::Duration::from_millis(20));
            let mut stamps = Vec::new();
            let mut keep = |frame: Frame, stamp| {
                stamps.push(stamp);
                Some(frame.buffer)
            };
            far.receive_stamped(4, &mut keep).unwrap();
            (before, sent, stamps)
        };
        // The kernel begins to stamp some time after the request; until then it is the time of reading.
        let end = Instant::now() + std::time::Duration::from_secs(60);
        loop {
            let (before, sent, stamps) = next(&mut far);
            let [Some(stamp)] = stamps[..] else { panic!("{stamps:?}") };
            assert!(stamp >= before && stamp <= now(), "{before} {stamp}");
            if stamp <= sent + 10_000_000 {
                break;
            }
            assert!(Instant::now() < end, "{before} {sent} {stamp}");
        }
    }

    #[test]
    fn short_datagrams_are_filled_up_and_long_ones_refused() {
        let (near, mut far) = pair();
        near.socket.send(&[7]).unwrap();
        let short = next(&mut far);
        assert_eq!((short.len(), short[HEADERS], &short[HEADERS + 1..]), (60, 7, &[0; 17][..]));
        // Longer than a buffer: not passed on.
        near.socket.send(&[1; 4000]).unwrap();
        near.socket.send(&[2; 18]).unwrap();
        assert_eq!(next(&mut far)[HEADERS], 2);
        assert_eq!(far.counters().unwrap().errors, 1);
    }

    #[test]
    fn nobody_there_is_no_trouble() {
        let (mut near, far) = pair();
        drop(far);
        for sequence in 0..100 {
            near.send(frame(&mut pool(), 60, sequence).0).unwrap();
            near.flush().unwrap();
            near.receive(1, |frame| Some(frame.buffer)).unwrap();
        }
        assert_eq!(near.counters().unwrap().sent, 100);
    }

    /// The code for other systems behaves the same.
    #[test]
    fn one_at_a_time_does_the_same() {
        let (near, far) = pair();
        let (mut near_pool, mut far_pool) = (pool(), pool());
        let frames: Vec<_> =
            (0..5).map(|sequence| (frame(&mut near_pool, 64, sequence).0, HEADERS)).collect();
        single::prepare(&near.socket).unwrap();
        assert_eq!(single::send(&near.socket, &frames, false).unwrap(), 5);
        far.socket.set_nonblocking(false).unwrap();
        let mut buffers: Vec<_> = (0..5).map(|_| far_pool.take().unwrap()).collect();
        let mut arrived = [None; BATCH];
        assert_eq!(single::receive(&far.socket, &mut buffers, &mut arrived, false).unwrap(), 5);
        assert!(arrived[..5].iter().all(|it| *it == Some(Datagram { bytes: 64 - HEADERS, stamp: None })));
        assert!(single::stamp(&far.socket).is_err());
        assert_eq!(single::dropped(&far.socket), None);
        assert!(!single::cuts(far.socket.local_addr().unwrap()));
        for (buffer, (frame, start)) in buffers.iter().zip(&frames) {
            assert_eq!(buffer.bytes()[HEADERS..64], frame.as_ref()[*start..]);
        }
    }
}
