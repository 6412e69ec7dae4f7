//! Checksums, segmentation, VLAN tags, and the errata that split descriptors.

use crate::common::*;
use kpps_datasheet::{
    Chip, bit,
    desc::{Tx, TxData, popts, tx_cmd},
    reg,
};
use kpps_driver::{Checksums, Config, Fragment, Offload, Refusal, Segmentation, Sum, TxMeta};
use kpps_platform::{BufferSource, wrap::Counts};
use std::rc::Rc;

const IP: Sum = Sum { start: 14, field: 24, end: 33 };
const UDP: Sum = Sum { start: 34, field: 40, end: 0 };
const TCP: Sum = Sum { start: 34, field: 50, end: 0 };

fn checksums() -> TxMeta {
    TxMeta { vlan: None, offload: Offload::Checksum(Checksums { ip: Some(IP), transport: Some(UDP) }) }
}

fn segment(payload_bytes: u32, mss: u16) -> TxMeta {
    let offload = Offload::Segment(Segmentation {
        ip: IP,
        transport: TCP,
        is_ipv4: true,
        is_tcp: true,
        header_bytes: 54,
        payload_bytes,
        mss,
    });
    TxMeta { vlan: None, offload }
}

fn send(dev: &mut Dev<'_>, pool: &Pool, lengths: &[u16], meta: &TxMeta) -> Result<(), Refusal> {
    let frame: Vec<_> =
        lengths.iter().map(|&bytes| Fragment { buffer: pool.clone().take().unwrap(), bytes }).collect();
    dev.tx.enqueue(frame.into_iter(), meta).map_err(|refused| {
        refused.frame.for_each(|f| pool.clone().give(f.buffer));
        refused.reason
    })
}

/// The descriptors that the device sees: data lengths, "." at the end of a frame, "C" for a context.
fn picture(nic: &Rc<Nic>) -> String {
    nic.transmit(u32::MAX);
    let mut out = Vec::new();
    for d in nic.take_sent() {
        let (length, cmd) = match d {
            Tx::Context(_) => {
                out.push("C".into());
                continue;
            }
            Tx::Legacy(d) => (u32::from(d.length), d.cmd),
            Tx::Data(d) => (d.length, d.cmd),
        };
        out.push(format!("{length}{}", if cmd & tx_cmd::EOP != 0 { "." } else { "" }));
    }
    out.join(" ")
}

#[test]
fn a_context_is_sent_once_and_again_only_when_it_changes() {
    let (nic, counts, pool) = (Nic::new(Chip::I82543gc), Counts::new(), Pool::new(60, 4096));
    let mut dev = start(&nic, &counts, small(), &pool);
    send(&mut dev, &pool, &[100], &checksums()).unwrap();
    send(&mut dev, &pool, &[60], &TxMeta::default()).unwrap();
    send(&mut dev, &pool, &[40, 200], &checksums()).unwrap();
    let tcp = TxMeta { vlan: None, offload: Offload::Checksum(Checksums { ip: None, transport: Some(TCP) }) };
    send(&mut dev, &pool, &[100], &tcp).unwrap();
    dev.tx.flush();
    nic.transmit(99);
    let sent = nic.take_sent();
    let Tx::Context(context) = sent[0] else { panic!("{sent:?}") };
    assert_eq!((context.ipcss, context.ipcso, context.ipcse), (14, 24, 33));
    assert_eq!((context.tucss, context.tucso, context.tucse), (34, 40, 0));
    assert_eq!(context.cmd & (tx_cmd::TSE | tx_cmd::DEXT | tx_cmd::IP), tx_cmd::DEXT | tx_cmd::IP);
    let Tx::Data(data) = sent[1] else { panic!("{sent:?}") };
    assert_eq!((data.length, data.popts), (100, popts::IXSM | popts::TXSM));
    assert_eq!(data.cmd & (tx_cmd::EOP | tx_cmd::IFCS), tx_cmd::EOP | tx_cmd::IFCS);
    assert!(matches!(sent[2], Tx::Legacy(_)));
    assert!(matches!(sent[3], Tx::Data(TxData { length: 40, popts: 3, .. })), "no second context");
    assert!(matches!(sent[5], Tx::Context(tcp) if tcp.cmd & tx_cmd::IP == 0));
    assert!(matches!(sent[6], Tx::Data(TxData { popts: popts::TXSM, .. })));
    assert_eq!((sent.len(), dev.tx.counters().contexts), (7, 2));
    // Undoing a frame undoes its context.
    dev.tx.reclaim(99);
    assert_eq!(send(&mut dev, &pool, &[100, 5000], &checksums()), Err(Refusal::Invalid));
    send(&mut dev, &pool, &[100], &tcp).unwrap();
    dev.tx.flush();
    assert_eq!(picture(&nic), "100.");
    // After each look of the watchdog a context is sent again: the device may have lost it.
    dev.tx.look_after();
    send(&mut dev, &pool, &[100], &tcp).unwrap();
    send(&mut dev, &pool, &[100], &tcp).unwrap();
    dev.tx.flush();
    assert_eq!(picture(&nic), "C 100. 100.");
    // After a reset the device holds no context.
    dev.reset().unwrap();
    send(&mut dev, &pool, &[100], &tcp).unwrap();
    dev.tx.flush();
    assert_eq!(picture(&nic), "C 100.");
}

#[test]
fn unsupported_offloads_are_refused() {
    let (counts, vlan) = (Counts::new(), TxMeta { vlan: Some(5), ..TxMeta::default() });
    for (chip, config_vlan, can) in [
        (Chip::I82542, true, [false, false, false]),
        (Chip::I82543gc, true, [true, false, true]),
        (Chip::I82544, false, [true, true, false]),
        (Chip::I82540em, true, [true, true, true]),
    ] {
        let (nic, pool) = (Nic::new(chip), Pool::new(60, 4096));
        let mut dev = start(&nic, &counts, Config { vlan: config_vlan, ..small() }, &pool);
        for (meta, can) in [checksums(), segment(2946, 1000), vlan].iter().zip(can) {
            let result = send(&mut dev, &pool, &[3000], meta);
            assert_eq!(result, if can { Ok(()) } else { Err(Refusal::Unsupported) }, "{chip} {meta:?}");
        }
    }
}

#[test]
fn vlan_tags_go_with_the_last_descriptor() {
    let (nic, counts, pool) = (Nic::new(Chip::I82540em), Counts::new(), Pool::new(60, 4096));
    let mut dev = start(&nic, &counts, Config { vlan: true, ..small() }, &pool);
    assert_eq!(nic.get(reg::VET), 0x8100);
    send(&mut dev, &pool, &[60, 60], &TxMeta { vlan: Some(0x6123), ..TxMeta::default() }).unwrap();
    dev.tx.flush();
    nic.transmit(9);
    let Tx::Legacy(last) = nic.take_sent()[1] else { panic!("not legacy") };
    assert_eq!(last.special, 0x6123);
    assert_eq!(last.cmd & (tx_cmd::VLE | tx_cmd::EOP), tx_cmd::VLE | tx_cmd::EOP);
}

#[test]
fn segmentation_with_its_sentinel_and_four_segment_limit() {
    let (nic, counts, pool) = (Nic::new(Chip::I82540em), Counts::new(), Pool::new(60, 16384));
    let mut dev = start(&nic, &counts, Config { tx_ring: 64, ..small() }, &pool);
    send(&mut dev, &pool, &[54, 10000], &segment(10000, 1460)).unwrap();
    dev.tx.flush();
    nic.transmit(99);
    let sent = nic.take_sent();
    let Tx::Context(context) = sent[0] else { panic!("{sent:?}") };
    assert_eq!((context.paylen, context.mss, context.hdrlen), (10000, 1460, 54));
    assert_eq!(context.cmd, tx_cmd::DEXT | tx_cmd::TSE | tx_cmd::IP | tx_cmd::TCP);
    let lengths: Vec<_> = sent[1..]
        .iter()
        .map(|d| match d {
            Tx::Data(d) => {
                assert_ne!(d.cmd & tx_cmd::TSE, 0);
                assert_eq!(d.popts, popts::IXSM | popts::TXSM);
                (d.length, d.cmd & tx_cmd::EOP != 0)
            }
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(lengths, [(54, false), (5840, false), (4156, false), (4, true)]);
    assert_eq!(dev.tx.reclaim(99), 2, "two buffers in five descriptors");
    assert_eq!(dev.tx.pending(), 0);
    // Each frame has its own context, because that holds the payload length.
    send(&mut dev, &pool, &[1054], &segment(1000, 500)).unwrap();
    dev.tx.flush();
    assert_eq!(picture(&nic), "C 1050 4.");
    dev.tx.reclaim(99);
    // IPv6 has no header checksum.
    let Offload::Segment(ipv4) = segment(1000, 500).offload else { panic!("not segmented") };
    let offload = Offload::Segment(Segmentation { is_ipv4: false, ..ipv4 });
    send(&mut dev, &pool, &[1054], &TxMeta { vlan: None, offload }).unwrap();
    dev.tx.flush();
    nic.transmit(99);
    let sent = nic.take_sent();
    assert!(matches!(sent[0], Tx::Context(context) if context.cmd & tx_cmd::IP == 0));
    assert!(matches!(sent[1], Tx::Data(TxData { popts: popts::TXSM, .. })), "{sent:?}");
    dev.tx.reclaim(99);
    for (lengths, payload, mss) in [
        (&[54u16, 999][..], 1000, 500),
        (&[54, 1001], 1000, 500),
        (&[54], 0, 500),
        (&[54, 1000], 1000, 0),
        (&[54, 1000], 1000, 16384),
    ] {
        assert_eq!(send(&mut dev, &pool, lengths, &segment(payload, mss)), Err(Refusal::Invalid));
    }
    assert_eq!(dev.tx.pending(), 0);
}

#[test]
fn no_descriptor_crosses_64_kib_on_chips_with_that_erratum() {
    let counts = Counts::new();
    let pool = |bus| Pool::at(bus, 0x2_0000, 60, 4096);
    let run = |chip, bus, lengths: &[u16]| {
        let (nic, pool) = (Nic::new(chip), pool(bus));
        let mut dev = start(&nic, &counts, small(), &Pool::new(20, 2048));
        if let &[bytes] = lengths {
            dev.tx.send(pool.clone().take().unwrap(), bytes).unwrap();
        } else {
            send(&mut dev, &pool, lengths, &TxMeta::default()).unwrap();
        }
        dev.tx.flush();
        let picture = picture(&nic);
        // The queue's source does not know these buffers: take them out instead.
        dev.tx.reclaim_with(99, |b| pool.clone().give(b));
        assert_eq!(pool.available(), 60);
        picture
    };
    assert_eq!(run(Chip::I82546eb, 0xFFF0, &[60]), "16 44.");
    assert_eq!(run(Chip::I82540em, 0xFFF0, &[60]), "60.");
    assert_eq!(run(Chip::I82546eb, 0xFFC4, &[60]), "60.", "up to the boundary");
    assert_eq!(run(Chip::I82545em, 0xFFF0, &[1500, 1000]), "16 1484 16 984.");
}

#[test]
fn pcix_limits() {
    let counts = Counts::new();
    let run = |chip, pcix: bool, bus, lengths: &[u16]| {
        let nic = Nic::new(chip);
        let mode = if pcix { bit::status::PCIX_MODE } else { 0 };
        nic.set(reg::STATUS, nic.get(reg::STATUS) | mode);
        let pool = Pool::at(bus, 0x2_0000, 60, 4096);
        let mut dev = start(&nic, &counts, small(), &Pool::new(20, 2048));
        send(&mut dev, &pool, lengths, &TxMeta::default()).unwrap();
        dev.tx.flush();
        let picture = picture(&nic);
        dev.tx.reclaim_with(99, |b| pool.clone().give(b));
        assert_eq!(pool.available(), 60);
        picture
    };
    assert_eq!(run(Chip::I82546eb, true, 0x1_0000, &[3000, 3000]), "2015 985 3000.");
    assert_eq!(run(Chip::I82546eb, false, 0x1_0000, &[3000, 3000]), "3000 3000.");
    // 82544: only a short piece may end in an even dword.
    assert_eq!(run(Chip::I82544, true, 0x1_0000, &[68]), "64 4.");
    assert_eq!(run(Chip::I82544, true, 0x1_0000, &[64]), "64.");
    assert_eq!(run(Chip::I82544, false, 0x1_0000, &[68]), "68.");
}

/// The rest before the sentinel may not end in an even dword either.
#[test]
fn the_sentinel_on_pcix() {
    let (nic, counts, pool) = (Nic::new(Chip::I82544), Counts::new(), Pool::at(0x1_0000, 0x2_0000, 60, 4096));
    nic.set(reg::STATUS, nic.get(reg::STATUS) | bit::status::PCIX_MODE);
    let mut dev = start(&nic, &counts, small(), &Pool::new(20, 2048));
    for (bytes, expected) in [(1064, "C 1056 8."), (1068, "C 1064 4."), (1060, "C 1056 4.")] {
        send(&mut dev, &pool, &[bytes], &segment(u32::from(bytes) - 54, 500)).unwrap();
        dev.tx.flush();
        assert_eq!(picture(&nic), expected, "{bytes} bytes");
        dev.tx.reclaim_with(99, |b| pool.clone().give(b));
    }
}
