//! A card with smoltcp on it, a cable that may lose frames, and a second smoltcp at its end.
#![allow(dead_code)]

use kpps_conformance::Fixture;
use kpps_driver::{Config, probe};
use kpps_netstack::smoltcp::Nic;
use kpps_netstack::{Offload, buffers_needed};
use kpps_platform::wrap::Counts;
use smoltcp::iface::SocketHandle;
use smoltcp::socket::tcp;
use smoltcp::time::Instant;

pub mod allocations;
pub mod peer;
pub use allocations::{ALLOCATIONS, AllocatingPlatform, COUNTS};
use peer::{EchoClient, Peer, Ping, Stack};
pub use peer::{OURS, PEERS, PORT};

/// Virtual time of a step with and without frames, in µs.
const BUSY_US: i64 = 30;
const IDLE_US: i64 = 1_000;
/// Steps after which a test gives up: 200 s of virtual time when idle.
const MOST_STEPS: usize = 200_000;

/// The frames that the cable loses: about one in `n`, the same in each run.
pub struct Loss {
    pub one_in: u32,
    state: u32,
    pub lost: u64,
}

impl Loss {
    fn takes(&mut self) -> bool {
        // The generator of Numerical Recipes; its high bits are random enough.
        self.state = self.state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let lost = self.one_in > 0 && (self.state >> 8).is_multiple_of(self.one_in);
        self.lost += u64::from(lost);
        lost
    }
}

/// Both stacks and the cable between them.
pub struct World<B: Fixture> {
    pub nic: Nic<AllocatingPlatform<B::Platform>, B::Source>,
    pub fixture: B,
    pub ours: Stack,
    pub peer: Peer,
    pub loss: Loss,
    pub now_us: i64,
    pub counts: &'static Counts,
    /// Register reads and tail writes of the polls of our stack.
    pub reads: u64,
    pub writes: u64,
    pub polls: u64,
    /// The longest frame that the card sent.
    pub longest: usize,
}

/// The settings of a test.
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

impl<B: Fixture> World<B> {
    pub fn new(mut fixture: B, setup: Setup) -> Self {
        let counts = Box::leak(Box::new(Counts::new()));
        let pool = fixture.buffers(setup.buffers, setup.buffer_bytes).unwrap();
        let platform = AllocatingPlatform::new(fixture.platform(), counts);
        let device = probe(platform, fixture.chip(), setup.config, pool).unwrap();
        let mut nic = Nic::new(device, setup.offload);
        for _ in 0..100_000 {
            nic.endpoint.control_mut().update_link().unwrap();
            if nic.endpoint.control().link().up {
                break;
            }
            fixture.advance(100_000).unwrap();
        }
        assert!(nic.endpoint.control().link().up);
        let hardware = nic.hardware_address();
        let ours = Stack::new(&mut nic, hardware, OURS);
        let loss = Loss { one_in: 0, state: 12345, lost: 0 };
        Self {
            nic,
            fixture,
            ours,
            peer: Peer::new(),
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

    /// Polls our stack.
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

    /// Moves frames over the cable and polls the peer. Returns whether any frame moved.
    pub fn step_peer(&mut self) -> bool {
        let mut moved = false;
        while let Some(frame) = self.fixture.collect().unwrap() {
            moved = true;
            self.longest = self.longest.max(frame.len());
            if !self.loss.takes() {
                self.peer.cable.to_peer.push_back(frame);
            }
        }
        let now = self.now();
        self.peer.poll(now);
        while let Some(frame) = self.peer.cable.from_peer.pop_front() {
            moved = true;
            if !self.loss.takes() {
                self.fixture.inject(&frame).unwrap();
            }
        }
        moved
    }

    /// One step of both stacks and the cable.
    pub fn step(&mut self) {
        self.poll_ours();
        let moved = self.step_peer();
        self.pass(if moved { BUSY_US } else { IDLE_US });
    }

    pub fn pass(&mut self, us: i64) {
        self.now_us += us;
        // QEMU's timers are immediate, so there is no wait for real time.
        let us = if self.fixture.device() == "model" { us } else { us.min(BUSY_US) };
        self.fixture.advance(us as u64 * 1_000).unwrap();
    }

    /// Steps until `done` returns true.
    pub fn until(&mut self, what: &str, mut done: impl FnMut(&mut Self) -> bool) {
        for _ in 0..MOST_STEPS {
            if done(self) {
                return;
            }
            self.step();
        }
        panic!("{what}: not within {MOST_STEPS} steps");
    }

    /// The peer pings us with `bytes` bytes of payload and compares every byte of the answer.
    pub fn ping(&mut self, bytes: usize) {
        let ping = Ping::start(&mut self.peer, bytes);
        self.until("an answer to a ping", |world| ping.is_answered(&mut world.peer));
    }

    /// The echo server: sends everything back.
    fn serve(&mut self, server: SocketHandle) {
        let socket = self.ours.sockets.get_mut::<tcp::Socket>(server);
        let mut chunk = [0; 4096];
        while socket.can_recv() && socket.can_send() {
            let room = (socket.send_capacity() - socket.send_queue()).min(chunk.len());
            let taken = socket.recv_slice(&mut chunk[..room]).unwrap();
            assert_eq!(socket.send_slice(&chunk[..taken]), Ok(taken));
        }
        if socket.state() == tcp::State::CloseWait && socket.recv_queue() == 0 {
            socket.close();
        }
    }

    /// The peer sends `bytes` to our echo server and compares every byte of the answer. `event` is called
    /// before each step with the number of bytes that have come back.
    pub fn echo(&mut self, bytes: usize, mut event: impl FnMut(&mut Self, usize)) {
        let server = self.ours.add_tcp();
        self.ours.sockets.get_mut::<tcp::Socket>(server).listen(PORT).unwrap();
        let mut client = EchoClient::start(&mut self.peer, bytes);
        self.until("the echo", |world| {
            event(world, client.received);
            world.serve(server);
            client.work(&mut world.peer)
        });
        self.ours.sockets.remove(server);
    }
}
