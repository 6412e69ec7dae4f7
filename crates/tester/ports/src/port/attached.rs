//! The interface of a port, and its state.

use super::{Link, Trouble};
use kpps_linux::Interface;
use rustix::io::Errno;
use std::io;

/// Bytes of an Ethernet header, and of a VLAN tag.
pub(super) const HEADER: usize = 14;
pub(super) const VLAN: usize = 4;
/// Where a VLAN tag is: behind the addresses.
pub(super) const ADDRESSES: usize = 12;

/// Whether a frame may be sent where frames have at most `longest` bytes. A VLAN tag may exceed the MTU.
#[inline]
pub(super) fn fits(frame: &[u8], longest: usize) -> bool {
    let tagged = matches!(frame.get(ADDRESSES..HEADER), Some([0x81, 0x00] | [0x88, 0xa8]));
    (HEADER..=longest + if tagged { VLAN } else { 0 }).contains(&frame.len())
}

/// An interface, with its state when it was last read.
#[derive(Debug)]
pub(super) struct Attached {
    interface: Interface,
    link: Link,
    /// The longest frame that the interface sends, in bytes without FCS and VLAN tag.
    longest: usize,
    /// The longest frame that the port can hold.
    room: usize,
}

impl Attached {
    /// For an interface, and frames of at most `room` bytes without a VLAN tag.
    pub(super) fn to(interface: Interface, room: usize) -> io::Result<Self> {
        let mut attached = Self { interface, link: Link::default(), longest: 0, room };
        attached.refresh()?;
        Ok(attached)
    }

    /// The interface.
    pub(super) fn interface(&self) -> &Interface {
        &self.interface
    }

    /// Its link.
    pub(super) fn link(&self) -> Link {
        self.link
    }

    /// The longest frame that the interface sends and the port holds, in bytes without FCS and VLAN tag.
    pub(super) fn longest(&self) -> usize {
        self.longest
    }

    /// Reads the state of the interface.
    fn refresh(&mut self) -> io::Result<()> {
        self.link = Link { up: self.interface.is_running()?, speed_mbps: None };
        self.longest = (self.interface.mtu()? + HEADER).min(self.room);
        Ok(())
    }

    /// Whether the interface can send this frame. A VLAN tag may exceed the MTU.
    #[inline]
    pub(super) fn fits(&self, frame: &[u8]) -> bool {
        fits(frame, self.longest)
    }

    /// Reads the state of the interface, which may be gone.
    pub(super) fn maintain(&mut self) -> Result<(), Trouble> {
        match self.refresh() {
            Err(error) if matches!(Errno::from_io_error(&error), Some(Errno::NODEV | Errno::NXIO)) => {
                Err(Trouble::Gone)
            }
            other => other.map_err(Trouble::system("cannot read the link's state")),
        }
    }
}
