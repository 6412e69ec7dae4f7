//! The XDP program that redirects an interface's frames to sockets, loaded through bpf(2).
//!
//! Its instructions are written here: no compiler, file or library is needed.

use super::load::{Instruction, Map, MapKind, load};
use crate::interface::Interface;
use crate::sys::bpf_open;
use rustix::io::Errno;
use std::collections::HashMap;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// The command of bpf(2) that attaches a program. This constant and those below have the values of
/// linux/bpf.h and linux/if_link.h.
const LINK_CREATE: i32 = 28;
const PROG_TYPE_XDP: u32 = 6;
const ATTACH_XDP: u32 = 37;
const MODE_GENERIC: u32 = 1 << 1;
const MODE_DRIVER: u32 = 1 << 2;

/// The number of queues that the map has entries for.
const QUEUES: u32 = 1024;

const RX_QUEUE_INDEX: i16 = 16;
const MAP_FD: u8 = 1;
const XDP_PASS: i32 = 2;
const REDIRECT_MAP: i32 = 51;
const XDP_ADJUST_META: i32 = 54;
const KTIME_GET_TAI_NS: i32 = 208;

/// `r6 = r1`: keeps the context, because a call overwrites `r1`.
const CONTEXT: [Instruction; 1] = [Instruction(0xbf, 0x16, 0, 0)];

/// Writes the time (`CLOCK_TAI`, ns; Linux 6.1) into the eight bytes before the frame, as metadata, which the
/// kernel copies with the frame. Does nothing if the driver leaves no room there.
const STAMP: [Instruction; 10] = {
    const DATA: i16 = 0;
    const DATA_META: i16 = 8;
    [
        // if (bpf_xdp_adjust_meta(r1, -8) != 0) goto end
        Instruction(0xb7, 2, 0, -8),
        Instruction(0x85, 0, 0, XDP_ADJUST_META),
        Instruction(0x55, 0, 7, 0),
        // r7 = the metadata; if (r7 + 8 > data) goto end: the kernel's verifier requires this check
        Instruction(0x61, 0x67, DATA_META, 0),
        Instruction(0x61, 0x62, DATA, 0),
        Instruction(0xbf, 0x73, 0, 0),
        Instruction(0x07, 3, 0, 8),
        Instruction(0x2d, 0x23, 2, 0),
        // *(u64 *)r7 = bpf_ktime_get_tai_ns()
        Instruction(0x85, 0, 0, KTIME_GET_TAI_NS),
        Instruction(0x7b, 0x07, 0, 0),
    ]
};

/// `return bpf_redirect_map(&sockets, context->rx_queue_index, XDP_PASS)`.
fn redirect(map: i32) -> [Instruction; 6] {
    [
        // r2 = *(u32 *)(r6 + RX_QUEUE_INDEX)
        Instruction(0x61, 0x62, RX_QUEUE_INDEX, 0),
        // r1 = the map: an instruction that takes two slots
        Instruction(0x18, MAP_FD << 4 | 1, 0, map),
        Instruction(0, 0, 0, 0),
        // r3 = the action for frames of a queue without a socket
        Instruction(0xb7, 3, 0, XDP_PASS),
        Instruction(0x85, 0, 0, REDIRECT_MAP),
        Instruction(0x95, 0, 0, 0),
    ]
}

#[repr(C)]
struct LinkCreate {
    program: u32,
    interface: u32,
    kind: u32,
    flags: u32,
}

/// The program on an interface. It is removed when this is dropped, and when the process ends.
#[derive(Debug)]
pub struct Redirect {
    _link: OwnedFd,
    sockets: Map<4, 4>,
    driver: bool,
}

/// Programs by network namespace and interface number.
type Programs = HashMap<(u64, u32), Weak<Redirect>>;

/// One program for each interface: ports of several queues share it.
static PROGRAMS: Mutex<Option<Programs>> = Mutex::new(None);

impl Redirect {
    /// The program on this interface. It is loaded if it is not loaded yet.
    ///
    /// # Errors
    /// `EPERM` without `CAP_BPF` and `CAP_NET_ADMIN`; `EBUSY` if the interface has another program.
    pub fn on(interface: &Interface) -> io::Result<Arc<Self>> {
        let namespace = std::fs::metadata("/proc/thread-self/ns/net").map_or(0, |file| file.ino());
        let mut programs = PROGRAMS.lock().unwrap_or_else(PoisonError::into_inner);
        let programs = programs.get_or_insert_default();
        let key = (namespace, interface.index());
        if let Some(program) = programs.get(&key).and_then(Weak::upgrade) {
            return Ok(program);
        }
        let program = Arc::new(Self::load(interface)?);
        programs.insert(key, Arc::downgrade(&program));
        Ok(program)
    }

    fn load(interface: &Interface) -> io::Result<Self> {
        let sockets = Map::new(MapKind::Sockets, QUEUES)?;
        let redirect = redirect(sockets.number());
        // Older kernels do not have this clock for XDP programs. The frames then have no receive time.
        let program = load(PROG_TYPE_XDP, 0, 0, &[&CONTEXT[..], &STAMP, &redirect].concat())
            .or_else(|_| load(PROG_TYPE_XDP, 0, 0, &[&CONTEXT[..], &redirect].concat()))?;
        let attach = |flags| {
            let link = LinkCreate {
                program: program.as_raw_fd() as u32,
                interface: interface.index(),
                kind: ATTACH_XDP,
                flags,
            };
            // SAFETY: `link` is the attribute of this command and contains no addresses.
            unsafe { bpf_open(LINK_CREATE, &link) }
        };
        match attach(MODE_DRIVER) {
            Ok(link) => Ok(Self { _link: link, sockets, driver: true }),
            Err(error) if Errno::from_io_error(&error) == Some(Errno::BUSY) => Err(error),
            // The driver does not support XDP: the kernel runs the program after the driver.
            Err(_) => Ok(Self { _link: attach(MODE_GENERIC)?, sockets, driver: false }),
        }
    }

    /// Whether the interface's driver runs the program; otherwise the kernel runs it after the driver.
    pub fn is_in_driver(&self) -> bool {
        self.driver
    }

    /// Redirects the frames of a queue to a socket.
    ///
    /// # Errors
    /// Errors of the system, for example if the map has no entry for the queue.
    pub fn give(&self, queue: u32, socket: BorrowedFd<'_>) -> io::Result<()> {
        self.sockets.put(queue.to_ne_bytes(), socket.as_raw_fd().to_ne_bytes())
    }

    /// Ends the redirection of a queue.
    pub fn take_back(&self, queue: u32) {
        // An error needs no handling: closing the socket also ends the redirection.
        let _ = self.sockets.remove(queue.to_ne_bytes());
    }
}
