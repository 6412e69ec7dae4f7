//! The e1000 driver: rings, bursts, moderation, offloads, service policies.
//!
//! It drives the 82542 to 82546 and the 82574 on any [`Platform`], and never asks which. What it does is
//! mechanism; what it shall do is a [`Config`].
//!
//! - [`probe`] resets a chip and returns a [`Device`] of three halves that can be moved apart, to
//!   other interrupt levels and other cores: [`Control`], [`RxQueue`], [`TxQueue`].
//!   [`probe_queues`] does the same for the 82574's two queues each way.
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
mod express;
mod filter;
mod link;
mod moderation;
mod offload;
mod phy;
mod regs;
mod ring;
mod rx;
pub mod service;
mod start;
mod stats;
mod tx;
mod vector;

pub use config::Config;
pub use control::{Causes, Control, Health};
pub use error::Error;
pub use kpps_datasheet::{Chip, Media};
pub use link::{Link, Loopback};
pub use offload::{Checksums, Offload, Segmentation, Sum, TxMeta};
pub use rx::{Checksum, Hash, Received, RxCounters, RxQueue};
pub use stats::Stats;
pub use tx::{Fragment, Progress, Refusal, Refused, TxCounters, TxQueue, TxQueueLimit};
pub use vector::Vector;

use alloc::vec::Vec;
use config::RxFormat;
use kpps_datasheet::desc;
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
    if config.queues != 1 {
        return Err(Error::Config("queues: several are for probe_queues"));
    }
    let control = Control::new(platform, chip, config)?;
    let (rx, tx) = pair(&control, 0, &buffers, None)?;
    let mut device = Device { control, rx, tx };
    device.control.start(&mut [(&mut device.rx, &mut device.tx)])?;
    Ok(device)
}

impl<P: Platform, S: BufferSource> Device<P, S> {
    /// Resets the device and starts it anew. Frames in the queues are lost; buffers are not.
    /// Interrupts are masked afterwards, loopback is off.
    pub fn reset(&mut self) -> Result<(), Error> {
        self.control.reset(&mut self.rx, &mut self.tx)
    }
}

/// A receive and a transmit queue of the same number, and the interrupt that is about them.
pub struct Pair<P: Platform, S: BufferSource> {
    /// Receiving.
    pub rx: RxQueue<P, S>,
    /// Transmitting.
    pub tx: TxQueue<P, S>,
    /// Their interrupt.
    pub vector: Vector<P::Regs>,
}

/// A device that was probed with [`Config::queues`] pairs of queues, which can be moved to as many cores.
///
/// Drop order matters as for [`Device`].
pub struct Queues<P: Platform, S: BufferSource> {
    /// What is not one queue's: link, filters, statistics, health.
    pub control: Control<P>,
    /// The pairs, by number.
    pub pairs: Vec<Pair<P, S>>,
}

/// [`probe`] with [`Config::queues`] pairs of queues. With header split
/// ([`RxFormat::Split`](config::RxFormat::Split)) header buffers come from `headers`, or from
/// `buffers` if that is `None`.
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
