//! The 82574: two pairs of queues, vectors, header split.

use crate::common::*;
use kpps_datasheet::{
    Chip, bit,
    desc::extended::{self, RssType, SplitStatus, Writeback},
    express::{cause, ctrl_ext, gcr, mrqc, psrctl, rfctl},
    reg,
};
use kpps_driver::{
    Config, Error, Hash, Pair, Queues,
    config::{Rss, RxFormat},
    probe_queues,
};
use kpps_platform::{BufferSource, DmaMemory, DmaSpec, OutOfMemory, Platform, wrap::Counts};
use std::{rc::Rc, sync::atomic::Ordering::Relaxed};

/// A platform with MSI-X vectors.
#[derive(Clone)]
struct Many<'a>(NicPlatform<'a>, u8);

impl<'a> Platform for Many<'a> {
    type Regs = <NicPlatform<'a> as Platform>::Regs;
    type Mem = Memory;
    fn registers(&self) -> Self::Regs {
        self.0.registers()
    }
    fn allocate(&self, spec: DmaSpec) -> Result<Memory, OutOfMemory> {
        self.0.allocate(spec)
    }
    fn now_ns(&self) -> u64 {
        self.0.now_ns()
    }
    fn vectors(&self) -> u8 {
        self.1
    }
    fn wait_ns(&self, ns: u64) {
        self.0.wait_ns(ns);
    }
}

fn open<'a>(
    nic: &Rc<Nic>,
    counts: &'a Counts,
    vectors: u8,
    config: Config,
    pool: &Pool,
) -> Result<Queues<Many<'a>, Pool>, Error> {
    let platform = Many(NicPlatform { nic: nic.clone(), counts }, vectors);
    probe_queues(platform, nic.chip, config, pool.clone(), None)
}

fn two() -> Config {
    Config { queues: 2, ..small() }
}

#[test]
fn both_pairs_are_set_up() {
    let (nic, counts, pool) = (Nic::new(Chip::I82574l), Counts::new(), Pool::new(64, 2048));
    let mut device = open(&nic, &counts, 0, two(), &pool).unwrap();
    for queue in [0, 1] {
        let of = |register| nic.get(reg::of_queue(register, queue));
        assert_eq!((of(reg::RDLEN), of(reg::TDLEN), of(reg::RDT)), (256, 256, 15));
        assert_ne!(of(reg::RDBAL), 0);
        assert_ne!(of(reg::TARC0) & kpps_datasheet::express::tarc::ENABLE, 0);
    }
    assert_eq!(nic.get(reg::RDBAL + 0x100), 0x30_0000, "their own rings");
    assert_eq!(nic.get(reg::MRQC) & mrqc::RSS, mrqc::RSS);
    assert_eq!(nic.get(reg::RSSRK), 0xda56_5a6d);
    assert_eq!((nic.get(reg::RETA), nic.get(reg::RETA + 124)), (0x8000_8000, 0x8000_8000));
    assert_ne!(nic.get(reg::RXCSUM) & kpps_datasheet::express::rxcsum::PCSD, 0);
    assert_ne!(nic.get(reg::RFCTL) & rfctl::EXSTEN, 0);
    assert_ne!(nic.get(reg::GCR) & gcr::SET_22, 0);
    assert_ne!(nic.get(reg::CTRL_EXT) & ctrl_ext::SET_22, 0);
    device.reset().unwrap();
    drop(device);
    assert_eq!(pool.available(), 64);
}

#[test]
fn a_burst_on_either_pair_costs_one_write_and_no_read() {
    let (nic, counts, pool) = (Nic::new(Chip::I82574l), Counts::new(), Pool::new(64, 2048));
    let mut device = open(&nic, &counts, 3, two(), &pool).unwrap();
    let reads = counts.reads();
    for (queue, Pair { rx, tx, vector }) in (0_u8..).zip(&mut device.pairs) {
        let writes = counts.writes();
        let ring = &nic.memories.borrow()[usize::from(queue) * 2];
        let rss = 0xDEAD_BE00 | u32::from(queue);
        for descriptor in 0..8 {
            let [first, second] =
                Writeback { mrq: 1, rss, status: 3, length: 60, ..Writeback::default() }.pack();
            ring.words()[descriptor * 2].store(first, Relaxed);
            ring.words()[descriptor * 2 + 1].store(second, Relaxed);
        }
        let taken = rx.receive(32, |part| {
            assert_eq!(part.hash(), Some(Hash { value: rss, over: RssType::TcpIpv4 }));
            Some(part.buffer)
        });
        assert_eq!((taken, counts.writes() - writes), (8, 1));
        let tail = nic.get(reg::of_queue(reg::RDT, queue));
        assert_eq!(tail, 7);
        for _ in 0..8 {
            tx.send(pool.clone().take().unwrap(), 60).unwrap();
        }
        tx.flush();
        assert_eq!(nic.get(reg::of_queue(reg::TDT, queue)), 8);
        assert_eq!(counts.writes() - writes, 2);
        assert_eq!(vector.number(), Some(queue));
        vector.unmask();
        assert_eq!(nic.get(reg::IMS), cause::receive(queue) | cause::transmit(queue));
        vector.mask();
        assert_eq!((nic.get(reg::IMS), counts.writes() - writes), (0, 4));
        vector.throttle(8_000).unwrap();
        assert_eq!(nic.get(reg::eitr(queue)), 488);
    }
    assert_eq!(counts.reads(), reads);
    assert_eq!(nic.get(reg::IVAR), 0xA_9898);
    assert_eq!(nic.get(reg::EIAC), 0xF << 20);
}

#[test]
fn unsupported_configurations_are_refused() {
    let (counts, pool) = (Counts::new(), Pool::new(64, 2048));
    let refused = |chip, config| {
        let error = open(&Nic::new(chip), &counts, 0, config, &pool).err();
        assert!(matches!(error, Some(Error::Config(_))), "{error:?}");
    };
    refused(Chip::I82546eb, two());
    refused(Chip::I82574l, Config { queues: 3, ..small() });
    refused(Chip::I82574l, Config { rx_format: RxFormat::Legacy, ..two() });
    for header_bytes in [0, 100, 129, 16257, 16384] {
        refused(Chip::I82574l, Config { rx_format: RxFormat::Split { header_bytes }, ..small() });
    }
    let split = RxFormat::Split { header_bytes: 128 };
    refused(Chip::I82574l, Config { rx_format: split, rx_buffer_bytes: 512, ..small() });
    // A descriptor of two units: half as many in a ring.
    let ring = |rx_ring| Config { rx_format: split, rx_ring, ..small() };
    refused(Chip::I82574l, ring(2056));
    assert_eq!(ring(2048).validate(Chip::I82574l), Ok(()));
    // On other chips it stays off, as any other feature.
    open(&Nic::new(Chip::I82540em), &counts, 0, Config { rx_format: split, ..small() }, &pool).unwrap();
    assert_eq!(try_start(&Nic::new(Chip::I82574l), &counts, two(), &pool).err(), {
        Some(Error::Config(kpps_driver::Invalid::Rule("queues: more than one needs probe_queues")))
    });
}

/// The device writes a slot back: the lengths of header and data, and whether the frame ends (2) or not (0).
fn write_back(memory: &Memory, slot: usize, (length, lengths): (u16, [u16; 3]), end: u32) {
    let [first, second] = Writeback { status: 1 | end, length, ..Writeback::default() }.pack();
    memory.write_back(slot * 4 + 2, SplitStatus { header: Some(54), lengths }.pack());
    memory.write_back(slot * 4, first);
    memory.write_back(slot * 4 + 1, second);
}

/// A device that splits headers of up to 128 bytes. Headers have their own source of buffers.
fn open_split<'a>(
    nic: &Rc<Nic>,
    counts: &'a Counts,
    (data, headers): (&Pool, &Pool),
) -> Queues<Many<'a>, Pool> {
    let config = Config { rx_format: RxFormat::Split { header_bytes: 128 }, ..small() };
    let platform = Many(NicPlatform { nic: nic.clone(), counts }, 0);
    probe_queues(platform, nic.chip, config, data.clone(), Some(headers.clone())).unwrap()
}

#[test]
fn a_ring_that_splits_headers_recovers_when_its_sources_have_buffers_again() {
    // With more data buffers than slots, only headers are missing.
    for spare in [0, 20] {
        let (nic, counts) = (Nic::new(Chip::I82574l), Counts::new());
        let (data, headers) = (Pool::new(16 + spare, 2048), Pool::at(0x2000_0000, 4096, 16, 128));
        let mut device = open_split(&nic, &counts, (&data, &headers));
        let rx = &mut device.pairs[0].rx;
        let mut kept = Vec::new();
        // A full ring holds its last slot back.
        for slots in [0..15, 15..16] {
            let burst = slots.len();
            slots.for_each(|slot| write_back(&nic.memories.borrow()[0], slot, (54, [6, 0, 0]), 2));
            let taken = rx.receive(32, |part| {
                kept.push((part.header, part.buffer));
                None
            });
            assert_eq!(taken, burst);
        }
        assert_eq!((kept.len(), rx.empty_slots(), data.available()), (32, 16, spare as usize));
        assert!(rx.counters().no_buffer > 0);
        assert_eq!(rx.receive(32, |_| panic!("from an empty slot")), 0);
        for (is_header, buffer) in kept {
            if is_header { headers.clone().give(buffer) } else { data.clone().give(buffer) }
        }
        assert_eq!(rx.receive(32, |_| panic!("from a new slot")), 0);
        assert_eq!(rx.empty_slots(), 0);
    }
}

#[test]
fn after_a_reset_each_filled_slot_has_a_header_and_a_data_buffer() {
    let (nic, counts) = (Nic::new(Chip::I82574l), Counts::new());
    let (data, headers) = (Pool::new(16, 2048), Pool::at(0x2000_0000, 4096, 16, 128));
    let mut device = open_split(&nic, &counts, (&data, &headers));
    // At that time the first slots are empty.
    (0..4).for_each(|slot| write_back(&nic.memories.borrow()[0], slot, (54, [6, 0, 0]), 2));
    assert_eq!(device.pairs[0].rx.receive(32, |_| None), 4);
    device.reset().unwrap();
    assert_eq!(nic.get(reg::RDT), 2 * 12);
    for slot in nic.memories.borrow()[0].words().chunks(4).take(12) {
        assert!(slot[0].load(Relaxed) != 0 && slot[1].load(Relaxed) != 0, "{slot:?}");
    }
}

#[test]
fn buffers_unfit_for_split_headers_are_never_given_to_the_device() {
    let headers = |bytes| Pool::at(0x2000_0000, 4096, 16, bytes);
    let data = |bus| Pool::at(bus, 4096, 16, 2048);
    for (data, headers, fits) in [
        (data(0x1000_0000), headers(128), true),
        (data(0x1000_0000), headers(127), false),
        // The device marks a finished descriptor in bit 0 of the address.
        (data(0x1000_0001), headers(128), false),
    ] {
        let (nic, counts) = (Nic::new(Chip::I82574l), Counts::new());
        let device = open_split(&nic, &counts, (&data, &headers));
        let rx = &device.pairs[0].rx;
        assert_eq!(rx.empty_slots(), if fits { 0 } else { 16 });
        assert_eq!(rx.counters().no_buffer + rx.counters().unfit_buffers > 0, !fits);
        assert_eq!((data.available(), headers.available()), if fits { (0, 0) } else { (16, 16) });
    }
}

/// Header and data parts, kept parts, and invalid lengths from the device.
#[test]
fn split_headers() {
    let (nic, counts, pool) = (Nic::new(Chip::I82574l), Counts::new(), Pool::new(64, 2048));
    let config = Config {
        rx_format: RxFormat::Split { header_bytes: 128 },
        rss: Some(Rss::DEFAULT),
        max_frame_bytes: 9018,
        ..small()
    };
    let mut device = open(&nic, &counts, 0, config, &pool).unwrap();
    assert_eq!(nic.get(reg::RDLEN), 16 * 32);
    assert_eq!(nic.get(reg::RDT), 30, "it counts 16 bytes");
    assert_eq!(nic.get(reg::PSRCTL), psrctl::sizes(128, [2048, 0, 0]));
    assert_ne!(nic.get(reg::RCTL) & bit::rctl::SECRC, 0);
    let rx = &mut device.pairs[0].rx;
    let reads = counts.reads();
    let mut slot = 0;
    let mut kept = Vec::new();
    // (header bytes, data bytes, end), the expected parts, and which of them are kept.
    type Case = (&'static [(u16, [u16; 3], u32)], &'static [(u16, bool, bool, bool, bool)], bool);
    let cases: [Case; 7] = [
        (&[(54, [6, 0, 0], 2)], &[(54, true, true, false, false), (6, false, false, true, false)], false),
        (&[(60, [0, 0, 0], 2)], &[(60, true, true, true, false)], true),
        (
            &[(54, [2048, 0, 0], 0), (0, [100, 0, 0], 2)],
            &[
                (54, true, true, false, false),
                (2048, false, false, false, false),
                (100, false, false, true, false),
            ],
            true,
        ),
        // A header longer than its buffer, data in missing buffers, no bytes at all.
        (&[(129, [0, 0, 0], 2)], &[], false),
        (&[(54, [60, 1, 0], 2)], &[], false),
        (&[(0, [0, 0, 0], 2)], &[], false),
        (
            &[(54, [100, 0, 0], 0), (54, [2049, 0, 0], 2)],
            &[
                (54, true, true, false, false),
                (100, false, false, false, false),
                (0, false, false, true, true),
            ],
            false,
        ),
    ];
    for round in 0..5 {
        for (descriptors, expected, keep) in cases {
            for &(length, lengths, end) in descriptors {
                let memories = nic.memories.borrow();
                let words = &memories[0].words()[slot * 4..slot * 4 + 4];
                let [header, data, third, fourth] = [0, 1, 2, 3].map(|word| words[word].load(Relaxed));
                assert!(header != 0 && data != 0 && data & extended::DD == 0);
                assert_eq!((third, fourth), (0, 0), "two more unused buffers");
                write_back(&memories[0], slot, (length, lengths), end);
                slot = (slot + 1) % 16;
            }
            let mut parts = Vec::new();
            let (writes, takes) = (counts.writes(), pool.takes.get());
            let taken = rx.receive(32, |part| {
                parts.push((part.bytes, part.header, part.first, part.last, part.error));
                if keep {
                    kept.push(part.buffer);
                    return None;
                }
                Some(part.buffer)
            });
            assert_eq!((taken, counts.writes() - writes), (descriptors.len(), 1), "round {round}");
            assert_eq!(parts, expected, "round {round}");
            assert_eq!(rx.empty_slots(), 0);
            assert!(keep || pool.takes.get() == takes, "returned buffers go back into the ring");
        }
        for buffer in kept.drain(..) {
            pool.clone().give(buffer);
        }
    }
    assert_eq!(counts.reads(), reads);
    assert_eq!((rx.counters().frames, rx.counters().nonsense), (15, 20));
    device.reset().unwrap();
    drop(device);
    assert_eq!(pool.available(), 64);
}

/// Reserved bits have the values of public drivers; other bits stay unchanged.
#[test]
fn reserved_bits() {
    let (counts, pool) = (Counts::new(), Pool::new(64, 2048));
    for (vectors, set) in [(0, 0x1040_0000), (3, 0x9040_0000)] {
        let nic = Nic::new(Chip::I82574l);
        nic.set(reg::CTRL_EXT, 0x0980_0004);
        nic.set(reg::GCR, 0x0040_0001);
        nic.set(reg::TARC0, 0x7800_0003);
        nic.set(reg::TARC0 + 0x100, 0x7800_0003);
        nic.set(reg::TXDCTL, 0x0040_0001);
        let mut device = open(&nic, &counts, vectors, two(), &pool).unwrap();
        for again in ["", "after a reset"] {
            let ctrl_ext = nic.get(reg::CTRL_EXT);
            assert_eq!(ctrl_ext, set | 4, "without bit 23, EIAME and IAME; {vectors} vectors {again}");
            assert_eq!((nic.get(reg::GCR), nic.get(reg::GCR2)), (0x0040_0001, 1), "{again}");
            assert_eq!((nic.get(reg::TXDCTL), nic.get(reg::TXDCTL + 0x100)), (0x0040_0001, 0x0040_0000));
            let tarc = (nic.get(reg::TARC0), nic.get(reg::TARC0 + 0x100));
            assert_eq!(tarc, (0x0400_0403, 0x7800_0403), "only queue 0 has reserved bits {again}");
            device.reset().unwrap();
        }
    }
}

/// RFCTL, MRQC, RXCSUM, RETA and RSSRK.
#[test]
fn receive_side_scaling() {
    let (counts, pool) = (Counts::new(), Pool::new(64, 2048));
    let rss = Some(Rss::DEFAULT);
    let turns = Some(Rss { table: std::array::from_fn(|entry| entry as u8 % 3), ..Rss::SYMMETRIC });
    let default_key = (0xda56_5a6d, 0xfa01_acbe);
    let cases = [
        // Queues, format, RSS; RFCTL, MRQC, RXCSUM; two words of the table; first and last of the key.
        ((1, RxFormat::Best, None), (0x9000, 0, 0x300), [0, 0], (0, 0)),
        ((1, RxFormat::Legacy, rss), (0x1000, 0, 0x300), [0, 0], (0, 0)),
        ((1, RxFormat::Best, rss), (0x9000, 0x001F_0001, 0x2300), [0, 0], default_key),
        ((2, RxFormat::Extended, None), (0x9000, 0x001F_0001, 0x2300), [0x8000_8000; 2], default_key),
        ((2, RxFormat::Best, rss), (0x9000, 0x001F_0001, 0x2300), [0x8000_8000; 2], default_key),
        // Queues 0, 1, 2, 0 and 1, 2, 0, 1 modulo 2.
        (
            (2, RxFormat::Best, turns),
            (0x9000, 0x001F_0001, 0x2300),
            [0x0000_8000, 0x8000_0080],
            (0x5a6d_5a6d, 0x5a6d_5a6d),
        ),
    ];
    for ((queues, rx_format, rss), registers, table, key) in cases {
        let nic = Nic::new(Chip::I82574l);
        let config = Config { queues, rx_format, rss, ..small() };
        let _device = open(&nic, &counts, 0, config.clone(), &pool).unwrap();
        assert_eq!((nic.get(reg::RFCTL), nic.get(reg::MRQC), nic.get(reg::RXCSUM)), registers, "{config:?}");
        assert_eq!([nic.get(reg::RETA), nic.get(reg::RETA + 4)], table, "{config:?}");
        assert_eq!((nic.get(reg::RSSRK), nic.get(reg::RSSRK + 36)), key, "{config:?}");
    }
}

/// Causes that belong to no queue: RXDMT0, RXO, LSC, and OTHER with vectors.
#[test]
fn the_vector_of_all_other_causes() {
    let (counts, pool) = (Counts::new(), Pool::new(64, 2048));
    for (available, vectors, other, causes) in [
        (0, 0, None, 0x54),
        (1, 1, Some(0), 0x0100_0054),
        (2, 2, Some(0), 0x0100_0054),
        (5, 3, Some(2), 0x0100_0054),
    ] {
        let nic = Nic::new(Chip::I82574l);
        let device = open(&nic, &counts, available, two(), &pool).unwrap();
        assert_eq!((device.control.vectors(), device.control.other_vector()), (vectors, other));
        device.control.unmask_other();
        assert_eq!(nic.get(reg::IMS), causes, "{available} vectors");
        nic.set(reg::IMS, causes | 1 << 24 | 1 << 20);
        device.control.mask_other();
        assert_eq!(nic.get(reg::IMS), 1 << 20, "{available} vectors: those of queues stay");
    }
}
