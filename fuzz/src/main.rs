//! Runs libFuzzer on the target that `KPPS_FUZZ` names: see `fuzz/run.sh`.
#![no_main]

use kpps_fuzz::{TARGETS, Target};
use libfuzzer_sys::fuzz_target;
use std::sync::LazyLock;

static TARGET: LazyLock<Target> = LazyLock::new(|| {
    let name = std::env::var("KPPS_FUZZ").unwrap_or_default();
    let named = TARGETS.iter().find(|(target, _)| *target == name);
    let names = TARGETS.map(|(name, _)| name).join(", ");
    named.unwrap_or_else(|| panic!("KPPS_FUZZ names no target, {name:?}: give one of {names}")).1
});

// Work that a target does only once comes first, so that libFuzzer counts it to no input.
fuzz_target!(init: TARGET(&[]), |bytes: &[u8]| TARGET(bytes));
