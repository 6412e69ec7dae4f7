//! The platform of the driver of kpps: this guest.

use crate::arch;
use crate::memory::Shared;
use crate::shim::Shim;
use kpps_platform::{DmaSpec, OutOfMemory, Platform};

/// The guest, as the driver sees it.
pub struct Guest(pub Shim);

impl Platform for Guest {
    type Regs = Shim;
    type Mem = Shared;

    fn registers(&self) -> Shim {
        self.0.clone()
    }

    fn allocate(&self, spec: DmaSpec) -> Result<Shared, OutOfMemory> {
        // A ring of at most the boundary's size does not cross it if it begins at a multiple of its own size.
        let align = spec.boundary.map_or(spec.align, |_| spec.bytes.next_power_of_two().max(spec.align));
        Ok(Shared::allocate(spec.bytes, align))
    }

    fn now_ns(&self) -> u64 {
        arch::now_ns()
    }

    fn wait_ns(&self, ns: u64) {
        if self.0.is_hasty() {
            return;
        }
        let end = arch::now_ns() + ns;
        while arch::now_ns() < end {
            core::hint::spin_loop();
        }
    }
}
