//! Checksums inserted and verified, compared with `etherparse`.

use crate::case::{CaseResult, Entry, Verdict, check, check_eq};
use crate::oracle::{self, Inside, PEER, pattern, tagged};
use crate::raw::RawReceiver;
use crate::rig::{Rig, same};
use crate::{Failure, Fixture, departure};
use kpps_datasheet::{Chip, reg};
use kpps_driver::{Checksum, Checksums, Fragment, Offload, Refusal, Sum, TxMeta};
use kpps_platform::BufferSource;

pub(super) const NO_OFFLOAD: &str = "the chip has no checksum offload";

/// Payload sizes: the least, odd and even, around the longest standard frame, jumbo.
const PAYLOADS: [usize; 12] = [1, 2, 3, 17, 18, 19, 100, 1001, 1459, 1460, 4001, 8900];

pub(super) fn cases<B: Fixture>() -> Vec<Entry<B>> {
    vec![
        ("checksum: inserted into TCP and UDP over IPv4 and IPv6", inserted),
        ("checksum: inserted behind an inserted VLAN tag", inserted_with_tag),
        ("checksum: only one of the two is inserted", inserted_singly),
        ("checksum: offload is refused if unsupported", refused),
        ("checksum: verified on receive", verified),
        ("checksum: no verdict on frames without TCP or UDP", no_verdict),
        ("checksum: packet checksum in the receive descriptor", packet_checksum),
    ]
}

/// Where the checksums of a frame are; IPv4 has two.
fn sums(inside: Inside) -> Checksums {
    let transport = if inside.is_v4() { 34 } else { 54 };
    let field = transport + if inside.is_tcp() { 16 } else { 6 };
    Checksums {
        ip: inside.is_v4().then_some(Sum { start: 14, field: 24, end: 33 }),
        transport: Some(Sum { start: transport, field, end: 0 }),
    }
}

/// A good frame, and the same frame as a stack passes it down: IP checksum 0, pseudo-header sum in the
/// transport checksum.
fn good_and_raw(inside: Inside, payload: usize) -> (Vec<u8>, Vec<u8>) {
    let good = oracle::ip(inside, [0xff; 6], PEER, &pattern(payload, payload));
    let mut raw = good.clone();
    if inside.is_v4() {
        raw[24..26].fill(0);
    }
    let sums = sums(inside);
    let field = sums.transport.map_or(0, |sum| usize::from(sum.field));
    let start = sums.transport.map_or(0, |sum| usize::from(sum.start));
    let pseudo = oracle::pseudo_sum(&good, (good.len() - start) as u32);
    raw[field..field + 2].copy_from_slice(&pseudo.to_be_bytes());
    (good, raw)
}

fn padded(mut frame: Vec<u8>) -> Vec<u8> {
    frame.resize(frame.len().max(60), 0);
    frame
}

/// SDM 3.5.
fn inserted<B: Fixture>(fixture: &mut B) -> CaseResult {
    if !fixture.chip().has_checksum_offload() {
        return Ok(Verdict::NotApplicable(NO_OFFLOAD));
    }
    let departs = fixture.departs(&departure::LENGTH_WITH_PADDING);
    let counts_padding = fixture.departs(&departure::PADDING_IN_CHECKSUM);
    let mut rig = Rig::open(fixture, |_| {})?;
    for payload in PAYLOADS {
        for inside in Inside::ALL {
            let (good, raw) = good_and_raw(inside, payload);
            oracle::checksums_are_good(&good)?;
            for pieces in [1, 2, 3] {
                let offload = Offload::Checksum(sums(inside));
                rig.send(&raw, pieces, &TxMeta { vlan: None, offload })?;
                rig.tx.flush();
                let what = format!("{inside:?} with {payload} B in {pieces} pieces");
                let sent = rig.sent()?;
                if departs && good.len() < 60 {
                    // The checksums cover the padding, too.
                    check_eq!((sent.len(), &sent[16..18]), (60, &[0, 46][..]), "B of {what}, length field");
                } else {
                    let mut expected = padded(good.clone());
                    if counts_padding {
                        let field = sums(inside).transport.map_or(0, |sum| usize::from(sum.field));
                        let padding = (expected.len() - good.len()) as u16;
                        oracle::adjust(&mut expected, field, padding);
                    }
                    same(&what, &sent, &expected)?;
                }
            }
            // A frame without offload in between stays unchanged.
            rig.send(&padded(raw.clone()), 1, &TxMeta::default())?;
            rig.tx.flush();
            same("frame without offload", &rig.sent()?, &padded(raw))?;
        }
    }
    if counts_padding {
        return Ok(Verdict::Departs(&departure::PADDING_IN_CHECKSUM));
    }
    Ok(if departs { Verdict::Departs(&departure::LENGTH_WITH_PADDING) } else { Verdict::Pass })
}

/// One frame of each kind, its size varied by `round`.
pub(super) fn exchange<B: Fixture>(rig: &mut Rig<'_, B>, round: usize) -> Result<(), Failure> {
    for inside in Inside::ALL {
        let (good, raw) = good_and_raw(inside, 100 + round);
        let offload = Offload::Checksum(sums(inside));
        rig.send(&raw, 1 + round % 3, &TxMeta { vlan: None, offload })?;
        rig.tx.flush();
        same(&format!("{inside:?}"), &rig.sent()?, &good)?;
    }
    Ok(())
}

/// One of many different frames to send: as given, its offload, and as expected on the wire.
pub(super) fn to_insert(index: usize) -> (Vec<u8>, TxMeta, Vec<u8>) {
    let inside = Inside::ALL[index % Inside::ALL.len()];
    let (good, raw) = good_and_raw(inside, 20 + index * 37 % 1400);
    (raw, TxMeta { vlan: None, offload: Offload::Checksum(sums(inside)) }, good)
}

fn inserted_with_tag<B: Fixture>(fixture: &mut B) -> CaseResult {
    if !fixture.chip().has_checksum_offload() {
        return Ok(Verdict::NotApplicable(NO_OFFLOAD));
    }
    let mut rig = Rig::open(fixture, |config| config.vlan = true)?;
    for inside in Inside::ALL {
        let (good, raw) = good_and_raw(inside, 333);
        let offload = Offload::Checksum(sums(inside));
        rig.send(&raw, 2, &TxMeta { vlan: Some(0x2005), offload })?;
        rig.tx.flush();
        same(&format!("{inside:?}"), &rig.sent()?, &tagged(&good, 0x2005))?;
    }
    Ok(Verdict::Pass)
}

/// POPTS.IXSM and TXSM are independent (SDM 3.3.7.3).
fn inserted_singly<B: Fixture>(fixture: &mut B) -> CaseResult {
    if !fixture.chip().has_checksum_offload() {
        return Ok(Verdict::NotApplicable(NO_OFFLOAD));
    }
    let mut rig = Rig::open(fixture, |_| {})?;
    for inside in [Inside::Tcp4, Inside::Udp4] {
        let (good, raw) = good_and_raw(inside, 500);
        let both = sums(inside);
        let field = both.transport.map_or(0, |sum| usize::from(sum.field));
        let mut expected = good.clone();
        expected[field..field + 2].copy_from_slice(&raw[field..field + 2]);
        let only_ip = Offload::Checksum(Checksums { transport: None, ..both });
        rig.send(&raw, 1, &TxMeta { vlan: None, offload: only_ip })?;
        rig.tx.flush();
        same(&format!("{inside:?}, only the IP checksum"), &rig.sent()?, &expected)?;

        let mut expected = good.clone();
        expected[24..26].fill(0);
        let only_transport = Offload::Checksum(Checksums { ip: None, ..both });
        rig.send(&raw, 1, &TxMeta { vlan: None, offload: only_transport })?;
        rig.tx.flush();
        same(&format!("{inside:?}, only the transport checksum"), &rig.sent()?, &expected)?;
    }
    Ok(Verdict::Pass)
}

fn refused<B: Fixture>(fixture: &mut B) -> CaseResult {
    if fixture.chip().has_checksum_offload() {
        return Ok(Verdict::NotApplicable("the chip has checksum offload"));
    }
    let mut rig = Rig::open(fixture, |_| {})?;
    let buffer = rig.tx.source_mut().take().ok_or("out of buffers")?;
    let meta = TxMeta { vlan: None, offload: Offload::Checksum(sums(Inside::Udp4)) };
    let Err(refused) = rig.tx.enqueue([Fragment { buffer, bytes: 100 }].into_iter(), &meta) else {
        return Err("the driver took a frame whose checksums the chip cannot insert".into());
    };
    check_eq!(refused.reason, Refusal::Unsupported, "reason");
    for fragment in refused.frame {
        rig.tx.source_mut().give(fragment.buffer);
    }
    Ok(Verdict::Pass)
}

/// Which checksums of a frame are wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Spoiled {
    Nothing,
    Ip,
    Transport,
}

/// The verdicts of the manual (SDM 3.2.9). The 8254x checks IPv6 only with RXCSUM.IPV6OFL, which the driver
/// does not set; the 82574 checks it by default.
fn verdicts(chip: Chip, inside: Inside, spoiled: Spoiled) -> (Checksum, Checksum) {
    let verdict = |bad| if bad { Checksum::Bad } else { Checksum::Good };
    if inside.is_v4() {
        (verdict(spoiled == Spoiled::Ip), verdict(spoiled == Spoiled::Transport))
    } else if chip.is_pci_express() {
        (Checksum::Unknown, verdict(spoiled == Spoiled::Transport))
    } else {
        (Checksum::Unknown, Checksum::Unknown)
    }
}

/// One of many different frames to receive, every third with a wrong checksum, and the expected verdicts.
pub(super) fn to_verify(chip: Chip, index: usize) -> (Vec<u8>, (Checksum, Checksum)) {
    let inside = Inside::ALL[index % Inside::ALL.len()];
    let mut frame = oracle::ip(inside, [0xff; 6], PEER, &pattern(index, 20 + index * 53 % 1400));
    let spoiled = if index % 3 == 2 { Spoiled::Transport } else { Spoiled::Nothing };
    if let (Spoiled::Transport, Some(last)) = (spoiled, frame.last_mut()) {
        *last ^= 0x55;
    }
    (frame, verdicts(chip, inside, spoiled))
}

fn receive_one<B: Fixture>(rig: &mut Rig<'_, B>, frame: &[u8]) -> Result<(Checksum, Checksum), Failure> {
    rig.fixture.inject(frame)?;
    let got = rig.received()?;
    same("frame", &got.bytes, frame)?;
    Ok((got.ip, got.transport))
}

fn verified<B: Fixture>(fixture: &mut B) -> CaseResult {
    if !fixture.chip().has_checksum_offload() {
        return Ok(Verdict::NotApplicable(NO_OFFLOAD));
    }
    let (chip, departs) = (fixture.chip(), fixture.departs(&departure::NO_RECEIVE_CHECKSUM));
    let mut rig = Rig::open(fixture, |_| {})?;
    for payload in PAYLOADS {
        for inside in Inside::ALL {
            for spoiled in [Spoiled::Nothing, Spoiled::Ip, Spoiled::Transport] {
                let mut frame = oracle::ip(inside, [0xff; 6], PEER, &pattern(payload, payload));
                match spoiled {
                    Spoiled::Nothing => {}
                    // The time to live.
                    Spoiled::Ip if inside.is_v4() => frame[22] ^= 0x10,
                    Spoiled::Ip => continue,
                    Spoiled::Transport => {
                        if let Some(last) = frame.last_mut() {
                            *last ^= 0x55;
                        }
                    }
                }
                let expected = if departs {
                    (Checksum::Unknown, Checksum::Unknown)
                } else {
                    verdicts(chip, inside, spoiled)
                };
                // Padding is part of no checksum.
                let found = receive_one(&mut rig, &padded(frame))?;
                check_eq!(
                    format!("{found:?}"),
                    format!("{expected:?}"),
                    "verdicts (IP, transport) on {inside:?} with {payload} B, spoiled {spoiled:?}"
                );
            }
        }
    }
    Ok(if departs { Verdict::Departs(&departure::NO_RECEIVE_CHECKSUM) } else { Verdict::Pass })
}

fn no_verdict<B: Fixture>(fixture: &mut B) -> CaseResult {
    let mut rig = Rig::open(fixture, |_| {})?;
    let arp_like = oracle::plain([0xff; 6], PEER, 60, 1);
    let (_, transport) = receive_one(&mut rig, &arp_like)?;
    check!(transport == Checksum::Unknown, "a verdict on a frame that is not IP: {transport:?}");
    // A fragment's transport checksum cannot be known.
    let mut fragment = oracle::ip(Inside::Udp4, [0xff; 6], PEER, &pattern(9, 400));
    fragment[20] |= 0x20;
    let old = u16::from_be_bytes([fragment[24], fragment[25]]);
    fragment[24..26].copy_from_slice(&oracle::checksum_after(old, 0x2000).to_be_bytes());
    let (ip, transport) = receive_one(&mut rig, &fragment)?;
    check!(ip != Checksum::Bad, "IP checksum of a fragment: {ip:?}");
    check!(transport == Checksum::Unknown, "a verdict on a fragment's UDP checksum: {transport:?}");
    Ok(Verdict::Pass)
}

/// SDM 3.2.9, 13.4.47: the one's complement sum of everything from RXCSUM.PCSS on.
fn packet_checksum<B: Fixture>(fixture: &mut B) -> CaseResult {
    if fixture.chip() <= Chip::I82544 {
        return Ok(Verdict::NotApplicable("the field is reserved (SDM table 3-1)"));
    }
    let departs = fixture.departs(&departure::NO_PACKET_CHECKSUM);
    let mut raw = RawReceiver::open(fixture, 8)?;
    raw.tail(7);
    let tried = [(0, 60), (14, 60), (14, 61), (14, 1514), (34, 777)];
    for (index, (start, size)) in tried.into_iter().enumerate() {
        raw.rig.regs.write(reg::RXCSUM, start as u32);
        let frame = oracle::plain([0xff; 6], PEER, size, size);
        raw.rig.fixture.inject(&frame)?;
        let found = raw.written(index)?.checksum;
        // The manual does not say whether the field is complemented; both are accepted.
        let sum = oracle::sum(&frame[start..]);
        if departs {
            check_eq!(found, 0, "packet checksum of {size} B from byte {start} on");
        } else {
            check!(
                found == sum || found == !sum,
                "packet checksum of {size} B from byte {start} on: {found:#06x}, not {sum:#06x}"
            );
        }
    }
    Ok(if departs { Verdict::Departs(&departure::NO_PACKET_CHECKSUM) } else { Verdict::Pass })
}
