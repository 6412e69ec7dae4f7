//! The end of frames: arrived frames are compared with the sent ones, counted and timed.

use kpps_frames::{Tag, tag};
use kpps_host::NS;
use kpps_host::wire::Receiver;
use kpps_methods::{Latency, LatestOfFlow, StandingQueue, TrialError};
use std::cell::{Cell, RefCell};
use std::rc::Rc;

/// Number and latency of the frames that were sent after `from_ps` and until `to_ps`.
pub(crate) struct Measured {
    from_ps: u64,
    to_ps: u64,
    pub delivered: u64,
    pub latency: Latency,
    queue: StandingQueue,
    /// The latest frame of each flow. Flows take turns.
    latest: Vec<LatestOfFlow>,
}

impl Default for Measured {
    fn default() -> Self {
        Self::between(0, 0)
    }
}

impl Measured {
    pub fn between(from_ps: u64, to_ps: u64) -> Self {
        let queue = StandingQueue::over((to_ps - from_ps) / NS);
        Self {
            from_ps,
            to_ps,
            delivered: 0,
            latency: Latency::default(),
            queue,
            latest: vec![LatestOfFlow::default()],
        }
    }

    /// The same for frames of this number of flows, which take turns.
    pub fn of_flows(self, flows: usize) -> Self {
        Self { latest: vec![LatestOfFlow::default(); flows.max(1)], ..self }
    }

    /// By how many frames queues grew in the measured time; `None` if too few arrived for an estimate.
    pub fn queue_growth(&self) -> Option<u64> {
        self.queue.growth(self.delivered)
    }

    /// A frame has arrived at `now_ps`; its tag says when it was sent.
    #[inline]
    pub fn note(&mut self, now_ps: u64, frame: &[u8]) {
        if let Some(tag) = tag::read(frame) {
            self.note_tag(now_ps, tag);
        }
    }

    /// A frame with this tag has arrived at `now_ps`.
    #[inline]
    fn note_tag(&mut self, now_ps: u64, tag: Tag) {
        let sent_ps = tag.sent_ps_near(now_ps);
        if sent_ps > self.from_ps && sent_ps <= self.to_ps {
            self.delivered += 1;
            let took_ns = now_ps.saturating_sub(sent_ps) / NS;
            self.latency.record(took_ns);
            self.queue.record((sent_ps - self.from_ps) / NS, took_ns);
            let flows = self.latest.len() as u64;
            let flow = if flows == 1 { 0 } else { tag.sequence % flows };
            if let Some(latest) = self.latest.get_mut(flow as usize) {
                latest.take(tag.sequence, flows, took_ns, &mut self.latency.variation);
            }
        }
    }
}

/// The frames that have left a card and were checked.
#[derive(Clone, Default)]
pub(crate) struct Checked {
    frames: Rc<Cell<u64>>,
    bytes: Rc<Cell<u64>>,
    wrong: Rc<Cell<u64>>,
}

impl Checked {
    /// Right frames so far.
    pub fn frames(&self) -> u64 {
        self.frames.get()
    }
    /// Their bytes with FCS.
    pub fn bytes(&self) -> u64 {
        self.bytes.get()
    }
    /// Fails if a wrong frame has come.
    pub fn check(&self) -> Result<(), TrialError> {
        check(self.wrong.get())
    }
    /// The far end of a wire: counts frames here, as right if `is_right` says so.
    pub fn receiver(&self, is_right: impl Fn(&[u8]) -> bool + 'static) -> Box<dyn Receiver> {
        Box::new(FarEnd { checked: self.clone(), is_right })
    }
}

struct FarEnd<F> {
    checked: Checked,
    is_right: F,
}

impl<F: Fn(&[u8]) -> bool> Receiver for FarEnd<F> {
    fn receive(&mut self, _now_ps: u64, frame: &[u8]) {
        let Checked { frames, bytes, wrong } = &self.checked;
        if (self.is_right)(frame) {
            frames.set(frames.get() + 1);
            bytes.set(bytes.get() + frame.len() as u64 + 4);
        } else {
            wrong.set(wrong.get() + 1);
        }
    }
}

/// The frames that have arrived at one port of a tester.
#[derive(Default)]
pub(crate) struct TesterPort {
    frames: Cell<u64>,
    wrong: Cell<u64>,
    overtaken: Cell<u64>,
    measured: RefCell<Measured>,
}

impl TesterPort {
    /// Measures frames that were sent after `from_ps` and until `to_ps`, of this number of flows that take
    /// turns.
    pub fn measure(&self, from_ps: u64, to_ps: u64, flows: usize) {
        self.measured.replace(Measured::between(from_ps, to_ps).of_flows(flows));
    }
    /// Frames so far.
    pub fn frames(&self) -> u64 {
        self.frames.get()
    }
    /// Of these, measured ones.
    pub fn measured(&self) -> u64 {
        self.measured.borrow().delivered
    }
    /// By how many frames queues on the way to here grew in the measured time; `None` if too few arrived.
    pub fn queue_growth(&self) -> Option<u64> {
        self.measured.borrow().queue_growth()
    }
    /// Frames that should not have come out here, or not like this.
    pub fn wrong(&self) -> u64 {
        self.wrong.get()
    }
    /// Frames that came later than ones sent after them.
    pub fn overtaken(&self) -> u64 {
        self.overtaken.get()
    }
    /// Adds the latencies of measured frames to `latency`.
    pub fn add_latency(&self, latency: &mut Latency) {
        latency.add(&self.measured.borrow().latency);
    }
}

/// The far end of a tester's wire: expects the frames of one stream, each once.
pub(crate) struct TesterReceiver {
    port: Rc<TesterPort>,
    /// The frames that must come out, without their tags: flows that take turns.
    flows: Vec<Vec<u8>>,
    stream: u16,
    /// One bit for each sequence number that has come.
    seen: Vec<u64>,
    next: u64,
}

impl TesterReceiver {
    /// Expects frames of `stream`: copies of `flows` in turn, with tags of their own.
    pub fn new(port: Rc<TesterPort>, flows: Vec<Vec<u8>>, stream: u16) -> Self {
        Self { port, flows, stream, seen: Vec::new(), next: 0 }
    }

    /// Whether this frame was sent, comes out as it must, and has not come before.
    fn is_right(&mut self, frame: &[u8], tag: Tag) -> bool {
        let turn = tag.sequence as usize % self.flows.len().max(1);
        let Some(right) = self.flows.get_mut(turn) else { return false };
        if tag.stream != self.stream || tag::write(right, tag).is_err() || frame != right {
            return false;
        }
        let (word, bit) = ((tag.sequence / 64) as usize, 1 << (tag.sequence % 64));
        if self.seen.len() <= word {
            self.seen.resize(word + 1024, 0);
        }
        let first = self.seen[word] & bit == 0;
        self.seen[word] |= bit;
        first
    }
}

impl Receiver for TesterReceiver {
    fn receive(&mut self, now_ps: u64, frame: &[u8]) {
        let port = Rc::clone(&self.port);
        port.frames.set(port.frames.get() + 1);
        let Some(tag) = tag::read(frame).filter(|&tag| self.is_right(frame, tag)) else {
            port.wrong.set(port.wrong.get() + 1);
            return;
        };
        if tag.sequence < self.next {
            port.overtaken.set(port.overtaken.get() + 1);
        } else {
            self.next = tag.sequence + 1;
        }
        port.measured.borrow_mut().note_tag(now_ps, tag);
    }
}

/// Fails if `wrong` frames came out: whatever duplicates, misdirects or changes frames is broken.
pub(crate) fn check(wrong: u64) -> Result<(), TrialError> {
    if wrong == 0 {
        return Ok(());
    }
    Err(TrialError::Testbed(format!("{wrong} frames came out changed, twice, or where they should not")))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use kpps_frames::Size;
    use kpps_frames::build::{Flow, udp_test};

    #[test]
    fn wrong_frames_are_seen() {
        let template = udp_test(&Flow::default(), Size::MIN).unwrap();
        let port = Rc::new(TesterPort::default());
        let mut far = TesterReceiver::new(Rc::clone(&port), vec![template.clone()], 1);
        port.measure(0, 100, 1);
        let frame = |stream, sequence, sent_ps| {
            let mut frame = template.clone();
            tag::write(&mut frame, Tag { stream, sequence, sent_ps }).unwrap();
            frame
        };
        far.receive(50, &frame(1, 0, 10));
        far.receive(60, &frame(1, 2, 30));
        far.receive(70, &frame(1, 1, 20));
        far.receive(80, &frame(1, 500, 101));
        assert_eq!((port.frames(), port.measured(), port.wrong(), port.overtaken()), (4, 3, 0, 1));
        far.receive(90, &frame(1, 1, 20));
        far.receive(90, &frame(0, 7, 20));
        let mut changed = frame(1, 8, 20);
        changed[20] ^= 1;
        far.receive(90, &changed);
        far.receive(90, &template);
        far.receive(90, &frame(1, 9, 20)[..59]);
        assert_eq!((port.frames(), port.measured(), port.wrong()), (9, 3, 5));
        assert!(check(port.wrong()).is_err() && check(0).is_ok());
    }
}
