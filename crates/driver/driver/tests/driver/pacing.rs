//! Self-pacing, with a clock that the test sets: how long and how often it polls, the CPU time that it leaves
//! to others, and how it sleeps.

use crate::common::*;
use kpps_datasheet::{
    Chip,
    bit::{cause, rdtr},
    desc::{Tx, tx_cmd},
    reg,
};
use kpps_driver::{Config, TxQueue, config::*, service::*};
use kpps_platform::{BufferSource, wrap::Counts};
use std::rc::Rc;

/// The time of a register read.
const READ_NS: u64 = 1_000;
/// The cost of an interrupt: that of its register accesses four times.
const INTERRUPT_NS: u64 = 4 * READ_NS;
/// The time of a poll that finds nothing, and the pause after it: eight times as much.
const POLL_NS: u64 = 200;
const PAUSE_NS: u64 = 8 * POLL_NS;
/// The shortest idle window, in which polls take the time of an interrupt, and the longest.
const SHORTEST_NS: u64 = 9 * INTERRUPT_NS;
const CEILING_NS: u64 = 16 * INTERRUPT_NS;
/// All configured interrupts, and those without the interrupts of sent frames.
const ALL: u32 = 0xDD;
const RECEIVE: u32 = ALL & !cause::TXDW;

/// A driver that asks for a report of each frame, the caller of its service, and their clock.
struct Host<'a> {
    nic: Rc<Nic>,
    pool: Pool,
    dev: Dev<'a>,
    service: SelfPacing,
    /// The service expects its next poll at this time, if at a set time.
    due_ns: Option<u64>,
    /// The time of a poll, and the additional time of each received frame.
    poll_ns: u64,
    frame_ns: u64,
}

/// A transmit queue behind a lock that takes time to get.
struct Locked<'a, 'b>(&'a mut TxQueue<NicPlatform<'b>, Pool>, &'a Nic, u64);

impl<'b> Exclusive<TxQueue<NicPlatform<'b>, Pool>> for Locked<'_, 'b> {
    fn with<R>(&mut self, look: impl FnOnce(&mut TxQueue<NicPlatform<'b>, Pool>) -> R) -> R {
        self.1.now_ns.set(self.1.now_ns.get() + std::mem::take(&mut self.2));
        look(self.0)
    }
}

fn each_reported() -> Config {
    Config { completion: Completion { report_every: 1, delay: Delay::Never }, ..Config::kpps() }
}

impl<'a> Host<'a> {
    /// A host that an interrupt has just woken.
    fn new(counts: &'a Counts, config: Config, service: SelfPacing) -> Self {
        let (nic, pool) = (Nic::new(Chip::I82546eb), Pool::new(600, 2048));
        let dev = start(&nic, counts, config, &pool);
        dev.control.unmask();
        nic.read_ns.set(READ_NS);
        let mut host = Self { nic, pool, dev, service, due_ns: None, poll_ns: POLL_NS, frame_ns: 0 };
        host.interrupt();
        host
    }

    fn now(&self) -> u64 {
        self.nic.now_ns.get()
    }

    fn pass(&self, ns: u64) {
        self.nic.now_ns.set(self.now() + ns);
    }

    fn window(&self) -> u64 {
        self.service.pacing_ns().0
    }

    fn pause(&self) -> u64 {
        self.service.pacing_ns().1
    }

    /// The time that the service has used: for frames, and in idle polls.
    fn spent(&self) -> (u64, u64) {
        let Spent { useful_ns, overhead_ns, idle_ns } = self.service.spent();
        (useful_ns + overhead_ns, idle_ns)
    }

    fn interrupt(&mut self) {
        self.nic.set(reg::ICR, cause::RXT0);
        assert!(self.service.interrupt(&mut self.dev.control).unwrap());
        assert_eq!(self.nic.get(reg::IMS), 0, "masked until the service sleeps");
        self.due_ns = None;
    }

    /// A poll that takes up to 64 frames.
    fn poll(&mut self) -> (Polled, NextPoll) {
        self.poll_late(0)
    }

    /// A poll that the service should find to be so late. All its time is accounted for, as useful or idle.
    fn poll_late(&mut self, late_ns: u64) -> (Polled, NextPoll) {
        let (start, before) = (self.now(), self.spent());
        let (nic, d) = (&*self.nic, &mut self.dev);
        let tx = Locked(&mut d.tx, nic, self.poll_ns);
        let (polled, next) = self
            .service
            .poll(&mut d.control, &mut d.rx, tx, 64, |r| {
                nic.now_ns.set(nic.now_ns.get() + self.frame_ns);
                Some(r.buffer)
            })
            .unwrap();
        let took_ns = late_ns + self.now() - start;
        let (useful_ns, idle_ns) = (self.spent().0 - before.0, self.spent().1 - before.1);
        let found = polled.received + polled.reclaimed > 0;
        assert_eq!((useful_ns, idle_ns), if found { (took_ns, 0) } else { (0, took_ns) }, "{polled:?}");
        assert_eq!(polled.done, next == NextPoll::Asleep);
        self.due_ns = match next {
            NextPoll::At(at) | NextPoll::Yield(at) => Some(at),
            NextPoll::Now | NextPoll::Asleep => None,
        };
        assert!(self.due_ns.is_none_or(|at| at >= self.now()), "in the past");
        (polled, next)
    }

    /// Polls after `frames` frames have arrived.
    fn poll_with(&mut self, frames: usize) -> NextPoll {
        for _ in 0..frames {
            assert!(self.nic.receive_frame(60));
        }
        let (polled, next) = self.poll();
        assert_eq!(polled.received, frames);
        next
    }

    /// Waits until the next poll is due, and polls.
    fn poll_when_due(&mut self) -> (Polled, NextPoll) {
        self.nic.now_ns.set(self.due_ns.unwrap_or(0).max(self.now()));
        self.poll()
    }

    /// Polls whenever a poll is due, for `ns` nanoseconds.
    fn poll_for(&mut self, ns: u64) {
        let end = self.now() + ns;
        while self.due_ns.is_none_or(|at| at < end) {
            self.poll_when_due();
        }
        self.nic.now_ns.set(end);
    }

    /// Polls whenever it is due, until the service sleeps.
    fn fall_asleep(&mut self) -> (Polled, NextPoll) {
        loop {
            let polled = self.poll_when_due();
            if self.service.is_asleep() {
                return polled;
            }
        }
    }

    /// Queues frames to send.
    fn send(&mut self, frames: u32) {
        for _ in 0..frames {
            assert!(self.dev.tx.send(self.pool.take().unwrap(), 60).is_ok());
        }
        self.dev.tx.flush();
    }
}

#[test]
fn the_idle_window_doubles_after_a_short_sleep_and_shrinks_by_an_eighth_after_a_long_one() {
    let counts = Counts::new();
    let mut host = Host::new(&counts, Config::kpps(), SelfPacing::new(32, 0));
    assert_eq!(host.window(), SHORTEST_NS);
    let eighth = CEILING_NS / 8;
    for (is_short, window_ns) in [
        (true, CEILING_NS),
        (false, CEILING_NS - eighth),
        (false, CEILING_NS - eighth - (CEILING_NS - eighth) / 8),
        (true, CEILING_NS),
    ] {
        let (woken, window) = (host.now(), host.window());
        host.fall_asleep();
        let polled_ns = host.now() - woken;
        assert!((window..window + PAUSE_NS + 2 * POLL_NS + READ_NS).contains(&polled_ns), "{polled_ns}");
        host.pass(if is_short { window - 1 } else { window });
        host.interrupt();
        assert_eq!(host.window(), window_ns);
    }
}

#[test]
fn work_that_comes_while_it_falls_asleep_keeps_the_driver_awake() {
    for sends in [false, true] {
        let counts = Counts::new();
        let mut host = Host::new(&counts, each_reported(), SelfPacing::new(32, 0));
        // A window as long as the gap between frames would read ICR for each. So it is clearly longer or,
        // where that would be too long, clearly shorter.
        for window_ns in [2 * SHORTEST_NS, CEILING_NS, 2 * CEILING_NS, CEILING_NS] {
            if sends {
                host.send(1);
                host.nic.sends_while_read.set(true);
            } else {
                host.nic.due_ns.borrow_mut().push_back(host.now());
            }
            let polled = loop {
                let (polled, _) = host.poll_when_due();
                if polled.received + polled.reclaimed > 0 {
                    break polled;
                }
            };
            assert_eq!((polled.received, polled.reclaimed), if sends { (0, 1) } else { (1, 0) });
            assert!(!host.service.is_asleep());
            assert_eq!(host.window(), window_ns);
        }
    }
}

#[test]
fn buffers_that_come_back_with_the_last_poll_are_counted() {
    for is_sending in [false, true] {
        let counts = Counts::new();
        let service = SelfPacing::new(32, 0).sleeping_while_sending();
        let mut host = Host::new(&counts, each_reported(), service);
        host.send(1);
        host.poll_for(SHORTEST_NS / 2);
        host.poll_with(1);
        if is_sending {
            host.poll_for(SHORTEST_NS / 2);
            host.send(1);
        }
        host.nic.sends_while_read.set(true);
        let (polled, next) = host.fall_asleep();
        assert_eq!(polled.reclaimed, if is_sending { 2 } else { 1 });
        assert_eq!(next == NextPoll::Asleep, !is_sending);
    }
}

#[test]
fn a_poll_of_a_sleeping_service_does_nothing() {
    let counts = Counts::new();
    let mut host = Host::new(&counts, Config::kpps(), SelfPacing::new(32, 0));
    host.fall_asleep();
    host.nic.receive_frame(60);
    let (accesses, now) = (counts.reads() + counts.writes(), host.now());
    assert_eq!(host.poll(), (Polled { done: true, ..Polled::default() }, NextPoll::Asleep));
    assert_eq!((counts.reads() + counts.writes(), host.now()), (accesses, now));
}

/// The cost of a poll is an eighth of the pause. A pause as long as an interrupt adds no more latency than
/// one.
#[test]
fn few_frames_lengthen_the_pause_up_to_an_interrupt_and_many_shorten_it() {
    const SHORTER_NS: u64 = INTERRUPT_NS / 2;
    let counts = Counts::new();
    let mut host = Host::new(&counts, Config::kpps(), SelfPacing::new(32, 0));
    for _ in 0..3 {
        let (_, next) = host.poll_when_due();
        assert_eq!(next, NextPoll::At(host.now() + PAUSE_NS), "idle polls leave it as it is");
    }
    host.poll_with(7);
    let quarter_more = PAUSE_NS + PAUSE_NS / 4;
    assert!((quarter_more..quarter_more + 2).contains(&host.pause()), "{}", host.pause());
    for _ in 0..10 {
        host.poll_with(1);
    }
    assert_eq!(host.pause(), INTERRUPT_NS);
    for (frames, pause_ns) in
        [(16, SHORTER_NS), (8, SHORTER_NS), (15, SHORTER_NS), (16, PAUSE_NS), (31, PAUSE_NS)]
    {
        let next = host.poll_with(frames);
        assert_eq!((next, host.pause()), (NextPoll::At(host.now() + pause_ns), pause_ns), "{frames} frames");
    }
    assert_eq!(host.poll_with(32), NextPoll::Now, "a whole burst: more frames wait");
}

/// Then it is not known how long such a poll takes.
#[test]
fn few_frames_lengthen_the_pause_before_any_poll_was_idle() {
    let counts = Counts::new();
    let mut host = Host::new(&counts, Config::kpps(), SelfPacing::new(32, 0));
    for _ in 0..50 {
        host.poll_with(1);
    }
    assert_eq!(host.pause(), INTERRUPT_NS);
}

#[test]
fn no_pause_fills_more_than_a_quarter_of_the_ring() {
    const LINE_RATE_FRAME_NS: u64 = 672;
    let counts = Counts::new();
    let mut host = Host::new(&counts, Config { rx_ring: 16, ..Config::kpps() }, SelfPacing::new(32, 0));
    for _ in 0..50 {
        host.poll_with(1);
    }
    assert_eq!(host.pause(), 4 * LINE_RATE_FRAME_NS);
}

#[test]
fn others_get_the_reserve_for_polls_and_interrupts() {
    for reserve in [0, 20, 50, 75] {
        let counts = Counts::new();
        let mut host = Host::new(&counts, Config::kpps(), SelfPacing::new(32, reserve));
        host.frame_ns = 1_000;
        for used_ns in [INTERRUPT_NS + 10 * host.frame_ns + POLL_NS, 10 * host.frame_ns + POLL_NS] {
            let next = host.poll_with(10);
            let owed_ns = used_ns * u64::from(reserve) / (100 - u64::from(reserve));
            let left_ns = host.due_ns.unwrap() - host.now();
            // A sixty-fourth more, for the time that the clock readings miss.
            assert!((owed_ns..=owed_ns + owed_ns / 50).contains(&left_ns), "{left_ns} of {owed_ns}");
            // An unused reserve costs nothing.
            assert_eq!(matches!(next, NextPoll::Yield(_)), reserve > 0, "{next:?}");
            host.pass(left_ns);
        }
        let (_, next) = host.poll();
        assert_eq!(next, NextPoll::At(host.now() + PAUSE_NS), "the pause is time enough");
    }
}

/// The time to get to a poll counts. It is measured by how late the poll begins. Where that cannot be, the
/// average counts.
#[test]
fn late_polls_are_accounted_for_but_not_what_others_do_before_them() {
    let counts = Counts::new();
    let mut host = Host::new(&counts, Config::kpps(), SelfPacing::new(32, 0));
    host.poll_with(1);
    for (starts_ns, late_ns) in
        [(800, 800), (0, 0), (1_000_000, 4 * INTERRUPT_NS), (-1, 4 * INTERRUPT_NS / 8), (0, 0)]
    {
        host.nic.now_ns.set(host.due_ns.unwrap().checked_add_signed(starts_ns).unwrap());
        host.nic.receive_frame(60);
        host.poll_late(late_ns);
    }
}

/// A measurement may contain an interruption: it can be too high but not too low.
#[test]
fn the_cost_of_an_interrupt_rises_slowly_and_falls_at_once() {
    let counts = Counts::new();
    let mut host = Host::new(&counts, Config::kpps(), SelfPacing::new(32, 0));
    for (read_ns, cost_ns) in
        [(3 * READ_NS, INTERRUPT_NS + 2 * INTERRUPT_NS / 8), (READ_NS / 2, INTERRUPT_NS / 2)]
    {
        host.fall_asleep();
        host.nic.read_ns.set(read_ns);
        let before = host.spent().0;
        host.interrupt();
        assert_eq!(host.spent().0 - before, cost_ns);
    }
}

#[test]
fn without_a_delay_for_polling_rdtr_stays() {
    let counts = Counts::new();
    let mut host = Host::new(&counts, Config::kpps(), SelfPacing::new(32, 0));
    host.poll_with(8);
    host.fall_asleep();
    assert_eq!(host.nic.get(reg::RDTR) & rdtr::FPD, 0);
}

/// Buffers that come back are work for a driver that cannot sleep meanwhile.
#[test]
fn sent_frames_keep_only_a_driver_awake_that_cannot_sleep_while_sending() {
    for sleeps in [false, true] {
        let counts = Counts::new();
        let service = SelfPacing::new(32, 0);
        let service = if sleeps { service.sleeping_while_sending() } else { service };
        let mut host = Host::new(&counts, each_reported(), service);
        let woken = host.now();
        host.send(1);
        host.poll_for(SHORTEST_NS / 2);
        host.nic.transmit(1);
        let since = if sleeps { woken } else { host.now() };
        host.fall_asleep();
        let polled_ns = host.now() - since;
        let latest = SHORTEST_NS + 2 * PAUSE_NS + 2 * POLL_NS + READ_NS;
        assert!((SHORTEST_NS..latest).contains(&polled_ns), "{polled_ns} ns, sleeps: {sleeps}");
    }
}

/// With frames outstanding, or if one was sent within the last idle window.
#[test]
fn while_sending_it_sleeps_with_receive_interrupts_only() {
    for (sleeps, is_outstanding, is_recent, expected) in [
        (true, true, true, RECEIVE),
        (true, true, false, RECEIVE),
        (true, false, true, RECEIVE),
        (true, false, false, ALL),
        (false, true, true, ALL),
    ] {
        let counts = Counts::new();
        let service = SelfPacing::new(32, 0);
        let service = if sleeps { service.sleeping_while_sending() } else { service };
        let mut host = Host::new(&counts, each_reported(), service);
        let send = |host: &mut Host<'_>| {
            host.send(1);
            host.nic.transmit(if is_outstanding { 0 } else { 1 });
        };
        if !is_recent {
            send(&mut host);
            host.poll_for(SHORTEST_NS / 2);
        }
        host.poll_with(1);
        if is_recent {
            host.poll_for(SHORTEST_NS / 2);
            send(&mut host);
        }
        let (polled, next) = host.fall_asleep();
        assert_eq!(polled.received, 0);
        assert_eq!(host.nic.get(reg::IMS), expected);
        let wake = NextPoll::At(host.now() + INTERRUPT_NS);
        assert_eq!(next, if expected == ALL { NextPoll::Asleep } else { wake });
    }
}

/// A host that sleeps, with `frames` sent frames outstanding.
fn asleep_while_sending(counts: &Counts, config: Config, frames: u32) -> Host<'_> {
    let mut host = Host::new(counts, config, SelfPacing::new(32, 0).sleeping_while_sending());
    host.send(frames);
    host.fall_asleep();
    assert_eq!(host.nic.get(reg::IMS), RECEIVE);
    host
}

#[test]
fn a_frame_received_while_sending_starts_polling() {
    let counts = Counts::new();
    // The poll comes before the interrupt.
    let mut host = asleep_while_sending(&counts, each_reported(), 1);
    host.nic.receive_frame(60);
    let (polled, next) = host.poll_when_due();
    assert_eq!((polled.received, next), (1, NextPoll::Now));
    assert!(!host.service.is_asleep());
    assert_eq!(host.nic.get(reg::IMS), 0);
    // The interrupt comes before the poll.
    host.fall_asleep();
    host.nic.receive_frame(60);
    host.interrupt();
    let (polled, _) = host.poll();
    assert_eq!(polled.received, 1);
    assert!(!host.service.is_asleep());
}

#[test]
fn sleeping_while_sending_ends_when_nothing_was_sent_for_an_idle_window() {
    /// Whether a frame that is sent now asks for a report, so that the driver need not poll for it.
    fn asks(host: &mut Host<'_>) -> bool {
        host.send(1);
        host.nic.transmit(99);
        matches!(host.nic.take_sent().last(), Some(Tx::Legacy(frame)) if frame.cmd & tx_cmd::RS != 0)
    }
    for is_outstanding in [false, true] {
        let counts = Counts::new();
        let mut host = asleep_while_sending(&counts, Config::kpps(), 1);
        host.nic.transmit(99);
        host.send(1);
        host.poll_when_due();
        let end = host.now() + host.window();
        // Without another frame, a poll asks for a report of this one.
        host.poll();
        host.nic.transmit(if is_outstanding { 0 } else { 99 });
        host.nic.now_ns.set(end - POLL_NS - 1);
        let (polled, next) = host.poll();
        assert_eq!(polled.reclaimed, if is_outstanding { 0 } else { 1 });
        assert!(matches!(next, NextPoll::At(_)), "{next:?}: still sending");
        host.nic.now_ns.set(end - POLL_NS);
        let (_, next) = host.poll();
        assert_eq!(next == NextPoll::Asleep, !is_outstanding);
        assert_eq!(host.nic.get(reg::IMS), if is_outstanding { RECEIVE } else { ALL });
        assert!(host.service.is_asleep());
        assert_eq!(asks(&mut host), !is_outstanding, "only without polls");
    }
}

/// After three quarters of the time in which the device sends a batch of 32, a quarter of a small ring; and a
/// quarter of it later if nothing was sent by then.
#[test]
fn while_sending_it_wakes_up_about_when_the_next_batch_is_sent() {
    // (time passed, frames sent in it, time until the next poll), the time of a batch being an average.
    type Step = (u64, u32, u64);
    let cases: [(u16, &[Step]); 2] = [
        (
            256,
            &[
                (20_000, 0, 20_000 / 4),
                (20_000, 16, 80_000 * 3 / 4),
                (60_000, 32, 75_000 * 3 / 4),
                (20_000, 0, 75_000 / 4),
                (10_000, 32, 63_750 / 4 * 3),
            ],
        ),
        (64, &[(40_000, 16, 40_000 * 3 / 4)]),
    ];
    for (tx_ring, steps) in cases {
        let counts = Counts::new();
        let mut host = asleep_while_sending(&counts, Config { tx_ring, ..each_reported() }, 16);
        host.poll_ns = 0;
        for &(passed_ns, sent, sleep_ns) in steps {
            host.pass(passed_ns);
            host.send(32);
            host.nic.transmit(sent);
            let (polled, next) = host.poll();
            assert_eq!(polled.reclaimed, sent as usize);
            assert_eq!(next, NextPoll::At(host.now() + sleep_ns), "{sent} frames in {passed_ns} ns");
        }
    }
}
