//! The XDP program that redirects an interface's frames to sockets, loaded through bpf(2).
//!
//! It has six instructions, which are written here: no compiler, file or library is needed.

use crate::interface::Interface;
use crate::sys::{bpf, bpf_open};
use rustix::io::Errno;
use std::collections::HashMap;
use std::ffi::CStr;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// Commands, types and flags of linux/bpf.h and linux/if_link.h.
const MAP_CREATE: i32 = 0;
const MAP_UPDATE_ELEM: i32 = 2;
const MAP_DELETE_ELEM: i32 = 3;
const PROG_LOAD: i32 = 5;
const LINK_CREATE: i32 = 28;
const MAP_TYPE_XSKMAP: u32 = 17;
const PROG_TYPE_XDP: u32 = 6;
const ATTACH_XDP: u32 = 37;
const MODE_GENERIC: u32 = 1 << 1;
const MODE_DRIVER: u32 = 1 << 2;

/// Queues that the map has entries for.
const QUEUES: u32 = 1024;
const LICENSE: &CStr = c"Dual MIT/GPL";
const NAME: [u8; 16] = *b"kpps\0\0\0\0\0\0\0\0\0\0\0\0";

/// An instruction: operation, registers (source high, destination low), offset, value.
#[repr(C)]
#[derive(Clone, Copy)]
struct Instruction(u8, u8, i16, i32);

/// `return bpf_redirect_map(&sockets, context->rx_queue_index, XDP_PASS)`.
fn program(map: BorrowedFd<'_>) -> [Instruction; 6] {
    const RX_QUEUE_INDEX: i16 = 16;
    const MAP_FD: u8 = 1;
    const XDP_PASS: i32 = 2;
    const REDIRECT_MAP: i32 = 51;
    [
        // r2 = *(u32 *)(r1 + RX_QUEUE_INDEX)
        Instruction(0x61, 0x12, RX_QUEUE_INDEX, 0),
        // r1 = map, in two halves
        Instruction(0x18, MAP_FD << 4 | 1, 0, map.as_raw_fd()),
        Instruction(0, 0, 0, 0),
        // r3 = the action for frames of a queue without a socket
        Instruction(0xb7, 3, 0, XDP_PASS),
        Instruction(0x85, 0, 0, REDIRECT_MAP),
        Instruction(0x95, 0, 0, 0),
    ]
}

#[repr(C)]
struct MapCreate {
    kind: u32,
    key_bytes: u32,
    value_bytes: u32,
    entries: u32,
    flags: u32,
}

#[repr(C)]
struct MapElement {
    map: u32,
    _pad: u32,
    key: u64,
    value: u64,
    flags: u64,
}

#[repr(C)]
struct ProgramLoad {
    kind: u32,
    count: u32,
    instructions: u64,
    license: u64,
    log_level: u32,
    log_bytes: u32,
    log: u64,
    kernel_version: u32,
    flags: u32,
    name: [u8; 16],
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
pub(super) struct Program {
    _link: OwnedFd,
    sockets: OwnedFd,
    driver: bool,
}

/// Programs by network namespace and interface number.
type Programs = HashMap<(u64, u32), Weak<Program>>;

/// One program for each interface: ports of several queues share it.
static PROGRAMS: Mutex<Option<Programs>> = Mutex::new(None);

impl Program {
    /// The program on this interface. It is loaded if it is not there.
    ///
    /// # Errors
    /// `EPERM` without `CAP_BPF` and `CAP_NET_ADMIN`; `EBUSY` if the interface has another program.
    pub(super) fn on(interface: &Interface) -> io::Result<Arc<Self>> {
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
        let map =
            MapCreate { kind: MAP_TYPE_XSKMAP, key_bytes: 4, value_bytes: 4, entries: QUEUES, flags: 0 };
        // SAFETY: the attribute of this command, without addresses.
        let sockets = unsafe { bpf_open(MAP_CREATE, &map) }?;
        let instructions = program(std::os::fd::AsFd::as_fd(&sockets));
        let load = ProgramLoad {
            kind: PROG_TYPE_XDP,
            count: instructions.len() as u32,
            instructions: instructions.as_ptr() as u64,
            license: LICENSE.as_ptr() as u64,
            log_level: 0,
            log_bytes: 0,
            log: 0,
            kernel_version: 0,
            flags: 0,
            name: NAME,
        };
        // SAFETY: the attribute of this command. Its addresses are those of `count` instructions and of a
        // terminated text, which live.
        let program = unsafe { bpf_open(PROG_LOAD, &load) }?;
        let attach = |flags| {
            let link = LinkCreate {
                program: program.as_raw_fd() as u32,
                interface: interface.index(),
                kind: ATTACH_XDP,
                flags,
            };
            // SAFETY: the attribute of this command, without addresses.
            unsafe { bpf_open(LINK_CREATE, &link) }
        };
        match attach(MODE_DRIVER) {
            Ok(link) => Ok(Self { _link: link, sockets, driver: true }),
            Err(error) if Errno::from_io_error(&error) == Some(Errno::BUSY) => Err(error),
            // The driver lacks XDP.
            Err(_) => Ok(Self { _link: attach(MODE_GENERIC)?, sockets, driver: false }),
        }
    }

    /// Whether the interface's driver runs the program, and not the kernel after it.
    pub(super) fn is_in_driver(&self) -> bool {
        self.driver
    }

    /// Redirects the frames of a queue to a socket.
    pub(super) fn give(&self, queue: u32, socket: BorrowedFd<'_>) -> io::Result<()> {
        let value = socket.as_raw_fd() as u32;
        self.element(MAP_UPDATE_ELEM, queue, value)
    }

    /// Ends the redirection of a queue.
    pub(super) fn take_back(&self, queue: u32) {
        // If this fails, closing the socket does the same.
        let _ = self.element(MAP_DELETE_ELEM, queue, 0);
    }

    fn element(&self, command: i32, key: u32, value: u32) -> io::Result<()> {
        let element = MapElement {
            map: self.sockets.as_raw_fd() as u32,
            _pad: 0,
            key: (&raw const key) as u64,
            value: if command == MAP_UPDATE_ELEM { (&raw const value) as u64 } else { 0 },
            flags: 0,
        };
        // SAFETY: the attribute of these commands. Its addresses are those of words of the map's sizes, which
        // live.
        unsafe { bpf(command, &element) }.map(drop)
    }
}
