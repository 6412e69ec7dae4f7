//! e1000 cards as drivers of [embassy-net].
//!
//! A [`Nic`] is a probed [`Device`] behind [`embassy_net_driver::Driver`]; an [`Interrupt`] is its
//! other half, for wherever the card's interrupt arrives: it masks the card and wakes the stack
//! through a [`Signal`], which is a `static`.
//!
//! The stack sleeps when there is nothing to do and is polled as long as there is: interrupts stay
//! masked while polls find frames (as in NAPI), and come back with the first that finds none.
//! Frames are read where the card has put them and written into the driver's buffers, in bursts with
//! one tail write. Nothing on the packet path allocates or locks. `no_std`.
//!
//! ```ignore
//! static SIGNAL: Signal = Signal::new();
//! let device = kpps_driver::probe(platform, chip, kpps_netstack::embassy::config(), pool)?;
//! let (nic, interrupt) = Nic::new(device, Offload::ALL, &SIGNAL);
//! // In the interrupt handler: interrupt.handle();
//! let (stack, runner) = embassy_net::new(nic, net_config, resources, seed);
//! ```
//!
//! The watchdog works whenever the stack is polled. A task that calls [`Signal::wake`] every two
//! seconds has it look after an idle card, too.
//!
//! [embassy-net]: https://docs.embassy.dev/embassy-net

mod signal;

use crate::{Endpoint, Offload};
pub use signal::{Interrupt, Signal};

use core::task::Context;
use embassy_net_driver::{Capabilities, Checksum, Driver, HardwareAddress, LinkState};
use kpps_driver::config::{Completion, Config, Delay, Moderation, NapiExit, Service};
use kpps_driver::{Device, Error};
use kpps_platform::{BufferSource, Platform};

/// A driver configuration for this use: as [`Config::kpps`], with transmit interrupts delayed by a
/// millisecond. They are needed to wake a stack that waits for room in the ring, and only for that.
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
    /// Frames were found since the stack was last told that there are none.
    found: bool,
    fault: Option<Error>,
}

impl<'s, P: Platform, S: BufferSource> Nic<'s, P, S> {
    /// Takes a probed device over. The second half belongs into the interrupt handler.
    ///
    /// The pool behind the device should have [`buffers_needed`](crate::buffers_needed) buffers; with fewer
    /// it has to wait for some now and then.
    pub fn new(device: Device<P, S>, offload: Offload, signal: &'s Signal) -> (Self, Interrupt<'s, P::Regs>) {
        let control = &device.control;
        let interrupt = Interrupt::new(control.platform().registers(), control.chip(), signal);
        // As after a probe.
        signal.set_masked(true);
        (Self { endpoint: Endpoint::new(device, offload), signal, found: false, fault: None }, interrupt)
    }

    /// The card behind it: link, statistics, counters.
    pub fn endpoint(&self) -> &Endpoint<P, S> {
        &self.endpoint
    }

    /// What went wrong with the card, if anything did; the link is down from then on.
    pub fn fault(&self) -> Option<Error> {
        self.fault
    }

    /// Nothing to receive: has the stack polled again, or sleeps. True if there is something now.
    fn found_on_the_way_to_sleep(&mut self, cx: &mut Context) -> bool {
        if !self.signal.is_masked() || self.fault.is_some() {
            return false;
        }
        if core::mem::take(&mut self.found) {
            cx.waker().wake_by_ref();
            return false;
        }
        // An interrupt may come as soon as it is unmasked, and masks again.
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
        if !self.endpoint.is_ready() && !self.found_on_the_way_to_sleep(cx) {
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

    /// The link's state. The stack asks for it at the end of each poll: what that has sent is told to
    /// the card here.
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
        // What is left to the stack.
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

/// A received frame, in the buffer that the card has put it into.
pub struct RxToken<'a, P: Platform, S: BufferSource>(crate::Received<'a, P, S>);

impl<P: Platform, S: BufferSource> embassy_net_driver::RxToken for RxToken<'_, P, S> {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, look: F) -> R {
        self.0.consume(look)
    }
}

/// Room for a frame in a buffer of the driver.
pub struct TxToken<'a, P: Platform, S: BufferSource>(crate::Slot<'a, P, S>);

impl<P: Platform, S: BufferSource> embassy_net_driver::TxToken for TxToken<'_, P, S> {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, bytes: usize, write: F) -> R {
        self.0.consume(bytes, write)
    }
}
