//! A grid: a trial for each combination of the values of some parameters.

mod csv;
mod maps;
mod page;
mod screen;

pub use csv::csv;
pub use page::page;
pub use screen::screen;
