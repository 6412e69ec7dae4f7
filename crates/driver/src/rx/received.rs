//! What the consumer of received frames gets.

use super::judge::Whole;
use kpps_datasheet::desc::{RxWriteback, rx_error, rx_status};
use kpps_platform::Buffer;

/// A received frame, or a part of one that is longer than a buffer.
#[derive(Debug)]
pub struct Received<B> {
    /// The buffer that holds the bytes.
    pub buffer: B,
    /// Bytes in the buffer, without FCS.
    pub bytes: u16,
    /// With [`last`](Self::last): so many bytes at the end of the part *before* this one are FCS too,
    /// to be cut off. At most 3, and only when the driver has to cut the FCS off a frame in several buffers.
    pub excess: u8,
    /// The frame starts here.
    pub first: bool,
    /// The frame ends here.
    pub last: bool,
    /// With [`last`](Self::last): the frame is bad, forget its earlier parts. Bad frames of one
    /// buffer are dropped by the driver and never get here.
    pub error: bool,
    pub(super) word: u64,
}

/// What the device says about a checksum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Checksum {
    /// It did not look.
    Unknown,
    /// Right.
    Good,
    /// Wrong.
    Bad,
}

impl<B: Buffer> Received<B> {
    /// A good frame in one buffer.
    #[inline]
    pub(super) fn whole(word: u64, length: Whole, buffer: B) -> Self {
        buffer.sync_for_cpu(length.length.into());
        Self { buffer, bytes: length.without_fcs, excess: 0, first: true, last: true, error: false, word }
    }
}

impl<B> Received<B> {
    fn verdict(&self, calculated: u8, error: u8) -> Checksum {
        let wb = RxWriteback::unpack(self.word);
        if !self.last || wb.status & rx_status::IXSM != 0 || wb.status & calculated == 0 {
            Checksum::Unknown
        } else if wb.errors & error != 0 {
            Checksum::Bad
        } else {
            Checksum::Good
        }
    }
    /// The device's verdict on the IP header checksum; known at the end of a frame.
    pub fn ip_checksum(&self) -> Checksum {
        self.verdict(rx_status::IPCS, rx_error::IPE)
    }
    /// The device's verdict on the TCP or UDP checksum; known at the end of a frame.
    pub fn transport_checksum(&self) -> Checksum {
        self.verdict(rx_status::TCPCS, rx_error::TCPE)
    }
    /// The VLAN tag that the device stripped; known at the end of a frame.
    pub fn vlan(&self) -> Option<u16> {
        let wb = RxWriteback::unpack(self.word);
        (self.last && wb.status & rx_status::VP != 0).then_some(wb.special)
    }
    /// The frame passed only an inexact (multicast hash) filter; known at the end of a frame.
    pub fn is_inexact(&self) -> bool {
        self.last && RxWriteback::unpack(self.word).status & rx_status::PIF != 0
    }
}
