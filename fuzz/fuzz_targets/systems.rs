//! What the kernel, guests and QEMU tell, from arbitrary bytes.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    kpps_ports::fuzzing::read(bytes);
    kpps_tester::observe::read_anything(bytes);
    kpps_qemu::fuzzing::read(bytes);
});
