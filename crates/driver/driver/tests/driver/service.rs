//! The services: which registers they access, when they continue and when they stop.

use crate::common::*;
use kpps_datasheet::{Chip, bit::cause, bit::rdtr, reg};
use kpps_driver::{Config, config::*, service::*};
use kpps_platform::{BufferSource, wrap::Counts};

fn stock() -> Config {
    Config {
        rx_ring: 80,
        tx_ring: 80,
        buffers: Buffers::Fresh,
        refill: Refill { when: RefillWhen::EachFrame, group: 1, aligned: false },
        completion: Completion { report_every: 1, delay: Delay::Always },
        ..Config::kpps()
    }
}

#[test]
fn the_interrupt_loop_repeats_while_icr_shows_a_cause() {
    for (arrival, turns, reads) in [(false, 1, 2), (true, 2, 3)] {
        let (nic, counts, pool) = (Nic::new(Chip::I82543gc), Counts::new(), Pool::new(500, 2048));
        let mut dev = start(&nic, &counts, stock(), &pool);
        let mut service = InterruptLoop::new(5, true, Again::Cause);
        dev.control.unmask();
        nic.set(reg::ICR, cause::RXT0);
        nic.receive_frame(60);
        let before = counts.reads();
        let handled = service
            .interrupt(&mut dev.control, &mut dev.rx, &mut dev.tx, |r| {
                assert_eq!(nic.get(reg::IMS), 0, "masked meanwhile");
                if arrival {
                    nic.set(reg::ICR, cause::LSC);
                }
                Some(r.buffer)
            })
            .unwrap();
        assert_eq!((handled.turns, counts.reads() - before, handled.received), (turns, reads, 1));
        assert_eq!(handled.causes.link(), arrival);
        assert_eq!(nic.get(reg::IMS), 0xDD);
    }
}

#[test]
fn the_interrupt_loop_is_bounded_under_a_flood() {
    for (again, reads) in [(Again::Cause, 5), (Again::Work, 1)] {
        let (nic, counts, pool) = (Nic::new(Chip::I82543gc), Counts::new(), Pool::new(500, 2048));
        let mut dev = start(&nic, &counts, stock(), &pool);
        let mut service = InterruptLoop::new(5, true, again);
        nic.set(reg::ICR, cause::RXT0);
        nic.receive_frame(60);
        let before = counts.reads();
        let handled = service
            .interrupt(&mut dev.control, &mut dev.rx, &mut dev.tx, |r| {
                nic.set(reg::ICR, cause::RXT0);
                nic.receive_frame(60);
                Some(r.buffer)
            })
            .unwrap();
        assert_eq!((handled.turns, handled.received), (5, 400), "five times the ring");
        assert_eq!(counts.reads() - before, reads);
    }
}

#[test]
fn the_interrupt_loop_repeats_while_it_finds_work() {
    let (nic, counts, mut pool) = (Nic::new(Chip::I82543gc), Counts::new(), Pool::new(500, 2048));
    let mut dev = start(&nic, &counts, stock(), &pool);
    let mut service = InterruptLoop::new(5, true, Again::Work);
    for (frames, sent, turns) in [(0, 0, 1), (3, 0, 2), (0, 3, 2)] {
        for _ in 0..frames {
            nic.receive_frame(60);
        }
        for _ in 0..sent {
            dev.tx.send(pool.take().unwrap(), 60).unwrap();
        }
        dev.tx.flush();
        nic.transmit(99);
        nic.set(reg::ICR, cause::RXT0);
        let handled =
            service.interrupt(&mut dev.control, &mut dev.rx, &mut dev.tx, |r| Some(r.buffer)).unwrap();
        assert_eq!((handled.received, handled.reclaimed, handled.turns), (frames, sent, turns));
    }
}

#[test]
fn an_interrupt_of_another_device_costs_one_read() {
    let (nic, counts, pool) = (Nic::new(Chip::I82543gc), Counts::new(), Pool::new(500, 2048));
    let mut dev = start(&nic, &counts, stock(), &pool);
    let before = (counts.reads(), counts.writes());
    let handled = InterruptLoop::new(5, true, Again::Cause)
        .interrupt(&mut dev.control, &mut dev.rx, &mut dev.tx, |r| Some(r.buffer))
        .unwrap();
    assert!(!handled.causes.any());
    assert!(!Napi::new(64, NapiExit::BothIdle, true).interrupt(&mut dev.control).unwrap());
    assert!(!SelfPacing::new(32, 0).interrupt(&mut dev.control).unwrap());
    assert_eq!((counts.reads() - before.0, counts.writes() - before.1), (3, 0));
}

#[test]
fn napi_exit_rules() {
    // (frames waiting, frames sent before, rule, done)
    let cases = [
        (0, 0, NapiExit::BothIdle, true),
        (5, 0, NapiExit::BothIdle, true),
        (64, 0, NapiExit::BothIdle, false),
        (0, 3, NapiExit::BothIdle, false),
        (64, 0, NapiExit::EitherIdle, true),
        (5, 3, NapiExit::EitherIdle, true),
        (64, 3, NapiExit::EitherIdle, false),
        (0, 0, NapiExit::ReceiveIdle, true),
        (5, 3, NapiExit::ReceiveIdle, true),
        (64, 0, NapiExit::ReceiveIdle, false),
        (5, 0, NapiExit::ReceiveFirst, false),
        (0, 3, NapiExit::ReceiveFirst, false),
        (0, 0, NapiExit::ReceiveFirst, true),
    ];
    for (frames, sent, exit, done) in cases {
        for mask in [true, false] {
            let (nic, counts, pool) = (Nic::new(Chip::I82546eb), Counts::new(), Pool::new(500, 2048));
            let mut dev = start(&nic, &counts, stock(), &pool);
            let mut service = Napi::new(64, exit, mask);
            dev.control.unmask();
            for _ in 0..frames {
                nic.receive_frame(60);
            }
            for _ in 0..sent {
                dev.tx.send(pool.clone().take().unwrap(), 60).unwrap();
            }
            dev.tx.flush();
            nic.transmit(99);
            nic.set(reg::ICR, cause::RXT0);
            assert!(service.interrupt(&mut dev.control).unwrap());
            nic.set(reg::ICR, cause::RXT0);
            assert!(!service.interrupt(&mut dev.control).unwrap(), "scheduled already");
            assert_eq!(nic.get(reg::IMS), if mask { 0 } else { 0xDD });
            let reads = counts.reads();
            let polled = service.poll(&mut dev.control, &mut dev.rx, &mut dev.tx, 300, |r| Some(r.buffer));
            assert_eq!(polled.done, done, "{frames} {sent} {exit:?}");
            assert_eq!(polled.received, frames);
            let cleans = exit != NapiExit::ReceiveFirst || frames == 0;
            assert_eq!(polled.reclaimed, if cleans { sent } else { 0 });
            assert_eq!(nic.get(reg::IMS), if mask && !done { 0 } else { 0xDD });
            assert_eq!(counts.reads(), reads, "polling reads no register");
            assert_eq!(service.is_scheduled(), !done);
        }
    }
}

#[test]
fn a_budget_below_the_weight_binds() {
    let (nic, counts, pool) = (Nic::new(Chip::I82546eb), Counts::new(), Pool::new(500, 2048));
    let mut dev = start(&nic, &counts, stock(), &pool);
    let mut service = Napi::new(64, NapiExit::BothIdle, true);
    for _ in 0..30 {
        nic.receive_frame(60);
    }
    nic.set(reg::ICR, cause::RXT0);
    service.interrupt(&mut dev.control).unwrap();
    let polled = service.poll(&mut dev.control, &mut dev.rx, &mut dev.tx, 10, |r| Some(r.buffer));
    assert_eq!((polled.received, polled.done), (10, false));
}

#[test]
fn dynamic_throttling_follows_and_writes_only_changes() {
    let (nic, counts, pool) = (Nic::new(Chip::I82546eb), Counts::new(), Pool::new(500, 2048));
    let mut config = stock();
    config.service = Service::Napi { weight: 64, exit: NapiExit::BothIdle, mask: true };
    config.moderation.itr = Itr::Dynamic;
    let mut dev = start(&nic, &counts, config, &pool);
    let mut service = Napi::new(64, NapiExit::BothIdle, true);
    let itr = |rate: u32| 1_000_000_000 / 256 / rate;
    assert_eq!(nic.get(reg::ITR), itr(20_000));
    let mut round = |frames: u16, bytes: u16| {
        for _ in 0..frames {
            nic.receive_frame(bytes);
        }
        nic.set(reg::ICR, cause::RXT0);
        service.interrupt(&mut dev.control).unwrap();
        let before = counts.writes();
        service.poll(&mut dev.control, &mut dev.rx, &mut dev.tx, 300, |r| Some(r.buffer));
        // One tail write for each frame here, and one write of IMS.
        (nic.get(reg::ITR), counts.writes() - before - u64::from(frames) - 1)
    };
    assert_eq!(round(40, 1500), (itr(4_000), 1));
    assert_eq!(round(20, 1500), (itr(4_000), 0));
    assert_eq!(round(1, 60), (itr(9_000), 1), "the rate rises in steps");
}

/// The ratio of received and sent frames is that of two seconds, in which polling may never end.
#[test]
fn endless_polling_counts_for_the_throttling_by_ratio_only() {
    for (itr, rate) in [(Itr::Ratio, 2_000), (Itr::Dynamic, 20_000)] {
        let (nic, counts, mut pool) = (Nic::new(Chip::I82546eb), Counts::new(), Pool::new(500, 2048));
        let mut config = stock();
        config.service = Service::Napi { weight: 8, exit: NapiExit::BothIdle, mask: true };
        config.moderation.itr = itr;
        let mut dev = start(&nic, &counts, config, &pool);
        let mut service = Napi::new(8, NapiExit::BothIdle, true);
        nic.set(reg::ICR, cause::RXT0);
        service.interrupt(&mut dev.control).unwrap();
        for _ in 0..10 {
            for _ in 0..8 {
                nic.receive_frame(1500);
                dev.tx.send(pool.take().unwrap(), 1500).unwrap();
            }
            dev.tx.flush();
            nic.transmit(99);
            let polled = service.poll(&mut dev.control, &mut dev.rx, &mut dev.tx, 300, |r| Some(r.buffer));
            assert!(!polled.done);
        }
        dev.control.watchdog(nic.now_ns.get(), dev.tx.progress()).unwrap();
        assert_eq!(nic.get(reg::ITR), 1_000_000_000 / 256 / rate, "{itr:?}");
    }
}

/// A host around the self-pacing service: time, arrivals, interrupts.
struct World<'a> {
    nic: std::rc::Rc<Nic>,
    dev: Dev<'a>,
    service: SelfPacing,
    interrupts: u64,
    polls: u64,
    received: u64,
    worst_wait_ns: u64,
}

impl World<'_> {
    /// Runs frames that arrive `gap_ns` apart. A poll costs 300 ns, and 500 ns more for each frame.
    fn run(&mut self, frames: u64, gap_ns: u64) {
        let nic = self.nic.clone();
        let start = nic.now_ns.get();
        let mut next_poll = (!self.service.is_asleep()).then_some(start);
        nic.due_ns.replace((0..frames).map(|i| start + i * gap_ns).collect());
        let end = start + frames * gap_ns + 1_000_000;
        while nic.now_ns.get() < end {
            nic.arrive();
            let now = nic.now_ns.get();
            if nic.get(reg::ICR) & nic.get(reg::IMS) != 0 {
                nic.now_ns.set(nic.now_ns.get() + 2_000);
                self.interrupts += 1;
                if self.service.interrupt(&mut self.dev.control).unwrap() {
                    next_poll = Some(nic.now_ns.get());
                }
                continue;
            }
            if next_poll.is_some_and(|at| at <= now) {
                nic.now_ns.set(now + 300);
                self.polls += 1;
                let worst = &mut self.worst_wait_ns;
                let d = &mut self.dev;
                let (polled, next) = self
                    .service
                    .poll(&mut d.control, &mut d.rx, &mut d.tx, 64, |r| {
                        nic.now_ns.set(nic.now_ns.get() + 500);
                        *worst =
                            (*worst).max(nic.now_ns.get() - nic.waiting_ns.borrow_mut().pop_front().unwrap());
                        Some(r.buffer)
                    })
                    .unwrap();
                self.received += polled.received as u64;
                next_poll = match next {
                    NextPoll::Now => Some(nic.now_ns.get()),
                    NextPoll::At(at) | NextPoll::Yield(at) => Some(at),
                    NextPoll::Asleep => None,
                };
                continue;
            }
            let arrival = nic.due_ns.borrow().front().copied().unwrap_or(end);
            nic.now_ns.set(arrival.min(next_poll.unwrap_or(end)).max(now + 1));
        }
    }
}

#[test]
fn self_pacing_polls_under_load_sleeps_when_idle_and_does_not_thrash() {
    let (nic, counts, pool) = (Nic::new(Chip::I82546eb), Counts::new(), Pool::new(500, 2048));
    nic.read_ns.set(900);
    let config = Config { rx_ring: 256, ..Config::kpps() };
    let dev = start(&nic, &counts, config, &pool);
    dev.control.unmask();
    nic.set(reg::ICR, 0);
    let service = SelfPacing::new(32, 0);
    let mut world =
        World { nic: nic.clone(), dev, service, interrupts: 0, polls: 0, received: 0, worst_wait_ns: 0 };
    let mut phase = |frames, gap_ns| {
        (world.interrupts, world.polls, world.received, world.worst_wait_ns) = (0, 0, 0, 0);
        world.run(frames, gap_ns);
        assert!(world.service.is_asleep(), "idle at the end");
        assert_eq!(nic.get(reg::IMS), 0xDD);
        assert_eq!(world.received, frames, "nothing is lost");
        (world.interrupts, world.polls, world.worst_wait_ns)
    };
    // 1 Mpps: few interrupts, and a latency of microseconds.
    let (interrupts, polls, worst) = phase(20_000, 1_000);
    assert!(interrupts <= 20, "{interrupts}");
    assert!(polls < 15_000, "{polls}");
    assert!(worst < 40_000, "{worst}");
    // 100 kpps: the idle window exceeds the gap after a few interrupts.
    let (interrupts, _, worst) = phase(2_000, 10_000);
    assert!(interrupts < 60, "{interrupts}");
    assert!(worst < 20_000, "{worst}");
    // 1 kpps: one interrupt for each frame, none spurious, and no polling in between.
    let (interrupts, polls, worst) = phase(200, 1_000_000);
    assert!((200..=202).contains(&interrupts), "{interrupts}");
    assert!(polls < 200 * 40, "{polls}");
    assert!(worst < 10_000, "{worst}");
}

/// The device decides how long a register read takes: at 200 us an interrupt seems to cost more than the
/// longest sleep while sending.
#[test]
fn self_pacing_bears_slow_reads_while_sending() {
    for read_ns in [900, 200_000, 50_000_000] {
        let (nic, counts, mut pool) = (Nic::new(Chip::I82546eb), Counts::new(), Pool::new(500, 2048));
        nic.read_ns.set(read_ns);
        let mut dev = start(&nic, &counts, Config::kpps(), &pool);
        let mut service = SelfPacing::new(32, 0).sleeping_while_sending();
        nic.set(reg::ICR, cause::RXT0);
        assert!(service.interrupt(&mut dev.control).unwrap());
        let (mut slept, mut awake) = (0, 0);
        for _ in 0..200 {
            assert!(dev.tx.send(pool.take().unwrap(), 60).is_ok());
            dev.tx.flush();
            nic.transmit(1);
            let (_, next) =
                service.poll(&mut dev.control, &mut dev.rx, &mut dev.tx, 32, |r| Some(r.buffer)).unwrap();
            slept += u32::from(service.is_asleep());
            awake += u32::from(!service.is_asleep());
            let now_ns = nic.now_ns.get();
            match next {
                NextPoll::At(at_ns) | NextPoll::Yield(at_ns) => {
                    nic.now_ns.set(at_ns.max(now_ns + 10 * read_ns))
                }
                NextPoll::Now => nic.now_ns.set(now_ns + 100),
                NextPoll::Asleep => break,
            }
        }
        assert!(slept > 10 && awake > 0, "asleep {slept}, awake {awake} with reads of {read_ns} ns");
    }
}

/// An idle window about as long as the gap between frames must not read ICR for each frame.
#[test]
fn self_pacing_reads_registers_for_interrupts_only() {
    const FRAMES: u64 = 2_000;
    for read_ns in [300, 900] {
        let gaps = std::iter::successors(Some(700), |gap| Some(gap + gap / 40)).take_while(|g| *g < 200_000);
        for gap_ns in gaps {
            let (nic, counts, pool) = (Nic::new(Chip::I82546eb), Counts::new(), Pool::new(500, 2048));
            nic.read_ns.set(read_ns);
            let dev = start(&nic, &counts, Config::kpps(), &pool);
            dev.control.unmask();
            nic.set(reg::ICR, 0);
            let service = SelfPacing::new(32, 0);
            let (nic, before) = (nic.clone(), counts.reads());
            let mut world =
                World { nic, dev, service, interrupts: 0, polls: 0, received: 0, worst_wait_ns: 0 };
            world.run(FRAMES, gap_ns);
            let (reads, interrupts) = (counts.reads() - before, world.interrupts);
            let bound = 3 * interrupts + FRAMES / 50;
            assert!(reads <= bound, "gap {gap_ns} ns: {reads} reads, {interrupts} interrupts");
        }
    }
}

/// RDTR is in units of 1.024 us (SDM 13.4.30). While polling, it gathers descriptors. Before sleeping,
/// waiting ones are written back ahead of the last check (FPD, SDM 3.2.7.1.1). A configured delay stays, and
/// a chip whose timer locks up has none.
#[test]
fn self_pacing_sets_rdtr_while_it_polls() {
    for (chip, configured) in [(Chip::I82546eb, 0), (Chip::I82546eb, 32), (Chip::I82543gc, 0)] {
        let sets_rdtr = chip == Chip::I82546eb && configured == 0;
        let (busy, idle) = if sets_rdtr { (4, rdtr::FPD) } else { (configured, configured) };
        let (nic, counts, pool) = (Nic::new(chip), Counts::new(), Pool::new(500, 2048));
        let mut config = Config::kpps();
        config.moderation.rdtr = configured as u16;
        let mut dev = start(&nic, &counts, config, &pool);
        let mut service = SelfPacing::new(32, 0).with_polling_rdtr(4);
        dev.control.unmask();
        nic.set(reg::ICR, cause::RXT0);
        service.interrupt(&mut dev.control).unwrap();
        let mut poll = |frames| {
            for _ in 0..frames {
                nic.receive_frame(60);
            }
            nic.now_ns.set(nic.now_ns.get() + 1_000_000);
            let before = counts.writes();
            service.poll(&mut dev.control, &mut dev.rx, &mut dev.tx, 64, |r| Some(r.buffer)).unwrap();
            (nic.get(reg::RDTR), counts.writes() - before)
        };
        assert_eq!(poll(1), (configured, 0), "a single frame does not set RDTR");
        let (rdtr, writes) = poll(4);
        assert_eq!(rdtr, busy);
        assert_eq!((poll(4), writes), ((busy, 0), u64::from(sets_rdtr)), "written once");
        assert_eq!(poll(1).0, idle, "single frames end it");
        assert_eq!((poll(4).0, poll(0).0), (busy, idle), "before sleeping");
        assert!(service.is_asleep());
        assert_eq!(nic.get(reg::ICR), 0, "the cause that it raised is read");
    }
}

#[test]
fn self_pacing_leaves_frames_in_the_device_without_a_budget() {
    let (nic, counts, pool) = (Nic::new(Chip::I82546eb), Counts::new(), Pool::new(500, 2048));
    let mut dev = start(&nic, &counts, stock(), &pool);
    let mut service = SelfPacing::new(32, 0);
    nic.set(reg::ICR, cause::RXT0);
    nic.receive_frame(60);
    service.interrupt(&mut dev.control).unwrap();
    for _ in 0..100 {
        nic.now_ns.set(nic.now_ns.get() + 1_000_000);
        let (polled, next) =
            service.poll(&mut dev.control, &mut dev.rx, &mut dev.tx, 0, |r| Some(r.buffer)).unwrap();
        assert_eq!((polled.received, polled.done), (0, false), "frames wait: no sleep");
        assert!(matches!(next, NextPoll::At(_)));
    }
    let (polled, _) =
        service.poll(&mut dev.control, &mut dev.rx, &mut dev.tx, 1, |r| Some(r.buffer)).unwrap();
    assert_eq!(polled.received, 1);
}

#[test]
fn polling_touches_only_tails() {
    let (nic, counts, pool) = (Nic::new(Chip::I82542), Counts::new(), Pool::new(500, 2048));
    let mut dev = start(&nic, &counts, small(), &pool);
    let mut service = Polling::new(8);
    for _ in 0..10 {
        nic.receive_frame(60);
    }
    let before = (counts.reads(), counts.writes());
    for received in [8, 2, 0] {
        let polled = service.poll(&mut dev.rx, &mut dev.tx, 300, |r| Some(r.buffer));
        assert_eq!((polled.received, polled.done), (received, false));
    }
    assert_eq!((counts.reads() - before.0, counts.writes() - before.1), (0, 2));
}

/// A part of a device that others may use while it is not locked.
struct Shared<'a, T>(&'a std::cell::RefCell<T>);

impl<T> Exclusive<T> for Shared<'_, T> {
    fn with<R>(&mut self, look: impl FnOnce(&mut T) -> R) -> R {
        look(&mut self.0.borrow_mut())
    }
}

#[test]
fn while_napi_receives_others_may_send_and_read_causes() {
    for exit in [NapiExit::BothIdle, NapiExit::EitherIdle, NapiExit::ReceiveIdle, NapiExit::ReceiveFirst] {
        let (nic, counts, pool) = (Nic::new(Chip::I82546eb), Counts::new(), Pool::new(500, 2048));
        let mut dev = start(&nic, &counts, stock(), &pool);
        let (control, tx) = (std::cell::RefCell::new(dev.control), std::cell::RefCell::new(dev.tx));
        let mut service = Napi::new(64, exit, false);
        for _ in 0..10 {
            nic.receive_frame(60);
        }
        nic.set(reg::ICR, cause::RXT0);
        service.interrupt(&mut control.borrow_mut()).unwrap();
        let polled = service.poll(Shared(&control), &mut dev.rx, Shared(&tx), 300, |r| {
            control.borrow_mut().causes().unwrap();
            tx.borrow_mut().send(r.buffer, 60).unwrap();
            tx.borrow_mut().flush();
            None
        });
        assert_eq!((polled.received, tx.borrow().counters().frames), (10, 10), "{exit:?}");
    }
}

#[test]
fn unmasking_is_flushed_if_configured() {
    for (flush_unmask, reads) in [(false, 0), (true, 1)] {
        let (nic, counts, pool) = (Nic::new(Chip::I82546eb), Counts::new(), Pool::new(500, 2048));
        let dev = start(&nic, &counts, Config { flush_unmask, ..stock() }, &pool);
        let before = (counts.reads(), counts.writes());
        dev.control.unmask();
        assert_eq!((counts.reads() - before.0, counts.writes() - before.1), (reads, 1));
        assert_eq!(nic.get(reg::IMS), 0xDD);
    }
}

/// One interrupt is enough to learn its cost: later frames at a steady rate are polled.
#[test]
fn self_pacing_learns_the_cost_of_an_interrupt_from_the_first() {
    let (nic, counts, pool) = (Nic::new(Chip::I82546eb), Counts::new(), Pool::new(500, 2048));
    nic.read_ns.set(900);
    let dev = start(&nic, &counts, Config::kpps(), &pool);
    dev.control.unmask();
    nic.set(reg::ICR, 0);
    let service = SelfPacing::new(32, 0);
    let mut world = World { nic, dev, service, interrupts: 0, polls: 0, received: 0, worst_wait_ns: 0 };
    world.run(1, 1_000);
    let (window_ns, _) = world.service.pacing_ns();
    assert!(
        (9 * 3_600..=16 * 3_600).contains(&window_ns),
        "four times a register read, 9 to 16 times: {window_ns}"
    );
    assert_eq!(world.interrupts, 1);
}

/// The times for frames, for the fixed cost of polls and for idle polls add up to the whole.
#[test]
fn self_pacing_accounts_for_its_time() {
    let (nic, counts, pool) = (Nic::new(Chip::I82546eb), Counts::new(), Pool::new(500, 2048));
    nic.read_ns.set(900);
    let dev = start(&nic, &counts, Config::kpps(), &pool);
    dev.control.unmask();
    nic.set(reg::ICR, 0);
    let service = SelfPacing::new(32, 0);
    let mut world = World { nic, dev, service, interrupts: 0, polls: 0, received: 0, worst_wait_ns: 0 };
    let mut useful_of_frame = [10_000, 700].map(|gap_ns| {
        world.run(500, 1_000);
        let (before, interrupts, polls) = (world.service.spent(), world.interrupts, world.polls);
        world.run(2_000, gap_ns);
        let spent = world.service.spent();
        let useful_ns = spent.useful_ns - before.useful_ns;
        let overhead_ns = spent.overhead_ns - before.overhead_ns + spent.idle_ns - before.idle_ns;
        let (interrupts, polls) = (world.interrupts - interrupts, world.polls - polls);
        // 300 ns before each poll count as its delay.
        assert!((250 * polls..400 * polls).contains(&overhead_ns), "{overhead_ns} in {polls} polls");
        (useful_ns - interrupts * 3_600) as f64 / 2_000.0
    });
    useful_of_frame.sort_by(f64::total_cmp);
    // An empty poll takes no time here, and counts with the 50 ns of the clock's resolution.
    assert!(useful_of_frame[0] >= 449.0 && useful_of_frame[1] <= 501.0, "500 ns each: {useful_of_frame:?}");
}
