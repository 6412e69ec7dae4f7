//! Sending test frames at an exact rate, or as fast as the port takes them.

use super::beginning::Starter;
use super::gaps::{Filled, Gaps, Recorder};
use super::part::{OnePart, PlanPart};
use super::pauses::Pauses;
use super::plan::{Change, Late, SendPlan, StreamPlan};
use super::schedule::{FEW, LATE, Lateness, Many, One, Schedule};
use super::send_log::SendLog;
use super::steady::{self, Near, Steady};
use super::{BUDGET, BURST, Shift, Watch};
use crate::port::{Frame, Port, Trouble};
use kpps_documents::Disturbance;
use kpps_frames::Tag;
use kpps_frames::tag::TagFormat;
use kpps_frames::templates::Template;
use kpps_platform::memory::BufferPool;
use kpps_platform::{Buffer, BufferSource};
use std::time::{Duration, Instant};

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
    /// How exact the gaps are, if fillers were sent between the frames.
    pub filled: Option<Filled>,
    /// When they were sent, if they were paced and other cores sent frames of the same schedule.
    pub send_log: Option<SendLog>,
    /// How late frames were, with [`Late::Send`].
    pub lateness: Option<Lateness>,
    /// The reasons that kept the sender from its CPU when frames could not be sent in time; `None` if frames
    /// were not paced, or the system does not report it.
    pub disturbance: Option<Disturbance>,
    /// Frames that were given to the port. A frame that is too long for the port, or that the kernel refuses,
    /// is not among the sent ones.
    pub given: u64,
    /// The frames of each stream that were given to the port, in the order of the plan; empty for one stream
    /// that begins at once and has no end of its own.
    pub of_streams: Vec<u64>,
    /// The frames of each stream that were due, if they were paced; as `of_streams`.
    pub due_of_streams: Vec<u64>,
    /// The frames without tags that were skipped because they were late: the number of the first, and their
    /// count.
    pub skipped: Vec<(u64, u64)>,
}

/// How long to wait for sent frames that the device does not release.
const DRAIN: Duration = Duration::from_millis(200);

/// How long frames that were due at the end of a load wait for room in the port.
const OVERTIME: Duration = Duration::from_secs(1);

/// How long a flood pauses, busily, when the transmit queue is full and the port does not signal space.
const AGAIN: Duration = Duration::from_micros(10);

/// A plan under way.
struct Source<'p> {
    plan: &'p SendPlan,
    /// The streams of the plan, and those that were added.
    streams: Vec<StreamPlan>,
    rewrite: bool,
    /// Buffers to send, from a handle of its own: the port's handle is in use while frames are drawn.
    pool: BufferPool,
    /// The number of the next frame of each stream.
    sequences: Vec<u64>,
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

    /// Takes the streams that are added.
    fn add(&mut self, changes: &[Change]) {
        for change in changes {
            if let Change::Add(plan) = change {
                self.streams.push((**plan).clone());
                self.sequences.push(0);
            }
        }
    }

    /// Sends at most `most` of the next frames now. Returns their number.
    #[inline]
    fn burst<P: Port>(
        &mut self,
        port: &mut P,
        schedule: &mut impl Schedule,
        most: usize,
        now: Duration,
    ) -> Result<usize, Trouble> {
        let now_ps = (self.since_epoch + now).as_nanos() as u64 * 1000;
        let one = self.plan.streams.first().filter(|_| schedule.is_one() && !self.plan.as_they_are);
        let count = match one.and_then(|one| Some((one.frames.only()?, one.frames.tag(), one.stream))) {
            Some(frame) => self.tagged(port, frame, most, now_ps),
            None => {
                let (room, mut given) = (most.min(port.tx_space()), 0);
                let frames = std::iter::from_fn(|| {
                    let frame = self.written(schedule, now_ps)?;
                    given += 1;
                    Some(frame)
                });
                port.send_burst(&mut frames.take(room));
                // The port may have dropped some frames. They are not sent again, and no other frames replace
                // them.
                given
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

    /// Sends at most `most` frames of the only stream that differ only in their tags. Unless each is to be
    /// written as a whole, the frame is in the buffers already ([`prepare`]).
    #[inline]
    fn tagged<P: Port>(
        &mut self,
        port: &mut P,
        (frame, place, stream): (Template<'_>, TagFormat, u16),
        most: usize,
        sent_ps: u64,
    ) -> usize {
        let Self { pool, sequences, rewrite, .. } = self;
        let Some(sequence) = sequences.first_mut() else { return 0 };
        let (at, bytes) = (place.offset(frame.head), frame.bytes);
        let first = *sequence;
        let mut write = |buffer: &mut [u8]| {
            // A frame that no buffer holds cannot be sent, and gets no length.
            let bytes = if *rewrite { frame.write(buffer).unwrap_or(0) } else { bytes };
            // Every frame has room for a tag.
            let tag = Tag { stream, sequence: *sequence, sent_ps };
            let _ = place.write_at(buffer, at, tag);
            *sequence += 1;
            bytes
        };
        let mut count = port.send_again(most, &mut write);
        if count < most {
            let room = port.tx_space().min(most - count);
            let frames = std::iter::from_fn(|| {
                let mut buffer = pool.take()?;
                let bytes = write(buffer.bytes_mut());
                Some(Frame { buffer, bytes })
            });
            count += port.send_burst(&mut frames.take(room));
        }
        // A frame that was written and not accepted is written again.
        *sequence = first + count as u64;
        count
    }

    /// Skips frames of the only stream, so that later ones keep their times.
    fn skip(&mut self, frames: u64) {
        let Some(next) = self.sequences.first_mut() else { return };
        match self.skipped.last_mut() {
            _ if frames == 0 => return,
            Some((first, count)) if *first + *count == *next => *count += frames,
            _ => self.skipped.push((*next, frames)),
        }
        *next += frames;
    }

    /// The complete next frame.
    #[inline]
    fn written(&mut self, schedule: &mut impl Schedule, sent_ps: u64) -> Option<Frame> {
        // Streams may end in the middle of a burst.
        let mut buffer = (schedule.left() > 0).then(|| self.pool.take()).flatten()?;
        let at = schedule.next();
        let (stream, sequence) = (self.streams.get(at)?, self.sequences.get_mut(at)?);
        // A frame that no buffer holds cannot be sent, and gets no length.
        let number = schedule.number(*sequence);
        let bytes = stream.frames.write(number, buffer.bytes_mut()).unwrap_or(0);
        if !self.plan.as_they_are {
            put_tag(stream, number, sent_ps, &mut buffer.bytes_mut()[..bytes.into()]);
        }
        *sequence += 1;
        Some(Frame { buffer, bytes })
    }
}

/// Writes the tag of a stream's frame with this number into the frame.
#[inline]
fn put_tag(stream: &StreamPlan, number: u64, sent_ps: u64, frame: &mut [u8]) {
    let tag = Tag { stream: stream.stream, sequence: number, sent_ps };
    // Every template has room for a tag.
    let _ = stream.frames.tag().write(frame, tag);
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
    send_streams(port, plan, None, watch, listen)
}

/// Sends the frames of all streams.
fn send_streams<P: Port>(
    port: &mut P,
    plan: &SendPlan,
    starter: Option<Starter<'_>>,
    watch: &mut impl Watch,
    listen: &mut impl FnMut(&mut P) -> Result<usize, Trouble>,
) -> Result<Sent, Trouble> {
    // Streams may be added to a live plan.
    if plan.streams.is_empty() && !plan.live || plan.streams.iter().any(|stream| stream.frames.is_empty()) {
        return Ok(Sent::default());
    }
    match One::of(plan, plan.late == Late::Send || starter.is_some()) {
        Some(one) => send_in_order(port, plan, one, starter, watch, listen),
        None => send_in_order(port, plan, Many::of(plan), starter, watch, listen),
    }
}

/// As [`send_and_listen`], for the part of a plan that one of several cores sends. If they begin together,
/// `starter` is this core's part of that.
///
/// # Errors
/// [`Trouble`].
pub fn send_part_and_listen<P: Port>(
    port: &mut P,
    part: &PlanPart,
    starter: Option<Starter<'_>>,
    watch: &mut impl Watch,
    listen: &mut impl FnMut(&mut P) -> Result<usize, Trouble>,
) -> Result<Sent, Trouble> {
    match part.numbers.and_then(|numbers| OnePart::of(&part.plan, numbers)) {
        Some(one) if !part.plan.streams.iter().any(|stream| stream.frames.is_empty()) => {
            send_in_order(port, &part.plan, one, starter, watch, listen)
        }
        _ => send_streams(port, &part.plan, starter, watch, listen),
    }
}

/// Sends frames in the order of a schedule.
fn send_in_order<P: Port>(
    port: &mut P,
    plan: &SendPlan,
    mut schedule: impl Schedule,
    starter: Option<Starter<'_>>,
    watch: &mut impl Watch,
    listen: &mut impl FnMut(&mut P) -> Result<usize, Trouble>,
) -> Result<Sent, Trouble> {
    let rewrite = match plan.streams.first().and_then(|first| first.frames.only()) {
        Some(only) if schedule.is_one() && !plan.rewrite && !plan.as_they_are => {
            prepare(port, only);
            false
        }
        _ => true,
    };
    let pool = port.pool().clone();
    let before = port.frames().1;
    let steady = plan.is_paced.then(|| Steady::now(&Near::default()));
    let waited = steady::waited();
    let mut pauses = steady.as_ref().and_then(|steady| Pauses::begin(steady.got().cpu));
    let mut disturbance = None;
    let is_beside_others = starter.is_some();
    // If the epoch is in the future, sending begins at the epoch.
    let mut shift = match starter {
        Some(starter) => Shift::since(watch, starter.begin(plan.epoch)),
        None => {
            if let Some(wait) = plan.epoch.and_then(|epoch| epoch.checked_duration_since(Instant::now())) {
                std::thread::sleep(wait);
            }
            Shift::start(watch)
        }
    };
    let since_epoch = plan.epoch.map_or(Duration::ZERO, |epoch| shift.started.duration_since(epoch));
    shift.watch.begins(since_epoch);
    let mut source = Source {
        plan,
        streams: plan.streams.clone(),
        rewrite,
        pool,
        sequences: vec![0; plan.streams.len()],
        sent: 0,
        skipped: Vec::new(),
        since_epoch,
        waits_since: None,
    };
    let (mut gaps, mut lateness, mut send_log, mut filled) = (None, None, None, None);
    let Paced { intended, of_streams: due_of_streams, elapsed } = match plan.is_paced {
        _ if plan.fillers => {
            let (intended, elapsed, how) = source.fill(port, &mut shift, listen)?;
            filled = Some(how);
            Paced { intended, of_streams: Vec::new(), elapsed }
        }
        false => {
            flood(port, &mut source, &mut schedule, &mut shift, listen)?;
            Paced { intended: source.sent, of_streams: Vec::new(), elapsed: shift.elapsed() }
        }
        true => {
            let mut recorder = Recorder::new(schedule.gap_ns());
            if is_beside_others {
                recorder = recorder.beside_others(SendLog::new(schedule.shared_gap_ns()));
            }
            let with = (&mut recorder, pauses.as_mut(), &mut *listen);
            let paced = pace(port, &mut source, &mut schedule, &mut shift, with)?;
            lateness = (plan.late == Late::Send).then(|| schedule.lateness());
            let waited_ns = waited.and_then(|before| Some((steady::waited()? - before).as_nanos() as u64));
            gaps =
                recorder.gaps().map(|gaps| Gaps { waited_ns, got: steady.as_ref().map(Steady::got), ..gaps });
            send_log = recorder.take_log();
            let left_out = paced.intended.saturating_sub(source.sent);
            disturbance = pauses.map(|pauses| pauses.end(paced.elapsed, left_out));
            paced
        }
    };
    drain(port, listen, DRAIN)?;
    // Frames that the port accepted and the kernel refused are not sent.
    let sent = port.frames().1 - before;
    Ok(Sent {
        intended,
        sent,
        shortfall: intended.saturating_sub(sent),
        elapsed,
        gaps,
        filled,
        send_log,
        lateness,
        disturbance,
        given: source.sent,
        of_streams: if schedule.is_one() { Vec::new() } else { source.sequences },
        due_of_streams,
        skipped: source.skipped,
    })
}

/// Sends as fast as the port accepts frames.
fn flood<P: Port, W: Watch>(
    port: &mut P,
    source: &mut Source<'_>,
    schedule: &mut impl Schedule,
    shift: &mut Shift<'_, W>,
    listen: &mut impl FnMut(&mut P) -> Result<usize, Trouble>,
) -> Result<(), Trouble> {
    let mut coming = false;
    while schedule.left() > 0 {
        let room = usize::try_from(schedule.left()).unwrap_or(usize::MAX);
        let elapsed = shift.elapsed();
        let count = source.burst(port, schedule, room.min(BURST), elapsed)?;
        schedule.sent(count, elapsed, elapsed, None);
        shift.watch.sent(elapsed, count);
        tell_streams(source, schedule, shift.watch);
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

/// The frames that were due while they were sent at their times.
struct Paced {
    intended: u64,
    /// The due frames of each stream of the plan; empty where all frames are of the first.
    of_streams: Vec<u64>,
    elapsed: Duration,
}

/// Sends each frame at its time.
fn pace<P: Port, W: Watch>(
    port: &mut P,
    source: &mut Source<'_>,
    schedule: &mut impl Schedule,
    shift: &mut Shift<'_, W>,
    (gaps, mut pauses, listen): (
        &mut Recorder,
        Option<&mut Pauses>,
        &mut impl FnMut(&mut P) -> Result<usize, Trouble>,
    ),
) -> Result<Paced, Trouble> {
    let mut given_up = 0;
    let length = shift.end.map(|end| end - shift.started);
    let until_end = |elapsed: Duration| length.map_or(elapsed, |length| elapsed.min(length));
    loop {
        let elapsed = shift.elapsed();
        let now = until_end(elapsed);
        let changes = shift.watch.changes(now);
        if !changes.is_empty() {
            schedule.change(now, &changes, length);
            gaps.change();
            source.add(&changes);
        }
        let (waiting, lately) = schedule.waiting(now);
        let late = match source.plan.late {
            Late::Skip => waiting.saturating_sub(lately.max(FEW)),
            Late::Send => 0,
        };
        let left_out = late + schedule.left_out();
        given_up += left_out;
        if left_out > 0 {
            schedule.give_up(late);
            if let Some(pauses) = &mut pauses {
                pauses.give_up(elapsed, left_out);
            }
            if source.plan.as_they_are {
                source.skip(late);
            }
        }
        let backlog = waiting - late;
        let room = if source.is_stuck(port, elapsed) { 0 } else { backlog.min(BURST as u64) };
        let count = source.burst(port, schedule, room as usize, elapsed)?;
        shift.watch.sent(elapsed, count);
        schedule.sent(count, elapsed, shift.elapsed(), Some(&mut *gaps));
        let left = backlog - count as u64;
        listen(port)?;
        tell_streams(source, schedule, shift.watch);
        // Skipped frames do not come again.
        if schedule.left() == 0 {
            let of_streams = schedule.due_of_streams(now.as_secs_f64());
            return Ok(Paced { intended: source.sent + given_up, of_streams, elapsed });
        }
        if !shift.go_on(&mut [port])? {
            // Frames that became due since then are due, too: this thread may have waited until the end for a
            // CPU.
            let now = until_end(shift.elapsed());
            let due = schedule.due_before(now.as_secs_f64());
            let of_streams = schedule.due_of_streams(now.as_secs_f64());
            let is_at_end = length.is_some_and(|length| now >= length);
            let elapsed = match source.plan.late {
                Late::Send if is_at_end && !source.plan.live => {
                    overtime(port, source, schedule, shift, (due, now, gaps, listen))?
                }
                _ => now,
            };
            return Ok(Paced { intended: due.max(source.sent + given_up), of_streams, elapsed });
        }
        if left == 0 {
            // At a rate of 0, no frame ever becomes due.
            let next = Duration::try_from_secs_f64(schedule.next_s()).unwrap_or(Duration::MAX);
            shift.wait(&mut [port], Some(next.saturating_sub(shift.elapsed())))?;
        }
    }
}

/// Sends the rest of the frames that were due before the end, where no frame may be left out. Returns when
/// the last of them was given to the port. Ends early if the port takes none for [`OVERTIME`].
fn overtime<P: Port, W: Watch>(
    port: &mut P,
    source: &mut Source<'_>,
    schedule: &mut impl Schedule,
    shift: &mut Shift<'_, W>,
    (due, end, gaps, listen): (
        u64,
        Duration,
        &mut Recorder,
        &mut impl FnMut(&mut P) -> Result<usize, Trouble>,
    ),
) -> Result<Duration, Trouble> {
    let (mut last, mut asked) = (end, end);
    while let Some(left) = due.checked_sub(source.sent).filter(|left| *left > 0) {
        let now = shift.elapsed();
        if now.saturating_sub(last) > OVERTIME {
            break;
        }
        let count = source.burst(port, schedule, left.min(BURST as u64) as usize, now)?;
        shift.watch.sent(now, count);
        schedule.sent(count, now, shift.elapsed(), Some(&mut *gaps));
        listen(port)?;
        tell_streams(source, schedule, shift.watch);
        if count > 0 {
            last = now;
        }
        if now > asked + super::SLOW {
            asked = now;
            if !super::go_on([&mut *port], shift.watch, now)? {
                break;
            }
        }
    }
    Ok(last)
}

/// Tells the frames of each stream, if the watch asks for them.
#[inline]
fn tell_streams(source: &Source<'_>, schedule: &impl Schedule, watch: &mut impl Watch) {
    if watch.wants_streams() {
        watch.streams(&source.sequences, &schedule.are_sending());
    }
}

/// Waits until all frames are sent, for this long at most.
fn drain<P: Port>(
    port: &mut P,
    listen: &mut impl FnMut(&mut P) -> Result<usize, Trouble>,
    at_most: Duration,
) -> Result<(), Trouble> {
    let end = Instant::now() + at_most;
    while port.in_flight() > 0 && Instant::now() < end {
        port.flush()?;
        listen(port)?;
        port.woken()?;
    }
    Ok(())
}

mod fill;
#[cfg(test)]
mod tests;
