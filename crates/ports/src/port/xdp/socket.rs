//! An `AF_XDP` socket: af_xdp.rst.

use super::ring::{Consumer, Producer};
use crate::interface::Interface;
use crate::socket::{bind, check, set, socket};
use kpps_platform::memory::Mapping;
use libc::{SOL_XDP, xdp_desc};
use std::io;
use std::mem;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

/// Entries of the ring for sending.
pub(super) const SENDING: u32 = 512;

/// Frames that the kernel sends in one system call where it copies them (linux/if_xdp.h, from 6.17 on; 32 before).
const XDP_MAX_TX_SKB_BUDGET: libc::c_int = 9;
const BUDGET: u32 = 128;
/// What may lie in the kernel to be sent, in bytes with what it adds to each frame.
const KERNEL_BUFFER: libc::c_int = 8 << 20;

/// A socket on a queue, and the rings by which it receives, which go first.
#[derive(Debug)]
pub(super) struct Socket {
    /// Buffers to receive into.
    pub(super) fill: Producer<u64>,
    pub(super) received: Consumer<xdp_desc>,
    fd: OwnedFd,
}

/// The rings by which a socket sends.
#[derive(Debug)]
pub(super) struct Outlet {
    pub(super) send: Producer<xdp_desc>,
    /// Buffers of frames that were sent.
    pub(super) sent: Consumer<u64>,
}

impl Socket {
    /// A socket whose buffers are the chunks of a mapping, of which the first `headroom` bytes stay the kernel's. Its rings for
    /// receiving have `receiving` entries.
    pub(super) fn new(
        memory: &Mapping,
        chunk: usize,
        headroom: usize,
        receiving: u32,
    ) -> io::Result<(Self, Outlet)> {
        let owned = socket(libc::AF_XDP, libc::SOCK_RAW)?;
        let fd = owned.as_fd();
        let umem = libc::xdp_umem_reg {
            addr: memory.address() as u64,
            len: (memory.bytes() / chunk * chunk) as u64,
            chunk_size: chunk as u32,
            headroom: (headroom - KERNEL_HEADROOM.min(headroom)) as u32,
            flags: 0,
            tx_metadata_len: 0,
        };
        set(fd, SOL_XDP, libc::XDP_UMEM_REG, &umem)?;
        set(fd, SOL_XDP, libc::XDP_TX_RING, &SENDING)?;
        for option in [libc::SO_SNDBUFFORCE, libc::SO_SNDBUF] {
            // Without CAP_NET_ADMIN as much as the system allows.
            if set(fd, libc::SOL_SOCKET, option, &KERNEL_BUFFER).is_ok() {
                break;
            }
        }
        // An older kernel has no such option.
        let _ = set(fd, SOL_XDP, XDP_MAX_TX_SKB_BUDGET, &BUDGET);
        let (socket, offsets) = Self::with_rings(owned, receiving)?;
        let outlet = Outlet {
            send: Producer::new(socket.as_fd(), libc::XDP_PGOFF_TX_RING as u64, &offsets.tx, SENDING)?,
            sent: Consumer::new(socket.as_fd(), libc::XDP_UMEM_PGOFF_COMPLETION_RING, &offsets.cr, SENDING)?,
        };
        Ok((socket, outlet))
    }

    /// A socket that only receives, into another's buffers once it is bound [beside](Self::bind_beside) it.
    pub(super) fn receiver(receiving: u32) -> io::Result<Self> {
        let owned = socket(libc::AF_XDP, libc::SOCK_RAW)?;
        Ok(Self::with_rings(owned, receiving)?.0)
    }

    /// With the rings that each queue must have, one for buffers of sent frames among them.
    fn with_rings(owned: OwnedFd, receiving: u32) -> io::Result<(Self, libc::xdp_mmap_offsets)> {
        let fd = owned.as_fd();
        set(fd, SOL_XDP, libc::XDP_UMEM_FILL_RING, &receiving)?;
        set(fd, SOL_XDP, libc::XDP_RX_RING, &receiving)?;
        set(fd, SOL_XDP, libc::XDP_UMEM_COMPLETION_RING, &SENDING)?;
        // SAFETY: all zeroes is a valid value of this plain C struct.
        let mut offsets: libc::xdp_mmap_offsets = unsafe { mem::zeroed() };
        get(fd, libc::XDP_MMAP_OFFSETS, &mut offsets)?;
        let socket = Self {
            fill: Producer::new(fd, libc::XDP_UMEM_PGOFF_FILL_RING, &offsets.fr, receiving)?,
            received: Consumer::new(fd, libc::XDP_PGOFF_RX_RING as u64, &offsets.rx, receiving)?,
            fd: owned,
        };
        Ok((socket, offsets))
    }

    /// Binds it to a queue, without copies if the driver can.
    pub(super) fn bind(&self, interface: &Interface, queue: u32) -> io::Result<()> {
        self.bind_with(interface, queue, libc::XDP_USE_NEED_WAKEUP, 0)
    }

    /// Binds it to another queue, with the first one's buffers: the kernel copies as it does there, or does not.
    pub(super) fn bind_beside(&self, first: &Self, interface: &Interface, queue: u32) -> io::Result<()> {
        self.bind_with(interface, queue, libc::XDP_SHARED_UMEM, first.fd.as_raw_fd() as u32)
    }

    fn bind_with(&self, interface: &Interface, queue: u32, flags: u16, memory_of: u32) -> io::Result<()> {
        let address = libc::sockaddr_xdp {
            sxdp_family: libc::AF_XDP as u16,
            sxdp_flags: flags,
            sxdp_ifindex: interface.index() as u32,
            sxdp_queue_id: queue,
            sxdp_shared_umem_fd: memory_of,
        };
        bind(self.fd.as_fd(), &address)
    }

    /// Whether the driver uses the buffers themselves, of a bound socket.
    pub(super) fn is_zero_copy(&self) -> io::Result<bool> {
        let mut options = libc::xdp_options { flags: 0 };
        get(self.fd.as_fd(), libc::XDP_OPTIONS, &mut options)?;
        Ok(options.flags & libc::XDP_OPTIONS_ZEROCOPY != 0)
    }

    /// What the kernel has counted since the socket was made.
    pub(super) fn statistics(&self) -> io::Result<libc::xdp_statistics> {
        // SAFETY: all zeroes is a valid value of this plain C struct.
        let mut statistics: libc::xdp_statistics = unsafe { mem::zeroed() };
        get(self.fd.as_fd(), libc::XDP_STATISTICS, &mut statistics)?;
        Ok(statistics)
    }
}

/// What the kernel keeps free before each received frame in any case (`XDP_PACKET_HEADROOM`).
pub(super) const KERNEL_HEADROOM: usize = 256;

/// Reads a socket option. `T` is what the kernel writes for this option: plain data, of which any bytes are valid.
fn get<T>(fd: BorrowedFd<'_>, option: libc::c_int, value: &mut T) -> io::Result<()> {
    let mut length = mem::size_of::<T>() as libc::socklen_t;
    let value = (&raw mut *value).cast();
    // SAFETY: the kernel writes at most `length` bytes, the size of `value`, which lives.
    check(unsafe { libc::getsockopt(fd.as_raw_fd(), SOL_XDP, option, value, &raw mut length) }).map(drop)
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}
