//! Transmission and reports.

use crate::bench::*;
use kpps_card::{Params, Purpose};
use kpps_datasheet::bit::{cause, ctrl, dctl, rctl, tctl};
use kpps_datasheet::chip::DelayTimer;
use kpps_datasheet::desc::tx_cmd::{IDE, RPS, RS};
use kpps_datasheet::{Chip, reg, stat};

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
        let mut b = Bench::ready(Params { tidv_from: semantics, ..Bench::params(Chip::I82540em) }, 64);
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
fn reports_are_packed_with_a_threshold() {
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
fn short_frames_are_padded_with_psp() {
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
    // No frame arrives from the wire.
    b.arrive(&frame(7, 60));
    assert_eq!(b.nic.tally().dropped.disabled, 1);
}

#[test]
fn a_wrong_fcs_from_software_is_marked() {
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

#[test]
fn the_ring_wraps_and_nothing_beyond_it_is_touched() {
    for packed in [0, 3] {
        let mut b = Bench::ready(Bench::params(Chip::I82540em), 8);
        b.set(reg::TXDCTL, dctl::descriptors(0, 0, packed));
        b.set(reg::TIDV, 1);
        // If the card fetched the descriptors behind the ring, it would send their frames.
        for i in 8..32 {
            b.m.set_words(TX_RING + 16 * i, [TX_BUFFERS, 99 | 3 << 24]);
        }
        let beyond = b.m.memory[TX_RING as usize + 128..][..512].to_vec();
        for i in 0..100u8 {
            for j in 0..i % 7 + 1 {
                b.put_frame(&frame(i ^ j << 4, 60), RS);
            }
            b.ring_doorbell();
            b.pass(50 * US);
            assert_eq!(u64::from(b.get(reg::TDH)), b.tx);
            assert_eq!(b.m.sent.len(), usize::from(i % 7 + 1));
            for (j, (_, f)) in b.m.sent.drain(..).enumerate() {
                assert_eq!(f, frame(i ^ (j as u8) << 4, 60));
            }
            let last = (b.tx + 7) % 8;
            assert!(b.tx_done(last));
        }
        assert_eq!(b.m.memory[TX_RING as usize + 128..][..512], beyond);
    }
}

#[test]
fn a_packet_that_is_too_long_is_discarded_even_if_it_fits() {
    let mut b = ready(Chip::I82540em);
    b.set(reg::PBA, 8);
    for length in [8144, 8145] {
        b.put([TX_BUFFERS, 8144]);
        b.put([TX_BUFFERS, length | 3 << 24]);
    }
    b.ring_doorbell();
    b.pass(1_000 * US);
    assert_eq!(b.m.sent.iter().map(|s| s.1.len()).collect::<Vec<_>>(), [16_288]);
    assert_eq!((b.nic.tally().tx_discarded, b.get(reg::TDH)), (1, 4));
}

#[test]
fn a_reset_drops_and_counts_frames_to_send() {
    let mut b = ready(Chip::I82540em);
    for i in 0..10 {
        b.put_frame(&frame(i, 1500), 0);
    }
    b.ring_doorbell();
    b.pass(30 * US);
    let t = *b.nic.tally();
    assert!(t.tx_in_flight > 1 && t.transmitted > 0);
    b.set(reg::CTRL, ctrl::RST);
    let after = *b.nic.tally();
    assert_eq!((after.tx_in_flight, after.tx_discarded), (0, t.tx_in_flight));
    b.pass(100 * US);
    assert_eq!(b.nic.tally().transmitted, t.transmitted);
}

#[test]
fn a_context_costs_its_time() {
    let mut b = Bench::ready(Params { tx_context_ps: 700 * NS, ..Bench::params(Chip::I82545em) }, 64);
    b.put([0, 1 << 29]);
    b.put_frame(&frame(1, 60), 0);
    let t = b.now;
    b.ring_doorbell();
    b.pass(100 * US);
    assert_eq!(b.m.bursts(Purpose::TxData)[0].requested, t + 164 * NS + 700 * NS);
}
