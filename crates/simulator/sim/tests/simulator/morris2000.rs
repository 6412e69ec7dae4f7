//! The machine of Morris 2000 beyond what its study claims (`studies/morris2000.toml`, judged in
//! `crates/shared/study`): what holds for any driver.

use kpps_documents::Trial;
use kpps_frames::Size;
use kpps_methods::{Load, Testbed};
use kpps_sim::{Receiving, Setup};

const LINE_PPS: f64 = 1_488_095.2;

fn setup(chip: &str, driver: &str) -> Setup {
    Setup::named("morris2000", Some(chip), driver).unwrap()
}

fn receive(setup: &Setup, offered_pps: f64) -> Trial {
    receive_after(setup, offered_pps, 10)
}

fn receive_after(setup: &Setup, offered_pps: f64, warmup_ms: u32) -> Trial {
    let load = Load::of(offered_pps, Size::MIN).lasting_ms(warmup_ms, 30);
    Receiving::new(setup.clone()).trial(&load).unwrap()
}

fn delivered_pps(trial: &Trial) -> f64 {
    trial.delivered as f64 / trial.seconds
}

#[test]
fn nothing_is_delivered_that_was_not_sent() {
    for (chip, size, offered) in
        [("82545em", 1518, 24_382.0), ("82543gc", 64, 654_321.0), ("82540em", 64, 100e3)]
    {
        for driver in ["intel-2.5.11", "intel-2.5.11-tuned", "intel-5.7.6", "kpps"] {
            let size = Size::with_fcs(size);
            let load = Load::of(offered, size).lasting_ms(10, 20);
            let trial = Receiving::new(setup(chip, driver)).trial(&load).unwrap();
            assert!(trial.delivered <= trial.sent, "{chip} {driver}: {} of {}", trial.delivered, trial.sent);
            assert!((trial.sent as f64 - offered * trial.seconds).abs() <= 1.0);
        }
    }
}

#[test]
fn our_preset_needs_no_tuning() {
    let others = ["intel-2.5.11", "intel-2.5.11-tuned", "click-polling", "intel-5.7.6"];
    for chip in ["82542", "82543gc", "82544", "82540em", "82545em", "82546eb", "82574l"] {
        let ours = setup(chip, "kpps");
        for offered in (1..15).map(|k| f64::from(k) * 1e5).chain([LINE_PPS]) {
            let trial = receive(&ours, offered);
            for other in others {
                let theirs = delivered_pps(&receive(&setup(chip, other), offered));
                let delivered = delivered_pps(&trial);
                assert!(delivered >= 0.99 * theirs, "{chip} at {offered}: {delivered}, {other} has {theirs}");
            }
            if offered <= 500e3 {
                assert!(trial.latency_ns.p999.unwrap() < 20_000, "{chip} at {offered}: latency");
            }
            assert_eq!(trial.allocations_per_frame, Some(0.0), "{chip} at {offered}: buffers are recycled");
            // Registers are read in interrupts and on the way to sleep, never for a frame.
            let (interrupts, taken) = (trial.interrupts().unwrap(), trial.taken.unwrap());
            let [reads, _] = trial.register_accesses().unwrap();
            let most = 3.0 * interrupts as f64 + 0.02 * taken as f64;
            assert!(reads as f64 <= most, "{chip} at {offered}: {reads} reads");
        }
    }
}

#[test]
fn polling_reads_no_register_and_never_interrupts() {
    let trial = receive(&setup("82543gc", "click-polling"), LINE_PPS);
    let registers = trial.registers_per_frame.unwrap();
    assert_eq!(registers.read, 0.0);
    // Write-backs come in pairs on a host with 32-byte cache lines, so a burst has two frames and one tail
    // write.
    assert!(registers.write <= 0.51, "{}", registers.write);
    assert_eq!(trial.interrupts(), Some(0));
}

#[test]
fn equal_seeds_give_equal_trials_and_other_seeds_shift_the_frames() {
    let run = |seed| {
        let load = Load::of(123_456.0, Size::MIN).lasting_ms(1, 5).with_seed(seed);
        let trial = Receiving::new(setup("82543gc", "kpps")).trial(&load).unwrap();
        (trial.ledger, trial.latency_ns.p50, trial.registers_per_frame)
    };
    assert_eq!(run(1), run(1));
    assert!((2..12).any(|seed| run(seed) != run(1)));
}
