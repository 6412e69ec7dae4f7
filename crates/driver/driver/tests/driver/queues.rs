//! Rings under random bursts and random devices: no panic, no buffer lost or duplicated, no register read.

use crate::common::*;
use kpps_datasheet::{
    Chip, desc,
    desc::{RxWriteback, rx_error, rx_status},
    reg,
};
use kpps_driver::{Checksum, Checksums, Config, Fragment, Offload, Refusal, TxMeta, config::*};
use kpps_platform::{Buffer, BufferSource, wrap::Counts};
use proptest::prelude::*;

fn policies() -> Vec<(Buffers, Refill)> {
    let mut all = Vec::new();
    for buffers in [Buffers::Fresh, Buffers::Recycled] {
        for when in [RefillWhen::EachFrame, RefillWhen::AfterBurst] {
            for group in [0, 1, 4] {
                all.push((buffers, Refill { when, group, aligned: false }));
            }
        }
    }
    all
}

fn with(buffers: Buffers, refill: Refill) -> Config {
    Config { buffers, refill, ..small() }
}

/// The device must have enough buffers for the longest frame: no group is completed before it has arrived.
#[test]
fn a_group_leaves_the_descriptors_of_the_longest_frame() {
    let refill = Refill { when: RefillWhen::EachFrame, group: 32, aligned: false };
    for (max_frame_bytes, held_back) in [(1522, 3), (9018, 1), (10_240, 1), (12_288, 0)] {
        let (nic, counts, pool) = (Nic::new(Chip::I82540em), Counts::new(), Pool::new(40, 2048));
        let config = Config { rx_ring: 8, max_frame_bytes, refill, ..small() };
        assert_eq!(start(&nic, &counts, config, &pool).rx.held_back(), held_back, "{max_frame_bytes}");
    }
}

#[test]
fn bursts_cost_one_tail_write_no_read_and_no_buffer() {
    for (chip, rx_format) in [
        (Chip::I82546eb, RxFormat::Best),
        (Chip::I82574l, RxFormat::Legacy),
        (Chip::I82574l, RxFormat::Extended),
    ] {
        bursts_cost(chip, rx_format);
    }
}

fn bursts_cost(chip: Chip, rx_format: RxFormat) {
    let (nic, counts, pool) = (Nic::new(chip), Counts::new(), Pool::new(64, 2048));
    let config = Config { rx_ring: 64, tx_ring: 64, rx_format, ..small() };
    let mut dev = start(&nic, &counts, config, &pool);
    let (reads, writes, takes) = (counts.reads(), counts.writes(), pool.takes.get());
    for burst in [1, 8, 32] {
        let before = counts.writes();
        for _ in 0..burst {
            assert!(nic.receive_frame(60));
        }
        assert_eq!(dev.rx.receive(32, |r| Some(r.buffer)), burst);
        assert_eq!(counts.writes() - before, 1, "receive {burst}");
    }
    let before = counts.writes();
    assert_eq!(dev.rx.receive(32, |r| Some(r.buffer)), 0);
    dev.rx.flush();
    dev.rx.refill();
    dev.tx.flush();
    assert_eq!(dev.tx.reclaim(32), 0);
    assert_eq!(counts.writes(), before, "empty bursts");
    assert_eq!((pool.takes.get(), pool.available()), (takes, 0), "recycling takes no buffer");
    // Forward received frames in their buffers.
    for burst in [1, 8, 32] {
        for _ in 0..burst {
            assert!(nic.receive_frame(60));
        }
        let before = counts.writes();
        let tx = &mut dev.tx;
        dev.rx.receive(burst, |r| {
            tx.send(r.buffer, r.bytes).unwrap();
            None
        });
        tx.flush();
        assert!(counts.writes() - before <= 2, "forward {burst}");
        nic.transmit(64);
        assert_eq!(dev.tx.reclaim(64), burst);
        dev.rx.refill();
    }
    assert_eq!(counts.reads(), reads, "no register was read");
    assert!(counts.writes() > writes);
}

/// If something overwrites the addresses in a ring, no slot stays unusable: the driver writes the complete
/// slot before the device gets it again, even if the slot keeps its buffer.
#[test]
fn overwritten_addresses_last_for_one_lap() {
    const GARBAGE: u64 = 0xdead_beef_0000;
    for (buffers, refill) in policies() {
        let (nic, counts, pool) = (Nic::new(Chip::I82540em), Counts::new(), Pool::new(64, 2048));
        let mut dev = start(&nic, &counts, with(buffers, refill), &pool);
        for lap in 0..3 {
            for frame in 0..3 * 16 {
                if frame == 5 {
                    (0..16).for_each(|slot| nic.scribble(0, 2 * slot, GARBAGE + lap));
                }
                assert!(nic.receive_frame(60), "{buffers:?} {refill:?}: frame {frame}");
                assert_eq!(dev.rx.receive(9, |frame| Some(frame.buffer)), 1);
            }
            let owned = nic.rx_descriptors();
            let different: std::collections::HashSet<_> = owned.iter().collect();
            assert!(owned.len() >= 8 && different.len() == owned.len(), "{owned:x?}");
            assert!(owned.iter().all(|[address, status]| *address < GARBAGE && *status == 0), "{owned:x?}");
        }
    }
}

#[test]
fn stock_refill_writes_the_tail_for_each_frame_and_groups_for_each_group() {
    for (group, doorbells) in [(1, 12), (4, 3), (5, 2), (0, 1)] {
        for when in [RefillWhen::EachFrame, RefillWhen::AfterBurst] {
            let (nic, counts, pool) = (Nic::new(Chip::I82542), Counts::new(), Pool::new(64, 2048));
            let mut dev =
                start(&nic, &counts, with(Buffers::Fresh, Refill { when, group, aligned: false }), &pool);
            for _ in 0..12 {
                assert!(nic.receive_frame(60));
            }
            let before = counts.writes();
            assert_eq!(dev.rx.receive(99, |r| Some(r.buffer)), 12);
            assert_eq!(counts.writes() - before, doorbells, "{group} {when:?}");
            dev.rx.flush();
            assert_eq!(nic.rx_owned(), 15);
            assert_eq!(nic.get(reg::RDT), 11, "the last filled slot");
        }
    }
}

/// The rule of Linux's e1000: the tail is the number of a filled slot, and a multiple of the group.
#[test]
fn an_aligned_refill_holds_back_the_slot_at_the_tail() {
    for when in [RefillWhen::EachFrame, RefillWhen::AfterBurst] {
        let (nic, counts, pool) = (Nic::new(Chip::I82540em), Counts::new(), Pool::new(128, 2048));
        let config =
            Config { rx_ring: 64, ..with(Buffers::Fresh, Refill { when, group: 16, aligned: true }) };
        let mut dev = start(&nic, &counts, config, &pool);
        assert_eq!((nic.get(reg::RDT), nic.rx_owned()), (48, 48), "of 64 filled slots");
        let mut take = |frames: usize, writes: usize, tail: u32| {
            (0..frames).for_each(|_| assert!(nic.receive_frame(60)));
            let before = counts.writes();
            assert_eq!(dev.rx.receive(99, |r| Some(r.buffer)), frames);
            assert_eq!((counts.writes() - before, nic.get(reg::RDT)), (writes as u64, tail), "{when:?}");
        };
        // Slot 0 is filled again first: now the device has the 16 slots before it.
        take(1, 1, 0);
        take(15, 0, 0);
        take(1, 1, 16);
        take(40, 2, 48);
        take(40, 3, 32);
    }
}

#[test]
fn each_examined_descriptor_is_announced_once() {
    let (nic, counts, pool) = (Nic::new(Chip::I82540em), Counts::new(), Pool::new(64, 2048));
    let mut dev = start(&nic, &counts, small(), &pool);
    for _ in 0..5 {
        nic.receive_frame(60);
    }
    nic.examined.set(0);
    dev.rx.receive(5, |r| Some(r.buffer));
    assert_eq!(nic.examined.get(), 5);
    dev.rx.receive(5, |r| Some(r.buffer));
    assert_eq!(nic.examined.get(), 6, "an empty poll examines one descriptor");
    let mut source = pool.clone();
    dev.tx.set_polled(true);
    for _ in 0..9 {
        dev.tx.send(source.take().unwrap(), 60).unwrap();
    }
    dev.tx.flush();
    nic.transmit(99);
    nic.examined.set(0);
    assert_eq!(dev.tx.reclaim(99), 8, "two reports of four");
    assert_eq!(nic.examined.get(), 2, "one for each report");
    assert!(dev.tx.request_report());
    nic.transmit(99);
    assert_eq!(dev.tx.reclaim(99), 1);
    assert_eq!((dev.tx.pending(), dev.tx.counters().report_requests), (0, 1));
}

#[test]
fn a_starved_ring_recovers() {
    for (buffers, refill) in policies() {
        let (nic, counts, pool) = (Nic::new(Chip::I82540em), Counts::new(), Pool::new(16, 2048));
        let mut dev = start(&nic, &counts, with(buffers, refill), &pool);
        let mut kept = Vec::new();
        while nic.receive_frame(60) {}
        assert_eq!(
            dev.rx.receive(99, |r| {
                kept.push(r.buffer);
                None
            }),
            15
        );
        assert!(dev.rx.counters().no_buffer > 0);
        assert_eq!(dev.rx.empty_slots(), 15);
        assert_eq!(nic.rx_owned(), 1, "the slot that was held back works now");
        assert!(nic.receive_frame(60));
        dev.rx.receive(99, |r| {
            kept.push(r.buffer);
            None
        });
        assert_eq!((kept.len(), dev.rx.empty_slots()), (16, 16));
        for buffer in kept {
            pool.clone().give(buffer);
        }
        assert_eq!(dev.rx.receive(99, |r| Some(r.buffer)), 0);
        assert_eq!((nic.rx_owned(), dev.rx.empty_slots()), (15, 0), "{buffers:?} {refill:?}");
        dev.rx.source_mut();
        drop(dev);
        assert_eq!(pool.available(), 16);
    }
}

/// If a ring has lost buffers, a reset moves the remaining ones to its first slots, one to each slot. The
/// device gets each of them once, and a frame arrives in the buffer of its descriptor.
#[test]
fn a_reset_of_a_partly_filled_ring_gives_each_buffer_one_descriptor() {
    for (buffers, refill) in policies() {
        for (lost, turned) in (0..=16).flat_map(|lost| [0, 3, 15].map(|turned| (lost, turned))) {
            let case = format!("{buffers:?} {refill:?}, {lost} lost, turned by {turned}");
            let (nic, counts, pool) = (Nic::new(Chip::I82540em), Counts::new(), Pool::new(16, 2048));
            let mut dev = start(&nic, &counts, with(buffers, refill), &pool);
            let mut kept = Vec::new();
            for frame in 0..turned + lost {
                assert!(nic.receive_frame(60), "{case}");
                dev.rx.receive(99, |r| {
                    if frame < turned {
                        return Some(r.buffer);
                    }
                    kept.push(r.buffer);
                    None
                });
                dev.rx.flush();
            }
            dev.reset().unwrap();
            nic.rx_head.set(0);
            let filled = 16 - lost;
            assert_eq!(dev.rx.empty_slots(), lost, "{case}");
            // A full ring holds its last slot back.
            let mut addresses: Vec<_> = nic.rx_descriptors().iter().map(|words| words[0]).collect();
            assert_eq!(addresses.len(), filled.min(15), "{case}");
            for &address in &addresses {
                assert!(nic.receive_frame(60), "{case}");
                let mut arrived = None;
                dev.rx.receive(99, |r| {
                    arrived = Some(r.buffer.bus());
                    kept.push(r.buffer);
                    None
                });
                assert_eq!(arrived, Some(address), "{case}");
            }
            addresses.sort_unstable();
            addresses.dedup();
            assert_eq!(addresses.len(), filled.min(15), "a buffer with two descriptors: {case}");
            kept.into_iter().for_each(|buffer| pool.clone().give(buffer));
            drop(dev);
            assert_eq!(pool.available(), 16, "{case}");
        }
    }
}

#[test]
fn buffers_are_synchronised_each_time_they_go_to_the_device() {
    for (buffers, refill) in policies() {
        let (nic, counts, pool) = (Nic::new(Chip::I82540em), Counts::new(), Pool::new(64, 2048));
        let mut dev = start(&nic, &counts, with(buffers, refill), &pool);
        for round in 0..40 {
            if round == 20 {
                dev.reset().unwrap();
            }
            assert!(nic.receive_frame(60));
            let received = dev.rx.receive(99, |r| {
                assert_eq!(r.buffer.shown.take(), 2048, "{buffers:?} {refill:?}");
                Some(r.buffer)
            });
            assert_eq!(received, 1);
        }
    }
}

#[test]
fn unfit_buffers_are_never_given_to_the_device() {
    let (nic, counts, pool) = (Nic::new(Chip::I82540em), Counts::new(), Pool::new(40, 2047));
    let dev = start(&nic, &counts, small(), &pool);
    assert_eq!((dev.rx.empty_slots(), nic.rx_owned()), (16, 0), "too small");
    let crossing = Pool::at(0xFFF0, 0x1_0000, 40, 2048);
    for (chip, empty) in [(Chip::I82546eb, 16), (Chip::I82540em, 0)] {
        let dev = start(&Nic::new(chip), &counts, small(), &crossing);
        assert_eq!(dev.rx.empty_slots(), empty, "across 64 KiB");
    }
}

fn writeback(length: u16, status: u8, errors: u8) -> RxWriteback {
    RxWriteback { length, status: rx_status::DD | status, errors, special: 0x2064, ..Default::default() }
}

const EOP: u8 = rx_status::EOP;

#[test]
fn status_errors_and_tag_of_a_frame() {
    let (nic, counts, pool) = (Nic::new(Chip::I82544), Counts::new(), Pool::new(40, 2048));
    let mut dev = start(&nic, &counts, small(), &pool);
    let verdicts = [
        (0, 0, Checksum::Unknown, Checksum::Unknown),
        (rx_status::IPCS, 0, Checksum::Good, Checksum::Unknown),
        (rx_status::IPCS | rx_status::TCPCS, rx_error::TCPE, Checksum::Good, Checksum::Bad),
        (rx_status::IPCS | rx_status::IXSM, rx_error::IPE, Checksum::Unknown, Checksum::Unknown),
    ];
    for (status, errors, ip, transport) in verdicts {
        nic.receive(writeback(60, EOP | status, errors));
        let taken = dev.rx.receive(9, |r| {
            assert_eq!((r.ip_checksum(), r.transport_checksum()), (ip, transport));
            assert_eq!((r.vlan(), r.is_inexact()), (None, false));
            assert!(r.first && r.last && !r.error && r.bytes == 60);
            Some(r.buffer)
        });
        assert_eq!(taken, 1);
    }
    nic.receive(writeback(60, EOP | rx_status::VP | rx_status::PIF, 0));
    dev.rx.receive(9, |r| {
        assert_eq!((r.vlan(), r.is_inexact()), (Some(0x2064), true));
        Some(r.buffer)
    });
    assert_eq!(dev.rx.counters().frames, 5);
    assert_eq!(dev.rx.counters().bytes, 300);
}

#[test]
fn long_frames_and_software_fcs() {
    // (chip, strip, lengths of the descriptors, bytes passed on, FCS bytes in the part before the last)
    type Case = (Chip, bool, &'static [u16], &'static [u16], u8);
    let cases: [Case; 6] = [
        (Chip::I82546eb, true, &[2048, 2048, 904], &[2048, 2048, 904], 0),
        (Chip::I82546eb, false, &[2048, 2048, 904], &[2048, 2048, 900], 0),
        (Chip::I82542, true, &[2048, 3], &[2048, 0], 1),
        (Chip::I82542, true, &[2048, 1], &[2048, 0], 3),
        (Chip::I82542, true, &[64], &[60], 0),
        (Chip::I82542, false, &[2048, 4], &[2048, 0], 0),
    ];
    for (chip, strip_fcs, lengths, seen, excess) in cases {
        let (nic, counts, pool) = (Nic::new(chip), Counts::new(), Pool::new(40, 2048));
        let config = Config { strip_fcs, max_frame_bytes: 9018, ..small() };
        let mut dev = start(&nic, &counts, config, &pool);
        for (i, &length) in lengths.iter().enumerate() {
            nic.receive(writeback(length, if i + 1 == lengths.len() { EOP } else { 0 }, 0));
        }
        let mut parts = Vec::new();
        dev.rx.receive(9, |r| {
            assert_eq!(r.excess, if r.last { excess } else { 0 });
            parts.push((r.bytes, r.first, r.last, r.error));
            Some(r.buffer)
        });
        let n = seen.len();
        let want: Vec<_> = seen.iter().enumerate().map(|(i, &b)| (b, i == 0, i + 1 == n, false)).collect();
        assert_eq!(parts, want, "{chip} {strip_fcs} {lengths:?}");
        assert_eq!(dev.rx.counters().frames, 1);
    }
}

/// The FCS may lie in the last two parts. The driver must not remove more bytes from the part before the last
/// than this part has. QEMU's 82574L puts the whole FCS into a part of its own, behind a part that may have a
/// single byte.
#[test]
fn a_part_too_short_for_what_is_cut_off_is_nonsense() {
    let (nic, counts, pool) = (Nic::new(Chip::I82542), Counts::new(), Pool::new(40, 2048));
    let mut dev = start(&nic, &counts, Config { max_frame_bytes: 9018, ..small() }, &pool);
    let cases = [(1, 1), (2, 1), (3, 1), (1, 2), (1, 3), (1, 4), (2048, 1)];
    for (short, last) in cases {
        for (length, status) in [(2048, 0), (short, 0), (last, EOP)] {
            nic.receive(writeback(length, status, 0));
        }
        let mut parts = Vec::new();
        dev.rx.receive(9, |r| {
            parts.push((r.bytes, r.excess, r.error));
            Some(r.buffer)
        });
        let end = match 4_u8.saturating_sub(last as u8) {
            excess if u16::from(excess) > short => (0, 0, true),
            excess => (last.saturating_sub(4), excess, false),
        };
        assert_eq!(parts, [(2048, 0, false), (short, 0, false), end], "{short} and {last} bytes");
    }
    assert_eq!(dev.rx.counters().nonsense, 3, "1 and 1, 2 and 1, 1 and 2 bytes");
}

/// A budget without a limit ends with the frames that have arrived.
#[test]
fn any_budget_is_allowed() {
    for (buffers, refill) in policies() {
        let (nic, counts, pool) = (Nic::new(Chip::I82546eb), Counts::new(), Pool::new(40, 2048));
        let mut dev = start(&nic, &counts, with(buffers, refill), &pool);
        for _ in 0..20 {
            let came = (0..5).filter(|_| nic.receive_frame(60)).count();
            assert_eq!(dev.rx.receive(usize::MAX, |r| Some(r.buffer)), came);
        }
        assert!(dev.rx.counters().frames > 60, "{buffers:?} {refill:?}");
    }
}

#[test]
fn bad_frames_are_counted_and_their_rest_is_skipped() {
    let (nic, counts, pool) = (Nic::new(Chip::I82546eb), Counts::new(), Pool::new(40, 2048));
    let mut dev = start(&nic, &counts, Config { max_frame_bytes: 5000, ..small() }, &pool);
    let mut run = |descriptors: &[(u16, u8, u8)]| {
        for &(length, status, errors) in descriptors {
            assert!(nic.receive(writeback(length, status, errors)));
        }
        let mut parts = Vec::new();
        dev.rx.receive(99, |r| {
            parts.push((r.bytes, r.first, r.last, r.error));
            Some(r.buffer)
        });
        let c = dev.rx.counters();
        (parts, c.frames, c.frame_errors, c.nonsense)
    };
    let good = (60, true, true, false);
    assert_eq!(run(&[(60, EOP, rx_error::CE), (60, EOP, 0)]), (vec![good], 1, 1, 0));
    assert_eq!(run(&[(0, EOP, 0), (2049, EOP, 0), (60, EOP, 0)]), (vec![good], 2, 1, 2));
    let start = (2048, true, false, false);
    let aborted = (0, false, true, true);
    assert_eq!(
        run(&[(2048, 0, 0), (60, EOP, rx_error::RXE), (60, EOP, 0)]),
        (vec![start, aborted, good], 3, 2, 2)
    );
    // A frame without an end, or longer than allowed.
    let endless = [(2048, 0, 0), (2048, 0, 0), (2048, 0, 0), (2048, 0, 0), (2048, EOP, 0), (60, EOP, 0)];
    let middle = (2048, false, false, false);
    assert_eq!(run(&endless), (vec![start, middle, aborted, good], 4, 2, 3));
}

#[test]
fn refused_frames_return_their_buffers() {
    let (nic, counts, pool) = (Nic::new(Chip::I82540em), Counts::new(), Pool::new(64, 2048));
    let mut dev = start(&nic, &counts, small(), &pool);
    let mut source = pool.clone();
    let available = pool.available();
    let refused = dev.tx.send(source.take().unwrap(), 2049).unwrap_err();
    assert_eq!(refused.reason, Refusal::Invalid);
    source.give(refused.frame.buffer);
    let refused = dev.tx.send(source.take().unwrap(), 0).unwrap_err();
    source.give(refused.frame.buffer);
    for _ in 0..15 {
        dev.tx.send(source.take().unwrap(), 60).unwrap();
    }
    assert_eq!((dev.tx.free(), dev.tx.pending()), (0, 15));
    let refused = dev.tx.send(source.take().unwrap(), 60).unwrap_err();
    assert_eq!(refused.reason, Refusal::Full);
    source.give(refused.frame.buffer);
    let frame: Vec<_> = (0..2).map(|_| Fragment { buffer: source.take().unwrap(), bytes: 60 }).collect();
    let refused = dev.tx.enqueue(frame.into_iter(), &TxMeta::default()).unwrap_err();
    assert_eq!((refused.reason, refused.frame.len()), (Refusal::Full, 2));
    refused.frame.for_each(|f| source.give(f.buffer));
    dev.tx.flush();
    assert_eq!(nic.transmit(99), 15, "a full ring does not count as empty");
    assert_eq!(dev.tx.reclaim(7), 7);
    assert_eq!(dev.tx.reclaim(99), 8);
    assert_eq!(pool.available(), available);
    // The third fragment is too long: drawn fragments go to the source, the rest is returned.
    let lengths = [60, 60, 5000, 60];
    let frame: Vec<_> =
        lengths.iter().map(|&bytes| Fragment { buffer: source.take().unwrap(), bytes }).collect();
    let refused = dev.tx.enqueue(frame.into_iter(), &TxMeta::default()).unwrap_err();
    assert_eq!((refused.reason, refused.frame.len()), (Refusal::Invalid, 1));
    refused.frame.for_each(|f| source.give(f.buffer));
    assert_eq!((pool.available(), dev.tx.pending()), (available, 0));
    let before = counts.writes();
    dev.tx.flush();
    assert_eq!(counts.writes(), before, "there is no new frame");
    let none: Vec<Fragment<Buf>> = Vec::new();
    assert_eq!(dev.tx.enqueue(none.into_iter(), &TxMeta::default()).unwrap_err().reason, Refusal::Invalid);
}

#[test]
fn short_frames_are_padded_with_zeros() {
    let (nic, counts, pool) = (Nic::new(Chip::I82543gc), Counts::new(), Pool::new(40, 2048));
    let mut dev = start(&nic, &counts, small(), &pool);
    dev.tx.send(pool.clone().take().unwrap(), 42).unwrap();
    dev.tx.flush();
    nic.transmit(1);
    let desc::Tx::Legacy(sent) = nic.take_sent()[0] else { panic!("not a legacy descriptor") };
    assert_eq!(sent.length, 60);
    let mut data = Vec::new();
    dev.tx.reclaim_with(1, |b| {
        data = kpps_platform::Buffer::bytes(&b).to_vec();
        pool.clone().give(b);
    });
    assert_eq!(data[..61], [[0xAA; 42].as_slice(), &[0; 18], &[0xAA]].concat());
}

#[test]
fn short_frames_in_pieces_are_padded_too_where_there_is_room() {
    for (room, lengths) in [(2048, [6, 54]), (8, [6, 8])] {
        let (nic, counts, pool) = (Nic::new(Chip::I82543gc), Counts::new(), Pool::new(40, room));
        let mut dev = start(&nic, &counts, small(), &Pool::new(20, 2048));
        let frame = [6, 8].map(|bytes| Fragment { buffer: pool.clone().take().unwrap(), bytes });
        dev.tx.enqueue(frame.into_iter(), &TxMeta::default()).unwrap();
        dev.tx.flush();
        nic.transmit(9);
        let sent = nic.take_sent().into_iter().map(|d| match d {
            desc::Tx::Legacy(d) => d.length,
            other => panic!("{other:?}"),
        });
        assert_eq!(sent.collect::<Vec<_>>(), lengths);
        let mut last = Vec::new();
        dev.tx.reclaim_with(9, |b| {
            last = kpps_platform::Buffer::bytes(&b).to_vec();
            pool.clone().give(b);
        });
        assert!(last.iter().enumerate().all(|(i, &b)| b == if (8..54).contains(&i) { 0 } else { 0xAA }));
    }
}

#[test]
fn reports_and_delays_as_configured() {
    use desc::tx_cmd::{IDE, RS};
    let run = |report_every, delay, polled: bool, flush_each: bool| {
        let (nic, counts, pool) = (Nic::new(Chip::I82540em), Counts::new(), Pool::new(64, 2048));
        let config = Config { tx_ring: 24, completion: Completion { report_every, delay }, ..small() };
        let mut dev = start(&nic, &counts, config, &pool);
        dev.tx.set_polled(polled);
        for _ in 0..10 {
            dev.tx.send(pool.clone().take().unwrap(), 60).unwrap();
            if flush_each {
                dev.tx.flush();
            }
        }
        dev.tx.flush();
        nic.transmit(99);
        let flag = |cmd: u8| match cmd & (RS | IDE) {
            0 => '-',
            RS => 'r',
            _ => 'd',
        };
        nic.take_sent()
            .iter()
            .map(|d| match d {
                desc::Tx::Legacy(d) => flag(d.cmd),
                desc::Tx::Context(d) => flag(d.cmd).to_ascii_uppercase(),
                desc::Tx::Data(_) => '?',
            })
            .collect::<String>()
    };
    assert_eq!(run(1, Delay::Always, false, true), "dddddddddd", "stock 2.5.11");
    assert_eq!(run(1, Delay::ExceptEvery(4), false, true), "dddrdddrdd", "Click's fix");
    assert_eq!(run(1, Delay::Never, false, false), "rrrrrrrrrr");
    assert_eq!(run(4, Delay::Never, true, true), "---r---r--", "polled: a later frame requests a report");
    assert_eq!(
        run(4, Delay::Never, false, false),
        "---r---r-r",
        "not polled: a burst reports its last frame"
    );
    assert_eq!(run(4, Delay::Always, false, true), "dddddddddd");
}

/// The device sees the same descriptors from `send_burst` and `send`, for any mix of frames.
#[test]
fn a_burst_equals_single_frames() {
    let lengths = |n: usize| (0..n).map(|i| if i % 11 == 5 { 20 } else { 60 + i as u16 }).collect::<Vec<_>>();
    for chip in [Chip::I82540em, Chip::I82546eb] {
        for report_every in [1, 3, 8] {
            let run = |burst: bool| {
                let (nic, counts, pool) = (Nic::new(chip), Counts::new(), Pool::new(64, 2048));
                let completion = Completion { report_every, delay: Delay::ExceptEvery(2) };
                let mut dev = start(&nic, &counts, Config { completion, ..small() }, &pool);
                let mut taken = Vec::new();
                for size in [1, 7, 15, 20, 4] {
                    let mut source = pool.clone();
                    let mut frames = lengths(size)
                        .into_iter()
                        .map_while(|bytes| Some(Fragment { buffer: source.take()?, bytes }));
                    let mut count = 0;
                    if burst {
                        count = dev.tx.send_burst(&mut frames).unwrap();
                    } else {
                        while dev.tx.free() > 0 {
                            let Some(Fragment { buffer, bytes }) = frames.next() else { break };
                            dev.tx.send(buffer, bytes).unwrap();
                            count += 1;
                        }
                    }
                    taken.push(count);
                    drop(frames);
                    dev.tx.flush();
                    nic.transmit(99);
                    dev.tx.reclaim(99);
                }
                let c = dev.tx.counters();
                drop(dev);
                (taken, nic.take_sent(), c, pool.available())
            };
            assert_eq!(run(true).0, [1, 7, 15, 15, 4]);
            let (one, many) = (run(false), run(true));
            let same = |sent: &[desc::Tx]| {
                sent.iter()
                    .map(|d| match *d {
                        // The choice of buffer does not matter.
                        desc::Tx::Legacy(d) => desc::TxLegacy { buffer: 0, ..d },
                        _ => panic!("{d:?}"),
                    })
                    .collect::<Vec<_>>()
            };
            assert_eq!((one.0, same(&one.1), one.2, one.3), (many.0, same(&many.1), many.2, many.3));
        }
    }
}

/// Frames in reused buffers of sent frames, mixed with others in any way: each is sent once and complete, and
/// no buffer is lost.
#[test]
fn buffers_are_sent_from_again() {
    for chip in [Chip::I82540em, Chip::I82544, Chip::I82546eb] {
        for report_every in [1, 3, 8] {
            let (nic, counts, pool) = (Nic::new(chip), Counts::new(), Pool::new(64, 2048));
            let completion = Completion { report_every, delay: Delay::Never };
            let mut dev = start(&nic, &counts, Config { completion, ..small() }, &pool);
            let (mut next, mut again) = (0u16, 0);
            for round in 0..200usize {
                // The lengths increase, so they show order and number.
                let length = |next: &mut u16| {
                    *next += 1;
                    60 + *next % 1000
                };
                if round % 7 == 3 {
                    let checksums =
                        TxMeta { offload: Offload::Checksum(Checksums::default()), ..TxMeta::default() };
                    let buffer = pool.clone().take().unwrap();
                    let fragment = Fragment { buffer, bytes: length(&mut next) };
                    if let Err(refused) = dev.tx.enqueue(core::iter::once(fragment), &checksums) {
                        next -= 1;
                        refused.frame.for_each(|fragment| pool.clone().give(fragment.buffer));
                    }
                }
                let recycled = dev.tx.send_again(round % 12, |_| length(&mut next));
                again += recycled;
                let most = (round % 5).min(dev.tx.free());
                let mut source = pool.clone();
                let mut fresh =
                    (0..most).map(|_| Fragment { buffer: source.take().unwrap(), bytes: length(&mut next) });
                assert_eq!(dev.tx.send_burst(&mut fresh).unwrap(), most);
                dev.tx.flush();
                nic.transmit((round % 13) as u32);
                dev.tx.reclaim(round % 3);
            }
            dev.tx.flush();
            nic.transmit(99);
            dev.tx.request_report();
            nic.transmit(99);
            dev.tx.reclaim(99);
            assert_eq!(dev.tx.pending(), 0);
            let lengths: Vec<u16> = nic
                .take_sent()
                .iter()
                .filter_map(|d| match *d {
                    desc::Tx::Legacy(d) => Some(d.length),
                    desc::Tx::Data(d) => Some(d.length as u16),
                    desc::Tx::Context(_) => None,
                })
                .collect();
            assert_eq!(
                lengths,
                (1..=next).map(|n| 60 + n % 1000).collect::<Vec<_>>(),
                "{chip} {report_every}"
            );
            assert_eq!(u64::from(next), dev.tx.counters().frames);
            // Other chips may have to split a frame, so they do not have this path.
            assert_eq!(again > 100, chip != Chip::I82546eb, "{chip}: {again} buffers were sent from again");
            drop(dev);
            assert_eq!(pool.available(), 64);
        }
    }
}

#[test]
fn a_buffer_that_cannot_be_sent_from_again_goes_to_the_source() {
    let (nic, counts, pool) = (Nic::new(Chip::I82540em), Counts::new(), Pool::new(64, 2048));
    let mut dev = start(&nic, &counts, small(), &pool);
    for _ in 0..3 {
        dev.tx.send(pool.clone().take().unwrap(), 60).unwrap();
    }
    dev.tx.flush();
    assert_eq!(dev.tx.send_again(9, |_| 60), 0, "nothing is sent yet");
    nic.transmit(99);
    let mut lengths = [60, 59].into_iter();
    assert_eq!(dev.tx.send_again(9, |_| lengths.next().unwrap()), 1);
    assert_eq!(dev.tx.pending(), 2, "one frame is not yet reclaimed, one is new");
}

#[test]
fn a_burst_ends_at_a_frame_that_is_refused() {
    let (nic, counts, pool) = (Nic::new(Chip::I82540em), Counts::new(), Pool::new(64, 2048));
    let mut dev = start(&nic, &counts, small(), &pool);
    let mut source = pool.clone();
    let mut frames =
        [60, 61, 0, 62].into_iter().map(|bytes| Fragment { buffer: source.take().unwrap(), bytes });
    let refused = dev.tx.send_burst(&mut frames).unwrap_err();
    assert_eq!((refused.reason, refused.frame.bytes, dev.tx.pending()), (Refusal::Invalid, 0, 2));
    pool.clone().give(refused.frame.buffer);
    assert_eq!(dev.tx.send_burst(&mut frames).unwrap(), 1);
}

#[test]
fn an_idle_poll_bounds_the_wait_for_a_report() {
    for chip in [Chip::I82542, Chip::I82543gc, Chip::I82546eb] {
        let (nic, counts, pool) = (Nic::new(chip), Counts::new(), Pool::new(64, 2048));
        let mut dev = start(&nic, &counts, small(), &pool);
        dev.tx.set_polled(true);
        for polls in 0..3 {
            dev.tx.send(pool.clone().take().unwrap(), 60).unwrap();
            dev.tx.flush();
            dev.tx.request_report_if_idle();
            nic.transmit(99);
            dev.tx.request_report_if_idle();
            nic.transmit(99);
            assert_eq!(dev.tx.reclaim(99), 1, "{chip} {polls}");
            assert_eq!(dev.tx.pending(), 0);
        }
    }
}

#[derive(Clone, Debug)]
enum Step {
    Receive { frames: u16, keep: u16, budget: usize },
    Return(usize),
    Send { frames: u8, fragments: u8 },
    Transmit(u32),
    Reclaim(usize),
    Settle,
    Lie { ring: usize, word: usize, value: u64 },
    Weird { length: u16, status: u8, errors: u8 },
    Reset,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0..20u16, any::<u16>(), 0..20usize)
            .prop_map(|(frames, keep, budget)| Step::Receive { frames, keep, budget }),
        2 => (0..20usize).prop_map(Step::Return),
        4 => (0..8u8, 1..4u8).prop_map(|(frames, fragments)| Step::Send { frames, fragments }),
        4 => (0..20u32).prop_map(Step::Transmit),
        4 => (0..20usize).prop_map(Step::Reclaim),
        1 => Just(Step::Settle),
        2 => (any::<usize>(), any::<usize>(), any::<u64>())
            .prop_map(|(ring, word, value)| Step::Lie { ring, word, value }),
        2 => (any::<u16>(), any::<u8>(), any::<u8>())
            .prop_map(|(length, status, errors)| Step::Weird { length, status, errors }),
        1 => Just(Step::Reset),
    ]
}

/// Runs the steps. A device that writes invalid descriptors skips the checks for a correct one.
fn run(chip: Chip, config: Config, steps: &[Step], may_lie: bool) {
    const BUFFERS: usize = 60;
    let (nic, counts, pool) = (Nic::new(chip), Counts::new(), Pool::new(BUFFERS as u32, 2048));
    let mut dev = start(&nic, &counts, config, &pool);
    let mut kept = Vec::new();
    let mut lied = false;
    for step in steps {
        let reads = counts.reads();
        match *step {
            Step::Receive { frames, keep, budget } => {
                if !lied {
                    for i in 0..frames {
                        nic.receive_frame(60 + i);
                    }
                }
                let writes = counts.writes();
                let mut n = 0;
                let taken = dev.rx.receive(budget, |r| {
                    n += 1;
                    assert!(usize::from(r.bytes) <= 2048);
                    if keep >> (n % 16) & 1 != 0 {
                        kept.push(r.buffer);
                        return None;
                    }
                    Some(r.buffer)
                });
                assert!(taken <= budget);
                if dev.control.config().refill.group == 0 {
                    assert!(counts.writes() - writes <= 1);
                }
            }
            Step::Return(n) => {
                for buffer in kept.drain(..n.min(kept.len())) {
                    pool.clone().give(buffer);
                }
            }
            Step::Send { frames, fragments } => {
                let writes = counts.writes();
                for _ in 0..frames {
                    let mut frame = Vec::new();
                    while frame.len() < fragments.into() {
                        let Some(buffer) = pool.clone().take() else { break };
                        frame.push(Fragment { buffer, bytes: 60 + u16::from(fragments) });
                    }
                    if let Err(refused) = dev.tx.enqueue(frame.into_iter(), &TxMeta::default()) {
                        refused.frame.for_each(|f| pool.clone().give(f.buffer));
                    }
                }
                dev.tx.flush();
                assert!(counts.writes() - writes <= 1);
            }
            Step::Transmit(n) if !lied => drop(nic.transmit(n)),
            Step::Transmit(_) => {}
            Step::Reclaim(max) => assert!(dev.tx.reclaim(max) <= max),
            Step::Settle => drop(dev.tx.request_report()),
            Step::Lie { ring, word, value } if may_lie => {
                lied = true;
                nic.scribble(ring, word, value);
            }
            Step::Weird { length, status, errors } if may_lie && !lied => {
                nic.receive(writeback(length, status, errors));
            }
            Step::Lie { .. } | Step::Weird { .. } => {}
            Step::Reset => {
                dev.reset().unwrap();
                lied = false;
            }
        }
        if !matches!(step, Step::Reset) {
            assert_eq!(counts.reads(), reads, "{step:?} read a register");
        }
        // Every buffer is in exactly one place. The pool itself panics on duplicates.
        let in_rx = usize::from(dev.control.config().rx_ring) - dev.rx.empty_slots();
        let somewhere = pool.available() + kept.len() + in_rx;
        assert!(somewhere <= BUFFERS && BUFFERS - somewhere <= dev.tx.pending(), "{step:?}");
    }
    if !lied {
        // A correct device finishes all descriptors.
        dev.tx.request_report();
        nic.transmit(u32::MAX);
        dev.tx.reclaim(usize::MAX);
        dev.tx.request_report();
        nic.transmit(u32::MAX);
        dev.tx.reclaim(usize::MAX);
        assert_eq!(dev.tx.pending(), 0);
    }
    for buffer in kept {
        pool.clone().give(buffer);
    }
    drop(dev);
    assert_eq!(pool.available(), BUFFERS);
}

fn cases() -> ProptestConfig {
    ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::with_cases(if cfg!(miri) { 4 } else { 300 })
    }
}

proptest! {
    #![proptest_config(cases())]
    #[test]
    fn no_buffer_is_lost_with_a_correct_device(
        steps in prop::collection::vec(step(), 0..60),
        policy in 0..12usize,
        every in 1..8u16,
        chip in 0..6usize,
    ) {
        let (buffers, refill) = policies()[policy];
        let completion = Completion { report_every: every, delay: Delay::ExceptEvery(3) };
        run(Chip::E1000[chip], Config { completion, ..with(buffers, refill) }, &steps, false);
    }

    #[test]
    fn no_buffer_is_lost_with_a_faulty_device(
        steps in prop::collection::vec(step(), 0..60),
        policy in 0..12usize,
        every in 1..8u16,
        chip in 0..6usize,
    ) {
        let (buffers, refill) = policies()[policy];
        let completion = Completion { report_every: every, delay: Delay::Never };
        run(Chip::E1000[chip], Config { completion, ..with(buffers, refill) }, &steps, true);
    }
}
