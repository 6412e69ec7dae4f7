//! An `AF_XDP` socket: af_xdp.rst.

use super::ring::{Consumer, Producer};
use crate::interface::Interface;
use crate::rings::raw_socket;
use crate::sys::options::set;
use crate::sys::packet::SOL_XDP;
use kpps_platform::memory::Mapping;
use rustix::net::xdp::{
    SocketAddrXdp, SocketAddrXdpFlags, SocketAddrXdpWithSharedUmem, XDP_PGOFF_RX_RING, XDP_PGOFF_TX_RING,
    XDP_UMEM_PGOFF_COMPLETION_RING, XDP_UMEM_PGOFF_FILL_RING, XdpDesc, XdpMmapOffsets, XdpOptionsFlags,
    XdpStatistics, XdpUmemReg, XdpUmemRegFlags,
};
use rustix::net::{AddressFamily, bind, sockopt};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// Entries of the transmit ring.
pub const SENDING: u32 = 512;

/// Frames that the kernel sends with one system call where it copies them (linux/if_xdp.h, from 6.17 on; 32
/// before).
const XDP_MAX_TX_SKB_BUDGET: i32 = 9;
const BUDGET: u32 = 128;
/// Bytes that may wait in the kernel to be sent, its bookkeeping included.
const KERNEL_BUFFER: usize = 8 << 20;

/// A socket on a queue, and its receive rings, which are dropped first.
#[derive(Debug)]
pub struct Socket {
    /// Buffers to receive into.
    pub fill: Producer<u64>,
    /// Received frames.
    pub received: Consumer<XdpDesc>,
    fd: OwnedFd,
}

/// The transmit rings of a socket.
#[derive(Debug)]
pub struct Outlet {
    /// Frames to send.
    pub send: Producer<XdpDesc>,
    /// Buffers of frames that were sent.
    pub sent: Consumer<u64>,
}

impl Socket {
    /// A socket whose buffers are the chunks of a mapping. The first `headroom` bytes of each chunk are the
    /// kernel's. The receive rings have `receiving` entries.
    ///
    /// # Errors
    /// Errors of the system: no right to open such sockets (`CAP_NET_RAW`) or to lock the memory.
    pub fn new(
        memory: &Mapping,
        chunk: usize,
        headroom: usize,
        receiving: u32,
    ) -> io::Result<(Self, Outlet)> {
        let owned = raw_socket(AddressFamily::XDP)?;
        let fd = owned.as_fd();
        let umem = XdpUmemReg {
            addr: memory.address() as u64,
            len: (memory.bytes() / chunk * chunk) as u64,
            chunk_size: chunk as u32,
            headroom: (headroom - KERNEL_HEADROOM.min(headroom)) as u32,
            flags: XdpUmemRegFlags::empty(),
            tx_metadata_len: 0,
        };
        sockopt::set_xdp_umem_reg(fd, umem)?;
        sockopt::set_xdp_tx_ring_size(fd, SENDING)?;
        if sockopt::set_socket_send_buffer_size_force(fd, KERNEL_BUFFER).is_err() {
            // Without CAP_NET_ADMIN the system sets a limit.
            let _ = sockopt::set_socket_send_buffer_size(fd, KERNEL_BUFFER);
        }
        // Older kernels lack the option.
        let _ = set(fd, SOL_XDP, XDP_MAX_TX_SKB_BUDGET, &BUDGET);
        let (socket, offsets) = Self::with_rings(owned, receiving)?;
        let outlet = Outlet {
            send: Producer::new(socket.as_fd(), XDP_PGOFF_TX_RING, &offsets.tx, SENDING)?,
            sent: Consumer::new(socket.as_fd(), XDP_UMEM_PGOFF_COMPLETION_RING, &offsets.cr, SENDING)?,
        };
        Ok((socket, outlet))
    }

    /// A socket that only receives. It uses another one's buffers once it is bound
    /// [beside](Self::bind_beside) it.
    ///
    /// # Errors
    /// Errors of the system: no right to open such sockets (`CAP_NET_RAW`).
    pub fn receiver(receiving: u32) -> io::Result<Self> {
        let owned = raw_socket(AddressFamily::XDP)?;
        Ok(Self::with_rings(owned, receiving)?.0)
    }

    /// Adds the rings that each queue must have, a completion ring among them.
    fn with_rings(owned: OwnedFd, receiving: u32) -> io::Result<(Self, XdpMmapOffsets)> {
        let fd = owned.as_fd();
        sockopt::set_xdp_umem_fill_ring_size(fd, receiving)?;
        sockopt::set_xdp_rx_ring_size(fd, receiving)?;
        sockopt::set_xdp_umem_completion_ring_size(fd, SENDING)?;
        let offsets = sockopt::xdp_mmap_offsets(fd)?;
        let socket = Self {
            fill: Producer::new(fd, XDP_UMEM_PGOFF_FILL_RING, &offsets.fr, receiving)?,
            received: Consumer::new(fd, XDP_PGOFF_RX_RING, &offsets.rx, receiving)?,
            fd: owned,
        };
        Ok((socket, offsets))
    }

    /// Binds it to a queue, with zero copy if the driver can.
    ///
    /// # Errors
    /// Errors of the system: `EBUSY` if another socket has the queue.
    pub fn bind(&self, interface: &Interface, queue: u32) -> io::Result<()> {
        let flags = SocketAddrXdpFlags::XDP_USE_NEED_WAKEUP;
        Ok(bind(&self.fd, &SocketAddrXdp::new(flags, interface.index(), queue))?)
    }

    /// Binds it to another queue, with the first one's buffers and copy mode.
    ///
    /// # Errors
    /// Errors of [`bind`](Self::bind).
    pub fn bind_beside(&self, first: &Self, interface: &Interface, queue: u32) -> io::Result<()> {
        let addr = SocketAddrXdp::new(SocketAddrXdpFlags::XDP_SHARED_UMEM, interface.index(), queue);
        Ok(bind(&self.fd, &SocketAddrXdpWithSharedUmem { addr, shared_umem_fd: first.as_fd() })?)
    }

    /// Whether the driver uses the buffers themselves, of a bound socket.
    ///
    /// # Errors
    /// Errors of the system.
    pub fn is_zero_copy(&self) -> io::Result<bool> {
        Ok(sockopt::xdp_options(&self.fd)?.contains(XdpOptionsFlags::XDP_OPTIONS_ZEROCOPY))
    }

    /// The kernel's counters since the creation of the socket.
    ///
    /// # Errors
    /// Errors of the system.
    pub fn statistics(&self) -> io::Result<XdpStatistics> {
        Ok(sockopt::xdp_statistics(&self.fd)?)
    }
}

/// Bytes that the kernel always keeps free before each received frame (`XDP_PACKET_HEADROOM`).
pub const KERNEL_HEADROOM: usize = 256;

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}
