//! Sending with exact gaps: the port's queue always holds the next frames and, between them, the fillers that
//! keep them apart. The card sends back to back, so gaps do not depend on when this thread runs.

use super::Source;
use crate::port::run::gaps::Filled;
use crate::port::run::shape::Timetable;
use crate::port::run::{BURST, Shift, Watch};
use crate::port::{Frame, Port, Trouble};
use kpps_frames::fillers::{Fillers, Place, Wire};
use kpps_frames::{Size, Tag};
use kpps_platform::{Buffer, BufferSource};
use std::time::Duration;

/// The speed of a link that does not report it.
const MBPS: u32 = 1000;
/// Bytes per second of a link of 1 Mb/s.
const BYTES_PER_S: f64 = 125_000.0;
/// How long to wait for queued frames at the end: a full ring is sent within 3 s even at 10 Mb/s.
const DRAIN: Duration = Duration::from_secs(3);

/// The next frame, and the fillers before it that are not queued yet.
struct Next {
    frame: Frame,
    fillers: Fillers,
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
        let rounded = place.start.abs_diff(place.ideal);
        self.frames += 1;
        self.filled.rounded += u64::from(rounded > 0);
        self.filled.most_rounded = self.filled.most_rounded.max(self.time(rounded));
        (place, self.time(place.start))
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
            filled: Filled::default(),
        };
        let lead = places.wire.lead();
        // An empty ring has room for them.
        places.filled.fillers = lead.map(|bytes| u64::from(port.send_filler(bytes))).sum();
        // The card begins with them now, and with the first frame behind them.
        let queued = shift.elapsed();
        let began = queued + places.time(lead.time());
        let (mut next, mut coming) = (None, false);
        loop {
            let (elapsed, before) = (shift.elapsed(), self.sent);
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
                places.give_up_before(shift.elapsed());
                break;
            }
        }
        let end = shift.elapsed() + DRAIN;
        while port.in_flight() > 0 && shift.elapsed() < end {
            port.flush()?;
            listen(port)?;
            port.woken()?;
        }
        let elapsed = shift.elapsed();
        places.filled.planned = places.time(lead.time() + places.wire.free());
        places.filled.took = elapsed.saturating_sub(queued);
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
            let Some(Next { frame, mut fillers }) = next.take().or_else(|| self.place(places, began)) else {
                return queued;
            };
            let before = fillers;
            if let Some(bytes) = fillers.next() {
                let is_queued = port.send_filler(bytes);
                places.filled.fillers += u64::from(is_queued);
                *next = Some(Next { frame, fillers: if is_queued { fillers } else { before } });
                if !is_queued {
                    return queued;
                }
            } else if let Err(frame) = port.send(frame) {
                *next = Some(Next { frame, fillers });
                return queued;
            } else {
                self.sent += 1;
            }
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
        let with_fcs = bytes.max(Size::MIN.bytes_without_fcs()) + Size::FCS_BYTES;
        let (place, start) = places.next(due_s, with_fcs);
        if !self.plan.as_they_are {
            let sent_ps = (self.since_epoch + began + start).as_nanos() as u64 * 1000;
            let tag = Tag { stream: stream.stream, sequence: *sequence, sent_ps };
            // Every template has room for a tag.
            let _ = stream.frames.tag().write(&mut buffer.bytes_mut()[..bytes.into()], tag);
        }
        *sequence += 1;
        Some(Next { frame: Frame { buffer, bytes }, fillers: place.fillers })
    }
}
