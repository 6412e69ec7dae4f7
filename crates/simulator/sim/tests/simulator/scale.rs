//! Packets against CPUs: each thing that can stop them does, and is found by how busy it is.

use kpps_frames::{Size, rate};
use kpps_methods::Load;
use kpps_profiles::Change;
use kpps_sim::RateLimitedSetup;
use kpps_sim::workload::rss::{Limit, Scaled, Scaling, scale, stop};

fn rows(
    nic: &str,
    set: &[(&str, toml::Value)],
    flows: u16,
    shared_lines: u32,
    cpus: &[usize],
) -> Vec<Scaled> {
    let changes: Vec<_> = set.iter().map(|(path, value)| Change::set(path, value.clone()).unwrap()).collect();
    let setup = RateLimitedSetup::changed("rss", Some(nic), &changes).unwrap();
    let offered_pps = rate::line_rate_pps(setup.link_bits_per_s(), Size::MIN);
    let load = Load::of(offered_pps, Size::MIN).lasting_ms(2, 3);
    let trial = |&cpus: &usize| {
        scale(&setup, &Scaling { load: load.clone(), flows, cpus, shared_lines }, &|| true).unwrap()
    };
    cpus.iter().map(trial).collect()
}

fn pps(row: &Scaled) -> f64 {
    row.delivered_pps
}

#[test]
fn a_gigabit_stops_at_the_wire() {
    let rows = rows("82576", &[], 256, 0, &[1, 2, 4, 8]);
    assert_eq!(rows[0].limit, Limit::Cpus);
    // One CPU takes over a million; two are stopped by the wire.
    assert!(pps(&rows[1]) > 1.3 * pps(&rows[0]));
    let last = &rows[3];
    assert_eq!(last.limit, Limit::Wire);
    assert!((last.delivered_pps / (1e9 / 672.0) - 1.0).abs() < 1e-3, "{}", last.delivered_pps);
    assert_eq!(stop(&rows), Some((2, Limit::Wire)));
    assert!(last.busy.cpus.iter().all(|&cpu| cpu > 0.1), "all take part: {:?}", last.busy.cpus);
}

#[test]
fn ten_gigabits_scale_with_cpus_as_long_as_nothing_is_shared() {
    // Arrays that hold more than a poll, so that no buffer goes from CPU to CPU.
    let arrays = "{ array = 1024, batch = 512, shared = 0 }".parse::<toml::Value>().unwrap();
    let rows = rows("82598", &[("stack.buffers", arrays)], 256, 0, &[1, 4, 8]);
    assert!(rows.iter().all(|row| row.limit == Limit::Cpus));
    assert!(pps(&rows[1]) > 3.6 * pps(&rows[0]) && pps(&rows[2]) > 1.8 * pps(&rows[1]));
    assert!(stop(&rows).is_none(), "it still goes on");
}

#[test]
fn every_part_can_be_what_stops_it() {
    let lane = [("machine.bus.82598", "pcie-x1".into())];
    let bus = rows("82598", &lane, 256, 0, &[4, 8]);
    assert_eq!(stop(&bus), Some((4, Limit::Bus)));
    let memory = rows("82598", &[("host.memory_mb_per_s", 1000.into())], 256, 0, &[4, 8]);
    assert_eq!(memory[1].limit, Limit::Memory, "{:?}", memory[1].busy);
    let card = rows("82598", &[("nic.rx_engine_ps", 1_000_000.into())], 256, 0, &[4, 8]);
    assert_eq!(stop(&card), Some((4, Limit::Card)));
    // Each needs a microsecond at least, or 432 ns on one lane: nothing got more through than that.
    assert!(pps(&card[1]) < 1e6 && pps(&bus[1]) < 1e9 / 432.0);
    let socket = rows("82598", &[], 256, 4, &[1, 4, 8]);
    assert_eq!(stop(&socket).map(|it| it.1), Some(Limit::Shared));
    // Four lines of 150 ns move under the lock for every frame.
    assert!(pps(&socket[2]) < 1e9 / 600.0 && pps(&socket[2]) > 0.7e9 / 600.0, "{}", pps(&socket[2]));
}

#[test]
fn one_flow_is_one_queues() {
    let rows = rows("82576", &[], 1, 0, &[1, 8]);
    assert!((pps(&rows[1]) / pps(&rows[0]) - 1.0).abs() < 0.02);
    assert_eq!(stop(&rows), Some((1, Limit::SomeCpus)));
    assert_eq!(rows[1].busy.cpus.iter().filter(|&&cpu| cpu > 0.1).count(), 1);
}

#[test]
fn headers_side_by_side_share_cache_lines_and_cost_a_burst() {
    let split = [("nic.header_bytes", 64.into())];
    let [together, apart] = [rows("82576", &[], 256, 0, &[1]), rows("82576", &split, 256, 0, &[1])];
    let [together, apart] = [&together[0], &apart[0]];
    assert_eq!(together.header_misses, Some(1.0));
    // Two to a line of 128 bytes, if both have arrived when the first is read.
    assert!((0.5..0.6).contains(&apart.header_misses.unwrap()), "{:?}", apart.header_misses);
    assert!(pps(apart) > pps(together));
    let more = apart.per_frame.unwrap().bus_transactions - together.per_frame.unwrap().bus_transactions;
    assert!((more - 1.0).abs() < 0.05, "{more}");
}

#[test]
fn equal_trials_are_equal_and_others_are_refused() {
    let [first, second] = [0, 1].map(|_| rows("82576", &[], 64, 0, &[3]));
    assert_eq!((first[0].delivered_pps, &first[0].busy), (second[0].delivered_pps, &second[0].busy));
    let setup = RateLimitedSetup::changed("rss", None, &[]).unwrap();
    let load = Load::of(1e5, Size::MIN).lasting_ms(1, 1);
    let error = |load: &Load, flows, cpus| {
        scale(&setup, &Scaling { load: load.clone(), flows, cpus, shared_lines: 0 }, &|| true)
            .err()
            .unwrap()
            .to_string()
    };
    assert!(error(&load, 1, 9).contains("1 to 8"));
    assert!(error(&load, 1, 0).contains("1 to 8"));
    assert!(error(&load, 0, 1).contains("at least one flow"));
    assert!(error(&load.at(2e6), 1, 1).contains("line rate"));
    let freebsd = RateLimitedSetup::changed("evans2005-xp", None, &[]).unwrap();
    let what = Scaling { load, flows: 1, cpus: 1, shared_lines: 0 };
    assert!(scale(&freebsd, &what, &|| true).err().unwrap().to_string().contains("Linux"));
}

/// 512 KB of frames wait before Tigon-II's receiver, for 78 ms: a trial of 20 ms sees none of its own frames.
#[test]
fn a_queue_longer_than_the_trial_does_not_hide_the_rate() {
    let setup = RateLimitedSetup::changed("rss", Some("tigon-2"), &[]).unwrap();
    let at = |offered_pps: f64| {
        let load = Load::of(offered_pps, Size::MIN).lasting_ms(20, 20);
        let what = Scaling { load, flows: 1, cpus: 1, shared_lines: 0 };
        scale(&setup, &what, &|| true).unwrap().delivered_pps
    };
    // Its engine takes 9.5 us for a frame, beside the way over the bus.
    let full = at(rate::line_rate_pps(setup.link_bits_per_s(), Size::MIN));
    assert!((90e3..1e6 / 9.5).contains(&full), "{full}");
    let light = at(50e3);
    assert!((light / 50e3 - 1.0).abs() < 0.03, "{light}");
}
