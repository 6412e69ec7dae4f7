//! The fuzz targets: what reads something that others wrote, on arbitrary bytes. Each target panics if a
//! promise is broken.
//!
//! `fuzz/run.sh` lets libFuzzer look for bytes that reach something new, and a test repeats its findings.

mod apps;
mod arguments;
mod arrivals;
mod connections;
mod device;
mod documents;
mod driver;
mod frames;
mod guest;
mod journals;
mod messages;
mod otg;
mod systems;

use arbitrary::{Arbitrary, Unstructured};

/// Runs a target on bytes.
pub type Target = fn(&[u8]);

/// The targets by name. The inputs of each are in the file of this name in `fuzz/inputs`.
pub const TARGETS: [(&str, Target); 13] = [
    ("apps", |bytes| drawn(bytes, apps::run)),
    ("arguments", |bytes| text(bytes, arguments::run)),
    ("arrivals", arrivals::run),
    ("connections", |bytes| drawn(bytes, connections::run)),
    ("device", |bytes| drawn(bytes, device::run)),
    ("documents", |bytes| text(bytes, documents::run)),
    ("driver", driver::run),
    ("frames", frames::run),
    ("guest", |bytes| drawn(bytes, guest::run)),
    ("journals", journals::run),
    ("messages", messages::run),
    ("otg", otg::run),
    ("systems", systems::run),
];

/// Runs a target on the input that is drawn from the bytes, if they are enough.
fn drawn<'b, T: Arbitrary<'b>>(bytes: &'b [u8], run: fn(T)) {
    if let Ok(input) = T::arbitrary_take_rest(Unstructured::new(bytes)) {
        run(input);
    }
}

/// Runs a target on the text that the bytes begin with.
fn text(bytes: &[u8], run: fn(&str)) {
    drawn(bytes, run);
}
