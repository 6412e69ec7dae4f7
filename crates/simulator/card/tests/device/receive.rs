//! Reception: where frames end.

use crate::bench::*;
use kpps_datasheet::bit::{cause, rctl};
use kpps_datasheet::desc::{self, rx_status};
use kpps_datasheet::{Chip, reg, stat};

#[test]
fn a_full_fifo_is_counted_by_its_cause() {
    // No descriptors at all: 48 KB of frames are kept, the rest is missed.
    let mut b = Bench::ready(Bench::params(Chip::I82540em), 64);
    let head = b.get(reg::RDH);
    b.set(reg::RDT, head);
    for _ in 0..1000 {
        b.arrive(&frame(0, 60));
        b.pass(US);
    }
    let t = *b.nic.tally();
    let kept = 48 * 1024 / (64 + u64::from(b.nic.params().rx_fifo_overhead_bytes));
    // Frames got in by descriptors that were fetched before the tail moved back.
    assert_eq!(t.in_fifo, kept);
    assert_eq!(t.dropped.fifo_no_descriptor, 1000 - kept - t.to_host);
    assert_eq!(t.dropped.fifo_engine, 0);
    assert_eq!(u64::from(b.get(stat::MPC)), t.dropped.fifo_no_descriptor);
    assert_eq!(u64::from(b.get(stat::RNBC)), 1000 - t.to_host);
    assert_eq!(b.get(reg::ICR) & cause::RXO, cause::RXO);

    // An engine that is too slow.
    let params = kpps_card::Params { rx_engine_ps: 10 * US, ..Bench::params(Chip::I82543gc) };
    let mut b = Bench::ready(params, 256);
    for i in 0..2000u64 {
        b.arrive(&frame(0, 60));
        b.pass(US);
        let head = b.get(reg::RDH);
        b.set(reg::RDT, (head + 255) % 256);
        assert!(b.nic.tally().closes(), "{i}");
    }
    let t = *b.nic.tally();
    assert_eq!((t.to_host, t.dropped.fifo_no_descriptor), (200, 0));
    assert_eq!(t.dropped.fifo_engine, 1800 - t.in_fifo);
}

#[test]
fn dry_time_counts_while_the_receiver_could_use_descriptors() {
    const MS: u64 = 1_000 * US;
    let mut b = Bench::ready(Bench::params(Chip::I82540em), 8);
    let control = b.get(reg::RCTL);
    let dry = |b: &Bench| (b.nic.tally().rx_dry_ps / MS, b.nic.tally().rx_dry_longest_ps / MS);
    let run_dry = |b: &mut Bench| {
        for i in 0..7 {
            b.arrive(&frame(i, 60));
            b.pass(10 * US);
        }
    };
    // Nothing is missed while descriptors are free.
    b.pass(100 * MS);
    run_dry(&mut b);
    b.pass(2 * MS);
    b.set(reg::RDT, 6);
    assert_eq!(dry(&b), (2, 2));
    // The receiver is disabled while the ring is dry, and enabled again before the tail moves.
    run_dry(&mut b);
    b.pass(3 * MS);
    b.set(reg::RCTL, control & !rctl::EN);
    b.pass(1000 * MS);
    b.set(reg::RCTL, control);
    b.pass(4 * MS);
    b.set(reg::RDT, 5);
    assert_eq!(dry(&b), (9, 4));
    // Without a link.
    run_dry(&mut b);
    b.pass(5 * MS);
    b.nic.set_link(b.now, false);
    b.pass(1000 * MS);
    b.set(reg::RDT, 4);
    assert_eq!(dry(&b), (14, 5));
    // A new ring has no descriptors until its first tail, and a reset ends the old one.
    b.nic.set_link(b.now, true);
    b.pass(MS);
    run_dry(&mut b);
    b.set(reg::RDH, 0);
    b.set(reg::RDT, 0);
    b.set(reg::RCTL, control);
    b.pass(1000 * MS);
    b.set(reg::RDT, 7);
    assert_eq!(dry(&b), (14, 5));
}

#[test]
fn a_jumbo_frame_spans_buffers() {
    let mut b = Bench::ready(Bench::params(Chip::I82540em), 64);
    b.set(reg::RCTL, rctl::EN | rctl::LPE);
    let f = frame(5, 9000);
    b.arrive(&f);
    b.pass(200 * US);
    let mut got = vec![];
    for i in 0..5 {
        let d = b.rx(i);
        assert_eq!(d.status & rx_status::DD, rx_status::DD);
        assert_eq!(d.status & rx_status::EOP != 0, i == 4);
        got.extend_from_slice(b.rx_bytes(i, d.length.into()));
    }
    // With FCS, since it is not stripped; CRC-32 of the whole leaves the known residue.
    assert_eq!(got.len(), 9004);
    assert_eq!(&got[..9000], &f[..]);
    assert_eq!(crc32fast::hash(&got), 0x2144_DF1C);
    assert_eq!(b.nic.tally().to_host, 1);
}

#[test]
fn minimum_threshold_interrupts_when_it_is_reached() {
    let mut b = Bench::ready(Bench::params(Chip::I82540em), 64);
    b.set(reg::RDTR, 10_000);
    for i in 0..30 {
        b.arrive(&frame(i, 60));
        b.pass(10 * US);
    }
    assert_eq!(b.get(reg::ICR) & cause::RXDMT0, 0);
    b.arrive(&frame(30, 60));
    b.pass(10 * US);
    // 63 were given, 31 used: half of 64 are left.
    assert_eq!(b.get(reg::ICR) & cause::RXDMT0, cause::RXDMT0);
}

#[test]
fn null_descriptors_are_skipped() {
    let mut b = Bench::new(Bench::params(Chip::I82540em));
    b.ring = 8;
    for i in 0..8 {
        let buffer = if i % 2 == 0 { 0 } else { RX_BUFFERS + BUFFER * i };
        b.m.set_words(RX_RING + 16 * i, [buffer, 0]);
    }
    b.set(reg::RDBAL, RX_RING as u32);
    b.set(reg::RDLEN, 128);
    b.set(reg::RDT, 7);
    b.set(reg::RCTL, rctl::EN | rctl::SECRC);
    b.arrive(&frame(1, 60));
    b.pass(10 * US);
    assert_eq!(b.rx(0).status, rx_status::DD);
    assert_eq!(b.rx(1).status & 3, 3);
    assert_eq!(b.rx_bytes(1, 60), &frame(1, 60)[..]);
}

#[test]
fn a_disabled_receiver_receives_nothing() {
    let mut b = Bench::ready(Bench::params(Chip::I82540em), 8);
    b.nic.set_link(b.now, false);
    b.arrive(&frame(1, 60));
    assert_eq!(b.get(reg::ICR) & cause::LSC, cause::LSC);
    b.nic.set_link(b.now, true);
    b.pass(1);
    assert_eq!(b.get(reg::ICR) & cause::LSC, cause::LSC);
    b.set(reg::RCTL, 0);
    b.arrive(&frame(2, 60));
    assert_eq!(b.nic.tally().dropped.disabled, 2);
    assert_eq!(b.get(stat::TPR), 0);
}

#[test]
fn a_reset_drops_and_counts_the_frames_inside() {
    let mut b = Bench::ready(Bench::params(Chip::I82543gc), 64);
    for i in 0..20 {
        b.arrive(&frame(i, 60));
    }
    b.pass(3 * US);
    b.set(reg::CTRL, 1 << 26);
    assert!(b.nic.tally().closes());
    assert_eq!((b.nic.tally().in_fifo, b.get(reg::RCTL), b.get(reg::IMS)), (0, 0, 0));
    assert_eq!(b.nic.tally().dropped.reset, 20 - b.nic.tally().to_host);
    b.pass(100 * US);
    assert_eq!(b.get(reg::RDH), 0);
}

#[test]
fn the_ring_wraps_and_nothing_beyond_it_is_touched() {
    // On a cache line and off it.
    for shift in [0, 16, 48] {
        let mut b = Bench::new(Bench::params(Chip::I82540em));
        let ring = RX_RING + shift;
        for i in 0..32 {
            b.m.set_words(ring + 16 * i, [RX_BUFFERS + BUFFER * i, 0]);
        }
        let beyond = b.m.memory[ring as usize + 128..][..384].to_vec();
        b.set(reg::RDBAL, ring as u32);
        b.set(reg::RDLEN, 128);
        b.set(reg::RDT, 7);
        b.set(reg::RCTL, rctl::EN | rctl::SECRC);
        let mut next = 0;
        for i in 0..100u8 {
            let burst = i % 7 + 1;
            for j in 0..burst {
                b.arrive(&frame(i ^ j << 4, 60));
            }
            b.pass(50 * US);
            for j in 0..burst {
                let word = b.m.word(ring + 16 * next + 8);
                assert_eq!(word & desc::RX_DD, desc::RX_DD);
                assert_eq!(b.rx_bytes(next, 60), &frame(i ^ j << 4, 60)[..]);
                b.m.set_words(ring + 16 * next, [RX_BUFFERS + BUFFER * next, 0]);
                next = (next + 1) % 8;
            }
            assert_eq!(u64::from(b.get(reg::RDH)), next);
            b.set(reg::RDT, (next as u32 + 7) % 8);
        }
        assert_eq!(b.m.memory[ring as usize + 128..][..384], beyond);
    }
}
