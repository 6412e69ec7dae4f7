//! A grid: a trial for each combination of the values of some parameters.

mod maps;
mod page;
mod rows;
mod screen;

pub use page::page;
pub use rows::{outcomes, rows};
pub use screen::screen;
