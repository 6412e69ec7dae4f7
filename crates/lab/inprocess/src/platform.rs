//! The card behind the traits of `kpps-platform`.

use crate::error::Error;
use crate::state::{Shared, ps};
use kpps_audit::Access;
use kpps_linux::memory_file;
use kpps_platform::memory::{Memory, RingMemory};
use kpps_platform::{DmaSpec, OutOfMemory, Platform, Registers};
use std::sync::Arc;
use std::time::Duration;

/// A [`Platform`] with a model of a card, and memory for its driver. A handle: clones are the same card.
#[derive(Clone)]
pub struct CardPlatform {
    shared: Arc<Shared>,
    memory: Memory,
}

impl CardPlatform {
    pub(crate) fn new(shared: Arc<Shared>, bytes: usize) -> Result<Self, Error> {
        let file = memory_file(bytes as u64).map_err(Error::system("creating memory for a card"))?;
        let memory = Memory::shared(&file).map_err(Error::system("mapping memory for a card"))?;
        shared.lock().map(0, memory.bytes(), file, 0);
        Ok(Self { shared, memory })
    }

    /// The memory, for pools of buffers. The card sees its first byte at 0.
    pub fn memory(&self) -> &Memory {
        &self.memory
    }
}

impl Registers for CardPlatform {
    fn read(&self, offset: u32) -> u32 {
        let mut value = [0; 4];
        self.shared.lock().load(Access::Registers, offset.into(), &mut value);
        u32::from_le_bytes(value)
    }

    fn write(&self, offset: u32, value: u32) {
        self.shared.lock().store(Access::Registers, offset.into(), &value.to_le_bytes());
    }
}

impl Platform for CardPlatform {
    type Regs = Self;
    type Mem = RingMemory;

    fn registers(&self) -> Self {
        self.clone()
    }

    fn allocate(&self, spec: DmaSpec) -> Result<RingMemory, OutOfMemory> {
        self.memory.ring(spec)
    }

    fn now_ns(&self) -> u64 {
        self.shared.lock().now_ps() / 1000
    }

    fn wait_ns(&self, ns: u64) {
        self.shared.lock().advance(ps(Duration::from_nanos(ns)));
    }
}
