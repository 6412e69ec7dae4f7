//! Every frame size from 60 to 9014 bytes (without FCS): sent, received and looped back, in one buffer and in
//! many.

use super::exchange::{Direction, exchange, frame};
use crate::case::{CaseResult, Entry, Verdict, check, check_eq};
use crate::rig::{QUIET_NS, Rig, same};
use crate::{Failure, Fixture, departure};
use kpps_datasheet::stat;
use kpps_driver::{Loopback, TxMeta};

/// Sizes without FCS.
const SMALLEST: usize = 60;
const LARGEST: usize = 9014;

pub(super) fn cases<B: Fixture>() -> Vec<Entry<B>> {
    vec![
        ("transmit: every size 60..=9014 in one buffer", transmit_whole),
        ("transmit: every size 60..=9014 in pieces", transmit_pieces),
        ("transmit: short frames are padded to 60 B", transmit_short),
        ("transmit: short frames in pieces are padded", transmit_short_pieces),
        ("transmit: frames that only look like IP", transmit_nonsense),
        ("receive: every size 60..=9014 in one buffer", receive_whole),
        ("receive: every size 60..=9014 in 2048 B buffers", receive_2048),
        ("receive: frames in 256 B buffers", receive_256),
        ("receive: with the FCS left in place", receive_with_fcs),
        ("receive: long frames are refused without LPE", receive_too_long),
        ("receive: short frames are refused", receive_too_short),
        ("receive: frames with a wrong FCS are refused", receive_spoiled),
        ("loopback: every size 60..=9014 through the PHY", loopback_phy),
        ("loopback: through the transceiver of a fibre card", loopback_transceiver),
        ("loopback: without a cable", loopback_without_cable),
    ]
}

fn every_size() -> Vec<usize> {
    (SMALLEST..=LARGEST).collect()
}

fn transmit_whole<B: Fixture>(fixture: &mut B) -> CaseResult {
    exchange(&mut Rig::open(fixture, |_| {})?, Direction::Out, &every_size(), 1)?;
    Ok(Verdict::Pass)
}

fn transmit_pieces<B: Fixture>(fixture: &mut B) -> CaseResult {
    let mut rig = Rig::open(fixture, |_| {})?;
    for pieces in [2, 3, 7] {
        let sizes: Vec<usize> = every_size().into_iter().filter(|size| size % 7 == pieces % 7).collect();
        exchange(&mut rig, Direction::Out, &sizes, pieces)?;
    }
    // The rest in five, and some in very many.
    let sizes: Vec<usize> =
        every_size().into_iter().filter(|size| ![0, 2, 3].contains(&(size % 7))).collect();
    exchange(&mut rig, Direction::Out, &sizes, 5)?;
    exchange(&mut rig, Direction::Out, &[60, 61, 1000, 1514, 9014], 24)?;
    Ok(Verdict::Pass)
}

/// Pads a frame (IEEE 802.3, 3.2.8).
fn padded(mut frame: Vec<u8>) -> Vec<u8> {
    frame.resize(frame.len().max(SMALLEST), 0);
    frame
}

fn transmit_short<B: Fixture>(fixture: &mut B) -> CaseResult {
    let mut rig = Rig::open(fixture, |_| {})?;
    for size in 14..SMALLEST {
        rig.send(&frame(size), 1, &TxMeta::default())?;
        rig.tx.flush();
        same(&format!("frame of {size} B on the wire"), &rig.sent()?, &padded(frame(size)))?;
    }
    Ok(Verdict::Pass)
}

fn transmit_short_pieces<B: Fixture>(fixture: &mut B) -> CaseResult {
    let mut rig = Rig::open(fixture, |_| {})?;
    for size in 14..SMALLEST {
        for pieces in [2, 3] {
            rig.send(&frame(size), pieces, &TxMeta::default())?;
            rig.tx.flush();
            let what = format!("frame of {size} B in {pieces} pieces on the wire");
            same(&what, &rig.sent()?, &padded(frame(size)))?;
        }
    }
    Ok(Verdict::Pass)
}

/// Frames without offloads must be sent as they are, valid IP or not.
fn transmit_nonsense<B: Fixture>(fixture: &mut B) -> CaseResult {
    let departs = fixture.departs(&departure::NONSENSE_NOT_SENT);
    let mut rig = Rig::open(fixture, |_| {})?;
    let mut nonsense = frame(100);
    nonsense[12..16].copy_from_slice(&[0x08, 0x00, 0x00, 0x00]);
    for frame in [&nonsense, &frame(101)] {
        rig.send(frame, 1, &TxMeta::default())?;
    }
    rig.tx.flush();
    if !departs {
        same("frame with an impossible IP header", &rig.sent()?, &nonsense)?;
    }
    same("frame behind it", &rig.sent()?, &frame(101))?;
    Ok(if departs { Verdict::Departs(&departure::NONSENSE_NOT_SENT) } else { Verdict::Pass })
}

fn receive_whole<B: Fixture>(fixture: &mut B) -> CaseResult {
    let mut rig = Rig::open(fixture, |config| config.rx_buffer_bytes = 16384)?;
    exchange(&mut rig, Direction::In, &every_size(), 1)?;
    Ok(Verdict::Pass)
}

fn receive_2048<B: Fixture>(fixture: &mut B) -> CaseResult {
    exchange(&mut Rig::open(fixture, |_| {})?, Direction::In, &every_size(), 1)?;
    Ok(Verdict::Pass)
}

fn receive_256<B: Fixture>(fixture: &mut B) -> CaseResult {
    let mut rig = Rig::open(fixture, |config| config.rx_buffer_bytes = 256)?;
    // Around every multiple of the buffer, with and without the FCS.
    let near = |size: &usize| (size + 6) % 256 < 12;
    let sizes: Vec<usize> = every_size().into_iter().filter(near).collect();
    exchange(&mut rig, Direction::In, &sizes, 1)?;
    Ok(Verdict::Pass)
}

/// The driver cuts off the FCS where the card does not.
fn receive_with_fcs<B: Fixture>(fixture: &mut B) -> CaseResult {
    const BUFFER: usize = 2048;
    let loses = fixture.departs(&departure::FCS_LOST);
    let mut rig = Rig::open(fixture, |config| config.strip_fcs = false)?;
    let near = |size: &usize| *size < 200 || (size + 8) % BUFFER < 16;
    let spills = |size: &usize| (size + 4).div_ceil(BUFFER) > size.div_ceil(BUFFER);
    let sizes = every_size().into_iter().filter(near);
    let sizes: Vec<usize> = sizes.filter(|size| !(loses && spills(size))).collect();
    exchange(&mut rig, Direction::In, &sizes, 1)?;
    if loses {
        rig.fixture.inject(&frame(BUFFER))?;
        rig.wait("a frame without its FCS to be refused", |rig| {
            rig.rx.receive(8, |part| Some(part.buffer));
            Ok((rig.rx.counters().nonsense > 0).then_some(()))
        })?;
        exchange(&mut rig, Direction::In, &[60], 1)?;
        return Ok(Verdict::Departs(&departure::FCS_LOST));
    }
    let apart = rig.fixture.departs(&departure::FCS_APART);
    Ok(if apart { Verdict::Departs(&departure::FCS_APART) } else { Verdict::Pass })
}

/// Injects a frame of each size, each followed by a frame of 60 bytes that must arrive, and checks which of
/// the former arrive.
fn arrive<B: Fixture>(
    rig: &mut Rig<'_, B>,
    sizes: &[usize],
    expected: impl Fn(usize) -> Option<usize>,
) -> Result<(), Failure> {
    for &size in sizes {
        rig.fixture.inject(&frame(size))?;
        rig.fixture.inject(&frame(77))?;
        let mut got = rig.received()?;
        if let Some(length) = expected(size) {
            let mut frame = frame(size);
            frame.resize(length, 0);
            same(&format!("frame of {size} B"), &got.bytes, &frame)?;
            got = rig.received()?;
        }
        same(&format!("frame behind one of {size} B"), &got.bytes, &frame(77))?;
    }
    Ok(())
}

/// SDM 13.4.22: without LPE a frame is at most 1522 bytes long, with FCS. On the 82576 the last four of
/// them are for a tag (QEMU's igb).
fn receive_too_long<B: Fixture>(fixture: &mut B) -> CaseResult {
    let departs = fixture.departs(&departure::LONG_WITHOUT_FCS);
    let longest = match fixture.chip().has_advanced() {
        true => 1514,
        false if departs => 1522,
        false => 1518,
    };
    let mut rig = Rig::open(fixture, |config| config.max_frame_bytes = 1522)?;
    // The driver refuses frames beyond its own limit. This checks that the device passes none of them on.
    let before = rig.rx.counters().nonsense;
    arrive(&mut rig, &[1514, 1517, 1518, 1523, 1524, 2000, 9000], |size| (size <= longest).then_some(size))?;
    check_eq!(rig.rx.counters().nonsense, before, "frames that reached the driver and were refused");
    if departs {
        // Frames of 1519 to 1522 bytes without FCS reach the driver.
        arrive(&mut rig, &[1519, 1522], Some)?;
        return Ok(Verdict::Departs(&departure::LONG_WITHOUT_FCS));
    }
    arrive(&mut rig, &[1519, 1522], |_| None)?;
    Ok(Verdict::Pass)
}

/// SDM 13.7.34: frames of less than 64 bytes with FCS are errors.
fn receive_too_short<B: Fixture>(fixture: &mut B) -> CaseResult {
    let departs = fixture.departs(&departure::SHORT_PADDED);
    let mut rig = Rig::open(fixture, |_| {})?;
    let sizes: Vec<usize> = (14..SMALLEST).collect();
    arrive(&mut rig, &sizes, |_| departs.then_some(SMALLEST))?;
    Ok(if departs { Verdict::Departs(&departure::SHORT_PADDED) } else { Verdict::Pass })
}

/// SDM 3.2.1, 13.7.1: refused, and counted in CRCERRS.
fn receive_spoiled<B: Fixture>(fixture: &mut B) -> CaseResult {
    let mut rig = Rig::open(fixture, |_| {})?;
    rig.regs.read(stat::CRCERRS);
    for (index, size) in [60, 61, 1514, 2047, 9014].into_iter().enumerate() {
        if !rig.fixture.inject_bad_fcs(&frame(size))? {
            return Ok(Verdict::NotApplicable("the wire of this device carries no FCS"));
        }
        rig.fixture.inject(&frame(60 + index))?;
        same("frame behind a spoiled one", &rig.received()?.bytes, &frame(60 + index))?;
    }
    check_eq!(rig.regs.read(stat::CRCERRS), 5, "CRCERRS");
    Ok(Verdict::Pass)
}

/// Frames of every size come back in this mode and stay off the cable; without it they cross the cable again.
fn loops_back<B: Fixture>(fixture: &mut B, mode: Loopback) -> CaseResult {
    let mut rig = Rig::open(fixture, |_| {})?;
    rig.loop_back(mode)?;
    exchange(&mut rig, Direction::Around, &every_size(), 1)?;
    check!(rig.fixture.collect()?.is_none(), "a looped frame left through the cable as well");
    rig.control.set_loopback(Loopback::Off)?;
    rig.wait_for_link(true)?;
    exchange(&mut rig, Direction::Both, &[60, 1514], 1)?;
    Ok(Verdict::Pass)
}

fn loopback_phy<B: Fixture>(fixture: &mut B) -> CaseResult {
    if !fixture.chip().has_mdic() {
        return Ok(Verdict::NotApplicable("the card has no PHY for loopback"));
    }
    loops_back(fixture, Loopback::Phy)
}

/// SDM 13.4.22: RCTL.LBM = 3 on fibre. On copper the manual has no such mode.
fn loopback_transceiver<B: Fixture>(fixture: &mut B) -> CaseResult {
    if fixture.chip().has_mdic() {
        return Ok(Verdict::NotApplicable("RCTL.LBM is for the transceivers of fibre cards"));
    }
    loops_back(fixture, Loopback::Transceiver)
}

/// SDM 15.1.3.1: inside the card, before any cable.
fn loopback_without_cable<B: Fixture>(fixture: &mut B) -> CaseResult {
    if !fixture.has_cable() {
        return Ok(Verdict::NotApplicable(super::link::NO_CABLE));
    }
    let departs = fixture.departs(&departure::LOOPBACK_NEEDS_LINK);
    let mode = if fixture.chip().has_mdic() { Loopback::Phy } else { Loopback::Transceiver };
    let mut rig = Rig::open(fixture, |_| {})?;
    rig.fixture.set_link(false)?;
    rig.wait_for_link(false)?;
    if departs {
        rig.control.set_loopback(mode)?;
        rig.fixture.advance(QUIET_NS)?;
        rig.send(&frame(60), 1, &TxMeta::default())?;
        rig.tx.flush();
        rig.fixture.advance(QUIET_NS)?;
        check!(rig.poll()?.is_none(), "a frame was looped back");
    } else {
        rig.loop_back(mode)?;
        exchange(&mut rig, Direction::Around, &[60, 1514, 9014], 1)?;
    }
    rig.fixture.set_link(true)?;
    rig.control.set_loopback(Loopback::Off)?;
    rig.wait_for_link(true)?;
    exchange(&mut rig, Direction::Both, &[60, 1514], 1)?;
    Ok(if departs { Verdict::Departs(&departure::LOOPBACK_NEEDS_LINK) } else { Verdict::Pass })
}
