//! The types that threads of a trial share. Under `--cfg kpps_loom` the tests of [`state`](super::state) try
//! all orders in which threads may see each other's writes (`make loom`).

#[cfg(all(test, kpps_loom))]
pub(crate) use loom::sync::{
    Mutex,
    atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
};
#[cfg(not(all(test, kpps_loom)))]
pub(crate) use std::sync::{
    Mutex,
    atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
};

use std::sync::OnceLock;

/// A value that is set once, and what happened before is seen by whoever sees it.
#[derive(Debug)]
pub(crate) struct Once<T> {
    value: OnceLock<T>,
    /// loom does not know [`OnceLock`].
    #[cfg(all(test, kpps_loom))]
    is_set: AtomicBool,
}

impl<T> Default for Once<T> {
    fn default() -> Self {
        Self {
            value: OnceLock::new(),
            #[cfg(all(test, kpps_loom))]
            is_set: AtomicBool::new(false),
        }
    }
}

impl<T: Copy> Once<T> {
    /// Sets it, if it is not set yet.
    pub(crate) fn set(&self, value: T) {
        self.value.get_or_init(|| value);
        #[cfg(all(test, kpps_loom))]
        self.is_set.store(true, Ordering::Release);
    }

    /// The value, if it is set.
    pub(crate) fn get(&self) -> Option<T> {
        #[cfg(all(test, kpps_loom))]
        if !self.is_set.load(Ordering::Acquire) {
            return None;
        }
        self.value.get().copied()
    }
}
