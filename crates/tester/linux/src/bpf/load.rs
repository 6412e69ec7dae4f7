//! Programs for the kernel and their maps, made here instruction by instruction: no compiler, file or library
//! is needed (bpf(2)).

use crate::sys::{bpf, bpf_open};
use rustix::io::Errno;
use std::ffi::CStr;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

/// Commands of linux/bpf.h.
const MAP_CREATE: i32 = 0;
const MAP_LOOKUP_ELEM: i32 = 1;
const MAP_UPDATE_ELEM: i32 = 2;
const MAP_DELETE_ELEM: i32 = 3;
const MAP_GET_NEXT_KEY: i32 = 4;
const PROG_LOAD: i32 = 5;

const LICENSE: &CStr = c"Dual MIT/GPL";
const NAME: [u8; 16] = *b"kpps\0\0\0\0\0\0\0\0\0\0\0\0";

/// An instruction: operation, registers (source high, destination low), offset, value.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Instruction(pub(crate) u8, pub(crate) u8, pub(crate) i16, pub(crate) i32);

/// Kinds of maps.
#[derive(Clone, Copy, Debug)]
#[repr(u32)]
pub(crate) enum MapKind {
    Hash = 1,
    Array = 2,
    /// AF_XDP sockets by their receive queues.
    Sockets = 17,
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
    interface: u32,
    attach_type: u32,
    /// Where the kernel's types are described, and how: none of these.
    described: [u32; 9],
    attach_to: u32,
}

/// A map with keys of `K` bytes and values of `V` bytes.
#[derive(Debug)]
pub(crate) struct Map<const K: usize, const V: usize>(OwnedFd);

impl<const K: usize, const V: usize> Map<K, V> {
    /// An empty map.
    ///
    /// # Errors
    /// `EPERM` without `CAP_BPF`.
    pub(crate) fn new(kind: MapKind, entries: u32) -> io::Result<Self> {
        let map =
            MapCreate { kind: kind as u32, key_bytes: K as u32, value_bytes: V as u32, entries, flags: 0 };
        // SAFETY: the attribute of this command, without addresses.
        unsafe { bpf_open(MAP_CREATE, &map) }.map(Self)
    }

    /// Its number for an instruction.
    pub(crate) fn number(&self) -> i32 {
        self.0.as_raw_fd()
    }

    /// Writes an entry.
    pub(crate) fn put(&self, key: [u8; K], value: [u8; V]) -> io::Result<()> {
        let element = self.element(&raw const key, (&raw const value) as u64);
        // SAFETY: the attribute of this command. Its addresses are those of a key and a value of the map's
        // sizes, which live.
        unsafe { bpf(MAP_UPDATE_ELEM, &element) }.map(drop)
    }

    /// The value of a key.
    pub(crate) fn get(&self, key: [u8; K]) -> io::Result<Option<[u8; V]>> {
        let mut value = [0; V];
        let element = self.element(&raw const key, (&raw mut value) as u64);
        // SAFETY: as in `put`; the kernel writes the value.
        absent(unsafe { bpf(MAP_LOOKUP_ELEM, &element) }).map(|found| found.map(|_| value))
    }

    /// Removes an entry, if it exists.
    pub(crate) fn remove(&self, key: [u8; K]) -> io::Result<()> {
        let element = self.element(&raw const key, 0);
        // SAFETY: as in `put`, without a value.
        absent(unsafe { bpf(MAP_DELETE_ELEM, &element) }).map(drop)
    }

    /// All keys. A key that is put meanwhile may be missing.
    pub(crate) fn keys(&self) -> io::Result<Vec<[u8; K]>> {
        let mut keys: Vec<[u8; K]> = Vec::new();
        loop {
            let mut next = [0; K];
            let last = keys.last();
            let element =
                self.element(last.map_or(std::ptr::null(), |key| &raw const *key), (&raw mut next) as u64);
            // SAFETY: as in `put`; the kernel writes the next key in place of a value. Without a key it
            // writes the first one.
            match absent(unsafe { bpf(MAP_GET_NEXT_KEY, &element) })? {
                Some(_) => keys.push(next),
                None => return Ok(keys),
            }
        }
    }

    fn element(&self, key: *const [u8; K], value: u64) -> MapElement {
        MapElement { map: self.number() as u32, _pad: 0, key: key as u64, value, flags: 0 }
    }
}

/// `None` where there is no such entry.
fn absent(result: io::Result<i32>) -> io::Result<Option<i32>> {
    match result {
        Ok(done) => Ok(Some(done)),
        Err(error) if Errno::from_io_error(&error) == Some(Errno::NOENT) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Loads a program that the kernel runs at the type numbered `attach_to` (0: at none) of those it describes.
///
/// # Errors
/// `EPERM` without `CAP_BPF`; `EINVAL` or `EACCES` if the kernel rejects the program.
pub(crate) fn load(
    kind: u32,
    attach_type: u32,
    attach_to: u32,
    instructions: &[Instruction],
) -> io::Result<OwnedFd> {
    let attribute = |log: &mut [u8]| ProgramLoad {
        kind,
        count: instructions.len() as u32,
        instructions: instructions.as_ptr() as u64,
        license: LICENSE.as_ptr() as u64,
        log_level: u32::from(!log.is_empty()),
        log_bytes: log.len() as u32,
        log: if log.is_empty() { 0 } else { log.as_mut_ptr() as u64 },
        kernel_version: 0,
        flags: 0,
        name: NAME,
        interface: 0,
        attach_type,
        described: [0; 9],
        attach_to,
    };
    // SAFETY: the attribute of this command. Its addresses are those of `count` instructions and of a
    // terminated text, which live.
    let first = match unsafe { bpf_open(PROG_LOAD, &attribute(&mut [])) } {
        Ok(program) => return Ok(program),
        Err(error) => error,
    };
    // Once more, for the verifier's log.
    let mut log = vec![0; 1 << 16];
    // SAFETY: as before, and `log` has `log_bytes` bytes.
    match unsafe { bpf_open(PROG_LOAD, &attribute(&mut log)) } {
        Ok(program) => Ok(program),
        Err(_) => {
            let log = String::from_utf8_lossy(&log).trim_end_matches('\0').trim().to_owned();
            let lines: Vec<_> = log.lines().rev().take(3).collect();
            Err(match lines.is_empty() {
                true => first,
                false => io::Error::new(first.kind(), format!("{first}: {}", lines.join("; "))),
            })
        }
    }
}
