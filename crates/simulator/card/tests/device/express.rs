//! The 82574: extended receive descriptors, and the registers by which a driver brings it up.

use crate::bench::*;
use kpps_datasheet::bit::{cause, ctrl, eerd, rctl, rxcsum as sums};
use kpps_datasheet::desc::extended::Writeback;
use kpps_datasheet::desc::{rx_error, rx_status};
use kpps_datasheet::eeprom::{self, SUMMED_WORDS};
use kpps_datasheet::express::{self, eecd, rfctl, rxcsum, status};
use kpps_datasheet::{Chip, reg};

fn ready() -> Bench {
    Bench::ready(Bench::params(Chip::I82574l), 64)
}

fn extended(b: &Bench, i: u64) -> Writeback {
    Writeback::unpack([b.m.word(RX_RING + 16 * i), b.m.word(RX_RING + 16 * i + 8)])
}

#[test]
fn extended_descriptors_have_results_in_both_words() {
    let mut b = ready();
    b.set(reg::RFCTL, rfctl::EXSTEN);
    b.set(reg::RXCSUM, sums::IPOFLD);
    b.arrive(&frame(1, 60));
    b.nic.bad_frame_arrives(b.now, &frame(2, 60), &mut b.m);
    b.pass(1_000 * US);
    let good = extended(&b, 0);
    let whole = u32::from(rx_status::DD | rx_status::EOP | rx_status::IXSM);
    assert_eq!((good.status, good.errors, good.length), (whole, 0, 60));
    // The packet checksum is where the hash would be.
    assert_eq!((good.mrq, good.rss & 0xFFFF, good.rss != 0), (0, 0, true));
    assert_eq!(b.rx_bytes(0, 60), &frame(1, 60)[..]);
    // A frame with a wrong FCS is not stored unless RCTL.SBP asks for it.
    assert_eq!(extended(&b, 1).status, 0);
    let control = b.get(reg::RCTL);
    b.set(reg::RCTL, control | rctl::SBP);
    b.nic.bad_frame_arrives(b.now, &frame(2, 60), &mut b.m);
    b.set(reg::RXCSUM, sums::IPOFLD | rxcsum::PCSD);
    b.pass(1_000 * US);
    let bad = extended(&b, 1);
    assert_eq!((bad.status & 3, bad.errors, bad.rss), (3, u16::from(rx_error::CE) << 4, 0));
}

#[test]
fn a_frame_of_several_extended_descriptors_ends_in_the_last() {
    let mut b = ready();
    b.set(reg::RFCTL, rfctl::EXSTEN);
    let control = b.get(reg::RCTL);
    b.set(reg::RCTL, control | rctl::LPE);
    b.arrive(&frame(1, 5000));
    b.pass(1_000 * US);
    let parts: Vec<_> = (0..4).map(|i| (extended(&b, i).length, extended(&b, i).status & 3)).collect();
    assert_eq!(parts, [(2048, 1), (2048, 1), (904, 3), (extended(&b, 3).length, 0)]);
}

#[test]
fn it_is_brought_up_as_its_predecessors_are_not() {
    let mut b = ready();
    assert_ne!(b.get(reg::EECD) & eecd::AUTO_RD, 0);
    let mut word = |address: u32| {
        b.set(reg::EERD, eerd::START | address << express::eerd::ADDR_SHIFT);
        assert_eq!(b.get(reg::EERD) & express::eerd::DONE, 0);
        b.pass(50 * US);
        let value = b.get(reg::EERD);
        assert_ne!(value & express::eerd::DONE, 0);
        (value >> eerd::DATA_SHIFT) as u16
    };
    let words: [u16; SUMMED_WORDS] = std::array::from_fn(|address| word(address as u32));
    assert!(eeprom::is_valid(&words));
    assert_eq!(eeprom::address([words[0], words[1], words[2]]), MAC);
    assert_eq!(word(SUMMED_WORDS as u32), 0xFFFF, "there are no more");
    let before = b.get(reg::CTRL);
    assert_ne!(b.get(reg::STATUS) & status::MASTER_ENABLE, 0);
    b.set(reg::CTRL, before | express::ctrl::MASTER_DISABLE);
    assert_eq!(b.get(reg::STATUS) & status::MASTER_ENABLE, 0);
    for offset in [reg::EXTCNF_CTRL, reg::GCR, reg::IVAR, reg::TARC0, reg::RFCTL, reg::MRQC] {
        b.set(offset, 0x20);
        assert_eq!(b.get(offset), 0x20, "{offset:#x}");
        let mut older = Bench::ready(Bench::params(Chip::I82546eb), 64);
        older.set(offset, 0x20);
        assert_eq!(older.get(offset), 0, "{offset:#x}");
    }
    b.set(reg::CTRL, before | ctrl::RST);
    assert_eq!((b.get(reg::RFCTL), b.get(reg::IVAR)), (0, 0));
    // 40 KB of packet buffer, divided by the kilobyte.
    b.set(reg::PBA, 30);
    assert_eq!(b.get(reg::PBA), 10 << 16 | 30);
}

#[test]
fn its_causes_say_that_an_interrupt_is_asserted() {
    let mut b = ready();
    b.set(reg::IMC, u32::MAX);
    b.set(reg::ICS, cause::LSC | cause::RXSEQ);
    assert_eq!(b.get(reg::ICR), cause::LSC, "masked, and no framing errors without fibre");
    b.set(reg::IMS, cause::LSC);
    b.set(reg::ICS, cause::LSC);
    assert!(b.nic.interrupt_line());
    assert_eq!(b.get(reg::ICR), cause::LSC | express::cause::ASSERTED);
    assert_eq!((b.get(reg::ICR), b.nic.interrupt_line()), (0, false));
}
