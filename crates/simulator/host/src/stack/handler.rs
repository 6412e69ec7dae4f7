//! Handlers of received frames in the kernel: a bridge, a router, a protocol, an application.

use super::netdev::{IntoBuffer, Netdev};
use crate::cpu::Machine;
use std::cell::RefCell;

/// The work that a [`Handler`] does for each frame. The stack charges its cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// That of a bridge.
    Bridge,
    /// That of an IPv4 router.
    Route {
        /// Between VLANs.
        vlans: bool,
        /// With address translation.
        translates: bool,
    },
    /// The cost of this number of elements.
    Elements(u32),
    /// Its own, in [`Handler::receive`].
    Protocol,
}

/// An interface as a protocol sees it: where its frames come from, and where it may send.
pub struct Interface<'a, N: Netdev> {
    /// The device.
    pub device: &'a N,
    /// Takes a frame that is to leave: into the transmit queue, and to the device when that takes it. False:
    /// the queue was full, and the frame is gone.
    pub transmit: &'a dyn Fn(N::Frame) -> bool,
}

/// A handler of received frames in the kernel.
pub trait Handler<N: Netdev>: 'static {
    /// The work for each frame.
    fn work(&self) -> Work;
    /// Receives a frame that came in by `interface`, for [`Work::Protocol`]. It spends its own time, may
    /// send, and gives the buffer back unless it keeps that.
    fn receive(&self, machine: &Machine, interface: &Interface<N>, frame: N::Frame) -> Option<N::Buffer> {
        let _ = (machine, interface);
        Some(frame.into_buffer())
    }
    /// Takes a frame that came in by `port` at `now_ps`; frames that leave go into `out` with their ports.
    /// Gives the buffer back if the frame ended here. Lets no time pass.
    fn handle(
        &mut self,
        now_ps: u64,
        port: usize,
        frame: N::Frame,
        out: &mut Vec<(usize, N::Frame)>,
    ) -> Option<N::Buffer>;
    /// The buffers of frames that it had kept and that ended in the last call of [`Handler::handle`].
    fn released(&mut self) -> Vec<N::Buffer> {
        Vec::new()
    }
    /// How many empty frames it needs, besides those it has, to send messages of its own.
    fn wants(&self) -> usize {
        0
    }
    /// Takes an empty frame.
    fn supply(&mut self, empty: N::Frame) {
        let _ = empty;
    }
}

/// Replaces the empty frames that a handler has used.
pub(super) fn supply<N: Netdev, H: Handler<N>>(handler: &RefCell<H>, device: &N) {
    let wants = handler.borrow().wants();
    for _ in 0..wants {
        let Some(empty) = device.make(&mut |_| 0) else { return };
        handler.borrow_mut().supply(empty);
    }
}
