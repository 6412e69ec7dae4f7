//! An end station at the other end of a guest's cable: services for any driver's first steps, stimuli, and a
//! record of everything that the guest sent.
//!
//! - Services, always on: ARP, ICMP echo, UDP echo (ports 7 and 7007), DHCP, TFTP, HTTP (ports 80 and 8080).
//! - Stimuli, which the caller starts. Each is a state machine; its result can be read at any time.
//! - [`Seen`]: counts of what the guest did, each with the time of the first occurrence.
//!
//! The responder is a state machine in the cards' time. It has no clock, thread, socket or file. Its network
//! is 10.0.2.0/24, as QEMU's user network: it is 10.0.2.2, and the guest gets 10.0.2.15.
//!
//! The guest may be hostile. The responder's memory is bounded: a queue of [`MOST_QUEUED`] frames, 16
//! transfers of TFTP and 12 connections of HTTP. So is the work for a frame.
//!
//! smoltcp does the work of TCP only. The other services answer to the station that a frame came from, so no
//! answer waits for ARP; a stack would ask first, and a DHCP client without an address could not answer.

mod content;
mod dhcp;
mod disturb;
mod echo;
mod http;
mod overrun;
mod path;
mod probe;
mod resolve;
mod seen;
mod stimuli;
mod tcp;
mod tftp;
mod wire;

pub use disturb::{Disturbance, Disturbed};
pub use echo::{EchoPlan, Echoed, RoundTrips};
pub use overrun::Overrun;
pub(crate) use path::SECOND_PS;
pub use probe::{Gap, ProbeBy, Probed};
pub use resolve::Resolved;
pub use seen::{Event, Protocol, Seen};
pub use wire::Malformed;

use crate::cards::{Coming, Partner};
use echo::{Echo, Over};
use kpps_frames::{Mac, arp, ethernet, icmp};
use path::{Answer, Path};
use std::collections::VecDeque;
use std::net::Ipv4Addr;
use std::sync::{Arc, Mutex, PoisonError};
use stimuli::Stimuli;
use wire::{Contents, Datagram, End, Received};

/// The most frames that wait for the wire to the guest.
pub const MOST_QUEUED: usize = 4096;
/// TCP sends nothing of itself while at least this number of frames waits.
const TCP_QUEUED: usize = 128;
/// The shortest time between two calls of [`Partner::next`] without a frame, in ps.
const REST_PS: u64 = 10_000_000;
/// The ports of the UDP echo service: that of RFC 862, and one that needs no privilege on a guest.
const ECHO_PORTS: [u16; 2] = [7, 7007];
/// The first UDP port of stimuli, and their number. No service has one of them.
const FIRST_STIMULUS_PORT: u16 = 60_000;
const STIMULUS_PORTS: u16 = 5_000;
/// The first ICMP identifier of stimuli. Each start has an identifier of its own.
const FIRST_ID: u16 = 0x6b00;

/// The addresses and the file of a responder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// The responder's station address.
    pub mac: Mac,
    /// The responder's IPv4 address.
    pub ip: Ipv4Addr,
    /// The address that DHCP gives to the guest. Stimuli use it, too, until the guest shows another one.
    pub guest: Ipv4Addr,
    /// Whether stimuli use the last address with which the guest sent ARP or IPv4. Otherwise they use
    /// `guest` only.
    pub learns: bool,
    /// The size of the file of TFTP and HTTP in bytes. All names are names of this file.
    pub file_bytes: u64,
    /// The name of the boot file in DHCP, at most 127 bytes; empty: no file is offered. iPXE also takes the
    /// URL of a file.
    pub boot_file: String,
}

impl Default for Options {
    /// The addresses of QEMU's user network, and a file of 1 MiB.
    fn default() -> Self {
        Self {
            mac: Mac([0x52, 0x55, 10, 0, 2, 2]),
            ip: Ipv4Addr::new(10, 0, 2, 2),
            guest: Ipv4Addr::new(10, 0, 2, 15),
            learns: true,
            file_bytes: 1 << 20,
            boot_file: "kpps.bin".into(),
        }
    }
}

/// Options with which there can be no responder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BadOptions {
    /// The addresses cannot be those of two stations on one cable.
    Addresses,
    /// The name of the boot file is too long.
    BootFile,
}

impl std::fmt::Display for BadOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Addresses => {
                "the addresses must be unicast, different, and of one network with a prefix of 24 bits"
            }
            Self::BootFile => "the name of the boot file must have at most 127 bytes",
        })
    }
}

impl std::error::Error for BadOptions {}

/// The addresses of a guest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Guest {
    /// The source of its last frame; `None` before the first one.
    pub mac: Option<Mac>,
    /// Its IPv4 address, as far as it is known.
    pub ip: Ipv4Addr,
    /// Whether the guest itself has used this address, or has accepted it by DHCP.
    pub is_used: bool,
}

/// The end station. All times are in ps of the cards' clock.
pub struct Responder {
    own: End,
    learns: bool,
    guest: Guest,
    /// The greatest time so far.
    now_ps: u64,
    due_ps: u64,
    queue: VecDeque<Vec<u8>>,
    tcp: tcp::Stack,
    dhcp: dhcp::Server,
    tftp: tftp::Server,
    stimuli: Stimuli,
    /// Started stimuli.
    starts: u16,
    /// Sent IPv4 packets.
    packets: u16,
    seen: Seen,
}

/// Whether an address can be that of one station.
fn is_unicast(ip: Ipv4Addr) -> bool {
    !(ip.is_unspecified() || ip.is_broadcast() || ip.is_multicast() || ip.is_loopback())
}

impl Responder {
    /// A responder that has seen nothing yet.
    ///
    /// # Errors
    /// [`BadOptions`].
    pub fn new(options: Options) -> Result<Self, BadOptions> {
        let own = End { mac: options.mac, ip: options.ip };
        let host = |ip: Ipv4Addr| ip.octets()[3];
        let network = |ip: Ipv4Addr| ip & dhcp::MASK;
        let is_good =
            [own.ip, options.guest].iter().all(|ip| is_unicast(*ip) && (1..255).contains(&host(*ip)))
                && network(own.ip) == network(options.guest)
                && own.ip != options.guest
                && !own.mac.is_multicast();
        if !is_good {
            return Err(BadOptions::Addresses);
        }
        if options.boot_file.len() > dhcp::MOST_NAME_BYTES {
            return Err(BadOptions::BootFile);
        }
        let (guest, boot_file) = (options.guest, options.boot_file);
        Ok(Self {
            own,
            learns: options.learns,
            guest: Guest { mac: None, ip: guest, is_used: false },
            now_ps: 0,
            due_ps: u64::MAX,
            queue: VecDeque::new(),
            tcp: tcp::Stack::new(own, options.file_bytes),
            dhcp: dhcp::Server { own: own.ip, guest, boot_file },
            tftp: tftp::Server::new(options.file_bytes),
            stimuli: Stimuli::default(),
            starts: 0,
            packets: 0,
            seen: Seen::default(),
        })
    }

    /// The record of everything that the guest did.
    pub fn seen(&self) -> &Seen {
        &self.seen
    }

    /// The guest's addresses as far as they are known.
    pub fn guest(&self) -> Guest {
        self.guest
    }

    // ---- Stimuli ----

    /// Starts ARP requests for the guest's address: one every second until it answers.
    pub fn start_arp(&mut self, now_ps: u64) {
        let now_ps = self.start(now_ps);
        self.stimuli.resolve = Some(resolve::Resolve::new(now_ps));
        self.plan(false);
    }

    /// The result of the last ARP requests; `None` if there were none.
    pub fn arp(&self) -> Option<Resolved> {
        self.stimuli.resolve.as_ref().map(resolve::Resolve::result)
    }

    /// Starts ICMP echo requests; [`EchoPlan::ping`] are slow ones. They run beside those of a flood.
    pub fn start_ping(&mut self, now_ps: u64, plan: EchoPlan) {
        let now_ps = self.start(now_ps);
        self.stimuli.ping = Some(Echo::new(now_ps, Over::Icmp(self.id()), plan));
        self.plan(false);
    }

    /// The result of the last ping; `None` if there was none.
    pub fn ping(&self) -> Option<Echoed> {
        self.stimuli.ping.as_ref().map(Echo::result)
    }

    /// Starts ICMP echo requests; [`EchoPlan::flood`] are fast ones.
    pub fn start_flood(&mut self, now_ps: u64, plan: EchoPlan) {
        let now_ps = self.start(now_ps);
        self.stimuli.flood = Some(Echo::new(now_ps, Over::Icmp(self.id()), plan));
        self.plan(false);
    }

    /// The result of the last flood; `None` if there was none.
    pub fn flood(&self) -> Option<Echoed> {
        self.stimuli.flood.as_ref().map(Echo::result)
    }

    /// Starts echo requests to UDP port 7 of the guest.
    pub fn start_udp(&mut self, now_ps: u64, plan: EchoPlan) {
        let now_ps = self.start(now_ps);
        let port = FIRST_STIMULUS_PORT + self.starts % STIMULUS_PORTS;
        self.stimuli.udp = Some(Echo::new(now_ps, Over::Udp(port), plan));
        self.plan(false);
    }

    /// The result of the last echo requests over UDP; `None` if there were none.
    pub fn udp(&self) -> Option<Echoed> {
        self.stimuli.udp.as_ref().map(Echo::result)
    }

    /// Starts a burst of `count` frames, back to back.
    pub fn start_overrun(&mut self, now_ps: u64, count: u32) {
        let now_ps = self.start(now_ps);
        self.stimuli.burst = Some(overrun::Burst::new(now_ps, self.id(), count));
        self.plan(false);
    }

    /// The result of the last burst; `None` if there was none.
    pub fn overrun(&self) -> Option<Overrun> {
        self.stimuli.burst.as_ref().map(overrun::Burst::result)
    }

    /// Starts frames that the guest should drop, or bear, for `ps`.
    pub fn start_disturbance(&mut self, now_ps: u64, kind: Disturbance, ps: u64) {
        let now_ps = self.start(now_ps);
        self.stimuli.disturb = Some(disturb::Disturb::new(now_ps, self.id(), kind, ps));
        self.plan(false);
    }

    /// The result of the last disturbance; `None` if there was none.
    pub fn disturbance(&self) -> Option<Disturbed> {
        self.stimuli.disturb.as_ref().map(disturb::Disturb::result)
    }

    /// Starts a request every 100 ms, until [`stop_probe`](Self::stop_probe).
    pub fn start_probe(&mut self, now_ps: u64, by: ProbeBy) {
        let now_ps = self.start(now_ps);
        self.stimuli.probe = Some(probe::Probe::new(now_ps, self.id(), by));
        self.plan(false);
    }

    /// Ends the probe; its result stays.
    pub fn stop_probe(&mut self, now_ps: u64) {
        self.now_ps = self.now_ps.max(now_ps);
        if let Some(probe) = &mut self.stimuli.probe {
            probe.stop(self.now_ps);
        }
        self.plan(false);
    }

    /// The result of the last probe at `now_ps`; `None` if there was none.
    pub fn probe(&self, now_ps: u64) -> Option<Probed> {
        self.stimuli.probe.as_ref().map(|probe| probe.result(self.now_ps.max(now_ps)))
    }

    /// Counts a start. The result is its time: time never decreases.
    fn start(&mut self, now_ps: u64) -> u64 {
        self.starts = self.starts.wrapping_add(1);
        self.now_ps = self.now_ps.max(now_ps);
        self.now_ps
    }

    /// The ICMP identifier of the last start.
    fn id(&self) -> u16 {
        FIRST_ID.wrapping_add(self.starts)
    }

    fn path(&self) -> Path {
        Path { own: self.own, guest: self.guest.ip, mac: self.guest.mac }
    }

    // ---- Frames of the guest ----

    /// Learns the guest's addresses.
    fn learn(&mut self, received: &Received<'_>) {
        let ip = match received.contents {
            Contents::Malformed(_) => return,
            Contents::Arp(message) => Some(message.sender),
            _ => received.ip.map(|[source, _]| source),
        };
        if received.from == self.own.mac {
            return;
        }
        self.guest.mac = Some(received.from);
        if let Some(ip) = ip.filter(|ip| self.learns && is_unicast(*ip) && *ip != self.own.ip) {
            self.guest.ip = ip;
            self.guest.is_used = true;
        }
    }

    /// Counts a frame that is neither damaged nor too short or too long.
    fn count(&mut self, contents: &Contents<'_>) {
        let now_ps = self.now_ps;
        self.seen.protocols.entry(Protocol::of(contents)).or_default().at(now_ps);
        match contents {
            Contents::Malformed(fault) => {
                self.seen.malformed.at(now_ps);
                self.seen.faults.entry(*fault).or_default().at(now_ps);
            }
            Contents::Arp(message) if message.is_request() => self.seen.arp_requests.at(now_ps),
            Contents::Arp(_) => self.seen.arp_replies.at(now_ps),
            _ => {}
        }
    }

    /// Answers a frame, or gives it to the stimulus that it answers.
    fn serve(&mut self, received: &Received<'_>, frame: &[u8]) {
        let now_ps = self.now_ps;
        let is_mine = received.to == self.own.mac;
        if !is_mine && received.to != Mac::BROADCAST {
            return;
        }
        if let Contents::Arp(message) = received.contents {
            self.serve_arp(&message);
            return;
        }
        let Some([source, destination]) = received.ip else { return };
        let from = End { mac: received.from, ip: source };
        let is_to_server = destination == self.own.ip || destination.is_broadcast();
        if let Contents::Udp { ports: [_, dhcp::SERVER_PORT], data } = received.contents
            && is_to_server
        {
            self.serve_dhcp(data);
            return;
        }
        if !is_mine || destination != self.own.ip || !is_unicast(source) || source == self.own.ip {
            return;
        }
        match received.contents {
            Contents::Echo { id, data } => {
                self.seen.pings.at(now_ps);
                self.push(wire::echo(self.own, from, icmp::ECHO_REPLY, id, data));
            }
            Contents::EchoReply { id, data } => self.stimuli.take(now_ps, &Answer::Echo { id, data }),
            Contents::Udp { ports, data } => self.serve_udp(from, ports, data),
            Contents::Tcp => {
                self.tcp.take(
                    now_ps,
                    from,
                    frame,
                    TCP_QUEUED.saturating_sub(self.queue.len()),
                    &mut self.seen,
                );
                self.push_segments();
            }
            _ => {}
        }
    }

    fn serve_arp(&mut self, message: &arp::Message) {
        if message.sender_mac.is_multicast() || message.sender == self.own.ip {
            return;
        }
        if message.is_request() && message.target == self.own.ip {
            self.push(wire::arp(message.sender_mac, &message.reply(self.own.mac)));
        } else if !message.is_request() && message.sender == self.guest.ip {
            self.stimuli.take(self.now_ps, &Answer::Arp(message.sender_mac));
        }
    }

    fn serve_dhcp(&mut self, data: &[u8]) {
        let Some(answer) = self.dhcp.answer(self.now_ps, data, &mut self.seen) else { return };
        if answer.lease.is_some() {
            self.guest = Guest { mac: answer.lease, ip: self.dhcp.guest, is_used: true };
        }
        self.send(&answer.datagram);
    }

    fn serve_udp(&mut self, from: End, ports: [u16; 2], data: &[u8]) {
        let [source, destination] = ports;
        if ECHO_PORTS.contains(&destination) {
            self.seen.udp_echoes.at(self.now_ps);
            // Two echo services would never stop.
            if !ECHO_PORTS.contains(&source) {
                self.send(&Datagram { to: from, ports: [destination, source], data: data.to_vec() });
            }
        } else if tftp::Server::has_port(destination) {
            if let Some(packet) = self.tftp.take(self.now_ps, from, ports, data, &mut self.seen) {
                self.send(&packet);
            }
        } else if destination >= FIRST_STIMULUS_PORT {
            self.stimuli.take(self.now_ps, &Answer::Udp { ports, data });
        }
    }

    // ---- Frames to the guest ----

    fn send(&mut self, datagram: &Datagram) {
        self.push(wire::udp(self.own, datagram));
    }

    /// Queues a frame if there is room. A frame that could not be built for its length is none.
    fn push(&mut self, frame: Option<Vec<u8>>) {
        let Some(frame) = frame else { return };
        if self.queue.len() < MOST_QUEUED {
            self.queue.push_back(frame);
        } else {
            self.seen.overflow.at(self.now_ps);
        }
    }

    fn push_segments(&mut self) {
        while let Some(frame) = self.tcp.pop() {
            self.push(Some(frame));
        }
    }

    /// Runs the services' timers.
    fn run_timers(&mut self) {
        let now_ps = self.now_ps;
        if self.tcp.due_ps() <= now_ps {
            self.tcp.run(now_ps, TCP_QUEUED.saturating_sub(self.queue.len()), &mut self.seen);
            self.push_segments();
        }
        if self.tftp.due_ps() <= now_ps {
            for packet in self.tftp.repeat(now_ps, &mut self.seen) {
                self.send(&packet);
            }
        }
    }

    /// Sets when the next frame may be due. If none was due now, that is later.
    fn plan(&mut self, is_idle: bool) {
        let least_ps = if is_idle { self.now_ps.saturating_add(REST_PS) } else { self.now_ps };
        let due_ps = match self.queue.is_empty() {
            true => self.tcp.due_ps().min(self.tftp.due_ps()).min(self.stimuli.due_ps()),
            false => self.now_ps,
        };
        self.due_ps = due_ps.max(least_ps);
    }
}

impl Partner for Responder {
    fn take(&mut self, now_ps: u64, frame: &[u8], good_fcs: bool) {
        self.now_ps = self.now_ps.max(now_ps);
        let now_ps = self.now_ps;
        if !good_fcs {
            self.seen.bad_fcs.at(now_ps);
            return;
        }
        self.seen.frames.at(now_ps);
        self.seen.bytes = self.seen.bytes.saturating_add(frame.len() as u64);
        let is_tagged = frame.get(12..14) == Some(&ethernet::TYPE_VLAN.to_be_bytes()[..]);
        if frame.len() < wire::LEAST_BYTES {
            self.seen.runts.at(now_ps);
            return;
        }
        if frame.len() > wire::MOST_BYTES + if is_tagged { ethernet::VLAN_BYTES } else { 0 } {
            self.seen.oversized.at(now_ps);
            return;
        }
        let Some(received) = Received::read(frame) else { return };
        self.count(&received.contents);
        self.learn(&received);
        self.serve(&received, frame);
        self.plan(false);
    }

    fn next(&mut self, now_ps: u64) -> Option<Coming> {
        self.now_ps = self.now_ps.max(now_ps);
        self.run_timers();
        let path = self.path();
        let queued = self.queue.pop_front().map(|frame| Coming { frame, good_fcs: true });
        let mut coming = queued.or_else(|| self.stimuli.next(self.now_ps, &path));
        if let Some(Coming { frame, .. }) = &mut coming {
            self.packets = self.packets.wrapping_add(1);
            wire::identify(frame, self.packets);
        }
        self.plan(coming.is_none());
        coming
    }

    fn due_ps(&self) -> u64 {
        self.due_ps
    }
}

/// A responder that its cards and the caller share. No call blocks while it has the responder.
///
/// Within [`Server::with`](crate::Server::with) the cards' time is known, and the cards notice a new due
/// time at once. The cards call the responder, so a caller that has the responder must not call the cards.
#[derive(Clone)]
pub struct Handle(Arc<Mutex<Responder>>);

impl Handle {
    /// Shares a responder.
    pub fn new(responder: Responder) -> Self {
        Self(Arc::new(Mutex::new(responder)))
    }

    /// Does something with the responder. It must not block.
    pub fn with<T>(&self, what: impl FnOnce(&mut Responder) -> T) -> T {
        what(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Partner for Handle {
    fn take(&mut self, now_ps: u64, frame: &[u8], good_fcs: bool) {
        self.with(|responder| responder.take(now_ps, frame, good_fcs));
    }

    fn next(&mut self, now_ps: u64) -> Option<Coming> {
        self.with(|responder| responder.next(now_ps))
    }

    fn due_ps(&self) -> u64 {
        self.with(|responder| responder.due_ps)
    }
}

#[cfg(test)]
pub(crate) mod tests;
