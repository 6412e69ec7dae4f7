//! bpf(2).

use std::io;
use std::os::fd::{FromRawFd, OwnedFd};

/// Calls bpf(2).
///
/// # Safety
/// `T` is the kernel's attribute struct of this command. Every address in it is that of memory which lives as
/// long as the call, and which has the size that the command expects.
pub(crate) unsafe fn bpf<T>(command: i32, attribute: &T) -> io::Result<i32> {
    // SAFETY: the kernel reads `size_of::<T>()` bytes of `attribute`; the caller vouches for its addresses.
    let result = unsafe { libc::syscall(libc::SYS_bpf, command, &raw const *attribute, size_of::<T>()) };
    super::check(result as libc::c_int)
}

/// Calls bpf(2) with a command that returns a new descriptor.
///
/// # Safety
/// As [`bpf`], and the command returns a descriptor.
pub(crate) unsafe fn bpf_open<T>(command: i32, attribute: &T) -> io::Result<OwnedFd> {
    // SAFETY: the caller's promise.
    let fd = unsafe { bpf(command, attribute) }?;
    // SAFETY: a new descriptor, which nothing else owns.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}
