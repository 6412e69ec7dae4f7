//! An interface of the kernel, asked by netdevice(7), rtnetlink(7) and the `ETHTOOL_*` commands.

use crate::netlink;
use crate::port::Link;
use crate::socket::{check, socket};
use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::link::{LinkAttribute, LinkMessage};
use std::io;
use std::mem;
use std::os::fd::{AsRawFd, OwnedFd};

/// Commands and a flag of linux/ethtool.h.
const GET_FLAGS: u32 = 0x25;
const SET_FLAGS: u32 = 0x26;
const SET_GRO: u32 = 0x2c;
const FLAG_RX_VLAN: u32 = 1 << 8;

/// An interface of the kernel.
#[derive(Debug)]
pub(crate) struct Interface {
    /// Any socket: it says in which network namespace the interface is.
    fd: OwnedFd,
    name: [libc::c_char; libc::IFNAMSIZ],
    index: libc::c_int,
}

impl Interface {
    /// The interface of this name.
    pub(crate) fn find(interface: &str) -> io::Result<Self> {
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
    pub(crate) fn index(&self) -> libc::c_int {
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

    /// Asks the driver with `words`, a command of linux/ethtool.h and its arguments, which the driver overwrites. Their
    /// length must be that of the command's structure, with all that the driver adds to it.
    pub(crate) fn ethtool(&self, words: &mut [u64]) -> io::Result<()> {
        // SAFETY: all zeroes is a valid value of this plain C struct.
        let mut request: libc::ifreq = unsafe { mem::zeroed() };
        request.ifr_name = self.name;
        request.ifr_ifru.ifru_data = words.as_mut_ptr().cast();
        // SAFETY: the callers give each command room for all that it writes; request and words live.
        check(unsafe { libc::ioctl(self.fd.as_raw_fd(), libc::SIOCETHTOOL as _, &raw mut request) }).map(drop)
    }

    /// The queueing discipline of what it sends, by its name (tc(8)).
    pub(crate) fn discipline(&self) -> io::Result<String> {
        let mut about = LinkMessage::default();
        about.header.index = self.index.unsigned_abs();
        let answers = netlink::ask(RouteNetlinkMessage::GetLink(about))?;
        let attributes = answers.into_iter().find_map(|answer| match answer {
            RouteNetlinkMessage::NewLink(link) => Some(link.attributes),
            _ => None,
        });
        let name = attributes.into_iter().flatten().find_map(|attribute| match attribute {
            LinkAttribute::Qdisc(name) => Some(name),
            _ => None,
        });
        Ok(name.unwrap_or_default())
    }

    /// The station address.
    pub(crate) fn address(&self) -> io::Result<[u8; 6]> {
        let request = self.request(libc::SIOCGIFHWADDR)?;
        // SAFETY: the kernel has filled in the address, as was asked.
        let data = unsafe { request.ifr_ifru.ifru_hwaddr.sa_data };
        Ok([0, 1, 2, 3, 4, 5].map(|at| data[at] as u8))
    }

    /// The longest payload of a frame, in bytes.
    pub(crate) fn mtu(&self) -> io::Result<usize> {
        let request = self.request(libc::SIOCGIFMTU)?;
        // SAFETY: the kernel has filled in the MTU, as was asked.
        Ok(usize::try_from(unsafe { request.ifr_ifru.ifru_mtu }).unwrap_or(0))
    }

    /// Whether frames can pass.
    pub(crate) fn link(&self) -> io::Result<Link> {
        let request = self.request(libc::SIOCGIFFLAGS)?;
        // SAFETY: the kernel has filled in the flags, as was asked.
        let flags = libc::c_int::from(unsafe { request.ifr_ifru.ifru_flags });
        let needed = libc::IFF_UP | libc::IFF_RUNNING;
        Ok(Link { up: flags & needed == needed, speed_mbps: None })
    }

    /// Sets an `ethtool_value` of the interface, and returns what the kernel says of it.
    fn set(&self, command: u32, value: u32) -> io::Result<u32> {
        let mut words = [pair(command, value)];
        self.ethtool(&mut words)?;
        let [_, _, _, _, a, b, c, d] = words[0].to_ne_bytes();
        Ok(u32::from_ne_bytes([a, b, c, d]))
    }

    /// Lets frames through as they are on the wire: not put together (GRO), their tags left in.
    pub(crate) fn as_on_the_wire(&self) -> io::Result<()> {
        self.set(SET_GRO, 0)?;
        let flags = self.set(GET_FLAGS, 0)?;
        if flags & FLAG_RX_VLAN != 0 {
            self.set(SET_FLAGS, flags & !FLAG_RX_VLAN)?;
        }
        Ok(())
    }
}

/// The name of the interface with this number.
pub(crate) fn name_of(index: u32) -> io::Result<String> {
    Ok(nix::net::if_::if_indextoname(index)?.to_string_lossy().into_owned())
}

/// Two words of 32 bits in one, as they lie in memory.
pub(crate) fn pair(first: u32, second: u32) -> u64 {
    let [a, b, c, d] = first.to_ne_bytes();
    let [e, f, g, h] = second.to_ne_bytes();
    u64::from_ne_bytes([a, b, c, d, e, f, g, h])
}
