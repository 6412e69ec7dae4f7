//! Receive filters (SDM 3.2.1, 13.5).

use crate::case::{CaseResult, Entry, Verdict, check_eq};
use crate::oracle::{BROADCAST, PEER, plain};
use crate::rig::Rig;
use crate::{Failure, Fixture, departure};
use kpps_datasheet::bit::{rah, rctl};
use kpps_datasheet::reg;

/// Another station address.
const OTHER: [u8; 6] = [0x02, 0, 0, 0, 0, 0x77];
/// Three multicast addresses: the first two have the same hash, the third has another. The hash consists of
/// 12 bits of the address, which begin at bit 36 (SDM 13.5.1, RCTL.MO = 0).
const GROUP_A: [u8; 6] = [0x01, 0x00, 0x5e, 0x00, 0x12, 0x34];
const GROUP_A_TWIN: [u8; 6] = [0x01, 0x80, 0xc2, 0x55, 0x1f, 0x34];
const GROUP_B: [u8; 6] = [0x01, 0x00, 0x5e, 0x00, 0x56, 0x78];

pub(super) fn cases<B: Fixture>() -> Vec<Entry<B>> {
    vec![
        ("filter: own address and broadcast only", own_and_broadcast),
        ("filter: every receive address entry", every_entry),
        ("filter: another station address", changed_address),
        ("filter: multicast hash", multicast_hash),
        ("filter: multicast hash, every bit", multicast_every_bit),
        ("filter: multicast hash at all four offsets", multicast_offsets),
        ("filter: all multicast", all_multicast),
        ("filter: promiscuous", promiscuous),
        ("filter: broadcast refused", broadcast_refused),
        ("filter: broadcast refused among all multicasts", broadcast_refused_among_multicasts),
    ]
}

/// Injects a frame to each address and returns the destination addresses of the frames that arrive.
fn arriving<B: Fixture>(rig: &mut Rig<'_, B>, to: &[[u8; 6]]) -> Result<Vec<[u8; 6]>, Failure> {
    for (index, &to) in to.iter().enumerate() {
        rig.fixture.inject(&plain(to, PEER, 60 + index % 100, index))?;
    }
    let mut addresses = Vec::new();
    for frame in rig.received_all()? {
        let address = frame.bytes.first_chunk::<6>().ok_or("a frame without an address")?;
        addresses.push(*address);
    }
    Ok(addresses)
}

fn own_and_broadcast<B: Fixture>(fixture: &mut B) -> CaseResult {
    let own = fixture.address();
    let mut rig = Rig::open(fixture, |config| config.promiscuous = false)?;
    let mut near = own;
    near[5] ^= 1;
    let mut far = own;
    far[0] ^= 4;
    let found = arriving(&mut rig, &[own, OTHER, BROADCAST, near, GROUP_A, far, own])?;
    check_eq!(found, vec![own, BROADCAST, own], "addresses that passed");
    Ok(Verdict::Pass)
}

/// All entries of the receive address table except the first, which has the station's address (SDM 13.5.2).
fn every_entry<B: Fixture>(fixture: &mut B) -> CaseResult {
    let mut rig = Rig::open(fixture, |config| config.promiscuous = false)?;
    let address = |entry: u32| [0x02, 0xaa, 0, 0, 0, entry as u8];
    for entry in 1..reg::RAR_ENTRIES {
        rig.control.set_unicast(entry, Some(address(entry)))?;
    }
    let all: Vec<_> = (1..reg::RAR_ENTRIES).map(address).collect();
    check_eq!(arriving(&mut rig, &all)?, all, "addresses that passed");
    for entry in (1..reg::RAR_ENTRIES).step_by(2) {
        rig.control.set_unicast(entry, None)?;
    }
    let even: Vec<_> = (2..reg::RAR_ENTRIES).step_by(2).map(address).collect();
    check_eq!(arriving(&mut rig, &all)?, even, "addresses that passed, half of them freed");
    for entry in 1..reg::RAR_ENTRIES {
        rig.control.set_unicast(entry, None)?;
    }
    Ok(Verdict::Pass)
}

fn changed_address<B: Fixture>(fixture: &mut B) -> CaseResult {
    let own = fixture.address();
    let mut rig = Rig::open(fixture, |config| config.promiscuous = false)?;
    rig.control.set_address(OTHER)?;
    check_eq!(arriving(&mut rig, &[own, OTHER])?, vec![OTHER], "addresses that passed");
    Ok(Verdict::Pass)
}

/// The card accepts a multicast frame if the bit of its hash is set (SDM 13.5.1).
fn multicast_hash<B: Fixture>(fixture: &mut B) -> CaseResult {
    let mut rig = Rig::open(fixture, |config| config.promiscuous = false)?;
    rig.control.set_multicast(&[GROUP_A]);
    let found = arriving(&mut rig, &[GROUP_B, GROUP_A, GROUP_A_TWIN, OTHER])?;
    check_eq!(found, vec![GROUP_A, GROUP_A_TWIN], "addresses that passed");
    rig.control.set_multicast(&[GROUP_B]);
    let found = arriving(&mut rig, &[GROUP_B, GROUP_A, GROUP_A_TWIN])?;
    check_eq!(found, vec![GROUP_B], "addresses that passed");
    rig.control.set_multicast(&[]);
    check_eq!(arriving(&mut rig, &[GROUP_A, GROUP_B])?, Vec::<[u8; 6]>::new(), "addresses that passed");
    Ok(Verdict::Pass)
}

/// All 4096 bits of the table. Each of the 16 steps sets every sixteenth bit: two bits in each register. The
/// bits beside them are clear, and frames with such a hash must not arrive.
fn multicast_every_bit<B: Fixture>(fixture: &mut B) -> CaseResult {
    let mut rig = Rig::open(fixture, |config| config.promiscuous = false)?;
    // An address whose hash is `hash`.
    let address = |hash: u16| [0x01, 0, 0, 0, (hash << 4) as u8, (hash >> 4) as u8];
    for step in 0..16_u16 {
        let chosen: Vec<_> = (0..4096).filter(|hash| hash % 16 == step).map(address).collect();
        rig.control.set_multicast(&chosen);
        let mut tried = Vec::new();
        let mut expected = Vec::new();
        for hash in (step..4096).step_by(16) {
            tried.push(address(hash));
            expected.push(address(hash));
            tried.push(address(hash ^ 1));
            tried.push(address(hash ^ 8));
        }
        for (tried, expected) in tried.chunks(192).zip(expected.chunks(64)) {
            check_eq!(arriving(&mut rig, tried)?, expected.to_vec(), "addresses that passed");
        }
    }
    rig.control.set_multicast(&[]);
    Ok(Verdict::Pass)
}

/// RCTL.MO selects the first of the twelve bits of the hash: bit 36, 35, 34 or 32 of the address (SDM
/// 13.4.22).
fn multicast_offsets<B: Fixture>(fixture: &mut B) -> CaseResult {
    let mut rig = Rig::open(fixture, |config| config.promiscuous = false)?;
    let control = rig.regs.read(reg::RCTL);
    for (offset, shift) in [(0, 4), (1, 3), (2, 2), (3, 0)] {
        let high = u32::from(GROUP_A[5]) << 8 | u32::from(GROUP_A[4]);
        let hash = high >> shift & 0xfff;
        for row in 0..reg::MTA_WORDS {
            rig.regs.write(reg::mta(row), if row == hash >> 5 { 1 << (hash & 31) } else { 0 });
        }
        rig.regs.write(reg::RCTL, control | offset << rctl::MO_SHIFT);
        let found = arriving(&mut rig, &[GROUP_B, GROUP_A])?;
        check_eq!(found, vec![GROUP_A], "addresses that passed with RCTL.MO = {offset}");
    }
    rig.regs.write(reg::RCTL, control);
    rig.control.set_multicast(&[]);
    Ok(Verdict::Pass)
}

fn all_multicast<B: Fixture>(fixture: &mut B) -> CaseResult {
    let own = fixture.address();
    let mut rig = Rig::open(fixture, |config| config.promiscuous = false)?;
    rig.control.set_all_multicast(true);
    let found = arriving(&mut rig, &[GROUP_B, OTHER, GROUP_A, own, BROADCAST])?;
    check_eq!(found, vec![GROUP_B, GROUP_A, own, BROADCAST], "addresses that passed");
    rig.control.set_all_multicast(false);
    check_eq!(arriving(&mut rig, &[GROUP_B, own])?, vec![own], "addresses that passed");
    Ok(Verdict::Pass)
}

fn promiscuous<B: Fixture>(fixture: &mut B) -> CaseResult {
    let own = fixture.address();
    let mut rig = Rig::open(fixture, |config| config.promiscuous = false)?;
    let all = [own, OTHER, GROUP_A, GROUP_B, BROADCAST, PEER];
    rig.control.set_promiscuous(true);
    check_eq!(arriving(&mut rig, &all)?, all.to_vec(), "addresses that passed");
    rig.control.set_promiscuous(false);
    check_eq!(arriving(&mut rig, &all)?, vec![own, BROADCAST], "addresses that passed");
    Ok(Verdict::Pass)
}

/// The card refuses broadcast frames without RCTL.BAM. The driver always sets this bit, so the case itself
/// clears it.
fn broadcast_refused<B: Fixture>(fixture: &mut B) -> CaseResult {
    let own = fixture.address();
    let mut rig = Rig::open(fixture, |config| config.promiscuous = false)?;
    let control = rig.regs.read(reg::RCTL);
    rig.regs.write(reg::RCTL, control & !rctl::BAM);
    check_eq!(arriving(&mut rig, &[BROADCAST, own])?, vec![own], "addresses that passed");
    Ok(Verdict::Pass)
}

/// RCTL.MPE does not replace RCTL.BAM, but the perfect and the imperfect filter do (SDM 13.4.22).
fn broadcast_refused_among_multicasts<B: Fixture>(fixture: &mut B) -> CaseResult {
    let own = fixture.address();
    let departs = fixture.departs(&departure::BROADCAST_BY_MPE);
    let mut rig = Rig::open(fixture, |config| config.promiscuous = false)?;
    rig.control.set_all_multicast(true);
    let control = rig.regs.read(reg::RCTL);
    rig.regs.write(reg::RCTL, control & !rctl::BAM);
    let found = arriving(&mut rig, &[BROADCAST, GROUP_A, own])?;
    let strict = vec![GROUP_A, own];
    let lenient = vec![BROADCAST, GROUP_A, own];
    check_eq!(found, if departs { lenient } else { strict }, "addresses that passed with RCTL.MPE");
    // The last bit of the hash table, and entry 1 of the addresses: both are for the broadcast address.
    rig.control.set_all_multicast(false);
    rig.regs.write(reg::RCTL, control & !(rctl::BAM | rctl::MPE));
    let (row, bit) = reg::mta_position(BROADCAST, control >> rctl::MO_SHIFT & 3);
    rig.regs.write(reg::mta(row), 1 << bit);
    check_eq!(arriving(&mut rig, &[BROADCAST, own])?, vec![BROADCAST, own], "addresses that passed by hash");
    rig.regs.write(reg::mta(row), 0);
    rig.regs.write(reg::ral(1), u32::MAX);
    rig.regs.write(reg::rah(1), 0xFFFF | rah::AV);
    check_eq!(arriving(&mut rig, &[BROADCAST, own])?, vec![BROADCAST, own], "addresses that passed exactly");
    rig.regs.write(reg::rah(1), 0);
    Ok(if departs { Verdict::Departs(&departure::BROADCAST_BY_MPE) } else { Verdict::Pass })
}
