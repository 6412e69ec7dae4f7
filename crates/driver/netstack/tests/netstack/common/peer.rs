//! The far end of the cable: a second smoltcp, and its clients.

use smoltcp::iface::{Config, Interface, SocketHandle, SocketSet};
use smoltcp::phy::{self, ChecksumCapabilities, Device, DeviceCapabilities, Medium};
use smoltcp::socket::{icmp, tcp};
use smoltcp::time::Instant;
use smoltcp::wire::{EthernetAddress, HardwareAddress, Icmpv4Packet, Icmpv4Repr, IpAddress, IpCidr};
use std::collections::VecDeque;

pub const OURS: IpAddress = IpAddress::v4(10, 0, 0, 1);
pub const PEERS: IpAddress = IpAddress::v4(10, 0, 0, 2);
/// The port of the echo server (RFC 862).
pub const PORT: u16 = 7;

/// The cable, as the peer's device.
#[derive(Default)]
pub struct Cable {
    pub to_peer: VecDeque<Vec<u8>>,
    pub from_peer: VecDeque<Vec<u8>>,
}

pub struct Rx(Vec<u8>);
pub struct Tx<'a>(&'a mut VecDeque<Vec<u8>>);

impl phy::RxToken for Rx {
    fn consume<R, F: FnOnce(&[u8]) -> R>(self, look: F) -> R {
        look(&self.0)
    }
}

impl phy::TxToken for Tx<'_> {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, bytes: usize, write: F) -> R {
        // Every sender pads frames to 60 bytes.
        let mut frame = vec![0; bytes.max(60)];
        let result = write(&mut frame[..bytes]);
        self.0.push_back(frame);
        result
    }
}

impl Device for Cable {
    type RxToken<'a> = Rx;
    type TxToken<'a> = Tx<'a>;
    fn receive(&mut self, _: Instant) -> Option<(Rx, Tx<'_>)> {
        Some((Rx(self.to_peer.pop_front()?), Tx(&mut self.from_peer)))
    }
    fn transmit(&mut self, _: Instant) -> Option<Tx<'_>> {
        Some(Tx(&mut self.from_peer))
    }
    fn capabilities(&self) -> DeviceCapabilities {
        let mut capabilities = DeviceCapabilities::default();
        capabilities.medium = Medium::Ethernet;
        capabilities.max_transmission_unit = 1514;
        capabilities
    }
}

/// An interface and its sockets.
pub struct Stack {
    pub interface: Interface,
    pub sockets: SocketSet<'static>,
}

impl Stack {
    pub fn new(device: &mut impl Device, hardware: HardwareAddress, address: IpAddress) -> Self {
        let mut config = Config::new(hardware);
        config.random_seed = 1;
        let mut interface = Interface::new(config, device, Instant::ZERO);
        interface.update_ip_addrs(|list| list.push(IpCidr::new(address, 24)).unwrap());
        Self { interface, sockets: SocketSet::new(Vec::new()) }
    }

    pub fn add_tcp(&mut self) -> SocketHandle {
        let buffer = || tcp::SocketBuffer::new(vec![0; 65_536]);
        self.sockets.add(tcp::Socket::new(buffer(), buffer()))
    }
}

/// The peer.
pub struct Peer {
    pub stack: Stack,
    pub cable: Cable,
}

impl Peer {
    pub fn new() -> Self {
        let mut cable = Cable::default();
        let address = HardwareAddress::Ethernet(EthernetAddress([2, 0, 0, 0, 0, 0x99]));
        Self { stack: Stack::new(&mut cable, address, PEERS), cable }
    }

    pub fn poll(&mut self, now: Instant) {
        self.stack.interface.poll(now, &mut self.cable, &mut self.stack.sockets);
    }
}

/// One ping; its answer is compared byte by byte.
pub struct Ping {
    socket: SocketHandle,
    payload: Vec<u8>,
}

impl Ping {
    const IDENT: u16 = 0x1234;

    pub fn start(peer: &mut Peer, bytes: usize) -> Self {
        let buffer = || icmp::PacketBuffer::new(vec![icmp::PacketMetadata::EMPTY; 4], vec![0; 4096]);
        let mut socket = icmp::Socket::new(buffer(), buffer());
        socket.bind(icmp::Endpoint::Ident(Self::IDENT)).unwrap();
        let payload: Vec<u8> = (0..bytes).map(|i| (i * 7) as u8).collect();
        let request = Icmpv4Repr::EchoRequest { ident: Self::IDENT, seq_no: 5, data: &payload };
        let out = socket.send(request.buffer_len(), OURS).unwrap();
        request.emit(&mut Icmpv4Packet::new_unchecked(out), &ChecksumCapabilities::default());
        Self { socket: peer.stack.sockets.add(socket), payload }
    }

    /// Whether the answer has come.
    pub fn is_answered(&self, peer: &mut Peer) -> bool {
        let socket = peer.stack.sockets.get_mut::<icmp::Socket>(self.socket);
        let Ok((answer, from)) = socket.recv() else { return false };
        let packet = Icmpv4Packet::new_checked(answer).unwrap();
        let answer = Icmpv4Repr::parse(&packet, &ChecksumCapabilities::default()).unwrap();
        let expected = Icmpv4Repr::EchoReply { ident: Self::IDENT, seq_no: 5, data: &self.payload };
        assert_eq!((answer, from), (expected, OURS));
        peer.stack.sockets.remove(self.socket);
        true
    }
}

/// A client of the echo server that compares every byte that comes back.
pub struct EchoClient {
    socket: SocketHandle,
    bytes: usize,
    sent: usize,
    /// Bytes that have come back.
    pub received: usize,
}

impl EchoClient {
    pub fn start(peer: &mut Peer, bytes: usize) -> Self {
        let handle = peer.stack.add_tcp();
        let socket = peer.stack.sockets.get_mut::<tcp::Socket>(handle);
        socket.connect(peer.stack.interface.context(), (OURS, PORT), 49_152).unwrap();
        Self { socket: handle, bytes, sent: 0, received: 0 }
    }

    fn pattern(at: usize) -> u8 {
        (at as u32).wrapping_mul(2_654_435_761).to_be_bytes()[0]
    }

    /// Sends and receives what it can. True when everything has come back and both sides have closed.
    pub fn work(&mut self, peer: &mut Peer) -> bool {
        let socket = peer.stack.sockets.get_mut::<tcp::Socket>(self.socket);
        let mut chunk = [0; 4096];
        while self.sent < self.bytes && socket.can_send() {
            let part = (self.bytes - self.sent).min(chunk.len());
            for (i, byte) in chunk[..part].iter_mut().enumerate() {
                *byte = Self::pattern(self.sent + i);
            }
            self.sent += socket.send_slice(&chunk[..part]).unwrap();
        }
        while socket.can_recv() {
            let taken = socket.recv_slice(&mut chunk).unwrap();
            for (i, &byte) in chunk[..taken].iter().enumerate() {
                assert_eq!(byte, Self::pattern(self.received + i), "byte {}", self.received + i);
            }
            self.received += taken;
        }
        if self.received == self.bytes {
            socket.close();
        }
        let done = matches!(socket.state(), tcp::State::TimeWait | tcp::State::Closed);
        if done {
            assert_eq!((self.sent, self.received), (self.bytes, self.bytes));
            peer.stack.sockets.remove(self.socket);
        }
        done
    }
}
