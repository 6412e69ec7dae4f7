//! The 82576: its registers, and advanced descriptors.

use crate::common::*;
use kpps_datasheet::desc::advanced::{Context, Offloads, data, length};
use kpps_datasheet::{Chip, desc, igb, reg};
use kpps_driver::{
    Checksums, Config, Error, Fragment, Offload, Refusal, Segmentation, Sum, TxMeta,
    config::{Completion, Delay, Itr, Moderation, Rss, RxLow, Thresholds},
};
use kpps_platform::{BufferSource, wrap::Counts};

/// A frame in one descriptor, without a report.
fn whole(bytes: u16) -> u64 {
    data(bytes) | length(bytes.into()) | desc::TX_EOP
}

#[test]
fn rings_and_interrupts_have_their_registers() {
    let (nic, counts, pool) = (Nic::new(Chip::I82576), Counts::new(), Pool::new(40, 2048));
    let thresholds = Some(Thresholds { pthresh: 8, hthresh: 4, wthresh: 1 });
    let config = Config {
        rx_ring: 64,
        rx_low: RxLow::Quarter,
        rx_thresholds: thresholds,
        rx_fifo_kb: Some(32),
        max_frame_bytes: 9018,
        moderation: Moderation { itr: Itr::Fixed(8_000), ..small().moderation },
        ..small()
    };
    nic.set(reg::TXDCTL, 0x0001_0000);
    let dev = start(&nic, &counts, config, &pool);
    assert_eq!(nic.get(reg::RXDCTL), 0x0201_0408);
    assert_eq!(nic.get(reg::TXDCTL), 0x0201_0000, "without thresholds, enabled only");
    assert_eq!(nic.get(igb::SRRCTL), 0x0210_0002, "2048 bytes, one buffer, RXDMT0 at 16");
    assert_eq!((nic.get(igb::RXPBS), nic.get(igb::RLPML)), (32, 9022));
    assert_eq!((nic.get(igb::IVAR), nic.get(igb::EITR)), (0x8080, 124 << 2));
    dev.control.unmask();
    assert_eq!(nic.get(reg::IMS), 0xD5);
}

#[test]
fn what_the_chip_lacks_is_refused() {
    let refused = |config: Config| assert!(matches!(config.validate(Chip::I82576), Err(Error::Config(_))));
    refused(Config { queues: 2, ..small() });
    refused(Config { rss: Some(Rss::DEFAULT), ..small() });
    refused(Config { max_frame_bytes: 9729, ..small() });
    refused(Config { rx_fifo_kb: Some(72), ..small() });
    refused(Config { tx_thresholds: Some(Thresholds { pthresh: 32, hthresh: 0, wthresh: 0 }), ..small() });
}

/// In the address registers after a reset: the driver does not read the EEPROM.
#[test]
fn a_card_without_an_address_is_an_error() {
    let (nic, counts, pool) = (Nic::new(Chip::I82576), Counts::new(), Pool::new(40, 2048));
    nic.eeprom.borrow_mut()[..3].fill(0);
    let found = try_start(&nic, &counts, small(), &pool).err();
    assert_eq!(found, Some(Error::Eeprom));
}

#[test]
fn the_phy_is_locked_against_the_firmware() {
    let (nic, counts, pool) = (Nic::new(Chip::I82576), Counts::new(), Pool::new(40, 2048));
    // The lock of a driver that has crashed, and of the EEPROM by the firmware.
    nic.set(igb::SW_FW_SYNC, igb::sync::PHY | 1 << 16);
    let _dev = start(&nic, &counts, small(), &pool);
    assert_eq!(nic.get(igb::SW_FW_SYNC), 1 << 16, "released");
    assert_eq!(nic.get(reg::SWSM), 0);
    nic.set(igb::SW_FW_SYNC, igb::sync::PHY << igb::sync::FIRMWARE_SHIFT);
    let found = try_start(&nic, &counts, small(), &pool).err();
    assert_eq!(found, Some(Error::Timeout("the PHY from the firmware")));
}

/// All ways to send a frame write the same descriptor; there is no bit for a delay.
#[test]
fn frames_in_one_descriptor() {
    let (nic, counts, mut pool) = (Nic::new(Chip::I82576), Counts::new(), Pool::new(40, 2048));
    let config = Config {
        completion: Completion { report_every: 8, delay: Delay::Always },
        moderation: Moderation { tidv: 8, ..small().moderation },
        ..small()
    };
    let mut dev = start(&nic, &counts, config, &pool);
    let mut take = || pool.take().unwrap();
    dev.tx.send(take(), 60).unwrap();
    let mut burst =
        [(61, take()), (1514, take())].into_iter().map(|(bytes, buffer)| Fragment { buffer, bytes });
    assert_eq!(dev.tx.send_burst(&mut burst).unwrap(), 2);
    let fragment = Fragment { buffer: take(), bytes: 62 };
    dev.tx.enqueue([fragment].into_iter(), &TxMeta::default()).unwrap();
    dev.tx.flush();
    nic.transmit(u32::MAX);
    let words: Vec<_> = nic.sent_advanced.take().into_iter().map(|[_, second]| second).collect();
    assert_eq!(words, [whole(60), whole(61), whole(1514), whole(62) | desc::TX_RS]);
    // Again in the buffers of these.
    assert_eq!(dev.tx.send_again(2, |_| 64), 2);
    dev.tx.flush();
    nic.transmit(u32::MAX);
    let words: Vec<_> = nic.sent_advanced.take().into_iter().map(|[_, second]| second).collect();
    assert_eq!(words, [whole(64), whole(64) | desc::TX_RS]);
}

const IP: Sum = Sum { start: 14, field: 24, end: 33 };
const TCP: Sum = Sum { start: 34, field: 50, end: 0 };

/// The length of the whole frame is in the first descriptor, and its options are in all.
#[test]
fn offloads_have_contexts() {
    let (nic, counts, mut pool) = (Nic::new(Chip::I82576), Counts::new(), Pool::new(40, 2048));
    let mut dev = start(&nic, &counts, Config { vlan: true, ..small() }, &pool);
    let mut fragments =
        |sizes: [u16; 2]| sizes.map(|bytes| Fragment { buffer: pool.take().unwrap(), bytes }).into_iter();
    let sums = Checksums { ip: Some(IP), transport: Some(TCP) };
    let checksums = TxMeta { vlan: None, offload: Offload::Checksum(sums) };
    let segments = TxMeta {
        vlan: Some(7),
        offload: Offload::Segment(Segmentation {
            ip: IP,
            transport: TCP,
            is_ipv4: true,
            is_tcp: true,
            header_bytes: 54,
            payload_bytes: 2000,
            mss: 1000,
        }),
    };
    dev.tx.enqueue(fragments([54, 100]), &checksums).unwrap();
    dev.tx.enqueue(fragments([60, 100]), &checksums).unwrap();
    dev.tx.enqueue(fragments([54, 2000]), &segments).unwrap();
    dev.tx.enqueue(fragments([60, 100]), &TxMeta { vlan: Some(7), offload: Offload::None }).unwrap();
    dev.tx.flush();
    nic.transmit(u32::MAX);
    let words: Vec<_> = nic.sent_advanced.take();
    let second = |at: usize| words[at][1] & !(desc::TX_RS | desc::TX_EOP);
    let headers = Context { mac_bytes: 14, ip_bytes: 20, is_ipv4: true, is_tcp: true, ..Context::default() };
    let both = Offloads { ip: true, transport: true, ..Offloads::default() }.pack();
    assert_eq!(words[0], headers.pack());
    assert_eq!([second(1), second(2)], [data(54) | both | length(154), data(100) | both]);
    assert_eq!([second(3), second(4)], [data(60) | both | length(160), data(100) | both], "the same context");
    assert_eq!(words[5], Context { vlan: 7, transport_bytes: 20, mss: 1000, ..headers }.pack());
    let all = Offloads { ip: true, transport: true, vlan: true, segment: true }.pack();
    assert_eq!([second(6), second(7)], [data(54) | all | length(2000), data(2000) | all]);
    let tag = Offloads { vlan: true, ..Offloads::default() }.pack();
    assert_eq!(words[8], Context { vlan: 7, mac_bytes: 14, ..Context::default() }.pack());
    assert_eq!([second(9), second(10)], [data(60) | tag | length(160), data(100) | tag]);
    let ends: Vec<_> = words.iter().map(|words| words[1] & desc::TX_EOP != 0).collect();
    assert_eq!(ends, [0, 0, 1, 0, 1, 0, 0, 1, 0, 0, 1].map(|end| end == 1));
    // A sum over other bytes than those of TCP or UDP.
    let odd = Checksums { ip: None, transport: Some(Sum { field: 44, ..TCP }) };
    let meta = TxMeta { vlan: None, offload: Offload::Checksum(odd) };
    let refused = dev.tx.enqueue(fragments([60, 60]), &meta).unwrap_err();
    assert_eq!(refused.reason, Refusal::Unsupported);
}

#[test]
fn received_frames() {
    let (nic, counts, pool) = (Nic::new(Chip::I82576), Counts::new(), Pool::new(40, 2048));
    let mut dev = start(&nic, &counts, small(), &pool);
    for bytes in [60, 1514] {
        assert!(nic.receive_frame(bytes));
    }
    let mut seen = Vec::new();
    dev.rx.receive(64, |frame| {
        seen.push((frame.bytes, frame.first && frame.last, frame.hash()));
        Some(frame.buffer)
    });
    assert_eq!(seen, [(60, true, None), (1514, true, None)]);
}
