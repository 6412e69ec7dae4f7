//! The simulated results as tables: whoever changes a figure sees which, and by how much.

use kpps_frames::Size;
use kpps_methods::{Load, Testbed};
use kpps_sim::{Receiving, Setup, transmit};
use std::fmt::Write;

const DRIVERS: [&str; 6] =
    ["intel-2.5.11", "intel-2.5.11-tuned", "intel-2.5.11-fix", "click-polling", "intel-5.7.6", "kpps"];

fn receive_table(chip: &str, size: Size, loads: &[f64]) -> String {
    let mut table = String::new();
    let header = "driver                offered  delivered   fifo  ring  backlog  queue   irqs/s  reads  writes    p50 ns    max ns";
    writeln!(table, "{header}").unwrap();
    for driver in DRIVERS {
        let mut testbed = Receiving::new(Setup::named("morris2000", Some(chip), driver).unwrap());
        for &offered_pps in loads {
            let load = Load::of(offered_pps, size).lasting_ms(5, 10);
            let t = testbed.trial(&load).unwrap();
            let lost = |place: &str| t.ledger.dropped.get(place).copied().unwrap_or(0);
            writeln!(
                table,
                "{driver:18} {offered_pps:>10.0} {:>10.0} {:>6} {:>5} {:>8} {:>6} {:>8.0} {:>6} {:>7} {:>9} {:>9}",
                t.delivered as f64 / t.seconds,
                lost("fifo"),
                lost("ring"),
                lost("backlog"),
                lost("queue"),
                t.interrupts_per_s.unwrap(),
                t.register_accesses().unwrap()[0],
                t.register_accesses().unwrap()[1],
                t.latency_ns.p50.unwrap_or(0),
                t.latency_ns.max.unwrap_or(0),
            )
            .unwrap();
        }
    }
    table
}

#[test]
fn receive_82543gc() {
    insta::assert_snapshot!(receive_table("82543gc", Size::MIN, &[100e3, 300e3, 500e3, 700e3, 1_488_095.0]));
}

#[test]
fn receive_82542() {
    insta::assert_snapshot!(receive_table("82542", Size::MIN, &[100e3, 300e3, 1_488_095.0]));
}

#[test]
fn receive_82540em_with_interrupt_throttling() {
    insta::assert_snapshot!(receive_table("82540em", Size::MIN, &[100e3, 700e3, 1_488_095.0]));
}

#[test]
fn receive_full_sized_frames() {
    insta::assert_snapshot!(receive_table("82543gc", Size::MAX_STANDARD, &[20e3, 81_274.0]));
}

#[test]
fn transmit_on_each_chip() {
    let mut table = String::new();
    writeln!(
        table,
        "chip     driver                    sent  card idle   irqs/s   reads  writes  (per frame)"
    )
    .unwrap();
    for chip in ["82542", "82543gc", "82544", "82540em", "82545em", "82546eb", "82574l"] {
        for driver in DRIVERS {
            let setup = Setup::named("morris2000", Some(chip), driver).unwrap();
            let t = transmit(&setup, Size::MIN, 5, 20).unwrap();
            let (reads, writes) = t.registers_per_frame.unwrap();
            writeln!(
                table,
                "{chip:8} {driver:18} {:>11.0} {:>10.4} {:>8.0} {reads:>7.4} {writes:>7.4}",
                t.pps, t.card_idle, t.interrupts_per_s
            )
            .unwrap();
        }
    }
    insta::assert_snapshot!(table);
}
