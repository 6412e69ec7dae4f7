//! Many datagrams in one system call: sendmmsg(2), recvmmsg(2); and, sent, in one message, which the kernel cuts (udp(7)).

use super::{Datagram, HEADERS};
use crate::interface::name_of;
use crate::port::Frame;
use crate::socket::check;
use crate::{ethtool, netlink};
use kpps_platform::Buffer;
use kpps_platform::memory::PoolBuffer;
use std::io;
use std::mem;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::AsRawFd;

/// Datagrams for each system call.
pub(super) const BATCH: usize = 64;

const NOTHING: libc::iovec = libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 };
/// Has the kernel cut a message into datagrams of this length (linux/udp.h).
const UDP_SEGMENT: libc::c_int = 103;
/// What a message that is cut holds at most, in bytes.
const LONGEST: usize = 65_507;

/// A control message that says `UDP_SEGMENT`.
#[repr(C)]
#[derive(Clone, Copy)]
struct Segment {
    header: libc::cmsghdr,
    bytes: u16,
    /// Up to the alignment of the next one, of which there is none.
    padding: [u8; 6],
}

/// Messages of one piece or more each.
struct Messages {
    vectors: [libc::iovec; BATCH],
    headers: [libc::mmsghdr; BATCH],
    segments: [Segment; BATCH],
    /// How many pieces each has, and how many messages there are.
    pieces: [usize; BATCH],
    count: usize,
}

impl Messages {
    fn new() -> Self {
        // SAFETY: all zeroes is a valid value of these plain C structs.
        let (headers, segments) = unsafe { mem::zeroed() };
        Self { vectors: [NOTHING; BATCH], headers, segments, pieces: [0; BATCH], count: 0 }
    }
    /// Puts down a piece, as a message of its own or as one more of the last.
    fn set(&mut self, index: usize, start: *mut u8, bytes: usize, joins: bool) {
        self.vectors[index] = libc::iovec { iov_base: start.cast(), iov_len: bytes };
        self.count += usize::from(!joins);
        self.pieces[self.count - 1] += 1;
    }
    /// The messages; not to be moved from now on.
    fn ready(&mut self) -> *mut libc::mmsghdr {
        let mut first = 0;
        for (message, header) in self.headers.iter_mut().take(self.count).enumerate() {
            let (header, count) = (&mut header.msg_hdr, self.pieces[message]);
            let pieces = &mut self.vectors[first..first + count];
            first += count;
            if count > 1 {
                let segment = &mut self.segments[message];
                segment.header.cmsg_level = libc::SOL_UDP;
                segment.header.cmsg_type = UDP_SEGMENT;
                segment.header.cmsg_len = mem::offset_of!(Segment, padding) as _;
                // No longer than a message.
                segment.bytes = pieces[0].iov_len as u16;
                header.msg_control = (&raw mut *segment).cast();
                header.msg_controllen = size_of::<Segment>() as _;
            }
            header.msg_iov = pieces.as_mut_ptr();
            header.msg_iovlen = count as _;
        }
        self.headers.as_mut_ptr()
    }
}

/// Sends what is behind the headers of frames; returns how many were taken, at least one. If the kernel `cuts` messages, those of
/// equal length that follow each other are one.
pub(super) fn send(socket: &UdpSocket, frames: &[(Frame, usize)], cuts: bool) -> io::Result<usize> {
    let mut messages = Messages::new();
    // Length of a datagram of the message so far, and of the message.
    let (mut each, mut whole) = (0, 0);
    for (index, (frame, start)) in frames.iter().take(BATCH).enumerate() {
        let bytes = frame.as_ref().get(*start..).unwrap_or_default();
        let joins = cuts && index > 0 && bytes.len() == each && each > 0 && whole + each <= LONGEST;
        (each, whole) = (bytes.len(), if joins { whole + each } else { bytes.len() });
        messages.set(index, bytes.as_ptr().cast_mut(), bytes.len(), joins);
    }
    let (list, count) = (messages.ready(), messages.count);
    // SAFETY: `count` messages, whose pieces are frames that the kernel only reads; all of them live.
    let result = unsafe { libc::sendmmsg(socket.as_raw_fd(), list, count as _, libc::MSG_DONTWAIT as _) };
    check(result).map(|sent| messages.pieces.iter().take(sent as usize).sum())
}

/// Whether it is the kernel that cuts messages to this peer, so that each datagram is a frame of its own for the interface.
pub(super) fn cuts(peer: SocketAddr) -> bool {
    let features = || ethtool::features(&name_of(netlink::way_to(peer.ip())?)?);
    features().is_ok_and(|all| ethtool::cut_before(&all))
}

/// A control message that says when the kernel took a datagram in.
#[repr(C)]
#[derive(Clone, Copy)]
struct Stamp {
    header: libc::cmsghdr,
    time: libc::timespec,
}

impl Stamp {
    /// The time in ns since 1970, if the kernel has put it down here: there is room for nothing else.
    fn ns(&self) -> Option<u64> {
        let Self { header, time } = self;
        let is_one = (header.cmsg_level, header.cmsg_type) == (libc::SOL_SOCKET, libc::SCM_TIMESTAMPNS);
        let (seconds, rest) = (u64::try_from(time.tv_sec).ok()?, u64::try_from(time.tv_nsec).ok()?);
        is_one.then_some(seconds * 1_000_000_000 + rest)
    }
}

/// Has the kernel say from now on when it took each datagram in.
pub(super) fn stamp(socket: &UdpSocket) -> io::Result<()> {
    use std::os::fd::AsFd;
    crate::socket::set(socket.as_fd(), libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, &1)
}

/// Receives datagrams, one into each buffer as far as they go, behind room for headers. Puts down the length of each and, where it
/// is `stamped`, when it came, or `None` if it was longer than the buffer; never waits.
pub(super) fn receive(
    socket: &UdpSocket,
    buffers: &mut [PoolBuffer],
    arrived: &mut [Option<Datagram>; BATCH],
    stamped: bool,
) -> io::Result<usize> {
    let mut messages = Messages::new();
    // SAFETY: all zeroes is a valid value of this plain C struct.
    let mut stamps: [Stamp; BATCH] = unsafe { mem::zeroed() };
    let count = buffers.len().min(BATCH);
    for (index, buffer) in buffers.iter_mut().take(count).enumerate() {
        let room = buffer.bytes_mut().get_mut(HEADERS..).unwrap_or_default();
        messages.set(index, room.as_mut_ptr(), room.len(), false);
        if stamped {
            let header = &mut messages.headers[index].msg_hdr;
            header.msg_control = (&raw mut stamps[index]).cast();
            header.msg_controllen = size_of::<Stamp>() as _;
        }
    }
    let list = messages.ready();
    // SAFETY: `count` messages, whose one piece each is a buffer of ours, borrowed exclusively, and so is the room for what the kernel
    // says of it; all of them live.
    let result = unsafe {
        libc::recvmmsg(socket.as_raw_fd(), list, count as _, libc::MSG_DONTWAIT as _, std::ptr::null_mut())
    };
    let received = check(result)? as usize;
    let each = messages.headers.iter().zip(&stamps).zip(arrived.iter_mut());
    for ((message, stamp), arrived) in each.take(received) {
        let whole = message.msg_hdr.msg_flags & libc::MSG_TRUNC == 0;
        let stamp = stamp.ns();
        *arrived = whole.then_some(Datagram { bytes: message.msg_len as usize, stamp });
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
