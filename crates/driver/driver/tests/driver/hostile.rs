//! The driver against a device that may do anything: see [`kpps_faults::hostile`], which has the checks.

use kpps_datasheet::Chip;
use kpps_faults::hostile::{self, Seen};

/// Lives that are tried for each chip.
const LIVES: u64 = 300;

/// Bytes from a seed: some hundred calls, and as many lies as they have room for.
fn bytes(chip: u8, seed: u64) -> Vec<u8> {
    let mut random = fastrand::Rng::with_seed(seed << 8 | u64::from(chip));
    let mut bytes = vec![0; random.usize(16..2_000)];
    random.fill(&mut bytes);
    bytes[0] = chip;
    bytes
}

#[test]
fn a_hostile_device_harms_no_driver() {
    for (index, chip) in (0..).zip(Chip::E1000) {
        let mut all = Seen::default();
        let mut longest = Seen::default();
        for seed in 0..LIVES {
            let input = bytes(index, seed);
            assert_eq!(hostile::chip(&input), chip);
            let life = std::panic::catch_unwind(|| hostile::live(&input));
            let Ok(seen) = life else { panic!("{}: the life of seed {seed}", chip.name()) };
            all.calls += seen.calls;
            all.lies += seen.lies;
            all.starts += seen.starts;
            all.failed_starts += seen.failed_starts;
            all.received += seen.received;
            all.dropped += seen.dropped;
            all.sent += seen.sent;
            all.reclaimed += seen.reclaimed;
            all.found_out += seen.found_out;
            longest.start_waits_ns = longest.start_waits_ns.max(seen.start_waits_ns);
            longest.start_reads = longest.start_reads.max(seen.start_reads);
            longest.call_waits_ns = longest.call_waits_ns.max(seen.call_waits_ns);
            longest.call_reads = longest.call_reads.max(seen.call_reads);
        }
        println!("{}: {all:?}, at most {longest:?}", chip.name());
        // The driver gets far enough to be attacked everywhere.
        assert!(all.starts > LIVES && all.failed_starts > LIVES / 10, "{all:?}");
        assert!(all.received > LIVES && all.sent > LIVES && all.reclaimed > LIVES, "{all:?}");
        assert!(all.dropped > LIVES / 4, "{all:?}");
        assert!(all.lies > 10 * LIVES && all.found_out > LIVES / 20, "{all:?}");
    }
}

/// Equal inputs give identical runs: a failure can be repeated.
#[test]
fn a_life_repeats() {
    for chip in 0..Chip::E1000.len() as u8 {
        let input = bytes(chip, 1);
        assert_eq!(hostile::live(&input), hostile::live(&input));
    }
}
