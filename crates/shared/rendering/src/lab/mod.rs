//! Drivers that took turns on one card in a guest, on a terminal and as a page.

mod page;
mod screen;

pub use page::page;
pub use screen::table;
