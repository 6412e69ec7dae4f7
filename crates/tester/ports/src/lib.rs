//! Where frames enter and leave a real system: Linux's interfaces, UDP sockets, and e1000 cards driven from
//! user space.
//!
//! - [`port`] has the ports, and the loops that send, count and forward.
//! - [`devices`] lists network cards, and moves them between the kernel's driver and user space.
//! - A [`Domain`] is memory that several cards share: one IOMMU address space ([`Backend::Vfio`]) or huge
//!   pages by physical address ([`Backend::Uio`]).
//! - A [`Card`] is an open card: a [`Place`] is the platform for a driver, and there are [`Interrupts`].
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
//! A card has one user at a time. Its lock ends with the process, however that ends. If a dead process left a
//! card running, the card is stopped before it may access memory again.
//!
//! VFIO without an IOMMU (`enable_unsafe_noiommu_mode`) needs huge pages by physical address, as UIO does.
//! Debian's kernels are built without it.
//!
//! Other systems than Linux have [`UdpPort`](port::UdpPort)s only.
//!
//! `unsafe` is in `sys` (system calls that rustix lacks), `bar.rs` (registers), `vfio/ioctl.rs`,
//! `interface.rs` and `ethtool.rs` (ioctls), `bpf.rs`, `drops` and `port/xdp/bpf.rs` (bpf(2)), and in
//! `port/packet/ring.rs` and `port/xdp/ring.rs` (memory shared with the kernel).

#[cfg(target_os = "linux")]
mod bar;
#[cfg(target_os = "linux")]
mod bpf;
#[cfg(target_os = "linux")]
mod btf;
#[cfg(target_os = "linux")]
mod card;
#[cfg(target_os = "linux")]
mod config;
#[cfg(target_os = "linux")]
pub mod devices;
#[cfg(target_os = "linux")]
mod domain;
#[cfg(target_os = "linux")]
pub mod drops;
mod error;
#[cfg(target_os = "linux")]
pub mod ethtool;
#[cfg(target_os = "linux")]
mod function;
#[cfg(all(any(feature = "fuzzing", test), target_os = "linux"))]
pub mod fuzzing;
#[cfg(target_os = "linux")]
mod interface;
#[cfg(target_os = "linux")]
mod interrupts;
#[cfg(target_os = "linux")]
mod lines;
#[cfg(target_os = "linux")]
pub mod netlink;
#[cfg(target_os = "linux")]
pub mod paced;
mod parse;
pub mod pci;
#[cfg(target_os = "linux")]
mod physical;
pub mod port;
mod routed;
#[cfg(target_os = "linux")]
mod socket;
mod spec;
#[cfg(target_os = "linux")]
mod symbols;
#[cfg(unix)]
mod sys;
#[cfg(target_os = "linux")]
mod system;
#[cfg(target_os = "linux")]
pub mod told;
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
pub use interface::OtherLink;
#[cfg(target_os = "linux")]
pub use interrupts::Interrupts;
pub use routed::RoutedSpec;
pub use spec::{Backend, Spec};
#[cfg(unix)]
pub use sys::{CpuTime, cpu_time};
#[cfg(target_os = "linux")]
pub use window::Window;
