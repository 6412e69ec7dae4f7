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
    assert_eq!(b.get(reg::ICR), cause::LSC | cause::RXSEQ, "masked: no interrupt is asserted");
    b.set(reg::IMS, cause::LSC);
    b.set(reg::ICS, cause::LSC);
    assert!(b.nic.interrupt_line());
    assert_eq!(b.get(reg::ICR), cause::LSC | express::cause::ASSERTED);
    assert_eq!((b.get(reg::ICR), b.nic.interrupt_line()), (0, false));
}

#[test]
fn messages_of_vectors_mask_causes_and_wait() {
    use express::cause::{ASSERTED, OTHER, RXQ0, TXQ0};
    use express::ctrl_ext::{EIAME, IAME};
    let mut b = ready();
    b.set(reg::IMC, u32::MAX);
    b.get(reg::ICR);
    b.nic.set_vectors(b.now, true);
    b.set(reg::IVAR, 0xA_0908);
    b.set(reg::EIAC, RXQ0 | TXQ0);
    b.set(reg::CTRL_EXT, EIAME);
    b.set(reg::IMS, RXQ0 | TXQ0 | OTHER);
    b.nic.take_vectors();
    // A frame that is written back fires the receive vector, which masks its cause.
    b.arrive(&frame(1, 60));
    b.pass(2_000 * US);
    assert_eq!((b.nic.take_vectors(), b.nic.interrupt_line()), (0b1, false));
    assert_eq!((b.get(reg::IMS), b.get(reg::ICR)), (TXQ0 | OTHER, 0));
    b.arrive(&frame(1, 60));
    b.pass(2_000 * US);
    assert_eq!(b.nic.take_vectors(), 0);
    b.set(reg::IMS, RXQ0);
    assert_eq!(b.nic.take_vectors(), 0b1);
    // With the causes in IAM nothing is masked.
    b.set(reg::IAM, RXQ0);
    b.set(reg::IMS, RXQ0);
    b.set(reg::ICS, RXQ0);
    assert_eq!((b.nic.take_vectors(), b.get(reg::IMS)), (0b1, RXQ0 | TXQ0 | OTHER));
    // Loss of the link is another cause. EITR keeps its vector quiet.
    for offset in (0..5).map(reg::eitr) {
        b.set(offset, 0x1_0000 | 500);
        assert_eq!(b.get(offset), 500);
    }
    b.set(reg::IMS, cause::LSC);
    b.nic.set_link(b.now, false);
    assert_eq!(b.nic.take_vectors(), 0b100);
    assert_eq!(b.get(reg::ICR), cause::LSC | OTHER | ASSERTED);
    b.set(reg::ICS, cause::LSC);
    assert_eq!(b.nic.take_vectors(), 0);
    b.pass(128 * US);
    assert_eq!(b.nic.take_vectors(), 0b100);
    // CTRL.RST leaves MSI-X enabled. With one interrupt, a read of ICR masks the causes in IAM.
    b.set(reg::CTRL, ctrl::RST);
    assert_eq!((b.get(reg::IVAR), b.get(reg::EITR0)), (0, 0));
    b.set(reg::IMS, cause::LSC);
    b.set(reg::ICS, cause::LSC);
    assert!(!b.nic.interrupt_line());
    b.nic.set_vectors(b.now, false);
    assert!(b.nic.interrupt_line());
    b.set(reg::CTRL_EXT, IAME);
    b.set(reg::IAM, cause::LSC);
    assert_eq!((b.get(reg::ICR), b.get(reg::IMS)), (cause::LSC | OTHER | ASSERTED, 0));
    // No other chip has vectors.
    let mut older = Bench::ready(Bench::params(Chip::I82546eb), 64);
    older.nic.set_vectors(older.now, true);
    older.set(reg::IVAR, u32::MAX);
    older.set(reg::EITR0, 500);
    assert_eq!((older.nic.take_vectors(), older.get(reg::EITR0)), (0, 0));
}
