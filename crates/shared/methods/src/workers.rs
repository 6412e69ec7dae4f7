//! Work on all CPUs.

use std::thread::{Builder, available_parallelism, scope};

/// Calls `work` on this thread and at the same time on others: as many in all as there are CPUs, and at most
/// `most`. Each call takes its share until nothing is left. So where the system has no thread to give, the
/// work takes longer, and all of it is done.
pub fn on_all_cpus(most: usize, work: impl Fn() + Sync) {
    let threads = available_parallelism().map_or(1, usize::from).min(most);
    on_threads(threads, work, |builder| builder);
}

fn on_threads(threads: usize, work: impl Fn() + Sync, prepare: impl Fn(Builder) -> Builder) {
    scope(|scope| {
        for number in 1..threads {
            let builder = prepare(Builder::new().name(format!("worker {number}")));
            if builder.spawn_scoped(scope, &work).is_err() {
                break;
            }
        }
        work();
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

    /// The sum of the numbers below 1000, by several threads.
    fn sum(prepare: impl Fn(Builder) -> Builder) -> (usize, usize) {
        let (next, sum, workers) = (AtomicUsize::new(0), AtomicUsize::new(0), AtomicUsize::new(0));
        let work = || {
            workers.fetch_add(1, Relaxed);
            while let number @ 0..1000 = next.fetch_add(1, Relaxed) {
                sum.fetch_add(number, Relaxed);
            }
        };
        on_threads(4, work, prepare);
        (sum.into_inner(), workers.into_inner())
    }

    #[test]
    fn all_is_done_with_threads_and_without() {
        assert_eq!(sum(|builder| builder), (499_500, 4));
        // No system has such a stack.
        assert_eq!(sum(|builder| builder.stack_size(1 << 60)), (499_500, 1));
    }
}
