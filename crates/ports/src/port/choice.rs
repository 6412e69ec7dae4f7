//! Which way to an interface is the best.

use super::open::{CHUNK_BYTES, XDP_CAPABILITIES, refused};
use super::{XdpPort, xdp};
use crate::{Error, Spec};
use kpps_dma::Memory;
use std::path::Path;

/// What a port's name stands for: `auto:INTERFACE` for the best that the system, the driver and this user's rights
/// allow, with a word on why; any other for itself, with a word if it sees only a part of what comes.
///
/// It is found out by trying, which takes the interface's first queue from the kernel for a moment.
///
/// # Errors
/// [`Error`]: there is no such interface, or no memory to try with.
pub fn choose(spec: &Spec) -> Result<(Spec, Option<String>), Error> {
    let interface = match spec {
        Spec::Auto(interface) => interface,
        Spec::Xdp { interface, queue } => return Ok((spec.clone(), of_several(interface, *queue))),
        _ => return Ok((spec.clone(), None)),
    };
    let packet = |why: String| Ok((Spec::Packet(interface.clone()), Some(why)));
    let queues = receive_queues(interface);
    let queue = Spec::Xdp { interface: interface.clone(), queue: 0 };
    let count = 2 * xdp::BUFFERS;
    let memory =
        Memory::private((count * CHUNK_BYTES) + (2 << 20)).map_err(Error::io("memory for frames"))?;
    let pool = memory
        .chunks(count, CHUNK_BYTES, xdp::HEADROOM)
        .map_err(|_| Error::io("memory for frames")(std::io::ErrorKind::OutOfMemory.into()))?;
    match XdpPort::open(interface, 0, &memory, CHUNK_BYTES, pool) {
        Err(error) if error.raw_os_error() == Some(libc::ENODEV) => Err(refused(spec, "")(error)),
        Err(error) => packet(format!("no AF_XDP: {}", refused(&queue, XDP_CAPABILITIES)(error))),
        // A socket sees one queue.
        Ok(_) if queues > 1 => {
            packet(format!("{interface} has {queues} receive queues, of which xdp: would see one"))
        }
        Ok(port) if port.is_zero_copy() => {
            Ok((queue, Some("its driver shares buffers with an AF_XDP socket: nothing is copied".into())))
        }
        Ok(port) if port.is_in_driver() => {
            Ok((queue, Some("its driver hands frames over before the kernel's stack sees them".into())))
        }
        Ok(_) => packet("its driver knows nothing of XDP".into()),
    }
}

/// A word for who asked for one queue of several.
fn of_several(interface: &str, queue: u32) -> Option<String> {
    let queues = receive_queues(interface);
    (queues > 1).then(|| {
        format!(
            "it sees queue {queue} of {queues} only: packet:{interface} sees all, and so does this one after `ethtool -L {interface} combined 1`"
        )
    })
}

/// How many queues an interface receives by; 1 where the system does not tell.
fn receive_queues(interface: &str) -> usize {
    let folder = Path::new("/sys/class/net").join(interface).join("queues");
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries.filter(|entry| entry.file_name().to_string_lossy().starts_with("rx-")).count().max(1)
}
