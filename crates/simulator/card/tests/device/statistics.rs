//! The statistics registers agree with the tally and with each other.

use crate::bench::*;
use kpps_datasheet::bit::rctl;
use kpps_datasheet::desc::rx_error;
use kpps_datasheet::{Chip, reg, stat};

fn wide(b: &mut Bench, offset: u32) -> u64 {
    u64::from(b.get(offset)) | u64::from(b.get(offset + 4)) << 32
}

#[test]
fn every_frame_is_counted_where_it_ended() {
    let mut b = Bench::ready(Bench::params(Chip::I82540em), 64);
    let mut broadcast = frame(0, 100);
    broadcast[..6].fill(0xFF);
    let mut stranger = frame(0, 60);
    stranger[5] = 7;
    b.arrive(&frame(0, 60));
    b.arrive(&frame(0, 1514));
    b.arrive(&broadcast);
    b.arrive(&stranger);
    b.arrive(&frame(0, 40));
    b.arrive(&frame(0, 1600));
    b.nic.bad_frame_arrives(b.now, &frame(0, 60), &mut b.m);
    b.nic.bad_frame_arrives(b.now, &frame(0, 20), &mut b.m);
    b.nic.bad_frame_arrives(b.now, &frame(0, 3000), &mut b.m);
    b.pass(100 * US);
    let t = *b.nic.tally();
    assert_eq!((t.arrived, t.to_host, t.in_fifo), (9, 3, 0));
    let d = t.dropped;
    assert_eq!((d.filtered, d.too_short, d.too_long, d.bad_fcs), (1, 2, 2, 1));
    let (gprc, tpr) = (b.get(stat::GPRC), b.get(stat::TPR));
    assert_eq!((gprc, tpr, b.get(stat::BPRC), b.get(stat::MPRC)), (3, 8, 1, 0));
    let (crc, ruc, rfc, roc, rjc) =
        (b.get(stat::CRCERRS), b.get(stat::RUC), b.get(stat::RFC), b.get(stat::ROC), b.get(stat::RJC));
    assert_eq!((crc, ruc, rfc, roc, rjc), (2, 1, 1, 1, 1));
    // Jabber is a CRC error, too.
    assert_eq!(tpr, gprc + crc + ruc + rfc + roc);
    assert_eq!(b.get(stat::RLEC), 4);
    assert_eq!((b.get(stat::PRC64), b.get(stat::PRC127), b.get(stat::PRC1522)), (1, 1, 1));
    assert_eq!(wide(&mut b, stat::GORC), 64 + 1518 + 104);
    assert_eq!(wide(&mut b, stat::TOR), 64 + 1518 + 104 + 44 + 1604 + 64 + 24 + 3004);
    assert_eq!((b.get(stat::GPRC), wide(&mut b, stat::TOR)), (0, 0), "reading clears");
}

#[test]
fn bad_frames_are_stored_with_sbp() {
    let mut b = Bench::ready(Bench::params(Chip::I82540em), 64);
    b.set(reg::RCTL, rctl::EN | rctl::SBP);
    b.nic.bad_frame_arrives(b.now, &frame(1, 60), &mut b.m);
    b.arrive(&frame(2, 20));
    b.arrive(&frame(3, 17_000));
    b.pass(100 * US);
    let t = b.nic.tally();
    assert_eq!((t.to_host, t.dropped.too_long), (2, 1));
    assert_eq!((b.rx(0).errors, b.rx(0).length), (rx_error::CE, 64));
    let stored = b.rx_bytes(0, 64);
    assert_ne!(crc32fast::hash(&stored[..60]).to_le_bytes(), stored[60..]);
    assert_eq!((b.rx(1).errors, b.rx(1).length), (0, 24));
}

#[test]
fn sent_frames_are_counted() {
    let mut b = Bench::ready(Bench::params(Chip::I82543gc), 64);
    for len in [60, 100, 200, 400, 900, 1514] {
        b.put_frame(&frame(1, len), 0);
    }
    let mut multicast = frame(1, 60);
    multicast[0] = 1;
    b.put_frame(&multicast, 0);
    b.put_frame(&[0xFF; 60], 0);
    b.ring_doorbell();
    b.pass(100 * US);
    assert_eq!(b.nic.tally().transmitted, 8);
    assert_eq!((b.get(stat::GPTC), b.get(stat::TPT)), (8, 8));
    let sizes: Vec<u32> = (0..6).map(|i| b.get(stat::PTC64 + 4 * i)).collect();
    assert_eq!(sizes, [3, 1, 1, 1, 1, 1]);
    assert_eq!((b.get(stat::MPTC), b.get(stat::BPTC)), (1, 1));
    assert_eq!(wide(&mut b, stat::GOTC), 3 * 60 + 100 + 200 + 400 + 900 + 1514 + 8 * 4);
}
