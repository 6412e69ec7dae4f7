//! Many datagrams with one system call: sendmmsg(2) and recvmmsg(2). Equal datagrams that follow each other
//! can be sent as one message, which the kernel cuts (`UDP_SEGMENT`, udp(7)).

use super::check;
use std::io;
use std::marker::PhantomData;
use std::mem;
use std::os::fd::{AsFd, AsRawFd};

/// Datagrams for each system call.
pub const BATCH: usize = 64;

const NOTHING: libc::iovec = libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 };
/// Cuts a message into datagrams of this length (linux/udp.h).
const UDP_SEGMENT: libc::c_int = 103;

/// A control message with `UDP_SEGMENT`.
#[repr(C)]
#[derive(Clone, Copy)]
struct Segment {
    header: libc::cmsghdr,
    bytes: u16,
    /// Up to the alignment of a next control message.
    padding: [u8; 6],
}

/// A control message with the time when the kernel received a datagram.
#[repr(C)]
#[derive(Clone, Copy)]
struct Stamp {
    header: libc::cmsghdr,
    time: libc::timespec,
}

impl Stamp {
    /// The time in ns since 1970, if the kernel has written it.
    #[inline]
    fn ns(&self) -> Option<u64> {
        let Self { header, time } = self;
        let is_one = (header.cmsg_level, header.cmsg_type) == (libc::SOL_SOCKET, libc::SCM_TIMESTAMPNS);
        let (seconds, rest) = (u64::try_from(time.tv_sec).ok()?, u64::try_from(time.tv_nsec).ok()?);
        is_one.then_some(seconds * 1_000_000_000 + rest)
    }
}

/// Messages of one piece or more each.
struct Messages {
    vectors: [libc::iovec; BATCH],
    headers: [libc::mmsghdr; BATCH],
    /// The pieces of each message.
    pieces: [usize; BATCH],
    /// The number of messages.
    count: usize,
    /// The number of pieces.
    used: usize,
}

impl Messages {
    #[inline]
    fn new() -> Self {
        // SAFETY: all zeroes is a valid value of these structs of integers and pointers.
        let headers = unsafe { mem::zeroed() };
        Self { vectors: [NOTHING; BATCH], headers, pieces: [0; BATCH], count: 0, used: 0 }
    }

    /// Adds a piece: to the last message if it `joins`, else as a message of its own.
    ///
    /// # Panics
    /// With more than [`BATCH`] pieces.
    #[inline]
    fn add(&mut self, start: *mut u8, bytes: usize, joins: bool) {
        self.vectors[self.used] = libc::iovec { iov_base: start.cast(), iov_len: bytes };
        self.used += 1;
        self.count += usize::from(!joins || self.count == 0);
        self.pieces[self.count - 1] += 1;
    }

    /// Completes the headers, and gives each to `see` with its pieces. The messages must not be moved from
    /// then on.
    fn list(&mut self, mut see: impl FnMut(usize, &mut libc::msghdr, &[libc::iovec])) -> *mut libc::mmsghdr {
        let mut first = 0;
        let each = self.headers.iter_mut().zip(&self.pieces).take(self.count).enumerate();
        for (message, (header, &count)) in each {
            let pieces = &mut self.vectors[first..first + count];
            header.msg_hdr.msg_iov = pieces.as_mut_ptr();
            header.msg_hdr.msg_iovlen = count as _;
            see(message, &mut header.msg_hdr, pieces);
            first += count;
        }
        self.headers.as_mut_ptr()
    }
}

/// Datagrams to be sent.
pub struct Outgoing<'d> {
    messages: Messages,
    segments: [Segment; BATCH],
    datagrams: PhantomData<&'d [u8]>,
}

impl Default for Outgoing<'_> {
    #[inline]
    fn default() -> Self {
        // SAFETY: all zeroes is a valid value of these structs of integers.
        let segments = unsafe { mem::zeroed() };
        Self { messages: Messages::new(), segments, datagrams: PhantomData }
    }
}

impl<'d> Outgoing<'d> {
    /// Adds a datagram. If it `joins` the one before, which must be as long, the kernel cuts them apart.
    ///
    /// # Panics
    /// With more than [`BATCH`] datagrams.
    #[inline]
    pub fn add(&mut self, datagram: &'d [u8], joins: bool) {
        // The kernel only reads what is sent.
        self.messages.add(datagram.as_ptr().cast_mut(), datagram.len(), joins);
    }

    /// Sends them, without waiting. Returns the number of datagrams that the kernel took, at least one.
    ///
    /// # Errors
    /// Errors of the system: it took none.
    pub fn send(&mut self, socket: impl AsFd) -> io::Result<usize> {
        let Self { messages, segments, .. } = self;
        let list = messages.list(|message, header, pieces| {
            if let [first, _, ..] = pieces {
                let segment = &mut segments[message];
                segment.header.cmsg_level = libc::SOL_UDP;
                segment.header.cmsg_type = UDP_SEGMENT;
                segment.header.cmsg_len = mem::offset_of!(Segment, padding) as _;
                // No longer than a message.
                segment.bytes = first.iov_len as u16;
                header.msg_control = (&raw mut *segment).cast();
                header.msg_controllen = size_of::<Segment>() as _;
            }
        });
        let count = messages.count as _;
        let flags = libc::MSG_DONTWAIT as _;
        // SAFETY: `count` messages, whose pieces (`'d`) and control messages live. The kernel only reads
        // them.
        let result = unsafe { libc::sendmmsg(socket.as_fd().as_raw_fd(), list, count, flags) };
        check(result).map(|sent| messages.pieces.iter().take(sent as usize).sum())
    }
}

/// A received datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Received {
    /// Its length as far as there was room, in bytes.
    pub bytes: usize,
    /// Whether it was longer than the room for it.
    pub truncated: bool,
    /// When the kernel received it, in ns since 1970, if it says so.
    pub stamp: Option<u64>,
}

/// Room for datagrams to be received.
pub struct Incoming<'r> {
    messages: Messages,
    stamps: [Stamp; BATCH],
    room: PhantomData<&'r mut [u8]>,
}

impl Default for Incoming<'_> {
    #[inline]
    fn default() -> Self {
        // SAFETY: all zeroes is a valid value of these structs of integers.
        let stamps = unsafe { mem::zeroed() };
        Self { messages: Messages::new(), stamps, room: PhantomData }
    }
}

impl<'r> Incoming<'r> {
    /// Adds room for one datagram.
    ///
    /// # Panics
    /// With more than [`BATCH`] of them.
    #[inline]
    pub fn add(&mut self, room: &'r mut [u8]) {
        self.messages.add(room.as_mut_ptr(), room.len(), false);
    }

    /// Receives datagrams, without waiting, and their times if the socket is `stamped` (`SO_TIMESTAMPNS`).
    ///
    /// # Errors
    /// Errors of the system: there is none.
    pub fn receive(
        &mut self,
        socket: impl AsFd,
        stamped: bool,
    ) -> io::Result<impl Iterator<Item = Received>> {
        let Self { messages, stamps, .. } = self;
        let list = messages.list(|message, header, _| {
            if stamped {
                header.msg_control = (&raw mut stamps[message]).cast();
                header.msg_controllen = size_of::<Stamp>() as _;
            }
        });
        let (count, flags) = (messages.count as _, libc::MSG_DONTWAIT as _);
        // SAFETY: `count` messages of one piece each. The pieces are borrowed exclusively (`'r`), and the
        // room for control messages is ours; all of them live.
        let result =
            unsafe { libc::recvmmsg(socket.as_fd().as_raw_fd(), list, count, flags, std::ptr::null_mut()) };
        let received = check(result)? as usize;
        let each = messages.headers.iter().zip(&*stamps).take(received);
        Ok(each.map(|(message, stamp)| Received {
            bytes: message.msg_len as usize,
            truncated: message.msg_hdr.msg_flags & libc::MSG_TRUNC != 0,
            stamp: stamp.ns(),
        }))
    }
}
