//! Tests of the card on a bus on which each burst takes 100 ns.

#![allow(clippy::unwrap_used)]

use super::*;

/// A bus on which a burst takes 100 ns, with 64 KiB of memory.
struct Testbed {
    memory: Vec<u8>,
    sent: Vec<(u64, Vec<u8>)>,
    fetches: u32,
}

impl Host for Testbed {
    fn burst(&mut self, now_ps: u64, _: BurstKind, purpose: Purpose, _: u64, _: u32) -> u64 {
        self.fetches += u32::from(purpose == Purpose::RxDescriptorFetch);
        now_ps + 100_000
    }
    fn load(&mut self, address: u64, into: &mut [u8]) -> bool {
        let at = address as usize;
        self.memory.get(at..at + into.len()).map(|from| into.copy_from_slice(from)).is_some()
    }
    fn store(&mut self, address: u64, from: &[u8]) -> bool {
        let at = address as usize;
        self.memory.get_mut(at..at + from.len()).map(|to| to.copy_from_slice(from)).is_some()
    }
    fn transmitted(&mut self, now_ps: u64, frame: &[u8]) {
        self.sent.push((now_ps, frame.to_vec()));
    }
}

impl Testbed {
    fn new() -> Self {
        Self { memory: vec![0; 65_536], sent: Vec::new(), fetches: 0 }
    }
    fn word(&mut self, at: usize, word: u64) {
        self.memory[at..at + 8].copy_from_slice(&word.to_le_bytes());
    }
    fn done(&self, ring: usize, index: usize) -> bool {
        let at = ring + index * 16 + 8;
        self.memory[at + 2] & 2 != 0
    }
}

const TX: usize = 0x1000;
const RX: usize = 0x2000;

fn nic(timer: Timer) -> RateLimitedNic {
    RateLimitedNic::new(params(timer))
}

fn params(timer: Timer) -> Params {
    Params {
        tx_engine_ps: 1_700_000,
        rx_engine_ps: 1_000_000,
        rx_fifo_bytes: 128,
        rx_queues: 1,
        rx_fetch: 1,
        tick_ps: 1_000_000,
        timer,
        wire_byte_ps: 8_000,
    }
}

fn give(testbed: &mut Testbed, nic: &mut RateLimitedNic, now: u64, frames: u32, interrupt: u64) {
    for index in 0..frames as usize {
        testbed.word(TX + index * 16, 0x4000);
        testbed.word(TX + index * 16 + 8, 60 | interrupt);
    }
    nic.write(now, reg::TX_BASE, TX as u32);
    nic.write(now, reg::TX_SIZE, 8);
    nic.write(now, reg::TX_TAIL, frames);
}

#[test]
fn frames_leave_at_the_cards_rate_and_their_descriptors_are_done() {
    let (mut testbed, mut nic) = (Testbed::new(), nic(Timer::FirstFrame));
    testbed.memory[0x4000..0x403c].fill(7);
    give(&mut testbed, &mut nic, 1_000_000, 3, 0);
    nic.run(20_000_000, &mut testbed);
    // A frame takes 2 us: two reads, the card's own work, and the status report of the frame before.
    let times: Vec<_> = testbed.sent.iter().map(|(at, _)| *at).collect();
    assert_eq!(times, [2_900_000, 4_900_000, 6_900_000]);
    assert!(testbed.sent.iter().all(|(_, frame)| frame[..] == [7; 60]));
    assert!((0..3).all(|index| testbed.done(TX, index)) && !testbed.done(TX, 3));
    // The card was idle for the first microsecond, and is idle again when the last frame has left the wire.
    assert_eq!(nic.tally().tx_idle_ps, 1_000_000);
    nic.write(10_000_000, reg::TX_TAIL, 4);
    assert_eq!(nic.tally().tx_idle_ps, 1_000_000 + 10_000_000 - 6_900_000 - 672_000);
    assert_eq!(nic.read(reg::CAUSE), 0, "no interrupt was requested");
}

#[test]
fn interrupts_wait_for_the_timer() {
    for (timer, due_ps) in [(Timer::FreeRunning, 5_000_000), (Timer::FirstFrame, 7_900_000)] {
        let (mut testbed, mut nic) = (Testbed::new(), nic(timer));
        nic.write(0, reg::TX_DELAY, 5);
        nic.write(0, reg::MASK, cause::SENT);
        give(&mut testbed, &mut nic, 1_000_000, 3, descriptor::INTERRUPT);
        nic.run(due_ps - 1, &mut testbed);
        assert!(!nic.interrupt_line(0), "{timer:?}");
        nic.run(due_ps, &mut testbed);
        assert!(nic.interrupt_line(0), "{timer:?}");
        assert_eq!(nic.read(reg::CAUSE), cause::SENT);
        assert!(!nic.interrupt_line(0));
    }
    let (mut testbed, mut nic) = (Testbed::new(), nic(Timer::FirstFrame));
    nic.write(0, reg::TX_DELAY, 1000);
    nic.write(0, reg::TX_FRAMES, 2);
    give(&mut testbed, &mut nic, 1_000_000, 3, descriptor::INTERRUPT);
    nic.run(4_899_999, &mut testbed);
    assert_eq!(nic.read(reg::CAUSE), 0);
    nic.run(4_900_000, &mut testbed);
    assert_eq!(nic.read(reg::CAUSE), cause::SENT, "two frames end the wait");
}

#[test]
fn received_frames_are_stored_or_counted_where_they_end() {
    let (mut testbed, mut nic) = (Testbed::new(), nic(Timer::FirstFrame));
    testbed.word(RX, 0x5000);
    testbed.word(RX + 8, 2048);
    nic.write(0, reg::RX_BASE, RX as u32);
    nic.write(0, reg::RX_SIZE, 8);
    nic.write(0, reg::RX_TAIL, 1);
    for (at, byte) in [(10, 1), (20, 2), (30, 3)] {
        nic.run(at, &mut testbed);
        nic.frame_arrives(at, &[byte; 60]);
    }
    nic.run(5_000_000, &mut testbed);
    nic.frame_arrives(5_000_000, &[4; 60]);
    nic.frame_arrives(5_000_001, &[5; 60]);
    // The FIFO holds two frames. The third frame found it full because the card still worked on the first,
    // the fifth because the card had no descriptor.
    let tally = *nic.tally();
    assert_eq!((tally.to_host, tally.in_fifo), (1, 2));
    assert_eq!((tally.dropped_engine, tally.dropped_no_descriptor), (1, 1));
    assert!(tally.closes());
    assert_eq!(testbed.memory[0x5000..0x503c], [1; 60]);
    assert!(testbed.done(RX, 0));
    assert_eq!(nic.read(reg::CAUSE), cause::RECEIVED);
}

#[test]
fn invalid_descriptors_are_counted_and_end() {
    let (mut testbed, mut nic) = (Testbed::new(), nic(Timer::FreeRunning));
    testbed.word(TX, 1 << 40);
    testbed.word(TX + 8, 60);
    testbed.word(TX + 16, 0x4000);
    testbed.word(TX + 24, 0);
    nic.write(0, reg::TX_BASE, TX as u32);
    nic.write(0, reg::TX_SIZE, 8);
    nic.write(0, reg::TX_TAIL, 2);
    nic.write(0, reg::TX_TAIL, 99);
    nic.write(0, reg::TX_TAIL, 2);
    nic.run(1_000_000_000, &mut testbed);
    assert_eq!((nic.tally().tx_discarded, nic.tally().transmitted), (2, 0));
    nic.write(0, reg::RX_SIZE, 0);
    nic.write(0, reg::RX_TAIL, 5);
    nic.frame_arrives(2_000_000_000, &[0; 60]);
    nic.run(3_000_000_000, &mut testbed);
    assert!(nic.tally().closes());
}

/// A UDP frame with `bytes` bytes behind its headers.
fn datagram(port: u8, bytes: usize) -> Vec<u8> {
    let mut frame = vec![0; 12];
    frame.extend([8, 0, 0x45, 0, 0, 0, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
    frame.extend([4, port, 0, 9, 0, 0, 0, 0]);
    frame.resize(42 + bytes, 7);
    frame
}

/// A card with `queues` queues. Each has a ring of 8 descriptors with `buffers` buffers. The rings begin at
/// `RX`, 128 bytes apart.
fn queues(testbed: &mut Testbed, queues: u32, buffers: u32) -> RateLimitedNic {
    let params = Params { rx_queues: queues, rx_fetch: 4, rx_fifo_bytes: 4096, ..params(Timer::FirstFrame) };
    let mut nic = RateLimitedNic::new(params);
    for queue in 0..queues {
        let (registers, ring) = (queue * reg::QUEUE, RX + 128 * queue as usize);
        for index in 0..8 {
            testbed.word(ring + index * 16, (0x5000 + 0x800 * queue as usize + index * 256) as u64);
            testbed.word(ring + index * 16 + 8, 256);
        }
        nic.write(0, registers + reg::RX_BASE, ring as u32);
        nic.write(0, registers + reg::RX_SIZE, 8);
        nic.write(0, registers + reg::RX_TAIL, buffers);
    }
    nic
}

#[test]
fn flows_go_to_queues_by_their_hash_and_the_table() {
    let mut testbed = Testbed::new();
    let mut nic = queues(&mut testbed, 4, 7);
    let key: [u8; rss::KEY_BYTES] =
        std::array::from_fn(|index| (index * index * 31 + index * 7) as u8 ^ 0x5a);
    for (offset, bytes) in (0..).step_by(4).zip(key.chunks(4)) {
        nic.write(0, reg::RSS_KEY + offset, u32::from_le_bytes(bytes.try_into().unwrap()));
    }
    for offset in (0..rss::ENTRIES as u32).step_by(4) {
        nic.write(0, reg::RSS_TABLE + offset, u32::from_le_bytes([3, 2, 1, 0]));
    }
    nic.frame_arrives(0, &datagram(0, 18));
    nic.run(10_000_000, &mut testbed);
    assert!(testbed.done(RX, 0), "by default the first queue takes all frames");
    nic.write(0, reg::RSS, 1);
    let mut taken = [1, 0, 0, 0];
    for port in 0..8 {
        let now = 20_000_000 + u64::from(port) * 5_000_000;
        let frame = datagram(port, 18);
        let queue = 3 - rss::hash(&key, &frame).unwrap() as usize % 4;
        nic.run(now, &mut testbed);
        nic.frame_arrives(now, &frame);
        nic.run(now + 4_000_000, &mut testbed);
        assert!(testbed.done(RX + 128 * queue, taken[queue]), "port {port} is queue {queue}'s");
        taken[queue] += 1;
        assert_eq!(testbed.memory[0x5000 + 0x800 * queue + (taken[queue] - 1) * 256 + 35], port);
    }
    assert!(taken.iter().all(|frames| (1..7).contains(frames)), "{taken:?}");
    assert!(nic.tally().closes());
    nic.frame_arrives(90_000_000, &[0; 60]);
    nic.run(95_000_000, &mut testbed);
    assert!(testbed.done(RX, taken[0]), "frames that are not IP go to the first queue");
}

#[test]
fn a_queue_without_descriptors_holds_up_no_other_and_interrupts_for_itself() {
    let mut testbed = Testbed::new();
    let mut nic = queues(&mut testbed, 2, 7);
    nic.write(0, reg::QUEUE + reg::RX_TAIL, 0);
    // An even hash selects the first queue, an odd one the second. With a key of ones the hash is all ones
    // for an odd number of set bits, and 0 for an even number.
    for offset in (0..rss::KEY_BYTES as u32).step_by(4) {
        nic.write(0, reg::RSS_KEY + offset, u32::MAX);
    }
    for offset in (0..rss::ENTRIES as u32).step_by(4) {
        nic.write(0, reg::RSS_TABLE + offset, u32::from_le_bytes([0, 1, 0, 1]));
    }
    nic.write(0, reg::RSS, 1);
    for number in 0..2 {
        nic.write(0, number * reg::QUEUE + reg::AUTO, 1);
        nic.write(0, number * reg::QUEUE + reg::MASK, cause::RECEIVED);
    }
    let odd = datagram(0, 18);
    let even = datagram(1, 18);
    for frame in [&odd, &even, &odd] {
        nic.frame_arrives(0, frame);
    }
    nic.run(10_000_000, &mut testbed);
    let tally = *nic.tally();
    assert_eq!((tally.to_host, tally.dropped_no_descriptor, tally.in_fifo), (1, 2, 0));
    assert!(tally.closes());
    let (with, without) = if testbed.done(RX, 0) { (0, 1) } else { (1, 0) };
    assert!(nic.interrupt_line(with) && !nic.interrupt_line(without));
    nic.interrupt_taken(with);
    assert!(!nic.interrupt_line(with) && !nic.interrupt_enabled(with) && nic.interrupt_enabled(without));
    nic.write(0, with as u32 * reg::QUEUE + reg::MASK, cause::RECEIVED);
    assert!(!nic.interrupt_line(with), "a reported frame is not reported again");
}

#[test]
fn headers_lie_side_by_side_and_the_rest_in_its_buffer() {
    let mut testbed = Testbed::new();
    let mut nic = queues(&mut testbed, 1, 7);
    nic.write(0, reg::RX_HEADERS, 0x6000);
    nic.write(0, reg::RX_HEADER_BYTES, 64);
    for (index, frame) in [datagram(1, 100), vec![9; 60], datagram(2, 100)].iter().enumerate() {
        let now = index as u64 * 5_000_000;
        nic.frame_arrives(now, frame);
        nic.run(now + 4_000_000, &mut testbed);
    }
    let word =
        |index: usize| u64::from_le_bytes(testbed.memory[RX + index * 16 + 8..][..8].try_into().unwrap());
    assert_eq!(word(0), 142 | descriptor::DONE | 42 << descriptor::HEADER_SHIFT);
    assert_eq!(word(1), 60 | descriptor::DONE, "no known headers");
    for (index, port) in [(0, 1), (2, 2)] {
        assert_eq!(testbed.memory[0x6000 + index * 64..][..42], datagram(port, 100)[..42]);
        assert_eq!(testbed.memory[0x5000 + index * 256..][..101], [[7; 100].as_slice(), &[0]].concat());
    }
    // A frame whose headers are longer than their buffer stays whole.
    nic.write(0, reg::RX_HEADER_BYTES, 40);
    nic.frame_arrives(20_000_000, &datagram(3, 100));
    nic.run(25_000_000, &mut testbed);
    assert_eq!(testbed.memory[0x5000 + 3 * 256..][..142], datagram(3, 100));
    assert!(nic.tally().closes());
}

#[test]
fn descriptors_are_fetched_several_at_once_as_far_as_they_go() {
    let mut testbed = Testbed::new();
    let mut nic = queues(&mut testbed, 1, 7);
    let frames = |nic: &mut RateLimitedNic, testbed: &mut Testbed, from: u64, count: u64| {
        for index in from..from + count {
            nic.frame_arrives(index * 5_000_000, &[1; 60]);
            nic.run(index * 5_000_000 + 4_000_000, testbed);
        }
    };
    frames(&mut nic, &mut testbed, 0, 7);
    assert_eq!((nic.tally().to_host, testbed.fetches), (7, 2), "four, then three");
    // The card fetches the ring's last descriptor, and then the first two.
    nic.write(40_000_000, reg::RX_TAIL, 2);
    frames(&mut nic, &mut testbed, 8, 3);
    assert_eq!((nic.tally().to_host, testbed.fetches), (10, 4));
}
