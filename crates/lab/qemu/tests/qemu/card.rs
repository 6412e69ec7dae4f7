//! The cards of a real QEMU, poked by hand. QEMU must be installed: these tests fail without it.

use kpps_platform::{Buffer, BufferSource, DmaMemory, DmaSpec, Platform, Registers};
use kpps_qemu::Error;
use kpps_qemu::qtest::{Model, Options, Qemu, Timers, Window};
use std::sync::atomic::Ordering::SeqCst;
use std::time::{Duration, Instant};

// Registers and bits, SDM table 13-2.
const STATUS: u32 = 0x0008;
const EERD: u32 = 0x0014;
const MDIC: u32 = 0x0020;
const ICR: u32 = 0x00c0;
const ICS: u32 = 0x00c8;
const IMS: u32 = 0x00d0;
const RCTL: u32 = 0x0100;
const TCTL: u32 = 0x0400;
const RDBAL: u32 = 0x2800;
const TDBAL: u32 = 0x3800;
const LINK_UP: u32 = 1 << 1;
const LSC: u32 = 1 << 2;
const RXT0: u32 = 1 << 7;

fn ring(card: &Qemu, base: u32) -> kpps_qemu::qtest::RingMemory {
    let spec = DmaSpec { bytes: 128, align: 128, boundary: None, max_address: u32::MAX.into() };
    let ring = card.platform().allocate(spec).unwrap();
    let regs = card.platform().registers();
    regs.write(base, ring.bus() as u32);
    regs.write(base + 0x8, 128);
    ring
}

fn within(what: &str, mut done: impl FnMut() -> bool) {
    let since = Instant::now();
    while !done() {
        assert!(since.elapsed() < Duration::from_secs(60), "{what} took too long");
    }
}

fn receiver(card: &Qemu) -> (kpps_qemu::qtest::RingMemory, kpps_qemu::qtest::PoolBuffer) {
    let regs = card.platform().registers();
    let rx = ring(card, RDBAL);
    let buffer = card.ram().pool(1, 2048, None).unwrap().take().unwrap();
    rx.words()[0].store(buffer.bus(), SeqCst);
    regs.write(RDBAL + 0x18, 1);
    // EN, UPE, BAM, SECRC
    regs.write(RCTL, 1 << 1 | 1 << 3 | 1 << 15 | 1 << 26);
    (rx, buffer)
}

fn frame() -> Vec<u8> {
    let mut frame = vec![0xff; 6];
    frame.extend([2; 6]);
    // IEEE 802: local experimental EtherType 1. QEMU's e1000e parses IP and does not send nonsense.
    frame.extend([0x88, 0xb5]);
    frame.extend(0..100);
    frame
}

#[test]
fn every_model_sends_receives_and_interrupts() {
    for model in Model::E1000 {
        let card = Qemu::start(&Options::new(model)).unwrap();
        let regs = card.platform().registers();
        assert_ne!(regs.read(STATUS) & LINK_UP, 0);

        // The first EEPROM word holds the first two bytes of the MAC address.
        regs.write(EERD, 1);
        assert_eq!(regs.read(EERD) >> 16, 0x5452, "{model:?}");

        let tx = ring(&card, TDBAL);
        let mut buffer = card.ram().pool(1, 2048, None).unwrap().take().unwrap();
        let frame = frame();
        buffer.bytes_mut()[..frame.len()].copy_from_slice(&frame);
        tx.words()[0].store(buffer.bus(), SeqCst);
        // EOP, RS
        tx.words()[1].store(frame.len() as u64 | 0b1001 << 24, SeqCst);
        regs.write(TCTL, 1 << 1);
        regs.write(TDBAL + 0x18, 1);
        within("sending", || tx.words()[1].load(SeqCst) >> 32 & 1 == 1);
        let mut sent = None;
        within("the wire", || {
            sent = card.collect().unwrap();
            sent.is_some()
        });
        assert_eq!(sent.unwrap(), frame);

        regs.read(ICR);
        regs.write(IMS, RXT0);
        assert!(!card.interrupt_line());
        let (rx, got) = receiver(&card);
        card.inject(&frame).unwrap();
        within("receiving", || rx.words()[1].load(SeqCst) >> 32 & 1 == 1);
        assert_eq!(&got.bytes()[..frame.len()], frame);
        assert!(card.interrupt_line());
        assert_ne!(regs.read(ICR) & RXT0, 0);
        assert!(!card.interrupt_line());
        regs.write(ICS, RXT0);
        // QEMU's interrupt throttling goes by its own clock, and its other threads by the machine's.
        within("the second interrupt", || {
            card.advance(1_000_000).unwrap();
            card.interrupts() == 2
        });
        card.check().unwrap();
    }
}

#[test]
fn the_cable_can_be_pulled() {
    let card = Qemu::start(&Options::new(Model::I82540Em)).unwrap();
    let regs = card.platform().registers();
    card.set_link(false).unwrap();
    assert_eq!(regs.read(STATUS) & LINK_UP, 0);
    assert_ne!(regs.read(ICR) & LSC, 0);
    card.set_link(true).unwrap();
    within("the link", || regs.read(STATUS) & LINK_UP != 0);
    assert!(card.version().unwrap().contains('.'));
}

/// Restarts autonegotiation (MII register 0, bits 12 and 9) and returns how long it took.
fn autonegotiation(timers: Timers) -> Duration {
    let card = Qemu::start(&Options { timers, ..Options::new(Model::I82540Em) }).unwrap();
    let regs = card.platform().registers();
    let since = Instant::now();
    regs.write(MDIC, 1 << 26 | 1 << 21 | 0x1340);
    within("autonegotiation", || regs.read(STATUS) & LINK_UP != 0);
    since.elapsed()
}

#[test]
fn timers_run_as_asked() {
    assert!(autonegotiation(Timers::Wall) > Duration::from_millis(400));
    // A busy machine may hold it up now and then.
    let took: Vec<_> = (0..6).map(|_| autonegotiation(Timers::Immediate)).collect();
    assert!(took.iter().any(|took| *took < Duration::from_millis(400)), "{took:?}");
}

#[test]
fn a_vanished_card_reads_as_all_ones() {
    let regs: Window = {
        let card = Qemu::start(&Options::new(Model::I82540Em)).unwrap();
        card.platform().registers()
    };
    regs.write(STATUS, 0);
    assert_eq!(regs.read(STATUS), u32::MAX);
}

#[test]
fn what_does_not_start_says_why() {
    let start = |program: &str| {
        Qemu::start(&Options { program: program.to_owned(), ..Options::new(Model::I82540Em) })
    };
    let missing = start("no-such-qemu").unwrap_err();
    assert!(matches!(missing, Error::NotInstalled { .. }));
    assert!(missing.to_string().contains("apt-get install"), "{missing}");
    let wrong = start("false").unwrap_err();
    assert!(matches!(wrong, Error::Ended { .. }), "{wrong}");
}

/// Whatever happens to whoever started it.
#[test]
fn qemu_ends_with_the_thread_that_started_it() {
    let start = || Qemu::start(&Options::new(Model::I82540Em)).unwrap();
    let orphan = std::thread::spawn(start).join().unwrap();
    within("its end", || matches!(orphan.check(), Err(Error::Ended { .. })));
}
