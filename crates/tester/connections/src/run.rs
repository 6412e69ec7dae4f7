//! A trial: a client's end opens connections at a rate, or holds them, and a server's end answers.

use crate::end::End;
use kpps_platform::memory::BufferPool;
use kpps_ports::port::run::{BUDGET, FEW, LATE, Near, SLOW, Steady, Watch, go_on};
use kpps_ports::port::{AnyPort, Frame, Port, Trouble, Wake, wait};
use std::time::{Duration, Instant};

/// The longest sleep, so that timers expire in time.
const LONGEST_SLEEP: Duration = Duration::from_millis(4);
/// Connections that are opened, released or reset before the ports are polled again.
const AT_ONCE: u32 = 32;
/// Turns after which timers expire although frames wait in a port's queue.
const BUSY_TURNS: u32 = 256;

/// The connections that a client opens.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    /// Connections a second.
    pub rate_cps: f64,
    /// Open as many as this, hold them for `duration`, then use and close them; `None`: each is used at once.
    pub concurrent: Option<u64>,
    /// Open no more than this.
    pub count: Option<u64>,
    /// How long connections are opened, or held.
    pub duration: Duration,
    /// How long to wait at the end for connections that are still open. Then they are reset.
    pub drain: Duration,
}

/// The course of a trial.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Course {
    /// Connections that were due.
    pub due: u64,
    /// Connections that were due and were not opened.
    pub shortfall: u64,
    /// Connections of the shortfall that found no free port.
    pub no_free_port: u64,
    /// How long connections were opened, in s.
    pub opening_s: f64,
    /// How long the trial took, in s.
    pub seconds: f64,
    /// Connections that were established while connections were opened.
    pub established: u64,
    /// Nothing ended it early.
    pub complete: bool,
}

/// The stage of a trial.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// It opens connections.
    Opening,
    /// It waits until all held connections are established or have failed, until this time in ns.
    Settling(u64),
    /// It holds connections until this time in ns.
    Holding(u64),
    /// It lets held connections send their requests; since when, and how many it has released.
    Releasing(u64, u64),
    /// It waits for the open connections until this time in ns.
    Draining(u64),
    /// It resets what is open.
    Aborting,
    /// A server alone takes connections.
    Serving,
}

/// A running trial.
struct Trial<'t> {
    load: Option<&'t Load>,
    stage: Stage,
    course: Course,
    now_ns: u64,
}

/// Runs a trial on these ports, each of which has one of `ends`. With a load, the first end is the client; a
/// server alone runs until the watch ends it, or until it has closed `count` connections.
///
/// # Errors
/// [`Trouble`].
pub fn run(
    ports: &mut [AnyPort],
    ends: &mut [End],
    load: Option<&Load>,
    count: Option<u64>,
    watch: &mut impl Watch,
) -> Result<Course, Trouble> {
    let Some(first) = ports.first_mut() else { return Ok(Course::default()) };
    let mut pool = first.pool().clone();
    let mut burst: Vec<Frame> = Vec::with_capacity(2 * BUDGET);
    let stage = if load.is_some() { Stage::Opening } else { Stage::Serving };
    let mut trial = Trial { load, stage, course: Course { complete: true, ..Course::default() }, now_ns: 0 };
    let _steady = load.map(|_| Steady::now(&Near::default()));
    let epoch = Instant::now();
    let mut next_slow = epoch;
    let mut busy_turns = 0;
    loop {
        trial.now_ns = epoch.elapsed().as_nanos() as u64;
        let mut taken = 0;
        let mut is_drained = true;
        for (port, end) in ports.iter_mut().zip(&mut *ends) {
            let here = end.take_in(port, &mut pool, &mut burst, trial.now_ns)?;
            is_drained &= here < BUDGET;
            taken += here;
            end.endpoint.pass(trial.now_ns);
        }
        busy_turns = if is_drained { 0 } else { busy_turns + 1 };
        if is_drained || busy_turns % BUSY_TURNS == 0 {
            for (port, end) in ports.iter_mut().zip(&mut *ends) {
                end.act(port, &mut pool, |end, out| end.expire(trial.now_ns, out))?;
            }
        }
        let next_ns = trial.advance(ports, ends, &mut pool)?;
        for port in &mut *ports {
            port.flush()?;
        }
        let now = Instant::now();
        if now >= next_slow {
            next_slow = now + SLOW;
            let elapsed = now - epoch;
            let is_due = watch.at_most().is_some_and(|most| elapsed >= most);
            let is_over = !go_on(&mut *ports, watch, elapsed)? || is_due;
            if is_over && trial.stage != Stage::Aborting {
                // The end of a server alone is no interrupt, if it was asked to end then.
                trial.course.complete &= trial.stage == Stage::Serving && is_due;
                trial.stage = Stage::Aborting;
            }
        }
        if let (Stage::Serving, Some(count)) = (trial.stage, count)
            && ends.iter().all(|end| end.endpoint.counts().opened >= count && end.endpoint.counts().open == 0)
        {
            break;
        }
        let Some(next_ns) = next_ns else { break };
        if taken == 0 {
            let now_ns = epoch.elapsed().as_nanos() as u64;
            let most = Duration::from_nanos(next_ns.saturating_sub(now_ns)).min(LONGEST_SLEEP);
            let waiting: Vec<&dyn Wake> = ports.iter().map(|port| port as &dyn Wake).collect();
            wait(&waiting, most).map_err(|source| Trouble::System { what: "cannot wait", source })?;
            for port in &mut *ports {
                port.woken()?;
            }
        }
    }
    trial.course.seconds = epoch.elapsed().as_secs_f64();
    Ok(trial.course)
}

impl Trial<'_> {
    /// Does what is due now. Returns when it is to be called again at the latest, in ns; `None` at the end.
    fn advance(
        &mut self,
        ports: &mut [AnyPort],
        ends: &mut [End],
        pool: &mut BufferPool,
    ) -> Result<Option<u64>, Trouble> {
        let later = Some(u64::MAX);
        let now_ns = self.now_ns;
        let Some(load) = self.load else {
            let next = if self.stage == Stage::Aborting { abort(ports, ends, pool, now_ns)? } else { later };
            return Ok(next);
        };
        let (Some(port), Some(client)) = (ports.first_mut(), ends.first_mut()) else { return Ok(None) };
        let drained_ns = now_ns + load.drain.as_nanos() as u64;
        match self.stage {
            Stage::Opening => {
                let next_ns = self.open(load, port, client, pool)?;
                if next_ns.is_none() {
                    self.course.opening_s = (self.course.due as f64 / load.rate_cps).max(now_ns as f64 / 1e9);
                    self.course.established = client.endpoint.counts().established;
                    self.stage = match load.concurrent {
                        Some(_) => Stage::Settling(drained_ns),
                        None => Stage::Draining(drained_ns),
                    };
                }
                Ok(next_ns.or(Some(now_ns)))
            }
            Stage::Settling(until_ns) => {
                let counts = client.endpoint.counts();
                if counts.established_now == counts.open || now_ns >= until_ns {
                    self.stage = Stage::Holding(now_ns + load.duration.as_nanos() as u64);
                }
                Ok(later)
            }
            Stage::Holding(until_ns) => {
                if now_ns >= until_ns {
                    self.stage = Stage::Releasing(now_ns, 0);
                }
                Ok(Some(until_ns))
            }
            Stage::Releasing(since_ns, mut released) => {
                let due = ((now_ns - since_ns) as f64 / 1e9 * load.rate_cps) as u64 + 1;
                let until = due.min(released + u64::from(AT_ONCE));
                while released < until {
                    if !client.act(port, pool, |end, out| end.release(now_ns, out))? {
                        self.stage = Stage::Draining(drained_ns);
                        return Ok(Some(now_ns));
                    }
                    released += 1;
                }
                self.stage = Stage::Releasing(since_ns, released);
                Ok(Some(since_ns + (released as f64 / load.rate_cps * 1e9) as u64))
            }
            Stage::Draining(until_ns) => {
                let is_over = ends.iter().all(|end| end.endpoint.counts().open == 0);
                if is_over || now_ns >= until_ns {
                    self.stage = Stage::Aborting;
                }
                Ok(Some(until_ns))
            }
            Stage::Aborting | Stage::Serving => abort(ports, ends, pool, now_ns),
        }
    }

    /// Opens the connections that are due. Returns when the next one is due, in ns; `None` at the end.
    fn open(
        &mut self,
        load: &Load,
        port: &mut AnyPort,
        client: &mut End,
        pool: &mut BufferPool,
    ) -> Result<Option<u64>, Trouble> {
        let most = load.concurrent.or(load.count).unwrap_or(u64::MAX);
        let duration_ns = match (load.concurrent, load.count) {
            (None, None) => load.duration.as_nanos() as u64,
            _ => u64::MAX,
        };
        let due_now = (self.now_ns as f64 / 1e9 * load.rate_cps) as u64 + 1;
        let mut opened = 0;
        loop {
            let due_ns = (self.course.due as f64 / load.rate_cps * 1e9) as u64;
            if client.endpoint.counts().opened >= most || due_ns >= duration_ns {
                return Ok(None);
            }
            if due_ns > self.now_ns || opened == AT_ONCE {
                return Ok(Some(due_ns));
            }
            self.course.due += 1;
            // As frames of a trial. Connections to hold may be opened late: their number counts, and not
            // their rate.
            let is_late = self.now_ns - due_ns > LATE.as_nanos() as u64
                && due_now.saturating_sub(self.course.due) >= FEW;
            if load.concurrent.is_none() && is_late {
                self.course.shortfall += 1;
                continue;
            }
            let now_ns = self.now_ns;
            if client.act(port, pool, |end, out| end.open(now_ns, out))?.is_err() {
                self.course.shortfall += 1;
                self.course.no_free_port += 1;
                if load.concurrent.is_some() {
                    return Ok(None);
                }
            }
            opened += 1;
        }
    }
}

/// Resets some of the open connections. Returns `None` if there are no more.
fn abort(
    ports: &mut [AnyPort],
    ends: &mut [End],
    pool: &mut BufferPool,
    now_ns: u64,
) -> Result<Option<u64>, Trouble> {
    for _ in 0..AT_ONCE {
        let mut is_any = false;
        for (port, end) in ports.iter_mut().zip(&mut *ends) {
            is_any |= end.act(port, pool, |end, out| end.abort(now_ns, out))?;
        }
        if !is_any {
            return Ok(None);
        }
    }
    Ok(Some(now_ns))
}
