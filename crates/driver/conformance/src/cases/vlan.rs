//! 802.1Q tags: inserted, stripped, filtered (SDM 9).

use crate::Fixture;
use crate::case::{CaseResult, Entry, Verdict, check, check_eq};
use crate::oracle::{PEER, plain, tagged};
use crate::rig::{Rig, same};
use kpps_driver::{Refusal, TxMeta};
use kpps_platform::BufferSource;

/// The reason why a case does not apply to a chip.
pub(super) const NO_VLAN: &str = "the chip has no VLAN support";

/// Tags with the least and the greatest priority (0, 7) and identifier (0, 4095), with CFI clear and set.
const TAGS: [u16; 6] = [0x0001, 0x0fff, 0x6005, 0xe000, 0x3064, 0xffff];

pub(super) fn cases<B: Fixture>() -> Vec<Entry<B>> {
    vec![
        ("vlan: tags are inserted", inserted),
        ("vlan: insertion is refused when off or absent", refused),
        ("vlan: tags are stripped", stripped),
        ("vlan: tags stay when stripping is off", left_alone),
        ("vlan: the filter, every identifier", filtered),
    ]
}

/// The card inserts tags (SDM 9.2).
fn inserted<B: Fixture>(fixture: &mut B) -> CaseResult {
    if !fixture.chip().has_vlan() {
        return Ok(Verdict::NotApplicable(NO_VLAN));
    }
    let mut rig = Rig::open(fixture, |config| config.vlan = true)?;
    for (index, tag) in TAGS.into_iter().enumerate() {
        for (size, pieces) in [(60, 1), (61, 1), (1514, 1), (1514, 4), (9014, 3)] {
            let frame = plain([0xff; 6], PEER, size, index);
            rig.send(&frame, pieces, &TxMeta { vlan: Some(tag), ..TxMeta::default() })?;
            // An untagged frame in between stays untagged.
            rig.send(&frame, pieces, &TxMeta::default())?;
            rig.tx.flush();
            let what = format!("frame of {size} B in {pieces} pieces, tag {tag:#06x}");
            same(&what, &rig.sent()?, &tagged(&frame, tag))?;
            same("untagged frame behind a tagged one", &rig.sent()?, &frame)?;
        }
    }
    Ok(Verdict::Pass)
}

/// The driver refuses frames with a tag that the card would not insert.
fn refused<B: Fixture>(fixture: &mut B) -> CaseResult {
    let can = fixture.chip().has_vlan();
    let mut rig = Rig::open(fixture, |config| config.vlan = !can)?;
    let buffer = rig.tx.source_mut().take().ok_or("out of buffers")?;
    let fragment = kpps_driver::Fragment { buffer, bytes: 60 };
    let meta = TxMeta { vlan: Some(5), ..TxMeta::default() };
    let Err(refused) = rig.tx.enqueue([fragment].into_iter(), &meta) else {
        return Err("the driver took a frame with a tag that the card will not insert".into());
    };
    check_eq!(refused.reason, Refusal::Unsupported, "reason");
    for fragment in refused.frame {
        rig.tx.source_mut().give(fragment.buffer);
    }
    Ok(Verdict::Pass)
}

/// The card strips tags if CTRL.VME is set (SDM 9.1).
fn stripped<B: Fixture>(fixture: &mut B) -> CaseResult {
    if !fixture.chip().has_vlan() {
        return Ok(Verdict::NotApplicable(NO_VLAN));
    }
    let mut rig = Rig::open(fixture, |config| config.vlan = true)?;
    for (index, tag) in TAGS.into_iter().enumerate() {
        for size in [60, 61, 1514, 2044, 2046, 2048, 9010] {
            let frame = plain([0xff; 6], PEER, size, index);
            rig.fixture.inject(&tagged(&frame, tag))?;
            rig.fixture.inject(&frame)?;
            let got = rig.received()?;
            check_eq!(got.vlan, Some(tag), "tag of a frame of {size} B");
            same(&format!("frame of {size} B, tag stripped"), &got.bytes, &frame)?;
            let got = rig.received()?;
            check_eq!(got.vlan, None, "tag of an untagged frame");
            same("untagged frame behind a tagged one", &got.bytes, &frame)?;
        }
    }
    Ok(Verdict::Pass)
}

fn left_alone<B: Fixture>(fixture: &mut B) -> CaseResult {
    let mut rig = Rig::open(fixture, |_| {})?;
    for tag in TAGS {
        let frame = tagged(&plain([0xff; 6], PEER, 100, 1), tag);
        rig.fixture.inject(&frame)?;
        let got = rig.received()?;
        check_eq!(got.vlan, None, "tag");
        same("tagged frame", &got.bytes, &frame)?;
    }
    Ok(Verdict::Pass)
}

/// The card filters by identifier: RCTL.VFE and the 4096 bits of VFTA (SDM 9.3).
fn filtered<B: Fixture>(fixture: &mut B) -> CaseResult {
    if !fixture.chip().has_vlan() {
        let mut rig = Rig::open_without_link(fixture, |_| {})?;
        check!(rig.control.set_vlans(Some(&[1])).is_err(), "the driver offers a VLAN filter");
        return Ok(Verdict::NotApplicable(NO_VLAN));
    }
    let mut rig = Rig::open(fixture, |config| config.vlan = true)?;
    let frame = plain([0xff; 6], PEER, 60, 3);
    for (round, step) in [(0, 3), (1, 32), (2, 33)] {
        let open: Vec<u16> = (0..4096).filter(|id| id % step == round).collect();
        rig.control.set_vlans(Some(&open))?;
        for block in (0..4096_u16).collect::<Vec<_>>().chunks(128) {
            for &id in block {
                // The filter ignores priority and CFI, so they differ from frame to frame.
                rig.fixture.inject(&tagged(&frame, id | id << 12))?;
            }
            rig.fixture.inject(&frame)?;
            let found: Vec<_> = rig.received_all()?.into_iter().map(|got| got.vlan).collect();
            let mut expected: Vec<_> =
                block.iter().filter(|id| open.contains(id)).map(|id| Some(id | id << 12)).collect();
            // The filter passes untagged frames.
            expected.push(None);
            check_eq!(found, expected, "tags that passed");
        }
    }
    rig.control.set_vlans(None)?;
    rig.fixture.inject(&tagged(&frame, 1000))?;
    check_eq!(rig.received()?.vlan, Some(1000), "tag that passes without a filter");
    Ok(Verdict::Pass)
}
