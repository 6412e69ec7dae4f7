//! The part of a plan that one of several cores sends.
//!
//! Of a plan with several streams, the streams take turns: core k of K sends the streams s with s ≡ k modulo
//! K. Of a plan with one stream, its flows do: core k sends the frames of the flows f with f ≡ k. So each
//! flow is sent by one core, in its order. Each core has the timetable of the whole plan. Frame n of a stream
//! is the same frame with the same tag and the same time, whichever core sends it, and the parts add up to
//! the plan exactly. No core waits for another, and they share nothing.
//!
//! A stream with one flow cannot be divided: the first core sends it, and the others only receive. Frames of
//! a capture have no tags and cannot be divided either, nor can a plan whose streams are started, stopped and
//! changed meanwhile.

use super::gaps::Recorder;
use super::numbers::Numbers;
use super::plan::{Change, SendPlan, Timetables};
use super::schedule::{LATE, Lateness, Schedule};
use super::shape::Timetable;
use std::time::Duration;

/// The part of a plan that one core sends.
#[derive(Clone, Debug)]
pub struct PlanPart {
    /// The streams of this core.
    pub plan: SendPlan,
    /// For a stream that is divided by its flows: the frames of this core.
    pub(super) numbers: Option<Numbers>,
    /// The index in the whole plan of each stream.
    streams: Vec<usize>,
}

impl PlanPart {
    /// The number of parts into which a plan can be divided for this number of cores: 1 if it cannot.
    pub fn possible(plan: &SendPlan, cores: usize) -> usize {
        let most = match &plan.streams[..] {
            _ if plan.as_they_are || plan.live => 1,
            [only] if only.start.is_zero() && only.duration.is_none() => only.frames.flows() as usize,
            all => all.len(),
        };
        cores.clamp(1, most.max(1))
    }

    /// The whole plan.
    pub fn whole(plan: SendPlan) -> Self {
        Self { streams: (0..plan.streams.len()).collect(), plan, numbers: None }
    }

    /// The part of this core of `cores`; `None` if nothing is left for it.
    pub fn of(plan: &SendPlan, core: usize, cores: usize) -> Option<Self> {
        let parts = Self::possible(plan, cores);
        if core >= parts {
            return None;
        }
        if parts == 1 {
            return Some(Self::whole(plan.clone()));
        }
        let of = |(at, _): &(usize, _)| plan.streams.len() == 1 || at % parts == core;
        let (streams, own) =
            plan.streams.iter().enumerate().filter(of).map(|(at, stream)| (at, stream.clone())).unzip();
        let numbers = match &plan.streams[..] {
            [only] => Some(Numbers::of(core, parts, only.frames.flows())),
            _ => None,
        };
        Some(Self { plan: SendPlan { streams: own, ..plan.clone() }, numbers, streams })
    }

    /// The part of each of this number of cores.
    pub fn of_all(plan: &SendPlan, cores: usize) -> Vec<Option<Self>> {
        (0..cores).map(|core| Self::of(plan, core, cores)).collect()
    }

    /// Whether it is a part of the flows of the only stream.
    pub fn is_divided(&self) -> bool {
        self.numbers.is_some()
    }

    /// The most frames of this part; `None` if a stream has no limit.
    pub fn most(&self) -> Option<u64> {
        let most = self.plan.most()?;
        Some(self.numbers.map_or(most, |numbers| numbers.before(most)))
    }

    /// When the frames of this part are due; `None` if they are not paced.
    pub fn timetables(&self) -> Option<PartTimetables> {
        Some(PartTimetables { whole: self.plan.timetables()?, numbers: self.numbers })
    }

    /// Adds the frames of each stream of this part to those of the whole plan. `all`: those of all.
    pub fn add_to(&self, whole: &mut [u64], of_streams: &[u64], all: u64) {
        let only = [all];
        let counts = if of_streams.is_empty() { &only[..] } else { of_streams };
        for (at, frames) in self.streams.iter().zip(counts) {
            if let Some(sum) = whole.get_mut(*at) {
                *sum += frames;
            }
        }
    }
}

/// When the frames of a part are due, in s since the start.
#[derive(Clone, Debug)]
pub struct PartTimetables {
    whole: Timetables,
    numbers: Option<Numbers>,
}

impl PartTimetables {
    /// Frames that are due before a time. Times must not decrease.
    pub fn before(&mut self, s: f64) -> f64 {
        let frames = self.whole.before(s);
        self.numbers.map_or(frames, |numbers| numbers.before(frames.round() as u64) as f64)
    }

    /// Draws what is due until a time that does not decrease, if chance decides.
    #[inline]
    pub fn draw_until(&mut self, s: f64) {
        self.whole.draw_until(s);
    }

    /// Changes the load of the whole plan from a time on.
    pub fn change(&mut self, s: f64, change: Change) {
        self.whole.change(s, change);
    }

    /// The frames of the part if the load ends at this time; `None` if chance decides.
    pub fn until(&self, s: f64) -> Option<u64> {
        let frames = self.whole.until(s)?;
        Some(self.numbers.map_or(frames, |numbers| numbers.before(frames)))
    }
}

/// The schedule of the part of one stream. Frames are counted among those of the core.
pub(super) struct OnePart {
    numbers: Numbers,
    table: Timetable,
    /// The same table, read a little later.
    behind: Timetable,
    /// When the frames that were sent were due.
    due: Timetable,
    /// When the next frame is due.
    next: Timetable,
    next_s: f64,
    lateness: Lateness,
    most: u64,
    known: u64,
    sent: u64,
    given_up: u64,
}

impl OnePart {
    /// For a part of a plan with one stream.
    pub(super) fn of(plan: &SendPlan, numbers: Numbers) -> Option<Self> {
        let [stream] = &plan.streams[..] else { return None };
        let table = stream.timetable();
        Some(Self {
            numbers,
            behind: table.clone(),
            due: table.clone(),
            next: table.clone(),
            next_s: 0.0,
            lateness: Lateness::default(),
            most: if numbers.is_empty() { 0 } else { stream.count.map_or(u64::MAX, |it| numbers.before(it)) },
            table,
            known: u64::MAX,
            sent: 0,
            given_up: 0,
        })
    }
}

impl Schedule for OnePart {
    fn waiting(&mut self, now: Duration) -> (u64, u64) {
        let due = self.numbers.before(self.table.due(now.as_secs_f64()));
        let lately = now
            .checked_sub(LATE)
            .map_or(due, |then| due - self.numbers.before(self.behind.due(then.as_secs_f64())));
        if due != self.known {
            self.known = due;
            self.next_s = self.next.time_of(self.numbers.nth(due));
        }
        ((due - self.sent - self.given_up).min(self.left()), lately)
    }
    fn give_up(&mut self, frames: u64) {
        self.given_up += frames;
    }
    #[inline]
    fn next(&mut self) -> usize {
        0
    }
    #[inline]
    fn number(&self, sequence: u64) -> u64 {
        self.numbers.nth(sequence)
    }
    fn sent(&mut self, frames: usize, began: Duration, now: Duration, gaps: Option<&mut Recorder>) {
        let first = self.sent + self.given_up;
        self.sent += frames as u64;
        let Some(gaps) = gaps else { return };
        for frame in first..first + frames as u64 {
            let due_s = self.due.time_of(self.numbers.nth(frame));
            self.lateness.note(due_s, began);
            gaps.record_due(now.as_nanos() as u64, (due_s * 1e9) as u64);
        }
    }
    fn left(&self) -> u64 {
        self.most - self.sent
    }
    fn next_s(&self) -> f64 {
        self.next_s
    }
    fn due_before(&mut self, s: f64) -> u64 {
        self.numbers.before(self.table.before(s).ceil() as u64).min(self.most)
    }
    fn change(&mut self, now: Duration, changes: &[Change], length: Option<Duration>) {
        for change in changes {
            // The only stream changes by itself only in a live plan, which is not divided.
            let Change::Load(pps) = *change else { continue };
            for table in [&mut self.table, &mut self.behind, &mut self.due, &mut self.next] {
                table.change(now.as_secs_f64(), pps);
            }
            self.known = u64::MAX;
            let most = length.and_then(|length| self.table.until(length.as_secs_f64()));
            self.most = most.map_or(u64::MAX, |most| self.numbers.before(most)).max(self.sent);
        }
    }
    fn shared_gap_ns(&self) -> Option<f64> {
        self.table.gap_ns()
    }
    fn lateness(&self) -> Lateness {
        self.lateness
    }
}

#[cfg(test)]
mod tests;
