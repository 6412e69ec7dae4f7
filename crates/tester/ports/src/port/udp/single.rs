//! UDP with the standard library: one datagram for each system call.

use super::{Datagram, HEADERS};
use crate::port::Frame;
use kpps_platform::Buffer;
use kpps_platform::memory::PoolBuffer;
use std::io;
use std::net::{SocketAddr, UdpSocket};

/// Datagrams that are passed on at once.
pub(super) const BATCH: usize = 64;

/// As `batch::send`. Messages are never cut.
pub(super) fn send(socket: &UdpSocket, frames: &[(Frame, usize)], _: bool) -> io::Result<usize> {
    for (index, (frame, start)) in frames.iter().enumerate() {
        match socket.send(frame.as_ref().get(*start..).unwrap_or_default()) {
            Ok(_) => {}
            Err(error) if index == 0 => return Err(error),
            Err(_) => return Ok(index),
        }
    }
    Ok(frames.len())
}

/// As `batch::receive`.
pub(super) fn receive(
    socket: &UdpSocket,
    buffers: &mut [PoolBuffer],
    arrived: &mut [Option<Datagram>; BATCH],
    _: bool,
) -> io::Result<usize> {
    for (index, (buffer, arrived)) in buffers.iter_mut().zip(arrived.iter_mut()).enumerate() {
        let room = buffer.bytes_mut().get_mut(HEADERS..).unwrap_or_default();
        match socket.recv(room) {
            // A full buffer counts as a truncated datagram.
            Ok(bytes) => *arrived = (bytes < room.len()).then_some(Datagram { bytes, stamp: None }),
            Err(error) if index == 0 => return Err(error),
            Err(_) => return Ok(index),
        }
    }
    Ok(buffers.len().min(BATCH))
}

/// Unknown here.
pub(super) fn cuts(_: SocketAddr) -> bool {
    false
}

/// Unknown here.
#[cfg(not(target_os = "linux"))]
pub(super) fn path_mtu(_: &UdpSocket, _: SocketAddr) -> Option<usize> {
    None
}

/// There are no stamps here.
pub(super) fn stamp(_: &UdpSocket) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Nothing to prepare.
pub(super) fn prepare(_: &UdpSocket) -> io::Result<()> {
    Ok(())
}

/// Unknown here.
pub(super) fn dropped(_: &UdpSocket) -> Option<u64> {
    None
}

/// Whether the system refused this datagram because it was too long, or had no room for it.
#[cfg(not(target_os = "linux"))]
pub(super) fn is_refused(error: &io::Error) -> bool {
    /// EMSGSIZE and ENOBUFS of macOS and the BSDs, WSAEMSGSIZE and WSAENOBUFS of Windows.
    const REFUSED: [i32; 2] = if cfg!(windows) { [10040, 10055] } else { [40, 55] };
    error.raw_os_error().is_some_and(|code| REFUSED.contains(&code))
}
