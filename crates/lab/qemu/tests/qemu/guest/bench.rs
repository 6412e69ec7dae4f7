//! The lab's own measurements.

use super::{HOST, is_wanted, kpps};
use kpps_frames::Size;
use kpps_frames::rate::Rate;
use kpps_methods::journal::Journal;
use kpps_methods::{Finished, Load, Observer, Testbed};
use kpps_qemu::lab::workload::{Backend, Driver, Settings, Work, exists};
use kpps_qemu::lab::{Clock, GuestTestbed, LabPlan, Model};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

/// Our driver on an e1000 through UIO, on linux-6.1, in one round of one window by the clock of instructions.
fn plan() -> LabPlan {
    LabPlan {
        kernel: "linux-6.1".into(),
        driver_module: None,
        dpdk: None,
        models: vec![Model::E1000],
        backends: vec![Backend::Uio],
        drivers: vec![Driver::Kpps],
        works: vec![Work::Transmit],
        clock: Clock::Instructions,
        rounds: 1,
        windows: 1,
        window: Duration::from_millis(50),
        rate: Rate::Max,
        profile: false,
        settings: Settings::default(),
        at_most: None,
        kpps: kpps(),
    }
}

#[test]
#[ignore = "`make lab` runs it"]
fn every_driver_does_every_workload_and_has_a_row() {
    if !is_wanted() {
        return;
    }
    let _turn = HOST.write().unwrap_or_else(|poisoned| poisoned.into_inner());
    let plan = LabPlan {
        models: vec![Model::E1000e],
        drivers: Driver::ALL.into(),
        works: Work::ALL.into(),
        clock: Clock::Wall,
        window: Duration::from_millis(100),
        rate: Rate::Pps(20_000.0),
        settings: Settings(vec![
            "linux.RxIntDelay=10".parse().unwrap(),
            "sysctl.net.core.netdev_budget=100".parse().unwrap(),
            "napi.gro_flush_timeout=20000".parse().unwrap(),
        ]),
        ..plan()
    };
    let lab = plan.run(&(), || true, &Finished::default()).unwrap();
    println!("{}", kpps_rendering::lab::table(&lab));
    assert!(lab.failures.is_empty() && lab.complete, "{:?}", lab.failures);
    let possible = Work::ALL.iter().flat_map(|work| {
        let all =
            [(Driver::Kpps, Backend::Uio), (Driver::Linux, Backend::Kernel), (Driver::Dpdk, Backend::Uio)];
        all.into_iter().filter(|(driver, backend)| exists(Model::E1000e, *driver, *backend, *work))
    });
    assert_eq!(lab.rows.len(), possible.count());
    assert!(lab.rows.iter().all(|row| row.median_pps > Some(0.0)));
    assert!(lab.rows.iter().all(|row| row.registers_per_frame.is_some()));
    assert_eq!(lab.ratios.len(), 8, "{:?}", lab.ratios);
}

#[test]
#[ignore = "`make lab` runs it"]
fn where_the_instructions_go_is_told_by_function() {
    if !is_wanted() {
        return;
    }
    let _turn = HOST.read().unwrap_or_else(|poisoned| poisoned.into_inner());
    let plan = LabPlan { drivers: vec![Driver::Kpps, Driver::Linux], profile: true, ..plan() };
    let lab = plan.run(&(), || true, &Finished::default()).unwrap();
    println!("{}", kpps_rendering::lab::table(&lab));
    assert!(lab.failures.is_empty() && lab.complete, "{:?}", lab.failures);
    assert_eq!(lab.profiles.len(), 2);
    for profile in &lab.profiles {
        let all: f64 = profile.functions.iter().map(|function| function.share).sum();
        assert!((all - 1.0).abs() < 1e-3 && profile.instructions > 100_000, "{all}: {profile:?}");
        let row = lab.rows.iter().find(|row| row.driver == profile.driver).unwrap();
        let each: f64 = profile.functions.iter().filter_map(|it| it.instructions_per_frame).sum();
        assert!((each / row.instructions_per_frame[0] - 1.0).abs() < 0.02, "{each} of {row:?}");
    }
    let share = |driver: &str, name: &str, of: &str| {
        let profile = lab.profiles.iter().find(|profile| profile.driver == driver).unwrap();
        let functions = profile.functions.iter().filter(|it| it.name.contains(name));
        functions.filter(|it| it.of.as_deref() == Some(of)).map(|it| it.share).sum::<f64>()
    };
    // pktgen calls the driver's function for each frame, and of kpps everything is in its own program.
    assert!(share("linux", "e1000_xmit_frame", "e1000") > 0.1);
    assert!(share("linux", "pktgen_xmit", "pktgen") > 0.01);
    assert!(share("kpps", "", "kpps") > 0.9);
    let stacks = &lab.profiles.iter().find(|profile| profile.driver == "linux").unwrap().stacks;
    let is_called = |stack: &kpps_documents::lab::Stack| {
        let at = |name: &str| stack.functions.iter().position(|it| it == name);
        at("pktgen_xmit").zip(at("e1000_xmit_frame")).is_some_and(|(caller, called)| caller < called)
    };
    assert!(stacks.iter().any(is_called), "{stacks:?}");
}

/// Counts the guests that boot.
#[derive(Default)]
struct Boots(AtomicUsize);

impl Observer for Boots {
    fn begins(&self, what: &str, _: Option<f64>) {
        self.0.fetch_add(usize::from(what.starts_with("booting")), Relaxed);
    }
}

#[test]
#[ignore = "`make lab` runs it"]
fn a_lab_that_was_interrupted_goes_on_where_it_was() {
    if !is_wanted() {
        return;
    }
    let _turn = HOST.read().unwrap_or_else(|poisoned| poisoned.into_inner());
    let plan =
        LabPlan { works: vec![Work::Transmit, Work::Loop], window: Duration::from_millis(20), ..plan() };
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("kept.jsonl");
    let run = |most: usize| {
        let kept = Finished::new(Some(Journal::open(&path).unwrap()), "");
        // The journal's first line is no result.
        let results = |path: &Path| std::fs::read_to_string(path).unwrap().lines().skip(1).count();
        let (boots, file) = (Boots::default(), path.clone());
        let lab = plan.run(&boots, move || results(&file) < most, &kept).unwrap();
        assert!(lab.failures.is_empty(), "{:?}", lab.failures);
        (lab, boots.0.into_inner(), results(&path))
    };
    let (first, boots, results) = run(1);
    assert_eq!((first.complete, first.rows.len(), boots, results), (false, 1, 1, 1));
    let (second, boots, results) = run(usize::MAX);
    assert_eq!((second.complete, second.rows.len(), boots, results), (true, 2, 1, 2));
    assert_eq!(second.rows[0].instructions_per_frame, first.rows[0].instructions_per_frame);
    let (third, boots, results) = run(usize::MAX);
    assert_eq!((third.complete, boots, results), (true, 0, 2), "nothing is measured again");
    let counts = |lab: &kpps_documents::lab::Lab| -> Vec<_> {
        lab.rows.iter().map(|row| row.instructions_per_frame.clone()).collect()
    };
    assert_eq!(counts(&third), counts(&second));
}

/// The rate that our driver receives or forwards at a load: by card and workload, the best of its rounds in
/// frames per second.
fn delivered(rate: Rate) -> Vec<(String, f64)> {
    let plan = LabPlan {
        models: Model::OURS.into(),
        works: vec![Work::Receive, Work::Forward],
        clock: Clock::Wall,
        rounds: 3,
        window: Duration::from_millis(500),
        rate,
        ..plan()
    };
    let lab = plan.run(&(), || true, &Finished::default()).unwrap();
    assert!(lab.failures.is_empty(), "{:?}", lab.failures);
    let best = |pps: &[f64]| pps.iter().copied().fold(0.0, f64::max);
    lab.rows.iter().map(|row| (format!("{} {}", row.device, row.workload), best(&row.pps))).collect()
}

/// A flood does not lower the rate. The aim is at most 5 %; a shared host adds up to 10 % between two equal
/// runs, although each is the best of its rounds, for a neighbour can only slow it. With rings of 256 it was
/// 30 %.
#[test]
#[ignore = "`make lab` runs it"]
fn a_flood_takes_nothing_from_what_gets_through() {
    if !is_wanted() {
        return;
    }
    let _turn = HOST.write().unwrap_or_else(|poisoned| poisoned.into_inner());
    let loads = [1e6, 1.5e6, 2e6].map(|pps| delivered(Rate::Pps(pps)));
    for (index, (what, flood)) in delivered(Rate::Max).into_iter().enumerate() {
        let peak = loads.iter().map(|rows| rows[index].1).fold(0.0, f64::max);
        println!("{what}: {flood:.0} of {peak:.0} pps under flood");
        assert!(flood > 0.85 * peak, "{what}: {flood:.0} of {peak:.0} pps under flood");
    }
}

#[test]
#[ignore = "`make lab` runs it"]
fn a_guest_is_a_testbed_whose_ledger_closes() {
    if !is_wanted() {
        return;
    }
    let _turn = HOST.write().unwrap_or_else(|poisoned| poisoned.into_inner());
    let mut testbed =
        GuestTestbed::new("linux-6.1/e1000".parse().unwrap(), Settings::default(), Clock::Wall, kpps());
    let load = |offered_pps| Load::of(offered_pps, Size::MIN).lasting_ms(50, 500);
    let light = testbed.trial(&load(2000.0)).unwrap();
    assert_eq!((light.ledger.unexplained, light.ledger.shortfall), (0, 0), "{:?}", light.ledger);
    assert_eq!(light.ledger.delivered, light.ledger.sent, "{:?}", light.ledger);
    let pps = light.sent as f64 / light.seconds;
    assert!((1900.0..2100.0).contains(&pps), "{} in {} s", light.sent, light.seconds);
    assert!(light.interrupts() > Some(0) && light.registers_per_frame.unwrap().write > 0.0);
    assert_eq!((light.bus_busy, light.allocations_per_frame, light.latency_ns.p50), (None, None, None));
    assert_eq!(light.cpu.unwrap().idle_polls, None);
    // More than an emulated processor can take.
    let flood = testbed.trial(&load(1_000_000.0)).unwrap();
    let ledger = &flood.ledger;
    assert!(ledger.delivered < ledger.sent + ledger.shortfall, "{ledger:?}");
    assert!(flood.delivered < flood.due());
    assert_eq!(ledger.unexplained, 0, "{ledger:?}");
}
