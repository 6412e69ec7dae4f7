//! Driver, card model and applications under faults that a seed decides, and the invariants that must hold
//! whatever happens.
//!
//! A [`WorldPlan`] is a world drawn from a seed: chip, driver, use, traffic, and how often each kind of
//! [`Fault`] happens. [`live`] runs it in virtual time: the driver on the model of the card, the model behind
//! a bus, a memory, an interrupt and a cable that fail. Equal plans give equal outcomes.
//!
//! [`hostile`] goes further with the device alone: it may do anything at any time.
//!
//! ```
//! let outcome = kpps_faults::live(&kpps_faults::WorldPlan::random(7), false);
//! assert!(outcome.breach.is_none());
//! ```
#![forbid(unsafe_code)]

mod audit;
mod buffers;
mod campaign;
mod card;
mod check;
mod exam;
mod fault;
mod host;
mod host_faults;
pub mod hostile;
mod plan;
mod port;
mod resets;
mod send;
mod smaller;
mod station;
mod traffic;
mod world;

pub use campaign::{campaign, traced};
pub use check::Breach;
pub use fault::{Fault, Harm, Site};
pub use host::Layout;
pub use plan::{Sending, Use, WorldPlan};
pub use port::Reached;
pub use smaller::smallest;
pub use world::{Outcome, RECOVERY_PS, SLOW_RECOVERY_PS, live};
