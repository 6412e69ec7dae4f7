//! Linux's interfaces under the ports: system calls, rings that are shared with the kernel, programs in the
//! kernel, network interfaces, and cards that are driven from user space.
//!
//! - [`rings`] are packet sockets and `AF_XDP` sockets with their rings; [`udp`] has UDP sockets.
//! - [`Interface`], [`ethtool`] and [`netlink`] are about interfaces of the kernel.
//! - A [`Spread`] is how an interface spreads frames over its receive queues; [`Rules`] steer flows there.
//! - [`drops`] counts the packets that the kernel drops; [`Redirect`] is the program for `AF_XDP`.
//! - [`devices`] lists network cards, and moves them between the kernel's driver and user space.
//! - A [`Domain`] is memory that several cards share: one IOMMU address space ([`Backend::Vfio`]) or huge
//!   pages by physical address ([`Backend::Uio`]).
//! - A [`Card`] is an open card: a [`CardPlatform`] is the platform for a driver, and there are
//!   [`Interrupts`].
//! - For devices that are modelled in this process: [`SharedMemory`] is memory that both sides have, and
//!   `TrapWindow` (x86-64) a window of registers whose accesses the model executes.
//!
//! ```no_run
//! # #[cfg(target_os = "linux")] {
//! use kpps_linux::{Backend, Card, Domain, devices};
//!
//! let address = "0000:00:10.0".parse()?;
//! devices::bind(address, Backend::Uio, false)?;
//! let domain = Domain::new(Backend::Uio, 16 << 20)?;
//! let card = Card::open(&domain, address)?;
//! let (platform, chip) = (card.platform(), card.chip());
//! # }
//! # Ok::<(), kpps_linux::Error>(())
//! ```
//!
//! A card has one user at a time. Its lock ends with the process, however that ends. If a dead process left a
//! card running, the card is stopped before it may access memory again.
//!
//! VFIO without an IOMMU (`enable_unsafe_noiommu_mode`) needs huge pages by physical address, as UIO does.
//! Debian's kernels are built without it.
//!
//! Other systems than Linux have errors, addresses and names of backends only, and [`cpu_time`] where they
//! are a Unix.
//!
//! `unsafe` is in `sys` (system calls that rustix lacks, mappings, a handler of faults), `pci/bar.rs`
//! (registers), `pci/vfio/ioctl.rs`, `interface` (ioctls), `bpf` (bpf(2)), and in `rings/packet/ring.rs` and
//! `rings/xdp/ring.rs` (memory shared with the kernel).

mod backend;
#[cfg(target_os = "linux")]
mod bpf;
mod error;
#[cfg(all(any(feature = "fuzzing", test), target_os = "linux"))]
pub mod fuzzing;
#[cfg(target_os = "linux")]
mod interface;
mod parse;
pub mod pci;
#[cfg(target_os = "linux")]
pub mod rings;
#[cfg(unix)]
mod sys;
#[cfg(target_os = "linux")]
pub mod udp;

pub use backend::Backend;
#[cfg(target_os = "linux")]
pub use bpf::{Redirect, drops};
pub use error::{Error, UNLOCK};
#[cfg(target_os = "linux")]
pub use interface::{Cable, Interface, OtherLink, Rule, Rules, Spread, Unknown, ethtool, netlink};
#[cfg(target_os = "linux")]
pub use pci::{Card, CardPlatform, Domain, Interrupts, Window, devices, paced};
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
pub use sys::{Cpu, Executed, Trap, TrapWindow};
#[cfg(unix)]
pub use sys::{CpuTime, cpu_time};
#[cfg(target_os = "linux")]
pub use sys::{Policy, SharedMemory, memory_file, schedule};
