//! An interface of the kernel, asked by netdevice(7) and the `ETHTOOL_*` commands; and what all sockets need.

use super::Link;
use netlink_packet_core::{NLM_F_REQUEST, NetlinkMessage, NetlinkPayload};
use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::link::{LinkAttribute, LinkMessage};
use netlink_sys::{SocketAddr, protocols::NETLINK_ROUTE};
use std::io;
use std::mem;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

/// Commands and a flag of linux/ethtool.h.
const GET_FLAGS: u32 = 0x25;
const SET_FLAGS: u32 = 0x26;
const SET_GRO: u32 = 0x2c;
const FLAG_RX_VLAN: u32 = 1 << 8;

/// What a system call says: an error if it is negative.
pub(super) fn check(result: libc::c_int) -> io::Result<libc::c_int> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// A new socket, which never waits and does not go to child processes.
pub(super) fn socket(family: libc::c_int, kind: libc::c_int) -> io::Result<OwnedFd> {
    // SAFETY: no memory is involved.
    let fd = check(unsafe { libc::socket(family, kind | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK, 0) })?;
    // SAFETY: a new descriptor that is nobody else's.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Sets a socket option. `T` is what the kernel expects of this option: plain data.
pub(super) fn set<T>(
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
pub(super) fn bind<T>(fd: BorrowedFd<'_>, address: &T) -> io::Result<()> {
    let length = mem::size_of::<T>() as libc::socklen_t;
    // SAFETY: the kernel reads `length` bytes at the address of `address`, which lives.
    check(unsafe { libc::bind(fd.as_raw_fd(), (&raw const *address).cast(), length) }).map(drop)
}

/// Has the kernel send what lies in a ring that it shares with the socket.
pub(super) fn kick(fd: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: no memory is involved: the message is empty.
    let result =
        unsafe { libc::sendto(fd.as_raw_fd(), std::ptr::null(), 0, libc::MSG_DONTWAIT, std::ptr::null(), 0) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Has the kernel look for buffers to receive into, in a ring that it shares with the socket.
pub(super) fn wake_receiver(fd: BorrowedFd<'_>) {
    let none = std::ptr::null_mut();
    // SAFETY: no memory is involved: there is no room for a message. That is no error that matters.
    unsafe { libc::recvfrom(fd.as_raw_fd(), none, 0, libc::MSG_DONTWAIT, none.cast(), none.cast()) };
}

/// An interface of the kernel.
#[derive(Debug)]
pub(super) struct Interface {
    /// Any socket: it says in which network namespace the interface is.
    fd: OwnedFd,
    name: [libc::c_char; libc::IFNAMSIZ],
    index: libc::c_int,
}

impl Interface {
    /// The interface of this name.
    pub(super) fn find(interface: &str) -> io::Result<Self> {
        let mut name = [0; libc::IFNAMSIZ];
        if interface.len() >= name.len() || interface.contains('\0') {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        for (to, from) in name.iter_mut().zip(interface.bytes()) {
            *to = from as libc::c_char;
        }
        let mut interface = Self { fd: socket(libc::AF_INET, libc::SOCK_DGRAM)?, name, index: 0 };
        let index = interface.request(libc::SIOCGIFINDEX)?;
        // SAFETY: the kernel has filled in the index, as was asked.
        interface.index = unsafe { index.ifr_ifru.ifru_ifindex };
        Ok(interface)
    }

    /// Its number.
    pub(super) fn index(&self) -> libc::c_int {
        self.index
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

    /// The queueing discipline of what it sends, by its name (tc(8)).
    pub(super) fn discipline(&self) -> io::Result<String> {
        let mut about = LinkMessage::default();
        about.header.index = self.index.unsigned_abs();
        let mut question = NetlinkMessage::from(RouteNetlinkMessage::GetLink(about));
        question.header.flags = NLM_F_REQUEST;
        question.finalize();
        let mut bytes = vec![0; question.buffer_len()];
        question.serialize(&mut bytes);
        let mut socket = netlink_sys::Socket::new(NETLINK_ROUTE)?;
        socket.bind_auto()?;
        socket.connect(&SocketAddr::new(0, 0))?;
        socket.send(&bytes, 0)?;
        let (answer, _) = socket.recv_from_full()?;
        let answer = NetlinkMessage::<RouteNetlinkMessage>::deserialize(&answer).map_err(io::Error::other)?;
        let attributes = match answer.payload {
            NetlinkPayload::InnerMessage(RouteNetlinkMessage::NewLink(link)) => link.attributes,
            NetlinkPayload::Error(error) => return Err(error.to_io()),
            _ => Vec::new(),
        };
        let name = attributes.into_iter().find_map(|attribute| match attribute {
            LinkAttribute::Qdisc(name) => Some(name),
            _ => None,
        });
        Ok(name.unwrap_or_default())
    }

    /// The station address.
    pub(super) fn address(&self) -> io::Result<[u8; 6]> {
        let request = self.request(libc::SIOCGIFHWADDR)?;
        // SAFETY: the kernel has filled in the address, as was asked.
        let data = unsafe { request.ifr_ifru.ifru_hwaddr.sa_data };
        Ok([0, 1, 2, 3, 4, 5].map(|at| data[at] as u8))
    }

    /// The longest payload of a frame, in bytes.
    pub(super) fn mtu(&self) -> io::Result<usize> {
        let request = self.request(libc::SIOCGIFMTU)?;
        // SAFETY: the kernel has filled in the MTU, as was asked.
        Ok(usize::try_from(unsafe { request.ifr_ifru.ifru_mtu }).unwrap_or(0))
    }

    /// Whether frames can pass.
    pub(super) fn link(&self) -> io::Result<Link> {
        let request = self.request(libc::SIOCGIFFLAGS)?;
        // SAFETY: the kernel has filled in the flags, as was asked.
        let flags = libc::c_int::from(unsafe { request.ifr_ifru.ifru_flags });
        let needed = libc::IFF_UP | libc::IFF_RUNNING;
        Ok(Link { up: flags & needed == needed, speed_mbps: None })
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
}
