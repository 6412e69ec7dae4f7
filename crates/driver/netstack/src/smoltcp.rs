//! e1000 cards as devices of the [smoltcp](https://docs.rs/smoltcp) network stack.
//!
//! A [`Nic`] is a probed [`Device`] behind smoltcp's [`phy::Device`]. The stack reads received frames in the
//! buffers that the card filled, and writes frames to send into the driver's buffers. Received frames are
//! taken out of the ring in bursts. [`Nic::poll`] hands all frames of a poll to the card with one tail write.
//! The card computes checksums where it can ([`Offload`]). Nothing on the packet path allocates or reads a
//! register.
//!
//! With the feature `segmentation`, the card cuts large TCP segments if it can and the driver's buffers hold
//! two frames or more (16384 bytes are a good size). `examples/smoltcp_echo.rs` in the source tree is a whole
//! program.
//!
//! ```
//! use kpps_driver::fake::Card;
//! use kpps_driver::probe;
//! use kpps_netstack::{Offload, buffers_needed, smoltcp::Nic};
//! use smoltcp::iface::{Config, Interface, SocketSet};
//! use smoltcp::time::Instant;
//!
//! let config = kpps_driver::Config::kpps();
//! let card = Card::new()?;
//! let pool = card.memory().pool(buffers_needed(&config), 2048, None)?;
//! let device = probe(card.platform(), Card::CHIP, config, pool)?;
//! let mut nic = Nic::new(device, Offload::ALL);
//! let mut interface = Interface::new(Config::new(nic.hardware_address()), &mut nic, Instant::ZERO);
//! let mut sockets = SocketSet::new(Vec::new());
//! // The main loop:
//! nic.endpoint.look_after()?;
//! nic.poll(Instant::ZERO, &mut interface, &mut sockets);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use crate::{Endpoint, Offload};

use kpps_driver::Device;
use kpps_platform::{BufferSource, Platform};
use smoltcp::iface::{Interface, PollResult, SocketSet};
use smoltcp::phy::{self, Checksum, DeviceCapabilities, Medium};
use smoltcp::time::Instant;
use smoltcp::wire::{EthernetAddress, HardwareAddress};

/// A card as a device of smoltcp.
pub struct Nic<P: Platform, S: BufferSource> {
    /// The card behind it: link, interrupts, counters.
    pub endpoint: Endpoint<P, S>,
    /// The largest segment that the card cuts, in bytes.
    #[cfg(feature = "segmentation")]
    large_bytes: Option<core::num::NonZeroUsize>,
}

impl<P: Platform, S: BufferSource> Nic<P, S> {
    /// Makes a smoltcp device of a probed card.
    ///
    /// The device's pool should have [`buffers_needed`](crate::buffers_needed) buffers; with fewer, sending
    /// or receiving sometimes waits for one.
    pub fn new(device: Device<P, S>, offload: Offload) -> Self {
        #[cfg_attr(not(feature = "segmentation"), expect(unused_mut))]
        let mut endpoint = Endpoint::new(device, offload);
        #[cfg(feature = "segmentation")]
        let large_bytes = {
            let frame_bytes = usize::from(endpoint.frame_bytes());
            // Segmentation of less than two frames is not worth its context descriptor.
            let large = endpoint.large_bytes().filter(|&bytes| bytes >= 2 * frame_bytes);
            large.and_then(core::num::NonZeroUsize::new)
        };
        Self {
            endpoint,
            #[cfg(feature = "segmentation")]
            large_bytes,
        }
    }

    /// The card's address, for smoltcp's configuration.
    pub fn hardware_address(&self) -> HardwareAddress {
        HardwareAddress::Ethernet(EthernetAddress(self.endpoint.control().address()))
    }

    /// [`Interface::poll`], then hands all sent frames to the card with one tail write.
    ///
    /// After a plain [`Interface::poll`], frames wait for the next poll or for [`Endpoint::flush`].
    pub fn poll(
        &mut self,
        now: Instant,
        interface: &mut Interface,
        sockets: &mut SocketSet<'_>,
    ) -> PollResult {
        let result = interface.poll(now, self, sockets);
        self.endpoint.flush();
        result
    }
}

impl<P: Platform, S: BufferSource> phy::Device for Nic<P, S> {
    type RxToken<'a>
        = RxToken<'a, P, S>
    where
        Self: 'a;
    type TxToken<'a>
        = TxToken<'a, P, S>
    where
        Self: 'a;

    #[inline]
    fn receive(&mut self, _: Instant) -> Option<(Self::RxToken<'_>, Self::TxToken<'_>)> {
        let (received, slot) = self.endpoint.receive()?;
        Some((RxToken(received), TxToken::new(slot)))
    }

    #[inline]
    fn transmit(&mut self, _: Instant) -> Option<Self::TxToken<'_>> {
        self.endpoint.transmit().map(TxToken::new)
    }

    fn capabilities(&self) -> DeviceCapabilities {
        let mut capabilities = DeviceCapabilities::default();
        capabilities.medium = Medium::Ethernet;
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
        #[cfg(feature = "segmentation")]
        {
            capabilities.segmentation.tcpv4 = self.large_bytes;
            capabilities.segmentation.tcpv6 = self.large_bytes;
        }
        capabilities
    }
}

/// A received frame, in the buffer that the card filled.
pub struct RxToken<'a, P: Platform, S: BufferSource>(crate::Received<'a, P, S>);

impl<P: Platform, S: BufferSource> phy::RxToken for RxToken<'_, P, S> {
    #[inline]
    fn consume<R, F: FnOnce(&[u8]) -> R>(self, look: F) -> R {
        self.0.consume(|frame| look(frame))
    }
}

/// Space for a frame in a buffer of the driver.
pub struct TxToken<'a, P: Platform, S: BufferSource> {
    slot: crate::Slot<'a, P, S>,
    #[cfg(feature = "segmentation")]
    mss: Option<core::num::NonZeroU16>,
}

impl<'a, P: Platform, S: BufferSource> TxToken<'a, P, S> {
    #[inline]
    fn new(slot: crate::Slot<'a, P, S>) -> Self {
        Self {
            slot,
            #[cfg(feature = "segmentation")]
            mss: None,
        }
    }
}

impl<P: Platform, S: BufferSource> phy::TxToken for TxToken<'_, P, S> {
    #[inline]
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, bytes: usize, write: F) -> R {
        #[cfg(feature = "segmentation")]
        if let Some(mss) = self.mss {
            return self.slot.consume_large(bytes, mss.get(), write);
        }
        self.slot.consume(bytes, write)
    }

    #[cfg(feature = "segmentation")]
    fn set_meta(&mut self, meta: phy::PacketMeta) {
        self.mss = meta.segmentation_offload_size;
    }
}
