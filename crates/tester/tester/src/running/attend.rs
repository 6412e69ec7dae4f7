//! A port between trials: a thread answers for its station.
//!
//! Routers ask again for the station addresses of their neighbours, and forget neighbours that do not answer.
//! So a port answers address resolution, neighbour discovery and pings as long as it is open: in a trial by
//! the trial's thread, and between trials by a thread of its own. The port belongs to one of them at a time:
//! no lock is needed. The thread is not woken by frames: that costs the kernel time for each frame, which
//! another tester on the same interface would measure as latency.

use crate::running::neighbours::{self, Station};
use kpps_platform::{Buffer, BufferSource};
use kpps_ports::port::run::BUDGET;
use kpps_ports::port::{AnyPort, Frame, Port, Trouble};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::sync_channel;
use std::thread::{Builder, JoinHandle, park_timeout};
use std::time::{Duration, Instant};

/// How often the thread looks for frames: an answer comes at most this much later.
const LOOK: Duration = Duration::from_millis(5);
/// Bursts of frames that it takes at once, at most.
const MOST_BURSTS: u32 = 64;
/// How often it maintains its port.
const MAINTAIN: Duration = Duration::from_millis(20);

/// Sends one frame now, such as an answer to a question. Returns whether the port has taken it. A refused
/// frame is lost: who asked repeats the question.
///
/// # Errors
/// [`Trouble`].
pub fn send_one<P: Port>(port: &mut P, bytes: &[u8]) -> Result<bool, Trouble> {
    let Some(mut buffer) = port.pool().take() else { return Ok(false) };
    let Some(place) = buffer.bytes_mut().get_mut(..bytes.len()) else { return Ok(false) };
    place.copy_from_slice(bytes);
    let taken = port.send(Frame { buffer, bytes: bytes.len() as u16 }).is_ok();
    port.flush()?;
    Ok(taken)
}

/// A port that may be attended by a thread.
pub(crate) struct Attended {
    state: State,
    /// The speed of its link in Mb/s while a thread has the port, and its longest frame in bytes.
    speed_mbps: Option<u32>,
    longest: Option<usize>,
    cores: usize,
}

enum State {
    /// Nobody attends to the port.
    Here(Box<AnyPort>),
    /// A thread does, until it is to stop.
    There { stops: Arc<AtomicBool>, thread: JoinHandle<Option<Box<AnyPort>>> },
    /// The thread has failed with the port.
    Gone,
}

impl Attended {
    /// An open port.
    pub fn new(port: AnyPort) -> Self {
        let (speed_mbps, longest, cores) = (port.link().speed_mbps, port.longest(), port.cores());
        Self { state: State::Here(Box::new(port)), speed_mbps, longest, cores }
    }

    /// The speed of its link in Mb/s, if it is known.
    pub fn speed_mbps(&self) -> Option<u32> {
        match &self.state {
            State::Here(port) => port.link().speed_mbps,
            _ => self.speed_mbps,
        }
    }

    /// The longest frame that it sends, in bytes without FCS and VLAN tag, if it is known.
    pub fn longest(&self) -> Option<usize> {
        self.longest
    }

    /// The number of its cores.
    pub fn cores(&self) -> usize {
        self.cores
    }

    /// The port, which no thread attends from now on.
    ///
    /// # Errors
    /// [`Trouble::Gone`] if the thread has failed.
    pub fn here(&mut self) -> Result<&mut AnyPort, Trouble> {
        self.state = match std::mem::replace(&mut self.state, State::Gone) {
            State::There { stops, thread } => {
                stops.store(true, Ordering::Relaxed);
                thread.thread().unpark();
                thread.join().ok().flatten().map_or(State::Gone, State::Here)
            }
            state => state,
        };
        match &mut self.state {
            State::Here(port) => Ok(port),
            _ => Err(Trouble::Gone),
        }
    }

    /// From now on a thread answers for this station, or for others in place of it. If the system has no
    /// thread for it, nobody does.
    pub fn attend(&mut self, own: Station, others: &[Station]) {
        let Ok(port) = self.here() else { return };
        (self.speed_mbps, self.longest) = (port.link().speed_mbps, port.longest());
        let stops = Arc::new(AtomicBool::new(false));
        let (give, take) = sync_channel::<Box<AnyPort>>(1);
        let told = stops.clone();
        let others = others.to_vec();
        let work = move || {
            let mut port = take.recv().ok()?;
            // The next use of the port reports a failure.
            let _ = serve(&mut port, (&own, &others), &told);
            Some(port)
        };
        let Ok(thread) = Builder::new().name("station".into()).spawn(work) else { return };
        if let State::Here(port) = std::mem::replace(&mut self.state, State::There { stops, thread }) {
            // The thread waits for it.
            let _ = give.send(port);
        }
    }
}

impl Drop for Attended {
    fn drop(&mut self) {
        let _ = self.here();
    }
}

/// Answers for stations until it is to stop.
fn serve(
    port: &mut AnyPort,
    (own, others): (&Station, &[Station]),
    stops: &AtomicBool,
) -> Result<(), Trouble> {
    let mut maintained = Instant::now();
    while !stops.load(Ordering::Relaxed) {
        port.woken()?;
        let mut answers = Vec::new();
        for _ in 0..MOST_BURSTS {
            let taken = port.receive(BUDGET, |frame| {
                answers.extend(neighbours::answer_at(own, others, frame.as_ref()));
                Some(frame.buffer)
            })?;
            if taken == 0 {
                break;
            }
        }
        for answer in answers {
            send_one(port, &answer)?;
        }
        if maintained.elapsed() > MAINTAIN {
            maintained = Instant::now();
            port.maintain()?;
        }
        park_timeout(LOOK);
    }
    Ok(())
}
