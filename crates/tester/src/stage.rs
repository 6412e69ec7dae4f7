//! What the ends of a trial tell each other while it goes on.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// A receiver to whom nothing is missing waits only this long for duplicates.
const QUIET: Duration = Duration::from_millis(50);

/// The state of a trial, shared by all who work on it. An end that is elsewhere has one of its own, which is told what this
/// one knows ([`has_sent`](Self::has_sent), [`abandon`](Self::abandon)).
#[derive(Debug)]
pub struct Stage {
    /// Ends that send in all.
    senders: usize,
    /// Ends that still send.
    sending: AtomicUsize,
    /// When the last of them was done.
    ended: OnceLock<Instant>,
    /// What each end has sent, once it is done.
    sent: [AtomicU64; 2],
    /// What each end has sent and received so far.
    so_far: [[AtomicU64; 2]; 2],
    /// Someone had enough, or something failed.
    abandoned: AtomicBool,
    /// Nobody waits for what is still to come.
    closed: AtomicBool,
}

impl Stage {
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

    /// Ends that send in all.
    pub fn senders(&self) -> usize {
        self.senders
    }

    /// An end has sent all its frames. Said again, it is not heard.
    pub fn has_sent(&self, at: usize, frames: u64) {
        let news = self.sent[at].compare_exchange(u64::MAX, frames, Ordering::Relaxed, Ordering::Relaxed);
        if news.is_ok() && self.sending.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.ended.get_or_init(Instant::now);
        }
    }

    /// When the last end that sends was done.
    pub(crate) fn ended(&self) -> Option<Instant> {
        self.ended.get().copied()
    }

    /// What an end has sent in all, once it is done.
    pub fn sent(&self, at: usize) -> Option<u64> {
        Some(self.sent[at].load(Ordering::Relaxed)).filter(|&frames| frames != u64::MAX)
    }

    /// An end has sent so many frames so far.
    pub fn sends(&self, at: usize, frames: u64) {
        self.so_far[at][0].store(frames, Ordering::Relaxed);
    }

    /// An end has received so many frames so far.
    pub fn receives(&self, at: usize, frames: u64) {
        self.so_far[at][1].store(frames, Ordering::Relaxed);
    }

    /// What an end has sent and received so far.
    pub fn so_far(&self, at: usize) -> (u64, u64) {
        let [sent, received] = &self.so_far[at];
        (sent.load(Ordering::Relaxed), received.load(Ordering::Relaxed))
    }

    /// The trial is to end now.
    pub fn abandon(&self) {
        self.abandoned.store(true, Ordering::Relaxed);
    }

    /// The trial is to end now, and nobody waits for what is still to come.
    pub fn close(&self) {
        self.abandon();
        self.closed.store(true, Ordering::Relaxed);
    }

    /// Whether the trial is to end before its time.
    pub fn is_abandoned(&self) -> bool {
        self.abandoned.load(Ordering::Relaxed)
    }

    /// Whether the receiver at this end need not wait any longer; it has `received` so many, the last one `quiet` ago.
    pub(crate) fn is_over(&self, at: usize, received: u64, quiet: Duration, settle: Duration) -> bool {
        if self.closed.load(Ordering::Relaxed) {
            return true;
        }
        let Some(ended) = self.ended.get() else { return false };
        let nothing_missing = received >= self.sent[1 - at].load(Ordering::Relaxed);
        ended.elapsed() >= settle || nothing_missing && quiet >= QUIET
    }
}
