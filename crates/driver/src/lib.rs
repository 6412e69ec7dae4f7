//! The e1000 driver: rings, bursts, moderation, offloads, service policies.
//!
//! It drives the 82542 to 82546 on any [`Platform`], and never asks which. What it does is
//! mechanism; what it shall do is a [`Config`].
//!
//! - [`probe`] resets a chip and returns a [`Device`] of three halves that can be moved apart, to
//!   other interrupt levels and other cores: [`Control`], [`RxQueue`], [`TxQueue`].
//! - A packet path reads no register. A burst costs at most one tail write each way, an empty one
//!   none ([`RxQueue::receive`], [`TxQueue::flush`]).
//! - [`service`] has the machines that decide when to look: per-interrupt loop, NAPI, polling, and
//!   our own self-pacing one.
//!
//! Of what the device writes nothing is trusted: each descriptor has a private shadow, each
//! length is checked. Each wait is bounded. A device that lies is counted, one that hangs is told
//! by [`Control::watchdog`], one that vanishes is [`Error::Gone`]; [`Device::reset`] starts anew.
//!
//! This crate knows nothing of operating systems, models or measurement. It allocates only while
//! probing, and has no `unsafe`.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod config;
mod control;
mod eeprom;
mod error;
mod filter;
mod link;
mod moderation;
mod offload;
mod phy;
mod regs;
mod ring;
mod rx;
pub mod service;
mod stats;
mod tx;

pub use config::Config;
pub use control::{Causes, Control, Health};
pub use error::Error;
pub use kpps_datasheet::{Chip, Media};
pub use link::{Link, Loopback};
pub use offload::{Checksums, Offload, Segmentation, Sum, TxMeta};
pub use rx::{Checksum, Received, RxCounters, RxQueue};
pub use stats::Stats;
pub use tx::{Fragment, Progress, Refusal, Refused, TxCounters, TxQueue};

use kpps_platform::{BufferSource, Platform};
use ring::Ring;

/// A device that was probed, in halves.
///
/// Drop order matters if the halves are moved apart: [`Control`] stops the device when it is
/// dropped, so it goes first (as it does here), or [`Control::stop`] is called.
pub struct Device<P: Platform, S: BufferSource> {
    /// Interrupts, link, filters, statistics, health.
    pub control: Control<P>,
    /// Receiving.
    pub rx: RxQueue<P, S>,
    /// Transmitting.
    pub tx: TxQueue<P, S>,
}

/// Resets `chip` and starts it with this configuration: both directions run, interrupts are
/// masked ([`Control::unmask`] when ready), the link comes up in its own time.
///
/// Receive buffers are taken from `buffers`, buffers of sent frames are given to it; it is a handle
/// of which each queue holds a copy.
pub fn probe<P, S>(platform: P, chip: Chip, config: Config, buffers: S) -> Result<Device<P, S>, Error>
where
    P: Platform,
    S: BufferSource + Clone,
{
    let control = Control::new(platform, chip, config)?;
    let platform = &control.platform;
    let config = &control.config;
    let rx_ring = Ring::allocate(platform, chip, config.rx_ring)?;
    let tx_ring = Ring::allocate(platform, chip, config.tx_ring)?;
    let rx = RxQueue::new(platform.registers(), chip, config, rx_ring, buffers.clone());
    let tx = TxQueue::new(platform.registers(), chip, config, control.quirks(), tx_ring, buffers);
    let mut device = Device { control, rx, tx };
    device.control.start(&mut device.rx, &mut device.tx)?;
    Ok(device)
}

impl<P: Platform, S: BufferSource> Device<P, S> {
    /// Resets the device and starts it anew. Frames in the queues are lost; buffers are not.
    /// Interrupts are masked afterwards, loopback is off.
    pub fn reset(&mut self) -> Result<(), Error> {
        self.control.reset(&mut self.rx, &mut self.tx)
    }
}
