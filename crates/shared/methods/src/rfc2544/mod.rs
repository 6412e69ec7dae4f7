//! RFC 2544: throughput, latency, frame loss rate, back-to-back frames, recovery from overload, reset.

mod procedures;
mod run;

pub use procedures::{corrected_buffer_s, frame_loss, longest_burst, mean};
pub use run::{Rfc2544Plan, Test, run};
