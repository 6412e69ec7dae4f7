//! The state that the ends of a trial share while it runs.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// A receiver that misses nothing waits only this long for duplicates.
const QUIET: Duration = Duration::from_millis(50);

/// The state of a trial, shared by all of its threads. An end on another host has a copy, which is told what
/// this one knows ([`has_sent`](Self::has_sent), [`abandon`](Self::abandon)).
#[derive(Debug)]
pub struct TrialState {
    /// The number of ends that send.
    senders: usize,
    /// Ends that still send.
    sending: AtomicUsize,
    /// When the last of them had sent all.
    ended: OnceLock<Instant>,
    /// Frames that each end has sent, once it has sent all.
    sent: [AtomicU64; 2],
    /// Frames that each end has sent and received so far.
    so_far: [[AtomicU64; 2]; 2],
    /// The user interrupted the trial, or something failed.
    abandoned: AtomicBool,
    /// Nobody waits for frames still under way.
    closed: AtomicBool,
}

impl TrialState {
    /// For a trial in which so many ends send.
    pub fn new(senders: usize) -> Self {
        Self {
            senders,
            sending: AtomicUsize::new(senders),
            ended: OnceLock::new(),
            sent: [const { AtomicU64::new(u64::MAX) }; 2],
            so_far: [const { [const { AtomicU64::new(0) }; 2] }; 2],
            abandoned: AtomicBool::new(false),
            closed: AtomicBool::new(false),
        }
    }

    /// The number of ends that send.
    pub fn senders(&self) -> usize {
        self.senders
    }

    /// Records that an end has sent all its frames. A second call for the same end has no effect.
    pub fn has_sent(&self, at: usize, frames: u64) {
        let news = self.sent[at].compare_exchange(u64::MAX, frames, Ordering::Relaxed, Ordering::Relaxed);
        if news.is_ok() && self.sending.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.ended.get_or_init(Instant::now);
        }
    }

    /// When the last end had sent all.
    pub(crate) fn ended(&self) -> Option<Instant> {
        self.ended.get().copied()
    }

    /// Frames that an end has sent, once it has sent all.
    pub fn sent(&self, at: usize) -> Option<u64> {
        Some(self.sent[at].load(Ordering::Relaxed)).filter(|&frames| frames != u64::MAX)
    }

    /// Records the frames that an end has sent so far.
    pub fn sends(&self, at: usize, frames: u64) {
        self.so_far[at][0].store(frames, Ordering::Relaxed);
    }

    /// Records the frames that an end has received so far.
    pub fn receives(&self, at: usize, frames: u64) {
        self.so_far[at][1].store(frames, Ordering::Relaxed);
    }

    /// Frames that an end has sent and received so far.
    pub fn so_far(&self, at: usize) -> (u64, u64) {
        let [sent, received] = &self.so_far[at];
        (sent.load(Ordering::Relaxed), received.load(Ordering::Relaxed))
    }

    /// Ends the trial now.
    pub fn abandon(&self) {
        self.abandoned.store(true, Ordering::Relaxed);
    }

    /// Ends the trial now, without waiting for frames still under way.
    pub fn close(&self) {
        self.abandon();
        self.closed.store(true, Ordering::Relaxed);
    }

    /// Whether the trial ends before its time.
    pub fn is_abandoned(&self) -> bool {
        self.abandoned.load(Ordering::Relaxed)
    }

    /// Whether the receiver at this end need not wait any longer. It has `received` so many frames, the last
    /// one `quiet` ago.
    pub(crate) fn is_over(&self, at: usize, received: u64, quiet: Duration, drain: Duration) -> bool {
        if self.closed.load(Ordering::Relaxed) {
            return true;
        }
        let Some(ended) = self.ended.get() else { return false };
        let nothing_missing = received >= self.sent[1 - at].load(Ordering::Relaxed);
        ended.elapsed() >= drain || nothing_missing && quiet >= QUIET
    }
}
