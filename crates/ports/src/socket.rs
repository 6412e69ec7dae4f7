//! What all sockets need: system calls with their errors.

use std::io;
use std::mem;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

/// What a system call says: an error if it is negative.
pub(crate) fn check(result: libc::c_int) -> io::Result<libc::c_int> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// A new socket, which never waits and does not go to child processes.
pub(crate) fn socket(family: libc::c_int, kind: libc::c_int) -> io::Result<OwnedFd> {
    // SAFETY: no memory is involved.
    let fd = check(unsafe { libc::socket(family, kind | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK, 0) })?;
    // SAFETY: a new descriptor that is nobody else's.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Sets a socket option. `T` is what the kernel expects of this option: plain data.
pub(crate) fn set<T>(
    fd: BorrowedFd<'_>,
    level: libc::c_int,
    option: libc::c_int,
    value: &T,
) -> io::Result<()> {
    let length = mem::size_of::<T>() as libc::socklen_t;
    // SAFETY: the kernel reads `length` bytes at the address of `value`, which lives.
    check(unsafe { libc::setsockopt(fd.as_raw_fd(), level, option, (&raw const *value).cast(), length) })
        .map(drop)
}

/// Binds a socket to an address. `T` is the address of its family: plain data.
pub(crate) fn bind<T>(fd: BorrowedFd<'_>, address: &T) -> io::Result<()> {
    let length = mem::size_of::<T>() as libc::socklen_t;
    // SAFETY: the kernel reads `length` bytes at the address of `address`, which lives.
    check(unsafe { libc::bind(fd.as_raw_fd(), (&raw const *address).cast(), length) }).map(drop)
}

/// Has the kernel send what lies in a ring that it shares with the socket.
pub(crate) fn kick(fd: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: no memory is involved: the message is empty.
    let result =
        unsafe { libc::sendto(fd.as_raw_fd(), std::ptr::null(), 0, libc::MSG_DONTWAIT, std::ptr::null(), 0) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Has the kernel look for buffers to receive into, in a ring that it shares with the socket.
pub(crate) fn wake_receiver(fd: BorrowedFd<'_>) {
    let none = std::ptr::null_mut();
    // SAFETY: no memory is involved: there is no room for a message. That is no error that matters.
    unsafe { libc::recvfrom(fd.as_raw_fd(), none, 0, libc::MSG_DONTWAIT, none.cast(), none.cast()) };
}
