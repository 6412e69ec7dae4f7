//! One trial: ports, threads, and what became of every frame.

use crate::arp::{self, Station};
use crate::arrivals::{Arrivals, Arrived};
use crate::learn::{self, End, send_one};
use crate::ledger::{Accounts, PortCount, account};
use crate::look::{Look, Place, Watched};
use kpps_bench::Latency;
use kpps_frames::build::udp_test;
use kpps_frames::{Mac, Size, rate};
use kpps_ports::Spec;
use kpps_ports::port::run::{BUDGET, Gaps, Glance, Load, Plan, Shape, Timetable, Watch, send_and_listen};
use kpps_ports::port::{AnyPort, Counters, Port, Trouble, rest};
use std::cell::Cell;
use std::net::Ipv4Addr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant, SystemTime};

/// A receiver to whom nothing is missing waits only this long for duplicates.
const QUIET: Duration = Duration::from_millis(50);
/// Times that a ceiling is measured, and how long each.
const ROUNDS: u32 = 3;
const CEILING: Duration = Duration::from_millis(100);
/// How often a receiver looks after its port, and how long it rests at most.
const SLOW: Duration = Duration::from_millis(20);

/// What is offered, and how long.
#[derive(Clone, Copy, Debug)]
pub struct Offer {
    /// How fast, in each direction.
    pub load: Load,
    /// How frames follow each other.
    pub shape: Shape,
    /// No more frames than this in each direction.
    pub count: Option<u64>,
    /// Size of the frames.
    pub size: Size,
    /// How long frames are sent.
    pub duration: Duration,
    /// How long frames may still arrive when the last one was sent.
    pub settle: Duration,
    /// From the second port to the first, too.
    pub both_ways: bool,
}

/// One direction of a trial.
pub struct Way {
    /// The port that sends: 0 or 1.
    pub from: usize,
    /// Frames that were due.
    pub intended: u64,
    /// Frames that were sent.
    pub sent: u64,
    /// How long it took.
    pub elapsed: Duration,
    /// How far apart they were, if they were paced.
    pub gaps: Option<Gaps>,
    /// What arrived.
    pub arrived: Arrived,
    /// When frames were lost last ([`Arrivals::last_gap`]).
    pub last_gap: Option<Duration>,
    /// Times from sending to receiving.
    pub latency: Latency,
}

impl Way {
    /// Frames that could not be sent at their time.
    pub fn unsent(&self) -> u64 {
        self.intended.saturating_sub(self.sent)
    }
    /// Frames that were sent and did not arrive.
    pub fn lost(&self) -> u64 {
        self.sent.saturating_sub(self.arrived.received)
    }
}

/// What became of a trial.
pub struct Outcome {
    /// One or both directions.
    pub ways: Vec<Way>,
    /// It went on to its end.
    pub complete: bool,
    /// What failed.
    pub trouble: Option<Trouble>,
    /// The way was open before it began.
    pub learned: bool,
    /// Frames that did not arrive, by place.
    pub accounts: Accounts,
    /// What the system had counted before.
    pub before: Look,
    /// And after.
    pub after: Look,
}

/// Why there is no trial.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The ports cannot be opened.
    #[error(transparent)]
    Port(#[from] kpps_ports::Error),
    /// A port failed before the trial.
    #[error(transparent)]
    Trouble(#[from] Trouble),
    /// What the system says of itself is not to be had.
    #[error("cannot look at {0}")]
    Look(#[from] std::io::Error),
    /// The frames cannot be built.
    #[error("no test frames of this size: {0}")]
    Frame(kpps_frames::Error),
    /// The load is above what the link carries.
    #[error("a load of {asked:.0} pps is above line rate: {size} B at {mbps} Mb/s are {most:.0} pps")]
    AboveLineRate {
        /// Frames per second that were asked for.
        asked: f64,
        /// Bytes with FCS.
        size: u32,
        /// The link's speed in Mb/s.
        mbps: u32,
        /// Frames per second that it carries.
        most: f64,
    },
}

/// Two ports with something between them.
pub struct Tester {
    specs: [Spec; 2],
    ports: [AnyPort; 2],
    ends: [End; 2],
    watched: Watched,
}

/// The kernel's interface behind a port.
pub fn interface(spec: &Spec) -> Option<String> {
    match spec {
        Spec::Packet(name) | Spec::Auto(name) | Spec::Xdp { interface: name, .. } => Some(name.clone()),
        Spec::Card(..) | Spec::Udp { .. } => None,
    }
}

/// How an end is addressed.
#[derive(Clone, Copy, Debug)]
pub struct Address {
    /// Its IP address.
    pub ip: Ipv4Addr,
    /// The router that its frames go to.
    pub gateway: Option<Ipv4Addr>,
    /// The station that its frames go to, if it need not be asked for.
    pub to: Option<Mac>,
}

impl Tester {
    /// With these ports, open and up, addressed so; what is around them and at `places` is looked at.
    ///
    /// # Errors
    /// [`Error::Look`].
    pub fn new(
        specs: [Spec; 2],
        ports: [AnyPort; 2],
        addresses: [Address; 2],
        places: &[Place],
    ) -> Result<Self, Error> {
        let own: Vec<_> = specs.iter().filter_map(interface).collect();
        let watched = Watched::around(&own, places)?;
        let mut macs = [Mac([0; 6]); 2];
        for (mac, port) in macs.iter_mut().zip(&ports) {
            *mac = Mac(port.address()?);
        }
        let ends = [0, 1].map(|at| {
            let Address { ip, gateway, to } = addresses[at];
            End { station: Station { mac: macs[at], ip }, gateway, to }
        });
        Ok(Self { specs, ports, ends, watched })
    }

    /// The ports' names.
    pub fn specs(&self) -> &[Spec; 2] {
        &self.specs
    }

    /// The speed of the slower link in Mb/s, if it is known.
    pub fn speed_mbps(&self) -> Option<u32> {
        let speed = |(spec, port): (&Spec, &AnyPort)| {
            let told = || kpps_ports::ethtool::speed_mbps(&interface(spec)?).ok().flatten();
            port.link().speed_mbps.or_else(told)
        };
        self.specs.iter().zip(&self.ports).filter_map(speed).min()
    }

    /// Frames of this size per second on the slower link, if its speed is known.
    pub fn line_rate_pps(&self, size: Size) -> Option<f64> {
        self.speed_mbps().map(|mbps| rate::line_rate_pps(u64::from(mbps) * 1_000_000, size))
    }

    /// Offers a load and accounts for it. Asks some times a second whether to go on; what was measured is returned in
    /// any case.
    ///
    /// # Errors
    /// [`Error`], if it does not come to a trial.
    pub fn trial(&mut self, offer: &Offer, go_on: &dyn Fn() -> bool) -> Result<Outcome, Error> {
        if let (Load::Pps(asked), Some(mbps)) = (offer.load, self.speed_mbps()) {
            let most = rate::line_rate_pps(u64::from(mbps) * 1_000_000, offer.size);
            // A load typed as the rounded-up line rate is the line rate.
            if asked > most.ceil() {
                return Err(Error::AboveLineRate { asked, size: offer.size.bytes_with_fcs(), mbps, most });
            }
        }
        let ways: &[(usize, usize)] = if offer.both_ways { &[(0, 1), (1, 0)] } else { &[(0, 1)] };
        // Another number for each trial: what is left of one is foreign to the next.
        let nanos = SystemTime::UNIX_EPOCH.elapsed().map_or(0, |time| time.subsec_nanos());
        let stream = (nanos / 4) as u16 & !3;
        let (macs, learned) = learn::learn(&mut self.ports, &self.ends, ways, stream + 2, go_on)?;
        let epoch = Instant::now();
        let expected = match offer.load {
            Load::Pps(pps) => {
                let due = Timetable::new(pps, offer.shape).before(offer.duration.as_secs_f64());
                Some((due.round() as u64).min(offer.count.unwrap_or(u64::MAX)))
            }
            Load::Max => offer.count,
        };
        let mut plans = [None, None];
        let mut arrivals = [None, None];
        for &(from, to) in ways {
            let flow = learn::flow(&self.ends[from], &self.ends[to], macs[from]);
            let frame = udp_test(&flow, offer.size).map_err(Error::Frame)?;
            let stream = stream + from as u16;
            arrivals[to] = Some(Arrivals::new(stream, frame.clone(), epoch, expected.unwrap_or(1 << 20)));
            plans[from] = Some(Plan {
                load: offer.load,
                shape: offer.shape,
                frames: vec![frame],
                // The pool is shared: a buffer may hold what the other port had in it.
                rewrite: true,
                count: expected,
                stream,
                epoch: Some(epoch),
            });
        }
        let before_ports = self.counters()?;
        let before = self.watched.look()?;
        let stage = Stage::new(offer, ways.len());
        let mut results = run(&mut self.ports, &plans, &mut arrivals, &self.ends, &stage, go_on);
        let after = self.watched.look().unwrap_or_else(|_| before.clone());
        let after_ports = self.counters().unwrap_or(before_ports);

        let complete = !stage.abandoned.load(Ordering::Relaxed);
        let mut done = Vec::with_capacity(ways.len());
        let mut trouble = None;
        for result in &mut results {
            trouble = trouble.or(result.trouble.take());
        }
        for &(from, to) in ways {
            let Some(arrivals) = arrivals[to].take() else { continue };
            let Duty { sent, intended, elapsed, gaps, .. } = results[from];
            let intended = match expected {
                Some(all) if complete => all,
                Some(all) => intended.min(all).max(sent),
                None => sent,
            };
            let arrived = arrivals.arrived();
            let last_gap = arrivals.last_gap(sent);
            let latency = arrivals.into_latency();
            done.push(Way { from, intended, sent, elapsed, gaps, arrived, last_gap, latency });
        }
        let counts: Vec<_> = (0..2)
            .map(|at| PortCount {
                port: self.specs[at].to_string(),
                interface: interface(&self.specs[at]),
                sent: plans[at].as_ref().map(|_| results[at].sent),
                receives: ways.iter().any(|&(_, to)| to == at),
                missed: after_ports[at].missed - before_ports[at].missed,
                errors: after_ports[at].errors - before_ports[at].errors,
            })
            .collect();
        let accounts = account(&before, &after, &counts);
        Ok(Outcome { ways: done, complete, trouble, learned, accounts, before, after })
    }

    /// The highest rate that the sender of each direction can send here, in frames per second: the lowest of a few short
    /// trials with as many frames as the ports take, through what is between them.
    ///
    /// # Errors
    /// [`Error`], if it does not come to a trial.
    pub fn ceilings(&mut self, offer: &Offer, go_on: &dyn Fn() -> bool) -> Result<Vec<f64>, Error> {
        let short = Offer {
            load: Load::Max,
            shape: Shape::Constant,
            count: None,
            duration: CEILING,
            settle: offer.settle.min(2 * CEILING),
            ..*offer
        };
        let mut lowest: Vec<f64> = Vec::new();
        for _ in 0..ROUNDS {
            let outcome = self.trial(&short, go_on)?;
            if let Some(trouble) = outcome.trouble {
                return Err(trouble.into());
            }
            lowest.resize(outcome.ways.len(), f64::INFINITY);
            for (lowest, way) in lowest.iter_mut().zip(&outcome.ways) {
                *lowest = lowest.min(way.sent as f64 / way.elapsed.as_secs_f64().max(1e-9));
            }
        }
        Ok(lowest)
    }

    fn counters(&mut self) -> Result<[Counters; 2], Trouble> {
        let [a, b] = &mut self.ports;
        Ok([a.counters()?, b.counters()?])
    }
}

/// What all threads of a trial know.
struct Stage {
    duration: Duration,
    settle: Duration,
    /// Threads that still send.
    sending: AtomicUsize,
    /// When the last of them ended.
    ended: OnceLock<Instant>,
    /// What each port has sent, once it has ended.
    sent: [AtomicU64; 2],
    /// Someone had enough, or something failed.
    abandoned: AtomicBool,
}

impl Stage {
    fn new(offer: &Offer, senders: usize) -> Self {
        Self {
            duration: offer.duration,
            settle: offer.settle,
            sending: AtomicUsize::new(senders),
            ended: OnceLock::new(),
            sent: [const { AtomicU64::new(u64::MAX) }; 2],
            abandoned: AtomicBool::new(false),
        }
    }

    fn has_sent(&self, port: usize, frames: u64) {
        self.sent[port].store(frames, Ordering::Relaxed);
        if self.sending.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.ended.get_or_init(Instant::now);
        }
    }

    /// Whether the receiver at `port` need not wait any longer; it has `received` so many, the last one `quiet` ago.
    fn is_over(&self, port: usize, received: u64, quiet: Duration) -> bool {
        let Some(ended) = self.ended.get() else { return false };
        let nothing_missing = received >= self.sent[1 - port].load(Ordering::Relaxed);
        ended.elapsed() >= self.settle || nothing_missing && quiet >= QUIET
    }
}

/// A sender's watch.
struct Until<'s>(&'s Stage);

impl Watch for Until<'_> {
    fn at_most(&self) -> Option<Duration> {
        Some(self.0.duration)
    }
    fn go_on(&mut self, _: &Glance) -> bool {
        !self.0.abandoned.load(Ordering::Relaxed)
    }
}

/// What a port's thread did.
#[derive(Default)]
struct Duty {
    intended: u64,
    sent: u64,
    elapsed: Duration,
    gaps: Option<Gaps>,
    trouble: Option<Trouble>,
}

/// A thread for each port, until all is sent and received.
fn run(
    ports: &mut [AnyPort; 2],
    plans: &[Option<Plan>; 2],
    arrivals: &mut [Option<Arrivals>; 2],
    ends: &[End; 2],
    stage: &Stage,
    go_on: &dyn Fn() -> bool,
) -> [Duty; 2] {
    let mut results = [Duty::default(), Duty::default()];
    std::thread::scope(|scope| {
        let each = ports.iter_mut().zip(plans).zip(arrivals).zip(&mut results).enumerate();
        let threads: Vec<_> = each
            .map(|(at, (((port, plan), arrivals), result))| {
                let station = ends[at].station;
                scope.spawn(move || *result = duty(at, port, plan.as_ref(), arrivals, station, stage))
            })
            .collect();
        while !threads.iter().all(|thread| thread.is_finished()) {
            if !go_on() {
                stage.abandoned.store(true, Ordering::Relaxed);
            }
            std::thread::sleep(SLOW / 4);
        }
    });
    results
}

/// Sends, if there is something to send, and receives until nothing more can come.
fn duty(
    at: usize,
    port: &mut AnyPort,
    plan: Option<&Plan>,
    arrivals: &mut Option<Arrivals>,
    station: Station,
    stage: &Stage,
) -> Duty {
    let answered = Cell::new(0);
    let mut listen = |port: &mut AnyPort| {
        let mut answers = Vec::new();
        if let Some(arrivals) = arrivals {
            arrivals.burst();
        }
        let taken = port.receive(BUDGET, |frame| {
            let bytes = frame.as_ref();
            let ours = arrivals.as_mut().is_some_and(|arrivals| arrivals.take(bytes));
            if !ours {
                answers.extend(arp::answer(station, bytes));
            }
            Some(frame.buffer)
        })?;
        for answer in answers {
            answered.set(answered.get() + u64::from(send_one(port, &answer)?));
        }
        let received = arrivals.as_ref().map_or(u64::MAX, Arrivals::received);
        Ok((taken, received))
    };
    let mut duty = Duty::default();
    if let Some(plan) = plan {
        let begin = Instant::now();
        let before = port.frames().1;
        let mut listen_only = |port: &mut AnyPort| listen(port).map(drop);
        let sent = send_and_listen(port, plan, &mut Until(stage), &mut listen_only);
        // Answers to questions are no frames of the trial.
        duty.sent = (port.frames().1 - before).saturating_sub(answered.get());
        match sent {
            Ok(sent) => (duty.intended, duty.elapsed, duty.gaps) = (sent.intended, sent.elapsed, sent.gaps),
            Err(trouble) => {
                duty.elapsed = begin.elapsed().min(stage.duration);
                duty.intended = match plan.load {
                    Load::Pps(pps) => (duty.elapsed.as_secs_f64() * pps) as u64,
                    Load::Max => duty.sent,
                };
                duty.trouble = Some(trouble);
                stage.abandoned.store(true, Ordering::Relaxed);
            }
        }
        stage.has_sent(at, duty.sent);
    }
    if duty.trouble.is_none()
        && let Err(trouble) = receive(at, port, &mut listen, stage)
    {
        duty.trouble = Some(trouble);
        stage.abandoned.store(true, Ordering::Relaxed);
    }
    duty
}

/// Receives until nothing more can come.
fn receive(
    at: usize,
    port: &mut AnyPort,
    listen: &mut impl FnMut(&mut AnyPort) -> Result<(usize, u64), Trouble>,
    stage: &Stage,
) -> Result<(), Trouble> {
    let mut last = Instant::now();
    let mut looked_after = last;
    let mut loops = 0_u32;
    loop {
        let (taken, received) = listen(port)?;
        loops += 1;
        if taken > 0 && !loops.is_multiple_of(32) {
            continue;
        }
        let now = Instant::now();
        if taken > 0 {
            last = now;
        }
        if stage.is_over(at, received, now - last) {
            return Ok(());
        }
        if now - looked_after > SLOW {
            looked_after = now;
            port.look_after()?;
        }
        if taken == 0 {
            rest(&[&*port], SLOW / 4).map_err(|source| Trouble::System { what: "cannot wait", source })?;
            port.woken()?;
        }
    }
}
