//! The functions of the adapter, as `kpps_dpdk.h` declares them.

use crate::error::Error;
use crate::place::{self, ABI};
use libloading::Library;
use std::ffi::{CStr, c_char, c_int};
use std::sync::{Mutex, PoisonError};

/// Frames of a burst at most: `KPPS_DPDK_BURST`.
pub(crate) const BURST: usize = 64;

/// A port of the adapter; only pointers to it exist here.
#[repr(C)]
pub(crate) struct RawPort {
    _private: [u8; 0],
}

/// A queue of a port; only pointers to it exist here.
#[repr(C)]
pub(crate) struct RawQueue {
    _private: [u8; 0],
}

/// A frame in a buffer of DPDK.
#[repr(C)]
pub(crate) struct Slot {
    pub(crate) data: *mut u8,
    pub(crate) bytes: u32,
    _reserved: u32,
}

/// The frames of a burst: `struct kpps_dpdk_burst`.
#[repr(C)]
pub(crate) struct Burst {
    pub(crate) first: u32,
    pub(crate) filled: u32,
    pub(crate) end: u32,
    _reserved: u32,
    pub(crate) slots: [Slot; BURST],
}

#[repr(C)]
pub(crate) struct RawInfo {
    pub(crate) driver: [u8; 64],
    pub(crate) address: [u8; 8],
    pub(crate) mtu: u32,
    pub(crate) room: u32,
    pub(crate) rx_descriptors: u32,
    pub(crate) tx_descriptors: u32,
}

#[repr(C)]
#[derive(Default)]
pub(crate) struct RawLink {
    pub(crate) up: u32,
    pub(crate) speed_mbps: u32,
}

#[repr(C)]
#[derive(Default)]
pub(crate) struct RawStatistics {
    pub(crate) missed: u64,
    pub(crate) no_buffer: u64,
    pub(crate) rx_errors: u64,
    pub(crate) tx_errors: u64,
    pub(crate) sent: u64,
}

/// Declares the table of functions, and how it is filled from a library.
macro_rules! functions {
    ($($name:ident = $symbol:literal: fn($($argument:ty),*) $(-> $result:ty)?;)*) => {
        /// The adapter's functions.
        pub(crate) struct Adapter {
            $(pub(crate) $name: unsafe extern "C" fn($($argument),*) $(-> $result)?,)*
        }

        impl Adapter {
            fn of(library: &Library) -> Result<Self, libloading::Error> {
                $(
                    // SAFETY: the types are those of `kpps_dpdk.h`, of the version that `Adapter::open` has
                    // compared.
                    let $name = *unsafe { library.get::<unsafe extern "C" fn($($argument),*) $(-> $result)?>($symbol) }?;
                )*
                Ok(Self { $($name),* })
            }
        }
    };
}

functions! {
    compiled = b"kpps_dpdk_compiled\0": fn() -> *const c_char;
    loaded = b"kpps_dpdk_loaded\0": fn() -> *const c_char;
    fits = b"kpps_dpdk_fits\0": fn() -> c_int;
    start = b"kpps_dpdk_start\0": fn(c_int, *mut *mut c_char, c_int) -> c_int;
    messages = b"kpps_dpdk_messages\0": fn(*mut c_char, usize);
    enter = b"kpps_dpdk_enter\0": fn() -> c_int;
    leave = b"kpps_dpdk_leave\0": fn();
    open = b"kpps_dpdk_open\0": fn(*const c_char, u32, u32, c_int, *mut *mut RawPort) -> c_int;
    close = b"kpps_dpdk_close\0": fn(*mut RawPort);
    info = b"kpps_dpdk_info\0": fn(*mut RawPort, *mut RawInfo);
    link = b"kpps_dpdk_link\0": fn(*mut RawPort, *mut RawLink) -> c_int;
    statistics = b"kpps_dpdk_statistics\0": fn(*mut RawPort, *mut RawStatistics) -> c_int;
    has_gone = b"kpps_dpdk_has_gone\0": fn(*mut RawPort) -> c_int;
    queue = b"kpps_dpdk_queue\0": fn(*mut RawPort, u32) -> *mut RawQueue;
    received = b"kpps_dpdk_received\0": fn(*mut RawQueue) -> *mut Burst;
    sending = b"kpps_dpdk_sending\0": fn(*mut RawQueue) -> *mut Burst;
    receive = b"kpps_dpdk_receive\0": fn(*mut RawQueue);
    send = b"kpps_dpdk_send\0": fn(*mut RawQueue) -> u32;
}

/// The adapter of this process, once it was loaded. DPDK cannot be unloaded.
static LOADED: Mutex<Option<&'static Adapter>> = Mutex::new(None);

/// A text of the adapter, which lives as long as the process.
fn text(of: unsafe extern "C" fn() -> *const c_char) -> &'static str {
    // SAFETY: the functions that are passed here take nothing and return a constant C string.
    let text = unsafe { CStr::from_ptr(of()) };
    text.to_str().unwrap_or("DPDK")
}

impl Adapter {
    /// Loads the adapter, if this process has not done so.
    pub(crate) fn load() -> Result<&'static Self, Error> {
        let mut loaded = LOADED.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(adapter) = *loaded {
            return Ok(adapter);
        }
        let adapter: &'static Self = Box::leak(Box::new(Self::open()?));
        *loaded = Some(adapter);
        Ok(adapter)
    }

    fn open() -> Result<Self, Error> {
        let path = place::adapter()?;
        place::check(&path)?;
        let refused = |error: libloading::Error| Error::Load(in_one_line(&error.to_string()));
        // SAFETY: the file is this user's or root's. It is `kpps_dpdk.c`, compiled; what runs when it is
        // loaded are the constructors of DPDK's libraries.
        let library = unsafe { Library::new(&path) }.map_err(refused)?;
        // SAFETY: this function has been the same in all versions of `kpps_dpdk.h`.
        let abi =
            unsafe { library.get::<unsafe extern "C" fn() -> u32>(b"kpps_dpdk_abi\0") }.map_err(refused)?;
        // SAFETY: it takes nothing and returns a number.
        let abi = unsafe { abi() };
        if abi != ABI {
            return Err(Error::Load(format!("its interface is {abi}, and this kpps has {ABI}")));
        }
        let adapter = Self::of(&library).map_err(refused)?;
        // SAFETY: it takes nothing and compares numbers.
        if unsafe { (adapter.fits)() } == 0 {
            let (compiled, loaded) = (text(adapter.compiled), text(adapter.loaded));
            return Err(Error::Load(format!("it was compiled for {compiled}, and {loaded} is installed")));
        }
        // The functions are used until the process ends.
        std::mem::forget(library);
        Ok(adapter)
    }

    /// The loaded DPDK, as `DPDK 22.11.3`.
    pub(crate) fn loaded(&self) -> &'static str {
        text(self.loaded)
    }

    /// DPDK's messages since they were read last, in one line, or the words for an error if there are none.
    pub(crate) fn why(&self, error: c_int) -> String {
        let mut messages = vec![0; 2048];
        // SAFETY: the adapter writes a C string of at most this number of bytes.
        unsafe { (self.messages)(messages.as_mut_ptr().cast(), messages.len()) };
        let messages = CStr::from_bytes_until_nul(&messages).unwrap_or_default().to_string_lossy();
        match in_one_line(&messages) {
            none if none.is_empty() => std::io::Error::from_raw_os_error(error.saturating_abs()).to_string(),
            messages => messages,
        }
    }
}

/// Several lines as one, each once.
fn in_one_line(text: &str) -> String {
    let mut lines: Vec<&str> = Vec::new();
    for line in text.lines().map(|line| line.trim().trim_start_matches("EAL: ")) {
        if !line.is_empty() && !lines.contains(&line) {
            lines.push(line);
        }
    }
    lines.join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: &str = include_str!("../shim/kpps_dpdk.h");

    #[test]
    fn the_numbers_are_those_of_the_header() {
        assert!(HEADER.contains(&format!("#define KPPS_DPDK_ABI {ABI}\n")));
        assert!(HEADER.contains(&format!("#define KPPS_DPDK_BURST {BURST}\n")));
    }

    #[test]
    fn messages_are_one_line() {
        let messages = "EAL: no driver found\nEAL: no driver found\n\n EAL: Failed to attach device\n";
        assert_eq!(in_one_line(messages), "no driver found; Failed to attach device");
    }
}
