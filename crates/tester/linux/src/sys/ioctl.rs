//! ioctl(2) with a result that is a number. rustix's own patterns drop it.

use rustix::ioctl::{Ioctl, IoctlOutput, Opcode};
use std::ffi::c_void;
use std::io;
use std::os::fd::AsFd;

struct Call {
    opcode: Opcode,
    argument: *mut c_void,
}

// SAFETY: the argument goes to the kernel as it is, and the kernel may write where it points.
unsafe impl Ioctl for Call {
    type Output = i32;
    const IS_MUTATING: bool = true;

    fn opcode(&self) -> Opcode {
        self.opcode
    }
    fn as_ptr(&mut self) -> *mut c_void {
        self.argument
    }
    unsafe fn output_from_ptr(output: IoctlOutput, _: *mut c_void) -> rustix::io::Result<i32> {
        Ok(output)
    }
}

/// Calls ioctl(2) and returns its result.
///
/// # Safety
/// `argument` is what the kernel expects of this opcode: a number in place of an address, or the address of
/// memory that lives as long as the call and has room for all that the kernel reads and writes.
pub(crate) unsafe fn ioctl<T>(fd: impl AsFd, opcode: Opcode, argument: *mut T) -> io::Result<i32> {
    // SAFETY: the caller's promise.
    Ok(unsafe { rustix::ioctl::ioctl(fd, Call { opcode, argument: argument.cast() }) }?)
}
