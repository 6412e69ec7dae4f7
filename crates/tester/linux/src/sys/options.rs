//! Socket options, and the address of packet sockets.

use super::check;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

/// Values of socket options.
///
/// # Safety
/// An integer, or a `repr(C)` struct of integers without padding: all of its bytes are initialised, and any
/// bytes are a valid value.
pub(crate) unsafe trait Plain: Copy {}

// SAFETY: integers.
unsafe impl Plain for i32 {}
// SAFETY: integers.
unsafe impl Plain for u32 {}
// SAFETY: integers, without padding.
unsafe impl<const N: usize> Plain for [u32; N] {}
// SAFETY: four integers of 32 bits.
unsafe impl Plain for libc::tpacket_req {}
// SAFETY: two integers of 32 bits.
unsafe impl Plain for libc::tpacket_stats {}
// SAFETY: integers of 32, 16 and 16 bits, and 8 bytes.
unsafe impl Plain for libc::packet_mreq {}

/// Sets a socket option.
pub(crate) fn set<T: Plain>(fd: BorrowedFd<'_>, level: i32, option: i32, value: &T) -> io::Result<()> {
    let length = size_of::<T>() as libc::socklen_t;
    // SAFETY: the kernel reads `length` bytes of `value`, all initialised (`Plain`). No option of `Plain`'s
    // types holds an address.
    check(unsafe { libc::setsockopt(fd.as_raw_fd(), level, option, (&raw const *value).cast(), length) })
        .map(drop)
}

/// Reads a socket option. Bytes that the kernel does not write are 0.
pub(crate) fn get<T: Plain>(fd: BorrowedFd<'_>, level: i32, option: i32) -> io::Result<T> {
    // SAFETY: any bytes are a valid value (`Plain`).
    let mut value: T = unsafe { std::mem::zeroed() };
    let mut length = size_of::<T>() as libc::socklen_t;
    // SAFETY: the kernel writes at most `length` bytes, the size of `value`.
    check(unsafe {
        libc::getsockopt(fd.as_raw_fd(), level, option, (&raw mut value).cast(), &raw mut length)
    })?;
    Ok(value)
}

/// Binds a packet socket to an interface, for frames of a protocol (an EtherType; 0 for none).
pub(crate) fn bind_packet(fd: BorrowedFd<'_>, interface: u32, protocol: u16) -> io::Result<()> {
    let address = libc::sockaddr_ll {
        sll_family: libc::AF_PACKET as u16,
        sll_protocol: protocol.to_be(),
        sll_ifindex: interface.cast_signed(),
        sll_hatype: 0,
        sll_pkttype: 0,
        sll_halen: 0,
        sll_addr: [0; 8],
    };
    let length = size_of_val(&address) as libc::socklen_t;
    // SAFETY: the kernel reads `length` bytes, which are `address`.
    check(unsafe { libc::bind(fd.as_raw_fd(), (&raw const address).cast(), length) }).map(drop)
}
