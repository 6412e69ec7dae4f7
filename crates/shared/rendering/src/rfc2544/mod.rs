//! Throughput over frame sizes, and the other tests of RFC 2544.

mod page;
mod rates;
mod screen;

pub use page::{rfc2544 as page, sizes as sizes_page};
pub use screen::{rfc2544 as screen, sizes as sizes_screen};
