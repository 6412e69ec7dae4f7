//! A port whose frames go into a ring, too.

use crate::capturing::ring::Ring;
use crate::judging::kept::Noted;
use kpps_platform::memory::{BufferPool, PoolBuffer};
use kpps_ports::port::{Counters, Descriptor, Frame, Link, NextPoll, Port, Trouble, Wake};
use std::cell::RefCell;

/// Where the thread of a port puts the frames that it has received and judged. `()` keeps none, at no cost.
pub(crate) trait Tape: Copy {
    /// Whether frames are kept.
    const KEEPS: bool;
    /// A frame was received, with its time in ns since 1970 if the kernel stamps frames, and judged if the
    /// port expects frames. Whether it was answered.
    fn received(self, frame: &[u8], stamp: Option<u64>, judged: Option<Noted>, is_answered: bool);
}

impl Tape for () {
    const KEEPS: bool = false;
    #[inline]
    fn received(self, _: &[u8], _: Option<u64>, _: Option<Noted>, _: bool) {}
}

impl Tape for &RefCell<Ring> {
    const KEEPS: bool = true;
    fn received(self, frame: &[u8], stamp: Option<u64>, judged: Option<Noted>, is_answered: bool) {
        self.borrow_mut().received(frame, stamp, judged, is_answered);
    }
}

/// A port that puts each frame that it sends into a ring. Received frames are added where they are judged.
pub(crate) struct Tapped<'p, P> {
    port: &'p mut P,
    ring: &'p RefCell<Ring>,
}

impl<'p, P: Port> Tapped<'p, P> {
    /// Of this port.
    pub fn new(port: &'p mut P, ring: &'p RefCell<Ring>) -> Self {
        Self { port, ring }
    }
}

impl<P: Port> Wake for Tapped<'_, P> {
    fn next_poll(&self) -> NextPoll {
        self.port.next_poll()
    }
    fn now_ns(&self) -> u64 {
        self.port.now_ns()
    }
    fn fd(&self) -> Option<Descriptor<'_>> {
        self.port.fd()
    }
    fn wants_to_send(&self) -> bool {
        self.port.wants_to_send()
    }
    fn signals_tx_space(&self) -> bool {
        self.port.signals_tx_space()
    }
}

impl<P: Port> Port for Tapped<'_, P> {
    fn receive(
        &mut self,
        budget: usize,
        sink: impl FnMut(Frame) -> Option<PoolBuffer>,
    ) -> Result<usize, Trouble> {
        self.port.receive(budget, sink)
    }
    fn receive_stamped(
        &mut self,
        budget: usize,
        sink: impl FnMut(Frame, Option<u64>) -> Option<PoolBuffer>,
    ) -> Result<usize, Trouble> {
        self.port.receive_stamped(budget, sink)
    }
    fn send(&mut self, frame: Frame) -> Result<(), Frame> {
        self.ring.borrow_mut().sent(frame.as_ref());
        self.port.send(frame).inspect_err(|_| self.ring.borrow_mut().forget_newest())
    }
    fn send_burst(&mut self, frames: &mut impl Iterator<Item = Frame>) -> usize {
        let ring = self.ring;
        self.port.send_burst(&mut frames.inspect(|frame| ring.borrow_mut().sent(frame.as_ref())))
    }
    fn send_again(&mut self, most: usize, mut write: impl FnMut(&mut [u8]) -> u16) -> usize {
        let (ring, mut written) = (self.ring, 0);
        let sent = self.port.send_again(most, |buffer| {
            let bytes = write(buffer);
            written += 1;
            ring.borrow_mut().sent(buffer.get(..bytes.into()).unwrap_or_default());
            bytes
        });
        // The last one may have been written for nothing.
        if written > sent {
            ring.borrow_mut().forget_newest();
        }
        sent
    }
    fn flush(&mut self) -> Result<(), Trouble> {
        self.port.flush()
    }
    fn tx_space(&mut self) -> usize {
        self.port.tx_space()
    }
    fn in_flight(&mut self) -> usize {
        self.port.in_flight()
    }
    fn woken(&mut self) -> Result<(), Trouble> {
        self.port.woken()
    }
    fn maintain(&mut self) -> Result<(), Trouble> {
        self.port.maintain()
    }
    fn counters(&mut self) -> Result<Counters, Trouble> {
        self.port.counters()
    }
    fn frames(&self) -> (u64, u64) {
        self.port.frames()
    }
    fn link(&self) -> Link {
        self.port.link()
    }
    fn refresh_link(&mut self) -> Result<(), Trouble> {
        self.port.refresh_link()
    }
    fn pool(&mut self) -> &mut BufferPool {
        self.port.pool()
    }
}
