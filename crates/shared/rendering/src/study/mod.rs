//! Studies: claims and verdicts.

mod constants;
mod evidence;
mod page;
mod screen;
pub(crate) mod value;

pub use constants::{cross_validation, drawn, fit, perturbation};
pub use page::{overview, page};
pub use screen::{figure, screen};
