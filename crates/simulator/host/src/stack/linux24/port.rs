//! A device with its transmit queue.

use super::{Attach, Params};
use crate::cpu::{Function, Lock, Machine};
use crate::host::Steps;
use crate::stack::{Netdev, Service};
use std::cell::Cell;
use std::collections::VecDeque;

/// Where the frames of a port are, and where they were lost.
///
/// For received frames: `from_driver = dropped_backlog + in_backlog + in_hand + ended` + frames that the
/// handler sent on. For sent frames: `to_queue = dropped_queue + in_queue + to_card`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Frames the driver handed up.
    pub from_driver: u64,
    /// Dropped by `netif_rx`: the backlog was full.
    pub dropped_backlog: u64,
    /// On the backlog now.
    pub in_backlog: u64,
    /// Dropped before a queue of the handler's own, which only other stacks have.
    pub dropped_app_queue: u64,
    /// In that queue now.
    pub in_app_queue: u64,
    /// Between driver and handler now.
    pub in_hand: u64,
    /// Consumed by the handler.
    pub ended: u64,
    /// Frames to leave by this port.
    pub to_queue: u64,
    /// Dropped: the transmit queue was full.
    pub dropped_queue: u64,
    /// In the transmit queue now, including the frame that is on its way to the driver.
    pub in_queue: u64,
    /// Given to the driver, which took them.
    pub to_card: u64,
}

/// The state of a transmit queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stall {
    /// Whether it is stopped.
    pub stopped: bool,
    /// When the driver last took a frame, in picoseconds.
    pub last_sent_ps: u64,
    /// The longest time that it was stopped without a frame sent and then went on, in picoseconds.
    pub longest_ps: u64,
    /// How often it was stopped.
    pub stops: u64,
}

pub(super) struct Port<N: Netdev> {
    pub(super) device: N,
    pub(super) slot: usize,
    pub(super) service: Service,
    pub(super) cpu: usize,
    queue: Lock<VecDeque<N::Frame>>,
    stall: Cell<Stall>,
    tally: Cell<Tally>,
}

impl<N: Netdev> Port<N> {
    pub(super) fn new(attach: Attach<N>, params: &Params) -> Self {
        let Attach { device, slot, service, cpu } = attach;
        let queue = Lock::new(VecDeque::with_capacity(params.transmit_queue + 1), params.queue_lines);
        Self { device, slot, service, cpu, queue, stall: Cell::default(), tally: Cell::default() }
    }

    pub(super) fn tally(&self) -> Tally {
        self.tally.get()
    }

    #[inline]
    pub(super) fn count(&self, change: impl FnOnce(&mut Tally)) {
        let mut tally = self.tally.get();
        change(&mut tally);
        self.tally.set(tally);
    }

    pub(super) fn stall(&self) -> Stall {
        self.stall.get()
    }

    /// The driver has taken a frame.
    pub(super) fn sent(&self, now_ps: u64) {
        self.stall.set(Stall { last_sent_ps: now_ps, ..self.stall.get() });
        self.count(|t| t.to_card += 1);
    }

    /// Puts a frame at the end of the queue; gives it back if that is full.
    pub(super) fn enqueue(&self, machine: &Machine, frame: N::Frame, limit: usize) -> Option<N::Frame> {
        let refused = self.queue.with(machine, |queue| {
            if queue.len() >= limit {
                return Some(frame);
            }
            queue.push_back(frame);
            None
        });
        let (dropped, queued) = if refused.is_some() { (1, 0) } else { (0, 1) };
        self.count(|t| {
            t.to_queue += 1;
            t.dropped_queue += dropped;
            t.in_queue += queued;
        });
        refused
    }

    /// `qdisc_run`: gives frames to the driver until there is none, or it takes none.
    pub(super) fn run_queue(&self, machine: &Machine, transmit: Steps) {
        while !self.stall.get().stopped {
            let Some(frame) = self.queue.with(machine, VecDeque::pop_front) else { return };
            machine.spend_steps(Function::Transmit, transmit);
            match self.device.forward(frame) {
                Ok(()) => {
                    self.sent(machine.now_ps());
                    self.count(|t| t.in_queue -= 1);
                }
                Err(frame) => {
                    self.queue.with(machine, |queue| queue.push_front(frame));
                    let stall = self.stall.get();
                    self.stall.set(Stall { stopped: true, stops: stall.stops + 1, ..stall });
                    // Another CPU may have completed frames meanwhile, and would not wake this queue.
                    if machine.cpus() > 1 && self.device.has_tx_space() {
                        self.wake(machine.now_ps());
                    }
                }
            }
        }
    }

    /// Whether the queue is stopped although the device could send.
    pub(super) fn may_go_on(&self) -> bool {
        self.stall.get().stopped && self.device.has_tx_space()
    }

    /// `netif_wake_queue`, if the queue is stopped although the device could send. True: the queue must be
    /// run.
    pub(super) fn wakes(&self, now_ps: u64) -> bool {
        let wakes = self.may_go_on();
        if wakes {
            self.wake(now_ps);
        }
        wakes
    }

    fn wake(&self, now_ps: u64) {
        let stall = self.stall.get();
        let longest_ps = stall.longest_ps.max(now_ps.saturating_sub(stall.last_sent_ps));
        self.stall.set(Stall { stopped: false, longest_ps, ..stall });
    }
}
