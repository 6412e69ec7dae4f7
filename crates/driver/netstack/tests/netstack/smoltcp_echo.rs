//! Ping and TCP echo over modelled cards and QEMU's, with a second smoltcp at the other end of the cable.

use crate::common::{ALLOCATIONS, OURS, PEERS, Setup, World};
use kpps_conformance::{Fixture, ModelFixture, QemuFixture};
use kpps_datasheet::Chip;
use kpps_driver::Config;
use kpps_netstack::Offload;
use kpps_qemu::qtest::{Model, Timers};
use smoltcp::socket::udp;

const MEGABYTE: usize = 1 << 20;

fn model(chip: Chip) -> ModelFixture {
    ModelFixture::new(chip).unwrap()
}

/// The cards of QEMU.
const QEMUS: [(Chip, Model); 4] = [
    (Chip::I82540em, Model::I82540Em),
    (Chip::I82544, Model::I82544Gc),
    (Chip::I82545em, Model::I82545Em),
    (Chip::I82574l, Model::I82574L),
];

/// A card of QEMU.
fn qemu(chip: Chip, model: Model) -> QemuFixture {
    // With immediate timers, no frame waits for a timer of the emulation.
    QemuFixture::start(chip, model, Timers::Immediate).unwrap()
}

/// No poll allocated or read a register; each wrote a tail at most once, unless it received more than a
/// burst.
fn assert_cheap<B: Fixture>(world: &World<B>) {
    assert_eq!(ALLOCATIONS.get(), 0, "allocations on the packet path");
    assert_eq!(world.reads, 0, "register reads on the packet path");
    let (rx, tx) = world.nic.endpoint.driver_counters();
    let bursts = world.polls + rx.frames / 32;
    assert!(rx.doorbells <= 1 + bursts && tx.doorbells <= bursts, "{rx:?} {tx:?} {bursts}");
    assert!(world.writes <= rx.doorbells + tx.doorbells, "writes of other registers than the tails");
}

fn assert_nothing_dropped<B: Fixture>(world: &World<B>) {
    assert_eq!(world.nic.endpoint.receive_counters(), Default::default());
    assert_eq!(world.nic.endpoint.transmit_counters(), Default::default());
}

fn ping_and_echo<B: Fixture>(fixture: B, setup: Setup) {
    let mut world = World::new(fixture, setup);
    for bytes in [0, 1, 56, 1000, 1472] {
        world.ping(bytes);
    }
    world.echo(MEGABYTE, |_, _| {});
    assert_cheap(&world);
    assert_nothing_dropped(&world);
    let (rx, tx) = world.nic.endpoint.driver_counters();
    assert!(rx.frames > 718 && tx.frames > 718, "{rx:?} {tx:?}");
}

#[test]
fn every_modelled_chip_answers_and_echoes() {
    for chip in Chip::E1000 {
        ping_and_echo(model(chip), Setup::usual());
    }
}

#[test]
fn every_card_of_qemu_answers_and_echoes() {
    for (chip, card) in QEMUS {
        ping_and_echo(qemu(chip, card), Setup::usual());
    }
}

#[test]
fn the_stack_computes_checksums_without_offload() {
    let mut world = World::new(model(Chip::I82546eb), Setup { offload: Offload::NONE, ..Setup::usual() });
    world.ping(56);
    world.echo(100_000, |_, _| {});
    assert_eq!(world.nic.endpoint.driver_counters().1.contexts, 0);
    assert_nothing_dropped(&world);
}

fn echo_with_loss<B: Fixture>(fixture: B, bytes: usize) {
    let mut world = World::new(fixture, Setup::usual());
    world.ping(56);
    world.loss.one_in = 50;
    world.echo(bytes, |_, _| {});
    assert!(world.loss.lost > bytes as u64 / 100_000, "{} lost", world.loss.lost);
    assert_cheap(&world);
    assert_nothing_dropped(&world);
}

#[test]
fn a_megabyte_survives_a_lossy_cable() {
    echo_with_loss(model(Chip::I82543gc), MEGABYTE);
    echo_with_loss(model(Chip::I82546eb), MEGABYTE);
}

#[test]
fn a_megabyte_survives_a_lossy_cable_to_qemu() {
    echo_with_loss(qemu(Chip::I82540em, Model::I82540Em), MEGABYTE);
    echo_with_loss(qemu(Chip::I82574l, Model::I82574L), MEGABYTE);
}

/// Unplugs the cable during an echo and plugs it in again, twice.
fn echo_with_link_changes<B: Fixture>(fixture: B) {
    let mut world = World::new(fixture, Setup::usual());
    world.ping(56);
    let mut changes = vec![(600_000, true), (600_000, false), (300_000, true), (300_000, false)];
    let mut changed_us = 0;
    let mut seen = Vec::new();
    world.echo(MEGABYTE, |world, received| {
        // The cable stays out for a while.
        let due = changes.last().is_some_and(|&(at, up)| match up {
            false => received >= at,
            true => world.now_us >= changed_us + 500_000,
        });
        if due && let Some((_, up)) = changes.pop() {
            changed_us = world.now_us;
            world.fixture.set_link(up).unwrap();
        }
        world.nic.endpoint.control_mut().update_link().unwrap();
        let up = world.nic.endpoint.control().link().up;
        if seen.last() != Some(&up) {
            seen.push(up);
        }
    });
    assert_eq!(seen, [true, false, true, false, true]);
    assert_nothing_dropped(&world);
}

#[test]
fn traffic_resumes_when_the_link_does() {
    echo_with_link_changes(model(Chip::I82540em));
    echo_with_link_changes(model(Chip::I82542));
}

#[test]
fn traffic_resumes_when_the_link_does_on_qemu() {
    echo_with_link_changes(qemu(Chip::I82540em, Model::I82540Em));
    echo_with_link_changes(qemu(Chip::I82574l, Model::I82574L));
}

#[test]
fn a_reset_during_an_echo_costs_only_frames() {
    let mut world = World::new(model(Chip::I82545em), Setup::usual());
    let mut resets = 0;
    world.echo(MEGABYTE, |world, received| {
        if received > (resets + 1) * 250_000 {
            resets += 1;
            world.nic.endpoint.reset().unwrap();
        }
        world.nic.endpoint.control_mut().update_link().unwrap();
    });
    assert_eq!(resets, 4);
}

fn datagrams(payload_bytes: usize, count: usize) -> udp::Socket<'static> {
    let buffer =
        || udp::PacketBuffer::new(vec![udp::PacketMetadata::EMPTY; count], vec![0; count * payload_bytes]);
    udp::Socket::new(buffer(), buffer())
}

#[test]
fn a_full_ring_holds_the_stack_back_and_loses_nothing() {
    let config = Config {
        rx_ring: 16,
        tx_ring: 16,
        completion: kpps_driver::config::Completion { report_every: 8, ..Config::kpps().completion },
        ..Config::kpps()
    };
    for chip in Chip::E1000 {
        // Fewer buffers than both rings and a burst need.
        let setup = Setup { buffers: 40, config: config.clone(), ..Setup::usual() };
        let mut world = World::new(model(chip), setup);
        world.ping(56); // addresses are known
        let count = 200;
        let (mut from, mut to) = (datagrams(1400, count), datagrams(1400, count));
        from.bind(1000).unwrap();
        to.bind(2000).unwrap();
        let from = world.ours.sockets.add(from);
        let to = world.peer.stack.sockets.add(to);
        for i in 0..count {
            let datagram = vec![i as u8; 1400];
            let socket = world.ours.sockets.get_mut::<udp::Socket>(from);
            socket.send_slice(&datagram, (PEERS, 2000)).unwrap();
        }
        // Without time passing, the ring fills and the rest waits in the socket.
        let before = world.nic.endpoint.driver_counters().1.frames;
        world.poll_ours();
        world.poll_ours();
        let taken = world.nic.endpoint.driver_counters().1.frames - before;
        assert!((1..=16).contains(&taken), "{taken}");
        let mut got = 0;
        world.until("all datagrams", |world| {
            let socket = world.peer.stack.sockets.get_mut::<udp::Socket>(to);
            while let Ok((datagram, _)) = socket.recv() {
                assert_eq!(datagram, vec![got as u8; 1400]);
                got += 1;
            }
            got == count
        });
        assert_cheap(&world);
        assert_nothing_dropped(&world);
        assert_eq!(world.nic.endpoint.driver_counters().1.full, 0);
    }
}

#[test]
fn a_flood_of_more_than_the_ring_loses_the_rest_and_no_more() {
    let mut world = World::new(model(Chip::I82540em), Setup::usual());
    world.ping(56);
    let (mut from, mut to) = (datagrams(100, 4000), datagrams(100, 4000));
    from.bind(1000).unwrap();
    to.bind(2000).unwrap();
    let from = world.peer.stack.sockets.add(from);
    let to = world.ours.sockets.add(to);
    for i in 0..4000u32 {
        let mut datagram = [0; 100];
        datagram[..4].copy_from_slice(&i.to_be_bytes());
        let socket = world.peer.stack.sockets.get_mut::<udp::Socket>(from);
        socket.send_slice(&datagram, (OURS, 2000)).unwrap();
    }
    // The whole flood arrives before the first poll.
    world.step_peer();
    for _ in 0..1000 {
        world.pass(30);
    }
    let mut got = Vec::new();
    for _ in 0..100 {
        world.step();
        let socket = world.ours.sockets.get_mut::<udp::Socket>(to);
        while let Ok((datagram, _)) = socket.recv() {
            got.push(u32::from_be_bytes(*datagram.first_chunk().unwrap()));
        }
    }
    // A full ring, and the frames in the card's FIFO: the oldest ones, in order.
    assert!((255..1000).contains(&got.len()), "{}", got.len());
    assert!(got.iter().copied().eq(0..got.len() as u32));
    // It works as before.
    world.echo(100_000, |_, _| {});
    assert_cheap(&world);
}

#[test]
fn unchecked_and_wrong_frames_do_not_reach_the_stack() {
    for chip in [Chip::I82540em, Chip::I82546eb] {
        let mut world = World::new(model(chip), Setup::usual());
        world.ping(56);
        let address = world.fixture.address();
        let mut to = datagrams(100, 8);
        to.bind(2000).unwrap();
        let to = world.ours.sockets.add(to);
        let builder = etherparse::PacketBuilder::ethernet2([2, 0, 0, 0, 0, 0x99], address)
            .ipv4([10, 0, 0, 2], [10, 0, 0, 1], 9)
            .udp(1000, 2000);
        let mut good = Vec::new();
        builder.write(&mut good, b"this is a datagram of some bytes").unwrap();
        let mut wrong_payload = good.clone();
        wrong_payload[50] ^= 1;
        let mut wrong_header = good.clone();
        wrong_header[22] ^= 1;
        let mut unchecked = good.clone();
        unchecked[40..42].fill(0);
        let mut fragment = good.clone();
        fragment[20] = 0x20; // more fragments
        fragment[24..26].fill(0);
        let sum = kpps_frames::checksum::checksum(&fragment[14..34]);
        fragment[24..26].copy_from_slice(&sum.to_be_bytes());
        for frame in [&good, &wrong_payload, &wrong_header, &unchecked, &fragment] {
            world.fixture.inject(frame).unwrap();
        }
        for _ in 0..20 {
            world.step();
        }
        let counters = world.nic.endpoint.receive_counters();
        assert_eq!((counters.bad_checksums, counters.fragments), (2, 1));
        let socket = world.ours.sockets.get_mut::<udp::Socket>(to);
        assert_eq!(socket.recv().unwrap().0, b"this is a datagram of some bytes");
        assert_eq!(socket.recv().unwrap().0, b"this is a datagram of some bytes");
        assert!(!socket.can_recv());
    }
}

fn cut_by_the_card<B: Fixture>(fixture: B) {
    let setup = Setup { buffer_bytes: 16 * 1024, ..Setup::usual() };
    let mut world = World::new(fixture, setup);
    world.ping(56);
    let before = world.nic.endpoint.driver_counters().1;
    world.echo(MEGABYTE, |_, _| {});
    let after = world.nic.endpoint.driver_counters().1;
    assert_eq!(world.longest, 1514);
    // Far fewer frames than a megabyte needs.
    assert!(after.frames - before.frames < 600, "{before:?} {after:?}");
    assert!(after.contexts > before.contexts + 50);
    assert_cheap(&world);
    assert_nothing_dropped(&world);
}

#[test]
fn large_segments_are_cut_by_the_card() {
    for chip in Chip::E1000.into_iter().filter(|chip| chip.has_tso()) {
        cut_by_the_card(model(chip));
    }
    cut_by_the_card(qemu(Chip::I82540em, Model::I82540Em));
    // Not the 82574 of QEMU, which cuts large segments into IP fragments.
}
