//! Readers of reports of the kernel, of guests and of QEMU, with arbitrary bytes.

/// Reads bytes as a report of each system.
pub fn run(bytes: &[u8]) {
    kpps_linux::fuzzing::read(bytes);
    kpps_tester::observe::read_anything(bytes);
    kpps_qemu::fuzzing::read(bytes);
}
