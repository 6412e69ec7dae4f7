//! The timers of connections: one for each, in a wheel of lists (Varghese and Lauck, 1987, scheme 6), and the
//! list of the connections in TIME-WAIT.
//!
//! A connection is in one list at most. Setting, clearing and expiring take constant time and no memory.

/// The resolution in ns.
const TICK_NS: u64 = 4_000_000;
/// The lists of the wheel; one turn takes 16 s.
const LISTS: usize = 4096;
/// The list of connections in TIME-WAIT. All wait equally long, so the first one ends first.
const WAITING: usize = LISTS;
/// No connection.
const NONE: u32 = u32::MAX;

/// The longest step of the time. A program that had no CPU for longer has received nothing in that time
/// either, and must not count its connections as silent.
pub const LONGEST_STEP_NS: u64 = 20_000_000;

/// A connection's neighbours in its list.
#[derive(Clone, Copy, Debug)]
struct Link {
    before: u32,
    after: u32,
    /// The list, or `NONE`.
    list: u32,
    due_tick: u64,
}

/// The timers of connections with the numbers from 0 on.
#[derive(Debug)]
pub struct Timers {
    links: Box<[Link]>,
    /// The first and the last connection of each list.
    ends: Box<[(u32, u32)]>,
    /// The time of the last call, in the caller's ns and in our own.
    called_ns: Option<u64>,
    now_ns: u64,
    /// The tick whose list is searched next, and the next connection there.
    tick: u64,
    cursor: Option<u32>,
}

impl Timers {
    /// For this many connections.
    pub fn new(connections: usize) -> Self {
        Self {
            links: vec![Link { before: NONE, after: NONE, list: NONE, due_tick: 0 }; connections].into(),
            ends: vec![(NONE, NONE); LISTS + 1].into(),
            called_ns: None,
            now_ns: 0,
            tick: 0,
            cursor: None,
        }
    }

    fn append(&mut self, slot: u32, after_ns: u64, list_of: impl FnOnce(u64) -> usize) {
        self.clear(slot);
        let due_tick = (self.now_ns + after_ns).div_ceil(TICK_NS).max(self.tick + 1);
        let list = list_of(due_tick);
        let last = self.ends[list].1;
        self.links[slot as usize] = Link { before: last, after: NONE, list: list as u32, due_tick };
        match self.links.get_mut(last as usize) {
            Some(link) => link.after = slot,
            None => self.ends[list].0 = slot,
        }
        self.ends[list].1 = slot;
    }

    /// Sets the timer of a connection, which may have one.
    #[inline]
    pub fn set(&mut self, slot: u32, after_ns: u64) {
        self.append(slot, after_ns, |tick| tick as usize % LISTS);
    }

    /// Puts a connection at the end of those in TIME-WAIT, in place of its timer. `after_ns` is always the
    /// same.
    #[inline]
    pub fn wait(&mut self, slot: u32, after_ns: u64) {
        self.append(slot, after_ns, |_| WAITING);
    }

    /// Clears the timer of a connection, if it has one.
    #[inline]
    pub fn clear(&mut self, slot: u32) {
        let Link { before, after, list, .. } = self.links[slot as usize];
        if list == NONE {
            return;
        }
        let list = list as usize;
        match self.links.get_mut(before as usize) {
            Some(link) => link.after = after,
            None => self.ends[list].0 = after,
        }
        match self.links.get_mut(after as usize) {
            Some(link) => link.before = before,
            None => self.ends[list].1 = before,
        }
        if self.cursor == Some(slot) {
            self.cursor = Some(after);
        }
        self.links[slot as usize].list = NONE;
    }

    /// The connection that has been in TIME-WAIT for the longest time.
    #[inline]
    pub fn longest_waiting(&self) -> Option<u32> {
        Some(self.ends[WAITING].0).filter(|slot| *slot != NONE)
    }

    /// The time is now `now_ns` by the caller's clock. It advances by [`LONGEST_STEP_NS`] at most.
    #[inline]
    pub fn advance(&mut self, now_ns: u64) {
        let called_ns = self.called_ns.replace(now_ns).unwrap_or(now_ns);
        self.now_ns += now_ns.saturating_sub(called_ns).min(LONGEST_STEP_NS);
    }

    /// A connection whose timer has expired; its timer is cleared. To be called until there is none.
    #[inline]
    pub fn expired(&mut self) -> Option<u32> {
        let until = self.now_ns / TICK_NS;
        let slot = self.waiting_until(until).or_else(|| self.in_wheel_until(until))?;
        self.clear(slot);
        Some(slot)
    }

    fn waiting_until(&self, tick: u64) -> Option<u32> {
        self.longest_waiting().filter(|slot| self.links[*slot as usize].due_tick <= tick)
    }

    fn in_wheel_until(&mut self, until: u64) -> Option<u32> {
        while self.tick <= until {
            let first = self.ends[self.tick as usize % LISTS].0;
            let mut at = self.cursor.unwrap_or(first);
            while let Some(link) = self.links.get(at as usize) {
                // Others are due after one more turn of the wheel, or several.
                if link.due_tick <= self.tick {
                    self.cursor = Some(at);
                    return Some(at);
                }
                at = link.after;
            }
            self.cursor = None;
            self.tick += 1;
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn expired(timers: &mut Timers, now_ns: u64) -> Vec<u32> {
        timers.advance(now_ns);
        std::iter::from_fn(|| timers.expired()).collect()
    }

    #[test]
    fn a_program_without_a_cpu_lets_no_timer_expire() {
        let mut timers = Timers::new(1);
        timers.advance(0);
        timers.set(0, 1_000_000_000);
        assert!(expired(&mut timers, 5_000_000_000).is_empty());
    }

    proptest! {
        /// Each timer expires once, at its time or up to two ticks later, whatever is set and cleared
        /// meanwhile.
        #[test]
        fn timers_expire_at_their_times(
            steps in proptest::collection::vec((0_u32..20, 0_u64..40_000, 0_u8..4), 1..60),
        ) {
            let mut timers = Timers::new(20);
            let mut due: [Option<u64>; 20] = [None; 20];
            let mut now_ms = 0;
            timers.advance(0);
            let step = |timers: &mut Timers, due: &mut [Option<u64>; 20], now_ms: &mut u64| {
                *now_ms += 10;
                for slot in expired(timers, *now_ms * 1_000_000) {
                    let at = due[slot as usize].take();
                    prop_assert!(at.is_some_and(|at| at <= *now_ms && *now_ms <= at + 18), "{at:?} {now_ms}");
                }
                Ok(())
            };
            for (slot, after_ms, what) in steps {
                match what {
                    0 => (timers.clear(slot), due[slot as usize] = None).1,
                    // All in TIME-WAIT wait equally long.
                    1 => (timers.wait(slot, 3_000_000_000), due[slot as usize] = Some(now_ms + 3000)).1,
                    _ => (timers.set(slot, after_ms * 1_000_000), due[slot as usize] = Some(now_ms + after_ms)).1,
                }
                for _ in 0..after_ms % 50 {
                    step(&mut timers, &mut due, &mut now_ms)?;
                }
            }
            for _ in 0..4500 {
                step(&mut timers, &mut due, &mut now_ms)?;
            }
            prop_assert!(due.iter().all(Option::is_none), "{due:?}");
            prop_assert_eq!(timers.longest_waiting(), None);
        }
    }
}
