//! Requests about one interface: netdevice(7), and `SIOCETHTOOL` (linux/ethtool.h).

use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};
use std::io;
use std::os::fd::OwnedFd;

/// An interface by its name, in the network namespace of the thread that made this.
#[derive(Debug)]
pub(crate) struct Requests {
    fd: OwnedFd,
    name: [libc::c_char; libc::IFNAMSIZ],
}

impl Requests {
    /// For the interface of this name.
    pub(crate) fn new(interface: &str) -> io::Result<Self> {
        let mut name = [0; libc::IFNAMSIZ];
        if interface.len() >= name.len() || interface.contains('\0') {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        for (to, from) in name.iter_mut().zip(interface.bytes()) {
            *to = from as libc::c_char;
        }
        // A socket of any kind represents its namespace.
        let fd = socket_with(AddressFamily::INET, SocketType::DGRAM, SocketFlags::CLOEXEC, None)?;
        Ok(Self { fd, name })
    }

    fn empty(&self) -> libc::ifreq {
        // SAFETY: all zeroes is a valid value of this struct of integers, addresses and a null pointer.
        let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
        request.ifr_name = self.name;
        request
    }

    /// Reads a value of the interface: the kernel writes it into the request.
    fn get(&self, opcode: libc::c_ulong) -> io::Result<libc::ifreq> {
        let mut request = self.empty();
        // SAFETY: these requests (see the callers) read and write one `ifreq`, which lives.
        unsafe { super::ioctl(&self.fd, opcode as _, &raw mut request) }?;
        Ok(request)
    }

    /// The interface's number.
    pub(crate) fn index(&self) -> io::Result<u32> {
        let request = self.get(libc::SIOCGIFINDEX)?;
        // SAFETY: the kernel has written the index.
        Ok(unsafe { request.ifr_ifru.ifru_ifindex }.unsigned_abs())
    }

    /// The kind of its link: a number of linux/if_arp.h.
    pub(crate) fn link_type(&self) -> io::Result<u16> {
        let request = self.get(libc::SIOCGIFHWADDR)?;
        // SAFETY: the kernel has written the kind, with the address.
        Ok(unsafe { request.ifr_ifru.ifru_hwaddr.sa_family })
    }

    /// The station address.
    pub(crate) fn address(&self) -> io::Result<[u8; 6]> {
        let request = self.get(libc::SIOCGIFHWADDR)?;
        // SAFETY: the kernel has written the address.
        let data = unsafe { request.ifr_ifru.ifru_hwaddr.sa_data };
        Ok([0, 1, 2, 3, 4, 5].map(|at| data[at] as u8))
    }

    /// The longest payload of a frame, in bytes.
    pub(crate) fn mtu(&self) -> io::Result<usize> {
        let request = self.get(libc::SIOCGIFMTU)?;
        // SAFETY: the kernel has written the MTU.
        Ok(usize::try_from(unsafe { request.ifr_ifru.ifru_mtu }).unwrap_or(0))
    }

    /// Whether the interface is up and its link, too.
    pub(crate) fn is_running(&self) -> io::Result<bool> {
        let request = self.get(libc::SIOCGIFFLAGS)?;
        // SAFETY: the kernel has written the flags.
        let flags = libc::c_int::from(unsafe { request.ifr_ifru.ifru_flags });
        let needed = libc::IFF_UP | libc::IFF_RUNNING;
        Ok(flags & needed == needed)
    }

    /// Sends the driver an ethtool command. The answer overwrites it.
    ///
    /// # Safety
    /// `command` is a command of linux/ethtool.h in its structure, and has room for all that the kernel and
    /// the driver write for it.
    pub(crate) unsafe fn ethtool<T: Copy>(&self, command: &mut [T]) -> io::Result<()> {
        let mut request = self.empty();
        request.ifr_ifru.ifru_data = command.as_mut_ptr().cast();
        // SAFETY: `request` lives; the caller vouches for `command`.
        unsafe { super::ioctl(&self.fd, libc::SIOCETHTOOL as _, &raw mut request) }.map(drop)
    }
}
