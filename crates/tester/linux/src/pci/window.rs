//! The registers of an open card, as a driver accesses them.

use super::function::Function;
use kpps_platform::Registers;
use std::sync::Arc;

/// A handle to the registers of an open [`Card`](super::Card).
#[derive(Clone, Debug)]
pub struct Window(Arc<Function>);

impl Window {
    pub(crate) fn new(card: Arc<Function>) -> Self {
        Self(card)
    }
}

impl Registers for Window {
    #[inline]
    fn read(&self, offset: u32) -> u32 {
        self.0.bar.read(offset)
    }
    #[inline]
    fn write(&self, offset: u32, value: u32) {
        self.0.bar.write(offset, value);
    }
}
