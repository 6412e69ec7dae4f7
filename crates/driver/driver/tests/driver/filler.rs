//! Fillers between frames: their descriptors, and the one buffer that they share.

use crate::common::*;
use kpps_datasheet::{
    Chip,
    desc::{self, Tx, TxLegacy, tx_cmd},
};
use kpps_driver::{MIN_FILLER_BYTES, Refusal};
use kpps_platform::{BufferSource, wrap::Counts};

/// Length and command of each legacy descriptor that the device sees.
fn seen(nic: &Nic) -> Vec<(u16, u8)> {
    nic.transmit(u32::MAX);
    let legacy = |descriptor| match descriptor {
        Tx::Legacy(TxLegacy { length, cmd, .. }) => (length, cmd & !tx_cmd::RS),
        other => panic!("{other:?}"),
    };
    nic.take_sent().into_iter().map(legacy).collect()
}

#[test]
fn only_fillers_lack_ifcs_and_none_counts_as_a_frame() {
    let (nic, counts, mut pool) = (Nic::new(Chip::I82540em), Counts::new(), Pool::new(40, 2048));
    let mut dev = start(&nic, &counts, small(), &pool);
    let before = pool.available();
    dev.tx.send(pool.take().unwrap(), 60).unwrap();
    for bytes in [MIN_FILLER_BYTES, 1518] {
        dev.tx.send_filler(bytes).unwrap();
    }
    dev.tx.send(pool.take().unwrap(), 61).unwrap();
    dev.tx.flush();
    let whole = tx_cmd::EOP | tx_cmd::IFCS;
    assert_eq!(seen(&nic), [(60, whole), (64, tx_cmd::EOP), (1518, tx_cmd::EOP), (61, whole)]);
    let counters = dev.tx.counters();
    assert_eq!((counters.frames, counters.bytes, counters.fillers), (2, 121, 2));
    // The frames' buffers come back, and the fillers' one stays.
    dev.tx.request_report();
    nic.transmit(u32::MAX);
    dev.tx.reclaim(usize::MAX);
    assert_eq!((dev.tx.pending(), before - pool.available()), (0, 1));
    drop(dev);
    assert_eq!(pool.available(), 40);
}

#[test]
fn fillers_that_cannot_be_sent() {
    let (nic, counts, pool) = (Nic::new(Chip::I82540em), Counts::new(), Pool::new(40, 2048));
    let mut dev = start(&nic, &counts, small(), &pool);
    for bytes in [0, 63, 2049, u16::MAX] {
        assert_eq!(dev.tx.send_filler(bytes), Err(Refusal::Invalid), "{bytes}");
    }
    while dev.tx.free() > 0 {
        dev.tx.send_filler(64).unwrap();
    }
    assert_eq!(dev.tx.send_filler(64), Err(Refusal::Full));
    // A reset drops them: no buffer of a frame was among them.
    dev.reset().unwrap();
    assert_eq!((dev.tx.pending(), dev.tx.counters().abandoned), (0, 0));
    dev.tx.send_filler(64).unwrap();
}

/// With an erratum: no descriptor may cross 64 KiB.
#[test]
fn a_filler_in_several_descriptors() {
    let (nic, counts) = (Nic::new(Chip::I82545em), Counts::new());
    let pool = Pool::at(0x1_0000 - 100, 0x1_0000, 40, 2048);
    let mut dev = start(&nic, &counts, small(), &pool);
    dev.tx.send_filler(1000).unwrap();
    dev.tx.flush();
    assert_eq!(seen(&nic), [(100, 0), (900, tx_cmd::EOP)]);
}

#[test]
fn advanced_descriptors_of_fillers() {
    let (nic, counts, pool) = (Nic::new(Chip::I82576), Counts::new(), Pool::new(40, 2048));
    let mut dev = start(&nic, &counts, small(), &pool);
    dev.tx.send_filler(64).unwrap();
    dev.tx.flush();
    nic.transmit(u32::MAX);
    let words: Vec<_> = nic.sent_advanced.take().into_iter().map(|[_, second]| second).collect();
    assert_eq!(words, [desc::advanced::filler(64) | 64 | desc::TX_EOP | desc::TX_RS]);
}
