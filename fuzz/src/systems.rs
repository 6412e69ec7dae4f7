//! What the kernel, guests and QEMU tell, from arbitrary bytes.

/// Reads bytes as what each system tells.
pub fn run(bytes: &[u8]) {
    kpps_ports::fuzzing::read(bytes);
    kpps_tester::observe::read_anything(bytes);
    kpps_qemu::fuzzing::read(bytes);
}
