//! Many datagrams in one system call: sendmmsg(2), recvmmsg(2).

use super::HEADERS;
use crate::port::Frame;
use crate::socket::check;
use kpps_dma::PoolBuffer;
use kpps_platform::Buffer;
use std::io;
use std::mem;
use std::net::UdpSocket;
use std::os::fd::AsRawFd;

/// Datagrams for each system call.
pub(super) const BATCH: usize = 64;

const NOTHING: libc::iovec = libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 };

/// Messages of one piece each.
struct Messages {
    vectors: [libc::iovec; BATCH],
    headers: [libc::mmsghdr; BATCH],
}

impl Messages {
    fn new() -> Self {
        // SAFETY: all zeroes is a valid value of this plain C struct.
        Self { vectors: [NOTHING; BATCH], headers: unsafe { mem::zeroed() } }
    }
    fn set(&mut self, index: usize, start: *mut u8, bytes: usize) {
        self.vectors[index] = libc::iovec { iov_base: start.cast(), iov_len: bytes };
        self.headers[index].msg_hdr.msg_iovlen = 1;
    }
    /// The messages; not to be moved from now on.
    fn ready(&mut self) -> *mut libc::mmsghdr {
        for (header, vector) in self.headers.iter_mut().zip(&mut self.vectors) {
            header.msg_hdr.msg_iov = &raw mut *vector;
        }
        self.headers.as_mut_ptr()
    }
}

/// Sends what is behind the headers of frames; returns how many were taken, at least one.
pub(super) fn send(socket: &UdpSocket, frames: &[(Frame, usize)]) -> io::Result<usize> {
    let mut messages = Messages::new();
    let count = frames.len().min(BATCH);
    for (index, (frame, start)) in frames.iter().take(count).enumerate() {
        let bytes = frame.as_ref().get(*start..).unwrap_or_default();
        messages.set(index, bytes.as_ptr().cast_mut(), bytes.len());
    }
    let list = messages.ready();
    // SAFETY: `count` messages, whose one piece each is a frame that the kernel only reads; all of them live.
    let result = unsafe { libc::sendmmsg(socket.as_raw_fd(), list, count as _, libc::MSG_DONTWAIT as _) };
    check(result).map(|sent| sent as usize)
}

/// Receives datagrams, one into each buffer as far as they go, behind room for headers. Puts down the length of each, or
/// `None` if it was longer than the buffer; never waits.
pub(super) fn receive(
    socket: &UdpSocket,
    buffers: &mut [PoolBuffer],
    arrived: &mut [Option<usize>; BATCH],
) -> io::Result<usize> {
    let mut messages = Messages::new();
    let count = buffers.len().min(BATCH);
    for (index, buffer) in buffers.iter_mut().take(count).enumerate() {
        let room = buffer.bytes_mut().get_mut(HEADERS..).unwrap_or_default();
        messages.set(index, room.as_mut_ptr(), room.len());
    }
    let list = messages.ready();
    // SAFETY: `count` messages, whose one piece each is a buffer of ours, borrowed exclusively; all of them live.
    let result = unsafe {
        libc::recvmmsg(socket.as_raw_fd(), list, count as _, libc::MSG_DONTWAIT as _, std::ptr::null_mut())
    };
    let received = check(result)? as usize;
    for (message, arrived) in messages.headers.iter().zip(arrived.iter_mut()).take(received) {
        let whole = message.msg_hdr.msg_flags & libc::MSG_TRUNC == 0;
        *arrived = whole.then_some(message.msg_len as usize);
    }
    Ok(received)
}

/// As much room as the system gives for datagrams that wait, and none of them ever in parts.
pub(super) fn prepare(socket: &UdpSocket) -> io::Result<()> {
    use crate::socket::set;
    use std::os::fd::AsFd;
    const KERNEL_BUFFER: libc::c_int = 8 << 20;
    for (forced, polite) in [(libc::SO_RCVBUFFORCE, libc::SO_RCVBUF), (libc::SO_SNDBUFFORCE, libc::SO_SNDBUF)]
    {
        // Without CAP_NET_ADMIN as much as the system allows.
        if set(socket.as_fd(), libc::SOL_SOCKET, forced, &KERNEL_BUFFER).is_err() {
            set(socket.as_fd(), libc::SOL_SOCKET, polite, &KERNEL_BUFFER)?;
        }
    }
    if socket.local_addr()?.is_ipv4() {
        set(socket.as_fd(), libc::IPPROTO_IP, libc::IP_MTU_DISCOVER, &libc::IP_PMTUDISC_DO)
    } else {
        set(socket.as_fd(), libc::IPPROTO_IPV6, libc::IPV6_MTU_DISCOVER, &libc::IPV6_PMTUDISC_DO)
    }
}

/// Datagrams dropped for lack of room in this socket since it was opened; `None` if the kernel does not tell.
pub(super) fn dropped(socket: &UdpSocket) -> Option<u64> {
    /// Its place in what `SO_MEMINFO` tells (linux/sock_diag.h).
    const DROPS: usize = 8;
    let mut words = [0_u32; DROPS + 1];
    let mut length = mem::size_of_val(&words) as libc::socklen_t;
    // SAFETY: the kernel writes at most `length` bytes, the size of `words`, which live.
    let result = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_MEMINFO,
            words.as_mut_ptr().cast(),
            &raw mut length,
        )
    };
    (result == 0).then_some(words[DROPS].into())
}
