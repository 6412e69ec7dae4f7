//! Studies: claims and verdicts.

mod page;
mod screen;
pub(crate) mod value;

pub use page::page;
pub use screen::{figure, screen};
