//! The messages between tester and agent, from arbitrary bytes.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| kpps_agent::fuzzing::read(bytes));
