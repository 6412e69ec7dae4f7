//! QEMU as a testbed: its e1000 cards without a guest, and guests with stock kernels on the same cards.
//!
//! - [`qtest`]: one of QEMU's e1000 cards behind [`kpps_platform`].
//! - [`lab`] (feature `lab`): guests with Debian's kernels, to compare the drivers of kpps, Linux and DPDK.
//!
//! Both use one QEMU process, one QMP client and one host end of a cable ([`Wire`]).
//!
//! ```no_run
//! use kpps_qemu::qtest::{Model, Options, Qemu};
//!
//! // QEMU's card: `qemu-system-x86_64` must be installed.
//! let qemu = Qemu::start(&Options::new(Model::I82540Em))?;
//! println!("QEMU {}", qemu.version()?);
//! qemu.set_link(true)?;
//! qemu.inject(&[0xff; 60])?;
//! qemu.advance(1_000_000)?;
//! # Ok::<(), kpps_qemu::Error>(())
//! ```

mod error;
#[cfg(any(feature = "fuzzing", all(test, feature = "lab")))]
pub mod fuzzing;
#[cfg(feature = "lab")]
pub mod lab;
mod process;
mod qmp;
pub mod qtest;
mod wire;

pub use error::{Error, Result};
pub use wire::Wire;
