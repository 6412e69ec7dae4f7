//! Sending test frames at an exact rate, or as fast as the port takes them.

use super::gaps::{Gaps, Recorder};
use super::pauses::Pauses;
use super::shape::{Shape, Times, Timetable};
use super::steady::{self, Near, Steady};
use super::{BUDGET, BURST, Shift, Watch};
use crate::port::{Frame, Port, Trouble};
use kpps_documents::Disturbance;
use kpps_frames::rate::Rate;
use kpps_frames::templates::Template;
use kpps_frames::{Tag, Templates};
use kpps_platform::memory::{BufferPool, PoolBuffer};
use kpps_platform::{Buffer, BufferSource};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The fate of frames of a paced load that cannot be sent within a millisecond of their times.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Late {
    /// They are not sent, and count as shortfall: the load is never stretched over a longer time.
    #[default]
    Skip,
    /// They are sent late, as soon as the port takes them: exactly the frames of the plan are sent.
    Send,
}

/// How late the frames of a paced load were sent, where none was left out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lateness {
    /// Frames that were given to the port more than a millisecond after they were due.
    pub frames: u64,
    /// The longest time from when a frame was due until it was given to the port.
    pub longest: Duration,
}

/// The frames to send.
#[derive(Clone, Debug)]
pub struct SendPlan {
    /// The rate.
    pub rate: Rate,
    /// The distribution of the gaps of a paced load.
    pub shape: Shape,
    /// The time of each frame. It replaces rate and shape.
    pub times: Option<Arc<Times>>,
    /// Whether frames are sent as they are, without tags.
    pub as_they_are: bool,
    /// The frames, without tags.
    pub frames: Arc<Templates>,
    /// Whether the complete frame is written each time. Otherwise a plan with one frame writes only its tag.
    pub rewrite: bool,
    /// The number of frames after which sending stops. Skipped frames without tags count, too.
    pub count: Option<u64>,
    /// The fate of frames that are late.
    pub late: Late,
    /// The number of the stream.
    pub stream: u16,
    /// The origin of the times in tags, if it is not the start: sender and receiver then share a clock. If it
    /// is in the future, sending begins at that time.
    pub epoch: Option<Instant>,
}

/// The result of sending.
#[derive(Clone, Debug, Default)]
pub struct Sent {
    /// Frames that were due.
    pub intended: u64,
    /// The frames that were sent.
    pub sent: u64,
    /// The frames that could not be sent in time.
    pub shortfall: u64,
    /// The duration of sending.
    pub elapsed: Duration,
    /// The gaps between the frames, if they were paced.
    pub gaps: Option<Gaps>,
    /// How late frames were, with [`Late::Send`].
    pub lateness: Option<Lateness>,
    /// The reasons that kept the sender from its CPU when frames could not be sent in time; `None` if frames
    /// were not paced, or the system does not report it.
    pub disturbance: Option<Disturbance>,
    /// Frames that were given to the port. A frame that is too long for the port, or that the kernel refuses,
    /// is not among the sent ones.
    pub given: u64,
    /// The frames without tags that were skipped because they were late: the number of the first, and their
    /// count.
    pub skipped: Vec<(u64, u64)>,
}

/// The longest delay of a frame that cannot be sent at its time. With [`Late::Skip`] a later frame is not
/// sent and counts as shortfall. So the load is never stretched over a longer time, and no long burst follows
/// a pause.
const LATE: Duration = Duration::from_millis(1);
/// The most frames that may be later than that at low rates, in one burst: the number that is sent at once at
/// high rates. Otherwise each moment in which a virtual machine does not run would make a trial invalid.
const FEW: u64 = BURST as u64;
/// How long to wait for sent frames that the device does not release.
const DRAIN: Duration = Duration::from_millis(200);

/// How long a flood pauses, busily, when the transmit queue is full and the port does not signal space.
const AGAIN: Duration = Duration::from_micros(10);

/// The delays of frames that are sent however late they are.
struct Delays {
    /// The times at which they are due. It is asked for the times of frames only, in turn.
    due: Timetable,
    /// Frames so far.
    frames: u64,
    seen: Lateness,
}

impl Delays {
    fn of(timetable: &Timetable) -> Self {
        Self { due: timetable.clone(), frames: 0, seen: Lateness::default() }
    }

    /// The next `frames` frames were given to the port at this time.
    fn sent(&mut self, frames: usize, now: Duration) {
        for _ in 0..frames {
            let due = Duration::try_from_secs_f64(self.due.time_of(self.frames)).unwrap_or(now);
            let delay = now.saturating_sub(due);
            self.seen.frames += u64::from(delay > LATE);
            self.seen.longest = self.seen.longest.max(delay);
            self.frames += 1;
        }
    }
}

/// A plan under way.
struct Source<'p> {
    plan: &'p SendPlan,
    rewrite: bool,
    /// Buffers to send, from a handle of its own: the port's handle is in use while frames are drawn.
    pool: BufferPool,
    /// The number of the next frame.
    sequence: u64,
    /// Frames that were given to the port, sent or not.
    sent: u64,
    skipped: Vec<(u64, u64)>,
    /// The time from the epoch to the start.
    since_epoch: Duration,
    /// The time since which the port has had frames in its queue that it could not send.
    waits_since: Option<Duration>,
}

impl Source<'_> {
    /// Whether frames have been in the port's queue for longer than a frame may be late: its link is down, or
    /// the queue behind it is full. More frames would be sent late, all at once.
    fn is_stuck<P: Port>(&mut self, port: &P, now: Duration) -> bool {
        if !port.wants_to_send() {
            self.waits_since = None;
            return false;
        }
        now.saturating_sub(*self.waits_since.get_or_insert(now)) > LATE
    }

    /// Sends at most `most` frames now. Returns their number.
    #[inline]
    fn burst<P: Port>(&mut self, port: &mut P, most: usize, now: Duration) -> Result<usize, Trouble> {
        let now_ps = (self.since_epoch + now).as_nanos() as u64 * 1000;
        let count = match self.plan.frames.only() {
            Some(only) if !self.plan.as_they_are => self.tagged(port, only, most, now_ps),
            _ => {
                let (room, first) = (most.min(port.tx_space()), self.sequence);
                port.send_burst(&mut std::iter::from_fn(|| self.written(now_ps)).take(room));
                // The port may have dropped some frames. They are not sent again, and no other frames replace
                // them.
                (self.sequence - first) as usize
            }
        };
        // Frames that the port could not send earlier may still be in its queue, even if the queue has no
        // space for more.
        if count > 0 || port.wants_to_send() {
            port.flush()?;
        }
        self.sent += count as u64;
        Ok(count)
    }

    /// Sends at most `most` frames that differ only in their tags. Unless each is to be written as a whole,
    /// the frame is in the buffers already ([`prepare`]).
    #[inline]
    fn tagged<P: Port>(&mut self, port: &mut P, frame: Template<'_>, most: usize, sent_ps: u64) -> usize {
        let Self { pool, sequence, plan, rewrite, .. } = self;
        let place = plan.frames.tag();
        let (at, bytes, stream) = (place.offset(frame.head), frame.bytes, plan.stream);
        let first = *sequence;
        let mut write = |buffer: &mut PoolBuffer| {
            // A frame that no buffer holds cannot be sent, and gets no length.
            let bytes = if *rewrite { frame.write(buffer.bytes_mut()).unwrap_or(0) } else { bytes };
            // Every frame has room for a tag.
            let tag = Tag { stream, sequence: *sequence, sent_ps };
            let _ = place.write_at(buffer.bytes_mut(), at, tag);
            *sequence += 1;
            bytes
        };
        let mut count = port.send_again(most, &mut write);
        if count < most {
            let room = port.tx_space().min(most - count);
            let frames = std::iter::from_fn(|| {
                let mut buffer = pool.take()?;
                let bytes = write(&mut buffer);
                Some(Frame { buffer, bytes })
            });
            count += port.send_burst(&mut frames.take(room));
        }
        // A frame that was written and not accepted is written again.
        *sequence = first + count as u64;
        count
    }

    /// Skips frames, so that later ones keep their times.
    fn skip(&mut self, frames: u64) {
        let next = self.sequence;
        match self.skipped.last_mut() {
            _ if frames == 0 => return,
            Some((first, count)) if *first + *count == next => *count += frames,
            _ => self.skipped.push((next, frames)),
        }
        self.sequence += frames;
    }

    /// The complete next frame.
    fn written(&mut self, sent_ps: u64) -> Option<Frame> {
        let mut buffer = self.pool.take()?;
        // A frame that no buffer holds cannot be sent, and gets no length.
        let bytes = self.plan.frames.at(self.sequence)?.write(buffer.bytes_mut()).unwrap_or(0);
        // Every template has room for a tag.
        if !self.plan.as_they_are {
            let tag = Tag { stream: self.plan.stream, sequence: self.sequence, sent_ps };
            let _ = self.plan.frames.tag().write(&mut buffer.bytes_mut()[..bytes.into()], tag);
        }
        self.sequence += 1;
        Some(Frame { buffer, bytes })
    }
}

/// Writes the only frame of a plan into every free buffer. Received frames return into the ring in their own
/// buffers, so all buffers for sending have the frame in them.
fn prepare<P: Port>(port: &mut P, frame: Template<'_>) {
    let pool = port.pool();
    let mut all: Vec<_> = std::iter::from_fn(|| pool.take()).collect();
    for buffer in &mut all {
        // Buffers hold the longest frames that ports send.
        let _ = frame.write(buffer.bytes_mut());
    }
    for buffer in all {
        pool.give(buffer);
    }
}

/// Sends until the watch ends it, or the plan's number of frames is sent. Received frames are discarded.
///
/// # Errors
/// [`Trouble`].
pub fn send<P: Port>(port: &mut P, plan: &SendPlan, watch: &mut impl Watch) -> Result<Sent, Trouble> {
    send_and_listen(port, plan, watch, &mut |port: &mut P| port.receive(BUDGET, |frame| Some(frame.buffer)))
}

/// As [`send`], with a receiver. It takes at most [`BUDGET`] received frames each time it is called, and
/// returns their number.
///
/// # Errors
/// [`Trouble`].
pub fn send_and_listen<P: Port>(
    port: &mut P,
    plan: &SendPlan,
    watch: &mut impl Watch,
    listen: &mut impl FnMut(&mut P) -> Result<usize, Trouble>,
) -> Result<Sent, Trouble> {
    if plan.frames.is_empty() {
        return Ok(Sent::default());
    }
    let rewrite = match plan.frames.only() {
        Some(only) if !plan.rewrite && !plan.as_they_are => {
            prepare(port, only);
            false
        }
        _ => true,
    };
    let pool = port.pool().clone();
    let before = port.frames().1;
    let steady = (plan.times.is_some() || plan.rate != Rate::Max).then(|| Steady::now(&Near::default()));
    let waited = steady::waited();
    let mut pauses = steady.as_ref().and_then(|steady| Pauses::begin(steady.got().cpu));
    let mut disturbance = None;
    // If the epoch is in the future, sending begins at the epoch.
    if let Some(wait) = plan.epoch.and_then(|epoch| epoch.checked_duration_since(Instant::now())) {
        std::thread::sleep(wait);
    }
    let mut shift = Shift::start(watch);
    let since_epoch = plan.epoch.map_or(Duration::ZERO, |epoch| shift.started.duration_since(epoch));
    shift.watch.begins(since_epoch);
    let mut source = Source {
        plan,
        rewrite,
        pool,
        sequence: 0,
        sent: 0,
        skipped: Vec::new(),
        since_epoch,
        waits_since: None,
    };
    let most = plan.count.unwrap_or(u64::MAX);
    let (mut gaps, mut lateness) = (None, None);
    let timetable = match (&plan.times, plan.rate) {
        (Some(times), _) => Some(Timetable::of(times.clone())),
        (None, Rate::Pps(pps)) => Some(Timetable::new(pps, plan.shape)),
        (None, Rate::Max) => None,
    };
    let (intended, elapsed) = match timetable {
        None => {
            flood(port, &mut source, most, &mut shift, listen)?;
            (source.sent, shift.elapsed())
        }
        Some(timetable) => {
            let mut recorder = Recorder::new(timetable.gap_ns());
            let mut delays = (plan.late == Late::Send).then(|| Delays::of(&timetable));
            let result = pace(
                port,
                &mut source,
                timetable,
                most,
                &mut shift,
                (&mut recorder, pauses.as_mut(), delays.as_mut(), listen),
            )?;
            lateness = delays.map(|delays| delays.seen);
            let waited_ns = waited.and_then(|before| Some((steady::waited()? - before).as_nanos() as u64));
            gaps =
                recorder.gaps().map(|gaps| Gaps { waited_ns, got: steady.as_ref().map(Steady::got), ..gaps });
            let (intended, elapsed) = result;
            disturbance = pauses.map(|pauses| pauses.end(elapsed, intended.saturating_sub(source.sent)));
            result
        }
    };
    drain(port, listen)?;
    // Frames that the port accepted and the kernel refused are not sent.
    let sent = port.frames().1 - before;
    Ok(Sent {
        intended,
        sent,
        shortfall: intended.saturating_sub(sent),
        elapsed,
        gaps,
        lateness,
        disturbance,
        given: source.sent,
        skipped: source.skipped,
    })
}

/// Sends as fast as the port accepts frames.
fn flood<P: Port, W: Watch>(
    port: &mut P,
    source: &mut Source<'_>,
    most: u64,
    shift: &mut Shift<'_, W>,
    listen: &mut impl FnMut(&mut P) -> Result<usize, Trouble>,
) -> Result<(), Trouble> {
    let mut coming = false;
    while source.sequence < most {
        let room = usize::try_from(most - source.sequence).unwrap_or(usize::MAX);
        let elapsed = shift.elapsed();
        let count = source.burst(port, room.min(BURST), elapsed)?;
        shift.watch.sent(elapsed, count);
        let due = shift.is_due(count > 0);
        if due || coming {
            // Received frames must not wait, or be lost, because of sent ones.
            coming = listen(port)? > 0;
        }
        if !due {
            continue;
        }
        if !shift.go_on(&mut [port])? {
            break;
        }
        if count == 0 && port.tx_space() == 0 {
            let most = if port.signals_tx_space() { None } else { Some(AGAIN) };
            shift.wait(&mut [port], most)?;
        }
    }
    Ok(())
}

/// Sends each frame at its time. Returns how many were due, and the elapsed time.
fn pace<P: Port, W: Watch>(
    port: &mut P,
    source: &mut Source<'_>,
    mut timetable: Timetable,
    mut most: u64,
    shift: &mut Shift<'_, W>,
    (gaps, mut pauses, mut delays, listen): (
        &mut Recorder,
        Option<&mut Pauses>,
        Option<&mut Delays>,
        &mut impl FnMut(&mut P) -> Result<usize, Trouble>,
    ),
) -> Result<(u64, Duration), Trouble> {
    // The same counters, read a little later.
    let mut behind = timetable.clone();
    let mut given_up = 0;
    let length = shift.end.map(|end| end - shift.started);
    let until_end = |elapsed: Duration| length.map_or(elapsed, |length| elapsed.min(length));
    loop {
        let elapsed = shift.elapsed();
        let now = until_end(elapsed);
        if let Some(pps) = shift.watch.new_rate(now) {
            for table in
                [&mut timetable, &mut behind].into_iter().chain(delays.as_mut().map(|it| &mut it.due))
            {
                table.change(now.as_secs_f64(), pps);
            }
            most = length.and_then(|length| timetable.until(length.as_secs_f64())).unwrap_or(u64::MAX);
            most = most.max(source.sequence);
            gaps.change();
        }
        let due = timetable.due(now.as_secs_f64());
        let lately = now.checked_sub(LATE).map_or(due, |then| due - behind.due(then.as_secs_f64()));
        let waiting = (due - source.sent - given_up).min(most - source.sequence);
        let late = match source.plan.late {
            Late::Skip => waiting.saturating_sub(lately.max(FEW)),
            Late::Send => 0,
        };
        given_up += late;
        if late > 0
            && let Some(pauses) = &mut pauses
        {
            pauses.give_up(elapsed, late);
        }
        if source.plan.as_they_are {
            source.skip(late);
        }
        let backlog = waiting - late;
        let room = if source.is_stuck(port, elapsed) { 0 } else { backlog.min(BURST as u64) };
        let count = source.burst(port, room as usize, elapsed)?;
        shift.watch.sent(elapsed, count);
        if let Some(delays) = &mut delays {
            delays.sent(count, elapsed);
        }
        gaps.record(shift.elapsed().as_nanos() as u64, count);
        let left = backlog - count as u64;
        listen(port)?;
        // Skipped frames do not come again.
        if source.sequence >= most {
            return Ok((source.sent + given_up, elapsed));
        }
        if !shift.go_on(&mut [port])? {
            // Frames that became due since then are due, too: this thread may have waited until the end for a
            // CPU.
            let now = until_end(shift.elapsed());
            let due = timetable.before(now.as_secs_f64()).ceil() as u64;
            return Ok((due.min(most).max(source.sent + given_up), now));
        }
        if left == 0 {
            // At a rate of 0, no frame ever becomes due.
            let next = Duration::try_from_secs_f64(timetable.next_s(due)).unwrap_or(Duration::MAX);
            shift.wait(&mut [port], Some(next.saturating_sub(shift.elapsed())))?;
        }
    }
}

/// Waits until all frames are sent.
fn drain<P: Port>(
    port: &mut P,
    listen: &mut impl FnMut(&mut P) -> Result<usize, Trouble>,
) -> Result<(), Trouble> {
    let end = Instant::now() + DRAIN;
    while port.in_flight() > 0 && Instant::now() < end {
        port.flush()?;
        listen(port)?;
        port.woken()?;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
