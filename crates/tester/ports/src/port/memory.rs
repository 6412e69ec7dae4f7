//! A port in memory, without a kernel: for tests and benchmarks of senders.

use super::{Counters, Descriptor, Frame, Link, NextPoll, Port, Trouble, Wake};
use kpps_platform::Buffer;
use kpps_platform::BufferSource;
use kpps_platform::memory::{BufferPool, PoolBuffer};
use std::time::Instant;

/// Slots of the ring.
const SLOTS: usize = 512;
/// Bytes of a slot.
const SLOT_BYTES: usize = 2048;

/// Copies each frame into a ring, as a packet socket does, and sends it at once. Nothing comes in.
#[derive(Debug)]
pub struct MemoryPort {
    pool: BufferPool,
    ring: Vec<u8>,
    next: usize,
    epoch: Instant,
    counters: Counters,
}

impl MemoryPort {
    /// With buffers of this pool.
    pub fn new(pool: BufferPool) -> Self {
        Self {
            pool,
            ring: vec![0; SLOTS * SLOT_BYTES],
            next: 0,
            epoch: Instant::now(),
            counters: Counters { missed: Some(0), ..Counters::default() },
        }
    }

    /// The frame that was sent last, and what earlier frames left behind it in its slot.
    pub fn last(&self) -> &[u8] {
        let slot = (self.next + SLOTS - 1) % SLOTS;
        self.ring.get(slot * SLOT_BYTES..(slot + 1) * SLOT_BYTES).unwrap_or_default()
    }

    #[inline]
    fn put(&mut self, frame: &[u8]) {
        let at = self.next * SLOT_BYTES;
        match self
            .ring
            .get_mut(at..at + frame.len().min(SLOT_BYTES))
            .zip(frame.get(..frame.len().min(SLOT_BYTES)))
        {
            Some((slot, frame)) => slot.copy_from_slice(frame),
            None => self.counters.tx_dropped += 1,
        }
        self.next = (self.next + 1) % SLOTS;
        self.counters.sent += 1;
        self.counters.sent_bytes += frame.len() as u64;
    }
}

impl Wake for MemoryPort {
    fn next_poll(&self) -> NextPoll {
        NextPoll::Asleep
    }
    fn now_ns(&self) -> u64 {
        self.epoch.elapsed().as_nanos() as u64
    }
    fn fd(&self) -> Option<Descriptor<'_>> {
        None
    }
    fn signals_tx_space(&self) -> bool {
        false
    }
}

impl Port for MemoryPort {
    fn receive(&mut self, _: usize, _: impl FnMut(Frame) -> Option<PoolBuffer>) -> Result<usize, Trouble> {
        Ok(0)
    }
    #[inline]
    fn send(&mut self, frame: Frame) -> Result<(), Frame> {
        self.put(frame.as_ref());
        self.pool.give(frame.buffer);
        Ok(())
    }
    #[inline]
    fn send_again(&mut self, most: usize, mut write: impl FnMut(&mut [u8]) -> u16) -> usize {
        let Some(buffer) = self.pool.take() else { return 0 };
        let mut frame = Frame { buffer, bytes: 0 };
        for _ in 0..most {
            frame.bytes = write(frame.buffer.bytes_mut());
            self.put(frame.as_ref());
        }
        self.pool.give(frame.buffer);
        most
    }
    fn flush(&mut self) -> Result<(), Trouble> {
        Ok(())
    }
    fn tx_space(&mut self) -> usize {
        SLOTS
    }
    fn in_flight(&mut self) -> usize {
        0
    }
    fn woken(&mut self) -> Result<(), Trouble> {
        Ok(())
    }
    fn maintain(&mut self) -> Result<(), Trouble> {
        Ok(())
    }
    fn counters(&mut self) -> Result<Counters, Trouble> {
        Ok(self.counters)
    }
    fn frames(&self) -> (u64, u64) {
        (self.counters.received, self.counters.sent)
    }
    fn link(&self) -> Link {
        Link { up: true, speed_mbps: None }
    }
    fn refresh_link(&mut self) -> Result<(), Trouble> {
        Ok(())
    }
    fn pool(&mut self) -> &mut BufferPool {
        &mut self.pool
    }
}
