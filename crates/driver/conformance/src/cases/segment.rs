//! TCP segmentation, byte by byte (SDM 3.5).

use super::exchange::{Direction, exchange};
use crate::case::{CaseResult, Entry, Verdict, check, check_eq};
use crate::oracle::{self, Large, PEER, pattern};
use crate::rig::{QUIET_NS, Rig, same};
use crate::{Failure, Fixture, departure};
use kpps_driver::{Fragment, Offload, Refusal, Segmentation, Sum, TxMeta};
use kpps_platform::BufferSource;

pub(super) const NO_TSO: &str = "the chip has no TCP segmentation";

pub(super) fn cases<B: Fixture>() -> Vec<Entry<B>> {
    vec![
        ("segmentation: IPv4, many sizes", v4),
        ("segmentation: payload of whole segments", whole),
        ("segmentation: short segments are padded", short),
        ("segmentation: IPv6", v6),
        ("segmentation: each segment gets the VLAN tag", with_tag),
        ("segmentation: buffers of any shape", shapes),
        ("segmentation: between plain frames and other contexts", mixed),
        ("segmentation: refused if unsupported or invalid", refused),
    ]
}

/// Flags of TCP that only the last segment has.
const FIN_AND_PSH: u8 = 0x09;

fn large(v4: bool, payload: usize) -> Large {
    Large {
        to: [0xff; 6],
        from: PEER,
        // It wraps within a large send.
        identification: 0xfff8,
        v4,
        sequence: 0xffff_f000,
        fin: payload % 2 == 1,
        vlan: None,
        payload: pattern(payload, payload),
    }
}

fn segmentation(large: &Large, mss: usize) -> Segmentation {
    let transport = (large.header_bytes() - 20) as u8;
    Segmentation {
        ip: if large.v4 {
            Sum { start: 14, field: 24, end: 33 }
        } else {
            Sum { start: 14, field: 0, end: 0 }
        },
        transport: Sum { start: transport, field: transport + 16, end: 0 },
        is_ipv4: large.v4,
        is_tcp: true,
        header_bytes: large.header_bytes() as u8,
        payload_bytes: large.payload.len() as u32,
        mss: mss as u16,
    }
}

/// The verdict of a case whose segments are all right, or depart in the known way.
pub(super) fn verdict<B: Fixture>(rig: &Rig<'_, B>) -> Verdict {
    let known = [&departure::SEGMENTS_ARE_FRAGMENTS, &departure::LAST_SEGMENT_WITHOUT_FLAGS];
    known.into_iter().find(|it| rig.fixture.departs(it)).map_or(Verdict::Pass, Verdict::Departs)
}

/// Checks the frames of a device that cuts a large send into IP fragments: reassembled, they are one TCP
/// segment with the whole payload. Over IPv6 the pieces have no fragment headers.
fn fragments<B: Fixture>(rig: &mut Rig<'_, B>, large: &Large) -> Result<(), Failure> {
    let tag = if large.vlan.is_some() { 4 } else { 0 };
    let ip = 14 + tag;
    let mut packet = Vec::new();
    loop {
        let frame = rig.sent()?;
        if !large.v4 {
            check_eq!(&frame[ip + 4..ip + 6], &[0, 0], "length field of a piece");
            packet.extend(frame.get(ip + 40..).ok_or("a piece without IPv6 header")?);
            if packet.len() < 20 + large.payload.len() {
                continue;
            }
            break;
        }
        let word = |at: usize| u16::from_be_bytes([frame[ip + at], frame[ip + at + 1]]);
        let end = ip + usize::from(word(2));
        check_eq!(usize::from(word(6) & 0x1FFF) * 8, packet.len(), "offset of a fragment");
        packet.extend(frame.get(ip + 20..end).ok_or("a fragment that is shorter than it says")?);
        if word(6) & 0x2000 == 0 {
            break;
        }
    }
    same("payload of all fragments", packet.get(20..).unwrap_or_default(), &large.payload)
}

/// Sends one large frame and compares each segment, as `change` says it should be.
fn send_as<B: Fixture>(
    rig: &mut Rig<'_, B>,
    large: &Large,
    mss: usize,
    pieces: usize,
    change: impl Fn(&mut Vec<Vec<u8>>),
) -> Result<(), Failure> {
    let meta = TxMeta { vlan: large.vlan, offload: Offload::Segment(segmentation(large, mss)) };
    rig.send(&large.frame(), pieces, &meta)?;
    rig.tx.flush();
    if rig.fixture.departs(&departure::SEGMENTS_ARE_FRAGMENTS) {
        return fragments(rig, large);
    }
    let mut segments = large.segments(mss);
    if let (true, Some(last)) =
        (rig.fixture.departs(&departure::LAST_SEGMENT_WITHOUT_FLAGS), segments.last_mut())
    {
        let tag = if large.vlan.is_some() { 4 } else { 0 };
        let tcp = large.header_bytes() + tag - 20;
        let removed = last[tcp + 13] & FIN_AND_PSH;
        last[tcp + 13] -= removed;
        oracle::adjust(last, tcp + 16, !u16::from(removed));
    }
    change(&mut segments);
    let count = segments.len();
    for (index, segment) in segments.into_iter().enumerate() {
        let what = format!(
            "segment {} of {count} ({} B, MSS {mss}, {pieces} pieces)",
            index + 1,
            large.payload.len(),
        );
        same(&what, &rig.sent()?, &segment)?;
    }
    Ok(())
}

/// Sends one large frame of more than whole segments, none short, and compares each segment.
fn send<B: Fixture>(rig: &mut Rig<'_, B>, large: &Large, mss: usize, pieces: usize) -> Result<(), Failure> {
    send_as(rig, large, mss, pieces, |_| {})
}

/// Three large frames of five segments each.
pub(super) fn three_of_five<B: Fixture>(rig: &mut Rig<'_, B>) -> Result<(), Failure> {
    (0..3).try_for_each(|_| send(rig, &large(true, 4990), 1000, 2))
}

/// (payload, MSS, pieces)
const SHAPES: [(usize, usize, usize); 13] = [
    (6, 1460, 1),
    (100, 1460, 1),
    (1459, 1460, 1),
    (2919, 1460, 1),
    (2930, 1460, 2),
    (10_000, 1460, 3),
    (10_001, 536, 3),
    (3_050, 100, 2),
    (20_000, 8960, 2),
    (20_001, 8960, 5),
    (40_000, 1448, 4),
    (65_000, 1460, 6),
    (65_001, 9000, 17),
];

fn v4<B: Fixture>(fixture: &mut B) -> CaseResult {
    if !fixture.chip().has_tso() {
        return Ok(Verdict::NotApplicable(NO_TSO));
    }
    let mut rig = Rig::open(fixture, |_| {})?;
    for (payload, mss, pieces) in SHAPES {
        send(&mut rig, &large(true, payload), mss, pieces)?;
    }
    check!(rig.fixture.collect()?.is_none(), "more frames than segments");
    Ok(verdict(&rig))
}

/// SDM 3.5.4: the last segment holds the rest; there is no empty segment.
fn whole<B: Fixture>(fixture: &mut B) -> CaseResult {
    if !fixture.chip().has_tso() {
        return Ok(Verdict::NotApplicable(NO_TSO));
    }
    let departs = fixture.departs(&departure::EMPTY_LAST_SEGMENT);
    let mut rig = Rig::open(fixture, |_| {})?;
    for segments in [1, 2, 5, 20] {
        let large = large(true, segments * 1000);
        send(&mut rig, &large, 1000, 2)?;
        if departs {
            let extra = rig.sent()?;
            let bytes = large.header_bytes().max(if rig.fixture.is_padded() { 60 } else { 0 });
            check_eq!(extra.len(), bytes, "bytes of the segment too many");
        }
        rig.fixture.advance(QUIET_NS)?;
        check!(rig.fixture.collect()?.is_none(), "more frames than segments");
    }
    Ok(if departs { Verdict::Departs(&departure::EMPTY_LAST_SEGMENT) } else { verdict(&rig) })
}

/// SDM 13.4.33: TCTL.PSP pads to 64 bytes with FCS.
fn short<B: Fixture>(fixture: &mut B) -> CaseResult {
    if !fixture.chip().has_tso() {
        return Ok(Verdict::NotApplicable(NO_TSO));
    }
    let departs = fixture.departs(&departure::NO_PADDING);
    let padded = fixture.is_padded();
    let mut rig = Rig::open(fixture, |_| {})?;
    for payload in [1, 5, 1001, 2003] {
        send_as(&mut rig, &large(true, payload), 1000, 1, |segments| {
            for segment in segments {
                if !departs || padded {
                    segment.resize(segment.len().max(60), 0);
                }
            }
        })?;
    }
    if padded {
        // All segments are right as far as this fixture shows.
        return Ok(Verdict::NotApplicable("the peer pads short frames, which hides the card's padding"));
    }
    Ok(if departs { Verdict::Departs(&departure::NO_PADDING) } else { verdict(&rig) })
}

/// SDM 3.5.10: the payload length of IPv6 does not count its header.
fn v6<B: Fixture>(fixture: &mut B) -> CaseResult {
    if !fixture.chip().has_tso() {
        return Ok(Verdict::NotApplicable(NO_TSO));
    }
    let departs = fixture.departs(&departure::IPV6_LENGTH_WITH_HEADER);
    let mut rig = Rig::open(fixture, |_| {})?;
    for (payload, mss, pieces) in SHAPES {
        send_as(&mut rig, &large(false, payload), mss.min(8900), pieces, |segments| {
            for segment in segments.iter_mut().filter(|_| departs) {
                let length = u16::from_be_bytes([segment[18], segment[19]]) + 40;
                segment[18..20].copy_from_slice(&length.to_be_bytes());
            }
        })?;
    }
    Ok(if departs { Verdict::Departs(&departure::IPV6_LENGTH_WITH_HEADER) } else { verdict(&rig) })
}

fn with_tag<B: Fixture>(fixture: &mut B) -> CaseResult {
    if !fixture.chip().has_tso() {
        return Ok(Verdict::NotApplicable(NO_TSO));
    }
    let mut rig = Rig::open(fixture, |config| config.vlan = true)?;
    for tag in [0x0001, 0xefff] {
        let large = Large { vlan: Some(tag), ..large(true, 7101) };
        send(&mut rig, &large, 1400, 2)?;
    }
    Ok(verdict(&rig))
}

/// Buffers that begin and end anywhere: header split, single bytes, one large.
fn shapes<B: Fixture>(fixture: &mut B) -> CaseResult {
    if !fixture.chip().has_tso() {
        return Ok(Verdict::NotApplicable(NO_TSO));
    }
    let mut rig = Rig::open(fixture, |_| {})?;
    let large = large(true, 3010);
    let frame = large.frame().len();
    for pieces in (1..=12).chain([frame / 55, frame / 50]) {
        send(&mut rig, &large, 700, pieces)?;
    }
    let many = frame / 40;
    if rig.fixture.departs(&departure::MANY_BUFFERS_NOT_SENT) {
        let meta = TxMeta { vlan: None, offload: Offload::Segment(segmentation(&large, 700)) };
        rig.send(&large.frame(), many, &meta)?;
        exchange(&mut rig, Direction::Out, &[60], 1)?;
        return Ok(Verdict::Departs(&departure::MANY_BUFFERS_NOT_SENT));
    }
    send(&mut rig, &large, 700, many)?;
    Ok(verdict(&rig))
}

/// Segmentation has its own context; neither it nor plain checksums may disturb the other.
fn mixed<B: Fixture>(fixture: &mut B) -> CaseResult {
    if !fixture.chip().has_tso() {
        return Ok(Verdict::NotApplicable(NO_TSO));
    }
    let mut rig = Rig::open(fixture, |_| {})?;
    for round in 0..20 {
        send(&mut rig, &large(true, 4000), 900 + round, 1 + round % 3)?;
        exchange(&mut rig, Direction::Out, &[60, 900 + round], 1)?;
        super::checksum::exchange(&mut rig, round)?;
    }
    Ok(verdict(&rig))
}

fn refused<B: Fixture>(fixture: &mut B) -> CaseResult {
    let can = fixture.chip().has_tso();
    let mut rig = Rig::open(fixture, |_| {})?;
    let good = segmentation(&large(true, 1000), 500);
    let expected = |reason| if can { reason } else { Refusal::Unsupported };
    for (what, reason, segmentation) in [
        ("an MSS of 0", expected(Refusal::Invalid), Segmentation { mss: 0, ..good }),
        ("no payload", expected(Refusal::Invalid), Segmentation { payload_bytes: 0, ..good }),
        ("a wrong length", expected(Refusal::Invalid), Segmentation { payload_bytes: 9999, ..good }),
        ("segments beyond the FIFO", expected(Refusal::Invalid), Segmentation { mss: 50_000, ..good }),
    ] {
        let buffer = rig.tx.source_mut().take().ok_or("out of buffers")?;
        let meta = TxMeta { vlan: None, offload: Offload::Segment(segmentation) };
        let fragment = Fragment { buffer, bytes: 1054 };
        match rig.tx.enqueue([fragment].into_iter(), &meta) {
            Ok(()) => return Err(format!("the driver took {what}").into()),
            Err(refused) => {
                check_eq!(refused.reason, reason, "reason to refuse {what}");
                for fragment in refused.frame {
                    rig.tx.source_mut().give(fragment.buffer);
                }
            }
        }
    }
    check_eq!(rig.tx.pending(), 0, "descriptors in use after nothing was taken");
    // Refused frames leave the queue as it was.
    exchange(&mut rig, Direction::Out, &[60, 1514], 1)?;
    Ok(Verdict::Pass)
}
