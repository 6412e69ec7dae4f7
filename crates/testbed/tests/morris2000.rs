//! The claims of Morris 2000 (`studies/morris2000.toml`) that the machine room must show, each by its id.
//!
//! Constants are fitted only on M1, M2, M3, M7 and M9; the others are consequences.
#![allow(clippy::unwrap_used)]

use kpps_bench::{Load, Testbed, Trial};
use kpps_frames::Size;
use kpps_testbed::{Setup, Simulated, Transmit, transmit};

const LINE_PPS: f64 = 1_488_095.2;
const CHIPS: [&str; 2] = ["82542", "82543gc"];

fn setup(chip: &str, driver: &str) -> Setup {
    Setup::named("morris2000", Some(chip), driver).unwrap()
}

fn receive(setup: &Setup, offered_pps: f64) -> Trial {
    receive_after(setup, offered_pps, 10)
}

fn receive_after(setup: &Setup, offered_pps: f64, warmup_ms: u32) -> Trial {
    let load = Load { offered_pps, size: Size::MIN, warmup_ms, duration_ms: 30, seed: 1 };
    Simulated::new(setup.clone()).trial(&load).unwrap()
}

fn delivered_pps(trial: &Trial) -> f64 {
    trial.delivered as f64 / trial.seconds
}

fn send(chip: &str, driver: &str) -> Transmit {
    transmit(&setup(chip, driver), Size::MIN, 10, 50).unwrap()
}

/// The highest delivered rate over loads in steps of 10,000, and the load at which it is reached.
fn peak(setup: &Setup) -> (f64, f64) {
    (10..60)
        .map(|k| f64::from(k) * 1e4)
        .map(|offered| (delivered_pps(&receive(setup, offered)), offered))
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .unwrap()
}

fn assert_within(what: &str, value: f64, low: f64, high: f64) {
    assert!((low..=high).contains(&value), "{what}: {value}, not within {low} to {high}");
}

#[test]
fn m1_m7_polling_receives_680_000_and_the_card_is_the_limit() {
    for chip in CHIPS {
        for offered in [1.0e6, 1.2e6, LINE_PPS] {
            let trial = receive(&setup(chip, "click-polling"), offered);
            assert_within(chip, delivered_pps(&trial), 680e3 * 0.95, 680e3 * 1.05);
            assert!(trial.cpu.empty_polls > 0.1, "{chip}: the CPU has time left: {:?}", trial.cpu);
            let dropped = &trial.ledger.dropped;
            assert_eq!(dropped["fifo"], dropped.values().sum::<u64>(), "{chip}: all loss is in the card");
        }
    }
}

#[test]
fn m2_m3_sending_with_the_completion_fix() {
    assert_within("82542", send("82542", "intel-2.5.11-fix").pps, 523e3 * 0.95, 523e3 * 1.05);
    assert_within("82543gc", send("82543gc", "intel-2.5.11-fix").pps, 840e3 * 0.95, 840e3 * 1.05);
}

#[test]
fn m5_as_shipped_the_driver_gets_half_of_what_the_cards_can_do() {
    for chip in CHIPS {
        let sent = send(chip, "intel-2.5.11").pps / send(chip, "intel-2.5.11-fix").pps;
        assert_within(&format!("{chip} sending"), sent, 0.38, 0.52);
        let best = delivered_pps(&receive(&setup(chip, "click-polling"), LINE_PPS));
        assert_within(&format!("{chip} receiving"), peak(&setup(chip, "intel-2.5.11")).0 / best, 0.38, 0.52);
    }
}

#[test]
fn m9_as_shipped_the_driver_receives_at_most_300_000() {
    assert_within("peak", peak(&setup("82543gc", "intel-2.5.11")).0, 270e3, 330e3);
}

#[test]
fn m10_above_the_peak_the_driver_livelocks() {
    for chip in CHIPS {
        let setup = setup(chip, "intel-2.5.11");
        let (peak_pps, at) = peak(&setup);
        let mut last = peak_pps;
        for offered in [at + 50e3, 500e3, 700e3, 1.0e6, LINE_PPS] {
            let trial = receive(&setup, offered);
            let delivered = delivered_pps(&trial);
            assert!(delivered <= last * 1.01, "{chip}: delivered rises again at {offered}");
            assert!(trial.cpu.busy() > 0.99, "{chip}: the CPU is always busy: {:?}", trial.cpu);
            last = delivered;
        }
        assert!(last <= 0.5 * peak_pps, "{chip}: {last} at line rate of a peak of {peak_pps}");
    }
}

#[test]
fn m11_because_each_frame_interrupts() {
    for offered in [50e3, 100e3, 200e3, 280e3] {
        let trial = receive(&setup("82543gc", "intel-2.5.11"), offered);
        assert_within("interrupts per frame", trial.interrupts as f64 / trial.delivered as f64, 0.95, 1.05);
    }
}

#[test]
fn m12_sending_waits_for_delayed_completions() {
    for chip in CHIPS {
        assert!(send(chip, "intel-2.5.11").card_idle > 0.25, "{chip} as shipped");
        assert!(send(chip, "intel-2.5.11-fix").card_idle < 0.01, "{chip} with the fix");
    }
}

/// The tuned driver with another ring and delay (in ticks of 1.024 us).
fn tuned(ring: u16, delay: u16) -> Setup {
    let mut setup = setup("82543gc", "intel-2.5.11-tuned");
    setup.config.rx_ring = ring;
    setup.config.moderation.rdtr = delay;
    setup
}

#[test]
fn m13_a_delay_bounds_the_rate_by_a_ring_for_each_delay() {
    for (ring, delay) in [(80, 128), (80, 200), (80, 400), (80, 1000), (128, 250), (256, 500), (256, 1000)] {
        let bound = f64::from(ring) / (f64::from(delay) * 1.024e-6);
        for offered in [400e3, 700e3, LINE_PPS] {
            // Long enough for a full FIFO, which hides an overload until then.
            let trial = receive_after(&tuned(ring, delay), offered, 100);
            let delivered = delivered_pps(&trial);
            // A measured time that is no multiple of the delay may see one interrupt more than its share.
            let most = bound + f64::from(ring) / trial.seconds;
            assert!(delivered <= most, "ring {ring}, delay {delay}: {delivered} above {bound}");
        }
    }
    assert_eq!((80.0f64 / 128e-6).round(), 625_000.0);
    assert_eq!((80.0f64 / (128.0 * 1.024e-6)).round(), 610_352.0);
}

#[test]
fn m16_too_short_a_delay_livelocks_and_too_long_a_delay_drops_while_idle() {
    let short = tuned(80, 1);
    let (peak_pps, _) = peak(&short);
    let overload = receive(&short, LINE_PPS);
    assert!(delivered_pps(&overload) < 0.5 * peak_pps, "too short a delay livelocks");
    assert!(overload.cpu.busy() > 0.99);

    let long = receive(&tuned(80, 1000), 300e3);
    assert!(
        long.ledger.dropped["ring"] > 0,
        "too long a delay drops for lack of descriptors: {:?}",
        long.ledger
    );
    assert!(long.cpu.busy() < 0.5, "while the CPU is idle: {:?}", long.cpu);
}

#[test]
fn m18_polling_stays_flat() {
    for chip in CHIPS {
        let setup = setup(chip, "click-polling");
        let best = [600e3, 700e3, 800e3, 1.0e6, 1.2e6]
            .into_iter()
            .map(|offered| delivered_pps(&receive(&setup, offered)))
            .fold(0.0, f64::max);
        assert!(delivered_pps(&receive(&setup, LINE_PPS)) >= 0.98 * best, "{chip}");
    }
}

#[test]
fn m19_m20_other_cards_by_their_pace() {
    for (chip, pps) in [("tigon-2", 100e3), ("sk-9843", 250e3)] {
        assert_within(chip, send(chip, "intel-2.5.11-fix").pps, pps * 0.8, pps * 1.2);
    }
}

#[test]
fn m21_a_program_at_user_level_is_far_slower() {
    let user = |driver| Setup::named("morris2000-user", Some("82543gc"), driver).unwrap();
    let sent = transmit(&user("intel-2.5.11-fix"), Size::MIN, 10, 50).unwrap().pps;
    let received = peak(&user("intel-2.5.11")).0;
    let (kernel_sends, kernel_receives) = (
        send("82543gc", "intel-2.5.11-fix").pps,
        delivered_pps(&receive(&setup("82543gc", "click-polling"), LINE_PPS)),
    );
    assert!(kernel_sends > 2.0 * sent, "sending: {kernel_sends} against {sent}");
    assert!(kernel_receives > 3.0 * received, "receiving: {kernel_receives} against {received}");
    let overload = delivered_pps(&receive(&user("intel-2.5.11"), LINE_PPS));
    assert!(overload < 0.1 * received, "and it livelocks: {overload}");
}

#[test]
fn nothing_is_delivered_that_was_not_sent() {
    for (chip, size, offered) in
        [("82545em", 1518, 24_382.0), ("82543gc", 64, 654_321.0), ("82540em", 64, 100e3)]
    {
        for driver in ["intel-2.5.11", "intel-2.5.11-tuned", "intel-2.5.11-delay", "intel-5.7.6", "kpps"] {
            let size = Size::with_fcs(size);
            let load = Load { offered_pps: offered, size, warmup_ms: 10, duration_ms: 20, seed: 1 };
            let trial = Simulated::new(setup(chip, driver)).trial(&load).unwrap();
            assert!(trial.delivered <= trial.sent, "{chip} {driver}: {} of {}", trial.delivered, trial.sent);
            assert!((trial.sent as f64 - offered * trial.seconds).abs() <= 1.0);
        }
    }
}

#[test]
fn our_preset_needs_no_tuning() {
    let others = ["intel-2.5.11", "intel-2.5.11-tuned", "click-polling", "intel-5.7.6"];
    for chip in ["82542", "82543gc", "82544", "82540em", "82545em", "82546eb"] {
        let ours = setup(chip, "kpps");
        for offered in (1..15).map(|k| f64::from(k) * 1e5).chain([LINE_PPS]) {
            let trial = receive(&ours, offered);
            for other in others {
                let theirs = delivered_pps(&receive(&setup(chip, other), offered));
                let delivered = delivered_pps(&trial);
                assert!(delivered >= 0.99 * theirs, "{chip} at {offered}: {delivered}, {other} has {theirs}");
            }
            if offered <= 500e3 {
                assert!(trial.latency.quantile_ns(0.999) < 20_000, "{chip} at {offered}: latency");
            }
            assert_eq!(trial.allocations, 0, "{chip} at {offered}: buffers are recycled");
            // Registers are read in interrupts and on the way to sleep, never for a frame.
            let most = 3.0 * trial.interrupts as f64 + 0.02 * trial.taken as f64;
            assert!(
                trial.register_reads as f64 <= most,
                "{chip} at {offered}: {} reads",
                trial.register_reads
            );
        }
    }
}

#[test]
fn polling_reads_no_register_and_never_interrupts() {
    let trial = receive(&setup("82543gc", "click-polling"), LINE_PPS);
    assert_eq!(trial.register_reads, 0);
    // Write-backs come in pairs on a host with 32-byte cache lines, so a burst has two frames and one tail write.
    assert!(trial.register_writes as f64 <= 0.51 * trial.taken as f64, "{}", trial.register_writes);
    assert_eq!(trial.interrupts, 0);
}

#[test]
fn equal_seeds_give_equal_trials_and_other_seeds_shift_the_frames() {
    let run = |seed| {
        let load = Load { offered_pps: 123_456.0, size: Size::MIN, warmup_ms: 1, duration_ms: 5, seed };
        let trial = Simulated::new(setup("82543gc", "kpps")).trial(&load).unwrap();
        (trial.ledger, trial.latency.quantile_ns(0.5), trial.register_writes)
    };
    assert_eq!(run(1), run(1));
    assert!((2..12).any(|seed| run(seed) != run(1)));
}
