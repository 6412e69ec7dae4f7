//! Checksums, segmentation and VLAN tags.

use crate::bench::*;
use kpps_datasheet::bit::{ctrl, rctl, rxcsum};
use kpps_datasheet::desc::tx_cmd::{EOP, IC, IDE, IFCS, IP, RS, TCP, TSE, VLE};
use kpps_datasheet::desc::{TxContext, TxData, TxLegacy, popts, rx_error, rx_status};
use kpps_datasheet::{Chip, reg, stat};

/// Headers: Ethernet 14, IPv4 20, TCP 20.
const HEADER: usize = 54;

fn sum(bytes: &[u8]) -> u32 {
    let words = bytes.chunks(2).map(|c| u32::from(c[0]) << 8 | u32::from(*c.get(1).unwrap_or(&0)));
    let mut total: u32 = words.sum();
    while total > 0xFFFF {
        total = (total & 0xFFFF) + (total >> 16);
    }
    total
}

/// A TCP/IPv4 packet of `payload` bytes as a driver prepares it for segmentation: lengths 0,
/// partial pseudo-header sum without the length.
fn prototype(payload: usize) -> Vec<u8> {
    let mut p = frame(0, 12);
    p.extend([8, 0]);
    p.extend([0x45, 0, 0, 0, 0x12, 0x34, 0x40, 0, 64, 6, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
    p.extend([0, 80, 1, 0, 0xFF, 0xFF, 0xF0, 0, 0, 0, 0, 0, 0x50, 0x19, 0x20, 0, 0, 0, 0, 0]);
    let pseudo = sum(&[&p[26..34], &[0, 6]].concat()) as u16;
    p[50..52].copy_from_slice(&pseudo.to_be_bytes());
    p.extend((0..payload).map(|i| ((i * 31) >> 3) as u8));
    p
}

fn context(payload: usize, mss: u16) -> TxContext {
    TxContext {
        ipcss: 14,
        ipcso: 24,
        ipcse: 33,
        tucss: 34,
        tucso: 50,
        tucse: 0,
        paylen: payload as u32,
        cmd: TSE | IP | TCP,
        status: 0,
        hdrlen: HEADER as u8,
        mss,
    }
}

fn put_data(b: &mut Bench, bytes: &[u8], cmd: u8, special: u16) {
    let buffer = b.buffer(bytes);
    let d = TxData {
        buffer,
        length: bytes.len() as u32,
        cmd: cmd | TSE | IFCS,
        popts: popts::IXSM | popts::TXSM,
        special,
        ..TxData::default()
    };
    b.put(d.pack());
}

/// Checks the headers and checksums of one segment.
fn check_segment(f: &[u8], number: usize, mss: usize, last: bool) {
    let ip = &f[14..];
    assert_eq!(usize::from(u16::from_be_bytes([ip[2], ip[3]])), f.len() - 14);
    assert_eq!(u16::from_be_bytes([ip[4], ip[5]]), 0x1234 + number as u16);
    assert_eq!(sum(&f[14..34]), 0xFFFF, "IP checksum");
    let sequence = u32::from_be_bytes([f[38], f[39], f[40], f[41]]);
    assert_eq!(sequence, 0xFFFF_F000u32.wrapping_add((number * mss) as u32));
    assert_eq!(f[47], if last { 0x19 } else { 0x10 });
    let pseudo = sum(&[&f[26..34], &[0, 6], &((f.len() - 34) as u16).to_be_bytes()].concat());
    let mut all = pseudo + sum(&f[34..]);
    while all > 0xFFFF {
        all = (all & 0xFFFF) + (all >> 16);
    }
    assert_eq!(all, 0xFFFF, "TCP checksum");
}

#[test]
fn a_large_packet_becomes_segments() {
    for pieces in [vec![HEADER + 5000], vec![HEADER, 5000], vec![HEADER, 1, 2999, 2000]] {
        let mut b = Bench::ready(Bench::params(Chip::I82545em), 64);
        let whole = prototype(5000);
        b.put(context(5000, 1460).pack());
        let mut at = 0;
        for (i, n) in pieces.iter().enumerate() {
            let end = if i + 1 == pieces.len() { EOP | RS } else { 0 };
            put_data(&mut b, &whole[at..at + n], end, 0);
            at += n;
        }
        b.ring_doorbell();
        b.pass(200 * US);
        let frames: Vec<_> = b.m.sent.iter().map(|s| s.1.clone()).collect();
        assert_eq!(frames.iter().map(Vec::len).collect::<Vec<_>>(), [1514, 1514, 1514, 674]);
        let mut payload = vec![];
        for (i, f) in frames.iter().enumerate() {
            check_segment(f, i, 1460, i == 3);
            payload.extend_from_slice(&f[HEADER..]);
        }
        assert_eq!(payload, &whole[HEADER..]);
        assert_eq!((b.get(stat::TSCTC), b.get(stat::TSCTFC)), (1, 0));
        assert!(b.tx_done(pieces.len() as u64));
    }
}

#[test]
fn segments_are_tagged_by_the_first_descriptor() {
    let mut b = Bench::ready(Bench::params(Chip::I82545em), 64);
    b.set(reg::CTRL, ctrl::SLU | ctrl::VME);
    b.set(reg::VET, 0x8100);
    let whole = prototype(2000);
    b.put(context(2000, 1000).pack());
    put_data(&mut b, &whole[..HEADER], VLE, 0x0123);
    put_data(&mut b, &whole[HEADER..], EOP, 0);
    b.ring_doorbell();
    b.pass(100 * US);
    assert_eq!(b.m.sent.len(), 2);
    for (_, f) in &b.m.sent {
        assert_eq!(f[12..16], [0x81, 0, 1, 0x23]);
        assert_eq!(f.len(), HEADER + 1004);
    }
}

#[test]
fn checksums_without_segmentation() {
    let mut b = Bench::ready(Bench::params(Chip::I82543gc), 64);
    let mut whole = prototype(101);
    // Here software knows the length: into header and pseudo-header.
    whole[16..18].copy_from_slice(&141u16.to_be_bytes());
    let pseudo = sum(&[&whole[26..34], &[0, 6], &121u16.to_be_bytes()].concat()) as u16;
    whole[50..52].copy_from_slice(&pseudo.to_be_bytes());
    b.put(TxContext { cmd: 0, ..context(0, 0) }.pack());
    let buffer = b.buffer(&whole);
    let d = TxData {
        buffer,
        length: whole.len() as u32,
        cmd: EOP | IFCS | RS | IDE,
        popts: popts::IXSM | popts::TXSM,
        ..TxData::default()
    };
    b.put(d.pack());
    // Legacy: only the TCP checksum.
    let buffer = b.buffer(&whole);
    let d = TxLegacy {
        buffer,
        length: whole.len() as u16,
        cmd: EOP | IFCS | IC,
        css: 34,
        cso: 50,
        ..TxLegacy::default()
    };
    b.put(d.pack());
    b.ring_doorbell();
    b.pass(100 * US);
    assert_eq!(b.m.sent.len(), 2);
    for (i, (_, f)) in b.m.sent.iter().enumerate() {
        assert_eq!(sum(&f[14..34]) == 0xFFFF, i == 0);
        let all = sum(&[&f[26..34], &[0, 6], &121u16.to_be_bytes(), &f[34..], &[0]].concat());
        assert_eq!(all, 0xFFFF);
        assert_eq!(&f[HEADER..], &whole[HEADER..]);
    }
}

#[test]
fn tags_come_and_go() {
    let mut b = Bench::ready(Bench::params(Chip::I82540em), 64);
    b.set(reg::CTRL, ctrl::SLU | ctrl::VME);
    b.set(reg::VET, 0x8100);
    b.set(reg::RCTL, rctl::EN | rctl::SECRC | rctl::LBM_TRANSCEIVER);
    let f = frame(3, 60);
    let buffer = b.buffer(&f);
    let d = TxLegacy { buffer, length: 60, cmd: EOP | IFCS | VLE, special: 0xA005, ..TxLegacy::default() };
    b.put(d.pack());
    b.ring_doorbell();
    b.pass(50 * US);
    let d = b.rx(0);
    assert_eq!((d.length, d.special), (60, 0xA005));
    assert_eq!(d.status & rx_status::VP, rx_status::VP);
    assert_eq!(b.rx_bytes(0, 60), &f[..]);
    // Without VME the tag stays.
    b.set(reg::CTRL, ctrl::SLU);
    b.set(reg::RCTL, rctl::EN | rctl::SECRC);
    let tagged = [&f[..12], &[0x81, 0, 0xA0, 5], &f[12..]].concat();
    b.arrive(&tagged);
    b.pass(50 * US);
    assert_eq!((b.rx(1).length, b.rx(1).special, b.rx(1).status & rx_status::VP), (64, 0, 0));
    assert_eq!(b.rx_bytes(1, 64), &tagged[..]);
    // The filter.
    b.set(reg::RCTL, rctl::EN | rctl::SECRC | rctl::VFE);
    b.arrive(&tagged);
    assert_eq!(b.nic.tally().dropped.filtered, 1);
    b.set(reg::vfta(0), 1 << 5);
    b.arrive(&tagged);
    assert_eq!(b.nic.tally().dropped.filtered, 1);
}

#[test]
fn the_fcs_survives_stripping_a_tag() {
    // The FCS in memory is the one from the wire, over the tag that is gone.
    let mut b = Bench::ready(Bench::params(Chip::I82540em), 64);
    b.set(reg::CTRL, ctrl::SLU | ctrl::VME);
    b.set(reg::VET, 0x8100);
    b.set(reg::RCTL, rctl::EN);
    let f = frame(3, 60);
    let tagged = [&f[..12], &[0x81, 0, 0, 5], &f[12..]].concat();
    b.arrive(&tagged);
    b.pass(50 * US);
    assert_eq!(b.rx(0).length, 64);
    let want = [&f[..], &crc32fast::hash(&tagged).to_le_bytes()].concat();
    assert_eq!(b.rx_bytes(0, 64), &want[..]);
}

#[test]
fn receive_checksums_are_reported() {
    let mut b = Bench::ready(Bench::params(Chip::I82546eb), 64);
    b.set(reg::RXCSUM, rxcsum::IPOFLD | rxcsum::TUOFLD | 14);
    let mut f = prototype(6);
    f[16..18].copy_from_slice(&46u16.to_be_bytes());
    let ip = !(sum(&f[14..34]) as u16);
    f[24..26].copy_from_slice(&ip.to_be_bytes());
    f[50..52].copy_from_slice(&[0, 0]);
    let tcp = !(sum(&[&f[26..34], &[0, 6, 0, 26], &f[34..60]].concat()) as u16);
    f[50..52].copy_from_slice(&tcp.to_be_bytes());
    b.arrive(&f);
    f[59] ^= 1;
    b.arrive(&f);
    b.pass(50 * US);
    let good = b.rx(0);
    assert_eq!(good.status, rx_status::DD | rx_status::EOP | rx_status::IPCS | rx_status::TCPCS);
    assert_eq!(good.errors, 0);
    assert_eq!(b.rx(1).errors, rx_error::TCPE);
    f[59] ^= 1;
    // The complement of the sum from byte 14 on.
    assert_eq!(u32::from(!good.checksum), sum(&f[14..]));
}
