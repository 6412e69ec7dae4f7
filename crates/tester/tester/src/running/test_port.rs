//! The interface of a trial to its ports and their systems, on this host or others.
//!
//! A [`TestPort`] is a port and a thread's work on it: it learns, sends, receives and counts what arrives. A
//! [`Host`] is the system of the port, which counts, too. [`LocalPort`](crate::LocalPort) and
//! [`LocalHost`](crate::LocalHost) are in this process; agents have others.

use crate::accounting::counted::Counted;
use crate::accounting::ledger::PortCount;
use crate::capturing::ring::{Captured, RingForm};
use crate::clock::{Follower, Reading};
use crate::error::Error;
use crate::judging::queues::OfQueues;
use crate::judging::received::Received;
use crate::judging::recognised::{Classes, Skipped};
use crate::judging::timeline::Timeline;
use crate::running::neighbours::Station;
use crate::watching::state::TrialState;
use kpps_documents::Disturbance;
use kpps_documents::detail::RateChange;
use kpps_frames::rate::Rate;
use kpps_frames::tag::TagFormat;
use kpps_frames::{Mac, Templates};
use kpps_methods::Latency;
use kpps_ports::port::Trouble;
use kpps_ports::port::run::{self, Filled, Gaps, Lateness, Near, SendLog, SendPlan, Shape};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// The limits that a port's operator sets.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Allowed {
    /// The highest rate in frames per second; infinite without a limit.
    pub load_pps: f64,
    /// The longest time of sending.
    pub duration: Duration,
}

impl Allowed {
    /// No limits.
    pub const ALL: Self = Self { load_pps: f64::INFINITY, duration: Duration::MAX };

    /// Checks a load and its duration.
    ///
    /// # Errors
    /// The limit that is exceeded, in words.
    pub fn check(&self, load: Rate, shape: Shape, duration: Duration) -> Result<(), String> {
        let peak = shape.peak_pps(load);
        // NaN is not allowed.
        if peak > self.load_pps || peak.is_nan() {
            let offered = match peak.is_finite() {
                true => format!("{:.1} kpps", peak / 1e3),
                false => "as many frames as possible".into(),
            };
            return Err(format!("{offered}: at most {:.1} kpps are allowed", self.load_pps / 1e3));
        }
        if duration > self.duration {
            let (offered, most) = (duration.as_secs_f64(), self.duration.as_secs_f64());
            return Err(format!("a load for {offered} s: at most {most} s are allowed"));
        }
        Ok(())
    }
}

/// A port's part in a trial.
#[derive(Clone, Debug)]
pub struct Task {
    /// Its index.
    pub at: usize,
    /// Its station, which answers questions.
    pub station: Station,
    /// Other stations at the port, which answer questions in place of it.
    pub others: Arc<[Station]>,
    /// The frames that it sends. Times are counted from `epoch_ns` whatever the plan says.
    pub plan: Option<SendPlan>,
    /// The frames that it receives, by the port that sends them.
    pub expect: Vec<Expect>,
    /// How long frames are sent.
    pub duration: Duration,
    /// How long frames may still arrive after the last one was sent.
    pub drain: Duration,
    /// The origin of times, by the port's clock.
    pub epoch_ns: u64,
    /// The length of the intervals that are counted by themselves, if any are.
    pub every: Option<Duration>,
    /// The follower of the port's clock during the trial, if the clock is another host's.
    pub follower: Option<Follower>,
}

/// The frames that a port receives from another one in a trial.
#[derive(Clone, Debug)]
pub struct Expect {
    /// The index of the port that sends them.
    pub from: usize,
    /// The streams. Their numbers follow each other.
    pub streams: Vec<ExpectedStream>,
    /// Whether the fate of each stream is reported.
    pub by_stream: bool,
    /// The margin added to each latency.
    pub margin_ns: u64,
    /// The parts of the duration whose latencies are separate.
    pub parts: usize,
    /// Whether frames with anomalies are kept.
    pub keep: bool,
    /// The classes of frames without tags.
    pub recognise: Option<Arc<Classes>>,
}

/// The frames of a stream that a port receives.
#[derive(Clone, Debug)]
pub struct ExpectedStream {
    /// The number of the stream.
    pub stream: u16,
    /// The frames as they should arrive, without their tags.
    pub frames: Arc<Templates>,
    /// Their expected number.
    pub count: u64,
}

/// The results of a port in a trial.
#[derive(Default)]
pub struct Done {
    /// The frames that it sent.
    pub sent: SentFrames,
    /// The frames that it received from each sender. A sender whose frames are unknown is missing.
    pub of_senders: Vec<OfSender>,
    /// For frames without tags, how many of each class arrived ([`Classes::tally`]).
    pub classes: Vec<u64>,
    /// Receive overflow (tester): frames that found the port's queue full, if the port counts them.
    pub missed: Option<u64>,
    /// Frames that the port dropped because they were truncated, if its counters could be read.
    pub errors: Option<u64>,
    /// Frames that the port took in, other traffic among them, if its counters could be read.
    pub taken: Option<u64>,
    /// The port's work in each interval, if that was asked for.
    pub line: Option<Timeline>,
    /// The follower of the port's clock.
    pub follower: Option<Follower>,
    /// All frames that it sent and received, if they were [captured](TestPort::capture).
    pub captured: Option<Captured>,
    /// The work of each core, if there are several.
    pub cores: Vec<OfCore>,
    /// The failure, if any.
    pub trouble: Option<Trouble>,
    /// Impossible results from another host, in words. They are left out.
    pub unbelievable: Vec<String>,
}

/// The frames that a port has received from another one in a trial.
#[derive(Default)]
pub struct OfSender {
    /// The index of the port that sent them.
    pub from: usize,
    /// The frames.
    pub received: Received,
    /// Their times from sending to receiving, in parts, with their margin.
    pub latency: Vec<Latency>,
    /// Their receive queues, if each core of the port reads one.
    pub queues: Option<OfQueues>,
}

impl Done {
    /// The work of a port that does nothing: the trial ends.
    pub(crate) fn failed(task: &Task, state: &TrialState, trouble: Trouble) -> Self {
        state.abandon();
        if task.plan.is_some() {
            state.has_sent(task.at, 0);
        }
        Self { trouble: Some(trouble), ..Self::default() }
    }
}

/// The work of one of several cores of a port in a trial.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct OfCore {
    /// The CPU that it had for itself while it sent, if it had one.
    pub cpu: Option<u32>,
    /// Frames that were due on it, if it sent.
    pub intended: u64,
    /// Frames that it sent.
    pub sent: u64,
    /// Frames of the trial that it received, without duplicates.
    pub received: u64,
    /// Its receive overflow, if its port counts it.
    pub missed: Option<u64>,
    /// The gaps between the frames that it sent, if they were paced.
    pub gaps: Option<Gaps>,
}

/// The frames that a port has sent in a trial.
#[derive(Clone, Debug, Default)]
pub struct SentFrames {
    /// Frames that were due.
    pub intended: u64,
    /// Frames that were sent.
    pub frames: u64,
    /// Frames that the port accepted, even if it could not send them.
    pub given: u64,
    /// Of several streams, the frames of each that the port accepted.
    pub of_streams: Vec<u64>,
    /// Of several streams, the frames of each that were due, if they were paced.
    pub due_of_streams: Vec<u64>,
    /// Frames of a capture that were skipped because they were late.
    pub skipped: Vec<Skipped>,
    /// When sending began, since the epoch.
    pub begun: Duration,
    /// The time of sending.
    pub elapsed: Duration,
    /// The gaps between frames, if they were paced.
    pub gaps: Option<Gaps>,
    /// When a core's frames were sent, until those of all cores are put together.
    pub send_log: Option<SendLog>,
    /// The reasons that kept the sender from its CPU, if they were observed.
    pub disturbance: Option<Disturbance>,
    /// The changes of the load, as they took effect here.
    pub rate_changes: Vec<RateChange>,
    /// How late frames were sent, if late ones were sent.
    pub lateness: Option<Lateness>,
    /// How exact their gaps are, if fillers were sent between them.
    pub filled: Option<Filled>,
}

impl From<run::Sent> for SentFrames {
    fn from(sent: run::Sent) -> Self {
        Self {
            intended: sent.intended,
            frames: sent.sent,
            given: sent.given,
            of_streams: sent.of_streams,
            due_of_streams: sent.due_of_streams,
            skipped: sent.skipped,
            begun: Duration::ZERO,
            elapsed: sent.elapsed,
            gaps: sent.gaps,
            send_log: sent.send_log,
            disturbance: sent.disturbance,
            rate_changes: Vec::new(),
            lateness: sent.lateness,
            filled: sent.filled,
        }
    }
}

impl SentFrames {
    /// The generator's shortfall: frames that could not be sent at their time.
    pub fn shortfall(&self) -> u64 {
        self.intended.saturating_sub(self.frames)
    }

    /// The frames of the `n`th of this number of streams that the port accepted, and those of them that were
    /// due; `None` as far as that is unknown.
    pub(crate) fn of_stream(&self, n: usize, streams: usize) -> [Option<u64>; 2] {
        // Of one stream the counts of all frames are its own.
        let of = |counts: &[u64], all| counts.get(n).copied().or((streams == 1).then_some(all));
        [of(&self.of_streams, self.given), of(&self.due_of_streams, self.intended)]
    }

    /// The shortfall of a paced stream: its frames that were due and that the port did not get in time.
    pub(crate) fn shortfall_of(&self, n: usize, streams: usize) -> Option<u64> {
        let [given, due] = self.of_stream(n, streams);
        Some(due?.saturating_sub(given?))
    }
}

/// Why other ports do not steer flows.
pub(crate) const ONLY_XDP: &str =
    "only AF_XDP ports of this host are, with several cores or of a single queue (xdp:IFACE:0)";

/// A port with all that a trial needs of it.
pub trait TestPort: Send {
    /// Its name in results.
    fn name(&self) -> &str;
    /// The kernel's interface behind it, by its name there.
    fn interface(&self) -> Option<&str>;
    /// Its Ethernet address.
    fn mac(&self) -> Mac;
    /// The speed of its link in Mb/s, if it is known.
    fn speed_mbps(&self) -> Option<u32>;
    /// The longest frame that it sends, in bytes without FCS and VLAN tag; `None` if that is unknown.
    fn longest(&self) -> Option<usize> {
        None
    }
    /// The CPUs around its interface, if it is a port of this process.
    fn near(&self) -> Option<&Near> {
        None
    }
    /// The number of cores that do its work in a trial.
    fn cores(&self) -> usize {
        1
    }
    /// The operator's limits.
    fn allowed(&self) -> Allowed {
        Allowed::ALL
    }
    /// Whether it can send frames without tags and recognise them.
    fn can_replay(&self) -> bool {
        true
    }
    /// Whether it can send and receive several streams.
    fn can_mix(&self) -> bool {
        true
    }
    /// Finds out to which receive queues the expected flows come in the next trial. If `steers`, it steers
    /// them to the cores in turn, until it is asked anew or closed.
    ///
    /// # Errors
    /// [`Error::NoSteering`]: flows are to be steered, and the port or its interface cannot do that.
    fn spread(&mut self, expect: &[Expect], steers: bool) -> Result<(), Error> {
        match steers && !expect.is_empty() {
            true => Err(Error::NoSteering { port: self.name().to_owned(), why: ONLY_XDP.into() }),
            false => Ok(()),
        }
    }
    /// Until its next use it answers questions to this station by itself, or to others in place of it, if it
    /// can.
    fn attend(&mut self, own: &Station, others: &[Station]) {
        let _ = (own, others);
    }
    /// From now to the end of its next work it keeps all frames that it sends and receives in a new ring of
    /// this form, or no longer.
    ///
    /// # Errors
    /// [`Error::NoCapture`] for a port that cannot, [`Error::NoMemory`].
    fn capture(&mut self, form: Option<RingForm>) -> Result<(), Error> {
        form.map_or(Ok(()), |_| Err(Error::NoCapture(self.name().to_owned())))
    }
    /// Sends the first of these frames now. Returns their number; there was no room for the others.
    ///
    /// # Errors
    /// [`Trouble`].
    fn send_now(&mut self, frames: &[Vec<u8>]) -> Result<usize, Trouble>;
    /// Takes the frames that wait in the port's queue, for a limited time: other traffic may never end.
    /// Passes on the frames that matter before a trial: frames with a tag of this format, and messages of
    /// address resolution and neighbour discovery.
    ///
    /// # Errors
    /// [`Trouble`].
    fn receive(&mut self, format: TagFormat, sink: &mut dyn FnMut(&[u8])) -> Result<(), Trouble>;
    /// Reads its clock.
    ///
    /// # Errors
    /// [`Trouble`].
    fn read_clock(&mut self) -> Result<Reading, Trouble> {
        Ok(Reading::here())
    }
    /// Does its part of a trial, together with the other ports. The results are returned in any case.
    fn work(&mut self, task: &Task, state: &TrialState) -> Done;
}

/// A system with ports, which counts.
pub trait Host: Send {
    /// Observes the system before a trial with this number, which the tags of its frames have. They have no
    /// tags if there is none.
    ///
    /// # Errors
    /// [`Error`].
    fn before(&mut self, trial: Option<u32>) -> Result<(), Error>;
    /// Observes it again. Returns the counts since then, while these of its ports sent and received.
    ///
    /// # Errors
    /// [`Error`].
    fn after(&mut self, ports: &[PortCount]) -> Result<Counted, Error>;
    /// No longer observes these interfaces: ports of other trials.
    fn leave_out(&mut self, interfaces: &[String]) {
        let _ = interfaces;
    }
    /// A function for another thread to observe the system during the trial, if that is possible.
    fn live_counts(&self) -> Option<LiveCounts> {
        None
    }
    /// Its environment by name: kernel, CPUs, and the ports with their interfaces.
    fn environment(&self, ports: &[(&str, Option<&str>)]) -> BTreeMap<String, String> {
        let _ = ports;
        BTreeMap::new()
    }
}

/// The counts of a system since the trial began, while these of its ports sent and received.
pub type LiveCounts = Box<dyn Fn(&[PortCount]) -> Counted + Send + Sync>;
