//! Opening ports on systems other than Linux, which have UDP sockets only.

use super::any::{AnyPort, Options, SPARE_BUFFERS};
use super::{JUMBO_BUFFER_BYTES as BUFFER_BYTES, UdpPort, run};
use crate::{Error, Spec};
use kpps_platform::memory::Memory;
use std::io;

/// The port that a name stands for: itself.
///
/// # Errors
/// None.
pub fn choose(spec: &Spec) -> Result<(Spec, Option<String>), Error> {
    Ok((spec.clone(), None))
}

/// Opens ports that share one pool of buffers.
///
/// # Errors
/// [`Error`] in one line: another kind than `udp:`, or the system's refusal.
pub fn open(specs: &[Spec], options: &Options) -> Result<Vec<AnyPort>, Error> {
    if let Some(spec) = specs.first().filter(|_| options.cores > 1) {
        return Err(Error::OneCore(spec.to_string()));
    }
    let buffers = specs.len() * (SPARE_BUFFERS / 2 + 2 * run::BUDGET) + SPARE_BUFFERS;
    let memory = Memory::private(buffers * BUFFER_BYTES).map_err(Error::io("memory for frames"))?;
    let no_memory = |_| Error::io("memory for frames")(io::ErrorKind::OutOfMemory.into());
    let pool = memory.pool(buffers, BUFFER_BYTES, None).map_err(no_memory)?;
    let open = |spec: &Spec| match spec {
        Spec::Udp { host, port } => {
            let port = UdpPort::open(host, *port, pool.clone()).map_err(Error::io(spec.to_string()))?;
            Ok(AnyPort::Udp(Box::new(port)))
        }
        other => Err(Error::OnlyOnLinux(other.clone())),
    };
    specs.iter().map(open).collect()
}
