//! What is sent and what is reported.

use crate::bench::*;
use kpps_datasheet::bit::{cause, dctl, rctl, tctl};
use kpps_datasheet::chip::DelayTimer;
use kpps_datasheet::desc::tx_cmd::{IDE, RPS, RS};
use kpps_datasheet::{Chip, reg, stat};
use kpps_device::{Params, Purpose};

fn ready(chip: Chip) -> Bench {
    Bench::ready(Bench::params(chip), 64)
}

#[test]
fn only_those_with_rs_are_reported() {
    let mut b = ready(Chip::I82540em);
    for i in 0..8 {
        b.put_frame(&frame(i, 60), if i % 4 == 3 { RS } else { 0 });
    }
    b.ring_doorbell();
    b.pass(100 * US);
    assert_eq!(b.m.sent.len(), 8);
    assert!((0..8).all(|i| b.tx_done(i) == (i % 4 == 3)));
    let reports = b.m.bursts(Purpose::TxWriteBack);
    assert_eq!(reports.len(), 2);
    assert!(reports.iter().all(|r| r.bytes == 1));
    assert_eq!(b.get(reg::ICR), cause::TXDW | cause::TXQE | cause::TXD_LOW);
    assert_eq!((b.get(reg::TDH), b.get(reg::TDT)), (8, 8));
    assert_eq!(b.m.sent[3].1, frame(3, 60));
}

#[test]
fn delayed_reports_interrupt_later() {
    for (semantics, interrupts_at) in [(DelayTimer::EachPacket, 30), (DelayTimer::FirstPacket, 0)] {
        let mut b = Bench::ready(Params { tx_delay: semantics, ..Bench::params(Chip::I82540em) }, 64);
        b.set(reg::IMS, cause::TXDW);
        b.set(reg::TIDV, 100);
        let t = b.now;
        for at in [0, 10, 20, 30] {
            b.run(t + at * US);
            b.put_frame(&frame(0, 60), RS | IDE);
            b.ring_doorbell();
        }
        b.pass(10 * US);
        assert!((0..4).all(|i| b.tx_done(i)), "reported without delay");
        // Fetch 164 ns, data 160 ns, report 101 ns.
        let due = t + interrupts_at * US + 425 * NS + 100 * 1_024 * NS;
        b.run(due - 1);
        assert!(!b.nic.interrupt_line());
        b.run(due);
        assert!(b.nic.interrupt_line(), "{semantics:?}");
    }
}

#[test]
fn absolute_transmit_delay_bounds_the_wait() {
    let mut b = ready(Chip::I82540em);
    b.set(reg::IMS, cause::TXDW);
    b.set(reg::TIDV, 100);
    b.set(reg::TADV, 150);
    let t = b.now;
    let mut first = None;
    for i in 0..40 {
        b.run(t + i * 10 * US);
        b.put_frame(&frame(0, 60), RS | IDE);
        b.ring_doorbell();
        if b.nic.interrupt_line() && first.is_none() {
            first = Some(b.now - t);
        }
    }
    assert_eq!(first, Some(160 * US));
}

#[test]
fn reports_are_packed_when_asked() {
    let mut b = ready(Chip::I82540em);
    b.set(reg::TXDCTL, dctl::descriptors(0, 0, 8));
    b.set(reg::TIDV, 10);
    for i in 0..20 {
        b.put_frame(&frame(i, 60), RS);
    }
    b.ring_doorbell();
    b.pass(15 * US);
    let reports = b.m.bursts(Purpose::TxWriteBack);
    assert!(reports.iter().all(|r| r.bytes >= 128), "{reports:?}");
    let done = (0..20).filter(|&i| b.tx_done(i)).count();
    assert!((16..20).contains(&done), "{done}");
    b.pass(100 * US);
    assert!((0..20).all(|i| b.tx_done(i)), "the timer flushes the rest");
}

#[test]
fn report_packet_sent_waits_for_the_wire() {
    let mut b = ready(Chip::I82543gc);
    b.put_frame(&frame(0, 1514), RPS);
    b.put_frame(&frame(1, 60), RS);
    b.ring_doorbell();
    // Data is in the card after about 2 us; the frame needs 12 us on the wire.
    b.pass(10 * US);
    assert!(!b.tx_done(0) && !b.tx_done(1));
    b.pass(5 * US);
    assert_eq!(b.m.sent.len(), 2);
    assert!(b.tx_done(0) && b.tx_done(1));
}

#[test]
fn short_frames_are_padded_if_asked() {
    let mut b = ready(Chip::I82540em);
    b.put_frame(&frame(1, 30), 0);
    b.ring_doorbell();
    b.pass(20 * US);
    b.set(reg::TCTL, tctl::EN);
    b.put_frame(&frame(2, 30), 0);
    b.ring_doorbell();
    b.pass(20 * US);
    assert_eq!(b.m.sent[0].1, [frame(1, 30), vec![0; 30]].concat());
    assert_eq!(b.m.sent[1].1, frame(2, 30));
    assert_eq!((b.get(stat::TPT), b.get(stat::GPTC), b.get(stat::PTC64)), (2, 1, 1));
}

#[test]
fn a_frame_of_many_pieces() {
    let mut b = ready(Chip::I82542);
    let f = frame(9, 300);
    for (i, piece) in f.chunks(64).enumerate() {
        let buffer = b.buffer(piece);
        let last = i == 4;
        let cmd = if last { 0b11 } else { 0 };
        b.put([buffer, piece.len() as u64 | cmd << 24]);
        if i == 1 {
            // Null and empty descriptors carry no data.
            b.put([0, 500]);
            b.put([buffer, 0]);
        }
    }
    b.ring_doorbell();
    b.pass(50 * US);
    assert_eq!(b.m.sent.len(), 1);
    assert_eq!(b.m.sent[0].1, f);
}

#[test]
fn looped_frames_come_back() {
    let mut b = ready(Chip::I82543gc);
    b.set(reg::RCTL, rctl::EN | rctl::SECRC | rctl::LBM_TRANSCEIVER);
    for i in 0..5 {
        b.put_frame(&frame(i, 100), RS);
    }
    b.ring_doorbell();
    b.pass(50 * US);
    assert!(b.m.sent.is_empty());
    let t = b.nic.tally();
    assert_eq!((t.looped, t.to_host, t.transmitted), (5, 5, 5));
    assert_eq!(b.rx_bytes(4, 100), &frame(4, 100)[..]);
    // And from the wire nothing comes in.
    b.arrive(&frame(7, 60));
    assert_eq!(b.nic.tally().dropped.disabled, 1);
}

#[test]
fn a_wrong_fcs_from_software_is_told() {
    let mut b = ready(Chip::I82540em);
    let mut f = frame(1, 60);
    f.extend(crc32fast::hash(&f).to_le_bytes());
    for good in [true, false] {
        if !good {
            f[63] ^= 1;
        }
        let buffer = b.buffer(&f);
        b.put([buffer, 64 | 1 << 24]);
    }
    b.ring_doorbell();
    b.pass(50 * US);
    assert_eq!((b.m.sent.len(), b.m.sent_bad), (1, 1));
    assert_eq!(b.m.sent[0].1, frame(1, 60));
}
