//! The suite on every card there is: the model's seven and QEMU's five.
//!
//! QEMU must be installed; without it these tests fail and say how to install it. The 82576 is that of the
//! lab's QEMU, so `make lab` runs its test.
#![allow(clippy::unwrap_used)]

use kpps_conformance::{Error, On, Outcome, run};
use kpps_datasheet::Chip;

/// Runs the suite and wants nothing failed and every departure still there.
fn good(on: On, chip: Chip) {
    let report = match run(on, chip, &mut |_| {}) {
        Ok(report) => report,
        Err(error) => panic!("{error}"),
    };
    report.cases.iter().filter(|case| case.failed_before.is_some()).for_each(|case| println!("{case}"));
    assert!(report.is_good(), "{report}");
    let departs = report.cases.iter().any(|c| matches!(c.outcome, Outcome::Departure { .. }));
    assert_eq!(departs, on == On::Qemu, "{report}");
}

#[test]
fn model_82542() {
    good(On::Model, Chip::I82542);
}

#[test]
fn model_82543gc() {
    good(On::Model, Chip::I82543gc);
}

#[test]
fn model_82544() {
    good(On::Model, Chip::I82544);
}

#[test]
fn model_82540em() {
    good(On::Model, Chip::I82540em);
}

#[test]
fn model_82545em() {
    good(On::Model, Chip::I82545em);
}

#[test]
fn model_82546eb() {
    good(On::Model, Chip::I82546eb);
}

#[test]
fn model_82574l() {
    good(On::Model, Chip::I82574l);
}

#[test]
fn qemu_82540em() {
    good(On::Qemu, Chip::I82540em);
}

#[test]
fn qemu_82544() {
    good(On::Qemu, Chip::I82544);
}

#[test]
fn qemu_82545em() {
    good(On::Qemu, Chip::I82545em);
}

#[test]
fn qemu_82574l() {
    good(On::Qemu, Chip::I82574l);
}

#[test]
#[ignore = "fetches the lab's QEMU"]
fn qemu_82576() {
    good(On::Qemu, Chip::I82576);
}

#[test]
fn the_same_cases_run_everywhere() {
    let names = |on, chip| {
        let report = run(on, chip, &mut |_| {}).unwrap();
        report.cases.into_iter().map(|case| case.name).collect::<Vec<_>>()
    };
    assert_eq!(names(On::Model, Chip::I82542), names(On::Model, Chip::I82574l));
}

#[test]
fn cards_that_qemu_lacks_are_an_error() {
    for chip in [Chip::I82542, Chip::I82543gc, Chip::I82546eb] {
        let error = run(On::Qemu, chip, &mut |_| {}).unwrap_err();
        assert!(matches!(error, Error::NoSuchCard(_)), "{error}");
    }
}

#[test]
fn a_chip_that_the_model_lacks_is_an_error() {
    let error = run(On::Model, Chip::I82576, &mut |_| {}).unwrap_err();
    assert!(matches!(error, Error::NotModelled(_)), "{error}");
}
