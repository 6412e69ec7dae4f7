#![cfg_attr(any(feature = "fake", not(doctest)), doc = include_str!("../README.md"))]
//!
//! # How it is built
//!
//! The driver depends on nothing of its [`Platform`] but the traits. The code is mechanism; a [`Config`] has
//! the policy.
//!
//! - [`probe`] resets a chip and returns a [`Device`] of three parts, which can be moved to different
//!   interrupt levels and cores: [`Control`], [`RxQueue`], [`TxQueue`]. [`probe_queues`] does the same for
//!   the two queue pairs of the 82574.
//! - A packet path reads no register. A burst costs at most one tail write in each direction, an empty burst
//!   none ([`RxQueue::receive`], [`TxQueue::flush`]).
//! - [`service`] decides when to examine the device: interrupt loop, NAPI, polling, self-pacing.
//! - [`config::Moderation`] sets the timers that delay interrupts: RDTR, RADV, TIDV, TADV and ITR.
//!
//! The driver trusts nothing that the device writes: each descriptor has a private shadow, each length is
//! checked, each wait is bounded. Invalid descriptors are counted. [`Control::watchdog`] reports a device
//! that hangs. A device that vanished is [`Error::Gone`]. [`Device::reset`] starts again.
//!
//! It allocates only while probing, and has no `unsafe`.
//!
//! # Features
//! - `fake`: a card without hardware, for examples and unit tests, in module `fake`. Takes `std`.
//! - `serde`: a [`Config`] can be read from and written to data files.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(feature = "fake")]
extern crate std;

pub mod config;
mod control;
mod eeprom;
mod error;
#[cfg(feature = "fake")]
pub mod fake;
mod filter;
mod moderation;
mod offload;
mod phy;
mod regs;
mod ring;
mod rx;
pub mod service;
mod start;
mod tx;
mod vector;

pub use config::Config;
pub use control::{Causes, Control, Health, Link, Loopback, Stats};
pub use error::{Error, Invalid};
pub use kpps_datasheet::{Chip, Media};
pub use offload::{Checksums, Offload, Segmentation, Sum, TxMeta};
pub use rx::{Checksum, Hash, Received, RxCounters, RxQueue};
pub use tx::{Fragment, MIN_FILLER_BYTES, Progress, Refusal, Refused, TxCounters, TxQueue, TxQueueLimit};
pub use vector::Vector;

use alloc::vec::Vec;
use config::RxFormat;
use kpps_datasheet::desc;
use kpps_platform::{BufferSource, Platform};
use ring::Ring;

/// A probed device, in parts.
///
/// The drop order matters if the parts are moved apart. [`Control`] stops the device when it is dropped, so
/// it must be dropped first, as it is here; or call [`Control::stop`].
pub struct Device<P: Platform, S: BufferSource> {
    /// Interrupts, link, filters, statistics, health.
    pub control: Control<P>,
    /// Receiving.
    pub rx: RxQueue<P, S>,
    /// Transmitting.
    pub tx: TxQueue<P, S>,
}

/// Resets `chip` and starts it with `config`. Both directions run. Interrupts are masked; call
/// [`Control::unmask`] when ready. The link comes up later ([`Control::update_link`]).
///
/// Receive buffers come from `buffers`, and buffers of sent frames go back to it. Each queue keeps a clone of
/// this handle.
///
/// # Errors
/// [`Error::Config`] if the configuration does not suit the chip; others if the device does not respond.
pub fn probe<P, S>(platform: P, chip: Chip, config: Config, buffers: S) -> Result<Device<P, S>, Error>
where
    P: Platform,
    S: BufferSource + Clone,
{
    if config.queues != 1 {
        return Err(Error::Config(Invalid::Rule("queues: more than one needs probe_queues")));
    }
    let control = Control::new(platform, chip, config)?;
    let (rx, tx) = pair(&control, 0, &buffers, None)?;
    let mut device = Device { control, rx, tx };
    device.control.start(&mut [(&mut device.rx, &mut device.tx)])?;
    Ok(device)
}

impl<P: Platform, S: BufferSource> Device<P, S> {
    /// Resets the device and starts it again. Frames in the queues are lost; buffers are not. Afterwards
    /// interrupts are masked and loopback is off.
    ///
    /// # Errors
    /// If the device does not respond.
    pub fn reset(&mut self) -> Result<(), Error> {
        self.control.reset(&mut self.rx, &mut self.tx)
    }
}

/// A receive and a transmit queue of the same number, and their interrupt.
pub struct Pair<P: Platform, S: BufferSource> {
    /// Receiving.
    pub rx: RxQueue<P, S>,
    /// Transmitting.
    pub tx: TxQueue<P, S>,
    /// Their interrupt.
    pub vector: Vector<P::Regs>,
}

/// A probed device with [`Config::queues`] pairs of queues, which can be moved to as many cores.
///
/// The drop order matters as for [`Device`].
pub struct Queues<P: Platform, S: BufferSource> {
    /// Everything that belongs to no single queue: link, filters, statistics, health.
    pub control: Control<P>,
    /// The pairs, by number.
    pub pairs: Vec<Pair<P, S>>,
}

/// [`probe`] with [`Config::queues`] pairs of queues. With header split
/// ([`RxFormat::Split`]), header buffers come from `headers`, or from `buffers` if
/// that is `None`.
///
/// # Errors
/// As [`probe`].
pub fn probe_queues<P, S>(
    platform: P,
    chip: Chip,
    config: Config,
    buffers: S,
    headers: Option<S>,
) -> Result<Queues<P, S>, Error>
where
    P: Platform,
    S: BufferSource + Clone,
{
    let control = Control::new(platform, chip, config)?;
    let mut pairs = Vec::new();
    for queue in 0..control.config.queues {
        let (rx, tx) = pair(&control, queue, &buffers, headers.as_ref())?;
        pairs.push(Pair { rx, tx, vector: control.vector(queue) });
    }
    let mut device = Queues { control, pairs };
    device.start()?;
    Ok(device)
}

impl<P: Platform, S: BufferSource> Queues<P, S> {
    /// As [`Device::reset`].
    ///
    /// # Errors
    /// If the device does not respond.
    pub fn reset(&mut self) -> Result<(), Error> {
        self.control.reset_chip()?;
        self.start()
    }

    fn start(&mut self) -> Result<(), Error> {
        let mut pairs: Vec<_> = self.pairs.iter_mut().map(|pair| (&mut pair.rx, &mut pair.tx)).collect();
        self.control.start(&mut pairs)
    }
}

/// Makes the queues of one number.
#[allow(clippy::type_complexity)]
fn pair<P: Platform, S: BufferSource + Clone>(
    control: &Control<P>,
    queue: u8,
    buffers: &S,
    headers: Option<&S>,
) -> Result<(RxQueue<P, S>, TxQueue<P, S>), Error> {
    let Control { platform, chip, config, .. } = control;
    let chip = *chip;
    let stride = match config.rx_format.on(chip) {
        RxFormat::Split { .. } => desc::extended::SPLIT_BYTES / desc::BYTES,
        _ => 1,
    };
    let rx_ring = Ring::allocate(platform, chip, config.rx_ring, stride)?;
    let tx_ring = Ring::allocate(platform, chip, config.tx_ring, 1)?;
    let source = || headers.unwrap_or(buffers).clone();
    let regs = || platform.registers();
    Ok((
        RxQueue::new(regs(), (chip, queue), config, rx_ring, buffers.clone(), source),
        TxQueue::new(regs(), (chip, queue), config, control.quirks(), tx_ring, buffers.clone()),
    ))
}
