//! The link: up, down, and its interrupt.

use super::exchange::{Direction, exchange};
use crate::Fixture;
use crate::case::{CaseResult, Entry, Verdict, check, check_eq};
use crate::rig::Rig;
use kpps_datasheet::bit::{cause, status};
use kpps_datasheet::reg;

pub(super) fn cases<B: Fixture>() -> Vec<Entry<B>> {
    vec![
        ("link: comes up at 1000 Mb/s, full duplex", comes_up),
        ("link: goes down and up, LSC each time", goes_down_and_up),
        ("link: traffic passes again afterwards", traffic_afterwards),
    ]
}

fn comes_up<B: Fixture>(fixture: &mut B) -> CaseResult {
    let rig = Rig::open(fixture, |_| {})?;
    let link = rig.control.link();
    check_eq!((link.speed_mbps, link.full_duplex), (1000, true), "speed and duplex");
    let value = rig.regs.read(reg::STATUS);
    check!(value & status::LU != 0 && value & status::FD != 0, "STATUS is {value:#010x}");
    Ok(Verdict::Pass)
}

/// Why a case does not apply to this fixture.
pub(super) const NO_CABLE: &str = "the fixture cannot unplug the cable (no link control)";

/// SDM 13.4.17: LSC on each change.
fn goes_down_and_up<B: Fixture>(fixture: &mut B) -> CaseResult {
    if !fixture.has_cable() {
        return Ok(Verdict::NotApplicable(NO_CABLE));
    }
    let mut rig = Rig::open(fixture, |_| {})?;
    rig.control.causes()?;
    rig.control.unmask();
    for up in [false, true, false, true] {
        rig.fixture.set_link(up)?;
        rig.wait("LSC and the interrupt line", |rig| rig.fixture.interrupt_line().map(|l| l.then_some(())))?;
        // The link may change state several times before it is stable.
        let mut causes = 0;
        rig.wait("the link to follow the cable", |rig| {
            causes |= rig.control.causes()?.0;
            Ok((rig.control.update_link()?.up == up).then_some(()))
        })?;
        causes |= rig.control.causes()?.0;
        check!(causes & cause::LSC != 0, "ICR {causes:#x} without LSC after the cable changed");
        let value = rig.regs.read(reg::STATUS);
        check_eq!(value & status::LU != 0, up, "STATUS.LU");
    }
    rig.control.mask();
    Ok(Verdict::Pass)
}

fn traffic_afterwards<B: Fixture>(fixture: &mut B) -> CaseResult {
    if !fixture.has_cable() {
        return Ok(Verdict::NotApplicable(NO_CABLE));
    }
    let mut rig = Rig::open(fixture, |_| {})?;
    rig.fixture.set_link(false)?;
    rig.wait_for_link(false)?;
    rig.fixture.set_link(true)?;
    rig.wait_for_link(true)?;
    exchange(&mut rig, Direction::Both, &[60, 61, 1514, 9014], 1)?;
    Ok(Verdict::Pass)
}
