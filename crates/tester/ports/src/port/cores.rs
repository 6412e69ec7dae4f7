//! A port of an interface, or of a device of DPDK, for several cores: a port of its own for each core.
//!
//! The kernel, or the card, gives all frames of a flow to the same core's port. Between trials one thread
//! uses them all as one port: it receives from each in turn, and sends through the first. In a trial each
//! core has [its own](CoresPort::parts).

use super::any_of::AnyOf;
use super::{Counters, Descriptor, Frame, Link, NextPoll, Port, Trouble, Wake};
use kpps_platform::memory::{BufferPool, PoolBuffer};
use std::io;

/// The ports of several cores on one interface or device.
#[derive(Debug)]
pub struct CoresPort<P> {
    /// The port of the first core, which also sends between trials.
    first: P,
    others: Vec<P>,
    /// The port that is polled next.
    turn: usize,
    any: AnyOf,
}

/// The ports of all cores.
fn each<'p, P>(first: &'p mut P, others: &'p mut [P]) -> impl Iterator<Item = &'p mut P> {
    std::iter::once(first).chain(others)
}

impl<P: Port> CoresPort<P> {
    /// Of the ports of each core.
    ///
    /// # Errors
    /// Errors of the system; `InvalidInput` without a port.
    pub fn of(ports: Vec<P>) -> io::Result<Self> {
        let any = AnyOf::of(ports.iter().filter_map(Wake::fd))?;
        let mut ports = ports.into_iter();
        let first = ports.next().ok_or(io::ErrorKind::InvalidInput)?;
        Ok(Self { first, others: ports.collect(), turn: 0, any })
    }

    /// The port of the first core.
    pub fn first(&self) -> &P {
        &self.first
    }

    /// The number of cores.
    pub fn cores(&self) -> usize {
        1 + self.others.len()
    }

    /// The port of each core.
    pub fn each(&self) -> impl Iterator<Item = &P> {
        std::iter::once(&self.first).chain(&self.others)
    }

    /// The ports of each core.
    pub fn parts(&mut self) -> impl Iterator<Item = &mut P> {
        each(&mut self.first, &mut self.others)
    }

    /// The port of a core; the first one if there is no such core.
    fn part(&mut self, core: usize) -> &mut P {
        match core.checked_sub(1).and_then(|other| self.others.get_mut(other)) {
            Some(other) => other,
            None => &mut self.first,
        }
    }
}

impl<P: Port> Wake for CoresPort<P> {
    fn next_poll(&self) -> NextPoll {
        let others = self.others.iter().map(Wake::next_poll);
        others.fold(self.first.next_poll(), NextPoll::min)
    }
    fn now_ns(&self) -> u64 {
        self.first.now_ns()
    }
    fn fd(&self) -> Option<Descriptor<'_>> {
        Some(self.any.fd(self.wants_to_send()))
    }
    fn wants_to_send(&self) -> bool {
        self.first.wants_to_send()
    }
    fn signals_tx_space(&self) -> bool {
        self.first.signals_tx_space()
    }
}

impl<P: Port> Port for CoresPort<P> {
    fn receive(
        &mut self,
        budget: usize,
        mut sink: impl FnMut(Frame) -> Option<PoolBuffer>,
    ) -> Result<usize, Trouble> {
        self.receive_stamped(budget, |frame, _| sink(frame))
    }

    fn receive_stamped(
        &mut self,
        budget: usize,
        mut sink: impl FnMut(Frame, Option<u64>) -> Option<PoolBuffer>,
    ) -> Result<usize, Trouble> {
        let mut taken = 0;
        for _ in 0..self.cores() {
            let core = self.turn;
            self.turn = (core + 1) % self.cores();
            taken += self.part(core).receive_stamped(budget - taken, &mut sink)?;
            if taken == budget {
                break;
            }
        }
        Ok(taken)
    }

    fn send(&mut self, frame: Frame) -> Result<(), Frame> {
        self.first.send(frame)
    }

    fn flush(&mut self) -> Result<(), Trouble> {
        self.first.flush()
    }

    fn tx_space(&mut self) -> usize {
        self.first.tx_space()
    }

    fn in_flight(&mut self) -> usize {
        self.parts().map(Port::in_flight).sum()
    }

    fn woken(&mut self) -> Result<(), Trouble> {
        self.parts().try_for_each(Port::woken)
    }

    fn maintain(&mut self) -> Result<(), Trouble> {
        self.parts().try_for_each(Port::maintain)
    }

    fn counters(&mut self) -> Result<Counters, Trouble> {
        let mut sum: Option<Counters> = None;
        for part in self.parts() {
            let counters = part.counters()?;
            sum = Some(sum.map_or(counters, |sum| sum.and(&counters)));
        }
        Ok(sum.unwrap_or_default())
    }

    fn frames(&self) -> (u64, u64) {
        let others = self.others.iter().map(Port::frames);
        others.fold(self.first.frames(), |sum, frames| (sum.0 + frames.0, sum.1 + frames.1))
    }

    fn link(&self) -> Link {
        self.first.link()
    }

    fn refresh_link(&mut self) -> Result<(), Trouble> {
        self.parts().try_for_each(Port::refresh_link)
    }

    fn pool(&mut self) -> &mut BufferPool {
        self.first.pool()
    }
}
