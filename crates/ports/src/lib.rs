//! Where frames enter and leave a real system: cards driven from Linux user space.
//!
//! - [`devices`] lists the network cards and hands them over: from the kernel's driver to user
//!   space and back.
//! - A [`Domain`] is memory that several cards share: one IOMMU address space ([`Backend::Vfio`])
//!   or huge pages by physical address ([`Backend::Uio`]).
//! - A [`Card`] is one open card: a [`Place`] for a driver to run in, and [`Interrupts`].
//!
//! ```no_run
//! use kpps_ports::{Backend, Card, Domain, devices};
//!
//! let address = "0000:00:10.0".parse()?;
//! devices::bind(address, Backend::Uio, false)?;
//! let domain = Domain::new(Backend::Uio, 16 << 20)?;
//! let card = Card::open(&domain, address)?;
//! let (place, chip) = (card.platform(), card.chip());
//! # Ok::<(), kpps_ports::Error>(())
//! ```
//!
//! A card has one user at a time; its lock ends with the process, so that nothing is in the way
//! of the next one, however this one ended. What a dead process left behind in a card is
//! stopped before the card may touch memory again.
//!
//! VFIO without an IOMMU (`enable_unsafe_noiommu_mode`) takes huge pages by physical address, as UIO does. Debian's kernels
//! are built without it.
//!
//! `unsafe` is in `window.rs` (registers), in `vfio/ioctl.rs`, `interface.rs`, `socket.rs` and `port/packet/socket.rs` (system
//! calls; those of `port/xdp`, too), and in `port/packet/ring.rs` and `port/xdp/ring.rs` (memory shared with the kernel).

mod card;
mod config;
pub mod devices;
mod domain;
mod error;
pub mod ethtool;
mod interface;
mod interrupts;
pub mod netlink;
pub mod pci;
mod physical;
pub mod port;
mod socket;
mod spec;
mod system;
mod vfio;
mod window;

pub use card::{Card, Place};
pub use domain::Domain;
pub use error::Error;
pub use interrupts::Interrupts;
pub use spec::{Backend, Spec};
pub use window::Window;
