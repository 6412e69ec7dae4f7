//! Limits that anyone can work out on paper, and the simulation on them. The limits of the PCI-X and GC buses
//! are in `rdr2007.rs`, the limit of the receive delay in `morris2000.rs`.

use kpps_driver::config::Itr;
use kpps_frames::Size;
use kpps_methods::{Load, Testbed};
use kpps_sim::{Receiving, Setup, transmit};

#[test]
fn the_wire_is_full_and_no_fuller() {
    for bytes in [512u16, 1024, 1518] {
        let line_pps = 1e9 / (8.0 * (f64::from(bytes) + 8.0 + 12.0));
        let setup = Setup::named("rdr2007", None, "rdr").unwrap();
        let sent = transmit(&setup, Size::with_fcs(bytes), 10, 100).unwrap();
        // A frame may begin in the measured time and end after it.
        assert!((sent.pps - line_pps).abs() <= 2.0 / 0.1, "{bytes}: {} of {line_pps}", sent.pps);
    }
}

#[test]
fn sending_takes_the_engine_and_a_read_of_the_frame_each_time() {
    // Clock, engine, all in picoseconds. A burst is 4 clocks and one for each 8 bytes, here 60; memory
    // answers after 250 ns.
    for (chip, clock_ps, engine_ps) in [("82542", 30_000.0, 1_222_000.0), ("82543gc", 15_000.0, 716_000.0)] {
        let frame_ps = engine_ps + (4.0 + 8.0) * clock_ps + 250_000.0;
        let bound_pps = 1e12 / frame_ps;
        let setup = Setup::named("morris2000", Some(chip), "intel-2.5.11-fix").unwrap();
        let pps = transmit(&setup, Size::MIN, 10, 50).unwrap().pps;
        // Descriptors cross the bus, too: less than a tenth of it.
        assert!((0.93..=1.0).contains(&(pps / bound_pps)), "{chip}: {pps} of {bound_pps}");
    }
}

#[test]
fn interrupts_come_as_often_as_the_throttle_lets_them() {
    for rate in [2_000, 8_000, 20_000] {
        let mut setup = Setup::named("morris2000", Some("82540em"), "intel-5.7.6").unwrap();
        setup.config.moderation.itr = Itr::Fixed(rate);
        let load = Load::of(100e3, Size::MIN).lasting_ms(10, 50);
        let trial = Receiving::new(setup).trial(&load).unwrap();
        // SDM 13.4.18: ITR counts in units of 256 ns.
        let interval_s = (1e9 / (f64::from(rate) * 256.0)).floor() * 256e-9;
        let (interrupts, most) = (trial.interrupts().unwrap() as f64, trial.seconds / interval_s);
        assert!(interrupts <= most + 1.0, "{rate}: {interrupts} of {most}");
        assert!(
            interrupts >= 0.97 * most,
            "{rate}: there is always a frame to tell of: {interrupts} of {most}"
        );
    }
}

/// A driver accepts whatever frames it is measured with, unless its longest frame was set.
#[test]
fn frames_longer_than_what_was_set_are_refused() {
    let measured = |most: Option<i64>, bytes: u16, app| {
        let set = most.map(|most| kpps_profiles::Change::set("driver.max_frame_bytes", most).unwrap());
        let choice = kpps_sim::Choice { set: set.into_iter().collect(), app, ..Default::default() };
        let size = kpps_frames::Size::with_fcs(bytes);
        let load = kpps_methods::Load::of(20e3, size).lasting_ms(1, 2);
        let trial = choice.testbed(choice.setup().unwrap()).trial_while(&load, &|| true);
        trial.map(|trial| trial.delivered > 0).map_err(|why| why.to_string())
    };
    let why = Err("frames of 1518 B are longer than driver.max_frame_bytes = 1000".to_owned());
    for app in [None, Some(kpps_sim::AppKind::Bridge)] {
        assert_eq!(measured(Some(1000), 1518, app), why);
        assert_eq!(measured(Some(1000), 1000, app), Ok(true));
        assert_eq!(measured(None, 1518, app), Ok(true));
    }
}
