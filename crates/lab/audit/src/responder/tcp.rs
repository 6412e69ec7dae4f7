//! The TCP of the responder: smoltcp, with the HTTP server at two ports.
//!
//! smoltcp gets TCP segments only. It asks for no station address, because each segment is preceded by an
//! ARP reply in the name of its sender: an answer goes where the segment came from.

use super::http::Exchange;
use super::seen::Seen;
use super::wire::{self, End, LEAST_BYTES, MOST_BYTES};
use kpps_frames::arp;
use smoltcp::iface::{Config, Interface, SocketHandle, SocketSet};
use smoltcp::phy::{Device, DeviceCapabilities, Medium, RxToken, TxToken};
use smoltcp::socket::tcp::{Socket, SocketBuffer, State};
use smoltcp::time::{Duration, Instant};
use smoltcp::wire::{EthernetAddress, HardwareAddress, IpCidr};
use std::collections::VecDeque;

/// The ports of HTTP.
const PORTS: [u16; 2] = [80, 8080];
/// Connections at once at each port.
const CONNECTIONS: usize = 6;
/// Bytes of the buffers of a connection.
const RECEIVE_BYTES: usize = 4 << 10;
const SEND_BYTES: usize = 32 << 10;
/// How long a connection may be silent.
const SILENCE: Duration = Duration::from_secs(30);
/// A microsecond, the unit of smoltcp's clock, in ps.
const US_PS: u64 = 1_000_000;
/// The least time from a call that sent nothing to the next one, in ps.
const PAUSE_PS: u64 = 1_000 * US_PS;
/// The prefix length of the network.
const PREFIX: u8 = 24;
/// The seed of sequence numbers: each run has the same ones.
const SEED: u64 = 0x6b70_7073;

/// The cable, as smoltcp's device.
#[derive(Default)]
struct Cable {
    arrived: VecDeque<Vec<u8>>,
    sent: VecDeque<Vec<u8>>,
    /// Frames that smoltcp may still send of itself. An answer to a frame needs no room.
    room: usize,
}

struct Received(Vec<u8>);
struct Space<'a>(&'a mut VecDeque<Vec<u8>>);

impl RxToken for Received {
    fn consume<R, F: FnOnce(&[u8]) -> R>(self, look: F) -> R {
        look(&self.0)
    }
}

impl TxToken for Space<'_> {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, bytes: usize, write: F) -> R {
        let mut frame = vec![0; bytes];
        let result = write(&mut frame);
        frame.resize(bytes.max(LEAST_BYTES), 0);
        self.0.push_back(frame);
        result
    }
}

impl Device for Cable {
    type RxToken<'a> = Received;
    type TxToken<'a> = Space<'a>;

    fn receive(&mut self, _: Instant) -> Option<(Received, Space<'_>)> {
        let frame = self.arrived.pop_front()?;
        Some((Received(frame), Space(&mut self.sent)))
    }

    fn transmit(&mut self, _: Instant) -> Option<Space<'_>> {
        self.room = self.room.checked_sub(1)?;
        Some(Space(&mut self.sent))
    }

    fn capabilities(&self) -> DeviceCapabilities {
        let mut capabilities = DeviceCapabilities::default();
        capabilities.medium = Medium::Ethernet;
        capabilities.max_transmission_unit = MOST_BYTES;
        capabilities
    }
}

/// A place for a connection.
struct Connection {
    port: u16,
    handle: SocketHandle,
    /// Its state in HTTP, from its first byte to the end of its answer.
    exchange: Option<Exchange>,
    /// The answer has arrived, or its end was counted otherwise.
    is_counted: bool,
}

/// The stack.
pub struct Stack {
    own: End,
    file_bytes: u64,
    cable: Cable,
    interface: Interface,
    sockets: SocketSet<'static>,
    connections: Vec<Connection>,
    due_ps: u64,
}

/// smoltcp's time. It rounds down, so that no timer is early.
fn instant(now_ps: u64) -> Instant {
    // 2^64 ps are fewer than 2^63 µs.
    Instant::from_micros((now_ps / US_PS) as i64)
}

fn socket() -> Socket<'static> {
    let buffer = |bytes| SocketBuffer::new(vec![0; bytes]);
    let mut socket = Socket::new(buffer(RECEIVE_BYTES), buffer(SEND_BYTES));
    socket.set_timeout(Some(SILENCE));
    socket.set_ack_delay(None);
    socket
}

impl Stack {
    /// A stack of a unicast station that serves a file of this size.
    pub fn new(own: End, file_bytes: u64) -> Self {
        let mut cable = Cable::default();
        let mut config = Config::new(HardwareAddress::Ethernet(EthernetAddress(own.mac.0)));
        config.random_seed = SEED;
        let mut interface = Interface::new(config, &mut cable, Instant::ZERO);
        interface.update_ip_addrs(|addresses| {
            // The list is empty, so there is room.
            let _ = addresses.push(IpCidr::new(own.ip.into(), PREFIX));
        });
        let mut sockets = SocketSet::new(Vec::new());
        let places = PORTS.into_iter().flat_map(|port| std::iter::repeat_n(port, CONNECTIONS));
        let connections = places.map(|port| Connection {
            port,
            handle: sockets.add(socket()),
            exchange: None,
            is_counted: false,
        });
        let connections = connections.collect();
        let mut stack = Self { own, file_bytes, cable, interface, sockets, connections, due_ps: u64::MAX };
        stack.listen();
        stack
    }

    /// Takes a frame with a whole TCP segment from `from`. `room` is as in [`run`](Self::run).
    pub fn take(&mut self, now_ps: u64, from: End, frame: &[u8], room: usize, seen: &mut Seen) {
        let (sender_mac, sender) = (from.mac, from.ip);
        let (target_mac, target) = (self.own.mac, self.own.ip);
        let operation = arp::Operation::Reply;
        let message = arp::Message { operation, sender_mac, sender, target_mac, target };
        self.cable.arrived.extend(wire::arp(self.own.mac, &message));
        self.cable.arrived.push_back(frame.to_vec());
        self.run(now_ps, room, seen);
    }

    /// Runs everything that is due at `now_ps`. At most `room` frames leave, beside answers to frames.
    pub fn run(&mut self, now_ps: u64, room: usize, seen: &mut Seen) {
        self.cable.room = room;
        let now = instant(now_ps);
        self.interface.poll(now, &mut self.cable, &mut self.sockets);
        self.serve(now_ps, seen);
        self.interface.poll(now, &mut self.cable, &mut self.sockets);
        self.serve(now_ps, seen);
        // Without room smoltcp would be due at once, again and again.
        let least_ps = if self.cable.sent.is_empty() { now_ps.saturating_add(PAUSE_PS) } else { 0 };
        let due = self.interface.poll_at(now, &self.sockets).map(|due| due.total_micros());
        self.due_ps = match due {
            Some(us) => u64::try_from(us).unwrap_or(0).saturating_mul(US_PS).max(least_ps),
            None => u64::MAX,
        };
    }

    /// The next frame to send.
    pub fn pop(&mut self) -> Option<Vec<u8>> {
        self.cable.sent.pop_front()
    }

    /// When the stack is to run next; `u64::MAX` if only a frame changes its state.
    pub fn due_ps(&self) -> u64 {
        self.due_ps
    }

    /// Moves bytes between the connections and their exchanges.
    fn serve(&mut self, now_ps: u64, seen: &mut Seen) {
        for connection in &mut self.connections {
            let socket = self.sockets.get_mut::<Socket>(connection.handle);
            if socket.can_recv() {
                let exchange = connection.exchange.get_or_insert_default();
                let mut begins = false;
                // The buffer is a ring: its contents may come in two parts.
                while socket.can_recv() {
                    let taken = socket.recv(|bytes| {
                        begins |= exchange.take(bytes, self.file_bytes);
                        (bytes.len(), bytes.len())
                    });
                    if !taken.is_ok_and(|bytes| bytes > 0) {
                        break;
                    }
                }
                if begins {
                    seen.http_started.at(now_ps);
                }
            } else if socket.state() == State::CloseWait && connection.exchange.is_none() {
                // The client ended the connection without a request.
                socket.close();
            }
            let Some(exchange) = &mut connection.exchange else { continue };
            while socket.can_send() && !exchange.is_done() {
                let sent = socket.send(|bytes| {
                    let count = exchange.fill(bytes);
                    (count, count)
                });
                if !sent.is_ok_and(|bytes| bytes > 0) {
                    break;
                }
            }
            let is_taken = exchange.is_done();
            // Without a whole request there is no answer after the client's end.
            if is_taken || (!exchange.is_answering() && socket.state() == State::CloseWait) {
                socket.close();
            }
            // Bytes stay in the buffer until they are acknowledged, even if the connection is reset.
            if is_taken && socket.send_queue() == 0 && !connection.is_counted {
                connection.is_counted = true;
                seen.http_completed.at(now_ps);
                seen.http_bytes = seen.http_bytes.saturating_add(exchange.body_bytes());
            }
            if matches!(socket.state(), State::Closed | State::Listen) {
                if exchange.is_answering() && !connection.is_counted {
                    seen.http_failed.at(now_ps);
                }
                connection.exchange = None;
                connection.is_counted = false;
            }
        }
        self.listen();
    }

    /// Lets every free place listen. If no place of a port is free, one in TIME-WAIT becomes free: its peer
    /// has closed the connection already.
    fn listen(&mut self) {
        for port in PORTS {
            let mut is_listening = false;
            for connection in self.connections.iter_mut().filter(|it| it.port == port) {
                let socket = self.sockets.get_mut::<Socket>(connection.handle);
                if socket.state() == State::Closed && connection.exchange.is_none() {
                    // Port 0 and an open socket are the errors.
                    let _ = socket.listen(port);
                }
                is_listening |= socket.is_listening();
            }
            if is_listening {
                continue;
            }
            let waits = |it: &&mut Connection| {
                it.port == port && self.sockets.get::<Socket>(it.handle).state() == State::TimeWait
            };
            if let Some(connection) = self.connections.iter_mut().find(waits) {
                *self.sockets.get_mut::<Socket>(connection.handle) = socket();
                let _ = self.sockets.get_mut::<Socket>(connection.handle).listen(port);
                connection.exchange = None;
                connection.is_counted = false;
            }
        }
    }
}
