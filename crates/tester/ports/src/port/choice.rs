//! Choosing how to access an interface.

use super::any::SPARE_BUFFERS;
use super::{XdpPort, xdp};
use crate::{Error, Spec};
use kpps_linux::{Interface, UNLOCK, ethtool};
use kpps_platform::memory::Memory;
use rustix::io::Errno;
use std::io;

/// Capabilities that `AF_XDP` sockets need, as `setcap` writes them.
pub(super) const XDP_CAPABILITIES: &str = "cap_net_raw,cap_net_admin,cap_bpf,cap_ipc_lock";
/// Bytes of a chunk for `AF_XDP`: a frame and the headroom before it.
pub(super) const CHUNK_BYTES: usize = 2048;

/// The port that a name stands for. `auto:INTERFACE` stands for the fastest kind that the system, the driver
/// and this user's rights allow, with the reason; any other name stands for itself, with a remark if it
/// receives only a part of the traffic.
///
/// The choice is made by trying, which takes the interface's queues from the kernel for a moment.
///
/// # Errors
/// [`Error`]: there is no such interface, it has no Ethernet headers, or there is no memory to try with.
pub fn choose(spec: &Spec) -> Result<(Spec, Option<String>), Error> {
    check_ethernet(spec)?;
    let interface = match spec {
        Spec::Auto(interface) => interface,
        Spec::Xdp { interface, queue: Some(queue) } => {
            return Ok((spec.clone(), of_several(interface, *queue)));
        }
        _ => return Ok((spec.clone(), None)),
    };
    let packet = |why: String| Ok((Spec::Packet(interface.clone()), Some(why)));
    let all = Spec::Xdp { interface: interface.clone(), queue: None };
    let count = xdp::buffers(interface, None, 1) + SPARE_BUFFERS;
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

/// Checks that frames of an interface have Ethernet headers. If there is no such interface, opening it
/// reports that.
fn check_ethernet(spec: &Spec) -> Result<(), Error> {
    let Some(name) = spec.interface() else { return Ok(()) };
    let other = Interface::find(name).and_then(|interface| interface.other_link());
    other.ok().flatten().map_or(Ok(()), |link| Err(Error::NotEthernet { port: spec.to_string(), link }))
}

/// A remark if the interface has several queues and one was asked for.
fn of_several(interface: &str, queue: u32) -> Option<String> {
    let queues = ethtool::receive_queues(interface).unwrap_or(1);
    (queues > 1).then(|| format!("it receives queue {queue} of {queues} only: xdp:{interface} receives all"))
}

/// The cause of a refused interface, with the remedy.
pub(super) fn refused<'s>(spec: &'s Spec, capabilities: &'s str) -> impl FnOnce(io::Error) -> Error + 's {
    let help = move |error: &io::Error| {
        Some(match (Errno::from_io_error(error)?, spec) {
            (Errno::NODEV, _) => "there is no such interface: `ip -brief link` shows them".into(),
            (Errno::PERM | Errno::ACCESS, _) => format!(
                "no right to open such sockets: run as root, or `sudo setcap {capabilities}+ep $(command -v kpps)`"
            ),
            (Errno::NOBUFS, Spec::Xdp { interface, queue }) => {
                let several = queue.is_none() && ethtool::receive_queues(interface).unwrap_or(1) > 1;
                let less = if several {
                    format!("; xdp:{interface}:0 is one queue and takes less")
                } else {
                    String::new()
                };
                format!("this process may not lock the memory that it needs: run as root, or {UNLOCK}{less}")
            }
            (Errno::BUSY, Spec::Xdp { interface, .. }) => format!(
                "a queue, or the interface's XDP program, is in use: `ip link set {interface} xdp off` removes that"
            ),
            (Errno::INVAL, Spec::Xdp { interface, queue: Some(_) }) => {
                let queues = ethtool::receive_queues(interface).unwrap_or(1);
                format!("no such queue: {interface} has {queues}, numbered from 0")
            }
            _ => return None,
        })
    };
    move |source| {
        let source = help(&source).map_or(source, io::Error::other);
        Error::io(spec.to_string())(source)
    }
}
