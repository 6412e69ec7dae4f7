//! A stimulus: ARP requests for the guest's address, one every second, until the guest answers.

use super::path::{Answer, Path, SECOND_PS};
use kpps_frames::Mac;

/// The result of ARP requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Resolved {
    /// When the stimulus began, in ps.
    pub started_ps: u64,
    /// Requests so far.
    pub sent: u64,
    /// When the first reply came, in ps, and the station address in it.
    pub answer: Option<(u64, Mac)>,
}

/// The requests.
#[derive(Debug)]
pub struct Resolve {
    result: Resolved,
    due_ps: u64,
}

impl Resolve {
    /// Requests from `now_ps` on.
    pub fn new(now_ps: u64) -> Self {
        Self { result: Resolved { started_ps: now_ps, ..Resolved::default() }, due_ps: now_ps }
    }

    /// The result so far.
    pub fn result(&self) -> Resolved {
        self.result
    }

    /// When the next request is due, in ps.
    pub fn due_ps(&self) -> u64 {
        self.due_ps
    }

    /// The next request.
    pub fn next(&mut self, now_ps: u64, path: &Path) -> Option<Vec<u8>> {
        if self.due_ps > now_ps {
            return None;
        }
        self.due_ps = now_ps.saturating_add(SECOND_PS);
        self.result.sent += 1;
        path.arp_request(path.guest)
    }

    /// Takes an answer of the guest.
    pub fn take(&mut self, now_ps: u64, answer: &Answer<'_>) {
        if let Answer::Arp(mac) = *answer
            && self.result.sent > 0
            && self.result.answer.is_none()
        {
            self.result.answer = Some((now_ps, mac));
            self.due_ps = u64::MAX;
        }
    }
}
