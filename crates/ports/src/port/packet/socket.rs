//! Packet sockets: packet(7).

use super::ring::{Arrivals, Departures};
use crate::ethtool;
use crate::interface::Interface;
use crate::socket::raw_socket;
use crate::sys::options::{bind_packet, get, set};
use crate::sys::packet as abi;
use rustix::net::AddressFamily;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// Slots to receive into (fewer with jumbo frames): 4 ms at a million frames a second, for as long as this process may not run.
const ARRIVALS: usize = 4096;
/// Slots to send from.
pub(super) const DEPARTURES: usize = 512;

/// Queueing disciplines that interfaces have by default, and the one of those that have none.
const ORDINARY: [&str; 6] = [NONE, "mq", "pfifo_fast", "pfifo", "fq_codel", "fq"];
const NONE: &str = "noqueue";
/// The first kernel that takes messages of UDP from a packet socket.
const CUTTING: (u32, u32) = (6, 2);

/// A socket with the ring that it shares with the kernel. The ring goes first.
#[derive(Debug)]
pub(super) struct Socket<R> {
    pub(super) ring: R,
    fd: OwnedFd,
}

impl Socket<Arrivals> {
    /// For all frames of up to `longest` bytes that come in by an interface, in promiscuous mode.
    pub(super) fn receiving(interface: &Interface, longest: usize) -> io::Result<Self> {
        // Protocol 0: nothing comes in before the socket is bound to its interface.
        let fd = raw_socket(AddressFamily::PACKET)?;
        set(fd.as_fd(), abi::SOL_PACKET, abi::PACKET_IGNORE_OUTGOING, &1)?;
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

    /// Frames dropped for lack of room in this socket since the last call.
    pub(super) fn dropped(&self) -> io::Result<u64> {
        let statistics: abi::tpacket_stats = get(self.fd.as_fd(), abi::SOL_PACKET, abi::PACKET_STATISTICS)?;
        Ok(statistics.tp_drops.into())
    }
}

/// Whether the kernel cuts messages of UDP right before this interface, and completes the checksums: a virtual one would hand them on as they
/// are. Not behind a queue: it would count a message as one frame, and one that found no room would be lost in it.
pub(super) fn cuts(interface: &str, discipline: &str) -> bool {
    let features = || ethtool::features(interface);
    discipline == NONE
        && features().is_ok_and(|all| ethtool::cut_before(&all) && ethtool::summed_before(&all))
        && kernel() >= CUTTING
}

/// The kernel's version; nothing if it does not tell.
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
    /// For frames of up to `longest` bytes that go out by an interface: to its driver, past the queue that the kernel gives every interface, but
    /// not past one that somebody has set up (netem, a shaper), its `discipline`. What the kernel `cuts` does not get past it, either.
    pub(super) fn sending(
        interface: &Interface,
        discipline: &str,
        longest: usize,
        cuts: bool,
    ) -> io::Result<Self> {
        // Protocol 0: nothing ever comes in.
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
