//! TCP segmentation: one large packet becomes many frames (SDM 3.5).

use crate::checksum;
use kpps_datasheet::desc::{TxContext, tx_cmd};

/// The longest header (SDM 3.5.5 allows 240; the field holds 255).
const HEADER_BYTES: usize = 255;
const IPV6_HEADER_BYTES: usize = 40;
/// TCP flags that only the last segment keeps (SDM 3.5.9): FIN and PSH.
const LAST_ONLY: u8 = 0x01 | 0x08;

/// A packet being segmented. The context is a copy: a later context descriptor cannot change it
/// (CVE-2018-3295, ZDI-19-425).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Segmentation {
    pub(crate) context: TxContext,
    header: [u8; HEADER_BYTES],
    header_known: bool,
    /// Payload bytes not yet sent.
    left: u32,
    /// Segments sent.
    sent: u32,
}

impl Segmentation {
    /// `None` if the context is invalid: no payload, no segment size, or a segment of more than `longest`
    /// bytes.
    pub(crate) fn new(context: TxContext, longest: usize) -> Option<Self> {
        let segment = usize::from(context.hdrlen) + usize::from(context.mss);
        if context.mss == 0 || context.paylen == 0 || segment > longest {
            return None;
        }
        Some(Self { context, header: [0; HEADER_BYTES], header_known: false, left: context.paylen, sent: 0 })
    }

    fn header_bytes(&self) -> usize {
        usize::from(self.context.hdrlen)
    }

    /// Bytes of the current segment, header and payload.
    fn target(&self) -> usize {
        self.header_bytes() + self.left.min(u32::from(self.context.mss)) as usize
    }

    /// How many more bytes the segment needs when it has `held`.
    pub(crate) fn wants(&self, held: usize) -> u32 {
        self.target().saturating_sub(held) as u32
    }

    /// Copies the header once it is complete. Returns whether it is.
    pub(crate) fn take_header(&mut self, packet: &[u8]) -> bool {
        if !self.header_known
            && let Some(header) = packet.get(..self.header_bytes())
        {
            self.header[..header.len()].copy_from_slice(header);
            self.header_known = true;
        }
        self.header_known
    }

    /// Whether a segment of `len` bytes is complete.
    pub(crate) fn complete(&self, len: usize) -> bool {
        len >= self.target()
    }

    /// Whether the current segment is the last.
    pub(crate) fn is_last(&self) -> bool {
        self.left <= u32::from(self.context.mss)
    }

    /// Whether `len` bytes are more than the header.
    pub(crate) fn has_payload(&self, len: usize) -> bool {
        self.header_known && len > self.header_bytes()
    }

    /// Segments sent.
    pub(crate) fn sent(&self) -> u32 {
        self.sent
    }

    /// Writes lengths, numbers and flags of this segment (SDM 3.5.9); with `sum` also the length
    /// into the pseudo-header sum (SDM 3.5.7). Fields outside the packet are left alone.
    pub(crate) fn update_headers(&self, packet: &mut [u8], last: bool, sum: bool) {
        let c = &self.context;
        let ip = usize::from(c.ipcss);
        let transport = usize::from(c.tucss);
        let len = packet.len();
        let header = self.header_bytes();
        let set = |packet: &mut [u8], at: usize, value: u16| {
            if at + 2 <= header.min(len) {
                packet[at..at + 2].copy_from_slice(&value.to_be_bytes());
            }
        };
        let get =
            |packet: &[u8], at: usize| packet.get(at..at + 2).map_or(0, |b| u16::from_be_bytes([b[0], b[1]]));
        if c.cmd & tx_cmd::IP != 0 {
            set(packet, ip + 2, len.saturating_sub(ip) as u16);
            let id = get(packet, ip + 4).wrapping_add(self.sent as u16);
            set(packet, ip + 4, id);
        } else {
            // The manual does not subtract the IPv6 header's own 40 bytes (SDM 3.5.9.1), but the field
            // excludes them.
            set(packet, ip + 4, len.saturating_sub(ip + IPV6_HEADER_BYTES) as u16);
        }
        if c.cmd & tx_cmd::TCP != 0 {
            let at = transport + 4;
            if at + 4 <= header.min(len) {
                let mut number = u32::from(get(packet, at)) << 16 | u32::from(get(packet, at + 2));
                number = number.wrapping_add(self.sent.wrapping_mul(u32::from(c.mss)));
                packet[at..at + 4].copy_from_slice(&number.to_be_bytes());
            }
            if !last && transport + 14 <= header.min(len) {
                packet[transport + 13] &= !LAST_ONLY;
            }
        } else {
            set(packet, transport + 4, len.saturating_sub(transport) as u16);
        }
        if sum {
            checksum::add_length(packet, c.tucso, len.saturating_sub(transport));
        }
    }

    /// The segment is sent: `packet` becomes the header of the next.
    pub(crate) fn next(&mut self, packet: &mut Vec<u8>) {
        self.left -= self.left.min(u32::from(self.context.mss));
        self.sent += 1;
        packet.clear();
        packet.extend_from_slice(&self.header[..self.header_bytes()]);
    }
}
