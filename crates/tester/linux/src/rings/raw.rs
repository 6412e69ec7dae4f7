//! Sockets for frames: opened without a protocol, and woken by empty messages.

use rustix::io::Errno;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};

/// A new raw socket. Its calls never wait, and child processes do not inherit it.
pub(crate) fn raw_socket(family: AddressFamily) -> io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    Ok(rustix::net::socket_with(family, SocketType::RAW, flags, None)?)
}

/// Makes the kernel send the frames in a ring that it shares with the socket.
///
/// # Errors
/// Errors of the system.
#[inline]
pub fn kick(fd: BorrowedFd<'_>) -> Result<(), Errno> {
    rustix::net::send(fd, &[], SendFlags::DONTWAIT).map(drop)
}

/// Makes the kernel look for receive buffers in a ring that it shares with the socket.
#[inline]
pub fn wake_receiver(fd: BorrowedFd<'_>) {
    // There is no message to receive: the result means nothing.
    let _ = rustix::net::recv(fd, &mut [0_u8; 0], RecvFlags::DONTWAIT);
}
