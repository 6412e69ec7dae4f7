//! Measuring a workload: windows of time while a driver works.

use crate::lab::counters::{Snapshot, accesses};
use crate::lab::load::{Counts, Load, Rate};
use crate::lab::workload::{self, Backend, Count, Driver, LOADED, Running, Settings, Work};
use crate::lab::{Error, Guest, Model, Result};
use kpps_frames::Size;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// How long traffic may take to begin: QEMU's e1000 does not receive for a second after its setup, links take
/// two.
const TRAFFIC: Duration = Duration::from_secs(15);
/// How long frames may still arrive after the load has ended.
const AFTERWARDS: Duration = Duration::from_millis(kpps_measure::AFTERWARDS_MS as u64);
/// How long traffic runs before it is measured.
const SETTLE: Duration = Duration::from_millis(200);
/// How long register accesses are traced.
const TRACED: Duration = Duration::from_millis(60);

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
}

/// One window. A rate is `None` if the clock that it is measured by did not advance.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Sample {
    /// Frames per second that the workload processed.
    pub pps: Option<f64>,
    /// Frames per second that the host sent.
    pub sent_pps: Option<f64>,
    /// Interrupts of cards per second.
    pub interrupts_per_s: Option<f64>,
    /// The share of the guest's CPU time that was not idle.
    pub busy: Option<f64>,
}

/// The results of a job.
#[derive(Clone, Debug, Default, PartialEq)]
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
    /// Frames that arrived beyond those that were sent.
    pub surplus: u64,
}

impl Job<'_> {
    /// The place of frames that were neither processed nor dropped by the card. QEMU's e1000e queues
    /// frames without a limit while it has no descriptors; those that wait there when the load ends count as
    /// too late.
    const fn place_of_rest(&self) -> &'static str {
        match (self.work, self.model) {
            (Work::Receive, Model::E1000e) => "waiting",
            _ => kpps_results::UNEXPLAINED,
        }
    }

    /// Starts the driver in a guest with [`workload::cards`], measures, and stops it.
    ///
    /// # Errors
    /// If the driver does not start or ends early, or if there is no traffic.
    pub fn run(&self, guest: &mut Guest) -> Result<Measured> {
        let running =
            workload::start(guest, self.model, self.driver, self.backend, self.work, self.settings)?;
        let begin = Observation::take(guest, running.as_ref(), None)?;
        let load = if self.work.is_loaded() {
            let frame = workload::frame(self.work, Size::MIN)?;
            let wire = guest.take_wire(0).ok_or(Error::Input("the wire is taken".into()))?;
            Some(Load::start(wire, self.rate, frame)?)
        } else {
            None
        };
        let result = self.observe(guest, running.as_ref(), load.as_ref());
        let mut measured = Measured::default();
        let mut dealt_with = 0;
        if let Some(load) = load {
            let (wire, counts) = load.stop()?;
            guest.give_wire(0, wire);
            (measured.sent, measured.shortfall) = (counts.sent, counts.shortfall);
            std::thread::sleep(AFTERWARDS);
            dealt_with = Observation::take(guest, running.as_ref(), None)?.count.frames - begin.count.frames;
            // QEMU drops frames that it holds for the card when the cable is pulled. The next driver would
            // get them.
            guest.set_link(LOADED, false)?;
            std::thread::sleep(SETTLE);
        }
        let finished = running.finish(guest);
        if self.work.is_loaded() {
            guest.set_link(LOADED, true)?;
        }
        (measured.samples, measured.registers) = result?;
        measured.drops = finished?;
        let accounted = dealt_with + measured.drops.values().sum::<u64>();
        if self.work.is_loaded() {
            measured.surplus = accounted.saturating_sub(measured.sent);
            if let Some(rest @ 1..) = measured.sent.checked_sub(accounted) {
                measured.drops.insert(self.place_of_rest().into(), rest);
            }
        }
        Ok(measured)
    }

    fn observe(&self, guest: &mut Guest, running: &dyn Running, load: Option<&Load>) -> Result<Observed> {
        let observe = |guest: &mut Guest| Observation::take(guest, running, load);
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
            std::thread::sleep(Duration::from_millis(20));
        }
        std::thread::sleep(SETTLE);
        let mut samples = Vec::new();
        let mut before = observe(guest)?;
        for _ in 0..self.windows {
            std::thread::sleep(self.window);
            let now = observe(guest)?;
            samples.push(now.since(&before));
            before = now;
        }
        let registers = if self.traced { registers(guest, running, load)? } else { None };
        Ok((samples, registers))
    }
}

/// Register reads and writes for each frame that `running` processes, by tracing them for a moment.
pub(crate) fn registers(
    guest: &mut Guest,
    running: &dyn Running,
    load: Option<&Load>,
) -> Result<Option<(f64, f64)>> {
    let since = Instant::now();
    let ((a, b, seconds), trace) = guest.traced(|guest| {
        let a = Observation::take(guest, running, load)?;
        std::thread::sleep(TRACED);
        Ok((a, Observation::take(guest, running, load)?, since.elapsed().as_secs_f64()))
    })?;
    let frames = b.since(&a).pps.map(|pps| pps * seconds).filter(|frames| *frames > 0.0);
    let (reads, writes) = accesses(&trace);
    Ok(frames.map(|frames| (reads as f64 / frames, writes as f64 / frames)))
}

/// Windows, and register reads and writes for each frame.
type Observed = (Vec<Sample>, Option<(f64, f64)>);

/// All counters at a moment.
pub(crate) struct Observation {
    pub(crate) snapshot: Snapshot,
    pub(crate) count: Count,
    pub(crate) counts: Counts,
    at: Instant,
}

impl Observation {
    pub(crate) fn take(guest: &mut Guest, running: &dyn Running, load: Option<&Load>) -> Result<Self> {
        if load.is_some_and(|load| !load.is_running()) {
            return Err(Error::Input("the wire broke".into()));
        }
        let snapshot = Snapshot::take(guest, &running.counter())?;
        let count = running.frames(&snapshot)?;
        let counts = load.map(Load::counts).unwrap_or_default();
        Ok(Self { count, snapshot, counts, at: Instant::now() })
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
        Sample {
            pps: rate(self.count.frames, before.count.frames, own),
            sent_pps: rate(self.counts.sent, before.counts.sent, host),
            interrupts_per_s: rate(self.snapshot.interrupts, before.snapshot.interrupts, guest),
            busy: self.snapshot.busy_since(&before.snapshot),
        }
    }
}
