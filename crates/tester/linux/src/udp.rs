//! UDP sockets: many datagrams with one system call, and options that the standard library lacks.

use crate::interface::{ethtool, name_of, netlink};
pub use crate::sys::messages::{BATCH, Incoming, Outgoing, Received};
use crate::sys::options::{get, set};
use crate::sys::packet as abi;
use rustix::io::Errno;
use rustix::net::sockopt::{self, Ipv4PathMtuDiscovery, Ipv6PathMtuDiscovery};
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::AsFd;

/// Bytes that may wait in the kernel, in each direction.
const KERNEL_BUFFER: usize = 8 << 20;

/// Whether the kernel cuts messages to this peer before the interface: each datagram is a frame for it.
pub fn cuts(peer: SocketAddr) -> bool {
    let features = || ethtool::features(&name_of(netlink::route_to(peer.ip())?)?);
    features().is_ok_and(|all| ethtool::cut_before(&all))
}

/// Makes the kernel report when it received each datagram.
///
/// # Errors
/// Errors of the system.
pub fn stamp(socket: &UdpSocket) -> io::Result<()> {
    set(socket.as_fd(), abi::SOL_SOCKET, abi::SO_TIMESTAMPNS, &1)
}

/// Gives the socket as much room as the system allows, and forbids fragments.
///
/// # Errors
/// Errors of the system.
pub fn prepare(socket: &UdpSocket) -> io::Result<()> {
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
pub fn path_mtu(socket: &UdpSocket, peer: SocketAddr) -> Option<usize> {
    let (level, option) =
        if peer.is_ipv4() { (abi::IPPROTO_IP, abi::IP_MTU) } else { (abi::IPPROTO_IPV6, abi::IPV6_MTU) };
    usize::try_from(get::<i32>(socket.as_fd(), level, option).ok()?).ok()
}

/// Datagrams dropped since the socket was opened because it was full. `None` if the kernel does not report
/// them.
pub fn dropped(socket: &UdpSocket) -> Option<u64> {
    /// The index of drops in the answer to `SO_MEMINFO` (linux/sock_diag.h).
    const DROPS: usize = 8;
    let words: [u32; DROPS + 1] = get(socket.as_fd(), abi::SOL_SOCKET, abi::SO_MEMINFO).ok()?;
    Some(words[DROPS].into())
}

/// Whether the kernel refused this datagram because it was too long, or had no room for it.
pub fn is_refused(error: &io::Error) -> bool {
    matches!(Errno::from_io_error(error), Some(Errno::MSGSIZE | Errno::NOBUFS))
}
