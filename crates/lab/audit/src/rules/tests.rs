#![allow(clippy::unwrap_used)]
use super::*;
use kpps_datasheet::desc::{TxContext, TxData, TxLegacy, tx_cmd, tx_status};

const RX_RING: u64 = 0x1000;
const TX_RING: u64 = 0x2000;
const RX_BUFFERS: u64 = 0x10_0000;
const TX_BUFFERS: u64 = 0x20_0000;
const COUNT: u32 = 8;
const GOOD: u8 = tx_cmd::EOP | tx_cmd::IFCS | tx_cmd::RS;

fn new() -> Rules {
    Rules::new(&Params::of(Chip::I82540em), None)
}

fn write(rules: &mut Rules, offset: u32, value: u32) {
    let now_ps = rules.now_ps;
    rules.access(offset, 4);
    rules.write(now_ps, offset, value);
}

fn later(rules: &mut Rules) {
    let now_ps = rules.now_ps;
    rules.tick(now_ps + 2 * WAIT_PS);
}

/// The steps of a driver by the manual, in the order of its sections 14.3 to 14.5.
const STEPS: &[(u32, u32)] = &[
    (reg::CTRL, ctrl::RST),
    (reg::CTRL, ctrl::SLU | ctrl::ASDE),
    (reg::FCAL, 0),
    (reg::FCAH, 0),
    (reg::FCT, 0),
    (reg::FCTTV, 0),
    (reg::RAL0, 0x0300_0002),
    (reg::RAH0, rah::AV | 0x0504),
    (reg::IMS, cause::RXT0 | cause::LSC),
    (reg::RDBAL, RX_RING as u32),
    (reg::RDBAH, 0),
    (reg::RDLEN, COUNT * 16),
    (reg::RDH, 0),
    (reg::RDT, COUNT - 1),
    (reg::RCTL, rctl::EN | rctl::BAM),
    (reg::TDBAL, TX_RING as u32),
    (reg::TDBAH, 0),
    (reg::TDLEN, COUNT * 16),
    (reg::TDH, 0),
    (reg::TDT, 0),
    (reg::TIPG, 0x0060_200A),
    (reg::TCTL, tctl::EN | tctl::PSP | 0x0F << tctl::CT_SHIFT | 0x40 << tctl::COLD_SHIFT),
];

/// Takes these steps; `change` gives another value, or leaves the write out.
fn steps(rules: &mut Rules, change: impl Fn(u32, u32) -> Option<u32>) {
    for n in 0..reg::MTA_WORDS {
        if let Some(value) = change(reg::mta(n), 0) {
            write(rules, reg::mta(n), value);
        }
    }
    for (offset, value) in STEPS {
        if let Some(value) = change(*offset, *value) {
            write(rules, *offset, value);
        }
    }
}

/// A card set up by the manual.
fn ready() -> Rules {
    let mut rules = new();
    steps(&mut rules, |_, value| Some(value));
    rules
}

/// A card set up by the manual, but for these values.
fn changed(changes: &[(u32, u32)]) -> Rules {
    let mut rules = new();
    let changed = |offset| changes.iter().find(|it| it.0 == offset).map(|it| it.1);
    steps(&mut rules, |offset, value| Some(changed(offset).unwrap_or(value)));
    rules
}

/// A card set up by the manual, but without these writes.
fn without(offsets: &[u32]) -> Rules {
    let mut rules = new();
    steps(&mut rules, |offset, value| (!offsets.contains(&offset)).then_some(value));
    rules
}

fn bytes(words: [u64; 2]) -> [u8; 16] {
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&words[0].to_le_bytes());
    bytes[8..].copy_from_slice(&words[1].to_le_bytes());
    bytes
}

fn rx(index: u32) -> [u64; 2] {
    [RX_BUFFERS + u64::from(index) * 2048, 0]
}

fn tx(index: u32, length: u16, cmd: u8) -> [u64; 2] {
    TxLegacy { buffer: TX_BUFFERS + u64::from(index) * 2048, length, cmd, ..TxLegacy::default() }.pack()
}

fn fetch(rules: &mut Rules, ring: u64, index: u32, words: [u64; 2]) {
    rules.loaded(ring + u64::from(index) * 16, &bytes(words), None);
}

/// The card receives a frame with descriptor `index`.
fn receive(rules: &mut Rules, index: u32) {
    let [data, _] = rx(index);
    arrive(rules, [0xFF; 6], |_| {});
    rules.stored(data, &[0; 60], None);
    let report = RxWriteback { length: 60, status: rx_status::DD | rx_status::EOP, ..RxWriteback::default() };
    store(rules, RX_RING + u64::from(index) * 16, rx(index), &bytes([data, report.pack()]));
}

/// The card writes `new` at `address`, where memory has the descriptor `old`.
fn store(rules: &mut Rules, address: u64, old: [u64; 2], new: &[u8]) {
    if rules.is_write_back(address, new.len()) {
        rules.write_back(address, &bytes(old));
    }
    rules.stored(address, new, None);
}

/// The card fetches descriptor `index`, reads its data, sends it and reports it.
fn send(rules: &mut Rules, index: u32, words: [u64; 2]) {
    fetch(rules, TX_RING, index, words);
    let length = words[1] as u16;
    if words[0] != 0 && length != 0 {
        rules.loaded(words[0], &vec![0; length.into()], None);
    }
    rules.sent(&vec![0; usize::from(length.max(60))], true);
    if words[1] >> 24 & u64::from(tx_cmd::RS) != 0 {
        store(rules, TX_RING + u64::from(index) * 16 + 12, words, &[1]);
    }
}

fn arrive(rules: &mut Rules, to: [u8; 6], drop: impl Fn(&mut Dropped)) {
    let mut frame = vec![0; 60];
    frame[..6].copy_from_slice(&to);
    let (before, mut after) = (Dropped::default(), Dropped::default());
    drop(&mut after);
    let now_ps = rules.now_ps;
    rules.arrived(now_ps, &frame, &before, &after);
}

fn found(rules: &Rules) -> Vec<(&'static str, u64)> {
    rules.broken().iter().map(|it| (it.rule.name(), it.count)).collect()
}

/// Exactly this rule is broken, once; a sentence and an access describe it.
#[track_caller]
fn only(rules: &Rules, rule: Rule) -> Breach {
    let broken = rules.broken();
    assert_eq!(found(rules), [(rule.name(), 1)], "{broken:#?}");
    assert!(broken[0].sentence.ends_with('.') && !broken[0].access.is_empty(), "{broken:?}");
    broken[0].clone()
}

#[test]
fn a_driver_by_the_manual_breaks_nothing() {
    let mut rules = ready();
    for index in 0..COUNT - 1 {
        fetch(&mut rules, RX_RING, index, rx(index));
    }
    for round in 0..40 {
        let index = round % COUNT;
        receive(&mut rules, index);
        write(&mut rules, reg::RDT, index);
        fetch(&mut rules, RX_RING, (index + COUNT - 1) % COUNT, rx((index + COUNT - 1) % COUNT));
        rules.interrupt(true);
        let now_ps = rules.now_ps;
        rules.read(now_ps + 1_000_000, reg::ICR, cause::RXT0);
        rules.interrupt(false);
        write(&mut rules, reg::TDT, (index + 1) % COUNT);
        send(&mut rules, index, tx(index, 60, GOOD));
        later(&mut rules);
    }
    write(&mut rules, 4, ctrl::RST);
    steps(&mut rules, |_, value| Some(value));
    later(&mut rules);
    assert_eq!(found(&rules), []);
}

/// Linux writes RDT while the length is that of the firmware, or 0, and the receiver is off. It also leaves
/// the ring's tail 0 until buffers are there.
#[test]
fn the_order_of_linux_is_silent() {
    let mut rules = new();
    for n in 0..reg::MTA_WORDS {
        write(&mut rules, reg::mta(n), 0);
    }
    write(&mut rules, reg::IMC, u32::MAX);
    write(&mut rules, reg::RCTL, 0);
    write(&mut rules, reg::TCTL, tctl::PSP);
    write(&mut rules, reg::MANC, 0);
    write(&mut rules, reg::CTRL, ctrl::RST);
    write(&mut rules, reg::CTRL, ctrl::SLU);
    for (offset, value) in [
        (reg::FCT, 0x8808),
        (reg::FCAH, 0x0100),
        (reg::FCAL, 0x00C2_8001),
        (reg::FCTTV, 0xFFFF),
        (reg::TDT, 0),
        (reg::TDH, 0),
        (reg::TDLEN, 4096),
        (reg::TDBAH, 0),
        (reg::TDBAL, TX_RING as u32),
        (reg::TIPG, 8 | 8 << 10 | 6 << 20),
        (reg::TIDV, 8),
        (reg::TCTL, tctl::EN | tctl::PSP | 0xF0 | 0x3F << tctl::COLD_SHIFT),
        (reg::RCTL, rctl::BAM),
        (reg::RCTL, rctl::BAM),
        (reg::RDT, 255),
        (reg::RDT, 0),
        (reg::RDH, 0),
        (reg::RDLEN, 4096),
        (reg::RDBAH, 0),
        (reg::RDBAL, RX_RING as u32),
        (reg::RCTL, rctl::BAM | rctl::EN),
        (reg::RDT, 254),
        (reg::IMS, 0x9D),
    ] {
        write(&mut rules, offset, value);
    }
    later(&mut rules);
    // A frame with context and data descriptor.
    write(&mut rules, reg::TDT, 2);
    let context = TxContext { status: 0, ..TxContext::default() };
    fetch(&mut rules, TX_RING, 0, context.pack());
    let data = TxData { buffer: TX_BUFFERS, length: 60, cmd: GOOD | tx_cmd::IDE, ..TxData::default() };
    fetch(&mut rules, TX_RING, 1, data.pack());
    rules.loaded(TX_BUFFERS, &[0; 60], None);
    rules.sent(&[0; 60], true);
    store(&mut rules, TX_RING + 28, data.pack(), &[1]);
    assert_eq!(found(&rules), []);
}

/// The set-up of a teaching kernel (xv6): it works in QEMU, and only the link is missing. Its transmit
/// descriptors have DD from the beginning and keep it.
#[test]
fn a_teaching_kernel_lacks_the_link_and_does_not_clear_dd() {
    let mut rules = new();
    for (offset, value) in [
        (reg::IMS, 0),
        (reg::CTRL, ctrl::RST | ctrl::FD),
        (reg::IMS, 0),
        (reg::TDBAL, TX_RING as u32),
        (reg::TDLEN, 256),
        (reg::TDH, 0),
        (reg::TDT, 0),
        (reg::RDBAL, RX_RING as u32),
        (reg::RDH, 0),
        (reg::RDT, 15),
        (reg::RDLEN, 256),
        (reg::RAL0, 0x1200_5452),
        (reg::RAH0, 0x5634 | rah::AV),
    ] {
        write(&mut rules, offset, value);
    }
    (0..reg::MTA_WORDS).for_each(|n| write(&mut rules, reg::mta(n), 0));
    for (offset, value) in [
        (reg::TCTL, tctl::EN | tctl::PSP | 0x10 << tctl::CT_SHIFT | 0x40 << tctl::COLD_SHIFT),
        (reg::TIPG, 10 | 8 << 10 | 6 << 20),
        (reg::RCTL, rctl::EN | rctl::BAM | rctl::SECRC),
        (reg::RDTR, 0),
        (reg::RADV, 0),
        (reg::IMS, cause::RXT0),
        (reg::TDT, 1),
    ] {
        write(&mut rules, offset, value);
    }
    send(&mut rules, 0, [tx(0, 60, GOOD)[0], tx(0, 60, GOOD)[1] | 1 << 32]);
    later(&mut rules);
    let high = ("ring-high-unset", 1);
    let unset = [("slu-missing", 1), ("flow-control-unset", 1)];
    assert_eq!(found(&rules), [unset.as_slice(), &[high, high, ("status-set-on-handover", 1)]].concat());
}

#[test]
fn the_link_must_be_set_up() {
    let mut rules = new();
    steps(&mut rules, |_, value| Some(if value == ctrl::SLU | ctrl::ASDE { ctrl::ASDE } else { value }));
    let mut late = rules.clone();
    write(&mut late, reg::CTRL, ctrl::SLU);
    later(&mut late);
    assert_eq!(found(&late), []);
    let mut by_frame = rules.clone();
    arrive(&mut by_frame, [0xFF; 6], |it| it.disabled += 1);
    assert_eq!(found(&by_frame), [], "the driver may set it later");
    later(&mut by_frame);
    only(&by_frame, Rule::SluMissing);
    later(&mut rules);
    let breach = only(&rules, Rule::SluMissing);
    assert_eq!((&*breach.register, breach.section, breach.value), ("CTRL", "13.4.1", Some(ctrl::ASDE)));
    let mut fibre = Rules::new(&Params { media: Media::Fibre, ..Params::of(Chip::I82545em) }, None);
    steps(&mut fibre, |offset, value| Some(if offset == reg::CTRL { value & ctrl::RST } else { value }));
    later(&mut fibre);
    assert_eq!(found(&fibre), []);
}

#[test]
fn filters() {
    let mut rules = changed(&[(reg::RCTL, rctl::EN)]);
    let mut promiscuous = changed(&[(reg::RCTL, rctl::EN | rctl::MPE)]);
    arrive(&mut rules, [0xFF; 6], |it| it.filtered += 1);
    only(&rules, Rule::BamMissing);
    later(&mut rules);
    assert_eq!(found(&rules), [("bam-missing", 1), ("bam-missing", 1)], "the register, and the frames");
    later(&mut promiscuous);
    let breach = only(&promiscuous, Rule::BamMissing);
    assert!(breach.sentence.contains("RCTL.MPE (bit 4) in place of RCTL.BAM"), "{}", breach.sentence);

    let mut rules = changed(&[(reg::RAH0, 0x0504)]);
    arrive(&mut rules, [2, 0, 0, 3, 4, 9], |it| it.filtered += 1);
    assert_eq!(found(&rules), []);
    arrive(&mut rules, [2, 0, 0, 3, 4, 5], |it| it.filtered += 1);
    only(&rules, Rule::RahAvMissing);

    let mut rules = without(&[reg::mta(5)]);
    later(&mut rules);
    assert!(only(&rules, Rule::MtaNotCleared).sentence.contains("only 127"));

    let mut rules = without(&[reg::FCAH, reg::FCTTV]);
    assert_eq!(found(&rules), []);
    later(&mut rules);
    let breach = only(&rules, Rule::FlowControlUnset);
    assert!(breach.sentence.ends_with("has not written FCAH, FCTTV."));
    assert_eq!((&*breach.register, breach.section), ("FCAH", "14.3"));
    let mut express = Rules::new(&Params::of(Chip::I82574l), None);
    steps(&mut express, |offset, value| (offset != reg::FCAL).then_some(value));
    later(&mut express);
    assert_eq!(found(&express), []);

    only(&changed(&[(reg::RCTL, rctl::EN | rctl::BAM | rctl::BSEX)]), Rule::BufferSizeReserved);
}

#[test]
fn lengths_and_addresses_of_rings() {
    let rules = changed(&[(reg::RDLEN, 200)]);
    let breach = only(&rules, Rule::RingLengthUnaligned);
    assert_eq!((&*breach.access, breach.section), ("RDLEN = 0x000000c8", "13.4.27"));
    assert_eq!(only(&changed(&[(reg::TDLEN, 130)]), Rule::RingLengthUnaligned).section, "13.4.38");
    assert_eq!(only(&changed(&[(reg::TDBAL, 0x2008)]), Rule::RingBaseUnaligned).section, "13.4.36");
    let mut rules = changed(&[(reg::RDLEN, 0)]);
    assert_eq!(found(&rules), []);
    later(&mut rules);
    assert_eq!(only(&rules, Rule::RingEmpty).section, "13.4.27");
    only(&changed(&[(reg::RDLEN, 1 << 17)]), Rule::RingLong);
    only(&changed(&[(reg::RDLEN, 1 << 20 | 128)]), Rule::ReservedBits);
}

#[test]
fn order_of_the_set_up() {
    let mut rules = new();
    write(&mut rules, reg::RCTL, rctl::EN | rctl::BAM);
    steps(&mut rules, |offset, value| (offset != reg::RDH && offset != reg::CTRL).then_some(value));
    assert_eq!(found(&rules)[0], ("receiver-before-ring", 1));

    let mut rules = new();
    write(&mut rules, reg::TCTL, tctl::EN);
    only(&rules, Rule::TransmitterBeforeRing);
    write(&mut rules, reg::TDBAL, 0x1000);
    write(&mut rules, reg::TDLEN, 128);
    only(&rules, Rule::TransmitterBeforeRing);

    let mut rules = ready();
    write(&mut rules, reg::RDLEN, 256);
    assert_eq!(only(&rules, Rule::RingWhileEnabled).section, "13.4.28");
    let mut rules = ready();
    write(&mut rules, reg::TDH, 0);
    assert_eq!(only(&rules, Rule::RingWhileEnabled).section, "13.4.39");

    let mut rules = without(&[reg::CTRL]);
    write(&mut rules, reg::CTRL, ctrl::SLU);
    later(&mut rules);
    only(&rules, Rule::NoReset);
    let mut rules = ready();
    rules.reset();
    write(&mut rules, reg::CTRL, ctrl::SLU);
    write(&mut rules, reg::RDLEN, 128);
    write(&mut rules, reg::RCTL, rctl::EN | rctl::BAM);
    write(&mut rules, reg::RDT, 7);
    only(&rules, Rule::NoReset);

    let mut rules = ready();
    write(&mut rules, reg::RCTL, rctl::BAM);
    write(&mut rules, reg::RCTL, rctl::BAM | rctl::EN);
    assert!(only(&rules, Rule::ReEnabled).sentence.contains("No frame"));
    let mut rules = ready();
    arrive(&mut rules, [0xFF; 6], |_| {});
    write(&mut rules, reg::RCTL, rctl::BAM);
    write(&mut rules, reg::RCTL, rctl::BAM | rctl::EN);
    assert!(only(&rules, Rule::ReEnabled).sentence.contains("Frames had"));
    let mut rules = ready();
    write(&mut rules, reg::RCTL, rctl::BAM);
    rules.reset();
    write(&mut rules, reg::RCTL, rctl::BAM | rctl::EN);
    assert!(found(&rules).iter().all(|(name, _)| *name != Rule::ReEnabled.name()));
}

#[test]
fn tails() {
    assert_eq!(only(&changed(&[(reg::RDT, COUNT)]), Rule::TailBeyondRing).section, "3.2.6");
    let mut rules = ready();
    write(&mut rules, reg::TDT, COUNT);
    assert_eq!(only(&rules, Rule::TailBeyondRing).section, "3.4");

    // The receiver: descriptor 0 comes back and all are handed over.
    let mut rules = ready();
    (0..COUNT - 1).for_each(|index| fetch(&mut rules, RX_RING, index, rx(index)));
    receive(&mut rules, 0);
    let mut passes = rules.clone();
    write(&mut rules, reg::RDT, 1);
    assert_eq!(&*only(&rules, Rule::RingLooksEmpty).register, "RDT");
    write(&mut passes, reg::RDT, 3);
    assert!(only(&passes, Rule::TailPassesHead).sentence.contains(": 2 descriptors"));

    // The transmitter: seven descriptors, of which the card has read the data of two.
    let mut rules = ready();
    write(&mut rules, reg::TDT, COUNT - 1);
    for index in 0..COUNT - 1 {
        fetch(&mut rules, TX_RING, index, tx(index, 60, GOOD));
    }
    (0..2).for_each(|index| rules.loaded(tx(index, 60, GOOD)[0], &[0; 60], None));
    let (mut full, mut passes) = (rules.clone(), rules.clone());
    write(&mut rules, reg::TDT, 1);
    assert_eq!(found(&rules), []);
    write(&mut full, reg::TDT, 2);
    assert_eq!(&*only(&full, Rule::RingLooksEmpty).register, "TDT");
    write(&mut passes, reg::TDT, 5);
    only(&passes, Rule::TailPassesHead);

    // RDT was never written.
    let mut rules = without(&[reg::RDT]);
    later(&mut rules);
    assert_eq!(found(&rules), []);
    arrive(&mut rules, [0xFF; 6], |_| {});
    later(&mut rules);
    only(&rules, Rule::RingLooksEmpty);
}

#[test]
fn descriptors_are_not_touched_while_the_card_has_them() {
    let mut rules = ready();
    fetch(&mut rules, RX_RING, 0, rx(0));
    store(&mut rules, RX_RING, [rx(3)[0], 0], &bytes([rx(0)[0], 3 << 32]));
    assert_eq!(only(&rules, Rule::DescriptorChanged).section, "3.2.6");

    let mut rules = ready();
    write(&mut rules, reg::TDT, 1);
    let words = tx(0, 60, GOOD);
    fetch(&mut rules, TX_RING, 0, words);
    rules.loaded(words[0], &[0; 60], None);
    let mut by_head = rules.clone();
    store(&mut rules, TX_RING + 12, tx(0, 61, GOOD), &[1]);
    assert_eq!(only(&rules, Rule::DescriptorChanged).section, "3.4");
    by_head.read(0, reg::TDH, 1);
    store(&mut by_head, TX_RING + 12, tx(0, 61, GOOD), &[1]);
    assert_eq!(found(&by_head), []);

    let mut rules = ready();
    fetch(&mut rules, RX_RING, 0, [rx(0)[0], 1 << 32]);
    let breach = only(&rules, Rule::StatusSet);
    assert_eq!(&*breach.access, "receive descriptor 0 = 0x0000000000100000 0x0000000100000000");
    let mut rules = ready();
    write(&mut rules, reg::TDT, 1);
    let words = TxLegacy { status: tx_status::DD, ..TxLegacy::unpack(tx(0, 60, GOOD)) }.pack();
    send(&mut rules, 0, words);
    only(&rules, Rule::StatusSet);
}

#[test]
fn descriptors_are_used_again_after_their_report() {
    let mut rules = ready();
    let unreported = |rules: &mut Rules, index: u32| {
        write(rules, reg::TDT, (index + 1) % COUNT);
        let words = tx(index, 60, GOOD);
        fetch(rules, TX_RING, index, words);
        rules.loaded(words[0], &[0; 60], None);
        rules.sent(&[0; 60], true);
    };
    (0..COUNT).for_each(|index| unreported(&mut rules, index));
    assert_eq!(found(&rules), []);
    let mut reported = rules.clone();
    // The report of the second one is about the first one, too.
    store(&mut reported, TX_RING + 16 + 12, tx(1, 60, GOOD), &[1]);
    unreported(&mut reported, 0);
    assert_eq!(found(&reported), []);
    unreported(&mut rules, 0);
    assert_eq!(only(&rules, Rule::ReportNotAwaited).section, "3.3.3.2");
}

#[test]
fn receive_buffers() {
    for (second, part) in [
        (rx(0)[0] + 1521, "receive descriptor 0"),
        (RX_RING, "receive ring"),
        (TX_RING - 1521, "transmit ring"),
    ] {
        let mut rules = ready();
        fetch(&mut rules, RX_RING, 0, rx(0));
        fetch(&mut rules, RX_RING, 1, [second, 0]);
        assert!(only(&rules, Rule::BuffersOverlap).sentence.contains(part));
    }
    // Linux: 1522 bytes are used of 2048, because longer frames are discarded.
    let apart = |control: u32| {
        let mut rules = changed(&[(reg::RCTL, control)]);
        fetch(&mut rules, RX_RING, 0, rx(0));
        fetch(&mut rules, RX_RING, 1, [rx(0)[0] + 1920, 0]);
        rules
    };
    assert_eq!(found(&apart(rctl::EN | rctl::BAM)), []);
    only(&apart(rctl::EN | rctl::BAM | rctl::SBP), Rule::BuffersOverlap);
    only(&apart(rctl::EN | rctl::BAM | rctl::LPE), Rule::BuffersOverlap);
    let mut rules = ready();
    fetch(&mut rules, RX_RING, 0, [0, 0]);
    fetch(&mut rules, RX_RING, 1, rx(0));
    store(&mut rules, RX_RING, [0, 0], &bytes([0, 1 << 32]));
    only(&rules, Rule::NullBuffer);
    let mut rules = ready();
    fetch(&mut rules, RX_RING, 0, rx(0));
    store(&mut rules, RX_RING, rx(0), &bytes([rx(0)[0], 1 << 32 | 2048]));
    only(&rules, Rule::FrameOverBuffers);
}

#[test]
fn transmit_descriptors() {
    let one = |words: [u64; 2]| {
        let mut rules = ready();
        write(&mut rules, reg::TDT, 1);
        send(&mut rules, 0, words);
        rules
    };
    only(&one(tx(0, 42, GOOD)), Rule::TransmitShort);
    only(&one(tx(0, 16289, GOOD)), Rule::TransmitLong);
    assert_eq!(found(&one(tx(0, 16288, GOOD))), []);
    only(&one([0, tx(0, 60, GOOD)[1]]), Rule::TransmitEmpty);
    only(&one(tx(0, 60, GOOD | tx_cmd::RPS)), Rule::DescriptorReserved);
    only(&one([TX_BUFFERS, 60 | 1 << 29 | 2 << 20]), Rule::DescriptorReserved);
    only(&one(tx(0, 60, GOOD | tx_cmd::IDE)), Rule::TidvZero);
    let checksum = |css, cso| TxLegacy { css, cso, ..TxLegacy::unpack(tx(0, 60, GOOD | tx_cmd::IC)) }.pack();
    only(&one(checksum(60, 50)), Rule::ChecksumRange);
    only(&one(checksum(14, 59)), Rule::ChecksumRange);
    assert_eq!(found(&one(checksum(14, 58))), []);
    // A frame of two descriptors, of which the first one alone would be too short.
    let mut rules = ready();
    write(&mut rules, reg::TDT, 2);
    fetch(&mut rules, TX_RING, 0, tx(0, 14, 0));
    fetch(&mut rules, TX_RING, 1, tx(1, 46, GOOD));
    assert_eq!(found(&rules), []);
}

#[test]
fn frames_that_leave() {
    let mut rules = ready();
    write(&mut rules, reg::TDT, 1);
    fetch(&mut rules, TX_RING, 0, tx(0, 60, tx_cmd::EOP | tx_cmd::RS));
    let mut appended = rules.clone();
    appended.sent(&[0; 60], true);
    assert_eq!(found(&appended), [], "software appended the FCS");
    rules.sent(&[0; 56], false);
    assert!(only(&rules, Rule::IfcsMissing).access.starts_with("transmit descriptor 0 = "));

    let cold = 0x40 << tctl::COLD_SHIFT;
    let mut rules = changed(&[(reg::TCTL, tctl::EN | cold)]);
    rules.sent(&[0; 50], true);
    only(&rules, Rule::Runt);
    let mut rules = without(&[reg::TIPG]);
    rules.sent(&[0; 60], true);
    rules.sent(&[0; 60], true);
    assert_eq!(only(&rules, Rule::GapTooShort).value, None);
    let mut rules = changed(&[(reg::TCTL, tctl::EN | tctl::PSP | 0x200 << tctl::COLD_SHIFT)]);
    rules.sent(&[0; 60], true);
    only(&rules, Rule::CollisionDistance);
}

#[test]
fn half_duplex_has_rules_of_its_own() {
    // The findings in half duplex, and in full duplex.
    let found_with = |changes: &[(u32, u32)]| {
        [true, false].map(|is_half| {
            let mut rules = changed(changes);
            let sent = |rules: &mut Rules, since_ps| {
                rules.set_half_duplex(rules.now_ps, is_half);
                rules.tick(rules.now_ps + since_ps);
                rules.sent(&[0; 60], true);
            };
            sent(&mut rules, SETTLED_PS / 2);
            let early = found(&rules);
            assert!(!is_half || early.is_empty(), "the driver has time: {early:?}");
            sent(&mut rules, SETTLED_PS);
            rules.broken().iter().map(|it| it.rule).collect::<Vec<_>>()
        })
    };
    let transmit = |ct: u32, cold: u32| {
        (reg::TCTL, tctl::EN | tctl::PSP | ct << tctl::CT_SHIFT | cold << tctl::COLD_SHIFT)
    };
    for right in [transmit(0x0F, 0x40), transmit(0x10, 0x3F), (reg::TIPG, 0x00A0_280A)] {
        assert_eq!(found_with(&[right]), [vec![], vec![]], "{right:x?}");
    }
    assert_eq!(found_with(&[transmit(0x10, 0x200)]), [vec![], vec![Rule::CollisionDistance]]);
    assert_eq!(found_with(&[transmit(0, 0x40)]), [vec![Rule::HalfDuplexCollisions], vec![]]);
    let neither = found_with(&[transmit(0, 0)]);
    assert_eq!(neither, [vec![Rule::HalfDuplexCollisions], vec![Rule::CollisionDistance]]);
    for gap in [0x000A, 0x0060_000A, 0x0000_200A] {
        assert_eq!(found_with(&[(reg::TIPG, gap)]), [vec![Rule::HalfDuplexGap], vec![]], "{gap:#x}");
    }
    let control = ctrl::SLU | ctrl::ASDE;
    let mut rules = ready();
    write(&mut rules, reg::CTRL, control | ctrl::TFCE);
    let mut obeys = rules.clone();
    write(&mut obeys, reg::CTRL, control | ctrl::RFCE);
    for rules in [&mut rules, &mut obeys] {
        rules.set_half_duplex(rules.now_ps, true);
        rules.tick(rules.now_ps + SETTLED_PS);
        rules.sent(&[0; 60], true);
    }
    only(&rules, Rule::HalfDuplexPause);
    assert_eq!(found(&obeys), []);
}

#[test]
fn without_reports() {
    let run = |rules: &mut Rules| {
        for index in 0..COUNT {
            write(rules, reg::TDT, (index + 1) % COUNT);
            send(rules, index, tx(index, 60, tx_cmd::EOP | tx_cmd::IFCS));
        }
    };
    let mut rules = ready();
    let (mut head, mut empty) = (rules.clone(), rules.clone());
    run(&mut rules);
    only(&rules, Rule::NoReport);
    head.read(0, reg::TDH, 0);
    run(&mut head);
    write(&mut empty, reg::IMS, cause::TXQE);
    run(&mut empty);
    assert_eq!((found(&head), found(&empty)), (vec![], vec![]));
}

#[test]
fn memory_that_is_not_there() {
    let mut rules = ready();
    (0..3).for_each(|_| rules.loaded(RX_RING, &[0; 64], Some(Abort::NoMemory)));
    rules.loaded(0xDEAD_0000, &[0; 60], Some(Abort::NoMemory));
    rules.stored(0xBEEF_0000, &[0; 60], Some(Abort::NotMaster));
    let broken = rules.broken();
    assert_eq!(found(&rules), [("dma-to-nowhere", 3), ("dma-to-nowhere", 1), ("not-bus-master", 1)]);
    let places: Vec<_> = broken.iter().map(|it| &*it.register).collect();
    assert_eq!(places, ["receive descriptors", "transmit data", "receive data"]);
    assert!(broken[1].sentence.contains("60 bytes at 0xdead0000"), "{}", broken[1].sentence);
}

#[test]
fn interrupts() {
    let mut rules = ready();
    rules.interrupt(true);
    let mut masked = rules.clone();
    later(&mut rules);
    assert!(only(&rules, Rule::InterruptHeld).sentence.contains("never read ICR"));
    write(&mut masked, reg::IMC, u32::MAX);
    masked.interrupt(false);
    later(&mut masked);
    only(&masked, Rule::IcrNeverRead);

    let mut rules = ready();
    (0..=POLLS).for_each(|_| rules.read(0, reg::ICR, 0));
    only(&rules, Rule::IcrPolled);
    let mut rules = ready();
    (0..POLLS).for_each(|_| arrive(&mut rules, [0xFF; 6], |_| {}));
    (0..2 * POLLS).for_each(|_| rules.read(0, reg::ICR, 0));
    assert_eq!(found(&rules), []);
}

#[test]
fn accesses() {
    let mut rules = new();
    rules.access(reg::ICR, 1);
    rules.access(reg::ICR + 1, 4);
    rules.access(reg::ICR, 8);
    rules.access(reg::RAL0, 8);
    rules.access(reg::ICR, 4);
    assert_eq!(found(&rules), [("width", 3)]);
    let mut rules = new();
    write(&mut rules, reg::RCTL, 1);
    write(&mut rules, reg::RCTL, 1);
    assert_eq!((found(&rules), rules.broken()[0].section), (vec![("reserved-bits", 2)], "13.4.22"));
    let mut rules = new();
    write(&mut rules, 0x40, 7);
    write(&mut rules, reg::MANC, 7);
    write(&mut rules, 0x5838, 0);
    assert_eq!(&*only(&rules, Rule::NoRegister).register, "0x00040");
    let mut rules = new();
    rules.read(0, reg::SWSM, 0);
    rules.read(0, reg::MANC, 0);
    only(&rules, Rule::NoRegisterRead);
}

/// A small generator of random numbers (xorshift).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn one_of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.next() as usize % all.len()]
    }

    /// A number that is likely to matter: small, at a limit, or any.
    fn number(&mut self) -> u64 {
        let number = self.next();
        match number >> 60 {
            0..=5 => number & 0xF,
            6..=8 => number & 0xFFF0,
            9 => u64::MAX,
            10 => u64::MAX - (number & 0xFF),
            11 => u64::from(u32::MAX),
            _ => number & 0xFFFF_FFFF,
        }
    }
}

#[test]
fn a_hostile_guest_neither_breaks_nor_fills_the_rules() {
    let offsets = [
        reg::CTRL,
        reg::RCTL,
        reg::TCTL,
        reg::RDBAL,
        reg::RDBAH,
        reg::RDLEN,
        reg::RDH,
        reg::RDT,
        reg::TDBAL,
        reg::TDBAH,
        reg::TDLEN,
        reg::TDH,
        reg::TDT,
        reg::ICR,
        reg::IMS,
        reg::IMC,
        reg::RAL0,
        reg::RAH0,
        reg::TIDV,
    ];
    for seed in 1..=24u64 {
        let mut random = Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15));
        let media = random.one_of(&[Media::Copper, Media::Fibre]);
        let mut rules = Rules::new(&Params { media, ..Params::of(random.one_of(&Chip::E1000)) }, None);
        let mut before = 0;
        for step in 0..6000u32 {
            let now_ps = random.number().wrapping_mul(1 << (random.next() % 20));
            let (a, b) = (random.number(), random.number());
            let abort = random.one_of(&[None, None, None, Some(Abort::NoMemory), Some(Abort::NotMaster)]);
            let data = vec![a as u8; random.one_of(&[0, 1, 3, 15, 16, 32, 60, 64, 80, 2048])];
            // Often the next descriptor of a ring, so that rings are followed.
            let base =
                |low: u32, random: &mut Random| u64::from(low & !0xF).wrapping_add(random.number() % 64 * 16);
            let address = match random.next() % 4 {
                0 => base(0x1000, &mut random),
                1 => base(0x2000, &mut random) + 12,
                _ => b,
            };
            match random.next() % 12 {
                0 => rules.access(a as u32, data.len()),
                1 => rules.read(now_ps, (a as u32 % reg::WINDOW_BYTES) & !3, b as u32),
                2..=5 => {
                    let value = random.one_of(&[b as u32, 0x1000, 0x2000, 128, 2, 1 << 26, u32::MAX]);
                    rules.write(now_ps, random.one_of(&offsets), value);
                }
                6 => rules.write(now_ps, (a as u32 % reg::WINDOW_BYTES) & !3, b as u32),
                7 => rules.loaded(address, &data, abort),
                8 => {
                    if rules.is_write_back(address, data.len()) {
                        rules.write_back(address, &data);
                    }
                    rules.stored(address, &data, abort);
                }
                9 => rules.sent(&data, a & 1 != 0),
                10 => {
                    let after = Dropped { filtered: a & 1, disabled: b & 1, ..Dropped::default() };
                    rules.arrived(now_ps, &data, &Dropped::default(), &after);
                }
                _ => rules.interrupt(a & 1 != 0),
            }
            if step % 500 == 0 {
                let broken = rules.broken();
                let sum = broken.iter().map(|it| it.count).sum();
                assert!(sum >= before, "counts only grow");
                before = sum;
                assert!(broken.len() <= 512 + Rule::ALL.len(), "{}", broken.len());
                assert!(broken.iter().all(|it| it.sentence.len() + it.access.len() < 1000));
            }
        }
        assert!(rules.receive.held().count() <= 64 && rules.transmit.held().count() <= 64);
        assert!(before > 0);
    }
}

#[test]
fn the_upper_half_of_an_address_is_written() {
    let mut rules = without(&[reg::RDBAH]);
    later(&mut rules);
    let breach = only(&rules, Rule::RingHighUnset);
    assert_eq!((&*breach.register, breach.section), ("RDBAH", "13.4.26"));
    // It keeps its value in a reset (SDM 14.7).
    let mut rules = ready();
    steps(&mut rules, |offset, value| (offset != reg::RDBAH).then_some(value));
    later(&mut rules);
    assert!(!found(&rules).iter().any(|(name, _)| *name == "ring-high-unset"), "{:?}", found(&rules));
}

#[test]
fn heads_are_read_after_each_frame() {
    let mut rules = ready();
    let mut watchdog = rules.clone();
    for at in 0..u32::try_from(MOVES).unwrap() {
        for driver in [&mut rules, &mut watchdog] {
            arrive(driver, [2, 0, 0, 3, 4, 5], |_| {});
        }
        for _ in 0..3 {
            rules.read(0, reg::RDH, 1);
        }
        if at % 2 == 0 {
            watchdog.read(0, reg::RDH, 1);
        }
        for driver in [&mut rules, &mut watchdog] {
            write(driver, reg::RDT, COUNT - 1);
        }
    }
    let [breach] = &rules.broken()[..] else { panic!("{:?}", found(&rules)) };
    assert_eq!((breach.rule, &*breach.register), (Rule::HeadForDone, "RDH"));
    assert_eq!(found(&watchdog), []);
}

#[test]
fn interrupts_that_stay_masked() {
    let masked = |frames: u32, after: &dyn Fn(&mut Rules)| {
        let mut rules = ready();
        rules.interrupt(true);
        rules.read(0, reg::ICR, cause::RXT0);
        write(&mut rules, reg::IMC, u32::MAX);
        rules.interrupt(false);
        (0..frames).for_each(|_| arrive(&mut rules, [2, 0, 0, 3, 4, 5], |_| {}));
        after(&mut rules);
        later(&mut rules);
        rules
    };
    only(&masked(3, &|_| {}), Rule::LeftMasked);
    assert_eq!(found(&masked(0, &|_| {})), [], "nothing to do");
    assert_eq!(found(&masked(3, &|rules| write(rules, reg::IMS, cause::RXT0))), []);
    assert_eq!(found(&masked(3, &|rules| write(rules, reg::RDT, COUNT - 1))), [], "it polls");
}

#[test]
fn a_frame_without_an_end() {
    let mut rules = ready();
    write(&mut rules, reg::TDT, 1);
    send(&mut rules, 0, tx(0, 60, tx_cmd::IFCS | tx_cmd::RS));
    assert!(rules.is_pending());
    let mut ended = rules.clone();
    later(&mut rules);
    only(&rules, Rule::EopMissing);
    assert!(!rules.is_pending());
    write(&mut ended, reg::TDT, 2);
    let mut waits = ended.clone();
    later(&mut waits);
    assert_eq!(found(&waits), [], "the card has not fetched the rest");
    send(&mut ended, 1, tx(1, 60, GOOD));
    later(&mut ended);
    assert_eq!(found(&ended), []);
}

/// An 82574L set up by the manual of the 8254x, with extended descriptors.
fn express() -> Rules {
    let mut rules = Rules::new(&Params::of(Chip::I82574l), None);
    steps(&mut rules, |_, value| Some(value));
    write(&mut rules, reg::RFCTL, rfctl::EXSTEN);
    rules
}

#[test]
fn what_only_the_manual_of_the_8254x_says_is_not_judged_on_the_82574l() {
    let mut rules = Rules::new(&Params::of(Chip::I82574l), None);
    // TIPG has an initial value; these bits and registers exist there.
    steps(&mut rules, |offset, value| (offset != reg::TIPG).then_some(value));
    for (offset, value) in [(reg::IVAR, 0x800A_0908), (reg::IMS, 0x01F0_0004), (0x5B50, 1), (0x3940, 1)] {
        write(&mut rules, offset, value);
    }
    write(&mut rules, reg::TCTL, tctl::EN | tctl::PSP | 0x40 << tctl::COLD_SHIFT | 0x3000_0000);
    rules.read(0, 0x4100, 0);
    // 17 bytes before padding, IDE while TIDV is 0, and a time stamp.
    write(&mut rules, reg::TDT, 1);
    let [address, word] = tx(0, 17, GOOD | tx_cmd::IDE);
    send(&mut rules, 0, [address, word | 1 << 36]);
    later(&mut rules);
    assert_eq!(found(&rules), []);
    write(&mut rules, reg::TDT, 2);
    send(&mut rules, 1, tx(1, 16, GOOD));
    let breach = only(&rules, Rule::TransmitShort);
    assert!(breach.sentence.contains("17 are the least"), "{}", breach.sentence);
    // A receiver that is enabled again, and FLXBUF in place of BSIZE.
    let mut rules = express();
    receive(&mut rules, 0);
    write(&mut rules, reg::RCTL, rctl::BAM);
    write(&mut rules, reg::RCTL, rctl::EN | rctl::BAM | rctl::BSEX | 2 << 27);
    assert_eq!(found(&rules), []);
}

#[test]
fn extended_descriptors_have_their_results_elsewhere() {
    use kpps_datasheet::desc::extended::Writeback;
    let done = |status: u8, length: u16| {
        let status = u32::from(status);
        Writeback { rss: 0x1234_5678, status, length, ..Writeback::default() }.pack()
    };
    let mut rules = express();
    // The driver leaves length and VLAN of an old frame; only the status counts.
    let old = done(0, 60)[1];
    fetch(&mut rules, RX_RING, 0, [rx(0)[0], old]);
    fetch(&mut rules, RX_RING, 1, rx(1));
    let whole = done(rx_status::DD | rx_status::EOP, 60);
    store(&mut rules, RX_RING, [rx(0)[0], old], &bytes(whole));
    assert_eq!(found(&rules), []);
    store(&mut rules, RX_RING + 16, rx(1), &bytes(done(rx_status::DD, 2048)));
    only(&rules, Rule::FrameOverBuffers);
    let mut rules = express();
    fetch(&mut rules, RX_RING, 0, [rx(0)[0], whole[1]]);
    only(&rules, Rule::StatusSet);
    // Descriptors with several buffers have 32 bytes: what they hold is not judged.
    let mut rules = express();
    write(&mut rules, reg::RCTL, rctl::EN | rctl::BAM | express::rctl::DTYP_SPLIT);
    fetch(&mut rules, RX_RING, 0, [0, u64::MAX]);
    fetch(&mut rules, RX_RING, 1, [rx(0)[0], rx(0)[0]]);
    assert_eq!(found(&rules), []);
}

#[test]
fn values_of_single_registers() {
    for (offset, value, rule) in [
        (reg::EECD, 1, Rule::FlashWriteEnable),
        (reg::EECD, 0x31, Rule::FlashWriteEnable),
        (reg::CTRL, ctrl::SLU | ctrl::ILOS, Rule::IlosSet),
        (reg::CTRL, ctrl::SLU | 1 << 13, Rule::ReservedBits),
        (reg::RAH0 + 8, 1 << 20, Rule::ReservedBits),
        (reg::RXCW, 0, Rule::ReadOnly),
        (reg::STATUS, 0, Rule::ReadOnly),
        (0x4010, 0, Rule::ReadOnly),
    ] {
        let mut rules = ready();
        write(&mut rules, offset, value);
        only(&rules, rule);
    }
    let mut rules = ready();
    write(&mut rules, reg::EECD, 0x11);
    write(&mut rules, reg::EECD, 0x20);
    assert_eq!(found(&rules), []);
    let fibre = Params { media: Media::Fibre, ..Params::of(Chip::I82545em) };
    let mut rules = Rules::new(&fibre, None);
    write(&mut rules, reg::CTRL, ctrl::ILOS);
    assert_eq!(found(&rules), []);
}

#[test]
fn the_receiver_s_modes() {
    let on = rctl::EN | rctl::BAM;
    let mut rules = changed(&[(reg::RCTL, on | 1 << 6)]);
    later(&mut rules);
    assert_eq!(only(&rules, Rule::Loopback).section, "14.4");
    let mut rules = changed(&[(reg::RCTL, on | rctl::VFE)]);
    let mut written = rules.clone();
    later(&mut rules);
    only(&rules, Rule::VftaNotWritten);
    (0..128).for_each(|at| write(&mut written, reg::VFTA + 4 * at, 0));
    later(&mut written);
    assert_eq!(found(&written), []);
}

#[test]
fn a_station_is_known_by_its_own_address() {
    let arp = |station: Mac| {
        let mut frame = vec![0; 60];
        frame[6..12].copy_from_slice(&station.0);
        frame[12..14].copy_from_slice(&ethernet::TYPE_ARP.to_be_bytes());
        let message = arp::Message::request(station, [10, 0, 2, 15].into(), [10, 0, 2, 2].into());
        frame[14..42].copy_from_slice(&message.to_bytes());
        frame
    };
    let (own, other) = (Mac([2, 0, 0, 0, 0, 1]), Mac([2, 0, 0, 0, 0, 2]));
    let with = |registers: &[(u32, u32)], station| {
        let mut rules = ready();
        rules.station = Some(own);
        rules.epoch.addresses = Default::default();
        registers.iter().for_each(|(offset, value)| write(&mut rules, *offset, *value));
        rules.sent(&arp(station), true);
        rules
    };
    assert_eq!(found(&with(&[], own)), []);
    assert!(only(&with(&[], other), Rule::StationAddress).sentence.contains("02:00:00:00:00:02"));
    let second = [(reg::RAL0 + 8, 2), (reg::RAH0 + 8, 0x8000_0200)];
    assert_eq!(found(&with(&second, other)), [], "a second address");
    let promiscuous = [(reg::RCTL, rctl::EN | rctl::BAM | rctl::UPE)];
    assert_eq!(found(&with(&promiscuous, other)), [], "a bridge");
    // A frame that another station has sent.
    let mut rules = ready();
    let mut frame = arp(other);
    frame[6] = 4;
    rules.sent(&frame, true);
    assert_eq!(found(&rules), []);
}

#[test]
fn a_full_ring_is_emptied() {
    let mut rules = ready();
    for index in 0..COUNT - 1 {
        fetch(&mut rules, RX_RING, index, rx(index));
        receive(&mut rules, index);
    }
    arrive(&mut rules, [2, 0, 0, 3, 4, 5], |_| {});
    let mut emptied = rules.clone();
    later(&mut rules);
    only(&rules, Rule::FramesNotTaken);
    write(&mut emptied, reg::RDT, 0);
    later(&mut emptied);
    assert_eq!(found(&emptied), []);
}

#[test]
fn bit_22_is_no_reset_and_an_eeprom_may_set_the_link_up() {
    let mut rules = Rules::new(&Params { slu_at_reset: true, ..Params::of(Chip::I82540em) }, None);
    write(&mut rules, reg::CTRL, ctrl::SLU | NOT_RESET);
    steps(&mut rules, |offset, value| (offset != reg::CTRL).then_some(value));
    let breach = only(&rules, Rule::NoReset);
    assert!(breach.sentence.contains("bit 22") && breach.value == Some(ctrl::SLU | NOT_RESET), "{breach:?}");
    later(&mut rules);
    assert!(!rules.has_no_link() && found(&rules).len() == 1, "{:?}", found(&rules));
}

#[test]
fn writes_in_a_reset_are_lost_and_no_other_rule_is_broken_by_them() {
    let mut rules = Rules::new(&Params::of(Chip::I82540em), None);
    write(&mut rules, reg::CTRL, ctrl::RST);
    rules.write_in_reset(0, reg::CTRL, u32::MAX);
    steps(&mut rules, |offset, value| (offset != reg::CTRL).then_some(value));
    later(&mut rules);
    only(&rules, Rule::AccessInReset);
}
