//! Waiting for something for a limited time, in a thread of its own.
//!
//! It needs no runtime: that of an agent may end first.

use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;
use std::time::{Duration, Instant};

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Waits for a future; `None` if it takes longer than `patience`, which may be [`Duration::MAX`].
pub(crate) fn within<F: Future>(patience: Duration, future: F) -> Option<F::Output> {
    let end = Instant::now().checked_add(patience);
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut context = Context::from_waker(&waker);
    let mut future = pin!(future);
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut context) {
            return Some(output);
        }
        let left = end.map_or(patience, |end| end.saturating_duration_since(Instant::now()));
        if left.is_zero() {
            return None;
        }
        std::thread::park_timeout(left);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::sync::mpsc;

    #[test]
    fn what_comes_in_time_is_had_and_what_does_not_is_not() {
        let (to, mut from) = mpsc::channel(1);
        std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(20));
            to.blocking_send(7)
        });
        assert_eq!(within(Duration::MAX, from.recv()), Some(Some(7)));
        assert_eq!(within(Duration::from_secs(60), from.recv()), Some(None));
        assert_eq!(within(Duration::from_millis(20), std::future::pending::<()>()), None);
    }
}
