//! TCP connections opened, used and closed at a rate, or held, through a device under test.
//!
//! An [`Endpoint`] is one end of many connections: a client that opens them, or a server. It is a state
//! machine without input and output: segments and the time go in, segments come out. The kernel has no part
//! in it, so a connection costs a few hundred nanoseconds, and no limit of the kernel's stack is measured in
//! place of the device's.
#![forbid(unsafe_code)]

mod connection;
mod content;
mod counts;
mod end;
mod endpoint;
#[cfg(any(test, feature = "fuzzing"))]
pub mod fuzzing;
mod run;
mod segment;
mod sequence;
mod timers;
mod trials;

pub use connection::{Output, Role, Rules, Until};
pub use content::Content;
pub use counts::{Counts, Phase, Phases, Retransmitted, Times};
pub use end::{End, resolve};
pub use endpoint::{Endpoint, FIRST_PORT, NoFreePort, PORTS, Sockets};
pub use run::{Course, Load, run};
pub use segment::{MOST_HEADER_BYTES, Refused, Segment, Sending, Socket, Tuple};
pub use sequence::Sequence;
pub use trials::{Client, Find, Messages, Plan};

#[cfg(test)]
mod tests;
