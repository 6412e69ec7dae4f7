//! Traffic in both directions at once: every frame arrives once, unchanged and (if the fixture keeps it) in
//! order. With a real card, a driver of the kernel is at the far end of the cable.

use crate::case::{CaseResult, Entry, Verdict, check, check_eq};
use crate::cases::{checksum, segment, vlan};
use crate::oracle::{PEER, plain, tagged};
use crate::rig::{Arrived, QUIET_NS, Rig, same};
use crate::{Failure, Fixture, departure};
use kpps_driver::{Checksum, TxMeta};
use kpps_platform::Platform;
use std::collections::VecDeque;

pub(super) fn cases<B: Fixture>() -> Vec<Entry<B>> {
    vec![
        ("traffic: both ways, every size 60..=1514 and jumbo", sizes),
        ("traffic: bidirectional, tags inserted and stripped", tags),
        ("traffic: bidirectional, checksums inserted and verified", checksums),
        ("traffic: large sends while frames come in", large_sends),
    ]
}

/// The most frames in flight in one direction: even as jumbo frames they fit into a ring of 256.
const WINDOW: usize = 32;
/// After this time without any frame, missing frames count as lost; in ns of the fixture's time.
const PATIENCE_NS: u64 = 5_000_000_000;

/// A frame from the driver, and its expected form on the wire.
struct Outward {
    frame: Vec<u8>,
    meta: TxMeta,
    wire: Vec<u8>,
}

/// A frame from the wire, and its expected form at the driver.
struct Inward {
    wire: Vec<u8>,
    frame: Vec<u8>,
    vlan: Option<u16>,
    /// Verdicts on checksums (IP, transport), where they matter.
    verdicts: Option<(Checksum, Checksum)>,
}

impl Inward {
    fn check(&self, index: usize, got: &Arrived) -> Result<(), Failure> {
        same(&format!("frame {index} received"), &got.bytes, &self.frame)?;
        check_eq!(got.vlan, self.vlan, "tag of frame {index}");
        if let Some(verdicts) = self.verdicts {
            check!((got.ip, got.transport) == verdicts, "verdicts on frame {index} are not {verdicts:?}");
        }
        Ok(())
    }
}

/// Sends `count` frames in each direction, at most [`WINDOW`] in flight, and compares each.
fn bidirectional<B: Fixture>(
    rig: &mut Rig<'_, B>,
    count: usize,
    outward: impl Fn(usize) -> Outward,
    inward: impl Fn(usize) -> Inward,
) -> Result<(), Failure> {
    let mut leaving: VecDeque<Vec<u8>> = VecDeque::new();
    let mut coming: VecDeque<Inward> = VecDeque::new();
    let (mut sent, mut seen, mut injected, mut received) = (0, 0, 0, 0);
    let mut moved_ns = rig.fixture.platform().now_ns();
    while seen < count || received < count {
        let before = seen + received;
        while sent < count && leaving.len() < WINDOW {
            let Outward { frame, meta, wire } = outward(sent);
            rig.send(&frame, 1 + sent % 3, &meta)?;
            leaving.push_back(wire);
            sent += 1;
        }
        rig.tx.flush();
        while injected < count && coming.len() < WINDOW {
            let frame = inward(injected);
            rig.fixture.inject(&frame.wire)?;
            coming.push_back(frame);
            injected += 1;
        }
        rig.tx.reclaim(usize::MAX);
        while let Some(found) = rig.fixture.collect()? {
            // If the fixture does not keep the order, any frame in flight may be next.
            let next = match rig.fixture.keeps_order() {
                true => 0,
                false => leaving.iter().position(|expected| *expected == found).unwrap_or(0),
            };
            let expected = leaving.remove(next).ok_or("an unknown frame on the wire")?;
            same(&format!("frame {seen} on the wire"), &found, &expected)?;
            seen += 1;
        }
        while let Some(got) = rig.poll()? {
            let expected = coming.pop_front().ok_or("an unknown received frame")?;
            expected.check(received, &got)?;
            received += 1;
        }
        let now_ns = rig.fixture.platform().now_ns();
        if seen + received > before {
            moved_ns = now_ns;
        } else if now_ns - moved_ns > PATIENCE_NS {
            return Err(format!(
                "{seen} of {sent} frames arrived going out, {received} of {injected} coming in"
            )
            .into());
        } else {
            rig.fixture.advance(100_000)?;
        }
    }
    // No frame comes twice.
    rig.fixture.advance(QUIET_NS)?;
    check!(rig.fixture.collect()?.is_none(), "more frames on the wire than were sent");
    check!(rig.poll()?.is_none(), "more frames received than were sent");
    Ok(())
}

/// An outgoing frame that the card does not change.
fn unchanged_out(frame: Vec<u8>) -> Outward {
    Outward { wire: frame.clone(), frame, meta: TxMeta::default() }
}

/// An incoming frame that the card does not change.
fn unchanged_in(frame: Vec<u8>) -> Inward {
    Inward { wire: frame.clone(), frame, vlan: None, verdicts: None }
}

/// Sizes rise in one direction while they fall in the other, so long frames meet short ones. Every 50th frame
/// is a jumbo frame.
fn sizes<B: Fixture>(fixture: &mut B) -> CaseResult {
    const SIZES: usize = 1514 - 60 + 1;
    let size = |index: usize, at: usize| if index % 50 == 49 { 1515 + index * 5 % 7500 } else { 60 + at };
    let mut rig = Rig::open(fixture, |_| {})?;
    // Each round has 1500 frames. Jumbo frames replace some sizes in the first round. These sizes come in the
    // second round, which is shifted.
    for round in 0..2 {
        let up = |index: usize| plain([0xff; 6], PEER, size(index, (index + round * 7) % SIZES), index);
        let down = |index: usize| {
            let at = SIZES - 1 - (index + round * 7) % SIZES;
            plain([0xff; 6], PEER, size(index, at), index + 7919)
        };
        bidirectional(&mut rig, 1500, |index| unchanged_out(up(index)), |index| unchanged_in(down(index)))?;
    }
    Ok(Verdict::Pass)
}

fn tags<B: Fixture>(fixture: &mut B) -> CaseResult {
    if !fixture.chip().has_vlan() {
        return Ok(Verdict::NotApplicable(vlan::NO_VLAN));
    }
    let mut rig = Rig::open(fixture, |config| config.vlan = true)?;
    // Two of three frames have a tag.
    let tag = |index: usize| (!index.is_multiple_of(3)).then(|| (index * 131 % 0xffff) as u16);
    let frame = |index: usize| plain([0xff; 6], PEER, 60 + index * 37 % 1455, index);
    let wire = |index: usize| match tag(index) {
        Some(tag) => tagged(&frame(index), tag),
        None => frame(index),
    };
    let outward = |index| Outward {
        frame: frame(index),
        meta: TxMeta { vlan: tag(index), ..TxMeta::default() },
        wire: wire(index),
    };
    let inward = |index| Inward { wire: wire(index), frame: frame(index), vlan: tag(index), verdicts: None };
    bidirectional(&mut rig, 1000, outward, inward)?;
    Ok(Verdict::Pass)
}

fn checksums<B: Fixture>(fixture: &mut B) -> CaseResult {
    if !fixture.chip().has_checksum_offload() {
        return Ok(Verdict::NotApplicable(checksum::NO_OFFLOAD));
    }
    let departs = fixture.departs(&departure::NO_RECEIVE_CHECKSUM);
    let chip = fixture.chip();
    let mut rig = Rig::open(fixture, |_| {})?;
    let outward = |index| {
        let (frame, meta, wire) = checksum::to_insert(index);
        Outward { frame, meta, wire }
    };
    let inward = |index| {
        let (frame, verdicts) = checksum::to_verify(chip, index);
        let verdicts = if departs { (Checksum::Unknown, Checksum::Unknown) } else { verdicts };
        Inward { verdicts: Some(verdicts), ..unchanged_in(frame) }
    };
    bidirectional(&mut rig, 1000, outward, inward)?;
    Ok(if departs { Verdict::Departs(&departure::NO_RECEIVE_CHECKSUM) } else { Verdict::Pass })
}

fn large_sends<B: Fixture>(fixture: &mut B) -> CaseResult {
    if !fixture.chip().has_tso() {
        return Ok(Verdict::NotApplicable(segment::NO_TSO));
    }
    let mut rig = Rig::open(fixture, |_| {})?;
    for round in 0..20 {
        let frame = |index: usize| plain([0xff; 6], PEER, 60 + (round * 97 + index * 37) % 1455, index);
        for index in 0..WINDOW {
            rig.fixture.inject(&frame(index))?;
        }
        segment::three_of_five(&mut rig)?;
        for index in 0..WINDOW {
            same(&format!("frame {index} received"), &rig.received()?.bytes, &frame(index))?;
        }
    }
    Ok(segment::verdict(&rig))
}
