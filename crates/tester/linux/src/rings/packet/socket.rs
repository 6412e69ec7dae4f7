//! Packet sockets: packet(7).

use super::ring::{Arrivals, Departures};
use crate::interface::{Interface, ethtool};
use crate::rings::raw_socket;
use crate::sys::options::{bind_packet, get, set};
use crate::sys::packet as abi;
use rustix::net::AddressFamily;
use rustix::net::sockopt::{set_socket_recv_buffer_size, set_socket_recv_buffer_size_force};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// The number of receive slots; there are fewer for jumbo frames. At a million frames a second they hold the
/// frames of 4 ms, in which this process may not run.
const ARRIVALS: usize = 4096;
/// Bytes of superpackets that may wait outside the ring. The kernel also counts its own data about each.
const SUPERPACKETS: usize = 32 << 20;
/// The number of transmit slots.
pub const DEPARTURES: usize = 512;

/// The default queueing disciplines, and the discipline of interfaces without a queue.
const ORDINARY: [&str; 6] = [NONE, "mq", "pfifo_fast", "pfifo", "fq_codel", "fq"];
const NONE: &str = "noqueue";
/// The first kernel that accepts UDP messages from a packet socket.
const CUTTING: (u32, u32) = (6, 2);

/// A socket and its ring, which is dropped first.
#[derive(Debug)]
pub struct Socket<R> {
    /// The ring.
    pub ring: R,
    /// The socket.
    pub fd: OwnedFd,
}

impl Socket<Arrivals> {
    /// Receives all frames of up to `longest` bytes from an interface, in promiscuous mode.
    ///
    /// # Errors
    /// Errors of the system: no right to open packet sockets (`CAP_NET_RAW`), the interface is gone.
    pub fn receiving(interface: &Interface, longest: usize) -> io::Result<Self> {
        // Protocol 0: nothing is received before the socket is bound to its interface.
        let fd = raw_socket(AddressFamily::PACKET)?;
        set(fd.as_fd(), abi::SOL_PACKET, abi::PACKET_IGNORE_OUTGOING, &1)?;
        // Without CAP_NET_ADMIN the system limits the size.
        set_socket_recv_buffer_size_force(&fd, SUPERPACKETS)
            .or_else(|_| set_socket_recv_buffer_size(&fd, SUPERPACKETS))?;
        let ring = Arrivals::new(fd.as_fd(), ARRIVALS, longest)?;
        bind_packet(fd.as_fd(), interface.index(), abi::ETH_P_ALL as u16)?;
        let membership = abi::packet_mreq {
            mr_ifindex: interface.index().cast_signed(),
            mr_type: abi::PACKET_MR_PROMISC as u16,
            mr_alen: 0,
            mr_address: [0; 8],
        };
        set(fd.as_fd(), abi::SOL_PACKET, abi::PACKET_ADD_MEMBERSHIP, &membership)?;
        Ok(Self { ring, fd })
    }

    /// Joins the socket to a group of sockets of one interface, which share its frames: all frames of a flow
    /// come to the same socket. The first socket makes a new group, if `group` is `None`. Returns the group.
    ///
    /// # Errors
    /// Errors of the system: `EINVAL` before Linux 5.18.
    pub fn join(&self, group: Option<u16>) -> io::Result<u16> {
        let unique = if group.is_none() { abi::PACKET_FANOUT_FLAG_UNIQUEID } else { 0 };
        let kind = abi::PACKET_FANOUT_HASH | unique | abi::FANOUT_IGNORES_OUTGOING;
        let value = kind << 16 | u32::from(group.unwrap_or(0));
        set(self.fd.as_fd(), abi::SOL_PACKET, abi::PACKET_FANOUT, &value)?;
        let joined: u32 = get(self.fd.as_fd(), abi::SOL_PACKET, abi::PACKET_FANOUT)?;
        // The lower half is the number of the group (packet(7)).
        Ok(joined as u16)
    }

    /// Frames and superpackets dropped since the last call because the ring was full.
    ///
    /// # Errors
    /// Errors of the system.
    pub fn dropped(&self) -> io::Result<u64> {
        let statistics: abi::tpacket_stats = get(self.fd.as_fd(), abi::SOL_PACKET, abi::PACKET_STATISTICS)?;
        Ok(statistics.tp_drops.into())
    }
}

/// Whether the kernel cuts UDP messages into frames directly before this interface and completes the
/// checksums. A virtual interface that offers to do this itself forwards messages uncut. An interface with a
/// queue is excluded: the queue would count a message as one frame, and drop all of it when it is full.
pub fn cuts(interface: &str, discipline: &str) -> bool {
    let features = || ethtool::features(interface);
    discipline == NONE
        && features().is_ok_and(|all| ethtool::cut_before(&all) && ethtool::summed_before(&all))
        && kernel() >= CUTTING
}

/// The kernel's version, or (0, 0) if it does not report it.
fn kernel() -> (u32, u32) {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease");
    release.ok().and_then(|release| version(&release)).unwrap_or_default()
}

/// The first two numbers of a kernel's release.
fn version(release: &str) -> Option<(u32, u32)> {
    let mut numbers = release.split(|it: char| !it.is_ascii_digit()).map(|number| number.parse().ok());
    Some((numbers.next()??, numbers.next()??))
}

impl Socket<Departures> {
    /// Sends frames of up to `longest` bytes through an interface. The frames bypass a default `discipline`,
    /// but not a discipline that an administrator has set up (netem, a shaper). If the kernel `cuts`
    /// messages, they do not bypass any.
    ///
    /// # Errors
    /// Errors of the system: no right to open packet sockets (`CAP_NET_RAW`), the interface is gone.
    pub fn sending(interface: &Interface, discipline: &str, longest: usize, cuts: bool) -> io::Result<Self> {
        // Protocol 0: the socket receives nothing.
        let fd = raw_socket(AddressFamily::PACKET)?;
        let bypass = !cuts && ORDINARY.contains(&discipline);
        set(fd.as_fd(), abi::SOL_PACKET, abi::PACKET_QDISC_BYPASS, &i32::from(bypass))?;
        let ring = Departures::new(fd.as_fd(), DEPARTURES, longest)?;
        bind_packet(fd.as_fd(), interface.index(), 0)?;
        Ok(Self { ring, fd })
    }
}

impl<R> AsFd for Socket<R> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::version;

    #[test]
    fn a_release_begins_with_two_numbers() {
        assert_eq!(version("6.1.0-56-amd64"), Some((6, 1)));
        assert_eq!(version("6.18.44-fc\n"), Some((6, 18)));
        assert_eq!(version("5.10"), Some((5, 10)));
        assert!(["", "6", "x.y", "6.x"].iter().all(|release| version(release).is_none()));
    }
}
