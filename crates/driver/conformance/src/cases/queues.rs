//! Features of the 82574: extended descriptors, header split, two queues in each direction with RSS, MSI-X
//! (82574 data sheet 7.1, 7.4).

use super::exchange::{Direction, exchange};
use crate::case::{CaseResult, Entry, Verdict, check, check_eq};
use crate::oracle::{self, Hashed, Inside, PEER, pattern, plain, tagged};
use crate::rig::{BUFFER_BYTES, QUIET_NS, Rig, Wait, plain_config, same};
use crate::{Failure, Fixture};
use kpps_datasheet::desc::extended::RssType;
use kpps_driver::config::{Rss, RxFormat};
use kpps_driver::{Checksum, Config, Hash, Pair, Queues, TxMeta, probe_queues};
use kpps_platform::{Buffer, BufferSource};

const ONE_FORMAT: &str = "the chip has one format of receive descriptors";
const NO_SPLIT: &str = "only the 82574 splits headers, and its model does not";
const ONE_QUEUE: &str = "the driver uses one queue in each direction of this card";
const NO_MSIX: &str = "the chip has no MSI-X that the driver uses";
const NO_MESSAGES: &str = "this fixture has no MSI-X: neither UIO nor the model offers it";
/// Bytes of a header buffer.
const HEADER_BYTES: u16 = 128;

pub(super) fn cases<B: Fixture>() -> Vec<Entry<B>> {
    vec![
        ("queues: legacy and extended descriptors agree", formats),
        ("queues: header split, headers of every kind", header_split),
        ("queues: header split, every size", header_split_sizes),
        ("queues: RSS distributes by table, and the hash is right", spread),
        ("queues: RSS with another key and table", own_key),
        ("queues: both send and receive at once", bidirectional),
        ("queues: MSI-X, each vector for its causes", vectors),
        ("queues: MSI-X, one vector for everything", one_vector),
    ]
}

/// Both descriptor formats report the same of a frame.
fn formats<B: Fixture>(fixture: &mut B) -> CaseResult {
    if !fixture.chip().has_extended_rx() {
        return Ok(Verdict::NotApplicable(ONE_FORMAT));
    }
    for format in [RxFormat::Legacy, RxFormat::Extended] {
        let mut rig = Rig::open(fixture, |config| (config.rx_format, config.vlan) = (format, true))?;
        exchange(&mut rig, Direction::Both, &[60, 61, 1514, 2047, 2048, 2049, 4096, 9014], 1)?;
        let good = oracle::ip(Inside::Tcp4, [0xff; 6], PEER, &pattern(1, 100));
        let mut bad = good.clone();
        bad[40] ^= 1;
        rig.fixture.inject(&tagged(&good, 0x6123))?;
        rig.fixture.inject(&bad)?;
        let (first, second) = (rig.received()?, rig.received()?);
        same("tagged frame", &first.bytes, &good)?;
        check_eq!((first.vlan, second.vlan), (Some(0x6123), None), "tags ({format:?})");
        let verdicts = (first.transport, second.transport);
        check!(verdicts == (Checksum::Good, Checksum::Bad), "verdicts {verdicts:?} ({format:?})");
    }
    Ok(Verdict::Pass)
}

/// The driver with several queues or header split, on a fixture.
struct Many<'b, B: Fixture> {
    device: Queues<B::Platform, B::Source>,
    fixture: &'b mut B,
}

/// A part of a frame as it was received.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Part {
    queue: usize,
    bytes: Vec<u8>,
    header: bool,
    last: bool,
    hash: Option<Hash>,
}

impl<'b, B: Fixture> Many<'b, B> {
    fn open(fixture: &'b mut B, change: impl FnOnce(&mut Config)) -> Result<Self, Failure> {
        let mut config = plain_config(fixture.address());
        change(&mut config);
        let buffers = fixture.buffers(1024, BUFFER_BYTES)?;
        let headers = fixture.buffers(1024, HEADER_BYTES.into())?;
        let device = probe_queues(fixture.platform(), fixture.chip(), config, buffers, Some(headers))?;
        while fixture.collect()?.is_some() {}
        let mut many = Self { device, fixture };
        many.wait("link up", |many| Ok(many.device.control.update_link()?.up.then_some(())))?;
        Ok(many)
    }

    fn wait<T>(
        &mut self,
        what: &str,
        mut look: impl FnMut(&mut Self) -> Result<Option<T>, Failure>,
    ) -> Result<T, Failure> {
        let wait = Wait::on(self.fixture);
        loop {
            if let Some(found) = look(self)? {
                return Ok(found);
            }
            wait.step(self.fixture, what)?;
        }
    }

    /// Polls all queues once.
    fn poll(&mut self) -> Vec<Part> {
        let mut parts = Vec::new();
        for (queue, Pair { rx, .. }) in self.device.pairs.iter_mut().enumerate() {
            rx.receive(64, |part| {
                let bytes = part.buffer.bytes()[..usize::from(part.bytes)].to_vec();
                let (header, last, hash) = (part.header, part.last, part.hash());
                parts.push(Part { queue, bytes, header, last, hash });
                Some(part.buffer)
            });
        }
        parts
    }

    /// Injects a frame and waits for all of its parts.
    fn receive(&mut self, frame: &[u8]) -> Result<Vec<Part>, Failure> {
        self.fixture.inject(frame)?;
        let mut parts = Vec::new();
        self.wait("a frame to receive", |many| {
            parts.extend(many.poll());
            Ok(parts.last().is_some_and(|part: &Part| part.last).then_some(()))
        })?;
        Ok(parts)
    }

    /// Sends a frame through a queue.
    fn send(&mut self, queue: usize, frame: &[u8]) -> Result<(), Failure> {
        let tx = &mut self.device.pairs.get_mut(queue).ok_or("no such queue")?.tx;
        let mut buffer = tx.source_mut().take().ok_or("out of buffers")?;
        buffer.bytes_mut()[..frame.len()].copy_from_slice(frame);
        tx.send(buffer, frame.len() as u16).map_err(|refused| format!("{:?}", refused.reason))?;
        tx.flush();
        Ok(())
    }
}

fn split(config: &mut Config) {
    config.rx_format = RxFormat::Split { header_bytes: HEADER_BYTES };
}

fn whole(parts: &[Part]) -> Vec<u8> {
    parts.iter().flat_map(|part| part.bytes.clone()).collect()
}

/// 82574 data sheet 7.1.5: headers up to TCP or UDP in the first buffer, the rest in the second.
fn header_split<B: Fixture>(fixture: &mut B) -> CaseResult {
    if !fixture.splits_headers() {
        return Ok(Verdict::NotApplicable(NO_SPLIT));
    }
    let mut many = Many::open(fixture, split)?;
    for inside in Inside::ALL {
        let ip = if inside.is_v4() { 34 } else { 54 };
        let headers = ip + if inside.is_tcp() { 20 } else { 8 };
        for payload in [100, 1000, 2048 - 12, 2048, 2049, 8900] {
            let frame = oracle::ip(inside, [0xff; 6], PEER, &pattern(payload, payload));
            let parts = many.receive(&frame)?;
            let what = format!("{inside:?} with {payload} B");
            same(&what, &whole(&parts), &frame)?;
            let sizes: Vec<_> = parts.iter().map(|part| (part.header, part.bytes.len())).collect();
            let mut expected = vec![(true, headers)];
            expected.extend(pattern(1, payload).chunks(2048).map(|chunk| (false, chunk.len())));
            check_eq!(sizes, expected, "parts (is header, B) of {what}");
        }
    }
    // Without headers that the chip knows, the header buffer is filled first.
    let parts = many.receive(&plain([0xff; 6], PEER, 1000, 3))?;
    let sizes: Vec<_> = parts.iter().map(|part| (part.header, part.bytes.len())).collect();
    check_eq!(sizes, vec![(true, 128), (false, 872)], "parts of a frame that is not IP");
    Ok(Verdict::Pass)
}

fn header_split_sizes<B: Fixture>(fixture: &mut B) -> CaseResult {
    if !fixture.splits_headers() {
        return Ok(Verdict::NotApplicable(NO_SPLIT));
    }
    let mut many = Many::open(fixture, |config| {
        split(config);
        config.rx_ring = 32;
    })?;
    for size in (60..=9014).filter(|size| size % 13 == 0 || (size + 4) % 128 < 8) {
        let frame = plain([0xff; 6], PEER, size, size);
        same(&format!("frame of {size} B"), &whole(&many.receive(&frame)?), &frame)?;
    }
    let rx = &many.device.pairs[0].rx;
    check_eq!((rx.counters().nonsense, rx.empty_slots()), (0, 0), "nonsense, and empty slots");
    Ok(Verdict::Pass)
}

/// Frames of `count` flows.
fn flows(count: u8) -> Vec<Vec<u8>> {
    let mut frames = Vec::new();
    for flow in 0..count {
        for inside in Inside::ALL {
            let mut frame = oracle::ip(inside, [0xff; 6], PEER, &pattern(flow.into(), 60));
            // Addresses and ports change without the checksums, which nothing checks here.
            let (address, port) = if inside.is_v4() { (29, 35) } else { (37, 55) };
            frame[address] = flow.wrapping_mul(37);
            frame[port] = flow;
            frames.push(frame);
        }
    }
    frames
}

fn spreads<B: Fixture>(fixture: &mut B, rss: Rss) -> Result<[usize; 2], Failure> {
    let mut many = Many::open(fixture, |config| (config.queues, config.rss) = (2, Some(rss)))?;
    let mut counts = [0, 0];
    for frame in flows(40) {
        let parts = many.receive(&frame)?;
        same("frame", &whole(&parts), &frame)?;
        let (value, over) = oracle::hash(&rss.key, &frame).ok_or("a flow that is not IP")?;
        let found = parts.first().and_then(|part| part.hash).ok_or("a frame of IP without a hash")?;
        check_eq!(found.value, value, "hash over {over:?}");
        let kinds = match (over, frame[12]) {
            (Hashed::Ports, 0x08) => [RssType::TcpIpv4; 2],
            (Hashed::Ports, _) => [RssType::TcpIpv6; 2],
            (Hashed::Addresses, 0x08) => [RssType::Ipv4; 2],
            (Hashed::Addresses, _) => [RssType::Ipv6, RssType::Ipv6Extended],
        };
        check!(kinds.contains(&found.over), "the hash is said to be over {:?}, not {kinds:?}", found.over);
        let queue = usize::from(rss.table[value as usize & 127]);
        check_eq!(parts[0].queue, queue, "queue of hash {value:#010x}");
        counts[queue] += 1;
    }
    // Frames without a hash go to queue 0.
    let parts = many.receive(&plain([0xff; 6], PEER, 60, 1))?;
    check_eq!((parts[0].queue, parts[0].hash), (0, None), "queue and hash of a frame that is not IP");
    Ok(counts)
}

/// 82574 data sheet 7.1.8.
fn spread<B: Fixture>(fixture: &mut B) -> CaseResult {
    if fixture.queues() < 2 {
        return Ok(Verdict::NotApplicable(ONE_QUEUE));
    }
    let counts = spreads(fixture, Rss::DEFAULT)?;
    check!(counts.into_iter().all(|count| count > 40), "frames in the queues: {counts:?}");
    Ok(Verdict::Pass)
}

fn own_key<B: Fixture>(fixture: &mut B) -> CaseResult {
    if fixture.queues() < 2 {
        return Ok(Verdict::NotApplicable(ONE_QUEUE));
    }
    let mut rss = Rss::SYMMETRIC;
    rss.key[3] = 0x11;
    rss.table = std::array::from_fn(|entry| u8::from(entry % 5 == 0));
    spreads(fixture, rss)?;
    // All frames to one queue, then all to the other.
    for queue in [0, 1] {
        let counts = spreads(fixture, Rss { table: [queue; 128], ..Rss::DEFAULT })?;
        check_eq!(counts[usize::from(1 - queue)], 0, "frames in queue {}", 1 - queue);
    }
    Ok(Verdict::Pass)
}

fn bidirectional<B: Fixture>(fixture: &mut B) -> CaseResult {
    if fixture.queues() < 2 {
        return Ok(Verdict::NotApplicable(ONE_QUEUE));
    }
    let mut many = Many::open(fixture, |config| config.queues = 2)?;
    for round in 0..3 {
        for index in 0..40 {
            many.send(index % 2, &plain([0xff; 6], PEER, 60 + index, index))?;
        }
        let mut sent = Vec::new();
        many.wait("40 frames on the wire", |many| {
            while let Some(frame) = many.fixture.collect()? {
                sent.push(frame);
            }
            Ok((sent.len() >= 40).then_some(()))
        })?;
        // Each queue keeps its order; between them there is none.
        for queue in 0..2 {
            let sizes: Vec<_> = sent.iter().map(Vec::len).filter(|size| size % 2 == queue).collect();
            check!(sizes.is_sorted() && sizes.len() == 20, "sizes sent by queue {queue}: {sizes:?}");
        }
        sent.sort();
        let mut expected: Vec<_> = (0..40).map(|index| plain([0xff; 6], PEER, 60 + index, index)).collect();
        expected.sort();
        check!(sent == expected, "the frames on the wire are not those sent");
        many.wait("all reports", |many| {
            let waiting = many.device.pairs.iter_mut().map(|Pair { tx, .. }| {
                tx.reclaim(usize::MAX);
                tx.pending()
            });
            Ok((waiting.sum::<usize>() == 0).then_some(()))
        })?;
        for frame in flows(5) {
            same("frame", &whole(&many.receive(&frame)?), &frame)?;
        }
        if round == 1 {
            many.device.reset()?;
            many.wait("link up", |many| Ok(many.device.control.update_link()?.up.then_some(())))?;
        }
    }
    Ok(Verdict::Pass)
}

/// Which of the first three vectors have fired.
fn fired<B: Fixture>(many: &mut Many<'_, B>) -> Result<[bool; 3], Failure> {
    many.fixture.advance(QUIET_NS)?;
    let mut fired = [false; 3];
    for (vector, fired) in (0..).zip(&mut fired) {
        *fired = many.fixture.take_message(vector)?;
    }
    Ok(fired)
}

/// Waits until a vector fires, and no other does.
fn only<B: Fixture>(many: &mut Many<'_, B>, vector: usize, what: &str) -> Result<(), Failure> {
    let mut all = [false; 3];
    many.wait(&format!("vector {vector} for {what}"), |many| {
        for (all, now) in all.iter_mut().zip(fired(many)?) {
            *all |= now;
        }
        Ok(all[vector].then_some(()))
    })?;
    let expected: [bool; 3] = std::array::from_fn(|index| index == vector);
    check_eq!(all, expected, "vectors that fired for {what}");
    Ok(())
}

/// 82574 data sheet 7.4: RXQn, TXQn and OTHER, by IVAR.
fn vectors<B: Fixture>(fixture: &mut B) -> CaseResult {
    if fixture.chip().vectors() < 3 {
        return Ok(Verdict::NotApplicable(NO_MSIX));
    }
    if !fixture.set_vectors(3)? {
        return Ok(Verdict::NotApplicable(NO_MESSAGES));
    }
    let rss = Rss { table: std::array::from_fn(|entry| (entry % 2) as u8), ..Rss::DEFAULT };
    let mut many = Many::open(fixture, |config| (config.queues, config.rss) = (2, Some(rss)))?;
    check_eq!(many.device.control.vectors(), 3, "vectors in use");
    let frames: Vec<_> = [0, 1]
        .into_iter()
        .filter_map(|queue| {
            flows(40)
                .into_iter()
                .find(|frame| oracle::hash(&rss.key, frame).is_some_and(|(value, _)| value & 1 == queue))
        })
        .collect();
    check_eq!(frames.len(), 2, "flows found, one for each queue");
    many.device.control.causes()?;
    fired(&mut many)?;
    for frame in &frames {
        // Masked: nothing.
        many.receive(frame)?;
        check_eq!(fired(&mut many)?, [false; 3], "vectors that fired, masked");
    }
    many.device.control.causes()?;
    for queue in [0, 1] {
        many.device.pairs[queue].vector.unmask();
        fired(&mut many)?;
        for round in 0..3 {
            many.receive(&frames[queue])?;
            only(&mut many, queue, &format!("a frame received by queue {queue}"))?;
            many.device.pairs[queue].vector.mask();
            // A vector may fire once more for the first frame before it is masked.
            fired(&mut many)?;
            many.receive(&frames[queue])?;
            check_eq!(fired(&mut many)?, [false; 3], "vectors that fired, masked, round {round}");
            // A cause that came while masked fires when it is unmasked.
            many.device.pairs[queue].vector.unmask();
            only(&mut many, queue, "a frame that came while masked")?;
            many.device.pairs[queue].vector.unmask();
            many.send(queue, &plain([0xff; 6], PEER, 60, 1))?;
            only(&mut many, queue, &format!("a frame sent by queue {queue}"))?;
            many.device.pairs[queue].vector.unmask();
        }
        many.device.pairs[queue].vector.mask();
    }
    many.device.control.unmask_other();
    fired(&mut many)?;
    many.fixture.set_link(false)?;
    only(&mut many, 2, "the link")?;
    check!(many.device.control.causes()?.link(), "no link cause");
    many.fixture.set_link(true)?;
    many.wait("link up", |many| Ok(many.device.control.update_link()?.up.then_some(())))?;
    drop(many);
    fixture.set_vectors(0)?;
    Ok(Verdict::Pass)
}

/// One vector works as a line does: the services need no change.
fn one_vector<B: Fixture>(fixture: &mut B) -> CaseResult {
    if fixture.chip().vectors() == 0 {
        return Ok(Verdict::NotApplicable(NO_MSIX));
    }
    if !fixture.set_vectors(1)? {
        return Ok(Verdict::NotApplicable(NO_MESSAGES));
    }
    let mut rig = Rig::open(fixture, |_| {})?;
    rig.fixture.advance(5_000_000)?;
    rig.control.causes()?;
    rig.control.unmask();
    rig.fixture.take_message(0)?;
    for round in 0..3 {
        rig.fixture.inject(&plain([0xff; 6], PEER, 60, round))?;
        rig.wait("a message", |rig| Ok(rig.fixture.take_message(0)?.then_some(())))?;
        let causes = rig.control.causes()?;
        check!(causes.receive(), "ICR {:#x} without a receive cause", causes.0);
        check_eq!(rig.control.causes()?.0, 0, "ICR read again");
        rig.received()?;
        rig.send(&plain([0xff; 6], PEER, 60, round), 1, &TxMeta::default())?;
        rig.tx.flush();
        rig.wait("a message", |rig| Ok(rig.fixture.take_message(0)?.then_some(())))?;
        check!(rig.control.causes()?.transmit(), "no transmit cause");
        rig.sent()?;
    }
    rig.control.mask();
    drop(rig);
    fixture.set_vectors(0)?;
    Ok(Verdict::Pass)
}
