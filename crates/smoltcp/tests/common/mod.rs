//! A card with smoltcp on it, a cable that may lose frames, and a second smoltcp at its end.
#![allow(dead_code, clippy::unwrap_used)]

use kpps_driver::{Config, probe};
use kpps_platform::wrap::{Counting, Counts};
use kpps_platform::{DmaSpec, OutOfMemory, Platform, Registers};
use kpps_selftest::Bench;
use kpps_smoltcp::{Nic, Offload, buffers_needed};
use smoltcp::iface::{Config as InterfaceConfig, Interface, SocketHandle, SocketSet};
use smoltcp::phy::{self, ChecksumCapabilities, Device, DeviceCapabilities, Medium};
use smoltcp::socket::{icmp, tcp};
use smoltcp::time::Instant;
use smoltcp::wire::{EthernetAddress, HardwareAddress, Icmpv4Packet, Icmpv4Repr, IpAddress, IpCidr};
use std::cell::Cell;
use std::collections::VecDeque;

pub const OURS: IpAddress = IpAddress::v4(10, 0, 0, 1);
pub const PEERS: IpAddress = IpAddress::v4(10, 0, 0, 2);
pub const PORT: u16 = 7;
/// Virtual time of a step in which something moved, and in which nothing did.
const BUSY_US: i64 = 30;
const IDLE_US: i64 = 1_000;
/// Steps after which a test gives up: 200 s of virtual time when idle.
const PATIENCE: usize = 200_000;

thread_local! {
    /// Whether the allocations of this thread count just now, and how many there were.
    pub static COUNTS: Cell<bool> = const { Cell::new(false) };
    pub static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

/// A bench's platform whose device may allocate: the model keeps what was sent in vectors.
#[derive(Clone)]
pub struct Place<P: Platform> {
    inner: P,
    counts: &'static Counts,
}

#[derive(Clone)]
pub struct Window<R>(Counting<'static, R>);

fn uncounted<T>(work: impl FnOnce() -> T) -> T {
    let before = COUNTS.replace(false);
    let result = work();
    COUNTS.set(before);
    result
}

impl<R: Registers> Registers for Window<R> {
    fn read(&self, offset: u32) -> u32 {
        uncounted(|| self.0.read(offset))
    }
    fn write(&self, offset: u32, value: u32) {
        uncounted(|| self.0.write(offset, value));
    }
}

impl<P: Platform> Platform for Place<P> {
    type Regs = Window<P::Regs>;
    type Mem = P::Mem;
    fn registers(&self) -> Self::Regs {
        Window(Counting::new(self.inner.registers(), self.counts))
    }
    fn allocate(&self, spec: DmaSpec) -> Result<P::Mem, OutOfMemory> {
        self.inner.allocate(spec)
    }
    fn now_ns(&self) -> u64 {
        self.inner.now_ns()
    }
    fn wait_ns(&self, ns: u64) {
        self.inner.wait_ns(ns);
    }
}

/// The peer's end of the cable.
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
        let mut frame = vec![0; bytes];
        let result = write(&mut frame);
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

/// One stack.
pub struct Stack {
    pub interface: Interface,
    pub sockets: SocketSet<'static>,
}

impl Stack {
    fn new(device: &mut impl Device, hardware: HardwareAddress, address: IpAddress, seed: u64) -> Self {
        let mut config = InterfaceConfig::new(hardware);
        config.random_seed = seed;
        let mut interface = Interface::new(config, device, Instant::ZERO);
        interface.update_ip_addrs(|list| list.push(IpCidr::new(address, 24)).unwrap());
        Self { interface, sockets: SocketSet::new(Vec::new()) }
    }

    pub fn add_tcp(&mut self) -> SocketHandle {
        let buffer = || tcp::SocketBuffer::new(vec![0; 65_536]);
        self.sockets.add(tcp::Socket::new(buffer(), buffer()))
    }
}

/// Which frames the cable loses: about one in so many, the same in every run.
pub struct Loss {
    pub one_in: u32,
    state: u32,
    pub lost: u64,
}

impl Loss {
    fn takes(&mut self) -> bool {
        // Numerical Recipes' generator; its high bits are good enough to lose frames by.
        self.state = self.state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let lost = self.one_in > 0 && (self.state >> 8).is_multiple_of(self.one_in);
        self.lost += u64::from(lost);
        lost
    }
}

/// Both stacks and what is between them.
pub struct World<B: Bench> {
    pub nic: Nic<Place<B::Platform>, B::Source>,
    pub bench: B,
    pub ours: Stack,
    pub peer: Stack,
    pub cable: Cable,
    pub loss: Loss,
    pub now_us: i64,
    pub counts: &'static Counts,
    /// Register reads and tail writes of our stack's polls.
    pub reads: u64,
    pub writes: u64,
    pub polls: u64,
    /// The longest frame that the card sent.
    pub longest: usize,
}

/// What a test may choose.
pub struct Setup {
    pub config: Config,
    pub offload: Offload,
    pub buffers: usize,
    pub buffer_bytes: usize,
}

impl Setup {
    pub fn usual() -> Self {
        let config = Config::kpps();
        Self { buffers: buffers_needed(&config), config, offload: Offload::ALL, buffer_bytes: 2048 }
    }
}

impl<B: Bench> World<B> {
    pub fn new(mut bench: B, setup: Setup) -> Self {
        let counts = Box::leak(Box::new(Counts::new()));
        let pool = bench.buffers(setup.buffers, setup.buffer_bytes).unwrap();
        let place = Place { inner: bench.platform(), counts };
        let device = probe(place, bench.chip(), setup.config, pool).unwrap();
        let mut nic = Nic::new(device, setup.offload);
        for _ in 0..100_000 {
            nic.endpoint.control_mut().update_link().unwrap();
            if nic.endpoint.control().link().up {
                break;
            }
            bench.settle(100_000).unwrap();
        }
        assert!(nic.endpoint.control().link().up);
        let hardware = nic.hardware_address();
        let ours = Stack::new(&mut nic, hardware, OURS, 1);
        let mut cable = Cable::default();
        let peers = HardwareAddress::Ethernet(EthernetAddress([2, 0, 0, 0, 0, 0x99]));
        let peer = Stack::new(&mut cable, peers, PEERS, 2);
        let loss = Loss { one_in: 0, state: 12345, lost: 0 };
        Self {
            nic,
            bench,
            ours,
            peer,
            cable,
            loss,
            now_us: 0,
            counts,
            reads: 0,
            writes: 0,
            polls: 0,
            longest: 0,
        }
    }

    pub fn now(&self) -> Instant {
        Instant::from_micros(self.now_us)
    }

    /// Lets our stack work.
    pub fn poll_ours(&mut self) {
        let (reads, writes) = (self.counts.reads(), self.counts.writes());
        let now = self.now();
        COUNTS.set(true);
        self.nic.poll(now, &mut self.ours.interface, &mut self.ours.sockets);
        COUNTS.set(false);
        self.reads += self.counts.reads() - reads;
        self.writes += self.counts.writes() - writes;
        self.polls += 1;
    }

    /// Moves frames over the cable and lets the peer work; whether any frame moved.
    pub fn step_peer(&mut self) -> bool {
        let mut moved = false;
        while let Some(frame) = self.bench.collect().unwrap() {
            moved = true;
            self.longest = self.longest.max(frame.len());
            if !self.loss.takes() {
                self.cable.to_peer.push_back(frame);
            }
        }
        let now = self.now();
        self.peer.interface.poll(now, &mut self.cable, &mut self.peer.sockets);
        while let Some(mut frame) = self.cable.from_peer.pop_front() {
            moved = true;
            if !self.loss.takes() {
                // What every sender does.
                frame.resize(frame.len().max(60), 0);
                self.bench.inject(&frame).unwrap();
            }
        }
        moved
    }

    /// One step of everything. `work` is what the programs on both stacks do.
    pub fn step(&mut self) {
        self.poll_ours();
        let moved = self.step_peer();
        self.pass(if moved { BUSY_US } else { IDLE_US });
    }

    pub fn pass(&mut self, us: i64) {
        self.now_us += us;
        // QEMU's timers are immediate: real time is not waited for.
        let us = if self.bench.device() == "model" { us } else { us.min(BUSY_US) };
        self.bench.settle(us as u64 * 1_000).unwrap();
    }

    /// Steps until `done` says so.
    pub fn until(&mut self, what: &str, mut done: impl FnMut(&mut Self) -> bool) {
        for _ in 0..PATIENCE {
            if done(self) {
                return;
            }
            self.step();
        }
        panic!("{what}: not within {PATIENCE} steps");
    }

    /// The peer pings us with so many bytes of payload and looks at every byte of the answer.
    pub fn ping(&mut self, bytes: usize) {
        let buffer = || icmp::PacketBuffer::new(vec![icmp::PacketMetadata::EMPTY; 4], vec![0; 4096]);
        let mut socket = icmp::Socket::new(buffer(), buffer());
        socket.bind(icmp::Endpoint::Ident(0x1234)).unwrap();
        let payload: Vec<u8> = (0..bytes).map(|i| (i * 7) as u8).collect();
        let request = Icmpv4Repr::EchoRequest { ident: 0x1234, seq_no: 5, data: &payload };
        let out = socket.send(request.buffer_len(), OURS).unwrap();
        request.emit(&mut Icmpv4Packet::new_unchecked(out), &ChecksumCapabilities::default());
        let handle = self.peer.sockets.add(socket);
        self.until("an answer to a ping", |world| {
            let socket = world.peer.sockets.get_mut::<icmp::Socket>(handle);
            let Ok((answer, from)) = socket.recv() else { return false };
            let packet = Icmpv4Packet::new_checked(answer).unwrap();
            let answer = Icmpv4Repr::parse(&packet, &ChecksumCapabilities::default()).unwrap();
            assert_eq!(answer, Icmpv4Repr::EchoReply { ident: 0x1234, seq_no: 5, data: &payload });
            assert_eq!(from, OURS);
            true
        });
        self.peer.sockets.remove(handle);
    }

    /// The peer sends `bytes` to our echo server and looks at every byte that comes back. `event`
    /// is called before each step with what has come back so far.
    pub fn echo(&mut self, bytes: usize, mut event: impl FnMut(&mut Self, usize)) {
        let pattern = |at: usize| (at as u32).wrapping_mul(2_654_435_761).to_be_bytes()[0];
        let server = self.ours.add_tcp();
        self.ours.sockets.get_mut::<tcp::Socket>(server).listen(PORT).unwrap();
        let client = self.peer.add_tcp();
        let socket = self.peer.sockets.get_mut::<tcp::Socket>(client);
        socket.connect(self.peer.interface.context(), (OURS, PORT), 49_152).unwrap();
        let (mut sent, mut received) = (0, 0);
        let mut chunk = [0; 4096];
        self.until("the echo", |world| {
            event(world, received);
            // Our program: what comes goes back.
            let socket = world.ours.sockets.get_mut::<tcp::Socket>(server);
            while socket.can_recv() && socket.can_send() {
                let room = (socket.send_capacity() - socket.send_queue()).min(chunk.len());
                let taken = socket.recv_slice(&mut chunk[..room]).unwrap();
                assert_eq!(socket.send_slice(&chunk[..taken]), Ok(taken));
            }
            if socket.state() == tcp::State::CloseWait && socket.recv_queue() == 0 {
                socket.close();
            }
            // The peer's.
            let socket = world.peer.sockets.get_mut::<tcp::Socket>(client);
            while sent < bytes && socket.can_send() {
                let part = (bytes - sent).min(chunk.len());
                for (i, byte) in chunk[..part].iter_mut().enumerate() {
                    *byte = pattern(sent + i);
                }
                sent += socket.send_slice(&chunk[..part]).unwrap();
            }
            while socket.can_recv() {
                let taken = socket.recv_slice(&mut chunk).unwrap();
                for (i, &byte) in chunk[..taken].iter().enumerate() {
                    assert_eq!(byte, pattern(received + i), "byte {} of the echo", received + i);
                }
                received += taken;
            }
            if received == bytes {
                socket.close();
            }
            socket.state() == tcp::State::TimeWait
        });
        assert_eq!((sent, received), (bytes, bytes));
        self.ours.sockets.remove(server);
        self.peer.sockets.remove(client);
    }
}
