//! Tests of the suite itself: it must detect a broken device, and a device that no longer departs from the
//! manual where it is listed to.
#![allow(clippy::unwrap_used)]

use crate::case::{Entry, Verdict};
use crate::{Departure, Failure, Fixture, ModelFixture, ModelPlace, ModelRegisters, Outcome, Report};
use crate::{cases, departure, suite};
use kpps_datasheet::{Chip, reg, stat};
use kpps_platform::wrap::Access;
use kpps_platform::{DmaSpec, OutOfMemory, Platform};
use kpps_qemu::qtest::{BufferPool, RingMemory};
use std::time::Duration;

/// A fault in register access: the value to use instead, or `None` to lose a write.
type Fault = fn(Access) -> Option<u32>;

/// A modelled card with a fault.
struct FaultyBench {
    inner: ModelFixture,
    departures: &'static [&'static Departure],
    fault: Fault,
    /// Changes a frame that the card sent.
    spoil: fn(Vec<u8>) -> Vec<u8>,
    slack_ns: u64,
    attempts: usize,
}

#[derive(Clone)]
struct OddPlace {
    inner: ModelPlace,
    fault: Fault,
}

/// [`kpps_platform::wrap::Faulty`] with a plain function, which is `Clone`.
type FaultyRegisters = kpps_platform::wrap::Faulty<ModelRegisters, Fault>;

impl Platform for OddPlace {
    type Regs = FaultyRegisters;
    type Mem = RingMemory;
    fn registers(&self) -> FaultyRegisters {
        FaultyRegisters::new(self.inner.registers(), self.fault)
    }
    fn allocate(&self, spec: DmaSpec) -> Result<RingMemory, OutOfMemory> {
        self.inner.allocate(spec)
    }
    fn now_ns(&self) -> u64 {
        self.inner.now_ns()
    }
    fn wait_ns(&self, ns: u64) {
        self.inner.wait_ns(ns);
    }
}

impl Fixture for FaultyBench {
    type Platform = OddPlace;
    type Source = BufferPool;
    fn device(&self) -> String {
        "faulty model".to_owned()
    }
    fn chip(&self) -> Chip {
        self.inner.chip()
    }
    fn address(&self) -> [u8; 6] {
        self.inner.address()
    }
    fn departures(&self) -> &'static [&'static Departure] {
        self.departures
    }
    fn platform(&self) -> OddPlace {
        OddPlace { inner: self.inner.platform(), fault: self.fault }
    }
    fn buffers(&mut self, count: usize, bytes: usize) -> Result<BufferPool, Failure> {
        self.inner.buffers(count, bytes)
    }
    fn inject(&mut self, frame: &[u8]) -> Result<(), Failure> {
        self.inner.inject(frame)
    }
    fn inject_bad_fcs(&mut self, frame: &[u8]) -> Result<bool, Failure> {
        self.inner.inject_bad_fcs(frame)
    }
    fn take_spoiled(&mut self) -> Option<u64> {
        self.inner.take_spoiled()
    }
    fn collect(&mut self) -> Result<Option<Vec<u8>>, Failure> {
        Ok(self.inner.collect()?.map(self.spoil))
    }
    fn advance(&mut self, ns: u64) -> Result<(), Failure> {
        self.inner.advance(ns)
    }
    fn set_link(&mut self, up: bool) -> Result<(), Failure> {
        self.inner.set_link(up)
    }
    fn interrupt_line(&mut self) -> Result<bool, Failure> {
        self.inner.interrupt_line()
    }
    fn interrupts(&mut self) -> Result<u64, Failure> {
        self.inner.interrupts()
    }
    fn slack_ns(&self) -> u64 {
        self.slack_ns
    }
}

fn sound(access: Access) -> Option<u32> {
    match access {
        Access::Read { value, .. } | Access::Write { value, .. } => Some(value),
    }
}

fn faulty() -> FaultyBench {
    FaultyBench {
        inner: ModelFixture::new(Chip::I82545em).unwrap(),
        departures: &[],
        fault: sound,
        spoil: |frame| frame,
        slack_ns: 0,
        attempts: 0,
    }
}

/// The cases of one area; of all with "".
fn run_area(mut fixture: FaultyBench, area: &str) -> Report {
    let mut entries = cases::all();
    entries.extend(cases::timed());
    entries.retain(|(name, _)| name.starts_with(area));
    suite::run(&mut fixture, &entries, Duration::ZERO, &mut |_| {})
}

/// The names of the cases that failed.
fn failed(report: &Report) -> Vec<&str> {
    let fails = |case: &&crate::Case| matches!(case.outcome, Outcome::Fail { .. });
    report.cases.iter().filter(fails).map(|case| case.name.as_str()).collect()
}

/// A card that follows the manual but is listed with all departures of a QEMU card: each of them must be
/// reported as gone.
#[test]
fn a_departure_that_is_gone_is_a_failure() {
    for departures in [departure::QEMU, departure::QEMU_E1000E_ON_A_HUB] {
        let report = run_area(FaultyBench { departures, ..faulty() }, "");
        assert!(failed(&report).len() >= departures.len(), "{report}");
        let departed = report.cases.iter().any(|c| matches!(c.outcome, Outcome::Departure { .. }));
        assert!(!departed, "{report}");
    }
}

/// Single faults, each with an area in which a case must fail.
#[test]
fn a_broken_card_is_detected() {
    const MTA_LAST: u32 = reg::MTA + 4 * 127;
    let faults: [(&str, Fault); 9] = [
        ("filter", |access| match access {
            Access::Write { offset: reg::MTA..=MTA_LAST, .. } => None,
            other => sound(other),
        }),
        ("filter", |access| match access {
            // Entry 9 cannot be made valid.
            Access::Write { offset, value } if offset == reg::rah(9) => Some(value & !(1 << 31)),
            other => sound(other),
        }),
        ("vlan", |access| match access {
            Access::Write { offset, value } if offset == reg::vfta(3) => Some(value | 2),
            other => sound(other),
        }),
        ("interrupt", |access| match access {
            Access::Write { offset: reg::IMC, value } => Some(value & !(1 << 7)),
            other => sound(other),
        }),
        ("statistics", |access| match access {
            Access::Read { offset: stat::BPTC, value } => Some(value * 2),
            other => sound(other),
        }),
        ("checksum", |access| match access {
            Access::Write { offset: reg::RXCSUM, value } => Some(value & !(1 << 9)),
            other => sound(other),
        }),
        ("eeprom", |access| match access {
            Access::Read { offset: reg::EERD, value } => Some(value ^ 1 << 20),
            other => sound(other),
        }),
        ("timed", |access| match access {
            Access::Write { offset: reg::ITR, value } => Some(value / 2),
            other => sound(other),
        }),
        ("receive", |access| match access {
            // LPE cannot be set.
            Access::Write { offset: reg::RCTL, value } => Some(value & !(1 << 5)),
            other => sound(other),
        }),
    ];
    for (area, fault) in faults {
        let report = run_area(FaultyBench { fault, ..faulty() }, area);
        assert!(!report.is_good(), "{area}: {report}");
    }
}

#[test]
fn a_bit_flipped_on_the_wire_is_detected() {
    let spoil = |mut frame: Vec<u8>| {
        if frame.len() == 4321
            && let Some(byte) = frame.get_mut(4000)
        {
            *byte ^= 1;
        }
        frame
    };
    let report = run_area(FaultyBench { spoil, ..faulty() }, "transmit: every size");
    assert_eq!(failed(&report).len(), 2, "{report}");
}

/// The host may delay a device's events: there a case may fail for once, and the report says so.
#[test]
fn a_failed_case_is_tried_again_where_the_host_delays_events() {
    let entries: [Entry<FaultyBench>; 2] = [
        ("late: at the first attempt", |fixture| {
            fixture.attempts += 1;
            if fixture.attempts == 1 { Err("late".into()) } else { Ok(Verdict::Pass) }
        }),
        ("wrong: at each attempt", |fixture| {
            fixture.attempts += 1;
            Err(format!("wrong, attempt {}", fixture.attempts - 2).into())
        }),
    ];
    let report =
        suite::run(&mut FaultyBench { slack_ns: 1, ..faulty() }, &entries, Duration::ZERO, &mut |_| {});
    let [late, wrong] = &report.cases[..] else { panic!("{report}") };
    assert_eq!((&late.outcome, late.failed_before.as_deref()), (&Outcome::Pass, Some("late")));
    assert_eq!(wrong.outcome, Outcome::Fail { reason: "wrong, attempt 3".to_owned() });
    assert_eq!(wrong.failed_before.as_deref(), Some("wrong, attempt 2"));
    assert!(late.to_string().ends_with("an earlier attempt failed: late"), "{late}");

    let slow: [Entry<FaultyBench>; 1] = [("late: until the tenth attempt", |fixture| {
        fixture.attempts += 1;
        if fixture.attempts < 10 { Err("late".into()) } else { Ok(Verdict::Pass) }
    })];
    let mut bench = FaultyBench { slack_ns: 1, ..faulty() };
    let report = suite::run(&mut bench, &slow, Duration::from_secs(3600), &mut |_| {});
    assert_eq!((failed(&report).len(), bench.attempts), (0, 10), "{report}");

    let report = suite::run(&mut faulty(), &entries, Duration::ZERO, &mut |_| {});
    assert_eq!(failed(&report).len(), 2, "{report}");
    assert!(report.cases.iter().all(|case| case.failed_before.is_none()), "{report}");
}
