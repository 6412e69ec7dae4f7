//! Rings: wrapping around, full, empty, of every allowed size and policy.

use super::exchange::{Direction, exchange};
use crate::case::{CaseResult, Entry, Verdict, check, check_eq};
use crate::oracle::{PEER, plain};
use crate::raw::RawReceiver;
use crate::rig::{QUIET_NS, Rig, same};
use crate::{Fixture, departure};
use kpps_datasheet::bit::cause;
use kpps_datasheet::{desc, stat};
use kpps_driver::config::{Buffers, Completion, Delay, Refill, RefillWhen};
use kpps_driver::{Refusal, TxMeta};
use kpps_platform::{Buffer, BufferSource};

pub(super) fn cases<B: Fixture>() -> Vec<Entry<B>> {
    vec![
        ("ring: the smallest, wrapped many times", smallest),
        ("ring: the largest, wrapped many times", largest),
        ("ring: every policy for buffers and refilling", policies),
        ("ring: transmit reports, every policy", reports),
        ("ring: transmit full, and empty again", transmit_full),
        ("ring: receive empty, and filled again", receive_empty),
        ("ring: a frame of more descriptors than are free", receive_short_of_descriptors),
        ("ring: null receive descriptors are skipped", null_descriptors),
        ("ring: without buffers, then with some", no_buffers),
    ]
}

fn sizes(count: usize) -> Vec<usize> {
    (0..count).map(|index| 60 + index * 37 % 1455).collect()
}

fn smallest<B: Fixture>(fixture: &mut B) -> CaseResult {
    let mut rig = Rig::open(fixture, |config| (config.rx_ring, config.tx_ring) = (8, 8))?;
    exchange(&mut rig, Direction::Both, &sizes(500), 1)?;
    Ok(Verdict::Pass)
}

fn largest<B: Fixture>(fixture: &mut B) -> CaseResult {
    // At most as many as there are buffers.
    let ring = fixture.chip().max_ring().min(512);
    let mut rig = Rig::open(fixture, |config| (config.rx_ring, config.tx_ring) = (ring, ring))?;
    exchange(&mut rig, Direction::Both, &sizes(3 * usize::from(ring)), 1)?;
    Ok(Verdict::Pass)
}

fn policies<B: Fixture>(fixture: &mut B) -> CaseResult {
    for buffers in [Buffers::Fresh, Buffers::Recycled] {
        for when in [RefillWhen::EachFrame, RefillWhen::AfterBurst] {
            for group in [0, 1, 7, 16] {
                let mut rig = Rig::open(fixture, |config| {
                    (config.rx_ring, config.tx_ring) = (40, 40);
                    config.buffers = buffers;
                    config.refill = Refill { when, group, aligned: false };
                })?;
                // A group holds back fewer descriptors than its size, so it must fit beside a batch.
                for batch in sizes(200).chunks(20) {
                    exchange(&mut rig, Direction::In, batch, 1)?;
                }
                check_eq!(rig.rx.counters().nonsense, 0, "descriptors that made no sense");
            }
        }
    }
    Ok(Verdict::Pass)
}

fn reports<B: Fixture>(fixture: &mut B) -> CaseResult {
    for report_every in [1, 2, 7, 16] {
        for delay in [Delay::Never, Delay::Always, Delay::ExceptEvery(5)] {
            let mut rig = Rig::open(fixture, |config| {
                (config.rx_ring, config.tx_ring) = (32, 32);
                config.completion = Completion { report_every, delay };
                config.moderation.tidv = 8;
            })?;
            exchange(&mut rig, Direction::Out, &sizes(150), 1)?;
            exchange(&mut rig, Direction::Out, &sizes(50), 3)?;
            rig.wait("all reports", |rig| {
                rig.tx.reclaim(usize::MAX);
                Ok((rig.tx.pending() == 0).then_some(()))
            })?;
        }
    }
    Ok(Verdict::Pass)
}

/// A full ring refuses frames, loses none, and drains.
fn transmit_full<B: Fixture>(fixture: &mut B) -> CaseResult {
    const RING: usize = 64;
    let mut rig = Rig::open(fixture, |config| config.tx_ring = RING as u16)?;
    for round in 0..3 {
        let mut taken = 0;
        loop {
            let frame = plain([0xff; 6], PEER, 60 + taken, round);
            let mut buffer = rig.tx.source_mut().take().ok_or("out of buffers")?;
            buffer.bytes_mut()[..frame.len()].copy_from_slice(&frame);
            match rig.tx.send(buffer, frame.len() as u16) {
                Ok(()) => taken += 1,
                Err(refused) => {
                    check_eq!(refused.reason, Refusal::Full, "reason");
                    rig.tx.source_mut().give(refused.frame.buffer);
                    break;
                }
            }
        }
        // One descriptor stays free, because tail = head means empty (SDM 3.4).
        check_eq!(taken, RING - 1, "frames taken");
        check_eq!(rig.tx.free(), 0, "descriptors free");
        rig.tx.flush();
        for index in 0..taken {
            let what = format!("frame {index} of a full ring");
            same(&what, &rig.sent()?, &plain([0xff; 6], PEER, 60 + index, round))?;
        }
        rig.wait("all reports", |rig| {
            rig.tx.reclaim(usize::MAX);
            Ok((rig.tx.pending() == 0).then_some(()))
        })?;
    }
    Ok(Verdict::Pass)
}

/// More frames than ring and FIFO hold, without a poll: lost frames are counted as missed, all others arrive
/// in order, and reception continues (SDM 3.2.6, 13.7.5).
fn receive_empty<B: Fixture>(fixture: &mut B) -> CaseResult {
    const FRAMES: usize = 100;
    const SIZE: usize = 1500;
    const RING: usize = 16;
    let late = fixture.departs(&departure::MISSED_LATE);
    let uncounted = fixture.departs(&departure::DROPPED_UNCOUNTED);
    let mut rig = Rig::open(fixture, |config| config.rx_ring = RING as u16)?;
    rig.await_reception()?;
    rig.control.causes()?;
    let mut missed = Missed::new(&rig);
    rig.regs.read(stat::RNBC);
    let frame = |index| plain([0xff; 6], PEER, SIZE, index);
    for index in 0..FRAMES {
        rig.fixture.inject(&frame(index))?;
    }
    rig.fixture.advance(20_000_000)?;
    let causes = rig.control.causes()?.0;
    let missed_early = missed.more(&rig);
    let no_descriptor = rig.regs.read(stat::RNBC);
    let mut got = Vec::new();
    let mut lost = missed_early;
    rig.wait("all frames to be received or counted as missed", |rig| {
        while let Some(frame) = rig.poll()? {
            got.push(frame);
        }
        lost += missed.more(rig);
        let all = got.len() as u64 + lost >= FRAMES as u64;
        Ok((all || uncounted && got.len() >= RING).then_some(()))
    })?;
    // Nothing shows when the last of them has been dropped.
    let mut before = 0;
    while uncounted && got.len() > before {
        before = got.len();
        rig.fixture.advance(QUIET_NS)?;
        while let Some(frame) = rig.poll()? {
            got.push(frame);
        }
    }
    let expected: Vec<_> = (0..FRAMES).map(frame).collect();
    if late {
        check_eq!((missed_early, causes & cause::RXO), (0, 0), "MPC and RXO before the ring is refilled");
        let mut rest = expected.iter();
        for (index, got) in got.iter().enumerate() {
            check!(rest.any(|frame| *frame == got.bytes), "frame {index} received is out of order");
        }
    } else {
        check!(missed_early > 0, "nothing missed though {} KB came", FRAMES * SIZE / 1024);
        check!(causes & cause::RXO != 0, "ICR {causes:#x} without RXO");
        check!(no_descriptor > 0, "RNBC is 0 though frames found no descriptor");
        for (index, got) in got.iter().enumerate() {
            let expected = expected.get(index).ok_or("more frames received than sent")?;
            same(&format!("frame {index} of those that fitted"), &got.bytes, expected)?;
        }
    }
    check!(got.len() >= RING - 1, "{} frames received, fewer than the ring has room for", got.len());
    if uncounted {
        check!(
            (got.len() as u64) < FRAMES as u64 && lost == 0,
            "{} frames received, {lost} missed",
            got.len()
        );
    } else {
        check_eq!(got.len() as u64 + lost, FRAMES as u64, "frames received and missed");
    }
    exchange(&mut rig, Direction::In, &[60, 1514, 9014], 1)?;
    Ok(if late { Verdict::Departs(&departure::MISSED_LATE) } else { Verdict::Pass })
}

/// Growth of MPC, on devices that clear it by reading and on those that do not.
pub(super) struct Missed {
    sticky: bool,
    last: u32,
}

impl Missed {
    /// Starts counting.
    pub(super) fn new<B: Fixture>(rig: &Rig<'_, B>) -> Self {
        let sticky = rig.fixture.departs(&departure::DROPPED_NOT_WAITING);
        Self { sticky, last: rig.regs.read(stat::MPC) }
    }
    /// The growth since the last call.
    pub(super) fn more<B: Fixture>(&mut self, rig: &Rig<'_, B>) -> u64 {
        let now = rig.regs.read(stat::MPC);
        let before = std::mem::replace(&mut self.last, now);
        u64::from(if self.sticky { now.wrapping_sub(before) } else { now })
    }
}

/// The frame waits in the FIFO until there are descriptors.
fn receive_short_of_descriptors<B: Fixture>(fixture: &mut B) -> CaseResult {
    let drops = fixture.departs(&departure::DROPPED_NOT_WAITING);
    let uncounted = fixture.departs(&departure::DROPPED_UNCOUNTED);
    let mut rig = Rig::open(fixture, |config| {
        config.rx_ring = 8;
        config.rx_buffer_bytes = 256;
    })?;
    let missed = Missed::new(&rig);
    let long = plain([0xff; 6], PEER, 1500, 1);
    let short = plain([0xff; 6], PEER, 60, 2);
    // Seven descriptors: two are used, five left for a frame that needs six.
    for frame in [&short, &short, &long, &short] {
        rig.fixture.inject(frame)?;
    }
    if drops {
        let before = missed.last;
        rig.wait("the long frame to be dropped", |rig| {
            Ok((rig.regs.read(stat::MPC) != before).then_some(()))
        })?;
    }
    rig.fixture.advance(QUIET_NS)?;
    let got: Vec<_> = rig.received_all()?.into_iter().map(|got| got.bytes).collect();
    let overtaken = rig.fixture.departs(&departure::OVERTAKEN);
    let expected = match (drops || uncounted, overtaken) {
        (true, _) => vec![&short, &short, &short],
        (false, true) => vec![&short, &short, &short, &long],
        (false, false) => vec![&short, &short, &long, &short],
    };
    let bytes: Vec<_> = got.iter().map(Vec::len).collect();
    check_eq!(bytes, expected.iter().map(|frame| frame.len()).collect::<Vec<_>>(), "B of frames received");
    for (got, expected) in got.iter().zip(expected) {
        same("frame", got, expected)?;
    }
    if drops {
        for (name, register) in [("MPC", stat::MPC), ("RNBC", stat::RNBC)] {
            let first = rig.regs.read(register);
            check!(first > 0, "{name} is 0 after a frame was dropped");
            check_eq!(rig.regs.read(register), first, "{name} read again");
        }
        return Ok(Verdict::Departs(&departure::DROPPED_NOT_WAITING));
    }
    check_eq!(rig.regs.read(stat::MPC), 0, "MPC");
    if uncounted {
        return Ok(Verdict::Departs(&departure::DROPPED_UNCOUNTED));
    }
    Ok(if overtaken { Verdict::Departs(&departure::OVERTAKEN) } else { Verdict::Pass })
}

/// SDM 3.2.5.2: a descriptor without an address stores nothing; it is written back with DD.
fn null_descriptors<B: Fixture>(fixture: &mut B) -> CaseResult {
    const NULL: [usize; 3] = [0, 2, 3];
    let mut raw = RawReceiver::open(fixture, 16)?;
    for index in NULL {
        raw.store(index, desc::rx_read(0));
    }
    raw.tail(7);
    for (frame, index) in [1, 4, 5, 6].into_iter().enumerate() {
        let frame = plain([0xff; 6], PEER, 100 + frame, frame);
        raw.rig.fixture.inject(&frame)?;
        let written = raw.written(index)?;
        let what = format!("frame in descriptor {index}");
        // The FCS follows the frame, on chips that cannot strip it.
        let fcs = if raw.rig.control.chip().has_fcs_strip() { 0 } else { 4 };
        let bytes = raw.bytes(index, written.length.saturating_sub(fcs))?;
        same(&what, bytes, &frame)?;
    }
    for index in NULL {
        check!(raw.look(index).is_some(), "null descriptor {index} is not marked done");
    }
    Ok(Verdict::Pass)
}

/// A consumer that keeps every buffer empties the ring; returned buffers refill it.
fn no_buffers<B: Fixture>(fixture: &mut B) -> CaseResult {
    let mut rig = Rig::open(fixture, |config| config.rx_ring = 32)?;
    let mut hoard = Vec::new();
    while let Some(buffer) = rig.rx.source_mut().take() {
        hoard.push(buffer);
    }
    let frame = |index| plain([0xff; 6], PEER, 200, index);
    for index in 0..31 {
        rig.fixture.inject(&frame(index))?;
    }
    let mut kept = Vec::new();
    rig.wait("31 frames", |rig| {
        rig.rx.receive(64, |part| {
            kept.push(part.buffer);
            None
        });
        Ok((kept.len() == 31).then_some(()))
    })?;
    check!(rig.rx.counters().no_buffer > 0, "the queue did not notice that there are no buffers");
    check_eq!(rig.rx.empty_slots(), 31, "empty slots");
    for (index, buffer) in kept.iter().enumerate() {
        let bytes = &buffer.bytes()[..200];
        same(&format!("frame {index}"), bytes, &frame(index))?;
    }
    for buffer in kept.into_iter().chain(hoard) {
        rig.rx.source_mut().give(buffer);
    }
    check_eq!(rig.rx.refill(), 0, "empty slots after refilling");
    exchange(&mut rig, Direction::In, &sizes(100), 1)?;
    let meta = TxMeta::default();
    rig.send(&frame(1), 1, &meta)?;
    rig.tx.flush();
    same("frame on the wire", &rig.sent()?, &frame(1))?;
    Ok(Verdict::Pass)
}
