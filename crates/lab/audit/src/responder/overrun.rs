//! A stimulus: a burst of frames as fast as the wire carries them, longer than the guest's receive ring.
//!
//! Broadcast ARP requests for other addresses and unicast echo requests come in turns, all of 60 bytes
//! without FCS.

use super::path::{Answer, Path, pattern};
use std::net::Ipv4Addr;

/// Data of an echo request in bytes: its frame is one of the shortest.
const DATA_BYTES: usize = 18;
/// The last byte of the first address that is asked for, and how many follow it in turns. Neither end has
/// one of them by default.
const FIRST_HOST: u8 = 100;
const HOSTS: u32 = 100;

/// The result of a burst.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Overrun {
    /// When the stimulus began, in ps.
    pub started_ps: u64,
    /// When the last frame was sent, in ps; `None` before.
    pub ended_ps: Option<u64>,
    /// ARP requests so far. All frames are, if the guest's station address is unknown.
    pub asked: u64,
    /// Echo requests so far.
    pub sent: u64,
    /// Echo replies of the guest so far. A guest may lose requests in a burst: its ring is full.
    pub answered: u64,
}

/// The burst.
#[derive(Debug)]
pub struct Burst {
    id: u16,
    count: u32,
    result: Overrun,
}

impl Burst {
    /// `count` frames from `now_ps` on, with this ICMP identifier.
    pub fn new(now_ps: u64, id: u16, count: u32) -> Self {
        let ended_ps = (count == 0).then_some(now_ps);
        Self { id, count, result: Overrun { started_ps: now_ps, ended_ps, ..Overrun::default() } }
    }

    /// The result so far.
    pub fn result(&self) -> Overrun {
        self.result
    }

    /// When the next frame is due, in ps.
    pub fn due_ps(&self) -> u64 {
        if self.result.ended_ps.is_some() { u64::MAX } else { self.result.started_ps }
    }

    /// The next frame.
    pub fn next(&mut self, now_ps: u64, path: &Path) -> Option<Vec<u8>> {
        if self.due_ps() > now_ps {
            return None;
        }
        let number = (self.result.asked + self.result.sent) as u32;
        if number + 1 >= self.count {
            self.result.ended_ps = Some(now_ps);
        }
        if number % 2 == 1
            && let Some(frame) = path.echo_request([self.id, number as u16], &pattern(number, DATA_BYTES))
        {
            self.result.sent += 1;
            return Some(frame);
        }
        self.result.asked += 1;
        let [a, b, c, _] = path.own.ip.octets();
        let host = FIRST_HOST + (number / 2 % HOSTS) as u8;
        path.arp_request(Ipv4Addr::new(a, b, c, host))
    }

    /// Takes an answer of the guest.
    pub fn take(&mut self, answer: &Answer<'_>) {
        if let Answer::Echo { id: [id, _], .. } = *answer
            && id == self.id
        {
            self.result.answered += 1;
        }
    }
}
