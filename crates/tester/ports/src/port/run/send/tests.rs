#![allow(clippy::unwrap_used)]

use super::*;
use crate::port::run::{Glance, Shape, StreamPlan, Timetable};
use crate::port::{Counters, Descriptor, Link, NextPoll, Wake};
use kpps_frames::build::{Flow, udp_test};
use kpps_frames::rate::Rate;
use kpps_frames::{Mix, Size, Stack, Templates, tag};
use kpps_platform::memory::Memory;
use kpps_platform::memory::PoolBuffer;
use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;

/// For each frame that is sent another comes in; there is room for 256 of them, as in a ring.
struct Mirror {
    pool: BufferPool,
    waiting: u64,
    /// How long there is no room to send after each burst, and until when that is now.
    pause: Duration,
    full_until: Instant,
    epoch: Instant,
    counters: Counters,
    /// The times in the tags of what was sent.
    times_ps: BTreeSet<u64>,
    /// The frames without their tags, and the number of frames that differ.
    template: Vec<u8>,
    damaged: u64,
    missed: u64,
    /// The first bytes of all frames that were sent, and the longest frame that it sends.
    leading: Vec<[u8; 2]>,
    longest: u16,
    /// Sends from buffers that it keeps, with anything in them.
    keeps: bool,
    /// From when to when after its first frame its link is down: frames wait in its queue then.
    down: Range<Duration>,
    first: Option<Instant>,
    queued: u64,
    /// The most frames that were sent within a millisecond.
    largest_burst: u64,
    burst: (Duration, u64),
    /// All frames that were sent, if they are kept.
    keeps_all: bool,
    all: Vec<Vec<u8>>,
}

impl Mirror {
    /// A frame leaves.
    fn leaves(&mut self, frames: u64) {
        let now = self.epoch.elapsed();
        let (began, before) = self.burst;
        self.burst =
            if now - began < Duration::from_millis(1) { (began, before + frames) } else { (now, frames) };
        self.largest_burst = self.largest_burst.max(self.burst.1);
        self.counters.sent += frames;
    }
    fn is_down(&mut self) -> bool {
        let first = self.first.get_or_insert_with(Instant::now);
        self.down.contains(&first.elapsed())
    }
}

impl Wake for Mirror {
    fn next_poll(&self) -> NextPoll {
        if self.waiting > 0 { NextPoll::Now } else { NextPoll::Asleep }
    }
    fn signals_tx_space(&self) -> bool {
        false
    }
    fn wants_to_send(&self) -> bool {
        self.queued > 0
    }
    fn now_ns(&self) -> u64 {
        self.epoch.elapsed().as_nanos() as u64
    }
    fn fd(&self) -> Option<Descriptor<'_>> {
        None
    }
}

impl Port for Mirror {
    fn receive(
        &mut self,
        budget: usize,
        mut sink: impl FnMut(Frame) -> Option<PoolBuffer>,
    ) -> Result<usize, Trouble> {
        let taken = self.waiting.min(budget as u64);
        for _ in 0..taken {
            let buffer = self.pool.take().unwrap();
            self.pool.give(sink(Frame { buffer, bytes: 60 }).unwrap());
        }
        self.waiting -= taken;
        self.counters.received += taken;
        Ok(taken as usize)
    }
    fn send(&mut self, frame: Frame) -> Result<(), Frame> {
        if !(1..=self.longest).contains(&frame.bytes) {
            self.pool.give(frame.buffer);
            return Ok(());
        }
        self.times_ps.extend(tag::read(frame.as_ref()).map(|tag| tag.sent_ps));
        self.damaged += u64::from(frame.as_ref()[..tag::OFFSET] != self.template[..tag::OFFSET]);
        self.leading.push([frame.as_ref()[0], frame.as_ref()[1]]);
        if self.keeps_all {
            self.all.push(frame.as_ref().to_vec());
        }
        self.pool.give(frame.buffer);
        self.queued += 1;
        match self.waiting {
            256 => self.missed += 1,
            _ => self.waiting += 1,
        }
        Ok(())
    }
    fn send_again(&mut self, most: usize, mut write: impl FnMut(&mut [u8]) -> u16) -> usize {
        let most = if self.keeps { most.min(self.tx_space()) } else { 0 };
        for _ in 0..most {
            let mut buffer = self.pool.take().unwrap();
            buffer.bytes_mut().fill(0xee);
            let bytes = write(buffer.bytes_mut());
            self.send(Frame { buffer, bytes }).unwrap();
        }
        most
    }
    fn flush(&mut self) -> Result<(), Trouble> {
        self.full_until = Instant::now() + self.pause;
        if !self.is_down() {
            let queued = std::mem::take(&mut self.queued);
            self.leaves(queued);
        }
        Ok(())
    }
    fn tx_space(&mut self) -> usize {
        if Instant::now() < self.full_until { 0 } else { 64 - (self.queued as usize).min(64) }
    }
    fn in_flight(&mut self) -> usize {
        0
    }
    fn woken(&mut self) -> Result<(), Trouble> {
        Ok(())
    }
    fn maintain(&mut self) -> Result<(), Trouble> {
        Ok(())
    }
    fn counters(&mut self) -> Result<Counters, Trouble> {
        Ok(self.counters)
    }
    fn frames(&self) -> (u64, u64) {
        (self.counters.received, self.counters.sent)
    }
    fn link(&self) -> Link {
        Link::default()
    }
    fn refresh_link(&mut self) -> Result<(), Trouble> {
        Ok(())
    }
    fn pool(&mut self) -> &mut BufferPool {
        &mut self.pool
    }
}

/// No end but that of the plan.
struct Always;

impl Watch for Always {
    fn at_most(&self) -> Option<Duration> {
        None
    }
    fn go_on(&mut self, _: &crate::port::run::Glance) -> bool {
        true
    }
}

/// An end after this number of milliseconds.
struct Ends(u64);

impl Watch for Ends {
    fn at_most(&self) -> Option<Duration> {
        Some(Duration::from_millis(self.0))
    }
    fn go_on(&mut self, _: &crate::port::run::Glance) -> bool {
        true
    }
}

fn mirror(pause: Duration) -> Mirror {
    Mirror {
        pool: Memory::private(4 << 20).unwrap().pool(128, 2048, None).unwrap(),
        waiting: 0,
        pause,
        full_until: Instant::now(),
        epoch: Instant::now(),
        counters: Counters::default(),
        times_ps: BTreeSet::new(),
        template: udp_test(&Flow::default(), Size::MIN).unwrap(),
        damaged: 0,
        missed: 0,
        leading: Vec::new(),
        longest: 1514,
        keeps: false,
        down: Duration::ZERO..Duration::ZERO,
        first: None,
        queued: 0,
        largest_burst: 0,
        burst: (Duration::ZERO, 0),
        keeps_all: false,
        all: Vec::new(),
    }
}

fn flood(frames: u64) -> SendPlan {
    plan(Rate::Max, Some(frames))
}

/// A plan of one frame, over and over.
fn plan(rate: Rate, count: Option<u64>) -> SendPlan {
    let frames = Arc::new(Templates::one(&udp_test(&Flow::default(), Size::MIN).unwrap()));
    let stream = StreamPlan { stream: 1, count, ..StreamPlan::of(frames) };
    SendPlan { rewrite: true, ..SendPlan::one(rate, stream) }
}

/// A flood receives as fast as it sends, and the time in a tag is that of its burst.
#[test]
fn a_flood_goes_in_both_directions() {
    const FRAMES: u64 = 64_000;
    let mut port = mirror(Duration::ZERO);
    let sent = send(&mut port, &flood(FRAMES), &mut Always).unwrap();
    assert_eq!((sent.sent, port.counters.sent), (FRAMES, FRAMES));
    // Received frames are noticed with the first receive call.
    let first = 32 * BURST as u64;
    assert!(port.missed <= first, "{} missed", port.missed);
    // Clocks have their steps.
    let bursts = FRAMES / BURST as u64;
    assert!(port.times_ps.len() as u64 > bursts / 2, "{} times for {bursts} bursts", port.times_ps.len());
}

/// Buffers that others hold return without a wake-up: the sender polls again soon.
#[test]
fn a_flood_goes_on_when_there_is_room_again() {
    const BURSTS: u64 = 300;
    let mut elapsed = Vec::new();
    let mut goes_on_soon = || {
        let mut port = mirror(Duration::from_micros(100));
        let sent = send(&mut port, &flood(BURSTS * BURST as u64), &mut Always).unwrap();
        assert_eq!(sent.sent, BURSTS * BURST as u64);
        elapsed.push(sent.elapsed);
        // If it waited for the next maintenance, it would take 20 ms each time, 6 s in all.
        sent.elapsed < Duration::from_secs(3)
    };
    // A busy machine may hold it up now and then.
    assert!((0..6).any(|_| goes_on_soon()), "{elapsed:?}");
}

/// A port may keep buffers of its own, with anything in them: frames are written as a whole where that is
/// asked for.
#[test]
fn kept_buffers_have_the_frame_written_into_them() {
    for keeps in [false, true] {
        let mut port = Mirror { keeps, ..mirror(Duration::ZERO) };
        let sent = send(&mut port, &flood(1000), &mut Always).unwrap();
        assert_eq!((sent.sent, sent.shortfall, port.damaged), (1000, 0, 0), "{keeps}");
    }
}

/// Frames that become due while the sender waits for a CPU until the end are due nevertheless, and count as
/// generator shortfall.
#[test]
fn a_pause_at_the_end_hides_nothing_that_was_due() {
    let mut port = mirror(Duration::ZERO);
    let plan = paced(10_000.0);
    let mut listen = |port: &mut Mirror| {
        if port.counters.sent >= 100 {
            std::thread::sleep(Duration::from_millis(100));
        }
        Ok(0)
    };
    let sent = send_and_listen(&mut port, &plan, &mut Ends(60), &mut listen).unwrap();
    assert_eq!((sent.intended, sent.sent + sent.shortfall), (600, 600), "{sent:?}");
    assert!(sent.shortfall > 0 && sent.elapsed >= Duration::from_millis(60), "{sent:?}");
}

/// A load of `pps` frames a second.
fn paced(pps: f64) -> SendPlan {
    plan(Rate::Pps(pps), None)
}

/// While the link is down, frames count as generator shortfall, and so do frames that would be late.
/// Afterwards each frame is sent at its time again.
#[test]
fn a_sender_goes_on_after_its_link_was_down() {
    let down = Duration::from_millis(50)..Duration::from_millis(350);
    let mut port = Mirror { down, ..mirror(Duration::ZERO) };
    let sent = send(&mut port, &paced(5000.0), &mut Ends(600)).unwrap();
    assert_eq!(sent.intended, sent.sent + sent.shortfall, "{sent:?}");
    // 300 ms are 1500 frames. The port's queue keeps 64 of them, and 32 may be late.
    assert!(sent.shortfall >= 1390, "{sent:?}");
    assert!(port.burst.0 > Duration::from_millis(350), "the last frame left after {:?}", port.burst.0);
    // Both together, if the sender had to wait for its CPU.
    assert!(port.largest_burst <= 64 + 32, "a burst of {} frames", port.largest_burst);
}

/// A receiver that holds up the sender once, for 50 ms, after 20 frames.
fn pausing() -> impl FnMut(&mut Mirror) -> Result<usize, Trouble> {
    let mut paused = false;
    move |port| {
        if port.counters.sent >= 20 && !std::mem::replace(&mut paused, true) {
            std::thread::sleep(Duration::from_millis(50));
        }
        Ok(0)
    }
}

/// Frames that became due while the sender did not run are not sent at once afterwards, except for 32.
#[test]
fn no_burst_follows_a_pause() {
    let mut port = mirror(Duration::ZERO);
    let mut listen = pausing();
    let sent = send_and_listen(&mut port, &paced(1000.0), &mut Ends(100), &mut listen).unwrap();
    assert_eq!(sent.intended, sent.sent + sent.shortfall, "{sent:?}");
    assert!(sent.shortfall >= 16, "{sent:?}");
    assert!(port.largest_burst <= 36, "a burst of {} frames", port.largest_burst);
}

/// Where late frames are sent, all frames are sent after a pause, and the delays are those of the pause.
#[test]
fn late_frames_are_sent_and_their_delay_is_reported() {
    for shape in [Shape::Constant, Shape::Poisson { seed: 3 }, Shape::Bursts(4)] {
        let mut port = mirror(Duration::ZERO);
        let mut listen = pausing();
        let mut plan = SendPlan { late: Late::Send, ..plan(Rate::Pps(1000.0), Some(200)) };
        plan.streams[0].shape = shape;
        let sent = send_and_listen(&mut port, &plan, &mut Always, &mut listen).unwrap();
        assert_eq!((sent.intended, sent.sent, sent.shortfall), (200, 200, 0), "{sent:?}");
        assert!(sent.skipped.is_empty());
        let late = sent.lateness.unwrap();
        // Within 50 ms some 50 frames become due, of this Poisson process more than 20. On a busy machine
        // there are other pauses, too.
        assert!(late.frames >= 20, "{shape:?} {late:?}");
        assert!(late.longest >= Duration::from_millis(40), "{shape:?} {late:?}");
    }
    let sent = send(&mut mirror(Duration::ZERO), &paced(1000.0), &mut Ends(20)).unwrap();
    assert_eq!(sent.lateness, None, "there are no late frames among those that were sent");
}

/// Before the time of a frame only the frames before it are due.
#[test]
fn frames_have_the_times_at_which_they_are_due() {
    let ramp = Shape::Ramp(100.0, Duration::from_secs(1));
    let then = Shape::Then(Duration::from_millis(100), 5000.0);
    for shape in [Shape::Constant, Shape::Poisson { seed: 7 }, Shape::Bursts(8), ramp, then] {
        let (mut due, mut times) = (Timetable::new(1000.0, shape), Timetable::new(1000.0, shape));
        for frame in 0..500 {
            let at_s = times.time_of(frame);
            // Not before, but then: times are rounded to parts of a ns.
            assert!(at_s < 1e-6 || due.before(at_s - 1e-6) <= frame as f64 + 1e-3, "{shape:?} {frame}");
            assert!(due.due(at_s + 1e-6) > frame, "{shape:?} {frame}");
        }
    }
}

/// A plan of different frames without tags, each with its number in front; every `long`-th is as long as
/// that.
fn replay(load: Rate, frames: u16, count: Option<u64>, (long, bytes): (u16, usize)) -> SendPlan {
    let frame = |n: u16| {
        let bytes = if n % long == 1 { bytes } else { 60 };
        [&n.to_be_bytes()[..], &vec![7; bytes - 2]].concat()
    };
    let frames = Arc::new(Templates::each((0..frames).map(frame)));
    let stream = StreamPlan { count, ..StreamPlan::of(frames) };
    SendPlan { as_they_are: true, rewrite: true, ..SendPlan::one(load, stream) }
}

/// A frame of a capture that is skipped, as its time is over, is not sent later, nor another one twice.
#[test]
fn frames_of_a_capture_are_sent_once_or_skipped() {
    for rounds in [1, 2] {
        let mut port = mirror(Duration::ZERO);
        let mut listen = pausing();
        let plan = replay(Rate::Pps(5000.0), 1000, Some(1000 * rounds), (1000, 60));
        let sent = send_and_listen(&mut port, &plan, &mut Always, &mut listen).unwrap();
        let skipped = sent.skipped.iter().map(|(_, frames)| frames).sum::<u64>();
        assert_eq!((sent.intended, sent.sent + sent.shortfall), (1000 * rounds, 1000 * rounds), "{sent:?}");
        assert!(sent.shortfall >= 200 && skipped == sent.shortfall, "{sent:?}");
        let is_skipped =
            |n: u64| sent.skipped.iter().any(|(first, count)| (*first..first + count).contains(&n));
        let due = (0..1000 * rounds).filter(|n| !is_skipped(*n)).map(|n| ((n % 1000) as u16).to_be_bytes());
        assert!(due.eq(port.leading.iter().copied()), "those that were not skipped, each once, in order");
    }
}

/// Frames that the port cannot send are a shortfall, whether buffers hold them or not. The others go.
#[test]
fn frames_that_are_too_long_hold_up_no_others() {
    for bytes in [1600, 3000] {
        for load in [Rate::Max, Rate::Pps(20_000.0)] {
            let mut port = mirror(Duration::ZERO);
            let sent = send(&mut port, &replay(load, 300, Some(300), (3, bytes)), &mut Always).unwrap();
            assert_eq!((sent.intended, sent.sent + sent.shortfall), (300, 300), "{bytes} {load:?}: {sent:?}");
            assert!(sent.shortfall >= 100 && (load != Rate::Max || sent.shortfall == 100), "{sent:?}");
            let numbers = port.leading.iter().map(|bytes| u16::from_be_bytes(*bytes));
            assert!(numbers.clone().is_sorted() && numbers.clone().all(|n| n % 3 != 1));
        }
    }
}

/// Several streams: each sends its frames, with its own numbers, in its own time.
#[test]
fn streams_are_sent_side_by_side() {
    let stream = |number: u16, pps: f64, start_ms: u64, count: u64| {
        let mut stack = Stack::read("ethernet/vlan/ipv4/udp").unwrap();
        stack.set_text("vlan.id", &format!("{number}")).unwrap();
        stack.set_text("udp.sport", "1000-1999").unwrap();
        let between = kpps_frames::stack::Between {
            macs: Default::default(),
            ips: [[10, 0, 0, 1].into(), [10, 0, 0, 2].into()],
        };
        let frames = stack.templates(&between, &Mix::fixed(Size::with_fcs(100))).unwrap();
        StreamPlan {
            stream: number,
            pps,
            start: Duration::from_millis(start_ms),
            count: Some(count),
            ..StreamPlan::of(Arc::new(frames))
        }
    };
    let streams = [stream(1, 2000.0, 0, 100), stream(2, 500.0, 20, 10), stream(3, 1000.0, 0, 30)];
    for late in [Late::Send, Late::Skip] {
        let mut port = Mirror { keeps_all: true, ..mirror(Duration::ZERO) };
        let plan =
            SendPlan { streams: streams.to_vec(), late, ..SendPlan::one(Rate::Pps(1.0), streams[0].clone()) };
        let sent = send(&mut port, &plan, &mut Always).unwrap();
        assert_eq!((sent.intended, sent.sent + sent.shortfall), (140, 140), "{sent:?}");
        assert_eq!(sent.of_streams.iter().sum::<u64>(), sent.sent, "{sent:?}");
        // Also those that were left out.
        assert_eq!(sent.due_of_streams, [100, 10, 30]);
        if late == Late::Send {
            assert_eq!(sent.of_streams, [100, 10, 30]);
        }
        let mut next = [0; 4];
        for frame in &port.all {
            let tag = tag::read(frame).unwrap();
            let stream = usize::from(tag.stream);
            assert_eq!((tag.sequence, u16::from(frame[15])), (next[stream], tag.stream));
            // The source port is a pattern.
            assert_eq!(u16::from_be_bytes([frame[38], frame[39]]), 1000 + next[stream] as u16);
            next[stream] += 1;
        }
        assert_eq!(next[1..], sent.of_streams);
        let gaps = sent.gaps.unwrap();
        assert_eq!((gaps.count, gaps.intended_ns), (sent.sent - 1, None));
    }
    // As fast as possible: in the proportion of the rates, and each up to its count.
    let mut port = Mirror { keeps_all: true, ..mirror(Duration::ZERO) };
    let plan = SendPlan { streams: streams.to_vec(), ..SendPlan::one(Rate::Max, streams[0].clone()) };
    let sent = send(&mut port, &plan, &mut Always).unwrap();
    assert_eq!((sent.sent, sent.of_streams), (140, vec![100, 10, 30]));
}

/// A single stream with an end of its own keeps its rate, though all of its frames are alike.
#[test]
fn a_stream_with_an_end_keeps_its_rate() {
    for (start_ms, duration_ms, frames) in [(0, 100, 100), (20, 50, 50), (0, 1, 1)] {
        let mut port = Mirror { keeps_all: true, ..mirror(Duration::ZERO) };
        let mut plan = paced(1000.0);
        plan.streams[0].start = Duration::from_millis(start_ms);
        plan.streams[0].duration = Some(Duration::from_millis(duration_ms));
        let sent = send(&mut port, &plan, &mut Ends(200)).unwrap();
        assert_eq!((sent.intended, sent.sent + sent.shortfall), (frames, frames), "{sent:?}");
        assert_eq!((&sent.of_streams[..], &sent.due_of_streams[..]), (&[sent.sent][..], &[frames][..]));
        let numbers = port.all.iter().map(|frame| tag::read(frame).unwrap().sequence);
        assert!(numbers.eq(0..sent.sent));
    }
}

/// Many streams that begin together are late only when a millisecond has passed.
#[test]
fn streams_that_begin_together_are_not_late_at_once() {
    let mut port = Mirror { keeps_all: true, ..mirror(Duration::ZERO) };
    let mut plan = paced(1.0);
    plan.late = Late::Send;
    plan.streams = vec![StreamPlan { count: Some(1), ..plan.streams[0].clone() }; 500];
    let sent = send(&mut port, &plan, &mut Always).unwrap();
    assert_eq!((sent.intended, sent.sent, sent.of_streams.len()), (500, 500, 500));
}

/// Where late frames are sent, those that were due at the end of the time are sent after it.
#[test]
fn late_frames_are_sent_after_the_end() {
    /// Ends after a time.
    struct For(Duration);
    impl Watch for For {
        fn at_most(&self) -> Option<Duration> {
            Some(self.0)
        }
        fn go_on(&mut self, _: &Glance) -> bool {
            true
        }
    }
    let frames = plan(Rate::Pps(1.0), None).streams[0].frames.clone();
    let stream = |number| StreamPlan { stream: number, pps: 1000.0, ..StreamPlan::of(frames.clone()) };
    for streams in [vec![stream(1)], vec![stream(0), stream(1)]] {
        let all = 60 * streams.len() as u64;
        let plan = SendPlan {
            late: Late::Send,
            rewrite: true,
            streams,
            ..SendPlan::one(Rate::Pps(1000.0), stream(1))
        };
        let mut port = mirror(Duration::ZERO);
        // It pauses over the end.
        let mut paused = false;
        let mut listen = |_: &mut Mirror| {
            if !paused {
                std::thread::sleep(Duration::from_millis(80));
                paused = true;
            }
            Ok(0)
        };
        let mut watch = For(Duration::from_millis(60));
        let sent = send_and_listen(&mut port, &plan, &mut watch, &mut listen).unwrap();
        assert_eq!((sent.intended, sent.sent, sent.shortfall), (all, all, 0), "{sent:?}");
        assert!(sent.lateness.unwrap().longest >= Duration::from_millis(79), "{sent:?}");
    }
}
