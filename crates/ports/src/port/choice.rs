//! Choosing how to access an interface.

use super::any::SPARE_BUFFERS;
use super::open::{CHUNK_BYTES, XDP_CAPABILITIES, refused};
use super::{XdpPort, xdp};
use crate::{Error, Spec, ethtool};
use kpps_platform::memory::Memory;
use rustix::io::Errno;

/// The port that a name stands for. `auto:INTERFACE` stands for the fastest kind that the system, the driver
/// and this user's rights allow, with the reason; any other name stands for itself, with a remark if it
/// receives only a part of the traffic.
///
/// The choice is made by trying, which takes the interface's queues from the kernel for a moment.
///
/// # Errors
/// [`Error`]: there is no such interface, or no memory to try with.
pub fn choose(spec: &Spec) -> Result<(Spec, Option<String>), Error> {
    let interface = match spec {
        Spec::Auto(interface) => interface,
        Spec::Xdp { interface, queue: Some(queue) } => {
            return Ok((spec.clone(), of_several(interface, *queue)));
        }
        _ => return Ok((spec.clone(), None)),
    };
    let packet = |why: String| Ok((Spec::Packet(interface.clone()), Some(why)));
    let all = Spec::Xdp { interface: interface.clone(), queue: None };
    let count = xdp::buffers(interface, None) + SPARE_BUFFERS;
    let memory =
        Memory::private((count * CHUNK_BYTES) + (2 << 20)).map_err(Error::io("memory for frames"))?;
    let pool = memory
        .chunks(count, CHUNK_BYTES, xdp::HEADROOM)
        .map_err(|_| Error::io("memory for frames")(std::io::ErrorKind::OutOfMemory.into()))?;
    match XdpPort::open(interface, None, &memory, CHUNK_BYTES, pool) {
        Err(error) if Errno::from_io_error(&error) == Some(Errno::NODEV) => Err(refused(spec, "")(error)),
        Err(error) => packet(format!("no AF_XDP: {}", refused(&all, XDP_CAPABILITIES)(error))),
        Ok(port) if port.is_zero_copy() => {
            Ok((all, Some("its driver shares buffers with AF_XDP sockets: nothing is copied".into())))
        }
        Ok(port) if port.is_in_driver() => {
            Ok((all, Some("its driver hands frames over before the kernel's stack sees them".into())))
        }
        Ok(_) => packet("its driver does not support XDP".into()),
    }
}

/// A remark if the interface has several queues and one was asked for.
fn of_several(interface: &str, queue: u32) -> Option<String> {
    let queues = ethtool::receive_queues(interface).unwrap_or(1);
    (queues > 1).then(|| format!("it receives queue {queue} of {queues} only: xdp:{interface} receives all"))
}
