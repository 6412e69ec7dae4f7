//! The host's load: tagged frames at an exact rate on a [`Wire`], open loop, by a thread of its own.
//!
//! A frame is due at its time, whatever happened to earlier ones. If the cable does not take it within
//! [`LATEST_SEND`], it counts as the generator's shortfall.

use crate::lab::{Error, Result};
use crate::wire::{LENGTH_BYTES, Wire};
use kpps_frames::rate::Rate;
use kpps_frames::{Tag, tag};
use kpps_methods::units::{self, RateSpec};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How late a frame may be sent.
pub const LATEST_SEND: Duration = Duration::from_millis(2);
/// The sender's nice value.
const PRIORITY: i32 = -10;
/// Frames for one system call.
const BURST: usize = 256;
/// How long the sender sleeps when nothing is due.
const REST: Duration = Duration::from_micros(50);

/// The rate of a load on QEMU's wire: `400kpps`, `max`.
///
/// # Errors
/// The mistake in the text, in one line.
pub fn rate(text: &str) -> std::result::Result<Rate, String> {
    match units::rate_or_max(text)? {
        RateSpec::Max => Ok(Rate::Max),
        RateSpec::Pps(pps) => Ok(Rate::Pps(pps)),
        RateSpec::L1(_) | RateSpec::L2(_) => {
            Err(format!("'{text}' is no load for a guest: give frames per second, or max"))
        }
        RateSpec::Percent(_) => Err(format!(
            "'{text}' is no load for a guest, because QEMU's wire has no line rate: give frames per second, or max"
        )),
    }
}

/// Frames sent and received so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Frames that the cable took.
    pub sent: u64,
    /// Shortfall: frames that were due and that the cable did not take in time.
    pub shortfall: u64,
    /// Frames received with a good tag.
    pub received: u64,
    /// Of these, duplicates.
    pub duplicated: u64,
    /// Of these, frames after a later one.
    pub reordered: u64,
    /// Other frames received: with a damaged tag or none, or changed.
    pub strange: u64,
}

#[derive(Debug, Default)]
struct Shared {
    sent: AtomicU64,
    shortfall: AtomicU64,
    received: AtomicU64,
    duplicated: AtomicU64,
    reordered: AtomicU64,
    strange: AtomicU64,
    quiet: AtomicBool,
    stop: AtomicBool,
}

/// A running load.
#[derive(Debug)]
pub struct Load {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<Result<Wire>>>,
}

impl Load {
    /// Sends copies of `frame` (without FCS, with room for a tag) from now on, and receives.
    ///
    /// # Errors
    /// If the rate is not a positive number, or no thread can be started.
    pub fn start(wire: Wire, rate: Rate, frame: Vec<u8>) -> Result<Self> {
        if let Rate::Pps(pps) = rate
            && !(pps > 0.0 && pps.is_finite())
        {
            return Err(Error::Input(format!(
                "a load of {pps} frames per second is not possible: give a number above 0"
            )));
        }
        let shared = Arc::new(Shared::default());
        let sender = Sender::new(wire, rate, &frame, Arc::clone(&shared));
        let thread = std::thread::Builder::new().name("load".into()).spawn(move || sender.run())?;
        Ok(Self { shared, thread: Some(thread) })
    }

    /// Frames sent and received so far.
    pub fn counts(&self) -> Counts {
        let get = |counter: &AtomicU64| counter.load(Relaxed);
        Counts {
            sent: get(&self.shared.sent),
            shortfall: get(&self.shared.shortfall),
            received: get(&self.shared.received),
            duplicated: get(&self.shared.duplicated),
            reordered: get(&self.shared.reordered),
            strange: get(&self.shared.strange),
        }
    }

    /// Stops sending, but goes on receiving.
    pub fn quiet(&self) {
        self.shared.quiet.store(true, Relaxed);
    }

    /// Whether the thread still runs.
    pub fn is_running(&self) -> bool {
        self.thread.as_ref().is_some_and(|thread| !thread.is_finished())
    }

    /// Ends the load. Returns the cable and the counts.
    ///
    /// # Errors
    /// A failure of the wire.
    pub fn stop(mut self) -> Result<(Wire, Counts)> {
        self.shared.stop.store(true, Relaxed);
        let ended = self.thread.take().map(JoinHandle::join);
        match ended {
            Some(Ok(wire)) => Ok((wire?, self.counts())),
            _ => Err(Error::Input("the load's thread has failed".into())),
        }
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.shared.stop.store(true, Relaxed);
    }
}

struct Sender {
    wire: Wire,
    rate: Rate,
    /// Frames, each behind its length.
    burst: Vec<u8>,
    each: usize,
    shared: Arc<Shared>,
    seen: Seen,
    /// A frame as it is sent, its tag aside.
    frame: Vec<u8>,
}

impl Sender {
    fn new(wire: Wire, rate: Rate, frame: &[u8], shared: Arc<Shared>) -> Self {
        let length = u32::try_from(frame.len()).unwrap_or(u32::MAX).to_be_bytes();
        let one = [&length, frame].concat();
        let (burst, each) = (one.repeat(BURST), one.len());
        Self { wire, rate, burst, each, shared, seen: Seen::default(), frame: frame.to_vec() }
    }

    fn run(mut self) -> Result<Wire> {
        // A higher priority than the guest's, so that the tester is seldom late. If that is not permitted,
        // the shortfall shows it.
        let _ = rustix::process::setpriority_process(Some(rustix::thread::gettid()), PRIORITY);
        // Sleeps are to end when they should; a kernel that refuses makes them longer.
        let _ = rustix::thread::set_current_timer_slack(std::num::NonZeroU64::new(1000));
        let since = Instant::now();
        let (mut sent, mut shortfall) = (0u64, 0u64);
        while !self.shared.stop.load(Relaxed) {
            let came = self.take()?;
            let owed = if self.shared.quiet.load(Relaxed) {
                self.wire.flush()?;
                0
            } else {
                match self.rate {
                    Rate::Max => BURST as u64,
                    Rate::Pps(pps) => {
                        let due = (since.elapsed().as_secs_f64() * pps) as u64;
                        let owed = due - (sent + shortfall);
                        // Frames of the last moments may still go; at least one burst's start.
                        let in_time = (pps * LATEST_SEND.as_secs_f64()) as u64 + 16;
                        let late = owed.saturating_sub(in_time);
                        shortfall += late;
                        owed - late
                    }
                }
            };
            let count = usize::try_from(owed).unwrap_or(BURST).min(BURST);
            let taken = if count > 0 { self.send(sent, count)? } else { 0 };
            sent += taken as u64;
            self.shared.sent.store(sent, Relaxed);
            self.shared.shortfall.store(shortfall, Relaxed);
            if taken < count {
                self.wire.wait(REST);
            } else if came == 0 && count < BURST {
                std::thread::sleep(REST);
            }
        }
        Ok(self.wire)
    }

    /// Sends the next `count` frames, or as many of them as the wire takes.
    fn send(&mut self, first: u64, count: usize) -> Result<usize> {
        let bytes = count * self.each;
        for (sequence, frame) in (first..).zip(self.burst[..bytes].chunks_mut(self.each)) {
            let tag = Tag { stream: 0, sequence, sent_ps: sequence };
            tag::write(&mut frame[LENGTH_BYTES..], tag)
                .map_err(|e| Error::Input(format!("the load's frame: {e}")))?;
        }
        Ok(self.wire.send(&self.burst[..bytes], self.each)?)
    }

    fn take(&mut self) -> Result<usize> {
        let Self { wire, seen, shared, frame: sent, .. } = self;
        let received = wire.receive(|frame| match tag::read(frame) {
            Some(tag) if unchanged(frame, sent) => {
                shared.received.fetch_add(1, Relaxed);
                match seen.see(tag.sequence) {
                    Order::Next => {}
                    Order::Earlier => drop(shared.reordered.fetch_add(1, Relaxed)),
                    Order::Again => drop(shared.duplicated.fetch_add(1, Relaxed)),
                }
            }
            _ => drop(shared.strange.fetch_add(1, Relaxed)),
        });
        Ok(received?)
    }
}

/// Whether `frame` equals `sent`, except for the addresses of stations, the fields that a router changes, and
/// the tag.
fn unchanged(frame: &[u8], sent: &[u8]) -> bool {
    // Type; IP up to the time to live; addresses and UDP; behind the tag.
    let same = [12..22, 26..tag::OFFSET, tag::OFFSET + tag::BYTES..sent.len()];
    frame.len() == sent.len() && same.into_iter().all(|part| frame.get(part.clone()) == sent.get(part))
}

#[derive(Debug, PartialEq, Eq)]
enum Order {
    Next,
    Earlier,
    Again,
}

/// Which frames have come.
#[derive(Debug, Default)]
struct Seen {
    bits: Vec<u64>,
    next: u64,
}

impl Seen {
    /// Frames of one load: more than any makes.
    const MOST_FRAMES: u64 = 1 << 32;

    fn see(&mut self, sequence: u64) -> Order {
        let (word, bit) = ((sequence % Self::MOST_FRAMES / 64) as usize, sequence % 64);
        if self.bits.len() <= word {
            // A valid tag with an absurd number is as unlikely as a wrong check: 2⁻³².
            self.bits.resize(word + 1024, 0);
        }
        let place = &mut self.bits[word];
        let again = *place >> bit & 1 == 1;
        *place |= 1 << bit;
        let earlier = sequence < self.next;
        self.next = self.next.max(sequence + 1);
        match (again, earlier) {
            (true, _) => Order::Again,
            (_, true) => Order::Earlier,
            _ => Order::Next,
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use kpps_frames::Size;
    use kpps_frames::build::{Flow, udp_test};
    use std::os::unix::net::UnixStream;

    fn frame() -> Vec<u8> {
        udp_test(&Flow::default(), Size::MIN).unwrap()
    }

    fn until(mut it_is: impl FnMut() -> bool) {
        let since = Instant::now();
        while !it_is() {
            assert!(since.elapsed() < Duration::from_secs(60), "it does not come");
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    #[test]
    fn the_rate_is_exact_and_what_comes_back_is_told_apart() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let (mut wire, mut other) = (Wire::new(ours).unwrap(), Wire::new(theirs).unwrap());
        let mut seen = Vec::new();
        let (load, frames) = loop {
            let load = Load::start(wire, Rate::Pps(20_000.0), frame()).unwrap();
            let since = Instant::now();
            let mut frames = Vec::new();
            while since.elapsed() < Duration::from_millis(200) {
                other.receive(|frame| frames.push(frame.to_vec())).unwrap();
                std::thread::sleep(Duration::from_millis(1));
            }
            load.quiet();
            let due = since.elapsed().as_secs_f64() * 20_000.0;
            // Its thread may have had to wait for a CPU to notice.
            until(|| {
                std::thread::sleep(Duration::from_millis(50));
                other.receive(|frame| frames.push(frame.to_vec())).unwrap();
                load.counts().sent == frames.len() as u64
            });
            let counts = load.counts();
            seen.push((counts.sent + counts.shortfall, due));
            if ((counts.sent + counts.shortfall) as f64 - due).abs() < 200.0 + 0.2 * due && frames.len() > 6 {
                break (load, frames);
            }
            assert!(seen.len() < 6, "{seen:?}");
            wire = load.stop().unwrap().0;
        };
        // Back: one twice, two exchanged, one damaged, one with another end.
        let mut damaged = frames[5].clone();
        damaged[50] ^= 1;
        let mut other_type = frames[6].clone();
        other_type[12] ^= 1;
        for frame in [&frames[0], &frames[0], &frames[2], &frames[1], &damaged, &other_type] {
            assert!(other.send_one(frame).unwrap());
        }
        until(|| load.counts().received + load.counts().strange >= 6);
        let (_, counts) = load.stop().unwrap();
        let counted = (counts.received, counts.duplicated, counts.reordered, counts.strange);
        assert_eq!(counted, (4, 1, 1, 2));
    }

    #[test]
    fn what_the_wire_does_not_take_is_unsent() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let load = Load::start(Wire::new(ours).unwrap(), Rate::Pps(1e6), frame()).unwrap();
        until(|| load.counts().shortfall > 50_000 && load.counts().sent < load.counts().shortfall);
        drop(theirs);
        // It sends, and notices.
        std::thread::sleep(Duration::from_secs(1));
        assert!(load.stop().is_err(), "the other end is gone");
    }
}
