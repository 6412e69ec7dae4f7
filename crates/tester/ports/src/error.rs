//! Errors: one line each, with the command that helps.

use crate::Spec;
use kpps_datasheet::Chip;
use kpps_frames::Size;
#[cfg(target_os = "linux")]
use kpps_linux::OtherLink;
use kpps_linux::UNLOCK;
use std::fmt;
use std::io;

/// Why a port cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Not a port.
    #[error(
        "`{0}` is not a port: give vfio:ADDRESS, uio:ADDRESS, auto:INTERFACE, xdp:INTERFACE[:QUEUE], packet:INTERFACE, dpdk:DEVICE[,ARGUMENT=VALUE…] or udp:HOST:PORT"
    )]
    BadSpec(String),
    /// An interface without Ethernet headers.
    #[cfg(target_os = "linux")]
    #[error("{port} cannot be a port: {link}")]
    NotEthernet {
        /// The port.
        port: String,
        /// The link layer of the interface.
        link: OtherLink,
    },
    /// Frames are longer than a port sends.
    #[error("{} {port}, which sends at most {longest} B: {}", too_long(*frame, *asked), shorter(port, *asked))]
    TooLong {
        /// The number of the first such frame of a capture, from 1.
        frame: Option<u64>,
        /// The port by its name, with its host if that is another one.
        port: String,
        /// Bytes that were asked for, with FCS.
        asked: usize,
        /// Bytes of the longest frame, with FCS.
        longest: usize,
    },
    /// This process may not lock the memory that rings of the chosen size need.
    #[error("this process may not lock {} MiB of memory: a ring of {smaller} descriptors needs less, or {UNLOCK}",
        bytes >> 20)]
    LockedMemory {
        /// Bytes needed.
        bytes: usize,
        /// A ring size that needs less.
        smaller: u16,
    },
    /// None of these ports has rings whose size can be chosen.
    #[error(
        "a ring size can be chosen only for cards that kpps' own driver drives (vfio:ADDRESS, uio:ADDRESS): {0} is no such card"
    )]
    NoRing(String),
    /// Several cores were asked for, and the port cannot have them.
    #[error(
        "{0} has one core: several are for interfaces (packet:IFACE, and xdp:IFACE with all its queues) and for devices of DPDK (dpdk:DEVICE)"
    )]
    OneCore(String),
    /// The card does not support this ring size.
    #[error("a ring of {ring} descriptors: give a multiple of 8 from {least} to {most} for the {}", chip.name())]
    Ring {
        /// Descriptors asked for.
        ring: u16,
        /// The card's chip.
        chip: Chip,
        /// The fewest.
        least: u16,
        /// The most.
        most: u16,
    },
    /// This system does not have ports of this kind.
    #[error("{0}: this kind of port needs Linux; on this system use udp:HOST:PORT")]
    OnlyOnLinux(Spec),
    /// DPDK is missing or does not start, or a device cannot be used.
    #[cfg(target_os = "linux")]
    #[error("dpdk:{0}")]
    Dpdk(String),
    /// The system refused, or a card cannot be used.
    #[error(transparent)]
    System(#[from] kpps_linux::Error),
}

impl Error {
    /// The system refused `what`.
    pub(crate) fn io(what: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let error = kpps_linux::Error::io(what);
        move |source| error(source).into()
    }

    /// Checks that frames of `bytes` bytes are no longer than `longest`, the longest frame of `port`, if that
    /// is known. Both lengths are without FCS and VLAN tag.
    ///
    /// # Errors
    /// [`Error::TooLong`].
    pub fn check_longest(port: &dyn fmt::Display, longest: Option<usize>, bytes: usize) -> Result<(), Self> {
        let fcs = usize::from(Size::FCS_BYTES);
        match longest.filter(|longest| bytes > *longest) {
            None => Ok(()),
            Some(longest) => Err(Self::TooLong {
                frame: None,
                port: port.to_string(),
                asked: bytes + fcs,
                longest: longest + fcs,
            }),
        }
    }

    /// As [`check_longest`](Self::check_longest), for each frame of a capture.
    ///
    /// # Errors
    /// [`Error::TooLong`], with the number of the first such frame.
    pub fn check_each(
        port: &dyn fmt::Display,
        longest: Option<usize>,
        lengths: impl IntoIterator<Item = usize>,
    ) -> Result<(), Self> {
        let checked = (1..).zip(lengths).map(|(n, bytes)| (n, Self::check_longest(port, longest, bytes)));
        for (number, result) in checked {
            result.map_err(|error| match error {
                Self::TooLong { port, asked, longest, .. } => {
                    Self::TooLong { frame: Some(number), port, asked, longest }
                }
                other => other,
            })?;
        }
        Ok(())
    }
}

/// The frame that is too long, in words.
fn too_long(frame: Option<u64>, asked: usize) -> String {
    match frame {
        Some(number) => {
            format!("frame {number} of the capture has {asked} B with FCS and does not fit")
        }
        None => format!("frames of {asked} B with FCS do not fit"),
    }
}

/// The remedy for frames that are too long for a port.
fn shorter(port: &str, asked: usize) -> String {
    let mtu = asked.saturating_sub(ETHERNET_AND_FCS);
    let port = port.rsplit('/').next().unwrap_or(port);
    let raise = |interface: &str| {
        format!("`ip link set dev {interface} mtu {mtu}`, and the same for each interface on the path")
    };
    match port.parse() {
        Ok(Spec::Xdp { interface, .. }) if asked > XDP_LONGEST => {
            format!("AF_XDP takes {XDP_LONGEST} B in one buffer; packet:{interface} takes 9018 B")
        }
        Ok(Spec::Packet(interface) | Spec::Auto(interface) | Spec::Xdp { interface, .. }) => {
            raise(&interface)
        }
        Ok(Spec::Card(..)) => {
            "kpps' driver takes no longer ones; the kernel's may, by packet:INTERFACE".into()
        }
        Ok(Spec::Dpdk(_)) => "DPDK is set up for an MTU of 1500; packet:INTERFACE takes 9018 B".into(),
        Ok(Spec::Udp { .. }) | Err(_) => {
            format!(
                "raise the MTU of all interfaces on the path to {mtu} (`ip link set dev INTERFACE mtu {mtu}`)"
            )
        }
    }
}

/// Bytes of an Ethernet header and the FCS.
const ETHERNET_AND_FCS: usize = 14 + 4;
/// Bytes of the longest frame with FCS that a chunk of AF_XDP's memory holds.
const XDP_LONGEST: usize = 2048 - 256 + 4;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_line_with_the_command_that_helps() {
        for (error, command) in [
            (
                Error::LockedMemory { bytes: 14 << 20, smaller: 256 },
                ": a ring of 256 descriptors needs less, or `sudo ",
            ),
            (
                Error::Ring { ring: 8, chip: Chip::I82540em, least: 64, most: 4096 },
                "a ring of 8 descriptors: give a multiple of 8 from 64 to 4096 for the 82540em",
            ),
            (
                Error::TooLong { frame: None, port: "packet:t0".into(), asked: 9018, longest: 1518 },
                "frames of 9018 B with FCS do not fit packet:t0, which sends at most 1518 B: `ip link set dev t0 mtu 9000`",
            ),
            (
                Error::TooLong { frame: None, port: "h2/xdp:t0".into(), asked: 9018, longest: 1796 },
                "packet:t0 takes 9018 B",
            ),
            (
                Error::TooLong { frame: None, port: "xdp:t0".into(), asked: 1600, longest: 1518 },
                "`ip link set dev t0 mtu 1582`",
            ),
            (
                Error::TooLong { frame: Some(7), port: "packet:t0".into(), asked: 3018, longest: 1518 },
                "frame 7 of the capture has 3018 B with FCS and does not fit packet:t0, which sends at most 1518 B: `ip link set dev t0 mtu 3000`",
            ),
            (
                Error::TooLong { frame: None, port: "udp:h:9".into(), asked: 9018, longest: 1514 },
                "INTERFACE mtu 9000",
            ),
        ] {
            let line = error.to_string();
            assert!(line.contains(command) && !line.contains('\n') && !line.contains("  "), "{line}");
        }
    }
}
