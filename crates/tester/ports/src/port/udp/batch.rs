//! UDP on Linux: many datagrams with one system call, and equal ones as one message, which the kernel cuts.

use super::{Datagram, HEADERS};
use crate::port::Frame;
pub(super) use kpps_linux::udp::{BATCH, cuts, dropped, is_refused, path_mtu, prepare, stamp};
use kpps_linux::udp::{Incoming, Outgoing};
use kpps_platform::Buffer;
use kpps_platform::memory::PoolBuffer;
use std::io;
use std::net::UdpSocket;

/// Payload of a message at most, in bytes.
const LONGEST: usize = 65_507;

/// Sends the payloads of frames, and returns how many were taken, at least one. If the kernel `cuts`
/// messages, payloads of equal length that follow each other are one message.
pub(super) fn send(socket: &UdpSocket, frames: &[(Frame, usize)], cuts: bool) -> io::Result<usize> {
    let mut datagrams = Outgoing::default();
    // Length of each datagram of the last message, and of the message.
    let (mut each, mut whole) = (0, 0);
    for (index, (frame, start)) in frames.iter().take(BATCH).enumerate() {
        let bytes = frame.as_ref().get(*start..).unwrap_or_default();
        let joins = cuts && index > 0 && bytes.len() == each && each > 0 && whole + each <= LONGEST;
        (each, whole) = (bytes.len(), if joins { whole + each } else { bytes.len() });
        datagrams.add(bytes, joins);
    }
    datagrams.send(socket)
}

/// Receives datagrams into `buffers`, behind room for headers, without waiting. Writes each datagram's length
/// into `arrived`, with its time if the socket is `stamped`; `None` if it was longer than its buffer.
pub(super) fn receive(
    socket: &UdpSocket,
    buffers: &mut [PoolBuffer],
    arrived: &mut [Option<Datagram>; BATCH],
    stamped: bool,
) -> io::Result<usize> {
    let mut room = Incoming::default();
    for buffer in buffers.iter_mut().take(BATCH) {
        room.add(buffer.bytes_mut().get_mut(HEADERS..).unwrap_or_default());
    }
    let mut count = 0;
    for (received, arrived) in room.receive(socket, stamped)?.zip(arrived) {
        let datagram = Datagram { bytes: received.bytes, stamp: received.stamp };
        *arrived = (!received.truncated).then_some(datagram);
        count += 1;
    }
    Ok(count)
}
