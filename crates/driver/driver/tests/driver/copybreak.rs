//! Small frames in small buffers.

use crate::common::*;
use kpps_datasheet::Chip;
use kpps_driver::{Config, config::*};
use kpps_platform::{Buffer, BufferSource, wrap::Counts};

/// Buffers filled with their numbers.
fn numbered(count: u32) -> Pool {
    let pool = Pool::new(count, 2048);
    let all: Vec<_> = std::iter::from_fn(|| pool.clone().take()).collect();
    for mut buffer in all {
        let id = buffer.id as u8;
        buffer.bytes_mut().fill(id);
        pool.clone().give(buffer);
    }
    pool
}

#[test]
fn small_frames_are_copied_and_their_buffers_stay_in_the_ring() {
    for buffers in [Buffers::Fresh, Buffers::Recycled] {
        for when in [RefillWhen::EachFrame, RefillWhen::AfterBurst] {
            let (nic, counts, pool) = (Nic::new(Chip::I82540em), Counts::new(), numbered(40));
            let refill = Refill { when, group: 1, aligned: false };
            let config = Config { rx_copybreak_bytes: 128, buffers, refill, ..small() };
            let mut dev = start(&nic, &counts, config, &pool);
            let mut kept = Vec::new();
            let lengths = [60, 128, 129, 1514, 60];
            for bytes in lengths {
                assert!(nic.receive_frame(bytes));
            }
            let taken = dev.rx.receive(99, |r| {
                kept.push((r.buffer, r.bytes, r.first && r.last && !r.error));
                None
            });
            assert_eq!((taken, dev.rx.empty_slots()), (5, 0), "{buffers:?} {when:?}");
            assert_eq!((dev.rx.counters().frames, dev.rx.counters().copied), (5, 3));
            for ((buffer, bytes, whole), length) in kept.iter().zip(lengths) {
                assert!(*whole && *bytes == length);
                let own = buffer.id as u8;
                let frame = &buffer.bytes()[..usize::from(length)];
                assert!(frame.iter().all(|byte| *byte == frame[0]), "the whole frame is copied");
                assert_eq!(frame[0] != own, length <= 128, "{length} bytes");
                assert_eq!(buffer.bytes()[usize::from(length)], own, "nothing more is copied");
            }
            for (buffer, ..) in kept {
                pool.clone().give(buffer);
            }
            drop(dev);
            assert_eq!(pool.available(), 40, "no buffer is lost");
        }
    }
}

#[test]
fn without_a_small_buffer_a_frame_is_not_copied() {
    let (nic, counts, pool) = (Nic::new(Chip::I82540em), Counts::new(), numbered(17));
    let mut dev = start(&nic, &counts, Config { rx_copybreak_bytes: 128, ..small() }, &pool);
    let mut own = Vec::new();
    for _ in 0..3 {
        nic.receive_frame(60);
    }
    let mut kept = Vec::new();
    dev.rx.receive(99, |r| {
        own.push(r.buffer.bytes()[0] == r.buffer.id as u8);
        kept.push(r.buffer);
        None
    });
    assert_eq!(own, [false, true, true], "16 of 17 are in the ring");
    assert_eq!((dev.rx.counters().copied, dev.rx.empty_slots()), (1, 2));
    drop(dev);
    assert_eq!(pool.available() + kept.len(), 17);
}

#[test]
fn returned_copies_go_back_to_the_source() {
    let (nic, counts, pool) = (Nic::new(Chip::I82540em), Counts::new(), numbered(17));
    let mut dev = start(&nic, &counts, Config { rx_copybreak_bytes: 128, ..small() }, &pool);
    for _ in 0..100 {
        assert!(nic.receive_frame(60));
        assert_eq!(dev.rx.receive(99, |r| Some(r.buffer)), 1);
        assert_eq!((pool.available(), dev.rx.empty_slots()), (1, 0));
    }
    assert_eq!(dev.rx.counters().copied, 100);
}
