//! The live view of a run.
//!
//! The measurement tells a [`Progress`] when a trial begins and what its result is. Within a trial it writes
//! counters that others may read. The [`View`] is a thread that reads them a few times per second; nothing
//! waits for it. It makes a [`Snapshot`], which is drawn on the whole screen or printed as a line.
//!
//! The view of the whole screen needs the feature `live`. Without it a run is shown in a line.

pub mod choice;
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
