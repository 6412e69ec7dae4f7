//! Studies: what they claim, and what was found.

mod page;
mod screen;
pub(crate) mod value;

pub use page::page;
pub use screen::{figure, screen};
