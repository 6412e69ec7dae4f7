//! How a run goes while it goes on.
//!
//! Who measures tells a [`Progress`] when a trial begins and what became of it, and otherwise writes counters that others
//! may read. A thread of its own, the [`View`], looks some times a second: it reads, and nothing ever waits for it. What it
//! has seen is a [`Snapshot`], which is drawn on the whole screen or told in a line.
//!
//! The view of the whole screen needs the feature `live`. Without it a run is shown in a line.

#[cfg(feature = "live")]
mod draw;
mod line;
mod processor;
mod progress;
mod sample;
#[cfg(feature = "live")]
mod screen;
#[cfg(not(feature = "live"))]
#[path = "no_screen.rs"]
mod screen;
mod view;

#[cfg(feature = "live")]
pub use draw::draw;
pub use line::line;
pub use processor::{Parts, Processor};
pub use progress::{Ended, Progress};
pub use sample::{Counts, Lost, Meter, Rates, Snapshot, Source};
pub use screen::restore;
pub use view::{Show, View};
