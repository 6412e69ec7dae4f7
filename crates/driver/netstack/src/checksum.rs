//! Checks checksums that the card did not check, and prepares frames whose checksums the card inserts.

use crate::layout::{Content, ETHERNET_BYTES, Layout, Transport, UDP};
use kpps_driver::{Checksums, Offload, Segmentation, Sum as Field};
use kpps_frames::checksum::checksum;

/// The verdict on the checksums of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// All are right, or there are none.
    Good,
    /// One is wrong.
    Bad,
    /// A fragment, whose transport checksum cannot be checked.
    Fragment,
}

/// Checks the IPv4, TCP and UDP checksums of `frame`.
pub(crate) fn check(frame: &[u8]) -> Verdict {
    let Some(layout) = Layout::of(frame) else { return Verdict::Good };
    let is_ipv4 = layout.ipv4.is_some();
    let header = layout.ipv4.and_then(|header| frame.get(header));
    if header.is_some_and(|header| checksum(header) != 0) {
        return Verdict::Bad;
    }
    let transport = match layout.content {
        Content::Transport(transport) => transport,
        Content::Other => return Verdict::Good,
        Content::Broken => return Verdict::Bad,
        Content::Fragment => return Verdict::Fragment,
    };
    let Some(bytes) = frame.get(transport.bytes.clone()) else { return Verdict::Bad };
    // UDP without a checksum is valid over IPv4, but not over IPv6 (RFC 8200, 8.1).
    if transport.protocol == UDP && bytes.get(6..8) == Some(&[0, 0]) {
        return if is_ipv4 { Verdict::Good } else { Verdict::Bad };
    }
    match transport.pseudo_header(bytes.len()).with(bytes).checksum() {
        0 => Verdict::Good,
        _ => Verdict::Bad,
    }
}

/// Prepares the checksum fields of `frame` for the card. Returns the offload; with `mss`, segmentation into
/// segments of `mss` payload bytes.
pub(crate) fn prepare(frame: &mut [u8], mss: Option<u16>) -> Offload {
    let Some(Layout { ipv4, content }) = Layout::of(frame) else { return Offload::None };
    let ip = ipv4.clone().and_then(|header| {
        put(frame, header.start + 10, 0);
        field(header.start, header.start + 10, header.end - 1)
    });
    let Content::Transport(transport) = content else {
        // The transport checksum of a fragment covers bytes of other frames.
        return insert(ip, None);
    };
    if let Some(mss) = mss
        && let Some(segmentation) = segment(frame, ip, &transport, mss)
    {
        return Offload::Segment(segmentation);
    }
    let bytes = transport.bytes.clone();
    // If the sum goes to the end of the frame, one context serves frames of all sizes.
    let last = if bytes.end == frame.len() { 0 } else { bytes.end - 1 };
    let seed = transport.pseudo_header(bytes.len());
    let sum = field(bytes.start, transport.field, last);
    if sum.is_some() {
        put(frame, transport.field, seed.folded());
    } else {
        // The extension headers are longer than a context can express.
        fill_transport(frame, &transport);
    }
    insert(ip, sum)
}

/// Computes the checksums of `frame` in software.
pub(crate) fn fill(frame: &mut [u8]) {
    let Some(Layout { ipv4, content }) = Layout::of(frame) else { return };
    if let Some(header) = ipv4 {
        let field = header.start + 10;
        put(frame, field, 0);
        let sum = frame.get(header).map_or(0, checksum);
        put(frame, field, sum);
    }
    if let Content::Transport(transport) = content {
        fill_transport(frame, &transport);
    }
}

fn fill_transport(frame: &mut [u8], transport: &Transport) {
    put(frame, transport.field, 0);
    let Some(bytes) = frame.get(transport.bytes.clone()) else { return };
    // 0 means "none" in UDP.
    let sum = match transport.pseudo_header(bytes.len()).with(bytes).checksum() {
        0 => 0xffff,
        sum => sum,
    };
    put(frame, transport.field, sum);
}

/// Prepares the headers of `frame` for segmentation (SDM 3.5.7); `None` if the card cannot segment it.
fn segment(frame: &mut [u8], ip: Option<Field>, transport: &Transport, mss: u16) -> Option<Segmentation> {
    let start = transport.bytes.start;
    let header = start + 4 * usize::from(frame.get(start + 12)? >> 4);
    let payload = transport.bytes.end.checked_sub(header).filter(|&bytes| bytes > mss.into())?;
    if !transport.is_tcp() || transport.bytes.end != frame.len() {
        return None;
    }
    let segmentation = Segmentation {
        ip: ip.or(field(ETHERNET_BYTES, 0, 0))?,
        transport: field(start, transport.field, 0)?,
        is_ipv4: ip.is_some(),
        is_tcp: true,
        header_bytes: header.try_into().ok()?,
        payload_bytes: payload.try_into().ok()?,
        mss,
    };
    // The card fills in the length field, at byte 2 of IPv4 and 4 of IPv6.
    put(frame, ETHERNET_BYTES + if ip.is_some() { 2 } else { 4 }, 0);
    put(frame, transport.field, transport.pseudo_header(0).folded());
    Some(segmentation)
}

fn insert(ip: Option<Field>, transport: Option<Field>) -> Offload {
    match (ip, transport) {
        (None, None) => Offload::None,
        _ => Offload::Checksum(Checksums { ip, transport }),
    }
}

/// A sum over bytes `start..=last` (0: to the end) written at `field`, if a context can express it.
fn field(start: usize, field: usize, last: usize) -> Option<Field> {
    Some(Field { start: start.try_into().ok()?, field: field.try_into().ok()?, end: last.try_into().ok()? })
}

fn put(frame: &mut [u8], at: usize, value: u16) {
    if let Some(word) = frame.get_mut(at..at + 2) {
        word.copy_from_slice(&value.to_be_bytes());
    }
}

#[cfg(test)]
mod tests;
