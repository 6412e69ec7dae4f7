//! Where frames enter and leave a real system: cards driven from Linux user space.
//!
//! - [`devices`] lists the network cards and hands them over: from the kernel's driver to user
//!   space and back.
//! - A [`Domain`] is memory that several cards share: one IOMMU address space ([`Backend::Vfio`])
//!   or huge pages by physical address ([`Backend::Uio`]).
//! - A [`Card`] is one open card: a [`Place`] for a driver to run in, and [`Interrupts`].
//!
//! ```no_run
//! # #[cfg(target_os = "linux")] {
//! use kpps_ports::{Backend, Card, Domain, devices};
//!
//! let address = "0000:00:10.0".parse()?;
//! devices::bind(address, Backend::Uio, false)?;
//! let domain = Domain::new(Backend::Uio, 16 << 20)?;
//! let card = Card::open(&domain, address)?;
//! let (place, chip) = (card.platform(), card.chip());
//! # }
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
//! All of this is for Linux; elsewhere there are [`UdpPort`](port::UdpPort)s only.
//!
//! `unsafe` is in `window.rs` (registers), in `vfio/ioctl.rs`, `interface.rs`, `socket.rs` and `port/packet/socket.rs` (system
//! calls; those of `port/xdp` and `port/run/steady.rs`, too), and in `port/packet/ring.rs` and `port/xdp/ring.rs` (memory shared with the kernel).

#[cfg(target_os = "linux")]
mod bar;
#[cfg(target_os = "linux")]
mod card;
#[cfg(target_os = "linux")]
mod config;
#[cfg(target_os = "linux")]
pub mod devices;
#[cfg(target_os = "linux")]
mod domain;
mod error;
#[cfg(target_os = "linux")]
pub mod ethtool;
#[cfg(target_os = "linux")]
mod function;
#[cfg(target_os = "linux")]
mod interface;
#[cfg(target_os = "linux")]
mod interrupts;
#[cfg(target_os = "linux")]
mod lines;
#[cfg(target_os = "linux")]
pub mod netlink;
pub mod pci;
#[cfg(target_os = "linux")]
mod physical;
pub mod port;
#[cfg(target_os = "linux")]
mod socket;
mod spec;
#[cfg(unix)]
mod sys;
#[cfg(target_os = "linux")]
mod system;
#[cfg(target_os = "linux")]
mod vfio;
#[cfg(target_os = "linux")]
mod window;

#[cfg(target_os = "linux")]
pub use card::{Card, Place};
#[cfg(target_os = "linux")]
pub use domain::Domain;
pub use error::Error;
#[cfg(target_os = "linux")]
pub use interrupts::Interrupts;
pub use spec::{Backend, Spec};
#[cfg(unix)]
pub use sys::{CpuTime, cpu_time};
#[cfg(target_os = "linux")]
pub use window::Window;
