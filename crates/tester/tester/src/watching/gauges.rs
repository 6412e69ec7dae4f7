//! The counters of a running trial. Its threads write them some times a second and never wait.

use crate::accounting::counted::Counted;
use crate::accounting::ledger::PortCount;
use crate::running::streams::Stream;
use crate::running::test_port::LiveCounts;
use crate::watching::control::StreamNow;
use crate::watching::state::{MOST_CHANGES, Reported, TrialState};
use kpps_methods::units::RateSpec;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// A system with ports of the trial.
pub(crate) struct LiveSystem {
    /// Its name, if it is not this host.
    pub name: Option<String>,
    pub live_counts: LiveCounts,
    /// The indices of its ports.
    pub ports: Vec<usize>,
}

/// A running trial.
pub(crate) struct Running {
    /// Its number; the first trial has 1.
    pub number: u64,
    pub begun: Instant,
    pub state: Arc<TrialState>,
    /// The systems that take part, without counts.
    pub ports: Vec<PortCount>,
    pub systems: Vec<LiveSystem>,
    /// The streams of the trial, in their order.
    pub streams: Arc<[Stream]>,
    /// The directions in which frames go: the indices of the sending and the receiving port.
    pub directions: Vec<(usize, usize)>,
    /// The load of each sending port, if it is a rate.
    pub rate: Option<LiveRate>,
}

impl Running {
    /// The load of each sending port now, in frames per second.
    fn offered_pps(&self) -> Option<f64> {
        self.state.rate_pps().or(self.rate.as_ref().map(|rate| rate.pps))
    }

    /// The number of ports that send.
    fn senders(&self) -> usize {
        self.ports.iter().filter(|port| port.sent.is_some()).count()
    }
}

/// The load of a trial, and the permitted new loads.
pub(crate) struct LiveRate {
    /// The load that was asked for, in frames per second.
    pub pps: f64,
    /// Whether it may be changed: not if frames have times of their own, or a number.
    pub can_change: bool,
    /// The line rate in frames per second, for shares of it, and the mean size with FCS, for rates of bits.
    pub line_pps: f64,
    pub mean_bytes: f64,
    /// The highest rate in frames per second, and what that is.
    pub limit: (f64, String),
}

/// A changed rate.
#[derive(Clone, Debug, PartialEq)]
pub struct NewRate {
    /// In frames per second, in each direction.
    pub pps: f64,
    /// Whether there are two directions.
    pub is_bidirectional: bool,
    /// The limit of the load, if more was asked for.
    pub limit: Option<String>,
}

impl fmt::Display for NewRate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let each = if self.is_bidirectional { " in each direction" } else { "" };
        write!(f, "{:.1} kpps{each} from now on", self.pps / 1e3)?;
        self.limit.iter().try_for_each(|limit| write!(f, ": {limit}"))
    }
}

/// One direction of a running trial.
#[derive(Clone, Debug)]
pub(crate) struct LiveDirection {
    /// The ports that send and receive.
    pub from: String,
    pub to: String,
    pub sent: u64,
    pub received: u64,
    /// Frames that had not come through a second after they were sent; `None` between more than two ports.
    pub lost: Option<u64>,
    pub shortfall: Option<u64>,
    pub offered_pps: Option<f64>,
    /// The report of the receiving port.
    pub reported: Reported,
}

/// A stream of a running trial.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LiveStream {
    /// Its name.
    pub name: String,
    /// The port that sends it.
    pub from: String,
    /// The port that receives it.
    pub to: String,
    /// Frames that were sent so far.
    pub sent: u64,
    /// Frames that arrived so far, each counted once; not more than were sent.
    pub received: u64,
}

/// The counters of the running trial.
#[derive(Default)]
pub struct Gauges(Mutex<Option<Arc<Running>>>);

impl Gauges {
    /// The time of sending so far, and the frames sent and received by all ports together. Zeros before the
    /// first trial.
    pub fn so_far(&self) -> Option<(Duration, u64, u64)> {
        let running = self.running()?;
        let elapsed = running.state.ended().unwrap_or_else(Instant::now) - running.begun;
        let (sent, received) = running.state.all_crossed();
        Some((elapsed, sent, received))
    }

    /// The load of all sending ports together now, in frames per second; `None` before the first trial, and
    /// if it is as many frames as possible.
    pub fn offered_pps(&self) -> Option<f64> {
        let running = self.running()?;
        Some(running.offered_pps()? * running.senders() as f64)
    }

    /// Whether the rate of the running trial can be changed.
    pub fn can_change_rate(&self) -> bool {
        self.running().is_some_and(|running| {
            let is_sending = running.state.ended().is_none() && !running.state.is_abandoned();
            is_sending && running.rate.as_ref().is_some_and(|rate| rate.can_change)
        })
    }

    /// Changes the load of each direction of the running trial, to what line rate, the senders' ceilings and
    /// the operators of agents allow at most. The senders take notice some moments later.
    ///
    /// # Errors
    /// The reason in a few words: the trial has no such rate, or already sends at its maximum.
    pub fn change_rate(&self, to: RateSpec) -> Result<NewRate, String> {
        self.change(|rate, _| to.pps(rate.line_pps, rate.mean_bytes))
    }

    /// The same, to a multiple of the present rate.
    ///
    /// # Errors
    /// As [`change_rate`](Self::change_rate).
    pub fn scale_rate(&self, factor: f64) -> Result<NewRate, String> {
        self.change(|_, now_pps| now_pps * factor)
    }

    fn change(&self, wanted: impl Fn(&LiveRate, f64) -> f64) -> Result<NewRate, String> {
        let running = self.running().filter(|_| self.can_change_rate());
        let live = running.as_ref().and_then(|running| Some((running, running.rate.as_ref()?)));
        let Some((running, rate)) = live else {
            return Err("the load of this trial cannot be changed".into());
        };
        let now_pps = running.offered_pps().unwrap_or(rate.pps);
        let wanted_pps = wanted(rate, now_pps);
        if !(wanted_pps > 0.0 && wanted_pps.is_finite()) {
            return Err(format!("{wanted_pps} is no load"));
        }
        let (most_pps, what) = &rate.limit;
        let is_limited = wanted_pps > *most_pps;
        if is_limited && *most_pps <= now_pps && wanted_pps > now_pps {
            return Err(format!("the load is already at its limit of {:.1} kpps ({what})", most_pps / 1e3));
        }
        let pps = if is_limited { *most_pps } else { wanted_pps };
        match running.state.change_rate(pps) {
            true => Ok(NewRate {
                pps,
                is_bidirectional: running.senders() == 2,
                limit: is_limited.then(|| what.clone()),
            }),
            false => {
                Err(format!("the load was changed {MOST_CHANGES} times, which is the most in one trial"))
            }
        }
    }

    /// Each direction; none before the first trial. `streams`: the streams of the trial, read before.
    pub(crate) fn directions(&self, streams: &[LiveStream]) -> Vec<LiveDirection> {
        let Some(running) = self.running() else { return Vec::new() };
        if running.ports.len() > 2 {
            return directions_of(streams, &running.directions, &running.ports);
        }
        let state = &running.state;
        let live = |&(from, to): &(usize, usize)| {
            let (lost, (sent, received)) = (state.lost(from), state.crossed(from, to));
            LiveDirection {
                from: running.ports[from].port.clone(),
                to: running.ports[to].port.clone(),
                sent,
                received,
                lost: Some(lost),
                shortfall: state.reported(from).shortfall,
                offered_pps: running.offered_pps(),
                reported: state.reported(to),
            }
        };
        running.directions.iter().map(live).collect()
    }

    /// Each stream of the running trial; none if the trial has no streams, or if their counts are not known
    /// before its end. Waits a moment for the ports.
    pub fn streams(&self) -> Vec<LiveStream> {
        let Some(running) = self.running() else { return Vec::new() };
        let counts = running.state.control().map_or_else(Vec::new, |control| control.snapshot());
        let name = |at: usize| running.ports.get(at).map_or_else(String::new, |port| port.port.clone());
        let live = |(stream, now): (&Stream, StreamNow)| LiveStream {
            name: stream.name.clone(),
            from: name(stream.from),
            to: name(stream.to),
            sent: now.sent,
            received: now.received,
        };
        running.streams.iter().zip(counts).map(live).collect()
    }

    /// Frames lost so far, by place, as the systems count them. It costs more than [`so_far`](Self::so_far),
    /// since it observes the systems. The ports' own losses are added only at the end.
    pub fn dropped(&self) -> BTreeMap<String, u64> {
        let mut counted = Counted::default();
        // Observing takes time, which nothing waits for: the trial's data live until then.
        let Some(running) = self.running() else { return BTreeMap::new() };
        for LiveSystem { name, live_counts, ports } in &running.systems {
            let there: Vec<_> = ports
                .iter()
                .map(|&at| {
                    let port = running.ports[at].clone();
                    PortCount { sent: port.sent.map(|_| running.state.so_far(at).0), ..port }
                })
                .collect();
            counted.add(name.as_deref(), live_counts(&there));
        }
        let (sent, received) = running.state.all_crossed();
        counted.accounts.explaining(sent - received).0
    }

    /// Trials that have begun.
    pub(crate) fn trials(&self) -> u64 {
        self.running().map_or(0, |running| running.number)
    }

    pub(crate) fn begin(&self, running: Running) {
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let number = last.as_ref().map_or(0, |last| last.number) + 1;
        *last = Some(Arc::new(Running { number, ..running }));
    }

    fn running(&self) -> Option<Arc<Running>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Directions between more than two ports, with the counts of their streams. The frames that a port loses or
/// sends too late are not known by direction before the end.
fn directions_of(
    streams: &[LiveStream],
    directions: &[(usize, usize)],
    ports: &[PortCount],
) -> Vec<LiveDirection> {
    let live = |&(from, to): &(usize, usize)| {
        let [from, to] = [from, to].map(|at| ports[at].port.clone());
        let of = streams.iter().filter(|stream| (&stream.from, &stream.to) == (&from, &to));
        let (sent, received) = of.fold((0, 0), |sum, it| (sum.0 + it.sent, sum.1 + it.received));
        let (lost, shortfall, offered_pps, reported) = (None, None, None, Reported::default());
        LiveDirection { from, to, sent, received, lost, shortfall, offered_pps, reported }
    };
    directions.iter().filter(|_| !streams.is_empty()).map(live).collect()
}
