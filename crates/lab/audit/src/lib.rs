//! The 8254x model as a card of a guest: what an unmodified driver does to it, for each frame.
//!
//! A stock kernel boots in QEMU, and its cards are models in this process, which QEMU reaches by the
//! vfio-user protocol. The guest's driver cannot distinguish them from a card. Here every access to a
//! register, every burst on the bus and every breach of the manual is counted.
//!
//! - [`Cards`]: models on their cables, as a state machine without threads and without QEMU. Of one card:
//!   `pci`, its configuration space; `msix`, its table of vectors; `memory`, the guest's memory; `rules`, the
//!   manual's rules for drivers.
//! - [`Server`]: [`Cards`] for a QEMU, in real time.
//! - [`responder`]: a station in this process at the other end of a card's cable.
//! - [`AuditPlan`]: drivers of stock kernels and workloads in turns; the document
//!   [`kpps_documents::audit::Audit`].
//! - [`GuestPlan`]: a foreign guest; the document [`kpps_documents::guest_audit::GuestAudit`].
//!
//! **Time is not synchronised.** The cards live by the host's clock, and the guest runs as fast as the host
//! emulates it. Counts for each frame are valid at the load that is reported beside them. Rates, losses and
//! latencies would be those of the emulation, so none is reported.
//!
//! ```
//! use kpps_audit::{Access, Cable, Cards};
//! use kpps_datasheet::{Chip, reg};
//! use kpps_profiles::{Kind, Profile};
//!
//! let bus = Profile::named(Kind::Bus, "pci-32-33")?.get()?;
//! let card = (Cable::Open, [2, 0, 0, 0, 0, 1]);
//! let mut cards = Cards::new(&kpps_card::Params::of(Chip::I82540em), &bus, &[card]);
//! let mut status = [0; 4];
//! cards.read(0, 0, Access::Registers, reg::STATUS.into(), &mut status);
//! assert_eq!(cards.counts(0).reads["STATUS"], 1);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![forbid(unsafe_code)]

mod bound;
mod cards;
mod guest;
mod memory;
mod msix;
mod pci;
mod plan;
pub mod responder;
mod rules;
mod serve;
mod traffic;

pub use bound::Bound;
pub use cards::{Access, Cable, Cards, Coming, Counts, Next, Offer, Partner, Sink};
#[cfg(feature = "fuzzing")]
pub use guest::Script;
pub use guest::{Beside, FaultKind, Faults, GuestPlan, Quirk, SetupFile, Stimulus, Typed};
pub use kpps_documents::guest_audit::Severity;
pub use plan::AuditPlan;
pub use rules::{Breach, Rule};
pub use serve::Server;
pub use traffic::Numbered;
