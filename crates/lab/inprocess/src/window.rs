//! The window of a card's registers, whose accesses trap.
//!
//! The handler waits for the model's lock. That never waits for itself: the thread that faulted is in the
//! driver's code and not in the model, and the model accesses no window. Other threads have the lock for the
//! time of a call.

use crate::error::Error;
use crate::instruction::{Bus, execute};
use crate::state::{Shared, State};
use kpps_audit::Access;
use kpps_datasheet::reg::WINDOW_BYTES;
use kpps_linux::{Cpu, Executed, Trap, TrapWindow};
use std::sync::Arc;

impl Bus for State {
    fn load(&mut self, offset: u64, into: &mut [u8]) {
        self.load(Access::Registers, offset, into);
    }

    fn store(&mut self, offset: u64, from: &[u8]) {
        self.store(Access::Registers, offset, from);
    }
}

/// Executes the driver's instructions on the model.
struct Registers(Arc<Shared>);

impl Trap for Registers {
    fn execute(&self, window: usize, code: &[u8], cpu: &mut Cpu) -> Executed {
        execute(&mut *self.0.lock(), window as u64, WINDOW_BYTES.into(), code, cpu)
    }
}

/// A window of 128 KiB.
pub(crate) struct Window(TrapWindow);

impl Window {
    /// A window of this card, whose address is in BAR 0 then.
    pub(crate) fn new(shared: &Arc<Shared>) -> Result<Self, Error> {
        let trap = Arc::new(Registers(shared.clone()));
        let window = TrapWindow::new(WINDOW_BYTES as usize, trap);
        let window = window.map_err(Error::system("reserving addresses for registers"))?;
        shared.lock().set_base(window.address() as u32);
        Ok(Self(window))
    }

    /// The address of the first register.
    pub(crate) fn address(&self) -> usize {
        self.0.address()
    }
}
