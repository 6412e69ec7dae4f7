//! EEPROM, PHY, link, flow control, interrupt registers.

use crate::bench::*;
use kpps_card::{Nic, Params};
use kpps_datasheet::bit::{cause, ctrl, eecd, eerd, flow, mdic, rctl, status, txcw};
use kpps_datasheet::desc::tx_cmd;
use kpps_datasheet::eeprom::{self, SUMMED_WORDS};
use kpps_datasheet::{Chip, Media, mii, reg, stat};

/// Reads a word over the pins, as a driver does.
fn serial(b: &mut Bench, address: u8) -> u16 {
    let base = if b.nic.params().chip.has_eeprom_request() {
        b.set(reg::EECD, eecd::REQ);
        assert_ne!(b.get(reg::EECD) & eecd::GNT, 0);
        eecd::REQ
    } else {
        0
    };
    b.set(reg::EECD, base | eecd::CS);
    let mut clock = |bit: bool| {
        let level = base | eecd::CS | if bit { eecd::DI } else { 0 };
        b.set(reg::EECD, level);
        b.set(reg::EECD, level | eecd::SK);
        let out = b.get(reg::EECD) & eecd::DO != 0;
        b.set(reg::EECD, level);
        out
    };
    let command = eeprom::OPCODE_READ << 6 | u32::from(address);
    for i in (0..9).rev() {
        clock(command >> i & 1 != 0);
    }
    let word = (0..16).fold(0u16, |w, _| w << 1 | u16::from(clock(false)));
    b.set(reg::EECD, 0);
    word
}

#[test]
fn the_eeprom_is_valid_both_ways() {
    for chip in Chip::PCI {
        let mut b = Bench::new(Bench::params(chip));
        let words: [u16; SUMMED_WORDS] = std::array::from_fn(|i| serial(&mut b, i as u8));
        assert!(eeprom::is_valid(&words), "{chip}");
        assert_eq!(eeprom::address([words[0], words[1], words[2]]), MAC);
        assert_eq!(words[usize::from(eeprom::DEVICE_ID)], chip.device_ids()[0]);
        if chip.has_eerd() {
            for (i, &word) in words.iter().enumerate() {
                b.set(reg::EERD, eerd::START | (i as u32) << eerd::ADDR_SHIFT);
                assert_eq!(b.get(reg::EERD) & eerd::DONE, 0);
                b.pass(50 * US);
                let value = b.get(reg::EERD);
                assert_ne!(value & eerd::DONE, 0);
                assert_eq!(value >> eerd::DATA_SHIFT, u32::from(word));
            }
        } else {
            assert_eq!(b.get(reg::EERD), 0);
        }
        let low = u32::from_le_bytes([MAC[0], MAC[1], MAC[2], MAC[3]]);
        assert_eq!(b.get(reg::ral(0)), low);
    }
}

fn mdi(b: &mut Bench, command: u32) -> u32 {
    b.set(reg::MDIC, command | mdic::INTERNAL_PHY << mdic::PHY_SHIFT);
    assert_eq!(b.get(reg::MDIC) & mdic::READY, 0);
    b.pass(100 * US);
    let value = b.get(reg::MDIC);
    assert_ne!(value & mdic::READY, 0);
    value & mdic::DATA_MASK
}

fn phy_read(b: &mut Bench, register: u32) -> u16 {
    mdi(b, mdic::OP_READ | register << mdic::REG_SHIFT) as u16
}

fn phy_write(b: &mut Bench, register: u32, value: u16) {
    mdi(b, mdic::OP_WRITE | register << mdic::REG_SHIFT | u32::from(value));
}

#[test]
fn the_phy_negotiates() {
    let params = Params { link_ps: 1_000 * US, ..Params::of(Chip::I82540em) };
    let mut b = Bench { nic: Nic::new(params, MAC), m: Machine::new(0, 0), now: 0, tx: 0, ring: 8 };
    b.set(reg::CTRL, ctrl::SLU);
    let id = u32::from(phy_read(&mut b, mii::ID1)) << 16 | u32::from(phy_read(&mut b, mii::ID2));
    assert_eq!(id & !0xF, mii::ID_M88E1011);
    assert_eq!(phy_read(&mut b, mii::STATUS) & mii::status::LINK, 0);
    b.run(1_000 * US);
    assert_eq!(b.get(reg::ICR) & cause::LSC, cause::LSC);
    // The first read still shows the earlier state: latched low.
    assert_eq!(phy_read(&mut b, mii::STATUS) & mii::status::LINK, 0);
    let both = mii::status::LINK | mii::status::COMPLETE;
    assert_eq!(phy_read(&mut b, mii::STATUS) & both, both);
    let s = b.get(reg::STATUS);
    assert_eq!(
        s & (status::LU | status::FD | status::SPEED_MASK),
        status::LU | status::FD | status::SPEED_1000
    );
    assert_eq!(phy_read(&mut b, mii::SPECIFIC_STATUS) >> mii::specific::SPEED_SHIFT, 2);
    // A short loss is remembered until it is read.
    b.nic.set_link(b.now, false);
    b.nic.set_link(b.now, true);
    b.pass(1_000 * US);
    assert_eq!(phy_read(&mut b, mii::STATUS) & mii::status::LINK, 0);
    assert_ne!(phy_read(&mut b, mii::STATUS) & mii::status::LINK, 0);
    // With only 100 Mb/s offered, the link is negotiated again, ten times slower.
    phy_write(&mut b, mii::GIGABIT_CONTROL, 0);
    phy_write(&mut b, mii::CONTROL, mii::control::AUTONEGOTIATE | mii::control::RESTART);
    assert_eq!(b.get(reg::STATUS) & status::LU, 0);
    b.pass(1_000 * US);
    assert_eq!(b.get(reg::STATUS) & (status::LU | status::SPEED_MASK), status::LU | status::SPEED_100);
    // At another address no PHY answers.
    b.set(reg::MDIC, mdic::OP_READ | 2 << mdic::PHY_SHIFT);
    b.pass(100 * US);
    assert_ne!(b.get(reg::MDIC) & mdic::ERROR, 0);
}

#[test]
fn the_partner_may_be_slower() {
    let params = Params { link_ps: 1_000 * US, ..Params::of(Chip::I82540em) };
    let mut b = Bench { nic: Nic::new(params, MAC), m: Machine::new(0, 0), now: 0, tx: 0, ring: 8 };
    b.set(reg::CTRL, ctrl::SLU);
    let all = mii::advertise::FULL_100 | mii::advertise::FULL_10;
    for (mbps, speed, offered, gigabit) in [
        (10, 0, mii::advertise::FULL_10, false),
        (100, status::SPEED_100, all, false),
        (1000, status::SPEED_1000, all, true),
    ] {
        b.nic.set_partner(b.now, mbps, true);
        assert_eq!((b.nic.link_mbps(), b.get(reg::STATUS) & status::LU), (None, 0));
        b.pass(1_000 * US);
        assert_eq!(b.nic.link_mbps(), Some(mbps));
        assert_eq!(b.get(reg::STATUS) & (status::LU | status::SPEED_MASK), status::LU | speed);
        assert_eq!(phy_read(&mut b, mii::PARTNER) & all, offered);
        assert_eq!(phy_read(&mut b, mii::GIGABIT_STATUS) != 0, gigabit);
    }
    // Fibre has one speed.
    let mut b = Bench::ready(Bench::params(Chip::I82543gc), 8);
    b.nic.set_partner(b.now, 10, true);
    assert_eq!(b.nic.link_mbps(), Some(1000));
}

#[test]
fn the_partner_may_have_half_duplex_only() {
    use mii::advertise::{ASYMMETRIC, FULL_10, FULL_100, HALF_10, HALF_100, PAUSE};
    let mut b = Bench::ready(Bench::params(Chip::I82540em), 8);
    let offers = FULL_100 | FULL_10 | HALF_100 | HALF_10 | PAUSE | ASYMMETRIC;
    for (mbps, speed, offered) in [(10, 0, HALF_10), (100, status::SPEED_100, HALF_100 | HALF_10)] {
        b.nic.set_partner(b.now, mbps, false);
        assert!(!b.nic.is_half_duplex(), "the link is down");
        b.pass(US);
        let shown = b.get(reg::STATUS) & (status::LU | status::FD | status::SPEED_MASK);
        assert_eq!((shown, b.nic.is_half_duplex()), (status::LU | speed, true));
        assert_eq!(phy_read(&mut b, mii::PARTNER) & offers, offered);
        assert_eq!(phy_read(&mut b, mii::GIGABIT_STATUS), 0);
        assert_eq!(phy_read(&mut b, mii::SPECIFIC_STATUS) & mii::specific::FULL_DUPLEX, 0);
        b.put_frame(&frame(1, 60), 0);
        b.ring_doorbell();
        b.arrive(&frame(2, 60));
        b.pass(1_000 * US);
    }
    assert_eq!((b.m.sent.len(), b.visible()), (2, 2));
    // CTRL may force the MAC's duplex.
    b.set(reg::CTRL, ctrl::SLU | ctrl::FRCDPLX | ctrl::FD);
    assert_eq!((b.get(reg::STATUS) & status::FD, b.nic.is_half_duplex()), (status::FD, false));
    b.nic.set_partner(b.now, 1000, true);
    b.set(reg::CTRL, ctrl::SLU | ctrl::FRCDPLX);
    b.pass(US);
    assert_eq!((b.nic.link_mbps(), b.nic.is_half_duplex()), (Some(1000), true));
    // A driver that offers full duplex only has nothing in common with such a partner.
    b.nic.set_partner(b.now, 100, false);
    phy_write(&mut b, mii::ADVERTISE, mii::advertise::SELECTOR | FULL_100 | FULL_10);
    phy_write(&mut b, mii::CONTROL, mii::control::AUTONEGOTIATE | mii::control::RESTART);
    b.pass(1_000 * US);
    assert_eq!(b.nic.link_mbps(), None);
}

#[test]
fn a_forced_speed_must_be_that_of_the_phy() {
    let mut b = Bench::ready(Bench::params(Chip::I82540em), 8);
    let (forced, done) = (ctrl::SLU | ctrl::FD | ctrl::FRCSPD, 1_000 * US);
    let try_both = |b: &mut Bench, control: u32, speed: u32, passes: bool| {
        b.set(reg::CTRL, control);
        assert_eq!(b.get(reg::STATUS) & (status::LU | status::SPEED_MASK), status::LU | speed);
        let before = (b.m.sent.len(), b.nic.tally().to_host);
        let slot = b.tx;
        b.put_frame(&frame(1, 60), tx_cmd::RS);
        b.ring_doorbell();
        b.arrive(&frame(2, 60));
        b.pass(done);
        let after = (b.m.sent.len(), b.nic.tally().to_host);
        assert_eq!(after, (before.0 + usize::from(passes), before.1 + u64::from(passes)), "{control:#x}");
        assert!(b.tx_done(slot), "the MAC has sent it");
    };
    try_both(&mut b, forced | ctrl::SPEED_1000, status::SPEED_1000, true);
    b.nic.set_partner(b.now, 100, true);
    b.pass(US);
    try_both(&mut b, forced | ctrl::SPEED_1000, status::SPEED_1000, false);
    try_both(&mut b, forced | ctrl::SPEED_10, 0, false);
    try_both(&mut b, forced | ctrl::SPEED_100, status::SPEED_100, true);
    try_both(&mut b, forced | ctrl::SPEED_1000 | ctrl::ASDE, status::SPEED_100, true);
    assert_eq!(b.nic.tally().tx_discarded, 2);
    // The PHY does not find a partner at a speed that this one does not have.
    phy_write(&mut b, mii::CONTROL, mii::control::SPEED_1000 | mii::control::FULL_DUPLEX);
    b.pass(done);
    assert_eq!(b.nic.link_mbps(), None);
}

/// Clocks the low `bits` bits of `data` into the 82543's pins, as a driver does.
fn pins_out(b: &mut Bench, data: u32, bits: u32) {
    let base = ctrl::SLU | ctrl::SWDPIO2 | ctrl::SWDPIO3;
    for i in (0..bits).rev() {
        let level = base | if data >> i & 1 != 0 { ctrl::SWDPIN2 } else { 0 };
        for value in [level, level | ctrl::SWDPIN3, level] {
            b.set(reg::CTRL, value);
        }
    }
}

fn pins_read(b: &mut Bench, phy: u32, register: u32) -> u16 {
    pins_out(b, u32::MAX, 32);
    pins_out(b, 0b0110 << 10 | phy << 5 | register, 14);
    let base = ctrl::SLU | ctrl::SWDPIO3;
    let mut clock = || {
        b.set(reg::CTRL, base);
        b.set(reg::CTRL, base | ctrl::SWDPIN3);
        let bit = b.get(reg::CTRL) & ctrl::SWDPIN2 != 0;
        b.set(reg::CTRL, base);
        bit
    };
    clock();
    let word = (0..16).fold(0, |word, _| word << 1 | u16::from(clock()));
    clock();
    word
}

#[test]
fn the_82543_reaches_its_phy_over_pins() {
    let params = Params { media: Media::Copper, ..Bench::params(Chip::I82543gc) };
    let mut b = Bench::new(params);
    assert_eq!(pins_read(&mut b, 1, mii::ID1), 0x0141);
    assert_eq!(pins_read(&mut b, 1, mii::ID2), 0x0C50);
    assert_eq!(pins_read(&mut b, 2, mii::ID1), 0xFFFF);
    pins_read(&mut b, 1, mii::STATUS);
    assert_ne!(pins_read(&mut b, 1, mii::STATUS) & mii::status::LINK, 0);
    pins_out(&mut b, u32::MAX, 32);
    pins_out(&mut b, (0b0101 << 10 | 1 << 5 | mii::ADVERTISE) << 18 | 0b10 << 16 | 0x0DE1, 32);
    assert_eq!(pins_read(&mut b, 1, mii::ADVERTISE), 0x0DE1);
    assert_eq!(b.get(reg::MDIC), 0);
}

#[test]
fn the_phy_loops_back() {
    let mut b = Bench::ready(Bench::params(Chip::I82540em), 8);
    let how = mii::control::LOOPBACK | mii::control::FULL_DUPLEX | mii::control::SPEED_1000;
    phy_write(&mut b, mii::CONTROL, how);
    b.pass(100 * US);
    b.put_frame(&frame(1, 60), 0);
    b.ring_doorbell();
    b.pass(100 * US);
    assert_eq!((b.nic.tally().looped, b.visible()), (1, 1));
}

#[test]
fn fibre_negotiates_or_is_forced() {
    let params = Params { link_ps: 1_000 * US, ..Params::of(Chip::I82543gc) };
    assert_eq!(params.media, Media::Fibre);
    let mut b = Bench { nic: Nic::new(params, MAC), m: Machine::new(0, 0), now: 0, tx: 0, ring: 8 };
    b.run(5_000 * US);
    assert_eq!(b.get(reg::STATUS) & (status::LU | status::TBIMODE), status::TBIMODE);
    // Signal: pin 1 is low on this chip.
    assert_eq!(b.get(reg::CTRL) & ctrl::SWDPIN1, 0);
    b.set(reg::TXCW, txcw::ANE | txcw::FD);
    b.pass(5_000 * US);
    assert_eq!(b.get(reg::STATUS) & status::LU, 0, "link reset is still set");
    b.set(reg::CTRL, ctrl::FD);
    b.pass(999 * US);
    assert_eq!(b.get(reg::STATUS) & status::LU, 0);
    b.pass(US);
    assert_eq!(b.get(reg::STATUS) & status::LU, status::LU);
    assert_ne!(b.get(reg::RXCW) & 1 << 31, 0, "negotiation complete");
    b.nic.set_link(b.now, false);
    assert_eq!(b.get(reg::STATUS) & status::LU, 0);
    assert_ne!(b.get(reg::CTRL) & ctrl::SWDPIN1, 0);
    b.nic.set_link(b.now, true);
    // Forced: at once.
    b.set(reg::TXCW, 0);
    b.set(reg::CTRL, ctrl::FD | ctrl::SLU);
    assert_eq!(b.get(reg::STATUS) & status::LU, status::LU);
}

#[test]
fn causes_mask_and_line() {
    let mut b = Bench::new(Bench::params(Chip::I82540em));
    b.set(reg::ICS, cause::TXDW | cause::RXT0);
    assert!(!b.nic.interrupt_line() && !b.nic.interrupts_enabled());
    b.set(reg::IMS, cause::RXT0);
    assert!(b.nic.interrupt_line() && b.nic.interrupts_enabled());
    b.set(reg::IMC, cause::RXT0);
    assert!(!b.nic.interrupt_line());
    b.set(reg::IMS, cause::TXDW);
    assert!(b.nic.interrupt_line());
    // Writing ones to ICR clears those.
    b.set(reg::ICR, cause::TXDW);
    assert!(!b.nic.interrupt_line());
    assert_eq!(b.get(reg::ICR), cause::RXT0);
    assert_eq!(b.get(reg::ICR), 0);
    assert_eq!(b.nic.tally().interrupts, 2);
}

#[test]
fn small_packets_interrupt_at_once() {
    let mut b = Bench::ready(Bench::params(Chip::I82540em), 64);
    b.set(reg::RDTR, 1000);
    b.set(reg::RSRPD, 100);
    b.arrive(&frame(1, 200));
    b.pass(20 * US);
    assert_eq!((b.visible(), b.get(reg::ICR)), (0, 0));
    b.arrive(&frame(1, 60));
    b.pass(20 * US);
    assert_eq!((b.visible(), b.get(reg::ICR)), (2, cause::SRPD | cause::RXT0));
    b.pass(10_000 * US);
    assert_eq!(b.get(reg::ICR), 0, "RDTR is stopped");
}

#[test]
fn pause_is_obeyed_and_sent() {
    let mut b = Bench::ready(Bench::params(Chip::I82544), 64);
    b.set(reg::FCAL, flow::ADDRESS_LOW);
    b.set(reg::FCAH, flow::ADDRESS_HIGH);
    b.set(reg::FCT, flow::TYPE);
    b.set(reg::FCTTV, 0x100);
    b.set(reg::FCRTH, 0x2000);
    b.set(reg::FCRTL, 0x1000 | flow::XONE);
    b.set(reg::CTRL, ctrl::SLU | ctrl::RFCE | ctrl::TFCE);
    let mut pause = vec![1, 0x80, 0xC2, 0, 0, 1, 2, 0, 0, 0, 0, 9, 0x88, 8, 0, 1, 0, 100];
    pause.resize(60, 0);
    b.arrive(&pause);
    let paused = b.now;
    b.put_frame(&frame(1, 60), 0);
    b.ring_doorbell();
    // 100 slots of 512 ns.
    b.pass(51 * US);
    assert_eq!((b.m.sent.len(), b.get(reg::STATUS) & status::TXOFF), (0, status::TXOFF));
    b.pass(10 * US);
    assert_eq!(b.m.sent[0].0, paused + 51_200 * NS + 576 * NS);
    assert_eq!((b.get(stat::XOFFRXC), b.nic.tally().dropped.flow_control), (1, 1));
    // Fill the FIFO beyond the high mark, then let it drain.
    b.m.sent.clear();
    b.set(reg::RCTL, rctl::EN);
    let head = b.get(reg::RDH);
    b.set(reg::RDT, head);
    for _ in 0..200 {
        b.arrive(&frame(0, 60));
        b.pass(US);
    }
    let sent =
        |b: &Bench| b.m.sent.iter().map(|s| u16::from_be_bytes([s.1[16], s.1[17]])).collect::<Vec<_>>();
    assert_eq!(sent(&b), [0x100]);
    for _ in 0..10 {
        let head = b.get(reg::RDH);
        b.set(reg::RDT, (head + 63) % 64);
        b.pass(100 * US);
    }
    assert_eq!(sent(&b), [0x100, 0]);
    assert_eq!((b.get(stat::XOFFTXC), b.get(stat::XONTXC)), (1, 1));
    assert!(b.nic.tally().closes());
}

#[test]
fn the_management_control_register_keeps_its_value_and_the_semaphore_is_an_option() {
    let mut b = Bench::new(Bench::params(Chip::I82540em));
    b.set(reg::MANC, 1 << 13);
    b.set(reg::SWSM, 2);
    assert_eq!((b.get(reg::MANC), b.get(reg::SWSM)), (1 << 13, 0));
    b.set(reg::CTRL, ctrl::RST);
    assert_eq!(b.get(reg::MANC), 0);
    let mut b = Bench::new(Params { swsm: true, ..Bench::params(Chip::I82540em) });
    assert_eq!((b.get(reg::SWSM), b.get(reg::SWSM)), (0, 1));
    b.set(reg::SWSM, 2);
    assert_eq!(b.get(reg::SWSM), 2);
    b.set(reg::CTRL, ctrl::RST);
    assert_eq!(b.get(reg::SWSM), 0);
}
