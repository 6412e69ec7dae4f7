//! polling(4): the clock polls devices, and adapts how much to the share that is reserved for processes.
//!
//! At each tick of the clock a device may hand up *burst* frames, in polls of at most `each_burst`, between
//! which the protocols have their turn. If polls and protocols of a tick took more than the share that is not
//! reserved for processes, the burst becomes one smaller, otherwise one larger. A tick that comes before the
//! work of the last one is done makes the burst an eighth smaller. To know all this the kernel reads its
//! clock three times for each tick (`microuptime` in `hardclock_device_poll`, `netisr_poll` and
//! `netisr_pollmore` of FreeBSD's `kern_poll.c`).

use super::{Handler, Netdev, Shared};
use crate::cpu::{Function, Level, Machine};
use crate::limits::check;
use serde::Deserialize;
use std::cell::Cell;
use std::rc::Rc;

/// The settings of polling(4).
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Polling {
    /// Frames a device may hand up in a tick at most.
    pub burst_max: u64,
    /// Frames of one poll.
    pub each_burst: u64,
    /// Share of the time that is reserved for processes, in per cent.
    pub user_frac: u64,
    /// Ticks from one check of a device's status to the next.
    pub reg_frac: u64,
    /// Poll whenever the CPU is idle, too.
    pub idle_poll: bool,
    /// Reading the time of day, which is done at each tick of the clock, before a tick's first poll, and
    /// after its last one.
    #[serde(default)]
    pub clock_read_ps: u64,
}

impl Polling {
    pub(super) fn check(&self) -> Result<(), String> {
        check(&[
            ("polling.burst_max", self.burst_max, 1..=10_000),
            ("polling.each_burst", self.each_burst, 1..=10_000),
            ("polling.user_frac", self.user_frac, 1..=99),
            ("polling.reg_frac", self.reg_frac, 1..=100_000),
            ("polling.clock_read_ps", self.clock_read_ps, 0..=100_000_000),
        ])
    }
}

/// The state of polling.
#[derive(Debug)]
pub(super) struct State {
    scheduled: Cell<bool>,
    /// Ticks whose polls are not over.
    pending: Cell<u64>,
    burst: Cell<u64>,
    /// The rest of this tick's burst.
    residual: Cell<u64>,
    tick_began_ps: Cell<u64>,
    until_status: Cell<u64>,
}

impl State {
    /// Polling that has run for long. A kernel begins with bursts of 5 and adds one frame at each tick:
    /// with the default limit of 150 that takes longer than a trial lasts. A burst that is too much loses
    /// one frame at each tick, and an eighth after a tick that was missed, so with a much larger limit a
    /// trial should last a second.
    pub(super) fn new(rules: &Polling) -> Self {
        Self {
            scheduled: Cell::new(false),
            pending: Cell::new(0),
            burst: Cell::new(rules.burst_max),
            residual: Cell::new(0),
            tick_began_ps: Cell::new(0),
            until_status: Cell::new(0),
        }
    }
}

/// A poll to be made.
pub(super) struct Poll {
    pub frames: usize,
    pub check_status: bool,
}

/// Ticks without an end of their polls that count as a stall.
const STALLED: u64 = 100;

impl State {
    /// A tick: whether polls are to begin.
    pub fn clock(&self) -> bool {
        if self.pending.get() > STALLED {
            self.pending.set(0);
        }
        let begin = self.pending.get() == 0;
        if begin {
            self.scheduled.set(true);
        }
        self.pending.set(self.pending.get() + 1);
        begin
    }

    pub fn is_scheduled(&self) -> bool {
        self.scheduled.get()
    }

    /// Whether the next poll is the first of a tick, or the last one was its last.
    pub fn is_between_ticks(&self) -> bool {
        self.residual.get() == 0
    }

    /// The poll that is due now, if one is.
    pub fn begin(&self, now_ps: u64, rules: &Polling) -> Option<Poll> {
        if !self.scheduled.replace(false) {
            return None;
        }
        let mut check_status = false;
        if self.residual.get() == 0 {
            self.tick_began_ps.set(now_ps);
            check_status = self.until_status.get() == 0;
            self.until_status.set(if check_status {
                rules.reg_frac - 1
            } else {
                self.until_status.get() - 1
            });
            self.residual.set(self.burst.get());
        }
        let frames = self.residual.get().min(rules.each_burst);
        self.residual.set(self.residual.get() - frames);
        Some(Poll { frames: frames as usize, check_status })
    }

    /// The protocols have had their turn after a poll.
    pub fn end(&self, now_ps: u64, rules: &Polling, tick_ps: u64) {
        if self.residual.get() > 0 {
            self.scheduled.set(true);
            return;
        }
        let load = (now_ps - self.tick_began_ps.get()) * 100 / tick_ps;
        let burst = self.burst.get();
        self.burst.set(if load > 100 - rules.user_frac {
            burst.saturating_sub(1).max(1)
        } else {
            (burst + 1).min(rules.burst_max)
        });
        self.pending.set(self.pending.get().saturating_sub(1));
        if self.pending.get() > 0 {
            let burst = self.burst.get();
            self.burst.set((burst - burst / 8).max(1));
            self.scheduled.set(true);
        }
    }
}

impl<N: Netdev, H: Handler<N>> Shared<N, H> {
    /// Has each driver polled for at most `frames`; returns whether one found anything.
    pub(super) fn poll(&self, machine: &Machine, frames: usize, check_status: bool) -> bool {
        let mut found = false;
        for (index, port) in self.ports.iter().enumerate() {
            found |= machine.without_interrupts(|| {
                machine.spend_steps(Function::Softirq, self.params.poll_cycles);
                if check_status {
                    port.device.check_status();
                }
                let polled = port.device.poll(frames, &mut |frame| self.input(machine, index, frame));
                self.go_on(machine, index);
                polled.frames > 0 || polled.completed > 0
            });
        }
        found
    }
}

/// `idle_poll`: polling by an idle CPU.
pub(super) fn spawn_idle_poll<N: Netdev, H: Handler<N>>(machine: &Machine, shared: &Rc<Shared<N, H>>) {
    let shared = Rc::clone(shared);
    machine.spawn(Level::Thread, move |machine| {
        loop {
            let began = machine.now_ps();
            if !shared.poll(machine, shared.params.polling.each_burst as usize, false) {
                machine.count_idle_poll(began);
            }
            machine.yield_cpu();
        }
    });
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    const RULES: Polling = Polling {
        burst_max: 150,
        each_burst: 5,
        user_frac: 50,
        reg_frac: 20,
        idle_poll: false,
        clock_read_ps: 0,
    };

    /// One tick whose polls take `each_ps` apiece: the frames that it may have handed up, and whether it read
    /// the status.
    fn tick(state: &State, at_ps: u64, each_ps: u64) -> (usize, bool) {
        assert!(state.clock());
        let (mut frames, mut status, mut now) = (0, false, at_ps);
        while let Some(poll) = state.begin(now, &RULES) {
            (frames, status) = (frames + poll.frames, status || poll.check_status);
            assert!(poll.frames <= 5);
            now += each_ps;
            state.end(now, &RULES, 1_000_000_000);
        }
        (frames, status)
    }

    #[test]
    fn the_burst_leaves_processes_their_share_and_grows_to_its_limit() {
        let state = State::new(&RULES);
        let bursts: Vec<_> = (0..200).map(|k| tick(&state, k * 1_000_000_000, 0)).collect();
        assert_eq!((bursts[0].0, bursts[199].0), (150, 150));
        let looked = bursts.iter().filter(|(_, status)| *status).count();
        assert_eq!(looked, 10, "once in reg_frac ticks");
        // With 50 us for five frames half of a tick is ten polls: the burst settles there.
        let bursts: Vec<_> = (200..500).map(|k| tick(&state, k * 1_000_000_000, 50_000_000).0).collect();
        assert!(bursts[200..].iter().all(|burst| (49..=52).contains(burst)), "{:?}", &bursts[200..]);
        let bursts: Vec<_> = (500..700).map(|k| tick(&state, k * 1_000_000_000, 0).0).collect();
        assert_eq!((bursts[11] - bursts[10], bursts[199]), (1, 150), "{bursts:?}");
    }

    #[test]
    fn a_tick_that_is_missed_costs_an_eighth() {
        let state = State::new(&RULES);
        for k in 0..200 {
            tick(&state, k * 1_000_000_000, 0);
        }
        assert!(state.clock());
        assert!(!state.clock(), "the last tick's polls are not over");
        for _ in 0..30 {
            state.begin(0, &RULES).unwrap();
            state.end(0, &RULES, 1_000_000_000);
        }
        assert!(state.is_scheduled(), "the missed tick's polls follow at once");
        assert_eq!(state.burst.get(), 150 - 150 / 8);
    }
}
