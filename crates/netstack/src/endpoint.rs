//! The device, its receiver and its sender.

use crate::Offload;
use crate::receiver::{BURST, ReceiveCounters, Received, Receiver};
use crate::sender::{Sender, Slot, TransmitCounters};
use kpps_driver::{Config, Control, Device, Error, Health, RxCounters, TxCounters};
use kpps_platform::{BufferSource, Platform};

/// How often the watchdog looks, and how often while the link is down, in ns.
const WATCHDOG_NS: u64 = 2_000_000_000;
const LINK_DOWN_NS: u64 = 200_000_000;

/// Bytes of the frame check sequence and of a VLAN tag.
const FCS_BYTES: u16 = 4;
const TAG_BYTES: u16 = 4;

/// Buffers that a pool needs so that nobody ever waits for one: both rings full, a burst being
/// handed out, and a frame being written.
pub const fn buffers_needed(config: &Config) -> usize {
    config.rx_ring as usize + config.tx_ring as usize + BURST + 1
}

/// A device as the network stack of an end station wants it.
///
/// It is polled: whoever drives the stack lets it [`receive`](Self::receive) and
/// [`transmit`](Self::transmit) until there is no more to do, then calls [`flush`](Self::flush).
/// Who wants to wait for an interrupt asks [`may_sleep`](Self::may_sleep) before.
pub struct Endpoint<P: Platform, S: BufferSource> {
    // Dropped first: it stops the device, which then no longer writes into buffers.
    control: Control<P>,
    receiver: Receiver<P, S>,
    sender: Sender<P, S>,
    offload: Offload,
    frame_bytes: u16,
    /// When the watchdog looked last, in ns of the platform's clock.
    looked_at_ns: Option<u64>,
}

impl<P: Platform, S: BufferSource> Endpoint<P, S> {
    /// Takes a probed device over. Of `offload` it does what the chip and the driver's
    /// configuration can.
    pub fn new(device: Device<P, S>, offload: Offload) -> Self {
        let Device { control, rx, tx } = device;
        let (chip, config) = (control.chip(), control.config());
        let offload = Offload {
            receive: offload.receive && config.rx_checksum && chip.has_checksum_offload(),
            transmit: offload.transmit && chip.has_checksum_offload(),
        };
        // A device that leaves the FCS in the buffer needs room for it there.
        let in_buffer = config.rx_buffer_bytes - FCS_BYTES;
        let frame_bytes = (config.max_frame_bytes - FCS_BYTES - TAG_BYTES).min(in_buffer);
        let receiver = Receiver::new(rx, offload.receive);
        let sender = Sender::new(tx, frame_bytes, offload.transmit);
        Self { control, receiver, sender, offload, frame_bytes, looked_at_ns: None }
    }

    /// The longest frame in bytes without FCS, for which each way there is room in one buffer: 1514
    /// with the driver's usual limit of 1522, which has a VLAN tag and the FCS in it.
    pub fn frame_bytes(&self) -> u16 {
        self.frame_bytes
    }

    /// Frames that the device can hold when nobody takes them.
    pub fn burst_frames(&self) -> usize {
        usize::from(self.control.config().rx_ring) - 1
    }

    /// Who computes checksums, of what was asked for.
    pub fn offload(&self) -> Offload {
        self.offload
    }

    /// The longest frame that [`Slot::consume_large`] takes, in bytes; `None` if the chip does not
    /// cut segments or checksums are not inserted.
    pub fn large_bytes(&mut self) -> Option<usize> {
        let can = self.offload.transmit && self.control.chip().has_tso();
        can.then(|| self.sender.buffer_bytes().min(u16::MAX.into()))
    }

    /// Whether there is a received frame, and room for an answer.
    ///
    /// A new burst is taken out of the ring when the last has been handed out; what was sent
    /// until then is flushed.
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

    /// Tells the device of every frame sent since the last time: one tail write, none if there is
    /// no news. To be called when the stack has nothing more to do for now.
    #[inline]
    pub fn flush(&mut self) {
        self.sender.queue.flush();
    }

    /// Unmasks interrupts if there is nothing to do until the next one; true if there is not. To
    /// be called after [`flush`](Self::flush), and while interrupts are masked: as they are at
    /// first, and as an interrupt handler leaves them ([`Control::mask`]).
    ///
    /// The causes of what has been seen already are cleared first, so that they do not interrupt.
    ///
    /// # Errors
    /// [`Error::Gone`] if the device has vanished.
    pub fn may_sleep(&mut self) -> Result<bool, Error> {
        self.control.causes()?;
        // What comes after this look is a new cause.
        if self.is_ready() {
            return Ok(false);
        }
        self.control.unmask();
        Ok(true)
    }

    /// Looks after link and transmitter every two seconds, after an interrupt about the link, and
    /// every 0.2 s while the link is down; resets a device that hangs. To be called now and then:
    /// it costs a look at the clock when nothing is due.
    ///
    /// # Errors
    /// [`Error::Gone`] if the device has vanished; others if it does not come up after a reset.
    pub fn look_after(&mut self) -> Result<(), Error> {
        let now = self.control.platform().now_ns();
        let passed = self.looked_at_ns.map_or(u64::MAX, |last| now.saturating_sub(last));
        let event = self.control.take_link_event();
        let down = !self.control.link().up;
        if event || passed >= WATCHDOG_NS || down && passed >= LINK_DOWN_NS {
            self.looked_at_ns = Some(now);
            let hung = self.control.watchdog(now, self.sender.queue.progress())? == Health::Hung;
            if hung || self.control.has_lost_receiver()? {
                self.reset()?;
            }
        }
        Ok(())
    }

    /// The control half: link, address, filters, statistics.
    pub fn control(&self) -> &Control<P> {
        &self.control
    }

    /// The control half. To reset the device there is [`reset`](Self::reset).
    pub fn control_mut(&mut self) -> &mut Control<P> {
        &mut self.control
    }

    /// Resets the device and starts it anew: frames in its rings are lost, buffers are not.
    ///
    /// # Errors
    /// As [`Control::reset`].
    pub fn reset(&mut self) -> Result<(), Error> {
        self.control.reset(&mut self.receiver.queue, &mut self.sender.queue)
    }

    /// What the driver's queues have counted: received, transmitted.
    pub fn driver_counters(&self) -> (RxCounters, TxCounters) {
        (self.receiver.queue.counters(), self.sender.queue.counters())
    }

    /// Frames that were received and not handed out.
    pub fn receive_counters(&self) -> ReceiveCounters {
        self.receiver.counters
    }

    /// Frames that the stack wrote and that were not sent.
    pub fn transmit_counters(&self) -> TransmitCounters {
        self.sender.counters
    }
}
