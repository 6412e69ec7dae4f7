//! Probe, reset, link and filters on every chip.

use crate::common::*;
use kpps_datasheet::{Chip, Media, bit, desc, eeprom, mii, reg, stat};
use kpps_driver::{Config, Error, Health, Loopback, config::*};
use kpps_platform::wrap::Counts;

#[test]
fn every_chip_comes_up() {
    for chip in Chip::ALL {
        let (nic, counts, pool) = (Nic::new(chip), Counts::new(), Pool::new(40, 2048));
        let dev = start(&nic, &counts, small(), &pool);
        assert_eq!(dev.control.address(), MAC, "{chip}");
        assert_eq!(nic.get(reg::RAL0), u32::from_le_bytes([MAC[0], MAC[1], MAC[2], MAC[3]]));
        assert_eq!(nic.get(reg::RAH0), u32::from_le_bytes([MAC[4], MAC[5], 0, 0]) | bit::rah::AV);
        assert_eq!(nic.get(reg::RDLEN), 256);
        assert_eq!(nic.get(reg::RDT), 15);
        assert_eq!(nic.rx_owned(), 15);
        assert_eq!(nic.get(reg::TIDV), if chip.has_delays() { 32 } else { 0 });
        assert_eq!(nic.get(reg::IMS), 0, "interrupts are masked");
        assert_ne!(nic.get(reg::RCTL) & bit::rctl::EN, 0);
        assert_ne!(nic.get(reg::TCTL) & bit::tctl::EN, 0);
        dev.control.unmask();
        assert_eq!(nic.get(reg::IMS), if chip.is_pci_express() { 0xD5 } else { 0xDD });
        drop(dev);
        assert_eq!(nic.get(reg::RCTL), 0, "stopped by drop");
        assert_eq!(pool.available(), 40);
    }
}

#[test]
fn registers_that_a_chip_lacks_are_not_touched() {
    for (chip, lacks) in [
        (
            Chip::I82542,
            vec![reg::RXDCTL, reg::TXDCTL, reg::RADV, reg::TADV, reg::ITR, reg::RXCSUM, reg::EERD],
        ),
        (Chip::I82543gc, vec![reg::RADV, reg::TADV, reg::ITR, reg::EERD, reg::MDIC]),
        (Chip::I82544, vec![reg::RADV, reg::TADV, reg::ITR, reg::EERD]),
        (
            Chip::I82576,
            vec![
                reg::RDTR,
                reg::TIDV,
                reg::RADV,
                reg::TADV,
                reg::ITR,
                reg::RSRPD,
                reg::TARC0,
                reg::PSRCTL,
                reg::EXTCNF_CTRL,
                reg::GCR2,
            ],
        ),
    ] {
        let (nic, counts, pool) = (Nic::new(chip), Counts::new(), Pool::new(40, 2048));
        let t = Some(Thresholds { pthresh: 8, hthresh: 4, wthresh: 1 });
        let config = Config {
            rx_thresholds: t,
            completion: Completion { report_every: 1, delay: Delay::Always },
            tx_thresholds: t,
            moderation: Moderation { rdtr: 1, radv: 2, tidv: 3, tadv: 4, itr: Itr::Fixed(8000) },
            ..small()
        };
        let mut dev = start(&nic, &counts, config, &pool);
        for register in lacks {
            assert!(!nic.regs.borrow().contains_key(&register), "{chip}: {register:#x}");
        }
        let settable = if chip.has_throttle() { Ok(()) } else { Err(Error::Unsupported) };
        assert_eq!(dev.control.set_itr(Itr::Dynamic), settable);
    }
}

#[test]
fn moderation_and_thresholds_are_written() {
    let (nic, counts, pool) = (Nic::new(Chip::I82546eb), Counts::new(), Pool::new(40, 2048));
    let config = Config {
        completion: Completion { report_every: 1, delay: Delay::Always },
        rx_thresholds: Some(Thresholds { pthresh: 32, hthresh: 8, wthresh: 4 }),
        tx_thresholds: Some(Thresholds { pthresh: 0, hthresh: 0, wthresh: 1 }),
        moderation: Moderation { rdtr: 1, radv: 128, tidv: 64, tadv: 65, itr: Itr::Fixed(8000) },
        rx_fifo_kb: Some(40),
        ..small()
    };
    let mut dev = start(&nic, &counts, config, &pool);
    let value = |register| nic.get(register);
    assert_eq!((value(reg::RDTR), value(reg::RADV), value(reg::TIDV), value(reg::TADV)), (1, 128, 64, 65));
    assert_eq!((value(reg::ITR), value(reg::PBA)), (488, 40));
    assert_eq!((value(reg::RXDCTL), value(reg::TXDCTL)), (0x0104_0820, 0x0101_0000));
    dev.control.set_itr(Itr::Off).unwrap();
    assert_eq!(value(reg::ITR), 0);
    // Erratum: the 82543 gets no write-back threshold.
    let nic = Nic::new(Chip::I82543gc);
    let config = Config { tx_thresholds: Some(Thresholds { pthresh: 8, hthresh: 0, wthresh: 1 }), ..small() };
    let _dev = start(&nic, &counts, config, &pool);
    assert_eq!(nic.get(reg::TXDCTL), 0x0100_0008);
}

#[test]
fn rings_do_not_cross_64_kib_on_chips_with_that_erratum() {
    for chip in Chip::ALL {
        let (nic, counts, pool) = (Nic::new(chip), Counts::new(), Pool::new(40, 2048));
        let _dev = start(&nic, &counts, small(), &pool);
        let boundary = matches!(chip, Chip::I82545em | Chip::I82546eb).then_some(0x1_0000);
        assert!(nic.specs.borrow().iter().all(|spec| spec.boundary == boundary), "{chip}");
    }
}

/// The chip has lost its ring then: a change of a filter must not turn the receiver on.
#[test]
fn the_receiver_stays_off_after_a_reset_that_failed() {
    let (counts, pool) = (Counts::new(), Pool::new(40, 2048));
    let nic = Nic::new(Chip::I82540em);
    let mut dev = start(&nic, &counts, small(), &pool);
    nic.stuck_in_reset.set(true);
    assert_eq!(dev.reset(), Err(Error::Timeout("reset")));
    dev.control.set_promiscuous(true);
    dev.control.set_all_multicast(true);
    assert_eq!(nic.get(reg::RCTL) & bit::rctl::EN, 0);
    nic.stuck_in_reset.set(false);
    assert_eq!(dev.reset(), Ok(()));
    assert_eq!(nic.get(reg::RCTL) & bit::rctl::EN, bit::rctl::EN);
}

#[test]
fn a_vanished_or_stuck_device_is_an_error() {
    let (counts, pool) = (Counts::new(), Pool::new(40, 2048));
    let nic = Nic::new(Chip::I82540em);
    nic.gone.set(true);
    assert_eq!(try_start(&nic, &counts, small(), &pool).err(), Some(Error::Gone));
    let nic = Nic::new(Chip::I82540em);
    nic.stuck_in_reset.set(true);
    assert_eq!(try_start(&nic, &counts, small(), &pool).err(), Some(Error::Timeout("reset")));
    assert!(nic.now_ns.get() < 1_000_000_000, "waits are bounded");
    let nic = Nic::new(Chip::I82540em);
    let mut dev = start(&nic, &counts, small(), &pool);
    nic.gone.set(true);
    assert_eq!(dev.control.causes(), Err(Error::Gone));
    assert_eq!(dev.control.watchdog(0, dev.tx.look_after()), Err(Error::Gone));
    assert_eq!(dev.control.update_stats().err(), Some(Error::Gone));
    assert_eq!(dev.reset(), Err(Error::Gone));
    nic.gone.set(false);
    assert_eq!(dev.reset(), Ok(()), "a reset recovers it");
    assert_eq!(nic.rx_owned(), 15);
    drop(dev);
    assert_eq!(pool.available(), 40);
}

#[test]
fn the_station_address() {
    let (counts, pool) = (Counts::new(), Pool::new(40, 2048));
    for chip in [Chip::I82542, Chip::I82540em] {
        let nic = Nic::new(chip);
        nic.eeprom.borrow_mut()[5] ^= 1;
        assert_eq!(try_start(&nic, &counts, small(), &pool).err(), Some(Error::Eeprom));
        let address = Some([2, 0, 0, 0, 0, 1]);
        let dev = start(&nic, &counts, Config { address, ..small() }, &pool);
        assert_eq!(Some(dev.control.address()), address);
    }
    // A good checksum makes no station address of a multicast one, or of none.
    for wrong in [[0x01, 2, 3, 4, 5, 6], [0; 6]] {
        let nic = Nic::new(Chip::I82540em);
        *nic.eeprom.borrow_mut() = eeprom::image(wrong);
        assert_eq!(try_start(&nic, &counts, small(), &pool).err(), Some(Error::Eeprom), "{wrong:?}");
    }
    // The second port's address differs in the last bit.
    for (chip, port, last, expected) in [
        (Chip::I82546eb, 0, 0x56, 0x56),
        (Chip::I82546eb, 1, 0x56, 0x57),
        (Chip::I82546eb, 1, 0x57, 0x56),
        (Chip::I82545em, 1, 0x56, 0x56),
    ] {
        let nic = Nic::new(chip);
        let [a, b, c, d, e, _] = MAC;
        *nic.eeprom.borrow_mut() = eeprom::image([a, b, c, d, e, last]);
        nic.set(reg::STATUS, nic.get(reg::STATUS) | port << bit::status::FUNC_SHIFT);
        let dev = start(&nic, &counts, small(), &pool);
        assert_eq!(dev.control.address(), [a, b, c, d, e, expected], "{chip}, port {port}");
    }
}

#[test]
fn copper_negotiates_through_either_interface() {
    for chip in [Chip::I82543gc, Chip::I82544, Chip::I82540em] {
        let (nic, counts, pool) = (Nic::new(chip), Counts::new(), Pool::new(40, 2048));
        nic.set(reg::STATUS, nic.get(reg::STATUS) & !bit::status::TBIMODE);
        let mut dev = start(&nic, &counts, Config { flow_control: FlowControl::Full, ..small() }, &pool);
        assert_eq!(dev.control.media(), Media::Copper);
        assert_eq!(nic.phy.borrow()[mii::ADVERTISE as usize], 0xDE1);
        assert_eq!(nic.phy.borrow()[mii::GIGABIT_CONTROL as usize], mii::gigabit::FULL);
        assert_eq!(nic.phy.borrow()[mii::CONTROL as usize], 0x1200);
        nic.phy.borrow_mut()[mii::PARTNER as usize] = mii::advertise::PAUSE;
        nic.phy.borrow_mut()[mii::SPECIFIC_STATUS as usize] = 0xAC00;
        let link = dev.control.update_link().unwrap();
        assert!(link.up && link.full_duplex && link.rx_pause && link.tx_pause, "{chip}: {link:?}");
        assert_eq!(link.speed_mbps, 1000);
        let ctrl = nic.get(reg::CTRL);
        assert_eq!(ctrl & (bit::ctrl::RFCE | bit::ctrl::TFCE), bit::ctrl::RFCE | bit::ctrl::TFCE);
        if chip == Chip::I82543gc {
            assert_eq!(ctrl & (bit::ctrl::SPEED_MASK | bit::ctrl::FD), bit::ctrl::SPEED_1000 | bit::ctrl::FD);
        }
    }
}

#[test]
fn a_missing_phy_is_an_error() {
    let (nic, counts, pool) = (Nic::new(Chip::I82540em), Counts::new(), Pool::new(40, 2048));
    *nic.phy.borrow_mut() = [0xFFFF; 32];
    assert_eq!(try_start(&nic, &counts, small(), &pool).err(), Some(Error::Phy));
    assert_eq!(pool.available(), 40);
}

#[test]
fn fibre_link_is_forced_when_the_partner_does_not_negotiate_and_released_when_it_does() {
    let (nic, counts, pool) = (Nic::new(Chip::I82543gc), Counts::new(), Pool::new(40, 2048));
    let mut dev = start(&nic, &counts, small(), &pool);
    assert_eq!(dev.control.media(), Media::Fibre);
    assert_ne!(nic.get(reg::TXCW) & bit::txcw::ANE, 0);
    nic.set(reg::STATUS, nic.get(reg::STATUS) & !bit::status::LU);
    assert!(!dev.control.update_link().unwrap().up);
    assert_eq!(nic.get(reg::CTRL) & bit::ctrl::SLU, 0, "it waits once more");
    dev.control.update_link().unwrap();
    assert_ne!(nic.get(reg::CTRL) & bit::ctrl::SLU, 0);
    assert_eq!(nic.get(reg::TXCW) & bit::txcw::ANE, 0);
    nic.set(reg::RXCW, bit::rxcw::C);
    dev.control.update_link().unwrap();
    assert_eq!(nic.get(reg::CTRL) & bit::ctrl::SLU, 0);
    assert_ne!(nic.get(reg::TXCW) & bit::txcw::ANE, 0);
}

#[test]
fn filters() {
    let (nic, counts, pool) = (Nic::new(Chip::I82544), Counts::new(), Pool::new(40, 2048));
    let mut dev = start(&nic, &counts, Config { vlan: true, ..small() }, &pool);
    let rctl = |bits| nic.get(reg::RCTL) & bits;
    dev.control.set_multicast(&[[0x12, 0x34, 0x56, 0x78, 0x9A, 0xBC]]);
    assert_eq!(nic.get(reg::mta(94)), 1 << 9);
    dev.control.set_unicast(3, Some(MAC)).unwrap();
    assert_ne!(nic.get(reg::rah(3)) & bit::rah::AV, 0);
    dev.control.set_unicast(3, None).unwrap();
    assert_eq!(nic.get(reg::rah(3)), 0);
    assert!(dev.control.set_unicast(16, None).is_err() && dev.control.set_unicast(0, None).is_err());
    dev.control.set_promiscuous(true);
    assert_eq!(rctl(bit::rctl::UPE | bit::rctl::MPE), bit::rctl::UPE | bit::rctl::MPE);
    dev.control.set_promiscuous(false);
    dev.control.set_all_multicast(true);
    assert_eq!(rctl(bit::rctl::UPE | bit::rctl::MPE), bit::rctl::MPE);
    dev.control.set_vlans(Some(&[5, 4095])).unwrap();
    assert_eq!((nic.get(reg::vfta(0)), nic.get(reg::vfta(127))), (1 << 5, 1 << 31));
    assert_ne!(rctl(bit::rctl::VFE), 0);
    assert_ne!(nic.get(reg::CTRL) & bit::ctrl::VME, 0);
    dev.reset().unwrap();
    assert_eq!(nic.get(reg::vfta(127)), 1 << 31, "filters survive a reset");
    assert_eq!(nic.get(reg::mta(94)), 1 << 9);
    // The 82542 has no VLAN filter.
    let nic = Nic::new(Chip::I82542);
    let mut dev = start(&nic, &counts, small(), &pool);
    assert_eq!(dev.control.set_vlans(Some(&[1])), Err(Error::Unsupported));
    assert_eq!(dev.control.set_vlans(None), Ok(()));
}

#[test]
fn statistics_add_up() {
    let (nic, counts, pool) = (Nic::new(Chip::I82540em), Counts::new(), Pool::new(40, 2048));
    nic.set(stat::MPC, 99);
    let mut dev = start(&nic, &counts, small(), &pool);
    assert_eq!(dev.control.update_stats().unwrap().missed(), 0, "counts from before the start are dropped");
    for round in 1..3u64 {
        nic.set(stat::MPC, 7);
        nic.set(stat::GORC, 5);
        nic.set(stat::GORC + 4, 1);
        let stats = dev.control.update_stats().unwrap();
        assert_eq!(stats.missed(), 7 * round);
        assert_eq!(stats.get(stat::GORC), ((1 << 32) + 5) * round);
    }
}

#[test]
fn loopback() {
    let (counts, pool) = (Counts::new(), Pool::new(40, 2048));
    let nic = Nic::new(Chip::I82540em);
    let mut dev = start(&nic, &counts, small(), &pool);
    dev.control.set_loopback(Loopback::Phy).unwrap();
    assert_eq!(nic.phy.borrow()[0], mii::control::LOOPBACK | 0x140);
    assert_eq!(nic.get(reg::RCTL) & bit::rctl::LBM_MASK, 0);
    dev.control.set_loopback(Loopback::Off).unwrap();
    assert_eq!(nic.phy.borrow()[0], 0x1200);
    let nic = Nic::new(Chip::I82543gc);
    let mut dev = start(&nic, &counts, small(), &pool);
    assert_eq!(dev.control.set_loopback(Loopback::Phy), Err(Error::Unsupported));
    dev.control.set_loopback(Loopback::Transceiver).unwrap();
    assert_eq!(nic.get(reg::RCTL) & bit::rctl::LBM_MASK, bit::rctl::LBM_TRANSCEIVER);
    dev.reset().unwrap();
    assert_eq!(nic.get(reg::RCTL) & bit::rctl::LBM_MASK, 0);
}

#[test]
fn the_watchdog_detects_a_hang_and_a_reset_ends_it() {
    const SECOND: u64 = 1_000_000_000;
    let (nic, counts, pool) = (Nic::new(Chip::I82540em), Counts::new(), Pool::new(40, 2048));
    let mut dev = start(&nic, &counts, small(), &pool);
    let look = |dev: &mut Dev<'_>, s: u64| dev.control.watchdog(s * SECOND, dev.tx.look_after()).unwrap();
    assert_eq!(look(&mut dev, 1), Health::Well);
    assert_eq!(look(&mut dev, 9), Health::Well, "an idle device does not hang");
    let buffer = dev.tx.source_mut_take();
    dev.tx.send(buffer, 60).unwrap();
    assert_eq!(look(&mut dev, 10), Health::Well, "the device has no frame");
    dev.tx.flush();
    assert_eq!(look(&mut dev, 12), Health::Well);
    nic.set(reg::STATUS, nic.get(reg::STATUS) | bit::status::TXOFF);
    assert_eq!(look(&mut dev, 14), Health::Well, "paused");
    nic.set(reg::STATUS, nic.get(reg::STATUS) & !bit::status::TXOFF);
    assert_eq!(look(&mut dev, 16), Health::Hung);
    dev.reset().unwrap();
    assert_eq!(look(&mut dev, 18), Health::Well);
    assert_eq!((dev.tx.pending(), dev.tx.counters().abandoned), (0, 1));
    let buffer = dev.tx.source_mut_take();
    dev.tx.send(buffer, 60).unwrap();
    dev.tx.flush();
    assert_eq!(look(&mut dev, 20), Health::Well);
    assert_eq!(nic.transmit(9), 1);
    assert_eq!(look(&mut dev, 99), Health::Well, "sent, but not yet reclaimed");
    assert_eq!(dev.tx.reclaim(9), 1);
    nic.set(reg::STATUS, 0);
    assert_eq!(look(&mut dev, 100), Health::LinkDown);
    drop(dev);
    assert_eq!(pool.available(), 40);
}

/// A user with a large ring may reclaim late. Reports that have not been reclaimed yet are progress, and do
/// not hide a missing report.
#[test]
fn the_watchdog_looks_beyond_what_was_reclaimed() {
    const SECOND: u64 = 1_000_000_000;
    let (nic, counts, pool) = (Nic::new(Chip::I82540em), Counts::new(), Pool::new(40, 2048));
    let mut dev = start(&nic, &counts, small(), &pool);
    let mut look = |send: u32, sent: u32, s: u64| {
        for _ in 0..send {
            let buffer = dev.tx.source_mut_take();
            dev.tx.send(buffer, 60).unwrap();
            dev.tx.flush();
        }
        assert_eq!(nic.transmit(sent), sent);
        let progress = dev.tx.progress();
        (progress.waiting, dev.control.watchdog(s * SECOND, progress).unwrap())
    };
    assert_eq!(look(2, 1, 10), (true, Health::Well));
    assert_eq!(look(1, 1, 12), (true, Health::Well), "one more was sent");
    assert_eq!(look(0, 0, 14), (true, Health::Hung));
    assert_eq!(look(0, 1, 16), (false, Health::Well));
    assert_eq!(look(0, 0, 18), (false, Health::Well));
    assert_eq!((dev.tx.pending(), dev.tx.reclaim(9)), (3, 3));
}

/// The driver's verdict on its receiver.
fn lost(dev: &mut Dev<'_>) -> Result<bool, Error> {
    dev.control.has_lost_receiver(&mut dev.rx)
}

#[test]
fn a_receiver_that_is_off_is_detected_and_a_reset_ends_it() {
    let (nic, counts, pool) = (Nic::new(Chip::I82540em), Counts::new(), Pool::new(40, 2048));
    let mut dev = start(&nic, &counts, small(), &pool);
    assert_eq!(lost(&mut dev), Ok(false));
    for _ in 0..2 {
        nic.set(reg::RCTL, 0);
        assert_eq!(lost(&mut dev), Ok(true));
        dev.reset().unwrap();
        assert_ne!(nic.get(reg::RCTL) & bit::rctl::EN, 0);
        assert_eq!(lost(&mut dev), Ok(false));
        assert_eq!(nic.rx_owned(), 15);
    }
    dev.control.stop();
    assert_eq!(lost(&mut dev), Ok(false), "the driver turned it off");
    dev.reset().unwrap();
    nic.gone.set(true);
    assert_eq!(lost(&mut dev), Err(Error::Gone));
}

/// Each of these faults lets a ring wait for ever, or take descriptors that the device still owns. An
/// examination may fall into a write of the device, so two in a row must agree.
#[test]
fn a_receiver_that_is_out_of_step_is_detected_and_a_reset_ends_it() {
    let (nic, counts, pool) = (Nic::new(Chip::I82540em), Counts::new(), Pool::new(40, 2048));
    let mut dev = start(&nic, &counts, small(), &pool);
    let wrong: [(&str, &dyn Fn()); 4] = [
        ("a write-back was lost", &|| nic.set(reg::RDH, 1)),
        ("a write-back went astray", &|| nic.scribble(0, 2 * 5 + 1, desc::RX_DD)),
        ("something else has reset the device", &|| nic.set(reg::RDLEN, 0)),
        ("frames come, and none is handed over", &|| nic.set(stat::GPRC, 3)),
    ];
    for (what, happens) in wrong {
        assert_eq!(lost(&mut dev), Ok(false), "{what}");
        happens();
        assert_eq!(lost(&mut dev), Ok(false), "{what}: a first look");
        happens();
        assert_eq!(lost(&mut dev), Ok(true), "{what}");
        dev.reset().unwrap();
        nic.set(reg::RDH, 0);
    }
    // A frame that was handed over is in order, and so is a frame that the driver has not taken yet.
    for frames in 1..20 {
        nic.set(stat::GPRC, 1);
        nic.receive_frame(60);
        nic.set(reg::RDH, nic.rx_head.get());
        assert_eq!(lost(&mut dev), Ok(false));
        assert_eq!(dev.rx.receive(9, |frame| Some(frame.buffer)), 1);
        assert_eq!(lost(&mut dev), Ok(false));
        assert_eq!(dev.control.stats().received(), 6 + frames);
    }
}

/// A ring without a buffer gets no frame, however many come.
#[test]
fn a_receiver_without_buffers_is_not_lost() {
    let (nic, counts, pool) = (Nic::new(Chip::I82540em), Counts::new(), Pool::new(0, 2048));
    let mut dev = start(&nic, &counts, small(), &pool);
    assert_eq!(nic.rx_owned(), 0);
    for _ in 0..3 {
        nic.set(stat::GPRC, 3);
        assert_eq!(lost(&mut dev), Ok(false));
    }
}

/// Frames of any kind, in equal numbers, show that the receiver works.
#[test]
fn a_receiver_of_good_and_bad_frames_is_not_lost() {
    let (nic, counts, pool) = (Nic::new(Chip::I82540em), Counts::new(), Pool::new(40, 2048));
    let mut dev = start(&nic, &counts, small(), &pool);
    let status = desc::rx_status::DD | desc::rx_status::EOP;
    let no_length = desc::RxWriteback { length: 0, status, ..Default::default() };
    let bad = desc::RxWriteback { length: 60, status, errors: desc::rx_error::CE, ..Default::default() };
    for wrong in [no_length, no_length, bad, bad] {
        nic.receive_frame(60);
        nic.receive(wrong);
        nic.set(reg::RDH, nic.rx_head.get());
        nic.set(stat::GPRC, 1);
        assert_eq!(dev.rx.receive(9, |frame| Some(frame.buffer)), 2);
        assert_eq!(lost(&mut dev), Ok(false));
    }
    let counters = dev.rx.counters();
    assert_eq!((counters.frames, counters.frame_errors, counters.nonsense), (4, 2, 2));
}

/// A change of CTRL after a read that was wrong may lose the bit for tags: the next link sets it again.
#[test]
fn tags_are_taken_out_again_when_the_link_comes_up() {
    for vlan in [false, true] {
        let (nic, counts, pool) = (Nic::new(Chip::I82543gc), Counts::new(), Pool::new(40, 2048));
        let mut dev = start(&nic, &counts, Config { vlan, ..small() }, &pool);
        nic.set(reg::CTRL, nic.get(reg::CTRL) ^ bit::ctrl::VME);
        assert!(dev.control.update_link().unwrap().up);
        assert_eq!(nic.get(reg::CTRL) & bit::ctrl::VME != 0, vlan);
    }
}

/// A frame that arrives during an examination excuses the device only for that examination: the device is
/// examined again.
#[test]
fn frames_in_step_with_the_watchdog_do_not_excuse_a_receiver() {
    let (nic, counts, pool) = (Nic::new(Chip::I82540em), Counts::new(), Pool::new(40, 2048));
    let mut dev = start(&nic, &counts, small(), &pool);
    nic.read_ns.set(100);
    nic.scribble(0, 2 * 13 + 1, desc::RX_DD);
    for found in [false, true] {
        // During each of the five reads of a look without doubt.
        nic.due_ns.borrow_mut().extend((1..=5).map(|read| nic.now_ns.get() + 100 * read));
        assert_eq!(lost(&mut dev), Ok(found));
        assert_eq!(dev.rx.receive(9, |frame| Some(frame.buffer)), 5);
    }
}

/// One read may fail on its way. Only a device that is all ones a second time, and in another register, is
/// gone; and causes that a failed read has cleared are not forgotten.
#[test]
fn a_single_read_of_all_ones_is_no_vanished_device() {
    let (nic, counts, pool) = (Nic::new(Chip::I82540em), Counts::new(), Pool::new(40, 2048));
    let mut dev = start(&nic, &counts, small(), &pool);
    nic.ones.set(1);
    assert_eq!(dev.control.causes().map(|causes| causes.any()), Ok(true));
    assert_eq!(dev.control.causes().map(|causes| causes.any()), Ok(false));
    nic.ones.set(1);
    assert_eq!(lost(&mut dev), Ok(false));
    nic.ones.set(2);
    assert_eq!(lost(&mut dev), Err(Error::Gone));
}

/// Takes a buffer from the queue's own source.
trait Take {
    fn source_mut_take(&mut self) -> Buf;
}

impl Take for kpps_driver::TxQueue<NicPlatform<'_>, Pool> {
    fn source_mut_take(&mut self) -> Buf {
        kpps_platform::BufferSource::take(self.source_mut()).unwrap()
    }
}
