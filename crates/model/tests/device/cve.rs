//! Published defects of e1000 emulations: each must have no effect here.

use crate::bench::*;
use kpps_datasheet::bit::{rctl, tctl};
use kpps_datasheet::desc::tx_cmd::{EOP, IC, IFCS, IP, RS, TCP, TSE};
use kpps_datasheet::desc::{TxContext, TxData, TxLegacy, popts};
use kpps_datasheet::{Chip, reg, stat};
use kpps_model::{BurstKind, Host, Purpose};

fn ready() -> Bench {
    Bench::ready(Bench::params(Chip::I82545em), 64)
}

/// Runs all events; they must come to an end.
fn run_to_end(b: &mut Bench) {
    let before = b.m.log.len();
    b.pass(100_000 * US);
    assert!(b.m.log.len() - before < 100_000);
    assert!(b.nic.tally().closes());
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
fn cve_2012_6075_long_frame_without_lpe() {
    let mut b = ready();
    for len in [1519, 2048, 9000, 16_380, 16_381, 70_000] {
        b.arrive(&frame(1, len));
    }
    b.set(reg::RCTL, rctl::EN | rctl::SBP);
    b.arrive(&frame(1, 16_381));
    run_to_end(&mut b);
    assert_eq!((b.nic.tally().to_host, b.nic.tally().dropped.too_long), (0, 7));
    assert!(b.m.stores.iter().all(|s| s.1 <= 2048));
}

/// A segmentation that makes no progress looped for ever.
#[test]
fn cve_2015_6815_segmentation_without_progress() {
    for (hdrlen, mss, paylen) in [(54, 0, 1000), (255, 0, 0xF_FFFF), (0, 0, 1), (0, 1, 0), (54, 1460, 0)] {
        let mut b = ready();
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

/// A head outside the ring was processed for ever.
#[test]
fn cve_2016_1981_head_outside_the_ring() {
    for (head, tail) in [(64, 5), (0xFFFF, 5), (5, 64), (5, 0xFFFF), (1000, 1000)] {
        let mut b = ready();
        b.set(reg::TDH, head);
        b.set(reg::RDH, head);
        b.set(reg::TDT, tail);
        b.set(reg::RDT, tail);
        b.arrive(&frame(1, 60));
        run_to_end(&mut b);
        assert!(b.m.log.is_empty(), "nothing is fetched");
        still_sends(&mut b);
    }
}

/// A ring of length 0, or one that is moved while frames arrive, hit an assertion.
#[test]
fn asserts_on_ring_length_0_and_base_moved() {
    let mut b = ready();
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
    run_to_end(&mut b);
}

/// Descriptors of mixed kinds in one packet hit an assertion.
#[test]
fn assert_on_mixed_descriptor_kinds() {
    let mut b = ready();
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

/// Segments whose size lies between header and data read outside them.
#[test]
fn cve_2017_9310_context_against_data() {
    for hdrlen in [0, 1, 13, 14, 54, 60, 255] {
        for mss in [1, 40, 1460, 16_000, 0xFFFF] {
            for len in [1, 53, 54, 55, 300] {
                let mut b = ready();
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

/// A descriptor without end of packet, then another kind: freed memory was used.
#[test]
fn cve_2020_15859_unfinished_packet_and_reset() {
    let mut b = ready();
    data(&mut b, 3000, 0);
    b.ring_doorbell();
    b.pass(1_500 * NS);
    b.set(reg::CTRL, 1 << 26);
    run_to_end(&mut b);
    assert_eq!(b.nic.tally().tx_in_flight, 0);
    let mut b = ready();
    b.put_frame(&frame(1, 1500), 0);
    data(&mut b, 3000, 0);
    b.ring_doorbell();
    for _ in 0..20 {
        b.pass(300 * NS);
        b.set(reg::TDH, 0);
    }
    run_to_end(&mut b);
}

/// A frame without a single fragment hit an assertion.
#[test]
fn cve_2020_16092_packet_without_data() {
    let mut b = ready();
    b.put([0, 100 | u64::from(EOP | IFCS | RS) << 24]);
    b.put([TX_BUFFERS, u64::from(EOP | IFCS | RS | IC) << 24]);
    b.put(TxData { buffer: 0, length: 9, cmd: EOP | RS, popts: 3, ..TxData::default() }.pack());
    b.ring_doorbell();
    run_to_end(&mut b);
    assert_eq!((b.m.sent.len(), b.get(reg::TDH)), (0, 3));
    assert!((0..3).all(|i| b.tx_done(i)));
    still_sends(&mut b);
}

/// Receive descriptors without buffers were walked for ever.
#[test]
fn cve_2020_28916_null_receive_buffers() {
    let mut b = Bench::new(Bench::params(Chip::I82545em));
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

/// Transmit descriptors that never end a packet were walked for ever.
#[test]
fn cve_2021_20257_endless_transmit() {
    let mut b = ready();
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
    let mut b = ready();
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

/// Memory that is the card's own registers: writes there must not re-enter the card.
struct OwnRegisters {
    machine: Machine,
    hits: usize,
}

impl Host for OwnRegisters {
    fn burst(&mut self, now: u64, kind: BurstKind, purpose: Purpose, addr: u64, bytes: u32) -> u64 {
        self.machine.burst(now, kind, purpose, addr, bytes)
    }
    fn load(&mut self, addr: u64, into: &mut [u8]) -> bool {
        addr < 0xFEB0_0000 && self.machine.load(addr, into)
    }
    fn store(&mut self, addr: u64, from: &[u8]) -> bool {
        // The bridge does not send it back to where it came from.
        self.hits += usize::from(addr >= 0xFEB0_0000);
        addr < 0xFEB0_0000 && self.machine.store(addr, from)
    }
    fn transmitted(&mut self, now: u64, frame: &[u8]) {
        self.machine.transmitted(now, frame);
    }
}

/// The card was told to write into its own registers. Here a host cannot even express a
/// re-entry: it is borrowed while the card works.
#[test]
fn cve_2023_3019_dma_into_own_registers() {
    let mut b = ready();
    for i in 0..64 {
        b.m.set_words(RX_RING + 16 * i, [0xFEB0_0000 + u64::from(reg::TDT), 0]);
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

/// Checksum of a fragment shorter than the headers it claims.
#[test]
fn cve_2024_3567_checksum_on_a_short_fragment() {
    let mut b = ready();
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
fn cve_2025_12464_short_frame_in_loopback() {
    for chip in Chip::PCI {
        let mut b = Bench::ready(Bench::params(chip), 64);
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

/// The segment size shrinks between two contexts while a packet is in work.
#[test]
fn cve_2018_3295_zdi_19_425_mss_shrinks() {
    let mut b = ready();
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
    for hdrlen in [0, 239, 240, 255] {
        let mut b = ready();
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
    let mut b = ready();
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
    let mut b = ready();
    b.put(context(54, 1, 0xF_FFFF));
    for _ in 0..4 {
        data(&mut b, 0x8_0000, 0);
    }
    b.ring_doorbell();
    b.pass(1_000 * US);
    // 672 ns a frame on the wire, no more in a millisecond than fit.
    assert!((1_000..1_600).contains(&b.m.sent.len()), "{}", b.m.sent.len());
}
