//! The common beginning of several senders. Under `--cfg kpps_loom` the tests try all orders of their
//! threads.

use super::part::PlanPart;
#[cfg(all(test, kpps_loom))]
use loom::sync::{Condvar, Mutex, MutexGuard};
use std::sync::PoisonError;
#[cfg(not(all(test, kpps_loom)))]
use std::sync::{Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant};

/// How long after the last sender is ready all begin: meanwhile the others wake.
const WAKE: Duration = Duration::from_millis(1);

/// The common beginning of several senders: each waits until all are ready, and their times count from the
/// same moment.
#[derive(Debug)]
pub struct Beginning {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug)]
struct State {
    /// Senders that are not ready.
    missing: usize,
    /// The earliest time that a sender asked for.
    earliest: Option<Instant>,
    /// The beginning, once all are ready.
    at: Option<Instant>,
}

impl Beginning {
    /// Of this number of senders. Each needs a [`Starter`].
    pub fn of(senders: usize) -> Self {
        let state = State { missing: senders, earliest: None, at: None };
        Self { state: Mutex::new(state), changed: Condvar::new() }
    }

    /// The part of each core that sends a part of a plan; none if only one sends.
    pub fn starters(&self, parts: &[Option<PlanPart>]) -> Vec<Option<Starter<'_>>> {
        let are_several = parts.iter().flatten().count() > 1;
        parts.iter().map(|part| part.as_ref().filter(|_| are_several).map(|_| self.starter())).collect()
    }

    /// The part of one of them.
    pub fn starter(&self) -> Starter<'_> {
        Starter { all: self, is_counted: false }
    }

    /// One more sender is ready, or will never be.
    fn count(&self, earliest: Option<Instant>) -> MutexGuard<'_, State> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.earliest = state.earliest.max(earliest);
        state.missing = state.missing.saturating_sub(1);
        if state.missing == 0 && state.at.is_none() {
            let at = Instant::now() + WAKE;
            state.at = Some(state.earliest.map_or(at, |earliest| earliest.max(at)));
            self.changed.notify_all();
        }
        state
    }
}

/// The part of one sender in a common beginning. The others do not wait for one that is dropped.
#[derive(Debug)]
pub struct Starter<'b> {
    all: &'b Beginning,
    is_counted: bool,
}

impl Starter<'_> {
    /// This sender is ready. Waits until all are, and until they begin, which is not before `earliest`.
    /// Returns the beginning, the same for all.
    pub fn begin(mut self, earliest: Option<Instant>) -> Instant {
        self.is_counted = true;
        let mut state = self.all.count(earliest);
        let at = loop {
            match state.at {
                Some(at) => break at,
                None => state = self.all.changed.wait(state).unwrap_or_else(PoisonError::into_inner),
            }
        };
        drop(state);
        std::thread::sleep(at.saturating_duration_since(Instant::now()));
        at
    }
}

impl Drop for Starter<'_> {
    fn drop(&mut self) {
        if !self.is_counted {
            drop(self.all.count(None));
        }
    }
}

#[cfg(all(test, kpps_loom))]
mod orders {
    use super::*;
    use loom::sync::Arc;
    use loom::thread;

    /// Two senders begin at one moment, whether a third one is ready or fails, and in whatever order.
    #[test]
    fn all_begin_together_in_any_order() {
        for fails in [true, false] {
            loom::model(move || {
                let beginning = Arc::new(Beginning::of(3));
                let sender = |fails: bool| {
                    let beginning = beginning.clone();
                    thread::spawn(move || {
                        let starter = beginning.starter();
                        (!fails).then(|| starter.begin(None))
                    })
                };
                let others = [sender(fails), sender(false)];
                let at = beginning.starter().begin(None);
                let begins: Vec<_> = others.into_iter().map(|thread| thread.join().unwrap()).collect();
                assert_eq!(begins, [(!fails).then_some(at), Some(at)]);
            });
        }
    }
}

#[cfg(all(test, not(kpps_loom)))]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn all_begin_at_the_same_time_and_do_not_wait_for_one_that_fails() {
        let beginning = Beginning::of(4);
        let earliest = Instant::now() + Duration::from_millis(5);
        let starts = std::thread::scope(|scope| {
            let begin = |core: usize| {
                let starter = beginning.starter();
                let start = move || (core != 2).then(|| starter.begin((core == 1).then_some(earliest)));
                scope.spawn(start)
            };
            let threads: Vec<_> = (0..4).map(begin).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect::<Vec<_>>()
        });
        assert_eq!(starts[2], None);
        let begins: Vec<_> = starts.into_iter().flatten().collect();
        assert!(begins.len() == 3 && begins.iter().all(|at| *at == begins[0] && *at >= earliest));
    }
}
