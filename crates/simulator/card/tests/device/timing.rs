//! Times against closed forms: bus with 100 ns a burst and 1 ns a byte.

use crate::bench::*;
use kpps_card::{Moderation, Params, Purpose};
use kpps_datasheet::bit::{cause, dctl, rdtr};
use kpps_datasheet::chip::DelayTimer;
use kpps_datasheet::desc::tx_cmd;
use kpps_datasheet::{Chip, reg};

/// Bus time of 60 or 64 bytes: both round to 64.
const DATA: u64 = 164 * NS;

fn chip_with(rx_engine_ps: u64, tx_engine_ps: u64) -> Params {
    Params { rx_engine_ps, tx_engine_ps, ..Bench::params(Chip::I82540em) }
}

#[test]
fn a_lone_frame_is_data_then_write_back_then_interrupt() {
    let mut b = Bench::ready(chip_with(0, 0), 64);
    b.set(reg::IMS, cause::RXT0);
    let t = b.now;
    b.arrive(&frame(1, 60));
    b.run(t + DATA);
    assert_eq!(b.rx_bytes(0, 60), &frame(1, 60)[..]);
    assert_eq!(b.visible(), 0);
    let written = t + DATA + 116 * NS;
    assert_eq!(b.nic.next_event_ps(), written);
    b.run(written - 1);
    assert_eq!((b.visible(), b.nic.interrupt_line()), (0, false));
    b.run(written);
    assert_eq!((b.visible(), b.nic.interrupt_line()), (1, true));
    assert_eq!((b.rx(0).length, b.rx(0).status & 3), (60, 3));
    assert_eq!(b.get(reg::RDH), 1);
    assert_eq!(b.get(reg::ICR) & cause::RXT0, cause::RXT0);
    assert!(!b.nic.interrupt_line());
}

#[test]
fn back_to_back_the_engine_starts_one_frame_in_its_time() {
    let engine = 1_470 * NS;
    let mut b = Bench::ready(chip_with(engine, 0), 256);
    let t = b.now;
    for i in 0..40 {
        b.arrive(&frame(i, 60));
    }
    b.pass(100 * US);
    let data = b.m.bursts(Purpose::RxData);
    for (i, burst) in data.iter().enumerate() {
        assert_eq!(burst.requested, t + i as u64 * engine);
        assert_eq!(burst.bytes, 64);
    }
    assert_eq!(data.len(), 40);
    // Four descriptors a write-back.
    let backs = b.m.bursts(Purpose::RxWriteBack);
    assert_eq!(backs.len(), 10);
    assert!(backs.iter().all(|w| w.bytes == 64 && w.addr % 64 == 0));
}

#[test]
fn a_slow_bus_is_the_limit() {
    let mut b = Bench::ready(chip_with(10 * NS, 0), 256);
    b.m.burst_ps = 500 * NS;
    for i in 0..40 {
        b.arrive(&frame(i, 60));
    }
    b.pass(100 * US);
    // The bus never rests between the first data burst and the last write-back.
    let mut free = b.m.log[0].requested;
    for burst in &b.m.log {
        assert_eq!(burst.end - free, 500 * NS + u64::from(burst.bytes) * NS);
        free = burst.end;
    }
    // 40 of data, 10 write-backs, and none but the descriptors that were there.
    assert_eq!(b.m.log.len(), 50);
}

#[test]
fn rdtr_restarts_or_not() {
    let tick = 1_024 * NS;
    for (semantics, last) in [(DelayTimer::EachPacket, 30 * US), (DelayTimer::FirstPacket, 0)] {
        let mut b = Bench::ready(Params { rdtr_from: semantics, ..chip_with(0, 0) }, 64);
        b.set(reg::RDTR, 100);
        b.set(reg::IMS, cause::RXT0);
        let t = b.now;
        for at in [0, 10, 20, 30] {
            b.run(t + at * US);
            b.arrive(&frame(at as u8, 60));
        }
        // The cache line of four is written at once, without an interrupt.
        b.run(t + 50 * US);
        assert_eq!((b.visible(), b.nic.interrupt_line()), (4, false));
        let due = t + last + DATA + 100 * tick;
        b.run(due - 1);
        assert!(!b.nic.interrupt_line());
        b.run(due);
        assert!(b.nic.interrupt_line(), "{semantics:?}");
    }
}

#[test]
fn qemus_card_interrupts_at_once_and_then_is_quiet() {
    // RDTR, RADV and ITR, and the quiet time in microseconds, rounded up to whole ones.
    for (rdtr, radv, itr, quiet) in [
        (0, 0, 0, 128),
        (0, 0, 488, 128),
        (0, 0, 1000, 256),
        // RADV is not heeded without RDTR; the shorter of the two counts, and no RDTR delays a cause.
        (0, 125, 1000, 256),
        (200, 200, 1000, 205),
        (200, 125, 1000, 128),
    ] {
        let params = Params { moderation: Moderation::Qemu, ..chip_with(0, 0) };
        let mut b = Bench::ready(params, 64);
        for (register, value) in [(reg::RDTR, rdtr), (reg::RADV, radv), (reg::ITR, itr)] {
            b.set(register, value);
        }
        let first = b.now;
        b.arrive(&frame(1, 60));
        b.set(reg::IMS, cause::RXT0);
        b.run(first + DATA + 116 * NS);
        assert!(b.nic.interrupt_line());
        b.get(reg::ICR);
        b.arrive(&frame(1, 60));
        b.run(first + DATA + 116 * NS + quiet * US - US);
        assert!(!b.nic.interrupt_line(), "{rdtr} {radv} {itr}");
        b.pass(US);
        assert!(b.nic.interrupt_line(), "{rdtr} {radv} {itr}");
    }
}

#[test]
fn qemus_card_is_quiet_for_tadv_if_a_delayed_report_was_due() {
    for (cmd, quiet) in [(tx_cmd::IDE, 205), (0, 256)] {
        let params = Params { moderation: Moderation::Qemu, ..chip_with(0, 0) };
        let mut b = Bench::ready(params, 64);
        b.set(reg::TIDV, 8);
        b.set(reg::TADV, 200);
        b.set(reg::ITR, 1000);
        b.set(reg::IMS, cause::TXDW);
        let send = |b: &mut Bench| {
            b.put_frame(&frame(1, 60), tx_cmd::EOP | tx_cmd::IFCS | tx_cmd::RS | cmd);
            b.ring_doorbell();
        };
        send(&mut b);
        while !b.nic.interrupt_line() {
            b.pass(NS);
        }
        let raised = b.now;
        b.get(reg::ICR);
        send(&mut b);
        // Another ITR is for the next quiet time.
        b.set(reg::ITR, 600);
        b.run(raised + quiet * US - US);
        assert!(!b.nic.interrupt_line(), "{cmd}");
        b.pass(US);
        assert!(b.nic.interrupt_line(), "{cmd}");
    }
}

#[test]
fn rdtr_writes_back_before_it_interrupts() {
    let mut b = Bench::ready(chip_with(0, 0), 64);
    b.set(reg::RDTR, 10);
    b.set(reg::IMS, cause::RXT0);
    let t = b.now;
    b.arrive(&frame(1, 60));
    b.run(t + DATA + 10 * 1_024 * NS);
    assert_eq!((b.visible(), b.nic.interrupt_line()), (0, false));
    b.pass(116 * NS);
    assert_eq!((b.visible(), b.nic.interrupt_line()), (1, true));
}

#[test]
fn radv_bounds_the_wait_and_cancels_rdtr() {
    let mut b = Bench::ready(chip_with(0, 0), 64);
    b.set(reg::RDTR, 20);
    b.set(reg::RADV, 40);
    b.set(reg::IMS, cause::RXT0);
    let t = b.now;
    for i in 0..5 {
        b.run(t + i * 10 * US);
        b.arrive(&frame(i as u8, 60));
    }
    // The fifth frame has started a new line, which is still on chip.
    let due = t + DATA + 40 * 1_024 * NS;
    b.run(due);
    assert!(!b.nic.interrupt_line());
    b.run(due + 116 * NS);
    assert!(b.nic.interrupt_line());
    b.get(reg::ICR);
    // The sixth starts both timers anew.
    b.run(t + 50 * US);
    b.arrive(&frame(5, 60));
    b.run(t + 50 * US + DATA + 20 * 1_024 * NS + 116 * NS - 1);
    assert!(!b.nic.interrupt_line());
    b.pass(1);
    assert!(b.nic.interrupt_line());
}

#[test]
fn rdtr_cancels_radv() {
    let mut b = Bench::ready(chip_with(0, 0), 64);
    b.set(reg::RDTR, 10);
    b.set(reg::RADV, 100);
    b.arrive(&frame(1, 60));
    b.pass(20 * US);
    assert_eq!(b.get(reg::ICR), cause::RXT0);
    b.pass(1_000 * US);
    assert_eq!(b.get(reg::ICR), 0);
}

#[test]
fn a_fetch_that_leaves_some_behind_ends_at_a_line() {
    let mut b = Bench::new(Params { fetch_max_descriptors: 7, fetch_whole_lines: false, ..chip_with(0, 0) });
    b.set(reg::RDBAL, RX_RING as u32 + 16);
    b.set(reg::RDLEN, 1024);
    b.set(reg::RDT, 9);
    b.set(reg::RCTL, 2);
    b.pass(US);
    // All null: used up at once. The base is a quarter line off: 3 + 4 descriptors, then 2.
    let f = b.m.bursts(Purpose::RxDescriptorFetch);
    assert_eq!(f.iter().map(|b| b.bytes / 16).collect::<Vec<_>>(), [7]);
    b.arrive(&frame(1, 60));
    b.pass(10 * US);
    let f = b.m.bursts(Purpose::RxDescriptorFetch);
    assert_eq!(f.iter().map(|b| b.bytes / 16).collect::<Vec<_>>(), [7, 2]);
    let mut b = Bench::new(Params { fetch_max_descriptors: 6, fetch_whole_lines: false, ..chip_with(0, 0) });
    b.set(reg::RDBAL, RX_RING as u32);
    b.set(reg::RDLEN, 1024);
    b.set(reg::RDT, 9);
    b.set(reg::RCTL, 2);
    b.arrive(&frame(1, 60));
    b.pass(10 * US);
    let f = b.m.bursts(Purpose::RxDescriptorFetch);
    assert_eq!(f.iter().map(|b| b.bytes / 16).collect::<Vec<_>>(), [4, 5]);
}

#[test]
fn flush_now() {
    let mut b = Bench::ready(chip_with(0, 0), 64);
    b.set(reg::RDTR, 1000);
    b.arrive(&frame(1, 60));
    b.pass(US);
    assert_eq!(b.visible(), 0);
    b.set(reg::RDTR, 1000 | rdtr::FPD);
    b.pass(116 * NS);
    assert_eq!(b.visible(), 1);
    assert_eq!(b.get(reg::ICR) & cause::RXT0, cause::RXT0);
    assert_eq!(b.get(reg::RDTR), 1000);
    b.pass(10_000 * US);
    assert_eq!(b.get(reg::ICR), 0);
}

/// SDM 3.2.7.1.1: a disabled timer does not expire. Frames that waited for it wait for the next frame.
#[test]
fn rdtr_of_0_stops_a_running_timer_and_reports_nothing() {
    for (flush, reported) in [(0, 0), (rdtr::FPD, 1)] {
        let mut b = Bench::ready(chip_with(0, 0), 64);
        b.set(reg::RDTR, 10);
        b.arrive(&frame(1, 60));
        b.pass(US);
        b.set(reg::RDTR, flush);
        b.pass(1000 * US);
        assert_eq!(b.visible(), reported);
        b.arrive(&frame(2, 60));
        b.pass(10 * US);
        assert_eq!(b.visible(), 2);
    }
}

#[test]
fn descriptors_come_in_cache_lines_and_ahead() {
    let mut b = Bench::new(chip_with(0, 0));
    b.ring = 128;
    for i in 0..128 {
        b.m.set_words(RX_RING + 16 * i, [RX_BUFFERS + BUFFER * i, 0]);
    }
    b.set(reg::RDBAL, RX_RING as u32);
    b.set(reg::RDLEN, 2048);
    b.set(reg::RDT, 6);
    b.set(reg::RXDCTL, dctl::descriptors(16, 8, 0));
    b.set(reg::RCTL, 2 | 1 << 26);
    // Six are given, two lines move.
    b.pass(US);
    let f = b.m.bursts(Purpose::RxDescriptorFetch);
    assert_eq!((f[0].addr, f[0].bytes), (RX_RING, 128));
    // 84 more: as many as there is room for, up to the end of a line (from descriptor 6 on).
    b.set(reg::RDT, 90);
    b.pass(US);
    let f = b.m.bursts(Purpose::RxDescriptorFetch);
    assert_eq!(f.len(), 2);
    assert_eq!((f[1].addr, f[1].bytes), (RX_RING + 64, 960));
    // Below 16 on chip, the next are fetched although the cache is not empty.
    let before = b.m.log.len();
    for i in 0..49 {
        b.arrive(&frame(i, 60));
        b.pass(5 * US);
    }
    let f: Vec<_> = b.m.log[before..].iter().filter(|x| x.purpose == Purpose::RxDescriptorFetch).collect();
    assert_eq!(f.len(), 1);
    assert_eq!(b.nic.tally().to_host, 49);
}

#[test]
fn transmit_is_serial_fetch_read_engine() {
    let engine = 1_000 * NS;
    let mut b = Bench::ready(chip_with(0, engine), 64);
    for i in 0..8 {
        b.put_frame(&frame(i, 60), 0);
    }
    let t = b.now;
    b.ring_doorbell();
    b.pass(100 * US);
    let fetch = b.m.bursts(Purpose::TxDescriptorFetch);
    assert_eq!((fetch[0].requested, fetch[0].bytes, fetch.len()), (t, 128, 1));
    let reads = b.m.bursts(Purpose::TxData);
    let first = t + 228 * NS;
    for (i, r) in reads.iter().enumerate() {
        assert_eq!(r.requested, first + i as u64 * (160 * NS + engine));
    }
    // Each frame leaves 72 byte times after the arrival of its data.
    for (r, (left, _)) in reads.iter().zip(&b.m.sent) {
        assert_eq!(*left, r.end + 72 * 8 * NS);
    }
    assert_eq!(b.m.sent.len(), 8);
}

#[test]
fn a_fast_engine_sends_at_line_rate() {
    for (len, slot) in [(60, 84), (1514, 1538)] {
        let mut b = Bench::ready(chip_with(0, 0), 64);
        b.m.burst_ps = 0;
        for i in 0..60 {
            b.put_frame(&frame(i, len), 0);
        }
        b.ring_doorbell();
        b.pass(2_000 * US);
        assert_eq!(b.m.sent.len(), 60);
        for pair in b.m.sent.windows(2) {
            assert_eq!(pair[1].0 - pair[0].0, slot * 8 * NS);
        }
        let t = b.nic.tally();
        assert_eq!(t.wire_busy_ps, 60 * slot * 8 * NS);
        let all = t.wire_busy_ps + t.wire_idle_with_work_ps + t.wire_idle_without_work_ps;
        assert_eq!(all, b.now, "every moment is counted once");
    }
}

/// SDM 8.7.1: the gap is the larger of AIFS and TIPG's, at 8 ns a clock; table 13-78: on the 82544 their sum.
/// A frame that does not follow another at once does not wait.
#[test]
fn adaptive_spacing_keeps_frames_apart() {
    for (chip, throttle, gap) in [
        (Chip::I82540em, 11, 12),
        (Chip::I82540em, 80, 80),
        (Chip::I82540em, 0xFFFF, 0xFFFF),
        (Chip::I82544, 11, 23),
        (Chip::I82544, 80, 92),
    ] {
        let mut b = Bench::ready(Params { rx_engine_ps: 0, tx_engine_ps: 0, ..Bench::params(chip) }, 64);
        b.m.burst_ps = 0;
        b.set(reg::AIFS, 0xABCD_0000 | throttle);
        assert_eq!(b.get(reg::AIFS), throttle);
        for i in 0..3 {
            b.put_frame(&frame(i, 60), 0);
        }
        b.ring_doorbell();
        b.pass(3_000 * US);
        b.put_frame(&frame(3, 60), 0);
        let rung = b.now;
        b.ring_doorbell();
        b.pass(3_000 * US);
        let left: Vec<_> = b.m.sent.iter().map(|(at, _)| *at).collect();
        assert_eq!(left.len(), 4);
        for pair in left[..3].windows(2) {
            assert_eq!(pair[1] - pair[0], (72 + gap) * 8 * NS, "{chip}");
        }
        assert!(left[3] - rung < 2 * US, "{chip}");
    }
}

#[test]
fn throttle_keeps_interrupts_apart() {
    let mut b = Bench::ready(chip_with(0, 0), 256);
    b.set(reg::ITR, 500);
    b.set(reg::IMS, cause::RXT0);
    let mut raised = vec![];
    for i in 0..100 {
        b.arrive(&frame(i, 60));
        for _ in 0..10 {
            b.pass(US);
            if b.nic.interrupt_line() {
                raised.push(b.now);
                b.get(reg::ICR);
            }
        }
    }
    assert!(raised.len() > 5);
    for pair in raised.windows(2) {
        assert!((128 * US..129 * US).contains(&(pair[1] - pair[0])), "{}", pair[1] - pair[0]);
    }
}

#[test]
fn a_fetch_takes_several_bursts_until_the_chip_is_full_or_the_tail_is_reached() {
    let params = Params { rx_burst_descriptors: 16, ..chip_with(0, 0) };
    let mut b = Bench::ready(params, 256);
    // The descriptors that `ready` fetched are used up after 64 frames; then four bursts fetch the next 64.
    for i in 0..64 {
        b.arrive(&frame(i, 60));
        b.pass(US);
    }
    b.pass(US);
    let bursts =
        |b: &Bench| b.m.bursts(Purpose::RxDescriptorFetch).iter().map(|f| f.bytes / 16).collect::<Vec<_>>();
    assert_eq!(bursts(&b), [16; 4]);
    assert_eq!(b.nic.tally().rx_fetches_cut, 0);
    // 191 are left until the tail: two more fetches fill the chip, and the third, at 60, is cut short by the
    // tail.
    for i in 0..191 {
        b.arrive(&frame(i, 60));
        b.pass(US);
    }
    assert_eq!(bursts(&b), [16; 12], "whole lines, though the last descriptor is not the card's yet");
    assert_eq!(b.nic.tally().rx_fetches_cut, 1);
    // Starved, it fetches what each tail update gives.
    for tail in [15, 31] {
        b.set(reg::RDT, tail);
        b.pass(US);
    }
    assert_eq!(bursts(&b)[12..], [4, 16], "the ring ends a burst");
    assert_eq!(b.nic.tally().rx_fetches_cut, 2);
}

#[test]
fn an_incomplete_line_waits_for_the_next_frame_or_for_its_time() {
    let params = Params { rx_idle_report_ps: 1_024 * NS, ..chip_with(0, 0) };
    let mut b = Bench::ready(params, 64);
    b.set(reg::IMS, cause::RXT0);
    // Four frames 900 ns apart: one write-back, one interrupt.
    for i in 0..4 {
        b.arrive(&frame(i, 60));
        b.pass(900 * NS);
        assert_eq!(b.visible(), if i == 3 { 4 } else { 0 });
    }
    assert_eq!(b.get(reg::ICR) & cause::RXT0, cause::RXT0);
    b.pass(10 * US);
    assert_eq!(b.get(reg::ICR), 0, "nothing was left to report");
    // A lone frame: after its time, with its interrupt.
    let t = b.now;
    b.arrive(&frame(9, 60));
    b.run(t + DATA + 1_024 * NS);
    assert_eq!(b.visible(), 4);
    b.pass(116 * NS);
    assert_eq!((b.visible(), b.nic.interrupt_line()), (5, true));
    assert_eq!(b.nic.tally().rx_write_backs, 2);
}

#[test]
fn a_frame_that_waits_for_the_bus_completes_the_line() {
    // Each burst takes longer than an incomplete line is waited for.
    let params = Params { rx_idle_report_ps: 1_024 * NS, ..chip_with(0, 0) };
    let mut b = Bench::ready(params, 64);
    b.m.burst_ps = 1_500 * NS;
    for i in 0..9 {
        b.arrive(&frame(i, 60));
    }
    b.pass(100 * US);
    let descriptors: Vec<u32> = b.m.bursts(Purpose::RxWriteBack).iter().map(|w| w.bytes / 16).collect();
    assert_eq!(descriptors, [4, 4, 1]);
}
