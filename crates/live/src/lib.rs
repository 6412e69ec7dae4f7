//! How a run goes while it goes on.
//!
//! Who measures tells a [`Progress`] when a trial begins and what became of it, and otherwise writes counters that others
//! may read. A thread of its own, the [`View`], looks some times a second: it reads, and nothing ever waits for it. What it
//! has seen is a [`Snapshot`], which is drawn on the whole screen or told in a line.
#![forbid(unsafe_code)]

mod draw;
mod line;
mod progress;
mod sample;
mod view;

pub use draw::draw;
pub use line::line;
pub use progress::{Ended, Progress};
pub use sample::{Counts, Lost, Meter, Parts, Processor, Rates, Snapshot, Source};
pub use view::{Show, View, restore};
