//! Published defects of e1000 emulations: each must have no effect here, on any chip that is modelled and has
//! what the defect is in. The guide has the table: `docs/src/hostile.md`.
//!
//! A host panics on no access, so what must not happen is checked in four ways: events come to an end, the
//! account closes, stores lie in rings and buffers, and the card still works.

use crate::bench::*;
use kpps_card::{BurstKind, Host, Purpose};
use kpps_datasheet::bit::{rctl, tctl};
use kpps_datasheet::desc::tx_cmd::{EOP, IC, IFCS, IP, RS, TCP, TSE};
use kpps_datasheet::desc::{TxContext, TxData, TxLegacy, popts};
use kpps_datasheet::{Chip, reg, stat};
use std::collections::BTreeSet;

/// Cards of every chip that is modelled, with rings of 64 descriptors. A chip that gets a model joins them.
fn every() -> impl Iterator<Item = Bench> {
    Chip::E1000.into_iter().map(|chip| Bench::ready(Bench::params(chip), 64))
}

/// The chips that insert checksums.
fn summing() -> impl Iterator<Item = Bench> {
    every().filter(|b| b.nic.params().chip.has_checksum_offload())
}

/// The chips that segment.
fn segmenting() -> impl Iterator<Item = Bench> {
    every().filter(|b| b.nic.params().chip.has_tso())
}

/// Runs all events: they come to an end, every frame is accounted for, and nothing was written but rings and
/// receive buffers.
fn run_to_end(b: &mut Bench) {
    let before = b.m.log.len();
    b.pass(100_000 * US);
    assert!(b.m.log.len() - before < 100_000);
    assert!(b.nic.tally().closes());
    let within = |at: u64, start: u64, end: u64| (start..end).contains(&at);
    for &(at, bytes) in &b.m.stores {
        let last = at + bytes.max(1) as u64 - 1;
        let ring = |ring: u64| within(at, ring, ring + 1024) && within(last, ring, ring + 1024);
        let buffers = RX_BUFFERS + 64 * BUFFER;
        let buffer = within(at, RX_BUFFERS, buffers) && within(last, RX_BUFFERS, buffers);
        assert!(ring(RX_RING) || ring(TX_RING) || buffer, "{bytes} bytes at {at:#x}");
    }
}

fn context(hdrlen: u8, mss: u16, paylen: u32) -> [u64; 2] {
    TxContext {
        hdrlen,
        mss,
        paylen,
        cmd: TSE | IP | TCP,
        ipcss: 14,
        tucss: 34,
        tucso: 50,
        ..TxContext::default()
    }
    .pack()
}

fn data(b: &mut Bench, len: u32, cmd: u8) {
    let buffer = TX_BUFFERS;
    let d = TxData { buffer, length: len, cmd: cmd | TSE | IFCS, popts: popts::TXSM, ..TxData::default() };
    b.put(d.pack());
}

/// The card still works afterwards.
fn still_sends(b: &mut Bench) {
    let before = b.nic.tally().transmitted;
    b.set(reg::TCTL, 0);
    b.set(reg::TDBAL, TX_RING as u32);
    b.set(reg::TDBAH, 0);
    b.set(reg::TDLEN, 1024);
    b.set(reg::TDH, 0);
    b.set(reg::TDT, 0);
    b.tx = 0;
    b.set(reg::TCTL, tctl::EN | tctl::PSP);
    b.put_frame(&frame(1, 60), RS);
    b.ring_doorbell();
    b.pass(1_000 * US);
    assert_eq!(b.nic.tally().transmitted, before + 1);
    assert!(b.tx_done(0));
}

/// A frame too long without LPE and SBP overran the receive buffer.
#[test]
fn cve_2012_6075_a_long_frame_without_lpe() {
    for mut b in every() {
        for len in [1519, 2048, 9000, 16_380, 16_381, 70_000] {
            b.arrive(&frame(1, len));
        }
        b.set(reg::RCTL, rctl::EN | rctl::SBP);
        b.arrive(&frame(1, 16_381));
        run_to_end(&mut b);
        assert_eq!((b.nic.tally().to_host, b.nic.tally().dropped.too_long), (0, 7));
        assert!(b.m.stores.iter().all(|s| s.1 <= 2048));
    }
}

/// A segmentation that makes no progress looped for ever.
#[test]
fn cve_2015_6815_segmentation_without_progress() {
    let sizes = [(54, 0, 1000), (255, 0, 0xF_FFFF), (0, 0, 1), (0, 1, 0), (54, 1460, 0)];
    for (mut b, (hdrlen, mss, paylen)) in sizes.into_iter().flat_map(|s| segmenting().map(move |b| (b, s))) {
        b.put(context(hdrlen, mss, paylen));
        data(&mut b, 2000, 0);
        data(&mut b, 2000, EOP | RS);
        b.ring_doorbell();
        run_to_end(&mut b);
        assert_eq!(b.m.sent.len(), 0);
        assert_eq!(b.get(stat::TSCTC), 0);
        assert!(b.tx_done(2));
        still_sends(&mut b);
    }
}

fn head_outside_of_the_ring(set: impl Fn(&mut Bench, u32, u32)) {
    for (head, tail) in [(64, 5), (0xFFFF, 5), (5, 64), (5, 0xFFFF), (1000, 1000)] {
        for mut b in every() {
            set(&mut b, head, tail);
            b.arrive(&frame(1, 60));
            run_to_end(&mut b);
            assert!(b.m.log.is_empty(), "nothing is fetched");
            still_sends(&mut b);
        }
    }
}

/// A head outside the ring was processed for ever (e1000).
#[test]
fn cve_2016_1981_a_head_outside_of_the_ring() {
    head_outside_of_the_ring(|b, head, tail| {
        b.set(reg::TDH, head);
        b.set(reg::RDH, head);
        b.set(reg::TDT, tail);
        b.set(reg::RDT, tail);
    });
}

/// The same in the e1000e, whose rings were set up with the heads outside.
#[test]
fn cve_2017_9310_an_initial_head_outside_of_the_ring() {
    head_outside_of_the_ring(|b, head, tail| {
        let at = b.nic.params().clone();
        *b = Bench::new(at);
        b.ring = 64;
        let heads = [(reg::RDH, head), (reg::RDT, tail), (reg::TDH, head), (reg::TDT, tail)];
        let rings = [
            (reg::RDBAL, RX_RING as u32),
            (reg::RDLEN, 1024),
            (reg::TDBAL, TX_RING as u32),
            (reg::TDLEN, 1024),
        ];
        let on = [(reg::RCTL, rctl::EN | rctl::BAM), (reg::TCTL, tctl::EN)];
        for (register, value) in rings.into_iter().chain(heads).chain(on) {
            b.set(register, value);
        }
    });
}

/// A ring of length 0, or a ring that is moved while frames arrive, hit an assertion.
#[test]
fn asserts_on_ring_length_0_and_base_moved() {
    every().for_each(ring_length_0_and_base_moved);
}

fn ring_length_0_and_base_moved(mut b: Bench) {
    b.set(reg::RDLEN, 0);
    b.set(reg::TDLEN, 0);
    b.set(reg::TDT, 3);
    b.arrive(&frame(1, 60));
    run_to_end(&mut b);
    assert_eq!(b.nic.tally().in_fifo, 1);
    b.set(reg::RDLEN, 1024);
    b.set(reg::RDT, 63);
    for i in 0..200 {
        b.arrive(&frame(i, 1500));
        b.pass(US / 4);
        match i % 5 {
            0 => b.set(reg::RDBAL, RX_RING as u32 + 16 * u32::from(i)),
            1 => b.set(reg::RDBAH, u32::from(i) & 1),
            2 => b.set(reg::RDH, u32::from(i) % 70),
            3 => b.set(reg::RDLEN, u32::from(i) * 16),
            _ => b.set(reg::RDT, u32::from(i) % 70),
        }
        assert!(b.nic.tally().closes(), "{i}");
    }
    // Descriptors are anywhere, and so are the stores.
    b.pass(100_000 * US);
    assert!(b.nic.tally().closes());
}

/// Descriptors of mixed kinds in one packet hit an assertion.
#[test]
fn assert_on_mixed_descriptor_kinds() {
    segmenting().for_each(mixed_descriptor_kinds);
}

fn mixed_descriptor_kinds(mut b: Bench) {
    b.put(context(54, 100, 500));
    data(&mut b, 80, 0);
    b.put(TxLegacy { buffer: TX_BUFFERS, length: 100, cmd: 0, ..TxLegacy::default() }.pack());
    b.put(context(10, 1, 1));
    b.put([TX_BUFFERS, 7 << 20 | 1 << 29 | 50]);
    b.put(TxData { buffer: TX_BUFFERS, length: 100, cmd: EOP | RS, ..TxData::default() }.pack());
    b.put(TxLegacy { buffer: TX_BUFFERS, length: 60, cmd: IFCS, ..TxLegacy::default() }.pack());
    data(&mut b, 60, EOP | RS);
    b.ring_doorbell();
    run_to_end(&mut b);
    assert_eq!(b.get(reg::TDH), 7 + 1);
    still_sends(&mut b);
}

/// A number became negative before data was written. Nothing more was published, so every size of header
/// and segment is tried against every length of data.
#[test]
fn cve_2020_14699_sizes_below_zero() {
    for hdrlen in [0, 1, 13, 14, 54, 60, 255] {
        for mss in [1, 40, 1460, 16_000, 0xFFFF] {
            for (mut b, len) in
                [1, 53, 54, 55, 300].into_iter().flat_map(|l| segmenting().map(move |b| (b, l)))
            {
                b.put(context(hdrlen, mss, 5000));
                data(&mut b, len, 0);
                data(&mut b, len, EOP | RS);
                b.ring_doorbell();
                run_to_end(&mut b);
                assert!(b.tx_done(2));
                assert!(b.m.sent.iter().all(|s| s.1.len() <= 16_288));
            }
        }
    }
}

/// A packet lay in the card's own registers, and was freed while it was read. A reset in the middle of a
/// packet is part of it.
#[test]
fn cve_2020_15859_a_packet_in_own_registers() {
    for mut b in segmenting() {
        for kind in 0..3 {
            let buffer = OWN_REGISTERS + u64::from(reg::TDT);
            let (length, cmd) = (64, if kind == 2 { EOP | RS } else { 0 });
            b.put(TxData { buffer, length, cmd: cmd | IFCS, ..TxData::default() }.pack());
        }
        let mut host = OwnRegisters { machine: b.m, hits: 0 };
        let tail = b.nic.params().chip.offset(reg::TDT);
        b.nic.write(b.now, tail, 3, &mut host);
        b.nic.run(b.now + 1_000 * US, &mut host);
        assert!(host.hits > 0 && b.nic.tally().master_aborts > 0 && host.machine.sent.is_empty());
    }
    for mut b in segmenting() {
        data(&mut b, 3000, 0);
        b.ring_doorbell();
        b.pass(1_500 * NS);
        b.set(reg::CTRL, 1 << 26);
        run_to_end(&mut b);
        assert_eq!(b.nic.tally().tx_in_flight, 0);
    }
    for mut b in every() {
        b.put_frame(&frame(1, 1500), 0);
        data(&mut b, 3000, 0);
        b.ring_doorbell();
        for _ in 0..20 {
            b.pass(300 * NS);
            b.set(reg::TDH, 0);
        }
        run_to_end(&mut b);
    }
}

/// A packet of more fragments than there was room for hit an assertion. So might one of none.
#[test]
fn cve_2020_16092_too_many_fragments() {
    for mut b in summing() {
        // Six laps of one byte each, then the end.
        for lap in 0..6 {
            for _ in 0..63 {
                b.put(TxData { buffer: TX_BUFFERS, length: 1, cmd: IFCS, ..TxData::default() }.pack());
            }
            b.ring_doorbell();
            b.pass(100 * US);
            assert_eq!(b.get(reg::TDH), (lap + 1) * 63 % 64);
        }
        b.put(TxData { buffer: TX_BUFFERS, length: 1, cmd: IFCS | EOP | RS, ..TxData::default() }.pack());
        b.ring_doorbell();
        run_to_end(&mut b);
        let lens: Vec<usize> = b.m.sent.iter().map(|s| s.1.len()).collect();
        assert_eq!(lens, [6 * 63 + 1]);
        still_sends(&mut b);
    }
    for mut b in summing() {
        b.put([0, 100 | u64::from(EOP | IFCS | RS) << 24]);
        b.put([TX_BUFFERS, u64::from(EOP | IFCS | RS | IC) << 24]);
        b.put(TxData { buffer: 0, length: 9, cmd: EOP | RS, popts: 3, ..TxData::default() }.pack());
        b.ring_doorbell();
        run_to_end(&mut b);
        assert_eq!((b.m.sent.len(), b.get(reg::TDH)), (0, 3));
        assert!((0..3).all(|i| b.tx_done(i)));
        still_sends(&mut b);
    }
}

/// Receive descriptors without buffers were walked for ever.
#[test]
fn cve_2020_28916_null_receive_buffers() {
    for ready in every() {
        let mut b = Bench::new(ready.nic.params().clone());
        b.ring = 64;
        b.set(reg::RDBAL, RX_RING as u32);
        b.set(reg::RDLEN, 1024);
        b.set(reg::RDT, 63);
        b.set(reg::RCTL, rctl::EN | rctl::LPE);
        b.arrive(&frame(1, 9000));
        run_to_end(&mut b);
        let t = b.nic.tally();
        assert_eq!((t.in_fifo, t.to_host), (1, 0));
        assert_eq!(b.visible(), 63, "consumed without data");
    }
}

/// Transmit descriptors that never end a packet were walked for ever.
#[test]
fn cve_2021_20257_endless_transmit() {
    every().for_each(endless_transmit);
}

fn endless_transmit(mut b: Bench) {
    // The ring itself as data, without end of packet, tail just behind head.
    for i in 0..64 {
        b.m.set_words(TX_RING + 16 * i, [TX_RING, 1024]);
    }
    for tail in [63, 62, 61, 60] {
        b.set(reg::TDT, tail);
        run_to_end(&mut b);
    }
    assert!(b.m.sent.is_empty());
    assert!(b.nic.tally().tx_discarded > 0, "a packet of excessive length is discarded");
    still_sends(&mut b);
}

/// A looped frame whose reception started the transmitter again recursed.
#[test]
fn cve_2021_3416_loopback_reentry() {
    every().for_each(loopback_reentry);
}

fn loopback_reentry(mut b: Bench) {
    b.set(reg::RCTL, rctl::EN | rctl::UPE | rctl::MPE | rctl::BAM | rctl::LBM_TRANSCEIVER);
    // Received frames overwrite the transmit ring, with anything in them.
    for i in 0..64 {
        b.m.set_words(RX_RING + 16 * i, [TX_RING, 0]);
    }
    for i in 0..60 {
        b.put_frame(&frame(i, 1000), RS);
    }
    b.ring_doorbell();
    run_to_end(&mut b);
    assert!(b.nic.tally().looped > 0);
}

/// Where the card's own registers are in its host.
const OWN_REGISTERS: u64 = 0xFEB0_0000;

/// Memory that is the card's own registers: accesses there must not re-enter the card.
struct OwnRegisters {
    machine: Machine,
    hits: usize,
}

impl Host for OwnRegisters {
    fn burst(&mut self, now: u64, kind: BurstKind, purpose: Purpose, addr: u64, bytes: u32) -> u64 {
        self.machine.burst(now, kind, purpose, addr, bytes)
    }
    fn load(&mut self, addr: u64, into: &mut [u8]) -> bool {
        self.hits += usize::from(addr >= OWN_REGISTERS);
        addr < OWN_REGISTERS && self.machine.load(addr, into)
    }
    fn store(&mut self, addr: u64, from: &[u8]) -> bool {
        // The bridge does not send it back to where it came from.
        self.hits += usize::from(addr >= OWN_REGISTERS);
        addr < OWN_REGISTERS && self.machine.store(addr, from)
    }
    fn transmitted(&mut self, now: u64, frame: &[u8]) {
        self.machine.transmitted(now, frame);
    }
}

/// The driver points the card's writes at the card's own registers. Here a host cannot even express a
/// re-entry: it is borrowed while the card works.
#[test]
fn cve_2023_3019_dma_into_own_registers() {
    every().for_each(dma_into_own_registers);
}

fn dma_into_own_registers(mut b: Bench) {
    for i in 0..64 {
        b.m.set_words(RX_RING + 16 * i, [OWN_REGISTERS + u64::from(reg::TDT), 0]);
    }
    b.set(reg::RDBAL, RX_RING as u32);
    b.set(reg::RDT, 63);
    let mut host = OwnRegisters { machine: b.m, hits: 0 };
    for i in 0..5 {
        b.nic.frame_arrives(b.now + i * 10 * US, &frame(1, 60), &mut host);
    }
    b.nic.run(b.now + 1_000 * US, &mut host);
    let t = b.nic.tally();
    assert_eq!((host.hits, t.dropped.no_memory, t.master_aborts), (5, 5, 5));
    assert!(t.closes());
}

/// Checksum of a fragment shorter than the headers it claims: of frames to send, and of received ones.
#[test]
fn cve_2024_3567_checksum_on_a_short_fragment() {
    for mut b in summing() {
        for first in [1, 13, 20, 33] {
            let sums =
                TxContext { ipcss: 14, ipcso: 24, ipcse: 33, tucss: 34, tucso: 42, ..Default::default() };
            b.put(sums.pack());
            for (length, cmd) in [(first, 0), (2, EOP)] {
                let cmd = cmd | IFCS;
                b.put(TxData { buffer: TX_BUFFERS, length, cmd, popts: 3, ..TxData::default() }.pack());
            }
        }
        b.ring_doorbell();
        run_to_end(&mut b);
        assert!(b.m.sent.iter().all(|s| s.1.len() == 60), "padded");
        assert_eq!(b.m.sent.len(), 4);
        still_sends(&mut b);
    }
    summing().for_each(received_short_fragments);
}

fn received_short_fragments(mut b: Bench) {
    b.set(reg::RXCSUM, 0x700);
    for len in 60..100 {
        let mut f = frame(1, len);
        f[12..15].copy_from_slice(&[8, 0, 0x4F]);
        f[16..18].copy_from_slice(&0xFFFFu16.to_be_bytes());
        f[20] = 0x20;
        f[23] = 17;
        b.arrive(&f);
        f[12..15].copy_from_slice(&[0x86, 0xDD, 0x60]);
        f[18..20].copy_from_slice(&[0xFF, 0xFF]);
        f[20] = 60;
        b.arrive(&f);
        b.pass(20 * US);
        let head = b.get(reg::RDH);
        b.set(reg::RDT, (head + 63) % 64);
    }
    run_to_end(&mut b);
    assert_eq!(b.nic.tally().to_host, 80);
}

/// Frames shorter than a header, looped.
#[test]
fn cve_2025_12464_a_short_frame_in_loopback() {
    for mut b in every() {
        b.set(reg::TCTL, tctl::EN);
        let all = rctl::EN | rctl::SBP | rctl::UPE | rctl::MPE | rctl::BAM | rctl::LBM_TRANSCEIVER;
        b.set(reg::RCTL, all);
        for len in 1..30 {
            b.put_frame(&frame(1, len), RS);
        }
        b.ring_doorbell();
        run_to_end(&mut b);
        assert_eq!(b.nic.tally().looped, 29);
    }
}

/// The segment size shrinks between two contexts while a packet is in work, and the rest of the segment
/// becomes a huge number (ZDI-19-425). The escape of November 2018 did it with an empty last descriptor.
#[test]
fn cve_2019_2722_the_segment_size_shrinks() {
    segmenting().for_each(segment_size_shrinks);
    for mut b in segmenting() {
        b.put(context(54, 8000, 0xF_FFFF));
        data(&mut b, 6000, 0);
        data(&mut b, 0, EOP | RS);
        b.put(context(0, 15, 0x4188));
        data(&mut b, 0x4188, EOP | RS);
        b.ring_doorbell();
        run_to_end(&mut b);
        assert!(b.m.sent.iter().all(|s| s.1.len() <= 16_288));
        assert!(b.tx_done(2) && b.tx_done(4));
        still_sends(&mut b);
    }
}

fn segment_size_shrinks(mut b: Bench) {
    b.put(context(54, 8000, 0xF_FFFF));
    data(&mut b, 6000, 0);
    b.put(context(54, 1, 10));
    data(&mut b, 6000, 0);
    b.put(context(255, 0, 0));
    data(&mut b, 6000, EOP | RS);
    b.ring_doorbell();
    run_to_end(&mut b);
    // The context of the beginning holds to the end.
    let lens: Vec<usize> = b.m.sent.iter().map(|s| s.1.len()).collect();
    assert_eq!(lens, [8054, 8054, 18_000 - 54 - 16_000 + 54]);
    still_sends(&mut b);
}

/// Header length beyond the data, or beyond the buffer for it.
#[test]
fn cve_2019_5609_header_length() {
    for (mut b, hdrlen) in [0, 239, 240, 255].into_iter().flat_map(|h| segmenting().map(move |b| (b, h))) {
        b.put(context(hdrlen, 1460, 3000));
        data(&mut b, 100, EOP | RS);
        b.ring_doorbell();
        run_to_end(&mut b);
        assert!(b.tx_done(1));
        still_sends(&mut b);
    }
}

/// Checksum offset beyond the frame.
#[test]
fn cve_2022_23087_checksum_offset() {
    summing().for_each(checksum_offset);
}

fn checksum_offset(mut b: Bench) {
    for (css, cso) in [(0, 255), (255, 0), (59, 59), (60, 58), (0, 58), (254, 254)] {
        let d = TxLegacy {
            buffer: TX_BUFFERS,
            length: 60,
            cmd: EOP | IFCS | IC,
            css,
            cso,
            ..TxLegacy::default()
        };
        b.put(d.pack());
        let c = TxContext {
            tucss: css,
            tucso: cso,
            ipcss: cso,
            ipcso: css,
            tucse: 3,
            ipcse: 0xFFFF,
            ..TxContext::default()
        };
        b.put(c.pack());
        b.put(
            TxData { buffer: TX_BUFFERS, length: 60, cmd: EOP | IFCS, popts: 3, ..TxData::default() }.pack(),
        );
    }
    b.ring_doorbell();
    run_to_end(&mut b);
    assert_eq!(b.m.sent.len(), 12);
    assert!(b.m.sent.iter().all(|s| s.1.len() == 60));
}

/// A data descriptor of a megabyte, a ring full of them, and segments of one byte.
#[test]
fn a_megabyte_in_one_byte_segments_takes_its_time() {
    segmenting().for_each(megabyte_in_one_byte_segments);
}

fn megabyte_in_one_byte_segments(mut b: Bench) {
    b.put(context(54, 1, 0xF_FFFF));
    for _ in 0..4 {
        data(&mut b, 0x8_0000, 0);
    }
    b.ring_doorbell();
    b.pass(1_000 * US);
    // 672 ns a frame on the wire, no more in a millisecond than fit.
    assert!((1_000..1_600).contains(&b.m.sent.len()), "{}", b.m.sent.len());
}

/// A header and a segment of together more than the card's buffer for a packet, in loopback.
#[test]
fn cve_2017_10235_a_segment_beyond_the_packet_buffer() {
    for mss in [16_233, 16_234, 16_235, 0x7FFF, 0xFFFF] {
        for mut b in segmenting() {
            let all = rctl::EN | rctl::LPE | rctl::UPE | rctl::MPE | rctl::BAM | rctl::LBM_TRANSCEIVER;
            b.set(reg::RCTL, all);
            b.put(context(54, mss, 0xF_FFFF));
            // Sixteen bytes more than the longest packet, then some more.
            for len in [16_304, 2, 0xFFFF] {
                data(&mut b, len, 0);
            }
            data(&mut b, 100, EOP | RS);
            b.ring_doorbell();
            run_to_end(&mut b);
            assert!(b.m.sent.iter().all(|s| s.1.len() <= 16_288), "{mss}");
            assert!(b.tx_done(4));
        }
    }
}

/// Memory that guests see and that is not theirs: what other frames left in the card, and what lies around
/// the buffers of this one. Nothing more was published of these: the first read behind the end of a buffer,
/// the second showed memory that was never written.
#[test]
fn cve_2020_2693_2020_14700_2021_2321_reads_beyond_a_buffer() {
    let mut sent = BTreeSet::new();
    for mut b in every() {
        b.m.memory[TX_BUFFERS as usize..].fill(OUTSIDE);
        strange_packets(&mut b);
        assert!(b.m.sent.len() >= 16, "{}", b.m.sent.len());
        sent.extend(b.m.sent.iter().flat_map(|s| s.1.clone()));
    }
    assert!(!sent.contains(&OUTSIDE), "what is around the buffers left the card");
}

/// See above.
#[test]
fn cve_2020_14703_2024_21113_memory_that_was_not_written() {
    for mut b in every() {
        for _ in 0..8 {
            b.put_frame(&[OUTSIDE; 1514], RS);
        }
        b.ring_doorbell();
        run_to_end(&mut b);
        b.m.sent.clear();
        strange_packets(&mut b);
        assert!(b.m.sent.len() >= 16, "{}", b.m.sent.len());
        let leaked = b.m.sent.iter().any(|s| s.1.contains(&OUTSIDE));
        assert!(!leaked, "bytes of earlier frames left the card");
    }
}

/// A byte that is in no buffer of [`strange_packets`].
const OUTSIDE: u8 = 0x5A;

/// Short buffers with contexts that claim more than there is: checksums are only asked for where their result
/// lies behind the packet, so that no sum makes the byte that must not be seen.
fn strange_packets(b: &mut Bench) {
    for (hdrlen, mss, paylen) in [(54, 100, 5000), (255, 1, 10), (0, 1460, 0xF_FFFF), (60, 0xFFFF, 1)] {
        for length in [1, 40, 61, 200] {
            let at = TX_BUFFERS + 0x1_0000 + 0x1000 * b.tx;
            b.m.memory[at as usize..][..length as usize].fill(0);
            let far = TxContext {
                ipcss: 200,
                ipcso: 250,
                tucss: 220,
                tucso: 254,
                tucse: 0xFFFF,
                ..Default::default()
            };
            b.put(TxContext { hdrlen, mss, paylen, cmd: TSE, ..far }.pack());
            let cmd = EOP | IFCS | RS;
            b.put(TxData { buffer: at, length, cmd: cmd | TSE, popts: 0, ..TxData::default() }.pack());
            b.put(far.pack());
            b.put(TxData { buffer: at, length, cmd, popts: 3, ..TxData::default() }.pack());
            let (css, cso) = (220, 254);
            let length = length as u16;
            b.put(TxLegacy { buffer: at, length, cmd: cmd | IC, css, cso, ..TxLegacy::default() }.pack());
            b.ring_doorbell();
            run_to_end(b);
        }
    }
}

/// The IP checksum was computed over bytes behind the frame.
#[test]
fn cve_2020_2894_an_ip_checksum_beyond_the_frame() {
    for mut b in summing() {
        for (ipcss, ipcso, ipcse) in
            [(14, 24, 0xFFFF), (14, 24, 60), (59, 24, 61), (255, 24, 0), (33, 59, 20)]
        {
            b.put(TxContext { ipcss, ipcso, ipcse, cmd: IP, ..TxContext::default() }.pack());
            let cmd = EOP | IFCS | RS;
            b.put(
                TxData { buffer: TX_BUFFERS, length: 60, cmd, popts: popts::IXSM, ..TxData::default() }
                    .pack(),
            );
        }
        // Behind the frame is what must not be in the sum.
        b.m.memory[TX_BUFFERS as usize + 60..][..4096].fill(0xFF);
        b.ring_doorbell();
        run_to_end(&mut b);
        assert_eq!(b.m.sent.len(), 5);
        let before: Vec<_> = b.m.sent.drain(..).map(|s| s.1).collect();
        b.m.memory[TX_BUFFERS as usize + 60..][..4096].fill(0x33);
        b.tx = 0;
        b.set(reg::TDH, 0);
        b.set(reg::TDT, 10);
        run_to_end(&mut b);
        let after: Vec<_> = b.m.sent.drain(..).map(|s| s.1).collect();
        assert_eq!(before, after, "the sum depends on what is behind the frame");
    }
}

/// Somebody else changes descriptors and data while the card works on them.
struct Changing {
    machine: Machine,
    seed: u64,
}

impl Changing {
    /// Overwrites a descriptor of either ring.
    fn change(&mut self) {
        self.seed = self.seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let ring = if self.seed >> 63 == 0 { RX_RING } else { TX_RING };
        let (slot, word) = (self.seed >> 57 & 63, self.seed >> 56 & 1);
        let at = (ring + 16 * slot + 8 * word) as usize;
        // A small address, or any length, command and kind.
        let value = if word == 0 { self.seed & 0x7F_FFFF } else { self.seed.rotate_left(17) };
        self.machine.memory[at..at + 8].copy_from_slice(&value.to_le_bytes());
    }
}

impl Host for Changing {
    fn burst(&mut self, now: u64, kind: BurstKind, purpose: Purpose, addr: u64, bytes: u32) -> u64 {
        self.change();
        self.machine.burst(now, kind, purpose, addr, bytes)
    }
    fn load(&mut self, addr: u64, into: &mut [u8]) -> bool {
        self.change();
        let there = self.machine.load(addr, into);
        self.change();
        there
    }
    fn store(&mut self, addr: u64, from: &[u8]) -> bool {
        self.change();
        self.machine.store(addr, from)
    }
    fn transmitted(&mut self, now: u64, frame: &[u8]) {
        assert!(frame.len() <= 16_288);
        self.machine.transmitted(now, frame);
    }
}

/// Two accesses to one object, or a check and a use, with a change between: VirtualBox lacked a lock, and so
/// did Parallels. Here each descriptor is read once.
#[test]
fn cve_2019_2723_2021_31422_changes_between_check_and_use() {
    for mut b in every() {
        let chip = b.nic.params().chip;
        let mut host = Changing { machine: b.m, seed: 1 };
        for turn in 0..400u32 {
            let now = b.now + u64::from(turn) * 20 * US;
            b.nic.frame_arrives(now, &frame(turn as u8, 60 + 7 * turn as usize % 1400), &mut host);
            for tail in [reg::RDT, reg::TDT] {
                b.nic.write(now, chip.offset(tail), (turn * 5) % 64, &mut host);
            }
            b.nic.run(now + 10 * US, &mut host);
            assert!(b.nic.tally().closes());
        }
        assert!(host.machine.log.len() > 400);
    }
}

/// Writes behind the end of a buffer: VMware published no more than that of four defects of its e1000 and
/// e1000e, and xhyve's copied data of the guest's length to the stack. Descriptors of every length and kind
/// are sent and looped back, and [`run_to_end`] looks at each store.
#[test]
fn cve_2018_6973_2019_5515_2019_5524_2019_5541_2022_35867_writes_beyond_a_buffer() {
    for mut b in every() {
        let all =
            rctl::EN | rctl::LPE | rctl::SBP | rctl::UPE | rctl::MPE | rctl::BAM | rctl::LBM_TRANSCEIVER;
        b.set(reg::RCTL, all);
        let mut number = 1u64;
        for turn in 0..300 {
            number = number.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            // Any length, command, kind and options; the data is anywhere in memory.
            let word = number >> 20 & !(0xE << 20);
            // Every other one is a frame that may come back.
            let word = if turn % 2 == 0 { word } else { word & !0xF800 | u64::from(EOP | IFCS) << 24 };
            b.put([TX_BUFFERS + (number & 0xFFFF), word]);
            b.ring_doorbell();
            b.pass(20 * US);
            let head = b.get(reg::RDH);
            b.set(reg::RDT, (head + 63) % 64);
            for i in 0..64 {
                b.m.set_words(RX_RING + 16 * i, [RX_BUFFERS + BUFFER * i, 0]);
            }
        }
        run_to_end(&mut b);
        assert!(b.nic.tally().looped > 20, "{}", b.nic.tally().looped);
    }
}

/// The guide's table and the tests of this file name each other.
#[test]
fn the_guide_has_every_test() {
    let names = |text: &str, before: &str| -> BTreeSet<String> {
        let found = text.split(before).skip(1);
        let name =
            |rest: &str| rest.split(|c: char| !c.is_alphanumeric() && c != '_').next().map(str::to_owned);
        found.filter_map(name).filter(|name| name.starts_with("cve_") || name.starts_with("assert")).collect()
    };
    let tests = names(include_str!("published.rs"), "#[test]\nfn ");
    let guide = names(include_str!("../../../../../docs/src/hostile.md"), "`");
    assert!(tests.len() > 20);
    assert_eq!(guide, tests);
}
