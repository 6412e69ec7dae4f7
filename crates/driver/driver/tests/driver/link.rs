//! The link: the advertised modes, the MAC's settings, PAUSE, loopback, and the access to the PHY.

use crate::common::*;
use kpps_datasheet::{Chip, Media, bit, mii, reg};
use kpps_driver::{
    Config, Error, Link, Loopback,
    config::FlowControl::{self, Full, Off, Receive, Transmit},
};
use kpps_platform::wrap::Counts;

const COPPER: [Chip; 6] =
    [Chip::I82543gc, Chip::I82544, Chip::I82540em, Chip::I82545em, Chip::I82546eb, Chip::I82574l];
const FIBRE: [Chip; 5] = [Chip::I82542, Chip::I82543gc, Chip::I82544, Chip::I82545em, Chip::I82546eb];

/// The bits of CTRL (SDM 13.4.1) that concern the link, without PAUSE.
fn ctrl(nic: &Nic) -> u32 {
    nic.get(reg::CTRL) & 0x1FFF
}

/// CTRL's bits for PAUSE: (obey, send).
fn pause(nic: &Nic) -> (bool, bool) {
    let ctrl = nic.get(reg::CTRL);
    (ctrl & bit::ctrl::RFCE != 0, ctrl & bit::ctrl::TFCE != 0)
}

fn set_bits(nic: &Nic, register: u32, bits: u32, on: bool) {
    let value = nic.get(register);
    nic.set(register, if on { value | bits } else { value & !bits });
}

/// MII registers 0, 4 and 9 on copper (SDM 13.4.7.1), TXCW on fibre (SDM 13.4.13). A station that obeys PAUSE
/// offers both bits. A station that only sends PAUSE offers the asymmetric bit (IEEE 802.3 table 28B-2).
#[test]
fn what_is_advertised() {
    let (counts, pool) = (Counts::new(), Pool::new(40, 2048));
    let cases = [
        (Off, 0x01E1, 0x8000_0020),
        (Transmit, 0x09E1, 0x8000_0120),
        (Receive, 0x0DE1, 0x8000_01A0),
        (Full, 0x0DE1, 0x8000_01A0),
    ];
    for (flow_control, advertise, txcw) in cases {
        for chip in COPPER {
            let nic = Nic::with(chip, Media::Copper);
            let _dev = start(&nic, &counts, Config { flow_control, ..small() }, &pool);
            let phy = nic.phy.borrow();
            let at = |register: u32| phy[register as usize];
            let written = [mii::ADVERTISE, mii::GIGABIT_CONTROL, mii::CONTROL].map(at);
            assert_eq!(written, [advertise, 0x0200, 0x1200], "{chip}: {flow_control:?}");
            let expected = match chip {
                // SLU, and the speed of a PHY that the MAC cannot see.
                Chip::I82543gc => 0x1840,
                Chip::I82574l => 0x0040,
                // SLU, ASDE.
                _ => 0x0060,
            };
            assert_eq!(ctrl(&nic), expected, "{chip}");
        }
        for chip in FIBRE {
            let nic = Nic::with(chip, Media::Fibre);
            let _dev = start(&nic, &counts, Config { flow_control, ..small() }, &pool);
            assert_eq!(nic.get(reg::TXCW), txcw, "{chip}: {flow_control:?}");
            assert_eq!(ctrl(&nic), 0x0001, "{chip}: full duplex, and no link reset");
        }
    }
}

/// STATUS (SDM 13.4.2), and TCTL's collision distance (SDM 13.4.33): 64 bytes, or 512 in half duplex at
/// 1000 Mb/s.
#[test]
fn speed_and_duplex() {
    let (nic, counts, pool) = (Nic::new(Chip::I82540em), Counts::new(), Pool::new(40, 2048));
    let mut dev = start(&nic, &counts, small(), &pool);
    let cases = [
        (0x82, 1000, false, 0x0020_00FA),
        (0x83, 1000, true, 0x0004_00FA),
        (0xC2, 1000, false, 0x0020_00FA),
        (0x02, 10, false, 0x0004_00FA),
        (0x03, 10, true, 0x0004_00FA),
        (0x42, 100, false, 0x0004_00FA),
        (0x43, 100, true, 0x0004_00FA),
        (0xC3, 1000, true, 0x0004_00FA),
    ];
    for (status, speed_mbps, full_duplex, tctl) in cases {
        // The other bits are not checked.
        for more in [0, 0x3810] {
            nic.set(reg::STATUS, status | more);
            let link = Link { up: true, speed_mbps, full_duplex, rx_pause: false, tx_pause: false };
            assert_eq!(dev.control.update_link(), Ok(link), "STATUS {status:#x}");
            assert_eq!(dev.control.link(), link);
            assert_eq!(nic.get(reg::TCTL), tctl, "STATUS {status:#x}");
            let writes = counts.writes();
            assert_eq!(dev.control.update_link(), Ok(link));
            assert_eq!(counts.writes(), writes, "nothing has changed");
        }
    }
    nic.set(reg::STATUS, 0x81);
    assert_eq!(dev.control.update_link(), Ok(Link::default()));
    assert_eq!(dev.control.link(), Link::default());
}

/// The 82543's MAC gets speed and duplex from the PHY's register 17 (SDM 13.4.7.1.14), once the register
/// reports them as resolved.
#[test]
fn the_mac_follows_the_phy() {
    let (nic, counts, pool) = (Nic::with(Chip::I82543gc, Media::Copper), Counts::new(), Pool::new(40, 2048));
    let mut dev = start(&nic, &counts, small(), &pool);
    let cases = [
        (0xA000, 0x1840),
        (0xA800, 0x1A41),
        (0x4800, 0x1940),
        (0xE800, 0x1A41),
        (0x0800, 0x1840),
        (0x6800, 0x1941),
        (0x8800, 0x1A40),
        (0x2800, 0x1841),
        (0x8000, 0x1841),
    ];
    for (specific, expected) in cases {
        nic.phy.borrow_mut()[mii::SPECIFIC_STATUS as usize] = specific;
        dev.control.update_link().unwrap();
        assert_eq!(ctrl(&nic), expected, "register 17: {specific:#x}");
    }
}

/// (our PAUSE and ASM_DIR, the partner's), and whether a station that wants both obeys and sends PAUSE (IEEE
/// 802.3 table 28B-3).
const RESOLUTION: [([bool; 4], (bool, bool)); 16] = {
    const N: bool = false;
    const Y: bool = true;
    [
        ([N, N, N, N], (N, N)),
        ([Y, N, Y, N], (Y, Y)),
        ([N, N, N, Y], (N, N)),
        ([Y, N, Y, Y], (Y, Y)),
        ([N, N, Y, N], (N, N)),
        ([Y, Y, Y, N], (Y, Y)),
        ([N, N, Y, Y], (N, N)),
        ([Y, Y, Y, Y], (Y, Y)),
        ([N, Y, N, N], (N, N)),
        ([N, Y, Y, Y], (N, Y)),
        ([N, Y, N, Y], (N, N)),
        ([Y, Y, N, Y], (Y, N)),
        ([N, Y, Y, N], (N, N)),
        ([Y, N, N, N], (N, N)),
        ([Y, Y, N, N], (N, N)),
        ([Y, N, N, Y], (N, N)),
    ]
};

#[test]
fn pause_is_what_both_ends_advertise() {
    let (counts, pool) = (Counts::new(), Pool::new(40, 2048));
    let word = |pause: bool, asymmetric: bool, bits: [u32; 2]| {
        (if pause { bits[0] } else { 0 }) | if asymmetric { bits[1] } else { 0 }
    };
    let copper = COPPER.map(|chip| (chip, Media::Copper));
    let fibre = FIBRE.map(|chip| (chip, Media::Fibre));
    for (chip, media) in copper.into_iter().chain(fibre) {
        for (flow_control, obeys, sends) in
            [(Full, true, true), (Receive, true, false), (Transmit, false, true), (Off, false, false)]
        {
            let nic = Nic::with(chip, media);
            let mut dev = start(&nic, &counts, Config { flow_control, ..small() }, &pool);
            for ([ours, ours_asymmetric, theirs, theirs_asymmetric], both) in RESOLUTION {
                if media == Media::Copper {
                    let bits = [1 << 10, 1 << 11];
                    let mut phy = nic.phy.borrow_mut();
                    phy[mii::ADVERTISE as usize] = word(ours, ours_asymmetric, bits) as u16;
                    phy[mii::PARTNER as usize] = word(theirs, theirs_asymmetric, bits) as u16;
                } else {
                    let bits = [1 << 7, 1 << 8];
                    nic.set(reg::TXCW, word(ours, ours_asymmetric, bits));
                    nic.set(reg::RXCW, word(theirs, theirs_asymmetric, bits));
                }
                let what = format!(
                    "{chip}, {media:?}, {flow_control:?}: {:?}",
                    [ours, ours_asymmetric, theirs, theirs_asymmetric]
                );
                let link = dev.control.update_link().unwrap();
                let expected = (both.0 && obeys, both.1 && sends);
                assert_eq!((link.rx_pause, link.tx_pause), expected, "{what}");
                assert_eq!(pause(&nic), expected, "{what}");
            }
        }
    }
}

/// PAUSE needs full duplex, and has no partner in loopback.
#[test]
fn no_pause_in_half_duplex_or_loopback() {
    let (nic, counts, pool) = (Nic::new(Chip::I82540em), Counts::new(), Pool::new(40, 2048));
    let mut dev = start(&nic, &counts, Config { flow_control: Full, ..small() }, &pool);
    nic.phy.borrow_mut()[mii::PARTNER as usize] = mii::advertise::PAUSE;
    let now = |expected: (bool, bool), dev: &mut Dev<'_>| {
        let link = dev.control.update_link().unwrap();
        assert_eq!((link.rx_pause, link.tx_pause), expected);
        assert_eq!(pause(&nic), expected);
    };
    now((true, true), &mut dev);
    set_bits(&nic, reg::STATUS, bit::status::FD, false);
    now((false, false), &mut dev);
    set_bits(&nic, reg::STATUS, bit::status::FD, true);
    now((true, true), &mut dev);
    dev.control.set_loopback(Loopback::Phy).unwrap();
    now((false, false), &mut dev);
}

/// Whether the link is forced: SLU without autonegotiation (SDM 13.4.1, 13.4.13).
fn is_forced(nic: &Nic) -> bool {
    let (slu, ane) = (nic.get(reg::CTRL) & bit::ctrl::SLU, nic.get(reg::TXCW) & bit::txcw::ANE);
    assert_eq!(slu != 0, ane == 0);
    slu != 0
}

/// A fibre link is forced when two checks in a row find a signal, no link, and a partner that does not
/// negotiate. It stays forced until the partner negotiates.
#[test]
fn when_a_fibre_link_is_forced() {
    let (counts, pool) = (Counts::new(), Pool::new(40, 2048));
    for (link, signal, negotiates, forced) in [
        (false, true, false, [false, true, true, true]),
        (false, true, true, [false; 4]),
        (false, false, false, [false; 4]),
        (false, false, true, [false; 4]),
        (true, true, false, [false; 4]),
        (true, true, true, [false; 4]),
        (true, false, false, [false; 4]),
    ] {
        for chip in FIBRE {
            let nic = Nic::with(chip, Media::Fibre);
            let mut dev = start(&nic, &counts, Config { flow_control: Full, ..small() }, &pool);
            set_bits(&nic, reg::STATUS, bit::status::LU, link);
            set_bits(&nic, reg::CTRL, bit::ctrl::SWDPIN1, !signal);
            // The other bits of RXCW do not indicate negotiation.
            nic.set(reg::RXCW, if negotiates { 0x7FFF_FFFF } else { 0x5FFF_FFFF });
            for (look, forced) in forced.into_iter().enumerate() {
                dev.control.update_link().unwrap();
                assert_eq!(is_forced(&nic), forced, "{chip}: {link}, {signal}, {negotiates}, check {look}");
            }
        }
    }
}

#[test]
fn a_fibre_link_is_not_forced_while_the_partner_may_still_negotiate() {
    let (nic, counts, pool) = (Nic::new(Chip::I82543gc), Counts::new(), Pool::new(40, 2048));
    let mut dev = start(&nic, &counts, small(), &pool);
    set_bits(&nic, reg::STATUS, bit::status::LU, false);
    for negotiates in [false, true, false] {
        nic.set(reg::RXCW, if negotiates { bit::rxcw::C } else { 0 });
        dev.control.update_link().unwrap();
        assert!(!is_forced(&nic), "one check without negotiation");
    }
}

/// PAUSE is not negotiated on a forced link: the configuration applies.
#[test]
fn pause_on_a_forced_link() {
    let (counts, pool) = (Counts::new(), Pool::new(40, 2048));
    let cases: [(FlowControl, (bool, bool)); 4] =
        [(Off, (false, false)), (Receive, (true, false)), (Transmit, (false, true)), (Full, (true, true))];
    for (flow_control, expected) in cases {
        let nic = Nic::new(Chip::I82543gc);
        let mut dev = start(&nic, &counts, Config { flow_control, ..small() }, &pool);
        set_bits(&nic, reg::STATUS, bit::status::LU, false);
        dev.control.update_link().unwrap();
        dev.control.update_link().unwrap();
        assert!(is_forced(&nic));
        set_bits(&nic, reg::STATUS, bit::status::LU, true);
        let link = dev.control.update_link().unwrap();
        assert!(link.up && is_forced(&nic));
        assert_eq!((link.rx_pause, link.tx_pause), expected, "{flow_control:?}");
        assert_eq!(pause(&nic), expected, "{flow_control:?}");
    }
}

/// RCTL.LBM (SDM 13.4.22), CTRL, and the PHY's register 0 or TXCW: with and without loopback.
#[test]
fn loopbacks() {
    let (counts, pool) = (Counts::new(), Pool::new(40, 2048));
    // SLU and full duplex at 1000 Mb/s, both forced.
    const FORCED: u32 = 0x1A41;
    let copper = [
        (Loopback::Phy, 0, FORCED, 0x4140),
        (Loopback::Mac, 0x40, FORCED, 0x1200),
        (Loopback::Transceiver, 0xC0, FORCED, 0x1200),
    ];
    let fibre = [(Loopback::Mac, 0x40, 0x41, 0x20), (Loopback::Transceiver, 0xC0, 0x41, 0x20)];
    let all = COPPER.map(|chip| (chip, Media::Copper)).into_iter();
    for (chip, media) in all.chain(FIBRE.map(|chip| (chip, Media::Fibre))) {
        let cases = if media == Media::Copper { &copper[..] } else { &fibre };
        for &(loopback, lbm, forced, word) in cases {
            let nic = Nic::with(chip, media);
            let mut dev = start(&nic, &counts, small(), &pool);
            let state = || {
                let control = u32::from(nic.phy.borrow()[mii::CONTROL as usize]);
                let word = if media == Media::Copper { control } else { nic.get(reg::TXCW) };
                (nic.get(reg::RCTL) & bit::rctl::LBM_MASK, ctrl(&nic), word)
            };
            let (_, ctrl_before, word_before) = state();
            // Bits that other software may have left in CTRL: 100 Mb/s; a link reset.
            let left = if media == Media::Copper { bit::ctrl::SPEED_100 } else { bit::ctrl::LRST };
            for _ in 0..2 {
                set_bits(&nic, reg::CTRL, left, true);
                for _ in 0..2 {
                    dev.control.set_loopback(loopback).unwrap();
                    assert_eq!(state(), (lbm, forced, word), "{chip}, {media:?}: {loopback:?}");
                }
                set_bits(&nic, reg::CTRL, left, true);
                for _ in 0..2 {
                    dev.control.set_loopback(Loopback::Off).unwrap();
                    let (lbm, ctrl, word) = state();
                    // On copper, speed and duplex have no meaning until the link is up.
                    let meant =
                        if media == Media::Copper { !(bit::ctrl::SPEED_MASK | bit::ctrl::FD) } else { !0 };
                    let after = (lbm, ctrl & meant, word);
                    assert_eq!(after, (0, ctrl_before, word_before), "{chip}, {media:?}: after {loopback:?}");
                }
            }
        }
    }
}

/// The firmware of the 82574 uses its PHY, too (EXTCNF_CTRL). The test device checks each access.
#[test]
fn mdio_is_owned_while_it_is_used() {
    let (counts, pool) = (Counts::new(), Pool::new(40, 2048));
    let start_with = |firmware_ns| {
        let nic = Nic::new(Chip::I82574l);
        nic.firmware_until_ns.set(firmware_ns);
        let result = try_start(&nic, &counts, small(), &pool).map(drop);
        (result, nic.now_ns.get(), nic.get(reg::EXTCNF_CTRL))
    };
    let (result, free_ns, owned) = start_with(0);
    assert_eq!((result, owned), (Ok(()), 0), "given back to the firmware");
    // The driver asks for it after 10 ms, in which the device comes to rest.
    let (result, end_ns, owned) = start_with(15_000_000);
    assert_eq!((result, owned), (Ok(()), 0));
    assert!((5_000_000..7_000_000).contains(&(end_ns - free_ns)), "{free_ns}, {end_ns}");
    let (result, end_ns, _) = start_with(u64::MAX);
    assert_eq!(result, Err(Error::Timeout("MDIO from the firmware")));
    assert!(end_ns < 100_000_000, "{end_ns}");
}

/// After a reset the 82574 loads its settings (EECD.AUTO_RD).
#[test]
fn the_82574_must_have_loaded_its_settings() {
    let (nic, counts, pool) = (Nic::new(Chip::I82574l), Counts::new(), Pool::new(40, 2048));
    nic.stuck_in_load.set(true);
    assert_eq!(try_start(&nic, &counts, small(), &pool).err(), Some(Error::Timeout("NVM load after reset")));
    nic.stuck_in_load.set(false);
    assert!(try_start(&nic, &counts, small(), &pool).is_ok());
}
