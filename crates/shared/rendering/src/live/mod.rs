//! The live view of a run.
//!
//! A measurement reports the begin and the result of each trial to a [`Progress`]. During a trial it updates
//! counters. The [`View`] is a thread that reads both a few times per second and never blocks the
//! measurement. It makes a [`Snapshot`], which is drawn on the whole screen or printed as a line.
//!
//! The full-screen view needs the feature `live`. Without it a run is shown as a line.

pub mod choice;
mod cpu;
#[cfg(feature = "live")]
mod draw;
#[cfg(feature = "live")]
mod keys;
mod line;
mod progress;
mod sample;
#[cfg(feature = "live")]
mod screen;
#[cfg(not(feature = "live"))]
#[path = "no_screen.rs"]
mod screen;
mod view;

pub use cpu::{LiveCpu, Parts};
#[cfg(feature = "live")]
pub use draw::draw;
pub use line::line;
pub use progress::{Ended, Progress, SoFar};
pub use sample::{Counts, Footer, Lost, Meter, RateKey, Rates, Snapshot, Source, StreamCount};
pub use screen::restore;
pub use view::{Show, View};
