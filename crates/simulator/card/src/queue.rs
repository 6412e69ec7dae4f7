//! A descriptor ring in host memory, and its descriptors on chip.
//!
//! The same structure serves both directions (SDM 3.2.4–3.2.6 and 3.4). A descriptor passes four positions,
//! which only move forward:
//!
//! ```text
//!   written ≤ done ≤ taken ≤ fetched      (≤ tail, in host memory)
//! ```
//!
//! *Fetched* descriptors are on chip. The engine *takes* one and is *done* with it; its result is *written*
//! back, or it is retired without. At most 64 are between written and fetched.

/// Descriptors on chip (SDM 3.2.4, 3.4.1).
pub(crate) const ON_CHIP: u32 = 64;
/// Bytes in a descriptor.
pub(crate) const DESCRIPTOR_BYTES: u32 = kpps_datasheet::desc::BYTES as u32;

/// A planned fetch: this many descriptors, from this ring index on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fetch {
    pub(crate) count: u32,
    /// Where the burst starts, and its length in bytes.
    pub(crate) addr: u64,
    pub(crate) bytes: u32,
}

/// The rule that says when and how much to fetch.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FetchRule {
    /// This is another burst of a fetch that does not fit into one burst.
    pub(crate) goes_on: bool,
    /// Prefetch below this many cached descriptors (PTHRESH) …
    pub(crate) prefetch: u32,
    /// … if the host has at least this many (HTHRESH) …
    pub(crate) host: u32,
    /// … and no transfer of higher priority needs the bus.
    pub(crate) bus_wanted: bool,
    /// The most descriptors in one burst.
    pub(crate) max: u32,
    /// Descriptors in a cache line, a power of two.
    pub(crate) line: u32,
    /// Move whole cache lines.
    pub(crate) whole_lines: bool,
}

/// A ring and its on-chip part.
#[derive(Clone, Debug)]
pub(crate) struct Queue {
    base: u64,
    /// RDLEN or TDLEN: bytes, a multiple of 128.
    len: u32,
    /// RDT or TDT.
    tail: u32,
    slots: [[u64; 2]; ON_CHIP as usize],
    /// Ring index of the oldest descriptor not written back.
    written_index: u32,
    /// Ring index of the next to be taken.
    taken_index: u32,
    /// Ring index of the next to be fetched.
    fetched_index: u32,
    written: u64,
    done: u64,
    taken: u64,
    fetched: u64,
    /// Descriptors in the fetch in progress.
    fetching: u32,
    /// Descriptors in the write-back in progress.
    writing: u32,
    /// The ring is outside memory; the queue stops until it is set up again.
    halted: bool,
}

impl Queue {
    pub(crate) fn new() -> Self {
        Self {
            base: 0,
            len: 0,
            tail: 0,
            slots: [[0; 2]; ON_CHIP as usize],
            written_index: 0,
            taken_index: 0,
            fetched_index: 0,
            written: 0,
            done: 0,
            taken: 0,
            fetched: 0,
            fetching: 0,
            writing: 0,
            halted: false,
        }
    }

    // ---- The registers ----

    pub(crate) fn base_low(&self) -> u32 {
        self.base as u32
    }
    pub(crate) fn base_high(&self) -> u32 {
        (self.base >> 32) as u32
    }
    pub(crate) fn len(&self) -> u32 {
        self.len
    }
    pub(crate) fn tail(&self) -> u32 {
        self.tail
    }
    /// RDH: the next descriptor to be written back (SDM 3.2.6).
    pub(crate) fn written_index(&self) -> u32 {
        self.written_index
    }
    /// The next descriptor after those in the write-back in progress.
    pub(crate) fn writing_index(&self) -> u32 {
        self.step(self.written_index, self.writing)
    }
    /// TDH: the next descriptor to be processed (SDM 3.4).
    pub(crate) fn taken_index(&self) -> u32 {
        self.taken_index
    }

    /// Sets the low half of the base address and drops the descriptors on chip.
    pub(crate) fn set_base_low(&mut self, value: u32) {
        self.base = (self.base & !0xFFFF_FFFF) | u64::from(value & !0xF);
        self.restart(self.taken_index);
    }
    /// Sets the high half of the base address and drops the descriptors on chip.
    pub(crate) fn set_base_high(&mut self, value: u32) {
        self.base = (self.base & 0xFFFF_FFFF) | u64::from(value) << 32;
        self.restart(self.taken_index);
    }
    /// Sets the length in bytes and drops the descriptors on chip.
    pub(crate) fn set_len(&mut self, value: u32) {
        self.len = value & 0xF_FF80;
        self.restart(self.taken_index);
    }
    /// Sets the head and drops the descriptors on chip.
    pub(crate) fn set_head(&mut self, value: u32) {
        self.restart(value & 0xFFFF);
    }
    /// Sets the tail.
    pub(crate) fn set_tail(&mut self, value: u32) {
        self.tail = value & 0xFFFF;
    }

    fn restart(&mut self, head: u32) {
        self.written_index = head;
        self.taken_index = head;
        self.fetched_index = head;
        (self.written, self.done, self.taken, self.fetched) = (0, 0, 0, 0);
        (self.fetching, self.writing, self.halted) = (0, 0, false);
    }

    // ---- Counts ----

    /// Descriptors in the ring.
    #[inline]
    pub(crate) fn count(&self) -> u32 {
        self.len / DESCRIPTOR_BYTES
    }

    /// Descriptors from ring index `from` to the tail; none if head or tail lies outside the ring.
    #[inline]
    fn to_tail(&self, from: u32) -> u32 {
        let count = self.count();
        if from >= count || self.tail >= count {
            0
        } else if self.tail >= from {
            self.tail - from
        } else {
            self.tail + count - from
        }
    }

    /// Descriptors that the engine has not taken: RDT or TDT minus head.
    #[inline]
    pub(crate) fn untaken(&self) -> u32 {
        self.to_tail(self.taken_index).max(self.cached())
    }

    /// There are descriptors that the engine has not taken.
    #[inline]
    pub(crate) fn has_untaken(&self) -> bool {
        self.cached() != 0 || self.to_tail(self.taken_index) != 0
    }

    /// Descriptors on chip that the engine may take.
    #[inline]
    pub(crate) fn cached(&self) -> u32 {
        (self.fetched - self.taken) as u32
    }

    /// The chip has room for a descriptor, but all have been fetched.
    #[inline]
    pub(crate) fn fetched_all(&self) -> bool {
        self.to_tail(self.fetched_index) == 0 && self.fetched - self.written < u64::from(ON_CHIP)
    }

    /// No descriptor is on chip, in a fetch, or in the host.
    #[inline]
    pub(crate) fn starved(&self) -> bool {
        self.cached() == 0 && self.fetching == 0 && (self.halted || self.to_tail(self.fetched_index) == 0)
    }

    /// Descriptors done and not written back; those in a write-back in progress included.
    #[inline]
    pub(crate) fn unwritten(&self) -> u32 {
        (self.done - self.written) as u32
    }

    /// Descriptors done since the queue was set up.
    #[inline]
    pub(crate) fn done_mark(&self) -> u64 {
        self.done
    }
    /// Descriptors written back since the queue was set up.
    #[inline]
    pub(crate) fn written_mark(&self) -> u64 {
        self.written
    }

    #[inline]
    fn step(&self, index: u32, n: u32) -> u32 {
        let next = index + n;
        if next >= self.count() { next.saturating_sub(self.count()) } else { next }
    }

    // ---- Fetching ----

    /// The fetch that `rule` requires now, if any. The caller makes the burst, then calls
    /// [`fetched`](Self::fetched).
    #[inline]
    pub(crate) fn plan_fetch(&mut self, rule: &FetchRule) -> Option<Fetch> {
        if self.fetching != 0 || self.halted {
            return None;
        }
        let cached = self.cached();
        if !rule.goes_on && cached != 0 && (rule.bus_wanted || cached >= rule.prefetch) {
            return None;
        }
        let waiting = self.to_tail(self.fetched_index);
        let free = ON_CHIP - (self.fetched - self.written) as u32;
        if waiting == 0 || free == 0 || (!rule.goes_on && cached != 0 && waiting < rule.host) {
            return None;
        }
        // A burst ends at the end of the ring; if another one follows, at the end of a cache line.
        let mut n = waiting.min(free).min(rule.max).min(self.count() - self.fetched_index);
        if n < waiting {
            let first = self.in_lines(self.fetched_index, rule.line);
            let aligned_end = line_start(first + n, rule.line);
            if aligned_end > first {
                n = aligned_end - first;
            }
        }
        self.fetching = n;
        let mut addr = self.address(self.fetched_index);
        let mut bytes = n * DESCRIPTOR_BYTES;
        if rule.whole_lines {
            let within = u64::from(rule.line * DESCRIPTOR_BYTES) - 1;
            let end = addr.saturating_add(u64::from(bytes)).saturating_add(within) & !within;
            addr &= !within;
            bytes = (end - addr) as u32;
        }
        Some(Fetch { count: n, addr, bytes })
    }

    /// The fetch has ended: `load` copies the descriptors. `false`: there is no memory there.
    pub(crate) fn fetched(&mut self, mut load: impl FnMut(u64, &mut [u8]) -> bool) -> bool {
        let n = core::mem::take(&mut self.fetching);
        let mut bytes = [0; (4 * DESCRIPTOR_BYTES) as usize];
        let mut left = n;
        while left > 0 {
            let now = left.min(4);
            let part = &mut bytes[..(now * DESCRIPTOR_BYTES) as usize];
            if !load(self.address(self.fetched_index), part) {
                self.halted = true;
                return false;
            }
            for d in part.chunks_exact(DESCRIPTOR_BYTES as usize) {
                self.slots[(self.fetched % u64::from(ON_CHIP)) as usize] = words(d);
                self.fetched += 1;
            }
            self.fetched_index = self.step(self.fetched_index, now);
            left -= now;
        }
        true
    }

    // ---- Processing ----

    /// The next descriptor that the engine may take.
    #[inline]
    pub(crate) fn peek(&self) -> Option<[u64; 2]> {
        if self.cached() == 0 { None } else { Some(self.slots[(self.taken % u64::from(ON_CHIP)) as usize]) }
    }

    /// Takes it.
    #[inline]
    pub(crate) fn take(&mut self) {
        debug_assert!(self.cached() > 0);
        self.taken += 1;
        self.taken_index = self.step(self.taken_index, 1);
    }

    /// The engine is done with the oldest descriptor it took; the second word is now `status`.
    #[inline]
    pub(crate) fn finish(&mut self, status: u64) {
        debug_assert!(self.done < self.taken);
        self.slots[(self.done % u64::from(ON_CHIP)) as usize][1] = status;
        self.done += 1;
    }

    /// Changes the first word of the oldest descriptor that is taken and not done.
    #[inline]
    pub(crate) fn set_first(&mut self, word: u64) {
        self.slots[(self.done % u64::from(ON_CHIP)) as usize][0] = word;
    }

    /// The second word of the oldest descriptor that is taken and not done.
    #[inline]
    pub(crate) fn in_work(&self) -> u64 {
        self.slots[(self.done % u64::from(ON_CHIP)) as usize][1]
    }

    // ---- Writing back ----

    /// A write-back is under way.
    #[inline]
    pub(crate) fn is_writing(&self) -> bool {
        self.writing != 0
    }

    /// The second word of the oldest descriptor that is done and not written back.
    #[inline]
    pub(crate) fn oldest_unwritten(&self) -> Option<u64> {
        if self.unwritten() == 0 {
            None
        } else {
            Some(self.slots[(self.written % u64::from(ON_CHIP)) as usize][1])
        }
    }

    /// Retires the oldest descriptor without writing it back.
    #[inline]
    pub(crate) fn retire(&mut self) {
        debug_assert!(self.unwritten() > 0 && self.writing == 0);
        self.written += 1;
        self.written_index = self.step(self.written_index, 1);
    }

    /// Starts the write-back of at most `wanted` descriptors, up to the end of the ring. Returns its address
    /// and number of descriptors.
    #[inline]
    pub(crate) fn start_write_back(&mut self, wanted: u32) -> (u64, u32) {
        let n = wanted.min(self.unwritten()).min(self.count().saturating_sub(self.written_index).max(1));
        self.writing = n;
        (self.address(self.written_index), n)
    }

    /// Ring index `index`, counted from the start of the cache line in which the ring begins.
    #[inline]
    fn in_lines(&self, index: u32, line: u32) -> u32 {
        ((self.base / u64::from(DESCRIPTOR_BYTES)) as u32 & (line - 1)) + index
    }

    /// The number of unwritten descriptors up to the end of the last complete cache line.
    #[inline]
    pub(crate) fn whole_lines(&self, line: u32) -> u32 {
        let first = self.in_lines(self.written_index, line);
        let aligned_end = line_start(first + self.unwritten(), line);
        // The end of the ring also ends a line.
        let to_end = self.count().saturating_sub(self.written_index);
        if to_end != 0 && self.unwritten() >= to_end { to_end } else { aligned_end.saturating_sub(first) }
    }

    /// The write-back has ended: `each` may change the second word of each descriptor in order, then `store`
    /// gets the bytes. Returns `false` if there is no memory.
    #[inline]
    pub(crate) fn wrote(
        &mut self,
        mut each: impl FnMut(&mut u64),
        mut store: impl FnMut(u64, &[u8]) -> bool,
    ) -> bool {
        let mut left = core::mem::take(&mut self.writing);
        let mut stored = true;
        let mut bytes = [0; (4 * DESCRIPTOR_BYTES) as usize];
        while left > 0 {
            let now = left.min(4);
            let addr = self.address(self.written_index);
            for d in bytes.chunks_exact_mut(DESCRIPTOR_BYTES as usize).take(now as usize) {
                let slot = &mut self.slots[(self.written % u64::from(ON_CHIP)) as usize];
                each(&mut slot[1]);
                d[..8].copy_from_slice(&slot[0].to_le_bytes());
                d[8..].copy_from_slice(&slot[1].to_le_bytes());
                self.written += 1;
            }
            self.written_index = self.step(self.written_index, now);
            stored &= store(addr, &bytes[..(now * DESCRIPTOR_BYTES) as usize]);
            left -= now;
        }
        stored
    }

    #[inline]
    fn address(&self, index: u32) -> u64 {
        self.base.wrapping_add(u64::from(index) * u64::from(DESCRIPTOR_BYTES))
    }
}

/// The first of the `line` (a power of two) descriptors among which `index` is.
#[inline]
fn line_start(index: u32, line: u32) -> u32 {
    index & !(line - 1)
}

#[inline]
fn words(d: &[u8]) -> [u64; 2] {
    let mut w = [0u64; 2];
    for (w, b) in w.iter_mut().zip(d.chunks_exact(8)) {
        let mut a = [0; 8];
        a.copy_from_slice(b);
        *w = u64::from_le_bytes(a);
    }
    w
}
