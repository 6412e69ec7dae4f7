//! e1000 cards as drivers of [embassy-net](https://docs.embassy.dev/embassy-net).
//!
//! A [`Nic`] is a probed [`Device`] behind [`embassy_net_driver::Driver`]. An [`Interrupt`] is its other
//! half, for the card's interrupt handler: it masks the card and wakes the stack through a [`Signal`], which
//! is a `static`.
//!
//! The stack sleeps while there is nothing to do. As in NAPI, interrupts stay masked while polls find frames;
//! the first empty poll unmasks them. The stack reads frames in the buffers that the card filled, and writes
//! into the driver's buffers, in bursts with one tail write. Nothing on the packet path allocates or locks.
//!
//! The watchdog runs whenever the stack is polled. A task that calls [`Signal::wake`] every two seconds makes
//! it run for an idle card, too. `examples/embassy_echo.rs` in the source tree is a whole program.
//!
//! ```
//! use kpps_driver::fake::Card;
//! use kpps_netstack::Offload;
//! use kpps_netstack::embassy::{Nic, Signal, config};
//!
//! static SIGNAL: Signal = Signal::new();
//! let card = Card::new()?;
//! let pool = card.memory().pool(kpps_netstack::buffers_needed(&config()), 2048, None)?;
//! let device = kpps_driver::probe(card.platform(), Card::CHIP, config(), pool)?;
//! let (nic, interrupt) = Nic::new(device, Offload::ALL, &SIGNAL);
//! // In the interrupt handler: `interrupt.handle()`. In `main`: `embassy_net::new(nic, …)`.
//! assert!(nic.fault().is_none() && !interrupt.handle());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use crate::{Endpoint, Offload};
mod signal;

pub use signal::{Interrupt, Signal};

use core::task::Context;
use embassy_net_driver::{Capabilities, Checksum, Driver, HardwareAddress, LinkState};
use kpps_driver::config::{Completion, Config, Delay, Moderation, NapiExit, Service};
use kpps_driver::{Device, Error};
use kpps_platform::{BufferSource, Platform};

/// The driver configuration for embassy-net: [`Config::kpps`] with transmit interrupts delayed by a
/// millisecond. These only wake a stack that waits for room in the ring.
pub const fn config() -> Config {
    /// In units of 1.024 µs (SDM 13.4.41).
    const MILLISECOND: u16 = 977;
    let kpps = Config::kpps();
    Config {
        service: Service::Napi { weight: 32, exit: NapiExit::BothIdle, mask: true },
        completion: Completion { report_every: 32, delay: Delay::Always },
        moderation: Moderation { tidv: MILLISECOND, tadv: MILLISECOND, ..kpps.moderation },
        ..kpps
    }
}

/// A card as a driver of embassy-net.
pub struct Nic<'s, P: Platform, S: BufferSource> {
    endpoint: Endpoint<P, S>,
    signal: &'s Signal,
    /// Frames were found since the last empty poll.
    found: bool,
    fault: Option<Error>,
}

impl<'s, P: Platform, S: BufferSource> Nic<'s, P, S> {
    /// Makes the two halves of a probed device. The second one belongs into the interrupt handler.
    ///
    /// The device's pool should have [`buffers_needed`](crate::buffers_needed) buffers; with fewer, sending
    /// or receiving sometimes waits for one.
    pub fn new(device: Device<P, S>, offload: Offload, signal: &'s Signal) -> (Self, Interrupt<'s, P::Regs>) {
        let control = &device.control;
        let interrupt = Interrupt::new(control.platform().registers(), control.chip(), signal);
        // A probe leaves interrupts masked.
        signal.set_masked(true);
        (Self { endpoint: Endpoint::new(device, offload), signal, found: false, fault: None }, interrupt)
    }

    /// The card behind it: link, statistics, counters.
    pub fn endpoint(&self) -> &Endpoint<P, S> {
        &self.endpoint
    }

    /// The error of the card, if there was one; the link is down from then on.
    pub fn fault(&self) -> Option<Error> {
        self.fault
    }

    /// After an empty poll: polls once more, then unmasks interrupts. True if a frame arrived meanwhile.
    fn found_before_sleep(&mut self, cx: &mut Context) -> bool {
        if !self.signal.is_masked() || self.fault.is_some() {
            return false;
        }
        if core::mem::take(&mut self.found) {
            cx.waker().wake_by_ref();
            return false;
        }
        // An interrupt may come as soon as it is unmasked; it masks again.
        self.signal.set_masked(false);
        match self.endpoint.may_sleep() {
            Ok(true) => false,
            Ok(false) => {
                self.signal.set_masked(true);
                true
            }
            Err(fault) => {
                self.fault = Some(fault);
                false
            }
        }
    }

    fn look_after(&mut self) -> Result<(), Error> {
        if self.signal.take_causes().link() {
            self.endpoint.control_mut().update_link()?;
        }
        self.endpoint.look_after()
    }
}

impl<P: Platform, S: BufferSource> Driver for Nic<'_, P, S> {
    type RxToken<'a>
        = RxToken<'a, P, S>
    where
        Self: 'a;
    type TxToken<'a>
        = TxToken<'a, P, S>
    where
        Self: 'a;

    fn receive(&mut self, cx: &mut Context) -> Option<(Self::RxToken<'_>, Self::TxToken<'_>)> {
        self.signal.register(cx);
        if !self.endpoint.is_ready() && !self.found_before_sleep(cx) {
            return None;
        }
        self.found = true;
        let (received, slot) = self.endpoint.receive()?;
        Some((RxToken(received), TxToken(slot)))
    }

    fn transmit(&mut self, cx: &mut Context) -> Option<Self::TxToken<'_>> {
        self.signal.register(cx);
        self.endpoint.transmit().map(TxToken)
    }

    /// The state of the link. The stack asks for it at the end of each poll, so sent frames are flushed here.
    fn link_state(&mut self, cx: &mut Context) -> LinkState {
        self.signal.register(cx);
        self.endpoint.flush();
        if self.fault.is_none() {
            self.fault = self.look_after().err();
        }
        if self.fault.is_none() && self.endpoint.control().link().up {
            LinkState::Up
        } else {
            LinkState::Down
        }
    }

    fn capabilities(&self) -> Capabilities {
        let mut capabilities = Capabilities::default();
        capabilities.max_transmission_unit = self.endpoint.frame_bytes().into();
        capabilities.max_burst_size = Some(self.endpoint.burst_frames());
        // The checksums that the stack computes.
        let Offload { receive, transmit } = self.endpoint.offload();
        let left = match (receive, transmit) {
            (false, false) => Checksum::Both,
            (false, true) => Checksum::Rx,
            (true, false) => Checksum::Tx,
            (true, true) => Checksum::None,
        };
        capabilities.checksum.ipv4 = left;
        capabilities.checksum.tcp = left;
        capabilities.checksum.udp = left;
        capabilities
    }

    fn hardware_address(&self) -> HardwareAddress {
        HardwareAddress::Ethernet(self.endpoint.control().address())
    }
}

/// A received frame, in the buffer that the card filled.
pub struct RxToken<'a, P: Platform, S: BufferSource>(crate::Received<'a, P, S>);

impl<P: Platform, S: BufferSource> embassy_net_driver::RxToken for RxToken<'_, P, S> {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, look: F) -> R {
        self.0.consume(look)
    }
}

/// Space for a frame in a buffer of the driver.
pub struct TxToken<'a, P: Platform, S: BufferSource>(crate::Slot<'a, P, S>);

impl<P: Platform, S: BufferSource> embassy_net_driver::TxToken for TxToken<'_, P, S> {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, bytes: usize, write: F) -> R {
        self.0.consume(bytes, write)
    }
}
