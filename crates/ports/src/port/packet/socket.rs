//! A packet socket: packet(7), recvmmsg(2), sendmmsg(2), netdevice(7). All `unsafe` of this port is in this file.

use super::super::{Frame, Link};
use super::BATCH;
use kpps_dma::PoolBuffer;
use kpps_platform::Buffer;
use std::io;
use std::mem;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

/// Room for the one control message that is asked for, in words.
const CONTROL: usize = 8;
/// The kernel's buffers for this socket, in bytes.
const KERNEL_BUFFER: libc::c_int = 8 << 20;

/// Commands and a flag of linux/ethtool.h.
const GET_FLAGS: u32 = 0x25;
const SET_FLAGS: u32 = 0x26;
const SET_GRO: u32 = 0x2c;
const FLAG_RX_VLAN: u32 = 1 << 8;

/// What is known of a received frame beside its bytes.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Arrived {
    /// Bytes in the buffer.
    pub(super) bytes: u16,
    /// It was longer than that.
    pub(super) truncated: bool,
    /// The VLAN tag that the kernel took out of it, as it was on the wire.
    pub(super) tag: Option<[u8; 4]>,
}

#[derive(Debug)]
pub(super) struct Socket {
    fd: OwnedFd,
    name: [libc::c_char; libc::IFNAMSIZ],
}

fn check(result: libc::c_int) -> io::Result<libc::c_int> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// Sets a socket option.
fn set<T>(fd: RawFd, level: libc::c_int, option: libc::c_int, value: &T) -> io::Result<()> {
    // SAFETY: the kernel reads `size_of::<T>()` bytes at the address of `value`, which lives.
    let result = unsafe {
        libc::setsockopt(
            fd,
            level,
            option,
            (&raw const *value).cast(),
            mem::size_of::<T>() as libc::socklen_t,
        )
    };
    check(result).map(drop)
}

impl Socket {
    /// Opens a socket on an interface, in promiscuous mode, for all frames that come in by it.
    pub(super) fn open(interface: &str) -> io::Result<Self> {
        let mut name = [0; libc::IFNAMSIZ];
        if interface.len() >= name.len() || interface.contains('\0') {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        for (to, from) in name.iter_mut().zip(interface.bytes()) {
            *to = from as libc::c_char;
        }
        // Protocol 0: nothing comes in before the socket is bound to its interface.
        // SAFETY: no memory is involved.
        let fd = check(unsafe {
            libc::socket(libc::AF_PACKET, libc::SOCK_RAW | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK, 0)
        })?;
        // SAFETY: a new descriptor that is nobody else's.
        let socket = Self { fd: unsafe { OwnedFd::from_raw_fd(fd) }, name };
        let index = socket.request(libc::SIOCGIFINDEX)?;
        // SAFETY: the kernel has filled in the index, as was asked.
        let index = unsafe { index.ifr_ifru.ifru_ifindex };
        set(fd, libc::SOL_PACKET, libc::PACKET_IGNORE_OUTGOING, &1)?;
        set(fd, libc::SOL_PACKET, libc::PACKET_AUXDATA, &1)?;
        for (forced, polite) in
            [(libc::SO_RCVBUFFORCE, libc::SO_RCVBUF), (libc::SO_SNDBUFFORCE, libc::SO_SNDBUF)]
        {
            // Without CAP_NET_ADMIN as much as the system allows.
            if set(fd, libc::SOL_SOCKET, forced, &KERNEL_BUFFER).is_err() {
                set(fd, libc::SOL_SOCKET, polite, &KERNEL_BUFFER)?;
            }
        }
        // SAFETY: all zeroes is a valid value of this plain C struct.
        let mut address: libc::sockaddr_ll = unsafe { mem::zeroed() };
        address.sll_family = libc::AF_PACKET as u16;
        address.sll_protocol = (libc::ETH_P_ALL as u16).to_be();
        address.sll_ifindex = index;
        // SAFETY: the kernel reads a `sockaddr_ll` at the address of one, which lives.
        check(unsafe {
            libc::bind(fd, (&raw const address).cast(), mem::size_of_val(&address) as libc::socklen_t)
        })?;
        // SAFETY: as above.
        let mut membership: libc::packet_mreq = unsafe { mem::zeroed() };
        membership.mr_ifindex = index;
        membership.mr_type = libc::PACKET_MR_PROMISC as u16;
        set(fd, libc::SOL_PACKET, libc::PACKET_ADD_MEMBERSHIP, &membership)?;
        Ok(socket)
    }

    /// Asks the kernel about the interface.
    fn request(&self, what: libc::c_ulong) -> io::Result<libc::ifreq> {
        // SAFETY: all zeroes is a valid value of this plain C struct.
        let mut request: libc::ifreq = unsafe { mem::zeroed() };
        request.ifr_name = self.name;
        // SAFETY: these requests read and write one `ifreq`, which lives.
        check(unsafe { libc::ioctl(self.fd.as_raw_fd(), what as _, &raw mut request) })?;
        Ok(request)
    }

    /// The interface's station address.
    pub(super) fn address(&self) -> io::Result<[u8; 6]> {
        let request = self.request(libc::SIOCGIFHWADDR)?;
        // SAFETY: the kernel has filled in the address, as was asked.
        let data = unsafe { request.ifr_ifru.ifru_hwaddr.sa_data };
        Ok([0, 1, 2, 3, 4, 5].map(|at| data[at] as u8))
    }

    /// Sets an `ethtool_value` of the interface, and returns what the kernel says of it.
    fn ethtool(&self, command: u32, value: u32) -> io::Result<u32> {
        let mut value = [command, value];
        // SAFETY: all zeroes is a valid value of this plain C struct.
        let mut request: libc::ifreq = unsafe { mem::zeroed() };
        request.ifr_name = self.name;
        request.ifr_ifru.ifru_data = value.as_mut_ptr().cast();
        // SAFETY: the commands of this file read and write one `ethtool_value`, which is two words; both live.
        check(unsafe { libc::ioctl(self.fd.as_raw_fd(), libc::SIOCETHTOOL as _, &raw mut request) })?;
        Ok(value[1])
    }

    /// Lets frames through as they are on the wire: not put together (GRO), their tags left in.
    pub(super) fn as_on_the_wire(&self) -> io::Result<()> {
        self.ethtool(SET_GRO, 0)?;
        let flags = self.ethtool(GET_FLAGS, 0)?;
        if flags & FLAG_RX_VLAN != 0 {
            self.ethtool(SET_FLAGS, flags & !FLAG_RX_VLAN)?;
        }
        Ok(())
    }

    /// Whether frames can pass.
    pub(super) fn link(&self) -> io::Result<Link> {
        let request = self.request(libc::SIOCGIFFLAGS)?;
        // SAFETY: the kernel has filled in the flags, as was asked.
        let flags = libc::c_int::from(unsafe { request.ifr_ifru.ifru_flags });
        let needed = libc::IFF_UP | libc::IFF_RUNNING;
        Ok(Link { up: flags & needed == needed, speed_mbps: None })
    }

    /// Frames dropped for lack of room in this socket since the last call.
    pub(super) fn dropped(&self) -> io::Result<u64> {
        // SAFETY: all zeroes is a valid value of this plain C struct.
        let mut statistics: libc::tpacket_stats = unsafe { mem::zeroed() };
        let mut length = mem::size_of_val(&statistics) as libc::socklen_t;
        // SAFETY: the kernel writes at most `length` bytes, the size of `statistics`, which lives.
        check(unsafe {
            libc::getsockopt(
                self.fd.as_raw_fd(),
                libc::SOL_PACKET,
                libc::PACKET_STATISTICS,
                (&raw mut statistics).cast(),
                &raw mut length,
            )
        })?;
        Ok(statistics.tp_drops.into())
    }

    /// Receives frames, one into each buffer as far as they go, and tells about each; never waits.
    pub(super) fn receive(&self, buffers: &mut [PoolBuffer], arrived: &mut [Arrived]) -> io::Result<usize> {
        let mut control = [[0_u64; CONTROL]; BATCH];
        let mut vectors = [libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 }; BATCH];
        // SAFETY: all zeroes is a valid value of this plain C struct.
        let mut messages: [libc::mmsghdr; BATCH] = unsafe { mem::zeroed() };
        let count = buffers.len().min(arrived.len()).min(BATCH);
        if count == 0 {
            return Ok(0);
        }
        for (index, buffer) in buffers.iter_mut().take(count).enumerate() {
            let bytes = buffer.bytes_mut();
            // Room to put a VLAN tag back.
            let room = bytes.len().saturating_sub(super::VLAN).min(u16::MAX.into());
            vectors[index] = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: room };
            let header = &mut messages[index].msg_hdr;
            header.msg_iov = &raw mut vectors[index];
            header.msg_iovlen = 1;
            header.msg_control = control[index].as_mut_ptr().cast();
            header.msg_controllen = mem::size_of_val(&control[index]) as _;
        }
        // SAFETY: `count` messages, whose one vector each is a buffer of ours, borrowed exclusively, and whose
        // control messages have room of their own; all of them live.
        let result = unsafe {
            libc::recvmmsg(
                self.fd.as_raw_fd(),
                messages.as_mut_ptr(),
                count as _,
                libc::MSG_DONTWAIT as _,
                std::ptr::null_mut(),
            )
        };
        let received = match check(result) {
            Ok(received) => received as usize,
            Err(error) => match error.kind() {
                io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted => return Ok(0),
                _ => return Err(error),
            },
        };
        for (message, arrived) in messages.iter().zip(arrived.iter_mut()).take(received) {
            *arrived = Arrived {
                bytes: message.msg_len.min(u16::MAX.into()) as u16,
                truncated: message.msg_hdr.msg_flags & libc::MSG_TRUNC != 0,
                tag: vlan_tag(&message.msg_hdr),
            };
        }
        Ok(received)
    }

    /// Sends frames; returns how many the kernel has taken, at least one.
    pub(super) fn send(&self, frames: &[Frame]) -> io::Result<usize> {
        let mut vectors = [libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 }; BATCH];
        // SAFETY: all zeroes is a valid value of this plain C struct.
        let mut messages: [libc::mmsghdr; BATCH] = unsafe { mem::zeroed() };
        let count = frames.len().min(BATCH);
        for (index, frame) in frames.iter().take(count).enumerate() {
            let bytes = frame.as_ref();
            vectors[index] = libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() };
            messages[index].msg_hdr.msg_iov = &raw mut vectors[index];
            messages[index].msg_hdr.msg_iovlen = 1;
        }
        // SAFETY: `count` messages, whose one vector each is a frame that the kernel only reads; all of them live.
        let result = unsafe {
            libc::sendmmsg(self.fd.as_raw_fd(), messages.as_mut_ptr(), count as _, libc::MSG_DONTWAIT as _)
        };
        check(result).map(|sent| sent as usize)
    }
}

/// The VLAN tag in a message's control message, if there is one.
fn vlan_tag(header: &libc::msghdr) -> Option<[u8; 4]> {
    // SAFETY: the kernel has set the control length to what it wrote.
    let first = unsafe { libc::CMSG_FIRSTHDR(header) };
    // SAFETY: null, or a whole header within the control buffer, whose words align it.
    let control = unsafe { first.as_ref() }?;
    if control.cmsg_level != libc::SOL_PACKET || control.cmsg_type != libc::PACKET_AUXDATA {
        return None;
    }
    // SAFETY: the kernel writes a whole `tpacket_auxdata` in a message of this type.
    let auxdata: libc::tpacket_auxdata =
        unsafe { libc::CMSG_DATA(first).cast::<libc::tpacket_auxdata>().read_unaligned() };
    if auxdata.tp_status & libc::TP_STATUS_VLAN_VALID == 0 {
        return None;
    }
    let kind = match auxdata.tp_status & libc::TP_STATUS_VLAN_TPID_VALID {
        0 => 0x8100,
        _ => auxdata.tp_vlan_tpid,
    };
    let [a, b] = kind.to_be_bytes();
    let [c, d] = auxdata.tp_vlan_tci.to_be_bytes();
    Some([a, b, c, d])
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}
