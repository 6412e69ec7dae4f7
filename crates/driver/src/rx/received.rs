//! What the consumer of received frames gets.

use super::{format::Written, judge::Whole};
use kpps_datasheet::desc::{
    RxWriteback,
    extended::{self, RssType},
    rx_error, rx_status,
};
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
    /// The buffer is one of those for headers ([`RxFormat::Split`](crate::config::RxFormat::Split)),
    /// and what is in it are headers, unless the frame has none that the device knows.
    pub header: bool,
    pub(super) written: Written,
}

/// The hash by which the device chose a receive queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hash {
    /// The Toeplitz hash.
    pub value: u32,
    /// What it was taken over.
    pub over: RssType,
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
    pub(super) fn whole(written: Written, length: Whole, buffer: B) -> Self {
        buffer.sync_for_cpu(length.length.into());
        Self::part(written, buffer, length.without_fcs, (true, true))
    }
}

impl<B> Received<B> {
    /// A frame that software has made, in one buffer, as if it had been received: the device has no verdict on it.
    pub fn made(buffer: B, bytes: u16) -> Self {
        Self::part(Written { word: 0, hash: 0 }, buffer, bytes, (true, true))
    }

    /// A part of a frame, from all that is usual.
    #[inline]
    pub(super) fn part(written: Written, buffer: B, bytes: u16, (first, last): (bool, bool)) -> Self {
        Self { buffer, bytes, excess: 0, first, last, error: false, header: false, written }
    }
}

impl<B> Received<B> {
    fn verdict(&self, calculated: u8, error: u8) -> Checksum {
        let wb = RxWriteback::unpack(self.written.word);
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
        let wb = RxWriteback::unpack(self.written.word);
        (self.last && wb.status & rx_status::VP != 0).then_some(wb.special)
    }
    /// The RSS hash, if the device took one ([`Config::rss`](crate::Config::rss)); known at the end of a frame.
    pub fn hash(&self) -> Option<Hash> {
        match RssType::of(self.written.hash) {
            RssType::None | RssType::Reserved => None,
            _ if !self.last => None,
            over => Some(Hash { value: extended::rss_hash(self.written.hash), over }),
        }
    }
    /// The frame passed only an inexact (multicast hash) filter; known at the end of a frame.
    pub fn is_inexact(&self) -> bool {
        self.last && RxWriteback::unpack(self.written.word).status & rx_status::PIF != 0
    }
}
