//! The constants of operating systems' stacks, as their profiles give them.

use crate::device::e1000::Kernel;
use kpps_host::host;
use kpps_host::platform::Arrays;
use kpps_host::stack::{freebsd, linux22, linux24};
use kpps_profiles::Profile;
use serde::Deserialize;

/// The kernel that a stack belongs to.
pub(crate) fn kernel(stack: &Profile) -> Result<Kernel, kpps_profiles::Error> {
    #[derive(Deserialize)]
    struct OfKernel {
        kernel: Kernel,
    }
    kpps_profiles::read_as!(OfKernel);
    Ok(stack.split(&["kernel"]).0.get::<OfKernel>()?.kernel)
}

/// The constants of an operating system's stack, by the kernel that it belongs to.
#[derive(Clone, Debug)]
pub enum StackParams {
    /// Linux 2.2 with Click.
    Linux22(linux22::Params),
    /// Linux 2.4 and later.
    Linux24(linux24::Params),
    /// FreeBSD 4 to 6.
    FreeBsd(freebsd::Params),
}

impl StackParams {
    pub(crate) fn of(stack: &Profile) -> Result<Self, kpps_profiles::Error> {
        let (_, own) = stack.split(&["kernel"]);
        Ok(match kernel(stack)? {
            Kernel::Linux22 => Self::Linux22(own.get()?),
            Kernel::Linux24 | Kernel::Linux26 | Kernel::Linux6 => Self::Linux24(own.get()?),
            Kernel::FreeBsd => Self::FreeBsd(own.get()?),
        })
    }

    pub(crate) fn check(&self) -> Result<(), String> {
        match self {
            Self::Linux22(params) => params.check(),
            Self::Linux24(params) => params.check(),
            Self::FreeBsd(params) => params.check(),
        }
    }

    /// How its allocator keeps packet buffers.
    pub(crate) fn buffers(&self) -> Arrays {
        match self {
            Self::Linux22(params) => params.buffers,
            Self::Linux24(params) => params.buffers,
            Self::FreeBsd(params) => params.buffers,
        }
    }

    /// The work of drivers and kernels, with this system's packet structures.
    pub(crate) fn work(&self, work: host::Work) -> host::Work {
        match self {
            Self::FreeBsd(params) => {
                host::Work { structure_bytes: params.mbuf_bytes, buffer_lines: 0, ..work }
            }
            Self::Linux22(_) | Self::Linux24(_) => work,
        }
    }

    /// The most frames that its queues can hold, for one card.
    pub(crate) fn most_frames(&self) -> usize {
        match self {
            Self::Linux22(params) => params.backlog + params.from_device_queue,
            Self::Linux24(params) => params.backlog + params.transmit_queue,
            Self::FreeBsd(params) => params.most_frames(),
        }
    }
}
