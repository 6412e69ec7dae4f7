//! System calls that `rustix` does not have. All others go through rustix, and `libc` is used in this folder
//! only:
//!
//! - [`options`]: options and the address of packet sockets, and UDP's newer options;
//! - [`packet`]: the structures of the rings of packet sockets;
//! - [`ifreq`]: requests about an interface (netdevice(7), `SIOCETHTOOL`);
//! - [`ioctl()`]: an ioctl whose result is a number, for VFIO and `ifreq`;
//! - [`messages`]: recvmmsg(2), and sendmmsg(2) with control messages;
//! - [`bpf`]: bpf(2); [`schedule`]: sched_setscheduler(2); [`cpu_time`]: getrusage(2);
//! - [`SharedMemory`]: memory below 2 GiB; `trap`: windows whose accesses are executed here (sigaction(2)).
//!
//! Performance counters (perf_event_open(2)) are those of the crate perf-event2.

#[cfg(target_os = "linux")]
mod bpf;
#[cfg(target_os = "linux")]
pub(crate) mod ifreq;
#[cfg(target_os = "linux")]
mod ioctl;
#[cfg(target_os = "linux")]
pub(crate) mod messages;
#[cfg(target_os = "linux")]
pub(crate) mod options;
#[cfg(target_os = "linux")]
pub(crate) mod packet;
#[cfg(target_os = "linux")]
mod schedule;
#[cfg(target_os = "linux")]
mod shared;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod trap;
mod usage;

#[cfg(target_os = "linux")]
pub(crate) use bpf::{bpf, bpf_open};
#[cfg(target_os = "linux")]
pub(crate) use ioctl::ioctl;
#[cfg(target_os = "linux")]
pub use schedule::{Policy, schedule};
#[cfg(target_os = "linux")]
pub use shared::{SharedMemory, memory_file};
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
pub use trap::{Cpu, Executed, Trap, TrapWindow};
pub use usage::{CpuTime, cpu_time};

/// The result of a system call: an error if it is negative.
#[inline]
fn check(result: libc::c_int) -> std::io::Result<libc::c_int> {
    if result < 0 { Err(std::io::Error::last_os_error()) } else { Ok(result) }
}
