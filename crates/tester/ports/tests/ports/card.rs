//! Our driver as a port, on the device's model: services, interrupts, bursts, and a device that vanishes.

use kpps_conformance::{Fixture, ModelFixture, ModelPlace, ModelRegisters};
use kpps_datasheet::Chip;
use kpps_driver::Config;
use kpps_driver::config::{NapiExit, Service};
use kpps_frames::build::{Flow, udp_test};
use kpps_frames::fillers::Wire;
use kpps_frames::rate::Rate;
use kpps_frames::{Size, Templates};
use kpps_platform::memory::RingMemory;
use kpps_platform::{Buffer, BufferSource, DmaSpec, OutOfMemory, Platform, Registers};
use kpps_ports::port::run::{Glance, SendPlan, Shape, StreamPlan, Timetable, Watch, send_and_listen};
use kpps_ports::port::{CardPort, Frame, Line, NextPoll, Port, Trouble, Wake};
use std::cell::{Cell, RefCell};
use std::io;
use std::os::fd::BorrowedFd;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// The model's place, from which the card can be pulled out.
#[derive(Clone)]
struct Slot {
    place: ModelPlace,
    empty: Rc<Cell<bool>>,
}

#[derive(Clone)]
struct SlotRegisters {
    registers: ModelRegisters,
    empty: Rc<Cell<bool>>,
}

impl Registers for SlotRegisters {
    fn read(&self, offset: u32) -> u32 {
        if self.empty.get() { u32::MAX } else { self.registers.read(offset) }
    }
    fn write(&self, offset: u32, value: u32) {
        if !self.empty.get() {
            self.registers.write(offset, value);
        }
    }
}

impl Platform for Slot {
    type Regs = SlotRegisters;
    type Mem = RingMemory;
    fn registers(&self) -> SlotRegisters {
        SlotRegisters { registers: self.place.registers(), empty: self.empty.clone() }
    }
    fn allocate(&self, spec: DmaSpec) -> Result<RingMemory, OutOfMemory> {
        self.place.allocate(spec)
    }
    fn now_ns(&self) -> u64 {
        self.place.now_ns()
    }
    fn wait_ns(&self, ns: u64) {
        self.place.wait_ns(ns);
    }
}

/// The model's interrupt line, masked when it signals, as the kernel does it.
#[derive(Clone)]
struct ModelLine {
    fixture: Rc<RefCell<ModelFixture>>,
    masked: Rc<Cell<bool>>,
}

impl Line for ModelLine {
    fn wait(&mut self, at_most: Duration) -> io::Result<bool> {
        self.fixture.borrow_mut().advance(at_most.as_nanos() as u64).unwrap();
        let signals = !self.masked.get() && self.fixture.borrow_mut().interrupt_line().unwrap();
        self.masked.set(self.masked.get() || signals);
        Ok(signals)
    }
    fn enable(&self) -> io::Result<()> {
        self.masked.set(false);
        Ok(())
    }
    fn fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }
}

struct Rig {
    fixture: Rc<RefCell<ModelFixture>>,
    port: CardPort<Slot, ModelLine>,
    empty: Rc<Cell<bool>>,
}

const KPPS: Service = Service::SelfPacing { burst: 32, reserve: 0, polling_rdtr: 0 };
const NAPI: Service = Service::Napi { weight: 64, exit: NapiExit::BothIdle, mask: true };
const POLLING: Service = Service::Polling { burst: 32 };

impl Rig {
    fn new(service: Service) -> Self {
        let fixture = Rc::new(RefCell::new(ModelFixture::new(Chip::I82540em).unwrap()));
        let empty = Rc::new(Cell::new(false));
        let slot = Slot { place: fixture.borrow().platform(), empty: empty.clone() };
        let pool = fixture.borrow_mut().buffers(1200, 2048).unwrap();
        let line = ModelLine { fixture: fixture.clone(), masked: Rc::default() };
        let config = Config { service, promiscuous: true, ..Config::kpps() };
        let mut rig =
            Self { port: CardPort::open(slot, line, Chip::I82540em, config, pool).unwrap(), fixture, empty };
        for _ in 0..10_000 {
            rig.port.refresh_link().unwrap();
            if rig.port.link().up {
                return rig;
            }
            rig.advance(1_000_000);
        }
        panic!("no link");
    }

    fn advance(&self, ns: u64) {
        self.fixture.borrow_mut().advance(ns).unwrap();
    }

    fn inject(&self, frame: &[u8]) {
        self.fixture.borrow_mut().inject(frame).unwrap();
    }

    /// The frames that the port receives now.
    fn receive(&mut self) -> Vec<Vec<u8>> {
        let mut all = Vec::new();
        self.port
            .receive(64, |frame: Frame| {
                all.push(frame.as_ref().to_vec());
                Some(frame.buffer)
            })
            .unwrap();
        all
    }

    /// Polls until the port is asleep.
    fn idle(&mut self) {
        for _ in 0..100_000 {
            assert_eq!(self.receive(), Vec::<Vec<u8>>::new());
            if self.port.next_poll() == NextPoll::Asleep {
                return;
            }
            self.advance(1000);
        }
        panic!("it never sleeps");
    }

    fn send(&mut self, bytes: &[u8]) -> bool {
        let mut buffer = self.port.pool().take().unwrap();
        buffer.bytes_mut()[..bytes.len()].copy_from_slice(bytes);
        let sent = self.port.send(Frame { buffer, bytes: bytes.len() as u16 });
        sent.map_err(|frame| self.port.pool().give(frame.buffer)).is_ok()
    }
}

fn frame(n: u8) -> Vec<u8> {
    let mut frame = vec![n; 60];
    frame[0] = 2;
    frame[12..14].copy_from_slice(&[0x88, 0xb5]);
    frame
}

#[test]
fn every_service_takes_all_frames_in() {
    for service in [POLLING, NAPI, KPPS] {
        let mut rig = Rig::new(service);
        let mut all = Vec::new();
        for round in 0..20_u8 {
            for n in 0..30 {
                rig.inject(&frame(round.wrapping_mul(31).wrapping_add(n)));
            }
            for _ in 0..60 {
                rig.advance(2000);
                // `wait` leads to this call.
                rig.port.woken().unwrap();
                all.extend(rig.receive());
            }
        }
        let expected: Vec<_> = (0..20_u8)
            .flat_map(|round| (0..30).map(move |n| frame(round.wrapping_mul(31).wrapping_add(n))))
            .collect();
        assert_eq!(all, expected, "{service:?}");
        let counters = rig.port.counters().unwrap();
        assert_eq!((counters.received, counters.missed, counters.errors), (600, Some(0), 0), "{service:?}");
        assert_eq!(counters.interrupts == 0, service == POLLING, "{service:?}: {counters:?}");
    }
}

#[test]
fn an_idle_port_sleeps_touches_nothing_and_is_woken() {
    for service in [NAPI, KPPS] {
        let mut rig = Rig::new(service);
        rig.idle();
        let before = rig.port.counters().unwrap();
        for _ in 0..100 {
            rig.advance(10_000);
            rig.port.woken().unwrap();
            assert_eq!((rig.receive().len(), rig.port.next_poll()), (0, NextPoll::Asleep));
        }
        let after = rig.port.counters().unwrap();
        assert_eq!(
            after.register_reads + after.register_writes,
            before.register_reads + before.register_writes
        );
        assert_eq!(after.interrupts, before.interrupts);
        rig.inject(&frame(1));
        rig.advance(100_000);
        rig.port.woken().unwrap();
        assert_eq!(rig.port.next_poll(), NextPoll::Now, "{service:?}");
        assert_eq!(rig.receive(), [frame(1)]);
        assert_eq!(rig.port.counters().unwrap().interrupts, before.interrupts + 1);
        rig.idle();
    }
}

#[test]
fn who_runs_anyway_finds_frames_before_their_interrupt() {
    for service in [NAPI, KPPS] {
        let mut rig = Rig::new(service);
        rig.idle();
        for n in 0..50 {
            rig.inject(&frame(n));
            rig.advance(50_000);
            // No `woken`: another port kept the program busy.
            assert_eq!(rig.receive(), [frame(n)], "{service:?}");
            rig.idle();
        }
        // And sleep is still sound.
        rig.inject(&frame(99));
        rig.advance(50_000);
        rig.port.woken().unwrap();
        assert_eq!(rig.receive(), [frame(99)]);
    }
}

#[test]
fn a_burst_costs_one_tail_write_and_no_read() {
    for service in [POLLING, NAPI, KPPS] {
        let mut rig = Rig::new(service);
        rig.receive();
        let before = rig.port.counters().unwrap();
        for n in 0..32 {
            assert!(rig.send(&frame(n)));
        }
        rig.port.flush().unwrap();
        let after = rig.port.counters().unwrap();
        assert_eq!(after.doorbells - before.doorbells, 1);
        assert_eq!(after.register_writes - before.register_writes, 1);
        assert_eq!(after.register_reads, before.register_reads);
        rig.advance(100_000);
        for n in 0..32 {
            assert_eq!(rig.fixture.borrow_mut().collect().unwrap(), Some(frame(n)));
        }
    }
}

#[test]
fn a_full_ring_gives_frames_back_and_all_that_was_taken_goes_out() {
    let mut rig = Rig::new(KPPS);
    let taken = (0..400_u32).filter(|&n| rig.send(&frame(n as u8))).count();
    assert_eq!((taken, rig.port.counters().unwrap().full), (255, 145));
    rig.port.flush().unwrap();
    assert!(rig.port.in_flight() > 0);
    rig.advance(1_000_000);
    assert_eq!(rig.port.in_flight(), 0);
    assert_eq!(rig.port.tx_space(), 255);
    let mut out = 0;
    while rig.fixture.borrow_mut().collect().unwrap().is_some() {
        out += 1;
    }
    assert_eq!(out, 255);
}

#[test]
fn missed_frames_are_counted_where_the_card_dropped_them() {
    let mut rig = Rig::new(POLLING);
    // 1518-byte frames: a ring of 255, and what the FIFO holds.
    let mut long = vec![0x11; 1514];
    long[0] = 2;
    for _ in 0..400 {
        rig.inject(&long);
    }
    rig.advance(10_000_000);
    let mut received = 0;
    loop {
        let now = rig.receive().len();
        received += now;
        if now == 0 {
            break;
        }
        rig.advance(100_000);
    }
    let counters = rig.port.counters().unwrap();
    assert_eq!(counters.received, received as u64);
    let missed = counters.missed.unwrap();
    assert!(missed > 0);
    assert_eq!(counters.received + missed, 400);
}

#[test]
fn a_card_that_vanishes_is_trouble_not_a_hang() {
    let mut rig = Rig::new(KPPS);
    rig.idle();
    rig.empty.set(true);
    rig.advance(3_000_000_000);
    assert!(matches!(rig.port.maintain(), Err(Trouble::Gone)));
}

#[test]
fn a_link_that_comes_back_is_seen() {
    let mut rig = Rig::new(KPPS);
    for up in [false, true] {
        rig.fixture.borrow_mut().set_link(up).unwrap();
        rig.advance(3_000_000_000);
        rig.port.maintain().unwrap();
        assert_eq!(rig.port.link().up, up);
    }
    rig.port.woken().unwrap();
    rig.inject(&frame(5));
    rig.advance(50_000);
    rig.port.woken().unwrap();
    let all: Vec<_> = (0..20).flat_map(|_| rig.receive()).collect();
    assert_eq!(all, [frame(5)]);
}

/// No end but that of the plan.
struct Always;

impl Watch for Always {
    fn at_most(&self) -> Option<Duration> {
        None
    }
    fn go_on(&mut self, _: &Glance) -> bool {
        true
    }
}

/// On the model's wire each frame is at its byte time; the fillers between them are no frames of the port.
#[test]
fn fillers_make_gaps_exact() {
    const FRAMES: u64 = 400;
    const BYTE_PS: u64 = 8_000;
    for (shape, pps) in [
        (Shape::Constant, 20e3),
        (Shape::Constant, 333e3),
        (Shape::Constant, 1e6),
        (Shape::Poisson { seed: 3 }, 200e3),
        (Shape::Bursts(5), 100e3),
    ] {
        let mut rig = Rig::new(POLLING);
        let templates = Templates::one(&udp_test(&Flow::default(), Size::MIN).unwrap());
        let stream = StreamPlan { shape, count: Some(FRAMES), ..StreamPlan::of(Arc::new(templates)) };
        let plan = SendPlan { fillers: true, ..SendPlan::one(Rate::Pps(pps), stream) };
        let fixture = rig.fixture.clone();
        let sent = send_and_listen(&mut rig.port, &plan, &mut Always, &mut |port| {
            fixture.borrow_mut().advance(10_000).unwrap();
            port.receive(64, |frame| Some(frame.buffer))
        });
        let sent = sent.unwrap();
        let filled = sent.filled.unwrap();
        let counters = rig.port.counters().unwrap();
        assert_eq!((sent.intended, sent.sent, sent.shortfall), (FRAMES, FRAMES, 0), "{shape:?}");
        assert_eq!((counters.sent, counters.sent_bytes), (FRAMES, 60 * FRAMES), "{shape:?}");
        rig.advance(1_000_000);
        assert_eq!(rig.fixture.borrow_mut().take_spoiled(), Some(filled.fillers), "{shape:?}");

        let (mut table, mut wire) = (Timetable::new(pps, shape), Wire::default());
        let bytes_per_s = 1.25e8;
        let planned = (0..FRAMES)
            .map(|frame| wire.place((table.time_of(frame) * bytes_per_s).round() as u64, 64).start);
        let planned: Vec<u64> = planned.collect();
        let seen: Vec<_> = std::iter::from_fn(|| rig.fixture.borrow_mut().collect_timed()).collect();
        assert_eq!(seen.len() as u64, FRAMES, "{shape:?}");
        for (planned_at, (at_ps, frame)) in planned.iter().zip(&seen) {
            assert_eq!((at_ps - seen[0].0) % BYTE_PS, 0, "{shape:?}");
            assert_eq!((at_ps - seen[0].0) / BYTE_PS, planned_at - planned[0], "{shape:?} {pps}");
            // The tag has the time of the plan, and not that at which the frame was queued.
            let tag = kpps_frames::tag::read(frame).unwrap();
            let first = kpps_frames::tag::read(&seen[0].1).unwrap();
            let since_ps = tag.sent_ps - first.sent_ps;
            assert!(since_ps.abs_diff(at_ps - seen[0].0) <= 2_000, "{shape:?}: {since_ps} ps");
        }
        let is_rounded = pps == 1e6 || matches!(shape, Shape::Poisson { .. });
        assert_eq!(filled.rounded > 0, is_rounded, "{shape:?} {filled:?}");
        assert!(filled.most_rounded <= Duration::from_nanos(336), "{filled:?}");
    }
}
