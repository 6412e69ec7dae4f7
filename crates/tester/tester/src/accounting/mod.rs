//! Where missing frames went: counters of ports, interfaces and kernels before and after a trial, the ledger
//! that is made of them, and the trial's document.

pub(crate) mod counted;
#[cfg(target_os = "linux")]
pub(crate) mod devices;
pub(crate) mod document;
#[cfg(target_os = "linux")]
pub(crate) mod host;
pub mod ledger;
pub mod observe;
pub mod provenance;

pub use counted::{Counted, Counts};
#[cfg(target_os = "linux")]
pub use devices::devices;
pub use document::{capture, document, gaps};
