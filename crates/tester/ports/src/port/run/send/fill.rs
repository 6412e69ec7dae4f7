//! Sending with exact gaps: the port's queue always holds the next frames and, between them, the fillers that
//! keep them apart. The card sends back to back, so gaps do not depend on when this thread runs.

use super::{Source, drain, put_tag};
use crate::port::run::gaps::Filled;
use crate::port::run::shape::Timetable;
use crate::port::run::{BURST, Shift, Watch};
use crate::port::{Frame, Port, Trouble};
use kpps_frames::Size;
use kpps_frames::fillers::{Fillers, Place, Wire};
use kpps_platform::{Buffer, BufferSource};
use std::time::Duration;

/// The speed of a link that does not report it.
const MBPS: u32 = 1000;
/// Bytes per second of a link of 1 Mb/s.
const BYTES_PER_S: f64 = 125_000.0;
/// How long to wait for queued frames at the end: a full ring is sent within 3 s even at 10 Mb/s.
const DRAIN: Duration = Duration::from_secs(3);

/// The largest FIFO of the cards that kpps drives, in bytes (8254x manual, 13.4.16).
const FIFO_BYTES: u64 = 65_536;

/// The length on the wire of a frame of `bytes` bytes without FCS, in bytes with FCS: cards pad short ones.
fn with_fcs(bytes: u16) -> u16 {
    bytes.max(Size::MIN.bytes_without_fcs()) + Size::FCS_BYTES
}

/// The next frame, and the fillers before it that are not queued yet.
struct Next {
    frame: Frame,
    fillers: Fillers,
    /// When it is due, in s.
    due_s: f64,
    /// Its distance from its ideal place, in byte times.
    rounded: u64,
}

/// The places of the frames of a stream on the wire.
struct Places {
    table: Timetable,
    /// The most frames.
    most: u64,
    /// No frame is due at this time or later, in s.
    end_s: f64,
    bytes_per_s: f64,
    wire: Wire,
    /// Frames that have a place.
    frames: u64,
    /// The time that the queued frames and fillers take, in byte times.
    queued: u64,
    /// How long the card has had nothing to send.
    idle: Duration,
    filled: Filled,
}

impl Places {
    /// When the next frame is due, in s; `None` behind the last one.
    fn due_s(&mut self) -> Option<f64> {
        let due_s = (self.frames < self.most).then(|| self.table.time_of(self.frames))?;
        (due_s < self.end_s).then_some(due_s)
    }

    /// The place of the next frame, which is due at `due_s` and has `bytes` bytes with FCS. Returns also the
    /// time of its start.
    fn next(&mut self, due_s: f64, bytes: u16) -> (Place, Duration) {
        let place = self.wire.place((due_s * self.bytes_per_s).round() as u64, bytes);
        self.frames += 1;
        (place, self.time(place.start))
    }

    /// A frame or a filler of this length, in bytes with FCS, is queued.
    fn queues(&mut self, bytes: u16) {
        self.queued += self.wire.time_of(bytes);
    }

    /// How long the card has had nothing to send, if it has sent all that is queued, at this time since it
    /// began. `None` if it still sends by the time that this takes on the wire.
    fn idle(&self, since: Duration) -> Option<Duration> {
        since.checked_sub(self.time(self.queued) + self.idle).filter(|idle| !idle.is_zero())
    }

    /// Notes that the card has had nothing to send for this time.
    fn note_underrun(&mut self, idle: Duration) {
        self.idle += idle;
        self.filled.underruns += 1;
        self.filled.longest_underrun = self.filled.longest_underrun.max(idle);
    }

    fn time(&self, byte_times: u64) -> Duration {
        Duration::from_secs_f64(byte_times as f64 / self.bytes_per_s)
    }

    /// Leaves out frames that are due before a time and have no place.
    fn give_up_before(&mut self, now: Duration) {
        while self.due_s().is_some_and(|due_s| due_s < now.as_secs_f64()) {
            self.frames += 1;
        }
    }
}

impl Source<'_> {
    /// Sends each frame of the only stream at its byte time. Returns the number of due frames, the time, and
    /// how exact the gaps are.
    pub(super) fn fill<P: Port, W: Watch>(
        &mut self,
        port: &mut P,
        shift: &mut Shift<'_, W>,
        listen: &mut impl FnMut(&mut P) -> Result<usize, Trouble>,
    ) -> Result<(u64, Duration, Filled), Trouble> {
        let Some(stream) = self.streams.first() else { return Ok(Default::default()) };
        let length = shift.end.map(|end| end - shift.started);
        let mut places = Places {
            table: stream.timetable(),
            most: stream.count.unwrap_or(u64::MAX),
            end_s: length.map_or(f64::INFINITY, |length| length.as_secs_f64()),
            bytes_per_s: f64::from(port.link().speed_mbps.unwrap_or(MBPS)) * BYTES_PER_S,
            wire: Wire::default(),
            frames: 0,
            queued: 0,
            idle: Duration::ZERO,
            filled: Filled::default(),
        };
        let lead = places.wire.lead();
        for bytes in lead {
            // An empty ring has room for them.
            if port.send_filler(bytes) {
                places.filled.fillers += 1;
                places.queues(bytes);
            }
        }
        // The card begins with them now, and with the first frame behind them.
        let started = shift.elapsed();
        let began = started + places.time(lead.time());
        let (mut next, mut coming) = (None, false);
        loop {
            let (elapsed, before) = (shift.elapsed(), self.sent);
            // A card that has not sent all is not idle but slow.
            if let Some(idle) = places.idle(elapsed.saturating_sub(started))
                && port.in_flight() == 0
            {
                places.note_underrun(idle);
            }
            let queued = self.queue(port, &mut places, &mut next, began);
            if queued > 0 {
                port.flush()?;
            }
            shift.watch.sent(elapsed, (self.sent - before) as usize);
            if next.is_none() && places.due_s().is_none() {
                break;
            }
            let due = shift.is_due(queued > 0);
            if due || coming {
                // Received frames must not wait, or be lost, because of sent ones.
                coming = listen(port)? > 0;
            }
            if due && !shift.go_on(&mut [port])? {
                let now = shift.elapsed();
                // A frame that has a place and is not queued is due only if its time has come.
                places.frames -=
                    u64::from(next.as_ref().is_some_and(|it: &Next| it.due_s >= now.as_secs_f64()));
                places.give_up_before(now);
                break;
            }
        }
        drain(port, listen, DRAIN)?;
        let elapsed = shift.elapsed();
        let (planned, took) = (places.time(places.queued), elapsed.saturating_sub(started));
        // The card reports a frame when it is in its FIFO.
        let in_fifo = places.time(FIFO_BYTES);
        let keeps_speed = (planned > in_fifo * 2).then(|| took + in_fifo >= planned);
        places.filled = Filled { planned, took, keeps_speed, ..places.filled };
        Ok((places.frames, elapsed, places.filled))
    }

    /// Queues at most [`BURST`] frames and fillers, as far as the port takes them. Returns their number.
    fn queue<P: Port>(
        &mut self,
        port: &mut P,
        places: &mut Places,
        next: &mut Option<Next>,
        began: Duration,
    ) -> usize {
        let room = port.tx_space().min(BURST);
        for queued in 0..room {
            let Some(mut one) = next.take().or_else(|| self.place(places, began)) else { return queued };
            let before = one.fillers;
            if let Some(bytes) = one.fillers.next() {
                let is_queued = port.send_filler(bytes);
                if is_queued {
                    places.filled.fillers += 1;
                    places.queues(bytes);
                } else {
                    one.fillers = before;
                }
                *next = Some(one);
                if !is_queued {
                    return queued;
                }
                continue;
            }
            let bytes = with_fcs(one.frame.bytes);
            if let Err(frame) = port.send(one.frame) {
                *next = Some(Next { frame, ..one });
                return queued;
            }
            self.sent += 1;
            places.queues(bytes);
            places.filled.rounded += u64::from(one.rounded > 0);
            places.filled.most_rounded = places.filled.most_rounded.max(places.time(one.rounded));
        }
        room
    }

    /// Writes the next frame and finds its place; `None` behind the last one, or without a buffer.
    fn place(&mut self, places: &mut Places, began: Duration) -> Option<Next> {
        let due_s = places.due_s()?;
        let (stream, sequence) = (self.streams.first()?, self.sequences.first_mut()?);
        let mut buffer = self.pool.take()?;
        // A frame that no buffer holds cannot be sent, and gets no length.
        let bytes = stream.frames.write(*sequence, buffer.bytes_mut()).unwrap_or(0);
        let (place, start) = places.next(due_s, with_fcs(bytes));
        if !self.plan.as_they_are {
            let sent_ps = (self.since_epoch + began + start).as_nanos() as u64 * 1000;
            put_tag(stream, *sequence, sent_ps, &mut buffer.bytes_mut()[..bytes.into()]);
        }
        *sequence += 1;
        let rounded = place.start.abs_diff(place.ideal);
        Some(Next { frame: Frame { buffer, bytes }, fillers: place.fillers, due_s, rounded })
    }
}
