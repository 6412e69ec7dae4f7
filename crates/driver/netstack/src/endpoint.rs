//! The endpoint: the device with its receiver and sender.

use crate::Offload;
use crate::receiver::{BURST, ReceiveCounters, Received, Receiver};
use crate::sender::{Sender, Slot, TransmitCounters};
use kpps_driver::{Config, Control, Device, Error, Health, RxCounters, TxCounters};
use kpps_platform::{BufferSource, Platform};

/// The interval of the watchdog, and its interval while the link is down, in ns.
const WATCHDOG_NS: u64 = 2_000_000_000;
const LINK_DOWN_NS: u64 = 200_000_000;

/// Bytes of the frame check sequence and of a VLAN tag.
const FCS_BYTES: u16 = 4;
const TAG_BYTES: u16 = 4;

/// The number of buffers with which nothing ever waits for one: both rings full, a burst being handed out,
/// and a frame being written.
pub const fn buffers_needed(config: &Config) -> usize {
    config.rx_ring as usize + config.tx_ring as usize + BURST + 1
}

/// A device under the network stack of an end station.
///
/// It is polled. The stack calls [`receive`](Self::receive) and [`transmit`](Self::transmit) until there is
/// no more to do, then [`flush`](Self::flush). Before waiting for an interrupt, call
/// [`may_sleep`](Self::may_sleep).
pub struct Endpoint<P: Platform, S: BufferSource> {
    // Dropped first: it stops the device, which then writes into no buffer.
    control: Control<P>,
    receiver: Receiver<P, S>,
    sender: Sender<P, S>,
    offload: Offload,
    frame_bytes: u16,
    /// When the watchdog last ran, in ns of the platform's clock.
    watched_at_ns: Option<u64>,
}

impl<P: Platform, S: BufferSource> Endpoint<P, S> {
    /// Makes an endpoint of a probed device. Only the parts of `offload` that chip and configuration support
    /// are used.
    pub fn new(device: Device<P, S>, offload: Offload) -> Self {
        let Device { control, rx, tx } = device;
        let (chip, config) = (control.chip(), control.config());
        let offload = Offload {
            receive: offload.receive && config.rx_checksum && chip.has_checksum_offload(),
            transmit: offload.transmit && chip.has_checksum_offload(),
        };
        // A device that keeps the FCS needs room for it in the buffer.
        let in_buffer = config.rx_buffer_bytes - FCS_BYTES;
        let frame_bytes = (config.max_frame_bytes - FCS_BYTES - TAG_BYTES).min(in_buffer);
        let receiver = Receiver::new(rx, offload.receive);
        let sender = Sender::new(tx, frame_bytes, offload.transmit);
        Self { control, receiver, sender, offload, frame_bytes, watched_at_ns: None }
    }

    /// The longest frame that fits into one buffer, in bytes without FCS: 1514 with the driver's usual limit
    /// of 1522, which includes a VLAN tag and the FCS.
    pub fn frame_bytes(&self) -> u16 {
        self.frame_bytes
    }

    /// The number of frames that the receive ring can hold.
    pub fn burst_frames(&self) -> usize {
        usize::from(self.control.config().rx_ring) - 1
    }

    /// The offload in use.
    pub fn offload(&self) -> Offload {
        self.offload
    }

    /// The longest frame that [`Slot::consume_large`] accepts, in bytes; `None` without segmentation or
    /// transmit offload.
    pub fn large_bytes(&mut self) -> Option<usize> {
        let can = self.offload.transmit && self.control.chip().has_tso();
        can.then(|| self.sender.buffer_bytes().min(u16::MAX.into()))
    }

    /// Whether there is a received frame, and room for an answer.
    ///
    /// When the last burst has been handed out, this takes a new one out of the ring, and flushes sent
    /// frames.
    #[inline]
    pub fn is_ready(&mut self) -> bool {
        if self.receiver.is_empty() {
            self.sender.queue.flush();
            self.receiver.fetch();
        }
        !self.receiver.is_empty() && self.sender.make_room()
    }

    /// The next received frame, and room for an answer; `None` if [there is none](Self::is_ready).
    #[inline]
    pub fn receive(&mut self) -> Option<(Received<'_, P, S>, Slot<'_, P, S>)> {
        self.is_ready().then_some((Received(&mut self.receiver), Slot(&mut self.sender)))
    }

    /// Room for a frame, if there is any.
    #[inline]
    pub fn transmit(&mut self) -> Option<Slot<'_, P, S>> {
        self.sender.make_room().then_some(Slot(&mut self.sender))
    }

    /// Hands all sent frames to the device with one tail write; without a new frame, nothing is written. Call
    /// it when the stack has nothing more to do.
    #[inline]
    pub fn flush(&mut self) {
        self.sender.queue.flush();
    }

    /// Unmasks interrupts and returns true if there is nothing to do until the next one. Call it after
    /// [`flush`](Self::flush), with interrupts masked, as they are at first and after an interrupt handler
    /// ([`Control::mask`]).
    ///
    /// It first clears the causes of frames that were received already, so that they do not interrupt.
    ///
    /// # Errors
    /// [`Error::Gone`] if the device has vanished.
    pub fn may_sleep(&mut self) -> Result<bool, Error> {
        self.control.causes()?;
        // A frame after this check is a new cause.
        if self.is_ready() {
            return Ok(false);
        }
        self.control.unmask();
        Ok(true)
    }

    /// The watchdog of link and transmitter, which resets a device that hangs. It runs every two seconds,
    /// after a link interrupt, and every 0.2 s while the link is down. Call it often: when nothing is due it
    /// only reads the clock.
    ///
    /// # Errors
    /// [`Error::Gone`] if the device has vanished; others if it does not come up after a reset.
    pub fn look_after(&mut self) -> Result<(), Error> {
        let now = self.control.platform().now_ns();
        let passed = self.watched_at_ns.map_or(u64::MAX, |last| now.saturating_sub(last));
        let event = self.control.take_link_event();
        let down = !self.control.link().up;
        if event || passed >= WATCHDOG_NS || down && passed >= LINK_DOWN_NS {
            self.watched_at_ns = Some(now);
            let hung = self.control.watchdog(now, self.sender.queue.look_after())? == Health::Hung;
            if hung || self.control.has_lost_receiver(&mut self.receiver.queue)? {
                self.reset()?;
            }
        }
        Ok(())
    }

    /// The control half: link, address, filters, statistics.
    pub fn control(&self) -> &Control<P> {
        &self.control
    }

    /// The control half. To reset the device use [`reset`](Self::reset).
    pub fn control_mut(&mut self) -> &mut Control<P> {
        &mut self.control
    }

    /// Resets the device and starts it again. Frames in its rings are lost; buffers are not.
    ///
    /// # Errors
    /// As [`Control::reset`].
    pub fn reset(&mut self) -> Result<(), Error> {
        self.control.reset(&mut self.receiver.queue, &mut self.sender.queue)
    }

    /// The counters of the driver's queues: (receive, transmit).
    pub fn driver_counters(&self) -> (RxCounters, TxCounters) {
        (self.receiver.queue.counters(), self.sender.queue.counters())
    }

    /// Counts of received frames that were dropped.
    pub fn receive_counters(&self) -> ReceiveCounters {
        self.receiver.counters
    }

    /// Counts of frames that the stack wrote and that were not sent.
    pub fn transmit_counters(&self) -> TransmitCounters {
        self.sender.counters
    }
}
