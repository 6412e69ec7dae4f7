//! Measuring a workload: windows of time while a driver works.

use crate::lab::counters::{Snapshot, accesses};
use crate::lab::feed::Feed;
use crate::lab::load::Counts;
use crate::lab::profile::{self, Executed, Symbols};
use crate::lab::source::{Cost, Sent, Source};
use crate::lab::workload::{
    self, Backend, Count, Driver, LOADED, OPEN, PBA, Register, Running, Settings, Work,
};
use crate::lab::{Clock, Error, Guest, Model, Result};
use kpps_documents::lab::SourceCost;
use kpps_frames::Size;
use kpps_frames::rate::Rate;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// How long traffic may take to begin, by the clock of a host that may be busy: QEMU's e1000 does not receive
/// for a second after its setup, links take two.
const TRAFFIC: Duration = Duration::from_secs(60);
/// How long frames may still arrive after the load has ended.
const AFTERWARDS: Duration = Duration::from_millis(kpps_methods::AFTERWARDS_MS as u64);
/// How long QEMU's e1000 receives nothing after its setup.
pub(crate) const RECEIVE_PAUSE: Duration = Duration::from_millis(1100);
/// How long traffic runs before it is measured.
const SETTLE: Duration = Duration::from_millis(200);
/// A profile consists of [`STRETCHES`] stretches of [`EXECUTED`] instructions, [`APART`] apart in the host's
/// time.
const STRETCHES: usize = 16;
const EXECUTED: u64 = 30_000;
const APART: Duration = Duration::from_millis(10);
/// How long register accesses are traced.
const TRACED: Duration = Duration::from_millis(60);
/// The place of frames that never reached the card. QEMU holds 10,000 frames for a card that takes none, and
/// drops later ones. That happens while a command that reads counters occupies the CPU, so that no driver
/// runs. Frames that QEMU still holds at the end are dropped, too. QEMU does not count them: they are the
/// difference between sent frames and the card's own counters.
const BEFORE_THE_CARD: &str = "before the card";

/// A measurement to be done.
#[derive(Clone, Copy, Debug)]
pub struct Job<'a> {
    /// The card.
    pub model: Model,
    /// The driver.
    pub driver: Driver,
    /// How the driver accesses its card.
    pub backend: Backend,
    /// The workload.
    pub work: Work,
    /// Settings of the kernel's driver.
    pub settings: &'a Settings,
    /// The host's load, for workloads that need one.
    pub rate: Rate,
    /// Windows, one after the other.
    pub windows: u32,
    /// The length of each.
    pub window: Duration,
    /// Whether register accesses are traced afterwards.
    pub traced: bool,
    /// Whether to record where the instructions go.
    pub profiled: bool,
}

/// One window. A rate is `None` if the clock that it is measured by did not advance.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    /// Frames per second that the workload processed.
    pub pps: Option<f64>,
    /// Frames per second that the host sent.
    pub sent_pps: Option<f64>,
    /// Interrupts of cards per second.
    pub interrupts_per_s: Option<f64>,
    /// The share of the guest's CPU time that was not idle.
    pub busy: Option<f64>,
    /// Instructions for each frame, on the clock that counts them.
    pub instructions: Option<f64>,
}

/// The results of a job.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Measured {
    /// The windows.
    pub samples: Vec<Sample>,
    /// Register reads and writes for each frame, if they were traced.
    pub registers: Option<(f64, f64)>,
    /// Frames that the host sent.
    pub sent: u64,
    /// Shortfall of the host's load.
    pub shortfall: u64,
    /// Frames lost, by place.
    pub drops: BTreeMap<String, u64>,
    /// Arrived frames in excess of the sent frames.
    pub surplus: u64,
    /// The cost of the source of frames, which is not part of the instructions.
    pub source: Option<SourceCost>,
    /// Where the instructions went, if that was recorded.
    pub(crate) executed: Option<Executed>,
}

impl Job<'_> {
    /// The place of frames that were neither processed nor dropped by the card, where the card does not count
    /// the frames that it has stored. QEMU queues frames for all cards but the e1000 while they have no
    /// descriptors. Frames that wait there when the load ends count as too late.
    const fn place_of_rest(&self) -> &'static str {
        let waits = matches!(self.work, Work::Receive) && !matches!(self.model, Model::E1000);
        if waits { "waiting" } else { kpps_documents::UNEXPLAINED }
    }

    /// Starts the driver in a guest with [`workload::pc`], measures, and stops it.
    ///
    /// # Errors
    /// If the driver does not start or ends early, or if there is no traffic.
    pub fn run(&self, guest: &mut Guest) -> Result<Measured> {
        let frame = workload::frame(self.work, Size::MIN)?;
        let is_fed_within = self.work.is_loaded() && guest.clock() == Clock::Instructions;
        let cost = if is_fed_within { Some(Source::cost(guest, self.rate, &frame)?) } else { None };
        let running =
            workload::start(guest, self.model, self.driver, self.backend, self.work, self.settings)?;
        if is_fed_within {
            guest.wait(RECEIVE_PAUSE)?;
        }
        let begin = Observation::take(guest, running.as_ref(), &Feed::None)?;
        let feed = if self.work.is_loaded() { Feed::start(guest, self.rate, frame)? } else { Feed::None };
        let result = self.observe(guest, running.as_ref(), &feed);
        let executed = if self.profiled && result.is_ok() { Some(profiled(guest)?) } else { None };
        let mut measured = Measured { executed, ..Measured::default() };
        let (mut dealt_with, mut stored) = (0, None);
        let fed = feed.stop(guest)?;
        (measured.sent, measured.shortfall) = (fed.sent, fed.shortfall);
        if self.work.is_loaded() {
            guest.wait(AFTERWARDS)?;
            let end = Observation::take(guest, running.as_ref(), &Feed::None)?;
            dealt_with = end.count.frames - begin.count.frames;
            stored = if is_fed_within { Some(running.stored(guest)?) } else { None };
            // QEMU drops frames that it holds for the card when the cable is pulled. The next driver would
            // get them.
            guest.set_link(LOADED, false)?;
            guest.wait(SETTLE)?;
        }
        let finished = running.finish(guest);
        if self.work.is_loaded() {
            guest.set_link(LOADED, true)?;
        }
        (measured.samples, measured.registers) = result?;
        measured.drops = finished?;
        if self.work.is_loaded() {
            measured.account(dealt_with, stored, self.place_of_rest());
        }
        if let Some(paced) = guest.paced().filter(|_| is_fed_within) {
            let starved = fed.source.is_some_and(|source| source.starved > 0);
            if starved && self.rate != Rate::Max {
                return Err(Error::Input("the source of frames could not sustain this rate".into()));
            }
            measured.samples.iter_mut().for_each(|sample| sample.sent_pps = Some(paced.pps()));
        }
        if let Some((cost, sent)) = cost.zip(fed.source) {
            measured.take_off(cost, sent);
        }
        Ok(measured)
    }

    fn observe(&self, guest: &mut Guest, running: &dyn Running, feed: &Feed) -> Result<Observed> {
        let observe = |guest: &mut Guest| Observation::take(guest, running, feed);
        let since = Instant::now();
        let first = observe(guest)?;
        while observe(guest)?.count.frames <= first.count.frames {
            if since.elapsed() > TRAFFIC {
                let Self { driver, work, .. } = self;
                return Err(Error::Silent {
                    seconds: TRAFFIC.as_secs(),
                    waiting_for: format!("the first frame of {} {}", driver.name(), work.name()),
                    tail: String::new(),
                });
            }
            guest.wait(Duration::from_millis(20))?;
        }
        guest.wait(SETTLE)?;
        let all = Observation::series(guest, running, feed, self.window, self.windows as usize + 1)?;
        let samples = all.windows(2).map(|pair| pair[1].since(&pair[0])).collect();
        let registers = if self.traced { registers(guest, self.model, running)? } else { None };
        Ok((samples, registers))
    }
}

impl Measured {
    /// Accounts for each frame that was sent. The driver has processed `dealt_with` frames, and the card has
    /// stored `stored` frames, if it counts them.
    fn account(&mut self, dealt_with: u64, stored: Option<u64>, place_of_rest: &str) {
        if let Some(stored) = stored {
            let reached = stored + self.drops.get("ring").copied().unwrap_or_default();
            if let Some(before @ 1..) = self.sent.checked_sub(reached) {
                self.drops.insert(BEFORE_THE_CARD.into(), before);
            }
        }
        let accounted = dealt_with + self.drops.values().sum::<u64>();
        self.surplus = accounted.saturating_sub(self.sent);
        if let Some(rest @ 1..) = self.sent.checked_sub(accounted) {
            let place = if stored.is_some() { kpps_documents::UNEXPLAINED } else { place_of_rest };
            self.drops.insert(place.into(), rest);
        }
    }

    /// Subtracts the cost of the source of frames for each time that it takes the CPU.
    fn take_off(&mut self, cost: Cost, sent: Sent) {
        let refills_per_frame = sent.refills as f64 / sent.frames.max(1) as f64;
        for sample in &mut self.samples {
            let (Some(offered), Some(pps)) = (sample.sent_pps, sample.pps.filter(|pps| *pps > 0.0)) else {
                continue;
            };
            // The driver may process only a few of the offered frames.
            let [instructions, error] =
                [cost.of_refill, cost.error].map(|each| each * refills_per_frame * offered / pps);
            sample.instructions = sample.instructions.map(|each| each - instructions);
            self.source = Some(SourceCost { instructions, error });
        }
    }
}

/// Where the guest's instructions go now, those of the source of frames among them.
fn profiled(guest: &mut Guest) -> Result<Executed> {
    let kernel = guest.run("cat /proc/kallsyms")?;
    let mut symbols = Symbols::of_kernel(&kernel);
    // Copies of one program have the same addresses: nothing is random in this guest.
    let maps = guest.run("for id in $(pidof kpps source testpmd); do cat /proc/$id/maps; done")?;
    symbols.add_process(&maps, |path| std::fs::read(guest.host_file(path)?).ok());
    let logs: Result<Vec<_>> = (0..STRETCHES)
        .map(|_| {
            // Not of the guest's time, so that stretches do not keep step with the guest's periodic work.
            std::thread::sleep(APART);
            guest.executed(EXECUTED)
        })
        .collect();
    Ok(profile::executed(&logs?, &symbols))
}

/// Register reads and writes for each frame that `running` processes, by tracing them for a moment; `None`
/// for cards whose registers are others.
pub(crate) fn registers(
    guest: &mut Guest,
    model: Model,
    running: &dyn Running,
) -> Result<Option<(f64, f64)>> {
    if !model.has_statistics() {
        return Ok(None);
    }
    let mark = Register::of(guest, OPEN, PBA)?;
    let between = format!("{0} > /dev/null; usleep {1}; {0} > /dev/null", mark.command(), TRACED.as_micros());
    let (seen, trace) = guest.traced(|guest| Snapshot::series(guest, &running.counter(), &between, 2))?;
    let [a, b] = &seen[..] else { return Ok(None) };
    let (from, to) = (running.frames(a)?, running.frames(b)?);
    // A program that counts by its own clock may not have counted up to this moment.
    let seconds = to.at_ns.saturating_sub(from.at_ns) as f64 / 1e9;
    let frames = to.frames.saturating_sub(from.frames) as f64 / seconds * b.seconds_since(a);
    let (reads, writes) = accesses(&trace, mark.address());
    Ok((seconds > 0.0 && frames > 0.0).then(|| (reads as f64 / frames, writes as f64 / frames)))
}

/// Windows, and register reads and writes for each frame.
type Observed = (Vec<Sample>, Option<(f64, f64)>);

/// All counters at a moment.
pub(crate) struct Observation {
    pub(crate) snapshot: Snapshot,
    pub(crate) count: Count,
    pub(crate) counts: Counts,
    clock: Clock,
    at: Instant,
}

impl Observation {
    pub(crate) fn take(guest: &mut Guest, running: &dyn Running, feed: &Feed) -> Result<Self> {
        let counts = feed.counts()?;
        let snapshot = Snapshot::take(guest, &running.counter())?;
        Self::of(guest, running, snapshot, counts)
    }

    fn of(guest: &Guest, running: &dyn Running, snapshot: Snapshot, counts: Counts) -> Result<Self> {
        let count = running.frames(&snapshot)?;
        Ok(Self { count, snapshot, counts, clock: guest.clock(), at: Instant::now() })
    }

    /// `count` observations, with `window` from one to the next. On the clock of instructions the guest makes
    /// them all by itself.
    pub(crate) fn series(
        guest: &mut Guest,
        running: &dyn Running,
        feed: &Feed,
        window: Duration,
        count: usize,
    ) -> Result<Vec<Self>> {
        match guest.clock() {
            Clock::Wall => (0..count)
                .map(|index| {
                    if index > 0 {
                        guest.wait(window)?;
                    }
                    Self::take(guest, running, feed)
                })
                .collect(),
            Clock::Instructions => {
                let between = format!("usleep {}", window.as_micros());
                let all = Snapshot::series(guest, &running.counter(), &between, count)?;
                all.into_iter().map(|it| Self::of(guest, running, it, Counts::default())).collect()
            }
        }
    }

    /// Seconds of the host's clock since `before`.
    pub(crate) fn host_seconds_since(&self, before: &Self) -> f64 {
        (self.at - before.at).as_secs_f64()
    }

    pub(crate) fn since(&self, before: &Self) -> Sample {
        let rate = |now: u64, before: u64, seconds: f64| {
            (seconds > 0.0).then(|| now.saturating_sub(before) as f64 / seconds)
        };
        let own = self.count.at_ns.saturating_sub(before.count.at_ns) as f64 / 1e9;
        let guest = self.snapshot.seconds_since(&before.snapshot);
        let host = self.host_seconds_since(before);
        let pps = rate(self.count.frames, before.count.frames, own);
        let busy = self.snapshot.busy_since(&before.snapshot);
        let per_frame = |pps: f64| busy.filter(|_| pps > 0.0).map(|busy| busy * 1e9 / pps);
        Sample {
            pps,
            sent_pps: rate(self.counts.sent, before.counts.sent, host),
            interrupts_per_s: rate(self.snapshot.interrupts, before.snapshot.interrupts, guest),
            busy,
            // An instruction takes a nanosecond.
            instructions: pps.filter(|_| self.clock == Clock::Instructions).and_then(per_frame),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_frame_has_one_place() {
        let after = |dealt_with, stored| {
            let drops = [("ring".to_owned(), 20)].into();
            let mut measured = Measured { sent: 100, drops, ..Measured::default() };
            measured.account(dealt_with, stored, "waiting");
            let places = measured.drops.into_iter().filter(|(place, _)| place != "ring");
            (places.collect::<Vec<_>>(), measured.surplus)
        };
        let place = |name: &str, frames| (name.to_owned(), frames);
        assert_eq!(after(80, Some(80)), (vec![], 0));
        assert_eq!(after(70, Some(70)), (vec![place(BEFORE_THE_CARD, 10)], 0));
        // The card has stored more than the driver has seen: not the rest of those before the card.
        let both = vec![place(BEFORE_THE_CARD, 10), place(kpps_documents::UNEXPLAINED, 3)];
        assert_eq!(after(67, Some(70)), (both, 0));
        assert_eq!(after(70, None), (vec![place("waiting", 10)], 0));
        assert_eq!(after(81, Some(80)), (vec![], 1));
    }
}
