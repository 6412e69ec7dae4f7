//! A stream that several cores judge. Each core judges the frames that come to it as a stream of its own; in
//! the end the records are put together, as if one judge had seen all frames.
//!
//! All frames of a flow come to one core, so each core finds the frames of its flows that are out of order. A
//! frame that came to two cores is a duplicate; its latency counts on both. Frames are lost if they came to
//! no core and were sent ([`SentNumbers`]). The times around a loss are those of the frames before and after
//! it by their numbers, even if these came late.

use super::{FlowTally, Losses, Lost, SendTimes, SentNumbers, SequenceGap, Shared, StreamArrivals, Unread};

/// Losses have no times if a larger share of the numbers than this was not sent: the sender's cores did not
/// keep step, and frames with neighbouring numbers were not sent one after the other.
const MOST_UNSENT: f64 = 0.01;

impl StreamArrivals {
    /// The same stream, beside others of the same stream on other cores; with room for this number of times.
    pub fn beside_others(mut self, times: usize) -> Self {
        self.shared = Some(Box::new(Shared {
            times: SendTimes::new(times.min(self.seen.room() as usize)),
            is_unknown: false,
            sent: SentNumbers::default(),
            unsent: 0,
            losses: None,
            last_gap_ps: None,
        }));
        self
    }

    /// Adds the arrivals of the same stream on another core.
    pub fn add(&mut self, mut other: Self) {
        for stream in [&mut *self, &mut other] {
            stream.note_highest();
        }
        if self.seen.highest() < other.seen.highest() {
            self.highest_ps = other.highest_ps;
        }
        let mut again = Vec::new();
        let is_known = self.seen.add(&other.seen, |number| again.push(number));
        for number in &again {
            self.forget_copy(*number, &mut other);
        }
        self.distinct += other.distinct - again.len() as u64;
        self.duplicated += other.duplicated + again.len() as u64;
        self.first_ps = self.first_ps.into_iter().chain(other.first_ps).min();
        let arrivals = self.arrivals_ns.into_iter().chain(other.arrivals_ns);
        self.arrivals_ns = arrivals.reduce(|one, more| [one[0].min(more[0]), one[1].max(more[1])]);
        for (flow, more) in self.flows.iter_mut().zip(&other.flows) {
            *flow = FlowTally {
                next: flow.next.max(more.next),
                received: flow.received + more.received,
                reordered: flow.reordered + more.reordered,
                ..flow.and(more)
            };
        }
        for (size, more) in self.sizes.iter_mut().zip(&other.sizes) {
            *size += more;
        }
        self.damaged += other.damaged;
        self.doubtful.append(&mut other.doubtful);
        self.add_changes(&other);
        for Unread { addresses, nameless, tagless } in other.unread {
            if let Some(unread) = self.unread_of(addresses) {
                unread.nameless += nameless;
                unread.tagless += tagless;
            }
        }
        self.retagged.0 += other.retagged.0;
        if self.retagged.1.is_empty() {
            self.retagged.1 = other.retagged.1;
        }
        self.fragments += other.fragments;
        if let (Some(latency), Some(more)) = (&mut self.latency, &other.latency) {
            latency.add(more);
        }
        if let (Some(shared), Some(more)) = (&mut self.shared, other.shared) {
            shared.times.add(more.times);
            shared.is_unknown |= !is_known || more.is_unknown;
        }
    }

    /// Notes when the frame with the highest number was sent.
    fn note_highest(&mut self) {
        if let (Some(shared), Some(highest)) = (&mut self.shared, self.seen.highest()) {
            shared.times.note(highest, self.highest_ps);
        }
    }

    /// A frame that came to both cores is one frame: the copy on the other core, or here if that one is
    /// damaged and the other is not, no longer counts as a frame.
    fn forget_copy(&mut self, number: u64, other: &mut Self) {
        let is_doubtful_here_only =
            self.doubtful.contains_key(&number) && !other.doubtful.contains_key(&number);
        let of = if is_doubtful_here_only { self } else { other };
        match of.doubtful.remove(&number) {
            Some(Some(doubt)) => {
                let known = of.changes.iter_mut().find(|(change, _)| *change == doubt);
                known.into_iter().for_each(|(_, frames)| *frames = frames.saturating_sub(1));
            }
            Some(None) => of.damaged = of.damaged.saturating_sub(1),
            None => of.changes.iter_mut().take(1).for_each(|(_, frames)| *frames = frames.saturating_sub(1)),
        }
        let Some((flow, size)) = of.templates.at(number).map(|frame| (frame.flow, frame.size)) else {
            return;
        };
        if let Some(flow) = of.flows.get_mut(flow as usize) {
            flow.received = flow.received.saturating_sub(1);
        }
        if let Some(size) = of.sizes.get_mut(size) {
            *size = size.saturating_sub(1);
        }
    }

    /// Adds the changes of headers of another core. The most frequent one comes first.
    fn add_changes(&mut self, other: &Self) {
        let first = |stream: &Self| stream.changes.first().map(|(change, _)| *change);
        let (mine, theirs) = (first(self), first(other));
        for (change, frames) in &other.changes {
            match self.changes.iter_mut().find(|(known, _)| known == change) {
                Some((_, sum)) => *sum += frames,
                None => self.changes.push((*change, *frames)),
            }
        }
        self.changes.sort_by_key(|(_, frames)| std::cmp::Reverse(*frames));
        if first(self) != mine && first(self) == theirs {
            self.usual = other.usual;
        }
    }

    /// Numbers before the last one that arrived that were not sent, if several cores judge the stream.
    pub fn unsent(&self) -> u64 {
        self.shared.as_ref().map_or(0, |shared| shared.unsent)
    }

    /// Notes the numbers that were sent by the cores of the sender, or by one of them, once all arrivals are
    /// put together. `by_cores`: the frames of each core, if the stream is divided among them.
    pub fn settle_sent(&mut self, sent: u64, by_cores: &[u64]) {
        self.note_highest();
        let Some(mut shared) = self.shared.take() else { return };
        let one = [sent];
        let by_cores = if by_cores.is_empty() { &one[..] } else { by_cores };
        shared.sent = SentNumbers::of(self.templates.flows(), by_cores);
        let unsent = shared.sent.unsent_before(shared.sent.end());
        if !shared.is_unknown && unsent as f64 <= MOST_UNSENT * shared.sent.all() as f64 {
            for number in shared.sent.unsent() {
                if self.seen.needs_room(number) {
                    self.seen.make_room(number);
                }
                self.seen.mark(number);
            }
            self.find_losses(&mut shared);
        }
        shared.unsent = shared.sent.unsent_before(self.seen.end());
        self.shared = Some(shared);
    }

    /// Finds the frames that were sent and came to no core.
    fn find_losses(&self, shared: &mut Shared) {
        let sent_end = shared.sent.end();
        let (mut end, mut last) = (0, None);
        loop {
            let first = self.seen.next(end, sent_end, false);
            if first >= sent_end {
                break;
            }
            end = self.seen.next(first, sent_end, true);
            let lost = Lost {
                first,
                frames: end - first,
                gap: SequenceGap { first, end, ..SequenceGap::default() },
            };
            let only = Losses { first: lost, longest: lost, frames: lost.frames };
            shared.losses = Some(shared.losses.map_or(only, |losses| losses.and(lost)));
            last = Some(end);
        }
        // Times are those around these frames.
        let times = &shared.times;
        let timed = |lost: Lost| {
            let SequenceGap { first, end, .. } = lost.gap;
            let before_ps = first.checked_sub(1).and_then(|before| times.until(before));
            let behind_ps = (end < sent_end).then(|| times.from(end)).flatten();
            Lost { gap: SequenceGap { first, end, before_ps, behind_ps }, ..lost }
        };
        shared.losses = shared.losses.map(|losses| Losses {
            first: timed(losses.first),
            longest: timed(losses.longest),
            ..losses
        });
        shared.last_gap_ps =
            last.and_then(|end| if end < sent_end { times.from(end) } else { Some(u64::MAX) });
    }

    /// The number of sent frames of each size.
    pub(super) fn sent_of_sizes(&self, sent: u64) -> Vec<u64> {
        let Some(shared) = self.shared.as_ref().filter(|_| self.sizes.len() > 1) else {
            return self.templates.of_sizes(sent);
        };
        let mut sizes = self.templates.of_sizes(shared.sent.end());
        for number in shared.sent.unsent() {
            let size = self.templates.at(number).and_then(|frame| sizes.get_mut(frame.size));
            size.into_iter().for_each(|frames| *frames = frames.saturating_sub(1));
        }
        sizes
    }
}
