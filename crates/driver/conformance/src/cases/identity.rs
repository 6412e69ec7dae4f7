//! Identity, EEPROM, PHY, and the state after a reset.

use super::exchange::{Direction, exchange};
use crate::case::{CaseResult, Entry, Verdict, check, check_eq};
use crate::rig::{Regs, Rig};
use crate::{Failure, Fixture, departure};
use kpps_datasheet::bit::{cause, ctrl, eecd, eerd, mdic, rah, rctl, status, tctl};
use kpps_datasheet::{Chip, Media, eeprom, express, igb, mii, reg};
use kpps_platform::Platform;

pub(super) fn cases<B: Fixture>() -> Vec<Entry<B>> {
    vec![
        ("identity: the card answers", answers),
        ("identity: PHY identifier", phy_identifier),
        ("eeprom: checksum and address through EERD", eeprom_register),
        ("eeprom: checksum and address through EECD", eeprom_pins),
        ("eeprom: the driver takes the address from it", driver_address),
        ("reset: registers return to their defaults", reset_defaults),
        ("reset: the driver restarts the card", driver_reset),
        ("registers: keep what is written", keep_values),
    ]
}

/// STATUS agrees with the chip: it is not all ones, and it reports the right medium.
fn answers<B: Fixture>(fixture: &mut B) -> CaseResult {
    let value = Regs::of(fixture).read(reg::STATUS);
    check!(value != u32::MAX, "STATUS reads as all ones: no card");
    let fibre = fixture.chip().media() == Media::Fibre;
    // The 82542 has only fibre, and no bit for the medium.
    if fixture.chip() != Chip::I82542 {
        check_eq!(value & status::TBIMODE != 0, fibre, "STATUS.TBIMODE (SDM 13.4.2)");
    }
    Ok(Verdict::Pass)
}

/// Reads a PHY register through MDIC (SDM 13.4.7).
fn phy_read<B: Fixture>(fixture: &mut B, register: u32) -> Result<u16, Failure> {
    let regs = Regs::of(fixture);
    let command = mdic::OP_READ | mdic::INTERNAL_PHY << mdic::PHY_SHIFT | register << mdic::REG_SHIFT;
    regs.write(reg::MDIC, command);
    for _ in 0..1000 {
        let value = regs.read(reg::MDIC);
        if value & mdic::READY != 0 {
            check!(value & mdic::ERROR == 0, "MDIC reports an error for register {register}");
            return Ok((value & mdic::DATA_MASK) as u16);
        }
        fixture.advance(10_000)?;
    }
    Err(format!("MDIC: register {register} is never ready").into())
}

/// SDM 13.4.7.1.3, .4: Marvell, 88E1000 (82544) or 88E1011.
fn phy_identifier<B: Fixture>(fixture: &mut B) -> CaseResult {
    if !fixture.chip().has_mdic() || fixture.chip().media() == Media::Fibre {
        return Ok(Verdict::NotApplicable("the card has no PHY that MDIC reaches"));
    }
    let id = u32::from(phy_read(fixture, mii::ID1)?) << 16 | u32::from(phy_read(fixture, mii::ID2)?);
    let known = [mii::ID_M88E1011, 0x0141_0C30, mii::ID_82574, mii::ID_82576];
    check!(known.contains(&(id & !0xF)), "PHY identifier {id:#010x}");
    Ok(Verdict::Pass)
}

fn check_image<B: Fixture>(fixture: &B, words: &[u16; eeprom::SUMMED_WORDS]) -> CaseResult {
    let sum = words.iter().fold(0_u16, |sum, word| sum.wrapping_add(*word));
    check_eq!(sum, 0xBABA, "sum of words 00h to 3Fh (SDM 5.6.35)");
    let bytes: Vec<u8> = words[..3].iter().flat_map(|word| word.to_le_bytes()).collect();
    check_eq!(bytes, fixture.address().to_vec(), "station address in words 0 to 2 (SDM 5.6.1)");
    Ok(Verdict::Pass)
}

/// SDM 13.4.4.
fn eeprom_register<B: Fixture>(fixture: &mut B) -> CaseResult {
    if !fixture.chip().has_eerd() {
        return Ok(Verdict::NotApplicable("the chip has no EERD"));
    }
    let (done, shift) = match fixture.chip().has_late_eerd() {
        true => (express::eerd::DONE, express::eerd::ADDR_SHIFT),
        false => (eerd::DONE, eerd::ADDR_SHIFT),
    };
    let regs = Regs::of(fixture);
    let mut words = [0; eeprom::SUMMED_WORDS];
    for (address, word) in (0_u32..).zip(&mut words) {
        regs.write(reg::EERD, address << shift | eerd::START);
        let mut value = regs.read(reg::EERD);
        for _ in 0..100 {
            if value & done != 0 {
                break;
            }
            fixture.advance(10_000)?;
            value = regs.read(reg::EERD);
        }
        check!(value & done != 0, "EERD: word {address:#04x} is never done");
        *word = (value >> eerd::DATA_SHIFT) as u16;
    }
    check_image(fixture, &words)
}

/// SDM 5.3, 13.4.3: a Microwire EEPROM, bit by bit.
fn eeprom_pins<B: Fixture>(fixture: &mut B) -> CaseResult {
    if !fixture.chip().has_microwire() {
        return Ok(Verdict::NotApplicable("the NVM behind EECD's pins is no Microwire EEPROM"));
    }
    let regs = Regs::of(fixture);
    let request = if fixture.chip().has_eeprom_request() { eecd::REQ } else { 0 };
    if request != 0 {
        regs.write(reg::EECD, request);
        check!(regs.read(reg::EECD) & eecd::GNT != 0, "EECD: a request is not granted");
    }
    let mut words = [0; eeprom::SUMMED_WORDS];
    for (address, word) in (0_u32..).zip(&mut words) {
        let selected = request | eecd::CS;
        let set = |pins: u32| {
            regs.write(reg::EECD, pins);
            fixture.platform().wait_ns(1_000);
        };
        set(request);
        for bit in (0..9).rev() {
            let command = eeprom::OPCODE_READ << 6 | address;
            let data = if command >> bit & 1 != 0 { eecd::DI } else { 0 };
            set(selected | data);
            set(selected | data | eecd::SK);
        }
        // Each rising edge shifts out a bit; the dummy 0 came with the last bit of the command.
        for _ in 0..16 {
            set(selected);
            set(selected | eecd::SK);
            *word = *word << 1 | u16::from(regs.read(reg::EECD) & eecd::DO != 0);
        }
        regs.write(reg::EECD, request);
    }
    regs.write(reg::EECD, 0);
    check_image(fixture, &words)
}

fn driver_address<B: Fixture>(fixture: &mut B) -> CaseResult {
    let address = fixture.address();
    let rig = Rig::open_without_link(fixture, |config| config.address = None)?;
    check_eq!(rig.control.address(), address, "the driver's station address");
    let [a, b, c, d, e, f] = address;
    check_eq!(rig.regs.read(reg::RAL0), u32::from_le_bytes([a, b, c, d]), "RAL0");
    check_eq!(rig.regs.read(reg::RAH0), u32::from_le_bytes([e, f, 0, 0]) | rah::AV, "RAH0");
    Ok(Verdict::Pass)
}

/// SDM 13.4.1: CTRL.RST puts all registers into their initial state.
fn reset_defaults<B: Fixture>(fixture: &mut B) -> CaseResult {
    let rig = Rig::open_without_link(fixture, |_| {})?;
    rig.regs.write(reg::IMS, cause::LSC);
    rig.regs.write(reg::RDTR, 77);
    let before = rig.regs.read(reg::CTRL);
    rig.regs.write(reg::CTRL, before | ctrl::RST);
    rig.fixture.advance(10_000_000)?;
    check_eq!(rig.regs.read(reg::CTRL) & ctrl::RST, 0, "CTRL.RST clears itself");
    let ignored = rig.fixture.departs(&departure::RESET_IGNORED);
    for (name, register, mask) in [
        ("RCTL.EN", reg::RCTL, rctl::EN),
        ("TCTL.EN", reg::TCTL, tctl::EN),
        ("IMS", reg::IMS, u32::MAX),
        ("RDTR", reg::RDTR, u32::MAX),
        ("TDLEN", reg::TDLEN, u32::MAX),
    ] {
        let value = rig.regs.read(register) & mask;
        check_eq!(value != 0, ignored, "{name} after a reset is {value:#x}: is it still set");
    }
    rig.control.mask();
    rig.fixture.advance(0)?;
    Ok(if ignored { Verdict::Departs(&departure::RESET_IGNORED) } else { Verdict::Pass })
}

/// The driver's own reset, while frames are under way.
fn driver_reset<B: Fixture>(fixture: &mut B) -> CaseResult {
    let mut rig = Rig::open(fixture, |_| {})?;
    for round in 0..3 {
        exchange(&mut rig, Direction::Both, &[60, 1514, 9000], 1)?;
        // Some frames that are dropped by the reset.
        for _ in 0..5 {
            let frame = crate::oracle::plain([0xff; 6], crate::oracle::PEER, 300, round);
            rig.send(&frame, 1, &Default::default())?;
        }
        rig.tx.flush();
        rig.control.reset(&mut rig.rx, &mut rig.tx)?;
        rig.wait_for_link(true)?;
        rig.fixture.advance(1_000_000)?;
        while rig.fixture.collect()?.is_some() {}
        check_eq!(rig.tx.pending(), 0, "descriptors in use after a reset");
    }
    exchange(&mut rig, Direction::Both, &[60, 1514, 9000], 1)?;
    Ok(Verdict::Pass)
}

/// Registers whose value the driver relies on read as written.
fn keep_values<B: Fixture>(fixture: &mut B) -> CaseResult {
    let chip = fixture.chip();
    let rig = Rig::open_without_link(fixture, |_| {})?;
    let mut kept = vec![
        ("RDBAH", reg::RDBAH, 0x0000_0001),
        // The 82576 keeps seven bits 0, others four.
        ("TDBAL", reg::TDBAL, 0x0012_3480),
        ("MTA[5]", reg::mta(5), 0xdead_beef),
        ("RAL[7]", reg::ral(7), 0x0403_0201),
    ];
    let mut zero = vec![("TIPG", reg::TIPG, 0x0060_200a)];
    zero.push(("FCRTL", reg::FCRTL, 0x0000_1000));
    zero.push(("FCTTV", reg::FCTTV, 0x0000_0100));
    if chip.has_delays() {
        kept.push(("RDTR", reg::RDTR, 0x1234));
    }
    if chip.has_advanced() {
        kept.push(("SRRCTL", igb::SRRCTL, 0x0210_0002));
        kept.push(("IVAR", igb::IVAR, 0x0000_8180));
        kept.push(("EITR", igb::EITR, 0x0000_0784));
    }
    if chip.has_radv_tadv_itr() {
        kept.push(("RADV", reg::RADV, 0x0321));
        kept.push(("TADV", reg::TADV, 0x0456));
        kept.push(("ITR", reg::ITR, 0x0789));
        zero.push(("RSRPD", reg::RSRPD, 0x0080));
    }
    if chip.has_vlan() {
        kept.push(("VFTA[127]", reg::vfta(127), 0x8000_0001));
    }
    if chip.has_descriptor_control() {
        kept.push(("TXDCTL", reg::TXDCTL, 0x0100_0808));
        zero.push(("RXDCTL", reg::RXDCTL, 0x0101_0404));
    }
    if chip.has_checksum_offload() {
        zero.push(("RXCSUM", reg::RXCSUM, 0x0000_0322));
    }
    let read_zero = rig.fixture.departs(&departure::REGISTERS_READ_ZERO);
    for (name, register, value) in kept {
        rig.regs.write(register, value);
        check_eq!(rig.regs.read(register), value, "{name}");
    }
    for (name, register, value) in zero {
        rig.regs.write(register, value);
        let expected = if read_zero { 0 } else { value };
        check_eq!(rig.regs.read(register), expected, "{name}");
    }
    if !chip.has_delays() {
        return Ok(Verdict::Pass);
    }
    let no_tidv = rig.fixture.departs(&departure::TIDV_READS_ZERO);
    rig.regs.write(reg::TIDV, 0x0123);
    check_eq!(rig.regs.read(reg::TIDV), if read_zero || no_tidv { 0 } else { 0x0123 }, "TIDV");
    if no_tidv {
        return Ok(Verdict::Departs(&departure::TIDV_READS_ZERO));
    }
    Ok(if read_zero { Verdict::Departs(&departure::REGISTERS_READ_ZERO) } else { Verdict::Pass })
}
