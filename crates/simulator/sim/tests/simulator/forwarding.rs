//! Apps between two cards. The tester compares the frames that come out byte by byte, so a trial with a
//! result has only right frames. These tests are about the costs, and about the places of lost frames.

use kpps_frames::Size;
use kpps_methods::{Load, Testbed};
use kpps_profiles::Change;
use kpps_sim::workload::forward::{line_pps, lunz2003};
use kpps_sim::{Affinity, AppKind, Forwarded, ForwardingTestbed, Function, Setup};
use proptest::prelude::*;

fn load(app: AppKind, offered_pps: f64) -> Load {
    Load::of(offered_pps, app.least_size()).lasting_ms(5, 10)
}

fn run(app: AppKind, offered_pps: f64) -> Forwarded {
    let setup = lunz2003("intel-5.7.6", 256, true).unwrap();
    ForwardingTestbed::new(setup, app).forwarded(&load(app, offered_pps), &|| true).unwrap()
}

#[test]
fn at_a_load_that_the_host_can_take_every_frame_comes_out() {
    for app in AppKind::ALL {
        let forwarded = run(app, 100e3);
        let [there, back] = forwarded.directions;
        assert_eq!((there.forwarded, back.forwarded), (there.sent, back.sent), "{app}");
        assert!(there.sent >= 499 && back.sent >= 499, "{app}: {:?}", forwarded.directions);
        assert_eq!(forwarded.trial.ledger.dropped.values().sum::<u64>(), 0, "{app}");
    }
}

#[test]
fn two_cards_of_one_port_each_forward_both_ways() {
    let setup = Setup::named("lunz2003", Some("82545em"), "intel-5.7.6").unwrap();
    let forwarded = ForwardingTestbed::new(setup, AppKind::Route)
        .forwarded(&load(AppKind::Route, 100e3), &|| true)
        .unwrap();
    for direction in forwarded.directions {
        assert!(direction.sent >= 499 && direction.forwarded == direction.sent, "{:?}", forwarded.directions);
    }
}

#[test]
fn one_way_the_second_card_gets_nothing_and_the_whole_load_comes_out_of_it() {
    let setup = lunz2003("intel-5.7.6", 256, true).unwrap();
    let mut testbed = ForwardingTestbed::new(setup, AppKind::Bridge).one_way();
    let forwarded = testbed.forwarded(&load(AppKind::Bridge, 100e3), &|| true).unwrap();
    let [there, back] = forwarded.directions;
    assert_eq!((there.forwarded, back.sent, back.forwarded), (there.sent, 0, 0));
    assert!(there.sent >= 999, "{there:?}");
    let too_much = load(AppKind::Bridge, 1.01 * testbed.line_rate_pps(&Size::MIN.into()).unwrap());
    let error = testbed.trial_while(&too_much, &|| true).unwrap_err();
    assert!(error.to_string().contains("at most line rate, 1488095 pps"), "{error}");
}

#[test]
fn each_app_costs_what_its_profile_says() {
    let ns = |app, function| {
        let forwarded = run(app, 100e3);
        forwarded.profile.of(function) as f64 / 1e3 / forwarded.trial.taken.unwrap() as f64
    };
    // Of the Xeon's own cycles: 1.334 for a Pentium III's, and 110 for a locked operation.
    let cycle_ns = 0.556;
    for (app, function, cycles) in [
        (AppKind::Bridge, Function::Forward, 1000.0),
        (AppKind::Bridge, Function::Route, 0.0),
        (AppKind::Route, Function::Forward, 0.0),
        (AppKind::Route, Function::Ip, 350.0),
        (AppKind::Route, Function::Route, 339.0 * 1.334 + 6.0 * 110.0),
        (AppKind::Route, Function::Vlan, 0.0),
        (AppKind::VlanRoute, Function::Vlan, 600.0),
        (AppKind::VlanRoute, Function::Translate, 0.0),
        (AppKind::Nat, Function::Translate, 2800.0),
        (AppKind::Nat, Function::Vlan, 0.0),
    ] {
        let (measured, right) = (ns(app, function), cycles * cycle_ns);
        assert!((measured - right).abs() <= 0.01 * right, "{app} {function:?}: {measured} ns, not {right}");
    }
}

#[test]
fn the_more_is_done_with_a_frame_the_fewer_are_forwarded() {
    let peaks = AppKind::ALL.map(|app| run(app, 600e3).pps());
    assert!(peaks.windows(2).all(|pair| pair[0] > 1.03 * pair[1]), "{peaks:?}");
}

/// At line rate both ways no app keeps up: frames that it does not forward are in the ledger, one by one.
#[test]
fn in_an_overload_every_frame_is_somewhere() {
    for (app, driver) in AppKind::ALL.into_iter().flat_map(|app| [(app, "intel-5.7.6"), (app, "kpps")]) {
        let testbed = ForwardingTestbed::new(lunz2003(driver, 256, true).unwrap(), app);
        let load = load(app, line_pps(app.least_size()));
        let forwarded = testbed.forwarded(&load, &|| true).unwrap();
        let ledger = &forwarded.trial.ledger;
        let dropped: u64 = ledger.dropped.values().sum();
        let under_way: u64 = ledger.in_flight_at.values().sum();
        assert_eq!(ledger.sent, ledger.delivered + dropped + under_way, "{app}, {driver}: {ledger:?}");
        // Warm-up, measurement, and 20 ms in which the last ones may arrive.
        let due = load.rate.pps().unwrap() * 0.035;
        assert!((ledger.sent as f64 - due).abs() < 10.0, "{app}, {driver}: {} of {due}", ledger.sent);
        assert!(
            ledger.dropped["fifo"] + ledger.dropped["ring"] > ledger.sent / 2,
            "{app}, {driver}: {ledger:?}"
        );
        assert!(ledger.delivered > 1000 && forwarded.wrong == 0, "{app}, {driver}: {ledger:?}");
    }
}

#[test]
fn two_cpus_share_what_a_router_writes() {
    let spread = |app| {
        let mut setup = lunz2003("intel-5.7.6", 256, true).unwrap();
        setup.affinity = Affinity::Spread;
        let testbed = ForwardingTestbed::new(setup, app);
        testbed.forwarded(&load(app, 600e3), &|| true).unwrap().per_frame.unwrap().line_transfers
    };
    let (route, nat) = (spread(AppKind::Route), spread(AppKind::Nat));
    assert!(route > 1.0 && nat > route + 2.0, "{route} {nat}");
}

#[test]
fn a_trial_is_that_of_both_directions() {
    let mut testbed = ForwardingTestbed::new(lunz2003("kpps", 256, true).unwrap(), AppKind::Nat);
    let line = testbed.line_rate_pps(&Size::MIN.into()).unwrap();
    assert_eq!(line, line_pps(Size::MIN));
    let trial = testbed.trial(&load(AppKind::Nat, 200e3)).unwrap();
    assert!(trial.sent.abs_diff(2000) <= 1, "{}", trial.sent);
    assert_eq!(trial.delivered, trial.sent);
    let over = load(AppKind::Nat, line * 1.01);
    assert!(testbed.trial(&over).err().unwrap().to_string().contains("two line rates"));
}

#[test]
fn a_tagged_frame_too_small_for_its_test_tag_is_said() {
    let testbed = ForwardingTestbed::new(lunz2003("kpps", 256, true).unwrap(), AppKind::VlanRoute);
    let small = Load { sizes: Size::MIN.into(), ..load(AppKind::VlanRoute, 1e5) };
    let error = testbed.forwarded(&small, &|| true).err().unwrap().to_string();
    assert!(error.contains("68 bytes"), "{error}");
}

#[test]
fn names_are_what_they_are_read_from() {
    for app in AppKind::ALL {
        assert_eq!(app.to_string().parse(), Ok(app));
    }
    assert!("switch".parse::<AppKind>().err().unwrap().contains("bridge, route, vlan-route, nat"));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]
    /// Whatever app, driver, load and machine: a trial either has a ledger that closes, with no wrong frame,
    /// or none at all; and nothing ends in the app, because its frames are all to be forwarded.
    #[test]
    fn frames_are_conserved(
        app in prop::sample::select(AppKind::ALL.to_vec()),
        driver in prop::sample::select(
            vec!["intel-4.4.x", "intel-5.7.6", "intel-2.5.11", "sf1", "kpps", "click-polling"],
        ),
        share in 0.01f64..=1.0,
        more_bytes in 0u16..1400,
        spread: bool,
        rings in prop::sample::select(vec![64u16, 80, 256]),
        queue in 1i64..200,
        seed: u64,
    ) {
        let size = Size::with_fcs(app.least_size().bytes_with_fcs() as u16 + more_bytes);
        let changes = [
            Change::set("stack.transmit_queue", queue).unwrap(),
            Change::set("driver.rx_ring", i64::from(rings)).unwrap(),
            Change::set("driver.tx_ring", i64::from(rings)).unwrap(),
        ];
        let mut setup = Setup::changed("lunz2003", None, driver, &changes).unwrap();
        setup.affinity = if spread { Affinity::Spread } else { Affinity::One };
        let testbed = ForwardingTestbed::new(setup, app);
        let load = Load::of(share * line_pps(size), size).lasting_ms(1, 2).with_seed(seed);
        let forwarded = testbed.forwarded(&load, &|| true).unwrap();
        let ledger = &forwarded.trial.ledger;
        prop_assert!(ledger.closes(), "{:?}", ledger);
        prop_assert_eq!(forwarded.wrong, 0);
        let places = ["fifo", "ring", "backlog", "queue", "filter", "card_other", "driver"];
        for (place, frames) in &ledger.dropped {
            prop_assert!(places.contains(&place.as_str()) || *frames == 0, "{}: {}", place, frames);
        }
        prop_assert!(forwarded.trial.delivered <= forwarded.trial.sent);
    }
}
