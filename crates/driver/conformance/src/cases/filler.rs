//! Fillers: frames with a wrong FCS from software, which keep the wire busy between two frames.

use super::exchange::frame;
use crate::case::{CaseResult, Entry, Verdict, check_eq};
use crate::rig::{QUIET_NS, Rig, same};
use crate::{Failure, Fixture, departure};
use kpps_datasheet::stat;
use kpps_driver::{Loopback, TxMeta};

/// Sizes with FCS.
const SIZES: [u16; 5] = [64, 65, 84, 1000, 1518];

pub(super) fn cases<B: Fixture>() -> Vec<Entry<B>> {
    vec![
        ("transmit: fillers leave with a wrong FCS", transmit),
        ("loopback: fillers are dropped, and counted in CRCERRS", loopback),
    ]
}

/// The good frames around the fillers.
fn good() -> impl Iterator<Item = Vec<u8>> {
    (0..=SIZES.len()).map(|index| frame(60 + index))
}

/// Sends the good frames, and a filler of each size between two of them.
fn send<B: Fixture>(rig: &mut Rig<'_, B>) -> Result<(), Failure> {
    let mut fillers = SIZES.into_iter();
    for frame in good() {
        rig.send(&frame, 1, &TxMeta::default())?;
        if let Some(bytes) = fillers.next() {
            rig.tx
                .send_filler(bytes)
                .map_err(|reason| format!("the driver refused a filler of {bytes} B: {reason:?}"))?;
        }
    }
    rig.tx.flush();
    Ok(())
}

/// The frames that must arrive; with the fillers, if their FCS counts as data. A far end that others use
/// takes fillers for other traffic.
fn arriving<B: Fixture>(fixture: &B, departs: bool) -> Vec<Vec<u8>> {
    let fillers = SIZES.map(|bytes| vec![0; bytes.into()]).into_iter();
    let mut fillers = fillers.filter(|filler| departs && !fixture.is_noise(filler));
    good().flat_map(|frame| [Some(frame), fillers.next()]).flatten().collect()
}

/// SDM 3.3.3.1: without IFCS, the last four bytes are the FCS.
fn transmit<B: Fixture>(fixture: &mut B) -> CaseResult {
    let departs = fixture.departs(&departure::FCS_NOT_FROM_SOFTWARE);
    let mut rig = Rig::open(fixture, |_| {})?;
    send(&mut rig)?;
    rig.fixture.advance(QUIET_NS)?;
    if let Some(spoiled) = rig.fixture.take_spoiled() {
        check_eq!(spoiled, SIZES.len() as u64, "frames that left with a wrong FCS");
    }
    for frame in arriving(rig.fixture, departs) {
        same("frame among fillers", &rig.sent()?, &frame)?;
    }
    Ok(if departs { Verdict::Departs(&departure::FCS_NOT_FROM_SOFTWARE) } else { Verdict::Pass })
}

/// SDM 13.7.1: the receiver counts them, and delivers the good frames around them only.
fn loopback<B: Fixture>(fixture: &mut B) -> CaseResult {
    let departs = fixture.departs(&departure::FCS_NOT_FROM_SOFTWARE);
    let mode = if fixture.chip().has_mdic() { Loopback::Phy } else { Loopback::Transceiver };
    let mut rig = Rig::open(fixture, |_| {})?;
    rig.loop_back(mode)?;
    // Reading clears it.
    rig.regs.read(stat::CRCERRS);
    send(&mut rig)?;
    for frame in arriving(rig.fixture, departs) {
        same("looped frame among fillers", &rig.received()?.bytes, &frame)?;
    }
    let errors = if departs { 0 } else { SIZES.len() as u32 };
    check_eq!(rig.regs.read(stat::CRCERRS), errors, "CRCERRS");
    Ok(if departs { Verdict::Departs(&departure::FCS_NOT_FROM_SOFTWARE) } else { Verdict::Pass })
}
