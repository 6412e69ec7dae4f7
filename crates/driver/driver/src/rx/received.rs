//! Received frames, as the consumer gets them.

use super::format::{SingleBufferLength, Written};
use kpps_datasheet::desc::{
    RxWriteback,
    extended::{self, RssType},
    rx_error, rx_status,
};
use kpps_platform::Buffer;

/// A received frame, or a part of a frame that is longer than a buffer.
#[derive(Debug)]
pub struct Received<B> {
    /// The buffer that holds the bytes.
    pub buffer: B,
    /// Bytes in the buffer, without FCS.
    pub bytes: u16,
    /// With [`last`](Self::last): bytes at the end of the *previous* part that are FCS and must be cut off. 0
    /// to 3; only when the driver cuts off the FCS of a frame in several buffers.
    pub excess: u8,
    /// The frame starts here.
    pub first: bool,
    /// The frame ends here.
    pub last: bool,
    /// With [`last`](Self::last): the frame is bad; drop its earlier parts. The driver itself drops bad
    /// frames that lie in one buffer.
    pub error: bool,
    /// The buffer is a header buffer ([`RxFormat::Split`](crate::config::RxFormat::Split)). It holds the
    /// headers, or the start of a frame without known headers.
    pub header: bool,
    pub(super) written: Written,
}

/// The hash by which the device chose a receive queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hash {
    /// The Toeplitz hash.
    pub value: u32,
    /// The fields that were hashed.
    pub over: RssType,
}

/// The device's verdict on a checksum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Checksum {
    /// The device did not check it.
    Unknown,
    /// It is right.
    Good,
    /// It is wrong.
    Bad,
}

impl<B: Buffer> Received<B> {
    /// A good frame in one buffer.
    #[inline]
    pub(super) fn single_buffer(written: Written, length: SingleBufferLength, buffer: B) -> Self {
        buffer.sync_for_cpu(length.length.into());
        Self::part(written, buffer, length.without_fcs, (true, true))
    }
}

impl<B> Received<B> {
    /// A frame in one buffer that software made, as if it had been received. Its checksums are unknown.
    pub fn made(buffer: B, bytes: u16) -> Self {
        Self::part(Written::NOTHING, buffer, bytes, (true, true))
    }

    /// A part of a frame.
    #[inline]
    pub(super) fn part(written: Written, buffer: B, bytes: u16, (first, last): (bool, bool)) -> Self {
        Self { buffer, bytes, excess: 0, first, last, error: false, header: false, written }
    }
}

impl<B> Received<B> {
    fn verdict(&self, calculated: u8, error: u8) -> Checksum {
        let wb = RxWriteback::unpack(self.written.word());
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
        let wb = RxWriteback::unpack(self.written.word());
        (self.last && wb.status & rx_status::VP != 0).then_some(wb.special)
    }
    /// The RSS hash, if the device computed one ([`Config::rss`](crate::Config::rss)); known at the end of a
    /// frame.
    pub fn hash(&self) -> Option<Hash> {
        match RssType::of(self.written.hash()) {
            RssType::None | RssType::Reserved => None,
            _ if !self.last => None,
            over => Some(Hash { value: extended::rss_hash(self.written.hash()), over }),
        }
    }
    /// The frame passed only an inexact (multicast hash) filter; known at the end of a frame.
    pub fn is_inexact(&self) -> bool {
        self.last && RxWriteback::unpack(self.written.word()).status & rx_status::PIF != 0
    }
}
