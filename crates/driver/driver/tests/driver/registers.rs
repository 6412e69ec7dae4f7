//! The contents of registers after a start, as numbers.

use crate::common::*;
use kpps_datasheet::{Chip, Media, bit, reg};
use kpps_driver::{
    Causes, Config, Error, Health,
    config::{FlowControl::*, *},
};
use kpps_platform::wrap::Counts;

/// A change of the configuration of [`small`].
type Change = fn(&mut Config);

fn changed(change: Change) -> Config {
    let mut config = small();
    change(&mut config);
    config
}

/// TCTL (SDM 13.4.33): EN, PSP, a collision threshold of 15 and a distance of 64. TIPG (SDM 13.4.34): the
/// public drivers' values, with IPGT raised by the bytes of the gap above 12. AIFS (SDM 13.4.35): as it is
/// set.
#[test]
fn the_transmitter() {
    let (counts, pool) = (Counts::new(), Pool::new(40, 2048));
    for chip in Chip::ALL {
        for media in [Media::Copper, Media::Fibre] {
            let tipg = match (chip, media) {
                (Chip::I82576, Media::Fibre) => continue,
                (Chip::I82576, Media::Copper) => 0x0060_1008,
                (Chip::I82542, Media::Copper) => continue,
                (Chip::I82542, Media::Fibre) => 0x00A0_080A,
                (_, Media::Fibre) => 0x0060_2009,
                (_, Media::Copper) => 0x0060_2008,
            };
            for longer in [0, 2, 900] {
                let nic = Nic::with(chip, media);
                let config = Config { tx_gap_bytes: 12 + longer, tx_throttle_bytes: longer, ..small() };
                let _dev = start(&nic, &counts, config, &pool);
                assert_eq!(nic.get(reg::TIPG), tipg + u32::from(longer), "{chip}, {media:?}");
                assert_eq!(nic.get(reg::AIFS), u32::from(longer), "{chip}, {media:?}");
                assert_eq!(nic.get(reg::TCTL), 0x0004_00FA, "{chip}, {media:?}");
            }
        }
    }
}

/// RCTL (SDM 13.4.22).
#[test]
fn the_receiver() {
    let (counts, pool) = (Counts::new(), Pool::new(40, 16384));
    const SPLIT: RxFormat = RxFormat::Split { header_bytes: 128 };
    let cases: [(Chip, Change, u32); 22] = [
        // EN, BAM, SECRC, and half of the ring for RXDMT0.
        (Chip::I82540em, |_| (), 0x0400_8002),
        (Chip::I82574l, |_| (), 0x0400_8002),
        (Chip::I82543gc, |c| c.strip_fcs = false, 0x0000_8002),
        (Chip::I82542, |_| (), 0x0000_8002),
        (Chip::I82540em, |c| c.rx_low = RxLow::Quarter, 0x0400_8102),
        (Chip::I82540em, |c| c.rx_low = RxLow::Eighth, 0x0400_8202),
        (Chip::I82540em, |c| c.rx_buffer_bytes = 256, 0x0403_8002),
        (Chip::I82540em, |c| c.rx_buffer_bytes = 512, 0x0402_8002),
        (Chip::I82540em, |c| c.rx_buffer_bytes = 1024, 0x0401_8002),
        (Chip::I82540em, |c| c.rx_buffer_bytes = 4096, 0x0603_8002),
        (Chip::I82540em, |c| c.rx_buffer_bytes = 8192, 0x0602_8002),
        (Chip::I82540em, |c| c.rx_buffer_bytes = 16384, 0x0601_8002),
        (Chip::I82540em, |c| c.promiscuous = true, 0x0400_801A),
        // LPE is for frames that are longer than 1522 bytes.
        (Chip::I82540em, |c| c.max_frame_bytes = 1522, 0x0400_8002),
        (Chip::I82540em, |c| c.max_frame_bytes = 1523, 0x0400_8022),
        // Header split counts no FCS, so it goes with SECRC.
        (Chip::I82574l, |c| c.rx_format = SPLIT, 0x0400_8402),
        (Chip::I82574l, |c| (c.rx_format, c.strip_fcs) = (SPLIT, false), 0x0400_8402),
        (Chip::I82540em, |c| (c.rx_format, c.strip_fcs) = (SPLIT, false), 0x0000_8002),
        // The 82576 has sizes from 1024 bytes on, and the threshold of RXDMT0, in SRRCTL.
        (Chip::I82576, |c| c.rx_low = RxLow::Quarter, 0x0400_8002),
        (Chip::I82576, |c| c.rx_buffer_bytes = 512, 0x0402_8002),
        (Chip::I82576, |c| c.rx_buffer_bytes = 1024, 0x0400_8002),
        (Chip::I82576, |c| (c.rx_format, c.strip_fcs) = (SPLIT, false), 0x0000_8002),
    ];
    for (chip, change, rctl) in cases {
        let (nic, config) = (Nic::new(chip), changed(change));
        let _dev = start(&nic, &counts, config.clone(), &pool);
        assert_eq!(nic.get(reg::RCTL), rctl, "{chip}: {config:?}");
    }
    let nic = Nic::new(Chip::I82540em);
    let mut dev = start(&nic, &counts, small(), &pool);
    dev.control.set_promiscuous(true);
    dev.control.set_all_multicast(true);
    assert_eq!(nic.get(reg::RCTL), 0x0400_801A);
    dev.control.set_vlans(Some(&[1])).unwrap();
    assert_eq!(nic.get(reg::RCTL), 0x0404_801A);
    dev.control.set_promiscuous(false);
    assert_eq!(nic.get(reg::RCTL), 0x0404_8012);
    dev.control.set_all_multicast(false);
    dev.control.set_vlans(None).unwrap();
    assert_eq!(nic.get(reg::RCTL), 0x0400_8002);
}

/// FCRTH, FCRTL (SDM 13.4.23, .24): XOFF while two of the longest frames still fit, but not below a quarter
/// of the FIFO; XON at half of that. Bits 2:0 are 0. Older chips need XONE.
#[test]
fn flow_control() {
    let (counts, pool) = (Counts::new(), Pool::new(40, 2048));
    let (none, long) = (|_: &mut Config| (), |c: &mut Config| c.max_frame_bytes = 9018);
    type Case = (Chip, FlowControl, Option<u8>, Change, [u32; 2]);
    let cases: [Case; 15] = [
        (Chip::I82542, Full, None, none, [0xB418, 0x8000_5A08]),
        (Chip::I82543gc, Full, None, none, [0xB418, 0x8000_5A08]),
        (Chip::I82544, Full, None, none, [0xB418, 0x8000_5A08]),
        (Chip::I82540em, Full, None, none, [0xB418, 0x5A08]),
        (Chip::I82545em, Full, None, none, [0xB418, 0x5A08]),
        (Chip::I82546eb, Full, None, none, [0xB418, 0x5A08]),
        (Chip::I82574l, Full, None, none, [0x4418, 0x2208]),
        (Chip::I82576, Full, None, none, [0xF418, 0x8000_7A08]),
        (Chip::I82540em, Transmit, None, none, [0xB418, 0x5A08]),
        (Chip::I82540em, Receive, None, none, [0, 0]),
        (Chip::I82540em, Off, None, none, [0, 0]),
        (Chip::I82540em, Full, Some(40), none, [0x9418, 0x4A08]),
        (Chip::I82540em, Full, Some(40), |c| c.max_frame_bytes = 64, [0x9418, 0x4A08]),
        (Chip::I82540em, Full, None, long, [0x7988, 0x3CC0]),
        (Chip::I82540em, Full, Some(16), long, [0x1000, 0x800]),
    ];
    for (chip, flow_control, rx_fifo_kb, change, marks) in cases {
        let nic = Nic::new(chip);
        let config = Config { flow_control, rx_fifo_kb, ..changed(change) };
        let _dev = start(&nic, &counts, config.clone(), &pool);
        assert_eq!([nic.get(reg::FCRTH), nic.get(reg::FCRTL)], marks, "{chip}: {config:?}");
        // The addresses and the type of PAUSE frames (SDM 13.4.8 to .10), and how long a pause is (.12).
        let frame = [reg::FCAL, reg::FCAH, reg::FCT, reg::FCTTV].map(|register| nic.get(register));
        assert_eq!(frame, [0x00C2_8001, 0x0100, 0x8808, 0x0100]);
    }
}

/// Both halves of the rings' addresses (SDM 13.4.25, .26, .36, .37).
#[test]
fn rings_may_be_above_4_gib() {
    let (counts, pool) = (Counts::new(), Pool::new(40, 2048));
    for chip in Chip::ALL {
        let nic = Nic::new(chip);
        let _dev = start(&nic, &counts, small(), &pool);
        let bases = [reg::RDBAH, reg::RDBAL, reg::TDBAH, reg::TDBAL].map(|register| nic.get(register));
        assert_eq!(bases, [6, 0x10_0000, 6, 0x20_0000], "{chip}");
    }
}

/// RXCSUM (SDM 13.4.47): IP, and TCP and UDP. The 82542 has none.
#[test]
fn checksums() {
    let (counts, pool) = (Counts::new(), Pool::new(40, 2048));
    for chip in Chip::ALL {
        for rx_checksum in [false, true] {
            let nic = Nic::new(chip);
            let _dev = start(&nic, &counts, Config { rx_checksum, ..small() }, &pool);
            let rxcsum = if rx_checksum && chip != Chip::I82542 { 0x300 } else { 0 };
            assert_eq!(nic.get(reg::RXCSUM), rxcsum, "{chip}");
        }
    }
}

#[test]
fn some_interrupts_are_unmasked_and_raised() {
    let (nic, counts, pool) = (Nic::new(Chip::I82540em), Counts::new(), Pool::new(40, 2048));
    let mut dev = start(&nic, &counts, changed(|c| c.interrupts.tx_empty = true), &pool);
    dev.control.unmask();
    assert_eq!(nic.get(reg::IMS), 0xDF);
    dev.control.mask();
    dev.control.unmask_receive();
    assert_eq!(nic.get(reg::IMS), 0xDC, "without TXDW and TXQE");
    assert!(dev.control.take_link_event(), "after a start the link is to be looked at");
    assert!(!dev.control.take_link_event());
    for (cause, link) in [(bit::cause::RXT0, false), (bit::cause::LSC, true), (bit::cause::RXSEQ, true)] {
        dev.control.raise(Causes(cause));
        assert_eq!(dev.control.causes(), Ok(Causes(cause)));
        dev.control.raise(Causes(bit::cause::RXT0));
        dev.control.causes().unwrap();
        assert_eq!(dev.control.take_link_event(), link, "{cause:#x}, and then another");
    }
}

#[test]
fn the_watchdog_raises_a_lost_interrupt_again() {
    let (counts, pool) = (Counts::new(), Pool::new(40, 2048));
    for rescue in [false, true] {
        let nic = Nic::new(Chip::I82540em);
        let mut dev = start(&nic, &counts, Config { rescue, ..small() }, &pool);
        dev.control.watchdog(0, dev.tx.look_after()).unwrap();
        let expected = if rescue { bit::cause::RXDMT0 } else { 0 };
        assert_eq!(dev.control.causes(), Ok(Causes(expected)));
    }
}

/// A frame may take 16 s at 10 Mb/s, and one second otherwise.
#[test]
fn how_long_a_frame_may_take() {
    let (counts, pool) = (Counts::new(), Pool::new(40, 2048));
    for (status, limit_ns) in [(0x03, 16_000_000_000), (0x43, 1_000_000_000), (0x83, 1_000_000_000)] {
        let nic = Nic::new(Chip::I82540em);
        nic.set(reg::STATUS, status);
        let mut dev = start(&nic, &counts, small(), &pool);
        let buffer = kpps_platform::BufferSource::take(dev.tx.source_mut()).unwrap();
        dev.tx.send(buffer, 60).unwrap();
        dev.tx.flush();
        for (after_ns, health) in [(0, Health::Well), (limit_ns - 1, Health::Well), (limit_ns, Health::Hung)]
        {
            let found = dev.control.watchdog(77 + after_ns, dev.tx.look_after());
            assert_eq!(found, Ok(health), "STATUS {status:#x}, {after_ns} ns");
        }
    }
}

/// RAL0 and RAH0 (SDM 13.5.2, .3).
#[test]
fn the_station_address_can_be_changed() {
    let (nic, counts, pool) = (Nic::new(Chip::I82540em), Counts::new(), Pool::new(40, 2048));
    let mut dev = start(&nic, &counts, small(), &pool);
    let refused = Err(Error::Config(kpps_driver::Invalid::Rule("address: not a station address")));
    assert_eq!(dev.control.set_address([0x01, 2, 3, 4, 5, 6]), refused, "a multicast address");
    assert_eq!(dev.control.set_address([0; 6]), refused);
    assert_eq!(dev.control.address(), MAC);
    assert_eq!(dev.control.set_address([2, 3, 4, 5, 6, 7]), Ok(()));
    for again in ["", "after a reset"] {
        assert_eq!(dev.control.address(), [2, 3, 4, 5, 6, 7], "{again}");
        assert_eq!((nic.get(reg::RAL0), nic.get(reg::RAH0)), (0x0504_0302, 0x8000_0706), "{again}");
        dev.reset().unwrap();
    }
}

/// The Microwire EEPROM of the older chips is read by pins of EECD (SDM 5.3). Its other bits stay, such as
/// the bits that forbid writes to the flash. Something may have left the pins high.
#[test]
fn reading_the_eeprom_leaves_its_pins_low() {
    let (counts, pool) = (Counts::new(), Pool::new(40, 2048));
    for chip in [Chip::I82542, Chip::I82543gc, Chip::I82544] {
        let nic = Nic::new(chip);
        nic.set(reg::EECD, 0x17);
        let dev = start(&nic, &counts, small(), &pool);
        assert_eq!(dev.control.address(), MAC, "{chip}");
        assert_eq!(nic.get(reg::EECD), 0x10, "{chip}");
    }
}
