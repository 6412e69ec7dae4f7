//! The whole driver against a hostile device: see `kpps_faults::hostile`, which has the checks. The property
//! test `hostile` of the driver runs the same on random bytes.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    kpps_faults::hostile::live(input);
});
