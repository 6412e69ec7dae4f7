//! A tester's port: what comes out of the wire, compared with what was sent.

use kpps_frames::tag;
use kpps_machine::NS;
use kpps_machine::wire::Receiver;
use kpps_measure::{Latency, TrialError};
use std::cell::{Cell, RefCell};
use std::rc::Rc;

/// What has come out at one port.
#[derive(Default)]
pub(crate) struct Port {
    from_ps: Cell<u64>,
    to_ps: Cell<u64>,
    frames: Cell<u64>,
    measured: Cell<u64>,
    wrong: Cell<u64>,
    overtaken: Cell<u64>,
    latency: RefCell<Latency>,
}

impl Port {
    /// Measures frames that were sent after `from_ps` and until `to_ps`.
    pub fn measure(&self, from_ps: u64, to_ps: u64) {
        self.from_ps.set(from_ps);
        self.to_ps.set(to_ps);
    }
    /// Frames so far.
    pub fn frames(&self) -> u64 {
        self.frames.get()
    }
    /// Of these, measured ones.
    pub fn measured(&self) -> u64 {
        self.measured.get()
    }
    /// Frames that should not have come out here, or not so.
    pub fn wrong(&self) -> u64 {
        self.wrong.get()
    }
    /// Frames that came later than ones sent after them.
    pub fn overtaken(&self) -> u64 {
        self.overtaken.get()
    }
    /// Adds the latencies of measured frames.
    pub fn add_latency(&self, to: &mut Latency) {
        to.add(&self.latency.borrow());
    }
}

/// The far end of a wire.
pub(crate) struct Far {
    port: Rc<Port>,
    /// What is to come out, but for the tag: flows that take turns.
    flows: Vec<Vec<u8>>,
    stream: u16,
    /// One bit for each sequence number seen: no frame comes twice.
    seen: Vec<u64>,
    next: u32,
}

impl Far {
    /// Hears the frames of `stream`, copies of these in turn with tags of their own.
    pub fn new(port: Rc<Port>, flows: Vec<Vec<u8>>, stream: u16) -> Self {
        Self { port, flows, stream, seen: Vec::new(), next: 0 }
    }

    /// Whether this is a frame that was sent, as it must come out, and has not come before.
    fn is_right(&mut self, frame: &[u8], tag: kpps_frames::Tag) -> bool {
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

impl Receiver for Far {
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
        if tag.sent_ps > port.from_ps.get() && tag.sent_ps <= port.to_ps.get() {
            port.measured.set(port.measured.get() + 1);
            port.latency.borrow_mut().record(now_ps.saturating_sub(tag.sent_ps) / NS);
        }
    }
}

/// What doubles, misdirects or changes frames, but as it has to, is broken.
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
    use kpps_frames::build::{Flow, udp_test};
    use kpps_frames::{Size, Tag};

    #[test]
    fn wrong_frames_are_seen() {
        let template = udp_test(&Flow::default(), Size::MIN).unwrap();
        let port = Rc::new(Port::default());
        let mut far = Far::new(Rc::clone(&port), vec![template.clone()], 1);
        port.measure(0, 100);
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
