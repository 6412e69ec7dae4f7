//! The whole driver against a hostile device: see `kpps_faults::hostile`, which has the checks. The property
//! test `hostile` of the driver runs it on random bytes.

/// Lives a life of the driver with the device and the user that the bytes describe.
pub fn run(input: &[u8]) {
    kpps_faults::hostile::live(input);
}
