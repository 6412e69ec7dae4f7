//! embassy-net on modelled cards and on a card of QEMU, with smoltcp at the other end of the cable. The stack
//! is polled only when it was woken.

use crate::common::allocations::{ALLOCATIONS, AllocatingPlatform, COUNTS, Window};
use crate::common::peer::{EchoClient, PORT, Peer, Ping};
use core::future::Future;
use core::pin::{Pin, pin};
use core::task::{Context, Poll, Waker};
use embassy_net::tcp::TcpSocket;
use embassy_net::{Config as NetConfig, Ipv4Address, Ipv4Cidr, Stack, StackResources, StaticConfigV4};
use kpps_conformance::{Fixture, ModelFixture, QemuFixture};
use kpps_datasheet::Chip;
use kpps_driver::{Config, probe};
use kpps_netstack::embassy::{Interrupt, Nic, Signal, config};
use kpps_netstack::{Offload, buffers_needed};
use kpps_platform::{Platform, wrap::Counts};
use kpps_qemu::qtest::{Model, Timers};
use smoltcp::time::Instant;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Wake;

/// Virtual time of the peer, and the fixture's, in one step.
const STEP_US: i64 = 30;
const MOST_STEPS: usize = 400_000;

/// Remembers that it was woken.
struct Flag(AtomicBool);

/// A future that is polled only when it was woken.
struct Task<'f> {
    future: Pin<&'f mut dyn Future<Output = ()>>,
    flag: Arc<Flag>,
    polls: u64,
}

impl<'f> Task<'f> {
    fn new(future: Pin<&'f mut dyn Future<Output = ()>>) -> Self {
        Self { future, flag: Arc::new(Flag(AtomicBool::new(true))), polls: 0 }
    }

    fn run(&mut self) {
        if self.flag.0.swap(false, Ordering::Relaxed) {
            self.polls += 1;
            let waker = Waker::from(self.flag.clone());
            COUNTS.set(true);
            let state = self.future.as_mut().poll(&mut Context::from_waker(&waker));
            COUNTS.set(false);
            assert_eq!(state, Poll::Pending);
        }
    }
}

impl Wake for Flag {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Everything around the stack.
struct World<'f, B: Fixture> {
    fixture: B,
    interrupt: Interrupt<'static, Window<<B::Platform as Platform>::Regs>>,
    signal: &'static Signal,
    stack: Stack<'static>,
    peer: Peer,
    runner: Task<'f>,
    server: Task<'f>,
    now_us: i64,
    interrupts: u64,
    counts: &'static Counts,
}

impl<B: Fixture> World<'_, B> {
    /// Delivers a pending interrupt, runs woken tasks, and moves frames.
    fn step(&mut self) {
        if self.fixture.interrupt_line().unwrap() {
            self.interrupts += u64::from(self.interrupt.handle());
        }
        self.server.run();
        self.runner.run();
        while let Some(frame) = self.fixture.collect().unwrap() {
            self.peer.cable.to_peer.push_back(frame);
        }
        self.peer.poll(Instant::from_micros(self.now_us));
        while let Some(frame) = self.peer.cable.from_peer.pop_front() {
            self.fixture.inject(&frame).unwrap();
        }
        self.now_us += STEP_US;
        self.fixture.advance(STEP_US as u64 * 1_000).unwrap();
    }

    fn until(&mut self, what: &str, mut done: impl FnMut(&mut Self) -> bool) {
        for _ in 0..MOST_STEPS {
            if done(self) {
                return;
            }
            self.step();
        }
        panic!("{what}: not within {MOST_STEPS} steps");
    }
}

/// The echo server.
async fn serve(stack: Stack<'static>) {
    let mut buffers = vec![0; 2 * 65_536];
    let (rx, tx) = buffers.split_at_mut(65_536);
    let mut socket = TcpSocket::new(stack, rx, tx);
    let mut chunk = [0; 4096];
    loop {
        socket.accept(PORT).await.unwrap();
        loop {
            let taken = socket.read(&mut chunk).await.unwrap();
            if taken == 0 {
                break;
            }
            let mut rest = &chunk[..taken];
            while !rest.is_empty() {
                let written = socket.write(rest).await.unwrap();
                rest = &rest[written..];
            }
        }
        socket.close();
        socket.flush().await.unwrap();
        socket.abort();
    }
}

/// Runs `test` with a card that answers and echoes.
fn with_card<B: Fixture + 'static>(mut fixture: B, config: Config, test: impl FnOnce(&mut World<B>)) {
    let counts: &'static Counts = Box::leak(Box::new(Counts::new()));
    let signal: &'static Signal = Box::leak(Box::new(Signal::new()));
    let pool = fixture.buffers(buffers_needed(&config), 2048).unwrap();
    let device =
        probe(AllocatingPlatform::new(fixture.platform(), counts), fixture.chip(), config, pool).unwrap();
    let (nic, interrupt) = Nic::new(device, Offload::ALL, signal);
    let net_config = NetConfig::ipv4_static(StaticConfigV4 {
        address: Ipv4Cidr::new(Ipv4Address::new(10, 0, 0, 1), 24),
        gateway: None,
        dns_servers: Default::default(),
    });
    let resources = Box::leak(Box::new(StackResources::<3>::new()));
    let (stack, mut runner) = embassy_net::new(nic, net_config, resources, 1);
    let runner = pin!(async move { runner.run().await });
    let server = pin!(serve(stack));
    let mut world = World {
        fixture,
        interrupt,
        signal,
        stack,
        peer: Peer::new(),
        runner: Task::new(runner),
        server: Task::new(server),
        now_us: 0,
        interrupts: 0,
        counts,
    };
    // Fibre has no link interrupt: a watchdog task would poll the stack.
    let mut steps = 0;
    world.until("the link", |world| {
        steps += 1;
        if steps % 1_000 == 0 {
            world.signal.wake();
        }
        world.stack.is_link_up()
    });
    test(&mut world);
}

fn ping_and_echo<B: Fixture + 'static>(fixture: B, config: Config, bytes: usize) {
    with_card(fixture, config, |world| {
        for payload in [0, 56, 1472] {
            let ping = Ping::start(&mut world.peer, payload);
            world.until("an answer to a ping", |world| ping.is_answered(&mut world.peer));
        }
        // The server has made its buffers.
        ALLOCATIONS.set(0);
        let (polls, reads) = (world.runner.polls, world.counts.reads());
        let mut client = EchoClient::start(&mut world.peer, bytes);
        world.until("the echo", |world| client.work(&mut world.peer));
        assert_eq!(ALLOCATIONS.get(), 0, "allocations on the packet path");
        // ICR is read before sleeping, and in the interrupt handler.
        let (polls, reads) = (world.runner.polls - polls, world.counts.reads() - reads);
        assert!(polls > 0 && reads <= polls + world.interrupts + 20, "{reads} reads, {polls} polls");
        // An idle card causes no polls, except for the report of the last frame and the end of the closed
        // connection.
        let (polls, interrupts) = (world.runner.polls, world.interrupts);
        for _ in 0..5_000 {
            world.step();
        }
        assert!(world.runner.polls - polls <= 10, "{} polls of an idle card", world.runner.polls - polls);
        assert!(world.interrupts - interrupts <= 3, "{} idle interrupts", world.interrupts - interrupts);
    });
}

#[test]
fn every_modelled_chip_answers_and_echoes_when_woken() {
    for chip in Chip::E1000 {
        ping_and_echo(ModelFixture::new(chip).unwrap(), config(), 1 << 20);
    }
}

#[test]
fn the_stack_is_woken_when_a_full_ring_has_room_again() {
    let config = Config { rx_ring: 16, tx_ring: 16, completion: small(), ..config() };
    for chip in Chip::E1000 {
        ping_and_echo(ModelFixture::new(chip).unwrap(), config.clone(), 1 << 18);
    }
}

/// Reports for a small ring.
fn small() -> kpps_driver::config::Completion {
    kpps_driver::config::Completion { report_every: 8, ..config().completion }
}

#[test]
fn cards_of_qemu_answer_and_echo_when_woken() {
    for (chip, card) in [(Chip::I82540em, Model::I82540Em), (Chip::I82574l, Model::I82574L)] {
        let fixture = QemuFixture::start(chip, card, Timers::Immediate).unwrap();
        ping_and_echo(fixture, config(), 1 << 20);
    }
}

#[test]
fn link_changes_reach_the_stack() {
    for chip in [Chip::I82540em, Chip::I82545em] {
        with_card(ModelFixture::new(chip).unwrap(), config(), |world| {
            for _ in 0..2 {
                world.fixture.set_link(false).unwrap();
                world.until("link down", |world| !world.stack.is_link_up());
                world.fixture.set_link(true).unwrap();
                world.until("link up", |world| world.stack.is_link_up());
            }
            let mut client = EchoClient::start(&mut world.peer, 100_000);
            world.until("the echo", |world| client.work(&mut world.peer));
        });
    }
}
