//! A small driver with raw volatile accesses, on the model in the same process: without a defect it sends and
//! receives and breaks no rule, and with a defect it breaks the rule of this defect.
#![cfg(all(target_os = "linux", target_arch = "x86_64"))]
#![allow(clippy::unwrap_used)]

use kpps_audit::responder::{EchoPlan, Handle, Options as Station, Responder};
use kpps_inprocess::{Card, Clock, Dma, Error, Options, PerFrame, Quirk, Reach, Severity};
use std::time::Duration;

const DESCRIPTORS: usize = 8;
const MS: Duration = Duration::from_millis(1);

/// Registers, by their offset in bytes (SDM table 13-2).
mod reg {
    pub const CTRL: usize = 0x0000;
    pub const STATUS: usize = 0x0008;
    pub const ICR: usize = 0x00C0;
    pub const IMS: usize = 0x00D0;
    pub const RCTL: usize = 0x0100;
    pub const TCTL: usize = 0x0400;
    pub const TIPG: usize = 0x0410;
    pub const RDBAL: usize = 0x2800;
    pub const TDBAL: usize = 0x3800;
    pub const RDTR: usize = 0x2820;
    pub const MTA: usize = 0x5200;
    /// FCAL, FCAH, FCT and FCTTV.
    pub const FLOW_CONTROL: [usize; 4] = [0x28, 0x2C, 0x30, 0x170];
}

/// A defect of the driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Defect {
    /// CTRL.SLU stays clear.
    NoLink,
    /// The ring's length is that of four descriptors.
    Short,
    /// RCTL.EN is set before the ring.
    EarlyReceiver,
    /// STATUS is read as a byte, and CTRL as a word.
    Narrow,
    /// No IFCS.
    NoFcs,
    /// The card gets addresses that are 1 MiB too high.
    WrongAddress,
}

/// A descriptor (SDM 3.2.3, 3.3.3).
#[repr(C)]
#[derive(Clone, Copy)]
struct Descriptor {
    address: u64,
    length: u16,
    checksum: u16,
    /// Transmit: CSO and command are in `checksum`.
    status: u8,
    errors: u8,
    special: u16,
}

struct Driver {
    registers: *mut u8,
    rings: Dma,
    buffers: Dma,
    defect: Option<Defect>,
    received: usize,
    sent: usize,
}

impl Driver {
    fn get(&self, offset: usize) -> u32 {
        // SAFETY: the window traps, so any access within it is defined.
        unsafe { self.registers.add(offset).cast::<u32>().read_volatile() }
    }

    fn set(&self, offset: usize, value: u32) {
        // SAFETY: as above.
        unsafe { self.registers.add(offset).cast::<u32>().write_volatile(value) }
    }

    /// A descriptor: the transmit ring is in the first half of the rings.
    fn descriptor(&self, ring: usize, index: usize) -> *mut Descriptor {
        self.rings.pointer().wrapping_add(2048 * ring + 16 * index).cast()
    }

    fn buffer(&self, ring: usize, index: usize) -> *mut u8 {
        self.buffers.pointer().wrapping_add(2048 * (DESCRIPTORS * ring + index))
    }

    fn device(&self, pointer: *mut u8, of: Dma) -> u64 {
        let shift = if self.defect == Some(Defect::WrongAddress) { 1 << 20 } else { 0 };
        of.device() + (pointer.addr() - of.address()) as u64 + shift
    }

    fn start(registers: *mut u8, rings: Dma, buffers: Dma, defect: Option<Defect>) -> Self {
        let it = Self { registers, rings, buffers, defect, received: 0, sent: 0 };
        it.set(reg::CTRL, 1 << 26);
        while it.get(reg::CTRL) & 1 << 26 != 0 {}
        let link = if defect == Some(Defect::NoLink) { 0 } else { 1 << 6 | 1 << 5 };
        it.set(reg::CTRL, link | 1);
        (0..128).for_each(|n| it.set(reg::MTA + 4 * n, 0));
        reg::FLOW_CONTROL.into_iter().for_each(|register| it.set(register, 0));
        let receive = 1 << 1 | 1 << 15 | 1 << 26;
        if defect == Some(Defect::EarlyReceiver) {
            it.set(reg::RCTL, receive);
        }
        if defect == Some(Defect::Narrow) {
            // SAFETY: within the window.
            unsafe { registers.add(reg::STATUS).read_volatile() };
            // SAFETY: as above.
            unsafe { registers.cast::<u16>().read_volatile() };
        }
        let length = if defect == Some(Defect::Short) { 64 } else { 16 * DESCRIPTORS as u32 };
        for (ring, base) in [(0, reg::TDBAL), (1, reg::RDBAL)] {
            let address = it.device(it.descriptor(ring, 0).cast(), rings);
            it.set(base, address as u32);
            it.set(base + 4, (address >> 32) as u32);
            it.set(base + 8, length);
            it.set(base + 0x10, 0);
            it.set(base + 0x18, 0);
        }
        for index in 0..DESCRIPTORS {
            let address = it.device(it.buffer(1, index), buffers);
            let empty = Descriptor { address, length: 0, checksum: 0, status: 0, errors: 0, special: 0 };
            // SAFETY: within the memory of the rings, which lives as long as the card.
            unsafe { it.descriptor(1, index).write_volatile(empty) };
        }
        it.set(reg::TIPG, 10 | 8 << 10 | 6 << 20);
        it.set(reg::TCTL, 1 << 1 | 1 << 3 | 0x10 << 4 | 0x40 << 12);
        it.set(reg::RDTR, 0);
        it.set(reg::RCTL, receive);
        it.set(reg::RDBAL + 0x18, DESCRIPTORS as u32 - 1);
        it.set(reg::IMS, 1 << 7);
        it
    }

    fn send(&mut self, frame: &[u8]) {
        let index = self.sent % DESCRIPTORS;
        let buffer = self.buffer(0, index);
        // SAFETY: a buffer has 2048 bytes, and the card does not own it.
        unsafe { buffer.copy_from_nonoverlapping(frame.as_ptr(), frame.len()) };
        // EOP, IFCS, RS.
        let command = if self.defect == Some(Defect::NoFcs) { 0b1001 } else { 0b1011 };
        let filled = Descriptor {
            address: self.device(buffer, self.buffers),
            length: frame.len() as u16,
            checksum: command << 8,
            status: 0,
            errors: 0,
            special: 0,
        };
        // SAFETY: as above.
        unsafe { self.descriptor(0, index).write_volatile(filled) };
        self.sent += 1;
        self.set(reg::TDBAL + 0x18, (self.sent % DESCRIPTORS) as u32);
    }

    /// The next received frame, if there is one. It accesses no register without one.
    fn receive(&mut self) -> Option<Vec<u8>> {
        let index = self.received % DESCRIPTORS;
        let at = self.descriptor(1, index);
        // SAFETY: as above.
        let descriptor = unsafe { at.read_volatile() };
        if descriptor.status & 1 == 0 {
            return None;
        }
        // SAFETY: the card has written `length` bytes, at most 2048, and has returned the buffer.
        let frame = unsafe { std::slice::from_raw_parts(self.buffer(1, index), descriptor.length.into()) };
        let frame = frame.to_vec();
        // SAFETY: as above.
        unsafe {
            at.write_volatile(Descriptor { length: 0, checksum: 0, status: 0, errors: 0, ..descriptor })
        };
        self.received += 1;
        self.set(reg::RDBAL + 0x18, index as u32);
        Some(frame)
    }
}

fn started(options: Options, defect: Option<Defect>) -> (Card, Driver) {
    let card = Card::new(options).unwrap();
    let (rings, buffers) = (card.memory(4096, 128).unwrap(), card.memory(64 << 10, 1).unwrap());
    let driver = Driver::start(card.window().unwrap(), rings, buffers, defect);
    (card, driver)
}

fn frame(number: u8) -> Vec<u8> {
    let mut frame = vec![number; 100];
    frame[..6].fill(0xFF);
    frame
}

/// Sends and receives `count` frames one by one.
fn exchange(card: &Card, driver: &mut Driver, count: u8) {
    for number in 0..count {
        card.send(&frame(number));
        driver.send(&frame(number));
        card.advance(10 * MS);
        driver.get(reg::ICR);
        assert_eq!(driver.receive(), Some(frame(number)), "frame {number}");
        assert_eq!(card.received(), [frame(number)]);
    }
}

#[test]
fn frames_pass_both_ways_and_no_rule_is_broken() {
    let (card, mut driver) = started(Options::default(), None);
    exchange(&card, &mut driver, 100);
    assert_eq!(card.final_findings().to_string(), "");
    card.assert_no_must();
    let counts = card.counts();
    assert_eq!((counts.sent, counts.stored, counts.dropped), (100, 100, 0));
    let work = PerFrame::of(&counts).unwrap();
    assert!(work.reads < 0.6 && (1.0..2.0).contains(&work.writes), "{work:?}");
}

#[test]
fn the_same_calls_give_the_same_times_and_counts() {
    let run = || {
        let (card, mut driver) = started(Options::default(), None);
        exchange(&card, &mut driver, 20);
        (card.now(), card.counts())
    };
    assert_eq!(run(), run());
}

#[test]
fn each_defect_breaks_its_rule() {
    for (defect, rules) in [
        (Defect::NoLink, &["slu-missing"][..]),
        (Defect::Short, &["ring-length-unaligned"]),
        (Defect::EarlyReceiver, &["receiver-before-ring", "ring-while-enabled"]),
        (Defect::Narrow, &["width"]),
        (Defect::NoFcs, &["ifcs-missing"]),
        (Defect::WrongAddress, &["dma-to-nowhere"]),
    ] {
        let (card, mut driver) = started(Options::default(), Some(defect));
        driver.send(&frame(1));
        card.send(&frame(1));
        card.advance(10 * MS);
        driver.get(reg::ICR);
        let findings = card.final_findings();
        println!("{defect:?}: {:?}\n{findings}", findings.names());
        let found = findings.names();
        assert!(rules.iter().any(|rule| found.contains(rule)), "{defect:?}: {found:?}");
    }
}

#[test]
fn the_set_up_is_judged_when_the_driver_has_returned() {
    let (card, driver) = started(Options::default(), None);
    // RCTL.VFE, and RCTL.LBM 01b.
    driver.set(reg::RCTL, driver.get(reg::RCTL) | 1 << 18 | 1 << 6);
    assert_eq!(card.findings().names(), [""; 0]);
    assert_eq!(card.final_findings().names(), ["loopback", "vfta-not-written"]);
}

#[test]
fn a_must_is_a_panic_with_the_rule_in_it() {
    let (card, _driver) = started(Options::default(), Some(Defect::NoLink));
    let panic = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| card.assert_no_must())).unwrap_err();
    let text = panic.downcast_ref::<String>().unwrap();
    for part in
        ["must   slu-missing (CTRL; manual 13.4.1), once", "A real card: ", "Remedy: ", "Seen at: CTRL = "]
    {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert!(card.findings().of(Severity::Should).is_empty(), "{}", card.findings());
}

#[test]
fn cards_of_several_threads_do_not_mix() {
    std::thread::scope(|scope| {
        for thread in 0..4 {
            scope.spawn(move || {
                let defect = [None, Some(Defect::NoLink)][thread % 2];
                let (card, mut driver) = started(Options::default(), defect);
                if defect.is_none() {
                    exchange(&card, &mut driver, 50);
                }
                let names = card.final_findings().names();
                assert_eq!(names.contains(&"slu-missing"), defect.is_some(), "{names:?}");
            });
        }
    });
}

#[test]
fn two_threads_share_a_window() {
    let (card, driver) = started(Options::default(), None);
    let address = driver.registers.addr();
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(move || {
                let register: *mut u32 = std::ptr::with_exposed_provenance_mut(address + reg::STATUS);
                for _ in 0..500 {
                    // SAFETY: within the window, which lives as long as `card`.
                    unsafe { register.read_volatile() };
                }
            });
        }
    });
    assert_eq!(card.counts().reads["STATUS"], 1000);
}

#[test]
fn an_interrupt_handler_is_called_while_time_passes() {
    let (card, mut driver) = started(Options::default(), None);
    assert_eq!(card.serve(10 * MS, || panic!("no interrupt is due")), 0);
    (0..20).for_each(|number| card.send(&frame(number)));
    let mut got = 0;
    let calls = card.serve(10 * MS, || {
        driver.get(reg::ICR);
        while driver.receive().is_some() {
            got += 1;
        }
    });
    assert!((1..=20).contains(&calls), "{calls}");
    assert_eq!((got, card.interrupt_is_asserted()), (20, false));
    // A handler that does nothing.
    card.send(&frame(0));
    let calls = card.serve(MS, || {});
    assert!((50..=101).contains(&calls), "{calls}");
    assert!(card.interrupt_is_asserted());
}

#[test]
fn a_station_pings_the_driver() {
    let (card, mut driver) = started(Options::default(), None);
    let station = Handle::new(Responder::new(Station::default()).unwrap());
    card.attach(station.clone());
    card.with(|_, now_ps| station.with(|it| it.start_arp(now_ps)));
    card.advance(10 * MS);
    driver.get(reg::ICR);
    let asked = driver.receive().unwrap();
    assert_eq!(asked[12..14], [0x08, 0x06], "ARP");
    // Sender and target change places.
    let mut answer = asked.clone();
    let mac = [2, 0, 0, 0, 0, 9];
    answer[..6].copy_from_slice(&asked[6..12]);
    answer[6..12].copy_from_slice(&mac);
    answer[21] = 2;
    answer[22..28].copy_from_slice(&mac);
    answer[28..32].copy_from_slice(&asked[38..42]);
    answer[32..42].copy_from_slice(&asked[22..32]);
    driver.send(&answer);
    card.advance(10 * MS);
    assert_eq!(station.with(|it| it.guest()).mac.map(|mac| mac.0), Some(mac));
    card.with(|_, now_ps| station.with(|it| it.start_ping(now_ps, EchoPlan::ping(1, &[56]))));
    assert_eq!(driver.receive(), None, "time stands still");
}

#[test]
fn frames_wait_for_the_link() {
    let (card, mut driver) = started(Options { link: 50 * MS, ..Options::default() }, None);
    card.send(&frame(7));
    card.advance(40 * MS);
    assert_eq!(driver.receive(), None);
    card.advance(40 * MS);
    assert_eq!(driver.receive(), Some(frame(7)));
    card.set_link(false);
    assert_eq!(driver.get(reg::STATUS) & 2, 0);
    card.send(&frame(8));
    card.advance(40 * MS);
    assert_eq!(driver.receive(), None);
    card.set_link(true);
    card.advance(60 * MS);
    assert_eq!(driver.receive(), Some(frame(8)));
    card.send_damaged(&frame(9));
    card.advance(MS);
    assert_eq!((driver.receive(), card.counts().dropped), (None, 1));
}

#[test]
fn by_the_hosts_clock_a_driver_waits_in_memory() {
    let (card, mut driver) = started(Options { clock: Clock::Host, ..Options::default() }, None);
    card.send(&frame(3));
    let got = loop {
        if let Some(frame) = driver.receive() {
            break frame;
        }
        std::hint::spin_loop();
    };
    assert_eq!(got, frame(3));
    card.advance(Duration::from_secs(1000));
    assert!(card.now() > Duration::from_secs(1000));
}

#[test]
fn the_card_reaches_the_heap_of_the_process() {
    let card = Card::new(Options { reach: Reach::Process, ..Options::default() }).unwrap();
    let mut ring = vec![0u128; DESCRIPTORS];
    let at = ring.as_mut_ptr();
    let buffer = frame(5);
    let words = [buffer.as_ptr().expose_provenance() as u64, 100 | 0b1011 << 24];
    // SAFETY: the first element of the vector.
    unsafe { at.write_volatile(u128::from(words[0]) | u128::from(words[1]) << 64) };
    card.write32(0, 1 << 6 | 1);
    let address = at.expose_provenance() as u64;
    for (offset, value) in [
        (0x3800, address as u32),
        (0x3804, (address >> 32) as u32),
        (0x3808, 128),
        (0x410, 10),
        (0x400, 1 << 1 | 1 << 3 | 0x40 << 12),
    ] {
        card.write32(offset, value);
    }
    card.advance(10 * MS);
    card.write32(0x3818, 1);
    card.advance(MS);
    assert_eq!(card.received(), [buffer]);
    // SAFETY: as above.
    assert_eq!(unsafe { at.read_volatile() } >> 96 & 1, 1, "DD");
}

#[test]
fn memory_is_where_it_should_be() {
    let card = Card::new(Options::default()).unwrap();
    let window = card.window().unwrap().addr();
    assert_eq!(window, card.window().unwrap().addr(), "always the same");
    let mut base = [0; 4];
    card.configuration_read(0x10, &mut base);
    assert_eq!(u32::from_le_bytes(base) as usize, window);
    for align in [1, 16, 4096, 1 << 16] {
        let dma = card.memory(5000, align).unwrap();
        assert!(dma.address().is_multiple_of(align.max(4096)) && dma.address() + dma.bytes() < 1 << 31);
        assert_eq!(dma.device(), dma.address() as u64);
    }
    let other = card.memory_at(0x9_0000_0000, 4096).unwrap();
    assert_eq!((other.device(), other.bytes()), (0x9_0000_0000, 4096));
    assert!(matches!(card.memory_at(0x9_0000_0FFF, 1), Err(Error::Overlap { .. })));
    card.free(other);
    card.free(other);
    card.memory_at(0x9_0000_0FFF, 1).unwrap();
    for (bytes, align) in [(0, 1), (1, 0), (1, 24), (usize::MAX, 1 << 20), (usize::MAX, 1)] {
        assert!(card.memory(bytes, align).is_err(), "{bytes} {align}");
    }
}

#[test]
fn what_cannot_be_is_an_error() {
    use kpps_inprocess::Chip;
    for chip in Chip::ALL {
        let possible = ![Chip::I82542, Chip::I82574l, Chip::I82576].contains(&chip);
        assert_eq!(Card::new(Options { chip, ..Options::default() }).is_ok(), possible, "{chip}");
    }
    let Err(error) = Card::new(Options { bus: "none".into(), ..Options::default() }) else { panic!("a bus") };
    assert!(error.to_string().contains("there is no bus called 'none'"), "{error}");
}

#[test]
fn a_card_without_firmware_is_not_a_bus_master() {
    let (card, mut driver) = started(Options { is_configured: false, ..Options::default() }, None);
    driver.send(&frame(1));
    card.advance(10 * MS);
    assert!(card.findings().names().contains(&"not-bus-master"), "{}", card.findings());
    // IODATA reads the register that IOADDR names; SWSM is there by a quirk.
    let card = Card::new(Options { quirks: vec![Quirk::Swsm], ..Options::default() }).unwrap();
    card.io_write32(0, 8);
    assert_eq!(card.io_read32(4), card.read32(8));
    card.write32(0x5B50, 0);
    assert_eq!(card.findings().names(), [""; 0]);
}

#[test]
fn our_driver_on_its_platform_breaks_no_rule() {
    let card = Card::new(Options::default()).unwrap();
    let platform = card.platform(8 << 20).unwrap();
    let pool = platform.memory().pool(1200, 2048, None).unwrap();
    let chip = kpps_inprocess::Chip::I82540em;
    let mut device = kpps_driver::probe(platform, chip, kpps_driver::Config::kpps(), pool).unwrap();
    while !device.control.update_link().unwrap().up {
        card.advance(MS);
    }
    let mut got = 0;
    for number in 0..100 {
        card.send(&frame(number));
        card.advance(MS);
        device.rx.receive(32, |frame| {
            got += 1;
            Some(frame.buffer)
        });
    }
    assert_eq!(got, 100);
    assert_eq!(card.final_findings().to_string(), "");
}
