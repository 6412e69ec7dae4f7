//! Transmit offloads of a frame, and their context descriptors.

use kpps_datasheet::desc::{TxContext, popts, tx_cmd};

/// A checksum that the device inserts: the one's complement sum of bytes `start..=end` is written
/// at `field`. Offsets are bytes from the start of the frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sum {
    /// The first byte summed.
    pub start: u8,
    /// Where the result goes. Must hold the rest of the sum: that of the pseudo-header, or 0.
    pub field: u8,
    /// The last byte summed; 0: to the end of the frame.
    pub end: u16,
}

/// Checksums to insert into one frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Checksums {
    /// The IPv4 header checksum.
    pub ip: Option<Sum>,
    /// The TCP or UDP checksum.
    pub transport: Option<Sum>,
}

/// TCP (or UDP) segmentation: one large frame becomes many, each with its own copy of the header.
///
/// The caller prepares the header (SDM 3.5.7): IP total length and checksum are 0; the transport checksum
/// field holds the pseudo-header sum without the length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segmentation {
    /// The IPv4 header checksum; for IPv6 only its `start` is used.
    pub ip: Sum,
    /// The transport checksum.
    pub transport: Sum,
    /// IPv4, else IPv6.
    pub is_ipv4: bool,
    /// TCP, else UDP.
    pub is_tcp: bool,
    /// Bytes of header, Ethernet included.
    pub header_bytes: u8,
    /// Bytes of payload: all fragments without the header.
    pub payload_bytes: u32,
    /// Payload bytes of each frame.
    pub mss: u16,
}

/// An offload of one frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Offload {
    /// Nothing: a legacy descriptor.
    #[default]
    None,
    /// Insert checksums.
    Checksum(Checksums),
    /// Segment, inserting checksums.
    Segment(Segmentation),
}

/// How to send a frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TxMeta {
    /// The VLAN tag to insert.
    pub vlan: Option<u16>,
    /// Checksums and segmentation.
    pub offload: Offload,
}

impl Checksums {
    pub(crate) fn context(&self) -> TxContext {
        let mut context = TxContext::default();
        if let Some(ip) = self.ip {
            (context.ipcss, context.ipcso, context.ipcse) = (ip.start, ip.field, ip.end);
            context.cmd |= tx_cmd::IP;
        }
        if let Some(sum) = self.transport {
            (context.tucss, context.tucso, context.tucse) = (sum.start, sum.field, sum.end);
        }
        context
    }
    pub(crate) fn options(&self) -> u8 {
        let ip = if self.ip.is_some() { popts::IXSM } else { 0 };
        let transport = if self.transport.is_some() { popts::TXSM } else { 0 };
        ip | transport
    }
}

impl Segmentation {
    pub(crate) fn context(&self) -> TxContext {
        let protocol = if self.is_tcp { tx_cmd::TCP } else { 0 } | if self.is_ipv4 { tx_cmd::IP } else { 0 };
        TxContext {
            ipcss: self.ip.start,
            ipcso: self.ip.field,
            ipcse: self.ip.end,
            tucss: self.transport.start,
            tucso: self.transport.field,
            tucse: self.transport.end,
            paylen: self.payload_bytes,
            cmd: tx_cmd::TSE | protocol,
            status: 0,
            hdrlen: self.header_bytes,
            mss: self.mss,
        }
    }
    pub(crate) fn options(&self) -> u8 {
        if self.is_ipv4 { popts::IXSM | popts::TXSM } else { popts::TXSM }
    }
}
