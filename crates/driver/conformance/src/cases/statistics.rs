//! The statistics registers match the frames (SDM 13.7).

use crate::case::{CaseResult, Entry, Verdict, check_eq};
use crate::cases::ring::Missed;
use crate::oracle::{PEER, plain, tagged};
use crate::rig::Rig;
use crate::{Failure, Fixture, departure};
use kpps_datasheet::stat;
use kpps_driver::{Stats, TxMeta};

const GROUP: [u8; 6] = [0x01, 0x00, 0x5e, 0x00, 0x00, 0x07];

pub(super) fn cases<B: Fixture>() -> Vec<Entry<B>> {
    vec![
        ("statistics: frames and octets sent", sent),
        ("statistics: sizes of frames sent", sent_sizes),
        ("statistics: frames and octets received", received),
        ("statistics: broadcasts among all multicasts", broadcasts),
        ("statistics: sizes of frames received", received_sizes),
        ("statistics: reading clears", cleared),
        ("statistics: octets of VLAN tags", vlan_octets),
        ("statistics: segments", segments),
    ]
}

/// Sizes at the edges of the classes, without FCS.
const SIZES: [usize; 14] = [60, 61, 123, 124, 251, 252, 507, 508, 1019, 1020, 1514, 1518, 4000, 9014];

/// The test frames: each size once as broadcast, twice as multicast, three times as unicast.
fn frames(station: [u8; 6]) -> Vec<Vec<u8>> {
    let casts = [[0xff; 6], GROUP, GROUP, station, station, station];
    SIZES.into_iter().flat_map(|size| casts.map(|to| plain(to, PEER, size, size))).collect()
}

/// The expected registers: totals, then size classes.
#[derive(Debug, Default, PartialEq, Eq)]
struct Expected {
    frames: u64,
    octets: u64,
    multicast: u64,
    broadcast: u64,
    classes: [u64; 6],
}

fn expected(frames: &[Vec<u8>], class_fcs: usize) -> Expected {
    let mut expected = Expected::default();
    for frame in frames {
        let total = frame.len() + 4;
        expected.frames += 1;
        expected.octets += total as u64;
        expected.broadcast += u64::from(frame[..6] == [0xff; 6]);
        expected.multicast += u64::from(frame[..6] == GROUP);
        let class = match frame.len() + class_fcs {
            64 => 0,
            65..128 => 1,
            128..256 => 2,
            256..512 => 3,
            512..1024 => 4,
            1024.. => 5,
            // Below the smallest class.
            _ => continue,
        };
        expected.classes[class] += 1;
    }
    expected
}

/// The driver's statistics before and after an action.
struct Growth(Stats, Stats);

impl Growth {
    /// By how much a statistic grew.
    fn of(&self, register: u32) -> u64 {
        self.1.get(register).wrapping_sub(self.0.get(register))
    }
    /// By how much six size classes grew.
    fn classes(&self, first: u32) -> [u64; 6] {
        [0, 1, 2, 3, 4, 5].map(|class| self.of(first + 4 * class))
    }
}

fn grown<B: Fixture>(
    rig: &mut Rig<'_, B>,
    act: impl FnOnce(&mut Rig<'_, B>) -> Result<(), Failure>,
) -> Result<Growth, Failure> {
    let before = rig.control.update_stats()?.clone();
    act(rig)?;
    Ok(Growth(before, rig.control.update_stats()?.clone()))
}

fn send_all<B: Fixture>(rig: &mut Rig<'_, B>, frames: &[Vec<u8>]) -> Result<(), Failure> {
    for frame in frames {
        rig.send(frame, 1, &TxMeta::default())?;
        rig.tx.flush();
        rig.sent()?;
    }
    Ok(())
}

fn receive_all<B: Fixture>(rig: &mut Rig<'_, B>, frames: &[Vec<u8>]) -> Result<(), Failure> {
    for frame in frames {
        rig.fixture.inject(frame)?;
        rig.received()?;
    }
    Ok(())
}

fn sent<B: Fixture>(fixture: &mut B) -> CaseResult {
    let frames = frames(fixture.address());
    let departs = fixture.departs(&departure::SENT_WITHOUT_FCS);
    let mut expected = expected(&frames, 4);
    if departs {
        expected.octets -= 4 * expected.frames;
    }
    let mut rig = Rig::open(fixture, |_| {})?;
    let grown = grown(&mut rig, |rig| send_all(rig, &frames))?;
    for (name, register, value) in [
        ("TPT", stat::TPT, expected.frames),
        ("GPTC", stat::GPTC, expected.frames),
        ("TOT", stat::TOT, expected.octets),
        ("GOTC", stat::GOTC, expected.octets),
        ("MPTC", stat::MPTC, expected.multicast),
        ("BPTC", stat::BPTC, expected.broadcast),
        ("GPRC", stat::GPRC, 0),
        ("COLC", stat::COLC, 0),
    ] {
        check_eq!(grown.of(register), value, "{name}");
    }
    Ok(if departs { Verdict::Departs(&departure::SENT_WITHOUT_FCS) } else { Verdict::Pass })
}

fn sent_sizes<B: Fixture>(fixture: &mut B) -> CaseResult {
    let frames = frames(fixture.address());
    let departs = fixture.departs(&departure::SENT_WITHOUT_FCS);
    let expected = expected(&frames, if departs { 0 } else { 4 });
    let mut rig = Rig::open(fixture, |_| {})?;
    let grown = grown(&mut rig, |rig| send_all(rig, &frames))?;
    check_eq!(grown.classes(stat::PTC64), expected.classes, "PTC64 to PTC1522");
    Ok(if departs { Verdict::Departs(&departure::SENT_WITHOUT_FCS) } else { Verdict::Pass })
}

fn received<B: Fixture>(fixture: &mut B) -> CaseResult {
    let frames = frames(fixture.address());
    let departs = fixture.departs(&departure::MULTICAST_TWICE);
    let mut expected = expected(&frames, 4);
    if departs {
        expected.multicast *= 2;
    }
    let mut rig = Rig::open(fixture, |config| config.promiscuous = false)?;
    rig.control.set_multicast(&[GROUP]);
    let mut missed = Missed::new(&rig);
    let grown = grown(&mut rig, |rig| receive_all(rig, &frames))?;
    for (name, register, value) in [
        ("TPR", stat::TPR, expected.frames),
        ("GPRC", stat::GPRC, expected.frames),
        ("TOR", stat::TOR, expected.octets),
        ("GORC", stat::GORC, expected.octets),
        ("MPRC", stat::MPRC, expected.multicast),
        ("BPRC", stat::BPRC, expected.broadcast),
        ("CRCERRS", stat::CRCERRS, 0),
        ("GPTC", stat::GPTC, 0),
    ] {
        check_eq!(grown.of(register), value, "{name}");
    }
    check_eq!(missed.more(&rig), 0, "MPC");
    Ok(if departs { Verdict::Departs(&departure::MULTICAST_TWICE) } else { Verdict::Pass })
}

fn broadcasts<B: Fixture>(fixture: &mut B) -> CaseResult {
    let frames = frames(fixture.address());
    let expected = expected(&frames, 4);
    let departs = fixture.departs(&departure::BROADCAST_AS_MULTICAST);
    let mut rig = Rig::open(fixture, |_| {})?;
    let grown = grown(&mut rig, |rig| receive_all(rig, &frames))?;
    let (broadcast, multicast) = match departs {
        true => (0, expected.multicast + expected.broadcast),
        false => (expected.broadcast, expected.multicast),
    };
    check_eq!(grown.of(stat::BPRC), broadcast, "BPRC");
    check_eq!(grown.of(stat::MPRC), multicast, "MPRC");
    Ok(if departs { Verdict::Departs(&departure::BROADCAST_AS_MULTICAST) } else { Verdict::Pass })
}

fn received_sizes<B: Fixture>(fixture: &mut B) -> CaseResult {
    let frames = frames(fixture.address());
    let departs = fixture.departs(&departure::SIZE_CLASSES_WITHOUT_FCS);
    let right = expected(&frames, 4);
    let mut rig = Rig::open(fixture, |config| config.strip_fcs = false)?;
    let with_fcs = grown(&mut rig, |rig| receive_all(rig, &frames))?;
    check_eq!(with_fcs.classes(stat::PRC64), right.classes, "PRC64 to PRC1522, FCS kept");
    drop(rig);
    let mut rig = Rig::open(fixture, |_| {})?;
    let without_fcs = grown(&mut rig, |rig| receive_all(rig, &frames))?;
    let expected = if departs { expected(&frames, 0).classes } else { right.classes };
    check_eq!(without_fcs.classes(stat::PRC64), expected, "PRC64 to PRC1522, FCS stripped");
    Ok(if departs { Verdict::Departs(&departure::SIZE_CLASSES_WITHOUT_FCS) } else { Verdict::Pass })
}

/// 64-bit counters clear with their high half (SDM 13.7).
fn cleared<B: Fixture>(fixture: &mut B) -> CaseResult {
    let frames = frames(fixture.address());
    let mut rig = Rig::open(fixture, |_| {})?;
    rig.control.update_stats()?;
    send_all(&mut rig, &frames[..10])?;
    receive_all(&mut rig, &frames[..7])?;
    for (name, register, value) in
        [("GPTC", stat::GPTC, 10), ("TPT", stat::TPT, 10), ("GPRC", stat::GPRC, 7), ("TPR", stat::TPR, 7)]
    {
        check_eq!(rig.regs.read(register), value, "{name}");
        check_eq!(rig.regs.read(register), 0, "{name} read again");
    }
    for (name, register) in
        [("GOTC", stat::GOTC), ("TOT", stat::TOT), ("GORC", stat::GORC), ("TOR", stat::TOR)]
    {
        let low = rig.regs.read(register);
        check_eq!(rig.regs.read(register), low, "{name} low, read twice");
        check_eq!(rig.regs.read(register + 4), 0, "{name} high");
        check_eq!(rig.regs.read(register), 0, "{name} low after high");
    }
    Ok(Verdict::Pass)
}

/// Octets count from the destination address to the FCS, the tag included, even if the card inserts or strips
/// it (SDM 13.7.31, 13.7.32).
fn vlan_octets<B: Fixture>(fixture: &mut B) -> CaseResult {
    if !fixture.chip().has_vlan() {
        return Ok(Verdict::NotApplicable(super::vlan::NO_VLAN));
    }
    let departs = fixture.departs(&departure::OCTETS_WITHOUT_VLAN);
    let mut rig = Rig::open(fixture, |config| config.vlan = true)?;
    let frame = plain([0xff; 6], PEER, 200, 1);
    let grown = grown(&mut rig, |rig| {
        for _ in 0..10 {
            rig.send(&frame, 1, &TxMeta { vlan: Some(7), ..TxMeta::default() })?;
            rig.tx.flush();
            rig.sent()?;
            rig.fixture.inject(&tagged(&frame, 7))?;
            rig.received()?;
        }
        Ok(())
    })?;
    let octets = if departs { 10 * 204 } else { 10 * 208 };
    check_eq!(grown.of(stat::GOTC), octets, "GOTC");
    if rig.fixture.departs(&departure::RECEIVED_WITHOUT_VLAN) {
        check_eq!(grown.of(stat::GORC), 10 * 204, "GORC");
        return Ok(Verdict::Departs(&departure::RECEIVED_WITHOUT_VLAN));
    }
    check_eq!(grown.of(stat::GORC), octets, "GORC");
    Ok(if departs { Verdict::Departs(&departure::OCTETS_WITHOUT_VLAN) } else { Verdict::Pass })
}

/// SDM 13.7.53: TSCTC; each segment counts as a frame.
fn segments<B: Fixture>(fixture: &mut B) -> CaseResult {
    if !fixture.chip().has_tso() {
        return Ok(Verdict::NotApplicable("the chip has no TCP segmentation"));
    }
    let departs = fixture.departs(&departure::SEGMENTS_ARE_FRAGMENTS);
    let mut rig = Rig::open(fixture, |_| {})?;
    let grown = grown(&mut rig, |rig| super::segment::three_of_five(rig))?;
    let once = rig.fixture.departs(&departure::LARGE_SEND_COUNTS_ONCE);
    check_eq!(grown.of(stat::GPTC), if departs || once { 3 } else { 15 }, "GPTC");
    check_eq!(grown.of(stat::TSCTC), 3, "TSCTC");
    check_eq!(grown.of(stat::TSCTFC), 0, "TSCTFC");
    if once {
        return Ok(Verdict::Departs(&departure::LARGE_SEND_COUNTS_ONCE));
    }
    Ok(if departs { Verdict::Departs(&departure::SEGMENTS_ARE_FRAGMENTS) } else { Verdict::Pass })
}
