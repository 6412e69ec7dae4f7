//! Studies: claims and verdicts.

mod page;
mod screen;
pub(crate) mod value;

pub use page::{overview, page};
pub use screen::{figure, screen};
