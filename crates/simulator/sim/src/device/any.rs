//! A card with its driver, of whichever kind: an e1000 with the project's driver, or a rate-limited NIC with
//! its own.

use super::e1000::{E1000, Frame};
use super::rate_limited::RateLimitedDevice;
use kpps_host::platform::Buf;
use kpps_host::stack::{Netdev, Polled, Raised, Service};

/// Driver and card.
pub(crate) enum AnyDevice {
    E1000(Box<E1000>),
    RateLimited(Box<RateLimitedDevice>),
}

/// Calls a method of the device, whichever it is.
macro_rules! either {
    ($device:expr, $name:ident($($argument:expr),*)) => {
        match $device {
            Self::E1000(device) => device.$name($($argument),*),
            Self::RateLimited(device) => device.$name($($argument),*),
        }
    };
}

impl AnyDevice {
    /// Where it is to be served.
    pub fn service(&self) -> Service {
        either!(self, service())
    }

    /// Buffers taken out for good, for messages of the stack's own.
    pub fn set_aside(&self, frames: usize) -> Vec<Frame> {
        either!(self, set_aside(frames))
    }

    /// The same for senders that wait for space in the transmit queue, before which the system keeps `queue`
    /// frames. The driver of a rate-limited NIC does nothing for them.
    pub fn with_waiting_senders(self, queue: usize) -> Self {
        match self {
            Self::E1000(device) => Self::E1000(Box::new(device.with_waiting_senders(queue))),
            nic @ Self::RateLimited(_) => nic,
        }
    }

    /// Descriptors of the transmit ring in use; `None` while the driver is at them.
    pub fn in_ring(&self) -> Option<usize> {
        match self {
            Self::E1000(device) => Some(device.transmit_queue().1),
            Self::RateLimited(device) => device.pending(),
        }
    }

    /// The limit of the driver's transmit queue in frames, and the frames that it holds. `None` for a
    /// rate-limited NIC.
    pub fn transmit_queue(&self) -> Option<(usize, usize)> {
        match self {
            Self::E1000(device) => Some(device.transmit_queue()),
            Self::RateLimited(_) => None,
        }
    }
}

impl Netdev for AnyDevice {
    type Frame = Frame;
    type Buffer = Buf;

    fn interrupt(&self, up: &mut dyn FnMut(Frame) -> Option<Buf>) -> Raised {
        either!(self, interrupt(up))
    }
    fn poll(&self, budget: usize, up: &mut dyn FnMut(Frame) -> Option<Buf>) -> Polled {
        either!(self, poll(budget, up))
    }
    fn has_tx_space(&self) -> bool {
        either!(self, has_tx_space())
    }
    fn admits(&self, queued: usize, most: usize) -> bool {
        either!(self, admits(queued, most))
    }
    fn readmits(&self, queued: usize, most: usize) -> bool {
        either!(self, readmits(queued, most))
    }
    fn send(&self, fill: &mut dyn FnMut(&mut [u8]) -> usize) -> bool {
        either!(self, send(fill))
    }
    fn forward(&self, frame: Frame) -> Result<(), Frame> {
        either!(self, forward(frame))
    }
    fn make(&self, fill: &mut dyn FnMut(&mut [u8]) -> usize) -> Option<Frame> {
        either!(self, make(fill))
    }
    fn check_status(&self) {
        either!(self, check_status())
    }
    fn flush(&self) {
        either!(self, flush())
    }
    fn tick(&self) {
        either!(self, tick())
    }
    fn free(&self, buffer: Buf) {
        either!(self, free(buffer))
    }
    fn vector(&self) -> usize {
        either!(self, vector())
    }
}
