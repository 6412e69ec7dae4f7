//! What a trial needs of its ports, and of the systems around them, wherever they are.
//!
//! A [`TestPort`] is a port with a thread's work on it: it learns, sends, receives and accounts for what came. A [`Host`] is
//! the system that it is part of, which counts. [`LocalPort`](crate::LocalPort) and [`LocalHost`](crate::LocalHost) are in
//! this process; what is behind an agent looks the same.

use crate::arrivals::{Arrived, OfFlow};
use crate::clock::Reading;
use crate::counted::Counted;
use crate::error::Error;
use crate::kept::Kept;
use crate::ledger::PortCount;
use crate::neighbours::Station;
use crate::recognised::{Classes, Skipped};
use crate::stage::Stage;
use kpps_frames::{Mac, Templates};
use kpps_measure::Latency;
use kpps_ports::port::Trouble;
use kpps_ports::port::run::{Gaps, Load, Plan, Shape};
use kpps_results::detail::Arrival;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// What a port's operator allows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Allowed {
    /// Frames per second at most; infinite for all that goes.
    pub load_pps: f64,
    /// The longest time that frames are sent.
    pub duration: Duration,
}

impl Allowed {
    /// Everything.
    pub const ALL: Self = Self { load_pps: f64::INFINITY, duration: Duration::MAX };

    /// Whether a load for this long is allowed; otherwise why it is not.
    ///
    /// # Errors
    /// What is asked for and what is allowed, in words.
    pub fn check(&self, load: Load, shape: Shape, duration: Duration) -> Result<(), String> {
        let peak = match load {
            Load::Max => f64::INFINITY,
            Load::Pps(pps) => match shape {
                Shape::Ramp(other, _) | Shape::Then(_, other) => pps.max(other),
                Shape::Constant | Shape::Poisson { .. } | Shape::Bursts(_) => pps,
            },
        };
        // What is no number is not allowed.
        if peak > self.load_pps || peak.is_nan() {
            let asked = match peak.is_finite() {
                true => format!("{:.1} kpps", peak / 1e3),
                false => "as many frames as possible".into(),
            };
            return Err(format!("{asked}: at most {:.1} kpps are allowed", self.load_pps / 1e3));
        }
        if duration > self.duration {
            let (asked, most) = (duration.as_secs_f64(), self.duration.as_secs_f64());
            return Err(format!("a load for {asked} s: at most {most} s are allowed"));
        }
        Ok(())
    }
}

/// What a port is to do in a trial.
#[derive(Clone, Debug)]
pub struct Duty {
    /// Which of both ports it is: 0 or 1.
    pub at: usize,
    /// The station that it is, which answers questions.
    pub station: Station,
    /// What it sends. Times are counted from `epoch_ns` whatever the plan says.
    pub plan: Option<Plan>,
    /// What it is to receive.
    pub expect: Option<Expect>,
    /// How long frames are sent.
    pub duration: Duration,
    /// How long frames may still arrive when the last one was sent.
    pub settle: Duration,
    /// What times are counted from, by the port's clock.
    pub epoch_ns: u64,
}

/// What comes to a port in a trial.
#[derive(Clone, Debug)]
pub struct Expect {
    /// The number of the stream.
    pub stream: u16,
    /// The frames as they should come, without their tags.
    pub frames: Arc<Templates>,
    /// About so many of them.
    pub count: u64,
    /// What is added to each latency.
    pub margin_ns: u64,
    /// Latencies are kept apart in so many parts of the duration.
    pub parts: usize,
    /// Frames that something happened to are kept.
    pub keep: bool,
    /// The frames have no tags, but are recognised by what they are.
    pub recognise: Option<Arc<Classes>>,
}

/// What a port has done in a trial.
#[derive(Default)]
pub struct Done {
    /// Frames that were due.
    pub intended: u64,
    /// Frames that were sent.
    pub sent: u64,
    /// How long it took.
    pub elapsed: Duration,
    /// How far apart they were, if they were paced.
    pub gaps: Option<Gaps>,
    /// What came.
    pub received: Received,
    /// Frames that came but found no room in the port.
    pub missed: u64,
    /// Frames that the port dropped because they were cut off.
    pub errors: u64,
    /// What failed.
    pub trouble: Option<Trouble>,
    /// Frames that the port was given, even if it could not send them.
    pub given: u64,
    /// Frames of a capture that were left out because they were late.
    pub skipped: Vec<Skipped>,
}

/// What has come to a port in a trial.
#[derive(Default)]
pub struct Received {
    /// Frames by what became of them.
    pub arrived: Arrived,
    /// When frames were lost last ([`Arrivals::last_gap`](crate::Arrivals::last_gap)).
    pub last_gap: Option<Duration>,
    /// Times from sending to receiving, in parts, with their margin.
    pub latency: Vec<Latency>,
    /// By whose clock frames arrived.
    pub arrival: Arrival,
    /// What became of each flow, if there are several.
    pub flows: Vec<OfFlow>,
    /// Of each size of a mix, how many frames were sent and how many came.
    pub sizes: Vec<(u64, u64)>,
    /// Frames that something happened to, if they were to be kept.
    pub kept: Kept,
    /// Of frames that are recognised by what they are, how many came of each class ([`Classes::tally`]).
    pub classes: Vec<u64>,
}

/// A port with all that a trial has it do.
pub trait TestPort: Send {
    /// Its name in results.
    fn name(&self) -> &str;
    /// The kernel's interface behind it, by its name there.
    fn interface(&self) -> Option<&str>;
    /// Its Ethernet address.
    fn mac(&self) -> Mac;
    /// The speed of its link in Mb/s, if it is known.
    fn speed_mbps(&self) -> Option<u32>;
    /// What may be asked of it.
    fn allowed(&self) -> Allowed {
        Allowed::ALL
    }
    /// Whether frames without tags can be sent and recognised by it.
    fn can_replay(&self) -> bool {
        true
    }
    /// Sends a frame now, if it is taken: one that is not is lost.
    ///
    /// # Errors
    /// [`Trouble`].
    fn send_one(&mut self, frame: &[u8]) -> Result<bool, Trouble>;
    /// Passes on what has come; returns how many frames.
    ///
    /// # Errors
    /// [`Trouble`].
    fn receive(&mut self, sink: &mut dyn FnMut(&[u8])) -> Result<usize, Trouble>;
    /// Reads its clock.
    ///
    /// # Errors
    /// [`Trouble`].
    fn read_clock(&mut self) -> Result<Reading, Trouble> {
        Ok(Reading::here())
    }
    /// Does its duty, together with the other port. What was done is returned in any case.
    fn work(&mut self, duty: &Duty, stage: &Stage) -> Done;
}

/// A system around ports that counts.
pub trait Host: Send {
    /// Looks at all of it before a trial.
    ///
    /// # Errors
    /// [`Error`].
    fn before(&mut self) -> Result<(), Error>;
    /// Looks again, and says what was counted since then while these of its ports sent and received.
    ///
    /// # Errors
    /// [`Error`].
    fn after(&mut self, ports: &[PortCount]) -> Result<Counted, Error>;
    /// How another thread can look while the trial goes on, if it can.
    fn peek(&self) -> Option<Peek> {
        None
    }
    /// What a measurement there was made on, by name: kernel, processors, and its ports with their interfaces.
    fn environment(&self, ports: &[(&str, Option<&str>)]) -> BTreeMap<String, String> {
        let _ = ports;
        BTreeMap::new()
    }
}

/// Says what a system has counted since the trial began while these of its ports sent and received.
pub type Peek = Box<dyn Fn(&[PortCount]) -> Counted + Send + Sync>;
