//! UDP on Linux: many datagrams with one system call, and equal ones as one message, which the kernel cuts.

use super::{Datagram, HEADERS};
pub(super) use crate::sys::messages::BATCH;

use crate::interface::name_of;
use crate::port::Frame;
use crate::sys::messages::{Incoming, Outgoing};
use crate::sys::options::{get, set};
use crate::sys::packet as abi;
use crate::{ethtool, netlink};
use kpps_platform::Buffer;
use kpps_platform::memory::PoolBuffer;
use rustix::net::sockopt::{self, Ipv4PathMtuDiscovery, Ipv6PathMtuDiscovery};
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::AsFd;

/// Payload of a message at most, in bytes.
const LONGEST: usize = 65_507;
/// Bytes that may wait in the kernel, in each direction.
const KERNEL_BUFFER: usize = 8 << 20;

/// Sends the payloads of frames, and returns how many were taken, at least one. If the kernel `cuts`
/// messages, payloads of equal length that follow each other are one message.
pub(super) fn send(socket: &UdpSocket, frames: &[(Frame, usize)], cuts: bool) -> io::Result<usize> {
    let mut datagrams = Outgoing::new();
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

/// Whether the kernel cuts messages to this peer before the interface: each datagram is a frame for it.
pub(super) fn cuts(peer: SocketAddr) -> bool {
    let features = || ethtool::features(&name_of(netlink::route_to(peer.ip())?)?);
    features().is_ok_and(|all| ethtool::cut_before(&all))
}

/// Makes the kernel report when it received each datagram.
pub(super) fn stamp(socket: &UdpSocket) -> io::Result<()> {
    set(socket.as_fd(), abi::SOL_SOCKET, abi::SO_TIMESTAMPNS, &1)
}

/// Receives datagrams into `buffers`, behind room for headers, without waiting. Writes each datagram's length
/// into `arrived`, with its time if the socket is `stamped`; `None` if it was longer than its buffer.
pub(super) fn receive(
    socket: &UdpSocket,
    buffers: &mut [PoolBuffer],
    arrived: &mut [Option<Datagram>; BATCH],
    stamped: bool,
) -> io::Result<usize> {
    let mut room = Incoming::new();
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

/// Gives the socket as much room as the system allows, and forbids fragments.
pub(super) fn prepare(socket: &UdpSocket) -> io::Result<()> {
    // Without CAP_NET_ADMIN the system sets a limit.
    sockopt::set_socket_recv_buffer_size_force(socket, KERNEL_BUFFER)
        .or_else(|_| sockopt::set_socket_recv_buffer_size(socket, KERNEL_BUFFER))?;
    sockopt::set_socket_send_buffer_size_force(socket, KERNEL_BUFFER)
        .or_else(|_| sockopt::set_socket_send_buffer_size(socket, KERNEL_BUFFER))?;
    if socket.local_addr()?.is_ipv4() {
        sockopt::set_ip_mtu_discover(socket, Ipv4PathMtuDiscovery::DO)?;
    } else {
        sockopt::set_ipv6_mtu_discover(socket, Ipv6PathMtuDiscovery::DO)?;
    }
    Ok(())
}

/// The longest packet that the path to the peer takes, in bytes.
pub(super) fn path_mtu(socket: &UdpSocket, peer: SocketAddr) -> Option<usize> {
    let (level, option) =
        if peer.is_ipv4() { (abi::IPPROTO_IP, abi::IP_MTU) } else { (abi::IPPROTO_IPV6, abi::IPV6_MTU) };
    usize::try_from(get::<i32>(socket.as_fd(), level, option).ok()?).ok()
}

/// Datagrams dropped since the socket was opened because it was full. `None` if the kernel does not report
/// them.
pub(super) fn dropped(socket: &UdpSocket) -> Option<u64> {
    /// The index of drops in the answer to `SO_MEMINFO` (linux/sock_diag.h).
    const DROPS: usize = 8;
    let words: [u32; DROPS + 1] = get(socket.as_fd(), abi::SOL_SOCKET, abi::SO_MEMINFO).ok()?;
    Some(words[DROPS].into())
}

/// Whether the kernel refused this datagram because it was too long, or had no room for it.
pub(super) fn is_refused(error: &io::Error) -> bool {
    use rustix::io::Errno;
    matches!(Errno::from_io_error(error), Some(Errno::MSGSIZE | Errno::NOBUFS))
}
